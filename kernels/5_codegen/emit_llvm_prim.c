/* emit_llvm_prim.c: primitives on scalars and vectors, with the meaning of stx_prim_eval
 * (elementary.h).
 *
 * Every one is total and safe on any bits, because lanes that a mask turns off compute too:
 * divisors are replaced before a division that would trap. Vector integer division of 8 to 32 bits
 * goes through floating point, which is exact there: for |a| < 2^p, with p mantissa bits, rounding
 * a/b cannot reach the next integer. 64 bits divide lane by lane. No fast-math flag but `contract`,
 * and that in `fast`. */
#include "elementary.h"
#include "emit_llvm.h"

LLVMValueRef stx__contract(struct stx__emit *e, LLVMValueRef v)
{
	if (e->fast && LLVMIsAInstruction(v))
		LLVMSetFastMathFlags(v, LLVMFastMathAllowContract);
	return v;
}

static LLVMValueRef unary(struct stx__emit *e, const char *name, LLVMValueRef a)
{
	LLVMTypeRef t = LLVMTypeOf(a);
	return stx__call(e, name, &t, 1, &a, 1);
}

static LLVMValueRef binary(struct stx__emit *e, const char *name, LLVMValueRef a, LLVMValueRef b)
{
	LLVMTypeRef t = LLVMTypeOf(a);
	LLVMValueRef args[2] = { a, b };
	return stx__call(e, name, &t, 1, args, 2);
}

LLVMValueRef stx__float_max(struct stx__emit *e, int max, LLVMValueRef a, LLVMValueRef b)
{
	return binary(e, max ? "llvm.maximum" : "llvm.minimum", a, b);
}

/* One rounding where the level has FMA; x86-64-v2 multiplies and adds (NUMERICS.md). */
LLVMValueRef stx__fma(struct stx__emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
	if (e->t->level < 3)
		return LLVMBuildFAdd(e->b, LLVMBuildFMul(e->b, a, b, ""), c, "");
	LLVMTypeRef t = LLVMTypeOf(a);
	LLVMValueRef args[3] = { a, b, c };
	return stx__call(e, "llvm.fma", &t, 1, args, 3);
}

/* ---- integer division ---- */

struct divided {
	LLVMValueRef quot, rem; /* truncating; x/0 = 0, x rem 0 = 0; MIN/-1 = MIN, rem 0 */
};

/* A constant, in every lane, that needs no guard. */
static int is_const_divisor(LLVMValueRef b)
{
	LLVMTypeRef t = LLVMTypeOf(b);
	unsigned n = LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetVectorSize(t) : 0;
	if (!LLVMIsAConstant(b))
		return 0;
	for (unsigned i = 0; i < (n ? n : 1); i++) {
		LLVMValueRef one = n ? LLVMGetAggregateElement(b, i) : b;
		if (!one || !LLVMIsAConstantInt(one) || LLVMConstIntGetSExtValue(one) == 0 ||
		    LLVMConstIntGetSExtValue(one) == -1)
			return 0;
	}
	return 1;
}

static LLVMValueRef divide_through_float(struct stx__emit *e, enum stx_dtype t, LLVMValueRef a,
					 LLVMValueRef b, unsigned w)
{
	int is_signed = stx_dtype_kind(t) == STX_KIND_INT, bytes = stx_dtype_bytes(t);
	LLVMTypeRef type = LLVMTypeOf(a), i32 = stx__vec(e->i32, w);
	LLVMTypeRef ft = stx__vec(bytes == 4 ? e->f64 : e->f32, w);
	if (bytes < 4) {
		a = is_signed ? LLVMBuildSExt(e->b, a, i32, "") : LLVMBuildZExt(e->b, a, i32, "");
		b = is_signed ? LLVMBuildSExt(e->b, b, i32, "") : LLVMBuildZExt(e->b, b, i32, "");
		a = LLVMBuildSIToFP(e->b, a, ft, "");
		b = LLVMBuildSIToFP(e->b, b, ft, "");
		a = LLVMBuildFPToSI(e->b, LLVMBuildFDiv(e->b, a, b, ""), i32, "");
		return LLVMBuildTrunc(e->b, a, type, "");
	}
	if (is_signed) {
		a = LLVMBuildSIToFP(e->b, a, ft, "");
		b = LLVMBuildSIToFP(e->b, b, ft, "");
		return LLVMBuildFPToSI(e->b, LLVMBuildFDiv(e->b, a, b, ""), type, "");
	}
	/* u32: moved into the signed range, which every level converts */
	a = LLVMBuildUIToFP(e->b, a, ft, "");
	b = LLVMBuildUIToFP(e->b, b, ft, "");
	LLVMValueRef q = unary(e, "llvm.trunc", LLVMBuildFDiv(e->b, a, b, ""));
	q = LLVMBuildFSub(e->b, q, stx__real(ft, 0x1p31), "");
	q = LLVMBuildFPToSI(e->b, q, type, "");
	return LLVMBuildXor(e->b, q, stx__int(type, 0x80000000u), "");
}

