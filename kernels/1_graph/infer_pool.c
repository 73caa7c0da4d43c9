/* infer_pool.c: result types of adaptive pooling, of what windows are folded back into, of backward
 * operators of pooling and convolution, and of sampling at given positions. */
#include <string.h>

#include "infer.h"

/* Sizes of x from dimension `from` on as numbers, each at least `least`. */
static stx_err sizes_from(struct stx_graph *g, const struct stx_node *n, const struct stx_type *x,
			  uint32_t from, int64_t least, int64_t *out, struct stx_diag *d)
{
	for (uint32_t i = from; i < x->rank; i++) {
		int64_t *v = &out[i - from];
		if (!stx_ex_is_const(g->ex, x->sizes[i], v))
			return stx_fail(d, STX_E_UNSUPPORTED, "infer", n->name,
					"%s over a symbolic size", stx_op_info(n->op)->base);
		if (*v < least || *v > INT32_MAX)
			return STX__INFER_FAIL(d, n, "dimension %u has %lld elements", i,
					       (long long)*v);
	}
	return 0;
}

static stx_err is_float(const struct stx_node *n, const struct stx_type *x, struct stx_diag *d)
{
	if (stx_dtype_is_float(x->dtype))
		return 0;
	return STX__INFER_FAIL(d, n, "%s needs floating-point operands, not %s",
			       stx_op_info(n->op)->overload, stx_dtype_name(x->dtype));
}

/* Makes the first result's type that of `count` results. */
static stx_err repeat_result(struct stx_graph *g, struct stx_node *n, uint32_t count,
			     struct stx_diag *d)
{
	struct stx_type *outs = STX_NEW_ARRAY(g->arena, struct stx_type, count);
	if (!outs)
		return stx_fail(d, STX_E_TOO_LARGE, "infer", n->name, "over the memory budget");
	for (uint32_t i = 0; i < count; i++)
		outs[i] = n->outs[0];
	n->outs = outs;
	n->nouts = count;
	return 0;
}

/* ---- adaptive pooling ---- */

static uint32_t adaptive_dims(enum stx_op op)
{
	switch (op) {
	case STX_OP_ADAPTIVE_AVG_POOL1D:
	case STX_OP_ADAPTIVE_MAX_POOL1D: return 1;
	case STX_OP_ADAPTIVE_AVG_POOL2D:
	case STX_OP_ADAPTIVE_MAX_POOL2D:
	case STX_OP_ADAPTIVE_AVG_POOL2D_BACKWARD: return 2;
	default: return 3;
	}
}

stx_err stx__infer_adaptive(struct stx_graph *g, const struct stx_node *n, struct stx__adaptive *a,
			    struct stx_diag *d)
{
	int backward = n->op == STX_OP_ADAPTIVE_AVG_POOL2D_BACKWARD ||
		       n->op == STX_OP_ADAPTIVE_AVG_POOL3D_BACKWARD;
	const struct stx_type *x = stx__infer_type(n, backward), *go = stx__infer_type(n, 0);
	memset(a, 0, sizeof *a);
	a->k = adaptive_dims(n->op);
	if (x->rank != a->k + 1 && x->rank != a->k + 2)
		return STX__INFER_FAIL(d, n, "the operand has rank %u, not %u or %u", x->rank,
				       a->k + 1, a->k + 2);
	stx_err e = sizes_from(g, n, x, x->rank - a->k, 1, a->in, d);
	if (e || !backward)
		return e ? e : stx__infer_list(g, n, 1, a->k, 0, NULL, a->out, d);
	if (go->rank != x->rank || go->dtype != x->dtype)
		return STX__INFER_FAIL(d, n, "grad_output and self differ in rank or type");
	for (uint32_t i = 0; i < x->rank - a->k; i++)
		if (go->sizes[i] != x->sizes[i])
			return STX__INFER_FAIL(d, n, "grad_output and self differ in dimension %u",
					       i);
	return sizes_from(g, n, go, go->rank - a->k, 0, a->out, d);
}

