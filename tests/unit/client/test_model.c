/* test_model.c: ONNX files as the client reads them: tensors, inputs, what is sent, external data.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "model.h"
#include "onnx_strip.h"
#include "onnx_types.h"
#include "wire.h"

static struct stx_span span(const struct stx_bytes *b)
{
	return (struct stx_span){ b->at, b->n };
}

static struct stx_span text(const char *s)
{
	return (struct stx_span){ (const uint8_t *)s, strlen(s) };
}

static void put_dims(struct stx_bytes *b, int rank, const int64_t *dims)
{
	for (int i = 0; i < rank; i++)
		stx_wire_put_uint(b, 1, (uint64_t)dims[i]);
}

static struct stx_bytes raw_tensor(const char *name, int type, int rank, const int64_t *dims,
				   const void *data, size_t n)
{
	struct stx_bytes b = { 0 };
	put_dims(&b, rank, dims);
	stx_wire_put_uint(&b, 2, (uint64_t)type);
	stx_wire_put_bytes(&b, 8, text(name));
	stx_wire_put_bytes(&b, 9, (struct stx_span){ data, n });
	return b;
}

/* ---- tensors ---- */

static void test_onnx_raw_and_typed_agree(void **state)
{
	(void)state;
	static const float f[3] = { 1, -2.5f, 3 };
	static const int64_t three = 3;
	struct stx_bytes raw = raw_tensor("x", 1, 1, &three, f, sizeof f), packed = { 0 },
			 loose = { 0 };
	struct stx_bytes *all[] = { &raw, &packed, &loose };
	put_dims(&packed, 1, &three);
	stx_wire_put_uint(&packed, 2, 1);
	stx_wire_put_bytes(&packed, 4, (struct stx_span){ (const uint8_t *)f, sizeof f });
	put_dims(&loose, 1, &three);
	stx_wire_put_uint(&loose, 2, 1);
	for (int i = 0; i < 3; i++) {
		stx_wire_put_varint(&loose, 4 << 3 | 5);
		stx_bytes_put(&loose, &f[i], 4);
	}
	for (int i = 0; i < 3; i++) {
		struct stx_host h;
		assert_int_equal(stx_onnx_tensor(span(all[i]), NULL, &h, NULL), 0);
		assert_int_equal(h.t.dtype, STX_F32);
		assert_memory_equal(h.t.data, f, sizeof f);
		stx_host_free(&h);
		stx_bytes_free(all[i]);
	}
}

static void test_onnx_varint_lists_narrowed(void **state)
{
	(void)state;
	static const int64_t two = 2;
	static const struct {
		int type;
		uint32_t field;
		int64_t v[2];
		double want[2];
	} t[] = {
		{ 3, 5, { -1, 127 }, { -1, 127 } }, /* int8 in int32_data */
		{ 7, 7, { -5, INT32_MAX }, { -5, INT32_MAX } },
		{ 9, 5, { 1, 0 }, { 1, 0 } },
		{ 10, 5, { 0x3c00, 0xbc00 }, { 1, -1 } }, /* float16 bits */
		{ 16, 5, { 0x3f80, 0xbf80 }, { 1, -1 } },
		{ 13, 11, { 4000000000, 1 }, { 4000000000, 1 } },
	};
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		struct stx_bytes b = { 0 };
		struct stx_host h;
		put_dims(&b, 1, &two);
		stx_wire_put_uint(&b, 2, (uint64_t)t[i].type);
		stx_wire_put_uint(&b, t[i].field, (uint64_t)t[i].v[0]);
		stx_wire_put_uint(&b, t[i].field, (uint64_t)t[i].v[1]);
		assert_int_equal(stx_onnx_tensor(span(&b), NULL, &h, NULL), 0);
		assert_true(stx_host_at(&h, 0) == t[i].want[0] &&
			    stx_host_at(&h, 1) == t[i].want[1]);
		stx_host_free(&h);
		stx_bytes_free(&b);
	}
}

