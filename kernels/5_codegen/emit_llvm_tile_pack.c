/* emit_llvm_tile_pack.c: operands of a matrix product in tiles, packed (emit_llvm_tile.c).
 *
 * a is copied row by row where its terms are neighbours, else its rows side by side; either way one
 * word is broadcast to a vector of columns. b becomes panels of NR columns; where its terms are
 * neighbours it is transposed in registers. A word is an element, or the terms that one instruction
 * takes (emit_llvm_tile_dot.c). Columns that are lines of a picture: emit_llvm_tile_lines.c. */
#include "emit_llvm_tile.h"

#define TERMS_AHEAD 128 /* terms that are fetched while columns are transposed: each is a stream */
#define ROWS_AHEAD  4   /* rows likewise: each begins in another page, where no hardware fetches */

/* ---- holes ---- */

struct stx__val stx__tile_hole(struct stx__emit *e, int j, uint32_t loop, LLVMValueRef rest,
			       unsigned w)
{
	struct stx__tile *t = e->tile;
	struct hole h = { .in = t->in[j],
			  .was = t->was,
			  .from = t->rows,
			  .to = t->update,
			  .value = t->value[j] };
	return stx__play_hole(e, &h, loop, w, t->bytes, rest);
}

/* A vector of words of operand j: along the terms, from where their axis stands. */
static LLVMValueRef words_along(struct stx__emit *e, int j, LLVMValueRef rest)
{
	struct stx__tile *t = e->tile;
	struct stx__val v = stx__tile_hole(e, j, t->terms, rest, t->w * t->group);
	if (t->group == 1)
		return v.v;
	LLVMValueRef x = stx__tile_words_along(e, j, v);
	if (!rest || !t->offset[!j])
		return x;
	/* words without terms count in no sum */
	LLVMValueRef n = LLVMBuildTrunc(e->b, words_of(e, rest), e->i32, "");
	LLVMValueRef in =
		stx__icmp(e, LLVMIntULT, stx__iota(e, e->i32, t->w, 1), stx__splat(e, n, t->w));
	return stx__select(e, in, x, LLVMConstNull(LLVMTypeOf(x)));
}

/* The same along `loop`, of the terms from `term` on, whose axis is `depth` loops deep. */
static LLVMValueRef words_across(struct stx__emit *e, int j, uint32_t loop, LLVMValueRef rest,
				 LLVMValueRef term, unsigned depth)
{
	struct stx__tile *t = e->tile;
	struct stx__val v[4];
	for (unsigned i = 0; i < t->group; i++) {
		set_axis(e, t->terms, add(e, term, stx__i64(e, i)), depth);
		v[i] = stx__tile_hole(e, j, loop, rest, t->w);
	}
	return t->group == 1 ? v[0].v : stx__tile_words_across(e, j, v);
}

LLVMValueRef stx__tile_word_across(struct stx__emit *e, int j, LLVMValueRef rest, LLVMValueRef term,
				   unsigned depth)
{
	return words_across(e, j, e->tile->cols, rest, term, depth);
}

/* Vectors of operand j along the terms, from term k on: whole ones, then what is left. */
typedef void each_fn(struct stx__emit *e, const struct stx__block *b, LLVMValueRef k,
		     LLVMValueRef rest);

static int divides_terms(struct stx__emit *e)
{
	int64_t terms;
	return stx_ex_is_const(e->k->ex, axis_of(e->k, e->tile->terms)->size, &terms) &&
	       terms % (e->tile->w * e->tile->group) == 0;
}

static void along_terms(struct stx__emit *e, const struct stx__block *b, each_fn *each)
{
	struct stx__tile *t = e->tile;
	struct stx__for f;
	int64_t step = (int64_t)t->w * t->group;
	LLVMValueRef whole = b->terms, zero = stx__i64(e, 0);
	if (!divides_terms(e))
		whole = LLVMBuildAnd(e->b, b->terms, stx__i64(e, -step), "");
	LLVMValueRef k = stx__for_begin(e, &f, zero, whole, stx__i64(e, step));
	set_axis(e, t->terms, add(e, b->first, k), 3);
	each(e, b, k, NULL);
	stx__for_end(e, &f);
	if (divides_terms(e))
		return;
	LLVMBasicBlockRef after = stx__if_begin(e, stx__icmp(e, LLVMIntSLT, whole, b->terms));
	set_axis(e, t->terms, add(e, b->first, whole), 3);
	each(e, b, whole, LLVMBuildSub(e->b, b->terms, whole, ""));
	stx__if_end(e, after);
}

