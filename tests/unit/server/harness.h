/* harness.h: a daemon with the fake compiler, run by a child process, and a blocking client of it.
 * The program's main must begin with harness_main: workers are this program again. */
#ifndef HARNESS_H
#define HARNESS_H

#include "fake_compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "config.h"
#include "frame.h"
#include "log.h"
#include "server.h"
#include "worker.h"

/* For what must come: long, so that a busy machine or a process that is stopped for a while is no
 * failure. Nothing here is right or wrong by how long it took. */
#define WAIT_MS      120000
#define MAYBE_UNUSED __attribute__((unused)) /* not every program needs every helper */

struct harness {
	char dir[64], socket[96];
	pid_t pid;
	struct fake_gate *gate;
};

MAYBE_UNUSED static uint64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* until(condition): looks until it holds; fails the test after WAIT_MS. */
#define until(condition)                                                                           \
	do {                                                                                       \
		uint64_t end_ms = now_ms() + WAIT_MS;                                              \
		while (!(condition)) {                                                             \
			if (now_ms() > end_ms)                                                     \
				fail_msg("it never came to %s", #condition);                       \
			usleep(2000);                                                              \
		}                                                                                  \
	} while (0)

MAYBE_UNUSED static int harness_main(int argc, char **argv)
{
	stx_log_init("test", STX_LOG_WARN);
	signal(SIGPIPE, SIG_IGN);
	if (argc > 1 && !strcmp(argv[1], "--worker"))
		exit(stx_worker_main(argc - 2, argv + 2));
	return 0;
}

/* settings: "name=value" flags without the dashes, NULL at the end; may be NULL. */
MAYBE_UNUSED static void harness_serve(struct harness *h, const char *const *settings)
{
	char flags[32][128];
	char *argv[40] = { "staxd" };
	int n = 1;
	snprintf(flags[0], sizeof flags[0], "--listen=unix:%s", h->socket);
	snprintf(flags[1], sizeof flags[1], "--cache-dir=%s/cache", h->dir);
	argv[n++] = flags[0];
	argv[n++] = flags[1];
	for (int i = 0; settings && settings[i]; i++) {
		snprintf(flags[n], sizeof flags[n], "--%s", settings[i]);
		argv[n] = flags[n];
		n++;
	}
	struct stx_config c;
	struct stx_diag d = { 0 };
	struct stx__server *s;
	uv_loop_t loop;
	if (chdir(h->dir))
		_exit(102);
	uv_loop_init(&loop);
	stx_err e = stx_config_read(&c, n, argv, (stx__getenv_fn *)getenv, &d);
	if (!e)
		e = stx_server_new(&loop, &c, &s, &d);
	if (e) {
		fprintf(stderr, "harness: %s\n", d.text);
		_exit(100);
	}
	uv_run(&loop, UV_RUN_DEFAULT);
	int status = stx_server_free(s);
	if (uv_loop_close(&loop))
		status = 101;
	exit(status);
}

/* Makes the daemon's folder and the gate. */
MAYBE_UNUSED static void harness_prepare(struct harness *h)
{
	if (h->dir[0])
		return;
	const char *base = getenv("TMPDIR");
	snprintf(h->dir, sizeof h->dir, "%s/stax-test-XXXXXX",
		 base && strlen(base) < 30 ? base : "/tmp");
	assert_non_null(mkdtemp(h->dir));
	snprintf(h->socket, sizeof h->socket, "%s/s", h->dir);
	char path[96];
	snprintf(path, sizeof path, "%s/" FAKE_GATE_FILE, h->dir);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, sizeof *h->gate), 0);
	close(fd);
	h->gate = fake_gate_map(path);
	assert_non_null(h->gate);
}

MAYBE_UNUSED static void harness_start(struct harness *h, const char *const *settings)
{
	harness_prepare(h);
	fflush(NULL);
	h->pid = fork();
	if (h->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		harness_serve(h, settings);
	}
}

