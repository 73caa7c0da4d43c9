/* test_lifecycle.c: starts, restarts, ends, replacements of workers and compilers. */
#include "harness.h"

#include <seccomp.h>

/* Makes the file that tells workers to behave otherwise. */
static void mark(const char *name, char path[96])
{
	snprintf(path, 96, "%s/%s", h.dir, name);
	close(open(path, O_CREAT | O_WRONLY, 0644));
}

static void test_lifecycle_ping_reports_sandbox_and_workers(void **state)
{
	(void)state;
	int fd = serve(SETTINGS("workers=2", "require-sandbox=1"));
	compile_ok(fd, 1, two_kernels);
	struct reply r = ping(fd);
	assert_int_equal(r.e->pong->workers, 2);
	assert_true(r.e->pong->n_worker_pids >= 1);
	assert_int_equal(strncmp(r.e->pong->sandbox, "seccomp", 7), 0);
	assert_int_equal(r.e->pong->fingerprint.len, 32);
	reply_free(&r);
	close(fd);
}

/* CA-03: another process compiles nothing for the same request. */
static void test_lifecycle_restart_keeps_hits_and_kernels(void **state)
{
	(void)state;
	int fd = serve(NULL);
	compile_ok(fd, 1, two_kernels);
	close(fd);
	assert_int_equal(harness_stop(&h), 0);
	harness_start(&h, NULL);
	fd = client_connect(&h);
	struct reply r = compile_answer(fd, 1, two_kernels);
	assert_true(r.e->answer->hit);
	assert_int_equal(r.e->answer->n_kernels, 3);
	assert_string_equal(r.e->answer->input_names[0], "in");
	reply_free(&r);
	assert_int_equal(stat_of(fd, "hits"), 1);
	assert_int_equal(stat_of(fd, "compiles"), 0);
	assert_int_equal(stat_of(fd, "kernels_compiled"), 0);
	r = compile_answer(fd, 2, "name in out\nkernel b\nkernel c\n");
	assert_false(r.e->answer->hit);
	assert_true(r.e->answer->kernels[0]->reused);
	assert_false(r.e->answer->kernels[1]->reused);
	reply_free(&r);
	assert_int_equal(stat_of(fd, "kernels_compiled"), 1);
	assert_int_equal(stat_of(fd, "kernels_reused"), 1);
	close(fd);
}

static void test_lifecycle_sigterm_finishes_flights_first(void **state)
{
	(void)state;
	int fd = serve(NULL), other;
	struct ask a = { .graph = "name i o\nkernel hold\n" };
	send_compile(fd, 1, &a);
	gate_wait(1);
	kill(h.pid, SIGTERM);
	until((other = client_try(&h)) < 0 || close(other)); /* it takes no new work */
	gate_let(1);
	struct reply r = receive_answer(fd);
	assert_true(r.e->answer->stored);
	reply_free(&r);
	assert_int_equal(harness_wait(&h), 0);
	assert_int_not_equal(access(h.socket, F_OK), 0);
	close(fd);
}

/* It came before the signal, and before any worker was there. */
static void test_lifecycle_sigterm_finishes_requests_that_wait_for_the_first_worker(void **state)
{
	(void)state;
	char path[96];
	harness_prepare(&h);
	mark("FAKE_NO_START", path);
	int fd = serve(NULL), other = client_connect(&h);
	struct ask a = { .graph = two_kernels };
	send_compile(fd, 1, &a);
	until(stat_of(other, "received_bytes") || readable(fd));
	kill(h.pid, SIGTERM);
	unlink(path);
	struct reply r = receive_final(fd);
	assert_non_null(r.e);
	/* Either the failed start was told first, or the compile was done; never "shutting down".
	 */
	if (r.e->msg_case == STX__ENVELOPE__MSG_ERROR)
		assert_int_equal(r.e->error->code, STX_E_INTERNAL);
	else
		assert_answer(&r);
	reply_free(&r);
	assert_int_equal(harness_wait(&h), 0);
	close(fd);
	close(other);
}

static void test_lifecycle_kill_9_leaves_a_usable_store(void **state)
{
	(void)state;
	int fd = serve(NULL);
	compile_ok(fd, 1, two_kernels);
	kill(h.pid, SIGKILL);
	assert_int_equal(harness_wait(&h), -SIGKILL);
	close(fd);
	harness_start(&h, NULL); /* over the stale socket */
	fd = client_connect(&h);
	struct reply r = compile_answer(fd, 1, two_kernels);
	assert_true(r.e->answer->hit);
	reply_free(&r);
	close(fd);
}

static void test_lifecycle_second_daemon_is_refused(void **state)
{
	(void)state;
	int fd = serve(NULL);
	struct harness other = h;
	other.pid = 0;
	harness_start(&other, NULL);
	assert_int_equal(harness_wait(&other), 100);
	struct reply r = compile_answer(fd, 1, two_kernels); /* the first is untouched */
	reply_free(&r);
	close(fd);
}

