/* test_simplify.c: rewrites of class BIT: what goes, what must stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "graph_gen.h"
#include "passes.h"

#define IN                                                                                         \
	"%x : f32[2,3] = placeholder()\n%i : i32[2,3] = placeholder()\n%h : f16[2,3] = "           \
	"placeholder()\n"                                                                          \
	"%s : f32[] = placeholder()\n%p : bool[2,3] = placeholder()\n%v : f32[10] = "              \
	"placeholder()\n"

static const char *simplified(struct stx_arena *a, const char *body, const char *result)
{
	char text[2048];
	struct stx_diag d = { 0 };
	snprintf(text, sizeof text, "%s%s\nreturn (%s,)", IN, body, result);
	struct stx_graph *g = gen_parse(a, text);
	if (stx_graph_simplify(&g, STX_SIMPLIFY_STRICT, &d) || stx_graph_verify(g, &d))
		fail_msg("%s: %s", body, d.text);
	const char *once = gen_print(a, g);
	if (stx_graph_simplify(&g, STX_SIMPLIFY_STRICT, &d) || strcmp(once, gen_print(a, g)))
		fail_msg("not idempotent: %s", once);
	return strchr(strstr(once, "%v : "), '\n') + 1;
}

struct rule {
	const char *body, *want; /* what is left after the placeholders */
};

static void check(const struct rule *r, size_t n)
{
	struct stx_arena *a = stx_arena_new(0);
	for (size_t i = 0; i < n; i++) {
		const char *got = simplified(a, r[i].body, "%r");
		if (strcmp(got, r[i].want))
			fail_msg("%s\ngives %swant  %s", r[i].body, got, r[i].want);
	}
	stx_arena_free(a);
}
#define CHECK(rules)  check(rules, sizeof(rules) / sizeof(rules)[0])
#define GONE(operand) "return (" operand ",)\n"

/* OP-04, and OP-05: x+0 stays for floats. */
static void test_simplify_identities_removed(void **state)
{
	(void)state;
	static const struct rule rules[] = {
		{ "%r = mul.Scalar(%x, 1)", GONE("%x") },
		{ "%r = mul.Scalar(%x, 1.0)", GONE("%x") },
		{ "%c = full.default([2,3], 1, dtype=f32)\n%r = mul.Tensor(%c, %x)", GONE("%x") },
		{ "%r = div.Scalar(%x, 1)", GONE("%x") },
		{ "%r = sub.Scalar(%x, 0)", GONE("%x") },
		{ "%r = sub.Scalar(%x, 0.0)", GONE("%x") },
		{ "%r = add.Scalar(%i, 0)", GONE("%i") },
		{ "%r = clone.default(%x)", GONE("%x") },
		{ "%r = _to_copy.default(%x, dtype=f32)", GONE("%x") },
		{ "%r = expand.default(%x, [2, -1])", GONE("%x") },
		{ "%r = permute.default(%x, [0, 1])", GONE("%x") },
		{ "%r = view.default(%x, [-1, 3])", GONE("%x") },
		{ "%r = slice.Tensor(%x, 1, -100, 100)", GONE("%x") },
		{ "%r = squeeze.dims(%x, [0])", GONE("%x") },
		{ "%r = constant_pad_nd.default(%x, [0, 0])", GONE("%x") },
		{ "%r = cat.default([%x], 1)", GONE("%x") },
		{ "%a = permute.default(%x, [1, 0])\n%r = permute.default(%a, [1, 0])",
		  GONE("%x") },
		{ "%a = view.default(%x, [6])\n%r = view.default(%a, [2, 3])", GONE("%x") },
		{ "%a = unsqueeze.default(%x, 0)\n%r = squeeze.dims(%a, [0])", GONE("%x") },
		{ "%a = _to_copy.default(%h, dtype=f32)\n%r = _to_copy.default(%a, dtype=f16)",
		  GONE("%h") },
		{ "%a = _to_copy.default(%p, dtype=i64)\n%r = _to_copy.default(%a, dtype=bool)",
		  GONE("%p") },
	};
	CHECK(rules);
	struct stx_arena *a = stx_arena_new(0);
	assert_string_equal(
		simplified(a, "%c : f32[3] = constant([1, 1, 1])\n%r = mul.Tensor(%x, %c)", "%r"),
		GONE("%x"));
	assert_string_equal(
		simplified(a, "%c : i32[3] = constant([0, 0, 0])\n%r = sub.Tensor(%i, %c)", "%r"),
		GONE("%i"));
	stx_arena_free(a);
}

