/* test_in_place.c: operators in place, cases with stated results (test_in_place_programs.c: random ones). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "compiled.h"
#include "passes.h"

#define N(a) (sizeof(a) / sizeof *(a))

static int same(float a, float b)
{
	return !memcmp(&a, &b, sizeof a) || (a != a && b != b);
}

/* What cannot be made functional, or has no meaning, says so and where. */
static void test_in_place_errors_name_the_node(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "%c : f32[2] = constant([1,2])\n%y = relu_.default(%c)\nreturn (%y,)\n",
		  "a constant is written" },
		{ "%x : f32[2] = placeholder(param=True)\n%y = relu_.default(%x)\nreturn (%y,)\n",
		  "a parameter is written" },
		{ "%x : f32[2,3] = placeholder(strides=[0,1])\n%y = relu_.default(%x)\n"
		  "return (%y,)\n",
		  "several elements may be one in memory" },
		{ "%x : f32[3] = placeholder()\n%e = expand.default(%x, [2,3])\n"
		  "%y = relu_.default(%e)\nreturn (%y,)\n",
		  "written through an expand" },
		{ "%x : f32[2,3] = placeholder()\n%t = t.default(%x)\n%r = reshape.default(%t, "
		  "[6])\n"
		  "%y = relu_.default(%x)\nreturn (%y, %r)\n",
		  "may or may not be a copy" },
		{ "%x : f32[6] = placeholder()\n%s = as_strided.default(%x, [2,2], [3,1])\n"
		  "%y = relu_.default(%s)\nreturn (%y,)\n",
		  "as_strided" },
		{ "%x : f32[6] = placeholder()\n%s = unfold.default(%x, 0, 2, 1)\n"
		  "%y = relu_.default(%s)\nreturn (%y,)\n",
		  "unfold" },
		{ "%x : f32[3] = placeholder()\n%z : f32[2,3] = placeholder()\n"
		  "%y = add_.Tensor(%x, %z)\nreturn (%y,)\n",
		  "does not have the sizes" },
		{ "%x : i32[3] = placeholder()\n%z : f32[3] = placeholder()\n"
		  "%y = add_.Tensor(%x, %z)\nreturn (%y,)\n",
		  "is f32, which is not written into i32" },
		{ "%x : f32[3] = placeholder()\n%y = sum_.default(%x)\nreturn (%y,)\n",
		  "is not an operator overload" },
		{ "%x : f32[3] = placeholder()\n%y = relu.default(%x)\nreturn (%y to %y,)\n",
		  "expected an input" },
		{ "%x : f32[3] = placeholder()\n%y = relu.default(%x)\nreturn (%y to %x, %y)\n",
		  "behind what is written" },
		{ "%x : f32[3] = placeholder()\n%y : f32[2] = placeholder()\nreturn (%y to %x,)\n",
		  "another type" },
		{ "%x : f32[3] = placeholder()\n%y = relu.default(%x)\nreturn (%y in %x,)\n",
		  "is in an input that is not written" },
		{ "%x : f32[3] = placeholder()\n%y = relu.default(%x)\nreturn (%x in %x, %y to "
		  "%x)\n",
		  "holds another value" },
	};
	(void)state;
	for (size_t k = 0; k < N(cases); k++) {
		struct compiled c;
		struct stx_diag d = { 0 };
		stx_err e = compiled_build(cases[k].text, compiled_targets()[0], COMPILED_FUSED, &c,
					   &d);
		if (!e || !strstr(d.text, cases[k].says))
			fail_msg("%s: error %d, '%s'", cases[k].text, e, d.text);
	}
}

