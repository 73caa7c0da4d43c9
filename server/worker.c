/* worker.c: main loop of a worker process. */
#include "worker.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"
#include "compile.h"
#include "log.h"
#include "sandbox.h"
#include "worker_job.h"

#define SPAWN_TRIM_BYTES (256 << 20)

struct options {
	int64_t parent;
	uint64_t memory_bytes;
	enum stx__sched sched;
	int require_sandbox;
	int no_sandbox;
	int cuda; /* load NVRTC, before the sandbox closes */
};

static int parse_options(int argc, char **argv, struct options *o)
{
	memset(o, 0, sizeof *o);
	const char *off = getenv("STAX_WORKER_SANDBOX");
	for (int i = 0; i < argc; i++) {
		const char *v = strchr(argv[i], '=');
		size_t n = v ? (size_t)(v - argv[i]) : 0;
		if (v && n == 6 && !memcmp(argv[i], "parent", n))
			o->parent = strtoll(v + 1, NULL, 10);
		else if (v && n == 6 && !memcmp(argv[i], "memory", n))
			o->memory_bytes = strtoull(v + 1, NULL, 10);
		else if (v && n == 5 && !memcmp(argv[i], "sched", n))
			o->sched = !strcmp(v + 1, "idle")   ? STX__SCHED_IDLE
				   : !strcmp(v + 1, "nice") ? STX__SCHED_NICE
							    : STX__SCHED_NORMAL;
		else if (v && n == 15 && !memcmp(argv[i], "require-sandbox", n))
			o->require_sandbox = atoi(v + 1);
		else if (v && n == 4 && !memcmp(argv[i], "cuda", n))
			o->cuda = atoi(v + 1);
		else
			return -1;
	}
	o->no_sandbox = !o->parent && off && !strcmp(off, "off"); /* a private one only */
	return 0;
}

/* One allocation pattern after another: keep memory instead of giving it back (design: measured
 * facts). */
static void tune_malloc(void)
{
	mallopt(M_MMAP_THRESHOLD, 64 << 20);
	mallopt(M_TRIM_THRESHOLD, SPAWN_TRIM_BYTES);
	mallopt(M_ARENA_MAX, 1);
}

/* The first message: what is really mapped here, and how closed it is. */
static stx_err say_hello(const struct stx__worker *w)
{
	Stx__JobReply r = STX__JOB_REPLY__INIT;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	e.msg_case = STX__ENVELOPE__MSG_JOB_REPLY;
	e.job_reply = &r;
	r.fingerprint = (ProtobufCBinaryData){ STX_DIGEST_BYTES, (uint8_t *)w->fingerprint.b };
	r.sandbox = (char *)w->sandbox;
	return stx__channel_send(STX__WORKER_FD, &e, NULL, 0, -1, NULL);
}

static stx_err start_failed(const struct stx_diag *d)
{
	Stx__JobReply r = STX__JOB_REPLY__INIT;
	Stx__Error error;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	e.msg_case = STX__ENVELOPE__MSG_JOB_REPLY;
	e.job_reply = &r;
	stx_error_from_diag(&error, d);
	r.error = &error;
	return stx__channel_send(STX__WORKER_FD, &e, NULL, 0, -1, NULL);
}

/* 0: the other side closed; 1: it broke the protocol. */
static int serve(struct stx__worker *w)
{
	for (;;) {
		struct stx__message m;
		struct stx_diag d = { 0 };
		stx_err e = stx__channel_recv(STX__WORKER_FD, STX__COPIED, &m, &d);
		if (e == STX_E_CONNECT)
			return 0;
		if (e) {
			stx_log(STX_LOG_ERROR, "worker: %s", d.text);
			return 1;
		}
		if (m.e->msg_case != STX__ENVELOPE__MSG_JOB) {
			stx_log(STX_LOG_ERROR, "worker: a message that is not a job");
			stx__message_free(&m);
			return 1;
		}
		e = stx__worker_job(w, &m);
		stx__message_free(&m);
		if (e)
			return e == STX_E_CONNECT ? 0 : 1;
	}
}

int stx_worker_main(int argc, char **argv)
{
	struct options o;
	struct stx_diag d = { 0 };
	struct stx__worker w = { .sandbox = "none: switched off by the launcher" };
	int type = 0, status = 1;
	socklen_t n = sizeof type;
	if (parse_options(argc, argv, &o)) {
		fprintf(stderr, "staxd --worker: unknown argument\n");
		return 2;
	}
	if (getsockopt(STX__WORKER_FD, SOL_SOCKET, SO_TYPE, &type, &n) || type != SOCK_SEQPACKET) {
		fprintf(stderr,
			"staxd --worker: descriptor 3 is not a SOCK_SEQPACKET socket; workers are "
			"started by staxd or libstax\n");
		return 2;
	}
	tune_malloc();
	w.memory_bytes = o.memory_bytes;
	if (stx__sandbox_prepare(o.parent, o.memory_bytes, &d) ||
	    stx_compiler_new(o.cuda, &w.compiler, &d)) {
		stx_log(STX_LOG_ERROR, "worker: %s", d.text);
		start_failed(&d);
		return 1;
	}
	w.fingerprint = stx_compiler_fingerprint(w.compiler);
	stx__sandbox_priority(o.sched);
	if (!o.no_sandbox)
		stx__sandbox_close(w.sandbox, sizeof w.sandbox);
	if (o.require_sandbox && strncmp(w.sandbox, "seccomp", 7) != 0) {
		stx_fail(&d, STX_E_DENIED, "sandbox", "", "--require-sandbox: %s", w.sandbox);
		start_failed(&d);
	} else if (!say_hello(&w)) {
		status = serve(&w);
	}
	stx_compiler_free(w.compiler);
#ifdef __SANITIZE_ADDRESS__
	if (!strncmp(w.sandbox, "seccomp", 7))
		_exit(status); /* the leak check needs threads, which the sandbox refuses */
#endif
	return status;
}
