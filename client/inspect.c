/* inspect.c: for tools: one stage of the compiler, the oracle's results, layered comparison.
 * Private worker only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "gpu_target.h"
#include "dtype.h"

struct ask {
	struct stx_arena *arena;
	struct stx__child *child;
	struct stx__wait wait;
	Stx__Job job;
	struct stx__job_reply reply;
	struct stax_request sent;
	struct stx_bytes stripped; /* what sent.graph may point to */
};

static stx_err no_memory(struct stx_diag *d)
{
	return stx_fail(d, STX_E_NOMEM, "worker", "", "out of memory");
}

static stx_err start(struct ask *q, struct stax_client *c, const struct stax_request *r,
		     struct stx_diag *d)
{
	char target[STX_TARGET_BYTES];
	uint32_t need;
	Stx__Lookup *what;
	memset(q, 0, sizeof *q);
	stx__job__init(&q->job);
	stx_err e = stx__cpu_resolve(r->target, target, &need, d);
	if (e)
		return e;
	if (!(q->arena = stx_arena_new(0)))
		return no_memory(d);
	if ((e = stx__request_strip(r, &q->sent, &q->stripped, d)) ||
	    (e = stx__lookup_build(q->arena, &q->sent, target, &what, d)) ||
	    (e = stx__private_child(c, stx_gpu_is_target(target), &q->child, d)))
		return e;
	q->wait = (struct stx__wait){ 0, r->progress, r->progress_ctx };
	if (r->deadline_ms)
		q->wait.deadline_ns = stx_clock_ns() + r->deadline_ms * 1000000ull;
	q->job.format = what->format;
	q->job.target = what->target;
	q->job.options = what->options;
	q->job.n_values = what->n_values;
	q->job.values = what->values;
	return STX_E_OK;
}

/* Runs the job. On NEED_VALUES the error's node is the first input concerned: only key jobs name
 * it. */
static stx_err run(struct ask *q, const struct stx_span *pieces, uint32_t n, struct stx_diag *d)
{
	stx_err e = stx__child_run(q->child, &q->job, pieces, n, &q->wait, &q->reply, d);
	if (e != STX_E_NEED_VALUES)
		return e;
	Stx__Job key = q->job;
	struct stx__job_reply names = { 0 };
	struct stx_diag again;
	stx__diag_init(&again);
	key.kind = STX__JOB_KIND__JOB_KEY;
	key.n_piece_bytes = key.n_tensors = 0;
	if (stx__child_run(q->child, &key, pieces, 1, &q->wait, &names, &again) == e &&
	    names.m->n_need_values) {
		const Stx__NeededValue *v = names.m->need_values[0];
		stx_diag_clear(d);
		stx_fail(d, e, "import", v->input, "%s", v->why);
	}
	stx__received_free(&names.r);
	return e;
}

static void finish(struct ask *q)
{
	stx__received_free(&q->reply.r);
	stx_bytes_free(&q->stripped);
	stx_arena_free(q->arena);
}

int stax_dump(struct stax_client *c, const struct stax_request *r, const char *stage,
	      const char *format, char **text, size_t *n, struct stax_error *err)
{
	struct stx_diag d;
	struct ask q;
	stx__diag_init(&d);
	*text = NULL;
	*n = 0;
	stx_err e = start(&q, c, r, &d);
	if (!e) {
		struct stx_span body = { q.sent.graph, q.sent.graph_bytes };
		q.job.kind = STX__JOB_KIND__JOB_DUMP;
		q.job.stage = (char *)(uintptr_t)stage;
		q.job.dump_format = (char *)(uintptr_t)format;
		e = run(&q, &body, 1, &d);
	}
	struct stx_span out = q.reply.r.body;
	if (!e && !(*text = malloc(out.n + 1)))
		e = no_memory(&d);
	if (!e) {
		if (out.n)
			memcpy(*text, out.at, out.n);
		(*text)[out.n] = 0;
		*n = out.n;
	}
	finish(&q);
	return stx__give_error(e, &d, err);
}

