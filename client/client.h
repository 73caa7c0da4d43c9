/* client.h
 * inside libstax: the connection, one round trip, the private worker, artifacts, threads. Not
 * installed. */
#ifndef STX_CLIENT_H
#define STX_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "arena.h"
#include "bytes.h"
#include "clock.h"
#include "cpu_target.h"
#include "hash.h"
#include "plan.h"
#include "stax.h"
#include "stax.pb-c.h"
#include "status.h"
#include "timing.h"

/* ---- errors (error.c) ---- */

/* Empty without clearing the texts: stx_fail writes what it sets. */
static inline void stx__diag_init(struct stx_diag *d)
{
	d->code = 0;
	d->stage[0] = d->node[0] = d->location[0] = d->text[0] = 0;
}
/* Copies d to err (which may be NULL) and returns e. */
int stx__give_error(stx_err e, const struct stx_diag *d, struct stax_error *err);

/* ---- targets (target.c) ---- */

/* Flags of the plan header (STX_PLAN_CPU_*) that this host offers. */
uint32_t stx__host_cpu(void);
/* "cpu", NULL or "cpu:x86-64-vN[+FEATURE..]" to its exact form; "cuda..." likewise.
 * *need: what the host must offer (0 for other kinds). */
stx_err stx__cpu_resolve(const char *text, char out[STX_TARGET_BYTES], uint32_t *need,
			 struct stx_diag *d);
/* The exact name of the current CUDA device, for "cuda" alone (cuda.c). */
stx_err stx__cuda_resolve(char out[STX_TARGET_BYTES], struct stx_diag *d);
/* This host with so many threads, as timings of code for the target are kept. USAGE: it is
 * another's: blockings follow caches, and the target names others. */
stx_err stx__cpu_device(const char *target, int threads, Stx__Device *out, struct stx_diag *d);
/* UNSUPPORTED, saying what is missing, when this host cannot run code that needs `need`. */
stx_err stx__cpu_check(uint32_t need, struct stx_diag *d);

/* ---- time and memfds (util.c) ---- */

/* A sealed memfd holding p[0, n); -1 and d on failure. */
int stx__sealed(const char *name, const void *p, size_t n, struct stx_diag *d);
/* Maps a descriptor's whole content read-only, at most `max` bytes. Freed with munmap(at, n) when n
 * > 0. */
stx_err stx__map_fd(int fd, size_t max, struct stx_span *out, struct stx_diag *d);

/* ---- a call (connection.c) ---- */

struct stx__wait {
	uint64_t deadline_ns; /* monotonic; 0: none */
	void (*progress)(void *ctx, const char *stage, uint32_t done, uint32_t total, uint64_t ms);
	void *progress_ctx;
};

/* One received message. Freed by stx__received_free. */
struct stx__received {
	Stx__Envelope *e;
	uint8_t *raw;         /* the frame's body, malloc'd; NULL when mapped or empty */
	struct stx_span body; /* without a spilled envelope */
	struct stx_span map;  /* private worker: mapped memfd */
};
void stx__received_free(struct stx__received *r);

struct stx__private;
struct stx__server {
	enum { STX__UNIX, STX__TCP, STX__NONE } kind;
	char text[256];           /* as shown to people */
	char path[108];           /* UNIX */
	char host[128], port[16]; /* TCP */
};
struct stax_client {
	struct stx__server at;
	int fd; /* -1: not connected */
	uint64_t next_id;
	uint32_t version;
	struct stx__private *private_worker; /* NULL until needed */
};

stx_err stx__server_parse(const char *text, struct stx__server *out, struct stx_diag *d);
/* Sends e (its request_id is set here) with body; waits for the reply of that id, passing Progress
 * on. An Error reply becomes the returned code. A lost connection is opened again and the request
 * sent again, three times at most: every request is safe to repeat. */
stx_err stx__roundtrip(struct stax_client *c, Stx__Envelope *e, struct stx_span body,
		       const struct stx__wait *w, struct stx__received *out, struct stx_diag *d);

/* ---- requests to messages (message.c) ---- */

/* *sent is *r as it leaves the process: an ONNX model without its parameters' data, in *stripped
 * (freed by the caller, after the last use of *sent). */
stx_err stx__request_strip(const struct stax_request *r, struct stax_request *sent,
			   struct stx_bytes *stripped, struct stx_diag *d);
/* A request as protobuf messages; everything lives in the arena, texts and values are the
 * request's. */
stx_err stx__lookup_build(struct stx_arena *a, const struct stax_request *r, const char *target,
			  Stx__Lookup **out, struct stx_diag *d);
