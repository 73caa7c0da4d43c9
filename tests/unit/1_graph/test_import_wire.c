/* test_import_wire.c: the wire graph says what the text form says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "graph.pb-c.h"
#include "graph_gen.h"
#include "import.h"
#include "passes.h"

/* %y = target(%x, 1, 3, end), or of its first nargs arguments, of an f32[4,8], packed. */
static struct stx_bytes slice_to(int64_t end, const char *input, const char *target, size_t nargs)
{
	Stx__WireGraph g = STX__WIRE_GRAPH__INIT;
	Stx__WireInput in = STX__WIRE_INPUT__INIT, *ins[] = { &in };
	Stx__WireDim size[2] = { STX__WIRE_DIM__INIT, STX__WIRE_DIM__INIT };
	Stx__WireDim *sizes[] = { &size[0], &size[1] };
	Stx__WireNode node = STX__WIRE_NODE__INIT, *nodes[] = { &node };
	Stx__WireRef x = STX__WIRE_REF__INIT, y = STX__WIRE_REF__INIT;
	Stx__WireDim number[3];
	Stx__WireArg arg[4], *args[4];
	Stx__WireOutput out = STX__WIRE_OUTPUT__INIT, *outs[] = { &out };
	const int64_t numbers[3] = { 1, 3, end };
	struct stx_bytes b = { 0 };
	size[0].d_case = size[1].d_case = STX__WIRE_DIM__D_VALUE;
	size[0].value = 4;
	size[1].value = 8;
	in.name = (char *)(uintptr_t)input;
	in.dtype = STX_F32;
	in.n_sizes = 2;
	in.sizes = sizes;
	x.name = "x";
	for (int i = 0; i < 4; i++) {
		stx__wire_arg__init(&arg[i]);
		args[i] = &arg[i];
		if (i == 0) {
			arg[i].v_case = STX__WIRE_ARG__V_TENSOR;
			arg[i].tensor = &x;
			continue;
		}
		stx__wire_dim__init(&number[i - 1]);
		number[i - 1].d_case = STX__WIRE_DIM__D_VALUE;
		number[i - 1].value = numbers[i - 1];
		arg[i].v_case = STX__WIRE_ARG__V_INT_VALUE;
		arg[i].int_value = &number[i - 1];
	}
	node.name = "y";
	node.target = (char *)(uintptr_t)target;
	node.n_args = nargs;
	node.args = args;
	y.name = "y";
	out.name = "y";
	out.value = &y;
	g.version = 1;
	g.n_inputs = g.n_nodes = g.n_outputs = 1;
	g.inputs = ins;
	g.nodes = nodes;
	g.outputs = outs;
	stx_bytes_reserve(&b, stx__wire_graph__get_packed_size(&g));
	b.n = stx__wire_graph__pack(&g, b.at);
	return b;
}

static stx_err import(struct stx_arena *a, const struct stx_bytes *b, struct stx_graph **g,
		      struct stx_diag *d)
{
	struct stx_import_options o = { 0 };
	struct stx_import_result r = { 0 };
	stx_err e = stx_import(a, STX_FORMAT_WIRE, (struct stx_span){ b->at, b->n }, &o, &r, d);
	*g = r.graph;
	return e;
}

/* PyTorch's x[:, 3:] ends at sys.maxsize. */
static void test_import_wire_slice_to_the_largest_integer_is_to_the_end(void **state)
{
	(void)state;
	static const int64_t ends[] = { INT64_MAX, INT64_MAX - 1, 8 };
	struct stx_arena *a = stx_arena_new(0);
	const char *want = gen_canonical(a, gen_parse(a, "%x : f32[4,8] = placeholder()\n"
							 "%y = slice.Tensor(%x, 1, 3, "
							 "9223372036854775807)\nreturn (%y,)"));
	for (int i = 0; i < 3; i++) {
		struct stx_bytes b = slice_to(ends[i], "x", "slice.Tensor", 4);
		struct stx_graph *g;
		struct stx_diag d = { 0 };
		if (import(a, &b, &g, &d))
			fail_msg("%s", d.text);
		assert_int_equal(stx_graph_verify(g, &d), 0);
		assert_string_equal(gen_canonical(a, g), want);
		stx_bytes_free(&b);
	}
	stx_arena_free(a);
}

/* A name is not its beginning: "x\0y" would otherwise be taken for "x". */
static void test_import_wire_name_with_a_zero_byte_is_refused(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_bytes b = slice_to(8, "x#y", "slice.Tensor", 4);
	struct stx_graph *g;
	struct stx_diag d = { 0 };
	uint8_t *at = memchr(b.at, '#', b.n);
	assert_non_null(at);
	*at = 0;
	assert_int_equal(import(a, &b, &g, &d), STX_E_INVALID);
	assert_non_null(strstr(d.text, "zero byte"));
	stx_bytes_free(&b);
	stx_arena_free(a);
}

/* An overload with an underscore writes its operand. */
static void test_import_wire_operator_in_place_is_one(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	const char *want = gen_canonical(a, gen_parse(a, "%x : f32[4,8] = placeholder()\n"
							 "%y = relu.default(%x)\n"
							 "return (%y in %x, %y to %x)"));
	struct stx_bytes b = slice_to(8, "x", "relu_.default", 1);
	struct stx_graph *g;
	struct stx_diag d = { 0 };
	if (import(a, &b, &g, &d))
		fail_msg("%s", d.text);
	assert_int_equal(g->nodes.at[1]->is_in_place, 1);
	assert_int_equal(stx_graph_verify(g, &d), STX_E_INVALID);
	assert_int_equal(stx_graph_functionalise(g, &d), 0);
	assert_int_equal(stx_graph_verify(g, &d), 0);
	assert_string_equal(gen_canonical(a, g), want);
	stx_bytes_free(&b);
	stx_arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_import_wire_slice_to_the_largest_integer_is_to_the_end),
		cmocka_unit_test(test_import_wire_operator_in_place_is_one),
		cmocka_unit_test(test_import_wire_name_with_a_zero_byte_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
