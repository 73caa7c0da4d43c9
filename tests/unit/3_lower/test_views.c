/* test_views.c: layouts and views against the values the seed states (LV items). */
#include "lowering.h"

/* Address of the only load in output 0, as coefficients of its axes and an offset. */
static void assert_affine(struct low *w, const int64_t *strides, uint32_t rank, int64_t offset)
{
	struct stx_access *a;
	uint32_t n, d;
	stx_ex coeff, rest;
	int64_t v;

	assert_int_equal(stx_handler_accesses(w->l, low_output(w, 0), w->arena, &a, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(low_output(w, 0)->nranges, rank);
	rest = a[0].ex;
	for (d = 0; d < rank; d++) {
		assert_true(stx_ex_linear_in(w->l->ex, rest, d, &coeff, &rest));
		assert_true(stx_ex_is_const(w->l->ex, coeff, &v));
		assert_int_equal(v, strides[d]);
	}
	assert_true(stx_ex_is_const(w->l->ex, rest, &v));
	assert_int_equal(v, offset);
}

static void check(const char *text, const int64_t *strides, uint32_t rank, int64_t offset)
{
	struct low w;

	low_cpu(&w, text);
	assert_affine(&w, strides, rank, offset);
	low_end(&w);
}
#define S(...)                                                                                     \
	(const int64_t[]){ __VA_ARGS__ }, sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)

/* LV-01, LV-03, LV-04, LV-06 */
static void test_views_affine_give_stated_strides(void **state)
{
	(void)state;
	check("%x : f32[512,256] = placeholder()\n%v = t.default(%x)\nreturn (%v,)\n", S(1, 256),
	      0);
	check("%x : f32[20,30] = placeholder()\n%a = slice.Tensor(%x, 0, 2, 10, 3)\n"
	      "%v = slice.Tensor(%a, 1, 5)\nreturn (%v,)\n",
	      S(90, 1), 65);
	check("%x : f32[5] = placeholder()\n%v = expand.default(%x, [4, 5])\nreturn (%v,)\n",
	      S(0, 1), 0);
	check("%x : f32[4,5] = placeholder()\n%v = unsqueeze.default(%x, 1)\n%r = squeeze.dims(%v, "
	      "[1])\n"
	      "%u = unsqueeze.default(%r, -1)\nreturn (%u,)\n",
	      S(5, 1, 0), 0);
	check("%x : f32[4,5] = placeholder()\n%v = flip.default(%x, [0, -1])\nreturn (%v,)\n",
	      S(-5, -1), 19);
	check("%x : f32[4,5,6] = placeholder()\n%v = select.int(%x, 1, -2)\nreturn (%v,)\n",
	      S(30, 1), 18);
	check("%x : f32[4,5] = placeholder()\n%v = diagonal.default(%x, 1)\nreturn (%v,)\n", S(6),
	      1);
	check("%x : f32[4,5] = placeholder()\n%v = diagonal.default(%x, -2)\nreturn (%v,)\n", S(6),
	      10);
	check("%x : f32[4,5,6] = placeholder()\n%v = permute.default(%x, [2, 0, -2])\nreturn "
	      "(%v,)\n",
	      S(1, 30, 6), 0);
}

/* Negative and clamped bounds of slices. */
static void test_views_slice_bounds_are_clamped(void **state)
{
	(void)state;
	check("%x : f32[10] = placeholder()\n%v = slice.Tensor(%x, 0, -3)\nreturn (%v,)\n", S(1),
	      7);
	check("%x : f32[10] = placeholder()\n%v = slice.Tensor(%x, 0, -30, 4, 2)\nreturn (%v,)\n",
	      S(2), 0);
	check("%x : f32[10] = placeholder()\n%v = slice.Tensor(%x, 0, 4, 9223372036854775806)\n"
	      "return (%v,)\n",
	      S(1), 4);
}

/* LV-05: slice then transpose is still one (strides, offset). LV-10: given strides are respected.
 */
static void test_views_composition_stays_affine(void **state)
{
	(void)state;
	check("%x : f32[20,30] = placeholder()\n%a = slice.Tensor(%x, 0, 2, 10, 3)\n"
	      "%b = slice.Tensor(%a, 1, 5)\n%v = t.default(%b)\nreturn (%v,)\n",
	      S(1, 90), 65);
	check("%x : f32[4,6] = placeholder(strides=[1,10])\n%v = t.default(%x)\nreturn (%v,)\n",
	      S(10, 1), 0);
}

/* LV-07: neighbours merge iff t_j = s_(j+1)*t_(j+1). */
static void test_views_reshape_merges_contiguous_dims(void **state)
{
	(void)state;
	check("%x : f32[4,6] = placeholder()\n%v = view.default(%x, [24])\nreturn (%v,)\n", S(1),
	      0);
	check("%x : f32[4,6] = placeholder()\n%v = view.default(%x, [2, 12])\nreturn (%v,)\n",
	      S(12, 1), 0);
	check("%x : f32[4,6,5] = placeholder()\n%s = slice.Tensor(%x, 0, 1, 4, 2)\n"
	      "%v = view.default(%s, [2, 30])\nreturn (%v,)\n",
	      S(60, 1), 30);
	check("%x : f32[4,1,6] = placeholder()\n%v = view.default(%x, [2, 2, 3, 2, 1])\nreturn "
	      "(%v,)\n",
	      S(12, 6, 2, 1, 0), 0);
	/* every other row of (8,6), each row split: outer pair merges although rows do not touch */
	check("%x : f32[8,6] = placeholder()\n%s = slice.Tensor(%x, 0, 0, 8, 2)\n"
	      "%v = view.default(%s, [2, 2, 6])\nreturn (%v,)\n",
	      S(24, 12, 1), 0);
}

/* LV-08: reshape of a transposed (4,6) to 24 keeps div and mod in the expression. */
static void test_views_reshape_of_transposed_keeps_div_mod(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w,
		"%x : f32[4,6] = placeholder()\n%t = t.default(%x)\n%v = view.default(%t, [24])\n"
		"return (%v,)\n");
	assert_has(low_body(&w, low_output(&w, 0)),
		   "tmp0 = ops.load('x', (i0 // 4) + 6*(i0 % 4))\n");
	assert_int_equal(low_computed(&w), 1);
	low_end(&w);
}