static struct divided divide(struct stx__emit *e, enum stx_dtype t, LLVMValueRef a, LLVMValueRef b,
			     unsigned w)
{
	int is_signed = stx_dtype_kind(t) == STX_KIND_INT;
	unsigned bits = 8 * (unsigned)stx_dtype_bytes(t);
	LLVMTypeRef type = LLVMTypeOf(a);
	LLVMValueRef zero = stx__int(type, 0), q, safe = b, by_zero = NULL;
	if (!is_const_divisor(b)) {
		/* Two selects: zeros of a constant vector are gone in the first, at once. LLVM
		 * takes a division by a select for poison where the arm that is a constant has a
		 * zero in any lane, chosen or not. */
		by_zero = stx__icmp(e, LLVMIntEQ, b, zero);
		safe = stx__select(e, by_zero, stx__int(type, 1), b);
		if (is_signed) {
			LLVMValueRef min = stx__int(type, (uint64_t)1 << (bits - 1));
			LLVMValueRef wraps = LLVMBuildAnd(
				e->b, stx__icmp(e, LLVMIntEQ, a, min),
				stx__icmp(e, LLVMIntEQ, b, stx__int(type, UINT64_MAX)), "");
			safe = stx__select(e, wraps, stx__int(type, 1), safe);
		}
	}
	if (w > 1 && bits < 64 && by_zero)
		q = divide_through_float(e, t, a, safe, w);
	else
		q = is_signed ? LLVMBuildSDiv(e->b, a, safe, "") : LLVMBuildUDiv(e->b, a, safe, "");
	LLVMValueRef rem = LLVMBuildSub(e->b, a, LLVMBuildMul(e->b, q, safe, ""), "");
	if (by_zero)
		q = stx__select(e, by_zero, zero, q);
	return (struct divided){ q, rem };
}

/* Towards minus infinity: the remainder takes the divisor's sign. */
static struct divided divide_floor(struct stx__emit *e, enum stx_dtype t, LLVMValueRef a,
				   LLVMValueRef b, unsigned w)
{
	struct divided r = divide(e, t, a, b, w);
	if (stx_dtype_kind(t) != STX_KIND_INT)
		return r;
	LLVMTypeRef type = LLVMTypeOf(a);
	LLVMValueRef zero = stx__int(type, 0);
	LLVMValueRef differ = stx__icmp(e, LLVMIntSLT, LLVMBuildXor(e->b, r.rem, b, ""), zero);
	LLVMValueRef fix = LLVMBuildAnd(e->b, differ, stx__icmp(e, LLVMIntNE, r.rem, zero), "");
	r.quot = LLVMBuildSub(e->b, r.quot, stx__select(e, fix, stx__int(type, 1), zero), "");
	r.rem = LLVMBuildAdd(e->b, r.rem, stx__select(e, fix, b, zero), "");
	return r;
}

/* ---- groups of primitives ---- */

static LLVMValueRef emit_shift(struct stx__emit *e, enum stx_prim op, enum stx_dtype t,
			       LLVMValueRef a, LLVMValueRef b)
{
	LLVMTypeRef type = LLVMTypeOf(a);
	unsigned bits = 8 * (unsigned)stx_dtype_bytes(t);
	LLVMValueRef last = stx__int(type, bits - 1);
	LLVMValueRef fits = stx__icmp(e, LLVMIntULE, b, last);
	LLVMValueRef count = stx__select(e, fits, b, last);
	if (op == STX_P_SHR && stx_dtype_kind(t) == STX_KIND_INT)
		return LLVMBuildAShr(e->b, a, count, "");
	LLVMValueRef r = op == STX_P_SHL ? LLVMBuildShl(e->b, a, count, "")
					 : LLVMBuildLShr(e->b, a, count, "");
	return stx__select(e, fits, r, stx__int(type, 0));
}

