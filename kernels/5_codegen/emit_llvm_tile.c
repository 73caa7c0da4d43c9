/* emit_llvm_tile.c: matrix products in tiles: a skeleton whose holes are the kernel's own code.
 *
 * A kernel of this form (4_schedule/kernel_axes_tile.c makes it, kernel.h says what it means)
 *
 *	loop rows { loop cols (vector) { acc dot plain; loop terms { a(row, term), b(col, term);
 *	update }; result; epilogue; stores } }
 *
 * is emitted in another order of its independent iterations, with the terms of each sum in order:
 *
 *	for each KC terms { pack a; pack b; for each NR columns, MR rows { sums in registers, from and
 *	to the scratch; after the last terms: the epilogue } }
 *
 * load_a and load_b are the instructions that the update's operands need, played while packing: a
 * conversion or a computed operand costs nothing more. The epilogue is the rest of the nest, played
 * over the MR by NR results while they are in the first cache. How operands are packed is in
 * emit_llvm_tile_pack.c. Sizes come from the level's registers and caches and change no bit. */
#include "emit_llvm_tile.h"

/* ---- sums ---- */

#define MOST_FETCHED 3 /* rows of the next block while a register tile is multiplied */

struct sums {
	LLVMValueRef a, b, slot; /* addresses: of the first row, of the panel, of the results */
	LLVMValueRef is_first;   /* NULL: these terms are all; else whether they are the first */
	struct {                 /* what is fetched meanwhile, `step` bytes a word; or NULL */
		LLVMValueRef at;
		int64_t step;
	} ahead[2 + MOST_FETCHED];
};

/* The running sums start at 0, or go on. */
static void start_sums(struct stx__emit *e, const struct sums *s, LLVMValueRef *c, unsigned nv)
{
	struct stx__tile *t = e->tile;
	LLVMTypeRef type = vector(e);
	unsigned nr = t->nv * t->w;
	for (unsigned i = 0; i < t->mr * nv; i++) {
		c[i] = stx__alloca(e, type, 0);
		LLVMBuildStore(e->b, LLVMConstNull(type), c[i]);
	}
	if (!s->is_first)
		return;
	LLVMBasicBlockRef after = stx__if_begin(e, LLVMBuildNot(e->b, s->is_first, ""));
	for (unsigned r = 0; r < t->mr; r++)
		for (unsigned v = 0; v < nv; v++) {
			LLVMValueRef p = beyond(e, s->slot, stx__i64(e, r * nr + v * t->w));
			LLVMBuildStore(e->b, load(e, type, p, vector_align(e)), c[r * nv + v]);
		}
	stx__if_end(e, after);
}

/* Of the terms to come: what the offsets of both operands add to each sum. */
static void add_offsets(struct stx__emit *e, const struct stx__block *b, const struct sums *s,
			LLVMValueRef *c, unsigned nv)
{
	struct stx__tile *t = e->tile;
	LLVMTypeRef type = vector(e);
	LLVMValueRef both, of_row = NULL;
	if (!t->offset[0] && !t->offset[1])
		return;
	both = LLVMBuildTrunc(e->b, b->terms, e->i32, "");
	both = LLVMBuildMul(e->b, both, stx__int(e->i32, (uint64_t)(t->offset[0] * t->offset[1])),
			    "");
	both = stx__splat(e, both, t->w);
	for (unsigned r = 0; r < t->mr; r++) {
		if (t->offset[1]) {
			LLVMValueRef row = add(e, t->row0, stx__i64(e, r));
			of_row = load(e, e->i32, sum_place(e, b, 0, row), t->bytes);
			of_row = LLVMBuildMul(e->b, of_row,
					      stx__int(e->i32, (uint64_t)t->offset[1]), "");
			of_row = add(e, both, stx__splat(e, of_row, t->w));
		}
		for (unsigned v = 0; v < nv; v++) {
			LLVMValueRef x = LLVMBuildLoad2(e->b, type, c[r * nv + v], "");
			if (of_row)
				x = add(e, x, of_row);
			if (t->offset[0]) {
				int64_t at = t->sums_at[1] + v * t->w;
				LLVMValueRef y =
					load(e, type, beyond(e, s->b, stx__i64(e, at)), t->bytes);
				y = LLVMBuildMul(e->b, y, stx__int(type, (uint64_t)t->offset[0]),
						 "");
				x = add(e, x, y);
			}
			LLVMBuildStore(e->b, x, c[r * nv + v]);
		}
	}
}

