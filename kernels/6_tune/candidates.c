/* candidates.c: a few configurations of a kernel by rule (seed 003 9.4, 9.6; conformance GR-02,
 * GR-03, LC-02). Larger blocks have more loads in flight and need more registers, smaller ones
 * more scheduling and masks (LC-21): the rules stay between, and a measurement decides. */
#include "tune.h"

#include <stdlib.h>

#define PERSISTENT_INNER 1024
#define PERSISTENT_OUTER 64
#define KEPT_INNER       32768 /* a longer row leaves a block no registers */
#define SHARED_ROW                                                                                 \
	16384 /* more of it than that: its load, arithmetic and store would not overlap */
#define KEPT_BLOCK   8192 /* of a row, in registers of 256 threads: four such blocks do */
#define SHORT_COLUMN 1024 /* soon done: threads to begin its loads count for more than long runs */
#define LIGHT        40   /* instructions of a body that waits for memory */
#define FEW          4    /* elements of a run: short code where it is long (emit_cuda.c) */
#define MOST         6    /* candidates */

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

/* How far the element moves from the first point along the axis to the 32nd: by the coefficient, or,
 * where several axes are one by division, at the first points. -1: it depends. */
static int64_t moves(const struct stx_kernel *k, stx_ex ex, uint32_t axis)
{
	stx_ex coeff, rest, at[STX_KERNEL_MAX_AXES];
	int64_t first, last;
	if (stx_ex_linear_in(k->ex, ex, axis, &coeff, &rest))
		return stx_ex_is_const(k->ex, coeff, &first) && first >= 0 ? 31 * first : -1;
	for (uint32_t i = 0; i < k->axes.n; i++)
		at[i] = stx_ex_const(k->ex, 0);
	stx_ex from = stx_ex_subst(k->ex, ex, at, k->axes.n);
	at[axis] = stx_ex_const(k->ex, 31);
	return stx_ex_is_const(k->ex, from, &first) &&
			       stx_ex_is_const(k->ex, stx_ex_subst(k->ex, ex, at, k->axes.n), &last)
		       ? last - first
		       : -1;
}

/* Bytes of loads whose neighbours along the axis are neighbours in memory; but for those that
 * neighbouring points share and those of one row of points, which are few. */
static uint32_t along(const struct stx_kernel *k, uint32_t axis, uint32_t other)
{
	uint32_t bytes = 0;
	for (uint32_t i = 0; i < k->insts.n; i++) {
		const struct stx_kinst *in = &k->insts.at[i];
		if (in->op == STX_K_LOAD && moves(k, in->ex, axis) == 31 &&
		    moves(k, in->ex, other) != 0)
			bytes += (uint32_t)stx_dtype_bytes((enum stx_dtype)in->dtype);
	}
	return bytes;
}

/* Elements of the axis in 16 bytes of its narrowest consecutive access; fewer where more accesses are
 * consecutive then. 1: fewer bytes than `share` of 100 are, and the others would lie further apart. */
static uint32_t run_of(const struct stx_kernel *k, uint32_t axis, uint32_t share)
{
	uint32_t best = 1, most = 0;
	uint8_t *run = calloc(k->insts.n + 1, 1);
	for (uint32_t v = STX_GPU_MAX_VEC; run && v > 1; v /= 2) {
		uint32_t bytes = 0, others = 0, narrow = 16;
		if (!stx_gpu_runs(k, axis, v, run))
			continue;
		for (uint32_t i = 0; i < k->insts.n; i++) {
			uint32_t b =
				(uint32_t)stx_dtype_bytes((enum stx_dtype)k->insts.at[i].dtype);
			uint8_t op = k->insts.at[i].op;
			bytes += run[i] == STX_RUN_UNIT ? b : 0;
			others += run[i] == STX_RUN_NONE && (op == STX_K_LOAD || op == STX_K_STORE)
					  ? b
					  : 0;
			narrow = run[i] == STX_RUN_UNIT ? least(narrow, b) : narrow;
		}
		if (bytes > most && 100 * bytes >= share * (bytes + others) && v * narrow <= 16) {
			most = bytes;
			best = v;
		}
	}
	free(run);
	return best;
}