static LLVMValueRef emit_compare(struct stx__emit *e, enum stx_prim op, enum stx_dtype t,
				 LLVMValueRef a, LLVMValueRef b)
{
	static const LLVMRealPredicate real[6] = { LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT,
						   LLVMRealOLE, LLVMRealOGT, LLVMRealOGE };
	static const LLVMIntPredicate sign[6] = { LLVMIntEQ,  LLVMIntNE,  LLVMIntSLT,
						  LLVMIntSLE, LLVMIntSGT, LLVMIntSGE };
	static const LLVMIntPredicate uns[6] = { LLVMIntEQ,  LLVMIntNE,  LLVMIntULT,
						 LLVMIntULE, LLVMIntUGT, LLVMIntUGE };
	int i = (int)op - (int)STX_P_EQ;
	if (stx_dtype_is_float(t))
		return LLVMBuildFCmp(e->b, real[i], a, b, "");
	return stx__icmp(e, (stx_dtype_kind(t) == STX_KIND_INT ? sign : uns)[i], a, b);
}

/* a * 2^b, rounded once: one instruction, or two products of which the first is exact; where all are
 * normal (`lift`) a sum of exponents. */
static LLVMValueRef emit_scale(struct stx__emit *e, int lift, LLVMValueRef a, LLVMValueRef b,
			       unsigned bits, unsigned w)
{
	LLVMTypeRef t = LLVMTypeOf(a), it = stx__vec(bits == 64 ? e->i64 : e->i32, w);
	if (e->t->level >= 4 && bits * w == 512) {
		LLVMValueRef all = LLVMConstAllOnes(stx__int_type(e, w)),
			     args[5] = { a, b, a, all, LLVMConstInt(e->i32, 4, 0) };
		return stx__call(e,
				 bits == 64 ? "llvm.x86.avx512.mask.scalef.pd.512"
					    : "llvm.x86.avx512.mask.scalef.ps.512",
				 NULL, 0, args, 5);
	}
	int64_t magic = bits == 64 ? 0x4338000000000000 : 0x4b400000,
		twice = bits == 64 ? 2046 : 254;
	LLVMValueRef place = stx__int(it, bits == 64 ? 52 : 23), n, half;
	n = LLVMBuildFAdd(e->b, b, stx__real(t, bits == 64 ? 0x1.8p52 : 0x1.8p23), "");
	n = LLVMBuildBitCast(e->b, n, it, "");
	if (lift) {
		n = LLVMBuildShl(e->b, n, place, "");
		n = LLVMBuildAdd(e->b, n, LLVMBuildBitCast(e->b, a, it, ""), "");
		return LLVMBuildBitCast(e->b, n, t, "");
	}
	n = LLVMBuildAdd(e->b, n, stx__int(it, (uint64_t)(twice - magic)), "");
	half = LLVMBuildLShr(e->b, n, stx__int(it, 1), "");
	n = LLVMBuildShl(e->b, LLVMBuildSub(e->b, n, half, ""), place, "");
	half = LLVMBuildShl(e->b, half, place, "");
	a = LLVMBuildFMul(e->b, a, LLVMBuildBitCast(e->b, half, t, ""), "");
	return LLVMBuildFMul(e->b, a, LLVMBuildBitCast(e->b, n, t, ""), "");
}

