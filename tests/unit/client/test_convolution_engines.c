/* test_convolution_engines.c: which engine of cuDNN makes a convolution, and what happens without one:
 * what is barred, asked for, measured and found again; hostile plans; the numbers of cudnn.def. Without
 * a GPU, as test_convolution.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cudnn.h"
#include "tune_case.h"

static struct fake_convolution *last_conv(void)
{
	return &dnn->call[(dnn->calls - 1) % FAKE_MAX_CALLS];
}

static const char *const types[] = { "f32", "f64", "f16", "bf16" };

static const char plain[] =
	"%x : f32[1,8,24,24] = placeholder()\n%w : f32[8,8,3,3] = placeholder()\n"
	"%y = convolution.default(%x, %w, None, [1,1], [1,1], [1,1], False, [0,0], 1)\n"
	"return (%y,)\n";
static const char halves[] =
	"%x : f16[1,8,24,24] = placeholder()\n%w : f16[8,8,3,3] = placeholder()\n"
	"%y = convolution.default(%x, %w, None, [1,1], [1,1], [1,1], False, [0,0], 1)\n"
	"return (%y,)\n";

/* An engine that the library has no plan for is passed over; without any the kernel does it. */
static void test_convolution_without_an_engine_launches_the_kernel(void **state)
{
	(void)state;
	struct counts c;
	dnn->no_plan = 0;
	c = check(plain);
	assert_int_equal(c.calls, 1);
	assert_int_equal(last_conv()->engine, 1);
	dnn->no_plan = -1;
	dnn->offered = 0;
	c = check(plain);
	assert_int_equal(c.calls, 0);
	assert_int_equal(c.launches, 1);
	dnn->offered = 3;
	dnn->only_fallback = 1;
	c = check(plain);
	assert_int_equal(c.calls, 1);
	assert_int_equal(last_conv()->engine, 40);
	dnn->only_fallback = 0;
	dnn->refuse = 3000; /* NOT_SUPPORTED: nothing has been written */
	c = check(plain);
	assert_int_equal(c.launches, 1);
	dnn->refuse = 0;
	dnn->refuse_handle = 1001;
	c = check(plain);
	assert_int_equal(c.calls, 0);
	assert_int_equal(c.launches, 1);
	dnn->refuse_handle = 0;
	dnn->workspace_bytes = (int64_t)1 << 40;
	c = check(plain);
	assert_int_equal(c.calls, 0);
	assert_int_equal(c.launches, 1);
	dnn->workspace_bytes = 4096;
	assert_int_equal(dnn->alive, 0);
}

/* TF32, Winograd, FFT, narrower sums or operands and results that differ from run to run are never
 * taken; tensor cores are, but of f32. */
static void test_convolution_engines_of_other_arithmetic_are_barred(void **state)
{
	(void)state;
	for (int note = 0; note < 10; note++) {
		dnn->notes[0] = 1u << note;
		check(plain);
		assert_int_equal(last_conv()->engine, note != 9);
		check(halves);
		assert_int_equal(last_conv()->engine, note != 9 && note != 0);
	}
	dnn->notes[0] = 0;
}

/* Engine 2 adds halves in halves, of gradients; its notes do not say so. */
static void test_convolution_gradients_of_halves_are_not_added_in_halves(void **state)
{
	static const char gradient[] =
		"%%x : %s[1,8,24,24] = placeholder()\n%%w : %s[8,8,3,3] = placeholder()\n"
		"%%y = convolution.default(%%x, %%w, None, [2,2], [1,1], [1,1], True, [1,1], 1)\n"
		"return (%%y,)\n";
	int offered = dnn->offered;
	(void)state;
	dnn->offered = 4;
	dnn->notes[0] = dnn->notes[1] = 1u << STX_CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
	check(halves);
	assert_int_equal(last_conv()->engine, 2);
	for (int i = 0; i < 4; i++) {
		char text[512];
		snprintf(text, sizeof text, gradient, types[i], types[i]);
		check(text);
		assert_int_equal(last_conv()->engine, strcmp(types[i], "f16") ? 2 : 3);
	}
	dnn->notes[0] = dnn->notes[1] = 0;
	dnn->offered = offered;
}

/* ---- one convolution, ready to run ---- */

static struct ready *plain_new(void)
{
	static const int64_t x[] = { 1, 8, 24, 24 }, w[] = { 8, 8, 3, 3 };
	struct ready *v = ready_new(plain, 4, x, w, x);
	struct stax_error err;
	for (int i = 0; i < 8 * 24 * 24 + 1; i++)
		v->a[i] = (float)(i % 5 - 2);
	for (int i = 0; i < 8 * 8 * 3 * 3; i++)
		v->b[i] = (float)(i % 3 - 1);
	dnn->offered = 0;
	assert_int_equal(run(v, &err), 0);
	dnn->offered = 3;
	memcpy(v->want, v->y, sizeof v->want);
	compiled_free(&v->c);
	build(plain, &v->c);
	return v;
}

