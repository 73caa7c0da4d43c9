/* test_evict.c: eviction and recency, materialised files and their grace, the log's size, vacuum.
 */
#include "support.h"

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	fixture_init(f, NULL);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	fixture_end(*state);
	free(*state);
	return 0;
}

static struct stx_cache_stats stats(struct fixture *f)
{
	struct stx_cache_stats s;
	stx_cache_stats(f->c, &s);
	return s;
}

static int has(struct fixture *f, unsigned key)
{
	struct stx_digest k = key_of(key);
	struct stx_cache_artifact a;
	return stx_cache_find(f->c, "a", &k, &a);
}

/* Runs upkeep until nothing of it is queued. */
static void settle(struct fixture *f, uint64_t now)
{
	stx_cache_tick(f->c, now);
	while (f->c->dropping || f->c->vacuuming || f->c->flushing || f->c->unlinking) {
		pump(f);
		stx_cache_tick(f->c, now);
	}
}

#define SIZE 20000u
static void put_random(struct fixture *f, unsigned key)
{
	uint8_t *p = make_bytes(key, SIZE, 0);
	assert_int_equal(put(f, "a", key, span(p, SIZE), "m", 0), STX_E_OK);
	free(p);
}

static void test_evict_least_recently_used_goes_first(void **state)
{
	struct fixture *f = *state;
	f->k.max_bytes = 10 * (SIZE + 300);
	fixture_open(f);
	for (unsigned i = 0; i < 10; i++)
		put_random(f, i);
	settle(f, 1);
	assert_int_equal(stats(f).evictions, 0);
	assert_true(has(f, 0) && has(f, 3)); /* now the most recent ones */
	for (unsigned i = 10; i < 15; i++) {
		put_random(f, i);
		settle(f, 2);
		assert_in_range(stats(f).bytes, 0, f->k.max_bytes);
	}
	static const int want[15] = { 1, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1 };
	for (unsigned i = 0; i < 15; i++)
		assert_int_equal(has(f, i), want[i]);
	assert_int_equal(stats(f).evictions, 5);
	assert_int_equal(stats(f).artifacts, 10);
	fixture_reopen(f);
	for (unsigned i = 0; i < 15; i++)
		assert_int_equal(has(f, i), want[i]);
}

static void test_evict_recency_survives_reopen(void **state)
{
	struct fixture *f = *state;
	fixture_open(f);
	for (unsigned i = 0; i < 10; i++)
		put_random(f, i);
	assert_true(has(f, 2) && has(f, 0));
	fixture_close(f);
	f->k.max_bytes = 4 * (SIZE + 300); /* a smaller cap: eviction at open */
	fixture_open(f);
	settle(f, 1);
	static const int want[10] = { 1, 0, 1, 0, 0, 0, 0, 0, 1, 1 };
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(has(f, i), want[i]);
}

static void test_evict_recency_is_flushed_each_minute(void **state)
{
	struct fixture *f = *state;
	sqlite3 *h;
	char path[300];
	int64_t before = 0, after = 0;
	fixture_open(f);
	put_random(f, 1);
	put_random(f, 2);
	stx_cache_tick(f->c, 1000);
	snprintf(path, sizeof path, "%s/db/stax.db", f->dir);
	assert_int_equal(sqlite3_open(path, &h), SQLITE_OK);
	assert_true(has(f, 1));
	settle(f, 1000 + STX__RECENCY_MS - 1);
	assert_int_equal(stx__sql_int(h, "SELECT min(used) FROM recency", &before), SQLITE_OK);
	settle(f, 1000 + STX__RECENCY_MS);
	assert_int_equal(stx__sql_int(h, "SELECT min(used) FROM recency", &after), SQLITE_OK);
	assert_true(after > before);
	sqlite3_close(h);
}

