/* onnx_control.c: control flow that is known when compiling: If takes the branch of its condition,
 * Loop and Scan are unrolled.
 *
 * Conditions and trip counts must be constants, or inputs whose values are given (specialised).
 * What is carried may change its shape between iterations. Bounded by the node count of the whole
 * import (onnx_body_run). Source: ONNX If, Loop 1 to 25, Scan 8 to 25. */
#include "onnx_import.h"

#include <stdlib.h>
#include <string.h>

#define MAX_VALUES 256 /* carried, scanned and stacked, together */

static stx_err map_if(struct onnx *c, V *out)
{
	int64_t taken = 0;
	struct onnx_body b;
	if (onnx_known_ints(c, onnx_in(c, 0), "the condition", &taken, 1) != 1)
		return onnx_fail(c, STX_E_INVALID, "the condition must be one truth value");
	if (!onnx_body_begin(c, taken ? "then_branch" : "else_branch", &b))
		onnx_body_run(c, &b, NULL, 0, out, c->n->n_output);
	onnx_body_end(c, &b);
	return c->err;
}

/* ---- stacks: one value an iteration, joined along a new axis ---- */

struct stack {
	STX_VEC(V) v;
};

static void push(struct onnx *c, struct stack *s, V v)
{
	if (!c->err && stx_push(c->arena, &s->v, v))
		onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
}

/* The type of a body's output as the model declares it, for a loop that never runs. */
static V empty_stack(struct onnx *c, const Onnx__ValueInfoProto *info, int64_t axis)
{
	int64_t sizes[STX_MAX_DIMS] = { 0 };
	const Onnx__TypeProto__Tensor *t =
		info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
			? info->type->tensor_type
			: NULL;
	enum stx_dtype dtype = t ? stx_onnx_dtype(t->elem_type) : STX_DTYPE_NONE;
	int rank = t && t->shape ? (int)t->shape->n_dim : 0, n = 0;
	if (dtype == STX_DTYPE_NONE || rank >= STX_MAX_DIMS) {
		onnx_fail(c, STX_E_UNSUPPORTED,
			  "no iteration runs and the subgraph does not say the type of '%s'",
			  info->name ? info->name : "");
		return NO_V;
	}
	int at = onnx_axis(c, axis, rank + 1);
	for (int i = 0; i <= rank && !c->err; i++) {
		if (i == at) {
			sizes[i] = 0;
			continue;
		}
		const Onnx__TensorShapeProto__Dimension *d = t->shape->dim[n++];
		if (d->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE)
			onnx_fail(c, STX_E_UNSUPPORTED,
				  "no iteration runs and the sizes of '%s' are not declared",
				  info->name ? info->name : "");
		sizes[i] = d->dim_value;
	}
	return onnx_full(c, sizes, rank + 1, 0, dtype);
}

static V join(struct onnx *c, struct stack *s, const Onnx__ValueInfoProto *info, int64_t axis,
	      int reverse)
{
	unsigned n = s->v.n;
	if (c->err)
		return NO_V;
	if (!n)
		return empty_stack(c, info, axis);
	if (onnx_rank(s->v.at[0]) >= STX_MAX_DIMS) {
		onnx_fail(c, STX_E_TOO_LARGE, "the result's rank is above %d", STX_MAX_DIMS);
		return NO_V;
	}
	int dim = onnx_axis(c, axis, onnx_rank(s->v.at[0]) + 1);
	V *parts = STX_NEW_ARRAY(c->arena, V, n);
	if (!parts) {
		onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
		return NO_V;
	}
	for (unsigned i = 0; i < n; i++)
		parts[i] = onnx_unsqueeze(c, s->v.at[reverse ? n - 1 - i : i], dim);
	return onnx_cat(c, parts, n, dim);
}

/* ---- Loop ---- */

struct loop {
	size_t carried, stacked;
	int64_t trips; /* INT64_MAX: until the condition ends it */
	int64_t go;
	V state[MAX_VALUES]; /* number, condition, carried.. */
	struct stack stacks[MAX_VALUES];
};

static int loop_start(struct onnx *c, struct loop *l)
{
	l->go = 1;
	l->trips = INT64_MAX;
	if (onnx_has(c, 0) &&
	    onnx_known_ints(c, onnx_in(c, 0), "the trip count", &l->trips, 1) != 1)
		return onnx_fail(c, STX_E_INVALID, "the trip count must be one number");
	if (onnx_has(c, 1) && onnx_known_ints(c, onnx_in(c, 1), "the condition", &l->go, 1) != 1)
		return onnx_fail(c, STX_E_INVALID, "the condition must be one truth value");
	l->carried = c->n->n_input > 2 ? c->n->n_input - 2 : 0;
	if (l->carried + 2 > MAX_VALUES)
		return onnx_fail(c, STX_E_TOO_LARGE, "more than %d carried values", MAX_VALUES - 2);
	for (size_t i = 0; i < l->carried; i++)
		l->state[2 + i] = onnx_in(c, 2 + (unsigned)i);
	return c->err;
}

