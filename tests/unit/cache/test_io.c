/* test_io.c: an SQLite VFS that fails at random: reads, writes, syncs, truncations. */
#include "support.h"

/* ---- the failing file system: wraps the default one ---- */
struct bad_file {
	sqlite3_file base;
	sqlite3_file *real;
};

/* One in `rate` calls fails; 0: none. Set by the test, read by every thread. */
static _Atomic uint32_t rate, calls, failed;

static int unlucky(void)
{
	uint32_t r = atomic_load(&rate);
	if (!r)
		return 0;
	uint64_t s = atomic_fetch_add(&calls, 1);
	int bad = next_random(&s) % r == 0;
	atomic_fetch_add(&failed, (uint32_t)bad);
	return bad;
}

#define REAL(f)         (((struct bad_file *)(f))->real)
#define CALL(f, m, ...) REAL(f)->pMethods->m(REAL(f), ##__VA_ARGS__)

static int bad_close(sqlite3_file *f)
{
	return CALL(f, xClose);
}
static int bad_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
	return unlucky() ? SQLITE_IOERR_READ : CALL(f, xRead, p, n, at);
}
static int bad_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
	if (!unlucky())
		return CALL(f, xWrite, p, n, at);
	CALL(f, xWrite, p, n / 2, at); /* half of it reached the disk */
	return at & 4096 ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}
static int bad_truncate(sqlite3_file *f, sqlite3_int64 n)
{
	return unlucky() ? SQLITE_IOERR_TRUNCATE : CALL(f, xTruncate, n);
}
static int bad_sync(sqlite3_file *f, int flags)
{
	return unlucky() ? SQLITE_IOERR_FSYNC : CALL(f, xSync, flags);
}
static int bad_size(sqlite3_file *f, sqlite3_int64 *n)
{
	return CALL(f, xFileSize, n);
}
static int bad_lock(sqlite3_file *f, int l)
{
	return CALL(f, xLock, l);
}
static int bad_unlock(sqlite3_file *f, int l)
{
	return CALL(f, xUnlock, l);
}
static int bad_reserved(sqlite3_file *f, int *out)
{
	return CALL(f, xCheckReservedLock, out);
}
static int bad_control(sqlite3_file *f, int op, void *arg)
{
	return CALL(f, xFileControl, op, arg);
}
static int bad_sector(sqlite3_file *f)
{
	return CALL(f, xSectorSize);
}
static int bad_device(sqlite3_file *f)
{
	return CALL(f, xDeviceCharacteristics);
}
static int bad_shm_map(sqlite3_file *f, int page, int n, int extend, void volatile **out)
{
	return CALL(f, xShmMap, page, n, extend, out);
}
static int bad_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
	return CALL(f, xShmLock, at, n, flags);
}
static void bad_shm_barrier(sqlite3_file *f)
{
	CALL(f, xShmBarrier);
}
static int bad_shm_unmap(sqlite3_file *f, int del)
{
	return CALL(f, xShmUnmap, del);
}

static const sqlite3_io_methods bad_methods = {
	.iVersion = 2,
	.xClose = bad_close,
	.xRead = bad_read,
	.xWrite = bad_write,
	.xTruncate = bad_truncate,
	.xSync = bad_sync,
	.xFileSize = bad_size,
	.xLock = bad_lock,
	.xUnlock = bad_unlock,
	.xCheckReservedLock = bad_reserved,
	.xFileControl = bad_control,
	.xSectorSize = bad_sector,
	.xDeviceCharacteristics = bad_device,
	.xShmMap = bad_shm_map,
	.xShmLock = bad_shm_lock,
	.xShmBarrier = bad_shm_barrier,
	.xShmUnmap = bad_shm_unmap,
};

static int bad_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out)
{
	sqlite3_vfs *real = v->pAppData;
	struct bad_file *b = (struct bad_file *)f;
	b->real = (sqlite3_file *)(b + 1);
	int rc = real->xOpen(real, name, b->real, flags, out);
	f->pMethods = b->real->pMethods ? &bad_methods : NULL;
	return rc;
}

