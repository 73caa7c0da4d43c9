/* emit_llvm_attend.c: attention: one pass over the keys, a skeleton whose holes are the kernel's own
 * code (query, key, value, score, epilogue).
 *
 * A kernel of this form (4_schedule/kernel_axes_attend.c makes it, kernel.h says what it means)
 *
 *	loop rows { loop cols (vector) { acc attend; loop keys { acc dot plain; loop terms {
 *	update query, key }; result; score; update score, value }; result; epilogue; stores } }
 *
 * is emitted with the queries as lanes: everything is transposed, so that neither keys nor values
 * are, and maxima and sums over keys are plain vector code:
 *
 *	for each panel of rows: its queries side by side; m = -inf, l = 0, o = 0
 *	for each 64 keys { pack keys, values; for each panel {
 *	  s[key][row] = sum of key[key][term] * query[term][row]      in registers
 *	  s = score(s), t = max(m, s); w = exp(m - t); l *= w
 *	  s = exp(s - t); l += s
 *	  o[col][row] = o[col][row] * w[row] + sum of value[key][col] * s[key][row] } }
 *	for each panel: o / l, transposed; the epilogue, row by row
 *
 * A block of keys whose scores all are -inf, by comparisons of positions (a causal mask), changes
 * nothing but for values that are not finite (0 * inf), so in strict it is left out where these are
 * finite. The maximum passes over NaN: its exponential makes the row NaN all the same. */
#include <math.h>

#include "emit_llvm_blocks.h"

/* ---- small pieces ---- */

static LLVMTypeRef scalar(struct stx__emit *e)
{
	return stx__type(e, e->attend->dtype);
}

static LLVMTypeRef vector(struct stx__emit *e)
{
	return stx__vec(scalar(e), e->attend->w);
}

static unsigned whole(const struct stx__emit *e) /* alignment of a vector */
{
	return e->attend->w * e->attend->bytes;
}

static LLVMValueRef beyond(struct stx__emit *e, LLVMValueRef p, LLVMValueRef i)
{
	return LLVMBuildGEP2(e->b, scalar(e), p, &i, 1, "");
}

static LLVMValueRef ahead(struct stx__emit *e, LLVMValueRef p, int64_t i)
{
	return i ? beyond(e, p, stx__i64(e, i)) : p;
}

/* Element i of what begins at byte `at` of the scratch. */
static LLVMValueRef place(struct stx__emit *e, int64_t at, LLVMValueRef i)
{
	LLVMValueRef off = stx__i64(e, at);
	return beyond(e, LLVMBuildGEP2(e->b, e->i8, e->scratch, &off, 1, ""), i);
}

static LLVMValueRef get(struct stx__emit *e, LLVMValueRef p)
{
	return load(e, vector(e), p, whole(e));
}

static void put(struct stx__emit *e, LLVMValueRef v, LLVMValueRef p)
{
	store(e, v, p, whole(e));
}

/* Where the block's elements of a transposed load stand: [key][row of the panel]. */
static LLVMValueRef mask_place(struct stx__emit *e, uint32_t n, LLVMValueRef key, LLVMValueRef row)
{
	struct stx__attend *t = e->attend;
	LLVMValueRef at = add(e, times(e, key, t->panel), row);
	return place(
		e, t->masks + (int64_t)(t->across[n] - 1) * STX_ATTEND_BLOCK * t->panel * t->bytes,
		at);
}

/* Load n of a score, from its transposed copy. */
static void give(struct stx__emit *e, uint32_t n)
{
	struct stx__attend *t = e->attend;
	enum stx_dtype d = (enum stx_dtype)e->k->insts.at[n].dtype;
	LLVMValueRef row = LLVMBuildSub(e->b, e->axis[e->k->insts.at[t->rows].a], t->row0, "");
	LLVMValueRef key = LLVMBuildSub(e->b, e->axis[e->k->insts.at[t->keys].a], t->key0, "");
	struct stx__val v = { get(e, mask_place(e, n, key, row)), NULL };
	if (d == STX_BOOL)
		v.v = LLVMBuildFCmp(e->b, LLVMRealONE, v.v, LLVMConstNull(vector(e)), "");
	else if (stx__is_narrow(d))
		v.raw = stx__narrow(e, d, v.v, t->w);
	stx__set(e, n, v);
}

