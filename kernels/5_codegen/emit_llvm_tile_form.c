/* emit_llvm_tile_form.c: whether a kernel is a matrix product in tiles (emit_llvm_tile.c), and how
 * large its register tiles, its blocks of terms and its packed operands are.
 *
 * requires: stx_kernel_verify. ensures: sizes depend on the kernel and the level only, so that the
 * plan and the code agree on the scratch. One pass over the instructions for the form, one for each
 * question about an operand. */
#include <string.h>

#include "cpu_blocking.h"
#include "emit_llvm_blocks.h"

#define PAD       16    /* elements between rows and panels: powers of two would share cache sets */
#define MOST_THIN 65536 /* terms of a vector that is packed whole */
#define MAX_TILE  4096  /* rows or columns of a tile */
#define MOST_KEPT ((int64_t)9 << 20) /* bytes of a packed operand that is kept: 8 MiB and PADs */

/* ---- the form ---- */

struct form {
	struct nest nest; /* rows, columns, terms */
	struct stx__tile *t;
	uint32_t naccs, nupdates;
};

static int see(struct form *f, uint32_t n)
{
	const struct stx_kinst *i = &f->nest.k->insts.at[n];
	switch (i->op) {
	case STX_K_LOOP: return stx__see_loop(&f->nest, n, 3);
	case STX_K_END: return stx__see_end(&f->nest, n);
	case STX_K_ACC:
		f->t->acc = n;
		return f->nest.depth == 2 && !f->naccs++ && i->flags == STX_MONOID_DOT &&
		       i->axis == STX_ORDER_PLAIN;
	case STX_K_UPDATE: f->t->update = n; return f->nest.depth == 3 && !f->nupdates++;
	case STX_K_STORE: return f->nest.depth == 2 && f->nest.nloops == 3;
	case STX_K_INDIRECT:
	case STX_K_SORT: return 0;
	default: return 1;
	}
}

/* The run-time indices that e mentions. As deep as expressions nest. */
static void mark_indirects(const struct stx_kernel *k, stx_ex e, uint8_t *in)
{
	uint32_t n = stx_ex_uses_kind(k->ex, e, STX_ATOM_INDIRECT) ? stx_ex_nterms(k->ex, e) : 0;
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(k->ex, e, i);
		for (uint32_t j = 0; j < t.natoms; j++) {
			struct stx_ex_atom a = stx_ex_atom_at(k->ex, t.atoms[j]);
			if (a.kind == STX_ATOM_INDIRECT)
				in[a.number] = 1;
			if (a.kind < STX_ATOM_FLOORDIV)
				continue;
			mark_indirects(k, a.a, in);
			mark_indirects(k, a.b, in);
		}
	}
}

uint64_t stx__mark_hole(const struct stx_kernel *k, uint32_t from, uint32_t value, uint8_t *in)
{
	uint64_t vars = 0;
	in[value] = 1;
	for (uint32_t n = value + 1; n-- > from;) {
		const struct stx_kinst *i = &k->insts.at[n];
		if (!in[n])
			continue;
		for (uint32_t v = 1; i->ex != STX_EX_BAD && v < k->axes.n; v++)
			vars |= (uint64_t)stx_ex_uses_var(k->ex, i->ex, v) << v;
		if (i->ex != STX_EX_BAD)
			mark_indirects(k, i->ex, in);
		if (i->op == STX_K_INDIRECT)
			in[i->a] = 1;
		if (i->op < STX_PRIM_COUNT) {
			in[i->a] = 1;
			if (i->b != STX_NONE)
				in[i->b] = 1;
		}
		if ((i->op < STX_PRIM_COUNT || i->op == STX_K_LOAD || i->op == STX_K_INDIRECT) &&
		    i->c != STX_NONE)
			in[i->c] = 1;
	}
	return vars;
}

int stx__hole_is_contiguous(const struct stx_kernel *k, const uint8_t *in, uint32_t from,
			    uint32_t to, uint32_t axis)
{
	for (uint32_t n = from; n < to; n++) {
		const struct stx_kinst *i = &k->insts.at[n];
		stx_ex coeff, rest;
		if (!in[n] || (i->op != STX_K_LOAD && i->op != STX_K_INDEX) ||
		    !stx_ex_uses_var(k->ex, i->ex, axis))
			continue;
		if (i->op == STX_K_LOAD && (!stx_ex_linear_in(k->ex, i->ex, axis, &coeff, &rest) ||
					    !stx_ex_equals(k->ex, coeff, 1)))
			return 0;
	}
	return 1;
}

/* The hole indexes by a value of the axis: padding's masks. */
static int is_masked(const struct stx_kernel *k, const uint8_t *in, uint32_t from, uint32_t to,
		     uint32_t axis)
{
	for (uint32_t n = from; n < to; n++)
		if (in[n] && k->insts.at[n].op == STX_K_INDEX &&
		    stx_ex_uses_var(k->ex, k->insts.at[n].ex, axis))
			return 1;
	return 0;
}

