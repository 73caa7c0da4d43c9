/* emit_llvm_memory.c: loads, stores, run-time indices with their bounds checks, index values.
 *
 * A lane that is off touches no memory: contiguous accesses use llvm.masked.load and store, others
 * gather and scatter with a mask; a uniform access under a mask goes to a slot of the stack instead
 * of branching. Where the level has no masked move (x86-64-v2; 8 and 16 bits in v3) LLVM would make
 * one branch a lane, so the tail, whose mask is a prefix, copies through a small buffer in a loop.
 *
 * What is written and, with what the kernel reads, does not fit the last cache bypasses the caches
 * (streams): a line is then not read before it is written, 1.4 to 1.6 times as fast. Only aligned
 * vectors can; where they are is known at run time. */
#include <stddef.h>

#include "emit_llvm.h"
#include "sat.h"

#define MOST_CONDITIONS 16 /* of a mask that are told apart */
#define WINDOW          32 /* elements that share an address that conditions choose */

#define CACHE_LINE  64                  /* bytes */
#define LAST_CACHE  ((int64_t)32 << 20) /* bytes: what a core sees of it, on most servers */
#define LEAST_SHARE 4 /* an output of less than a quarter of it may well be there for its reader */

/* Outer parts first: what does not change in a loop is added before it. */
static LLVMValueRef element(struct stx__emit *e, const struct stx_kinst *i, LLVMValueRef p,
			    const struct stx__sum *s)
{
	LLVMTypeRef t = stx__mem_type(e, (enum stx_dtype)i->dtype);
	LLVMValueRef c = stx__i64(e, s->constant);
	for (unsigned d = 0; d < STX__DEPTHS; d++)
		if (s->at[d])
			p = LLVMBuildGEP2(e->b, t, p, (LLVMValueRef *)&s->at[d], 1, "");
	return s->constant ? LLVMBuildGEP2(e->b, t, p, &c, 1, "") : p;
}

static LLVMValueRef both(struct stx__emit *e, LLVMValueRef a, LLVMValueRef b)
{
	if (!a || !b)
		return a ? a : b;
	return LLVMBuildAnd(e->b, a, b, "");
}

static LLVMValueRef aligned(LLVMValueRef access, enum stx_dtype t)
{
	LLVMSetAlignment(access, (unsigned)stx_dtype_bytes(t));
	return access;
}

static int has_masked_moves(const struct stx__emit *e, enum stx_dtype t)
{
	return e->t->level >= 4 || (e->t->level == 3 && stx_dtype_bytes(t) >= 4);
}

/* LLVM moves so many known elements one by one, without branches. */
#define MOST_ONE_BY_ONE 8
static int is_few(const struct stx__emit *e)
{
	return LLVMIsAConstantInt(e->rest) && LLVMConstIntGetSExtValue(e->rest) <= MOST_ONE_BY_ONE;
}

/* Copies the first e->rest elements from one array of t to the other. */
static void copy_prefix(struct stx__emit *e, enum stx_dtype t, LLVMValueRef to, LLVMValueRef from)
{
	LLVMTypeRef type = stx__mem_type(e, t);
	struct stx__for f;
	LLVMValueRef i = stx__for_begin(e, &f, stx__i64(e, 0), e->rest, stx__i64(e, 1));
	LLVMValueRef v = LLVMBuildLoad2(e->b, type, LLVMBuildGEP2(e->b, type, from, &i, 1, ""), "");
	LLVMValueRef s =
		LLVMBuildStore(e->b, aligned(v, t), LLVMBuildGEP2(e->b, type, to, &i, 1, ""));
	aligned(s, t);
	stx__for_end(e, &f);
}

static LLVMValueRef buffer(struct stx__emit *e, enum stx_dtype t, unsigned w)
{
	return stx__alloca(e, LLVMVectorType(stx__mem_type(e, t), w), 64);
}

/* ---- loads ---- */

