/* emit_llvm_cast.c: value conversions between element types, total as NUMERICS.md has them.
 *
 * Nothing here becomes a library call at any level: floats below 32 bits are converted with F16C
 * where the level has it (x86-64-v3), with avx512bf16 where there are no subnormals, and with
 * integer arithmetic elsewhere. Float to integer clamps before it converts, because the conversion
 * of an out-of-range value is poison in LLVM and llvm.fptosi.sat is split into lanes. */
#include "emit_llvm.h"
#include "scalar.h"

static double power_of_2(int n)
{
	double v = 1;
	for (; n > 0; n--)
		v *= 2;
	for (; n < 0; n++)
		v /= 2;
	return v;
}

/* ---- floats below 32 bits ---- */

/* Bits to f32, exactly: the magnitude is moved to f32's place and scaled by the difference of
 * biases, which turns subnormals into normal numbers. */
LLVMValueRef stx__widen(struct stx__emit *e, enum stx_dtype t, LLVMValueRef raw, unsigned w)
{
	const struct stx_float_format *f = stx_float_format(t);
	uint32_t bits = 8u * (uint32_t)stx_dtype_bytes(t);
	LLVMTypeRef i32 = stx__vec(e->i32, w), f32 = stx__vec(e->f32, w);
	if (t == STX_F16 && e->t->level >= 3) {
		/* The fence keeps LLVM from moving comparisons and selects before the extension: it
		 * makes a call of fmaxf from a maximum of halves. */
		LLVMValueRef h = LLVMBuildBitCast(e->b, raw, stx__vec(e->f16, w), "");
		h = LLVMBuildFPExt(e->b, h, f32, "");
		return stx__call(e, "llvm.arithmetic.fence", &f32, 1, &h, 1);
	}
	LLVMValueRef u = LLVMBuildZExt(e->b, raw, i32, "");
	if (t == STX_BF16)
		return LLVMBuildBitCast(e->b, LLVMBuildShl(e->b, u, stx__int(i32, 16), ""), f32,
					"");
	uint32_t sign_bit = 1u << (bits - 1);
	LLVMValueRef sign = LLVMBuildAnd(e->b, u, stx__int(i32, sign_bit), "");
	LLVMValueRef mag = LLVMBuildAnd(e->b, u, stx__int(i32, sign_bit - 1), "");
	sign = LLVMBuildShl(e->b, sign, stx__int(i32, 32u - bits), "");
	LLVMValueRef v = LLVMBuildShl(e->b, mag, stx__int(i32, 23u - f->mant), "");
	v = LLVMBuildFMul(e->b, LLVMBuildBitCast(e->b, v, f32, ""),
			  stx__real(f32, power_of_2(127 - f->bias)), "");
	v = LLVMBuildBitCast(e->b, v, i32, "");
	if (!f->nuz) {
		LLVMValueRef big = stx__icmp(e, LLVMIntUGT, mag, stx__int(i32, f->max));
		LLVMValueRef special = stx__int(i32, 0x7fc00000);
		if (f->inf !=
		    f->nan) /* infinity has mantissa 0: keep the mantissa, fill the exponent */
			special = LLVMBuildOr(e->b, v, stx__int(i32, 0x7f800000), "");
		v = stx__select(e, big, special, v);
	}
	v = LLVMBuildOr(e->b, v, sign, "");
	if (f->nuz)
		v = stx__select(e, stx__icmp(e, LLVMIntEQ, u, stx__int(i32, f->nan)),
				stx__int(i32, 0x7fc00000), v);
	return LLVMBuildBitCast(e->b, v, f32, "");
}

/* Bits of f32, rounded to nearest even at `shift` bits and shifted down. */
static LLVMValueRef round_shift(struct stx__emit *e, LLVMValueRef u, unsigned shift)
{
	LLVMTypeRef t = LLVMTypeOf(u);
	LLVMValueRef lsb = LLVMBuildLShr(e->b, u, stx__int(t, shift), "");
	lsb = LLVMBuildAnd(e->b, lsb, stx__int(t, 1), "");
	u = LLVMBuildAdd(e->b, u, stx__int(t, (1u << (shift - 1)) - 1), "");
	return LLVMBuildLShr(e->b, LLVMBuildAdd(e->b, u, lsb, ""), stx__int(t, shift), "");
}

