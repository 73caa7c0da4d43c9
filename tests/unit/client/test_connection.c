/* test_connection.c: requests against a server of this file that follows a script: lost
 * connections, errors, progress, values, digests that do not match. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "client.h"
#include "dtype.h"
#include "frame.h"

enum { NEEDED_BYTES = 16 };

/* What the server does, and what it saw. */
struct script {
	int drop_connections;  /* closed after their first request */
	int drop_before_hello; /* closed at once */
	int never_answer;
	int version; /* 0: the right one */
	int hit;     /* Lookup answers itself */
	int need_values;
	int progress;
	int stale; /* replies of unknown ids first */
	stx_err error;
	const void *artifact;
	size_t artifact_bytes;
	int wrong_bytes; /* Fetch answers something else */
	const char *path;

	int connections, lookups, compiles, fetches;
	size_t body_bytes;
	uint32_t deadline_ms;
	char target[64], ns[64];
};

struct server {
	struct script *s;
	char path[100], address[120];
	int fd;
	pthread_t thread;
};

static int read_all(int fd, void *p, size_t n)
{
	while (n) {
		ssize_t r = read(fd, p, n);
		if (r <= 0)
			return -1;
		p = (char *)p + r;
		n -= (size_t)r;
	}
	return 0;
}

static void reply(int fd, Stx__Envelope *m, uint64_t id, struct stx_span body)
{
	struct stx_bytes b = { 0 };
	m->request_id = id;
	assert_int_equal(stx_frame_pack_reply(m, (uint32_t)body.n, &b), 0);
	stx_bytes_put(&b, body.at, body.n);
	ssize_t w = write(fd, b.at, b.n);
	(void)w;
	stx_bytes_free(&b);
}

static void reply_answer(int fd, uint64_t id, struct script *s, int need_body, int given)
{
	Stx__Envelope m = STX__ENVELOPE__INIT;
	Stx__Answer a = STX__ANSWER__INIT;
	Stx__NeededValue need = STX__NEEDED_VALUE__INIT, *needs = &need;
	struct stx_digest d = stx_digest_of(s->artifact, s->artifact_bytes);
	need.input = (char *)"shape";
	need.why = (char *)"Reshape 'r'";
	a.need_body = need_body;
	if (s->need_values && !given && !need_body) {
		a.need_values = &needs;
		a.n_need_values = 1;
	} else if (!need_body) {
		a.key = a.digest = (ProtobufCBinaryData){ sizeof d.b, d.b };
		a.size_bytes = s->artifact_bytes;
		a.path = (char *)(uintptr_t)(s->path ? s->path : "");
		a.reason = (char *)"because";
		a.hit = s->hit;
	}
	m.msg_case = STX__ENVELOPE__MSG_ANSWER;
	m.answer = &a;
	reply(fd, &m, id, (struct stx_span){ NULL, 0 });
}

static void reply_error(int fd, uint64_t id, stx_err code)
{
	Stx__Envelope m = STX__ENVELOPE__INIT;
	Stx__Error e = STX__ERROR__INIT;
	e.code = code;
	e.stage = (char *)"import";
	e.node = (char *)"conv1";
	e.text = (char *)"no such operator";
	m.msg_case = STX__ENVELOPE__MSG_ERROR;
	m.error = &e;
	reply(fd, &m, id, (struct stx_span){ NULL, 0 });
}

static void reply_progress(int fd, uint64_t id, uint32_t done)
{
	Stx__Envelope m = STX__ENVELOPE__INIT;
	Stx__Progress p = STX__PROGRESS__INIT;
	p.stage = (char *)"kernels";
	p.done = done;
	p.total = 3;
	m.msg_case = STX__ENVELOPE__MSG_PROGRESS;
	m.progress = &p;
	reply(fd, &m, id, (struct stx_span){ NULL, 0 });
}

