/* elementary_body.h
 * how bodies of elementary functions are written: one call a primitive. Internal to elementary*.c.
 *
 * A body is written for `e->t` (f32 or f64). Most f32 functions other than the hottest compute in f64
 * (widen, narrow): casts are exact and cheap, short polynomials suffice, and there is no cancellation to
 * manage. Integers of the same width carry exponents. No body divides integers, converts between
 * floats and integers (saturating conversions are slow in vectors) or multiplies 64-bit integers. */
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

static inline int is_f64(const struct el *e) { return e->t == STX_F64; }

static inline stx_ev emit(const struct el *e, enum stx_prim op, enum stx_dtype t, stx_ev a, stx_ev b,
                          stx_ev c)
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

/* float arithmetic */
static inline stx_ev add(const struct el *e, stx_ev a, stx_ev b) { return emit(e, STX_P_ADD, e->t, a, b, 0); }
static inline stx_ev sub(const struct el *e, stx_ev a, stx_ev b) { return emit(e, STX_P_SUB, e->t, a, b, 0); }
static inline stx_ev mul(const struct el *e, stx_ev a, stx_ev b) { return emit(e, STX_P_MUL, e->t, a, b, 0); }
static inline stx_ev quo(const struct el *e, stx_ev a, stx_ev b) { return emit(e, STX_P_DIV, e->t, a, b, 0); }
static inline stx_ev maxi(const struct el *e, stx_ev a, stx_ev b) { return emit(e, STX_P_MAX, e->t, a, b, 0); }
static inline stx_ev mini(const struct el *e, stx_ev a, stx_ev b) { return emit(e, STX_P_MIN, e->t, a, b, 0); }
static inline stx_ev neg(const struct el *e, stx_ev a) { return emit(e, STX_P_NEG, e->t, a, 0, 0); }
static inline stx_ev mag(const struct el *e, stx_ev a) { return emit(e, STX_P_ABS, e->t, a, 0, 0); }
static inline stx_ev root(const struct el *e, stx_ev a) { return emit(e, STX_P_SQRT, e->t, a, 0, 0); }
static inline stx_ev sign_of(const struct el *e, stx_ev a, stx_ev s) { return emit(e, STX_P_COPYSIGN, e->t, a, s, 0); }
static inline stx_ev addk(const struct el *e, stx_ev a, double k) { return add(e, a, fk(e, k)); }
static inline stx_ev subk(const struct el *e, stx_ev a, double k) { return sub(e, a, fk(e, k)); }
static inline stx_ev mulk(const struct el *e, stx_ev a, double k) { return mul(e, a, fk(e, k)); }
static inline stx_ev ksub(const struct el *e, double k, stx_ev a) { return sub(e, fk(e, k), a); }

/* comparisons and selection */
static inline stx_ev eq(const struct el *e, stx_ev a, stx_ev b) { return emit(e, STX_P_EQ, STX_BOOL, a, b, 0); }
static inline stx_ev ne(const struct el *e, stx_ev a, stx_ev b) { return emit(e, STX_P_NE, STX_BOOL, a, b, 0); }
static inline stx_ev lt(const struct el *e, stx_ev a, stx_ev b) { return emit(e, STX_P_LT, STX_BOOL, a, b, 0); }
static inline stx_ev ge(const struct el *e, stx_ev a, stx_ev b) { return emit(e, STX_P_GE, STX_BOOL, a, b, 0); }
static inline stx_ev gt(const struct el *e, stx_ev a, stx_ev b) { return emit(e, STX_P_GT, STX_BOOL, a, b, 0); }
static inline stx_ev both(const struct el *e, stx_ev a, stx_ev b) { return emit(e, STX_P_AND, STX_BOOL, a, b, 0); }
static inline stx_ev either(const struct el *e, stx_ev a, stx_ev b) { return emit(e, STX_P_OR, STX_BOOL, a, b, 0); }
static inline stx_ev not(const struct el *e, stx_ev a) { return emit(e, STX_P_NOT, STX_BOOL, a, 0, 0); }
static inline stx_ev sel(const struct el *e, stx_ev c, stx_ev a, stx_ev b) { return emit(e, STX_P_SELECT, e->t, c, a, b); }

