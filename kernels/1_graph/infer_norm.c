/* infer_norm.c: result types of normalisations with their statistics, and of their gradients. */
#include "infer.h"

#include <string.h>

/* Argument i, when there is one: [size] of the operand's dtype. */
static stx_err check_channel(const struct stx_node *n, uint32_t i, stx_ex size, struct stx_diag *d)
{
	const char *name = stx_op_info(n->op)->params[i].name;
	if (n->args[i].kind != STX_ARG_TENSOR)
		return 0;
	const struct stx_type *t = stx__infer_type(n, i);
	if (t->rank != 1 || t->sizes[0] != size || t->dtype != stx__infer_type(n, 0)->dtype)
		return STX__INFER_FAIL(
			d, n, "%s must have one element a channel and the input's type", name);
	return 0;
}

static stx_err check_operand(const struct stx_node *n, uint32_t least, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	if (!stx_dtype_is_float(x->dtype) || x->rank < least)
		return STX__INFER_FAIL(d, n, "%s needs a floating-point operand of rank %u or more",
				       stx_op_info(n->op)->overload, least);
	return 0;
}

/* Argument i: the shape given and the operand's dtype. */
static stx_err check_like(const struct stx_node *n, uint32_t i, uint32_t rank, const stx_ex *sizes,
			  struct stx_diag *d)
{
	const struct stx_type *t = stx__infer_type(n, i);
	if (t->dtype != stx__infer_type(n, 0)->dtype || t->rank != rank ||
	    (rank && memcmp(t->sizes, sizes, rank * sizeof *sizes)))
		return STX__INFER_FAIL(d, n, "%s has the wrong shape or type",
				       stx_op_info(n->op)->params[i].name);
	return 0;
}

/* Sizes of the statistics of a layer norm: 1 in the normalised dimensions. */
static void layer_sizes(struct stx_graph *g, const struct stx_type *x, uint32_t inner, stx_ex *out)
{
	for (uint32_t i = 0; i < x->rank; i++)
		out[i] = i + inner < x->rank ? x->sizes[i] : stx_ex_const(g->ex, 1);
}

stx_err stx_shape_native_layer_norm(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_ex sizes[STX_MAX_DIMS];
	stx_err e = stx_shape_layer_norm(g, n, d);
	if (e)
		return e;
	layer_sizes(g, x, n->args[1].n, sizes);
	e = stx__infer_add(g, n, x->dtype, x->rank, sizes, d);
	return e ? e : stx__infer_add(g, n, x->dtype, x->rank, sizes, d);
}

/* Gradients of input, weight, bias. */
static stx_err gradients(struct stx_graph *g, struct stx_node *n, uint32_t rank,
			 const stx_ex *channel, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 1);
	stx_err e = stx__infer_set(g, n, x->dtype, x->rank, x->sizes, d);
	for (int i = 0; i < 2 && !e; i++)
		e = stx__infer_add(g, n, x->dtype, rank, channel, d);
	return e;
}

/* grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask */
stx_err stx_shape_layer_norm_grad(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 1);
	const struct stx_arg *s = &n->args[2];
	stx_ex sizes[STX_MAX_DIMS];
	stx_err e = check_operand(n, 1, d);
	if (!e && (s->n < 1 || s->n > x->rank ||
		   memcmp(s->u.exs, x->sizes + (x->rank - s->n), s->n * sizeof *sizes)))
		e = STX__INFER_FAIL(d, n, "normalized_shape is not the end of the input's shape");
	if (!e)
		e = check_like(n, 1, stx__infer_type(n, 0)->rank, stx__infer_type(n, 0)->sizes, d);
	if (e)
		return e;
	layer_sizes(g, x, s->n, sizes);
	for (uint32_t i = 3; i < 5 && !e; i++)
		e = check_like(n, i, x->rank, sizes, d);
	if (!e && n->args[5].kind == STX_ARG_TENSOR)
		e = check_like(n, 5, s->n, s->u.exs, d);
	return e ? e : gradients(g, n, s->n, s->u.exs, d);
}

