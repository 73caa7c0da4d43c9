/* test_cases.c: small inputs that broke other compilers (cases.md), through lowering and
 * evaluation, inlined and with every node realised. */
#include <math.h>

#include "decompose.h"
#include "lowering.h"
#include "scalar.h"

static void variant(struct low *w, const char *graph, int how)
{
	low_start(w, graph, (struct stx_lower_options){ .no_inline = how == 1 });
	assert_int_equal(stx_loops_verify(w->l, &w->d), 0);
}

/* Evaluates with the inputs' storage given; out[k] receives output k as raw elements. */
static stx_err evaluate(struct low *w, const void *const *inputs, void **out)
{
	void *at[32] = { NULL };
	uint32_t i;

	assert_true(w->l->buffers.n < 32);
	for (i = 0; i < w->l->buffers.n; i++) {
		const struct stx_buffer *b = w->l->buffers.at[i];

		at[i] = b->kind == STX_BUF_INPUT ? (void *)(uintptr_t)inputs[b->index]
						 : stx_arena_alloc(w->arena, 4096);
		if (b->kind == STX_BUF_CONST)
			at[i] = NULL;
		else if (b->kind != STX_BUF_INPUT)
			memset(at[i], 0xAA, 4096); /* a missing initial store shows (B03) */
		if (b->kind == STX_BUF_OUTPUT)
			out[b->index] = at[i];
	}
	return stx_handler_evaluate(w->l, at, &w->d);
}

/* Output k of the graph, in every variant, holds `want`. */
static void expect(const char *graph, const void *const *inputs, uint32_t k, const double *want,
		   uint32_t n)
{
	int how;
	uint32_t i;

	for (how = 0; how < 2; how++) {
		struct low w;
		void *out[8] = { NULL };

		variant(&w, graph, how);
		if (evaluate(&w, inputs, out))
			fail_msg("%s", w.d.text);
		for (i = 0; i < n; i++) {
			enum stx_dtype t = low_output(&w, k)->dtype;
			union stx_scalar v =
				stx_scalar_load(t, (char *)out[k] + i * (size_t)stx_dtype_bytes(t));
			double got = stx_dtype_is_float(t) ? v.f : (double)v.i;

			if (!(got == want[i] || (isnan(got) && isnan(want[i]))))
				fail_msg("variant %d output %u[%u]: %.9g, wanted %.9g", how, k, i,
					 got, want[i]);
		}
		low_end(&w);
	}
}
#define IN(...)                                                                                    \
	(const void *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define D(...)                                                                                     \
	(const double[]){ __VA_ARGS__ }, sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double)

/* B01 */
static void test_cases_argreduce_nan_wins_first(void **state)
{
	static const char graph[] = "%x : f32[4] = placeholder()\n%a = argmin.default(%x)\n"
				    "%b = argmax.default(%x)\nreturn (%a, %b)\n";
	const float x[] = { 5, NAN, -1, NAN }, y[] = { NAN, 0, 1, 2 }, z[] = { -2, 100 };

	(void)state;
	expect(graph, IN(x), 0, D(1));
	expect(graph, IN(x), 1, D(1));
	expect(graph, IN(y), 0, D(0));
	expect("%x : f32[2] = placeholder()\n%l = log1p.default(%x)\n%a = "
	       "argmax.default(%l)\nreturn (%a,)\n",
	       IN(z), 0, D(0));
}

/* RD-04: the triple of 2,4,4,4,5,5,7,9 is (8, 5, 32) */
static void test_cases_reductions_of_two_values(void **state)
{
	static const char moments[] = "%x : f32[8] = placeholder()\n%v = var_mean.correction(%x, "
				      "[0], correction=0)\nreturn (%v, %v:1)\n";
	static const char pair[] = "%x : f32[8] = placeholder()\n%m = min.dim(%x, 0)\n"
				   "return (%m:1, %m)\n";
	const float x[] = { 2, 4, 4, 4, 5, 5, 7, 9 }, y[] = { 2, 4, -1, 4, 5, -1, 7, 9 };

	(void)state;
	expect(moments, IN(x), 0, D(32. / 8));
	expect(moments, IN(x), 1, D(5));
	expect(pair, IN(y), 0, D(2));
	expect(pair, IN(y), 1, D(-1));
}

