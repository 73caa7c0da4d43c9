/* test_openmp.c: a process that has loaded an OpenMP runtime, even out of the global scope, keeps
 * one pool. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client.h"

struct seen {
	int (*in_parallel)(void);
	_Atomic int inside, pieces;
	_Atomic int64_t sum;
};

static void body(void *arg, int64_t begin, int64_t end)
{
	struct seen *s = arg;
	s->pieces++;
	s->inside += s->in_parallel() != 0;
	for (int64_t i = begin; i < end; i++)
		s->sum += i;
}

static void nothing(void *arg)
{
	(void)arg;
}

static int threads_of_process(void)
{
	char line[128];
	int n = -1;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "Threads: %d", &n) == 1)
			break;
	if (f)
		fclose(f);
	return n;
}

static void test_openmp_loaded_runtime_used(void **state)
{
	(void)state;
	struct seen s = { 0 };
	void *lib = dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		skip();
		return;
	}
	setenv("STAX_THREADS", "3", 1);
	*(void **)&s.in_parallel = dlsym(lib, "omp_in_parallel");
	void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
	*(void **)&parallel = dlsym(lib, "GOMP_parallel");
	parallel(nothing, NULL, 3, 0); /* the runtime's threads, a sanitizer's own beside them */
	int before = threads_of_process();
	assert_true(before >= 3);
	for (int i = 0; i < 100; i++)
		stx__parallel_for(100000, 100, body, &s);
	assert_true(s.sum == 100 * (int64_t)99999 * 50000);
	assert_int_equal(s.inside, s.pieces);
	assert_true(s.pieces > 100);
	assert_int_equal(threads_of_process(), before); /* none of ours */
	s.pieces = 0;
	stx__parallel_for(50, 100, body, &s); /* small grids stay on the caller */
	assert_int_equal(s.pieces, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_openmp_loaded_runtime_used) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
