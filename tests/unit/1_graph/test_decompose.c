/* test_decompose.c: decomposition to the basis and to primitives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "decompose.h"
#include "graph_gen.h"
#include "passes.h"

static const char *basis(struct stx_arena *a, const char *text, int primitives)
{
	struct stx_graph *g = gen_parse(a, text);
	struct stx_diag d = { 0 };
	stx_err e = stx_graph_decompose_to_basis(&g, &d);
	e = e ? e : stx_graph_verify_basis(g, &d);
	if (!e && primitives)
		e = stx_graph_decompose_to_primitives(&g, &d);
	e = e ? e : stx_graph_verify_basis(g, &d);
	if (e)
		fail_msg("%s: %s", text, d.text);
	return gen_print(a, g);
}

/* DF-02: five operators, the row maximum taken out first. */
static void test_decompose_softmax_five_operators(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	assert_string_equal(
		basis(a,
		      "%x : f32[2,3] = placeholder()\n%y = _softmax.default(%x, -1)\nreturn (%y)",
		      0),
		"%x : f32[2,3] [num_users=2] = placeholder()\n"
		"%amax : f32[2,1] [num_users=1] = amax.default(%x, [1], True)\n"
		"%sub : f32[2,3] [num_users=1] = sub.Tensor(%x, %amax, alpha=1)\n"
		"%exp : f32[2,3] [num_users=2] = exp.default(%sub)\n"
		"%sum_0 : f32[2,1] [num_users=1] = sum.dim_IntList(%exp, [1], True, dtype=f32)\n"
		"%div : f32[2,3] [num_users=1] = div.Tensor(%exp, %sum_0)\n"
		"return (%div,)\n");
	/* half types: f32 inside, rounded once */
	assert_string_equal(
		basis(a,
		      "%x : bf16[2,3] = placeholder()\n%y = _softmax.default(%x, 0)\nreturn (%y)",
		      0),
		"%x : bf16[2,3] [num_users=1] = placeholder()\n"
		"%_to_copy : f32[2,3] [num_users=2] = _to_copy.default(%x, dtype=f32)\n"
		"%amax : f32[1,3] [num_users=1] = amax.default(%_to_copy, [0], True)\n"
		"%sub : f32[2,3] [num_users=1] = sub.Tensor(%_to_copy, %amax, alpha=1)\n"
		"%_short_exp : f32[2,3] [num_users=2] = _short_exp.default(%sub)\n"
		"%sum_0 : f32[1,3] [num_users=1] = sum.dim_IntList(%_short_exp, [0], True, "
		"dtype=f32)\n"
		"%_short_div : f32[2,3] [num_users=1] = _short_div.default(%_short_exp, %sum_0)\n"
		"%_to_copy_0 : bf16[2,3] [num_users=1] = _to_copy.default(%_short_div, "
		"dtype=bf16)\n"
		"return (%_to_copy_0,)\n");
	stx_arena_free(a);
}

/* gelu stays whole in the basis; erf appears only in primitives. */
static void test_decompose_gelu_whole_until_primitives(void **state)
{
	(void)state;
	static const char *const text =
		"%x : f32[2] = placeholder()\n%y = gelu.default(%x)\nreturn (%y)";
	struct stx_arena *a = stx_arena_new(0);
	assert_non_null(strstr(basis(a, text, 0), "gelu.default"));
	assert_null(strstr(basis(a, text, 0), "erf"));
	const char *p = basis(a, text, 1);
	assert_null(strstr(p, "gelu"));
	assert_non_null(strstr(p, "erf.default"));
	stx_arena_free(a);
}

/* ---- DF-01: repeated until nothing is left; cycles are found ---- */

static int neg_to_abs(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	out[0] = stx__b_one(b, STX_OP_ABS, stx__operand(n, 0));
	return 0;
}

static int abs_to_neg(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	out[0] = stx__b_one(b, STX_OP_NEG, stx__operand(n, 0));
	return 0;
}

static int abs_to_relu(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	out[0] = stx__b_one(b, STX_OP_RELU, stx__operand(n, 0));
	return 0;
}

static int to_wrong_type(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	out[0] = stx__b_cast(b, stx__operand(n, 0), STX_F64);
	return 0;
}

