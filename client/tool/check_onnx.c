/* check_onnx.c: stax check-onnx: finds the tests below a folder and runs them in worker processes;
 * a worker that dies or hangs is one failed test and is replaced. Verdicts are printed in the order
 * of names. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool.h"

#define JOBS_MAX      64
#define HARD_EXTRA_MS 15000 /* a worker that did not keep the time-out itself is killed */

struct paths {
	char **at;
	size_t n, cap;
};

struct worker {
	pid_t pid; /* 0: none */
	int fd;
	long test; /* -1: idle */
	uint64_t deadline_ns;
};

struct corpus {
	const char *root, *filter, *target;
	uint32_t timeout_ms;
	struct paths tests;
	struct stx_tool_result *results;
	uint8_t *done;
	size_t next, printed;
	size_t count[3];
	struct worker workers[JOBS_MAX];
	int jobs, terminal;
};

/* ---- finding ---- */

static int push(struct paths *p, const char *text)
{
	if (p->n == p->cap) {
		size_t cap = p->cap ? p->cap * 2 : 256;
		char **at = realloc(p->at, cap * sizeof *at);
		if (!at)
			return -1;
		p->at = at;
		p->cap = cap;
	}
	return (p->at[p->n] = strdup(text)) ? (int)(p->n++, 0) : -1;
}

static void free_paths(struct paths *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->at[i]);
	free(p->at);
}

/* Below root, without it; the root itself is ".". */
static const char *relative(const struct corpus *c, const char *path)
{
	size_t n = strlen(c->root);
	while (n > 1 && c->root[n - 1] == '/')
		n--;
	path += n;
	path += *path == '/';
	return *path ? path : ".";
}

static int wanted(const struct corpus *c, const char *path)
{
	const char *name = relative(c, path), *base = strrchr(name, '/');
	return !c->filter || !fnmatch(c->filter, name, 0) ||
	       !fnmatch(c->filter, base ? base + 1 : name, 0);
}

static int scan(struct corpus *c, const char *path, struct paths *todo)
{
	DIR *dir = opendir(path);
	struct dirent *e;
	int bad = 0;
	while (dir && !bad && (e = readdir(dir))) {
		char child[PATH_MAX];
		struct stat st;
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    (size_t)snprintf(child, sizeof child, "%s/%s", path, e->d_name) >= sizeof child)
			continue;
		if (lstat(child, &st)) /* links are not followed: the walk ends */
			continue;
		if (S_ISDIR(st.st_mode))
			bad = push(todo, child);
		else if (!strcmp(e->d_name, "model.onnx") && wanted(c, path))
			bad = push(&c->tests, path);
	}
	if (dir)
		closedir(dir);
	return bad;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static stx_err find_tests(struct corpus *c, struct stx_diag *d)
{
	struct paths todo = { 0 };
	struct stat st;
	if (stat(c->root, &st) || !S_ISDIR(st.st_mode))
		return stx_fail(d, STX_E_NOT_FOUND, "check", "", "%s: not a folder", c->root);
	int bad = push(&todo, c->root);
	for (size_t i = 0; !bad && i < todo.n; i++)
		bad = scan(c, todo.at[i], &todo);
	free_paths(&todo);
	if (bad)
		return stx_fail(d, STX_E_NOMEM, "check", "", "out of memory");
	if (c->tests.n)
		qsort(c->tests.at, c->tests.n, sizeof *c->tests.at, by_text);
	return c->tests.n ? STX_E_OK
			  : stx_fail(d, STX_E_NOT_FOUND, "check", "",
				     "%s: no folder with a "
				     "model.onnx%s%s",
				     c->root, c->filter ? " that matches " : "",
				     c->filter ? c->filter : "");
}

/* ---- workers ---- */