/* The terms of word k. */
static void one_word(struct stx__emit *e, const struct sums *s, LLVMValueRef *c, unsigned nv,
		     LLVMValueRef k, int widen)
{
	struct stx__tile *t = e->tile;
	LLVMTypeRef type = words_type(e), scalar = LLVMGetElementType(type);
	LLVMValueRef b[8] = { NULL };
	LLVMValueRef pb = beyond(e, s->b, times(e, k, t->nv * t->w));
	LLVMValueRef pa = beyond(e, s->a, t->a_by_rows ? k : times(e, k, t->term_pitch));
	for (int i = 0; i < 2 + MOST_FETCHED; i++) {
		if (!s->ahead[i].at)
			continue;
		LLVMValueRef at = times(e, k, s->ahead[i].step);
		stx__prefetch(e, LLVMBuildGEP2(e->b, e->i8, s->ahead[i].at, &at, 1, ""));
	}
	for (unsigned v = 0; v < nv; v++)
		b[v] = load(e, type, beyond(e, pb, stx__i64(e, v * t->w)), vector_align(e));
	for (unsigned r = 0; r < t->mr; r++) {
		LLVMValueRef at = stx__i64(e, t->a_by_rows ? (int64_t)r * t->row_pitch : r);
		LLVMValueRef a = load(e, scalar, beyond(e, pa, at), t->bytes);
		a = stx__splat(e, a, t->w);
		for (unsigned v = 0; v < nv; v++) {
			LLVMValueRef old = LLVMBuildLoad2(e->b, vector(e), c[r * nv + v], "");
			LLVMBuildStore(e->b, stx__tile_step(e, widen, a, b[v], old), c[r * nv + v]);
		}
	}
}

static void all_words(struct stx__emit *e, const struct stx__block *b, const struct sums *s,
		      LLVMValueRef *c, unsigned nv, int widen)
{
	struct stx__for f;
	LLVMValueRef end = words_of(e, b->terms);
	LLVMValueRef k = stx__for_begin(e, &f, stx__i64(e, 0), end, stx__i64(e, 1));
	one_word(e, s, c, nv, k, widen);
	stx__for_end(e, &f);
}

/* MR rows by nv vectors of columns over the block's terms. */
static void sum_terms(struct stx__emit *e, const struct stx__block *b, const struct sums *s,
		      unsigned nv)
{
	struct stx__tile *t = e->tile;
	LLVMValueRef c[64] = { NULL };
	unsigned nr = t->nv * t->w;
	start_sums(e, s, c, nv);
	if (t->dot == STX__DOT_I8)
		add_offsets(e, b, s, c, nv);
	if (t->is_wild) {
		LLVMBasicBlockRef tame = stx__block(e, "tame"), wild = stx__block(e, "wild"),
				  after = stx__block(e, "after");
		LLVMValueRef is_wild = LLVMBuildLoad2(e->b, e->i8, t->is_wild, "");
		is_wild = stx__icmp(e, LLVMIntNE, is_wild, stx__int(e->i8, 0));
		LLVMBuildCondBr(e->b, is_wild, wild, tame);
		LLVMPositionBuilderAtEnd(e->b, tame);
		all_words(e, b, s, c, nv, 0);
		LLVMBuildBr(e->b, after);
		LLVMPositionBuilderAtEnd(e->b, wild);
		all_words(e, b, s, c, nv, 1);
		LLVMBuildBr(e->b, after);
		LLVMPositionBuilderAtEnd(e->b, after);
	} else {
		all_words(e, b, s, c, nv, 1);
	}
	for (unsigned r = 0; r < t->mr; r++)
		for (unsigned v = 0; v < nv; v++) {
			LLVMValueRef x = LLVMBuildLoad2(e->b, vector(e), c[r * nv + v], "");
			store(e, x, beyond(e, s->slot, stx__i64(e, r * nr + v * t->w)),
			      vector_align(e));
		}
}

