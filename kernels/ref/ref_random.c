/* ref_random.c: random operators from Philox4x32-10, element by element (NUMERICS.md).
 *
 * Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011); its known
 * answers are in tests/unit/ref/test_random.c. */
#include "ref_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void stx__ref_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
	uint32_t c[4], k[2] = { key[0], key[1] };

	memcpy(c, counter, sizeof c);
	for (int round = 0; round < 10; round++) {
		uint64_t p = UINT64_C(0xD2511F53) * c[0], q = UINT64_C(0xCD9E8D57) * c[2];
		uint32_t next[4] = { (uint32_t)(q >> 32) ^ c[1] ^ k[0], (uint32_t)q,
				     (uint32_t)(p >> 32) ^ c[3] ^ k[1], (uint32_t)p };

		memcpy(c, next, sizeof c);
		k[0] += 0x9E3779B9;
		k[1] += 0xBB67AE85;
	}
	memcpy(out, c, sizeof c);
}

struct source { /* of one node */
	const struct stx_node *n;
	uint64_t seed, counter;
	const struct stx_elem_program *log, *cos;
};

static const struct stx_arg *named(const struct stx_node *n, const char *name)
{
	const struct stx_op_info *info = stx_op_info(n->op);

	for (uint32_t i = 0; i < info->nparams; i++)
		if (!strcmp(info->params[i].name, name))
			return &n->args[i];
	return NULL;
}

static stx_err open_source(struct stx__ref *r, const struct stx_node *n, struct source *s)
{
	int64_t stream, state[2] = { 0, 0 };
	uint32_t at = (uint32_t)(named(n, "state") - n->args);
	const struct stx_tensor *t = stx__ref_arg(r, n, at);
	stx_err e = stx__ref_int(r, n, n->args[at + 1].u.ex, &stream);

	for (int i = 0; t && i < 2; i++)
		state[i] = stx__ref_load(t, t->offset + i * t->strides[0]).i;
	*s = (struct source){ .n = n,
			      .seed = (uint64_t)state[0],
			      .counter = (uint64_t)state[1] + (uint64_t)stream };
	return e;
}

static void words(const struct source *s, int64_t i, uint32_t w[4])
{
	const uint32_t counter[4] = { (uint32_t)i, (uint32_t)((uint64_t)i >> 32),
				      (uint32_t)s->counter, (uint32_t)(s->counter >> 32) };
	const uint32_t key[2] = { (uint32_t)s->seed, (uint32_t)(s->seed >> 32) };

	stx__ref_philox(counter, key, w);
}

static int64_t bits(const struct source *s, int64_t i)
{
	uint32_t w[4];

	words(s, i, w);
	return (int64_t)((uint64_t)w[1] << 32 | w[0]);
}

/* In [0, 1), with as many bits as t has. */
static double uniform(const struct source *s, enum stx_dtype t, int64_t i)
{
	uint32_t w[4];

	words(s, i, w);
	switch (t) {
	case STX_F64: return ldexp((double)(((uint64_t)w[0] << 32 | w[1]) >> 11), -53);
	case STX_F32: return ldexp(w[0] >> 8, -24);
	case STX_F16: return ldexp(w[0] >> 21, -11);
	default: return ldexp(w[0] >> 24, -8);
	}
}

static union stx_scalar normal(const struct source *s, enum stx_dtype t, int64_t i)
{
	union stx_scalar u, v, two = { .f = -2 }, turn = { .f = 6.283185307179586 };
	uint32_t w[4];

