/* build.h
 * from one group of buffers to one kernel.
 *
 * A group without reductions is pointwise buffers over the same ranges. One with reductions has
 * rows (their common ranges) and columns (their common reduction ranges): it holds reductions,
 * row-level pointwise buffers over the rows and full-level ones over rows and columns. On a GPU it may
 * hold sums down the columns, too: first layers (loops.h, is_by_rows) whose segments are the kernel's
 * grid points, their rows a loop around all phases. A buffer may
 * read an earlier one of its group at its own point. Phase k of a row runs over the columns once:
 * the reductions of that phase, and what they read of the full level; row values of phase k are
 * computed before it and after the reductions of phase k-1. The last phase, p->n, has no
 * reductions, and a loop only for full-level results. A full-level value that several phases need
 * is computed in each: the same bits; or, when that is expensive, kept from one phase to the next
 * where a result of the latter will be stored. */
#ifndef STX_BUILD_H
#define STX_BUILD_H

#include <string.h>

#include "kernel_impl.h"
#include "sat.h"
#include "schedule.h"

#define STX__MAX_DIMS   48 /* axes of one body, reduction axes included */
#define STX__MAX_ROWS   8  /* copies of a body for register blocking */
#define STX__MAX_GROUP  32
#define STX__MAX_PHASES 8
#define STX__ROW                                                                                   \
	0xfe /* for a variable of the first buffer: the row that segment and row of it make */

struct stx__member {            /* a buffer of a group */
	uint8_t is_full, phase; /* row level: phase before whose loop it is computed; reductions: of
				   its loop */
	uint8_t is_same;        /* its variables are those of the first buffer */
	uint8_t is_columns;     /* it sums down the columns, in the loop of its phase */
	uint32_t needs; /* full level: bits of the phases that need it; the lowest stores it */
	uint8_t keeper; /* 1 + position of the buffer whose place keeps it for the second phase; or
			   0 */
	uint8_t canon
		[STX__MAX_DIMS]; /* variable -> variable of the first buffer, or STX__ROW; 0xff:
					 of size 1 */
	uint8_t has_parts; /* some variables are parts of one: where div[v] is not 0, variable v is
			      canon[v] / div[v], mod its range */
	int64_t div[STX__MAX_DIMS];
};
struct stx__phases {
	uint32_t n;         /* phases with reductions */
	uint8_t final_loop; /* phase n has full-level results, or sums down columns */
	uint8_t columns;    /* 1 + position of the first sum down the columns; 0: there is none */
	struct stx__member at[STX__MAX_GROUP];
};

/* The product that gives the scores of an ATTEND buffer (attend.c): its variables over those of its
 * reader. No product: they are in memory. */
struct stx__scores {
	const struct stx_buffer *product;
	const stx_ex *at; /* [nranges of the product] */
};
/* at[i]: variable i of s, where element e of s is its value: e is taken apart by the strides of
 * what s stores, the greatest first. 1: and put together again it is e. */
int stx__find_point(struct stx_exprs *x, const struct stx_buffer *s, stx_ex e, stx_ex *at);
/* (*out)[i]: of buffer i, [buffers.n]. */
stx_err stx__find_scores(const struct stx_loops *l, struct stx__scores **out);

struct stx__group_def {
	const struct stx_buffer *const *buffers; /* definition order: reductions first */
	uint32_t n;
	const uint8_t *is_stored; /* [n] 0: only read inside the group */
	const char *name;
	const struct stx__scores *scores; /* of its ATTEND buffers, or NULL */
	int target_gpu;
	int fast;                         /* nothing is rounded to f16 or bf16 but at stores */
	const struct stx_cpu_target *cpu; /* as of stx_schedule_options */
	const struct stx_choices *blockings;
};

/* phases.c. Values of one scan, which share a kernel. */
int stx__same_scan(const struct stx_buffer *p, const struct stx_buffer *q);
/* 1: p is filled; 0: *why (may be NULL) says why the buffers are not one kernel.
 * is_stored: [n]. */
int stx__phases_find(const struct stx_loops *l, const struct stx_buffer *const *buffers, uint32_t n,
		     const uint8_t *is_stored, struct stx__phases *p, const char **why);
/* e over b's variables as an expression over those of head, the first buffer of its group. */
stx_ex stx__canonical(struct stx_exprs *x, const struct stx__member *m, const struct stx_buffer *b,
		      const struct stx_buffer *head, stx_ex e);

