/* test_example_6_1.c: x.t() + y from text to numbers: LV-03, LV-09, LV-14, LV-15, LN-05. */
#include "cases.h"

static const char text[] = "%x : f32[512,256] = placeholder()\n"
			   "%y : f32[256,512] = placeholder()\n"
			   "%t = t.default(%x)\n"
			   "%add = add.Tensor(%t, %y)\n"
			   "return (%add,)\n";

static const char *dump(const char *graph, const char *stage, struct stx_bytes *out)
{
	return case_dump(graph, "cpu:x86-64-v3", 0, stage, out);
}

/* LV-14: one buffer, loads at i0 + 256*i1 and 512*i0 + i1; the transpose makes no node */
static void test_example_6_1_is_one_buffer_that_reads_transposed(void **state)
{
	struct stx_bytes b = { 0 };
	(void)state;
	const char *s = dump(text, "loops", &b);
	assert_int_equal(count(s, "ComputedBuffer("), 1);
	expect(s, "layout=FixedLayout(f32, size=[256, 512], stride=[512, 1])");
	expect(s, "ops.load('primals_1', i0 + 256*i1)");
	expect(s, "ops.load('primals_2', 512*i0 + i1)");
	expect(s, "ranges=[256, 512]");
	stx_bytes_free(&b);
}

/* LN-05: the axes stay two here, and become one of 8192 for contiguous operands of (64,128) */
static void test_example_6_1_loops_do_not_merge_but_contiguous_ones_do(void **state)
{
	struct stx_bytes b = { 0 };
	(void)state;
	const char *s = dump(text, "kernels", &b);
	assert_int_equal(count(s, "kernel \""), 1);
	assert_int_equal(count(s, "= load f32"), 2);
	assert_null(strstr(s, "131072\naxis"));
	stx_bytes_clear(&b);
	s = dump("%x : f32[64,128] = placeholder()\n%y : f32[64,128] = placeholder()\n"
		 "%a = add.Tensor(%x, %y)\nreturn (%a,)\n",
		 "kernels", &b);
	expect(s, "8192");
	assert_int_equal(count(s, "axis "), 2); /* grid and vector of one loop */
	stx_bytes_free(&b);
}

/* x[i,j] = 512*i... as whole numbers below 2^24: exact */
static void test_example_6_1_computes_the_transposed_sum(void **state)
{
	static double x[512 * 256], y[256 * 512], want[256 * 512];
	(void)state;
	for (int i = 0; i < 512; i++)
		for (int j = 0; j < 256; j++)
			x[256 * i + j] = 1000 * i + j;
	for (int i = 0; i < 256; i++)
		for (int j = 0; j < 512; j++) {
			y[512 * i + j] = -7 * i + 3 * j;
			want[512 * i + j] = 1000 * j + i - 7 * i + 3 * j;
		}
	struct stated s = { .text = text,
			    .in = { { x, 512 * 256 }, { y, 256 * 512 } },
			    .out = { { want, 256 * 512 } },
			    .shape = { "256,512" },
			    .skip = CASE_NO_FOLD };
	case_check(&s);
}

/* LV-04, LV-05, LV-08: slice then transpose of a (20,30); reshape of a transposed (4,6) */
static void test_example_6_1_views_compose(void **state)
{
	static double x[600], sliced[3 * 25], turned[24];
	(void)state;
	for (int i = 0; i < 600; i++)
		x[i] = i;
	for (int j = 0; j < 25; j++)
		for (int i = 0; i < 3; i++)
			sliced[3 * j + i] = 65 + 90 * i + j;
	for (int j = 0; j < 6; j++)
		for (int i = 0; i < 4; i++)
			turned[4 * j + i] = 6 * i + j;
	struct stated s = { .text = "%x : f32[20,30] = placeholder()\n"
				    "%rows = slice.Tensor(%x, 0, 2, 10, 3)\n"
				    "%columns = slice.Tensor(%rows, 1, 5)\n"
				    "%t = t.default(%columns)\n"
				    "return (%t,)\n",
			    .in = { { x, 600 } },
			    .out = { { sliced, 75 } },
			    .shape = { "25,3" } };
	case_check(&s);
	struct stated r = { .text = "%x : f32[4,6] = placeholder()\n"
				    "%t = t.default(%x)\n"
				    "%v = reshape.default(%t, [24])\n"
				    "return (%v,)\n",
			    .in = { { x, 24 } },
			    .out = { { turned, 24 } },
			    .shape = { "24" } };
	case_check(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_example_6_1_is_one_buffer_that_reads_transposed),
		cmocka_unit_test(test_example_6_1_loops_do_not_merge_but_contiguous_ones_do),
		cmocka_unit_test(test_example_6_1_computes_the_transposed_sum),
		cmocka_unit_test(test_example_6_1_views_compose),
	};
	return cmocka_run_group_tests(tests, case_setup, NULL);
}
