/* compiled.c: graphs compiled in process and run on guarded memory. */
#include "compiled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "artifact_check.h"
#include "codegen.h"
#include "dtype.h"
#include "runs_here.h"
#include "import.h"
#include "passes.h"
#include "plan.h"
#include "tune.h"

struct stx_compiler *compiled_compiler(void)
{
	static struct stx_compiler *c;
	struct stx_diag d = { 0 };
	const char *target = getenv("STAX_TEST_TARGET");
	int cuda = target && !strncmp(target, "cuda", 4);
	if (!c && stx_compiler_new(cuda, &c, &d)) {
		fprintf(stderr, "compiler: %s: %s\n", d.stage, d.text);
		abort();
	}
	return c;
}

const char *const *compiled_targets(void)
{
	static const char *const all[] = { "cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4" };
	static const char *have[4];
	int n = 0;
	if ((have[0] = getenv("STAX_TEST_TARGET")) && *have[0])
		return have;
	for (int i = 0; i < 3; i++)
		if (host_runs(all[i]))
			have[n++] = all[i];
	have[n] = NULL;
	return have;
}

const char *const *compiled_feature_targets(void)
{
	static const char *const more[] = { "cpu:x86-64-v3+avxvnni", "cpu:x86-64-v4+avx512bf16",
					    "cpu:x86-64-v4+avx512vnni" };
	static const char *have[8];
	static char own[STX_TARGET_BYTES];
	const char *const *levels = compiled_targets();
	struct stx_cpu_target host = stx_cpu_target_host();
	int n = 0;
	for (; levels[n]; n++)
		have[n] = levels[n];
	const char *only = getenv("STAX_TEST_TARGET");
	for (int i = 0; i < 3 && !(only && *only); i++)
		if (host_runs(more[i]))
			have[n++] = more[i];
	host.caches = stx_cpu_caches_default(host.level);
	stx_cpu_target_print(&host, own);
	if (!(only && *only) && strcmp(own, have[n - 1]) && strchr(own, '+'))
		have[n++] = own;
	have[n] = NULL;
	return have;
}

/* ---- building ---- */

/* The unfused form's options are not part of a request: its passes are run here. */
static stx_err plan_unfused(struct stx_span graph, const char *target, struct stx_plan_result *out,
			    struct stx_diag *d)
{
	int gpu = !strncmp(target, "cuda", 4);
	struct stx_lower_options lower = { .no_inline = 1, .target_gpu = gpu };
	struct stx_schedule_options schedule = { .no_fuse = 1, .target_gpu = gpu };
	struct stx_arena *a = stx_arena_new((size_t)1 << 30);
	struct stx_graph *g = NULL;
	struct stx_loops *l = NULL;
	struct stx_schedule *s = NULL;
	const struct stx_gpu_choices *choices = NULL;
	struct stx_gpu_target t;
	struct stx_cpu_target cpu;
	stx_err e = stx_graph_parse(a, (const char *)graph.at, graph.n, &g, d);
	memset(out, 0, sizeof *out);
	if (!e)
		g->runs_scans = !gpu;
	e = e ? e : stx_graph_decompose_to_primitives(&g, d);
	e = e ? e : stx_graph_verify_basis(g, d);
	e = e ? e : stx_lower(g, &lower, &l, d);
	e = e ? e : stx_loops_verify(l, d);
	e = e ? e : stx_schedule(l, &schedule, &s, d);
	if (!e && gpu && !(e = stx_gpu_target_parse(target, &t, d)))
		choices = stx_tune_schedule(s, &t.device);
	e = e ? e : stx_plan_write(s, target, choices, &out->plan, d);
	if (!e && !(out->kernels = calloc(s->kernels.n + 1, sizeof *out->kernels)))
		e = STX_E_NOMEM;
	for (unsigned i = 0; !e && i < s->kernels.n; i++) {
		struct stx_kernel_desc *k = &out->kernels[out->nkernels++];
		e = stx_kernel_verify(s->kernels.at[i], d);
		e = e ? e : stx_kernel_print(s->kernels.at[i], &k->ir);
		e = e ? e : stx_kernel_digest(s->kernels.at[i], &k->digest, d);
		if (!e && !gpu && !(e = stx_cpu_target_parse(target, &cpu, d))) {
			stx_emit_target(s->kernels.at[i], &cpu);
			stx_cpu_target_print(&cpu, k->target);
		}
	}
	stx_arena_free(a);
	return e;
}