/* ---- sums of what is packed ---- */

static void clear_sums(struct stx__emit *e, const struct stx__block *b, int j)
{
	struct stx__tile *t = e->tile;
	struct stx__for f;
	if (!t->offset[!j])
		return;
	LLVMValueRef i =
		stx__for_begin(e, &f, stx__i64(e, 0), j ? b->cols : b->rows, stx__i64(e, t->w));
	store(e, LLVMConstNull(words_type(e)), sum_place(e, b, j, i), t->bytes);
	stx__for_end(e, &f);
}

/* Words of operand j, n vectors of as many rows or columns from i on. */
static void add_sums(struct stx__emit *e, const struct stx__block *b, int j, LLVMValueRef i,
		     const LLVMValueRef *words, unsigned n)
{
	struct stx__tile *t = e->tile;
	if (!t->offset[!j])
		return;
	LLVMValueRef p = sum_place(e, b, j, i), sum = load(e, words_type(e), p, t->bytes);
	for (unsigned v = 0; v < n; v++)
		sum = stx__tile_add_up(e, j, words[v], sum);
	store(e, sum, p, t->bytes);
}

/* ---- packing a ---- */

static void a_vector(struct stx__emit *e, const struct stx__block *b, LLVMValueRef k,
		     LLVMValueRef rest)
{
	struct stx__tile *t = e->tile;
	LLVMValueRef row = e->axis[e->k->insts.at[t->rows].a];
	LLVMValueRef v = words_along(e, 0, rest);
	LLVMValueRef at = add(e, times(e, row, t->row_pitch), words_of(e, k));
	store(e, v, beyond(e, b->packed[0], at), vector_align(e));
	if (!t->offset[1])
		return;
	LLVMTypeRef type = words_type(e);
	v = stx__tile_add_up(e, 0, v, LLVMConstNull(type));
	v = stx__call(e, "llvm.vector.reduce.add", &type, 1, &v, 1);
	LLVMValueRef p = sum_place(e, b, 0, row);
	store(e, add(e, load(e, e->i32, p, t->bytes), v), p, t->bytes);
}

static void pack_a(struct stx__emit *e, const struct stx__block *b)
{
	struct stx__tile *t = e->tile;
	struct stx__for f, g;
	LLVMValueRef zero = stx__i64(e, 0), one = stx__i64(e, 1), w = stx__i64(e, t->w);
	clear_sums(e, b, 0);
	if (t->a_by_rows) {
		LLVMValueRef i = stx__for_begin(e, &f, zero, b->rows, one);
		set_axis(e, t->rows, i, 2);
		stx__tile_fetch_ahead(e, t->rows, ROWS_AHEAD);
		along_terms(e, b, a_vector);
		stx__tile_fetch_ahead(e, t->rows, 0);
		stx__for_end(e, &f);
		return;
	}
	LLVMValueRef k = stx__for_begin(e, &f, zero, b->terms, stx__i64(e, t->group));
	LLVMValueRef i = stx__for_begin(e, &g, zero, b->rows, w);
	LLVMValueRef rest = least(e, LLVMBuildSub(e->b, b->rows, i, ""), w);
	set_axis(e, t->rows, i, 3);
	LLVMValueRef v = words_across(e, 0, t->rows, rest, add(e, b->first, k), 2);
	LLVMValueRef at = add(e, times(e, words_of(e, k), t->term_pitch), i);
	store(e, v, beyond(e, b->packed[0], at), vector_align(e));
	add_sums(e, b, 0, i, &v, 1);
	stx__for_end(e, &g);
	stx__for_end(e, &f);
}

/* ---- packing b ---- */

