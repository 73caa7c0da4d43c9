/* kernel_axes.c: loop normalisation and the binding of axes (seed 000 6.8; conformance LN, GK-15).
 *
 * Axes of the output and of the reduction are each ordered by stride, smallest innermost (LN-06),
 * merged where every address stays the same (Proposition 6.3), and bound: one axis to vector lanes,
 * the one on which the body runs cheapest; the other output axes and the chunks of a long vector
 * axis to the grid; the other reduction axes to serial loops. With reductions the first one alone
 * decides the order of axes and which is the vector: what else is in the kernel never changes the
 * order of a sum. Pointwise work across the vector axis is done in tiles. Matmul-like reductions
 * take several output rows at a time, so that one load serves several accumulators; large ones are
 * kernel_axes_tile.c's. */
#include "axes_impl.h"

#define CACHE_LINE 64 /* bytes */
#define TILE_COLUMNS                                                                               \
	128            /* measured for 4096x4096: 128 by four lines, of 16 to 256 by one to four */
#define TILE_RUN   256 /* bytes of a line that a tile reads across */
#define SCAN_ROWS  4   /* that hide each other's latencies */
#define TILE_LEAST 16  /* parts of a tile's sides are multiples of it */
#define GATHERED   16  /* of a load whose lanes are apart: 4 is that of a contiguous one */

stx_ex stx__at_least_1(struct stx_exprs *x, stx_ex e)
{
	return stx_ex_interval(x, e).lo >= 1 ? e : stx_ex_max(x, e, stx_ex_const(x, 1));
}

int64_t stx__axis_hint(const struct stx_exprs *x, stx_ex e)
{
	int64_t h = stx_ex_hint(x, e);
	return h < 1 ? 1 : h;
}

/* ---- ordering ---- */

/* |coefficient| of var in e at the hints; a large number when e is not linear in it. */
uint64_t stx__stride_of(struct stx_exprs *x, stx_ex e, uint32_t var)
{
	stx_ex coeff, rest;
	if (!stx_ex_uses_var(x, e, var))
		return 0;
	if (!stx_ex_linear_in(x, e, var, &coeff, &rest))
		return (uint64_t)1 << 40;
	int64_t h = stx_ex_hint(x, coeff);
	return h < 0 ? 0 - (uint64_t)h : (uint64_t)h;
}

static void set_keys(struct chooser *c, struct dim *d)
{
	struct stx__build *b = c->b;
	int seen_store = 0;
	for (uint32_t i = 0; i < b->accesses.n; i++) {
		const struct stx__access *a = &b->accesses.at[i];
		if (!a->is_lead)
			continue;
		uint64_t s = stx__stride_of(c->x, a->ex, d->var);
		if (a->is_store && !d->is_red && !seen_store) {
			d->key[0] = s;
			seen_store = 1;
		}
		if (s > ((uint64_t)1 << 50) || d->key[1] > ((uint64_t)1 << 60))
			s = (uint64_t)1 << 50;
		if (a->is_load || a->is_store)
			d->key[1] += s;
	}
}

static int before(const struct dim *p, const struct dim *q)
{
	return p->key[0] != q->key[0] ? p->key[0] > q->key[0] : p->key[1] > q->key[1];
}

/* Stable insertion sort: axes are few. */
static void order(struct dim *d, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++) {
		struct dim t = d[i];
		uint32_t j = i;
		for (; j > 0 && before(&t, &d[j - 1]); j--)
			d[j] = d[j - 1];
		d[j] = t;
	}
}

/* ---- merging ---- */

/* In every sum inside e, terms in `outer` are size times those in `inner`, and neither stands in a
 * product with anything else. Recursion is bounded by the nesting limit of expressions. */
