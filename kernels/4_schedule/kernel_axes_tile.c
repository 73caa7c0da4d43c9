/* kernel_axes_tile.c: axes of a large matrix product on the CPU: grid points are tiles of rows by
 * columns, and inside one a loop over rows, a vector loop over columns and one serial loop over k.
 *
 * The order of the sum is PLAIN over k, whatever the tile: sizes follow the target's caches
 * (cpu_blocking.h), registers and packing are the emitter's (5_codegen/emit_llvm_tile.c), which keeps
 * it. Whether a product is large enough depends on its shape and on the layout of its operands only.
 */
#include <stdio.h>

#include "axes_impl.h"
#include "cpu_blocking.h"

#define TILE_COL      32
#define FEW_ROWS      4 /* products with fewer rows, columns or terms are made without a tile */
#define FEW_COLS      12
#define FEW_TERMS     16
#define LINE_STEP     64  /* elements between neighbours of a line, at most: patches */
#define THIN_COLS     128 /* a vector by a matrix that is read row by row: from so many columns, */
#define THIN_ELEMS    65536 /* more elements, */
#define THIN_TERMS    65536 /* and not more terms: the vector is packed whole */
#define SMALL_OPERAND 65536 /* bytes of a contiguous second operand that stays in the first cache */
/* Packing a contiguous second operand of so many bytes takes longer than so few rows of products
 * with it: 256x256 is twice as fast without at 4 and 8 rows, 300x300 at 16. */
#define DIRECT_OPERAND ((int64_t)1 << 20)
#define DIRECT_ROWS    17

struct axes { /* of the product, among the chooser's output axes */
	struct dim *row;
	struct dim one; /* the row of a product of a vector with a matrix */
	uint32_t ncols; /* the last ones, as one */
	int shared;     /* the rows' operand is the same for the whole batch */
	stx_ex cols;    /* their size */
};

/* Variables (a bit each) that the loads of operand j of the leading product depend on; 0: it has
 * run-time indices, or none. */
static uint64_t operand_vars(struct chooser *c, uint32_t result)
{
	struct stx__build *b = c->b;
	const struct stx_body *body = &b->space->body;
	uint8_t *used = STX_NEW_ARRAY(b->arena, uint8_t, body->n + 1);
	uint64_t vars = 0;
	if (!used)
		return 0;
	used[result] = 1;
	for (uint32_t i = result + 1; i-- > 0;) {
		const struct stx_binst *in = &body->at[i];
		if (!used[i])
			continue;
		if (in->op >= STX_PRIM_COUNT && in->op == STX_B_INDIRECT)
			return 0;
		for (uint32_t v = 0; in->ex != STX_EX_BAD && v < b->nout_dims + b->nred_dims; v++)
			vars |= (uint64_t)stx_ex_uses_var(c->x, in->ex, v) << v;
		if (in->op == STX_B_CONST || in->op == STX_B_INDEX)
			continue;
		if (in->op < STX_PRIM_COUNT && in->a != STX_NONE)
			used[in->a] = 1;
		if (in->op < STX_PRIM_COUNT && in->b != STX_NONE)
			used[in->b] = 1;
		if (in->c != STX_NONE)
			used[in->c] = 1;
	}
	return vars;
}

/* Steps of the sum read what n columns read: a window, which is in the caches after its first. */
static int is_window(struct chooser *c, const struct stx__access *a, int64_t n)
{
	for (uint32_t i = 0; i < c->nred; i++) {
		uint64_t step = stx__stride_of(c->x, a->ex, c->red[i].var);
		if (step && step < (uint64_t)n && stx__axis_hint(c->x, c->red[i].size) > 1)
			return 1;
	}
	return 0;
}

/* The operand with the columns is read across its rows, is narrow, or is too large for the first
 * cache. */
