/* split_rule.c: into how many segments a reduction is cut on a GPU (seed 000 6.5, Algorithm 6.1;
 * conformance RD-14 to RD-24).
 *
 * Pure arithmetic over shapes and the device, so that the order of a sum is a function of both and
 * of nothing else. Constant time: at most 100 divisors are tried. */
#include "gpu_config.h"
#include "sat.h"
#include "split.h"

#define FEW_ELEMENTS     8192 /* RD-18: a reduction of so many is one segment */
#define MOST_ELEMENTS    512  /* e_max: of one thread */
#define THREADS_IN_WARPS 8    /* m = 8 w threads a block */
#define LEAST_ROWS       256  /* of a segment whose lanes run across the rows */
#define FEW_PARTS        32   /* of a column, that the second layer takes at once */
#define FEWEST_ROWS      8    /* of a block that sums down columns, which writes a row of sums */
#define MOST_ROWS        128  /* of such a block, one after the other: terms of a running sum */
#define NEAR_TARGET      30   /* RD-20: how far from the wanted length a divisor may be */
#define NEAR_MOST        50   /* RD-21 */

static int64_t ceil_div(int64_t a, int64_t b)
{
	return a / b + (a % b != 0);
}

/* The divisor of n that is closest to want and nearer than `within`; of two the smaller; else want.
 */
static int64_t divisor_near(int64_t n, int64_t want, int64_t within)
{
	for (int64_t off = 0; off < within; off++) {
		if (want - off >= 1 && n % (want - off) == 0)
			return want - off;
		if (n % (want + off) == 0)
			return want + off;
	}
	return want;
}

/* Across: as many blocks as keep the device busy twice, or, while their results are few, for four
 * rounds of a device that holds them twice: a round that a few blocks begin takes as long as a full
 * one. No block has fewer rows than pay for it. */
int64_t stx__split_factor_across(int64_t n, int64_t n_r, const struct stx_device *d)
{
	int64_t m = (int64_t)THREADS_IN_WARPS * d->warp,
		threads = (int64_t)d->sms * d->threads_per_sm;
	if (n < 1 || n >= 2 * (int64_t)d->warp * d->sms)
		return 1;
	int64_t columns = ceil_div(n, d->warp), rounds = 2 * threads / m / columns;
	int64_t twice = ceil_div(threads / (2 * m), columns), most = n_r / LEAST_ROWS;
	int64_t wanted = rounds < FEW_PARTS ? rounds : FEW_PARTS;
	int64_t k = wanted > twice ? wanted : twice;
	k = k < most ? k : most;
	return k < 1 ? 1 : k;
}

/* As many as the device holds at once, or whole rounds of that. A block has several short rows at once. */
int64_t stx__split_factor_rows(int64_t n, int64_t n_r, const struct stx_device *d)
{
	int64_t kept = 32;
	while (kept < n && kept <= STX_GPU_COLUMNS)
		kept *= 2;
	if (n < 1 || kept > STX_GPU_COLUMNS)
		return 1;
	int64_t x = kept < STX_GPU_BLOCK_COLUMNS ? STX_GPU_BLOCK_COLUMNS / kept : 1;
	int64_t at_once = d->sms * (STX_GPU_COLUMNS / (kept * x));
	int64_t most = n_r / (2 * x < FEWEST_ROWS ? FEWEST_ROWS : 2 * x);
	int64_t k = at_once * ceil_div(n_r, stx_sat_mul(at_once, MOST_ROWS * x));
	k = k < most ? k : most;
	if (k < d->sms)
		return 1;
	int64_t rows = ceil_div(n_r, k), even = rows;
	while (even <= rows + rows / 16 && n_r % even)
		even++;
	return ceil_div(n_r, n_r % even ? rows : even);
}

int64_t stx__split_factor(int64_t n, int64_t n_r, const struct stx_device *d)
{
	int64_t s = d->sms, m = (int64_t)THREADS_IN_WARPS * d->warp, each;
	int64_t all = stx_sat_mul(n, n_r), threads = s * d->threads_per_sm;
	if (n >= 2 * (int64_t)d->warp * s || n >= 2 * s || n_r <= FEW_ELEMENTS || n < 1)
		return 1;
	if (all <= stx_sat_mul(d->warp, threads)) {
		each = d->warp;
	} else if (all < stx_sat_mul(MOST_ELEMENTS, threads)) {
		int64_t blocks = ceil_div(threads / (2 * m), n);
		each = divisor_near(n_r, ceil_div(n_r, m * blocks), NEAR_TARGET);
		each = each < d->warp ? d->warp : each;
	} else {
		each = divisor_near(n_r, MOST_ELEMENTS, NEAR_MOST);
	}
	return ceil_div(n_r, each * m);
}
