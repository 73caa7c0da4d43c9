/* test_service.c: a whole daemon with a fake compiler: hits, misses, joins, answers. */
#include "harness.h"

static void test_service_compile_then_lookup_hits_with_the_same_answer(void **state)
{
	(void)state;
	int fd = serve(NULL);
	struct ask a = { .graph = two_kernels };
	send_lookup(fd, 1, &a);
	struct reply r = receive_answer(fd);
	assert_true(r.e->answer->need_body);
	reply_free(&r);

	r = compile_answer(fd, 2, two_kernels);
	assert_int_equal(r.e->request_id, 2);
	assert_false(r.e->answer->hit);
	assert_true(r.e->answer->stored);
	assert_int_equal(r.e->answer->n_kernels, 3);
	assert_int_equal(r.e->answer->kernels[0]->block[0], 16); /* as emitted, not as planned */
	assert_false(r.e->answer->kernels[0]->reused);
	assert_false(r.e->answer->kernels[2]->reused); /* the first one's double, not the store's */
	assert_string_equal(r.e->answer->input_names[0], "in");
	assert_int_equal(r.e->answer->key.len, 32);
	uint8_t key[32], digest[32];
	memcpy(key, r.e->answer->key.data, 32);
	memcpy(digest, r.e->answer->digest.data, 32);
	reply_free(&r);

	for (int i = 0; i < 3; i++) {
		send_lookup(fd, 3, &a);
		r = receive_answer(fd);
		assert_false(r.e->answer->need_body);
		assert_true(r.e->answer->hit && r.e->answer->stored);
		assert_memory_equal(r.e->answer->key.data, key, 32);
		assert_memory_equal(r.e->answer->digest.data, digest, 32);
		assert_int_equal(r.e->answer->n_kernels, 3);
		assert_string_equal(r.e->answer->output_names[0], "out");
		/* The original stages and this request's own. */
		assert_string_equal(r.e->answer->stages[0]->name, "import");
		assert_string_equal(r.e->answer->stages[r.e->answer->n_stages - 1]->name, "lookup");
		/* The path leads to the bytes. */
		struct stat st;
		assert_int_equal(stat(r.e->answer->path, &st), 0);
		assert_int_equal(st.st_size, r.e->answer->size_bytes);
		assert_int_equal(st.st_mode & 0777, 0444);
		reply_free(&r);
	}
	assert_int_equal(stat_of(fd, "compiles"), 1);
	assert_int_equal(stat_of(fd, "hits"), 3);
	assert_int_equal(stat_of(fd, "misses"), 1);
	assert_int_equal(stat_of(fd, "requests"), 4);
	assert_int_equal(stat_of(fd, "kernels_compiled"), 2);
	close(fd);
	assert_int_equal(harness_stop(&h), 0);
}

static void test_service_other_names_share_the_artifact_and_keep_their_names(void **state)
{
	(void)state;
	int fd = serve(NULL);
	compile_ok(fd, 1, "name in out\nkernel a\n");
	struct reply r = compile_answer(fd, 2, "name x y\nkernel a\n");
	assert_true(r.e->answer->hit);
	assert_string_equal(r.e->answer->input_names[0], "x");
	assert_string_equal(r.e->answer->output_names[0], "y");
	reply_free(&r);
	assert_int_equal(stat_of(fd, "compiles"), 1);
	close(fd);
}

static void test_service_fetch_returns_the_artifact(void **state)
{
	(void)state;
	int fd = serve(NULL);
	struct reply r = compile_answer(fd, 1, two_kernels);
	struct reply f = fetch(fd, 5, r.e->answer->digest, "");
	assert_fetched(&f, &r);
	reply_free(&f);
	f = fetch(fd, 6, r.e->answer->digest, "elsewhere");
	assert_error(&f, STX_E_NOT_FOUND);
	reply_free(&f);
	reply_free(&r);
	close(fd);
}

/* CA-07: 64 at once get one entry, whole. */
static void test_service_64_requests_at_once_compile_once(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd[64];
	struct ask a = { .graph = "name in out\nkernel sleep 100 a\nkernel b\n" };
	uint8_t digest[32];
	for (int i = 0; i < 64; i++)
		fd[i] = client_connect(&h);
	for (int i = 0; i < 64; i++)
		send_compile(fd[i], (uint64_t)i, &a);
	for (int i = 0; i < 64; i++) {
		struct reply r = receive_answer(fd[i]);
		assert_int_equal(r.e->request_id, i);
		if (i)
			assert_memory_equal(r.e->answer->digest.data, digest, 32);
		memcpy(digest, r.e->answer->digest.data, 32);
		reply_free(&r);
	}
	assert_int_equal(stat_of(fd[0], "compiles"), 1);
	assert_int_equal(stat_of(fd[0], "kernels_compiled"), 2);
	assert_int_equal(stat_of(fd[0], "joins") + stat_of(fd[0], "hits"), 63);
	for (int i = 0; i < 64; i++)
		close(fd[i]);
}

