/* emit_llvm_reduce.c: accumulators in the orders of kernel.h.
 *
 * State. LANES: `slots` registers of w lanes; for the binding monoids slots*w = 64, so virtual lane
 * l is lane l mod w of register l / w on every target, and the pairwise merge l with l+32, ... +1
 * first folds registers, then halves of one register: same operands, same order at any width.
 * SERIAL and PLAIN: one running value, or one vector a copy when the whole reduction stands inside
 * a vector loop. Chunks. A reduction of one loop that fits one chunk is its merged state. Otherwise
 * (`parted`) each chunk is pushed on a stack in memory: bit k of the count says that a partial of
 * rank k is at place k, which is the binary-counter order of kernel.h. Where combination is exact,
 * the state simply runs through all loops and merges once at the end. MAX and MIN of f32 run on
 * integers (`keyed`): a key that orders all floats, -0 below +0, by flipping the lower bits of
 * negative ones, and the largest bits without sign, which are above infinity's when a NaN was
 * there. Each takes a cycle where NaN and zeros by floats take a chain of fifteen. WELFORD. update:
 * w1 = w + 1, d = x - mean, mean1 = mean + d/w1, m2 + d*(x - mean1). combine(x, y): w = wx + wy, f
 * = wy/w (0 when w is 0), d = my - mx, mean = mx + d*f, m2 = m2x + m2y + d*d*(wx*f). */
#include "emit_llvm.h"

struct state {
	LLVMValueRef v[3];
};

#define SIGNLESS 0x7fffffffu
#define INFINITE 0x7f800000u

static LLVMTypeRef state_type(struct stx__emit *e, const struct stx__acc *a, int s)
{
	if (a->keyed)
		return stx__vec(e->i32, a->w);
	enum stx_dtype t =
		stx_monoid_state_dtype((enum stx_monoid)a->monoid, (unsigned)s, a->dtype);
	return stx__vec(stx__type(e, t), a->w);
}

static struct state identity(struct stx__emit *e, const struct stx__acc *a, unsigned w)
{
	struct state r = { { NULL } };
	union stx_scalar first = stx_monoid_identity((enum stx_monoid)a->monoid, a->dtype);
	if (a->keyed) {
		LLVMTypeRef t = stx__vec(e->i32, w);
		uint32_t key = a->monoid == STX_MONOID_MAX ? ~INFINITE : INFINITE;
		return (struct state){ { stx__int(t, key), stx__int(t, 0), NULL } };
	}
	r.v[0] = stx__const(e, a->dtype, first, w);
	for (int s = 1; s < a->nstates; s++)
		r.v[s] = a->monoid == STX_MONOID_WELFORD || a->monoid == STX_MONOID_SOFTMAX
				 ? stx__real(stx__vec(stx__type(e, a->dtype), w), 0)
				 : stx__int(stx__vec(e->i64, w), INT64_MAX);
	return r;
}

/* ---- combination ---- */

static LLVMValueRef add(struct stx__emit *e, enum stx_dtype t, LLVMValueRef x, LLVMValueRef y)
{
	return stx_dtype_is_float(t) ? stx__contract(e, LLVMBuildFAdd(e->b, x, y, ""))
				     : LLVMBuildAdd(e->b, x, y, "");
}

static LLVMValueRef extreme(struct stx__emit *e, enum stx_dtype t, int max, LLVMValueRef x,
			    LLVMValueRef y)
{
	if (stx_dtype_is_float(t))
		return stx__float_max(e, max, x, y);
	if (t == STX_BOOL)
		return max ? LLVMBuildOr(e->b, x, y, "") : LLVMBuildAnd(e->b, x, y, "");
	int sg = stx_dtype_kind(t) == STX_KIND_INT;
	LLVMTypeRef type = LLVMTypeOf(x);
	LLVMValueRef args[2] = { x, y };
	const char *name = max ? (sg ? "llvm.smax" : "llvm.umax") : sg ? "llvm.smin" : "llvm.umin";
	return stx__call(e, name, &type, 1, args, 2);
}

