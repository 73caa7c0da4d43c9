/* test_report.c: the compile report: traffic and launches before and after fusion, memory, rules of
 * realisation, why kernels stay apart (GF-02 to GF-12, RZ-02, RZ-03, RZ-10, RZ-13, BE-01, BE-02).
 */
#include <math.h>

#include "from_text.h"

static const char *line_with(const struct stx_schedule *s, const char *start)
{
	for (uint32_t i = 0; i < s->report.n; i++)
		if (!strncmp(s->report.at[i], start, strlen(start)))
			return s->report.at[i];
	fail_msg("no line %s", start);
	return "";
}

/* GELU with bias and residual, 11 instructions (GF-01), every tensor 4096x14336 in bf16. */
static const char gelu[] = "%x : bf16[4096,14336] = placeholder()\n"
			   "%b : bf16[4096,14336] = placeholder()\n"
			   "%r : bf16[4096,14336] = placeholder()\n"
			   "%h = add.Tensor(%x, %b)\n"
			   "%m = mul.Scalar(%h, 0.5)\n"
			   "%c = mul.Scalar(%h, 0.044715)\n"
			   "%d = mul.Tensor(%c, %h)\n"
			   "%e = mul.Tensor(%d, %h)\n"
			   "%f = add.Tensor(%h, %e)\n"
			   "%g = mul.Scalar(%f, 0.7978845608)\n"
			   "%t = tanh.default(%g)\n"
			   "%u = add.Scalar(%t, 1)\n"
			   "%y = mul.Tensor(%m, %u)\n"
			   "%o = add.Tensor(%y, %r)\n"
			   "return (%o)";
#define TENSOR ((uint64_t)4096 * 14336 * 2)

static void test_report_gelu_moves_a_seventh(void **state)
{
	(void)state;
	struct maker m;
	lower_text(&m, gelu);
	struct stx_schedule *s = must_schedule(&m, 0);
	/* GF-02: 17 reads and 11 writes of 117.44 MB become 3 and 1: 7.0 times less */
	assert_int_equal(s->unfused.reads, 17);
	assert_int_equal(s->unfused.writes, 11);
	assert_int_equal(s->fused.reads, 3);
	assert_int_equal(s->fused.writes, 1);
	assert_int_equal(s->unfused.bytes_read + s->unfused.bytes_written, 28 * TENSOR);
	assert_int_equal(s->fused.bytes_read + s->fused.bytes_written, 4 * TENSOR);
	assert_int_equal(s->bytes_min, 4 * TENSOR);
	assert_true(fabs((double)(28 * TENSOR) / 3.35e12 - 0.98e-3) < 0.005e-3);
	assert_true(fabs((double)(4 * TENSOR) / 3.35e12 - 0.14e-3) < 0.005e-3);
	/* GF-03, GF-11: launches 11 -> 1; both counts are in the report */
	assert_int_equal(s->unfused.launches, 11);
	assert_int_equal(s->fused.launches, 1);
	assert_string_equal(line_with(s, "fusion:"),
			    "fusion: 11 operators in 1 kernel; 28 tensor passes in 4; "
			    "3288.3 MB in 469.8 MB, 7.0 times less; the least is 469.8 MB");
	/* GF-04: 11 operations for 8 bytes, 1.375 */
	assert_int_equal(s->accounts[0].ops, 11 * TENSOR / 2);
	expect(line_with(s, "poi_fused"), "1.38 operations a byte");
	assert_int_equal(s->temps, 0);
	stx_arena_free(m.a);
}

static void test_report_gelu_unfused_is_a_kernel_an_instruction_in_three_buffers(void **state)
{
	(void)state; /* BE-01, BE-02, GF-06, GF-07 */
	struct maker m;
	lower_text_with(&m, gelu, (struct stx_lower_options){ .no_inline = 1 });
	struct stx_schedule *s = must_schedule(&m, 1);
	assert_int_equal(s->fused.launches, 11);
	assert_int_equal(s->fused.writes, 11);
	assert_int_equal(s->fused.reads, 17);
	assert_int_equal(s->temps + 1, 11); /* and the output */
	assert_int_equal(s->temp_bytes, 10 * TENSOR);
	assert_int_equal(s->workspace_bytes, 3 * TENSOR); /* 352.32 MB */
	assert_int_equal(s->reused, 7);
	assert_int_equal(s->in_place, 7);
	expect(line_with(s, "memory:"),
	       "memory: 10 temporaries of 1174.4 MB in 352.3 MB; 7 in memory "
	       "used before, 7 of them in place of an operand");
	stx_arena_free(m.a);
}

