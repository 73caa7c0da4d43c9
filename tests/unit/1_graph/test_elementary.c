/* Elementary functions against the C library in extended precision: largest errors over sweeps of
 * f32 bit patterns and f64 ranges, special values, and the shape of the bodies.
 *
 * STX_FUNCTION_POINTS sets the points a function (default 150000; 4294967296 visits every f32). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include "elementary.h"
#include "scalar.h"

typedef long double wide;

static wide sigmoid_ref(wide x)
{
	return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}
static wide rsqrt_ref(wide x)
{
	return 1 / sqrtl(x);
}
static wide relu_ref(wide x)
{
	return x != x || x > 0 ? x : 0;
}

/* Allowed error in ulp, f32 and f64 (NUMERICS.md states the same numbers); range64: f64 arguments
 * are below this magnitude (0: any). */
static const struct function {
	const char *name;
	enum stx_prim op;
	wide (*ref)(wide);
	double max32, max64, range64;
} functions[] = {
	/* name     op             ref          f32   f64   f64 range */
	{ "relu", STX_P_RELU, relu_ref, 0, 0, 0 },
	{ "exp", STX_P_EXP, expl, 0.9, 0.9, 0 },
	{ "exp2", STX_P_EXP2, exp2l, 0.9, 0.9, 0 },
	{ "expm1", STX_P_EXPM1, expm1l, 1.2, 1.2, 0 },
	{ "log", STX_P_LOG, logl, 0.85, 0.85, 0 },
	{ "log2", STX_P_LOG2, log2l, 0.51, 0.9, 0 },
	{ "log10", STX_P_LOG10, log10l, 0.51, 0.9, 0 },
	{ "log1p", STX_P_LOG1P, log1pl, 0.51, 0.9, 0 },
	{ "tanh", STX_P_TANH, tanhl, 1.5, 1.5, 0 },
	{ "sigmoid", STX_P_SIGMOID, sigmoid_ref, 0.51, 1.5, 0 },
	{ "erf", STX_P_ERF, erfl, 1.35, 1.35, 0 },
	{ "sin", STX_P_SIN, sinl, 0.6, 0.85, 0x1p41 },
	{ "cos", STX_P_COS, cosl, 0.6, 0.85, 0x1p41 },
	{ "tan", STX_P_TAN, tanl, 0.6, 1.6, 0x1p41 },
	{ "asin", STX_P_ASIN, asinl, 0.51, 0.75, 0 },
	{ "acos", STX_P_ACOS, acosl, 0.51, 1.1, 0 },
	{ "atan", STX_P_ATAN, atanl, 0.51, 0.9, 0 },
	{ "sinh", STX_P_SINH, sinhl, 0.51, 1.7, 0 },
	{ "cosh", STX_P_COSH, coshl, 1.4, 1.4, 0 },
	{ "asinh", STX_P_ASINH, asinhl, 0.51, 1.3, 0 },
	{ "acosh", STX_P_ACOSH, acoshl, 0.51, 1.7, 0 },
	{ "atanh", STX_P_ATANH, atanhl, 0.51, 1.35, 0 },
	{ "rsqrt", STX_P_RSQRT, rsqrt_ref, 0.51, 1.55, 0 },
};
#define NFUNCTIONS (sizeof functions / sizeof *functions)

static uint64_t seed = 0x13198a2e03707344u;

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

/* Distance between neighbours of type t around v. */
static wide ulp(enum stx_dtype t, wide v)
{
	int e, bits = t == STX_F32 ? 24 : 53, least = t == STX_F32 ? -149 : -1074;

	frexpl(v, &e);
	e -= bits;
	return ldexpl(1, v == 0 || e < least ? least : e);
}

/* Error in ulp. A result that is infinite where the exact one rounds so, or NaN for NaN, is no
 * error; a wrong sign of zero is. */
static double error_of(enum stx_dtype t, double got, wide want)
{
	wide top = t == STX_F32 ? 0x1.fffffep127L : 0x1.fffffffffffffp1023L;

	if (isnan(want) || isnan(got))
		return isnan(want) && isnan(got) ? 0 : INFINITY;
	if (got == 0 && want == 0)
		return signbit(got) == signbit(want) ? 0 : INFINITY;
	if (isinf(got)) /* as if the exponent went on */
		return (got > 0) == (want > 0) && fabsl(want) > top - ulp(t, top) ? 0.5 : INFINITY;
	if (isinf(want))
		return INFINITY;
	return (double)(fabsl(got - want) / ulp(t, fabsl(want) > top ? top : want));
}

