/* kernel_axes_gpu.c: the axes of a GPU kernel (seed 003 9.2, 9.3; conformance GK-05, PW-01..PW-05).
 *
 * Output axes become one to three grid axes x, y, z whose points are elements; which block of them
 * an instance takes is a configuration, chosen later. Along x lanes read consecutive elements, so x
 * is the axis that the stores run along. A further axis is split off where it makes more bytes of
 * access coalesce than leaving it inside: each split is scored, the best wins, one axis wins a tie.
 * Axes that no tile dimension is worth are flattened into the outermost, by division. The reduction
 * axes are flattened into one. Shapes and layouts only. */
#include "axes_impl.h"

#define SMALLEST_TILE 16 /* elements of an axis below which a tile dimension is not worth it */

/* Bytes an element that lie next to those of the neighbouring lane when the n axes are tiled: an
 * access along any of them can be made coalesced. */
static uint64_t coalesced(struct chooser *c, const struct dim *const *tiled, uint32_t n)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < c->b->accesses.n; i++) {
		const struct stx__access *a = &c->b->accesses.at[i];
		int along = 0;
		if (!a->is_load && !a->is_store)
			continue;
		for (uint32_t j = 0; j < n; j++)
			along |= stx__stride_of(c->x, a->ex, tiled[j]->var) == 1;
		bytes += along ? a->bytes : 0;
	}
	return bytes;
}

static int is_tiled(const struct dim *d, const struct dim *const *tiled, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (tiled[i] == d)
			return 1;
	return 0;
}

/* The axis whose tiling beside the n already chosen gains most; NULL when none gains. */
static struct dim *next_tile(struct chooser *c, const struct dim **tiled, uint32_t n)
{
	struct dim *best = NULL;
	uint64_t most = coalesced(c, tiled, n);
	for (uint32_t i = c->nout; i-- > 0;) {
		if (is_tiled(&c->out[i], tiled, n) ||
		    stx__axis_hint(c->x, c->out[i].size) < SMALLEST_TILE)
			continue;
		tiled[n] = &c->out[i];
		uint64_t got = coalesced(c, tiled, n + 1);
		if (got > most) {
			most = got;
			best = &c->out[i];
		}
	}
	return best;
}

static void place(struct dim *d, stx_ex at)
{
	for (uint32_t r = 0; r < STX__MAX_ROWS; r++)
		d->at[r] = at;
}

/* t numbers the points of dims, the last one fastest: each is a part of it. */
static void divide(struct chooser *c, struct dim *const *dims, uint32_t n, stx_ex t)
{
	for (uint32_t i = n; i-- > 0;) {
		stx_ex size = stx__at_least_1(c->x, dims[i]->size);
		place(dims[i], i ? stx_ex_mod(c->x, t, size) : t);
		t = stx_ex_floordiv(c->x, t, size);
	}
}

/* One axis over all of dims. */
static void flatten(struct chooser *c, struct dim *const *dims, uint32_t n,
		    enum stx_binding binding, uint32_t *number)
{
	struct stx_exprs *x = c->x;
	stx_ex total = stx_ex_const(x, 1);
	for (uint32_t i = 0; i < n; i++)
		total = stx_ex_mul(
			x, total, dims[i]->is_red ? stx__axis_red_size(c, dims[i]) : dims[i]->size);
	divide(c, dims, n, stx__new_axis(c, total, binding, n && dims[0]->is_red, number));
}

/* An axis for each tiled dimension; the others go outside the last one. */
static void bind_output(struct chooser *c, const struct dim *const *tiled, uint32_t ntiled)
{
	struct stx__axes *a = &c->b->axes;
	uint32_t naxes = ntiled ? ntiled : 1, axis;
	a->grid = stx_ex_const(c->x, 1);
	for (uint32_t t = 0; t < naxes; t++) {
		struct dim *dims[STX__MAX_DIMS];
		uint32_t n = 0;
		for (uint32_t i = 0; i < c->nout && t + 1 == naxes; i++)
			if (!is_tiled(&c->out[i], tiled, ntiled))
				dims[n++] = &c->out[i];
		if (ntiled)
			dims[n++] = &c->out[tiled[t] - c->out];
		flatten(c, dims, n, STX_AXIS_GRID, &axis);
		a->axis[axis].name = stx_arena_printf(c->b->arena, "%c0", "xyz"[t]);
		a->grid = stx_ex_mul(c->x, a->grid, a->axis[axis].size);
	}
}

