/* test_tables.c: the digest table, the reply LRU, the quarantine and stored records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "quarantine.h"
#include "record.h"
#include "reply_cache.h"

/* Few distinct homes, so that probing and deletion are put to work. */
static struct stx_digest digest(uint32_t n)
{
	struct stx_digest d = { { 0 } };
	d.b[0] = (uint8_t)(n % 5);
	stx_store_u32(d.b + 12, n);
	return d;
}

static void test_table_random_operations_match_an_array(void **state)
{
	(void)state;
	enum { N = 300 };
	unsigned seed = (unsigned)time(NULL);
	print_message("seed %u\n", seed);
	srand(seed);
	struct stx__table t = { 0 };
	static int there[N], values[N];
	uint32_t n = 0;
	for (int step = 0; step < 100000; step++) {
		uint32_t i = (uint32_t)(rand() % N);
		struct stx_digest k = digest(i);
		assert_ptr_equal(stx__table_get(&t, &k), there[i] ? &values[i] : NULL);
		if (rand() % 2) {
			assert_int_equal(stx__table_set(&t, &k, &values[i]), 0);
			n += !there[i];
			there[i] = 1;
		} else {
			assert_ptr_equal(stx__table_del(&t, &k), there[i] ? &values[i] : NULL);
			n -= there[i] != 0;
			there[i] = 0;
		}
		assert_int_equal(t.n, n);
	}
	stx__table_free(&t);
}

static void test_reply_cache_over_its_limit_drops_the_oldest(void **state)
{
	(void)state;
	struct stx__reply_cache c = { .max_bytes = 20000 };
	struct stx_digest key = digest(1);
	for (uint32_t i = 0; i < 100; i++) {
		uint8_t bytes[1000];
		memset(bytes, (int)i, sizeof bytes);
		struct stx__blob *b = stx__blob_copy(bytes, sizeof bytes);
		struct stx_digest memo = digest(i);
		assert_non_null(stx__reply_put(&c, &memo, &key, &key, 0, b));
		stx__blob_drop(b);
		struct stx_digest first = digest(0);
		assert_non_null(stx__reply_find(&c, &first)); /* used all the time: stays */
		assert_true(c.bytes <= c.max_bytes);
	}
	struct stx_digest recent = digest(99), old = digest(50);
	assert_int_equal(stx__reply_find(&c, &recent)->answer->at[5], 99);
	assert_null(stx__reply_find(&c, &old));
	struct stx__blob *huge = stx__blob_new(10000);
	assert_null(stx__reply_put(&c, &old, &key, &key, 0, huge));
	assert_int_equal(huge->refs, 1);
	stx__blob_drop(huge);
	stx__reply_cache_clear(&c);
	assert_int_equal(c.bytes, 0);
}

static void test_quarantine_second_kill_refuses_until_it_expires(void **state)
{
	(void)state;
	struct stx__quarantine q = { .period_ms = 100 };
	struct stx_digest a = digest(1), b = digest(6);
	uint64_t until;
	assert_int_equal(stx__quarantine_count(&q, &a, 1000), 0);
	assert_int_equal(stx__quarantine_has(&q, &a, 1000, &until), 0);
	assert_int_equal(stx__quarantine_count(&q, &a, 1050), 1);
	assert_int_equal(stx__quarantine_has(&q, &a, 1100, &until), 1);
	assert_int_equal(until, 1150);
	assert_int_equal(stx__quarantine_has(&q, &b, 1100, &until), 0);
	assert_int_equal(stx__quarantine_has(&q, &a, 1150, &until), 0);
	/* A kill long ago does not count. */
	assert_int_equal(stx__quarantine_count(&q, &b, 2000), 0);
	assert_int_equal(stx__quarantine_count(&q, &b, 2100), 0);
	stx__quarantine_forget(&q, &b);
	assert_int_equal(stx__quarantine_count(&q, &b, 2101), 0);
	stx__quarantine_free(&q);
}

static void test_quarantine_many_graphs_stay_bounded(void **state)
{
	(void)state;
	struct stx__quarantine q = { .period_ms = 100 };
	for (uint32_t i = 0; i < 3 * STX__QUARANTINE_ENTRIES_MAX; i++) {
		struct stx_digest d = stx_digest_of(&i, sizeof i);
		stx__quarantine_count(&q, &d, i / 100);
		assert_true(q.table.n <= STX__QUARANTINE_ENTRIES_MAX);
	}
	stx__quarantine_free(&q);
}