static void install(sqlite3_vfs *v)
{
	sqlite3_vfs *real = sqlite3_vfs_find(NULL);
	*v = *real;
	v->zName = "bad";
	v->pNext = NULL;
	v->pAppData = real;
	v->szOsFile = (int)sizeof(struct bad_file) + real->szOsFile;
	v->xOpen = bad_open;
	assert_int_equal(sqlite3_vfs_register(v, 1), SQLITE_OK);
}

/* ---- the test ---- */
#define KEYS 300u

static uint8_t *bytes_of(unsigned key, size_t *n)
{
	uint64_t s = key;
	*n = key % 50 == 9 ? (2u << 20) : next_random(&s) % 20000;
	return make_bytes(key, *n, (int)(key & 1));
}

static unsigned put_some(struct fixture *f, unsigned from, unsigned n, uint8_t *ok)
{
	struct result r[KEYS] = { { 0 } };
	unsigned errors = 0;
	for (unsigned i = from; i < from + n; i++) {
		size_t len;
		uint8_t *p = bytes_of(i, &len);
		struct stx_cache_artifact a = { key_of(i), stx_digest_of(p, len), len, "a",
						span("m", 1) };
		stx_cache_put(f->c, &a, span(p, len), 0, on_done, &r[i]);
		free(p);
	}
	for (unsigned i = from; i < from + n; i++) {
		stx_err e = finish(f, &r[i]);
		assert_true(e == STX_E_OK || e == STX_E_IO);
		ok[i] |= e == STX_E_OK;
		errors += e != STX_E_OK;
	}
	return errors;
}

/* Reads either fail as such or give the right bytes; an I/O error does not drop the entry. */
static void read_some(struct fixture *f, unsigned n, const uint8_t *ok)
{
	for (unsigned i = 0; i < n; i++) {
		size_t len;
		uint8_t *p = bytes_of(i, &len);
		struct stx_digest d = stx_digest_of(p, len), k = key_of(i);
		struct stx_cache_artifact a;
		struct stx_bytes got = { 0 };
		stx_err e = get(f, "a", &d, &got);
		assert_true(e == STX_E_OK || e == STX_E_IO || (e == STX_E_NOT_FOUND && !ok[i]));
		assert_int_equal(stx_cache_find(f->c, "a", &k, &a), ok[i]);
		if (!e) {
			assert_int_equal(got.n, len);
			assert_true(!len || !memcmp(got.at, p, len));
		}
		stx_bytes_free(&got);
		free(p);
	}
}

static void run(struct fixture *f, int full)
{
	uint8_t ok[KEYS] = { 0 };
	unsigned errors = 0;
	f->k.synchronous_full = full;
	fixture_open(f);
	for (unsigned from = 0; from < KEYS; from += 20) {
		static const uint32_t rates[] = { 400, 60, 0, 15 };
		atomic_store(&rate, rates[from / 20 % 4]);
		errors += put_some(f, from, 20, ok);
		stx_cache_tick(f->c, from);
		read_some(f, from, ok);
	}
	assert_true(errors > 0 && atomic_load(&failed) > 0);
	atomic_store(&rate, 0);
	/* The disk is sound again: what failed can be put now. */
	for (unsigned i = 0; i < KEYS; i++)
		if (!ok[i])
			assert_int_equal(put_some(f, i, 1, ok), 0);
	fixture_close(f);
	struct stx_fsck_report r = fsck(f, 0);
	assert_int_equal(r.clean, 1);
	assert_int_equal(r.artifacts, KEYS);
	fixture_open(f);
	read_some(f, KEYS, ok);
	fixture_end(f);
}

static void test_io_errors_store_nothing_and_lose_nothing(void **state)
{
	(void)state;
	static sqlite3_vfs v;
	struct fixture f;
	atomic_store(&calls, (uint32_t)pick_seed());
	install(&v);
	for (int full = 0; full < 2; full++) {
		fixture_init(&f, NULL);
		run(&f, full);
	}
	sqlite3_vfs_unregister(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_io_errors_store_nothing_and_lose_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
