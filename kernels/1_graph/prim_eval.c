/* prim_eval.c: one primitive on scalars: the reference semantics of NUMERICS.md.
 *
 * f32 arithmetic is done in float and f64 in double (the build turns contraction off). Half and
 * smaller formats compute in f32 and round once more, which for + - * / sqrt is the correctly
 * rounded result (24 bits are more than 2p+1); FMA on them is rounded once from an exact sum. */
#include "elementary.h"
#include "scalar.h"

#include <assert.h>
#include <math.h>

static union stx_scalar of_f(double v)
{
	return (union stx_scalar){ .f = v };
}
static union stx_scalar of_b(int v)
{
	return (union stx_scalar){ .i = v != 0 };
}

static int is_signed(enum stx_dtype t)
{
	return stx_dtype_kind(t) == STX_KIND_INT;
}

static unsigned width_of(enum stx_dtype t)
{
	return (unsigned)stx_dtype_bytes(t) * 8;
}

static double max_f(double a, double b)
{
	if (isnan(a))
		return a;
	if (isnan(b))
		return b;
	if (a == b)
		return signbit(a) ? b : a;
	return a > b ? a : b;
}

static double min_f(double a, double b)
{
	if (isnan(a))
		return a;
	if (isnan(b))
		return b;
	if (a == b)
		return signbit(a) ? a : b;
	return a < b ? a : b;
}

/* a*b + c rounded once to a format of at most 11 bits: the product is exact in double; the sum is
 * rounded to odd there, so that the last rounding sees which side the exact sum lies on. */
static double fma_small(enum stx_dtype t, double a, double b, double c)
{
	double p = a * b, s = p + c, bb, err;

	if (isfinite(s)) {
		bb = s - p;
		err = (p - (s - bb)) + (c - bb);
		if (err != 0 && !(stx_scalar_bits(STX_F64, s) & 1))
			s = nextafter(s, err > 0 ? INFINITY : -INFINITY);
	}
	return stx_scalar_round(t, s);
}

/* Results that need no rounding: selections and sign changes. 1 when op is one of them. */
static int exact_f(enum stx_prim op, double a, double b, double *out)
{
	switch (op) {
	case STX_P_NEG: *out = -a; return 1;
	case STX_P_ABS: *out = fabs(a); return 1;
	case STX_P_MAX: *out = max_f(a, b); return 1;
	case STX_P_MIN: *out = min_f(a, b); return 1;
	case STX_P_FLOOR: *out = floor(a); return 1;
	case STX_P_CEIL: *out = ceil(a); return 1;
	case STX_P_TRUNC: *out = trunc(a); return 1;
	case STX_P_NEAREST:
	case STX_P_RINT: *out = rint(a); return 1;
	case STX_P_COPYSIGN: *out = copysign(a, b); return 1;
	case STX_P_REM: *out = fmod(a, b); return 1; /* exact in every format: |result| < |b| */
	case STX_P_LIFT:
	case STX_P_SCALE: *out = isnan(b) ? b : ldexp(a, (int)fmax(-9999, fmin(9999, b))); return 1;
	default: return 0;
	}
}

static double eval_f64(enum stx_prim op, double a, double b, double c)
{
	switch (op) {
	case STX_P_ADD: return a + b;
	case STX_P_SUB: return a - b;
	case STX_P_MUL: return a * b;
	case STX_P_RATIO:
	case STX_P_DIV: return a / b;
	case STX_P_SQRT: return sqrt(a);
	case STX_P_RCP: return 1 / a;
	case STX_P_FMA: return fma(a, b, c);
	default: assert(!"float primitive"); return NAN;
	}
}

static float eval_f32(enum stx_prim op, float a, float b, float c)
{
	switch (op) {
	case STX_P_ADD: return a + b;
	case STX_P_SUB: return a - b;
	case STX_P_MUL: return a * b;
	case STX_P_RATIO:
	case STX_P_DIV: return a / b;
	case STX_P_SQRT: return sqrtf(a);
	case STX_P_RCP: return 1 / a;
	case STX_P_FMA: return fmaf(a, b, c);
	default: assert(!"float primitive"); return NAN;
	}
}

static double eval_float(enum stx_prim op, enum stx_dtype t, double a, double b, double c)
{
	double r;

	if (exact_f(op, a, b, &r))
		return stx_scalar_round(t, r); /* changes at most a zero's sign (fnuz formats) */
	if (t == STX_F64)
		return eval_f64(op, a, b, c);
	if (op == STX_P_FMA && t != STX_F32)
		return fma_small(t, a, b, c);
	r = eval_f32(op, (float)a, (float)b, (float)c);
	return t == STX_F32 ? r : stx_scalar_round(t, r);
}

/* Truncating quotient and its remainder, with the total rules; floor = 1: towards -inf. */
static void divide(enum stx_dtype t, union stx_scalar a, union stx_scalar b, int floor,
		   union stx_scalar *quot, union stx_scalar *rem)
{
	uint64_t q = 0, r = 0;

