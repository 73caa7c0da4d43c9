/* canonical_args.c: the one spelling of a node's arguments that canonical graphs use.
 * Every rule is an equality of values, bit for bit, and of result types. */
#include <math.h>
#include <string.h>

#include "graph_internal.h"
#include "infer.h"
#include "passes.h"

static struct stx_arg dim_arg(struct stx_graph *g, const struct stx_node *n, uint32_t i,
			      uint32_t rank)
{
	uint32_t dim = 0;
	stx__infer_dim(g, n, n->args[i].u.ex, rank, &dim, NULL);
	return stx_arg_int(g, dim);
}

/* The set of dimensions of list argument i, in order; those of a 0-d operand vanish. */
static struct stx_arg dims_arg(struct stx_graph *g, const struct stx_node *n, uint32_t i,
			       uint32_t rank, int empty_is_all)
{
	int64_t v[STX_MAX_DIMS];
	uint32_t set = 0, k = 0;
	stx__infer_dims(g, n, i, rank, empty_is_all, &set, NULL);
	for (uint32_t dim = 0; dim < rank; dim++)
		if (set & 1u << dim)
			v[k++] = dim;
	return stx_arg_ints(g, v, k);
}

/* The same, keeping the order given (permute). */
static struct stx_arg order_arg(struct stx_graph *g, const struct stx_node *n, uint32_t i,
				uint32_t rank)
{
	int64_t v[STX_MAX_DIMS];
	uint32_t dim = 0;
	for (uint32_t k = 0; k < n->args[i].n && k < STX_MAX_DIMS; k++) {
		stx__infer_dim(g, n, n->args[i].u.exs[k], rank, &dim, NULL);
		v[k] = dim;
	}
	return stx_arg_ints(g, v, n->args[i].n);
}

/* For a floating-point operation 2.0 and 2 become the same constant of the operation's dtype: the
 * integer is the normal spelling. -0.0 is no integer, and beyond 2^53 the two may differ. */
static void whole_scalar(struct stx_arg *a)
{
	double limit = 9007199254740992.0;
	if (a->kind == STX_ARG_SCALAR && a->is_float && a->u.f >= -limit && a->u.f <= limit &&
	    a->u.f == (double)(int64_t)a->u.f && !(a->u.f == 0 && signbit(a->u.f)))
		*a = stx_arg_scalar_i((int64_t)a->u.f);
}

/* True and False where the type does not follow from them: 1 and 0. */
static void plain_number(struct stx_arg *a)
{
	if (a->kind == STX_ARG_SCALAR && a->is_bool)
		*a = stx_arg_scalar_i(a->u.i);
}

/* Only where the number does not decide the type: the tensors are floats already. */
static void pointwise_scalars(const struct stx_node *n, struct stx_arg *out)
{
	int floats = stx_op_info(n->op)->promote == STX_PROMOTE_FLOAT;
	for (uint32_t i = 0; i < n->nargs && !floats; i++)
		floats = n->args[i].kind == STX_ARG_TENSOR &&
			 stx_dtype_is_float(stx__infer_type(n, i)->dtype);
	for (uint32_t i = 0; i < n->nargs && floats; i++)
		whole_scalar(&out[i]);
	for (uint32_t i = 0; i < n->nargs && stx_infer_operand_dtype(n) != STX_BOOL; i++)
		plain_number(&out[i]);
}

static stx_err slice_args(struct stx_graph *g, const struct stx_node *n, struct stx_arg *out,
			  struct stx_diag *d)
{
	uint32_t dim;
	int64_t step;
	stx_ex start, end;
	stx_err e = stx__infer_slice(g, n, &dim, &start, &end, &step, d);
	if (e)
		return e;
	out[1] = stx_arg_int(g, dim);
	/* Bounds that depend on a symbol stay as given: clamping them twice is another expression.
	 */
	if (stx_ex_is_const(g->ex, start, NULL))
		out[2] = stx_arg_ex(start);
	if (out[3].kind == STX_ARG_NONE)
		out[3] = stx_arg_ex(stx__infer_type(n, 0)->sizes[dim]);
	else if (stx_ex_is_const(g->ex, end, NULL))
		out[3] = stx_arg_ex(end);
	return 0;
}

