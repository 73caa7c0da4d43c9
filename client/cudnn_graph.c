/* cudnn_graph.c: a convolution as a graph of cuDNN's backend API, the engines that its heuristics
 * list for it, and plans of them.
 *
 * Source: NVIDIA's cuDNN 9 documentation of the backend API (descriptor types and their
 * attributes). A descriptor's attributes are set, it is finalised, and only then another one takes
 * it; those that others took stay until all are freed. */
#include <stdio.h>
#include <string.h>

#include "cudnn.h"

#define MAX_LISTED        128 /* engine configurations that a heuristic is asked for */
#define MAX_NOTES         32
#define MAX_KNOBS         64
#define VIRTUAL_ALIGNMENT 16
#define SUM               9 /* the name of the sums before the bias in a graph */

int stx__cudnn_set_i64(const struct stx__cudnn *q, void *desc, int attribute, uint32_t n,
		       const int64_t *v)
{
	return q->desc_set(desc, attribute, STX_CUDNN_TYPE_INT64, n, v);
}

int stx__cudnn_set_int(const struct stx__cudnn *q, void *desc, int attribute, int type, int v)
{
	return q->desc_set(desc, attribute, type, 1, &v);
}

int stx__cudnn_set_desc(const struct stx__cudnn *q, void *desc, int attribute, void *v)
{
	return q->desc_set(desc, attribute, STX_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &v);
}

/* A part of the graph, not finalised. */
int stx__cudnn_part(const struct stx__cudnn *q, struct stx__cudnn_graph *g, int type, void **out)
{
	int result = q->desc_create(type, out);
	if (!result)
		g->part[g->n++] = *out;
	return result;
}

/* ---- parts ---- */

/* cuDNN's tensors have two spatial dimensions at least. */
static void widen(uint32_t k, const struct stx__cudnn_tensor *t, struct stx__cudnn_tensor *out)
{
	*out = *t;
	if (k > 1)
		return;
	out->size[2] = 1;
	out->size[3] = t->size[2];
	out->stride[2] = t->size[2] * t->stride[2];
	out->stride[3] = t->stride[2];
}

static int make_tensor(const struct stx__cudnn *q, struct stx__cudnn_graph *g,
		       const struct stx__cudnn_conv *c, const struct stx__cudnn_tensor *t, int type,
		       int64_t id, void **out)
{
	struct stx__cudnn_tensor wide;
	uint32_t rank = c->k > 1 ? 2 + c->k : 4;
	int64_t whole = VIRTUAL_ALIGNMENT;
	char is_virtual = id == SUM;
	widen(c->k, t, &wide);
	int e = stx__cudnn_part(q, g, STX_CUDNN_BACKEND_TENSOR_DESCRIPTOR, out);
	if (!e)
		e = stx__cudnn_set_int(q, *out, STX_CUDNN_ATTR_TENSOR_DATA_TYPE,
				       STX_CUDNN_TYPE_DATA_TYPE, type);
	if (!e)
		e = stx__cudnn_set_i64(q, *out, STX_CUDNN_ATTR_TENSOR_DIMENSIONS, rank, wide.size);
	if (!e)
		e = stx__cudnn_set_i64(q, *out, STX_CUDNN_ATTR_TENSOR_STRIDES, rank, wide.stride);
	if (!e)
		e = stx__cudnn_set_i64(q, *out, STX_CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, &id);
	if (!e)
		e = stx__cudnn_set_i64(q, *out, STX_CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1,
				       is_virtual ? &whole : &c->alignment);
	if (!e && is_virtual)
		e = q->desc_set(*out, STX_CUDNN_ATTR_TENSOR_IS_VIRTUAL, STX_CUDNN_TYPE_BOOLEAN, 1,
				&is_virtual);
	return e ? e : q->desc_finalize(*out);
}

static int make_convolution(const struct stx__cudnn *q, struct stx__cudnn_graph *g,
			    const struct stx__cudnn_conv *c, void **out)
{
	static const int names[4] = { STX_CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
				      STX_CUDNN_ATTR_CONVOLUTION_DILATIONS,
				      STX_CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
				      STX_CUDNN_ATTR_CONVOLUTION_POST_PADDINGS };
	const int64_t *const values[4] = { c->stride, c->dilation, c->before, c->after };
	int64_t rank = c->k > 1 ? c->k : 2;
	int e = stx__cudnn_part(q, g, STX_CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, out);
	if (!e)
		e = stx__cudnn_set_int(q, *out, STX_CUDNN_ATTR_CONVOLUTION_COMP_TYPE,
				       STX_CUDNN_TYPE_DATA_TYPE, c->accumulate);
	if (!e)
		e = stx__cudnn_set_int(q, *out, STX_CUDNN_ATTR_CONVOLUTION_CONV_MODE,
				       STX_CUDNN_TYPE_CONVOLUTION_MODE,
				       STX_CUDNN_CROSS_CORRELATION);
	if (!e)
		e = stx__cudnn_set_i64(q, *out, STX_CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, &rank);
	for (int i = 0; i < 4 && !e; i++) {
		int64_t v[3] = { i < 2, values[i][0] }; /* of one dimension: a first one of 1 */
		e = stx__cudnn_set_i64(q, *out, names[i], (uint32_t)rank, c->k > 1 ? values[i] : v);
	}
	return e ? e : q->desc_finalize(*out);
}

