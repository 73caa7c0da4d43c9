/* schedule.h
 * from buffers to an ordered list of kernels and a memory plan. */
#ifndef STX_SCHEDULE_H
#define STX_SCHEDULE_H

#include "kernel.h"
#include "loops.h"

struct stx_group { /* buffers computed by one kernel, in order: reductions, then pointwise (build.h)
		    */
	STX_VEC(uint32_t) buffers;
	const char
		*why_not; /* why its first buffer did not join an earlier group, for the report */
};

struct stx_slot {            /* where a TEMP buffer lives in the workspace (memory.c) */
	stx_ex offset, size; /* bytes; STX_EX_BAD: no slot (not a TEMP, or never in memory) */
	uint64_t offset_bytes, size_bytes; /* the same when static, size rounded up to 64; else 0 */
	uint32_t first_step, last_step;    /* launches between which it is live */
};

struct stx_schedule {
	struct stx_loops *loops;
	STX_VEC(struct stx_group) groups;     /* launch order */
	STX_VEC(struct stx_kernel *) kernels; /* one a group */
	uint32_t *storage; /* [loops->buffers.n] buffer that stands for its memory: itself, the last
			      that updates it in place, or the input that it updates */
	struct stx_slot *slots;               /* [loops->buffers.n]; updates share one */
	uint64_t workspace_bytes;             /* of the slots of static size */
	stx_ex workspace;                     /* bytes of all slots */
	uint64_t bytes_read,
		bytes_written;        /* of all launches, at the size hints: each parameter once */
	uint64_t bytes_min;           /* inputs and constants read once, outputs written once */
	STX_VEC(const char *) report; /* a line a group: what it computes, why it stands alone */
};

struct stx_schedule_options {
	int target_gpu;
	int no_fuse;
};

/* requires: stx_loops_verify. Puts bodies in order (body_order.c). ensures: every kernel passes
 * stx_kernel_verify; launch order respects dependences; no slot is overwritten while live. */
stx_err stx_schedule(struct stx_loops *l, const struct stx_schedule_options *o,
		     struct stx_schedule **out, struct stx_diag *d);

#endif
