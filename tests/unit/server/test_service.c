/* test_service.c: a whole daemon with a fake compiler: hits, misses, joins, faults, restarts. */
#include "harness.h"

#include <sched.h>
#include <seccomp.h>
#include <sys/mount.h>

static struct harness h;

static int teardown(void **state)
{
	(void)state;
	if (h.pid)
		harness_stop(&h);
	harness_remove(&h);
	return 0;
}

static const char two_kernels[] = "name in out\nkernel a\nkernel b\nkernel a\n";

static void test_service_compile_then_lookup_hits_with_the_same_answer(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct ask a = { .graph = two_kernels };
	send_lookup(fd, 1, &a);
	struct reply r = receive_final(fd);
	assert_answer(&r);
	assert_true(r.e->answer->need_body);
	reply_free(&r);

	r = compile_graph(fd, 2, two_kernels);
	assert_answer(&r);
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
		r = receive_final(fd);
		assert_answer(&r);
		assert_false(r.e->answer->need_body);
		assert_true(r.e->answer->hit && r.e->answer->stored);
		assert_memory_equal(r.e->answer->key.data, key, 32);
		assert_memory_equal(r.e->answer->digest.data, digest, 32);
		assert_int_equal(r.e->answer->n_kernels, 3);
		assert_string_equal(r.e->answer->output_names[0], "out");
		assert_string_equal(r.e->answer->guards[0], "s0 > 1");
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
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct reply r = compile_graph(fd, 1, "name in out\nkernel a\n");
	assert_answer(&r);
	reply_free(&r);
	r = compile_graph(fd, 2, "name x y\nkernel a\n");
	assert_answer(&r);
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
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct reply r = compile_graph(fd, 1, two_kernels);
	assert_answer(&r);
	Stx__Fetch q = STX__FETCH__INIT;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	q.digest = r.e->answer->digest;
	e.request_id = 5;
	e.msg_case = STX__ENVELOPE__MSG_FETCH;
	e.fetch = &q;
	client_send(fd, &e, NULL, 0);
	struct reply f = receive_final(fd);
	assert_non_null(f.e);
	assert_int_equal(f.e->msg_case, STX__ENVELOPE__MSG_FETCH_REPLY);
	struct stx_digest d = stx_digest_of(f.body.at, f.body.n);
	assert_memory_equal(d.b, r.e->answer->digest.data, 32);
	reply_free(&f);
	/* Objects come in order of first use, one for each distinct kernel. */
	q.ns = "elsewhere";
	client_send(fd, &e, NULL, 0);
	f = receive_final(fd);
	assert_error(&f, STX_E_NOT_FOUND);
	reply_free(&f);
	reply_free(&r);
	close(fd);
}

static void test_service_restart_keeps_hits_and_kernels(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct reply r = compile_graph(fd, 1, two_kernels);
	assert_answer(&r);
	reply_free(&r);
	close(fd);
	assert_int_equal(harness_stop(&h), 0);
	harness_start(&h, NULL);
	fd = client_connect(&h);
	r = compile_graph(fd, 1, two_kernels);
	assert_answer(&r);
	assert_true(r.e->answer->hit);
	assert_int_equal(r.e->answer->n_kernels, 3);
	assert_string_equal(r.e->answer->input_names[0], "in");
	reply_free(&r);
	r = compile_graph(fd, 2, "name in out\nkernel b\nkernel c\n");
	assert_answer(&r);
	assert_false(r.e->answer->hit);
	assert_true(r.e->answer->kernels[0]->reused);
	assert_false(r.e->answer->kernels[1]->reused);
	reply_free(&r);
	assert_int_equal(stat_of(fd, "kernels_compiled"), 1);
	assert_int_equal(stat_of(fd, "kernels_reused"), 1);
	close(fd);
}

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
		struct reply r = receive_final(fd[i]);
		assert_answer(&r);
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
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct reply r = compile_graph(fd, 1, two_kernels);
	assert_answer(&r);
	reply_free(&r);
	struct ask slow = { .graph = "name i o\nkernel sleep 300 slow\n" },
		   hot = { .graph = two_kernels };
	send_compile(fd, 10, &slow);
	for (int i = 0; i < 500; i++)
		send_lookup(fd, 100 + (uint64_t)i, &hot);
	for (int i = 0; i < 500; i++) {
		r = receive_final(fd);
		assert_answer(&r);
		assert_int_equal(r.e->request_id, 100 + i);
		reply_free(&r);
	}
	r = receive_final(fd);
	assert_answer(&r);
	assert_int_equal(r.e->request_id, 10);
	reply_free(&r);
	close(fd);
}

