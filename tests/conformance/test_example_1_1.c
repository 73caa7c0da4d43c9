/* test_example_1_1.c: ((x + y).relu()*2).sum(-1) from text to numbers: OG-06, LO-26, IR-10, GK-11's
 * CPU form. */
#include "cases.h"

static const char text[] = "%x : f32[64,128] = placeholder()\n"
			   "%y : f32[64,128] = placeholder()\n"
			   "%a = add.Tensor(%x, %y)\n"
			   "%r = relu.default(%a)\n"
			   "%m = mul.Scalar(%r, 2)\n"
			   "%s = sum.dim_IntList(%m, [-1])\n"
			   "return (%s,)\n";

/* One stage as text, in the given bytes. */
static const char *dump(const char *stage, struct stx_bytes *out)
{
	return case_dump(text, "cpu:x86-64-v3", 0, stage, out);
}

/* OG-06 (dims and dtype as canonicalised) */
static void test_example_1_1_graph_has_four_operators_with_one_user_each(void **state)
{
	struct stx_bytes b = { 0 };
	(void)state;
	assert_string_equal(
		dump("basis", &b),
		"%primals_1 : f32[64,128] [num_users=1] = placeholder()\n"
		"%primals_2 : f32[64,128] [num_users=1] = placeholder()\n"
		"%add : f32[64,128] [num_users=1] = add.Tensor(%primals_1, %primals_2, alpha=1)\n"
		"%relu : f32[64,128] [num_users=1] = relu.default(%add)\n"
		"%mul : f32[64,128] [num_users=1] = mul.Scalar(%relu, 2)\n"
		"%sum_0 : f32[64] [num_users=1] = sum.dim_IntList(%mul, [1], False, dtype=f32)\n"
		"return (%sum_0,)\n");
	stx_bytes_free(&b);
}

/* OG-04: as read, defaults explicit */
static void test_example_1_1_graph_shows_defaults(void **state)
{
	struct stx_bytes b = { 0 };
	(void)state;
	const char *s = dump("graph", &b);
	expect(s, "= add.Tensor(%x, %y, alpha=1)\n");
	expect(s, "= sum.dim_IntList(%m, [-1], False, dtype=None)\n");
	stx_bytes_free(&b);
}

/* LO-26, IR-07, IR-10: two inputs, one computed buffer, the six lines */
static void test_example_1_1_lowers_to_one_reduction(void **state)
{
	struct stx_bytes b = { 0 };
	(void)state;
	const char *s = dump("loops", &b);
	assert_int_equal(count(s, "InputBuffer("), 2);
	assert_int_equal(count(s, "ComputedBuffer("), 1);
	expect(s, "layout=FixedLayout(f32, size=[64], stride=[1])");
	expect(s, "      tmp0 = ops.load('primals_1', 128*i0 + r0_0)\n"
		  "      tmp1 = ops.load('primals_2', 128*i0 + r0_0)\n"
		  "      tmp2 = ops.add('tmp0', 'tmp1')\n"
		  "      tmp3 = ops.relu('tmp2')\n"
		  "      tmp4 = ops.constant(2, f32)\n"
		  "      tmp5 = ops.mul('tmp3', 'tmp4')\n"
		  "      return tmp5\n");
	expect(s, "  ranges=[64],\n  reduction_ranges=[128],\n  reduction_type=sum,\n");
	stx_bytes_free(&b);
}

/* GK-11 without its GPU tile: one persistent kernel, two loads, add, max with 0, times 2, sum, one
 * store */
static void test_example_1_1_is_one_persistent_kernel(void **state)
{
	struct stx_bytes b = { 0 };
	(void)state;
	const char *s = dump("kernels", &b);
	assert_int_equal(count(s, "kernel \"per_"), 1);
	assert_int_equal(count(s, "kernel \""), 1);
	assert_int_equal(count(s, "= load f32"), 2);
	assert_int_equal(count(s, "[128*x0 + r0]"), 2);
	assert_int_equal(count(s, "store f32"), 1);
	expect(s, "axis x0 grid 64\naxis r0 vector reduction 128\n");
	expect(s, "acc sum lanes f32 r0");
	expect(s, "bits 32");
	stx_bytes_free(&b);
}

