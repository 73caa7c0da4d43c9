/* dtype.h
 * element types shared by the compiler, the artifact and the client. */
#ifndef STX_DTYPE_H
#define STX_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum stx_dtype {
#define STX_DTYPE(name, text, bytes, kind) STX_##name,
#include "dtype.def"
#undef STX_DTYPE
	STX_DTYPE_COUNT,
	STX_DTYPE_NONE = 255
};

enum stx_dtype_kind { STX_KIND_BOOL, STX_KIND_UINT, STX_KIND_INT, STX_KIND_FLOAT };

const char *stx_dtype_name(enum stx_dtype t); /* "f32"; "none" for STX_DTYPE_NONE */
int stx_dtype_bytes(enum stx_dtype t);        /* 0 for STX_DTYPE_NONE */
enum stx_dtype_kind stx_dtype_kind(enum stx_dtype t);
enum stx_dtype stx_dtype_parse(const char *text, int n); /* STX_DTYPE_NONE when unknown */
static inline int stx_dtype_is_float(enum stx_dtype t)
{
	return stx_dtype_kind(t) == STX_KIND_FLOAT;
}
/* Bytes of a dense tensor described by strangers; -1 on an unknown type, a rank over STX_MAX_RANK,
 * a negative size or overflow. */
int64_t stx_dense_bytes(uint32_t dtype, size_t rank, const int64_t *sizes);

#ifdef __cplusplus
}
#endif
#endif
