/* emit_llvm_tile_dot.c: products of narrow operands: which instruction takes them, how they are packed.
 *
 * bf16. vdpbf16ps adds the product of the second element of a pair, then that of the first, each
 * time rounded once as an FMA does, but takes subnormals for zero and makes none (Intel SDM; the
 * host's is tried, base/cpu_target.c). Pairs are packed with the later term first, so the order is
 * that of k; where every packed number is zero or 2^-56 or more in magnitude, products and sums are
 * multiples of 2^-126, none is subnormal, and the bits are those of FMA in f32. Packing keeps the
 * smallest magnitude; when one is smaller the tile's sums take the other loop, which widens pairs in
 * registers and uses FMA. Without the instruction that loop is the only one.
 *
 * Integers. Sums wrap, so any order and any association gives the same bits. Which width operands
 * fit follows from the intervals of their values. vpdpbusd takes unsigned by signed bytes: an operand
 * is packed with an offset that moves its interval to [0, 255] or [-128, 127], and
 * (a + p)(b + q) = ab + p*sum(b) + q*sum(a) + pq a term: sums of rows and columns are made while
 * packing, and enter the sums of a tile where a block of terms starts. */
#include "emit_llvm.h"

/* ---- intervals of integer values ---- */

static int is_int(enum stx_dtype t)
{
	return stx_dtype_kind(t) == STX_KIND_INT || stx_dtype_kind(t) == STX_KIND_UINT;
}

static struct stx_interval whole_range(enum stx_dtype t)
{
	int bits = 8 * (int)stx_dtype_bytes(t);
	if (t == STX_BOOL)
		return (struct stx_interval){ 0, 1 };
	if (bits >= 64 || !is_int(t))
		return (struct stx_interval){ INT64_MIN, INT64_MAX };
	if (stx_dtype_kind(t) == STX_KIND_INT)
		return (struct stx_interval){ -((int64_t)1 << (bits - 1)),
					      ((int64_t)1 << (bits - 1)) - 1 };
	return (struct stx_interval){ 0, ((int64_t)1 << bits) - 1 };
}

static int is_inside(struct stx_interval p, struct stx_interval q)
{
	return p.lo >= q.lo && p.hi <= q.hi;
}