static LLVMValueRef emit_float(struct stx__emit *e, enum stx_prim op, LLVMValueRef a,
			       LLVMValueRef b, LLVMValueRef c, unsigned bits, unsigned w)
{
	switch (op) {
	case STX_P_ADD: return stx__contract(e, LLVMBuildFAdd(e->b, a, b, ""));
	case STX_P_SUB: return stx__contract(e, LLVMBuildFSub(e->b, a, b, ""));
	case STX_P_MUL: return stx__contract(e, LLVMBuildFMul(e->b, a, b, ""));
	case STX_P_RATIO:
	case STX_P_DIV: return LLVMBuildFDiv(e->b, a, b, "");
	case STX_P_LIFT:
	case STX_P_SCALE: return emit_scale(e, op == STX_P_LIFT, a, b, bits, w);
	case STX_P_REM: return stx__fmod(e, a, b, bits, w);
	case STX_P_NEG: return LLVMBuildFNeg(e->b, a, "");
	case STX_P_ABS: return unary(e, "llvm.fabs", a);
	case STX_P_MAX:
	case STX_P_MIN: return stx__float_max(e, op == STX_P_MAX, a, b);
	case STX_P_SQRT: return unary(e, "llvm.sqrt", a);
	case STX_P_RCP: return LLVMBuildFDiv(e->b, stx__real(LLVMTypeOf(a), 1), a, "");
	case STX_P_FLOOR: return unary(e, "llvm.floor", a);
	case STX_P_CEIL: return unary(e, "llvm.ceil", a);
	case STX_P_TRUNC: return unary(e, "llvm.trunc", a);
	case STX_P_NEAREST:
	case STX_P_RINT: return unary(e, "llvm.roundeven", a);
	case STX_P_COPYSIGN: return binary(e, "llvm.copysign", a, b);
	case STX_P_FMA: return stx__fma(e, a, b, c);
	default: return NULL;
	}
}

static LLVMValueRef emit_int(struct stx__emit *e, enum stx_prim op, enum stx_dtype t,
			     LLVMValueRef a, LLVMValueRef b, unsigned w)
{
	int sg = stx_dtype_kind(t) == STX_KIND_INT;
	switch (op) {
	case STX_P_ADD: return LLVMBuildAdd(e->b, a, b, "");
	case STX_P_SUB: return LLVMBuildSub(e->b, a, b, "");
	case STX_P_MUL: return LLVMBuildMul(e->b, a, b, "");
	case STX_P_DIV: return divide(e, t, a, b, w).quot;
	case STX_P_REM: return divide(e, t, a, b, w).rem;
	case STX_P_FLOORDIV: return divide_floor(e, t, a, b, w).quot;
	case STX_P_MOD: return divide_floor(e, t, a, b, w).rem;
	case STX_P_NEG: return LLVMBuildNeg(e->b, a, "");
	case STX_P_ABS: {
		LLVMTypeRef type = LLVMTypeOf(a);
		LLVMValueRef args[2] = { a, LLVMConstInt(e->i1, 0, 0) };
		return sg ? stx__call(e, "llvm.abs", &type, 1, args, 2) : a;
	}
	case STX_P_MAX: return binary(e, sg ? "llvm.smax" : "llvm.umax", a, b);
	case STX_P_MIN: return binary(e, sg ? "llvm.smin" : "llvm.umin", a, b);
	case STX_P_AND: return LLVMBuildAnd(e->b, a, b, "");
	case STX_P_OR: return LLVMBuildOr(e->b, a, b, "");
	case STX_P_XOR: return LLVMBuildXor(e->b, a, b, "");
	case STX_P_NOT: return LLVMBuildNot(e->b, a, "");
	case STX_P_SHL:
	case STX_P_SHR:
	case STX_P_LSHR: return emit_shift(e, op, t, a, b);
	default: return NULL;
	}
}

void stx__rarely(struct stx__emit *e, LLVMValueRef mask)
{
	e->rare = e->rare ? LLVMBuildOr(e->b, e->rare, mask, "") : mask;
}

/* While code for the usual lanes is emitted (emit_llvm_loop.c) there is none; that is remembered
 * where the lanes count. */
static LLVMValueRef emit_rarely(struct stx__emit *e, LLVMValueRef a, int counts)
{
	if (!e->usual)
		return a;
	if (counts)
		stx__rarely(e, a);
	return LLVMConstNull(LLVMTypeOf(a));
}

static LLVMValueRef emit_bool(struct stx__emit *e, enum stx_prim op, LLVMValueRef a, LLVMValueRef b)
{
	switch (op) {
	case STX_P_MAX:
	case STX_P_OR: return LLVMBuildOr(e->b, a, b, "");
	case STX_P_MIN:
	case STX_P_AND: return LLVMBuildAnd(e->b, a, b, "");
	case STX_P_XOR: return LLVMBuildXor(e->b, a, b, "");
	case STX_P_NOT: return LLVMBuildNot(e->b, a, "");
	case STX_P_RARELY: return emit_rarely(e, a, 1);
	default: return NULL;
	}
}

