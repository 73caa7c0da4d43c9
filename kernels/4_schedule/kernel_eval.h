/* kernel_eval.h
 * reference evaluation of kernel IR, one scalar at a time, in exactly the order kernel.h fixes.
 *
 * Slow; what emitters and the builder are tested against, and one layer of `stax compare`. */
#ifndef STX_KERNEL_EVAL_H
#define STX_KERNEL_EVAL_H

#include "kernel.h"

/* Runs grid points [begin, end); with begin > end those of [end, begin), the last first. buffers in
 * parameter order, scalars in the kernel's order. Every access is checked against elems[] (elements
 * of each buffer): INTERNAL. bounds: the first index out of range, as generated code records it. */
stx_err stx_kernel_evaluate(const struct stx_kernel *k, void *const *buffers, const int64_t *elems,
			    const int64_t *scalars, struct stx_bounds_record *bounds, int64_t begin,
			    int64_t end, struct stx_diag *d);
/* The kernel's grid size for these scalars; -1 when it cannot be computed. */
int64_t stx_kernel_grid_points(const struct stx_kernel *k, const int64_t *scalars);

#endif
