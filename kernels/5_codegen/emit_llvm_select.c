/* emit_llvm_select.c: STX_K_SORT of which the first `count` pairs are wanted, count being small.
 *
 * A short row of 32-bit keys is passed over count times for the least pair (key, place) above the one
 * before, eight pairs a vector. Else one pass over the row keeps the best so far, sorted, in the second
 * halves: a vector of keys is compared with the last of them, and only a smaller one is inserted, so of
 * elements in random order some count * log(n / count) are. Stable: places tell equal keys apart in the
 * first, and in the second a later key is not smaller than an equal one. Integer keys, so every level
 * gives the same bits. No recursion; at most n * count steps. */
#include "emit_llvm.h"

#define SHORT_ROW 1024 /* elements, and */
#define FEW       8    /* pairs: passes of both are as long as one with insertions */
#define WORDS     8    /* pairs a vector */

struct selecting {
	struct stx__emit *e;
	LLVMTypeRef key;
	LLVMValueRef keys, values, n, count; /* arguments */
	LLVMValueRef best, places;           /* second halves */
	unsigned bytes;                      /* of a key */
};

static LLVMValueRef at(const struct selecting *s, LLVMTypeRef t, LLVMValueRef base, LLVMValueRef i)
{
	return LLVMBuildGEP2(s->e->b, t, base, &i, 1, "");
}

static LLVMValueRef load(const struct selecting *s, LLVMTypeRef t, LLVMValueRef base,
			 LLVMValueRef i)
{
	return LLVMBuildLoad2(s->e->b, t, at(s, t, base, i), "");
}

static void store(const struct selecting *s, LLVMTypeRef t, LLVMValueRef v, LLVMValueRef base,
		  LLVMValueRef i)
{
	LLVMBuildStore(s->e->b, v, at(s, t, base, i));
}

static LLVMValueRef plus(const struct selecting *s, LLVMValueRef a, int64_t k)
{
	return LLVMBuildAdd(s->e->b, a, stx__i64(s->e, k), "");
}

static void copy_to_front(const struct selecting *s)
{
	struct stx__for f;
	LLVMValueRef i = stx__for_begin(s->e, &f, stx__i64(s->e, 0), s->count, stx__i64(s->e, 1));
	store(s, s->key, load(s, s->key, s->best, i), s->keys, i);
	store(s, s->e->i32, load(s, s->e->i32, s->places, i), s->values, i);
	stx__for_end(s->e, &f);
}

/* ---- passes for the least pair ---- */

/* Keys from i on, w of them, each above its place: as one word each. */
static LLVMValueRef words(const struct selecting *s, LLVMValueRef i, unsigned w)
{
	struct stx__emit *e = s->e;
	LLVMValueRef k = LLVMBuildLoad2(e->b, stx__vec(e->i32, w), at(s, s->key, s->keys, i), "");
	LLVMSetAlignment(k, 4);
	k = LLVMBuildZExt(e->b, k, stx__vec(e->i64, w), "");
	k = LLVMBuildShl(e->b, k, stx__int(stx__vec(e->i64, w), 32), "");
	LLVMValueRef place = stx__splat(e, i, w);
	if (w > 1)
		place = LLVMBuildAdd(e->b, place, stx__iota(e, e->i64, w, 1), "");
	return LLVMBuildOr(e->b, k, place, "");
}

/* The smaller of `least` and those words that are not below `from`. */
static LLVMValueRef least_of(const struct selecting *s, LLVMValueRef least, LLVMValueRef word,
			     LLVMValueRef from, unsigned w)
{
	struct stx__emit *e = s->e;
	LLVMTypeRef t = stx__vec(e->i64, w);
	LLVMValueRef is_left = stx__icmp(e, LLVMIntUGE, word, stx__splat(e, from, w));
	word = stx__select(e, is_left, word, stx__int(t, UINT64_MAX));
	return stx__call(e, "llvm.umin", &t, 1, (LLVMValueRef[]){ least, word }, 2);
}

/* Words of iterations [begin, end), w at a time, into the alloca. */
static void pass(const struct selecting *s, LLVMValueRef begin, LLVMValueRef end, LLVMValueRef from,
		 unsigned w, LLVMValueRef least)
{
	struct stx__emit *e = s->e;
	struct stx__for f;
	LLVMTypeRef t = stx__vec(e->i64, w);
	LLVMValueRef i = stx__for_begin(e, &f, begin, end, stx__i64(e, w));
	LLVMValueRef so_far = LLVMBuildLoad2(e->b, t, least, "");
	LLVMBuildStore(e->b, least_of(s, so_far, words(s, i, w), from, w), least);
	stx__for_end(e, &f);
}

static void select_by_passes(const struct selecting *s)
{
	struct stx__emit *e = s->e;
	struct stx__for f;
	LLVMTypeRef t = stx__vec(e->i64, WORDS);
	LLVMValueRef all = stx__int(t, UINT64_MAX), zero = stx__i64(e, 0);
	LLVMValueRef lanes = stx__alloca(e, t, 64), least = stx__alloca(e, e->i64, 8);
	LLVMValueRef from = stx__alloca(e, e->i64, 8);
	LLVMValueRef whole = LLVMBuildAnd(e->b, s->n, stx__i64(e, -WORDS), "");
	LLVMBuildStore(e->b, zero, from);
	LLVMValueRef k = stx__for_begin(e, &f, zero, s->count, stx__i64(e, 1));
	LLVMValueRef above = LLVMBuildLoad2(e->b, e->i64, from, "");
	LLVMBuildStore(e->b, all, lanes);
	pass(s, zero, whole, above, WORDS, lanes);
	LLVMValueRef v = LLVMBuildLoad2(e->b, t, lanes, "");
	LLVMBuildStore(e->b, stx__call(e, "llvm.vector.reduce.umin", &t, 1, &v, 1), least);
	pass(s, whole, s->n, above, 1, least);
	v = LLVMBuildLoad2(e->b, e->i64, least, "");
	LLVMValueRef place = LLVMBuildAnd(e->b, v, stx__i64(e, UINT32_MAX), "");
	LLVMValueRef key = LLVMBuildLShr(e->b, v, stx__i64(e, 32), "");
	store(s, s->key, LLVMBuildTrunc(e->b, key, s->key, ""), s->best, k);
	store(s, e->i32, load(s, e->i32, s->values, place), s->places, k);
	LLVMBuildStore(e->b, plus(s, v, 1), from);
	stx__for_end(e, &f);
}

