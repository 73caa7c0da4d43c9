/* worker_job.c: one job in a worker: unpack, call the compiler, reply. */
#include "worker_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "arena.h"
#include "clock.h"
#include "jobs.h"
#include "plan.h"
#include "tunes.h"
#include "sandbox.h"
#include "worker.h"

#define SEND_ARENA_BYTES      ((size_t)64 << 20)
#define REFERENCE_OUTPUTS_MAX 4096u

/* What one job owns while it runs. The results are freed after the reply was sent. */
struct run {
	struct stx__worker *w;
	const Stx__Job *job;
	struct stx_span body;
	struct stx_span *in; /* pieces of the body */
	uint32_t nin;
	struct arena_pieces {
		struct stx_span *at;
		uint32_t n;
	} out;                   /* reply body */
	struct stx_arena *arena; /* of the reply's repeated fields */
	Stx__JobReply reply;
	struct stx_compile_options options;
	struct stx_diag diag;
	struct stx_key_result key;
	struct stx_plan_result plan;
	struct stx_emit_result emit;
	struct stx_kernel_desc space; /* configs only */
	struct stx_choice *choices;   /* blockings of a plan, */
	struct stx_choices given;     /* as the options have them */
	struct stx_bytes bytes;
	struct stx_tensor *outputs;
	uint32_t noutputs;
};

static stx_err out_of_memory(struct run *r)
{
	return stx_fail(&r->diag, STX_E_NOMEM, "worker", "",
			"out of memory while building a reply");
}

static stx_err invalid(struct run *r, const char *text)
{
	return stx_fail(&r->diag, STX_E_PROTOCOL, "worker", "", "%s", text);
}

/* ---- input ---- */

/* Splits the body by piece_bytes; without them the body is one piece. The sizes must add up. */
static stx_err split_body(struct run *r)
{
	size_t n = r->job->n_piece_bytes ? r->job->n_piece_bytes : 1;
	r->in = STX_NEW_ARRAY(r->arena, struct stx_span, n);
	if (!r->in)
		return out_of_memory(r);
	r->nin = (uint32_t)n;
	if (!r->job->n_piece_bytes) {
		r->in[0] = r->body;
		return STX_E_OK;
	}
	return stx_jobs_split(r->body, r->job->piece_bytes, n, r->in, n, &r->diag);
}

static stx_err make_source(struct run *r, struct stx_source *s)
{
	const Stx__Job *j = r->job;
	memset(s, 0, sizeof *s);
	if (j->format < 1 || j->format > 3)
		return stx_fail(&r->diag, STX_E_UNSUPPORTED, "import", "",
				"unknown graph format %u", j->format);
	struct stx_source_value *v =
		STX_NEW_ARRAY(r->arena, struct stx_source_value, j->n_values + 1);
	if (!v)
		return out_of_memory(r);
	for (size_t i = 0; i < j->n_values; i++) {
		const Stx__GivenValue *g = j->values[i];
		int64_t n = stx_dense_bytes(g->dtype, g->n_sizes, g->sizes);
		if (n < 0 || (uint64_t)n != g->data.len)
			return stx_fail(&r->diag, STX_E_INVALID, "import", g->input,
					"the given value's type, sizes and data do not agree");
		v[i] = (struct stx_source_value){ g->input,
						  (enum stx_dtype)g->dtype,
						  (uint32_t)g->n_sizes,
						  g->sizes,
						  { g->data.data, g->data.len } };
	}
	s->format = (int)j->format;
	s->body = r->in[0];
	s->values = v;
	s->nvalues = (uint32_t)j->n_values;
	return STX_E_OK;
}

/* ---- output ---- */

static stx_err put_pieces(struct run *r, size_t n)
{
	r->out.at = STX_NEW_ARRAY(r->arena, struct stx_span, n ? n : 1);
	r->reply.piece_bytes = STX_NEW_ARRAY(r->arena, uint64_t, n ? n : 1);
	r->out.n = (uint32_t)n;
	return r->out.at && r->reply.piece_bytes ? STX_E_OK : out_of_memory(r);
}

