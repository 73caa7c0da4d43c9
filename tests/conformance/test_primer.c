/* test_primer.c: the compiler primer's optimisations on its own examples, written as graph text:
 * OP-01, OP-02, OP-08, OP-10..OP-12, OP-14, OP-15, DF-07, GF-01. */
#include "cases.h"
#include "graph_gen.h"

/* Seed 004 code 01. The plain numbers are 0-d constants, so 16 instructions. */
#define SWIGLU_IN                                                                                  \
	"%g : f32[64] = placeholder()\n%u : f32[64] = placeholder()\n"                             \
	"%half : f32[] = constant([0.5])\n%two : f32[] = constant([2.0])\n"                        \
	"%one : f32[] = constant([1.0])\n"
static const char swiglu[] = SWIGLU_IN "%c = mul.Tensor(%half, %two)\n"
				       "%n1 = neg.default(%g)\n%e1 = exp.default(%n1)\n"
				       "%a1 = add.Tensor(%one, %e1)\n%s = div.Tensor(%one, %a1)\n"
				       "%gs = mul.Tensor(%g, %s)\n%silu = mul.Tensor(%gs, %c)\n"
				       "%n2 = neg.default(%g)\n%e2 = exp.default(%n2)\n"
				       "%a2 = add.Tensor(%one, %e2)\n%gate = div.Tensor(%g, %a2)\n"
				       "%m = mul.Tensor(%silu, %u)\n%y = add.Scalar(%m, 0)\n"
				       "%b = abs.default(%u)\n%q = sqrt.default(%b)\n"
				       "%dead = mul.Scalar(%q, 3)\nreturn (%y, %gate)\n";

/* a = x*(3-3); b = a+y. Two constants: the seed's numbers are not one value either. */
static const char exercise[] =
	"%x : f32[8] = placeholder()\n%y : f32[8] = placeholder()\n"
	"%three : f32[] = constant([3.0])\n%also : f32[] = constant([3.0])\n"
	"%t = sub.Tensor(%three, %also)\n%a = mul.Tensor(%x, %t)\n%b = add.Tensor(%a, %y)\n"
	"return (%b,)\n";

#define FOLD     STX_SIMPLIFY_FOLD
#define SIMPLIFY STX_SIMPLIFY_IDENTITIES
#define UNSAFE   (STX_SIMPLIFY_IDENTITIES | STX_SIMPLIFY_REALS)
#define CSE      STX_SIMPLIFY_EQUAL
#define DCE      STX_SIMPLIFY_DEAD

/* Inputs and constants are no instructions. */
static unsigned instructions(const struct stx_graph *g)
{
	unsigned n = 0;
	for (uint32_t i = 0; i < g->nodes.n; i++)
		n += g->nodes.at[i]->op != STX_OP_PLACEHOLDER &&
		     g->nodes.at[i]->op != STX_OP_CONSTANT && g->nodes.at[i]->op != STX_OP_FULL;
	return n;
}

static unsigned count_op(const struct stx_graph *g, enum stx_op op)
{
	unsigned n = 0;
	for (uint32_t i = 0; i < g->nodes.n; i++)
		n += g->nodes.at[i]->op == op;
	return n;
}

/* One pass, IR in and IR out; the number of instructions after it. */
static unsigned pass(struct stx_graph **g, unsigned what)
{
	struct stx_diag d = { 0 };
	if (stx_graph_simplify(g, what, &d) || stx_graph_verify(*g, &d))
		fail_msg("pass %u: %s", what, d.text);
	return instructions(*g);
}

static void evaluate(struct stx_arena *a, struct stx_graph *g, float (*out)[64])
{
	double v[64];
	struct stx_tensor in[2], got[2];
	struct stx_diag d = { 0 };
	uint64_t seed = 20041;
	for (uint32_t k = 0; k < 2; k++) {
		for (int i = 0; i < 64; i++)
			v[i] = (double)(int64_t)(gen_next(&seed) >> 40) / 0x1p22 - 2;
		compiled_shape(g, &g->inputs.at[k], &in[k]);
		case_fill(a, &in[k], (struct values){ v, 64 }, 0);
	}
	if (stx_ref_evaluate(g, in, 2, got, 0, &d))
		fail_msg("%s", d.text);
	for (uint32_t k = 0; k < g->outputs.n; k++)
		memcpy(out[k], got[k].data, sizeof out[k]);
	compiled_free_outputs(got, g->outputs.n);
}

