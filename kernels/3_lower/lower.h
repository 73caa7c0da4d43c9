/* lower.h
 * state of one lowering, and what the rule files and the driver give each other.
 *
 * Rules take the graph node and return its inner function, or NULL with L->err (and the diag) set.
 * They allocate no buffers, except those whose definition is a reduction (seed 000 6.2). */
#ifndef STX_LOWER_H
#define STX_LOWER_H

#include "inner.h"
#include "loops.h"

struct stx__value {                     /* of one graph node */
	struct stx__inner *fn, *second; /* its results; one but for reductions of two values */
	uint8_t used;                   /* bit i: result i has a use */
	uint32_t uses; /* distinct pointwise users, occurrences in others, outputs */
	uint8_t is_output;
	uint8_t is_live; /* an output or an effect depends on it; others are not lowered (DF-09) */
	uint8_t is_realized;   /* fn loads a whole buffer written for this node */
	uint8_t wanted;        /* some user certainly needs it realised (LO-28) */
	uint8_t is_multiplied; /* such a user is no convolution */
	uint32_t mark;         /* of the last origin walk */
	uint8_t is_reduced;    /* a reduction reads it, perhaps through pointwise nodes and views */
	struct stx_val base;   /* this value is a reshape of base's; no node: of its own */
	struct stx_val written_with; /* of an input: what it holds after the run; no node: itself */
};

struct stx__lower {
	struct stx_graph *g;
	struct stx_exprs *ex;
	struct stx_arena *arena;
	struct stx_loops *loops;
	const struct stx_lower_options *opts;
	struct stx__value *vals; /* [g->nodes.n], by node id */
	struct stx_diag *d;
	stx_err err;   /* first error */
	uint32_t walk; /* number of the current origin walk */
};

typedef struct stx__inner *stx__rule_fn(struct stx__lower *l, const struct stx_node *n);
/* rules_*.c, one for each category; pointwise also covers composites of primitives. */
stx__rule_fn stx__rule_pointwise, stx__rule_create, stx__rule_reduce, stx__rule_view,
	stx__rule_indirect, stx__rule_piecewise, stx__rule_contract, stx__rule_scatter,
	stx__rule_window, stx__rule_order, stx__rule_running, stx__rule_random;
/* rules_window.c: the operands are in memory. */
/* What fn is in a narrower type of which it has every value; NULL: it is no such conversion. */
struct stx__inner *stx__widened(const struct stx__inner *fn);
/* 1: fn is memory read in a wider type; on the CPU also less a zero point. A contraction reads it as
 * it is: hardware and libraries multiply narrow types in wider arithmetic, and CPU code packs them
 * narrow or widens what it packs. */
int stx__is_widened_load(const struct stx__lower *l, const struct stx__inner *fn);
/* Of an i32 value: the narrowest integer type that has all it can be, i32 where none is known. */
enum stx_dtype stx__narrowest(const struct stx__inner *fn);
enum stx_monoid stx__dot_monoid(const struct stx__lower *l, enum stx_dtype t);
struct stx__inner *stx__lower_convolution(struct stx__lower *l, const struct stx_node *n,
					  struct stx__inner *x, struct stx__inner *wt);
/* 1 when op has a rule. */
int stx__pointwise_has_rule(enum stx_op op);
int stx__view_has_rule(enum stx_op op);
int stx__reduce_has_rule(enum stx_op op);
int stx__scatter_has_rule(enum stx_op op);
int stx__scan_has_rule(enum stx_op op);
int stx__reduce_is_pair(enum stx_op op); /* has two results */
int stx__scan_is_pair(enum stx_op op);

