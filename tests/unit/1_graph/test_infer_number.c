/* test_infer_number.c: numbers that an integer tensor's type cannot hold: wrapped where that gives
 * the number's own result, refused everywhere else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "compile.h"
#include "graph_gen.h"
#include "import.h"

#define INPUTS                                                                                     \
	"%i8 : i8[2] = placeholder()\n%u8 : u8[2] = placeholder()\n"                               \
	"%i32 : i32[2] = placeholder()\n%u64 : u64[2] = placeholder()\n"                           \
	"%i64 : i64[2] = placeholder()\n%p : bool[2] = placeholder()\n"                            \
	"%h : f16[2] = placeholder()\n"

static const char *error_of(struct stx_arena *a, const char *line)
{
	return gen_error(a, stx_arena_printf(a, "%s%%r = %s\nreturn (%%r,)", INPUTS, line));
}

static void test_infer_number_outside_the_type_is_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"gt.Scalar(%i8, 200)",
		"lt.Scalar(%i8, -129)",
		"eq.Scalar(%u8, -1)",
		"ne.Scalar(%u8, 256)",
		"ge.Scalar(%u64, -1)",
		"le.Scalar(%i32, 2147483648)",
		"clamp.default(%i8, -1000, 1000)",
		"clamp.default(%u8, -5)",
		"clamp.default(%i8, None, 128)",
		"fmod.Scalar(%i8, 200)",
		"fmod.Scalar(%u8, -1)",
		"remainder.Scalar(%u8, 300)",
		"pow.Tensor_Scalar(%i8, 200)",
		"full.default([2], 128, dtype=i8)",
		"full.default([2], 300.5, dtype=u8)",
		"full.default([2], -256, dtype=u8)",
		"full.default([2], nan, dtype=i32)",
		"full.default([2], inf, dtype=i64)",
		"full.default([2], 9223372036854775808.0, dtype=i64)",
		"full_like.default(%i8, 200)",
		"full_like.default(%h, 2147483648, dtype=i32)",
		"constant_pad_nd.default(%i8, [1, 1], -129)",
	};
	struct stx_arena *a = stx_arena_new(0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		const char *e = error_of(a, bad[i]);
		if (!e)
			fail_msg("accepted: %s", bad[i]);
		if (!strstr(e, "does not fit") || !strstr(e, "convert the tensor"))
			fail_msg("%s: %s", bad[i], e);
	}
	const char *e = error_of(a, bad[0]);
	assert_non_null(strstr(e, "gt.Scalar: the number 200 does not fit i8 (-128 to 127)"));
	stx_arena_free(a);
}

static void test_infer_number_at_the_edge_or_wrapping_is_taken(void **state)
{
	(void)state;
	static const char *const good[] = {
		"gt.Scalar(%i8, 127)",
		"gt.Scalar(%i8, -128)",
		"eq.Scalar(%u8, 255)",
		"le.Scalar(%i32, 2147483647)",
		"ge.Scalar(%i64, -9223372036854775808)",
		"lt.Scalar(%u64, 9223372036854775807)",
		"gt.Scalar(%p, 200)",
		"gt.Scalar(%i8, 200.0)",
		"gt.Scalar(%h, 70000)",
		"clamp.default(%i8, -128, 127)",
		"clamp.default(%i8, -1000.0, 1000.0)",
		"add.Scalar(%i8, 200)",
		"sub.Scalar(%u8, -1)",
		"rsub.Scalar(%i8, 1000)",
		"mul.Scalar(%i8, 1000)",
		"div.Scalar(%i8, 200)",
		"add.Scalar(%i8, 1, 300)",
		"add.Tensor(%u8, %u8, alpha=-1)",
		"full.default([2], -1, dtype=u8)",
		"full.default([2], 255.9, dtype=u8)",
		"full.default([2], -128.5, dtype=i8)",
		"full.default([2], 7, dtype=bool)",
		"full_like.default(%u64, -1)",
		"constant_pad_nd.default(%u8, [1, 1], -1)",
	};
	struct stx_arena *a = stx_arena_new(0);
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		const char *e = error_of(a, good[i]);
		if (e)
			fail_msg("%s: %s", good[i], e);
	}
	stx_arena_free(a);
}

/* The oracle's result of one line on i8 {-100, 100}; PyTorch 2 gives the same. */
static void expect_i8(const char *line, const char *type, const int8_t want[2])
{
	int8_t x[2] = { -100, 100 };
	struct stx_arena *a = stx_arena_new(0);
	const char *text = stx_arena_printf(
		a, "%%x : i8[2] = placeholder()\n%%r : %s = %s\nreturn (%%r,)\n", type, line);
	struct stx_source s = { .format = STX_FORMAT_TEXT,
				.body = { (const uint8_t *)text, strlen(text) } };
	struct stx_tensor in = {
		.data = x, .dtype = STX_I8, .rank = 1, .sizes = { 2 }, .strides = { 1 }
	};
	struct stx_tensor out = { 0 };
	struct stx_diag d = { 0 };
	uint32_t n = 1;
	if (stx_compile_reference(&s, &in, 1, &out, &n, &d))
		fail_msg("%s: %s", line, d.text);
	assert_memory_equal(out.data, want, 2);
	free(out.data);
	stx_arena_free(a);
}

static void test_infer_number_wraps_with_the_result(void **state)
{
	(void)state;
	expect_i8("add.Scalar(%x, 200)", "i8[2]", (const int8_t[]){ 100, 44 });
	expect_i8("sub.Scalar(%x, 200)", "i8[2]", (const int8_t[]){ -44, -100 });
	expect_i8("rsub.Scalar(%x, 200)", "i8[2]", (const int8_t[]){ 44, 100 });
	expect_i8("mul.Scalar(%x, 1000)", "i8[2]", (const int8_t[]){ 96, -96 });
	expect_i8("add.Tensor(%x, %x, alpha=300)", "i8[2]", (const int8_t[]){ 108, -108 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_infer_number_outside_the_type_is_refused),
		cmocka_unit_test(test_infer_number_at_the_edge_or_wrapping_is_taken),
		cmocka_unit_test(test_infer_number_wraps_with_the_result),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