stx_err stx_shape_adaptive_pool(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	struct stx__adaptive a;
	stx_ex sizes[STX_MAX_DIMS];
	int max = n->op == STX_OP_ADAPTIVE_MAX_POOL1D || n->op == STX_OP_ADAPTIVE_MAX_POOL2D ||
		  n->op == STX_OP_ADAPTIVE_MAX_POOL3D;
	stx_err e = stx__infer_adaptive(g, n, &a, d);
	e = e ? e : max ? 0 : is_float(n, x, d);
	if (!e && x->dtype == STX_BOOL)
		return STX__INFER_FAIL(d, n, "%s does not accept bool operands",
				       stx_op_info(n->op)->overload);
	if (e)
		return e;
	memcpy(sizes, x->sizes, x->rank * sizeof *sizes);
	for (uint32_t i = 0; i < a.k; i++)
		sizes[x->rank - a.k + i] = stx_ex_const(g->ex, a.out[i]);
	e = stx__infer_set(g, n, x->dtype, x->rank, sizes, d);
	if (e || !max)
		return e;
	e = repeat_result(g, n, 2, d);
	if (!e)
		((struct stx_type *)n->outs)[1].dtype = STX_I64;
	return e;
}

stx_err stx_shape_adaptive_backward(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 1);
	struct stx__adaptive a;
	stx_err e = stx__infer_adaptive(g, n, &a, d);
	e = e ? e : is_float(n, x, d);
	return e ? e : stx__infer_set(g, n, x->dtype, x->rank, x->sizes, d);
}

/* ---- folding ---- */

stx_err stx__infer_fold(struct stx_graph *g, const struct stx_node *n, struct stx__fold *f,
			struct stx_diag *d)
{
	uint32_t at = n->op == STX_OP_IM2COL ? 0 : 1;
	memset(f, 0, sizeof *f);
	f->k = n->op == STX_OP_FOLD ? n->args[1].n : 2;
	if (f->k < 1 || f->k > STX__MAX_SPATIAL)
		return STX__INFER_FAIL(d, n, "output_size has %u values, not 1 to %d", f->k,
				       STX__MAX_SPATIAL);
	stx_err e = at ? stx__infer_list(g, n, 1, f->k, 0, NULL, f->out, d) : 0;
	e = e ? e : stx__infer_list(g, n, at + 1, f->k, 1, NULL, f->kernel, d);
	e = e ? e : stx__infer_list(g, n, at + 2, f->k, 1, NULL, f->dilation, d);
	e = e ? e : stx__infer_list(g, n, at + 3, f->k, 0, NULL, f->padding, d);
	return e ? e : stx__infer_list(g, n, at + 4, f->k, 1, NULL, f->stride, d);
}

/* Windows along dimension i over `size` elements; below 1 when none fits. */
static int64_t windows_over(const struct stx__fold *f, uint32_t i, int64_t size)
{
	int64_t room = size + 2 * f->padding[i] - f->dilation[i] * (f->kernel[i] - 1) - 1;
	return room < 0 ? 0 : room / f->stride[i] + 1;
}

stx_err stx_shape_fold(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	struct stx__fold f;
	stx_ex sizes[STX_MAX_DIMS];
	stx_err e = stx__infer_fold(g, n, &f, d);
	if (e)
		return e;
	if (x->rank < 2 * f.k || x->dtype == STX_BOOL)
		return STX__INFER_FAIL(
			d, n, "the operand must have at least rank %u, and not be bool", 2 * f.k);
	uint32_t lead = x->rank - 2 * f.k;
	memcpy(sizes, x->sizes, lead * sizeof *sizes);
	for (uint32_t i = 0; i < f.k; i++) {
		if (!stx_ex_equals(g->ex, x->sizes[lead + i], f.kernel[i]))
			return STX__INFER_FAIL(d, n, "dimension %u is not the kernel size",
					       lead + i);
		sizes[lead + i] = stx_ex_const(g->ex, f.out[i]);
	}
	return stx__infer_set(g, n, x->dtype, lead + f.k, sizes, d);
}

