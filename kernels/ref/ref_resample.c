/* ref_resample.c: padding with the operand's own elements, and resampling, element by element. */
#include <math.h>

#include "ref_internal.h"

#define SPATIAL 3

static int is_float(const struct stx_tensor *t)
{
	return stx_dtype_is_float((enum stx_dtype)t->dtype);
}

/* ---- padding ---- */

stx_err stx__ref_pad_own(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	struct stx_tensor *out = stx__ref_result(r, n);
	int reflect = n->op == STX_OP_REFLECTION_PAD1D || n->op == STX_OP_REFLECTION_PAD2D ||
		      n->op == STX_OP_REFLECTION_PAD3D;
	int64_t before[STX_MAX_DIMS] = { 0 };
	struct stx__ref_walk w;

	if (!out)
		return stx__ref_error(r);
	for (uint32_t i = 0; i < n->args[1].n / 2; i++) {
		stx_err e = stx__ref_int(r, n, n->args[1].u.exs[2 * i], &before[x->rank - 1 - i]);

		if (e)
			return e;
	}
	stx__ref_walk_start(&w, out->rank, out->sizes);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		int64_t off = x->offset;

		for (uint32_t d = 0; d < x->rank; d++) {
			int64_t at = w.at[d] - before[d], last = x->sizes[d] - 1;

			while (at < 0 || at > last) {
				if (reflect)
					at = at < 0 ? -at : 2 * last - at;
				else
					at = at < 0 ? 0 : last;
			}
			off += at * x->strides[d];
		}
		stx__ref_store(out, i, stx__ref_load(x, off));
	}
	return 0;
}

/* ---- _resample ---- */

stx_err stx__ref_resample(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0), *index = stx__ref_arg(r, n, 2),
				*weight = stx__ref_arg(r, n, 3);
	struct stx_tensor *out = stx__ref_result(r, n);
	struct stx__ref_walk w;
	uint32_t dim;
	stx_err e = stx__ref_dim(r, n, n->args[1].u.ex, x->rank, &dim);

	if (e || !out)
		return e ? e : stx__ref_error(r);
	stx__ref_walk_start(&w, out->rank, out->sizes);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		struct stx__ref_sum sum = { 0, 0 };
		union stx_scalar v = { .u = 0 };

		for (int64_t t = 0; t < index->sizes[0]; t++) {
			int64_t o = w.at[dim], off = x->offset;
			int64_t at = stx__ref_load(index, index->offset + t * index->strides[0] +
								  o * index->strides[1])
					     .i;
			union stx_scalar y;

			if (at < 0)
				continue;
			if (at >= x->sizes[dim])
				return stx__ref_fail(r, n, STX_E_BOUNDS,
						     "index %lld of a dimension of size %lld",
						     (long long)at, (long long)x->sizes[dim]);
			for (uint32_t d = 0; d < x->rank; d++)
				off += (d == dim ? at : w.at[d]) * x->strides[d];
			y = stx__ref_load(x, off);
			if (weight)
				y.f *= stx__ref_cast(stx__ref_work((enum stx_dtype)x->dtype),
						     (enum stx_dtype)weight->dtype,
						     stx__ref_load(weight,
								   weight->offset +
									   t * weight->strides[0] +
									   o * weight->strides[1]))
					       .f;
			if (is_float(x))
				stx__ref_sum_add(&sum, y.f);
			else
				v.u += y.u;
			if (index->sizes[0] == 1 && !weight) { /* the element itself, -0 included */
				stx__ref_store(out, i, y);
				goto next;
			}
		}
		if (is_float(x))
			v.f = stx__ref_round_wide((enum stx_dtype)x->dtype,
						  stx__ref_sum_value(&sum));
		else
			v = stx_scalar_wrap((enum stx_dtype)x->dtype, v.u);
		stx__ref_store(out, i, v);
	next:;
	}
	return 0;
}

/* ---- PyTorch's upsampling, by its definition ---- */

enum mode { NEAREST, EXACT, LINEAR, CUBIC };

struct taps {
	int n;
	int64_t at[4];
	double weight[4];
};

/* Positions and weights are computed in the operand's precision, f32 for all but f64: real is that
 * type. Keys' kernel with a = -0.75 as PyTorch's builds evaluate it, two steps of its outer part
 * fused. */
