/* threads.c: parallel-for. An OpenMP runtime that the process has already loaded is used, so that
 * two pools do not fight for the cores; else a pool of our own, made on first use. Small grids run
 * inline. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"

#define SPIN_NS           20000u /* before sleeping: about two futex round trips */
#define CHUNKS_PER_THREAD 2 /* of what is left: evens out threads that start late or are slow */
#define MAX_THREADS       1024

struct job {
	int64_t n, grain, share; /* share: chunks that what is left is cut into */
	stx__body_fn *body;
	void *arg;
	_Atomic int64_t next;
};

/* One job at a time. Fields of the job are written with `open` 0 and no thread active. */
struct stx__threads {
	int nthreads;
	pthread_t *threads; /* [nthreads-1] */
	atomic_flag busy;
	_Atomic uint32_t epoch;  /* futex: one more for each job */
	_Atomic uint32_t active; /* futex: threads inside the job */
	_Atomic int sleepers, open, waiting, stop;
	struct job job;
};

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/* Chunks become smaller towards the end: neighbours stay together, and no thread is late by more
 * than a small one. */
static void work(struct job *j)
{
	int64_t begin = atomic_load(&j->next);
	while (begin < j->n) {
		int64_t left = j->n - begin, chunk = left / j->share;
		chunk = chunk > j->grain ? chunk : j->grain < left ? j->grain : left;
		if (!atomic_compare_exchange_weak(&j->next, &begin, begin + chunk))
			continue;
		j->body(j->arg, begin, begin + chunk);
		begin = atomic_load(&j->next);
	}
}

static void set_job(struct job *j, int64_t n, int64_t grain, int64_t threads, stx__body_fn *body,
		    void *arg)
{
	j->n = n;
	j->grain = grain;
	j->share = threads * CHUNKS_PER_THREAD;
	j->body = body;
	j->arg = arg;
	atomic_store(&j->next, 0);
}

static int spin_until_changed(_Atomic uint32_t *word, uint32_t seen)
{
	uint64_t end = stx_clock_ns() + SPIN_NS;
	do {
		for (int i = 0; i < 64; i++) {
			if (atomic_load(word) != seen)
				return 1;
			__builtin_ia32_pause();
		}
	} while (stx_clock_ns() < end);
	return 0;
}

static void *thread_main(void *arg)
{
	struct stx__threads *p = arg;
	uint32_t seen = 0;
	while (!atomic_load(&p->stop)) {
		if (!spin_until_changed(&p->epoch, seen)) {
			atomic_fetch_add(&p->sleepers, 1);
			futex_wait(&p->epoch, seen);
			atomic_fetch_sub(&p->sleepers, 1);
		}
		uint32_t now = atomic_load(&p->epoch);
		if (now == seen)
			continue;
		seen = now;
		atomic_fetch_add(&p->active, 1);
		if (atomic_load(&p->open))
			work(&p->job);
		if (atomic_fetch_sub(&p->active, 1) == 1 && atomic_load(&p->waiting))
			futex_wake(&p->active, 1);
	}
	return NULL;
}

/* requires: p->open is 0. ensures: no thread runs the job's body. */
static void wait_idle(struct stx__threads *p)
{
	uint32_t a;
	uint64_t end = atomic_load(&p->active) ? stx_clock_ns() + SPIN_NS : 0;
	while (atomic_load(&p->active) != 0 && stx_clock_ns() < end)
		__builtin_ia32_pause();
	if (atomic_load(&p->active) == 0)
		return;
	atomic_store(&p->waiting, 1);
	while ((a = atomic_load(&p->active)) != 0)
		futex_wait(&p->active, a);
	atomic_store(&p->waiting, 0);
}

static int64_t pieces(int64_t n, int64_t grain)
{
	return n / grain + (n % grain != 0);
}

void stx__threads_for(struct stx__threads *p, int64_t n, int64_t grain, stx__body_fn *body,
		      void *arg)
{
	if (n <= 0)
		return;
	if (grain < 1)
		grain = 1;
	int64_t want = pieces(n, grain);
	if (want > p->nthreads)
		want = p->nthreads;
	if (want < 2 || atomic_flag_test_and_set(&p->busy)) {
		body(arg, 0, n);
		return;
	}
	set_job(&p->job, n, grain, want, body, arg);
	atomic_store(&p->open, 1);
	atomic_fetch_add(&p->epoch, 1);
	if (atomic_load(&p->sleepers))
		futex_wake(&p->epoch, (int)want - 1);
	work(&p->job);
	atomic_store(&p->open, 0);
	wait_idle(p);
	atomic_flag_clear(&p->busy);
}

struct stx__threads *stx__threads_new(int nthreads)
{
	struct stx__threads *p = aligned_alloc(64, (sizeof *p + 63) & ~(size_t)63);
	if (!p)
		return NULL;
	memset(p, 0, sizeof *p);
	atomic_flag_clear(&p->busy);
	p->nthreads = 1;
	p->threads = calloc((size_t)nthreads, sizeof *p->threads);
	/* The application's signal handlers run on its own threads. */
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (p->threads && p->nthreads < nthreads &&
	       !pthread_create(&p->threads[p->nthreads - 1], NULL, thread_main, p))
		p->nthreads++; /* fewer threads than asked for is no error */
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return p;
}

