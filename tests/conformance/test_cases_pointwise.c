/* test_cases_pointwise.c: elementwise cases that broke other compilers (shared cases B09 to B53),
 * each value alone, in vector bodies and in tails. */
#include "cases.h"

/* B09: a value derived from an index needs the value's width, not the index's */
static void test_index_overflow_products_of_a_range_keep_64_bits(void **state)
{
	(void)state;
	case_check(
		&(struct stated){ .text = "%s : i64[1] = placeholder()\n"
					  "%r = arange.start_step(0, 11, 1, dtype=i64)\n"
					  "%a = mul.Tensor(%r, %s)\n"
					  "%b = floor_divide.default(%a, %s)\n"
					  "return (%a, %b)\n",
				  .in = { V(1e9) },
				  .out = { V(0, 1e9, 2e9, 3e9, 4e9, 5e9, 6e9, 7e9, 8e9, 9e9, 1e10),
					   V(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10) } });
	case_check(&(struct stated){
		.text = "%s : i64[1] = placeholder()\n"
			"%r = arange.start_step(0, 9, 1, dtype=i64)\n"
			"%a = mul.Tensor(%r, %s)\n"
			"%c = mul.Scalar(%r, 1500000000)\n"
			"%b = add.Scalar(%r, 2147483647)\n"
			"return (%a, %b, %c)\n",
		.in = { V(1.5e9) },
		.out = { V(0, 1.5e9, 3e9, 4.5e9, 6e9, 7.5e9, 9e9, 10.5e9, 12e9),
			 V(2147483647., 2147483648., 2147483649., 2147483650., 2147483651.,
			   2147483652., 2147483653., 2147483654., 2147483655.),
			 V(0, 1.5e9, 3e9, 4.5e9, 6e9, 7.5e9, 9e9, 10.5e9, 12e9) } });
}

/* B27 */
static void test_int_div_mod_signs_of_division_and_remainders(void **state)
{
	static const char *const types[] = { "i8", "i16", "i32", "i64" };
	(void)state;
	for (int i = 0; i < 4; i++) {
		char text[512];
		snprintf(text, sizeof text,
			 "%%a : %s[@] = placeholder()\n%%b : %s[@] = placeholder()\n"
			 "%%f = floor_divide.default(%%a, %%b)\n%%r = remainder.Tensor(%%a, %%b)\n"
			 "%%m = fmod.Tensor(%%a, %%b)\n%%t = div.Tensor_mode(%%a, %%b, "
			 "rounding_mode='trunc')\n"
			 "return (%%f, %%r, %%m, %%t)\n",
			 types[i], types[i]);
		case_check_elementwise(&(struct stated){
			.text = text,
			.in = { V(-7, 7, -7, 7, 0, -1, 5), V(2, -2, -2, 2, -3, 3, -5) },
			.out = { V(-4, -4, 3, 3, 0, -1, -1), V(1, -1, -1, 1, 0, 2, 0),
				 V(-1, 1, -1, 1, 0, -1, 0), V(-3, -3, 3, 3, 0, 0, -1) } });
	}
}

/* B27: divisors that are known when the code is made, 0 and -1 among them: no lane is affected by
 * what another lane divides by. */
static void test_int_div_mod_known_divisors(void **state)
{
	static const char *const types[] = { "i8", "i16", "i32", "i64" };
	(void)state;
	for (int i = 0; i < 4; i++) {
		char text[512];
		snprintf(text, sizeof text,
			 "%%a : %s[1] = placeholder()\n"
			 "%%b = arange.start_step(-2, 6, 1, dtype=%s)\n"
			 "%%f = floor_divide.default(%%a, %%b)\n%%r = remainder.Tensor(%%a, %%b)\n"
			 "%%m = fmod.Tensor(%%a, %%b)\nreturn (%%f, %%r, %%m)\n",
			 types[i], types[i]);
		case_check(&(struct stated){ .text = text,
					     .in = { V(103) },
					     .out = { V(-52, -103, 0, 103, 51, 34, 25, 20),
						      V(-1, 0, 0, 0, 1, 1, 3, 3),
						      V(1, 0, 0, 0, 1, 1, 3, 3) } });
	}
}

