/* pool.h
 * worker processes: start, hand out jobs, watch, kill, replace.
 *
 * --workers processes and one more, so that a KEY job never waits for a compile. A worker serves
 * one namespace. Whatever happens to a worker hits the one job it runs. Loop thread only. */
#ifndef STX_POOL_H
#define STX_POOL_H

#include <uv.h>

#include "channel.h"
#include "hash.h"
#include "queue.h"
#include "stats.h"

struct stx__pool;
struct stx__process;

/* How a job ended. */
enum stx__fate {
	STX__FATE_OK,
	STX__FATE_DIAGNOSED, /* the worker replied with an error */
	STX__FATE_DEADLINE,  /* killed: the job's deadline */
	STX__FATE_MEMORY,    /* killed: the memory limit */
	STX__FATE_CPU,       /* killed: the processor time limit */
	STX__FATE_CRASHED,   /* died by itself */
	STX__FATE_KILLED,    /* killed by somebody else */
	STX__FATE_NOT_RUN /* never reached a worker: out of memory, no worker starts, shutting down
			   */
};

struct stx__outcome {
	enum stx__fate fate;
	struct stx_diag diag; /* unless OK */
	struct stx__message
		*message; /* the reply, for OK and DIAGNOSED; done may take its contents */
};

/* One unit of work. Embedded by its owner, who fills the first part, zeroes the rest. */
struct stx__job {
	Stx__JobKind kind;
	const char *ns;       /* outlives the job */
	uint64_t deadline_ms; /* loop clock; may be raised while it runs */
	int fresh;            /* only on a worker that has run nothing yet */
	stx_err (*send)(struct stx__job *j, int sock, uint64_t id, struct stx_diag *d);
	void (*done)(struct stx__job *j, struct stx__outcome *o);

	struct stx__queued queued;
	struct stx__process *process; /* while it runs */
	struct stx__job *next_failed;
	int failed;
	struct stx_diag diag;
};

struct stx__pool_config {
	uv_loop_t *loop;
	const char *exe; /* NULL: /proc/self/exe */
	uint32_t workers;
	uint64_t memory_bytes, cpu_s, jobs_max, recycle_bytes;
	const char *sched; /* "normal", "nice", "idle" */
	int require_sandbox;
	int cuda; /* workers load NVRTC when they start */
	struct stx__stats *stats;
	/* The fingerprint every usable worker has; called at the first one, and again when a new
	 * build has taken over. */
	void (*ready)(void *ctx, const struct stx_digest *fingerprint);
	/* Workers do not start; called at every failure beyond the second in a row. fatal: a
	 * sandbox was required and there is none. */
	void (*broken)(void *ctx, const struct stx_diag *d, int fatal);
	void *ctx;
};

/* spawn.c: `staxd --worker` with child_sock as descriptor 3 and nothing else open. 0 or an errno.
 */
int stx__worker_spawn(const struct stx__pool_config *c, int child_sock, pid_t *pid);

struct stx__pool *stx__pool_new(const struct stx__pool_config *c); /* NULL: out of memory */
/* done is called later, never from inside. 0 or NOMEM. */
stx_err stx__pool_submit(struct stx__pool *p, struct stx__job *j);
/* Takes the job back: from the queue, or by killing its worker. done is not called. */
void stx__pool_cancel(struct stx__pool *p, struct stx__job *j);
/* Where the job stands among those that wait; 0: nobody wants its result. */
void stx__pool_rank(struct stx__pool *p, struct stx__job *j, uint32_t priority);
/* Deadlines and limits; call every 50 ms while busy, each second otherwise. */
void stx__pool_tick(struct stx__pool *p, uint64_t now_ms);

uint32_t stx__pool_queued(const struct stx__pool *p);
/* 1: a job that somebody wants (rank above 0) has no worker, and none is about to come. */
int stx__pool_short(const struct stx__pool *p);
uint32_t stx__pool_busy(const struct stx__pool *p);
const char *stx__pool_sandbox(const struct stx__pool *p); /* level of the last worker, "" before */
uint32_t stx__pool_pids(const struct stx__pool *p, uint32_t *pids, uint32_t cap);

/* Every waiting job fails (NOT_RUN), no worker is started any more, all are killed. Run the loop
 * until it has no handles left, then free. */
void stx__pool_close(struct stx__pool *p);
void stx__pool_free(struct stx__pool *p);

#endif
