/* emit_llvm_sort.c: STX_K_SORT as a private function of the kernel's module: runs of 16 by
 * insertion, then merged pairwise, from the first half of both parameters to the second and back.
 *
 * Stable, because a run's element moves only past greater ones and a merge takes the left run's on
 * equal keys; integer keys, so every level gives the same bits. The merge has no branch that
 * depends on the data. No recursion; n log n comparisons. */
#include "emit_llvm.h"

#define RUN 16

/* What the function is built from: its arguments, and where the pairs are now. */
struct sorting {
	struct stx__emit *e;
	LLVMTypeRef key;
	LLVMValueRef n;
	LLVMValueRef keys, values;          /* first halves */
	LLVMValueRef from[2], to[2], width; /* allocas: pointers to keys and values; i64 */
};

static LLVMValueRef at(const struct sorting *s, LLVMTypeRef t, LLVMValueRef base, LLVMValueRef i)
{
	return LLVMBuildGEP2(s->e->b, t, base, &i, 1, "");
}

static LLVMValueRef load(const struct sorting *s, LLVMTypeRef t, LLVMValueRef base, LLVMValueRef i)
{
	return LLVMBuildLoad2(s->e->b, t, at(s, t, base, i), "");
}

static void store(const struct sorting *s, LLVMTypeRef t, LLVMValueRef v, LLVMValueRef base,
		  LLVMValueRef i)
{
	LLVMBuildStore(s->e->b, v, at(s, t, base, i));
}

static LLVMValueRef least(const struct sorting *s, LLVMValueRef a, LLVMValueRef b)
{
	return stx__select(s->e, stx__icmp(s->e, LLVMIntSLT, a, b), a, b);
}

static LLVMValueRef plus(const struct sorting *s, LLVMValueRef a, int64_t k)
{
	return LLVMBuildAdd(s->e->b, a, stx__i64(s->e, k), "");
}

/* Element i to its place among the sorted ones in [begin, i). */
static void insert(const struct sorting *s, LLVMValueRef begin, LLVMValueRef i)
{
	struct stx__emit *e = s->e;
	LLVMValueRef key = load(s, s->key, s->keys, i), value = load(s, e->i32, s->values, i);
	LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), head = stx__block(e, "insert");
	LLVMBasicBlockRef test = stx__block(e, "insert.test"),
			  shift = stx__block(e, "insert.shift");
	LLVMBasicBlockRef done = stx__block(e, "insert.done");
	LLVMBuildBr(e->b, head);
	LLVMPositionBuilderAtEnd(e->b, head);
	LLVMValueRef j = LLVMBuildPhi(e->b, e->i64, "");
	LLVMBuildCondBr(e->b, stx__icmp(e, LLVMIntSGT, j, begin), test, done);
	LLVMPositionBuilderAtEnd(e->b, test);
	LLVMValueRef back = plus(s, j, -1), k = load(s, s->key, s->keys, back);
	LLVMBuildCondBr(e->b, stx__icmp(e, LLVMIntUGT, k, key), shift, done);
	LLVMPositionBuilderAtEnd(e->b, shift);
	store(s, s->key, k, s->keys, j);
	store(s, e->i32, load(s, e->i32, s->values, back), s->values, j);
	LLVMBuildBr(e->b, head);
	LLVMAddIncoming(j, (LLVMValueRef[]){ i, back }, (LLVMBasicBlockRef[]){ before, shift }, 2);
	LLVMPositionBuilderAtEnd(e->b, done);
	store(s, s->key, key, s->keys, j);
	store(s, e->i32, value, s->values, j);
}

static void sort_runs(const struct sorting *s)
{
	struct stx__emit *e = s->e;
	struct stx__for runs, elements;
	LLVMValueRef begin = stx__for_begin(e, &runs, stx__i64(e, 0), s->n, stx__i64(e, RUN));
	LLVMValueRef end = least(s, plus(s, begin, RUN), s->n);
	LLVMValueRef i = stx__for_begin(e, &elements, plus(s, begin, 1), end, stx__i64(e, 1));
	insert(s, begin, i);
	stx__for_end(e, &elements);
	stx__for_end(e, &runs);
}

/* Runs [begin, middle) and [middle, end) of `from` to [begin, end) of `to`. An index past its run
 * is read, and not used, at the last element. */
