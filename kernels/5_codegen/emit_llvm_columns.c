/* emit_llvm_columns.c: sums down columns that lie side by side, a block of rows at a time.
 *
 * A vector loop over columns with a serial reduction inside reads a few vectors of each row, and a
 * row is a page or more away from the next: no hardware fetches that ahead. So the loops change
 * places: rows go by chunks of STX_SERIAL_CHUNK, as the sum does anyway (kernel.h), and within a
 * chunk the vector loop passes over all columns. Each column's stack of partial results is in
 * memory, side by side; the chunk's number is every column's count, so it merges what it would
 * merge alone, in the same order: not a bit changes. Afterwards the vector loop runs again for
 * what follows the reduction. What stands before the reduction has no effects and is computed in
 * every pass. */
#include "emit_llvm.h"

#define MOST_COLUMNS 4096
#define MOST_BYTES   (256u << 10) /* of all stacks, on the thread's */

static const struct stx_kinst *inst(const struct stx__emit *e, uint32_t n)
{
	return &e->k->insts.at[n];
}

/* The one loop in VECTOR loop v, with nothing that has effects before or in it; or STX_NONE. */
static uint32_t only_reduction(const struct stx__emit *e, uint32_t v)
{
	uint32_t found = STX_NONE, end = e->loop[v].end;
	for (uint32_t n = v + 1; n < end; n++) {
		const struct stx_kinst *i = inst(e, n);
		if (i->op == STX_K_LOOP && (found != STX_NONE || !e->loop[n].accs))
			return STX_NONE;
		if (i->op == STX_K_LOOP)
			found = n;
		int inside = found == STX_NONE || n < e->loop[found].end;
		if (i->op == STX_K_SORT ||
		    (inside && (i->op == STX_K_STORE || i->op == STX_K_INDIRECT)))
			return STX_NONE;
		if (inside && i->op == STX_K_LOAD && e->k->params.at[i->a].is_written)
			return STX_NONE;
	}
	return found;
}

void stx__find_columns(struct stx__emit *e, uint32_t v)
{
	struct stx__loop_info *l = &e->loop[v];
	int64_t most = stx_ex_interval(e->k->ex, e->k->axes.at[inst(e, v)->a].size).hi;
	uint32_t r = l->scalar || l->accs ? STX_NONE : only_reduction(e, v);
	uint64_t bytes = 0;
	l->columns = STX_NONE;
	if (r == STX_NONE || l->w < 2 || most <= (int64_t)l->w * l->copies || most > MOST_COLUMNS)
		return;
	unsigned pitch = ((unsigned)most + 63) / 64 * 64 / l->w;
	for (struct stx__acc *a = e->loop[r].accs; a; a = a->next_loop) {
		if (a->inner != r || !a->parted || a->order != STX_ORDER_SERIAL ||
		    !e->varying[a->inst])
			return;
		bytes += (uint64_t)a->ranks * pitch * l->w * a->nstates * stx_dtype_bytes(a->dtype);
	}
	if (bytes > MOST_BYTES)
		return;
	for (struct stx__acc *a = e->loop[r].accs; a; a = a->next_loop)
		a->pitch = pitch;
	l->columns = r;
}

/* Rows [begin, end) are chunk number `count`. */
static void one_chunk(struct stx__emit *e, uint32_t v, LLVMValueRef columns, LLVMValueRef begin,
		      LLVMValueRef rows, LLVMValueRef chunk)
{
	e->rows.begin = begin;
	e->rows.end = stx__smaller(e, rows, LLVMBuildAdd(e->b, begin, chunk, ""));
	e->rows.count = LLVMBuildUDiv(e->b, begin, chunk, "");
	e->rows.is_last = 0;
	stx__vector_part(e, v, stx__i64(e, 0), columns);
}

void stx__emit_columns(struct stx__emit *e, uint32_t v, LLVMValueRef columns)
{
	uint32_t r = e->loop[v].columns;
	LLVMValueRef zero = stx__i64(e, 0), chunk = stx__i64(e, STX_SERIAL_CHUNK);
	struct stx_interval range;
	struct stx__for f;
	LLVMValueRef rows = stx__loop_size(e, r, &range);
	for (struct stx__acc *a = e->loop[r].accs; a; a = a->next_loop)
		stx__acc_stack(e, a, e->loop[v].w, a->pitch);
	e->rows.loop = r;
	LLVMValueRef at = stx__for_begin(e, &f, zero, rows, chunk);
	one_chunk(e, v, columns, at, rows, chunk);
	stx__for_end(e, &f);
	LLVMValueRef up = LLVMBuildAdd(e->b, rows, stx__i64(e, STX_SERIAL_CHUNK - 1), "");
	e->rows.count = LLVMBuildUDiv(e->b, up, chunk, "");
	e->rows.is_last = 1;
	stx__vector_part(e, v, zero, columns);
	e->rows.loop = STX_NONE;
}

/* LOOP r in a pass over the columns. 1: the pass ends here. */
int stx__columns_loop(struct stx__emit *e, uint32_t r)
{
	struct stx__acc *a;
	if (!e->rows.is_last) {
		for (a = e->loop[r].accs; a; a = a->next_loop)
			stx__acc_reset(e, a);
		stx__serial_body(e, r, e->rows.begin, e->rows.end);
	}
	for (a = e->loop[r].accs; a; a = a->next_loop)
		if (e->rows.is_last)
			stx__acc_finish(e, a);
		else
			stx__acc_part(e, a);
	return !e->rows.is_last;
}
