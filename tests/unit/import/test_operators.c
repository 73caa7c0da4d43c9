/* test_operators.c: what changed between opsets, the forms of broadcasting, attributes of the wrong
 * type. */
#include "imported.h"

/* ---- broadcasting ---- */

static void test_operators_modern_broadcast_aligns_to_the_right(void **state)
{
	(void)state;
	ASSERT_GIVES("input a float [2,3]\n"
		     "input b float [3]\n"
		     "y = Add(a, b)\n"
		     "output y\n",
		     counting, "2,3", 6, 8, 10, 9, 11, 13);
	ASSERT_GIVES("input a float [2,1]\n"
		     "input b float [1,2]\n"
		     "y = Mul(a, b)\n"
		     "output y\n",
		     counting, "2,2", 0, 0, 2, 3);
}

static void test_operators_broadcast_before_opset_7_aligns_at_axis(void **state)
{
	(void)state;
	ASSERT_GIVES("opset 6\n"
		     "input a float [2,3,2]\n"
		     "init b float [3] 10 20 30\n"
		     "y = Add(a, b) broadcast=1 axis=1\n"
		     "output y\n",
		     counting, "2,3,2", 10, 11, 22, 23, 34, 35, 16, 17, 28, 29, 40, 41);
	ASSERT_GIVES("opset 6\n"
		     "input a float [2,2]\n"
		     "init b float [2] 10 20\n"
		     "y = Add(a, b) broadcast=1\n"
		     "output y\n",
		     counting, "2,2", 10, 21, 12, 23);
}

static void test_operators_axis_of_broadcast_beyond_the_rank_refused(void **state)
{
	(void)state;
	assert_refused("opset 6\n"
		       "input a float [2,3]\n"
		       "init b float [3] 1 2 3\n"
		       "y = Add(a, b) broadcast=1 axis=5\n"
		       "output y\n",
		       STX_E_INVALID, "axis 5", "rank 2", "Add", NULL);
}

static void test_operators_shapes_that_do_not_broadcast_refused(void **state)
{
	(void)state;
	assert_refused("input a float [2,3]\n"
		       "input b float [4]\n"
		       "y = Add(a, b)\n"
		       "output y\n",
		       STX_E_INVALID, "broadcast", "Add", NULL);
}

static void test_operators_prelu_before_opset_7_has_one_slope_a_channel(void **state)
{
	(void)state;
	static const double in[] = { -1, -2, -3, -4 };
	ASSERT_GIVES("opset 6\n"
		     "input x float [1,2,2]\n"
		     "init s float [2] 2 10\n"
		     "y = PRelu(x, s)\n"
		     "output y\n",
		     in, "1,2,2", -2, -4, -30, -40);
}

/* ---- the same operator in two opsets ---- */

static void test_operators_axes_by_attribute_and_by_input_agree(void **state)
{
	(void)state;
	static const char *const models[] = {
		"opset 11\ninput x float [2,3]\ny = ReduceSum(x) axes=[1] keepdims=0\noutput y\n",
		"opset 13\ninput x float [2,3]\ninit a int64 [1] 1\ny = ReduceSum(x, a) "
		"keepdims=0\noutput y\n",
	};
	for (int i = 0; i < 2; i++)
		ASSERT_GIVES(models[i], counting, "2", 3, 12);
	ASSERT_GIVES("opset 11\ninput x float [2,1]\ny = Squeeze(x) axes=[1]\noutput y\n", counting,
		     "2", 0, 1);
	ASSERT_GIVES("opset 13\ninput x float [2,1]\ninit a int64 [1] -1\ny = Squeeze(x, "
		     "a)\noutput y\n",
		     counting, "2", 0, 1);
	ASSERT_GIVES("opset 11\ninput x float [2]\ny = Unsqueeze(x) axes=[0]\noutput y\n", counting,
		     "1,2", 0, 1);
	ASSERT_GIVES("opset 13\ninput x float [2]\ninit a int64 [1] 0\ny = Unsqueeze(x, "
		     "a)\noutput y\n",
		     counting, "1,2", 0, 1);
}