	if (b.u == 0) {
		q = r = 0;
	} else if (!is_signed(t)) {
		q = a.u / b.u;
		r = a.u % b.u;
	} else if (b.i == -1) { /* INT_MIN / -1 wraps to INT_MIN, remainder 0 */
		q = 0 - a.u;
	} else {
		int64_t sq = a.i / b.i, sr = a.i % b.i;

		if (floor && sr != 0 && (sr < 0) != (b.i < 0)) {
			sq -= 1;
			sr += b.i;
		}
		q = (uint64_t)sq;
		r = (uint64_t)sr;
	}
	*quot = stx_scalar_wrap(t, q);
	*rem = stx_scalar_wrap(t, r);
}

static uint64_t shift(enum stx_prim op, enum stx_dtype t, union stx_scalar a, union stx_scalar b)
{
	unsigned w = width_of(t);
	uint64_t mask = w == 64 ? ~(uint64_t)0 : ((uint64_t)1 << w) - 1;
	uint64_t n = b.u & mask; /* a negative count is a large one */

	if (op == STX_P_SHL)
		return n >= w ? 0 : a.u << n;
	if (op == STX_P_SHR && is_signed(t))
		return (uint64_t)(a.i >> (n >= w ? w - 1
						 : n)); /* arithmetic on every supported compiler */
	return n >= w ? 0 : (a.u & mask) >> n;
}

static union stx_scalar eval_int(enum stx_prim op, enum stx_dtype t, union stx_scalar a,
				 union stx_scalar b)
{
	int sg = is_signed(t), less = sg ? a.i < b.i : a.u < b.u;
	union stx_scalar q, r;

	switch (op) {
	case STX_P_ADD: return stx_scalar_wrap(t, a.u + b.u);
	case STX_P_SUB: return stx_scalar_wrap(t, a.u - b.u);
	case STX_P_MUL: return stx_scalar_wrap(t, a.u * b.u);
	case STX_P_DIV: divide(t, a, b, 0, &q, &r); return q;
	case STX_P_REM: divide(t, a, b, 0, &q, &r); return r;
	case STX_P_FLOORDIV: divide(t, a, b, 1, &q, &r); return q;
	case STX_P_MOD: divide(t, a, b, 1, &q, &r); return r;
	case STX_P_NEG: return stx_scalar_wrap(t, 0 - a.u);
	case STX_P_ABS: return sg && a.i < 0 ? stx_scalar_wrap(t, 0 - a.u) : a;
	case STX_P_MAX: return less ? b : a;
	case STX_P_MIN: return less ? a : b;
	case STX_P_AND: return stx_scalar_wrap(t, a.u & b.u);
	case STX_P_OR: return stx_scalar_wrap(t, a.u | b.u);
	case STX_P_XOR: return stx_scalar_wrap(t, a.u ^ b.u);
	case STX_P_RARELY: return a;
	case STX_P_NOT: return t == STX_BOOL ? of_b(!a.i) : stx_scalar_wrap(t, ~a.u);
	case STX_P_SHL:
	case STX_P_SHR:
	case STX_P_LSHR: return stx_scalar_wrap(t, shift(op, t, a, b));
	default: assert(!"integer primitive"); return a;
	}
}

static union stx_scalar compare(enum stx_prim op, enum stx_dtype src, union stx_scalar a,
				union stx_scalar b)
{
	int lt, eq, gt;

	if (stx_dtype_is_float(src)) { /* NaN: all three false */
		lt = a.f < b.f;
		eq = a.f == b.f;
		gt = a.f > b.f;
	} else {
		int sg = is_signed(src);

		lt = sg ? a.i < b.i : a.u < b.u;
		eq = a.u == b.u;
		gt = !lt && !eq;
	}
	switch (op) {
	case STX_P_EQ: return of_b(eq);
	case STX_P_NE: return of_b(!eq);
	case STX_P_LT: return of_b(lt);
	case STX_P_LE: return of_b(lt || eq);
	case STX_P_GT: return of_b(gt);
	default: return of_b(gt || eq);
	}
}

/* ---- casts ---- */

static union stx_scalar float_to_int(enum stx_dtype t, double v)
{
	double x = trunc(v);
	int64_t low;

	switch (t) {
	case STX_BOOL: return of_b(v != 0); /* NaN is true */
	case STX_I32:
		if (isnan(v))
			return stx_scalar_wrap(t, 0);
		return (union stx_scalar){ .i = x < INT32_MIN   ? INT32_MIN
						: x > INT32_MAX ? INT32_MAX
								: (int64_t)x };
	case STX_I64:
		if (isnan(v))
			return stx_scalar_wrap(t, 0);
		return (union stx_scalar){ .i = x < -0x1p63   ? INT64_MIN
						: x >= 0x1p63 ? INT64_MAX
							      : (int64_t)x };
	case STX_U32:
		if (!(x > 0))
			return stx_scalar_wrap(t, 0);
		return (union stx_scalar){ .u = x > UINT32_MAX ? UINT32_MAX : (uint64_t)x };
	case STX_U64:
		if (!(x > 0))
			return stx_scalar_wrap(t, 0);
		return (union stx_scalar){ .u = x >= 0x1p64 ? UINT64_MAX : (uint64_t)x };
	default: /* 8 and 16 bits: through i32, what does not fit there is 0 */
		low = x >= INT32_MIN && x <= INT32_MAX ? (int64_t)x : 0;
		return stx_scalar_wrap(t, (uint64_t)low);
	}
}

