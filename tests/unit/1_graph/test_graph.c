/* test_graph.c: construction of graphs: overloads, defaults, names, users, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "graph_gen.h"
#include "passes.h"

#define EXAMPLE                                                                                    \
	"%primals_1 : f32[64,128] [num_users=1] = placeholder()\n"                                 \
	"%primals_2 : f32[64,128] [num_users=1] = placeholder()\n"                                 \
	"%add : f32[64,128] [num_users=1] = add.Tensor(%primals_1, %primals_2, alpha=1)\n"         \
	"%relu : f32[64,128] [num_users=1] = relu.default(%add)\n"                                 \
	"%mul : f32[64,128] [num_users=1] = mul.Scalar(%relu, 2)\n"                                \
	"%sum_0 : f32[64] [num_users=1] = sum.dim_IntList(%mul, [-1], False, dtype=None)\n"        \
	"return (%sum_0,)\n"

static struct stx_node *call(struct stx_graph *g, const char *base, const struct stx_arg *args,
			     uint32_t n)
{
	int op = stx_op_choose(base, args, n);
	assert_true(op >= 0);
	struct stx_diag d = { 0 };
	struct stx_node *r = stx_graph_call(g, (enum stx_op)op, NULL, args, n, &d);
	if (!r)
		fail_msg("%s: %s", base, d.text);
	return r;
}

/* ((x+y).relu()*2).sum(-1), overloads chosen by argument kinds. */
static struct stx_graph *example(struct stx_arena *a)
{
	struct stx_graph *g = stx_graph_new(a);
	struct stx_type t = stx_type_make(g, STX_F32, 2, (int64_t[]){ 64, 128 });
	struct stx_node *x = stx_graph_input(g, NULL, t, NULL, 0, NULL);
	struct stx_node *y = stx_graph_input(g, NULL, t, NULL, 0, NULL);
	struct stx_node *n =
		call(g, "add", (struct stx_arg[]){ stx_arg_node(x), stx_arg_node(y) }, 2);
	n = call(g, "relu", (struct stx_arg[]){ stx_arg_node(n) }, 1);
	n = call(g, "mul", (struct stx_arg[]){ stx_arg_node(n), stx_arg_scalar_i(2) }, 2);
	n = call(g, "sum", (struct stx_arg[]){ stx_arg_node(n), stx_arg_int(g, -1) }, 2);
	assert_int_equal(stx_graph_output(g, stx_val(n, 0), NULL, NULL), 0);
	return g;
}

/* OG-06, OG-11: exactly these nodes, names, shapes and users; the same bytes every time. */
static void test_graph_example_1_1_prints_exactly(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0), *b = stx_arena_new(0);
	struct stx_graph *g = example(a);
	assert_int_equal(stx_graph_verify(g, NULL), 0);
	assert_int_equal(g->nodes.n, 6);
	assert_int_equal(g->inputs.n, 2);
	const uint32_t *users = stx_graph_users(g, a);
	assert_non_null(users);
	for (uint32_t i = 0; i < g->nodes.n; i++)
		assert_int_equal(users[i], 1);
	assert_string_equal(gen_print(a, g), EXAMPLE);
	assert_string_equal(gen_print(b, example(b)), EXAMPLE);
	struct stx_digest d1, d2;
	struct stx_graph *c1, *c2;
	assert_int_equal(stx_graph_canonical(g, a, &c1, NULL), 0);
	assert_int_equal(stx_graph_canonical(example(b), b, &c2, NULL), 0);
	assert_int_equal(stx_graph_digest(c1, &d1, NULL), 0);
	assert_int_equal(stx_graph_digest(c2, &d2, NULL), 0);
	assert_true(stx_digest_eq(&d1, &d2));
	stx_arena_free(a);
	stx_arena_free(b);
}

/* Counts are printed, so they are part of a key: where there is no memory for them there is no
 * text, rather than another one. */
