/* test_normalize.c: merging, dropping and ordering of loops (LN items), and index widths (VR-08, VR-09). */
#include "lowering.h"

static const struct stx_buffer *normalized(struct low *w, const char *text, uint32_t id)
{
	low_cpu(w, text);
	assert_int_equal(stx_loops_normalize(w->l, &w->d), 0);
	assert_int_equal(stx_loops_verify(w->l, &w->d), 0);
	return w->l->buffers.at[id];
}

/* LN-03, LN-05: contiguous + contiguous (64,128) is one loop of 8192. */
static void test_normalize_contiguous_pointwise_is_one_loop(void **state)
{
	struct low w;
	const struct stx_buffer *b;

	(void)state;
	b = normalized(&w, "%x : f32[64,128] = placeholder()\n%y : f32[64,128] = placeholder()\n"
	               "%a = add.Tensor(%x, %y)\nreturn (%a,)\n", 2);
	assert_consts(&w, b->ranges, b->nranges, 8192);
	assert_has(low_body(&w, b), "ops.load('x', i0)\n");
	assert_consts(&w, b->layout.sizes, b->layout.rank, 64, 128);
	low_end(&w);
}

/* LN-05: Example 6.1 must not merge: x needs 1 = 512*256. */
static void test_normalize_transposed_operand_forbids_merge(void **state)
{
	struct low w;
	const struct stx_buffer *b;

	(void)state;
	b = normalized(&w, "%x : f32[512,256] = placeholder()\n%y : f32[256,512] = placeholder()\n"
	               "%t = t.default(%x)\n%a = add.Tensor(%t, %y)\nreturn (%a,)\n", 2);
	assert_consts(&w, b->ranges, b->nranges, 256, 512);
	low_end(&w);
}

/* LN-04: 16384*i0 + 8192*i1 + r0_0 becomes 8192*i0 + r0_0 with i0 in [0,128): 16384 = 2*8192. */
static void test_normalize_split_reduction_merges_iteration_axes(void **state)
{
	struct low w;
	const struct stx_buffer *b;

	(void)state;
	b = normalized(&w, "%x : f32[64,16384] = placeholder()\n%v = view.default(%x, [64, 2, 8192])\n"
	               "%m = mul.Tensor(%v, %v)\n%s = sum.dim_IntList(%m, [2])\nreturn (%s,)\n", 1);
	assert_consts(&w, b->ranges, b->nranges, 128);
	assert_consts(&w, b->rranges, b->nrranges, 8192);
	assert_string_equal(low_body(&w, b), "tmp0 = ops.load('x', 8192*i0 + r0_0)\n"
	                                     "tmp1 = ops.load('x', 8192*i0 + r0_0)\n"
	                                     "tmp2 = ops.mul('tmp0', 'tmp1')\n");
	low_end(&w);
}

/* One access that fails forbids the merge, also one of an index value. */
static void test_normalize_index_value_forbids_merge(void **state)
{
	struct low w;
	const struct stx_buffer *b;

	(void)state;
	b = normalized(&w, "%x : i64[8,4] = placeholder()\n%r = arange.start_step(0, 4, dtype=i64)\n"
	               "%a = add.Tensor(%x, %r)\nreturn (%a,)\n", 1);
	assert_consts(&w, b->ranges, b->nranges, 8, 4);
	low_end(&w);
}

/* LN-02: size-1 loops go. LN-06: smallest strides innermost, deterministic. */
static void test_normalize_drops_and_orders(void **state)
{
	struct low w;
	const struct stx_buffer *b;

	(void)state;
	b = normalized(&w, "%x : f32[4,1,5] = placeholder(strides=[1,7,16])\n%a = neg.default(%x)\n"
	               "%s = sum.dim_IntList(%a, [0, 2])\nreturn (%s,)\n", 1);
	assert_int_equal(b->nranges, 0);
	assert_consts(&w, b->rranges, b->nrranges, 5, 4);
	assert_has(low_body(&w, b), "ops.load('x', 16*r0_0 + r0_1)");
	low_end(&w);
	/* argmax counts along its axes in the order of the tensor */
	b = normalized(&w, "%x : f32[4,1,5] = placeholder(strides=[1,7,16])\n%s = argmax.default(%x)\n"
	               "return (%s,)\n", 1);
	assert_consts(&w, b->rranges, b->nrranges, 4, 5);
	low_end(&w);
}

/* VR-08, VR-09: the largest index of (s,128) fits 31 bits up to s = 16777216. */
static void test_normalize_largest_index_decides_width(void **state)
{
	static const struct { const char *size; int64_t hi; } cases[] = {
		{ "16777216", 2147483647 }, { "16777217", 2147483775 } };
	uint32_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		struct low w;
		char text[128];
		struct stx_access *a;
		uint32_t n;

		snprintf(text, sizeof text, "%%x : f32[%s,128] = placeholder()\n%%a = neg.default(%%x)\n"
		         "return (%%a,)\n", cases[i].size);
		low_cpu(&w, text);
		assert_int_equal(stx_handler_accesses(w.l, low_output(&w, 0), w.arena, &a, &n), 0);
		assert_int_equal(stx_ex_interval(w.l->ex, a[0].ex).hi, cases[i].hi);
		assert_int_equal(stx_ex_interval(w.l->ex, a[1].ex).hi, cases[i].hi);
		low_end(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_normalize_contiguous_pointwise_is_one_loop),
		cmocka_unit_test(test_normalize_transposed_operand_forbids_merge),
		cmocka_unit_test(test_normalize_split_reduction_merges_iteration_axes),
		cmocka_unit_test(test_normalize_index_value_forbids_merge),
		cmocka_unit_test(test_normalize_drops_and_orders),
		cmocka_unit_test(test_normalize_largest_index_decides_width),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
