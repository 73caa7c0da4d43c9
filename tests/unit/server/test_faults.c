/* test_faults.c: workers that crash, hang, starve or are killed, and a full disk: only the request
 * at fault fails. */
#include "harness.h"

#include "key.h"
#include "repro.h"

#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>

static void test_faults_a_graph_that_crashes_twice_is_quarantined(void **state)
{
	(void)state;
	int fd = serve(SETTINGS("workers=2"));
	static const char *const graphs[] = { "name i o\ndo key crash\n",
					      "name i o\ndo plan abort\n",
					      "name i o\nkernel crash 1\n",
					      "name i o\ndo link exit 1\n" };
	for (unsigned i = 0; i < 4; i++) {
		struct reply r = compile_error(fd, 1, graphs[i], STX_E_CRASHED);
		if (i == 0)
			assert_non_null(strstr(r.e->error->text, "signal 11"));
		reply_free(&r);
		r = compile_error(fd, 2, graphs[i], STX_E_QUARANTINED);
		reply_free(&r);
		struct ask a = { .graph = graphs[i] };
		send_lookup(fd, 3, &a);
		r = receive_error(fd, STX_E_QUARANTINED);
		reply_free(&r);
		assert_int_equal(stat_of(fd, "crashes"), 2 * (i + 1));
	}
	/* Others are served as before. */
	compile_ok(fd, 9, two_kernels);
	assert_int_equal(stat_of(fd, "store_failures"), 0);
	close(fd);
}

/* However late the disk is: what a lookup needs to know the graph by is not committed here. */
static void test_faults_quarantine_does_not_wait_for_the_store(void **state)
{
	(void)state;
	int fd = serve(SETTINGS("workers=2"));
	char path[128];
	sqlite3 *db;
	struct ask a = { .graph = "name i o\ndo plan abort\n" };
	snprintf(path, sizeof path, "%s/cache/db/stax.db", h.dir);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	sqlite3_busy_timeout(db, WAIT_MS);
	assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	struct reply r = compile_error(fd, 1, a.graph, STX_E_CRASHED);
	reply_free(&r);
	send_lookup(fd, 2, &a);
	r = receive_error(fd, STX_E_QUARANTINED);
	reply_free(&r);
	assert_int_equal(stat_of(fd, "store_memos"), 0);
	assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	/* A daemon that met the lock for seconds has given its commit up. */
	until(stat_of(fd, "store_memos") + stat_of(fd, "store_write_errors") > 0);
	close(fd);
}

static void test_faults_deadline_kills_only_its_own_job(void **state)
{
	(void)state;
	int fd = serve(SETTINGS("workers=2")), other = client_connect(&h);
	struct ask longer = { .graph = "name i o\nkernel hold\n" };
	struct ask hang = { .graph = "name i o\nkernel spin\n", .deadline_ms = 1000 };
	send_compile(other, 2, &longer);
	gate_wait(1);
	send_compile(fd, 1, &hang);
	struct reply r = receive_error(fd, STX_E_DEADLINE);
	reply_free(&r);
	gate_let(1);
	r = receive_answer(other);
	reply_free(&r);
	assert_int_equal(h.gate->arrived, 1); /* in its first attempt */
	assert_int_equal(stat_of(fd, "store_failures"), 0);
	close(fd);
	close(other);
}

static void test_faults_memory_limit_is_named_and_not_cached(void **state)
{
	(void)state;
	int fd = serve(SETTINGS("worker-memory=256MiB"));
	struct reply r = compile_error(fd, 1, "name i o\ndo plan eat 2000\n", STX_E_TOO_LARGE);
	assert_non_null(strstr(r.e->error->text, "256MiB"));
	reply_free(&r);
	assert_int_equal(stat_of(fd, "store_failures"), 0);
	close(fd);
}

static void test_faults_processor_time_limit_is_named(void **state)
{
	(void)state;
	int fd = serve(SETTINGS("worker-cpu=1"));
	struct reply r = compile_error(fd, 1, "name i o\ndo plan spin\n", STX_E_DEADLINE);
	assert_non_null(strstr(r.e->error->text, "worker_cpu"));
	reply_free(&r);
	close(fd);
}