static LLVMValueRef hole(struct stx__emit *e, int j, uint32_t loop, LLVMValueRef rest)
{
	struct stx__attend *t = e->attend;
	struct hole h = { .in = t->in[j],
			  .was = t->was,
			  .from = t->rows,
			  .to = t->update,
			  .value = t->value[j],
			  .given = j == STX__SCORE ? t->across : NULL,
			  .give = give };
	return stx__play_hole(e, &h, loop, t->w, t->bytes, rest).v;
}

/* How many of w are below size from i on. */
static LLVMValueRef left_of(struct stx__emit *e, LLVMValueRef size, LLVMValueRef i)
{
	LLVMValueRef left = most(e, LLVMBuildSub(e->b, size, i, ""), stx__i64(e, 0));
	return least(e, left, stx__i64(e, e->attend->w));
}

struct sizes {
	LLVMValueRef rows, keys; /* of the grid point */
	LLVMValueRef first, n;   /* block of keys */
	LLVMValueRef finite;     /* i1 alloca: its values are; NULL: does not matter */
};

/* ---- packing ---- */

/* Vectors along a constant number of elements of `loop`: fn(at, rest) for each. */
typedef void along_fn(struct stx__emit *e, void *ctx, LLVMValueRef at, LLVMValueRef rest);

static void along(struct stx__emit *e, uint32_t loop, int64_t n, along_fn *fn, void *ctx)
{
	struct stx__for f;
	unsigned w = e->attend->w;
	int64_t full = n / w * w;
	if (full) {
		LLVMValueRef i =
			stx__for_begin(e, &f, stx__i64(e, 0), stx__i64(e, full), stx__i64(e, w));
		set_axis(e, loop, i, 4);
		fn(e, ctx, i, NULL);
		stx__for_end(e, &f);
	}
	if (full == n)
		return;
	LLVMValueRef at = stx__i64(e, full);
	set_axis(e, loop, at, 4);
	fn(e, ctx, at, stx__i64(e, n - full));
}

struct query {
	LLVMValueRef to, row,
		last; /* the panel's place; first row of a square; last row there is */
	int64_t at;   /* of the square's rows in the panel */
};

static void query_square(struct stx__emit *e, void *ctx, LLVMValueRef term, LLVMValueRef rest)
{
	const struct query *q = ctx;
	struct stx__attend *t = e->attend;
	LLVMValueRef v[64];
	for (unsigned i = 0; i < t->w; i++) {
		set_axis(e, t->rows, least(e, add(e, q->row, stx__i64(e, i)), q->last), 3);
		v[i] = hole(e, STX__QUERY, t->terms, rest);
	}
	stx__transpose(e, v, t->w);
	LLVMValueRef p = ahead(e, beyond(e, q->to, times(e, term, t->panel)), q->at);
	int64_t n = rest ? LLVMConstIntGetSExtValue(rest) : t->w;
	for (int64_t i = 0; i < n; i++)
		put(e, v[i], ahead(e, p, i * t->panel));
}