/* A key-value cache that is no donated argument: only the new rows are written. */
static void test_in_place_cache_update_does_not_copy(void **state)
{
	static const char *const cases[] = {
		"%c : f32[2,64,8] = placeholder()\n%n : f32[2,1,8] = placeholder()\n"
		"%p : i64[1] = placeholder()\n%r = index_copy_.default(%c, 1, %p, %n)\n"
		"%t = sum.dim_IntList(%c, [1], False)\nreturn (%t,)\n",
		"%c : f32[2,64,8] = placeholder()\n%n : f32[2,1,8] = placeholder()\n"
		"%p : i64[1] = placeholder()\n%s = slice.Tensor(%c, 1, 3, 4)\n"
		"%r = copy_.default(%s, %n)\n"
		"%t = sum.dim_IntList(%c, [1], False)\nreturn (%t,)\n",
	};
	(void)state;
	for (size_t k = 0; k < N(cases); k++) {
		float cache[2 * 64 * 8] = { 0 }, fresh[16], total[16];
		int64_t at = 3;
		struct compiled c;
		struct stx_diag d = { 0 };
		struct stax_error err;
		struct stx_tensor in[3] = {
			{ .data = cache, .dtype = STX_F32, .rank = 3, .sizes = { 2, 64, 8 } },
			{ .data = fresh, .dtype = STX_F32, .rank = 3, .sizes = { 2, 1, 8 } },
			{ .data = &at, .dtype = STX_I64, .rank = 1, .sizes = { 1 } },
		}, out[2] = { 0 }, flags;
		const char *name;
		for (int i = 0; i < 16; i++)
			fresh[i] = (float)(i + 1);
		for (int i = 0; i < 3; i++)
			compiled_dense(&in[i]);
		if (compiled_build(cases[k], compiled_targets()[0], COMPILED_FUSED, &c, &d))
			fail_msg("%s", d.text);
		assert_int_equal(stax_noutputs(c.artifact), 2);
		assert_int_equal(stax_query(c.artifact, in, 3, out, NULL, &err), 0);
		compiled_dense(&out[0]);
		out[0].data = total;
		out[1].data = NULL;
		if (compiled_call(&c, in, 3, out, 2, &err))
			fail_msg("%s", err.text);
		assert_int_equal(stax_input(c.artifact, 0, &flags, &name), 0);
		assert_int_equal(flags.flags, STX_TENSOR_MUTATED);
		assert_ptr_equal(out[1].data, cache);
		for (int i = 0; i < 2 * 64 * 8; i++)
			assert_true(cache[i] == (i / 8 % 64 == 3 ? fresh[i / 512 * 8 + i % 8] : 0));
		for (int i = 0; i < 16; i++)
			assert_true(total[i] == fresh[i]);
		assert_true(c.bytes_written == 16 * 4 + 16 * 4);
		compiled_free(&c);
	}
}

/* PyTorch returns the same tensor: an updated cache that is a result as well is described, not
 * copied, or copied into the memory that the caller gives. */
