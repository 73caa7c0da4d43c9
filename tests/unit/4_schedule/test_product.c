/* test_product.c: matrix products that a library may make: what is found, the call's attributes,
 * and external calls as steps among others: memory, evaluation, report. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "passes.h"
#include "ref.h"
#include "schedule.h"
#include "schedule_eval.h"

static struct stx_graph *parse(struct stx_arena *a, const char *text)
{
	struct stx_diag d = { 0 };
	struct stx_graph *g = NULL;
	if (stx_graph_parse(a, text, strlen(text), &g, &d) || stx_graph_verify(g, &d))
		fail_msg("%s: %s in\n%s", d.location, d.text, text);
	return g;
}

static struct stx_schedule *schedule(struct stx_arena *a, const char *text,
				     struct stx_schedule_options o)
{
	struct stx_lower_options lower = { .target_gpu = o.target_gpu };
	struct stx_diag d = { 0 };
	struct stx_graph *g = parse(a, text);
	struct stx_loops *l = NULL;
	struct stx_schedule *s = NULL;
	if (stx_graph_decompose_to_basis(&g, &d) || stx_graph_decompose_to_primitives(&g, &d) ||
	    stx_lower(g, &lower, &l, &d) || stx_schedule(l, &o, &s, &d))
		fail_msg("%s %s: %s in\n%s", d.stage, d.node, d.text, text);
	return s;
}

static const struct stx_schedule_options gpu = { .target_gpu = 1 };

static int64_t attr(const struct stx_schedule *s, uint32_t call, uint32_t i)
{
	int64_t v = -1;
	assert_true(stx_ex_is_const(s->loops->ex, s->externals.at[call].attrs[i], &v));
	return v;
}

static void attrs_are(const struct stx_schedule *s, uint32_t call, const int64_t *want)
{
	for (uint32_t i = 0; i < STX_MATMUL_NATTRS; i++)
		if (attr(s, call, i) != want[i])
			fail_msg("attribute %u is %lld instead of %lld", i,
				 (long long)attr(s, call, i), (long long)want[i]);
}

/* The library has columns one after the other; the result's rows are, so it makes the transpose:
 * rows and columns of the attributes are the graph's columns and rows, A is the graph's second
 * operand. Arguments are those of the kernel: %a, %b, the result, and memory to work in. */
static void test_product_attributes_are_what_lies_in_memory(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_schedule *s =
		schedule(a,
			 "%a : f16[100,80] = placeholder()\n%b : f16[80,60] = placeholder()\n"
			 "%y = mm.default(%a, %b)\nreturn (%y,)\n",
			 gpu);
	assert_int_equal(s->steps.n, 1);
	assert_int_equal(s->steps.at[0].kind, STX_SCHED_EXTERNAL);
	const struct stx_external *c = &s->externals.at[0];
	assert_string_equal(c->name, STX_CALL_MATMUL);
	assert_int_equal(c->nuses, 4);
	assert_int_equal(c->uses[3].buffer, c->workspace);
	assert_true(c->uses[0].is_read && !c->uses[0].is_written && c->uses[2].is_written);
	attrs_are(s, 0,
		  (int64_t[STX_MATMUL_NATTRS]){ 60, 100, 80, 1, /* A */ 1, 0, 60, 0, 0, /* B */ 0,
						0, 80, 0, 0,
						/* D */ 2, 0, 60, 0, 0 });
	s = schedule(a,
		     "%a : f32[4,50,90] = placeholder()\n%b : f32[4,70,90] = placeholder()\n"
		     "%t = transpose.int(%b, 1, 2)\n%c = slice.Tensor(%a, 2, 10, 90, 1)\n"
		     "%d = slice.Tensor(%t, 1, 0, 80, 1)\n"
		     "%y = bmm.default(%c, %d)\nreturn (%y,)\n",
		     gpu);
	assert_int_equal(s->externals.n, 1);
	attrs_are(s, 0,
		  (int64_t[STX_MATMUL_NATTRS]){ 70, 50, 80, 4, /* A */ 1, 1, 90, 6300, 0, /* B */ 0,
						0, 90, 4500, 10,
						/* D */ 2, 0, 70, 3500, 0 });
	stx_arena_free(a);
}

