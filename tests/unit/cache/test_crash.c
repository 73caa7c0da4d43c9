/* test_crash.c: kill -9 during writes, full disks: nothing torn, nothing committed lost. */
#include "support.h"

#include <poll.h>
#include <signal.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#define KEYS   40u
#define ROUNDS 25

/* What version v of a key holds: its bytes follow from key and version alone. */
static size_t version_size(unsigned key, uint64_t v)
{
	uint64_t s = key * 7919u + v;
	uint64_t r = next_random(&s);
	return (r & 15) == 0 ? (2u << 20) + (r >> 40) % 1000 : (r >> 40) % 60000;
}

static uint8_t *version_bytes(unsigned key, uint64_t v, size_t *n)
{
	*n = version_size(key, v);
	return make_bytes(key * 1000003u + v, *n, (int)(v & 1));
}

struct report {
	int fd;
	unsigned key;
	uint64_t version;
};

struct commit {
	uint64_t key, version;
};

static void on_commit(void *ctx, stx_err e, const struct stx_diag *d)
{
	struct report *r = ctx;
	(void)d;
	struct commit m = { r->key, r->version };
	/* A pipe takes such a small record whole or not at all. */
	if (!e)
		(void)!write(r->fd, &m, sizeof m);
	free(r);
}

/* The child: replaces keys at random, tells the parent of each commit, materialises, until killed.
 */
static void write_until_killed(struct fixture *f, uint64_t seed, uint64_t first_version, int fd)
{
	for (uint64_t v = first_version;; v++) {
		struct report *r = malloc(sizeof *r);
		r->fd = fd;
		r->key = (unsigned)(next_random(&seed) % KEYS);
		r->version = v;
		size_t n;
		uint8_t *p = version_bytes(r->key, v, &n);
		char meta[32];
		snprintf(meta, sizeof meta, "%llu", (unsigned long long)v);
		struct stx_cache_artifact a = { key_of(r->key), stx_digest_of(p, n), n, "a",
						span(meta, strlen(meta)) };
		stx_cache_put(f->c, &a, span(p, n), 1, on_commit, r);
		free(p);
		if (next_random(&seed) % 3 == 0)
			pump(f);
		struct stx_digest k = key_of((unsigned)(next_random(&seed) % KEYS));
		struct stx_cache_artifact got;
		static struct result ignored;
		if (stx_cache_find(f->c, "a", &k, &got) && next_random(&seed) % 8 == 0)
			stx_cache_materialise(f->c, "a", &got.digest, on_read, &ignored);
		stx_cache_tick(f->c, v);
	}
}

static void check_after_kill(struct fixture *f, const uint64_t *committed)
{
	fixture_close(f); /* NULL: the lock is the dead child's no more */
	struct stx_fsck_report report = fsck(f, 0);
	assert_int_equal(report.clean, 1);
	assert_int_equal(report.damaged, 0);
	fixture_open(f);
	assert_int_equal(count_files(f->dir, "tmp"), 0);
	for (unsigned key = 0; key < KEYS; key++) {
		struct stx_digest k = key_of(key);
		struct stx_cache_artifact a;
		int found = stx_cache_find(f->c, "a", &k, &a);
		/* Committed and reported: at least that version is there. */
		if (committed[key])
			assert_int_equal(found, 1);
		if (!found)
			continue;
		char meta[32] = "";
		memcpy(meta, a.meta.at, a.meta.n);
		uint64_t v = strtoull(meta, NULL, 10);
		assert_true(v >= committed[key]);
		size_t n;
		uint8_t *p = version_bytes(key, v, &n);
		assert_stored(f, "a", key, span(p, n), meta);
		free(p);
	}
}

