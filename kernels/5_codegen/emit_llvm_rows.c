/* emit_llvm_rows.c: the loop over grid points; short rows several at a time.
 *
 * A row that reduces waits: for the maximum, then for the sum, then for a chain of scalar work. A
 * processor looks ahead some hundred instructions, which is less than such a row has, so the next
 * row does not begin meanwhile. Here each piece of the kernel, straight or a loop, is emitted for
 * all of the rows before the next piece: what one row waits for, the others do. Scalar work between
 * loops, the logarithm of a sum, is a vector of the rows. Every row computes what it does alone, to the
 * bit. What is left of the grid is taken row by row. */
#include <string.h>

#include "emit_llvm.h"

#define ROWS          4
#define LEAST_ACROSS  6    /* primitives worth a vector of the rows */
#define MOST_OF_A_ROW 1600 /* instructions, about: beyond, a row keeps the processor busy */
#define MOST_CODE     400  /* of them in the text of a row, which is there ROWS + 1 times */

/* What differs between rows while they are emitted. */
struct row {
	LLVMValueRef at;
	struct stx__val *val;
	LLVMValueRef *ok;
	struct stx__kept *kept;
	struct stx__acc *accs; /* [insts.n], of those there are */
};

static int reduces_in_lanes(const struct stx__emit *e, uint32_t n)
{
	return e->k->insts.at[n].op == STX_K_ACC && e->acc[n]->order == STX_ORDER_LANES;
}

/* A row is a sequence of vector loops, more than one, and straight pieces, and not long. */
static int is_short(const struct stx__emit *e)
{
	uint64_t cost = 0, code = 0, loops = 0;
	for (uint32_t n = 0; n < e->k->insts.n; n++) {
		const struct stx_kinst *i = &e->k->insts.at[n];
		const struct stx__loop_info *l = &e->loop[n];
		int64_t size;
		if (e->across[n] || i->op == STX_K_SORT || i->op == STX_K_INDIRECT)
			return 0;
		code += i->op != STX_K_CONST;
		if (i->op != STX_K_LOOP)
			continue;
		const struct stx_axis *x = &e->k->axes.at[i->a];
		if (x->binding != STX_AXIS_VECTOR || l->has_loop || l->scalar ||
		    !stx_ex_is_const(e->k->ex, x->size, &size) || size > MOST_OF_A_ROW * 64)
			return 0;
		cost += (uint64_t)l->cost * (((uint64_t)size + l->w - 1) / l->w);
		code += (uint64_t)l->cost * l->copies;
		loops++;
		n = l->end;
	}
	return loops > 1 && cost + code <= MOST_OF_A_ROW && code <= MOST_CODE &&
	       !stx__is_little(e, (int64_t)cost);
}

/* 1: one after the other. */
static unsigned rows_at_once(const struct stx__emit *e)
{
	int64_t grid;
	int reduces = 0;
	if (e->tile || e->attend || e->rows.loop != STX_NONE ||
	    (stx_ex_is_const(e->k->ex, e->k->axes.at[0].size, &grid) && grid < ROWS))
		return 1;
	for (uint32_t n = 0; n < e->k->insts.n; n++)
		reduces |= reduces_in_lanes(e, n);
	return reduces && is_short(e) ? ROWS : 1;
}

static int make_row(struct stx__emit *e, struct row *r)
{
	size_t n = (size_t)e->k->insts.n + 1;
	r->val = STX_NEW_ARRAY(e->arena, struct stx__val, n * e->stride);
	r->ok = STX_NEW_ARRAY(e->arena, LLVMValueRef, n * e->stride);
	r->kept = STX_NEW_ARRAY(e->arena, struct stx__kept, n);
	r->accs = STX_NEW_ARRAY(e->arena, struct stx__acc, n);
	if (!r->val || !r->ok || !r->kept || !r->accs)
		return 0;
	memcpy(r->kept, e->kept, n * sizeof *r->kept);
	for (uint32_t i = 0; i < e->k->insts.n; i++)
		if (e->acc[i])
			r->accs[i] = *e->acc[i];
	return 1;
}

/* Exchanges what e has with what r has: twice leaves both as they were. */
static void exchange(struct stx__emit *e, struct row *r)
{
	struct row was = { e->axis[0], e->val, e->ok, e->kept, r->accs };
	e->axis[0] = r->at;
	e->val = r->val;
	e->ok = r->ok;
	e->kept = r->kept;
	for (uint32_t i = 0; i < e->k->insts.n; i++)
		if (e->acc[i]) {
			struct stx__acc a = *e->acc[i];
			*e->acc[i] = r->accs[i];
			r->accs[i] = a;
		}
	*r = was;
}

/* Instructions from .. to, without a loop or one loop and no more, for every row. */
static void emit_piece(struct stx__emit *e, struct row *rows, unsigned n, uint32_t from,
		       uint32_t to)
{
	for (unsigned r = 0; from < to && r < n && !e->err; r++) {
		exchange(e, &rows[r]);
		stx__emit_range(e, from, to);
		exchange(e, &rows[r]);
	}
}

/* ---- scalar work of all rows at once ---- */

static int is_wide(const struct stx__emit *e, uint32_t n)
{
	return n == STX_NONE || !stx__is_narrow((enum stx_dtype)e->k->insts.at[n].dtype);
}

