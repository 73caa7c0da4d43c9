/* test_threads.c: parallel-for covers each index once, whatever the sizes; pools may be shared and
 * nested. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client.h"

struct cover {
	_Atomic int *count;
	_Atomic int pieces, small;
	int64_t n, grain;
};

static void touch(void *arg, int64_t begin, int64_t end)
{
	struct cover *c = arg;
	c->pieces++;
	if (end - begin < c->grain && end != c->n)
		c->small++;
	for (int64_t i = begin; i < end; i++)
		c->count[i]++;
}

static void check(struct stx__threads *p, int64_t n, int64_t grain)
{
	struct cover c = { calloc((size_t)n + 1, sizeof *c.count), 0, 0, n, grain };
	stx__threads_for(p, n, grain, touch, &c);
	for (int64_t i = 0; i < n; i++)
		assert_int_equal(c.count[i], 1);
	assert_int_equal(c.small, 0); /* pieces of at least grain */
	free(c.count);
}

static void test_threads_random_sizes_covered_once(void **state)
{
	(void)state;
	for (int threads = 1; threads <= 5; threads += 2) {
		struct stx__threads *p = stx__threads_new(threads);
		assert_non_null(p);
		srand(42);
		for (int i = 0; i < 2000; i++)
			check(p, rand() % 3000, 1 + rand() % 200);
		check(p, 0, 1);
		check(p, 1, 1000);
		stx__threads_free(p);
	}
}

static void test_threads_idle_pool_wakes(void **state)
{
	(void)state;
	struct stx__threads *p = stx__threads_new(3);
	for (int i = 0; i < 50; i++) {
		usleep(500); /* longer than the threads spin */
		check(p, 1000, 10);
	}
	stx__threads_free(p);
}

struct shared {
	struct stx__threads *pool;
	int bad;
};

static void *caller(void *arg)
{
	struct shared *s = arg;
	for (int i = 0; i < 500; i++) {
		struct cover c = { calloc(500, sizeof *c.count), 0, 0, 500, 7 };
		stx__threads_for(s->pool, 500, 7, touch, &c);
		for (int k = 0; k < 500; k++)
			s->bad += c.count[k] != 1;
		free(c.count);
	}
	return NULL;
}

static void test_threads_concurrent_callers_covered_once(void **state)
{
	(void)state;
	struct stx__threads *p = stx__threads_new(3);
	struct shared s[4];
	pthread_t t[4];
	for (int i = 0; i < 4; i++) {
		s[i] = (struct shared){ p, 0 };
		pthread_create(&t[i], NULL, caller, &s[i]);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(s[i].bad, 0);
	}
	stx__threads_free(p);
}

struct nest {
	struct stx__threads *pool;
	struct cover c;
};

static void inner(void *arg, int64_t begin, int64_t end)
{
	struct nest *n = arg;
	for (int64_t i = begin; i < end; i++) {
		struct cover c = n->c;
		c.count = n->c.count + i * 100;
		c.n = 100;
		stx__threads_for(n->pool, 100, 1, touch, &c);
	}
}

static void test_threads_nested_does_not_deadlock(void **state)
{
	(void)state;
	struct nest n = { stx__threads_new(3),
			  { calloc(10000, sizeof(_Atomic int)), 0, 0, 100, 1 } };
	stx__threads_for(n.pool, 100, 1, inner, &n);
	for (int i = 0; i < 10000; i++)
		assert_int_equal(n.c.count[i], 1);
	stx__threads_free(n.pool);
	free(n.c.count);
}

static void sum(void *arg, int64_t begin, int64_t end)
{
	*(_Atomic int64_t *)arg += end - begin;
}

static void test_threads_work_in_forked_child(void **state)
{
	(void)state;
	_Atomic int64_t total = 0;
	setenv("STAX_THREADS", "3", 1);
	stx__parallel_for(100000, 10, sum, (void *)&total);
	assert_int_equal(total, 100000);
	pid_t child = fork(); /* whose pool threads do not exist */
	if (child == 0) {
		total = 0;
		alarm(120); /* were it to hang */
		for (int i = 0; i < 10; i++)
			stx__parallel_for(100000, 10, sum, (void *)&total);
		_exit(total == 1000000 ? 0 : 1);
	}
	int status;
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
}

static void test_threads_count_from_environment(void **state)
{
	(void)state;
	setenv("STAX_THREADS", "7", 1);
	assert_int_equal(stx__thread_count(), 7);
	setenv("STAX_THREADS", "99999999", 1);
	assert_true(stx__thread_count() <= 1024);
	static const char *const bad[] = { "many", "-3", "0", "4x", " " };
	struct stx_diag d;
	int n, all = 0;
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		setenv("STAX_THREADS", bad[i], 1);
		stx_diag_clear(&d);
		assert_int_equal(stx__threads_setting(&n, &d), STX_E_USAGE);
		assert_non_null(strstr(d.text, "STAX_THREADS"));
		all = stx__thread_count();
	}
	unsetenv("STAX_THREADS");
	assert_int_equal(all, stx__thread_count());
	assert_true(all >= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_random_sizes_covered_once),
		cmocka_unit_test(test_threads_idle_pool_wakes),
		cmocka_unit_test(test_threads_concurrent_callers_covered_once),
		cmocka_unit_test(test_threads_nested_does_not_deadlock),
		cmocka_unit_test(test_threads_work_in_forked_child),
		cmocka_unit_test(test_threads_count_from_environment),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
