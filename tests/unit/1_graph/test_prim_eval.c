/* Primitives on scalars against definitions written independently: exact integers, nearest-value
 * searches, quadruple precision. NUMERICS.md names these tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include "elementary.h"
#include "scalar.h"

static uint64_t seed = 0x243f6a8885a308d3u;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static union stx_scalar f_(double v)
{
	return (union stx_scalar){ .f = v };
}
static union stx_scalar i_(int64_t v)
{
	return (union stx_scalar){ .i = v };
}
static union stx_scalar u_(uint64_t v)
{
	return (union stx_scalar){ .u = v };
}

static union stx_scalar eval2(enum stx_prim op, enum stx_dtype t, union stx_scalar a,
			      union stx_scalar b)
{
	return stx_prim_eval(op, t, t, a, b, u_(0));
}

static union stx_scalar cast(enum stx_dtype to, enum stx_dtype from, union stx_scalar v)
{
	return stx_prim_eval(STX_P_CAST, to, from, v, v, v);
}

static int same(double a, double b)
{
	return isnan(a) ? isnan(b) : a == b && !signbit(a) == !signbit(b);
}

/* ---- integers ---- */

static int floor_div(int a, int b)
{
	int q = a / b;

	return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

/* B27: every pair of 8-bit integers */
static void test_prim_eval_all_i8_pairs_match_definition(void **s)
{
	(void)s;
	for (int a = -128; a < 128; a++)
		for (int b = -128; b < 128; b++) {
			union stx_scalar x = i_(a), y = i_(b);

			assert_int_equal(eval2(STX_P_ADD, STX_I8, x, y).i, (int8_t)(a + b));
			assert_int_equal(eval2(STX_P_SUB, STX_I8, x, y).i, (int8_t)(a - b));
			assert_int_equal(eval2(STX_P_MUL, STX_I8, x, y).i, (int8_t)(a * b));
			assert_int_equal(eval2(STX_P_DIV, STX_I8, x, y).i, b ? (int8_t)(a / b) : 0);
			assert_int_equal(eval2(STX_P_REM, STX_I8, x, y).i, b ? a % b : 0);
			assert_int_equal(eval2(STX_P_FLOORDIV, STX_I8, x, y).i,
					 b ? (int8_t)floor_div(a, b) : 0);
			assert_int_equal(eval2(STX_P_MOD, STX_I8, x, y).i,
					 b ? a - floor_div(a, b) * b : 0);
			assert_int_equal(eval2(STX_P_MAX, STX_I8, x, y).i, a > b ? a : b);
			assert_int_equal(eval2(STX_P_MIN, STX_I8, x, y).i, a < b ? a : b);
			assert_int_equal(eval2(STX_P_SHL, STX_I8, x, y).i,
					 b < 0 || b > 7 ? 0 : (int8_t)(a * (1 << b)));
			assert_int_equal(eval2(STX_P_SHR, STX_I8, x, y).i,
					 b < 0 || b > 7 ? (a < 0 ? -1 : 0) : floor_div(a, 1 << b));
			assert_int_equal(eval2(STX_P_LSHR, STX_I8, x, y).i,
					 b < 0 || b > 7 ? 0 : (int8_t)((a & 255) / (1 << b)));
			assert_int_equal(stx_prim_eval(STX_P_LT, STX_BOOL, STX_I8, x, y, y).i,
					 a < b);
			assert_int_equal(stx_prim_eval(STX_P_GE, STX_BOOL, STX_I8, x, y, y).i,
					 a >= b);
		}
}

static void test_prim_eval_all_u8_pairs_match_definition(void **s)
{
	(void)s;
	for (int a = 0; a < 256; a++)
		for (int b = 0; b < 256; b++) {
			union stx_scalar x = u_((uint64_t)a), y = u_((uint64_t)b);

			assert_int_equal(eval2(STX_P_ADD, STX_U8, x, y).u, (uint8_t)(a + b));
			assert_int_equal(eval2(STX_P_SUB, STX_U8, x, y).u, (uint8_t)(a - b));
			assert_int_equal(eval2(STX_P_MUL, STX_U8, x, y).u, (uint8_t)(a * b));
			assert_int_equal(eval2(STX_P_DIV, STX_U8, x, y).u, b ? a / b : 0);
			assert_int_equal(eval2(STX_P_FLOORDIV, STX_U8, x, y).u, b ? a / b : 0);
			assert_int_equal(eval2(STX_P_MOD, STX_U8, x, y).u, b ? a % b : 0);
			assert_int_equal(eval2(STX_P_SHL, STX_U8, x, y).u,
					 b > 7 ? 0 : (uint8_t)(a << b));
			assert_int_equal(eval2(STX_P_SHR, STX_U8, x, y).u, b > 7 ? 0 : a >> b);
			assert_int_equal(eval2(STX_P_NEG, STX_U8, x, y).u, (uint8_t)-a);
			assert_int_equal(eval2(STX_P_NOT, STX_U8, x, y).u, 255 - a);
		}
}

static void test_prim_eval_integer_edges_never_trap(void **s)
{
	static const struct {
		enum stx_dtype t;
		int64_t min;
	} types[] = {
		{ STX_I8, INT8_MIN },
		{ STX_I16, INT16_MIN },
		{ STX_I32, INT32_MIN },
		{ STX_I64, INT64_MIN },
	};

	(void)s;
	for (int k = 0; k < 4; k++) {
		enum stx_dtype t = types[k].t;
		union stx_scalar m = i_(types[k].min), minus = i_(-1), zero = i_(0);

		assert_true(eval2(STX_P_DIV, t, m, minus).i == m.i &&
			    eval2(STX_P_FLOORDIV, t, m, minus).i == m.i);
		assert_true(eval2(STX_P_REM, t, m, minus).i == 0 &&
			    eval2(STX_P_MOD, t, m, minus).i == 0);
		assert_true(eval2(STX_P_DIV, t, m, zero).i == 0 &&
			    eval2(STX_P_MOD, t, m, zero).i == 0);
		assert_true(eval2(STX_P_NEG, t, m, zero).i == m.i &&
			    eval2(STX_P_ABS, t, m, zero).i == m.i);
		assert_true(eval2(STX_P_ADD, t, m, minus).i == -(types[k].min + 1));
	}
	assert_true(eval2(STX_P_MAX, STX_U64, u_(UINT64_MAX), u_(1)).u == UINT64_MAX);
	assert_true(eval2(STX_P_DIV, STX_U64, u_(UINT64_MAX), u_(2)).u == UINT64_MAX / 2);
	assert_true(stx_prim_eval(STX_P_GT, STX_BOOL, STX_U64, u_(UINT64_MAX), u_(1), u_(0)).i ==
		    1);
	assert_true(eval2(STX_P_SHL, STX_I64, i_(1), i_(64)).i == 0 &&
		    eval2(STX_P_SHR, STX_I64, i_(-5), i_(64)).i == -1);
	/* B31 */
	assert_true(eval2(STX_P_SHR, STX_I8, i_(-128), i_(1)).i == -64 &&
		    eval2(STX_P_SHL, STX_U8, u_(200), u_(1)).u == 144);
	assert_true(eval2(STX_P_NEG, STX_U8, u_(6), u_(0)).u == 250);
}

static void test_prim_eval_integer_power(void **s)
{
	(void)s;
	for (int a = -128; a < 128; a++)
		for (int b = -5; b < 128; b++) {
			int64_t want = 1;

			for (int i = 0; i < b; i++)
				want = (int8_t)(want * a);
			if (b < 0)
				want = a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
			assert_int_equal(eval2(STX_P_POW, STX_I8, i_(a), i_(b)).i, want);
		}
	assert_true(eval2(STX_P_POW, STX_I64, i_(3), i_(39)).i == 4052555153018976267);
	assert_true(eval2(STX_P_POW, STX_I64, i_(3), i_(41)).u == 3u * 3u * 4052555153018976267u);
	assert_true(eval2(STX_P_POW, STX_U32, u_(10), u_(9)).u == 1000000000 &&
		    eval2(STX_P_POW, STX_I32, i_(0), i_(0)).i == 1);
}

/* ---- small float formats ---- */

static const enum stx_dtype small[] = { STX_F16,    STX_BF16,       STX_F8E4M3FN,
					STX_F8E5M2, STX_F8E4M3FNUZ, STX_F8E5M2FNUZ };

struct layout {
	int exp, mant, bias, fn, nuz;
};
static struct layout layout_of(enum stx_dtype t)
{
	switch (t) {
	case STX_F16: return (struct layout){ 5, 10, 15, 0, 0 };
	case STX_BF16: return (struct layout){ 8, 7, 127, 0, 0 };
	case STX_F8E4M3FN: return (struct layout){ 4, 3, 7, 1, 0 };
	case STX_F8E5M2: return (struct layout){ 5, 2, 15, 0, 0 };
	case STX_F8E4M3FNUZ: return (struct layout){ 4, 3, 8, 0, 1 };
	default: return (struct layout){ 5, 2, 16, 0, 1 };
	}
}

/* The value a pattern stands for, from the definition of its format. */
static double value_of(enum stx_dtype t, unsigned bits)
{
	struct layout l = layout_of(t);
	unsigned m = bits & ((1u << l.mant) - 1), e = bits >> l.mant & ((1u << l.exp) - 1),
		 top = (1u << l.exp) - 1;
	double v, sign = bits >> (l.mant + l.exp) & 1 ? -1 : 1;

	if (l.nuz && bits == 1u << (l.mant + l.exp))
		return NAN;
	if (!l.nuz && !l.fn && e == top)
		return m ? NAN : sign * INFINITY;
	if (l.fn && e == top && m == (1u << l.mant) - 1)
		return NAN;
	v = e ? pow(2, (int)e - l.bias) * (1 + m / (double)(1u << l.mant))
	      : pow(2, 1 - l.bias) * m / (double)(1u << l.mant);
	return sign * v;
}

static void test_prim_eval_small_formats_decode_every_pattern(void **s)
{
	(void)s;
	for (size_t k = 0; k < sizeof small / sizeof *small; k++) {
		enum stx_dtype t = small[k];
		unsigned n = 1u << 8 * stx_dtype_bytes(t);

		for (unsigned b = 0; b < n; b++) {
			double v = value_of(t, b);

			assert_true(same(stx_scalar_from_bits(t, b), v));
			if (!isnan(v))
				assert_int_equal(stx_scalar_bits(t, v), b);
			assert_true(same(stx_scalar_round(t, v), v));
		}
	}
}

/* Non-negative finite values of a format in order; their patterns are 0, 1, 2, ... */
static const double *values_in_order(enum stx_dtype t, unsigned *n)
{
	static double at[STX_DTYPE_COUNT][32768];
	static unsigned count[STX_DTYPE_COUNT];

	if (count[t] == 0)
		while (count[t] < 1u << (8 * stx_dtype_bytes(t) - 1) &&
		       isfinite(value_of(t, count[t]))) {
			at[t][count[t]] = value_of(t, count[t]);
			count[t]++;
		}
	*n = count[t];
	return at[t];
}

/* Nearest value of the format to v >= 0, ties to the even pattern; beyond the largest by half a
 * step or more: what overflow gives. */
static double nearest(enum stx_dtype t, __float128 v)
{
	struct layout l = layout_of(t);
	unsigned n, lo = 0, hi;
	const double *at = values_in_order(t, &n);
	double top = at[n - 1], step = top - at[n - 2], d = (double)v;

	if (v >= (__float128)top + step / 2)
		return l.fn || l.nuz ? NAN : INFINITY;
	if (v > top)
		return top;
	for (hi = n - 1; hi - lo > 1;) {
		unsigned mid = (lo + hi) / 2;

		if (at[mid] < d || (at[mid] == d && at[mid] <= v))
			lo = mid;
		else
			hi = mid;
	}
	__float128 a = v - (__float128)at[lo], b = (__float128)at[hi] - v;

	return a < b || (a == b && lo % 2 == 0) ? at[lo] : at[hi];
}

static void check_round(enum stx_dtype t, double v)
{
	double want = nearest(t, fabs(v)), got = stx_scalar_round(t, v);

	if (v < 0 && !isnan(want) && !(want == 0 && layout_of(t).nuz))
		want = -want;
	if (!same(got, want))
		fail_msg("%s of %a is %a, wanted %a", stx_dtype_name(t), v, got, want);
}

/* B39 generalised: values at, and just beside, every midpoint; random doubles */
static void test_prim_eval_small_formats_round_once(void **s)
{
	print_message("seed %llx\n", (unsigned long long)seed);
	(void)s;
	for (size_t k = 0; k < sizeof small / sizeof *small; k++) {
		enum stx_dtype t = small[k];
		unsigned n;
		const double *at = values_in_order(t, &n);

		for (unsigned b = 0; b + 1 < n; b++) {
			double mid = (at[b] + at[b + 1]) / 2;

			if (n > 1000 && b % 7 && b > 40)
				continue;
			check_round(t, mid);
			check_round(t, nextafter(mid, INFINITY));
			check_round(t, -nextafter(mid, 0));
		}
		for (int i = 0; i < 3000; i++)
			check_round(t, ldexp((double)(int64_t)rnd(), (int)(rnd() % 60) - 100));
		check_round(t, at[n - 1] * 1.01);
		check_round(t, 0x1.fffffffffffffp1023);
		assert_true(isnan(stx_scalar_round(t, NAN)));
	}
	assert_true(stx_scalar_round(STX_F16, 1 + 0x1p-11 + 0x1p-30) == 1.0009765625);
	assert_true(stx_scalar_round(STX_F16, 0x1p-25 * (1 + 0x1p-30)) == 0x1p-24);
	assert_true(stx_scalar_round(STX_BF16, 1. / 3) == 0.333984375);
}

static void test_prim_eval_integer_to_float_rounds_once(void **s)
{
	print_message("seed %llx\n", (unsigned long long)seed);
	(void)s;
	for (int i = 0; i < 20000; i++) {
		int64_t v = (int64_t)rnd() >> rnd() % 63;
		uint64_t w = rnd() >> rnd() % 63;

		if (i % 3 == 0) /* near a midpoint of f32 and bf16 */
			v = ((v & ~(int64_t)0xfffff) | (i % 2)) ^ ((int64_t)1 << 30);
		for (size_t k = 0; k < 2; k++) {
			double want = nearest(small[k], v < 0 ? -(__float128)v : (__float128)v);

			assert_true(cast(small[k], STX_I64, i_(v)).f == (v < 0 ? -want : want));
			assert_true(cast(small[k], STX_U64, u_(w)).f ==
				    nearest(small[k], (__float128)w));
		}
		assert_true(cast(STX_F32, STX_I64, i_(v)).f == (float)(long double)v);
		assert_true(cast(STX_F64, STX_U64, u_(w)).f == (double)(long double)w);
	}
	/* a double in between would make a tie of this */
	assert_true(cast(STX_F32, STX_I64, i_(((int64_t)1 << 60) + ((int64_t)1 << 36) + 1)).f ==
		    0x1.000002p60);
	assert_true(cast(STX_BF16, STX_I64, i_(((int64_t)1 << 62) + ((int64_t)1 << 54) + 1)).f ==
		    0x1.02p62);
}

/* ---- casts from floats ---- */

/* B35 and the edges of every integer type */
static void test_prim_eval_float_to_integer_policy(void **s)
{
	const double x[] = { 300,  NAN,          INFINITY,    -INFINITY, 50, -50,
			     -129, (float)127.9, (float)-0.9, 255.5,     256 };
	const int8_t i8[] = { 44, 0, 0, 0, 50, -50, 127, 127, 0, -1, 0 };
	const uint8_t u8[] = { 44, 0, 0, 0, 50, 206, 127, 127, 0, 255, 0 };

	(void)s;
	for (int i = 0; i < 11; i++) {
		assert_int_equal(cast(STX_I8, STX_F32, f_(x[i])).i, i8[i]);
		assert_int_equal(cast(STX_U8, STX_F32, f_(x[i])).u, u8[i]);
	}
	assert_int_equal(cast(STX_I16, STX_F64, f_(-0x1p31)).i, 0); /* -2^31 fits i32: low bits */
	assert_int_equal(cast(STX_U16, STX_F64, f_(0x1p31 - 1)).u, 65535);
	assert_int_equal(cast(STX_U16, STX_F64, f_(0x1p31)).u, 0);        /* out of range of i32 */
	assert_int_equal(cast(STX_I16, STX_F64, f_(-0x1p31 - 0.5)).i, 0); /* truncates into range */
	assert_int_equal(cast(STX_I32, STX_F32, f_(0x1p31)).i, INT32_MAX);
	assert_int_equal(cast(STX_I32, STX_F32, f_(-INFINITY)).i, INT32_MIN);
	assert_int_equal(cast(STX_I32, STX_F64, f_(-2147483648.9)).i, INT32_MIN);
	assert_int_equal(cast(STX_I32, STX_F32, f_(NAN)).i, 0);
	assert_true(cast(STX_I64, STX_F64, f_(0x1p63)).i == INT64_MAX &&
		    cast(STX_I64, STX_F64, f_(-0x1p64)).i == INT64_MIN);
	assert_true(cast(STX_I64, STX_F64, f_(0x1.fffffffffffffp62)).i == 0x7ffffffffffffc00);
	assert_true(cast(STX_U32, STX_F64, f_(-3)).u == 0 &&
		    cast(STX_U32, STX_F64, f_(0x1p33)).u == UINT32_MAX);
	assert_true(cast(STX_U64, STX_F64, f_(0x1p64)).u == UINT64_MAX &&
		    cast(STX_U64, STX_F64, f_(-0.9)).u == 0);
	assert_true(cast(STX_U64, STX_F64, f_(0x1p63)).u == (uint64_t)1 << 63 &&
		    cast(STX_U64, STX_F64, f_(NAN)).u == 0);
	assert_true(cast(STX_BOOL, STX_F32, f_(NAN)).i == 1 &&
		    cast(STX_BOOL, STX_F32, f_(-0.0)).i == 0);
	assert_true(cast(STX_BOOL, STX_I64, i_((int64_t)1 << 40)).i == 1 &&
		    cast(STX_F16, STX_BOOL, i_(1)).f == 1);
	assert_true(cast(STX_I8, STX_I64, i_(300)).i == 44 &&
		    cast(STX_U64, STX_I8, i_(-1)).u == UINT64_MAX);
}

/* ---- float arithmetic ---- */

static double random_in(enum stx_dtype t)
{
	switch (rnd() % 8) {
	case 0: return (double)(int)(rnd() % 5) - 2;
	case 1: return rnd() % 2 ? 0.0 : -0.0;
	default: return stx_scalar_round(t, ldexp((double)(int64_t)rnd(), (int)(rnd() % 24) - 75));
	}
}

/* f16 and bf16 sums, products, quotients, roots, FMA are the nearest value to the exact result. */
static void test_prim_eval_half_arithmetic_is_correctly_rounded(void **s)
{
	print_message("seed %llx\n", (unsigned long long)seed);
	(void)s;
	for (int i = 0; i < 20000; i++) {
		enum stx_dtype t = small[i % 2];
		double a = random_in(t), b = random_in(t), c = random_in(t);
		static const enum stx_prim ops[] = { STX_P_ADD, STX_P_SUB, STX_P_MUL, STX_P_DIV,
						     STX_P_FMA };
		__float128 exact[] = { (__float128)a + b, (__float128)a - b, (__float128)a * b,
				       b ? (__float128)a / b : 1, (__float128)a * b + c };

		for (int k = 0; k < 5; k++) {
			double got = stx_prim_eval(ops[k], t, t, f_(a), f_(b), f_(c)).f, want;

			if (ops[k] == STX_P_DIV && b == 0)
				continue;
			want = nearest(t, exact[k] < 0 ? -exact[k] : exact[k]);
			if (fabs(got) != want)
				fail_msg("%d on %s: %a %a %a gives %a, wanted %a", ops[k],
					 stx_dtype_name(t), a, b, c, got, want);
		}
	}
}

static void test_prim_eval_f32_arithmetic_is_single(void **s)
{
	(void)s;
	for (int i = 0; i < 20000; i++) {
		float a = (float)random_in(STX_F32), b = (float)random_in(STX_F32),
		      c = (float)random_in(STX_F32);

		assert_true(
			same(eval2(STX_P_MUL, STX_F32, f_(a), f_(b)).f, (float)((double)a * b)));
		assert_true(
			same(eval2(STX_P_ADD, STX_F32, f_(a), f_(b)).f, (float)((double)a + b)));
		assert_true(
			fabs(stx_prim_eval(STX_P_FMA, STX_F32, STX_F32, f_(a), f_(b), f_(c)).f) ==
			fabsf((float)((__float128)a * b + c)));
	}
	/* SE-06: rounding between the product and the difference */
	double x = 1 + 0x1p-12, p = eval2(STX_P_MUL, STX_F32, f_(x), f_(x)).f;

	assert_true(eval2(STX_P_SUB, STX_F32, f_(p), f_(1 + 0x1p-11)).f == 0);
	assert_true(stx_prim_eval(STX_P_FMA, STX_F32, STX_F32, f_(x), f_(x), f_(-1 - 0x1p-11)).f ==
		    0x1p-24);
	/* OP-06 */
	p = eval2(STX_P_ADD, STX_F32, f_(1e20f), f_(-1e20f)).f;
	assert_true(eval2(STX_P_ADD, STX_F32, f_(p), f_(1)).f == 1);
	p = eval2(STX_P_ADD, STX_F32, f_(-1e20f), f_(1)).f;
	assert_true(eval2(STX_P_ADD, STX_F32, f_(1e20f), f_(p)).f == 0);
	/* subnormals are kept (B53) */
	assert_true(eval2(STX_P_MUL, STX_F32, f_(0x1p-100), f_(0x1p-49)).f == 0x1p-149);
	assert_true(eval2(STX_P_ADD, STX_F32, f_(0x1p-149), f_(0)).f == 0x1p-149);
}

static void test_prim_eval_max_min_nan_and_zero(void **s)
{
	const enum stx_dtype types[] = { STX_F16, STX_BF16, STX_F32, STX_F64 };

	(void)s;
	for (int k = 0; k < 4; k++) {
		enum stx_dtype t = types[k];

		assert_true(isnan(eval2(STX_P_MAX, t, f_(NAN), f_(1)).f) &&
			    isnan(eval2(STX_P_MAX, t, f_(1), f_(NAN)).f));
		assert_true(isnan(eval2(STX_P_MIN, t, f_(NAN), f_(INFINITY)).f) &&
			    isnan(eval2(STX_P_MIN, t, f_(-INFINITY), f_(NAN)).f));
		assert_true(same(eval2(STX_P_MAX, t, f_(-0.0), f_(0)).f, 0) &&
			    same(eval2(STX_P_MAX, t, f_(0), f_(-0.0)).f, 0));
		assert_true(same(eval2(STX_P_MIN, t, f_(-0.0), f_(0)).f, -0.0) &&
			    same(eval2(STX_P_MIN, t, f_(0), f_(-0.0)).f, -0.0));
		assert_true(stx_prim_eval(STX_P_NE, STX_BOOL, t, f_(NAN), f_(NAN), f_(0)).i == 1);
		assert_true(stx_prim_eval(STX_P_LE, STX_BOOL, t, f_(NAN), f_(NAN), f_(0)).i == 0);
		assert_true(stx_prim_eval(STX_P_ISNAN, STX_BOOL, t, f_(NAN), f_(0), f_(0)).i == 1);
		assert_true(isnan(eval2(STX_P_REM, t, f_(1), f_(0)).f) &&
			    eval2(STX_P_REM, t, f_(-7), f_(2)).f == -1);
		assert_true(same(eval2(STX_P_RINT, t, f_(2.5), f_(0)).f, 2) &&
			    same(eval2(STX_P_RINT, t, f_(-0.5), f_(0)).f, -0.0));
		assert_true(isnan(eval2(STX_P_SQRT, t, f_(-1), f_(0)).f) &&
			    same(eval2(STX_P_SQRT, t, f_(-0.0), f_(0)).f, -0.0));
	}
}

static void test_prim_eval_bitcast_round_trips(void **s)
{
	(void)s;
	for (int i = 0; i < 5000; i++) {
		uint32_t u = (uint32_t)rnd();
		union stx_scalar f =
			stx_prim_eval(STX_P_BITCAST, STX_F32, STX_U32, u_(u), u_(0), u_(0));
		float want;

		memcpy(&want, &u, 4);
		assert_true(same(f.f, want));
		if (!isnan(want))
			assert_true(
				stx_prim_eval(STX_P_BITCAST, STX_I32, STX_F32, f, u_(0), u_(0)).i ==
				(int32_t)u);
	}
	assert_true(stx_prim_eval(STX_P_BITCAST, STX_I64, STX_F64, f_(-0.0), u_(0), u_(0)).i ==
		    INT64_MIN);
	assert_true(stx_prim_eval(STX_P_BITCAST, STX_U16, STX_F16, f_(1), u_(0), u_(0)).u ==
		    0x3c00);
}

static void test_prim_eval_memory_round_trips(void **s)
{
	uint8_t buf[16];

	(void)s;
	for (int t = 0; t < STX_DTYPE_COUNT; t++) {
		union stx_scalar one = stx_dtype_is_float((enum stx_dtype)t) ? f_(1) : u_(1), back;

		memset(buf, 0xaa, sizeof buf);
		stx_scalar_store((enum stx_dtype)t, buf + 1, one);
		assert_true(buf[0] == 0xaa && buf[1 + stx_dtype_bytes((enum stx_dtype)t)] == 0xaa);
		back = stx_scalar_load((enum stx_dtype)t, buf + 1);
		assert_true(back.u == one.u);
	}
	buf[0] = 2; /* any non-zero byte is true */
	assert_true(stx_scalar_load(STX_BOOL, buf).i == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_prim_eval_all_i8_pairs_match_definition),
		cmocka_unit_test(test_prim_eval_all_u8_pairs_match_definition),
		cmocka_unit_test(test_prim_eval_integer_edges_never_trap),
		cmocka_unit_test(test_prim_eval_integer_power),
		cmocka_unit_test(test_prim_eval_small_formats_decode_every_pattern),
		cmocka_unit_test(test_prim_eval_small_formats_round_once),
		cmocka_unit_test(test_prim_eval_integer_to_float_rounds_once),
		cmocka_unit_test(test_prim_eval_float_to_integer_policy),
		cmocka_unit_test(test_prim_eval_half_arithmetic_is_correctly_rounded),
		cmocka_unit_test(test_prim_eval_f32_arithmetic_is_single),
		cmocka_unit_test(test_prim_eval_max_min_nan_and_zero),
		cmocka_unit_test(test_prim_eval_bitcast_round_trips),
		cmocka_unit_test(test_prim_eval_memory_round_trips),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