static int may_merge(struct stx_exprs *x, stx_ex e, uint32_t outer, uint32_t inner, stx_ex size)
{
	if (!stx_ex_uses_var(x, e, outer) && !stx_ex_uses_var(x, e, inner))
		return 1;
	stx_ex co = stx_ex_const(x, 0), ci = co;
	uint32_t n = stx_ex_nterms(x, e);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(x, e, i);
		stx_ex others = stx_ex_const(x, t.coeff);
		int hit = -1;
		for (uint32_t j = 0; j < t.natoms; j++) {
			struct stx_ex_atom a = stx_ex_atom_at(x, t.atoms[j]);
			int mine =
				a.kind == STX_ATOM_VAR && (a.number == outer || a.number == inner);
			if (mine && hit >= 0)
				return 0;
			if (mine) {
				hit = a.number == outer;
			} else if (a.kind == STX_ATOM_SYM) {
				others = stx_ex_mul(x, others,
						    stx_ex_sym(x, a.number, a.range, a.hint));
			} else if (a.kind >= STX_ATOM_FLOORDIV) {
				if (!may_merge(x, a.a, outer, inner, size) ||
				    !may_merge(x, a.b, outer, inner, size))
					return 0;
				others = STX_EX_BAD;
			} else {
				others = STX_EX_BAD;
			}
		}
		if (hit >= 0 && others == STX_EX_BAD)
			return 0;
		if (hit == 1)
			co = stx_ex_add(x, co, others);
		else if (hit == 0)
			ci = stx_ex_add(x, ci, others);
	}
	return co != STX_EX_BAD && co == stx_ex_mul(x, ci, size);
}

/* Of an index that is only compared with constants: outer itself may, once and for all as the outermost
 * of what it is merged with, for there x < k is X < k * size of the rest. */
static int may_merge_bound(struct chooser *c, stx_ex e, const struct dim *outer,
			   const struct dim *inner)
{
	const struct stx__axes *a = &c->b->axes;
	uint32_t var;
	int64_t plus;
	if (!stx__var_plus(c->x, e, &var, &plus))
		return may_merge(c->x, e, outer->var, inner->var, inner->size);
	if (var == outer->var)
		return stx_ex_is_const(c->x, inner->size, NULL);
	return var != inner->var &&
	       (a->bound_by[var] == STX_EX_BAD || a->bound_in[var] != inner->var);
}

static int all_may_merge(struct chooser *c, const struct dim *outer, const struct dim *inner)
{
	for (uint32_t i = 0; i < c->b->accesses.n; i++) {
		const struct stx__access *a = &c->b->accesses.at[i];
		if (a->is_bound ? !may_merge_bound(c, a->ex, outer, inner)
				: !may_merge(c->x, a->ex, outer->var, inner->var, inner->size))
			return 0;
	}
	return 1;
}

/* The end of its loop depends on the segment (RD-27). */
static int is_limited(const struct chooser *c, const struct dim *d)
{
	return d->is_red && d->var == c->b->nout_dims && c->b->space->rlimit != STX_EX_BAD;
}

/* Innermost first; an absorbed variable becomes 0. Returns the new count. */
static uint32_t merge(struct chooser *c, struct dim *d, uint32_t n)
{
	uint32_t kept = n ? 1 : 0; /* kept dims stand at the end of the array */
	for (uint32_t i = n; i-- > 1;) {
		struct dim *inner = &d[n - kept], *outer = &d[i - 1];
		stx_ex size = stx_ex_mul(c->x, outer->size, inner->size);
		if (size != STX_EX_BAD && !is_limited(c, outer) && !is_limited(c, inner) &&
		    all_may_merge(c, outer, inner)) {
			c->b->axes.bound_in[outer->var] = inner->var;
			c->b->axes.bound_by[outer->var] = inner->size;
			inner->size = size;
			for (uint32_t r = 0; r < STX__MAX_ROWS; r++)
				c->b->axes.map[r][outer->var] = c->zero;
			continue;
		}
		kept++;
		d[n - kept] = *outer;
	}
	memmove(d, d + (n - kept), kept * sizeof *d);
	return kept;
}