/* N, C, HxW, group from argument i on, of operand x. */
static stx_err check_groups(struct stx_graph *g, const struct stx_node *n, const struct stx_type *x,
			    uint32_t i, struct stx_diag *d)
{
	int64_t group = 0;
	stx_ex rest = stx_ex_const(g->ex, 1);
	for (uint32_t k = 2; k < x->rank; k++)
		rest = stx_ex_mul(g->ex, rest, x->sizes[k]);
	if (n->args[i].u.ex != x->sizes[0] || n->args[i + 1].u.ex != x->sizes[1] ||
	    n->args[i + 2].u.ex != rest)
		return STX__INFER_FAIL(d, n, "N, C and HxW are not the input's sizes");
	if (!stx_ex_is_const(g->ex, n->args[i + 3].u.ex, &group) || group < 1 ||
	    !stx_ex_equals(g->ex, stx_ex_mod(g->ex, x->sizes[1], n->args[i + 3].u.ex), 0))
		return STX__INFER_FAIL(d, n, "group must divide the number of channels");
	return 0;
}

/* input, weight, bias, N, C, HxW, group, eps */
stx_err stx_shape_native_group_norm(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_err e = check_operand(n, 2, d);
	if (!e)
		e = check_groups(g, n, x, 3, d);
	for (uint32_t i = 1; i < 3 && !e; i++)
		e = check_channel(n, i, x->sizes[1], d);
	if (!e)
		e = stx__infer_set(g, n, x->dtype, x->rank, x->sizes, d);
	const stx_ex sizes[2] = { n->args[3].u.ex, n->args[6].u.ex };
	for (int i = 0; i < 2 && !e; i++)
		e = stx__infer_add(g, n, x->dtype, 2, sizes, d);
	return e;
}

/* grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask */
stx_err stx_shape_group_norm_grad(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 1);
	stx_err e = check_operand(n, 2, d);
	if (!e)
		e = check_like(n, 1, stx__infer_type(n, 0)->rank, stx__infer_type(n, 0)->sizes, d);
	if (!e)
		e = check_groups(g, n, x, 5, d);
	const stx_ex sizes[2] = { n->args[5].u.ex, n->args[8].u.ex };
	for (uint32_t i = 2; i < 4 && !e; i++)
		e = check_like(n, i, 2, sizes, d);
	if (!e)
		e = check_channel(n, 4, x->sizes[1], d);
	return e ? e : gradients(g, n, 1, &x->sizes[1], d);
}

/* Output, mean and 1/deviation of the batch (without elements when it is not training), and for the
 * functional form the new running statistics. */
stx_err stx_shape_native_batch_norm(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_op_info *info = stx_op_info(n->op);
	const struct stx_type *x = stx__infer_type(n, 0);
	int training = n->op == STX_OP_BATCH_NORM_NO_STATS;
	stx_err e = check_operand(n, 2, d);
	for (uint32_t i = 1; i < n->nargs && !e; i++) {
		if (info->params[i].kind == STX_PARAM_BOOL)
			training = (int)n->args[i].u.i;
		if (info->params[i].kind == STX_PARAM_TENSOR ||
		    info->params[i].kind == STX_PARAM_OPT_TENSOR)
			e = check_channel(n, i, x->sizes[1], d);
	}
	if (e)
		return e;
	if (n->op == STX_OP_BATCH_NORM_LEGIT && training)
		return STX__INFER_FAIL(d, n,
				       "training writes the running statistics; use "
				       "_native_batch_norm_legit_functional.default, which "
				       "returns them");
	if (n->op == STX_OP_BATCH_NORM_NO_STATS && !training)
		return STX__INFER_FAIL(d, n, "without statistics there is only training");
	stx_ex size = training ? x->sizes[1] : stx_ex_const(g->ex, 0);
	e = stx__infer_set(g, n, x->dtype, x->rank, x->sizes, d);
	for (int i = 0; i < 2 && !e; i++)
		e = stx__infer_add(g, n, x->dtype, 1, &size, d);
	for (int i = 0; i < 2 && !e && n->op == STX_OP_BATCH_NORM_FUNCTIONAL; i++)
		e = stx__infer_add(g, n, x->dtype, 1, &x->sizes[1], d);
	return e;
}
