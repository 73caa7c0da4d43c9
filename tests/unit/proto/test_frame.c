/* test_frame.c: prefixes, packing, the pre-scan against bombs, spilled replies, error <-> diag. */
#include "frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static struct stx_span span_of(const struct stx_bytes *b)
{
	return (struct stx_span){ b->at, b->n };
}

static Stx__Envelope lookup_envelope(Stx__Lookup *l, uint64_t id)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	e.request_id = id;
	e.msg_case = STX__ENVELOPE__MSG_LOOKUP;
	e.lookup = l;
	return e;
}

static void test_frame_prefix_within_limits_accepted(void **state)
{
	(void)state;
	uint8_t p[8];
	uint32_t h, b;
	stx_store_u32(p, STX_FRAME_HEADER_MAX);
	stx_store_u32(p + 4, STX_FRAME_BODY_MAX);
	assert_int_equal(stx_frame_prefix(p, &h, &b, NULL), 0);
	assert_int_equal(h, STX_FRAME_HEADER_MAX);
	assert_int_equal(b, STX_FRAME_BODY_MAX);
}

static void test_frame_prefix_over_a_limit_names_the_limit(void **state)
{
	(void)state;
	static const uint32_t bad[][2] = { { STX_FRAME_HEADER_MAX + 1, 0 },
					   { 4, STX_FRAME_BODY_MAX + 1 },
					   { UINT32_MAX, UINT32_MAX } };
	static const char *const limit[] = { "65536", "67108864", "65536" };
	for (unsigned i = 0; i < 3; i++) {
		struct stx_diag d = { 0 };
		uint8_t p[8];
		uint32_t h, b;
		stx_store_u32(p, bad[i][0]);
		stx_store_u32(p + 4, bad[i][1]);
		assert_int_equal(stx_frame_prefix(p, &h, &b, &d), STX_E_PROTOCOL);
		assert_non_null(strstr(d.text, limit[i]));
	}
}

static void test_frame_pack_then_unpack_returns_the_envelope(void **state)
{
	(void)state;
	Stx__Lookup l = STX__LOOKUP__INIT;
	uint8_t digest[32] = { 1, 2, 3 };
	l.body_digest = (ProtobufCBinaryData){ 32, digest };
	l.format = 2;
	l.target = "cpu:x86-64-v3";
	l.ns = "default";
	Stx__Envelope e = lookup_envelope(&l, 77), *got;
	struct stx_bytes b = { 0 };
	assert_int_equal(stx_frame_pack(&e, 123, &b), 0);
	uint32_t h, body;
	assert_int_equal(stx_frame_prefix(b.at, &h, &body, NULL), 0);
	assert_int_equal(h + STX_FRAME_PREFIX, b.n);
	assert_int_equal(body, 123);
	assert_int_equal(stx_frame_unpack((struct stx_span){ b.at + 8, h }, &got, NULL), 0);
	assert_int_equal(got->request_id, 77);
	assert_int_equal(got->msg_case, STX__ENVELOPE__MSG_LOOKUP);
	assert_string_equal(got->lookup->target, "cpu:x86-64-v3");
	assert_memory_equal(got->lookup->body_digest.data, digest, 32);
	stx__envelope__free_unpacked(got, NULL);
	stx_bytes_free(&b);
}

static void test_frame_pack_with_a_large_envelope_returns_too_large(void **state)
{
	(void)state;
	Stx__Lookup l = STX__LOOKUP__INIT;
	char *big = malloc(STX_FRAME_HEADER_MAX + 1);
	memset(big, 'x', STX_FRAME_HEADER_MAX);
	big[STX_FRAME_HEADER_MAX] = 0;
	l.target = big;
	Stx__Envelope e = lookup_envelope(&l, 1);
	struct stx_bytes b = { 0 };
	assert_int_equal(stx_frame_pack(&e, 0, &b), STX_E_TOO_LARGE);
	stx_bytes_free(&b);
	free(big);
}

