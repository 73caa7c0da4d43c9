/* test_cuda_tune.c: the run that measures, on a driver without a GPU (tests/fake/cuda.c): real
 * plans, code that adds numbers, a virtual clock. */
#include <dlfcn.h>
#include <libgen.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "codegen.h"
#include "compile.h"
#include "dtype.h"
#include "fake/fake.h"
#include "tuner.h"

#define TARGET "cuda:sm_90a:h200"
enum { N = 100000 };

static struct fake_cuda_counts *counts;

/* ---- a source of code and records ---- */

/* What configuration i of the kernel does: the text of its "cubin"; NULL: like the first. */
static const char *texts[8];
static stx_err errors[8];
static uint32_t spills[8];
static int fetched[8], asked, told;
static Stx__TuneRecord *kept; /* what the server knows */
static const struct stax_artifact *artifact;
static char lines[4096];

static struct stx_span fake_object(const char *symbol, const char *text, struct stx_bytes *out)
{
	char image[200] = { 0 };
	snprintf(image, sizeof image, "%s", text);
	struct stx_span code = { (const uint8_t *)image, sizeof image };
	assert_int_equal(stx_data_object(STX_CUBIN_SECTION, symbol, code, out, NULL), 0);
	return (struct stx_span){ out->at, out->n };
}

static stx_err reply(const Stx__Envelope *e, const struct stx_bytes *body,
		     struct stx__received *out)
{
	uint8_t *packed = malloc(stx__envelope__get_packed_size(e) + 1);
	size_t n = stx__envelope__pack(e, packed);
	memset(out, 0, sizeof *out);
	out->e = stx__envelope__unpack(NULL, n, packed);
	if (body) {
		out->raw = malloc(body->n);
		memcpy(out->raw, body->at, body->n);
		out->body = (struct stx_span){ out->raw, body->n };
	}
	free(packed);
	return STX_E_OK;
}

static stx_err fake_records(const struct stx__about *b, Stx__TuneRecord **said, size_t n,
			    struct stx__received *out, struct stx_diag *d)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__TuneReply r = STX__TUNE_REPLY__INIT;
	Stx__TuneRecord none = STX__TUNE_RECORD__INIT, *list[16];
	(void)d;
	assert_string_equal(b->target, TARGET);
	assert_string_equal(b->device->name, "NVIDIA H200");
	assert_int_equal(b->device->multiprocessors, 132);
	assert_int_equal(b->device->clock_khz, 1980000);
	assert_int_equal(b->device->driver, 13000);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(said[i]->kernel.len, 32);
		if (said[i]->n_timings && !kept) { /* the first one to tell is what all go by */
			size_t size = stx__tune_record__get_packed_size(said[i]);
			uint8_t *p = malloc(size);
			stx__tune_record__pack(said[i], p);
			kept = stx__tune_record__unpack(NULL, size, p);
			free(p);
		}
		told += said[i]->n_timings > 0;
		asked += said[i]->n_timings == 0;
		list[i] = kept ? kept : &none;
	}
	e.msg_case = STX__ENVELOPE__MSG_TUNE_REPLY;
	e.tune_reply = &r;
	r.records = list;
	r.n_records = n;
	return reply(&e, NULL, out);
}

static stx_err fake_code(const struct stx__about *b, const uint8_t kernel[32], const char *config,
			 struct stx__received *out, struct stx_diag *d)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__KernelCodeReply r = STX__KERNEL_CODE_REPLY__INIT;
	Stx__Kernel k = STX__KERNEL__INIT;
	struct stx_bytes body = { 0 };
	uint32_t n, i = 0;
	(void)b;
	const struct stx_plan *p = &artifact->plan;
	assert_memory_equal(kernel, p->kernels[0].digest, 32);
	const struct stx_plan_config *c = stx_plan_configs(p, 0, &n);
	while (i < n && strcmp(stx_plan_string(p, c[i].text), config))
		i++;
	assert_true(i < n);
	fetched[i]++;
	if (errors[i])
		return stx_fail(d, errors[i], "fake", "", "no code");
	fake_object(stx_plan_string(p, c[i].symbol), texts[i] ? texts[i] : texts[0], &body);
	e.msg_case = STX__ENVELOPE__MSG_KERNEL_CODE_REPLY;
	e.kernel_code_reply = &r;
	r.kernel = &k;
	k.registers = 32;
	k.spills = spills[i];
	stx_err err = reply(&e, &body, out);
	stx_bytes_free(&body);
	return err;
}

