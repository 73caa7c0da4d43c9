/* emit_cuda.h
 * state of one kernel's translation to CUDA C, shared by emit_cuda*.c only.
 *
 * A kernel is a sequence of regions: straight-line code of the rows, and the bodies of the loops
 * over the reduction. A thread has several elements of a region: its rows, times the iterations of
 * the reduction it takes at once. A region is emitted stage by stage, each stage one unrolled loop
 * over the elements: what is loaded, what is computed of it, what is loaded with an index that was
 * computed, and so on, the stores last. So all loads of a stage are in flight together. Values that
 * another stage reads are arrays over the elements, others are locals of their loop.
 *
 * A thread whose elements take many operations each computes rather than waits for memory: it takes
 * them in rounds, each of the form above, so that the code is that of few elements.
 *
 * Elements that are consecutive in memory and in the configuration's runs (gpu_config.h) are loaded
 * and stored a run at a time, in a loop of their own. */
#ifndef STX_EMIT_CUDA_H
#define STX_EMIT_CUDA_H

#include "gpu.h"

#define STX__LAST_STAGE 0xffffu /* of a region: its stores */

enum stx__level { STX__CONSTANT, STX__BLOCK, STX__ROW, STX__ELEMENT };

struct stx__value_info {
	uint32_t same;  /* the instruction whose value this is: itself, or an equal one of an
			   earlier loop that is still in registers */
	uint32_t stage; /* of its region: 0, 1, ... or STX__LAST_STAGE */
	uint32_t next;  /* instruction of that stage, or STX_NONE */
	uint8_t level;
	uint8_t is_array; /* read in another stage than its own */
	uint8_t wide;     /* 0, or 1 + the axis along whose runs it is accessed */
	uint8_t is_same;  /* wide: one element for all of a run */
	uint8_t is_low;   /* of 64 bits, unsigned: its high half is 0 */
	uint8_t is_taken; /* rare: a select takes it */
	uint32_t rare; /* 0, or 1 + the RARELY but for which nobody needs it (emit_cuda_rare.c) */
	uint32_t rare_next; /* value of that RARELY, or STX_NONE */
};

struct stx__region {
	uint32_t begin, end;   /* instructions */
	uint8_t in_rows;       /* inside the loop over rows */
	uint8_t opens, closes; /* it is the first there, the last */
	uint32_t loop;         /* its LOOP instruction, or STX_NONE */
	uint32_t nstages;      /* beside the last */
	uint32_t *first;       /* instruction of each stage, or STX_NONE; the last at [nstages] */
};

struct stx__cuda {
	const struct stx_kernel *k;
	const struct stx_gpu_config *c; /* of a round */
	uint32_t rounds;                /* of the block, one after another, each of c->x points */
	struct stx_bytes *out;
	struct stx_diag *d;
	stx_err err;
	struct stx_arena *arena;
	struct stx__value_info *info;
	STX_VEC(struct stx__region) regions;
	uint32_t *table, table_mask; /* values of loops that later loops may take: number + 1 */
	uint32_t ngrid;              /* grid axes */
	uint32_t raxis;              /* reduction axis, or STX_NONE */
	uint32_t saxis;      /* of a loop over rows (kernel.h: a row of states), or STX_NONE */
	uint32_t nx, ny, nz; /* threads along each grid axis */
	uint32_t rows;       /* grid points a thread has */
	uint32_t iters;      /* iterations of the reduction a thread has at once */
	uint8_t wide;        /* indices have 64 bits */
	uint8_t has_runs;    /* some instruction is wide */
	uint8_t has_ends;    /* a block may end within a run: `full` tells */
	uint8_t met;         /* the blocks of the cluster are known to run */
	uint32_t needs;      /* STX__NEED_* */
	struct stx_bytes *functions; /* device functions of the kernel's own */
	struct stx__rare *rare;      /* by RARELY; NULL: there is none */
	uint32_t *rare_seen;         /* by value: scratch of emit_cuda_rare.c */
	uint32_t in_rare;            /* 1 + the RARELY whose function is emitted, or 0 */
	struct stx_bytes *after;     /* of accumulators that finish together: what their one barrier
					comes before */
	uint8_t ahead;               /* what is emitted is about the rows after those at hand */
	/* while emitting a region */
	const struct stx__region *region;
};

