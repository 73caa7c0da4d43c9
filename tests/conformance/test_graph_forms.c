/* test_graph_forms.c: what reaches the compiler is one kind of graph, whatever form it was sent in,
 * and the types recorded on it are those of the compiled results (OG-01, OG-05, OG-12, SE-01). */
#include "cases.h"

#include "kernel.h"
#include "loops.h"

#include "graph.pb-c.h"
#include "onnx_text.h"

/* ---- relu(x + x) in the three forms ---- */

static const char text_form[] = "%x : f32[2,3] = placeholder()\n%a = add.Tensor(%x, %x)\n"
				"%y = relu.default(%a)\nreturn (%y as 'y',)\n";

static size_t wire_form(uint8_t *out)
{
	Stx__WireDim dims[2] = { STX__WIRE_DIM__INIT, STX__WIRE_DIM__INIT };
	Stx__WireDim *sizes[2] = { &dims[0], &dims[1] };
	Stx__WireInput in = STX__WIRE_INPUT__INIT, *ins[] = { &in };
	Stx__WireRef refs[4] = { STX__WIRE_REF__INIT, STX__WIRE_REF__INIT, STX__WIRE_REF__INIT,
				 STX__WIRE_REF__INIT };
	Stx__WireArg args[3] = { STX__WIRE_ARG__INIT, STX__WIRE_ARG__INIT, STX__WIRE_ARG__INIT };
	Stx__WireArg *two[] = { &args[0], &args[1] }, *one[] = { &args[2] };
	Stx__WireNode nodes[2] = { STX__WIRE_NODE__INIT, STX__WIRE_NODE__INIT };
	Stx__WireNode *list[] = { &nodes[0], &nodes[1] };
	Stx__WireOutput o = STX__WIRE_OUTPUT__INIT, *outs[] = { &o };
	Stx__WireGraph g = STX__WIRE_GRAPH__INIT;
	static char x[] = "x", a[] = "a", y[] = "y", add[] = "add.Tensor", relu[] = "relu.default";
	dims[0].d_case = dims[1].d_case = STX__WIRE_DIM__D_VALUE;
	dims[0].value = 2;
	dims[1].value = 3;
	in.name = refs[0].name = refs[1].name = x;
	in.dtype = STX_F32;
	in.n_sizes = 2;
	in.sizes = sizes;
	for (int i = 0; i < 3; i++) {
		args[i].v_case = STX__WIRE_ARG__V_TENSOR;
		args[i].tensor = &refs[i];
	}
	nodes[0].name = refs[2].name = a;
	nodes[0].target = add;
	nodes[0].n_args = 2;
	nodes[0].args = two;
	nodes[1].name = refs[3].name = o.name = y;
	nodes[1].target = relu;
	nodes[1].n_args = 1;
	nodes[1].args = one;
	o.value = &refs[3];
	g.version = 1;
	g.n_inputs = g.n_outputs = 1;
	g.inputs = ins;
	g.outputs = outs;
	g.n_nodes = 2;
	g.nodes = list;
	return stx__wire_graph__pack(&g, out);
}

static const char onnx_form[] = "opset 17\ninput x float [2,3]\na = Add(x, x)\ny = Relu(a)\n"
				"output y\n";

static struct stx_graph *import(struct stx_arena *a, int format, const void *bytes, size_t n)
{
	struct stx_import_options o = { 0 };
	struct stx_import_result r;
	struct stx_diag d = { 0 };
	if (stx_import(a, (enum stx_graph_format)format, (struct stx_span){ bytes, n }, &o, &r,
		       &d) ||
	    stx_graph_verify(r.graph, &d))
		fail_msg("form %d: %s: %s", format, d.node, d.text);
	return r.graph;
}

/* Every node but inputs names an overload of the table, and none belongs to a backward pass. */
static void check_operator_level(const struct stx_graph *g)
{
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		const struct stx_node *n = g->nodes.at[i];
		const char *overload = stx_op_info(n->op)->overload;
		assert_true(n->op < STX_OP_COUNT);
		assert_null(strstr(overload, "backward"));
		assert_int_not_equal(strncmp(n->name, "tangents", 8), 0);
		if (n->op != STX_OP_PLACEHOLDER && n->op != STX_OP_CONSTANT) {
			assert_non_null(strchr(overload, '.'));
			assert_int_equal(stx_op_find(overload, strlen(overload)), n->op);
		}
	}
}