static const struct stx__source fake_source = { .records = fake_records, .code = fake_code };

/* ---- an artifact ---- */

static const char exp_graph[] = "%x : f32[100000] = placeholder()\n%a = exp.default(%x)\n"
				"return (%a,)\n";

static struct stx_compiler *compiler(void)
{
	static struct stx_compiler *c;
	struct stx_diag d = { 0 };
	if (!c && stx_compiler_new(0, &c, &d))
		fail_msg("%s", d.text);
	return c;
}

static struct stax_artifact *load(const char *graph)
{
	struct stx_source s = { .format = 2, .body = { (const uint8_t *)graph, strlen(graph) } };
	struct stx_compile_options o = { .target = TARGET };
	struct stx_key_result key = { 0 };
	struct stx_plan_result plan = { 0 };
	struct stx_bytes objects[8] = { { 0 } }, so = { 0 };
	struct stx_span spans[8];
	struct stx_plan p;
	struct stx_diag d = { 0 };
	struct stax_artifact *a;
	struct stax_error err;
	char path[64];
	stx_err e = stx_compile_key(compiler(), &s, &o, &key, &d);
	e = e ? e
	      : stx_compile_plan(compiler(), (struct stx_span){ key.graph.at, key.graph.n }, &o,
				 &plan, &d);
	e = e ? e : stx_plan_open((struct stx_span){ plan.plan.at, plan.plan.n }, &p, &d);
	if (e)
		fail_msg("%s", d.text);
	uint32_t n = 0;
	for (uint32_t i = 0; i < p.h->nkernels; i++) {
		const char *symbol = stx_plan_string(&p, p.kernels[i].symbol);
		int known = 0;
		for (uint32_t j = 0; j < i; j++)
			known |= !strcmp(symbol, stx_plan_string(&p, p.kernels[j].symbol));
		if (!known) {
			spans[n] = fake_object(symbol, texts[0], &objects[n]);
			n++;
		}
	}
	e = stx_compile_link(compiler(), (struct stx_span){ plan.plan.at, plan.plan.n }, spans, n,
			     &so, &d);
	if (e)
		fail_msg("%s", d.text);
	int fd = memfd_create("artifact", MFD_CLOEXEC);
	assert_int_equal(write(fd, so.at, so.n), so.n);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (stax_load_file(path, &a, &err))
		fail_msg("%s", err.text);
	close(fd);
	for (uint32_t i = 0; i < n; i++)
		stx_bytes_free(&objects[i]);
	stx_bytes_free(&so);
	stx_plan_result_free(&plan);
	stx_key_result_free(&key);
	artifact = a;
	return a;
}

static void report(void *ctx, const char *kernel, const char *line)
{
	size_t n = strlen(lines);
	(void)ctx;
	snprintf(lines + n, sizeof lines - n, "%s %s\n", kernel, line);
}

static void measure_next(struct stax_artifact *a)
{
	struct stax_tuning o = { .target = TARGET, .report = report };
	struct stax_error err;
	if (stax_tune_next_run(a, NULL, &o, &err))
		fail_msg("%s", err.text);
	a->tuner->source = &fake_source;
}

static void *device_memory(size_t bytes)
{
	void *p;
	assert_int_equal(stax_cuda_alloc(bytes, &p, NULL), 0);
	return p;
}

static struct stx_tensor vector(void *data)
{
	return (struct stx_tensor){
		.data = data, .dtype = STX_F32, .rank = 1, .sizes = { N }, .strides = { 1 }
	};
}

