/* test_normalize.c: dropping, ordering and merging of loops, from graphs to kernels (LN items). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "loops.h"
#include "passes.h"
#include "schedule.h"

/* The one kernel of the graph, as text, has every part. */
static void expect(const char *graph, const char *const *parts)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_lower_options lower = { 0 };
	struct stx_schedule_options schedule = { 0 };
	struct stx_bytes text = { 0 };
	struct stx_diag d = { 0 };
	struct stx_graph *g;
	struct stx_loops *l;
	struct stx_schedule *s;
	if (stx_graph_parse(a, graph, strlen(graph), &g, &d) || stx_lower(g, &lower, &l, &d) ||
	    stx_schedule(l, &schedule, &s, &d))
		fail_msg("%s: %s", d.stage, d.text);
	assert_int_equal(s->kernels.n, 1);
	assert_int_equal(stx_kernel_print(s->kernels.at[0], &text), 0);
	for (; *parts; parts++)
		if (!strstr(stx_bytes_cstr(&text), *parts))
			fail_msg("no\n%s\nin\n%s", *parts, stx_bytes_cstr(&text));
	stx_bytes_free(&text);
	stx_arena_free(a);
}

/* LN-03, LN-05: contiguous + contiguous (64,128) is one loop of 8192, in two chunks. */
static void test_normalize_contiguous_pointwise_is_one_loop(void **state)
{
	(void)state;
	expect("%x : f32[64,128] = placeholder()\n%y : f32[64,128] = placeholder()\n"
	       "%a = add.Tensor(%x, %y)\nreturn (%a,)\n",
	       (const char *[]){ "axis x0 grid 2\naxis x1 vector 4096\ngrain",
				 "f32 p0[4096*x0 + x1]\n", NULL });
}

/* LN-05: Example 6.1 must not merge: x needs 1 = 512*256. */
static void test_normalize_transposed_operand_forbids_merge(void **state)
{
	(void)state;
	expect("%x : f32[512,256] = placeholder()\n%y : f32[256,512] = placeholder()\n"
	       "%t = t.default(%x)\n%a = add.Tensor(%t, %y)\nreturn (%a,)\n",
	       (const char *[]){ "axis x1 loop 16\naxis x2 vector 64\ngrain", "p0[x1 + 256*x2 + ",
				 "p1[512*x1 + x2 + ", NULL }); /* in tiles, the two still apart */
}

/* LN-04: 16384*i0 + 8192*i1 + r0 becomes 8192*x0 + r0 with x0 in [0,128): 16384 = 2*8192. */
static void test_normalize_split_reduction_merges_iteration_axes(void **state)
{
	(void)state;
	expect("%x : f32[64,16384] = placeholder()\n%v = view.default(%x, [64, 2, 8192])\n"
	       "%m = mul.Tensor(%v, %v)\n%s = sum.dim_IntList(%m, [2])\nreturn (%s,)\n",
	       (const char *[]){ "axis x0 grid 128\naxis r0 vector reduction 8192\ngrain",
				 "load f32 p0[8192*x0 + r0]\n", NULL });
}

/* One access that fails forbids the merge, also one of an index value. */
static void test_normalize_index_value_forbids_merge(void **state)
{
	(void)state;
	expect("%x : i64[8,4] = placeholder()\n%r = arange.start_step(0, 4, dtype=i64)\n"
	       "%a = add.Tensor(%x, %r)\nreturn (%a,)\n",
	       (const char *[]){ "axis x0 grid 8\naxis x1 vector 4\ngrain", "index i64 x1\n",
				 NULL });
}

/* LN-02: loops of size 1 go. LN-06: the smallest strides are innermost. */
static void test_normalize_drops_unit_axes_and_orders_by_stride(void **state)
{
	(void)state;
	expect("%x : f32[4,1,5] = placeholder(strides=[1,7,16])\n%a = neg.default(%x)\n"
	       "%s = sum.dim_IntList(%a, [0, 2])\nreturn (%s,)\n",
	       (const char *[]){ "axis x0 grid 1\naxis r0 loop reduction 5\naxis r1 vector "
				 "reduction 4\ngrain",
				 "load f32 p0[16*r0 + r1]\n", NULL });
	/* argmax counts in the order of the tensor, whatever the order of the loops */
	expect("%x : f32[4,1,5] = placeholder(strides=[1,7,16])\n%s = argmax.default(%x)\nreturn "
	       "(%s,)\n",
	       (const char *[]){ "load f32 p0[16*r0 + r1]\n", "index i64 r0 + 5*r1\n", NULL });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_normalize_contiguous_pointwise_is_one_loop),
		cmocka_unit_test(test_normalize_transposed_operand_forbids_merge),
		cmocka_unit_test(test_normalize_split_reduction_merges_iteration_axes),
		cmocka_unit_test(test_normalize_index_value_forbids_merge),
		cmocka_unit_test(test_normalize_drops_unit_axes_and_orders_by_stride),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
