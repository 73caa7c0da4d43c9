/* support.h
 * helpers of the store's tests: a directory, a cache driven to completion, contents from a seed. */
#ifndef STX_TEST_CACHE_SUPPORT_H
#define STX_TEST_CACHE_SUPPORT_H

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "store.h"

struct fixture {
	char dir[96];
	int wake[2];
	struct stx_cache *c;
	struct stx_cache_config k;
};

static void wake(void *ctx)
{
	struct fixture *f = ctx;
	(void)!write(f->wake[1], "x", 1);
}

static inline void fixture_open(struct fixture *f)
{
	struct stx_diag d = { 0 };
	f->k.dir = f->dir;
	f->k.wake = wake;
	f->k.wake_ctx = f;
	stx_err e = stx_cache_open(&f->k, &f->c, &d);
	if (e)
		fail_msg("open: %s: %s", stx_err_name(e), d.text);
}

static inline void fixture_init(struct fixture *f, const char *base)
{
	memset(f, 0, sizeof *f);
	snprintf(f->dir, sizeof f->dir, "%s/stax-cache-XXXXXX", base ? base : "/var/tmp");
	assert_non_null(mkdtemp(f->dir));
	assert_int_equal(pipe2(f->wake, O_NONBLOCK | O_CLOEXEC), 0);
}

static inline void fixture_close(struct fixture *f)
{
	stx_cache_close(f->c);
	f->c = NULL;
}

static inline void fixture_reopen(struct fixture *f)
{
	fixture_close(f);
	fixture_open(f);
}

static inline void fixture_end(struct fixture *f)
{
	char cmd[320];
	fixture_close(f);
	close(f->wake[0]);
	close(f->wake[1]);
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", f->dir);
	assert_int_equal(system(cmd), 0);
}

/* Waits for the store's signal (at most two minutes) and runs completions. */
static inline void pump(struct fixture *f)
{
	char buf[256];
	struct pollfd p = { f->wake[0], POLLIN, 0 };
	if (poll(&p, 1, 120000) <= 0)
		fail_msg("no completion within two minutes");
	while (read(f->wake[0], buf, sizeof buf) > 0)
		;
	stx_cache_poll(f->c);
}

/* ---- synchronous forms of the calls ---- */
struct result {
	int done;
	stx_err e;
	struct stx_bytes bytes;
};

static inline void on_done(void *ctx, stx_err e, const struct stx_diag *d)
{
	struct result *r = ctx;
	assert_true(!e == !d);
	r->done++;
	r->e = e;
}

static inline void on_read(void *ctx, stx_err e, struct stx_span s)
{
	struct result *r = ctx;
	r->done++;
	r->e = e;
	stx_bytes_clear(&r->bytes);
	stx_bytes_put(&r->bytes, s.at, s.n);
}

static inline stx_err finish(struct fixture *f, struct result *r)
{
	while (!r->done)
		pump(f);
	assert_int_equal(r->done, 1);
	return r->e;
}

static inline struct stx_span span(const void *p, size_t n)
{
	return (struct stx_span){ p, n };
}

static inline struct stx_digest key_of(unsigned n)
{
	char s[32];
	snprintf(s, sizeof s, "key %u", n);
	return stx_digest_of(s, strlen(s));
}

static inline stx_err put(struct fixture *f, const char *ns, unsigned key, struct stx_span contents,
			  const char *meta, int replace)
{
	struct result r = { 0 };
	struct stx_cache_artifact a = { key_of(key), stx_digest_of(contents.at, contents.n),
					contents.n, ns, span(meta, strlen(meta)) };
	stx_cache_put(f->c, &a, contents, replace, on_done, &r);
	return finish(f, &r);
}

/* Caller frees out. */
static inline stx_err get(struct fixture *f, const char *ns, const struct stx_digest *digest,
			  struct stx_bytes *out)
{
	struct result r = { 0 };
	stx_cache_read(f->c, ns, digest, on_read, &r);
	finish(f, &r);
	*out = r.bytes;
	return r.e;
}