void stx__threads_free(struct stx__threads *p)
{
	if (!p)
		return;
	atomic_store(&p->stop, 1);
	atomic_fetch_add(&p->epoch, 1);
	futex_wake(&p->epoch, INT_MAX);
	for (int i = 0; i < p->nthreads - 1; i++)
		pthread_join(p->threads[i], NULL);
	free(p->threads);
	free(p);
}

stx_err stx__threads_setting(int *out, struct stx_diag *d)
{
	const char *s = getenv("STAX_THREADS");
	char *end;
	*out = 0;
	if (!s || !*s)
		return STX_E_OK;
	errno = 0;
	long n = strtol(s, &end, 10);
	if (*end || end == s || n < 1)
		return stx_fail(d, STX_E_USAGE, "run", "",
				"STAX_THREADS=%s: expected a number of threads, 1 or more; unset, "
				"a run has all cores",
				s);
	*out = n > MAX_THREADS ? MAX_THREADS : (int)n;
	return STX_E_OK;
}

int stx__thread_count(void)
{
	long n;
	int set_to;
	cpu_set_t set;
	if (!stx__threads_setting(&set_to, NULL) && set_to)
		return set_to;
	if (!sched_getaffinity(0, sizeof set, &set))
		n = CPU_COUNT(&set);
	else
		n = sysconf(_SC_NPROCESSORS_ONLN);
	return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (int)n;
}

/* ---- an OpenMP runtime already in the process ---- */

/* GOMP_parallel is offered by GCC's runtime and, for compatibility, by LLVM's and Intel's. */
struct openmp {
	void (*parallel)(void (*fn)(void *), void *data, unsigned nthreads, unsigned flags);
	int (*in_parallel)(void);
	int (*max_threads)(void);
};

static int find_loaded(struct dl_phdr_info *info, size_t size, void *out)
{
	static const char *const names[] = { "libgomp", "libiomp5", "libomp" };
	(void)size;
	const char *base = strrchr(info->dlpi_name, '/');
	base = base ? base + 1 : info->dlpi_name;
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (!strncmp(base, names[i], strlen(names[i]))) {
			strncpy(out, info->dlpi_name, PATH_MAX - 1);
			return 1;
		}
	return 0;
}

static void find_openmp(struct openmp *o)
{
	char path[PATH_MAX] = "";
	void *lib = RTLD_DEFAULT, *held = NULL;
	memset(o, 0, sizeof *o);
	if (!dlsym(RTLD_DEFAULT, "GOMP_parallel")) {
		/* Loaded, but not in the global scope: as Python loads extension modules. */
		if (!dl_iterate_phdr(find_loaded, path) || !path[0])
			return;
		lib = held = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
		if (!lib)
			return;
	}
	*(void **)&o->parallel = dlsym(lib, "GOMP_parallel");
	*(void **)&o->in_parallel = dlsym(lib, "omp_in_parallel");
	*(void **)&o->max_threads = dlsym(lib, "omp_get_max_threads");
	if ((!o->parallel || !o->in_parallel || !o->max_threads) && held)
		dlclose(held);
	if (!o->in_parallel || !o->max_threads)
		o->parallel = NULL;
}

static void omp_body(void *arg)
{
	work(arg);
}

static void openmp_for(const struct openmp *o, int threads, int64_t n, int64_t grain,
		       stx__body_fn *body, void *arg)
{
	int64_t want = pieces(n, grain);
	if (want > threads)
		want = threads;
	if (want < 2 || o->in_parallel()) {
		body(arg, 0, n);
		return;
	}
	struct job j;
	set_job(&j, n, grain, want, body, arg);
	o->parallel(omp_body, &j, (unsigned)want, 0);
}

/* ---- the process-wide choice ---- */

struct choice {
	struct openmp omp;
	int threads;
	struct stx__threads *pool; /* NULL with OpenMP or one thread */
};

/* Made once under the lock and constant afterwards; forgotten in a forked child, whose threads are
 * gone. */
static _Atomic(struct choice *) chosen;
static pthread_mutex_t choosing = PTHREAD_MUTEX_INITIALIZER;

static void in_child(void)
{
	pthread_mutex_init(&choosing, NULL);
	atomic_store(&chosen, NULL);
}

static void watch_fork(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

static struct choice *choose(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, watch_fork);
	pthread_mutex_lock(&choosing);
	struct choice *c = atomic_load(&chosen);
	if (!c && (c = calloc(1, sizeof *c))) {
		find_openmp(&c->omp);
		c->threads = c->omp.parallel && !getenv("STAX_THREADS") ? c->omp.max_threads()
									: stx__thread_count();
		if (!c->omp.parallel && c->threads > 1)
			c->pool = stx__threads_new(c->threads);
		atomic_store(&chosen, c);
	}
	pthread_mutex_unlock(&choosing);
	return c;
}

void stx__parallel_for(int64_t n, int64_t grain, stx__body_fn *body, void *arg)
{
	if (n <= 0)
		return;
	if (grain < 1)
		grain = 1;
	struct choice *c = n <= grain ? NULL : atomic_load(&chosen);
	if (n > grain && !c)
		c = choose();
	if (c && c->pool)
		stx__threads_for(c->pool, n, grain, body, arg);
	else if (c && c->omp.parallel)
		openmp_for(&c->omp, c->threads, n, grain, body, arg);
	else
		body(arg, 0, n);
}