static void test_graph_print_without_memory_fails_and_prints_nothing(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new((size_t)1 << 20);
	struct stx_graph *g = example(a);
	struct stx_bytes out = { 0 };
	struct stx_node *relu = g->nodes.at[3];
	g->nodes.at[4]->args[1] = g->nodes.at[4]->args[0]; /* a value used twice by one node */
	assert_ptr_equal(g->nodes.at[4]->args[1].u.tensor.node, relu);
	assert_int_equal(stx_graph_users(g, a)[3], 1);
	while (stx_arena_alloc(a, 8))
		;
	assert_int_equal(stx_graph_print(g, &out), STX_E_NOMEM);
	assert_int_equal(out.n, 0);
	stx_arena_free(a);
}

/* OG-07: the printed form parses back to the identical graph. */
static void test_graph_example_1_1_from_text_identical(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	assert_string_equal(gen_print(a, gen_parse(a, EXAMPLE)), EXAMPLE);
	assert_string_equal(gen_print(a, gen_parse(a, "%primals_1 : f32[64,128] = placeholder()\n"
						      "%primals_2 : f32[64,128] = placeholder()\n"
						      "%add = add.Tensor(%primals_1, %primals_2)\n"
						      "%relu = relu.default(%add)\n"
						      "%mul = mul.Scalar(%relu, 2)\n"
						      "%sum_0 = sum.dim_IntList(%mul, -1)\n"
						      "return (%sum_0)")),
			    EXAMPLE);
	stx_arena_free(a);
}

/* OG-02: unknown overloads and generic callables are refused by name. */
static void test_graph_unknown_overload_rejected(void **state)
{
	(void)state;
	static const char *const bad[] = { "operator.add", "F.gelu", "add",
					   "add.Tensr",    "gelu",   "aten.add.Tensor" };
	struct stx_arena *a = stx_arena_new(0);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		const char *e = gen_error(a, stx_arena_printf(a,
							      "%%a : f32[2] = placeholder()\n"
							      "%%b = %s(%%a, %%a)\nreturn (%%b,)",
							      bad[i]));
		assert_non_null(e);
		assert_non_null(strstr(e, stx_arena_printf(a, "2:6: '%s'", bad[i])));
	}
	assert_int_equal(stx_op_find("add", 3), -1);
	assert_int_equal(stx_op_find("add.Tensor", 10), STX_OP_ADD);
	assert_null(stx_graph_call(stx_graph_new(a), STX_OP_PLACEHOLDER, NULL, NULL, 0, NULL));
	stx_arena_free(a);
}

/* OG-03 */
static void test_graph_overload_by_argument_kinds(void **state)
{
	(void)state;
	struct stx_arg t = { .kind = STX_ARG_TENSOR }, s = stx_arg_scalar_i(2),
		       f = stx_arg_scalar_f(2);
	struct stx_arg i = stx_arg_ex(1);
	assert_int_equal(stx_op_choose("add", (struct stx_arg[]){ t, t }, 2), STX_OP_ADD);
	assert_int_equal(stx_op_choose("mul", (struct stx_arg[]){ t, s }, 2), STX_OP_MUL_SCALAR);
	assert_int_equal(stx_op_choose("mul", (struct stx_arg[]){ t, f }, 2), STX_OP_MUL_SCALAR);
	assert_int_equal(stx_op_choose("sum", (struct stx_arg[]){ t, i }, 2), STX_OP_SUM_DIM);
	assert_int_equal(stx_op_choose("sum", (struct stx_arg[]){ t }, 1), STX_OP_SUM);
	assert_int_equal(stx_op_choose("relu", (struct stx_arg[]){ t }, 1), STX_OP_RELU);
	assert_int_equal(stx_op_choose("gelu", (struct stx_arg[]){ t }, 1), STX_OP_GELU);
	assert_int_equal(stx_op_choose("pow", (struct stx_arg[]){ t, s }, 2), STX_OP_POW_SCALAR);
	assert_int_equal(stx_op_choose("mul", (struct stx_arg[]){ t }, 1), -1);
	assert_int_equal(stx_op_choose("nothing", (struct stx_arg[]){ t }, 1), -1);
}

/* OG-04: defaults are there; other values survive (what they compute: OG-05, test_graph_forms.c).
 */