/* The queries of a panel, [term][row]; rows beyond the last repeat it. */
static void pack_queries(struct stx__emit *e, const struct sizes *z, LLVMValueRef to)
{
	struct stx__attend *t = e->attend;
	LLVMValueRef last = add(e, z->rows, stx__i64(e, -1));
	struct stx__for f;
	if (t->by_terms[STX__QUERY]) {
		for (unsigned v = 0; v < t->nv; v++) {
			struct query q = { to, add(e, t->row0, stx__i64(e, v * t->w)), last,
					   v * t->w };
			along(e, t->terms, t->nterms, query_square, &q);
		}
		return;
	}
	LLVMValueRef k =
		stx__for_begin(e, &f, stx__i64(e, 0), stx__i64(e, t->nterms), stx__i64(e, 1));
	set_axis(e, t->terms, k, 3);
	for (unsigned v = 0; v < t->nv; v++) {
		LLVMValueRef row = add(e, t->row0, stx__i64(e, v * t->w));
		set_axis(e, t->rows, row, 4);
		LLVMValueRef x = hole(e, STX__QUERY, t->rows, left_of(e, z->rows, row));
		put(e, x, ahead(e, beyond(e, to, times(e, k, t->panel)), v * t->w));
	}
	stx__for_end(e, &f);
}

static void key_vector(struct stx__emit *e, void *ctx, LLVMValueRef term, LLVMValueRef rest)
{
	put(e, hole(e, STX__KEY, e->attend->terms, rest), beyond(e, ctx, term));
}

/* [key][term], or [term][key] where keys are neighbours. */
static void pack_keys(struct stx__emit *e, const struct sizes *z)
{
	struct stx__attend *t = e->attend;
	struct stx__for f, g;
	LLVMValueRef zero = stx__i64(e, 0), one = stx__i64(e, 1);
	if (t->by_terms[STX__KEY]) {
		LLVMValueRef i = stx__for_begin(e, &f, zero, z->n, one);
		set_axis(e, t->keys, add(e, z->first, i), 3);
		along(e, t->terms, t->nterms, key_vector,
		      place(e, t->key, times(e, i, t->key_pitch)));
		stx__for_end(e, &f);
		return;
	}
	LLVMValueRef k = stx__for_begin(e, &f, zero, stx__i64(e, t->nterms), one);
	set_axis(e, t->terms, k, 3);
	LLVMValueRef i = stx__for_begin(e, &g, zero, z->n, stx__i64(e, t->w));
	set_axis(e, t->keys, add(e, z->first, i), 4);
	LLVMValueRef x = hole(e, STX__KEY, t->keys, left_of(e, z->n, i));
	put(e, x, place(e, t->key, add(e, times(e, k, t->key_pitch), i)));
	stx__for_end(e, &g);
	stx__for_end(e, &f);
}

struct values {
	LLVMValueRef to;   /* row of the packed block; NULL: only looked at */
	LLVMValueRef seen; /* alloca: NaN in a lane that saw something not finite; NULL */
};

static void value_vector(struct stx__emit *e, void *ctx, LLVMValueRef col, LLVMValueRef rest)
{
	const struct values *v = ctx;
	LLVMValueRef x = hole(e, STX__VALUE, e->attend->cols, rest);
	if (v->to)
		put(e, x, beyond(e, v->to, col));
	if (!v->seen)
		return;
	LLVMValueRef old = LLVMBuildLoad2(e->b, vector(e), v->seen, "");
	LLVMValueRef zero = LLVMBuildFMul(e->b, x, stx__real(vector(e), 0), "");
	LLVMBuildStore(e->b, LLVMBuildFAdd(e->b, old, zero, ""), v->seen);
}

/* [key][col], or nothing; z->finite becomes whether all are finite. */
static void pack_values(struct stx__emit *e, const struct sizes *z, int packs)
{
	struct stx__attend *t = e->attend;
	struct stx__for f;
	struct values v = { NULL, NULL };
	if (z->finite) {
		v.seen = stx__alloca(e, vector(e), whole(e));
		LLVMBuildStore(e->b, LLVMConstNull(vector(e)), v.seen);
	}
	LLVMValueRef i = stx__for_begin(e, &f, stx__i64(e, 0), z->n, stx__i64(e, 1));
	set_axis(e, t->keys, add(e, z->first, i), 3);
	if (packs)
		v.to = place(e, t->val, times(e, i, t->value_pitch));
	along(e, t->cols, t->ncols, value_vector, &v);
	stx__for_end(e, &f);
	if (!z->finite)
		return;
	LLVMValueRef x = LLVMBuildLoad2(e->b, vector(e), v.seen, "");
	LLVMValueRef nan = LLVMBuildFCmp(e->b, LLVMRealUNO, x, x, "");
	LLVMBuildStore(e->b, LLVMBuildNot(e->b, stx__any(e, nan, t->w), ""), z->finite);
}