/* ---- the epilogue ---- */

LLVMValueRef stx__tile_result(struct stx__emit *e)
{
	struct stx__tile *t = e->tile;
	LLVMValueRef row = e->axis[e->k->insts.at[t->rows].a];
	LLVMValueRef col = e->axis[e->k->insts.at[t->cols].a];
	LLVMValueRef at = times(e, LLVMBuildSub(e->b, row, t->row0, ""), t->nv * t->w);
	at = add(e, at, LLVMBuildSub(e->b, col, t->col0, ""));
	at = add(e, at, stx__i64(e, (int64_t)e->copy * e->w));
	return load(e, stx__vec(stx__type(e, t->dtype), e->w), beyond(e, t->slot, at), t->bytes);
}

/* The rest of the nest for the results in the slot: rows [row0, ..), columns [col0, ..). */
static void epilogue(struct stx__emit *e, const struct stx__block *b)
{
	struct stx__tile *t = e->tile;
	LLVMValueRef end = least(e, add(e, t->row0, stx__i64(e, t->mr)), b->rows);
	t->ncols = least(e, LLVMBuildSub(e->b, b->cols, t->col0, ""), stx__i64(e, t->nv * t->w));
	stx__play_rows(e, t->rows, t->row0, end, &t->in_epilogue);
}

/* ---- one row ---- */

#define AT_ONCE     4    /* terms a sum takes between its load and its store */
#define BYTES_AHEAD 8192 /* that are on their way from memory, at least */

/* `terms` terms from k on into the sums of the columns from col on; rest: how many, or NULL. */
static void thin_vector(struct stx__emit *e, const struct stx__block *b, LLVMValueRef k,
			unsigned terms, LLVMValueRef col, LLVMValueRef rest)
{
	struct stx__tile *t = e->tile;
	LLVMTypeRef scalar = stx__type(e, t->dtype);
	LLVMValueRef at = place(e, t->acc_at, col);
	LLVMValueRef sum = load(e, vector(e), at, vector_align(e));
	int64_t row = AT_ONCE * t->most_cols * t->bytes;
	int64_t ahead = AT_ONCE * ((BYTES_AHEAD - 1) / row + 1);
	set_axis(e, t->cols, col, 2);
	for (unsigned i = 0; i < terms; i++) {
		LLVMValueRef term = add(e, k, stx__i64(e, i));
		LLVMValueRef x = load(e, scalar, beyond(e, b->packed[0], term), t->bytes);
		set_axis(e, t->terms, term, 1);
		stx__tile_fetch_ahead(e, t->terms, ahead);
		LLVMValueRef y = stx__tile_hole(e, 1, t->cols, rest, t->w).v;
		stx__tile_fetch_ahead(e, t->terms, 0);
		sum = stx__tile_step(e, 1, stx__splat(e, x, t->w), y, sum);
	}
	store(e, sum, at, vector_align(e));
}

static void thin_terms(struct stx__emit *e, const struct stx__block *b, LLVMValueRef from,
		       LLVMValueRef to, unsigned terms)
{
	struct stx__tile *t = e->tile;
	struct stx__for f, g;
	LLVMValueRef zero = stx__i64(e, 0), w = stx__i64(e, t->w);
	LLVMValueRef whole = LLVMBuildAnd(e->b, b->cols, stx__i64(e, -(int64_t)t->w), "");
	LLVMValueRef k = stx__for_begin(e, &f, from, to, stx__i64(e, terms));
	LLVMValueRef col = stx__for_begin(e, &g, zero, whole, w);
	thin_vector(e, b, k, terms, col, NULL);
	stx__for_end(e, &g);
	LLVMBasicBlockRef after = stx__if_begin(e, stx__icmp(e, LLVMIntSLT, whole, b->cols));
	thin_vector(e, b, k, terms, whole, LLVMBuildSub(e->b, b->cols, whole, ""));
	stx__if_end(e, after);
	stx__for_end(e, &f);
}