static LLVMValueRef vector_load(struct stx__emit *e, enum stx_dtype t, LLVMValueRef p,
				LLVMValueRef mask, unsigned w)
{
	LLVMTypeRef type = stx__vec(stx__mem_type(e, t), w);
	if (!mask)
		return aligned(LLVMBuildLoad2(e->b, type, p, ""), t);
	LLVMValueRef zero = LLVMConstNull(type);
	if (mask == e->mask && !has_masked_moves(e, t) && !is_few(e)) {
		LLVMValueRef buf = buffer(e, t, w);
		LLVMBuildStore(e->b, zero, buf);
		copy_prefix(e, t, buf, p);
		return LLVMBuildLoad2(e->b, type, buf, "");
	}
	LLVMValueRef args[4] = { p, LLVMConstInt(e->i32, (unsigned)stx_dtype_bytes(t), 0), mask,
				 zero };
	LLVMTypeRef types[2] = { type, e->ptr };
	return stx__call(e, "llvm.masked.load", types, 2, args, 4);
}

static LLVMValueRef lane_pointers(struct stx__emit *e, const struct stx_kinst *i,
				  const struct stx__index *x, unsigned w)
{
	LLVMTypeRef t = stx__mem_type(e, (enum stx_dtype)i->dtype);
	LLVMValueRef lanes = x->lanes;
	LLVMValueRef base = e->params[i->a];
	if (x->kind == STX__STRIDED) {
		base = element(e, i, e->params[i->a], &x->sum);
		lanes = LLVMBuildMul(e->b, stx__splat(e, x->stride, w), stx__iota(e, e->i64, w, 1),
				     "");
	}
	return LLVMBuildGEP2(e->b, t, base, &lanes, 1, "");
}

static LLVMValueRef gather(struct stx__emit *e, const struct stx_kinst *i,
			   const struct stx__index *x, LLVMValueRef mask, unsigned w)
{
	enum stx_dtype t = (enum stx_dtype)i->dtype;
	LLVMTypeRef type = stx__vec(stx__mem_type(e, t), w);
	LLVMValueRef all = stx__int(LLVMVectorType(e->i1, w), 1);
	LLVMValueRef args[4] = { lane_pointers(e, i, x, w),
				 LLVMConstInt(e->i32, (unsigned)stx_dtype_bytes(t), 0),
				 mask ? mask : all, LLVMConstNull(type) };
	LLVMTypeRef types[2] = { type, LLVMVectorType(e->ptr, w) };
	return stx__call(e, "llvm.masked.gather", types, 2, args, 4);
}

/* A uniform element under a mask (scalar or of w lanes): read once when any lane wants it. */
static LLVMValueRef masked_uniform(struct stx__emit *e, enum stx_dtype t, LLVMValueRef p,
				   LLVMValueRef mask, unsigned w)
{
	LLVMTypeRef type = stx__mem_type(e, t);
	p = stx__select(e, stx__any(e, mask, w), p, e->zero_slot);
	LLVMValueRef v = aligned(LLVMBuildLoad2(e->b, type, p, ""), t);
	if (w <= 1)
		return v;
	v = stx__splat(e, v, w);
	return stx__select(e, mask, v, LLVMConstNull(LLVMTypeOf(v)));
}

/* Of part `from` of a run of w lanes by s: the elements of lanes that are on, no others. */
static LLVMValueRef run_mask(struct stx__emit *e, LLVMValueRef mask, unsigned from, unsigned s,
			     int backwards, unsigned w)
{
	LLVMValueRef lane[64];
	for (unsigned j = 0; j < w; j++) {
		unsigned at = from + j, l = backwards ? w - 1 - at / s : at / s;
		lane[j] = LLVMConstInt(e->i32, at % s ? w : l, 0);
	}
	return LLVMBuildShuffleVector(e->b, mask, LLVMConstNull(LLVMTypeOf(mask)),
				      LLVMConstVector(lane, w), "");
}

/* One by one: as fast as whole vectors of which each has one lane (LLVM takes 0.4 s over the shuffles
 * of a window of those). */
static LLVMValueRef lane_loads(struct stx__emit *e, enum stx_dtype t, LLVMValueRef p,
			       int64_t stride, unsigned w)
{
	LLVMTypeRef type = stx__mem_type(e, t);
	LLVMValueRef all = LLVMGetPoison(stx__vec(type, w));
	for (unsigned l = 0; l < w; l++) {
		LLVMValueRef by = stx__i64(e, (int64_t)l * stride);
		LLVMValueRef at = LLVMBuildGEP2(e->b, type, p, &by, 1, "");
		LLVMValueRef v = aligned(LLVMBuildLoad2(e->b, type, at, ""), t);
		all = LLVMBuildInsertElement(e->b, all, v, LLVMConstInt(e->i32, l, 0), "");
	}
	return all;
}