static int64_t constant(const struct stx_kinst *i)
{
	return stx_dtype_kind((enum stx_dtype)i->dtype) == STX_KIND_INT ? i->k.i : (int64_t)i->k.u;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Of instruction n, from those of its operands; operands of 32 bits at most do not overflow here. */
static struct stx_interval range_of(const struct stx_kernel *k, const struct stx_interval *r,
				    uint32_t n)
{
	const struct stx_kinst *i = &k->insts.at[n];
	enum stx_dtype t = (enum stx_dtype)i->dtype;
	struct stx_interval all = whole_range(t), v = all, p = all, q = all;
	if (!is_int(t) || stx_dtype_bytes(t) > 4)
		return all;
	if (i->op < STX_PRIM_COUNT) {
		p = r[i->a];
		q = i->b == STX_NONE ? all : r[i->b];
	}
	switch (i->op) {
	case STX_K_CONST: v = (struct stx_interval){ constant(i), constant(i) }; break;
	case STX_P_CAST:
		if (is_int((enum stx_dtype)k->insts.at[i->a].dtype) ||
		    k->insts.at[i->a].dtype == STX_BOOL)
			v = p;
		break;
	case STX_P_ADD: v = (struct stx_interval){ p.lo + q.lo, p.hi + q.hi }; break;
	case STX_P_SUB: v = (struct stx_interval){ p.lo - q.hi, p.hi - q.lo }; break;
	case STX_P_MAX: v = (struct stx_interval){ larger(p.lo, q.lo), larger(p.hi, q.hi) }; break;
	case STX_P_MIN:
		v = (struct stx_interval){ smaller(p.lo, q.lo), smaller(p.hi, q.hi) };
		break;
	case STX_P_SELECT:
		p = q;
		q = r[i->c];
		v = (struct stx_interval){ smaller(p.lo, q.lo), larger(p.hi, q.hi) };
		break;
	default: break;
	}
	return is_inside(v, all) ? v : all;
}

/* ---- which ---- */

static void choose_integer(const struct stx_kernel *k, const struct stx_cpu_target *target,
			   struct stx_arena *arena, int64_t terms, struct stx__tile *t)
{
	static const struct stx_interval i16 = { INT16_MIN, INT16_MAX }, i8 = { -128, 127 },
					 u8 = { 0, 255 };
	struct stx_interval *r = STX_NEW_ARRAY(arena, struct stx_interval, t->update + 1);
	if (!r || terms % 2)
		return;
	for (uint32_t n = 0; n < t->update; n++)
		r[n] = range_of(k, r, n);
	struct stx_interval a = r[t->value[0]], b = r[t->value[1]];
	int vnni =
		t->w * t->bytes == 64 ? target->avx512vnni : target->level == 3 && target->avxvnni;
	if (is_inside(a, i16) && is_inside(b, i16)) {
		t->dot = STX__DOT_I16;
		t->group = 2;
	}
	if (!vnni || terms % 4 || !t->group || t->dot != STX__DOT_I16 || a.hi - a.lo > 255 ||
	    b.hi - b.lo > 255)
		return;
	t->dot = STX__DOT_I8;
	t->group = 4;
	t->unsigned_j = (uint8_t)(!is_inside(a, u8) && is_inside(a, i8));
	if (t->unsigned_j) {
		t->offset[1] = is_inside(b, u8) ? 0 : b.lo;
	} else {
		t->offset[0] = is_inside(a, u8) ? 0 : a.lo;
		t->offset[1] = is_inside(b, i8) ? 0 : b.lo + 128;
	}
}

static int is_bf16(const struct stx_kernel *k, uint32_t value)
{
	const struct stx_kinst *i = &k->insts.at[value];
	return i->op == STX_P_CAST && k->insts.at[i->a].dtype == STX_BF16;
}

void stx__tile_choose_dot(const struct stx_kernel *k, const struct stx_cpu_target *target,
			  struct stx_arena *arena, struct stx__tile *t)
{
	int64_t terms;
	t->dot = STX__DOT_FMA;
	t->group = 1;
	if (t->thin || !stx_ex_is_const(k->ex, k->axes.at[k->insts.at[t->terms].a].size, &terms) ||
	    terms < 2)
		return;
	if (t->dtype == STX_I32 || t->dtype == STX_U32)
		choose_integer(k, target, arena, terms, t);
	if (t->dtype == STX_F32 && target->level >= 4 && terms % 2 == 0 &&
	    is_bf16(k, t->value[0]) && is_bf16(k, t->value[1])) {
		t->dot = STX__DOT_BF16;
		t->group = 2;
		for (int j = 0; j < 2; j++)
			t->value[j] = k->insts.at[t->value[j]].a;
	}
}

/* ---- packing ---- */

/* Numbers of a smaller magnitude, but for 0, are not vdpbf16ps': as bits without sign, 2^-56. */
#define LEAST_BF16 ((127u - 56) << 7)

static LLVMTypeRef word_vector(struct stx__emit *e)
{
	return stx__vec(e->i32, e->tile->w);
}

/* What is packed of the w values v of operand j. */
static LLVMValueRef narrowed(struct stx__emit *e, int j, struct stx__val v, unsigned w)
{
	struct stx__tile *t = e->tile;
	if (t->dot == STX__DOT_BF16)
		return v.raw;
	LLVMTypeRef type = stx__vec(t->dot == STX__DOT_I16 ? e->i16 : e->i8, w);
	if (t->offset[j])
		v.v = LLVMBuildSub(e->b, v.v, stx__int(LLVMTypeOf(v.v), (uint64_t)t->offset[j]),
				   "");
	return LLVMBuildTrunc(e->b, v.v, type, "");
}

/* The smallest magnitude so far, less 1 so that 0 is the largest. */
static void observe(struct stx__emit *e, LLVMValueRef words)
{
	LLVMTypeRef type = stx__vec(e->i16, 2 * e->tile->w);
	if (!e->tile->least)
		return;
	LLVMValueRef v = LLVMBuildBitCast(e->b, words, type, "");
	v = LLVMBuildAnd(e->b, v, stx__int(type, 0x7fff), "");
	v = LLVMBuildSub(e->b, v, stx__int(type, 1), "");
	LLVMValueRef args[2] = { LLVMBuildLoad2(e->b, type, e->tile->least, ""), v };
	LLVMBuildStore(e->b, stx__call(e, "llvm.umin", &type, 1, args, 2), e->tile->least);
}

/* w words of group terms each, from w * group values that are neighbours. */
LLVMValueRef stx__tile_words_along(struct stx__emit *e, int j, struct stx__val v)
{
	struct stx__tile *t = e->tile;
	LLVMTypeRef type = word_vector(e);
	LLVMValueRef x = narrowed(e, j, v, t->w * t->group);
	x = LLVMBuildBitCast(e->b, x, type, "");
	if (t->dot != STX__DOT_BF16)
		return x;
	observe(e, x);
	LLVMValueRef args[3] = { x, x, stx__int(type, 16) };
	return stx__call(e, "llvm.fshl", &type, 1, args, 3);
}

static LLVMValueRef interleave(struct stx__emit *e, LLVMValueRef a, LLVMValueRef b, unsigned w)
{
	LLVMValueRef at[128];
	for (unsigned i = 0; i < 2 * w; i++)
		at[i] = LLVMConstInt(e->i32, i / 2 + (i & 1) * w, 0);
	return LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(at, 2 * w), "");
}

