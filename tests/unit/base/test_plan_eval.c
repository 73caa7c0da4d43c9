/* test_plan_eval.c: expressions of data plans: operators, overflow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "plan_use.h"
#include "planbuild.h"

static struct stx_span span(const struct stx_bytes *b)
{
	return (struct stx_span){ b->at, b->n };
}

static int64_t eval2(enum stx_plan_op op, int64_t x, int64_t y, int *ok)
{
	struct planbuild b = { 0 };
	struct stx_plan p;
	pb_string(&b, "");
	b.workspace = pb_bin(&b, op, pb_const(&b, x), pb_const(&b, y));
	struct stx_bytes plan = pb_finish(&b);
	assert_int_equal(stx_plan_open(span(&plan), &p, NULL), 0);
	*ok = 1;
	int64_t v = stx_plan_eval(&p, p.h->workspace_expr, NULL, ok);
	stx_bytes_free(&plan);
	return v;
}

static void test_plan_eval_operators(void **state)
{
	(void)state;
	static const struct {
		enum stx_plan_op op;
		int64_t x, y, want;
	} t[] = {
		{ STX_X_ADD, 2, 3, 5 },        { STX_X_SUB, 2, 3, -1 },
		{ STX_X_MUL, -2, 3, -6 },      { STX_X_FLOORDIV, -7, 2, -4 },
		{ STX_X_FLOORDIV, 7, -2, -4 }, { STX_X_FLOORDIV, -7, -2, 3 },
		{ STX_X_TRUNCDIV, -7, 2, -3 }, { STX_X_MOD, -7, 2, 1 },
		{ STX_X_MOD, 7, -2, -1 },      { STX_X_MOD, 6, 3, 0 },
		{ STX_X_MIN, -1, 1, -1 },      { STX_X_MAX, -1, 1, 1 },
		{ STX_X_EQ, 4, 4, 1 },         { STX_X_NE, 4, 4, 0 },
		{ STX_X_LT, 3, 4, 1 },         { STX_X_LE, 4, 4, 1 },
		{ STX_X_AND, 2, 4, 1 },        { STX_X_AND, 2, 0, 0 },
		{ STX_X_OR, 0, 4, 1 },         { STX_X_OR, 0, 0, 0 },
	};
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		int ok;
		assert_int_equal(eval2(t[i].op, t[i].x, t[i].y, &ok), t[i].want);
		assert_true(ok);
	}
}

static void test_plan_eval_overflow_detected(void **state)
{
	(void)state;
	static const struct {
		enum stx_plan_op op;
		int64_t x, y;
	} t[] = {
		{ STX_X_ADD, INT64_MAX, 1 },
		{ STX_X_SUB, INT64_MIN, 1 },
		{ STX_X_MUL, INT64_MAX, 2 },
		{ STX_X_FLOORDIV, INT64_MIN, -1 },
		{ STX_X_TRUNCDIV, INT64_MIN, -1 },
		{ STX_X_MOD, INT64_MIN, -1 },
		{ STX_X_FLOORDIV, 1, 0 },
		{ STX_X_TRUNCDIV, 1, 0 },
		{ STX_X_MOD, 1, 0 },
	};
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		int ok;
		eval2(t[i].op, t[i].x, t[i].y, &ok);
		assert_false(ok);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plan_eval_operators),
		cmocka_unit_test(test_plan_eval_overflow_detected),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
