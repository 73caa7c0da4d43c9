/* emit_llvm_tile_lines.c: packing columns that are the lines of a picture, one line at a time.
 *
 * Columns c of a convolution are points y, x of its result, c = line * y + x: what a vector of them
 * reads is a division by the line's length for every lane, and the padding's conditions too. Along
 * one line those with y are uniform, and x steps through memory. So the operand's hole is kept a
 * second time, over y and x, and each line's vectors are stored where the panels have its columns.
 * A vector's lanes beyond the line hold zeros, which the next line overwrites; what goes beyond a
 * panel is stored in two parts.
 *
 * requires: sizes are chosen (emit_llvm_tile_form.c). */
#include <string.h>

#include "emit_llvm_tile.h"

#define AT_ONCE 4 /* vectors of lines whose terms are gone through together */

/* ---- which ---- */

/* The least constant that the variable alone is divided by in ex, if others are multiples of it:
 * *line, 0: none yet. 0: it is divided otherwise. As deep as expressions nest. */
static int find_line(const struct stx_kernel *k, stx_ex ex, uint32_t var, int64_t *line)
{
	uint32_t n = ex == STX_EX_BAD ? 0 : stx_ex_nterms(k->ex, ex);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(k->ex, ex, i);
		for (uint32_t j = 0; j < t.natoms; j++) {
			struct stx_ex_atom a = stx_ex_atom_at(k->ex, t.atoms[j]);
			stx_ex coeff, rest;
			int64_t d;
			if (a.kind < STX_ATOM_FLOORDIV || !stx_ex_uses_var(k->ex, a.a, var))
				continue;
			if (!stx_ex_linear_in(k->ex, a.a, var, &coeff, &rest)) {
				if (!find_line(k, a.a, var, line))
					return 0;
				continue;
			}
			if (!stx_ex_equals(k->ex, coeff, 1) || !stx_ex_equals(k->ex, rest, 0) ||
			    !stx_ex_is_const(k->ex, a.b, &d) || (*line && d % *line && *line % d))
				return 0;
			*line = !*line || d < *line ? d : *line;
		}
	}
	return 1;
}

/* k with room for two more axes and instructions of its own. */
static struct stx_kernel *copy_kernel(const struct stx_kernel *k, struct stx_arena *arena)
{
	struct stx_kernel *c = STX_NEW(arena, struct stx_kernel);
	struct stx_kinst *insts = STX_NEW_ARRAY(arena, struct stx_kinst, k->insts.n);
	struct stx_axis *axes = STX_NEW_ARRAY(arena, struct stx_axis, k->axes.n + 2);
	if (!c || !insts || !axes)
		return NULL;
	memcpy(insts, k->insts.at, k->insts.n * sizeof *insts);
	memcpy(axes, k->axes.at, k->axes.n * sizeof *axes);
	*c = *k;
	c->insts.at = insts;
	c->axes.at = axes;
	return c;
}

/* Along a line every load that moves takes even steps. */
static int is_even(const struct stx_kernel *k, const struct stx_kinst *i, uint32_t x)
{
	stx_ex coeff, rest;
	int64_t step;
	return !stx_ex_uses_var(k->ex, i->ex, x) ||
	       (stx_ex_linear_in(k->ex, i->ex, x, &coeff, &rest) &&
		stx_ex_is_const(k->ex, coeff, &step) && step >= 1);
}

void stx__tile_find_lines(const struct stx_kernel *k, struct stx_arena *arena, struct stx__tile *t)
{
	uint32_t col = k->insts.at[t->cols].a, y = k->axes.n, x = y + 1;
	stx_ex map[STX_KERNEL_MAX_AXES];
	int64_t line = 0;
	t->line = 0;
	if (t->thin || t->b_across || t->offset[0] || t->offset[1] || x >= STX_KERNEL_MAX_AXES)
		return;
	for (uint32_t n = t->rows; n < t->update; n++)
		if (t->in[1][n] && !find_line(k, k->insts.at[n].ex, col, &line))
			return;
	if (line < 2 || !stx__tile_is_multiple(k->ex, axis_of(k, t->cols)->size, line))
		return;
	struct stx_kernel *c = copy_kernel(k, arena);
	if (!c)
		return;
	for (uint32_t i = 0; i <= col; i++)
		map[i] = STX_EX_BAD;
	c->axes.n += 2;
	c->axes.at[y] = c->axes.at[x] = c->axes.at[col];
	c->axes.at[y].size = stx_ex_const(k->ex, t->most_cols / line);
	c->axes.at[x].size = stx_ex_const(k->ex, line);
	c->insts.at[t->cols].a = x;
	map[col] = stx_ex_add(k->ex,
			      stx_ex_muli(k->ex, stx_ex_var(k->ex, y, c->axes.at[y].size), line),
			      stx_ex_var(k->ex, x, c->axes.at[x].size));
	for (uint32_t n = t->rows; n < t->update; n++) {
		struct stx_kinst *i = &c->insts.at[n];
		if (!t->in[1][n] || (i->op != STX_K_LOAD && i->op != STX_K_INDEX))
			continue;
		i->ex = stx_ex_subst(k->ex, i->ex, map, col + 1);
		if (i->ex == STX_EX_BAD || (i->op == STX_K_LOAD && !is_even(k, i, x)))
			return;
	}
	t->line = line;
	t->lined = c;
}

/* ---- packing ---- */

static void masked_store(struct stx__emit *e, LLVMValueRef v, LLVMValueRef p, LLVMValueRef mask)
{
	LLVMValueRef args[4] = { v, p, LLVMConstInt(e->i32, e->tile->bytes, 0), mask };
	LLVMTypeRef types[2] = { LLVMTypeOf(v), e->ptr };
	stx__call(e, "llvm.masked.store", types, 2, args, 4);
}

