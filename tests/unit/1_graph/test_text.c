/* test_text.c: the text form: round trips, lossless numbers, places of errors, hostile input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "graph_gen.h"
#include "passes.h"

/* OG-07 as a property over the whole op table. */
static void test_text_random_graphs_round_trip(void **state)
{
	(void)state;
	uint8_t used[STX_OP_COUNT] = { 0 };
	for (uint64_t first = 1; first <= 200; first++) {
		uint64_t seed = first * 0x2545f4914f6cdd1du;
		struct stx_arena *a = stx_arena_new(0);
		struct stx_graph *g = gen_random(a, &seed, 40), *h;
		const char *x = gen_print(a, g);
		h = gen_parse(a, x);
		if (strcmp(x, gen_print(a, h))) {
			print_message("seed %llu\n%s\n%s", (unsigned long long)first, x,
				      gen_print(a, h));
			fail();
		}
		assert_int_equal(g->nodes.n, h->nodes.n);
		for (uint32_t i = 0; i < g->nodes.n; i++)
			used[g->nodes.at[i]->op] = 1;
		stx_arena_free(a);
	}
	int n = 0;
	for (int i = 0; i < STX_OP_COUNT; i++)
		n += used[i];
	assert_true(n > STX_OP_COUNT * 9 / 10); /* the generator reaches nearly every operator */
}

/* Floats are lossless: the sign of zero, infinities, NaN payloads, subnormals, shortest decimals.
 */
static void test_text_floats_lossless(void **state)
{
	(void)state;
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "0.1", "0.1" },
		{ "-0.0", "-0.0" },
		{ "1e300", "1e+300" },
		{ "5e-324", "4.94065645841247e-324" },
		{ "inf", "inf" },
		{ "-inf", "-inf" },
		{ "nan", "nan" },
		{ "-nan", "nan(0xfff8000000000000)" },
		{ "nan(0x7ff8000000000123)", "nan(0x7ff8000000000123)" },
		{ "nan(0xfff0000000000001)", "nan(0xfff0000000000001)" },
		{ "0.30000000000000004", "0.30000000000000004" },
		{ "3.0", "3.0" },
		{ "3", "3" },
		{ "-9223372036854775808", "-9223372036854775808" },
		{ "1E2", "100.0" },
		{ "123456789012345680.0", "1.2345678901234568e+17" },
	};
	struct stx_arena *a = stx_arena_new(0);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const char *p = gen_print(
			a, gen_parse(a, stx_arena_printf(a,
							 "%%a : f32[1] = placeholder()\n"
							 "%%r = mul.Scalar(%%a, %s)\nreturn (%%r,)",
							 cases[i].in)));
		const char *want = stx_arena_printf(a, "mul.Scalar(%%a, %s)\n", cases[i].out);
		if (!strstr(p, want))
			fail_msg("%s: %s", cases[i].in, p);
		assert_string_equal(p, gen_print(a, gen_parse(a, p)));
	}
	uint64_t seed = 77;
	for (int i = 0; i < 2000; i++) { /* random bit patterns */
		uint64_t bits = gen_next(&seed), got;
		double v;
		memcpy(&v, &bits, 8);
		struct stx_graph *g = stx_graph_new(a);
		struct stx_node *x =
			stx_graph_input(g, NULL, stx_type_make(g, STX_F64, 0, NULL), NULL, 0, NULL);
		struct stx_arg args[] = { stx_arg_node(x), stx_arg_scalar_f(v) };
		struct stx_node *n = stx_graph_call(g, STX_OP_MUL_SCALAR, NULL, args, 2, NULL);
		stx_graph_output(g, stx_val(n, 0), NULL, NULL);
		struct stx_graph *h = gen_parse(a, gen_print(a, g));
		memcpy(&got, &h->nodes.at[1]->args[1].u.f, 8);
		assert_int_equal(got, bits);
	}
	stx_arena_free(a);
}