/* (value, position): y, later than x, replaces it when it is no worse. NaN is best. */
static struct state no_worse(struct stx__emit *e, const struct stx__acc *a, struct state x,
			     struct state y)
{
	int max = a->monoid == STX_MONOID_ARGMAX, sg = stx_dtype_kind(a->dtype) == STX_KIND_INT;
	LLVMValueRef take;
	if (stx_dtype_is_float(a->dtype)) {
		LLVMValueRef nan = LLVMBuildFCmp(e->b, LLVMRealUNO, y.v[0], y.v[0], "");
		take = LLVMBuildFCmp(e->b, max ? LLVMRealOGE : LLVMRealOLE, y.v[0], x.v[0], "");
		take = LLVMBuildOr(e->b, take, nan, "");
	} else {
		take = stx__icmp(e,
				 max  ? (sg ? LLVMIntSGE : LLVMIntUGE)
				 : sg ? LLVMIntSLE
				      : LLVMIntULE,
				 y.v[0], x.v[0]);
	}
	return (struct state){ { stx__select(e, take, y.v[0], x.v[0]),
				 stx__select(e, take, y.v[1], x.v[1]), NULL } };
}

/* (value, position): y replaces x when it is better, or equal with the lower position. NaN is best.
 */
static struct state better(struct stx__emit *e, const struct stx__acc *a, struct state x,
			   struct state y)
{
	int max = a->monoid == STX_MONOID_ARGMAX, sg = stx_dtype_kind(a->dtype) == STX_KIND_INT;
	LLVMValueRef lower = stx__icmp(e, LLVMIntSLT, y.v[1], x.v[1]), beats, equal;
	if (stx_dtype_is_float(a->dtype)) {
		LLVMValueRef xn = LLVMBuildFCmp(e->b, LLVMRealUNO, x.v[0], x.v[0], "");
		LLVMValueRef yn = LLVMBuildFCmp(e->b, LLVMRealUNO, y.v[0], y.v[0], "");
		beats = LLVMBuildFCmp(e->b, max ? LLVMRealUGT : LLVMRealULT, y.v[0], x.v[0], "");
		beats = LLVMBuildAnd(e->b, beats, LLVMBuildNot(e->b, xn, ""), "");
		equal = LLVMBuildFCmp(e->b, LLVMRealOEQ, y.v[0], x.v[0], "");
		equal = LLVMBuildOr(e->b, equal, LLVMBuildAnd(e->b, xn, yn, ""), "");
	} else {
		LLVMIntPredicate p = max  ? (sg ? LLVMIntSGT : LLVMIntUGT)
				     : sg ? LLVMIntSLT
					  : LLVMIntULT;
		beats = stx__icmp(e, p, y.v[0], x.v[0]);
		equal = stx__icmp(e, LLVMIntEQ, y.v[0], x.v[0]);
	}
	LLVMValueRef take = LLVMBuildOr(e->b, beats, LLVMBuildAnd(e->b, equal, lower, ""), "");
	return (struct state){ { stx__select(e, take, y.v[0], x.v[0]),
				 stx__select(e, take, y.v[1], x.v[1]), NULL } };
}

static struct state welford_combine(struct stx__emit *e, struct state x, struct state y)
{
	LLVMTypeRef t = LLVMTypeOf(x.v[0]);
	LLVMValueRef w = LLVMBuildFAdd(e->b, x.v[2], y.v[2], "");
	LLVMValueRef none = LLVMBuildFCmp(e->b, LLVMRealOEQ, w, stx__real(t, 0), "");
	LLVMValueRef f = LLVMBuildFDiv(e->b, y.v[2], w, "");
	f = stx__select(e, none, stx__real(t, 0), f);
	LLVMValueRef d = LLVMBuildFSub(e->b, y.v[0], x.v[0], "");
	LLVMValueRef mean = LLVMBuildFAdd(e->b, x.v[0], LLVMBuildFMul(e->b, d, f, ""), "");
	LLVMValueRef cross = LLVMBuildFMul(e->b, x.v[2], f, ""); /* first: 0 beats d*d = inf */
	cross = LLVMBuildFMul(e->b, d, LLVMBuildFMul(e->b, d, cross, ""), "");
	LLVMValueRef m2 = LLVMBuildFAdd(e->b, LLVMBuildFAdd(e->b, x.v[1], y.v[1], ""), cross, "");
	return (struct state){ { mean, m2, w } };
}

