/* infer_scatter.c: result types of scatters and of writes through indices: those of self. */
#include <string.h>

#include "infer.h"
#include "passes.h"

static int larger(struct stx_graph *g, stx_ex a, stx_ex b)
{
	return a != b && stx_ex_interval(g->ex, stx_ex_sub(g->ex, a, b)).hi > 0;
}

static stx_err same_type(const struct stx_node *n, const struct stx_type *a,
			 const struct stx_type *b, struct stx_diag *d)
{
	return a->dtype == b->dtype
		       ? 0
		       : STX__INFER_FAIL(d, n, "self is %s, the values %s",
					 stx_dtype_name(a->dtype), stx_dtype_name(b->dtype));
}

static stx_err check_reduce(const struct stx_node *n, enum stx_dtype t, struct stx_diag *d)
{
	static const char *const names[] = { "sum", "prod", "amax", "amin", "mean" };
	int known = n->op == STX_OP_SCATTER_ADD;
	for (int i = 0; i < 5 && !known; i++)
		known = !strcmp(n->args[4].u.str, names[i]);
	if (!known)
		return STX__INFER_FAIL(d, n, "reduce is '%.32s'", n->args[4].u.str);
	if (t == STX_BOOL && n->op == STX_OP_SCATTER_REDUCE && !strcmp(n->args[4].u.str, "mean"))
		return STX__INFER_FAIL(d, n, "bools have no mean");
	return 0;
}

stx_err stx_shape_scatter(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0), *ix = stx__infer_type(n, 2), *src = NULL;
	uint32_t dim;
	stx_err e = stx__infer_dim(g, n, n->args[1].u.ex, x->rank, &dim, d);
	e = e ? e : stx__infer_index(n, ix, d);
	if (!e && n->args[3].kind == STX_ARG_TENSOR)
		e = same_type(n, x, src = stx__infer_type(n, 3), d);
	if (!e && (n->op == STX_OP_SCATTER_REDUCE || n->op == STX_OP_SCATTER_ADD))
		e = check_reduce(n, x->dtype, d);
	e = e ? e : stx__infer_fill(n, &n->args[3], x->dtype, d);
	if (e)
		return e;
	if (ix->rank != x->rank || (src && src->rank != x->rank))
		return STX__INFER_FAIL(d, n, "self, index and src must have one rank");
	for (uint32_t i = 0; i < x->rank; i++)
		if ((i != dim && larger(g, ix->sizes[i], x->sizes[i])) ||
		    (src && larger(g, ix->sizes[i], src->sizes[i])))
			return STX__INFER_FAIL(
				d, n, "index is or may be larger than self or src in dimension %u",
				i);
	e = stx__infer_indexed(g, n, x, 1u << dim, ix, d);
	return e ? e : stx__infer_set(g, n, x->dtype, x->rank, x->sizes, d);
}

stx_err stx_shape_index_write(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0), *ix = stx__infer_type(n, 2);
	uint32_t dim;
	stx_err e = stx__infer_dim(g, n, n->args[1].u.ex, x->rank, &dim, d);
	e = e ? e : stx__infer_index(n, ix, d);
	if (e)
		return e;
	if (ix->rank > 1)
		return STX__INFER_FAIL(d, n, "index must have one dimension, not %u", ix->rank);
	if (n->op == STX_OP_INDEX_ADD && !stx_dtype_is_float(x->dtype) && n->args[4].is_float)
		return STX__INFER_FAIL(d, n, "alpha must be an integer for %s operands",
				       stx_dtype_name(x->dtype));
	if (n->args[3].kind != STX_ARG_TENSOR) {
		e = stx__infer_fill(n, &n->args[3], x->dtype, d);
		e = e ? e : stx__infer_indexed(g, n, x, 1u << dim, ix, d);
		return e ? e : stx__infer_set(g, n, x->dtype, x->rank, x->sizes, d);
	}
	const struct stx_type *src = stx__infer_type(n, 3);
	int ok = src->rank == x->rank;
	for (uint32_t i = 0; ok && i < x->rank; i++)
		ok = src->sizes[i] == (i == dim ? stx_type_numel(g, ix) : x->sizes[i]);
	if (!ok || (!x->rank && !stx_ex_equals(g->ex, stx_type_numel(g, ix), 1)))
		return STX__INFER_FAIL(
			d, n, "source is not self with the index's size in dimension %u", dim);
	e = same_type(n, x, src, d);
	e = e ? e : stx__infer_indexed(g, n, x, 1u << dim, src, d);
	return e ? e : stx__infer_set(g, n, x->dtype, x->rank, x->sizes, d);
}

/* Position of a bool index in an index_put, or the number of indices. */
static uint32_t find_mask(const struct stx_arg *list)
{
	uint32_t i = 0;
	while (i < list->n &&
	       !(list->u.tensors[i].node && stx_val_type(list->u.tensors[i])->dtype == STX_BOOL))
		i++;
	return i;
}