/* The instruction itself: of a vector of halves LLVM would lose that its store is a streaming one.
 * Frozen, it is not made one with its store: that form takes half as long again. */
static LLVMValueRef whole_f16(struct stx__emit *e, LLVMValueRef v, unsigned w)
{
	LLVMValueRef args[4] = { v, LLVMConstInt(e->i32, 0, 0), LLVMGetPoison(stx__vec(e->i16, w)),
				 LLVMConstInt(e->i16, 0xffff, 0) };
	v = w == 8 ? stx__call(e, "llvm.x86.vcvtps2ph.256", NULL, 0, args, 2)
		   : stx__call(e, "llvm.x86.avx512.mask.vcvtps2ph.512", NULL, 0, args, 4);
	return LLVMBuildFreeze(e->b, v, "");
}

/* f32's head, sign included: a carry out of the mantissa is right */
static LLVMValueRef head_bf16(struct stx__emit *e, LLVMValueRef v, unsigned w)
{
	LLVMTypeRef i32 = stx__vec(e->i32, w);
	LLVMValueRef u = LLVMBuildBitCast(e->b, v, i32, ""), nan;
	nan = LLVMBuildFCmp(e->b, LLVMRealUNO, v, v, "");
	u = stx__select(e, nan, stx__int(i32, stx_float_format(STX_BF16)->nan),
			round_shift(e, u, 16));
	return LLVMBuildTrunc(e->b, u, stx__vec(e->i16, w), "");
}

/* f64 to f32 rounded to odd: a second rounding, to fewer bits, then gives what one rounding would.
 */
static LLVMValueRef round_to_odd(struct stx__emit *e, LLVMValueRef x, unsigned w)
{
	LLVMTypeRef i32 = stx__vec(e->i32, w), f32 = stx__vec(e->f32, w), f64 = stx__vec(e->f64, w);
	LLVMTypeRef ones = stx__vec(e->i64, w);
	LLVMValueRef f = LLVMBuildFPTrunc(e->b, x, f32, "");
	LLVMValueRef back = LLVMBuildFPExt(e->b, f, f64, "");
	LLVMValueRef inexact = LLVMBuildFCmp(e->b, LLVMRealONE, back, x, "");
	LLVMValueRef clear = stx__int(ones, INT64_MAX);
	LLVMValueRef a = LLVMBuildAnd(e->b, LLVMBuildBitCast(e->b, back, ones, ""), clear, "");
	LLVMValueRef b = LLVMBuildAnd(e->b, LLVMBuildBitCast(e->b, x, ones, ""), clear, "");
	LLVMValueRef above = stx__icmp(e, LLVMIntUGT, a, b);
	LLVMValueRef u = LLVMBuildBitCast(e->b, f, i32, "");
	LLVMValueRef step = stx__select(e, above, stx__int(i32, UINT32_MAX), stx__int(i32, 1));
	LLVMValueRef even = stx__icmp(e, LLVMIntEQ, LLVMBuildAnd(e->b, u, stx__int(i32, 1), ""),
				      stx__int(i32, 0));
	LLVMValueRef fix = LLVMBuildAnd(e->b, inexact, even, "");
	u = stx__select(e, fix, LLVMBuildAdd(e->b, u, step, ""), u);
	return LLVMBuildBitCast(e->b, u, f32, "");
}

static LLVMValueRef quick_bf16(struct stx__emit *e, LLVMValueRef v, unsigned w)
{
	v = stx__call(e,
		      w == 8 ? "llvm.x86.avx512bf16.cvtneps2bf16.256"
			     : "llvm.x86.avx512bf16.cvtneps2bf16.512",
		      NULL, 0, &v, 1);
	return LLVMBuildBitCast(e->b, v, stx__vec(e->i16, w), "");
}

