/* infer_search.c: result types of searches in sorted sequences, of distances between rows, and of
 * running extremes. */
#include "infer.h"
#include "passes.h"

#include <string.h>

/* Shape of the operand; cummax and cummin give positions too. */
stx_err stx_shape_running(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	uint32_t dim;
	stx_err e = stx__infer_dim(g, n, n->args[1].u.ex, x->rank, &dim, d);
	if (!e && n->op == STX_OP_LOGCUMSUMEXP && !stx_dtype_is_float(x->dtype))
		e = STX__INFER_FAIL(d, n, "%s needs a floating-point operand",
				    stx_op_info(n->op)->overload);
	if (!e)
		e = stx__infer_set(g, n, x->dtype, x->rank, x->sizes, d);
	return e || n->op == STX_OP_LOGCUMSUMEXP
		       ? e
		       : stx__infer_add(g, n, STX_I64, x->rank, x->sizes, d);
}

/* Rows of the sequence match rows of the values; one row serves all. */
stx_err stx_shape_search(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	int bucketize = n->op == STX_OP_BUCKETIZE;
	const struct stx_type *s = stx__infer_type(n, (uint32_t)bucketize);
	const struct stx_type *v = stx__infer_type(n, (uint32_t)!bucketize);
	if (s->rank != 1 && (bucketize || s->rank != v->rank || !s->rank ||
			     memcmp(s->sizes, v->sizes, (s->rank - 1u) * sizeof *s->sizes)))
		return STX__INFER_FAIL(d, n, "the sequence must have rank 1%s",
				       bucketize ? ""
						 : ", or the values' shape but for the last size");
	if (stx_promote(s->dtype, v->dtype) == STX_DTYPE_NONE)
		return stx__infer_no_common(n, d);
	return stx__infer_set(g, n, n->args[2].u.i ? STX_I32 : STX_I64, v->rank, v->sizes, d);
}

static stx_err check_p(const struct stx_node *n, const struct stx_type *x, double p,
		       struct stx_diag *d)
{
	if (!stx_dtype_is_float(x->dtype))
		return STX__INFER_FAIL(d, n, "distances are of floating-point rows, not %s",
				       stx_dtype_name(x->dtype));
	return p >= 0 ? 0 : STX__INFER_FAIL(d, n, "p is %g; it must be 0 or more", p);
}

/* [.., P, M] and [.., R, M] to [.., P, R]; leading dimensions broadcast. */
stx_err stx_shape_cdist(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0), *y = stx__infer_type(n, 1);
	stx_ex sizes[STX_MAX_DIMS];
	stx_err e = check_p(n, x, n->args[2].u.f, d);
	if (e)
		return e;
	if (x->dtype != y->dtype || x->rank < 2 || x->rank != y->rank || x->rank >= STX_MAX_DIMS ||
	    x->sizes[x->rank - 1] != y->sizes[y->rank - 1] ||
	    memcmp(x->sizes, y->sizes, (x->rank - 2u) * sizeof *sizes))
		return STX__INFER_FAIL(
			d, n,
			"x1 and x2 must have one type and shape but for the last size "
			"but one");
	memcpy(sizes, x->sizes, x->rank * sizeof *sizes);
	sizes[x->rank - 1] = y->sizes[y->rank - 2];
	return stx__infer_set(g, n, x->dtype, x->rank, sizes, d);
}

/* [N, M] to N (N - 1) / 2: pairs in row-major order. */
stx_err stx_shape_pdist(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	int64_t rows = 0;
	stx_err e = check_p(n, x, n->args[1].u.f, d);
	if (e)
		return e;
	if (x->rank != 2 || !stx_ex_is_const(g->ex, x->sizes[0], &rows) || rows > 1 << 20)
		return STX__INFER_FAIL(d, n, "the operand must be [N, M], N at most 2^20");
	stx_ex size = stx_ex_const(g->ex, rows * (rows - 1) / 2);
	return stx__infer_set(g, n, x->dtype, 1, &size, d);
}

/* Sums, means or maxima of the rows of each bag; the bag of each index; indices counted in a bag;
 * the index of each maximum (means: the counts again). Sums leave the others 0, and the bags of
 * indices out where PyTorch's fast path does: it takes f32, f16 and bf16 without padding. */
stx_err stx_shape_embedding_bag(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *w = stx__infer_type(n, 0), *index = stx__infer_type(n, 1);
	const struct stx_type *offsets = stx__infer_type(n, 2);
	int64_t mode = -1, padding, count = 0;
	if (!stx_dtype_is_float(w->dtype) || w->rank != 2 || index->rank != 1 ||
	    offsets->rank != 1 || index->dtype != offsets->dtype ||
	    (index->dtype != STX_I64 && index->dtype != STX_I32))
		return STX__INFER_FAIL(
			d, n,
			"weight must be [rows, width] of floats, indices and offsets "
			"[n] of i32 or i64");
	if (!stx_ex_is_const(g->ex, n->args[4].u.ex, &mode) || mode < 0 || mode > 2 ||
	    !stx_ex_is_const(g->ex, n->args[8].u.ex, &padding))
		return STX__INFER_FAIL(d, n, "mode must be 0 (sum), 1 (mean) or 2 (max)");
	if (n->args[6].kind == STX_ARG_TENSOR) {
		const struct stx_type *s = stx__infer_type(n, 6);
		if (mode != 0 || s->rank != 1 || s->sizes[0] != index->sizes[0] ||
		    s->dtype != w->dtype)
			return STX__INFER_FAIL(
				d, n,
				"per_sample_weights are for sums, one for each index, "
				"of the weight's type");
	}
	int is_fast = mode == 0 && padding < 0 &&
		      (w->dtype == STX_F32 || w->dtype == STX_F16 || w->dtype == STX_BF16);
	stx_ex bags = offsets->sizes[0];
	if (n->args[7].u.i && (!stx_ex_is_const(g->ex, bags, &count) || count < 1))
		return STX__INFER_FAIL(d, n, "include_last_offset needs an offset");
	bags = stx_ex_addi(g->ex, bags, n->args[7].u.i ? -1 : 0);
	const stx_ex sizes[2] = { bags, w->sizes[1] }, none = stx_ex_const(g->ex, 0);
	stx_err e = stx__infer_set(g, n, w->dtype, 2, sizes, d);
	if (!e)
		e = stx__infer_add(g, n, index->dtype, 1, is_fast ? &none : &index->sizes[0], d);
	if (!e)
		e = stx__infer_add(g, n, index->dtype, 1, &bags, d);
	e = e ? e : stx__infer_add(g, n, index->dtype, mode == 2 ? 2 : 1, sizes, d);
	return e ? e : stx__infer_indexed(g, n, w, 1, index, d);
}