/* The sum and the number of elements may lie outside the type. */
static void test_operators_mean_of_narrow_integers_is_of_all(void **state)
{
	(void)state;
	static double near_100[300];
	for (int i = 0; i < 300; i++)
		near_100[i] = 99 + i % 3;
	ASSERT_GIVES("input x float [300]\ni = Cast(x) to=3\ny = ReduceMean(i) keepdims=0\n"
		     "output y\n",
		     near_100, "", 100);
	ASSERT_GIVES("input x float [300]\ni = Cast(x) to=2\ny = ReduceMean(i) keepdims=0\n"
		     "output y\n",
		     near_100, "", 100);
	static const double large[] = { 0x7ffffff0, -0x7ffffff0, 0x7ffffff0, 0x7ffffff0 };
	ASSERT_GIVES("input x double [2,2]\ni = Cast(x) to=6\ny = ReduceMean(i) axes=[1] "
		     "keepdims=0\noutput y\n",
		     large, "2", 0, 0x7ffffff0);
}

static void test_operators_clip_bounds_by_attribute_and_by_input(void **state)
{
	(void)state;
	ASSERT_GIVES("opset 6\ninput x float [4]\ny = Clip(x) min=1.0 max=2.0\noutput y\n",
		     counting, "4", 1, 1, 2, 2);
	ASSERT_GIVES("opset 11\ninput x float [4]\ninit hi float [] 2\ny = Clip(x, , hi)\noutput "
		     "y\n",
		     counting, "4", 0, 1, 2, 2);
}

static void test_operators_softmax_before_opset_13_flattens(void **state)
{
	(void)state;
	static const double zeros[8];
	ASSERT_GIVES("opset 12\ninput x float [1,2,2]\ny = Softmax(x)\noutput y\n", zeros, "1,2,2",
		     0.25, 0.25, 0.25, 0.25);
	ASSERT_GIVES("opset 13\ninput x float [1,2,2]\ny = Softmax(x)\noutput y\n", zeros, "1,2,2",
		     0.5, 0.5, 0.5, 0.5);
}

/* erf of integers, below 1, is truncated to their type; nothing is the maximum of nothing; the
 * square is x * x. */
static void test_operators_results_keep_the_operands_type(void **state)
{
	static const double special[4] = { -INFINITY, -2, 3, 4 };
	(void)state;
	ASSERT_GIVES("input x float [4]\ni = Cast(x) to=6\ne = Erf(i)\ny = Add(e, e)\noutput y\n",
		     counting, "4", 0, 0, 0, 0);
	ASSERT_GIVES("opset 13\ninput x float [4]\ninit s int64 [1] 0\nz = Slice(x, s, s)\n"
		     "h = Hardmax(z) axis=0\ny = Concat(h, x) axis=0\noutput y\n",
		     counting, "4", 0, 1, 2, 3);
	ASSERT_GIVES("input x float [4]\ninit p float [] 0.5\ny = Pow(x, p)\noutput y\n", special,
		     "4", NAN, NAN, 1.7320508, 2);
}

static void test_operators_sign_of_nan_is_nan(void **state)
{
	static const double special[4] = { -INFINITY, NAN, -0.0, 4 };
	(void)state;
	ASSERT_GIVES("input x float [4]\ny = Sign(x)\noutput y\n", special, "4", -1, NAN, 0, 1);
	ASSERT_GIVES("input x float [4]\ni = Cast(x) to=6\ny = Sign(i)\noutput y\n", counting, "4",
		     0, 1, 1, 1);
}

/* In the first opsets counts have the type of the data. */
static void test_operators_split_and_tile_by_numbers_of_the_data_s_type(void **state)
{
	(void)state;
	ASSERT_GIVES("opset 1\ninput x float [3]\ninit s float [2] 1 2\na, b = Split(x, s) axis=0\n"
		     "y = Concat(b, a) axis=0\noutput y\n",
		     counting, "3", 1, 2, 0);
	ASSERT_GIVES("opset 1\ninput x float [2,2]\ninit n float [] 2\ninit a float [] 1\n"
		     "y = Tile(x, n, a)\noutput y\n",
		     counting, "2,4", 0, 1, 0, 1, 2, 3, 2, 3);
	assert_refused("opset 1\ninput x float [3]\ninit s float [2] 1.5 1.5\n"
		       "a, b = Split(x, s) axis=0\noutput a\n",
		       STX_E_INVALID, "whole numbers", "1.5", NULL);
}

