/* test_artifact.c: artifacts read from files: the one that was linked runs, any other is refused
 * before its code is mapped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "compiled.h"
#include "plan.h"

static const char graph[] = "%p : f32[4,8] = placeholder()\n"
			    "%q : f32[4,8] = placeholder()\n"
			    "%add = add.Tensor(%p, %q)\n"
			    "%s = sum.dim_IntList(%add, [-1])\n"
			    "return (%s,)\n";

/* What stax_load_file says of a file with these bytes. */
static int load(const void *bytes, size_t n, struct stax_error *err)
{
	char path[64];
	struct stax_artifact *a = NULL;
	int fd = memfd_create("artifact", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), (ssize_t)n);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	int e = stax_load_file(path, &a, err);
	close(fd);
	stax_artifact_free(a);
	return e;
}

static void test_artifact_with_any_byte_changed_is_refused(void **state)
{
	(void)state;
	struct compiled c = { 0 };
	struct stx_diag d = { 0 };
	struct stax_error err;
	const char *const *target = compiled_targets();
	assert_int_equal(compiled_build(graph, target[0], COMPILED_FUSED, &c, &d), 0);
	assert_int_equal(load(c.elf.at, c.elf.n, &err), 0);
	for (size_t i = 0; i < c.elf.n; i++) {
		uint8_t was = c.elf.at[i];
		c.elf.at[i] ^= (uint8_t)(1u << i % 8);
		if (load(c.elf.at, c.elf.n, &err) != STX_E_CORRUPT)
			fail_msg("byte %zu: %s", i, err.text);
		c.elf.at[i] = was;
	}
	compiled_free(&c);
}

static void test_artifact_cut_short_or_lengthened_is_refused(void **state)
{
	(void)state;
	struct compiled c = { 0 };
	struct stx_diag d = { 0 };
	struct stax_error err;
	assert_int_equal(compiled_build(graph, compiled_targets()[0], COMPILED_FUSED, &c, &d), 0);
	for (size_t n = 1; n < c.elf.n; n += n < 200 || c.elf.n - n < 200 ? 1 : 61)
		assert_int_equal(load(c.elf.at, n, &err), STX_E_CORRUPT);
	assert_int_equal(stx_bytes_put(&c.elf, "", 1), 0);
	assert_int_equal(load(c.elf.at, c.elf.n, &err), STX_E_CORRUPT);
	assert_non_null(strstr(err.text, "seal"));
	compiled_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_artifact_with_any_byte_changed_is_refused),
		cmocka_unit_test(test_artifact_cut_short_or_lengthened_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