static struct state welford_update(struct stx__emit *e, struct state s, LLVMValueRef x)
{
	LLVMTypeRef t = LLVMTypeOf(x);
	LLVMValueRef w = LLVMBuildFAdd(e->b, s.v[2], stx__real(t, 1), "");
	LLVMValueRef d = LLVMBuildFSub(e->b, x, s.v[0], "");
	LLVMValueRef mean = LLVMBuildFAdd(e->b, s.v[0], LLVMBuildFDiv(e->b, d, w, ""), "");
	LLVMValueRef r = LLVMBuildFSub(e->b, x, mean, "");
	LLVMValueRef m2 = LLVMBuildFAdd(e->b, s.v[1], LLVMBuildFMul(e->b, d, r, ""), "");
	return (struct state){ { mean, m2, w } };
}

/* exp(m - top), 1 where they are equal: two infinities have no difference. */
static LLVMValueRef weight(struct stx__emit *e, const struct stx__acc *a, LLVMValueRef m,
			   LLVMValueRef top)
{
	LLVMValueRef same = LLVMBuildFCmp(e->b, LLVMRealOEQ, m, top, "");
	LLVMValueRef d = LLVMBuildFSub(e->b, m, top, "");
	d = stx__select(e, same, stx__real(LLVMTypeOf(m), 0), d);
	return stx__elementary(e, STX_P_EXP, a->dtype, d);
}

/* y.v[1] NULL: one element, whose sum is 1. */
static struct state softmax_combine(struct stx__emit *e, const struct stx__acc *a, struct state x,
				    struct state y)
{
	LLVMValueRef top = stx__float_max(e, 1, x.v[0], y.v[0]);
	LLVMValueRef s = LLVMBuildFMul(e->b, x.v[1], weight(e, a, x.v[0], top), "");
	LLVMValueRef more = weight(e, a, y.v[0], top);
	if (y.v[1])
		more = LLVMBuildFMul(e->b, y.v[1], more, "");
	return (struct state){ { top, LLVMBuildFAdd(e->b, s, more, ""), NULL } };
}

/* ---- keys ---- */

/* A float's bits in the order of its values, and back: each undoes the other. */
static LLVMValueRef flip(struct stx__emit *e, LLVMValueRef bits)
{
	LLVMTypeRef t = LLVMTypeOf(bits);
	LLVMValueRef sign = LLVMBuildAShr(e->b, bits, stx__int(t, 31), "");
	sign = LLVMBuildAnd(e->b, sign, stx__int(t, SIGNLESS), "");
	return LLVMBuildXor(e->b, bits, sign, "");
}

static struct state keyed_combine(struct stx__emit *e, const struct stx__acc *a, struct state x,
				  struct state y)
{
	return (struct state){ { extreme(e, STX_I32, a->monoid == STX_MONOID_MAX, x.v[0], y.v[0]),
				 extreme(e, STX_U32, 1, x.v[1], y.v[1]), NULL } };
}

static struct state keyed_of(struct stx__emit *e, LLVMValueRef x, unsigned w)
{
	LLVMTypeRef t = stx__vec(e->i32, w);
	LLVMValueRef bits = LLVMBuildBitCast(e->b, x, t, "");
	return (struct state){ { flip(e, bits), LLVMBuildAnd(e->b, bits, stx__int(t, SIGNLESS), ""),
				 NULL } };
}

static LLVMValueRef keyed_value(struct stx__emit *e, struct state s)
{
	LLVMTypeRef t = LLVMTypeOf(s.v[0]);
	LLVMValueRef nan = stx__icmp(e, LLVMIntUGT, s.v[1], stx__int(t, INFINITE));
	LLVMValueRef bits = stx__select(e, nan, stx__int(t, 0x7fc00000), flip(e, s.v[0]));
	int vector = LLVMGetTypeKind(t) == LLVMVectorTypeKind;
	unsigned w = vector ? LLVMGetVectorSize(t) : 1;
	return LLVMBuildBitCast(e->b, bits, stx__vec(e->f32, w), "");
}

