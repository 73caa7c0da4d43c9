/* test_convolution.c: convolutions through cuDNN, without a GPU: a driver and a library that compute
 * on the host (tests/fake). Graphs of descriptors, layouts and fallback are compared with the oracle
 * over random shapes, types and strides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cudnn.h"
#include "tune_case.h"

static struct fake_convolution *last_conv(void)
{
	return &dnn->call[(dnn->calls - 1) % FAKE_MAX_CALLS];
}

static const char *const types[] = { "f32", "f64", "f16", "bf16" };

struct drawn {
	int64_t n, groups, c, m, in[3], tap[3], out[3], stride[3], padding[3], dilation[3];
	int64_t more[3]; /* output padding */
	int k, is_transposed;
};

static int64_t work_of(const struct drawn *q)
{
	int64_t work = q->n * q->groups * q->c * q->m;
	for (int i = 0; i < q->k; i++)
		work *= q->out[i] * q->tap[i];
	return work;
}

/* A convolution that is enough work for a call. */
static void draw(struct drawn *q)
{
	int ok;
	do {
		*q = (struct drawn){ .n = 1 + below(3), .groups = below(3) ? 1 : 1 + below(4) };
		q->k = 1 + (int)below(3);
		q->c = below(4) ? 1 + below(24) : 1;
		q->m = below(4) ? 1 + below(24) : 1;
		ok = 1;
		for (int i = 0; i < q->k; i++) {
			q->in[i] = 1 + below(q->k == 1 ? 400 : q->k == 2 ? 30 : 10);
			q->tap[i] = 1 + below(4);
			q->stride[i] = 1 + below(3);
			q->padding[i] = below(3);
			q->dilation[i] = 1 + below(2);
			int64_t room =
				q->in[i] + 2 * q->padding[i] - q->dilation[i] * (q->tap[i] - 1) - 1;
			ok = ok && room >= 0;
			q->out[i] = room / q->stride[i] + 1;
		}
	} while (!ok || work_of(q) < 1 << 18 || work_of(q) > 1 << 19);
}

/* A tensor [a, b, spatial..] that lies in memory in one of several ways; its last line defines
 * %NAME. */
static void put_operand(struct stx_bytes *b, const char *name, const char *type, int k,
			const int64_t *size)
{
	int64_t stride[5], next = 1, wide = size[1 + k] + 3;
	switch (below(4)) {
	case 0: /* channels next to each other */
		stride[1] = 1;
		next = size[1];
		for (int i = 1 + k; i > 1; i--) {
			stride[i] = next;
			next *= size[i];
		}
		stride[0] = next;
		stx_bytes_printf(b, "%%%s : %s[", name, type);
		for (int i = 0; i < 2 + k; i++)
			stx_bytes_printf(b, "%s%lld", i ? "," : "", (long long)size[i]);
		stx_bytes_puts(b, "] = placeholder(strides=[");
		for (int i = 0; i < 2 + k; i++)
			stx_bytes_printf(b, "%s%lld", i ? "," : "", (long long)stride[i]);
		stx_bytes_puts(b, "])\n");
		return;
	case 1: /* rows longer than the tensor, from their third element on */
		stx_bytes_printf(b, "%%%s0 : %s[", name, type);
		for (int i = 0; i < 2 + k; i++)
			stx_bytes_printf(b, "%s%lld", i ? "," : "",
					 (long long)(i == 1 + k ? wide : size[i]));
		stx_bytes_printf(b,
				 "] = placeholder()\n%%%s = slice.Tensor(%%%s0, -1, 2, %lld, 1)\n",
				 name, name, (long long)size[1 + k] + 2);
		return;
	default:
		stx_bytes_printf(b, "%%%s : %s[", name, type);
		for (int i = 0; i < 2 + k; i++)
			stx_bytes_printf(b, "%s%lld", i ? "," : "", (long long)size[i]);
		stx_bytes_puts(b, "] = placeholder()\n");
	}
}

static void put_list(struct stx_bytes *b, const int64_t *v, int k)
{
	for (int i = 0; i < k; i++)
		stx_bytes_printf(b, "%s%lld", i ? "," : "", (long long)v[i]);
}