/* B27: all pairs of int8, 0 as the divisor and -128/-1 by this project's rule (NUMERICS) */
static void test_int_div_mod_every_pair_of_int8(void **state)
{
	enum { N = 65536 };
	double *v = malloc(6 * N * sizeof *v);
	struct stated s = {
		.text = "%a : i8[65536] = placeholder()\n%b : i8[65536] = placeholder()\n"
			"%f = floor_divide.default(%a, %b)\n%r = remainder.Tensor(%a, %b)\n"
			"%m = fmod.Tensor(%a, %b)\n%t = div.Tensor_mode(%a, %b, "
			"rounding_mode='trunc')\n"
			"return (%f, %r, %m, %t)\n",
		.skip = CASE_NO_FOLD
	};
	(void)state;
	for (int k = 0; k < 6; k++)
		*(k < 2 ? &s.in[k] : &s.out[k - 2]) = (struct values){ v + k * N, N };
	for (int i = 0; i < N; i++) {
		int a = i / 256 - 128, b = i % 256 - 128;
		int q = b ? a / b : 0, m = b ? a % b : 0;
		int floored = b && m && (m < 0) != (b < 0);
		v[i] = a;
		v[N + i] = b;
		v[2 * N + i] = (int8_t)(q - floored);
		v[3 * N + i] = floored ? m + b : m;
		v[4 * N + i] = m;
		v[5 * N + i] = (int8_t)q;
	}
	case_check(&s);
	free(v);
}

/* B29 */
static void test_float_floor_div_uses_the_exact_quotient(void **state)
{
	(void)state;
	case_check_elementwise(&(struct stated){
		.text = "%a : f32[@] = placeholder()\n%b : f32[@] = placeholder()\n"
			"%f = div.Tensor_mode(%a, %b, rounding_mode='floor')\nreturn (%f,)\n",
		.in = { V(1, .5, 6, 1, -1), V(.1, .1, .2, 1 / 3., .1) },
		.out = { V(9, 4, 29, 2, -10) } });
	case_check_elementwise(&(struct stated){
		.text = "%a : f64[@] = placeholder()\n%b : f64[@] = placeholder()\n"
			"%f = div.Tensor_mode(%a, %b, rounding_mode='floor')\nreturn (%f,)\n",
		.in = { V(1, .5, 6, 1, -1), V(.1, .1, .2, 1 / 3., .1) },
		.out = { V(9, 4, 29, 3, -10) } });
}

/* B31 */
static void test_int_width_intermediates_wrap_in_their_own_width(void **state)
{
	(void)state;
	case_check_elementwise(
		&(struct stated){ .text = "%x : u8[@] = placeholder()\n%s = add.Tensor(%x, %x)\n"
					  "%w = _to_copy.default(%s, dtype=i16)\nreturn (%w,)\n",
				  .in = { V(128) },
				  .out = { V(0) } });
	case_check_elementwise(
		&(struct stated){ .text = "%x : u8[@] = placeholder()\n%n = neg.default(%x)\n%l = "
					  "lt.Scalar(%n, 4)\nreturn (%n, %l)\n",
				  .in = { V(6) },
				  .out = { V(250), V(0) } });
	case_check_elementwise(
		&(struct stated){ /* the intermediate stays in a register */
				  .text = "%x : u8[@] = placeholder()\n%n = neg.default(%x)\n%l = "
					  "lt.Scalar(%n, 4)\nreturn (%l,)\n",
				  .in = { V(6) },
				  .out = { V(0) } });
	case_check_elementwise(
		&(struct stated){ .text = "%x : i8[@] = placeholder()\n%k : i8[@] = placeholder()\n"
					  "%y = bitwise_right_shift.Tensor(%x, %k)\nreturn (%y,)\n",
				  .in = { V(-128), V(1) },
				  .out = { V(-64) } });
	case_check_elementwise(
		&(struct stated){ .text = "%x : u8[@] = placeholder()\n%k : u8[@] = placeholder()\n"
					  "%y = bitwise_left_shift.Tensor(%x, %k)\nreturn (%y,)\n",
				  .in = { V(200), V(1) },
				  .out = { V(144) } });
}

/* B35, wrap policy: through i32, low bits kept */
static void test_cast_float_int_to_8_bits_wraps_through_i32(void **state)
{
	(void)state;
	case_check_elementwise(&(struct stated){
		.text = "%x : f32[@] = placeholder()\n%s = _to_copy.default(%x, dtype=i8)\n"
			"%u = _to_copy.default(%x, dtype=u8)\nreturn (%s, %u)\n",
		.in = { V(300, NAN, INFINITY, -INFINITY, 50, -50, -129, 127.9, -0.9, 255.5, 256) },
		.out = { V(44, 0, 0, 0, 50, -50, 127, 127, 0, -1, 0),
			 V(44, 0, 0, 0, 50, 206, 127, 127, 0, 255, 0) } });
}

