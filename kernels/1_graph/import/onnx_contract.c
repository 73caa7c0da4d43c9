/* onnx_contract.c: matrix products. */
#include "onnx_import.h"

#include <math.h>

static stx_err map_matmul(struct onnx *c, V *out)
{
	out[0] = onnx_matmul(c, onnx_in(c, 0), onnx_in(c, 1));
	return c->err;
}

static stx_err map_gemm(struct onnx *c, V *out)
{
	V a = onnx_in(c, 0), b = onnx_in(c, 1), bias = onnx_opt(c, 2);
	double alpha = onnx_float(c, "alpha", 1), beta = onnx_float(c, "beta", 1);
	if (!c->err && !onnx_is_float(a) && (alpha != floor(alpha) || beta != floor(beta)))
		return onnx_unsupported_attr(c, "alpha or beta", "a fraction, of integers,");
	if (onnx_int(c, "transA", 0))
		a = onnx_swap_last(c, a);
	if (onnx_int(c, "transB", 0))
		b = onnx_swap_last(c, b);
	V y = onnx_2(c, STX_OP_MM, a, b);
	if (alpha != 1)
		y = onnx_mul(c, y, onnx_number(c, alpha, onnx_dtype(y)));
	if (bias.node) {
		if (beta != 1)
			bias = onnx_mul(c, bias, onnx_number(c, beta, onnx_dtype(bias)));
		V sum = onnx_add(c, y, bias);
		if (onnx_keeps_sizes(c, sum, y, "C"))
			return c->err;
		y = sum;
	}
	out[0] = y;
	return c->err;
}

/* ---- determinant ---- */

#define DET_MAX 128 /* unrolled: a few nodes a row */

static V narrow(struct onnx *c, V a, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
	return onnx_slice(c, onnx_slice(c, a, 1, row, row + rows, 1), 2, column, column + columns,
			  1);
}

/* One step of elimination with partial pivoting on [batch, n, n]: the pivot, with its sign, [batch,
 * 1, 1]; *a becomes what is left, [batch, n - 1, n - 1]. A pivot of 0 leaves the determinant 0. */
static V eliminate(struct onnx *c, V *a, int64_t n)
{
	int64_t column[3] = { 1, n, 1 }, all[3] = { onnx_dim(c, *a, 0), n, n };
	V size = onnx_1(c, STX_OP_ABS, narrow(c, *a, 0, n, 0, 1));
	if (c->err)
		return NO_V;
	struct stx_arg best[3] = { stx_arg_tensor(size), stx_arg_int(c->g, 1), stx_arg_bool(1) };
	V p = onnx_call(c, STX_OP_ARGMAX, best, 3), zero = onnx_number(c, 0, STX_I64);
	V i = onnx_view(c, onnx_arange(c, 0, n, 1, STX_I64), column, 3);
	V from =
		onnx_where(c, onnx_2(c, STX_OP_EQ, i, p), zero, i); /* rows 0 and p change places */
	from = onnx_where(c, onnx_2(c, STX_OP_EQ, i, zero), p, from);
	V index = onnx_expand(c, from, all, 3);
	if (c->err)
		return NO_V;
	struct stx_arg g[3] = { stx_arg_tensor(*a), stx_arg_int(c->g, 1), stx_arg_tensor(index) };
	V m = onnx_call(c, STX_OP_GATHER, g, 3), pivot = narrow(c, m, 0, 1, 0, 1);
	V none = onnx_number(c, 0, onnx_dtype(m)), one = onnx_number(c, 1, onnx_dtype(m));
	V by = onnx_where(c, onnx_2(c, STX_OP_EQ, pivot, none), one, pivot);
	V factor = onnx_2(c, STX_OP_DIV, narrow(c, m, 1, n - 1, 0, 1), by);
	*a = onnx_sub(c, narrow(c, m, 1, n - 1, 1, n - 1),
		      onnx_mul(c, factor, narrow(c, m, 0, 1, 1, n - 1)));
	V minus = onnx_1(c, STX_OP_NEG, pivot);
	return onnx_where(c, onnx_2(c, STX_OP_EQ, p, zero), pivot, minus);
}

static stx_err map_det(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t s[STX_MAX_DIMS];
	int rank = onnx_sizes(c, x, s);
	enum stx_dtype t = onnx_dtype(x), w = stx_dtype_bytes(t) < 4 ? STX_F32 : t;
	if (c->err)
		return c->err;
	if (rank < 2 || s[rank - 1] != s[rank - 2] || !onnx_is_float(x))
		return onnx_fail(c, STX_E_INVALID, "the input must hold square matrices of floats");
	int64_t n = s[rank - 1], flat[3] = { onnx_product(s, 0, rank - 2), n, n };
	if (n > DET_MAX)
		return onnx_fail(c, STX_E_UNSUPPORTED, "operator Det: matrices above %d by %d",
				 DET_MAX, DET_MAX);
	V a = onnx_view(c, onnx_cast(c, x, w), flat, 3), det = onnx_full(c, s, rank - 2, 1, w);
	for (int64_t k = n; k > 0 && !c->err; k--) {
		V pivot = k > 1 ? eliminate(c, &a, k) : a;
		det = onnx_mul(c, det, onnx_view(c, pivot, s, rank - 2));
	}
	out[0] = onnx_cast(c, det, t);
	return c->err;
}

const struct onnx_mapping onnx_contract_map[] = {
	{ "Det", map_det, 0 },
	{ "MatMul", map_matmul, 0 },
	{ "Gemm", map_gemm, 0 },
	{ NULL, NULL, 0 },
};
