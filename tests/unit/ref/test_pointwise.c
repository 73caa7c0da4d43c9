/* The oracle against values computed by hand: elementwise operators. */
#include "ref_run.h"

static void test_ref_broadcast_add_alpha(void **s)
{
	(void)s;
	expect(RUN("%a : f32[2,1] = placeholder()\n%b : f32[3] = placeholder()\n"
		   "%c = add.Tensor(%a, %b, alpha=2)\nreturn (%c,)\n",
		   make(STX_F32, DIMS(2, 1), VALS(1, 10)), make(STX_F32, DIMS(3), VALS(1, 2, 3))),
	       STX_F32, DIMS(2, 3), VALS(3, 5, 7, 12, 14, 16));
}

/* SE-06: x = 1 + 2^-12: x*x - (1 + 2^-11) is 0 when the product is rounded, 2^-24 when it is
 * contracted. */
static void test_ref_multiply_subtract_rounds_between(void **s)
{
	double x = 1 + 0x1p-12;

	(void)s;
	expect(RUN("%x : f32[1] = placeholder()\n%p = mul.Tensor(%x, %x)\n%r = sub.Scalar(%p, "
		   "1.00048828125)\n"
		   "return (%r,)\n",
		   make(STX_F32, DIMS(1), &x)),
	       STX_F32, DIMS(1), VALS(0));
}

/* B27 */
static void test_ref_integer_division_modes(void **s)
{
	const double a[] = { -7, 7, -7, 7, 0, -1, 5 }, b[] = { 2, -2, -2, 2, -3, 3, -5 };
	const enum stx_dtype types[] = { STX_I32, STX_I64 };
	static const struct {
		const char *call;
		double want[7];
	} ops[] = {
		{ "div.Tensor_mode(%a, %b, rounding_mode='floor')", { -4, -4, 3, 3, 0, -1, -1 } },
		{ "floor_divide.default(%a, %b)", { -4, -4, 3, 3, 0, -1, -1 } },
		{ "remainder.Tensor(%a, %b)", { 1, -1, -1, 1, 0, 2, 0 } },
		{ "fmod.Tensor(%a, %b)", { -1, 1, -1, 1, 0, -1, 0 } },
		{ "div.Tensor_mode(%a, %b, rounding_mode='trunc')", { -3, -3, 3, 3, 0, 0, -1 } },
	};

	(void)s;
	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
			char text[256];
			const char *n = stx_dtype_name(types[k]);

			snprintf(text, sizeof text,
				 "%%a : %s[7] = placeholder()\n%%b : %s[7] = placeholder()\n%%c = "
				 "%s\nreturn (%%c,)\n",
				 n, n, ops[i].call);
			expect(RUN(text, make(types[k], DIMS(7), a), make(types[k], DIMS(7), b)),
			       types[k], DIMS(7), ops[i].want);
		}
}

/* B29 */
static void test_ref_float_floor_division_uses_fmod(void **s)
{
	const double a[] = { 1, .5, 6, 1, -1 }, b[] = { .1, .1, .2, 1. / 3, .1 };

	(void)s;
	expect(RUN("%a : f32[5] = placeholder()\n%b : f32[5] = placeholder()\n"
		   "%c = div.Tensor_mode(%a, %b, rounding_mode='floor')\nreturn (%c,)\n",
		   make(STX_F32, DIMS(5), a), make(STX_F32, DIMS(5), b)),
	       STX_F32, DIMS(5), VALS(9, 4, 29, 2, -10));
	expect(RUN("%a : f64[5] = placeholder()\n%b : f64[5] = placeholder()\n"
		   "%c = div.Tensor_mode(%a, %b, rounding_mode='floor')\nreturn (%c,)\n",
		   make(STX_F64, DIMS(5), a), make(STX_F64, DIMS(5), b)),
	       STX_F64, DIMS(5), VALS(9, 4, 29, 3, -10));
}

