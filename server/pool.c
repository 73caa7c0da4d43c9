/* pool.c: worker processes and the jobs they run. */
#include "pool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "log.h"

#define NS_BYTES         65
#define BACKOFF_MS       100u
#define BACKOFF_MAX_MS   10000u
#define START_TIMEOUT_MS 120000u
#define GRACE_MS         2000u /* for a retired worker to leave by itself */

enum state { STARTING, IDLE, BUSY, LEAVING };

struct stx__process {
	struct stx__process *next;
	struct stx__pool *pool;
	enum state state;
	pid_t pid;
	int sock, pidfd, statm;
	uv_poll_t sock_poll, pid_poll;
	int handles; /* not yet closed */
	struct stx__job *job;
	uint64_t job_id, jobs;
	char ns[NS_BYTES];     /* "": serves nobody yet */
	enum stx__fate killed; /* why, when we did it; OK: not */
	uint64_t since_ms;     /* in this state */
	uint64_t cpu_start_us;
	struct stx_diag start_error;
	struct stx_digest fingerprint;
};

struct stx__pool {
	struct stx__pool_config c;
	struct stx__process *first;
	struct stx__jobq keys, others;
	struct stx__job *failed;
	uv_timer_t kick;
	uint64_t job_id;
	int known; /* fingerprint is set */
	struct stx_digest fingerprint;
	uint32_t differing;      /* workers in a row with another fingerprint */
	uint32_t start_failures; /* in a row */
	uint64_t next_start_ms;
	int closing;
	char sandbox[96];
};

static void pump(struct stx__pool *p);

static uint64_t now_of(const struct stx__pool *p)
{
	return uv_now(p->c.loop);
}

static void kick(struct stx__pool *p);

static void on_kick(uv_timer_t *t)
{
	pump(t->data);
}

static void kick(struct stx__pool *p)
{
	if (!p->closing)
		uv_timer_start(&p->kick, on_kick, 0, 0);
}

/* ---- ends of processes ---- */

static void kill_process(struct stx__process *w, enum stx__fate why)
{
	if (w->killed == STX__FATE_OK)
		w->killed = why;
	kill(w->pid, SIGKILL);
}

/* In good health, but to be replaced: it leaves when it sees the channel closed. */
static void retire(struct stx__process *w)
{
	if (w->state == LEAVING)
		return;
	w->state = LEAVING;
	w->since_ms = now_of(w->pool);
	uv_poll_stop(&w->sock_poll);
	shutdown(w->sock, SHUT_RDWR);
	w->pool->c.stats->recycled++;
}

static void job_failed_later(struct stx__pool *p, struct stx__job *j, const struct stx_diag *d)
{
	j->failed = 1;
	j->diag = *d;
	j->next_failed = p->failed;
	p->failed = j;
	kick(p);
}

static void on_handle_closed(uv_handle_t *h)
{
	struct stx__process *w = h->data;
	if (--w->handles)
		return;
	struct stx__pool *p = w->pool;
	for (struct stx__process **at = &p->first; *at; at = &(*at)->next)
		if (*at == w) {
			*at = w->next;
			break;
		}
	close(w->sock);
	close(w->pidfd);
	if (w->statm >= 0)
		close(w->statm);
	free(w);
	if (!p->closing)
		pump(p);
}

static struct stx__job *job_of(struct stx__queued *q)
{
	return (struct stx__job *)(void *)((char *)q - offsetof(struct stx__job, queued));
}

static void fail_queue(struct stx__pool *p, struct stx__jobq *q, const struct stx_diag *d)
{
	while (q->n) {
		struct stx__job *j = job_of(stx__jobq_top(q));
		stx__jobq_remove(q, &j->queued);
		job_failed_later(p, j, d);
	}
}

static const char *kind_name(Stx__JobKind k)
{
	static const char *const names[] = { "key",  "plan",      "kernel", "link",
					     "dump", "reference", "probe" };
	return (unsigned)k < sizeof names / sizeof *names ? names[k] : "job";
}

