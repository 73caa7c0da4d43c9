/* kernel_eval.h
 * reference evaluation of kernel IR, one scalar at a time, in exactly the order kernel.h fixes.
 * Slow; what emitters and the builder are tested against. */
#ifndef TEST_KERNEL_EVAL_H
#define TEST_KERNEL_EVAL_H

#include "kernel.h"

/* Runs grid points [begin, end). buffers in parameter order, scalars in the kernel's order. Every
 * access is checked against elems[] (elements of each buffer). Returns 0, or -1 with *why set. */
int kernel_eval(const struct stx_kernel *k, void *const *buffers, const int64_t *elems,
		const int64_t *scalars, struct stx_bounds_record *bounds, int64_t begin,
		int64_t end, const char **why);
/* The kernel's grid size for these scalars. */
int64_t kernel_eval_grid(const struct stx_kernel *k, const int64_t *scalars);

#endif
