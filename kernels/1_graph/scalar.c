/* scalar.c: conversions between memory, doubles and the small float formats. */
#include "scalar.h"

#include <assert.h>
#include <math.h>
#include <string.h>

const struct stx_float_format *stx_float_format(enum stx_dtype t)
{
	/* clang-format off */
	/*                          mant bias  top     max     inf     nan    sign  nuz */
#define FORMAT(name, ...) static const struct stx_float_format name = { __VA_ARGS__ }
	FORMAT(f16,               10,   15,  30, 0x7bff, 0x7c00, 0x7e00, 0x8000, 0);
	FORMAT(bf16,               7,  127, 254, 0x7f7f, 0x7f80, 0x7fc0, 0x8000, 0);
	FORMAT(e4m3fn,             3,    7,  15,   0x7e,   0x7f,   0x7f,   0x80, 0);
	FORMAT(e5m2,               2,   15,  30,   0x7b,   0x7c,   0x7f,   0x80, 0);
	FORMAT(e4m3fnuz,           3,    8,  15,   0x7f,   0x80,   0x80,   0x80, 1);
	FORMAT(e5m2fnuz,           2,   16,  31,   0x7f,   0x80,   0x80,   0x80, 1);
#undef FORMAT
	/* clang-format on */

	switch (t) {
	case STX_F16: return &f16;
	case STX_BF16: return &bf16;
	case STX_F8E4M3FN: return &e4m3fn;
	case STX_F8E5M2: return &e5m2;
	case STX_F8E4M3FNUZ: return &e4m3fnuz;
	case STX_F8E5M2FNUZ: return &e5m2fnuz;
	default: return NULL;
	}
}

/* v >> n rounded to nearest, ties to even; n in [1, 63]. */
static uint64_t shift_round(uint64_t v, int n)
{
	uint64_t q = v >> n, rest = v & (((uint64_t)1 << n) - 1), half = (uint64_t)1 << (n - 1);

	return q + (rest > half || (rest == half && (q & 1)));
}

static uint32_t encode(const struct stx_float_format *f, double v)
{
	uint64_t u, frac;
	uint32_t sign, r;
	int e;

	memcpy(&u, &v, 8);
	sign = u >> 63 ? f->sign : 0;
	if (isnan(v))
		return f->nuz ? f->nan : f->nan | sign;
	if (isinf(v))
		return f->nuz ? f->nan : f->inf | sign;
	e = (int)(u >> 52 & 0x7ff);
	frac = u & 0xfffffffffffffu;
	if (e == 0)
		return f->nuz ? 0
			      : sign; /* zero, or far below half of any format's smallest value */
	e += f->bias - 1023;
	if (e > 0) {
		if (e > f->top)
			return f->nuz ? f->nan : f->inf | sign;
		r = (uint32_t)shift_round((uint64_t)e << 52 | frac, 52 - f->mant);
	} else {
		int n = 52 - f->mant + 1 - e;

		r = n > 62 ? 0 : (uint32_t)shift_round(frac | (uint64_t)1 << 52, n);
	}
	if (r > f->max)
		return f->nuz ? f->nan : f->inf | sign;
	if (r == 0 && f->nuz)
		return 0;
	return r | sign;
}

static double decode(const struct stx_float_format *f, uint32_t bits)
{
	uint32_t mag = bits & (f->sign - 1);
	int e = (int)(mag >> f->mant);
	double m = mag & ((1u << f->mant) - 1), v;

	if (f->nuz ? bits == f->nan : mag > f->max)
		v = mag == f->inf && f->inf != f->nan ? INFINITY : NAN;
	else if (e == 0)
		v = ldexp(m, 1 - f->bias - f->mant);
	else
		v = ldexp(m + (double)(1u << f->mant), e - f->bias - f->mant);
	return bits & f->sign && !isnan(v) ? -v : v;
}

uint64_t stx_scalar_bits(enum stx_dtype t, double v)
{
	if (t == STX_F64) {
		uint64_t u;

		memcpy(&u, &v, 8);
		return u;
	}
	if (t == STX_F32) {
		float x = (float)v;
		uint32_t u;

		memcpy(&u, &x, 4);
		return u;
	}
	assert(stx_float_format(t));
	return encode(stx_float_format(t), v);
}

double stx_scalar_from_bits(enum stx_dtype t, uint64_t bits)
{
	if (t == STX_F64) {
		double v;

		memcpy(&v, &bits, 8);
		return v;
	}
	if (t == STX_F32) {
		uint32_t u = (uint32_t)bits;
		float x;

		memcpy(&x, &u, 4);
		return x;
	}
	assert(stx_float_format(t));
	return decode(stx_float_format(t),
		      (uint32_t)bits & (stx_dtype_bytes(t) == 1 ? 0xff : 0xffff));
}

double stx_scalar_round(enum stx_dtype t, double v)
{
	if (t == STX_F64)
		return v;
	if (t == STX_F32)
		return (float)v;
	return stx_scalar_from_bits(t, stx_scalar_bits(t, v));
}

static int64_t extend(uint64_t v, int bits)
{
	return (int64_t)(v << (64 - bits)) >>
	       (64 - bits); /* arithmetic on every supported compiler */
}

union stx_scalar stx_scalar_wrap(enum stx_dtype t, uint64_t v)
{
	union stx_scalar r = { .u = 0 };

	switch (t) {
	case STX_BOOL: r.i = v != 0; break;
	case STX_U8: r.u = (uint8_t)v; break;
	case STX_U16: r.u = (uint16_t)v; break;
	case STX_U32: r.u = (uint32_t)v; break;
	case STX_U64: r.u = v; break;
	case STX_I8: r.i = extend(v, 8); break;
	case STX_I16: r.i = extend(v, 16); break;
	case STX_I32: r.i = extend(v, 32); break;
	case STX_I64: r.i = (int64_t)v; break;
	default: assert(!"integer type"); break;
	}
	return r;
}

union stx_scalar stx_scalar_load(enum stx_dtype t, const void *p)
{
	uint64_t u = 0;

	memcpy(&u, p, (size_t)stx_dtype_bytes(t));
	if (stx_dtype_is_float(t))
		return (union stx_scalar){ .f = stx_scalar_from_bits(t, u) };
	return stx_scalar_wrap(t, u);
}

void stx_scalar_store(enum stx_dtype t, void *p, union stx_scalar v)
{
	uint64_t u = stx_dtype_is_float(t) ? stx_scalar_bits(t, v.f) : v.u;

	if (t == STX_BOOL)
		u = u != 0;
	memcpy(p, &u, (size_t)stx_dtype_bytes(t));
}
