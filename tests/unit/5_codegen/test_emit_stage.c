/* test_emit_stage.c: the forms stx_emit_llvm gives: IR, assembly, objects; equal bytes for equal
 * input. */
#include "jit.h"

#include "../4_schedule/kernels.h"

static struct stx_bytes emit(const char *target, const char *text, enum stx_emit_stage stage,
			     struct stx_emit_info *info)
{
	struct stx_bytes out = { 0 };
	struct stx_diag d = { 0 };
	struct stx_cpu_target t;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_kernel *k = jit_parse(a, text);
	assert_int_equal(stx_cpu_target_parse(target, &t, &d), 0);
	if (stx_emit_llvm(jit.llvm, k, &t, 0, stage, &out, info, &d))
		fail_msg("%s: %s", target, d.text);
	stx_arena_free(a);
	return out;
}

static void test_emit_stage_equal_kernels_give_equal_objects(void **state)
{
	(void)state;
	for (const char *const *t = jit_targets(); *t; t++)
		for (size_t i = 0; i < N_TEXTS; i++) {
			struct stx_bytes a = emit(*t, all_texts[i], STX_EMIT_OBJECT, NULL),
					 so = { 0 };
			struct stx_span in = { a.at, a.n };
			assert_int_equal(stx_link_shared(&in, 1, &so, NULL),
					 0); /* resets LLVM's options */
			struct stx_bytes b = emit(*t, all_texts[i], STX_EMIT_OBJECT, NULL);
			assert_int_equal(a.n, b.n);
			assert_memory_equal(a.at, b.at, a.n);
			stx_bytes_free(&a);
			stx_bytes_free(&b);
			stx_bytes_free(&so);
		}
}

/* BE-06: nothing is left to a library, at any level (a sort is a function of its own module); no
 * exception tables. */
static void test_emit_stage_assembly_calls_nothing(void **state)
{
	static const char *const targets[] = { "cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4",
					       "cpu:x86-64-v4+avx512bf16" };
	(void)state;
	for (int j = 0; j < 4; j++)
		for (size_t i = 0; i < N_TEXTS; i++) {
			struct stx_bytes s = emit(targets[j], all_texts[i], STX_EMIT_ASM, NULL);
			const char *text = stx_bytes_cstr(&s);
			assert_non_null(strstr(text, "stx_k_"));
			for (const char *c = text; (c = strstr(c, "\tcall")); c++)
				assert_memory_equal(strpbrk(c + 1, " \t") + 1, ".Lsort_", 7);
			assert_null(strstr(text, ".eh_frame"));
			stx_bytes_free(&s);
		}
}

static void test_emit_stage_ir_text_before_and_after_the_passes(void **state)
{
	struct stx_emit_info info;
	(void)state;
	struct stx_bytes before = emit("cpu:x86-64-v3", text_rowsum, STX_EMIT_SOURCE, &info);
	struct stx_bytes after = emit("cpu:x86-64-v3", text_rowsum, STX_EMIT_OPTIMIZED_IR, &info);
	assert_non_null(strstr(stx_bytes_cstr(&before), "define void @stx_k_"));
	assert_non_null(strstr(stx_bytes_cstr(&after), "define void @stx_k_"));
	assert_true(after.n < before.n);
	assert_int_equal(info.vector_elems, 64);
	stx_bytes_free(&before);
	stx_bytes_free(&after);
}

static void test_emit_stage_unknown_level_is_refused(void **state)
{
	struct stx_bytes out = { 0 };
	struct stx_diag d = { 0 };
	struct stx_cpu_target t = { .level = 5, .vector_bytes = 128 };
	struct stx_arena *a = stx_arena_new(0);
	(void)state;
	assert_int_equal(stx_emit_llvm(jit.llvm, jit_parse(a, text_flat), &t, 0, STX_EMIT_OBJECT,
				       &out, NULL, &d),
			 STX_E_UNSUPPORTED);
	assert_int_equal(out.n, 0);
	stx_arena_free(a);
}

/* Thousands of instructions in one loop: built, and not in quadratic time. */
static void test_emit_stage_long_bodies_are_emitted(void **state)
{
	struct stx_bytes text = { 0 };
	float in[100], out[100];
	(void)state;
	stx_bytes_puts(&text,
		       "kernel \"k\" poi bits 32 target cpu\nparam p0 f32 read elems 100 \"a\"\n"
		       "param p1 f32 write elems 100 \"b\"\naxis x0 grid 1\naxis x1 vector 100\n"
		       "grain 1\nbegin\nt0 = const f32 0x1p-1\nloop x1\nt1 = load f32 p0[x1]\n");
	for (int i = 0; i < 2000; i++)
		stx_bytes_printf(&text, "t%d = mul f32 t%d t0\nt%d = add f32 t%d t0\n", 2 * i + 2,
				 2 * i + 1, 2 * i + 3, 2 * i + 2);
	stx_bytes_puts(&text, "store f32 p1[x1] t4001\nend\nend\n");
	for (int i = 0; i < 100; i++)
		in[i] = 1;
	for (const char *const *t = jit_targets(); *t; t++) {
		jit_run(jit_kernel(*t, stx_bytes_cstr(&text)), (void *[]){ in, out }, NULL, 0, 1);
		for (int i = 0; i < 100; i++)
			assert_true(out[i] == 1);
	}
	stx_bytes_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_emit_stage_equal_kernels_give_equal_objects),
		cmocka_unit_test(test_emit_stage_assembly_calls_nothing),
		cmocka_unit_test(test_emit_stage_ir_text_before_and_after_the_passes),
		cmocka_unit_test(test_emit_stage_unknown_level_is_refused),
		cmocka_unit_test(test_emit_stage_long_bodies_are_emitted),
	};
	return cmocka_run_group_tests(tests, jit_setup, jit_teardown);
}