static void test_in_place_returned_input_is_the_input(void **state)
{
	static const struct {
		const char *text;
		int written, own; /* bytes by kernels; result 0 has memory of its own */
	} cases[] = {
		{ "%r = index_copy_.default(%c, 1, %p, %n)\nreturn (%r,)\n", 64, 0 },
		{ "%s = slice.Tensor(%c, 1, 3, 4)\n%r = copy_.default(%s, %n)\nreturn (%c,)\n", 64,
		  0 },
		{ "%s = select.int(%c, 1, 3)\n%m = select.int(%n, 1, 0)\n"
		  "%r = copy_.default(%s, %m)\n%d = detach.default(%c)\nreturn (%c,)\n",
		  64, 0 },
		{ "%r = index_copy.default(%c, 1, %p, %n)\nreturn (%r in %c, %r to %c)\n", 64, 0 },
		/* another tensor of the same elements */
		{ "%r = index_copy.default(%c, 1, %p, %n)\nreturn (%r, %r to %c)\n", 64 + 4096, 1 },
		{ "%r = index_copy_.default(%c, 1, %p, %n)\n%k = clone.default(%c)\nreturn (%k,)\n",
		  64 + 4096, 1 },
	};
	(void)state;
	for (size_t k = 0; k < 2 * N(cases); k++) {
		float cache[2 * 64 * 8] = { 0 }, fresh[16], given[2 * 64 * 8];
		int64_t at = 3;
		char text[400];
		struct compiled c;
		struct stx_diag d = { 0 };
		struct stax_error err;
		struct stx_tensor in[3] = {
			{ .data = cache, .dtype = STX_F32, .rank = 3, .sizes = { 2, 64, 8 } },
			{ .data = fresh, .dtype = STX_F32, .rank = 3, .sizes = { 2, 1, 8 } },
			{ .data = &at, .dtype = STX_I64, .rank = 1, .sizes = { 1 } },
		}, out[2] = { 0 };
		int own = cases[k / 2].own, gives = k % 2 || own;
		for (int i = 0; i < 16; i++)
			fresh[i] = (float)(i + 1);
		for (int i = 0; i < 3; i++)
			compiled_dense(&in[i]);
		snprintf(text, sizeof text,
			 "%%c : f32[2,64,8] = placeholder()\n%%n : f32[2,1,8] = placeholder()\n"
			 "%%p : i64[1] = placeholder()\n%s",
			 cases[k / 2].text);
		if (compiled_build(text, compiled_targets()[0], COMPILED_FUSED, &c, &d))
			fail_msg("%s: %s", text, d.text);
		assert_int_equal(stax_noutputs(c.artifact), 2);
		assert_int_equal(stax_query(c.artifact, in, 3, out, NULL, &err), 0);
		compiled_dense(&out[0]);
		out[0].data = gives ? given : NULL;
		out[1].data = NULL;
		if (compiled_call(&c, in, 3, out, 2, &err))
			fail_msg("%s: %s", text, err.text);
		assert_ptr_equal(out[0].data, gives ? given : cache);
		assert_ptr_equal(out[1].data, cache);
		for (int i = 0; i < 2 * 64 * 8; i++)
			assert_true(cache[i] == (i / 8 % 64 == 3 ? fresh[i / 512 * 8 + i % 8] : 0));
		if (gives)
			assert_memory_equal(given, cache, sizeof given);
		if ((int)c.bytes_written != cases[k / 2].written)
			fail_msg("%s: %d bytes are written", text, (int)c.bytes_written);
		compiled_free(&c);
	}
}

/* x.add_(1) writes into x's memory at once; what reads x elsewhere too goes through a temporary. */
static void test_in_place_own_elements_need_no_temporary(void **state)
{
	static const struct {
		const char *text;
		int matrices;  /* written, of 16 elements */
		float want[3]; /* x[0][0], x[0][1], x[3][2] of x = 0, 1, .. 15 */
	} cases[] = {
		{ "%y = add_.Scalar(%x, 1)\n%z = mul_.Tensor(%x, %x)\n", 1, { 1, 4, 225 } },
		{ "%q = cumsum.default(%x, 0)\n%y = add_.Scalar(%x, 1)\n%z = mul_.Tensor(%x, %q)\n",
		  2,
		  { 0, 2, 480 } },
		{ "%t = t.default(%x)\n%y = add_.Tensor(%x, %t)\n", 2, { 0, 5, 25 } },
		{ "%f = flip.default(%x, [1])\n%y = sub_.Tensor(%x, %f)\n", 2, { -3, -1, 1 } },
	};
	(void)state;
	for (size_t k = 0; k < N(cases); k++) {
		float x[16], w[2] = { 3, 4 }, room[2];
		char text[400];
		struct compiled c;
		struct stx_diag d = { 0 };
		struct stax_error err;
		struct stx_tensor in[2] = {
			{ .data = x, .dtype = STX_F32, .rank = 2, .sizes = { 4, 4 } },
			{ .data = w, .dtype = STX_F32, .rank = 1, .sizes = { 2 } },
		}, out[2] = { 0 };
		for (int i = 0; i < 16; i++)
			x[i] = (float)i;
		snprintf(text, sizeof text,
			 "%%x : f32[4,4] = placeholder()\n%%w : f32[2] = placeholder()\n%s"
			 "%%r = neg.default(%%w)\nreturn (%%r,)\n",
			 cases[k].text);
		compiled_dense(&in[0]);
		compiled_dense(&in[1]);
		if (compiled_build(text, compiled_targets()[0], COMPILED_FUSED, &c, &d))
			fail_msg("case %zu: %s", k, d.text);
		assert_int_equal(stax_query(c.artifact, in, 2, out, NULL, &err), 0);
		compiled_dense(&out[0]);
		out[0].data = room;
		if (compiled_call(&c, in, 2, out, 2, &err))
			fail_msg("case %zu: %s", k, err.text);
		assert_true(x[0] == cases[k].want[0] && x[1] == cases[k].want[1] &&
			    x[14] == cases[k].want[2] && room[1] == -4);
		assert_int_equal(c.bytes_written, cases[k].matrices * 64 + 8);
		compiled_free(&c);
	}
}

