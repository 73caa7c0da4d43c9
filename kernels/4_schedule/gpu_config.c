/* gpu_config.c: launch configurations: text, what a kernel can have, the grid they need (seed 003
 * 9.6; conformance LC-01, LC-19, PW-07). */
#include "gpu_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ELEMS_PER_THREAD 256u /* unrolled: beyond, code grows and registers do not hold it */
#define MAX_BLOCK_POINTS     (1u << 19) /* emit_cuda.c: what 32-bit indices may go beyond the end */
#define MANY_OPERATIONS      128u

void stx_gpu_config_print(const struct stx_gpu_config *c, char out[STX_GPU_CONFIG_BYTES])
{
	size_t cap = STX_GPU_CONFIG_BYTES;
	int n = snprintf(out, cap, "XBLOCK=%u", c->x);
	if (c->y > 1 || c->z > 1)
		n += snprintf(out + n, cap - (size_t)n, " YBLOCK=%u", c->y);
	if (c->z > 1)
		n += snprintf(out + n, cap - (size_t)n, " ZBLOCK=%u", c->z);
	if (c->r)
		n += snprintf(out + n, cap - (size_t)n, " R0_BLOCK=%u row_threads=%u%s%s", c->r,
			      c->row_threads, c->inner ? "" : " outer",
			      c->persistent ? "" : " looped");
	n += snprintf(out + n, cap - (size_t)n, " threads=%u", c->threads);
	if (c->vec > 1 || c->vec_y > 1)
		n += snprintf(out + n, cap - (size_t)n, " vec=%u", c->vec);
	if (c->vec_y > 1)
		n += snprintf(out + n, cap - (size_t)n, " vec_y=%u", c->vec_y);
	if (c->cluster > 1)
		n += snprintf(out + n, cap - (size_t)n, " cluster=%u", c->cluster);
	if (c->ahead)
		snprintf(out + n, cap - (size_t)n, " ahead");
}

static int is_power(uint32_t n)
{
	return n && !(n & (n - 1));
}

struct stx_gpu_lanes stx_gpu_lanes(const struct stx_gpu_config *c)
{
	uint32_t n = c->threads / c->row_threads, vec = c->r && c->inner ? 1 : c->vec;
	struct stx_gpu_lanes l = { .x = c->x / vec, .y = c->y / c->vec_y };
	l.x = l.x < n ? l.x : n;
	l.y = l.y < n / l.x ? l.y : n / l.x;
	l.z = n / l.x / l.y;
	return l;
}

struct shape {
	uint32_t ngrid, raxis; /* raxis STX_NONE: no reduction */
};

static struct shape shape_of(const struct stx_kernel *k)
{
	struct shape s = { 0, STX_NONE };
	uint32_t rows = stx_gpu_rows_axis(k);
	for (uint32_t i = 0; i < k->axes.n; i++)
		if (k->axes.at[i].binding == STX_AXIS_GRID)
			s.ngrid++;
		else if (i != rows)
			s.raxis = i;
	return s;
}

/* An axis whose iterations are no reduction: updates are made in order, by one thread a grid point;
 * a block sorts one row. */
static int fits_loop(const struct stx_gpu_config *c, const struct stx_kernel *k)
{
	if (c->y != 1 || c->z != 1 || !c->inner || c->persistent || c->vec > 1 || c->vec_y > 1 ||
	    c->cluster > 1)
		return 0;
	if (stx_gpu_sorts(k))
		return c->x == 1 && c->row_threads == c->threads && c->r == c->threads;
	return c->row_threads == 1 && c->r == 1 && c->x >= c->threads &&
	       c->x / c->threads <= MAX_ELEMS_PER_THREAD;
}

uint32_t stx_gpu_rows_axis(const struct stx_kernel *k)
{
	for (uint32_t i = 0; i < k->insts.n; i++)
		if (k->insts.at[i].op == STX_K_ACC && k->insts.at[i].c != STX_NONE)
			return k->insts.at[i].a;
	return STX_NONE;
}

int stx_gpu_sorts(const struct stx_kernel *k)
{
	for (uint32_t i = 0; i < k->insts.n; i++)
		if (k->insts.at[i].op == STX_K_SORT)
			return 1;
	return 0;
}

int stx_gpu_computes(const struct stx_kernel *k)
{
	uint32_t operations = 0;
	for (uint32_t i = 0; i < k->insts.n; i++)
		operations += k->insts.at[i].op < STX_PRIM_COUNT;
	return k->axes.n == 1 && operations >= MANY_OPERATIONS;
}