/* Something that is addressed while the kernel runs. */
struct stx__access {
	stx_ex ex; /* over the variables of the first buffer */
	uint8_t is_load, is_store, bytes, dtype;
	uint8_t is_bound; /* an index that is compared with constants, and nothing else: its
			     variable plus a constant */
	uint8_t is_again; /* a load that is one of the last before it too: made once */
	uint32_t buffer;  /* of a load */
	uint8_t is_lead;  /* of the buffer that decides the order of axes: the first reduction, or
			    all */
	uint8_t is_full;
};

/* Axes of the kernel and where the body's variables went. */
struct stx__axes {
	struct stx_axis axis[STX__MAX_DIMS];
	uint32_t naxes;
	uint32_t nest[STX__MAX_DIMS]; /* axis numbers of the loops, outermost first */
	uint32_t nnest,
		nout;  /* the first nout (2 at most) are output loops, the others reductions */
	uint32_t rows; /* copies of the body, each a row of the output; 1: no blocking */
	stx_ex map[STX__MAX_ROWS][STX__MAX_DIMS]; /* body variable -> expression over kernel axes */
	/* Of a variable of an is_bound index that was merged: the one it is part of, and how many of
	 * that one's iterations are one of its own; STX_EX_BAD: it was not merged. */
	uint32_t bound_in[STX__MAX_DIMS];
	stx_ex bound_by[STX__MAX_DIMS];
	uint8_t joined; /* several variables are one axis: addresses are put together again */
	uint8_t lanes;  /* the vector loop is a reduction axis; GPU: the reduction runs along lanes
			*/
	uint8_t is_tiled;                      /* a product in tiles (kernel_axes_tile.c) */
	const struct stx_cut_product *product; /* of such a kernel */
	uint8_t scans;   /* a running value is stored in the loop of its reduction */
	uint8_t attends; /* the reductions are over keys, then over the terms of a score: the score
			    is complete after the inner loop, in the outer one */
	stx_ex term;     /* of them: where the product's reduction variable went */
	stx_ex segment, segment_row; /* of rows whose columns are summed; the row in it */
	uint8_t index_bits;
	stx_ex grid;
	int64_t point_elems; /* iterations of the innermost loop a grid point, at the hints */
};

struct stx__build {
	const struct stx_loops *l;
	struct stx_exprs *ex;
	struct stx_arena *arena;
	const struct stx__group_def *def;
	const struct stx_buffer
		*space; /* first buffer: its ranges, and its rranges when a reduction */
	uint32_t nout_dims, nred_dims; /* of the space */
	STX_VEC(struct stx__access) accesses;
	uint64_t nops;      /* operations of all bodies, counted as in the realisation rules */
	uint64_t lead_nops; /* of those that decide the order of axes */
	struct stx__phases phases;
	struct stx__axes axes;
	struct stx_diag *d;
};

/* Number of a point of the reduction ranges, row-major over rranges: the position of an arg
 * reduction. */
stx_ex stx__position(struct stx_exprs *x, const struct stx_buffer *b);
/* e is a variable plus a constant, and which. */
int stx__var_plus(struct stx_exprs *x, stx_ex e, uint32_t *var, int64_t *plus);
/* The same list of expressions: of one context, so equal ones have equal ids. */
static inline int stx__same_exs(const stx_ex *p, uint32_t np, const stx_ex *q, uint32_t nq)
{
	return np == nq && (!np || !memcmp(p, q, np * sizeof *p));
}
/* Position in the group of the buffer, or -1. */
int stx__in_group(const struct stx__group_def *def, uint32_t buffer);
/* The parameter that is the buffer, or STX_NONE. */
uint32_t stx__find_param(const struct stx_kernel *k, uint32_t buffer);
stx_err stx__build_oom(struct stx__build *b);

/* kernel_axes.c. requires: accesses collected. ensures: axes filled; results depend on shapes and
 * layouts only. Terminates: one pass over axes for each of ordering, merging, choosing. */
stx_err stx__choose_axes(struct stx__build *b);
/* kernel_axes_tile.c: e with x // d and x % d joined to x where a sum has both. Ends: each step
 * leaves fewer terms. */
stx_ex stx__axes_join(struct stx_exprs *x, stx_ex e);

/* ---- kernel_values.c: numbered pure values, each at the outermost level where it can stand ---- */

/* Regions in order of execution: 0 .. nout, the number of open output loops; then for each phase k
 * its row region, before its loops (that of phase 0 is nout), and one for each of its loops. */
#define STX__REGIONS 256

struct stx__temp {
	struct stx_kinst i; /* operands are temps */
	uint8_t region;
	uint8_t live;
	uint32_t final; /* instruction number */
};

struct stx__effect {
	struct stx_kinst i;
	uint32_t phase; /* in its innermost loop; STX_NONE: at the end of the grid point */
};

