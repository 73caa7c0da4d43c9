/* kernel_eval.c: reference interpreter of kernel IR.
 *
 * One scalar at a time; every accumulator keeps its 64 lanes and its stack of chunks. An access
 * outside a buffer is INTERNAL: the builder made a wrong kernel. */
#include "kernel_eval.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "elementary.h"
#include "scalar.h"

struct state {
	union stx_scalar v[3];
};

struct chunked { /* binary counter */
	struct state at[64];
	int rank[64];
	int n;
};

struct acc {
	const struct stx_kinst *a;          /* the ACC instruction */
	const struct stx_elem_program *exp; /* SOFTMAX, ATTEND: in its dtype */
	struct acc *next;                   /* of the same innermost loop */
	struct state lane[STX_LANES];       /* BLOCKS: the pairs of the block */
	struct state attended;              /* BLOCKS: (m, l, a) */
	struct chunked chunks;
	union stx_scalar *each; /* a row of states: [elems of axis a->c] */
	int64_t count;          /* updates in the current chunk */
	uint32_t inner;         /* innermost LOOP around its UPDATE */
};

struct eval {
	const struct stx_kernel *k;
	void *const *buffers;
	const int64_t *elems, *scalars;
	struct stx_bounds_record *bounds;
	union stx_scalar *value;
	struct acc **acc;    /* by ACC instruction */
	uint32_t *end_of;    /* LOOP -> END */
	struct acc **ending; /* LOOP -> accumulators whose innermost loop it is */
	struct stx_arena *arena;
	int64_t vars[STX_KERNEL_MAX_AXES];
	int64_t *indirects, *syms;
	uint32_t nsyms;
	const char *why;
};

static int64_t index_of(struct eval *e, stx_ex x)
{
	struct stx_ex_env env = { .vars = e->vars,
				  .syms = e->syms,
				  .indirects = e->indirects,
				  .nvars = e->k->axes.n,
				  .nsyms = e->nsyms,
				  .nindirects = e->k->insts.n };
	int ok = 1;
	int64_t v = stx_ex_eval(e->k->ex, x, &env, &ok);
	if (!ok)
		e->why = "an index expression overflows";
	return v;
}

static const union stx_scalar none;

static union stx_scalar prim(enum stx_prim p, enum stx_dtype t, union stx_scalar a,
			     union stx_scalar b)
{
	return stx_prim_eval(p, t, t, a, b, none);
}

/* ---- accumulators ---- */

static struct state identity(const struct stx_kinst *a)
{
	struct state s = { { { .u = 0 }, { .u = 0 }, { .u = 0 } } };
	s.v[0] = stx_monoid_identity((enum stx_monoid)a->flags, (enum stx_dtype)a->dtype);
	if (stx_monoid_is_arg((enum stx_monoid)a->flags))
		s.v[1].i = INT64_MAX;
	return s;
}

static int is_nan(enum stx_dtype t, union stx_scalar v)
{
	return stx_dtype_is_float(t) && isnan(v.f);
}

/* Is (v, i) of p to be kept against q? */
static int arg_first(const struct stx_kinst *a, struct state p, struct state q)
{
	enum stx_dtype t = (enum stx_dtype)a->dtype;
	int np = is_nan(t, p.v[0]), nq = is_nan(t, q.v[0]);
	int first = a->axis != STX_ORDER_RUNNING && p.v[1].i <= q.v[1].i; /* of equals */
	if (np || nq)
		return np && nq ? first : np;
	union stx_scalar eq = stx_prim_eval(STX_P_EQ, STX_BOOL, t, p.v[0], q.v[0], none);
	if (eq.i & 1)
		return first;
	enum stx_prim better = a->flags == STX_MONOID_ARGMAX ? STX_P_GT : STX_P_LT;
	return (int)(stx_prim_eval(better, STX_BOOL, t, p.v[0], q.v[0], none).i & 1);
}