/* OG-01 */
static void test_graph_forms_give_one_operator_level_graph_without_backward(void **state)
{
	uint8_t wire[1024];
	size_t nwire = wire_form(wire);
	struct stx_bytes onnx = onnx_model(onnx_form);
	const void *const forms[] = { wire, text_form, onnx.at };
	const size_t sizes[] = { nwire, sizeof text_form - 1, onnx.n };
	struct stx_digest first = { { 0 } };
	(void)state;
	assert_true(nwire < sizeof wire);
	for (int form = 0; form < 3; form++) {
		struct stx_arena *a = stx_arena_new(0);
		struct stx_graph *g = import(a, form + 1, forms[form], sizes[form]), *c;
		struct stx_digest digest;
		struct stx_diag d = { 0 };
		check_operator_level(g);
		assert_int_equal(stx_graph_decompose_to_basis(&g, &d), 0);
		assert_int_equal(stx_graph_verify_basis(g, &d), 0);
		check_operator_level(g);
		assert_int_equal(stx_graph_canonical(g, a, &c, &d), 0);
		assert_int_equal(stx_graph_digest(c, &digest, &d), 0);
		if (!form)
			first = digest;
		assert_memory_equal(&digest, &first, sizeof digest);
		stx_arena_free(a);
	}
	stx_bytes_free(&onnx);
}

/* ---- every stage of every form can be looked at ---- */

static char *dump(int form, const void *bytes, size_t n, const char *stage)
{
	struct stx_source s = { .format = form, .body = { bytes, n } };
	struct stx_compile_options o = { .target = "cpu:x86-64-v3" };
	struct stx_bytes out = { 0 };
	struct stx_diag d = { 0 };
	if (stx_compile_dump(compiled_compiler(), &s, &o, stage, "text", &out, &d))
		fail_msg("form %d, %s: %s %s", form, stage, d.node, d.text);
	char *text = strdup(stx_bytes_cstr(&out));
	stx_bytes_free(&out);
	return text;
}

static void check_stage(const char *stage, const char *text)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_diag d = { 0 };
	struct stx_graph *g;
	struct stx_loops *l;
	struct stx_kernel *k;
	size_t n = strlen(text);
	stx_err e = 0;
	if (!strcmp(stage, "graph") || !strcmp(stage, "basis") || !strcmp(stage, "primitives"))
		e = stx_graph_parse(a, text, n, &g, &d);
	else if (!strcmp(stage, "loops"))
		e = stx_loops_parse(a, text, n, &l, &d);
	else if (!strcmp(stage, "kernels"))
		e = stx_kernel_parse(a, text, n, &k, &d);
	else if (!strcmp(stage, "plan"))
		assert_non_null(strstr(text, "launch k0(v0, v1)"));
	else if (!strcmp(stage, "asm"))
		assert_non_null(strstr(text, "\tret"));
	else
		assert_non_null(strstr(text, "define void @stx_k_"));
	if (e)
		fail_msg("%s does not parse: %s %s in\n%s", stage, d.location, d.text, text);
	stx_arena_free(a);
}

static void test_graph_forms_every_stage_is_shown_and_parses(void **state)
{
	static const char *const stages[] = { "graph", "basis",  "primitives", "loops", "kernels",
					      "plan",  "source", "llvm",       "asm" };
	uint8_t wire[1024];
	size_t nwire = wire_form(wire);
	struct stx_bytes onnx = onnx_model(onnx_form);
	(void)state;
	for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
		char *of_wire = dump(1, wire, nwire, stages[i]);
		char *of_text = dump(2, text_form, sizeof text_form - 1, stages[i]);
		char *of_onnx = dump(3, onnx.at, onnx.n, stages[i]);
		check_stage(stages[i], of_wire);
		if (i) { /* from the canonical graph on they are one */
			assert_string_equal(of_wire, of_text);
			assert_string_equal(of_wire, of_onnx);
		} else {
			check_stage(stages[i], of_text);
			check_stage(stages[i], of_onnx);
		}
		free(of_wire);
		free(of_text);
		free(of_onnx);
	}
	stx_bytes_free(&onnx);
}