/* ---- products ---- */

/* c[i][row] += sum over k < n of a[i*ai + k*ak] * b[k*panel + row], i < MR, a whole panel of rows. */
struct product {
	LLVMValueRef a, b, n;
	int64_t ai, ak;
	LLVMValueRef c[16][8]; /* allocas, initialised */
};

static void sum_terms(struct stx__emit *e, struct product *p)
{
	struct stx__attend *t = e->attend;
	struct stx__for f;
	LLVMValueRef b[8];
	LLVMValueRef k = stx__for_begin(e, &f, stx__i64(e, 0), p->n, stx__i64(e, 1));
	LLVMValueRef pb = beyond(e, p->b, times(e, k, t->panel));
	LLVMValueRef pa = beyond(e, p->a, times(e, k, p->ak));
	for (unsigned v = 0; v < t->nv; v++)
		b[v] = get(e, ahead(e, pb, v * t->w));
	for (unsigned i = 0; i < t->mr; i++) {
		LLVMValueRef a = load(e, scalar(e), ahead(e, pa, (int64_t)i * p->ai), t->bytes);
		a = stx__splat(e, a, t->w);
		for (unsigned v = 0; v < t->nv; v++) {
			LLVMValueRef old = LLVMBuildLoad2(e->b, vector(e), p->c[i][v], "");
			LLVMBuildStore(e->b, stx__fma(e, a, b[v], old), p->c[i][v]);
		}
	}
	stx__for_end(e, &f);
}

/* Sums of MR rows of results from `from` on: they begin as what is there times wt, or as 0, and end
 * there. */
static void tile(struct stx__emit *e, struct product *p, LLVMValueRef at, const LLVMValueRef *wt)
{
	struct stx__attend *t = e->attend;
	for (unsigned i = 0; i < t->mr; i++)
		for (unsigned v = 0; v < t->nv; v++) {
			LLVMValueRef x = LLVMConstNull(vector(e));
			if (wt)
				x = LLVMBuildFMul(
					e->b,
					get(e, ahead(e, at, (int64_t)i * t->panel + v * t->w)),
					wt[v], "");
			p->c[i][v] = stx__alloca(e, vector(e), 0);
			LLVMBuildStore(e->b, x, p->c[i][v]);
		}
	sum_terms(e, p);
	for (unsigned i = 0; i < t->mr; i++)
		for (unsigned v = 0; v < t->nv; v++)
			put(e, LLVMBuildLoad2(e->b, vector(e), p->c[i][v], ""),
			    ahead(e, at, (int64_t)i * t->panel + v * t->w));
}

/* s[key][row] of the block. */
static void products_of(struct stx__emit *e, const struct sizes *z, LLVMValueRef queries)
{
	struct stx__attend *t = e->attend;
	struct stx__for f;
	struct product p = { .b = queries, .n = stx__i64(e, t->nterms) };
	p.ai = t->by_terms[STX__KEY] ? t->key_pitch : 1;
	p.ak = t->by_terms[STX__KEY] ? 1 : t->key_pitch;
	LLVMValueRef i = stx__for_begin(e, &f, stx__i64(e, 0), z->n, stx__i64(e, t->mr));
	p.a = place(e, t->key, times(e, i, p.ai));
	tile(e, &p, place(e, t->s, times(e, i, t->panel)), NULL);
	stx__for_end(e, &f);
}