static void test_evict_total_stays_under_cap_in_a_flood(void **state)
{
	struct fixture *f = *state;
	f->k.max_bytes = 1 << 20;
	fixture_open(f);
	for (unsigned i = 0; i < 400; i++)
		put_random(f, i);
	settle(f, 1);
	struct stx_cache_stats s = stats(f);
	assert_in_range(s.bytes, 1 << 19, 1 << 20);
	assert_int_equal(s.artifacts + s.evictions, 400);
	assert_true(has(f, 399));
	fixture_close(f);
	struct stx_fsck_report r = fsck(f, 0);
	assert_int_equal(r.clean, 1);
	assert_int_equal(r.artifacts, s.artifacts);
	/* What was freed was given back: the file is near the cap. */
	char path[300];
	struct stat st;
	snprintf(path, sizeof path, "%s/db/stax.db", f->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_in_range(st.st_size, 1 << 19, 4 << 20);
}

static void test_evict_log_stays_small(void **state)
{
	struct fixture *f = *state;
	char path[300];
	struct stat st;
	fixture_open(f);
	snprintf(path, sizeof path, "%s/db/stax.db-wal", f->dir);
	for (unsigned i = 0; i < 160; i++) {
		uint8_t *p = make_bytes(i, 1 << 20, 0);
		put(f, "a", i, span(p, 1 << 20), "m", 0);
		free(p);
		assert_int_equal(stat(path, &st), 0);
		assert_in_range(st.st_size, 0, 64 << 20);
	}
	assert_in_range(stats(f).wal_bytes, 0, 64 << 20);
	fixture_close(f);
	if (stat(path, &st) == 0)
		assert_int_equal(st.st_size, 0);
}

/* ---- materialised files ---- */
static void check_file(const char *path, struct stx_span want)
{
	struct stat st;
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0444);
	assert_int_equal(st.st_size, want.n);
	uint8_t *got = malloc(want.n + 1);
	int fd = open(path, O_RDONLY);
	assert_int_equal(read(fd, got, want.n + 1), want.n);
	assert_memory_equal(got, want.at, want.n);
	close(fd);
	free(got);
}

static ino_t inode(const char *path)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return st.st_ino;
}

static void test_evict_file_is_private_and_never_rewritten(void **state)
{
	struct fixture *f = *state;
	char path[512], again[512];
	uint8_t *p = make_bytes(1, SIZE, 0);
	struct stx_digest d = stx_digest_of(p, SIZE);
	fixture_open(f);
	assert_int_equal(put(f, "a", 1, span(p, SIZE), "m", 0), STX_E_OK);
	assert_int_equal(stx_cache_path(f->c, "a", &d, path, sizeof path), 0);
	assert_int_equal(materialise(f, "a", &d, path), STX_E_OK);
	check_file(path, span(p, SIZE));
	assert_int_equal(stx_cache_path(f->c, "a", &d, again, sizeof again), 1);
	assert_string_equal(path, again);
	assert_int_equal(stx_cache_path(f->c, "a", &d, again, 10), 0);
	ino_t i = inode(path);
	assert_int_equal(materialise(f, "a", &d, again), STX_E_OK);
	assert_int_equal(inode(path), i);
	assert_int_equal(count_files(f->dir, "tmp"), 0);
	assert_int_equal(stats(f).files, 1);
	assert_int_equal(stats(f).file_bytes, SIZE);
	/* After a restart: known only once verified, and then the same file. */
	fixture_reopen(f);
	assert_int_equal(stats(f).files, 1);
	assert_int_equal(stx_cache_path(f->c, "a", &d, again, sizeof again), 0);
	assert_int_equal(materialise(f, "a", &d, again), STX_E_OK);
	assert_string_equal(path, again);
	assert_int_equal(inode(path), i);
	/* A torn one (power loss before its data reached the disk) is replaced. */
	fixture_close(f);
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(truncate(path, 100), 0);
	assert_int_equal(fsck(f, 0).clean, 0);
	fixture_open(f);
	assert_int_equal(materialise(f, "a", &d, again), STX_E_OK);
	check_file(path, span(p, SIZE));
	fixture_close(f);
	assert_int_equal(fsck(f, 0).clean, 1);
	free(p);
}

static void test_evict_waiting_for_one_file_share_it(void **state)
{
	struct fixture *f = *state;
	struct result r[20] = { { 0 } };
	uint8_t *p = make_bytes(1, SIZE, 0);
	struct stx_digest d = stx_digest_of(p, SIZE);
	fixture_open(f);
	put(f, "a", 1, span(p, SIZE), "m", 0);
	put(f, "b", 1, span(p, SIZE), "m", 0);
	for (int i = 0; i < 20; i++)
		stx_cache_materialise(f->c, i & 1 ? "a" : "b", &d, on_read, &r[i]);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(finish(f, &r[i]), STX_E_OK);
		assert_int_equal(r[i].bytes.n, r[0].bytes.n);
		assert_memory_equal(r[i].bytes.at, r[0].bytes.at, r[0].bytes.n);
	}
	for (int i = 0; i < 20; i++)
		stx_bytes_free(&r[i].bytes);
	assert_int_equal(stats(f).files, 1);
	free(p);
}