/* Adds c unless it is there, the list is full or the kernel cannot have it. */
static void add(const struct stx_kernel *k, const struct stx_gpu_device *dev,
		struct stx_gpu_choices *out, struct stx_gpu_config c)
{
	for (uint32_t i = 0; i < out->n; i++)
		if (!memcmp(&out->at[i], &c, sizeof c))
			return;
	if (out->n < STX_GPU_MAX_CONFIGS && stx_gpu_config_fits(&c, k, dev))
		out->at[out->n++] = c;
}

static struct stx_gpu_config pointwise(uint32_t x, uint32_t y, uint32_t z, uint32_t threads)
{
	while (x * y * z < 32) /* warps are whole */
		x *= 2;
	return (struct stx_gpu_config){ .x = x,
					.y = y,
					.z = z,
					.threads = least(threads, x * y * z),
					.row_threads = 1,
					.inner = 1,
					.vec = 1,
					.vec_y = 1,
					.cluster = 1 };
}

/* A thread has `each` whole runs. */
static struct stx_gpu_config runs(uint32_t threads, uint32_t vec, uint32_t each)
{
	struct stx_gpu_config c = pointwise(threads * vec * each, 1, 1, threads);
	c.vec = (uint8_t)vec;
	return c;
}

static void lines(const struct stx_kernel *k, const struct stx_gpu_device *dev,
		  struct stx_gpu_choices *out)
{
	uint32_t x = pow2_at_least(hint(k, 0)), vec = run_of(k, 0, 60);
	/* Enough blocks for every multiprocessor come before long blocks. */
	int64_t per = hint(k, 0) / ((int64_t)dev->sms * 8);
	uint32_t block = per >= 1024 ? 1024 : per >= 512 ? 512 : 256;
	/* Long bodies of f32 fill the pipes by themselves; of halves the short functions do not: 4 to
	 * 12% on an H200 (tests/bench/h200.md). */
	uint32_t each = k->insts.n < LIGHT || vec > 4 ? 2 : 1;
	x = x < 32 ? 32 : x;
	if (vec > FEW && stx_gpu_computes(k) && per >= 256 * (int64_t)vec)
		/* The code is that of a run (emit_cuda.c): half of it, and 0.7 of its compile. */
		add(k, dev, out, runs(256, FEW, each * vec / FEW));
	if (vec > 1 && per >= 128 * (int64_t)vec) {
		add(k, dev, out, runs(per >= 256 * (int64_t)vec ? 256 : 128, vec, each));
		add(k, dev, out, runs(256, vec, 3 - each));
		add(k, dev, out, runs(128, vec, each));
		if (vec > 4)
			add(k, dev, out, runs(256, vec / 2, each));
	}
	add(k, dev, out, pointwise(least(block, x), 1, 1, 256));
	for (uint32_t b = 256; b <= 2048 && out->n < 4; b *= 2)
		if (b <= x)
			add(k, dev, out, pointwise(b, 1, 1, 256));
	if (vec > 1 && x >= 512 && out->n < 5)
		add(k, dev, out, runs(128, vec, 1));
	if (x >= 512 && out->n < MOST)
		add(k, dev, out, pointwise(512, 1, 1, 128));
	if (x >= 2048 && out->n < MOST)
		add(k, dev, out, pointwise(2048, 1, 1, 512));
	if (vec > FEW && k->insts.n >= LIGHT && per >= 256 * (int64_t)vec)
		/* Short runs, many of them in flight, in small blocks: gelu in 0.93 of the time. */
		add(k, dev, out, runs(64, FEW, 4 * each * vec / (2 * FEW)));
}