static void set_piece(struct run *r, uint32_t i, const void *at, size_t n)
{
	r->out.at[i] = (struct stx_span){ at, n };
	r->reply.piece_bytes[i] = n;
	r->reply.n_piece_bytes = r->out.n;
}

static stx_err put_stages(struct run *r, const struct stx_stage_time *s, uint32_t n)
{
	n = n < STX_MAX_STAGES ? n : STX_MAX_STAGES;
	Stx__Stage *at = STX_NEW_ARRAY(r->arena, Stx__Stage, n + 1);
	Stx__Stage **list = STX_NEW_ARRAY(r->arena, Stx__Stage *, n + 1);
	if (!at || !list)
		return out_of_memory(r);
	for (uint32_t i = 0; i < n; i++) {
		stx__stage__init(&at[i]);
		at[i].name = (char *)s[i].name;
		at[i].us = s[i].us;
		list[i] = &at[i];
	}
	r->reply.stages = list;
	r->reply.n_stages = n;
	return STX_E_OK;
}

static stx_err put_needed(struct run *r)
{
	uint32_t n = r->key.needed.n;
	Stx__NeededValue *at = STX_NEW_ARRAY(r->arena, Stx__NeededValue, n + 1);
	Stx__NeededValue **list = STX_NEW_ARRAY(r->arena, Stx__NeededValue *, n + 1);
	if (!at || !list)
		return out_of_memory(r);
	for (uint32_t i = 0; i < n; i++) {
		stx__needed_value__init(&at[i]);
		at[i].input = r->key.needed.at[i];
		if (i < r->key.needed_why.n)
			at[i].why = r->key.needed_why.at[i];
		list[i] = &at[i];
	}
	r->reply.need_values = list;
	r->reply.n_need_values = n;
	return STX_E_OK;
}

/* Configuration and its origin are in the plan; strings of the plan, which outlives the reply. */
static void put_configs(struct run *r, Stx__Kernel *at)
{
	struct stx_plan p;
	struct stx_span bytes = { r->plan.plan.at, r->plan.plan.n };
	if ((uintptr_t)bytes.at % 8 || stx_plan_open(bytes, &p, NULL) ||
	    p.h->nkernels != r->plan.nkernels)
		return;
	for (uint32_t i = 0; i < p.h->nkernels; i++) {
		at[i].config = (char *)stx_plan_string(&p, p.kernels[i].config);
		at[i].chosen_by = (char *)stx_plan_string(&p, p.kernels[i].chosen_by);
	}
}

/* The launch table of a GPU kernel, or a product's blockings, for the answer. */
static stx_err put_candidates(struct run *r, const struct stx_kernel_desc *k, Stx__Kernel *to)
{
	Stx__Configuration *at = STX_NEW_ARRAY(r->arena, Stx__Configuration, k->nconfigs + 1u);
	Stx__Configuration **list = STX_NEW_ARRAY(r->arena, Stx__Configuration *, k->nconfigs + 1u);
	if (!at || !list)
		return out_of_memory(r);
	for (uint32_t i = 0; i < k->nconfigs; i++) {
		stx__configuration__init(&at[i]);
		at[i].text = k->configs[i].text;
		at[i].grid = k->configs[i].grid;
		at[i].n_grid = 3;
		at[i].block = k->configs[i].block;
		at[i].n_block = 3;
		list[i] = &at[i];
	}
	to->candidates = list;
	to->n_candidates = k->nconfigs;
	if (k->nconfigs) {
		to->config = k->configs[0].text;
		to->chosen_by = "heuristic";
	}
	return STX_E_OK;
}

