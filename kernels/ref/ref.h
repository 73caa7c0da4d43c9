/* ref.h
 * the oracle: evaluates a graph directly, one operator after the other, each in its own loops.
 *
 * Shares nothing with the compiler after verify except the elementary-function table. Integers are
 * exact; pointwise floats follow NUMERICS.md operation by operation (each node rounds to its
 * dtype); reductions and contractions accumulate in f64 (f32 inputs) or with compensated sums
 * (f64), then round once. Composites compute in f32 inside (f64 for f64) and round once. Bounds
 * errors are BOUNDS naming node and index. */
#ifndef STX_REF_H
#define STX_REF_H

#include "graph.h"
#include "stax_abi.h"

/* inputs: one a graph input, any strides. outputs: [g->outputs.n], filled with data malloc'd by
 * this call (dense row-major), owned by the caller. Memory in all is limited to budget_bytes (0: 4
 * GiB). */
stx_err stx_ref_evaluate(struct stx_graph *g, const struct stx_tensor *inputs, uint32_t ninputs,
			 struct stx_tensor *outputs, size_t budget_bytes, struct stx_diag *d);
/* The same; fn is called after each node with its results, as long as they live: how the property
 * tests bound errors and shrink a failing graph. */
typedef void stx_ref_visit_fn(void *ctx, const struct stx_node *n,
			      const struct stx_tensor *results);
stx_err stx_ref_evaluate_visit(struct stx_graph *g, const struct stx_tensor *inputs,
			       uint32_t ninputs, struct stx_tensor *outputs, size_t budget_bytes,
			       stx_ref_visit_fn *fn, void *ctx, struct stx_diag *d);

/* Error bound for comparing a compiled result with the oracle (RD-12): see compare.c. */
struct stx_compare {
	double rtol, atol; /* floats; integers and bools are always exact, NaN positions equal */
	double max_abs, max_rel;
	int64_t worst; /* flat element index */
	int64_t mismatches;
};
stx_err stx_ref_compare(const struct stx_tensor *got, const struct stx_tensor *want,
			struct stx_compare *c, struct stx_diag *d);
/* RD-12: bound of a sum's error, coefficient * unit roundoff of t * sum of absolute values. The
 * coefficient is n-1 for a running sum, (n/k - 1) + (k - 1) for k segments, ceil(log2 n) for a tree
 * (RD-07..RD-09). */
double stx_ref_sum_bound(enum stx_dtype t, double coefficient, double sum_abs);

#endif