/* 0: it had ended before it saw anybody. */
static int end_idle_after(unsigned seconds)
{
	char setting[32];
	int fd, status, answered = 0;
	snprintf(setting, sizeof setting, "idle-exit=%u", seconds);
	harness_start(&h, SETTINGS(setting));
	until((fd = client_try(&h)) >= 0 || waitpid(h.pid, &status, WNOHANG) == h.pid);
	if (fd < 0) {
		h.pid = 0;
		assert_int_equal(status, 0);
		return 0;
	}
	struct reply r = compile_graph(fd, 1, two_kernels);
	answered = r.e && r.e->msg_case == STX__ENVELOPE__MSG_ANSWER;
	reply_free(&r);
	close(fd);
	assert_int_equal(harness_wait(&h), 0);
	return answered;
}

static void test_lifecycle_idle_exit_ends_the_daemon(void **state)
{
	(void)state;
	for (unsigned seconds = 1; !end_idle_after(seconds); seconds *= 2)
		; /* the machine is that slow */
}

static void test_lifecycle_recycled_workers_go_unnoticed(void **state)
{
	(void)state;
	int fd = serve(SETTINGS("workers=2", "worker-jobs=1"));
	for (int i = 0; i < 5; i++) {
		char graph[64];
		snprintf(graph, sizeof graph, "name i o\nkernel k%d\nkernel l%d\n", i, i);
		compile_ok(fd, 1, graph);
	}
	assert_true(stat_of(fd, "recycled") >= 20);
	assert_int_equal(stat_of(fd, "crashes"), 0);
	close(fd);
}

static void test_lifecycle_workers_that_do_not_start_are_reported(void **state)
{
	(void)state;
	char path[96];
	harness_prepare(&h);
	mark("FAKE_NO_START", path);
	int fd = serve(NULL);
	struct reply r = compile_error(fd, 1, two_kernels, STX_E_INTERNAL);
	assert_non_null(strstr(r.e->error->text, "told not to start"));
	reply_free(&r);
	/* It tries again by itself. */
	unlink(path);
	until((r = compile_graph(fd, 2, two_kernels)).e &&
	      (r.e->msg_case == STX__ENVELOPE__MSG_ANSWER || (reply_free(&r), 0)));
	assert_answer(&r);
	reply_free(&r);
	close(fd);
}

/* The libraries on disk change under a running daemon. */
static void test_lifecycle_new_compiler_build_takes_over(void **state)
{
	(void)state;
	char path[96];
	int fd = serve(SETTINGS("workers=2")), other = client_connect(&h);
	compile_ok(fd, 1, two_kernels);
	uint8_t before[32];
	struct reply r = ping(fd);
	memcpy(before, r.e->pong->fingerprint.data, 32);
	/* One that is under way starts anew with the new build. */
	struct ask slow = { .graph = "name i o\nkernel hold\n" };
	send_compile(other, 7, &slow);
	gate_wait(1);
	mark("FAKE_NEW_BUILD", path);
	/* A worker dies: its replacement differs and is drained, the next one takes over. */
	kill((pid_t)r.e->pong->worker_pids[0], SIGKILL);
	reply_free(&r);
	until(memcmp((r = ping(fd)).e->pong->fingerprint.data, before, 32) || (reply_free(&r), 0));
	reply_free(&r);
	gate_let(UINT32_MAX);
	r = receive_answer(other);
	reply_free(&r);
	send_lookup(other, 8, &slow);
	r = receive_answer(other);
	assert_true(r.e->answer->hit); /* known to the new build */
	reply_free(&r);
	close(other);
	r = compile_answer(fd, 2, two_kernels);
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

static void test_lifecycle_required_sandbox_that_is_missing_ends_the_daemon(void **state)
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
		compile_ok(fd, 1, two_kernels);
		struct reply r = ping(fd);
		assert_int_equal(strncmp(r.e->pong->sandbox, "none: seccomp", 13), 0);
		reply_free(&r);
		close(fd);
	}
}

int main(int argc, char **argv)
{
	harness_main(argc, argv);
	const struct CMUnitTest tests[] = {
		T(test_lifecycle_ping_reports_sandbox_and_workers),
		T(test_lifecycle_restart_keeps_hits_and_kernels),
		T(test_lifecycle_sigterm_finishes_flights_first),
		T(test_lifecycle_sigterm_finishes_requests_that_wait_for_the_first_worker),
		T(test_lifecycle_kill_9_leaves_a_usable_store),
		T(test_lifecycle_second_daemon_is_refused),
		T(test_lifecycle_idle_exit_ends_the_daemon),
		T(test_lifecycle_recycled_workers_go_unnoticed),
		T(test_lifecycle_workers_that_do_not_start_are_reported),
		T(test_lifecycle_new_compiler_build_takes_over),
		T(test_lifecycle_required_sandbox_that_is_missing_ends_the_daemon),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
