/* test_lower.c: the driver and its rules against the values the seed states (LO, IR, VR items). */
#include "lowering.h"

static const char example_1_1[] = "%primals_1 : f32[64,128] = placeholder()\n"
				  "%primals_2 : f32[64,128] = placeholder()\n"
				  "%add = add.Tensor(%primals_1, %primals_2)\n"
				  "%relu = relu.default(%add)\n"
				  "%mul = mul.Scalar(%relu, 2)\n"
				  "%sum_0 = sum.dim_IntList(%mul, [-1])\n"
				  "return (%sum_0,)\n";

/* LO-25, LO-26 */
static void test_lower_example_1_1_is_one_reduction(void **state)
{
	struct low w;
	const struct stx_buffer *b;

	(void)state;
	low_cpu(&w, example_1_1);
	assert_int_equal(w.l->buffers.n, 3);
	assert_int_equal(w.l->buffers.at[0]->kind, STX_BUF_INPUT);
	assert_int_equal(w.l->buffers.at[1]->kind, STX_BUF_INPUT);
	b = low_output(&w, 0);
	assert_string_equal(b->name, "buf2");
	assert_int_equal(b->def, STX_DEF_REDUCTION);
	assert_int_equal(b->monoid, STX_MONOID_SUM);
	assert_consts(&w, b->ranges, b->nranges, 64);
	assert_consts(&w, b->rranges, b->nrranges, 128);
	assert_consts(&w, b->layout.sizes, b->layout.rank, 64);
	assert_consts(&w, b->layout.strides, b->layout.rank, 1);
	low_end(&w);
}

/* IR-10, IR-07: the six lines exactly. IR-05: two reads at 128*i0 + r0_0. IR-06: three ops, a
 * constant. */
