/* test_cpu_target.c: names of targets, the order of CPU levels, what this host offers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "runs_here.h"
#include "stax_abi.h"

static void test_cpu_target_every_name_parses_or_is_refused_by_name(void **state)
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
		{ "cpu:x86-64-v4+avx512bf16+avx512vnni+avxvnni", 4, 1, 64 },
		{ "cpu:x86-64-v4+avx512vnni", 4, 0, 64 },
		{ "cpu:x86-64-v4+avxvnni", 4, 0, 64 },
		{ "cpu:x86-64-v3+avxvnni", 3, 0, 32 },
	};
	static const char *const bad[] = { "",
					   "cp",
					   "cpu",
					   "cpu:",
					   "cpu:x86-64",
					   "cpu:x86-64-v1",
					   "cpu:x86-64-v5",
					   "cpu:x86-64-v33",
					   "cpu:x86-64-v2+avx512bf16",
					   "cpu:x86-64-v3+avx512bf16",
					   "cpu:x86-64-v3+avx512vnni",
					   "cpu:x86-64-v2+avxvnni",
					   "cpu:x86-64-v4+avx512vnni+avx512bf16",
					   "cpu:x86-64-v4+avx512vnni+avx512vnni",
					   "cuda",
					   "cpu:x86-64-v4+avx512bf16+x",
					   "cuda:sm_12",
					   "cpu:x86-64-v4+" };
	char out[STX_TARGET_BYTES];
	struct stx_cpu_target t;
	struct stx_diag d = { 0 };
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_int_equal(stx_cpu_target_parse(good[i].text, &t, &d), 0);
		assert_int_equal(t.level, good[i].level);
		assert_int_equal(t.avx512bf16, good[i].bf16);
		assert_int_equal(t.vector_bytes, good[i].bytes);
		assert_int_equal(stx_target_normalise(good[i].text, out, &d), 0);
		assert_string_equal(out, good[i].text);
		struct stx_cpu_target u = stx_cpu_target_of_flags(stx_cpu_target_flags(&t));
		stx_cpu_target_print(&u, out);
		assert_string_equal(out, good[i].text);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		stx_diag_clear(&d);
		assert_int_equal(stx_target_normalise(bad[i], out, &d), STX_E_UNSUPPORTED);
		assert_non_null(strstr(d.text, bad[i]));
		assert_false(host_runs(bad[i]));
	}
	assert_int_equal(stx_target_normalise(NULL, out, NULL), STX_E_UNSUPPORTED);
}

/* Keys are taken of the spelling: all names of one device have one. */
static void test_cpu_target_aliases_have_one_spelling(void **state)
{
	static const char *const names[] = { "cuda:sm_90", "cuda:sm_90a", "cuda:sm_90:h200",
					     "cuda:sm_90a:h200" };
	char first[STX_TARGET_BYTES], out[STX_TARGET_BYTES];
	(void)state;
	assert_int_equal(stx_target_normalise(names[0], first, NULL), 0);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		assert_int_equal(stx_target_normalise(names[i], out, NULL), 0);
		assert_true(i >= 2 || !strcmp(out, first));
		assert_true(i < 2 || !strcmp(out, "cuda:sm_90a:h200"));
	}
}

/* S5: the host runs its own level and every lower one, features apart. */
static void test_cpu_target_host_covers_its_level_and_lower_ones(void **state)
{
	struct stx_cpu_target host = stx_cpu_target_host();
	(void)state;
	for (uint32_t flags = 0; flags < 512; flags++) {
		if (flags & (STX_PLAN_CUDA | STX_PLAN_CONFIGS))
			continue;
		struct stx_cpu_target need = stx_cpu_target_of_flags(flags);
		int want = (int)(flags & STX_PLAN_CPU_LEVEL) <= host.level &&
			   (!(flags & STX_PLAN_CPU_AVX512BF16) || host.avx512bf16) &&
			   (!(flags & STX_PLAN_CPU_AVX512VNNI) || host.avx512vnni) &&
			   (!(flags & STX_PLAN_CPU_AVXVNNI) || host.avxvnni);
		assert_int_equal(stx_cpu_target_covers(&host, &need), want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cpu_target_every_name_parses_or_is_refused_by_name),
		cmocka_unit_test(test_cpu_target_aliases_have_one_spelling),
		cmocka_unit_test(test_cpu_target_host_covers_its_level_and_lower_ones),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