static void test_graph_defaults_made_explicit(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g =
		gen_parse(a, "%x : f32[2,3] = placeholder()\n%add = add.Tensor(%x, %x)\n"
			     "%three = add.Tensor(%x, %x, alpha=3)\n"
			     "%total = sum.dim_IntList(%x, [-1])\n"
			     "%kept = sum.dim_IntList(%x, [-1], True)\n%gelu = gelu.default(%x)\n"
			     "return (%add, %three, %total, %kept, %gelu)");
	struct stx_node **n = g->nodes.at;
	int64_t v;
	assert_int_equal(n[1]->nargs, 3);
	assert_int_equal(n[1]->args[2].u.i, 1);
	assert_int_equal(n[2]->args[2].u.i, 3);
	assert_int_equal(n[3]->args[1].n, 1);
	assert_true(stx_ex_is_const(g->ex, n[3]->args[1].u.exs[0], &v) && v == -1);
	assert_int_equal(n[3]->args[2].kind, STX_ARG_BOOL);
	assert_int_equal(n[3]->args[2].u.i, 0);
	assert_int_equal(n[3]->args[3].kind, STX_ARG_NONE);
	assert_int_equal(n[3]->outs[0].rank, 1);
	assert_int_equal(n[4]->outs[0].rank, 2);
	assert_string_equal(n[5]->args[1].u.str, "none");
	stx_arena_free(a);
}

/* OG-07: builtins always get a suffix, other names when they repeat; bad characters become _. */
static void test_graph_names_unique(void **state)
{
	(void)state;
	static const struct {
		const char *candidate, *got;
	} cases[] = {
		{ "matmul", "matmul" },
		{ "matmul", "matmul_0" },
		{ "matmul", "matmul_1" },
		{ "sum", "sum_0" },
		{ "sum", "sum_1" },
		{ "max", "max_0" },
		{ "slice", "slice_0" },
		{ "lambda", "lambda_0" },
		{ "round", "round_0" },
		{ "summer", "summer" },
		{ "su", "su" },
		{ "model/conv:0", "model_conv_0" },
		{ "7up", "_7up" },
		{ "", "_" },
		{ "matmul_2", "matmul_2" },
		{ "matmul", "matmul_3" },
	};
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = stx_graph_new(a);
	struct stx_node *x =
		stx_graph_input(g, NULL, stx_type_make(g, STX_F32, 0, NULL), NULL, 0, NULL);
	struct stx_arg arg = stx_arg_node(x);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		assert_string_equal(
			stx_graph_call(g, STX_OP_NEG, cases[i].candidate, &arg, 1, NULL)->name,
			cases[i].got);
	assert_string_equal(stx_graph_call(g, STX_OP_ABS, NULL, &arg, 1, NULL)->name, "abs_0");
	stx_arena_free(a);
}

static void test_graph_wrong_arguments_rejected(void **state)
{
	(void)state;
	static const char *const bad[][2] = {
		{ "add.Tensor(%a)", "argument 'other' is missing" },
		{ "add.Tensor(%a, 2)", "expected a tensor" },
		{ "add.Tensor(%a, %a, 3)", "positional" },
		{ "add.Tensor(%a, %a, beta=3)", "has no argument 'beta'" },
		{ "add.Tensor(%a, %a, alpha=1, alpha=1)", "given twice" },
		{ "add.Tensor(%a, %a, alpha=None)", "must be a number" },
		{ "add.Tensor(%a, None)", "must be a tensor" },
		{ "sum.dim_IntList(%a, [5])", "out of range" },
		{ "sum.dim_IntList(%a, [0, 0])", "twice" },
		{ "gelu.default(%a, approximate='sigmoid')", "sigmoid" },
		{ "clamp.default(%b, 'x')", "number" },
		/* Sizes are stated, and what is plain is not called unproved. */
		{ "view.default(%a, [-1, 5])",
		  "f32[-1,5] is no view of f32[2]: the number of elements, 2, differs" },
		{ "view.default(%a, [3])",
		  "f32[3] is no view of f32[2]: the number of elements, 2, differs" },
		{ "mm.default(%m, %m)", "the inner sizes 2 and 3 differ" },
		{ "add_.Tensor(%a, %m)", "the result of add.Tensor, f32[3,2], does not have the "
					 "sizes of f32[2]" },
		{ "div.Tensor_mode(%a, %a, rounding_mode=floor)",
		  "expected a string in single quotes: 'floor'" },
		{ "exp(%a)", "did you mean 'exp.default'?" },
	};
	struct stx_arena *a = stx_arena_new(0);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		const char *e = gen_error(a, stx_arena_printf(a,
							      "%%a : f32[2] = placeholder()\n"
							      "%%b : i64[2] = placeholder() "
							      "%%m : f32[3,2] = placeholder()\n"
							      "%%c = %s\nreturn (%%c,)",
							      bad[i][0]));
		if (!e || !strstr(e, bad[i][1]))
			fail_msg("%s: %s", bad[i][0], e ? e : "accepted");
		assert_memory_equal(e, "3:", 2);
	}
	stx_arena_free(a);
}