static int is_dense(const struct stx_tensor *t)
{
	int64_t stride = 1;
	for (int i = t->rank - 1; i >= 0; i--) {
		if (t->sizes[i] > 1 && t->strides[i] != stride)
			return 0;
		stride *= t->sizes[i];
	}
	return 1;
}

/* The elements in row-major order, copied to the arena when they do not lie so. bytes: theirs. */
static const uint8_t *dense_data(struct ask *q, const struct stx_tensor *t, size_t bytes)
{
	int width = stx_dtype_bytes(t->dtype);
	const char *data = (const char *)t->data + t->offset * width;
	int64_t strides[STX_MAX_RANK], stride = 1;
	if (!bytes || is_dense(t))
		return (const uint8_t *)data;
	uint8_t *copy = stx_arena_alloc(q->arena, bytes);
	for (int i = t->rank - 1; i >= 0; i--) {
		strides[i] = stride;
		stride *= t->sizes[i];
	}
	if (copy)
		stx__client_copy(copy, strides, data, t->strides, t->sizes, t->rank, width);
	return copy;
}

/* pieces[0] is the graph. */
static stx_err put_inputs(struct ask *q, const struct stx_tensor *inputs, size_t n,
			  struct stx_span *pieces, struct stx_diag *d)
{
	Stx__Tensor *at = STX_NEW_ARRAY(q->arena, Stx__Tensor, n);
	q->job.tensors = STX_NEW_ARRAY(q->arena, Stx__Tensor *, n);
	q->job.piece_bytes = STX_NEW_ARRAY(q->arena, uint64_t, n + 1);
	if (!at || !q->job.tensors || !q->job.piece_bytes)
		return no_memory(d);
	q->job.n_tensors = n;
	q->job.n_piece_bytes = n + 1;
	q->job.piece_bytes[0] = pieces[0].n;
	for (size_t i = 0; i < n; i++) {
		const struct stx_tensor *t = &inputs[i];
		int64_t bytes = stx_dense_bytes(t->dtype, t->rank, t->sizes);
		if (bytes < 0)
			return stx_fail(d, STX_E_USAGE, "reference", "",
					"input %zu: bad type or sizes", i);
		stx__tensor__init(&at[i]);
		at[i].dtype = t->dtype;
		at[i].n_sizes = t->rank;
		at[i].sizes = (int64_t *)(uintptr_t)t->sizes;
		q->job.tensors[i] = &at[i];
		pieces[i + 1] = (struct stx_span){ dense_data(q, t, (size_t)bytes), (size_t)bytes };
		if (bytes && !pieces[i + 1].at)
			return no_memory(d);
		q->job.piece_bytes[i + 1] = (uint64_t)bytes;
	}
	return STX_E_OK;
}

static stx_err take_output(const Stx__Tensor *m, struct stx_span bytes, struct stx_tensor *t,
			   struct stx_diag *d)
{
	int64_t stride = 1, n = stx_dense_bytes(m->dtype, m->n_sizes, m->sizes);
	if (n < 0 || (uint64_t)n > bytes.n)
		return stx_fail(d, STX_E_PROTOCOL, "reference", "", "an output that is cut short");
	t->dtype = (uint8_t)m->dtype;
	t->rank = (uint8_t)m->n_sizes;
	for (int i = t->rank - 1; i >= 0; i--) {
		t->sizes[i] = m->sizes[i];
		t->strides[i] = stride;
		stride *= n ? m->sizes[i] : 1; /* sizes of an empty tensor may overflow */
	}
	if (!(t->data = malloc(n ? (size_t)n : 1)))
		return no_memory(d);
	if (n)
		memcpy(t->data, bytes.at, (size_t)n);
	return STX_E_OK;
}