static void run(struct stax_artifact *a, float *in, float *out)
{
	struct stx_tensor x = vector(in), y = vector(out);
	struct stax_error err;
	if (stax_run(a, &x, 1, &y, 1, NULL, &err) || stax_sync(a, NULL, &err))
		fail_msg("%s", err.text);
}

static int set_up(void **state)
{
	(void)state;
	memset(texts, 0, sizeof texts);
	memset(errors, 0, sizeof errors);
	memset(spills, 0, sizeof spills);
	memset(fetched, 0, sizeof fetched);
	asked = told = 0;
	lines[0] = 0;
	if (kept)
		stx__tune_record__free_unpacked(kept, NULL);
	kept = NULL;
	unsetenv("STAX_JOB");
	counts->memory_limit = 0;
	texts[0] = "FAKE ns=5000 n=100000 add=1";
	return 0;
}

/* Launches of the next run, by the block it takes. */
static uint64_t launch_time(struct stax_artifact *a, float *in, float *out)
{
	uint64_t before = counts->now_ns;
	run(a, in, out);
	return counts->now_ns - before;
}

/* LC-06, LC-07: on the first call's arguments every candidate is compiled, checked, warmed up and
 * launched repeatedly; the fastest is chosen, told to the server, and launched from the next run
 * on. The run itself gives what any run gives. */
static void test_cuda_tune_fastest_candidate_is_launched_from_the_next_run_on(void **state)
{
	(void)state;
	texts[2] = "FAKE ns=3000 n=100000 add=1 noise=9000";
	texts[3] = "FAKE ns=4000 n=100000 add=1";
	struct stax_artifact *a = load(exp_graph);
	float *in = device_memory(N * 4), *out = device_memory(N * 4);
	for (int i = 0; i < N; i++)
		in[i] = (float)i;
	assert_int_equal(launch_time(a, in, out), 5000);
	memset(out, 0, N * 4);
	measure_next(a);
	run(a, in, out);
	for (int i = 0; i < N; i++)
		assert_true(out[i] == (float)i + 1 && in[i] == (float)i);
	assert_int_equal(asked, 1);
	assert_int_equal(told, 1);
	uint32_t n;
	stx_plan_configs(&a->plan, 0, &n);
	for (uint32_t i = 0; i < n; i++)
		assert_true(fetched[i] > 0);
	struct stax_tuned t[4];
	assert_int_equal(stax_tuned(a, t, 4), 1);
	assert_string_equal(t[0].kernel, "poi_fused_exp_0");
	assert_int_equal(t[0].candidates, n);
	assert_int_equal(t[0].measured, n);
	assert_true(t[0].heuristic_us == 5.0 && t[0].chosen_us == 3.0);
	assert_string_equal(t[0].chosen, kept->timings[2]->config);
	assert_int_equal(kept->timings[2]->registers, 32);
	assert_int_equal(kept->n_timings, n);
	assert_non_null(strstr(lines, "poi_fused_exp_0 chosen: XBLOCK=1024 threads=256\n"));
	/* Grid and block follow. */
	memset(out, 0, N * 4);
	for (int i = 0; i < 4; i++)
		assert_in_range(launch_time(a, in, out), 3000, 12000);
	assert_int_equal(a->gpu->active[0], stx__gpu_code_number(a, 0, 2));
	struct stx__context *x = stx__context_take(a);
	assert_int_equal(x->steps[0].grid[0], (N + 1023) / 1024);
	assert_int_equal(x->steps[0].block[0], 256);
	stx__context_put(a, x);
	assert_true(out[77] == 78);
	stax_artifact_free(a);
	stax_cuda_free(in);
	stax_cuda_free(out);
	assert_int_equal(counts->modules, counts->unloads);
	assert_int_equal(counts->events, counts->destroyed);
}