static size_t points(void)
{
	const char *s = getenv("STX_FUNCTION_POINTS");

	return s ? (size_t)strtoull(s, NULL, 10) : 150000;
}

struct worst {
	double err, at;
};

static void measure(const struct function *fn, enum stx_dtype t, const struct stx_elem_program *p,
		    const double *x, size_t n, struct worst *w)
{
	union stx_scalar in[256] = { 0 }, out[256];

	for (size_t i = 0; i < n; i++)
		in[i].f = x[i];
	stx_elementary_eval_n(p, in, in, out, n);
	for (size_t i = 0; i < n; i++) {
		double e = error_of(t, out[i].f, fn->ref(x[i]));

		if (e > w->err)
			*w = (struct worst){ e, x[i] };
	}
}

/* 1 when the limit is exceeded */
static int report(const struct function *fn, const char *t, const struct stx_elem_program *p,
		  struct worst w, double max)
{
	print_message("%s %-8s %3u instructions, largest error %.3f ulp at %a (allowed %.2f)\n", t,
		      fn->name, p->n, w.err, w.at, max);
	return !(w.err <= max);
}

/* Bit patterns at a constant stride with jitter: every exponent, both signs, NaN, infinities,
 * subnormals. */
static void test_elementary_f32_errors_stay_below_limit(void **s)
{
	struct stx_arena *a = stx_arena_new(0);
	size_t n = points();
	int failed = 0;

	(void)s;
	print_message("seed %llx\n", (unsigned long long)seed);
	for (size_t k = 0; k < NFUNCTIONS; k++) {
		const struct stx_elem_program *p =
			stx_elementary_record(a, functions[k].op, STX_F32);
		uint64_t stride = n >= (uint64_t)1 << 32 ? 1 : ((uint64_t)1 << 32) / n;
		struct worst w = { 0, 0 };
		double x[256];
		size_t m = 0;

		assert_non_null(p);
		for (uint64_t u = 0; u >> 32 == 0; u += stride) {
			x[m++] = stx_scalar_from_bits(STX_F32,
						      u + (stride > 1 ? rnd() % stride : 0));
			if (m == 256 || (u + stride) >> 32) {
				measure(&functions[k], STX_F32, p, x, m, &w);
				m = 0;
			}
		}
		failed += report(&functions[k], "f32", p, w, functions[k].max32);
	}
	stx_arena_free(a);
	assert_int_equal(failed, 0);
}

/* A third each: any bit pattern, uniform in a moderate range, logarithmic around 1. */
static double f64_point(const struct function *fn, size_t i)
{
	double u = (double)(rnd() >> 11) * 0x1p-53, sign = rnd() & 1 ? -1 : 1, x;

	switch (i % 3) {
	case 0: x = stx_scalar_from_bits(STX_F64, rnd()); break;
	case 1: x = sign * u * ldexp(1, (int)(rnd() % 11)); break;
	default: x = sign * ldexp(1 + u, (int)(rnd() % 60) - 50); break;
	}
	return fn->range64 > 0 && !(fabs(x) < fn->range64) ? sign * u * fn->range64 : x;
}

static void test_elementary_f64_errors_stay_below_limit(void **s)
{
	struct stx_arena *a = stx_arena_new(0);
	size_t n = points() > 20000000 ? 20000000 : points();
	int failed = 0;

	(void)s;
	print_message("seed %llx\n", (unsigned long long)seed);
	for (size_t k = 0; k < NFUNCTIONS; k++) {
		const struct stx_elem_program *p =
			stx_elementary_record(a, functions[k].op, STX_F64);
		struct worst w = { 0, 0 };
		double x[256];

		assert_non_null(p);
		for (size_t i = 0; i < n; i += 256) {
			for (size_t j = 0; j < 256; j++)
				x[j] = f64_point(&functions[k], i + j);
			measure(&functions[k], STX_F64, p, x, 256, &w);
		}
		failed += report(&functions[k], "f64", p, w, functions[k].max64);
	}
	stx_arena_free(a);
	assert_int_equal(failed, 0);
}

