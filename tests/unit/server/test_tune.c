/* test_tune.c: timings in the daemon: merged, kept over a restart, pinned for a job, as choices in
 * answers; the code of a kernel in another configuration. */
#include "tune_ask.h"

static const char graph[] = "name in out\nkernel a\nkernel b\n";

/* The answer to a compile or lookup of the graph for the device. */
static struct reply answer_for(int fd, int is_lookup, const struct setting *s)
{
	return ask_tuned(fd, is_lookup, graph, TARGET, s, NULL, 0);
}

/* "0:large 1:small " */
static void expect_choices(int fd, int is_lookup, const struct setting *s, const char *want)
{
	struct reply r = answer_for(fd, is_lookup, s);
	char text[256] = "";
	for (size_t i = 0; i < r.e->answer->n_choices; i++) {
		size_t n = strlen(text);
		snprintf(text + n, sizeof text - n, "%u:%s ", r.e->answer->choices[i]->kernel,
			 r.e->answer->choices[i]->config);
	}
	assert_int_equal(r.e->answer->n_kernels, 2);
	assert_string_equal(text, want);
	reply_free(&r);
}

static void test_tune_answer_lists_candidates_of_gpu_kernels(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct reply r = answer_for(fd, 0, NULL);
	const Stx__Kernel *k = r.e->answer->kernels[0];
	assert_int_equal(k->n_candidates, 3);
	assert_string_equal(k->candidates[0]->text, "small");
	assert_string_equal(k->candidates[2]->text, "large");
	assert_int_equal(k->candidates[2]->block[0], 128);
	assert_string_equal(k->config, "small");
	assert_string_equal(k->chosen_by, "heuristic");
	assert_int_equal(r.e->answer->n_choices, 0);
	reply_free(&r);
	r = compile_graph(fd, 2, graph); /* for a CPU */
	assert_answer(&r);
	assert_int_equal(r.e->answer->kernels[0]->n_candidates, 0);
	reply_free(&r);
	close(fd);
}

/* LC-03, LC-08, CA-02: what was measured is found by another connection and after a restart, for
 * this kernel, device, driver, target and namespace only. */
static void test_tune_records_are_kept_by_kernel_and_device(void **state)
{
	static const struct setting other[] = { { .device = "NVIDIA A100" },
						{ .driver = 13010 },
						{ .target = "cuda:sm_90a:h100-sxm" },
						{ .ns = "elsewhere" } };
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	expect_tune(fd, "a", "", NULL, "");
	expect_tune(fd, "a", "small:30 large:20", NULL, "small:30 large:20 ");
	for (int round = 0; round < 2; round++) {
		expect_tune(fd, "a", "", NULL, "small:30 large:20 ");
		expect_tune(fd, "changed", "", NULL, "");
		for (unsigned i = 0; i < sizeof other / sizeof *other; i++)
			expect_tune(fd, "a", "", &other[i], "");
		close(fd);
		if (!round) {
			assert_int_equal(harness_stop(&h), 0);
			harness_start(&h, NULL);
		}
		fd = client_connect(&h);
	}
	assert_int_equal(stat_of(fd, "store_tunes"), 1);
	close(fd);
}

/* Adding a candidate keeps the old timings; measuring one again replaces its own. */
static void test_tune_new_candidate_keeps_old_timings(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h), two = client_connect(&h);
	expect_tune(fd, "a", "small:30 large:20", NULL, "small:30 large:20 ");
	expect_tune(two, "a", "huge:25", NULL, "small:30 large:20 huge:25 ");
	expect_tune(fd, "a", "small:15", NULL, "large:20 huge:25 small:15 ");
	close(fd);
	close(two);
}