/* LC-03, LC-08: what the server knows decides without a measurement. */
static void test_cuda_tune_known_timings_measure_nothing(void **state)
{
	(void)state;
	texts[1] = "FAKE ns=1000 n=100000 add=1";
	struct stax_artifact *a = load(exp_graph), *b;
	float *in = device_memory(N * 4), *out = device_memory(N * 4);
	measure_next(a);
	run(a, in, out);
	assert_int_equal(told, 1);
	stax_artifact_free(a);
	b = load(exp_graph); /* as in another process */
	uint64_t launches = counts->launches;
	memset(fetched, 0, sizeof fetched);
	measure_next(b);
	run(b, in, out);
	assert_int_equal(counts->launches, launches + 1);
	assert_int_equal(told, 1);
	assert_int_equal(fetched[0], 0);
	assert_int_equal(fetched[1], 1);
	assert_int_equal(launch_time(b, in, out), 1000);
	struct stax_tuned t;
	assert_int_equal(stax_tuned(b, &t, 1), 1);
	assert_int_equal(t.measured, 0);
	stax_artifact_free(b);
	stax_cuda_free(in);
	stax_cuda_free(out);
}

/* A new candidate is measured alone: the timings of the others are kept. */
static void test_cuda_tune_only_new_candidates_are_measured(void **state)
{
	(void)state;
	struct stax_artifact *a = load(exp_graph);
	float *in = device_memory(N * 4), *out = device_memory(N * 4);
	measure_next(a);
	run(a, in, out);
	size_t n = kept->n_timings;
	memset(fetched, 0, sizeof fetched);
	texts[n - 1] = "FAKE ns=10 n=100000 add=1";
	Stx__Timing *last = kept->timings[--kept->n_timings]; /* the table had no such candidate */
	stax_artifact_free(a);
	a = load(exp_graph);
	measure_next(a);
	run(a, in, out);
	struct stax_tuned t;
	assert_int_equal(stax_tuned(a, &t, 1), 1);
	assert_int_equal(t.measured, 1);
	assert_int_equal(fetched[0], 0);
	assert_true(fetched[n - 1] > 0);
	kept->timings[kept->n_timings++] = last;
	stax_artifact_free(a);
	stax_cuda_free(in);
	stax_cuda_free(out);
}

/* Never on data it could destroy: the output is the input's memory, and is the input plus one once;
 * every candidate was checked against the same contents. */
static void test_cuda_tune_aliasing_arguments_are_not_destroyed(void **state)
{
	(void)state;
	texts[1] = "FAKE ns=2000 n=100000 add=1";
	struct stax_artifact *a = load(exp_graph);
	float *both = device_memory(N * 4);
	for (int i = 0; i < N; i++)
		both[i] = (float)i;
	measure_next(a);
	run(a, both, both);
	for (int i = 0; i < N; i++)
		assert_true(both[i] == (float)i + 1);
	assert_non_null(strstr(lines, "chosen: XBLOCK=512"));
	assert_null(strstr(lines, "rejected"));
	/* Overlapping in part: the scratch memory covers both. */
	float *more = device_memory((N + 64) * 4);
	for (int i = 0; i < N + 64; i++)
		more[i] = (float)i;
	if (kept)
		stx__tune_record__free_unpacked(kept, NULL);
	kept = NULL;
	measure_next(a);
	run(a, more + 64, more);
	for (int i = 0; i < N; i++)
		assert_true(more[i] == (float)i + 65);
	stax_artifact_free(a);
	stax_cuda_free(both);
	stax_cuda_free(more);
}

/* LC-20: a candidate whose results differ is rejected with a line, also where it writes too much;
 * the run and later runs give the heuristic's results. */
