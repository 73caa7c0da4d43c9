/* test_matmul_tune.c: the run that measures, and external calls: the library's algorithms and the
 * step's kernel by algorithm 9.1, on stand-ins that compute on the host with a virtual clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tune_case.h"

static int set_up(void **state)
{
	(void)state;
	forget();
	blas->offered = 3;
	blas->first = 0;
	blas->wrong = -1;
	blas->version = 130100;
	memset(blas->ns, 0, sizeof blas->ns);
	kernel_ns = 50000;
	return 0;
}

/* What the next run does: the algorithm it calls, -1: it launches the kernel. Its result is the
 * product. */
static int made(struct ready *v)
{
	return run_right(v) ? last_call()->algorithm : -1;
}

/* ---- tests ---- */

static void test_matmul_tune_fastest_algorithm_is_called_from_the_next_run_on(void **state)
{
	(void)state;
	struct ready *v = square_new();
	float a[64 * 80];
	memcpy(a, v->a, sizeof a);
	blas->ns[0] = 9000;
	blas->ns[1] = 5000;
	blas->ns[2] = 7000;
	assert_int_equal(made(v), 0);
	measure(v, 0);
	assert_int_equal(last_call()->algorithm, 1); /* this run's own goes by it */
	assert_memory_equal(a, v->a, sizeof a);
	assert_int_equal(asked, 1);
	assert_int_equal(told, 1);
	assert_int_equal(made(v), 1);
	struct stax_tuned t[2];
	assert_int_equal(stax_tuned(v->c.artifact, t, 2), 1);
	assert_string_equal(t[0].kernel, "matmul_f32_64x64x80_nn");
	assert_string_equal(t[0].heuristic, "lt130100 algo=0 tile=1 stages=0");
	assert_string_equal(t[0].chosen, "lt130100 algo=1 tile=2 stages=0");
	assert_true(t[0].heuristic_us == 9.0 && t[0].chosen_us == 5.0);
	assert_int_equal(t[0].candidates, 4);
	assert_int_equal(t[0].measured, 4);
	assert_non_null(strstr(lines, "matmul_f32_64x64x80_nn kernel "));
	assert_null(strstr(lines, "rejected"));
	/* Other alignment is another call, of which nothing is known. */
	v->c.artifact->is_aligned = 0; /* a plan without STX_PLAN_ALIGNED */
	v->in[0].offset = 1;
	struct stax_error err;
	assert_int_equal(run(v, &err), 0);
	assert_int_equal(last_call()->algorithm, 0);
	measure(v, 0);
	assert_int_equal(told, 2);
	assert_int_equal(run(v, &err), 0);
	assert_int_equal(last_call()->algorithm, 1);
	ready_free(v);
	assert_int_equal(cuda->modules, cuda->unloads);
	assert_int_equal(cuda->events, cuda->destroyed);
	assert_int_equal(blas->alive, 0);
}

static void test_matmul_tune_kernel_that_is_faster_is_launched(void **state)
{
	(void)state;
	struct ready *v = square_new();
	kernel_ns = 500;
	measure(v, 0);
	assert_non_null(strstr(lines, "chosen: kernel "));
	assert_int_equal(made(v), -1);
	ready_free(v);
}

/* LC-20, with the kernel's results as the measure: the first algorithm is out as any other. */
static void test_matmul_tune_differing_algorithm_is_rejected(void **state)
{
	(void)state;
	for (int wrong = 0; wrong < 2; wrong++) {
		set_up(NULL);
		struct ready *v = square_new();
		blas->wrong = wrong;
		blas->ns[wrong] = 10;
		measure(v, 0);
		assert_non_null(
			strstr(lines, wrong ? "algo=1 tile=2 stages=0: rejected: argument"
					    : "algo=0 tile=1 stages=0: rejected: argument"));
		assert_int_equal(kept[0]->timings[wrong]->verdict, STX_VERDICT_REJECTED);
		assert_int_equal(made(v), !wrong);
		ready_free(v);
	}
}

/* When no algorithm is right the kernel is left, from the next run on and where it is told. */
static void test_matmul_tune_rejected_only_algorithm_is_not_taken(void **state)
{
	(void)state;
	struct ready *v = square_new();
	blas->offered = 1;
	blas->wrong = 0;
	measure(v, 0);
	assert_non_null(strstr(lines, "chosen: kernel "));
	assert_int_equal(kept[0]->timings[0]->verdict, STX_VERDICT_REJECTED);
	assert_int_equal(made(v), -1);
	ready_free(v);
	v = square_new();
	struct stx_digest call;
	memcpy(call.b, kept[0]->kernel.data, sizeof call.b);
	assert_int_equal(stx__call_tell(v->c.artifact, &call, kept[0]), 0);
	assert_int_equal(made(v), -1);
	ready_free(v);
}