static void test_onnx_unholdable_types_named(void **state)
{
	(void)state;
	static const struct {
		int type;
		const char *name;
	} t[] = { { 8, "string" }, { 14, "complex64" }, { 22, "int4" } };
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		int64_t one = 1;
		struct stx_bytes b = raw_tensor("s", t[i].type, 1, &one, "x", 1);
		struct stx_host h;
		struct stx_diag d = { 0 };
		assert_int_equal(stx_onnx_tensor(span(&b), NULL, &h, &d), STX_E_UNSUPPORTED);
		assert_non_null(strstr(d.text, t[i].name));
		stx_bytes_free(&b);
	}
}

static void test_onnx_size_lies_refused_before_allocation(void **state)
{
	(void)state;
	static const struct {
		int rank;
		int64_t dims[2];
	} t[] = {
		{ 1, { 1ll << 40 } }, { 2, { 1ll << 40, 1ll << 40 } },
		{ 1, { -1 } },        { 2, { -1, -1 } },
		{ 1, { 1 } },         { 1, { 3 } },
	};
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		struct stx_bytes raw = raw_tensor("x", 1, t[i].rank, t[i].dims, "01234567", 8),
				 list = { 0 };
		struct stx_host h;
		assert_int_equal(stx_onnx_tensor(span(&raw), NULL, &h, NULL), STX_E_INVALID);
		put_dims(&list, t[i].rank, t[i].dims);
		stx_wire_put_uint(&list, 2, 7);
		stx_wire_put_uint(&list, 7, 1);
		stx_wire_put_uint(&list, 7, 2);
		assert_int_equal(stx_onnx_tensor(span(&list), NULL, &h, NULL), STX_E_INVALID);
		stx_bytes_free(&raw);
		stx_bytes_free(&list);
	}
}

/* ---- external data ---- */

static struct stx_bytes external_tensor(const char *location, const char *offset, int64_t n)
{
	struct stx_bytes b = { 0 }, entry = { 0 };
	put_dims(&b, 1, &n);
	stx_wire_put_uint(&b, 2, 2);
	stx_wire_put_bytes(&b, 8, text("w"));
	stx_wire_put_bytes(&entry, 1, text("location"));
	stx_wire_put_bytes(&entry, 2, text(location));
	stx_wire_put_bytes(&b, 13, span(&entry));
	stx_bytes_clear(&entry);
	stx_wire_put_bytes(&entry, 1, text("offset"));
	stx_wire_put_bytes(&entry, 2, text(offset));
	stx_wire_put_bytes(&b, 13, span(&entry));
	stx_wire_put_uint(&b, 14, 1);
	stx_bytes_free(&entry);
	return b;
}

static char folder[64];

static int make_folder(void **state)
{
	char path[128];
	(void)state;
	strcpy(folder, "/tmp/stax-test-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof path, "%s/sub", folder);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/sub/w.bin", folder);
	stx_file_write(path, (struct stx_span){ (const uint8_t *)"0123456789", 10 }, NULL);
	snprintf(path, sizeof path, "%s/link", folder);
	return symlink("sub", path);
}

static int remove_folder(void **state)
{
	char path[128];
	(void)state;
	snprintf(path, sizeof path, "%s/sub/w.bin", folder);
	unlink(path);
	snprintf(path, sizeof path, "%s/link", folder);
	unlink(path);
	snprintf(path, sizeof path, "%s/sub", folder);
	rmdir(path);
	return rmdir(folder);
}

static void test_onnx_external_data_read(void **state)
{
	(void)state;
	struct stx_bytes b = external_tensor("sub/w.bin", "4", 3);
	struct stx_host h;
	assert_int_equal(stx_onnx_tensor(span(&b), folder, &h, NULL), 0);
	assert_memory_equal(h.t.data, "456", 3);
	stx_host_free(&h);
	assert_int_not_equal(stx_onnx_tensor(span(&b), NULL, &h, NULL), 0); /* not allowed here */
	stx_bytes_free(&b);
}

