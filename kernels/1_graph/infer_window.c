/* infer_window.c: result types of convolution, pooling, unfold and scans; their arguments as
 * numbers. */
#include <string.h>

#include "infer.h"
#include "passes.h"

#define MOST INT32_MAX /* of any argument, so that no product of two overflows */

stx_err stx__infer_const(struct stx_graph *g, const struct stx_node *n, stx_ex e, int64_t least,
			 const char *name, int64_t *out, struct stx_diag *d)
{
	if (!stx_ex_is_const(g->ex, e, out))
		return stx_fail(d, STX_E_UNSUPPORTED, "infer", n->name, "%s is not a constant",
				name);
	if (*out < least || *out > MOST)
		return STX__INFER_FAIL(d, n, "%s is %lld, outside [%lld, %lld]", name,
				       (long long)*out, (long long)least, (long long)MOST);
	return 0;
}

stx_err stx__infer_list(struct stx_graph *g, const struct stx_node *n, uint32_t i, uint32_t k,
			int64_t least, const int64_t *otherwise, int64_t *out, struct stx_diag *d)
{
	const struct stx_arg *a = &n->args[i];
	const char *name = stx_op_info(n->op)->params[i].name;
	if (a->n == 0 && otherwise) {
		memcpy(out, otherwise, k * sizeof *out);
		return 0;
	}
	if (a->n != 1 && a->n != k)
		return STX__INFER_FAIL(d, n, "%s has %u values for %u dimensions", name, a->n, k);
	for (uint32_t j = 0; j < k; j++) {
		stx_err e = stx__infer_const(g, n, a->u.exs[a->n == 1 ? 0 : j], least, name,
					     &out[j], d);
		if (e)
			return e;
	}
	return 0;
}

static stx_err conv_window(struct stx_graph *g, const struct stx_node *n, struct stx__window *w,
			   struct stx_diag *d)
{
	uint32_t rank = stx__infer_type(n, 0)->rank;
	if (rank < 3 || rank > 2 + STX__MAX_SPATIAL || stx__infer_type(n, 1)->rank != rank)
		return STX__INFER_FAIL(d, n,
				       "input and weight have ranks %u and %u; both must be 3, "
				       "4 or 5",
				       rank, stx__infer_type(n, 1)->rank);
	w->k = rank - 2;
	stx_err e = stx__infer_list(g, n, 3, w->k, 1, NULL, w->stride, d);
	e = e ? e : stx__infer_list(g, n, 4, w->k, 0, NULL, w->padding, d);
	e = e ? e : stx__infer_list(g, n, 5, w->k, 1, NULL, w->dilation, d);
	e = e ? e
	      : stx__infer_list(g, n, 7, w->k, 0, (const int64_t[STX__MAX_SPATIAL]){ 0 },
				w->output_padding, d);
	return e ? e : stx__infer_const(g, n, n->args[8].u.ex, 1, "groups", &w->groups, d);
}

static uint32_t pool_dims(enum stx_op op)
{
	switch (op) {
	case STX_OP_MAX_POOL1D:
	case STX_OP_AVG_POOL1D: return 1;
	case STX_OP_MAX_POOL2D:
	case STX_OP_AVG_POOL2D:
	case STX_OP_MAX_POOL2D_BACKWARD:
	case STX_OP_AVG_POOL2D_BACKWARD: return 2;
	default: return 3;
	}
}

static int is_backward(enum stx_op op)
{
	return op == STX_OP_AVG_POOL2D_BACKWARD || op == STX_OP_AVG_POOL3D_BACKWARD ||
	       op == STX_OP_MAX_POOL2D_BACKWARD || op == STX_OP_MAX_POOL3D_BACKWARD;
}

int stx__infer_is_pool(enum stx_op op)
{
	return (op >= STX_OP_MAX_POOL1D && op <= STX_OP_AVG_POOL3D) || is_backward(op);
}

static int is_max_pool(enum stx_op op)
{
	return op == STX_OP_MAX_POOL1D || op == STX_OP_MAX_POOL2D || op == STX_OP_MAX_POOL3D ||
	       op == STX_OP_MAX_POOL2D_BACKWARD || op == STX_OP_MAX_POOL3D_BACKWARD;
}