/* The same from group vectors of w values, a term each. */
LLVMValueRef stx__tile_words_across(struct stx__emit *e, int j, const struct stx__val *v)
{
	struct stx__tile *t = e->tile;
	LLVMValueRef p[4] = { NULL };
	for (unsigned i = 0; i < t->group; i++)
		p[i] = narrowed(e, j, v[i], t->w);
	if (t->dot == STX__DOT_BF16) {
		LLVMValueRef later = p[1];
		p[1] = p[0];
		p[0] = later;
	}
	if (t->group == 4) {
		p[0] = interleave(e, p[0], p[2], t->w);
		p[1] = interleave(e, p[1], p[3], t->w);
	}
	LLVMValueRef x = interleave(e, p[0], p[1], t->w * t->group / 2);
	x = LLVMBuildBitCast(e->b, x, word_vector(e), "");
	if (t->dot == STX__DOT_BF16)
		observe(e, x);
	return x;
}

void stx__tile_observe_begin(struct stx__emit *e)
{
	if (e->tile->least)
		LLVMBuildStore(e->b, stx__int(stx__vec(e->i16, 2 * e->tile->w), 0xffff),
			       e->tile->least);
}

void stx__tile_observe_end(struct stx__emit *e)
{
	struct stx__tile *t = e->tile;
	LLVMTypeRef type = stx__vec(e->i16, 2 * t->w);
	if (!t->least)
		return;
	LLVMValueRef v = LLVMBuildLoad2(e->b, type, t->least, "");
	v = stx__icmp(e, LLVMIntULT, v, stx__int(type, LEAST_BF16 - 1));
	v = LLVMBuildZExt(e->b, stx__any(e, v, 2 * t->w), e->i8, "");
	LLVMValueRef was = LLVMBuildLoad2(e->b, e->i8, t->is_wild, "");
	LLVMBuildStore(e->b, LLVMBuildOr(e->b, was, v, ""), t->is_wild);
}

/* ---- multiplying ---- */