static void test_service_pipelined_hits_overtake_a_compile(void **state)
{
	(void)state;
	int fd = serve(NULL);
	compile_ok(fd, 1, two_kernels);
	struct ask slow = { .graph = "name i o\nkernel hold\n" }, hot = { .graph = two_kernels };
	send_compile(fd, 10, &slow);
	for (int i = 0; i < 500; i++)
		send_lookup(fd, 100 + (uint64_t)i, &hot);
	for (int i = 0; i < 500; i++) {
		struct reply r = receive_answer(fd);
		assert_int_equal(r.e->request_id, 100 + i);
		reply_free(&r);
	}
	gate_let(1);
	struct reply r = receive_answer(fd);
	assert_int_equal(r.e->request_id, 10);
	reply_free(&r);
	close(fd);
}

static void test_service_progress_names_the_stages(void **state)
{
	(void)state;
	int fd = serve(NULL), seen = 0;
	struct ask a = { .graph = two_kernels, .progress = 1 };
	send_compile(fd, 1, &a);
	for (;;) {
		struct reply r = client_receive(fd);
		assert_non_null(r.e);
		if (r.e->msg_case == STX__ENVELOPE__MSG_ANSWER) {
			reply_free(&r);
			break;
		}
		assert_int_equal(r.e->msg_case, STX__ENVELOPE__MSG_PROGRESS);
		seen |= !strcmp(r.e->progress->stage, "plan") ? 1 : 0;
		seen |= !strcmp(r.e->progress->stage, "link") ? 2 : 0;
		seen |= !strcmp(r.e->progress->stage, "kernels") && r.e->progress->done == 2 &&
					r.e->progress->total == 2
				? 4
				: 0;
		reply_free(&r);
	}
	assert_int_equal(seen, 7);
	close(fd);
}

static void test_service_needed_values_are_named_then_accepted(void **state)
{
	(void)state;
	int fd = serve(NULL);
	struct ask a = { .graph = "name i o\nneed shape\nkernel a\n" };
	for (int i = 0; i < 2; i++) { /* the second answer comes from the memo */
		send_compile(fd, 1, &a);
		struct reply r = receive_answer(fd);
		assert_int_equal(r.e->answer->n_need_values, 1);
		assert_string_equal(r.e->answer->need_values[0]->input, "shape");
		reply_free(&r);
	}
	a.give = "shape";
	send_compile(fd, 2, &a);
	struct reply r = receive_answer(fd);
	assert_int_equal(r.e->answer->key.len, 32);
	reply_free(&r);
	close(fd);
}

static void test_service_a_diagnostic_is_cached_until_recache(void **state)
{
	(void)state;
	int fd = serve(NULL);
	static const char *const graphs[] = { "name i o\ndo key invalid 3\n",
					      "name i o\ndo plan invalid 3\n",
					      "name i o\nkernel invalid 3\n",
					      "name i o\ndo link invalid 3\n" };
	for (unsigned i = 0; i < 4; i++) {
		uint64_t before = stat_of(fd, "failures_cached");
		for (int k = 0; k < 2; k++) {
			struct reply r = compile_error(fd, 1, graphs[i], STX_E_INVALID);
			assert_string_equal(r.e->error->node, "node1");
			reply_free(&r);
			/* The reply does not wait for the failure's commit. */
			until(stat_of(fd, "store_failures") >= i + 1);
		}
		assert_int_equal(stat_of(fd, "failures_cached"), before + 1);
		struct ask a = { .graph = graphs[i], .recache = 1 };
		send_compile(fd, 1, &a);
		struct reply r = receive_error(fd, STX_E_INVALID);
		reply_free(&r);
		assert_int_equal(stat_of(fd, "failures_cached"), before + 1);
	}
	close(fd);
}