void stx__axes_collect(struct chooser *c)
{
	struct stx__build *b = c->b;
	const struct stx_buffer *s = b->space;
	for (uint32_t v = 0; v < b->nout_dims + b->nred_dims; v++) {
		int red = v >= b->nout_dims;
		struct dim d = { .var = v, .is_red = (uint8_t)red };
		d.size = red ? s->rranges[v - b->nout_dims] : s->ranges[v];
		for (uint32_t r = 0; r < STX__MAX_ROWS; r++)
			b->axes.map[r][v] = c->zero;
		if (stx_ex_equals(c->x, d.size, 1))
			continue;
		set_keys(c, &d);
		if (red)
			c->red[c->nred++] = d;
		else
			c->out[c->nout++] = d;
	}
	if (!b->phases.columns) /* else rows are numbered as their segments number them */
		order(c->out, c->nout);
	/* on the CPU the terms of a product are added as it lists them, wherever they lie */
	if (b->def->target_gpu || s->def != STX_DEF_REDUCTION || s->monoid != STX_MONOID_DOT)
		order(c->red, c->nred);
	c->nout = merge(c, c->out, c->nout);
	c->nred = merge(c, c->red, c->nred);
}

/* ---- the vector axis ---- */

/* A load that tiles can transpose when d is the vector axis: it is contiguous along another one. */
static int is_across(struct chooser *c, const struct dim *d, const struct stx__access *a)
{
	if (c->b->space->def != STX_DEF_POINTWISE || !a->is_load)
		return 0;
	for (uint32_t i = 0; i < c->nout; i++)
		if (&c->out[i] != d && stx__axis_hint(c->x, c->out[i].size) >= 8 &&
		    stx__stride_of(c->x, a->ex, c->out[i].var) == 1)
			return 1;
	return 0;
}

/* Cost of one element when d is the vector axis, times 64. Gathers weigh 8 contiguous accesses,
 * transposed loads 2; short axes waste lanes; merging the 64 lanes of a reduction costs as much as
 * some 500 operations. */
static uint64_t vector_cost(struct chooser *c, const struct dim *d)
{
	struct stx__build *b = c->b;
	uint64_t per = b->lead_nops < 1000 ? b->lead_nops : 1000,
		 n = (uint64_t)stx__axis_hint(c->x, d->size);
	for (uint32_t i = 0; i < b->accesses.n; i++) {
		const struct stx__access *a = &b->accesses.at[i];
		if (!a->is_lead || (!a->is_load && !(a->is_store && !d->is_red)))
			continue;
		if (a->is_again && b->space->def == STX_DEF_POINTWISE)
			continue;
		uint64_t s = stx__stride_of(c->x, a->ex, d->var);
		per += s == 0 ? 4 : s == 1 ? 8 : is_across(c, d, a) ? 16 : 64;
	}
	if (n > (uint64_t)1 << 32)
		n = (uint64_t)1 << 32;
	uint64_t cost = per * 64 * ((n + 15) / 16 * 16) / n;
	return d->is_red ? cost + 512 * 64 / n : cost;
}

/* Updates stay in order, and lanes pay only where they write neighbours. */
static int may_be_vector(struct chooser *c, const struct dim *d)
{
	const struct stx_buffer *s = c->b->space;
	return (s->def != STX_DEF_SCATTER && s->def != STX_DEF_SCAN) ||
	       (!d->is_red && stx__stride_of(c->x, s->store, d->var) == 1);
}

static void choose_vector(struct chooser *c)
{
	uint64_t best = UINT64_MAX;
	for (uint32_t pass = 0; pass < 2u - c->b->space->is_merge; pass++) {
		struct dim *d = pass ? c->red : c->out;
		for (uint32_t i = pass ? c->nred : c->nout; i-- > 0;) {
			uint64_t cost = vector_cost(c, &d[i]);
			if (cost < best && may_be_vector(c, &d[i])) {
				best = cost;
				c->vector = &d[i];
			}
		}
	}
	c->b->axes.lanes = c->vector && c->vector->is_red;
}

/* ---- rows ---- */

