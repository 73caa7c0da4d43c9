/* decompose_resample.c: resampling, one dimension after the other: tables of positions and weights,
 * computed here as PyTorch computes them, then reads through the tables. Up to four terms an
 * element are written out (one kernel, nothing stored in between); more become a sum. A nearest
 * neighbour whose table is a stride or a repetition needs no table at all. */
#include <assert.h>
#include <math.h>

#include "decompose.h"
#include "infer.h"
#include "scalar.h"

#define MOST_TERMS 4 /* written out */

/* ---- _resample ---- */

struct resample {
	struct stx__build *b;
	enum stx_dtype wide; /* computed in */
	uint32_t dim;
	int64_t in, out, taps;
	struct stx_val index, weight; /* [taps, out] */
	int masked;                   /* an index may be negative */
};

static int64_t entry(const struct stx_node *c, int64_t i)
{
	enum stx_dtype t = c->outs[0].dtype;
	return stx_scalar_load(t, c->data.bytes + i * stx_dtype_bytes(t)).i;
}

/* Whether every entry is a*i/b + c. */
static int is_line(const struct stx_node *c, int64_t n, int64_t mul, int64_t div, int64_t add)
{
	for (int64_t i = 0; i < n; i++)
		if (entry(c, i) != i * mul / div + add)
			return 0;
	return 1;
}

/* One unweighted term from a constant table: a slice or a repetition where it is one. */
static int by_view(const struct resample *r, struct stx_val x, struct stx_val *out)
{
	const struct stx_node *c = r->index.node;
	stx_ex sizes[STX_MAX_DIMS + 1], *merged = sizes;
	if (r->taps != 1 || r->weight.node || c->op != STX_OP_CONSTANT || r->out < 1)
		return 0;
	const struct stx_type *t = stx_val_type(x);
	int64_t first = entry(c, 0), step = r->out > 1 ? entry(c, 1) - first : 1,
		times = r->out / r->in;
	if (first >= 0 && step > 0 && is_line(c, r->out, step, 1, first)) {
		int64_t end = first + (r->out - 1) * step + 1;
		if (end > r->in)
			return 0;
		*out = step == 1 && r->out == r->in
			       ? x
			       : stx__b_slice(r->b, x, r->dim, first, end, step);
		return 1;
	}
	if (times < 2 || times * r->in != r->out || t->rank == STX_MAX_DIMS ||
	    !is_line(c, r->out, 1, times, 0))
		return 0;
	for (uint32_t i = 0; i <= t->rank; i++)
		sizes[i] = i == r->dim + 1 ? stx_ex_const(r->b->g->ex, times)
					   : t->sizes[i > r->dim ? i - 1 : i];
	x = stx__b_expand(r->b, stx__b_unsqueeze(r->b, x, r->dim + 1), t->rank + 1u, sizes);
	for (uint32_t i = r->dim + 1; i < t->rank; i++)
		merged[i] = sizes[i + 1];
	merged[r->dim] = stx_ex_const(r->b->g->ex, r->out);
	*out = stx__b_view(r->b, x, t->rank, merged);
	return 1;
}

/* A table [.., out], as [.., out, 1, ..] over the dimensions after dim. */
static struct stx_val beside(const struct resample *r, struct stx_val table, uint32_t after)
{
	for (; after > 0 && !r->b->err; after--)
		table = stx__b_unsqueeze(r->b, table, stx_val_type(table)->rank);
	return table;
}

/* Only the index of a term decides whether it counts: neither an infinite element nor an infinite
 * weight does. after: dimensions behind dim. */
static struct stx_val at(const struct resample *r, struct stx_val x, struct stx_val index)
{
	struct stx_arg zero[] = { stx_arg_tensor(index), stx_arg_scalar_i(0) };
	if (r->masked)
		index = stx__b_call(r->b, STX_OP_CLAMP, 2, zero);
	return stx__b_index_select(r->b, x, r->dim, index);
}

