/* evaluate.c
 * reference evaluation of a loop program with concrete values: one more handler over the same
 * bodies (seed 000 6.7, 6.9; IR-12, SE-02).
 *
 * Reductions fold left from the identity in lexicographic order of their range. Primitives and
 * elementary functions are the scalar reference of elementary.h. Slow by design; bounded by the
 * program's iteration counts. Symbols take their hints. An index out of bounds is BOUNDS and names
 * buffer, index and extent. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "elementary.h"
#include "lower.h"
#include "scalar.h"

struct eval {
	const struct stx_loops *l;
	const struct stx_buffer *b;
	void **storage;
	struct stx_arena *arena; /* of this buffer's evaluation */
	struct stx_diag *d;
	stx_err err;
	union stx_scalar *value;                 /* [body.n] */
	int64_t *indirect;                       /* [body.n] */
	const struct stx_elem_program **program; /* [body.n], for elementary functions */
	const struct stx_elem_program *exp;      /* of accumulators */
	int64_t vars[2 * STX_MAX_DIMS], sizes[2 * STX_MAX_DIMS];
	const int64_t *syms;
	uint32_t nsyms;
};

struct state { /* of an accumulator; WELFORD: v is the mean; SOFTMAX, ATTEND: v the maximum, m2 the
		  sum of weights; ATTEND: weight that of weighted values */
	union stx_scalar v, m2, weight;
	int64_t index;
	int any;
};

static int64_t at_point(struct eval *e, stx_ex ex)
{
	struct stx_ex_env env = { .vars = e->vars,
				  .syms = e->syms,
				  .indirects = e->indirect,
				  .nvars = 2 * STX_MAX_DIMS,
				  .nsyms = e->nsyms,
				  .nindirects = e->b->body.n };
	int ok = 1;
	int64_t v = stx_ex_eval(e->l->ex, ex, &env, &ok);

	if (!ok && !e->err)
		e->err = stx_fail(e->d, STX_E_INTERNAL, "evaluate", e->b->name,
				  "an index expression of %s cannot be evaluated", e->b->name);
	return v;
}

static int masked_off(const struct eval *e, const struct stx_binst *in)
{
	return in->c != STX_NONE && !e->value[in->c].u;
}

static union stx_scalar load(struct eval *e, const struct stx_binst *in)
{
	const struct stx_buffer *src = e->l->buffers.at[in->a];
	const char *base = e->storage[in->a];

	if (masked_off(e, in))
		return (union stx_scalar){ .u = 0 };
	if (!base)
		base = (const char *)src->data.bytes;
	return stx_scalar_load(src->dtype,
			       base + at_point(e, in->ex) * stx_dtype_bytes(src->dtype));
}

static int64_t indirect(struct eval *e, const struct stx_binst *in)
{
	int64_t v = e->value[in->a].i, bound;

	if (masked_off(e, in))
		return 0;
	bound = at_point(e, in->ex);
	if ((in->flags & STX_BF_WRAP) && v < 0)
		v += bound;
	if ((v < 0 || v >= bound) && !e->err && e->b->message)
		e->err = stx_fail(e->d, STX_E_MISMATCH, "evaluate", e->b->name,
				  "assertion failed: %s", e->b->message);
	if ((v < 0 || v >= bound) && !e->err)
		e->err = stx_fail(e->d, STX_E_BOUNDS, "evaluate", e->b->name,
				  "index out of bounds: 0 <= %lld < %lld", (long long)v,
				  (long long)bound);
	return v;
}

static union stx_scalar primitive(struct eval *e, const struct stx_binst *in, uint32_t i)
{
	int arity = stx_prim_info(in->op)->arity;
	union stx_scalar none = { .u = 0 }, a = e->value[in->a];
	union stx_scalar b = arity > 1 ? e->value[in->b] : none,
			 c = arity > 2 ? e->value[in->c] : none;
	enum stx_dtype src = e->b->body.at[in->a].dtype;