static void test_lower_example_1_1_handlers_give_six_lines(void **state)
{
	struct low w;
	struct stx_access *a;
	struct stx_counts c;
	uint32_t n;

	(void)state;
	low_cpu(&w, example_1_1);
	assert_string_equal(low_body(&w, low_output(&w, 0)),
			    "tmp0 = ops.load('primals_1', 128*i0 + r0_0)\n"
			    "tmp1 = ops.load('primals_2', 128*i0 + r0_0)\n"
			    "tmp2 = ops.add('tmp0', 'tmp1')\n"
			    "tmp3 = ops.relu('tmp2')\n"
			    "tmp4 = ops.constant(2, f32)\n"
			    "tmp5 = ops.mul('tmp3', 'tmp4')\n");
	assert_int_equal(stx_handler_accesses(w.l, low_output(&w, 0), w.arena, &a, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(a[0].buffer, 0);
	assert_int_equal(a[1].buffer, 1);
	assert_int_equal(a[0].ex, a[1].ex);
	assert_true(a[2].is_write && !a[0].is_write && !a[1].is_write);
	stx_handler_counts(low_output(&w, 0), &c);
	assert_int_equal(c.ops, 3);
	assert_int_equal(c.reads, 2);
	assert_int_equal(c.consts, 1);
	for (int op = 0; op < STX_PRIM_COUNT; op++) /* {add, relu, mul} and nothing else */
		assert_int_equal(c.used[op / 64] >> op % 64 & 1,
				 op == STX_P_ADD || op == STX_P_RELU || op == STX_P_MUL);
	low_end(&w);
}

/* LO-07, IR-03: a chain of 100 pointwise ops is one buffer that reads graph inputs only. */
static void test_lower_chain_of_100_is_one_buffer(void **state)
{
	struct low w;
	struct stx_bytes t = { 0 };
	int i;

	(void)state;
	stx_bytes_puts(&t, "%x0 : f32[8] = placeholder()\n");
	for (i = 0; i < 100; i++)
		stx_bytes_printf(&t, "%%x%d = %s(%%x%d)\n", i + 1,
				 i % 2 ? "neg.default" : "abs.default", i);
	stx_bytes_puts(&t, "return (%x100,)\n");
	low_cpu(&w, stx_bytes_cstr(&t));
	assert_int_equal(w.l->buffers.n, 2);
	assert_int_equal(low_output(&w, 0)->body.n, 101);
	stx_bytes_free(&t);
	low_end(&w);
}

/* LO-06, LO-08: (4,1,5)+(3,1) -> (4,3,5); stretched dimensions have no index term. */
static void test_lower_broadcast_drops_index_terms(void **state)
{
	struct low w;
	const char *body;

	(void)state;
	low_cpu(&w, "%x : f32[4,1,5] = placeholder()\n%y : f32[3,1] = placeholder()\n"
		    "%a = add.Tensor(%x, %y)\nreturn (%a,)\n");
	assert_consts(&w, low_output(&w, 0)->ranges, low_output(&w, 0)->nranges, 4, 3, 5);
	body = low_body(&w, low_output(&w, 0));
	assert_has(body, "ops.load('x', 5*i0 + i2)");
	assert_has(body, "ops.load('y', i1)");
	low_end(&w);
}

/* LO-09: the constant has the node's dtype. */
static void test_lower_scalar_is_constant_of_node_dtype(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w, "%x : i64[3] = placeholder()\n%a = mul.Scalar(%x, 3)\n"
		    "%b = mul.Scalar(%x, 0.5)\nreturn (%a, %b)\n");
	assert_has(low_body(&w, low_output(&w, 0)), "ops.constant(3, i64)");
	assert_has(low_body(&w, low_output(&w, 1)), "ops.constant(0.5, f32)");
	low_end(&w);
}

/* LO-20, LO-21, LO-24: promotion is in the rule; the result has the node's dtype. */
static void test_lower_promotion_casts_operands(void **state)
{
	struct low w;
	const char *t;

	(void)state;
	low_cpu(&w, "%x : i32[3] = placeholder()\n%y : i32[3] = placeholder()\n%f : f32[3] = "
		    "placeholder()\n"
		    "%d = div.Tensor(%x, %y)\n%c = lt.Tensor(%x, %f)\n%a = add.Tensor(%x, %f)\n"
		    "return (%d, %c, %a)\n");
	assert_int_equal(low_output(&w, 0)->dtype, STX_F32);
	assert_int_equal(low_output(&w, 1)->dtype, STX_BOOL);
	assert_int_equal(low_output(&w, 2)->dtype, STX_F32);
	t = low_body(&w, low_output(&w, 1));
	assert_has(t, "tmp2 = ops.cast('tmp0', f32)\ntmp3 = ops.lt('tmp2', 'tmp1')\n");
	low_end(&w);
}

/* Half precision computes in f32 and rounds at every node (strict numerics). */
static void test_lower_half_widens_and_rounds_each_node(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w, "%x : bf16[3] = placeholder()\n%a = add.Tensor(%x, %x)\n%b = neg.default(%a)\n"
		    "return (%b,)\n");
	assert_string_equal(low_body(&w, low_output(&w, 0)), "tmp0 = ops.load('x', i0)\n"
							     "tmp1 = ops.load('x', i0)\n"
							     "tmp2 = ops.cast('tmp0', f32)\n"
							     "tmp3 = ops.cast('tmp1', f32)\n"
							     "tmp4 = ops.add('tmp2', 'tmp3')\n"
							     "tmp5 = ops.cast('tmp4', bf16)\n"
							     "tmp6 = ops.cast('tmp5', f32)\n"
							     "tmp7 = ops.neg('tmp6')\n"
							     "tmp8 = ops.cast('tmp7', bf16)\n");
	low_end(&w);
}

/* LO-29: no common subexpressions in the loop IR. */
static void test_lower_square_loads_twice(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w, "%x : f32[5] = placeholder()\n%m = mul.Tensor(%x, %x)\nreturn (%m,)\n");
	assert_string_equal(low_body(&w, low_output(&w, 0)),
			    "tmp0 = ops.load('x', i0)\ntmp1 = ops.load('x', i0)\ntmp2 = "
			    "ops.mul('tmp0', 'tmp1')\n");
	low_end(&w);
}

