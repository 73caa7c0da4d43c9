/* The oracle against values computed by hand: convolution and pooling. */
#include "ref_run.h"

#define X42                                                                                        \
	VALS(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, \
	     24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41)

static void test_ref_convolution_by_hand(void **s)
{
	(void)s;
	expect(RUN("%x : f32[1,1,5] = placeholder()\n%w : f32[1,1,3] = placeholder()\n%b : f32[1] "
		   "= placeholder()\n"
		   "%y = convolution.default(%x, %w, %b, [2], [1], [1], False, [0], 1)\nreturn "
		   "(%y,)\n",
		   make(STX_F32, DIMS(1, 1, 5), VALS(1, 2, 3, 4, 5)),
		   make(STX_F32, DIMS(1, 1, 3), VALS(1, 10, 100)),
		   make(STX_F32, DIMS(1), VALS(0.5))),
	       STX_F32, DIMS(1, 1, 3), VALS(210.5, 432.5, 54.5));
	/* dilation 2; integers wrap */
	expect(RUN("%x : u8[1,1,5] = placeholder()\n%w : u8[1,1,2] = placeholder()\n"
		   "%y = convolution.default(%x, %w, None, [1], [0], [2], False, [0], 1)\nreturn "
		   "(%y,)\n",
		   make(STX_U8, DIMS(1, 1, 5), VALS(1, 2, 3, 4, 200)),
		   make(STX_U8, DIMS(1, 1, 2), VALS(1, 2))),
	       STX_U8, DIMS(1, 1, 3), VALS(7, 10, 147));
	/* two groups, one channel each: depthwise */
	expect(RUN("%x : f32[1,2,3] = placeholder()\n%w : f32[2,1,2] = placeholder()\n"
		   "%y = convolution.default(%x, %w, None, [1], [0], [1], False, [0], 2)\nreturn "
		   "(%y,)\n",
		   make(STX_F32, DIMS(1, 2, 3), VALS(1, 2, 3, 4, 5, 6)),
		   make(STX_F32, DIMS(2, 1, 2), VALS(1, 1, 1, -1))),
	       STX_F32, DIMS(1, 2, 2), VALS(3, 5, -1, -1));
	/* a flipped input: its elements lie before its first one */
	expect(RUN("%x : f32[1,1,4] = placeholder()\n%w : f32[1,1,3] = placeholder()\n"
		   "%f = flip.default(%x, [2])\n"
		   "%y = convolution.default(%f, %w, None, [1], [0], [1], False, [0], 1)\nreturn "
		   "(%y,)\n",
		   make(STX_F32, DIMS(1, 1, 4), VALS(1, 2, 3, 4)),
		   make(STX_F32, DIMS(1, 1, 3), VALS(1, 10, 100))),
	       STX_F32, DIMS(1, 1, 2), VALS(234, 123));
}

static void test_ref_transposed_convolution_by_hand(void **s)
{
	(void)s;
	/* x spread at stride 2; each element adds x*w: 1 2 3 + _ _ 10 20 30, cut by padding 1, one
	 * more behind */
	expect(RUN("%x : f32[1,1,2] = placeholder()\n%w : f32[1,1,3] = placeholder()\n"
		   "%y = convolution.default(%x, %w, None, [2], [1], [1], True, [1], 1)\nreturn "
		   "(%y,)\n",
		   make(STX_F32, DIMS(1, 1, 2), VALS(1, 10)),
		   make(STX_F32, DIMS(1, 1, 3), VALS(1, 2, 3))),
	       STX_F32, DIMS(1, 1, 4), VALS(2, 13, 20, 30));
	/* an infinite weight meets no zero between the elements */
	expect(RUN("%x : f32[1,1,2] = placeholder()\n%w : f32[1,1,1] = placeholder()\n"
		   "%y = convolution.default(%x, %w, None, [2], [0], [1], True, [0], 1)\nreturn "
		   "(%y,)\n",
		   make(STX_F32, DIMS(1, 1, 2), VALS(1, 10)),
		   make(STX_F32, DIMS(1, 1, 1), VALS(INFINITY))),
	       STX_F32, DIMS(1, 1, 3), VALS(INFINITY, 0, INFINITY));
}

