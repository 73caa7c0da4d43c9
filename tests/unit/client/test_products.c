/* test_products.c: measuring how products on a CPU are cut, with a private worker: what is
 * measured, what is rejected, what a run with its arguments keeps. */
#include <libgen.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tuner.h"

enum { M = 64, N = 160, K = 128 };

static const char product[] = "%x : f32[64,128] = placeholder()\n"
			      "%w : f32[128,160] = placeholder()\n"
			      "%y = mm.default(%x, %w)\n"
			      "return (%y,)\n";
/* Other results, in a plan that looks the same. */
static const char doubled[] = "%x : f32[64,128] = placeholder()\n"
			      "%w : f32[128,160] = placeholder()\n"
			      "%y = mm.default(%x, %w)\n"
			      "%z = mul.Scalar(%y, 2.0)\n"
			      "return (%z,)\n";
/* The product is added to an input, which is read and written. */
static const char in_place[] = "%x : f32[64,128] = placeholder()\n"
			       "%w : f32[128,160] = placeholder()\n"
			       "%b : f32[64,160] = placeholder()\n"
			       "%y = mm.default(%x, %w)\n"
			       "%s = add.Tensor(%b, %y)\n"
			       "%c = copy_.default(%b, %s)\n"
			       "return (%y,)\n";

struct made {
	struct stax_client *client;
	struct stax_request request;
	struct stax_artifact *artifact;
	struct stx_tensor in[3], out[2];
	float x[M * K], w[K * N], b[M * N], y[M * N];
	char lines[16384];
};

static struct stx_tensor tensor(float *at, int64_t rows, int64_t cols)
{
	return (struct stx_tensor){ .data = at,
				    .dtype = STX_F32,
				    .rank = 2,
				    .sizes = { rows, cols },
				    .strides = { cols, 1 } };
}

static void request_of(struct stax_request *q, const char *text)
{
	*q = (struct stax_request){
		.format = STAX_TEXT, .graph = text, .graph_bytes = strlen(text), .target = "cpu"
	};
}

static struct made *make(const char *text)
{
	struct made *v = calloc(1, sizeof *v);
	struct stax_answer *a;
	struct stax_error err;
	assert_non_null(v);
	request_of(&v->request, text);
	if (stax_connect("none", &v->client, &err) ||
	    stax_compile(v->client, &v->request, &a, &err) ||
	    stax_load(v->client, a, &v->artifact, &err))
		fail_msg("%s: %s", err.stage, err.text);
	stax_answer_free(a);
	for (int i = 0; i < M * K; i++)
		v->x[i] = (float)(i % 37) * 0.37f - 5;
	for (int i = 0; i < K * N; i++)
		v->w[i] = (float)(i % 41) * 0.11f - 2;
	v->in[0] = tensor(v->x, M, K);
	v->in[1] = tensor(v->w, K, N);
	v->in[2] = tensor(v->b, M, N);
	v->out[0] = tensor(v->y, M, N);
	v->out[1] = tensor(v->b, M, N);
	return v;
}

static void drop(struct made *v)
{
	stax_artifact_free(v->artifact);
	stax_client_free(v->client);
	free(v);
}

static void run(struct made *v)
{
	struct stax_error err;
	int nout = stax_noutputs(v->artifact);
	v->out[1].data = NULL; /* an alias: described */
	if (stax_run(v->artifact, v->in, stax_ninputs(v->artifact), v->out, nout, NULL, &err))
		fail_msg("%s", err.text);
}

static void report(void *ctx, const char *kernel, const char *line)
{
	char *lines = ((struct made *)ctx)->lines;
	size_t n = strlen(lines);
	(void)kernel;
	snprintf(lines + n, sizeof((struct made *)0)->lines - n, "%s\n", line);
}

static void tune(struct made *v, uint32_t sweep)
{
	struct stax_tuning o = {
		.request = &v->request, .runs = 5, .sweep = sweep, .report = report, .ctx = v
	};
	struct stax_error err;
	if (stax_tune_next_run(v->artifact, v->client, &o, &err))
		fail_msg("%s", err.text);
}

static int count(const char *text, const char *what)
{
	int n = 0;
	for (const char *at = text; (at = strstr(at, what)); at++)
		n++;
	return n;
}

/* One thread and two: eight candidates each, then known; a compile has the choice. */
static void test_products_are_measured_once(void **state)
{
	struct made *v = make(product);
	struct stax_tuned t[4];
	(void)state;
	tune(v, 0);
	run(v);
	assert_int_equal(stax_tuned(v->artifact, t, 4), 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(t[i].threads, i + 1);
		assert_in_range(t[i].candidates, 2, 8);
		assert_int_equal(t[i].measured, t[i].candidates);
		assert_true(t[i].chosen_us > 0 && t[i].chosen_us <= t[i].heuristic_us);
	}
	assert_int_equal(count(v->lines, "chosen: "), 2);
	assert_int_equal(count(v->lines, "rejected"), 0);
	char chosen[STX_CONFIG_BYTES];
	snprintf(chosen, sizeof chosen, "%s", t[1].chosen);
	struct stax_answer *a = NULL;
	struct stax_error err;
	assert_int_equal(stax_compile(v->client, &v->request, &a, &err), 0);
	assert_string_equal(a->kernels[0].config, chosen); /* of two threads: this process's */
	stax_answer_free(a);
	tune(v, 0);
	run(v);
	assert_int_equal(stax_tuned(v->artifact, t, 4), 2);
	assert_int_equal(t[0].measured + t[1].measured, 0);
	assert_string_equal(t[1].chosen, chosen);
	drop(v);
}