static struct state combine(struct stx__emit *e, const struct stx__acc *a, struct state x,
			    struct state y)
{
	struct state r = { { NULL } };
	if (a->keyed)
		return keyed_combine(e, a, x, y);
	switch (a->monoid) {
	case STX_MONOID_SUM:
	case STX_MONOID_DOT: r.v[0] = add(e, a->dtype, x.v[0], y.v[0]); break;
	case STX_MONOID_PROD:
		r.v[0] = stx_dtype_is_float(a->dtype)
				 ? stx__contract(e, LLVMBuildFMul(e->b, x.v[0], y.v[0], ""))
				 : LLVMBuildMul(e->b, x.v[0], y.v[0], "");
		break;
	case STX_MONOID_MAX:
	case STX_MONOID_MIN:
		r.v[0] = extreme(e, a->dtype, a->monoid == STX_MONOID_MAX, x.v[0], y.v[0]);
		break;
	case STX_MONOID_ANY: r.v[0] = LLVMBuildOr(e->b, x.v[0], y.v[0], ""); break;
	case STX_MONOID_ALL: r.v[0] = LLVMBuildAnd(e->b, x.v[0], y.v[0], ""); break;
	case STX_MONOID_WELFORD: return welford_combine(e, x, y);
	case STX_MONOID_SOFTMAX: return softmax_combine(e, a, x, y);
	default: return a->runs ? no_worse(e, a, x, y) : better(e, a, x, y);
	}
	return r;
}

static struct state updated(struct stx__emit *e, const struct stx__acc *a, struct state s,
			    LLVMValueRef b, LLVMValueRef c)
{
	if (a->monoid == STX_MONOID_WELFORD)
		return welford_update(e, s, b);
	if (a->keyed)
		return keyed_combine(e, a, s, keyed_of(e, b, a->w));
	if (a->monoid != STX_MONOID_DOT)
		return combine(e, a, s, (struct state){ { b, c, NULL } });
	if (stx_dtype_is_float(a->dtype))
		return (struct state){ { stx__fma(e, b, c, s.v[0]) } };
	return (struct state){ { LLVMBuildAdd(e->b, LLVMBuildMul(e->b, b, c, ""), s.v[0], "") } };
}

/* ---- state in allocas ---- */

static struct state load_state(struct stx__emit *e, const struct stx__acc *a, unsigned slot)
{
	struct state r = { { NULL } };
	for (int s = 0; s < a->nstates; s++)
		r.v[s] = LLVMBuildLoad2(e->b, state_type(e, a, s), a->state[s][slot], "");
	return r;
}

static void store_state(struct stx__emit *e, struct stx__acc *a, unsigned slot, struct state v)
{
	for (int s = 0; s < a->nstates; s++)
		LLVMBuildStore(e->b, v.v[s], a->state[s][slot]);
}

/* Register e->slot of an accumulator whose registers are in its array. */
static void array_slot(struct stx__emit *e, const struct stx__acc *a, LLVMValueRef p[3])
{
	LLVMValueRef i = LLVMBuildAdd(e->b, e->slot, stx__i64(e, e->copy), "");
	for (int s = 0; s < a->nstates; s++)
		p[s] = LLVMBuildGEP2(e->b, state_type(e, a, s), a->array[s], &i, 1, "");
}

void stx__acc_reset(struct stx__emit *e, struct stx__acc *a)
{
	struct state id = identity(e, a, a->w);
	for (unsigned i = 0; i < a->slots; i++)
		store_state(e, a, i, id);
}

static void make_array(struct stx__emit *e, struct stx__acc *a)
{
	for (int s = 0; s < a->nstates && !a->array[s]; s++)
		a->array[s] = stx__alloca(e, LLVMArrayType2(state_type(e, a, s), a->slots), 64);
}

void stx__acc_to_array(struct stx__emit *e, struct stx__acc *a)
{
	make_array(e, a);
	for (int s = 0; s < a->nstates; s++)
		for (unsigned i = 0; i < a->slots; i++) {
			LLVMTypeRef t = state_type(e, a, s);
			LLVMValueRef at = stx__i64(e, i);
			LLVMValueRef v = LLVMBuildLoad2(e->b, t, a->state[s][i], "");
			LLVMBuildStore(e->b, v, LLVMBuildGEP2(e->b, t, a->array[s], &at, 1, ""));
		}
	a->in_memory = 1;
}