static int pays(struct chooser *c, const struct axes *x)
{
	const struct dim *col = &c->out[c->nout - 1];
	int64_t m = stx__axis_hint(c->x, x->row->size), n = stx__axis_hint(c->x, x->cols), k = 1;
	uint64_t bytes = 4;
	int strided = 0, overlaps = 0;
	for (uint32_t i = 0; i < c->nred; i++)
		k = stx_sat_mul(k, stx__axis_hint(c->x, c->red[i].size));
	int thin = x->row == &x->one;
	if (n < FEW_COLS || k < FEW_TERMS)
		return 0;
	for (uint32_t i = 0; i < c->b->accesses.n; i++) {
		const struct stx__access *a = &c->b->accesses.at[i];
		if (a->is_lead && a->is_load && stx_ex_uses_var(c->x, a->ex, col->var)) {
			strided |= stx__stride_of(c->x, a->ex, col->var) != 1;
			bytes = a->bytes;
			overlaps |= is_window(c, a, n);
		}
	}
	int is_direct = !strided && bytes >= 4 &&
			stx_sat_mul(n, stx_sat_mul(k, (int64_t)bytes)) <= DIRECT_OPERAND;
	if (m < (is_direct ? DIRECT_ROWS : FEW_ROWS) && !thin)
		return 0;
	if (thin)
		return !strided && !overlaps && k <= THIN_TERMS && n >= THIN_COLS &&
		       stx_sat_mul(n, k) > THIN_ELEMS;
	/* narrow elements are multiplied several at once, or converted once */
	return strided || bytes < 4 ||
	       stx_sat_mul(n, stx_sat_mul(k, (int64_t)bytes)) > SMALL_OPERAND;
}

/* Steps of axis d in memory are those of axis `in`, times `each`: what reads both reads on. */
static int follows(struct chooser *c, const struct dim *d, const struct dim *in, int64_t each)
{
	for (uint32_t i = 0; i < c->b->accesses.n; i++) {
		const struct stx__access *a = &c->b->accesses.at[i];
		if (a->is_lead && a->is_load &&
		    stx__stride_of(c->x, a->ex, d->var) !=
			    stx__stride_of(c->x, a->ex, in->var) * (uint64_t)each)
			return 0;
	}
	return 1;
}

/* Along a line every load takes even steps, so that it is packed as a line
 * (5_codegen/emit_llvm_tile_lines.c). */
static int is_line(struct chooser *c, const struct dim *line)
{
	for (uint32_t i = 0; i < c->b->accesses.n; i++) {
		const struct stx__access *a = &c->b->accesses.at[i];
		if (a->is_lead && a->is_load &&
		    (stx__stride_of(c->x, a->ex, line->var) > LINE_STEP ||
		     !stx_dtype_is_float(a->dtype)))
			return 0;
	}
	return 1;
}

/* How many of the last output axes join as columns: rows of a picture that only the second operand
 * (bits q) has and that follow each other in the result. Short ones, and those that do not fill
 * their vectors and follow each other in the operand too, but for padding, or can be packed line by
 * line. */
static uint32_t joined_columns(struct chooser *c, uint64_t p, uint64_t q)
{
	uint32_t n = 1;
	int64_t size = stx__axis_hint(c->x, c->out[c->nout - 1].size);
	while ((size < FEW_COLS || size % TILE_COL) && n + 1 < c->nout) {
		const struct dim *d = &c->out[c->nout - n - 1], *in = &c->out[c->nout - n];
		int64_t each;
		if ((p >> d->var & 1) || !(q >> d->var & 1) ||
		    !stx_ex_is_const(c->x, in->size, &each) ||
		    d->key[0] != in->key[0] * (uint64_t)each ||
		    (size >= FEW_COLS && !follows(c, d, in, each) && !is_line(c, in)))
			break;
		size = stx_sat_mul(size, stx__axis_hint(c->x, d->size));
		n++;
	}
	return n;
}

/* Columns: the output axis with the smallest stride in memory; rows: the longest that only the
 * other operand has. */
