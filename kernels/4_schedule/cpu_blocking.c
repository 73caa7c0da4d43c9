/* cpu_blocking.c: the blocking of matrix products on the CPU, by a model of their time.
 *
 * What a tile does (5_codegen/emit_llvm_tile.c): for each block of KC terms it packs its rows (A)
 * and its columns (B), then goes over panels of NR columns, and inside over panels of MR rows, with
 * the sums of MR by NR in registers. The operand that neighbouring tiles share stays packed. Every
 * sum takes its terms in order whatever the blocks, so all candidates give the same bits.
 *
 * The model adds cycles of one core:
 *
 *	multiply  two FMA a cycle, rows and columns rounded up to registers and vectors
 *	edges     of each register tile and block: EDGE cycles to begin, sums to and from the scratch
 *	pack      PACK_A, PACK_B cycles a byte; PACK_TORN where tiles begin inside lines of a picture,
 *	          so that addresses are no longer linear
 *	L1        a panel of B is read again for each MR rows: from L2 where it and two parts of A
 *	          do not fit in L1
 *	L2        the block of A is read again for each panel of B: from L3 where it, the panel and
 *	          the panel to come do not fit in L2; the sums between blocks likewise
 *	L3        the packed columns are read again by each tile: from L2, L3 or memory, whichever
 *	          holds them
 *
 * and multiplies by what waits: the mean, over 1, 2, 4, 8 and 16 threads, of the tiles of the busiest
 * thread times threads, over all tiles. How many threads run is not known.
 *
 * A working set that is larger than a cache misses in part: from none at its size to all at twice
 * that. FROM_* are cycles a byte that multiplying does not hide; hardware and the code fetch these
 * streams ahead, so they are far below what the caches take. PACK_A and PACK_B are from
 * tests/bench/bench_prepare.c: packing is a twentieth of the time at 544 rows, 256 columns. EDGE is
 * from convolutions, whose blocks of 128 terms took 15% more than blocks of 288. The others are
 * estimates. With one thread (tests/bench/bench_cpu.py, 2026-11-30, an x86-64-v4 with 32K-1M-16M) the
 * first choice is as fast as 240 rows, 512 columns and 320 terms at most were, within 1.5%, for products
 * of 2048 and of 64x1024x1024 and convolutions of 3x3 and 7x7, and 3% slower for 4096. */
#include "cpu_blocking.h"

#include <stdlib.h>

#define TILE_ROW   12 /* rows of all register tiles divide it */
#define TILE_COL   32
#define VECTOR     16 /* elements, at most */
#define LEAST_ROWS 60
#define LEAST_COLS 128
#define MOST_COLS  1024
#define THIN_COLS  512 /* of one row's tile: shorter pieces of rows begin in too many pages */
#define NV         2   /* vectors of a register tile */
#define MOST_KEPT  ((double)((int64_t)8 << 20)) /* bytes that stay packed, emit_llvm_tile_form.c */

#define FMA_RATE    2.0
#define EDGE        120.0
#define NARROW      0.2 /* of a vector, that multiplying one alone takes more */
#define PACK_A      0.1
#define PACK_B      0.2
#define PACK_TORN   0.7
#define FROM_L2     0.003
#define FROM_L3     0.03
#define FROM_MEMORY 0.15

static int64_t ceil_div(int64_t n, int64_t by)
{
	return (n - 1) / by + 1;
}

/* Even parts of n, at most `most`, each a multiple of `unit`. */
static int64_t even(int64_t n, int64_t most, int64_t unit)
{
	int64_t each = ceil_div(n, ceil_div(n, most));
	return ceil_div(each, unit) * unit;
}

unsigned stx_cpu_register_rows(int level, int64_t rows, int is_narrow)
{
	unsigned most = (level >= 4 ? 12 : level == 3 ? 6 : 4) * (is_narrow ? NV : 1), best = most;
	for (unsigned r = most; r > most / 2; r--)
		if (ceil_div(rows, r) * r < ceil_div(rows, best) * best)
			best = r;
	return rows < best ? (unsigned)rows : best;
}

