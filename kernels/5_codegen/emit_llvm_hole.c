/* emit_llvm_hole.c: playing the holes of a skeleton, and transposing what they give. */
#include "emit_llvm_blocks.h"

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