static void test_service_progress_names_the_stages(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h), seen = 0;
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
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct ask a = { .graph = "name i o\nneed shape\nkernel a\n" };
	for (int i = 0; i < 2; i++) { /* the second answer comes from the memo */
		send_compile(fd, 1, &a);
		struct reply r = receive_final(fd);
		assert_answer(&r);
		assert_int_equal(r.e->answer->n_need_values, 1);
		assert_string_equal(r.e->answer->need_values[0]->input, "shape");
		reply_free(&r);
	}
	a.give = "shape";
	send_compile(fd, 2, &a);
	struct reply r = receive_final(fd);
	assert_answer(&r);
	assert_int_equal(r.e->answer->key.len, 32);
	reply_free(&r);
	close(fd);
}

static void test_service_a_diagnostic_is_cached_until_recache(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	static const char *const graphs[] = { "name i o\ndo key invalid 3\n",
					      "name i o\ndo plan invalid 3\n",
					      "name i o\nkernel invalid 3\n",
					      "name i o\ndo link invalid 3\n" };
	for (unsigned i = 0; i < 4; i++) {
		uint64_t before = stat_of(fd, "failures_cached");
		for (int k = 0; k < 2; k++) {
			struct reply r = compile_graph(fd, 1, graphs[i]);
			assert_error(&r, STX_E_INVALID);
			assert_string_equal(r.e->error->node, "node1");
			reply_free(&r);
			/* The reply does not wait for the failure's commit. */
			for (int t = 0; t < 500 && stat_of(fd, "store_failures") < i + 1; t++)
				usleep(10000);
		}
		assert_int_equal(stat_of(fd, "failures_cached"), before + 1);
		struct ask a = { .graph = graphs[i], .recache = 1 };
		send_compile(fd, 1, &a);
		struct reply r = receive_final(fd);
		assert_error(&r, STX_E_INVALID);
		reply_free(&r);
		assert_int_equal(stat_of(fd, "failures_cached"), before + 1);
	}
	close(fd);
}

static void test_service_a_graph_that_crashes_twice_is_quarantined(void **state)
{
	(void)state;
	static const char *const settings[] = { "workers=2", NULL };
	harness_start(&h, settings);
	int fd = client_connect(&h);
	static const char *const graphs[] = { "name i o\ndo key crash\n",
					      "name i o\ndo plan abort\n",
					      "name i o\nkernel crash 1\n",
					      "name i o\ndo link exit 1\n" };
	for (unsigned i = 0; i < 4; i++) {
		struct reply r = compile_graph(fd, 1, graphs[i]);
		assert_error(&r, STX_E_CRASHED);
		if (i == 0)
			assert_non_null(strstr(r.e->error->text, "signal 11"));
		reply_free(&r);
		r = compile_graph(fd, 2, graphs[i]);
		assert_error(&r, STX_E_QUARANTINED);
		reply_free(&r);
		struct ask a = { .graph = graphs[i] };
		send_lookup(fd, 3, &a);
		r = receive_final(fd);
		assert_error(&r, STX_E_QUARANTINED);
		reply_free(&r);
		assert_int_equal(stat_of(fd, "crashes"), 2 * (i + 1));
	}
	/* Others are served as before. */
	struct reply r = compile_graph(fd, 9, two_kernels);
	assert_answer(&r);
	reply_free(&r);
	assert_int_equal(stat_of(fd, "store_failures"), 0);
	close(fd);
}