static void test_report_layer_norm_tail_moves_less_by_two_and_a_half(void **state)
{
	(void)state; /* GF-09: 2+2+3+3 passes of whole tensors become 4, ratio 2.5 */
	struct maker m;
	lower_text(&m, "%x : f32[64,768] = placeholder()\n%u : f32[64,1] = placeholder()\n"
		       "%s : f32[64,1] = placeholder()\n%w : f32[64,768] = placeholder()\n"
		       "%b : f32[64,768] = placeholder()\n%c = sub.Tensor(%x, %u)\n"
		       "%n = mul.Tensor(%c, %s)\n%m = mul.Tensor(%n, %w)\n%y = add.Tensor(%m, %b)\n"
		       "return (%y)");
	struct stx_schedule *s = must_schedule(&m, 0);
	assert_int_equal(s->unfused.launches, 4);
	assert_int_equal(s->unfused.reads + s->unfused.writes - 2, 10); /* without mean and rstd */
	assert_int_equal(s->fused.reads + s->fused.writes - 2, 4);
	stx_arena_free(m.a);
}

/* ---- why kernels stay apart ---- */

static void test_report_names_the_kernel_it_was_not_fused_with_and_why(void **state)
{
	(void)state; /* GF-11, GF-12 */
	struct maker m;
	lower_text(&m, "%x : f32[64,64] = placeholder()\n%a = exp.default(%x)\n"
		       "%f = flip.default(%a, [0])\n%y = add.Tensor(%a, %f)\nreturn (%y, %a)");
	struct stx_schedule *s = must_schedule(&m, 0);
	assert_int_equal(s->kernels.n, 2);
	assert_int_equal(s->groups.at[1].apart_from, 0);
	expect(s->report.at[s->report.n - 1], "not fused with poi_fused_a_0: it reads the group's "
					      "results at other points");
	stx_arena_free(m.a);
	/* a product of matrices is compute bound and starts a kernel */
	lower_text(&m, "%x : f32[64,64] = placeholder()\n%y : f32[64,64] = placeholder()\n"
		       "%a = mm.default(%x, %y)\n%b = mm.default(%a, %y)\nreturn (%b)");
	s = must_schedule(&m, 0);
	expect(s->report.at[s->report.n - 1],
	       "not fused with red_fused_a_0: a reduction over other kernels' results starts a "
	       "kernel");
	stx_arena_free(m.a);
}

/* GF-12: what would make the kernel compute bound or too large for registers is kept out of it. */
static void test_report_fusion_stops_where_it_would_lose(void **state)
{
	(void)state;
	struct maker m;
	struct stx_bytes text = { 0 };
	/* 70 functions: more than a kernel's 64 */
	stx_bytes_puts(&text, "%v0 : f32[64,64] = placeholder()\n");
	for (int i = 0; i < 70; i++)
		stx_bytes_printf(&text, "%%v%d = tan.default(%%v%d)\n", i + 1, i);
	stx_bytes_puts(&text, "return (%v70)");
	lower_text(&m, stx_bytes_cstr(&text));
	struct stx_schedule *s = must_schedule(&m, 0);
	assert_int_equal(s->kernels.n, 2);
	expect(s->report.at[s->report.n - 1], "the kernel would be too large");
	stx_arena_free(m.a);
	/* scalar code behind rows along lanes: 400,000 short rows, functions of each sum */
	lower_text(&m,
		   "%x : f32[400000,32] = placeholder()\n%s = sum.dim_IntList(%x, [1])\n"
		   "%a = sin.default(%s)\n%b = cos.default(%a)\n%c = tan.default(%b)\nreturn (%c)");
	s = must_schedule(&m, 0);
	assert_int_equal(s->kernels.n, 2);
	expect(s->report.at[s->report.n - 1],
	       "it would be scalar code behind a reduction along vector lanes");
	stx_bytes_free(&text);
	stx_arena_free(m.a);
}

static void test_report_horizontal_fusion_is_named(void **state)
{
	(void)state;
	struct maker m;
	lower_text(&m,
		   "%x : f32[64,64] = placeholder()\n%a = exp.default(%x)\n%b = neg.default(%x)\n"
		   "return (%a, %b)");
	struct stx_schedule *s = must_schedule(&m, 0);
	assert_int_equal(s->kernels.n, 1);
	assert_int_equal(s->groups.at[0].nbeside, 1);
	assert_int_equal(s->fused.bytes_read, 64 * 64 * 4); /* x once for both */
	expect(s->report.at[s->report.n - 1], "; 1 beside the others for a shared input");
	stx_arena_free(m.a);
	lower_text(&m, "%x : f32[64,64] = placeholder()\n%y : f32[64,64] = placeholder()\n"
		       "%a = exp.default(%x)\n%b = neg.default(%y)\nreturn (%a, %b)");
	s = must_schedule(&m, 0);
	assert_int_equal(s->kernels.n, 2); /* nothing to save */
	expect(s->report.at[s->report.n - 1], "it shares no input with the kernel over its space");
	stx_arena_free(m.a);
}

/* ---- realisation ---- */