static void put_convolution(struct stx_bytes *b, const struct drawn *q, const char *type,
			    int has_bias)
{
	int64_t x[5] = { q->n, q->groups * q->c }, w[5] = { q->groups * q->m, q->c };
	if (q->is_transposed) {
		w[0] = q->groups * q->c;
		w[1] = q->m;
	}
	memcpy(x + 2, q->in, sizeof q->in);
	memcpy(w + 2, q->tap, sizeof q->tap);
	put_operand(b, "x", type, q->k, x);
	put_operand(b, "w", type, q->k, w);
	if (has_bias)
		stx_bytes_printf(b, "%%b : %s[%lld] = placeholder()\n", type,
				 (long long)(q->groups * q->m));
	stx_bytes_printf(b, "%%y = convolution.default(%%x, %%w, %s, [", has_bias ? "%b" : "None");
	put_list(b, q->stride, q->k);
	stx_bytes_puts(b, "], [");
	put_list(b, q->padding, q->k);
	stx_bytes_puts(b, "], [");
	put_list(b, q->dilation, q->k);
	stx_bytes_printf(b, "], %s, [", q->is_transposed ? "True" : "False");
	put_list(b, q->more, q->k);
	stx_bytes_printf(b, "], %lld)\n", (long long)q->groups);
}

/* ---- tests ---- */

static void test_convolution_random_ones_are_calls_and_agree_with_the_oracle(void **state)
{
	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	for (int i = 0; i < 40; i++) {
		struct stx_bytes b = { 0 };
		struct drawn q;
		draw(&q);
		put_convolution(&b, &q, types[below(4)], 0);
		stx_bytes_puts(&b, "return (%y,)\n");
		struct counts c = check(stx_bytes_cstr(&b));
		if (c.calls != 1 || c.launches != 0)
			fail_msg("%d calls, %d launches for\n%s", (int)c.calls, (int)c.launches,
				 stx_bytes_cstr(&b));
		assert_int_equal(last_conv()->bias.rank, 0);
		stx_bytes_free(&b);
	}
	assert_int_equal(dnn->alive, 0);
}

static void test_convolution_random_biases_and_what_follows_agree(void **state)
{
	(void)state;
	for (int i = 0; i < 24; i++) {
		struct stx_bytes b = { 0 };
		struct drawn q;
		int follows = (int)below(3), t = (int)below(4);
		draw(&q);
		put_convolution(&b, &q, types[t], 1);
		if (follows)
			stx_bytes_puts(&b, "%r = relu.default(%y)\n");
		stx_bytes_puts(&b, follows == 2   ? "return (%r, %y)\n"
				   : follows == 1 ? "return (%r,)\n"
						  : "return (%y,)\n");
		struct counts c = check(stx_bytes_cstr(&b));
		if (c.calls != 1)
			fail_msg("no call for\n%s", stx_bytes_cstr(&b));
		/* of halves the call makes the one rounding, after the bias */
		int with = t >= 2 || (t == 0 && follows != 1);
		if ((last_conv()->bias.rank != 0) != with ||
		    c.launches != (uint64_t)(!with || follows != 0))
			fail_msg("bias %d, %d launches for\n%s", last_conv()->bias.rank,
				 (int)c.launches, stx_bytes_cstr(&b));
		stx_bytes_free(&b);
	}
	assert_int_equal(dnn->alive, 0);
}

static int64_t steps_of(const struct drawn *q)
{
	int64_t n = 1;
	for (int i = 0; i < q->k; i++)
		n *= q->in[i] * q->tap[i];
	return n;
}

/* A transposed one; output padding that is less than the stride or the dilation. */
static void draw_transposed(struct drawn *q)
{
	int ok;
	do {
		draw(q);
		q->is_transposed = ok = 1;
		for (int i = 0; i < q->k; i++) {
			int64_t most =
				q->stride[i] > q->dilation[i] ? q->stride[i] : q->dilation[i];
			int64_t span = q->dilation[i] * (q->tap[i] - 1);
			q->in[i] = 1 + below(q->k == 1 ? 300 : q->k == 2 ? 20 : 7);
			q->more[i] = below(2) ? below((uint32_t)most) : 0;
			q->out[i] = (q->in[i] - 1) * q->stride[i] - 2 * q->padding[i] + span +
				    q->more[i] + 1;
			/* the library has no results that no element of x reaches; a dimension of
			 * one result, or whose quotients need no mask, may have lost its place */
			ok = ok &&
			     (q->padding[i] < span || q->dilation[i] % q->stride[i] ||
			      q->stride[i] == 1) &&
			     q->out[i] > 1 && q->in[i] > 1 && q->padding[i] <= span &&
			     q->more[i] < q->stride[i] + q->padding[i];
		}
	} while (!ok || work_of(q) < 1 << 18 ||
		 q->n * q->groups * q->c * q->m * steps_of(q) > 1 << 19);
}

static int is_pointwise(const struct drawn *q)
{
	int one = 1;
	for (int i = 0; i < q->k; i++)
		one = one && q->tap[i] == 1 && q->stride[i] == 1;
	return one;
}