/* ---- SE-01: what graphs become is the core language ---- */

/* A buffer's definition reads earlier names only: at index maps (views), through primitives (maps).
 */
static void check_definition(const struct stx_loops *l, uint32_t id)
{
	const struct stx_buffer *b = l->buffers.at[id];
	assert_int_equal(b->id, id);
	assert_true(b->def == STX_DEF_POINTWISE || b->def == STX_DEF_REDUCTION);
	for (uint32_t i = 0; i < b->body.n; i++) {
		const struct stx_binst *in = &b->body.at[i];
		assert_true(in->op < STX_PRIM_COUNT || in->op == STX_B_CONST ||
			    in->op == STX_B_INDEX || in->op == STX_B_LOAD ||
			    in->op == STX_B_INDIRECT);
		if (in->op == STX_B_LOAD)
			assert_true(in->a < id);
	}
	if (b->def == STX_DEF_REDUCTION) {
		assert_true(b->monoid < STX_MONOID_COUNT); /* the operation and its identity */
		assert_true(b->nrranges > 0);              /* the range */
	} else {
		assert_int_equal(b->nrranges, 0);
	}
	for (uint32_t i = 0; i < id; i++) /* each name is bound once */
		assert_string_not_equal(l->buffers.at[i]->name, b->name);
}

static void test_graph_forms_become_maps_views_and_reductions_of_single_names(void **state)
{
	static const char text[] =
		"%x : f32[6,8] = placeholder()\n%w : f32[8,4] = placeholder()\n"
		"%i : i64[3] = placeholder()\n%m = mm.default(%x, %w)\n"
		"%p = _softmax.default(%m, 1)\n%t = permute.default(%p, [1, 0])\n"
		"%c = cat.default([%t, %t], 0)\n%s = slice.Tensor(%c, 1, 1, 5, 2)\n"
		"%g = index.Tensor(%x, [%i])\n%a = argmax.default(%g, 1)\n"
		"%l = layer_norm.default(%x, [8])\n%r = relu.default(%l)\n"
		"return (%s, %a, %r)\n";
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = case_parse(a, text);
	struct stx_lower_options o = { 0 };
	struct stx_loops *l;
	struct stx_diag d = { 0 };
	uint32_t maps = 0, reductions = 0;
	(void)state;
	assert_int_equal(stx_graph_decompose_to_basis(&g, &d), 0);
	assert_int_equal(stx_graph_decompose_to_primitives(&g, &d), 0);
	if (stx_lower(g, &o, &l, &d))
		fail_msg("%s: %s", d.node, d.text);
	for (uint32_t i = 0; i < l->buffers.n; i++) {
		if (l->buffers.at[i]->def == STX_DEF_NONE)
			continue; /* a name of the environment */
		check_definition(l, i);
		maps += l->buffers.at[i]->def == STX_DEF_POINTWISE;
		reductions += l->buffers.at[i]->def == STX_DEF_REDUCTION;
	}
	assert_true(maps > 0 && reductions > 0);
	for (uint32_t i = 0; i < l->outputs.n; i++) /* the program returns names */
		assert_true(l->outputs.at[i] < l->buffers.n);
	stx_arena_free(a);
}

/* ---- OG-12: the recorded dtype is the result's ---- */