/* All workers are killed at once while a kernel compiles. A sweep may hit the job once a worker: the
 * second may be dead, and the daemon not know it yet, when it is given the job. */
static void kill_all_of(const char *workers)
{
	int fd = serve(SETTINGS(workers)), other = client_connect(&h);
	struct ask a = { .graph = "name i o\nkernel hold\n" };
	send_compile(fd, 1, &a);
	gate_wait(1);
	struct reply r = ping(other);
	size_t n = r.e->pong->n_worker_pids;
	assert_true(n >= 1);
	for (size_t i = 0; i < n; i++)
		kill((pid_t)r.e->pong->worker_pids[i], SIGKILL);
	reply_free(&r);
	gate_wait(2);
	gate_let(2);
	r = receive_answer(fd); /* no quarantine for a kill from outside */
	reply_free(&r);
	assert_in_range(stat_of(fd, "restarts"), 1, n);
	assert_in_range(stat_of(fd, "killed_outside"), 1, n);
	assert_int_equal(stat_of(fd, "crashes"), 0);
	close(fd);
	close(other);
}

static void test_faults_a_killed_worker_loses_no_request(void **state)
{
	(void)state;
	kill_all_of("workers=1");
}

static void test_faults_killed_workers_lose_no_request(void **state)
{
	(void)state;
	kill_all_of("workers=2");
}

static int write_line(const char *path, const char *line)
{
	int fd = open(path, O_WRONLY), n = (int)strlen(line);
	int bad = fd < 0 || write(fd, line, (size_t)n) != n;
	if (fd >= 0)
		close(fd);
	return bad;
}

/* A mount namespace of its own; for an ordinary user inside a user namespace in which it is itself.
 */
static int own_mounts(void)
{
	char uids[64], gids[64];
	snprintf(uids, sizeof uids, "%u %u 1", geteuid(), geteuid());
	snprintf(gids, sizeof gids, "%u %u 1", getegid(), getegid());
	if (geteuid() == 0)
		return unshare(CLONE_NEWNS);
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) || write_line("/proc/self/uid_map", uids) ||
	       write_line("/proc/self/setgroups", "deny") || write_line("/proc/self/gid_map", gids);
}