/* A thread has vec by vec_y elements: loads along y and stores along x are both wide, and turning
 * them costs nothing but registers. */
static void square(const struct stx_kernel *k, const struct stx_gpu_device *dev, uint32_t x,
		   uint32_t threads, uint32_t vec, uint32_t vec_y, uint32_t each,
		   struct stx_gpu_choices *out)
{
	struct stx_gpu_config c = pointwise(x, threads / (x / vec) * vec_y * each, 1, threads);
	c.vec = (uint8_t)vec;
	c.vec_y = (uint8_t)vec_y;
	add(k, dev, out, c);
}

static void tiles(const struct stx_kernel *k, const struct stx_gpu_device *dev, uint32_t ngrid,
		  struct stx_gpu_choices *out)
{
	uint32_t x = pow2_at_least(hint(k, 0)), y = pow2_at_least(hint(k, 1));
	uint32_t z = ngrid > 2 ? least(4, pow2_at_least(hint(k, 2))) : 1;
	uint32_t vec = least(run_of(k, 0, 25), 8), vec_y = least(run_of(k, 1, 25), 8);
	static const uint32_t shapes[][3] = { { 16, 64, 256 }, { 32, 32, 256 }, { 64, 16, 256 },
					      { 64, 64, 256 }, { 32, 16, 128 }, { 128, 8, 256 } };
	int squares = ngrid == 2 && vec_y > 1 && x >= 64 && y >= 64;
	if (squares) {
		/* Words: more threads of shorter runs; halves: fewer of long ones. */
		if (vec > 2 && vec <= 4)
			square(k, dev, 64, 256, vec / 2, vec_y, 1, out);
		square(k, dev, 64, 128, vec, vec_y, 1, out);
		square(k, dev, 64, 128, vec > 4 ? vec / 2 : vec, vec_y, 1, out);
		square(k, dev, 32, 128, vec > 4 ? vec / 2 : vec, vec_y, 1, out);
		square(k, dev, 64, 256, vec > 2 ? vec / 2 : vec, vec_y, 1, out);
	}
	for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes && out->n < MOST; i++)
		add(k, dev, out,
		    pointwise(least(shapes[i][0], x), least(shapes[i][1], y), z, shapes[i][2]));
	if (squares) /* two squares of a thread: twice its loads in flight */
		square(k, dev, 32, 64, vec > 4 ? vec / 2 : vec, vec_y, 2, out);
}

static struct stx_gpu_config reduction(uint32_t rows, uint32_t r, uint32_t row_threads, int inner,
				       int persistent)
{
	struct stx_gpu_config c = { .x = rows,
				    .y = 1,
				    .z = 1,
				    .r = r,
				    .threads = least(rows * row_threads, 1024),
				    .row_threads = row_threads,
				    .inner = (uint8_t)inner,
				    .persistent = (uint8_t)persistent,
				    .vec = 1,
				    .vec_y = 1,
				    .cluster = 1 };
	if (c.threads < 32) { /* warps are whole */
		c.x *= 32 / c.threads;
		c.threads = 32;
	}
	return c;
}

/* Adds c with the longest runs that fit it. */
static void add_runs(const struct stx_kernel *k, const struct stx_gpu_device *dev,
		     struct stx_gpu_choices *out, struct stx_gpu_config c, uint32_t vec)
{
	for (c.vec = (uint8_t)vec; c.vec > 1 && !stx_gpu_config_fits(&c, k, dev);)
		c.vec /= 2;
	add(k, dev, out, c);
}

/* Loops after the first take from registers what the first has read. */
static int has_loops(const struct stx_kernel *k)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < k->insts.n; i++)
		n += k->insts.at[i].op == STX_K_LOOP;
	return n > 1;
}