	words(s, i, w);
	if (t == STX_F64) {
		u.f = ldexp((double)((((uint64_t)w[0] << 32 | w[1]) >> 11) + 1), -53);
		v.f = ldexp((double)(((uint64_t)w[2] << 32 | w[3]) >> 11), -53);
	} else {
		u.f = ldexp((w[0] >> 8) + 1, -24);
		v.f = ldexp(w[1] >> 8, -24);
		turn = stx__ref_cast(STX_F32, STX_F64, turn);
	}
	u = stx_elementary_eval(s->log, u, u);
	u = stx_prim_eval(STX_P_MUL, t, t, u, two, u);
	u = stx_prim_eval(STX_P_SQRT, t, t, u, u, u);
	v = stx_prim_eval(STX_P_MUL, t, t, v, turn, v);
	v = stx_elementary_eval(s->cos, v, v);
	return stx_prim_eval(STX_P_MUL, t, t, u, v, u);
}

static double parameter(const struct stx_node *n, const char *name, double otherwise)
{
	const struct stx_arg *a = named(n, name);

	return !a ? otherwise : a->kind == STX_ARG_FLOAT ? a->u.f : stx__ref_scalar_f(a);
}

/* k * x + c in f32 or f64, each step rounded, then to t. */
static union stx_scalar scaled(enum stx_dtype t, union stx_scalar x, double by, double plus)
{
	enum stx_dtype work = stx__ref_work(t);
	union stx_scalar k = stx__ref_cast(work, STX_F64, (union stx_scalar){ .f = by }),
			 c = stx__ref_cast(work, STX_F64, (union stx_scalar){ .f = plus });

	x = stx_prim_eval(STX_P_MUL, work, work, x, k, x);
	return stx__ref_cast(t, work, stx_prim_eval(STX_P_ADD, work, work, x, c, x));
}

/* Element i of a floating-point result; x: the operand's element. */
static union stx_scalar float_element(const struct source *s, enum stx_dtype t, int64_t i,
				      union stx_scalar x)
{
	const struct stx_node *n = s->n;
	enum stx_dtype work = stx__ref_work(t);
	union stx_scalar v;
	double from;

	switch (n->op) {
	case STX_OP_RAND:
	case STX_OP_RAND_LIKE: return (union stx_scalar){ .f = uniform(s, t, i) };
	case STX_OP_UNIFORM:
		v.f = uniform(s, t, i);
		from = parameter(n, "from", 0);
		return scaled(t, v, parameter(n, "to", 1) - from, from);
	case STX_OP_BERNOULLI_P:
		v = stx__ref_cast(work, STX_F64, (union stx_scalar){ .f = n->args[1].u.f });
		return (union stx_scalar){ .f = uniform(s, work, i) < v.f };
	case STX_OP_BERNOULLI: return (union stx_scalar){ .f = uniform(s, work, i) < x.f };
	case STX_OP_NORMAL:
		v = stx__ref_cast(t, work, normal(s, work, i)); /* a node of its own: rounded */
		return scaled(t, v, parameter(n, "std", 1), parameter(n, "mean", 0));
	default: return stx__ref_cast(t, work, normal(s, work, i));
	}
}

static stx_err functions(struct stx__ref *r, struct source *s, enum stx_dtype t)
{
	if (!stx_dtype_is_float(t))
		return 0;
	s->log = stx__ref_program(r, STX_P_LOG, stx__ref_work(t));
	s->cos = stx__ref_program(r, STX_P_COS, stx__ref_work(t));
	return s->log && s->cos ? 0 : stx__ref_fail(r, s->n, STX_E_NOMEM, "out of memory");
}

/* The operand's elements in row-major order beside those of the result, where there is one. */
stx_err stx__ref_random(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x =
		n->args[0].kind == STX_ARG_TENSOR ? stx__ref_arg(r, n, 0) : NULL;
	struct source s;
	struct stx__ref_walk w;
	struct stx_tensor *out;
	stx_err e = open_source(r, n, &s);

	if (!e)
		e = functions(r, &s, n->outs[0].dtype);
	if (e)
		return e;
	out = stx__ref_result(r, n);
	if (!out)
		return stx__ref_error(r);
	stx__ref_walk_start(&w, out->rank, out->sizes);
	stx__ref_walk_broadcast(&w, x ? x : out);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w))
		stx__ref_store(out, i,
			       float_element(&s, n->outs[0].dtype, i,
					     x ? stx__ref_load(x, w.off[0])
					       : (union stx_scalar){ .f = 0 }));
	return 0;
}