/* By vcvtneps2bf16, which flushes subnormals: a vector with one of them, or a NaN, by integers; from
 * f64, if v is that without bits which count there. Where rare lanes have code of their own, there;
 * else by a branch. */
#define NAN_OR_SUBNORMAL (1 | 0x80 | 0x20) /* of vfpclassps: quiet, signalling, subnormal */
static LLVMValueRef whole_bf16(struct stx__emit *e, LLVMValueRef v, LLVMValueRef f64, unsigned w)
{
	LLVMValueRef args[2] = { v, LLVMConstInt(e->i32, NAN_OR_SUBNORMAL, 0) }, value[2], phi;
	LLVMBasicBlockRef block[2], after;
	if (e->again)
		return head_bf16(e, f64 ? round_to_odd(e, f64, w) : v, w);
	value[0] = quick_bf16(e, v, w);
	phi = stx__call(
		e, w == 8 ? "llvm.x86.avx512.fpclass.ps.256" : "llvm.x86.avx512.fpclass.ps.512",
		NULL, 0, args, 2);
	if (e->usual) {
		stx__rarely(e, phi);
		return value[0];
	}
	block[0] = LLVMGetInsertBlock(e->b);
	after = stx__if_begin(e, stx__any(e, phi, w));
	value[1] = head_bf16(e, f64 ? round_to_odd(e, f64, w) : v, w);
	block[1] = LLVMGetInsertBlock(e->b);
	stx__if_end(e, after);
	phi = LLVMBuildPhi(e->b, LLVMTypeOf(value[0]), "");
	LLVMAddIncoming(phi, value, block, 2);
	return phi;
}

static int has_bf16(const struct stx__emit *e, unsigned w)
{
	return e->t->avx512bf16 && (w == 8 || w == 16);
}

int stx__casts_to_bf16(const struct stx__emit *e, const struct stx_kinst *i, unsigned w)
{
	return i->op == STX_P_CAST && i->dtype == STX_BF16 && has_bf16(e, w);
}

/* f32 to the bits of t, rounded once to nearest even, subnormals kept. */
LLVMValueRef stx__narrow(struct stx__emit *e, enum stx_dtype t, LLVMValueRef v, unsigned w)
{
	const struct stx_float_format *f = stx_float_format(t);
	uint32_t bits = 8u * (uint32_t)stx_dtype_bytes(t);
	LLVMTypeRef i32 = stx__vec(e->i32, w), f32 = stx__vec(e->f32, w);
	LLVMTypeRef out = stx__vec(stx__int_type(e, bits), w);
	if (t == STX_F16 && e->t->level >= 3 && (w == 8 || (w == 16 && e->t->level >= 4)))
		return whole_f16(e, v, w);
	if (t == STX_F16 && e->t->level >= 3) {
		LLVMValueRef h = LLVMBuildFPTrunc(e->b, v, stx__vec(e->f16, w), "");
		return LLVMBuildBitCast(e->b, h, out, "");
	}
	if (t == STX_BF16)
		return has_bf16(e, w) && !LLVMIsAConstant(v) ? whole_bf16(e, v, NULL, w)
							     : head_bf16(e, v, w);
	LLVMValueRef u = LLVMBuildBitCast(e->b, v, i32, "");
	LLVMValueRef nan = LLVMBuildFCmp(e->b, LLVMRealUNO, v, v, "");
	LLVMValueRef mag = LLVMBuildAnd(e->b, u, stx__int(i32, 0x7fffffff), "");
	LLVMValueRef sign = LLVMBuildLShr(e->b, u, stx__int(i32, 32u - bits), "");
	sign = LLVMBuildAnd(e->b, sign, stx__int(i32, 1u << (bits - 1)), "");
	LLVMValueRef r = round_shift(e, mag, 23u - f->mant);
	if (f->bias != 127) {
		r = LLVMBuildSub(e->b, r, stx__int(i32, (uint32_t)(127 - f->bias) << f->mant), "");
		/* Below the smallest normal number: adding a power of two whose last bit is the
		 * format's smallest subnormal makes the hardware round at that bit. */
		LLVMValueRef magic = stx__real(f32, power_of_2(1 - f->bias - f->mant + 23));
		LLVMValueRef s = LLVMBuildBitCast(e->b, mag, f32, "");
		s = LLVMBuildBitCast(e->b, LLVMBuildFAdd(e->b, s, magic, ""), i32, "");
		s = LLVMBuildSub(e->b, s, LLVMBuildBitCast(e->b, magic, i32, ""), "");
		LLVMValueRef limit = stx__int(i32, (uint32_t)(127 + 1 - f->bias) << 23);
		LLVMValueRef small = stx__icmp(e, LLVMIntULT, mag, limit);
		r = stx__select(e, small, s, r);
		LLVMValueRef over = stx__icmp(e, LLVMIntSGT, r, stx__int(i32, f->max));
		r = stx__select(e, over, stx__int(i32, f->inf), r);
	}
	r = stx__select(e, nan, stx__int(i32, f->nan), r);
	LLVMValueRef signed_r = LLVMBuildOr(e->b, r, sign, "");
	if (f->nuz) { /* zero and NaN have no sign */
		LLVMValueRef zero = stx__icmp(e, LLVMIntEQ, r, stx__int(i32, 0));
		signed_r = stx__select(e, zero, stx__int(i32, 0), signed_r);
	}
	return LLVMBuildTrunc(e->b, signed_r, out, "");
}