static void test_service_deadline_kills_only_its_own_job(void **state)
{
	(void)state;
	static const char *const settings[] = { "workers=2", NULL };
	harness_start(&h, settings);
	int fd = client_connect(&h);
	struct ask hang = { .graph = "name i o\nkernel spin\n", .deadline_ms = 300 };
	send_compile(fd, 1, &hang);
	struct reply r = compile_graph(fd, 2, two_kernels);
	assert_answer(&r);
	assert_int_equal(r.e->request_id, 2);
	reply_free(&r);
	r = receive_final(fd);
	assert_error(&r, STX_E_DEADLINE);
	assert_int_equal(r.e->request_id, 1);
	reply_free(&r);
	assert_int_equal(stat_of(fd, "store_failures"), 0);
	close(fd);
}

static void test_service_memory_limit_is_named_and_not_cached(void **state)
{
	(void)state;
	static const char *const settings[] = { "worker-memory=256MiB", NULL };
	harness_start(&h, settings);
	int fd = client_connect(&h);
	struct reply r = compile_graph(fd, 1, "name i o\ndo plan eat 2000\n");
	assert_error(&r, STX_E_TOO_LARGE);
	assert_non_null(strstr(r.e->error->text, "256MiB"));
	reply_free(&r);
	assert_int_equal(stat_of(fd, "store_failures"), 0);
	close(fd);
}

static void test_service_processor_time_limit_is_named(void **state)
{
	(void)state;
	static const char *const settings[] = { "worker-cpu=1", NULL };
	harness_start(&h, settings);
	int fd = client_connect(&h);
	struct reply r = compile_graph(fd, 1, "name i o\ndo plan spin\n");
	assert_error(&r, STX_E_DEADLINE);
	assert_non_null(strstr(r.e->error->text, "worker_cpu"));
	reply_free(&r);
	close(fd);
}

static void test_service_client_that_leaves_still_gets_its_graph_stored(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct reply r = compile_graph(fd, 1, two_kernels); /* workers are up */
	assert_answer(&r);
	reply_free(&r);
	struct ask a = { .graph = "name i o\nkernel sleep 100 q\n" };
	send_compile(fd, 1, &a);
	close(fd);
	fd = client_connect(&h);
	for (int i = 0; i < 200 && stat_of(fd, "store_artifacts") < 2; i++)
		usleep(20000);
	send_lookup(fd, 1, &a);
	r = receive_final(fd);
	assert_answer(&r);
	assert_true(r.e->answer->hit);
	reply_free(&r);
	close(fd);
}

static void test_service_cancel_answers_canceled(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct ask a = { .graph = "name i o\nkernel sleep 200 q\n" };
	send_compile(fd, 7, &a);
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__Cancel c = STX__CANCEL__INIT;
	e.request_id = 8;
	e.msg_case = STX__ENVELOPE__MSG_CANCEL;
	e.cancel = &c;
	c.request_id = 7;
	client_send(fd, &e, NULL, 0);
	struct reply r = receive_final(fd);
	assert_error(&r, STX_E_CANCELED);
	assert_int_equal(r.e->request_id, 7);
	reply_free(&r);
	close(fd);
}

static void test_service_namespaces_see_only_their_own(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct ask a = { .graph = two_kernels, .ns = "one" };
	send_compile(fd, 1, &a);
	struct reply r = receive_final(fd);
	assert_answer(&r);
	reply_free(&r);
	a.ns = "two";
	send_lookup(fd, 2, &a);
	r = receive_final(fd);
	assert_answer(&r);
	assert_true(r.e->answer->need_body);
	reply_free(&r);
	send_compile(fd, 3, &a);
	r = receive_final(fd);
	assert_answer(&r);
	assert_false(r.e->answer->hit);
	assert_false(r.e->answer->kernels[0]->reused);
	reply_free(&r);
	a.ns = "../etc";
	send_compile(fd, 4, &a);
	r = receive_final(fd);
	assert_error(&r, STX_E_DENIED);
	reply_free(&r);
	close(fd);
}

static void test_service_a_miss_names_what_differs(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct reply r = compile_graph(fd, 1, two_kernels);
	assert_answer(&r);
	assert_non_null(strstr(r.e->answer->reason, "nothing yet"));
	reply_free(&r);
	struct ask a = { .graph = two_kernels, .target = "cpu:x86-64-v4", .fast = 1 };
	send_compile(fd, 2, &a);
	r = receive_final(fd);
	assert_answer(&r);
	assert_non_null(
		strstr(r.e->answer->reason, "target: cpu:x86-64-v4 here, cpu:x86-64-v3 there"));
	assert_non_null(strstr(r.e->answer->reason, "options: fast here, strict there"));
	reply_free(&r);
	close(fd);
}

