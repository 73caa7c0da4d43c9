/* test_cache.c: puts, lookups, reads, namespaces, memos, kernels, failures, damage. */
#include "support.h"

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	fixture_init(f, NULL);
	fixture_open(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	fixture_end(*state);
	free(*state);
	return 0;
}

static void test_cache_put_survives_reopen(void **state)
{
	struct fixture *f = *state;
	static const size_t sizes[] = { 0, 1, 100, 4096, 65536, 1 << 20, (1 << 20) + 1 };
	for (unsigned i = 0; i < 7; i++)
		for (int soft = 0; soft < 2; soft++) {
			uint8_t *p = make_bytes(i * 2 + (unsigned)soft, sizes[i], soft);
			assert_int_equal(
				put(f, "a", i * 2 + (unsigned)soft, span(p, sizes[i]), "meta", 0),
				STX_E_OK);
			free(p);
		}
	for (int round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 7; i++)
			for (int soft = 0; soft < 2; soft++) {
				uint8_t *p = make_bytes(i * 2 + (unsigned)soft, sizes[i], soft);
				assert_stored(f, "a", i * 2 + (unsigned)soft, span(p, sizes[i]),
					      "meta");
				free(p);
			}
		fixture_reopen(f);
	}
	struct stx_cache_stats s;
	stx_cache_stats(f->c, &s);
	assert_int_equal(s.artifacts, 14);
	assert_int_equal(s.damaged, 0);
	fixture_close(f);
	struct stx_fsck_report r = fsck(f, 0);
	assert_int_equal(r.clean, 1);
	assert_int_equal(r.artifacts, 14);
	assert_int_equal(r.orphans, 0);
}

static void test_cache_first_writer_wins(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(put(f, "a", 1, span("first", 5), "m1", 0), STX_E_OK);
	assert_int_equal(put(f, "a", 1, span("second", 6), "m2", 0), STX_E_OK);
	assert_stored(f, "a", 1, span("first", 5), "m1");
	/* Both waiting at once: the order of the calls decides. */
	struct result r[8] = { { 0 } };
	for (unsigned i = 0; i < 8; i++) {
		char text[2] = { (char)('0' + i), 0 };
		struct stx_cache_artifact a = { key_of(2), stx_digest_of(text, 1), 1, "a",
						span(text, 1) };
		stx_cache_put(f->c, &a, span(text, 1), 0, on_done, &r[i]);
	}
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(finish(f, &r[i]), STX_E_OK);
	assert_stored(f, "a", 2, span("0", 1), "0");
	fixture_reopen(f);
	assert_stored(f, "a", 1, span("first", 5), "m1");
	assert_stored(f, "a", 2, span("0", 1), "0");
}

static void test_cache_replace_changes_and_frees_old(void **state)
{
	struct fixture *f = *state;
	struct stx_cache_stats s;
	uint8_t *p = make_bytes(5, 3 << 20, 0);
	struct stx_digest old = stx_digest_of(p, 3 << 20);
	struct stx_bytes got = { 0 };
	put(f, "a", 1, span(p, 3 << 20), "m1", 0);
	assert_int_equal(put(f, "a", 1, span("new", 3), "m2", 1), STX_E_OK);
	assert_stored(f, "a", 1, span("new", 3), "m2");
	assert_int_equal(get(f, "a", &old, &got), STX_E_NOT_FOUND);
	stx_bytes_free(&got);
	stx_cache_stats(f->c, &s);
	assert_int_equal(s.artifacts, 1);
	assert_in_range(s.bytes, 1, 2000);
	fixture_close(f);
	assert_int_equal(fsck(f, 0).clean, 1);
	fixture_open(f);
	assert_stored(f, "a", 1, span("new", 3), "m2");
	free(p);
}

static void test_cache_shared_contents_stay_until_last_key(void **state)
{
	struct fixture *f = *state;
	put(f, "a", 1, span("same", 4), "m1", 0);
	put(f, "a", 2, span("same", 4), "m2", 0);
	put(f, "a", 1, span("other", 5), "m3", 1);
	assert_stored(f, "a", 2, span("same", 4), "m2");
	fixture_reopen(f);
	assert_stored(f, "a", 2, span("same", 4), "m2");
	assert_stored(f, "a", 1, span("other", 5), "m3");
}

