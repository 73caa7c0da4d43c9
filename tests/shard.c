/* shard.c: STAX_TEST_SHARD=I/N makes a program run every N-th of its tests only, from the I-th (0
 * to N-1) on: so that one program's tests run side by side, and one that loses the GPU takes fewer
 * with it. Stands before cmocka's own function. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef int run_fn(const char *name, const struct CMUnitTest *tests, size_t n,
		   CMFixtureFunction setup, CMFixtureFunction teardown);

int _cmocka_run_group_tests(const char *name, const struct CMUnitTest *const tests, const size_t n,
			    CMFixtureFunction setup, CMFixtureFunction teardown)
{
	const char *text = getenv("STAX_TEST_SHARD");
	unsigned at = 0, step = 1;
	size_t kept = 0;
	void *real = dlsym(RTLD_NEXT, "_cmocka_run_group_tests");
	run_fn *run;
	if (text && (sscanf(text, "%u/%u", &at, &step) != 2 || at >= step)) {
		fprintf(stderr, "STAX_TEST_SHARD=%s is not I/N with I < N\n", text);
		return 1;
	}
	struct CMUnitTest *some = calloc(n + 1, sizeof *some);
	if (!some || !real)
		abort();
	memcpy(&run, &real, sizeof run);
	for (size_t i = at; i < n; i += step)
		some[kept++] = tests[i];
	int failed = run(name, some, kept, setup, teardown);
	free(some);
	return failed;
}