static void test_operators_max_unpool_puts_back_what_max_pool_took(void **state)
{
	(void)state;
	ASSERT_GIVES("input x float [1,1,3,4]\n"
		     "p, i = MaxPool(x) kernel_shape=[2,2] strides=[1,2]\n"
		     "y = MaxUnpool(p, i) kernel_shape=[2,2] strides=[1,2]\noutput y\n",
		     counting, "1,1,3,4", 0, 0, 0, 0, 0, 5, 0, 7, 0, 9, 0, 11);
	static const double in[] = { 1, 2, 3, 4 };
	ASSERT_GIVES("input x float [1,1,2,2]\ninit i int64 [1,1,2,2] 5 7 13 15\n"
		     "init s int64 [4] 1 1 5 5\n"
		     "y = MaxUnpool(x, i, s) kernel_shape=[2,2] strides=[2,2]\noutput y\n",
		     in, "1,1,5,5", 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 4, 0, 0,
		     0, 0, 0, 0);
	assert_refused("input x float [1,1,2,2]\ninput i int64 [1,1,2,1]\n"
		       "y = MaxUnpool(x, i) kernel_shape=[2,2]\noutput y\n",
		       STX_E_INVALID, "indices", NULL);
	assert_refused(
		"input x float [1,1,2,2]\ninput i int64 [1,1,2,2]\ninit s int64 [4] 1 2 5 5\n"
		"y = MaxUnpool(x, i, s) kernel_shape=[2,2]\noutput y\n",
		STX_E_INVALID, "dimension 1", NULL);
}

static void test_operators_global_lp_pool_is_the_norm_of_a_channel(void **state)
{
	(void)state;
	static const double in[] = { 3, -4, 6, 8 };
	ASSERT_GIVES("input x float [1,2,2]\ny = GlobalLpPool(x)\noutput y\n", in, "1,2,1", 5, 10);
	ASSERT_GIVES("input x float [1,2,2]\ny = GlobalLpPool(x) p=1\noutput y\n", in, "1,2,1", 7,
		     14);
	ASSERT_GIVES("opset 1\ninput x float [1,2,2]\ny = GlobalLpPool(x) p=1.0\noutput y\n", in,
		     "1,2,1", 7, 14);
}

static void test_operators_nonzero_of_a_number_has_no_coordinates(void **state)
{
	(void)state;
	ASSERT_GIVES("init x float [] 2\nn = NonZero(x)\ny = Shape(n)\noutput y\n", counting, "2",
		     0, 1);
	ASSERT_GIVES("init x float [] 0\nn = NonZero(x)\ny = Shape(n)\noutput y\n", counting, "2",
		     0, 0);
}

static void test_operators_gemm_of_integers_by_a_fraction_refused(void **state)
{
	(void)state;
	assert_refused("input a int32 [2,2]\ny = Gemm(a, a) alpha=0.5\noutput y\n",
		       STX_E_UNSUPPORTED, "Gemm", "alpha", NULL);
}

/* An integer beyond 2^53 is no double. */
static void test_operators_constant_of_shape_keeps_every_bit(void **state)
{
	(void)state;
	ASSERT_GIVES("init s int64 [1] 2\ninit less uint64 [] 9007199254740992\n"
		     "c = ConstantOfShape(s) value=(v uint64 [1] 9007199254740993\n"
		     "d = Sub(c, less)\ny = Cast(d) to=1\noutput y\n",
		     counting, "2", 1, 1);
}