static void test_cache_namespaces_do_not_see_each_other(void **state)
{
	struct fixture *f = *state;
	struct stx_digest k = key_of(1), d = stx_digest_of("same", 4);
	struct stx_cache_artifact a;
	struct stx_bytes got = { 0 };
	char path[512];
	put(f, "a", 1, span("same", 4), "m", 0);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(stx_cache_find(f->c, "b", &k, &a), 0);
		assert_int_equal(stx_cache_find(f->c, "", &k, &a), 0);
		assert_int_equal(stx_cache_find_digest(f->c, "b", &d, &a), 0);
		assert_int_equal(stx_cache_find_digest(f->c, "a", &d, &a), 1);
		assert_int_equal(get(f, "b", &d, &got), STX_E_NOT_FOUND);
		assert_int_equal(materialise(f, "b", &d, path), STX_E_NOT_FOUND);
		assert_int_equal(stx_cache_path(f->c, "b", &d, path, sizeof path), 0);
		assert_int_equal(stx_cache_kernel_has(f->c, "b", &k), 0);
		fixture_reopen(f);
	}
	put(f, "b", 1, span("mine", 4), "m2", 0);
	assert_stored(f, "a", 1, span("same", 4), "m");
	assert_stored(f, "b", 1, span("mine", 4), "m2");
	stx_bytes_free(&got);
}

static void test_cache_wrong_digest_is_refused(void **state)
{
	struct fixture *f = *state;
	struct result r = { 0 };
	struct stx_cache_artifact a = { key_of(1), key_of(9), 4, "a", { 0 } }, out;
	stx_cache_put(f->c, &a, span("abcd", 4), 0, on_done, &r);
	assert_int_equal(finish(f, &r), STX_E_UNTRUSTED);
	assert_int_equal(stx_cache_find(f->c, "a", &a.key, &out), 0);
	assert_int_equal(put(f, "a", 1, span("abcd", 4), "", 0), STX_E_OK);
}

static void test_cache_oversized_is_refused(void **state)
{
	struct fixture *f = *state;
	size_t n = STX__CONTENT_MAX + 1u;
	uint8_t *p = calloc(1, n);
	char ns[400];
	memset(ns, 'n', sizeof ns);
	ns[399] = 0;
	assert_int_equal(put(f, "a", 1, span(p, n), "", 0), STX_E_TOO_LARGE);
	assert_int_equal(put(f, ns, 1, span("x", 1), "", 0), STX_E_TOO_LARGE);
	free(p);
}

static void test_cache_full_queue_answers_busy(void **state)
{
	struct fixture *f = *state;
	size_t n = 32u << 20;
	uint8_t *p = make_bytes(3, n, 1);
	struct stx_digest d = stx_digest_of(p, n);
	struct result r[12] = { { 0 } };
	int busy = 0, ok = 0;
	for (unsigned i = 0; i < 12; i++) {
		struct stx_cache_artifact a = { key_of(i), d, n, "a", { 0 } };
		stx_cache_put(f->c, &a, span(p, n), 0, on_done, &r[i]);
	}
	for (unsigned i = 0; i < 12; i++) {
		stx_err e = finish(f, &r[i]);
		busy += e == STX_E_BUSY;
		ok += e == STX_E_OK;
		struct stx_cache_artifact a;
		struct stx_digest k = key_of(i);
		assert_int_equal(stx_cache_find(f->c, "a", &k, &a), e == STX_E_OK);
	}
	assert_int_equal(busy + ok, 12);
	assert_int_equal(ok, 7); /* 256 MiB less the bookkeeping */
	assert_int_equal(put(f, "a", 50, span("x", 1), "", 0), STX_E_OK);
	free(p);
}