/* What to say about a job whose worker ended. */
static void explain_end(struct stx__process *w, int status, uint64_t peak, struct stx__outcome *o)
{
	const struct stx__pool_config *c = &w->pool->c;
	const char *job = kind_name(w->job->kind);
	uint64_t limit = c->memory_bytes;
	o->fate = w->killed;
	if (o->fate == STX__FATE_OK) {
		o->fate = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? STX__FATE_KILLED
									     : STX__FATE_CRASHED;
		if (limit && peak > limit - limit / 8)
			o->fate = STX__FATE_MEMORY;
	}
	switch (o->fate) {
	case STX__FATE_DEADLINE:
		c->stats->killed_deadline++;
		stx_fail(&o->diag, STX_E_DEADLINE, job, "",
			 "the deadline passed while the %s job ran", job);
		break;
	case STX__FATE_MEMORY:
		c->stats->killed_memory++;
		stx_fail(&o->diag, STX_E_TOO_LARGE, job, "",
			 "the %s job needs more memory than the limit worker_memory = %lluMiB", job,
			 (unsigned long long)(limit >> 20));
		break;
	case STX__FATE_CPU:
		c->stats->killed_cpu++;
		stx_fail(&o->diag, STX_E_DEADLINE, job, "",
			 "the %s job needs more processor time than the limit worker_cpu = %llu s",
			 job, (unsigned long long)c->cpu_s);
		break;
	default:
		c->stats->crashes += o->fate == STX__FATE_CRASHED;
		c->stats->killed_outside += o->fate == STX__FATE_KILLED && !w->pool->closing;
		if (WIFSIGNALED(status))
			stx_fail(&o->diag, STX_E_CRASHED, job, "",
				 "the worker died in the %s job by signal %d (%s)", job,
				 WTERMSIG(status), strsignal(WTERMSIG(status)));
		else
			stx_fail(&o->diag, STX_E_CRASHED, job, "",
				 "the worker ended in the %s job with status %d", job,
				 WEXITSTATUS(status));
	}
}