/* OP-01, OP-02 */
static void test_primer_swiglu_goes_from_16_to_7_instructions(void **state)
{
	(void)state;
	static const enum stx_op left[] = { STX_OP_NEG, STX_OP_EXP, STX_OP_ADD, STX_OP_DIV,
					    STX_OP_MUL, STX_OP_DIV, STX_OP_MUL };
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = gen_parse(a, swiglu);
	float before[2][64], after[2][64];
	evaluate(a, g, before);
	assert_int_equal(instructions(g), 16);
	assert_int_equal(count_op(g, STX_OP_EXP), 2);
	assert_int_equal(pass(&g, FOLD), 15);
	assert_int_equal(pass(&g, UNSAFE), 13); /* x*1, and the x+0 of OP-05 */
	assert_int_equal(pass(&g, CSE), 10);
	assert_int_equal(pass(&g, DCE), 7);
	assert_int_equal(count_op(g, STX_OP_EXP), 1);
	uint32_t k = 0;
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		enum stx_op op = g->nodes.at[i]->op;
		if (op != STX_OP_PLACEHOLDER && op != STX_OP_CONSTANT)
			assert_int_equal(op, left[k++]);
	}
	evaluate(a, g, after);
	assert_memory_equal(before, after, sizeof before);
	stx_arena_free(a);
}

/* GF-01: GELU with bias and residual, as the primer writes it, is 11 instructions; the longest
 * chain has 10 of them, and h is an operand of 5. */
static void test_primer_gelu_is_11_instructions_in_a_chain_of_10(void **state)
{
	(void)state;
	static const char gelu[] =
		"%x : f32[64] = placeholder()\n%b : f32[64] = placeholder()\n"
		"%r : f32[64] = placeholder()\n%h = add.Tensor(%x, %b)\n"
		"%half = full.default([], 0.5, dtype=f32)\n%m = mul.Tensor(%half, %h)\n"
		"%k = full.default([], 0.044715, dtype=f32)\n%c = mul.Tensor(%k, %h)\n"
		"%d = mul.Tensor(%c, %h)\n%e = mul.Tensor(%d, %h)\n%f = add.Tensor(%h, %e)\n"
		"%g = mul.Scalar(%f, 0.7978845608)\n%t = tanh.default(%g)\n"
		"%one = full.default([], 1, dtype=f32)\n%u = add.Tensor(%one, %t)\n"
		"%y = mul.Tensor(%m, %u)\n%z = mul.Tensor(%y, %one)\n%o = add.Tensor(%z, %r)\n"
		"%dead = exp.default(%y)\nreturn (%o,)\n";
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = gen_parse(a, gelu);
	unsigned depth[32] = { 0 }, longest = 0, used = 0;
	assert_int_equal(pass(&g, STX_SIMPLIFY_STRICT), 11);
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		const struct stx_node *n = g->nodes.at[i];
		for (uint32_t k = 0; k < n->nargs; k++) {
			const struct stx_node *of = n->args[k].u.tensor.node;
			if (n->args[k].kind != STX_ARG_TENSOR)
				continue;
			depth[i] = depth[of->id] > depth[i] ? depth[of->id] : depth[i];
			used += !strcmp(of->name, "h");
		}
		depth[i] += n->op == STX_OP_ADD || n->op == STX_OP_MUL || n->op == STX_OP_TANH ||
			    n->op == STX_OP_ADD_SCALAR || n->op == STX_OP_MUL_SCALAR;
		longest = depth[i] > longest ? depth[i] : longest;
	}
	assert_int_equal(longest, 10);
	assert_int_equal(used, 5);
	stx_arena_free(a);
}

/* OP-04: the safe rules fire, and leave every bit of -0, infinities, NaN and subnormals; OP-05: x +
 * 0, which would not, stays: -0 + 0 is +0. */
