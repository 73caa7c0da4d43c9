/* test_worker.c: a private worker on a socket pair: the sandbox refuses, every kind of job works.
 */
#include "harness.h"

#include "channel.h"

#include <grp.h>
#include <seccomp.h>

static pid_t worker;

/* An older kernel: Landlock is not there. */
static void hide_landlock(void)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	if (!f ||
	    seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(landlock_create_ruleset), 0) ||
	    seccomp_load(f))
		_exit(126);
	seccomp_release(f);
}

/* An ordinary user; only for root is there something to give up. */
static void become_nobody(void)
{
	if (geteuid() == 0 && (setgroups(0, NULL) || setresgid(65534, 65534, 65534) ||
			       setresuid(65534, 65534, 65534)))
		_exit(125);
}

/* option: of "off", "no landlock", "nobody", "small" (a memory limit of 256 MiB). */
static void start(int *sock, const char *option)
{
	int pair[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	worker = fork();
	if (worker == 0) {
		if (pair[1] == 3)
			fcntl(3, F_SETFD, 0);
		else
			dup2(pair[1], 3);
		if (option && !strcmp(option, "off"))
			setenv("STAX_WORKER_SANDBOX", "off", 1);
		if (option && strstr(option, "no landlock"))
			hide_landlock();
		if (option && strstr(option, "nobody"))
			become_nobody();
		const char *limit = option && strstr(option, "small") ? "memory=268435456" : NULL;
		execl("/proc/self/exe", "staxd", "--worker", limit, NULL);
		_exit(127);
	}
	close(pair[1]);
	*sock = pair[0];
	struct timeval t = { WAIT_MS / 1000, 0 };
	setsockopt(*sock, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}

static void receive(int sock, struct stx__message *m)
{
	struct stx_diag d = { 0 };
	stx_err e = stx__channel_recv(sock, STX__MAPPED, m, &d);
	if (e)
		fail_msg("no message from the worker: %s", d.text);
	assert_int_equal(m->e->msg_case, STX__ENVELOPE__MSG_JOB_REPLY);
}

static void hello(int sock, char *sandbox, size_t cap)
{
	struct stx__message m;
	receive(sock, &m);
	assert_int_equal(m.e->request_id, 0);
	assert_int_equal(m.e->job_reply->fingerprint.len, 32);
	snprintf(sandbox, cap, "%s", m.e->job_reply->sandbox);
	stx__message_free(&m);
}

/* Closes the channel: the worker ends by itself with status 0. */
static void stop(int sock)
{
	int status = -1;
	close(sock);
	assert_int_equal(waitpid(worker, &status, 0), worker);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void ask(int sock, Stx__Job *j, const struct stx_span *pieces, uint32_t n,
		struct stx__message *m)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	uint64_t sizes[8];
	for (uint32_t i = 0; i < n; i++)
		sizes[i] = pieces[i].n;
	e.request_id = 42;
	e.msg_case = STX__ENVELOPE__MSG_JOB;
	e.job = j;
	j->target = "cpu:x86-64-v3";
	j->piece_bytes = sizes;
	j->n_piece_bytes = n;
	assert_int_equal(stx__channel_send(sock, &e, pieces, n, -1, NULL), 0);
	receive(sock, m);
	assert_int_equal(m->e->request_id, 42);
}

static struct stx_span text(const char *s)
{
	return (struct stx_span){ (const uint8_t *)s, strlen(s) };
}

static void compile_something(int sock)
{
	struct stx__message m;
	Stx__Job j = STX__JOB__INIT;
	struct stx_span body = text("name i o\nkernel k\n");
	j.kind = STX__JOB_KIND__JOB_KEY;
	j.format = 2;
	ask(sock, &j, &body, 1, &m);
	assert_null(m.e->job_reply->error);
	assert_string_equal(m.e->job_reply->input_names[0], "i");
	struct stx_bytes graph = { 0 };
	stx_bytes_put(&graph, m.body.at, m.body.n);
	stx__message_free(&m);

	stx__job__init(&j);
	j.kind = STX__JOB_KIND__JOB_PLAN;
	body = (struct stx_span){ graph.at, graph.n };
	ask(sock, &j, &body, 1, &m);
	assert_null(m.e->job_reply->error);
	assert_int_equal(m.e->job_reply->n_kernels, 1);
	assert_int_equal(m.e->job_reply->n_piece_bytes, 2);
	stx__message_free(&m);

	stx__job__init(&j);
	j.kind = STX__JOB_KIND__JOB_KERNEL;
	body = text("k");
	ask(sock, &j, &body, 1, &m);
	assert_null(m.e->job_reply->error);
	assert_int_equal(m.body.n, 5);
	assert_memory_equal(m.body.at, "obj:k", 5);
	stx__message_free(&m);

	struct stx_span pieces[2] = { { graph.at, graph.n }, text("obj:k") };
	stx__job__init(&j);
	j.kind = STX__JOB_KIND__JOB_LINK;
	ask(sock, &j, pieces, 2, &m);
	assert_null(m.e->job_reply->error);
	assert_true(m.body.n > 9 && !memcmp(m.body.at, "ARTIFACT\n", 9));
	stx__message_free(&m);
	stx_bytes_free(&graph);
}

static void refuses_and_compiles(const char *option, const char *level)
{
	int sock;
	char sandbox[96];
	struct stx__message m;
	Stx__Job j = STX__JOB__INIT;
	start(&sock, option);
	hello(sock, sandbox, sizeof sandbox);
	if (level)
		assert_string_equal(sandbox, level);
	else
		assert_int_equal(strncmp(sandbox, "seccomp", 7), 0);
	compile_something(sock);
	j.kind = STX__JOB_KIND__JOB_PROBE;
	ask(sock, &j, NULL, 0, &m);
	const Stx__JobReply *r = m.e->job_reply;
	assert_null(r->error);
	static const char *const want[] = { "open: EPERM",
					    "openat: EPERM",
					    "creat: EPERM",
					    "unlink: EPERM",
					    "socket: EPERM",
					    "connect: EPERM",
					    "fork: EPERM",
					    "clone: EPERM",
					    "exec: EPERM",
					    "ptrace: EPERM",
					    "process_vm_readv: EPERM",
					    "kill: EPERM",
					    "sendmsg elsewhere: EPERM",
					    "dup: EPERM",
					    "stat: EPERM",
					    "stat of a path: EPERM",
					    "working folder /: allowed",
					    "setrlimit: EPERM",
					    "mmap exec: EPERM",
					    "mmap shared: EPERM",
					    "write beyond the limit: EFBIG",
					    "mmap of a file: EPERM",
					    "ftruncate: EPERM",
					    "fallocate: EPERM",
					    "64 files: EMFILE",
					    "huge pages: EPERM" };
	assert_int_equal(r->n_report, sizeof want / sizeof *want);
	for (size_t i = 0; i < r->n_report; i++)
		assert_string_equal(r->report[i], want[i]);
	stx__message_free(&m);
	compile_something(sock); /* nothing the probe did hurts */
	stop(sock);
}

static void test_worker_sandbox_refuses_everything_and_compiles(void **state)
{
	(void)state;
	refuses_and_compiles(NULL, NULL);
}

static void test_worker_without_landlock_refuses_the_same(void **state)
{
	(void)state;
	refuses_and_compiles("no landlock", "seccomp");
}

static void test_worker_of_an_ordinary_user_refuses_the_same(void **state)
{
	(void)state;
	refuses_and_compiles("nobody", NULL);
	refuses_and_compiles("nobody, no landlock", "seccomp");
}

/* Eight descriptors of an eighth of the limit: more cannot be held outside what is counted. */
static void test_worker_reply_over_its_share_of_memory_is_an_error(void **state)
{
	(void)state;
	int sock;
	char sandbox[96];
	struct stx__message m;
	Stx__Job j = STX__JOB__INIT;
	size_t n = 33u << 20;
	char *big = malloc(n);
	memset(big, '#', n);
	start(&sock, "small");
	hello(sock, sandbox, sizeof sandbox);
	struct stx_span body = { (const uint8_t *)big, n };
	j.kind = STX__JOB_KIND__JOB_PLAN; /* the fake's plan is its graph */
	ask(sock, &j, &body, 1, &m);
	assert_non_null(m.e->job_reply->error);
	assert_int_equal(m.e->job_reply->error->code, STX_E_TOO_LARGE);
	stx__message_free(&m);
	compile_something(sock);
	stop(sock);
	free(big);
}

static void test_worker_sandbox_can_be_switched_off_by_a_private_launcher(void **state)
{
	(void)state;
	int sock;
	char sandbox[96];
	start(&sock, "off");
	hello(sock, sandbox, sizeof sandbox);
	assert_int_equal(strncmp(sandbox, "none", 4), 0);
	compile_something(sock);
	stop(sock);
}

static void dump_and_reference(const char *option)
{
	int sock;
	char sandbox[96];
	struct stx__message m;
	Stx__Job j = STX__JOB__INIT;
	struct stx_span body = text("kernel a\n");
	start(&sock, option);
	hello(sock, sandbox, sizeof sandbox);
	j.kind = STX__JOB_KIND__JOB_DUMP;
	j.format = 2;
	j.stage = "loops";
	j.dump_format = "text";
	ask(sock, &j, &body, 1, &m);
	assert_null(m.e->job_reply->error);
	assert_int_equal(m.body.n, strlen("dump of loops as text"));
	stx__message_free(&m);

	Stx__Tensor t = STX__TENSOR__INIT, *list[1] = { &t };
	int64_t sizes[2] = { 2, 3 };
	float data[6] = { 1, 2, 3, 4, 5, 6 };
	struct stx_span pieces[2] = { text("kernel a\n"), { (const uint8_t *)data, sizeof data } };
	stx__job__init(&j);
	j.kind = STX__JOB_KIND__JOB_REFERENCE;
	j.format = 2;
	t.dtype = STX_F32;
	t.sizes = sizes;
	t.n_sizes = 2;
	j.tensors = list;
	j.n_tensors = 1;
	ask(sock, &j, pieces, 2, &m);
	assert_null(m.e->job_reply->error);
	assert_int_equal(m.e->job_reply->n_tensors, 1);
	assert_int_equal(m.e->job_reply->tensors[0]->n_sizes, 2);
	assert_int_equal(m.body.n, sizeof data);
	assert_memory_equal(m.body.at, data, sizeof data);
	stx__message_free(&m);
	/* Sizes that overflow, do not fit the data, or are negative. */
	static const int64_t bad[][2] = { { INT64_MAX, 3 }, { 2, 4 }, { -2, -3 }, { 0, 3 } };
	for (unsigned i = 0; i < 4; i++) {
		sizes[0] = bad[i][0];
		sizes[1] = bad[i][1];
		ask(sock, &j, pieces, 2, &m);
		assert_non_null(m.e->job_reply->error);
		assert_int_equal(m.e->job_reply->error->code, STX_E_INVALID);
		stx__message_free(&m);
	}
	stop(sock);
}

static void test_worker_dump_and_reference_serve_tools(void **state)
{
	(void)state;
	dump_and_reference(NULL);
	dump_and_reference("off"); /* where the leak check runs: stop() wants status 0 */
}

static void test_worker_pieces_that_do_not_add_up_are_refused(void **state)
{
	(void)state;
	int sock;
	char sandbox[96];
	start(&sock, NULL);
	hello(sock, sandbox, sizeof sandbox);
	static const uint64_t sizes[][2] = {
		{ 1, 1 }, { 5, 6 }, { UINT64_MAX, 11 }, { 11, UINT64_MAX }
	};
	for (unsigned i = 0; i < 4; i++) {
		struct stx__message m;
		Stx__Job j = STX__JOB__INIT;
		Stx__Envelope e = STX__ENVELOPE__INIT;
		struct stx_span body = text("0123456789");
		j.kind = STX__JOB_KIND__JOB_LINK;
		j.target = "t";
		j.piece_bytes = (uint64_t *)sizes[i];
		j.n_piece_bytes = 2;
		e.msg_case = STX__ENVELOPE__MSG_JOB;
		e.job = &j;
		assert_int_equal(stx__channel_send(sock, &e, &body, 1, -1, NULL), 0);
		receive(sock, &m);
		assert_non_null(m.e->job_reply->error);
		assert_int_equal(m.e->job_reply->error->code, STX_E_PROTOCOL);
		stx__message_free(&m);
	}
	stop(sock);
}

static void test_worker_unsealed_body_is_refused(void **state)
{
	(void)state;
	int sock, status;
	char sandbox[96];
	start(&sock, NULL);
	hello(sock, sandbox, sizeof sandbox);
	Stx__Job j = STX__JOB__INIT;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	e.msg_case = STX__ENVELOPE__MSG_JOB;
	e.job = &j;
	int fd = stx__memfd_new("unsealed");
	assert_int_equal(stx__memfd_write(fd, "abc", 3), 0);
	assert_int_equal(stx__channel_send(sock, &e, NULL, 0, fd, NULL), 0);
	assert_int_equal(waitpid(worker, &status, 0), worker); /* a broken peer: it ends */
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	close(fd);
	close(sock);
}

static void test_worker_envelope_over_the_limit_spills(void **state)
{
	(void)state;
	int sock;
	char sandbox[96];
	struct stx__message m;
	struct stx_bytes graph = { 0 };
	start(&sock, NULL);
	hello(sock, sandbox, sizeof sandbox);
	for (int i = 0; i < 4000; i++)
		stx_bytes_printf(&graph, "kernel k%d\n", i);
	Stx__Job j = STX__JOB__INIT;
	struct stx_span body = { graph.at, graph.n };
	j.kind = STX__JOB_KIND__JOB_PLAN;
	ask(sock, &j, &body, 1, &m);
	assert_null(m.e->job_reply->error);
	assert_int_equal(m.e->job_reply->n_kernels, 4000);
	assert_int_equal(stx__message_take_fd(&m), -1); /* not the body alone */
	assert_memory_equal(m.body.at, graph.at, graph.n);
	stx__message_free(&m);
	stx_bytes_free(&graph);
	stop(sock);
}

static void test_worker_without_its_channel_explains_itself(void **state)
{
	(void)state;
	int status;
	fflush(NULL);
	pid_t p = fork();
	if (p == 0) {
		close(3);
		int null = open("/dev/null", O_WRONLY);
		dup2(null, 2);
		execl("/proc/self/exe", "staxd", "--worker", NULL);
		_exit(127);
	}
	waitpid(p, &status, 0);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
}

int main(int argc, char **argv)
{
	harness_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worker_sandbox_refuses_everything_and_compiles),
		cmocka_unit_test(test_worker_without_landlock_refuses_the_same),
		cmocka_unit_test(test_worker_of_an_ordinary_user_refuses_the_same),
		cmocka_unit_test(test_worker_reply_over_its_share_of_memory_is_an_error),
		cmocka_unit_test(test_worker_sandbox_can_be_switched_off_by_a_private_launcher),
		cmocka_unit_test(test_worker_dump_and_reference_serve_tools),
		cmocka_unit_test(test_worker_pieces_that_do_not_add_up_are_refused),
		cmocka_unit_test(test_worker_unsealed_body_is_refused),
		cmocka_unit_test(test_worker_envelope_over_the_limit_spills),
		cmocka_unit_test(test_worker_without_its_channel_explains_itself),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