/* LO-19: m pieces cost an element one or two conditions each; loads elsewhere are masked off. */
static void test_lower_cat_of_four_tests_each_piece_once(void **state)
{
	struct low w;
	const struct stx_buffer *b;
	unsigned compared = 0, loads = 0;

	(void)state;
	low_cpu(&w, "%a : f32[3] = placeholder()\n%b : f32[5] = placeholder()\n"
		    "%c : f32[2] = placeholder()\n%d : f32[4] = placeholder()\n"
		    "%k = cat.default([%a, %b, %c, %d])\nreturn (%k,)\n");
	assert_int_equal(low_computed(&w), 1);
	b = low_output(&w, 0);
	for (uint32_t i = 0; i < b->body.n; i++) {
		compared += b->body.at[i].op == STX_P_LT || b->body.at[i].op == STX_P_GE;
		if (b->body.at[i].op == STX_B_LOAD) {
			assert_int_not_equal(b->body.at[i].c, STX_NONE);
			loads++;
		}
	}
	assert_int_equal(loads, 4);
	assert_int_equal(compared, 1 + 2 + 2 + 1); /* the ends have one bound */
	low_end(&w);
}

/* LO-18, LO-19: one piecewise buffer, masked loads at i - o_k, merged by selects; its consumer is
 * in it. */
static void test_lower_cat_is_masked_loads_in_one_buffer(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w, "%a : f32[3] = placeholder()\n%b : f32[5] = placeholder()\n"
		    "%c = cat.default([%a, %b])\n%m = mul.Scalar(%c, 2)\nreturn (%m,)\n");
	assert_int_equal(low_computed(&w), 1);
	assert_string_equal(low_body(&w, low_output(&w, 0)),
			    "tmp0 = ops.index_expr(i0, i64)\n"
			    "tmp1 = ops.constant(3, i64)\n"
			    "tmp2 = ops.lt('tmp0', 'tmp1')\n"
			    "tmp3 = ops.load('a', i0, mask=tmp2)\n"
			    "tmp4 = ops.index_expr(i0, i64)\n"
			    "tmp5 = ops.constant(3, i64)\n"
			    "tmp6 = ops.ge('tmp4', 'tmp5')\n"
			    "tmp7 = ops.load('b', i0 - 3, mask=tmp6)\n"
			    "tmp8 = ops.select('tmp2', 'tmp3', 'tmp7', f32)\n"
			    "tmp9 = ops.constant(2, f32)\n"
			    "tmp10 = ops.mul('tmp8', 'tmp9')\n");
	low_end(&w);
}

/* B25: empty pieces, legacy 1-D ones too, are skipped; a slice of one piece needs no mask. */
static void test_lower_cat_empty_pieces_are_skipped(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w, "%a : f32[0] = placeholder()\n%b : f32[2,3] = placeholder()\n"
		    "%c = cat.default([%a, %b], 1)\nreturn (%c,)\n");
	assert_string_equal(low_body(&w, low_output(&w, 0)), "tmp0 = ops.load('b', 3*i0 + i1)\n");
	low_end(&w);
	low_cpu(&w, "%a : f32[3] = placeholder()\n%b : f32[5] = placeholder()\n"
		    "%c = cat.default([%a, %b])\n%s = slice.Tensor(%c, 0, 4, 6)\nreturn (%s,)\n");
	assert_string_equal(low_body(&w, low_output(&w, 0)), "tmp0 = ops.load('b', i0 + 1)\n");
	low_end(&w);
}