void stx__acc_from_array(struct stx__emit *e, struct stx__acc *a)
{
	for (int s = 0; s < a->nstates; s++)
		for (unsigned i = 0; i < a->slots; i++) {
			LLVMTypeRef t = state_type(e, a, s);
			LLVMValueRef at = stx__i64(e, i);
			LLVMValueRef p = LLVMBuildGEP2(e->b, t, a->array[s], &at, 1, "");
			LLVMBuildStore(e->b, LLVMBuildLoad2(e->b, t, p, ""), a->state[s][i]);
		}
	a->in_memory = 0;
}

unsigned stx__acc_slots(const struct stx__acc *a, unsigned copies, unsigned w)
{
	if (a->order != STX_ORDER_LANES)
		return copies;
	if (!a->exact)
		return (a->reach + w - 1) / w;
	return copies < 8 ? copies : 8;
}

/* ---- partial results ---- */

/* Columns that share a stack: the current ones are made, or asked for, in a pass over all. */
static int is_shared(const struct stx__emit *e, const struct stx__acc *a)
{
	return e->rows.loop != STX_NONE && a->loop == e->rows.loop;
}

static LLVMValueRef rank_place(struct stx__emit *e, const struct stx__acc *a, LLVMTypeRef t, int s,
			       LLVMValueRef rank, unsigned copy)
{
	unsigned each = is_shared(e, a) ? a->pitch : a->copies;
	LLVMValueRef i = LLVMBuildMul(e->b, rank, stx__i64(e, each), "");
	if (is_shared(e, a)) {
		LLVMValueRef w = stx__i64(e, a->w);
		i = LLVMBuildAdd(e->b, i, LLVMBuildUDiv(e->b, e->axis[e->vaxis], w, ""), "");
	}
	i = LLVMBuildAdd(e->b, i, stx__i64(e, copy), "");
	return LLVMBuildGEP2(e->b, t, a->stack[s], &i, 1, "");
}

static struct state load_rank(struct stx__emit *e, const struct stx__acc *a, LLVMValueRef rank,
			      unsigned copy, unsigned w)
{
	struct state r = { { NULL } };
	LLVMTypeRef t = stx__vec(stx__type(e, a->dtype), w);
	for (int s = 0; s < a->nstates; s++)
		r.v[s] = LLVMBuildLoad2(e->b, t, rank_place(e, a, t, s, rank, copy), "");
	return r;
}

static void store_rank(struct stx__emit *e, const struct stx__acc *a, LLVMValueRef rank,
		       unsigned copy, struct state v)
{
	for (int s = 0; s < a->nstates; s++)
		LLVMBuildStore(e->b, v.v[s], rank_place(e, a, LLVMTypeOf(v.v[s]), s, rank, copy));
}

/* How many partial results there are. */
static LLVMValueRef parts(struct stx__emit *e, const struct stx__acc *a)
{
	return is_shared(e, a) ? e->rows.count : LLVMBuildLoad2(e->b, e->i64, a->count, "");
}

/* Lanes of one result: LANES merge to a scalar. */
static unsigned result_lanes(const struct stx__acc *a)
{
	return a->order == STX_ORDER_LANES ? 1 : a->w;
}