	if (e->program[i])
		return stx_elementary_eval(e->program[i], a, b);
	return stx_prim_eval(in->op, in->dtype, src, a, b, c);
}

/* One iteration point: every instruction once. */
static void run_body(struct eval *e)
{
	uint32_t i;

	for (i = 0; i < e->b->body.n && !e->err; i++) {
		const struct stx_binst *in = &e->b->body.at[i];

		switch (in->op) {
		case STX_B_CONST: e->value[i] = in->k; break;
		case STX_B_INDEX: e->value[i].i = at_point(e, in->ex); break;
		case STX_B_LOAD: e->value[i] = load(e, in); break;
		case STX_B_INDIRECT: e->value[i].i = e->indirect[i] = indirect(e, in); break;
		default: e->value[i] = primitive(e, in, i);
		}
	}
}

/* NaN before everything, then the larger (or smaller); the first of equals stays. */
static int beats(const struct eval *e, union stx_scalar v, union stx_scalar best)
{
	enum stx_prim op = e->b->monoid == STX_MONOID_ARGMAX ? STX_P_GT : STX_P_LT;
	int is_float = stx_dtype_is_float(e->b->acc);

	if (is_float && best.f != best.f)
		return 0;
	if (is_float && v.f != v.f)
		return 1;
	return (int)stx_prim_eval(op, STX_BOOL, e->b->acc, v, best, v).u;
}

/* One more element: mean += d / weight, m2 += d * (x - mean) with d = x - the mean before (RD-04).
 */
static void welford(struct eval *e, struct state *s, union stx_scalar x)
{
	enum stx_dtype t = e->b->acc;
	union stx_scalar one = { .f = 1 }, d = stx_prim_eval(STX_P_SUB, t, t, x, s->v, x), step;

	s->weight = stx_prim_eval(STX_P_ADD, t, t, s->weight, one, x);
	step = stx_prim_eval(STX_P_DIV, t, t, d, s->weight, x);
	s->v = stx_prim_eval(STX_P_ADD, t, t, s->v, step, x);
	step = stx_prim_eval(STX_P_SUB, t, t, x, s->v, x);
	step = stx_prim_eval(STX_P_MUL, t, t, d, step, x);
	s->m2 = stx_prim_eval(STX_P_ADD, t, t, s->m2, step, x);
}

/* exp(m - top), 1 where they are equal. */
static union stx_scalar weight(struct eval *e, union stx_scalar m, union stx_scalar top)
{
	enum stx_dtype t = e->b->acc;
	union stx_scalar d = { .f = 0 };

	if (m.f != top.f)
		d = stx_prim_eval(STX_P_SUB, t, t, m, top, m);
	return stx_elementary_eval(e->exp, d, d);
}

/* One more element: the sum is brought to the new maximum (MR-05). */
static void softmax(struct eval *e, struct state *s, union stx_scalar x)
{
	enum stx_dtype t = e->b->acc;
	union stx_scalar top = stx_prim_eval(STX_P_MAX, t, t, s->v, x, x);

	s->m2 = stx_prim_eval(STX_P_MUL, t, t, s->m2, weight(e, s->v, top), x);
	s->m2 = stx_prim_eval(STX_P_ADD, t, t, s->m2, weight(e, x, top), x);
	s->v = top;
}

/* One more value of weight exp(x), both sums brought to the new maximum (AT-03). */
static void attend(struct eval *e, struct state *s, union stx_scalar x, union stx_scalar value)
{
	enum stx_dtype t = e->b->acc;
	union stx_scalar top = stx_prim_eval(STX_P_MAX, t, t, s->v, x, x), from = top, w, p;

	if (top.f == -INFINITY)
		from.f = 0;
	w = stx_prim_eval(STX_P_SUB, t, t, s->v, from, x);
	w = stx_elementary_eval(e->exp, w, w);
	p = stx_prim_eval(STX_P_SUB, t, t, x, from, x);
	p = stx_elementary_eval(e->exp, p, p);
	s->m2 = stx_prim_eval(STX_P_MUL, t, t, s->m2, w, x);
	s->m2 = stx_prim_eval(STX_P_ADD, t, t, s->m2, p, x);
	s->weight = stx_prim_eval(STX_P_MUL, t, t, s->weight, w, x);
	s->weight = stx_prim_eval(STX_P_FMA, t, t, p, value, s->weight);
	s->v = top;
}