static struct stx__val emit_bitcast(struct stx__emit *e, enum stx_dtype to, enum stx_dtype from,
				    struct stx__val v, unsigned w)
{
	LLVMValueRef bits = stx__is_narrow(from) ? v.raw : v.v;
	if (to == from)
		return v;
	if (stx__is_narrow(to))
		return (struct stx__val){ stx__widen(e, to, bits, w), bits };
	return (struct stx__val){ LLVMBuildBitCast(e->b, bits, stx__vec(stx__type(e, to), w), ""),
				  NULL };
}

static struct stx__val emit_moves(struct stx__emit *e, const struct stx_kinst *i, unsigned w)
{
	enum stx_dtype to = (enum stx_dtype)i->dtype;
	struct stx__val a = stx__get(e, i->a, w);
	enum stx_dtype from = (enum stx_dtype)e->k->insts.at[i->a].dtype;
	if (i->op == STX_P_CAST)
		return stx__cast(e, to, from, a, w);
	if (i->op == STX_P_BITCAST)
		return emit_bitcast(e, to, from, a, w);
	struct stx__val b = stx__get(e, i->b, w), c = stx__get(e, i->c, w), r = { NULL, NULL };
	if (w > 1 && stx__lanes_of(e, i->a) == 1) /* a scalar condition selects whole vectors */
		a = stx__get(e, i->a, 1);
	r.v = stx__select(e, a.v, b.v, c.v);
	if (b.raw && c.raw)
		r.raw = stx__select(e, a.v, b.raw, c.raw);
	return r;
}

/* Everything but moves; operands of type t. NULL: there is no such primitive. */
static LLVMValueRef emit_value(struct stx__emit *e, enum stx_prim op, enum stx_dtype t,
			       LLVMValueRef a, LLVMValueRef b, LLVMValueRef c, unsigned w)
{
	if (op == STX_P_ISNAN)
		return LLVMBuildFCmp(e->b, LLVMRealUNO, a, a, "");
	if (op >= STX_P_EQ && op <= STX_P_GE)
		return emit_compare(e, op, t, a, b);
	if (stx__is_narrow(t))
		return NULL;
	if (stx_dtype_is_float(t))
		return emit_float(e, op, a, b, c, 8 * (unsigned)stx_dtype_bytes(t), w);
	return t == STX_BOOL ? emit_bool(e, op, a, b) : emit_int(e, op, t, a, b, w);
}

/* ---- elementary functions outside the instruction list ---- */

struct body {
	struct stx__emit *e;
	LLVMValueRef v[STX_ELEM_MAX + 1];
	uint8_t dtype[STX_ELEM_MAX + 1];
	unsigned n, w;
};

static stx_ev body_add(struct body *p, LLVMValueRef v, enum stx_dtype t)
{
	if (!v || p->n > STX_ELEM_MAX) {
		stx__fail(p->e, STX_E_INTERNAL, "an elementary function cannot be expanded");
		return 0;
	}
	p->v[p->n] = v;
	p->dtype[p->n] = (uint8_t)t;
	return p->n++;
}

static stx_ev body_emit(void *ctx, enum stx_prim op, enum stx_dtype t, stx_ev a, stx_ev b, stx_ev c)
{
	struct body *p = ctx;
	struct stx__emit *e = p->e;
	enum stx_dtype from = (enum stx_dtype)p->dtype[a];
	struct stx__val x = { p->v[a], NULL };
	if (e->err)
		return 0;
	switch (op) {
	case STX_P_SELECT:
		return body_add(p, stx__select(e, p->v[a], p->v[b], p->v[c]),
				(enum stx_dtype)p->dtype[b]);
	case STX_P_CAST: return body_add(p, stx__cast(e, t, from, x, p->w).v, t);
	case STX_P_BITCAST: return body_add(p, emit_bitcast(e, t, from, x, p->w).v, t);
	default: return body_add(p, emit_value(e, op, from, p->v[a], p->v[b], p->v[c], p->w), t);
	}
}

static stx_ev body_constant(void *ctx, enum stx_dtype t, union stx_scalar v)
{
	struct body *p = ctx;
	return p->e->err ? 0 : body_add(p, stx__const(p->e, t, v, p->w), t);
}

