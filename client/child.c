/* child.c: a private `staxd --worker` child: finding the program, starting it, one job at a time.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "frame.h"
#include "packet.h"

#define WORKER_FD 3
#define START_MS  60000 /* LLVM and the linker warm up first */
#define REPLY_MAX ((size_t)256 << 20)
#define JOB_MAX   ((size_t)1 << 30) /* the weights of a whole network go to the oracle by value */

extern char **environ;

struct stx__child {
	pid_t pid; /* 0 once it has ended */
	int fd;
	uint64_t next_id;
	struct stx_digest fingerprint;
	char sandbox[128];
	int cuda;
};

/* ---- the program ---- */

static int usable(const char *path)
{
	return access(path, X_OK) == 0;
}

/* dir of file, then name. 1 when it can be executed. */
static int beside(const char *file, const char *name, char out[PATH_MAX])
{
	const char *slash = strrchr(file, '/');
	int n = slash ? snprintf(out, PATH_MAX, "%.*s/%s", (int)(slash - file), file, name) : -1;
	return n > 0 && n < PATH_MAX && usable(out);
}

static int in_path(char out[PATH_MAX])
{
	const char *p = getenv("PATH");
	while (p && *p) {
		size_t n = strcspn(p, ":");
		int w = snprintf(out, PATH_MAX, "%.*s/staxd", (int)n, p);
		if (n && *p == '/' && w > 0 && w < PATH_MAX && usable(out))
			return 1;
		p += n + (p[n] == ':');
	}
	return 0;
}

static stx_err find_staxd(char out[PATH_MAX], struct stx_diag *d)
{
	const char *named = getenv("STAX_STAXD");
	char self[PATH_MAX];
	Dl_info lib;
	if (named && *named) {
		if (snprintf(out, PATH_MAX, "%s", named) < PATH_MAX && usable(out))
			return STX_E_OK;
		return stx_fail(d, STX_E_CONNECT, "worker", "",
				"STAX_STAXD names '%s', which cannot be "
				"executed",
				named);
	}
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	if (n > 0) {
		self[n] = 0;
		if (beside(self, "staxd", out))
			return STX_E_OK;
	}
	if (dladdr((void *)(uintptr_t)&stax_connect, &lib) && lib.dli_fname &&
	    (beside(lib.dli_fname, "staxd", out) || beside(lib.dli_fname, "../bin/staxd", out)))
		return STX_E_OK;
	if (in_path(out))
		return STX_E_OK;
	return stx_fail(d, STX_E_CONNECT, "worker", "",
			"staxd was not found beside this program, "
			"beside libstax or in PATH: set STAX_STAXD");
}

int stax_find_daemon(char *out, size_t cap, struct stax_error *err)
{
	struct stx_diag d;
	char path[PATH_MAX];
	stx__diag_init(&d);
	stx_err e = find_staxd(path, &d);
	if (!e && (size_t)snprintf(out, cap, "%s", path) >= cap)
		e = stx_fail(&d, STX_E_USAGE, "worker", "", "the buffer is too short");
	return stx__give_error(e, &d, err);
}

/* ---- the process ---- */