/* Rows whose columns are summed: a segment of them a grid point. */
static void bind_segments(struct chooser *c, const struct stx_buffer *sums)
{
	struct stx__axes *a = &c->b->axes;
	uint32_t number;
	a->segment = stx__new_axis(c, sums->ranges[0], STX_AXIS_GRID, 0, &number);
	a->grid = sums->ranges[0];
}

/* The loop over the rows of a segment; its number comes after that of the loop over a row. */
static void bind_segment_rows(struct chooser *c, const struct stx_buffer *sums)
{
	struct stx_exprs *x = c->x;
	struct stx__axes *a = &c->b->axes;
	struct dim *dims[STX__MAX_DIMS];
	stx_ex size = sums->rranges[0];
	if (sums->rlimit != STX_EX_BAD)
		size = stx_ex_min(x, size, stx_ex_subst(x, sums->rlimit, &a->segment, 1));
	a->segment_row = stx__new_axis(c, size, STX_AXIS_LOOP, 1, &a->nest[0]);
	for (uint32_t i = 0; i < c->nout; i++)
		dims[i] = &c->out[i];
	divide(c, dims, c->nout,
	       stx_ex_add(x, stx_ex_mul(x, a->segment, sums->rranges[0]), a->segment_row));
}

static int uses_any(struct chooser *c, stx_ex e, const struct dim *d, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (stx_ex_uses_var(c->x, e, d[i].var))
			return 1;
	return 0;
}

/* The reduction runs along lanes when its reads are next to each other in that direction; reads that
 * neighbouring points share and reads of one row of points, which are few, do not count. */
static int is_inner(struct chooser *c)
{
	uint64_t inner = 0, outer = 0;
	if (!c->nred || !c->nout)
		return 1;
	for (uint32_t i = 0; i < c->b->accesses.n; i++) {
		const struct stx__access *a = &c->b->accesses.at[i];
		if (!a->is_load || !a->is_lead ||
		    !stx_ex_uses_var(c->x, a->ex, c->out[c->nout - 1].var) ||
		    !uses_any(c, a->ex, c->red, c->nred))
			continue;
		inner += stx__stride_of(c->x, a->ex, c->red[c->nred - 1].var) == 1 ? a->bytes : 0;
		outer += stx__stride_of(c->x, a->ex, c->out[c->nout - 1].var) == 1 ? a->bytes : 0;
	}
	return inner >= outer;
}

void stx__axes_bind_gpu(struct chooser *c)
{
	struct stx__build *b = c->b;
	struct stx__axes *a = &b->axes;
	const struct dim *tiled[4];
	struct dim *red[STX__MAX_DIMS];
	const struct stx_buffer *sums =
		b->phases.columns ? b->def->buffers[b->phases.columns - 1] : NULL;
	uint32_t ntiled = 0, number;
	a->rows = 1;
	a->point_elems = 1;
	a->lanes = (uint8_t)(b->space->def == STX_DEF_REDUCTION && is_inner(c));
	if (c->nout)
		tiled[ntiled++] = &c->out[c->nout - 1];
	while (ntiled && ntiled < 3 && b->space->def == STX_DEF_POINTWISE) {
		const struct dim *next = next_tile(c, tiled, ntiled);
		if (!next)
			break;
		tiled[ntiled++] = next;
	}
	if (sums)
		bind_segments(c, sums);
	else
		bind_output(c, tiled, ntiled);
	a->nout = a->nnest = sums != NULL;
	if (b->space->def != STX_DEF_POINTWISE) {
		for (uint32_t i = 0; i < c->nred; i++)
			red[i] = &c->red[i];
		flatten(c, red, c->nred, STX_AXIS_LOOP, &number);
		a->axis[number].is_reduction = b->space->def == STX_DEF_REDUCTION;
		a->axis[number].name = "r0";
		a->nest[a->nnest++] = number;
	}
	if (sums)
		bind_segment_rows(c, sums);
	for (uint32_t r = 0; r < STX__MAX_ROWS; r++) {
		for (uint32_t i = 0; i < c->nout; i++)
			a->map[r][c->out[i].var] = c->out[i].at[r];
		for (uint32_t i = 0; i < c->nred; i++)
			a->map[r][c->red[i].var] = c->red[i].at[r];
	}
}