/* The traffic of the artifact is the least there is: 2*64*128 floats in, 64 out. */
static void test_example_1_1_reads_inputs_once_and_writes_the_sums(void **state)
{
	struct compiled c;
	struct stx_diag d = { 0 };
	(void)state;
	assert_int_equal(compiled_build(text, compiled_targets()[0], COMPILED_FUSED, &c, &d), 0);
	assert_int_equal(c.nkernels, 1);
	assert_int_equal(c.bytes_read, 65536);
	assert_int_equal(c.bytes_written, 256);
	assert_int_equal(c.bytes_min, 65792);
	compiled_free(&c);
}

/* Small whole numbers: every sum is exact. Row i of x is i - 32, y is 0 .. 127. */
static void test_example_1_1_computes_exact_sums(void **state)
{
	static double x[64 * 128], y[64 * 128], want[64];
	(void)state;
	for (int i = 0; i < 64; i++)
		for (int j = 0; j < 128; j++) {
			double v = i - 32 + j - 64;
			x[128 * i + j] = i - 32;
			y[128 * i + j] = j - 64;
			want[i] += v > 0 ? 2 * v : 0;
		}
	struct stated s = { .text = text,
			    .in = { { x, 64 * 128 }, { y, 64 * 128 } },
			    .out = { { want, 64 } },
			    .shape = { "64" } };
	case_check(&s);
}

/* RD-06, RD-11, RD-12: NaN goes through relu and sum; other rows keep the bound of the sum. */
static void test_example_1_1_keeps_nan_and_the_bound(void **state)
{
	static double x[64 * 128], y[64 * 128], want[64];
	uint64_t seed = 7;
	double bound = 0;
	(void)state;
	for (int i = 0; i < 64; i++) {
		for (int j = 0; j < 128; j++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			x[128 * i + j] = (float)((double)(seed >> 40) * 0x1p-23 - 1);
			y[128 * i + j] = (float)((double)(seed >> 20 & 0xffffff) * 0x1p-23 - 1);
			float v = (float)x[128 * i + j] + (float)y[128 * i + j];
			want[i] += v > 0 ? 2 * (double)v : 0;
		}
		bound = fmax(bound, stx_ref_sum_bound(STX_F32, 127, want[i]));
	}
	x[128 * 5 + 77] = NAN;
	want[5] = NAN;
	struct stated s = { .text = text,
			    .in = { { x, 64 * 128 }, { y, 64 * 128 } },
			    .out = { { want, 64 } },
			    .atol = bound };
	case_check(&s);
}

/* OG-11: the same request gives the same bytes, down to the artifact. */
static void test_example_1_1_artifact_is_deterministic(void **state)
{
	struct compiled a, b;
	struct stx_diag d = { 0 };
	(void)state;
	assert_int_equal(compiled_build(text, compiled_targets()[0], COMPILED_FUSED, &a, &d), 0);
	assert_int_equal(compiled_build(text, compiled_targets()[0], COMPILED_FUSED, &b, &d), 0);
	assert_int_equal(a.elf.n, b.elf.n);
	assert_memory_equal(a.elf.at, b.elf.at, a.elf.n);
	compiled_free(&a);
	compiled_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_example_1_1_graph_has_four_operators_with_one_user_each),
		cmocka_unit_test(test_example_1_1_graph_shows_defaults),
		cmocka_unit_test(test_example_1_1_lowers_to_one_reduction),
		cmocka_unit_test(test_example_1_1_is_one_persistent_kernel),
		cmocka_unit_test(test_example_1_1_reads_inputs_once_and_writes_the_sums),
		cmocka_unit_test(test_example_1_1_computes_exact_sums),
		cmocka_unit_test(test_example_1_1_keeps_nan_and_the_bound),
		cmocka_unit_test(test_example_1_1_artifact_is_deterministic),
	};
	return cmocka_run_group_tests(tests, case_setup, NULL);
}