/* What one read of a for several rows saves: most where it gathers lanes, then if it is a vector. */
static uint32_t saving(struct chooser *c, const struct stx__access *a)
{
	uint64_t step = stx__stride_of(c->x, a->ex, c->vector->var);
	return !step ? 1 : step == 1 || !c->b->axes.lanes ? 4 : GATHERED;
}

/* The output axis to block: some load does not depend on it, best one that runs along the vector
 * axis. Of equals the shorter: it will be the fastest of the grid, so what depends on it is read
 * again and again. */
static void choose_row(struct chooser *c)
{
	struct stx__build *b = c->b;
	uint32_t best = 0;
	c->b->axes.rows = 1;
	if (b->space->def == STX_DEF_SCAN && !c->vector && c->nout)
		c->row = &c->out[c->nout - 1];
	if (b->space->def != STX_DEF_REDUCTION || b->space->monoid != STX_MONOID_DOT || !c->vector)
		return;
	for (uint32_t i = c->nout; i-- > 0;) {
		struct dim *d = &c->out[i];
		uint32_t score = 0, most = 0;
		if (d == c->vector)
			continue;
		for (uint32_t j = 0; j < b->accesses.n; j++) {
			const struct stx__access *a = &b->accesses.at[j];
			if (!a->is_load || stx_ex_uses_var(c->x, a->ex, d->var))
				continue;
			uint32_t saved = saving(c, a);
			score += saved;
			most = saved > most ? saved : most;
		}
		if (score > best ||
		    (score && score == best &&
		     stx__axis_hint(c->x, d->size) < stx__axis_hint(c->x, c->row->size))) {
			best = score;
			c->row = d;
			c->is_gathered = most == GATHERED;
		}
	}
}

/* ---- tiles ---- */

/* Even parts of at most `most`: the last one is not a narrow strip. */
static int64_t even(struct chooser *c, stx_ex size, int64_t most)
{
	int64_t n;
	if (!stx_ex_is_const(c->x, size, &n) || n < 1)
		return most;
	int64_t pieces = (n - 1) / most + 1;
	return ((n - 1) / pieces + TILE_LEAST) / TILE_LEAST * TILE_LEAST;
}

/* Pointwise work that some load runs across: along the vector axis it strides over whole cache
 * lines, along another axis it is contiguous. Then a grid point is TILE_RUN of that axis by
 * TILE_COLUMNS: the emitter transposes such a tile (5_codegen/emit_llvm_across.c). */
static void choose_tile(struct chooser *c)
{
	struct stx__build *b = c->b;
	if (b->space->def != STX_DEF_POINTWISE || !c->vector ||
	    stx__axis_hint(c->x, c->vector->size) < 16)
		return;
	for (uint32_t i = c->nout; i-- > 0 && !c->tile;) {
		struct dim *d = &c->out[i];
		if (d == c->vector || stx__axis_hint(c->x, d->size) < 8)
			continue;
		for (uint32_t j = 0; j < b->accesses.n && !c->tile; j++) {
			const struct stx__access *a = &b->accesses.at[j];
			uint64_t bytes = a->bytes ? a->bytes : 1;
			if (a->is_load && stx__stride_of(c->x, a->ex, d->var) == 1 &&
			    stx__stride_of(c->x, a->ex, c->vector->var) * bytes >= CACHE_LINE) {
				c->tile = d;
				c->tile_rows = even(c, d->size, TILE_RUN / (int64_t)bytes);
			}
		}
	}
}

/* Rows that share a gathered load: the lanes of all of them stay in registers. */
static uint32_t gathered_rows(const struct chooser *c)
{
	return stx_dtype_bytes(c->b->space->acc) <= 4 ? 4 : 2;
}

/* How many rows at a time: a divisor where there is one, else the last block repeats its last row.
 */
