/* test_monoids.c: the table of reductions (RD-01, RD-15, B05). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "elementary.h"
#include "loops.h"

static union stx_scalar combine(enum stx_monoid m, enum stx_dtype t, union stx_scalar a,
				union stx_scalar b)
{
	const enum stx_prim ops[] = { [STX_MONOID_SUM] = STX_P_ADD,
				      [STX_MONOID_PROD] = STX_P_MUL,
				      [STX_MONOID_MAX] = STX_P_MAX,
				      [STX_MONOID_MIN] = STX_P_MIN };

	return stx_prim_eval(ops[m], t, t, a, b, b);
}

/* RD-01: sum 0, prod 1, max -inf, min +inf; on integers the ends of the type (B05). */
static void test_monoids_identities_are_as_stated(void **state)
{
	(void)state;
	assert_true(stx_monoid_identity(STX_MONOID_SUM, STX_F32).f == 0);
	assert_true(stx_monoid_identity(STX_MONOID_PROD, STX_F32).f == 1);
	assert_true(stx_monoid_identity(STX_MONOID_MAX, STX_F32).f == -INFINITY);
	assert_true(stx_monoid_identity(STX_MONOID_MIN, STX_F64).f == INFINITY);
	assert_int_equal(stx_monoid_identity(STX_MONOID_MAX, STX_I8).i, -128);
	assert_int_equal(stx_monoid_identity(STX_MONOID_MIN, STX_I8).i, 127);
	assert_int_equal(stx_monoid_identity(STX_MONOID_MAX, STX_U8).u, 0);
	assert_int_equal(stx_monoid_identity(STX_MONOID_MIN, STX_U8).u, 255);
	assert_true(stx_monoid_identity(STX_MONOID_MIN, STX_U64).u == UINT64_MAX);
	assert_true(stx_monoid_identity(STX_MONOID_MAX, STX_I64).i == INT64_MIN);
	assert_int_equal(stx_monoid_identity(STX_MONOID_ANY, STX_BOOL).u, 0);
	assert_int_equal(stx_monoid_identity(STX_MONOID_ALL, STX_BOOL).u, 1);
}

/* e + a = a + e = a on values of every type. */
static void test_monoids_identity_is_neutral(void **state)
{
	static const enum stx_dtype types[] = { STX_I8,  STX_U8,  STX_I16, STX_I32,
						STX_U32, STX_I64, STX_F32, STX_F64 };
	static const double values[] = { 0, 1, -1, 100, -128, 127, 3.5 };
	uint32_t m, t, k;

	(void)state;
	for (m = STX_MONOID_SUM; m <= STX_MONOID_MIN; m++)
		for (t = 0; t < 8; t++)
			for (k = 0; k < 7; k++) {
				union stx_scalar v = { .f = values[k] },
						 e = stx_monoid_identity(m, types[t]);

				v = stx_prim_eval(STX_P_CAST, types[t], STX_F64, v, v, v);
				assert_true(combine(m, types[t], e, v).u == v.u);
				assert_true(combine(m, types[t], v, e).u == v.u);
			}
}

/* RD-15: index-carrying reductions and dot are not split. */
static void test_monoids_table_parses_and_tells_splitting(void **state)
{
	uint32_t m;

	(void)state;
	for (m = 0; m < STX_MONOID_COUNT; m++) {
		const char *text = stx_monoid_info(m)->text;

		assert_int_equal(stx_monoid_parse(text, (int)strlen(text)), m);
	}
	assert_int_equal(stx_monoid_parse("su", 2), -1);
	assert_true(stx_monoid_info(STX_MONOID_SUM)->split &&
		    stx_monoid_info(STX_MONOID_WELFORD)->split);
	assert_false(stx_monoid_info(STX_MONOID_ARGMAX)->split ||
		     stx_monoid_info(STX_MONOID_ARGMIN)->split ||
		     stx_monoid_info(STX_MONOID_DOT)->split);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_monoids_identities_are_as_stated),
		cmocka_unit_test(test_monoids_identity_is_neutral),
		cmocka_unit_test(test_monoids_table_parses_and_tells_splitting),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