static void test_service_ping_reports_sandbox_and_workers(void **state)
{
	(void)state;
	static const char *const settings[] = { "workers=2", "require-sandbox=1", NULL };
	harness_start(&h, settings);
	int fd = client_connect(&h);
	struct reply r = compile_graph(fd, 1, two_kernels);
	assert_answer(&r);
	reply_free(&r);
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__Ping q = STX__PING__INIT;
	e.msg_case = STX__ENVELOPE__MSG_PING;
	e.ping = &q;
	client_send(fd, &e, NULL, 0);
	r = receive_final(fd);
	assert_non_null(r.e);
	assert_int_equal(r.e->msg_case, STX__ENVELOPE__MSG_PONG);
	assert_int_equal(r.e->pong->workers, 2);
	assert_true(r.e->pong->n_worker_pids >= 1);
	assert_int_equal(strncmp(r.e->pong->sandbox, "seccomp", 7), 0);
	assert_int_equal(r.e->pong->fingerprint.len, 32);
	reply_free(&r);
	close(fd);
}

static void test_service_killed_workers_lose_no_request(void **state)
{
	(void)state;
	static const char *const settings[] = { "workers=2", NULL };
	harness_start(&h, settings);
	int fd = client_connect(&h);
	struct ask a = { .graph = "name i o\nkernel sleep 400 q\n" };
	send_compile(fd, 1, &a);
	usleep(150000);
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__Ping q = STX__PING__INIT;
	e.msg_case = STX__ENVELOPE__MSG_PING;
	e.ping = &q;
	client_send(fd, &e, NULL, 0);
	struct reply r = receive_final(fd);
	assert_int_equal(r.e->msg_case, STX__ENVELOPE__MSG_PONG);
	assert_true(r.e->pong->n_worker_pids >= 1);
	for (size_t i = 0; i < r.e->pong->n_worker_pids; i++)
		kill((pid_t)r.e->pong->worker_pids[i], SIGKILL);
	reply_free(&r);
	r = receive_final(fd);
	assert_answer(
		&r); /* tried again on another worker; no quarantine for a kill from outside */
	reply_free(&r);
	assert_true(stat_of(fd, "restarts") >= 1);
	close(fd);
}

static void test_service_sigterm_finishes_flights_first(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct ask a = { .graph = "name i o\nkernel sleep 300 q\n" };
	send_compile(fd, 1, &a);
	usleep(100000);
	kill(h.pid, SIGTERM);
	struct reply r = receive_final(fd);
	assert_answer(&r);
	assert_true(r.e->answer->stored);
	reply_free(&r);
	assert_int_equal(harness_wait(&h), 0);
	assert_int_not_equal(access(h.socket, F_OK), 0);
	close(fd);
}

static void test_service_kill_9_leaves_a_usable_store(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct reply r = compile_graph(fd, 1, two_kernels);
	assert_answer(&r);
	reply_free(&r);
	kill(h.pid, SIGKILL);
	assert_int_equal(harness_wait(&h), -SIGKILL);
	close(fd);
	harness_start(&h, NULL); /* over the stale socket */
	fd = client_connect(&h);
	r = compile_graph(fd, 1, two_kernels);
	assert_answer(&r);
	assert_true(r.e->answer->hit);
	reply_free(&r);
	close(fd);
}

static void test_service_second_daemon_is_refused(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct harness other = h;
	other.pid = 0;
	harness_start(&other, NULL);
	assert_int_equal(harness_wait(&other), 100);
	struct reply r = compile_graph(fd, 1, two_kernels);
	assert_answer(&r); /* the first is untouched */
	reply_free(&r);
	close(fd);
}

static void test_service_idle_exit_ends_the_daemon(void **state)
{
	(void)state;
	static const char *const settings[] = { "idle-exit=1", NULL };
	harness_start(&h, settings);
	int fd = client_connect(&h);
	struct reply r = compile_graph(fd, 1, two_kernels);
	assert_answer(&r);
	reply_free(&r);
	close(fd);
	assert_int_equal(harness_wait(&h), 0);
}