/* What updates an input's memory through a flip or a permutation of it, and is then what the input
 * holds, is not in its memory already: there it lies flipped. */
static void test_in_place_flipped_updates_are_put_in_order(void **state)
{
	static const struct {
		const char *text;
		float want[9];
	} cases[] = {
		{ "%x : f32[3,3] = placeholder()\n%v : f32[1,3] = placeholder()\n"
		  "%f = flip.default(%x, [0])\n%w = slice_scatter.default(%f, %v, 0, 0, 1)\n"
		  "%c = copy_.default(%x, %w)\nreturn (%v,)\n",
		  { 10, 11, 12, 3, 4, 5, 0, 1, 2 } },
		{ "%x : f32[3,3] = placeholder()\n%v : f32[1,3] = placeholder()\n"
		  "%f = permute.default(%x, [1,0])\n%w = slice_scatter.default(%f, %v, 0, 0, 1)\n"
		  "%c = copy_.default(%x, %w)\nreturn (%v,)\n",
		  { 10, 11, 12, 1, 4, 7, 2, 5, 8 } },
		{ "%x : f32[3,3] = placeholder()\n%v : f32[1,3] = placeholder()\n"
		  "%i : i64[1] = constant([2])\n%f = flip.default(%x, [0,1])\n"
		  "%w = index_put.default(%f, [%i], %v)\n"
		  "%c = copy_.default(%x, %w)\nreturn (%v,)\n",
		  { 8, 7, 6, 5, 4, 3, 10, 11, 12 } },
	};
	(void)state;
	for (size_t k = 0; k < N(cases); k++)
		for (int form = COMPILED_FUSED; form <= COMPILED_UNFUSED; form++) {
			float x[9], v[3] = { 10, 11, 12 }, same[3];
			struct compiled c;
			struct stx_diag d = { 0 };
			struct stax_error err;
			struct stx_tensor in[2] = {
				{ .data = x, .dtype = STX_F32, .rank = 2, .sizes = { 3, 3 } },
				{ .data = v, .dtype = STX_F32, .rank = 2, .sizes = { 1, 3 } },
			}, out[2] = { 0 };
			for (int i = 0; i < 9; i++)
				x[i] = (float)i;
			compiled_dense(&in[0]);
			compiled_dense(&in[1]);
			if (compiled_build(cases[k].text, compiled_targets()[0],
					   (enum compiled_form)form, &c, &d))
				fail_msg("%s", d.text);
			assert_int_equal(stax_query(c.artifact, in, 2, out, NULL, &err), 0);
			compiled_dense(&out[0]);
			out[0].data = same;
			if (compiled_call(&c, in, 2, out, 2, &err))
				fail_msg("%s", err.text);
			for (int i = 0; i < 9; i++)
				if (x[i] != cases[k].want[i])
					fail_msg("case %zu, form %d: element %d is %g", k, form, i,
						 (double)x[i]);
			compiled_free(&c);
		}
}