static union stx_scalar attended(const struct eval *e, const struct state *s)
{
	if (e->b->state && s->m2.f == 0)
		return s->weight;
	return stx_prim_eval(STX_P_DIV, e->b->acc, e->b->acc, s->weight, s->m2, s->m2);
}

static void combine(struct eval *e, struct state *s, int64_t index)
{
	const enum stx_prim ops[] = { [STX_MONOID_SUM] = STX_P_ADD, [STX_MONOID_PROD] = STX_P_MUL,
				      [STX_MONOID_MAX] = STX_P_MAX, [STX_MONOID_MIN] = STX_P_MIN,
				      [STX_MONOID_ANY] = STX_P_OR,  [STX_MONOID_ALL] = STX_P_AND };
	enum stx_dtype t = e->b->acc;
	union stx_scalar v = e->value[e->b->body.result[0]];

	switch (e->b->monoid) {
	case STX_MONOID_ARGMAX:
	case STX_MONOID_ARGMIN:
		if (!s->any || beats(e, v, s->v)) {
			s->v = v;
			s->index = index;
		}
		break;
	case STX_MONOID_DOT: {
		union stx_scalar w = e->value[e->b->body.result[1]];
		if (stx_dtype_is_float(t))
			s->v = stx_prim_eval(STX_P_FMA, t, t, v, w, s->v);
		else
			s->v = stx_prim_eval(STX_P_ADD, t, t, s->v,
					     stx_prim_eval(STX_P_MUL, t, t, v, w, w), v);
		break;
	}
	case STX_MONOID_WELFORD: welford(e, s, v); break;
	case STX_MONOID_SOFTMAX: softmax(e, s, v); break;
	case STX_MONOID_ATTEND: attend(e, s, v, e->value[e->b->body.result[1]]); break;
	default: s->v = stx_prim_eval(ops[e->b->monoid], t, t, s->v, v, v);
	}
	s->any = 1;
}

/* Next point of axes [from, to), last fastest; 0 after the last one. */
static int advance(struct eval *e, uint32_t from, uint32_t to)
{
	while (to-- > from) {
		if (++e->vars[to] < e->sizes[to])
			return 1;
		e->vars[to] = 0;
	}
	return 0;
}

static int is_empty(const struct eval *e, uint32_t from, uint32_t to)
{
	for (; from < to; from++)
		if (e->sizes[from] <= 0)
			return 1;
	return 0;
}

static union stx_scalar reduce(struct eval *e)
{
	uint32_t from = e->b->nranges, to = from + e->b->nrranges;
	struct state s = { .v = stx_monoid_identity(e->b->monoid, e->b->acc) };
	int64_t index = 0;
	int64_t limit = e->b->rlimit == STX_EX_BAD ? INT64_MAX : at_point(e, e->b->rlimit);

	if (!is_empty(e, from, to))
		do {
			if (e->vars[from] >= limit)
				continue;
			run_body(e);
			if (!e->err)
				combine(e, &s, index++);
		} while (!e->err && advance(e, from, to));
	enum stx_dtype t = stx_monoid_state_dtype(e->b->monoid, e->b->state, e->b->acc);
	union stx_scalar r = e->b->monoid == STX_MONOID_ATTEND ? attended(e, &s)
			     : e->b->state == 0                ? s.v
			     : e->b->state == 2                ? s.weight
			     : t == STX_I64                    ? (union stx_scalar){ .i = s.index }
							       : s.m2;
	return t == e->b->dtype ? r : stx_prim_eval(STX_P_CAST, e->b->dtype, t, r, r, r);
}

struct place { /* of a row being sorted */
	uint64_t key;
	int64_t at;
};

