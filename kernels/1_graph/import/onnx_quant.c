/* onnx_quant.c: quantisation to 8 and 16 bit integers and to 8 bit floats. */
#include "onnx_import.h"

#include <math.h>
#include <string.h>

/* A scale or zero point shaped to broadcast against x: one number, [C] along `axis`, or, with
 * block_size, one a block of that many elements along `axis`. */
static V along_axis(struct onnx *c, V v, V x)
{
	int64_t s[STX_MAX_DIMS], vs[STX_MAX_DIMS], block = onnx_int(c, "block_size", 0);
	int rank = onnx_rank(x), vrank = onnx_sizes(c, v, vs);
	if (c->err || vrank == 0)
		return v;
	if (vrank == 1 && vs[0] == 1)
		return onnx_view(c, v, NULL, 0);
	int axis = onnx_axis(c, onnx_int(c, "axis", 1), rank);
	onnx_sizes(c, x, s);
	if (vrank == 1 && !block) {
		for (int i = 0; i < rank; i++)
			s[i] = i == axis ? vs[0] : 1;
		return onnx_view(c, v, s, rank);
	}
	int ok = vrank == rank && block > 0 && vs[axis] == (s[axis] + block - 1) / block &&
		 rank < STX_MAX_DIMS;
	for (int i = 0; i < rank && ok; i++)
		ok = i == axis || vs[i] == s[i];
	if (!ok) {
		onnx_fail(c, STX_E_INVALID,
			  "a scale or zero point does not fit blocks of %lld along axis %d",
			  (long long)block, axis);
		return NO_V;
	}
	int64_t wide[STX_MAX_DIMS];
	memcpy(wide, vs, sizeof wide);
	memmove(wide + axis + 2, wide + axis + 1, (size_t)(rank - axis - 1) * sizeof *wide);
	wide[axis + 1] = block;
	v = onnx_expand(c, onnx_unsqueeze(c, v, axis + 1), wide, rank + 1);
	vs[axis] = onnx_times(vs[axis], block);
	return onnx_slice(c, onnx_view(c, v, vs, rank), axis, 0, s[axis], 1);
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

/* x / scale, rounded to its type and then to an integer, plus the zero point, in [lo, hi]. */
static V quantize(struct onnx *c, V x, V scale, V zero, double lo, double hi)
{
	V q = onnx_1(c, STX_OP_ROUND, onnx_2(c, STX_OP_DIV, x, scale));
	enum stx_dtype t = onnx_dtype(q) == STX_F64 ? STX_F64 : STX_F32;
	q = onnx_cast(c, q, t);
	if (zero.node)
		q = onnx_add(c, q, onnx_cast(c, zero, t));
	q = onnx_2(c, STX_OP_MAXIMUM, q, onnx_number(c, lo, t));
	return onnx_2(c, STX_OP_MINIMUM, q, onnx_number(c, hi, t));
}

static stx_err map_quantize(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), scale = onnx_in(c, 1), zero = onnx_opt(c, 2);
	int64_t to = onnx_int(c, "output_dtype", 0), precision = onnx_int(c, "precision", 0);
	enum stx_dtype t = zero.node ? onnx_dtype(zero) : to ? stx_onnx_dtype((int)to) : STX_U8;
	enum stx_dtype wide = precision ? stx_onnx_dtype((int)precision) : onnx_dtype(scale);
	double lo, hi;
	if (c->err)
		return c->err;
	if (wide == STX_DTYPE_NONE || !stx_dtype_is_float(wide))
		return onnx_unsupported_attr(c, "precision", stx_onnx_type_name((int)precision));
	V v = onnx_cast(c, x, wide), s = onnx_cast(c, along_axis(c, scale, x), wide);
	if (quant_range(t, &lo, &hi)) {
		V z = zero.node ? along_axis(c, zero, x) : NO_V;
		out[0] = onnx_cast(c, quantize(c, v, s, z, lo, hi), t);
	} else if (t != STX_DTYPE_NONE && stx_dtype_is_float(t) && stx_dtype_bytes(t) == 1) {
		/* an 8-bit float's zero point is 0 */
		out[0] = onnx_saturating_cast(c, onnx_2(c, STX_OP_DIV, v, s), t);
	} else {
		onnx_fail(c, STX_E_UNSUPPORTED, "operator QuantizeLinear: element type %s",
			  t == STX_DTYPE_NONE ? stx_onnx_type_name((int)to) : stx_dtype_name(t));
	}
	return c->err;
}

static stx_err map_dequantize(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), scale = onnx_in(c, 1), zero = onnx_opt(c, 2), v;
	int64_t to = onnx_int(c, "output_dtype", 0);
	enum stx_dtype t = to ? stx_onnx_dtype((int)to) : onnx_dtype(scale);
	if (c->err)
		return c->err;
	if (t == STX_DTYPE_NONE || !stx_dtype_is_float(t))
		return onnx_unsupported_attr(c, "output_dtype", stx_onnx_type_name((int)to));
	if (onnx_is_float(x)) {
		v = onnx_cast(c, x, STX_F32);
	} else {
		v = onnx_cast(c, x, STX_I32);
		if (zero.node)
			v = onnx_sub(c, v, onnx_cast(c, along_axis(c, zero, x), STX_I32));
		v = onnx_cast(c, v, STX_F32);
	}
	V s = onnx_cast(c, along_axis(c, scale, x), STX_F32);
	out[0] = onnx_cast(c, onnx_mul(c, v, s), t);
	return c->err;
}

/* The scale and zero point that take [min(x, 0), max(x, 0)] to 0..255. */
static stx_err map_dynamic_quantize(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t dims[STX_MAX_DIMS];
	int rank = onnx_rank(x);
	for (int i = 0; i < rank; i++)
		dims[i] = i;
	V zero = onnx_number(c, 0, STX_F32), steps = onnx_number(c, 255, STX_F32);
	V hi = onnx_2(c, STX_OP_MAXIMUM, onnx_reduce(c, STX_OP_AMAX, x, dims, rank, 0), zero);
	V lo = onnx_2(c, STX_OP_MINIMUM, onnx_reduce(c, STX_OP_AMIN, x, dims, rank, 0), zero);
	V range = onnx_sub(c, hi, lo);
	range = onnx_where(c, onnx_2(c, STX_OP_EQ, hi, lo), onnx_number(c, 1, STX_F32), range);
	V scale = onnx_2(c, STX_OP_DIV, range, steps);
	V point = onnx_sub(c, zero, onnx_2(c, STX_OP_DIV, lo, scale));
	point = onnx_2(c, STX_OP_MINIMUM, onnx_2(c, STX_OP_MAXIMUM, point, zero), steps);
	point = onnx_1(c, STX_OP_ROUND, point);
	out[0] = onnx_cast(c, quantize(c, x, scale, point, 0, 255), STX_U8);
	out[1] = scale;
	out[2] = onnx_cast(c, point, STX_U8);
	return c->err;
}

const struct onnx_mapping onnx_quant_map[] = {
	{ "QuantizeLinear", map_quantize, 0 },
	{ "DequantizeLinear", map_dequantize, 0 },
	{ "DynamicQuantizeLinear", map_dynamic_quantize, 0 },
	{ NULL, NULL, 0 },
};