static _Noreturn void worker_main(const struct corpus *c, int fd)
{
	struct stax_client *client = NULL;
	struct stx_diag d = { 0 };
	long test;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (c->jobs > 1)
		setenv("STAX_THREADS", "1", 0); /* tests side by side already use the cores */
	while (recv(fd, &test, sizeof test, 0) == (ssize_t)sizeof test) {
		struct stx_tool_result r = { .verdict = STX_TEST_FAIL };
		if (!client && stx_tool_connect(0, &client, &d)) {
			snprintf(r.why, sizeof r.why, "%s", d.text);
			stx_diag_clear(&d);
		} else {
			stx_tool_check_test(client, c->tests.at[test], c->target, c->timeout_ms,
					    &r);
		}
		if (send(fd, &r, sizeof r, MSG_NOSIGNAL) != (ssize_t)sizeof r)
			break;
	}
	stax_client_free(client);
	_exit(0);
}

static int start_worker(struct corpus *c, struct worker *w)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		close(pair[0]);
		for (int i = 0; i < c->jobs; i++)
			if (c->workers[i].pid)
				close(c->workers[i].fd);
		worker_main(c, pair[1]);
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return -1;
	}
	*w = (struct worker){ pid, pair[0], -1, 0 };
	return 0;
}

static int end_worker(struct worker *w, int kill_it)
{
	int status = 0;
	if (!w->pid)
		return 0;
	close(w->fd);
	if (kill_it)
		kill(w->pid, SIGKILL);
	while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
		;
	w->pid = 0;
	return status;
}

/* ---- results ---- */

static void print_ready(struct corpus *c)
{
	static const char *const words[] = { "PASS", "FAIL", "SKIP" };
	if (c->terminal)
		fputs("\r\033[K", stderr);
	for (; c->printed < c->tests.n && c->done[c->printed]; c->printed++) {
		const struct stx_tool_result *r = &c->results[c->printed];
		c->count[r->verdict]++;
		if (r->verdict != STX_TEST_PASS)
			printf("%s %s: %s\n", words[r->verdict],
			       relative(c, c->tests.at[c->printed]), r->why);
	}
	fflush(stdout);
	if (c->terminal)
		fprintf(stderr, "%zu/%zu", c->printed, c->tests.n);
}

static void finish_test(struct corpus *c, struct worker *w, const struct stx_tool_result *r)
{
	c->results[w->test] = *r;
	c->done[w->test] = 1;
	w->test = -1;
	if (r->is_spent)
		end_worker(w, 0);
	print_ready(c);
}

/* The worker died, or is killed because it hangs. */
static void fail_worker(struct corpus *c, struct worker *w, int hung)
{
	struct stx_tool_result r = { .verdict = STX_TEST_FAIL };
	int status = end_worker(w, hung);
	if (hung)
		snprintf(r.why, sizeof r.why, "time-out");
	else if (WIFSIGNALED(status))
		snprintf(r.why, sizeof r.why, "the checker crashed with signal %d",
			 WTERMSIG(status));
	else
		snprintf(r.why, sizeof r.why, "the checker ended with status %d",
			 WEXITSTATUS(status));
	finish_test(c, w, &r);
}

static int give_test(struct corpus *c, struct worker *w)
{
	long test = (long)c->next;
	if (!w->pid && start_worker(c, w))
		return -1;
	w->test = test;
	w->deadline_ns = stx_clock_ns() + ((uint64_t)c->timeout_ms + HARD_EXTRA_MS) * 1000000u;
	c->next++;
	if (send(w->fd, &test, sizeof test, MSG_NOSIGNAL) != (ssize_t)sizeof test)
		fail_worker(c, w, 0);
	return 0;
}