static void test_service_key_job_does_not_wait_for_a_compile(void **state)
{
	(void)state;
	static const char *const settings[] = { "workers=1", NULL };
	harness_start(&h, settings);
	int fd = client_connect(&h);
	struct reply r = compile_graph(fd, 1, two_kernels);
	assert_answer(&r);
	reply_free(&r);
	struct ask slow = { .graph = "name i o\nkernel sleep 1500 s\n" };
	struct ask renamed = { .graph = "name x y\nkernel a\nkernel b\nkernel a\n" };
	send_compile(fd, 2, &slow);
	send_compile(fd, 3, &renamed);
	r = receive_final(fd);
	assert_answer(&r);
	assert_int_equal(r.e->request_id, 3);
	assert_true(r.e->answer->hit);
	reply_free(&r);
	r = receive_final(fd);
	assert_answer(&r);
	assert_int_equal(r.e->request_id, 2);
	reply_free(&r);
	close(fd);
}

static void test_service_graphs_in_flight_share_kernels(void **state)
{
	(void)state;
	static const char *const settings[] = { "workers=3", NULL };
	harness_start(&h, settings);
	int fd = client_connect(&h);
	struct ask a = { .graph = "name i o\nkernel sleep 300 shared\nkernel a\n" };
	struct ask b = { .graph = "name i o\nkernel b\nkernel sleep 300 shared\n" };
	send_compile(fd, 1, &a);
	send_compile(fd, 2, &b);
	for (int i = 0; i < 2; i++) {
		struct reply r = receive_final(fd);
		assert_answer(&r);
		reply_free(&r);
	}
	assert_int_equal(stat_of(fd, "kernels_compiled"), 3);
	assert_int_equal(stat_of(fd, "kernels_reused"), 1);
	close(fd);
}

static void test_service_joiners_have_deadlines_of_their_own(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct reply r = compile_graph(fd, 1, two_kernels); /* workers are up */
	assert_answer(&r);
	reply_free(&r);
	struct ask a = { .graph = "name i o\nkernel sleep 800 s\n", .deadline_ms = 200 }, b = a;
	b.deadline_ms = 20000;
	send_compile(fd, 1, &a); /* the leader leaves first */
	send_compile(fd, 2, &b);
	r = receive_final(fd);
	assert_error(&r, STX_E_DEADLINE);
	assert_int_equal(r.e->request_id, 1);
	reply_free(&r);
	r = receive_final(fd);
	assert_answer(&r);
	assert_int_equal(r.e->request_id, 2);
	reply_free(&r);
	assert_int_equal(stat_of(fd, "killed_deadline"), 0);
	assert_int_equal(stat_of(fd, "kernels_compiled"), 3);
	close(fd);
}

static void test_service_recycled_workers_go_unnoticed(void **state)
{
	(void)state;
	static const char *const settings[] = { "workers=2", "worker-jobs=1", NULL };
	harness_start(&h, settings);
	int fd = client_connect(&h);
	for (int i = 0; i < 5; i++) {
		char graph[64];
		snprintf(graph, sizeof graph, "name i o\nkernel k%d\nkernel l%d\n", i, i);
		struct reply r = compile_graph(fd, 1, graph);
		assert_answer(&r);
		reply_free(&r);
	}
	assert_true(stat_of(fd, "recycled") >= 20);
	assert_int_equal(stat_of(fd, "crashes"), 0);
	close(fd);
}

static void test_service_workers_that_do_not_start_are_reported(void **state)
{
	(void)state;
	char path[96];
	harness_prepare(&h);
	snprintf(path, sizeof path, "%s/FAKE_NO_START", h.dir);
	close(open(path, O_CREAT | O_WRONLY, 0644));
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct reply r = compile_graph(fd, 1, two_kernels);
	assert_error(&r, STX_E_INTERNAL);
	assert_non_null(strstr(r.e->error->text, "told not to start"));
	reply_free(&r);
	/* It tries again by itself. */
	unlink(path);
	for (int i = 0; i < 300; i++) {
		r = compile_graph(fd, 2, two_kernels);
		if (r.e && r.e->msg_case == STX__ENVELOPE__MSG_ANSWER)
			break;
		reply_free(&r);
		usleep(20000);
	}
	assert_answer(&r);
	reply_free(&r);
	close(fd);
}