/* Pushes part[copy] for every copy; the count is shared. */
static void push(struct stx__emit *e, struct stx__acc *a, const struct state *part)
{
	struct state phi[STX__MAX_COPIES], sum[STX__MAX_COPIES];
	unsigned w = result_lanes(a);
	LLVMValueRef count = parts(e, a);
	LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), head = stx__block(e, "push");
	LLVMBasicBlockRef body = stx__block(e, "push.merge"), after = stx__block(e, "push.end");
	LLVMBuildBr(e->b, head);
	LLVMPositionBuilderAtEnd(e->b, head);
	LLVMValueRef rank = LLVMBuildPhi(e->b, e->i64, "");
	for (unsigned c = 0; c < a->copies; c++)
		for (int s = 0; s < a->nstates; s++)
			phi[c].v[s] = LLVMBuildPhi(e->b, LLVMTypeOf(part[c].v[s]), "");
	LLVMValueRef bit =
		LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, count, rank, ""), stx__i64(e, 1), "");
	LLVMBuildCondBr(e->b, stx__icmp(e, LLVMIntNE, bit, stx__i64(e, 0)), body, after);
	LLVMPositionBuilderAtEnd(e->b, body);
	for (unsigned c = 0; c < a->copies; c++)
		sum[c] = combine(e, a, load_rank(e, a, rank, c, w), phi[c]);
	LLVMValueRef next = LLVMBuildAdd(e->b, rank, stx__i64(e, 1), "");
	LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
	LLVMBuildBr(e->b, head);
	LLVMBasicBlockRef from[2] = { before, latch };
	LLVMAddIncoming(rank, (LLVMValueRef[]){ stx__i64(e, 0), next }, from, 2);
	for (unsigned c = 0; c < a->copies; c++)
		for (int s = 0; s < a->nstates; s++)
			LLVMAddIncoming(phi[c].v[s], (LLVMValueRef[]){ part[c].v[s], sum[c].v[s] },
					from, 2);
	LLVMPositionBuilderAtEnd(e->b, after);
	for (unsigned c = 0; c < a->copies; c++)
		store_rank(e, a, rank, c, phi[c]);
	if (!is_shared(e, a))
		LLVMBuildStore(e->b, LLVMBuildAdd(e->b, count, stx__i64(e, 1), ""), a->count);
}

static LLVMValueRef lowest_bit(struct stx__emit *e, LLVMValueRef v)
{
	LLVMTypeRef t = e->i64;
	LLVMValueRef args[2] = { v, LLVMConstInt(e->i1, 0, 0) };
	return stx__call(e, "llvm.cttz", &t, 1, args, 2);
}

static LLVMValueRef clear_lowest(struct stx__emit *e, LLVMValueRef v)
{
	return LLVMBuildAnd(e->b, v, LLVMBuildSub(e->b, v, stx__i64(e, 1), ""), "");
}

/* Folds the stack from its top (the lowest rank) down; the identity when nothing was pushed. */
static struct state fold(struct stx__emit *e, struct stx__acc *a, unsigned copy)
{
	unsigned w = result_lanes(a);
	struct state id = identity(e, a, w), out[3];
	LLVMBasicBlockRef empty = LLVMGetInsertBlock(e->b), first = stx__block(e, "fold");
	LLVMBasicBlockRef head = stx__block(e, "fold.head"), body = stx__block(e, "fold.merge");
	LLVMBasicBlockRef after = stx__block(e, "fold.end");
	LLVMValueRef count = parts(e, a);
	LLVMBuildCondBr(e->b, stx__icmp(e, LLVMIntNE, count, stx__i64(e, 0)), first, after);
	LLVMPositionBuilderAtEnd(e->b, first);
	struct state top = load_rank(e, a, lowest_bit(e, count), copy, w);
	LLVMValueRef left = clear_lowest(e, count);
	LLVMBuildBr(e->b, head);
	LLVMPositionBuilderAtEnd(e->b, head);
	LLVMValueRef more = LLVMBuildPhi(e->b, e->i64, "");
	for (int s = 0; s < a->nstates; s++)
		out[0].v[s] = LLVMBuildPhi(e->b, LLVMTypeOf(id.v[s]), "");
	LLVMBuildCondBr(e->b, stx__icmp(e, LLVMIntNE, more, stx__i64(e, 0)), body, after);
	LLVMPositionBuilderAtEnd(e->b, body);
	out[1] = combine(e, a, load_rank(e, a, lowest_bit(e, more), copy, w), out[0]);
	LLVMValueRef next = clear_lowest(e, more);
	LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
	LLVMBuildBr(e->b, head);
	LLVMAddIncoming(more, (LLVMValueRef[]){ left, next }, (LLVMBasicBlockRef[]){ first, latch },
			2);
	for (int s = 0; s < a->nstates; s++)
		LLVMAddIncoming(out[0].v[s], (LLVMValueRef[]){ top.v[s], out[1].v[s] },
				(LLVMBasicBlockRef[]){ first, latch }, 2);
	LLVMPositionBuilderAtEnd(e->b, after);
	for (int s = 0; s < a->nstates; s++) {
		out[2].v[s] = LLVMBuildPhi(e->b, LLVMTypeOf(id.v[s]), "");
		LLVMAddIncoming(out[2].v[s], (LLVMValueRef[]){ id.v[s], out[0].v[s] },
				(LLVMBasicBlockRef[]){ empty, head }, 2);
	}
	return out[2];
}

