/* test_connection.c: hostile, slow, greedy and broken clients; the others must not notice. */
#include "harness.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <sys/resource.h>

static const char graph[] = "name in out\nkernel a\n";

static void assert_alive(void)
{
	int fd = client_connect(&h);
	compile_ok(fd, 1, graph);
	close(fd);
}

static void assert_closed(int fd)
{
	char c;
	struct pollfd p = { fd, POLLIN, 0 };
	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_true(recv(fd, &c, 1, 0) <= 0);
	close(fd);
}

static void test_connection_bad_prefix_is_answered_and_closed(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	static const uint32_t prefixes[][2] = {
		{ 65537, 0 }, { 0xffffffff, 0xffffffff }, { 10, 0x7fffffff }, { 0, 0 }
	};
	for (unsigned i = 0; i < 4; i++) {
		int fd = client_connect(&h);
		client_write(fd, prefixes[i], 8);
		struct reply r = client_receive(fd);
		assert_error(&r, STX_E_PROTOCOL);
		reply_free(&r);
		assert_closed(fd);
	}
	assert_alive();
}

static void test_connection_header_bomb_is_refused(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	struct stx_bytes b = { 0 };
	stx_bytes_u32(&b, 60000);
	stx_bytes_u32(&b, 0);
	for (int i = 0; i < 20000; i++)
		stx_bytes_put(&b, "\xf0\x01\x00", 3);
	int fd = client_connect(&h);
	client_write(fd, b.at, b.n);
	struct reply r = client_receive(fd);
	assert_error(&r, STX_E_PROTOCOL);
	assert_non_null(strstr(r.e->error->text, "4096"));
	reply_free(&r);
	assert_closed(fd);
	stx_bytes_free(&b);
	assert_alive();
}

static void test_connection_header_in_single_bytes_is_understood(void **state)
{
	(void)state;
	int fd = serve(NULL);
	Stx__Lookup l = STX__LOOKUP__INIT;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	struct stx_bytes b = { 0 };
	uint8_t digest[32] = { 0 };
	l.body_digest = (ProtobufCBinaryData){ 32, digest };
	l.format = 2;
	l.target = "cpu:x86-64-v3";
	e.request_id = 3;
	e.msg_case = STX__ENVELOPE__MSG_LOOKUP;
	e.lookup = &l;
	for (int i = 0; i < 3; i++)
		assert_int_equal(stx_frame_pack(&e, 0, &b), 0);
	for (size_t i = 0; i < b.n; i++) {
		client_write(fd, b.at + i, 1);
		if (i % 7 == 0)
			usleep(1000);
	}
	for (int i = 0; i < 3; i++) {
		struct reply r = client_receive(fd);
		assert_answer(&r);
		assert_true(r.e->answer->need_body);
		reply_free(&r);
	}
	stx_bytes_free(&b);
	close(fd);
}

/* 0: they were given up before all of them had been looked at. */
static int give_up_after(unsigned ms)
{
	char header[32], stall[32];
	snprintf(header, sizeof header, "header-timeout=%u", ms);
	snprintf(stall, sizeof stall, "stall-timeout=%u", ms);
	harness_start(&h, SETTINGS(header, stall));
	int fd = client_connect(&h), slow = client_connect(&h), stalled = client_connect(&h), seen;
	client_write(slow, "\x20\x00\x00\x00\x00", 5);
	Stx__Compile c = STX__COMPILE__INIT;
	Stx__Lookup l = STX__LOOKUP__INIT;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	struct stx_bytes b = { 0 };
	c.what = &l;
	e.msg_case = STX__ENVELOPE__MSG_COMPILE;
	e.compile = &c;
	assert_int_equal(stx_frame_pack(&e, 1 << 20, &b), 0);
	client_write(stalled, b.at, b.n);
	client_write(stalled, b.at, b.n); /* some of the body */
	until((seen = stat_of(fd, "received_bytes") == (1 << 20) + b.n - STX_FRAME_PREFIX) ||
	      readable(stalled));
	assert_closed(slow);
	assert_closed(stalled);
	wait_for(fd, "received_bytes", 0);
	wait_for(fd, "connections", 1);
	close(fd);
	stx_bytes_free(&b);
	return seen;
}

static void test_connection_slow_header_and_stalled_body_are_given_up(void **state)
{
	(void)state;
	for (unsigned ms = 300; !give_up_after(ms); ms *= 4)
		teardown(NULL); /* the machine is that slow */
}

static void test_connection_body_over_budget_is_busy_and_the_stream_goes_on(void **state)
{
	(void)state;
	static const char *const settings[] = { "connection-received=100KiB", NULL };
	harness_start(&h, settings);
	char *big = malloc(200001);
	memset(big, '#', 200000);
	big[200000] = 0;
	int fd = client_connect(&h);
	struct reply r = compile_error(fd, 1, big, STX_E_BUSY);
	assert_non_null(strstr(r.e->error->text, "connection_received"));
	reply_free(&r);
	compile_ok(fd, 2, graph);
	wait_for(fd, "received_bytes", 0);
	free(big);
	close(fd);
}