/* MR-05: two identities merge to one; the state of [0, log 3] is (log 3, 4/3). */
static void test_cases_online_softmax_pair(void **state)
{
	static const char pair[] = "%x : f64[3] = placeholder()\n%p = _online_softmax.default(%x, "
				   "[0])\n%s = mul.Scalar(%p:1, 3)\n%r = round.default(%s)\n"
				   "return (%p, %r)\n";
	static const char none[] = "%x : f64[0] = placeholder()\n%p = _online_softmax.default(%x, "
				   "[0])\nreturn (%p, %p:1)\n";
	const double x[] = { 0, 1.0986122886681098, -INFINITY };

	(void)state;
	expect(pair, IN(x), 0, D(1.0986122886681098));
	expect(pair, IN(x), 1, D(4));
	expect(none, IN(x), 0, D(-INFINITY));
	expect(none, IN(x), 1, D(0));
}

/* B43: the divisor is max(0, n - correction) */
static void test_cases_variance_divisor_is_not_negative(void **state)
{
	static const char *const corrections[] = { "0", "1", "2.5", "3", "5" };
	static const double want[] = { 14. / 9, 7. / 3, 28. / 3, INFINITY, INFINITY };
	const double x[] = { 1, 2, 4 };
	int i;

	(void)state;
	for (i = 0; i < 5; i++) {
		char text[160];

		snprintf(text, sizeof text,
			 "%%x : f64[3] = placeholder()\n%%v = var_mean.correction(%%x, None, "
			 "correction=%s)\n%%r = mul.Scalar(%%v, 9)\n%%w = round.default(%%r)\n"
			 "return (%%w, %%v:1)\n",
			 corrections[i]);
		expect(text, IN(x), 0, (const double[]){ rint(want[i] * 9) }, 1);
	}
}

/* NaN is greatest, zeros are equal, equal elements keep their order. */
static void test_cases_sorts_are_stable(void **state)
{
	static const char up[] = "%x : f32[2,4] = placeholder()\n%s = argsort.stable(%x, "
				 "stable=True, dim=1)\nreturn (%s,)\n";
	static const char down[] = "%x : f32[2,4] = placeholder()\n%s = argsort.stable(%x, "
				   "stable=True, dim=1, descending=True)\nreturn (%s,)\n";
	const float x[] = { NAN, 0, -0.0f, -1, 5, INFINITY, 5, -INFINITY };

	(void)state;
	expect(up, IN(x), 0, D(3, 1, 2, 0, 3, 0, 2, 1));
	expect(down, IN(x), 0, D(0, 1, 2, 3, 1, 0, 2, 3));
}