/* Correctly rounded from the integer: f32 directly, the others from a double rounded to odd, which
 * is exact below 2^53 and keeps on which side the integer lies above. */
static double int_to_float(enum stx_dtype t, enum stx_dtype src, union stx_scalar v)
{
	int neg = is_signed(src) && v.i < 0;
	uint64_t mag = neg ? 0 - v.u : v.u;
	double d;

	if (t == STX_F64)
		d = (double)mag;
	else if (t == STX_F32)
		d = (float)mag;
	else {
		uint64_t m = mag;

		if (m >>
		    53) { /* drop 11 bits, stickily: 53 bits and more than any small format has */
			int lost = (m & 0x7ff) != 0;

			m = (m & ~(uint64_t)0x7ff) | (lost ? (uint64_t)0x800 : 0);
		}
		d = stx_scalar_round(t, (double)m);
	}
	return neg ? -d : d;
}

static union stx_scalar cast(enum stx_dtype t, enum stx_dtype src, union stx_scalar a)
{
	if (t == src)
		return a;
	if (stx_dtype_is_float(src)) {
		if (stx_dtype_is_float(t))
			return of_f(stx_scalar_round(t, a.f));
		return float_to_int(t, a.f);
	}
	if (stx_dtype_is_float(t))
		return of_f(int_to_float(t, src, a));
	return stx_scalar_wrap(t, a.u);
}

static union stx_scalar bitcast(enum stx_dtype t, enum stx_dtype src, union stx_scalar a)
{
	uint64_t u = stx_dtype_is_float(src) ? stx_scalar_bits(src, a.f) : a.u;

	assert(stx_dtype_bytes(t) == stx_dtype_bytes(src));
	if (stx_dtype_is_float(t))
		return of_f(stx_scalar_from_bits(t, u));
	return stx_scalar_wrap(t, u);
}

/* ---- elementary functions: the body, evaluated while it is expanded ---- */

struct direct { /* a builder that computes each instruction at once */
	union stx_scalar v[STX_ELEM_MAX];
	uint8_t dtype[STX_ELEM_MAX];
	uint32_t n;
};

static stx_ev direct_push(struct direct *d, enum stx_dtype t, union stx_scalar v)
{
	assert(d->n < STX_ELEM_MAX);
	d->v[d->n] = v;
	d->dtype[d->n] = (uint8_t)t;
	return d->n++;
}

static stx_ev direct_emit(void *ctx, enum stx_prim op, enum stx_dtype t, stx_ev a, stx_ev b,
			  stx_ev c)
{
	struct direct *d = ctx;

	return direct_push(
		d, t, stx_prim_eval(op, t, (enum stx_dtype)d->dtype[a], d->v[a], d->v[b], d->v[c]));
}

static stx_ev direct_constant(void *ctx, enum stx_dtype t, union stx_scalar v)
{
	return direct_push(ctx, t, v);
}

static union stx_scalar eval_elementary(enum stx_prim op, enum stx_dtype t, union stx_scalar a,
					union stx_scalar b)
{
	struct direct d;
	struct stx_elem_builder eb = { &d, direct_emit, direct_constant };
	stx_ev out = 0;
	int ok;

	d.n = 0;
	direct_push(&d, t, a);
	direct_push(&d, t, b);
	ok = stx_elementary_expand(&eb, op, t, 0, 1, &out);
	assert(ok);
	return ok ? d.v[out] : of_f(NAN);
}

union stx_scalar stx_prim_eval(enum stx_prim op, enum stx_dtype t, enum stx_dtype src,
			       union stx_scalar a, union stx_scalar b, union stx_scalar c)
{
	switch (op) {
	case STX_P_SELECT: return a.i ? b : c;
	case STX_P_CAST: return cast(t, src, a);
	case STX_P_BITCAST: return bitcast(t, src, a);
	case STX_P_ISNAN: return of_b(isnan(a.f));
	case STX_P_EQ:
	case STX_P_NE:
	case STX_P_LT:
	case STX_P_LE:
	case STX_P_GT:
	case STX_P_GE: return compare(op, src, a, b);
	default: break;
	}
	if (op >= STX_P_FIRST_ELEMENTARY)
		return eval_elementary(op, t, a, b);
	if (stx_dtype_is_float(t))
		return of_f(eval_float(op, t, a.f, b.f, c.f));
	return eval_int(op, t, a, b);
}