static int by_key(const void *p, const void *q)
{
	const struct place *a = p, *b = q;

	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

/* One row: the positions in the order of their keys. */
static void sort_row(struct eval *e)
{
	const struct stx_buffer *b = e->b;
	int64_t n = e->sizes[1], first = at_point(e, b->store);
	struct place *p = STX_NEW_ARRAY(e->arena, struct place, (size_t)n + 1);

	if (!p) {
		e->err = stx_fail(e->d, STX_E_NOMEM, "evaluate", b->name, "out of memory");
		return;
	}
	for (e->vars[1] = 0; e->vars[1] < n && !e->err; e->vars[1]++) {
		run_body(e);
		p[e->vars[1]] = (struct place){ e->value[b->body.result[0]].u, e->vars[1] };
	}
	e->vars[1] = 0;
	qsort(p, (size_t)n, sizeof *p, by_key);
	for (int64_t i = 0; i < n && !e->err; i++)
		((int64_t *)e->storage[b->id])[first + i] = p[i].at;
}

/* Storage is one array a buffer here: an update begins with what its base holds. */
static void inherit(struct eval *e)
{
	const struct stx_layout *y = &e->b->layout;
	int64_t n = at_point(e, y->offset) + 1;
	uint32_t d;

	for (d = 0; d < y->rank; d++) {
		int64_t size = at_point(e, y->sizes[d]);

		if (!size)
			return;
		n += (size - 1) * at_point(e, y->strides[d]);
	}
	memcpy(e->storage[e->b->id], e->storage[e->b->base->id],
	       (size_t)n * (size_t)stx_dtype_bytes(e->b->dtype));
}

/* The updates at one point of the ranges, in order. */
static void scatter(struct eval *e)
{
	static const enum stx_prim ops[] = { [STX_MONOID_SUM] = STX_P_ADD,
					     [STX_MONOID_PROD] = STX_P_MUL,
					     [STX_MONOID_MAX] = STX_P_MAX,
					     [STX_MONOID_MIN] = STX_P_MIN };
	const struct stx_buffer *b = e->b;
	char *out = e->storage[b->id];
	uint32_t from = b->nranges, to = from + b->nrranges;

	if (is_empty(e, from, to))
		return;
	do {
		union stx_scalar v;
		char *at;

		run_body(e);
		if (e->err)
			return;
		at = out + at_point(e, b->store) * stx_dtype_bytes(b->dtype);
		v = e->value[b->body.result[0]];
		if (!b->overwrite)
			v = stx_prim_eval(ops[b->monoid], b->dtype, b->dtype,
					  stx_scalar_load(b->dtype, at), v, v);
		stx_scalar_store(b->dtype, at, v);
	} while (advance(e, from, to));
}

/* The values at one point of the ranges, in order. */
static void scan(struct eval *e)
{
	const struct stx_buffer *b = e->b;
	uint32_t from = b->nranges, to = from + b->nrranges;
	struct state s = { .v = stx_monoid_identity(b->monoid, b->acc) };
	enum stx_dtype t = stx_monoid_state_dtype(b->monoid, b->state, b->acc);
	int64_t index = 0;

	if (is_empty(e, from, to))
		return;
	do {
		union stx_scalar r;

		run_body(e);
		if (e->err)
			return;
		r = e->value[b->body.result[0]];
		if (stx_monoid_is_arg(b->monoid) && s.any && !beats(e, s.v, r))
			s.any = 0; /* of equal ones the last */
		combine(e, &s, index++);
		r = s.v;
		if (b->state)
			r.i = s.index;
		if (t == STX_F64 && stx_dtype_bytes(b->dtype) < 4) {
			r = stx_prim_eval(STX_P_CAST, STX_F32, t, r, r, r);
			t = STX_F32;
		}
		if (t != b->dtype)
			r = stx_prim_eval(STX_P_CAST, b->dtype, t, r, r, r);
		t = stx_monoid_state_dtype(b->monoid, b->state, b->acc);
		stx_scalar_store(b->dtype,
				 (char *)e->storage[b->id] +
					 at_point(e, b->store) * stx_dtype_bytes(b->dtype),
				 r);
	} while (advance(e, from, to));
}

static stx_err run_buffer(struct eval *e)
{
	const struct stx_buffer *b = e->b;
	char *out = e->storage[b->id];
	int width = stx_dtype_bytes(b->dtype);

	if (b->base)
		inherit(e);
	if (is_empty(e, 0, b->nranges))
		return 0;
	do {
		union stx_scalar v;

		if (b->def == STX_DEF_SCATTER) {
			scatter(e);
			continue;
		}
		if (b->def == STX_DEF_SCAN) {
			scan(e);
			continue;
		}
		if (b->def == STX_DEF_SORT) {
			sort_row(e);
			continue;
		}
		if (b->def == STX_DEF_REDUCTION) {
			v = reduce(e);
		} else {
			run_body(e);
			v = e->value[b->body.result[0]];
		}
		if (!e->err)
			stx_scalar_store(b->dtype, out + at_point(e, b->store) * width, v);
	} while (!e->err && advance(e, 0, b->nranges));
	return e->err;
}

static stx_err prepare(struct eval *e)
{
	const struct stx_buffer *b = e->b;
	uint32_t i;

	e->value = STX_NEW_ARRAY(e->arena, union stx_scalar, b->body.n + 1u);
	e->indirect = STX_NEW_ARRAY(e->arena, int64_t, b->body.n + 1u);
	e->program = STX_NEW_ARRAY(e->arena, const struct stx_elem_program *, b->body.n + 1u);
	if (!e->value || !e->indirect || !e->program)
		return stx_fail(e->d, STX_E_NOMEM, "evaluate", b->name, "out of memory");
	for (i = 0; i < b->body.n; i++) {
		const struct stx_binst *in = &b->body.at[i];

		if (in->op < STX_P_FIRST_ELEMENTARY || in->op >= STX_PRIM_COUNT)
			continue;
		e->program[i] = stx_elementary_record(e->arena, in->op, in->dtype);
		if (!e->program[i])
			return stx_fail(e->d, STX_E_UNSUPPORTED, "evaluate", b->name,
					"no body for %s of %s", stx_prim_info(in->op)->text,
					stx_dtype_name(in->dtype));
	}
	if (b->def == STX_DEF_REDUCTION &&
	    (b->monoid == STX_MONOID_SOFTMAX || b->monoid == STX_MONOID_ATTEND) &&
	    !(e->exp = stx_elementary_record(e->arena, STX_P_EXP, b->acc)))
		return stx_fail(e->d, STX_E_NOMEM, "evaluate", b->name, "out of memory");
	for (i = 0; i < b->nranges + b->nrranges; i++)
		e->sizes[i] =
			at_point(e, i < b->nranges ? b->ranges[i] : b->rranges[i - b->nranges]);
	return e->err;
}

stx_err stx_handler_evaluate(const struct stx_loops *l, void **buffers, struct stx_diag *d)
{
	uint32_t nsyms = l->g ? l->g->symbols.n : 0, i, k;
	int64_t *syms = calloc(nsyms + 1u, sizeof *syms);
	stx_err err = 0;

	if (!syms)
		return stx_fail(d, STX_E_NOMEM, "evaluate", "", "out of memory");
	for (k = 0; k < nsyms; k++)
		syms[k] = l->g->symbols.at[k].hint;
	for (i = 0; i < l->buffers.n && !err; i++) {
		struct eval e = { .l = l,
				  .b = l->buffers.at[i],
				  .storage = buffers,
				  .d = d,
				  .syms = syms,
				  .nsyms = nsyms };

		if (e.b->def == STX_DEF_NONE || e.b->def == STX_DEF_SCRATCH)
			continue;
		e.arena = stx_arena_new(0);
		err = e.arena ? prepare(&e) : STX_E_NOMEM;
		if (!err)
			err = run_buffer(&e);
		stx_arena_free(e.arena);
	}
	free(syms);
	return err;
}