static void test_cuda_tune_differing_candidate_is_rejected(void **state)
{
	(void)state;
	texts[1] = "FAKE ns=10 n=100000 add=2";
	texts[2] = "FAKE ns=10 n=99000 add=1";
	texts[3] = "FAKE ns=4000 n=100000 add=1.0001";
	struct stax_artifact *a = load(exp_graph);
	float *in = device_memory(N * 4), *out = device_memory(N * 4);
	for (int i = 0; i < N; i++)
		in[i] = (float)i;
	measure_next(a);
	run(a, in, out);
	assert_non_null(strstr(lines, "XBLOCK=512 threads=256: rejected: argument 1 differs"));
	assert_non_null(strstr(lines, "XBLOCK=1024 threads=256: rejected: argument 1 differs"));
	assert_int_equal(kept->timings[1]->verdict, STX_VERDICT_REJECTED);
	assert_true(kept->timings[1]->note[0]);
	struct stax_tuned t;
	stax_tuned(a, &t, 1);
	assert_true(t.chosen_us == 4.0); /* within the tolerance */
	assert_true(out[5] == 6);
	stax_artifact_free(a);
	stax_cuda_free(in);
	stax_cuda_free(out);
}

/* LC-01, LC-05: what spills, does not compile or does not launch costs infinitely much. */
static void test_cuda_tune_spilling_and_failing_candidates_are_out(void **state)
{
	(void)state;
	texts[1] = "FAKE ns=10 n=100000 add=1";
	texts[2] = "FAKE ns=10 n=100000 add=1 fails";
	texts[4] = "FAKE ns=4500 n=100000 add=1";
	spills[1] = 24;
	errors[3] = STX_E_INTERNAL;
	struct stax_artifact *a = load(exp_graph);
	float *in = device_memory(N * 4), *out = device_memory(N * 4);
	measure_next(a);
	run(a, in, out);
	assert_int_equal(kept->timings[1]->verdict, STX_VERDICT_SPILLS);
	assert_int_equal(kept->timings[2]->verdict, STX_VERDICT_FAILED);
	assert_int_equal(kept->timings[3]->verdict, STX_VERDICT_FAILED);
	assert_int_equal(a->gpu->active[0], stx__gpu_code_number(a, 0, 4));
	stax_artifact_free(a);
	stax_cuda_free(in);
	stax_cuda_free(out);
}

/* What goes wrong in measuring is told, and the run is a run all the same. */
static void test_cuda_tune_measuring_that_fails_leaves_the_run_alone(void **state)
{
	(void)state;
	errors[1] = STX_E_CONNECT;
	struct stax_artifact *a = load(exp_graph);
	float *in = device_memory(N * 4), *out = device_memory(N * 4);
	in[3] = 4;
	measure_next(a);
	run(a, in, out);
	assert_true(out[3] == 5);
	assert_non_null(strstr(lines, "measuring ends: no code"));
	assert_int_equal(told, 0);
	assert_int_equal(launch_time(a, in, out), 5000);
	/* No memory for copies. */
	errors[1] = 0;
	counts->memory_limit = N * 4;
	lines[0] = 0;
	measure_next(a);
	run(a, in, out);
	assert_non_null(strstr(lines, "not measured: "));
	assert_true(out[3] == 5);
	stax_artifact_free(a);
	stax_cuda_free(in);
	stax_cuda_free(out);
}

/* A job goes by what its first rank saw, complete or not. */
static void test_cuda_tune_job_goes_by_its_record(void **state)
{
	(void)state;
	texts[1] = "FAKE ns=1 n=100000 add=1";
	struct stax_artifact *a = load(exp_graph);
	float *in = device_memory(N * 4), *out = device_memory(N * 4);
	Stx__Timing *t = calloc(1, sizeof *t);
	Stx__TuneRecord *r = calloc(1, sizeof *r);
	uint32_t n;
	const struct stx_plan_config *c = stx_plan_configs(&a->plan, 0, &n);
	stx__timing__init(t);
	stx__tune_record__init(r);
	t->config = strdup(stx_plan_string(&a->plan, c[2].text));
	t->verdict = STX_VERDICT_MEASURED;
	t->median_ns = 4000;
	r->timings = malloc(sizeof *r->timings);
	r->timings[0] = t;
	r->n_timings = 1;
	kept = r;
	setenv("STAX_JOB", "job 1", 1);
	measure_next(a);
	run(a, in, out);
	assert_int_equal(told, 0);
	assert_int_equal(a->gpu->active[0], stx__gpu_code_number(a, 0, 2));
	stax_artifact_free(a);
	stax_cuda_free(in);
	stax_cuda_free(out);
}