/* A vector of the columns from c on, `lanes` of which are the line's, at word `word` of panels. */
static void store_columns(struct stx__emit *e, const struct stx__block *b, LLVMValueRef v,
			  LLVMValueRef c, LLVMValueRef word, unsigned lanes)
{
	struct stx__tile *t = e->tile;
	unsigned nr = t->nv * t->w;
	LLVMValueRef width = stx__i64(e, nr), off = LLVMBuildURem(e->b, c, width, "");
	LLVMValueRef at = times(e, LLVMBuildUDiv(e->b, c, width, ""), t->panel);
	LLVMValueRef p = beyond(e, b->packed[1], add(e, at, times(e, word, nr)));
	if (t->line % t->w == 0) {
		store(e, v, beyond(e, p, off), vector_align(e));
		return;
	}
	LLVMBasicBlockRef within = stx__block(e, "within"), across = stx__block(e, "across"),
			  after = stx__block(e, "stored");
	LLVMValueRef left = LLVMBuildSub(e->b, width, off, "");
	LLVMBuildCondBr(e->b, stx__icmp(e, LLVMIntUGE, left, stx__i64(e, t->w)), within, across);
	LLVMPositionBuilderAtEnd(e->b, within);
	store(e, v, beyond(e, p, off), t->bytes);
	LLVMBuildBr(e->b, after);
	LLVMPositionBuilderAtEnd(e->b, across);
	LLVMTypeRef type = stx__int_type(e, 8 * t->bytes);
	LLVMValueRef lane = stx__iota(e, type, t->w, 1);
	LLVMValueRef end = type == e->i64 ? left : LLVMBuildTrunc(e->b, left, type, "");
	LLVMValueRef first = stx__icmp(e, LLVMIntULT, lane, stx__splat(e, end, t->w));
	masked_store(e, v, beyond(e, p, off), first);
	LLVMBasicBlockRef rest =
		stx__if_begin(e, stx__icmp(e, LLVMIntULT, left, stx__i64(e, lanes)));
	off = add(e, off, stx__i64(e, (int64_t)t->panel - nr));
	masked_store(e, v, beyond(e, p, off), LLVMBuildNot(e->b, first, ""));
	stx__if_end(e, rest);
	LLVMBuildBr(e->b, after);
	LLVMPositionBuilderAtEnd(e->b, after);
}

/* All terms of `count` lines from y on, of n columns from x on, n a constant. */
static void pack_part(struct stx__emit *e, const struct stx__block *b, LLVMValueRef y,
		      int64_t count, LLVMValueRef x, int64_t n)
{
	struct stx__tile *t = e->tile;
	struct stx__for f;
	uint32_t axis = e->k->axes.n - 2;
	LLVMValueRef k = stx__for_begin(e, &f, stx__i64(e, 0), b->terms, stx__i64(e, t->group));
	LLVMValueRef word = words_of(e, k), term = add(e, b->first, k);
	for (int64_t l = 0; l < count; l++) {
		e->axis[axis] = add(e, y, stx__i64(e, l));
		LLVMValueRef first = add(e, times(e, e->axis[axis], t->line), x);
		for (int64_t i = 0; i < n; i += t->w) {
			unsigned lanes = n - i < t->w ? (unsigned)(n - i) : t->w;
			LLVMValueRef rest = lanes < t->w ? stx__i64(e, lanes) : NULL;
			set_axis(e, t->cols, add(e, x, stx__i64(e, i)), 2);
			LLVMValueRef v = stx__tile_word_across(e, 1, rest, term, 3);
			store_columns(e, b, v, add(e, first, stx__i64(e, i)), word, lanes);
		}
	}
	stx__for_end(e, &f);
}

/* Lines [from, to), `count` at a time. */
static void pack_lines(struct stx__emit *e, const struct stx__block *b, LLVMValueRef from,
		       LLVMValueRef to, int64_t count)
{
	struct stx__tile *t = e->tile;
	struct stx__for f, g;
	int64_t each = AT_ONCE * (int64_t)t->w, whole = t->line / each * each;
	LLVMValueRef y = stx__for_begin(e, &f, from, to, stx__i64(e, count));
	e->axis_depth[e->k->axes.n - 2] = 1;
	if (whole) {
		LLVMValueRef zero = stx__i64(e, 0), end = stx__i64(e, whole);
		LLVMValueRef x = stx__for_begin(e, &g, zero, end, stx__i64(e, each));
		pack_part(e, b, y, count, x, each);
		stx__for_end(e, &g);
	}
	if (t->line > whole)
		pack_part(e, b, y, count, stx__i64(e, whole), t->line - whole);
	stx__for_end(e, &f);
}

void stx__tile_pack_lines(struct stx__emit *e, const struct stx__block *b)
{
	struct stx__tile *t = e->tile;
	const struct stx_kernel *k = e->k;
	int64_t count = AT_ONCE / ((t->line - 1) / t->w + 1);
	LLVMValueRef zero = stx__i64(e, 0), whole = zero;
	LLVMValueRef lines = LLVMBuildUDiv(e->b, b->cols, stx__i64(e, t->line), "");
	e->k = t->lined;
	e->ahead.axis = k->axes.n;
	e->ahead.by = count > 1 ? count : 1;
	if (count > 1) {
		whole = LLVMBuildSub(e->b, lines,
				     LLVMBuildURem(e->b, lines, stx__i64(e, count), ""), "");
		pack_lines(e, b, zero, whole, count);
	}
	pack_lines(e, b, whole, lines, 1);
	e->ahead.by = 0;
	e->axis[k->axes.n] = e->axis[k->axes.n + 1] = NULL;
	e->k = k;
}