static int is_near(const struct stx__emit *e, enum stx_dtype t, int64_t stride, int masked,
		   unsigned w)
{
	static const uint8_t most[5] = { 0, 0, 2, 4, STX__NEAR };
	int64_t s = stride < 0 ? -stride : stride;
	return s <= most[e->t->level] && s <= w && (!masked || (s < w && has_masked_moves(e, t)));
}

/* Lanes `stride` elements apart, few of them, as whole vectors from the first to the last of them,
 * shuffled. NULL: no such stride, or it would not pay. The last vector ends at the last lane's
 * element, so nothing beyond it is touched. */
static LLVMValueRef near_load(struct stx__emit *e, enum stx_dtype t, LLVMValueRef p, int64_t stride,
			      LLVMValueRef mask, unsigned w)
{
	LLVMTypeRef type = stx__mem_type(e, t);
	int backwards = stride < 0;
	unsigned s = (unsigned)(backwards ? -stride : stride);
	LLVMValueRef all = NULL, lane[64];
	if (!is_near(e, t, stride, mask != NULL, w))
		return NULL;
	if (s == w)
		return lane_loads(e, t, p, stride, w);
	if (backwards) {
		LLVMValueRef first = stx__i64(e, (int64_t)(w - 1) * stride);
		p = LLVMBuildGEP2(e->b, type, p, &first, 1, "");
	}
	for (unsigned k = 0; k < s; k++) {
		unsigned from = k + 1 < s ? k * w : (w - 1) * (s - 1), to = from + w;
		LLVMValueRef by = stx__i64(e, from), part;
		LLVMValueRef m = mask ? run_mask(e, mask, from, s, backwards, w) : NULL;
		part = vector_load(e, t, LLVMBuildGEP2(e->b, type, p, &by, 1, ""), m, w);
		for (unsigned l = 0; l < w; l++) {
			unsigned at = (backwards ? w - 1 - l : l) * s, mine = at >= from && at < to;
			unsigned was = all ? l : 0;
			lane[l] = LLVMConstInt(e->i32, mine ? w + at - from : was, 0);
		}
		all = LLVMBuildShuffleVector(e->b, all ? all : part, part, LLVMConstVector(lane, w),
					     "");
	}
	return all;
}

static LLVMValueRef strided_load(struct stx__emit *e, const struct stx_kinst *i,
				 const struct stx__index *x, LLVMValueRef mask, unsigned w)
{
	LLVMValueRef v = NULL;
	if (LLVMIsAConstantInt(x->stride))
		v = near_load(e, (enum stx_dtype)i->dtype, element(e, i, e->params[i->a], &x->sum),
			      LLVMConstIntGetSExtValue(x->stride), mask, w);
	return v ? v : gather(e, i, x, mask, w);
}

static void prefetch(struct stx__emit *e, LLVMValueRef p, int to_write)
{
	LLVMValueRef args[4] = { p, LLVMConstInt(e->i32, (unsigned)to_write, 0),
				 LLVMConstInt(e->i32, 3, 0), /* into every cache */
				 LLVMConstInt(e->i32, 1, 0) };
	LLVMTypeRef t = e->ptr;
	stx__call(e, "llvm.prefetch", &t, 1, args, 4);
}

void stx__prefetch(struct stx__emit *e, LLVMValueRef p)
{
	prefetch(e, p, 0);
}

void stx__fetch_results(struct stx__emit *e, uint32_t from, uint32_t to, unsigned lanes)
{
	for (uint32_t n = from; n < to; n++) {
		const struct stx_kinst *i = &e->k->insts.at[n];
		if (i->op == STX_K_LOOP)
			n = e->loop[n].end;
		if (i->op != STX_K_STORE || !stx__is_far(e, i->a))
			continue;
		struct stx__index x = stx__ex_index(e, i->ex);
		int64_t bytes =
			(int64_t)lanes * (int64_t)stx_dtype_bytes(e->k->params.at[i->a].dtype);
		if (x.kind != STX__CONTIGUOUS)
			continue;
		LLVMValueRef p = element(e, i, e->params[i->a], &x.sum);
		for (int64_t at = 0; at < bytes; at += CACHE_LINE) {
			LLVMValueRef off = stx__i64(e, at);
			prefetch(e, LLVMBuildGEP2(e->b, e->i8, p, &off, 1, ""), 1);
		}
	}
}