static void merge(const struct sorting *s, LLVMValueRef begin, LLVMValueRef middle,
		  LLVMValueRef end)
{
	struct stx__emit *e = s->e;
	LLVMValueRef p[2], q[2], last = plus(s, s->n, -1);
	LLVMValueRef left = stx__alloca(e, e->i64, 8), right = stx__alloca(e, e->i64, 8);
	struct stx__for f;
	for (int j = 0; j < 2; j++) {
		p[j] = LLVMBuildLoad2(e->b, e->ptr, s->from[j], "");
		q[j] = LLVMBuildLoad2(e->b, e->ptr, s->to[j], "");
	}
	LLVMBuildStore(e->b, begin, left);
	LLVMBuildStore(e->b, middle, right);
	LLVMValueRef k = stx__for_begin(e, &f, begin, end, stx__i64(e, 1));
	LLVMValueRef i = LLVMBuildLoad2(e->b, e->i64, left, "");
	LLVMValueRef j = LLVMBuildLoad2(e->b, e->i64, right, "");
	LLVMValueRef a = load(s, s->key, p[0], least(s, i, last));
	LLVMValueRef b = load(s, s->key, p[0], least(s, j, last));
	LLVMValueRef take = LLVMBuildOr(e->b, stx__icmp(e, LLVMIntSGE, j, end),
					stx__icmp(e, LLVMIntULE, a, b), "");
	take = LLVMBuildAnd(e->b, take, stx__icmp(e, LLVMIntSLT, i, middle), "");
	store(s, s->key, stx__select(e, take, a, b), q[0], k);
	store(s, e->i32, load(s, e->i32, p[1], stx__select(e, take, i, j)), q[1], k);
	LLVMValueRef step = LLVMBuildZExt(e->b, take, e->i64, "");
	LLVMBuildStore(e->b, LLVMBuildAdd(e->b, i, step, ""), left);
	step = LLVMBuildSub(e->b, stx__i64(e, 1), step, "");
	LLVMBuildStore(e->b, LLVMBuildAdd(e->b, j, step, ""), right);
	stx__for_end(e, &f);
}

/* One pass over all runs of the present width; then `to` is `from`. */
static void merge_all(const struct sorting *s)
{
	struct stx__emit *e = s->e;
	struct stx__for f;
	LLVMValueRef w = LLVMBuildLoad2(e->b, e->i64, s->width, "");
	LLVMValueRef twice = LLVMBuildShl(e->b, w, stx__i64(e, 1), "");
	LLVMValueRef begin = stx__for_begin(e, &f, stx__i64(e, 0), s->n, twice);
	merge(s, begin, least(s, LLVMBuildAdd(e->b, begin, w, ""), s->n),
	      least(s, LLVMBuildAdd(e->b, begin, twice, ""), s->n));
	stx__for_end(e, &f);
	for (int j = 0; j < 2; j++) {
		LLVMValueRef p = LLVMBuildLoad2(e->b, e->ptr, s->from[j], "");
		LLVMBuildStore(e->b, LLVMBuildLoad2(e->b, e->ptr, s->to[j], ""), s->from[j]);
		LLVMBuildStore(e->b, p, s->to[j]);
	}
	LLVMBuildStore(e->b, twice, s->width);
}

static void merge_runs(const struct sorting *s)
{
	struct stx__emit *e = s->e;
	LLVMBasicBlockRef head = stx__block(e, "pass"), body = stx__block(e, "pass.body");
	LLVMBasicBlockRef after = stx__block(e, "pass.end");
	LLVMBuildBr(e->b, head);
	LLVMPositionBuilderAtEnd(e->b, head);
	LLVMValueRef w = LLVMBuildLoad2(e->b, e->i64, s->width, "");
	LLVMBuildCondBr(e->b, stx__icmp(e, LLVMIntSLT, w, s->n), body, after);
	LLVMPositionBuilderAtEnd(e->b, body);
	merge_all(s);
	LLVMBuildBr(e->b, head);
	LLVMPositionBuilderAtEnd(e->b, after);
}