/* VR-05: index from memory: fix and check stay. */
static void test_lower_index_from_memory_keeps_wrap_and_check(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w, "%x : f32[128] = placeholder()\n%idx : i64[64] = placeholder()\n"
		    "%g = index.Tensor(%x, [%idx])\n%m = mul.Scalar(%g, 2)\nreturn (%m,)\n");
	assert_has(low_body(&w, low_output(&w, 0)),
		   "tmp0 = ops.load('idx', i0)\n"
		   "tmp1 = ops.indirect_indexing('tmp0', 128, wrap, check)\n"
		   "tmp2 = ops.load('x', tmp1)\n");
	low_end(&w);
}

/* VR-06, LO-31, VR-07: (arange(128)*3) % 128 becomes the index expression; no buffer, no fix, no
 * check. */
static void test_lower_index_from_arange_is_direct(void **state)
{
	struct low w;
	struct stx_access *a;
	struct stx_interval r;
	uint32_t n;

	(void)state;
	low_cpu(&w, "%x : f32[128] = placeholder()\n%ar = arange.start_step(0, 128, dtype=i64)\n"
		    "%m3 = mul.Scalar(%ar, 3)\n%k = full.default([], 128, dtype=i64)\n"
		    "%idx = remainder.Tensor(%m3, %k)\n%g = index.Tensor(%x, [%idx])\n"
		    "%m = mul.Scalar(%g, 2)\nreturn (%m,)\n");
	assert_int_equal(low_computed(&w), 1);
	assert_has(low_body(&w, low_output(&w, 0)), "tmp0 = ops.load('x', (3*i0) % 128)\n");
	assert_has_not(low_body(&w, low_output(&w, 0)), "indirect");
	assert_int_equal(stx_handler_accesses(w.l, low_output(&w, 0), w.arena, &a, &n), 0);
	r = stx_ex_interval(w.l->ex, a[0].ex);
	assert_true(r.lo == 0 && r.hi == 127);
	low_end(&w);
}

/* VR-04: proven for a value computed at run time, too: a remainder needs neither wrap nor check. */
static void test_lower_index_range_of_value_elides_check(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w, "%x : f32[128] = placeholder()\n%i : i64[64] = placeholder()\n"
		    "%k = full.default([], 128, dtype=i64)\n%idx = remainder.Tensor(%i, %k)\n"
		    "%g = index.Tensor(%x, [%idx])\nreturn (%g,)\n");
	assert_has(low_body(&w, low_output(&w, 0)), "ops.indirect_indexing('tmp2', 128)\n");
	low_end(&w);
}

/* B15: gather does not wrap. */
static void test_lower_gather_checks_without_wrap(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w, "%x : f32[4,5] = placeholder()\n%i : i64[4,2] = placeholder()\n"
		    "%g = gather.default(%x, 1, %i)\nreturn (%g,)\n");
	assert_has(low_body(&w, low_output(&w, 0)),
		   "ops.indirect_indexing('tmp0', 5, check, axis=1)\n"
		   "tmp2 = ops.load('x', 5*i0 + tmp1)\n");
	low_end(&w);
}

/* VR-11: (i - 5) % 8 is not taken for i - 5, and B09: values outside i32 stay exact in i64. */
static void test_lower_index_arithmetic_keeps_value_semantics(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w, "%ar = arange.start_step(0, 11, dtype=i32)\n%a = sub.Scalar(%ar, 5)\n"
		    "%k = full.default([], 8, dtype=i32)\n%m = remainder.Tensor(%a, %k)\n"
		    "%big = mul.Scalar(%ar, 1000000000)\nreturn (%m, %big)\n");
	assert_has(low_body(&w, low_output(&w, 0)), "% 8, i32)");
	/* 10*1e9 leaves i32: computed by the wrapping primitive, not as an index */
	assert_has(low_body(&w, low_output(&w, 1)), "ops.mul(");
	low_end(&w);
}