/* Parts of the prelude that a kernel uses. */
enum {
	STX__NEED_MINMAX = 1,
	STX__NEED_DIVIDE = 2,
	STX__NEED_SHIFT = 4,
	STX__NEED_F16 = 8,
	STX__NEED_F8 = 16,
	STX__NEED_ODD = 32,
	STX__NEED_TO_INT = 64,
	STX__NEED_INDEX = 128,
	STX__NEED_BOUNDS = 256,
	STX__NEED_ARG = 512,
	STX__NEED_WELFORD = 1024,
	STX__NEED_STICKY = 2048,
	STX__NEED_SORT = 4096,
	STX__NEED_SOFTMAX32 = 8192,
	STX__NEED_SOFTMAX64 = 16384,
	STX__NEED_RUNS = 32768,
	STX__NEED_MUL_WIDE = 65536,
	STX__NEED_RCP = 131072,
	STX__NEED_CLUSTER = 262144,
	STX__NEED_AHEAD = 524288
};
void stx__cuda_prelude(uint32_t needs, struct stx_bytes *out); /* emit_cuda_prelude.c */

stx_err stx__cuda_fail(struct stx__cuda *e, stx_err err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
const char *stx__cuda_type(enum stx_dtype t); /* "f32", "u16": of a value and in memory */
/* Value n as the current stage reads it: a literal, a local or an element of an array. */
void stx__cuda_value(struct stx__cuda *e, uint32_t n, struct stx_bytes *out);
void stx__cuda_literal(struct stx__cuda *e, enum stx_dtype t, union stx_scalar v,
		       struct stx_bytes *out);

/* emit_cuda_inst.c: instruction n, where `ok`, a condition, holds; "true": everywhere. */
void stx__cuda_inst(struct stx__cuda *e, uint32_t n, const char *ok);

/* emit_cuda_stage.c: finds the regions and the stage of each value. */
stx_err stx__cuda_stages(struct stx__cuda *e);

/* Which of a, b, c are values. */
unsigned stx__cuda_value_operands(const struct stx_kinst *i);

/* emit_cuda_rare.c */
stx_err stx__cuda_find_rare(struct stx__cuda *e); /* after the stages */
/* Before select n: the call that computes what it, and others, take where a RARELY is true. */
void stx__cuda_rare_call(struct stx__cuda *e, uint32_t n);

/* emit_cuda_runs.c */
uint32_t stx__cuda_run(const struct stx__cuda *e, uint32_t axis); /* elements of its runs */
stx_err stx__cuda_find_runs(struct stx__cuda *e);                 /* after the stages */
void stx__cuda_put_runs(struct stx__cuda *e); /* declares `full`, behind the offsets */
/* Elements of one run in an array of the region are so far apart. */
uint32_t stx__cuda_run_step(const struct stx__cuda *e, uint32_t axis);
void stx__cuda_run_load(struct stx__cuda *e, uint32_t n, const char *ok);
/* Asks for a run that is loaded later; it may come or not. */
void stx__cuda_run_ahead(struct stx__cuda *e, uint32_t n, const char *ok);
void stx__cuda_run_store(struct stx__cuda *e, uint32_t n, const char *ok);

/* emit_cuda_prim.c: the expression of a primitive. */
/* text, a value of type from, converted. */
void stx__cuda_cast(struct stx__cuda *e, enum stx_dtype to, enum stx_dtype from, const char *text,
		    struct stx_bytes *out);
void stx__cuda_prim(struct stx__cuda *e, const struct stx_kinst *i, struct stx_bytes *out);
/* emit_cuda_index.c */
void stx__cuda_index(struct stx__cuda *e, stx_ex ex, struct stx_bytes *out);
/* " && ok3 && ok4" for the run-time indices in ex */
void stx__cuda_index_ok(struct stx__cuda *e, stx_ex ex, struct stx_bytes *out);

/* emit_cuda_reduce.c */
void stx__cuda_acc_open(struct stx__cuda *e, uint32_t acc);
void stx__cuda_acc_update(struct stx__cuda *e, uint32_t n, const char *ok);
/* Before the loop of an accumulator; at the end of each round, and after the last. */
void stx__cuda_chunk_open(struct stx__cuda *e, uint32_t acc);
void stx__cuda_chunk_close(struct stx__cuda *e, uint32_t acc, int last);
/* Device functions of the accumulators that e->needs names; adds what they need themselves. */
void stx__cuda_acc_functions(struct stx__cuda *e, struct stx_bytes *out);
void stx__cuda_acc_finish(struct stx__cuda *e, uint32_t acc);
/* After the loop over rows: the rows of states of threads that had different rows. */
void stx__cuda_rows_finish(struct stx__cuda *e);
/* 1: the accumulator is a row of states: each of a thread's elements has one. */
int stx__cuda_is_row(const struct stx__cuda *e, uint32_t acc);
/* Of all threads that have the row one: the condition under which it stores; "" when they are one.
 * After a loop over rows it is about those that have the columns. */
const char *stx__cuda_first_thread(const struct stx__cuda *e);

#endif