static uint32_t row_count(struct chooser *c)
{
	int64_t m;
	uint32_t most = c->is_gathered                     ? gathered_rows(c)
			: c->b->axes.lanes                 ? 2
			: c->b->space->def == STX_DEF_SCAN ? SCAN_ROWS
			: c->b->lead_nops <= 16            ? 8
							   : 4;
	if (!stx_ex_is_const(c->x, c->row->size, &m))
		return most;
	if (m <= most)
		return m < 1 ? 1 : (uint32_t)m;
	for (uint32_t r = most; r * 2 >= most && r > 1; r--)
		if (m % r == 0)
			return r;
	return most;
}

static void place_rows(struct chooser *c, stx_ex block)
{
	struct stx_exprs *x = c->x;
	struct stx__axes *a = &c->b->axes;
	int64_t m;
	int exact = stx_ex_is_const(x, c->row->size, &m) && m % a->rows == 0;
	stx_ex last = stx_ex_addi(x, c->row->size, -1);
	for (uint32_t r = 0; r < a->rows; r++) {
		stx_ex e = stx_ex_addi(x, stx_ex_muli(x, block, a->rows), r);
		c->row->at[r] = exact || r == 0 ? e : stx_ex_min(x, e, last);
	}
}

/* ---- building the axes ---- */

stx_ex stx__new_axis(struct chooser *c, stx_ex size, enum stx_binding binding, int is_red,
		     uint32_t *number)
{
	struct stx__axes *a = &c->b->axes;
	uint32_t reds = 0;
	for (uint32_t i = 0; i < a->naxes; i++)
		reds += a->axis[i].is_reduction;
	*number = a->naxes;
	a->axis[a->naxes] =
		(struct stx_axis){ .name = stx_arena_printf(c->b->arena, "%c%u", is_red ? 'r' : 'x',
							    is_red ? reds : a->naxes),
				   .size = size,
				   .binding = binding,
				   .is_reduction = (uint8_t)is_red,
				   .var = a->naxes };
	a->naxes++;
	return stx_ex_var(c->x, *number, size);
}

/* A sum down columns: all columns of a row are read at once (5_codegen/emit_llvm_columns.c), and
 * long ones are cut (split.c), so that few grid points do not starve threads. */
static int sums_columns(const struct chooser *c)
{
	const struct stx_buffer *s = c->b->space;
	return s->def == STX_DEF_REDUCTION && s->monoid == STX_MONOID_SUM && !s->is_merge &&
	       stx_dtype_is_float(s->acc) && c->b->def->n == 1;
}

/* Elements of a chunk of the vector axis: shapes only. 0: not cut. */
static int64_t chunk_of(struct chooser *c)
{
	int64_t n, most = c->tile            ? TILE_COLUMNS
			  : sums_columns(c)  ? 1024
			  : c->b->nred_dims  ? 64
			  : c->b->nops >= 32 ? 1024
					     : 4096;
	struct stx_interval r = stx_ex_interval(c->x, c->vector->size);
	if (r.hi <= most)
		return 0;
	if (c->tile)
		return even(c, c->vector->size, most);
	if (!stx_ex_is_const(c->x, c->vector->size, &n))
		return most;
	int64_t pieces = (n - 1) / most + 1;
	return ((n - 1) / pieces + 64) / 64 * 64; /* even pieces, whole cache lines */
}

struct factor { /* of the grid, outermost first */
	struct dim *dim;
	stx_ex count;
	int is_chunk;
};

static uint32_t grid_factors(struct chooser *c, int64_t chunk, struct factor *f)
{
	struct stx_exprs *x = c->x;
	uint32_t n = 0;
	struct factor row = { 0 }, tile = { 0 };
	for (uint32_t i = 0; i < c->nout; i++) {
		struct dim *d = &c->out[i];
		stx_ex rows = stx_ex_ceildiv(x, d->size, stx_ex_const(x, c->b->axes.rows));
		if (d == c->row && c->is_gathered) /* in its place: other columns by these rows follow */
			f[n++] = (struct factor){ d, rows, 0 };
		else if (d == c->row)
			row = (struct factor){ d, rows, 0 };
		else if (d == c->tile)
			tile = (struct factor){
				d, stx_ex_ceildiv(x, d->size, stx_ex_const(x, c->tile_rows)), 0
			};
		else if (d != c->vector)
			f[n++] = (struct factor){ d, d->size, 0 };
	}
	if (chunk)
		f[n++] = (struct factor){
			c->vector, stx_ex_ceildiv(x, c->vector->size, stx_ex_const(x, chunk)), 1
		};
	if (tile.dim) /* fastest: the next tile reads on in the same lines */
		f[n++] = tile;
	if (row.dim) /* fastest: a column panel stays in cache while rows pass by */
		f[n++] = row;
	return n;
}

