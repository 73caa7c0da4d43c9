/* layers.c: the same request run at each layer, and the first layer that departs named (ST-06).
 *
 * After every pass that makes a new product the product itself is evaluated: graphs by the oracle,
 * loops by their interpreter, kernels by theirs, in the memory plan's slots. The class of the pass
 * (pass.def) says how its outputs compare with those before it: BIT to the bit, TOL within the
 * tolerance. An evaluator accumulates floats in an order of its own (the oracle in f64, the loop
 * interpreter from left to right), so where a graph sums floats a pass that expands operators, or
 * hands over to another evaluator, is held to the tolerance; without sums it is held to its bits.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compile.h"
#include "compile_run.h"
#include "passes.h"
#include "ref.h"
#include "scalar.h"
#include "schedule_eval.h"

struct values { /* outputs of one layer, dense, malloc'd */
	struct stx_tensor *at;
	uint32_t n;
};
struct layers {
	struct run *r;
	const struct stx_compare_options *o;
	const struct stx_tensor *inputs; /* strided as the graph says */
	uint32_t ninputs;
	struct values before;
	int sums_before;       /* the graph before the pass accumulates floats */
	struct stx_bytes text; /* that graph as text: an equal one is not evaluated again */
	struct stx_compare_result *out;
};

static void free_values(struct values *v)
{
	for (uint32_t i = 0; v->at && i < v->n; i++)
		free(v->at[i].data);
	free(v->at);
	memset(v, 0, sizeof *v);
}

static stx_err no_memory(struct layers *w)
{
	return stx_fail(w->r->d, STX_E_NOMEM, "compare", NULL, "out of memory");
}

/* ---- inputs as the graph wants them ---- */

static int64_t hint(const struct stx_graph *g, stx_ex e)
{
	return stx_ex_hint(g->ex, e);
}

static int64_t elems_of(const struct stx_tensor *t)
{
	int64_t n = 1;
	for (int i = 0; i < t->rank; i++)
		n *= t->sizes[i];
	return n;
}

/* All elements, in the order of their indices, between places with those strides, in elements. */
static void move(const struct stx_tensor *like, void *to, const int64_t *to_strides,
		 const void *from, const int64_t *from_strides)
{
	size_t width = (size_t)stx_dtype_bytes((enum stx_dtype)like->dtype);
	int64_t at[STX_MAX_RANK] = { 0 }, t = 0, f = 0;
	for (int64_t k = 0, n = elems_of(like); k < n; k++) {
		memcpy((char *)to + (size_t)t * width, (const char *)from + (size_t)f * width,
		       width);
		for (int j = like->rank - 1; j >= 0; j--) {
			t += to_strides[j];
			f += from_strides[j];
			if (++at[j] < like->sizes[j])
				break;
			t -= to_strides[j] * like->sizes[j];
			f -= from_strides[j] * like->sizes[j];
			at[j] = 0;
		}
	}
}

/* A dense tensor in the layout of graph input i. Where elements share memory the last one stays. */
static stx_err lay_out(struct layers *w, uint32_t i, const struct stx_tensor *from,
		       struct stx_tensor *t)
{
	const struct stx_graph *g = w->r->graph;
	const struct stx_input *in = &g->inputs.at[i];
	const struct stx_type *y = &in->node->outs[0];
	int64_t reach = 1, far;
	if (from->dtype != y->dtype || from->rank != y->rank)
		return stx_fail(w->r->d, STX_E_INVALID, "compare", in->node->name,
				"the value is not %s of rank %u", stx_dtype_name(y->dtype),
				y->rank);
	*t = *from;
	for (int k = 0; k < y->rank; k++) {
		if (from->sizes[k] != hint(g, y->sizes[k]))
			return stx_fail(w->r->d, STX_E_INVALID, "compare", in->node->name,
					"size %d is %" PRId64 ", the graph says %" PRId64, k,
					from->sizes[k], hint(g, y->sizes[k]));
		t->strides[k] = in->strides ? hint(g, in->strides[k]) : from->strides[k];
		if (__builtin_mul_overflow(from->sizes[k] - 1, t->strides[k], &far) ||
		    (from->sizes[k] && __builtin_add_overflow(reach, far, &reach)) ||
		    t->strides[k] < 0)
			return stx_fail(w->r->d, STX_E_INVALID, "compare", in->node->name,
					"strides of input %u overflow", i);
	}
	size_t width = (size_t)stx_dtype_bytes(y->dtype);
	if (reach > (int64_t)(PTRDIFF_MAX / width) - 1 ||
	    !(t->data = calloc((size_t)reach + 1, width)))
		return no_memory(w);
	t->offset = 0;
	move(t, t->data, t->strides, (const char *)from->data + (size_t)from->offset * width,
	     from->strides);
	return STX_E_OK;
}

