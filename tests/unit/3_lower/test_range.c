/* test_range.c: every interval transfer function contains every concrete result (VR-02, VR-03). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "elementary.h"
#include "lower.h"
#include "scalar.h"

static uint64_t rng = 0x243f6a8885a308d3u;

static uint64_t rnd(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	return rng ^= rng << 17;
}

/* A value of t: small, near the ends of the type, or anything. */
static int64_t random_value(enum stx_dtype t)
{
	uint64_t v = rnd();

	switch (rnd() % 3) {
	case 0: v = v % 20 - 10; break;
	case 1: v = (UINT64_C(1) << (8 * stx_dtype_bytes(t) - 1)) + v % 7 - 3; break;
	default: break;
	}
	return stx_scalar_wrap(t, v).i;
}

static struct stx_interval random_interval(enum stx_dtype t, int64_t *point)
{
	int64_t a = random_value(t), b = random_value(t);
	struct stx_interval r = { a < b ? a : b, a < b ? b : a };

	uint64_t span = (uint64_t)r.hi - (uint64_t)r.lo;

	*point = rnd() % 2 ? r.lo : r.hi;
	if (rnd() % 2 && span + 1)
		*point = (int64_t)((uint64_t)r.lo + rnd() % (span + 1));
	return r;
}

static void test_range_transfer_functions_are_sound(void **state)
{
	static const enum stx_dtype types[] = { STX_I8,  STX_U8,  STX_I16, STX_U16,
						STX_I32, STX_U32, STX_I64 };
	uint32_t i;

	(void)state;
	for (i = 0; i < 400000; i++) {
		uint64_t seed = rng;
		enum stx_prim op = (enum stx_prim)(rnd() % STX_PRIM_COUNT);
		enum stx_dtype t = types[rnd() % 7], to = op == STX_P_CAST ? types[rnd() % 7] : t;
		union stx_scalar x, y, z, v;
		struct stx_interval a, b, c, r;
		const struct stx_prim_info *info = stx_prim_info(op);

		if ((!stx_prim_accepts(op, t) && op != STX_P_SELECT) ||
		    info->result == STX_RESULT_BOOL || op == STX_P_BITCAST)
			continue;
		a = random_interval(t, &x.i);
		if (op == STX_P_SELECT) { /* a bool chooses */
			x.i &= 1;
			a = (struct stx_interval){ 0, 1 };
		}
		b = random_interval(t, &y.i);
		c = random_interval(t, &z.i);
		if (op == STX_P_SELECT)
			t = STX_BOOL;
		r = stx__range_prim(op, to, t, a, b, c);
		v = stx_prim_eval(op, to, t, x, y, z);
		if (v.i < r.lo || v.i > r.hi)
			fail_msg("seed %llu: %s %s(%lld, %lld) = %lld outside [%lld, %lld]",
				 (unsigned long long)seed, info->text, stx_dtype_name(t),
				 (long long)x.i, (long long)y.i, (long long)v.i, (long long)r.lo,
				 (long long)r.hi);
	}
}

/* VR-01: closed intervals with infinite ends. A loop variable of size s is in [0, s-1], a constant
 * in [c, c], what memory holds is anything: of i64 all integers there are, of a narrow type all of
 * its. */
static void test_range_domain_is_loop_variables_constants_and_memory(void **state)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_exprs *x = stx_exprs_new(a);
	struct stx_interval all = { STX_NEG_INF, STX_POS_INF }, r;

	(void)state;
	r = stx_ex_interval(x, stx_ex_var(x, 0, stx_ex_const(x, 128)));
	assert_true(r.lo == 0 && r.hi == 127);
	r = stx_ex_interval(x, stx_ex_const(x, -7));
	assert_true(r.lo == -7 && r.hi == -7);
	r = stx_ex_interval(x, stx_ex_indirect(x, 0, all)); /* a load of i64 */
	assert_true(r.lo == STX_NEG_INF && r.hi == STX_POS_INF);
	/* what is infinite stays so, and half of it is no bound */
	r = stx_ex_interval(x, stx_ex_addi(x, stx_ex_indirect(x, 0, all), 5));
	assert_true(r.lo == STX_NEG_INF && r.hi == STX_POS_INF);
	r = stx_ex_interval(x, stx_ex_max(x, stx_ex_indirect(x, 0, all), stx_ex_const(x, 0)));
	assert_true(r.lo == 0 && r.hi == STX_POS_INF);
	r = stx__range_const(STX_I64, (union stx_scalar){ .i = 42 });
	assert_true(r.lo == 42 && r.hi == 42);
	stx_arena_free(a);
}

/* VR-02: [l,u] mod c = [0,c-1] for c > 0. VR-11: a possibly negative dividend gives no less. */
static void test_range_stated_rules_are_exact(void **state)
{
	struct stx_interval a = { 3, 900 }, c = { 128, 128 }, n = { -5, 2 }, e = { 8, 8 }, r;

	(void)state;
	r = stx__range_prim(STX_P_ADD, STX_I64, STX_I64, a, n, c);
	assert_true(r.lo == -2 && r.hi == 902);
	r = stx__range_prim(STX_P_MOD, STX_I64, STX_I64, a, c, c);
	assert_true(r.lo == 0 && r.hi == 127);
	r = stx__range_prim(STX_P_MOD, STX_I64, STX_I64, n, e, e);
	assert_true(r.lo == 0 && r.hi == 7);
	r = stx__range_prim(STX_P_REM, STX_I64, STX_I64, n, e, e);
	assert_true(r.lo == -5 && r.hi == 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_range_transfer_functions_are_sound),
		cmocka_unit_test(test_range_domain_is_loop_variables_constants_and_memory),
		cmocka_unit_test(test_range_stated_rules_are_exact),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
