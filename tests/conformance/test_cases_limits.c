/* test_cases_limits.c: programs whose length or sharing broke other compilers (shared case B69):
 * right values or a clean error, on a small stack too. */
#include "cases.h"

#include <pthread.h>

struct job {
	struct stx_bytes text;
	float x, y;
	stx_err e;
	struct stx_diag d;
	const char *target;
};

/* Compiles and runs a graph from f32[1] to f32[1]. */
static void *compile_and_run(void *arg)
{
	struct job *j = arg;
	struct compiled c;
	struct stx_tensor in = { .data = &j->x,
				 .dtype = STX_F32,
				 .rank = 1,
				 .sizes = { 1 },
				 .strides = { 1 } },
			  out[1];
	j->e = compiled_build(stx_bytes_cstr(&j->text), j->target, COMPILED_FUSED, &c, &j->d);
	if (j->e)
		return NULL;
	j->e = compiled_run(&c, COMPILED_SERIAL, &in, 1, out, &j->d);
	if (!j->e) {
		j->y = *(float *)out[0].data;
		compiled_free_outputs(out, 1);
	}
	compiled_free(&c);
	return NULL;
}

/* On a thread with a stack of 8 MiB, or of 256 KiB. */
static void run_job(struct job *j, size_t stack)
{
	pthread_attr_t a;
	pthread_t t;
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, stack);
	assert_int_equal(pthread_create(&t, &a, compile_and_run, j), 0);
	pthread_join(t, NULL);
	pthread_attr_destroy(&a);
	if (j->e && j->e != STX_E_TOO_LARGE)
		fail_msg("%s: %s: %s", j->d.stage, j->d.node, j->d.text);
}

#define LARGE_STACK ((size_t)8 << 20)

/* x = x*0.5 + 0.5, `n` times, of 1 */
static void chain(struct job *j, int n)
{
	*j = (struct job){ .x = 1, .target = compiled_targets()[0] };
	stx_bytes_puts(&j->text, "%x0 : f32[1] = placeholder()\n");
	for (int i = 0; i < n; i++)
		stx_bytes_printf(&j->text,
				 "%%h%d = mul.Scalar(%%x%d, 0.5)\n%%x%d = add.Scalar(%%h%d, 0.5)\n",
				 i, i, i + 1, i);
	stx_bytes_printf(&j->text, "return (%%x%d,)\n", n);
}

static void test_compile_limits_chains_of_1000_and_10000_steps_are_exact(void **state)
{
	struct job j;
	(void)state;
	for (int n = 1000; n <= 10000; n *= 10) {
		chain(&j, n);
		run_job(&j, LARGE_STACK);
		assert_int_equal(j.e, 0);
		assert_true(j.y == 1);
		stx_bytes_free(&j.text);
	}
}

/* 100000 steps: the value, or a clean error; the compiler goes on working */
static void test_compile_limits_a_chain_of_100000_steps_works_or_is_refused(void **state)
{
	struct job j;
	(void)state;
	chain(&j, 100000);
	run_job(&j, LARGE_STACK);
	assert_true(j.e == STX_E_TOO_LARGE || j.y == 1);
	stx_bytes_free(&j.text);
	chain(&j, 3);
	run_job(&j, LARGE_STACK);
	assert_true(!j.e && j.y == 1);
	stx_bytes_free(&j.text);
}

static void test_compile_limits_a_chain_of_20000_views_is_one_load(void **state)
{
	struct job j = { .x = 7, .target = compiled_targets()[0] };
	(void)state;
	stx_bytes_puts(&j.text, "%x0 : f32[1] = placeholder()\n");
	for (int i = 0; i < 20000; i++)
		stx_bytes_printf(&j.text,
				 i % 2 ? "%%x%d = squeeze.dims(%%x%d, [0])\n"
				       : "%%x%d = unsqueeze.default(%%x%d, 0)\n",
				 i + 1, i);
	stx_bytes_puts(&j.text, "return (%x20000,)\n");
	run_job(&j, LARGE_STACK);
	assert_int_equal(j.e, 0);
	assert_true(j.y == 7);
	stx_bytes_free(&j.text);
}

static void test_compile_limits_a_sum_of_5000_operands(void **state)
{
	struct job j = { .x = 1, .target = compiled_targets()[0] };
	int n = 5000, first = 0;
	(void)state;
	stx_bytes_puts(&j.text, "%x : f32[1] = placeholder()\n");
	for (int i = 0; i < n; i++)
		stx_bytes_printf(&j.text, "%%v%d = mul.Scalar(%%x, %d)\n", i, i % 7 + 1);
	for (int made = n; first + 1 < made; first += 2, made++)
		stx_bytes_printf(&j.text, "%%v%d = add.Tensor(%%v%d, %%v%d)\n", made, first,
				 first + 1);
	stx_bytes_printf(&j.text, "return (%%v%d,)\n", first);
	run_job(&j, LARGE_STACK);
	assert_int_equal(j.e, 0);
	float want = 0; /* whole numbers below 2^24 */
	for (int i = 0; i < n; i++)
		want += (float)(i % 7 + 1);
	assert_true(j.y == want);
	stx_bytes_free(&j.text);
}