/* ---- evaluating a product ---- */

/* A float sum, product, scan or contraction: its result depends on the order. A composite that sums
 * shows it once it is expanded. */
static int accumulates(const struct stx_graph *g)
{
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		const struct stx_node *n = g->nodes.at[i];
		switch (stx_op_info(n->op)->category) {
		case STX_CAT_REDUCE:
		case STX_CAT_SCATTER:
		case STX_CAT_SCAN:
		case STX_CAT_CONTRACT:
		case STX_CAT_WINDOW:
			for (uint32_t k = 0; k < n->nouts; k++)
				if (stx_dtype_is_float(n->outs[k].dtype))
					return 1;
			break;
		default: break;
		}
	}
	return 0;
}

static stx_err run_graph(struct layers *w, struct values *v)
{
	struct stx_graph *g = w->r->graph;
	v->at = calloc(g->outputs.n + 1u, sizeof *v->at);
	if (!v->at)
		return no_memory(w);
	stx_err e = stx_ref_evaluate(g, w->inputs, w->ninputs, v->at, 0, w->r->d);
	if (!e)
		v->n = g->outputs.n;
	return e;
}

/* Instructions that a run of the loops evaluates. */
static uint64_t work_of(const struct stx_loops *l)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < l->buffers.n; i++) {
		const struct stx_buffer *b = l->buffers.at[i];
		double n = b->def == STX_DEF_NONE ? 0 : b->body.n;
		for (uint32_t k = 0; k < b->nranges; k++)
			n *= (double)stx_ex_hint(l->ex, b->ranges[k]);
		for (uint32_t k = 0; k < b->nrranges; k++)
			n *= (double)stx_ex_hint(l->ex, b->rranges[k]);
		sum += n < 1e18 ? (uint64_t)n : (uint64_t)1e18;
		if (sum > (uint64_t)1e18)
			return (uint64_t)1e18;
	}
	return sum;
}

static stx_err storage_of(struct layers *w, void **data, struct values *v)
{
	const struct stx_loops *l = w->r->loops;
	for (uint32_t i = 0; i < l->buffers.n; i++) {
		const struct stx_buffer *b = l->buffers.at[i];
		if (b->kind == STX_BUF_INPUT)
			data[i] = w->inputs[b->index].data;
		if (b->def == STX_DEF_NONE)
			continue;
		int64_t n = stx_buffer_elems(l, b, NULL), width = stx_dtype_bytes(b->dtype);
		if (n < 0 || n > (PTRDIFF_MAX - 1) / width ||
		    !(data[i] = malloc((size_t)(n * width) + 1)))
			return no_memory(w);
		memset(data[i], 0xaa, (size_t)(n * width) + 1);
	}
	v->at = calloc(l->outputs.n + 1u, sizeof *v->at);
	return v->at ? STX_E_OK : no_memory(w);
}

