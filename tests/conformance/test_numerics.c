/* test_numerics.c: lines of kernels/NUMERICS.md that no other test states, on every path. */
#include "cases.h"

static void test_numerics_comparisons_and_signs_of_nan_and_zero(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%x : f32[6] = placeholder()\n%y : f32[6] = placeholder()\n"
			"%a = lt.Tensor(%x, %y)\n%b = ge.Tensor(%x, %y)\n%c = eq.Tensor(%x, %y)\n"
			"%d = ne.Tensor(%x, %y)\n%e = sign.default(%x)\n%f = relu.default(%x)\n"
			"%g = maximum.default(%x, %y)\n%h = minimum.default(%x, %y)\n"
			"return (%a, %b, %c, %d, %e, %f, %g, %h)\n",
		.in = { V(NAN, 1, NAN, -0.0, 0.0, -0.0), V(1, NAN, NAN, 0.0, -0.0, -0.0) },
		.out = { V(0), V(0, 0, 0, 1, 1, 1), V(0, 0, 0, 1, 1, 1), V(1, 1, 1, 0, 0, 0),
			 V(0, 1, 0, 0, 0, 0), V(NAN, 1, NAN, 0.0, 0.0, 0.0),
			 V(NAN, NAN, NAN, 0.0, 0.0, -0.0), V(NAN, NAN, NAN, -0.0, -0.0, -0.0) } });
}

static void test_numerics_float_remainders(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%x : f32[6] = placeholder()\n%y : f32[6] = placeholder()\n"
			"%a = fmod.Tensor(%x, %y)\n%b = remainder.Tensor(%x, %y)\n"
			"return (%a, %b)\n",
		.in = { V(-7, 7, 7, 1e20, 5, 6), V(3, -3, 0, 3, INFINITY, 0.1) },
		/* fmod is exact, also of 1e20f = 100000002004087734272 and of 0.1f */
		.out = { V(-1, 1, NAN, 2, 5, 0x1.999982p-4),
			 V(2, -2, NAN, 2, 5, 0x1.999982p-4) } });
}

static void test_numerics_conversions_to_bool_and_between_integers(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%x : f32[5] = placeholder()\n%i : i32[5] = placeholder()\n"
			"%a = _to_copy.default(%x, dtype=bool)\n%b = _to_copy.default(%i, "
			"dtype=i8)\n"
			"%c = _to_copy.default(%i, dtype=u16)\n%d = _to_copy.default(%i, "
			"dtype=bool)\n"
			"return (%a, %b, %c, %d)\n",
		.in = { V(NAN, 0.25, -0.0, 0.0, INFINITY), V(300, -129, 65536, -1, 256) },
		.out = { V(1, 1, 0, 0, 1), V(44, 127, 0, -1, 0), V(300, 65407, 0, 65535, 256),
			 V(1) } });
}

/* Divisions and roots, correctly rounded: the double result rounded to f32 is (53 >= 2*24 + 2). */
static void test_numerics_division_and_root_are_correctly_rounded(void **state)
{
	enum { N = 4096 };
	static double x[N], y[N], q[N], r[N];
	uint64_t seed = 77;
	(void)state;
	for (int i = 0; i < N; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		x[i] = (float)ldexp(1 + (double)(seed >> 40) * 0x1p-24, (int)(seed % 60) - 30);
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		y[i] = (float)ldexp(1 + (double)(seed >> 40) * 0x1p-24, (int)(seed % 60) - 30);
		q[i] = (float)(x[i] / y[i]);
		r[i] = (float)sqrt(x[i]);
	}
	case_check(&(struct stated){
		.text = "%x : f32[4096] = placeholder()\n%y : f32[4096] = placeholder()\n"
			"%q = div.Tensor(%x, %y)\n%r = sqrt.default(%x)\nreturn (%q, %r)\n",
		.in = { { x, N }, { y, N } },
		.out = { { q, N }, { r, N } } });
}

/* dtype= converts each element before it is added; halves accumulate in f32; integers and bools sum
 * to i64. */
static void test_numerics_types_that_sums_accumulate_in(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%x : f32[4] = placeholder()\n%h : f16[4096] = placeholder()\n"
			"%i : i8[300] = placeholder()\n%b : bool[300] = placeholder()\n"
			"%a = sum.default(%x, dtype=i64)\n%c = sum.default(%h)\n"
			"%d = sum.default(%i)\n%e = sum.default(%b)\nreturn (%a, %c, %d, %e)\n",
		.in = { V(0.6, 0.6, 1.7, -0.9), V(1), V(100), V(1) },
		.out = { V(1), V(4096), V(30000), V(300) } });
}

/* k = 2: first -(1 + 2^-11), then the square of 1 + 2^-12, whose last bit only FMA keeps. Of 64
 * columns, so that each is summed in order. */
