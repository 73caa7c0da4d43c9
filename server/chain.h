/* chain.h
 * the jobs behind a flight. Key chain: one KEY job, a flight on the memo. Compile chain: PLAN,
 * KERNEL jobs side by side, LINK, check, commit, a flight on the canonical key. Kernel jobs are
 * shared between chains. */
#ifndef STX_CHAIN_H
#define STX_CHAIN_H

#include "request.h"

enum stx__chain_kind { STX__CHAIN_KEY, STX__CHAIN_COMPILE };

/* Deaths of workers under one job. */
struct stx__attempts {
	uint32_t crashes, outside;
};

/* What both kinds have. Embedded first. */
struct stx__chain {
	struct stx__flight flight;      /* first member */
	struct stx__chain *next, *prev; /* of the server */
	struct stx__server *s;
	enum stx__chain_kind kind;
	struct stx__spec *spec; /* the first leader's: namespace, target, options */
	struct stx__job job;
	struct stx__attempts attempts;
	uint64_t start_us;
	int abandoned; /* nobody waits: it may go on for a while (chain.c) */
};

struct stx__key_chain {
	struct stx__chain c;
	struct stx__blob *memo; /* value, once the job is done */
	int graph_fd;           /* canonical graph, sealed; -1 before */
	struct stx_stages stages;
	int recache; /* someone asked for a new compile */
};

struct stx__kernel_job;
/* One distinct kernel of a plan, as numbered in the chain's kernels. */
struct stx__kernel_slot {
	struct stx__blob *value; /* encoded kernel, once there */
	struct stx__kernel_job *job;
	int reused;
};

struct stx__compile_chain {
	struct stx__chain c;
	int graph_fd;
	struct stx_digest key, graph;  /* the flight's id is the key within the namespace */
	struct stx_digest fingerprint; /* of the compiler the key names */
	char reason[400];
	int is_code;          /* code_chain.c: one kernel, no plan and no link */
	struct stx__blob *ir; /* of that kernel */
	int recache;          /* replace what is stored */
	int dead;             /* at its end: the tick frees it when refs is 0 */
	uint32_t refs;        /* callbacks that will still come */
	uint32_t generation;  /* of the plan: results of an earlier one are ignored */
	struct stx_stages key_stages, stages;
	struct stx__message plan; /* reply of PLAN */
	int has_plan;
	struct stx_span *pieces; /* of the plan's body: plan, then each kernel's IR */
	struct stx_kernel_ids kernels;
	struct stx__kernel_slot *slots; /* [kernels.n] */
	uint32_t next_slot, running, ready;
	struct stx__message link; /* reply of LINK */
	int has_link;
	struct stx_digest artifact;
	int stored;               /* committed */
	struct stx__blob *answer; /* packed, the stored part */
	uint64_t kernels_start_us;
	uv_work_t checking; /* of a large artifact, off the loop: writes these and `artifact` */
	stx_err check_error;
	struct stx_diag check_diag;
	uint64_t check_us;
};

void stx__key_chain_abort(struct stx__key_chain *k);
void stx__compile_chain_abort(struct stx__compile_chain *c);
void stx__compile_chain_free(struct stx__compile_chain *c);
/* Drops a reference taken by c->refs++. */
void stx__compile_release(struct stx__compile_chain *c);

/* For code_chain.c, as compile_chain.c uses them itself. */
/* Its flight is started under id, the key within the namespace. NULL: out of memory. */
struct stx__compile_chain *stx__compile_chain_new(struct stx__server *s, struct stx__spec *spec,
						  const struct stx_digest *key,
						  const struct stx_digest *id);
struct stx__compile_chain *stx__compile_chain_of(struct stx__job *j);
void stx__compile_submit(struct stx__compile_chain *c);
void stx__compile_pump(struct stx__compile_chain *c); /* kernels are known: get them */
void stx__compile_job_failed(struct stx__compile_chain *c, struct stx__outcome *o);
void stx__compile_end(struct stx__compile_chain *c); /* its waiters know */
void stx__compile_end_with(struct stx__compile_chain *c, stx_err e, const char *stage,
			   const char *text);

/* Finds or starts the flight for p's memo and joins it. On failure p has been answered. */
void stx__key_chain_join(struct stx__pending *p);
/* Finds or starts the flight on the key: graph_fd is duplicated. p may be NULL: nobody waits any
 * more, the result is stored all the same. */
void stx__compile_chain_join(struct stx__server *s, struct stx__pending *p,
			     struct stx__key_chain *from, const struct stx__memo *memo);
/* Ends it: nobody waits, or the server stops. */
void stx__chain_abort(struct stx__chain *c);
/* A waiter has left. Was it the last one, the chain is abandoned, or ends here. */
void stx__chain_waiter_left(struct stx__chain *c);
/* Deadlines of waiters and chains. */
void stx__chains_tick(struct stx__server *s, uint64_t now_ms);
/* Frees chains that have ended; with all, those whose callbacks will not come any more as well. */
void stx__chains_reap(struct stx__server *s, int all);
/* Rank of its jobs: 0 when nobody waits, else more with each joiner. */
uint32_t stx__chain_rank(const struct stx__chain *c);
/* A waiter came or left, or the deadline moved: tell the jobs. */
void stx__chain_changed(struct stx__chain *c);
void stx__chain_link(struct stx__chain *c, struct stx__server *s);
void stx__chain_unlink(struct stx__chain *c);

/* failure.c: what follows from a job's bad end. Waiters have been told as design 5 asks. */
enum stx__next {
	STX__NEXT_RETRY,   /* the same job, on a fresh worker */
	STX__NEXT_RESTART, /* the leader is out; the others still want it */
	STX__NEXT_END
};
enum stx__next stx__failure_route(struct stx__server *s, struct stx__flight *f,
				  struct stx__attempts *a, const struct stx__outcome *o);
/* The diagnostic of an outcome that any later run would repeat: may be cached. */
int stx__failure_is_final(const struct stx__outcome *o);

/* reproducer.c: for an outcome that is the compiler's own fault and will be told: has a file
 * written that replays it, and adds to the diagnostic where. Before stx__failure_route. */
void stx__chain_reproduce(struct stx__chain *c, const struct stx__attempts *a,
			  struct stx__outcome *o);

/* kernel_job.c */
/* Gets slot i of c compiled, or joins the job that does; the chain is told by
 * stx__compile_kernel_done or stx__compile_kernel_failed, never from inside. 0 or NOMEM. */
stx_err stx__kernel_job_join(struct stx__compile_chain *c, uint32_t slot);
void stx__kernel_job_leave(struct stx__compile_chain *c, uint32_t slot);
void stx__kernel_job_changed(struct stx__kernel_job *k); /* rank and deadline of a user's chain */
int stx__kernel_job_running(const struct stx__kernel_job *k);
void stx__compile_kernel_done(struct stx__compile_chain *c, uint32_t slot, struct stx__blob *value,
			      int reused, Stx__Stage **stages, size_t nstages);
/* next: what the router said for this chain. */
void stx__compile_kernel_failed(struct stx__compile_chain *c, enum stx__next next,
				const struct stx__outcome *o);
/* The job died with its leader; slot must be tried anew. */
void stx__compile_kernel_again(struct stx__compile_chain *c, uint32_t slot);

/* A job message with the given pieces or descriptor as body. config: of a GPU kernel, or NULL. */
stx_err stx__job_send(const struct stx__spec *spec, Stx__JobKind kind, const char *config, int sock,
		      uint64_t id, const struct stx_span *pieces, uint32_t n, int fd,
		      struct stx_diag *d);

#endif