LLVMValueRef stx__elementary(struct stx__emit *e, enum stx_prim op, enum stx_dtype t,
			     LLVMValueRef x)
{
	LLVMTypeRef type = LLVMTypeOf(x);
	struct body *p = STX_NEW(e->arena, struct body);
	stx_ev r = 0;
	if (!p) {
		stx__fail(e, STX_E_NOMEM, "the memory budget is exceeded");
		return x;
	}
	p->e = e;
	p->w = LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetVectorSize(type) : 1;
	struct stx_elem_builder b = { p, body_emit, body_constant };
	stx_ev arg = body_add(p, x, t);
	if (!stx_elementary_expand(&b, op, t, arg, arg, &r))
		stx__fail(e, STX_E_INTERNAL, "%s of %s has no body", stx_prim_info(op)->text,
			  stx_dtype_name(t));
	return e->err ? x : p->v[r];
}

/* Bits of the bf16 that r, op of f32s which are bf16 values, is: no rounding is left to do. NULL: it need not
 * be one. */
static LLVMValueRef as_bf16(struct stx__emit *e, enum stx_prim op, LLVMValueRef r, LLVMValueRef a,
			    LLVMValueRef b, unsigned w)
{
	LLVMTypeRef i16 = stx__vec(e->i16, w), i32 = stx__vec(e->i32, w);
	LLVMValueRef sign = stx__int(i16, 0x8000), rest = stx__int(i16, 0x7fff);
	if (!a)
		return NULL;
	switch (op) {
	case STX_P_NEG: return LLVMBuildXor(e->b, a, sign, "");
	case STX_P_ABS: return LLVMBuildAnd(e->b, a, rest, "");
	case STX_P_COPYSIGN:
		return b ? LLVMBuildOr(e->b, LLVMBuildAnd(e->b, a, rest, ""),
				       LLVMBuildAnd(e->b, b, sign, ""), "")
			 : NULL;
	case STX_P_MAX:
	case STX_P_MIN:
		if (!b)
			return NULL;
		r = LLVMBuildLShr(e->b, LLVMBuildBitCast(e->b, r, i32, ""), stx__int(i32, 16), "");
		return LLVMBuildTrunc(e->b, r, i16, "");
	default: return NULL;
	}
}

/* A load where its mask is true, else 0: what lanes that are off hold. */
static int is_masked_load(const struct stx_kernel *k, const struct stx_kinst *i)
{
	const struct stx_kinst *x, *y;
	if (i->op != STX_P_SELECT)
		return 0;
	x = &k->insts.at[i->b];
	y = &k->insts.at[i->c];
	return x->op == STX_K_LOAD && x->c == i->a && y->op == STX_K_CONST && !y->k.u &&
	       x->dtype == i->dtype;
}

void stx__emit_prim(struct stx__emit *e, uint32_t n)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	enum stx_prim op = (enum stx_prim)i->op;
	unsigned w = stx__lanes_of(e, n);
	if (is_masked_load(e->k, i) && !(e->across[i->b] && e->in_across)) {
		stx__set(e, n, stx__get(e, i->b, w));
		return;
	}
	if (op == STX_P_SELECT || op == STX_P_CAST || op == STX_P_BITCAST) {
		stx__set(e, n, emit_moves(e, i, w));
		return;
	}
	enum stx_dtype t = (enum stx_dtype)e->k->insts.at[i->a].dtype; /* of the operands */
	struct stx__val a = stx__get(e, i->a, w), b = { NULL, NULL };
	LLVMValueRef c = NULL, r;
	if (i->b != STX_NONE)
		b = stx__get(e, i->b, w);
	if (i->c != STX_NONE)
		c = stx__get(e, i->c, w).v;
	r = op == STX_P_RARELY ? emit_rarely(e, a.v, e->is_usual[n])
			       : emit_value(e, op, t, a.v, b.v, c, w);
	if (!r) {
		stx__fail(e, STX_E_UNSUPPORTED, "primitive %s on %s", stx_prim_info(op)->text,
			  stx_dtype_name(t));
		r = LLVMGetPoison(stx__vec(stx__type(e, (enum stx_dtype)i->dtype), w));
	}
	stx__set(e, n,
		 (struct stx__val){ r, t == STX_F32 ? as_bf16(e, op, r, a.raw, b.raw, w) : NULL });
}