/* What is written into an input lies as that does: dense, as t, in its own memory from now on. */
static stx_err make_dense(struct layers *w, const struct stx_buffer *b, void **data,
			  struct stx_tensor *t)
{
	const struct stx_layout *y = &b->layout;
	size_t width = (size_t)stx_dtype_bytes(b->dtype);
	int64_t strides[STX_MAX_RANK], offset = hint(w->r->graph, y->offset);
	if (!b->base || y->rank != t->rank)
		return STX_E_OK;
	void *dense = malloc((size_t)elems_of(t) * width + 1);
	if (!dense)
		return no_memory(w);
	for (int i = 0; i < t->rank; i++)
		strides[i] = hint(w->r->graph, y->strides[i]);
	move(t, dense, t->strides, (const char *)*data + (size_t)offset * width, strides);
	free(*data);
	*data = dense;
	return STX_E_OK;
}

/* Outputs leave data; the rest of it is freed. */
static stx_err take_outputs(struct layers *w, void **data, struct values *v, stx_err e)
{
	const struct stx_loops *l = w->r->loops;
	v->n = l->outputs.n;
	for (uint32_t i = 0; !e && i < l->outputs.n; i++) {
		const struct stx_buffer *b = l->buffers.at[l->outputs.at[i]];
		struct stx_tensor *t = &v->at[i];
		*t = w->before.at[i];
		t->data = NULL;
		if (b->index != i || (e = make_dense(w, b, &data[b->id], t)))
			continue;
		t->data = data[b->id];
		data[b->id] = NULL;
	}
	for (uint32_t i = 0; !e && i < l->outputs.n; i++) { /* results that are written inputs */
		uint32_t own = l->buffers.at[l->outputs.at[i]]->index;
		size_t bytes = (size_t)(elems_of(&v->at[i]) * stx_dtype_bytes(v->at[i].dtype));
		if (own == i)
			continue;
		if (!(v->at[i].data = malloc(bytes + 1)))
			e = no_memory(w);
		else
			memcpy(v->at[i].data, v->at[own].data, bytes);
	}
	for (uint32_t i = 0; i < l->buffers.n; i++)
		if (l->buffers.at[i]->def != STX_DEF_NONE)
			free(data[i]);
	free(data);
	return e;
}

static stx_err run_program(struct layers *w, struct values *v)
{
	struct run *r = w->r;
	void **data = calloc(r->loops->buffers.n + 1u, sizeof *data);
	if (!data)
		return no_memory(w);
	stx_err e = storage_of(w, data, v);
	if (!e)
		e = r->schedule ? stx_schedule_evaluate(r->schedule, data, NULL, r->d)
				: stx_handler_evaluate(r->loops, data, r->d);
	return take_outputs(w, data, v, e);
}

/* ---- comparing two layers ---- */

/* First element whose bits differ, NaN equal to NaN; -1: none. */
static int64_t first_difference(const struct stx_tensor *a, const struct stx_tensor *b)
{
	enum stx_dtype t = (enum stx_dtype)a->dtype;
	int64_t n = elems_of(a), width = stx_dtype_bytes(t);
	for (int64_t i = 0; i < n; i++) {
		const char *p = (const char *)a->data + i * width;
		const char *q = (const char *)b->data + i * width;
		if (!memcmp(p, q, (size_t)width))
			continue;
		if (stx_dtype_is_float(t) && isnan(stx_scalar_load(t, p).f) &&
		    isnan(stx_scalar_load(t, q).f))
			continue;
		return i;
	}
	return -1;
}

static double number_at(const struct stx_tensor *t, int64_t i)
{
	enum stx_dtype y = (enum stx_dtype)t->dtype;
	union stx_scalar v = stx_scalar_load(y, (const char *)t->data + i * stx_dtype_bytes(y));
	return stx_dtype_is_float(y)               ? v.f
	       : stx_dtype_kind(y) == STX_KIND_INT ? (double)v.i
						   : (double)v.u;
}

/* Roundings of the output's own type are within the tolerance. */
static double least_rtol(enum stx_dtype t)
{
	switch (t) {
	case STX_F64:
	case STX_F32: return 0;
	case STX_F16: return 0x1p-9;
	case STX_BF16: return 0x1p-6;
	default: return 0x1p-2;
	}
}

