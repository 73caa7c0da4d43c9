/* build.h
 * from one group of buffers to one kernel: shared by kernel_axes.c, kernel_values.c, kernel_build.c and
 * schedule.c only.
 *
 * A group is an optional reduction phase (buffers with equal ranges and equal reduction ranges) followed by
 * pointwise buffers over the same ranges; a buffer may read an earlier one of its group at its own point. */
#ifndef STX_BUILD_H
#define STX_BUILD_H

#include "kernel_impl.h"
#include "schedule.h"

#define STX__MAX_DIMS 48 /* axes of one body, reduction axes included */
#define STX__MAX_ROWS 8  /* copies of a body for register blocking */

struct stx__group_def {
	const struct stx_buffer *const *buffers; /* definition order: reductions first */
	uint32_t n;
	const uint8_t *is_stored;                /* [n] 0: only read inside the group */
	const char *name;
	int target_gpu;
};

/* Something that is addressed while the kernel runs. */
struct stx__access {
	stx_ex ex;
	uint8_t is_load, is_store, bytes;
};

/* Axes of the kernel and where the body's variables went. */
struct stx__axes {
	struct stx_axis axis[STX__MAX_DIMS];
	uint32_t naxes;
	uint32_t nest[STX__MAX_DIMS]; /* axis numbers of the loops, outermost first */
	uint32_t nnest, nout;         /* the first nout (0 or 1) are output loops, the others reductions */
	uint32_t rows;                /* copies of the body, each a row of the output; 1: no blocking */
	stx_ex map[STX__MAX_ROWS][STX__MAX_DIMS]; /* body variable -> expression over kernel axes */
	uint8_t lanes;                /* the vector loop is a reduction axis */
	uint8_t index_bits;
	stx_ex grid;
	int64_t point_elems;          /* iterations of the innermost loop a grid point, at the hints */
};

struct stx__build {
	const struct stx_loops *l;
	struct stx_exprs *ex;
	struct stx_arena *arena;
	const struct stx__group_def *def;
	const struct stx_buffer *space; /* first buffer: its ranges, and its rranges when a reduction */
	uint32_t nout_dims, nred_dims;  /* of the space */
	STX_VEC(struct stx__access) accesses;
	uint64_t nops;                  /* operations of all bodies, counted as in the realisation rules */
	struct stx__axes axes;
	struct stx_diag *d;
};

/* Number of a point of the reduction ranges, row-major over rranges: the position of an arg reduction. */
stx_ex stx__position(struct stx_exprs *x, const struct stx_buffer *b);
static inline int64_t stx__sat_mul(int64_t a, int64_t b)
{
	int64_t r;
	return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}
/* Position in the group of the buffer, or -1. */
int stx__in_group(const struct stx__group_def *def, uint32_t buffer);

/* kernel_axes.c. requires: accesses collected. ensures: axes filled; results depend on shapes and layouts
 * only. Terminates: one pass over axes for each of ordering, merging, choosing. */
stx_err stx__choose_axes(struct stx__build *b);

/* ---- kernel_values.c: numbered pure values placed at the outermost level where they can stand ---- */
#define STX__POST 255 /* region after the reduction loops; others: number of open loops of the nest */

struct stx__temp {
	struct stx_kinst i; /* operands are temps */
	uint8_t region;
	uint8_t live;
	uint32_t final;     /* instruction number */
};

struct stx__values {
	struct stx__build *b;
	struct stx_kernel *k;
	STX_VEC(struct stx__temp) temps;
	STX_VEC(struct stx_kinst) updates, stores; /* operands are temps */
	STX_VEC(uint32_t) accs;                    /* temps */
	uint32_t *slots;
	uint32_t nslots;
	stx_ex *indirects; /* by temp, while finishing: atom of the final number */
	int post; /* 1 once the reduction phase is over */
	int oom;
};

stx_err stx__values_init(struct stx__values *v, struct stx__build *b, struct stx_kernel *k);
/* Each gives a temp. prim widens narrow floats and expands elementary functions; unused operands NONE. */
uint32_t stx__value_const(struct stx__values *v, enum stx_dtype t, union stx_scalar k);
uint32_t stx__value_index(struct stx__values *v, enum stx_dtype t, stx_ex e);
uint32_t stx__value_load(struct stx__values *v, enum stx_dtype t, uint32_t param, stx_ex e, uint32_t mask);
uint32_t stx__value_indirect(struct stx__values *v, const struct stx_binst *i, uint32_t a, uint32_t mask,
                             stx_ex bound);
uint32_t stx__value_prim(struct stx__values *v, enum stx_prim op, enum stx_dtype t, uint32_t a, uint32_t b,
                         uint32_t c);
uint32_t stx__value_cast(struct stx__values *v, enum stx_dtype t, uint32_t a);
/* ACC and RESULT are never merged. */
uint32_t stx__value_marker(struct stx__values *v, struct stx_kinst i);
/* Index atom standing for the indirect temp. */
stx_ex stx__indirect_atom(struct stx__values *v, uint32_t temp);
/* Drops dead values and writes the instruction list of v->k. */
stx_err stx__values_finish(struct stx__values *v);

/* kernel_build.c */
stx_err stx__kernel_build(const struct stx_loops *l, const struct stx__group_def *def,
                          struct stx_kernel **out, struct stx_diag *d);
/* 1 when a kernel of this reduction alone would run along the reduction axis: then what follows it in the
 * kernel is scalar code. */
int stx__runs_in_lanes(const struct stx_loops *l, const struct stx_buffer *reduction);

#endif