static void reply_hello(int fd, uint64_t id, const struct script *s)
{
	Stx__Envelope m = STX__ENVELOPE__INIT;
	Stx__HelloReply h = STX__HELLO_REPLY__INIT;
	h.version = s->version ? (uint32_t)s->version : STX_PROTOCOL_VERSION;
	h.server = (char *)"fake";
	m.msg_case = STX__ENVELOPE__MSG_HELLO_REPLY;
	m.hello_reply = &h;
	reply(fd, &m, id, (struct stx_span){ NULL, 0 });
}

static void on_compile(int fd, uint64_t id, const Stx__Compile *c, size_t body, struct script *s)
{
	s->compiles++;
	s->body_bytes = body;
	s->deadline_ms = c->deadline_ms;
	snprintf(s->target, sizeof s->target, "%s", c->what->target);
	snprintf(s->ns, sizeof s->ns, "%s", c->what->ns);
	for (int i = 0; i < s->progress; i++)
		reply_progress(fd, id, (uint32_t)i);
	if (s->stale)
		reply_error(fd, id + 1000, STX_E_INTERNAL);
	if (s->error)
		reply_error(fd, id, s->error);
	else
		reply_answer(fd, id, s, 0,
			     c->what->n_values == 1 &&
				     c->what->values[0]->data.len == NEEDED_BYTES);
}

static void on_fetch(int fd, uint64_t id, struct script *s)
{
	Stx__Envelope m = STX__ENVELOPE__INIT;
	Stx__FetchReply f = STX__FETCH_REPLY__INIT;
	struct stx_span body = { s->artifact, s->artifact_bytes };
	s->fetches++;
	if (s->wrong_bytes)
		body.n--;
	m.msg_case = STX__ENVELOPE__MSG_FETCH_REPLY;
	m.fetch_reply = &f;
	reply(fd, &m, id, body);
}

/* One request; -1 when the connection is to be closed. */
static int serve_one(int fd, struct script *s)
{
	uint8_t prefix[8];
	uint32_t head, body;
	Stx__Envelope *m = NULL;
	if (read_all(fd, prefix, 8) || stx_frame_prefix(prefix, &head, &body, NULL))
		return -1;
	uint8_t *buf = malloc((size_t)head + body + 1);
	int r = read_all(fd, buf, (size_t)head + body) ||
				stx_frame_unpack((struct stx_span){ buf, head }, &m, NULL)
			? -1
			: 0;
	if (!r && m->msg_case == STX__ENVELOPE__MSG_HELLO) {
		reply_hello(fd, m->request_id, s);
	} else if (!r && s->drop_connections > 0) {
		s->drop_connections--;
		r = -1;
	} else if (!r && !s->never_answer) {
		if (m->msg_case == STX__ENVELOPE__MSG_LOOKUP) {
			s->lookups++;
			reply_answer(fd, m->request_id, s, !s->hit, 0);
		} else if (m->msg_case == STX__ENVELOPE__MSG_COMPILE) {
			on_compile(fd, m->request_id, m->compile, body, s);
		} else if (m->msg_case == STX__ENVELOPE__MSG_FETCH) {
			on_fetch(fd, m->request_id, s);
		} else {
			reply_error(fd, m->request_id, STX_E_PROTOCOL);
		}
	}
	if (m)
		stx__envelope__free_unpacked(m, NULL);
	free(buf);
	return r;
}

static void *serve(void *arg)
{
	struct server *sv = arg;
	int fd;
	while ((fd = accept(sv->fd, NULL, NULL)) >= 0) {
		sv->s->connections++;
		if (sv->s->drop_before_hello > 0)
			sv->s->drop_before_hello--;
		else
			while (!serve_one(fd, sv->s))
				;
		close(fd);
	}
	return NULL;
}

static void start(struct server *sv, struct script *s)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	static int number;
	memset(sv, 0, sizeof *sv);
	sv->s = s;
	snprintf(sv->path, sizeof sv->path, "/tmp/stax-test-%d-%d.sock", (int)getpid(), number++);
	snprintf(sv->address, sizeof sv->address, "unix:%s", sv->path);
	strcpy(sa.sun_path, sv->path);
	unlink(sv->path);
	sv->fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(sv->fd, (struct sockaddr *)&sa, sizeof sa), 0);
	assert_int_equal(listen(sv->fd, 8), 0);
	assert_int_equal(pthread_create(&sv->thread, NULL, serve, sv), 0);
}