/* B21: outputs never share storage; x itself is copied. */
static void test_lower_outputs_are_distinct_buffers(void **state)
{
	struct low w;
	uint32_t i, j;

	(void)state;
	low_cpu(&w, "%x : f32[10] = placeholder()\n%a = add.Scalar(%x, 1)\n%m = mul.Scalar(%x, 1)\n"
		    "return (%a, %a, %x, %m)\n");
	assert_int_equal(w.l->outputs.n, 4);
	for (i = 0; i < 4; i++) {
		assert_int_equal(low_output(&w, i)->kind, STX_BUF_OUTPUT);
		assert_int_equal(low_output(&w, i)->index, i);
		for (j = 0; j < i; j++)
			assert_ptr_not_equal(low_output(&w, i), low_output(&w, j));
	}
	low_end(&w);
}

/* LO-04: no rule: refused by name. */
static void test_lower_operator_without_rule_is_unsupported(void **state)
{
	struct low w;

	(void)state;
	assert_int_equal(
		low_try(&w, "%x : f32[2,3] = placeholder()\n%g = gelu.default(%x)\nreturn (%g,)\n",
			(struct stx_lower_options){ 0 }),
		STX_E_UNSUPPORTED);
	assert_has(w.d.text, "gelu.default");
	low_end(&w);
}

/* B69: 1e5 repeats of x*0.5 + 0.5, 20000 views, x = x+x 64 times: iterative, linear, no explosion.
 */
static void test_lower_deep_graphs_stay_linear(void **state)
{
	struct low w;
	struct stx_bytes t = { 0 };
	uint32_t i, total;

	(void)state;
	stx_bytes_puts(&t, "%x0 : f32[1] = placeholder()\n");
	for (i = 0; i < 100000; i++)
		stx_bytes_printf(&t,
				 "%%a%u = mul.Scalar(%%x%u, 0.5)\n%%x%u = add.Scalar(%%a%u, 0.5)\n",
				 i, i, i + 1, i);
	stx_bytes_puts(&t, "return (%x100000,)\n");
	low_cpu(&w, stx_bytes_cstr(&t));
	for (i = total = 0; i < w.l->buffers.n; i++) {
		assert_true(w.l->buffers.at[i]->body.n < 3 * 4200);
		total += w.l->buffers.at[i]->body.n;
	}
	assert_true(total >= 400000 && total < 401000);
	low_end(&w);

	stx_bytes_clear(&t);
	stx_bytes_puts(&t, "%x0 : f32[4,6] = placeholder()\n%r0 = relu.default(%x0)\n");
	for (i = 0; i < 20000; i++)
		stx_bytes_printf(&t,
				 i % 2 ? "%%r%u = transpose.int(%%r%u, 0, 1)\n"
				       : "%%r%u = flip.default(%%r%u, [0])\n",
				 i + 1, i);
	stx_bytes_puts(&t, "return (%r20000,)\n");
	low_cpu(&w, stx_bytes_cstr(&t));
	assert_int_equal(low_computed(&w), 1);
	low_end(&w);

	stx_bytes_clear(&t);
	stx_bytes_puts(&t, "%x0 : f32[1] = placeholder()\n");
	for (i = 0; i < 64; i++)
		stx_bytes_printf(&t, "%%x%u = add.Tensor(%%x%u, %%x%u)\n", i + 1, i, i);
	stx_bytes_puts(&t, "return (%x64,)\n");
	low_cpu(&w, stx_bytes_cstr(&t));
	for (i = total = 0; i < w.l->buffers.n; i++)
		total += w.l->buffers.at[i]->body.n;
	assert_true(total < 1000);
	low_end(&w);
	stx_bytes_free(&t);
}

