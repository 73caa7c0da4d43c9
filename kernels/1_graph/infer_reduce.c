/* infer_reduce.c: result types of reductions, PyTorch's: integers sum and multiply as i64, maxima
 * and positions of nothing are an error (seed 000 6.2). */
#include "infer.h"

#include <string.h>

/* Sizes of x without the dimensions in set, or with size 1 there. */
static stx_err set_reduced(struct stx_graph *g, struct stx_node *n, uint32_t set, int keepdim,
			   enum stx_dtype t, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t rank = 0;
	for (uint32_t i = 0; i < x->rank; i++) {
		if (!(set & 1u << i))
			sizes[rank++] = x->sizes[i];
		else if (keepdim)
			sizes[rank++] = stx_ex_const(g->ex, 1);
	}
	return stx__infer_set(g, n, t, rank, sizes, d);
}

static int param_index(const struct stx_node *n, const char *name)
{
	const struct stx_op_info *info = stx_op_info(n->op);
	for (uint32_t i = 0; i < info->nparams; i++)
		if (!strcmp(info->params[i].name, name))
			return (int)i;
	return -1;
}

static stx_err reduce_dtype(const struct stx_node *n, enum stx_dtype *t, struct stx_diag *d)
{
	enum stx_dtype x = stx__infer_type(n, 0)->dtype;
	int at = param_index(n, "dtype");
	int given = at >= 0 && n->args[at].kind == STX_ARG_DTYPE;
	*t = given ? n->args[at].u.dtype : x;
	switch (n->op) {
	case STX_OP_SUM:
	case STX_OP_SUM_DIM:
	case STX_OP_PROD:
	case STX_OP_PROD_DIM:
		if (!given && !stx_dtype_is_float(x))
			*t = STX_I64;
		return 0;
	case STX_OP_MEAN:
	case STX_OP_MEAN_DIM:
	case STX_OP_VAR:
	case STX_OP_VAR_DIM:
	case STX_OP_VAR_MEAN:
	case STX_OP_STD:
	case STX_OP_STD_DIM:
	case STX_OP_ONLINE_SOFTMAX:
		if (!stx_dtype_is_float(*t))
			return STX__INFER_FAIL(d, n,
					       "%s needs floating-point operands or dtype=, not %s",
					       stx_op_info(n->op)->overload, stx_dtype_name(*t));
		return 0;
	case STX_OP_LOGSUMEXP: *t = stx_dtype_is_float(x) ? x : STX_F32; return 0;
	case STX_OP_ANY:
	case STX_OP_ALL:
	case STX_OP_ANY_DIM:
	case STX_OP_ALL_DIM:
	case STX_OP_ANY_ONE:
	case STX_OP_ALL_ONE: *t = x == STX_U8 ? STX_U8 : STX_BOOL; return 0; /* as PyTorch */
	default: return 0;
	}
}

static int zero_sized(struct stx_graph *g, const struct stx_type *x, uint32_t set)
{
	for (uint32_t i = 0; i < x->rank; i++)
		if ((set & 1u << i) && stx_ex_equals(g->ex, x->sizes[i], 0))
			return 1;
	return 0;
}

stx_err stx_shape_reduce(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	int at = param_index(n, "dim"), kd = param_index(n, "keepdim");
	uint32_t set = (1u << x->rank) - 1;
	enum stx_dtype t;
	stx_err e = 0;
	if (at >= 0 && n->args[at].kind == STX_ARG_INT) {
		uint32_t dim = 0;
		e = stx__infer_dim(g, n, n->args[at].u.ex, x->rank, &dim, d);
		set = e ? 0 : 1u << dim;
	} else if (at >= 0) {
		/* PyTorch: an empty list means every dimension, except for any.dims and all.dims.
		 */
		int all = n->op != STX_OP_ANY_DIM && n->op != STX_OP_ALL_DIM;
		e = stx__infer_dims(g, n, (uint32_t)at, x->rank, all, &set, d);
	}
	if (e)
		return e;
	if ((n->op == STX_OP_AMAX || n->op == STX_OP_AMIN || n->op == STX_OP_MAX_DIM ||
	     n->op == STX_OP_MIN_DIM) &&
	    zero_sized(g, x, set))
		return STX__INFER_FAIL(d, n, "%s over a dimension of size 0 has no identity",
				       stx_op_info(n->op)->overload);
	e = reduce_dtype(n, &t, d);
	return e ? e : set_reduced(g, n, set, kd >= 0 && n->args[kd].u.i, t, d);
}

/* Two results of one shape: (value, index), (variance, mean), (maximum, sum). */
stx_err stx_shape_reduce_pair(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	stx_err e = stx_shape_reduce(g, n, d);
	if (!e && n->op == STX_OP_ONLINE_SOFTMAX &&
	    stx_dtype_bytes(stx__infer_type(n, 0)->dtype) < 4)
		return STX__INFER_FAIL(d, n, "_online_softmax needs f32 or f64");
	int index = n->op == STX_OP_MAX_DIM || n->op == STX_OP_MIN_DIM;
	enum stx_dtype t = !index ? stx__infer_type(n, 0)->dtype : STX_I64;
	return e ? e : stx__infer_add(g, n, t, n->outs[0].rank, n->outs[0].sizes, d);
}

stx_err stx_shape_argreduce(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	uint32_t set = (1u << x->rank) - 1, dim = 0;
	if (n->args[1].kind == STX_ARG_INT) {
		stx_err e = stx__infer_dim(g, n, n->args[1].u.ex, x->rank, &dim, d);
		if (e)
			return e;
		set = 1u << dim;
	}
	if (x->dtype == STX_BOOL)
		return stx__infer_not_for(n, x->dtype, d);
	if (zero_sized(g, x, set))
		return STX__INFER_FAIL(d, n, "%s over a dimension of size 0 has no answer",
				       stx_op_info(n->op)->overload);
	return set_reduced(g, n, set, (int)n->args[2].u.i, STX_I64, d);
}