/* The terms in order, each over all columns: memory is read row by row. */
static void thin_sums(struct stx__emit *e, const struct stx__block *b)
{
	struct stx__tile *t = e->tile;
	struct stx__for f;
	LLVMValueRef zero = stx__i64(e, 0);
	LLVMValueRef col = stx__for_begin(e, &f, zero, b->cols, stx__i64(e, t->w));
	store(e, LLVMConstNull(vector(e)), place(e, t->acc_at, col), vector_align(e));
	stx__for_end(e, &f);
	LLVMValueRef whole = LLVMBuildAnd(e->b, b->terms, stx__i64(e, -AT_ONCE), "");
	thin_terms(e, b, zero, whole, AT_ONCE);
	thin_terms(e, b, whole, b->terms, 1);
	t->row0 = zero;
	t->col0 = stx__for_begin(e, &f, zero, b->cols, stx__i64(e, (int64_t)t->nv * t->w));
	t->slot = place(e, t->acc_at, t->col0);
	epilogue(e, b);
	stx__for_end(e, &f);
}

/* ---- the tile ---- */

int stx__tile_is_multiple(struct stx_exprs *x, stx_ex e, int64_t n)
{
	if (stx_ex_constant(x, e) % n)
		return 0;
	for (uint32_t i = 0; i < stx_ex_nterms(x, e); i++) {
		struct stx_ex_term t = stx_ex_term_at(x, e, i);
		struct stx_ex_atom a = stx_ex_atom_at(x, t.atoms[0]);
		if (t.coeff % n &&
		    (t.natoms != 1 || a.kind != STX_ATOM_MIN || !stx__tile_is_multiple(x, a.a, n) ||
		     !stx__tile_is_multiple(x, a.b, n)))
			return 0;
	}
	return 1;
}

/* Rows of the block to come, shared out among the register tiles. */
static void fetch_rows(struct stx__emit *e, const struct stx__block *b, struct sums *s,
		       LLVMValueRef number)
{
	struct stx__tile *t = e->tile;
	int64_t panels = (t->most_cols - 1) / (t->nv * t->w) + 1, each = (t->mr - 1) / panels + 1;
	each = each < MOST_FETCHED ? each : MOST_FETCHED;
	LLVMValueRef last = add(e, b->rows, stx__i64(e, -1));
	for (int64_t i = 0; b->next && i < each; i++) {
		LLVMValueRef row = add(e, times(e, number, each), stx__i64(e, i));
		LLVMValueRef at = LLVMBuildMul(e->b, least(e, row, last), b->next_pitch, "");
		s->ahead[2 + i].at = LLVMBuildGEP2(e->b, e->i8, b->next, &at, 1, "");
		s->ahead[2 + i].step = b->next_step;
	}
}

/* Panels that were packed before come from memory or the last cache: while one is multiplied by all
 * rows, the next one follows. So do the next sums. */
static void fetch_next(struct stx__emit *e, const struct stx__block *b, struct sums *s,
		       LLVMValueRef panel, LLVMValueRef part)
{
	struct stx__tile *t = e->tile;
	int64_t parts = (t->most_rows - 1) / t->mr + 1, line = (int64_t)t->nv * t->w * t->bytes;
	if (!t->single) {
		LLVMValueRef at = stx__i64(e, t->mr * line);
		s->ahead[1].at = LLVMBuildGEP2(e->b, e->i8, s->slot, &at, 1, "");
		s->ahead[1].step = (t->mr * line - 1) / (t->kc / t->group) + 1;
	}
	fetch_rows(e, b, s, add(e, times(e, panel, parts), part));
	if ((!t->prepared[1].is_offered && !t->keeps[1]) || parts < 2)
		return;
	s->ahead[0].step = line / parts;
	LLVMValueRef words = words_of(e, b->terms);
	LLVMValueRef at = times(e, LLVMBuildMul(e->b, part, words, ""), s->ahead[0].step);
	at = add(e, at, stx__i64(e, (int64_t)t->panel * t->bytes));
	s->ahead[0].at = LLVMBuildGEP2(e->b, e->i8, s->b, &at, 1, "");
}