static void test_cache_memo_kernel_failure_survive_reopen(void **state)
{
	struct fixture *f = *state;
	struct stx_digest m = key_of(1), k = key_of(2), x = key_of(3);
	struct stx_diag d = { 0 }, got;
	struct stx_span v;
	struct result r = { 0 }, read = { 0 };
	uint8_t *p = make_bytes(8, 3 << 20, 0);
	stx_fail(&d, STX_E_COMPILE, "codegen", "node 7", "does not %s", "compile");
	stx_diag_at(&d, "a.txt:3:4");
	stx_cache_memo_put(f->c, "a", &m, span("value1", 6), NULL, NULL);
	stx_cache_memo_put(f->c, "a", &m, span("value2", 6), NULL, NULL);
	stx_cache_failure_put(f->c, "a", &x, &d);
	stx_cache_kernel_put(f->c, "a", &k, span(p, 3 << 20), on_done, &r);
	assert_int_equal(finish(f, &r), STX_E_OK);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(stx_cache_memo_find(f->c, &m, &v), 1);
		assert_int_equal(v.n, 6);
		assert_memory_equal(v.at, "value2", 6);
		assert_int_equal(stx_cache_failure_find(f->c, "a", &x, &got), 1);
		assert_memory_equal(&got, &d, sizeof d);
		assert_int_equal(stx_cache_failure_find(f->c, "b", &x, &got), 0);
		assert_int_equal(stx_cache_kernel_has(f->c, "a", &k), 1);
		assert_int_equal(stx_cache_kernel_has(f->c, "b", &k), 0);
		memset(&read, 0, sizeof read);
		stx_cache_kernel_read(f->c, "a", &k, on_read, &read);
		assert_int_equal(finish(f, &read), STX_E_OK);
		assert_int_equal(read.bytes.n, 3 << 20);
		assert_memory_equal(read.bytes.at, p, 3 << 20);
		stx_bytes_free(&read.bytes);
		fixture_reopen(f);
	}
	stx_cache_failure_drop(f->c, "a", &x);
	assert_int_equal(stx_cache_failure_find(f->c, "a", &x, &got), 0);
	/* Dropped while its put still waits. */
	stx_cache_failure_put(f->c, "a", &m, &d);
	stx_cache_failure_drop(f->c, "a", &m);
	put(f, "a", 90, span("x", 1), "", 0);
	assert_int_equal(stx_cache_failure_find(f->c, "a", &m, &got), 0);
	fixture_reopen(f);
	assert_int_equal(stx_cache_failure_find(f->c, "a", &x, &got), 0);
	assert_int_equal(stx_cache_failure_find(f->c, "a", &m, &got), 0);
	/* And a put after the drop stays. */
	stx_cache_failure_put(f->c, "a", &x, &d);
	stx_cache_failure_drop(f->c, "a", &x);
	stx_cache_failure_put(f->c, "a", &x, &d);
	put(f, "a", 91, span("x", 1), "", 0);
	assert_int_equal(stx_cache_failure_find(f->c, "a", &x, &got), 1);
	free(p);
}

/* Tune records: the first wins unless replaced, in their namespace, over a restart (LC-08). */
static void test_cache_tune_records_survive_reopen(void **state)
{
	struct fixture *f = *state;
	struct stx_digest k = key_of(1), pin = key_of(2);
	struct stx_span v;
	struct result r[4] = { { 0 } };
	struct stx_cache_stats s;
	stx_cache_tune_put(f->c, "a", &k, span("one", 3), 0, on_done, &r[0]);
	stx_cache_tune_put(f->c, "a", &k, span("second", 6), 1, on_done, &r[1]);
	stx_cache_tune_put(f->c, "a", &pin, span("", 0), 0, on_done, &r[2]); /* an empty one */
	assert_int_equal(finish(f, &r[2]), STX_E_OK);
	stx_cache_tune_put(f->c, "a", &k, span("late", 4), 0, on_done, &r[3]);
	assert_int_equal(finish(f, &r[3]), STX_E_OK);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(stx_cache_tune_find(f->c, "a", &k, &v), 1);
		assert_int_equal(v.n, 6);
		assert_memory_equal(v.at, "second", 6);
		assert_int_equal(stx_cache_tune_find(f->c, "a", &pin, &v), 1);
		assert_int_equal(v.n, 0);
		assert_int_equal(stx_cache_tune_find(f->c, "b", &k, &v), 0);
		stx_cache_stats(f->c, &s);
		assert_int_equal(s.tunes, 2);
		fixture_reopen(f);
	}
}