static void end_child(struct stx__child *w)
{
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
	if (w->pid > 0) {
		kill(w->pid, SIGKILL); /* it holds nothing that needs an orderly end */
		while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	w->pid = 0;
}

void stx__child_free(struct stx__child *w)
{
	if (!w)
		return;
	end_child(w);
	free(w);
}

int stx__child_alive(const struct stx__child *w)
{
	return w->pid > 0;
}

const struct stx_digest *stx__child_fingerprint(const struct stx__child *w)
{
	return &w->fingerprint;
}

const char *stx__child_sandbox(const struct stx__child *w)
{
	return w->sandbox;
}

int stx__child_pid(const struct stx__child *w)
{
	return (int)w->pid;
}

static stx_err crashed(struct stx__child *w, struct stx_diag *d)
{
	int status = 0;
	char how[64] = "it closed its socket";
	for (int i = 0; i < 50 && w->pid > 0; i++) {
		pid_t r = waitpid(w->pid, &status, WNOHANG);
		if (r == w->pid) {
			if (WIFSIGNALED(status))
				snprintf(how, sizeof how, "signal %d", WTERMSIG(status));
			else
				snprintf(how, sizeof how, "exit status %d", WEXITSTATUS(status));
			w->pid = 0;
			break;
		}
		usleep(2000);
	}
	end_child(w);
	return stx_fail(d, STX_E_CRASHED, "worker", "", "the private worker ended (%s)", how);
}

/* ---- messages ---- */

static stx_err send_message(struct stx__child *w, const Stx__Envelope *m, int body,
			    struct stx_diag *d)
{
	struct stx_bytes head = { 0 };
	stx_err e = stx_frame_pack(m, 0, &head);
	if (e) {
		stx_bytes_free(&head);
		return stx_fail(d, e, "worker", "",
				"the request's header is too large: at most %u bytes "
				"of values can be given",
				STX_FRAME_HEADER_MAX);
	}
	struct stx_span bytes = { head.at + STX_FRAME_PREFIX, head.n - STX_FRAME_PREFIX };
	int bad = stx_packet_send(w->fd, bytes, body);
	stx_bytes_free(&head);
	return bad ? crashed(w, d) : STX_E_OK;
}

/* Waits for a message; *out is set on success. */
static stx_err receive_message(struct stx__child *w, uint64_t deadline, struct stx__received *out,
			       struct stx_diag *d)
{
	memset(out, 0, sizeof *out);
	for (;;) {
		uint64_t now = stx_clock_ns();
		if (deadline && now >= deadline) {
			end_child(w);
			return stx_fail(d, STX_E_DEADLINE, "worker", "", "the deadline passed");
		}
		uint64_t left = deadline ? (deadline - now + 999999) / 1000000 : 0;
		struct pollfd p = { w->fd, POLLIN, 0 };
		if (poll(&p, 1, deadline ? (int)(left < 3600000 ? left : 3600000) : -1) > 0)
			break;
	}
	uint8_t *head = malloc(STX_FRAME_HEADER_MAX);
	if (!head)
		return stx_fail(d, STX_E_NOMEM, "worker", "", "out of memory");
	int fd;
	size_t spilled = 0;
	ssize_t n = stx_packet_recv(w->fd, head, STX_FRAME_HEADER_MAX, &fd);
	stx_err e = n > 0 ? STX_E_OK
		    : n < 0 && errno == EMSGSIZE
			    ? stx_fail(d, STX_E_PROTOCOL, "worker", "", "a message is cut off")
			    : crashed(w, d);
	if (!e && fd >= 0)
		e = stx__map_fd(fd, REPLY_MAX, &out->map, d);
	if (!e)
		e = stx_frame_unpack_reply((struct stx_span){ head, (size_t)n }, out->map, &out->e,
					   &spilled, d);
	if (!e && out->map.n)
		out->body = (struct stx_span){ out->map.at + spilled, out->map.n - spilled };
	if (fd >= 0)
		close(fd);
	free(head);
	if (e)
		stx__received_free(out);
	return e;
}

static stx_err job_error(const Stx__JobReply *m, struct stx_diag *d)
{
	struct stx_diag theirs;
	if (!m->error)
		return STX_E_OK;
	stx__diag_init(&theirs);
	stx_error_to_diag(m->error, &theirs);
	if (!theirs.code)
		theirs.code = STX_E_INTERNAL;
	if (d && !d->code)
		*d = theirs;
	return theirs.code;
}

/* ---- start ---- */

static stx_err spawn(const char *path, int theirs, int cuda, pid_t *pid, struct stx_diag *d)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	char *argv[] = { (char *)(uintptr_t) "staxd", (char *)(uintptr_t) "--worker",
			 (char *)(uintptr_t)(cuda ? "cuda=1" : "cuda=0"), NULL };
	sigemptyset(&none);
	int e = posix_spawn_file_actions_init(&actions);
	if (e)
		goto fail;
	if ((e = posix_spawnattr_init(&attr))) {
		posix_spawn_file_actions_destroy(&actions);
		goto fail;
	}
	/* Signals as a fresh process has them, and a group of its own: ^C is for the program. */
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
	e = posix_spawn_file_actions_adddup2(&actions, theirs, WORKER_FD);
	if (!e)
		e = posix_spawn(pid, path, &actions, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	if (!e)
		return STX_E_OK;
fail:
	return stx_fail(d, STX_E_IO, "worker", "", "cannot start %s: %s", path, strerror(e));
}

static stx_err await_hello(struct stx__child *w, struct stx_diag *d)
{
	struct stx__received r;
	stx_err e = receive_message(w, stx_clock_ns() + START_MS * 1000000ull, &r, d);
	if (e)
		return e;
	if (r.e->msg_case != STX__ENVELOPE__MSG_JOB_REPLY)
		e = stx_fail(d, STX_E_PROTOCOL, "worker", "", "unexpected first message");
	else if (!(e = job_error(r.e->job_reply, d))) {
		const Stx__JobReply *m = r.e->job_reply;
		snprintf(w->sandbox, sizeof w->sandbox, "%s", m->sandbox);
		if (m->fingerprint.len == sizeof w->fingerprint.b)
			memcpy(w->fingerprint.b, m->fingerprint.data, sizeof w->fingerprint.b);
	}
	stx__received_free(&r);
	return e;
}

stx_err stx__child_new(int cuda, struct stx__child **out, struct stx_diag *d)
{
	char path[PATH_MAX];
	int pair[2] = { -1, -1 };
	stx_err e = find_staxd(path, d);
	if (e)
		return e;
	struct stx__child *w = calloc(1, sizeof *w);
	if (!w)
		return stx_fail(d, STX_E_NOMEM, "worker", "", "out of memory");
	w->fd = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		e = stx_fail(d, STX_E_IO, "worker", "", "socketpair: %s", strerror(errno));
		goto fail;
	}
	w->fd = pair[0];
	if (pair[1] == WORKER_FD) /* dup2 onto itself would leave close-on-exec set */
		fcntl(pair[1], F_SETFD, 0);
	w->cuda = cuda;
	e = spawn(path, pair[1], cuda, &w->pid, d);
	close(pair[1]);
	if (e || (e = await_hello(w, d)))
		goto fail;
	*out = w;
	return STX_E_OK;
fail:
	stx__child_free(w);
	return e;
}