/* Chan's merge (RD-04). The weights come first: a part without elements adds 0, not inf * 0. */
static struct state welford(enum stx_dtype t, struct state p, struct state q)
{
	union stx_scalar d = prim(STX_P_SUB, t, q.v[0], p.v[0]), f = none, w, cross;
	w = prim(STX_P_ADD, t, p.v[2], q.v[2]);
	if (w.f != 0)
		f = prim(STX_P_DIV, t, q.v[2], w);
	cross = prim(STX_P_MUL, t, d, prim(STX_P_MUL, t, d, prim(STX_P_MUL, t, p.v[2], f)));
	p.v[0] = prim(STX_P_ADD, t, p.v[0], prim(STX_P_MUL, t, d, f));
	p.v[1] = prim(STX_P_ADD, t, prim(STX_P_ADD, t, p.v[1], q.v[1]), cross);
	p.v[2] = w;
	return p;
}

static union stx_scalar weight(const struct stx_elem_program *e, enum stx_dtype t,
			       union stx_scalar m, union stx_scalar top)
{
	union stx_scalar d = m.f == top.f ? none : prim(STX_P_SUB, t, m, top);
	return stx_elementary_eval(e, d, d);
}

/* Both sums brought to the greater maximum (MR-05). */
static struct state softmax(const struct stx_elem_program *e, enum stx_dtype t, struct state p,
			    struct state q)
{
	union stx_scalar top = prim(STX_P_MAX, t, p.v[0], q.v[0]);
	p.v[1] = prim(STX_P_ADD, t, prim(STX_P_MUL, t, p.v[1], weight(e, t, p.v[0], top)),
		      prim(STX_P_MUL, t, q.v[1], weight(e, t, q.v[0], top)));
	p.v[0] = top;
	return p;
}

static struct state combine(const struct acc *s, struct state p, struct state q)
{
	const struct stx_kinst *a = s->a;
	enum stx_dtype t = (enum stx_dtype)a->dtype;
	static const enum stx_prim op[] = {
		[STX_MONOID_SUM] = STX_P_ADD, [STX_MONOID_PROD] = STX_P_MUL,
		[STX_MONOID_MAX] = STX_P_MAX, [STX_MONOID_MIN] = STX_P_MIN,
		[STX_MONOID_ANY] = STX_P_OR,  [STX_MONOID_ALL] = STX_P_AND,
		[STX_MONOID_DOT] = STX_P_ADD
	};
	switch (a->flags) {
	case STX_MONOID_ARGMAX:
	case STX_MONOID_ARGMIN: return arg_first(a, p, q) ? p : q;
	case STX_MONOID_WELFORD: return welford(t, p, q);
	case STX_MONOID_SOFTMAX: return softmax(s->exp, t, p, q);
	default: p.v[0] = prim(op[a->flags], t, p.v[0], q.v[0]); return p;
	}
}

static void push_chunk(struct acc *s, struct state v)
{
	struct chunked *c = &s->chunks;
	c->at[c->n] = v;
	c->rank[c->n++] = 0;
	while (c->n > 1 && c->rank[c->n - 1] == c->rank[c->n - 2]) {
		c->at[c->n - 2] = combine(s, c->at[c->n - 2], c->at[c->n - 1]);
		c->rank[c->n - 2]++;
		c->n--;
	}
}

static void reset_lanes(struct acc *s)
{
	for (int i = 0; i < STX_LANES; i++)
		s->lane[i] = identity(s->a);
	s->count = 0;
}

static union stx_scalar exp_of(const struct acc *s, union stx_scalar x, union stx_scalar from)
{
	union stx_scalar d = prim(STX_P_SUB, (enum stx_dtype)s->a->dtype, x, from);
	return stx_elementary_eval(s->exp, d, d);
}

