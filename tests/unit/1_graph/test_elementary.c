/* Elementary functions: special values, edges, and the shape of the bodies. Their errors are measured
 * on compiled code, by unit/5_codegen/test_functions.c. */
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
		{ STX_P_ERFC, 0, 1 },
		{ STX_P_ERFC, -0.0, 1 },
		{ STX_P_ERFC, INFINITY, 0 },
		{ STX_P_ERFC, -INFINITY, 2 },
		{ STX_P_ERFC, 30, 0 },
		{ STX_P_ERFC, -30, 2 },
		{ STX_P_SOFTPLUS, INFINITY, INFINITY },
		{ STX_P_SOFTPLUS, -INFINITY, 0 },
		{ STX_P_SOFTPLUS, 1000, 1000 },
		{ STX_P_SOFTPLUS, -1000, 0 },
		{ STX_P_CBRT, 0, 0 },
		{ STX_P_CBRT, -0.0, -0.0 },
		{ STX_P_CBRT, -8, -2 },
		{ STX_P_CBRT, 0x1p-126, 0x1p-42 },
		{ STX_P_CBRT, INFINITY, INFINITY },
		{ STX_P_CBRT, -INFINITY, -INFINITY },
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
		{ STX_P_SHORT_EXP, 0, 1 },
		{ STX_P_SHORT_EXP, INFINITY, INFINITY },
		{ STX_P_SHORT_EXP, -INFINITY, 0 },
		{ STX_P_SHORT_EXP, 1000, INFINITY },
		{ STX_P_SHORT_SIGMOID, 0, 0.5 },
		{ STX_P_SHORT_SIGMOID, INFINITY, 1 },
		{ STX_P_SHORT_SIGMOID, -INFINITY, 0 },
		{ STX_P_SHORT_SIGMOID, -1000, 0 },
		{ STX_P_SHORT_TANH, -0.0, -0.0 },
		{ STX_P_SHORT_TANH, INFINITY, 1 },
		{ STX_P_SHORT_TANH, -INFINITY, -1 },
		{ STX_P_SHORT_ERF, -0.0, -0.0 },
		{ STX_P_SHORT_ERF, -INFINITY, -1 },
		{ STX_P_SHORT_SOFTPLUS, INFINITY, INFINITY },
		{ STX_P_SHORT_SOFTPLUS, -INFINITY, 0 },
		{ STX_P_SHORT_SOFTPLUS, 1000, 1000 },
		{ STX_P_SHORT_CDF, 0, 0.5 },
		{ STX_P_SHORT_CDF, INFINITY, 1 },
		{ STX_P_SHORT_CDF, -INFINITY, 0 },
		{ STX_P_SHORT_CDF, -1e30, 0 },
		{ STX_P_SHORT_SLOPE, 1000, 1 },
		{ STX_P_NEAR_SIGMOID, 0, 0.5 },
		{ STX_P_NEAR_SIGMOID, INFINITY, 1 },
		{ STX_P_NEAR_SIGMOID, -INFINITY, 0 },
		{ STX_P_NEAR_SIGMOID, -1e30, 0 },
		{ STX_P_NEAR_ERF, -0.0, -0.0 },
		{ STX_P_NEAR_ERF, INFINITY, 1 },
		{ STX_P_NEAR_ERF, -INFINITY, -1 },
		{ STX_P_NEAR_ERF, -1e30, -1 },
		{ STX_P_RSQRT, 4, 0.5 },
		{ STX_P_RSQRT, 0, INFINITY },
		{ STX_P_RSQRT, -0.0, -INFINITY },
		{ STX_P_RSQRT, INFINITY, 0 },
		{ STX_P_RSQRT, -1, NAN },
	};

	(void)s;
	for (int k = 0; k < 3; k++) { /* bf16: shorter forms */
		enum stx_dtype t = k == 2 ? STX_BF16 : k ? STX_F64 : STX_F32;

		for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
			double x = k == 2 ? stx_scalar_round(t, table[i].x) : table[i].x,
			       got = stx_prim_eval(table[i].op, t, t, f_(x), f_(0), f_(0)).f;

			if (!same(got, k == 2 ? stx_scalar_round(t, table[i].want) : table[i].want))
				fail_msg("%s %d(%g) is %g, wanted %g", stx_dtype_name(t),
					 table[i].op, table[i].x, got, table[i].want);
		}
		for (int op = STX_P_FIRST_ELEMENTARY; op < STX_PRIM_COUNT; op++)
			assert_true(op == STX_P_POW || isnan(stx_prim_eval((enum stx_prim)op, t, t,
									   f_(NAN), f_(0), f_(0))
								     .f));
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
				int ok = same(got, want) ||
					 (!isnan(got) && isfinite(want) && want != 0 &&
					  fabsl(got - w) <= ulp(t, w));

				if (!ok)
					fail_msg("%s %s(%a, %a) is %a, wanted %a",
						 stx_dtype_name(t), k & 2 ? "atan2" : "pow", x, y,
						 got, want);
			}
	}
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

/* ---- operands of rcp and ratio ---- */

static int is_moderate(double v, double least)
{
	return fabs(v) >= least && fabs(v) < 0x1p126;
}

