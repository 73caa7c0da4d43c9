/* test_host.c: host tensors, .npy files, comparison. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "host.h"

static struct stx_bytes npy(int version, const char *header, const void *data, size_t n)
{
	struct stx_bytes b = { 0 };
	size_t len = strlen(header);
	stx_bytes_put(&b, "\x93NUMPY", 6);
	stx_bytes_u8(&b, (uint8_t)version);
	stx_bytes_u8(&b, 0);
	if (version == 1) {
		stx_bytes_u8(&b, (uint8_t)len);
		stx_bytes_u8(&b, (uint8_t)(len >> 8));
	} else {
		stx_bytes_u32(&b, (uint32_t)len);
	}
	stx_bytes_put(&b, header, len);
	stx_bytes_put(&b, data, n);
	return b;
}

static stx_err parse(int version, const char *header, const void *data, size_t n,
		     struct stx_host *h)
{
	struct stx_bytes b = npy(version, header, data, n);
	stx_err e = stx_npy_parse((struct stx_span){ b.at, b.n }, STX_DTYPE_NONE, h, NULL);
	stx_bytes_free(&b);
	return e;
}

static void test_npy_both_orders_and_versions_read(void **state)
{
	(void)state;
	static const float rows[6] = { 1, 2, 3, 4, 5, 6 }, columns[6] = { 1, 4, 2, 5, 3, 6 };
	struct stx_host h;
	for (int version = 1; version <= 3; version++) {
		assert_int_equal(
			parse(version,
			      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", rows,
			      24, &h),
			0);
		assert_int_equal(h.t.dtype, STX_F32);
		assert_int_equal(h.t.rank, 2);
		assert_memory_equal(h.t.data, rows, 24);
		stx_host_free(&h);
		assert_int_equal(parse(version,
				       "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}",
				       columns, 24, &h),
				 0);
		assert_memory_equal(h.t.data, rows, 24);
		stx_host_free(&h);
	}
	assert_int_equal(parse(1, "{'descr': '>i2', 'fortran_order': False, 'shape': ()}",
			       "\x01\x02", 2, &h),
			 0);
	assert_int_equal(h.t.rank, 0);
	assert_true(stx_host_at(&h, 0) == 258);
	stx_host_free(&h);
	assert_int_equal(
		parse(1, "{'shape': (0, 5), 'fortran_order': False, 'descr': '|b1'}", "", 0, &h),
		0);
	assert_int_equal(h.t.dtype, STX_BOOL);
	stx_host_free(&h);
}

static void test_npy_hostile_headers_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"",
		"{",
		"{'descr': '<f4'}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3}",
		"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (6,)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (7,)}", /* more than the file has
									    */
		"{'descr': '<f4', 'fortran_order': False, 'shape': (5,)}", /* less */
		"{'descr': '<O8', 'fortran_order': False, 'shape': (3,)}",
		"{'descr': '<f99', 'fortran_order': False, 'shape': (3,)}",
		"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': "
		"(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,6)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'exec': '1'}",
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct stx_host h;
		assert_int_not_equal(parse(1, bad[i], "012345678901234567890123", 24, &h), 0);
		assert_null(h.t.data);
	}
}

static void test_npy_mutated_never_reads_outside(void **state)
{
	(void)state;
	struct stx_bytes b = npy(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n",
				 "012345678901234567890123", 24);
	srand(7);
	for (int i = 0; i < 50000; i++) {
		size_t n = rand() % 4 ? b.n : (size_t)rand() % b.n;
		uint8_t *copy = malloc(n ? n : 1);
		struct stx_host h;
		memcpy(copy, b.at, n);
		for (int k = rand() % 3; k >= 0 && n; k--)
			copy[(size_t)rand() % n] = (uint8_t)rand();
		if (!stx_npy_parse((struct stx_span){ copy, n }, STX_DTYPE_NONE, &h, NULL))
			stx_host_free(&h);
		free(copy);
	}
	stx_bytes_free(&b);
}

static void test_npy_round_trip_all_types(void **state)
{
	(void)state;
	for (int t = 0; t < STX_DTYPE_COUNT; t++) {
		struct stx_host h, back;
		struct stx_bytes b = { 0 };
		double worst;
		assert_int_equal(
			stx_host_new(&h, (enum stx_dtype)t, 3, (int64_t[]){ 2, 3, 5 }, NULL), 0);
		stx_host_random(&h, 11);
		assert_int_equal(stx_npy_format(&h, &b, NULL), 0);
		assert_int_equal((b.n - h.bytes) % 64, 0);
		assert_int_equal(stx_npy_parse((struct stx_span){ b.at, b.n }, (enum stx_dtype)t,
					       &back, NULL),
				 0);
		assert_int_equal(back.t.dtype, t);
		assert_int_equal(stx_host_compare("x", &back, &h, 0, 0, &worst, NULL), 0);
		stx_bytes_free(&b);
		stx_host_free(&back);
		stx_host_free(&h);
	}
}