stx_err stx_shape_col2im(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	struct stx__fold f;
	stx_ex sizes[4], *s = sizes;
	stx_err e = stx__infer_fold(g, n, &f, d);
	if (e)
		return e;
	if ((x->rank != 2 && x->rank != 3) || x->dtype == STX_BOOL)
		return STX__INFER_FAIL(d, n, "the operand must have rank 2 or 3, and not be bool");
	for (uint32_t i = 0; i < 2; i++)
		f.in[i] = windows_over(&f, i, f.out[i]);
	stx_ex area = stx_ex_const(g->ex, f.kernel[0] * f.kernel[1]), rows = x->sizes[x->rank - 2];
	if (!stx_ex_equals(g->ex, x->sizes[x->rank - 1], f.in[0] * f.in[1]) || f.in[0] < 1 ||
	    f.in[1] < 1)
		return STX__INFER_FAIL(d, n,
				       "%lld x %lld windows fit the output size; the operand "
				       "does not have as many columns",
				       (long long)f.in[0], (long long)f.in[1]);
	if (!stx_ex_equals(g->ex, stx_ex_mod(g->ex, rows, area), 0))
		return STX__INFER_FAIL(d, n, "the rows are no multiple of the kernel's area");
	if (x->rank == 3)
		*s++ = x->sizes[0];
	*s++ = stx_ex_floordiv(g->ex, rows, area);
	*s++ = stx_ex_const(g->ex, f.out[0]);
	*s++ = stx_ex_const(g->ex, f.out[1]);
	return stx__infer_set(g, n, x->dtype, x->rank + 1u, sizes, d);
}

stx_err stx_shape_im2col(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	struct stx__fold f;
	stx_ex sizes[3], *s = sizes;
	stx_err e = stx__infer_fold(g, n, &f, d);
	if (!e && x->rank != 3 && x->rank != 4)
		return STX__INFER_FAIL(d, n, "the operand has rank %u, not 3 or 4", x->rank);
	e = e ? e : sizes_from(g, n, x, x->rank - 2u, 0, f.in, d);
	if (e)
		return e;
	int64_t h = windows_over(&f, 0, f.in[0]), w = windows_over(&f, 1, f.in[1]);
	if (h < 1 || w < 1)
		return STX__INFER_FAIL(d, n, "no window fits");
	if (x->rank == 4)
		*s++ = x->sizes[0];
	*s++ = stx_ex_muli(g->ex, x->sizes[x->rank - 3], f.kernel[0] * f.kernel[1]);
	*s++ = stx_ex_const(g->ex, h * w);
	return stx__infer_set(g, n, x->dtype, x->rank - 1u, sizes, d);
}

/* ---- backward of convolution ---- */

void stx__infer_conv_forward(const struct stx_node *n, struct stx_arg *args,
			     struct stx_node *forward)
{
	args[0] = n->args[1];
	args[1] = n->args[2];
	args[2] = stx_arg_none();
	memcpy(args + 3, n->args + 4, 6 * sizeof *args); /* stride to groups */
	*forward = (struct stx_node){
		.op = STX_OP_CONVOLUTION, .name = n->name, .nargs = 9, .args = args
	};
}

stx_err stx_shape_conv_backward(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *go = stx__infer_type(n, 0), *x = stx__infer_type(n, 1),
			      *w = stx__infer_type(n, 2);
	const struct stx_arg *b = &n->args[3];
	struct stx_arg args[9];
	struct stx_node forward;
	stx__infer_conv_forward(n, args, &forward);
	stx_err e = stx_shape_convolution(g, &forward, d);
	e = e ? e : is_float(n, x, d);
	if (e)
		return e;
	if (!stx_type_eq(go, &forward.outs[0]))
		return STX__INFER_FAIL(d, n, "grad_output is not of the convolution's result type");
	if (n->args[10].n != 3)
		return STX__INFER_FAIL(d, n, "output_mask has %u values, not 3", n->args[10].n);
	stx_ex channels = go->sizes[1], none = stx_ex_const(g->ex, 0);
	/* PyTorch's derivative of a convolution without bias says [0] and asks for no such gradient */
	if (n->args[10].u.i & 4 && b->kind == STX_ARG_INTS &&
	    (b->n != 1 || b->u.exs[0] != channels))
		return STX__INFER_FAIL(d, n, "bias_sizes is not the number of output channels");
	e = stx__infer_set(g, n, x->dtype, 1, &none, d);
	e = e ? e : repeat_result(g, n, 3, d);
	if (e)
		return e;
	struct stx_type *outs = (struct stx_type *)n->outs;
	const stx_ex *one = stx_arena_copy(g->arena, &channels, sizeof channels);
	if (!one)
		return stx_fail(d, STX_E_TOO_LARGE, "infer", n->name, "over the memory budget");
	if (n->args[10].u.i & 1)
		outs[0] = *x;
	if (n->args[10].u.i & 2)
		outs[1] = *w;
	if (n->args[10].u.i & 4)
		outs[2] = (struct stx_type){ x->dtype, 1, one };
	return 0;
}