/* What lanes `stride` elements apart read here `by` iterations of the axis later. */
static void fetch_ahead(struct stx__emit *e, const struct stx_kinst *i, uint32_t axis, int64_t by,
			int64_t stride)
{
	LLVMValueRef now = e->axis[axis];
	e->axis[axis] = LLVMBuildAdd(e->b, now, stx__i64(e, by), "");
	struct stx__index x = stx__ex_index(e, i->ex);
	e->axis[axis] = now;
	LLVMValueRef p = element(e, i, e->params[i->a], &x.sum);
	for (int64_t at = 0; at < stride * e->w * stx_dtype_bytes((enum stx_dtype)i->dtype);
	     at += CACHE_LINE) {
		LLVMValueRef off = stx__i64(e, at);
		stx__prefetch(e, LLVMBuildGEP2(e->b, e->i8, p, &off, 1, ""));
	}
}

/* Elements between lanes that are near each other; 0: they are not. */
static int64_t near_stride(const struct stx__index *x)
{
	int64_t s = 1;
	if (x->kind == STX__STRIDED)
		s = LLVMIsAConstantInt(x->stride) ? LLVMConstIntGetSExtValue(x->stride) : 0;
	return x->kind == STX__GATHER || s < 1 || s > STX__NEAR ? 0 : s;
}

static void fetch_far(struct stx__emit *e, const struct stx_kinst *i, const struct stx__index *x,
		      LLVMValueRef mask)
{
	int is_input = !e->k->params.at[i->a].is_written; /* what it keeps there is near */
	int64_t stride = is_input && stx__is_far(e, i->a) ? near_stride(x) : 0;
	stx_ex coeff, rest;
	if (!stride)
		return;
	if (e->in_across && x->kind == STX__CONTIGUOUS && !mask)
		fetch_ahead(e, i, 0, 1, 1);
	if (e->ahead.by > 0 && stx_ex_linear_in(e->k->ex, i->ex, e->ahead.axis, &coeff, &rest))
		fetch_ahead(e, i, e->ahead.axis, e->ahead.by, stride);
}

/* From the buffer; lanes past the end hold anything. */
static LLVMValueRef load_transposed(struct stx__emit *e, const struct stx__across *a, unsigned w)
{
	const struct stx_kinst *i = &e->k->insts.at[a->load];
	LLVMTypeRef type = stx__vec(stx__mem_type(e, (enum stx_dtype)i->dtype), w);
	struct stx__index x = stx__across_index(e, a);
	LLVMValueRef v = LLVMBuildLoad2(e->b, type, element(e, i, a->buffer, &x.sum), "");
	return LLVMBuildFreeze(e->b, aligned(v, (enum stx_dtype)i->dtype), "");
}

/* The conjunction of a mask's conditions: in *uniform of those that all lanes share, NULL: there are
 * none, the rest is returned, NULL likewise. */
static LLVMValueRef split_mask(struct stx__emit *e, uint32_t mask, unsigned w,
			       LLVMValueRef *uniform)
{
	uint32_t open[MOST_CONDITIONS] = { mask }, n = 1;
	LLVMValueRef v = NULL;
	*uniform = NULL;
	while (n) {
		const struct stx_kinst *i = &e->k->insts.at[open[--n]];
		if (i->op == STX_P_AND && i->dtype == STX_BOOL && n + 2 <= MOST_CONDITIONS &&
		    e->varying[open[n]]) {
			uint32_t a = i->a;
			open[n + 1] = i->b;
			open[n] = a;
			n += 2;
		} else if (!e->varying[open[n]]) {
			*uniform = both(e, *uniform, stx__get(e, open[n], 1).v);
		} else {
			v = both(e, v, stx__get(e, open[n], w).v);
		}
	}
	return v;
}