/* A store on a file system of 1 MiB: possible for root and where users have namespaces. */
static int small_store(void)
{
	char dir[96];
	snprintf(dir, sizeof dir, "%s/cache", h.dir);
	if (unshare(geteuid() ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return -1;
	mkdir(dir, 0700);
	return mount("tmpfs", dir, "tmpfs", 0, "size=1m");
}

static void test_service_full_disk_returns_the_artifact_unstored(void **state)
{
	(void)state;
	harness_prepare(&h);
	fflush(NULL);
	h.pid = fork();
	if (h.pid == 0) {
		if (small_store())
			_exit(77);
		harness_serve(&h, NULL);
	}
	usleep(100000);
	int status;
	if (waitpid(h.pid, &status, WNOHANG) == h.pid) {
		h.pid = 0;
		assert_int_equal(WEXITSTATUS(status), 77);
		skip();
	}
	int fd = client_connect(&h);
	struct stx_bytes big = { 0 };
	stx_bytes_puts(&big, "name i o\nkernel a\n");
	srand(5);
	for (int i = 0; i < 3000000; i++) /* hardly compressible lines */
		stx_bytes_u8(&big, i % 200 ? (uint8_t)('0' + rand() % 75) : '\n');
	struct reply r = compile_graph(fd, 1, stx_bytes_cstr(&big));
	assert_answer(&r);
	assert_false(r.e->answer->stored);
	assert_string_equal(r.e->answer->path, "");
	Stx__Fetch q = STX__FETCH__INIT;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	q.digest = r.e->answer->digest;
	e.msg_case = STX__ENVELOPE__MSG_FETCH;
	e.fetch = &q;
	client_send(fd, &e, NULL, 0);
	struct reply f = receive_final(fd);
	assert_non_null(f.e);
	assert_int_equal(f.e->msg_case, STX__ENVELOPE__MSG_FETCH_REPLY);
	assert_int_equal(f.body.n, r.e->answer->size_bytes);
	struct stx_digest d = stx_digest_of(f.body.at, f.body.n);
	assert_memory_equal(d.b, r.e->answer->digest.data, 32);
	reply_free(&f);
	reply_free(&r);
	assert_int_equal(stat_of(fd, "not_stored"), 1);
	stx_bytes_free(&big);
	close(fd);
}

/* The libraries on disk change under a running daemon. */
static void test_service_new_compiler_build_takes_over(void **state)
{
	(void)state;
	char path[96];
	static const char *const settings[] = { "workers=2", NULL };
	harness_start(&h, settings);
	int fd = client_connect(&h), other = client_connect(&h);
	struct reply r = compile_graph(fd, 1, two_kernels);
	assert_answer(&r);
	reply_free(&r);
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__Ping q = STX__PING__INIT;
	uint8_t before[32];
	e.msg_case = STX__ENVELOPE__MSG_PING;
	e.ping = &q;
	client_send(fd, &e, NULL, 0);
	r = receive_final(fd);
	memcpy(before, r.e->pong->fingerprint.data, 32);
	/* One that is under way starts anew with the new build. */
	struct ask slow = { .graph = "name i o\nkernel sleep 1000 z\n" };
	send_compile(other, 7, &slow);
	usleep(50000);
	snprintf(path, sizeof path, "%s/FAKE_NEW_BUILD", h.dir);
	close(open(path, O_CREAT | O_WRONLY, 0644));
	/* A worker dies: its replacement differs and is drained, the next one takes over. */
	kill((pid_t)r.e->pong->worker_pids[0], SIGKILL);
	reply_free(&r);
	int changed = 0;
	for (int i = 0; i < 500 && !changed; i++) {
		usleep(10000);
		client_send(fd, &e, NULL, 0);
		r = receive_final(fd);
		changed = memcmp(r.e->pong->fingerprint.data, before, 32) != 0;
		reply_free(&r);
	}
	assert_true(changed);
	r = receive_final(other);
	assert_answer(&r);
	reply_free(&r);
	send_lookup(other, 8, &slow);
	r = receive_final(other);
	assert_answer(&r);
	assert_true(r.e->answer->hit); /* known to the new build */
	reply_free(&r);
	close(other);
	r = compile_graph(fd, 2, two_kernels);
	assert_answer(&r);
	assert_false(r.e->answer->hit); /* nothing of the older build is served */
	assert_false(r.e->answer->kernels[0]->reused);
	assert_non_null(strstr(r.e->answer->reason, "compiler: "));
	reply_free(&r);
	close(fd);
}

/* As in a container that forbids filters. */
static void forbid_seccomp(void)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	if (!f || seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(seccomp), 0) ||
	    seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prctl), 1,
			     SCMP_A0(SCMP_CMP_EQ, PR_SET_SECCOMP)) ||
	    seccomp_load(f))
		_exit(126);
	seccomp_release(f);
}

