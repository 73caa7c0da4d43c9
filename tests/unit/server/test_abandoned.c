/* test_abandoned.c: compiles that nobody waits for any more must not hold a worker that somebody
 * wants. */
#include "harness.h"

/* A compile that tells its progress has come to the stage. */
static void wait_for_stage(int fd, const char *stage)
{
	for (int there = 0; !there;) {
		struct reply r = client_receive(fd);
		assert_non_null(r.e);
		assert_int_equal(r.e->msg_case, STX__ENVELOPE__MSG_PROGRESS);
		there = !strcmp(r.e->progress->stage, stage);
		reply_free(&r);
	}
}

/* It runs its kernel. */
static void wait_for_kernel(int fd, int watcher)
{
	wait_for_stage(fd, "kernels"); /* the plan is made */
	wait_for(watcher, "workers_busy", 1);
}

/* A client sends graph and leaves once a worker runs its kernel. */
static void leave_while_it_runs(int watcher, const char *graph, uint64_t compiled_before)
{
	struct ask a = { .graph = graph, .progress = 1 };
	int fd = client_connect(&h);
	send_compile(fd, 1, &a);
	wait_for_kernel(fd, watcher);
	assert_int_equal(stat_of(watcher, "kernels_compiled"), compiled_before);
	close(fd);
	wait_for(watcher, "connections", 1);
}

static void assert_not_stored(int fd, const char *graph)
{
	struct ask a = { .graph = graph };
	send_lookup(fd, 99, &a);
	struct reply r = receive_answer(fd);
	assert_true(r.e->answer->need_body);
	reply_free(&r);
}

static void test_abandoned_request_that_waits_for_a_worker_is_dropped(void **state)
{
	(void)state;
	int fd = serve(SETTINGS("workers=1", "abandoned=0")), other = client_connect(&h);
	compile_ok(fd, 1, two_kernels); /* workers are up */
	struct ask busy = { .graph = "name i o\nkernel spin\n", .progress = 1 };
	struct ask gone = { .graph = "name i o\nkernel never\n", .progress = 1 };
	send_compile(fd, 2, &busy);
	wait_for_kernel(fd, other);
	int leaver = client_connect(&h);
	send_compile(leaver, 3, &gone);
	wait_for_stage(leaver, "key"); /* out of the queue: the next job there is the plan */
	wait_for(other, "queued", 1);
	close(leaver);
	wait_for(other, "abandoned", 1);
	assert_int_equal(stat_of(other, "queued"), 0);
	assert_int_equal(stat_of(other, "restarts"), 0); /* who runs is not touched */
	assert_int_equal(stat_of(other, "workers_busy"), 1);
	close(fd);
	wait_for(other, "flights", 0);
	assert_int_equal(stat_of(other, "kernels_compiled"), 2);
	assert_not_stored(other, gone.graph);
	close(other);
}

static void test_abandoned_compile_that_hangs_is_stopped_long_before_its_deadline(void **state)
{
	(void)state;
	int fd = serve(SETTINGS("workers=1", "abandoned=200"));
	compile_ok(fd, 1, two_kernels);
	leave_while_it_runs(fd, "name i o\nkernel spin\n", 2);
	wait_for(fd, "workers_busy", 0);
	assert_int_equal(stat_of(fd, "abandoned"), 1);
	assert_int_equal(stat_of(fd, "flights"), 0);
	compile_ok(fd, 2, "name i o\nkernel after\n");
	assert_int_equal(stat_of(fd, "quarantined"), 0);
	close(fd);
}

static void test_abandoned_key_job_that_hangs_is_stopped(void **state)
{
	(void)state;
	int fd = serve(SETTINGS("workers=1", "abandoned=200")), leaver = client_connect(&h);
	compile_ok(fd, 1, two_kernels);
	struct ask a = { .graph = "name i o\ndo key spin\n" };
	send_compile(leaver, 1, &a);
	wait_for(fd, "workers_busy", 1);
	close(leaver);
	wait_for(fd, "workers_busy", 0);
	assert_int_equal(stat_of(fd, "abandoned"), 1);
	compile_ok(fd, 2, "name i o\nkernel after\n");
	close(fd);
}

