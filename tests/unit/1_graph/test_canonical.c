/* test_canonical.c: what canonical graphs and their digests keep apart, and what they do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "graph_gen.h"
#include "passes.h"

#define IN2 "%a : f32[4,8] = placeholder()\n%b : f32[4,8] = placeholder()\n"

static void expect(const char *x, const char *y, int same)
{
	struct stx_arena *a = stx_arena_new(0);
	const char *cx = gen_canonical(a, gen_parse(a, x)), *cy = gen_canonical(a, gen_parse(a, y));
	if ((strcmp(cx, cy) == 0) != same) {
		print_message("%s\n%s\ncanonical:\n%s\n%s\n", x, y, cx, cy);
		fail();
	}
	stx_arena_free(a);
}

/* OG-04: omitting or writing the default gives the same key. */
static void test_canonical_defaults_same(void **state)
{
	(void)state;
	static const char *const pairs[][2] = {
		{ "%c = add.Tensor(%a, %b)", "%c = add.Tensor(%a, %b, alpha=1)" },
		{ "%c = sum.dim_IntList(%a, [-1])",
		  "%c = sum.dim_IntList(%a, [1], False, dtype=None)" },
		{ "%c = sum.dim_IntList(%a, [])", "%c = sum.dim_IntList(%a, [0, -1], dtype=f32)" },
		{ "%c = gelu.default(%a)", "%c = gelu.default(%a, approximate='none')" },
		{ "%c = view.default(%a, [-1])", "%c = view.default(%a, [32])" },
		{ "%c = slice.Tensor(%a, 1, -3)", "%c = slice.Tensor(%a, -1, 5, 100, 1)" },
		{ "%c = select.int(%a, -1, -2)", "%c = select.int(%a, 1, 6)" },
		{ "%c = permute.default(%a, [-1, 0])", "%c = permute.default(%a, [1, -2])" },
		{ "%c = transpose.int(%a, 0, 1)", "%c = transpose.int(%a, -1, -2)" },
		{ "%c = mul.Scalar(%a, 2)", "%c = mul.Scalar(%a, 2.0)" },
		{ "%c = amax.default(%a)", "%c = amax.default(%a, [1, 0], False)" },
		{ "%c = var.correction(%a)", "%c = var.correction(%a, [0, 1], correction=1)" },
		{ "%c = constant_pad_nd.default(%a, [1, 1, 0, 0])",
		  "%c = constant_pad_nd.default(%a, [1, 1], 0.0)" },
		{ "%c = cat.default([%a, %b], -1)", "%c = cat.default([%a, %b], 1)" },
		{ "%c = flip.default(%a, [1, 0])", "%c = flip.default(%a, [0, -1])" },
		{ "%c = expand.default(%a, [2, -1, -1])", "%c = expand.default(%a, [2, 4, 8])" },
		{ "%c = _to_copy.default(%a)", "%c = _to_copy.default(%a, dtype=f32)" },
	};
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		char x[512], y[512];
		snprintf(x, sizeof x, "%s%s\nreturn (%%c,)", IN2, pairs[i][0]);
		snprintf(y, sizeof y, "%s%s\nreturn (%%c,)", IN2, pairs[i][1]);
		expect(x, y, 1);
	}
}

static void test_canonical_windows_written_out_share(void **state)
{
	(void)state;
	static const char *const in = "%x : f32[1,2,8,8] = placeholder()\n%w : f32[2,2,3,3] = "
				      "placeholder()\n%g : f32[1,2,8,8] = placeholder()\n%c : "
				      "f32[3,3,2,2] = placeholder()\n";
	static const char *const pairs[][2] = {
		{ "_adaptive_avg_pool2d.default(%x, [3])",
		  "_adaptive_avg_pool2d.default(%x, [3, 3])" },
		{ "_fold.default(%c, [6, 6], [3], [1], [0], [2])",
		  "_fold.default(%c, [6, 6], [3, 3], [1, 1], [0, 0], [2, 2])" },
		{ "im2col.default(%x, [3], [1], [0], [2])",
		  "im2col.default(%x, [3, 3], [1, 1], [0, 0], [2, 2])" },
		{ "avg_pool2d_backward.default(%g, %x, [1], [], [0], False, True, None)",
		  "avg_pool2d_backward.default(%g, %x, [1, 1], [1, 1], [0, 0], False, True, "
		  "None)" },
		{ "convolution_backward.default(%g, %x, %w, [2], [1], [1], [1], False, [0], 1, "
		  "[True, True, True])",
		  "convolution_backward.default(%g, %x, %w, None, [1, 1], [1, 1], [1, 1], False, "
		  "[0, 0], 1, [True, True, True])" },
		{ "convolution_backward.default(%g, %x, %w, [0], [1], [1], [1], False, [0], 1, "
		  "[True, True, False])",
		  "convolution_backward.default(%g, %x, %w, None, [1], [1], [1], False, [0], 1, "
		  "[True, True, False])" },
	};
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		char x[1024], y[1024];
		snprintf(x, sizeof x, "%s%%y = %s\nreturn (%%y,)", in, pairs[i][0]);
		snprintf(y, sizeof y, "%s%%y = %s\nreturn (%%y,)", in, pairs[i][1]);
		expect(x, y, 1);
	}
}