/* A view and its inverse cancel. */
static void test_views_reshape_round_trip_is_identity(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w, "%x : f32[4,6] = placeholder()\n%r = relu.default(%x)\n%v = view.default(%r, "
		    "[3, 8])\n"
		    "%u = view.default(%v, [4, 6])\nreturn (%u,)\n");
	assert_has(low_body(&w, low_output(&w, 0)), "tmp0 = ops.load('x', 6*i0 + i1)\n");
	low_end(&w);
}

/* LV-09: view of a computed value stores the map and rewrites the index at the load. */
static void test_views_of_unrealised_value_rewrite_loads(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w, "%x : f32[4,6] = placeholder()\n%r = relu.default(%x)\n%t = t.default(%r)\n"
		    "return (%t,)\n");
	assert_int_equal(low_computed(&w), 1);
	assert_string_equal(low_body(&w, low_output(&w, 0)),
			    "tmp0 = ops.load('x', i0 + 6*i1)\ntmp1 = ops.relu('tmp0')\n");
	low_end(&w);
}

/* LV-14, LV-15: Example 6.1 */
static void test_views_example_6_1_has_one_buffer(void **state)
{
	struct low w;
	const struct stx_buffer *b;
	const char *const origins[] = { "primals_1", "primals_2", "t", "add" };
	uint32_t i;

	(void)state;
	low_gpu(&w,
		"%primals_1 : f32[512,256] = placeholder()\n%primals_2 : f32[256,512] = "
		"placeholder()\n"
		"%t = t.default(%primals_1)\n%add = add.Tensor(%t, %primals_2)\nreturn (%add,)\n");
	b = low_output(&w, 0);
	assert_int_equal(w.l->buffers.n, 3);
	assert_string_equal(b->name, "buf2");
	assert_consts(&w, b->layout.sizes, b->layout.rank, 256, 512);
	assert_consts(&w, b->layout.strides, b->layout.rank, 512, 1);
	assert_consts(&w, b->ranges, b->nranges, 256, 512);
	assert_string_equal(low_body(&w, b), "tmp0 = ops.load('primals_1', i0 + 256*i1)\n"
					     "tmp1 = ops.load('primals_2', 512*i0 + i1)\n"
					     "tmp2 = ops.add('tmp0', 'tmp1')\n");
	assert_int_equal(b->norigins, 4);
	for (i = 0; i < 4; i++)
		assert_string_equal(b->origins[i], origins[i]);
	low_end(&w);
}

/* LV-12: a temporary that is only read transposed, made of a transposed input, is stored in the
 * input's order: its write and all its reads are contiguous. LV-02: the input, read the same way,
 * is fixed, and so is the output (LV-10). */