/* ---- the model ---- */

/* The share of a set of `bytes` that a cache of `size` does not hold while it is gone through. */
static double missing(double bytes, double size)
{
	double over = (bytes - size) / size;
	return over <= 0 ? 0 : over >= 1 ? 1 : over;
}

static double waiting(double tiles)
{
	double sum = 0;
	for (int64_t threads = 1; threads <= 16; threads *= 2) {
		int64_t n = tiles > 1e9 ? (int64_t)1000000000 : (int64_t)tiles;
		sum += (double)(ceil_div(n, threads) * threads) / (double)n;
	}
	return sum / 5;
}

/* A tile, on average over all: the last ones are smaller. */
struct average {
	double rows, cols;    /* that exist */
	double panels;        /* of rows */
	double vectors;       /* of columns */
	double blocks, words; /* of terms */
	double mr, nr, bytes;
};

/* Of columns; one that has no other beside it counts more. */
static double vectors(int64_t cols, int64_t w)
{
	int64_t n = ceil_div(cols, w);
	return (double)n + (n % NV ? NARROW : 0);
}

static struct average average_of(const struct stx_cpu_target *t, const struct stx_product_shape *p,
				 const struct stx_blocking *b)
{
	int64_t w = (int64_t)t->vector_bytes / (int64_t)p->bytes;
	int is_narrow = p->cols <= w || b->cols <= w;
	int64_t mr = stx_cpu_register_rows(
		t->level, p->rows <= b->rows ? p->rows : TILE_ROW * (is_narrow ? NV : 1),
		is_narrow);
	int64_t down = ceil_div(p->rows, b->rows), across = ceil_div(p->cols, b->cols);
	int64_t rows = p->rows - (down - 1) * b->rows, cols = p->cols - (across - 1) * b->cols;
	int64_t blocks = ceil_div(p->terms, b->words);
	return (struct average){
		.rows = (double)p->rows / (double)down,
		.cols = (double)p->cols / (double)across,
		.panels = (double)((down - 1) * ceil_div(b->rows, mr) + ceil_div(rows, mr)) /
			  (double)down,
		.vectors = ((double)(across - 1) * vectors(b->cols, w) + vectors(cols, w)) /
			   (double)across,
		.blocks = (double)blocks,
		.words = (double)ceil_div(p->terms, blocks),
		.mr = (double)mr,
		.nr = (double)(NV * w),
		.bytes = (double)p->bytes,
	};
}

/* Cycles of packing a tile's operands; the one that is kept, once in `reused` tiles. */
static double packing(const struct average *a, double terms, int keeps_rows, double reused,
		      int is_torn)
{
	double rows = a->rows * terms * a->bytes, cols = a->cols * terms * a->bytes;
	double *kept = keeps_rows ? &rows : &cols;
	if (*kept <= MOST_KEPT)
		*kept /= reused;
	return rows * PACK_A + cols * (is_torn ? PACK_TORN : PACK_B);
}

/* Cycles of a tile's reads that miss. */
static double misses(const struct stx_cpu_caches *c, const struct average *a, double terms)
{
	double part = a->mr * a->words * a->bytes, panel = a->nr * a->words * a->bytes,
	       rows = a->rows * a->words * a->bytes, cols = a->cols * terms * a->bytes,
	       sums = a->blocks > 1 ? a->rows * a->cols * a->bytes : 0,
	       between = rows + cols / a->blocks + sums; /* two uses of a sum */
	double panels = a->vectors / NV;                 /* of columns */
	double l1 = a->blocks * panels * a->panels * panel * missing(panel + 2 * part, c->l1);
	double l2 = a->blocks * panels * rows * missing(rows + 2 * panel, c->l2) +
		    2 * (a->blocks - 1) * sums * missing(between, c->l2);
	double far = missing(cols + rows + sums, c->l2);
	double memory = missing(cols + rows + sums, c->l3);
	return l1 * FROM_L2 + l2 * FROM_L3 +
	       cols * (far * FROM_L3 + memory * (FROM_MEMORY - FROM_L3));
}