static void test_frame_prescan_a_million_unknown_fields_refused(void **state)
{
	(void)state;
	struct stx_bytes b = { 0 };
	for (int i = 0; i < 1000000; i++) { /* field 30 as a varint: two bytes and one */
		stx_bytes_u8(&b, 0xf0);
		stx_bytes_u8(&b, 0x01);
		stx_bytes_u8(&b, 0x00);
	}
	struct stx_diag d = { 0 };
	assert_int_equal(stx_frame_prescan(span_of(&b), &d), STX_E_PROTOCOL);
	assert_non_null(strstr(d.text, "4096"));
	stx_diag_clear(&d);
	/* Exactly at the limit is accepted, one more is not. */
	assert_int_equal(stx_frame_prescan((struct stx_span){ b.at, 3 * 4096 }, &d), 0);
	assert_int_equal(stx_frame_prescan((struct stx_span){ b.at, 3 * 4097 }, &d),
			 STX_E_PROTOCOL);
	stx_bytes_free(&b);
}

static void test_frame_prescan_counts_fields_of_nested_messages(void **state)
{
	(void)state;
	/* Lookup (field 4) full of empty GivenValues (field 6): two bytes each. */
	struct stx_bytes in = { 0 }, b = { 0 };
	for (int i = 0; i < 5000; i++) {
		stx_bytes_u8(&in, 0x32);
		stx_bytes_u8(&in, 0x00);
	}
	stx_bytes_u8(&b, 0x22);
	stx_bytes_u8(&b, (uint8_t)(0x80 | (in.n & 0x7f)));
	stx_bytes_u8(&b, (uint8_t)(in.n >> 7));
	stx_bytes_put(&b, in.at, in.n);
	assert_int_equal(stx_frame_prescan(span_of(&b), NULL), STX_E_PROTOCOL);
	stx_bytes_free(&in);
	stx_bytes_free(&b);
}

static void put_varint(struct stx_bytes *b, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		stx_bytes_u8(b, (uint8_t)(v | 0x80));
	stx_bytes_u8(b, (uint8_t)v);
}

/* Wraps `levels` times as a length-delimited field `tag`, from the inside out, into a fresh buffer.
 */
static struct stx_bytes nested(uint32_t tag, int levels)
{
	struct stx_bytes b = { 0 };
	for (int i = 0; i < levels; i++) {
		struct stx_bytes outer = { 0 };
		put_varint(&outer, tag << 3 | 2);
		put_varint(&outer, b.n);
		stx_bytes_put(&outer, b.at, b.n);
		stx_bytes_free(&b);
		b = outer;
	}
	return b;
}

static void test_frame_unpack_of_10000_nested_messages_is_bounded(void **state)
{
	(void)state;
	/* Field 2 is a message only at the first level (Hello): the rest is skipped or refused,
	 * never descended into; the program must not overflow its stack. */
	for (uint32_t tag = 1; tag < 20; tag++) {
		struct stx_bytes b = nested(tag, 10000);
		struct stx_span s = { b.at, b.n };
		Stx__Envelope *e = NULL;
		struct stx_diag d = { 0 };
		if (stx_frame_unpack(s, &e, &d) == 0)
			stx__envelope__free_unpacked(e, NULL);
		else
			assert_int_equal(d.code, STX_E_PROTOCOL);
		stx_bytes_free(&b);
	}
}

static void test_frame_prescan_groups_refused(void **state)
{
	(void)state;
	struct stx_bytes b = { 0 };
	for (int i = 0; i < 1000; i++)
		stx_bytes_u8(&b, 0x0b); /* start group, field 1 */
	assert_int_equal(stx_frame_prescan(span_of(&b), NULL), STX_E_PROTOCOL);
	stx_bytes_free(&b);
}

static void test_frame_prescan_two_messages_refused(void **state)
{
	(void)state;
	const uint8_t two[] = { 0x5a, 0x00, 0x5a, 0x00 }; /* ping twice */
	assert_int_equal(stx_frame_prescan((struct stx_span){ two, 2 }, NULL), 0);
	assert_int_equal(stx_frame_prescan((struct stx_span){ two, 4 }, NULL), STX_E_PROTOCOL);
}