static inline stx_err materialise(struct fixture *f, const char *ns,
				  const struct stx_digest *digest, char path[512])
{
	struct result r = { 0 };
	stx_cache_materialise(f->c, ns, digest, on_read, &r);
	finish(f, &r);
	snprintf(path, 512, "%.*s", (int)r.bytes.n, r.bytes.n ? (char *)r.bytes.at : "");
	stx_bytes_free(&r.bytes);
	return r.e;
}

/* Requires: the key is there with these contents and this meta, in memory and on disk. */
static inline void assert_stored(struct fixture *f, const char *ns, unsigned key,
				 struct stx_span want, const char *meta)
{
	struct stx_digest k = key_of(key), d = stx_digest_of(want.at, want.n);
	struct stx_cache_artifact a;
	struct stx_bytes got = { 0 };
	assert_int_equal(stx_cache_find(f->c, ns, &k, &a), 1);
	assert_true(stx_digest_eq(&a.digest, &d));
	assert_int_equal(a.size_bytes, want.n);
	assert_string_equal(a.ns, ns);
	assert_int_equal(a.meta.n, strlen(meta));
	assert_memory_equal(a.meta.at, meta, a.meta.n);
	assert_int_equal(get(f, ns, &d, &got), STX_E_OK);
	assert_int_equal(got.n, want.n);
	assert_true(!want.n || !memcmp(got.at, want.at, want.n));
	stx_bytes_free(&got);
}

/* ---- randomness ---- */
static inline uint64_t next_random(uint64_t *s)
{
	*s += 0x9e3779b97f4a7c15u;
	uint64_t z = *s;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline uint64_t pick_seed(void)
{
	const char *s = getenv("STAX_SEED");
	uint64_t seed =
		s ? strtoull(s, NULL, 0) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
	print_message("STAX_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

/* n bytes that do not compress (soft 0) or do (soft 1), determined by seed. Caller frees. */
static inline uint8_t *make_bytes(uint64_t seed, size_t n, int soft)
{
	uint8_t *p = malloc(n ? n : 1);
	assert_non_null(p);
	for (size_t i = 0; i < n; i++)
		p[i] = soft ? (uint8_t)("stax"[(i + seed) & 3] +
					(i % 97 == 0 ? (int)(next_random(&seed) & 7) : 0))
			    : (uint8_t)(next_random(&seed) >> 33);
	return p;
}

/* Runs SQL on the closed database. */
static inline void sql(struct fixture *f, const char *text)
{
	char path[300];
	sqlite3 *h;
	char *err = NULL;
	snprintf(path, sizeof path, "%s/db/stax.db", f->dir);
	assert_int_equal(sqlite3_open(path, &h), SQLITE_OK);
	if (sqlite3_exec(h, text, NULL, NULL, &err) != SQLITE_OK)
		fail_msg("%s: %s", text, err);
	sqlite3_close(h);
}

static void print_line(void *ctx, const char *text)
{
	int *n = ctx;
	if (n)
		++*n;
	if (getenv("STAX_TEST_VERBOSE"))
		print_message("fsck: %s\n", text);
}

static inline struct stx_fsck_report fsck(struct fixture *f, int repair)
{
	struct stx_fsck_report r;
	struct stx_diag d = { 0 };
	stx_err e = stx_cache_fsck(f->dir, repair, print_line, NULL, &r, &d);
	if (e)
		fail_msg("fsck: %s: %s", stx_err_name(e), d.text);
	return r;
}

static inline int count_files(const char *dir, const char *sub)
{
	char path[320];
	snprintf(path, sizeof path, "%s/%s", dir, sub);
	DIR *l = opendir(path);
	int n = 0;
	for (struct dirent *e; l && (e = readdir(l));)
		n += e->d_name[0] != '.';
	if (l)
		closedir(l);
	return n;
}

#endif