/* ---- special values: the same for f32 and f64 ---- */

static int same(double a, double b)
{
	return isnan(a) ? isnan(b) : a == b && !signbit(a) == !signbit(b);
}

static void test_elementary_special_values(void **s)
{
	static const struct {
		enum stx_prim op;
		double x, want;
	} table[] = {
		{ STX_P_RELU, -0.0, 0 },
		{ STX_P_RELU, -1, 0 },
		{ STX_P_EXP, 0, 1 },
		{ STX_P_EXP, -0.0, 1 },
		{ STX_P_EXP, INFINITY, INFINITY },
		{ STX_P_EXP, -INFINITY, 0 },
		{ STX_P_EXP, 1000, INFINITY },
		{ STX_P_EXP, -1000, 0 },
		{ STX_P_EXP2, 10, 1024 },
		{ STX_P_EXP2, -1, 0.5 },
		{ STX_P_EXP2, INFINITY, INFINITY },
		{ STX_P_EXP2, -INFINITY, 0 },
		{ STX_P_EXPM1, 0, 0 },
		{ STX_P_EXPM1, -0.0, -0.0 },
		{ STX_P_EXPM1, INFINITY, INFINITY },
		{ STX_P_EXPM1, -INFINITY, -1 },
		{ STX_P_LOG, 1, 0 },
		{ STX_P_LOG, 0, -INFINITY },
		{ STX_P_LOG, -0.0, -INFINITY },
		{ STX_P_LOG, -1, NAN },
		{ STX_P_LOG, INFINITY, INFINITY },
		{ STX_P_LOG, -INFINITY, NAN },
		{ STX_P_LOG2, 1, 0 },
		{ STX_P_LOG2, 8, 3 },
		{ STX_P_LOG2, 0x1p-100, -100 },
		{ STX_P_LOG2, 0, -INFINITY },
		{ STX_P_LOG2, -1, NAN },
		{ STX_P_LOG10, 1, 0 },
		{ STX_P_LOG10, 1000, 3 },
		{ STX_P_LOG10, 0, -INFINITY },
		{ STX_P_LOG10, INFINITY, INFINITY },
		{ STX_P_LOG1P, 0, 0 },
		{ STX_P_LOG1P, -0.0, -0.0 },
		{ STX_P_LOG1P, -1, -INFINITY },
		{ STX_P_LOG1P, -2, NAN },
		{ STX_P_LOG1P, INFINITY, INFINITY },
		{ STX_P_TANH, -0.0, -0.0 },
		{ STX_P_TANH, INFINITY, 1 },
		{ STX_P_TANH, -INFINITY, -1 },
		{ STX_P_TANH, 50, 1 },
		{ STX_P_SIGMOID, 0, 0.5 },
		{ STX_P_SIGMOID, INFINITY, 1 },
		{ STX_P_SIGMOID, -INFINITY, 0 },
		{ STX_P_ERF, -0.0, -0.0 },
		{ STX_P_ERF, INFINITY, 1 },
		{ STX_P_ERF, -INFINITY, -1 },
		{ STX_P_ERF, 7, 1 },
		{ STX_P_SIN, 0, 0 },
		{ STX_P_SIN, -0.0, -0.0 },
		{ STX_P_SIN, INFINITY, NAN },
		{ STX_P_COS, 0, 1 },
		{ STX_P_COS, -INFINITY, NAN },
		{ STX_P_TAN, -0.0, -0.0 },
		{ STX_P_TAN, INFINITY, NAN },
		{ STX_P_ASIN, -0.0, -0.0 },
		{ STX_P_ASIN, 2, NAN },
		{ STX_P_ASIN, -INFINITY, NAN },
		{ STX_P_ACOS, 1, 0 },
		{ STX_P_ACOS, -1.5, NAN },
		{ STX_P_ATAN, -0.0, -0.0 },
		{ STX_P_SINH, -0.0, -0.0 },
		{ STX_P_SINH, INFINITY, INFINITY },
		{ STX_P_SINH, -INFINITY, -INFINITY },
		{ STX_P_COSH, 0, 1 },
		{ STX_P_COSH, -INFINITY, INFINITY },
		{ STX_P_ASINH, -0.0, -0.0 },
		{ STX_P_ASINH, INFINITY, INFINITY },
		{ STX_P_ASINH, -INFINITY, -INFINITY },
		{ STX_P_ACOSH, 1, 0 },
		{ STX_P_ACOSH, 0.5, NAN },
		{ STX_P_ACOSH, -INFINITY, NAN },
		{ STX_P_ACOSH, INFINITY, INFINITY },
		{ STX_P_ATANH, -0.0, -0.0 },
		{ STX_P_ATANH, 1, INFINITY },
		{ STX_P_ATANH, -1, -INFINITY },
		{ STX_P_ATANH, 1.5, NAN },
		{ STX_P_ATANH, INFINITY, NAN },
		{ STX_P_RSQRT, 4, 0.5 },
		{ STX_P_RSQRT, 0, INFINITY },
		{ STX_P_RSQRT, -0.0, -INFINITY },
		{ STX_P_RSQRT, INFINITY, 0 },
		{ STX_P_RSQRT, -1, NAN },
	};

	(void)s;
	for (int k = 0; k < 2; k++) {
		enum stx_dtype t = k ? STX_F64 : STX_F32;

		for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
			double got =
				stx_prim_eval(table[i].op, t, t, f_(table[i].x), f_(0), f_(0)).f;

			if (!same(got, table[i].want))
				fail_msg("%s %d(%g) is %g, wanted %g", stx_dtype_name(t),
					 table[i].op, table[i].x, got, table[i].want);
		}
		for (size_t i = 0; i < NFUNCTIONS; i++)
			assert_true(isnan(
				stx_prim_eval(functions[i].op, t, t, f_(NAN), f_(0), f_(0)).f));
	}
}

