/* test_base.c: arena, byte strings, digests, dtypes, diagnostics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arena.h"
#include "bytes.h"
#include "dtype.h"
#include "hash.h"
#include "status.h"

static void test_arena_allocations_aligned_and_disjoint(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	uint8_t *at[3000];
	size_t n[3000];
	srand(1);
	for (int i = 0; i < 3000; i++) {
		n[i] = (size_t)(rand() % (i % 100 ? 300 : 100000));
		at[i] = stx_arena_alloc(a, n[i]);
		assert_non_null(at[i]);
		assert_int_equal((uintptr_t)at[i] % 16, 0);
		memset(at[i], i & 255, n[i]);
	}
	for (int i = 0; i < 3000; i++)
		for (size_t k = 0; k < n[i]; k++)
			assert_int_equal(at[i][k], i & 255);
	stx_arena_free(a);
}

static void test_arena_budget_is_sticky_error(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(100000);
	size_t total = 0;
	while (stx_arena_alloc(a, 1000))
		total += 1000;
	assert_true(total >= 50000 && total <= 100000);
	assert_true(stx_arena_used(a) <= 100000);
	assert_true(stx_arena_oom(a));
	assert_null(stx_arena_alloc(a, 1)); /* one check at the end of a stage is enough */
	assert_null(stx_arena_strdup(a, "x"));
	stx_arena_free(a);
}

static void test_arena_overflowing_count_refused(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	assert_null(stx_arena_zalloc(a, SIZE_MAX / 2, 3));
	assert_true(stx_arena_oom(a));
	stx_arena_free(a);
	a = stx_arena_new(0);
	assert_null(stx_arena_alloc(a, SIZE_MAX - 8));
	stx_arena_free(a);
}

static int order[3], norder;
static void note(void *p)
{
	order[norder++] = *(int *)p;
}

static void test_arena_hooks_run_newest_first(void **state)
{
	(void)state;
	static int one = 1, two = 2, three = 3;
	struct stx_arena *a = stx_arena_new(4096);
	norder = 0;
	assert_int_equal(stx_arena_on_free(a, note, &one), 0);
	assert_int_equal(stx_arena_on_free(a, note, &two), 0);
	stx_arena_alloc(a, 1 << 20); /* over budget */
	assert_int_equal(stx_arena_on_free(a, note, &three), -1);
	assert_int_equal(norder, 1); /* called at once: nothing leaks */
	stx_arena_free(a);
	assert_int_equal(norder, 3);
	assert_int_equal(order[1], 2);
	assert_int_equal(order[2], 1);
}

static void test_arena_vector_keeps_elements(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	STX_VEC(int) v = { 0 };
	for (int i = 0; i < 10000; i++)
		assert_int_equal(stx_push(a, &v, i), 0);
	for (int i = 0; i < 10000; i++)
		assert_int_equal(v.at[i], i);
	assert_string_equal(stx_arena_printf(a, "%s-%d", "x", 7), "x-7");
	stx_arena_free(a);
}

static void test_bytes_append_and_align(void **state)
{
	(void)state;
	struct stx_bytes b = { 0 };
	stx_bytes_puts(&b, "abc");
	stx_bytes_align(&b, 8);
	assert_int_equal(b.n, 8);
	stx_bytes_u32(&b, 0x01020304);
	assert_int_equal(b.at[8], 4);
	stx_bytes_u64(&b, UINT64_MAX);
	assert_true(stx_load_u64(b.at + 12) == UINT64_MAX);
	stx_bytes_clear(&b);
	stx_bytes_printf(&b, "%05d", 42);
	assert_string_equal(stx_bytes_cstr(&b), "00042");
	assert_int_equal(b.n, 5);
	stx_bytes_free(&b);
	assert_null(b.at);
}

static void test_bytes_oom_is_sticky(void **state)
{
	(void)state;
	struct stx_bytes b = { 0 };
	stx_bytes_puts(&b, "x");
	assert_int_equal(stx_bytes_reserve(&b, SIZE_MAX - 4), -1);
	assert_true(b.oom);
	assert_int_equal(stx_bytes_puts(&b, "y"), -1);
	assert_int_equal(b.n, 1);
	stx_bytes_free(&b);
}

static void test_hash_known_digests(void **state)
{
	(void)state;
	/* FIPS 180-4 examples */
	static const struct {
		const char *in, *hex;
	} t[] = {
		{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
	};
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		char hex[STX_DIGEST_HEX];
		struct stx_digest d = stx_digest_of(t[i].in, strlen(t[i].in)), back;
		stx_digest_hex(&d, hex);
		assert_string_equal(hex, t[i].hex);
		assert_int_equal(stx_digest_parse(hex, &back), 0);
		assert_true(stx_digest_eq(&d, &back));
		struct stx_hasher *h = stx_hasher_new();
		for (const char *p = t[i].in; *p; p++)
			stx_hasher_update(h, p, 1);
		back = stx_hasher_final(h);
		assert_true(stx_digest_eq(&d, &back));
	}
}