static struct stx__val both(struct stx__emit *e, enum stx_dtype t, LLVMValueRef f32, unsigned w)
{
	LLVMValueRef raw = stx__narrow(e, t, f32, w);
	return (struct stx__val){ stx__widen(e, t, raw, w), raw };
}

struct stx__val stx__from_memory(struct stx__emit *e, enum stx_dtype t, LLVMValueRef v, unsigned w)
{
	if (t == STX_BOOL)
		v = stx__icmp(e, LLVMIntNE, v, stx__int(LLVMTypeOf(v), 0));
	if (stx__is_narrow(t))
		return (struct stx__val){ stx__widen(e, t, v, w), v };
	return (struct stx__val){ v, NULL };
}

LLVMValueRef stx__to_memory(struct stx__emit *e, enum stx_dtype t, struct stx__val v, unsigned w)
{
	if (t == STX_BOOL)
		return LLVMBuildZExt(e->b, v.v, stx__vec(e->i8, w), "");
	return stx__is_narrow(t) ? v.raw : v.v;
}

/* ---- casts ---- */

/* f64 to the nearest towards 0 of f32's precision, its last bit set where that was inexact; to f32, which is
 * exact from 2^-126 on. What is smaller rounds to nothing but bf16. */
static LLVMValueRef cut_to_odd(struct stx__emit *e, LLVMValueRef x, unsigned w)
{
	LLVMTypeRef i64 = stx__vec(e->i64, w);
	LLVMValueRef u = LLVMBuildBitCast(e->b, x, i64, ""), low = stx__int(i64, (1 << 29) - 1), t;
	t = LLVMBuildAdd(e->b, LLVMBuildAnd(e->b, u, low, ""), low,
			 ""); /* carries to the last bit */
	u = LLVMBuildAnd(e->b, LLVMBuildOr(e->b, u, t, ""), LLVMBuildNot(e->b, low, ""), "");
	u = LLVMBuildBitCast(e->b, u, LLVMTypeOf(x), "");
	return LLVMBuildFPTrunc(e->b, u, stx__vec(e->f32, w), "");
}

