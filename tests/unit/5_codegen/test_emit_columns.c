/* test_emit_columns.c: reductions down columns that lie side by side, whatever their number, against
 * the evaluation of kernel IR, bit for bit. */
#include "jit.h"

#include "kernel_eval.h"

#define EACH_TARGET(t)                                                                             \
	const char *const *t = jit_targets();                                                      \
	*t;                                                                                        \
	t++

/* s0 rows where `dynamic`. A value before the reduction, two sums and a variance of it, and work
 * on their results. */
static void columns_text(char *to, size_t n, const char *t, int cols, int rows, int dynamic)
{
	char height[16];
	snprintf(height, sizeof height, dynamic ? "s0" : "%d", rows);
	snprintf(to, n,
		 "kernel \"k\" red bits 64 target cpu\n%s"
		 "param p0 %s read elems %d \"a\"\nparam p1 %s read elems %d \"w\"\n"
		 "param p2 %s write elems %d \"sum\"\nparam p3 %s write elems %d \"m2\"\n"
		 "axis x0 grid 2\naxis x1 vector %d\naxis r0 loop reduction %s\ngrain 1\nbegin\n"
		 "t9 = const %s 0x1.8p+1\nloop x1\nt0 = load %s p1[x1]\n"
		 "t1 = acc sum serial %s r0\nt2 = acc welford serial %s r0\nloop r0\n"
		 "t3 = load %s p0[%d*r0 + x1 + %d*x0]\nt4 = mul %s t3 t0\nupdate t1 t4\n"
		 "update t2 t3\nend\nt5 = result %s t1 0\nt6 = result %s t2 1\n"
		 "t7 = mul %s t5 t9\nt8 = add %s t7 t0\nstore %s p2[x1 + %d*x0] t8\n"
		 "store %s p3[x1 + %d*x0] t6\nend\nend\n",
		 dynamic ? "scalar s0 range 0 100000 hint 8\n" : "", t, 2 * cols * rows, t, cols, t,
		 2 * cols, t, 2 * cols, cols, height, t, t, t, t, t, cols, cols * rows, t, t, t, t,
		 t, t, cols, t, cols);
}

static void columns_case(const char *target, int is_f64, int cols, int rows, int dynamic)
{
	size_t b = is_f64 ? 8 : 4, results = 2 * (size_t)cols * b;
	size_t in_n = 2 * (size_t)cols * (size_t)rows;
	void *in = jit_guarded(in_n * b), *w = jit_guarded((size_t)cols * b);
	void *got[2] = { jit_guarded(results), jit_guarded(results) };
	void *want[2] = { malloc(results), malloc(results) };
	int64_t elems[4] = { (int64_t)in_n, cols, 2 * cols, 2 * cols }, scalars[1] = { rows };
	char text[2000];
	struct stx_diag d = { 0 };
	struct stx_bounds_record bounds = { 0 };
	struct stx_arena *a = stx_arena_new(0);
	columns_text(text, sizeof text, is_f64 ? "f64" : "f32", cols, rows, dynamic);
	for (size_t i = 0; i < in_n + (size_t)cols; i++) {
		void *p = i < in_n ? in : w;
		size_t at = i < in_n ? i : i - in_n;
		double v = (double)((i * 2654435761u) % 10007) / 4096 - 1;
		if (is_f64)
			((double *)p)[at] = v;
		else
			((float *)p)[at] = (float)v;
	}
	if (stx_kernel_evaluate(jit_parse(a, text), (void *[]){ in, w, want[0], want[1] }, elems,
				scalars, &bounds, 0, 2, &d))
		fail_msg("%s", d.text);
	jit_run(jit_kernel(target, text), (void *[]){ in, w, got[0], got[1] }, scalars, 0, 2);
	for (int i = 0; i < 2; i++)
		if (memcmp(got[i], want[i], results))
			fail_msg("%s: result %d of\n%s", target, i, text);
	jit_guarded_free(in, in_n * b);
	jit_guarded_free(w, (size_t)cols * b);
	for (int i = 0; i < 2; i++) {
		jit_guarded_free(got[i], results);
		free(want[i]);
	}
	stx_arena_free(a);
}

static void test_emit_columns_sum_in_the_order_of_each_alone(void **state)
{
	static const struct {
		int cols, rows;
	} shape[] = {
		{ 1024, 100 }, { 300, 17 }, { 129, 1030 }, { 65, 16 }, { 1000, 1 }, { 3, 50 }
	};
	(void)state;
	for (EACH_TARGET(t))
		for (unsigned i = 0; i < sizeof shape / sizeof shape[0]; i++)
			for (int dynamic = 0; dynamic < 2; dynamic++) {
				columns_case(*t, 0, shape[i].cols, shape[i].rows, dynamic);
				columns_case(*t, 1, shape[i].cols, shape[i].rows, dynamic);
			}
}

/* Rows before columns: the array of partial results of all columns is there. */
static void test_emit_columns_go_by_chunks_of_rows(void **state)
{
	struct stx_diag d = { 0 };
	struct stx_cpu_target target;
	struct stx_bytes out = { 0 };
	struct stx_arena *a = stx_arena_new(0);
	char text[2000];
	(void)state;
	columns_text(text, sizeof text, "f32", 1000, 64, 0);
	assert_int_equal(stx_cpu_target_parse("cpu:x86-64-v3", &target, &d), 0);
	assert_int_equal(stx_emit_llvm(jit.llvm, jit_parse(a, text), &target, 0,
				       STX_EMIT_OPTIMIZED_IR, &out, NULL, &d),
			 0);
	assert_int_equal(stx_bytes_put(&out, "", 1), 0);
	assert_non_null(strstr((const char *)out.at, "[384 x <8 x float>]")); /* 3 ranks of 128 */
	stx_bytes_free(&out);
	stx_arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_emit_columns_sum_in_the_order_of_each_alone),
		cmocka_unit_test(test_emit_columns_go_by_chunks_of_rows),
	};
	return cmocka_run_group_tests(tests, jit_setup, jit_teardown);
}