static void collect(struct corpus *c)
{
	struct pollfd p[JOBS_MAX];
	uint64_t now = stx_clock_ns(), first = now + 60000000000u;
	for (int i = 0; i < c->jobs; i++) {
		struct worker *w = &c->workers[i];
		p[i] = (struct pollfd){ w->pid && w->test >= 0 ? w->fd : -1, POLLIN, 0 };
		if (p[i].fd >= 0 && w->deadline_ns < first)
			first = w->deadline_ns;
	}
	poll(p, (nfds_t)c->jobs, first > now ? (int)((first - now) / 1000000) + 1 : 0);
	now = stx_clock_ns();
	for (int i = 0; i < c->jobs; i++) {
		struct worker *w = &c->workers[i];
		struct stx_tool_result r;
		if (p[i].fd < 0)
			continue;
		if (p[i].revents && recv(w->fd, &r, sizeof r, 0) == (ssize_t)sizeof r)
			finish_test(c, w, &r);
		else if (p[i].revents)
			fail_worker(c, w, 0);
		else if (now > w->deadline_ns)
			fail_worker(c, w, 1);
	}
}

static stx_err run_tests(struct corpus *c, struct stx_diag *d)
{
	c->results = calloc(c->tests.n, sizeof *c->results);
	c->done = calloc(c->tests.n, 1);
	if (!c->results || !c->done)
		return stx_fail(d, STX_E_NOMEM, "check", "", "out of memory");
	while (c->printed < c->tests.n) {
		for (int i = 0; i < c->jobs && c->next < c->tests.n; i++)
			if ((!c->workers[i].pid || c->workers[i].test < 0) &&
			    give_test(c, &c->workers[i]))
				return stx_fail(d, STX_E_INTERNAL, "check", "",
						"cannot start a worker: %s", strerror(errno));
		if (c->printed < c->tests.n)
			collect(c);
	}
	return STX_E_OK;
}

static stx_err check(struct corpus *c, struct stx_diag *d)
{
	struct stax_client *client;
	stx_err e = find_tests(c, d);
	/* Starts the server once, before the workers look for it. */
	if (!e && !(e = stx_tool_connect(1, &client, d))) {
		stax_client_free(client);
		e = run_tests(c, d);
	}
	for (int i = 0; i < c->jobs; i++)
		end_worker(&c->workers[i], e != 0);
	if (c->terminal)
		fputs("\r\033[K", stderr);
	if (!e) {
		printf("%zu passed, %zu failed, %zu skipped\n", c->count[STX_TEST_PASS],
		       c->count[STX_TEST_FAIL], c->count[STX_TEST_SKIP]);
		fflush(stdout);
	}
	return e;
}

int stx_tool_check_onnx(int argc, char **argv)
{
	struct corpus c = { 0 };
	struct stx_option_list files = { 0 };
	struct stx_diag d = { 0 };
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	int64_t jobs = cores < 1 ? 1 : cores > 8 ? 8 : cores, timeout = 120;
	const struct stx_option table[] = {
		{ "target", STX_OPT_TEXT, &c.target }, { "jobs", STX_OPT_COUNT, &jobs },
		{ "filter", STX_OPT_TEXT, &c.filter }, { "timeout", STX_OPT_COUNT, &timeout },
		{ NULL, STX_OPT_FLAG, NULL },
	};
	stx_err e = stx_options_parse(argc, argv, table, &files, &d);
	if (!e && files.n != 1)
		e = stx_fail(&d, STX_E_USAGE, "usage", "", "check-onnx takes one folder");
	if (!e && (jobs < 1 || jobs > JOBS_MAX || timeout < 1 || timeout > 86400))
		e = stx_fail(&d, STX_E_USAGE, "usage", "", "--jobs: 1 to %d; --timeout: 1 to 86400",
			     JOBS_MAX);
	if (!e) {
		c.root = files.at[0];
		c.jobs = (int)jobs;
		c.timeout_ms = (uint32_t)timeout * 1000;
		c.terminal = isatty(2);
		e = check(&c, &d);
	}
	free_paths(&c.tests);
	free(c.results);
	free(c.done);
	if (e)
		return stx_tool_fail(&d, 0);
	return c.count[STX_TEST_FAIL] ? 1 : 0;
}
