/* property_case.h
 * one case of the property tests: a graph with the data of its inputs. Drawn at random over the
 * whole op table, compared with the oracle node by node where sums round, made smaller while it
 * fails. */
#ifndef STX_TESTS_PROPERTY_CASE_H
#define STX_TESTS_PROPERTY_CASE_H

#include "graph.h"
#include "stax_abi.h"

#define PROP_MAX_INPUTS  96
#define PROP_MAX_OUTPUTS 96

struct prop_case {
	struct stx_arena *arena; /* of the graph and the data; owned by the caller */
	struct stx_graph *g;
	struct stx_tensor
		inputs[PROP_MAX_INPUTS]; /* in graph order, strides as the graph has them */
};

/* How an operand lies in memory or where it comes from. The last three are counted beside the
 * others. */
enum prop_layout {
	PROP_DENSE,
	PROP_TRANSPOSED,
	PROP_SLICED,   /* gaps between elements, an offset */
	PROP_EXPANDED, /* stride 0 */
	PROP_OVERLAP,  /* elements share memory at strides above 0 */
	PROP_VIEW,     /* result of a view operator */
	PROP_COMPUTED,
	PROP_EMPTY, /* a size is 0 */
	PROP_ONE,   /* a size is 1 */
	PROP_BROADCAST,
	PROP_LAYOUTS
};
/* One cell of what must be covered: op's first operand has this dtype and this layout. */
struct prop_cell {
	enum stx_op op;
	enum stx_dtype dtype;
	enum prop_layout layout;
};

/* A verified random graph with the data of its inputs. Most of its calls are what
 * prop_planned_cell() says for this seed, the rest is free. Equal seeds give equal cases. */
struct prop_case *prop_draw(struct stx_arena *a, uint64_t seed);
/* 1 when indices of this seed's graph may be out of bounds: it counts for no cell. */
int prop_is_wild(uint64_t seed);

/* ---- coverage (property_coverage.c) ---- */

/* The operand that decides a call's cell; node NULL when it has none (then it is the result). */
struct stx_val prop_cell_operand(const struct stx_node *n);
enum prop_layout prop_layout_of(const struct prop_case *c, struct stx_val v);
/* Whether the operator's type rule takes operands of dtype t, and whether some call with an operand
 * of this layout exists: the rules are asked, with random calls. */
int prop_takes_dtype(enum stx_op op, enum stx_dtype t);
int prop_takes_layout(enum stx_op op, enum prop_layout l);
/* Call number i of the plan: every operator with every dtype in turn, each time with the next
 * layout; and how many calls of it a graph has, so that PROP_ENOUGH graphs cover every cell. */
struct prop_cell prop_planned_cell(uint64_t i);
uint32_t prop_planned_calls(void);
#define PROP_ENOUGH  2000
#define PROP_PLANNED (PROP_ENOUGH * 48 / 60) /* of them; the others are drawn freely */

struct prop_counts {
	uint32_t graphs, calls;
	uint32_t dtypes[STX_OP_COUNT][STX_DTYPE_COUNT]; /* of the operand, else of the result */
	uint32_t layouts[STX_OP_COUNT][PROP_LAYOUTS];   /* of all operands */
};
void prop_count(struct prop_counts *counts, const struct prop_case *c);
/* One line an operator: dtypes | layouts. */
void prop_print_counts(const struct prop_counts *counts);
/* Cells that occur fewer than `least` times; prints the first of them. */
uint32_t prop_missing(const struct prop_counts *counts, uint32_t least);

/* 1 for operators whose operands only fit by construction, or with several inexact results: they
 * are not drawn; tests/conformance/test_operators.c has them. */
int prop_is_apart(enum stx_op op);

/* ---- comparing (property_cut.c) ---- */

/* By node id: an output depends on it. And the same for the operands of one node. */
uint8_t *prop_live(struct stx_arena *a, const struct stx_graph *g);
void prop_mark_operands(const struct stx_node *n, uint8_t *live);
/* The case without dead nodes; all inputs stay. */
struct prop_case *prop_compact(struct stx_arena *a, const struct prop_case *c);

/* A graph whose outputs are those of g, then each inexact node's value; and the oracle's view of
 * it: every user of an inexact node reads an additional input instead, and each inexact output has
 * a tolerance. */