/* Where the epilogue is to come, its lines do while the terms before it are multiplied. */
static void fetch_results(struct stx__emit *e)
{
	struct stx__tile *t = e->tile;
	for (unsigned r = 0; r < t->mr; r++) {
		set_axis(e, t->rows, add(e, t->row0, stx__i64(e, r)), 1);
		set_axis(e, t->cols, t->col0, 2);
		e->vaxis = e->k->insts.at[t->cols].a;
		e->w = t->w;
		stx__fetch_results(e, t->cols + 1, e->loop[t->cols].end, t->nv * t->w);
		e->w = 0;
	}
}

static void one_block(struct stx__emit *e, const struct stx__block *b, LLVMValueRef all)
{
	struct stx__tile *t = e->tile;
	struct stx__for f, g;
	unsigned nr = t->nv * t->w;
	LLVMValueRef zero = stx__i64(e, 0), width = stx__i64(e, nr);
	t->col0 = stx__for_begin(e, &f, zero, b->cols, width);
	t->row0 = stx__for_begin(e, &g, zero, b->rows, stx__i64(e, t->mr));
	LLVMValueRef panel = LLVMBuildUDiv(e->b, t->col0, width, "");
	LLVMValueRef part = LLVMBuildUDiv(e->b, t->row0, stx__i64(e, t->mr), "");
	LLVMValueRef number = zero;
	if (!t->single) {
		int64_t row_panels = (t->most_rows + t->mr - 1) / t->mr;
		number = times(e, add(e, times(e, panel, row_panels), part), t->mr * nr);
	}
	t->slot = place(e, t->acc_at, number);
	struct sums s = { .b = beyond(e, b->packed[1], times(e, panel, t->panel)),
			  .slot = t->slot };
	s.a = beyond(e, b->packed[0], times(e, t->row0, t->a_by_rows ? t->row_pitch : 1));
	fetch_next(e, b, &s, panel, part);
	if (t->single) {
		fetch_results(e);
	} else {
		s.is_first = stx__icmp(e, LLVMIntEQ, b->first, zero);
		LLVMValueRef end = add(e, b->first, b->terms);
		LLVMBasicBlockRef rest = stx__if_begin(e, stx__icmp(e, LLVMIntSGE, end, all));
		fetch_results(e);
		stx__if_end(e, rest);
	}
	int even = stx__tile_is_multiple(e->k->ex, axis_of(e->k, t->cols)->size, nr);
	if (even) {
		sum_terms(e, b, &s, t->nv);
	} else {
		LLVMValueRef left = LLVMBuildSub(e->b, b->cols, t->col0, "");
		LLVMBasicBlockRef wide = stx__block(e, "wide"), one = stx__block(e, "one"),
				  after = stx__block(e, "summed");
		LLVMBuildCondBr(e->b, stx__icmp(e, LLVMIntSGT, left, stx__i64(e, t->w)), wide, one);
		LLVMPositionBuilderAtEnd(e->b, wide);
		sum_terms(e, b, &s, t->nv);
		LLVMBuildBr(e->b, after);
		LLVMPositionBuilderAtEnd(e->b, one);
		sum_terms(e, b, &s, 1);
		LLVMBuildBr(e->b, after);
		LLVMPositionBuilderAtEnd(e->b, after);
	}
	if (t->single) {
		epilogue(e, b);
	} else {
		LLVMValueRef end = add(e, b->first, b->terms);
		LLVMBasicBlockRef rest = stx__if_begin(e, stx__icmp(e, LLVMIntSGE, end, all));
		epilogue(e, b);
		stx__if_end(e, rest);
	}
	stx__for_end(e, &g);
	stx__for_end(e, &f);
}