static int may_be_across(const struct stx__emit *e, uint32_t n)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	return i->op < STX_PRIM_COUNT && is_wide(e, n) && is_wide(e, i->a) && is_wide(e, i->b) &&
	       is_wide(e, i->c) && !e->kept[n].is_dead && !e->kept[n].is_read && !e->kept[n].elems;
}

/* Operand of the primitives from `from` on, defined before them: a constant, or one value a row. */
static void gather(struct stx__emit *e, const struct row *rows, unsigned n, uint32_t operand)
{
	size_t at = (size_t)operand * e->stride;
	struct stx__val *v = &e->val[at];
	*v = rows[0].val[at];
	if (e->k->insts.at[operand].op == STX_K_CONST)
		return;
	LLVMTypeRef t = LLVMTypeOf(v->v);
	*v = (struct stx__val){ LLVMGetPoison(stx__vec(t, n)), NULL };
	for (unsigned r = 0; r < n; r++)
		v->v = LLVMBuildInsertElement(e->b, v->v, rows[r].val[at].v,
					      LLVMConstInt(e->i32, r, 0), "");
	e->varying[operand] = 1;
}

/* Primitives from .. to, lane r being row r. e->val, which rows replace, is free meanwhile. */
static void emit_across_rows(struct stx__emit *e, struct row *rows, unsigned n, uint32_t from,
			     uint32_t to)
{
	uint8_t *was = STX_NEW_ARRAY(e->arena, uint8_t, to);
	if (!was) {
		stx__fail(e, STX_E_NOMEM, "the memory budget is exceeded");
		return;
	}
	memcpy(was, e->varying, to);
	for (uint32_t i = from; i < to; i++) {
		const struct stx_kinst *in = &e->k->insts.at[i];
		uint32_t operands[3] = { in->a, in->b, in->c };
		for (int j = 0; j < 3; j++)
			if (operands[j] < from && e->varying[operands[j]] == was[operands[j]])
				gather(e, rows, n, operands[j]);
		e->varying[i] = 1;
	}
	e->w = n;
	for (uint32_t i = from; i < to && !e->err; i++)
		stx__emit_inst(e, i);
	e->w = 0;
	for (uint32_t i = from; i < to && !e->err; i++)
		for (unsigned r = 0; r < n; r++) {
			size_t at = (size_t)i * e->stride;
			LLVMValueRef lane = LLVMConstInt(e->i32, r, 0);
			rows[r].val[at] = (struct stx__val){
				LLVMBuildExtractElement(e->b, e->val[at].v, lane, ""), NULL
			};
		}
	memcpy(e->varying, was, to);
}

/* Instructions from .. to, no loop among them. */
static void emit_straight(struct stx__emit *e, struct row *rows, unsigned n, uint32_t from,
			  uint32_t to)
{
	while (from < to && !e->err) {
		uint32_t first = from, end;
		while (first < to && !may_be_across(e, first))
			first++;
		for (end = first; end < to && may_be_across(e, end);)
			end++;
		if (end - first >= LEAST_ACROSS) {
			emit_piece(e, rows, n, from, first);
			emit_across_rows(e, rows, n, first, end);
		} else {
			emit_piece(e, rows, n, from, end);
		}
		from = end;
	}
}

static void emit_rows(struct stx__emit *e, struct row *rows, unsigned n)
{
	for (uint32_t from = 0, to; from < e->k->insts.n && !e->err; from = to) {
		to = from;
		while (to < e->k->insts.n && e->k->insts.at[to].op != STX_K_LOOP)
			to++;
		emit_straight(e, rows, n, from, to);
		if (to == e->k->insts.n)
			return;
		from = to;
		to = e->loop[from].end + 1;
		emit_piece(e, rows, n, from, to);
	}
}

static void emit_single(struct stx__emit *e, LLVMValueRef begin, LLVMValueRef end)
{
	struct stx__for grid;
	int64_t points;
	if (stx_ex_is_const(e->k->ex, e->k->axes.at[0].size, &points) && points == 1) {
		LLVMBasicBlockRef after = stx__if_begin(e, stx__icmp(e, LLVMIntSLT, begin, end));
		e->axis[0] = stx__i64(e, 0);
		stx__emit_range(e, 0, e->k->insts.n);
		stx__if_end(e, after);
		return;
	}
	e->axis[0] = stx__for_begin(e, &grid, begin, end, stx__i64(e, 1));
	stx__emit_range(e, 0, e->k->insts.n);
	stx__for_end(e, &grid);
}

void stx__emit_grid(struct stx__emit *e, LLVMValueRef begin, LLVMValueRef end)
{
	struct row rows[ROWS];
	struct stx__for grid;
	unsigned n = rows_at_once(e);
	e->rows_at_once = n;
	if (n > 1) {
		LLVMValueRef size = LLVMBuildSub(e->b, end, begin, ""), middle;
		middle = LLVMBuildAnd(e->b, size, stx__i64(e, -(int64_t)n), "");
		middle = LLVMBuildAdd(e->b, begin, middle, "");
		LLVMValueRef i = stx__for_begin(e, &grid, begin, middle, stx__i64(e, n));
		for (unsigned r = 0; r < n; r++) {
			if (!make_row(e, &rows[r])) {
				stx__fail(e, STX_E_NOMEM, "the memory budget is exceeded");
				return;
			}
			rows[r].at = LLVMBuildAdd(e->b, i, stx__i64(e, r), "");
		}
		emit_rows(e, rows, n);
		stx__for_end(e, &grid);
		begin = middle;
	}
	e->rows_at_once = 1;
	emit_single(e, begin, end);
}