/* What a sum loses grows with its terms, not with its result: one that nearly cancels is off by as
 * much as its neighbours. */
#define OF_LARGEST 1e-6

static double largest_of(const struct stx_tensor *t)
{
	double most = 0;
	for (int64_t i = 0, n = elems_of(t); i < n; i++) {
		double v = fabs(number_at(t, i));
		most = isfinite(v) && v > most ? v : most;
	}
	return most;
}

static void compare_output(struct layers *w, struct stx_layer *layer, uint32_t i,
			   const struct stx_tensor *got, const struct stx_tensor *want, int exact)
{
	const char *const *names = w->r->imported.output_names;
	int64_t at = first_difference(got, want);
	if (at < 0)
		return;
	struct stx_compare c = { .rtol = fmax(w->o->rtol, least_rtol(want->dtype)),
				 .atol = fmax(w->o->atol, OF_LARGEST * largest_of(want)) };
	struct stx_diag ignored = { 0 };
	stx_err e = stx_ref_compare(got, want, &c, &ignored);
	layer->worst = fmax(layer->worst, c.max_abs);
	layer->is_equal = 0;
	if ((!e && !exact) || layer->verdict)
		return;
	at = e && c.worst >= 0 ? c.worst : at;
	layer->verdict = STX_E_MISMATCH;
	snprintf(layer->text, sizeof layer->text,
		 "output '%.80s', element %" PRId64 ": %.9g here, %.9g before",
		 names ? names[i] : "", at, number_at(got, at), number_at(want, at));
}

static struct stx_layer *new_layer(struct layers *w, const char *name, const char *class)
{
	struct stx_compare_result *out = w->out;
	if (out->nlayers == STX_MAX_LAYERS)
		return NULL;
	struct stx_layer *layer = &out->layers[out->nlayers++];
	snprintf(layer->name, sizeof layer->name, "%s", name);
	snprintf(layer->class_name, sizeof layer->class_name, "%s", class);
	layer->is_equal = 1;
	return layer;
}

static const char *class_text(enum pass_class c)
{
	return c == TOL ? "TOL" : "BIT";
}

/* The product of pass p against the one before. */
static stx_err compare_layer(struct layers *w, const struct pass *p)
{
	struct run *r = w->r;
	struct values now = { 0 };
	int sums = accumulates(r->graph);
	int exact = p->class != TOL && !(p->traits & EXPANDS && (sums || w->sums_before));
	struct stx_layer *layer = new_layer(w, p->name, exact ? "BIT" : "TOL");
	if (!layer)
		return STX_E_OK;
	w->sums_before = sums;
	if (r->loops && work_of(r->loops) > w->o->max_work) {
		layer->verdict = STX_E_TOO_LARGE;
		layer->is_equal = 0;
		snprintf(layer->text, sizeof layer->text,
			 "not evaluated: %" PRIu64 " instructions, the limit is %" PRIu64,
			 work_of(r->loops), w->o->max_work);
		return STX_E_OK;
	}
	stx_err e = r->loops ? run_program(w, &now) : run_graph(w, &now);
	if (e && e != STX_E_NOMEM) { /* before it the same request was evaluated */
		layer->verdict = e;
		layer->is_equal = 0;
		snprintf(layer->text, sizeof layer->text, "%.*s", (int)sizeof layer->text - 1,
			 r->d ? r->d->text : stx_err_text(e));
		stx_diag_clear(r->d);
		e = STX_E_OK;
	} else if (!e) {
		for (uint32_t i = 0; i < now.n && i < w->before.n; i++)
			compare_output(w, layer, i, &now.at[i], &w->before.at[i], exact);
		free_values(&w->before);
		w->before = now;
		memset(&now, 0, sizeof now);
		w->out->is_exact = r->schedule != NULL;
	}
	if (layer->verdict && w->out->first < 0)
		w->out->first = (int)(layer - w->out->layers);
	free_values(&now);
	return e;
}

/* ---- the whole ---- */