static void test_hash_pieces_are_separated(void **state)
{
	(void)state;
	struct stx_hasher *a = stx_hasher_new(), *b = stx_hasher_new();
	stx_hasher_str(a, "ab");
	stx_hasher_str(a, "c");
	stx_hasher_str(b, "a");
	stx_hasher_str(b, "bc");
	struct stx_digest x = stx_hasher_final(a), y = stx_hasher_final(b);
	assert_false(stx_digest_eq(&x, &y));
	stx_hasher_drop(NULL);
	stx_hasher_drop(stx_hasher_new());
}

static void test_hash_bad_hex_refused(void **state)
{
	(void)state;
	char hex[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b85g";
	struct stx_digest d;
	assert_int_not_equal(stx_digest_parse(hex, &d), 0);
	hex[63] = 0;
	assert_int_not_equal(stx_digest_parse(hex, &d), 0);
	assert_int_not_equal(stx_digest_parse("", &d), 0);
}

static void test_dtype_names_round_trip(void **state)
{
	(void)state;
	for (int t = 0; t < STX_DTYPE_COUNT; t++) {
		const char *name = stx_dtype_name((enum stx_dtype)t);
		assert_int_equal(stx_dtype_parse(name, (int)strlen(name)), t);
		assert_true(stx_dtype_bytes((enum stx_dtype)t) >= 1);
	}
	assert_int_equal(stx_dtype_parse("f3", 2), STX_DTYPE_NONE);
	assert_int_equal(stx_dtype_parse("f32x", 3), STX_F32);
	assert_int_equal(stx_dtype_bytes(STX_DTYPE_NONE), 0);
}

static void test_status_first_error_wins(void **state)
{
	(void)state;
	struct stx_diag d = { 0 };
	assert_int_equal(stx_fail(&d, STX_E_INVALID, "verify", "n1", "bad %d", 3), STX_E_INVALID);
	assert_int_equal(stx_fail(&d, STX_E_IO, "x", "y", "later"), STX_E_IO);
	assert_int_equal(d.code, STX_E_INVALID);
	assert_string_equal(d.text, "bad 3");
	stx_diag_at(&d, "f:%d", 1);
	stx_diag_at(&d, "f:%d", 2);
	assert_string_equal(d.location, "f:1");
	stx_diag_clear(&d);
	assert_int_equal(d.code, 0);
	char node[300];
	memset(node, 'n', sizeof node - 1);
	node[sizeof node - 1] = 0;
	stx_fail(&d, STX_E_INVALID, node, node, "%s%s%s", node, node, node); /* cut, never beyond */
	assert_int_equal(strlen(d.node), sizeof d.node - 1);
	assert_int_equal(strlen(d.text), sizeof d.text - 1);
	assert_int_equal(stx_fail(NULL, STX_E_IO, "", "", "none"), STX_E_IO);
}

static void test_status_codes_have_exit_codes(void **state)
{
	(void)state;
	assert_int_equal(stx_err_exit_code(STX_E_USAGE), 2);
	assert_int_equal(stx_err_exit_code(STX_E_CONNECT), 3);
	assert_int_equal(stx_err_exit_code(STX_E_DENIED), 4);
	assert_int_equal(stx_err_exit_code(STX_E_BUSY), 5);
	assert_int_equal(stx_err_exit_code(STX_E_DEADLINE), 6);
	assert_int_equal(stx_err_exit_code(STX_E_PROTOCOL), 7);
	assert_int_equal(stx_err_exit_code(STX_E_INTERNAL), 8);
	assert_int_equal(stx_err_exit_code(-9999), 8);
	assert_false(stx_err_is_known(-9999));
	assert_string_equal(stx_err_name(STX_E_UNSUPPORTED), "UNSUPPORTED");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arena_allocations_aligned_and_disjoint),
		cmocka_unit_test(test_arena_budget_is_sticky_error),
		cmocka_unit_test(test_arena_overflowing_count_refused),
		cmocka_unit_test(test_arena_hooks_run_newest_first),
		cmocka_unit_test(test_arena_vector_keeps_elements),
		cmocka_unit_test(test_bytes_append_and_align),
		cmocka_unit_test(test_bytes_oom_is_sticky),
		cmocka_unit_test(test_hash_known_digests),
		cmocka_unit_test(test_hash_pieces_are_separated),
		cmocka_unit_test(test_hash_bad_hex_refused),
		cmocka_unit_test(test_dtype_names_round_trip),
		cmocka_unit_test(test_status_first_error_wins),
		cmocka_unit_test(test_status_codes_have_exit_codes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
