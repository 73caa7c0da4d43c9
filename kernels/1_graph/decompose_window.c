/* decompose_window.c: pooling as a reduction over windows: pad, unfold each dimension, reduce the
 * new ones. Nothing is copied: padding and unfold are index maps, the reduction reads through them.
 */
#include <math.h>
#include <string.h>

#include "decompose.h"
#include "infer.h"
#include "scalar.h"

struct pool {
	struct stx__build *b;
	const struct stx_node *n;
	struct stx__window w;
	uint32_t lead; /* dimensions before the spatial ones */
	int64_t in[STX__MAX_SPATIAL], out[STX__MAX_SPATIAL];
};

static int start(struct pool *p, struct stx__build *b, const struct stx_node *n)
{
	*p = (struct pool){ .b = b, .n = n };
	stx_err e = stx__infer_window(b->g, n, &p->w, b->d);
	if (e)
		return b->err = e;
	p->lead = n->outs[0].rank - p->w.k;
	for (uint32_t i = 0; i < p->w.k; i++)
		if (!stx_ex_is_const(b->g->ex, stx__infer_type(n, 0)->sizes[p->lead + i],
				     &p->in[i]) ||
		    !stx_ex_is_const(b->g->ex, n->outs[0].sizes[p->lead + i], &p->out[i]))
			return stx__b_fail(b, STX_E_UNSUPPORTED, "pooling over a symbolic size");
	return 0;
}

/* x padded with `fill` so that exactly the wanted windows fit, seen as [.., out.., kernel..]. */
static struct stx_val windowed(struct pool *p, struct stx_val x, struct stx_arg fill)
{
	const struct stx__window *w = &p->w;
	int64_t pads[2 * STX__MAX_SPATIAL];
	for (uint32_t i = 0; i < w->k; i++) {
		uint32_t at = 2 * (w->k - 1 - i);
		int64_t reach = w->dilation[i] * (w->kernel[i] - 1) + 1;
		pads[at] = w->padding[i];
		pads[at + 1] = (p->out[i] - 1) * w->stride[i] + reach - p->in[i] - w->padding[i];
	}
	struct stx_arg pad[] = { stx_arg_tensor(x), stx_arg_ints(p->b->g, pads, 2 * w->k), fill };
	x = stx__b_call(p->b, STX_OP_PAD, 3, pad);
	for (uint32_t i = 0; i < w->k; i++) {
		int64_t reach = w->dilation[i] * (w->kernel[i] - 1) + 1;
		struct stx_arg u[] = { stx_arg_tensor(x), stx_arg_int(p->b->g, p->lead + i),
				       stx_arg_int(p->b->g, reach),
				       stx_arg_int(p->b->g, w->stride[i]) };
		x = stx__b_call(p->b, STX_OP_UNFOLD, 4, u);
		if (w->dilation[i] == 1)
			continue;
		struct stx_arg s[] = { stx_arg_tensor(x),
				       stx_arg_int(p->b->g, p->n->outs[0].rank + i), stx_arg_none(),
				       stx_arg_none(), stx_arg_int(p->b->g, w->dilation[i]) };
		x = stx__b_call(p->b, STX_OP_SLICE, 5, s);
	}
	return x;
}

/* The dimensions windowed() adds, as a set. */
static uint32_t kernel_dims(const struct pool *p)
{
	return ((1u << p->w.k) - 1) << p->n->outs[0].rank;
}

/* ---- max ---- */

/* No element of t is below it: -infinity, or the lowest number of a format without infinity. */
static struct stx_arg lowest(enum stx_dtype t)
{
	const struct stx_float_format *f = stx_float_format(t);
	int bits = 8 * stx_dtype_bytes(t);
	if (f && f->inf == f->nan)
		return stx_arg_scalar_f(stx_scalar_from_bits(t, f->max | f->sign));
	if (stx_dtype_is_float(t))
		return stx_arg_scalar_f(-INFINITY);
	return stx_arg_scalar_i(stx_dtype_kind(t) == STX_KIND_INT ? INT64_MIN >> (64 - bits) : 0);
}