static const char *wrong; /* this candidate computes something else */
static int variants;

static stx_err some_artifact(const struct stx__about *b, const struct stax_request *r,
			     struct stax_artifact **out, struct stx_diag *d)
{
	struct stax_request q = *r;
	variants++;
	if (wrong && !strcmp(r->blockings[0].config, wrong)) {
		q.graph = doubled;
		q.graph_bytes = strlen(doubled);
	}
	return stx__server_source.artifact(b, &q, out, d);
}

/* A candidate whose results differ is never chosen, however fast; the first one is never judged. */
static void test_products_whose_results_differ_are_rejected(void **state)
{
	struct made *v = make(product);
	struct stax_answer *a;
	struct stax_error err;
	struct stax_tuned t[2];
	struct stx__source mine = stx__server_source;
	(void)state;
	assert_int_equal(stax_compile(v->client, &v->request, &a, &err), 0);
	wrong = a->kernels[0].configs[1];
	variants = 0;
	mine.artifact = some_artifact;
	tune(v, 0);
	v->artifact->tuner->source = &mine;
	run(v);
	assert_int_equal(stax_tuned(v->artifact, t, 2), 2);
	assert_int_equal(variants, (int)t[0].candidates); /* once for both numbers of threads */
	for (int i = 0; i < 2; i++) {
		assert_string_not_equal(t[i].chosen, wrong);
		assert_int_equal(t[i].measured, t[i].candidates - 1);
	}
	assert_int_equal(count(v->lines, "rejected: its results are not those of"), 2);
	wrong = NULL;
	stax_answer_free(a);
	drop(v);
}

/* A server that has not heard of the last candidate yet. */
static stx_err old_records(const struct stx__about *b, Stx__TuneRecord **said, size_t n,
			   struct stx__received *out, struct stx_diag *d)
{
	stx_err e = stx__server_source.records(b, said, n, out, d);
	for (size_t i = 0; !e && i < n; i++) {
		Stx__TuneRecord *r = out->e->tune_reply->records[i];
		if (!said[i]->n_timings && r->n_timings)
			stx__timing__free_unpacked(r->timings[--r->n_timings], NULL);
	}
	return e;
}