static stx_err put_plan_kernels(struct run *r)
{
	uint32_t n = r->plan.nkernels;
	Stx__Kernel *at = STX_NEW_ARRAY(r->arena, Stx__Kernel, (size_t)n + 1);
	Stx__Kernel **list = STX_NEW_ARRAY(r->arena, Stx__Kernel *, (size_t)n + 1);
	if (!at || !list)
		return out_of_memory(r);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_kernel_desc *k = &r->plan.kernels[i];
		stx__kernel__init(&at[i]);
		at[i].name = k->name;
		at[i].grid = k->grid;
		at[i].n_grid = 3;
		at[i].block = k->block;
		at[i].n_block = 3;
		at[i].digest = (ProtobufCBinaryData){ STX_DIGEST_BYTES, k->digest.b };
		at[i].product = k->product;
		at[i].target = k->target;
		list[i] = &at[i];
		if (put_candidates(r, k, &at[i]))
			return STX_E_NOMEM;
	}
	put_configs(r, at);
	r->reply.kernels = list;
	r->reply.n_kernels = n;
	return STX_E_OK;
}

static stx_err put_tensors(struct run *r)
{
	uint32_t n = r->noutputs;
	Stx__Tensor *at = STX_NEW_ARRAY(r->arena, Stx__Tensor, (size_t)n + 1);
	Stx__Tensor **list = STX_NEW_ARRAY(r->arena, Stx__Tensor *, (size_t)n + 1);
	if (!at || !list || put_pieces(r, n))
		return out_of_memory(r);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_tensor *t = &r->outputs[i];
		int64_t bytes = stx_dense_bytes(t->dtype, t->rank, t->sizes);
		if (bytes < 0)
			return stx_fail(&r->diag, STX_E_INTERNAL, "reference", "",
					"a bad output type");
		stx__tensor__init(&at[i]);
		at[i].dtype = t->dtype;
		at[i].sizes = t->sizes;
		at[i].n_sizes = t->rank;
		list[i] = &at[i];
		set_piece(r, i, t->data, (size_t)bytes);
	}
	r->reply.tensors = list;
	r->reply.n_tensors = n;
	return STX_E_OK;
}

/* ---- the jobs ---- */

static stx_err run_key(struct run *r)
{
	struct stx_source s;
	stx_err e = make_source(r, &s);
	if (e)
		return e;
	e = stx_compile_key(r->w->compiler, &s, &r->options, &r->key, &r->diag);
	if (e == STX_E_NEED_VALUES && put_needed(r))
		return STX_E_NOMEM;
	if (e)
		return e;
	r->reply.graph_digest = (ProtobufCBinaryData){ STX_DIGEST_BYTES, r->key.graph_digest.b };
	r->reply.input_names = r->key.inputs.at;
	r->reply.n_input_names = r->key.inputs.n;
	r->reply.output_names = r->key.outputs.at;
	r->reply.n_output_names = r->key.outputs.n;
	if (put_pieces(r, 1))
		return STX_E_NOMEM;
	set_piece(r, 0, r->key.graph.at, r->key.graph.n);
	return put_stages(r, r->key.stages, r->key.nstages);
}

static stx_err run_plan(struct run *r)
{
	struct stx_plan_result *p = &r->plan;
	stx_err e = stx_tunes_check_blockings(r->job->blockings, r->job->n_blockings, &r->diag);
	if (e)
		return e;
	if (stx_tunes_choices(r->job->blockings, r->job->n_blockings, &r->choices))
		return out_of_memory(r);
	r->given = (struct stx_choices){ r->choices, (uint32_t)r->job->n_blockings };
	r->options.blockings = &r->given;
	e = stx_compile_plan(r->w->compiler, r->in[0], &r->options, p, &r->diag);
	if (e)
		return e;
	if (put_pieces(r, (size_t)p->nkernels + 1) || put_plan_kernels(r))
		return STX_E_NOMEM;
	set_piece(r, 0, p->plan.at, p->plan.n);
	for (uint32_t i = 0; i < p->nkernels; i++)
		set_piece(r, i + 1, p->kernels[i].ir.at, p->kernels[i].ir.n);
	r->reply.report = p->report.at;
	r->reply.n_report = p->report.n;
	r->reply.bytes_read = p->bytes_read;
	r->reply.bytes_written = p->bytes_written;
	r->reply.bytes_min = p->bytes_min;
	return put_stages(r, p->stages, p->nstages);
}