static void test_report_cost_model_of_realisation(void **state)
{
	(void)state;
	struct stx__cost c = { .n = 1e6,
			       .ops = 8,
			       .in_bytes = 8,
			       .bytes = 4,
			       .ops_per_s = 1e12,
			       .bytes_per_s = 1e11 };
	static const double want[] = { -8.0e-5, -3.2e-5, 1.6e-5, 6.4e-5 }; /* RZ-03 */
	for (int k = 1; k <= 4; k++) {
		c.users = k;
		double inlined = k * c.n * (c.ops / c.ops_per_s + c.in_bytes / c.bytes_per_s);
		double realised = c.n * (c.ops / c.ops_per_s + c.in_bytes / c.bytes_per_s) +
				  (k + 1) * c.n * c.bytes / c.bytes_per_s;
		assert_true(fabs(stx__realize_gain(&c) - want[k - 1]) < 1e-12);
		assert_true(fabs(stx__realize_gain(&c) - (inlined - realised)) < 1e-12); /* RZ-02 */
	}
}

/* The rule of the first TEMP that is no reduction, or NULL. */
static const char *rule_of(struct maker *m)
{
	for (uint32_t i = 0; i < m->l->buffers.n; i++)
		if (m->l->buffers.at[i]->kind == STX_BUF_TEMP &&
		    m->l->buffers.at[i]->def == STX_DEF_POINTWISE)
			return stx_realized_text(m->l->buffers.at[i]->rule);
	return NULL;
}

static void test_report_names_the_rule_that_realised_a_buffer(void **state)
{
	(void)state; /* RZ-10 */
	struct maker m;
	lower_text(&m, "%x : f32[64,64] = placeholder()\n%a = tanh.default(%x)\n"
		       "%f = flip.default(%a, [0])\n%y = add.Tensor(%a, %f)\nreturn (%y)");
	struct stx_schedule *s = must_schedule(&m, 0);
	assert_string_equal(rule_of(&m), "expensive");
	expect(line_with(s, "poi_fused_a_0"), "(expensive");
	expect(line_with(s, "poi_fused_f_y_1"), "(output)");
	stx_arena_free(m.a);
	lower_text(&m, "%x : f32[64,64] = placeholder()\n%w : f32[64,64] = placeholder()\n"
		       "%a = mm.default(%x, %w)\n%s = sum.dim_IntList(%a, [0])\nreturn (%s)");
	s = must_schedule(&m, 0);
	expect(line_with(s, "red_fused_a_0"), "(contraction)");
	stx_arena_free(m.a);
}

/* RZ-13: with a symbolic size the rules see hints; the realised buffers are those of the static
 * graph, and the kernels are right for the whole range (test_schedule_random). */
static void test_report_symbolic_sizes_realise_as_their_hints(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"%x : f32[12,64] = placeholder()\n%a = tanh.default(%x)\n"
		"%f = flip.default(%a, [1])\n%y = add.Tensor(%a, %f)\nreturn (%y)",
		"sym s0 = [1, 1000] hint 12\n"
		"%x : f32[s0,64] = placeholder()\n%a = tanh.default(%x)\n"
		"%f = flip.default(%a, [1])\n%y = add.Tensor(%a, %f)\nreturn (%y)",
	};
	uint64_t bytes[2];
	for (int i = 0; i < 2; i++) {
		struct maker m;
		lower_text(&m, texts[i]);
		m.sym_value = 12;
		struct stx_schedule *s = must_schedule(&m, 0);
		assert_string_equal(rule_of(&m), "expensive");
		bytes[i] = s->fused.bytes_read + s->fused.bytes_written;
		stx_arena_free(m.a);
	}
	assert_int_equal(bytes[0], bytes[1]);
}

/* The report travels with every reply: it has an end. */
static void test_report_of_many_kernels_is_bounded(void **state)
{
	(void)state;
	struct maker m;
	struct stx_bytes text = { 0 };
	stx_bytes_puts(&text, "%v0 : f32[64,64] = placeholder()\n");
	for (int i = 0; i < 1500; i++)
		stx_bytes_printf(&text, "%%v%d = mm.default(%%v%d, %%v0)\n", i + 1, i);
	stx_bytes_puts(&text, "return (%v1500)");
	lower_text(&m, stx_bytes_cstr(&text));
	struct stx_schedule *s = must_schedule(&m, 0);
	assert_int_equal(s->kernels.n, 1500);
	assert_int_equal(s->report.n, 2 + 1000 + 1);
	assert_string_equal(s->report.at[s->report.n - 1], "and 500 kernels more");
	stx_bytes_free(&text);
	stx_arena_free(m.a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_report_gelu_moves_a_seventh),
		cmocka_unit_test(
			test_report_gelu_unfused_is_a_kernel_an_instruction_in_three_buffers),
		cmocka_unit_test(test_report_layer_norm_tail_moves_less_by_two_and_a_half),
		cmocka_unit_test(test_report_names_the_kernel_it_was_not_fused_with_and_why),
		cmocka_unit_test(test_report_fusion_stops_where_it_would_lose),
		cmocka_unit_test(test_report_horizontal_fusion_is_named),
		cmocka_unit_test(test_report_cost_model_of_realisation),
		cmocka_unit_test(test_report_names_the_rule_that_realised_a_buffer),
		cmocka_unit_test(test_report_symbolic_sizes_realise_as_their_hints),
		cmocka_unit_test(test_report_of_many_kernels_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