static void weigh_values(struct stx__emit *e, const struct sizes *z, LLVMValueRef o,
			 const LLVMValueRef *wt)
{
	struct stx__attend *t = e->attend;
	struct stx__for f;
	struct product p = { .n = z->n, .ai = 1, .ak = t->value_pitch };
	p.b = place(e, t->s, stx__i64(e, 0));
	LLVMValueRef c =
		stx__for_begin(e, &f, stx__i64(e, 0), stx__i64(e, t->ncols), stx__i64(e, t->mr));
	p.a = place(e, t->val, c);
	tile(e, &p, beyond(e, o, times(e, c, t->panel)), wt);
	stx__for_end(e, &f);
}

/* ---- softmax ---- */

/* The greater, b where either is NaN. */
static LLVMValueRef greater(struct stx__emit *e, LLVMValueRef a, LLVMValueRef b)
{
	return stx__select(e, LLVMBuildFCmp(e->b, LLVMRealOGT, a, b, ""), a, b);
}

static LLVMValueRef exp_of(struct stx__emit *e, LLVMValueRef x, LLVMValueRef from)
{
	return stx__elementary(e, STX_P_EXP, e->attend->dtype, LLVMBuildFSub(e->b, x, from, ""));
}

/* W keys from `key` of the block on, by W rows of load n. */
static void mask_square(struct stx__emit *e, const struct sizes *z, uint32_t n, LLVMValueRef key,
			unsigned at)
{
	struct stx__attend *t = e->attend;
	LLVMValueRef v[64], last = add(e, z->rows, stx__i64(e, -1));
	LLVMValueRef row = add(e, t->row0, stx__i64(e, at));
	uint8_t *in = STX_NEW_ARRAY(e->arena, uint8_t, e->k->insts.n);
	struct hole h = { .in = in, .was = t->was, .from = n, .to = n + 1, .value = n };
	if (!in) {
		stx__fail(e, STX_E_NOMEM, "the memory budget is exceeded");
		return;
	}
	in[n] = 1;
	set_axis(e, t->keys, add(e, z->first, key), 4);
	LLVMValueRef rest = left_of(e, z->n, key);
	for (unsigned i = 0; i < t->w; i++) {
		set_axis(e, t->rows, least(e, add(e, row, stx__i64(e, i)), last), 3);
		v[i] = stx__play_hole(e, &h, t->keys, t->w, t->bytes, rest).v;
		if (e->k->insts.at[n].dtype == STX_BOOL)
			v[i] = LLVMBuildUIToFP(e->b, v[i], vector(e), "");
	}
	stx__transpose(e, v, t->w);
	for (unsigned i = 0; i < t->w; i++)
		put(e, v[i], mask_place(e, n, add(e, key, stx__i64(e, i)), stx__i64(e, at)));
}

/* The panel's part of what the score reads along the keys. */
static void copy_masks(struct stx__emit *e, const struct sizes *z)
{
	struct stx__attend *t = e->attend;
	struct stx__for f;
	if (!t->nacross)
		return;
	LLVMValueRef key = stx__for_begin(e, &f, stx__i64(e, 0), z->n, stx__i64(e, t->w));
	for (uint32_t n = t->rows; n < t->update; n++)
		for (unsigned v = 0; t->across[n] && v < t->nv; v++)
			mask_square(e, z, n, key, v * t->w);
	stx__for_end(e, &f);
}

/* s of the block becomes score(s); top: allocas of the maxima. */
static void score(struct stx__emit *e, const struct sizes *z, const LLVMValueRef *top)
{
	struct stx__attend *t = e->attend;
	struct stx__for f;
	t->key0 = z->first;
	copy_masks(e, z);
	LLVMValueRef i = stx__for_begin(e, &f, stx__i64(e, 0), z->n, stx__i64(e, 1));
	set_axis(e, t->keys, add(e, z->first, i), 3);
	for (unsigned v = 0; v < t->nv; v++) {
		LLVMValueRef row = add(e, t->row0, stx__i64(e, v * t->w)), rest = NULL;
		LLVMValueRef p = ahead(e, place(e, t->s, times(e, i, t->panel)), v * t->w);
		set_axis(e, t->rows, row, 2);
		if (t->masked_rows)
			rest = left_of(e, z->rows, row);
		if (t->sresult != STX_NONE)
			t->score = get(e, p);
		LLVMValueRef x = hole(e, STX__SCORE, t->rows, rest);
		put(e, x, p);
		LLVMValueRef old = LLVMBuildLoad2(e->b, vector(e), top[v], "");
		LLVMBuildStore(e->b, greater(e, x, old), top[v]);
	}
	stx__for_end(e, &f);
}