/* The engine that the next run takes, -1: the kernel. Its result is right. */
static int made(struct ready *v)
{
	return run_right(v) ? last_conv()->engine : -1;
}

static void test_convolution_failure_names_the_call(void **state)
{
	(void)state;
	struct ready *v = plain_new();
	struct stax_error err;
	dnn->refuse = 5000; /* EXECUTION_FAILED: it had begun */
	assert_int_equal(run(v, &err), STX_E_INTERNAL);
	dnn->refuse = 0;
	assert_string_equal(err.node, "cudnn.convolution");
	assert_non_null(strstr(err.text, "EXECUTION_FAILED"));
	assert_int_equal(made(v), 0);
	ready_free(v);
}

/* The heuristics are asked once for a device and alignment, not at each run; one plan is made. */
static void test_convolution_heuristics_are_asked_once_a_device_and_alignment(void **state)
{
	(void)state;
	struct ready *v = plain_new();
	struct stax_error err;
	uint32_t before = dnn->heuristics, plans = dnn->plans, handles = dnn->handles;
	struct stx_env env = { .stream = (void *)0x1230 };
	for (int i = 0; i < 5; i++)
		assert_int_equal(made(v), 0);
	assert_int_equal(dnn->heuristics, before + 2); /* A and the fallback */
	assert_int_equal(dnn->plans, plans + 1);
	assert_int_equal(dnn->handles, handles + 1);
	assert_int_equal(last_conv()->x.alignment, 16);
	v->c.artifact->is_aligned = 0; /* a plan without STX_PLAN_ALIGNED */
	v->in[0].offset = 1;
	for (int i = 0; i < 3; i++)
		assert_int_equal(run(v, &err), 0);
	assert_int_equal(dnn->heuristics, before + 4);
	assert_int_equal(last_conv()->x.alignment, 4);
	v->in[0].offset = 0;
	assert_int_equal(stax_run(v->c.artifact, v->in, 2, &v->out, 1, &env, &err), 0);
	assert_ptr_equal(last_conv()->stream, env.stream);
	void *first;
	assert_int_equal(stx__driver(NULL)->context_get(&first), 0);
	assert_int_equal(stx__driver(NULL)->context_set((void *)2), 0); /* the other device */
	assert_int_equal(run(v, &err), 0);
	assert_int_equal(stx__driver(NULL)->context_set(first), 0);
	assert_int_equal(run(v, &err), 0);
	assert_int_equal(dnn->handles, handles + 2);
	ready_free(v);
	assert_int_equal(dnn->alive, 0);
}

/* ---- measured ---- */

static void test_convolution_tune_fastest_engine_is_called_and_found_again(void **state)
{
	(void)state;
	struct ready *v = plain_new();
	struct stax_tuned t;
	forget();
	kernel_ns = 50000;
	dnn->ns[0] = 9000;
	dnn->ns[1] = 5000;
	dnn->ns[2] = 7000;
	assert_int_equal(made(v), 0);
	measure(v, 0);
	assert_int_equal(made(v), 1);
	assert_int_equal(stax_tuned(v->c.artifact, &t, 1), 1);
	assert_string_equal(t.kernel, "conv_f32_1x8x24x24_8x3x3");
	assert_string_equal(t.heuristic, "dnn91900 engine=0 2=1");
	assert_string_equal(t.chosen, "dnn91900 engine=1 2=2");
	assert_int_equal(t.candidates, 4);
	ready_free(v);
	/* As an artifact that is loaded is told, in a list of another order. */
	v = plain_new();
	struct stx_digest call, known[2];
	struct stx__context *x = stx__context_take(v->c.artifact);
	assert_int_equal(x->steps[0].external->digests(v->c.artifact, x, &x->steps[0], known), 2);
	stx__context_put(v->c.artifact, x);
	assert_memory_equal(kept[0]->kernel.data, known[0].b, STX_DIGEST_BYTES);
	memcpy(call.b, kept[0]->kernel.data, sizeof call.b);
	assert_int_equal(stx__call_tell(v->c.artifact, &call, kept[0]), 0);
	dnn->first = 2;
	assert_int_equal(made(v), 1);
	dnn->first = 0;
	ready_free(v);
	/* A sweep times all that are listed. */
	v = plain_new();
	forget();
	dnn->offered = 20;
	for (int i = 0; i < 20; i++)
		dnn->ns[i] = 5000;
	dnn->ns[17] = 3000;
	measure(v, 100);
	assert_int_equal(stax_tuned(v->c.artifact, &t, 1), 1);
	assert_string_equal(t.swept, "dnn91900 engine=17 2=18");
	assert_int_equal(t.candidates, 8);
	dnn->offered = 3;
	ready_free(v);
	memset(dnn->ns, 0, sizeof dnn->ns);
	assert_int_equal(dnn->alive, 0);
}

