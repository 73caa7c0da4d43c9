/* The oracle against values PyTorch gives: sampling, adaptive pooling, folding, gradients. */
#include "ref_run.h"

#define X23  make(STX_F32, DIMS(1, 1, 2, 3), VALS(1, 2, 3, 4, 5, 6))
#define GRID make(STX_F32, DIMS(1, 1, 4, 2), VALS(-1, -1, 1, 1, 0.5, -0.25, 1.5, 0))
#define SAMPLE(args)                                                                               \
	"%x : f32[1,1,2,3] = placeholder()\n%g : f32[1,1,4,2] = placeholder()\n"                   \
	"%y = grid_sampler_2d.default(%x, %g, " args ")\nreturn (%y,)\n"

static void test_ref_grid_sampler_as_pytorch(void **s)
{
	(void)s;
	expect(RUN(SAMPLE("0, 0, False"), X23, GRID), STX_F32, DIMS(1, 1, 1, 4),
	       VALS(0.25, 1.5, 3.5, 0));
	expect(RUN(SAMPLE("0, 2, True"), X23, GRID), STX_F32, DIMS(1, 1, 1, 4),
	       VALS(1, 6, 3.625, 4));
	expect(RUN(SAMPLE("1, 1, False"), X23, GRID), STX_F32, DIMS(1, 1, 1, 4), VALS(1, 6, 3, 3));
	expect_near(RUN(SAMPLE("2, 0, True"), X23, GRID), STX_F32, DIMS(1, 1, 1, 4),
		    VALS(1, 6, 4.77906799, 2.78320312), 1e-6);
}

/* Not a number: outside for zeros (0 times a weight that is NaN), the first element else. */
static void test_ref_grid_sampler_of_nan(void **s)
{
	(void)s;
#define NANS make(STX_F32, DIMS(1, 1, 4, 2), VALS(NAN, 0, NAN, 0, NAN, 0, NAN, 0))
	expect(RUN(SAMPLE("0, 0, True"), X23, NANS), STX_F32, DIMS(1, 1, 1, 4),
	       VALS(NAN, NAN, NAN, NAN));
	expect(RUN(SAMPLE("1, 0, True"), X23, NANS), STX_F32, DIMS(1, 1, 1, 4), VALS(0, 0, 0, 0));
	expect(RUN(SAMPLE("0, 1, True"), X23, NANS), STX_F32, DIMS(1, 1, 1, 4),
	       VALS(2.5, 2.5, 2.5, 2.5));
}