/* An answer from its message (strings copied). target as resolved. NULL when out of memory. */
struct stax_answer *stx__answer_new(const Stx__Answer *m, const Stx__Lookup *what);
const char *stx__answer_namespace(const struct stax_answer *a);
int stx__answer_is_fast(const struct stax_answer *a);
const char *stx__request_namespace(const char *ns); /* NULL: $STAX_NAMESPACE, else "default" */

/* ---- private worker (child.c, private.c) ---- */

struct stx__job_reply {
	struct stx__received r;
	const Stx__JobReply *m; /* in r */
};
struct stx__child;
/* Starts `staxd --worker`, with NVRTC when cuda is set; CONNECT names the places searched. */
stx_err stx__child_new(int cuda, struct stx__child **out, struct stx_diag *d);
int stx__child_has_cuda(const struct stx__child *w);
void stx__child_free(struct stx__child *w); /* ends the child */
int stx__child_alive(const struct stx__child *w);
/* One job. body: the pieces, concatenated; piece_bytes of the job is set by the caller. On DEADLINE
 * and CRASHED the child has been ended. On NEED_VALUES out is set as well. */
stx_err stx__child_run(struct stx__child *w, Stx__Job *job, const struct stx_span *pieces,
		       uint32_t npieces, const struct stx__wait *wait, struct stx__job_reply *out,
		       struct stx_diag *d);
const struct stx_digest *stx__child_fingerprint(const struct stx__child *w);
const char *stx__child_sandbox(const struct stx__child *w);
int stx__child_pid(const struct stx__child *w);

/* The client's live child: started on first use, and again after a crash. Owned by the client. */
stx_err stx__private_child(struct stax_client *c, int cuda, struct stx__child **out,
			   struct stx_diag *d);
stx_err stx__private_compile(struct stax_client *c, const struct stax_request *r,
			     const char *target, struct stax_answer **out, struct stx_diag *d);
/* The artifact a private compile made, from this client's memory; borrowed until the client is
 * freed. */
stx_err stx__private_fetch(struct stax_client *c, const struct stx_digest *digest,
			   struct stx_span *out, struct stx_diag *d);
/* A Tune or KernelCode request, answered by this process: timings and kernels in its memory. */
stx_err stx__private_tuning(struct stax_client *c, const Stx__Envelope *in,
			    struct stx__received *out, struct stx_diag *d);
stx_err stx__private_ping(struct stax_client *c, struct stax_pong *out, struct stx_diag *d);
void stx__private_stats(const struct stax_client *c,
			uint64_t out[4]); /* requests hits misses kernels */
void stx__private_free(struct stx__private *p);

/* reproduce.c: when d is the compiler's own fault: writes a reproducer of the request (format,
 * body: the graph as sent, or 2 and the canonical text) and adds to d where it is. */
void stx__reproduce(const Stx__Lookup *what, uint32_t format, struct stx_span body,
		    const struct stx_digest *compiler, struct stx_diag *d);

/* ---- threads (threads.c) ---- */

typedef void stx__body_fn(void *arg, int64_t begin, int64_t end);
struct stx__threads;
/* nthreads: callers included, at least 1. Threads start here. NULL when out of memory. */
struct stx__threads *stx__threads_new(int nthreads);
void stx__threads_free(struct stx__threads *p); /* no job may be running */
/* Calls body over [0, n) in pieces of at least `grain`; inline when one piece does, or when the
 * pool is busy with another caller's job. */
void stx__threads_for(struct stx__threads *p, int64_t n, int64_t grain, stx__body_fn *body,
		      void *arg);
/* The process-wide choice: an OpenMP runtime that is already loaded, else a pool made on first use.
 */
void stx__parallel_for(int64_t n, int64_t grain, stx__body_fn *body, void *arg);
/* $STAX_THREADS, 0 when not set; USAGE: it is no positive number. */
stx_err stx__threads_setting(int *out, struct stx_diag *d);
int stx__thread_count(void); /* $STAX_THREADS, else the CPUs of the affinity mask */

/* ---- artifacts (artifact.c, bind.c, run.c) ---- */