/* design, numerics: 16 bits like 8; 32 and 64 bits saturate, NaN gives 0 */
static void test_cast_float_int_to_wider_types_saturates(void **state)
{
	(void)state;
	case_check_elementwise(&(struct stated){
		.text = "%x : f32[@] = placeholder()\n%a = _to_copy.default(%x, dtype=i32)\n"
			"%b = _to_copy.default(%x, dtype=u32)\n%c = _to_copy.default(%x, "
			"dtype=i16)\nreturn (%a, %b, %c)\n",
		.in = { V(3e9, -3e9, NAN, INFINITY, -INFINITY, 70000, -0.9, -1) },
		.out = { V(2147483647., -2147483648., 0, 2147483647., -2147483648., 70000, 0, -1),
			 V(3e9, 0, 0, 4294967295., 0, 70000, 0, 0),
			 V(0, 0, 0, 0, 0, 4464, 0, -1) } });
}

/* B37 */
static void test_low_precision_narrowing_in_the_program_is_kept(void **state)
{
	double x[20], y[20];
	(void)state;
	for (int i = 0; i < 20; i++) {
		x[i] = (float)i / 7.0f;
		y[i] = stx_scalar_round(STX_F16, x[i]);
	}
	assert_true(y[1] == 0.142822265625 && y[2] == 0.28564453125 && y[5] == 0.71435546875 &&
		    y[19] == 2.71484375);
	case_check(&(struct stated){
		.text = "%x : f32[20] = placeholder()\n%h = _to_copy.default(%x, dtype=f16)\n"
			"%y = _to_copy.default(%h, dtype=f32)\n%s = sum.default(%y)\nreturn (%y, "
			"%s)\n",
		.in = { { x, 20 } },
		.out = { { y, 20 }, V(27.14208984375) } });
	case_check(&(struct stated){
		/* nobody stores y */
		.text = "%x : f32[20] = placeholder()\n%h = _to_copy.default(%x, dtype=f16)\n"
			"%y = _to_copy.default(%h, dtype=f32)\n%s = sum.default(%y)\nreturn "
			"(%s,)\n",
		.in = { { x, 20 } },
		.out = { V(27.14208984375) } });
	case_check_elementwise(&(struct stated){
		.text = "%x : f32[@] = placeholder()\n%h = _to_copy.default(%x, dtype=bf16)\n"
			"%y = _to_copy.default(%h, dtype=f32)\nreturn (%y,)\n",
		.in = { V(1 / 3.) },
		.out = { V(0.333984375) } });
}

/* B39 */
static void test_cast_rounding_f64_to_f16_rounds_once(void **state)
{
	(void)state;
	case_check_elementwise(&(struct stated){
		.text = "%x : f64[@] = placeholder()\n%h = _to_copy.default(%x, dtype=f16)\n"
			"%y = _to_copy.default(%h, dtype=f64)\nreturn (%y,)\n",
		.in = { V(1 + 0x1p-11 + 0x1p-30, 0x1p-25 * (1 + 0x1p-30), 0x1p-25,
			  -0x1p-25 * (1 + 0x1p-30), 65519.99999) },
		.out = { V(1.0009765625, 0x1p-24, 0, -0x1p-24, 65504) } });
}