/* A store on a file system of 1 MiB: possible for root and where users have namespaces. */
static int small_store(void)
{
	char dir[96];
	snprintf(dir, sizeof dir, "%s/cache", h.dir);
	if (own_mounts() || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return -1;
	mkdir(dir, 0700);
	return mount("tmpfs", dir, "tmpfs", 0, "size=1m");
}

static void test_faults_full_disk_returns_the_artifact_unstored(void **state)
{
	(void)state;
	harness_prepare(&h);
	fflush(NULL);
	h.pid = fork();
	if (h.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (small_store())
			_exit(77);
		harness_serve(&h, NULL);
	}
	int fd, ended = 0, status;
	until((fd = client_try(&h)) >= 0 || (ended = waitpid(h.pid, &status, WNOHANG) == h.pid));
	if (ended) {
		h.pid = 0;
		assert_int_equal(WEXITSTATUS(status), 77);
		skip();
	}
	struct stx_bytes big = { 0 };
	stx_bytes_puts(&big, "name i o\nkernel a\n");
	srand(5);
	for (int i = 0; i < 3000000; i++) /* hardly compressible lines */
		stx_bytes_u8(&big, i % 200 ? (uint8_t)('0' + rand() % 75) : '\n');
	struct reply r = compile_answer(fd, 1, stx_bytes_cstr(&big));
	assert_false(r.e->answer->stored);
	assert_string_equal(r.e->answer->path, "");
	struct reply f = fetch(fd, 1, r.e->answer->digest, "");
	assert_fetched(&f, &r);
	reply_free(&f);
	reply_free(&r);
	assert_int_equal(stat_of(fd, "not_stored"), 1);
	stx_bytes_free(&big);
	close(fd);
}

/* Somebody removes the store under the daemon: what it answers is right, and nothing new is said to
 * be stored. */
static void test_faults_deleted_cache_directory_stores_no_more(void **state)
{
	static const char before[] = "name i o\nkernel a\n", after[] = "name i o\nkernel b\n";
	char cmd[128];
	(void)state;
	int fd = serve(NULL);
	struct reply r = compile_answer(fd, 1, before);
	assert_true(r.e->answer->stored);
	reply_free(&r);
	wait_for(fd, "store_memos", 1); /* nothing is being written now */
	snprintf(cmd, sizeof cmd, "rm -rf %s/cache", h.dir);
	assert_int_equal(system(cmd), 0);
	for (int i = 0; i < 2; i++) {
		r = compile_answer(fd, 2, after);
		assert_false(r.e->answer->stored);
		assert_string_equal(r.e->answer->path, "");
		struct reply f = fetch(fd, 3, r.e->answer->digest, "");
		assert_fetched(&f, &r);
		reply_free(&f);
		reply_free(&r);
	}
	r = compile_answer(fd, 4, before);
	assert_true(r.e->answer->hit);
	struct reply f = fetch(fd, 5, r.e->answer->digest, "");
	assert_fetched(&f, &r);
	reply_free(&f);
	reply_free(&r);
	assert_true(stat_of(fd, "not_stored") > 0);
	close(fd);
}

/* The reproducer that the error names, once another thread has written it. */
static struct stx_bytes reproducer_of(const struct reply *r, struct stx_repro *p,
				      struct stx_arena *a)
{
	struct stx_bytes file = { 0 };
	char buf[4096];
	size_t n;
	FILE *f = NULL;
	const char *path = strstr(r->e->error->text, "stax compile ");
	assert_non_null(path);
	path += strlen("stax compile ");
	until((f = fopen(path, "rb")) != NULL);
	while ((n = fread(buf, 1, sizeof buf, f)) > 0)
		stx_bytes_put(&file, buf, n);
	fclose(f);
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	struct stx_diag d = { 0 };
	if (stx_repro_parse((struct stx_span){ file.at, file.n }, a, p, &d))
		fail_msg("%s", d.text);
	return file;
}

static void test_faults_of_the_compiler_leave_a_reproducer(void **state)
{
	(void)state;
	static const struct {
		const char *graph, *body;
		stx_err code;
	} cases[] = {
		{ "name i o\ndo key crash\n", "name i o\ndo key crash\n", STX_E_CRASHED },
		{ "name i o\ndo key internal\n", "name i o\ndo key internal\n", STX_E_INTERNAL },
		/* once there is a canonical graph: that, without names */
		{ "name i o\ndo plan abort\n", "do plan abort\n", STX_E_CRASHED },
		{ "name i o\nkernel internal 1\n", "kernel internal 1\n", STX_E_INTERNAL },
		{ "name i o\ndo link internal\n", "do link internal\n", STX_E_INTERNAL },
	};
	int fd = serve(NULL);
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct ask a = { .graph = cases[i].graph, .fast = 1 };
		send_compile(fd, 1, &a);
		struct reply r = receive_final(fd);
		assert_error(&r, cases[i].code);
		struct stx_repro p;
		struct stx_arena *arena = stx_arena_new(0);
		struct stx_bytes file = reproducer_of(&r, &p, arena);
		assert_int_equal(p.format, 2);
		assert_string_equal(p.target, "cpu:x86-64-v3");
		assert_int_equal(p.options, STX_OPTION_FAST);
		assert_int_equal(p.body.n, strlen(cases[i].body));
		assert_memory_equal(p.body.at, cases[i].body, p.body.n);
		assert_non_null(strstr((char *)file.at, stx_err_name(cases[i].code)));
		stx_bytes_free(&file);
		stx_arena_free(arena);
		reply_free(&r);
	}
	/* What the graph is to blame for leaves none. */
	struct reply r = compile_error(fd, 2, "name i o\ndo plan invalid 1\n", STX_E_INVALID);
	assert_null(strstr(r.e->error->text, "stax compile"));
	reply_free(&r);
	close(fd);
}