/* Merging parts takes exponentials: online softmax. */
static int merges_dearly(const struct stx_kernel *k)
{
	for (uint32_t i = 0; i < k->insts.n; i++)
		if (k->insts.at[i].op == STX_K_ACC && k->insts.at[i].flags == STX_MONOID_SOFTMAX)
			return 1;
	return 0;
}

/* Rows of several loops that are too long for the persistent form but not for the registers of a
 * block: memory is read once. */
static void kept_rows(const struct stx_kernel *k, const struct stx_gpu_device *dev, int64_t length,
		      uint32_t vec, struct stx_gpu_choices *out)
{
	uint32_t r = pow2_at_least(length);
	uint32_t each = r >= 16384 ? 32 : r >= 4096 ? 16 : 8;
	for (uint32_t i = 0; i < 3; i++, each = i == 1 ? each / 2 : each * 4)
		if (r / each >= 32 && r / each <= 1024)
			add_runs(k, dev, out, reduction(1, r, r / each, 1, 1), vec);
}

/* Rows of several loops, each over the blocks of a cluster, which keep it in registers. */
static void shared_rows(const struct stx_kernel *k, const struct stx_gpu_device *dev,
			int64_t length, uint32_t vec, struct stx_gpu_choices *out)
{
	uint32_t row = pow2_at_least(length), first = row / KEPT_BLOCK;
	first = first < dev->cluster ? first : dev->cluster;
	for (uint32_t n = first, i = 0; i < 3 && n > 1; i++, n = i == 1 ? first / 2 : first) {
		uint32_t each = i < 2 ? 32 : 16;
		struct stx_gpu_config c = reduction(1, row / n, row / n / each, 1, 1);
		c.cluster = n;
		if (row / n / each <= 1024)
			add_runs(k, dev, out, c, vec);
	}
}

/* Rows whose columns are summed: 8 columns a thread, or twice as many for half the threads; as many rows
 * at once as split_rule.c has made the segments for. */
static void summed_rows(const struct stx_kernel *k, const struct stx_gpu_device *dev,
			uint32_t raxis, struct stx_gpu_choices *out)
{
	uint32_t r = pow2_at_least(hint(k, raxis)), vec = run_of(k, raxis, 50);
	r = r < 32 ? 32 : r;
	for (uint32_t each = 8; each <= 16; each *= 2)
		for (uint32_t ahead = vec > 1; ahead < 2; ahead--) {
			struct stx_gpu_config c =
				reduction(r < STX_GPU_BLOCK_COLUMNS ? STX_GPU_BLOCK_COLUMNS / r : 1,
					  r, r / each, 1, 1);
			c.ahead = ahead;
			add_runs(k, dev, out, c, vec);
		}
}

