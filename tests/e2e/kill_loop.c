/* kill_loop.c: kill -9 of the daemon while clients compile, restart, fsck; again and again.
 * Usage: kill_loop [ROUNDS [SEED]]   (defaults 50 and the time)
 * Environment: STAX_BUILD, STAX_SERVER (unix:), STAX_CACHE_DIR. After each kill `staxd --fsck` must
 * be clean, and whatever the daemon answers after the restart must load and give right numbers.
 * Prints the seed, the kills by the stage the compiles were in, how many were in flight, and the
 * usual closing line. */
#include <pthread.h>

#include "e2e.h"

#define CLIENTS 6

static const char *const stages[] = { "idle",   "connecting", "sent",   "key",     "plan",
				      "kernel", "link",       "commit", "loading", "other" };
#define NSTAGES ((int)(sizeof stages / sizeof *stages))

static _Atomic int stop, where[CLIENTS], done_compiles, wrong, torn, lost;
static _Atomic unsigned next_graph;

static int stage_number(const char *name)
{
	for (int i = 0; i < NSTAGES; i++)
		if (!strncmp(stages[i], name, strlen(stages[i])))
			return i;
	return NSTAGES - 1;
}

static void on_progress(void *ctx, const char *stage, uint32_t done, uint32_t total, uint64_t ms)
{
	(void)done;
	(void)total;
	(void)ms;
	where[(uintptr_t)ctx] = stage_number(stage);
}

static void *client_main(void *arg)
{
	uintptr_t me = (uintptr_t)arg;
	while (!stop) {
		struct stax_error err = { 0 };
		struct stax_client *c;
		struct stax_answer *a = NULL;
		char text[512];
		unsigned n = next_graph++;
		if (n % 3 == 0)
			n = n > 30 ? n - 30 : n; /* some known ones: hits */
		where[me] = 1;
		if (stax_connect(NULL, &c, &err)) {
			e2e_sleep_ms(5);
			continue;
		}
		e2e_graph(text, sizeof text, n);
		struct stax_request r = { .format = STAX_TEXT,
					  .graph = text,
					  .graph_bytes = strlen(text),
					  .progress = on_progress,
					  .progress_ctx = (void *)me };
		where[me] = 2;
		int rc = stax_compile(c, &r, &a, &err);
		if (rc == 0) {
			where[me] = 8;
			if (e2e_check(c, a, n, &err)) {
				done_compiles++;
			} else if (err.code == 0) {
				wrong++;
				printf("WRONG: %s\n", err.text);
			} else if (stax_exit_code(err.code) == 3 || stax_exit_code(err.code) == 7) {
				lost++; /* the daemon died before the bytes were fetched */
			} else {
				torn++;
				printf("TORN: %s: %s\n", stax_error_name(err.code), err.text);
			}
		} else if (stax_exit_code(rc) != 3 && stax_exit_code(rc) != 7 &&
			   stax_exit_code(rc) != 5) {
			wrong++;
			printf("UNEXPECTED: %s: %s %s\n", stax_error_name(rc), err.stage, err.text);
		}
		stax_answer_free(a);
		stax_client_free(c);
		where[me] = 0;
	}
	return NULL;
}

static int fsck_clean(void)
{
	char cmd[8192];
	const char *build = getenv("STAX_BUILD");
	snprintf(cmd, sizeof cmd, "'%s/staxd' --fsck --cache-dir '%s' > '%s/fsck.log' 2>&1",
		 build ? build : "build", getenv("STAX_CACHE_DIR"), getenv("STAX_CACHE_DIR"));
	int rc = system(cmd);
	if (rc) {
		printf("fsck is not clean (status %d):\n", rc);
		fflush(stdout);
		snprintf(cmd, sizeof cmd, "cat '%s/fsck.log'", getenv("STAX_CACHE_DIR"));
		if (system(cmd))
			return 0;
	}
	return rc == 0;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 50, dirty = 0, failed_starts = 0, in_flight = 0;
	struct e2e_rng rng = { argc > 2 ? strtoull(argv[2], NULL, 0)
					: (uint64_t)time(NULL) * 2654435761u + 1 };
	int by_stage[16] = { 0 };
	pthread_t t[CLIENTS];
	printf("seed 0x%llx, %d rounds, %d clients\n", (unsigned long long)rng.s, rounds, CLIENTS);
	fflush(stdout);
	signal(SIGPIPE, SIG_IGN);
	for (uintptr_t i = 0; i < CLIENTS; i++)
		if (pthread_create(&t[i], NULL, client_main, (void *)i))
			return 1;
	for (int r = 0; r < rounds; r++) {
		pid_t pid = e2e_start("2");
		if (pid < 0) {
			failed_starts++;
			continue;
		}
		e2e_sleep_ms((int)(e2e_next(&rng) % 400));
		int flying = 0;
		for (int i = 0; i < CLIENTS; i++) {
			int s = where[i];
			by_stage[s]++;
			flying += s >= 2 && s <= 7;
		}
		in_flight += flying;
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		dirty += !fsck_clean();
	}
	pid_t last = e2e_start("2");
	int before = done_compiles;
	for (int i = 0; i < 2400 && done_compiles < before + 20; i++)
		e2e_sleep_ms(50);
	int recovered = done_compiles >= before + 20;
	stop = 1;
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(t[i], NULL);
	int drained = 0, status = 0;
	if (last > 0) {
		kill(last, SIGTERM);
		waitpid(last, &status, 0);
		drained = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	}
	printf("compiles checked: %d, lost with the daemon: %d, in flight at the kills: %d\nkills "
	       "by stage:",
	       done_compiles, lost, in_flight);
	for (int i = 0; i < NSTAGES; i++)
		printf(" %s=%d", stages[i], by_stage[i]);
	printf("\n");
	int checks[] = { wrong == 0, torn == 0, dirty == 0,   failed_starts == 0,
			 recovered,  drained,   in_flight > 0 };
	static const char *const names[] = { "no wrong result",
					     "no torn file",
					     "fsck clean each time",
					     "every restart answers",
					     "work goes on after the last restart",
					     "orderly exit on SIGTERM",
					     "some compiles were in flight" };
	int passed = 0, n = (int)(sizeof checks / sizeof *checks);
	for (int i = 0; i < n; i++) {
		passed += checks[i];
		if (!checks[i])
			printf("FAILED: %s\n", names[i]);
	}
	printf("%d passed, %d failed, 0 skipped\n", passed, n - passed);
	return passed != n;
}