/* When the last pass has written the second halves. */
static void copy_back(const struct sorting *s)
{
	struct stx__emit *e = s->e;
	struct stx__for f;
	LLVMValueRef keys = LLVMBuildLoad2(e->b, e->ptr, s->from[0], "");
	LLVMValueRef values = LLVMBuildLoad2(e->b, e->ptr, s->from[1], "");
	LLVMBasicBlockRef done =
		stx__if_begin(e, LLVMBuildICmp(e->b, LLVMIntNE, keys, s->keys, ""));
	LLVMValueRef i = stx__for_begin(e, &f, stx__i64(e, 0), s->n, stx__i64(e, 1));
	store(s, s->key, load(s, s->key, keys, i), s->keys, i);
	store(s, e->i32, load(s, e->i32, values, i), s->values, i);
	stx__for_end(e, &f);
	stx__if_end(e, done);
}

static void build_body(struct stx__emit *e, LLVMTypeRef key)
{
	struct sorting s = { .e = e,
			     .key = key,
			     .keys = LLVMGetParam(e->fn, 0),
			     .values = LLVMGetParam(e->fn, 1),
			     .n = LLVMGetParam(e->fn, 2) };
	for (int j = 0; j < 2; j++) {
		s.from[j] = stx__alloca(e, e->ptr, 8);
		s.to[j] = stx__alloca(e, e->ptr, 8);
	}
	s.width = stx__alloca(e, e->i64, 8);
	LLVMBuildStore(e->b, s.keys, s.from[0]);
	LLVMBuildStore(e->b, s.values, s.from[1]);
	LLVMBuildStore(e->b, at(&s, key, s.keys, s.n), s.to[0]);
	LLVMBuildStore(e->b, at(&s, e->i32, s.values, s.n), s.to[1]);
	LLVMBuildStore(e->b, stx__i64(e, RUN), s.width);
	sort_runs(&s);
	merge_runs(&s);
	copy_back(&s);
	LLVMBuildRetVoid(e->b);
}

/* void sort_N(keys, values, n), once a module and key type. */
static LLVMValueRef sort_function(struct stx__emit *e, enum stx_dtype t, LLVMTypeRef *type)
{
	const char *name = t == STX_U64 ? "sort_64" : "sort_32";
	LLVMTypeRef args[3] = { e->ptr, e->ptr, e->i64 };
	LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b), entry = e->entry;
	LLVMValueRef fn = LLVMGetNamedFunction(e->m, name), outer = e->fn;
	*type = LLVMFunctionType(LLVMVoidTypeInContext(e->c), args, 3, 0);
	if (fn)
		return fn;
	e->fn = fn = LLVMAddFunction(e->m, name, *type);
	LLVMSetLinkage(fn, LLVMPrivateLinkage);
	LLVMAddAttributeAtIndex(
		fn, LLVMAttributeFunctionIndex,
		LLVMCreateEnumAttribute(e->c, LLVMGetEnumAttributeKindForName("nounwind", 8), 0));
	e->entry = stx__block(e, "entry");
	LLVMBasicBlockRef start = stx__block(e, "start");
	LLVMPositionBuilderAtEnd(e->b, e->entry);
	LLVMBuildBr(e->b, start);
	LLVMPositionBuilderAtEnd(e->b, start);
	build_body(e, stx__type(e, t));
	e->fn = outer;
	e->entry = entry;
	LLVMPositionBuilderAtEnd(e->b, here);
	return fn;
}

void stx__emit_sort(struct stx__emit *e, uint32_t n)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	enum stx_dtype t = (enum stx_dtype)i->dtype;
	stx_ex n_ex = e->k->axes.at[i->c].size;
	LLVMTypeRef type;
	LLVMValueRef first = stx__ex_scalar(e, i->ex);
	LLVMValueRef args[4] = { LLVMBuildGEP2(e->b, stx__type(e, t), e->params[i->a], &first, 1,
					       ""),
				 LLVMBuildGEP2(e->b, e->i32, e->params[i->b], &first, 1, ""),
				 stx__ex_scalar(e, n_ex), stx__i64(e, i->k.i) };
	if (i->k.i) {
		stx__emit_select(e, t, args, stx_ex_interval(e->k->ex, n_ex).hi, i->k.i);
		return;
	}
	LLVMValueRef fn = sort_function(e, t, &type);
	LLVMBuildCall2(e->b, type, fn, args, 3, "");
}
