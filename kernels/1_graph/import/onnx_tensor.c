/* onnx_tensor.c: tensor payloads of ONNX (onnx.proto, TensorProto). */
#include "onnx_import.h"

#include <string.h>

int onnx_tensor_has_data(const Onnx__TensorProto *t)
{
	return (t->has_raw_data && t->raw_data.len) || t->n_float_data || t->n_int32_data ||
	       t->n_int64_data || t->n_double_data || t->n_uint64_data;
}

/* Typed arrays carry narrow types widened: int32_data holds bool, 8 and 16 bit integers and half
 * floats. */
static int typed_element(const Onnx__TensorProto *t, enum stx_dtype dtype, size_t i, uint8_t *out)
{
	uint64_t v;
	switch (dtype) {
	case STX_F32:
		if (i >= t->n_float_data)
			return 0;
		memcpy(out, &t->float_data[i], 4);
		return 1;
	case STX_F64:
		if (i >= t->n_double_data)
			return 0;
		memcpy(out, &t->double_data[i], 8);
		return 1;
	case STX_I64:
		if (i >= t->n_int64_data)
			return 0;
		memcpy(out, &t->int64_data[i], 8);
		return 1;
	case STX_U64:
	case STX_U32:
		if (i >= t->n_uint64_data)
			return 0;
		v = t->uint64_data[i];
		break;
	default:
		if (i >= t->n_int32_data)
			return 0;
		v = (uint64_t)(int64_t)t->int32_data[i];
		if (dtype == STX_BOOL)
			v = v != 0;
		break;
	}
	memcpy(out, &v, (size_t)stx_dtype_bytes(dtype));
	return 1;
}

stx_err onnx_tensor_bytes(struct onnx *c, const Onnx__TensorProto *t, enum stx_dtype *dtype,
			  int *rank, int64_t *sizes, const uint8_t **bytes, size_t *n)
{
	const char *name = t->name ? t->name : "";
	int64_t count = 1;
	*dtype = stx_onnx_dtype(t->data_type);
	if (*dtype == STX_DTYPE_NONE)
		return onnx_fail(c, STX_E_UNSUPPORTED,
				 "tensor '%s' has element type %s, which is not supported", name,
				 stx_onnx_type_name(t->data_type));
	if (t->n_dims > STX_MAX_DIMS)
		return onnx_fail(c, STX_E_TOO_LARGE, "tensor '%s' has rank %zu; the limit is %d",
				 name, t->n_dims, STX_MAX_DIMS);
	*rank = (int)t->n_dims;
	for (int i = 0; i < *rank; i++) {
		sizes[i] = t->dims[i];
		if (sizes[i] < 0 || __builtin_mul_overflow(count, sizes[i], &count))
			return onnx_fail(c, STX_E_INVALID, "tensor '%s' has an impossible shape",
					 name);
	}
	if (__builtin_mul_overflow((size_t)count, (size_t)stx_dtype_bytes(*dtype), n))
		return onnx_fail(c, STX_E_TOO_LARGE, "tensor '%s' is too large", name);
	if (t->has_data_location && t->data_location == 1)
		return onnx_fail(c, STX_E_INVALID,
				 "tensor '%s' has external data; the client must load it (stax "
				 "compile does)",
				 name);
	if (t->has_raw_data) {
		if (t->raw_data.len != *n)
			return onnx_fail(c, STX_E_INVALID,
					 "tensor '%s' has %zu bytes of data, its shape needs %zu",
					 name, t->raw_data.len, *n);
		*bytes = t->raw_data.data;
		return STX_E_OK;
	}
	if ((size_t)count > t->n_float_data + t->n_double_data + t->n_int32_data + t->n_int64_data +
				    t->n_uint64_data)
		return onnx_fail(c, STX_E_INVALID, "tensor '%s' has fewer elements than its shape",
				 name);
	uint8_t *out = stx_arena_alloc(c->arena, *n);
	if (!out)
		return onnx_fail(c, STX_E_TOO_LARGE, "tensor '%s' is over the memory budget", name);
	for (int64_t i = 0; i < count; i++)
		if (!typed_element(t, *dtype, (size_t)i,
				   out + (size_t)i * (size_t)stx_dtype_bytes(*dtype)))
			return onnx_fail(c, STX_E_INVALID,
					 "tensor '%s' has fewer elements than its shape", name);
	*bytes = out;
	return STX_E_OK;
}
