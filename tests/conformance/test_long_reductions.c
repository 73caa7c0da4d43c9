/* test_long_reductions.c: reductions that are cut in segments, compiled: the same bits at every
 * level, in any number of pieces, fused or not (RD-05, RD-12, RD-27, RD-28, SE-12). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "compiled.h"

struct sample {
	struct stx_tensor in;
	double sum, all;
};

/* n values of [-1, 3), and what they add up to. */
static void sample_new(struct sample *s, int64_t n, int64_t columns)
{
	unsigned seed = 5;
	float *x = malloc((size_t)n * sizeof *x);
	memset(s, 0, sizeof *s);
	s->in = (struct stx_tensor){ .data = x, .dtype = STX_F32, .rank = 2 };
	s->in.sizes[0] = n / columns;
	s->in.sizes[1] = columns;
	compiled_dense(&s->in);
	for (int64_t i = 0; i < n; i++) {
		x[i] = (float)rand_r(&seed) / (float)RAND_MAX * 4 - 1;
		s->sum += (double)x[i];
		s->all += fabs((double)x[i]);
	}
}

static void run(const char *text, const char *target, enum compiled_form form,
		enum compiled_threads how, const struct stx_tensor *in, struct stx_tensor *out)
{
	struct compiled c;
	struct stx_diag d = { 0 };
	if (compiled_build(text, target, form, &c, &d) || compiled_run(&c, how, in, 1, out, &d))
		fail_msg("%s %s: %s", target, d.stage, d.text);
	compiled_free(&c);
}

/* Every way to run gives the bits of the first; out: those. */
static void same_everywhere(const char *text, const struct stx_tensor *in, uint32_t nout,
			    struct stx_tensor *out)
{
	int first = 1;
	for (const char *const *t = compiled_targets(); *t; t++)
		for (int form = COMPILED_FUSED; form <= COMPILED_UNFUSED; form++)
			for (int how = COMPILED_SERIAL; how <= COMPILED_POOL; how++) {
				struct stx_tensor now[4];
				run(text, *t, (enum compiled_form)form, (enum compiled_threads)how,
				    in, first ? out : now);
				for (uint32_t i = 0; i < nout && !first; i++)
					assert_memory_equal(
						now[i].data, out[i].data,
						(size_t)(compiled_numel(&out[i]) *
							 stx_dtype_bytes(out[i].dtype)));
				if (!first)
					compiled_free_outputs(now, nout);
				first = 0;
			}
}

/* A prime number of elements: the last segment and its last chunk are ragged. */
static void test_long_reductions_do_not_depend_on_threads_or_level(void **state)
{
	(void)state;
	const int64_t n = 1000003;
	struct sample s;
	struct stx_tensor out[4];
	sample_new(&s, n, 1);
	same_everywhere("%x : f32[1000003,1] = placeholder()\n%s = sum.default(%x)\n"
			"%m = mean.default(%x)\n%a = amax.default(%x)\n"
			"%d = _to_copy.default(%x, dtype=f64)\n%e = sum.default(%d)\nreturn (%s, "
			"%m, %a, %e)\n",
			&s.in, 4, out);
	float sum, mean, max, want = -INFINITY;
	double wide;
	memcpy(&sum, out[0].data, 4);
	memcpy(&mean, out[1].data, 4);
	memcpy(&max, out[2].data, 4);
	memcpy(&wide, out[3].data, 8);
	for (int64_t i = 0; i < n; i++)
		want = fmaxf(want, ((const float *)s.in.data)[i]);
	/* RD-12: 16 in a lane, 6 levels of lanes, ceil(log2 977) of chunks, one rounding */
	double bound = (15 + 6 + 10 + 1) * 0x1p-24 * s.all;
	assert_true(fabs((double)sum - s.sum) <= bound);
	assert_true(fabs((double)mean - s.sum / (double)n) <= bound / (double)n + 1e-7);
	assert_true(max == want);
	assert_true(fabs(wide - s.sum) <= 64 * 0x1p-53 * s.all);
	compiled_free_outputs(out, 4);
	free(s.in.data);
}

