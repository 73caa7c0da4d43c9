/* test_cpu_product.c: names of products and blockings, and the choice that somebody made from
 * timings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu_blocking.h"

static void assert_same_shape(const struct stx_product_shape *p, const struct stx_product_shape *q)
{
	assert_true(p->rows == q->rows && p->cols == q->cols && p->terms == q->terms);
	assert_true(p->batch == q->batch && p->line == q->line && p->bytes == q->bytes);
	assert_true(p->is_thin == q->is_thin && p->rows_are_shared == q->rows_are_shared);
}

static void assert_same_blocking(const struct stx_blocking *a, const struct stx_blocking *b)
{
	assert_true(a->rows == b->rows && a->cols == b->cols && a->words == b->words);
}

static void test_cpu_product_text_is_read_back(void **state)
{
	static const int64_t sizes[] = { 1, 7, 2048, INT32_MAX, INT64_C(1) << 40 };
	(void)state;
	for (int i = 0; i < 5 * 5 * 5 * 8; i++) {
		struct stx_product_shape p = { .rows = sizes[i % 5],
					       .cols = sizes[i / 5 % 5],
					       .terms = sizes[i / 25 % 5],
					       .batch = sizes[i % 3],
					       .line = sizes[i % 4],
					       .bytes = i / 125 & 1 ? 8 : 4,
					       .is_thin = i / 125 >> 1 & 1,
					       .rows_are_shared = i / 125 >> 2 & 1 };
		struct stx_product_shape q = { 0 };
		char text[STX_PRODUCT_BYTES], more[2 * STX_PRODUCT_BYTES];
		stx_product_print(&p, text);
		assert_int_equal(stx_product_parse(text, strlen(text), &q, NULL), 0);
		assert_same_shape(&p, &q);
		snprintf(more, sizeof more, "%s : 64.3 f32.n0n",
			 text); /* what else it is known by */
		if (strlen(more) < STX_PRODUCT_BYTES)
			assert_int_equal(stx_product_parse(more, strlen(more), &q, NULL), 0);
		assert_same_shape(&p, &q);
	}
}

/* From outside: a client may send any text. */
static void test_cpu_product_malformed_text_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"product",
		"1x2x3",
		"0x2x3 batch 1 line 1 bytes 4",
		"-1x2x3 batch 1 line 1 bytes 4",
		"1x2x3 batch 0 line 1 bytes 4",
		"1x2x3 batch 1 line 1 bytes 2",
		"1x2x3 batch 1 line 1 bytes 4 thick",
		"1x2x3 batch 1 line 1 bytes 44",
		" 1x2x3 batch 1 line 1 bytes 4",
		"1x2x9999999999999999999 batch 1 line 1 bytes 4",
		"1x2x3 batch 1 line 1 bytes 4 shared thin",
	};
	struct stx_product_shape p;
	char longer[STX_PRODUCT_BYTES + 9];
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct stx_diag d = { 0 };
		assert_int_equal(stx_product_parse(bad[i], strlen(bad[i]), &p, &d), STX_E_INVALID);
		assert_non_null(strstr(d.text, "ROWSxCOLSxTERMS"));
	}
	memset(longer, '1', sizeof longer);
	assert_int_equal(stx_product_parse(longer, sizeof longer, &p, NULL), STX_E_INVALID);
}

static void test_cpu_product_given_candidate_is_chosen(void **state)
{
	struct stx_cut_product p = { .text = "a product" };
	struct stx_blocking all[] = { { 240, 512, 320 }, { 60, 128, 256 }, { 132, 704, 192 } };
	struct stx_choice at[] = { { { { 0 } }, "1x1x1" }, { { { 0 } }, "132x704x192" } };
	struct stx_choices c = { at + 1, 1 };
	(void)state;
	at[1].of = stx_digest_of(p.text, strlen(p.text));
	stx_cut_choose(&p, all, 3, NULL);
	assert_same_blocking(&p.b, &all[0]);
	assert_false(p.is_given);
	stx_cut_choose(&p, all, 3, &c);
	assert_same_blocking(&p.b, &all[2]);
	assert_true(p.is_given);
	stx_cut_choose(&p, all, 2, &c); /* no candidate of this target, or this compiler */
	assert_same_blocking(&p.b, &all[0]);
	assert_false(p.is_given);
	c = (struct stx_choices){ at, 2 };
	stx_cut_choose(&p, all, 3, &c);
	assert_true(p.is_given);
	snprintf(p.text, sizeof p.text, "another");
	stx_cut_choose(&p, all, 3, &c);
	assert_false(p.is_given);
	at[1].config = "132x704x1920";
	snprintf(p.text, sizeof p.text, "a product");
	stx_cut_choose(&p, all, 3, &c);
	assert_false(p.is_given);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cpu_product_text_is_read_back),
		cmocka_unit_test(test_cpu_product_malformed_text_is_refused),
		cmocka_unit_test(test_cpu_product_given_candidate_is_chosen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