/* LC-04: a kernel of one configuration is not measured; kernels that are one are measured once and
 * all launched so. */
static void test_cuda_tune_equal_kernels_are_measured_once(void **state)
{
	static const char twice[] =
		"%x : f32[100000] = placeholder()\n%y : f32[100000] = placeholder()\n"
		"%a = exp.default(%x)\n%b = exp.default(%y)\nreturn (%a, %b)\n";
	static const char tiny[] = "%x : f32[7] = placeholder()\n%a = exp.default(%x)\n"
				   "return (%a,)\n";
	(void)state;
	texts[1] = "FAKE ns=2000 n=100000 add=1";
	struct stax_artifact *a = load(twice);
	float *m[4];
	struct stx_tensor in[2], out[2];
	struct stax_error err;
	for (int i = 0; i < 4; i++)
		m[i] = device_memory(N * 4);
	for (int i = 0; i < 2; i++) {
		in[i] = vector(m[i]);
		out[i] = vector(m[2 + i]);
	}
	measure_next(a);
	assert_int_equal(stax_run(a, in, 2, out, 2, NULL, &err), 0);
	struct stax_tuned t[2];
	assert_int_equal(stax_tuned(a, t, 2), 1);
	assert_int_equal(told, 1);
	uint64_t before = counts->now_ns;
	assert_int_equal(stax_run(a, in, 2, out, 2, NULL, &err), 0);
	assert_int_equal(counts->now_ns - before, 4000);
	stax_artifact_free(a);
	texts[0] = "FAKE ns=100 n=7 add=1";
	a = load(tiny);
	in[0].sizes[0] = out[0].sizes[0] = 7;
	asked = 0;
	measure_next(a);
	assert_int_equal(stax_run(a, in, 1, out, 1, NULL, &err), 0);
	assert_int_equal(asked, 0);
	assert_int_equal(stax_tuned(a, t, 2), 0);
	stax_artifact_free(a);
	for (int i = 0; i < 4; i++)
		stax_cuda_free(m[i]);
}

/* A driver takes most of a millisecond to tell a clock rate: not at each compile. */
static void test_cuda_tune_device_is_asked_once_a_process(void **state)
{
	const Stx__Device *first, *again;
	char text[STX_TARGET_BYTES];
	(void)state;
	assert_int_equal(stx__cuda_device(&first, NULL), 0);
	assert_int_equal(stx__cuda_resolve(text, NULL), 0);
	assert_string_equal(text, "cuda:sm_90a:h200");
	uint64_t before = counts->attributes;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(stx__cuda_device(&again, NULL), 0);
		assert_ptr_equal(again, first);
		assert_int_equal(stx__cuda_resolve(text, NULL), 0);
	}
	assert_int_equal(counts->attributes, before);
}

static void test_cuda_tune_needs_a_cuda_artifact_with_a_target(void **state)
{
	(void)state;
	struct stax_artifact *a = load(exp_graph);
	struct stax_error err;
	assert_int_equal(stax_tune_next_run(a, NULL, NULL, &err), STX_E_USAGE);
	assert_non_null(strstr(err.text, "target"));
	assert_int_equal(stax_tuned(a, NULL, 0), 0);
	stax_artifact_free(a);
}

static void test_cuda_tune_extents_of_values_cover_what_is_reached(void **state)
{
	int64_t sizes[3] = { 4, 5, 1 }, strides[3] = { 10, -2, 7 }, lo, hi;
	struct stx__value v = { .sizes = sizes, .strides = strides };
	(void)state;
	stx__value_extent(&v, 3, 4, &lo, &hi);
	assert_int_equal(lo, -32);
	assert_int_equal(hi, 124);
	strides[1] = 2;
	v.bytes = 400;
	stx__value_extent(&v, 2, 4, &lo, &hi);
	assert_int_equal(lo, 0);
	assert_int_equal(hi, 400);
	sizes[1] = 0;
	v.bytes = 0;
	stx__value_extent(&v, 2, 4, &lo, &hi);
	assert_int_equal(lo, 0);
	assert_int_equal(hi, 0);
}