/* A request before has brought a worker down and was not told of a crash: the first crash of the next
 * one ends it, and has its reproducer all the same. */
static void test_faults_of_a_suspected_graph_leave_a_reproducer_at_once(void **state)
{
	(void)state;
	int fd = serve(SETTINGS("abandoned=0"));
	struct ask a = { .graph = "name i o\ndo plan hold\ndo plan crash\n" };
	send_compile(fd, 1, &a);
	gate_let(1);
	gate_wait(2); /* the second attempt */
	send_cancel(fd, 1);
	struct reply r = receive_error(fd, STX_E_CANCELED);
	assert_null(strstr(r.e->error->text, "stax compile"));
	reply_free(&r);
	wait_for(fd, "abandoned", 1);
	assert_int_equal(stat_of(fd, "crashes"), 1);
	gate_let(UINT32_MAX);
	send_compile(fd, 2, &a);
	r = receive_final(fd);
	assert_error(&r, STX_E_CRASHED);
	assert_int_equal(stat_of(fd, "crashes"), 2);
	struct stx_repro p;
	struct stx_arena *arena = stx_arena_new(0);
	struct stx_bytes file = reproducer_of(&r, &p, arena);
	assert_non_null(strstr((char *)p.body.at, "crash"));
	stx_bytes_free(&file);
	stx_arena_free(arena);
	reply_free(&r);
	close(fd);
}

/* The worker that linked it may have been taken over by the graph: what it says of its artifact
 * counts for nothing. Small ones are checked in the loop, large ones on another thread. */
static void test_faults_an_artifact_a_worker_passed_is_refused_by_the_daemon(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	struct stx_bytes big = { 0 };
	stx_bytes_puts(&big, "name i o\nforge\nkernel a\n");
	for (int i = 0; i < 3000000; i++)
		stx_bytes_u8(&big, i % 100 ? 'x' : '\n');
	const char *const graphs[] = { "name i o\nforge\nkernel a\n", stx_bytes_cstr(&big) };
	for (unsigned i = 0; i < 4; i++) {
		struct reply r = compile_graph(fd, 1, graphs[i % 2]);
		assert_error(&r, STX_E_UNTRUSTED);
		assert_non_null(strstr(r.e->error->text, "forged"));
		reply_free(&r);
	}
	assert_int_equal(stat_of(fd, "store_artifacts"), 0);
	assert_int_equal(stat_of(fd, "compiles"), 0);
	compile_ok(fd, 9, two_kernels);
	stx_bytes_free(&big);
	close(fd);
}

static void test_faults_leave_no_reproducer_when_none_are_wanted(void **state)
{
	(void)state;
	int fd = serve(SETTINGS("reproducers=none"));
	struct reply r = compile_error(fd, 1, "name i o\ndo plan internal\n", STX_E_INTERNAL);
	assert_null(strstr(r.e->error->text, "stax compile"));
	reply_free(&r);
	close(fd);
}

int main(int argc, char **argv)
{
	harness_main(argc, argv);
	const struct CMUnitTest tests[] = {
		T(test_faults_a_graph_that_crashes_twice_is_quarantined),
		T(test_faults_quarantine_does_not_wait_for_the_store),
		T(test_faults_deadline_kills_only_its_own_job),
		T(test_faults_memory_limit_is_named_and_not_cached),
		T(test_faults_processor_time_limit_is_named),
		T(test_faults_a_killed_worker_loses_no_request),
		T(test_faults_killed_workers_lose_no_request),
		T(test_faults_of_the_compiler_leave_a_reproducer),
		T(test_faults_of_a_suspected_graph_leave_a_reproducer_at_once),
		T(test_faults_an_artifact_a_worker_passed_is_refused_by_the_daemon),
		T(test_faults_leave_no_reproducer_when_none_are_wanted),
		T(test_faults_full_disk_returns_the_artifact_unstored),
		T(test_faults_deleted_cache_directory_stores_no_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
