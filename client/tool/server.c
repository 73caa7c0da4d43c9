/* server.c: connecting, and starting a server for the user when there is none: lock, look again,
 * start it in a session of its own, wait until it answers. It ends by itself when it has been idle.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"

#define IDLE_EXIT_S "900"
#define START_NS    20000000000ull /* the server warms its compilers before it answers */
#define POLL_NS     20000000

/* The batch system whose job this is, or NULL. */
static const char *batch_job(void)
{
	static const char *const names[] = { "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID" };
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
		const char *v = getenv(names[i]);
		if (v && *v)
			return names[i];
	}
	return NULL;
}

static stx_err may_start(struct stx_diag *d)
{
	const char *asked = getenv("STAX_AUTOSTART"), *job = batch_job();
	if (asked && !strcmp(asked, "0"))
		return stx_fail(d, STX_E_CONNECT, "connect", "",
				"no server is running and STAX_AUTOSTART=0");
	if (job && !(asked && !strcmp(asked, "1")))
		return stx_fail(
			d, STX_E_CONNECT, "connect", "",
			"no server is running, and none is started inside a batch job (%s is set): "
			"set STAX_SERVER, STAX_SERVER=none to compile privately, or "
			"STAX_AUTOSTART=1",
			job);
	return STX_E_OK;
}

/* Creates the folders of path (all but its last part), for the user only. */
static int make_folders(const char *path)
{
	char part[PATH_MAX];
	if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part)
		return -1;
	for (char *p = part + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		if (mkdir(part, 0700) && errno != EEXIST)
			return -1;
		*p = '/';
	}
	return 0;
}

/* The child after fork: own session, nothing of the terminal, then the daemon. Only calls that are
 * safe there; never returns. */
static _Noreturn void become_daemon(const char *program, const char *listen, int log)
{
	int null = open("/dev/null", O_RDWR);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setsid();
	dup2(null, 0);
	dup2(null, 1);
	dup2(log >= 0 ? log : null, 2);
	if (chdir("/") == 0)
		execl(program, "staxd", "--listen", listen, "--idle-exit", IDLE_EXIT_S,
		      (char *)NULL);
	_exit(127);
}

/* Polls until the server answers, the child ends, or time is over. */
static stx_err await_server(pid_t child, const char *log, struct stax_client **out,
			    struct stx_diag *d)
{
	uint64_t end = stx_clock_ns() + START_NS;
	struct timespec pause = { 0, POLL_NS };
	struct stax_error err;
	int status = 0, ended = 0;
	for (;;) {
		if (!stax_connect(NULL, out, &err))
			return STX_E_OK;
		if (ended || stx_clock_ns() > end)
			break;
		/* It may have ended because another one won the race: look once more. */
		ended = waitpid(child, &status, WNOHANG) == child;
		nanosleep(&pause, NULL);
	}
	if (ended)
		return stx_fail(d, STX_E_CONNECT, "connect", "",
				"the server that was started has ended (status %d): see %s",
				WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
				log);
	return stx_fail(d, STX_E_CONNECT, "connect", "",
			"the server that was started does not answer: "
			"see %s",
			log);
}

/* requires: the start lock. */
static stx_err launch(const char *listen, const char *log_path, struct stax_client **out,
		      struct stx_diag *d)
{
	char program[PATH_MAX];
	struct stax_error err;
	if (stax_find_daemon(program, sizeof program, &err)) {
		stx_tool_diag(d, &err);
		return d->code;
	}
	int log = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	fflush(NULL);
	pid_t child = fork();
	if (child == 0)
		become_daemon(program, listen, log);
	if (log >= 0)
		close(log);
	if (child < 0)
		return stx_fail(d, STX_E_CONNECT, "connect", "", "fork: %s", strerror(errno));
	return await_server(child, log_path, out, d);
}

static stx_err start_server(const char *listen, struct stax_client **out, struct stx_diag *d)
{
	const char *path = listen + strlen("unix:");
	char lock_path[PATH_MAX], log_path[PATH_MAX];
	if (make_folders(path) ||
	    (size_t)snprintf(lock_path, sizeof lock_path, "%s.start", path) >= sizeof lock_path ||
	    (size_t)snprintf(log_path, sizeof log_path, "%s.log", path) >= sizeof log_path)
		return stx_fail(d, STX_E_CONNECT, "connect", "", "cannot make the folder of %s: %s",
				path, strerror(errno));
	int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (lock < 0 || flock(lock, LOCK_EX)) {
		if (lock >= 0)
			close(lock);
		return stx_fail(d, STX_E_CONNECT, "connect", "", "%s: %s", lock_path,
				strerror(errno));
	}
	stx_err e = STX_E_OK;
	if (stax_connect(NULL, out, NULL)) /* somebody else may have started it meanwhile */
		e = launch(listen, log_path, out, d);
	close(lock);
	return e;
}

stx_err stx_tool_connect(int start, struct stax_client **out, struct stx_diag *d)
{
	char server[300];
	struct stax_error err;
	int named = 0;
	*out = NULL;
	if (stax_default_server(server, sizeof server, &named, &err) ||
	    !stax_connect(NULL, out, &err)) {
		if (*out)
			return STX_E_OK;
	} else if (start && !named && err.code == STX_E_CONNECT) {
		stx_err e = may_start(d);
		return e ? e : start_server(server, out, d);
	}
	stx_tool_diag(d, &err);
	return d->code;
}