/* A header may be 64 KiB: a thousand waiting requests would hold 64 MiB that nobody counted. */
static void test_connection_header_counts_against_the_budget(void **state)
{
	(void)state;
	static const char *const settings[] = { "connection-received=20KiB", NULL };
	harness_start(&h, settings);
	char job[30001];
	memset(job, 'j', 30000);
	job[30000] = 0;
	int fd = client_connect(&h);
	Stx__Lookup l;
	Stx__Options o;
	Stx__Compile c = STX__COMPILE__INIT;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	struct stx_digest digest;
	struct ask a = { .graph = graph };
	fill_lookup(&l, &o, &a, &digest);
	c.what = &l;
	c.job = job;
	e.request_id = 1;
	e.msg_case = STX__ENVELOPE__MSG_COMPILE;
	e.compile = &c;
	client_send(fd, &e, graph, strlen(graph));
	struct reply r = client_receive(fd);
	assert_error(&r, STX_E_BUSY);
	reply_free(&r);
	compile_ok(fd, 2, graph);
	wait_for(fd, "received_bytes", 0);
	close(fd);
}

static int descriptors_of(pid_t pid)
{
	char path[64];
	int n = 0;
	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	DIR *l = opendir(path);
	assert_non_null(l);
	for (struct dirent *e; (e = readdir(l));)
		n += e->d_name[0] != '.';
	closedir(l);
	return n;
}

static size_t workers_of(int fd)
{
	struct reply r = ping(fd);
	size_t n = r.e->pong->n_worker_pids;
	reply_free(&r);
	return n;
}

/* Each waiting request holds a descriptor; with all of them taken nobody else could connect. */
static void test_connection_bodies_leave_descriptors_for_others(void **state)
{
	(void)state;
	struct rlimit old, low;
	int fd = serve(SETTINGS("workers=1"));
	compile_ok(fd, 1, two_kernels);
	until(workers_of(fd) == 2); /* one for keys: nothing is opened or closed any more */
	wait_for(fd, "store_memos", 1);
	assert_int_equal(prlimit(h.pid, RLIMIT_NOFILE, NULL, &old), 0);
	low = old;
	low.rlim_cur =
		(rlim_t)descriptors_of(h.pid) * 3 / 2; /* more than half of them are in use */
	assert_int_equal(prlimit(h.pid, RLIMIT_NOFILE, &low, NULL), 0);
	struct reply r = compile_graph(fd, 1, graph);
	assert_int_equal(prlimit(h.pid, RLIMIT_NOFILE, &old, NULL), 0);
	assert_error(&r, STX_E_BUSY);
	assert_non_null(strstr(r.e->error->text, "descriptors"));
	reply_free(&r);
	compile_ok(fd, 2, graph);
	wait_for(fd, "received_bytes", 0);
	close(fd);
}

static void test_connection_large_body_arrives_in_slices(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	size_t n = 20 << 20;
	char *big = malloc(n + 1);
	for (size_t i = 0; i < n; i++)
		big[i] = i % 80 == 79 ? '\n' : '#';
	big[n] = 0;
	memcpy(big, graph, sizeof graph - 1);
	int fd = client_connect(&h);
	compile_ok(fd, 1, big);
	struct ask a = { .graph = big };
	send_lookup(fd, 2, &a); /* the digest was computed right, slice by slice */
	struct reply r = receive_answer(fd);
	assert_true(r.e->answer->hit);
	reply_free(&r);
	free(big);
	close(fd);
}

static void test_connection_wrong_digest_is_refused(void **state)
{
	(void)state;
	int fd = serve(NULL);
	Stx__Lookup l = STX__LOOKUP__INIT;
	Stx__Compile c = STX__COMPILE__INIT;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	uint8_t digest[32] = { 1 };
	l.body_digest = (ProtobufCBinaryData){ 32, digest };
	l.format = 2;
	l.target = "cpu:x86-64-v3";
	c.what = &l;
	e.msg_case = STX__ENVELOPE__MSG_COMPILE;
	e.compile = &c;
	client_send(fd, &e, graph, strlen(graph));
	struct reply r = receive_error(fd, STX_E_PROTOCOL);
	reply_free(&r);
	close(fd);
}

/* Sends what fits; returns bytes sent. Whole frames only, but for the last. It ends when the daemon
 * reads no more: it serves another connection several times and takes nothing of this one. */
