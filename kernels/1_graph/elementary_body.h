/* elementary_body.h
 * how bodies of elementary functions are written: one call a primitive. Internal to elementary*.c.
 *
 * A body is written for `e->t` (f32 or f64). Most f32 functions other than the hottest compute in
 * f64 (widen, narrow): casts are exact and cheap, short polynomials suffice, and there is no
 * cancellation to manage. Integers of the same width carry exponents. No body divides integers,
 * converts between floats and integers (saturating conversions are slow in vectors) or multiplies
 * 64-bit integers. */
#ifndef STX_ELEMENTARY_BODY_H
#define STX_ELEMENTARY_BODY_H

#include "elementary.h"

struct el {
	struct stx_elem_builder *b;
	enum stx_dtype t;  /* F32 or F64 */
	enum stx_dtype it; /* I32 or I64 */
};

static inline struct el el_make(struct stx_elem_builder *b, enum stx_dtype t)
{
	return (struct el){ b, t, t == STX_F64 ? STX_I64 : STX_I32 };
}

static inline int is_f64(const struct el *e)
{
	return e->t == STX_F64;
}

static inline stx_ev emit(const struct el *e, enum stx_prim op, enum stx_dtype t, stx_ev a,
			  stx_ev b, stx_ev c)
{
	return e->b->emit(e->b->ctx, op, t, a, b, c);
}

/* constants */
static inline stx_ev fk(const struct el *e, double v)
{
	return e->b->constant(e->b->ctx, e->t, (union stx_scalar){ .f = v });
}
static inline stx_ev ik(const struct el *e, int64_t v)
{
	return e->b->constant(e->b->ctx, e->it, (union stx_scalar){ .i = v });
}