/* CA-07: a writer dies at any moment, and no reader ever sees part of an entry. */
static void test_crash_kill_during_writes_loses_nothing_committed(void **state)
{
	(void)state;
	struct fixture f;
	uint64_t seed = pick_seed(), version = 1, committed[KEYS] = { 0 }, total = 0;
	fixture_init(&f, NULL);
	for (int round = 0; round < ROUNDS; round++) {
		int p[2];
		assert_int_equal(pipe(p), 0);
		pid_t child = fork();
		if (!child) {
			close(p[0]);
			f.k.synchronous_full = round & 1;
			fixture_open(&f);
			write_until_killed(&f, seed + (uint64_t)round, version, p[1]);
		}
		close(p[1]);
		struct pollfd first = { .fd = p[0], .events = POLLIN };
		if (round % 4 == 3) /* in some rounds something surely was committed */
			poll(&first, 1, 120000);
		usleep((useconds_t)(2000 + next_random(&seed) % 60000));
		/* The pipe is read only after the kill: it holds 4096 records, more than a round
		 * commits. */
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, NULL, 0), child);
		struct commit m;
		while (read(p[0], &m, sizeof m) == sizeof m) {
			committed[m.key] = m.version;
			total++;
		}
		close(p[0]);
		check_after_kill(&f, committed);
		fixture_close(&f);
		version += 1000000;
	}
	assert_true(total > 0);
	fixture_end(&f);
}

static void test_crash_holder_is_named_and_lock_freed_by_kill(void **state)
{
	(void)state;
	struct fixture f;
	int p[2];
	char byte, pid[32];
	struct stx_diag d = { 0 };
	fixture_init(&f, NULL);
	assert_int_equal(pipe(p), 0);
	pid_t child = fork();
	if (!child) {
		fixture_open(&f);
		(void)!write(p[1], "x", 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(p[0], &byte, 1), 1);
	f.k.dir = f.dir;
	assert_int_equal(stx_cache_open(&f.k, &f.c, &d), STX_E_BUSY);
	assert_null(f.c);
	snprintf(pid, sizeof pid, "%ld", (long)child);
	assert_non_null(strstr(d.text, pid));
	struct stx_fsck_report r;
	memset(&d, 0, sizeof d);
	assert_int_equal(stx_cache_fsck(f.dir, 0, NULL, NULL, &r, &d), STX_E_BUSY);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	fixture_open(&f);
	close(p[0]);
	close(p[1]);
	fixture_end(&f);
}

/* ---- no room ---- */
/* Fills until a put fails, checks that nothing else suffered, makes room, goes on. */
static void run_full(struct fixture *f, void (*more)(struct fixture *f))
{
	struct stx_cache_artifact a;
	unsigned n = 0, failed_key;
	stx_err e = STX_E_OK;
	uint8_t *p = make_bytes(1, 300000, 0);
	for (; n < 100 && !e; n++) {
		p[0] = (uint8_t)n;
		e = put(f, "a", n, span(p, 300000), "m", 0);
	}
	assert_int_equal(e, STX_E_IO);
	failed_key = n - 1;
	assert_true(failed_key > 0);
	struct stx_digest k = key_of(failed_key), d = stx_digest_of(p, 300000);
	assert_int_equal(stx_cache_find(f->c, "a", &k, &a), 0);
	assert_int_equal(stx_cache_find_digest(f->c, "a", &d, &a), 0);
	struct stx_cache_stats s;
	stx_cache_stats(f->c, &s);
	assert_true(s.write_errors > 0);
	assert_int_equal(s.artifacts, failed_key);
	for (unsigned i = 0; i < failed_key; i++) {
		p[0] = (uint8_t)i;
		assert_stored(f, "a", i, span(p, 300000), "m");
	}
	/* A file that has no room leaves nothing behind. */
	char path[512];
	int files = 0;
	for (unsigned i = 0; i < failed_key; i++) {
		p[0] = (uint8_t)i;
		d = stx_digest_of(p, 300000);
		e = materialise(f, "a", &d, path);
		assert_true(e == STX_E_OK || e == STX_E_IO);
		files += e == STX_E_OK;
	}
	assert_int_equal(count_files(f->dir, "tmp"), 0);
	stx_cache_stats(f->c, &s);
	assert_int_equal(s.files, files);
	more(f);
	p[0] = (uint8_t)failed_key;
	assert_int_equal(put(f, "a", failed_key, span(p, 300000), "m", 0), STX_E_OK);
	fixture_reopen(f);
	for (unsigned i = 0; i <= failed_key; i++) {
		p[0] = (uint8_t)i;
		assert_stored(f, "a", i, span(p, 300000), "m");
	}
	fixture_close(f);
	assert_int_equal(fsck(f, 0).clean, 1);
	free(p);
}

static void grow_tmpfs(struct fixture *f)
{
	char dir[256];
	snprintf(dir, sizeof dir, "%s", f->dir);
	*strrchr(dir, '/') = 0;
	assert_int_equal(mount("none", dir, NULL, MS_REMOUNT, "size=64m"), 0);
}

static void test_crash_full_disk_stores_nothing_and_recovers(void **state)
{
	(void)state;
	char dir[] = "/var/tmp/stax-full-XXXXXX";
	struct fixture f;
	assert_non_null(mkdtemp(dir));
	/* In a mount namespace of its own: the disk goes with this process, however it ends. */
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", dir, "tmpfs", 0, "size=6m")) {
		print_message(
			"no right to mount a small disk: the file size limit test stands for it\n");
		rmdir(dir);
		skip();
	}
	fixture_init(&f, dir);
	fixture_open(&f);
	run_full(&f, grow_tmpfs);
	fixture_end(&f);
	assert_int_equal(umount(dir), 0);
	rmdir(dir);
}