/* What is known decides without a measurement; names, not places in a list, are remembered. */
static void test_matmul_tune_known_algorithm_is_found_again(void **state)
{
	(void)state;
	struct ready *v = square_new();
	blas->ns[1] = 1500;
	blas->ns[2] = 10;
	measure(v, 0);
	assert_int_equal(made(v), 2);
	ready_free(v);
	/* As in another process, where the list has another order. */
	v = square_new();
	blas->first = 1;
	uint64_t calls = blas->calls;
	measure(v, 0);
	assert_int_equal(blas->calls, calls + 1);
	assert_int_equal(told, 1);
	assert_int_equal(made(v), 2);
	struct stax_tuned t;
	assert_int_equal(stax_tuned(v->c.artifact, &t, 1), 1);
	assert_int_equal(t.measured, 0);
	ready_free(v);
	/* As an artifact that is loaded is told. */
	v = square_new();
	struct stx_digest call;
	memcpy(call.b, kept[0]->kernel.data, sizeof call.b);
	assert_int_equal(stx__call_tell(v->c.artifact, &call, kept[0]), 0);
	assert_int_equal(made(v), 2);
	ready_free(v);
	/* A list without it: the best of those that are known; of another version: its first. */
	blas->offered = 2;
	v = square_new();
	assert_int_equal(stx__call_tell(v->c.artifact, &call, kept[0]), 0);
	assert_int_equal(made(v), 0);
	ready_free(v);
	blas->version = 130200;
	blas->offered = 3;
	kernel_ns = 1;
	v = square_new();
	assert_int_equal(stx__call_tell(v->c.artifact, &call, kept[0]), 0);
	assert_int_equal(made(v), 1);
	/* Whose algorithms are measured; the timings of the others are kept. */
	size_t n = kept[0]->n_timings;
	measure(v, 0);
	assert_int_equal(stax_tuned(v->c.artifact, &t, 1), 1);
	assert_int_equal(t.measured, 3);
	assert_int_equal(kept[0]->n_timings, n + 3);
	ready_free(v);
}

/* What loading asks for is what running goes by. */
static void test_matmul_tune_digests_are_those_of_the_run(void **state)
{
	(void)state;
	struct ready *v = square_new();
	struct stx_digest known[2];
	struct stx__context *x = stx__context_take(v->c.artifact);
	const struct stx__step *s = &x->steps[0];
	assert_int_equal(s->kind, STX__STEP_EXTERN);
	assert_int_equal(s->external->digests(v->c.artifact, x, s, known), 2);
	stx__context_put(v->c.artifact, x);
	measure(v, 0);
	assert_memory_equal(kept[0]->kernel.data, known[0].b, STX_DIGEST_BYTES);
	v->c.artifact->is_aligned = 0;
	v->in[0].offset = 1;
	measure(v, 0);
	assert_memory_equal(kept[1]->kernel.data, known[1].b, STX_DIGEST_BYTES);
	ready_free(v);
}

/* Eight measurements at most; a sweep times all that the library lists, and stores none of it. */
static void test_matmul_tune_measures_eight_and_sweeps_all(void **state)
{
	(void)state;
	struct ready *v = square_new();
	blas->offered = 20;
	for (int i = 0; i < 20; i++)
		blas->ns[i] = 5000;
	blas->ns[4] = 4000;
	blas->ns[17] = 3000;
	measure(v, 100);
	struct stax_tuned t;
	assert_int_equal(stax_tuned(v->c.artifact, &t, 1), 1);
	assert_int_equal(t.candidates, 8);
	assert_int_equal(t.measured, 8);
	assert_string_equal(t.chosen, "lt130100 algo=4 tile=5 stages=0");
	assert_string_equal(t.swept, "lt130100 algo=17 tile=18 stages=0");
	assert_true(t.heuristic_us == 5.0 && t.chosen_us == 4.0 && t.swept_us == 3.0);
	assert_int_equal(kept[0]->n_timings, 8);
	assert_int_equal(made(v), 4);
	ready_free(v);
}

/* Without the library the kernel is measured as any kernel: here it has no code to be had. */
static void test_matmul_tune_without_the_library_measures_the_kernel(void **state)
{
	(void)state;
	struct ready *v = square_new();
	blas->refuse_handle = 1;
	measure(v, 0);
	blas->refuse_handle = 0;
	assert_non_null(strstr(lines, "cublaslt.matmul its kernel instead: "));
	uint32_t n;
	stx_plan_configs(&v->c.artifact->plan, 0, &n);
	if (n > 1)
		assert_non_null(strstr(lines, "measuring ends: no code"));
	ready_free(v);
}

/* A way that the library refuses costs infinitely much. */
static void test_matmul_tune_refused_calls_leave_the_kernel(void **state)
{
	(void)state;
	struct ready *v = square_new();
	blas->refuse = 15;
	measure(v, 0);
	blas->refuse = 0;
	assert_non_null(strstr(lines, "failed: cuBLASLt: CUBLAS_STATUS_NOT_SUPPORTED"));
	assert_non_null(strstr(lines, "chosen: kernel "));
	ready_free(v);
}

int main(void)
{
#define T(t) cmocka_unit_test_setup(t, set_up)
	const struct CMUnitTest tests[] = {
		T(test_matmul_tune_fastest_algorithm_is_called_from_the_next_run_on),
		T(test_matmul_tune_kernel_that_is_faster_is_launched),
		T(test_matmul_tune_differing_algorithm_is_rejected),
		T(test_matmul_tune_rejected_only_algorithm_is_not_taken),
		T(test_matmul_tune_known_algorithm_is_found_again),
		T(test_matmul_tune_digests_are_those_of_the_run),
		T(test_matmul_tune_measures_eight_and_sweeps_all),
		T(test_matmul_tune_without_the_library_measures_the_kernel),
		T(test_matmul_tune_refused_calls_leave_the_kernel),
	};
	return cmocka_run_group_tests(tests, calls_setup, NULL);
}