static void test_convolution_random_transposed_ones_are_calls_and_agree(void **state)
{
	(void)state;
	for (int i = 0; i < 40; i++) {
		struct stx_bytes b = { 0 };
		struct drawn q;
		int t = (int)below(4), has_bias = (int)below(2);
		do
			draw_transposed(&q);
		while (is_pointwise(&q)); /* which is an ordinary one */
		put_convolution(&b, &q, types[t], has_bias);
		stx_bytes_puts(&b, "return (%y,)\n");
		struct counts c = check(stx_bytes_cstr(&b));
		if (c.calls != 1 || c.launches != (uint64_t)(has_bias && t < 2))
			fail_msg("%d calls, %d launches for\n%s", (int)c.calls, (int)c.launches,
				 stx_bytes_cstr(&b));
		assert_true(last_conv()->is_gradient);
		assert_int_equal(last_conv()->bias.rank != 0, has_bias && t >= 2);
		stx_bytes_free(&b);
	}
	assert_int_equal(dnn->alive, 0);
}

/* What is read at quotients that need not be whole (an image enlarged, then convolved) and what has
 * results that nothing reaches are none. */
static void test_convolution_that_is_not_quite_transposed_is_a_kernel(void **state)
{
	(void)state;
	static const char *const graphs[] = {
		"%x : f32[2,16,20,20] = placeholder()\n%w : f32[16,16,3,3] = placeholder()\n"
		"%u = upsample_nearest2d.vec(%x, None, [2.0, 2.0])\n"
		"%y = convolution.default(%u, %w, None, [1,1], [1,1], [1,1], False, [0,0], 1)\n"
		"return (%y,)\n",
		"%x : f32[2,16,20,20] = placeholder()\n%w : f32[16,16,3,3] = placeholder()\n"
		"%y = convolution.default(%x, %w, None, [1,1], [0,0], [3,3], True, [2,2], 1)\n"
		"return (%y,)\n",
	};
	for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
		uint32_t calls = dnn->calls;
		check(graphs[i]);
		if (dnn->calls != calls && last_conv()->is_gradient)
			fail_msg("a call for\n%s", graphs[i]);
	}
}

/* What the library is told of a 3x3 convolution, and that halves lie with their channels last
 * between convolutions. */
static void test_convolution_halves_between_layers_have_channels_last(void **state)
{
	(void)state;
	struct counts c =
		check("%x : f16[2,16,24,24] = placeholder()\n"
		      "%w : f16[16,16,3,3] = placeholder()\n%b : f16[16] = placeholder()\n"
		      "%y = convolution.default(%x, %w, %b, [1,1], [1,1], [1,1], False, [0,0], 1)\n"
		      "%r = relu.default(%y)\n"
		      "%z = convolution.default(%r, %w, %b, [2,2], [1,1], [1,1], False, [0,0], 1)\n"
		      "%s = relu.default(%z)\n"
		      "return (%s,)\n");
	assert_int_equal(c.calls, 2);
	assert_int_equal(c.launches, 2);
	const struct fake_convolution *second = last_conv(), *first = second - 1;
	assert_int_equal(first->x.stride[1], 576);
	assert_int_equal(first->y.stride[1], 1);
	assert_int_equal(first->y.stride[3], 16);
	assert_int_equal(second->x.stride[1], 1);
	assert_int_equal(second->y.stride[1], 1);
	assert_int_equal(second->x.type, 2); /* CUDNN_DATA_HALF */
	assert_int_equal(second->accumulate, 0);
	assert_int_equal(second->stride[0], 2);
	assert_int_equal(second->before[1], 1);
	assert_int_equal(second->x.alignment, 16);
}

/* The sums of a transposed one are rounded after the bias too, and lie with their channels last. */
static void test_convolution_transposed_halves_between_layers_have_channels_last(void **state)
{
	(void)state;
	struct counts c =
		check("%x : f16[2,16,12,12] = placeholder()\n"
		      "%w : f16[16,16,3,3] = placeholder()\n%b : f16[16] = placeholder()\n"
		      "%y = convolution.default(%x, %w, %b, [2,2], [1,1], [1,1], True, [1,1], 1)\n"
		      "%r = relu.default(%y)\nreturn (%r,)\n");
	assert_int_equal(c.calls, 1);
	assert_int_equal(c.launches, 1);
	assert_int_equal(last_conv()->bias.rank, 4);
	assert_int_equal(last_conv()->y.stride[1], 1);
}

