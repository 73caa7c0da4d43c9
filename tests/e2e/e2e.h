/* e2e.h
 * shared by end-to-end programs: graphs with a known answer, a daemon as a child, random numbers.
 */
#ifndef STX_E2E_H
#define STX_E2E_H

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dtype.h"
#include "stax.h"

struct e2e_rng {
	uint64_t s;
};

static inline uint64_t e2e_next(struct e2e_rng *r)
{
	r->s ^= r->s << 13;
	r->s ^= r->s >> 7;
	return r->s ^= r->s << 17;
}

static inline double e2e_now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline void e2e_sleep_ms(int ms)
{
	struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };
	nanosleep(&t, NULL);
}

#define E2E_ROWS 3
#define E2E_COLS 37

/* Graph number n: ((x + n) * 2).sum(-1) with a constant that makes every n another graph and
 * kernel. */
static inline void e2e_graph(char *out, size_t cap, unsigned n)
{
	snprintf(out, cap,
		 "%%primals_1 : f32[%d,%d] = placeholder()\n%%add = add.Scalar(%%primals_1, %u)\n"
		 "%%mul = mul.Scalar(%%add, 2)\n%%sum_0 = sum.dim_IntList(%%mul, [-1])\nreturn "
		 "(%%sum_0,)\n",
		 E2E_ROWS, E2E_COLS, n);
}

/* Loads and runs the answer's artifact for graph n: 1 when every number is right. Integers in
 * floats: exact. */
static inline int e2e_check(struct stax_client *c, const struct stax_answer *a, unsigned n,
			    struct stax_error *err)
{
	float x[E2E_ROWS * E2E_COLS], y[E2E_ROWS];
	struct stax_artifact *art = NULL;
	if (stax_load(c, a, &art, err))
		return 0;
	for (int i = 0; i < E2E_ROWS * E2E_COLS; i++)
		x[i] = (float)(i % 11);
	struct stx_tensor in = { .data = x,
				 .dtype = STX_F32,
				 .rank = 2,
				 .sizes = { E2E_ROWS, E2E_COLS },
				 .strides = { E2E_COLS, 1 } };
	struct stx_tensor out = {
		.data = y, .dtype = STX_F32, .rank = 1, .sizes = { E2E_ROWS }, .strides = { 1 }
	};
	int rc = stax_run(art, &in, 1, &out, 1, NULL, err);
	stax_artifact_free(art);
	if (rc)
		return 0;
	for (int r = 0; r < E2E_ROWS; r++) {
		double want = 0;
		for (int i = 0; i < E2E_COLS; i++)
			want += ((double)x[r * E2E_COLS + i] + n) * 2;
		if ((double)y[r] != want) {
			snprintf(err->text, sizeof err->text, "graph %u row %d: %g, want %g", n, r,
				 (double)y[r], want);
			return 0;
		}
	}
	return 1;
}

/* Starts $STAX_BUILD/staxd on $STAX_SERVER with $STAX_CACHE_DIR; waits until it answers, two
 * minutes at most. -1 on failure. */
static inline pid_t e2e_start(const char *workers)
{
	const char *build = getenv("STAX_BUILD"), *server = getenv("STAX_SERVER"),
		   *dir = getenv("STAX_CACHE_DIR");
	char path[4096];
	snprintf(path, sizeof path, "%s/staxd", build ? build : "build");
	pid_t pid = fork();
	if (pid == 0) {
		execl(path, "staxd", "--listen", server, "--cache-dir", dir, "--workers", workers,
		      (char *)NULL);
		perror(path);
		_exit(127);
	}
	for (int i = 0; i < 12000; i++) {
		struct stax_client *c;
		struct stax_pong p;
		if (!stax_connect(server, &c, NULL)) {
			int ok = !stax_ping(c, &p, NULL);
			stax_client_free(c);
			if (ok)
				return pid;
		}
		if (waitpid(pid, NULL, WNOHANG) == pid)
			return -1;
		e2e_sleep_ms(10);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return -1;
}

static inline uint64_t e2e_stat(struct stax_client *c, const char *name)
{
	char **names = NULL;
	uint64_t *values = NULL, v = UINT64_MAX;
	size_t n = 0;
	if (stax_stats(c, 0, &names, &values, &n, NULL))
		return v;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			v = values[i];
	stax_stats_free(names, values, n);
	return v;
}

#endif
