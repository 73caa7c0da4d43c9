/* graph_gen_impl.h
 * inside the generator of random graphs: what its files share. */
#ifndef STX_TESTS_GRAPH_GEN_IMPL_H
#define STX_TESTS_GRAPH_GEN_IMPL_H

#include "graph_gen.h"

int gen_pick(uint64_t *seed, int n); /* in [0, n) */
enum stx_dtype gen_dtype(uint64_t *seed);
/* A random argument for a parameter; tensors are values of the graph. */
struct stx_arg gen_arg(struct stx_graph *g, const struct stx_param *p, uint64_t *seed);

/* graph_gen_window.c: operators whose operands must fit each other get inputs of their own. NULL:
 * these did not fit. exact: small whole operands give results that no order of sums rounds. */
int gen_is_window(enum stx_op op);
struct stx_node *gen_window(struct stx_graph *g, uint64_t *seed, enum stx_op op, int exact);
/* graph_gen_scatter.c: the same for writes at indices and through views. */
int gen_is_scatter(enum stx_op op);
struct stx_node *gen_scatter(struct stx_graph *g, uint64_t *seed, enum stx_op op);

#endif