/* The pairs of a block, under one maximum. */
static void attend(struct acc *s)
{
	enum stx_dtype t = (enum stx_dtype)s->a->dtype;
	union stx_scalar *m = s->attended.v, top = m[0], from, w;
	for (int64_t i = 0; i < s->count; i++)
		top = prim(STX_P_MAX, t, top, s->lane[i].v[0]);
	from = top.f == -INFINITY ? none : top;
	w = exp_of(s, m[0], from);
	m[0] = top;
	m[1] = prim(STX_P_MUL, t, m[1], w);
	m[2] = prim(STX_P_MUL, t, m[2], w);
	for (int64_t i = 0; i < s->count; i++) {
		union stx_scalar p = exp_of(s, s->lane[i].v[0], from);
		m[1] = prim(STX_P_ADD, t, m[1], p);
		m[2] = stx_prim_eval(STX_P_FMA, t, t, p, s->lane[i].v[1], m[2]);
	}
	s->count = 0;
}

static void flush(struct acc *s)
{
	if (s->a->axis == STX_ORDER_BLOCKS && s->count)
		attend(s);
	if (s->a->axis >= STX_ORDER_PLAIN || !s->count)
		return;
	if (s->a->axis == STX_ORDER_LANES)
		for (int step = STX_LANES / 2; step; step /= 2)
			for (int i = 0; i < step; i++)
				s->lane[i] = combine(s, s->lane[i], s->lane[i + step]);
	push_chunk(s, s->lane[0]);
	reset_lanes(s);
}

static void open_acc(struct eval *e, uint32_t n)
{
	e->acc[n]->chunks.n = 0;
	e->acc[n]->attended = identity(e->acc[n]->a);
	reset_lanes(e->acc[n]);
	uint32_t axis = e->acc[n]->a->c;
	if (axis == STX_NONE)
		return;
	int64_t size = index_of(e, e->k->axes.at[axis].size);
	union stx_scalar *at = e->acc[n]->each;
	if (size > 0 && !at)
		at = e->acc[n]->each = STX_NEW_ARRAY(e->arena, union stx_scalar, (size_t)size);
	if (size > 0 && !at)
		e->why = "out of memory";
	for (int64_t i = 0; at && i < size; i++)
		at[i] = identity(e->acc[n]->a).v[0];
}

/* One more element, by Welford's recurrence. */
static struct state welford_add(enum stx_dtype t, struct state s, union stx_scalar x)
{
	union stx_scalar one = { .f = 1 }, d = prim(STX_P_SUB, t, x, s.v[0]);
	s.v[2] = prim(STX_P_ADD, t, s.v[2], one);
	s.v[0] = prim(STX_P_ADD, t, s.v[0], prim(STX_P_DIV, t, d, s.v[2]));
	s.v[1] = prim(STX_P_ADD, t, s.v[1], prim(STX_P_MUL, t, d, prim(STX_P_SUB, t, x, s.v[0])));
	return s;
}