static stx_err take_outputs(const struct ask *q, struct stx_tensor **out, int *nout,
			    struct stx_diag *d)
{
	const Stx__JobReply *m = q->reply.m;
	struct stx_span body = q->reply.r.body;
	stx_err e = STX_E_OK;
	if (m->n_piece_bytes != m->n_tensors || m->n_tensors > INT32_MAX)
		return stx_fail(d, STX_E_PROTOCOL, "reference", "", "outputs without their bytes");
	struct stx_tensor *t = calloc(m->n_tensors + 1, sizeof *t);
	if (!t)
		return no_memory(d);
	for (size_t i = 0; !e && i < m->n_tensors; i++) {
		uint64_t n = m->piece_bytes[i];
		if (n > body.n)
			e = stx_fail(d, STX_E_PROTOCOL, "reference", "",
				     "a reply that is cut short");
		else
			e = take_output(m->tensors[i], (struct stx_span){ body.at, (size_t)n },
					&t[i], d);
		if (!e)
			body = (struct stx_span){ body.at + n, body.n - (size_t)n };
	}
	if (e) {
		for (size_t i = 0; i < m->n_tensors; i++)
			free(t[i].data);
		free(t);
		return e;
	}
	*out = t;
	*nout = (int)m->n_tensors;
	return STX_E_OK;
}

/* A job that evaluates the graph on the inputs; q.reply stays for the caller, who finishes q. */
static stx_err evaluate(struct ask *q, struct stax_client *c, const struct stax_request *r,
			const struct stx_tensor *inputs, int ninputs, Stx__JobKind kind,
			Stx__Comparison *comparison, struct stx_tensor **outputs, int *noutputs,
			struct stx_diag *d)
{
	size_t n = ninputs > 0 ? (size_t)ninputs : 0;
	*outputs = NULL;
	*noutputs = 0;
	stx_err e = start(q, c, r, d);
	struct stx_span *pieces = e ? NULL : STX_NEW_ARRAY(q->arena, struct stx_span, n + 1);
	if (!e && !pieces)
		e = no_memory(d);
	if (!e) {
		pieces[0] = (struct stx_span){ q->sent.graph, q->sent.graph_bytes };
		q->job.kind = kind;
		q->job.comparison = comparison;
		e = put_inputs(q, inputs, n, pieces, d);
	}
	if (!e)
		e = run(q, pieces, (uint32_t)n + 1, d);
	return e ? e : take_outputs(q, outputs, noutputs, d);
}

int stax_reference(struct stax_client *c, const struct stax_request *r,
		   const struct stx_tensor *inputs, int ninputs, struct stx_tensor **outputs,
		   int *noutputs, struct stax_error *err)
{
	struct stx_diag d;
	struct ask q;
	stx__diag_init(&d);
	stx_err e = evaluate(&q, c, r, inputs, ninputs, STX__JOB_KIND__JOB_REFERENCE, NULL, outputs,
			     noutputs, &d);
	finish(&q);
	return stx__give_error(e, &d, err);
}

static void take_layers(const Stx__JobReply *m, struct stax_compare *what)
{
	const int max = (int)(sizeof what->layers / sizeof *what->layers);
	what->is_exact = m->is_exact;
	what->nlayers = m->n_layers < (size_t)max ? (int)m->n_layers : max;
	for (int i = 0; i < what->nlayers; i++) {
		struct stax_layer *y = &what->layers[i];
		const Stx__Layer *from = m->layers[i];
		snprintf(y->name, sizeof y->name, "%s", from->name);
		snprintf(y->class_name, sizeof y->class_name, "%s", from->class_name);
		snprintf(y->text, sizeof y->text, "%s", from->text);
		y->verdict = from->verdict;
		y->is_equal = from->is_equal;
		y->worst = from->worst;
	}
}

int stax_compare(struct stax_client *c, const struct stax_request *r,
		 const struct stx_tensor *inputs, int ninputs, struct stax_compare *what,
		 struct stx_tensor **outputs, int *noutputs, struct stax_error *err)
{
	Stx__Comparison comparison = STX__COMPARISON__INIT;
	struct stx_diag d;
	struct ask q;
	stx__diag_init(&d);
	comparison.rtol = what->rtol;
	comparison.atol = what->atol;
	comparison.max_work = what->max_work;
	what->nlayers = what->is_exact = 0;
	stx_err e = evaluate(&q, c, r, inputs, ninputs, STX__JOB_KIND__JOB_COMPARE, &comparison,
			     outputs, noutputs, &d);
	if (!e)
		take_layers(q.reply.m, what);
	finish(&q);
	return stx__give_error(e, &d, err);
}