/* B49 */
static void test_const_fold_false_identities_are_not_used(void **state)
{
	(void)state;
	case_check_elementwise(
		&(struct stated){ .text = "%x : f32[@] = placeholder()\n%a = mul.Scalar(%x, "
					  "inf)\n%b = mul.Scalar(%x, inf)\n"
					  "%y = sub.Tensor(%a, %b)\nreturn (%y,)\n",
				  .in = { V(1, 2, 3, 4) },
				  .out = { V(NAN) } });
	case_check_elementwise(
		&(struct stated){ .text = "%x : f32[@] = placeholder()\n%c = ceil.default(%x)\n%s "
					  "= add.Scalar(%c, 0.0)\n"
					  "%y = reciprocal.default(%s)\nreturn (%y,)\n",
				  .in = { V(-.5, -.1) },
				  .out = { V(INFINITY) } });
	case_check_elementwise(&(struct stated){
		.text = "%x : f32[@] = placeholder()\n%y = mul.Scalar(%x, 0)\nreturn (%y,)\n",
		.in = { V(INFINITY, NAN, -1) },
		.out = { V(NAN, NAN, -0.0) } });
	case_check_elementwise(&(struct stated){
		.text = "%x : f32[@] = placeholder()\n%a = sub.Tensor(%x, %x)\n%b = div.Tensor(%x, "
			"%x)\n"
			"%c = sub.Scalar(%x, 0)\n%d = mul.Scalar(%x, 1)\nreturn (%a, %b, %c, %d)\n",
		.in = { V(INFINITY, NAN, -0.0, 2, 0) },
		.out = { V(NAN, NAN, 0, 0, 0), V(NAN, NAN, NAN, 1, NAN),
			 V(INFINITY, NAN, -0.0, 2, 0), V(INFINITY, NAN, -0.0, 2, 0) } });
}

/* B49: NaN goes through max and exp of a constant softmax, and the compile succeeds */
static void test_const_fold_softmax_of_nan(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%x : f32[2,2] = placeholder()\n%a = atan2.default(%x, %x)\n%l = "
			"log2.default(%a)\n"
			"%c = acosh.default(%l)\n%y = _softmax.default(%c, 1)\nreturn (%y,)\n",
		.in = { V(1) },
		.out = { V(NAN) } });
}

/* B51 */
static void test_fast_math_special_values_survive(void **state)
{
	(void)state;
	case_check_elementwise(
		&(struct stated){ .text = "%x : f32[@] = placeholder()\n%a = atan.default(%x)\n%y "
					  "= sin.default(%a)\nreturn (%y,)\n",
				  .in = { V(NAN, INFINITY, -INFINITY, 0.5) },
				  .out = { V(NAN, 1, -1, 0.4472136) },
				  .rtol = 1e-6 });
	case_check_elementwise(&(struct stated){
		.text = "%x : f32[@] = placeholder()\n%n = isnan.default(%x)\n%e = eq.Tensor(%x, "
			"%x)\n"
			"%z = full.default([], 0, dtype=f32)\n%m = maximum.default(%x, %z)\n%r = "
			"relu.default(%x)\n"
			"%c = clamp.default(%x, 0)\nreturn (%n, %e, %m, %r, %c)\n",
		.in = { V(NAN, INFINITY, -INFINITY, 0.5) },
		.out = { V(1, 0, 0, 0), V(0, 1, 1, 1), V(NAN, INFINITY, 0, 0.5),
			 V(NAN, INFINITY, 0, 0.5), V(NAN, INFINITY, 0, 0.5) } });
}

/* B53 */
static void test_denormal_results_and_operands_are_kept(void **state)
{
	(void)state;
	case_check_elementwise(&(struct stated){
		.text = "%x : f32[@] = placeholder()\n%y = exp2.default(%x)\nreturn (%y,)\n",
		.in = { V(-126, -127, -149, -150) },
		.out = { V(0x1p-126, 0x1p-127, 0x1p-149, 0) } });
	case_check_elementwise(
		&(struct stated){ /* x*2 and x/2 of subnormals; comparison with 0 */
				  .text = "%x : f32[@] = placeholder()\n%a = mul.Scalar(%x, 2)\n%b "
					  "= mul.Scalar(%x, 0.5)\n"
					  "%c = eq.Scalar(%x, 0)\nreturn (%a, %b, %c)\n",
				  .in = { V(0x1p-149, 3 * 0x1p-149, -0x1p-127, -0.0) },
				  .out = { V(0x1p-148, 6 * 0x1p-149, -0x1p-126, -0.0),
					   V(0, 2 * 0x1p-149, -0x1p-128, -0.0), V(0, 0, 0, 1) } });
}

/* B53: logsigmoid as its definition, min(x, 0) - log1p(exp(-|x|)): negative and not zero */
static void test_denormal_logsigmoid_is_negative(void **state)
{
	(void)state;
	case_check_elementwise(
		&(struct stated){ .text = "%x : f32[@] = placeholder()\n%a = abs.default(%x)\n%n = "
					  "neg.default(%a)\n%e = exp.default(%n)\n"
					  "%l = log1p.default(%e)\n%m = clamp.default(%x, None, "
					  "0)\n%y = sub.Tensor(%m, %l)\n"
					  "%z = lt.Scalar(%y, 0)\nreturn (%y, %z)\n",
				  .in = { V(87, 88, 100) },
				  .out = { V(-1.6458115e-38, -6.054601e-39, -3.8e-44), V(1) },
				  .rtol = 2e-6,
				  .atol = 0x1p-149 });
}

