/* jobs.h
 * the jobs of a compile as whoever runs them for a request sees them: staxd with its pool, libstax
 * with a private worker.
 *
 * KEY -> PLAN -> KERNEL for each distinct kernel -> LINK. Here is what each job takes from those
 * before it and what the answer takes from all; sending, waiting and storing are the caller's. */
#ifndef STX_JOBS_H
#define STX_JOBS_H

#include "bytes.h"
#include "hash.h"
#include "stax.pb-c.h"
#include "status.h"

/* ---- stage times, equal names together ---- */

#define STX_STAGES_MAX 48
struct stx_stages {
	struct {
		char name[24];
		uint64_t us;
	} at[STX_STAGES_MAX];
	uint32_t n;
};
/* Adds to the stage of that name, or appends it; beyond STX_STAGES_MAX it is dropped. */
void stx_stages_add(struct stx_stages *t, const char *name, uint64_t us);
void stx_stages_add_all(struct stx_stages *t, Stx__Stage **list, size_t n);
/* Those of a, then those of b (NULL: none), for an answer: one block, freed with free(); names are
 * a's and b's. NULL: out of memory. */
Stx__Stage **stx_stages_list(const struct stx_stages *a, const struct stx_stages *b, size_t *n);

/* ---- bodies ---- */

/* A job of that kind for the request; a KERNEL's config is set by the caller. sizes: room for n,
 * filled with the pieces' lengths; borrowed as long as the job. */
void stx_jobs_fill(Stx__Job *j, Stx__JobKind kind, const Stx__Lookup *what,
		   const struct stx_span *pieces, uint32_t n, uint64_t *sizes);
/* body as n pieces of the lengths given, which must be n and add up (PROTOCOL). */
stx_err stx_jobs_split(struct stx_span body, const uint64_t *sizes, size_t nsizes,
		       struct stx_span *pieces, size_t n, struct stx_diag *d);

/* ---- kernels of a plan ---- */

/* The distinct kernels in order of first use: the order LINK takes their objects in. Kernels with
 * one digest are one. */
struct stx_kernel_ids {
	struct stx_kernel_id {
		struct stx_digest
			id;         /* in a store: IR, configuration, target, numerics, compiler */
		uint32_t piece;     /* of the plan's reply: its IR (piece 0 is the plan) */
		const char *config; /* GPU: its configuration, in the plan's reply; else NULL */
	} * at;
	uint32_t n;
	uint32_t *of; /* [kernels of the plan] -> number in at */
};
/* PROTOCOL: a kernel without a digest. Freed by stx_kernel_ids_free, after a failure too. */
stx_err stx_jobs_kernels(const Stx__JobReply *plan, const Stx__Lookup *what,
			 const struct stx_digest *fingerprint, struct stx_kernel_ids *out,
			 struct stx_diag *d);
void stx_kernel_ids_free(struct stx_kernel_ids *k);

/* What emission found out about a kernel. */
struct stx_emitted {
	uint32_t block[3], registers, spills, shared_bytes;
};
/* Of a KERNEL job's reply; zero when it does not say. */
struct stx_emitted stx_jobs_emitted(const Stx__JobReply *kernel);
/* Into the kernel's row of the plan. reused: its object came from a store. */
void stx_jobs_set_emitted(Stx__Kernel *k, const struct stx_emitted *e, int reused);

/* ---- answer ---- */

/* What the answer takes from the plan's reply; borrowed. */
void stx_jobs_answer(Stx__Answer *a, const Stx__JobReply *plan);

#endif