#define POSITIONS(real, suffix, fused)                                                             \
	static real step_##suffix(int64_t in, int64_t out, double scale, int corners)              \
	{                                                                                          \
		if (corners)                                                                       \
			return out > 1 ? (real)(in - 1) / (real)(out - 1) : 0;                     \
		return scale > 0 ? (real)(1.0 / scale) : (real)in / (real)out;                     \
	}                                                                                          \
	static double near_##suffix(real x)                                                        \
	{                                                                                          \
		real inner = (real)1.25 * x - (real)2.25;                                          \
		inner = inner * x;                                                                 \
		return (double)(real)(inner * x + 1);                                              \
	}                                                                                          \
	static double far_##suffix(real x)                                                         \
	{                                                                                          \
		real inner = fused(fused((real)-0.75, x, (real)3.75), x, (real)-6);                \
		return (double)(real)(inner * x + 3);                                              \
	}                                                                                          \
	static void taps_##suffix(enum mode mode, int64_t in, int64_t out, double scale,           \
				  int corners, int64_t o, struct taps *t)                          \
	{                                                                                          \
		real step = step_##suffix(in, out, scale, corners);                                \
		real at = corners ? step * (real)o : fused(step, (real)o + (real)0.5, (real)-0.5); \
		if (mode == NEAREST)                                                               \
			at = step * (real)o;                                                       \
		if (mode == LINEAR && in == out)                                                   \
			at = (real)o;                                                              \
		if (mode != CUBIC && at < 0)                                                       \
			at = 0;                                                                    \
		if (mode == EXACT)                                                                 \
			at += (real)0.5;                                                           \
		int64_t first = mode == NEAREST || mode == EXACT ? (int64_t)floorf((float)at)      \
								 : (int64_t)floor((double)at);     \
		if (first > in - 1)                                                                \
			first = in - 1;                                                            \
		real part = at - (real)first;                                                      \
		part = part < 0 ? 0 : part > 1 ? 1 : part;                                         \
		real rest = (real)1 - part;                                                        \
		weigh(mode, first, in, (double)part, (double)rest, t);                             \
		if (mode != CUBIC)                                                                 \
			return;                                                                    \
		t->weight[0] = far_##suffix(part + 1);                                             \
		t->weight[1] = near_##suffix(part);                                                \
		t->weight[2] = near_##suffix(rest);                                                \
		t->weight[3] = far_##suffix(rest + 1);                                             \
	}

static int64_t inside(int64_t at, int64_t n)
{
	return at < 0 ? 0 : at >= n ? n - 1 : at;
}

static void weigh(enum mode mode, int64_t first, int64_t in, double part, double rest,
		  struct taps *t)
{
	*t = (struct taps){ .n = 1, .at = { first }, .weight = { 1 } };
	if (mode == LINEAR) {
		*t = (struct taps){ 2, { first, inside(first + 1, in) }, { rest, part } };
	} else if (mode == CUBIC) {
		t->n = 4;
		for (int k = 0; k < 4; k++)
			t->at[k] = inside(first + k - 1, in);
	}
}

POSITIONS(float, f32, fmaf)
POSITIONS(double, f64, fma)

static enum mode mode_of(const struct stx_node *n, uint32_t *k)
{
	switch (n->op) {
	case STX_OP_NEAREST1D: *k = 1; return NEAREST;
	case STX_OP_NEAREST2D: *k = 2; return NEAREST;
	case STX_OP_NEAREST3D: *k = 3; return NEAREST;
	case STX_OP_NEAREST_EXACT1D: *k = 1; return EXACT;
	case STX_OP_NEAREST_EXACT2D: *k = 2; return EXACT;
	case STX_OP_NEAREST_EXACT3D: *k = 3; return EXACT;
	case STX_OP_LINEAR1D: *k = 1; return LINEAR;
	case STX_OP_BILINEAR2D: *k = 2; return LINEAR;
	case STX_OP_TRILINEAR3D: *k = 3; return LINEAR;
	default: *k = 2; return CUBIC;
	}
}

/* The sum over all combinations of taps of one element at base. */
static union stx_scalar combine(const struct stx_tensor *x, uint32_t k, const struct taps *t,
				int64_t base)
{
	struct stx__ref_sum sum = { 0, 0 };
	int at[SPATIAL] = { 0 };

	for (;;) {
		long double w = 1;
		int64_t off = base;
		uint32_t d = k;

		for (uint32_t i = 0; i < k; i++) {
			off += t[i].at[at[i]] * x->strides[2 + i];
			w *= t[i].weight[at[i]];
		}
		union stx_scalar v = stx__ref_load(x, off);
		if (k == 0 || (t[0].n == 1))
			return v;
		stx__ref_sum_add(&sum, w * v.f);
		while (d > 0 && ++at[d - 1] == t[d - 1].n)
			at[--d] = 0;
		if (d == 0)
			break;
	}
	return (union stx_scalar){ .f = stx__ref_round_wide((enum stx_dtype)x->dtype,
							    stx__ref_sum_value(&sum)) };
}

stx_err stx__ref_upsample(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	const struct stx_arg *factors = &n->args[n->nargs - 1];
	struct stx_tensor *out = stx__ref_result(r, n);
	int corners = n->nargs == 4 && n->args[2].u.i;
	uint32_t k;
	enum mode mode = mode_of(n, &k);
	struct stx__ref_walk w;

	if (!out)
		return stx__ref_error(r);
	stx__ref_walk_start(&w, out->rank, out->sizes);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		struct taps t[SPATIAL];

		for (uint32_t d = 0; d < k; d++) {
			int64_t in = x->sizes[2 + d], many = out->sizes[2 + d];
			double scale = factors->kind == STX_ARG_FLOATS ? factors->u.fs[d] : 0;

			if (n->op == STX_OP_NEAREST2D && (many == in || many == 2 * in))
				scale = 0; /* as PyTorch's CPU kernel: a copy, or pairs */

			(x->dtype == STX_F64 ? taps_f64 : taps_f32)(mode, x->sizes[2 + d],
								    out->sizes[2 + d], scale,
								    corners, w.at[2 + d], &t[d]);
		}
		stx__ref_store(
			out, i,
			combine(x, k, t,
				x->offset + w.at[0] * x->strides[0] + w.at[1] * x->strides[1]));
	}
	return 0;
}