/* Zeros for a vector's lanes, as far apart as near ones are, and for vectors beyond it. */
static LLVMValueRef zeros(struct stx__emit *e)
{
	LLVMTypeRef type = LLVMArrayType2(e->i8, 64 * (STX__NEAR + 1) + 8 * WINDOW);
	LLVMValueRef z = LLVMGetNamedGlobal(e->m, "zeros");
	if (z)
		return z;
	z = LLVMAddGlobal(e->m, type, "zeros");
	LLVMSetInitializer(z, LLVMConstNull(type));
	LLVMSetGlobalConstant(z, 1);
	LLVMSetLinkage(z, LLVMPrivateLinkage);
	LLVMSetUnnamedAddress(z, LLVMGlobalUnnamedAddr);
	LLVMSetAlignment(z, 64);
	return z;
}

/* Lanes of a load that is masked: conditions that all of them share choose where from. A mask of
 * lanes costs an instruction or two a load, an address one for all loads of a row. */
static LLVMValueRef masked_near(struct stx__emit *e, const struct stx_kinst *i,
				const struct stx__index *x, int64_t stride, unsigned w)
{
	enum stx_dtype t = (enum stx_dtype)i->dtype;
	LLVMValueRef uniform, mask = split_mask(e, i->c, w, &uniform);
	struct stx__sum at = x->sum;
	if (uniform) /* an address for all that is read from near it */
		at.constant -= at.constant & (WINDOW - 1);
	LLVMValueRef p = element(e, i, e->params[i->a], &at);
	if (uniform) {
		LLVMValueRef rest = stx__i64(e, x->sum.constant - at.constant);
		p = stx__select(e, uniform, p, zeros(e));
		p = LLVMBuildGEP2(e->b, stx__mem_type(e, t), p, &rest, 1, "");
	}
	mask = both(e, mask, e->mask);
	if (stride == 1)
		return vector_load(e, t, p, mask, w);
	return near_load(e, t, p, stride, mask, w);
}

void stx__emit_load(struct stx__emit *e, uint32_t n)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	enum stx_dtype t = (enum stx_dtype)i->dtype;
	unsigned w = stx__lanes_of(e, n);
	if (e->across[n] && e->in_across) {
		stx__set(e, n, stx__from_memory(e, t, load_transposed(e, e->across[n], w), w));
		return;
	}
	struct stx__index x = stx__ex_index(e, i->ex);
	int64_t near = i->c != STX_NONE && x.kind != STX__UNIFORM ? near_stride(&x) : 0;
	if (near && is_near(e, t, near, 1, w) && !stx__ex_ok(e, i->ex, 0, w)) {
		LLVMValueRef some = stx__get(e, i->c, w).v;
		fetch_far(e, i, &x, some);
		stx__set(e, n, stx__from_memory(e, t, masked_near(e, i, &x, near, w), w));
		return;
	}
	LLVMValueRef v, mask = i->c == STX_NONE ? NULL : stx__get(e, i->c, w).v;
	mask = both(e, mask, stx__ex_ok(e, i->ex, 0, w));
	if (x.kind == STX__UNIFORM) {
		LLVMValueRef p = element(e, i, e->params[i->a], &x.sum);
		if (mask)
			v = masked_uniform(e, t, p, w > 1 ? both(e, mask, e->mask) : mask, w);
		else
			v = stx__splat(
				e, aligned(LLVMBuildLoad2(e->b, stx__mem_type(e, t), p, ""), t), w);
	} else {
		fetch_far(e, i, &x, mask);
		mask = both(e, mask, e->mask);
		if (x.kind == STX__CONTIGUOUS)
			v = vector_load(e, t, element(e, i, e->params[i->a], &x.sum), mask, w);
		else if (x.kind == STX__STRIDED)
			v = strided_load(e, i, &x, mask, w);
		else
			v = gather(e, i, &x, mask, w);
	}
	stx__set(e, n, stx__from_memory(e, t, v, w));
}

/* ---- stores ---- */

/* Bytes of an element of every parameter that a private cache does not hold. */
static unsigned far_bytes(const struct stx__emit *e)
{
	unsigned bytes = 0;
	for (uint32_t i = 0; i < e->k->params.n; i++)
		if (stx__is_far(e, i))
			bytes += (unsigned)stx_dtype_bytes(e->k->params.at[i].dtype);
	return bytes;
}

/* Memory, not arithmetic, takes the time: stores past the caches come one line at a time and are
 * waited for. Measured: 16M exponentials of 40 instructions a vector of 128 bytes in and out lose a
 * tenth, rows of layer norm with 16 gain a third. */