static void test_text_lists_of_numbers_round_trip(void **state)
{
	(void)state;
	static const char text[] =
		"%x : f32[1,1,4] [num_users=1] = placeholder()\n"
		"%y : f32[1,1,6] [num_users=1] = upsample_nearest1d.vec(%x, None, [1.7])\n"
		"return (%y,)\n";
	struct stx_arena *a = stx_arena_new(0);
	assert_string_equal(gen_print(a, gen_parse(a, text)), text);
	assert_string_equal(gen_error(a, "%x : f32[1,1,4] = placeholder()\n%y = "
					 "upsample_nearest1d.vec(%x, None, 2.0)\nreturn (%y,)\n"),
			    "2:39: expected '['");
	stx_arena_free(a);
}

static void test_text_constants_and_names(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	const char *p = gen_print(
		a,
		gen_parse(a, "# a comment\nsym n = [0,inf] hint 4 # another\n"
			     "%x : f32[n,3] = placeholder(strides=[6, 2], param=True)\n"
			     "%c : f32[2,2] = constant([1, -0.0, inf, nan])\n%b : bool[2] = "
			     "constant([True, 0])\n"
			     "%h : f16[1] = constant(hex='003C')\n%z : f32[0] = constant([])\n"
			     "%k : i64[2] = constant([-1, 1])\n%y = index.Tensor(%c, [None, %k])\n"
			     "return (%c as 'it\\'s \\x0a \\\\', %b, %h, %z, %y)"));
	assert_string_equal(
		p,
		"sym n = [0,inf] hint 4\n"
		"%x : f32[n,3] [num_users=0] = placeholder(strides=[6, 2], param=True)\n"
		"%c : f32[2,2] [num_users=2] = constant(hex='0000803f000000800000807f0000c07f')\n"
		"%b : bool[2] [num_users=1] = constant(hex='0100')\n%h : f16[1] [num_users=1] = "
		"constant(hex='003c')\n"
		"%z : f32[0] [num_users=1] = constant(hex='')\n"
		"%k : i64[2] [num_users=1] = constant(hex='ffffffffffffffff0100000000000000')\n"
		"%y : f32[2,2] [num_users=1] = index.Tensor(%c, [None, %k])\n"
		"return (%c as 'it\\'s \\x0a \\\\', %b, %h, %z, %y)\n");
	assert_string_equal(p, gen_print(a, gen_parse(a, p)));
	stx_arena_free(a);
}

static void test_text_errors_carry_line_and_column(void **state)
{
	(void)state;
	static const struct {
		const char *text, *error;
	} cases[] = {
		{ "", "1:1: the text ends without a return" },
		{ "%a : f32[2] = placeholder()\n  %a : f32[2] = placeholder()\n",
		  "2:3: %a is defined twice" },
		{ "%sum : f32[2] = placeholder()",
		  "1:1: 'sum' is a Python builtin or keyword; name it sum_0" },
		{ "%a : f33[2] = placeholder()", "1:6: 'f33' is not a dtype" },
		{ "%a : f32[2 = placeholder()", "1:12: expected ']'" },
		{ "%a = placeholder()", "1:1: a placeholder must state one type" },
		{ "%a : f32[2] = placeholder()\n%b = neg.default(%c)\nreturn (%b)",
		  "2:18: %c is not defined above" },
		{ "%a : f32[2] = placeholder()\n%b = neg.default(%a:1)\nreturn (%b)",
		  "2:18: %a has 1 results" },
		{ "%a : f32[2] [num_users=3] = placeholder()\nreturn (%a)",
		  "1:1: %a has 1 users, not 3" },
		{ "%a : f32[2] = placeholder()\nreturn (%a) x", "2:13: text after the return" },
		{ "%a : f32[2] = placeholder()\n%b = _fft_r2c.default(%a, [0], 0, True)\n",
		  "2:6: '_fft_r2c.default' is not supported: complex numbers are not among the "
		  "element types" },
		{ "%c : u8[1] = constant([256])\nreturn (%c)",
		  "1:24: the value does not fit in u8" },
		{ "%c : f32[2] = constant(hex='00')\nreturn (%c)",
		  "1:1: a constant of 1 bytes does not fill its type: it has 2 elements of 4 "
		  "bytes" },
		{ "%c : bool[1] = constant(hex='02')\nreturn (%c)",
		  "1:1: a bool element is neither 0 nor 1" },
		{ "sym n = [3,2] hint 2\n", "1:5: a symbol needs 0 <= low <= hint <= high" },
		{ "%a : f32[2] = placeholder()\n%b = mul.Scalar(%a, 99999999999999999999)\n",
		  "2:21: the integer does not fit in 64 bits" },
		{ "%a : f32[2] = placeholder()\n%b = gelu.default(%a, approximate='x\n",
		  "2:35: the string is not closed" },
	};
	struct stx_arena *a = stx_arena_new(0);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		assert_string_equal(gen_error(a, cases[i].text), cases[i].error);
	stx_arena_free(a);
}