/* It is measured alone, against the first one's results. */
static void test_products_new_candidate_is_measured_alone(void **state)
{
	struct made *v = make(product);
	struct stax_tuned t[2];
	struct stx__source mine = stx__server_source;
	(void)state;
	mine.records = old_records;
	mine.artifact = some_artifact;
	tune(v, 0);
	run(v);
	variants = 0;
	tune(v, 0);
	v->artifact->tuner->source = &mine;
	run(v);
	assert_int_equal(stax_tuned(v->artifact, t, 2), 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(t[i].measured, 1);
	assert_int_equal(variants, 2);
	assert_int_equal(count(v->lines, "rejected"), 0);
	drop(v);
}

/* Trials write elsewhere: the run adds once. */
static void test_products_measured_in_place_add_once(void **state)
{
	struct made *v = make(in_place);
	struct stax_tuned t[2];
	float sum[M * N];
	(void)state;
	for (int i = 0; i < M * N; i++)
		v->b[i] = (float)i;
	run(v);
	memcpy(sum, v->b, sizeof sum);
	for (int i = 0; i < M * N; i++)
		v->b[i] = (float)i;
	tune(v, 0);
	run(v);
	assert_true(stax_tuned(v->artifact, t, 2) >= 1 && t[0].measured >= 2);
	assert_int_equal(count(v->lines, "rejected"), 0);
	assert_memory_equal(v->b, sum, sizeof sum);
	drop(v);
}

/* Other blockings, for comparison: not kept, and dropped after their batch. */
static void test_products_swept_are_compared(void **state)
{
	struct made *v = make(product);
	struct stax_tuned t[2];
	(void)state;
	tune(v, 12);
	run(v);
	assert_int_equal(stax_tuned(v->artifact, t, 2), 2);
	for (int i = 0; i < 2; i++) {
		assert_true(t[i].swept_us > 0);
		assert_true(strchr(t[i].swept, 'x') != NULL);
	}
	assert_int_equal(count(v->lines, "sweep of "), 2);
	drop(v);
}

static void test_products_need_their_request_and_this_host(void **state)
{
	struct made *v = make(product);
	struct stax_tuning o = { 0 };
	struct stax_request other;
	struct stax_error err;
	(void)state;
	assert_int_equal(stax_tune_next_run(v->artifact, v->client, &o, &err), STX_E_USAGE);
	o.request = &other;
	request_of(&other, "%x : f32[9] = placeholder()\n%y = exp.default(%x)\nreturn (%y,)\n");
	assert_int_equal(stax_tune_next_run(v->artifact, v->client, &o, &err), STX_E_USAGE);
	assert_non_null(strstr(err.text, "not of the graph"));
	request_of(&other, product);
	other.target = "cpu:x86-64-v2:256K-16M-64M"; /* no host has them all */
	assert_int_equal(stax_tune_next_run(v->artifact, v->client, &o, &err), STX_E_USAGE);
	assert_non_null(strstr(err.text, "caches"));
	request_of(&other, "%x : f32[9");
	assert_int_equal(stax_tune_next_run(v->artifact, v->client, &o, &err), STX_E_INVALID);
	drop(v);
}

/* Blockings that are none of the product's change nothing but the key. */
static void test_products_with_other_blockings_are_the_models(void **state)
{
	struct made *v = make(product);
	struct stax_answer *a, *b;
	struct stax_error err;
	struct stax_blocking x = { NULL, "1x2x3" };
	(void)state;
	assert_int_equal(stax_compile(v->client, &v->request, &a, &err), 0);
	x.product = a->kernels[0].product;
	v->request.blockings = &x;
	v->request.nblockings = 1;
	assert_int_equal(stax_compile(v->client, &v->request, &b, &err), 0);
	assert_string_equal(a->digest, b->digest);
	assert_string_not_equal(a->key, b->key);
	stax_answer_free(b);
	x.config = a->kernels[0].configs[a->kernels[0].candidates - 1];
	assert_int_equal(stax_compile(v->client, &v->request, &b, &err), 0);
	assert_string_equal(b->kernels[0].config, x.config);
	assert_string_equal(b->kernels[0].chosen_by, "fixed");
	assert_string_not_equal(a->digest, b->digest);
	stax_answer_free(b);
	stax_answer_free(a);
	drop(v);
}

/* What a server would refuse without saying which one is refused here. */
static void test_products_odd_blockings_are_refused(void **state)
{
	static char name[STX_CONFIG_BYTES + 1];
	static struct stax_blocking many[STX_CHOICES_MAX + 1];
	static const struct {
		struct stax_blocking at[2];
		const char *says;
	} cases[] = {
		{ { { "a", "1x2x3" }, { "a", "1x2x4" } }, "1x2x3 and 1x2x4, are of one product" },
		{ { { "a", "1x2x3" }, { NULL, "1x2x3" } }, "blocking 1 needs a product" },
		{ { { "a", NULL }, { "b", "1x2x3" } }, "blocking 0 needs" },
		{ { { "a", "1x2x3" }, { "b", "" } }, "blocking 1 needs" },
		{ { { "a", "1x2x3" }, { "b", name } }, "at most 95 bytes" },
	};
	struct made *v = make(product);
	struct stax_answer *a;
	struct stax_error err;
	(void)state;
	memset(name, 'x', STX_CONFIG_BYTES);
	v->request.nblockings = 2;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		v->request.blockings = cases[i].at;
		assert_int_equal(stax_compile(v->client, &v->request, &a, &err), STX_E_USAGE);
		assert_non_null(strstr(err.text, cases[i].says));
	}
	for (size_t i = 0; i < STX_CHOICES_MAX + 1; i++)
		many[i] = (struct stax_blocking){ "a", "1x2x3" };
	v->request.blockings = many;
	v->request.nblockings = STX_CHOICES_MAX + 1;
	assert_int_equal(stax_compile(v->client, &v->request, &a, &err), STX_E_USAGE);
	v->request.nblockings = 1;
	v->request.target = "cuda:sm_90a:h200";
	assert_int_equal(stax_compile(v->client, &v->request, &a, &err), STX_E_USAGE);
	assert_non_null(strstr(err.text, "of a CPU's products"));
	drop(v);
}

/* build/tests/unit/client/test_products -> build/staxd */
static void find_worker(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 32);
	if (n < 0)
		abort();
	path[n] = 0;
	for (int i = 0; i < 4; i++)
		dirname(path);
	strcat(path, "/staxd");
	setenv("STAX_STAXD", path, 0);
	setenv("STAX_THREADS", "2", 1);
	unsetenv("STAX_JOB");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_products_are_measured_once),
		cmocka_unit_test(test_products_whose_results_differ_are_rejected),
		cmocka_unit_test(test_products_new_candidate_is_measured_alone),
		cmocka_unit_test(test_products_measured_in_place_add_once),
		cmocka_unit_test(test_products_swept_are_compared),
		cmocka_unit_test(test_products_need_their_request_and_this_host),
		cmocka_unit_test(test_products_with_other_blockings_are_the_models),
		cmocka_unit_test(test_products_odd_blockings_are_refused),
	};
	find_worker();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
