/* emit_llvm_blocks.h
 * small pieces of blocked code: shared by the emitters of tiles and of attention only. */
#ifndef STX_EMIT_LLVM_BLOCKS_H
#define STX_EMIT_LLVM_BLOCKS_H

#include "emit_llvm.h"

static inline const struct stx_axis *axis_of(const struct stx_kernel *k, uint32_t loop)
{
	return &k->axes.at[k->insts.at[loop].a];
}

static inline stx_ex grid_var(const struct stx_kernel *k)
{
	return stx_ex_var(k->ex, 0, k->axes.at[0].size);
}

static inline int64_t round_up(int64_t n, int64_t to)
{
	return (n + to - 1) / to * to;
}

static inline LLVMValueRef add(struct stx__emit *e, LLVMValueRef a, LLVMValueRef b)
{
	return LLVMBuildAdd(e->b, a, b, "");
}

static inline LLVMValueRef times(struct stx__emit *e, LLVMValueRef a, int64_t c)
{
	return LLVMBuildMul(e->b, a, stx__i64(e, c), "");
}

static inline LLVMValueRef least(struct stx__emit *e, LLVMValueRef a, LLVMValueRef b)
{
	LLVMTypeRef t = e->i64;
	LLVMValueRef args[2] = { a, b };
	return stx__call(e, "llvm.smin", &t, 1, args, 2);
}

static inline LLVMValueRef most(struct stx__emit *e, LLVMValueRef a, LLVMValueRef b)
{
	LLVMTypeRef t = e->i64;
	LLVMValueRef args[2] = { a, b };
	return stx__call(e, "llvm.smax", &t, 1, args, 2);
}

static inline LLVMValueRef load(struct stx__emit *e, LLVMTypeRef t, LLVMValueRef p, unsigned align)
{
	LLVMValueRef v = LLVMBuildLoad2(e->b, t, p, "");
	LLVMSetAlignment(v, align);
	return v;
}

static inline void store(struct stx__emit *e, LLVMValueRef v, LLVMValueRef p, unsigned align)
{
	LLVMSetAlignment(LLVMBuildStore(e->b, v, p), align);
}

static inline void set_axis(struct stx__emit *e, uint32_t loop, LLVMValueRef at, unsigned depth)
{
	uint32_t axis = e->k->insts.at[loop].a;
	e->axis[axis] = at;
	e->axis_depth[axis] = (uint8_t)depth;
}

/* The open loops of a skeleton: rows, columns (the vector loop), reductions, each in the one before
 * and of a size of its own. */
struct nest {
	const struct stx_kernel *k;
	uint32_t open[4], depth, nloops;
};

/* emit_llvm_hole.c: LOOP n, of `most` at most; 0: the kernel has another form. */
int stx__see_loop(struct nest *t, uint32_t n, uint32_t most);
/* END n: 0: the kernel goes on behind the rows. */
int stx__see_end(struct nest *t, uint32_t n);
/* The rest of the nest for rows [first, end), *in_epilogue set: its RESULTs are there. */
void stx__play_rows(struct stx__emit *e, uint32_t rows, LLVMValueRef first, LLVMValueRef end,
		    uint8_t *in_epilogue);

/* A hole of a skeleton: the instructions in [from, to) that one value needs. */
struct hole {
	const uint8_t *in; /* [insts.n] */
	uint8_t *was;      /* [insts.n] scratch */
	uint32_t from, to, value;
	/* Loads that give(e, n) sets instead, w lanes; NULL: none. */
	const uint8_t *given; /* [insts.n] */
	void (*give)(struct stx__emit *e, uint32_t n);
};

/* Value of the hole for w iterations of `loop` from where its axis stands, elements of `bytes`;
 * rest: how many there are, or NULL. The other axes stand where they are. emit_llvm_hole.c */
struct stx__val stx__play_hole(struct stx__emit *e, const struct hole *h, uint32_t loop, unsigned w,
			       unsigned bytes, LLVMValueRef rest);
/* Transposes w vectors of w lanes. */
void stx__transpose(struct stx__emit *e, LLVMValueRef *v, unsigned w);
/* emit_llvm_tile_form.c: marks, from instruction `from` on, what value needs (in: [insts.n]); the
 * variables of their loads and indices, a bit each. */
uint64_t stx__mark_hole(const struct stx_kernel *k, uint32_t from, uint32_t value, uint8_t *in);
/* Every load of the hole that depends on the axis is contiguous along it. */
int stx__hole_is_contiguous(const struct stx_kernel *k, const uint8_t *in, uint32_t from,
			    uint32_t to, uint32_t axis);

#endif