/* w columns from the axis' place on, by w words of terms. */
static void b_square(struct stx__emit *e, const struct stx__block *b, LLVMValueRef k,
		     LLVMValueRef rest)
{
	struct stx__tile *t = e->tile;
	LLVMValueRef v[64] = { NULL }, col = e->axis[e->k->insts.at[t->cols].a],
		     nr = stx__i64(e, t->nv * t->w);
	LLVMValueRef last = add(e, b->cols, stx__i64(e, -1));
	stx__tile_fetch_ahead(e, t->terms, TERMS_AHEAD);
	for (unsigned i = 0; i < t->w; i++) {
		set_axis(e, t->cols, least(e, add(e, col, stx__i64(e, i)), last), 2);
		v[i] = words_along(e, 1, rest);
	}
	stx__tile_fetch_ahead(e, t->terms, 0);
	set_axis(e, t->cols, col, 2);
	stx__transpose(e, v, t->w);
	add_sums(e, b, 1, col, v, t->w);
	LLVMValueRef at = times(e, LLVMBuildUDiv(e->b, col, nr, ""), t->panel);
	at = add(e, at, LLVMBuildURem(e->b, col, nr, ""));
	LLVMValueRef p = beyond(e, b->packed[1], at);
	p = beyond(e, p, LLVMBuildMul(e->b, words_of(e, k), nr, ""));
	for (unsigned i = 0; i < t->w; i++)
		store(e, v[i], beyond(e, p, stx__i64(e, (int64_t)i * t->nv * t->w)),
		      vector_align(e));
}

/* One panel's part of the terms from k on: NV vectors. */
static void b_line(struct stx__emit *e, const struct stx__block *b, LLVMValueRef k,
		   LLVMValueRef col, int is_last)
{
	struct stx__tile *t = e->tile;
	unsigned nr = t->nv * t->w;
	LLVMValueRef panel = LLVMBuildUDiv(e->b, col, stx__i64(e, nr), "");
	LLVMValueRef at = add(e, times(e, panel, t->panel), times(e, words_of(e, k), nr));
	LLVMValueRef term = add(e, b->first, k);
	for (unsigned i = 0; i < t->nv; i++) {
		LLVMValueRef c = add(e, col, stx__i64(e, (int64_t)i * t->w)), rest = NULL;
		if (is_last) {
			rest = most(e, LLVMBuildSub(e->b, b->cols, c, ""), stx__i64(e, 0));
			rest = least(e, rest, stx__i64(e, t->w));
		}
		/* whichever loop is the outer one */
		set_axis(e, t->cols, c, t->b_masked ? 2 : 3);
		LLVMValueRef v = words_across(e, 1, t->cols, rest, term, t->b_masked ? 3 : 2);
		store(e, v, beyond(e, beyond(e, b->packed[1], at), stx__i64(e, (int64_t)i * t->w)),
		      vector_align(e));
		add_sums(e, b, 1, c, &v, 1);
	}
}

static void b_panel(struct stx__emit *e, const struct stx__block *b, LLVMValueRef col, int is_last)
{
	struct stx__for f;
	LLVMValueRef k =
		stx__for_begin(e, &f, stx__i64(e, 0), b->terms, stx__i64(e, e->tile->group));
	stx__tile_fetch_ahead(e, e->tile->cols, e->tile->nv * e->tile->w);
	b_line(e, b, k, col, is_last);
	stx__tile_fetch_ahead(e, e->tile->cols, 0);
	stx__for_end(e, &f);
}

static void pack_b(struct stx__emit *e, const struct stx__block *b)
{
	struct stx__tile *t = e->tile;
	struct stx__for f, g;
	LLVMValueRef zero = stx__i64(e, 0), nr = stx__i64(e, t->nv * t->w);
	clear_sums(e, b, 1);
	if (t->b_across) {
		LLVMValueRef j = stx__for_begin(e, &f, zero, b->cols, stx__i64(e, t->w));
		set_axis(e, t->cols, j, 2);
		along_terms(e, b, b_square);
		stx__for_end(e, &f);
		return;
	}
	if (t->line) {
		stx__tile_pack_lines(e, b);
		return;
	}
	LLVMValueRef whole = LLVMBuildAnd(e->b, b->cols, stx__i64(e, -(int64_t)(t->nv * t->w)), "");
	if (t->b_masked) {
		LLVMValueRef j = stx__for_begin(e, &f, zero, whole, nr);
		b_panel(e, b, j, 0);
		stx__for_end(e, &f);
		LLVMBasicBlockRef after =
			stx__if_begin(e, stx__icmp(e, LLVMIntSLT, whole, b->cols));
		b_panel(e, b, whole, 1);
		stx__if_end(e, after);
		return;
	}
	LLVMValueRef k = stx__for_begin(e, &f, zero, b->terms, stx__i64(e, t->group));
	LLVMValueRef j = stx__for_begin(e, &g, zero, whole, nr);
	stx__tile_fetch_ahead(e, t->terms, ROWS_AHEAD * t->group);
	b_line(e, b, k, j, 0);
	stx__tile_fetch_ahead(e, t->terms, 0);
	stx__for_end(e, &g);
	LLVMBasicBlockRef after = stx__if_begin(e, stx__icmp(e, LLVMIntSLT, whole, b->cols));
	b_line(e, b, k, whole, 1);
	stx__if_end(e, after);
	stx__for_end(e, &f);
}