/* A grain of one grid point for every kernel: grid_expr[1] is the constant 1. */
static stx_err set_grains(struct stx_bytes *plan, struct stx_diag *d)
{
	struct stx_plan p;
	stx_err e = stx_plan_open((struct stx_span){ plan->at, plan->n }, &p, d);
	for (uint32_t i = 0; !e && i < p.h->nkernels; i++) {
		struct stx_plan_kernel *k = (struct stx_plan_kernel *)(uintptr_t)&p.kernels[i];
		int ok = 1;
		if (stx_plan_eval(&p, k->grid_expr[1], NULL, &ok) == 1 && ok)
			k->grain_expr = k->grid_expr[1];
	}
	return e;
}

/* The kernels of a GPU plan in another of their configurations ($STAX_TEST_CANDIDATE counts them,
 * round the table): any gives right results (LC-20). */
static stx_err set_candidates(struct stx_bytes *plan, struct stx_diag *d)
{
	const char *text = getenv("STAX_TEST_CANDIDATE");
	struct stx_plan p;
	stx_err e = text ? stx_plan_open((struct stx_span){ plan->at, plan->n }, &p, d) : STX_E_OK;
	for (uint32_t i = 0; text && !e && i < p.h->nkernels; i++) {
		struct stx_plan_kernel *k = (struct stx_plan_kernel *)(uintptr_t)&p.kernels[i];
		uint32_t n;
		const struct stx_plan_config *c = stx_plan_configs(&p, i, &n);
		if (!n)
			continue;
		c += (strtoul(text, NULL, 10) + i) % n;
		k->config = c->text;
		k->symbol = c->symbol;
		memcpy(k->grid_expr, c->grid_expr, sizeof k->grid_expr);
		memcpy(k->block, c->block, sizeof k->block);
	}
	return e;
}

/* Objects of this process by kernel digest, what its code depends on of the target, configuration, fast
 * and all_long: forms and targets of a graph repeat most of each other's kernels. */
struct kept {
	struct stx_digest digest;
	char target[STX_TARGET_BYTES], config[STX_GPU_CONFIG_BYTES];
	unsigned fast, all_long;
	struct stx_emit_result made;
};
#define KEPT_SETS 512
#define KEPT_WAYS 8 /* the oldest of a set makes room */

static int is_kept(const struct kept *c, const struct kept *wanted)
{
	return c->made.object.n && stx_digest_eq(&c->digest, &wanted->digest) &&
	       c->fast == wanted->fast && c->all_long == wanted->all_long &&
	       !strcmp(c->target, wanted->target) && !strcmp(c->config, wanted->config);
}

static stx_err emit(const struct stx_kernel_desc *k, const struct stx_compile_options *o,
		    struct stx_span *object, struct stx_diag *d)
{
	static struct kept all[KEPT_SETS][KEPT_WAYS];
	static unsigned next[KEPT_SETS];
	struct kept wanted = { .digest = k->digest, .fast = o->fast, .all_long = o->all_long };
	uint32_t set, way = 0;
	memcpy(&set, &k->digest, sizeof set);
	set %= KEPT_SETS;
	snprintf(wanted.target, sizeof wanted.target, "%s", *k->target ? k->target : o->target);
	snprintf(wanted.config, sizeof wanted.config, "%s", o->config ? o->config : "");
	while (way < KEPT_WAYS && !is_kept(&all[set][way], &wanted))
		way++;
	if (way == KEPT_WAYS) {
		stx_err e = stx_compile_emit(compiled_compiler(),
					     (struct stx_span){ k->ir.at, k->ir.n }, o,
					     &wanted.made, d);
		if (e) {
			stx_emit_result_free(&wanted.made);
			return e;
		}
		way = next[set]++ % KEPT_WAYS;
		stx_emit_result_free(&all[set][way].made);
		all[set][way] = wanted;
	}
	struct stx_bytes *made = &all[set][way].made.object;
	*object = (struct stx_span){ made->at, made->n };
	return 0;
}