/* B53, and the edges of overflow */
static void test_elementary_subnormals_and_edges(void **s)
{
	const double x[] = { -126, -127, -149, -150 }, want[] = { 0x1p-126, 0x1p-127, 0x1p-149, 0 };

	(void)s;
	for (int i = 0; i < 4; i++)
		assert_true(stx_prim_eval(STX_P_EXP2, STX_F32, STX_F32, f_(x[i]), f_(0), f_(0)).f ==
			    want[i]);
	assert_true(stx_prim_eval(STX_P_EXP2, STX_F64, STX_F64, f_(-1074), f_(0), f_(0)).f ==
		    0x1p-1074);
	assert_true(stx_prim_eval(STX_P_EXP, STX_F32, STX_F32, f_(0x1.62e42ep6), f_(0), f_(0)).f ==
		    0x1.ffff08p127);
	assert_true(isinf(
		stx_prim_eval(STX_P_EXP, STX_F32, STX_F32, f_(0x1.62e430p6), f_(0), f_(0)).f));
	/* logsigmoid(x) = -log1p(exp(-x)) */
	const double at[] = { 87, 88, 100 }, ls[] = { 1.6458115e-38, 6.054601e-39, 3.8e-44 };

	for (int i = 0; i < 3; i++) {
		union stx_scalar v =
			stx_prim_eval(STX_P_EXP, STX_F32, STX_F32, f_(-at[i]), f_(0), f_(0));

		v = stx_prim_eval(STX_P_LOG1P, STX_F32, STX_F32, v, f_(0), f_(0));
		assert_true(v.f > 0 && fabs(v.f - ls[i]) <= 0.02 * ls[i] &&
			    (i == 2 || fabs(v.f - ls[i]) <= 1e-6 * ls[i]));
	}
	assert_true(stx_prim_eval(STX_P_LOG, STX_F32, STX_F32, f_(0x1p-149), f_(0), f_(0)).f ==
		    (float)(-149 * 0.6931471805599453));
	assert_true(stx_prim_eval(STX_P_SIGMOID, STX_F32, STX_F32, f_(-100), f_(0), f_(0)).f ==
		    0x1.bp-145);
}