static stx_err run_kernel(struct run *r)
{
	struct stx_emit_result *x = &r->emit;
	r->options.config = r->job->config;
	stx_err e = stx_compile_emit(r->w->compiler, r->in[0], &r->options, x, &r->diag);
	if (e)
		return e;
	Stx__Kernel *k = STX_NEW(r->arena, Stx__Kernel);
	Stx__Kernel **list = STX_NEW(r->arena, Stx__Kernel *);
	if (!k || !list || put_pieces(r, 1))
		return out_of_memory(r);
	stx__kernel__init(k);
	k->block = x->block;
	k->n_block = 3;
	k->registers = x->registers;
	k->spills = x->spills;
	k->shared_bytes = x->shared_bytes;
	list[0] = k;
	r->reply.kernels = list;
	r->reply.n_kernels = 1;
	set_piece(r, 0, x->object.at, x->object.n);
	return put_stages(r, x->stages, x->nstages);
}

static stx_err run_space(struct run *r)
{
	Stx__Kernel *k = STX_NEW(r->arena, Stx__Kernel);
	Stx__Kernel **list = STX_NEW(r->arena, Stx__Kernel *);
	stx_err e = stx_compile_space(r->in[0], &r->options, &r->space.configs, &r->space.nconfigs,
				      &r->diag);
	if (e)
		return e;
	if (!k || !list)
		return out_of_memory(r);
	stx__kernel__init(k);
	list[0] = k;
	r->reply.kernels = list;
	r->reply.n_kernels = 1;
	return put_candidates(r, &r->space, k);
}

static stx_err run_link(struct run *r)
{
	uint64_t start = stx_clock_us();
	stx_err e = stx_compile_link(r->w->compiler, r->in[0], r->in + 1, r->nin - 1, &r->bytes,
				     &r->diag);
	uint64_t us = stx_clock_us() - start;
	if (e)
		return e;
	struct stx_stage_time *s = STX_NEW(r->arena, struct stx_stage_time);
	if (!s || put_pieces(r, 1))
		return out_of_memory(r);
	*s = (struct stx_stage_time){ .name = "link", .us = us };
	set_piece(r, 0, r->bytes.at, r->bytes.n);
	return put_stages(r, s, 1);
}

static stx_err run_dump(struct run *r)
{
	struct stx_source s;
	stx_err e = make_source(r, &s);
	if (!e)
		e = stx_compile_dump(r->w->compiler, &s, &r->options, r->job->stage,
				     r->job->dump_format, &r->bytes, &r->diag);
	if (e)
		return e;
	if (put_pieces(r, 1))
		return STX_E_NOMEM;
	set_piece(r, 0, r->bytes.at, r->bytes.n);
	return STX_E_OK;
}

/* Inputs are copied: pieces of the body have no alignment. */
static stx_err reference_inputs(struct run *r, struct stx_tensor *t)
{
	const Stx__Job *j = r->job;
	for (size_t i = 0; i < j->n_tensors; i++) {
		const Stx__Tensor *p = j->tensors[i];
		int64_t n = stx_dense_bytes(p->dtype, p->n_sizes, p->sizes);
		if (n < 0 || (uint64_t)n != r->in[i + 1].n)
			return stx_fail(&r->diag, STX_E_INVALID, "reference", p->name,
					"the input's type, sizes and data do not agree");
		t[i].dtype = (uint8_t)p->dtype;
		t[i].rank = (uint8_t)p->n_sizes;
		int64_t stride = 1;
		for (size_t k = p->n_sizes; k-- > 0;) {
			t[i].sizes[k] = p->sizes[k];
			t[i].strides[k] = stride;
			stride *= p->sizes[k] > 0 ? p->sizes[k] : 1;
		}
		t[i].data = aligned_alloc(64, ((size_t)n + 64) & ~(size_t)63);
		if (!t[i].data || stx_arena_on_free(r->arena, free, t[i].data))
			return out_of_memory(r);
		if (n)
			memcpy(t[i].data, r->in[i + 1].at, (size_t)n);
	}
	return STX_E_OK;
}