/* ---- jobs ---- */

static int body_of(const struct stx_span *pieces, uint32_t n, stx_err *e, struct stx_diag *d)
{
	struct stx_bytes all = { 0 };
	int fd = -1;
	for (uint32_t i = 0; i < n; i++)
		stx_bytes_put(&all, pieces[i].at, pieces[i].n);
	if (all.oom || all.n > JOB_MAX)
		*e = stx_fail(d, all.oom ? STX_E_NOMEM : STX_E_TOO_LARGE, "worker", "",
			      "a job of more than %zu bytes", all.oom ? all.n : JOB_MAX);
	else if (all.n && (fd = stx__sealed("stax-body", all.at, all.n, d)) < 0)
		*e = STX_E_IO;
	stx_bytes_free(&all);
	return fd;
}

stx_err stx__child_run(struct stx__child *w, Stx__Job *job, const struct stx_span *pieces,
		       uint32_t npieces, const struct stx__wait *wait, struct stx__job_reply *out,
		       struct stx_diag *d)
{
	Stx__Envelope m = STX__ENVELOPE__INIT;
	stx_err e = STX_E_OK;
	memset(out, 0, sizeof *out);
	if (!stx__child_alive(w))
		return stx_fail(d, STX_E_CRASHED, "worker", "", "the private worker has ended");
	int body = body_of(pieces, npieces, &e, d);
	if (e)
		return e;
	m.request_id = ++w->next_id;
	m.msg_case = STX__ENVELOPE__MSG_JOB;
	m.job = job;
	e = send_message(w, &m, body, d);
	if (body >= 0)
		close(body);
	while (!e && !(e = receive_message(w, wait->deadline_ns, &out->r, d))) {
		const Stx__Envelope *r = out->r.e;
		if (r->msg_case == STX__ENVELOPE__MSG_JOB_REPLY && r->request_id == m.request_id) {
			out->m = r->job_reply;
			e = job_error(out->m, d);
			if (!e && out->m->n_need_values)
				e = STX_E_NEED_VALUES;
			if (e && e != STX_E_NEED_VALUES)
				stx__received_free(&out->r);
			return e;
		}
		if (r->msg_case == STX__ENVELOPE__MSG_PROGRESS && wait->progress)
			wait->progress(wait->progress_ctx, r->progress->stage, r->progress->done,
				       r->progress->total, r->progress->elapsed_ms);
		stx__received_free(&out->r);
	}
	return e;
}

int stx__child_has_cuda(const struct stx__child *w)
{
	return w->cuda;
}