static void select_args(struct stx_graph *g, const struct stx_node *n, uint32_t rank,
			struct stx_arg *out)
{
	int64_t at, size;
	const struct stx_type *x = stx__infer_type(n, 0);
	uint32_t dim = 0;
	stx__infer_dim(g, n, n->args[1].u.ex, rank, &dim, NULL);
	out[1] = stx_arg_int(g, dim);
	if (stx_ex_is_const(g->ex, n->args[2].u.ex, &at) && at < 0 &&
	    stx_ex_is_const(g->ex, x->sizes[dim], &size))
		out[2] = stx_arg_int(g, at + size);
}

static void transpose_args(struct stx_graph *g, const struct stx_node *n, uint32_t rank,
			   struct stx_arg *out)
{
	uint32_t a = 0, b = 0;
	stx__infer_dim(g, n, n->args[1].u.ex, rank, &a, NULL);
	stx__infer_dim(g, n, n->args[2].u.ex, rank, &b, NULL);
	out[1] = stx_arg_int(g, a < b ? a : b);
	out[2] = stx_arg_int(g, a < b ? b : a);
}

static void pad_args(const struct stx_graph *g, struct stx_arg *out)
{
	uint32_t k = out[1].n;
	while (k >= 2 && stx_ex_equals(g->ex, out[1].u.exs[k - 1], 0) &&
	       stx_ex_equals(g->ex, out[1].u.exs[k - 2], 0))
		k -= 2;
	out[1].n = k;
}

static void reduce_args(struct stx_graph *g, const struct stx_node *n, uint32_t rank,
			struct stx_arg *out)
{
	const struct stx_op_info *info = stx_op_info(n->op);
	for (uint32_t i = 0; i < n->nargs; i++) {
		const char *name = info->params[i].name;
		int keeps_empty = n->op == STX_OP_ANY_DIM || n->op == STX_OP_ALL_DIM;
		if (!strcmp(name, "dim") && info->params[i].kind == STX_PARAM_INT)
			out[i] = dim_arg(g, n, i, rank);
		else if (!strcmp(name, "dim"))
			out[i] = dims_arg(g, n, i, rank, !keeps_empty);
		else if (!strcmp(name, "dtype"))
			out[i] = stx_arg_dtype(n->outs[0].dtype);
		else if (!strcmp(name, "correction") && out[i].kind == STX_ARG_NONE)
			out[i] = stx_arg_scalar_i(1);
		else if (!strcmp(name, "correction"))
			whole_scalar(&out[i]);
	}
}

/* Lists of one value, and an empty stride, written out for every dimension. */
static stx_err window_args(struct stx_graph *g, const struct stx_node *n, struct stx_arg *out,
			   struct stx_diag *d)
{
	struct stx__window w;
	stx_err e = stx__infer_window(g, n, &w, d);
	if (e)
		return e;
	for (uint32_t i = 0; i < n->nargs; i++) {
		const char *name = stx_op_info(n->op)->params[i].name;
		const int64_t *v = !strcmp(name, "kernel_size")      ? w.kernel
				   : !strcmp(name, "stride")         ? w.stride
				   : !strcmp(name, "padding")        ? w.padding
				   : !strcmp(name, "dilation")       ? w.dilation
				   : !strcmp(name, "output_padding") ? w.output_padding
								     : NULL;
		if (v)
			out[i] = stx_arg_ints(g, v, w.k);
	}
	return 0;
}

/* The same for folding, and for adaptive pooling. */
static stx_err fold_args(struct stx_graph *g, const struct stx_node *n, struct stx_arg *out,
			 struct stx_diag *d)
{
	uint32_t at = n->op == STX_OP_IM2COL ? 0 : 1;
	struct stx__fold f;
	stx_err e = stx__infer_fold(g, n, &f, d);
	if (e)
		return e;
	if (at)
		out[1] = stx_arg_ints(g, f.out, f.k);
	out[at + 1] = stx_arg_ints(g, f.kernel, f.k);
	out[at + 2] = stx_arg_ints(g, f.dilation, f.k);
	out[at + 3] = stx_arg_ints(g, f.padding, f.k);
	out[at + 4] = stx_arg_ints(g, f.stride, f.k);
	return 0;
}