/* B51 */
static void test_elementary_sine_of_arctangent(void **s)
{
	const double x[] = { NAN, INFINITY, -INFINITY, 0.5 }, want[] = { NAN, 1, -1, 0.4472136 };

	(void)s;
	for (int i = 0; i < 4; i++) {
		union stx_scalar v =
			stx_prim_eval(STX_P_ATAN, STX_F32, STX_F32, f_(x[i]), f_(0), f_(0));

		v = stx_prim_eval(STX_P_SIN, STX_F32, STX_F32, v, f_(0), f_(0));
		assert_true(isnan(want[i]) ? isnan(v.f) : fabs(v.f - want[i]) < 1e-7);
	}
}

/* ---- two operands ---- */

static const double edge[] = { 0.0,         -0.0,
			       1,           -1,
			       2,           -2,
			       3,           -3,
			       0.5,         -0.5,
			       INFINITY,    -INFINITY,
			       NAN,         0x1p100,
			       -0x1p100,    0x1p-100,
			       0x1p-149,    1.5,
			       -1.5,        1e10,
			       0x1p24 + 1,  0x1p53 + 1,
			       -7,          1 - 0x1p-24,
			       1 + 0x1p-23, 0x1.fffffep127,
			       127,         -150,
			       -149,        1024,
			       -1074,       -1075 };
#define NEDGES (sizeof edge / sizeof *edge)

/* C99 Annex F's cases are what powl and atan2l give. */
static void test_elementary_pow_and_atan2_edges(void **s)
{
	(void)s;
	for (int k = 0; k < 4; k++) {
		enum stx_dtype t = k & 1 ? STX_F64 : STX_F32;
		enum stx_prim op = k & 2 ? STX_P_ATAN2 : STX_P_POW;

		for (size_t i = 0; i < NEDGES; i++)
			for (size_t j = 0; j < NEDGES; j++) {
				double x = stx_scalar_round(t, edge[i]),
				       y = stx_scalar_round(t, edge[j]);
				wide w = op == STX_P_POW ? powl(x, y) : atan2l(x, y);
				double got = stx_prim_eval(op, t, t, f_(x), f_(y), f_(0)).f,
				       want = stx_scalar_round(t, (double)w);
				int ok = same(got, want) || (!isnan(got) && isfinite(want) &&
							     want != 0 && error_of(t, got, w) <= 1);

				if (!ok)
					fail_msg("%s %s(%a, %a) is %a, wanted %a",
						 stx_dtype_name(t), k & 2 ? "atan2" : "pow", x, y,
						 got, want);
			}
	}
}

static void test_elementary_pow_and_atan2_errors(void **s)
{
	struct stx_arena *a = stx_arena_new(0);

	(void)s;
	print_message("seed %llx\n", (unsigned long long)seed);
	for (int k = 0; k < 4; k++) {
		enum stx_dtype t = k & 1 ? STX_F64 : STX_F32;
		enum stx_prim op = k & 2 ? STX_P_ATAN2 : STX_P_POW;
		const struct stx_elem_program *p = stx_elementary_record(a, op, t);
		double worst = 0, wx = 0, wy = 0,
		       max = op == STX_P_POW ? (k & 1 ? 0.8 : 0.51)
			     : k & 1         ? 1.6
					     : 0.51;

		for (int i = 0; i < 60000; i++) {
			double u = (double)(rnd() >> 11) * 0x1p-53 * 2 - 1,
			       v = (double)(rnd() >> 11) * 0x1p-53 * 2 - 1;
			double spread = i % 3 == 0 ? 80 : i % 3 == 1 ? 4 : 0.004, e;
			double x = stx_scalar_round(
				t, exp(u * spread) * (op == STX_P_ATAN2 && rnd() % 2 ? -1 : 1));
			double y = stx_scalar_round(t, op == STX_P_POW
							       ? v * (k & 1 ? 700 : 85) / spread
							       : v * exp(u * 3));
			union stx_scalar r = stx_elementary_eval(p, f_(x), f_(y));

			e = error_of(t, r.f, op == STX_P_POW ? powl(x, y) : atan2l(x, y));
			if (e > worst) {
				worst = e;
				wx = x;
				wy = y;
			}
		}
		print_message("%s %-8s %3u instructions, largest error %.3f ulp at (%a, %a)\n",
			      stx_dtype_name(t), k & 2 ? "atan2" : "pow", p->n, worst, wx, wy);
		assert_true(worst <= max);
	}
	stx_arena_free(a);
}