static void test_decompose_repeats_and_detects_cycles(void **state)
{
	(void)state;
	static stx__rule_fn *const chain[STX_OP_COUNT] = {
		[STX_OP_NEG] = neg_to_abs, [STX_OP_ABS] = abs_to_relu
	};
	static stx__rule_fn *const cycle[STX_OP_COUNT] = {
		[STX_OP_NEG] = neg_to_abs, [STX_OP_ABS] = abs_to_neg
	};
	static stx__rule_fn *const wrong[STX_OP_COUNT] = { [STX_OP_NEG] = to_wrong_type };
	static const char *const text =
		"%x : f32[2] = placeholder()\n%y = neg.default(%x)\nreturn (%y)";
	struct stx_arena *a = stx_arena_new(0);
	struct stx_diag d = { 0 };
	struct stx_graph *g = gen_parse(a, text);
	assert_int_equal(stx__decompose(g, chain, &d), 0);
	assert_int_equal(g->nodes.n, 2);
	assert_int_equal(g->nodes.at[1]->op, STX_OP_RELU);
	g = gen_parse(a, text);
	assert_int_equal(stx__decompose(g, cycle, &d), STX_E_INTERNAL);
	assert_non_null(strstr(d.text, "cycle"));
	stx_diag_clear(&d);
	g = gen_parse(a, text);
	assert_int_equal(stx__decompose(g, wrong, &d), STX_E_INTERNAL);
	stx_arena_free(a);
}

/* Every operator is in the basis, has a rule, or is refused; a basis operator has no basis rule. */
static void test_decompose_tables_cover_op_table(void **state)
{
	(void)state;
	for (int op = 0; op < STX_OP_COUNT; op++) {
		const struct stx_op_info *info = stx_op_info((enum stx_op)op);
		int in_basis = (info->tags & STX_TAG_BASIS) != 0;
		if (info->tags & STX_TAG_REFUSED)
			continue;
		if (in_basis == (stx__basis_rules[op] != NULL))
			fail_msg("%s", info->overload);
		if (in_basis && info->category == STX_CAT_COMPOSITE && !stx__primitive_rules[op])
			fail_msg("%s has no primitives", info->overload);
	}
}

static void count(const char *line, int n, const char *body)
{
	struct stx_arena *a = stx_arena_new(0);
	char text[512];
	snprintf(text, sizeof text, "%s\n%s\nreturn (%%r,)", line, body);
	const char *p = basis(a, text, 0);
	int lines = 0;
	for (const char *s = p; (s = strstr(s, "matmul")); s++)
		fail_msg("matmul is left: %s", p);
	for (const char *s = p; (s = strchr(s, '\n')); s++)
		lines++;
	if (lines != n)
		fail_msg("%d lines, expected %d: %s", lines, n, p);
	stx_arena_free(a);
}

/* All rank cases: 2 inputs and a return, and the nodes counted here. */
static void test_decompose_matmul_ranks(void **state)
{
	(void)state;
	static const char *const r = "%r = matmul.default(%a, %b)";
	count("%a : f32[2,3] = placeholder()\n%b : f32[3,4] = placeholder()", 3 + 1, r);
	count("%a : f32[3] = placeholder()\n%b : f32[3] = placeholder()", 3 + 4, r);
	count("%a : f32[3] = placeholder()\n%b : f32[3,4] = placeholder()", 3 + 3, r);
	count("%a : f32[2,3] = placeholder()\n%b : f32[3] = placeholder()", 3 + 3, r);
	count("%a : f32[5,2,3] = placeholder()\n%b : f32[3,4] = placeholder()", 3 + 3, r);
	count("%a : f32[5,2,3] = placeholder()\n%b : f32[5,3,4] = placeholder()", 3 + 3, r);
	count("%a : f32[6,1,2,3] = placeholder()\n%b : f32[5,3,4] = placeholder()", 3 + 6, r);
	count("%a : f32[3] = placeholder()\n%b : f32[5,3,4] = placeholder()", 3 + 5, r);
	count("%a : f32[0,2,3] = placeholder()\n%b : f32[3,4] = placeholder()", 3 + 3, r);
	count("sym n = [1,9] hint 3\n%a : f32[n,2,3] = placeholder()\n%b : f32[3,4] = "
	      "placeholder()",
	      4 + 3, r);
}

/* One reduction of triples, of which the first result is the variance (RD-04). */
static void test_decompose_var_is_the_first_of_a_pair(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	const char *p = basis(a,
			      "%x : f16[3,4] = placeholder()\n%y = var.dim(%x, [1], False)\n%z = "
			      "std.correction(%x)\nreturn (%y, %z)",
			      1);
	assert_non_null(strstr(p, "var_mean.correction(%x, [1], correction=0, keepdim=False)"));
	assert_non_null(strstr(p, "= sqrt.default(%")); /* in f32, rounded after the root */
	assert_non_null(strstr(p, "(f32[], f32[])"));
	stx_arena_free(a);
}

