/* compile.c: the compiler, end to end. pass.def lists the passes in order; each is a few lines
 * below.
 *
 *   source --KEY passes--> canonical graph, digest       stx_compile_key    (one job)
 *   graph  --PLAN passes-> kernels as text, data plan    stx_compile_plan   (one job)
 *   kernel --emit--------> object                        stx_compile_emit   (a job a kernel)
 *   plan, objects --link-> shared object                 stx_compile_link   (one job)
 *
 * Every call owns one arena (struct run) and frees it before it returns. */
#include "compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "compile_run.h"
#include "fingerprint.h"
#include "passes.h"
#include "plan.h"

#define DEFAULT_MEMORY ((size_t)1 << 30)
#define CPU_CACHED_ROW 262144 /* in the second cache; a pair computes two exponentials an element */

/* ---- the passes, as pass.def names them ---- */

static stx_err pass_import(struct run *r)
{
	struct stx_given_value *v =
		STX_NEW_ARRAY(r->arena, struct stx_given_value, r->source->nvalues);
	if (!v)
		return STX_E_TOO_LARGE;
	for (uint32_t i = 0; i < r->source->nvalues; i++) {
		const struct stx_source_value *s = &r->source->values[i];
		v[i] = (struct stx_given_value){ .input = s->input,
						 .dtype = s->dtype,
						 .rank = s->rank,
						 .sizes = s->sizes,
						 .bytes = s->bytes.at,
						 .n = s->bytes.n };
	}
	struct stx_import_options o = { .values = v, .nvalues = r->source->nvalues };
	stx_err e = stx_import(r->arena, (enum stx_graph_format)r->source->format, r->source->body,
			       &o, &r->imported, r->d);
	r->graph = r->imported.graph;
	return e;
}

/* The reply names what is written into inputs after them. */
static stx_err pass_functionalise(struct run *r)
{
	struct stx_import_result *in = &r->imported;
	uint32_t n = r->graph->outputs.n;
	const char **names;
	stx_err e = stx_graph_functionalise(r->graph, r->d);
	if (e || r->graph->outputs.n == n)
		return e;
	names = STX_NEW_ARRAY(r->arena, const char *, r->graph->outputs.n);
	if (!names)
		return STX_E_TOO_LARGE;
	memcpy(names, in->output_names, n * sizeof *names);
	for (; n < r->graph->outputs.n; n++)
		names[n] = in->input_names[r->graph->outputs.at[n].writes - 1];
	in->output_names = names;
	return STX_E_OK;
}

/* Options whose compiler is not there yet: an artifact that ignored them would be a wrong answer,
 * and one for another size than it was asked for a crash. */
static stx_err check_offered(const struct run *r)
{
	const struct stx_compile_options *o = r->options;
	if (o->training)
		return stx_fail(r->d, STX_E_UNSUPPORTED, "verify", NULL,
				"training (--training) is not offered by this version yet");
	if (o->dynamic)
		return stx_fail(r->d, STX_E_UNSUPPORTED, "verify", NULL,
				"dynamic sizes (--dynamic) are not offered by this version yet");
	if (r->graph->symbols.n)
		return stx_fail(r->d, STX_E_UNSUPPORTED, "verify", NULL,
				"the graph declares the size symbol '%s': dynamic sizes are not "
				"offered by this version yet; write its sizes as numbers",
				r->graph->symbols.at[0].name);
	return STX_E_OK;
}

static stx_err pass_verify(struct run *r)
{
	return check_offered(r);
}

static stx_err pass_basis(struct run *r)
{
	struct stx_gpu_target t;
	if (stx_gpu_is_target(r->options->target)) {
		if (stx_gpu_target_parse(r->options->target, &t, r->d))
			return STX_E_UNSUPPORTED;
		r->graph->kept_row = stx_gpu_kept_row(&t.device);
	} else {
		r->graph->cached_row = CPU_CACHED_ROW;
	}
	return stx_graph_decompose_to_basis(&r->graph, r->d);
}

