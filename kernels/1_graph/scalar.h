/* scalar.h
 * scalar values of every element type: in memory, rounded to a type, wrapped to a width.
 *
 * The union's member follows the dtype (prims.h). All conversions round once, to nearest even, with
 * subnormals kept. f16, bf16 and the fp8 formats are converted by hand: no target's library is
 * trusted for them. Overflow: f16, bf16 and f8e5m2 give infinity; f8e4m3fn and the fnuz formats,
 * which have none, give NaN. Thread-safe. */
#ifndef STX_SCALAR_H
#define STX_SCALAR_H

#include "prims.h"

/* The value at p (any alignment), of dtype t; a bool is true when its byte is not 0. */
union stx_scalar stx_scalar_load(enum stx_dtype t, const void *p);
void stx_scalar_store(enum stx_dtype t, void *p, union stx_scalar v);

/* v rounded to the float type t, held in a double. */
double stx_scalar_round(enum stx_dtype t, double v);
/* Low bits of v as the integer type t (or bool: not 0), sign- or zero-extended. */
union stx_scalar stx_scalar_wrap(enum stx_dtype t, uint64_t v);

/* A binary float format below 32 bits; patterns are those in memory. */
struct stx_float_format {
	int mant, bias; /* stored mantissa bits, exponent bias */
	int top;        /* largest biased exponent of finite values */
	uint32_t max;   /* the largest finite value */
	uint32_t inf;   /* what an overflow gives: infinity, or nan in formats without it */
	uint32_t nan;
	uint32_t sign; /* the sign bit */
	int nuz;       /* no negative zero: its pattern is the NaN */
};
const struct stx_float_format *stx_float_format(enum stx_dtype t); /* NULL: not such a type */

/* The bits of a float of type t (dtype must be a float type). */
uint64_t stx_scalar_bits(enum stx_dtype t, double v);
double stx_scalar_from_bits(enum stx_dtype t, uint64_t bits);

#endif
