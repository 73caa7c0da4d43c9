/* The oracle against values PyTorch gives: padding with the operand's own elements, resampling. */
#include "ref_run.h"

#define X4(t) make(t, DIMS(1, 1, 4), VALS(1, 2, 4, 8))
#define X6    make(STX_F32, DIMS(1, 1, 2, 3), VALS(0, 1, 2, 3, 4, 5))

static void test_ref_pad_mirrors_and_repeats(void **s)
{
	(void)s;
	expect(RUN("%x : f32[1,1,2,3] = placeholder()\n%y = reflection_pad2d.default(%x, [2, 1, 1, "
		   "0])\nreturn (%y,)\n",
		   X6),
	       STX_F32, DIMS(1, 1, 3, 6),
	       VALS(5, 4, 3, 4, 5, 4, 2, 1, 0, 1, 2, 1, 5, 4, 3, 4, 5, 4));
	expect(RUN("%x : f32[1,1,2,3] = placeholder()\n%y = replication_pad2d.default(%x, [2, -1, "
		   "0, 1])\nreturn (%y,)\n",
		   X6),
	       STX_F32, DIMS(1, 1, 3, 4), VALS(0, 0, 0, 1, 3, 3, 3, 4, 3, 3, 3, 4));
}

static void test_ref_upsample_nearest_as_pytorch(void **s)
{
	(void)s;
	expect(RUN("%x : i32[1,1,4] = placeholder()\n%y = upsample_nearest1d.vec(%x, [6], "
		   "None)\nreturn (%y,)\n",
		   X4(STX_I32)),
	       STX_I32, DIMS(1, 1, 6), VALS(1, 1, 2, 4, 4, 8));
	expect(RUN("%x : f32[1,1,4] = placeholder()\n%y = _upsample_nearest_exact1d.vec(%x, [6], "
		   "None)\nreturn (%y,)\n",
		   X4(STX_F32)),
	       STX_F32, DIMS(1, 1, 6), VALS(1, 2, 2, 4, 8, 8));
	expect(RUN("%x : f32[1,1,4] = placeholder()\n%y = upsample_nearest1d.vec(%x, None, "
		   "[2.6])\nreturn (%y,)\n",
		   X4(STX_F32)),
	       STX_F32, DIMS(1, 1, 10), VALS(1, 1, 1, 2, 2, 2, 4, 4, 8, 8));
}

/* PyTorch contracts step * (o + 0.5) - 0.5: element 20 of 41 is the second of 2, exactly on the
 * edge. */
static void test_ref_upsample_nearest_exact_contracts(void **s)
{
	(void)s;
	struct stx_tensor y = RUN("%x : f32[1,1,2] = placeholder()\n%y = "
				  "_upsample_nearest_exact1d.vec(%x, [41], None)\nreturn (%y,)\n",
				  make(STX_F32, DIMS(1, 1, 2), VALS(0, 1)));
	for (int i = 0; i < 41; i++)
		assert_true(((float *)y.data)[i] == (float)(i >= 20));
	free(y.data);
}

static void test_ref_upsample_linear_and_cubic_as_pytorch(void **s)
{
	(void)s;
	expect_near(RUN("%x : f32[1,1,4] = placeholder()\n%y = upsample_linear1d.vec(%x, [7], "
			"False, None)\nreturn (%y,)\n",
			X4(STX_F32)),
		    STX_F32, DIMS(1, 1, 7),
		    VALS(1, 1.35714293, 1.92857146, 3.00000024, 4.2857151, 6.57142925, 8), 2e-7);
	expect(RUN("%x : f32[1,1,4] = placeholder()\n%y = upsample_linear1d.vec(%x, [7], True, "
		   "None)\nreturn (%y,)\n",
		   X4(STX_F32)),
	       STX_F32, DIMS(1, 1, 7), VALS(1, 1.5, 2, 3, 4, 6, 8));
	expect_near(RUN("%x : f32[1,1,2,3] = placeholder()\n%y = upsample_bicubic2d.vec(%x, [3, "
			"4], False, None)\nreturn (%y,)\n",
			X6),
		    STX_F32, DIMS(1, 1, 3, 4),
		    VALS(-0.33219412, 0.26936847, 1.20979834, 1.81136096, 1.42822266, 2.02978516,
			 2.97021484, 3.57177734, 3.18863893, 3.79020166, 4.73063135, 5.33219385),
		    1e-5);
}

/* One sample alone: its cubic weights are PyTorch's to the bit, which an infinite sample would tell
 * (a weight that is 0, or rounds to the other side of it). */
static void test_ref_upsample_cubic_weights_are_pytorchs(void **s)
{
	(void)s;
	expect(RUN("%x : f32[1,1,1,5] = placeholder()\n%y = upsample_bicubic2d.vec(%x, [1, 11], "
		   "False, None)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(1, 1, 1, 5), VALS(0, 0, 1, 0, 0))),
	       STX_F32, DIMS(1, 1, 1, 11),
	       VALS(0, -0x1.4c5bp-6, -0x1.c4604p-4, 0x1.4633fp-4, 0x1.4e16b6p-1, 1, 0x1.4e16bp-1,
		    0x1.4633dp-4, -0x1.c4608p-4, -0x1.4c5cp-6, 0));
}

/* _resample: a negative index leaves its term out, whatever stands there; without any the sum is 0.
 */
static void test_ref_resample_leaves_terms_out(void **s)
{
	(void)s;
	expect(RUN("%x : f32[3] = placeholder()\n%i : i64[2,3] = placeholder()\n%w : f32[2,3] = "
		   "placeholder()\n%y = _resample.default(%x, -1, %i, %w)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(3), VALS(INFINITY, 2, 3)),
		   make(STX_I64, DIMS(2, 3), VALS(1, 2, -1, -1, 1, -1)),
		   make(STX_F32, DIMS(2, 3), VALS(10, 1, INFINITY, NAN, 0.5, 1))),
	       STX_F32, DIMS(3), VALS(20, 4, 0));
	expect(RUN("%x : u8[2] = placeholder()\n%i : i32[2,1] = placeholder()\n%y = "
		   "_resample.default(%x, 0, %i)\nreturn (%y,)\n",
		   make(STX_U8, DIMS(2), VALS(200, 100)), make(STX_I32, DIMS(2, 1), VALS(0, 1))),
	       STX_U8, DIMS(1), VALS(44));
}

static void test_ref_resample_out_of_range_fails(void **s)
{
	(void)s;
	struct stx_diag d = { 0 };
	struct stx_tensor in[] = { make(STX_F32, DIMS(3), VALS(1, 2, 3)),
				   make(STX_I64, DIMS(1, 1), VALS(3)) };
	assert_int_equal(run_error("%x : f32[3] = placeholder()\n%i : i64[1,1] = placeholder()\n"
				   "%y = _resample.default(%x, 0, %i)\nreturn (%y,)\n",
				   in, 2, &d),
			 STX_E_BOUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ref_pad_mirrors_and_repeats),
		cmocka_unit_test(test_ref_upsample_nearest_as_pytorch),
		cmocka_unit_test(test_ref_upsample_nearest_exact_contracts),
		cmocka_unit_test(test_ref_upsample_linear_and_cubic_as_pytorch),
		cmocka_unit_test(test_ref_upsample_cubic_weights_are_pytorchs),
		cmocka_unit_test(test_ref_resample_leaves_terms_out),
		cmocka_unit_test(test_ref_resample_out_of_range_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