static void test_long_reductions_of_columns_do_not_depend_on_threads_or_level(void **state)
{
	(void)state;
	struct sample s;
	struct stx_tensor out[1];
	sample_new(&s, 150001 * 3, 3);
	same_everywhere("%x : f32[150001,3] = placeholder()\n%s = sum.dim_IntList(%x, [0])\n"
			"return (%s,)\n",
			&s.in, 1, out);
	for (int c = 0; c < 3; c++) {
		double want = 0, all = 0;
		for (int64_t i = c; i < 150001 * 3; i += 3) {
			want += (double)((const float *)s.in.data)[i];
			all += fabs((double)((const float *)s.in.data)[i]);
		}
		/* 16 in order, ceil(log2 9376) levels of chunks */
		assert_true(fabs((double)((float *)out[0].data)[c] - want) <=
			    (15 + 14 + 1) * 0x1p-24 * all);
	}
	compiled_free_outputs(out, 1);
	free(s.in.data);
}

/* Cross entropy against classes, mean over rows: a kernel for the rows' losses, one or two for
 * their mean; the logits of a row are far apart, and one is infinite. */
static void test_long_reductions_cross_entropy_is_close_everywhere(void **state)
{
	enum { ROWS = 40, CLASSES = 7001 };
	static float x[ROWS][CLASSES];
	static int64_t target[ROWS];
	struct stx_tensor in[2] = {
		{ .data = x, .dtype = STX_F32, .rank = 2, .sizes = { ROWS, CLASSES } },
		{ .data = target, .dtype = STX_I64, .rank = 2, .sizes = { ROWS, 1 } },
	};
	double want[ROWS], mean = 0;
	(void)state;
	compiled_dense(&in[0]);
	compiled_dense(&in[1]);
	for (int i = 0; i < ROWS; i++) {
		double sum = 0, most = -INFINITY;
		target[i] = i * 171 % CLASSES;
		for (int j = 0; j < CLASSES; j++)
			x[i][j] = (float)((i * 7919 + j * 104729) % 20011) * 0.01f - 100;
		x[i][(i * 31 + 5) % CLASSES] = -INFINITY;
		target[i] += target[i] == (i * 31 + 5) % CLASSES;
		for (int j = 0; j < CLASSES; j++)
			most = fmax(most, (double)x[i][j]);
		for (int j = 0; j < CLASSES; j++)
			sum += exp((double)x[i][j] - most);
		want[i] = most + log(sum) - (double)x[i][target[i]];
		mean += want[i] / ROWS;
	}
	for (const char *const *t = compiled_targets(); *t; t++)
		for (int form = COMPILED_FUSED; form <= COMPILED_UNFUSED; form++) {
			struct compiled c;
			struct stx_tensor out[2];
			struct stx_diag d = { 0 };
			if (compiled_build("%x : f32[40,7001] = placeholder()\n"
					   "%t : i64[40,1] = placeholder()\n"
					   "%l = _log_softmax.default(%x, 1, False)\n"
					   "%g = gather.default(%l, 1, %t)\n%n = neg.default(%g)\n"
					   "%m = mean.default(%n)\nreturn (%n, %m)\n",
					   *t, (enum compiled_form)form, &c, &d) ||
			    compiled_run(&c, COMPILED_PIECES, in, 2, out, &d))
				fail_msg("%s %s: %s", *t, d.stage, d.text);
			assert_true(form == COMPILED_UNFUSED || c.nkernels <= 2);
			for (int i = 0; i < ROWS; i++) /* rounding of values up to 200, twice */
				assert_true(fabs((double)((float *)out[0].data)[i] - want[i]) <=
					    3 * 200 * 0x1p-24);
			assert_true(fabs((double)*(float *)out[1].data - mean) <=
				    4 * 200 * 0x1p-24);
			compiled_free_outputs(out, 2);
			compiled_free(&c);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_long_reductions_do_not_depend_on_threads_or_level),
		cmocka_unit_test(test_long_reductions_of_columns_do_not_depend_on_threads_or_level),
		cmocka_unit_test(test_long_reductions_cross_entropy_is_close_everywhere),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