/* B31 */
static void test_ref_small_integers_wrap(void **s)
{
	(void)s;
	expect(RUN("%x : u8[1] = placeholder()\n%y = add.Tensor(%x, %x)\n%z = _to_copy.default(%y, "
		   "dtype=i16)\n"
		   "return (%z,)\n",
		   make(STX_U8, DIMS(1), VALS(128))),
	       STX_I16, DIMS(1), VALS(0));
	expect(RUN("%x : u8[1] = placeholder()\n%y = neg.default(%x)\nreturn (%y,)\n",
		   make(STX_U8, DIMS(1), VALS(6))),
	       STX_U8, DIMS(1), VALS(250));
	expect(RUN("%x : u8[1] = placeholder()\n%y = neg.default(%x)\n%z = lt.Scalar(%y, "
		   "4)\nreturn (%z,)\n",
		   make(STX_U8, DIMS(1), VALS(6))),
	       STX_BOOL, DIMS(1), VALS(0));
	expect(RUN("%x : i8[1] = placeholder()\n%n : i8[1] = placeholder()\n%y = "
		   "bitwise_right_shift.Tensor(%x, %n)\n"
		   "return (%y,)\n",
		   make(STX_I8, DIMS(1), VALS(-128)), make(STX_I8, DIMS(1), VALS(1))),
	       STX_I8, DIMS(1), VALS(-64));
	expect(RUN("%x : u8[1] = placeholder()\n%n : u8[1] = placeholder()\n%y = "
		   "bitwise_left_shift.Tensor(%x, %n)\n"
		   "return (%y,)\n",
		   make(STX_U8, DIMS(1), VALS(200)), make(STX_U8, DIMS(1), VALS(1))),
	       STX_U8, DIMS(1), VALS(144));
}

/* B35, wrap policy */
static void test_ref_float_to_small_integers_goes_through_i32(void **s)
{
	const double x[] = {
		300, NAN, INFINITY, -INFINITY, 50, -50, -129, 127.9, -0.9, 255.5, 256
	};

	(void)s;
	expect(RUN("%x : f32[11] = placeholder()\n%y = _to_copy.default(%x, dtype=i8)\nreturn "
		   "(%y,)\n",
		   make(STX_F32, DIMS(11), x)),
	       STX_I8, DIMS(11), VALS(44, 0, 0, 0, 50, -50, 127, 127, 0, -1, 0));
	expect(RUN("%x : f32[11] = placeholder()\n%y = _to_copy.default(%x, dtype=u8)\nreturn "
		   "(%y,)\n",
		   make(STX_F32, DIMS(11), x)),
	       STX_U8, DIMS(11), VALS(44, 0, 0, 0, 50, 206, 127, 127, 0, 255, 0));
}

/* B37 */
static void test_ref_written_narrowing_is_kept(void **s)
{
	double x[20];
	struct stx_tensor y;

	(void)s;
	for (int i = 0; i < 20; i++)
		x[i] = (float)i / 7.0f;
	y = RUN("%x : f32[20] = placeholder()\n%h = _to_copy.default(%x, dtype=f16)\n"
		"%y = _to_copy.default(%h, dtype=f32)\nreturn (%y,)\n",
		make(STX_F32, DIMS(20), x));
	assert_true(((float *)y.data)[1] == 0.142822265625f &&
		    ((float *)y.data)[2] == 0.28564453125f);
	assert_true(((float *)y.data)[5] == 0.71435546875f && ((float *)y.data)[19] == 2.71484375f);
	free(y.data);
	expect(RUN("%x : f32[20] = placeholder()\n%h = _to_copy.default(%x, dtype=f16)\n"
		   "%y = _to_copy.default(%h, dtype=f32)\n%t = sum.default(%y)\nreturn (%t,)\n",
		   make(STX_F32, DIMS(20), x)),
	       STX_F32, NULL, 0, VALS(27.14208984375));
	expect(RUN("%x : f32[1] = placeholder()\n%y = _to_copy.default(%x, dtype=bf16)\nreturn "
		   "(%y,)\n",
		   make(STX_F32, DIMS(1), VALS(1. / 3))),
	       STX_BF16, DIMS(1), VALS(0.333984375));
}