static struct stx_val with_int(struct pool *p, enum stx_op op, struct stx_val x, int64_t v)
{
	return stx__b_number(p->b, op, x, stx_arg_scalar_i(v));
}

/* Where the chosen element of each window stands, along dimension i. tap: its number in the window.
 * A tap in the padding before is chosen only when nothing beats the lowest value; the first element
 * of the window stands for it then. */
static struct stx_val position(struct pool *p, uint32_t i, struct stx_val tap)
{
	stx_ex shape[STX__MAX_SPATIAL];
	for (uint32_t k = 0; k < p->w.k; k++)
		shape[k] = stx_ex_const(p->b->g->ex, k == i ? p->out[i] : 1);
	struct stx_val o = stx__b_view(p->b, stx__b_arange(p->b, p->out[i]), p->w.k, shape);
	o = with_int(p, STX_OP_ADD_SCALAR, with_int(p, STX_OP_MUL_SCALAR, o, p->w.stride[i]),
		     -p->w.padding[i]);
	struct stx_val at = stx__b_two(p->b, STX_OP_ADD, o,
				       with_int(p, STX_OP_MUL_SCALAR, tap, p->w.dilation[i]));
	if (p->w.padding[i] == 0)
		return at;
	struct stx_val before = with_int(p, STX_OP_LT_SCALAR, at, 0);
	return stx__b_where(p->b, before,
			    with_int(p, STX_OP_REMAINDER_SCALAR, at, p->w.dilation[i]), at);
}

/* Flat position in the spatial dimensions of the operand. */
static struct stx_val positions(struct pool *p, struct stx_val windows)
{
	stx_ex flat[STX_MAX_DIMS];
	uint32_t rank = p->n->outs[0].rank;
	int64_t taps = 1;
	if (p->b->err)
		return windows;
	memcpy(flat, p->n->outs[0].sizes, rank * sizeof *flat);
	for (uint32_t i = 0; i < p->w.k; i++)
		taps *= p->w.kernel[i];
	flat[rank] = stx_ex_const(p->b->g->ex, taps);
	struct stx_val tap = stx__b_view(p->b, windows, rank + 1, flat), sum = tap;
	struct stx_arg a[] = { stx_arg_tensor(tap), stx_arg_int(p->b->g, rank), stx_arg_bool(0) };
	tap = stx__b_call(p->b, STX_OP_ARGMAX, 3, a);
	int64_t stride = 1;
	for (uint32_t i = p->w.k; i-- > 0;) {
		struct stx_val k =
			stx__b_full(p->b, 0, NULL, stx_arg_scalar_i(p->w.kernel[i]), STX_I64);
		struct stx_arg div[] = { stx_arg_tensor(tap), stx_arg_tensor(k),
					 stx_arg_str(p->b->g, "floor") };
		struct stx_val here = i ? stx__b_two(p->b, STX_OP_REMAINDER, tap, k) : tap;
		if (i)
			tap = stx__b_call(p->b, STX_OP_DIV_MODE, 3, div);
		here = with_int(p, STX_OP_MUL_SCALAR, position(p, i, here), stride);
		sum = i == p->w.k - 1 ? here : stx__b_two(p->b, STX_OP_ADD, sum, here);
		stride *= p->in[i];
	}
	return sum;
}

int stx__rule_max_pool(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct pool p;
	if (start(&p, b, n))
		return 0;
	struct stx_val x = windowed(&p, stx__operand(n, 0), lowest(n->outs[0].dtype));
	if (stx_ex_equals(b->g->ex, stx_type_numel(b->g, &n->outs[0]),
			  0)) { /* nothing to choose from */
		out[0] = stx__b_full(b, n->outs[0].rank, n->outs[0].sizes, stx_arg_scalar_i(0),
				     n->outs[0].dtype);
		out[1] = stx__b_full(b, n->outs[1].rank, n->outs[1].sizes, stx_arg_scalar_i(0),
				     STX_I64);
		return 0;
	}
	out[0] = stx__b_amax(b, x, kernel_dims(&p), 0);
	out[1] = positions(&p, x);
	return 0;
}

/* ---- average ---- */