/* Few channels of halves are padded with zeros, to what tensor cores load at once; in the library's
 * memory only: the kernel sums those there are. Of f32, and small ones, they are not. */
static void test_convolution_few_channels_of_halves_get_zeros_beside_them(void **state)
{
	(void)state;
	static const struct {
		const char *type;
		int n, c, with;
		int padded;
	} all[] = {
		{ "f16", 4, 3, 0, 4 },
		{ "bf16", 3, 5, 1, 8 },
		{ "f32", 4, 3, 0, 3 },
		{ "f16", 1, 3, 0, 3 },
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		char text[512];
		int size = 40, m = 30;
		snprintf(text, sizeof text,
			 "%%x : %s[%d,%d,%d,%d] = placeholder()\n%%w : %s[%d,%d,5,3] = "
			 "placeholder()\n%%b : %s[%d] = placeholder()\n"
			 "%%y = convolution.default(%%x, %%w, %s, [2,1], [2,1], [1,1], False, "
			 "[0,0], 1)\nreturn (%%y,)\n",
			 all[i].type, all[i].n, all[i].c, size, size, all[i].type, m, all[i].c,
			 all[i].type, m, all[i].with ? "%b" : "None");
		struct counts c = check(text);
		assert_int_equal(c.calls, 1);
		assert_int_equal(c.launches, all[i].padded == all[i].c ? 0 : 2);
		assert_int_equal(last_conv()->x.size[1], all[i].padded);
		assert_int_equal(last_conv()->w.size[1], all[i].padded);
		if (all[i].padded != all[i].c)
			assert_int_equal(last_conv()->x.stride[3], all[i].padded);
		dnn->offered = i ? 3 : 0;
		if (!i)
			assert_int_equal(check(text).launches, 3);
		dnn->offered = 3;
	}
}

/* A 1x1 convolution with a stride reads the whole input, not the part that its last step ends at. */
static void test_convolution_unpadded_input_is_what_lies_in_memory(void **state)
{
	(void)state;
	struct counts c = check(
		"%x : f32[2,32,28,28] = placeholder()\n"
		"%w : f32[64,32,1,1] = placeholder()\n"
		"%y = convolution.default(%x, %w, None, [2,2], [0,0], [1,1], False, [0,0], 1)\n"
		"return (%y,)\n");
	assert_int_equal(c.calls, 1);
	assert_int_equal(last_conv()->x.size[2], 28);
	assert_int_equal(last_conv()->x.stride[2], 28);
	assert_int_equal(last_conv()->stride[0], 2);
}

static void test_convolution_that_the_library_cannot_make_is_a_kernel(void **state)
{
	(void)state;
	static const char *const graphs[] = {
		/* small */
		"%x : f32[1,4,8,8] = placeholder()\n%w : f32[4,4,3,3] = placeholder()\n"
		"%y = convolution.default(%x, %w, None, [1,1], [1,1], [1,1], False, [0,0], 1)\n"
		"return (%y,)\n",
		/* one row for all */
		"%x : f32[2,16,32,32] = placeholder(strides=[512,32,0,1])\n"
		"%w : f32[16,16,3,3] = placeholder()\n"
		"%y = convolution.default(%x, %w, None, [1,1], [1,1], [1,1], False, [0,0], 1)\n"
		"return (%y,)\n",
		/* integers */
		"%x : i32[2,16,32,32] = placeholder()\n%w : i32[16,16,3,3] = placeholder()\n"
		"%y = convolution.default(%x, %w, None, [1,1], [1,1], [1,1], False, [0,0], 1)\n"
		"return (%y,)\n",
	};
	for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
		struct counts c = check(graphs[i]);
		assert_int_equal(c.calls, 0);
		assert_int_equal(c.launches, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_convolution_random_ones_are_calls_and_agree_with_the_oracle),
		cmocka_unit_test(test_convolution_random_biases_and_what_follows_agree),
		cmocka_unit_test(test_convolution_random_transposed_ones_are_calls_and_agree),
		cmocka_unit_test(test_convolution_that_is_not_quite_transposed_is_a_kernel),
		cmocka_unit_test(test_convolution_halves_between_layers_have_channels_last),
		cmocka_unit_test(
			test_convolution_transposed_halves_between_layers_have_channels_last),
		cmocka_unit_test(test_convolution_few_channels_of_halves_get_zeros_beside_them),
		cmocka_unit_test(test_convolution_unpadded_input_is_what_lies_in_memory),
		cmocka_unit_test(test_convolution_that_the_library_cannot_make_is_a_kernel),
	};
	return cmocka_run_group_tests(tests, calls_setup, NULL);
}