/* B49 */
static void test_ref_identities_that_are_not(void **s)
{
	(void)s;
	expect(RUN("%x : f32[4] = placeholder()\n%y = mul.Scalar(%x, inf)\n%z = sub.Tensor(%y, "
		   "%y)\nreturn (%z,)\n",
		   make(STX_F32, DIMS(4), VALS(1, 2, 3, 4))),
	       STX_F32, DIMS(4), VALS(NAN, NAN, NAN, NAN));
	expect(RUN("%x : f32[2] = placeholder()\n%y = ceil.default(%x)\n%z = add.Scalar(%y, 0.0)\n"
		   "%r = reciprocal.default(%z)\nreturn (%r,)\n",
		   make(STX_F32, DIMS(2), VALS(-.5, -.1))),
	       STX_F32, DIMS(2), VALS(INFINITY, INFINITY));
	expect(RUN("%x : f32[3] = placeholder()\n%y = mul.Scalar(%x, 0)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(3), VALS(INFINITY, NAN, -1))),
	       STX_F32, DIMS(3), VALS(NAN, NAN, -0.0));
}

/* B51 */
static void test_ref_nan_survives(void **s)
{
	const double x[] = { NAN, INFINITY, -INFINITY, 0.5 };

	(void)s;
	expect_near(RUN("%x : f32[4] = placeholder()\n%y = atan.default(%x)\n%z = "
			"sin.default(%y)\nreturn (%z,)\n",
			make(STX_F32, DIMS(4), x)),
		    STX_F32, DIMS(4), VALS(NAN, 1, -1, 0.4472136), 1e-6);
	expect(RUN("%x : f32[4] = placeholder()\n%y = isnan.default(%x)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(4), x)),
	       STX_BOOL, DIMS(4), VALS(1, 0, 0, 0));
	expect(RUN("%x : f32[4] = placeholder()\n%y = eq.Tensor(%x, %x)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(4), x)),
	       STX_BOOL, DIMS(4), VALS(0, 1, 1, 1));
	expect(RUN("%x : f32[4] = placeholder()\n%y = relu.default(%x)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(4), x)),
	       STX_F32, DIMS(4), VALS(NAN, INFINITY, 0, 0.5));
}

static void test_ref_plain_powers_are_their_functions(void **s)
{
	static const char *const text[] = {
		"%x : f32[4] = placeholder()\n%y = pow.Tensor_Scalar(%x, 2)\n",
		"%x : f32[4] = placeholder()\n%y = pow.Tensor_Scalar(%x, 3)\n",
		"%x : f32[4] = placeholder()\n%y = pow.Tensor_Scalar(%x, -1)\n",
		"%x : f32[4] = placeholder()\n%y = pow.Tensor_Scalar(%x, 0.5)\n"
	};
	const float a = 0x1.123456p-3f, b = 0x1.fedcbap+9f;
	const float square[2] = { a * a, b * b };

	(void)s;
	for (int i = 0; i < 4; i++) {
		const double x[] = { (double)a, (double)b, -INFINITY, -0.0 };
		const double want[4][4] = {
			{ (double)square[0], (double)square[1], INFINITY, 0 },
			{ (double)(square[0] * a), (double)(square[1] * b), -INFINITY, -0.0 },
			{ (double)(1 / a), (double)(1 / b), -0.0, -INFINITY },
			{ (double)sqrtf(a), (double)sqrtf(b), NAN, -0.0 },
		};
		char graph[200];

		snprintf(graph, sizeof graph, "%sreturn (%%y,)\n", text[i]);
		expect(RUN(graph, make(STX_F32, DIMS(4), x)), STX_F32, DIMS(4), want[i]);
	}
}

/* LO-20, LO-21 */
static void test_ref_promotion_kinds(void **s)
{
	(void)s;
	expect(RUN("%a : i32[2] = placeholder()\n%b : i32[2] = placeholder()\n%c = div.Tensor(%a, "
		   "%b)\nreturn (%c,)\n",
		   make(STX_I32, DIMS(2), VALS(1, 7)), make(STX_I32, DIMS(2), VALS(4, 0))),
	       STX_F32, DIMS(2), VALS(0.25, INFINITY));
	expect(RUN("%a : i32[2] = placeholder()\n%c = sqrt.default(%a)\nreturn (%c,)\n",
		   make(STX_I32, DIMS(2), VALS(4, -1))),
	       STX_F32, DIMS(2), VALS(2, NAN));
	expect(RUN("%a : i32[1] = placeholder()\n%b : f32[1] = placeholder()\n%c = lt.Tensor(%a, "
		   "%b)\nreturn (%c,)\n",
		   make(STX_I32, DIMS(1), VALS(1)), make(STX_F32, DIMS(1), VALS(1.5))),
	       STX_BOOL, DIMS(1), VALS(1));
	expect(RUN("%a : bool[2] = placeholder()\n%b : i8[2] = placeholder()\n%c = add.Tensor(%a, "
		   "%b)\nreturn (%c,)\n",
		   make(STX_BOOL, DIMS(2), VALS(1, 0)), make(STX_I8, DIMS(2), VALS(1, 5))),
	       STX_I8, DIMS(2), VALS(2, 5));
	expect(RUN("%a : bool[4] = placeholder()\n%b : bool[4] = placeholder()\n%c = "
		   "add.Tensor(%a, %b)\nreturn (%c,)\n",
		   make(STX_BOOL, DIMS(4), VALS(0, 0, 1, 1)),
		   make(STX_BOOL, DIMS(4), VALS(0, 1, 0, 1))),
	       STX_BOOL, DIMS(4), VALS(0, 1, 1, 1));
}

/* Additions of bf16, each node rounding. */
static void test_ref_bf16_chain_rounds_every_node(void **s)
{
	(void)s;
	/* 256 + 1 is a tie that goes to 256 in bf16, every time */
	expect(RUN("%x : bf16[1] = placeholder()\n%a = add.Scalar(%x, 1)\n%b = add.Scalar(%a, 1)\n"
		   "%c = add.Scalar(%b, 1)\nreturn (%c,)\n",
		   make(STX_BF16, DIMS(1), VALS(256))),
	       STX_BF16, DIMS(1), VALS(256));
}

/* Numbers and integers are converted to the type computed in, f32 for halves, not to the half type
 * first. */
static void test_ref_numbers_are_not_rounded_to_half(void **s)
{
	(void)s;
	/* with 0.1 rounded to bf16 first it would be 0.90234375; 257 would become 256 */
	expect(RUN("%x : bf16[1] = placeholder()\n%y = mul.Scalar(%x, 0.1)\nreturn (%y,)\n",
		   make(STX_BF16, DIMS(1), VALS(9))),
	       STX_BF16, DIMS(1), VALS(0.8984375));
	expect(RUN("%x : bf16[1] = placeholder()\n%i : i32[1] = placeholder()\n%y = sub.Tensor(%i, "
		   "%x)\nreturn (%y,)\n",
		   make(STX_BF16, DIMS(1), VALS(256)), make(STX_I32, DIMS(1), VALS(257))),
	       STX_BF16, DIMS(1), VALS(1));
}

static void test_ref_select_clamp_sign(void **s)
{
	(void)s;
	expect(RUN("%c : bool[3] = placeholder()\n%a : f32[3] = placeholder()\n%b : f32[] = "
		   "placeholder()\n"
		   "%r = where.self(%c, %a, %b)\nreturn (%r,)\n",
		   make(STX_BOOL, DIMS(3), VALS(1, 0, 1)), make(STX_F32, DIMS(3), VALS(1, 2, NAN)),
		   make(STX_F32, NULL, 0, VALS(9))),
	       STX_F32, DIMS(3), VALS(1, 9, NAN));
	expect(RUN("%x : f32[5] = placeholder()\n%r = clamp.default(%x, min=-1, max=2)\nreturn "
		   "(%r,)\n",
		   make(STX_F32, DIMS(5), VALS(-3, -0.5, 1, 5, NAN))),
	       STX_F32, DIMS(5), VALS(-1, -0.5, 1, 2, NAN));
	expect(RUN("%x : f32[3] = placeholder()\n%r = clamp.default(%x, None, 2)\nreturn (%r,)\n",
		   make(STX_F32, DIMS(3), VALS(-3, 1, 5))),
	       STX_F32, DIMS(3), VALS(-3, 1, 2));
	expect(RUN("%x : i8[3] = placeholder()\n%r = sign.default(%x)\nreturn (%r,)\n",
		   make(STX_I8, DIMS(3), VALS(-128, 0, 5))),
	       STX_I8, DIMS(3), VALS(-1, 0, 1));
	expect(RUN("%a : f32[4] = placeholder()\n%b : i32[4] = placeholder()\n%r = "
		   "logical_and.default(%a, %b)\n"
		   "return (%r,)\n",
		   make(STX_F32, DIMS(4), VALS(NAN, 0, -0.0, 2)),
		   make(STX_I32, DIMS(4), VALS(1, 1, 1, 0))),
	       STX_BOOL, DIMS(4), VALS(1, 0, 0, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ref_broadcast_add_alpha),
		cmocka_unit_test(test_ref_multiply_subtract_rounds_between),
		cmocka_unit_test(test_ref_integer_division_modes),
		cmocka_unit_test(test_ref_float_floor_division_uses_fmod),
		cmocka_unit_test(test_ref_small_integers_wrap),
		cmocka_unit_test(test_ref_float_to_small_integers_goes_through_i32),
		cmocka_unit_test(test_ref_written_narrowing_is_kept),
		cmocka_unit_test(test_ref_identities_that_are_not),
		cmocka_unit_test(test_ref_nan_survives),
		cmocka_unit_test(test_ref_plain_powers_are_their_functions),
		cmocka_unit_test(test_ref_promotion_kinds),
		cmocka_unit_test(test_ref_bf16_chain_rounds_every_node),
		cmocka_unit_test(test_ref_numbers_are_not_rounded_to_half),
		cmocka_unit_test(test_ref_select_clamp_sign),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
