/* onnx_contract.c: matrix products. */
#include "onnx_import.h"

#include <string.h>

static stx_err map_matmul(struct onnx *c, V *out)
{
	out[0] = onnx_matmul(c, onnx_in(c, 0), onnx_in(c, 1));
	return c->err;
}

static stx_err map_gemm(struct onnx *c, V *out)
{
	V a = onnx_in(c, 0), b = onnx_in(c, 1), bias = onnx_opt(c, 2);
	double alpha = onnx_float(c, "alpha", 1), beta = onnx_float(c, "beta", 1);
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
		y = onnx_add(c, y, bias);
	}
	out[0] = y;
	return c->err;
}

const struct onnx_mapping onnx_contract_map[] = {
	{ "MatMul", map_matmul, 0 },
	{ "Gemm", map_gemm, 0 },
	{ NULL, NULL, 0 },
};