static struct stx_host vector(enum stx_dtype t, const void *data, int64_t n)
{
	struct stx_host h;
	assert_int_equal(stx_host_new(&h, t, 1, &n, NULL), 0);
	memcpy(h.t.data, data, h.bytes);
	return h;
}

static stx_err compare(enum stx_dtype t, const void *got, const void *want, int64_t n, double rtol,
		       double atol, struct stx_diag *d)
{
	double worst;
	struct stx_host g = vector(t, got, n), w = vector(t, want, n);
	stx_err e = stx_host_compare("y", &g, &w, rtol, atol, &worst, d);
	stx_host_free(&g);
	stx_host_free(&w);
	return e;
}

static void test_host_compare_tolerances(void **state)
{
	(void)state;
	struct stx_diag d = { 0 };
	float a[4] = { 1, NAN, INFINITY, -0.0f }, b[4] = { 1.0005f, NAN, INFINITY, 0.0f };
	assert_int_equal(compare(STX_F32, a, b, 4, 1e-3, 1e-7, NULL), 0);
	assert_int_equal(compare(STX_F32, a, b, 4, 1e-4, 1e-7, &d), STX_E_MISMATCH);
	assert_non_null(strstr(d.text, "element 0"));
	b[0] = 1;
	b[1] = 5; /* NaN against a number */
	assert_int_equal(compare(STX_F32, a, b, 4, 1e9, 1e9, NULL), STX_E_MISMATCH);
	assert_int_equal(compare(STX_F32, b, a, 4, 1e9, 1e9, NULL), STX_E_MISMATCH);
	b[1] = NAN;
	b[2] = 1e30f; /* infinity against a number */
	assert_int_equal(compare(STX_F32, a, b, 4, 1e9, 1e9, NULL), STX_E_MISMATCH);
	b[2] = -INFINITY;
	assert_int_equal(compare(STX_F32, a, b, 4, 1e9, 1e9, NULL), STX_E_MISMATCH);
	int64_t i = INT64_MAX, j = INT64_MAX - 1; /* equal as doubles */
	assert_int_equal(compare(STX_I64, &i, &j, 1, 1, 1e9, NULL), STX_E_MISMATCH);
	assert_int_equal(compare(STX_I64, &i, &i, 1, 0, 0, NULL), 0);
}

static void test_host_compare_shapes_and_types(void **state)
{
	(void)state;
	struct stx_host a, b;
	struct stx_diag d = { 0 };
	double worst;
	stx_host_new(&a, STX_F32, 2, (int64_t[]){ 2, 3 }, NULL);
	stx_host_new(&b, STX_F32, 2, (int64_t[]){ 3, 2 }, NULL);
	assert_int_equal(stx_host_compare("y", &a, &b, 1, 1, &worst, &d), STX_E_MISMATCH);
	assert_non_null(strstr(d.text, "f32[2,3], expected f32[3,2]"));
	stx_host_free(&a);
	stx_host_free(&b);
}

static void test_host_small_floats_decoded(void **state)
{
	(void)state;
	static const struct {
		enum stx_dtype t;
		uint16_t bits;
		double want;
	} v[] = {
		{ STX_F16, 0x3c00, 1 },        { STX_F16, 0x7bff, 65504 },
		{ STX_F16, 0x0001, 0x1p-24 },  { STX_F16, 0xfc00, -INFINITY },
		{ STX_BF16, 0x3f80, 1 },       { STX_BF16, 0xff80, -INFINITY },
		{ STX_F8E4M3FN, 0x7e, 448 },   { STX_F8E4M3FN, 0x01, 0x1p-9 },
		{ STX_F8E5M2, 0x7b, 57344 },   { STX_F8E5M2, 0x7c, INFINITY },
		{ STX_F8E4M3FNUZ, 0x7f, 240 }, { STX_F8E5M2FNUZ, 0x7f, 57344 },
	};
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		struct stx_host h = vector(v[i].t, &v[i].bits, 1);
		assert_true(stx_host_at(&h, 0) == v[i].want);
		stx_host_free(&h);
	}
	static const struct {
		enum stx_dtype t;
		uint16_t bits;
	} nan[] = { { STX_F16, 0x7c01 },  { STX_BF16, 0x7fc0 },     { STX_F8E4M3FN, 0xff },
		    { STX_F8E5M2, 0x7d }, { STX_F8E4M3FNUZ, 0x80 }, { STX_F8E5M2FNUZ, 0x80 } };
	for (size_t i = 0; i < sizeof nan / sizeof *nan; i++) {
		struct stx_host h = vector(nan[i].t, &nan[i].bits, 1);
		assert_true(isnan(stx_host_at(&h, 0)));
		stx_host_free(&h);
	}
}