/* Sharing through different users and views may not explode either. */
static void test_lower_shared_values_stay_bounded(void **state)
{
	static const char *const ops[] = { "sigmoid.default(%x", "flip.default(%x",
					   "cat.default([%x" };
	uint32_t k, i, total;

	(void)state;
	for (k = 0; k < 3; k++) {
		struct low w;
		struct stx_bytes t = { 0 };

		stx_bytes_puts(&t, "%x0 : f32[2,4] = placeholder()\n");
		for (i = 0; i < 60; i++) {
			stx_bytes_printf(&t, "%%y%u = %s%u", i, ops[k], i);
			if (k == 2)
				stx_bytes_printf(
					&t, ", %%x%u], 1)\n%%x%u = slice.Tensor(%%y%u, 1, 2, 6)\n",
					i, i + 1, i);
			else
				stx_bytes_printf(&t, "%s)\n%%x%u = add.Tensor(%%y%u, %%x%u)\n",
						 k ? ", [0]" : "", i + 1, i, i);
		}
		stx_bytes_puts(&t, "return (%x60,)\n");
		low_cpu(&w, stx_bytes_cstr(&t));
		for (i = total = 0; i < w.l->buffers.n; i++)
			total += w.l->buffers.at[i]->body.n;
		assert_true(total < 60000);
		low_end(&w);
		stx_bytes_free(&t);
	}
}

/* A dead reduction makes no buffer, and its operand has one user less. */
static void test_lower_dead_nodes_are_left_out(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w, "%x : f32[8] = placeholder()\n%e = exp.default(%x)\n%s = amax.default(%e)\n"
		    "%n = neg.default(%s)\n%m = neg.default(%e)\nreturn (%m,)\n");
	assert_int_equal(low_computed(&w), 1);
	low_end(&w);
}

/* Index expressions that outgrow their limits are cut by writing the value down. */
static void test_lower_nested_reshapes_are_realised(void **state)
{
	struct low w;
	struct stx_bytes t = { 0 };
	uint32_t i;

	(void)state;
	stx_bytes_puts(&t, "%x : f32[6,5] = placeholder()\n%v0 = relu.default(%x)\n");
	for (i = 0; i < 300; i++)
		stx_bytes_printf(&t,
				 "%%t%u = t.default(%%v%u)\n%%v%u = view.default(%%t%u, [6, 5])\n",
				 i, i, i + 1, i);
	stx_bytes_puts(&t, "return (%v300,)\n");
	low_cpu(&w, stx_bytes_cstr(&t));
	assert_true(low_computed(&w) > 1);
	for (i = 0; i < w.l->buffers.n; i++)
		if (w.l->buffers.at[i]->kind == STX_BUF_TEMP)
			assert_string_equal(stx_realized_text(w.l->buffers.at[i]->rule),
					    "index size");
	stx_bytes_free(&t);
	low_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lower_example_1_1_is_one_reduction),
		cmocka_unit_test(test_lower_example_1_1_handlers_give_six_lines),
		cmocka_unit_test(test_lower_chain_of_100_is_one_buffer),
		cmocka_unit_test(test_lower_broadcast_drops_index_terms),
		cmocka_unit_test(test_lower_scalar_is_constant_of_node_dtype),
		cmocka_unit_test(test_lower_promotion_casts_operands),
		cmocka_unit_test(test_lower_half_widens_and_rounds_each_node),
		cmocka_unit_test(test_lower_square_loads_twice),
		cmocka_unit_test(test_lower_cat_is_masked_loads_in_one_buffer),
		cmocka_unit_test(test_lower_cat_of_four_tests_each_piece_once),
		cmocka_unit_test(test_lower_cat_empty_pieces_are_skipped),
		cmocka_unit_test(test_lower_index_from_memory_keeps_wrap_and_check),
		cmocka_unit_test(test_lower_index_from_arange_is_direct),
		cmocka_unit_test(test_lower_index_range_of_value_elides_check),
		cmocka_unit_test(test_lower_gather_checks_without_wrap),
		cmocka_unit_test(test_lower_index_arithmetic_keeps_value_semantics),
		cmocka_unit_test(test_lower_outputs_are_distinct_buffers),
		cmocka_unit_test(test_lower_operator_without_rule_is_unsupported),
		cmocka_unit_test(test_lower_dead_nodes_are_left_out),
		cmocka_unit_test(test_lower_nested_reshapes_are_realised),
		cmocka_unit_test(test_lower_deep_graphs_stay_linear),
		cmocka_unit_test(test_lower_shared_values_stay_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