static void test_product_that_is_none_is_a_kernel(void **state)
{
	(void)state;
	static const char *const graphs[] = {
		/* small */
		"%a : f32[8,80] = placeholder()\n%b : f32[80,64] = placeholder()\n"
		"%y = mm.default(%a, %b)\nreturn (%y,)\n",
		/* no unit stride; rows that overlap; one row for all */
		"%a : f32[64,80] = placeholder(strides=[320,2])\n%b : f32[80,64] = placeholder()\n"
		"%y = mm.default(%a, %b)\nreturn (%y,)\n",
		"%a : f32[64,80] = placeholder(strides=[3,1])\n%b : f32[80,64] = placeholder()\n"
		"%y = mm.default(%a, %b)\nreturn (%y,)\n",
		"%a : f32[64,80] = placeholder(strides=[0,1])\n%b : f32[80,64] = placeholder()\n"
		"%y = mm.default(%a, %b)\nreturn (%y,)\n",
		/* a sum of products that are rounded first */
		"%a : f32[64,80] = placeholder()\n%b : f32[64,80] = placeholder()\n"
		"%p = mul.Tensor(%a, %b)\n%y = sum.dim_IntList(%p, [1])\nreturn (%y,)\n",
		/* types that it does not have */
		"%a : f8e5m2[64,80] = placeholder()\n%b : f8e5m2[80,64] = placeholder()\n"
		"%y = mm.default(%a, %b)\nreturn (%y,)\n",
		"%a : i64[64,80] = placeholder()\n%b : i64[80,64] = placeholder()\n"
		"%y = mm.default(%a, %b)\nreturn (%y,)\n",
	};
	struct stx_arena *a = stx_arena_new(0);
	for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
		struct stx_schedule *s = schedule(a, graphs[i], gpu);
		if (s->externals.n || s->steps.at[0].kind != STX_SCHED_KERNEL)
			fail_msg("a call for\n%s", graphs[i]);
	}
	stx_arena_free(a);
}

static const char layers[] = "%x : f32[64,96] = placeholder()\n%w : f32[96,96] = placeholder()\n"
			     "%b : f32[96] = placeholder()\n"
			     "%m0 = mm.default(%x, %w)\n%a0 = add.Tensor(%m0, %b)\n"
			     "%r0 = relu.default(%a0)\n"
			     "%m1 = mm.default(%r0, %w)\n%a1 = add.Tensor(%m1, %b)\n"
			     "%r1 = relu.default(%a1)\n"
			     "%m2 = mm.default(%r1, %w)\n%s = sum.dim_IntList(%m2, [1])\n"
			     "return (%s,)\n";

/* A CPU target and no_external leave kernels; a call takes nothing else in. */
static void test_product_calls_stand_between_kernels(void **state)
{
	(void)state;
	static const enum stx_sched_kind kinds[] = {
		STX_SCHED_EXTERNAL, STX_SCHED_KERNEL,   STX_SCHED_EXTERNAL,
		STX_SCHED_KERNEL,   STX_SCHED_EXTERNAL, STX_SCHED_KERNEL,
	};
	struct stx_arena *a = stx_arena_new(0);
	struct stx_schedule *s = schedule(a, layers, gpu);
	assert_int_equal(s->steps.n, sizeof kinds / sizeof *kinds);
	for (uint32_t i = 0; i < s->steps.n; i++)
		assert_int_equal(s->steps.at[i].kind, kinds[i]);
	assert_int_equal(s->kernels.n, 6);
	assert_int_equal(stx_step_kernel(s, 0), 0);
	int named = 0;
	for (uint32_t i = 0; i < s->report.n; i++)
		named += !strncmp(s->report.at[i], STX_CALL_MATMUL ", else ", 22);
	assert_int_equal(named, 3);
	assert_int_equal(schedule(a, layers, (struct stx_schedule_options){ 0 })->externals.n, 0);
	s = schedule(a, layers, (struct stx_schedule_options){ .target_gpu = 1, .no_external = 1 });
	assert_int_equal(s->externals.n, 0);
	assert_int_equal(s->steps.n, s->kernels.n);
	stx_arena_free(a);
}