/* What the operands read is written nowhere in the kernel: the order of tiles does not matter. */
static int reads_only(const struct stx_kernel *k, const uint8_t *in, uint32_t from, uint32_t to)
{
	for (uint32_t n = from; n < to; n++)
		if (in[n] && k->insts.at[n].op == STX_K_LOAD &&
		    k->params.at[k->insts.at[n].a].is_written)
			return 0;
	return 1;
}

static int find_operands(const struct stx_kernel *k, struct stx__tile *t, struct stx_arena *arena)
{
	const struct stx_kinst *u = &k->insts.at[t->update];
	uint32_t row = k->insts.at[t->rows].a, col = k->insts.at[t->cols].a,
		 term = k->insts.at[t->terms].a;
	for (int j = 0; j < 2; j++) {
		t->in[j] = STX_NEW_ARRAY(arena, uint8_t, k->insts.n);
		if (!t->in[j])
			return 0;
	}
	t->value[0] = u->b;
	t->value[1] = u->c;
	uint64_t p = stx__mark_hole(k, t->rows, u->b, t->in[0]),
		 q = stx__mark_hole(k, t->rows, u->c, t->in[1]);
	if (p >> col & 1) { /* a product is the same either way */
		uint8_t *in = t->in[0];
		uint64_t vars = p;
		t->in[0] = t->in[1];
		t->in[1] = in;
		t->value[0] = u->c;
		t->value[1] = u->b;
		p = q;
		q = vars;
	}
	if ((p >> col & 1) || (q >> row & 1) || !reads_only(k, t->in[0], t->rows, t->update) ||
	    !reads_only(k, t->in[1], t->rows, t->update))
		return 0;
	t->a_by_rows = (uint8_t)stx__hole_is_contiguous(k, t->in[0], t->rows, t->update, term);
	t->b_masked = (uint8_t)(stx__hole_is_contiguous(k, t->in[1], t->rows, t->update, col) &&
				is_masked(k, t->in[1], t->rows, t->update, col));
	t->b_across = (uint8_t)(!stx__hole_is_contiguous(k, t->in[1], t->rows, t->update, col) &&
				stx__hole_is_contiguous(k, t->in[1], t->rows, t->update, term));
	return 1;
}

/* ---- what tiles share ---- */

/* The grid's variable stands in e only as x0 // c: *divisor becomes the least such c. */
static int find_divisor(const struct stx_kernel *k, stx_ex e, int64_t *divisor)
{
	uint32_t n = e == STX_EX_BAD ? 0 : stx_ex_nterms(k->ex, e);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(k->ex, e, i);
		for (uint32_t j = 0; j < t.natoms; j++) {
			struct stx_ex_atom a = stx_ex_atom_at(k->ex, t.atoms[j]);
			int64_t c;
			if (a.kind == STX_ATOM_VAR && a.number == 0)
				return 0;
			if (a.kind < STX_ATOM_FLOORDIV)
				continue;
			if (a.kind == STX_ATOM_FLOORDIV && stx_ex_is_const(k->ex, a.b, &c) &&
			    stx_ex_equals(k->ex, stx_ex_sub(k->ex, a.a, grid_var(k)), 0)) {
				if (*divisor && (c % *divisor && *divisor % c))
					return 0;
				*divisor = !*divisor || c < *divisor ? c : *divisor;
			} else if (!find_divisor(k, a.a, divisor) ||
				   !find_divisor(k, a.b, divisor)) {
				return 0;
			}
		}
	}
	return 1;
}

/* Tiles whose x0 // divisor is the same have the same operand j: what is packed is kept. */
static void find_shared(const struct stx_kernel *k, struct stx__tile *t, int j)
{
	uint32_t loop = j ? t->cols : t->rows;
	t->divisor[j] = 0;
	t->keeps[j] = (uint8_t)find_divisor(k, axis_of(k, loop)->size, &t->divisor[j]);
	for (uint32_t n = 0; n < t->update && t->keeps[j]; n++) {
		const struct stx_kinst *i = &k->insts.at[n];
		if (t->in[j][n])
			t->keeps[j] = n < t->rows ? i->op == STX_K_CONST
						  : (uint8_t)find_divisor(k, i->ex, &t->divisor[j]);
	}
}