static void update(struct eval *e, const struct stx_kinst *u)
{
	const struct stx_kinst *a = &e->k->insts.at[u->a];
	struct acc *s = e->acc[u->a];
	int64_t at = e->vars[e->k->insts.at[s->inner].a];
	struct state *lane = &s->lane[a->axis == STX_ORDER_LANES ? at % STX_LANES : 0];
	struct state v = { { e->value[u->b], { .u = 0 }, { .u = 0 } } };
	if (u->c != STX_NONE)
		v.v[1] = e->value[u->c];
	enum stx_dtype t = (enum stx_dtype)a->dtype;
	struct state one = { { none, none, none } };
	if (a->c != STX_NONE) {
		lane = &one;
		one.v[0] = s->each[e->vars[a->c]];
	}
	if (a->flags == STX_MONOID_DOT && stx_dtype_is_float(t))
		lane->v[0] = stx_prim_eval(STX_P_FMA, t, t, v.v[0], v.v[1], lane->v[0]);
	else if (a->flags == STX_MONOID_DOT)
		lane->v[0] = prim(STX_P_ADD, t, prim(STX_P_MUL, t, v.v[0], v.v[1]), lane->v[0]);
	else if (a->flags == STX_MONOID_ATTEND)
		s->lane[s->count] = v;
	else if (a->flags == STX_MONOID_SOFTMAX)
		*lane = combine(s, *lane, (struct state){ { v.v[0], { .f = 1 }, none } });
	else if (a->flags == STX_MONOID_WELFORD)
		*lane = welford_add(t, *lane, v.v[0]);
	else
		*lane = combine(s, *lane, v);
	if (a->c != STX_NONE)
		s->each[e->vars[a->c]] = one.v[0];
	s->count++;
	if ((a->axis == STX_ORDER_BLOCKS && s->count == STX_ATTEND_BLOCK) ||
	    (a->axis == STX_ORDER_LANES && s->count == STX_LANES_CHUNK) ||
	    (a->axis == STX_ORDER_SERIAL && s->count == STX_SERIAL_CHUNK))
		flush(s);
}

static union stx_scalar result(struct eval *e, const struct stx_kinst *r)
{
	const struct stx_kinst *a = &e->k->insts.at[r->a];
	struct acc *s = e->acc[r->a];
	if (a->axis == STX_ORDER_BLOCKS) {
		const union stx_scalar *m = s->attended.v;
		return r->flags && m[1].f == 0
			       ? m[2]
			       : prim(STX_P_DIV, (enum stx_dtype)a->dtype, m[2], m[1]);
	}
	if (a->c != STX_NONE)
		return s->each[e->vars[a->c]];
	if (a->axis >= STX_ORDER_PLAIN)
		return s->lane[0].v[r->flags];
	if (!s->chunks.n)
		return identity(a).v[r->flags];
	struct state v = s->chunks.at[s->chunks.n - 1];
	for (int i = s->chunks.n - 1; i-- > 0;)
		v = combine(s, s->chunks.at[i], v);
	return v.v[r->flags];
}

/* ---- instructions ---- */

static int on(struct eval *e, uint32_t mask)
{
	return mask == STX_NONE || (e->value[mask].i & 1);
}

static char *element(struct eval *e, const struct stx_kinst *i)
{
	int64_t at = index_of(e, i->ex);
	if (at < 0 || at >= e->elems[i->a]) {
		e->why = "an access is out of bounds";
		return NULL;
	}
	return (char *)e->buffers[i->a] + at * stx_dtype_bytes((enum stx_dtype)i->dtype);
}

static void indirect(struct eval *e, uint32_t n, const struct stx_kinst *i)
{
	int64_t at = e->value[i->a].i, bound = index_of(e, i->ex);
	if ((i->flags & STX_BF_WRAP) && at < 0)
		at += bound;
	if (!on(e, i->c))
		at = 0;
	if (at < 0 || at >= bound) {
		if (!(i->flags & STX_BF_CHECK))
			e->why = "an unchecked index is out of bounds";
		else if (!e->bounds->taken)
			*e->bounds = (struct stx_bounds_record){ .taken = 1,
								 .axis = i->axis,
								 .index = e->value[i->a].i,
								 .bound = bound };
		at = 0;
	}
	e->value[n].i = at;
	e->indirects[n] = at;
}