static void stop(struct server *sv)
{
	shutdown(sv->fd, SHUT_RDWR);
	pthread_join(sv->thread, NULL);
	close(sv->fd);
	unlink(sv->path);
}

static struct stax_client *connect_to(const struct server *sv)
{
	struct stax_client *c;
	assert_int_equal(stax_connect(sv->address, &c, NULL), 0);
	return c;
}

static struct stax_request request(void)
{
	return (struct stax_request){
		.format = STAX_TEXT, .graph = "graph", .graph_bytes = 5, .target = "cpu:x86-64-v3"
	};
}

/* ---- compile ---- */

static void test_connection_hit_sends_no_graph(void **state)
{
	(void)state;
	struct script s = { .hit = 1, .artifact = "so", .artifact_bytes = 2 };
	struct server sv;
	struct stax_answer *a;
	struct stax_request r = request();
	start(&sv, &s);
	struct stax_client *c = connect_to(&sv);
	assert_int_equal(stax_compile(c, &r, &a, NULL), 0);
	assert_int_equal(a->hit, 1);
	assert_string_equal(a->reason, "because");
	assert_string_equal(a->target, "cpu:x86-64-v3");
	assert_int_equal(strlen(a->digest), 64);
	stax_answer_free(a);
	stax_client_free(c);
	stop(&sv);
	assert_int_equal(s.lookups, 1);
	assert_int_equal(s.compiles, 0);
}

static unsigned steps;
static void on_progress(void *ctx, const char *stage, uint32_t done, uint32_t total, uint64_t ms)
{
	(void)ctx;
	(void)ms;
	assert_string_equal(stage, "kernels");
	assert_int_equal(total, 3);
	assert_int_equal(done, steps);
	steps++;
}

static void test_connection_miss_sends_graph(void **state)
{
	(void)state;
	struct script s = { .artifact = "so", .artifact_bytes = 2, .progress = 3, .stale = 1 };
	struct server sv;
	struct stax_answer *a;
	struct stax_request r = request();
	start(&sv, &s);
	struct stax_client *c = connect_to(&sv);
	r.progress = on_progress;
	r.deadline_ms = 600000;
	r.ns = "team";
	steps = 0;
	assert_int_equal(stax_compile(c, &r, &a, NULL), 0);
	stax_answer_free(a);
	stax_client_free(c);
	stop(&sv);
	assert_int_equal(steps, 3);
	assert_int_equal(s.lookups, 1);
	assert_int_equal(s.compiles, 1);
	assert_int_equal(s.body_bytes, 5);
	assert_int_equal(s.deadline_ms, 600000);
	assert_string_equal(s.ns, "team");
	assert_string_equal(s.target, "cpu:x86-64-v3");
}

static void test_connection_lost_is_opened_again(void **state)
{
	(void)state;
	struct script s = { .artifact = "so", .artifact_bytes = 2 };
	struct server sv;
	struct stax_answer *a;
	struct stax_request r = request();
	start(&sv, &s);
	struct stax_client *c = connect_to(&sv);
	s.drop_connections = 2;
	s.drop_before_hello = 1;
	assert_int_equal(stax_compile(c, &r, &a, NULL), 0);
	stax_answer_free(a);
	stax_client_free(c);
	stop(&sv);
	assert_int_equal(s.connections, 4);
	assert_int_equal(s.compiles, 1);
}

static void test_connection_lost_four_times_fails(void **state)
{
	(void)state;
	struct script s = { .drop_connections = 100 };
	struct server sv;
	struct stax_answer *a;
	struct stax_error err;
	struct stax_request r = request();
	start(&sv, &s);
	struct stax_client *c = connect_to(&sv);
	assert_int_equal(stax_compile(c, &r, &a, &err), STX_E_CONNECT);
	assert_null(a);
	assert_int_equal(stax_exit_code(err.code), 3);
	stax_client_free(c);
	stop(&sv);
	assert_int_equal(s.connections, 4); /* the first and three retries */
}