static stx_err run_loop(struct onnx *c, struct onnx_body *b, struct loop *l, V *out)
{
	V r[MAX_VALUES];
	size_t results = b->graph->n_output;
	if (results < 1 + l->carried || results > MAX_VALUES)
		return onnx_fail(c, STX_E_INVALID,
				 "the body has %zu outputs; the condition and %zu carried values "
				 "are needed",
				 results, l->carried);
	l->stacked = results - 1 - l->carried;
	for (int64_t i = 0; i < l->trips && l->go && !c->err; i++) {
		l->state[0] = onnx_constant(c, NULL, STX_I64, 0, NULL, &i, 8);
		l->state[1] = onnx_number(c, 1, STX_BOOL);
		if (onnx_body_run(c, b, l->state, 2 + l->carried, r, MAX_VALUES))
			return c->err;
		memcpy(l->state + 2, r + 1, l->carried * sizeof *r);
		for (size_t k = 0; k < l->stacked; k++)
			push(c, &l->stacks[k], r[1 + l->carried + k]);
		onnx_known_ints(c, r[0], "the condition to go on", &l->go, 1);
	}
	memcpy(out, l->state + 2, l->carried * sizeof *out);
	for (size_t k = 0; k < l->stacked; k++)
		out[l->carried + k] =
			join(c, &l->stacks[k], b->graph->output[1 + l->carried + k], 0, 0);
	return c->err;
}

static stx_err map_loop(struct onnx *c, V *out)
{
	struct onnx_body b;
	struct loop *l = STX_NEW(c->arena, struct loop);
	if (!l)
		return onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
	if (loop_start(c, l))
		return c->err;
	if (!onnx_body_begin(c, "body", &b))
		run_loop(c, &b, l, out);
	onnx_body_end(c, &b);
	return c->err;
}

/* ---- Scan ---- */

struct scan {
	size_t states, scanned, stacked;
	int64_t length;
	int64_t in_axis[MAX_VALUES], in_back[MAX_VALUES], out_axis[MAX_VALUES],
		out_back[MAX_VALUES];
	V state[MAX_VALUES], source[MAX_VALUES];
	struct stack stacks[MAX_VALUES];
};

/* An attribute of one integer a value; zeros when absent. */
static void scan_ints(struct onnx *c, const char *name, size_t n, int64_t *out)
{
	const int64_t *v;
	int have = onnx_ints(c, name, &v);
	for (size_t i = 0; i < n; i++)
		out[i] = have == (int)n ? v[i] : 0;
	if (have >= 0 && have != (int)n)
		onnx_fail(c, STX_E_INVALID, "attribute %s has %d numbers, %zu are needed", name,
			  have, n);
}

static V element(struct onnx *c, V x, int64_t axis, int64_t i)
{
	if (c->err)
		return NO_V;
	struct stx_arg a[3] = { stx_arg_tensor(x), stx_arg_int(c->g, axis), stx_arg_int(c->g, i) };
	return onnx_call(c, STX_OP_SELECT, a, 3);
}

/* Runs the body over the length; s->state ends as the final states. */
static void scan_run(struct onnx *c, struct onnx_body *b, struct scan *s, V *stacked)
{
	V in[MAX_VALUES], r[MAX_VALUES];
	for (size_t k = 0; k < s->stacked; k++)
		s->stacks[k].v.n = 0;
	for (int64_t i = 0; i < s->length && !c->err; i++) {
		memcpy(in, s->state, s->states * sizeof *in);
		for (size_t k = 0; k < s->scanned; k++)
			in[s->states + k] = element(c, s->source[k], s->in_axis[k],
						    s->in_back[k] ? s->length - 1 - i : i);
		if (onnx_body_run(c, b, in, s->states + s->scanned, r, MAX_VALUES))
			return;
		memcpy(s->state, r, s->states * sizeof *r);
		for (size_t k = 0; k < s->stacked; k++)
			push(c, &s->stacks[k], r[s->states + k]);
	}
	for (size_t k = 0; k < s->stacked; k++)
		stacked[k] = join(c, &s->stacks[k], b->graph->output[s->states + k], s->out_axis[k],
				  s->out_back[k] != 0);
}

/* Counts and axes; `first` is the first input that is a state. */
static stx_err scan_start(struct onnx *c, struct onnx_body *b, struct scan *s, unsigned first)
{
	int64_t scanned = onnx_int(c, "num_scan_inputs", 0);
	int64_t inputs = (int64_t)c->n->n_input - first;
	if (scanned < 1 || scanned > inputs || inputs > MAX_VALUES)
		return onnx_fail(c, STX_E_INVALID, "num_scan_inputs is %lld of %lld inputs",
				 (long long)scanned, (long long)inputs);
	s->scanned = (size_t)scanned;
	s->states = (size_t)(inputs - scanned);
	if (b->graph->n_output < s->states || b->graph->n_output > MAX_VALUES)
		return onnx_fail(c, STX_E_INVALID, "the body has %zu outputs for %zu states",
				 b->graph->n_output, s->states);
	s->stacked = b->graph->n_output - s->states;
	scan_ints(c, first ? "directions" : "scan_input_directions", s->scanned, s->in_back);
	if (!first) {
		scan_ints(c, "scan_input_axes", s->scanned, s->in_axis);
		scan_ints(c, "scan_output_axes", s->stacked, s->out_axis);
		scan_ints(c, "scan_output_directions", s->stacked, s->out_back);
	}
	return c->err;
}

