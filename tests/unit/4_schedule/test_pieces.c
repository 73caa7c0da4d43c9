/* test_pieces.c: which loops are cut into pieces, and what is left in them. That values stay the same is
 * conformance/test_operators.c's: copies_of_parts_match_oracle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "from_text.h"
#include "schedule.h"

/* The one kernel of the graph, as text: has every part of `has`, none of `hasnt`. */
static void expect_kernel(const char *graph, const char *const *has, const char *const *hasnt)
{
	struct stx_schedule_options schedule = { 0 };
	struct stx_bytes text = { 0 };
	struct stx_diag d = { 0 };
	struct stx_schedule *s;
	struct maker m;
	lower_text(&m, graph);
	if (stx_schedule(m.l, &schedule, &s, &d))
		fail_msg("%s: %s", d.stage, d.text);
	assert_int_equal(s->kernels.n, 1);
	assert_int_equal(stx_kernel_print(s->kernels.at[0], &text), 0);
	for (; *has; has++)
		if (!strstr(stx_bytes_cstr(&text), *has))
			fail_msg("no\n%s\nin\n%s", *has, stx_bytes_cstr(&text));
	for (; *hasnt; hasnt++)
		if (strstr(stx_bytes_cstr(&text), *hasnt))
			fail_msg("there is\n%s\nin\n%s", *hasnt, stx_bytes_cstr(&text));
	stx_bytes_free(&text);
	stx_arena_free(m.a);
}

static const char *const no_choice[] = { "select", "mask", NULL };
static const char *const no_bend[] = { "min(", "max(", "%", NULL };

static void test_pieces_concatenation_is_copies(void **state)
{
	(void)state;
	expect_kernel("%x : f32[8,100] = placeholder()\n%z : f32[8,60] = placeholder()\n"
		      "%y = cat.default([%x, %z], 1)\nreturn (%y)\n",
		      (const char *[]){ "axis x1 vector 100\naxis x2 vector 60\n",
					"load f32 p1[60*x0 + x2]\n",
					"store f32 p2[160*x0 + x2 + 100]", NULL },
		      no_choice);
}

/* Rows and columns are one axis although the row is compared; the cut depends on the grid point. */
static void test_pieces_of_merged_axes_depend_on_the_point(void **state)
{
	(void)state;
	expect_kernel(
		"%x : f32[3000,3] = placeholder()\n%z : f32[3000,3] = placeholder()\n"
		"%y = cat.default([%x, %z], 0)\nreturn (%y)\n",
		(const char *[]){ "axis x0 grid 5\naxis x1 vector min(", "axis x2 vector", NULL },
		no_choice);
}

static void test_pieces_of_bent_indices_are_straight(void **state)
{
	(void)state;
	expect_kernel(
		"%x : f32[1,1,1,100] = placeholder()\n%y = reflection_pad2d.default(%x, [5, 7, 0, "
		"0])\n"
		"return (%y)\n",
		(const char *[]){ "axis x3 vector", "p0[x2]", NULL }, no_bend);
	expect_kernel(
		"%x : f32[1,100] = placeholder()\n%y = repeat.default(%x, [1, 4])\nreturn (%y)\n",
		(const char *[]){ "axis x4 vector 100\n", "p1[x4 + 300]", NULL }, no_bend);
}

/* More pieces than eight, or short ones for a comparison alone, are one loop. */
static void test_pieces_that_do_not_pay_are_one_loop(void **state)
{
	static const char *const two[] = { "axis x2", NULL };
	(void)state;
	expect_kernel(
		"%x : f32[5,9] = placeholder()\n%y = repeat.default(%x, [1, 9])\nreturn (%y)\n",
		(const char *[]){ "x1 % 9", NULL }, two);
	expect_kernel("%x : f32[50,20] = placeholder()\n%z : f32[50,20] = placeholder()\n"
		      "%y = cat.default([%x, %z], 1)\nreturn (%y)\n",
		      (const char *[]){ "select f32", NULL }, two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces_concatenation_is_copies),
		cmocka_unit_test(test_pieces_of_merged_axes_depend_on_the_point),
		cmocka_unit_test(test_pieces_of_bent_indices_are_straight),
		cmocka_unit_test(test_pieces_that_do_not_pay_are_one_loop),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