/* Four byte products a lane: of the unsigned u by the signed s. */
static LLVMValueRef dot_bytes(struct stx__emit *e, LLVMValueRef u, LLVMValueRef s, LLVMValueRef sum)
{
	LLVMValueRef args[3] = { sum, u, s };
	return stx__call(e,
			 e->tile->w == 16 ? "llvm.x86.avx512.vpdpbusd.512"
					  : "llvm.x86.avx512.vpdpbusd.256",
			 NULL, 0, args, 3);
}

/* sum plus what each word of operand j holds. */
LLVMValueRef stx__tile_add_up(struct stx__emit *e, int j, LLVMValueRef words, LLVMValueRef sum)
{
	LLVMValueRef ones = stx__int(word_vector(e), 0x01010101);
	return e->tile->unsigned_j == j ? dot_bytes(e, words, ones, sum)
					: dot_bytes(e, ones, words, sum);
}

static LLVMValueRef dot_pairs(struct stx__emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sum)
{
	unsigned w = e->tile->w;
	LLVMTypeRef half = stx__vec(e->i16, 2 * w);
	int fused = w == 16 ? e->t->avx512vnni : e->t->level == 3 && e->t->avxvnni;
	if (fused) {
		LLVMValueRef args[3] = { sum, a, b };
		return stx__call(e,
				 w == 16 ? "llvm.x86.avx512.vpdpwssd.512"
					 : "llvm.x86.avx512.vpdpwssd.256",
				 NULL, 0, args, 3);
	}
	LLVMValueRef args[2] = { LLVMBuildBitCast(e->b, a, half, ""),
				 LLVMBuildBitCast(e->b, b, half, "") };
	LLVMValueRef p = stx__call(e,
				   w == 16  ? "llvm.x86.avx512.pmaddw.d.512"
				   : w == 8 ? "llvm.x86.avx2.pmadd.wd"
					    : "llvm.x86.sse2.pmadd.wd",
				   NULL, 0, args, 2);
	return LLVMBuildAdd(e->b, sum, p, "");
}

static LLVMValueRef half_of(struct stx__emit *e, LLVMValueRef words, int later)
{
	LLVMTypeRef type = word_vector(e);
	words = later ? LLVMBuildShl(e->b, words, stx__int(type, 16), "")
		      : LLVMBuildAnd(e->b, words, stx__int(type, 0xffff0000u), "");
	return LLVMBuildBitCast(e->b, words, stx__vec(e->f32, e->tile->w), "");
}

LLVMValueRef stx__tile_step(struct stx__emit *e, int widen, LLVMValueRef a, LLVMValueRef b,
			    LLVMValueRef sum)
{
	struct stx__tile *t = e->tile;
	if (t->dot == STX__DOT_I16)
		return dot_pairs(e, a, b, sum);
	if (t->dot == STX__DOT_I8)
		return t->unsigned_j ? dot_bytes(e, b, a, sum) : dot_bytes(e, a, b, sum);
	if (t->dot == STX__DOT_BF16 && widen) {
		sum = stx__fma(e, half_of(e, a, 0), half_of(e, b, 0), sum);
		return stx__fma(e, half_of(e, a, 1), half_of(e, b, 1), sum);
	}
	if (t->dot == STX__DOT_BF16) {
		LLVMTypeRef type = stx__vec(LLVMBFloatTypeInContext(e->c), 2 * t->w);
		LLVMValueRef args[3] = { sum, LLVMBuildBitCast(e->b, a, type, ""),
					 LLVMBuildBitCast(e->b, b, type, "") };
		return stx__call(e, "llvm.x86.avx512bf16.dpbf16ps.512", NULL, 0, args, 3);
	}
	if (stx_dtype_is_float(t->dtype))
		return stx__fma(e, a, b, sum);
	return LLVMBuildAdd(e->b, LLVMBuildMul(e->b, a, b, ""), sum, "");
}