/* Where a mask chooses, how many values are wanted is known at run time only: but for one value. */
static stx_err check_masked_put(struct stx_graph *g, const struct stx_node *n, uint32_t at,
				struct stx_diag *d)
{
	const struct stx_arg *list = &n->args[1];
	const struct stx_type *x = stx__infer_type(n, 0), *m = stx_val_type(list->u.tensors[at]);
	for (uint32_t i = 0; i < list->n; i++)
		if (i != at && list->u.tensors[i].node)
			return stx_fail(d, STX_E_UNSUPPORTED, "infer", n->name,
					"a mask together with other indices; use one mask, or "
					"integer indices");
	if (at + m->rank > x->rank)
		return STX__INFER_FAIL(d, n, "a mask of rank %u at dimension %u of rank %u",
				       m->rank, at, x->rank);
	for (uint32_t i = 0; i < m->rank; i++)
		if (m->sizes[i] != x->sizes[at + i])
			return STX__INFER_FAIL(d, n, "the mask does not fit dimension %u", at + i);
	if (!stx_ex_equals(g->ex, stx_type_numel(g, stx__infer_type(n, 2)), 1))
		return stx_fail(d, STX_E_UNSUPPORTED, "infer", n->name,
				"how many values a mask takes depends on data; put one value, or "
				"use masked_scatter");
	return 0;
}

/* ---- writes through a view: src has the view's shape ---- */

static stx_err check_through(struct stx_graph *g, struct stx_node *n, enum stx_op op,
			     uint32_t nargs, stx_shape_fn *shape, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0), *src = stx__infer_type(n, 1);
	struct stx_node read = *n;
	struct stx_arg args[5];
	args[0] = n->args[0];
	memcpy(args + 1, n->args + 2, (nargs - 1) * sizeof *args);
	read.op = op;
	read.args = args;
	read.nargs = nargs;
	stx_err e = same_type(n, x, src, d);
	e = e ? e : shape(g, &read, d);
	if (e)
		return e;
	int ok = src->rank == read.outs[0].rank;
	for (uint32_t i = 0; ok && i < src->rank; i++)
		ok = src->sizes[i] == read.outs[0].sizes[i];
	if (!ok)
		return STX__INFER_FAIL(d, n, "src does not have the shape that it replaces");
	return stx__infer_set(g, n, x->dtype, x->rank, x->sizes, d);
}

stx_err stx_shape_slice_scatter(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	return check_through(g, n, STX_OP_SLICE, 5, stx_shape_slice, d);
}

stx_err stx_shape_select_scatter(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	return check_through(g, n, STX_OP_SELECT, 3, stx_shape_select, d);
}

stx_err stx_shape_diagonal_scatter(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	return check_through(g, n, STX_OP_DIAGONAL, 4, stx_shape_diagonal, d);
}

/* ---- others ---- */

stx_err stx_shape_masked_scatter(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0), *m = stx__infer_type(n, 1);
	const struct stx_type *types[2] = { x, m };
	struct stx_type all;
	int64_t numel;
	stx_err e = same_type(n, x, stx__infer_type(n, 2), d);
	if (!e && m->dtype != STX_BOOL)
		return STX__INFER_FAIL(d, n, "the mask is %s, not bool", stx_dtype_name(m->dtype));
	e = e ? e : stx_infer_broadcast(g, types, 2, &all, d);
	if (e)
		return e;
	if (!stx_ex_is_const(g->ex, stx_type_numel(g, &all), &numel))
		return stx_fail(d, STX_E_UNSUPPORTED, "infer", n->name,
				"masked_scatter of symbolic sizes");
	if (numel && stx_ex_equals(g->ex, stx_type_numel(g, stx__infer_type(n, 2)), 0))
		return STX__INFER_FAIL(d, n, "source has no elements");
	return stx__infer_set(g, n, x->dtype, all.rank, all.sizes, d);
}

stx_err stx_shape_embedding_back(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *dy = stx__infer_type(n, 0), *ix = stx__infer_type(n, 1);
	stx_ex sizes[2];
	stx_err e = stx__infer_index(n, ix, d);
	if (e)
		return e;
	int ok = dy->rank == ix->rank + 1u && stx_dtype_is_float(dy->dtype);
	for (uint32_t i = 0; ok && i < ix->rank; i++)
		ok = dy->sizes[i] == ix->sizes[i];
	if (!ok)
		return STX__INFER_FAIL(
			d, n,
			"grad_output must be floating-point, of the shape of indices "
			"and one dimension more");
	sizes[0] = n->args[2].u.ex;
	sizes[1] = dy->sizes[dy->rank - 1];
	if (stx_ex_interval(g->ex, sizes[0]).lo < 0 ||
	    !stx_ex_is_const(g->ex, n->args[3].u.ex, NULL))
		return STX__INFER_FAIL(d, n, "num_weights is negative, or padding_idx no constant");
	stx_err set = stx__infer_set(g, n, dy->dtype, 2, sizes, d);
	return set ? set : stx__infer_indexed(g, n, &n->outs[0], 1, dy, d);
}

/* The values broadcast to what index.Tensor gives for the same indices. */
stx_err stx_shape_index_put(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0), *v = stx__infer_type(n, 2);
	struct stx_node read = *n;
	uint32_t mask = find_mask(&n->args[1]);
	read.op = STX_OP_INDEX;
	read.nargs = 2;
	stx_err e = same_type(n, x, v, d);
	if (!e && mask < n->args[1].n) {
		e = check_masked_put(g, n, mask, d);
		return e ? e : stx__infer_set(g, n, x->dtype, x->rank, x->sizes, d);
	}
	e = e ? e : stx_shape_index(g, &read, d);
	if (e)
		return e;
	const struct stx_type *to = &read.outs[0];
	int ok = v->rank <= to->rank;
	for (uint32_t i = 0; ok && i < v->rank; i++)
		ok = v->sizes[i] == to->sizes[to->rank - v->rank + i] ||
		     stx_ex_equals(g->ex, v->sizes[i], 1);
	if (!ok)
		return STX__INFER_FAIL(d, n, "values do not broadcast to the indexed shape");
	return stx__infer_set(g, n, x->dtype, x->rank, x->sizes, d);
}