static struct stx_val counted(const struct resample *r, struct stx_val term, struct stx_val index,
			      uint32_t after)
{
	if (!r->masked || r->b->err)
		return term;
	struct stx_val there = stx__b_number(r->b, STX_OP_GE_SCALAR, index, stx_arg_scalar_i(0));
	return stx__b_where(
		r->b, beside(r, there, after), term,
		stx__b_full(r->b, 0, NULL, stx_arg_scalar_i(0), stx_val_type(term)->dtype));
}

static struct stx_val row(const struct resample *r, struct stx_val table, int64_t t)
{
	struct stx_arg a[] = { stx_arg_tensor(table), stx_arg_int(r->b->g, 0),
			       stx_arg_int(r->b->g, t) };
	return stx__b_call(r->b, STX_OP_SELECT, 3, a);
}

static struct stx_val written_out(const struct resample *r, struct stx_val x)
{
	uint32_t after = stx_val_type(x)->rank - 1u - r->dim;
	struct stx_val sum = x;
	for (int64_t t = 0; t < r->taps && !r->b->err; t++) {
		struct stx_val index = row(r, r->index, t), v = at(r, x, index);
		if (r->weight.node)
			v = stx__b_two(r->b, STX_OP_MUL, v, beside(r, row(r, r->weight, t), after));
		v = counted(r, v, index, after);
		sum = t ? stx__b_two(r->b, STX_OP_ADD, sum, v) : v;
	}
	return sum;
}

static struct stx_val summed(const struct resample *r, struct stx_val x)
{
	const struct stx_type *t = stx_val_type(x);
	uint32_t after = t->rank - 1u - r->dim;
	stx_ex flat = stx_ex_const(r->b->g->ex, r->taps * r->out), sizes[STX_MAX_DIMS + 1];
	assert(r->dim < t->rank);
	if (t->rank == STX_MAX_DIMS) {
		stx__b_fail(r->b, STX_E_TOO_LARGE, "too many dimensions");
		return x;
	}
	for (uint32_t i = 0; i <= t->rank; i++)
		sizes[i] = i == r->dim       ? stx_ex_const(r->b->g->ex, r->taps)
			   : i == r->dim + 1 ? stx_ex_const(r->b->g->ex, r->out)
					     : t->sizes[i > r->dim ? i - 1 : i];
	struct stx_val v = at(r, x, stx__b_view(r->b, r->index, 1, &flat));
	v = stx__b_view(r->b, v, t->rank + 1u, sizes);
	if (r->weight.node)
		v = stx__b_two(r->b, STX_OP_MUL, v, beside(r, r->weight, after));
	v = counted(r, v, r->index, after);
	return stx__b_sum(r->b, v, 1u << r->dim, 0, r->wide);
}

static int may_be_negative(const struct resample *r)
{
	const struct stx_node *c = r->index.node;
	if (c->op != STX_OP_CONSTANT)
		return 1;
	for (int64_t i = 0; i < r->taps * r->out; i++)
		if (entry(c, i) < 0)
			return 1;
	return 0;
}

int stx__rule_resample(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *x = stx__infer_type(n, 0), *index = stx__infer_type(n, 2);
	struct resample r = { .b = b, .index = stx__operand(n, 2) };
	struct stx_val v = stx__operand(n, 0);
	if (stx__infer_dim(b->g, n, n->args[1].u.ex, x->rank, &r.dim, b->d))
		return stx__b_fail(b, STX_E_INVALID, "a dimension out of range");
	if (!stx_ex_is_const(b->g->ex, index->sizes[0], &r.taps) ||
	    !stx_ex_is_const(b->g->ex, index->sizes[1], &r.out) ||
	    !stx_ex_is_const(b->g->ex, x->sizes[r.dim], &r.in))
		return stx__b_fail(b, STX_E_UNSUPPORTED, "resampling of a symbolic size");
	if (stx_ex_equals(b->g->ex, stx_type_numel(b->g, &n->outs[0]), 0)) {
		out[0] = stx__b_full(b, n->outs[0].rank, n->outs[0].sizes, stx_arg_scalar_i(0),
				     n->outs[0].dtype);
		return 0;
	}
	r.wide = r.taps == 1 && n->args[3].kind != STX_ARG_TENSOR ? x->dtype : stx__wide(x->dtype);
	if (n->args[3].kind == STX_ARG_TENSOR)
		r.weight = stx__b_cast(b, stx__operand(n, 3), r.wide);
	if (by_view(&r, v, out))
		return 0;
	r.masked = may_be_negative(&r);
	v = stx__b_cast(b, v, r.wide);
	if (!b->err)
		v = r.taps <= MOST_TERMS ? written_out(&r, v) : summed(&r, v);
	out[0] = stx__b_cast(b, v, n->outs[0].dtype);
	return 0;
}