static void test_evict_file_outlives_artifact_for_its_grace(void **state)
{
	struct fixture *f = *state;
	char path[512], other[512];
	f->k.max_bytes = 3 * (SIZE + 300);
	f->k.grace_ms = 1000;
	fixture_open(f);
	put_random(f, 0);
	uint8_t *p = make_bytes(0, SIZE, 0);
	struct stx_digest d = stx_digest_of(p, SIZE);
	settle(f, 5000);
	assert_int_equal(materialise(f, "a", &d, path), STX_E_OK);
	settle(f, 5900); /* handed out at some time since 5000: counted from here */
	for (unsigned i = 1; i < 6; i++)
		put_random(f, i);
	settle(f, 6100);
	assert_int_equal(has(f, 0), 0);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(stx_cache_path(f->c, "a", &d, other, sizeof other), 0);
	settle(f, 6899);
	check_file(path, span(p, SIZE));
	int fd = open(path, O_RDONLY);
	settle(f, 6900);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(stats(f).files, 0);
	/* Who has it open keeps it. */
	char byte;
	assert_int_equal(pread(fd, &byte, 1, SIZE - 1), 1);
	close(fd);
	free(p);
}

static void test_evict_file_of_live_artifact_stays_and_path_extends(void **state)
{
	struct fixture *f = *state;
	char path[512], other[512];
	f->k.grace_ms = 1000;
	fixture_open(f);
	put_random(f, 0);
	uint8_t *p = make_bytes(0, SIZE, 0);
	struct stx_digest d = stx_digest_of(p, SIZE);
	settle(f, 1000);
	materialise(f, "a", &d, path);
	settle(f, 2000);
	settle(f, 900000); /* far beyond grace, but the artifact is there and the total small */
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(stx_cache_path(f->c, "a", &d, other, sizeof other), 1);
	settle(f, 900001);
	assert_int_equal(put(f, "a", 0, span("x", 1), "m", 1),
			 STX_E_OK); /* the old contents are gone */
	settle(f, 901000);
	assert_int_equal(access(path, F_OK), 0);
	settle(f, 901001);
	assert_int_equal(access(path, F_OK), -1);
	free(p);
}

static void test_evict_files_over_their_cap_go_oldest_first(void **state)
{
	struct fixture *f = *state;
	char path[6][512];
	/* Contents that compress: the store is far below the cap, their files above it. */
	f->k.max_bytes = 4 * 100000;
	f->k.grace_ms = 1000;
	fixture_open(f);
	settle(f, 1);
	for (unsigned i = 0; i < 6; i++) {
		uint8_t *p = make_bytes(i * 7, 100000, 1);
		p[0] = (uint8_t)i;
		struct stx_digest d = stx_digest_of(p, 100000);
		assert_int_equal(put(f, "a", i, span(p, 100000), "m", 0), STX_E_OK);
		assert_int_equal(materialise(f, "a", &d, path[i]), STX_E_OK);
		free(p);
	}
	settle(f, 1000);
	settle(f, 1999);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(access(path[i], F_OK), 0);
	settle(f, 2000);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(access(path[i], F_OK), i < 2 ? -1 : 0);
	assert_int_equal(stats(f).artifacts, 6);
	assert_int_equal(stats(f).files, 4);
}

static void test_evict_leftovers_go_at_open(void **state)
{
	struct fixture *f = *state;
	char path[512], orphan[512];
	f->k.grace_ms = 1000;
	fixture_open(f);
	put_random(f, 0);
	uint8_t *p = make_bytes(0, SIZE, 0);
	struct stx_digest d = stx_digest_of(p, SIZE);
	materialise(f, "a", &d, orphan);
	put(f, "a", 0, span("x", 1), "m", 1);
	fixture_close(f);
	snprintf(path, sizeof path, "%s/tmp/77.1", f->dir);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	struct stx_fsck_report r = fsck(f, 0);
	assert_int_equal(r.clean, 1);
	assert_int_equal(r.orphans, 2);
	fixture_open(f);
	assert_int_equal(access(path, F_OK), -1);
	settle(f, 10);
	assert_int_equal(access(orphan, F_OK),
			 0); /* somebody may have been handed it just before */
	settle(f, 1010);
	assert_int_equal(access(orphan, F_OK), -1);
	free(p);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_evict_least_recently_used_goes_first),
		T(test_evict_recency_survives_reopen),
		T(test_evict_recency_is_flushed_each_minute),
		T(test_evict_total_stays_under_cap_in_a_flood),
		T(test_evict_log_stays_small),
		T(test_evict_file_is_private_and_never_rewritten),
		T(test_evict_waiting_for_one_file_share_it),
		T(test_evict_file_outlives_artifact_for_its_grace),
		T(test_evict_file_of_live_artifact_stays_and_path_extends),
		T(test_evict_files_over_their_cap_go_oldest_first),
		T(test_evict_leftovers_go_at_open),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