/* Memory to work in is live in its step alone, so calls share it, and nothing live lies there. */
static void test_product_workspace_overlaps_nothing_live(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_schedule *s = schedule(a, layers, gpu);
	uint32_t n = s->loops->buffers.n, pairs = 0;
	uint64_t most = 0;
	for (uint32_t i = 0; i < s->externals.n; i++) {
		const struct stx_slot *w = &s->slots[s->externals.at[i].workspace];
		assert_int_equal(w->first_step, w->last_step);
		assert_int_equal(w->size_bytes, 1 << 20);
		most = w->offset_bytes > most ? w->offset_bytes : most;
	}
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < i; j++) {
			const struct stx_slot *p = &s->slots[i], *q = &s->slots[j];
			int live = p->size != STX_EX_BAD && q->size != STX_EX_BAD &&
				   p->first_step <= q->last_step && q->first_step <= p->last_step &&
				   !p->in_place && !q->in_place;
			pairs += (uint32_t)live;
			assert_true(!live || p->offset_bytes >= q->offset_bytes + q->size_bytes ||
				    q->offset_bytes >= p->offset_bytes + p->size_bytes);
		}
	assert_true(pairs >= s->externals.n);         /* at least each with its result */
	assert_true(s->workspace_bytes < (3u << 20)); /* not one for each */
	stx_arena_free(a);
}

static void test_product_schedule_evaluates_as_the_oracle(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_schedule *s = schedule(a, layers, gpu);
	static float x[64 * 96], w[96 * 96], b[96], y[64];
	struct stx_tensor in[3] = {
		{ .data = x,
		  .dtype = STX_F32,
		  .rank = 2,
		  .sizes = { 64, 96 },
		  .strides = { 96, 1 } },
		{ .data = w,
		  .dtype = STX_F32,
		  .rank = 2,
		  .sizes = { 96, 96 },
		  .strides = { 96, 1 } },
		{ .data = b, .dtype = STX_F32, .rank = 1, .sizes = { 96 }, .strides = { 1 } },
	};
	struct stx_tensor out[1];
	struct stx_diag d = { 0 };
	void *data[64] = { 0 };
	for (int i = 0; i < 64 * 96; i++)
		x[i] = (float)(i % 5 - 2);
	for (int i = 0; i < 96 * 96; i++)
		w[i] = i % 17 == 0;
	for (int i = 0; i < 96; i++)
		b[i] = (float)(i % 3 - 1);
	for (uint32_t i = 0; i < s->loops->buffers.n; i++) {
		const struct stx_buffer *q = s->loops->buffers.at[i];
		if (q->kind == STX_BUF_INPUT)
			data[i] = in[q->index].data;
		if (q->kind == STX_BUF_OUTPUT)
			data[i] = y;
	}
	if (stx_schedule_evaluate(s, data, NULL, &d))
		fail_msg("%s: %s", d.node, d.text);
	assert_int_equal(stx_ref_evaluate(parse(a, layers), in, 3, out, 0, &d), 0);
	for (int i = 0; i < 64; i++)
		assert_true(y[i] == ((const float *)out[0].data)[i]);
	free(out[0].data);
	stx_arena_free(a);
}

/* On a GPU halves that are computed for a product are in memory as halves, not as f32. */
static void test_product_operands_stay_narrow_in_memory(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_schedule *s =
		schedule(a,
			 "%x : bf16[64,96] = placeholder()\n%w : bf16[96,96] = placeholder()\n"
			 "%v : bf16[96,96] = placeholder()\n%b : bf16[96] = placeholder()\n"
			 "%e = exp.default(%x)\n%p = addmm.default(%b, %e, %w)\n"
			 "%q = addmm.default(%b, %e, %v)\nreturn (%p, %q)\n",
			 gpu);
	assert_int_equal(s->externals.n, 2);
	for (uint32_t i = 0; i < 2; i++)
		for (int k = 0; k < 2; k++) {
			uint32_t arg = (uint32_t)attr(
				s, i, (k ? STX_MATMUL_A : STX_MATMUL_B) + STX_MATRIX_ARG);
			uint32_t buffer = s->externals.at[i].uses[arg].buffer;
			assert_int_equal(s->loops->buffers.at[buffer]->dtype, STX_BF16);
		}
	stx_arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_product_attributes_are_what_lies_in_memory),
		cmocka_unit_test(test_product_that_is_none_is_a_kernel),
		cmocka_unit_test(test_product_calls_stand_between_kernels),
		cmocka_unit_test(test_product_workspace_overlaps_nothing_live),
		cmocka_unit_test(test_product_schedule_evaluates_as_the_oracle),
		cmocka_unit_test(test_product_operands_stay_narrow_in_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