/* i32 to f32 likewise, by the instruction's own rounding */
#define TOWARDS_ZERO 11 /* exceptions suppressed */
static LLVMValueRef i32_to_odd(struct stx__emit *e, LLVMValueRef v)
{
	LLVMTypeRef type[2] = { stx__vec(e->f32, 16), stx__vec(e->i32, 16) };
	LLVMValueRef args[2] = { v, LLVMConstInt(e->i32, TOWARDS_ZERO, 0) };
	LLVMValueRef f = stx__call(e, "llvm.x86.avx512.sitofp.round", type, 2, args, 2);
	LLVMValueRef back = LLVMBuildFPToSI(e->b, f, type[1], "");
	LLVMValueRef u = LLVMBuildBitCast(e->b, f, type[1], "");
	LLVMValueRef lost = stx__icmp(e, LLVMIntNE, back, v);
	u = stx__select(e, lost, LLVMBuildOr(e->b, u, stx__int(type[1], 1), ""), u);
	return LLVMBuildBitCast(e->b, u, type[0], "");
}

static LLVMValueRef fcmp(struct stx__emit *e, LLVMRealPredicate p, LLVMValueRef v, double c)
{
	return LLVMBuildFCmp(e->b, p, v, stx__real(LLVMTypeOf(v), c), "");
}

/* x in [lo, hi) converted to an integer type; elsewhere, and for NaN, 0. */
static LLVMValueRef convert_inside(struct stx__emit *e, LLVMValueRef x, double lo, double hi,
				   int is_signed, LLVMTypeRef to)
{
	LLVMValueRef in = LLVMBuildAnd(e->b, fcmp(e, is_signed ? LLVMRealOGE : LLVMRealOGT, x, lo),
				       fcmp(e, LLVMRealOLT, x, hi), "");
	LLVMValueRef safe = stx__select(e, in, x, stx__real(LLVMTypeOf(x), 0));
	return is_signed ? LLVMBuildFPToSI(e->b, safe, to, "")
			 : LLVMBuildFPToUI(e->b, safe, to, "");
}

/* A vector of f32 by the instruction itself, which gives INT32_MIN for what is below the range, and
 * for what is above and NaN, too: those are mended. NULL: there is none of w lanes. */
static LLVMValueRef f32_to_i32(struct stx__emit *e, LLVMValueRef x, unsigned w)
{
	LLVMTypeRef i32 = stx__vec(e->i32, w);
	LLVMValueRef zero = stx__int(i32, 0), v, above;
	LLVMValueRef all[4] = { x, zero, LLVMConstInt(e->i16, 0xffff, 0),
				LLVMConstInt(e->i32, 4, 0) };
	if (w == 16 && e->t->level >= 4)
		v = stx__call(e, "llvm.x86.avx512.mask.cvttps2dq.512", NULL, 0, all, 4);
	else if (w == 8 && e->t->level >= 3)
		v = stx__call(e, "llvm.x86.avx.cvtt.ps2dq.256", NULL, 0, &x, 1);
	else if (w == 4)
		v = stx__call(e, "llvm.x86.sse2.cvttps2dq", NULL, 0, &x, 1);
	else
		return NULL;
	above = fcmp(e, LLVMRealOGE, x, 0x1p31);
	v = stx__select(e, above, stx__int(i32, INT32_MAX), v);
	return stx__select(e, LLVMBuildFCmp(e->b, LLVMRealUNO, x, x, ""), zero, v);
}

/* A vector of f64 likewise: beyond the range it is clamped first, which leaves NaN. */
static LLVMValueRef f64_to_i32(struct stx__emit *e, LLVMValueRef x)
{
	LLVMValueRef top = stx__real(LLVMTypeOf(x), INT32_MAX), is_number, args[4];
	is_number = LLVMBuildFCmp(e->b, LLVMRealORD, x, x, "");
	x = stx__select(e, LLVMBuildFCmp(e->b, LLVMRealOLT, x, top, ""), x, top);
	args[0] = x;
	args[1] = stx__int(stx__vec(e->i32, 8), 0);
	args[2] = LLVMBuildBitCast(e->b, is_number, e->i8, "");
	args[3] = LLVMConstInt(e->i32, 4, 0);
	return stx__call(e, "llvm.x86.avx512.mask.cvttpd2dq.512", NULL, 0, args, 4);
}