struct stx__context;
struct stx__tuner;
#define STX__SPARES 4
struct stax_artifact {
	struct stx_plan plan;
	uint8_t *plan_bytes; /* aligned copy that plan points into */
	int is_cuda;
	int fd;   /* the sealed memfd: stays open as long as the library (design: reply) */
	void *dl; /* NULL: no CPU code */
	stx_kernel_fn **fns;                  /* [nkernels]; CPU */
	stx_kernel_fn **prepare_fns;          /* [plan.nprepared] */
	struct stx__gpu_devices *gpu;         /* GPU: its code on each device; NULL: CPU code */
	struct stx_span elf;                  /* GPU: the mapped artifact, which cubins lie in */
	struct stx_arena *arena;              /* names, fns, indices below */
	uint32_t *input_value, *output_value; /* value number of each position */
	const char **input_names, **output_names;
	uint32_t nlaunch_args; /* arguments of all launches and external calls */
	uint32_t nscalars;     /* scalars of all kernels that steps launch, or may launch */
	uint32_t npacked;      /* prepared operands of the kernels of all steps */
	uint32_t nmutated;     /* inputs that are written */
	int is_aligned;        /* GPU: arguments must begin at multiples of STX_GPU_ALIGN */
	uint64_t ndims;        /* sum of the ranks of all values */
	_Atomic(struct stx__tuner *) tuner; /* measures in the next run (measuring.c) */
	_Atomic(struct stx__tuner *) tuned; /* has measured */
	pthread_mutex_t interpreter_lock;
	struct stax_client *interpreter; /* of external calls (interpret.c), NULL until needed */
	_Atomic(struct stx__context *) spare[STX__SPARES];
};

/* The parts of loading, in order. prepare: copies and checks the plan, indexes arguments (names:
 * the producer's, or NULL for the plan's own); then fns is filled; finish: makes the first context,
 * bound at the size hints. a->arena is set by the caller; on failure stax_artifact_free. */
stx_err stx__artifact_prepare(struct stax_artifact *a, struct stx_span plan,
			      const struct stax_answer *names, struct stx_diag *d);
stx_err stx__artifact_finish(struct stax_artifact *a, struct stx_diag *d);

/* ---- measuring (measuring.c) ---- */

/* The run that claims the tuner calls these around its steps. What goes wrong in measuring is
 * reported and ends it, never the run. */
struct stx__tuner *stx__tune_claim(struct stax_artifact *a);
void stx__tune_begin(struct stx__tuner *t, struct stax_artifact *a, struct stx__context *x,
		     const struct stx_env *env);
void stx__tune_step(struct stx__tuner *t, struct stx__context *x, uint32_t step);
void stx__tune_end(struct stx__tuner *t);
void stx__tuner_free(struct stx__tuner *t); /* NULL is allowed */

/* Everything a run needs, for one set of dynamic sizes. Used by one thread at a time. */
enum stx__step_kind { STX__STEP_LAUNCH, STX__STEP_COPY, STX__STEP_EXTERN };
struct stx__step {
	enum stx__step_kind kind;
	uint32_t kernel;                      /* number in the plan; STX_PLAN_NONE: none */
	stx_kernel_fn *fn;                    /* CPU */
	int64_t n, grain;                     /* CPU */
	uint32_t grid[3], block[3];           /* GPU */
	uint32_t code;                        /* GPU: number of its code (cuda.h) */
	uint32_t nparams;                     /* of the kernel: the first of frame.buffers */
	uint32_t from, to;                    /* COPY: values */
	uint32_t covers;                      /* EXTERN: steps after it that do the same; or 0 */
	const struct stx_plan_step *plan;     /* of LAUNCH and EXTERN */
	const struct stx__external *external; /* EXTERN: what is called */
	void *call; /* EXTERN: what the call keeps for this context; NULL: nothing yet */
	struct stx_kernel_frame frame; /* buffers: of all arguments */
	size_t scratch_bytes;          /* CPU: of each call; frame.scratch is set by the thread */
};
struct stx__value {
	int64_t *sizes, *strides; /* [rank], in the context's dims */
	int64_t bytes, offset;    /* storage; TEMP: workspace offset in bytes, ALIAS: in elements */
	void *ptr;
};
struct stx__patch { /* buffer `slot` follows value `value`, whose address changes */
	uint32_t slot, value;
};
struct stx__moved { /* an input, for a run */
	uint32_t input;
	void *at;
	size_t bytes;
};
struct stx__context {
	struct stx_arena *arena;
	int bound;
	uint32_t epoch; /* GPU: of the choices its steps are bound to */
	int64_t *syms;
	int64_t *exprs;
	uint8_t *expr_ok;
	int64_t *dims;
	struct stx__value *values;
	void **buffers;
	int64_t *scalars;
	void **packed; /* [npacked] for steps' frames: where a run's prepared operands are */
	struct stx__step *steps;
	uint32_t nsteps;
	struct stx__patch *fixed, *moving; /* temporaries and constants; inputs and outputs */
	uint32_t nfixed, nmoving;
	size_t workspace_bytes;
	void *workspace; /* own memory, NULL until needed */
	size_t own_bytes;
	void *patched_for; /* workspace the fixed buffers point into */
	/* aside.c: of steps that calls stand for, beyond the workspace */
	uint8_t *is_aside; /* [nvalues]; NULL: there are none */
	size_t aside_bytes, aside_own_bytes;
	void *aside, *aside_foreign; /* own memory; the run's */
	int is_aside_taken;          /* for this run */
	struct stx_bounds_record bounds;
	struct stx__moved *moved; /* [nmoved] of room for all inputs, or NULL: realign.c */
	uint32_t nmoved;
	struct stx__gpu_context *gpu;   /* cuda.h; NULL: not bound to a device yet */
	struct stx__overlaps *overlaps; /* overlap.c; NULL: no input is written */
	int no_overlap;                 /* in the last run, nor in one at the same addresses */
};