static void test_service_namespaces_see_only_their_own(void **state)
{
	(void)state;
	int fd = serve(NULL);
	struct ask a = { .graph = two_kernels, .ns = "one" };
	send_compile(fd, 1, &a);
	struct reply r = receive_answer(fd);
	reply_free(&r);
	a.ns = "two";
	send_lookup(fd, 2, &a);
	r = receive_answer(fd);
	assert_true(r.e->answer->need_body);
	reply_free(&r);
	send_compile(fd, 3, &a);
	r = receive_answer(fd);
	assert_false(r.e->answer->hit);
	assert_false(r.e->answer->kernels[0]->reused);
	reply_free(&r);
	a.ns = "../etc";
	send_compile(fd, 4, &a);
	r = receive_error(fd, STX_E_DENIED);
	reply_free(&r);
	close(fd);
}

/* "one\0..." must not pass for "one". */
static void test_service_namespace_with_a_zero_byte_is_refused(void **state)
{
	(void)state;
	int fd = serve(NULL);
	struct ask a = { .graph = two_kernels, .ns = "one#two" };
	Stx__Lookup l;
	Stx__Options o;
	struct stx_digest digest;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	struct stx_bytes b = { 0 };
	fill_lookup(&l, &o, &a, &digest);
	e.request_id = 1;
	e.msg_case = STX__ENVELOPE__MSG_LOOKUP;
	e.lookup = &l;
	assert_int_equal(stx_frame_pack(&e, 0, &b), 0);
	uint8_t *at = memmem(b.at, b.n, "one#two", 7);
	assert_non_null(at);
	at[3] = 0;
	client_write(fd, b.at, b.n);
	struct reply r = receive_error(fd, STX_E_PROTOCOL);
	assert_non_null(strstr(r.e->error->text, "zero byte"));
	reply_free(&r);
	stx_bytes_free(&b);
	close(fd);
}

static void test_service_a_miss_names_what_differs(void **state)
{
	(void)state;
	int fd = serve(NULL);
	struct reply r = compile_answer(fd, 1, two_kernels);
	assert_non_null(strstr(r.e->answer->reason, "nothing yet"));
	reply_free(&r);
	struct ask a = { .graph = two_kernels, .target = "cpu:x86-64-v4", .fast = 1 };
	send_compile(fd, 2, &a);
	r = receive_answer(fd);
	assert_non_null(
		strstr(r.e->answer->reason, "target: cpu:x86-64-v4 here, cpu:x86-64-v3 there"));
	assert_non_null(strstr(r.e->answer->reason, "options: fast here, strict there"));
	reply_free(&r);
	close(fd);
}

/* Whatever a client calls it: one key. */
static void test_service_spellings_of_a_target_share_the_artifact(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct ask a = { .graph = two_kernels, .target = "cuda:sm_90:h200" };
	send_compile(fd, 1, &a);
	struct reply r = receive_final(fd);
	assert_answer(&r);
	reply_free(&r);
	a.target = "cuda:sm_90a:h200";
	send_lookup(fd, 2, &a);
	r = receive_final(fd);
	assert_answer(&r);
	assert_true(r.e->answer->hit);
	reply_free(&r);
	close(fd);
}

static void test_service_target_that_is_none_costs_no_job(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"", "tpu", "cpu", "cpu:x86-64-v9", "cuda", "cuda:sm_12"
	};
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct ask a = { .graph = "name i o\ndo key crash\n", .target = bad[i] };
		send_compile(fd, 1, &a);
		struct reply r = receive_final(fd);
		assert_error(&r, STX_E_UNSUPPORTED);
		assert_non_null(strstr(r.e->error->text, bad[i]));
		reply_free(&r);
	}
	assert_int_equal(stat_of(fd, "crashes"), 0);
	close(fd);
}

static void test_service_key_job_does_not_wait_for_a_compile(void **state)
{
	(void)state;
	int fd = serve(SETTINGS("workers=1"));
	compile_ok(fd, 1, two_kernels);
	struct ask slow = { .graph = "name i o\nkernel hold\n" };
	struct ask renamed = { .graph = "name x y\nkernel a\nkernel b\nkernel a\n" };
	send_compile(fd, 2, &slow);
	gate_wait(1);
	send_compile(fd, 3, &renamed);
	struct reply r = receive_answer(fd);
	assert_int_equal(r.e->request_id, 3);
	assert_true(r.e->answer->hit);
	reply_free(&r);
	gate_let(1);
	r = receive_answer(fd);
	assert_int_equal(r.e->request_id, 2);
	reply_free(&r);
	close(fd);
}

