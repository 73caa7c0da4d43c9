/* test_chaos.c: many clients do random things at once: compile, cancel, vanish, crash and starve
 * workers. Whatever happens, the daemon ends with nothing under way, nothing held, and status 0. */
#include "harness.h"

enum { CLIENTS = 16, STEPS = 2500 };

static void random_graph(char *out, size_t cap, int calm)
{
	static const char *const verbs[] = { "kernel plain",     "kernel sleep 5",
					     "kernel invalid 1", "do plan sleep 10",
					     "do key invalid 2", "do link internal",
					     "kernel sleep 20",  "do link sleep 5" };
	/* Rare: each costs workers. */
	static const char *const deadly[] = { "kernel crash 1", "do plan abort", "do key exit 3",
					      "kernel spin", "do link kill" };
	int n = snprintf(out, cap, "name i%d o\n", rand() % 3);
	for (int k = rand() % 3; k >= 0; k--) {
		const char *line = rand() % 60 || calm ? verbs[rand() % 8] : deadly[rand() % 5];
		n += snprintf(out + n, cap - (size_t)n, "%s\nkernel k%d\n", line, rand() % 12);
	}
}

/* calm: nothing that takes a worker down, and time to compile. */
static void act(int *fd, uint64_t id, int calm)
{
	char graph[512];
	struct ask a = { .graph = graph, .deadline_ms = calm ? 0 : (uint32_t)(50 + rand() % 2000) };
	switch (rand() % 12) {
	case 0:
		close(*fd);
		*fd = client_connect(&h);
		break;
	case 1: send_cancel(*fd, id - (uint64_t)(rand() % 40)); break;
	case 2:
		random_graph(graph, sizeof graph, calm);
		send_lookup(*fd, id, &a);
		break;
	default:
		random_graph(graph, sizeof graph, calm);
		a.ns = rand() % 20 ? NULL : "other";
		a.recache = rand() % 10 == 0;
		a.progress = rand() % 2;
		send_compile(*fd, id, &a);
	}
}

/* Reads what is there; some clients are slower than others. */
static void drain(int fd)
{
	static char buf[65536];
	while (recv(fd, buf, sizeof buf, MSG_DONTWAIT) == sizeof buf)
		;
}

static void kill_a_worker(void)
{
	int fd = client_connect(&h);
	struct reply r = ping(fd);
	if (r.e->pong->n_worker_pids)
		kill((pid_t)r.e->pong->worker_pids[(size_t)rand() % r.e->pong->n_worker_pids],
		     SIGKILL);
	reply_free(&r);
	close(fd);
}

static int few_compiles(void)
{
	int fd = client_connect(&h), few = stat_of(fd, "compiles") <= 20;
	close(fd);
	return few;
}

/* A short queue refuses and abandons; a long one lets everything pile up. */
static void chaos(const char *queue)
{
	const char *settings[] = {
		"workers=2", "worker-jobs=50", "quarantine=200", "connection-unsent=8KiB", queue,
		NULL
	};
	int fd[CLIENTS];
	unsigned seed = (unsigned)time(NULL);
	print_message("seed %u\n", seed);
	srand(seed);
	harness_start(&h, settings);
	for (int i = 0; i < CLIENTS; i++)
		fd[i] = client_connect(&h);
	/* On a machine so busy that workers are killed before they have compiled much, it goes on
	 * until they have. */
	int more = 1;
	uint64_t end_ms = now_ms() + WAIT_MS;
	for (uint64_t id = 1; id < STEPS || (more && now_ms() < end_ms); id++) {
		int i = rand() % CLIENTS;
		drain(fd[i]);
		act(&fd[i], id, id >= STEPS);
		if (id % 150 == 0 && id < STEPS)
			kill_a_worker();
		else if (id % 50 == 0 && id >= STEPS)
			more = few_compiles();
		if (id % 3 == 0)
			usleep(4000);
	}
	for (int i = 0; i < CLIENTS; i++)
		close(fd[i]);
	int s = client_connect(&h);
	static const char *const zero[] = { "flights", "queued", "workers_busy", "received_bytes" };
	for (unsigned i = 0; i < 4; i++)
		wait_for(s, zero[i], 0);
	wait_for(s, "connections", 1);
	static const char *const seen[] = { "requests", "hits",    "compiles", "joins",
					    "crashes",  "retries", "refused",  "killed_deadline",
					    "canceled", "restarts" };
	for (unsigned i = 0; i < sizeof seen / sizeof *seen; i++)
		print_message("%s %llu\n", seen[i], (unsigned long long)stat_of(s, seen[i]));
	assert_true(stat_of(s, "compiles") > 20); /* it was not all refused */
	compile_ok(s, 1, "name i o\nkernel after\n");
	close(s);
	assert_int_equal(harness_stop(&h), 0);
	harness_remove(&h);
}

static void test_chaos_with_a_short_queue_leaves_nothing_behind(void **state)
{
	(void)state;
	chaos("queue=20");
}

static void test_chaos_with_a_long_queue_leaves_nothing_behind(void **state)
{
	(void)state;
	chaos("queue=5000");
}

int main(int argc, char **argv)
{
	harness_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chaos_with_a_short_queue_leaves_nothing_behind),
		cmocka_unit_test(test_chaos_with_a_long_queue_leaves_nothing_behind),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
