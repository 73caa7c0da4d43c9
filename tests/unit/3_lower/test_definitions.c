/* test_definitions.c: the lowering and its IR against the seed's definitions: LO-01, LO-02, LO-03,
 * LO-05, LO-12, LO-27, IR-01, IR-02, IR-04, IR-09, IR-11. */
#include <math.h>

#include "kernel.h"
#include "lowering.h"
#include "schedule.h"

/* ---- LO-01: an IR object, never a tensor ---- */

/* A result of 2^38 elements: nothing of its size is allocated, nothing of it is computed. */
static void test_definitions_lowering_makes_objects_not_tensors(void **state)
{
	struct low w;
	const struct stx_buffer *b;

	(void)state;
	low_cpu(&w, "%x : f32[524288,1] = placeholder()\n"
		    "%y : f32[1,524288] = placeholder()\n"
		    "%a = add.Tensor(%x, %y)\n%b = exp.default(%a)\n%c = mul.Tensor(%b, %a)\n"
		    "return (%c,)\n");
	b = low_output(&w, 0);
	assert_consts(&w, b->ranges, b->nranges, 524288, 524288);
	assert_int_equal(low_computed(&w), 1);
	assert_true(stx_arena_used(w.arena) < (size_t)4 << 20);
	/* in topological order: operands stand before what reads them */
	for (uint32_t i = 0; i < w.l->buffers.n; i++)
		for (uint32_t k = 0; k < w.l->buffers.at[i]->body.n; k++)
			if (w.l->buffers.at[i]->body.at[k].op == STX_B_LOAD)
				assert_true(w.l->buffers.at[i]->body.at[k].a < i);
	low_end(&w);
}

/* ---- LO-02 ---- */

static void test_definitions_placeholder_keeps_shape_and_strides(void **state)
{
	struct low w;
	const struct stx_buffer *b;

	(void)state;
	low_cpu(&w, "%x : f32[8,16] = placeholder(strides=[1, 32])\n"
		    "%y : f32[16,8] = placeholder(strides=[0, 3])\n"
		    "%t = permute.default(%y, [1, 0])\n%a = add.Tensor(%x, %t)\nreturn (%a,)\n");
	b = w.l->buffers.at[0];
	assert_int_equal(b->kind, STX_BUF_INPUT);
	assert_false(b->layout.flexible);
	assert_consts(&w, b->layout.sizes, b->layout.rank, 8, 16);
	assert_consts(&w, b->layout.strides, b->layout.rank, 1, 32);
	b = w.l->buffers.at[1];
	assert_int_equal(b->kind, STX_BUF_INPUT);
	assert_false(b->layout.flexible);
	assert_consts(&w, b->layout.sizes, b->layout.rank, 16, 8);
	assert_consts(&w, b->layout.strides, b->layout.rank, 0, 3);
	assert_has(low_body(&w, low_output(&w, 0)), "ops.load('x', i0 + 32*i1)");
	assert_has(low_body(&w, low_output(&w, 0)), "ops.load('y', 3*i0)");
	low_end(&w);
}

/* ---- LO-03 ---- */