static int waits_for_memory(const struct stx__emit *e)
{
	unsigned cost = 0, w = 0;
	for (uint32_t n = 0; n < e->k->insts.n; n++) {
		const struct stx_kinst *i = &e->k->insts.at[n];
		const struct stx__loop_info *l = &e->loop[n];
		if (i->op != STX_K_LOOP || e->k->axes.at[i->a].binding != STX_AXIS_VECTOR)
			continue;
		if (l->has_loop)
			return 0;
		cost += l->cost < 1000 ? l->cost : 1000;
		w = l->w > w ? l->w : w;
	}
	return 4 * cost <= w * far_bytes(e);
}

/* Bytes of all parameters at most, and in this run (not NULL). */
static int64_t all_bytes(struct stx__emit *e, LLVMValueRef *now)
{
	int64_t most = 0;
	if (now)
		*now = stx__i64(e, 0);
	for (uint32_t i = 0; i < e->k->params.n; i++) {
		const struct stx_kparam *p = &e->k->params.at[i];
		int64_t bytes = (int64_t)stx_dtype_bytes(p->dtype);
		most = stx_sat_add(most,
				   stx_sat_mul(stx_ex_interval(e->k->ex, p->elems).hi, bytes));
		if (now) {
			LLVMValueRef n = stx__ex_scalar(e, p->elems);
			n = LLVMBuildMul(e->b, n, stx__i64(e, bytes), "");
			*now = LLVMBuildAdd(e->b, *now, n, "");
		}
	}
	return most;
}

void stx__find_streams(struct stx__emit *e)
{
	LLVMValueRef all = NULL;
	if (e->tile || all_bytes(e, NULL) < LAST_CACHE || !waits_for_memory(e))
		return;
	for (uint32_t i = 0; i < e->k->params.n; i++) {
		const struct stx_kparam *p = &e->k->params.at[i];
		int64_t least = LAST_CACHE / LEAST_SHARE / (int64_t)stx_dtype_bytes(p->dtype);
		struct stx_interval r = stx_ex_interval(e->k->ex, p->elems);
		if (!p->is_written || p->is_read || r.hi < least)
			continue;
		if (!all)
			all_bytes(e, &all);
		LLVMValueRef big = stx__icmp(e, LLVMIntSGE, all, stx__i64(e, LAST_CACHE));
		e->streams[i] =
			stx__icmp(e, LLVMIntSGE, stx__ex_scalar(e, p->elems), stx__i64(e, least));
		e->streams[i] = LLVMBuildAnd(e->b, e->streams[i], big, "");
		e->has_streams = 1;
	}
}

/* A whole vector to p, past the caches if p is aligned. */
static void streaming_store(struct stx__emit *e, LLVMValueRef streams, enum stx_dtype t,
			    LLVMValueRef p, LLVMValueRef v, unsigned bytes)
{
	LLVMValueRef one = LLVMConstInt(e->i32, 1, 0);
	LLVMValueRef at = LLVMBuildPtrToInt(e->b, p, e->i64, "");
	at = LLVMBuildAnd(e->b, at, stx__i64(e, bytes - 1), "");
	LLVMBasicBlockRef past = stx__block(e, "past"), plain = stx__block(e, "plain");
	LLVMBasicBlockRef after = stx__block(e, "stored");
	LLVMValueRef is_aligned = stx__icmp(e, LLVMIntEQ, at, stx__i64(e, 0));
	LLVMBuildCondBr(e->b, LLVMBuildAnd(e->b, streams, is_aligned, ""), past, plain);
	LLVMPositionBuilderAtEnd(e->b, past);
	LLVMValueRef s = LLVMBuildStore(e->b, v, p);
	LLVMSetAlignment(s, bytes);
	LLVMSetMetadata(s, LLVMGetMDKindIDInContext(e->c, "nontemporal", 11),
			LLVMMDNodeInContext(e->c, &one, 1));
	LLVMBuildBr(e->b, after);
	LLVMPositionBuilderAtEnd(e->b, plain);
	aligned(LLVMBuildStore(e->b, v, p), t);
	LLVMBuildBr(e->b, after);
	LLVMPositionBuilderAtEnd(e->b, after);
}