static void bind_grid(struct chooser *c, int64_t chunk, stx_ex *chunk_at)
{
	struct stx_exprs *x = c->x;
	struct factor f[STX__MAX_DIMS];
	uint32_t n = grid_factors(c, chunk, f), number;
	stx_ex total = stx_ex_const(x, 1);
	for (uint32_t i = 0; i < n; i++)
		total = stx_ex_mul(x, total, f[i].count);
	c->b->axes.grid = total;
	stx_ex t = stx__new_axis(c, total, STX_AXIS_GRID, 0, &number);
	for (uint32_t i = n; i-- > 0;) {
		stx_ex count = stx__at_least_1(x, f[i].count);
		stx_ex at = i ? stx_ex_mod(x, t, count) : t;
		t = stx_ex_floordiv(x, t, count);
		if (f[i].is_chunk)
			*chunk_at = at;
		else if (f[i].dim == c->row)
			place_rows(c, at);
		else
			for (uint32_t r = 0; r < STX__MAX_ROWS; r++)
				f[i].dim->at[r] = at;
	}
}

static void bind_loop(struct chooser *c, struct dim *d, enum stx_binding binding, stx_ex size,
		      stx_ex base)
{
	struct stx__axes *a = &c->b->axes;
	uint32_t number;
	stx_ex at = stx_ex_add(c->x, base, stx__new_axis(c, size, binding, d->is_red, &number));
	for (uint32_t r = 0; r < STX__MAX_ROWS; r++)
		d->at[r] = at;
	a->nest[a->nnest++] = number;
	a->point_elems = stx_sat_mul(a->point_elems, stx__axis_hint(c->x, size));
}

stx_ex stx__axis_red_size(struct chooser *c, const struct dim *d)
{
	stx_ex map[STX__MAX_DIMS];
	if (!is_limited(c, d))
		return d->size;
	for (uint32_t v = 0; v < c->b->nout_dims; v++)
		map[v] = c->zero;
	for (uint32_t i = 0; i < c->nout; i++)
		map[c->out[i].var] = c->out[i].at[0];
	stx_ex limit = stx_ex_subst(c->x, c->b->space->rlimit, map, c->b->nout_dims);
	return stx_ex_min(c->x, d->size, limit);
}