static const char *const calls[] = {
	"add.Tensor(%x, %y)",
	"add.Tensor(%x, %i)",
	"add.Scalar(%x, 1)",
	"add.Scalar(%x, 1.5)",
	"mul.Tensor(%x, %h)",
	"div.Tensor(%x, %y)",
	"div.Scalar(%x, 3)",
	"lt.Tensor(%x, %i)",
	"eq.Scalar(%x, 1)",
	"maximum.default(%x, %y)",
	"where.self(%b, %x, %h)",
	"sqrt.default(%x)",
	"exp.default(%x)",
	"sum.dim_IntList(%x, [1])",
	"prod.dim_int(%x, 1)",
	"amax.default(%x, [1])",
	"argmax.default(%x, 1)",
	"any.dim(%x, 1)",
	"cumsum.default(%x, 1)",
	"cat.default([%x, %y], 1)",
	"permute.default(%x, [1, 0])",
	"_to_copy.default(%x, dtype=f16)",
	"_to_copy.default(%x, dtype=i16)",
	"sum.dim_IntList(%x, [1], dtype=f64)",
	"gather.default(%x, 1, %g)",
	"logical_not.default(%x)",
	"isnan.default(%x)",
};
#define NCALLS (sizeof calls / sizeof *calls)

/* 1 when the call is allowed for the type: the shape rule refuses others by name. */
static int is_allowed(const char *head, const char *call)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_bytes b = { 0 };
	struct stx_diag d = { 0 };
	struct stx_graph *g;
	stx_bytes_printf(&b, "%s%%r = %s\nreturn (%%r,)\n", head, call);
	int ok = !stx_graph_parse(a, stx_bytes_cstr(&b), b.n, &g, &d);
	stx_bytes_free(&b);
	stx_arena_free(a);
	return ok;
}

static unsigned check_dtypes(enum stx_dtype t)
{
	struct stx_bytes head = { 0 }, b = { 0 };
	struct stx_diag d = { 0 };
	const char *name = stx_dtype_name(t);
	unsigned n = 0;
	stx_bytes_printf(&head,
			 "%%x : %s[2,3] = placeholder()\n%%y : %s[2,3] = placeholder()\n"
			 "%%i : i32[2,3] = placeholder()\n%%h : bf16[2,3] = placeholder()\n"
			 "%%b : bool[2,3] = placeholder()\n%%g : i64[2,3] = placeholder()\n",
			 name, name);
	stx_bytes_puts(&b, stx_bytes_cstr(&head));
	for (size_t k = 0; k < NCALLS; k++)
		if (is_allowed(stx_bytes_cstr(&head), calls[k]))
			stx_bytes_printf(&b, "%%r%u = %s\n", n++, calls[k]);
	stx_bytes_puts(&b, "return (");
	for (unsigned k = 0; k < n; k++)
		stx_bytes_printf(&b, "%%r%u, ", k);
	stx_bytes_puts(&b, ")\n");

	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = case_parse(a, stx_bytes_cstr(&b));
	struct compiled c;
	if (compiled_build(stx_bytes_cstr(&b), "cpu:x86-64-v2", COMPILED_FUSED, &c, &d))
		fail_msg("%s: %s: %s", name, d.node, d.text);
	assert_int_equal(stax_noutputs(c.artifact), n);
	for (unsigned k = 0; k < n; k++) {
		const struct stx_type *y = stx_val_type(g->outputs.at[k].val);
		struct stx_tensor out;
		const char *of;
		assert_int_equal(stax_output(c.artifact, (int)k, &out, &of), 0);
		if (out.dtype != y->dtype || out.rank != y->rank)
			fail_msg("%s, result %u: %s of rank %u, recorded %s of rank %u", name, k,
				 stx_dtype_name((enum stx_dtype)out.dtype), out.rank,
				 stx_dtype_name(y->dtype), y->rank);
	}
	compiled_free(&c);
	stx_arena_free(a);
	stx_bytes_free(&b);
	stx_bytes_free(&head);
	return n;
}

/* OG-12 */
static void test_graph_forms_recorded_dtype_is_the_results(void **state)
{
	static const enum stx_dtype types[] = { STX_F64, STX_F32, STX_F16, STX_BF16, STX_I8,
						STX_I16, STX_I32, STX_I64, STX_U8,   STX_BOOL };
	unsigned n = 0;
	(void)state;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		n += check_dtypes(types[i]);
	print_message("%u results\n", n);
	assert_true(n > 200);
}

