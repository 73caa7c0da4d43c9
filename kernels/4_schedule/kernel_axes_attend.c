/* kernel_axes_attend.c: axes of attention on the CPU. A grid point is a block of queries of one
 * head; inside it a loop over queries, a vector loop over the value's columns, a loop over keys and,
 * where the scores are a product, one over its terms. The emitter's blocks and lanes are its own
 * (5_codegen/emit_llvm_attend.c); the order of the sums over keys is BLOCKS, that of a score PLAIN. */
#include "axes_impl.h"

#define BLOCK_ROWS  128 /* queries of a grid point at most */
#define LEAST_ROWS  32  /* and at least, while threads have none */
#define MANY_POINTS 16

static int64_t size_of(const struct chooser *c, stx_ex e)
{
	return stx__axis_hint(c->x, e);
}

/* Even blocks, multiples of LEAST_ROWS. */
static int64_t block_rows(const struct chooser *c)
{
	const struct stx_buffer *b = c->b->space;
	int64_t rows = size_of(c, b->ranges[b->nranges - 2]), batch = 1, most = BLOCK_ROWS;
	for (uint32_t i = 0; i + 2 < b->nranges; i++)
		batch = stx_sat_mul(batch, size_of(c, b->ranges[i]));
	while (most > LEAST_ROWS && stx_sat_mul(batch, (rows - 1) / most + 1) < MANY_POINTS)
		most /= 2;
	int64_t parts = (rows - 1) / most + 1, each = (rows - 1) / parts + 1;
	return (each + LEAST_ROWS - 1) / LEAST_ROWS * LEAST_ROWS;
}

static stx_ex take(struct chooser *c, stx_ex *t, stx_ex count, int is_last)
{
	stx_ex at = is_last ? *t : stx_ex_mod(c->x, *t, count);
	*t = stx_ex_floordiv(c->x, *t, count);
	return at;
}

static stx_ex loop(struct chooser *c, stx_ex size, enum stx_binding binding, int is_red)
{
	struct stx__axes *a = &c->b->axes;
	uint32_t number;
	stx_ex at = stx__new_axis(c, size, binding, is_red, &number);
	a->nest[a->nnest++] = number;
	return at;
}

int stx__axes_bind_attend(struct chooser *c)
{
	struct stx__axes *a = &c->b->axes;
	struct stx_exprs *x = c->x;
	const struct stx_buffer *b = c->b->space;
	const struct stx__scores *s = c->b->def->scores;
	uint32_t row = b->nranges - 2, number;
	int64_t most;
	if (b->def != STX_DEF_REDUCTION || b->monoid != STX_MONOID_ATTEND)
		return 0;
	most = block_rows(c);
	stx_ex rows = b->ranges[row], blocks = stx_ex_ceildiv(x, rows, stx_ex_const(x, most));
	stx_ex total = blocks;
	for (uint32_t i = 0; i < row; i++)
		total = stx_ex_mul(x, total, b->ranges[i]);
	a->rows = 1;
	a->grid = total;
	stx_ex g = stx__new_axis(c, total, STX_AXIS_GRID, 0, &number);
	/* one head's blocks of queries follow each other: its keys stay in the cache */
	stx_ex first = stx_ex_muli(x, take(c, &g, blocks, row == 0), most);
	for (uint32_t i = row; i-- > 0;)
		a->map[0][i] = take(c, &g, b->ranges[i], i == 0);
	stx_ex left = stx_ex_sub(x, rows, first);
	if (stx_ex_interval(x, rows).hi > most)
		rows = stx_ex_min(x, stx_ex_const(x, most), left);
	a->map[0][row] = stx_ex_add(x, first, loop(c, rows, STX_AXIS_LOOP, 0));
	a->map[0][row + 1] = loop(c, b->ranges[row + 1], STX_AXIS_VECTOR, 0);
	a->nout = a->nnest;
	a->map[0][b->nranges] = loop(c, b->rranges[0], STX_AXIS_LOOP, 1);
	a->attends = 1;
	/* products, and some 20 for a score and its exponential */
	int64_t each = size_of(c, b->ranges[row + 1]) + 20;
	if (s)
		each += size_of(c, s->product->rranges[0]);
	a->point_elems = stx_sat_mul(
		size_of(c, b->rranges[0]),
		stx_sat_mul(most < size_of(c, b->ranges[row]) ? most : size_of(c, b->ranges[row]),
			    each));
	if (s) /* after all variables of b */
		a->term = loop(c, s->product->rranges[0], STX_AXIS_LOOP, 1);
	return 1;
}