static void test_onnx_external_data_confined(void **state)
{
	(void)state;
	static const char *const bad[] = { "/etc/passwd", "../x", "sub/../sub/w.bin",
					   "link/w.bin",  "sub",  "missing",
					   "./sub/w.bin", "//" };
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct stx_bytes b = external_tensor(bad[i], "0", 3);
		struct stx_host h;
		assert_int_not_equal(stx_onnx_tensor(span(&b), folder, &h, NULL), 0);
		assert_null(h.t.data);
		stx_bytes_free(&b);
	}
	static const char *const offsets[] = { "8", "18446744073709551615", "-1", "1e3", "" };
	for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
		struct stx_bytes b = external_tensor("sub/w.bin", offsets[i], 3);
		struct stx_host h;
		assert_int_not_equal(stx_onnx_tensor(span(&b), folder, &h, NULL), 0);
		stx_bytes_free(&b);
	}
}

/* ---- models ---- */

static void put_input(struct stx_bytes *graph, uint32_t field, const char *name, uint32_t kind,
		      int elem)
{
	struct stx_bytes info = { 0 }, type = { 0 }, tensor = { 0 };
	stx_wire_put_uint(&tensor, 1, (uint64_t)elem);
	stx_wire_put_bytes(&type, kind, span(&tensor));
	stx_wire_put_bytes(&info, 1, text(name));
	stx_wire_put_bytes(&info, 2, span(&type));
	stx_wire_put_bytes(graph, field, span(&info));
	stx_bytes_free(&info);
	stx_bytes_free(&type);
	stx_bytes_free(&tensor);
}

static struct stx_bytes model(void)
{
	struct stx_bytes graph = { 0 }, m = { 0 }, t;
	static float big[32];
	static int64_t small[2] = { 7, 8 };
	for (int i = 0; i < 32; i++)
		big[i] = (float)i;
	put_input(&graph, 11, "x", 1, 1);
	put_input(&graph, 11, "seq", 4, 1);
	put_input(&graph, 11, "w", 1, 1);
	put_input(&graph, 12, "y", 1, 7);
	t = raw_tensor("w", 1, 1, (int64_t[]){ 32 }, big, sizeof big);
	stx_wire_put_bytes(&graph, 5, span(&t));
	stx_bytes_free(&t);
	t = raw_tensor("shape", 7, 1, (int64_t[]){ 2 }, small, sizeof small);
	stx_wire_put_bytes(&graph, 5, span(&t));
	stx_bytes_free(&t);
	t = external_tensor("sub/w.bin", "0", 4);
	stx_wire_put_bytes(&graph, 5, span(&t));
	stx_bytes_free(&t);
	stx_wire_put_uint(&m, 1, 8);
	stx_wire_put_bytes(&m, 7, span(&graph));
	stx_wire_put_bytes(&m, 2, text("producer"));
	stx_bytes_free(&graph);
	return m;
}

static void test_model_indexed(void **state)
{
	(void)state;
	struct stx_bytes file = model();
	struct stx_model m;
	assert_int_equal(stx_model_parse(&file, folder, &m, NULL), 0);
	assert_int_equal(m.inputs.n, 3);
	assert_string_equal(m.inputs.at[0].name, "x");
	assert_int_equal(m.inputs.at[0].elem_type, 1);
	assert_int_equal(m.inputs.at[0].initialiser, 0);
	assert_int_equal(m.inputs.at[1].kind, STX_MODEL_SEQUENCE);
	assert_int_equal(m.inputs.at[2].initialiser, 1);
	assert_int_equal(m.outputs.n, 1);
	assert_int_equal(m.outputs.at[0].elem_type, 7);
	assert_non_null(stx_model_find(&m, "shape"));
	assert_null(stx_model_find(&m, "x"));
	stx_model_free(&m);
}

/* A parameter's data stays here; small values travel in the request, external ones put in. */
static void test_model_request_stripped_lacks_parameters_only(void **state)
{
	(void)state;
	struct stx_bytes file = model();
	struct stx_model m, again;
	struct stx_host h;
	assert_int_equal(stx_model_parse(&file, folder, &m, NULL), 0);
	struct stx_bytes copy = { 0 };
	assert_int_equal(stx_onnx_strip(stx_model_request(&m), &copy, NULL), 0);
	assert_true(copy.n < m.file.n);
	assert_int_equal(stx_model_parse(&copy, "/nonexistent", &again, NULL), 0);
	assert_int_equal(again.initialisers.n, 3);
	assert_int_not_equal(stx_onnx_tensor(stx_model_find(&again, "w")->proto, NULL, &h, NULL),
			     0);
	assert_int_equal(stx_onnx_tensor(stx_model_find(&again, "shape")->proto, NULL, &h, NULL),
			 0);
	assert_true(stx_host_at(&h, 1) == 8);
	stx_host_free(&h);
	assert_int_equal(stx_onnx_tensor(stx_model_find(&m, "w")->proto, NULL, &h, NULL), 0);
	assert_true(stx_host_at(&h, 31) == 31);
	stx_host_free(&h);
	stx_model_free(&again);
	stx_model_free(&m);
}

