/* test_repro.c: reproducer files: what is written is read again; damaged ones are refused; a folder
 * holds a bounded number. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "dtype.h"
#include "repro.h"

static struct stx_bytes sample(void)
{
	static int64_t sizes[2] = { 1, 2 };
	static uint8_t data[16] = "0123456789abcde";
	static Stx__GivenValue v, *values[1] = { &v };
	static Stx__Blocking cut, *blockings[1] = { &cut };
	static uint8_t product[STX_DIGEST_BYTES] = { 0xab, 1 };
	struct stx_bytes out = { 0 };
	struct stx_repro r = {
		.format = 3,
		.body = { (const uint8_t *)"graph\n\nwith lines\0", 19 },
		.target = "cpu:x86-64-v3",
		.options = 5,
		.values = values,
		.nvalues = 1,
		.blockings = blockings,
		.nblockings = 1,
		.error = { .code = STX_E_CRASHED, .stage = "plan", .text = "died\nof 100% fault" }
	};
	stx__blocking__init(&cut);
	cut.product = (ProtobufCBinaryData){ sizeof product, product };
	cut.config = "64x512x 320";
	stx__given_value__init(&v);
	v.input = "a name\nof two lines";
	v.dtype = STX_I64;
	v.n_sizes = 2;
	v.sizes = sizes;
	v.data = (ProtobufCBinaryData){ 16, data };
	assert_int_equal(stx_repro_format(&r, &out), 0);
	return out;
}

static void test_repro_written_is_read_again(void **state)
{
	(void)state;
	struct stx_bytes b = sample();
	struct stx_arena *a = stx_arena_new(0);
	struct stx_repro r;
	struct stx_diag d = { 0 };
	if (stx_repro_parse((struct stx_span){ b.at, b.n }, a, &r, &d))
		fail_msg("%s", d.text);
	assert_int_equal(r.format, 3);
	assert_int_equal(r.options, 5);
	assert_string_equal(r.target, "cpu:x86-64-v3");
	assert_int_equal(r.body.n, 19);
	assert_memory_equal(r.body.at, "graph\n\nwith lines\0", 19);
	assert_int_equal(r.nvalues, 1);
	assert_string_equal(r.values[0]->input, "a name\nof two lines");
	assert_int_equal(r.values[0]->sizes[1], 2);
	assert_memory_equal(r.values[0]->data.data, "0123456789abcde", 16);
	assert_int_equal(r.nblockings, 1);
	assert_int_equal(r.blockings[0]->product.len, STX_DIGEST_BYTES);
	assert_int_equal(r.blockings[0]->product.data[0], 0xab);
	assert_string_equal(r.blockings[0]->config, "64x512x 320");
	stx_arena_free(a);
	stx_bytes_free(&b);
}

static void test_repro_damaged_file_is_refused(void **state)
{
	(void)state;
	struct stx_bytes b = sample();
	unsigned seed = (unsigned)time(NULL);
	print_message("seed %u\n", seed);
	srand(seed);
	for (size_t n = 0; n < b.n; n++) {
		struct stx_arena *a = stx_arena_new(0);
		struct stx_repro r;
		/* in memory of its own, so that a sanitizer sees reads beyond */
		uint8_t *copy = malloc(n + 1);
		memcpy(copy, b.at, n);
		assert_true(stx_repro_parse((struct stx_span){ copy, n }, a, &r, NULL) != 0);
		stx_arena_free(a);
		free(copy);
	}
	for (int i = 0; i < 20000; i++) {
		struct stx_arena *a = stx_arena_new(1 << 20);
		struct stx_repro r;
		struct stx_diag d = { 0 };
		uint8_t *copy = malloc(b.n);
		memcpy(copy, b.at, b.n);
		for (int k = 1 + rand() % 4; k > 0; k--)
			copy[(size_t)rand() % b.n] = (uint8_t)rand();
		if (!stx_repro_parse((struct stx_span){ copy, b.n }, a, &r, &d))
			assert_true(r.body.n <= b.n && r.target && r.format >= 1 && r.format <= 3);
		else
			assert_true(d.text[0] != 0);
		stx_arena_free(a);
		free(copy);
	}
	stx_bytes_free(&b);
}

static void test_repro_folder_keeps_the_newest(void **state)
{
	(void)state;
	char dir[] = "/tmp/stax-repro-XXXXXX", deep[64], path[128], command[96];
	assert_non_null(mkdtemp(dir));
	snprintf(deep, sizeof deep, "%s/new/folder", dir);
	struct stx_span file = { (const uint8_t *)"x", 1 };
	for (int i = 0; i < 40; i++) {
		struct stx_digest id = stx_digest_of(&i, sizeof i);
		struct stx_diag d = { 0 };
		assert_int_equal(stx_repro_path(deep, &id, path, sizeof path), 0);
		if (stx_repro_write(path, file, &d))
			fail_msg("%s", d.text);
		assert_int_equal(access(path, R_OK), 0);
	}
	DIR *l = opendir(deep);
	int n = 0;
	for (struct dirent *e; (e = readdir(l));)
		n += e->d_name[0] != '.';
	closedir(l);
	assert_int_equal(n, STX_REPRO_MAX_FILES);
	snprintf(command, sizeof command, "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

static void test_repro_mention_leaves_room_for_the_path(void **state)
{
	(void)state;
	struct stx_diag d = { 0 };
	memset(d.text, 'x', sizeof d.text - 1);
	stx_repro_mention(&d, "/somewhere/file.repro");
	const char *end = strstr(d.text, "stax compile /somewhere/file.repro");
	assert_non_null(end);
	assert_string_equal(end, "stax compile /somewhere/file.repro");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_repro_written_is_read_again),
		cmocka_unit_test(test_repro_damaged_file_is_refused),
		cmocka_unit_test(test_repro_folder_keeps_the_newest),
		cmocka_unit_test(test_repro_mention_leaves_room_for_the_path),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
