/* inner.h
 * inner functions: tensors as records {rule, operands, map, sizes} before they are realised.
 *
 * An inner function maps an index (its own variables 0..rank-1, expr.h) to a value. Records are
 * immutable and share operands; composing two copies nothing (LO-07). Counts of operations and
 * reads are those of the function played out as a tree, saturating, so that realise.c can bound
 * every body. Memory: the arena of the graph. Constructors return NULL only when the arena is out
 * of budget. */
#ifndef STX_INNER_H
#define STX_INNER_H

#include "loops.h"

enum stx__inner_rule {
	STX_IN_LOAD,    /* buffer at address ex */
	STX_IN_CONST,   /* k */
	STX_IN_INDEX,   /* value of the index expression ex, exact in dtype */
	STX_IN_MAP,     /* steps over the operands' values at this index */
	STX_IN_VIEW,    /* operand 0 at index map[] */
	STX_IN_PIECES,  /* the first piece whose conditions hold; the last one otherwise */
	STX_IN_INDIRECT /* operand 0 at map[], where indirect atom k stands for the value of operand
			   k+1 */
};

/* One instruction of a MAP: a primitive, or STX_B_CONST with k. Operand references below nops are
 * the record's operands, from nops on earlier steps. The last step is the result. */
struct stx__step {
	uint8_t op, dtype;
	uint16_t a, b, c;
	union stx_scalar k;
};

/* lo <= e < hi over the record's own variables; a bound that is STX_EX_BAD is absent. */
struct stx__cond {
	stx_ex e, lo, hi;
};

struct stx__piece { /* operand number = position; reads of its operand are masked by the conditions
		     */
	const struct stx__cond *conds;
	uint32_t nconds;
};

struct stx__index {    /* of an INDIRECT's index operand */
	stx_ex bound;  /* extent of the indexed dimension */
	uint8_t flags; /* STX_BF_WRAP | STX_BF_CHECK where not proven needless */
	uint8_t dim;   /* the indexed dimension, for the report */
};

#define STX__MANY_BUFFERS 5 /* nbufs saturates here: one more than RZ-07 allows */
#define STX__USED_WORDS   ((STX_B_COUNT + 63) / 64)

struct stx__inner {
	uint8_t rule, dtype, rank;
	uint8_t nbufs;
	uint32_t nops;
	const stx_ex *sizes;                /* [rank] */
	struct stx__inner *const *operands; /* [nops] */
	union {
		struct {
			uint32_t buffer;
			stx_ex ex;
			struct stx_interval range;
		} load; /* of values */
		union stx_scalar k;
		stx_ex ex; /* INDEX */
		struct {
			const struct stx__step *at;
			uint32_t n;
		} steps;
		const stx_ex *map;               /* VIEW: [rank of operand 0] */
		const struct stx__piece *pieces; /* [nops] */
		struct {
			const stx_ex *map;
			const struct stx__index *at;
		} indirect; /* at: [nops-1] */
	} u;
	uint32_t ops, reads,
		bufs[STX__MANY_BUFFERS]; /* saturating counts; distinct buffers, sorted */
	uint32_t elementary; /* elementary functions played, saturating: each becomes dozens of
				instructions */
	uint32_t weight; /* atoms of the heaviest index expression when played, at most; saturating
			  */
	uint32_t nested; /* deepest pieces within pieces, saturating: each is a mask over those
			  * inside
			  */
	uint64_t used[STX__USED_WORDS]; /* operations played */
};

struct stx__shape { /* rank and sizes travelling together */
	uint8_t rank;
	const stx_ex *sizes;
};

struct stx__inner *stx__inner_load(struct stx_graph *g, uint32_t buffer, enum stx_dtype t,
				   struct stx__shape s, stx_ex address);
struct stx__inner *stx__inner_const(struct stx_graph *g, enum stx_dtype t, struct stx__shape s,
				    union stx_scalar k);
struct stx__inner *stx__inner_index(struct stx_graph *g, enum stx_dtype t, struct stx__shape s,
				    stx_ex ex);
/* steps and operands are copied. */
struct stx__inner *stx__inner_map(struct stx_graph *g, struct stx__shape s,
				  struct stx__inner *const *operands, uint32_t nops,
				  const struct stx__step *steps, uint32_t nsteps);
/* x seen through map[rank of x], expressions over the result's own variables. Loads, constants,
 * index values and other views absorb it (LV-03, LV-05, LV-09); an identity gives x itself. map is
 * kept. */
struct stx__inner *stx__inner_view(struct stx_graph *g, struct stx__inner *x, struct stx__shape s,
				   const stx_ex *map);
struct stx__inner *stx__inner_pieces(struct stx_graph *g, enum stx_dtype t, struct stx__shape s,
				     struct stx__inner *const *operands,
				     const struct stx__piece *pieces, uint32_t n);
struct stx__inner *stx__inner_indirect(struct stx_graph *g, struct stx__shape s,
				       struct stx__inner *const *operands, uint32_t nops,
				       const stx_ex *map, const struct stx__index *at);
/* x stretched to s: right-aligned, size-1 dimensions lose their index term (LO-08). */
struct stx__inner *stx__inner_broadcast(struct stx_graph *g, struct stx__inner *x,
					struct stx__shape s);
/* x as dtype t through one CAST, or x itself. */
struct stx__inner *stx__inner_cast(struct stx_graph *g, struct stx__inner *x, enum stx_dtype t);

/* Loop variable d of the given size; the constant 0 for size 1. */
stx_ex stx__axis(struct stx_exprs *x, uint32_t d, stx_ex size);
/* The dtype arithmetic on t happens in: f32 for narrower floats, t otherwise. */
enum stx_dtype stx__work_dtype(enum stx_dtype t);
/* Value range of dtype t when it is an integer that fits 64 signed bits; 0 otherwise. */
int stx__dtype_range(enum stx_dtype t, struct stx_interval *r);
/* Row-major strides of s into out[rank]. */
void stx__row_major(struct stx_exprs *x, struct stx__shape s, stx_ex *out);
/* sum strides[d]*axis(d) + offset. */
stx_ex stx__address(struct stx_exprs *x, struct stx__shape s, const stx_ex *strides, stx_ex offset);
int stx__shape_is_empty(struct stx_exprs *x, struct stx__shape s); /* some size is the constant 0 */

#endif