static void test_primer_safe_rules_keep_every_value(void **state)
{
	(void)state;
	static const char text[] =
		"%x : f32[8] = placeholder()\n%one = full.default([8], 1, dtype=f32)\n"
		"%a = mul.Scalar(%x, 1)\n%b = mul.Tensor(%one, %x)\n%c = div.Scalar(%x, 1)\n"
		"%d = sub.Scalar(%x, 0)\n%e = add.Scalar(%x, 0)\nreturn (%a, %b, %c, %d, %e)\n";
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = gen_parse(a, text);
	assert_int_equal(pass(&g, STX_SIMPLIFY_STRICT), 1);
	assert_int_equal(count_op(g, STX_OP_ADD_SCALAR), 1);
	for (uint32_t i = 0; i < 4; i++)
		assert_ptr_equal(g->outputs.at[i].val.node, g->inputs.at[0].node);
	stx_arena_free(a);
#define VALUES -0.0, 0.0, INFINITY, -INFINITY, NAN, 0x1p-149, -0x1p-130, 3e38
	case_check(&(struct stated){
		.text = text,
		.in = { V(VALUES) },
		.out = { V(VALUES), V(VALUES), V(VALUES), V(VALUES),
			 V(0.0, 0.0, INFINITY, -INFINITY, NAN, 0x1p-149, -0x1p-130, 3e38) } });
#undef VALUES
}

/* OP-05, OP-15: by default the x+0 stays, since it changes -0 */
static void test_primer_swiglu_by_default_keeps_the_addition(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = gen_parse(a, swiglu);
	assert_int_equal(pass(&g, STX_SIMPLIFY_STRICT), 8);
	assert_int_equal(count_op(g, STX_OP_ADD_SCALAR), 1);
	stx_arena_free(a);
}

/* OP-08: g*(1/t) and g/t stay two, and are two values for 25.6 % of pairs from [0.1, 10) */
static void test_primer_equal_values_in_other_spellings_stay(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g =
		gen_parse(a, "%g : f32[8] = placeholder()\n%t : f32[8] = placeholder()\n"
			     "%one : f32[] = constant([1.0])\n"
			     "%r = div.Tensor(%one, %t)\n%p = mul.Tensor(%g, %r)\n"
			     "%q = div.Tensor(%g, %t)\nreturn (%p, %q)\n");
	assert_int_equal(pass(&g, STX_SIMPLIFY_FAST), 3);
	uint64_t seed = 8;
	int differ = 0, n = 20000;
	for (int i = 0; i < n; i++) {
		volatile float x = 0.1f + 9.9f * ((float)(gen_next(&seed) >> 40) * 0x1p-24f),
			       y = 0.1f + 9.9f * ((float)(gen_next(&seed) >> 40) * 0x1p-24f),
			       r = 1 / y, p = x * r, q = x / y;
		differ += p != q;
	}
	assert_true(fabs((double)differ / n - 0.256) < 0.01); /* three deviations */
	stx_arena_free(a);
}

/* OP-10 */
static void test_primer_order_of_passes_matters_once(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = gen_parse(a, exercise);
	assert_int_equal(instructions(g), 3);
	assert_int_equal(pass(&g, FOLD), 2);
	assert_int_equal(pass(&g, UNSAFE), 0);
	assert_int_equal(pass(&g, CSE), 0);
	assert_int_equal(pass(&g, DCE), 0);
	assert_ptr_equal(g->outputs.at[0].val.node, g->inputs.at[1].node);
	g = gen_parse(a, exercise);
	assert_int_equal(pass(&g, UNSAFE), 3);
	assert_int_equal(pass(&g, FOLD), 2);
	assert_int_equal(pass(&g, CSE), 2);
	assert_int_equal(pass(&g, DCE), 2);
	assert_int_equal(count_op(g, STX_OP_MUL), 1);
	assert_int_equal(count_op(g, STX_OP_ADD), 1);
	stx_arena_free(a);
}