/* The reply of a compile carries the measured choice, for the request's device. */
static void test_tune_answers_carry_the_measured_choice(void **state)
{
	static const struct setting other = { .device = "NVIDIA A100" };
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	expect_choices(fd, 0, NULL, "");
	expect_tune(fd, "a", "small:30 large:20 medium:25", NULL, "small:30 large:20 medium:25 ");
	expect_choices(fd, 1, NULL, "0:large ");
	expect_tune(fd, "b", "small:10 medium:0", NULL, "small:10 medium:0 ");
	for (int i = 0; i < 2; i++)
		expect_choices(fd, i, NULL, "0:large 1:small ");
	expect_choices(fd, 1, &other, "");
	/* Timings of configurations the kernel no longer has choose nothing. */
	expect_tune(fd, "b", "gone:1", NULL, "small:10 medium:0 gone:1 ");
	expect_choices(fd, 1, NULL, "0:large 1:small ");
	/* Without a device there is nothing to choose for. */
	struct ask a = { .graph = graph, .target = TARGET };
	send_lookup(fd, 3, &a);
	struct reply r = receive_final(fd);
	assert_answer(&r);
	assert_int_equal(r.e->answer->n_choices, 0);
	reply_free(&r);
	close(fd);
}

/* A job id pins one record set: what its first rank saw is what all its ranks see, whatever is
 * measured meanwhile; another job and no job see the latest. */
static void test_tune_job_pins_one_record_set(void **state)
{
	static const struct setting job = { .job = "j1" }, late = { .job = "j2" };
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	expect_choices(fd, 0, NULL, "");
	expect_tune(fd, "a", "small:30 large:20", NULL, "small:30 large:20 ");
	expect_choices(fd, 1, &job, "0:large "); /* the first rank */
	expect_tune(fd, "a", "medium:1", NULL, "small:30 large:20 medium:1 ");
	expect_tune(fd, "b", "medium:5 large:4", NULL, "medium:5 large:4 ");
	expect_choices(fd, 1, NULL, "0:medium 1:large ");
	for (int i = 0; i < 2; i++) {
		expect_choices(fd, 1, &job, "0:large ");
		expect_choices(fd, 1, &late, "0:medium 1:large ");
		expect_tune(fd, "a", "", &job, "small:30 large:20 ");
		close(fd);
		if (!i) {
			assert_int_equal(harness_stop(&h), 0);
			harness_start(&h, NULL);
		}
		fd = client_connect(&h);
	}
	close(fd);
}

/* Ranks that measure at the same time all take what the first of them found. */
static void test_tune_ranks_that_measure_agree(void **state)
{
	static const struct setting job = { .job = "j1" };
	(void)state;
	harness_start(&h, NULL);
	int one = client_connect(&h), two = client_connect(&h);
	expect_choices(one, 0, &job, ""); /* both have seen nothing */
	expect_choices(two, 1, &job, "");
	expect_tune(one, "a", "", &job, "");
	expect_tune(two, "a", "", &job, "");
	expect_tune(one, "a", "small:30 large:20", &job, "small:30 large:20 ");
	expect_tune(two, "a", "small:19 large:20", &job, "small:30 large:20 ");
	expect_choices(two, 1, &job, "0:large ");
	expect_tune(two, "a", "", NULL, "small:19 large:20 "); /* the timings themselves are kept */
	close(one);
	close(two);
}

/* A rank that loads when nothing is known makes its calls so, and so do those that load after
 * another job has measured; a rank that measures speaks for all that load later. */
static void test_tune_ranks_that_load_agree(void **state)
{
	static const struct setting job = { .job = "j1", .loads = 1 }, tunes = { .job = "j1" };
	static const struct setting none = { .loads = 1 };
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	expect_tune(fd, "call", "", &job, "");
	expect_tune(fd, "call", "algo:30 kernel:20", NULL, "algo:30 kernel:20 ");
	expect_tune(fd, "call", "", &job, "");
	expect_tune(fd, "call", "", &none, "algo:30 kernel:20 ");
	expect_tune(fd, "call", "", &tunes, "algo:30 kernel:20 ");
	expect_tune(fd, "call", "algo:1", NULL, "kernel:20 algo:1 ");
	expect_tune(fd, "call", "", &job, "algo:30 kernel:20 ");
	close(fd);
	assert_int_equal(harness_stop(&h), 0);
}