/* One panel's block: s becomes weights, m and l move on; wt: what o is multiplied with. */
static void softmax(struct stx__emit *e, const struct sizes *z, LLVMValueRef panel,
		    LLVMValueRef *wt)
{
	struct stx__attend *t = e->attend;
	LLVMValueRef top[8], from[8], sum[8], at = times(e, panel, t->panel);
	LLVMValueRef m = place(e, t->m, at), l = place(e, t->l, at);
	LLVMTypeRef type = vector(e);
	struct stx__for f;
	for (unsigned v = 0; v < t->nv; v++) {
		top[v] = stx__alloca(e, type, 0);
		sum[v] = stx__alloca(e, type, 0);
		LLVMBuildStore(e->b, get(e, ahead(e, m, v * t->w)), top[v]);
	}
	score(e, z, top);
	for (unsigned v = 0; v < t->nv; v++) {
		LLVMValueRef new = LLVMBuildLoad2(e->b, type, top[v], "");
		LLVMValueRef none =
			LLVMBuildFCmp(e->b, LLVMRealOEQ, new, stx__real(type, -INFINITY), "");
		from[v] = stx__select(e, none, stx__real(type, 0), new);
		wt[v] = exp_of(e, get(e, ahead(e, m, v * t->w)), from[v]);
		put(e, new, ahead(e, m, v * t->w));
		LLVMValueRef old = get(e, ahead(e, l, v * t->w));
		LLVMBuildStore(e->b, LLVMBuildFMul(e->b, old, wt[v], ""), sum[v]);
	}
	LLVMValueRef i = stx__for_begin(e, &f, stx__i64(e, 0), z->n, stx__i64(e, 1));
	for (unsigned v = 0; v < t->nv; v++) {
		LLVMValueRef p = ahead(e, place(e, t->s, times(e, i, t->panel)), v * t->w);
		LLVMValueRef x = exp_of(e, get(e, p), from[v]);
		put(e, x, p);
		LLVMValueRef old = LLVMBuildLoad2(e->b, type, sum[v], "");
		LLVMBuildStore(e->b, LLVMBuildFAdd(e->b, old, x, ""), sum[v]);
	}
	stx__for_end(e, &f);
	for (unsigned v = 0; v < t->nv; v++)
		put(e, LLVMBuildLoad2(e->b, type, sum[v], ""), ahead(e, l, v * t->w));
}

/* ---- the loops ---- */

/* i1: no row of [first, end) sees the block of keys; NULL: that cannot be told. */
static LLVMValueRef hidden(struct stx__emit *e, const struct sizes *z, LLVMValueRef first,
			   LLVMValueRef end)
{
	LLVMValueRef minus = stx__i64(e, -1);
	const LLVMValueRef rows[2] = { first, add(e, end, minus) },
			   keys[2] = { z->first, add(e, add(e, z->first, z->n), minus) };
	return stx__attend_hidden(e, rows, keys);
}

static void each_panel(struct stx__emit *e, const struct sizes *z, struct stx__for *f,
		       LLVMValueRef *panel)
{
	struct stx__attend *t = e->attend;
	t->row0 = stx__for_begin(e, f, stx__i64(e, 0), z->rows, stx__i64(e, t->panel));
	*panel = LLVMBuildUDiv(e->b, t->row0, stx__i64(e, t->panel), "");
}

static LLVMValueRef results_of(struct stx__emit *e, LLVMValueRef panel)
{
	struct stx__attend *t = e->attend;
	return place(e, t->o, times(e, panel, t->wide * t->panel));
}