/* OP-11 */
static void test_primer_fixpoint_makes_the_order_irrelevant(void **state)
{
	(void)state;
	static const unsigned group[] = { UNSAFE, FOLD, CSE, DCE };
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = gen_parse(a, exercise);
	unsigned after[3];
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < 4; i++)
			after[round] = pass(&g, group[i]);
	assert_int_equal(after[0], 2);
	assert_int_equal(after[1], 0);
	assert_int_equal(after[2], 0);
	assert_ptr_equal(g->outputs.at[0].val.node, g->inputs.at[1].node);
	g = gen_parse(a,
		      exercise); /* in one walk, as the compiler runs them, no rounds are needed */
	assert_int_equal(pass(&g, STX_SIMPLIFY_FAST), 0);
	stx_arena_free(a);
}

/* OP-12 */
static void test_primer_safe_mode_keeps_two_instructions(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = gen_parse(a, exercise);
	for (int round = 0; round < 3; round++)
		assert_int_equal(pass(&g, STX_SIMPLIFY_STRICT), 2);
	assert_int_equal(count_op(g, STX_OP_MUL), 1);
	stx_arena_free(a);
}

/* OP-14 */
static void test_primer_passes_never_add_instructions_and_end(void **state)
{
	(void)state;
	static const unsigned group[] = { FOLD, SIMPLIFY, UNSAFE, CSE, DCE };
	uint64_t seed = 14;
	for (int i = 0; i < 150; i++) {
		struct stx_arena *a = stx_arena_new(0);
		struct stx_graph *g = gen_random(a, &seed, 40);
		unsigned n = instructions(g), rounds = 0, before;
		do {
			before = n;
			for (int k = 0; k < 5; k++) {
				unsigned now = pass(&g, group[k]);
				assert_true(now <= n);
				n = now;
			}
			assert_true(++rounds < 20);
		} while (n < before);
		pass(&g, STX_SIMPLIFY_FAST);
		const char *once = gen_print(a, g);
		pass(&g, STX_SIMPLIFY_FAST);
		assert_string_equal(once, gen_print(a, g));
		stx_arena_free(a);
	}
}

static unsigned products_left(int fast)
{
	static const char text[] = "%x : f32[8] = placeholder()\n%a = mul.Scalar(%x, 0)\n"
				   "%s = sub.Tensor(%x, %x)\n%p = add.Tensor(%a, %s)\n"
				   "return (%p,)\n";
	struct stx_source s = { .format = STX_FORMAT_TEXT,
				.body = { (const uint8_t *)text, sizeof text - 1 } };
	struct stx_compile_options o = { .target = "cpu:x86-64-v3", .fast = fast };
	struct stx_bytes b = { 0 };
	struct stx_diag d = { 0 };
	if (stx_compile_dump(compiled_compiler(), &s, &o, "primitives", "text", &b, &d))
		fail_msg("%s", d.text);
	unsigned n = (strstr(stx_bytes_cstr(&b), "mul.Scalar") != NULL) +
		     (strstr(stx_bytes_cstr(&b), "sub.Tensor") != NULL);
	stx_bytes_free(&b);
	return n;
}

/* OP-15, DF-07: one switch, and it is off by default */
static void test_primer_one_switch_allows_rules_of_the_reals(void **state)
{
	(void)state;
	assert_int_equal(products_left(0), 2);
	assert_int_equal(products_left(1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_primer_swiglu_goes_from_16_to_7_instructions),
		cmocka_unit_test(test_primer_gelu_is_11_instructions_in_a_chain_of_10),
		cmocka_unit_test(test_primer_safe_rules_keep_every_value),
		cmocka_unit_test(test_primer_swiglu_by_default_keeps_the_addition),
		cmocka_unit_test(test_primer_equal_values_in_other_spellings_stay),
		cmocka_unit_test(test_primer_order_of_passes_matters_once),
		cmocka_unit_test(test_primer_fixpoint_makes_the_order_irrelevant),
		cmocka_unit_test(test_primer_safe_mode_keeps_two_instructions),
		cmocka_unit_test(test_primer_passes_never_add_instructions_and_end),
		cmocka_unit_test(test_primer_one_switch_allows_rules_of_the_reals),
	};
	return cmocka_run_group_tests(tests, case_setup, NULL);
}