static void test_tune_malformed_requests_are_refused(void **state)
{
	static const struct setting cpu = { .target = "cpu" }, ns = { .ns = "a/b" };
	char text[200];
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct reply r = tune(fd, "a", "", &cpu); /* which level? */
	assert_error(&r, STX_E_UNSUPPORTED);
	reply_free(&r);
	r = tune(fd, "a", "", &ns);
	assert_error(&r, STX_E_PROTOCOL);
	reply_free(&r);
	memset(text, 'x', sizeof text);
	text[sizeof text - 1] = 0;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__Tune t = STX__TUNE__INIT;
	Stx__Device v;
	Stx__TuneRecord rec = STX__TUNE_RECORD__INIT, *list[1] = { &rec };
	Stx__Timing at = STX__TIMING__INIT, *p[100];
	uint8_t digest[32] = { 1 };
	for (int i = 0; i < 100; i++)
		p[i] = &at;
	fill_device(&v, NULL);
	for (int i = 0; i < 7; i++) {
		at.config = "small";
		at.verdict = STX_VERDICT_MEASURED;
		at.median_ns = 7;
		rec.kernel = (ProtobufCBinaryData){ 32, digest };
		rec.timings = p;
		rec.n_timings = 1;
		t.target = TARGET;
		t.device = &v;
		t.records = list;
		t.n_records = 1;
		e.msg_case = STX__ENVELOPE__MSG_TUNE;
		e.tune = &t;
		switch (i) {
		case 0: rec.kernel.len = 31; break;
		case 1: at.config = text; break;
		case 2: at.verdict = STX_VERDICT_COUNT; break;
		case 3: at.verdict = STX_VERDICT_NONE; break;
		case 4: at.median_ns = 0; break;
		case 5: rec.n_timings = 65; break;
		default: t.device = NULL;
		}
		client_send(fd, &e, NULL, 0);
		r = receive_final(fd);
		assert_error(&r, STX_E_PROTOCOL);
		reply_free(&r);
	}
	assert_int_equal(stat_of(fd, "store_tunes"), 0);
	close(fd);
}

static struct reply code(int fd, const char *ir, const char *config, const char *ns)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__KernelCode k = STX__KERNEL_CODE__INIT;
	struct stx_digest digest = stx_digest_of(ir, strlen(ir));
	k.ns = (char *)(ns ? ns : "");
	k.target = TARGET;
	k.kernel = (ProtobufCBinaryData){ 32, digest.b };
	k.config = (char *)config;
	e.request_id = 5;
	e.msg_case = STX__ENVELOPE__MSG_KERNEL_CODE;
	e.kernel_code = &k;
	client_send(fd, &e, NULL, 0);
	return receive_final(fd);
}

static void expect_code(int fd, const char *ir, const char *config, const char *want)
{
	struct reply r = code(fd, ir, config, NULL);
	assert_non_null(r.e);
	if (r.e->msg_case != STX__ENVELOPE__MSG_KERNEL_CODE_REPLY)
		fail_msg("error: %s", r.e->error->text);
	assert_int_equal(r.e->request_id, 5);
	assert_int_equal(r.body.n, strlen(want));
	assert_memory_equal(r.body.at, want, r.body.n);
	assert_int_equal(r.e->kernel_code_reply->kernel->registers, 5);
	assert_int_equal(r.e->kernel_code_reply->kernel->block[0], 16);
	reply_free(&r);
}