/* The bytes from a tensor's lowest element to the end of its highest; none: both 0. Requires that
 * address() of run.c lets it pass. */
struct stx__bytes {
	uintptr_t lo, hi; /* [lo, hi) */
};
struct stx__bytes stx__bytes_of(const struct stx_tensor *t); /* overlap.c */

/* aside.c: which values a new context, whose steps are there, has aside; 0: out of memory. Then
 * what of the workspace that is, with values that are bound. For a run, until stx__aside_end:
 * memory for them, from env or the context's own. */
int stx__aside_new(const struct stax_artifact *a, struct stx__context *x);
void stx__aside_bind(const struct stax_artifact *a, struct stx__context *x);
stx_err stx__aside_take(const struct stax_artifact *a, struct stx__context *x,
			const struct stx_env *env, struct stx_diag *d);
void stx__aside_end(struct stx__context *x, const struct stx_env *env);
void stx__aside_free(struct stx__context *x); /* its own */

/* realign.c: 1 where a kernel cannot take an argument from where it lies. */
int stx__is_astray(const struct stax_artifact *a, const struct stx_tensor *t);
/* Moves input i for this run, until stx__realign_end: after the steps, or (with what went wrong as e)
 * instead of them. Copies are ordered with them on the stream. */
stx_err stx__realign(const struct stax_artifact *a, struct stx__context *x, uint32_t i,
		     const struct stx_tensor *t, const struct stx_env *env, struct stx_diag *d);
stx_err stx__realign_end(const struct stax_artifact *a, struct stx__context *x,
			 const struct stx_tensor *inputs, const struct stx_env *env, stx_err e,
			 struct stx_diag *d);

/* overlap.c, only where a->nmutated: room for it in a new context; then, with arguments that have
 * been checked otherwise, MISMATCH when an input that is written shares memory with another
 * argument. */
stx_err stx__overlaps_new(const struct stax_artifact *a, struct stx__context *x);
stx_err stx__overlaps_check(const struct stax_artifact *a, struct stx__context *x,
			    const struct stx_tensor *inputs, const struct stx_tensor *outputs,
			    struct stx_diag *d);

/* prepare.c */
struct stax_prepared {
	const struct stax_artifact *artifact;
	void **packed;      /* [npacked], in memory */
	void **origin;      /* [ninputs] element 0 of each parameter; NULL: it is none */
	void *memory;       /* NULL: nothing is packed */
	size_t bytes;       /* of it */
	struct stx_env env; /* its allocate and release, when they made it */
};
/* run.c: inputs that are parameters are checked, and x->values has their addresses; the others are
 * of the right type, and have none. Binds x. */
stx_err stx__bind_params(const struct stax_artifact *a, struct stx__context *x,
			 const struct stx_tensor *inputs, int ninputs, struct stx_diag *d);
/* A CPU step's function over its points. */
stx_err stx__launch(const struct stx__step *s, const struct stx_env *env, struct stx_diag *d);

struct stx__context *stx__context_new(const struct stax_artifact *a); /* NULL: out of memory */
void stx__context_free(const struct stax_artifact *a, struct stx__context *x);
struct stx__context *stx__context_take(const struct stax_artifact *a); /* a spare or a new one */
void stx__context_put(const struct stax_artifact *a, struct stx__context *x);
/* Evaluates everything for x->syms: guards, sizes, offsets, grids; checks that each value lies
 * within its storage and the workspace. MISMATCH for a guard, CORRUPT for a plan that contradicts
 * itself. */
stx_err stx__context_bind(const struct stax_artifact *a, struct stx__context *x,
			  struct stx_diag *d);