static void test_connection_error_passed_on(void **state)
{
	(void)state;
	struct script s = { .error = STX_E_UNSUPPORTED };
	struct server sv;
	struct stax_answer *a;
	struct stax_error err;
	struct stax_request r = request();
	start(&sv, &s);
	struct stax_client *c = connect_to(&sv);
	assert_int_equal(stax_compile(c, &r, &a, &err), STX_E_UNSUPPORTED);
	assert_string_equal(err.stage, "import");
	assert_string_equal(err.node, "conv1");
	assert_string_equal(err.text, "no such operator");
	s.error = 0; /* the connection is still good */
	s.artifact = "so";
	s.artifact_bytes = 2;
	assert_int_equal(stax_compile(c, &r, &a, &err), 0);
	stax_answer_free(a);
	stax_client_free(c);
	stop(&sv);
	assert_int_equal(s.connections, 1);
}

static void test_connection_needed_values_surface(void **state)
{
	(void)state;
	struct script s = { .need_values = 1, .artifact = "so", .artifact_bytes = 2 };
	struct server sv;
	struct stax_answer *a;
	struct stax_error err;
	struct stax_request r = request();
	int64_t shape[2] = { 3, 4 }, two = 2;
	start(&sv, &s);
	struct stax_client *c = connect_to(&sv);
	assert_int_equal(stax_compile(c, &r, &a, &err), STX_E_NEED_VALUES);
	assert_non_null(a);
	assert_int_equal(a->nneeded, 1);
	assert_string_equal(a->needed[0].input, "shape");
	assert_string_equal(err.node, "shape");
	struct stax_value v = { "shape", STX_I64, 1, &two, shape, sizeof shape };
	stax_answer_free(a);
	r.values = &v;
	r.nvalues = 1;
	assert_int_equal(stax_compile(c, &r, &a, &err), 0);
	stax_answer_free(a);
	v.bytes = 8; /* does not fit its shape: never sent */
	assert_int_equal(stax_compile(c, &r, &a, &err), STX_E_USAGE);
	stax_client_free(c);
	stop(&sv);
	assert_int_equal(s.compiles, 2);
}

static void test_connection_silent_server_meets_deadline(void **state)
{
	(void)state;
	struct script s = { .never_answer = 1 };
	struct server sv;
	struct stax_answer *a;
	struct stax_error err;
	struct stax_request r = request();
	start(&sv, &s);
	struct stax_client *c = connect_to(&sv);
	r.deadline_ms = 1;
	assert_int_equal(stax_compile(c, &r, &a, &err), STX_E_DEADLINE);
	assert_int_equal(stax_exit_code(err.code), 6);
	stax_client_free(c);
	stop(&sv);
}

static void test_connection_other_version_named(void **state)
{
	(void)state;
	struct script s = { .version = 9 };
	struct server sv;
	struct stax_client *c;
	struct stax_error err;
	start(&sv, &s);
	assert_int_equal(stax_connect(sv.address, &c, &err), STX_E_VERSION);
	assert_null(c);
	assert_non_null(strstr(err.text, "9"));
	stop(&sv);
}

static void test_connection_no_server_is_connect(void **state)
{
	(void)state;
	struct stax_client *c;
	struct stax_error err;
	assert_int_equal(stax_connect("unix:/nonexistent/stax.sock", &c, &err), STX_E_CONNECT);
	assert_non_null(strstr(err.text, "/nonexistent/stax.sock"));
	assert_int_equal(stax_connect("http://x", &c, &err), STX_E_USAGE);
	assert_int_equal(stax_connect("tcp:localhost", &c, &err), STX_E_USAGE);
	assert_int_equal(stax_connect("unix:", &c, &err), STX_E_USAGE);
}