/* Mutations of valid texts: parsed or refused, never a crash; what is accepted prints and parses
 * again. */
static void test_text_mutations_never_crash(void **state)
{
	(void)state;
	static const char alphabet[] =
		"%()[]=,:.'#-+*0123456789abcdefghijklmnopqrstuvwxyz_ \n\\\"\xff";
	uint64_t seed = 0x1234567;
	for (int round = 0; round < 60; round++) {
		struct stx_arena *a = stx_arena_new(0);
		const char *text = gen_print(a, gen_random(a, &seed, 12));
		size_t n = strlen(text);
		for (int k = 0; k < 100; k++) {
			struct stx_arena *b = stx_arena_new(8 << 20);
			char *m = malloc(2 * n + 64); /* exact end for the address sanitizer */
			size_t len = n;
			memcpy(m, text, n);
			for (int edits = 1 + (int)(gen_next(&seed) % 4); edits > 0 && len;
			     edits--) {
				size_t at = gen_next(&seed) % len,
				       cut = gen_next(&seed) % (len - at + 1) % 40;
				switch (gen_next(&seed) % 4) {
				case 0:
					m[at] = alphabet[gen_next(&seed) % (sizeof alphabet - 1)];
					break;
				case 1:
					memmove(m + at, m + at + cut, len - at - cut);
					len -= cut;
					break;
				case 2:
					if (len + cut <= 2 * n) {
						memmove(m + at + cut, m + at, len - at);
						len += cut;
					}
					break;
				default: len = at;
				}
			}
			char *exact = malloc(len ? len : 1);
			memcpy(exact, m, len);
			struct stx_graph *g, *c;
			struct stx_diag d = { 0 };
			stx_err e = stx_graph_parse(b, exact, len, &g, &d);
			if (!e && !stx_graph_verify(g, &d)) {
				assert_int_equal(stx_graph_canonical(g, b, &c, &d), 0);
				gen_parse(b, gen_print(b, g));
			} else if (e) {
				assert_true(d.code == e && d.location[0] && d.text[0]);
			}
			free(exact);
			free(m);
			stx_arena_free(b);
		}
		stx_arena_free(a);
	}
}

/* Deep nesting and long tokens are refused in flat memory, not by the stack. */
static void test_text_nesting_refused(void **state)
{
	(void)state;
	static const char *const openers[] = { "(", "[", "min(", "-", "n//(", "'", "%", "0x" };
	for (size_t i = 0; i < sizeof openers / sizeof openers[0]; i++) {
		struct stx_arena *a = stx_arena_new(256 << 20);
		struct stx_bytes b = { 0 };
		stx_bytes_puts(&b, "sym n = [1,9] hint 3\n%a : f32[");
		for (int k = 0; k < 200000; k++)
			stx_bytes_puts(&b, openers[i]);
		struct stx_graph *g;
		struct stx_diag d = { 0 };
		assert_int_not_equal(stx_graph_parse(a, (char *)b.at, b.n, &g, &d), 0);
		stx_bytes_free(&b);
		stx_arena_free(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text_random_graphs_round_trip),
		cmocka_unit_test(test_text_floats_lossless),
		cmocka_unit_test(test_text_lists_of_numbers_round_trip),
		cmocka_unit_test(test_text_constants_and_names),
		cmocka_unit_test(test_text_errors_carry_line_and_column),
		cmocka_unit_test(test_text_mutations_never_crash),
		cmocka_unit_test(test_text_nesting_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