stx_err stx__ref_random_int(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_arg *l = named(n, "low"), *h = named(n, "high");
	int64_t low = 0, high = 0;
	struct source s;
	struct stx_tensor *out;
	stx_err e = open_source(r, n, &s);

	if (!e && l)
		e = stx__ref_int(r, n, l->u.ex, &low);
	if (!e && h)
		e = stx__ref_int(r, n, h->u.ex, &high);
	if (e)
		return e;
	out = stx__ref_result(r, n);
	if (!out)
		return stx__ref_error(r);
	for (int64_t i = 0; i < stx__ref_numel(out); i++) {
		union stx_scalar v = { .i = bits(&s, i) };

		if (h)
			v.i = (v.i & INT64_MAX) % (high - low) + low;
		stx__ref_store(out, i, stx__ref_cast(n->outs[0].dtype, STX_I64, v));
	}
	return 0;
}

struct key {
	int64_t v, at;
};

static int by_value(const void *p, const void *q)
{
	const struct key *a = p, *b = q;

	if (a->v != b->v)
		return a->v < b->v ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

stx_err stx__ref_randperm(struct stx__ref *r, const struct stx_node *n)
{
	struct source s;
	struct stx_tensor *out;
	struct key *keys;
	stx_err e = open_source(r, n, &s);

	if (e)
		return e;
	out = stx__ref_result(r, n);
	if (!out)
		return stx__ref_error(r);
	keys = calloc((size_t)stx__ref_numel(out) + 1, sizeof *keys);
	if (!keys)
		return stx__ref_fail(r, n, STX_E_NOMEM, "out of memory");
	for (int64_t i = 0; i < stx__ref_numel(out); i++)
		keys[i] = (struct key){ bits(&s, i), i };
	qsort(keys, (size_t)stx__ref_numel(out), sizeof *keys, by_value);
	for (int64_t i = 0; i < stx__ref_numel(out); i++)
		stx__ref_store(out, i,
			       stx__ref_cast(n->outs[0].dtype, STX_I64,
					     (union stx_scalar){ .i = keys[i].at }));
	free(keys);
	return 0;
}

stx_err stx__ref_dropout(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	double keep = 1 - n->args[1].u.f;
	int drops = n->args[2].u.i && keep != 1;
	enum stx_dtype t = n->outs[0].dtype, work = stx__ref_work(t);
	union stx_scalar scale = { .f = keep > 0 ? 1 / keep : 0 }, limit = { .f = keep };
	struct stx_tensor *out, *mask;
	struct stx__ref_walk w;
	struct source s;
	stx_err e = open_source(r, n, &s);

	if (e)
		return e;
	out = stx__ref_result(r, n);
	mask = out ? stx__ref_result_at(r, n, 1) : NULL;
	if (!mask)
		return stx__ref_error(r);
	scale = stx__ref_cast(work, STX_F64, scale);
	limit = stx__ref_cast(STX_F32, STX_F64, limit);
	stx__ref_walk_start(&w, x->rank, x->sizes);
	stx__ref_walk_broadcast(&w, x);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		union stx_scalar v = stx__ref_load(x, w.off[0]), m;

		m.i = !drops || uniform(&s, STX_F32, i) < limit.f;
		stx__ref_store(mask, i, m);
		if (drops) {
			m.f = (double)m.i;
			v = stx_prim_eval(STX_P_MUL, work, work, v, m, v);
			v = stx_prim_eval(STX_P_MUL, work, work, v, scale, v);
			v = stx__ref_cast(t, work, v);
		}
		stx__ref_store(out, i, v);
	}
	return 0;
}
