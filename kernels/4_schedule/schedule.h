/* schedule.h
 * from buffers to an ordered list of kernels and a memory plan. */
#ifndef STX_SCHEDULE_H
#define STX_SCHEDULE_H

#include "kernel.h"
#include "loops.h"

struct stx_group { /* buffers computed by one kernel, in order: reductions, then pointwise (build.h)
		    */
	STX_VEC(uint32_t) buffers;
	/* The product whose results are the scores of an attention: computed inside, in no memory.
	 * STX_NONE: none. */
	uint32_t scores;
	/* For the report: why its first buffer did not join an earlier group, and which one that
	 * was (STX_NONE: there was none); how many of its buffers stand beside others that they do
	 * not read, for the inputs they share. */
	const char *why_not;
	uint32_t apart_from, nbeside;
};

struct stx_account {                      /* of launches; bytes at the size hints */
	uint64_t launches, reads, writes; /* whole-tensor passes (GF-02) */
	uint64_t bytes_read, bytes_written;
};

struct stx_kernel_account {
	uint64_t bytes_read, bytes_written; /* each parameter once */
	uint64_t ops; /* arithmetic of all points, an elementary function as one; saturating */
};

struct stx_slot {            /* where a TEMP buffer lives in the workspace (memory.c) */
	stx_ex offset, size; /* bytes; STX_EX_BAD: no slot (not a TEMP, or never in memory) */
	uint64_t offset_bytes, size_bytes; /* the same when all are static, rounded up to 64 */
	uint32_t first_step, last_step;    /* steps between which it is live */
	uint8_t reused;   /* lies in memory another buffer had before: the workspace did not grow */
	uint8_t in_place; /* of those: took the place of an operand of its own kernel */
};

/* What a step does with a buffer that it is given. */
struct stx_use {
	uint32_t buffer;
	uint8_t is_read, is_written;
};

/* A call of code that is not ours: libstax knows it by name. Its arguments, its attributes (numbers
 * whose meaning is the call's, over size symbols), memory to work in. When there is a kernel that
 * does the same, its parameters are the arguments, and libstax launches it where it cannot make the
 * call. */
struct stx_external {
	const char *name;
	const struct stx_use *uses; /* [nuses] */
	uint32_t nuses;
	const stx_ex *attrs; /* [nattrs] */
	uint32_t nattrs;
	uint32_t workspace; /* a SCRATCH buffer, the last of the uses; STX_NONE: none */
	uint32_t kernel;    /* STX_NONE: none */
	uint32_t covers;    /* steps after it that do the same together; 0: none */
};

enum stx_sched_kind {
	STX_SCHED_KERNEL,   /* kernel `index` */
	STX_SCHED_EXTERNAL, /* external call `index`, or its kernel */
	STX_SCHED_COPY      /* output `index`, whose buffer is another value, into its own memory */
};
struct stx_sched_step {
	enum stx_sched_kind kind;
	uint32_t index;
};

struct stx_schedule {
	struct stx_loops *loops;
	STX_VEC(struct stx_group) groups;
	STX_VEC(struct stx_kernel *) kernels; /* one a group */
	STX_VEC(struct stx_external) externals;
	STX_VEC(struct stx_sched_step) steps; /* the order in which everything runs */
	uint32_t *storage; /* [loops->buffers.n] buffer that stands for its memory: itself, the last
			      that updates it in place, or the input that it updates */
	struct stx_slot *slots;   /* [loops->buffers.n]; updates share one */
	uint64_t workspace_bytes; /* of the slots of static size */
	stx_ex workspace;         /* bytes of all slots */
	/* The compile report (report.c), as data and as lines. */
	struct stx_account fused;   /* of this schedule */
	struct stx_account unfused; /* one launch an operator of the graph, views for nothing */
	uint64_t bytes_min;         /* inputs and constants read once, outputs written once */
	struct stx_kernel_account *accounts; /* [kernels.n] */
	uint32_t temps, reused, in_place;    /* temporaries in memory; of them, see stx_slot */
	uint64_t temp_bytes; /* of all temporaries of static size, had each its own place */
	STX_VEC(const char *) report;
};

struct stx_device { /* what the number of segments of a long reduction depends on (RD-16) */
	int32_t sms, warp, threads_per_sm;
};
#define STX_DEVICE_DEFAULT                                                                         \
	{                                                                                          \
		132, 32, 2048                                                                      \
	} /* an H100: what a deviceless build assumes */

struct stx_schedule_options {
	int target_gpu;
	int fast; /* the licence of NUMERICS.md: f16 and bf16 are f32 inside a kernel */
	int no_fuse;
	int no_external;                  /* every product a kernel of ours */
	int no_split;                     /* long reductions stay whole: the same bits, for tests */
	const struct stx_device *device;  /* GPU only; NULL: STX_DEVICE_DEFAULT */
	const struct stx_cpu_target *cpu; /* CPU only: what products are cut for; NULL: x86-64-v3 */
	const struct stx_choices *blockings; /* CPU only: of products, measured; NULL: none */
};

/* The buffer that stands for b's memory; a schedule made by hand may have no `storage`. */
static inline uint32_t stx_storage_of(const struct stx_schedule *s, uint32_t b)
{
	return s->storage ? s->storage[b] : b;
}

/* What step number `step` does with its i-th buffer; for i from 0 to stx_step_nuses. */
uint32_t stx_step_nuses(const struct stx_schedule *s, uint32_t step);
struct stx_use stx_step_use(const struct stx_schedule *s, uint32_t step, uint32_t i);
/* How many of the steps after it do the same together. */
uint32_t stx_step_covers(const struct stx_schedule *s, uint32_t step);
/* The kernel that the step launches, or may launch; STX_NONE: none. */
uint32_t stx_step_kernel(const struct stx_schedule *s, uint32_t step);
/* 1: output i is memory of a written input, of which the caller is told. */
static inline int stx_output_is_input(const struct stx_schedule *s, uint32_t i)
{
	const struct stx_buffer *b = s->loops->buffers.at[s->loops->outputs.at[i]];
	return b->kind == STX_BUF_OUTPUT &&
	       s->loops->buffers.at[stx_storage_of(s, b->id)]->kind == STX_BUF_INPUT;
}
/* 1: output i is not its buffer's own place in the call, so a COPY puts it there. */
int stx_output_is_copied(const struct stx_schedule *s, uint32_t i);

/* requires: stx_loops_verify. Puts bodies in order (body_order.c) and cuts long reductions in two
 * layers (split.c), so that buffers get new numbers. ensures: every kernel passes
 * stx_kernel_verify; the order of steps respects dependences; no slot is overwritten while live. */
stx_err stx_schedule(struct stx_loops *l, const struct stx_schedule_options *o,
		     struct stx_schedule **out, struct stx_diag *d);

#endif
