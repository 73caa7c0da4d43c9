/* emit_llvm_hole.c: the loops of a skeleton; playing its holes, and transposing what they give;
 * playing its epilogue. */
#include "emit_llvm_blocks.h"

int stx__see_loop(struct nest *t, uint32_t n, uint32_t most)
{
	const struct stx_axis *x = axis_of(t->k, n);
	if (t->nloops != t->depth || t->depth == most ||
	    x->binding != (t->depth == 1 ? STX_AXIS_VECTOR : STX_AXIS_LOOP) ||
	    x->is_reduction != (t->depth >= 2))
		return 0;
	for (uint32_t i = 0; i < t->depth; i++)
		if (stx_ex_uses_var(t->k->ex, x->size, t->k->insts.at[t->open[i]].a))
			return 0;
	t->open[t->depth++] = n;
	t->nloops++;
	return 1;
}

int stx__see_end(struct nest *t, uint32_t n)
{
	return --t->depth || n + 1 == t->k->insts.n;
}

void stx__play_rows(struct stx__emit *e, uint32_t rows, LLVMValueRef first, LLVMValueRef end,
		    uint8_t *in_epilogue)
{
	struct stx__for f;
	LLVMValueRef row = stx__for_begin(e, &f, first, end, stx__i64(e, 1));
	set_axis(e, rows, row, 1);
	e->depth = 1;
	*in_epilogue = 1;
	stx__emit_range(e, rows + 1, e->loop[rows].end);
	*in_epilogue = 0;
	e->depth = 0;
	stx__for_end(e, &f);
}

struct stx__val stx__play_hole(struct stx__emit *e, const struct hole *h, uint32_t loop, unsigned w,
			       unsigned bytes, LLVMValueRef rest)
{
	e->vaxis = e->k->insts.at[loop].a;
	e->w = w;
	e->copies = 1;
	e->copy = 0;
	e->rest = rest;
	e->mask = NULL;
	e->slot = NULL;
	if (rest) { /* the number of lanes must fit */
		LLVMTypeRef type = stx__int_type(e, e->mask_bits = w == 64 ? 8 : 8 * bytes);
		LLVMValueRef limit = type == e->i64 ? rest : LLVMBuildTrunc(e->b, rest, type, "");
		e->mask =
			stx__icmp(e, LLVMIntULT, stx__iota(e, type, w, 1), stx__splat(e, limit, w));
	}
	for (uint32_t n = h->from; n < h->to && !e->err; n++) {
		if (!h->in[n])
			continue;
		h->was[n] = e->varying[n];
		e->varying[n] = (uint8_t)stx__inst_varies(e, n);
		if (h->given && h->given[n])
			h->give(e, n);
		else
			stx__emit_inst(e, n);
	}
	struct stx__val v = stx__get(e, h->value, w);
	for (uint32_t n = h->from; n < h->to; n++)
		if (h->in[n])
			e->varying[n] = h->was[n];
	e->w = 0;
	e->mask = e->rest = NULL;
	return v;
}

/* Transposes w vectors of w lanes: log2(w) stages of exchanges at distance d. */
void stx__transpose(struct stx__emit *e, LLVMValueRef *v, unsigned w)
{
	LLVMValueRef lo[64], hi[64];
	for (unsigned d = w / 2; d; d /= 2) {
		for (unsigned j = 0; j < w; j++) {
			lo[j] = LLVMConstInt(e->i32, j & d ? w + j - d : j, 0);
			hi[j] = LLVMConstInt(e->i32, j & d ? w + j : j + d, 0);
		}
		LLVMValueRef mlo = LLVMConstVector(lo, w), mhi = LLVMConstVector(hi, w);
		for (unsigned i = 0; i < w; i++) {
			if (i & d)
				continue;
			LLVMValueRef p = v[i], q = v[i + d];
			v[i] = LLVMBuildShuffleVector(e->b, p, q, mlo, "");
			v[i + d] = LLVMBuildShuffleVector(e->b, p, q, mhi, "");
		}
	}
}
