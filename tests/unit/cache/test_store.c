/* test_store.c: the directory, file systems, schema, hash table, and fsck on damaged pages. */
#include "support.h"

/* ---- file systems and the directory ---- */
static void test_store_network_and_fuse_are_refused_by_name(void **state)
{
	(void)state;
	assert_string_equal(stx__fs_refused(0x6969), "NFS");
	assert_string_equal(stx__fs_refused(0x65735546), "FUSE");
	assert_string_equal(stx__fs_refused(0x01021997), "9P");
	assert_string_equal(stx__fs_refused(0x0BD00BD0), "Lustre");
	assert_string_equal(stx__fs_refused(0x00C36400), "Ceph");
	assert_string_equal(stx__fs_refused(0x47504653), "GPFS");
	assert_string_equal(stx__fs_refused(0xFF534D42ul), "CIFS");
	/* As a sign-extended 32-bit word, which some kernels report. */
	assert_string_equal(stx__fs_refused((unsigned long)(int)0xFE534D42), "SMB2");
	assert_null(stx__fs_refused(0xEF53));       /* ext4 */
	assert_null(stx__fs_refused(0x58465342));   /* xfs */
	assert_null(stx__fs_refused(0x9123683Eul)); /* btrfs */
	assert_null(stx__fs_refused(0x01021994));   /* tmpfs */
}