static void test_operators_reshape_by_attribute_and_by_input(void **state)
{
	(void)state;
	ASSERT_GIVES("opset 1\ninput x float [2,2]\ny = Reshape(x) shape=[0,-1,1]\noutput y\n",
		     counting, "2,2,1", 0, 1, 2, 3);
	ASSERT_GIVES("opset 14\ninput x float [2,2]\ninit s int64 [3] 0 -1 1\ny = Reshape(x, "
		     "s)\noutput y\n",
		     counting, "2,2,1", 0, 1, 2, 3);
}

static void test_operators_cast_names_its_type_by_text_before_opset_6(void **state)
{
	(void)state;
	static const double in[] = { 1.5, -2.5 };
	ASSERT_GIVES("opset 1\ninput x float [2]\ny = Cast(x) to=\"INT32\"\noutput y\n", in, "2", 1,
		     -2);
	assert_refused("opset 1\ninput x float [2]\ny = Cast(x) to=\"STRING\"\noutput y\n",
		       STX_E_UNSUPPORTED, "Cast", "to=STRING", NULL);
	assert_refused("opset 13\ninput x float [2]\ny = Cast(x) to=8\noutput y\n",
		       STX_E_UNSUPPORTED, "Cast", "to=string", NULL);
}

static void test_operators_cast_to_8_bit_floats_saturates_unless_told_not_to(void **state)
{
	(void)state;
	static const double in[] = { 1000, -1000, INFINITY, NAN, 1.0625 };
	ASSERT_GIVES("opset 19\ninput x float [5]\na = Cast(x) to=17\ny = Cast(a) to=1\noutput y\n",
		     in, "5", 448, -448, 448, NAN, 1);
	ASSERT_GIVES("opset 19\ninput x float [5]\na = Cast(x) to=17 saturate=0\ny = Cast(a) "
		     "to=1\noutput y\n",
		     in, "5", NAN, NAN, NAN, NAN, 1);
	ASSERT_GIVES("opset 19\ninput x float [5]\na = Cast(x) to=19 saturate=0\ny = Cast(a) "
		     "to=1\noutput y\n",
		     in, "5", 1024, -1024, INFINITY, NAN, 1);
	ASSERT_GIVES("opset 19\ninput x float [5]\na = Cast(x) to=20\ny = Cast(a) to=1\noutput y\n",
		     in, "5", 1024, -1024, 57344, NAN, 1);
}

static void test_operators_slice_by_attribute_and_by_input(void **state)
{
	(void)state;
	ASSERT_GIVES("opset 9\ninput x float [4]\ny = Slice(x) starts=[-3] ends=[9]\noutput y\n",
		     counting, "3", 1, 2, 3);
	ASSERT_GIVES("opset 10\ninput x float [4]\ninit s int64 [1] 9\ninit e int64 [1] -9\n"
		     "init a int64 [1] 0\ninit p int64 [1] -2\ny = Slice(x, s, e, a, p)\noutput "
		     "y\n",
		     counting, "2", 3, 1);
}

static void test_operators_group_norm_scale_is_a_group_s_before_opset_21(void **state)
{
	(void)state;
	static const double in[] = { -1, 1, -1, 1 };
	ASSERT_GIVES("opset 18\ninput x float [1,2,2]\ninit s float [2] 2 3\ninit b float [2] 0 0\n"
		     "y = GroupNormalization(x, s, b) num_groups=2 epsilon=0.0\noutput y\n",
		     in, "1,2,2", -2, 2, -3, 3);
	assert_refused("opset 21\ninput x float [1,3,2]\ninit s float [3] 2 3 4\ninit b float [3] "
		       "0 0 0\n"
		       "y = GroupNormalization(x, s, b) num_groups=2\noutput y\n",
		       STX_E_INVALID, "num_groups 2", "divide", NULL);
}

/* ---- attributes ---- */

static void test_operators_attribute_of_the_wrong_type_refused(void **state)
{
	(void)state;
	assert_refused("input x float [2,2]\ny = Softmax(x) axis=1.0\noutput y\n", STX_E_INVALID,
		       "axis", "Softmax", "must be an integer", NULL);
	assert_refused("input x float [2,2]\ny = LeakyRelu(x) alpha=1\noutput y\n", STX_E_INVALID,
		       "alpha", "LeakyRelu", "must be a float", NULL);
	assert_refused("input x float [2,2]\ny = Transpose(x) perm=1\noutput y\n", STX_E_INVALID,
		       "perm", "Transpose", "a list of integers", NULL);
	assert_refused("opset 20\ninput x float [2,2]\ny = Gelu(x) approximate=1\noutput y\n",
		       STX_E_INVALID, "approximate", "Gelu", "must be a string", NULL);
}