/* OP-07: a+b and b+a share a number; a-b and b-a do not. */
static void test_canonical_commutative_operands_share(void **state)
{
	(void)state;
	expect(IN2 "%c = add.Tensor(%a, %b)\nreturn (%c,)",
	       IN2 "%c = add.Tensor(%b, %a)\nreturn (%c,)", 1);
	expect(IN2 "%c = mul.Tensor(%a, %b)\nreturn (%c,)",
	       IN2 "%c = mul.Tensor(%b, %a)\nreturn (%c,)", 1);
	expect(IN2 "%c = sub.Tensor(%a, %b)\nreturn (%c,)",
	       IN2 "%c = sub.Tensor(%b, %a)\nreturn (%c,)", 0);
	expect(IN2 "%c = add.Tensor(%a, %b, alpha=3)\nreturn (%c,)",
	       IN2 "%c = add.Tensor(%b, %a, alpha=3)\nreturn (%c,)", 0);
	expect(IN2 "%c = add.Tensor(%a, %b)\n%d = add.Tensor(%b, %a)\nreturn (%c, %d)",
	       IN2 "%c = add.Tensor(%b, %a)\nreturn (%c, %c)", 1);
	expect(IN2 "%c = sub.Tensor(%a, %b)\n%d = sub.Tensor(%b, %a)\nreturn (%c, %d)",
	       IN2 "%c = sub.Tensor(%a, %b)\nreturn (%c, %c)", 0);
}

/* OP-09: what no output needs disappears, an unused input stays. */
static void test_canonical_dead_nodes_removed(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	const char *c = gen_canonical(
		a, gen_parse(a, IN2 "%dead = exp.default(%b)\n%gone = sin.default(%dead)\n"
				    "%c = neg.default(%a)\nreturn (%c,)"));
	assert_string_equal(c, "%primals_1 : f32[4,8] [num_users=1] = placeholder()\n"
			       "%primals_2 : f32[4,8] [num_users=0] = placeholder()\n"
			       "%neg : f32[4,8] [num_users=1] = neg.default(%primals_1)\n"
			       "return (%neg,)\n");
	stx_arena_free(a);
}

static void test_canonical_semantic_change_differs(void **state)
{
	(void)state;
	static const char *const base =
		"%a : f32[4,8] = placeholder()\n%k : f32[2] = constant([1.0, 0.0])\n"
		"%p = gt.Scalar(%a, 1)\n%q = any.dims(%p)\n%e = _assert_async.msg(%q, 'm')\n"
		"%c = add.Scalar(%a, 2)\n%s = sum.dim_IntList(%c, [1])\n%g = gelu.default(%c)\n"
		"return (%s, %g, %k)";
	static const char *const changes[][2] = {
		{ "[4,8]", "[8,4]" },
		{ "f32[4,8]", "f64[4,8]" },
		{ "placeholder()", "placeholder(param=True)" },
		{ "placeholder()", "placeholder(strides=[1,4])" },
		{ "[1.0, 0.0]", "[1.0, -0.0]" },
		{ "[1.0, 0.0]", "[1.0, nan]" },
		{ "gt.Scalar", "ge.Scalar" },
		{ "'m'", "'n'" },
		{ "add.Scalar(%a, 2)", "add.Scalar(%a, 2.5)" },
		{ "add.Scalar(%a, 2)", "add.Scalar(%a, -0.0)" },
		{ "add.Scalar(%a, 2)", "add.Scalar(%a, 2, 3)" },
		{ "(%c, [1])", "(%c, [0])" },
		{ "(%c, [1])", "(%c, [1], True)" },
		{ "(%c, [1])", "(%c, [1], dtype=f64)" },
		{ "gelu.default(%c)", "gelu.default(%c, approximate='tanh')" },
		{ "(%s, %g, %k)", "(%g, %s, %k)" },
		{ "(%s, %g, %k)", "(%s, %g)" },
		{ "(%s, %g, %k)", "(%s, %g, %k, %k)" },
	};
	for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
		char other[1024];
		const char *at = strstr(base, changes[i][0]);
		assert_non_null(at);
		snprintf(other, sizeof other, "%.*s%s%s", (int)(at - base), base, changes[i][1],
			 at + strlen(changes[i][0]));
		expect(base, other, 0);
	}
}