/* SE-06: no contraction of a multiplication and an addition */
static void test_fma_products_are_rounded_before_they_are_added(void **state)
{
	(void)state;
	case_check_elementwise(
		&(struct stated){ .text = "%x : f32[@] = placeholder()\n%p = mul.Tensor(%x, %x)\n"
					  "%y = sub.Scalar(%p, 1.00048828125)\nreturn (%y,)\n",
				  .in = { V(1 + 0x1p-12) },
				  .out = { V(0) } });
}

/* Each operator of one operand on one half and on a vector of them: no library call is left (the
 * artifact check refuses such an object); values at lengths 1 and 17 are those of the oracle. */
static void test_half_precision_needs_no_library_calls(void **state)
{
	static const char *const types[] = { "f16", "bf16" };
	(void)state;
	for (int op = 0; op < 2 * STX_OP_COUNT; op++) {
		const struct stx_op_info *info = stx_op_info((enum stx_op)(op / 2));
		struct stated s = { .in = { V(-0.71484375, 2.5, 0.3, -3, 40, 0) },
				    .skip = CASE_NO_FOLD | CASE_NO_UNFUSED };
		char text[160];
		double want[17];
		if (info->category != STX_CAT_POINTWISE || info->nparams != 1)
			continue;
		snprintf(text, sizeof text,
			 "%%x : %s[@] = placeholder()\n%%y = %s(%%x)\nreturn (%%y,)\n",
			 types[op % 2], info->overload);
		s.text = text;
		for (int n = 1; n <= 17; n += 16) {
			struct stx_arena *a = stx_arena_new(0);
			char *at = case_text(text, n);
			struct stx_graph *g;
			struct stx_tensor in, out;
			struct stx_diag d = { 0 };
			if (!stx_graph_parse(a, at, strlen(at), &g,
					     &d)) { /* bitwise_not takes no floats */
				compiled_shape(g, &g->inputs.at[0], &in);
				case_fill(a, &in, s.in[0], 0);
				assert_int_equal(stx_ref_evaluate(g, &in, 1, &out, 0, &d), 0);
				enum stx_dtype t = (enum stx_dtype)out.dtype;
				for (int i = 0; i < n; i++) {
					union stx_scalar v = stx_scalar_load(
						t, (char *)out.data + i * stx_dtype_bytes(t));
					want[i] = stx_dtype_is_float(t) ? v.f : (double)v.i;
				}
				s.out[0] = (struct values){ want, n };
				case_check_at(&s, n);
				free(out.data);
			}
			free(at);
			stx_arena_free(a);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_index_overflow_products_of_a_range_keep_64_bits),
		cmocka_unit_test(test_int_div_mod_signs_of_division_and_remainders),
		cmocka_unit_test(test_int_div_mod_known_divisors),
		cmocka_unit_test(test_int_div_mod_every_pair_of_int8),
		cmocka_unit_test(test_float_floor_div_uses_the_exact_quotient),
		cmocka_unit_test(test_int_width_intermediates_wrap_in_their_own_width),
		cmocka_unit_test(test_cast_float_int_to_8_bits_wraps_through_i32),
		cmocka_unit_test(test_cast_float_int_to_wider_types_saturates),
		cmocka_unit_test(test_low_precision_narrowing_in_the_program_is_kept),
		cmocka_unit_test(test_cast_rounding_f64_to_f16_rounds_once),
		cmocka_unit_test(test_const_fold_false_identities_are_not_used),
		cmocka_unit_test(test_const_fold_softmax_of_nan),
		cmocka_unit_test(test_fast_math_special_values_survive),
		cmocka_unit_test(test_denormal_results_and_operands_are_kept),
		cmocka_unit_test(test_denormal_logsigmoid_is_negative),
		cmocka_unit_test(test_fma_products_are_rounded_before_they_are_added),
		cmocka_unit_test(test_half_precision_needs_no_library_calls),
	};
	return cmocka_run_group_tests(tests, case_setup, NULL);
}