/* One object for each distinct symbol, owned by the caller. */
static stx_err emit_all(const struct stx_plan_result *plan, const struct stx_compile_options *o,
			struct stx_span *objects, uint32_t *n, struct stx_diag *d)
{
	struct stx_plan p;
	*n = 0;
	if (stx_plan_open((struct stx_span){ plan->plan.at, plan->plan.n }, &p, d))
		return STX_E_CORRUPT;
	for (uint32_t i = 0; i < plan->nkernels; i++) {
		const struct stx_kernel_desc *k = &plan->kernels[i];
		struct stx_compile_options mine = *o;
		uint32_t same = 0;
		while (same < i && strcmp(stx_plan_string(&p, p.kernels[same].symbol),
					  stx_plan_string(&p, p.kernels[i].symbol)))
			same++;
		if (same < i)
			continue;
		if (p.kernels[i].target)
			mine.config = stx_plan_string(&p, p.kernels[i].config);
		struct stx_span object = { 0 };
		stx_err e = emit(k, &mine, &object, d);
		if (e)
			return e;
		uint8_t *copy = malloc(object.n);
		if (!copy)
			return stx_fail(d, STX_E_NOMEM, "emit", "", "out of memory");
		memcpy(copy, object.at, object.n);
		objects[*n] = (struct stx_span){ copy, object.n };
		++*n;
	}
	return 0;
}

static stx_err load(struct compiled *out, struct stx_diag *d)
{
	char path[64];
	struct stax_error err;
	int fd = memfd_create("artifact", MFD_CLOEXEC);
	if (fd < 0 || write(fd, out->elf.at, out->elf.n) != (ssize_t)out->elf.n) {
		if (fd >= 0)
			close(fd);
		return stx_fail(d, STX_E_IO, "load", "", "cannot write the artifact to memory");
	}
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	int e = stax_load_file(path, &out->artifact, &err);
	close(fd);
	return e ? stx_fail(d, e, "load", err.node, "%s", err.text) : 0;
}

stx_err compiled_build(const char *text, const char *target, enum compiled_form form,
		       struct compiled *out, struct stx_diag *d)
{
	struct stx_source s = { .format = STX_FORMAT_TEXT,
				.body = { (const uint8_t *)text, strlen(text) } };
	int all_long = (form & COMPILED_LONG) != 0;
	form = (enum compiled_form)(form & ~COMPILED_LONG);
	struct stx_compile_options o = { .target = target,
					 .fast = form == COMPILED_FAST,
					 .all_long = all_long };
	struct stx_key_result key = { 0 };
	struct stx_plan_result plan = { 0 };
	struct stx_span *objects = NULL;
	uint32_t n = 0;
	memset(out, 0, sizeof *out);
	stx_err e = stx_compile_key(compiled_compiler(), &s, &o, &key, d);
	struct stx_span graph = { key.graph.at, key.graph.n };
	if (!e)
		e = form == COMPILED_UNFUSED
			    ? plan_unfused(graph, target, &plan, d)
			    : stx_compile_plan(compiled_compiler(), graph, &o, &plan, d);
	if (!e && form == COMPILED_RECUT)
		e = compiled_recut(graph, &o, &plan, d);
	if (!e)
		e = set_grains(&plan.plan, d);
	if (!e)
		e = set_candidates(&plan.plan, d);
	if (!e && !(objects = calloc(plan.nkernels + 1, sizeof *objects)))
		e = STX_E_NOMEM;
	if (!e)
		e = emit_all(&plan, &o, objects, &n, d);
	if (!e)
		e = stx_compile_link(compiled_compiler(),
				     (struct stx_span){ plan.plan.at, plan.plan.n }, objects, n,
				     &out->elf, d);
	if (!e)
		e = stx_artifact_check((struct stx_span){ out->elf.at, out->elf.n }, d);
	if (!e)
		e = load(out, d);
	out->nkernels = plan.nkernels;
	out->bytes_read = plan.bytes_read;
	out->bytes_written = plan.bytes_written;
	out->bytes_min = plan.bytes_min;
	for (uint32_t i = 0; objects && i < n; i++)
		free((void *)(uintptr_t)objects[i].at);
	free(objects);
	stx_plan_result_free(&plan);
	stx_key_result_free(&key);
	if (e)
		compiled_free(out);
	return e;
}

