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
	       (const char *[]){ "axis x1 loop 64\naxis x2 vector 128\ngrain", "p0[x1 + 256*x2 + ",
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

/* LN-08, SB-02: with symbolic sizes the merge is decided on expressions: rows of s0 elements that
 * follow each other are one loop of 64*s0; a row stride of s1 may be anything, and they stay two.
 */
static void test_normalize_symbolic_strides_merge_only_when_proved(void **state)
{
	(void)state;
	expect("sym s0 = [1, 1000] hint 128\n%x : f32[64,s0] = placeholder()\n"
	       "%y : f32[64,s0] = placeholder()\n%a = add.Tensor(%x, %y)\nreturn (%a,)\n",
	       (const char *[]){ "axis x1 vector min(4096, -4096*x0 + 64*s0)\ngrain",
				 "f32 p0[4096*x0 + x1]\n", NULL });
	expect("sym s0 = [1, 1000] hint 128\n%x : f32[s0,128] = placeholder()\n"
	       "%y : f32[s0,128] = placeholder()\n%a = add.Tensor(%x, %y)\nreturn (%a,)\n",
	       (const char *[]){ "axis x1 vector min(4096, -4096*x0 + 128*s0)\ngrain",
				 "f32 p0[4096*x0 + x1]\n", NULL });
	expect("sym s0 = [1, 1000] hint 128\nsym s1 = [1, 100000] hint 128\n"
	       "%x : f32[64,s0] = placeholder(strides=[s1,1])\n"
	       "%y : f32[64,s0] = placeholder()\n%a = add.Tensor(%x, %y)\nreturn (%a,)\n",
	       (const char *[]){ "axis x0 grid 64\naxis x1 vector s0\ngrain",
				 "f32 p0[x0*s1 + x1]\n", "f32 p1[x0*s0 + x1]\n", NULL });
}

/* LN-01: an inner function runs once, on symbolic indices: what is scheduled is its recorded body,
 * in which a shared operand is one load with one index expression, and scheduling again runs
 * nothing. */
static void test_normalize_bodies_are_recorded_once(void **state)
{
	(void)state;
	static const char graph[] = "%x : f32[64,128] = placeholder()\n%t = t.default(%x)\n"
				    "%a = neg.default(%t)\n%y = mul.Tensor(%a, %a)\nreturn (%y,)\n";
	struct stx_arena *a = stx_arena_new(0);
	struct stx_lower_options lower = { 0 };
	struct stx_schedule_options schedule = { 0 };
	struct stx_bytes text[2] = { { 0 } };
	struct stx_diag d = { 0 };
	struct stx_graph *g;
	struct stx_loops *l;
	struct stx_schedule *s;
	assert_int_equal(stx_graph_parse(a, graph, strlen(graph), &g, &d), 0);
	assert_int_equal(stx_lower(g, &lower, &l, &d), 0);
	assert_int_equal(l->buffers.n, 2);
	const struct stx_buffer *b = l->buffers.at[1];
	assert_int_equal(b->body.n, 3); /* load, neg, mul: an operand used twice is played once */
	assert_int_equal(b->body.at[0].op, STX_B_LOAD);
	stx_ex want = stx_ex_add(l->ex, stx_ex_var(l->ex, 0, b->ranges[0]),
				 stx_ex_muli(l->ex, stx_ex_var(l->ex, 1, b->ranges[1]), 128));
	assert_int_equal(b->body.at[0].ex, want); /* i0 + 128*i1 */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(stx_schedule(l, &schedule, &s, &d), 0);
		assert_int_equal(stx_loops_print(l, &text[i]), 0);
	}
	assert_string_equal(stx_bytes_cstr(&text[0]), stx_bytes_cstr(&text[1]));
	stx_bytes_free(&text[0]);
	stx_bytes_free(&text[1]);
	stx_arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_normalize_contiguous_pointwise_is_one_loop),
		cmocka_unit_test(test_normalize_transposed_operand_forbids_merge),
		cmocka_unit_test(test_normalize_split_reduction_merges_iteration_axes),
		cmocka_unit_test(test_normalize_index_value_forbids_merge),
		cmocka_unit_test(test_normalize_drops_unit_axes_and_orders_by_stride),
		cmocka_unit_test(test_normalize_symbolic_strides_merge_only_when_proved),
		cmocka_unit_test(test_normalize_bodies_are_recorded_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