/* ---- merging lanes ---- */

/* Lanes [from, from + n) of a vector; a scalar when n is 1. */
static LLVMValueRef lanes(struct stx__emit *e, LLVMValueRef v, unsigned from, unsigned n)
{
	LLVMValueRef mask[64];
	if (n == 1)
		return LLVMBuildExtractElement(e->b, v, LLVMConstInt(e->i32, from, 0), "");
	for (unsigned i = 0; i < n; i++)
		mask[i] = LLVMConstInt(e->i32, from + i, 0);
	return LLVMBuildShuffleVector(e->b, v, LLVMGetPoison(LLVMTypeOf(v)),
				      LLVMConstVector(mask, n), "");
}

static struct state merge_lanes(struct stx__emit *e, struct stx__acc *a)
{
	struct state r[STX__MAX_COPIES] = { { { NULL } } };
	for (unsigned i = 0; i < a->slots; i++)
		r[i] = load_state(e, a, i);
	unsigned all = a->exact ? a->slots : STX_LANES / a->w, reach = a->exact ? a->w : a->reach;
	for (unsigned half = all / 2; half; half /= 2)
		for (unsigned i = 0; i < half && i + half < a->slots; i++)
			r[i] = combine(e, a, r[i], r[i + half]);
	for (unsigned n = a->w / 2; n; n /= 2) {
		struct state lo = { { NULL } }, hi = { { NULL } };
		for (int s = 0; s < a->nstates; s++) {
			lo.v[s] = lanes(e, r[0].v[s], 0, n);
			hi.v[s] = lanes(e, r[0].v[s], n, n);
		}
		r[0] = reach > n ? combine(e, a, lo, hi) : lo;
	}
	return r[0];
}

void stx__acc_part(struct stx__emit *e, struct stx__acc *a)
{
	struct state part[STX__MAX_COPIES] = { { { NULL } } };
	if (a->order == STX_ORDER_LANES)
		part[0] = merge_lanes(e, a);
	else
		for (unsigned c = 0; c < a->copies; c++)
			part[c] = load_state(e, a, c);
	push(e, a, part);
}

/* ---- instructions ---- */

static struct stx__acc *acc_of(struct stx__emit *e, uint32_t n)
{
	return e->acc[n];
}

void stx__acc_stack(struct stx__emit *e, struct stx__acc *a, unsigned w, unsigned each)
{
	LLVMTypeRef t = stx__vec(stx__type(e, a->dtype), w);
	for (int s = 0; s < a->nstates; s++)
		a->stack[s] = stx__alloca(e, LLVMArrayType2(t, (uint64_t)a->ranks * each), 64);
}

void stx__acc_open(struct stx__emit *e, uint32_t n)
{
	struct stx__acc *a = acc_of(e, n);
	if (e->tile || e->attend)
		return; /* its sums are there already */
	a->copies = e->varying[n] ? e->copies : 1;
	if (a->order == STX_ORDER_LANES) {
		a->w = e->loop[a->inner].w;
		a->slots = stx__acc_slots(a, e->loop[a->inner].copies, a->w);
	} else {
		a->w = stx__lanes_of(e, n);
		a->slots = a->copies;
	}
	a->in_memory = 0;
	for (int s = 0; s < 3; s++)
		a->array[s] = NULL;
	for (int s = 0; s < a->nstates; s++)
		for (unsigned i = 0; i < a->slots; i++)
			a->state[s][i] = stx__alloca(e, state_type(e, a, s), 0);
	if (a->parted && !is_shared(e, a)) {
		a->count = stx__alloca(e, e->i64, 8);
		LLVMBuildStore(e->b, stx__i64(e, 0), a->count);
		stx__acc_stack(e, a, result_lanes(a), a->copies);
	} else if (!a->parted) {
		stx__acc_reset(e, a);
	}
}

/* 1: of one row at a time a new extreme is foreseen not to come, so that the next element waits for none. Of
 * types with few values equal ones come too often. */
static int seldom_changes(const struct stx__acc *a)
{
	return a->runs && a->w == 1 && stx_monoid_is_arg((enum stx_monoid)a->monoid) &&
	       stx_dtype_bytes(a->dtype) > 1;
}