static stx_err pool_window(struct stx_graph *g, const struct stx_node *n, struct stx__window *w,
			   struct stx_diag *d)
{
	static const int64_t ones[STX__MAX_SPATIAL] = { 1, 1, 1 };
	/* a backward operator has grad_output in front */
	uint32_t at = is_backward(n->op), rank = stx__infer_type(n, at)->rank;
	int max = is_max_pool(n->op);
	w->k = pool_dims(n->op);
	if (rank != w->k + 1 && rank != w->k + 2)
		return STX__INFER_FAIL(d, n, "the operand has rank %u, not %u or %u", rank,
				       w->k + 1, w->k + 2);
	stx_err e = stx__infer_list(g, n, at + 1, w->k, 1, NULL, w->kernel, d);
	e = e ? e : stx__infer_list(g, n, at + 2, w->k, 1, w->kernel, w->stride, d);
	e = e ? e : stx__infer_list(g, n, at + 3, w->k, 0, NULL, w->padding, d);
	memcpy(w->dilation, ones, sizeof ones);
	if (!e && max)
		e = stx__infer_list(g, n, at + 4, w->k, 1, NULL, w->dilation, d);
	if (e)
		return e;
	w->ceil_mode = n->args[at + (max ? 5 : 4)].u.i != 0;
	w->include_pad = !max && n->args[at + 5].u.i;
	if (!max && n->nargs > at + 6 && n->args[at + 6].kind == STX_ARG_INT)
		e = stx__infer_const(g, n, n->args[at + 6].u.ex, -MOST, "divisor_override",
				     &w->divisor, d);
	if (!e && !max && n->nargs > at + 6 && n->args[at + 6].kind == STX_ARG_INT && !w->divisor)
		e = STX__INFER_FAIL(d, n, "divisor_override is 0");
	return e;
}

stx_err stx__infer_window(struct stx_graph *g, const struct stx_node *n, struct stx__window *w,
			  struct stx_diag *d)
{
	memset(w, 0, sizeof *w);
	return n->op == STX_OP_CONVOLUTION ? conv_window(g, n, w, d) : pool_window(g, n, w, d);
}

/* ---- convolution ---- */

/* Output size of spatial dimension i for input size in and kernel size k. */
static stx_ex conv_size(struct stx_graph *g, const struct stx__window *w, uint32_t i,
			int transposed, stx_ex in, stx_ex k)
{
	struct stx_exprs *x = g->ex;
	stx_ex reach =
		stx_ex_muli(x, stx_ex_addi(x, k, -1), w->dilation[i]); /* kernel extent - 1 */
	stx_ex s;
	if (transposed) {
		s = stx_ex_add(x, stx_ex_muli(x, stx_ex_addi(x, in, -1), w->stride[i]), reach);
		return stx_ex_addi(x, s, 1 - 2 * w->padding[i] + w->output_padding[i]);
	}
	s = stx_ex_addi(x, stx_ex_sub(x, in, reach), 2 * w->padding[i] - 1);
	if (stx_ex_interval(x, s).lo < 0)
		return STX_EX_BAD;
	return stx_ex_addi(x, stx_ex_floordiv(x, s, stx_ex_const(x, w->stride[i])), 1);
}

static stx_err conv_types(struct stx_graph *g, const struct stx_node *n, stx_ex out_channels,
			  struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0), *w = stx__infer_type(n, 1);
	if (x->dtype != w->dtype || x->dtype == STX_BOOL)
		return STX__INFER_FAIL(
			d, n, "input is %s, weight %s; they must be the same type, not bool",
			stx_dtype_name(x->dtype), stx_dtype_name(w->dtype));
	if (n->args[2].kind != STX_ARG_TENSOR)
		return 0;
	const struct stx_type *b = stx__infer_type(n, 2);
	(void)g;
	if (b->dtype != x->dtype || b->rank != 1 || b->sizes[0] != out_channels)
		return STX__INFER_FAIL(d, n, "bias must be [output channels] of the input's type");
	return 0;
}