static void start_failed(struct stx__pool *p, struct stx__process *w, int status)
{
	struct stx_diag d = w->start_error;
	if (!d.code)
		stx_fail(
			&d, STX_E_INTERNAL, "worker", "",
			"a worker ended while starting (%s %d): no graph is to blame. The daemon's "
			"log has what it said; memory limits of this host or container are the "
			"usual "
			"reason (signal 9), or libraries that do not load (STAX_CUDA=0 leaves "
			"NVRTC "
			"out)",
			WIFSIGNALED(status) ? "signal" : "status",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	uint32_t n = ++p->start_failures;
	/* Once may be chance, or somebody's kill: at once again. */
	uint64_t wait = n < 2 ? 0 : (uint64_t)BACKOFF_MS << (n < 9 ? n - 2 : 7);
	p->next_start_ms = now_of(p) + (wait < BACKOFF_MAX_MS ? wait : BACKOFF_MAX_MS);
	stx_log(STX_LOG_ERROR, "%s", d.text);
	int fatal = d.code == STX_E_DENIED && p->c.require_sandbox;
	if (!fatal && n <= 2)
		return;
	fail_queue(p, &p->keys, &d);
	fail_queue(p, &p->others, &d);
	p->c.broken(p->c.ctx, &d, fatal);
}

static void on_exit_of_worker(uv_poll_t *h, int status, int events)
{
	(void)status;
	(void)events;
	struct stx__process *w = h->data;
	struct stx__pool *p = w->pool;
	struct rusage usage;
	int how = 0;
	if (wait4(w->pid, &how, WNOHANG, &usage) == 0)
		return;
	uint64_t peak = (uint64_t)usage.ru_maxrss << 10;
	enum state was = w->state;
	struct stx__job *j = w->job;
	struct stx__outcome o = { 0 };
	if (was != LEAVING || w->killed)
		p->c.stats->restarts += !p->closing;
	if (was == STARTING && !p->closing)
		start_failed(p, w, how);
	if (j) {
		explain_end(w, how, peak, &o);
		stx_log(STX_LOG_WARN, "%s", o.diag.text);
	}
	w->state = LEAVING;
	w->job = NULL;
	uv_poll_stop(&w->sock_poll);
	uv_close((uv_handle_t *)&w->sock_poll, on_handle_closed);
	uv_close((uv_handle_t *)&w->pid_poll, on_handle_closed);
	if (j) {
		j->process = NULL;
		j->done(j, &o);
	}
}

/* ---- messages from a worker ---- */

static void adopt(struct stx__pool *p, const struct stx_digest *fingerprint)
{
	p->known = 1;
	p->differing = 0;
	p->fingerprint = *fingerprint;
	for (struct stx__process *w = p->first; w; w = w->next)
		if (w->state == IDLE && !stx_digest_eq(&w->fingerprint, fingerprint))
			retire(w);
	p->c.ready(p->c.ctx, fingerprint);
}

/* A worker that differs is drained. When several in a row differ the libraries on disk have
 * changed, and the new build takes over. */
static void hello(struct stx__process *w, const Stx__JobReply *r)
{
	struct stx__pool *p = w->pool;
	if (r->error) {
		stx_error_to_diag(r->error, &w->start_error);
		return; /* it ends by itself */
	}
	if (r->fingerprint.len != STX_DIGEST_BYTES) {
		kill_process(w, STX__FATE_CRASHED);
		return;
	}
	memcpy(w->fingerprint.b, r->fingerprint.data, STX_DIGEST_BYTES);
	snprintf(p->sandbox, sizeof p->sandbox, "%s", r->sandbox);
	p->start_failures = 0;
	w->state = IDLE;
	w->since_ms = now_of(p);
	if (!p->known) {
		adopt(p, &w->fingerprint);
	} else if (!stx_digest_eq(&w->fingerprint, &p->fingerprint)) {
		stx_log(STX_LOG_WARN, "a worker with another compiler fingerprint");
		if (++p->differing < 2)
			retire(w);
		else
			adopt(p, &w->fingerprint);
	}
	pump(p);
}

static void job_reply(struct stx__process *w, struct stx__message *m)
{
	struct stx__pool *p = w->pool;
	struct stx__job *j = w->job;
	const Stx__JobReply *r = m->e->job_reply;
	struct stx__outcome o = { .message = m };
	w->job = NULL;
	w->state = IDLE;
	w->since_ms = now_of(p);
	w->jobs++;
	j->process = NULL;
	if (r->error) {
		o.fate = STX__FATE_DIAGNOSED;
		stx_error_to_diag(r->error, &o.diag);
	}
	if (w->jobs >= p->c.jobs_max ||
	    (p->c.recycle_bytes && r->peak_bytes > p->c.recycle_bytes) ||
	    !stx_digest_eq(&w->fingerprint, &p->fingerprint))
		retire(w);
	j->done(j, &o);
	pump(p);
}

static void on_message(uv_poll_t *h, int status, int events)
{
	(void)status;
	(void)events;
	struct stx__process *w = h->data;
	struct stx__message m;
	struct stx_diag d = { 0 };
	stx_err e = stx__channel_recv(w->sock, STX__MAPPED, &m, &d);
	if (e == STX_E_BUSY)
		return;
	if (e ==
	    STX_E_CONNECT) { /* its end follows; a process that only closes the channel is ended */
		uv_poll_stop(&w->sock_poll);
		kill(w->pid, SIGKILL);
		return;
	}
	if (e || m.e->msg_case != STX__ENVELOPE__MSG_JOB_REPLY) {
		stx_log(STX_LOG_ERROR, "a worker broke the protocol: %s", d.text);
		uv_poll_stop(&w->sock_poll);
		kill_process(w, STX__FATE_CRASHED);
	} else if (w->state == STARTING && m.e->request_id == 0) {
		hello(w, m.e->job_reply);
	} else if (w->state == BUSY && m.e->request_id == w->job_id) {
		job_reply(w, &m);
	} else {
		uv_poll_stop(&w->sock_poll);
		kill_process(w, STX__FATE_CRASHED);
	}
	if (!e)
		stx__message_free(&m);
}

/* ---- starting ---- */

static int watch(struct stx__pool *p, struct stx__process *w)
{
	char path[48];
	w->pidfd = (int)syscall(SYS_pidfd_open, w->pid, 0);
	if (w->pidfd < 0)
		return -1;
	fcntl(w->pidfd, F_SETFD, FD_CLOEXEC);
	snprintf(path, sizeof path, "/proc/%d/statm", (int)w->pid);
	w->statm = open(path, O_RDONLY | O_CLOEXEC);
	fcntl(w->sock, F_SETFL, O_NONBLOCK);
	if (uv_poll_init(p->c.loop, &w->sock_poll, w->sock))
		return -1;
	if (uv_poll_init(p->c.loop, &w->pid_poll, w->pidfd)) {
		/* Cannot be undone in place: the handle is closed when the process record is. */
		w->handles = 1;
		w->sock_poll.data = w;
		uv_close((uv_handle_t *)&w->sock_poll, on_handle_closed);
		return 1;
	}
	w->sock_poll.data = w->pid_poll.data = w;
	w->handles = 2;
	uv_poll_start(&w->sock_poll, UV_READABLE, on_message);
	uv_poll_start(&w->pid_poll, UV_READABLE, on_exit_of_worker);
	return 0;
}

static void start_one(struct stx__pool *p)
{
	int pair[2];
	struct stx__process *w = calloc(1, sizeof *w);
	if (!w || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		free(w);
		p->next_start_ms = now_of(p) + BACKOFF_MS;
		return;
	}
	w->pool = p;
	w->sock = pair[0];
	w->pidfd = w->statm = -1;
	w->since_ms = now_of(p);
	int e = stx__worker_spawn(&p->c, pair[1], &w->pid);
	close(pair[1]);
	int bad = e ? -1 : watch(p, w);
	if (bad) {
		stx_log(STX_LOG_ERROR, "starting a worker: %s", strerror(e ? e : errno));
		if (!e) {
			kill(w->pid, SIGKILL);
			waitpid(w->pid, NULL, 0);
		}
		p->next_start_ms = now_of(p) + BACKOFF_MS * 10;
		if (bad < 0) {
			close(w->sock);
			free(w);
			return;
		}
		w->state = LEAVING;
	}
	w->next = p->first;
	p->first = w;
}

/* Keeps workers + 1 alive. Until one has come up, one at a time. */
static void maintain(struct stx__pool *p)
{
	uint32_t live = 0, starting = 0;
	for (struct stx__process *w = p->first; w; w = w->next) {
		live += w->state != LEAVING;
		starting += w->state == STARTING;
	}
	if (now_of(p) < p->next_start_ms || (starting && !p->known))
		return;
	for (uint32_t want = p->known ? p->c.workers + 1 : 1; live < want; live++)
		start_one(p);
}

/* ---- handing out ---- */

static uint64_t cpu_us(const struct stx__process *w)
{
	clockid_t clock;
	struct timespec t;
	if (clock_getcpuclockid(w->pid, &clock) || clock_gettime(clock, &t))
		return 0;
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* An idle worker that may run j: best one already bound to its namespace, else an unbound one. When
 * all idle ones serve others, one of them is replaced and NULL returned. */
static struct stx__process *choose(struct stx__pool *p, const struct stx__job *j)
{
	struct stx__process *unbound = NULL, *other = NULL;
	int starting = 0;
	for (struct stx__process *w = p->first; w; w = w->next) {
		starting |= w->state == STARTING;
		if (w->state != IDLE)
			continue;
		if (j->fresh && w->jobs)
			other = w;
		else if (!w->ns[0])
			unbound = w;
		else if (!strcmp(w->ns, j->ns))
			return w;
		else
			other = w;
	}
	if (unbound)
		return unbound;
	if (other && !starting) {
		retire(other);
		maintain(p);
	}
	return NULL;
}

/* 0: handed over, or failed for good; -1: the worker cannot take it. */
static int give(struct stx__pool *p, struct stx__process *w, struct stx__job *j)
{
	struct stx_diag d = { 0 };
	stx_err e = j->send(j, w->sock, ++p->job_id, &d);
	if (e == STX_E_CONNECT || e == STX_E_BUSY) {
		kill_process(w, STX__FATE_CRASHED);
		w->state = LEAVING;
		return -1;
	}
	if (e) {
		stx_fail(&d, e, "worker", "", "%s", stx_err_text(e));
		job_failed_later(p, j, &d);
		return 0;
	}
	w->job = j;
	w->job_id = p->job_id;
	w->state = BUSY;
	w->since_ms = now_of(p);
	w->cpu_start_us = cpu_us(w);
	snprintf(w->ns, sizeof w->ns, "%s", j->ns);
	j->process = w;
	return 0;
}

static void dispatch_queue(struct stx__pool *p, struct stx__jobq *q, uint32_t room)
{
	while (room && q->n) {
		struct stx__job *j = job_of(stx__jobq_top(q));
		struct stx__process *w = choose(p, j);
		if (!w)
			return;
		stx__jobq_remove(q, &j->queued);
		if (give(p, w, j))
			stx__jobq_push(q, &j->queued, 1);
		else
			room--;
	}
}

static void dispatch(struct stx__pool *p)
{
	uint32_t others = 0;
	for (struct stx__process *w = p->first; w; w = w->next)
		others += w->state == BUSY && w->job->kind != STX__JOB_KIND__JOB_KEY;
	dispatch_queue(p, &p->keys, UINT32_MAX);
	if (others < p->c.workers)
		dispatch_queue(p, &p->others, (uint32_t)(p->c.workers - others));
}

static void deliver_failures(struct stx__pool *p)
{
	while (p->failed) {
		struct stx__job *j = p->failed;
		p->failed = j->next_failed;
		struct stx__outcome o = { .fate = STX__FATE_NOT_RUN, .diag = j->diag };
		j->failed = 0;
		j->done(j, &o);
	}
}

static void pump(struct stx__pool *p)
{
	deliver_failures(p);
	if (p->closing)
		return;
	maintain(p);
	dispatch(p);
}

/* ---- interface ---- */

struct stx__pool *stx__pool_new(const struct stx__pool_config *c)
{
	struct stx__pool *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->c = *c;
	if (uv_timer_init(c->loop, &p->kick)) {
		free(p);
		return NULL;
	}
	p->kick.data = p;
	uv_timer_start(&p->kick, on_kick, 0, 0);
	return p;
}

stx_err stx__pool_submit(struct stx__pool *p, struct stx__job *j)
{
	struct stx__jobq *q = j->kind == STX__JOB_KIND__JOB_KEY ? &p->keys : &p->others;
	if (p->closing) {
		struct stx_diag d = { 0 };
		stx_fail(&d, STX_E_CANCELED, "queue", "", "the server is shutting down");
		job_failed_later(p, j, &d);
		return STX_E_OK;
	}
	if (stx__jobq_push(q, &j->queued, 0))
		return STX_E_NOMEM;
	dispatch(p);
	return STX_E_OK;
}

void stx__pool_cancel(struct stx__pool *p, struct stx__job *j)
{
	if (j->queued.pos)
		stx__jobq_remove(j->kind == STX__JOB_KIND__JOB_KEY ? &p->keys : &p->others,
				 &j->queued);
	if (j->process) {
		j->process->job = NULL;
		j->process->state = LEAVING;
		kill_process(j->process, STX__FATE_DEADLINE);
		j->process = NULL;
	}
	if (j->failed) {
		struct stx__job **at = &p->failed;
		while (*at != j)
			at = &(*at)->next_failed;
		*at = j->next_failed;
		j->failed = 0;
	}
}

void stx__pool_rank(struct stx__pool *p, struct stx__job *j, uint32_t priority)
{
	stx__jobq_rank(j->kind == STX__JOB_KIND__JOB_KEY ? &p->keys : &p->others, &j->queued,
		       priority);
}

/* Private memory now, in bytes; 0 when unknown. */
static uint64_t private_bytes(const struct stx__process *w)
{
	char text[128];
	unsigned long total, resident, shared;
	ssize_t n = w->statm < 0 ? -1 : pread(w->statm, text, sizeof text - 1, 0);
	if (n <= 0)
		return 0;
	text[n] = 0;
	if (sscanf(text, "%lu %lu %lu", &total, &resident, &shared) != 3 || resident < shared)
		return 0;
	return (uint64_t)(resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void check_busy(struct stx__pool *p, struct stx__process *w, uint64_t now_ms)
{
	if (w->killed)
		return;
	if (w->job->deadline_ms && now_ms >= w->job->deadline_ms)
		kill_process(w, STX__FATE_DEADLINE);
	else if (p->c.memory_bytes && private_bytes(w) > p->c.memory_bytes)
		kill_process(w, STX__FATE_MEMORY);
	else if (p->c.cpu_s && cpu_us(w) - w->cpu_start_us > p->c.cpu_s * 1000000u)
		kill_process(w, STX__FATE_CPU);
}

void stx__pool_tick(struct stx__pool *p, uint64_t now_ms)
{
	for (struct stx__process *w = p->first; w; w = w->next) {
		if (w->state == BUSY)
			check_busy(p, w, now_ms);
		else if (w->state == LEAVING && now_ms - w->since_ms > GRACE_MS)
			kill(w->pid, SIGKILL);
		else if (w->state == STARTING && now_ms - w->since_ms > START_TIMEOUT_MS)
			kill_process(w, STX__FATE_CRASHED);
	}
	if (!p->closing)
		pump(p);
}

uint32_t stx__pool_queued(const struct stx__pool *p)
{
	return p->keys.n + p->others.n;
}

int stx__pool_short(const struct stx__pool *p)
{
	const struct stx__queued *k = stx__jobq_top(&p->keys), *o = stx__jobq_top(&p->others);
	uint32_t starting = 0, others = 0;
	for (const struct stx__process *w = p->first; w; w = w->next) {
		starting += w->state == STARTING;
		others += w->state == BUSY && w->job->kind != STX__JOB_KIND__JOB_KEY;
	}
	return (k && k->priority && !starting) ||
	       (o && o->priority && (!starting || others >= p->c.workers));
}

uint32_t stx__pool_busy(const struct stx__pool *p)
{
	uint32_t n = 0;
	for (const struct stx__process *w = p->first; w; w = w->next)
		n += w->state == BUSY;
	return n;
}

const char *stx__pool_sandbox(const struct stx__pool *p)
{
	return p->sandbox;
}

uint32_t stx__pool_pids(const struct stx__pool *p, uint32_t *pids, uint32_t cap)
{
	uint32_t n = 0;
	for (const struct stx__process *w = p->first; w && n < cap; w = w->next)
		if (w->state != LEAVING)
			pids[n++] = (uint32_t)w->pid;
	return n;
}

void stx__pool_close(struct stx__pool *p)
{
	struct stx_diag d = { 0 };
	stx_fail(&d, STX_E_CANCELED, "queue", "", "the server is shutting down");
	fail_queue(p, &p->keys, &d);
	fail_queue(p, &p->others, &d);
	p->closing = 1;
	deliver_failures(p);
	for (struct stx__process *w = p->first; w; w = w->next)
		if (!uv_is_closing((uv_handle_t *)&w->pid_poll))
			kill_process(w, STX__FATE_KILLED);
	uv_close((uv_handle_t *)&p->kick, NULL);
}

void stx__pool_free(struct stx__pool *p)
{
	if (!p)
		return;
	stx__jobq_free(&p->keys);
	stx__jobq_free(&p->others);
	free(p);
}