/* OG-12: values of the recorded type, where another type in between would show. */
static void test_graph_forms_values_are_of_the_recorded_dtype(void **state)
{
	const struct stated cases[] = {
		{ .text = "%x : i8[2] = placeholder()\n%y = add.Tensor(%x, %x)\nreturn (%y,)",
		  .in = { V(100, -100) },
		  .out = { V(-56, 56) } },
		{ .text = "%x : i8[2] = placeholder()\n%y = sum.dim_IntList(%x, [0])\n"
			  "return (%y,)",
		  .in = { V(100, 100) },
		  .out = { V(200) } },
		/* 257 and 1 + 2^-8 are halfway: to even */
		{ .text = "%x : bf16[2] = placeholder()\n%y = add.Scalar(%x, 1)\nreturn (%y,)",
		  .in = { V(256, 0.00390625) },
		  .out = { V(256, 1) } },
		{ .text = "%x : i32[2] = placeholder()\n%y = div.Tensor(%x, %x)\nreturn (%y,)",
		  .in = { V(3, 0) },
		  .out = { V(1, NAN) } },
		{ .text = "%x : i32[1] = placeholder()\n%y : f32[1] = placeholder()\n"
			  "%z = mul.Tensor(%x, %y)\nreturn (%z,)",
		  .in = { V(16777217), V(1) },
		  .out = { V(16777216) } },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		case_check(&cases[i]);
}

/* LO-11: the rules are counted by category; every operator of the table, about 300, is one of them.
 */
static void test_graph_forms_rules_are_counted_by_category(void **state)
{
	struct stx_bytes b = { 0 };
	unsigned operators = 0, rules = 0, n, r, lines = 0;
	char name[32];
	(void)state;
	stx_compile_coverage(&b);
	const char *s = stx_bytes_cstr(&b);
	for (; sscanf(s, "%31[^0-9]%u operators, %u lowered", name, &n, &r) == 3; lines++) {
		if (!strncmp(name, "all ", 4))
			break;
		assert_true(n > 0 && r <= n);
		operators += n;
		rules += r;
		s = strchr(s, '\n') + 1;
	}
	print_message("%s", stx_bytes_cstr(&b));
	assert_int_equal(lines, STX_CAT_COUNT);
	assert_int_equal(operators, n);
	assert_int_equal(operators, STX_OP_COUNT);
	assert_int_equal(rules, r);
	assert_in_range(operators, 250, 350);
	stx_bytes_free(&b);
}

/* OG-05: alpha=3 computes x + 3*y, keepdim=True keeps the dimension; alpha of sub and rsub too. */
static void test_graph_forms_values_that_are_no_defaults_count(void **state)
{
	const struct stated cases[] = {
		{ .text = "%x : f32[2] = placeholder()\n%y : f32[2] = placeholder()\n"
			  "%a = add.Tensor(%x, %y, alpha=3)\n%s = sub.Tensor(%x, %y, alpha=3)\n"
			  "%r = rsub.Scalar(%x, 10, 3)\nreturn (%a, %s, %r)",
		  .in = { V(1, -0.5), V(10, 4) },
		  .out = { V(31, 11.5), V(-29, -12.5), V(7, 11.5) } },
		{ .text = "%x : f32[2,3] = placeholder()\n%k = sum.dim_IntList(%x, [-1], True)\n"
			  "%d = sum.dim_IntList(%x, [-1])\n%m = amax.default(%x, [0], True)\n"
			  "return (%k, %d, %m)",
		  .in = { V(1, 2, 3, 4, 5, 6) },
		  .out = { V(6, 15), V(6, 15), V(4, 5, 6) },
		  .shape = { "2,1", "2", "1,3" } },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		case_check(&cases[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graph_forms_rules_are_counted_by_category),
		cmocka_unit_test(test_graph_forms_values_that_are_no_defaults_count),
		cmocka_unit_test(test_graph_forms_give_one_operator_level_graph_without_backward),
		cmocka_unit_test(test_graph_forms_every_stage_is_shown_and_parses),
		cmocka_unit_test(test_graph_forms_become_maps_views_and_reductions_of_single_names),
		cmocka_unit_test(test_graph_forms_recorded_dtype_is_the_results),
		cmocka_unit_test(test_graph_forms_values_are_of_the_recorded_dtype),
	};
	return cmocka_run_group_tests(tests, case_setup, NULL);
}