static void test_record_values_round_trip_and_refuse_damage(void **state)
{
	(void)state;
	struct stx_bytes b = { 0 };
	struct stx__meta m = { 1,
			       5,
			       digest(1),
			       digest(2),
			       { (const uint8_t *)"cpu", 3 },
			       { (const uint8_t *)"answer", 6 } },
			 back;
	assert_int_equal(stx__meta_encode(&m, &b), 0);
	assert_int_equal(stx__meta_decode((struct stx_span){ b.at, b.n }, &back), 0);
	assert_int_equal(back.options, 5);
	assert_memory_equal(back.target.at, "cpu", 3);
	assert_int_equal(back.answer.n, 6);
	assert_memory_equal(back.answer.at, "answer", 6);
	for (size_t n = 0; n < 16 + 64 + 3; n++)
		assert_int_equal(stx__meta_decode((struct stx_span){ b.at, n }, &back), -1);
	stx_store_u32(b.at + 12, UINT32_MAX);
	assert_int_equal(stx__meta_decode((struct stx_span){ b.at, b.n }, &back), -1);
	stx_bytes_free(&b);
	struct stx__kernel_value k = { { { 1, 2, 3 }, 4, 5, 6 }, { (const uint8_t *)"obj", 3 } },
				 kback;
	assert_int_equal(stx__kernel_encode(&k, &b), 0);
	assert_int_equal(stx__kernel_decode((struct stx_span){ b.at, b.n }, &kback), 0);
	assert_int_equal(kback.emitted.block[2], 3);
	assert_int_equal(kback.emitted.shared_bytes, 6);
	assert_memory_equal(kback.object.at, "obj", 3);
	assert_int_equal(stx__kernel_decode((struct stx_span){ b.at, 27 }, &kback), -1);
	stx_bytes_free(&b);
}

/* Whatever a request says that changes the result changes its memo. */
static void test_record_memo_digest_depends_on_every_field(void **state)
{
	(void)state;
	Stx__Options o = STX__OPTIONS__INIT;
	Stx__GivenValue v = STX__GIVEN_VALUE__INIT, *vs[1] = { &v };
	int64_t size = 4;
	uint8_t data[4] = { 1, 2, 3, 4 };
	struct stx_digest seen[16], body = digest(1), body2 = digest(2), f = digest(3),
				    f2 = digest(4);
	Stx__Lookup base = STX__LOOKUP__INIT;
	base.target = "t";
	base.options = &o;
	int n = 0;
	Stx__Lookup l = base;
	seen[n++] = stx_key_memo(&l, &body, &f);
	seen[n++] = stx_key_memo(&l, &body2, &f);
	seen[n++] = stx_key_memo(&l, &body, &f2);
	l.format = 2;
	seen[n++] = stx_key_memo(&l, &body, &f);
	l = base;
	l.target = "u";
	seen[n++] = stx_key_memo(&l, &body, &f);
	l = base;
	l.ns = "other";
	seen[n++] = stx_key_memo(&l, &body, &f);
	l = base;
	o.fast = 1;
	seen[n++] = stx_key_memo(&l, &body, &f);
	o.fast = 0;
	v.data = (ProtobufCBinaryData){ 4, data };
	l.values = vs;
	l.n_values = 1;
	seen[n++] = stx_key_memo(&l, &body, &f);
	v.sizes = &size;
	v.n_sizes = 1;
	seen[n++] = stx_key_memo(&l, &body, &f);
	data[3] = 9;
	seen[n++] = stx_key_memo(&l, &body, &f);
	v.input = "x";
	seen[n++] = stx_key_memo(&l, &body, &f);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < i; k++)
			assert_false(stx_digest_eq(&seen[i], &seen[k]));
	l = base;
	l.ns = "default"; /* the empty namespace by its name */
	struct stx_digest same = stx_key_memo(&l, &body, &f);
	assert_true(stx_digest_eq(&same, &seen[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table_random_operations_match_an_array),
		cmocka_unit_test(test_reply_cache_over_its_limit_drops_the_oldest),
		cmocka_unit_test(test_quarantine_second_kill_refuses_until_it_expires),
		cmocka_unit_test(test_quarantine_many_graphs_stay_bounded),
		cmocka_unit_test(test_record_values_round_trip_and_refuse_damage),
		cmocka_unit_test(test_record_memo_digest_depends_on_every_field),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