void compiled_free(struct compiled *c)
{
	if (c->artifact)
		stax_artifact_free(c->artifact);
	stx_bytes_free(&c->elf);
	c->artifact = NULL;
}

/* ---- guarded memory ---- */

#define PAGE    ((size_t)4096)
#define PATTERN 0xC5

struct guarded {
	uint8_t *map, *at;
	size_t body, n; /* bytes between the two guard pages; bytes in use */
};

static int guarded_new(struct guarded *g, size_t n, size_t align, int at_end)
{
	g->body = (n + PAGE) / PAGE * PAGE; /* at least one byte more than n */
	g->n = n;
	g->map = mmap(NULL, g->body + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (g->map == MAP_FAILED || mprotect(g->map + PAGE, g->body, PROT_READ | PROT_WRITE))
		return -1;
	memset(g->map + PAGE, PATTERN, g->body);
	g->at = g->map + PAGE + (at_end ? (g->body - n) / align * align : 0);
	return 0;
}

/* 1 when every byte around the block still has the pattern. */
static int guarded_intact(const struct guarded *g)
{
	for (const uint8_t *p = g->map + PAGE; p < g->at; p++)
		if (*p != PATTERN)
			return 0;
	for (const uint8_t *p = g->at + g->n; p < g->map + PAGE + g->body; p++)
		if (*p != PATTERN)
			return 0;
	return 1;
}

static void guarded_free(struct guarded *g)
{
	if (g->map && g->map != MAP_FAILED)
		munmap(g->map, g->body + 2 * PAGE);
}

/* ---- running ---- */

static void pieces(void *ctx, int64_t n, int64_t grain, void (*body)(void *, int64_t, int64_t),
		   void *arg)
{
	unsigned *turn = ctx;
	(void)grain;
	for (int64_t end = n, begin; end > 0; end = begin) {
		int64_t step = n > 4096 ? n / 5 : 1 + (int64_t)((*turn)++ % 7);
		begin = end > step ? end - step : 0;
		body(arg, begin, end);
	}
}

static void whole(void *ctx, int64_t n, int64_t grain, void (*body)(void *, int64_t, int64_t),
		  void *arg)
{
	(void)ctx;
	(void)grain;
	body(arg, 0, n);
}

#define MAX_BLOCKS 16
struct workspace {
	unsigned turn; /* first: what pieces() sees as its context */
	struct guarded block[MAX_BLOCKS];
	int n, broken;
};

static void *workspace_allocate(void *ctx, size_t bytes, size_t align)
{
	struct workspace *w = ctx;
	if (w->n == MAX_BLOCKS || guarded_new(&w->block[w->n], bytes, align, w->turn++ & 1))
		return NULL;
	memset(w->block[w->n].at, 0xAA, bytes);
	return w->block[w->n++].at;
}

static void workspace_release(void *ctx, void *p, size_t bytes)
{
	struct workspace *w = ctx;
	(void)bytes;
	for (int i = 0; i < w->n; i++) {
		if (w->block[i].at != p)
			continue;
		w->broken |= !guarded_intact(&w->block[i]);
		guarded_free(&w->block[i]);
		w->block[i] = w->block[--w->n];
		return;
	}
	w->broken = 1;
}

int64_t compiled_numel(const struct stx_tensor *t)
{
	int64_t n = 1;
	for (int i = 0; i < t->rank; i++)
		n *= t->sizes[i];
	return n;
}

int64_t compiled_span(const struct stx_tensor *t, int64_t *first)
{
	int64_t lo = 0, hi = 0;
	for (int i = 0; i < t->rank; i++) {
		int64_t reach = (t->sizes[i] - 1) * t->strides[i];
		if (t->sizes[i] == 0)
			reach = 0;
		*(reach < 0 ? &lo : &hi) += reach;
	}
	*first = -lo;
	return compiled_numel(t) ? hi - lo + 1 : 0;
}

void compiled_dense(struct stx_tensor *t)
{
	int64_t step = 1;
	for (int i = t->rank; i-- > 0;) {
		t->strides[i] = step;
		step *= t->sizes[i] ? t->sizes[i] : 1;
	}
}

void compiled_shape(const struct stx_graph *g, const struct stx_input *in, struct stx_tensor *t)
{
	const struct stx_type *y = &in->node->outs[0];
	memset(t, 0, sizeof *t);
	t->dtype = (uint8_t)y->dtype;
	t->rank = y->rank;
	for (int i = 0; i < y->rank; i++)
		stx_ex_is_const(g->ex, y->sizes[i], &t->sizes[i]);
	compiled_dense(t);
	for (int i = 0; in->strides && i < y->rank; i++)
		stx_ex_is_const(g->ex, in->strides[i], &t->strides[i]);
}

/* The offset stays as it is: what lies before the first element is not mapped. */
static stx_err place(struct stx_tensor *t, struct guarded *g, unsigned turn, struct stx_diag *d)
{
	int64_t first, span = compiled_span(t, &first);
	int64_t width = stx_dtype_bytes((enum stx_dtype)t->dtype);
	const char *from = (const char *)t->data + (t->offset - first) * width;
	if (guarded_new(g, (size_t)(span * width), (size_t)width, turn & 1))
		return stx_fail(d, STX_E_NOMEM, "run", "", "out of memory");
	if (t->data && span)
		memcpy(g->at, from, (size_t)(span * width));
	else
		memset(g->at, 0xAA, (size_t)(span * width));
	if (t->offset < first)
		t->offset = first;
	t->data = (void *)((uintptr_t)g->at - (uintptr_t)((t->offset - first) * width));
	return 0;
}

static stx_err call(const struct compiled *c, enum compiled_threads how, struct stx_tensor *in,
		    uint32_t nin, struct stx_tensor *out, uint32_t nout, unsigned turn,
		    struct stx_diag *d)
{
	struct workspace w = { .turn = turn };
	struct stx_env env = { .ctx = &w,
			       .allocate = workspace_allocate,
			       .release = workspace_release };
	struct stax_error err;
	if (how != COMPILED_POOL)
		env.parallel_for = how == COMPILED_SERIAL ? whole : pieces;
	struct stax_prepared *p = NULL;
	int e = how == COMPILED_PREPARED ? stax_prepare(c->artifact, in, (int)nin, &env, &p, &err)
					 : 0;
	if (!e)
		e = stax_run_prepared(c->artifact, p, in, (int)nin, out, (int)nout, &env, &err);
	stax_prepared_free(p);
	if (e)
		return stx_fail(d, e, err.stage, err.node, "%s", err.text);
	if (w.broken || w.n)
		return stx_fail(d, STX_E_INTERNAL, "run", "",
				"memory around the workspace was written");
	return 0;
}

/* ---- on a device ---- */

#define RED_ZONE ((size_t)256) /* bytes of pattern before and after every tensor there */

struct mirror {
	void *base;
	size_t n;
};

static stx_err gpu_failed(const struct stax_error *err, struct stx_diag *d)
{
	return stx_fail(d, err->code, err->stage, err->node, "%s", err->text);
}

/* The block's bytes on the device, between red zones; t then points there. */
static stx_err mirror_new(struct mirror *m, const struct guarded *g, struct stx_tensor *t,
			  struct stx_diag *d)
{
	struct stax_error err;
	m->n = g->n + 2 * RED_ZONE;
	uint8_t *image = malloc(m->n);
	if (!image)
		return stx_fail(d, STX_E_NOMEM, "run", "", "out of memory");
	memset(image, PATTERN, m->n);
	memcpy(image + RED_ZONE, g->at, g->n);
	int e = stax_cuda_alloc(m->n, &m->base, &err);
	if (!e)
		e = stax_cuda_copy(m->base, image, m->n, &err);
	free(image);
	t->data = (void *)((uintptr_t)m->base + RED_ZONE + ((uintptr_t)t->data - (uintptr_t)g->at));
	return e ? gpu_failed(&err, d) : 0;
}

/* Back into the block; INTERNAL when a red zone was written. */
static stx_err mirror_read(const struct mirror *m, struct guarded *g, struct stx_diag *d)
{
	struct stax_error err;
	uint8_t *image = malloc(m->n);
	stx_err e = 0;
	if (!image)
		return stx_fail(d, STX_E_NOMEM, "run", "", "out of memory");
	if (stax_cuda_copy(image, m->base, m->n, &err))
		e = gpu_failed(&err, d);
	for (size_t i = 0; i < RED_ZONE && !e; i++)
		if (image[i] != PATTERN || image[m->n - 1 - i] != PATTERN)
			e = stx_fail(d, STX_E_INTERNAL, "run", "",
				     "device memory around a tensor was written");
	if (!e)
		memcpy(g->at, image + RED_ZONE, g->n);
	free(image);
	return e;
}

static stx_err call_device(const struct compiled *c, struct stx_tensor *in, uint32_t nin,
			   struct stx_tensor *out, uint32_t nout, struct guarded *g,
			   struct stx_diag *d)
{
	struct mirror *m = calloc(nin + nout + 1, sizeof *m);
	struct stax_error err;
	stx_err e = m ? 0 : stx_fail(d, STX_E_NOMEM, "run", "", "out of memory");
	for (uint32_t i = 0; !e && i < nin + nout; i++)
		e = mirror_new(&m[i], &g[i], i < nin ? &in[i] : &out[i - nin], d);
	if (!e && (stax_run(c->artifact, in, (int)nin, out, (int)nout, NULL, &err) ||
		   stax_sync(c->artifact, NULL, &err)))
		e = gpu_failed(&err, d);
	for (uint32_t i = 0; !e && i < nin + nout; i++)
		e = mirror_read(&m[i], &g[i], d);
	for (uint32_t i = 0; m && i < nin + nout; i++)
		stax_cuda_free(m[i].base);
	free(m);
	return e;
}

/* ---- on the caller's memory ---- */

/* A tensor's elements on the host and their copy on the device. */
struct copied {
	char *host;
	void *device;
	size_t n;
};

static int copy_in(struct copied *p, struct stx_tensor *t, struct stax_error *err)
{
	int64_t first, width = stx_dtype_bytes((enum stx_dtype)t->dtype);
	if (!t->data)
		return 0;
	p->n = (size_t)(compiled_span(t, &first) * width);
	p->host = (char *)t->data + (t->offset - first) * width;
	int e = stax_cuda_alloc(p->n, &p->device, err);
	if (!e)
		e = stax_cuda_copy(p->device, p->host, p->n, err);
	t->data = (char *)p->device - (t->offset - first) * width;
	return e;
}

/* Of an address on the device, the one on the host. */
static void *on_host(const struct copied *p, int n, void *device)
{
	for (int i = 0; i < n; i++) {
		uintptr_t at = (uintptr_t)device - (uintptr_t)p[i].device;
		if (p[i].device && at < p[i].n)
			return p[i].host + at;
	}
	return NULL;
}

/* Whether the artifact says that it writes this input: the caller has given it away. */
static int is_given_away(const struct compiled *c, uint32_t input)
{
	struct stx_tensor t;
	const char *name;
	return !stax_input(c->artifact, (int)input, &t, &name) && t.flags & STX_TENSOR_MUTATED;
}

int compiled_call(const struct compiled *c, const struct stx_tensor *inputs, int nin,
		  struct stx_tensor *out, int nout, struct stax_error *err)
{
	if (!stax_is_cuda(c->artifact))
		return stax_run(c->artifact, inputs, nin, out, nout, NULL, err);
	int n = nin + nout, e = 0;
	struct copied *p = calloc((size_t)n + 1, sizeof *p);
	struct stx_tensor *t = calloc((size_t)n + 1, sizeof *t);
	if (!p || !t)
		abort();
	for (int i = 0; i < n && !e; i++) {
		t[i] = i < nin ? inputs[i] : out[i - nin];
		e = copy_in(&p[i], &t[i], err);
	}
	if (!e)
		e = stax_run(c->artifact, t, nin, t + nin, nout, NULL, err);
	if (!e)
		e = stax_sync(c->artifact, NULL, err);
	for (int i = 0; i < n && !e; i++)
		if (p[i].n && (i >= nin || is_given_away(c, (uint32_t)i)))
			e = stax_cuda_copy(p[i].host, p[i].device, p[i].n, err);
	for (int i = 0; i < nout && !e; i++)
		if (!out[i].data) {
			out[i] = t[nin + i];
			out[i].data = on_host(p, nin, t[nin + i].data);
		}
	for (int i = 0; i < n; i++)
		stax_cuda_free(p[i].device);
	free(p);
	free(t);
	return e;
}

/* Nothing outside the blocks was written, inputs are as they were. */
static stx_err check_memory(const struct compiled *c, const struct stx_tensor *inputs,
			    const struct guarded *g, uint32_t nin, uint32_t nout,
			    struct stx_diag *d)
{
	for (uint32_t i = 0; i < nin + nout; i++)
		if (!guarded_intact(&g[i]))
			return stx_fail(d, STX_E_INTERNAL, "run", "",
					"memory around %s %u was written",
					i < nin ? "input" : "output", i < nin ? i : i - nin);
	for (uint32_t i = 0; i < nin; i++) {
		int64_t first;
		compiled_span(&inputs[i], &first);
		const char *from = (const char *)inputs[i].data +
				   (inputs[i].offset - first) *
					   stx_dtype_bytes((enum stx_dtype)inputs[i].dtype);
		if (g[i].n && !is_given_away(c, i) && memcmp(g[i].at, from, g[i].n))
			return stx_fail(d, STX_E_INTERNAL, "run", "", "input %u was written", i);
	}
	return 0;
}

static stx_err keep_output(struct stx_tensor *t, const struct guarded *g, struct stx_diag *d)
{
	void *p = malloc(g->n ? g->n : 1);
	if (!p)
		return stx_fail(d, STX_E_NOMEM, "run", "", "out of memory");
	memcpy(p, g->at, g->n);
	t->data = p;
	return 0;
}

stx_err compiled_run(const struct compiled *c, enum compiled_threads how,
		     const struct stx_tensor *inputs, uint32_t ninputs, struct stx_tensor *outputs,
		     struct stx_diag *d)
{
	static unsigned turn;
	uint32_t nout = (uint32_t)stax_noutputs(c->artifact);
	struct guarded *g = calloc(ninputs + nout + 1, sizeof *g);
	struct stx_tensor *in = calloc(ninputs + 1, sizeof *in);
	stx_err e = g && in ? 0 : stx_fail(d, STX_E_NOMEM, "run", "", "out of memory");
	turn++;
	for (uint32_t i = 0; !e && i < ninputs; i++) {
		in[i] = inputs[i];
		e = place(&in[i], &g[i], turn + i, d);
	}
	struct stax_error err; /* dynamic sizes of outputs follow from the inputs */
	memset(outputs, 0, nout * sizeof *outputs);
	if (!e && stax_query(c->artifact, in, (int)ninputs, outputs, NULL, &err))
		e = stx_fail(d, err.code, err.stage, err.node, "%s", err.text);
	for (uint32_t i = 0; i < nout; i++) {
		compiled_dense(&outputs[i]);
		if (!e)
			e = place(&outputs[i], &g[ninputs + i], turn + i, d);
	}
	if (!e)
		e = stax_is_cuda(c->artifact) ? call_device(c, in, ninputs, outputs, nout, g, d)
					      : call(c, how, in, ninputs, outputs, nout, turn, d);
	if (!e)
		e = check_memory(c, inputs, g, ninputs, nout, d);
	for (uint32_t i = 0; i < nout; i++) {
		outputs[i].data = NULL;
		if (!e)
			e = keep_output(&outputs[i], &g[ninputs + i], d);
	}
	for (uint32_t i = 0; g && i < ninputs + nout; i++)
		guarded_free(&g[i]);
	free(g);
	free(in);
	return e;
}

void compiled_free_outputs(struct stx_tensor *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		free(t[i].data);
		t[i].data = NULL;
	}
}