/* ---- sampling ---- */

/* Positions of each spatial dimension, of one rank and type, broadcast together. */
stx_err stx_shape_sample(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0), *at = NULL;
	const struct stx_arg *list = &n->args[1];
	int64_t mode, padding, sizes[STX__MAX_SPATIAL];
	stx_ex out[STX_MAX_DIMS + 1];
	if (list->n < 1 || list->n > STX__MAX_SPATIAL || x->rank != list->n + 2)
		return STX__INFER_FAIL(d, n, "%u lists of positions for an input of rank %u",
				       list->n, x->rank);
	for (uint32_t i = 0; i < list->n; i++) {
		if (!list->u.tensors[i].node)
			return STX__INFER_FAIL(d, n, "positions of dimension %u are missing", i);
		const struct stx_type *t = stx_val_type(list->u.tensors[i]);
		if (!stx_dtype_is_float(t->dtype) ||
		    (at && (t->rank != at->rank || t->dtype != at->dtype)))
			return STX__INFER_FAIL(d, n,
					       "positions must be floats of one type and one rank");
		for (uint32_t k = 0; k < t->rank; k++) {
			if (!at || stx_ex_equals(g->ex, out[k + 1], 1))
				out[k + 1] = t->sizes[k];
			else if (t->sizes[k] != out[k + 1] && !stx_ex_equals(g->ex, t->sizes[k], 1))
				return STX__INFER_FAIL(d, n, "positions do not broadcast");
		}
		at = t;
	}
	stx_err e = stx__infer_const(g, n, n->args[2].u.ex, 0, "interpolation_mode", &mode, d);
	e = e ? e : stx__infer_const(g, n, n->args[3].u.ex, 0, "padding_mode", &padding, d);
	e = e ? e : sizes_from(g, n, x, 2, 1, sizes, d);
	if (e)
		return e;
	if (mode > 2 || padding > 1 || (mode != 1 && !stx_dtype_is_float(x->dtype)))
		return STX__INFER_FAIL(d, n, "interpolation_mode %lld and padding_mode %lld of %s",
				       (long long)mode, (long long)padding,
				       stx_dtype_name(x->dtype));
	if (at->rank < 1 || at->rank >= STX_MAX_DIMS || out[1] != x->sizes[0])
		return STX__INFER_FAIL(d, n,
				       "the first dimension of the positions is not the batch");
	out[0] = out[1];
	out[1] = x->sizes[1];
	return stx__infer_set(g, n, x->dtype, at->rank + 1u, out, d);
}

stx_err stx_shape_grid_sampler(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0), *at = stx__infer_type(n, 1);
	uint32_t k = n->op == STX_OP_GRID_SAMPLER2D ? 2 : 3;
	int64_t mode, padding, sizes[STX__MAX_SPATIAL];
	stx_ex out[STX_MAX_DIMS];
	if (x->rank != k + 2 || at->rank != k + 2 ||
	    !stx_ex_equals(g->ex, at->sizes[k + 1], (int64_t)k))
		return STX__INFER_FAIL(d, n,
				       "input and grid must have rank %u, the grid %u coordinates",
				       k + 2, k);
	stx_err e = stx__infer_const(g, n, n->args[2].u.ex, 0, "interpolation_mode", &mode, d);
	e = e ? e : stx__infer_const(g, n, n->args[3].u.ex, 0, "padding_mode", &padding, d);
	e = e ? e : sizes_from(g, n, x, 2, 1, sizes, d);
	e = e ? e : is_float(n, at, d);
	if (e)
		return e;
	if (mode > 2 || padding > 2 || (mode == 2 && k == 3))
		return STX__INFER_FAIL(d, n,
				       "interpolation_mode %lld and padding_mode %lld of %u "
				       "dimensions",
				       (long long)mode, (long long)padding, k);
	if (mode != 1 && !stx_dtype_is_float(x->dtype))
		return STX__INFER_FAIL(d, n, "only nearest neighbours of %s can be taken",
				       stx_dtype_name(x->dtype));
	if (x->sizes[0] != at->sizes[0])
		return STX__INFER_FAIL(d, n, "input and grid have different batch sizes");
	out[0] = x->sizes[0];
	out[1] = x->sizes[1];
	memcpy(out + 2, at->sizes + 1, k * sizeof *out);
	return stx__infer_set(g, n, x->dtype, k + 2, out, d);
}