static int find_axes(struct chooser *c, struct axes *a)
{
	const struct stx_buffer *s = c->b->space;
	if (s->def != STX_DEF_REDUCTION || s->monoid != STX_MONOID_DOT || s->is_merge ||
	    s->rlimit != STX_EX_BAD || !c->nred || !c->nout)
		return 0;
	uint64_t p = operand_vars(c, s->body.result[0]), q = operand_vars(c, s->body.result[1]);
	if (!p || !q)
		return 0;
	const struct dim *col = &c->out[c->nout - 1];
	if ((q >> col->var & 1) == (p >> col->var & 1))
		return 0;
	if (p >> col->var & 1) {
		uint64_t t = p;
		p = q;
		q = t;
	}
	a->ncols = joined_columns(c, p, q);
	a->cols = stx_ex_const(c->x, 1);
	for (uint32_t i = 0; i < a->ncols; i++)
		a->cols = stx_ex_mul(c->x, a->cols, c->out[c->nout - 1 - i].size);
	for (uint32_t i = 0; i + a->ncols < c->nout; i++) {
		struct dim *d = &c->out[i];
		if (!(p >> d->var & 1) || (q >> d->var & 1))
			continue;
		if (!a->row || stx__axis_hint(c->x, d->size) > stx__axis_hint(c->x, a->row->size))
			a->row = d;
	}
	if (!a->row) {
		a->one.size = stx_ex_const(c->x, 1);
		a->row = &a->one;
	}
	a->shared = 1;
	for (uint32_t i = 0; i + a->ncols < c->nout; i++)
		a->shared &= &c->out[i] == a->row || !(p >> c->out[i].var & 1);
	return a->cols != STX_EX_BAD;
}

/* The others are batch: axes of the grid. */
static int is_batch(const struct chooser *c, const struct axes *a, uint32_t i)
{
	return i + a->ncols < c->nout && &c->out[i] != a->row;
}

static struct stx_product_shape shape_of(struct chooser *c, const struct axes *a)
{
	struct stx_product_shape p = {
		.rows = stx__axis_hint(c->x, a->row->size),
		.cols = stx__axis_hint(c->x, a->cols),
		.terms = 1,
		.batch = 1,
		.line = a->ncols > 1 ? stx__axis_hint(c->x, c->out[c->nout - 1].size) : 1,
		.bytes = 4,
		.is_thin = a->row == &a->one,
		.rows_are_shared = a->shared
	};
	for (uint32_t i = 0; i < c->nred; i++)
		p.terms = stx_sat_mul(p.terms, stx__axis_hint(c->x, c->red[i].size));
	for (uint32_t i = 0; i < c->nout; i++)
		if (is_batch(c, a, i))
			p.batch = stx_sat_mul(p.batch, stx__axis_hint(c->x, c->out[i].size));
	for (uint32_t i = 0; i < c->b->accesses.n; i++)
		if (c->b->accesses.at[i].is_lead && c->b->accesses.at[i].bytes == 8)
			p.bytes = 8;
	return p;
}

/* How far apart neighbours along d lie: 0, 1, or n: further. */
static char step_of(struct chooser *c, const struct stx__access *a, const struct dim *d)
{
	uint64_t n = stx__stride_of(c->x, a->ex, d->var);
	return n > 1 ? 'n' : (char)('0' + n);
}

/* " : 64.3.3 f32.01n f32.n10": of the sum its axes, of each operand its type and its steps along
 * rows, columns and the last axis of the sum. What does not fit is cut off. */
static void name_operands(struct chooser *c, const struct axes *a, char *out, size_t cap)
{
	size_t n = strlen(out);
	n += (size_t)snprintf(out + n, cap - n, " :");
	for (uint32_t i = 0; i < c->nred && n < cap; i++)
		n += (size_t)snprintf(out + n, cap - n, "%c%lld", i ? '.' : ' ',
				      (long long)stx__axis_hint(c->x, c->red[i].size));
	for (uint32_t i = 0; i < c->b->accesses.n && n < cap; i++) {
		const struct stx__access *x = &c->b->accesses.at[i];
		if (x->is_lead && x->is_load)
			n += (size_t)snprintf(out + n, cap - n, " %s.%c%c%c",
					      stx_dtype_name(x->dtype),
					      a->row == &a->one ? '0' : step_of(c, x, a->row),
					      step_of(c, x, &c->out[c->nout - 1]),
					      step_of(c, x, &c->red[c->nred - 1]));
	}
}