static LLVMValueRef queries_of(struct stx__emit *e, LLVMValueRef panel)
{
	struct stx__attend *t = e->attend;
	return place(e, t->q, times(e, panel, t->nterms * t->panel));
}

static void begin_panels(struct stx__emit *e, const struct sizes *z)
{
	struct stx__attend *t = e->attend;
	struct stx__for f, g;
	LLVMValueRef panel, zero = LLVMConstNull(vector(e));
	each_panel(e, z, &f, &panel);
	if (t->sacc != STX_NONE)
		pack_queries(e, z, queries_of(e, panel));
	LLVMValueRef o = results_of(e, panel), at = times(e, panel, t->panel);
	for (unsigned v = 0; v < t->nv; v++) {
		put(e, stx__real(vector(e), -INFINITY), ahead(e, place(e, t->m, at), v * t->w));
		put(e, zero, ahead(e, place(e, t->l, at), v * t->w));
	}
	int64_t rows = round_up(t->ncols, t->mr);
	LLVMValueRef i = stx__for_begin(e, &g, stx__i64(e, 0), stx__i64(e, rows * t->panel),
					stx__i64(e, t->w));
	put(e, zero, beyond(e, o, i));
	stx__for_end(e, &g);
	stx__for_end(e, &f);
}

static void block_of_panel(struct stx__emit *e, const struct sizes *z, LLVMValueRef panel)
{
	struct stx__attend *t = e->attend;
	LLVMValueRef wt[8] = { NULL };
	if (t->sacc != STX_NONE)
		products_of(e, z, queries_of(e, panel));
	softmax(e, z, panel, wt);
	weigh_values(e, z, results_of(e, panel), wt);
}

static void block(struct stx__emit *e, const struct sizes *z)
{
	struct stx__attend *t = e->attend;
	struct stx__for f;
	LLVMValueRef panel;
	if (t->sacc != STX_NONE)
		pack_keys(e, z);
	pack_values(e, z, 1);
	each_panel(e, z, &f, &panel);
	LLVMValueRef end = least(e, add(e, t->row0, stx__i64(e, t->panel)), z->rows);
	LLVMValueRef skip = hidden(e, z, t->row0, end);
	LLVMBasicBlockRef after = NULL;
	if (skip && z->finite)
		skip = LLVMBuildAnd(e->b, skip, LLVMBuildLoad2(e->b, e->i1, z->finite, ""), "");
	if (skip)
		after = stx__if_begin(e, LLVMBuildNot(e->b, skip, ""));
	block_of_panel(e, z, panel);
	stx__if_end(e, after);
	stx__for_end(e, &f);
}

/* A block that no row of the grid point sees: its values are looked at only. */
static void block_if_seen(struct stx__emit *e, struct sizes *z)
{
	LLVMValueRef skip = hidden(e, z, stx__i64(e, 0), z->rows);
	if (!skip) {
		block(e, z);
		return;
	}
	if (e->fast) {
		LLVMBasicBlockRef after = stx__if_begin(e, LLVMBuildNot(e->b, skip, ""));
		block(e, z);
		stx__if_end(e, after);
		return;
	}
	z->finite = stx__alloca(e, e->i1, 1);
	LLVMBuildStore(e->b, LLVMConstInt(e->i1, 0, 0), z->finite);
	LLVMBasicBlockRef seen = stx__if_begin(e, skip);
	pack_values(e, z, 0);
	stx__if_end(e, seen);
	LLVMValueRef finite = LLVMBuildLoad2(e->b, e->i1, z->finite, "");
	LLVMBasicBlockRef after = stx__if_begin(e, LLVMBuildNot(e->b, finite, ""));
	block(e, z);
	stx__if_end(e, after);
}

/* ---- results ---- */

