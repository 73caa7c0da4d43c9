/* infer_resample.c: result types of padding with the operand's own elements and of resampling. */
#include <math.h>
#include <string.h>

#include "infer.h"

/* ---- padding ---- */

static uint32_t padded_dims(enum stx_op op)
{
	return 1 + (uint32_t)(op - STX_OP_REFLECTION_PAD1D) % 3;
}

/* Negative padding crops. A reflection needs the elements it mirrors, any padding at least one. */
stx_err stx_shape_pad_own(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	const struct stx_arg *p = &n->args[1];
	uint32_t k = padded_dims(n->op);
	int64_t v[2], reflect = n->op <= STX_OP_REFLECTION_PAD3D;
	stx_ex sizes[STX_MAX_DIMS];
	if (x->rank != k + 1 && x->rank != k + 2)
		return STX__INFER_FAIL(d, n, "the operand has rank %u, not %u or %u", x->rank,
				       k + 1, k + 2);
	if (p->n != 2 * k)
		return STX__INFER_FAIL(d, n, "%u pad values for %u dimensions: two for each", p->n,
				       k);
	memcpy(sizes, x->sizes, x->rank * sizeof *sizes);
	for (uint32_t i = 0; i < k; i++) {
		uint32_t dim = x->rank - 1 - i;
		for (uint32_t j = 0; j < 2; j++) {
			stx_err e = stx__infer_const(g, n, p->u.exs[2 * i + j], INT32_MIN,
						     "padding", &v[j], d);
			if (e)
				return e;
			if (reflect && v[j] > 0 && stx_ex_interval(g->ex, x->sizes[dim]).lo <= v[j])
				return STX__INFER_FAIL(
					d, n,
					"padding %lld is not, or may not be, smaller "
					"than dimension %u",
					(long long)v[j], dim);
		}
		sizes[dim] = stx_ex_addi(g->ex, sizes[dim], v[0] + v[1]);
		if (stx_ex_interval(g->ex, sizes[dim]).lo < 1 ||
		    stx_ex_interval(g->ex, x->sizes[dim]).lo < 1)
			return STX__INFER_FAIL(d, n, "dimension %u is or may be empty", dim);
	}
	return stx__infer_set(g, n, x->dtype, x->rank, sizes, d);
}

/* ---- resampling ---- */

static void mode_of(enum stx_op op, struct stx__upsampling *u)
{
	static const struct {
		uint8_t op, k, mode;
	} modes[] = {
		{ STX_OP_NEAREST1D - STX_OP_NEAREST1D, 1, STX__NEAREST },
		{ STX_OP_NEAREST2D - STX_OP_NEAREST1D, 2, STX__NEAREST },
		{ STX_OP_NEAREST3D - STX_OP_NEAREST1D, 3, STX__NEAREST },
		{ STX_OP_NEAREST_EXACT1D - STX_OP_NEAREST1D, 1, STX__NEAREST_EXACT },
		{ STX_OP_NEAREST_EXACT2D - STX_OP_NEAREST1D, 2, STX__NEAREST_EXACT },
		{ STX_OP_NEAREST_EXACT3D - STX_OP_NEAREST1D, 3, STX__NEAREST_EXACT },
		{ STX_OP_LINEAR1D - STX_OP_NEAREST1D, 1, STX__LINEAR },
		{ STX_OP_BILINEAR2D - STX_OP_NEAREST1D, 2, STX__LINEAR },
		{ STX_OP_TRILINEAR3D - STX_OP_NEAREST1D, 3, STX__LINEAR },
		{ STX_OP_BICUBIC2D - STX_OP_NEAREST1D, 2, STX__CUBIC },
	};
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
		if (modes[i].op == op - STX_OP_NEAREST1D) {
			u->k = modes[i].k;
			u->mode = modes[i].mode;
		}
}