static LLVMValueRef float_to_int(struct stx__emit *e, enum stx_dtype to, LLVMValueRef x, unsigned w)
{
	unsigned bits = 8 * (unsigned)stx_dtype_bytes(to);
	LLVMTypeRef type = stx__vec(stx__int_type(e, bits), w);
	int is_signed = stx_dtype_kind(to) == STX_KIND_INT;
	int is_f32 = LLVMTypeOf(x) == stx__vec(e->f32, w);
	if (bits < 32) { /* through i32; what does not fit there is 0; low bits kept */
		LLVMTypeRef i32 = stx__vec(e->i32, w);
		LLVMValueRef v;
		if (!is_f32) { /* truncation first: -2147483648.5 is inside */
			x = stx__call(e, "llvm.trunc", (LLVMTypeRef[]){ LLVMTypeOf(x) }, 1, &x, 1);
		}
		v = convert_inside(e, x, -0x1p31, 0x1p31, 1, i32);
		return LLVMBuildTrunc(e->b, v, type, "");
	}
	if (to == STX_I32 && !is_f32 && w == 8 && e->t->level >= 4)
		return f64_to_i32(e, x);
	LLVMValueRef at_once = to == STX_I32 && is_f32 ? f32_to_i32(e, x, w) : NULL;
	if (at_once)
		return at_once;
	double hi = bits == 32 ? (is_signed ? 0x1p31 : 0x1p32) : is_signed ? 0x1p63 : 0x1p64;
	double lo = is_signed ? -hi : 0;
	LLVMValueRef v = convert_inside(e, x, lo, hi, is_signed, type);
	uint64_t top = is_signed ? UINT64_MAX >> (65 - bits) : UINT64_MAX >> (64 - bits);
	v = stx__select(e, fcmp(e, LLVMRealOGE, x, hi), stx__int(type, top), v);
	if (is_signed)
		v = stx__select(e, fcmp(e, LLVMRealOLT, x, lo), stx__int(type, top + 1), v);
	return v;
}

/* i64 or u64 to a value a double holds exactly and that rounds to 11 bits or fewer as the integer
 * would: from 2^53 on the low 11 bits become one sticky bit. */
static LLVMValueRef sticky(struct stx__emit *e, LLVMValueRef v, int is_signed)
{
	LLVMTypeRef t = LLVMTypeOf(v);
	LLVMValueRef low = LLVMBuildAnd(e->b, v, stx__int(t, 0x7ff), "");
	LLVMValueRef lost = stx__icmp(e, LLVMIntNE, low, stx__int(t, 0));
	LLVMValueRef s = LLVMBuildAnd(e->b, v, stx__int(t, ~(uint64_t)0x7ff), "");
	s = LLVMBuildOr(e->b, s, stx__select(e, lost, stx__int(t, 0x800), stx__int(t, 0)), "");
	LLVMValueRef big;
	if (is_signed) {
		LLVMValueRef biased = LLVMBuildAdd(e->b, v, stx__int(t, (uint64_t)1 << 53), "");
		big = stx__icmp(e, LLVMIntUGT, biased, stx__int(t, (uint64_t)1 << 54));
	} else {
		big = stx__icmp(e, LLVMIntUGT, v, stx__int(t, (uint64_t)1 << 53));
	}
	return stx__select(e, big, s, v);
}

/* f32 made of an integer, so neither NaN nor subnormal */
static struct stx__val from_number(struct stx__emit *e, enum stx_dtype to, LLVMValueRef f32,
				   unsigned w)
{
	if (to != STX_BF16 || !has_bf16(e, w) || LLVMIsAConstant(f32))
		return both(e, to, f32, w);
	LLVMValueRef raw = quick_bf16(e, f32, w);
	return (struct stx__val){ stx__widen(e, to, raw, w), raw };
}