/* DF-06: equal random nodes stay apart; their streams are said once and kept. */
static void test_canonical_random_nodes_stay_apart(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	const char *c =
		gen_canonical(a, gen_parse(a, "%a = rand.default([4])\n%b = rand.default([4])\n"
					      "%s = add.Tensor(%a, %b)\nreturn (%s,)"));
	assert_non_null(strstr(c, "rand.default([4], dtype=f32, state=None, stream=1)"));
	assert_non_null(strstr(c, "rand.default([4], dtype=f32, state=None, stream=2)"));
	/* the same streams stated: still two nodes */
	c = gen_canonical(a, gen_parse(a, "%a = rand.default([4], stream=7)\n%b = "
					  "rand.default([4], stream=7)\n"
					  "%s = add.Tensor(%a, %b)\nreturn (%s,)"));
	assert_non_null(strstr(c, "[serial=2]"));
	stx_arena_free(a);
}

/* DF-06 for effects: two equal asserts stay two, in program order, and are never dead. */
static void test_canonical_effects_never_merge(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	const char *c = gen_canonical(
		a, gen_parse(a, "%a : bool[] = placeholder()\n%x : f32[2] = placeholder()\n"
				"%e = _assert_async.msg(%a, 'm')\n%f = _assert_async.msg(%a, 'm')\n"
				"%y = neg.default(%x)\nreturn (%y,)"));
	assert_non_null(strstr(c, "%_assert_async : () [num_users=0] [serial=1] = "));
	assert_non_null(strstr(c, "%_assert_async_0 : () [num_users=0] [serial=2] = "));
	expect("%a : bool[] = placeholder()\n%b : bool[] = placeholder()\n%e = "
	       "_assert_async.msg(%a, 'm')\n"
	       "%f = _assert_async.msg(%b, 'm')\nreturn (%a,)",
	       "%a : bool[] = placeholder()\n%b : bool[] = placeholder()\n%e = "
	       "_assert_async.msg(%b, 'm')\n"
	       "%f = _assert_async.msg(%a, 'm')\nreturn (%a,)",
	       0);
	stx_arena_free(a);
}

static void test_canonical_symbol_names_do_not_count(void **state)
{
	(void)state;
	expect("sym n = [2,64] hint 8\nsym m = [1,9] hint 4\n%a : f32[m,n] = placeholder()\n"
	       "%v = view.default(%a, [-1])\nreturn (%v,)",
	       "sym p = [1,9] hint 4\nsym q = [2,64] hint 8\n%x : f32[p,q] = placeholder()\n"
	       "%w = view.default(%x, [q*p])\nreturn (%w,)",
	       1);
	expect("sym n = [2,64] hint 8\n%a : f32[n] = placeholder()\nreturn (%a,)",
	       "sym n = [2,65] hint 8\n%a : f32[n] = placeholder()\nreturn (%a,)", 0);
}

/* OG-11 as a property: other names, another order of independent nodes; and canonical is a
 * fixpoint. */
static void test_canonical_random_graphs_invariant(void **state)
{
	(void)state;
	for (uint64_t first = 1; first <= 150; first++) {
		uint64_t seed = first * 0x9e3779b97f4a7c15u;
		struct stx_arena *a = stx_arena_new(0);
		struct stx_graph *g = gen_random(a, &seed, 30);
		const char *x = gen_canonical(a, g);
		const char *y = gen_canonical(a, gen_shuffled(a, g, &seed));
		const char *z = gen_canonical(a, gen_parse(a, x));
		if (strcmp(x, y) || strcmp(x, z)) {
			print_message("seed %llu\n%s\n%s\n%s\n", (unsigned long long)first, x, y,
				      z);
			fail();
		}
		stx_arena_free(a);
	}
}

static void test_canonical_digest_is_hash_of_text(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = gen_parse(a, IN2
					"%c = add.Tensor(%a, %b)\nreturn (%c as 'sum of both',)"),
			 *c;
	struct stx_digest d1, d2;
	assert_int_equal(stx_graph_canonical(g, a, &c, NULL), 0);
	assert_int_equal(stx_graph_digest(c, &d1, NULL), 0);
	d2 = stx_digest_of(gen_print(a, c), strlen(gen_print(a, c)));
	assert_true(stx_digest_eq(&d1, &d2));
	stx_arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_canonical_random_nodes_stay_apart),
		cmocka_unit_test(test_canonical_defaults_same),
		cmocka_unit_test(test_canonical_windows_written_out_share),
		cmocka_unit_test(test_canonical_commutative_operands_share),
		cmocka_unit_test(test_canonical_dead_nodes_removed),
		cmocka_unit_test(test_canonical_semantic_change_differs),
		cmocka_unit_test(test_canonical_effects_never_merge),
		cmocka_unit_test(test_canonical_symbol_names_do_not_count),
		cmocka_unit_test(test_canonical_random_graphs_invariant),
		cmocka_unit_test(test_canonical_digest_is_hash_of_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
