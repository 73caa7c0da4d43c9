/* test_kernel_values.c: limits of a kernel's values and what is said about them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "build.h"

static stx_err number_constants(size_t budget_bytes, uint32_t n, struct stx_diag *d)
{
	struct stx__build *b = calloc(1, sizeof *b);
	struct stx__group_def def = { .name = "poi_long_0" };
	struct stx_kernel k = { 0 };
	struct stx__values v;
	b->arena = stx_arena_new(budget_bytes);
	b->def = &def;
	b->d = d;
	stx_err e = stx__values_init(&v, b, &k);
	for (uint32_t i = 0; !e && !v.oom && i < n; i++)
		stx__value_const(&v, STX_I64, (union stx_scalar){ .i = i });
	e = e ? e : v.oom ? stx__values_fail(&v) : STX_E_OK;
	stx_arena_free(b->arena);
	free(b);
	return e;
}

static void test_kernel_values_over_the_limit_of_a_kernel_name_the_limit(void **state)
{
	(void)state;
	struct stx_diag d = { 0 };
	assert_int_equal(number_constants(0, STX_KERNEL_MAX_INSTS, &d), 0);
	assert_int_equal(number_constants(0, STX_KERNEL_MAX_INSTS + 1, &d), STX_E_TOO_LARGE);
	assert_non_null(strstr(d.text, "65536 instructions"));
	assert_null(strstr(d.text, "memory"));
	assert_string_equal(d.node, "poi_long_0");
}

static void test_kernel_values_over_the_memory_budget_say_memory(void **state)
{
	(void)state;
	struct stx_diag d = { 0 };
	assert_int_equal(number_constants(1 << 20, STX_KERNEL_MAX_INSTS, &d), STX_E_NOMEM);
	assert_non_null(strstr(d.text, "memory budget"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernel_values_over_the_limit_of_a_kernel_name_the_limit),
		cmocka_unit_test(test_kernel_values_over_the_memory_budget_say_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