/* alpha 1, beta 0, of the type of the sum. */
static int set_scale(const struct stx__cudnn *q, const struct stx__cudnn_conv *c, void *op,
		     int alpha, int beta)
{
	static const double d[2] = { 1, 0 };
	static const float f[2] = { 1, 0 };
	int is_f64 = c->accumulate == STX_CUDNN_DATA_DOUBLE;
	int type = is_f64 ? STX_CUDNN_TYPE_DOUBLE : STX_CUDNN_TYPE_FLOAT;
	int e = q->desc_set(op, alpha, type, 1, is_f64 ? (const void *)&d[0] : &f[0]);
	return e ? e : q->desc_set(op, beta, type, 1, is_f64 ? (const void *)&d[1] : &f[1]);
}

static int make_operation(const struct stx__cudnn *q, struct stx__cudnn_graph *g,
			  const struct stx__cudnn_conv *c, void *conv, void *x, void *w, void *y,
			  void **out)
{
	int b = c->is_gradient;
	int e = stx__cudnn_part(q, g,
				b ? STX_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
				  : STX_CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
				out);
	if (!e)
		e = stx__cudnn_set_desc(q, *out,
					b ? STX_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC
					  : STX_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
					conv);
	if (!e)
		e = stx__cudnn_set_desc(q, *out,
					b ? STX_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY
					  : STX_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
					x);
	if (!e)
		e = stx__cudnn_set_desc(q, *out,
					b ? STX_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W
					  : STX_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
					w);
	if (!e)
		e = stx__cudnn_set_desc(q, *out,
					b ? STX_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX
					  : STX_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
					y);
	if (!e)
		e = set_scale(q, c, *out,
			      b ? STX_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA
				: STX_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
			      b ? STX_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA
				: STX_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
	return e ? e : q->desc_finalize(*out);
}

/* y = sum + bias, one element of it for each channel. */
static int make_addition(const struct stx__cudnn *q, struct stx__cudnn_graph *g,
			 const struct stx__cudnn_conv *c, void *sum, void *y, void **out)
{
	struct stx__cudnn_tensor t;
	void *bias, *add;
	int64_t channels = c->y.size[1];
	for (int i = 0; i < 5; i++) {
		t.size[i] = i == 1 ? channels : 1;
		t.stride[i] = i == 1 ? 1 : channels;
	}
	int e = make_tensor(q, g, c, &t, c->type, STX__CUDNN_BIAS, &bias);
	if (!e)
		e = stx__cudnn_part(q, g, STX_CUDNN_BACKEND_POINTWISE_DESCRIPTOR, &add);
	if (!e)
		e = stx__cudnn_set_int(q, add, STX_CUDNN_ATTR_POINTWISE_MODE,
				       STX_CUDNN_TYPE_POINTWISE_MODE, STX_CUDNN_POINTWISE_ADD);
	if (!e)
		e = stx__cudnn_set_int(q, add, STX_CUDNN_ATTR_POINTWISE_MATH_PREC,
				       STX_CUDNN_TYPE_DATA_TYPE, c->accumulate);
	if (!e)
		e = q->desc_finalize(add);
	if (!e)
		e = stx__cudnn_part(q, g, STX_CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, out);
	if (!e)
		e = stx__cudnn_set_desc(q, *out, STX_CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
					add);
	if (!e)
		e = stx__cudnn_set_desc(q, *out, STX_CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sum);
	if (!e)
		e = stx__cudnn_set_desc(q, *out, STX_CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bias);
	if (!e)
		e = stx__cudnn_set_desc(q, *out, STX_CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
	return e ? e : q->desc_finalize(*out);
}

int stx__cudnn_conv_graph(const struct stx__cudnn *q, void *handle, const struct stx__cudnn_conv *c,
			  struct stx__cudnn_graph *out)
{
	void *x = NULL, *w = NULL, *y = NULL, *sum, *conv = NULL, *op[2];
	*out = (struct stx__cudnn_graph){ .is_gradient = c->is_gradient };
	int e = make_tensor(q, out, c, &c->x, c->type, STX__CUDNN_X, &x);
	if (!e)
		e = make_tensor(q, out, c, &c->w, c->type, STX__CUDNN_W, &w);
	if (!e)
		e = make_tensor(q, out, c, &c->y, c->type, STX__CUDNN_Y, &y);
	sum = y;
	if (!e && c->has_bias) /* not in memory, so in the type of the sum */
		e = make_tensor(q, out, c, &c->y, c->accumulate, SUM, &sum);
	if (!e)
		e = make_convolution(q, out, c, &conv);
	if (!e)
		e = make_operation(q, out, c, conv, x, w, sum, &op[0]);
	if (!e && c->has_bias)
		e = make_addition(q, out, c, sum, y, &op[1]);
	return e ? e : stx__cudnn_join(q, handle, out, op, 1 + c->has_bias);
}

int stx__cudnn_join(const struct stx__cudnn *q, void *handle, struct stx__cudnn_graph *g,
		    void *const *operations, int64_t n)
{
	void *graph;
	int e = stx__cudnn_part(q, g, STX_CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &graph);
	if (!e && handle)
		e = q->desc_set(graph, STX_CUDNN_ATTR_OPERATIONGRAPH_HANDLE, STX_CUDNN_TYPE_HANDLE,
				1, &handle);
	if (!e)
		e = q->desc_set(graph, STX_CUDNN_ATTR_OPERATIONGRAPH_OPS,
				STX_CUDNN_TYPE_BACKEND_DESCRIPTOR, n, operations);
	return e ? e : q->desc_finalize(graph);
}

void stx__cudnn_graph_free(const struct stx__cudnn *q, struct stx__cudnn_graph *g)
{
	while (g->n)
		q->desc_destroy(g->part[--g->n]);
}

/* ---- engines ---- */

/* Notes of engines whose results NUMERICS.md does not allow. An engine of f32 that uses tensor
 * cores rounds its operands to TF32. */
static int is_barred(int note, int type)
{
	switch (note) {
	case STX_CUDNN_NUMERICAL_NOTE_TENSOR_CORE: return type == STX_CUDNN_DATA_FLOAT;
	case STX_CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
	case STX_CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
	case STX_CUDNN_NUMERICAL_NOTE_FFT:
	case STX_CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
	case STX_CUDNN_NUMERICAL_NOTE_WINOGRAD:
	case STX_CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
	case STX_CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
	case STX_CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13: return 1;
	default: return 0;
	}
}

/* Engine 2 of gradients is off by more than one rounding of halves, whatever the sum's type, and no
 * note says so (9.19 on an H200; it has one tile, as the library's dgrad2d_alg1_1_half, whose code
 * adds by HFMA2). Not all without notes are: engine 1's kernels add by FFMA, and for channels on
 * their own there are no others. */
static int adds_in_halves(const struct stx__cudnn_graph *g, int64_t engine, int type)
{
	return g->is_gradient && engine == 2 && type == STX_CUDNN_DATA_HALF;
}

/* Puts n fresh descriptors of a type into out; their number. */
static int create_all(const struct stx__cudnn *q, int type, int n, void **out)
{
	for (int i = 0; i < n; i++)
		if (q->desc_create(type, &out[i]))
			return i;
	return n;
}

static void destroy_all(const struct stx__cudnn *q, void **desc, int n)
{
	for (int i = 0; i < n; i++)
		if (desc[i])
			q->desc_destroy(desc[i]);
}

/* The engine of a configuration: its number; -1: its arithmetic is barred, or it does not say. */
static int64_t engine_of(const struct stx__cudnn *q, void *config, int type)
{
	int notes[MAX_NOTES];
	int64_t n = 0, number = -1;
	void *engine;
	if (q->desc_create(STX_CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine))
		return -1;
	int e = q->desc_get(config, STX_CUDNN_ATTR_ENGINECFG_ENGINE,
			    STX_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine);
	if (!e)
		e = q->desc_get(engine, STX_CUDNN_ATTR_ENGINE_GLOBAL_INDEX, STX_CUDNN_TYPE_INT64, 1,
				&n, &number);
	if (!e)
		e = q->desc_get(engine, STX_CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
				STX_CUDNN_TYPE_NUMERICAL_NOTE, MAX_NOTES, &n, notes);
	for (int64_t i = 0; !e && i < n && i < MAX_NOTES; i++)
		if (is_barred(notes[i], type))
			number = -1;
	q->desc_destroy(engine);
	return e ? -1 : number;
}

/* The same in every process with this library: its version, the engine, its knobs. */
static void name_engine(const struct stx__cudnn *q, void *config, int64_t engine, char *out,
			size_t cap)
{
	void *knob[MAX_KNOBS] = { NULL };
	int made = create_all(q, STX_CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, MAX_KNOBS, knob);
	int64_t n = 0, one;
	size_t len =
		(size_t)snprintf(out, cap, "dnn%zu engine=%lld", q->version(), (long long)engine);
	if (q->desc_get(config, STX_CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
			STX_CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &n, knob))
		n = 0;
	struct stx_digest all = stx_digest_of(&engine, sizeof engine);
	for (int64_t i = 0; i < n && i < made; i++) {
		struct {
			struct stx_digest before;
			int64_t type, value;
		} next = { .before = all };
		int type = 0;
		if (q->desc_get(knob[i], STX_CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
				STX_CUDNN_TYPE_KNOB_TYPE, 1, &one, &type) ||
		    q->desc_get(knob[i], STX_CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
				STX_CUDNN_TYPE_INT64, 1, &one, &next.value))
			continue;
		next.type = type;
		all = stx_digest_of(&next, sizeof next);
		if (len < cap)
			len += (size_t)snprintf(out + len, cap - len, " %d=%lld", type,
						(long long)next.value);
	}
	destroy_all(q, knob, made);
	if (len < cap)
		return;
	char hex[STX_DIGEST_HEX];
	stx_digest_hex(&all, hex);
	snprintf(out, cap, "dnn%zu engine=%lld knobs#%.16s", q->version(), (long long)engine, hex);
}

/* Appends to out what one heuristic lists; the new number. */
static uint32_t list(const struct stx__cudnn *q, const struct stx__cudnn_graph *g, int mode,
		     int type, void *device, uint32_t n, uint32_t most,
		     struct stx__cudnn_engine *out)
{
	void *config[MAX_LISTED] = { NULL }, *heuristic = NULL;
	int64_t found = 0, engine;
	int made = 0;
	int e = q->desc_create(STX_CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristic);
	if (e)
		return n;
	e = stx__cudnn_set_desc(q, heuristic, STX_CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
				g->part[g->n - 1]);
	if (!e)
		e = stx__cudnn_set_int(q, heuristic, STX_CUDNN_ATTR_ENGINEHEUR_MODE,
				       STX_CUDNN_TYPE_HEUR_MODE, mode);
	if (!e && device)
		e = stx__cudnn_set_desc(q, heuristic, STX_CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
	if (!e)
		e = q->desc_finalize(heuristic);
	if (!e)
		made = create_all(q, STX_CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, MAX_LISTED, config);
	if (!e && q->desc_get(heuristic, STX_CUDNN_ATTR_ENGINEHEUR_RESULTS,
			      STX_CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &found, config))
		found = 0;
	for (int64_t i = 0; i < found && i < made && n < most; i++) {
		struct stx__cudnn_engine *o = &out[n];
		uint32_t same = 0;
		if ((engine = engine_of(q, config[i], type)) < 0 || adds_in_halves(g, engine, type))
			continue;
		*o = (struct stx__cudnn_engine){ .config = config[i] };
		name_engine(q, config[i], engine, o->name, sizeof o->name);
		while (same < n && strcmp(out[same].name, o->name) != 0)
			same++;
		if (same == n) {
			config[i] = NULL;
			n++;
		}
	}
	destroy_all(q, config, made);
	q->desc_destroy(heuristic);
	return n;
}

uint32_t stx__cudnn_engines(const struct stx__cudnn *q, const struct stx__cudnn_graph *g, int type,
			    void *device, uint32_t most, struct stx__cudnn_engine *out)
{
	static const int modes[2] = { STX_CUDNN_HEUR_MODE_A, STX_CUDNN_HEUR_MODE_FALLBACK };
	uint32_t n = 0;
	for (int i = 0; i < 2 && n < most; i++)
		n = list(q, g, modes[i], type, device, n, most, out);
	return n;
}

int stx__cudnn_plan(const struct stx__cudnn *q, void *handle, void *device,
		    struct stx__cudnn_engine *e, int64_t most)
{
	int64_t n;
	if (e->plan || e->failed)
		return !e->failed;
	int result = q->desc_create(STX_CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &e->plan);
	if (!result && handle)
		result = q->desc_set(e->plan, STX_CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
				     STX_CUDNN_TYPE_HANDLE, 1, &handle);
	if (!result)
		result = stx__cudnn_set_desc(
			q, e->plan, STX_CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, e->config);
	if (!result && device)
		result = stx__cudnn_set_desc(q, e->plan, STX_CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
					     device);
	if (!result)
		result = q->desc_finalize(e->plan);
	if (!result)
		result = q->desc_get(e->plan, STX_CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
				     STX_CUDNN_TYPE_INT64, 1, &n, &e->workspace_bytes);
	e->failed = result ? result : e->workspace_bytes < 0 || e->workspace_bytes > most ? -1 : 0;
	return !e->failed;
}

void stx__cudnn_engine_free(const struct stx__cudnn *q, struct stx__cudnn_engine *e)
{
	if (e->plan)
		q->desc_destroy(e->plan);
	if (e->config)
		q->desc_destroy(e->config);
	memset(e, 0, sizeof *e);
}