static void test_numerics_products_accumulate_with_fma_where_the_level_has_it(void **state)
{
	float a[2] = { -1, 1 + 0x1p-12f }, b[2][64];
	struct stx_tensor in[2] = {
		{ .data = a, .dtype = STX_F32, .rank = 2, .sizes = { 1, 2 } },
		{ .data = b, .dtype = STX_F32, .rank = 2, .sizes = { 2, 64 } }
	};
	(void)state;
	compiled_dense(&in[0]);
	compiled_dense(&in[1]);
	for (int i = 0; i < 64; i++) {
		b[0][i] = 1 + 0x1p-11f;
		b[1][i] = 1 + 0x1p-12f;
	}
	for (const char *const *t = compiled_targets(); *t; t++) {
		struct compiled c;
		struct stx_tensor out[1];
		struct stx_diag d = { 0 };
		float want = strstr(*t, "-v2") ? 0 : 0x1p-24f;
		if (compiled_build("%a : f32[1,2] = placeholder()\n"
				   "%b : f32[2,64] = placeholder()\n"
				   "%c = mm.default(%a, %b)\nreturn (%c,)\n",
				   *t, COMPILED_FUSED, &c, &d) ||
		    compiled_run(&c, COMPILED_SERIAL, in, 2, out, &d))
			fail_msg("%s: %s", *t, d.text);
		for (int i = 0; i < 64; i++)
			if (((float *)out[0].data)[i] != want)
				fail_msg("%s: %g", *t, ((float *)out[0].data)[i]);
		compiled_free_outputs(out, 1);
		compiled_free(&c);
	}
}

/* As PyTorch: any and all of u8 are u8; arange of integers narrower than i64 counts its elements
 * before it truncates start and step. */
static void test_numerics_old_habits_of_narrow_integers(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%x : u8[3] = placeholder()\n%y : i8[3] = placeholder()\n"
			"%a = any.default(%x)\n%b = all.dim(%x, 0)\n%c = any.dims(%x, [], False)\n"
			"%d = all.default(%y)\n%e = any.dim(%y, 0, True)\n"
			"%f = sub.Scalar(%c, 2)\nreturn (%a, %b, %c, %d, %e, %f)\n",
		.in = { V(0, 2, 255), V(1, -1, 3) },
		.out = { V(1), V(0), V(0, 1, 1), V(1), V(1), V(254, 255, 255) },
		.shape = { "", "", "3", "", "1", "3" } });
	case_check(&(struct stated){ .text = "%x : f32[1] = placeholder()\n"
					     "%a = arange.start_step(0.5, -1.5, -1.5, dtype=u8)\n"
					     "%b = arange.start_step(0, 5, 1.5, dtype=i32)\n"
					     "%c = arange.start_step(1, 2.9, 0.5, dtype=i16)\n"
					     "%d = arange.start_step(0, 5, 1.5, dtype=i64)\n"
					     "%e = arange.start_step(0, 5, 1.5, dtype=f32)\nreturn "
					     "(%x, %a, %b, %c, %d, %e)\n",
				     .in = { V(0) },
				     .out = { V(0), V(0, 255), V(0, 1, 2, 3), V(1),
					      V(0, 1, 2, 3, 4), V(0, 1.5, 3, 4.5) },
				     .shape = { "1", "2", "4", "4", "5", "4" } });
}

/* A term of weight 0 counts: 0 * inf is NaN. */
static void test_numerics_terms_of_weight_zero_count(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%x : f32[1,1,3] = placeholder()\n"
			"%y = upsample_linear1d.vec(%x, [5], True, None)\nreturn (%y,)\n",
		.in = { V(1, INFINITY, 3) },
		/* at 0 the weights are 1 and 0 */
		.out = { V(NAN, INFINITY, INFINITY, INFINITY, 3) } });
}

/* Averages divide by the number of elements first or last; an index that is no tap of its window
 * names nothing; padding is a zero that an infinite gradient meets. */
static void test_numerics_gradients_of_windows(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%g : f32[1,1,2,2] = placeholder()\n%x : f32[1,1,4,4] = placeholder()\n"
			"%i : i64[1,1,2,2] = placeholder()\n"
			"%y = max_pool2d_with_indices_backward.default(%g, %x, [2, 2], [2, 2], [0, "
			"0], "
			"[1, 1], False, %i)\nreturn (%y,)\n",
		.in = { V(1, 2, 3, 4), V(0),
			V(0, 0, 99, -1) }, /* only the first is in its window */
		.out = { V(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) } });
	case_check(&(struct stated){
		.text = "%g : f32[1,1,3] = placeholder()\n%x : f32[1,1,3] = placeholder()\n"
			"%w : f32[1,1,3] = placeholder()\n"
			"%y = convolution_backward.default(%g, %x, %w, None, [1], [1], [1], False, "
			"[0], 1, "
			"[True, True, False])\nreturn (%y, %y:1)\n",
		.in = { V(INFINITY, 1, 1), V(1, 2, 3), V(1, 1, 1) },
		.out = { V(INFINITY, INFINITY, 2), V(NAN, INFINITY, INFINITY) } });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numerics_comparisons_and_signs_of_nan_and_zero),
		cmocka_unit_test(test_numerics_float_remainders),
		cmocka_unit_test(test_numerics_conversions_to_bool_and_between_integers),
		cmocka_unit_test(test_numerics_division_and_root_are_correctly_rounded),
		cmocka_unit_test(test_numerics_types_that_sums_accumulate_in),
		cmocka_unit_test(test_numerics_products_accumulate_with_fma_where_the_level_has_it),
		cmocka_unit_test(test_numerics_old_habits_of_narrow_integers),
		cmocka_unit_test(test_numerics_terms_of_weight_zero_count),
		cmocka_unit_test(test_numerics_gradients_of_windows),
	};
	return cmocka_run_group_tests(tests, case_setup, NULL);
}