/* integers of the float's width, and bits */
static inline stx_ev bits(const struct el *e, stx_ev a) { return emit(e, STX_P_BITCAST, e->it, a, 0, 0); }
static inline stx_ev unbits(const struct el *e, stx_ev a) { return emit(e, STX_P_BITCAST, e->t, a, 0, 0); }
static inline stx_ev iadd(const struct el *e, stx_ev a, stx_ev b) { return emit(e, STX_P_ADD, e->it, a, b, 0); }
static inline stx_ev isub(const struct el *e, stx_ev a, stx_ev b) { return emit(e, STX_P_SUB, e->it, a, b, 0); }
static inline stx_ev iand(const struct el *e, stx_ev a, int64_t k) { return emit(e, STX_P_AND, e->it, a, ik(e, k), 0); }
static inline stx_ev ior(const struct el *e, stx_ev a, int64_t k) { return emit(e, STX_P_OR, e->it, a, ik(e, k), 0); }
static inline stx_ev ixor(const struct el *e, stx_ev a, stx_ev b) { return emit(e, STX_P_XOR, e->it, a, b, 0); }
static inline stx_ev ishl(const struct el *e, stx_ev a, int n) { return emit(e, STX_P_SHL, e->it, a, ik(e, n), 0); }
static inline stx_ev ilshr(const struct el *e, stx_ev a, int n) { return emit(e, STX_P_LSHR, e->it, a, ik(e, n), 0); }
static inline stx_ev iaddk(const struct el *e, stx_ev a, int64_t k) { return iadd(e, a, ik(e, k)); }

/* f32 <-> f64 */
static inline stx_ev widen(const struct el *wide, stx_ev a) { return emit(wide, STX_P_CAST, STX_F64, a, 0, 0); }
static inline stx_ev narrow(const struct el *e, stx_ev a) { return emit(e, STX_P_CAST, STX_F32, a, 0, 0); }

/* c[0] + x*(c[1] + x*(...)), Horner */
static inline stx_ev poly(const struct el *e, stx_ev x, const double *c, int n)
{
	stx_ev r = fk(e, c[n - 1]);

	for (int i = n - 2; i >= 0; i--)
		r = add(e, mul(e, r, x), fk(e, c[i]));
	return r;
}
#define POLY(e, x, c) poly(e, x, c, (int)(sizeof(c) / sizeof *(c)))

static inline int mant_bits(const struct el *e) { return is_f64(e) ? 52 : 23; }
static inline int exp_bias(const struct el *e) { return is_f64(e) ? 1023 : 127; }
/* Adding this rounds a small float to an integer, ties to even, whose value is in the low bits. */
static inline double magic(const struct el *e) { return is_f64(e) ? 0x1.8p52 : 0x1.8p23; }
static inline int64_t magic_bits(const struct el *e) { return is_f64(e) ? 0x4338000000000000 : 0x4b400000; }

/* ---- bodies, by file ---- */
typedef stx_ev stx__el_fn(const struct el *e, stx_ev x);
stx__el_fn stx__el_exp, stx__el_exp2, stx__el_expm1, stx__el_tanh, stx__el_sigmoid, stx__el_sinh,
	stx__el_cosh, stx__el_erf;                              /* elementary_exp.c */
stx__el_fn stx__el_log, stx__el_log2, stx__el_log10, stx__el_log1p, stx__el_asinh, stx__el_acosh,
	stx__el_atanh;                                          /* elementary_log.c */
stx__el_fn stx__el_sin, stx__el_cos, stx__el_tan, stx__el_asin, stx__el_acos,
	stx__el_atan;                                           /* elementary_trig.c */
stx_ev stx__el_atan2(const struct el *e, stx_ev y, stx_ev x);
stx_ev stx__el_pow(const struct el *e, stx_ev x, stx_ev y);     /* elementary_pow.c */
stx_ev stx__el_pow_int(struct stx_elem_builder *b, enum stx_dtype t, stx_ev x, stx_ev y);

/* Parts that several files use. */
/* x > 0, finite, not subnormal when e is f64 and x came from f32; x = 2^k * (1 + f), 1+f in
 * [sqrt(1/2), sqrt(2)). Subnormals are scaled first when `subnormals`. */
struct stx__el_log_parts {
	stx_ev k, f;
};
struct stx__el_log_parts stx__el_log_split(const struct el *e, stx_ev x, int subnormals);
/* v * 2^(n) with u = n + 2*bias: two steps, so that only the last one rounds (subnormal results). */
stx_ev stx__el_scale(const struct el *e, stx_ev v, stx_ev u);

#endif