/* Rows that lie along lanes. Fewer threads a row keep more of it in flight each. */
static void inner_rows(const struct stx_kernel *k, const struct stx_gpu_device *dev, uint32_t raxis,
		       struct stx_gpu_choices *out)
{
	struct stx_interval range = stx_ex_interval(k->ex, k->axes.at[raxis].size);
	int64_t rows = hint(k, 0);
	int persistent = range.hi <= PERSISTENT_INNER;
	uint32_t vec = run_of(k, raxis, 50);
	uint32_t r = persistent ? pow2_at_least(range.hi < 1 ? 1 : range.hi) : 2048;
	uint32_t each = persistent ? (r >= 256 ? 8 : r >= 64 ? 4 : 1) : 8;
	if (range.hi > SHARED_ROW && range.hi <= (int64_t)KEPT_INNER * dev->cluster && has_loops(k))
		shared_rows(k, dev, range.hi, vec, out);
	if (!persistent && range.hi <= KEPT_INNER && has_loops(k))
		kept_rows(k, dev, range.hi, vec, out);
	/* Halves of which every block runs at once: rows without barriers, first. */
	int is_wave = persistent && r > 512 && rows >= (int64_t)dev->sms * 16 &&
		      rows <= (int64_t)dev->sms * 32 && vec > FEW && has_loops(k);
	if (is_wave) /* softmax in 0.92 of the time of four warps a row */
		add_runs(k, dev, out, reduction(8, r, 32, 1, 1), vec);
	if (persistent && r > 256 && rows > (int64_t)dev->sms * 32) { /* many: a warp a row */
		if (r > 512 &&
		    k->insts.n >= LIGHT) /* two: half the code, and 0.65 of its compile */
			add_runs(k, dev, out, reduction(4, r, 64, 1, 1), vec);
		add_runs(k, dev, out, reduction(8, r, 32, 1, 1), vec);
	}
	if (!persistent && rows > (int64_t)dev->sms * 32 && merges_dearly(k) && !has_loops(k))
		/* 0.76 of the time of a block a row: tests/bench/h200.md */
		add_runs(k, dev, out, reduction(4, r, 64, 1, 0), vec);
	for (uint32_t t = r / each, i = 0; t && i < 3 && r / t <= 32 && out->n < MOST;
	     t /= 2, i++) {
		uint32_t x = 256 / t ? 256 / t : 1;
		add_runs(k, dev, out,
			 reduction(x > rows ? pow2_at_least(rows) : x, r, t, 1, persistent), vec);
	}
	uint32_t t = r / each;
	if (persistent && t >= 8 && rows > 1 &&
	    out->n < MOST) /* one row a warp group: less waits */
		add_runs(k, dev, out,
			 reduction(least(t < 128 ? 128 / t : 1, pow2_at_least(rows)), r, t, 1, 1),
			 vec);
	if (is_wave) { /* two rows a warp: 0.93 of that, and twice its compile */
		struct stx_gpu_config c = reduction(16, r, 32, 1, 1);
		c.threads = 256;
		add_runs(k, dev, out, c, FEW);
	}
	if (!persistent && out->n < MOST)
		add_runs(k, dev, out, reduction(1, 4096, 512, 1, 0), vec);
	if (!persistent && out->n < MOST)
		add_runs(k, dev, out, reduction(1, 1024, 128, 1, 0), vec);
}

static uint32_t naccs(const struct stx_kernel *k)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < k->insts.n; i++)
		n += k->insts.at[i].op == STX_K_ACC;
	return n;
}

/* x points a block, taken by x / vec lanes. */
static void add_columns(const struct stx_kernel *k, const struct stx_gpu_device *dev,
			struct stx_gpu_choices *out, uint32_t x, uint32_t vec, uint32_t r,
			uint32_t t, int persistent)
{
	struct stx_gpu_config c = reduction(x, r, t, 0, persistent);
	c.threads = least(x / vec * t, 1024);
	c.vec = (uint8_t)vec;
	if (out->n < MOST)
		add(k, dev, out, c);
}

/* Lanes run along the rows, whose neighbours are neighbours in memory. */
static void outer_rows(const struct stx_kernel *k, const struct stx_gpu_device *dev, uint32_t raxis,
		       struct stx_gpu_choices *out)
{
	struct stx_interval range = stx_ex_interval(k->ex, k->axes.at[raxis].size);
	int persistent = range.hi <= PERSISTENT_OUTER;
	uint32_t r = persistent ? pow2_at_least(range.hi < 1 ? 1 : range.hi) : 64;
	uint32_t t = least(r, hint(k, raxis) > 4096 ? 32 : 8), vec = run_of(k, 0, 50);
	/* A line of 128 bytes of the narrowest operand a block; half of one where there would be few
	 * blocks. Two sums need the registers that a second round in flight would. */
	if (vec > 1 && hint(k, raxis) >= 64) {
		uint32_t x = (hint(k, 0) / (8 * vec) < 4 * (int64_t)dev->sms ? 4 : 8) * vec;
		uint32_t first = naccs(k) > 1 ? 32 : 64;
		if (vec > 2 && hint(k, raxis) < SHORT_COLUMN)
			add_columns(k, dev, out, x, vec / 2, r, least(r, 32), persistent);
		add_columns(k, dev, out, x, vec, least(r, first), least(r, 32), persistent);
		add_columns(k, dev, out, x, vec, least(r, 96 - first), least(r, 32), persistent);
		add_columns(k, dev, out, 2 * x, vec, least(r, first), least(r, 32), persistent);
		if (vec > 2)
			add_columns(k, dev, out, x, vec / 2, r, least(r, 32), persistent);
	}
	for (uint32_t x = 32; x <= 128 && out->n < MOST; x *= 2)
		add(k, dev, out, reduction(x, r, least(t, 1024 / x), 0, persistent));
	if (out->n < MOST)
		add(k, dev, out, reduction(32, r, least(t * 2, r), 0, persistent));
	if (out->n < MOST)
		add(k, dev, out, reduction(64, r, least(t / 2 ? t / 2 : 1, r), 0, persistent));
}