static stx_err scan_9(struct onnx *c, struct onnx_body *b, struct scan *s, V *out)
{
	if (scan_start(c, b, s, 0))
		return c->err;
	for (size_t i = 0; i < s->states; i++)
		s->state[i] = onnx_in(c, (unsigned)i);
	for (size_t k = 0; k < s->scanned && !c->err; k++) {
		V x = s->source[k] = onnx_in(c, (unsigned)(s->states + k));
		if (!c->err && !onnx_rank(x))
			return onnx_fail(c, STX_E_INVALID, "a scanned input has rank 0");
		s->in_axis[k] = onnx_axis(c, s->in_axis[k], onnx_rank(x));
		int64_t n = onnx_dim(c, x, (int)s->in_axis[k]);
		if (k && n != s->length)
			return onnx_fail(c, STX_E_INVALID,
					 "scanned inputs of lengths %lld and %lld",
					 (long long)s->length, (long long)n);
		s->length = n;
	}
	scan_run(c, b, s, out + s->states);
	memcpy(out, s->state, s->states * sizeof *out);
	return c->err;
}

/* Scan 8: a batch dimension first, sequence lengths by input 0. Sequences shorter than the longest
 * are scanned to their length, and their stacked results end in zeros. */
static V pad_to(struct onnx *c, V x, int64_t length)
{
	int64_t have = onnx_dim(c, x, 0), pads[2 * STX_MAX_DIMS] = { 0 };
	int rank = onnx_rank(x);
	if (c->err || have == length)
		return x;
	pads[2 * (rank - 1) + 1] = length - have;
	struct stx_arg zero = onnx_is_float(x) ? stx_arg_scalar_f(0) : stx_arg_scalar_i(0);
	struct stx_arg a[3] = { stx_arg_tensor(x), stx_arg_ints(c->g, pads, 2 * (uint32_t)rank),
				zero };
	return onnx_call(c, STX_OP_PAD, a, 3);
}

static stx_err scan_8(struct onnx *c, struct onnx_body *b, struct scan *s, V *out)
{
	int64_t lengths[MAX_VALUES], batch, longest;
	struct stack *all = STX_NEW_ARRAY(c->arena, struct stack, MAX_VALUES);
	V stacked[MAX_VALUES] = { { NULL, 0 } };
	if (scan_start(c, b, s, 1))
		return c->err;
	V first = onnx_in(c, 1 + (unsigned)s->states);
	batch = onnx_dim(c, first, 0);
	longest = onnx_dim(c, first, 1);
	if (!c->err && (!all || batch < 1 || batch > MAX_VALUES))
		return onnx_fail(c, STX_E_UNSUPPORTED, "operator Scan: a batch of %lld",
				 (long long)batch);
	for (int64_t i = 0; i < batch && !c->err; i++)
		lengths[i] = longest;
	if (onnx_has(c, 0) &&
	    onnx_known_ints(c, onnx_in(c, 0), "the sequence lengths", lengths, (int)batch) != batch)
		return onnx_fail(c, STX_E_INVALID, "%lld sequence lengths are needed",
				 (long long)batch);
	for (int64_t i = 0; i < batch && !c->err; i++) {
		s->length = lengths[i] < 0 || lengths[i] > longest ? longest : lengths[i];
		for (size_t k = 0; k < s->states; k++)
			s->state[k] = element(c, onnx_in(c, 1 + (unsigned)k), 0, i);
		for (size_t k = 0; k < s->scanned; k++) {
			V x = element(c, onnx_in(c, 1 + (unsigned)(s->states + k)), 0, i);
			s->source[k] = onnx_slice(c, x, 0, 0, s->length, 1);
		}
		scan_run(c, b, s, stacked);
		for (size_t k = 0; k < s->states; k++)
			push(c, &all[k], s->state[k]);
		for (size_t k = 0; k < s->stacked; k++)
			push(c, &all[s->states + k], pad_to(c, stacked[k], longest));
	}
	for (size_t k = 0; k < s->states + s->stacked && !c->err; k++)
		out[k] = join(c, &all[k], b->graph->output[k], 0, 0);
	return c->err;
}

static stx_err map_scan(struct onnx *c, V *out)
{
	struct onnx_body b;
	struct scan *s = STX_NEW(c->arena, struct scan);
	if (!s)
		return onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
	if (!onnx_body_begin(c, "body", &b)) {
		if (c->opset < 9)
			scan_8(c, &b, s, out);
		else
			scan_9(c, &b, s, out);
	}
	onnx_body_end(c, &b);
	return c->err;
}

const struct onnx_mapping onnx_control_map[] = {
	{ "If", map_if, 0 },
	{ "Loop", map_loop, 0 },
	{ "Scan", map_scan, 0 },
	{ NULL, NULL, 0 },
};