static void test_frame_unpack_truncated_anywhere_never_succeeds_in_part(void **state)
{
	(void)state;
	Stx__Lookup l = STX__LOOKUP__INIT;
	uint8_t digest[32] = { 9 };
	l.body_digest = (ProtobufCBinaryData){ 32, digest };
	l.target = "cpu:x86-64-v4";
	l.ns = "team";
	Stx__Envelope e = lookup_envelope(&l, 300), *got;
	struct stx_bytes b = { 0 };
	assert_int_equal(stx_frame_pack(&e, 0, &b), 0);
	/* From the byte after the request id on, every cut falls inside the Lookup. */
	for (size_t n = 4; n + STX_FRAME_PREFIX < b.n; n++) {
		uint8_t *copy = malloc(n); /* exact size, so that a checker sees an overrun */
		memcpy(copy, b.at + STX_FRAME_PREFIX, n);
		assert_int_equal(stx_frame_unpack((struct stx_span){ copy, n }, &got, NULL),
				 STX_E_PROTOCOL);
		assert_null(got);
		free(copy);
	}
	stx_bytes_free(&b);
}

static void test_frame_unpack_random_bytes_terminates(void **state)
{
	(void)state;
	unsigned seed = (unsigned)time(NULL);
	print_message("seed %u\n", seed);
	srand(seed);
	int accepted = 0;
	for (int round = 0; round < 20000; round++) {
		size_t n = (size_t)(rand() % 200);
		uint8_t *p = malloc(n + 1);
		for (size_t i = 0; i < n; i++)
			p[i] = (uint8_t)(rand() % (round % 2 ? 256 : 40));
		Stx__Envelope *e = NULL;
		struct stx_diag d = { 0 };
		stx_err err = stx_frame_unpack((struct stx_span){ p, n }, &e, &d);
		if (err == 0) {
			accepted++;
			stx__envelope__free_unpacked(e, NULL);
		} else {
			assert_int_equal(err, STX_E_PROTOCOL);
			assert_true(d.text[0] != 0);
		}
		free(p);
	}
	assert_true(accepted >
		    0); /* short ones are valid now and then: the test reaches the unpacker */
}

static void test_frame_reply_that_spills_round_trips(void **state)
{
	(void)state;
	for (int large = 0; large < 2; large++) {
		Stx__Answer a = STX__ANSWER__INIT;
		size_t n = large ? 3000 : 3;
		Stx__Kernel *k = calloc(n, sizeof *k), **list = calloc(n, sizeof *list);
		for (size_t i = 0; i < n; i++) {
			stx__kernel__init(&k[i]);
			k[i].name = "per_fused_add_relu_sum_with_a_long_name";
			list[i] = &k[i];
		}
		a.kernels = list;
		a.n_kernels = n;
		Stx__Envelope e = STX__ENVELOPE__INIT, *got;
		e.request_id = 5;
		e.msg_case = STX__ENVELOPE__MSG_ANSWER;
		e.answer = &a;
		struct stx_bytes b = { 0 };
		assert_int_equal(stx_frame_pack_reply(&e, 4, &b), 0);
		stx_bytes_puts(&b, "BODY");
		uint32_t hn, bn;
		assert_int_equal(stx_frame_prefix(b.at, &hn, &bn, NULL), 0);
		assert_int_equal(STX_FRAME_PREFIX + hn + bn, b.n);
		struct stx_span head = { b.at + STX_FRAME_PREFIX, hn }, body = { head.at + hn, bn };
		size_t off;
		assert_int_equal(stx_frame_unpack_reply(head, body, &got, &off, NULL), 0);
		assert_int_equal(off > 0, large);
		assert_int_equal(got->answer->n_kernels, n);
		assert_memory_equal(body.at + off, "BODY", 4);
		stx__envelope__free_unpacked(got, NULL);
		/* A request may not spill: the plain reader sees only a Spill. */
		assert_int_equal(stx_frame_unpack(head, &got, NULL), 0);
		assert_int_equal(got->msg_case == STX__ENVELOPE__MSG_SPILL, large);
		stx__envelope__free_unpacked(got, NULL);
		if (large) /* cut body */
			assert_int_equal(stx_frame_unpack_reply(head,
								(struct stx_span){ body.at, 100 },
								&got, &off, NULL),
					 STX_E_PROTOCOL);
		stx_bytes_free(&b);
		free(k);
		free(list);
	}
}