/* The graph and the inputs of a job that evaluates it; room for its outputs. */
static stx_err prepare_evaluation(struct run *r, struct stx_source *s, struct stx_tensor **in)
{
	stx_err e = make_source(r, s);
	if (e)
		return e;
	if (r->nin != r->job->n_tensors + 1)
		return invalid(r, "the job needs one piece for each input");
	*in = STX_NEW_ARRAY(r->arena, struct stx_tensor, r->job->n_tensors + 1);
	r->outputs = STX_NEW_ARRAY(r->arena, struct stx_tensor, REFERENCE_OUTPUTS_MAX);
	return *in && r->outputs ? reference_inputs(r, *in) : out_of_memory(r);
}

static stx_err run_reference(struct run *r)
{
	struct stx_source s;
	struct stx_tensor *in;
	uint32_t n = REFERENCE_OUTPUTS_MAX;
	stx_err e = prepare_evaluation(r, &s, &in);
	if (!e)
		e = stx_compile_reference(&s, in, (uint32_t)r->job->n_tensors, r->outputs, &n,
					  &r->diag);
	if (e)
		return e;
	r->noutputs = n;
	return put_tensors(r);
}

static stx_err put_layers(struct run *r, const struct stx_compare_result *c)
{
	Stx__Layer *at = STX_NEW_ARRAY(r->arena, Stx__Layer, c->nlayers + 1u);
	r->reply.layers = STX_NEW_ARRAY(r->arena, Stx__Layer *, c->nlayers + 1u);
	if (!at || !r->reply.layers)
		return out_of_memory(r);
	for (uint32_t i = 0; i < c->nlayers; i++) {
		const struct stx_layer *y = &c->layers[i];
		stx__layer__init(&at[i]);
		at[i].name = stx_arena_strdup(r->arena, y->name);
		at[i].class_name = stx_arena_strdup(r->arena, y->class_name);
		at[i].text = stx_arena_strdup(r->arena, y->text);
		at[i].verdict = y->verdict;
		at[i].is_equal = y->is_equal;
		at[i].worst = y->worst;
		if (!at[i].name || !at[i].class_name || !at[i].text)
			return out_of_memory(r);
		r->reply.layers[i] = &at[i];
	}
	r->reply.n_layers = c->nlayers;
	r->reply.is_exact = c->is_exact;
	return STX_E_OK;
}

static stx_err run_compare(struct run *r)
{
	struct stx_source s;
	struct stx_tensor *in;
	struct stx_compare_result c;
	uint32_t n = REFERENCE_OUTPUTS_MAX;
	if (!r->job->comparison)
		return invalid(r, "a comparison without its tolerances");
	struct stx_compare_options o = { .compile = r->options,
					 .rtol = r->job->comparison->rtol,
					 .atol = r->job->comparison->atol,
					 .max_work = r->job->comparison->max_work };
	stx_err e = prepare_evaluation(r, &s, &in);
	if (!e)
		e = stx_compile_compare(&s, &o, in, (uint32_t)r->job->n_tensors, r->outputs, &n, &c,
					&r->diag);
	if (e)
		return e;
	r->noutputs = n;
	e = put_layers(r, &c);
	return e ? e : put_tensors(r);
}

struct probe {
	struct stx_arena *arena;
	char *lines[32];
	size_t n;
};

static void probe_line(void *ctx, const char *name, int err)
{
	struct probe *p = ctx;
	const char *e = err ? strerrorname_np(err) : "allowed";
	char *line = stx_arena_printf(p->arena, "%s: %s", name, e ? e : "?");
	if (line && p->n < sizeof p->lines / sizeof *p->lines)
		p->lines[p->n++] = line;
}