static stx_err pass_canonical(struct run *r)
{
	struct stx_graph *c;
	stx_err e = stx_graph_canonical(r->graph, r->arena, &c, r->d);
	if (e)
		return e;
	r->graph = c;
	return stx_graph_digest(c, &r->digest, r->d);
}

static stx_err pass_read(struct run *r)
{
	return stx_graph_parse(r->arena, (const char *)r->text.at, r->text.n, &r->graph, r->d);
}

static stx_err pass_simplify(struct run *r)
{
	return stx_graph_simplify(&r->graph,
				  r->options->fast ? STX_SIMPLIFY_FAST : STX_SIMPLIFY_STRICT, r->d);
}

static stx_err pass_primitives(struct run *r)
{
	r->graph->runs_scans = !stx_gpu_is_target(r->options->target);
	return stx_graph_decompose_to_primitives(&r->graph, r->d);
}

static stx_err pass_lower(struct run *r)
{
	struct stx_lower_options o = { .target_gpu = stx_gpu_is_target(r->options->target) };
#ifdef STX_LOWER_WITHOUT /* tests take an operator away: tests/conformance/test_strict_and_cache.c \
			  */
	o.without = STX_LOWER_WITHOUT;
#endif
	stx_err e = o.target_gpu ? STX_E_OK : stx_graph_attend(r->graph, r->options->fast, r->d);
	return e ? e : stx_lower(r->graph, &o, &r->loops, r->d);
}

static stx_err pass_schedule(struct run *r)
{
	struct stx_schedule_options o = { .target_gpu = stx_gpu_is_target(r->options->target),
					  .fast = r->options->fast,
					  .blockings = r->options->blockings };
	struct stx_gpu_target t;
	struct stx_cpu_target cpu;
	struct stx_device device;
	if (o.target_gpu && stx_gpu_target_parse(r->options->target, &t, r->d))
		return STX_E_UNSUPPORTED;
	if (o.target_gpu) {
		device = (struct stx_device){ (int32_t)t.device.sms, 32,
					      (int32_t)t.device.threads_per_sm };
		o.device = &device;
	} else if (stx_cpu_target_parse(r->options->target, &cpu, r->d)) {
		return STX_E_UNSUPPORTED;
	} else {
		o.cpu = &cpu;
	}
	return stx_schedule(r->loops, &o, &r->schedule, r->d);
}

static stx_err pass_write_plan(struct run *r)
{
	struct stx_gpu_target t;
	const struct stx_gpu_choices *choices = NULL;
	stx_err e = STX_E_OK;
	if (stx_gpu_is_target(r->options->target) &&
	    !(e = stx_gpu_target_parse(r->options->target, &t, r->d)) &&
	    !(choices = stx_tune_schedule(r->schedule, &t.device)))
		e = STX_E_TOO_LARGE;
	if (!e)
		e = stx_plan_write(r->schedule, r->options->target, choices, &r->plan, r->d);
	return e;
}