static void test_graph_foreign_operand_rejected(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = example(a), *h = example(a);
	struct stx_arg arg = stx_arg_node(h->nodes.at[2]);
	struct stx_diag d = { 0 };
	assert_null(stx_graph_call(g, STX_OP_NEG, NULL, &arg, 1, &d));
	assert_int_equal(d.code, STX_E_INVALID);
	arg = stx_arg_tensor(stx_val(g->nodes.at[2], 1));
	assert_null(stx_graph_call(g, STX_OP_NEG, NULL, &arg, 1, NULL));
	assert_int_not_equal(stx_graph_output(g, stx_val(h->nodes.at[0], 0), NULL, NULL), 0);
	stx_arena_free(a);
}

/* Too large is an error that names node and size, at 2^40 elements and beyond 64 bits. */
static void test_graph_limits_too_large(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"%a : f32[1048576,1048576] = placeholder()\nreturn (%a,)",
		"%a : f32[9223372036854775806,9223372036854775806] = placeholder()\nreturn (%a,)",
		"%a : f32[] = placeholder()\n%big = expand.default(%a, [1048576, 1048576])\nreturn "
		"(%big,)",
		"%a : f32[1] = placeholder()\n%big = expand.default(%a, [1099511627776])\nreturn "
		"(%big,)",
	};
	struct stx_graph *g;
	struct stx_arena *a = stx_arena_new(0);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct stx_diag d = { 0 };
		assert_int_equal(stx_graph_parse(a, bad[i], strlen(bad[i]), &g, &d),
				 STX_E_TOO_LARGE);
		assert_string_equal(d.node, i < 2 ? "a" : "big");
		assert_non_null(strstr(d.text, "2^40"));
	}
	assert_null(gen_error(a, "%a : f32[1048575,1048576] = placeholder()\nreturn (%a,)"));
	assert_non_null(gen_error(
		a, "%a : f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] = placeholder()\nreturn (%a,)"));
	assert_non_null(gen_error(a, "%a : f32[-1] = placeholder()\nreturn (%a,)"));
	stx_arena_free(a);
}

/* Budget errors surface; nothing crashes whatever the budget. */
static void test_graph_small_budget_reports(void **state)
{
	(void)state;
	for (size_t budget = 1000; budget < 60000; budget += 997) {
		struct stx_arena *a = stx_arena_new(budget);
		struct stx_graph *g, *c;
		struct stx_diag d = { 0 };
		stx_err e = stx_graph_parse(a, EXAMPLE, strlen(EXAMPLE), &g, &d);
		if (!e)
			e = stx_graph_canonical(g, a, &c, &d);
		if (!e)
			e = stx_graph_decompose_to_basis(&c, &d);
		if (!e)
			e = stx_graph_simplify(&c, STX_SIMPLIFY_STRICT, &d);
		assert_true(e == 0 || e == STX_E_TOO_LARGE || e == STX_E_NOMEM);
		assert_true(e == 0 || d.code == e);
		stx_arena_free(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graph_example_1_1_prints_exactly),
		cmocka_unit_test(test_graph_print_without_memory_fails_and_prints_nothing),
		cmocka_unit_test(test_graph_example_1_1_from_text_identical),
		cmocka_unit_test(test_graph_unknown_overload_rejected),
		cmocka_unit_test(test_graph_overload_by_argument_kinds),
		cmocka_unit_test(test_graph_defaults_made_explicit),
		cmocka_unit_test(test_graph_names_unique),
		cmocka_unit_test(test_graph_wrong_arguments_rejected),
		cmocka_unit_test(test_graph_foreign_operand_rejected),
		cmocka_unit_test(test_graph_limits_too_large),
		cmocka_unit_test(test_graph_small_budget_reports),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