/* out[row][col] = o[col][row] / l[row] of a panel. */
static void finish_panel(struct stx__emit *e, LLVMValueRef panel)
{
	struct stx__attend *t = e->attend;
	struct stx__for f;
	LLVMValueRef l[8], x[64], o = results_of(e, panel), out = place(e, t->out, stx__i64(e, 0));
	for (unsigned v = 0; v < t->nv; v++)
		l[v] = get(e, ahead(e, place(e, t->l, times(e, panel, t->panel)), v * t->w));
	LLVMValueRef c =
		stx__for_begin(e, &f, stx__i64(e, 0), stx__i64(e, t->ncols), stx__i64(e, t->w));
	for (unsigned v = 0; v < t->nv; v++) {
		LLVMValueRef none =
			LLVMBuildFCmp(e->b, LLVMRealOEQ, l[v], LLVMConstNull(vector(e)), "");
		for (unsigned i = 0; i < t->w; i++) {
			LLVMValueRef at = beyond(e, o, times(e, c, t->panel));
			LLVMValueRef a = get(e, ahead(e, at, (int64_t)i * t->panel + v * t->w));
			x[i] = LLVMBuildFDiv(e->b, a, l[v], "");
			if (t->safe)
				x[i] = stx__select(e, none, a, x[i]);
		}
		stx__transpose(e, x, t->w);
		for (unsigned i = 0; i < t->w; i++)
			put(e, x[i],
			    ahead(e, beyond(e, out, c), (int64_t)(v * t->w + i) * t->value_pitch));
	}
	stx__for_end(e, &f);
}

LLVMValueRef stx__attend_result(struct stx__emit *e, uint32_t n)
{
	struct stx__attend *t = e->attend;
	if (!t->in_epilogue)
		return t->score;
	unsigned w = stx__lanes_of(e, n);
	LLVMValueRef row = e->axis[e->k->insts.at[t->rows].a];
	LLVMValueRef at = times(e, LLVMBuildSub(e->b, row, t->row0, ""), t->value_pitch);
	at = add(e, at, e->axis[e->k->insts.at[t->cols].a]);
	at = add(e, at, stx__i64(e, (int64_t)e->copy * e->w));
	return load(e, stx__vec(scalar(e), w), place(e, t->out, at), t->bytes);
}

static void end_panels(struct stx__emit *e, const struct sizes *z)
{
	struct stx__attend *t = e->attend;
	struct stx__for f;
	LLVMValueRef panel;
	each_panel(e, z, &f, &panel);
	finish_panel(e, panel);
	LLVMValueRef end = least(e, add(e, t->row0, stx__i64(e, t->panel)), z->rows);
	stx__play_rows(e, t->rows, t->row0, end, &t->in_epilogue);
	stx__for_end(e, &f);
}

/* requires: the builder stands where the loop over rows begins. */
void stx__emit_attend(struct stx__emit *e)
{
	struct stx__attend *t = e->attend;
	struct stx__for f;
	struct sizes z = { .rows = stx__ex_scalar(e, axis_of(e->k, t->rows)->size),
			   .keys = stx__ex_scalar(e, axis_of(e->k, t->keys)->size) };
	if (t->panel > e->vector_elems)
		e->vector_elems = t->panel;
	if (t->sacc != STX_NONE)
		e->varying[t->sacc] = 1; /* a score is of many rows */
	begin_panels(e, &z);
	z.first = stx__for_begin(e, &f, stx__i64(e, 0), z.keys, stx__i64(e, STX_ATTEND_BLOCK));
	z.n = least(e, LLVMBuildSub(e->b, z.keys, z.first, ""), stx__i64(e, STX_ATTEND_BLOCK));
	block_if_seen(e, &z);
	stx__for_end(e, &f);
	end_panels(e, &z);
	for (int i = 0; i < 4; i++) {
		uint32_t loop = i == 0 ? t->rows : i == 1 ? t->cols : i == 2 ? t->keys : t->terms;
		if (loop != STX_NONE)
			e->axis[e->k->insts.at[loop].a] = NULL;
	}
}