static void test_service_graphs_in_flight_share_kernels(void **state)
{
	(void)state;
	int fd = serve(SETTINGS("workers=3")), other = client_connect(&h);
	struct ask a = { .graph = "name i o\nkernel hold\nkernel a\n" };
	struct ask b = { .graph = "name i o\nkernel b\nkernel hold\n" };
	send_compile(fd, 1, &a);
	send_compile(fd, 2, &b);
	wait_for(other, "kernels_compiled", 2); /* both are under way */
	gate_let(1);
	close(other);
	for (int i = 0; i < 2; i++) {
		struct reply r = receive_answer(fd);
		reply_free(&r);
	}
	assert_int_equal(stat_of(fd, "kernels_compiled"), 3);
	assert_int_equal(stat_of(fd, "kernels_reused"), 1);
	close(fd);
}

/* The leader's deadline passes after another has joined it: 0 when it passed before. */
static int leader_leaves_first(uint32_t deadline_ms)
{
	int fd = serve(NULL), other = client_connect(&h), joined;
	compile_ok(fd, 1, two_kernels); /* workers are up */
	struct ask a = { .graph = "name i o\nkernel hold\n", .deadline_ms = deadline_ms }, b = a;
	b.deadline_ms = 0;
	send_compile(fd, 1, &a);
	send_compile(other, 2, &b);
	int third = client_connect(&h);
	until(stat_of(third, "joins") == 1 || readable(fd));
	stat_of(third, "joins"); /* whatever was told before has come */
	joined = !readable(fd);
	close(third);
	struct reply r = receive_error(fd, STX_E_DEADLINE);
	assert_int_equal(r.e->request_id, 1);
	reply_free(&r);
	gate_let(UINT32_MAX);
	r = receive_answer(other);
	reply_free(&r);
	assert_int_equal(stat_of(fd, "kernels_compiled"), 3);
	if (joined)
		assert_int_equal(stat_of(fd, "killed_deadline"), 0);
	close(fd);
	close(other);
	return joined;
}

static void test_service_joiners_have_deadlines_of_their_own(void **state)
{
	(void)state;
	for (uint32_t ms = 200; !leader_leaves_first(ms); ms *= 4)
		teardown(NULL); /* the machine is that slow */
}

static void test_service_client_that_leaves_still_gets_its_graph_stored(void **state)
{
	(void)state;
	int fd = serve(SETTINGS("abandoned=3000000"));
	compile_ok(fd, 1, two_kernels); /* workers are up */
	struct ask a = { .graph = "name i o\nkernel hold\n" };
	send_compile(fd, 1, &a);
	gate_wait(1);
	close(fd);
	fd = client_connect(&h);
	wait_for(fd, "connections", 1);
	gate_let(1);
	wait_for(fd, "store_artifacts", 2);
	send_lookup(fd, 1, &a);
	struct reply r = receive_answer(fd);
	assert_true(r.e->answer->hit);
	reply_free(&r);
	close(fd);
}

static void test_service_cancel_answers_canceled(void **state)
{
	(void)state;
	int fd = serve(NULL);
	struct ask a = { .graph = "name i o\nkernel hold\n" };
	send_compile(fd, 7, &a);
	send_cancel(fd, 7);
	struct reply r = receive_error(fd, STX_E_CANCELED);
	assert_int_equal(r.e->request_id, 7);
	reply_free(&r);
	close(fd);
}

int main(int argc, char **argv)
{
	harness_main(argc, argv);
	const struct CMUnitTest tests[] = {
		T(test_service_compile_then_lookup_hits_with_the_same_answer),
		T(test_service_spellings_of_a_target_share_the_artifact),
		T(test_service_target_that_is_none_costs_no_job),
		T(test_service_other_names_share_the_artifact_and_keep_their_names),
		T(test_service_fetch_returns_the_artifact),
		T(test_service_64_requests_at_once_compile_once),
		T(test_service_pipelined_hits_overtake_a_compile),
		T(test_service_progress_names_the_stages),
		T(test_service_needed_values_are_named_then_accepted),
		T(test_service_a_diagnostic_is_cached_until_recache),
		T(test_service_namespaces_see_only_their_own),
		T(test_service_namespace_with_a_zero_byte_is_refused),
		T(test_service_a_miss_names_what_differs),
		T(test_service_key_job_does_not_wait_for_a_compile),
		T(test_service_graphs_in_flight_share_kernels),
		T(test_service_joiners_have_deadlines_of_their_own),
		T(test_service_client_that_leaves_still_gets_its_graph_stored),
		T(test_service_cancel_answers_canceled),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