static void test_abandoned_compile_yields_its_worker_to_who_waits(void **state)
{
	(void)state;
	int fd = serve(SETTINGS("workers=1", "abandoned=3000000"));
	compile_ok(fd, 1, two_kernels);
	leave_while_it_runs(fd, "name i o\nkernel spin\n", 2);
	compile_ok(fd, 2, "name i o\nkernel wanted\n");
	assert_int_equal(stat_of(fd, "abandoned"), 1);
	close(fd);
}

static void test_abandoned_compile_is_taken_over_by_a_new_request(void **state)
{
	(void)state;
	static const char graph[] = "name i o\nkernel hold\n";
	int fd = serve(SETTINGS("workers=1", "abandoned=3000000")), other = client_connect(&h);
	compile_ok(fd, 1, two_kernels);
	struct ask a = { .graph = graph };
	int leaver = client_connect(&h);
	send_compile(leaver, 1, &a);
	gate_wait(1);
	close(leaver);
	wait_for(other, "connections", 2);
	send_compile(fd, 2, &a);
	wait_for(other, "joins", 1);
	gate_let(1);
	struct reply r = receive_answer(fd);
	assert_false(r.e->answer->hit);
	reply_free(&r);
	assert_int_equal(stat_of(fd, "abandoned"), 0);
	assert_int_equal(stat_of(fd, "kernels_compiled"), 3);
	close(fd);
	close(other);
}

static void test_abandoned_compile_leaves_a_shared_kernel_to_the_other(void **state)
{
	(void)state;
	int fd = serve(SETTINGS("workers=2", "abandoned=0")), other = client_connect(&h);
	int leaver = client_connect(&h);
	compile_ok(fd, 1, two_kernels);
	struct ask a = { .graph = "name i o\nkernel hold\n" };
	struct ask b = { .graph = "name i o\nkernel hold\nkernel other\n" };
	send_compile(leaver, 1, &a);
	gate_wait(1);
	send_compile(fd, 2, &b);
	wait_for(other, "kernels_compiled", 3); /* its own; it waits for the shared one */
	close(leaver);
	wait_for(other, "abandoned", 1);
	gate_let(1);
	struct reply r = receive_answer(fd);
	reply_free(&r);
	assert_int_equal(stat_of(fd, "abandoned"), 1);
	assert_int_equal(stat_of(fd, "restarts"), 0);
	assert_int_equal(stat_of(fd, "kernels_compiled"), 4);
	assert_int_equal(h.gate->arrived, 1);
	close(fd);
	close(other);
}

static void test_abandoned_by_cancel_stops_as_well(void **state)
{
	(void)state;
	int fd = serve(SETTINGS("workers=1", "abandoned=0")), other = client_connect(&h);
	compile_ok(fd, 1, two_kernels);
	struct ask a = { .graph = "name i o\ndo plan spin\n" };
	send_compile(other, 7, &a);
	wait_for(fd, "workers_busy", 1);
	send_cancel(other, 7);
	struct reply r = receive_error(other, STX_E_CANCELED);
	reply_free(&r);
	wait_for(fd, "workers_busy", 0);
	assert_int_equal(stat_of(fd, "abandoned"), 1);
	close(fd);
	close(other);
}

int main(int argc, char **argv)
{
	harness_main(argc, argv);
	const struct CMUnitTest tests[] = {
		T(test_abandoned_request_that_waits_for_a_worker_is_dropped),
		T(test_abandoned_compile_that_hangs_is_stopped_long_before_its_deadline),
		T(test_abandoned_key_job_that_hangs_is_stopped),
		T(test_abandoned_compile_yields_its_worker_to_who_waits),
		T(test_abandoned_compile_is_taken_over_by_a_new_request),
		T(test_abandoned_compile_leaves_a_shared_kernel_to_the_other),
		T(test_abandoned_by_cancel_stops_as_well),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