/* Exit status of the daemon, or minus its signal. */
MAYBE_UNUSED static int harness_wait(struct harness *h)
{
	int status = -1;
	waitpid(h->pid, &status, 0);
	h->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

MAYBE_UNUSED static int harness_stop(struct harness *h)
{
	kill(h->pid, SIGTERM);
	return harness_wait(h);
}

MAYBE_UNUSED static void harness_remove(struct harness *h)
{
	char command[128];
	snprintf(command, sizeof command, "rm -rf '%s'", h->dir);
	if (h->dir[0] && system(command))
		print_message("could not remove %s\n", h->dir);
	if (h->gate)
		munmap(h->gate, sizeof *h->gate);
	memset(h, 0, sizeof *h);
}

/* ---- client ---- */

/* -1: nobody listens. */
MAYBE_UNUSED static int client_try(struct harness *h)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	snprintf(a.sun_path, sizeof a.sun_path, "%s", h->socket);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (!connect(fd, (struct sockaddr *)&a, sizeof a))
		return fd;
	close(fd);
	return -1;
}

MAYBE_UNUSED static int client_connect(struct harness *h)
{
	int fd;
	until((fd = client_try(h)) >= 0);
	return fd;
}

MAYBE_UNUSED static void client_write(int fd, const void *p, size_t n)
{
	const char *at = p;
	while (n) {
		ssize_t w = send(fd, at, n, MSG_NOSIGNAL);
		if (w <= 0)
			return; /* the reader sees what happened */
		at += w;
		n -= (size_t)w;
	}
}

MAYBE_UNUSED static void client_send(int fd, const Stx__Envelope *e, const void *body, size_t n)
{
	struct stx_bytes b = { 0 };
	assert_int_equal(stx_frame_pack(e, (uint32_t)n, &b), 0);
	stx_bytes_put(&b, body, n);
	client_write(fd, b.at, b.n);
	stx_bytes_free(&b);
}

/* 0, or -1 at the end of the stream or after WAIT_MS. */
MAYBE_UNUSED static int client_read(int fd, void *p, size_t n)
{
	char *at = p;
	while (n) {
		struct pollfd pf = { fd, POLLIN, 0 };
		if (poll(&pf, 1, WAIT_MS) <= 0)
			return -1;
		ssize_t r = recv(fd, at, n, 0);
		if (r <= 0)
			return -1;
		at += r;
		n -= (size_t)r;
	}
	return 0;
}

/* Something has come, or the end. */
MAYBE_UNUSED static int readable(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };
	return poll(&p, 1, 0) == 1;
}

struct reply {
	Stx__Envelope *e; /* NULL: the connection ended */
	struct stx_bytes body;
	size_t off;
};

MAYBE_UNUSED static struct reply client_receive(int fd)
{
	struct reply r = { 0 };
	uint8_t prefix[STX_FRAME_PREFIX];
	uint32_t h, b;
	if (client_read(fd, prefix, sizeof prefix))
		return r;
	assert_int_equal(stx_frame_prefix(prefix, &h, &b, NULL), 0);
	uint8_t *header = malloc(h);
	assert_int_equal(client_read(fd, header, h), 0);
	stx_bytes_reserve(&r.body, b + 1);
	assert_int_equal(client_read(fd, r.body.at, b), 0);
	r.body.n = b;
	struct stx_diag d = { 0 };
	if (stx_frame_unpack_reply((struct stx_span){ header, h },
				   (struct stx_span){ r.body.at, b }, &r.e, &r.off, &d))
		fail_msg("bad reply: %s", d.text);
	free(header);
	return r;
}

MAYBE_UNUSED static void reply_free(struct reply *r)
{
	stx__envelope__free_unpacked(r->e, NULL);
	stx_bytes_free(&r->body);
	memset(r, 0, sizeof *r);
}

struct ask {
	const char *graph, *target, *ns;
	uint32_t deadline_ms;
	int recache, progress, fast;
	const char *give; /* name of an input whose value is given */
};

MAYBE_UNUSED static void fill_lookup(Stx__Lookup *l, Stx__Options *o, const struct ask *a,
				     struct stx_digest *digest)
{
	*digest = stx_digest_of(a->graph, strlen(a->graph));
	stx__lookup__init(l);
	stx__options__init(o);
	l->body_digest = (ProtobufCBinaryData){ 32, digest->b };
	l->format = 2;
	l->target = (char *)(a->target ? a->target : "cpu:x86-64-v3");
	l->ns = (char *)(a->ns ? a->ns : "");
	o->fast = a->fast;
	l->options = o;
}