static void test_convolution_tune_wrong_and_slow_engines_are_not_taken(void **state)
{
	(void)state;
	struct ready *v = plain_new();
	forget();
	dnn->wrong = 1;
	dnn->ns[1] = 10;
	measure(v, 0);
	dnn->wrong = -1;
	assert_non_null(strstr(lines, "engine=1 2=2: rejected: argument"));
	assert_true(made(v) != 1);
	ready_free(v);
	v = plain_new();
	kernel_ns = 500;
	forget();
	memset(dnn->ns, 0, sizeof dnn->ns);
	measure(v, 0);
	kernel_ns = 50000;
	assert_non_null(strstr(lines, "chosen: kernel "));
	assert_int_equal(made(v), -1);
	ready_free(v);
}

/* An engine that is known to be wrong takes no other's place, when there is no plan of the one that
 * is known to be fastest. */
static void test_convolution_tune_rejected_engine_follows_no_other(void **state)
{
	(void)state;
	struct ready *v = plain_new();
	struct stx_digest call;
	forget();
	dnn->wrong = 1;
	dnn->ns[0] = 10;
	measure(v, 0);
	assert_non_null(strstr(lines, "engine=1 2=2: rejected: argument"));
	assert_int_equal(made(v), 0);
	ready_free(v);
	v = plain_new();
	memcpy(call.b, kept[0]->kernel.data, sizeof call.b);
	assert_int_equal(stx__call_tell(v->c.artifact, &call, kept[0]), 0);
	dnn->no_plan = 0;
	assert_int_equal(made(v), -1);
	dnn->no_plan = dnn->wrong = -1;
	memset(dnn->ns, 0, sizeof dnn->ns);
	ready_free(v);
}

/* ---- what plans may ask for ---- */

/* The plan is refused, or the convolution still lies within its memory and has the sizes that it
 * says. */
static void test_convolution_hostile_plans_are_refused(void **state)
{
	(void)state;
	struct ready *v = plain_new();
	struct tampered t;
	tamper_begin(&t, &v->c);
	assert_int_equal(t.n, STX_CONV_NATTRS);
	assert_true(count_refused(&t) > STX_CONV_NATTRS * 4);
	for (uint32_t i = 0; i < 3; i++) /* never past its memory */
		assert_true(is_refused(&t, STX_CONV_X + 12 * i + STX_ARRAY_OFFSET, 1));
	tamper_end(&t);
	ready_free(v);
}

/* ---- numbers ---- */

static void test_cudnn_numbers_are_those_of_the_header(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		unsigned long long value;
	} all[] = {
#define STX_CUDNN(name, value) { #name, value },
#include "cudnn.def"
#undef STX_CUDNN
	};
	char *text = read_header("cudnn_graph_v9.h");
	if (!text)
		text = read_header("cudnn_graph.h");
	if (!text) {
		print_message("skipped: no cuDNN: $CUDA_HOME/include/cudnn_graph.h is not there\n");
		skip();
	}
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		unsigned long long v = 0;
		if (!find_number(text, all[i].name, &v) || v != all[i].value)
			fail_msg("%s is %llu, the header says %llu", all[i].name, all[i].value, v);
	}
	free(text);
}
int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_convolution_without_an_engine_launches_the_kernel),
		cmocka_unit_test(test_convolution_engines_of_other_arithmetic_are_barred),
		cmocka_unit_test(test_convolution_gradients_of_halves_are_not_added_in_halves),
		cmocka_unit_test(test_convolution_failure_names_the_call),
		cmocka_unit_test(test_convolution_heuristics_are_asked_once_a_device_and_alignment),
		cmocka_unit_test(test_convolution_tune_fastest_engine_is_called_and_found_again),
		cmocka_unit_test(test_convolution_tune_wrong_and_slow_engines_are_not_taken),
		cmocka_unit_test(test_convolution_tune_rejected_engine_follows_no_other),
		cmocka_unit_test(test_convolution_hostile_plans_are_refused),
		cmocka_unit_test(test_cudnn_numbers_are_those_of_the_header),
	};
	return cmocka_run_group_tests(tests, calls_setup, NULL);
}
