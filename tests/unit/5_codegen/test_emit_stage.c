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

/* Passes are kept from one kernel to the next: nothing of a kernel stays in them. */
static void test_emit_stage_object_after_other_kernels_is_the_first_one(void **state)
{
	(void)state;
	for (const char *const *t = jit_targets(); *t; t++)
		for (size_t i = 0; i < N_TEXTS; i++) {
			struct stx_llvm *was = jit.llvm;
			struct stx_bytes after = emit(*t, all_texts[i], STX_EMIT_OBJECT, NULL);
			assert_int_equal(stx_llvm_new(&jit.llvm, NULL), 0);
			struct stx_bytes first = emit(*t, all_texts[i], STX_EMIT_OBJECT, NULL);
			stx_llvm_free(jit.llvm);
			jit.llvm = was;
			assert_int_equal(after.n, first.n);
			assert_memory_equal(after.at, first.at, first.n);
			stx_bytes_free(&after);
			stx_bytes_free(&first);
		}
}

static const char *relu_text(char out[400], int rows)
{
	snprintf(out, 400,
		 "kernel \"k\" poi bits 32 target cpu\nparam p0 f32 read elems %d \"a\"\n"
		 "param p1 f32 write elems %d \"b\"\naxis x0 grid %d\naxis x1 vector 250\n"
		 "grain 1\nbegin\nt0 = const f32 0x0p+0\nloop x1\nt1 = load f32 p0[250*x0 + x1]\n"
		 "t2 = max f32 t1 t0\nstore f32 p1[250*x0 + x1] t2\nend\nend\n",
		 250 * rows, 250 * rows, rows);
	return out;
}

/* A vector at a time where all of them take no time, several where they do; a serial loop inside
 * counts as often as it runs. */
static void test_emit_stage_little_work_is_not_unrolled(void **state)
{
	static const char columns[] =
		"kernel \"k\" red bits 32 target cpu\nparam p0 f32 read elems 65536 \"a\"\n"
		"param p1 f32 write elems 64 \"b\"\naxis x0 grid 1\naxis x1 vector 64\n"
		"axis r0 loop reduction 1024\ngrain 1\nbegin\nloop x1\nt0 = acc sum plain f32 r0\n"
		"loop r0\nt1 = load f32 p0[x1 + 64*r0]\nupdate t0 t1\nend\nt2 = result f32 t0 0\n"
		"store f32 p1[x1] t2\nend\nend\n";
	struct stx_emit_info info;
	char text[400];
	(void)state;
	struct stx_bytes little = emit("cpu:x86-64-v3", relu_text(text, 4), STX_EMIT_SOURCE, &info);
	assert_int_equal(info.vector_elems, 8);
	struct stx_bytes more = emit("cpu:x86-64-v3", relu_text(text, 400), STX_EMIT_SOURCE, &info);
	assert_int_equal(info.vector_elems, 32);
	assert_true(little.n < more.n);
	struct stx_bytes deep = emit("cpu:x86-64-v3", columns, STX_EMIT_SOURCE, &info);
	assert_true(info.vector_elems > 8);
	stx_bytes_free(&little);
	stx_bytes_free(&more);
	stx_bytes_free(&deep);
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
		cmocka_unit_test(test_emit_stage_object_after_other_kernels_is_the_first_one),
		cmocka_unit_test(test_emit_stage_little_work_is_not_unrolled),
		cmocka_unit_test(test_emit_stage_assembly_calls_nothing),
		cmocka_unit_test(test_emit_stage_ir_text_before_and_after_the_passes),
		cmocka_unit_test(test_emit_stage_unknown_level_is_refused),
		cmocka_unit_test(test_emit_stage_long_bodies_are_emitted),
	};
	return cmocka_run_group_tests(tests, jit_setup, jit_teardown);
}