MAYBE_UNUSED static void send_lookup(int fd, uint64_t id, const struct ask *a)
{
	Stx__Lookup l;
	Stx__Options o;
	struct stx_digest digest;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	fill_lookup(&l, &o, a, &digest);
	e.request_id = id;
	e.msg_case = STX__ENVELOPE__MSG_LOOKUP;
	e.lookup = &l;
	client_send(fd, &e, NULL, 0);
}

MAYBE_UNUSED static void send_compile(int fd, uint64_t id, const struct ask *a)
{
	Stx__Lookup l;
	Stx__Options o;
	Stx__Compile c = STX__COMPILE__INIT;
	struct stx_digest digest;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__GivenValue v = STX__GIVEN_VALUE__INIT, *values[1] = { &v };
	int64_t one = 1, data = 3;
	fill_lookup(&l, &o, a, &digest);
	if (a->give) {
		v.input = (char *)a->give;
		v.dtype = STX_I64;
		v.sizes = &one;
		v.n_sizes = 1;
		v.data = (ProtobufCBinaryData){ 8, (uint8_t *)&data };
		l.values = values;
		l.n_values = 1;
	}
	e.request_id = id;
	e.msg_case = STX__ENVELOPE__MSG_COMPILE;
	e.compile = &c;
	c.what = &l;
	c.deadline_ms = a->deadline_ms;
	c.recache = a->recache;
	c.want_progress = a->progress;
	client_send(fd, &e, a->graph, strlen(a->graph));
}

MAYBE_UNUSED static void send_cancel(int fd, uint64_t id)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__Cancel c = STX__CANCEL__INIT;
	e.request_id = id + 1;
	e.msg_case = STX__ENVELOPE__MSG_CANCEL;
	e.cancel = &c;
	c.request_id = id;
	client_send(fd, &e, NULL, 0);
}

/* The next reply that is no Progress. */
MAYBE_UNUSED static struct reply receive_final(int fd)
{
	for (;;) {
		struct reply r = client_receive(fd);
		if (!r.e || r.e->msg_case != STX__ENVELOPE__MSG_PROGRESS)
			return r;
		reply_free(&r);
	}
}

MAYBE_UNUSED static struct reply compile_graph(int fd, uint64_t id, const char *graph)
{
	struct ask a = { .graph = graph };
	send_compile(fd, id, &a);
	return receive_final(fd);
}

MAYBE_UNUSED static void assert_answer(const struct reply *r)
{
	assert_non_null(r->e);
	if (r->e->msg_case == STX__ENVELOPE__MSG_ERROR)
		fail_msg("error %d: %s", r->e->error->code, r->e->error->text);
	assert_int_equal(r->e->msg_case, STX__ENVELOPE__MSG_ANSWER);
}

MAYBE_UNUSED static void assert_error(const struct reply *r, stx_err code)
{
	assert_non_null(r->e);
	assert_int_equal(r->e->msg_case, STX__ENVELOPE__MSG_ERROR);
	if (r->e->error->code != code)
		fail_msg("error %s instead of %s: %s", stx_err_name(r->e->error->code),
			 stx_err_name(code), r->e->error->text);
}

MAYBE_UNUSED static struct reply receive_answer(int fd)
{
	struct reply r = receive_final(fd);
	assert_answer(&r);
	return r;
}

MAYBE_UNUSED static struct reply receive_error(int fd, stx_err code)
{
	struct reply r = receive_final(fd);
	assert_error(&r, code);
	return r;
}

MAYBE_UNUSED static struct reply compile_answer(int fd, uint64_t id, const char *graph)
{
	struct ask a = { .graph = graph };
	send_compile(fd, id, &a);
	return receive_answer(fd);
}

MAYBE_UNUSED static struct reply compile_error(int fd, uint64_t id, const char *graph, stx_err code)
{
	struct ask a = { .graph = graph };
	send_compile(fd, id, &a);
	return receive_error(fd, code);
}

