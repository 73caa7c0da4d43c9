/* infer_sort.c: result types of sorts, top k and what is picked from a sorted dimension. */
#include "infer.h"

#include <string.h>

static const struct stx_arg *named(const struct stx_node *n, const char *name)
{
	const struct stx_op_info *info = stx_op_info(n->op);
	for (uint32_t i = 0; i < info->nparams; i++)
		if (!strcmp(info->params[i].name, name))
			return &n->args[i];
	return NULL;
}

stx_err stx_shape_argsort(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	uint32_t dim;
	stx_err e = stx__infer_dim(g, n, named(n, "dim")->u.ex, x->rank, &dim, d);
	return e ? e : stx__infer_set(g, n, STX_I64, x->rank, x->sizes, d);
}

/* Values of the operand's type, and their positions. */
static stx_err values_and_positions(struct stx_graph *g, struct stx_node *n, uint32_t rank,
				    const stx_ex *sizes, struct stx_diag *d)
{
	stx_err e = stx__infer_set(g, n, stx__infer_type(n, 0)->dtype, rank, sizes, d);
	return e ? e : stx__infer_add(g, n, STX_I64, rank, sizes, d);
}

stx_err stx_shape_sort(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	uint32_t dim;
	stx_err e = stx__infer_dim(g, n, named(n, "dim")->u.ex, x->rank, &dim, d);
	return e ? e : values_and_positions(g, n, x->rank, x->sizes, d);
}

/* k, from `least` to the size of dimension dim (1 for a 0-d operand). */
static stx_err check_k(struct stx_graph *g, const struct stx_node *n, uint32_t dim, int64_t least,
		       int64_t *k, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_ex size = x->rank ? x->sizes[dim] : stx_ex_const(g->ex, 1);
	int64_t most = stx_ex_interval(g->ex, size).lo;
	if (!stx_ex_is_const(g->ex, named(n, "k")->u.ex, k))
		return STX__INFER_FAIL(d, n, "k must be a constant");
	if (*k < least || *k > most)
		return STX__INFER_FAIL(d, n, "k is %lld; dimension %u allows %lld to %lld",
				       (long long)*k, dim, (long long)least, (long long)most);
	return 0;
}

stx_err stx_shape_topk(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t dim;
	int64_t k;
	stx_err e = stx__infer_dim(g, n, named(n, "dim")->u.ex, x->rank, &dim, d);
	if (!e)
		e = check_k(g, n, dim, 0, &k, d);
	if (e)
		return e;
	if (!x->rank && k != 1)
		return STX__INFER_FAIL(d, n, "k is %lld of a 0-d operand; it must be 1",
				       (long long)k);
	memcpy(sizes, x->sizes, x->rank * sizeof *sizes);
	if (x->rank)
		sizes[dim] = stx_ex_const(g->ex, k);
	return values_and_positions(g, n, x->rank, sizes, d);
}

/* One element of each row: kthvalue and median. */
stx_err stx_shape_kthvalue(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t dim, rank = 0;
	int64_t k = 1;
	stx_err e = stx__infer_dim(g, n, named(n, "dim")->u.ex, x->rank, &dim, d);
	if (!e && n->op == STX_OP_KTHVALUE)
		e = check_k(g, n, dim, 1, &k, d);
	if (e)
		return e;
	if (x->rank && stx_ex_interval(g->ex, x->sizes[dim]).lo < 1)
		return STX__INFER_FAIL(d, n, "dimension %u has no element, or may have none", dim);
	for (uint32_t i = 0; i < x->rank; i++)
		if (i != dim)
			sizes[rank++] = x->sizes[i];
		else if (named(n, "keepdim")->u.i)
			sizes[rank++] = stx_ex_const(g->ex, 1);
	return values_and_positions(g, n, rank, sizes, d);
}