/* By insertion; what nobody may read is filled with noise. */
static void sort(struct eval *e, const struct stx_kinst *i)
{
	enum stx_dtype t = (enum stx_dtype)i->dtype;
	int64_t first = index_of(e, i->ex), n = index_of(e, e->k->axes.at[i->c].size);
	if (n <= 0)
		return;
	if (first < 0 || first + 2 * n > e->elems[i->a] || first + 2 * n > e->elems[i->b]) {
		e->why = "a sort is out of bounds";
		return;
	}
	char *keys = (char *)e->buffers[i->a] + first * stx_dtype_bytes(t);
	int32_t *values = (int32_t *)e->buffers[i->b] + first;
	size_t width = (size_t)stx_dtype_bytes(t);
	for (int64_t j = 1; j < n; j++) {
		union stx_scalar key = stx_scalar_load(t, keys + (size_t)j * width);
		int32_t value = values[j];
		int64_t at = j;
		for (; at > 0 && stx_scalar_load(t, keys + (size_t)(at - 1) * width).u > key.u;
		     at--) {
			memcpy(keys + (size_t)at * width, keys + (size_t)(at - 1) * width, width);
			values[at] = values[at - 1];
		}
		stx_scalar_store(t, keys + (size_t)at * width, key);
		values[at] = value;
	}
	size_t wanted = (size_t)(i->k.i ? i->k.i : n), rest = 2 * (size_t)n - wanted;
	memset(keys + wanted * width, 0xa5, rest * width);
	memset(values + wanted, 0xa5, rest * sizeof *values);
}

/* Everything but loops. */
static void run_one(struct eval *e, uint32_t n)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	enum stx_dtype t = (enum stx_dtype)i->dtype;
	union stx_scalar v[3] = { none, none, none };
	const uint32_t operand[3] = { i->a, i->b, i->c };
	char *p;
	if (i->op < STX_PRIM_COUNT) {
		for (int j = 0; j < 3; j++)
			if (operand[j] != STX_NONE)
				v[j] = e->value[operand[j]];
		uint32_t from = i->op == STX_P_SELECT ? i->b : i->a;
		e->value[n] =
			stx_prim_eval((enum stx_prim)i->op, t,
				      (enum stx_dtype)e->k->insts.at[from].dtype, v[0], v[1], v[2]);
		return;
	}
	switch (i->op) {
	case STX_K_CONST: e->value[n] = i->k; break;
	case STX_K_INDEX:
		v[0].i = index_of(e, i->ex);
		e->value[n] = stx_prim_eval(STX_P_CAST, t, STX_I64, v[0], none, none);
		break;
	case STX_K_LOAD:
		e->value[n] = none;
		if (on(e, i->c) && (p = element(e, i)))
			e->value[n] = stx_scalar_load(t, p);
		break;
	case STX_K_STORE:
		if (on(e, i->c) && (p = element(e, i)))
			stx_scalar_store(t, p, e->value[i->b]);
		break;
	case STX_K_INDIRECT: indirect(e, n, i); break;
	case STX_K_ACC: open_acc(e, n); break;
	case STX_K_UPDATE: update(e, i); break;
	case STX_K_RESULT: e->value[n] = result(e, i); break;
	case STX_K_SORT: sort(e, i); break;
	default: break;
	}
}

/* Instructions [from, to). Recursion is as deep as loops nest. */
static void run(struct eval *e, uint32_t from, uint32_t to)
{
	for (uint32_t n = from; n < to && !e->why; n++) {
		const struct stx_kinst *i = &e->k->insts.at[n];
		if (i->op != STX_K_LOOP) {
			run_one(e, n);
			continue;
		}
		int64_t size = index_of(e, e->k->axes.at[i->a].size);
		for (int64_t j = 0; j < size && !e->why; j++) {
			e->vars[i->a] = j;
			run(e, n + 1, e->end_of[n]);
		}
		for (struct acc *s = e->ending[n]; s; s = s->next)
			flush(s);
		n = e->end_of[n];
	}
}

static int bind_symbols(struct eval *e)
{
	for (uint32_t i = 0; i < e->k->scalars.n; i++)
		if (e->k->scalars.at[i] >= e->nsyms)
			e->nsyms = e->k->scalars.at[i] + 1;
	if (!(e->syms = calloc(e->nsyms + 1, sizeof *e->syms)))
		return -1;
	for (uint32_t i = 0; i < e->k->scalars.n; i++)
		e->syms[e->k->scalars.at[i]] = e->scalars[i];
	return 0;
}

