/* test_pytorch_forms.c: forms of operators that PyTorch takes and that have rules of their own:
 * bools as numbers, types by default, no rounding mode, 0-d among others. Values are those that
 * PyTorch 2.13 gave on a CPU. */
#include "cases.h"

#define N(a) (sizeof(a) / sizeof *(a))

static void check_all(const struct stated *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		case_check(&s[i]);
}

/* A bool is a number of type bool, the lowest: x + x of the result tells bool (1) from i64 (2). */
static void test_forms_bools_are_numbers_of_their_own_type(void **state)
{
	const struct stated cases[] = {
		{ "%b : bool[3] = placeholder()\n%t = add.Scalar(%b, True)\n"
		  "%f = add.Scalar(%b, False)\n%x = bitwise_xor.Scalar(%b, True)\n"
		  "%e = eq.Scalar(%b, False)\n%t2 = add.Tensor(%t, %t)\n"
		  "%m = mul.Scalar(%b, True)\n%m2 = add.Tensor(%m, %m)\n%i = add.Scalar(%b, 1)\n"
		  "return (%t2, %f, %x, %e, %m2, %i)\n",
		  .in = { V(1, 0, 1) },
		  .out = { V(1, 1, 1), V(1, 0, 1), V(0, 1, 0), V(0, 1, 0), V(1, 0, 1),
			   V(2, 1, 2) } },
		{ "%x : i32[3] = placeholder()\n%y = add.Scalar(%x, True)\n%z = le.Scalar(%x, "
		  "True)\n"
		  "%c = clamp.default(%x, False, True)\n%p = constant_pad_nd.default(%x, [1, 0], "
		  "True)\n"
		  "return (%y, %z, %c, %p)\n",
		  .in = { V(-4, 1, 7) },
		  .out = { V(-3, 2, 8), V(1, 1, 0), V(0, 1, 1), V(1, -4, 1, 7) } },
		{ "%x : f32[2] = placeholder()\n%f = full.default([2], True)\n%w = where.self(%f, "
		  "%x, "
		  "%x)\n%l = full_like.default(%x, True)\n%s = scalar_tensor.default(True)\n"
		  "return (%w, %l, %s)\n",
		  .in = { V(3, 4) }, .out = { V(3, 4), V(1, 1), V(1) } },
	};
	(void)state;
	check_all(cases, N(cases));
}

static void test_forms_types_of_created_values_follow_their_numbers(void **state)
{
	const struct stated cases[] = {
		{ "%i = full.default([2], 3)\n%f = full.default([2], 1.5)\n%q = "
		  "div.Tensor_mode(%i, %i, "
		  "rounding_mode='floor')\n%a = arange.start_step(0, 5, 2)\n"
		  "%h = bitwise_left_shift.Tensor(%a, %a)\n%r = arange.start_step(0, 2, 0.5)\n"
		  "return (%q, %f, %h, %r)\n",
		  .out = { V(1, 1), V(1.5, 1.5), V(0, 8, 64), V(0, 0.5, 1, 1.5) } },
	};
	(void)state;
	check_all(cases, N(cases));
}

static void test_forms_division_without_a_mode_is_exact(void **state)
{
	const struct stated cases[] = {
		{ "%x : i64[3] = placeholder()\n%y : i64[3] = placeholder()\n"
		  "%q = div.Tensor_mode(%x, %y, rounding_mode=None)\n"
		  "%s = div.Scalar_mode(%x, 2, rounding_mode=None)\nreturn (%q, %s)\n",
		  .in = { V(7, -7, 5), V(2, 2, 0) },
		  .out = { V(3.5, -3.5, INFINITY), V(3.5, -3.5, 2.5) } },
	};
	(void)state;
	check_all(cases, N(cases));
}

#define XOR8(x) ((int8_t)((x) ^ 2670558944708))
static void test_forms_integers_where_floats_are_usual(void **state)
{
	const struct stated cases[] = {
		{ "%x : i8[4] = placeholder()\n%y = hardtanh.default(%x, -2.5, 3.7)\nreturn "
		  "(%y,)\n",
		  .in = { V(-5, 0, 3, 9) }, .out = { V(-2, 0, 3, 3) } },
		{ "%x : u64[2] = placeholder()\n%y = hardtanh.default(%x, 1, 6)\nreturn (%y,)\n",
		  .in = { V(0, 18446744073709549568.0) }, .out = { V(1, 6) } },
		{ "%x : i64[2,2] = placeholder()\n%y = logsumexp.default(%x, [1])\nreturn (%y,)\n",
		  .in = { V(0, 0, 1, 2) }, .out = { V(0.6931471824645996, 2.3132617473602295) },
		  .rtol = 1e-6 },
		{ "%x : bool[2] = placeholder()\n%y = logsumexp.default(%x, [0])\nreturn (%y,)\n",
		  .in = { V(1, 0) }, .out = { V(1.31326162815094) }, .rtol = 1e-6 },
		{ "%x : u8[3] = placeholder()\n%y = bitwise_and.Scalar(%x, -2)\nreturn (%y,)\n",
		  .in = { V(1, 200, 255) }, .out = { V(0, 200, 254) } },
		{ "%x : i8[3] = placeholder()\n%y = bitwise_xor.Scalar(%x, 2670558944708)\n"
		  "%z = bitwise_and.Scalar(%x, -6175)\n%w = bitwise_or.Scalar(%x, 3283)\n"
		  "return (%y, %z, %w)\n",
		  .in = { V(1, 0, -1) },
		  .out = { V(XOR8(1), XOR8(0), XOR8(-1)), V(1 & -6175, 0, (int8_t)-6175),
			   V((int8_t)(1 | 3283), (int8_t)3283, -1) } },
		{ "%x : bool[3] = placeholder()\n%i : i64[3] = placeholder()\n%s : bool[3] = "
		  "placeholder()\n%y = index_add.default(%x, 0, %i, %s, alpha=2)\n"
		  "%z = index_add.default(%x, 0, %i, %s, alpha=False)\nreturn (%y, %z)\n",
		  .in = { V(1, 0, 0), V(1, 1, 0), V(1, 0, 1) }, .out = { V(1, 1, 0), V(1, 0, 0) } },
	};
	(void)state;
	check_all(cases, N(cases));
}

