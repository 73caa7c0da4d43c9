/* onnx_quant.c: quantisation to 8 and 16 bit integers and to 8 bit floats. */
#include "onnx_import.h"

#include <math.h>
#include <string.h>

/* ---- quantisation to 8 and 16 bit integers ---- */

/* A scale or zero point [C] along `axis`, or a single number, shaped to broadcast against x. */
static V along_axis(struct onnx *c, V v, V x)
{
	int64_t s[STX_MAX_DIMS];
	int rank = onnx_rank(x);
	if (c->err || onnx_rank(v) == 0)
		return v;
	if (onnx_rank(v) != 1) {
		onnx_unsupported_attr(c, "block_size", "a blocked scale");
		return NO_V;
	}
	if (onnx_dim(c, v, 0) == 1)
		return onnx_view(c, v, NULL, 0);
	int axis = onnx_axis(c, onnx_int(c, "axis", 1), rank);
	for (int i = 0; i < rank; i++)
		s[i] = i == axis ? onnx_dim(c, v, 0) : 1;
	return onnx_view(c, v, s, rank);
}

static int quant_range(enum stx_dtype t, double *lo, double *hi)
{
	switch (t) {
	case STX_U8:
		*lo = 0;
		*hi = 255;
		return 1;
	case STX_I8:
		*lo = -128;
		*hi = 127;
		return 1;
	case STX_U16:
		*lo = 0;
		*hi = 65535;
		return 1;
	case STX_I16:
		*lo = -32768;
		*hi = 32767;
		return 1;
	default: return 0;
	}
}

static stx_err map_quantize(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), scale = onnx_in(c, 1), zero = onnx_opt(c, 2);
	int64_t to = onnx_int(c, "output_dtype", 0);
	enum stx_dtype t = zero.node ? onnx_dtype(zero) : to ? stx_onnx_dtype((int)to) : STX_U8;
	double lo, hi;
	if (c->err)
		return c->err;
	if (!quant_range(t, &lo, &hi))
		return onnx_fail(c, STX_E_UNSUPPORTED, "operator QuantizeLinear: element type %s",
				 t == STX_DTYPE_NONE ? stx_onnx_type_name((int)to)
						     : stx_dtype_name(t));
	V v = onnx_cast(c, x, STX_F32);
	V q = onnx_2(c, STX_OP_DIV, v, onnx_cast(c, along_axis(c, scale, x), STX_F32));
	q = onnx_1(c, STX_OP_ROUND, q);
	if (zero.node)
		q = onnx_add(c, q, onnx_cast(c, along_axis(c, zero, x), STX_F32));
	q = onnx_2(c, STX_OP_MAXIMUM, q, onnx_number(c, lo, STX_F32));
	q = onnx_2(c, STX_OP_MINIMUM, q, onnx_number(c, hi, STX_F32));
	out[0] = onnx_cast(c, q, t);
	return c->err;
}

static stx_err map_dequantize(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), scale = onnx_in(c, 1), zero = onnx_opt(c, 2);
	if (c->err)
		return c->err;
	if (onnx_is_float(x))
		return onnx_fail(c, STX_E_UNSUPPORTED, "operator DequantizeLinear: element type %s",
				 stx_dtype_name(onnx_dtype(x)));
	V v = onnx_cast(c, x, STX_I32);
	if (zero.node)
		v = onnx_sub(c, v, onnx_cast(c, along_axis(c, zero, x), STX_I32));
	V s = along_axis(c, scale, x);
	out[0] = onnx_cast(c, onnx_mul(c, onnx_cast(c, v, STX_F32), onnx_cast(c, s, STX_F32)),
			   onnx_dtype(scale));
	return c->err;
}

const struct onnx_mapping onnx_quant_map[] = {
	{ "QuantizeLinear", map_quantize, 0 },
	{ "DequantizeLinear", map_dequantize, 0 },
	{ NULL, NULL, 0 },
};
