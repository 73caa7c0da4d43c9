/* storage.c
 * elements in memory as scalar values and back; halves through the reference bit casts. */
#include <string.h>

#include "elementary.h"
#include "lower.h"

static union stx_scalar load_float(enum stx_dtype t, const void *p)
{
	union stx_scalar v = { .u = 0 }, none = { .u = 0 };
	float f;

	if (t == STX_F64) {
		memcpy(&v.f, p, 8);
		return v;
	}
	if (t == STX_F32) {
		memcpy(&f, p, 4);
		v.f = f;
		return v;
	}
	memcpy(&v.u, p, (size_t)stx_dtype_bytes(t));
	return stx_prim_eval(STX_P_BITCAST, t, stx_dtype_bytes(t) == 2 ? STX_U16 : STX_U8, v, none, none);
}

union stx_scalar stx__scalar_load(enum stx_dtype t, const void *p)
{
	union stx_scalar v = { .u = 0 };
	size_t n = (size_t)stx_dtype_bytes(t);

	if (stx_dtype_is_float(t))
		return load_float(t, p);
	memcpy(&v.u, p, n);
	if (stx_dtype_kind(t) == STX_KIND_INT && n < 8 && (v.u >> (8 * n - 1)) & 1)
		v.u |= UINT64_MAX << (8 * n);
	if (t == STX_BOOL)
		v.u = v.u != 0;
	return v;
}

void stx__scalar_store(enum stx_dtype t, void *p, union stx_scalar v)
{
	union stx_scalar none = { .u = 0 };
	size_t n = (size_t)stx_dtype_bytes(t);
	float f;

	if (t == STX_F32) {
		f = (float)v.f;
		memcpy(p, &f, 4);
		return;
	}
	if (t != STX_F64 && stx_dtype_is_float(t))
		v = stx_prim_eval(STX_P_BITCAST, n == 2 ? STX_U16 : STX_U8, t, v, none, none);
	memcpy(p, &v, n);
}
