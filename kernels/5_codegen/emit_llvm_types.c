/* emit_llvm_types.c: LLVM types of element types, constants, splats, intrinsics, values of
 * operands. */
#include <stdarg.h>
#include <string.h>

#include "emit_llvm.h"

stx_err stx__fail(struct stx__emit *e, stx_err err, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (!e->err)
		e->err = stx_vfail(e->d, err, "codegen", e->k->name, fmt, ap);
	va_end(ap);
	return e->err;
}

int stx__is_narrow(enum stx_dtype t)
{
	return stx_dtype_is_float(t) && stx_dtype_bytes(t) < 4;
}

LLVMTypeRef stx__int_type(struct stx__emit *e, unsigned bits)
{
	switch (bits) {
	case 1: return e->i1;
	case 8: return e->i8;
	case 16: return e->i16;
	case 32: return e->i32;
	default: return e->i64;
	}
}

LLVMTypeRef stx__mem_type(struct stx__emit *e, enum stx_dtype t)
{
	if (t == STX_F32)
		return e->f32;
	if (t == STX_F64)
		return e->f64;
	return stx__int_type(e, 8 * (unsigned)stx_dtype_bytes(t));
}

LLVMTypeRef stx__type(struct stx__emit *e, enum stx_dtype t)
{
	if (t == STX_BOOL)
		return e->i1;
	return stx__is_narrow(t) ? e->f32 : stx__mem_type(e, t);
}

LLVMTypeRef stx__vec(LLVMTypeRef t, unsigned w)
{
	return w > 1 ? LLVMVectorType(t, w) : t;
}

unsigned stx__lanes_of(const struct stx__emit *e, uint32_t inst)
{
	return e->varying[inst] && e->w > 1 ? e->w : 1;
}

/* ---- constants ---- */

static LLVMValueRef repeat(LLVMTypeRef t, LLVMValueRef v)
{
	if (LLVMGetTypeKind(t) != LLVMVectorTypeKind)
		return v;
	LLVMValueRef all[64];
	unsigned n = LLVMGetVectorSize(t);
	for (unsigned i = 0; i < n; i++)
		all[i] = v;
	return LLVMConstVector(all, n);
}

static LLVMTypeRef element(LLVMTypeRef t)
{
	return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t;
}

LLVMValueRef stx__int(LLVMTypeRef t, uint64_t v)
{
	return repeat(t, LLVMConstInt(element(t), v, 0));
}

LLVMValueRef stx__real(LLVMTypeRef t, double v)
{
	return repeat(t, LLVMConstReal(element(t), v));
}

LLVMValueRef stx__i64(struct stx__emit *e, int64_t v)
{
	return LLVMConstInt(e->i64, (uint64_t)v, 0);
}

LLVMValueRef stx__const(struct stx__emit *e, enum stx_dtype t, union stx_scalar v, unsigned w)
{
	LLVMTypeRef type = stx__vec(stx__type(e, t), w);
	if (t == STX_F64 && v.f != v.f) { /* keeps the payload */
		LLVMValueRef bits = LLVMConstInt(e->i64, v.u, 0);
		return repeat(type, LLVMConstBitCast(bits, e->f64));
	}
	if (stx_dtype_is_float(t))
		return stx__real(type, v.f);
	return stx__int(type, t == STX_BOOL ? v.u != 0 : v.u);
}

LLVMValueRef stx__iota(struct stx__emit *e, LLVMTypeRef t, unsigned w, int64_t step)
{
	(void)e;
	LLVMValueRef all[64];
	if (w <= 1)
		return LLVMConstInt(t, 0, 0);
	for (unsigned i = 0; i < w; i++)
		all[i] = LLVMConstInt(t, (uint64_t)((int64_t)i * step), 0);
	return LLVMConstVector(all, w);
}

/* ---- pieces of code ---- */

LLVMValueRef stx__splat(struct stx__emit *e, LLVMValueRef v, unsigned w)
{
	if (w <= 1 || !v)
		return v;
	LLVMTypeRef t = LLVMVectorType(LLVMTypeOf(v), w);
	if (LLVMIsAConstantInt(v) || LLVMIsAConstantFP(v))
		return repeat(t, v);
	LLVMValueRef one =
		LLVMBuildInsertElement(e->b, LLVMGetPoison(t), v, LLVMConstInt(e->i32, 0, 0), "");
	return LLVMBuildShuffleVector(e->b, one, LLVMGetPoison(t),
				      LLVMConstNull(LLVMVectorType(e->i32, w)), "");
}

LLVMValueRef stx__call(struct stx__emit *e, const char *intrinsic, LLVMTypeRef *types,
		       unsigned ntypes, LLVMValueRef *args, unsigned nargs)
{
	unsigned id = LLVMLookupIntrinsicID(intrinsic, strlen(intrinsic));
	LLVMValueRef f = LLVMGetIntrinsicDeclaration(e->m, id, types, ntypes);
	return LLVMBuildCall2(e->b, LLVMIntrinsicGetType(e->c, id, types, ntypes), f, args, nargs,
			      "");
}

LLVMValueRef stx__alloca(struct stx__emit *e, LLVMTypeRef t, unsigned align)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
	LLVMPositionBuilderBefore(e->b, LLVMGetBasicBlockTerminator(e->entry));
	LLVMValueRef v = LLVMBuildAlloca(e->b, t, "");
	if (align)
		LLVMSetAlignment(v, align);
	LLVMPositionBuilderAtEnd(e->b, here);
	return v;
}

LLVMBasicBlockRef stx__block(struct stx__emit *e, const char *name)
{
	return LLVMAppendBasicBlockInContext(e->c, e->fn, name);
}

LLVMValueRef stx__any(struct stx__emit *e, LLVMValueRef mask, unsigned w)
{
	if (w <= 1)
		return mask;
	LLVMTypeRef bits = LLVMIntTypeInContext(e->c, w);
	LLVMValueRef m = LLVMBuildBitCast(e->b, mask, bits, "");
	return LLVMBuildICmp(e->b, LLVMIntNE, m, LLVMConstInt(bits, 0, 0), "");
}

LLVMValueRef stx__icmp(struct stx__emit *e, LLVMIntPredicate p, LLVMValueRef a, LLVMValueRef b)
{
	return LLVMBuildICmp(e->b, p, a, b, "");
}

/* Of a condition that is false everywhere (RARELY, for usual lanes) b itself: nothing needs a then. */
LLVMValueRef stx__select(struct stx__emit *e, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b)
{
	return LLVMIsNull(c) ? b : LLVMBuildSelect(e->b, c, a, b, "");
}

/* ---- values ---- */

struct stx__val stx__get(struct stx__emit *e, uint32_t n, unsigned w)
{
	unsigned has = stx__lanes_of(e, n);
	struct stx__val v = e->val[(size_t)n * e->stride + (e->varying[n] ? e->copy : 0)];
	if (!v.v)
		stx__fail(e, STX_E_INTERNAL, "value %u is used before it is emitted", n);
	else if (has < w) {
		v.v = stx__splat(e, v.v, w);
		v.raw = stx__splat(e, v.raw, w);
	}
	if (e->err)
		v.v = LLVMGetPoison(
			stx__vec(stx__type(e, (enum stx_dtype)e->k->insts.at[n].dtype), w));
	return v;
}

void stx__set(struct stx__emit *e, uint32_t n, struct stx__val v)
{
	e->val[(size_t)n * e->stride + (e->varying[n] ? e->copy : 0)] = v;
}