static struct stx__val int_to_float(struct stx__emit *e, enum stx_dtype to, enum stx_dtype from,
				    LLVMValueRef v, unsigned w)
{
	int is_signed = stx_dtype_kind(from) == STX_KIND_INT;
	int bytes = stx_dtype_bytes(from);
	LLVMTypeRef type = stx__vec(stx__type(e, to), w);
	int through_f64 = stx__is_narrow(to) && bytes > 2;
	if (bytes < 4 && from != STX_BOOL) { /* exact in i32, which every level converts */
		LLVMTypeRef i32 = stx__vec(e->i32, w);
		v = is_signed ? LLVMBuildSExt(e->b, v, i32, "") : LLVMBuildZExt(e->b, v, i32, "");
		is_signed = 1;
	}
	if (through_f64 && from == STX_I32 && w == 16 && e->t->level >= 4)
		return from_number(e, to, i32_to_odd(e, v), w);
	if (through_f64) {
		type = stx__vec(e->f64, w);
		if (bytes == 8)
			v = sticky(e, v, is_signed);
	}
	v = is_signed ? LLVMBuildSIToFP(e->b, v, type, "") : LLVMBuildUIToFP(e->b, v, type, "");
	if (!stx__is_narrow(to))
		return (struct stx__val){ v, NULL };
	return from_number(e, to, through_f64 ? cut_to_odd(e, v, w) : v, w);
}

static struct stx__val float_to_float(struct stx__emit *e, enum stx_dtype to, enum stx_dtype from,
				      struct stx__val v, unsigned w)
{
	if (to == STX_F64)
		return (struct stx__val){ LLVMBuildFPExt(e->b, v.v, stx__vec(e->f64, w), ""),
					  NULL };
	if (to == STX_F32) {
		if (from == STX_F64)
			v.v = LLVMBuildFPTrunc(e->b, v.v, stx__vec(e->f32, w), "");
		return (struct stx__val){ v.v, from == STX_BF16 ? v.raw : NULL };
	}
	if (to == STX_BF16 && from == STX_F32 && v.raw)
		return v;
	if (from != STX_F64)
		return both(e, to, v.v, w);
	if (to != STX_BF16)
		return both(e, to, cut_to_odd(e, v.v, w), w);
	if (!has_bf16(e, w) || LLVMIsAConstant(v.v))
		return both(e, to, round_to_odd(e, v.v, w), w);
	v.raw = whole_bf16(e, cut_to_odd(e, v.v, w), v.v, w);
	return (struct stx__val){ stx__widen(e, to, v.raw, w), v.raw };
}

struct stx__val stx__cast(struct stx__emit *e, enum stx_dtype to, enum stx_dtype from,
			  struct stx__val v, unsigned w)
{
	if (to == from)
		return v;
	if (stx_dtype_is_float(from)) {
		if (stx_dtype_is_float(to))
			return float_to_float(e, to, from, v, w);
		if (to == STX_BOOL) /* NaN is true */
			return (struct stx__val){ fcmp(e, LLVMRealUNE, v.v, 0), NULL };
		return (struct stx__val){ float_to_int(e, to, v.v, w), NULL };
	}
	if (stx_dtype_is_float(to))
		return int_to_float(e, to, from, v.v, w);
	if (to == STX_BOOL)
		return (struct stx__val){
			stx__icmp(e, LLVMIntNE, v.v, stx__int(LLVMTypeOf(v.v), 0)), NULL
		};
	LLVMTypeRef type = stx__vec(stx__type(e, to), w);
	int is_signed = stx_dtype_kind(from) == STX_KIND_INT;
	if (stx_dtype_bytes(to) == stx_dtype_bytes(from) && from != STX_BOOL)
		return v;
	if (stx_dtype_bytes(to) < stx_dtype_bytes(from))
		return (struct stx__val){ LLVMBuildTrunc(e->b, v.v, type, ""), NULL };
	return (struct stx__val){ is_signed ? LLVMBuildSExt(e->b, v.v, type, "")
					    : LLVMBuildZExt(e->b, v.v, type, ""),
				  NULL };
}