/* B47 */
static void test_ref_pooling_clips_as_stated(void **s)
{
	struct stx_tensor ones = make(STX_F32, DIMS(42), X42), out[2];
	struct stx_diag d = { 0 };
	struct stx_tensor in = make(STX_F32, DIMS(1, 1, 6, 7), X42);

	(void)s;
	free(ones.data);
	assert_int_equal(
		evaluate("%x : f32[1,1,6,7] = placeholder()\n%y : (f32[1,1,3,4], i64[1,1,3,4]) = "
			 "max_pool2d_with_indices.default(%x, [1], [2], [0], [1], True)\n"
			 "return (%y, %y:1)\n",
			 &in, 1, out, &d),
		0);
	free(in.data);
	expect(out[0], STX_F32, DIMS(1, 1, 3, 4), VALS(0, 2, 4, 6, 14, 16, 18, 20, 28, 30, 32, 34));
	expect(out[1], STX_I64, DIMS(1, 1, 3, 4), VALS(0, 2, 4, 6, 14, 16, 18, 20, 28, 30, 32, 34));
	double one[64];
	for (int i = 0; i < 64; i++)
		one[i] = 1;
	expect(RUN("%x : f64[1,1,6,6] = placeholder()\n%y = avg_pool2d.default(%x, [3], [2], [1], "
		   "True)\nreturn (%y,)\n",
		   make(STX_F64, DIMS(1, 1, 6, 6), one)),
	       STX_F64, DIMS(1, 1, 4, 4),
	       VALS(4. / 9, 6. / 9, 6. / 9, 2. / 6, 6. / 9, 1, 1, .5, 6. / 9, 1, 1, .5, 2. / 6, .5,
		    .5, .25));
	expect(RUN("%x : f32[1,1,8,8] = placeholder()\n%y = avg_pool2d.default(%x, [3], [3, 4], "
		   "[0], True, False)\n"
		   "return (%y,)\n",
		   make(STX_F32, DIMS(1, 1, 8, 8), one)),
	       STX_F32, DIMS(1, 1, 3, 2), VALS(1, 1, 1, 1, 1, 1));
	expect(RUN("%x : f32[1,1] = placeholder()\n%y = avg_pool1d.default(%x, [4], [3], "
		   "[2])\nreturn (%y,)\n",
		   make(STX_F32, DIMS(1, 1), VALS(1.7641))),
	       STX_F32, DIMS(1, 1), VALS(0.441025));
}

static void test_ref_max_pool_special_values(void **s)
{
	struct stx_tensor out[2],
		in = make(STX_F32, DIMS(1, 6), VALS(-INFINITY, -INFINITY, 3, NAN, NAN, 3));
	struct stx_diag d = { 0 };

	(void)s;
	assert_int_equal(
		evaluate("%x : f32[1,6] = placeholder()\n%y : (f32[1,4], i64[1,4]) = "
			 "max_pool1d_with_indices.default(%x, [2], [2], [1])\nreturn (%y, %y:1)\n",
			 &in, 1, out, &d),
		0);
	free(in.data);
	expect(out[0], STX_F32, DIMS(1, 4), VALS(-INFINITY, 3, NAN, 3));
	expect(out[1], STX_I64, DIMS(1, 4), VALS(0, 2, 3, 5)); /* never an index of the padding */
	expect(RUN("%x : f32[5] = placeholder()\n%y = unfold.default(%x, 0, 2, 3)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(5), VALS(0, 1, 2, 3, 4))),
	       STX_F32, DIMS(2, 2), VALS(0, 1, 3, 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ref_convolution_by_hand),
		cmocka_unit_test(test_ref_transposed_convolution_by_hand),
		cmocka_unit_test(test_ref_pooling_clips_as_stated),
		cmocka_unit_test(test_ref_max_pool_special_values),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