/* NULL: out of memory. */
static const struct stx_cut_product *choose_blocking(struct chooser *c, const struct axes *a)
{
	struct stx_blocking all[STX_MOST_BLOCKINGS];
	struct stx_cpu_target usual;
	const struct stx_cpu_target *target = c->b->def->cpu;
	struct stx_cut_product *p = STX_NEW(c->b->arena, struct stx_cut_product);
	if (!p)
		return NULL;
	if (!target) {
		stx_cpu_target_parse("cpu:x86-64-v3", &usual, NULL);
		target = &usual;
	}
	p->shape = shape_of(c, a);
	stx_product_print(&p->shape, p->text);
	name_operands(c, a, p->text, sizeof p->text);
	stx_cut_choose(p, all, stx_cpu_blockings(target, &p->shape, all), c->b->def->blockings);
	return p;
}

/* ---- binding ---- */

static stx_ex part_size(struct chooser *c, stx_ex size, int64_t most, stx_ex base)
{
	if (stx_ex_interval(c->x, size).hi <= most)
		return size;
	return stx_ex_min(c->x, stx_ex_const(c->x, most), stx_ex_sub(c->x, size, base));
}

static void place_all(struct dim *d, stx_ex at)
{
	for (uint32_t r = 0; r < STX__MAX_ROWS; r++)
		d->at[r] = at;
}

/* Takes the next factor of the grid, the fastest first, from *t. */
static stx_ex take(struct chooser *c, stx_ex *t, stx_ex count, int is_last)
{
	count = stx__at_least_1(c->x, count);
	stx_ex at = is_last ? *t : stx_ex_mod(c->x, *t, count);
	*t = stx_ex_floordiv(c->x, *t, count);
	return at;
}

static void bind_inner(struct chooser *c, struct dim *d, enum stx_binding binding, stx_ex size,
		       stx_ex base)
{
	struct stx__axes *a = &c->b->axes;
	uint32_t number;
	stx_ex v = stx__new_axis(c, size, binding, d->is_red, &number);
	place_all(d, stx_ex_add(c->x, base, v));
	a->nest[a->nnest++] = number;
	a->point_elems = stx_sat_mul(a->point_elems, stx__axis_hint(c->x, size));
}

/* n axes as one loop, the last of them the fastest. */
static void bind_joined(struct chooser *c, struct dim *d, uint32_t n, enum stx_binding binding,
			stx_ex size, stx_ex base)
{
	struct dim all = { .is_red = d->is_red };
	bind_inner(c, &all, binding, size, base);
	stx_ex t = all.at[0];
	for (uint32_t i = n; i-- > 0;)
		place_all(&d[i], take(c, &t, d[i].size, i == 0));
	c->b->axes.joined |= n > 1;
}

