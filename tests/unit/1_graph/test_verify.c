/* test_verify.c: every kind of damage to a graph is found, and verify changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "graph_gen.h"
#include "passes.h"

#define TEXT                                                                                       \
	"%a : f32[2,3] = placeholder()\n%k : f32[3] = constant([1, 2, 3])\n%c = add.Tensor(%a, "   \
	"%k)\n"                                                                                    \
	"%s = sum.dim_IntList(%c, [1])\n%p = gt.Scalar(%k, 0)\n%q = any.dims(%p)\n"                \
	"%e = _assert_async.msg(%q, 'm')\n%f = _assert_async.msg(%q, 'n')\nreturn (%s, %c)"

enum { A, K, C, S, P, Q, E, F };

static void damage_order(struct stx_graph *g)
{
	struct stx_node *n = g->nodes.at[C];
	g->nodes.at[C] = g->nodes.at[S];
	g->nodes.at[S] = n;
	g->nodes.at[C]->id = C;
	g->nodes.at[S]->id = S;
}
static void damage_id(struct stx_graph *g)
{
	g->nodes.at[S]->id = C;
}
static void damage_op(struct stx_graph *g)
{
	g->nodes.at[S]->op = (enum stx_op)60000;
}
static void damage_dtype(struct stx_graph *g)
{
	g->nodes.at[C]->outs[0].dtype = STX_F64;
}
static void damage_rank(struct stx_graph *g)
{
	g->nodes.at[C]->outs[0].rank = 1;
}
static void damage_size(struct stx_graph *g)
{
	((stx_ex *)g->nodes.at[A]->outs[0].sizes)[0] = stx_ex_const(g->ex, 5);
}
static void damage_size_bad(struct stx_graph *g)
{
	((stx_ex *)g->nodes.at[A]->outs[0].sizes)[0] = STX_EX_BAD;
}
static void damage_nargs(struct stx_graph *g)
{
	g->nodes.at[C]->nargs = 2;
}
static void damage_kind(struct stx_graph *g)
{
	g->nodes.at[S]->args[2] = stx_arg_scalar_i(0);
}
static void damage_operand(struct stx_graph *g)
{
	g->nodes.at[C]->args[0].u.tensor.out = 1;
}
static void damage_self(struct stx_graph *g)
{
	g->nodes.at[C]->args[0].u.tensor.node = g->nodes.at[C];
}
static void damage_null(struct stx_graph *g)
{
	g->nodes.at[C]->args[0].u.tensor.node = NULL;
}
static void damage_name(struct stx_graph *g)
{
	g->nodes.at[C]->name = "a";
}
static void damage_reserved(struct stx_graph *g)
{
	g->nodes.at[C]->name = "sum";
}
static void damage_noname(struct stx_graph *g)
{
	g->nodes.at[C]->name = NULL;
}
static void damage_data(struct stx_graph *g)
{
	g->nodes.at[K]->data.n = 8;
}
static void damage_serial(struct stx_graph *g)
{
	g->nodes.at[F]->serial = 1;
}
static void damage_no_serial(struct stx_graph *g)
{
	g->nodes.at[F]->serial = 0;
}
static void damage_serial_pure(struct stx_graph *g)
{
	g->nodes.at[C]->serial = 9;
}
static void damage_inputs(struct stx_graph *g)
{
	g->inputs.n = 0;
}
static void damage_input_node(struct stx_graph *g)
{
	g->inputs.at[0].node = g->nodes.at[K];
}
static void damage_outputs(struct stx_graph *g)
{
	g->outputs.n = 0;
}
static void damage_output(struct stx_graph *g)
{
	g->outputs.at[0].val.out = 7;
}
static void damage_output_effect(struct stx_graph *g)
{
	g->outputs.at[0].val.node = g->nodes.at[E];
}

static void test_verify_damage_is_found(void **state)
{
	(void)state;
	static void (*const damages[])(struct stx_graph *) = {
		damage_order,      damage_id,        damage_op,          damage_dtype,
		damage_rank,       damage_size,      damage_size_bad,    damage_nargs,
		damage_kind,       damage_operand,   damage_self,        damage_null,
		damage_name,       damage_reserved,  damage_noname,      damage_data,
		damage_serial,     damage_no_serial, damage_serial_pure, damage_inputs,
		damage_input_node, damage_outputs,   damage_output,      damage_output_effect,
	};
	for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
		struct stx_arena *a = stx_arena_new(0);
		struct stx_graph *g = gen_parse(a, TEXT);
		struct stx_diag d = { 0 };
		damages[i](g);
		stx_err e = stx_graph_verify(g, &d);
		if (!e || d.code != e || !d.text[0])
			fail_msg("damage %zu is not found", i);
		stx_arena_free(a);
	}
}

static void test_verify_changes_nothing(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = gen_parse(a, TEXT);
	const char *before = gen_print(a, g);
	size_t used = stx_arena_used(a);
	for (int i = 0; i < 100; i++)
		assert_int_equal(stx_graph_verify(g, NULL), 0);
	assert_int_equal(stx_arena_used(a), used);
	assert_string_equal(before, gen_print(a, g));
	stx_arena_free(a);
}

/* What is left outside the basis (OG-08: nothing) would be refused by name. */
static void test_verify_basis_names_operator(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g =
		gen_parse(a, "%a : f32[2] = placeholder()\n%b = silu.default(%a)\nreturn (%b)");
	struct stx_diag d = { 0 };
	assert_int_equal(stx_graph_verify_basis(g, &d), STX_E_UNSUPPORTED);
	assert_non_null(strstr(d.text, "silu.default"));
	assert_string_equal(d.node, "b");
	stx_arena_free(a);
}

static void test_verify_symbols_need_an_input_of_that_size(void **state)
{
	static const struct {
		const char *text;
		int ok;
	} all[] = {
		{ "sym n = [1,9] hint 4\n%x : f32[n,n+1] = placeholder()\nreturn (%x,)", 1 },
		{ "sym n = [1,9] hint 4\n%x : f32[2*n] = placeholder()\n"
		  "%y : f32[n] = placeholder()\nreturn (%x,)",
		  1 },
		{ "sym n = [1,9] hint 4\n%x : f32[n+1] = placeholder()\nreturn (%x,)", 0 },
		{ "sym n = [1,9] hint 4\nsym m = [1,9] hint 4\n%x : f32[n,n*m] = placeholder()\n"
		  "return (%x,)",
		  0 },
		{ "sym n = [1,9] hint 4\n%x : f32[4,4] = placeholder(strides=[n,1])\nreturn (%x,)",
		  0 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct stx_arena *a = stx_arena_new(0);
		struct stx_graph *g = gen_parse(a, all[i].text);
		struct stx_diag d = { 0 };
		assert_int_equal(stx_graph_verify_symbols(g, &d), all[i].ok ? 0 : STX_E_INVALID);
		if (!all[i].ok) {
			assert_string_equal(d.node, "x");
			assert_non_null(strstr(d.text, "the size of no input"));
		}
		stx_arena_free(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_verify_damage_is_found),
		cmocka_unit_test(test_verify_changes_nothing),
		cmocka_unit_test(test_verify_basis_names_operator),
		cmocka_unit_test(test_verify_symbols_need_an_input_of_that_size),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