/* Whether operand j of this tile is not the one that is packed already; NULL: it never is. */
static LLVMValueRef is_new(struct stx__emit *e, int j)
{
	struct stx__tile *t = e->tile;
	LLVMValueRef key = stx__i64(e, 0);
	if (!t->keeps[j])
		return NULL;
	if (t->divisor[j])
		key = LLVMBuildUDiv(e->b, e->axis[0], stx__i64(e, t->divisor[j]), "");
	LLVMValueRef old = LLVMBuildLoad2(e->b, e->i64, t->packed[j], "");
	LLVMBuildStore(e->b, key, t->packed[j]);
	return stx__icmp(e, LLVMIntNE, old, key);
}

/* One row: by panels where they are prepared. */
static void thin(struct stx__emit *e, const struct stx__block *b, LLVMValueRef all)
{
	const struct stx__prepared *p = &e->tile->prepared[1];
	if (!p->is_offered) {
		thin_sums(e, b);
		return;
	}
	LLVMBasicBlockRef panels = stx__block(e, "panels"), rows = stx__block(e, "rows"),
			  after = stx__block(e, "made");
	LLVMBuildCondBr(e->b, p->is_there, panels, rows);
	LLVMPositionBuilderAtEnd(e->b, panels);
	one_block(e, b, all);
	LLVMBuildBr(e->b, after);
	LLVMPositionBuilderAtEnd(e->b, rows);
	thin_sums(e, b);
	LLVMBuildBr(e->b, after);
	LLVMPositionBuilderAtEnd(e->b, after);
}

void stx__tile_leave(struct stx__emit *e)
{
	const struct stx__tile *t = e->tile;
	const uint32_t loops[3] = { t->rows, t->cols, t->terms };
	for (int i = 0; i < 3; i++)
		e->axis[e->k->insts.at[loops[i]].a] = NULL;
}

/* requires: the builder stands where the loop over rows begins. */
void stx__emit_tile(struct stx__emit *e)
{
	struct stx__tile *t = e->tile;
	struct stx__for f;
	struct stx__block b = { .rows = stx__ex_scalar(e, axis_of(e->k, t->rows)->size),
				.cols = stx__ex_scalar(e, axis_of(e->k, t->cols)->size) };
	LLVMValueRef all = stx__ex_scalar(e, axis_of(e->k, t->terms)->size), zero = stx__i64(e, 0);
	LLVMValueRef kc = stx__i64(e, t->kc), wanted[2] = { is_new(e, 0), is_new(e, 1) };
	all = most(e, all, zero);
	if (t->w * t->nv > e->vector_elems)
		e->vector_elems = t->w * t->nv;
	/* without terms the sums are 0, and the epilogue runs all the same */
	b.first = t->single ? zero : stx__for_begin(e, &f, zero, most(e, all, stx__i64(e, 1)), kc);
	b.terms = least(e, LLVMBuildSub(e->b, all, b.first, ""), kc);
	for (int j = 0; j < 2; j++) {
		LLVMValueRef number = zero;
		if (t->keeps[j] && !t->single)
			number = LLVMBuildUDiv(e->b, b.first, kc, "");
		b.packed[j] = place(e, t->at[j], times(e, number, t->block[j] / t->bytes));
		wanted[j] = stx__tile_take_prepared(e, &b, j, wanted[j]);
		if (!j || !t->thin)
			stx__tile_pack(e, &b, j, wanted[j]);
	}
	stx__tile_find_next(e, &b, all);
	if (t->thin)
		thin(e, &b, all);
	else
		one_block(e, &b, all);
	if (!t->single)
		stx__for_end(e, &f);
	stx__tile_leave(e);
}

/* requires: the builder stands before the loop over the grid. */
void stx__tile_begin(struct stx__emit *e)
{
	for (int j = 0; j < 2; j++) {
		e->tile->packed[j] = stx__alloca(e, e->i64, 8);
		LLVMBuildStore(e->b, stx__i64(e, -1), e->tile->packed[j]);
	}
	if (e->tile->dot == STX__DOT_BF16 && e->t->avx512bf16) {
		e->tile->least = stx__alloca(e, stx__vec(e->i16, 2 * e->tile->w), 0);
		e->tile->is_wild = stx__alloca(e, e->i8, 0);
		LLVMBuildStore(e->b, stx__int(e->i8, 0), e->tile->is_wild);
	}
}