/* ---- one pass with insertions ---- */

/* Pair i of the row among the best, of which there are m, sorted; place m may be overwritten. */
static void insert(const struct selecting *s, LLVMValueRef i, LLVMValueRef m)
{
	struct stx__emit *e = s->e;
	LLVMValueRef key = load(s, s->key, s->keys, i), value = load(s, e->i32, s->values, i);
	LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), head = stx__block(e, "insert");
	LLVMBasicBlockRef test = stx__block(e, "insert.test");
	LLVMBasicBlockRef shift = stx__block(e, "insert.shift"),
			  done = stx__block(e, "insert.done");
	LLVMBuildBr(e->b, head);
	LLVMPositionBuilderAtEnd(e->b, head);
	LLVMValueRef j = LLVMBuildPhi(e->b, e->i64, "");
	LLVMBuildCondBr(e->b, stx__icmp(e, LLVMIntSGT, j, stx__i64(e, 0)), test, done);
	LLVMPositionBuilderAtEnd(e->b, test);
	LLVMValueRef back = plus(s, j, -1), k = load(s, s->key, s->best, back);
	LLVMBuildCondBr(e->b, stx__icmp(e, LLVMIntUGT, k, key), shift, done);
	LLVMPositionBuilderAtEnd(e->b, shift);
	store(s, s->key, k, s->best, j);
	store(s, e->i32, load(s, e->i32, s->places, back), s->places, j);
	LLVMBuildBr(e->b, head);
	LLVMAddIncoming(j, (LLVMValueRef[]){ m, back }, (LLVMBasicBlockRef[]){ before, shift }, 2);
	LLVMPositionBuilderAtEnd(e->b, done);
	store(s, s->key, key, s->best, j);
	store(s, e->i32, value, s->places, j);
}

/* Pair i, if its key is smaller than the last of the best. */
static void offer(const struct selecting *s, LLVMValueRef i)
{
	struct stx__emit *e = s->e;
	LLVMValueRef last = plus(s, s->count, -1);
	LLVMValueRef worst = load(s, s->key, s->best, last);
	LLVMValueRef better = stx__icmp(e, LLVMIntULT, load(s, s->key, s->keys, i), worst);
	LLVMBasicBlockRef after = stx__if_begin(e, better);
	insert(s, i, last);
	stx__if_end(e, after);
}

/* The keys from i on, w of them, some of which may be smaller. */
static void offer_vector(const struct selecting *s, LLVMValueRef i, unsigned w)
{
	struct stx__emit *e = s->e;
	LLVMTypeRef t = stx__vec(s->key, w);
	LLVMValueRef worst = load(s, s->key, s->best, plus(s, s->count, -1));
	LLVMValueRef k = LLVMBuildLoad2(e->b, t, at(s, s->key, s->keys, i), "");
	LLVMSetAlignment(k, s->bytes);
	LLVMValueRef smaller = stx__icmp(e, LLVMIntULT, k, stx__splat(e, worst, w));
	LLVMBasicBlockRef after = stx__if_begin(e, stx__any(e, smaller, w));
	struct stx__for f;
	LLVMValueRef j = stx__for_begin(e, &f, i, plus(s, i, w), stx__i64(e, 1));
	offer(s, j);
	stx__for_end(e, &f);
	stx__if_end(e, after);
}

static void select_by_insertion(const struct selecting *s)
{
	struct stx__emit *e = s->e;
	struct stx__for f;
	unsigned w = e->t->vector_bytes / s->bytes;
	LLVMValueRef one = stx__i64(e, 1), rest = LLVMBuildSub(e->b, s->n, s->count, "");
	rest = LLVMBuildAnd(e->b, rest, stx__i64(e, -(int64_t)w), "");
	LLVMValueRef middle = LLVMBuildAdd(e->b, s->count, rest, "");
	LLVMValueRef i = stx__for_begin(e, &f, stx__i64(e, 0), s->count, one);
	insert(s, i, i);
	stx__for_end(e, &f);
	i = stx__for_begin(e, &f, s->count, middle, stx__i64(e, w));
	offer_vector(s, i, w);
	stx__for_end(e, &f);
	i = stx__for_begin(e, &f, middle, s->n, one);
	offer(s, i);
	stx__for_end(e, &f);
}

void stx__emit_select(struct stx__emit *e, enum stx_dtype t, const LLVMValueRef args[4], int64_t n,
		      int64_t count)
{
	struct selecting s = { .e = e,
			       .key = stx__type(e, t),
			       .keys = args[0],
			       .values = args[1],
			       .n = args[2],
			       .count = args[3],
			       .bytes = (unsigned)stx_dtype_bytes(t) };
	s.best = at(&s, s.key, s.keys, s.n);
	s.places = at(&s, e->i32, s.values, s.n);
	if (t == STX_U32 && n <= SHORT_ROW && count <= FEW)
		select_by_passes(&s);
	else
		select_by_insertion(&s);
	copy_to_front(&s);
}
