/* test_orders.c: orders of a sum, played as they are written, against their coefficient of
 * u * sum |a| (RD-07 to RD-10). A reduction of the loop IR folds left, so a graph says the order.
 */
#include <math.h>
#include <stdlib.h>

#include "lowering.h"

#define MOST 16384

static uint64_t seed = 6051;

static float x[MOST];
static double exact, size; /* of x[0 .. n-1] */

static void draw(int64_t n, int kind)
{
	__float128 sum = 0;

	size = 0;
	for (int64_t i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		x[i] = kind == 0 ? 0.1f : (float)(seed >> 40) * 0x1p-24f - (kind == 1 ? 0 : 0.5f);
		sum += (__float128)x[i];
		size += fabs((double)x[i]);
	}
	exact = (double)sum;
}

/* |result - exact| in units of u * sum |a|. */
static double error_of(const char *graph)
{
	struct low w;
	void *at[64] = { NULL };
	float got;

	low_start(&w, graph, (struct stx_lower_options){ .no_inline = 1 });
	assert_true(w.l->buffers.n < 64);
	for (uint32_t i = 0; i < w.l->buffers.n; i++)
		at[i] = w.l->buffers.at[i]->kind == STX_BUF_INPUT
				? (void *)x
				: stx_arena_alloc(w.arena, sizeof x);
	if (stx_handler_evaluate(w.l, at, &w.d))
		fail_msg("%s", w.d.text);
	memcpy(&got, at[w.l->outputs.at[0]], sizeof got);
	low_end(&w);
	return fabs((double)got - exact) / (0x1p-24 * size);
}

/* k segments, in sequence inside and across; k = 1 is the plain sum. */
static double error_of_segments(int64_t n, int64_t k)
{
	char text[256];

	snprintf(text, sizeof text,
		 "%%x : f32[%lld,%lld] = placeholder()\n%%s = sum.dim_IntList(%%x, [1])\n"
		 "%%t = sum.dim_IntList(%%s, [0])\nreturn (%%t,)\n",
		 (long long)k, (long long)(n / k));
	return error_of(text);
}

/* Halves are added until one element is left; an odd one waits. */
static double error_of_tree(int64_t n, int *depth)
{
	struct stx_bytes b = { 0 };
	int at = 0;

	stx_bytes_printf(&b, "%%v0 : f32[%lld] = placeholder()\n", (long long)n);
	for (; n > 1; n = (n + 1) / 2, at++) {
		long long half = n / 2;

		stx_bytes_printf(&b,
				 "%%a%d = slice.Tensor(%%v%d, 0, 0, %lld)\n"
				 "%%b%d = slice.Tensor(%%v%d, 0, %lld, %lld)\n"
				 "%%s%d = add.Tensor(%%a%d, %%b%d)\n",
				 at, at, half, at, at, half, 2 * half, at, at, at);
		if (n % 2)
			stx_bytes_printf(&b,
					 "%%r%d = slice.Tensor(%%v%d, 0, %lld, %lld)\n"
					 "%%v%d = cat.default([%%s%d, %%r%d])\n",
					 at, at, 2 * half, (long long)n, at + 1, at, at);
		else
			stx_bytes_printf(&b, "%%v%d = clone.default(%%s%d)\n", at + 1, at);
	}
	stx_bytes_printf(&b, "return (%%v%d,)\n", at);
	*depth = at;
	double e = error_of(stx_bytes_cstr(&b));
	stx_bytes_free(&b);
	return e;
}

/* RD-08: (n/k - 1) + (k - 1); RD-07 is k = 1. */
static void test_orders_segments_keep_their_coefficient(void **state)
{
	static const struct {
		int64_t n, k;
		double coefficient;
	} stated[] = { { 1024, 16, 78 },    { 1024, 1, 1023 },    { 128, 16, 22 },
		       { 128, 1, 127 },     { 16384, 128, 254 },  { 16384, 1, 16383 },
		       { 16384, 16, 1038 }, { 16384, 1024, 1038 } };
	double most[3] = { 0 }; /* of 16384 elements, by k: 1, 16, 128 */

	(void)state;
	for (size_t i = 0; i < sizeof stated / sizeof *stated; i++) {
		double n = (double)stated[i].n, k = (double)stated[i].k;

		assert_true(n / k - 1 + (k - 1) == stated[i].coefficient);
		for (int kind = 0; kind < 3; kind++) {
			draw(stated[i].n, kind);
			double e = error_of_segments(stated[i].n, stated[i].k);

			if (e > stated[i].coefficient)
				fail_msg("n %.0f k %.0f: %.2f beyond %.0f", n, k, e,
					 stated[i].coefficient);
			if (stated[i].n == 16384 && k <= 128) {
				double *m = &most[k == 1 ? 0 : k == 16 ? 1 : 2];

				*m = e > *m ? e : *m;
			}
		}
	}
	/* RD-10: k near sqrt(n) has the least coefficient, about 2 sqrt(n); the plain order is far
	 * beyond it. */
	for (int64_t k = 1; k <= 16384; k *= 2)
		assert_true(16384. / (double)k - 1 + (double)(k - 1) >= 254);
	assert_true(254 == 2 * sqrt(16384) - 2);
	assert_true(most[0] > 254 && most[0] > most[1] && most[1] > most[2]);
}

/* RD-09: ceil(log2 n), 10 for 1024, 14 for 16384, 10 for 1000. */
static void test_orders_trees_keep_their_coefficient(void **state)
{
	static const struct {
		int64_t n;
		int coefficient;
	} stated[] = { { 1024, 10 }, { 16384, 14 }, { 1000, 10 }, { 7, 3 }, { 1, 0 } };

	(void)state;
	for (size_t i = 0; i < sizeof stated / sizeof *stated; i++) {
		assert_true(ceil(log2((double)stated[i].n)) == stated[i].coefficient);
		for (int kind = 0; kind < 3; kind++) {
			int depth;

			draw(stated[i].n, kind);
			double e = error_of_tree(stated[i].n, &depth);

			assert_int_equal(depth, stated[i].coefficient);
			if (e > stated[i].coefficient)
				fail_msg("n %lld: %.2f", (long long)stated[i].n, e);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_orders_segments_keep_their_coefficient),
		cmocka_unit_test(test_orders_trees_keep_their_coefficient),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