static void test_store_directory_is_made_private(void **state)
{
	(void)state;
	struct fixture f;
	struct stat st;
	char path[300];
	struct stx_diag d = { 0 };
	fixture_init(&f, NULL);
	assert_int_equal(chmod(f.dir, 0755), 0);
	fixture_open(&f);
	assert_int_equal(stat(f.dir, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	fixture_close(&f);
	/* Ours already: made private again. */
	assert_int_equal(chmod(f.dir, 0750), 0);
	fixture_open(&f);
	stat(f.dir, &st);
	assert_int_equal(st.st_mode & 07777, 0700);
	fixture_close(&f);
	/* Somebody else's folder: left alone. */
	snprintf(path, sizeof path, "rm -r %s/* && touch %s/letter", f.dir, f.dir);
	assert_int_equal(system(path), 0);
	assert_int_equal(chmod(f.dir, 0755), 0);
	assert_int_equal(stx_cache_open(&f.k, &f.c, &d), STX_E_DENIED);
	stat(f.dir, &st);
	assert_int_equal(st.st_mode & 07777, 0755);
	memset(&d, 0, sizeof d);
	f.k.dir = "/nonexistent/stax";
	assert_int_equal(stx_cache_open(&f.k, &f.c, &d), STX_E_IO);
	assert_true(d.text[0]);
	fixture_end(&f);
}

/* ---- schema ---- */
static int64_t version_of(sqlite3 *h)
{
	int64_t v = -1;
	struct stx_diag d = { 0 };
	assert_int_equal(stx__schema_version(h, &v, &d), STX_E_OK);
	return v;
}

static void test_store_migration_runs_missing_steps_only(void **state)
{
	(void)state;
	static const struct stx__migration steps[] = {
		{ 1, "CREATE TABLE t(a); INSERT INTO t VALUES(7)" },
		{ 2, "ALTER TABLE t ADD COLUMN b DEFAULT 8" },
		{ 3, "CREATE TABLE u(c)" },
		{ 4, "CREATE TABLE v(c); CREATE TABLE t(a)" }, /* fails half way */
	};
	sqlite3 *h;
	int64_t n = 0;
	struct stx_diag d = { 0 };
	sqlite3_open(":memory:", &h);
	assert_int_equal(version_of(h), 0);
	assert_int_equal(stx__schema_migrate(h, steps, 1, &d), STX_E_OK);
	assert_int_equal(version_of(h), 1);
	assert_int_equal(stx__schema_migrate(h, steps, 3, &d), STX_E_OK);
	assert_int_equal(version_of(h), 3);
	assert_int_equal(stx__sql_int(h, "SELECT a*10+b FROM t", &n), SQLITE_OK);
	assert_int_equal(n, 78);
	assert_int_equal(stx__schema_migrate(h, steps, 3, &d), STX_E_OK);
	assert_true(stx__schema_migrate(h, steps, 4, &d) < 0);
	assert_int_equal(version_of(h), 3);
	assert_int_equal(stx__sql_int(h, "SELECT count(*) FROM sqlite_schema WHERE name='v'", &n),
			 SQLITE_OK);
	assert_int_equal(n, 0);
	memset(&d, 0, sizeof d);
	assert_int_equal(stx__schema_migrate(h, steps, 2, &d), STX_E_VERSION);
	sqlite3_close(h);
}

static void test_store_newer_schema_is_refused_and_kept(void **state)
{
	(void)state;
	struct fixture f;
	struct stx_diag d = { 0 };
	struct stx_fsck_report r;
	fixture_init(&f, NULL);
	fixture_open(&f);
	put(&f, "a", 1, span("x", 1), "m", 0);
	fixture_close(&f);
	sql(&f, "UPDATE schema_version SET version=99");
	assert_int_equal(stx_cache_open(&f.k, &f.c, &d), STX_E_VERSION);
	assert_non_null(strstr(d.text, "99"));
	memset(&d, 0, sizeof d);
	assert_int_equal(stx_cache_fsck(f.dir, 1, print_line, NULL, &r, &d), STX_E_VERSION);
	sql(&f, "UPDATE schema_version SET version=2");
	fixture_open(&f);
	assert_stored(&f, "a", 1, span("x", 1), "m");
	fixture_end(&f);
}

static void test_store_foreign_database_is_refused(void **state)
{
	(void)state;
	struct fixture f;
	struct stx_diag d = { 0 };
	fixture_init(&f, NULL);
	fixture_open(&f);
	fixture_close(&f);
	sql(&f, "PRAGMA application_id=7");
	assert_int_equal(stx_cache_open(&f.k, &f.c, &d), STX_E_USAGE);
	fixture_end(&f);
}

static void test_store_pragmas_are_as_designed(void **state)
{
	(void)state;
	struct fixture f;
	int64_t v = -1;
	fixture_init(&f, NULL);
	f.k.synchronous_full = 1;
	fixture_open(&f);
	put(&f, "a", 1, span("x", 1), "m", 0);
	char path[300];
	struct stx__db db;
	snprintf(path, sizeof path, "%s/db/stax.db", f.dir);
	for (int full = 0; full < 2; full++) {
		assert_int_equal(stx__sql_open(&db, path, full, NULL), STX_E_OK);
		stx__sql_int(db.h, "PRAGMA auto_vacuum", &v);
		assert_int_equal(v, 2); /* incremental */
		stx__sql_int(db.h, "PRAGMA secure_delete", &v);
		assert_int_equal(v, 0);
		stx__sql_int(db.h, "PRAGMA synchronous", &v);
		assert_int_equal(v, 1 + full);
		stx__sql_int(db.h, "PRAGMA mmap_size", &v);
		assert_int_equal(v, 0);
		stx__sql_close(&db);
	}
	fixture_end(&f);
}

/* ---- the hash table against a list ---- */
static void test_store_map_agrees_with_a_list(void **state)
{
	(void)state;
	uint64_t seed = pick_seed();
	struct stx__map m = { 0 };
	enum { N = 300 };
	static uint64_t items[N];
	int in[N] = { 0 };
	size_t n = 0;
	for (int i = 0; i < N; i++)
		items[i] = next_random(&seed) % 40 * 64; /* many equal, many of one home slot */
	for (int step = 0; step < 20000; step++) {
		int i = (int)(next_random(&seed) % N);
		if (in[i]) {
			stx__map_del(&m, &items[i]);
			n--;
		} else {
			assert_int_equal(stx__map_reserve(&m, 1), 0);
			stx__map_add(&m, &items[i]);
			n++;
		}
		in[i] = !in[i];
		assert_int_equal(m.n, n);
		int j = (int)(next_random(&seed) % N), found = 0;
		size_t at = SIZE_MAX;
		for (void *p; (p = stx__map_next(&m, items[j], &at));)
			found += p == &items[j];
		assert_int_equal(found, in[j]);
	}
	stx__map_free(&m);
}

/* ---- fsck ---- */
#define KEYS 60u
static uint8_t *bytes_of(unsigned key, size_t *n)
{
	*n = key % 20 == 7 ? (2u << 20) + key : 500 + key * 331;
	return make_bytes(key, *n, (int)(key & 1));
}

static void fill(struct fixture *f)
{
	char meta[600];
	memset(meta, 'm', sizeof meta);
	meta[599] = 0;
	for (unsigned i = 0; i < KEYS; i++) {
		size_t n;
		uint8_t *p = bytes_of(i, &n);
		assert_int_equal(put(f, "a", i, span(p, n), meta, 0), STX_E_OK);
		struct stx_digest m = key_of(1000 + i);
		stx_cache_memo_put(f->c, "a", &m, span(p, 32), NULL, NULL);
		free(p);
	}
}

/* Every entry found reads back right; returns how many there are. */
static unsigned survivors(struct fixture *f)
{
	unsigned found = 0;
	for (unsigned i = 0; i < KEYS; i++) {
		struct stx_digest k = key_of(i);
		struct stx_cache_artifact a;
		size_t n;
		uint8_t *p = bytes_of(i, &n);
		if (stx_cache_find(f->c, "a", &k, &a)) {
			struct stx_digest d = stx_digest_of(p, n);
			struct stx_bytes got = { 0 };
			assert_true(stx_digest_eq(&a.digest, &d));
			stx_err e = get(f, "a", &d, &got);
			assert_true(e == STX_E_OK || e == STX_E_NOT_FOUND);
			if (!e) {
				found++;
				assert_int_equal(got.n, n);
				assert_memory_equal(got.at, p, n);
			}
			stx_bytes_free(&got);
		}
		free(p);
	}
	return found;
}

static void copy_db(struct fixture *f, const char *from, const char *to)
{
	char cmd[700];
	snprintf(cmd, sizeof cmd, "rm -rf '%s/%s' && cp -r '%s/%s' '%s/%s'", f->dir, to, f->dir,
		 from, f->dir, to);
	assert_int_equal(system(cmd), 0);
}

static off_t db_size(struct fixture *f)
{
	char path[300];
	struct stat st;
	snprintf(path, sizeof path, "%s/db/stax.db", f->dir);
	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

static void overwrite(struct fixture *f, off_t at, const void *p, size_t n)
{
	char path[300];
	snprintf(path, sizeof path, "%s/db/stax.db", f->dir);
	int fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, p, n, at), n);
	close(fd);
}

/* Any page may be damaged: fsck finds it, repair leaves a clean store with what could be read, and
 * the store itself opens and never serves a wrong byte. */
static void test_store_damaged_pages_are_survived(void **state)
{
	(void)state;
	struct fixture f;
	uint64_t seed = pick_seed();
	unsigned best = 0;
	fixture_init(&f, NULL);
	fixture_open(&f);
	fill(&f);
	fixture_close(&f);
	copy_db(&f, "db", "saved");
	off_t pages = db_size(&f) / 4096;
	for (int round = 0; round < 60; round++) {
		uint8_t junk[4096];
		copy_db(&f, "saved", "db");
		off_t page = round < 12 ? round : (off_t)(next_random(&seed) % (uint64_t)pages);
		int how = (int)(next_random(&seed) % 3);
		for (size_t i = 0; i < sizeof junk; i++)
			junk[i] = how == 0 ? 0 : (uint8_t)(next_random(&seed) >> 30);
		if (how == 2)
			overwrite(&f, page * 4096 + (off_t)(next_random(&seed) % 4000), junk, 8);
		else
			overwrite(&f, page * 4096, junk, sizeof junk);
		struct stx_fsck_report r;
		if (round & 1) {
			struct stx_diag d = { 0 };
			stx_err e = stx_cache_fsck(f.dir, 1, print_line, NULL, &r, &d);
			/* The header may now name another program or a newer schema: then nothing
			 * is touched. */
			if (e == STX_E_USAGE || e == STX_E_VERSION)
				continue;
			assert_int_equal(e, STX_E_OK);
			assert_int_equal(fsck(&f, 0).clean, 1);
		}
		struct stx_diag d = { 0 };
		f.k.dir = f.dir;
		f.k.wake = wake;
		f.k.wake_ctx = &f;
		stx_err e = stx_cache_open(&f.k, &f.c, &d);
		if (e == STX_E_USAGE || e == STX_E_VERSION)
			continue;
		if (e)
			fail_msg("page %lld: %s: %s", (long long)page, stx_err_name(e), d.text);
		unsigned n = survivors(&f);
		if (n > best)
			best = n;
		/* One page holds few entries (about 5 with such meta) unless it is the root of the
		 * schema. */
		if (page >= 12)
			assert_in_range(n, KEYS - 12, KEYS);
		/* Damage that only a write meets is repaired at the next open. */
		e = put(&f, "a", 5000, span("new", 3), "m", 0);
		assert_true(e == STX_E_OK || e == STX_E_CORRUPT);
		if (e) {
			fixture_reopen(&f);
			assert_int_equal(put(&f, "a", 5000, span("new", 3), "m", 0), STX_E_OK);
			assert_in_range(survivors(&f), n - 12, n);
		}
		assert_stored(&f, "a", 5000, span("new", 3), "m");
		fixture_close(&f);
	}
	assert_true(best >= KEYS - 1);
	fixture_end(&f);
}

static void test_store_truncated_database_is_rebuilt(void **state)
{
	(void)state;
	struct fixture f;
	char path[300];
	fixture_init(&f, NULL);
	fixture_open(&f);
	fill(&f);
	fixture_close(&f);
	snprintf(path, sizeof path, "%s/db/stax.db", f.dir);
	assert_int_equal(truncate(path, db_size(&f) / 2 / 4096 * 4096), 0);
	struct stx_fsck_report r = fsck(&f, 1);
	assert_int_equal(r.clean, 0);
	assert_true(r.repaired > 0);
	assert_int_equal(fsck(&f, 0).clean, 1);
	fixture_open(&f);
	assert_in_range(survivors(&f), 1, KEYS);
	fixture_end(&f);
}

/* A store of version 1, before tune records, is brought up to date with everything in it. */
static void test_store_of_version_1_is_migrated(void **state)
{
	(void)state;
	struct fixture f;
	struct stx_digest k = key_of(0);
	struct stx_cache_artifact a;
	struct stx_span v;
	struct result put = { 0 };
	fixture_init(&f, NULL);
	fixture_open(&f);
	fill(&f);
	fixture_close(&f);
	sql(&f, "DROP INDEX entry_tune; UPDATE schema_version SET version=1");
	assert_int_equal(fsck(&f, 0).clean, 1);
	fixture_open(&f);
	assert_int_equal(stx_cache_find(f.c, "a", &k, &a), 1);
	stx_cache_tune_put(f.c, "a", &k, span("timings", 7), 0, on_done, &put);
	assert_int_equal(finish(&f, &put), STX_E_OK);
	fixture_close(&f);
	assert_int_equal(fsck(&f, 0).tunes, 1);
	fixture_open(&f);
	assert_int_equal(stx_cache_tune_find(f.c, "a", &k, &v), 1);
	fixture_end(&f);
}

static void test_store_repair_keeps_sound_rows_and_recency(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, NULL);
	fixture_open(&f);
	fill(&f);
	struct stx_digest k = key_of(0);
	struct stx_cache_artifact a;
	assert_int_equal(stx_cache_find(f.c, "a", &k, &a), 1); /* the most recent one from here */
	struct result put = { 0 };
	stx_cache_tune_put(f.c, "a", &k, span("timings", 7), 0, on_done, &put);
	assert_int_equal(finish(&f, &put), STX_E_OK);
	fixture_close(&f);
	sql(&f,
	    "UPDATE blob SET data=x'00' WHERE id=(SELECT blob FROM entry WHERE kind=1 ORDER BY id"
	    " LIMIT 1 OFFSET 3)");
	struct stx_fsck_report r = fsck(&f, 0);
	assert_int_equal(r.clean, 0);
	assert_int_equal(r.damaged, 1);
	assert_int_equal(r.repaired, 0);
	assert_int_equal(fsck(&f, 0).damaged, 1); /* without repair nothing changed */
	r = fsck(&f, 1);
	assert_int_equal(r.artifacts, KEYS - 1);
	assert_int_equal(r.memos, KEYS);
	assert_int_equal(r.tunes, 1);
	r = fsck(&f, 0);
	assert_int_equal(r.clean, 1);
	assert_int_equal(r.artifacts, KEYS - 1);
	fixture_open(&f);
	assert_int_equal(survivors(&f), KEYS - 1);
	fixture_close(&f);
	f.k.max_bytes = 30000;
	fixture_open(&f);
	for (int i = 0; i < 200 && f.c->dropping; i++)
		pump(&f);
	fixture_end(&f);
}