static void bind(struct chooser *c)
{
	struct stx_exprs *x = c->x;
	struct stx__axes *a = &c->b->axes;
	int out_vector = c->vector && !c->vector->is_red;
	int64_t chunk = out_vector ? chunk_of(c) : 0;
	stx_ex chunk_at = c->zero, base = c->zero, size = c->vector ? c->vector->size : STX_EX_BAD;
	if (c->row)
		a->rows = row_count(c);
	bind_grid(c, chunk, &chunk_at);
	a->point_elems = a->rows;
	if (chunk) {
		base = stx_ex_muli(x, chunk_at, chunk);
		size = stx_ex_min(x, stx_ex_const(x, chunk), stx_ex_sub(x, size, base));
	}
	if (c->tile) {
		stx_ex first = stx_ex_muli(x, c->tile->at[0], c->tile_rows);
		stx_ex left = stx_ex_sub(x, c->tile->size, first);
		stx_ex rows = stx_ex_min(x, stx_ex_const(x, c->tile_rows), left);
		bind_loop(c, c->tile, STX_AXIS_LOOP, rows, first);
	}
	if (out_vector)
		bind_loop(c, c->vector, STX_AXIS_VECTOR, size, base);
	a->nout = a->nnest;
	for (uint32_t i = 0; i < c->nred; i++)
		if (&c->red[i] != c->vector)
			bind_loop(c, &c->red[i], STX_AXIS_LOOP, stx__axis_red_size(c, &c->red[i]),
				  c->zero);
	if (c->vector && c->vector->is_red)
		bind_loop(c, c->vector, STX_AXIS_VECTOR, stx__axis_red_size(c, c->vector), c->zero);
	/* A reduction over nothing but axes of size 1 still needs its loop, and so does an update;
	 * and a loop of one iteration makes a chunk of each partial result (kernel.h). */
	if (c->b->space->def != STX_DEF_POINTWISE && (!c->nred || c->b->space->is_merge)) {
		struct dim one = { .is_red = 1 };
		bind_loop(c, &one, STX_AXIS_LOOP, stx_ex_const(x, 1), c->zero);
	}
	for (uint32_t r = 0; r < a->rows; r++) {
		for (uint32_t i = 0; i < c->nout; i++)
			a->map[r][c->out[i].var] = c->out[i].at[r];
		for (uint32_t i = 0; i < c->nred; i++)
			a->map[r][c->red[i].var] = c->red[i].at[r];
	}
}

/* ---- index width (VR-08) ---- */

/* Whether e and every operand inside it fit a signed 32-bit integer. */
static int fits_32(const struct stx_exprs *x, stx_ex e)
{
	struct stx_interval r = stx_ex_interval(x, e);
	if (r.lo < INT32_MIN || r.hi > INT32_MAX)
		return 0;
	uint32_t n = stx_ex_nterms(x, e);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(x, e, i);
		for (uint32_t j = 0; j < t.natoms; j++) {
			struct stx_ex_atom a = stx_ex_atom_at(x, t.atoms[j]);
			if (a.kind >= STX_ATOM_FLOORDIV && (!fits_32(x, a.a) || !fits_32(x, a.b)))
				return 0;
		}
	}
	return 1;
}

uint8_t stx__axes_index_bits(struct chooser *c)
{
	struct stx__build *b = c->b;
	for (uint32_t i = 0; i < b->accesses.n; i++)
		if (!fits_32(c->x, b->accesses.at[i].ex))
			return 64;
	int fit = fits_32(c->x, stx_ex_addi(c->x, b->axes.grid, -1));
	for (uint32_t i = 0; i < c->nout; i++)
		fit &= fits_32(c->x, stx_ex_addi(c->x, c->out[i].size, -1));
	for (uint32_t i = 0; i < c->nred; i++)
		fit &= fits_32(c->x, stx_ex_addi(c->x, c->red[i].size, -1));
	return fit ? 32 : 64;
}

stx_err stx__choose_axes(struct stx__build *b)
{
	struct chooser *c = STX_NEW(b->arena, struct chooser);
	if (!c)
		return stx_fail(b->d, STX_E_NOMEM, "schedule", b->def->name,
				"the memory budget is exceeded");
	c->b = b;
	c->x = b->ex;
	c->zero = stx_ex_const(b->ex, 0);
	b->axes.scans = b->space->def == STX_DEF_SCAN;
	stx__axes_collect(c);
	if (b->def->target_gpu) {
		stx__axes_bind_gpu(c);
	} else if (!stx__axes_bind_attend(c) && !stx__axes_bind_tile(c)) {
		choose_vector(c);
		choose_row(c);
		choose_tile(c);
		bind(c);
	}
	b->axes.index_bits = stx__axes_index_bits(c);
	for (uint32_t i = 0; i < b->axes.naxes; i++)
		if (!b->axes.axis[i].name || b->axes.axis[i].size == STX_EX_BAD)
			return stx_fail(
				b->d, stx_arena_oom(b->arena) ? STX_E_NOMEM : STX_E_TOO_LARGE,
				"schedule", b->def->name, "the size of an axis overflows 64 bits");
	return STX_E_OK;
}
