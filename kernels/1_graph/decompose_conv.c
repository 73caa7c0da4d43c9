/* decompose_conv.c: convolution's bias, and its gradients as convolutions: that of the input is the
 * transposed one, that of the weight slides the result's gradient over the input, batch and
 * channels exchanged, stride and dilation exchanged. */
#include <string.h>

#include "decompose.h"
#include "infer.h"

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

/* ---- backward ---- */

struct backward {
	struct stx__build *b;
	const struct stx_node *n;
	struct stx__window w;
	int transposed;
	int64_t kernel[STX__MAX_SPATIAL], in[STX__MAX_SPATIAL], out[STX__MAX_SPATIAL];
};

static struct stx_val convolve(struct backward *c, struct stx_val x, struct stx_val wt,
			       const int64_t *stride, const int64_t *dilation,
			       const int64_t *output_padding)
{
	static const int64_t none[STX__MAX_SPATIAL];
	struct stx_graph *g = c->b->g;
	uint32_t k = c->w.k;
	struct stx_arg a[] = { stx_arg_tensor(x),
			       stx_arg_tensor(wt),
			       stx_arg_none(),
			       stx_arg_ints(g, stride, k),
			       stx_arg_ints(g, c->w.padding, k),
			       stx_arg_ints(g, dilation, k),
			       stx_arg_bool(output_padding != NULL),
			       stx_arg_ints(g, output_padding ? output_padding : none, k),
			       stx_arg_int(g, c->w.groups) };
	return stx__b_call(c->b, STX_OP_CONVOLUTION, 9, a);
}

/* The first `size` elements of each spatial dimension. */
static struct stx_val cut(struct backward *c, struct stx_val x, const int64_t *size)
{
	for (uint32_t i = 0; i < c->w.k && !c->b->err; i++)
		if (!stx_ex_equals(c->b->g->ex, stx_val_type(x)->sizes[2 + i], size[i]))
			x = stx__b_slice(c->b, x, 2 + i, 0, size[i], 1);
	return x;
}

static struct stx_val grad_input(struct backward *c)
{
	const struct stx__window *w = &c->w;
	struct stx_val go = stx__operand(c->n, 0), wt = stx__operand(c->n, 2);
	int64_t extra[STX__MAX_SPATIAL];
	if (c->transposed)
		return cut(c, convolve(c, go, wt, w->stride, w->dilation, NULL), c->in);
	for (uint32_t i = 0; i < w->k; i++)
		extra[i] = c->in[i] - ((c->out[i] - 1) * w->stride[i] - 2 * w->padding[i] +
				       w->dilation[i] * (c->kernel[i] - 1) + 1);
	return convolve(c, go, wt, w->stride, w->dilation, extra);
}

/* x [n, groups*channels, ..] as [channels, groups*n, ..]. */
static struct stx_val channels_first(struct backward *c, struct stx_val x)
{
	const struct stx_type *t = stx_val_type(x);
	struct stx_exprs *ex = c->b->g->ex;
	stx_ex sizes[3 + STX__MAX_SPATIAL], groups = stx_ex_const(ex, c->w.groups);
	sizes[0] = t->sizes[0];
	sizes[1] = groups;
	sizes[2] = stx_ex_floordiv(ex, t->sizes[1], groups);
	memcpy(sizes + 3, t->sizes + 2, c->w.k * sizeof *sizes);
	x = stx__b_swap(c->b, stx__b_view(c->b, x, 3 + c->w.k, sizes), 0, 2);
	stx_ex n = sizes[0];
	sizes[0] = sizes[2];
	sizes[1] = stx_ex_mul(ex, groups, n);
	memcpy(sizes + 2, t->sizes + 2, c->w.k * sizeof *sizes);
	return stx__b_view(c->b, x, 2 + c->w.k, sizes);
}

static struct stx_val grad_weight(struct backward *c)
{
	struct stx_val wide = stx__operand(c->n, !c->transposed),
		       slid = stx__operand(c->n, c->transposed);
	struct stx_val y = convolve(c, channels_first(c, wide), stx__b_swap(c->b, slid, 0, 1),
				    c->w.dilation, c->w.stride, NULL);
	return stx__b_swap(c->b, cut(c, y, c->kernel), 0, 1);
}

static int measure(struct backward *c, const struct stx_type *t, int64_t *sizes)
{
	for (uint32_t i = 0; i < c->w.k; i++)
		if (!stx_ex_is_const(c->b->g->ex, t->sizes[2 + i], &sizes[i]))
			return stx__b_fail(c->b, STX_E_UNSUPPORTED,
					   "the gradient of a symbolic size");
	return 0;
}

int stx__rule_conv_backward(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct backward c = { .b = b, .n = n, .transposed = n->args[7].u.i != 0 };
	const struct stx_type *go = stx__infer_type(n, 0);
	int64_t mask = n->args[10].u.i;
	struct stx_arg args[9];
	struct stx_node forward;
	stx__infer_conv_forward(n, args, &forward);
	stx_err e = stx__infer_window(b->g, &forward, &c.w, b->d);
	if (e)
		return b->err = e;
	if (measure(&c, stx__infer_type(n, 1), c.in) ||
	    measure(&c, stx__infer_type(n, 2), c.kernel) || measure(&c, go, c.out))
		return 0;
	int empty = stx_ex_equals(b->g->ex, stx_type_numel(b->g, go), 0) ||
		    stx_ex_equals(b->g->ex, stx_type_numel(b->g, stx__infer_type(n, 1)), 0);
	for (uint32_t i = 0; i < 3; i++)
		if (empty || !(mask >> i & 1))
			out[i] = stx__b_full(b, n->outs[i].rank, n->outs[i].sizes,
					     stx_arg_scalar_i(0), n->outs[i].dtype);
	if (!empty && mask & 1)
		out[0] = grad_input(&c);
	if (!empty && mask & 2)
		out[1] = grad_weight(&c);
	if (!empty && mask & 4)
		out[2] = stx__b_sum(b, stx__operand(n, 0), ((1u << go->rank) - 1) & ~2u, 0,
				    go->dtype);
	return 0;
}
