/* test_target.c: names of CPU targets. */
#include "jit.h"

static void test_target_every_name_resolves_or_is_refused_by_name(void **state)
{
	static const struct {
		const char *text;
		int level, bf16;
		unsigned bytes;
	} good[] = {
		{ "cpu:x86-64-v2", 2, 0, 16 },
		{ "cpu:x86-64-v3", 3, 0, 32 },
		{ "cpu:x86-64-v4", 4, 0, 64 },
		{ "cpu:x86-64-v4+avx512bf16", 4, 1, 64 },
	};
	static const char *const bad[] = { "",
					   "cp",
					   "cpu:",
					   "cpu:x86-64",
					   "cpu:x86-64-v1",
					   "cpu:x86-64-v5",
					   "cpu:x86-64-v33",
					   "cpu:x86-64-v3+avx512bf16",
					   "cuda",
					   "cpu:x86-64-v4+avx512bf16+x",
					   "cuda:sm_12",
					   "cpu:x86-64-v4+" };
	char out[64];
	struct stx_cpu_target t;
	struct stx_diag d = { 0 };
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_int_equal(stx_cpu_target_parse(good[i].text, &t, &d), 0);
		assert_int_equal(t.level, good[i].level);
		assert_int_equal(t.avx512bf16, good[i].bf16);
		assert_int_equal(t.vector_bytes, good[i].bytes);
		assert_int_equal(stx_target_resolve(good[i].text, out, &d), 0);
		assert_string_equal(out, good[i].text);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		stx_diag_clear(&d);
		assert_int_equal(stx_target_resolve(bad[i], out, &d), STX_E_UNSUPPORTED);
		assert_non_null(strstr(d.text, bad[i]));
		assert_false(stx_target_runs_here(bad[i]));
	}
	assert_int_equal(stx_target_resolve(NULL, out, NULL), STX_E_UNSUPPORTED);
	assert_int_equal(stx_cpu_target_parse("cpu", &t, NULL), STX_E_UNSUPPORTED);
}

/* What "cpu" resolves to runs here, and so does every lower level (S5). */
static void test_target_host_level_runs_here_and_so_do_lower_ones(void **state)
{
	char out[64];
	(void)state;
	assert_int_equal(stx_target_resolve("cpu", out, NULL), 0);
	assert_true(stx_target_runs_here(out));
	assert_true(stx_target_runs_here("cpu:x86-64-v2"));
	for (char level = '4'; level > '2'; level--) {
		char a[] = "cpu:x86-64-v_", b[] = "cpu:x86-64-v_";
		a[12] = level;
		b[12] = (char)(level - 1);
		assert_true(!stx_target_runs_here(a) || stx_target_runs_here(b));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_target_every_name_resolves_or_is_refused_by_name),
		cmocka_unit_test(test_target_host_level_runs_here_and_so_do_lower_ones),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
