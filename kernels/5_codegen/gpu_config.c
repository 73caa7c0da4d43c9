/* gpu_config.c: launch configurations: candidates, their text, the grid they need (seed 003 9.4,
 * 9.6; conformance GR-02, GR-03, LC-02, LC-19, PW-07). */
#include <stdio.h>

#include "gpu.h"

#define PERSISTENT_INNER 1024
#define PERSISTENT_OUTER 64

static uint32_t pow2_at_least(int64_t n)
{
	uint32_t p = 1;
	while (p < n && p < 1u << 30)
		p *= 2;
	return p;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static int64_t hint(const struct stx_kernel *k, uint32_t axis)
{
	int64_t n = stx_ex_hint(k->ex, k->axes.at[axis].size);
	return n < 1 ? 1 : n;
}

/* Bytes of loads whose neighbours along the axis are neighbours in memory. */
static uint32_t along(const struct stx_kernel *k, uint32_t axis)
{
	uint32_t bytes = 0;
	for (uint32_t i = 0; i < k->insts.n; i++) {
		const struct stx_kinst *in = &k->insts.at[i];
		stx_ex coeff, rest;
		if (in->op == STX_K_LOAD && stx_ex_linear_in(k->ex, in->ex, axis, &coeff, &rest) &&
		    stx_ex_equals(k->ex, coeff, 1))
			bytes += (uint32_t)stx_dtype_bytes((enum stx_dtype)in->dtype);
	}
	return bytes;
}

static struct stx_gpu_config pointwise(uint32_t x, uint32_t y, uint32_t z, uint32_t threads)
{
	return (struct stx_gpu_config){
		.x = x, .y = y, .z = z, .threads = threads, .row_threads = 1, .inner = 1
	};
}

static uint32_t pointwise_candidates(const struct stx_kernel *k, const struct stx_gpu_device *dev,
				     uint32_t ngrid, struct stx_gpu_config *out)
{
	uint32_t x = pow2_at_least(hint(k, 0)), n = 0;
	if (ngrid == 1) {
		/* Enough blocks for every multiprocessor come before long blocks. */
		int64_t per = hint(k, 0) / ((int64_t)dev->sms * 8);
		uint32_t block = per >= 1024 ? 1024 : per >= 512 ? 512 : 256;
		out[n++] = pointwise(least(block, x < 32 ? 32 : x), 1, 1, least(block, 256));
		for (uint32_t b = 256; b <= 2048 && n < 4; b *= 2)
			if (b != block && b <= x)
				out[n++] = pointwise(b, 1, 1, 256);
		for (uint32_t i = 0; i < n; i++)
			out[i].threads = least(out[i].threads, out[i].x);
		return n;
	}
	uint32_t y = pow2_at_least(hint(k, 1)), z = ngrid > 2 ? pow2_at_least(hint(k, 2)) : 1;
	static const uint32_t shapes[][3] = {
		{ 32, 32, 256 }, { 64, 16, 256 }, { 16, 64, 256 }, { 64, 64, 256 }
	};
	for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		uint32_t bx = least(shapes[i][0], x), by = least(shapes[i][1], y);
		uint32_t bz = ngrid > 2 ? least(4, z) : 1;
		uint32_t points = bx * by * bz;
		if (points >= 32 || !n)
			out[n++] = pointwise(bx, by, bz, least(shapes[i][2], points));
	}
	return n;
}

static struct stx_gpu_config reduction(uint32_t rows, uint32_t r, uint32_t row_threads, int inner,
				       int persistent)
{
	return (struct stx_gpu_config){ .x = rows,
					.y = 1,
					.z = 1,
					.r = r,
					.threads = rows * row_threads > 1024 ? 1024
									     : rows * row_threads,
					.row_threads = row_threads,
					.inner = (uint8_t)inner,
					.persistent = (uint8_t)persistent };
}

/* Warps are whole: a block has 32 threads at least. */
static struct stx_gpu_config whole_warps(struct stx_gpu_config c)
{
	if (c.threads < 32) {
		c.x *= 32 / c.threads;
		c.threads = 32;
	}
	return c;
}

