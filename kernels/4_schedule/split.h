/* split.h
 * cutting one long reduction into segments that run side by side, and their merging.
 *
 * A reduction with few results becomes two layers (conformance RD-25): the first gives a partial
 * result for every segment, the second combines them. On the CPU a segment is an aligned run of 2^k
 * of the chunks in which the reduction would be summed alone (kernel.h), so that the merged result
 * has the same bits as the uncut one: whether it is cut depends on shapes only, and changes nothing
 * but the time. On a GPU Algorithm 6.1 gives the number of segments, and
 * for reductions across memory a rule of its kind. Scans, products of matrices
 * and arg reductions are not cut (RD-15). */
#ifndef STX_SPLIT_H
#define STX_SPLIT_H

#include "schedule.h"

/* Segments of each of n reductions over n_r elements along the innermost axis; 1: not cut. */
int64_t stx__split_factor(int64_t n, int64_t n_r, const struct stx_device *d);
/* The same where lanes run across the reductions, which lie side by side in memory. */
int64_t stx__split_factor_across(int64_t n, int64_t n_r, const struct stx_device *d);
/* The same where a kernel that works along the n_r rows, of n elements each, sums down their columns on
 * its way: a segment is the rows that a block has one after the other. 1: too short or too long. */
int64_t stx__split_factor_rows(int64_t n, int64_t n_r, const struct stx_device *d);

/* Cuts the reductions of l that deserve it: buffers get new numbers, all references with them.
 * requires: stx_loops_verify, bodies in order. ensures: stx_loops_verify; every cut reduction's
 * first layer stands before it. Twice is the same as once. */
stx_err stx__split(struct stx_loops *l, const struct stx_schedule_options *o, struct stx_diag *d);

#endif
