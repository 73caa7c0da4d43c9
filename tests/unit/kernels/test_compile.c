/* test_compile.c: what the calls of compile.h refuse, and that each refuses it alike. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "compile.h"
#include "compiled.h"

static struct stx_source source_of(const char *text)
{
	return (struct stx_source){ .format = 2, .body = { (const uint8_t *)text, strlen(text) } };
}

/* DS-01: the default is concrete shapes; an artifact for the hint would be wrong for other sizes.
 */
static void test_compile_size_symbol_is_refused_by_name_wherever_code_is_made(void **state)
{
	static const char text[] = "sym batch = [1,100] hint 4\n%x : f32[batch,2] = placeholder()\n"
				   "%m = mul.Scalar(%x, 3)\nreturn (%m,)\n";
	struct stx_source s = source_of(text);
	struct stx_compare_options o = { .compile = { .target = "cpu:x86-64-v2" },
					 .max_work = 1000 };
	struct stx_key_result key;
	struct stx_compare_result layers;
	struct stx_bytes out = { 0 };
	struct stx_diag d = { 0 };
	float x[8] = { 0 };
	struct stx_tensor in = { .data = x, .dtype = STX_F32, .rank = 2, .sizes = { 4, 2 } };
	struct stx_tensor outs[1];
	uint32_t n = 1;
	(void)state;
	compiled_dense(&in);
	assert_int_equal(stx_compile_key(compiled_compiler(), &s, &o.compile, &key, &d),
			 STX_E_UNSUPPORTED);
	assert_non_null(strstr(d.text, "size symbol 'batch'"));
	stx_key_result_free(&key);
	stx_diag_clear(&d);
	assert_int_equal(
		stx_compile_dump(compiled_compiler(), &s, &o.compile, "kernels", "text", &out, &d),
		STX_E_UNSUPPORTED);
	stx_bytes_free(&out);
	stx_diag_clear(&d);
	assert_int_equal(stx_compile_compare(&s, &o, &in, 1, outs, &n, &layers, &d),
			 STX_E_UNSUPPORTED);
}

static void test_compile_options_without_a_compiler_are_refused_by_every_call(void **state)
{
	struct stx_source s = source_of("%x : f32[2] = placeholder()\nreturn (%x,)\n");
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct stx_compile_options o = { .target = "cpu:x86-64-v2",
						 .training = i == 0,
						 .dynamic = i == 1 };
		struct stx_key_result key;
		struct stx_bytes out = { 0 };
		struct stx_diag d = { 0 };
		assert_int_equal(stx_compile_key(compiled_compiler(), &s, &o, &key, &d),
				 STX_E_UNSUPPORTED);
		assert_non_null(strstr(d.text, i ? "--dynamic" : "--training"));
		stx_key_result_free(&key);
		stx_diag_clear(&d);
		assert_int_equal(
			stx_compile_dump(compiled_compiler(), &s, &o, "plan", "text", &out, &d),
			STX_E_UNSUPPORTED);
		stx_bytes_free(&out);
	}
}

/* The first product of the graph, planned for the target with those blockings. */
static struct stx_plan_result plan_of(const char *text, const char *target,
				      const struct stx_choices *blockings)
{
	struct stx_source s = source_of(text);
	struct stx_compile_options o = { .target = target, .blockings = blockings };
	struct stx_key_result key = { 0 };
	struct stx_plan_result plan = { 0 };
	struct stx_diag d = { 0 };
	if (stx_compile_key(compiled_compiler(), &s, &o, &key, &d) ||
	    stx_compile_plan(compiled_compiler(), (struct stx_span){ key.graph.at, key.graph.n },
			     &o, &plan, &d))
		fail_msg("%s: %s", d.stage, d.text);
	stx_key_result_free(&key);
	assert_int_equal(plan.nkernels, 1);
	return plan;
}

#define MM(X, W, T) "%x : " X " = placeholder()\n%w : " W " = placeholder()\n" T "return (%y,)\n"

/* Timings of one are no timings of another: each text is one product. */
static void test_compile_products_of_other_time_have_other_names(void **state)
{
	static const char *const graphs[] = {
		MM("f32[96,256]", "f32[256,512]", "%y = mm.default(%x, %w)\n"),
		MM("f32[96,256]", "f32[512,256]", "%t = t.default(%w)\n%y = mm.default(%x, %t)\n"),
		MM("f32[256,96]", "f32[256,512]", "%t = t.default(%x)\n%y = mm.default(%t, %w)\n"),
		MM("f16[96,256]", "f16[256,512]", "%y = mm.default(%x, %w)\n"),
		MM("bf16[96,256]", "bf16[256,512]", "%y = mm.default(%x, %w)\n"),
		MM("f64[96,256]", "f64[256,512]", "%y = mm.default(%x, %w)\n"),
		MM("f32[96,288]", "f32[288,512]", "%y = mm.default(%x, %w)\n"),
		MM("f32[1,32,32,64]", "f32[96,32,3,3]",
		   "%y = convolution.default(%x, %w, None, [1,1], [1,1], [1,1], False, [0,0], "
		   "1)\n"),
		MM("f32[1,288,32,64]", "f32[96,288,1,1]",
		   "%y = convolution.default(%x, %w, None, [1,1], [0,0], [1,1], False, [0,0], "
		   "1)\n"),
	};
	enum { N = sizeof graphs / sizeof *graphs };
	char names[N][192];
	(void)state;
	for (int i = 0; i < N; i++) {
		struct stx_plan_result p = plan_of(graphs[i], "cpu:x86-64-v3", NULL);
		memcpy(names[i], p.kernels[0].product, sizeof names[i]);
		assert_in_range(p.kernels[0].nconfigs, 2, 8);
		stx_plan_result_free(&p);
		assert_true(names[i][0]);
		for (int j = 0; j < i; j++)
			assert_string_not_equal(names[i], names[j]);
	}
}