static void test_ref_adaptive_pools_as_pytorch(void **s)
{
	(void)s;
	expect(RUN("%x : f32[1,1,2,3] = placeholder()\n%y = _adaptive_avg_pool2d.default(%x, [2, "
		   "2])\nreturn (%y,)\n",
		   X23),
	       STX_F32, DIMS(1, 1, 2, 2), VALS(1.5, 2.5, 4.5, 5.5));
	expect(RUN("%g : f32[1,1,2,2] = placeholder()\n%x : f32[1,1,2,3] = placeholder()\n%y = "
		   "_adaptive_avg_pool2d_backward.default(%g, %x)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(1, 1, 2, 2), VALS(1, 2, 3, 4)), X23),
	       STX_F32, DIMS(1, 1, 2, 3), VALS(0.5, 1.5, 1, 1.5, 3.5, 2));
	struct stx_tensor in = make(STX_F32, DIMS(1, 1, 2, 3), VALS(1, 5, 2, 7, 3, 9)), out[2];
	struct stx_diag d = { 0 };
	assert_int_equal(evaluate("%x : f32[1,1,2,3] = placeholder()\n%y : (f32[1,1,1,2], "
				  "i64[1,1,1,2]) = adaptive_max_pool2d.default(%x, [1, 2])\n"
				  "return (%y, %y:1)\n",
				  &in, 1, out, &d),
			 0);
	free(in.data);
	expect(out[0], STX_F32, DIMS(1, 1, 1, 2), VALS(7, 9));
	expect(out[1], STX_I64, DIMS(1, 1, 1, 2), VALS(3, 5));
}

static void test_ref_columns_as_pytorch(void **s)
{
	(void)s;
	expect(RUN("%x : f32[1,4,2] = placeholder()\n%y = col2im.default(%x, [2, 3], [2, 2], [1, "
		   "1], [0, 0], [1, 1])\nreturn (%y,)\n",
		   make(STX_F32, DIMS(1, 4, 2), VALS(1, 2, 3, 4, 5, 6, 7, 8))),
	       STX_F32, DIMS(1, 1, 2, 3), VALS(1, 5, 4, 5, 13, 8));
	expect(RUN("%x : f32[1,1,2,3] = placeholder()\n%y = im2col.default(%x, [2, 2], [1, 1], "
		   "[0, 0], [1, 1])\nreturn (%y,)\n",
		   X23),
	       STX_F32, DIMS(1, 4, 2), VALS(1, 2, 2, 3, 4, 5, 5, 6));
	/* 1-d, dilated and padded: taps 0 and 2 of windows at -1, 1, 3 */
	expect(RUN("%x : u8[2,3] = placeholder()\n%y = _fold.default(%x, [4], [2], [2], [1], "
		   "[2])\nreturn (%y,)\n",
		   make(STX_U8, DIMS(2, 3), VALS(1, 2, 3, 10, 250, 30))),
	       STX_U8, DIMS(4), VALS(0, 12, 0, 253));
}

static void test_ref_pool_gradients_as_pytorch(void **s)
{
	(void)s;
	expect(RUN("%g : f32[1,1,1,2] = placeholder()\n%x : f32[1,1,2,3] = placeholder()\n%y = "
		   "avg_pool2d_backward.default(%g, %x, [2, 2], [1, 2], [0, 1], False, False, "
		   "None)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(1, 1, 1, 2), VALS(1, 2)), X23),
	       STX_F32, DIMS(1, 1, 2, 3), VALS(.5, .5, .5, .5, .5, .5));
	/* two windows choose element 4; one element takes both */
	expect(RUN("%g : f32[1,1,1,2] = placeholder()\n%x : f32[1,1,2,3] = placeholder()\n%i : "
		   "i64[1,1,1,2] = placeholder()\n%y = "
		   "max_pool2d_with_indices_backward.default(%g, %x, [2, 2], [1, 1], [0, 0], [1, "
		   "1], False, %i)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(1, 1, 1, 2), VALS(1, 2)), X23,
		   make(STX_I64, DIMS(1, 1, 1, 2), VALS(4, 4))),
	       STX_F32, DIMS(1, 1, 2, 3), VALS(0, 0, 0, 0, 3, 0));
}

static void convolution_gradients(const char *text, struct stx_tensor *in, const double *gx, int nx,
				  const double *gw, int nw, double gb)
{
	struct stx_tensor out[3];
	struct stx_diag d = { 0 };
	assert_int_equal(evaluate(text, in, 3, out, &d), 0);
	for (int i = 0; i < 3; i++)
		free(in[i].data);
	expect(out[0], STX_F32, DIMS(1, 1, nx), gx);
	expect(out[1], STX_F32, DIMS(1, 1, nw), gw);
	expect(out[2], STX_F32, DIMS(1), &gb);
}

static void test_ref_convolution_gradients_as_pytorch(void **s)
{
	(void)s;
	convolution_gradients("%g : f32[1,1,2] = placeholder()\n%x : f32[1,1,3] = "
			      "placeholder()\n%w : f32[1,1,2] = "
			      "placeholder()\n%y : (f32[1,1,3], f32[1,1,2], f32[1]) = "
			      "convolution_backward.default(%g, %x, %w, [1], [1], [0], [1], False, "
			      "[0], 1, [True, "
			      "True, True])\nreturn (%y, %y:1, %y:2)\n",
			      (struct stx_tensor[]){ make(STX_F32, DIMS(1, 1, 2), VALS(1, 2)),
						     make(STX_F32, DIMS(1, 1, 3), VALS(1, 2, 3)),
						     make(STX_F32, DIMS(1, 1, 2), VALS(10, 20)) },
			      VALS(10, 40, 40), 3, VALS(5, 8), 2, 3);
	convolution_gradients(
		"%g : f32[1,1,4] = placeholder()\n%x : f32[1,1,2] = placeholder()\n%w : f32[1,1,3] "
		"= "
		"placeholder()\n%y : (f32[1,1,2], f32[1,1,3], f32[1]) = "
		"convolution_backward.default(%g, %x, %w, None, [2], [1], [1], True, [1], 1, "
		"[True, "
		"True, True])\nreturn (%y, %y:1, %y:2)\n",
		(struct stx_tensor[]){ make(STX_F32, DIMS(1, 1, 4), VALS(1, 2, 3, 4)),
				       make(STX_F32, DIMS(1, 1, 2), VALS(1, 2)),
				       make(STX_F32, DIMS(1, 1, 3), VALS(10, 20, 30)) },
		VALS(80, 200), 2, VALS(4, 7, 10), 3, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ref_grid_sampler_as_pytorch),
		cmocka_unit_test(test_ref_grid_sampler_of_nan),
		cmocka_unit_test(test_ref_adaptive_pools_as_pytorch),
		cmocka_unit_test(test_ref_columns_as_pytorch),
		cmocka_unit_test(test_ref_pool_gradients_as_pytorch),
		cmocka_unit_test(test_ref_convolution_gradients_as_pytorch),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