/* A thread has whole runs of the axis, and some access is of consecutive elements over them. */
static int fits_runs(const struct stx_kernel *k, uint32_t axis, uint32_t vec, uint32_t elems)
{
	return vec == 1 ||
	       (elems >= vec && elems % vec == 0 && stx_gpu_runs(k, axis, vec, NULL) > 0);
}

/* Blocks share one row, whose parts the warps of all of them merge; what they exchange has words
 * of 4 bytes or 8. */
static int fits_cluster(const struct stx_gpu_config *c, const struct stx_kernel *k,
			const struct stx_gpu_device *dev)
{
	if (c->cluster == 1)
		return 1;
	for (uint32_t i = 0; i < k->insts.n; i++)
		if (k->insts.at[i].op == STX_K_ACC &&
		    stx_dtype_bytes((enum stx_dtype)k->insts.at[i].dtype) < 4)
			return 0;
	return c->cluster <= dev->cluster && c->inner && c->x == 1 &&
	       c->row_threads == c->threads && c->r <= MAX_BLOCK_POINTS / c->cluster &&
	       stx_ex_interval(k->ex, k->axes.at[0].size).hi <= INT32_MAX / c->cluster;
}

static int fits_reduction(const struct stx_gpu_config *c, const struct stx_kernel *k,
			  uint32_t raxis, const struct stx_gpu_device *dev)
{
	struct stx_interval range = stx_ex_interval(k->ex, k->axes.at[raxis].size);
	uint32_t lanes = c->threads / c->row_threads;
	/* What threads of a row exchange through shared memory: emit_cuda_reduce.c. */
	uint32_t parts = c->inner ? (c->row_threads + 31) / 32 : c->row_threads;
	/* A thread keeps the sums of its columns from row to row. */
	if (stx_gpu_rows_axis(k) != STX_NONE && (!c->inner || !c->persistent || c->cluster != 1 ||
						 c->x != lanes || c->r > STX_GPU_COLUMNS / c->x))
		return 0;
	return is_power(c->r) && c->y == 1 && c->z == 1 && c->r >= c->row_threads &&
	       (parts == 1 || parts * c->x <= 2048) && c->x >= lanes &&
	       (!c->persistent || range.hi <= (int64_t)c->r * c->cluster) && c->vec_y == 1 &&
	       fits_cluster(c, k, dev) &&
	       (uint64_t)c->x / lanes * (c->r / c->row_threads) <= MAX_ELEMS_PER_THREAD &&
	       (c->vec == 1 || !c->inner || stx_gpu_is_whole_runs(k, raxis, c->vec)) &&
	       fits_runs(k, c->inner ? raxis : 0, c->vec,
			 c->inner ? c->r / c->row_threads : c->x / lanes);
}

/* Lanes lie along x first, then y, then z. */
static int fits_tile_runs(const struct stx_gpu_config *c, const struct stx_kernel *k)
{
	if (c->x < c->vec || c->y < c->vec_y)
		return 0;
	struct stx_gpu_lanes l = stx_gpu_lanes(c);
	return l.z <= c->z && fits_runs(k, 0, c->vec, c->x / l.x) &&
	       (c->vec_y == 1 || fits_runs(k, 1, c->vec_y, c->y / l.y));
}

int stx_gpu_config_fits(const struct stx_gpu_config *c, const struct stx_kernel *k,
			const struct stx_gpu_device *dev)
{
	struct shape s = shape_of(k);
	if (!is_power(c->x) || !is_power(c->y) || !is_power(c->z) || !is_power(c->threads) ||
	    !is_power(c->row_threads) || c->threads < 32 || c->row_threads > c->threads ||
	    c->threads > dev->max_threads_per_block || c->x > MAX_BLOCK_POINTS ||
	    c->y > MAX_BLOCK_POINTS / c->x || c->z > MAX_BLOCK_POINTS / c->x / c->y ||
	    c->r > MAX_BLOCK_POINTS || !is_power(c->vec) || !is_power(c->vec_y) ||
	    c->vec > STX_GPU_MAX_VEC || c->vec_y > STX_GPU_MAX_VEC || !is_power(c->cluster))
		return 0;
	if (c->ahead && (stx_gpu_rows_axis(k) == STX_NONE || c->vec == 1))
		return 0;
	if (s.raxis != STX_NONE && !k->axes.at[s.raxis].is_reduction)
		return fits_loop(c, k);
	if (s.raxis != STX_NONE)
		return fits_reduction(c, k, s.raxis, dev);
	uint32_t points = c->x * c->y * c->z;
	return !c->r && c->row_threads == 1 && c->inner && !c->persistent && c->cluster == 1 &&
	       (s.ngrid > 1 || c->y == 1) && (s.ngrid > 2 || c->z == 1) && c->threads <= points &&
	       points / c->threads <= MAX_ELEMS_PER_THREAD && fits_tile_runs(c, k);
}

