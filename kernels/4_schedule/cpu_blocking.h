/* cpu_blocking.h
 * how large the tiles of a matrix product on the CPU are and how many of its terms are packed at
 * once: candidates, and the cost model that ranks them. Pure functions of their arguments. */
#ifndef STX_CPU_BLOCKING_H
#define STX_CPU_BLOCKING_H

#include "cpu_target.h"
#include "timing.h"

#define STX_BLOCK_WORDS 320 /* of a kernel that says nothing */
#define STX_BLOCK_LEAST 16
#define STX_BLOCK_MOST  4096

/* [rows, terms] x [terms, cols], `batch` times. All at least 1. */
struct stx_product_shape {
	int64_t rows, cols, terms, batch;
	int64_t line;   /* columns are lines of so many, as of a picture; they, or 1: one line */
	unsigned bytes; /* of a packed element, 4 or 8; narrower ones count as 4 */
	int is_thin;    /* one row, multiplied without packing */
	int rows_are_shared; /* the operand with the rows is the same for the whole batch */
};

struct stx_blocking {
	int64_t rows, cols; /* of a tile: one grid point */
	uint32_t words; /* terms that are packed at once, at most (of narrow operands: groups) */
};

/* Rows of a register tile: the most that registers hold, or fewer when the rows come out even.
 * is_narrow: its columns are one vector. */
unsigned stx_cpu_register_rows(int level, int64_t rows, int is_narrow);

/* Modelled time of one thread, in cycles, when the tiles are shared out. */
double stx_cpu_blocking_cost(const struct stx_cpu_target *t, const struct stx_product_shape *p,
			     const struct stx_blocking *b);

#define STX_MOST_BLOCKINGS 168 /* there are */
#define STX_BLOCKINGS      8   /* worth measuring */
/* Candidates, the cheapest first; at least one. No choice changes a result. */
unsigned stx_cpu_blockings(const struct stx_cpu_target *t, const struct stx_product_shape *p,
			   struct stx_blocking out[STX_MOST_BLOCKINGS]);

/* ---- what measurements are known by (cpu_product.c) ---- */

#define STX_PRODUCT_BYTES 192

/* A product as the scheduler cut it. */
struct stx_cut_product {
	struct stx_product_shape shape;
	/* "2048x512x1024 batch 1 line 1 bytes 4 shared : ..." the shape, then what else its time
	 * depends on: types of its operands and how they lie in memory. */
	char text[STX_PRODUCT_BYTES];
	struct stx_blocking b;
	int is_given; /* not the first by the model */
};
void stx_product_print(const struct stx_product_shape *p, char out[STX_PRODUCT_BYTES]);
/* The shape a text begins with; INVALID: it does not, or with one that no scheduler prints. */
stx_err stx_product_parse(const char *text, size_t n, struct stx_product_shape *out,
			  struct stx_diag *d);
/* "228x512x320": rows, columns, terms that are packed at once. */
void stx_blocking_print(const struct stx_blocking *b, char out[STX_CONFIG_BYTES]);
/* Fills p->b: the given choice for p->text, when it is one of the n candidates, else their
 * first. */
void stx_cut_choose(struct stx_cut_product *p, const struct stx_blocking *all, unsigned n,
		    const struct stx_choices *given);

#endif