static void test_forms_0d_operands_of_gather_are_of_one_element(void **state)
{
	const struct stated cases[] = {
		{ "%x : f32[] = placeholder()\n%i : i64[3] = placeholder()\n"
		  "%y = gather.default(%x, 0, %i)\nreturn (%y,)\n",
		  .in = { V(5), V(0, 0, 0) }, .out = { V(5, 5, 5) }, .shape = { "3" } },
		{ "%x : f32[3] = placeholder()\n%i : i64[] = placeholder()\n"
		  "%y = gather.default(%x, -1, %i)\nreturn (%y,)\n",
		  .in = { V(1, 2, 3), V(2) }, .out = { V(3) } },
	};
	(void)state;
	check_all(cases, N(cases));
}

static void test_forms_pools_divide_by_negative_numbers(void **state)
{
	const struct stated cases[] = {
		{ "%x : f32[1,2,2] = placeholder()\n%y = avg_pool2d.default(%x, [2, 2], [], [0, "
		  "0], "
		  "False, True, -2)\nreturn (%y,)\n",
		  .in = { V(1, 2, 3, 4) }, .out = { V(-5) } },
	};
	(void)state;
	check_all(cases, N(cases));
}

/* Equal and doubled sizes of two dimensions do not depend on the factor that was rounded to
 * them. */
static void test_forms_nearest_neighbours_of_equal_and_doubled_sizes(void **state)
{
	const struct stated cases[] = {
		{ "%x : f32[1,1,1,3] = placeholder()\n"
		  "%a = upsample_nearest2d.vec(%x, None, [1.0, 1.3])\n"
		  "%b = upsample_nearest2d.vec(%x, None, [1.0, 2.3])\n"
		  "%c = upsample_nearest2d.vec(%x, None, [1.0, 3.3])\n"
		  "%v = view.default(%x, [1, 1, 3])\n%d = upsample_nearest1d.vec(%v, None, [1.3])\n"
		  "return (%a, %b, %c, %d)\n",
		  .in = { V(0, 1, 2) },
		  .out = { V(0, 1, 2), V(0, 0, 1, 1, 2, 2), V(0, 0, 0, 0, 1, 1, 1, 2, 2),
			   V(0, 0, 1) } },
	};
	(void)state;
	check_all(cases, N(cases));
}

/* sqrt(-inf) is NaN where pow(-inf, 0.5) is inf, sqrt(-0) is -0; x * x is rounded once. */
static void test_forms_common_powers_are_products_roots_and_quotients(void **state)
{
	const struct power {
		const char *e;
		struct values out;
	} powers[] = {
		{ "0.5", V(NAN, -0.0, 0, 2, NAN, NAN) },
		{ "-0.5", V(NAN, -INFINITY, INFINITY, 0.5, NAN, NAN) },
		{ "-1", V(-0.0, -INFINITY, INFINITY, 0.25, -0.5, NAN) },
		{ "2", V(INFINITY, 0, 0, 16, 4, NAN) },
		{ "3", V(-INFINITY, -0.0, 0, 64, -8, NAN) },
		{ "-2", V(0, INFINITY, INFINITY, 0.0625, 0.25, NAN) },
		{ "1", V(-INFINITY, -0.0, 0, 4, -2, NAN) },
		{ "0", V(1, 1, 1, 1, 1, 1) },
	};
	static const char *const types[] = { "f32", "f64", "f16", "bf16" };
	(void)state;
	for (size_t i = 0; i < N(powers); i++)
		for (size_t t = 0; t < N(types); t++) {
			char text[160];
			struct stated s = { .text = text,
					    .in = { V(-INFINITY, -0.0, 0.0, 4, -2, NAN) },
					    .out = { powers[i].out } };
			snprintf(text, sizeof text,
				 "%%x : %s[6] = placeholder()\n%%y = pow.Tensor_Scalar(%%x, %s)\n"
				 "return (%%y,)\n",
				 types[t], powers[i].e);
			case_check(&s);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms_bools_are_numbers_of_their_own_type),
		cmocka_unit_test(test_forms_types_of_created_values_follow_their_numbers),
		cmocka_unit_test(test_forms_division_without_a_mode_is_exact),
		cmocka_unit_test(test_forms_integers_where_floats_are_usual),
		cmocka_unit_test(test_forms_0d_operands_of_gather_are_of_one_element),
		cmocka_unit_test(test_forms_pools_divide_by_negative_numbers),
		cmocka_unit_test(test_forms_nearest_neighbours_of_equal_and_doubled_sizes),
		cmocka_unit_test(test_forms_common_powers_are_products_roots_and_quotients),
	};
	return cmocka_run_group_tests(tests, case_setup, NULL);
}