/* DF-06 for effects: an assert and what it needs survive, in order. */
static void test_decompose_effects_kept(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	const char *p =
		basis(a,
		      "%x : f32[2] = placeholder()\n%m = mean.default(%x)\n%c = gt.Scalar(%m, 0)\n"
		      "%e = _assert_async.msg(%c, 'one')\n%f = _assert_async.msg(%c, 'two')\n"
		      "return (%x)",
		      1);
	const char *one = strstr(p, "[serial=1] = _assert_async.msg(%c, 'one')");
	assert_non_null(one);
	assert_non_null(strstr(one, "[serial=2] = _assert_async.msg(%c, 'two')"));
	assert_non_null(strstr(p, "sum.dim_IntList"));
	stx_arena_free(a);
}

/* Where a primitive does not take the dtype an operator takes. */
static void test_decompose_trivial_dtypes(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	const char *p =
		basis(a,
		      "%i : i32[2] = placeholder()\n%p : bool[2] = placeholder()\n"
		      "%a = floor.default(%i)\n%b = add.Tensor(%p, %p)\n%c = mul.Tensor(%p, %p)\n"
		      "%d = isnan.default(%i)\n%e = sign.default(%p)\n%f = sign.default(%i)\n"
		      "return (%a, %b, %c, %d, %e, %f)",
		      1);
	assert_non_null(strstr(p, "return (%i, %logical_or, %logical_and, %full, %p, %f)"));
	stx_arena_free(a);
}

/* OG-08, DF-01: nothing is outside the basis, and nothing mutates: no operator of the table does,
 * an assertion only reads. */
static void expect_basis(const struct stx_graph *g)
{
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		const struct stx_op_info *info = stx_op_info(g->nodes.at[i]->op);
		if (!(info->tags & STX_TAG_BASIS))
			fail_msg("%s is left", info->overload);
		assert_int_not_equal(info->base[strlen(info->base) - 1], '_');
		assert_true(!(info->tags & STX_TAG_EFFECT) || g->nodes.at[i]->op == STX_OP_ASSERT);
	}
}

/* Random graphs print, parse, decompose, verify and canonicalise, with static and with symbolic
 * sizes. Rules may say that they do not apply. */
static void test_decompose_random_graphs_verify(void **state)
{
	(void)state;
	for (uint64_t first = 1; first <= 400; first++) {
		uint64_t seed = first * 0x9e3779b97f4a7c15u;
		struct stx_arena *a = stx_arena_new(0);
		struct stx_graph *g =
			first % 2 ? gen_random(a, &seed, 40) : gen_random_dynamic(a, &seed, 40);
		struct stx_diag d = { 0 };
		const char *text = gen_print(a, g);
		assert_string_equal(text, gen_print(a, gen_parse(a, text)));
		const char *kept = text;
		text = gen_canonical(a, g);
		assert_string_equal(text, gen_canonical(a, gen_parse(a, text)));
		stx_err e = stx_graph_decompose_to_basis(&g, &d);
		if (!e)
			expect_basis(g);
		e = e ? e : stx_graph_verify_basis(g, &d);
		e = e ? e : stx_graph_simplify(&g, STX_SIMPLIFY_STRICT, &d);
		e = e ? e : stx_graph_verify_basis(g, &d);
		e = e ? e : stx_graph_decompose_to_primitives(&g, &d);
		e = e ? e : stx_graph_verify_basis(g, &d);
		if (e && e != STX_E_UNSUPPORTED && e != STX_E_TOO_LARGE)
			fail_msg("seed %llu: %s [%s] %s\n%s", (unsigned long long)first, d.stage,
				 d.node, d.text, kept);
		stx_arena_free(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decompose_softmax_five_operators),
		cmocka_unit_test(test_decompose_gelu_whole_until_primitives),
		cmocka_unit_test(test_decompose_repeats_and_detects_cycles),
		cmocka_unit_test(test_decompose_tables_cover_op_table),
		cmocka_unit_test(test_decompose_matmul_ranks),
		cmocka_unit_test(test_decompose_var_is_the_first_of_a_pair),
		cmocka_unit_test(test_decompose_effects_kept),
		cmocka_unit_test(test_decompose_trivial_dtypes),
		cmocka_unit_test(test_decompose_random_graphs_verify),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
