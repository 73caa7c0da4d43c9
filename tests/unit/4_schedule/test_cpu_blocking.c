/* test_cpu_blocking.c: candidates for tiles of products: in bounds, ranked, and what the model says
 * where one term decides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cpu_blocking.h"

static struct stx_cpu_target target(const char *text)
{
	struct stx_cpu_target t;
	assert_int_equal(stx_cpu_target_parse(text, &t, NULL), 0);
	return t;
}

static void test_cpu_blocking_any_product_has_ranked_candidates_in_bounds(void **state)
{
	static const char *const targets[] = { "cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4",
					       "cpu:x86-64-v4:16K-128K-512K",
					       "cpu:x86-64-v4:256K-16M-64M" };
	static const int64_t sizes[] = {
		1, 5, 16, 61, 479, 1000, 4097, INT32_MAX, INT64_C(1) << 40
	};
	struct stx_blocking b[STX_MOST_BLOCKINGS];
	(void)state;
	for (int i = 0; i < 5 * 9 * 9 * 9; i++) {
		struct stx_cpu_target t = target(targets[i % 5]);
		struct stx_product_shape p = { .rows = sizes[i / 5 % 9],
					       .cols = sizes[i / 45 % 9],
					       .terms = sizes[i / 405 % 9],
					       .batch = i % 7 ? 1 : sizes[i % 9],
					       .line = i % 11 ? 1 : sizes[i % 9],
					       .bytes = i % 3 ? 4 : 8,
					       .is_thin = i / 5 % 9 == 0,
					       .rows_are_shared = i % 2 };
		double was = 0;
		unsigned n = stx_cpu_blockings(&t, &p, b);
		assert_in_range(n, 1, STX_MOST_BLOCKINGS);
		for (unsigned j = 0; j < n; j++) {
			double cost = stx_cpu_blocking_cost(&t, &p, &b[j]);
			assert_true(b[j].rows >= 1 && b[j].rows <= 480 && b[j].rows % 12 == 0);
			assert_true(b[j].cols >= 1 && b[j].cols <= 2048);
			assert_true(b[j].cols % 32 == 0 || (p.line > 1 && b[j].cols % p.line == 0));
			assert_in_range(b[j].words, STX_BLOCK_LEAST, STX_BLOCK_MOST);
			assert_true(cost >= was && cost < 1e300);
			was = cost;
		}
	}
}

/* Each term of the model alone. */
static void test_cpu_blocking_model_follows_caches_and_waste(void **state)
{
	struct stx_product_shape p = { 2048, 2048, 2048, 1, 1, 4, 0, 1 };
	struct stx_blocking wide = { 228, 512, 320 }, low = { 228, 512, 128 };
	(void)state;
	struct stx_cpu_target small = target("cpu:x86-64-v4:16K-1M-16M"),
			      large = target("cpu:x86-64-v4:256K-1M-16M");
	/* a panel that no longer fits the first cache costs; one that always fits does not */
	assert_true(stx_cpu_blocking_cost(&small, &p, &wide) >
		    stx_cpu_blocking_cost(&large, &p, &wide));
	assert_true(stx_cpu_blocking_cost(&large, &p, &wide) <
		    stx_cpu_blocking_cost(&large, &p, &low));
	small = target("cpu:x86-64-v4:32K-128K-16M");
	large = target("cpu:x86-64-v4:32K-4M-16M");
	assert_true(stx_cpu_blocking_cost(&small, &p, &wide) >
		    stx_cpu_blocking_cost(&large, &p, &wide));
	small = target("cpu:x86-64-v4:32K-1M-512K");
	large = target("cpu:x86-64-v4:32K-1M-16M");
	assert_true(stx_cpu_blocking_cost(&small, &p, &wide) >
		    stx_cpu_blocking_cost(&large, &p, &wide));
	/* the remainder: 497 columns take as many vectors as 512 */
	struct stx_product_shape odd = { 252, 497, 256, 16, 1, 4, 0, 0 }, even = odd;
	struct stx_blocking b = { 252, 512, 256 };
	even.cols = 512;
	double each = stx_cpu_blocking_cost(&large, &odd, &b) / 497,
	       whole = stx_cpu_blocking_cost(&large, &even, &b) / 512;
	assert_true(each > 1.01 * whole);
	/* tiles of whole lines are packed fast */
	struct stx_product_shape picture = { 64, 56 * 56, 576, 1, 56, 4, 0, 1 };
	struct stx_blocking first[STX_MOST_BLOCKINGS];
	assert_true(stx_cpu_blockings(&large, &picture, first) > 0);
	assert_int_equal(first[0].cols % 56, 0);
	/* one tile keeps all threads but one waiting */
	struct stx_product_shape one = { 240, 512, 256, 1, 1, 4, 0, 1 };
	struct stx_blocking all = { 240, 512, 256 }, parts = { 60, 128, 256 };
	assert_true(stx_cpu_blocking_cost(&large, &one, &all) >
		    2 * stx_cpu_blocking_cost(&large, &one, &parts));
}

static void test_cpu_blocking_register_rows_fit_and_come_out_even(void **state)
{
	(void)state;
	assert_int_equal(stx_cpu_register_rows(4, 12, 0), 12);
	assert_int_equal(stx_cpu_register_rows(4, 240, 0), 12);
	assert_int_equal(stx_cpu_register_rows(4, 22, 0), 11);
	assert_int_equal(stx_cpu_register_rows(4, 16, 0), 8);
	assert_int_equal(stx_cpu_register_rows(4, 1, 0), 1);
	assert_int_equal(stx_cpu_register_rows(3, 240, 0), 6);
	assert_int_equal(stx_cpu_register_rows(3, 5, 0), 5);
	assert_int_equal(stx_cpu_register_rows(2, 240, 0), 4);
	assert_int_equal(stx_cpu_register_rows(4, 240, 1), 24);
	assert_int_equal(stx_cpu_register_rows(4, 256, 1), 16);
	assert_int_equal(stx_cpu_register_rows(3, 240, 1), 12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cpu_blocking_any_product_has_ranked_candidates_in_bounds),
		cmocka_unit_test(test_cpu_blocking_model_follows_caches_and_waste),
		cmocka_unit_test(test_cpu_blocking_register_rows_fit_and_come_out_even),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