/* ---- form ---- */

static int is_elementary(enum stx_prim op)
{
	return op >= STX_P_FIRST_ELEMENTARY;
}

/* Bodies hold no FMA, no nested elementary, no float-to-integer conversion, no integer division or
 * product. */
static void test_elementary_bodies_use_cheap_exact_primitives(void **s)
{
	struct stx_arena *a = stx_arena_new(0);

	(void)s;
	for (int op = STX_P_FIRST_ELEMENTARY; op < STX_PRIM_COUNT; op++)
		for (int k = 0; k < 2; k++) {
			enum stx_dtype t = k ? STX_F64 : STX_F32;
			const struct stx_elem_program *p =
				stx_elementary_record(a, (enum stx_prim)op, t);

			assert_non_null(p);
			assert_int_equal(p->at[p->result].dtype, t);
			for (uint32_t i = 0; i < p->n; i++) {
				const struct stx_elem_inst *q = &p->at[i];
				int is_int = q->dtype == STX_I32 || q->dtype == STX_I64;

				if (q->op >= STX_ELEM_CONST)
					continue;
				assert_true(q->a < i && q->b < i && q->c < i);
				assert_true(q->op != STX_P_FMA &&
					    !is_elementary((enum stx_prim)q->op));
				assert_false(
					q->op == STX_P_CAST &&
					(is_int ||
					 !stx_dtype_is_float((enum stx_dtype)p->at[q->a].dtype)));
				assert_false(is_int && (q->op == STX_P_MUL || q->op == STX_P_DIV ||
							q->op == STX_P_REM));
			}
		}
	assert_null(stx_elementary_record(a, STX_P_EXP, STX_I32));
	assert_null(stx_elementary_record(a, STX_P_ADD, STX_F32));
	assert_non_null(stx_elementary_record(a, STX_P_POW, STX_U64));
	stx_arena_free(a);
}

/* f16, bf16: through f32, rounded once; block, scalar and direct evaluation agree bit for bit. */
static void test_elementary_forms_of_evaluation_agree(void **s)
{
	const enum stx_dtype types[] = { STX_F16, STX_BF16, STX_F32, STX_F64 };
	struct stx_arena *a = stx_arena_new(0);

	(void)s;
	for (int op = STX_P_FIRST_ELEMENTARY; op < STX_PRIM_COUNT; op++)
		for (int k = 0; k < 4; k++) {
			enum stx_dtype t = types[k];
			const struct stx_elem_program *p =
				stx_elementary_record(a, (enum stx_prim)op, t);
			union stx_scalar x[37], y[37], r[37];

			for (int i = 0; i < 37; i++) {
				x[i].f = stx_scalar_round(
					t, i < (int)NEDGES ? edge[i]
							   : (double)(int64_t)rnd() * 0x1p-58);
				y[i].f = stx_scalar_round(t, (double)(int64_t)rnd() * 0x1p-58);
			}
			stx_elementary_eval_n(p, x, y, r, 37);
			for (int i = 0; i < 37; i++) {
				union stx_scalar one = stx_elementary_eval(p, x[i], y[i]);
				union stx_scalar direct =
					stx_prim_eval((enum stx_prim)op, t, t, x[i], y[i], y[i]);

				assert_true(same(one.f, r[i].f) && same(direct.f, r[i].f));
				if (k < 2) {
					union stx_scalar f =
						stx_prim_eval((enum stx_prim)op, STX_F32, STX_F32,
							      x[i], y[i], y[i]);

					assert_true(same(stx_scalar_round(t, f.f), r[i].f));
				}
			}
		}
	stx_arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_elementary_f32_errors_stay_below_limit),
		cmocka_unit_test(test_elementary_f64_errors_stay_below_limit),
		cmocka_unit_test(test_elementary_special_values),
		cmocka_unit_test(test_elementary_subnormals_and_edges),
		cmocka_unit_test(test_elementary_sine_of_arctangent),
		cmocka_unit_test(test_elementary_pow_and_atan2_edges),
		cmocka_unit_test(test_elementary_pow_and_atan2_errors),
		cmocka_unit_test(test_elementary_bodies_use_cheap_exact_primitives),
		cmocka_unit_test(test_elementary_forms_of_evaluation_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