/* OP-05, OP-06, DF-07: what holds over the reals only, or changes the type, stays. */
static void test_simplify_unsafe_rewrites_refused(void **state)
{
	(void)state;
	static const char *const bodies[] = {
		"%r = add.Scalar(%x, 0)",
		"%r = add.Scalar(%x, 0.0)",
		"%r = add.Scalar(%x, -0.0)",
		"%r = sub.Scalar(%x, -0.0)",
		"%r = sub.Scalar(%x, 0, -1)",
		"%r = mul.Scalar(%x, 0)",
		"%r = sub.Tensor(%x, %x)",
		"%r = div.Tensor(%x, %x)",
		"%a = add.Scalar(%x, 1e20)\n%r = add.Scalar(%a, -1e20)", /* (x + c) + d */
		"%a = mul.Scalar(%x, 3)\n%r = mul.Scalar(%a, 5)",
		"%a = add.Tensor(%x, %s)\n%r = sub.Tensor(%a, %s)",
		"%r = div.Scalar(%x, 3)", /* no product with 1/3, nor with the exact 1/2 */
		"%r = div.Scalar(%x, 2)",
		"%r = div.Tensor(%x, %s)",
		"%r = mul.Scalar(%i, 1.0)",
		"%r = div.Scalar(%i, 1)",
		"%r = mul.Scalar(%p, 1)",
		"%r = mul.Scalar(%x, -1)",
		"%r = mul.Tensor(%x, %s)",
		"%r = add.Tensor(%x, %x)",
		"%r = mul.Scalar(%x, 2)",
		"%c : f32[3] = constant([1, 1, 2])\n%r = mul.Tensor(%x, %c)",
		"%c : f32[3] = constant([0, -0.0, 0])\n%r = sub.Tensor(%x, %c)",
		"%c : f32[4,1,1] = constant([1, 1, 1, 1])\n%r = mul.Tensor(%x, %c)",
		"%a = _to_copy.default(%x, dtype=f16)\n%r = _to_copy.default(%a, dtype=f32)",
		"%a = _to_copy.default(%x, dtype=i32)\n%r = _to_copy.default(%a, dtype=f32)",
		"%a = permute.default(%x, [1, 0])\n%r = view.default(%a, [2, 3])",
	};
	struct stx_arena *a = stx_arena_new(0);
	for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
		char text[2048];
		snprintf(text, sizeof text, "%s%s\nreturn (%%r,)", IN, bodies[i]);
		struct stx_graph *g = gen_parse(a, text);
		const char *before = gen_print(a, g);
		assert_int_equal(stx_graph_simplify(&g, STX_SIMPLIFY_STRICT, NULL), 0);
		assert_string_equal(before, gen_print(a, g));
	}
	stx_arena_free(a);
}

static void test_simplify_views_compose(void **state)
{
	(void)state;
	static const struct rule rules[] = {
		{ "%a = view.default(%x, [6])\n%r = view.default(%a, [3, 2])",
		  "%r : f32[3,2] [num_users=1] = view.default(%x, [3, 2])\n" GONE("%r") },
		{ "%a = unsqueeze.default(%x, 0)\n%r = unsqueeze.default(%a, 0)",
		  "%view : f32[1,1,2,3] [num_users=1] = view.default(%x, [1, 1, 2, 3])\n" GONE(
			  "%view") },
		{ "%a = unsqueeze.default(%x, 0)\n%b = permute.default(%a, [1, 2, 0])\n%r = "
		  "permute.default(%b, [1, 2, 0])",
		  "%a : f32[1,2,3] [num_users=1] = unsqueeze.default(%x, 0)\n"
		  "%r : f32[3,1,2] [num_users=1] = permute.default(%a, [2, 0, 1])\n" GONE("%r") },
		{ "%a = expand.default(%s, [3])\n%r = expand.default(%a, [2, -1])",
		  "%r : f32[2,3] [num_users=1] = expand.default(%s, [2, 3])\n" GONE("%r") },
		{ "%a = slice.Tensor(%v, 0, 1, 10, 2)\n%r = slice.Tensor(%a, 0, 1, None, 2)",
		  "%r : f32[2] [num_users=1] = slice.Tensor(%v, 0, 3, 8, 4)\n" GONE("%r") },
		{ "%a = slice.Tensor(%v, 0, 8)\n%r = slice.Tensor(%a, 0, 2)",
		  "%r : f32[0] [num_users=1] = slice.Tensor(%v, 0, 10, 10, 1)\n" GONE("%r") },
		{ "%a = _to_copy.default(%h, dtype=f32)\n%r = _to_copy.default(%a, dtype=i32)",
		  "%r : i32[2,3] [num_users=1] = _to_copy.default(%h, dtype=i32)\n" GONE("%r") },
	};
	CHECK(rules);
}

