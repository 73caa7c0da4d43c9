/* test_emit_attend.c: attentions in other loops than the emitter's form are refused by name, not
 * miscompiled; those in it have scratch memory of the order of their blocks. Values:
 * conformance/test_attention.c. */
#include "jit.h"

#define TEXT(axes, row, col, loops, ends)                                                          \
	"kernel \"k\" tem bits 32 target cpu\nparam p0 f32 read elems 6 \"s\"\n"                   \
	"param p1 f32 read elems 6 \"v\"\nparam p2 f32 write elems 4 \"y\"\n" axes                 \
	"grain 1\nbegin\n" loops "      t2 = acc attend blocks f32 r0\n      loop r0\n"            \
	"        t4 = load f32 p0[3*" row " + r0]\n        t5 = load f32 p1[" col " + 2*r0]\n"     \
	"        update t2 t4 t5\n      end\n      t8 = result f32 t2 0\n"                         \
	"      store f32 p2[2*" row " + " col "] t8\n" ends "end\n"

static const char good[] =
	TEXT("axis x0 grid 1\naxis x1 loop 2\naxis x2 vector 2\naxis r0 loop reduction 3\n", "x1",
	     "x2", "  loop x1\n    loop x2\n", "    end\n  end\n");
static const char without_rows[] =
	TEXT("axis x0 grid 2\naxis x1 vector 2\naxis r0 loop reduction 3\n", "x0", "x1",
	     "  loop x1\n", "  end\n");

static stx_err emit(const char *text, const char *target, struct stx_diag *d)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_bytes out = { 0 };
	struct stx_cpu_target t;
	assert_int_equal(stx_cpu_target_parse(target, &t, d), 0);
	stx_err e = stx_emit_llvm(jit.llvm, jit_parse(a, text), &t, 0, STX_EMIT_ASM, &out, NULL, d);
	stx_bytes_free(&out);
	stx_arena_free(a);
	return e;
}

static void test_emit_attend_other_forms_are_refused(void **state)
{
	struct stx_diag d = { 0 };
	(void)state;
	assert_int_equal(emit(good, "cpu:x86-64-v3", &d), 0);
	assert_int_equal(emit(without_rows, "cpu:x86-64-v3", &d), STX_E_UNSUPPORTED);
	assert_non_null(strstr(d.text, "attend stands in other loops"));
}

/* Scratch does not grow with the keys. */
static void test_emit_attend_scratch_is_of_blocks(void **state)
{
	size_t bytes[2];
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct stx_arena *a = stx_arena_new(0);
		struct stx_cpu_target t;
		struct stx_emit_needs needs;
		struct stx_diag d = { 0 };
		const char *text = stx_arena_printf(
			a,
			"kernel \"k\" tem bits 32 target cpu\nparam p0 f32 read elems 2048 \"q\"\n"
			"param p1 f32 read elems %d \"k\"\nparam p2 f32 write elems 2048 \"y\"\n"
			"axis x0 grid 1\naxis x1 loop 128\naxis x2 vector 16\n"
			"axis r0 loop reduction %d\naxis r1 loop reduction 16\ngrain 1\nbegin\n"
			"  loop x1\n    loop x2\n      t2 = acc attend blocks f32 r0\n"
			"      loop r0\n        t4 = load f32 p1[16*r0 + x2]\n"
			"        t5 = acc dot plain f32 r1\n        loop r1\n"
			"          t7 = load f32 p0[16*x1 + r1]\n"
			"          t8 = load f32 p1[16*r0 + r1]\n          update t5 t7 t8\n"
			"        end\n        t11 = result f32 t5 0\n        update t2 t11 t4\n"
			"      end\n      t14 = result f32 t2 0\n"
			"      store f32 p2[16*x1 + x2] t14\n    end\n  end\nend\n",
			(i ? 100000 : 1000) * 16, i ? 100000 : 1000);
		assert_int_equal(stx_cpu_target_parse("cpu:x86-64-v4", &t, &d), 0);
		assert_int_equal(stx_emit_needs(jit_parse(a, text), &t, &needs), 0);
		bytes[i] = needs.scratch;
		stx_arena_free(a);
	}
	assert_int_equal(bytes[0], bytes[1]);
	assert_in_range(bytes[0], 20000, 60000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_emit_attend_other_forms_are_refused),
		cmocka_unit_test(test_emit_attend_scratch_is_of_blocks),
	};
	return cmocka_run_group_tests(tests, jit_setup, jit_teardown);
}