/* ---- fetch ---- */

static void test_connection_fetch_verifies_digest(void **state)
{
	(void)state;
	struct script s = { .hit = 1, .artifact = "artifact", .artifact_bytes = 8 };
	struct server sv;
	struct stax_answer *a;
	struct stax_error err;
	struct stax_request r = request();
	void *bytes;
	size_t n;
	start(&sv, &s);
	struct stax_client *c = connect_to(&sv);
	assert_int_equal(stax_compile(c, &r, &a, &err), 0);
	assert_int_equal(stax_fetch(c, a, &bytes, &n, &err), 0);
	assert_int_equal(n, 8);
	assert_memory_equal(bytes, "artifact", 8);
	free(bytes);
	s.wrong_bytes = 1;
	assert_int_equal(stax_fetch(c, a, &bytes, &n, &err), STX_E_UNTRUSTED);
	assert_int_equal(stax_exit_code(err.code), 4);
	stax_answer_free(a);
	stax_client_free(c);
	stop(&sv);
}

/* The path is a hint: a link, or other bytes under it, lead to Fetch. */
static void test_connection_path_is_only_a_hint(void **state)
{
	(void)state;
	char file[100], link[104];
	struct script s = { .hit = 1, .artifact = "artifact", .artifact_bytes = 8 };
	struct server sv;
	struct stax_request r = request();
	static const struct {
		const char *content;
		int through_link, fetches;
	} t[] = {
		{ "artifact", 0, 0 }, { "artefact", 0, 1 }, { "artifact", 1, 1 }, { "art", 0, 1 }
	};
	start(&sv, &s);
	struct stax_client *c = connect_to(&sv);
	snprintf(file, sizeof file, "/tmp/stax-test-%d.so", (int)getpid());
	snprintf(link, sizeof link, "%s.ln", file);
	unlink(link);
	assert_int_equal(symlink(file, link), 0);
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		struct stax_answer *a;
		void *bytes;
		size_t n;
		FILE *f = fopen(file, "w");
		fputs(t[i].content, f);
		fclose(f);
		s.path = t[i].through_link ? link : file;
		s.fetches = 0;
		assert_int_equal(stax_compile(c, &r, &a, NULL), 0);
		assert_int_equal(stax_fetch(c, a, &bytes, &n, NULL), 0);
		assert_memory_equal(bytes, "artifact", 8);
		assert_int_equal(s.fetches, t[i].fetches);
		free(bytes);
		stax_answer_free(a);
	}
	unlink(file);
	unlink(link);
	stax_client_free(c);
	stop(&sv);
}

static void test_connection_foreign_target_not_loaded(void **state)
{
	(void)state;
	struct stax_answer a = { .target = "cpu:x86-64-v4+avx512bf16" };
	struct stax_artifact *out;
	struct stax_error err;
	uint32_t host = stx__host_cpu();
	if ((host & STX_PLAN_CPU_LEVEL) == 4 && host & STX_PLAN_CPU_AVX512BF16)
		return; /* runs everything there is */
	assert_int_equal(stax_load(NULL, &a, &out, &err), STX_E_UNSUPPORTED);
	assert_non_null(strstr(err.text, "avx512bf16"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_connection_hit_sends_no_graph),
		cmocka_unit_test(test_connection_miss_sends_graph),
		cmocka_unit_test(test_connection_lost_is_opened_again),
		cmocka_unit_test(test_connection_lost_four_times_fails),
		cmocka_unit_test(test_connection_error_passed_on),
		cmocka_unit_test(test_connection_needed_values_surface),
		cmocka_unit_test(test_connection_silent_server_meets_deadline),
		cmocka_unit_test(test_connection_other_version_named),
		cmocka_unit_test(test_connection_no_server_is_connect),
		cmocka_unit_test(test_connection_fetch_verifies_digest),
		cmocka_unit_test(test_connection_path_is_only_a_hint),
		cmocka_unit_test(test_connection_foreign_target_not_loaded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