/* Branches around the update unless b can be taken, by one comparison. */
static LLVMBasicBlockRef unless_less(struct stx__emit *e, const struct stx__acc *a,
				     LLVMValueRef old, LLVMValueRef b)
{
	int max = a->monoid == STX_MONOID_ARGMAX, sg = stx_dtype_kind(a->dtype) == STX_KIND_INT;
	LLVMMetadataRef weights[3] = { LLVMMDStringInContext2(e->c, "branch_weights", 14),
				       LLVMValueAsMetadata(LLVMConstInt(e->i32, 1, 0)),
				       LLVMValueAsMetadata(LLVMConstInt(e->i32, 2000, 0)) };
	LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), after;
	LLVMValueRef take;
	if (stx_dtype_is_float(a->dtype))
		take = LLVMBuildFCmp(e->b, max ? LLVMRealUGE : LLVMRealULE, b, old, "");
	else
		take = stx__icmp(e,
				 max  ? (sg ? LLVMIntSGE : LLVMIntUGE)
				 : sg ? LLVMIntSLE
				      : LLVMIntULE,
				 b, old);
	after = stx__if_begin(e, take);
	if (after) {
		LLVMMetadataRef node = LLVMMDNodeInContext2(e->c, weights, 3);
		LLVMSetMetadata(LLVMGetBasicBlockTerminator(before),
				LLVMGetMDKindIDInContext(e->c, "prof", 4),
				LLVMMetadataAsValue(e->c, node));
	}
	return after;
}

void stx__acc_update(struct stx__emit *e, uint32_t n)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	struct stx__acc *a = acc_of(e, i->a);
	LLVMValueRef b = stx__get(e, i->b, a->w).v, p[3];
	LLVMValueRef c = i->c == STX_NONE ? NULL : stx__get(e, i->c, a->w).v;
	struct state old, new;
	if (a->in_memory) {
		array_slot(e, a, p);
	} else {
		unsigned slot = a->order == STX_ORDER_LANES ? (e->first_slot + e->copy) % a->slots
				: a->copies > 1             ? e->copy
							    : 0;
		for (int s = 0; s < a->nstates; s++)
			p[s] = a->state[s][slot];
	}
	for (int s = 0; s < a->nstates; s++)
		old.v[s] = LLVMBuildLoad2(e->b, state_type(e, a, s), p[s], "");
	LLVMBasicBlockRef after = NULL;
	if (seldom_changes(a))
		after = unless_less(e, a, old.v[0], b);
	new = updated(e, a, old, b, c);
	for (int s = 0; s < a->nstates; s++) {
		if (a->order == STX_ORDER_LANES && e->mask)
			new.v[s] = stx__select(e, e->mask, new.v[s], old.v[s]);
		LLVMBuildStore(e->b, new.v[s], p[s]);
	}
	stx__if_end(e, after);
}

void stx__acc_finish(struct stx__emit *e, struct stx__acc *a)
{
	for (unsigned c = 0; c < a->copies; c++) {
		struct state r;
		if (a->parted)
			r = fold(e, a, c);
		else
			r = a->order == STX_ORDER_LANES ? merge_lanes(e, a) : load_state(e, a, c);
		if (a->keyed)
			r.v[0] = keyed_value(e, r);
		for (int s = 0; s < a->nstates; s++)
			a->final[s][c] = r.v[s];
	}
}

void stx__acc_result(struct stx__emit *e, uint32_t n)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	struct stx__acc *a = acc_of(e, i->a);
	if (e->tile || e->attend) {
		LLVMValueRef r = e->tile ? stx__tile_result(e) : stx__attend_result(e, n);
		stx__set(e, n, (struct stx__val){ r, NULL });
		return;
	}
	if (a->runs) {
		struct state now = load_state(e, a, a->copies > 1 ? e->copy : 0);
		stx__set(e, n, (struct stx__val){ now.v[i->flags < 3 ? i->flags : 0], NULL });
		return;
	}
	LLVMValueRef v = a->final[i->flags < 3 ? i->flags : 0][a->copies > 1 ? e->copy : 0];
	stx__set(e, n, (struct stx__val){ v, NULL });
}