const struct pass stx__passes[] = {
#define STX_PASS(run, name, class, product, traits, stage)                                         \
	{ run, #name, class, product, traits, stage, pass_##name },
#include "pass.def"
#undef STX_PASS
};
const unsigned stx__npasses = sizeof stx__passes / sizeof *stx__passes;

/* ---- running them ---- */

void stx__compile_stage(struct stx_stage_time *stages, uint32_t *n, const char *name, uint64_t us)
{
	if (*n == STX_MAX_STAGES)
		return;
	size_t len = strlen(name);
	if (len >= sizeof stages->name)
		len = sizeof stages->name - 1;
	memcpy(stages[*n].name, name, len);
	stages[*n].name[len] = 0;
	stages[(*n)++].us = us;
}

stx_err stx__run_open(struct run *r, const struct stx_compile_options *o, struct stx_diag *d)
{
	memset(r, 0, sizeof *r);
	r->options = o;
	r->d = d;
	r->arena = stx_arena_new(o->memory_bytes ? o->memory_bytes : DEFAULT_MEMORY);
	return r->arena ? STX_E_OK : stx_fail(d, STX_E_NOMEM, "compile", NULL, "out of memory");
}

void stx__run_close(struct run *r)
{
	stx_bytes_free(&r->plan);
	stx_arena_free(r->arena);
}

/* ---- verifiers, by product ---- */

stx_err stx__verify_source(struct run *r)
{
	stx_err e = stx_graph_verify(r->graph, r->d);
	return e ? e : stx_graph_verify_symbols(r->graph, r->d);
}

static stx_err verify_product(struct run *r, enum product product)
{
	struct stx_plan p;
	stx_err e = STX_E_OK;
	switch (product) {
	case SOURCE: return STX_E_OK;
	case GRAPH: return stx__verify_source(r);
	case BASIS: return stx_graph_verify_basis(r->graph, r->d);
	case LOOPS: return stx_loops_verify(r->loops, r->d);
	case KERNELS:
		for (unsigned i = 0; !e && i < r->schedule->kernels.n; i++)
			e = stx_kernel_verify(r->schedule->kernels.at[i], r->d);
		return e;
	default: return stx_plan_open((struct stx_span){ r->plan.at, r->plan.n }, &p, r->d);
	}
}

/* After KEY has verified the graph, what a verifier refuses is the compiler's doing. */
static stx_err own_fault(struct run *r, stx_err e)
{
	if (e != STX_E_INVALID && e != STX_E_MISMATCH && e != STX_E_CORRUPT)
		return e;
	if (r->d && r->d->code)
		r->d->code = STX_E_INTERNAL;
	return STX_E_INTERNAL;
}

stx_err stx__run_pass(struct run *r, const struct pass *p)
{
	uint64_t start = stx_clock_us();
	stx_err e = p->fn(r);
	r->last = p;
#ifdef STX_AFTER_PASS /* tests put a fault in here: tests/unit/kernels/test_layers.c */
	if (!e)
		STX_AFTER_PASS(r, p->name);
#endif
	if (!e) {
		e = verify_product(r, p->product);
		if (e && p->product != GRAPH)
			e = own_fault(r, e);
	}
	stx__compile_stage(r->stages, &r->nstages, p->name, stx_clock_us() - start);
	if (!e && stx_arena_oom(r->arena))
		e = STX_E_TOO_LARGE;
	if (e && stx_arena_oom(r->arena) && r->d && e != STX_E_NEED_VALUES) {
		stx_diag_clear(r->d);
		return stx_fail(
			r->d, STX_E_TOO_LARGE, p->name, NULL,
			"the graph needs more than the %zu MiB a compile may use",
			(r->options->memory_bytes ? r->options->memory_bytes : DEFAULT_MEMORY) >>
				20);
	}
	if (e && p->run == PLAN)
		e = own_fault(r, e);
	return e ? stx_fail(r->d, e, p->name, NULL, "%s", stx_err_text(e)) : STX_E_OK;
}

const struct pass *stx__pass_of_stage(const char *stage)
{
	for (unsigned i = 0; i < stx__npasses; i++)
		if (stx__passes[i].stage && !strcmp(stx__passes[i].stage, stage))
			return &stx__passes[i];
	return NULL;
}

const struct pass *stx__pass_functionalise(void)
{
	const struct pass *p = stx__passes;
	while (p->fn != pass_functionalise)
		p++;
	return p;
}

stx_err stx__run_passes(struct run *r, enum which_run which, const struct pass *until)
{
	for (unsigned i = 0; i < stx__npasses; i++) {
		const struct pass *p = &stx__passes[i];
		if (p->run != which)
			continue;
		stx_err e = stx__run_pass(r, p);
		if (e || p == until)
			return e;
	}
	return STX_E_OK;
}

/* ---- the compiler object ---- */

static stx_err warm_up(struct stx_compiler *c, struct stx_diag *d);

stx_err stx_compiler_new(int cuda, struct stx_compiler **out, struct stx_diag *d)
{
	struct stx_compiler *c = calloc(1, sizeof *c);
	char llvm[32];
	*out = NULL;
	if (!c)
		return stx_fail(d, STX_E_NOMEM, "warm", NULL, "out of memory");
	stx_err e = stx_llvm_new(&c->llvm, d);
	if (!e && cuda)
		stx_nvrtc_new(NULL, &c->nvrtc, &c->no_nvrtc);
	stx_llvm_version(llvm);
	if (!e)
		e = stx_fingerprint_loaded(llvm, &c->fingerprint, d);
	if (!e)
		e = warm_up(c, d);
	if (!e && !cuda)
		stx_fail(&c->no_nvrtc, STX_E_UNSUPPORTED, "nvrtc", NULL,
			 "CUDA targets are switched off here (cuda = no, or STAX_CUDA=0)");
	if (e) {
		stx_compiler_free(c);
		return e;
	}
	*out = c;
	return STX_E_OK;
}

void stx_compiler_free(struct stx_compiler *c)
{
	if (!c)
		return;
	stx_llvm_free(c->llvm);
	stx_nvrtc_free(c->nvrtc);
	free(c);
}

struct stx_digest stx_compiler_fingerprint(const struct stx_compiler *c)
{
	return c->fingerprint;
}

/* ---- key ---- */

static stx_err copy_names(struct stx_name_list *l, const char *const *names, uint32_t n)
{
	l->at = calloc(n ? n : 1, sizeof *l->at);
	if (!l->at)
		return STX_E_NOMEM;
	for (l->n = 0; l->n < n; l->n++)
		if (!(l->at[l->n] = strdup(names[l->n] ? names[l->n] : "")))
			return STX_E_NOMEM;
	return STX_E_OK;
}

static int by_name(const void *a, const void *b)
{
	char *const *x = *(char *const *const *)a, *const *y = *(char *const *const *)b;
	int c = strcmp(*x, *y);
	return c ? c : (x > y) - (x < y);
}

/* A value returned twice, or returned and written into an input, has one name: the second of them
 * becomes NAME#2, so that files and expectations can be told apart. */
static stx_err make_distinct(struct stx_name_list *l)
{
	char ***order = calloc(l->n + 1u, sizeof *order);
	uint32_t first = 0;
	stx_err e = order ? STX_E_OK : STX_E_NOMEM;
	for (uint32_t i = 0; order && i < l->n; i++)
		order[i] = &l->at[i];
	if (order)
		qsort(order, l->n, sizeof *order, by_name);
	for (uint32_t i = 1; !e && i < l->n; i++) {
		char *longer;
		if (strcmp(*order[first], *order[i]) != 0) {
			first = i;
			continue;
		}
		if (asprintf(&longer, "%s#%u", *order[i], i - first + 1) < 0) {
			e = STX_E_NOMEM;
			break;
		}
		free(*order[i]);
		*order[i] = longer;
	}
	free(order);
	return e;
}

static stx_err copy_needed(struct stx_key_result *out, const struct stx_import_result *in)
{
	out->needed.at = calloc(in->nneeded ? in->nneeded : 1, sizeof(char *));
	out->needed_why.at = calloc(in->nneeded ? in->nneeded : 1, sizeof(char *));
	if (!out->needed.at || !out->needed_why.at)
		return STX_E_NOMEM;
	for (uint32_t i = 0; i < in->nneeded; i++) {
		out->needed.at[i] = strdup(in->needed[i].input);
		out->needed_why.at[i] = strdup(in->needed[i].why);
		out->needed.n = out->needed_why.n = i + 1;
		if (!out->needed.at[i] || !out->needed_why.at[i])
			return STX_E_NOMEM;
	}
	return STX_E_OK;
}

stx_err stx_compile_key(struct stx_compiler *c, const struct stx_source *s,
			const struct stx_compile_options *o, struct stx_key_result *out,
			struct stx_diag *d)
{
	struct run r;
	(void)c;
	memset(out, 0, sizeof *out);
	stx_err e = stx__run_open(&r, o, d);
	if (e)
		return e;
	r.source = s;
	e = stx__run_passes(&r, KEY, NULL);
	if (e == STX_E_NEED_VALUES && copy_needed(out, &r.imported))
		e = STX_E_NOMEM;
	if (!e) {
		e = stx_graph_print(r.graph, &out->graph);
		out->graph_digest = r.digest;
	}
	if (!e)
		e = copy_names(&out->inputs, r.imported.input_names, r.imported.graph->inputs.n);
	if (!e)
		e = copy_names(&out->outputs, r.imported.output_names, r.imported.graph->outputs.n);
	if (!e)
		e = make_distinct(&out->outputs);
	memcpy(out->stages, r.stages, sizeof out->stages);
	out->nstages = r.nstages;
	stx__run_close(&r);
	return e;
}

/* ---- plan ---- */

static stx_err describe_kernel(const struct stx_kernel *k, struct stx_kernel_desc *out,
			       struct stx_diag *d)
{
	stx_err e = stx_kernel_print(k, &out->ir);
	if (!e)
		e = stx_kernel_digest(k, &out->digest, d);
	size_t n = strlen(k->name);
	n = n < sizeof out->name ? n : sizeof out->name - 1;
	memcpy(out->name, k->name, n);
	return e;
}

static stx_err describe_target(const struct stx_kernel *k, const char *target,
			       char out[STX_TARGET_BYTES], struct stx_diag *d)
{
	struct stx_cpu_target t, all;
	if (stx_gpu_is_target(target))
		return STX_E_OK;
	stx_err e = stx_cpu_target_parse(target, &all, d);
	if (e)
		return e;
	t = all;
	stx_emit_target(k, &t);
	if (!stx_cpu_target_covers(&t, &all))
		stx_cpu_target_print(&t, out);
	return STX_E_OK;
}

static void at_hints(const struct stx_plan *p, const int64_t *hints, const uint32_t *exprs,
		     uint32_t out[3])
{
	for (int j = 0; j < 3; j++) {
		int ok = 1;
		int64_t n = stx_plan_eval(p, exprs[j], hints, &ok);
		out[j] = clamp_u32(ok ? n : 0);
	}
}

/* Those worth measuring of the kernel's product, and its name. */
static stx_err describe_product(struct run *r, const struct stx_cut_product *p,
				struct stx_kernel_desc *out)
{
	struct stx_config_desc *all;
	uint32_t n;
	stx_err e =
		stx__product_space((struct stx_span){ (const uint8_t *)p->text, strlen(p->text) },
				   r->options, STX_BLOCKINGS, &all, &n, r->d);
	if (e)
		return e;
	memcpy(out->product, p->text, sizeof out->product);
	out->configs = all;
	out->nconfigs = n;
	return STX_E_OK;
}

static stx_err describe_configs(const struct stx_plan *p, const int64_t *hints, uint32_t kernel,
				struct stx_kernel_desc *out, struct stx_diag *d)
{
	uint32_t n;
	const struct stx_plan_config *c = stx_plan_configs(p, kernel, &n);
	if (!n)
		return STX_E_OK;
	if (!(out->configs = calloc(n, sizeof *out->configs)))
		return stx_fail(d, STX_E_NOMEM, "plan", NULL, "out of memory");
	for (out->nconfigs = 0; out->nconfigs < n; out->nconfigs++) {
		struct stx_config_desc *to = &out->configs[out->nconfigs];
		const char *text = stx_plan_string(p, c[out->nconfigs].text);
		memcpy(to->text, text, strnlen(text, sizeof to->text - 1));
		at_hints(p, hints, c[out->nconfigs].grid_expr, to->grid);
		memcpy(to->block, c[out->nconfigs].block, sizeof to->block);
	}
	return STX_E_OK;
}

/* Grids and blocks as the plan has them, at the size hints. */
static stx_err describe_launches(struct run *r, struct stx_plan_result *out, struct stx_diag *d)
{
	struct stx_plan p;
	stx_err e = stx_plan_open((struct stx_span){ r->plan.at, r->plan.n }, &p, d);
	if (e)
		return e;
	int64_t *hints = STX_NEW_ARRAY(r->arena, int64_t, p.h->nsyms + 1);
	if (!hints)
		return stx_fail(d, STX_E_NOMEM, "plan", NULL, "out of memory");
	for (uint32_t i = 0; i < p.h->nsyms; i++)
		hints[i] = p.syms[i].hint;
	for (uint32_t i = 0; i < out->nkernels && !e; i++) {
		at_hints(&p, hints, p.kernels[i].grid_expr, out->kernels[i].grid);
		memcpy(out->kernels[i].block, p.kernels[i].block, sizeof p.kernels[i].block);
		e = describe_configs(&p, hints, i, &out->kernels[i], d);
	}
	return e;
}

/* What cannot be compiled is an error that names the operator (ST-01), unless the request allows
 * interpretation. */
static stx_err plan_or_fall_back(struct run *r, struct stx_diag *d)
{
	struct stx_diag why = { 0 };
	r->d = &why;
	stx_err e = stx__run_passes(r, PLAN, NULL);
	r->d = d;
	if (stx__can_fall_back(r, e))
		return stx__fall_back(r, &why);
	if (e) {
		if (d && !d->code)
			*d = why;
		return e;
	}
	if (r->options->allow_fallback &&
	    stx_push(r->arena, &r->schedule->report, "allow_fallback: nothing falls back"))
		return stx_fail(d, STX_E_NOMEM, "plan", NULL, "out of memory");
	return STX_E_OK;
}

stx_err stx_compile_plan(struct stx_compiler *c, struct stx_span graph,
			 const struct stx_compile_options *o, struct stx_plan_result *out,
			 struct stx_diag *d)
{
	struct run r;
	(void)c;
	memset(out, 0, sizeof *out);
	stx_err e = stx__run_open(&r, o, d);
	if (e)
		return e;
	r.text = graph;
	e = plan_or_fall_back(&r, d);
	if (!e) {
		const struct stx_schedule *s = r.schedule;
		out->kernels = calloc(s->kernels.n ? s->kernels.n : 1, sizeof *out->kernels);
		if (!out->kernels)
			e = stx_fail(d, STX_E_NOMEM, "plan", NULL, "out of memory");
		for (unsigned i = 0; !e && i < s->kernels.n; i++) {
			e = describe_kernel(s->kernels.at[i], &out->kernels[i], d);
			if (!e)
				e = describe_target(s->kernels.at[i], o->target,
						    out->kernels[i].target, d);
			if (!e && s->kernels.at[i]->product)
				e = describe_product(&r, s->kernels.at[i]->product,
						     &out->kernels[i]);
			out->nkernels = i + 1;
		}
		if (!e)
			e = describe_launches(&r, out, d);
		if (!e)
			e = copy_names(&out->report, s->report.at, s->report.n);
		out->bytes_read = s->fused.bytes_read;
		out->bytes_written = s->fused.bytes_written;
		out->bytes_min = s->bytes_min;
		out->plan = r.plan; /* moved */
		memset(&r.plan, 0, sizeof r.plan);
	}
	memcpy(out->stages, r.stages, sizeof out->stages);
	out->nstages = r.nstages;
	stx__run_close(&r);
	return e;
}

/* ---- link ---- */

stx_err stx_compile_link(struct stx_compiler *c, struct stx_span plan,
			 const struct stx_span *objects, uint32_t nobjects, struct stx_bytes *out,
			 struct stx_diag *d)
{
	struct stx_bytes plan_object = { 0 };
	(void)c;
	struct stx_span *all = calloc((size_t)nobjects + 1, sizeof *all);
	if (!all)
		return stx_fail(d, STX_E_NOMEM, "link", NULL, "out of memory");
	stx_err e = stx_data_object(STX_PLAN_SECTION, "stax_plan", plan, &plan_object, d);
	if (e)
		goto done;
	all[0] = (struct stx_span){ plan_object.at, plan_object.n };
	if (nobjects)
		memcpy(all + 1, objects, nobjects * sizeof *all);
	e = stx_link_shared(all, nobjects + 1, out, d);
	if (!e && stx_artifact_seal(out))
		e = stx_fail(d, STX_E_NOMEM, "link", NULL, "out of memory");
done:
	stx_bytes_free(&plan_object);
	free(all);
	return e;
}

/* ---- warm: one small graph through everything, so that the sandboxed worker opens no file later
 * ---- */

static int compare_bytes(const void *a, const void *b)
{
	return *(const unsigned char *)a - *(const unsigned char *)b;
}

/* The first qsort of more than 1 KiB makes glibc ask for the size of memory (sysinfo), once. */
static void warm_qsort(void)
{
	unsigned char many[2048] = { 0 };
	qsort(many, sizeof many, 1, compare_bytes);
}

static stx_err warm_up(struct stx_compiler *c, struct stx_diag *d)
{
	static const char text[] = "%primals_1 : f32[4,16] = placeholder()\n"
				   "%exp = exp.default(%primals_1)\n"
				   "%sum_0 = sum.dim_IntList(%exp, [-1], False)\n"
				   "return (%sum_0,)\n";
	struct stx_source s = { .format = STX_FORMAT_TEXT,
				.body = { (const uint8_t *)text, sizeof text - 1 } };
	struct stx_compile_options o = { .target = "cpu:x86-64-v3" };
	struct stx_key_result key = { 0 };
	struct stx_plan_result plan = { 0 };
	struct stx_emit_result object = { 0 };
	struct stx_bytes so = { 0 };
	warm_qsort();
	stx_err e = stx_compile_key(c, &s, &o, &key, d);
	if (!e)
		e = stx_compile_plan(c, (struct stx_span){ key.graph.at, key.graph.n }, &o, &plan,
				     d);
	static const char *const levels[] = { "cpu:x86-64-v2", "cpu:x86-64-v4", "cpu:x86-64-v3" };
	for (unsigned i = 0; !e && i < sizeof levels / sizeof *levels; i++) {
		o.target = levels[i];
		stx_emit_result_free(&object);
		struct stx_span ir = { plan.kernels[0].ir.at, plan.kernels[0].ir.n };
		e = stx_compile_emit(c, ir, &o, &object, d);
	}
	struct stx_span obj = { object.object.at, object.object.n };
	if (!e)
		e = stx_compile_link(c, (struct stx_span){ plan.plan.at, plan.plan.n }, &obj, 1,
				     &so, d);
	stx_bytes_free(&so);
	stx_emit_result_free(&object);
	stx_plan_result_free(&plan);
	stx_key_result_free(&key);
	return e;
}

/* ---- results ---- */

void stx_name_list_free(struct stx_name_list *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		free(l->at[i]);
	free(l->at);
	memset(l, 0, sizeof *l);
}

void stx_key_result_free(struct stx_key_result *r)
{
	stx_bytes_free(&r->graph);
	stx_name_list_free(&r->inputs);
	stx_name_list_free(&r->outputs);
	stx_name_list_free(&r->needed);
	stx_name_list_free(&r->needed_why);
}

void stx_plan_result_free(struct stx_plan_result *r)
{
	stx_bytes_free(&r->plan);
	for (uint32_t i = 0; i < r->nkernels; i++) {
		stx_bytes_free(&r->kernels[i].ir);
		free(r->kernels[i].configs);
	}
	free(r->kernels);
	stx_name_list_free(&r->report);
	memset(r, 0, sizeof *r);
}

void stx_emit_result_free(struct stx_emit_result *r)
{
	stx_bytes_free(&r->object);
}
