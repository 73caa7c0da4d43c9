/* test_cpu_target.c: names of targets, the order of CPU levels, what this host offers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
		{ "cpu:x86-64-v4:64K-2M-16M", 4, 0, 64 },
		{ "cpu:x86-64-v4+avx512bf16+avx512vnni+avxvnni:128K-256K-512K", 4, 1, 64 },
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
					   "cpu:x86-64-v4+",
					   "cpu:x86-64-v4:",
					   "cpu:x86-64-v4:32K",
					   "cpu:x86-64-v4:32K-1M",
					   "cpu:x86-64-v4:32K-1M-",
					   "cpu:x86-64-v4:32K-1M-4M-",
					   "cpu:x86-64-v4:32K-1M-4M+avx512bf16",
					   "cpu:x86-64-v4:48K-1M-4M",
					   "cpu:x86-64-v4:8K-1M-4M",
					   "cpu:x86-64-v4:32K-64K-4M",
					   "cpu:x86-64-v4:32K-1M-128M",
					   "cpu:x86-64-v4:32K-1M-4096M",
					   "cpu:x86-64-v4:32K-1M-99999999999M",
					   "cpu:x86-64-v4:0K-1M-4M",
					   "cpu:x86-64-v4:32k-1m-4m",
					   "cpu:x86-64-v4:-32K-1M-4M",
					   "cpu:x86-64-v4:32-1M-4M" };
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
		u.caches = t.caches; /* not what code needs */
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

/* What a name means does not depend on the host: its caches are the level's, and have no spelling. */
static void test_cpu_target_usual_caches_are_not_named(void **state)
{
	static const char *const names[][2] = {
		{ "cpu:x86-64-v2:32K-256K-2M", "cpu:x86-64-v2" },
		{ "cpu:x86-64-v3:32K-512K-2048K", "cpu:x86-64-v3" },
		{ "cpu:x86-64-v3:32K-512K-4096K", "cpu:x86-64-v3:32K-512K-4M" },
		{ "cpu:x86-64-v4+avxvnni:32K-1024K-4M", "cpu:x86-64-v4+avxvnni" },
		{ "cpu:x86-64-v3:32K-1M-4M", "cpu:x86-64-v3:32K-1M-4M" },
	};
	char out[STX_TARGET_BYTES];
	struct stx_cpu_target t;
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		assert_int_equal(stx_target_normalise(names[i][0], out, NULL), 0);
		assert_string_equal(out, names[i][1]);
		assert_int_equal(stx_target_kernel_length(out), strcspn(out + 4, ":") + 4);
	}
	assert_int_equal(stx_cpu_target_parse("cpu:x86-64-v4:64K-2M-16M", &t, NULL), 0);
	assert_true(t.caches.l1 == 64 << 10 && t.caches.l2 == 2 << 20 && t.caches.l3 == 16 << 20);
	assert_int_equal(stx_target_kernel_length("cuda:sm_90a:h200"), 16);
}

static void put(const char *dir, int index, const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof path, "%s/index%d", dir, index);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/index%d/%s", dir, index, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void put_cache(const char *dir, int index, const char *level, const char *type,
		      const char *size, const char *shared)
{
	put(dir, index, "level", level);
	put(dir, index, "type", type);
	put(dir, index, "size", size);
	put(dir, index, "shared_cpu_list", shared);
}

static void remove_all(const char *dir)
{
	static const char *const names[] = { "level", "type", "size", "shared_cpu_list" };
	char path[256];
	for (int i = 0; i < 4; i++) {
		for (int j = 0; j < 4; j++) {
			snprintf(path, sizeof path, "%s/index%d/%s", dir, i, names[j]);
			unlink(path);
		}
		snprintf(path, sizeof path, "%s/index%d", dir, i);
		rmdir(path);
	}
	rmdir(dir);
}

static void test_cpu_caches_system_tables_read(void **state)
{
	char dir[] = "/tmp/stx_caches_XXXXXX";
	uint64_t bytes[3];
	(void)state;
	assert_non_null(mkdtemp(dir));
	put_cache(dir, 0, "1\n", "Data\n", "48K\n", "0\n");
	put_cache(dir, 1, "1\n", "Instruction\n", "64K\n", "0\n");
	put_cache(dir, 2, "2\n", "Unified\n", "1280K\n", "0-1\n");
	put_cache(dir, 3, "3\n", "Unified\n", "24576K\n", "0-7,16-19\n");
	stx_cpu_caches_read(dir, bytes);
	assert_int_equal(bytes[0], 48 << 10);
	assert_int_equal(bytes[1], 1280 << 10);
	assert_int_equal(bytes[2], 2 << 20);
	struct stx_cpu_caches c = stx_cpu_caches_class(bytes[0], bytes[1], bytes[2]);
	assert_true(c.l1 == 32 << 10 && c.l2 == 1 << 20 && c.l3 == 2 << 20);
	put_cache(dir, 3, "3\n", "Unified\n", "x\n", "\n"); /* unreadable: the second is the last */
	stx_cpu_caches_read(dir, bytes);
	assert_int_equal(bytes[2], 1280 << 10);
	remove_all(dir);
	stx_cpu_caches_read(dir, bytes); /* the processor's own word */
	assert_true(bytes[1] >= bytes[0]);
}

static void test_cpu_caches_class_is_a_name(void **state)
{
	char out[STX_TARGET_BYTES];
	struct stx_cpu_target t, u;
	(void)state;
	assert_int_equal(stx_cpu_target_parse("cpu:x86-64-v3", &t, NULL), 0);
	for (int i = 0; i < 64; i++) {
		uint64_t n = (uint64_t)1 << i;
		t.caches = stx_cpu_caches_class(n - 1, n, n | n / 2);
		stx_cpu_target_print(&t, out);
		assert_int_equal(stx_cpu_target_parse(out, &u, NULL), 0);
		assert_memory_equal(&t.caches, &u.caches, sizeof t.caches);
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
		cmocka_unit_test(test_cpu_target_usual_caches_are_not_named),
		cmocka_unit_test(test_cpu_caches_system_tables_read),
		cmocka_unit_test(test_cpu_caches_class_is_a_name),
		cmocka_unit_test(test_cpu_target_host_covers_its_level_and_lower_ones),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