/* OP-03: 0.5*2.0 is 1, folded in the precision of run time (B49: -0 included). */
static void test_simplify_constants_fold(void **state)
{
	(void)state;
	static const struct rule rules[] = {
		{ "%c : f32[1] = constant([0.5])\n%r = mul.Scalar(%c, 2.0)",
		  "%constant : f32[1] [num_users=1] = constant(hex='0000803f')\n" GONE(
			  "%constant") },
		{ "%c : f32[1] = constant([16777216])\n%r = add.Scalar(%c, 1)", /* f32, not f64 */
		  "%constant : f32[1] [num_users=1] = constant(hex='0000804b')\n" GONE(
			  "%constant") },
		{ "%c : f32[2] = constant([-1, 5])\n%r = mul.Scalar(%c, 0)",
		  "%constant : f32[2] [num_users=1] = constant(hex='0000008000000000')\n" GONE(
			  "%constant") },
		{ "%c : i8[2] = constant([127, -128])\n%r = add.Scalar(%c, 1)",
		  "%constant : i8[2] [num_users=1] = constant(hex='8081')\n" GONE("%constant") },
		{ "%c : i32[2,2] = constant([1, 2, 3, 4])\n%d = permute.default(%c, [1, 0])\n%r = "
		  "view.default(%d, [4])",
		  "%constant_0 : i32[4] [num_users=1] = "
		  "constant(hex='01000000030000000200000004000000')\n" GONE("%constant_0") },
	};
	struct stx_arena *a = stx_arena_new(0);
	for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
		const char *got = simplified(a, rules[i].body, "%r"), *hex = strstr(got, "hex="),
			   *want = strstr(rules[i].want, "hex=");
		if (!hex || !want || strncmp(hex, want, strcspn(want, ")")))
			fail_msg("%s\ngives %swant  %s", rules[i].body, got, rules[i].want);
	}
	stx_arena_free(a);
}

/* OP-07 after other rewrites; OP-09: dead ones go. Operands in either order are one value. */
static void test_simplify_equal_nodes_merge(void **state)
{
	(void)state;
	static const struct rule rules[] = {
		{ "%y = mul.Scalar(%x, 1)\n%a = add.Tensor(%y, %s)\n%b = add.Tensor(%s, %x)\n%dead "
		  "= exp.default(%a)\n"
		  "%r = sub.Tensor(%a, %b)",
		  "%a : f32[2,3] [num_users=1] = add.Tensor(%x, %s, alpha=1)\n"
		  "%r : f32[2,3] [num_users=1] = sub.Tensor(%a, %a, alpha=1)\n" GONE("%r") },
		{ "%a = sub.Tensor(%x, %s)\n%b = sub.Tensor(%s, %x)\n%r = mul.Tensor(%a, %b)",
		  "%a : f32[2,3] [num_users=1] = sub.Tensor(%x, %s, alpha=1)\n"
		  "%b : f32[2,3] [num_users=1] = sub.Tensor(%s, %x, alpha=1)\n"
		  "%r : f32[2,3] [num_users=1] = mul.Tensor(%a, %b)\n" GONE("%r") },
	};
	CHECK(rules);
}