static struct acc *new_acc(struct eval *e, const struct stx_kinst *a)
{
	struct acc *s = STX_NEW(e->arena, struct acc);
	if (!s)
		return NULL;
	s->a = a;
	if ((a->flags == STX_MONOID_SOFTMAX || a->flags == STX_MONOID_ATTEND) &&
	    !(s->exp = stx_elementary_record(e->arena, STX_P_EXP, (enum stx_dtype)a->dtype)))
		return NULL;
	return s;
}

/* 0, or -1 without memory. */
static int prepare(struct eval *e)
{
	uint32_t n = e->k->insts.n + 1;
	if (!(e->arena = stx_arena_new(0)))
		return -1;
	e->value = STX_NEW_ARRAY(e->arena, union stx_scalar, n);
	e->acc = STX_NEW_ARRAY(e->arena, struct acc *, n);
	e->ending = STX_NEW_ARRAY(e->arena, struct acc *, n);
	e->end_of = STX_NEW_ARRAY(e->arena, uint32_t, n);
	e->indirects = STX_NEW_ARRAY(e->arena, int64_t, n);
	if (stx_arena_oom(e->arena) || bind_symbols(e))
		return -1;
	uint32_t open[STX_KERNEL_MAX_LOOPS], depth = 0;
	for (n = 0; n < e->k->insts.n; n++) {
		const struct stx_kinst *i = &e->k->insts.at[n];
		if (i->op == STX_K_LOOP)
			open[depth++] = n;
		else if (i->op == STX_K_ACC && !(e->acc[n] = new_acc(e, i)))
			return -1;
		if (i->op != STX_K_END && i->op != STX_K_UPDATE)
			continue;
		assert(depth); /* verified: both stand in a loop */
		if (i->op == STX_K_END)
			e->end_of[open[--depth]] = n;
		else
			e->acc[i->a]->inner = open[depth - 1];
	}
	for (n = 0; n < e->k->insts.n; n++)
		if (e->acc[n]) {
			e->acc[n]->next = e->ending[e->acc[n]->inner];
			e->ending[e->acc[n]->inner] = e->acc[n];
		}
	return 0;
}

int64_t stx_kernel_grid_points(const struct stx_kernel *k, const int64_t *scalars)
{
	struct eval e = { .k = k, .scalars = scalars };
	int64_t n = bind_symbols(&e) ? -1 : index_of(&e, k->grid);
	free(e.syms);
	return e.why ? -1 : n;
}

stx_err stx_kernel_evaluate(const struct stx_kernel *k, void *const *buffers, const int64_t *elems,
			    const int64_t *scalars, struct stx_bounds_record *bounds, int64_t begin,
			    int64_t end, struct stx_diag *d)
{
	struct eval e = {
		.k = k, .buffers = buffers, .elems = elems, .scalars = scalars, .bounds = bounds
	};
	stx_err err = prepare(&e) ? stx_fail(d, STX_E_NOMEM, "kernel", k->name, "out of memory")
				  : STX_E_OK;
	int64_t down = begin > end, n = down ? begin - end : end - begin;
	for (int64_t g = 0; !err && g < n && !e.why; g++) {
		/* x, the first grid axis, is the fastest */
		int64_t left = down ? begin - 1 - g : begin + g;
		for (uint32_t i = 0; i < k->axes.n && k->axes.at[i].binding == STX_AXIS_GRID; i++) {
			int64_t size = index_of(&e, k->axes.at[i].size);
			e.vars[i] = size > 0 ? left % size : 0;
			left = size > 0 ? left / size : 0;
		}
		run(&e, 0, k->insts.n);
	}
	if (!err && e.why)
		err = stx_fail(d, STX_E_INTERNAL, "kernel", k->name, "%s", e.why);
	stx_arena_free(e.arena);
	free(e.syms);
	return err;
}