static void test_service_required_sandbox_that_is_missing_ends_the_daemon(void **state)
{
	(void)state;
	static const char *const required[] = { "require-sandbox=1", NULL };
	harness_prepare(&h);
	for (int i = 0; i < 2; i++) {
		fflush(NULL);
		h.pid = fork();
		if (h.pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			forbid_seccomp();
			harness_serve(&h, i ? NULL : required);
		}
		if (i == 0) {
			assert_int_equal(harness_wait(&h), 4);
			continue;
		}
		/* Not required: it works, and says so. */
		int fd = client_connect(&h);
		struct reply r = compile_graph(fd, 1, two_kernels);
		assert_answer(&r);
		reply_free(&r);
		Stx__Envelope e = STX__ENVELOPE__INIT;
		Stx__Ping q = STX__PING__INIT;
		e.msg_case = STX__ENVELOPE__MSG_PING;
		e.ping = &q;
		client_send(fd, &e, NULL, 0);
		r = receive_final(fd);
		assert_int_equal(strncmp(r.e->pong->sandbox, "none: seccomp", 13), 0);
		reply_free(&r);
		close(fd);
	}
}

#define T(name) cmocka_unit_test_teardown(name, teardown)
int main(int argc, char **argv)
{
	harness_main(argc, argv);
	const struct CMUnitTest tests[] = {
		T(test_service_compile_then_lookup_hits_with_the_same_answer),
		T(test_service_other_names_share_the_artifact_and_keep_their_names),
		T(test_service_fetch_returns_the_artifact),
		T(test_service_restart_keeps_hits_and_kernels),
		T(test_service_64_requests_at_once_compile_once),
		T(test_service_pipelined_hits_overtake_a_compile),
		T(test_service_progress_names_the_stages),
		T(test_service_needed_values_are_named_then_accepted),
		T(test_service_a_diagnostic_is_cached_until_recache),
		T(test_service_a_graph_that_crashes_twice_is_quarantined),
		T(test_service_deadline_kills_only_its_own_job),
		T(test_service_memory_limit_is_named_and_not_cached),
		T(test_service_processor_time_limit_is_named),
		T(test_service_client_that_leaves_still_gets_its_graph_stored),
		T(test_service_cancel_answers_canceled),
		T(test_service_namespaces_see_only_their_own),
		T(test_service_a_miss_names_what_differs),
		T(test_service_ping_reports_sandbox_and_workers),
		T(test_service_killed_workers_lose_no_request),
		T(test_service_sigterm_finishes_flights_first),
		T(test_service_kill_9_leaves_a_usable_store),
		T(test_service_second_daemon_is_refused),
		T(test_service_idle_exit_ends_the_daemon),
		T(test_service_key_job_does_not_wait_for_a_compile),
		T(test_service_graphs_in_flight_share_kernels),
		T(test_service_joiners_have_deadlines_of_their_own),
		T(test_service_recycled_workers_go_unnoticed),
		T(test_service_workers_that_do_not_start_are_reported),
		T(test_service_new_compiler_build_takes_over),
		T(test_service_required_sandbox_that_is_missing_ends_the_daemon),
		T(test_service_full_disk_returns_the_artifact_unstored),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
