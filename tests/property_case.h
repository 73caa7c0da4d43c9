/* property_case.h
 * one case of the property tests: a graph with the data of its inputs. Drawn at random over the
 * whole op table, compared with the oracle node by node where sums round, made smaller while it
 * fails. */
#ifndef STX_TESTS_PROPERTY_CASE_H
#define STX_TESTS_PROPERTY_CASE_H

#include "graph.h"
#include "stax_abi.h"

#define PROP_MAX_INPUTS  48
#define PROP_MAX_OUTPUTS 96

struct prop_case {
	struct stx_arena *arena; /* of the graph and the data; owned by the caller */
	struct stx_graph *g;
	struct stx_tensor
		inputs[PROP_MAX_INPUTS]; /* in graph order, strides as the graph has them */
};

/* A verified random graph of up to 25 calls with the data of its inputs. Equal seeds give equal
 * cases. */
struct prop_case *prop_draw(struct stx_arena *a, uint64_t seed);

/* ---- comparing (property_cut.c) ---- */

/* 1 when the node's floating-point result depends on an order of summation. */
/* 1 for sorts: the operators of category SCAN that are drawn. */
int prop_is_sort(enum stx_op op);
/* 1 for distances, normalisations that give their statistics, and their gradients: bounds and
 * operands that only tests/conformance/test_operators.c has. */
int prop_is_norm(enum stx_op op);
int prop_inexact(const struct stx_node *n);
/* 1 when the graph has a product of floating-point matrices. */
int prop_has_product(const struct stx_graph *g);

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

/* 1 when every sum and product in the graph is exact in any order: small whole numbers. */
int prop_order_free(const struct stx_graph *g, const struct stx_tensor *inputs);

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

/* Copies call or constant n of `from` into `to`, its operands replaced by map[their node's id].
 * NULL when it does not fit. */
struct stx_node *prop_copy_node(struct stx_graph *to, const struct stx_graph *from,
				const struct stx_node *n, const struct stx_val *map,
				struct stx_diag *d);
struct stx_type prop_copy_type(struct stx_graph *to, const struct stx_graph *from,
			       const struct stx_type *t);

#endif