static void test_store_fsck_of_empty_directory_is_clean(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, NULL);
	assert_int_equal(fsck(&f, 0).clean, 1);
	assert_int_equal(fsck(&f, 1).clean, 1);
	fixture_open(&f);
	fixture_close(&f);
	assert_int_equal(fsck(&f, 0).clean, 1);
	fixture_end(&f);
}

static void test_store_cut_swap_is_finished(void **state)
{
	(void)state;
	struct fixture f;
	char a[300], b[300], c[300];
	fixture_init(&f, NULL);
	fixture_open(&f);
	put(&f, "a", 1, span("x", 1), "m", 0);
	fixture_close(&f);
	/* Where two names cannot be exchanged: db is moved away, db.new not yet moved in. */
	snprintf(a, sizeof a, "%s/db", f.dir);
	snprintf(b, sizeof b, "%s/db.old", f.dir);
	snprintf(c, sizeof c, "%s/db.new", f.dir);
	copy_db(&f, "db", "db.new");
	assert_int_equal(rename(a, b), 0);
	fixture_open(&f);
	assert_stored(&f, "a", 1, span("x", 1), "m");
	assert_int_equal(access(b, F_OK), -1);
	assert_int_equal(access(c, F_OK), -1);
	fixture_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_store_network_and_fuse_are_refused_by_name),
		cmocka_unit_test(test_store_directory_is_made_private),
		cmocka_unit_test(test_store_migration_runs_missing_steps_only),
		cmocka_unit_test(test_store_newer_schema_is_refused_and_kept),
		cmocka_unit_test(test_store_foreign_database_is_refused),
		cmocka_unit_test(test_store_pragmas_are_as_designed),
		cmocka_unit_test(test_store_map_agrees_with_a_list),
		cmocka_unit_test(test_store_damaged_pages_are_survived),
		cmocka_unit_test(test_store_truncated_database_is_rebuilt),
		cmocka_unit_test(test_store_repair_keeps_sound_rows_and_recency),
		cmocka_unit_test(test_store_of_version_1_is_migrated),
		cmocka_unit_test(test_store_fsck_of_empty_directory_is_clean),
		cmocka_unit_test(test_store_cut_swap_is_finished),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