/* The artifact's bytes, or the error. */
MAYBE_UNUSED static struct reply fetch(int fd, uint64_t id, ProtobufCBinaryData digest,
				       const char *ns)
{
	Stx__Fetch q = STX__FETCH__INIT;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	q.digest = digest;
	q.ns = (char *)ns;
	e.request_id = id;
	e.msg_case = STX__ENVELOPE__MSG_FETCH;
	e.fetch = &q;
	client_send(fd, &e, NULL, 0);
	return receive_final(fd);
}

MAYBE_UNUSED static void assert_fetched(const struct reply *f, const struct reply *answer)
{
	assert_non_null(f->e);
	assert_int_equal(f->e->msg_case, STX__ENVELOPE__MSG_FETCH_REPLY);
	assert_int_equal(f->body.n, answer->e->answer->size_bytes);
	struct stx_digest d = stx_digest_of(f->body.at, f->body.n);
	assert_memory_equal(d.b, answer->e->answer->digest.data, 32);
}

MAYBE_UNUSED static void compile_ok(int fd, uint64_t id, const char *graph)
{
	struct reply r = compile_answer(fd, id, graph);
	reply_free(&r);
}

/* The Pong. */
MAYBE_UNUSED static struct reply ping(int fd)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__Ping q = STX__PING__INIT;
	e.msg_case = STX__ENVELOPE__MSG_PING;
	e.ping = &q;
	client_send(fd, &e, NULL, 0);
	struct reply r = receive_final(fd);
	assert_non_null(r.e);
	assert_int_equal(r.e->msg_case, STX__ENVELOPE__MSG_PONG);
	return r;
}

/* Value of a counter, UINT64_MAX when there is none of the name. */
MAYBE_UNUSED static uint64_t stat_of(int fd, const char *name)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__Stats q = STX__STATS__INIT;
	e.msg_case = STX__ENVELOPE__MSG_STATS;
	e.request_id = 999999;
	e.stats = &q;
	client_send(fd, &e, NULL, 0);
	struct reply r = receive_final(fd);
	assert_non_null(r.e);
	assert_int_equal(r.e->msg_case, STX__ENVELOPE__MSG_STATS_REPLY);
	uint64_t v = UINT64_MAX;
	for (size_t i = 0; i < r.e->stats_reply->n_names; i++)
		if (!strcmp(r.e->stats_reply->names[i], name))
			v = r.e->stats_reply->values[i];
	reply_free(&r);
	return v;
}

/* A counter or gauge to become value. */
MAYBE_UNUSED static void wait_for(int fd, const char *stat, uint64_t value)
{
	uint64_t is, end_ms = now_ms() + WAIT_MS;
	while ((is = stat_of(fd, stat)) != value && now_ms() < end_ms)
		usleep(2000);
	if (is != value) /* not asked again: it may be another by now */
		fail_msg("%s is %llu, not %llu", stat, (unsigned long long)is,
			 (unsigned long long)value);
}

/* The program's one daemon and the graph that most tests compile. */
MAYBE_UNUSED static struct harness h;
MAYBE_UNUSED static const char two_kernels[] = "name in out\nkernel a\nkernel b\nkernel a\n";

/* n jobs have come to a hold, those before included. */
MAYBE_UNUSED static void gate_wait(uint32_t n)
{
	until(h.gate->arrived >= n);
}

/* The first n of all that ever come go on. */
MAYBE_UNUSED static void gate_let(uint32_t n)
{
	h.gate->let_through = n;
	syscall(SYS_futex, &h.gate->let_through, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Starts it; a connection. */
MAYBE_UNUSED static int serve(const char *const *settings)
{
	harness_start(&h, settings);
	return client_connect(&h);
}
#define SETTINGS(...)                                                                              \
	(const char *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}

MAYBE_UNUSED static int teardown(void **state)
{
	(void)state;
	if (h.gate)
		gate_let(UINT32_MAX);
	if (h.pid)
		harness_stop(&h);
	harness_remove(&h);
	return 0;
}
#define T(name) cmocka_unit_test_teardown(name, teardown)

#endif