/* A choice is another kernel in another plan; without one, and with one for something else, the
 * plan is the model's to the byte. */
static void test_compile_blockings_are_what_is_compiled(void **state)
{
	static const char text[] = MM("f32[96,256]", "f32[256,512]", "%y = mm.default(%x, %w)\n");
	struct stx_choice at = { .config = "" };
	struct stx_choices c = { &at, 1 };
	(void)state;
	struct stx_plan_result first = plan_of(text, "cpu:x86-64-v3", NULL), p;
	const struct stx_kernel_desc *k = &first.kernels[0];
	for (uint32_t i = 0; i < k->nconfigs; i++)
		for (uint32_t j = 0; j < i; j++)
			assert_string_not_equal(k->configs[i].text, k->configs[j].text);
	p = plan_of(text, "cpu:x86-64-v3", &c);
	assert_int_equal(p.plan.n, first.plan.n);
	assert_memory_equal(p.plan.at, first.plan.at, p.plan.n);
	stx_plan_result_free(&p);
	at.of = stx_digest_of(k->product, strlen(k->product));
	for (uint32_t i = 0; i < k->nconfigs; i++) {
		at.config = k->configs[i].text;
		p = plan_of(text, "cpu:x86-64-v3", &c);
		assert_string_equal(p.kernels[0].product, k->product);
		assert_string_equal(p.kernels[0].configs[0].text, k->configs[0].text);
		assert_int_equal(p.kernels[0].grid[0], k->configs[i].grid[0]);
		assert_int_equal(stx_digest_eq(&p.kernels[0].digest, &k->digest), i == 0);
		stx_plan_result_free(&p);
	}
	stx_plan_result_free(&first);
}

/* What a kernel has no use for is not of its target: code for the level alone is the same to the
 * byte. */
static void test_compile_kernel_depends_on_the_features_it_uses(void **state)
{
	static const struct {
		const char *text, *target;
	} graphs[] = {
		{ "%x : f32[64,40] = placeholder()\n%e = exp.default(%x)\n"
		  "%s = sum.dim_IntList(%e, [-1])\nreturn (%s,)\n",
		  "cpu:x86-64-v4" },
		{ "%x : f32[2000] = placeholder()\n%c = _to_copy.default(%x, dtype=bf16)\n"
		  "return (%c,)\n",
		  "cpu:x86-64-v4+avx512bf16" },
		{ "%a : i8[64,64] = placeholder()\n%b : i8[64,64] = placeholder()\n"
		  "%p = _to_copy.default(%a, dtype=i32)\n%q = _to_copy.default(%b, dtype=i32)\n"
		  "%c = mm.default(%p, %q)\nreturn (%c,)\n",
		  "cpu:x86-64-v4+avx512vnni+avxvnni" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
		struct stx_span text = { (const uint8_t *)graphs[i].text, strlen(graphs[i].text) };
		struct stx_compile_options all = { .target = "cpu:x86-64-v4+avx512bf16+avx512vnni"
							     "+avxvnni" },
					   used = { .target = graphs[i].target };
		struct stx_plan_result p, q;
		struct stx_emit_result a, b;
		struct stx_diag d = { 0 };
		if (stx_compile_plan(compiled_compiler(), text, &all, &p, &d) ||
		    stx_compile_plan(compiled_compiler(), text, &used, &q, &d))
			fail_msg("%s", d.text);
		assert_int_equal(p.nkernels, 1);
		assert_string_equal(p.kernels[0].target, graphs[i].target);
		assert_string_equal(q.kernels[0].target, ""); /* all of it */
		struct stx_span ir = { p.kernels[0].ir.at, p.kernels[0].ir.n };
		assert_int_equal(stx_compile_emit(compiled_compiler(), ir, &all, &a, &d), 0);
		assert_int_equal(stx_compile_emit(compiled_compiler(), ir, &used, &b, &d), 0);
		assert_int_equal(a.object.n, b.object.n);
		assert_memory_equal(a.object.at, b.object.at, a.object.n);
		stx_emit_result_free(&a);
		stx_emit_result_free(&b);
		stx_plan_result_free(&p);
		stx_plan_result_free(&q);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compile_size_symbol_is_refused_by_name_wherever_code_is_made),
		cmocka_unit_test(test_compile_options_without_a_compiler_are_refused_by_every_call),
		cmocka_unit_test(test_compile_products_of_other_time_have_other_names),
		cmocka_unit_test(test_compile_blockings_are_what_is_compiled),
		cmocka_unit_test(test_compile_kernel_depends_on_the_features_it_uses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