/* The sizes asked for, or floor(size * factor). */
static stx_err result_sizes(struct stx_graph *g, const struct stx_node *n,
			    struct stx__upsampling *u, struct stx_diag *d)
{
	const struct stx_arg *size = &n->args[1], *factor = &n->args[n->nargs - 1];
	int by_size = size->kind == STX_ARG_INTS, by_factor = factor->kind == STX_ARG_FLOATS;
	if (by_size == by_factor)
		return STX__INFER_FAIL(d, n, "give either output_size or scale_factors");
	if ((by_size ? size->n : factor->n) != u->k)
		return STX__INFER_FAIL(d, n, "%u %s for %u dimensions",
				       by_size ? size->n : factor->n,
				       by_size ? "sizes" : "scale factors", u->k);
	for (uint32_t i = 0; i < u->k; i++) {
		if (by_size) {
			stx_err e = stx__infer_const(g, n, size->u.exs[i], 1, "output_size",
						     &u->out[i], d);
			if (e)
				return e;
			continue;
		}
		double f = factor->u.fs[i], out = floor((double)u->in[i] * f);
		if (!(f > 0 && out >= 1 && out <= INT32_MAX))
			return STX__INFER_FAIL(d, n,
					       "scale factor %g makes %lld elements to none or too "
					       "many",
					       f, (long long)u->in[i]);
		u->scale[i] = f;
		u->out[i] = (int64_t)out;
	}
	return 0;
}

stx_err stx__infer_upsampling(struct stx_graph *g, const struct stx_node *n,
			      struct stx__upsampling *u, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	memset(u, 0, sizeof *u);
	mode_of(n->op, u);
	u->align_corners = n->nargs == 4 && n->args[2].u.i;
	if (x->rank != u->k + 2)
		return STX__INFER_FAIL(d, n, "the operand has rank %u, not %u", x->rank, u->k + 2);
	if (u->mode >= STX__LINEAR && !stx_dtype_is_float(x->dtype))
		return STX__INFER_FAIL(d, n, "%s needs floating-point operands, not %s",
				       stx_op_info(n->op)->overload, stx_dtype_name(x->dtype));
	for (uint32_t i = 0; i < u->k; i++) {
		if (!stx_ex_is_const(g->ex, x->sizes[2 + i], &u->in[i]))
			return stx_fail(d, STX_E_UNSUPPORTED, "infer", n->name,
					"resampling of a symbolic size");
		if (u->in[i] < 1 || u->in[i] > INT32_MAX)
			return STX__INFER_FAIL(d, n, "dimension %u has %lld elements", 2 + i,
					       (long long)u->in[i]);
	}
	return result_sizes(g, n, u, d);
}

stx_err stx_shape_upsample(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	struct stx__upsampling u;
	stx_ex sizes[STX_MAX_DIMS];
	stx_err e = stx__infer_upsampling(g, n, &u, d);
	if (e)
		return e;
	memcpy(sizes, x->sizes, 2 * sizeof *sizes);
	for (uint32_t i = 0; i < u.k; i++)
		sizes[2 + i] = stx_ex_const(g->ex, u.out[i]);
	return stx__infer_set(g, n, x->dtype, x->rank, sizes, d);
}

stx_err stx_shape_resample(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0), *index = stx__infer_type(n, 2);
	const struct stx_type *w = n->args[3].kind == STX_ARG_TENSOR ? stx__infer_type(n, 3) : NULL;
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t dim;
	int64_t taps;
	stx_err e = stx__infer_dim(g, n, n->args[1].u.ex, x->rank, &dim, d);
	if (e)
		return e;
	if (!x->rank || x->dtype == STX_BOOL)
		return STX__INFER_FAIL(d, n, "the operand must have dimensions and not be bool");
	if ((index->dtype != STX_I64 && index->dtype != STX_I32) || index->rank != 2)
		return STX__INFER_FAIL(d, n, "index must be [terms, size] of i32 or i64");
	if (!stx_ex_is_const(g->ex, index->sizes[0], &taps) || taps < 1)
		return STX__INFER_FAIL(d, n, "index has no terms, or their number is symbolic");
	if (w && (!stx_dtype_is_float(x->dtype) || !stx_dtype_is_float(w->dtype) || w->rank != 2 ||
		  w->sizes[0] != index->sizes[0] || w->sizes[1] != index->sizes[1]))
		return STX__INFER_FAIL(
			d, n, "weight and operand must be floats, the weight of the index's sizes");
	if (stx_ex_interval(g->ex, x->sizes[dim]).lo < 1)
		return STX__INFER_FAIL(d, n, "dimension %u is or may be empty", dim);
	memcpy(sizes, x->sizes, x->rank * sizeof *sizes);
	sizes[dim] = index->sizes[1];
	return stx__infer_set(g, n, x->dtype, x->rank, sizes, d);
}