struct stx__values {
	struct stx__build *b;
	struct stx_kernel *k;
	STX_VEC(struct stx__temp) temps;
	STX_VEC(struct stx__effect) effects; /* updates and stores: operands are temps */
	uint32_t *slots;
	uint32_t nslots;
	stx_ex *indirects; /* by temp, while finishing: atom of the final number */
	uint32_t phase;    /* being built: what is added goes to its regions */
	int oom;           /* no more values: out of memory or */
	int too_long;      /* over STX_KERNEL_MAX_INSTS */
};

stx_err stx__values_init(struct stx__values *v, struct stx__build *b, struct stx_kernel *k);
/* Each gives a temp. prim widens narrow floats and expands elementary functions; unused operands
 * NONE. */
uint32_t stx__value_const(struct stx__values *v, enum stx_dtype t, union stx_scalar k);
uint32_t stx__value_index(struct stx__values *v, enum stx_dtype t, stx_ex e);
uint32_t stx__value_load(struct stx__values *v, enum stx_dtype t, uint32_t param, stx_ex e,
			 uint32_t mask);
/* Never merged, and in the innermost loop: of memory the kernel writes there. */
uint32_t stx__value_reload(struct stx__values *v, enum stx_dtype t, uint32_t param, stx_ex e);
uint32_t stx__value_indirect(struct stx__values *v, const struct stx_binst *i, uint32_t a,
			     uint32_t mask, stx_ex bound);
uint32_t stx__value_prim(struct stx__values *v, enum stx_prim op, enum stx_dtype t, uint32_t a,
			 uint32_t b, uint32_t c);
uint32_t stx__value_cast(struct stx__values *v, enum stx_dtype t, uint32_t a);
/* ACC and RESULT are never merged. */
uint32_t stx__value_marker(struct stx__values *v, struct stx_kinst i);
/* ACC and RESULT of the scores of an attention. */
uint32_t stx__value_scores(struct stx__values *v, struct stx_kinst i);
/* What stands after the update of a score, or of a scan. */
uint32_t stx__value_after(struct stx__values *v, struct stx_kinst i);
/* ACC and RESULT of sums down columns: around all rows, and, once these are played, after them. */
uint32_t stx__value_columns(struct stx__values *v, struct stx_kinst i);
/* Index atom standing for the indirect temp. */
stx_ex stx__indirect_atom(struct stx__values *v, uint32_t temp);
/* What v->oom means, as an error. */
stx_err stx__values_fail(const struct stx__values *v);
/* Drops dead values and writes the instruction list of v->k. */
stx_err stx__values_finish(struct stx__values *v);

/* kernel_play.c. Chooses, in b->phases, which values are kept from one phase to the next. */
void stx__choose_keepers(struct stx__build *b);
/* Fills the instructions of k. */
stx_err stx__play(struct stx__build *b, struct stx_kernel *k);

/* pieces.c: the vector loop of a pointwise kernel for the CPU as several. */
stx_err stx__kernel_pieces(struct stx__build *b, struct stx_kernel *k);

/* kernel_build.c */
stx_err stx__kernel_build(const struct stx_loops *l, const struct stx__group_def *def,
			  struct stx_kernel **out, struct stx_diag *d);
/* kernel_sort.c. By SORT buffer: how many of the first elements of its rows are read, where these are
 * few; else 0. One pass over the program. */
stx_err stx__sort_reads(const struct stx_loops *l, int64_t **out);
/* The kernel of a SORT buffer of which so many are wanted; 0: all. */
stx_err stx__kernel_sort(const struct stx_loops *l, const struct stx_buffer *b, int64_t first,
			 int target_gpu, struct stx_kernel **out, struct stx_diag *d);
/* kernel_build.c: the size symbols a kernel mentions become its scalars. */
stx_err stx__collect_scalars(struct stx_kernel *k, struct stx_diag *d);
/* How the reductions of a kernel run through their ranges: what their results' bits depend on. */
struct stx__red_order {
	uint8_t lanes;   /* along a vector axis: then row values are scalar code */
	uint8_t narrow;  /* full-level stores are not contiguous along the vector axis */
	uint8_t gathers; /* some full-level load is neither that nor the same for all lanes */
	uint32_t nloops, nvars;
	stx_ex size[STX__MAX_DIMS],
		map[STX__MAX_DIMS]; /* of the loops; of the reduction variables */
};
/* Of the group; 0 when it cannot be built. scratch: zeroed before its first use, then reused. */
int stx__red_order(struct stx__build *scratch, const struct stx_loops *l,
		   const struct stx__group_def *def, struct stx__red_order *out);

#endif