static uint32_t reduction_candidates(const struct stx_kernel *k, const struct stx_gpu_device *dev,
				     uint32_t raxis, struct stx_gpu_config *out)
{
	int64_t n = hint(k, raxis), rows = hint(k, 0);
	struct stx_interval range = stx_ex_interval(k->ex, k->axes.at[raxis].size);
	int inner = along(k, raxis) >= along(k, 0) || rows == 1;
	uint32_t c = 0;
	(void)dev;
	if (inner) {
		int persistent = range.hi <= PERSISTENT_INNER;
		uint32_t r = persistent ? pow2_at_least(range.hi < 1 ? 1 : range.hi) : 2048;
		uint32_t each = persistent ? (r >= 256 ? 8 : r >= 64 ? 4 : 1) : 8;
		uint32_t t = r / each;
		for (; t && c < 3; t /= 2) { /* threads of a row: fewer keep more in flight each */
			uint32_t x = 256 / t ? 256 / t : 1;
			if (x > rows)
				x = pow2_at_least(rows);
			if (r / t > 32)
				break;
			out[c++] = whole_warps(reduction(x, r, t, 1, persistent));
		}
		return c;
	}
	int persistent = range.hi <= PERSISTENT_OUTER;
	uint32_t r = persistent ? pow2_at_least(range.hi < 1 ? 1 : range.hi) : 64;
	for (uint32_t x = 32; x <= 128 && c < 3; x *= 2) {
		uint32_t t = least(r, n > 4096 ? 32 : 8);
		out[c++] = whole_warps(reduction(x, r, x * t > 1024 ? 1024 / x : t, 0, persistent));
	}
	return c;
}

uint32_t stx_gpu_candidates(const struct stx_kernel *k, const struct stx_gpu_device *dev,
			    struct stx_gpu_config out[STX_GPU_MAX_CONFIGS])
{
	uint32_t ngrid = 0;
	while (ngrid < k->axes.n && k->axes.at[ngrid].binding == STX_AXIS_GRID)
		ngrid++;
	return ngrid < k->axes.n ? reduction_candidates(k, dev, ngrid, out)
				 : pointwise_candidates(k, dev, ngrid, out);
}

void stx_gpu_config_print(const struct stx_gpu_config *c, char out[96])
{
	int n = snprintf(out, 96, "XBLOCK=%u", c->x);
	if (c->y > 1 || c->z > 1)
		n += snprintf(out + n, 96 - (size_t)n, " YBLOCK=%u", c->y);
	if (c->z > 1)
		n += snprintf(out + n, 96 - (size_t)n, " ZBLOCK=%u", c->z);
	if (c->r)
		n += snprintf(out + n, 96 - (size_t)n, " R0_BLOCK=%u row_threads=%u%s", c->r,
			      c->row_threads, c->inner ? "" : " outer");
	snprintf(out + n, 96 - (size_t)n, " threads=%u", c->threads);
}

void stx_gpu_grid(const struct stx_kernel *k, const struct stx_gpu_config *c, stx_ex out[3])
{
	struct stx_exprs *x = k->ex;
	const uint32_t block[3] = { c->x, c->y, c->z };
	stx_ex blocks[3] = { stx_ex_const(x, 1), stx_ex_const(x, 1), stx_ex_const(x, 1) };
	for (uint32_t i = 0; i < 3 && i < k->axes.n && k->axes.at[i].binding == STX_AXIS_GRID; i++)
		blocks[i] = stx_ex_ceildiv(x, k->axes.at[i].size, stx_ex_const(x, block[i]));
	stx_ex yz = stx_ex_mul(x, blocks[1], blocks[2]);
	out[0] = blocks[0];
	out[2] = stx_ex_ceildiv(x, yz, stx_ex_const(x, 65535));
	out[1] = stx_ex_ceildiv(x, yz, stx_ex_max(x, out[2], stx_ex_const(x, 1)));
}