double stx_cpu_blocking_cost(const struct stx_cpu_target *t, const struct stx_product_shape *p,
			     const struct stx_blocking *b)
{
	struct average a = average_of(t, p, b);
	double down = (double)ceil_div(p->rows, b->rows),
	       across = (double)ceil_div(p->cols, b->cols);
	double tiles = down * across * (double)p->batch, terms = (double)p->terms;
	int keeps_rows = p->rows_are_shared && b->rows > b->cols;
	double cycles = a.panels * a.mr * a.vectors * terms / FMA_RATE;
	double ends = a.blocks * a.panels * a.vectors / NV;
	cycles += ends * (EDGE + (a.blocks > 1 ? 1.5 : 0.5) * a.mr * NV);
	if (!p->is_thin) {
		cycles += packing(&a, terms, keeps_rows,
				  keeps_rows ? across * (double)p->batch : down,
				  b->cols < p->cols && p->line > 1 && b->cols % p->line);
		cycles += misses(&t->caches, &a, terms);
	}
	return cycles * tiles * waiting(tiles);
}

/* ---- candidates ---- */

struct ranked {
	struct stx_blocking b;
	double cost;
	unsigned number;
};

static int by_cost(const void *p, const void *q)
{
	const struct ranked *a = p, *b = q;
	if (a->cost != b->cost)
		return a->cost < b->cost ? -1 : 1;
	return a->number < b->number ? -1 : 1;
}

/* Candidates of rows by columns: one for each number of blocks. */
static unsigned add_words(const struct stx_cpu_target *t, const struct stx_product_shape *p,
			  int64_t rows, int64_t cols, struct ranked *all, unsigned n)
{
	static const uint32_t words[] = { STX_BLOCK_WORDS, 256, 192 };
	int64_t blocks = 0;
	for (unsigned k = 0; k < sizeof words / sizeof *words; k++) {
		if (ceil_div(p->terms, words[k]) == blocks)
			continue;
		blocks = ceil_div(p->terms, words[k]);
		all[n] = (struct ranked){ { rows, cols, words[k] }, 0, n };
		all[n].cost = stx_cpu_blocking_cost(t, p, &all[n].b);
		n++;
	}
	return n;
}

/* The fewest lines that fill their vectors but for a thirty-second, where those are not too long;
 * else TILE_COL. */
static int64_t line_unit(int64_t line)
{
	for (int64_t unit = line; line > 1 && unit <= MOST_COLS; unit += line)
		if (32 * (ceil_div(unit, VECTOR) * VECTOR - unit) <= unit)
			return unit;
	return TILE_COL;
}

unsigned stx_cpu_blockings(const struct stx_cpu_target *t, const struct stx_product_shape *p,
			   struct stx_blocking out[STX_MOST_BLOCKINGS])
{
	static const int64_t rows[] = { 480, 360, 240, 180, 132, 96, 72, LEAST_ROWS };
	static const int64_t cols[] = { MOST_COLS, 768, 512, 384, 256, 192, LEAST_COLS };
	struct ranked all[STX_MOST_BLOCKINGS];
	int64_t r = 0, unit = line_unit(p->line);
	unsigned n = 0;
	for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
		int64_t was_r = r, c = 0;
		r = even(p->rows, rows[i], TILE_ROW);
		if (r < LEAST_ROWS && r < p->rows)
			break;
		for (unsigned j = 0; r != was_r && j < sizeof cols / sizeof *cols; j++) {
			int64_t was = c;
			if (p->is_thin && cols[j] < THIN_COLS)
				break;
			c = even(p->cols, cols[j], unit);
			if (c != was)
				n = add_words(t, p, r, c, all, n);
		}
	}
	qsort(all, n, sizeof *all, by_cost);
	for (unsigned i = 0; i < n; i++)
		out[i] = all[i].b;
	return n;
}
