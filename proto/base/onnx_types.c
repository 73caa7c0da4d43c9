/* onnx_types.c: ONNX's numbers for element types (TensorProto.DataType), fixed by its schema. */
#include "onnx_types.h"

#include <strings.h>

#define FLOAT_VALUE_BYTES 64 /* larger ones are parameters */
#define OTHER_VALUE_BYTES 4096

static const struct {
	const char *name;
	enum stx_dtype dtype;
} types[] = {
	[0] = { "undefined", STX_DTYPE_NONE },
	[1] = { "float", STX_F32 },
	[2] = { "uint8", STX_U8 },
	[3] = { "int8", STX_I8 },
	[4] = { "uint16", STX_U16 },
	[5] = { "int16", STX_I16 },
	[6] = { "int32", STX_I32 },
	[7] = { "int64", STX_I64 },
	[8] = { "string", STX_DTYPE_NONE },
	[9] = { "bool", STX_BOOL },
	[10] = { "float16", STX_F16 },
	[11] = { "double", STX_F64 },
	[12] = { "uint32", STX_U32 },
	[13] = { "uint64", STX_U64 },
	[14] = { "complex64", STX_DTYPE_NONE },
	[15] = { "complex128", STX_DTYPE_NONE },
	[16] = { "bfloat16", STX_BF16 },
	[17] = { "float8e4m3fn", STX_F8E4M3FN },
	[18] = { "float8e4m3fnuz", STX_F8E4M3FNUZ },
	[19] = { "float8e5m2", STX_F8E5M2 },
	[20] = { "float8e5m2fnuz", STX_F8E5M2FNUZ },
	[21] = { "uint4", STX_DTYPE_NONE },
	[22] = { "int4", STX_DTYPE_NONE },
	[23] = { "float4e2m1", STX_DTYPE_NONE },
	[24] = { "float8e8m0", STX_DTYPE_NONE },
	[25] = { "uint2", STX_DTYPE_NONE },
	[26] = { "int2", STX_DTYPE_NONE },
};

static int is_known(int number)
{
	return number >= 0 && number < (int)(sizeof types / sizeof *types);
}

const char *stx_onnx_type_name(int number)
{
	return is_known(number) ? types[number].name : "unknown";
}

enum stx_dtype stx_onnx_dtype(int number)
{
	return is_known(number) ? types[number].dtype : STX_DTYPE_NONE;
}

int stx_onnx_is_parameter(enum stx_dtype t, uint64_t elements)
{
	uint64_t limit = stx_dtype_is_float(t) ? FLOAT_VALUE_BYTES : OTHER_VALUE_BYTES;
	return t != STX_DTYPE_NONE && elements > limit / (uint64_t)stx_dtype_bytes(t);
}

enum stx_dtype stx_onnx_dtype_named(const char *name)
{
	for (unsigned i = 1; i < sizeof types / sizeof *types; i++)
		if (!strcasecmp(types[i].name, name))
			return types[i].dtype;
	return STX_DTYPE_NONE;
}
