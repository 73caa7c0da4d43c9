/* test_kernel_eval.c: the interpreter of kernel IR itself; what it computes is compared with the
 * oracle in test_schedule_random.c and the property test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "kernel_eval.h"
#include "kernels.h"

/* One preparation for all points, in either order: the first index out of range is another, the
 * results are the same. */
static void test_kernel_eval_runs_grid_points_downwards(void **state)
{
	(void)state;
	enum { ROWS = 4 };
	static float table[1000 * 32], out[2][ROWS * 32];
	int64_t idx[ROWS] = { 5, 2000, -1, 3000 }, elems[] = { ROWS, 1000 * 32, ROWS * 32 };
	int64_t rows = ROWS;
	struct stx_bounds_record first[2] = { 0 };
	struct stx_arena *a = stx_arena_new(0);
	struct stx_kernel *k;
	struct stx_diag d = { 0 };
	for (int i = 0; i < 1000 * 32; i++)
		table[i] = (float)i;
	if (stx_kernel_parse(a, text_gather, strlen(text_gather), &k, &d))
		fail_msg("%s", d.text);
	for (int down = 0; down < 2; down++) {
		void *buffers[] = { idx, table, out[down] };
		assert_int_equal(stx_kernel_evaluate(k, buffers, elems, &rows, &first[down],
						     down ? ROWS : 0, down ? 0 : ROWS, &d),
				 0);
	}
	assert_int_equal(first[0].index, 2000);
	assert_int_equal(first[1].index, 3000);
	assert_memory_equal(out[0], out[1], sizeof out[0]);
	assert_true(out[0][2 * 32 + 31] == 999 * 32 + 31);
	stx_arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernel_eval_runs_grid_points_downwards),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