struct seen {
	unsigned n, stop;
	char meta[8];
};

static int on_each(void *ctx, const struct stx_cache_artifact *a)
{
	struct seen *s = ctx;
	s->meta[s->n++] = (char)a->meta.at[0];
	return s->n == s->stop;
}

static void test_cache_each_goes_newest_first(void **state)
{
	struct fixture *f = *state;
	struct seen s = { .stop = 99 }, t = { .stop = 2 }, none = { .stop = 99 };
	put(f, "a", 1, span("1", 1), "1", 0);
	put(f, "b", 2, span("2", 1), "2", 0);
	put(f, "a", 3, span("3", 1), "3", 0);
	put(f, "a", 4, span("4", 1), "4", 0);
	stx_cache_each(f->c, "a", on_each, &s);
	assert_int_equal(s.n, 3);
	assert_memory_equal(s.meta, "431", 3);
	stx_cache_each(f->c, "a", on_each, &t);
	assert_int_equal(t.n, 2);
	stx_cache_each(f->c, "c", on_each, &none);
	assert_int_equal(none.n, 0);
}

/* ---- damage: CA-07 ---- */
static void damaged_read(struct fixture *f, unsigned key, size_t n, int soft, const char *change)
{
	uint8_t *p = make_bytes(key, n, soft);
	struct stx_span contents = { p, n };
	struct stx_digest k = key_of(key), d = stx_digest_of(contents.at, contents.n);
	struct stx_cache_artifact a;
	struct stx_cache_stats s;
	struct stx_bytes got = { 0 };
	char path[512];
	assert_int_equal(put(f, "a", key, contents, "m", 0), STX_E_OK);
	fixture_close(f);
	sql(f, change);
	assert_int_equal(fsck(f, 0).clean, 0);
	fixture_open(f);
	stx_err e = get(f, "a", &d, &got);
	assert_int_equal(e, STX_E_NOT_FOUND);
	assert_int_equal(got.n, 0);
	stx_bytes_free(&got);
	assert_int_equal(stx_cache_find(f->c, "a", &k, &a), 0);
	assert_int_equal(materialise(f, "a", &d, path), STX_E_NOT_FOUND);
	stx_cache_stats(f->c, &s);
	assert_in_range(s.damaged, 1, 2);
	/* Rebuilt as if it had never been there. */
	assert_int_equal(put(f, "a", key, contents, "m", 0), STX_E_OK);
	assert_stored(f, "a", key, contents, "m");
	fixture_reopen(f);
	assert_stored(f, "a", key, contents, "m");
	fixture_close(f);
	assert_int_equal(fsck(f, 0).clean, 1);
	fixture_open(f);
	free(p);
}

static void test_cache_damaged_rows_are_never_returned(void **state)
{
	struct fixture *f = *state;
#define LAST "(SELECT max(id) FROM blob)"
	damaged_read(f, 1, 3000, 0,
		     "UPDATE blob SET data=CAST(x'00'||substr(data,2) AS BLOB) WHERE id=" LAST);
	damaged_read(
		f, 2, 30000, 1,
		"UPDATE blob SET data=CAST(substr(data,1,length(data)-9)||x'010203040506070809'"
		" AS BLOB) WHERE id=" LAST);
	damaged_read(f, 3, 30000, 1, "UPDATE blob SET data=substr(data,1,10) WHERE id=" LAST);
	damaged_read(f, 4, 3000, 0, "UPDATE blob SET data=NULL WHERE id=" LAST);
	damaged_read(f, 5, 30000, 1, "UPDATE blob SET encoding=0 WHERE id=" LAST);
	damaged_read(f, 6, 30000, 1, "UPDATE blob SET raw_bytes=60000000 WHERE id=" LAST);
	damaged_read(f, 7, 30000, 1, "UPDATE blob SET raw_bytes=1<<60 WHERE id=" LAST);
	damaged_read(f, 8, 3 << 20, 0, "DELETE FROM chunk WHERE id=(SELECT max(id) FROM chunk)");
	damaged_read(f, 9, 3 << 20, 0,
		     "UPDATE chunk SET data=zeroblob(1048576) WHERE id=" LAST "*256+1");
	damaged_read(f, 10, 3 << 20, 0, "UPDATE blob SET chunks=2 WHERE id=" LAST);
	damaged_read(f, 11, 3000, 0, "DELETE FROM blob WHERE id=" LAST);
	damaged_read(f, 12, 3000, 0,
		     "UPDATE entry SET value=x'6e' WHERE id=(SELECT max(id) FROM entry)");
	damaged_read(f, 13, 3000, 0,
		     "UPDATE entry SET ns='b' WHERE id=(SELECT max(id) FROM entry)");
	damaged_read(f, 14, 3000, 0,
		     "UPDATE entry SET kind=77 WHERE id=(SELECT max(id) FROM entry)");
	/* A row far larger than any we write is not even allocated. */
	damaged_read(f, 15, 3000, 0, "UPDATE blob SET data=zeroblob(40000000) WHERE id=" LAST);
	damaged_read(f, 16, 3000, 0,
		     "UPDATE entry SET value=zeroblob(40000000)"
		     " WHERE id=(SELECT max(id) FROM entry)");
}