/* prims.def: where the steps of a division give its bits, as GPU code takes them. Of a negative zero
 * they lose the sign. */
static void operands_are_moderate(enum stx_prim op, const struct stx_elem_program *p,
				  union stx_scalar x, union stx_scalar y)
{
	union stx_scalar v[STX_ELEM_MAX];

	stx_elementary_values(p, x, y, v);
	for (uint32_t i = 0; i < p->n; i++) {
		const struct stx_elem_inst *q = &p->at[i];
		double a = v[q->a].f, b = v[q->b].f;

		if (q->dtype != STX_F32 || (q->op != STX_P_RCP && q->op != STX_P_RATIO))
			continue;
		if (isnan(a) || (q->op == STX_P_RATIO && isnan(b)))
			continue;
		if (is_moderate(q->op == STX_P_RCP ? a : b, 0x1p-126) &&
		    (q->op == STX_P_RCP || (a == 0 && !signbit(a)) ||
		     (is_moderate(a, 0x1p-100) && is_moderate(a / b, 0x1p-126))))
			continue;
		fail_msg("%s(%a): %s of %a and %a", stx_prim_info(op)->text, x.f,
			 stx_prim_info((enum stx_prim)q->op)->text, a, b);
	}
}

static void test_elementary_operands_of_short_divisions_are_moderate(void **s)
{
	struct stx_arena *arena = stx_arena_new(0);
	int found = 0;

	(void)s;
	for (int op = STX_P_FIRST_ELEMENTARY; op < STX_PRIM_COUNT; op++) {
		const struct stx_elem_program *p =
			stx_elementary_record(arena, (enum stx_prim)op, STX_F32);
		int has = 0;

		for (uint32_t i = 0; i < p->n; i++)
			has |= p->at[i].dtype == STX_F32 &&
			       (p->at[i].op == STX_P_RCP || p->at[i].op == STX_P_RATIO);
		found += has;
		for (uint32_t i = 0; has && i < 1 << 15; i++) { /* each exponent, its ends too */
			uint32_t low = i & 63, bits = i >> 6 << 23;
			union {
				uint32_t u;
				float f;
			} x = { bits | (low < 2   ? low
					: low < 4 ? 0x800000 - low + 1
						  : (uint32_t)rnd() >> 9) };

			operands_are_moderate((enum stx_prim)op, p, f_((double)x.f), f_(1));
		}
	}
	assert_true(found >= 8);
	stx_arena_free(arena);
}

/* Of x/sqrt 2: 1 at most, to 2^-21; odd. */
static void test_elementary_near_erf_error_is_absolute(void **s)
{
	double worst = 0;

	(void)s;
	for (int i = 0; i < 1 << 18; i++) {
		union stx_scalar x = f_((float)(i * 0x1p-15 * (1 + (i % 3) * 0x1p-20)));
		double y = stx_prim_eval(STX_P_NEAR_ERF, STX_F32, STX_F32, x, x, x).f;
		union stx_scalar m = f_(-x.f);

		assert_true(y <= 1 && y >= 0);
		assert_true(stx_prim_eval(STX_P_NEAR_ERF, STX_F32, STX_F32, m, m, m).f == -y);
		worst = fmax(worst, fabs(y - erf(x.f * 0.70710678118654752440)));
	}
	assert_true(worst <= 0x1p-21);
}

/* The shorter forms are those of what f16 or bf16 round, nothing else's. */
static void test_elementary_short_forms_by_result(void **s)
{
	(void)s;
	for (int t = 0; t < STX_DTYPE_COUNT; t++) {
		int is_short = t == STX_F16 || t == STX_BF16;

		assert_int_equal(stx_elementary_for(STX_P_EXP, (enum stx_dtype)t),
				 is_short ? STX_P_SHORT_EXP : STX_P_EXP);
		assert_int_equal(stx_elementary_for(STX_P_SIGMOID, (enum stx_dtype)t),
				 is_short ? STX_P_SHORT_SIGMOID : STX_P_SIGMOID);
		assert_int_equal(stx_elementary_for(STX_P_TANH, (enum stx_dtype)t),
				 is_short ? STX_P_SHORT_TANH : STX_P_TANH);
		assert_int_equal(stx_elementary_for(STX_P_LOG, (enum stx_dtype)t),
				 is_short ? STX_P_SHORT_LOG : STX_P_LOG);
		assert_int_equal(stx_elementary_for(STX_P_POW, (enum stx_dtype)t), STX_P_POW);
		assert_int_equal(stx_elementary_for(STX_P_ADD, (enum stx_dtype)t), STX_P_ADD);
	}
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
		cmocka_unit_test(test_elementary_special_values),
		cmocka_unit_test(test_elementary_subnormals_and_edges),
		cmocka_unit_test(test_elementary_sine_of_arctangent),
		cmocka_unit_test(test_elementary_pow_and_atan2_edges),
		cmocka_unit_test(test_elementary_bodies_use_cheap_exact_primitives),
		cmocka_unit_test(test_elementary_operands_of_short_divisions_are_moderate),
		cmocka_unit_test(test_elementary_near_erf_error_is_absolute),
		cmocka_unit_test(test_elementary_short_forms_by_result),
		cmocka_unit_test(test_elementary_forms_of_evaluation_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