/* Float arithmetic, comparisons, selection; then integers of the float's width, and bits. */
#define UNARY(name, op, t)                                                                         \
	static inline stx_ev name(const struct el *e, stx_ev a)                                    \
	{                                                                                          \
		return emit(e, STX_P_##op, t, a, 0, 0);                                            \
	}
#define BINARY(name, op, t)                                                                        \
	static inline stx_ev name(const struct el *e, stx_ev a, stx_ev b)                          \
	{                                                                                          \
		return emit(e, STX_P_##op, t, a, b, 0);                                            \
	}
#define WITH_FLOAT(name, of) /* second operand a constant */                                       \
	static inline stx_ev name(const struct el *e, stx_ev a, double k)                          \
	{                                                                                          \
		return of(e, a, fk(e, k));                                                         \
	}
#define WITH_INT(name, op)                                                                         \
	static inline stx_ev name(const struct el *e, stx_ev a, int64_t k)                         \
	{                                                                                          \
		return emit(e, STX_P_##op, e->it, a, ik(e, k), 0);                                 \
	}
BINARY(add, ADD, e->t)
BINARY(sub, SUB, e->t)
BINARY(mul, MUL, e->t)
BINARY(quo, DIV, e->t)
BINARY(ratio, RATIO, e->t) /* f32: b and a/b as for rcp, 2^-100 <= |a| < 2^126 or a = +0 */
BINARY(scale, SCALE, e->t) /* a * 2^b: operands as prims.def says */
BINARY(lift, LIFT, e->t)   /* the same with normal a and result */
BINARY(maxi, MAX, e->t)
BINARY(mini, MIN, e->t)
BINARY(sign_of, COPYSIGN, e->t) /* magnitude of a, sign of b */
UNARY(neg, NEG, e->t)
UNARY(mag, ABS, e->t)
UNARY(root, SQRT, e->t)
UNARY(nearest, NEAREST, e->t) /* the whole number, ties to even: as prims.def says */
UNARY(rcp, RCP, e->t)         /* f32: 2^-126 <= |a| < 2^126, or NaN */
WITH_FLOAT(addk, add)
WITH_FLOAT(subk, sub)
WITH_FLOAT(mulk, mul)
BINARY(eq, EQ, STX_BOOL)
BINARY(ne, NE, STX_BOOL)
BINARY(lt, LT, STX_BOOL)
BINARY(ge, GE, STX_BOOL)
BINARY(gt, GT, STX_BOOL)
BINARY(both, AND, STX_BOOL)
BINARY(either, OR, STX_BOOL)
UNARY(not, NOT, STX_BOOL)
UNARY(rarely, RARELY, STX_BOOL) /* for select: what it takes where that is true may cost much */
UNARY(bits, BITCAST, e->it)
UNARY(unbits, BITCAST, e->t)
BINARY(iadd, ADD, e->it)
BINARY(isub, SUB, e->it)
BINARY(ixor, XOR, e->it)
WITH_INT(iaddk, ADD)
WITH_INT(iand, AND)
WITH_INT(ior, OR)
WITH_INT(ishl, SHL)
WITH_INT(ilshr, LSHR)
#undef UNARY
#undef BINARY
#undef WITH_FLOAT
#undef WITH_INT

static inline stx_ev ksub(const struct el *e, double k, stx_ev a)
{
	return sub(e, fk(e, k), a);
}
static inline stx_ev sel(const struct el *e, stx_ev c, stx_ev a, stx_ev b)
{
	return emit(e, STX_P_SELECT, e->t, c, a, b);
}

/* f32 <-> f64 */
static inline stx_ev widen(const struct el *wide, stx_ev a)
{
	return emit(wide, STX_P_CAST, STX_F64, a, 0, 0);
}
static inline stx_ev narrow(const struct el *e, stx_ev a)
{
	return emit(e, STX_P_CAST, STX_F32, a, 0, 0);
}

/* c[0] + x*(c[1] + x*(...)) as even part + x * odd part, each by Horner in xx = x^2: half as long a
 * chain */
static inline stx_ev poly2(const struct el *e, stx_ev x, stx_ev xx, const double *c, int n)
{
	stx_ev part[2] = { fk(e, c[(n - 1) & ~1]), fk(e, c[n - 2 + (n & 1 ? 0 : 1)]) };

	for (int i = n - 3; i >= 0; i--)
		part[i & 1] = add(e, mul(e, part[i & 1], xx), fk(e, c[i]));
	return add(e, part[0], mul(e, part[1], x));
}
#define POLY2(e, x, xx, c) poly2(e, x, xx, c, (int)(sizeof(c) / sizeof *(c)))

/* The same by Horner where that is short */
#define SHORT_POLY 5
static inline stx_ev poly(const struct el *e, stx_ev x, const double *c, int n)
{
	stx_ev r = fk(e, c[n - 1]);

	if (n > SHORT_POLY)
		return poly2(e, x, mul(e, x, x), c, n);
	for (int i = n - 2; i >= 0; i--)
		r = add(e, mul(e, r, x), fk(e, c[i]));
	return r;
}
#define POLY(e, x, c) poly(e, x, c, (int)(sizeof(c) / sizeof *(c)))

static inline int mant_bits(const struct el *e)
{
	return is_f64(e) ? 52 : 23;
}
static inline int exp_bias(const struct el *e)
{
	return is_f64(e) ? 1023 : 127;
}
/* Adding this rounds a small float to an integer, ties to even, whose value is in the low bits. */
static inline double magic(const struct el *e)
{
	return is_f64(e) ? 0x1.8p52 : 0x1.8p23;
}
static inline int64_t magic_bits(const struct el *e)
{
	return is_f64(e) ? 0x4338000000000000 : 0x4b400000;
}

/* A whole number in the low bits, over those of magic */
static inline stx_ev whole_bits(const struct el *e, stx_ev n)
{
	return bits(e, addk(e, n, magic(e)));
}

/* ---- f64 sums of two parts (Dekker, Knuth), without FMA: h + l, |l| at most half an ulp of h ---- */
struct dd {
	stx_ev h, l;
};

/* |a| >= |b| or a == 0; exact */
static inline struct dd fast_sum(const struct el *e, stx_ev a, stx_ev b)
{
	stx_ev s = add(e, a, b);

	return (struct dd){ s, sub(e, b, sub(e, s, a)) };
}

/* exact */
static inline struct dd two_sum(const struct el *e, stx_ev a, stx_ev b)
{
	stx_ev s = add(e, a, b), t = sub(e, s, a);

	return (struct dd){ s, add(e, sub(e, a, sub(e, s, t)), sub(e, b, t)) };
}

/* The head of 26 bits (f32: 12); head + rest is a exactly. */
static inline stx_ev head(const struct el *e, stx_ev a)
{
	return unbits(
		e, iand(e, bits(e, a), is_f64(e) ? (int64_t)0xfffffffff8000000u : (int64_t)-4096));
}

/* exact unless the low half underflows: |a*b| above 2^-960 (f32: 2^-100) */
static inline struct dd two_prod(const struct el *e, stx_ev a, stx_ev b)
{
	stx_ev p = mul(e, a, b), ah = head(e, a), al = sub(e, a, ah), bh = head(e, b),
	       bl = sub(e, b, bh);
	stx_ev err = sub(e, mul(e, ah, bh), p);

	err = add(e, add(e, err, mul(e, ah, bl)), mul(e, al, bh));
	return (struct dd){ p, add(e, err, mul(e, al, bl)) };
}

static inline struct dd dd_mul(const struct el *e, struct dd a, struct dd b)
{
	struct dd p = two_prod(e, a.h, b.h);

	return fast_sum(e, p.h, add(e, p.l, add(e, mul(e, a.h, b.l), mul(e, a.l, b.h))));
}

/* |a| >= |b| */
static inline struct dd dd_add(const struct el *e, struct dd a, struct dd b)
{
	struct dd s = two_sum(e, a.h, b.h);

	return fast_sum(e, s.h, add(e, s.l, add(e, a.l, b.l)));
}

/* n/d: the quotient and what it lost */
static inline struct dd dd_quo(const struct el *e, struct dd n, struct dd d)
{
	stx_ev q = quo(e, n.h, d.h), r;
	struct dd back = two_prod(e, q, d.h);

	r = add(e, sub(e, sub(e, n.h, back.h), back.l), sub(e, n.l, mul(e, q, d.l)));
	return (struct dd){ q, quo(e, r, d.h) };
}

/* sqrt(v) and what it lost; v.h > 0 */
static inline struct dd dd_root(const struct el *e, struct dd v)
{
	stx_ev s = root(e, v.h), r;
	struct dd back = two_prod(e, s, s);

	r = add(e, sub(e, sub(e, v.h, back.h), back.l), v.l);
	return (struct dd){ s, quo(e, r, add(e, s, s)) };
}

static inline struct dd dd_of(const struct el *e, stx_ev a)
{
	return (struct dd){ a, fk(e, 0) };
}

/* ---- bodies, by file ---- */
typedef stx_ev stx__el_fn(const struct el *e, stx_ev x);
stx__el_fn stx__el_exp, stx__el_exp2, stx__el_expm1, stx__el_tanh, stx__el_sigmoid, stx__el_sinh,
	stx__el_cosh, stx__el_softplus; /* elementary_exp.c */
stx__el_fn stx__el_erf, stx__el_erfc;   /* elementary_erf.c */
stx__el_fn stx__el_log, stx__el_log2, stx__el_log10, stx__el_log1p, stx__el_asinh, stx__el_acosh,
	stx__el_atanh; /* elementary_log.c */
stx__el_fn stx__el_sin, stx__el_cos, stx__el_tan, stx__el_asin, stx__el_acos,
	stx__el_atan; /* elementary_trig.c */
stx__el_fn stx__el_short_erf, stx__el_short_softplus, stx__el_short_exp, stx__el_short_sigmoid,
	stx__el_short_tanh, stx__el_short_cdf, stx__el_short_slope, stx__el_near_sigmoid,
	stx__el_near_erf, stx__el_short_exp2, stx__el_short_rsqrt; /* elementary_short.c */
stx__el_fn stx__el_short_log, stx__el_short_log2, stx__el_short_log10, stx__el_short_log1p,
	stx__el_short_atanh; /* elementary_log.c */
stx__el_fn stx__el_short_sin, stx__el_short_cos, stx__el_short_tan, stx__el_short_asin,
	stx__el_short_acos, stx__el_short_atan; /* elementary_trig.c */
stx_ev stx__el_atan2(const struct el *e, stx_ev y, stx_ev x);
stx_ev stx__el_pow(const struct el *e, stx_ev x, stx_ev y); /* elementary_pow.c */
stx__el_fn stx__el_cbrt;
stx__el_fn stx__el_rsqrt; /* elementary.c */
stx_ev stx__el_pow_int(struct stx_elem_builder *b, enum stx_dtype t, stx_ev x, stx_ev y);

/* Parts that several files use. */
/* x > 0, finite, not subnormal when e is f64 and x came from f32; x = 2^k * (1 + f), 1+f in
 * [sqrt(1/2), sqrt(2)). Subnormals are scaled first when `subnormals`. */
struct stx__el_log_parts {
	stx_ev k, f;
};
struct stx__el_log_parts stx__el_log_split(const struct el *e, stx_ev x, int subnormals);
/* log(1 + x + lo) for f64, x > -1 finite; NULL: lo is 0. */
stx_ev stx__el_log1p_sum(const struct el *e, stx_ev x, const stx_ev *lo);
/* The same in f64 to f32 accuracy, of x alone. */
stx_ev stx__el_log1p_short(const struct el *w, stx_ev x);
/* e^x = 2^n * (1 + (r + q)), r exact */
struct stx__el_exp_parts {
	stx_ev n, r, q;
};
/* requires: |x| below the overflow threshold, or NaN. */
struct stx__el_exp_parts stx__el_exp_reduce(const struct el *e, stx_ev x);
/* The same where 1 + (r + q) is wanted to full accuracy, not r + q. */
struct stx__el_exp_parts stx__el_exp_itself(const struct el *e, stx_ev x);
/* 1 + (r + q) */
stx_ev stx__el_exp_fraction(const struct el *e, struct stx__el_exp_parts d);
/* e^x * 2^-n in two parts, good to about 2^-56 in f64 */
struct dd stx__el_exp_two(const struct el *e, struct stx__el_exp_parts d);
/* e^x in f64 to f32 accuracy, |x| below a few hundred */
stx_ev stx__el_exp_short(const struct el *w, stx_ev x);
/* x = n*pi/2 + h + l for any finite f64 x; n in the low two bits of *n_bits. */
struct dd stx__el_reduce_f64(const struct el *e, stx_ev x,
			     stx_ev *n_bits); /* elementary_reduce.c */

#endif