/* The rule is found by overload: floor and trunc of the same base lower to their own primitive. */
static void test_definitions_rules_are_found_by_overload(void **state)
{
	static const struct {
		const char *call, *op;
	} calls[] = {
		{ "maximum.default(%x, %y)", "ops.max(" },
		{ "add.Scalar(%x, 3)", "ops.add(" },
		{ "add.Tensor(%x, %y)", "ops.load('y'" },
		{ "floor.default(%x)", "ops.floor(" },
		{ "trunc.default(%x)", "ops.trunc(" },
		{ "eq.Tensor(%x, %y)", "ops.eq(" },
		{ "eq.Scalar(%x, 1)", "ops.constant(1, f32)" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		struct low w;
		char text[300];

		snprintf(text, sizeof text,
			 "%%x : f32[4] = placeholder()\n%%y : f32[4] = placeholder()\n%%r = %s\n"
			 "return (%%r,)\n",
			 calls[i].call);
		low_cpu(&w, text);
		if (!strstr(low_body(&w, low_output(&w, 0)), calls[i].op))
			fail_msg("%s: no %s in\n%s", calls[i].call, calls[i].op,
				 low_body(&w, low_output(&w, 0)));
		low_end(&w);
	}
	for (int op = 0; op < STX_OP_COUNT; op++) { /* one row an overload */
		const char *name = stx_op_info((enum stx_op)op)->overload;

		assert_int_equal(stx_op_find(name, strlen(name)), op);
	}
}

/* ---- LO-05 ---- */

static void test_definitions_every_output_is_realised_and_settled(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w, "%x : f32[4,6] = placeholder()\n%t = permute.default(%x, [1, 0])\n"
		    "%e = exp.default(%t)\n%s = sum.dim_IntList(%e, [0])\n"
		    "%f = full.default([3], 2, dtype=f32)\n%v = view.default(%e, [24])\n"
		    "return (%x, %t, %e, %s, %f, %v)\n");
	assert_int_equal(w.l->outputs.n, 6);
	for (uint32_t i = 0; i < 6; i++) {
		const struct stx_buffer *b = low_output(&w, i);

		assert_int_equal(b->kind, STX_BUF_OUTPUT);
		assert_int_equal(b->index, i);
		assert_int_not_equal(b->def, STX_DEF_NONE);
		assert_false(b->layout.flexible);
		for (uint32_t k = 0; k < i; k++)
			assert_int_not_equal(w.l->outputs.at[i], w.l->outputs.at[k]);
	}
	assert_consts(&w, low_output(&w, 1)->layout.strides, 2, 4, 1);
	low_end(&w);
}

/* ---- LO-27 ---- */

/* A convolution, which a library could run, reads buffers: computed operands are realised, each in
 * a buffer of its own, and inputs of the graph are read as they are. */
static void test_definitions_operands_of_an_external_kernel_are_realised(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w, "%x : f32[1,2,9] = placeholder()\n%w : f32[3,2,3] = placeholder()\n"
		    "%e = exp.default(%x)\n%n = neg.default(%w)\n"
		    "%c = convolution.default(%e, %n, None, [1], [0], [1], False, [0], 1)\n"
		    "%d = convolution.default(%x, %w, None, [1], [0], [1], False, [0], 1)\n"
		    "return (%c, %d)\n");
	assert_int_equal(low_computed(&w), 4);
	assert_string_equal(stx_realized_text(w.l->buffers.at[2]->rule), "wanted");
	assert_string_equal(stx_realized_text(w.l->buffers.at[3]->rule), "wanted");
	assert_has(low_body(&w, low_output(&w, 0)), "ops.load('buf2', ");
	assert_has(low_body(&w, low_output(&w, 0)), "ops.load('buf3', ");
	assert_has_not(low_body(&w, low_output(&w, 0)), "ops.exp");
	assert_has(low_body(&w, low_output(&w, 1)), "ops.load('x', ");
	low_end(&w);
}

/* ---- LO-12 ---- */

/* As the passes do: to the basis, to primitives, lowered. */
static void low_whole(struct low *w, const char *text)
{
	struct stx_lower_options o = { 0 };

	memset(w, 0, sizeof *w);
	w->arena = stx_arena_new(0);
	if (stx_graph_parse(w->arena, text, strlen(text), &w->g, &w->d) ||
	    stx_graph_decompose_to_basis(&w->g, &w->d))
		fail_msg("%s: %s in\n%s", w->d.node, w->d.text, text);
	w->g->runs_scans = 1;
	if (stx_graph_decompose_to_primitives(&w->g, &w->d) || stx_lower(w->g, &o, &w->l, &w->d))
		fail_msg("%s: %s in\n%s", w->d.node, w->d.text, text);
}