static void test_cuda_tune_tolerance_is_that_of_another_order(void **state)
{
	const float f[4] = { 1, -2, NAN, INFINITY },
		    near[4] = { 1.00005f, -2.0001f, NAN, INFINITY };
	const float far[4] = { 1, -2, 3, INFINITY }, sign[4] = { 1, -2, NAN, -INFINITY };
	const float sum[2] = { 1000, 1e-4f }, cancels[2] = { 1000, -1e-2f },
		    rounds[2] = { 1000, -3e-4f }, left_out[2] = { 1000, 1 };
	const uint16_t h[2] = { 0x3c00, 0x4000 }, h2[2] = { 0x3c01, 0x4000 },
		       h3[2] = { 0x3d00, 0x4000 };
	const int32_t i[2] = { 5, 6 }, i2[2] = { 5, 7 };
	(void)state;
	assert_int_equal(stx__trial_differs(STX_F32, 1, f, f, 16), -1);
	assert_int_equal(stx__trial_differs(STX_F32, 1, f, near, 16), -1);
	assert_int_equal(stx__trial_differs(STX_F32, 1, f, far, 16), 2);
	assert_int_equal(stx__trial_differs(STX_F32, 1, f, sign, 16), 3);
	assert_int_equal(stx__trial_differs(STX_F32, 1, sum, cancels, 8), -1);
	assert_int_equal(stx__trial_differs(STX_F32, 1, sum, left_out, 8), 1);
	assert_int_equal(stx__trial_differs(STX_F32, 0, sum, cancels, 8), 1);
	assert_int_equal(stx__trial_differs(STX_F32, 0, sum, rounds, 8), -1);
	assert_int_equal(stx__trial_differs(STX_F16, 1, h, h2, 4), -1);
	assert_int_equal(stx__trial_differs(STX_F16, 1, h, h3, 4), 0);
	assert_int_equal(stx__trial_differs(STX_I32, 1, i, i2, 8), 1);
}

/* The fake driver, before libstax looks for one. */
static int load_driver(void)
{
	char path[4096], *dir;
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
	if (n <= 0)
		return -1;
	path[n] = 0;
	dir = dirname(path);
	snprintf(dir + strlen(dir), sizeof path - strlen(path), "/../../fake/libcuda.so.1");
	void *h = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	struct fake_cuda_counts *(*get)(void);
	if (!h) {
		fprintf(stderr, "%s\n", dlerror());
		return -1;
	}
	*(void **)&get = dlsym(h, "fake_cuda_counts");
	counts = get ? get() : NULL;
	return counts ? 0 : -1;
}

int main(void)
{
#define T(t) cmocka_unit_test_setup(t, set_up)
	const struct CMUnitTest tests[] = {
		T(test_cuda_tune_fastest_candidate_is_launched_from_the_next_run_on),
		T(test_cuda_tune_known_timings_measure_nothing),
		T(test_cuda_tune_only_new_candidates_are_measured),
		T(test_cuda_tune_aliasing_arguments_are_not_destroyed),
		T(test_cuda_tune_differing_candidate_is_rejected),
		T(test_cuda_tune_spilling_and_failing_candidates_are_out),
		T(test_cuda_tune_measuring_that_fails_leaves_the_run_alone),
		T(test_cuda_tune_job_goes_by_its_record),
		T(test_cuda_tune_equal_kernels_are_measured_once),
		T(test_cuda_tune_device_is_asked_once_a_process),
		T(test_cuda_tune_needs_a_cuda_artifact_with_a_target),
		T(test_cuda_tune_extents_of_values_cover_what_is_reached),
		T(test_cuda_tune_tolerance_is_that_of_another_order),
	};
	if (load_driver())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