/* The code of other configurations are kernels of their own, compiled once and kept. */
static void test_tune_code_of_a_configuration_is_compiled_once(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct reply r = answer_for(fd, 0, NULL);
	reply_free(&r);
	assert_int_equal(stat_of(fd, "kernels_compiled"), 2);
	expect_code(fd, "a", "large", "obj:a in large");
	expect_code(fd, "a", "small", "obj:a in small"); /* of the compile */
	assert_int_equal(stat_of(fd, "kernels_compiled"), 3);
	close(fd);
	assert_int_equal(harness_stop(&h), 0);
	harness_start(&h, NULL);
	fd = client_connect(&h);
	expect_code(fd, "a", "large", "obj:a in large");
	assert_int_equal(stat_of(fd, "kernels_compiled"), 0);
	r = code(fd, "a", "", NULL); /* names of all it can have */
	assert_int_equal(r.e->msg_case, STX__ENVELOPE__MSG_KERNEL_CODE_REPLY);
	assert_int_equal(r.e->kernel_code_reply->kernel->n_candidates, 2);
	assert_string_equal(r.e->kernel_code_reply->kernel->candidates[1]->text, "large");
	reply_free(&r);
	close(fd);
}

static void test_tune_code_at_once_is_compiled_once(void **state)
{
	enum { N = 16 };
	int fd[N];
	(void)state;
	harness_start(&h, NULL);
	fd[0] = client_connect(&h);
	struct reply r = answer_for(fd[0], 0, NULL);
	reply_free(&r);
	for (int i = 1; i < N; i++)
		fd[i] = client_connect(&h);
	for (int i = 0; i < N; i++) {
		Stx__Envelope e = STX__ENVELOPE__INIT;
		Stx__KernelCode k = STX__KERNEL_CODE__INIT;
		struct stx_digest digest = stx_digest_of("a", 1);
		k.target = TARGET;
		k.kernel = (ProtobufCBinaryData){ 32, digest.b };
		k.config = "medium";
		e.msg_case = STX__ENVELOPE__MSG_KERNEL_CODE;
		e.kernel_code = &k;
		client_send(fd[i], &e, NULL, 0);
	}
	for (int i = 0; i < N; i++) {
		r = receive_final(fd[i]);
		assert_int_equal(r.e->msg_case, STX__ENVELOPE__MSG_KERNEL_CODE_REPLY);
		reply_free(&r);
	}
	assert_int_equal(stat_of(fd[0], "kernels_compiled"), 3);
	for (int i = 0; i < N; i++)
		close(fd[i]);
}

static void test_tune_code_that_cannot_be_made_is_an_error(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct reply r = code(fd, "a", "large", NULL);
	assert_error(&r, STX_E_NOT_FOUND); /* never compiled here */
	assert_non_null(strstr(r.e->error->text, "STAX_RECACHE"));
	reply_free(&r);
	r = answer_for(fd, 0, NULL);
	reply_free(&r);
	r = code(fd, "a", "large", "elsewhere");
	assert_error(&r, STX_E_NOT_FOUND);
	reply_free(&r);
	for (int i = 0; i < 2; i++) {
		r = code(fd, "a", "bad", NULL);
		assert_error(&r, STX_E_INVALID);
		reply_free(&r);
		wait_for(fd, "store_failures", 1);
	}
	assert_int_equal(stat_of(fd, "failures_cached"), 1);
	expect_code(fd, "a", "large", "obj:a in large");
	close(fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(test_tune_answer_lists_candidates_of_gpu_kernels),
		T(test_tune_records_are_kept_by_kernel_and_device),
		T(test_tune_new_candidate_keeps_old_timings),
		T(test_tune_answers_carry_the_measured_choice),
		T(test_tune_job_pins_one_record_set),
		T(test_tune_ranks_that_measure_agree),
		T(test_tune_ranks_that_load_agree),
		T(test_tune_malformed_requests_are_refused),
		T(test_tune_code_of_a_configuration_is_compiled_once),
		T(test_tune_code_at_once_is_compiled_once),
		T(test_tune_code_that_cannot_be_made_is_an_error),
	};
	harness_main(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