/* Products that are compared: what is verified of the source is the first layer, and the data plan
 * is not run here. */
static int has_layer(const struct pass *p)
{
	return p->product == BASIS || p->product == LOOPS || p->product == KERNELS;
}

/* 1: the pass left the graph as it was. */
static int is_unchanged(struct layers *w)
{
	struct stx_bytes now = { 0 };
	if (w->r->loops || stx_graph_print(w->r->graph, &now)) {
		stx_bytes_free(&now);
		return 0;
	}
	int same = !strcmp(stx_bytes_cstr(&now), stx_bytes_cstr(&w->text));
	stx_bytes_free(&w->text);
	w->text = now;
	return same;
}

/* The passes of the run that are still to come. */
static stx_err run_layers(struct layers *w, enum which_run which)
{
	const struct pass *end = stx__passes + stx__npasses;
	stx_err e = STX_E_OK;
	for (const struct pass *p = w->r->last + 1; !e && p < end && p->run == which; p++) {
		e = stx__run_pass(w->r, p);
		if (e || !has_layer(p))
			continue;
		if (!is_unchanged(w))
			e = compare_layer(w, p);
		else
			new_layer(w, p->name, class_text(p->class));
	}
	return e;
}

static stx_err first_layer(struct layers *w)
{
	if (!new_layer(w, "graph", "-"))
		return STX_E_INTERNAL;
	w->sums_before = accumulates(w->r->graph);
	is_unchanged(w);
	return run_graph(w, &w->before);
}

static stx_err lay_out_inputs(struct layers *w, const struct stx_tensor *inputs,
			      struct stx_tensor *mine)
{
	if (w->ninputs != w->r->graph->inputs.n)
		return stx_fail(w->r->d, STX_E_INVALID, "compare", NULL, "%u values for %u inputs",
				w->ninputs, w->r->graph->inputs.n);
	for (uint32_t i = 0; i < w->ninputs; i++) {
		mine[i].data = NULL;
		stx_err e = lay_out(w, i, &inputs[i], &mine[i]);
		if (e)
			return e;
	}
	return STX_E_OK;
}

stx_err stx_compile_compare(const struct stx_source *s, const struct stx_compare_options *o,
			    const struct stx_tensor *inputs, uint32_t ninputs,
			    struct stx_tensor *outputs, uint32_t *noutputs,
			    struct stx_compare_result *out, struct stx_diag *d)
{
	struct run r;
	struct stx_bytes text = { 0 };
	struct stx_tensor *mine = calloc(ninputs + 1u, sizeof *mine);
	struct layers w = { .r = &r, .o = o, .inputs = mine, .ninputs = ninputs, .out = out };
	memset(out, 0, sizeof *out);
	out->first = -1;
	stx_err e = stx__run_open(&r, &o->compile, d);
	r.source = s;
	if (!e && !mine)
		e = no_memory(&w);
	if (!e)
		e = stx__run_passes(&r, KEY, stx__pass_functionalise());
	if (!e)
		e = stx__verify_source(&r);
	if (!e)
		e = lay_out_inputs(&w, inputs, mine);
	if (!e)
		e = first_layer(&w);
	if (!e)
		e = run_layers(&w, KEY);
	if (!e)
		e = stx_graph_print(r.graph, &text);
	r.text = (struct stx_span){ text.at, text.n };
	if (!e)
		e = run_layers(&w, PLAN);
	if (!e && w.before.n > *noutputs)
		e = stx_fail(d, STX_E_TOO_LARGE, "compare", NULL, "more outputs than room for");
	if (!e) {
		*noutputs = w.before.n;
		memcpy(outputs, w.before.at, w.before.n * sizeof *outputs);
		w.before.n = 0; /* moved */
	}
	free_values(&w.before);
	stx_bytes_free(&w.text);
	for (uint32_t i = 0; mine && i < ninputs; i++)
		free(mine[i].data);
	free(mine);
	stx_bytes_free(&text);
	stx__run_close(&r);
	return e;
}
