/* graph_gen.h
 * graphs for tests: from text, at random over the whole op table, and copied in another order. */
#ifndef STX_TESTS_GRAPH_GEN_H
#define STX_TESTS_GRAPH_GEN_H

#include "graph.h"

/* Graph of a text, which must parse and verify: prints the diagnostic and aborts otherwise. */
struct stx_graph *gen_parse(struct stx_arena *a, const char *text);
/* Printed form in the arena. */
const char *gen_print(struct stx_arena *a, const struct stx_graph *g);
/* Printed form of the canonical graph, in the arena; aborts on errors. */
const char *gen_canonical(struct stx_arena *a, const struct stx_graph *g);
/* Parses, expecting an error: its text, location first ("2:5: ..."). NULL when it parses and
 * verifies. */
const char *gen_error(struct stx_arena *a, const char *text);

uint64_t gen_next(uint64_t *seed); /* xorshift; the seed must not be 0 */

/* A verified graph of up to ncalls calls of random operators on random arguments; at least one
 * output. */
struct stx_graph *gen_random(struct stx_arena *a, uint64_t *seed, int ncalls);
/* The same with symbolic sizes among those of the inputs. */
struct stx_graph *gen_random_dynamic(struct stx_arena *a, uint64_t *seed, int ncalls);
/* A graph of one call of op on random arguments, or NULL when none of many tries is valid. */
struct stx_graph *gen_call(struct stx_arena *a, uint64_t *seed, enum stx_op op);
/* The same program: nodes in another topological order, other names, defaults left out where equal.
 */
struct stx_graph *gen_shuffled(struct stx_arena *a, const struct stx_graph *g, uint64_t *seed);

#endif
