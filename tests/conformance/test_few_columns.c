/* test_few_columns.c: products whose columns are too few for vectors, so that lanes run along the
 * terms and rows share what is gathered: the exact sums of whole numbers, at every level, in any
 * number of pieces, fused or not; and each element's bits are those it has in a product of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "compiled.h"

struct product {
	int64_t m, n, k;
	int a_transposed, b_transposed, is_double;
	struct stx_tensor in[2];
};

static int64_t place(const struct product *p, int j, int64_t outer, int64_t term)
{
	int64_t count = j ? p->n : p->m;
	return (j ? !p->b_transposed : p->a_transposed) ? term * count + outer
							: outer * p->k + term;
}

/* Whole numbers, or thirds, whose sums are rounded. */
static double value(int j, int64_t i, int is_whole)
{
	double v = (double)((i * 2654435761u + (unsigned)j * 40503u) % 17) - 8;
	return is_whole ? v : v / 3;
}

static void fill(struct product *p, int is_whole)
{
	for (int j = 0; j < 2; j++) {
		int64_t outer = j ? p->n : p->m;
		int first_is_term = j ? !p->b_transposed : p->a_transposed;
		p->in[j] =
			(struct stx_tensor){ .dtype = p->is_double ? STX_F64 : STX_F32, .rank = 2 };
		p->in[j].sizes[0] = first_is_term ? p->k : outer;
		p->in[j].sizes[1] = first_is_term ? outer : p->k;
		compiled_dense(&p->in[j]);
		p->in[j].data = calloc((size_t)(outer * p->k), 8);
		for (int64_t i = 0; i < outer * p->k; i++) {
			double v = value(j, i, is_whole);
			if (p->is_double)
				((double *)p->in[j].data)[i] = v;
			else
				((float *)p->in[j].data)[i] = (float)v;
		}
	}
}

static double at(const struct stx_tensor *t, int64_t i)
{
	return t->dtype == STX_F64 ? ((const double *)t->data)[i] : ((const float *)t->data)[i];
}

static void write_text(const struct product *p, char *text, size_t bytes)
{
	const char *type = p->is_double ? "f64" : "f32";
	const struct stx_tensor *a = &p->in[0], *b = &p->in[1];
	snprintf(text, bytes,
		 "%%x : %s[%lld,%lld] = placeholder()\n%%y : %s[%lld,%lld] = placeholder()\n"
		 "%%a = transpose.int(%%x, 0, %d)\n%%b = transpose.int(%%y, 0, %d)\n"
		 "%%c = mm.default(%%a, %%b)\n%%r = relu.default(%%c)\nreturn (%%c, %%r)\n",
		 type, (long long)a->sizes[0], (long long)a->sizes[1], type, (long long)b->sizes[0],
		 (long long)b->sizes[1], p->a_transposed, p->b_transposed);
}

static void run(const struct product *p, const char *target, int form, int how,
		struct stx_tensor out[2])
{
	struct compiled c;
	struct stx_diag d = { 0 };
	char text[512];
	write_text(p, text, sizeof text);
	if (compiled_build(text, target, (enum compiled_form)form, &c, &d) ||
	    compiled_run(&c, (enum compiled_threads)how, p->in, 2, out, &d))
		fail_msg("%s %s: %s in\n%s", target, d.stage, d.text, text);
	compiled_free(&c);
}

static void check_exact(const struct product *p, const struct stx_tensor out[2])
{
	for (int64_t i = 0; i < p->m; i++)
		for (int64_t j = 0; j < p->n; j++) {
			double sum = 0;
			for (int64_t k = 0; k < p->k; k++)
				sum += at(&p->in[0], place(p, 0, i, k)) *
				       at(&p->in[1], place(p, 1, j, k));
			assert_true(at(&out[0], i * p->n + j) == sum);
			assert_true(at(&out[1], i * p->n + j) == (sum > 0 ? sum : 0));
		}
}

static const struct product products[] = {
	{ .m = 64, .n = 4, .k = 300 },
	{ .m = 13, .n = 3, .k = 1024 },
	{ .m = 3, .n = 5, .k = 97, .a_transposed = 1 },
	{ .m = 1, .n = 2, .k = 130 },
	{ .m = 9, .n = 11, .k = 65, .b_transposed = 1 },
	{ .m = 7, .n = 6, .k = 257, .a_transposed = 1, .b_transposed = 1 },
	{ .m = 10, .n = 4, .k = 513, .is_double = 1 },
};

static void test_few_columns_are_exact_and_the_same_everywhere(void **state)
{
	(void)state;
	for (size_t n = 0; n < 2 * sizeof products / sizeof *products; n++) {
		struct product p = products[n / 2];
		struct stx_tensor first[2], now[2];
		fill(&p, n % 2);
		run(&p, "cpu:x86-64-v3", COMPILED_FUSED, COMPILED_SERIAL, first);
		if (n % 2)
			check_exact(&p, first);
		for (const char *const *t = compiled_targets(); *t; t++)
			for (int form = COMPILED_FUSED; form <= COMPILED_UNFUSED; form++)
				for (int how = COMPILED_SERIAL; how <= COMPILED_POOL; how++) {
					/* v2 has no fused multiply-add: other bits where a sum is
					 * rounded */
					if (strstr(*t, "v2") && n % 2 == 0)
						continue;
					run(&p, *t, form, how, now);
					for (int i = 0; i < 2; i++)
						assert_memory_equal(
							now[i].data, first[i].data,
							(size_t)(p.m * p.n *
								 stx_dtype_bytes(first[i].dtype)));
					compiled_free_outputs(now, 2);
				}
		compiled_free_outputs(first, 2);
		free(p.in[0].data);
		free(p.in[1].data);
	}
}

/* The row and the column alone, copied. */
static void test_few_columns_have_the_bits_of_one_element_alone(void **state)
{
	(void)state;
	struct product p = { .m = 6, .n = 3, .k = 777 }, one = { .m = 1, .n = 1, .k = 777 };
	struct stx_tensor all[2], alone[2];
	fill(&p, 0);
	fill(&one, 0);
	run(&p, "cpu:x86-64-v3", COMPILED_FUSED, COMPILED_SERIAL, all);
	for (int64_t i = 0; i < p.m; i++)
		for (int64_t j = 0; j < p.n; j++) {
			for (int64_t k = 0; k < p.k; k++) {
				((float *)one.in[0].data)[k] =
					(float)at(&p.in[0], place(&p, 0, i, k));
				((float *)one.in[1].data)[k] =
					(float)at(&p.in[1], place(&p, 1, j, k));
			}
			run(&one, "cpu:x86-64-v3", COMPILED_FUSED, COMPILED_SERIAL, alone);
			assert_memory_equal((float *)all[0].data + i * p.n + j, alone[0].data, 4);
			compiled_free_outputs(alone, 2);
		}
	compiled_free_outputs(all, 2);
	for (int j = 0; j < 2; j++) {
		free(p.in[j].data);
		free(one.in[j].data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_few_columns_are_exact_and_the_same_everywhere),
		cmocka_unit_test(test_few_columns_have_the_bits_of_one_element_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