stx_err stx_shape_convolution(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0), *w = stx__infer_type(n, 1);
	int transposed = n->args[6].u.i != 0;
	struct stx__window win;
	stx_ex sizes[STX_MAX_DIMS];
	stx_err e = stx__infer_window(g, n, &win, d);
	if (e)
		return e;
	stx_ex groups = stx_ex_const(g->ex, win.groups),
	       wide = stx_ex_mul(g->ex, w->sizes[1], groups);
	stx_ex in = transposed ? w->sizes[0] : wide, out = transposed ? wide : w->sizes[0];
	if (x->sizes[1] != in || !stx_ex_equals(g->ex, stx_ex_mod(g->ex, w->sizes[0], groups), 0))
		return STX__INFER_FAIL(
			d, n,
			"input %s and weight %s do not agree in their channels, or %lld groups do "
			"not divide them%s",
			stx__infer_shown(g, x), stx__infer_shown(g, w), (long long)win.groups,
			stx__infer_is_static(g, x->sizes, x->rank) &&
					stx__infer_is_static(g, w->sizes, w->rank)
				? ""
				: ", or that cannot be proved");
	e = conv_types(g, n, out, d);
	if (e)
		return e;
	sizes[0] = x->sizes[0];
	sizes[1] = out;
	for (uint32_t i = 0; i < win.k; i++) {
		if (stx_ex_interval(g->ex, w->sizes[2 + i]).lo < 1)
			return STX__INFER_FAIL(d, n, "the kernel may be empty");
		if (transposed && win.output_padding[i] >= win.stride[i] &&
		    win.output_padding[i] >= win.dilation[i])
			return STX__INFER_FAIL(
				d, n, "output_padding must be smaller than stride or dilation");
		sizes[2 + i] = conv_size(g, &win, i, transposed, x->sizes[2 + i], w->sizes[2 + i]);
		if (stx_ex_equals(g->ex, x->sizes[2 + i], 0))
			return STX__INFER_FAIL(d, n, "the input is empty in dimension %u", 2 + i);
		if (!sizes[2 + i] || stx_ex_interval(g->ex, sizes[2 + i]).lo < 1)
			return STX__INFER_FAIL(d, n, "the %s in dimension %u, or may be",
					       transposed ? "padding leaves nothing of the result"
							  : "kernel is larger than the padded "
							    "input",
					       2 + i);
	}
	return stx__infer_set(g, n, x->dtype, x->rank, sizes, d);
}

/* ---- pooling ---- */

/* Windows along one dimension: with ceil_mode also a last partial one, unless it would start in the
 * padding behind (B47). */
static int64_t windows(const struct stx__window *w, uint32_t i, int64_t in)
{
	int64_t reach = w->dilation[i] * (w->kernel[i] - 1) + 1;
	int64_t room = in + 2 * w->padding[i] - reach;
	int64_t out =
		room < 0 ? (w->ceil_mode && room > -w->stride[i] ? 1 : 0) : room / w->stride[i] + 1;
	if (room >= 0 && w->ceil_mode)
		out = (room + w->stride[i] - 1) / w->stride[i] + 1;
	if (w->ceil_mode && (out - 1) * w->stride[i] >= in + w->padding[i])
		out--;
	return out;
}

static stx_err pool_shape(struct stx_graph *g, const struct stx_node *n, stx_ex *sizes,
			  struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, is_backward(n->op));
	struct stx__window w;
	stx_err e = stx__infer_window(g, n, &w, d);
	if (e)
		return e;
	uint32_t lead = x->rank - w.k;
	memcpy(sizes, x->sizes, lead * sizeof *sizes);
	for (uint32_t i = 0; i < w.k; i++) {
		int64_t in;
		if (!stx_ex_is_const(g->ex, x->sizes[lead + i], &in))
			return stx_fail(d, STX_E_UNSUPPORTED, "infer", n->name,
					"pooling over a symbolic size");
		if (w.padding[i] > w.kernel[i] / 2)
			return STX__INFER_FAIL(d, n, "padding is more than half the kernel size");
		int64_t out = in ? windows(&w, i, in) : 0;
		if (out < 1)
			return STX__INFER_FAIL(d, n, "no window fits dimension %u", lead + i);
		sizes[lead + i] = stx_ex_const(g->ex, out);
	}
	return 0;
}

stx_err stx_shape_avg_pool(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_ex sizes[STX_MAX_DIMS];
	if (!stx_dtype_is_float(x->dtype))
		return STX__INFER_FAIL(d, n, "%s needs floating-point operands, not %s",
				       stx_op_info(n->op)->overload, stx_dtype_name(x->dtype));
	stx_err e = pool_shape(g, n, sizes, d);
	return e ? e : stx__infer_set(g, n, x->dtype, x->rank, sizes, d);
}