static void test_operators_value_of_an_attribute_not_taken_names_it(void **state)
{
	(void)state;
	assert_refused(
		"opset 20\ninput x float [2,2]\ny = Gelu(x) approximate=\"fast\"\noutput y\n",
		STX_E_UNSUPPORTED, "Gelu", "approximate=fast", NULL);
	assert_refused("opset 11\ninput x int32 [2]\ny = BitShift(x, x) "
		       "direction=\"UP\"\noutput y\n",
		       STX_E_UNSUPPORTED, "BitShift", "direction=UP", NULL);
}

static void test_operators_attribute_the_operator_does_not_have_refused(void **state)
{
	(void)state;
	assert_refused("input x float [2,2]\ny = Softmax(x) axis=1 temperature=2.0\noutput y\n",
		       STX_E_UNSUPPORTED, "Softmax", "temperature", NULL);
	assert_refused("input x float [2,2]\ny = Transpose(x) per=[1,0]\noutput y\n",
		       STX_E_UNSUPPORTED, "Transpose", "attribute per ", NULL);
	ASSERT_GIVES("opset 1\ninput x float [2]\ny = Neg(x) consumed_inputs=[0]\noutput y\n",
		     counting, "2", 0, -1);
}

static void test_operators_space_and_depth_have_two_orders(void **state)
{
	(void)state;
	static const char *const there[] = { "DCR", "CRD" };
	char text[256];
	for (int i = 0; i < 2; i++) {
		snprintf(text, sizeof text,
			 "opset 28\ninput x float [1,2,2,4]\n"
			 "d = SpaceToDepth(x) blocksize=2 mode=\"%s\"\n"
			 "y = DepthToSpace(d) blocksize=2 mode=\"%s\"\noutput y\n",
			 there[i], there[i]);
		ASSERT_GIVES(text, counting, "1,2,2,4", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
			     13, 14, 15);
	}
	ASSERT_GIVES("opset 28\ninput x float [1,2,2,2]\n"
		     "y = SpaceToDepth(x) blocksize=2 mode=\"CRD\"\noutput y\n",
		     counting, "1,8,1,1", 0, 1, 2, 3, 4, 5, 6, 7);
	ASSERT_GIVES("opset 28\ninput x float [1,2,2,2]\n"
		     "y = SpaceToDepth(x) blocksize=2\noutput y\n",
		     counting, "1,8,1,1", 0, 4, 1, 5, 2, 6, 3, 7);
	assert_refused("opset 28\ninput x float [1,2,2,2]\n"
		       "y = SpaceToDepth(x) blocksize=2 mode=\"RCD\"\noutput y\n",
		       STX_E_UNSUPPORTED, "SpaceToDepth", "mode=RCD", NULL);
}

static void test_operators_axis_outside_the_rank_refused(void **state)
{
	(void)state;
	assert_refused("input x float [2,2]\ny = Softmax(x) axis=2\noutput y\n", STX_E_INVALID,
		       "axis 2", "rank 2", "Softmax", NULL);
	assert_refused("input x float [2,2]\ny = Softmax(x) axis=-3\noutput y\n", STX_E_INVALID,
		       "axis -3", NULL);
}

/* An axis of a scalar has no place in the list of paddings. */
static void test_operators_crop_of_a_scalar_refused(void **state)
{
	(void)state;
	assert_refused("opset 18\n"
		       "input x float []\n"
		       "init s int64 [1] 3\n"
		       "y = CenterCropPad(x, s) axes=[0]\n"
		       "output y\n",
		       STX_E_INVALID, "rank 0", "CenterCropPad", NULL);
}