/* B03: the identity is stored although the loop never runs. */
static void test_cases_empty_reductions_give_identity(void **state)
{
	float none = 0;

	(void)state;
	expect("%x : f32[3,0] = placeholder()\n%s = sum.dim_IntList(%x, [1])\nreturn (%s,)\n",
	       IN(&none), 0, D(0, 0, 0));
	expect("%x : f32[3,0] = placeholder()\n%s = prod.dim_int(%x, 1)\nreturn (%s,)\n", IN(&none),
	       0, D(1, 1, 1));
	expect("%x : f32[3,0] = placeholder()\n%s = any.dims(%x, [1])\n%t = all.dims(%x, [1])\n"
	       "return (%s, %t)\n",
	       IN(&none), 0, D(0, 0, 0));
	expect("%x : f32[3,0] = placeholder()\n%t = all.dims(%x, [1])\nreturn (%t,)\n", IN(&none),
	       0, D(1, 1, 1));
	expect("%a : f32[4,0] = placeholder()\n%b : f32[0,4] = placeholder()\n%m = mm.default(%a, "
	       "%b)\n"
	       "return (%m,)\n",
	       IN(&none, &none), 0, D(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

/* B05 */
static void test_cases_integer_extremes_have_their_identity(void **state)
{
	const uint8_t p[] = { 5, 1, 100, 3, 7, 8, 9, 13, 100, 120, 127, 2, 6, 4, 11, 12, 90, 80 };
	int8_t m[18];
	uint32_t i;

	(void)state;
	for (i = 0; i < 18; i++)
		m[i] = (int8_t)-p[i];
	expect("%x : u8[18] = placeholder()\n%a = amin.default(%x)\nreturn (%a,)\n", IN(p), 0,
	       D(1));
	expect("%x : u8[18] = placeholder()\n%a = argmax.default(%x)\nreturn (%a,)\n", IN(p), 0,
	       D(10));
	expect("%x : i8[18] = placeholder()\n%a = amax.default(%x)\nreturn (%a,)\n", IN(m), 0,
	       D(-1));
	expect("%x : i8[18] = placeholder()\n%a = argmin.default(%x)\nreturn (%a,)\n", IN(m), 0,
	       D(10));
}

/* B09 */
static void test_cases_values_of_indices_are_not_indices(void **state)
{
	(void)state;
	expect("%ar = arange.start_step(0, 11, dtype=i64)\n%m = mul.Scalar(%ar, "
	       "1000000000)\nreturn (%m,)\n",
	       NULL, 0, D(0, 1e9, 2e9, 3e9, 4e9, 5e9, 6e9, 7e9, 8e9, 9e9, 1e10));
	expect("%ar = arange.start_step(0, 3, dtype=i64)\n%m = add.Scalar(%ar, 2147483647)\nreturn "
	       "(%m,)\n",
	       NULL, 0, D(2147483647, 2147483648, 2147483649));
	/* i32 wraps: 3*10^9 mod 2^32 */
	expect("%ar = arange.start_step(0, 4, dtype=i32)\n%m = mul.Scalar(%ar, 1000000000)\nreturn "
	       "(%m,)\n",
	       NULL, 0, D(0, 1e9, 2e9, -1294967296));
	/* VR-11: a possibly negative value */
	expect("%ar = arange.start_step(-5, 3, dtype=i64)\n%k = full.default([], 8, dtype=i64)\n"
	       "%m = remainder.Tensor(%ar, %k)\nreturn (%m,)\n",
	       NULL, 0, D(3, 4, 5, 6, 7, 0, 1, 2));
}

/* B15, LO-14, LO-15: index.Tensor wraps; beyond that everything is an error that names the bounds.
 */
static void test_cases_index_out_of_bounds_is_reported(void **state)
{
	static const struct {
		const char *op;
		int64_t index;
		int ok;
	} cases[] = {
		{ "index.Tensor(%x, [%i])", -1, 1 },
		{ "index.Tensor(%x, [%i])", 128, 0 },
		{ "index.Tensor(%x, [%i])", -129, 0 },
		{ "index.Tensor(%x, [%i])", -128, 1 },
		{ "gather.default(%x, 0, %i)", -1, 0 },
		{ "gather.default(%x, 0, %i)", 127, 1 },
		{ "index_select.default(%x, 0, %i)", -1, 0 },
		{ "index_select.default(%x, 0, %i)", 128, 0 },
	};
	float x[128];
	uint32_t i;

	(void)state;
	for (i = 0; i < 128; i++)
		x[i] = (float)i;
	for (i = 0; i < sizeof cases / sizeof *cases; i++) {
		char graph[256];
		struct low w;
		void *out[8];
		stx_err e;

		snprintf(graph, sizeof graph,
			 "%%x : f32[128] = placeholder()\n%%i : i64[1] = placeholder()\n"
			 "%%g = %s\nreturn (%%g,)\n",
			 cases[i].op);
		variant(&w, graph, 0);
		e = evaluate(&w, IN(x, &cases[i].index), out);
		assert_int_equal(e, cases[i].ok ? 0 : STX_E_BOUNDS);
		if (e) {
			assert_has(w.d.text, "index out of bounds: 0 <= ");
			assert_has(w.d.text, " < 128");
		} else {
			assert_true(*(float *)out[0] == (float)((cases[i].index + 128) % 128));
		}
		low_end(&w);
	}
}

/* B25 */
static void test_cases_cat_of_empty_tensors(void **state)
{
	const float x[] = { 1, 2 };

	(void)state;
	expect("%a : f32[0] = placeholder()\n%b : f32[2] = placeholder()\n%c : f32[0] = "
	       "placeholder()\n"
	       "%t = cat.default([%a, %b, %c])\nreturn (%t,)\n",
	       IN(x, x, x), 0, D(1, 2));
	expect("%a : f32[0] = placeholder()\n%t = cat.default([%a, %a])\nreturn (%t,)\n", IN(x), 0,
	       NULL, 0);
}

/* B27 */
static void test_cases_integer_division_and_remainders(void **state)
{
	const int32_t a[] = { -7, 7, -7, 7, 0, -1, 5 }, b[] = { 2, -2, -2, 2, -3, 3, -5 };
	static const char graph[] =
		"%a : i32[7] = placeholder()\n%b : i32[7] = placeholder()\n"
		"%f = div.Tensor_mode(%a, %b, rounding_mode='floor')\n%r = remainder.Tensor(%a, "
		"%b)\n"
		"%m = fmod.Tensor(%a, %b)\n%t = div.Tensor_mode(%a, %b, rounding_mode='trunc')\n"
		"return (%f, %r, %m, %t)\n";

	(void)state;
	expect(graph, IN(a, b), 0, D(-4, -4, 3, 3, 0, -1, -1));
	expect(graph, IN(a, b), 1, D(1, -1, -1, 1, 0, 2, 0));
	expect(graph, IN(a, b), 2, D(-1, 1, -1, 1, 0, -1, 0));
	expect(graph, IN(a, b), 3, D(-3, -3, 3, 3, 0, 0, -1));
}

/* B29 */
static void test_cases_float_floor_division(void **state)
{
	const float a[] = { 1, .5f, 6, 1, -1 }, b[] = { .1f, .1f, .2f, 1.0f / 3, .1f };
	const double c[] = { 1, .5, 6, 1, -1 }, d[] = { .1, .1, .2, 1.0 / 3, .1 };

	(void)state;
	expect("%a : f32[5] = placeholder()\n%b : f32[5] = placeholder()\n"
	       "%f = div.Tensor_mode(%a, %b, rounding_mode='floor')\nreturn (%f,)\n",
	       IN(a, b), 0, D(9, 4, 29, 2, -10));
	expect("%a : f64[5] = placeholder()\n%b : f64[5] = placeholder()\n"
	       "%f = div.Tensor_mode(%a, %b, rounding_mode='floor')\nreturn (%f,)\n",
	       IN(c, d), 0, D(9, 4, 29, 3, -10));
}

/* B31 */
static void test_cases_narrow_integers_wrap(void **state)
{
	const uint8_t x = 128, six = 6, big = 200, one = 1;
	const int8_t low = -128, by = 1;

	(void)state;
	expect("%x : u8[] = placeholder()\n%s = add.Tensor(%x, %x)\n%c = _to_copy.default(%s, "
	       "dtype=i16)\n"
	       "return (%c,)\n",
	       IN(&x), 0, D(0));
	expect("%x : u8[] = placeholder()\n%n = neg.default(%x)\n%l = lt.Scalar(%n, 4)\nreturn "
	       "(%n, %l)\n",
	       IN(&six), 0, D(250));
	expect("%x : u8[] = placeholder()\n%n = neg.default(%x)\n%l = lt.Scalar(%n, 4)\nreturn "
	       "(%n, %l)\n",
	       IN(&six), 1, D(0));
	expect("%x : i8[] = placeholder()\n%y : i8[] = placeholder()\n"
	       "%s = bitwise_right_shift.Tensor(%x, %y)\nreturn (%s,)\n",
	       IN(&low, &by), 0, D(-64));
	expect("%x : u8[] = placeholder()\n%y : u8[] = placeholder()\n"
	       "%s = bitwise_left_shift.Tensor(%x, %y)\nreturn (%s,)\n",
	       IN(&big, &one), 0, D(144));
}

/* B37: a narrowing the program asks for is kept. SE-05: a type that stores less than was computed
 * rounds once more: these are not the sums without it. */
static void test_cases_written_narrowing_is_kept(void **state)
{
	float x[20];
	uint32_t i;

	(void)state;
	for (i = 0; i < 20; i++)
		x[i] = (float)i / 7;
	expect("%x : f32[20] = placeholder()\n%h = _to_copy.default(%x, dtype=f16)\n"
	       "%y = _to_copy.default(%h, dtype=f32)\n%s = sum.dim_IntList(%y, [0])\nreturn (%s, "
	       "%y)\n",
	       IN(x), 0, D(27.14208984375));
	/* without: the sum of the f32 values, and the values */
	float all = 0;
	for (i = 0; i < 20; i++)
		all += x[i];
	assert_true(all != 27.14208984375f && fabsf(all - 27.142857f) < 1e-5f);
	expect("%x : f32[20] = placeholder()\n%s = sum.dim_IntList(%x, [0])\nreturn (%s,)\n", IN(x),
	       0, (const double[]){ (double)all }, 1);
}

/* SE-06: no contraction: x*x - (1 + 2^-11) at x = 1 + 2^-12 is 0, not 2^-24; rounding is at
 * each node. */
static void test_cases_multiply_add_is_not_contracted(void **state)
{
	const float x = 1 + 0x1p-12f;

	(void)state;
	expect("%x : f32[] = placeholder()\n%m = mul.Tensor(%x, %x)\n%s = sub.Scalar(%m, "
	       "1.00048828125)\n"
	       "return (%s,)\n",
	       IN(&x), 0, D(0));
}

/* SE-02: the reference folds left in lexicographic order; pairwise these would give 0. */
static void test_cases_reference_sum_folds_left(void **state)
{
	const float x[] = { 1e8f, 1, -1e8f, 1 };

	(void)state;
	expect("%x : f32[2,2] = placeholder()\n%s = sum.dim_IntList(%x, [0, 1])\nreturn (%s,)\n",
	       IN(x), 0, D(1));
}

/* SE-16, RD-01, RD-06: -inf is the identity of max, and NaN wins. */
static void test_cases_extremes_over_extended_reals(void **state)
{
	const float x[] = { -INFINITY, -INFINITY, 3, NAN };

	(void)state;
	expect("%x : f32[2,2] = placeholder()\n%a = amax.default(%x, [1])\nreturn (%a,)\n", IN(x),
	       0, D(-INFINITY, NAN));
	expect("%x : f32[2,2] = placeholder()\n%a = amin.default(%x, [1])\nreturn (%a,)\n", IN(x),
	       0, D(-INFINITY, NAN));
}

/* An index from a constant is checked while compiling. */
static void test_cases_constant_index_needs_no_check(void **state)
{
	struct low w;
	const float x[] = { 10, 11, 12, 13 };
	static const char graph[] =
		"%x : f32[4] = placeholder()\n%i : i64[3] = constant([-1, 0, 2])\n"
		"%g = index.Tensor(%x, [%i])\nreturn (%g,)\n";

	(void)state;
	low_cpu(&w, graph);
	assert_has(low_body(&w, low_output(&w, 0)), "ops.indirect_indexing('tmp0', 4, wrap)\n");
	low_end(&w);
	expect(graph, IN(x), 0, D(13, 10, 12));
}

/* LO-10: one row of the op table registers a function: each operator of one operand that is exactly
 * a primitive lowers to one call of it. */
static void test_cases_unary_operators_are_their_primitive(void **state)
{
	uint32_t op, n = 0;

	(void)state;
	for (op = 0; op < STX_OP_COUNT; op++) {
		const struct stx_op_info *info = stx_op_info((enum stx_op)op);
		char text[160], call[64];
		struct low w;
		int whole;

		if (info->prim < 0 || info->category != STX_CAT_POINTWISE || info->nparams != 1 ||
		    !(info->tags & STX_TAG_BASIS))
			continue;
		whole = !stx_prim_accepts((enum stx_prim)info->prim, STX_F32);
		snprintf(text, sizeof text,
			 "%%x : %s[4] = placeholder()\n%%r = %s(%%x)\nreturn (%%r,)\n",
			 !whole                     ? "f32"
			 : op == STX_OP_LOGICAL_NOT ? "bool"
						    : "i32",
			 info->overload);
		low_cpu(&w, text);
		snprintf(call, sizeof call, "tmp1 = ops.%s('tmp0')\n",
			 stx_prim_info((enum stx_prim)info->prim)->text);
		assert_has(low_body(&w, low_output(&w, 0)), call);
		assert_int_equal(low_output(&w, 0)->body.n, 2);
		low_end(&w);
		n++;
	}
	assert_true(n >= 30);
}

/* Every row of the basis has a rule, or is decomposed before: composites, scans, asserts, and what
 * the table of decompositions to primitives names. */
static void test_cases_basis_rows_have_rules(void **state)
{
	(void)state;
	for (uint32_t op = 0; op < STX_OP_COUNT; op++) {
		const struct stx_op_info *info = stx_op_info((enum stx_op)op);

		if (!(info->tags & STX_TAG_BASIS) || info->category == STX_CAT_COMPOSITE ||
		    info->category == STX_CAT_SCAN || info->tags & STX_TAG_EFFECT)
			continue;
		if (!stx_lower_has_rule((enum stx_op)op) && !stx__primitive_rules[op])
			fail_msg("%s has no rule", info->overload);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases_argreduce_nan_wins_first),
		cmocka_unit_test(test_cases_reductions_of_two_values),
		cmocka_unit_test(test_cases_variance_divisor_is_not_negative),
		cmocka_unit_test(test_cases_online_softmax_pair),
		cmocka_unit_test(test_cases_sorts_are_stable),
		cmocka_unit_test(test_cases_empty_reductions_give_identity),
		cmocka_unit_test(test_cases_integer_extremes_have_their_identity),
		cmocka_unit_test(test_cases_values_of_indices_are_not_indices),
		cmocka_unit_test(test_cases_index_out_of_bounds_is_reported),
		cmocka_unit_test(test_cases_cat_of_empty_tensors),
		cmocka_unit_test(test_cases_integer_division_and_remainders),
		cmocka_unit_test(test_cases_float_floor_division),
		cmocka_unit_test(test_cases_narrow_integers_wrap),
		cmocka_unit_test(test_cases_written_narrowing_is_kept),
		cmocka_unit_test(test_cases_multiply_add_is_not_contracted),
		cmocka_unit_test(test_cases_reference_sum_folds_left),
		cmocka_unit_test(test_cases_extremes_over_extended_reals),
		cmocka_unit_test(test_cases_constant_index_needs_no_check),
		cmocka_unit_test(test_cases_unary_operators_are_their_primitive),
		cmocka_unit_test(test_cases_basis_rows_have_rules),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