/* Updates in place: a thread a grid point, few of them. */
static void updates(const struct stx_kernel *k, const struct stx_gpu_device *dev,
		    struct stx_gpu_choices *out)
{
	for (uint32_t x = 64; x <= 256; x *= 2)
		add(k, dev, out,
		    (struct stx_gpu_config){ .x = x,
					     .y = 1,
					     .z = 1,
					     .r = 1,
					     .threads = x,
					     .row_threads = 1,
					     .inner = 1,
					     .vec = 1,
					     .vec_y = 1,
					     .cluster = 1 });
}

/* A thread a comparison of two, in the shorter rows. */
static void sorts(const struct stx_kernel *k, const struct stx_gpu_device *dev, uint32_t raxis,
		  struct stx_gpu_choices *out)
{
	uint32_t t = least(pow2_at_least(hint(k, raxis)) / 2, 1024);
	for (t = t < 32 ? 32 : t; t >= 32 && out->n < 3; t /= 2)
		add(k, dev, out,
		    (struct stx_gpu_config){ .x = 1,
					     .y = 1,
					     .z = 1,
					     .r = t,
					     .threads = t,
					     .row_threads = t,
					     .inner = 1,
					     .vec = 1,
					     .vec_y = 1,
					     .cluster = 1 });
}

void stx_tune_candidates(const struct stx_kernel *k, const struct stx_gpu_device *dev,
			 struct stx_gpu_choices *out)
{
	uint32_t ngrid = 0;
	memset(out, 0, sizeof *out);
	while (ngrid < k->axes.n && k->axes.at[ngrid].binding == STX_AXIS_GRID)
		ngrid++;
	if (ngrid == k->axes.n && ngrid == 1)
		lines(k, dev, out);
	else if (ngrid == k->axes.n)
		tiles(k, dev, ngrid, out);
	else if (stx_gpu_sorts(k))
		sorts(k, dev, ngrid, out);
	else if (!k->axes.at[ngrid].is_reduction)
		updates(k, dev, out);
	else if (stx_gpu_rows_axis(k) != STX_NONE)
		summed_rows(k, dev, ngrid, out);
	else if (along(k, ngrid, 0) >= along(k, 0, ngrid) || hint(k, 0) == 1)
		inner_rows(k, dev, ngrid, out);
	else
		outer_rows(k, dev, ngrid, out);
	if (!out->n) /* no rule fits: anything that does */
		out->n = stx_tune_space(k, dev, out->at, 1);
}

const struct stx_gpu_choices *stx_tune_schedule(const struct stx_schedule *s,
						const struct stx_gpu_device *dev)
{
	struct stx_gpu_choices *all =
		STX_NEW_ARRAY(s->loops->g->arena, struct stx_gpu_choices, s->kernels.n + 1);
	for (uint32_t i = 0; all && i < s->kernels.n; i++)
		stx_tune_candidates(s->kernels.at[i], dev, &all[i]);
	return all;
}