struct prop_cut {
	struct stx_arena *arena;
	struct stx_graph *run; /* to compile: outputs of g, then the inexact values */
	struct stx_graph
		*oracle; /* inputs of g, then the inexact values; outputs as run, then tolerances */
	uint32_t nouts;  /* of run */
	uint32_t ninexact;
	uint32_t tolerance[PROP_MAX_OUTPUTS]; /* of output i: output number in oracle, or 0 for
						 exact */
	double relative[PROP_MAX_OUTPUTS];    /* added: this times the wanted value */
};
stx_err prop_cut(struct stx_arena *a, const struct stx_graph *g, struct prop_cut *out,
		 struct stx_diag *d);

/* ---- bounds (property_bound.c) ---- */

/* 1 when the node's floating-point result depends on an order of summation. */
int prop_inexact(const struct stx_node *n);
/* Adds the absolute tolerance of inexact node n to its graph; *relative, times the wanted value, is
 * added. -infinite: not compared; below 0: only where both are finite, by its absolute value. */
struct stx_node *prop_tolerance(struct stx_graph *g, const struct stx_node *n, double *relative);
/* property_bound_window.c: the same for windows of other kinds (f64; u: unit roundoff computed
 * with). */
int prop_window_inexact(const struct stx_node *n);
struct stx_node *prop_window_tolerance(struct stx_graph *g, const struct stx_node *n, double u);
/* 1 when the graph has a product of floating-point matrices. */
int prop_has_product(const struct stx_graph *g);
/* 1 when every sum and product in the graph is exact in any order: small whole numbers. */
int prop_order_free(const struct stx_graph *g, const struct stx_tensor *inputs);

/* ---- property_compare.c ---- */

/* A float format: unit roundoff, largest number, smallest one above 0. */
struct prop_limits {
	double roundoff, largest, smallest;
	int no_infinity; /* overflow is NaN */
};
struct prop_limits prop_limits(enum stx_dtype t);

/* Compares outputs of one run of cut->run with the oracle. 0, or -1 with the first difference in
 * why. */
int prop_compare(const struct prop_cut *cut, const struct stx_tensor *inputs,
		 const struct stx_tensor *got, char *why, size_t cap);
/* Bitwise, NaN equal to NaN, over outputs [0, n). 0, or -1 with the first difference in why. */
int prop_same(const struct stx_tensor *a, const struct stx_tensor *b, uint32_t n, char *why,
	      size_t cap);

/* ---- shrinking (property_shrink.c) ---- */

/* 1 while the case still fails in the same way. */
typedef int prop_fails_fn(void *ctx, const struct prop_case *c);
/* A smaller failing case in a, or c itself. At most `tries` calls of fails. */
const struct prop_case *prop_shrink(struct stx_arena *a, const struct prop_case *c,
				    prop_fails_fn *fails, void *ctx, int tries);
/* The case as text: the graph, then each input's layout and its first elements. */
void prop_print(const struct prop_case *c, struct stx_bytes *out);

/* ---- dynamic sizes (property_symbolic.c) ---- */

/* The case with one size, wherever inputs have it, made a symbol: nodes that need it to be a
 * constant become inputs that hold the oracle's values. fixed: the same graph without the symbol,
 * with the data of both. NULL when no size can be a symbol. */
struct prop_case *prop_symbolic(struct stx_arena *a, const struct prop_case *c, uint64_t seed,
				struct prop_case **fixed);
/* The oracle's values of all call nodes, dense, by node id; data NULL where unknown. */
struct stx_tensor *prop_values(struct stx_arena *a, const struct prop_case *c);

/* Where a value stands in the maps between graphs. */
#define PROP_MAX_OUTS 8 /* results of one node */
static inline uint32_t prop_at(struct stx_val v)
{
	return v.node->id * PROP_MAX_OUTS + v.out;
}
/* A map of the values of g, all unset. */
struct stx_val *prop_map_new(struct stx_arena *a, const struct stx_graph *g);
/* Maps all results of n to those of m. */
void prop_map_node(struct stx_val *map, const struct stx_node *n, struct stx_node *m);
/* Copies call or constant n of `from` into `to`, its operands replaced by map[prop_at(operand)].
 * NULL when it does not fit. */
struct stx_node *prop_copy_node(struct stx_graph *to, const struct stx_graph *from,
				const struct stx_node *n, const struct stx_val *map,
				struct stx_diag *d);
struct stx_type prop_copy_type(struct stx_graph *to, const struct stx_graph *from,
			       const struct stx_type *t);

#endif