/* 6000 outputs named %v0 ... fit a header of 64 KiB, but are more fields than a request may have.
 */
static void test_frame_reply_of_many_short_names_is_read(void **state)
{
	(void)state;
	enum { N = 6000 };
	static char names[N][16];
	static char *list[N];
	for (int i = 0; i < N; i++) {
		snprintf(names[i], sizeof names[i], "v%d", i);
		list[i] = names[i];
	}
	Stx__JobReply r = STX__JOB_REPLY__INIT;
	Stx__Envelope e = STX__ENVELOPE__INIT, *got;
	e.msg_case = STX__ENVELOPE__MSG_JOB_REPLY;
	e.job_reply = &r;
	r.output_names = list;
	r.n_output_names = N;
	struct stx_bytes b = { 0 };
	assert_int_equal(stx_frame_pack_reply(&e, 0, &b), 0);
	struct stx_span head = { b.at + STX_FRAME_PREFIX, b.n - STX_FRAME_PREFIX };
	assert_true(head.n <= STX_FRAME_HEADER_MAX);
	size_t off;
	assert_int_equal(stx_frame_unpack(head, &got, NULL), STX_E_PROTOCOL);
	assert_int_equal(
		stx_frame_unpack_reply(head, (struct stx_span){ NULL, 0 }, &got, &off, NULL), 0);
	assert_int_equal(got->job_reply->n_output_names, N);
	assert_string_equal(got->job_reply->output_names[N - 1], names[N - 1]);
	stx__envelope__free_unpacked(got, NULL);
	stx_bytes_free(&b);
}

static void test_frame_error_and_diag_convert_both_ways(void **state)
{
	(void)state;
	struct stx_diag d = { 0 }, back;
	stx_fail(&d, STX_E_UNSUPPORTED, "import", "node7", "operator Foo");
	stx_diag_at(&d, "graph.txt:3:4");
	Stx__Error e;
	stx_error_from_diag(&e, &d);
	stx_error_to_diag(&e, &back);
	assert_memory_equal(&back, &d, sizeof d);
	e.code = 0; /* an Error is never success */
	stx_error_to_diag(&e, &back);
	assert_int_equal(back.code, STX_E_INTERNAL);
	e.code = -9999;
	stx_error_to_diag(&e, &back);
	assert_int_equal(back.code, STX_E_INTERNAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frame_prefix_within_limits_accepted),
		cmocka_unit_test(test_frame_prefix_over_a_limit_names_the_limit),
		cmocka_unit_test(test_frame_pack_then_unpack_returns_the_envelope),
		cmocka_unit_test(test_frame_pack_with_a_large_envelope_returns_too_large),
		cmocka_unit_test(test_frame_prescan_a_million_unknown_fields_refused),
		cmocka_unit_test(test_frame_prescan_counts_fields_of_nested_messages),
		cmocka_unit_test(test_frame_unpack_of_10000_nested_messages_is_bounded),
		cmocka_unit_test(test_frame_prescan_groups_refused),
		cmocka_unit_test(test_frame_prescan_two_messages_refused),
		cmocka_unit_test(test_frame_unpack_truncated_anywhere_never_succeeds_in_part),
		cmocka_unit_test(test_frame_unpack_random_bytes_terminates),
		cmocka_unit_test(test_frame_reply_that_spills_round_trips),
		cmocka_unit_test(test_frame_reply_of_many_short_names_is_read),
		cmocka_unit_test(test_frame_error_and_diag_convert_both_ways),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