static void test_cache_damage_while_open_is_noticed(void **state)
{
	struct fixture *f = *state;
	struct stx_digest d = stx_digest_of("contents", 8), k = key_of(1);
	struct stx_cache_artifact a;
	struct stx_cache_stats s;
	struct stx_bytes got = { 0 };
	put(f, "a", 1, span("contents", 8), "m", 0);
	sql(f, "UPDATE blob SET data=CAST('xontents' AS BLOB)");
	assert_int_equal(stx_cache_find(f->c, "a", &k, &a), 1);
	assert_int_equal(get(f, "a", &d, &got), STX_E_NOT_FOUND);
	assert_int_equal(stx_cache_find(f->c, "a", &k, &a), 0);
	assert_int_equal(put(f, "a", 1, span("contents", 8), "m", 0), STX_E_OK);
	assert_stored(f, "a", 1, span("contents", 8), "m");
	stx_cache_stats(f->c, &s);
	assert_int_equal(s.damaged, 1);
	stx_bytes_free(&got);
}

/* ---- closing ---- */
static void test_cache_close_commits_queued_and_answers_all(void **state)
{
	struct fixture *f = *state;
	struct result r[64] = { { 0 } }, reads[64] = { { 0 } };
	uint8_t *p = make_bytes(4, 64 * 1024, 0);
	for (unsigned i = 0; i < 64; i++) {
		p[0] = (uint8_t)i;
		struct stx_cache_artifact a = {
			key_of(i), stx_digest_of(p, 64 * 1024), 0, "a", { 0 }
		};
		stx_cache_put(f->c, &a, span(p, 64 * 1024), 0, on_done, &r[i]);
		stx_cache_read(f->c, "a", &a.digest, on_read, &reads[i]);
	}
	fixture_close(f);
	for (unsigned i = 0; i < 64; i++) {
		assert_int_equal(r[i].done, 1);
		assert_int_equal(r[i].e, STX_E_OK);
		assert_int_equal(reads[i].done, 1);
		assert_true(reads[i].e == STX_E_CANCELED || reads[i].e == STX_E_NOT_FOUND);
		stx_bytes_free(&reads[i].bytes);
	}
	fixture_open(f);
	for (unsigned i = 0; i < 64; i++) {
		p[0] = (uint8_t)i;
		assert_stored(f, "a", i, span(p, 64 * 1024), "");
	}
	free(p);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_cache_put_survives_reopen),
		T(test_cache_first_writer_wins),
		T(test_cache_replace_changes_and_frees_old),
		T(test_cache_shared_contents_stay_until_last_key),
		T(test_cache_namespaces_do_not_see_each_other),
		T(test_cache_wrong_digest_is_refused),
		T(test_cache_oversized_is_refused),
		T(test_cache_full_queue_answers_busy),
		T(test_cache_memo_kernel_failure_survive_reopen),
		T(test_cache_tune_records_survive_reopen),
		T(test_cache_each_goes_newest_first),
		T(test_cache_damaged_rows_are_never_returned),
		T(test_cache_damage_while_open_is_noticed),
		T(test_cache_close_commits_queued_and_answers_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
