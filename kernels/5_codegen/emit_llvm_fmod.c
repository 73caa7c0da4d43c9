/* emit_llvm_fmod.c: the remainder of floats, exact, by long division in integers (fmod in C).
 *
 * LLVM's frem is a call to fmod. The classic loop subtracts the divisor's mantissa bit by bit while
 * the dividend's exponent is above the divisor's; all lanes run together until none is active, so
 * the cost is the largest difference of exponents in the vector. Terminates: each pass lowers every
 * active lane's exponent by one. */
#include "emit_llvm.h"

struct fmod {
	struct stx__emit *e;
	LLVMTypeRef t; /* integers of the float's width */
	unsigned bits, mant, w;
};

static LLVMValueRef k(const struct fmod *f, uint64_t v)
{
	return stx__int(f->t, v);
}

/* Leading zeros left of the place of the implicit bit; the count is at most mant + 1. */
static LLVMValueRef shift_of(const struct fmod *f, LLVMValueRef m)
{
	LLVMValueRef args[2] = { m, LLVMConstInt(f->e->i1, 0, 0) };
	LLVMTypeRef t = f->t;
	LLVMValueRef n = stx__call(f->e, "llvm.ctlz", &t, 1, args, 2);
	return LLVMBuildSub(f->e->b, n, k(f, f->bits - 1 - f->mant), "");
}

/* Magnitude bits to mantissa with its leading bit in place, and exponent. */
static void split(const struct fmod *f, LLVMValueRef a, LLVMValueRef *m, LLVMValueRef *ex)
{
	struct stx__emit *e = f->e;
	LLVMValueRef one = k(f, (uint64_t)1 << f->mant);
	LLVMValueRef x = LLVMBuildLShr(e->b, a, k(f, f->mant), "");
	LLVMValueRef normal = LLVMBuildAnd(e->b, a, k(f, ((uint64_t)1 << f->mant) - 1), "");
	normal = LLVMBuildOr(e->b, normal, one, "");
	LLVMValueRef sub = stx__icmp(e, LLVMIntEQ, x, k(f, 0));
	LLVMValueRef s = shift_of(f, a);
	*m = stx__select(e, sub, LLVMBuildShl(e->b, a, s, ""), normal);
	*ex = stx__select(e, sub, LLVMBuildSub(e->b, k(f, 1), s, ""), x);
}

static LLVMValueRef reduce(const struct fmod *f, LLVMValueRef mx, LLVMValueRef my)
{
	LLVMValueRef d = LLVMBuildSub(f->e->b, mx, my, "");
	return stx__select(f->e, stx__icmp(f->e, LLVMIntSGE, d, k(f, 0)), d, mx);
}

/* Mantissa and exponent back to magnitude bits. */
static LLVMValueRef join(const struct fmod *f, LLVMValueRef m, LLVMValueRef ex)
{
	struct stx__emit *e = f->e;
	LLVMValueRef s = shift_of(f, m);
	LLVMValueRef shifted = LLVMBuildShl(e->b, m, s, "");
	ex = LLVMBuildSub(e->b, ex, s, "");
	LLVMValueRef high =
		LLVMBuildShl(e->b, LLVMBuildSub(e->b, ex, k(f, 1), ""), k(f, f->mant), "");
	LLVMValueRef normal = LLVMBuildAdd(e->b, shifted, high, "");
	LLVMValueRef down = LLVMBuildSub(e->b, k(f, 1), ex, "");
	LLVMValueRef inside = stx__icmp(e, LLVMIntULT, down, k(f, f->bits));
	LLVMValueRef sub = LLVMBuildLShr(e->b, shifted, stx__select(e, inside, down, k(f, 0)), "");
	LLVMValueRef r = stx__select(e, stx__icmp(e, LLVMIntSGT, ex, k(f, 0)), normal, sub);
	return stx__select(e, stx__icmp(e, LLVMIntEQ, m, k(f, 0)), k(f, 0), r);
}

LLVMValueRef stx__fmod(struct stx__emit *e, LLVMValueRef x, LLVMValueRef y, unsigned bits,
		       unsigned w)
{
	struct fmod f = { e, stx__vec(stx__int_type(e, bits), w), bits, bits == 32 ? 23 : 52, w };
	LLVMTypeRef ft = LLVMTypeOf(x);
	uint64_t sign = (uint64_t)1 << (bits - 1),
		 inf = bits == 32 ? 0x7f800000 : (uint64_t)0x7ff << 52;
	LLVMValueRef ux = LLVMBuildBitCast(e->b, x, f.t, ""),
		     uy = LLVMBuildBitCast(e->b, y, f.t, "");
	LLVMValueRef ax = LLVMBuildAnd(e->b, ux, k(&f, sign - 1), "");
	LLVMValueRef ay = LLVMBuildAnd(e->b, uy, k(&f, sign - 1), "");
	LLVMValueRef bad = LLVMBuildOr(e->b, stx__icmp(e, LLVMIntEQ, ay, k(&f, 0)),
				       stx__icmp(e, LLVMIntUGT, ay, k(&f, inf)), "");
	bad = LLVMBuildOr(e->b, bad, stx__icmp(e, LLVMIntUGE, ax, k(&f, inf)), "");
	LLVMValueRef smaller = stx__icmp(e, LLVMIntULT, ax, ay);
	LLVMValueRef mx, my, ex, ey;
	split(&f, ax, &mx, &ex);
	split(&f, ay, &my, &ey);
	/* lanes that need no division never become active */
	LLVMValueRef idle = LLVMBuildOr(e->b, bad, smaller, "");
	LLVMValueRef stop = stx__select(e, idle, ex, ey);

	LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), head = stx__block(e, "fmod");
	LLVMBasicBlockRef body = stx__block(e, "fmod.step"), after = stx__block(e, "fmod.end");
	LLVMBuildBr(e->b, head);
	LLVMPositionBuilderAtEnd(e->b, head);
	LLVMValueRef pm = LLVMBuildPhi(e->b, f.t, ""), px = LLVMBuildPhi(e->b, f.t, "");
	LLVMValueRef active = stx__icmp(e, LLVMIntSGT, px, stop);
	LLVMBuildCondBr(e->b, stx__any(e, active, w), body, after);
	LLVMPositionBuilderAtEnd(e->b, body);
	LLVMValueRef m = LLVMBuildShl(e->b, reduce(&f, pm, my), k(&f, 1), "");
	m = stx__select(e, active, m, pm);
	LLVMValueRef step = stx__select(e, active, k(&f, UINT64_MAX), k(&f, 0));
	LLVMValueRef next = LLVMBuildAdd(e->b, px, step, "");
	LLVMBuildBr(e->b, head);
	LLVMAddIncoming(pm, (LLVMValueRef[]){ mx, m }, (LLVMBasicBlockRef[]){ before, body }, 2);
	LLVMAddIncoming(px, (LLVMValueRef[]){ ex, next }, (LLVMBasicBlockRef[]){ before, body }, 2);
	LLVMPositionBuilderAtEnd(e->b, after);

	LLVMValueRef r = join(&f, reduce(&f, pm, my), px);
	r = LLVMBuildOr(e->b, r, LLVMBuildAnd(e->b, ux, k(&f, sign), ""), "");
	r = stx__select(e, smaller, ux, r);
	r = stx__select(e, bad, k(&f, bits == 32 ? 0x7fc00000 : (uint64_t)0x7ff8 << 48), r);
	return LLVMBuildBitCast(e->b, r, ft, "");
}