static size_t send_without_reading(int fd, int other, const struct stx_bytes *frame, size_t most)
{
	size_t sent = 0, at = 0;
	uint64_t before = 0;
	for (int idle = 0; sent < most && idle < 5;) {
		ssize_t w = send(fd, frame->at + at, frame->n - at, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (w > 0) {
			sent += (size_t)w;
			at = (at + (size_t)w) % frame->n;
			idle = 0;
			continue;
		}
		uint64_t now = stat_of(other, "requests");
		idle = now == before ? idle + 1 : 0;
		before = now;
	}
	return sent;
}

static void test_connection_client_that_never_reads_is_no_longer_read(void **state)
{
	(void)state;
	static const char *const settings[] = { "connection-unsent=200KiB", NULL };
	harness_start(&h, settings);
	assert_alive();
	int fd = client_connect(&h);
	struct ask a = { .graph = graph };
	Stx__Lookup l;
	Stx__Options o;
	struct stx_digest digest;
	struct stx_bytes frame = { 0 };
	Stx__Envelope e = STX__ENVELOPE__INIT;
	fill_lookup(&l, &o, &a, &digest);
	e.msg_case = STX__ENVELOPE__MSG_LOOKUP;
	e.lookup = &l;
	assert_int_equal(stx_frame_pack(&e, 0, &frame), 0);
	int other = client_connect(&h);
	size_t sent = send_without_reading(fd, other, &frame, 64 << 20);
	assert_true(sent < 4 << 20); /* backpressure, not memory */
	uint64_t looked_at = stat_of(other, "requests");
	assert_true(looked_at > 100 && looked_at < sent / frame.n); /* some of it waits unread */
	close(other);
	/* It reads at last: every whole request has its answer, nothing was lost. */
	size_t whole = sent / frame.n;
	for (size_t i = 0; i < whole; i++) {
		struct reply r = client_receive(fd);
		assert_answer(&r);
		assert_true(r.e->answer->hit);
		reply_free(&r);
	}
	assert_true(whole > 500);
	stx_bytes_free(&frame);
	close(fd);
}

/* Each stays below its own limit; together they do not exceed theirs, and who reads is served. */
static void test_connection_unread_replies_of_all_are_bounded(void **state)
{
	enum { CLIENTS = 12 };
	(void)state;
	static const char *const settings[] = { "connection-unsent=1MiB", "total-unsent=600KiB",
						NULL };
	harness_start(&h, settings);
	assert_alive();
	struct ask a = { .graph = graph };
	Stx__Lookup l;
	Stx__Options o;
	struct stx_digest digest;
	struct stx_bytes frame = { 0 };
	Stx__Envelope e = STX__ENVELOPE__INIT;
	int fd[CLIENTS];
	size_t sent[CLIENTS];
	fill_lookup(&l, &o, &a, &digest);
	e.msg_case = STX__ENVELOPE__MSG_LOOKUP;
	e.lookup = &l;
	assert_int_equal(stx_frame_pack(&e, 0, &frame), 0);
	int other = client_connect(&h);
	for (int i = 0; i < CLIENTS; i++) {
		fd[i] = client_connect(&h);
		sent[i] = send_without_reading(fd[i], other, &frame, 1 << 20);
	}
	uint64_t unsent = stat_of(other, "unsent_bytes");
	assert_true(unsent > 600 << 10); /* the limit was met, and each went a slice beyond it */
	assert_true(unsent < (600 << 10) + CLIENTS * (96 << 10));
	for (int i = 0; i < 100; i++) {
		client_send(other, &e, NULL, 0);
		struct reply r = client_receive(other);
		assert_answer(&r);
		reply_free(&r);
	}
	close(other);
	for (int i = 0; i < CLIENTS; i++) {
		for (size_t k = 0; k < sent[i] / frame.n; k++) {
			struct reply r = client_receive(fd[i]);
			assert_answer(&r);
			reply_free(&r);
		}
		close(fd[i]);
	}
	stx_bytes_free(&frame);
}

static void test_connection_too_many_are_turned_away(void **state)
{
	(void)state;
	static const char *const settings[] = { "connections=3", NULL };
	harness_start(&h, settings);
	int fd[3];
	for (int i = 0; i < 3; i++) {
		fd[i] = client_connect(&h);
		assert_true(stat_of(fd[i], "connections") == (uint64_t)i + 1);
	}
	int fourth = client_connect(&h);
	struct reply r = client_receive(fourth);
	assert_error(&r, STX_E_BUSY);
	reply_free(&r);
	assert_closed(fourth);
	for (int i = 1; i < 3; i++)
		close(fd[i]);
	wait_for(fd[0], "connections", 1);
	assert_alive();
	close(fd[0]);
}

static struct reply hello(int fd, uint32_t min, uint32_t max)
{
	Stx__Hello q = STX__HELLO__INIT;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	q.version_min = min;
	q.version_max = max;
	q.client = "test";
	e.msg_case = STX__ENVELOPE__MSG_HELLO;
	e.hello = &q;
	client_send(fd, &e, NULL, 0);
	return client_receive(fd);
}

static void test_connection_hello_negotiates_the_version(void **state)
{
	(void)state;
	int fd = serve(NULL);
	struct reply r = hello(fd, 1, 5);
	assert_non_null(r.e);
	assert_int_equal(r.e->msg_case, STX__ENVELOPE__MSG_HELLO_REPLY);
	assert_int_equal(r.e->hello_reply->version, 1);
	reply_free(&r);
	close(fd);
	fd = client_connect(&h);
	r = hello(fd, 2, 3);
	assert_error(&r, STX_E_VERSION);
	reply_free(&r);
	assert_closed(fd);
}

static void test_connection_a_message_for_others_is_refused(void **state)
{
	(void)state;
	int fd = serve(NULL);
	Stx__Job j = STX__JOB__INIT;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	e.request_id = 4;
	e.msg_case = STX__ENVELOPE__MSG_JOB;
	e.job = &j;
	client_send(fd, &e, NULL, 0);
	struct reply r = receive_error(fd, STX_E_PROTOCOL);
	assert_int_equal(r.e->request_id, 4);
	reply_free(&r);
	compile_ok(fd, 5, graph);
	close(fd);
}

static void test_connection_random_frames_harm_nobody(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	assert_alive();
	unsigned seed = (unsigned)time(NULL);
	print_message("seed %u\n", seed);
	srand(seed);
	struct ask a = { .graph = graph };
	for (int round = 0; round < 300; round++) {
		int fd = client_connect(&h);
		Stx__Lookup l;
		Stx__Options o;
		struct stx_digest digest;
		Stx__Compile c = STX__COMPILE__INIT;
		struct stx_bytes b = { 0 };
		Stx__Envelope e = STX__ENVELOPE__INIT;
		fill_lookup(&l, &o, &a, &digest);
		c.what = &l;
		e.msg_case = STX__ENVELOPE__MSG_COMPILE;
		e.compile = &c;
		for (int k = 0; k < 3; k++) {
			assert_int_equal(stx_frame_pack(&e, sizeof graph - 1, &b), 0);
			stx_bytes_put(&b, graph, sizeof graph - 1);
		}
		for (int k = rand() % 6; k > 0; k--)
			b.at[(size_t)rand() % b.n] = (uint8_t)rand();
		client_write(fd, b.at, (size_t)rand() % b.n + 1);
		if (rand() % 2)
			shutdown(fd, SHUT_WR);
		if (rand() % 4 == 0)
			usleep(2000);
		close(fd);
		stx_bytes_free(&b);
	}
	assert_alive();
	int fd = client_connect(&h);
	wait_for(fd, "connections", 1);
	wait_for(fd, "received_bytes", 0);
	close(fd);
	assert_int_equal(harness_stop(&h), 0);
}

static void test_connection_socket_file_is_private(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	assert_alive();
	struct stat st;
	assert_int_equal(stat(h.socket, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_connection_zeroing_counters_is_for_the_own_user(void **state)
{
	(void)state;
	harness_start(&h, NULL);
	assert_alive();
	int fd = client_connect(&h);
	assert_int_equal(stat_of(fd, "compiles"), 1);
	Stx__Stats q = STX__STATS__INIT;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	q.zero = 1;
	e.msg_case = STX__ENVELOPE__MSG_STATS;
	e.stats = &q;
	client_send(fd, &e, NULL, 0);
	struct reply r = receive_final(fd);
	assert_int_equal(r.e->msg_case, STX__ENVELOPE__MSG_STATS_REPLY);
	reply_free(&r);
	assert_int_equal(stat_of(fd, "compiles"), 0);
	close(fd);
}

int main(int argc, char **argv)
{
	harness_main(argc, argv);
	const struct CMUnitTest tests[] = {
		T(test_connection_bad_prefix_is_answered_and_closed),
		T(test_connection_header_bomb_is_refused),
		T(test_connection_header_in_single_bytes_is_understood),
		T(test_connection_slow_header_and_stalled_body_are_given_up),
		T(test_connection_body_over_budget_is_busy_and_the_stream_goes_on),
		T(test_connection_header_counts_against_the_budget),
		T(test_connection_bodies_leave_descriptors_for_others),
		T(test_connection_large_body_arrives_in_slices),
		T(test_connection_wrong_digest_is_refused),
		T(test_connection_client_that_never_reads_is_no_longer_read),
		T(test_connection_unread_replies_of_all_are_bounded),
		T(test_connection_too_many_are_turned_away),
		T(test_connection_hello_negotiates_the_version),
		T(test_connection_a_message_for_others_is_refused),
		T(test_connection_random_frames_harm_nobody),
		T(test_connection_socket_file_is_private),
		T(test_connection_zeroing_counters_is_for_the_own_user),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