/* x = x + x, 64 times: 2^64 as a tree */
static void test_compile_limits_shared_operands_are_not_a_tree(void **state)
{
	struct job j = { .x = 1, .target = compiled_targets()[0] };
	(void)state;
	stx_bytes_puts(&j.text, "%x0 : f32[1] = placeholder()\n");
	for (int i = 0; i < 64; i++)
		stx_bytes_printf(&j.text, "%%x%d = add.Tensor(%%x%d, %%x%d)\n", i + 1, i, i);
	stx_bytes_puts(&j.text, "return (%x64,)\n");
	run_job(&j, LARGE_STACK);
	assert_int_equal(j.e, 0);
	assert_true(j.y == 0x1p64f);
	stx_bytes_free(&j.text);
}

/* More inputs than a kernel may have buffers: a tree of sums, and a concatenation. */
static void test_compile_limits_graphs_of_5000_inputs(void **state)
{
	enum { N = 5000 };
	(void)state;
	for (int tree = 0; tree < 2; tree++) {
		struct stx_bytes b = { 0 };
		struct stx_diag d = { 0 };
		struct compiled c;
		struct stx_tensor *in = calloc(N, sizeof *in), out[1];
		float *x = calloc(N, sizeof *x), sum = 0;
		int made = N;
		for (int i = 0; i < N; i++) {
			stx_bytes_printf(&b, "%%v%d : f32[1] = placeholder()\n", i);
			x[i] = (float)(i % 11);
			sum += x[i];
			in[i] = (struct stx_tensor){ .data = &x[i],
						     .dtype = STX_F32,
						     .rank = 1,
						     .sizes = { 1 },
						     .strides = { 1 } };
		}
		for (int first = 0; tree && first + 1 < made; first += 2, made++)
			stx_bytes_printf(&b, "%%v%d = add.Tensor(%%v%d, %%v%d)\n", made, first,
					 first + 1);
		if (tree)
			stx_bytes_printf(&b, "return (%%v%d,)\n", made - 1);
		for (int i = 0; !tree && i < N; i++)
			stx_bytes_printf(&b, "%s%%v%d", i ? ", " : "%c = cat.default([", i);
		if (!tree)
			stx_bytes_puts(&b, "], 0)\nreturn (%c,)\n");
		if (compiled_build(stx_bytes_cstr(&b), compiled_targets()[0], COMPILED_FUSED, &c,
				   &d) ||
		    compiled_run(&c, COMPILED_SERIAL, in, N, out, &d))
			fail_msg("%s %s: %s", d.stage, d.node, d.text);
		if (tree)
			assert_true(*(float *)out[0].data == sum);
		else
			assert_memory_equal(out[0].data, x, N * sizeof *x);
		compiled_free_outputs(out, 1);
		compiled_free(&c);
		stx_bytes_free(&b);
		free(in);
		free(x);
	}
}

/* Everything before code generation keeps to a stack of 256 KiB, whatever the depth of the graph.
 */
static void *plan_only(void *arg)
{
	struct job *j = arg;
	struct stx_source s = { .format = STX_FORMAT_TEXT, .body = { j->text.at, j->text.n } };
	struct stx_compile_options o = { .target = j->target };
	struct stx_key_result key;
	struct stx_plan_result plan = { 0 };
	j->e = stx_compile_key(compiled_compiler(), &s, &o, &key, &j->d);
	if (!j->e)
		j->e = stx_compile_plan(compiled_compiler(),
					(struct stx_span){ key.graph.at, key.graph.n }, &o, &plan,
					&j->d);
	stx_plan_result_free(&plan);
	stx_key_result_free(&key);
	return NULL;
}

static void test_compile_limits_planning_needs_little_stack(void **state)
{
	struct job j;
	pthread_attr_t a;
	pthread_t t;
	(void)state;
	chain(&j, 10000);
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, (size_t)256 << 10);
	assert_int_equal(pthread_create(&t, &a, plan_only, &j), 0);
	pthread_join(t, NULL);
	pthread_attr_destroy(&a);
	if (j.e)
		fail_msg("%s: %s", j.d.stage, j.d.text);
	stx_bytes_free(&j.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compile_limits_chains_of_1000_and_10000_steps_are_exact),
		cmocka_unit_test(test_compile_limits_a_chain_of_100000_steps_works_or_is_refused),
		cmocka_unit_test(test_compile_limits_a_chain_of_20000_views_is_one_load),
		cmocka_unit_test(test_compile_limits_a_sum_of_5000_operands),
		cmocka_unit_test(test_compile_limits_shared_operands_are_not_a_tree),
		cmocka_unit_test(test_compile_limits_graphs_of_5000_inputs),
		cmocka_unit_test(test_compile_limits_planning_needs_little_stack),
	};
	return cmocka_run_group_tests(tests, case_setup, NULL);
}