int stx__axes_bind_tile(struct chooser *c)
{
	struct stx__axes *a = &c->b->axes;
	struct stx_exprs *x = c->x;
	struct axes p = { NULL };
	uint32_t number, nbatch = 0;
	if (!find_axes(c, &p) || !pays(c, &p))
		return 0;
	const struct stx_cut_product *cut = choose_blocking(c, &p);
	if (!cut)
		return 0; /* the arena is out of memory, which ends the pass */
	struct stx_blocking t = cut->b;
	stx_ex rows = stx_ex_ceildiv(x, p.row->size, stx_ex_const(x, t.rows));
	stx_ex cols = stx_ex_ceildiv(x, p.cols, stx_ex_const(x, t.cols));
	stx_ex total = stx_ex_mul(x, rows, cols), terms = stx_ex_const(x, 1);
	for (uint32_t i = 0; i < c->nout; i++)
		if (is_batch(c, &p, i)) {
			total = stx_ex_mul(x, total, c->out[i].size);
			nbatch++;
		}
	for (uint32_t i = 0; i < c->nred; i++)
		terms = stx_ex_mul(x, terms, c->red[i].size);
	a->is_tiled = 1;
	a->product = cut;
	a->rows = 1;
	a->grid = total;
	a->point_elems = 1;
	stx_ex g = stx__new_axis(c, total, STX_AXIS_GRID, 0, &number);
	/* the larger operand of a tile stays packed while the other's tiles pass by */
	int rows_last = p.shared && t.rows > t.cols;
	stx_ex row0 = c->zero;
	if (!rows_last)
		row0 = stx_ex_muli(x, take(c, &g, rows, 0), t.rows);
	stx_ex col0 = stx_ex_muli(x, take(c, &g, cols, !nbatch && !rows_last), t.cols);
	for (uint32_t i = c->nout; i-- > 0;)
		if (is_batch(c, &p, i))
			place_all(&c->out[i],
				  take(c, &g, c->out[i].size, --nbatch == 0 && !rows_last));
	if (rows_last)
		row0 = stx_ex_muli(x, take(c, &g, rows, 1), t.rows);
	bind_inner(c, p.row, STX_AXIS_LOOP, part_size(c, p.row->size, t.rows, row0), row0);
	bind_joined(c, &c->out[c->nout - p.ncols], p.ncols, STX_AXIS_VECTOR,
		    part_size(c, p.cols, t.cols, col0), col0);
	a->nout = a->nnest;
	bind_joined(c, c->red, c->nred, STX_AXIS_LOOP, terms, c->zero);
	for (uint32_t i = 0; i < c->nout; i++)
		a->map[0][c->out[i].var] = c->out[i].at[0];
	for (uint32_t i = 0; i < c->nred; i++)
		a->map[0][c->red[i].var] = c->red[i].at[0];
	return 1;
}

/* ---- addresses over joined axes ---- */

/* c*d * (x // d) + c * (x % d) of a sum is c * x: once. */
static stx_ex join_once(struct stx_exprs *x, stx_ex e)
{
	uint32_t n = stx_ex_nterms(x, e);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(x, e, i);
		struct stx_ex_atom m = stx_ex_atom_at(x, t.atoms[0]);
		int64_t d, whole;
		if (t.natoms != 1 || m.kind != STX_ATOM_MOD || !stx_ex_is_const(x, m.b, &d) ||
		    __builtin_mul_overflow(t.coeff, d, &whole))
			continue;
		stx_ex q = stx_ex_floordiv(x, m.a, m.b);
		if (stx_ex_nterms(x, q) != 1 || stx_ex_constant(x, q))
			continue;
		struct stx_ex_term f = stx_ex_term_at(x, q, 0);
		if (f.natoms != 1 || f.coeff != 1)
			continue;
		for (uint32_t j = 0; j < n; j++) {
			struct stx_ex_term o = stx_ex_term_at(x, e, j);
			if (o.natoms != 1 || o.atoms[0] != f.atoms[0] || o.coeff != whole)
				continue;
			e = stx_ex_sub(x, e, stx_ex_muli(x, q, whole));
			stx_ex mod = stx_ex_mod(x, m.a, m.b);
			e = stx_ex_sub(x, e, stx_ex_muli(x, mod, t.coeff));
			return stx_ex_add(x, e, stx_ex_muli(x, m.a, t.coeff));
		}
	}
	return e;
}

stx_ex stx__axes_join(struct stx_exprs *x, stx_ex e)
{
	for (stx_ex was = STX_EX_BAD; e != STX_EX_BAD && e != was;) {
		was = e;
		e = join_once(x, e);
	}
	return e;
}