/* Which initialisers are parameters: by type and size, at the limits. */
static void test_model_parameters_are_floats_over_64_bytes_and_others_over_4096(void **state)
{
	(void)state;
	static const struct {
		int type;
		int64_t n, bytes;
		int kept;
	} t[] = {
		{ 1, 16, 64, 1 },     { 1, 17, 68, 0 },     { 10, 32, 64, 1 },
		{ 10, 33, 66, 0 },    { 7, 512, 4096, 1 },  { 7, 513, 4104, 0 },
		{ 9, 4096, 4096, 1 }, { 9, 4097, 4097, 0 },
	};
	static const uint8_t zeros[4104];
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		struct stx_bytes tensor =
			raw_tensor("w", t[i].type, 1, &t[i].n, zeros, (size_t)t[i].bytes);
		struct stx_bytes graph = { 0 }, m = { 0 }, out = { 0 };
		stx_wire_put_bytes(&graph, 5, span(&tensor));
		stx_wire_put_bytes(&m, 7, span(&graph));
		assert_int_equal(stx_onnx_strip(span(&m), &out, NULL), 0);
		assert_int_equal(out.n == m.n, t[i].kept);
		assert_true(t[i].kept || out.n < 64);
		assert_int_equal(stx_onnx_is_parameter(stx_onnx_dtype(t[i].type), (uint64_t)t[i].n),
				 !t[i].kept);
		stx_bytes_free(&tensor);
		stx_bytes_free(&graph);
		stx_bytes_free(&m);
		stx_bytes_free(&out);
	}
}

static void test_model_damaged_refused(void **state)
{
	(void)state;
	struct stx_bytes empty = { 0 }, junk = { 0 };
	struct stx_model m;
	assert_int_equal(stx_model_parse(&empty, ".", &m, NULL), STX_E_INVALID);
	stx_bytes_puts(&junk, "this is not a model");
	assert_int_equal(stx_model_parse(&junk, ".", &m, NULL), STX_E_INVALID);
}

static void test_model_mutated_never_reads_outside(void **state)
{
	(void)state;
	struct stx_bytes b = model();
	srand(99);
	for (int i = 0; i < 30000; i++) {
		size_t n = rand() % 4 ? b.n : (size_t)rand() % b.n;
		struct stx_bytes copy = { malloc(n ? n : 1), n, n, 0 };
		struct stx_model m;
		struct stx_host h;
		memcpy(copy.at, b.at, n);
		for (int k = rand() % 4; k >= 0 && n; k--)
			copy.at[(size_t)rand() % n] = (uint8_t)rand();
		if (stx_model_parse(&copy, folder, &m, NULL))
			continue;
		for (unsigned k = 0; k < m.initialisers.n; k++)
			if (!stx_onnx_tensor(m.initialisers.at[k].proto, folder, &h, NULL))
				stx_host_free(&h);
		stx_model_free(&m);
	}
	stx_bytes_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_onnx_raw_and_typed_agree),
		cmocka_unit_test(test_onnx_varint_lists_narrowed),
		cmocka_unit_test(test_onnx_unholdable_types_named),
		cmocka_unit_test(test_onnx_size_lies_refused_before_allocation),
		cmocka_unit_test(test_onnx_external_data_read),
		cmocka_unit_test(test_onnx_external_data_confined),
		cmocka_unit_test(test_model_indexed),
		cmocka_unit_test(test_model_request_stripped_lacks_parameters_only),
		cmocka_unit_test(
			test_model_parameters_are_floats_over_64_bytes_and_others_over_4096),
		cmocka_unit_test(test_model_damaged_refused),
		cmocka_unit_test(test_model_mutated_never_reads_outside),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
