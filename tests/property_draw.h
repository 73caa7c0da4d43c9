/* property_draw.h
 * inside the drawing of random cases: its state, and what the categories of operators draw with. */
#ifndef STX_TESTS_PROPERTY_DRAW_H
#define STX_TESTS_PROPERTY_DRAW_H

#include "graph.h"
#include "property_case.h"

#define MAX_ELEMS  20000 /* of one tensor, in all but a few graphs */
#define MAX_VALUES 160

struct draw {
	uint64_t rng;
	struct prop_case *c;
	struct stx_graph *g;
	struct stx_node *at[MAX_VALUES]; /* candidates for operands */
	uint8_t used[MAX_VALUES];
	uint32_t n;
	int64_t dims[4];    /* sizes that shapes are made of */
	int64_t most_elems; /* of one tensor */
	int whole;          /* small whole numbers and operators that keep them: sums are exact */
	int wild;           /* indices need not be within their bounds */
	const struct prop_cell *want; /* what the first operand of the call must be; NULL: free */
	int given;                    /* it has been drawn */
	int constants;                /* small inputs of this call are constants: folding */
};

static inline uint32_t rnd(struct draw *q, uint32_t n)
{
	uint64_t z = q->rng += 0x9e3779b97f4a7c15u; /* splitmix64 */
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	z ^= z >> 31;
	return (uint32_t)((z >> 32) * n >> 32);
}
#define PICK(q, array) ((array)[rnd((q), sizeof(array) / sizeof *(array))])

static inline int64_t const_size(const struct draw *q, stx_ex e)
{
	int64_t v = 0;
	stx_ex_is_const(q->g->ex, e, &v);
	return v;
}

static inline int64_t size_of(const struct draw *q, const struct stx_node *n, uint32_t dim)
{
	return const_size(q, n->outs[0].sizes[dim]);
}

static inline uint32_t rank_of(const struct stx_node *n)
{
	return n->outs[0].rank;
}

static inline int64_t numel(const struct draw *q, const struct stx_node *n)
{
	int64_t v = 1;
	for (uint32_t i = 0; i < rank_of(n); i++)
		v *= size_of(q, n, i);
	return v;
}

static inline struct stx_node *call(struct draw *q, enum stx_op op, uint32_t nargs,
				    const struct stx_arg *args)
{
	return stx_graph_call(q->g, op, NULL, args, nargs, NULL);
}

#define ARGS(...)                                                                                  \
	(sizeof((struct stx_arg[]){ __VA_ARGS__ }) / sizeof(struct stx_arg)), (struct stx_arg[])   \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define T(n) stx_arg_node(n)
#define I(v) stx_arg_int(q->g, (v))

/* property_draw.c: values and operands. A node is NULL when none could be made. */
uint64_t draw_bits(struct draw *q);
enum stx_dtype draw_dtype(struct draw *q);
enum stx_dtype draw_float_dtype(struct draw *q);
/* The dtype of the wanted first operand, or t. */
enum stx_dtype draw_wanted_dtype(const struct draw *q, enum stx_dtype t);
/* A new input; bound > 0: whole numbers in [low, bound). */
struct stx_node *draw_input(struct draw *q, enum stx_dtype t, const int64_t *sizes, int rank,
			    int64_t low, int64_t bound);
/* Any value: unused ones and late ones more often; one of a floating-point type; one that
 * broadcasts with a. */
struct stx_node *draw_any(struct draw *q);
struct stx_node *draw_float(struct draw *q);
struct stx_node *draw_partner(struct draw *q, const struct stx_node *a);
/* n as type t. */
struct stx_node *draw_as(struct draw *q, struct stx_node *n, enum stx_dtype t);
struct stx_arg draw_scalar(struct draw *q, enum stx_dtype t);
/* One attempt at a call of this cell. */
struct stx_node *draw_cell(struct draw *q, struct prop_cell cell);
/* One of the sizes that shapes are made of. */
int64_t draw_size(struct draw *q);

/* property_layout.c: the operand a call is about. */
struct stx_node *draw_self(struct draw *q);
/* The same of a floating-point type unless another one is wanted. */
struct stx_node *draw_self_float(struct draw *q);
/* The wanted operand when it has not been drawn yet, with these sizes; else NULL. */
struct stx_node *draw_self_sized(struct draw *q, const int64_t *sizes, int rank);

/* property_coverage.c */
int prop_has_layout(const struct prop_case *c, struct stx_val v, enum prop_layout l);

/* property_draw_ops.c: one call of op on random operands and arguments. */
struct stx_node *draw_call(struct draw *q, enum stx_op op);
/* A tensor of dtype t and these sizes: the wanted operand, a value at hand, or a new input. */
struct stx_node *draw_sized(struct draw *q, enum stx_dtype t, const int64_t *sizes, int rank);
/* An index in [low, bound): an input, or a computed value brought into range. */
struct stx_node *draw_index_into(struct draw *q, int64_t bound, const int64_t *sizes, int rank,
				 int negative);
/* Some of the dimensions of a tensor of this rank. */
struct stx_arg draw_some_dims(struct draw *q, uint32_t rank, int required);
/* property_draw_views.c */
struct stx_node *draw_view(struct draw *q, enum stx_op op);
/* property_draw_attention.c */
struct stx_node *draw_attention(struct draw *q);
/* property_draw_scatter.c */
struct stx_node *draw_scatter(struct draw *q, enum stx_op op);
/* A dimension of a tensor of this rank, from the front or the end. */
struct stx_arg draw_dim(struct draw *q, uint32_t rank);

/* property_draw_windows.c: convolution, pooling, unfold, scans; any other operator by its schema.
 */
struct stx_node *draw_window(struct draw *q, enum stx_op op);
struct stx_node *draw_scan(struct draw *q, enum stx_op op);
/* property_draw_resample.c: padding by own elements, resampling, adaptive pools, gradients. */
int draw_is_resampling(enum stx_op op);
struct stx_node *draw_resampling(struct draw *q, enum stx_op op);
struct stx_node *draw_by_schema(struct draw *q, enum stx_op op);

#endif