static void choose_sizes(const struct stx_kernel *k, const struct stx_cpu_target *target,
			 struct stx_arena *arena, struct stx__tile *t)
{
	int64_t terms, parts, rows, most = k->block_words ? k->block_words : STX_BLOCK_WORDS;
	t->bytes = (unsigned)stx_dtype_bytes(t->dtype);
	t->w = target->vector_bytes / t->bytes;
	t->nv = 2;
	if (!stx_ex_is_const(k->ex, axis_of(k, t->rows)->size, &rows) || rows < 1)
		rows = t->most_rows;
	t->mr = stx_cpu_register_rows(target->level, rows, t->most_cols <= (int64_t)t->w);
	t->kc = 256;
	t->single = 0;
	t->thin = t->most_rows == 1 && !t->b_across && t->a_by_rows &&
		  stx_ex_is_const(k->ex, axis_of(k, t->terms)->size, &terms) && terms >= 1 &&
		  terms <= MOST_THIN;
	stx__tile_choose_dot(k, target, arena, t);
	unsigned lanes = t->w * t->group;
	if (stx_ex_is_const(k->ex, axis_of(k, t->terms)->size, &terms)) {
		parts = terms < 1 ? 1 : (terms - 1) / (most * t->group) + 1;
		t->single = parts == 1;
		t->kc = (unsigned)round_up(terms < 1 ? 1 : (terms - 1) / parts + 1, lanes);
	}
	if (t->thin) { /* one block of all terms */
		t->single = 1;
		t->kc = (unsigned)round_up(terms, t->w);
	}
	unsigned nr = t->nv * t->w, words = t->kc / t->group;
	int64_t row_panels = round_up(t->most_rows, t->mr) / t->mr,
		panels = round_up(t->most_cols, nr) / nr;
	t->row_pitch = words + PAD;
	t->term_pitch = (unsigned)round_up(row_panels * t->mr, PAD) + PAD;
	t->panel = words * nr + PAD + (t->offset[0] ? nr : 0);
	t->sums_at[1] = (int64_t)words * nr;
	int64_t a =
		t->a_by_rows ? row_panels * t->mr * t->row_pitch : (int64_t)words * t->term_pitch;
	t->sums_at[0] = round_up(a, PAD);
	if (t->offset[1])
		a = t->sums_at[0] + t->term_pitch;
	t->block[0] = round_up(a * t->bytes, 64);
	t->block[1] = t->thin ? 0 : round_up(panels * t->panel * t->bytes, 64);
	int64_t blocks = t->single ? 1 : INT32_MAX, end = 0;
	if (!t->single && stx_ex_is_const(k->ex, axis_of(k, t->terms)->size, &terms))
		blocks = (terms - 1) / t->kc + 1;
	for (int j = 0; j < 2; j++) {
		if (!t->block[j] || blocks > MOST_KEPT / t->block[j])
			t->keeps[j] = 0;
		t->at[j] = end;
		end += (t->keeps[j] ? blocks : 1) * t->block[j];
	}
	t->acc_at = end;
	t->scratch = t->acc_at + (t->thin     ? panels
				  : t->single ? 1
					      : row_panels * panels) *
					 (int64_t)t->mr * nr * t->bytes;
}

int stx__tile_find(const struct stx_kernel *k, const struct stx_cpu_target *target,
		   struct stx_arena *arena, struct stx__tile *t)
{
	struct form f = { .nest = { .k = k }, .t = t };
	memset(t, 0, sizeof *t);
	for (uint32_t n = 0; n < k->insts.n; n++)
		if (!see(&f, n))
			return 0;
	if (f.nest.nloops != 3 || f.naccs != 1 || f.nupdates != 1)
		return 0;
	t->rows = f.nest.open[0];
	t->cols = f.nest.open[1];
	t->terms = f.nest.open[2];
	t->dtype = (enum stx_dtype)k->insts.at[t->acc].dtype;
	t->most_rows = stx_ex_interval(k->ex, axis_of(k, t->rows)->size).hi;
	t->most_cols = stx_ex_interval(k->ex, axis_of(k, t->cols)->size).hi;
	if (stx_dtype_bytes(t->dtype) < 4 || t->most_rows < 1 || t->most_rows > MAX_TILE ||
	    t->most_cols < 1 || t->most_cols > MAX_TILE || !find_operands(k, t, arena))
		return 0;
	find_shared(k, t, 0);
	find_shared(k, t, 1);
	choose_sizes(k, target, arena, t);
	stx__tile_find_prepared(k, t);
	return 1;
}

stx_err stx_emit_needs(const struct stx_kernel *k, const struct stx_cpu_target *target,
		       struct stx_emit_needs *out)
{
	struct stx__tile t;
	struct stx__attend a;
	struct stx_arena *arena = stx_arena_new(0);
	if (!arena)
		return STX_E_NOMEM;
	*out = (struct stx_emit_needs){ 0 };
	if (stx__tile_find(k, target, arena, &t)) {
		out->scratch = (size_t)t.scratch;
		for (int j = 0; j < 2; j++) {
			const struct stx__prepared *p = &t.prepared[j];
			if (!p->is_offered)
				continue;
			out->prepared[out->nprepared].points = (uint32_t)(p->tiles * p->blocks);
			out->prepared[out->nprepared++].bytes =
				(uint64_t)(p->tiles * p->blocks * p->bytes);
		}
	} else if (stx__attend_find(k, target, arena, &a)) {
		out->scratch = (size_t)a.scratch;
	}
	stx_err e = stx_arena_oom(arena) ? STX_E_NOMEM : STX_E_OK;
	stx_arena_free(arena);
	return e;
}
