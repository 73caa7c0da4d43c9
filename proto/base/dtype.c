/* dtype.c: properties of element types. */
#include "dtype.h"

#include <string.h>

#include "stax_abi.h"

static const struct {
	const char *text;
	int bytes;
	enum stx_dtype_kind kind;
} types[] = {
#define STX_DTYPE(name, text, bytes, kind) { text, bytes, STX_KIND_##kind },
#include "dtype.def"
#undef STX_DTYPE
};

const char *stx_dtype_name(enum stx_dtype t)
{
	return t < STX_DTYPE_COUNT ? types[t].text : "none";
}

int stx_dtype_bytes(enum stx_dtype t)
{
	return t < STX_DTYPE_COUNT ? types[t].bytes : 0;
}

enum stx_dtype_kind stx_dtype_kind(enum stx_dtype t)
{
	return t < STX_DTYPE_COUNT ? types[t].kind : STX_KIND_BOOL;
}

enum stx_dtype stx_dtype_parse(const char *text, int n)
{
	for (int t = 0; t < STX_DTYPE_COUNT; t++)
		if ((int)strlen(types[t].text) == n && !memcmp(types[t].text, text, (size_t)n))
			return (enum stx_dtype)t;
	return STX_DTYPE_NONE;
}

int64_t stx_dense_bytes(uint32_t dtype, size_t rank, const int64_t *sizes)
{
	if (dtype >= STX_DTYPE_COUNT || rank > STX_MAX_RANK)
		return -1;
	int64_t n = stx_dtype_bytes((enum stx_dtype)dtype);
	for (size_t i = 0; i < rank; i++)
		if (sizes[i] < 0 || __builtin_mul_overflow(n, sizes[i], &n))
			return -1;
	return n;
}