static void vector_store(struct stx__emit *e, enum stx_dtype t, LLVMValueRef streams,
			 LLVMValueRef p, LLVMValueRef v, LLVMValueRef mask, unsigned w)
{
	unsigned bytes = w * (unsigned)stx_dtype_bytes(t);
	if (!mask && streams && bytes >= 16) {
		streaming_store(e, streams, t, p, v, bytes);
	} else if (!mask) {
		aligned(LLVMBuildStore(e->b, v, p), t);
	} else if (mask == e->mask && !has_masked_moves(e, t) && !is_few(e)) {
		LLVMValueRef buf = buffer(e, t, w);
		LLVMBuildStore(e->b, v, buf);
		copy_prefix(e, t, p, buf);
	} else {
		LLVMValueRef args[4] = { v, p,
					 LLVMConstInt(e->i32, (unsigned)stx_dtype_bytes(t), 0),
					 mask };
		LLVMTypeRef types[2] = { LLVMTypeOf(v), e->ptr };
		stx__call(e, "llvm.masked.store", types, 2, args, 4);
	}
}

static void scatter(struct stx__emit *e, const struct stx_kinst *i, const struct stx__index *x,
		    LLVMValueRef v, LLVMValueRef mask, unsigned w)
{
	LLVMValueRef all = stx__int(LLVMVectorType(e->i1, w), 1);
	unsigned bytes = (unsigned)stx_dtype_bytes((enum stx_dtype)i->dtype);
	LLVMValueRef args[4] = { v, lane_pointers(e, i, x, w), LLVMConstInt(e->i32, bytes, 0),
				 mask ? mask : all };
	LLVMTypeRef types[2] = { LLVMTypeOf(v), LLVMVectorType(e->ptr, w) };
	stx__call(e, "llvm.masked.scatter", types, 2, args, 4);
}

/* One element for all lanes: lanes that are on hold equal values (kernel.h), so the first one
 * stores. */
static void store_uniform(struct stx__emit *e, enum stx_dtype t, LLVMValueRef p, struct stx__val v,
			  LLVMValueRef mask, unsigned w)
{
	LLVMValueRef m = stx__to_memory(e, t, v, w);
	if (mask)
		p = stx__select(e, stx__any(e, mask, w), p, e->scratch_slot);
	if (w > 1) {
		LLVMValueRef lane = LLVMConstInt(e->i32, 0, 0);
		if (mask) { /* the highest bit stops the count inside the vector */
			LLVMTypeRef bits = LLVMIntTypeInContext(e->c, w);
			LLVMValueRef b = LLVMBuildBitCast(e->b, mask, bits, "");
			b = LLVMBuildOr(e->b, b, LLVMConstInt(bits, (uint64_t)1 << (w - 1), 0), "");
			LLVMValueRef args[2] = { b, LLVMConstInt(e->i1, 1, 0) };
			lane = stx__call(e, "llvm.cttz", &bits, 1, args, 2);
		}
		m = LLVMBuildExtractElement(e->b, m, lane, "");
	}
	aligned(LLVMBuildStore(e->b, m, p), t);
}

void stx__emit_store(struct stx__emit *e, uint32_t n)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	enum stx_dtype t = (enum stx_dtype)i->dtype;
	unsigned w = stx__lanes_of(e, n);
	struct stx__index x = stx__ex_index(e, i->ex);
	LLVMValueRef mask = i->c == STX_NONE ? NULL : stx__get(e, i->c, w).v;
	mask = both(e, mask, stx__ex_ok(e, i->ex, 1, w));
	if (w > 1)
		mask = both(e, mask, e->mask);
	struct stx__val v = stx__get(e, i->b, w);
	if (x.kind == STX__UNIFORM) {
		store_uniform(e, t, element(e, i, e->params[i->a], &x.sum), v, mask, w);
		return;
	}
	LLVMValueRef m = stx__to_memory(e, t, v, w);
	if (x.kind == STX__CONTIGUOUS)
		vector_store(e, t, e->streams[i->a], element(e, i, e->params[i->a], &x.sum), m,
			     mask, w);
	else
		scatter(e, i, &x, m, mask, w);
}

/* ---- run-time indices ---- */

static void store_field(struct stx__emit *e, size_t offset, LLVMValueRef v)
{
	LLVMValueRef at = stx__i64(e, (int64_t)offset);
	LLVMBuildStore(e->b, v, LLVMBuildGEP2(e->b, e->i8, e->bounds, &at, 1, ""));
}