static void test_views_value_only_read_transposed_is_contiguous_throughout(void **state)
{
	struct low w;
	const struct stx_buffer *b;
	const char *body;

	(void)state;
	low_cpu(&w, "%x : f32[4,6] = placeholder()\n%t = t.default(%x)\n%e = exp.default(%t)\n"
		    "%u = t.default(%e)\n%n = neg.default(%u)\n%v = t.default(%e)\n"
		    "%m = amax.default(%v, [1])\n"
		    "return (%n, %m)\n");
	b = w.l->buffers.at[1];
	assert_int_equal(b->kind, STX_BUF_TEMP);
	assert_consts(&w, b->layout.sizes, b->layout.rank, 6, 4);
	assert_consts(&w, b->layout.strides, b->layout.rank, 1, 6);
	assert_has(low_body(&w, b), "ops.load('x', i0 + 6*i1)"); /* as it is written */
	body = low_body(&w, low_output(&w, 0));
	assert_has(body, "ops.load('buf1', 6*i0 + i1)");
	assert_has(low_body(&w, low_output(&w, 1)), "ops.load('buf1', 6*i0 + r0_0)");
	assert_consts(&w, w.l->buffers.at[0]->layout.strides, 2, 6, 1);
	assert_consts(&w, low_output(&w, 0)->layout.strides, 2, 6, 1);
	assert_consts(&w, low_output(&w, 0)->ranges, low_output(&w, 0)->nranges, 4, 6);
	for (uint32_t i = 0; i < w.l->buffers.n; i++)
		assert_false(w.l->buffers.at[i]->layout.flexible); /* settled by now */
	low_end(&w);
}

/* LV-11, LV-02: a temporary that reads transposed is written in that order, and row-major without a
 * preference; outputs are always row-major (LV-10). */
static void test_views_flexible_layout_follows_reads(void **state)
{
	struct low w;
	const struct stx_buffer *b;

	(void)state;
	low_cpu(&w, "%x : f32[4,6] = placeholder()\n%t = t.default(%x)\n%e = exp.default(%t)\n"
		    "%a = amax.default(%e, [0])\n%b = amax.default(%e, [1])\n%n = neg.default(%t)\n"
		    "return (%a, %b, %n)\n");
	b = w.l->buffers.at[1];
	assert_string_equal(stx_realized_text(b->rule), "expensive");
	assert_consts(&w, b->layout.strides, b->layout.rank, 1, 6);
	assert_has(low_body(&w, w.l->buffers.at[2]), "ops.load('buf1', 6*i0 + r0_0)");
	assert_consts(&w, low_output(&w, 2)->layout.strides, low_output(&w, 2)->layout.rank, 4, 1);
	low_end(&w);
	low_cpu(&w,
		"%x : f32[4,6] = placeholder()\n%y : f32[6,4] = placeholder()\n%t = t.default(%x)\n"
		"%s = add.Tensor(%t, %y)\n%e = exp.default(%s)\n%a = amax.default(%e, [0])\n"
		"%b = amax.default(%e, [1])\nreturn (%a, %b)\n");
	b = w.l->buffers.at[2];
	assert_consts(&w, b->layout.strides, b->layout.rank, 4, 1);
	low_end(&w);
}

/* A reshaped reduction is the output itself: no copy. */
static void test_views_output_view_of_whole_buffer_is_not_copied(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w, "%x : f32[4,6,2] = placeholder()\n%s = sum.dim_IntList(%x, [2])\n"
		    "%v = view.default(%s, [3, 8])\nreturn (%v,)\n");
	assert_int_equal(low_computed(&w), 1);
	assert_consts(&w, low_output(&w, 0)->layout.sizes, low_output(&w, 0)->layout.rank, 3, 8);
	assert_consts(&w, low_output(&w, 0)->ranges, low_output(&w, 0)->nranges, 4, 6);
	low_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_views_affine_give_stated_strides),
		cmocka_unit_test(test_views_slice_bounds_are_clamped),
		cmocka_unit_test(test_views_composition_stays_affine),
		cmocka_unit_test(test_views_reshape_merges_contiguous_dims),
		cmocka_unit_test(test_views_reshape_of_transposed_keeps_div_mod),
		cmocka_unit_test(test_views_reshape_round_trip_is_identity),
		cmocka_unit_test(test_views_of_unrealised_value_rewrite_loads),
		cmocka_unit_test(test_views_example_6_1_has_one_buffer),
		cmocka_unit_test(test_views_flexible_layout_follows_reads),
		cmocka_unit_test(test_views_value_only_read_transposed_is_contiguous_throughout),
		cmocka_unit_test(test_views_output_view_of_whole_buffer_is_not_copied),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