/* The classes of table 6.1: four are Definition 6.1 itself, the others extend it. */
static void test_definitions_classes_of_rules(void **state)
{
	static const struct {
		const char *call;
		enum stx_def_kind def;
		const char *part; /* of the body */
	} classes[] = {
		{ "relu.default(%x)", STX_DEF_POINTWISE, "ops.relu(" },
		{ "full.default([6], 2, dtype=f32)", STX_DEF_POINTWISE, "ops.constant(2, f32)" },
		{ "arange.start_step(0, 6, dtype=i64)", STX_DEF_POINTWISE, "i0" },
		{ "sum.dim_IntList(%x, [1])", STX_DEF_REDUCTION, "ops.load('x', 6*i0 + r0_0)" },
		{ "permute.default(%x, [1, 0])", STX_DEF_POINTWISE, "ops.load('x', i0 + 6*i1)" },
		{ "index.Tensor(%x, [%i])", STX_DEF_POINTWISE, "ops.indirect_indexing(" },
		{ "cat.default([%x, %x], 0)", STX_DEF_POINTWISE, "mask" },
		{ "constant_pad_nd.default(%x, [1, 1])", STX_DEF_POINTWISE, "mask" },
		{ "mm.default(%x, %w)", STX_DEF_REDUCTION, "ops.load('w', i1 + 5*r0_0)" },
		{ "convolution.default(%v, %k, None, [1], [0], [1], False, [0], 1)",
		  STX_DEF_REDUCTION, "ops.load('k', " },
		{ "scatter_add.default(%x, 0, %j, %x)", STX_DEF_SCATTER,
		  "ops.indirect_indexing('tmp0', 4, check" },
		{ "index_put.default(%x, [%i], %u)", STX_DEF_SCATTER,
		  "ops.indirect_indexing('tmp0', 4, wrap, check" },
		{ "cumsum.default(%x, 1)", STX_DEF_SCAN, "ops.load('x', 6*i0 + r0_0" },
		{ "argsort.stable(%x, stable=True, dim=1)", STX_DEF_SORT, "ops.load('buf7', " },
	};

	(void)state;
	for (size_t k = 0; k < sizeof classes / sizeof *classes; k++) {
		struct low w;
		char text[600];

		snprintf(text, sizeof text,
			 "%%x : f32[4,6] = placeholder()\n%%w : f32[6,5] = placeholder()\n"
			 "%%i : i64[3] = placeholder()\n%%j : i64[4,6] = placeholder()\n"
			 "%%u : f32[3,6] = placeholder()\n%%v : f32[1,2,9] = placeholder()\n"
			 "%%k : f32[3,2,3] = placeholder()\n%%r = %s\nreturn (%%r,)\n",
			 classes[k].call);
		low_whole(&w, text);
		if (low_output(&w, 0)->def != classes[k].def ||
		    !strstr(low_body(&w, low_output(&w, 0)), classes[k].part))
			fail_msg("%s:\n%s", classes[k].call, low_print(&w));
		low_end(&w);
	}
}

/* ---- IR-01, IR-02 ---- */

/* The value at i is the inner function there; of a reduction the combination over r in Rr. */
static void test_definitions_nodes_are_ranges_and_inner_functions(void **state)
{
	static const char graph[] =
		"%x : f32[2,3] = placeholder()\n%y : f32[3] = placeholder()\n"
		"%a = add.Tensor(%x, %y)\n%m = amax.default(%a, [1])\nreturn (%a, %m)\n";
	const float x[6] = { 1, 5, 3, -1, -2, -9 }, y[3] = { 10, 0, 1 };
	float a[6], m[2];
	struct low w;
	struct stx_diag d = { 0 };

	(void)state;
	low_cpu(&w, graph);
	const struct stx_buffer *p = low_output(&w, 0), *r = low_output(&w, 1);
	assert_int_equal(p->def, STX_DEF_POINTWISE);
	assert_consts(&w, p->ranges, p->nranges, 2, 3);
	assert_int_equal(p->nrranges, 0);
	assert_int_equal(p->body.nresults, 1);
	assert_int_equal(r->def, STX_DEF_REDUCTION);
	assert_consts(&w, r->ranges, r->nranges, 2);
	assert_consts(&w, r->rranges, r->nrranges, 3);
	assert_int_equal(r->monoid, STX_MONOID_MAX);
	void *buffers[4] = { (void *)(uintptr_t)x, (void *)(uintptr_t)y };
	assert_int_equal(w.l->buffers.n, 4);
	buffers[w.l->outputs.at[0]] = a;
	buffers[w.l->outputs.at[1]] = m;
	assert_int_equal(stx_handler_evaluate(w.l, buffers, &d), 0);
	for (int i = 0; i < 6; i++)
		assert_true(a[i] == x[i] + y[i % 3]);
	assert_true(m[0] == 11 && m[1] == 9);
	low_end(&w);
}