/* Cold: the first violation of the run wins the record. `kernel` is left to who launched the
 * kernel. */
static void record(struct stx__emit *e, const struct stx_kinst *i, LLVMValueRef bad,
		   LLVMValueRef index, LLVMValueRef bound, unsigned w)
{
	LLVMBasicBlockRef after = stx__if_begin(e, stx__any(e, bad, w));
	if (w > 1) {
		LLVMTypeRef bits = LLVMIntTypeInContext(e->c, w);
		LLVMValueRef args[2] = { LLVMBuildBitCast(e->b, bad, bits, ""),
					 LLVMConstInt(e->i1, 1, 0) };
		LLVMValueRef lane = stx__call(e, "llvm.cttz", &bits, 1, args, 2);
		index = LLVMBuildExtractElement(e->b, index, lane, "");
		bound = LLVMBuildExtractElement(e->b, bound, lane, "");
	}
	LLVMValueRef zero = LLVMConstInt(e->i32, 0, 0), one = LLVMConstInt(e->i32, 1, 0);
	LLVMValueRef x =
		LLVMBuildAtomicCmpXchg(e->b, e->bounds, zero, one, LLVMAtomicOrderingAcquireRelease,
				       LLVMAtomicOrderingMonotonic, 0);
	LLVMBasicBlockRef done = stx__if_begin(e, LLVMBuildExtractValue(e->b, x, 1, ""));
	store_field(e, offsetof(struct stx_bounds_record, axis), LLVMConstInt(e->i32, i->axis, 0));
	store_field(e, offsetof(struct stx_bounds_record, index), index);
	store_field(e, offsetof(struct stx_bounds_record, bound), bound);
	stx__if_end(e, done);
	stx__if_end(e, after);
}

void stx__emit_indirect(struct stx__emit *e, uint32_t n)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	unsigned w = stx__lanes_of(e, n);
	LLVMValueRef given = stx__get(e, i->a, w).v, v = given, bound, ok, bad;
	LLVMTypeRef t = LLVMTypeOf(v);
	LLVMValueRef mask = i->c == STX_NONE ? NULL : stx__get(e, i->c, w).v;
	if (stx__ex_varies(e, i->ex)) {
		bound = stx__ex_lanes(e, i->ex);
		bound = LLVMBuildSExt(e->b, bound, t, "");
	} else {
		bound = stx__splat(e, stx__ex_scalar(e, i->ex), w);
	}
	if (i->flags & STX_BF_WRAP) {
		LLVMValueRef up = LLVMBuildAdd(e->b, v, bound, "");
		v = stx__select(e, stx__icmp(e, LLVMIntSLT, v, stx__int(t, 0)), up, v);
	}
	e->ok[(size_t)n * e->stride + (e->varying[n] ? e->copy : 0)] = NULL;
	if (i->flags & STX_BF_CHECK) {
		ok = stx__icmp(e, LLVMIntULT, v, bound);
		bad = both(e, LLVMBuildNot(e->b, ok, ""), mask);
		if (w > 1)
			bad = both(e, bad, e->mask);
		record(e, i, bad, given, bound, w);
		v = stx__select(e, ok, v, stx__int(t, 0));
		e->ok[(size_t)n * e->stride + (e->varying[n] ? e->copy : 0)] = ok;
	}
	if (mask)
		v = stx__select(e, mask, v, stx__int(t, 0));
	stx__set(e, n, (struct stx__val){ v, NULL });
}

/* ---- index values ---- */

/* Through i64: a vector of 32 bits is used only when its values are the same. */
void stx__emit_index(struct stx__emit *e, uint32_t n)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	unsigned w = stx__lanes_of(e, n);
	LLVMValueRef v = w > 1 ? stx__ex_lanes(e, i->ex) : stx__ex_scalar(e, i->ex);
	LLVMTypeRef t = w > 1 ? LLVMGetElementType(LLVMTypeOf(v)) : e->i64;
	enum stx_dtype from = t == e->i32 ? STX_I32 : STX_I64;
	struct stx__val x = { v, NULL };
	stx__set(e, n, stx__cast(e, (enum stx_dtype)i->dtype, from, x, w));
}