stx_err stx_shape_max_pool(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_ex sizes[STX_MAX_DIMS];
	if (x->dtype == STX_BOOL)
		return STX__INFER_FAIL(d, n, "%s does not accept bool operands",
				       stx_op_info(n->op)->overload);
	stx_err e = pool_shape(g, n, sizes, d);
	if (!e)
		e = stx__infer_set(g, n, x->dtype, x->rank, sizes, d);
	if (e)
		return e;
	return stx__infer_add(g, n, STX_I64, n->outs[0].rank, n->outs[0].sizes, d);
}

/* grad_output, and max pooling's indices, are of the pooling's result sizes. */
static stx_err pool_backward(struct stx_graph *g, struct stx_node *n,
			     const struct stx_type *indices, struct stx_diag *d)
{
	const struct stx_type *go = stx__infer_type(n, 0), *x = stx__infer_type(n, 1);
	stx_ex sizes[STX_MAX_DIMS];
	if (!stx_dtype_is_float(x->dtype))
		return STX__INFER_FAIL(d, n, "%s needs floating-point operands, not %s",
				       stx_op_info(n->op)->overload, stx_dtype_name(x->dtype));
	stx_err e = pool_shape(g, n, sizes, d);
	if (e)
		return e;
	struct stx_type want = { .dtype = x->dtype, .rank = x->rank, .sizes = sizes };
	if (!stx_type_eq(go, &want))
		return STX__INFER_FAIL(d, n, "grad_output is not of the pooling's result type");
	want.dtype = STX_I64;
	if (indices && !stx_type_eq(indices, &want))
		return STX__INFER_FAIL(d, n, "indices are not of the pooling's result type");
	return stx__infer_set(g, n, x->dtype, x->rank, x->sizes, d);
}

stx_err stx_shape_avg_backward(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	return pool_backward(g, n, NULL, d);
}

stx_err stx_shape_max_backward(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	return pool_backward(g, n, stx__infer_type(n, 7), d);
}

/* ---- unfold ---- */

stx_err stx_shape_unfold(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_ex sizes[STX_MAX_DIMS + 1], one = stx_ex_const(g->ex, 1);
	int64_t size, step;
	uint32_t dim;
	stx_err e = stx__infer_dim(g, n, n->args[1].u.ex, x->rank, &dim, d);
	e = e ? e : stx__infer_const(g, n, n->args[2].u.ex, 0, "size", &size, d);
	e = e ? e : stx__infer_const(g, n, n->args[3].u.ex, 1, "step", &step, d);
	if (e)
		return e;
	if (x->rank == STX_MAX_DIMS)
		return stx_fail(d, STX_E_TOO_LARGE, "infer", n->name, "more than %d dimensions",
				STX_MAX_DIMS);
	memcpy(sizes, x->sizes, x->rank * sizeof *sizes);
	stx_ex room = stx_ex_addi(g->ex, x->rank ? x->sizes[dim] : one, -size);
	if (stx_ex_interval(g->ex, room).lo < 0)
		return STX__INFER_FAIL(d, n, "size %lld is or may be larger than dimension %u",
				       (long long)size, dim);
	if (x->rank)
		sizes[dim] = stx_ex_addi(
			g->ex, stx_ex_floordiv(g->ex, room, stx_ex_const(g->ex, step)), 1);
	sizes[x->rank] = stx_ex_const(g->ex, size);
	return stx__infer_set(g, n, x->dtype, x->rank + 1u, sizes, d);
}

/* ---- scans ---- */

/* The operand becomes dtype=, or i64 when it is an integer, before it is added up. */
stx_err stx_shape_scan(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	enum stx_dtype t = stx_dtype_is_float(x->dtype) ? x->dtype : STX_I64;
	uint32_t dim;
	stx_err e = stx__infer_dim(g, n, n->args[1].u.ex, x->rank, &dim, d);
	if (e)
		return e;
	if (n->args[2].kind == STX_ARG_DTYPE)
		t = n->args[2].u.dtype;
	if (t == STX_BOOL)
		return STX__INFER_FAIL(d, n, "%s to bool", stx_op_info(n->op)->overload);
	return stx__infer_set(g, n, t, x->rank, x->sizes, d);
}