/* Records the error (INVALID, UNSUPPORTED, ...) at node n; returns NULL. */
struct stx__inner *stx__lower_fail(struct stx__lower *l, stx_err e, const struct stx_node *n,
				   const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Argument i as a value's inner function. */
struct stx__inner *stx__arg(struct stx__lower *l, const struct stx_node *n, uint32_t i);
struct stx__inner *stx__value_of(const struct stx__lower *l, struct stx_val v);
struct stx__shape stx__node_shape(const struct stx_node *n);
/* A Python dimension wrapped into [0, rank); arguments are verified, so only negatives need care.
 */
uint32_t stx__dim(int64_t dim, uint32_t rank);
/* Constant value of an integer argument; 0 and an error when it is symbolic. */
int stx__const_arg(struct stx__lower *l, const struct stx_node *n, stx_ex e, int64_t *v);
/* A scalar argument converted to dtype t as NUMERICS.md converts values. */
union stx_scalar stx__scalar(const struct stx_arg *a, enum stx_dtype t);

/* ---- realize.c ---- */
/* Why v's node, which contractions need in memory, is put there: its layout may be free. */
enum stx_realized stx__wanted_reason(const struct stx__lower *l, const struct stx__value *v);
/* Writes the node's value to a buffer of its own; its inner function becomes a load of it. reason:
 * see realized.def. */
stx_err stx__realize_node(struct stx__lower *l, const struct stx_node *n, enum stx_realized reason);
/* The rule of seed 6.6 that realises n's value when it is produced, or NONE. */
enum stx_realized stx__realize_reason(const struct stx__lower *l, const struct stx_node *n);
void stx__count_uses(struct stx__lower *l);
/* A reduction over rranges, its operands already over variables 0..nranges-1 and then the reduction
 * axes. Result: load of the new buffer, dtype t, in shape s (the ranges). */
struct stx__reduction {
	enum stx_monoid monoid;
	uint8_t state; /* which value of the accumulator is the result */
	enum stx_dtype acc, dtype;
	struct stx__shape ranges, rranges;
	const stx_ex *strides;    /* of the result in memory, over the ranges; NULL: row-major */
	struct stx__inner *fn[2]; /* index space = ranges then rranges */
};
struct stx__inner *stx__realize_reduction(struct stx__lower *l, const struct stx_node *n,
					  const struct stx__reduction *r, enum stx_realized reason);
struct stx__scan {
	struct stx__reduction r; /* of one axis; the result has the shape of the node */
	stx_ex at[STX_MAX_DIMS]; /* its dimensions over ranges, then that axis */
};
struct stx__inner *stx__realize_scan(struct stx__lower *l, const struct stx_node *n,
				     const struct stx__scan *s);
/* Writes into the memory of n's argument 0, over a space whose last axis numbers the updates of one
 * element in their order; the other axes are independent. */
struct stx__update {
	struct stx_buffer *base; /* that argument's, read by nothing else; NULL: a copy is made */
	enum stx_dtype dtype;
	enum stx_monoid monoid;
	uint8_t overwrite;    /* instead of combining */
	uint8_t is_unordered; /* no element is updated twice: all axes are independent */
	uint8_t nindices;
	struct stx__shape space;
	struct stx__inner *value, *index[STX_MAX_DIMS]; /* over the space; indices are i64 */
	struct stx__index how[STX_MAX_DIMS];
	stx_ex at[STX_MAX_DIMS]; /* position along each dimension no index chooses */
};
/* Result: load of the updated memory. */
struct stx__inner *stx__realize_update(struct stx__lower *l, const struct stx_node *n,
				       const struct stx__update *u);
/* 1 when `address` over shape s reaches all of b's storage, in any order: as many elements, and the
 * address b's own definition has over its sizes. */
int stx__whole_storage(const struct stx__lower *l, const struct stx_buffer *b, struct stx__shape s,
		       stx_ex address);
/* A buffer of its own whose writing checks that n's condition, one element, is true. */
stx_err stx__realize_assertion(struct stx__lower *l, const struct stx_node *n);
/* fn, some value behind n, in memory: a load. */
struct stx__inner *stx__realize_value(struct stx__lower *l, const struct stx_node *n,
				      struct stx__inner *fn, enum stx_realized reason);
/* The stable ascending order along the last of key's two dimensions; key is u32 or u64. */
struct stx__inner *stx__realize_sort(struct stx__lower *l, const struct stx_node *n,
				     struct stx__inner *key);
/* fn as a buffer of its own: kind, and why. NULL: an error in l. */
struct stx_buffer *stx__pointwise_buffer(struct stx__lower *l, struct stx__inner *fn,
					 const struct stx_node *n, enum stx_buffer_kind kind,
					 enum stx_realized reason);
/* The value of an output as a buffer of its own, row-major (B21). */
stx_err stx__realize_output(struct stx__lower *l, const struct stx_output *o, uint32_t index);

/* ---- writes.c ---- */
/* Outputs that inputs hold after the run are the last thing a run writes, so that everything that
 * reads an input reads what the caller put there. begin: before the other outputs; an input that
 * was updated in place is the result. realize: after them, outputs first..; values that read a
 * written input are put aside before the first input is written. */
stx_err stx__begin_writes(struct stx__lower *l);
stx_err stx__realize_writes(struct stx__lower *l, uint32_t first);
struct stx_buffer *stx__new_buffer(struct stx__lower *l, enum stx_buffer_kind kind,
				   const char *name, enum stx_dtype t, struct stx__shape s);

/* ---- reuse.c ---- */
/* After the outputs: updates in place of memory that has no later reader need no copy of it. */
stx_err stx__drop_copies(struct stx__lower *l);

/* ---- body.c ---- */
/* Plays fn at variables 0..rank-1 of its index space into b's body, appending one result. */
stx_err stx__body_play(struct stx_graph *g, const struct stx__inner *const *fns, uint32_t nfns,
		       struct stx_body *out, struct stx_diag *d);

/* Result 0 is the value; at[k]: index number k as an index expression of the body. */
stx_err stx__body_play_update(struct stx_graph *g, const struct stx__update *u,
			      struct stx_body *out, stx_ex *at, struct stx_diag *d);

/* ---- layout.c ---- */
/* Chooses the strides of a flexible buffer from the reads of its body (LV-11) and sets store. */
void stx__layout_settle(struct stx_exprs *x, struct stx_arena *a, struct stx_buffer *b);

/* ---- range.c: intervals of integer values in a body (Definition 6.4) ---- */
struct stx_interval stx__range_const(enum stx_dtype t, union stx_scalar k);
struct stx_interval stx__range_prim(enum stx_prim op, enum stx_dtype t, enum stx_dtype src,
				    struct stx_interval a, struct stx_interval b,
				    struct stx_interval c);

#endif