/* scratch.c: at least `bytes` (not 0) of memory, aligned to 64 bytes, for this thread until its next
 * call; NULL: out of memory. Owned by the thread. */
void *stx__scratch(size_t bytes);

/* cuda_code.c: finds the cubins in a->elf. */
stx_err stx__gpu_new(struct stax_artifact *a, struct stx_diag *d);
void stx__gpu_code_free(struct stax_artifact *a);

/* ---- external calls (externals.c): code that is not the artifact's, by name ---- */

/* A way to make a call, and its name, which stays the same from process to process. */
struct stx__way {
	char name[STX_CONFIG_BYTES];
	uint64_t algorithm[8]; /* the library's */
	int is_kernel;         /* the step's kernel, or those of the steps it covers, instead */
};
struct stx__ways {
	struct stx_digest call; /* what timings of it are known by */
	char what[96];          /* the call for people: a word */
	uint32_t n;
	struct stx__way at[STX_TIMINGS_MAX];
};
struct stx__library;
struct stx__external {
	const char *name;
	uint8_t on_cuda; /* offered to artifacts for a GPU; else to those for a CPU */
	const struct stx__library *library; /* that makes it (calls.h); NULL: none */
	/* When the sizes of x are known: CORRUPT when the plan asks for what cannot be. NULL:
	 * nothing to check. */
	stx_err (*bind)(const struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
			struct stx_diag *d);
	/* Makes the call. UNSUPPORTED: it cannot be made here; then the step's kernel is launched
	 * when there is one. */
	stx_err (*run)(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
		       const struct stx_env *env, struct stx_diag *d);
	/* Before the sizes or the device of x change, and before it is freed: drops s->call. NULL:
	 * it keeps nothing. */
	void (*release)(struct stax_artifact *a, struct stx__step *s);
	/* For whoever measures, when a run of x has come to the step: the ways to make the call, the
	 * one that is taken as long as nothing is known first, the step's kernel last. most: of
	 * them, for a sweep; 0: those worth measuring. UNSUPPORTED: the call cannot be made here.
	 * NULL: there is one way. */
	stx_err (*ways)(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
			uint32_t most, struct stx__ways *out, struct stx_diag *d);
	/* Makes the call in that way, which is not the kernel, with these arguments. */
	stx_err (*run_way)(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
			   const struct stx__way *way, void *const *buffers,
			   const struct stx_env *env, struct stx_diag *d);
	/* What timings of the call are known by, at the sizes of x, wherever its operands will lie;
	 * their number. */
	uint32_t (*digests)(const struct stax_artifact *a, const struct stx__context *x,
			    const struct stx__step *s, struct stx_digest out[2]);
};
/* NULL: this client offers no such call. */
const struct stx__external *stx__external_find(const char *name, int on_cuda);
/* Drops what the calls of x keep. */
void stx__externals_release(const struct stax_artifact *a, struct stx__context *x);
/* The n attributes of the step's call, at the sizes of x; 0: it has others, or one overflows. */
int stx__external_attrs(const struct stax_artifact *a, const struct stx__context *x,
			const struct stx__step *s, uint32_t n, int64_t *out);
/* Of its argument number arg, which there is: the value; its type. */
uint32_t stx__external_value(const struct stax_artifact *a, const struct stx__step *s, int64_t arg);
uint8_t stx__external_type(const struct stax_artifact *a, const struct stx__step *s, int64_t arg);
/* Every element of that view of the argument lies within its value; in elements, whatever they
 * are. */
int stx__external_fits(const struct stax_artifact *a, const struct stx__context *x,
		       const struct stx__step *s, int64_t arg, int64_t offset, int rank,
		       const int64_t *sizes, const int64_t *strides);
/* Memory that the step's call, which has some, may work in: bytes from 256-aligned memory on. */
size_t stx__external_workspace(const struct stax_artifact *a, const struct stx__context *x,
			       const struct stx__step *s);
void *stx__external_workspace_at(const struct stx__step *s);
/* The step's kernel as it is launched now, or those of the steps that it covers. */
void stx__way_of_kernel(const struct stax_artifact *a, const struct stx__step *s,
			struct stx__way *w);
/* interpret.c */
stx_err stx__interpret(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
		       const struct stx_env *env, struct stx_diag *d);

/* Strided copy of elements of 1, 2, 4 or 8 bytes; pointers to element [0,...,0]; strides in
 * elements. */
void stx__client_copy(void *dst, const int64_t *dst_strides, const void *src,
		      const int64_t *src_strides, const int64_t *sizes, int rank, int elem_bytes);

#endif