/* DF-06 for effects. */
static void test_simplify_effects_kept(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	const char *p = simplified(
		a,
		"%c = gt.Scalar(%s, 0)\n%e = _assert_async.msg(%c, 'm')\n"
		"%d = gt.Scalar(%s, 0)\n%f = _assert_async.msg(%d, 'm')\n%r = neg.default(%x)",
		"%r");
	assert_non_null(strstr(p, "%e : () [num_users=0] [serial=1] = _assert_async.msg(%c, 'm')"));
	assert_non_null(strstr(p, "%f : () [num_users=0] [serial=2] = _assert_async.msg(%c, 'm')"));
	stx_arena_free(a);
}

/* ---- long graphs (B69): linear, flat stack ---- */

static struct stx_graph *chain(struct stx_arena *a, int n, int views)
{
	struct stx_graph *g = stx_graph_new(a);
	struct stx_type t = stx_type_make(g, STX_F32, 2, (int64_t[]){ 2, 3 });
	struct stx_val x = stx_val(stx_graph_input(g, NULL, t, NULL, 0, NULL), 0);
	for (int i = 0; i < n; i++) {
		struct stx_arg half[] = { stx_arg_tensor(x), stx_arg_scalar_f(0.5) };
		struct stx_arg perm[] = { stx_arg_tensor(x),
					  stx_arg_ints(g, (int64_t[]){ 1, 0 }, 2) };
		struct stx_arg flat[] = {
			stx_arg_tensor(x),
			stx_arg_ints(g, (int64_t[]){ i % 2 ? 2 : 6, i % 2 ? 3 : 1 }, 2)
		};
		if (views == 1)
			x = stx_val(stx_graph_call(g, STX_OP_PERMUTE, NULL, perm, 2, NULL), 0);
		else if (views == 2)
			x = stx_val(stx_graph_call(g, STX_OP_VIEW, NULL, flat, 2, NULL), 0);
		else if (views == 3)
			x = stx_val(stx_graph_call(g, STX_OP_ADD, NULL,
						   (struct stx_arg[]){ half[0], half[0] }, 2, NULL),
				    0);
		else
			x = stx_val(stx_graph_call(g, i % 2 ? STX_OP_ADD_SCALAR : STX_OP_MUL_SCALAR,
						   NULL, half, 2, NULL),
				    0);
		assert_non_null(x.node);
	}
	stx_graph_output(g, x, NULL, NULL);
	return g;
}

static void test_simplify_long_chains_linear(void **state)
{
	(void)state;
	static const struct {
		int n, views;
		uint32_t left;
	} cases[] = {
		{ 100000, 0, 100001 }, { 20000, 1, 1 }, { 20000, 2, 1 }, { 20000, 3, 20001 }
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct stx_arena *a = stx_arena_new(1u << 30);
		struct stx_graph *g = chain(a, cases[i].n, cases[i].views), *c, *h;
		struct stx_bytes text = { 0 };
		assert_int_equal(stx_graph_verify(g, NULL), 0);
		assert_int_equal(stx_graph_print(g, &text), 0);
		assert_int_equal(stx_graph_parse(a, (char *)text.at, text.n, &h, NULL), 0);
		assert_int_equal(stx_graph_decompose_to_basis(&h, NULL), 0);
		assert_int_equal(stx_graph_canonical(h, a, &c, NULL), 0);
		assert_int_equal(stx_graph_decompose_to_primitives(&c, NULL), 0);
		assert_int_equal(stx_graph_simplify(&c, STX_SIMPLIFY_STRICT, NULL), 0);
		assert_int_equal(stx_graph_verify_basis(c, NULL), 0);
		assert_int_equal(c->nodes.n, cases[i].left);
		stx_bytes_free(&text);
		stx_arena_free(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_simplify_identities_removed),
		cmocka_unit_test(test_simplify_unsafe_rewrites_refused),
		cmocka_unit_test(test_simplify_views_compose),
		cmocka_unit_test(test_simplify_constants_fold),
		cmocka_unit_test(test_simplify_equal_nodes_merge),
		cmocka_unit_test(test_simplify_effects_kept),
		cmocka_unit_test(test_simplify_long_chains_linear),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