/* Views that the random programs do not have. */
static void test_in_place_through_rarer_views(void **state)
{
	static const struct {
		const char *text;
		float want[4];
	} cases[] = {
		{ "%x : f32[2,2] = placeholder()\n%u = unbind.int(%x, 1)\n"
		  "%a = add_.Tensor(%u:1, %u)\nreturn (%a,)\n",
		  { 1, 3, 3, 7 } },
		{ "%x : f32[2,2] = placeholder()\n%u = split_with_sizes.default(%x, [1,1], -2)\n"
		  "%a = mul_.Scalar(%u:1, 2.0)\nreturn (%a,)\n",
		  { 1, 2, 6, 8 } },
		{ "%x : f32[2,2] = placeholder()\n%s = slice.Tensor(%x, 0, 1)\n"
		  "%q = squeeze.dims(%s, [0])\n%d = detach.default(%q)\n%e = alias.default(%d)\n"
		  "%a = fill_.Scalar(%e, 9.0)\nreturn (%q,)\n",
		  { 1, 2, 9, 9 } },
		{ "%x : f32[2,2] = placeholder()\n%f = flatten.using_ints(%x)\n"
		  "%s = slice.Tensor(%f, 0, -1, 9223372036854775807)\n%a = relu_.default(%s)\n"
		  "%m = mul_.Scalar(%f, -1.0)\n%b = relu_.default(%s)\nreturn (%s,)\n",
		  { -1, -2, -3, 0 } },
		{ "%x : f32[2,2] = placeholder()\n%i = view.dtype(%x, i32)\n"
		  "%d = diagonal.default(%i)\n%a = add_.Scalar(%d, 8388608)\nreturn (%a,)\n",
		  { 2, 2, 3, 8 } }, /* the exponent is one more */
		{ "%x : f32[2,2] = placeholder()\n%t = transpose.int(%x, 0, 1)\n"
		  "%u = unsqueeze.default(%t, 1)\n%e = expand.default(%u, [2,1,2])\n"
		  "%s = select.int(%e, 0, -2)\n%a = mul_.Scalar(%s, 0.5)\nreturn (%a,)\n",
		  { 0.5, 2, 1.5, 4 } },
	};
	(void)state;
	for (size_t k = 0; k < N(cases); k++) {
		float x[4] = { 1, 2, 3, 4 }, room[4];
		struct compiled c;
		struct stx_diag d = { 0 };
		struct stax_error err;
		struct stx_tensor in = {
			.data = x, .dtype = STX_F32, .rank = 2, .sizes = { 2, 2 }
		};
		struct stx_tensor out[2] = { 0 };
		compiled_dense(&in);
		if (compiled_build(cases[k].text, compiled_targets()[0], COMPILED_FUSED, &c, &d))
			fail_msg("case %zu: %s", k, d.text);
		assert_int_equal(stax_query(c.artifact, &in, 1, out, NULL, &err), 0);
		compiled_dense(&out[0]);
		out[0].data = room;
		if (compiled_call(&c, &in, 1, out, 2, &err))
			fail_msg("case %zu: %s", k, err.text);
		for (int i = 0; i < 4; i++)
			if (!same(x[i], cases[k].want[i]))
				fail_msg("case %zu: element %d is %g", k, i, (double)x[i]);
		compiled_free(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_place_errors_name_the_node),
		cmocka_unit_test(test_in_place_cache_update_does_not_copy),
		cmocka_unit_test(test_in_place_returned_input_is_the_input),
		cmocka_unit_test(test_in_place_own_elements_need_no_temporary),
		cmocka_unit_test(test_in_place_through_rarer_views),
		cmocka_unit_test(test_in_place_flipped_updates_are_put_in_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