static void test_operators_col2im_attributes_and_sizes_out_of_range_refused(void **state)
{
	(void)state;
#define COL2IM(block, attributes)                                                                  \
	"opset 18\ninput x float [1,4,4]\ninit i int64 [3] 9 9 9\ninit b int64 [3] " block         \
	"\ny = Col2Im(x, i, b) " attributes "\noutput y\n"
	assert_refused(COL2IM("2147483647 2147483647 2147483647", ""), STX_E_INVALID, "elements by",
		       "Col2Im", NULL);
	assert_refused(COL2IM("1 1 1", "strides=[1,0,1]"), STX_E_INVALID, "strides", "at least 1",
		       NULL);
	assert_refused(COL2IM("1 1 1", "pads=[0,0,0]"), STX_E_INVALID, "pads", "6 numbers", NULL);
	assert_refused(COL2IM("1 1 1", "dilations=[1,1,3000000000]"), STX_E_INVALID, "dilations",
		       NULL);
#undef COL2IM
}

static void test_operators_bitcast_keeps_the_bits_and_the_width(void **state)
{
	(void)state;
	static const double in[] = { 1, -2 };
	ASSERT_GIVES("opset 26\ninput x float [2]\ny = BitCast(x) to=6\noutput y\n", in, "2",
		     1065353216, -1073741824);
	assert_refused("opset 26\ninput x float [2]\ny = BitCast(x) to=7\noutput y\n",
		       STX_E_INVALID, "to=int64", "width", "f32", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_operators_modern_broadcast_aligns_to_the_right),
		cmocka_unit_test(test_operators_broadcast_before_opset_7_aligns_at_axis),
		cmocka_unit_test(test_operators_axis_of_broadcast_beyond_the_rank_refused),
		cmocka_unit_test(test_operators_shapes_that_do_not_broadcast_refused),
		cmocka_unit_test(test_operators_prelu_before_opset_7_has_one_slope_a_channel),
		cmocka_unit_test(test_operators_axes_by_attribute_and_by_input_agree),
		cmocka_unit_test(test_operators_mean_of_narrow_integers_is_of_all),
		cmocka_unit_test(test_operators_clip_bounds_by_attribute_and_by_input),
		cmocka_unit_test(test_operators_softmax_before_opset_13_flattens),
		cmocka_unit_test(test_operators_results_keep_the_operands_type),
		cmocka_unit_test(test_operators_sign_of_nan_is_nan),
		cmocka_unit_test(test_operators_split_and_tile_by_numbers_of_the_data_s_type),
		cmocka_unit_test(test_operators_max_unpool_puts_back_what_max_pool_took),
		cmocka_unit_test(test_operators_global_lp_pool_is_the_norm_of_a_channel),
		cmocka_unit_test(test_operators_nonzero_of_a_number_has_no_coordinates),
		cmocka_unit_test(test_operators_constant_of_shape_keeps_every_bit),
		cmocka_unit_test(test_operators_gemm_of_integers_by_a_fraction_refused),
		cmocka_unit_test(test_operators_reshape_by_attribute_and_by_input),
		cmocka_unit_test(test_operators_cast_names_its_type_by_text_before_opset_6),
		cmocka_unit_test(test_operators_cast_to_8_bit_floats_saturates_unless_told_not_to),
		cmocka_unit_test(test_operators_slice_by_attribute_and_by_input),
		cmocka_unit_test(test_operators_group_norm_scale_is_a_group_s_before_opset_21),
		cmocka_unit_test(test_operators_attribute_of_the_wrong_type_refused),
		cmocka_unit_test(test_operators_value_of_an_attribute_not_taken_names_it),
		cmocka_unit_test(test_operators_attribute_the_operator_does_not_have_refused),
		cmocka_unit_test(test_operators_space_and_depth_have_two_orders),
		cmocka_unit_test(test_operators_axis_outside_the_rank_refused),
		cmocka_unit_test(test_operators_crop_of_a_scalar_refused),
		cmocka_unit_test(test_operators_col2im_attributes_and_sizes_out_of_range_refused),
		cmocka_unit_test(test_operators_bitcast_keeps_the_bits_and_the_width),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