/* Elements of window o along dimension i that count. */
static int64_t counted(const struct pool *p, uint32_t i, int64_t o)
{
	int64_t lo = o * p->w.stride[i] - p->w.padding[i], hi = lo + p->w.kernel[i];
	int64_t end = p->in[i] + (p->w.include_pad ? p->w.padding[i] : 0);
	if (!p->w.include_pad && lo < 0)
		lo = 0;
	return (hi < end ? hi : end) - lo;
}

/* Their numbers along dimension i as a constant shaped to broadcast over the result; 0-d when
 * equal. */
static struct stx_val counts(struct pool *p, uint32_t i, enum stx_dtype t)
{
	size_t width = (size_t)stx_dtype_bytes(t);
	int64_t n = p->out[i], sizes[STX__MAX_SPATIAL] = { 1, 1, 1 };
	int same = 1;
	for (int64_t o = 1; o < n && same; o++)
		same = counted(p, i, o) == counted(p, i, 0);
	n = same ? 1 : n;
	uint8_t *bytes = stx_arena_alloc(p->b->g->arena, (size_t)n * width);
	if (!bytes) {
		stx__b_fail(p->b, STX_E_TOO_LARGE, "over the memory budget");
		return stx__operand(p->n, 0);
	}
	for (int64_t o = 0; o < n; o++)
		stx_scalar_store(t, bytes + (size_t)o * width,
				 (union stx_scalar){ .f = (double)counted(p, i, o) });
	sizes[i] = n;
	struct stx_node *c = stx_graph_constant(
		p->b->g, NULL, stx_type_make(p->b->g, t, same ? 0 : (int)p->w.k, sizes), bytes,
		(size_t)n * width, p->b->d);
	if (!c)
		stx__b_fail(p->b, STX_E_TOO_LARGE, "over the memory budget");
	return c ? stx_val(c, 0) : stx__operand(p->n, 0);
}

int stx__rule_avg_pool(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	enum stx_dtype t = n->outs[0].dtype, wide = stx__wide(t);
	struct pool p;
	if (start(&p, b, n))
		return 0;
	struct stx_val x =
		windowed(&p, stx__b_cast(b, stx__operand(n, 0), wide), stx_arg_scalar_f(0));
	struct stx_val sum = stx__b_sum(b, x, kernel_dims(&p), 0, wide), count;
	if (b->err)
		return 0;
	if (p.w.divisor) {
		sum = stx__b_scalar(b, STX_OP_DIV_SCALAR, sum, (double)p.w.divisor);
	} else {
		count = counts(&p, 0, wide);
		for (uint32_t i = 1; i < p.w.k && !b->err; i++)
			count = stx__b_two(b, STX_OP_MUL, count, counts(&p, i, wide));
		if (!b->err)
			sum = stx__b_two(b, STX_OP_DIV, sum, count);
	}
	out[0] = stx__b_cast(b, sum, t);
	return 0;
}

/* ---- convolution ---- */

/* The bias is added before the one rounding; without one the node stays whole. */
int stx__rule_convolution(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	enum stx_dtype t = n->outs[0].dtype, wide = stx__wide(t);
	stx_ex column[1 + STX__MAX_SPATIAL], one = stx_ex_const(b->g->ex, 1);
	struct stx_arg a[9];
	if (n->args[2].kind != STX_ARG_TENSOR)
		return STX__KEEP;
	memcpy(a, n->args, sizeof a);
	a[0] = stx_arg_tensor(stx__b_cast(b, stx__operand(n, 0), wide));
	a[1] = stx_arg_tensor(stx__b_cast(b, stx__operand(n, 1), wide));
	a[2] = stx_arg_none();
	struct stx_val y = stx__b_call(b, STX_OP_CONVOLUTION, 9, a);
	column[0] = n->outs[0].sizes[1];
	for (uint32_t i = 2; i < n->outs[0].rank; i++)
		column[i - 1] = one;
	struct stx_val bias = stx__b_view(b, stx__b_cast(b, stx__operand(n, 2), wide),
					  n->outs[0].rank - 1u, column);
	out[0] = stx__b_cast(b, stx__b_two(b, STX_OP_ADD, y, bias), t);
	return 0;
}
