/* schedule_impl.h
 * shared by schedule.c, fuse.c, memory.c and report.c (and their tests) only. */
#ifndef STX_SCHEDULE_IMPL_H
#define STX_SCHEDULE_IMPL_H

#include "build.h"

/* ---- body_order.c ---- */

stx_err stx__order_body(struct stx_loops *l, struct stx_body *b);

/* ---- fuse.c ---- */

struct stx__products;
/* Buffers to groups, in launch order; each of the products alone; scores (attend.c; NULL: none) with
 * their reader. group_of: [buffers.n], STX_NONE
 * for buffers no kernel computes (inputs, constants, results without elements). */
stx_err stx__fuse(struct stx_schedule *s, const struct stx_schedule_options *o,
		  const struct stx__products *products, const struct stx__scores *scores,
		  uint32_t *group_of, struct stx_diag *d);
/* 1 when load `in` of a body over b's ranges reads p exactly at the point that p's definition
 * stores. */
int stx__reads_at_point(const struct stx_binst *in, const struct stx_buffer *p);

/* ---- steps.c ---- */

/* The steps of a schedule whose groups are there: each group's kernel, or its external call
 * (external_of: [groups.n], STX_NONE for none), then the copies of outputs. Groups that a call stands
 * for (covered_by: [groups.n], the call or STX_NONE) wait for the last of them, and follow the call.
 * Time n. */
stx_err stx__add_steps(struct stx_schedule *s, const uint32_t *external_of,
		       const uint32_t *covered_by);

/* ---- memory.c ---- */

struct stx__mem_item {
	uint64_t bytes;       /* rounded up to 64; 0 takes no place */
	uint32_t first, last; /* steps; items come in order of first */
	uint32_t
		in_place; /* item whose place it may take when that one ends at `first`; STX_NONE */
	uint64_t offset;  /* result */
	uint8_t took_place; /* result: in_place was used */
	uint8_t reused;     /* result: lies in memory that was there */
};

/* Greedy, best fit within size classes; offsets are multiples of 64. ensures: items alive at the
 * same step never overlap, but for one that took the place of an item ending at its first step.
 * Time n + steps. */
stx_err stx__memory_place(struct stx_arena *a, struct stx__mem_item *items, uint32_t n,
			  uint32_t nsteps, uint64_t *total);
/* Slots of a schedule whose groups and kernels are there. */
stx_err stx__memory_plan(struct stx_schedule *s, struct stx_diag *d);

/* The program's buffers are now's, and its outputs have their new numbers: number[old]. */
static inline void stx__take_buffers(struct stx_loops *l, const struct stx_loops *now,
				     const uint32_t *number)
{
	for (uint32_t i = 0; i < l->outputs.n; i++)
		l->outputs.at[i] = number[l->outputs.at[i]];
	l->buffers.at = now->buffers.at;
	l->buffers.n = now->buffers.n;
	l->buffers.cap = now->buffers.cap;
}

/* ---- report.c ---- */

/* A value of n elements, each `ops` operations on `in_bytes` of inputs, `bytes` wide, with `users`
 * users, on a machine of so many operations and bytes a second. */
struct stx__cost {
	double n, ops, in_bytes, bytes, users, ops_per_s, bytes_per_s;
};
/* Seconds that realising the value saves over inlining it into each user (seed 000 6.6; RZ-02). */
double stx__realize_gain(const struct stx__cost *c);

/* Fills what schedule.h calls the compile report. needed: [buffers.n] buffer is in memory. */
stx_err stx__report(struct stx_schedule *s, const uint8_t *needed, struct stx_diag *d);

#endif
