/* fold.h
 * evaluates one node whose tensor arguments are all constants: constant folding at import and in
 * simplify. */
#ifndef STX_FOLD_H
#define STX_FOLD_H

#include "graph.h"

#define STX_FOLD_MAX_ELEMS 65536

/* Computes result 0 of n exactly as the compiled code would (stx_prim_eval), into memory of the
 * graph's arena. Returns 1 with *data set, or 0 when n is not foldable: an argument is not a
 * constant, the operator is not in the table (elementary functions, contractions, float sums), or
 * it is larger than STX_FOLD_MAX_ELEMS. Never fails otherwise; class BIT. */
int stx_fold_node(struct stx_graph *g, const struct stx_node *n, struct stx_const_data *data);

#endif