/* One word of a text: "XBLOCK=64", "outer". */
static void parse_word(const char *word, size_t n, struct stx_gpu_config *c)
{
	uint32_t vec = c->vec, vec_y = c->vec_y;
	const struct {
		const char *name;
		uint32_t *at;
	} fields[] = {
		{ "XBLOCK=", &c->x },        { "YBLOCK=", &c->y },
		{ "ZBLOCK=", &c->z },        { "R0_BLOCK=", &c->r },
		{ "threads=", &c->threads }, { "row_threads=", &c->row_threads },
		{ "cluster=", &c->cluster }, { "vec=", &vec },
		{ "vec_y=", &vec_y },
	};
	for (unsigned i = 0; i < sizeof fields / sizeof *fields; i++) {
		size_t name = strlen(fields[i].name);
		if (n > name && n < name + 9 && !memcmp(word, fields[i].name, name))
			*fields[i].at = (uint32_t)strtoul(word + name, NULL, 10);
	}
	c->vec = vec <= STX_GPU_MAX_VEC ? (uint8_t)vec : 0; /* 0 fits nothing */
	c->vec_y = vec_y <= STX_GPU_MAX_VEC ? (uint8_t)vec_y : 0;
	c->inner &= !(n == 5 && !memcmp(word, "outer", 5));
	c->persistent &= !(n == 6 && !memcmp(word, "looped", 6));
	c->ahead |= n == 5 && !memcmp(word, "ahead", 5);
}

stx_err stx_gpu_config_parse(const char *text, const struct stx_kernel *k,
			     const struct stx_gpu_device *dev, struct stx_gpu_config *out,
			     struct stx_diag *d)
{
	struct stx_gpu_config c = { .x = 1,
				    .y = 1,
				    .z = 1,
				    .row_threads = 1,
				    .inner = 1,
				    .persistent = 1,
				    .vec = 1,
				    .vec_y = 1,
				    .cluster = 1 };
	char again[STX_GPU_CONFIG_BYTES];
	for (const char *at = text; *at;) {
		size_t n = strcspn(at, " ");
		parse_word(at, n, &c);
		at += n + strspn(at + n, " ");
	}
	if (!c.r)
		c.persistent = 0;
	/* It must be what it would be printed as: no other text passes. */
	stx_gpu_config_print(&c, again);
	if (strcmp(again, text) != 0 || !stx_gpu_config_fits(&c, k, dev))
		return stx_fail(d, STX_E_INVALID, "config", k->name,
				"'%.96s' is no launch configuration of this kernel on %s", text,
				dev->name);
	*out = c;
	return STX_E_OK;
}

void stx_gpu_grid(const struct stx_kernel *k, const struct stx_gpu_config *c, stx_ex out[3])
{
	struct stx_exprs *x = k->ex;
	const uint32_t block[3] = { c->x, c->y, c->z };
	stx_ex blocks[3] = { stx_ex_const(x, 1), stx_ex_const(x, 1), stx_ex_const(x, 1) };
	for (uint32_t i = 0; i < 3 && i < k->axes.n && k->axes.at[i].binding == STX_AXIS_GRID; i++)
		blocks[i] = stx_ex_ceildiv(x, k->axes.at[i].size, stx_ex_const(x, block[i]));
	if (stx_gpu_rows_axis(k) != STX_NONE)
		blocks[0] = k->axes.at[0].size;
	stx_ex yz = stx_ex_mul(x, blocks[1], blocks[2]);
	out[0] = stx_ex_muli(x, blocks[0], c->cluster);
	out[2] = stx_ex_ceildiv(x, yz, stx_ex_const(x, 65535));
	out[1] = stx_ex_ceildiv(x, yz, stx_ex_max(x, out[2], stx_ex_const(x, 1)));
}

void stx_gpu_symbol(const struct stx_digest *kernel, const struct stx_gpu_config *c, char out[64])
{
	char all[STX_DIGEST_BYTES + STX_GPU_CONFIG_BYTES] = { 0 };
	memcpy(all, kernel->b, STX_DIGEST_BYTES);
	stx_gpu_config_print(c, all + STX_DIGEST_BYTES);
	struct stx_digest both = stx_digest_of(all, sizeof all);
	stx_kernel_symbol(&both, out);
}
