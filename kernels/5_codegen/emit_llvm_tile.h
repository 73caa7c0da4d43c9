/* emit_llvm_tile.h
 * what the emitters of matrix products in tiles share: addresses in the scratch, words, operands. */
#ifndef STX_EMIT_LLVM_TILE_H
#define STX_EMIT_LLVM_TILE_H

#include "emit_llvm_blocks.h"

struct stx__block {                            /* of terms, and of the tile */
	LLVMValueRef rows, cols, first, terms; /* sizes; first: number of the first term */
	LLVMValueRef packed[2];                /* addresses of its operands */
	/* What a is of the block to come, of this tile or the next: address, bytes from row to row,
	 * of a word; NULL: nothing that is worth being fetched ahead. */
	LLVMValueRef next, next_pitch;
	int64_t next_step;
};

/* Element i of the scratch, from byte `at`. */
static inline LLVMValueRef place(struct stx__emit *e, int64_t at, LLVMValueRef i)
{
	LLVMValueRef p = e->scratch, off = stx__i64(e, at);
	p = LLVMBuildGEP2(e->b, e->i8, p, &off, 1, "");
	return LLVMBuildGEP2(e->b, stx__type(e, e->tile->dtype), p, &i, 1, "");
}

static inline LLVMValueRef beyond(struct stx__emit *e, LLVMValueRef p, LLVMValueRef i)
{
	return LLVMBuildGEP2(e->b, stx__type(e, e->tile->dtype), p, &i, 1, "");
}

static inline LLVMTypeRef vector(struct stx__emit *e)
{
	return stx__vec(stx__type(e, e->tile->dtype), e->tile->w);
}

static inline unsigned vector_align(const struct stx__emit *e)
{
	return e->tile->w * e->tile->bytes;
}

static inline LLVMTypeRef words_type(struct stx__emit *e)
{
	return e->tile->group == 1 ? vector(e) : stx__vec(e->i32, e->tile->w);
}

/* Words that hold so many terms. */
static inline LLVMValueRef words_of(struct stx__emit *e, LLVMValueRef terms)
{
	return LLVMBuildLShr(e->b, terms, stx__i64(e, e->tile->group / 2), "");
}

/* Place of the sum of row i, of column i. */
static inline LLVMValueRef sum_place(struct stx__emit *e, const struct stx__block *b, int j,
				     LLVMValueRef i)
{
	struct stx__tile *t = e->tile;
	LLVMValueRef nr = stx__i64(e, t->nv * t->w), at = i;
	if (j) {
		at = times(e, LLVMBuildUDiv(e->b, i, nr, ""), t->panel);
		at = add(e, at, LLVMBuildURem(e->b, i, nr, ""));
	}
	return beyond(e, b->packed[j], add(e, at, stx__i64(e, t->sums_at[j])));
}

/* Loads that follow read what is so many iterations of `loop` ahead, too; by: 0: no longer. */
static inline void stx__tile_fetch_ahead(struct stx__emit *e, uint32_t loop, int64_t by)
{
	e->ahead.axis = e->k->insts.at[loop].a;
	e->ahead.by = by;
}

/* Operand j (0: a, 1: b) for w iterations of `loop` from where its axis stands; rest: how many
 * there are, or NULL. The other axes stand where they are. */
struct stx__val stx__tile_hole(struct stx__emit *e, int j, uint32_t loop, LLVMValueRef rest,
			       unsigned w);
/* Words of operand j, w columns from where their axis stands: of the terms from `term` on, whose
 * axis is `depth` loops deep. rest: how many columns there are, or NULL. */
LLVMValueRef stx__tile_word_across(struct stx__emit *e, int j, LLVMValueRef rest, LLVMValueRef term,
				   unsigned depth);
/* e is a multiple of n whatever the grid point: a constant, a smaller last tile, sums of those. */
int stx__tile_is_multiple(struct stx_exprs *x, stx_ex e, int64_t n);
/* emit_llvm_tile_lines.c */
void stx__tile_pack_lines(struct stx__emit *e, const struct stx__block *b);
/* Packs operand j of the block; wanted: when, or NULL. */
void stx__tile_pack(struct stx__emit *e, const struct stx__block *b, int j, LLVMValueRef wanted);
/* Sets b->next. all: the number of terms. */
void stx__tile_find_next(struct stx__emit *e, struct stx__block *b, LLVMValueRef all);
/* Where block `first` of operand j of tile axis[0] is, if it is prepared. */
LLVMValueRef stx__tile_prepared_block(struct stx__emit *e, int j, LLVMValueRef first);
/* Operand j of the block is where it was prepared, if it was, else where b->packed says. Returns when
 * it is to be packed (NULL: always); wanted: when that would be without. */
LLVMValueRef stx__tile_take_prepared(struct stx__emit *e, struct stx__block *b, int j,
				     LLVMValueRef wanted);
void stx__tile_leave(struct stx__emit *e); /* the nest's axes are no more */

#endif