static stx_err run_probe(struct run *r)
{
	struct probe *p = STX_NEW(r->arena, struct probe);
	if (!p)
		return out_of_memory(r);
	p->arena = r->arena;
	stx__sandbox_probe(probe_line, p);
	r->reply.report = p->lines;
	r->reply.n_report = p->n;
	r->reply.sandbox = r->w->sandbox;
	return STX_E_OK;
}

static stx_err dispatch(struct run *r)
{
	stx_err e = split_body(r);
	if (e)
		return e;
	switch (r->job->kind) {
	case STX__JOB_KIND__JOB_KEY: return run_key(r);
	case STX__JOB_KIND__JOB_PLAN: return run_plan(r);
	case STX__JOB_KIND__JOB_KERNEL: return run_kernel(r);
	case STX__JOB_KIND__JOB_SPACE: return run_space(r);
	case STX__JOB_KIND__JOB_LINK: return run_link(r);
	case STX__JOB_KIND__JOB_DUMP: return run_dump(r);
	case STX__JOB_KIND__JOB_REFERENCE: return run_reference(r);
	case STX__JOB_KIND__JOB_COMPARE: return run_compare(r);
	case STX__JOB_KIND__JOB_PROBE: return run_probe(r);
	default: return invalid(r, "an unknown kind of job");
	}
}

static void set_options(struct run *r)
{
	const Stx__Options *o = r->job->options;
	r->options.target = r->job->target;
	if (o) {
		r->options.training = o->training != 0;
		r->options.dynamic = o->dynamic != 0;
		r->options.fast = o->fast != 0;
		r->options.allow_fallback = o->allow_fallback != 0;
	}
	r->options.memory_bytes = (size_t)r->w->memory_bytes;
}

static void free_results(struct run *r)
{
	stx_key_result_free(&r->key);
	stx_plan_result_free(&r->plan);
	stx_emit_result_free(&r->emit);
	free(r->space.configs);
	free(r->choices);
	stx_bytes_free(&r->bytes);
	for (uint32_t i = 0; i < r->noutputs; i++)
		free(r->outputs[i].data);
	stx_arena_free(r->arena);
}

/* Sends success, or the error alone (with needed values); an error that cannot be sent whole is
 * sent without its reply. */
static stx_err send_reply(struct run *r, uint64_t id, stx_err err, uint64_t start)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__Error error;
	struct rusage usage;
	struct stx_diag d = { 0 };
	e.request_id = id;
	e.msg_case = STX__ENVELOPE__MSG_JOB_REPLY;
	e.job_reply = &r->reply;
	r->reply.us = stx_clock_us() - start;
	if (!getrusage(RUSAGE_SELF, &usage))
		r->reply.peak_bytes = (uint64_t)usage.ru_maxrss << 10;
	if (err) {
		stx_fail(&r->diag, err, "", "", "%s", stx_err_text(err));
		stx_error_from_diag(&error, &r->diag);
		r->reply.error = &error;
		r->out.n = 0;
		r->reply.n_piece_bytes = 0;
	}
	stx_err sent = stx__channel_send(STX__WORKER_FD, &e, r->out.at, r->out.n, -1, &d);
	if (sent != STX_E_TOO_LARGE && sent != STX_E_NOMEM)
		return sent;
	Stx__JobReply bare = STX__JOB_REPLY__INIT;
	stx_error_from_diag(&error, &d);
	bare.error = &error;
	e.job_reply = &bare;
	return stx__channel_send(STX__WORKER_FD, &e, NULL, 0, -1, NULL);
}

stx_err stx__worker_job(struct stx__worker *w, const struct stx__message *m)
{
	uint64_t start = stx_clock_us();
	struct run r = { .w = w, .job = m->e->job, .body = m->body };
	stx__job_reply__init(&r.reply);
	r.arena = stx_arena_new(SEND_ARENA_BYTES);
	stx_err e = STX_E_NOMEM;
	if (r.arena) {
		set_options(&r);
		e = dispatch(&r);
	}
	stx_err sent = send_reply(&r, m->e->request_id, e, start);
	free_results(&r);
	return sent;
}