/* ---- PyTorch's upsampling ---- */

struct table {
	int64_t taps, out;
	int32_t *index; /* [taps][out] */
	double *weight; /* the same; NULL: 1 */
};

/* One operation in f32, or in f64 for f64 operands: what PyTorch computes positions in. Rounding
 * the f64 result of +, -, * or / of two f32 values is the f32 operation. */
static double rounded(int f64, double v)
{
	return f64 ? v : (double)(float)v;
}

/* Operand elements a result element; scale: as given, or 0. */
static double step_of(int f64, int64_t in, int64_t out, double scale, int align_corners)
{
	if (align_corners)
		return out > 1 ? rounded(f64, rounded(f64, (double)(in - 1)) / (double)(out - 1))
			       : 0;
	return scale > 0 ? rounded(f64, 1.0 / scale)
			 : rounded(f64, rounded(f64, (double)in) / rounded(f64, (double)out));
}

/* Where element o of the result lies in the operand. PyTorch's builds contract this expression, and
 * a nearest neighbour at a boundary depends on it. */
static double position(int f64, double step, double o, int align_corners)
{
	if (align_corners)
		return rounded(f64, step * o);
	return rounded(f64, fma(step, rounded(f64, o + 0.5), -0.5));
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void nearest(const struct stx__upsampling *u, uint32_t i, int f64, struct table *t)
{
	double step = step_of(f64, u->in[i], u->out[i], u->scale[i], 0);
	for (int64_t o = 0; o < t->out; o++) {
		double at = rounded(f64, step * (double)o);
		if (u->mode == STX__NEAREST_EXACT) {
			at = position(f64, step, (double)o, 0);
			at = rounded(f64, (at < 0 ? 0 : at) + 0.5);
		}
		/* PyTorch's two-dimensional form on a CPU: equal and doubled sizes do not depend on
		 * the factor that they were rounded from */
		int whole = u->mode == STX__NEAREST && u->k == 2 && t->out % u->in[i] == 0 &&
			    t->out / u->in[i] <= 2;
		at = whole ? (double)(o / (t->out / u->in[i])) : at;
		/* floorf, for f64 too */
		t->index[o] = (int32_t)least((int64_t)floor((double)(float)at), u->in[i] - 1);
	}
}

static void linear(const struct stx__upsampling *u, uint32_t i, int f64, struct table *t)
{
	double step = step_of(f64, u->in[i], u->out[i], u->scale[i], u->align_corners);
	for (int64_t o = 0; o < t->out; o++) {
		double at = position(f64, step, (double)o, u->align_corners), part;
		int64_t first;
		at = u->in[i] == u->out[i] ? (double)o : at < 0 ? 0 : at;
		first = least((int64_t)at, u->in[i] - 1);
		part = rounded(f64, at - (double)first);
		part = part > 1 ? 1 : part;
		t->index[o] = (int32_t)first;
		t->index[t->out + o] = (int32_t)least(first + 1, u->in[i] - 1);
		t->weight[o] = rounded(f64, 1 - part);
		t->weight[t->out + o] = part;
	}
}

static double fused(int f64, double x, double y, double z)
{
	return f64 ? fma(x, y, z) : (double)fmaf((float)x, (float)y, (float)z);
}

/* Keys' kernel with a = -0.75 at distance x from the sample, x in [0, 2], as PyTorch's builds
 * evaluate it: ((a + 2) x - (a + 3)) x x + 1, then ((a x - 5 a) x + 8 a) x - 4 a with two steps
 * fused. */
static double cubic_weight(int f64, double x)
{
	const double a = -0.75;
	double y = x <= 1 ? rounded(f64, (a + 2) * x) - (a + 3) : fused(f64, a, x, -5 * a);
	y = x <= 1 ? rounded(f64, rounded(f64, y) * x) : fused(f64, y, x, 8 * a);
	return rounded(f64, rounded(f64, y * x) + (x <= 1 ? 1 : -4 * a));
}

static void cubic(const struct stx__upsampling *u, uint32_t i, int f64, struct table *t)
{
	double step = step_of(f64, u->in[i], u->out[i], u->scale[i], u->align_corners);
	for (int64_t o = 0; o < t->out; o++) {
		double at = position(f64, step, (double)o, u->align_corners), part;
		int64_t first = least((int64_t)floor(at), u->in[i] - 1);
		part = rounded(f64, at - (double)first);
		part = part < 0 ? 0 : part > 1 ? 1 : part;
		double rest = rounded(f64, 1 - part);
		double from[4] = { rounded(f64, part + 1), part, rest, rounded(f64, rest + 1) };
		for (int64_t k = 0; k < 4; k++) {
			int64_t p = first - 1 + k;
			t->index[k * t->out + o] = (int32_t)(p < 0 ? 0 : least(p, u->in[i] - 1));
			t->weight[k * t->out + o] = cubic_weight(f64, from[k]);
		}
	}
}

static int make_table(struct stx__build *b, const struct stx__upsampling *u, uint32_t i, int f64,
		      struct table *t)
{
	static const uint8_t taps[] = { 1, 1, 2, 4 };
	int weighted = u->mode >= STX__LINEAR;
	t->taps = taps[u->mode];
	t->out = u->out[i];
	size_t n = (size_t)(t->taps * t->out);
	t->index = STX_NEW_ARRAY(b->g->arena, int32_t, n);
	t->weight = weighted ? STX_NEW_ARRAY(b->g->arena, double, n) : NULL;
	if (!t->index || (weighted && !t->weight)) {
		stx__b_fail(b, STX_E_TOO_LARGE, "over the memory budget");
		return 0;
	}
	(u->mode == STX__CUBIC ? cubic : u->mode == STX__LINEAR ? linear : nearest)(u, i, f64, t);
	return 1;
}

/* The weights as a constant of type t. */
static struct stx_val weights(struct stx__build *b, const struct table *tab, enum stx_dtype t)
{
	size_t n = (size_t)(tab->taps * tab->out), width = (size_t)stx_dtype_bytes(t);
	char *bytes = stx_arena_alloc(b->g->arena, n * width);
	if (!bytes) {
		stx__b_fail(b, STX_E_TOO_LARGE, "over the memory budget");
		return stx_val(NULL, 0);
	}
	for (size_t i = 0; i < n; i++)
		stx_scalar_store(t, bytes + i * width, (union stx_scalar){ .f = tab->weight[i] });
	return stx__b_constant(b, t, 2, (int64_t[]){ tab->taps, tab->out }, bytes, n * width);
}

int stx__rule_upsample(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	enum stx_dtype t = n->outs[0].dtype, wide;
	struct stx_val x = stx__operand(n, 0);
	struct stx__upsampling u;
	stx_err e = stx__infer_upsampling(b->g, n, &u, b->d);
	if (e)
		return b->err = e;
	wide = u.mode >= STX__LINEAR ? stx__wide(t) : t;
	x = stx__b_cast(b, x, wide == STX_BOOL ? STX_U8 : wide);
	for (uint32_t i = u.k; i-- > 0;) {
		struct table tab;
		if (!make_table(b, &u, i, t == STX_F64, &tab))
			return 0;
		struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_int(b->g, 2 + i),
				       stx_arg_tensor(stx__b_constant(
					       b, STX_I32, 2, (int64_t[]){ tab.taps, tab.out },
					       tab.index, (size_t)(tab.taps * tab.out) * 4)),
				       tab.weight ? stx_arg_tensor(weights(b, &tab, wide))
						  : stx_arg_none() };
		x = stx__b_call(b, STX_OP_RESAMPLE, 4, a);
	}
	out[0] = stx__b_cast(b, x, t);
	return 0;
}