static void raise_limit(struct fixture *f)
{
	(void)f;
	struct rlimit r;
	getrlimit(RLIMIT_FSIZE, &r);
	r.rlim_cur = r.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

static void test_crash_file_size_limit_is_an_io_error(void **state)
{
	(void)state;
	struct fixture f;
	struct rlimit r;
	signal(SIGXFSZ, SIG_IGN);
	fixture_init(&f, NULL);
	fixture_open(&f);
	getrlimit(RLIMIT_FSIZE, &r);
	r.rlim_cur = 2 << 20;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
	run_full(&f, raise_limit);
	fixture_end(&f);
	signal(SIGXFSZ, SIG_DFL);
}

/* One job of a shared commit that does not fit harms no other. */
static void test_crash_small_puts_pass_beside_one_too_large(void **state)
{
	(void)state;
	struct fixture f;
	struct rlimit lim;
	struct result r[21] = { { 0 } };
	uint8_t *p = make_bytes(1, 3 << 20, 0);
	signal(SIGXFSZ, SIG_IGN);
	fixture_init(&f, NULL);
	fixture_open(&f);
	getrlimit(RLIMIT_FSIZE, &lim);
	lim.rlim_cur = 2 << 20;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &lim), 0);
	for (unsigned i = 0; i < 21; i++) {
		size_t n = i == 10 ? 3u << 20 : 1000;
		p[0] = (uint8_t)i;
		struct stx_cache_artifact a = { key_of(i), stx_digest_of(p, n), n, "a", { 0 } };
		stx_cache_put(f.c, &a, span(p, n), 0, on_done, &r[i]);
	}
	for (unsigned i = 0; i < 21; i++)
		assert_int_equal(finish(&f, &r[i]), i == 10 ? STX_E_IO : STX_E_OK);
	raise_limit(&f);
	p[0] = 10;
	assert_int_equal(put(&f, "a", 10, span(p, 3 << 20), "", 0), STX_E_OK);
	fixture_end(&f);
	free(p);
	signal(SIGXFSZ, SIG_DFL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crash_kill_during_writes_loses_nothing_committed),
		cmocka_unit_test(test_crash_holder_is_named_and_lock_freed_by_kill),
		cmocka_unit_test(test_crash_full_disk_stores_nothing_and_recovers),
		cmocka_unit_test(test_crash_file_size_limit_is_an_io_error),
		cmocka_unit_test(test_crash_small_puts_pass_beside_one_too_large),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
