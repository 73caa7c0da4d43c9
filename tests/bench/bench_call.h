/* bench_call.h
 * what benchmarks of compiled kernels share: a clock, an end, an environment of one thread. */
#ifndef STX_TESTS_BENCH_CALL_H
#define STX_TESTS_BENCH_CALL_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Seconds: wall time, or with STX_CPU_TIME the calling thread's processor time. */
static inline double now_s(void)
{
	struct timespec t;
	clock_gettime(getenv("STX_CPU_TIME") ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline void die(const char *what, const char *text)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, text);
	exit(1);
}

/* struct stx_env.parallel_for of one thread. */
static inline void whole(void *ctx, int64_t n, int64_t grain, void (*fn)(void *, int64_t, int64_t),
			 void *arg)
{
	(void)ctx;
	(void)grain;
	fn(arg, 0, n);
}

#endif