/* ---- fetching ---- */

/* The load of a's hole that comes from far, or STX_NONE. */
static uint32_t far_load(struct stx__emit *e)
{
	struct stx__tile *t = e->tile;
	uint32_t axis = e->k->insts.at[t->terms].a;
	for (uint32_t n = t->rows; n < t->update; n++) {
		const struct stx_kinst *i = &e->k->insts.at[n];
		if (t->in[0][n] && i->op == STX_K_LOAD && stx__is_far(e, i->a) &&
		    stx_ex_uses_var(e->k->ex, i->ex, axis) &&
		    !stx_ex_uses_kind(e->k->ex, i->ex, STX_ATOM_INDIRECT))
			return n;
	}
	return STX_NONE;
}

static LLVMValueRef row_at(struct stx__emit *e, const struct stx_kinst *load, int64_t row)
{
	set_axis(e, e->tile->rows, stx__i64(e, row), 1);
	LLVMValueRef at = stx__ex_scalar(e, load->ex);
	LLVMTypeRef type = stx__mem_type(e, (enum stx_dtype)load->dtype);
	return LLVMBuildGEP2(e->b, type, e->params[load->a], &at, 1, "");
}

void stx__tile_find_next(struct stx__emit *e, struct stx__block *b, LLVMValueRef all)
{
	struct stx__tile *t = e->tile;
	uint32_t n = t->a_by_rows && !t->thin && !t->keeps[0] ? far_load(e) : STX_NONE;
	b->next = NULL;
	if (n == STX_NONE)
		return;
	const struct stx_kinst *i = &e->k->insts.at[n];
	LLVMValueRef now = e->axis[0], zero = stx__i64(e, 0);
	LLVMValueRef first = add(e, b->first, stx__i64(e, t->kc));
	LLVMValueRef is_last = stx__icmp(e, LLVMIntSGE, first, all);
	first = stx__select(e, is_last, zero, first);
	e->axis[0] = add(e, now, LLVMBuildZExt(e->b, is_last, e->i64, ""));
	set_axis(e, t->terms, first, 1);
	b->next = row_at(e, i, 0);
	LLVMValueRef second = row_at(e, i, 1);
	b->next_pitch = LLVMBuildSub(e->b, LLVMBuildPtrToInt(e->b, second, e->i64, ""),
				     LLVMBuildPtrToInt(e->b, b->next, e->i64, ""), "");
	b->next_step = (int64_t)stx_dtype_bytes((enum stx_dtype)i->dtype) * t->group;
	if (t->prepared[0].is_offered) {
		LLVMValueRef is_there = t->prepared[0].is_there;
		LLVMValueRef block = stx__tile_prepared_block(e, 0, first);
		b->next = stx__select(e, is_there, block, b->next);
		b->next_pitch = stx__select(e, is_there, stx__i64(e, t->row_pitch * t->bytes),
					    b->next_pitch);
	}
	e->axis[0] = now;
}

/* ---- either ---- */

void stx__tile_pack(struct stx__emit *e, const struct stx__block *b, int j, LLVMValueRef wanted)
{
	LLVMBasicBlockRef after = wanted ? stx__if_begin(e, wanted) : NULL;
	stx__tile_observe_begin(e);
	if (j)
		pack_b(e, b);
	else
		pack_a(e, b);
	stx__tile_observe_end(e);
	stx__if_end(e, after);
}