/* ---- IR-04, IR-08, IR-09, IR-11 ---- */

/* Every instruction of a body is a row of prims.def or one of the four of the interface, and means
 * nothing by itself: text, accesses, counts, values, kernel code are made from the same body. */
static void test_definitions_one_body_many_interpretations(void **state)
{
	static const char graph[] =
		"%x : f32[8] = placeholder()\n%i : i64[8] = placeholder()\n"
		"%g = index.Tensor(%x, [%i])\n%e = exp.default(%g)\n%r = mul.Scalar(%e, 2)\n"
		"return (%r,)\n";
	const float x[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	const int64_t at[8] = { 0, -1, 3, 3, 1, 2, 5, -8 };
	float out[8];
	struct low w;
	struct stx_counts c;
	struct stx_access *access;
	struct stx_schedule *s;
	struct stx_schedule_options o = { 0 };
	struct stx_bytes kernel = { 0 };
	uint32_t n;

	(void)state;
	low_cpu(&w, graph);
	const struct stx_buffer *b = low_output(&w, 0);
	struct stx_body before = b->body;
	struct stx_binst *copy = stx_arena_copy(w.arena, b->body.at, b->body.n * sizeof *copy);
	for (uint32_t k = 0; k < b->body.n; k++)
		assert_true(b->body.at[k].op < STX_B_COUNT);
	/* formatter, recorder of accesses, counter, evaluation */
	assert_has(low_body(&w, b), "ops.exp('tmp");
	assert_int_equal(stx_handler_accesses(w.l, b, w.arena, &access, &n), 0);
	assert_int_equal(n, 3);
	assert_true(access[1].indirect && access[2].is_write);
	stx_handler_counts(b, &c);
	assert_int_equal(c.reads, 2);
	assert_true(c.used[STX_P_EXP / 64] >> STX_P_EXP % 64 & 1);
	void *buffers[3] = { (void *)(uintptr_t)x, (void *)(uintptr_t)at, out };
	assert_int_equal(stx_handler_evaluate(w.l, buffers, &w.d), 0);
	for (int k = 0; k < 8; k++)
		assert_true(fabsf(out[k] - 2 * expf(x[(at[k] + 8) % 8])) <= 1e-6f * out[k]);
	/* code generation starts from it as well: exp becomes arithmetic on vectors, no call */
	assert_int_equal(stx_schedule(w.l, &o, &s, &w.d), 0);
	assert_int_equal(s->kernels.n, 1);
	assert_int_equal(stx_kernel_print(s->kernels.at[0], &kernel), 0);
	assert_has(stx_bytes_cstr(&kernel), " bound 8 axis 0 wrap check");
	assert_has(stx_bytes_cstr(&kernel), "const f32 0x1.71547652b82fep+0"); /* 1/ln 2 */
	assert_has_not(stx_bytes_cstr(&kernel), "= exp");
	stx_bytes_free(&kernel);
	/* none of them changed it */
	assert_int_equal(before.n, b->body.n);
	assert_memory_equal(copy, b->body.at, before.n * sizeof *copy);
	low_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_definitions_lowering_makes_objects_not_tensors),
		cmocka_unit_test(test_definitions_placeholder_keeps_shape_and_strides),
		cmocka_unit_test(test_definitions_rules_are_found_by_overload),
		cmocka_unit_test(test_definitions_every_output_is_realised_and_settled),
		cmocka_unit_test(test_definitions_operands_of_an_external_kernel_are_realised),
		cmocka_unit_test(test_definitions_classes_of_rules),
		cmocka_unit_test(test_definitions_nodes_are_ranges_and_inner_functions),
		cmocka_unit_test(test_definitions_one_body_many_interpretations),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