static stx_err adaptive_args(struct stx_graph *g, const struct stx_node *n, struct stx_arg *out,
			     struct stx_diag *d)
{
	struct stx__adaptive a;
	stx_err e = stx__infer_adaptive(g, n, &a, d);
	if (!e)
		out[1] = stx_arg_ints(g, a.out, a.k);
	return e;
}

/* Written out as those of its convolution; the bias's sizes say nothing new. */
static stx_err conv_backward_args(struct stx_graph *g, const struct stx_node *n,
				  struct stx_arg *out, struct stx_diag *d)
{
	struct stx_arg args[9], normal[9];
	struct stx_node forward;
	stx__infer_conv_forward(n, args, &forward);
	memcpy(normal, args, sizeof normal);
	stx_err e = window_args(g, &forward, normal, d);
	memcpy(out + 4, normal + 3, 6 * sizeof *out);
	out[3] = stx_arg_none();
	return e;
}

stx_err stx__normal_args(struct stx_graph *g, const struct stx_node *n, struct stx_arg *out,
			 struct stx_diag *d)
{
	uint32_t rank =
		n->nargs && n->args[0].kind == STX_ARG_TENSOR ? stx__infer_type(n, 0)->rank : 0;
	const struct stx_type *o = n->outs;
	memcpy(out, n->args, n->nargs * sizeof *out);
	switch (n->op) {
	case STX_OP_VIEW:
	case STX_OP_EXPAND: out[1] = stx_arg_exs(g, o->sizes, o->rank); break;
	case STX_OP_PERMUTE: out[1] = order_arg(g, n, 1, rank); break;
	case STX_OP_SQUEEZE:
	case STX_OP_FLIP: out[1] = dims_arg(g, n, 1, rank, 0); break;
	case STX_OP_TRANSPOSE: transpose_args(g, n, rank, out); break;
	case STX_OP_UNSQUEEZE: out[1] = dim_arg(g, n, 1, rank + 1); break;
	case STX_OP_SLICE: return slice_args(g, n, out, d);
	case STX_OP_SLICE_SCATTER: { /* as the slice it writes */
		struct stx_node read = *n;
		struct stx_arg args[5] = { n->args[0], n->args[2], n->args[3], n->args[4],
					   n->args[5] },
			       normal[5];
		read.args = args;
		memcpy(normal, args, sizeof args);
		stx_err e = slice_args(g, &read, normal, d);
		memcpy(out + 2, normal + 1, 4 * sizeof *out);
		return e;
	}
	case STX_OP_EMBEDDING: /* forward, padding and sparsity mean nothing */
		out[2] = stx_arg_int(g, -1);
		out[3] = out[4] = stx_arg_bool(0);
		break;
	case STX_OP_SELECT: select_args(g, n, rank, out); break;
	case STX_OP_DIAGONAL:
		out[2] = dim_arg(g, n, 2, rank);
		out[3] = dim_arg(g, n, 3, rank);
		break;
	case STX_OP_CONVOLUTION: return window_args(g, n, out, d);
	case STX_OP_FOLD:
	case STX_OP_COL2IM:
	case STX_OP_IM2COL: return fold_args(g, n, out, d);
	case STX_OP_ADAPTIVE_AVG_POOL1D:
	case STX_OP_ADAPTIVE_AVG_POOL2D:
	case STX_OP_ADAPTIVE_AVG_POOL3D:
	case STX_OP_ADAPTIVE_MAX_POOL1D:
	case STX_OP_ADAPTIVE_MAX_POOL2D:
	case STX_OP_ADAPTIVE_MAX_POOL3D: return adaptive_args(g, n, out, d);
	case STX_OP_CONVOLUTION_BACKWARD: return conv_backward_args(g, n, out, d);
	case STX_OP_UNFOLD:
	case STX_OP_RESAMPLE:
	case STX_OP_GATHER:
	case STX_OP_INDEX_SELECT:
	case STX_OP_SOFTMAX:
	case STX_OP_CUMMAX:
	case STX_OP_CUMMIN:
	case STX_OP_LOG_SOFTMAX: out[1] = dim_arg(g, n, 1, rank); break;
	case STX_OP_CUMSUM:
	case STX_OP_CUMPROD:
		out[1] = dim_arg(g, n, 1, rank);
		out[2] = stx_arg_dtype(o->dtype);
		break;
	case STX_OP_ARGSORT_STABLE:
		out[1] = stx_arg_bool(1);
		out[2] = dim_arg(g, n, 2, rank);
		break;
	case STX_OP_CAT: out[1] = dim_arg(g, n, 1, o->rank); break;
	case STX_OP_SCATTER:
	case STX_OP_SCATTER_REDUCE:
	case STX_OP_SCATTER_ADD:
	case STX_OP_SCATTER_VALUE:
	case STX_OP_INDEX_ADD:
	case STX_OP_INDEX_COPY:
	case STX_OP_INDEX_FILL:
		out[1] = dim_arg(g, n, 1, rank);
		if (n->op != STX_OP_SCATTER_REDUCE && stx_dtype_is_float(o->dtype))
			whole_scalar(&out[n->nargs - 1]);
		break;
	case STX_OP_INDEX_PUT:
	case STX_OP_INDEX:
		while (out[1].n && !out[1].u.tensors[out[1].n - 1].node)
			out[1].n--;
		break;
	case STX_OP_PAD:
		pad_args(g, out);
		if (stx_dtype_is_float(o->dtype))
			whole_scalar(&out[2]);
		break;
	case STX_OP_ARANGE: out[3] = stx_arg_dtype(o->dtype); break;
	case STX_OP_FULL:
		out[2] = stx_arg_dtype(o->dtype);
		if (stx_dtype_is_float(o->dtype))
			whole_scalar(&out[1]);
		break;
	case STX_OP_RAND:
	case STX_OP_RANDN:
	case STX_OP_TO_COPY: out[1] = stx_arg_dtype(o->dtype); break;
	case STX_OP_ARGMAX:
	case STX_OP_ARGMIN:
		if (out[1].kind == STX_ARG_INT)
			out[1] = rank ? dim_arg(g, n, 1, rank) : stx_arg_none();
		else if (rank == 1)
			out[1] = stx_arg_int(g, 0);
		break;
	default:
		if (stx_op_info(n->op)->category == STX_CAT_REDUCE)
			reduce_args(g, n, rank, out);
		else if (stx_op_info(n->op)->category == STX_CAT_POINTWISE)
			pointwise_scalars(n, out);
		else if (stx__infer_is_pool(n->op))
			return window_args(g, n, out, d);
		else if (stx_op_info(n->op)->category == STX_CAT_COMPOSITE ||
			 (n->op == STX_OP_ADDMM && stx_dtype_is_float(o->dtype)))
			for (uint32_t i = 0; i < n->nargs; i++)
				whole_scalar(&out[i]);
	}
	for (uint32_t i = 0; stx_op_info(n->op)->category != STX_CAT_POINTWISE && i < n->nargs; i++)
		plain_number(&out[i]);
	return stx_arena_oom(g->arena) ? stx__over_budget("canonical", n->name, d) : 0;
}

int stx__commutes(const struct stx_node *n)
{
	if (!(stx_op_info(n->op)->tags & STX_TAG_COMMUTES))
		return 0;
	for (uint32_t i = 2; i < n->nargs; i++) { /* alpha of add weighs one side unless it is 1 */
		const struct stx_arg *a = &n->args[i];
		if (a->kind != STX_ARG_SCALAR || (a->is_float ? a->u.f != 1 : a->u.i != 1))
			return 0;
	}
	return 1;
}