static void test_host_random_is_reproducible(void **state)
{
	(void)state;
	struct stx_host a, b;
	int64_t n = 10000;
	double sum = 0, square = 0;
	stx_host_new(&a, STX_F32, 1, &n, NULL);
	stx_host_new(&b, STX_F32, 1, &n, NULL);
	stx_host_random(&a, 3);
	stx_host_random(&b, 3);
	assert_memory_equal(a.t.data, b.t.data, a.bytes);
	stx_host_random(&b, 4);
	assert_memory_not_equal(a.t.data, b.t.data, a.bytes);
	for (int64_t i = 0; i < n; i++) {
		sum += stx_host_at(&a, i);
		square += stx_host_at(&a, i) * stx_host_at(&a, i);
	}
	assert_true(fabs(sum / (double)n) < 0.05 && fabs(square / (double)n - 1) < 0.1);
	stx_host_free(&a);
	stx_host_free(&b);
}

static void test_host_sizes_overflow_refused(void **state)
{
	(void)state;
	struct stx_host h;
	assert_int_equal(stx_host_new(&h, STX_F64, 2, (int64_t[]){ INT64_MAX, 2 }, NULL),
			 STX_E_TOO_LARGE);
	assert_int_equal(stx_host_new(&h, STX_F64, 1, (int64_t[]){ -1 }, NULL), STX_E_TOO_LARGE);
	assert_int_equal(stx_host_new(&h, STX_F64, 1, (int64_t[]){ INT64_MAX / 8 }, NULL),
			 STX_E_TOO_LARGE);
	assert_int_equal(stx_host_new(&h, STX_F64, 2, (int64_t[]){ 0, INT64_MAX }, NULL), 0);
	stx_host_free(&h);
}

static void test_file_written_whole_or_not(void **state)
{
	(void)state;
	char path[100];
	struct stx_bytes b = { 0 };
	struct stx_diag d = { 0 };
	snprintf(path, sizeof path, "/tmp/stax-test-%d.bin", (int)getpid());
	assert_int_equal(stx_file_write(path, (struct stx_span){ (const uint8_t *)"one", 3 }, NULL),
			 0);
	assert_int_equal(
		stx_file_write(path, (struct stx_span){ (const uint8_t *)"three", 5 }, NULL), 0);
	assert_int_equal(stx_file_read(path, 100, &b, NULL), 0);
	assert_int_equal(b.n, 5);
	stx_bytes_clear(&b);
	assert_int_equal(stx_file_read(path, 4, &b, NULL), STX_E_TOO_LARGE);
	unlink(path);
	assert_int_equal(stx_file_read(path, 4, &b, &d), STX_E_NOT_FOUND);
	assert_non_null(strstr(d.text, path));
	assert_int_equal(stx_file_read("/tmp", 4, &b, NULL), STX_E_USAGE);
	assert_int_not_equal(stx_file_write("/nonexistent/x", (struct stx_span){ NULL, 0 }, NULL),
			     0);
	stx_bytes_free(&b);
}

static void test_file_that_never_ends_is_refused(void **state)
{
	(void)state;
	struct stx_bytes b = { 0 };
	assert_int_equal(stx_file_read("/dev/zero", STX_HOST_BYTES_MAX, &b, NULL), STX_E_TOO_LARGE);
	stx_bytes_free(&b);
}

static void test_host_wide_integers_print_in_full(void **state)
{
	(void)state;
	char text[256] = "";
	int64_t signed_values[] = { INT64_MIN, -9007199254740993, INT64_MAX };
	uint64_t unsigned_values[] = { UINT64_MAX };
	struct stx_host h = { .t = { .data = signed_values,
				     .dtype = STX_I64,
				     .rank = 1,
				     .sizes = { 3 },
				     .strides = { 1 } } };
	FILE *f = fmemopen(text, sizeof text, "w");
	assert_non_null(f);
	stx_host_print(f, &h);
	h.t.data = unsigned_values;
	h.t.dtype = STX_U64;
	h.t.sizes[0] = 1;
	stx_host_print(f, &h);
	fclose(f);
	assert_string_equal(text,
			    ": i64[3] -9223372036854775808 -9007199254740993 9223372036854775807\n"
			    ": u64[1] 18446744073709551615\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_npy_both_orders_and_versions_read),
		cmocka_unit_test(test_npy_hostile_headers_refused),
		cmocka_unit_test(test_npy_mutated_never_reads_outside),
		cmocka_unit_test(test_npy_round_trip_all_types),
		cmocka_unit_test(test_host_compare_tolerances),
		cmocka_unit_test(test_host_compare_shapes_and_types),
		cmocka_unit_test(test_host_small_floats_decoded),
		cmocka_unit_test(test_host_random_is_reproducible),
		cmocka_unit_test(test_host_sizes_overflow_refused),
		cmocka_unit_test(test_file_written_whole_or_not),
		cmocka_unit_test(test_file_that_never_ends_is_refused),
		cmocka_unit_test(test_host_wide_integers_print_in_full),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
