/* space.c: the configuration space of a kernel as data: a finite set for each parameter, their
 * product, less what does not fit (seed 003 definition 9.2; conformance LC-01). */
#include "tune.h"

#define MOST_RUN 8

struct set { /* powers of two, lo to hi */
	uint32_t lo, hi;
};
/* Titles:                                     x            y         z       threads     row
 * threads */
static const struct {
	struct set x, y, z, threads, row;
} sets[] = {
	/* lines */ { { 32, 8192 }, { 1, 1 }, { 1, 1 }, { 32, 1024 }, { 1, 1 } },
	/* tiles */ { { 1, 256 }, { 1, 256 }, { 1, 8 }, { 64, 512 }, { 1, 1 } },
	/* reductions */ { { 1, 256 }, { 1, 1 }, { 1, 1 }, { 32, 1024 }, { 1, 1024 } },
};
enum { LINES, TILES, REDUCTIONS }; /* kernels with an ordered axis have the sets of the last */

struct space {
	const struct stx_kernel *k;
	const struct stx_gpu_device *dev;
	struct stx_gpu_config *out;
	uint32_t n, cap;
};

/* The configuration, with every length of runs. */
static void put(struct space *s, const struct stx_gpu_config *c)
{
	struct stx_gpu_config v = *c;
	uint32_t most = c->r ? STX_GPU_MAX_VEC : MOST_RUN, most_y = c->y > 1 ? MOST_RUN : 1;
	for (v.vec = 1; v.vec <= most; v.vec = (uint8_t)(v.vec * 2))
		for (v.vec_y = 1; v.vec_y <= most_y; v.vec_y = (uint8_t)(v.vec_y * 2))
			for (v.ahead = 0; v.ahead < 2; v.ahead++) {
				if (!stx_gpu_config_fits(&v, s->k, s->dev))
					continue;
				if (s->n < s->cap)
					s->out[s->n] = v;
				s->n++;
			}
}

/* A reduction keeps its row, or loops over it in blocks; lanes run along it, or across, where a
 * block has half a warp of rows at least. */
static void put_reductions(struct space *s, struct stx_gpu_config c, uint32_t raxis)
{
	static const struct set blocks[] = { { 32, 128 }, { 1024, 8192 } }; /* across, along */
	int64_t hi = stx_ex_interval(s->k->ex, s->k->axes.at[raxis].size).hi;
	uint32_t row = 1;
	while (row < hi && row < 1u << 14)
		row *= 2;
	for (int inner = c.x < 16; inner < 2; inner++) {
		c.inner = (uint8_t)inner;
		c.persistent = 1;
		c.r = row;
		put(s, &c);
		c.persistent = 0;
		for (c.r = blocks[inner].lo; c.r <= blocks[inner].hi && c.r <= row; c.r *= 2)
			put(s, &c);
	}
	c.inner = 1;
	for (c.cluster = 2; c.x == 1 && c.cluster <= s->dev->cluster; c.cluster *= 2) {
		c.persistent = 1;
		for (c.r = 2048; c.r <= 1u << 15; c.r *= 2)
			put(s, &c);
		c.persistent = 0;
		for (c.r = 1024; c.r <= 8192; c.r *= 2)
			put(s, &c);
	}
}

/* A thread, or all of a block, for a row: an iteration each at a time. */
static void put_ordered(struct space *s, struct stx_gpu_config c)
{
	c.r = c.row_threads;
	put(s, &c);
}

uint32_t stx_tune_space(const struct stx_kernel *k, const struct stx_gpu_device *dev,
			struct stx_gpu_config *out, uint32_t cap)
{
	struct space s = { k, dev, out, 0, cap };
	struct stx_gpu_config c = { .inner = 1, .vec = 1, .vec_y = 1, .cluster = 1 };
	uint32_t ngrid = 0;
	while (ngrid < k->axes.n && k->axes.at[ngrid].binding == STX_AXIS_GRID)
		ngrid++;
	int ordered = ngrid < k->axes.n && !k->axes.at[ngrid].is_reduction;
	int form = ngrid < k->axes.n ? REDUCTIONS : ngrid > 1 ? TILES : LINES;
	for (c.x = sets[form].x.lo; c.x <= sets[form].x.hi; c.x *= 2)
		for (c.y = sets[form].y.lo; c.y <= sets[form].y.hi; c.y *= 2)
			for (c.z = sets[form].z.lo; c.z <= sets[form].z.hi; c.z *= 2)
				for (c.threads = sets[form].threads.lo;
				     c.threads <= sets[form].threads.hi; c.threads *= 2)
					for (c.row_threads = sets[form].row.lo;
					     c.row_threads <= sets[form].row.hi; c.row_threads *= 2)
						if (form == REDUCTIONS && !ordered)
							put_reductions(&s, c, ngrid);
						else if (ordered)
							put_ordered(&s, c);
						else
							put(&s, &c);
	return s.n < cap ? s.n : cap;
}
