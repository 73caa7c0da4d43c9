/* ref_norm.c: normalisations with their statistics, and their gradients, in extended precision;
 * each result is rounded once. Every element belongs to a row of statistics and to a channel of
 * weights. */
#include "ref_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

struct norm {
	struct stx__ref *r;
	const struct stx_node *n;
	const struct stx_tensor *x;
	int64_t count, nrows, nchannels;
	int64_t inner;                   /* layer norm: elements of a row; else 0 */
	int64_t channels, rest, per_row; /* C, HxW, channels of a row; per_row 0: batch norm */
	long double *v;                  /* [count] operand, row-major */
	long double *mean, *rstd, *var;  /* [nrows] */
};

static int64_t row_of(const struct norm *m, int64_t i)
{
	int64_t c;

	if (m->inner)
		return i / m->inner;
	assert(m->rest && m->channels); /* there is an element i */
	c = i / m->rest % m->channels;
	return m->per_row
		       ? i / (m->rest * m->channels) * (m->channels / m->per_row) + c / m->per_row
		       : c;
}

static int64_t channel_of(const struct norm *m, int64_t i)
{
	return m->inner ? i % m->inner : i / m->rest % m->channels;
}

/* All elements of t in row-major order. */
static long double *values(struct stx__ref *r, const struct stx_tensor *t)
{
	int64_t n = stx__ref_numel(t);
	long double *v = STX_NEW_ARRAY(r->arena, long double, (size_t)n + 1);
	struct stx__ref_walk w;

	stx__ref_walk_start(&w, t->rank, t->sizes);
	stx__ref_walk_broadcast(&w, t);
	for (int64_t i = 0; v && w.left > 0; i++, stx__ref_walk_next(&w))
		v[i] = stx__ref_load(t, w.off[0]).f;
	return v;
}

static stx_err open_norm(struct norm *m, struct stx__ref *r, const struct stx_node *n,
			 const struct stx_tensor *x)
{
	*m = (struct norm){ .r = r, .n = n, .x = x, .count = stx__ref_numel(x), .rest = 1 };
	m->v = values(r, x);
	return m->v ? 0 : stx__ref_fail(r, n, STX_E_NOMEM, "out of memory");
}

static void by_layer(struct norm *m, uint32_t dims)
{
	m->inner = m->nrows = 1;
	for (uint32_t i = 0; i < m->x->rank; i++)
		*(i + dims < m->x->rank ? &m->nrows : &m->inner) *= m->x->sizes[i];
	m->nchannels = m->inner;
}

static void by_channel(struct norm *m, int64_t groups)
{
	m->channels = m->nchannels = m->nrows = m->x->sizes[1];
	for (uint32_t i = 2; i < m->x->rank; i++)
		m->rest *= m->x->sizes[i];
	if (groups) {
		m->per_row = m->channels / groups;
		m->nrows = m->x->sizes[0] * groups;
	}
}

/* Mean, variance (divided by the number of elements) and 1/sqrt(variance + eps) of each row. */
static stx_err statistics(struct norm *m, long double eps)
{
	size_t n = (size_t)m->nrows + 1;
	struct stx__ref_sum *s = STX_NEW_ARRAY(m->r->arena, struct stx__ref_sum, n);
	long double size = m->nrows ? (long double)m->count / (long double)m->nrows : 0;

	m->mean = STX_NEW_ARRAY(m->r->arena, long double, n);
	m->var = STX_NEW_ARRAY(m->r->arena, long double, n);
	m->rstd = STX_NEW_ARRAY(m->r->arena, long double, n);
	if (!s || !m->mean || !m->var || !m->rstd)
		return stx__ref_fail(m->r, m->n, STX_E_NOMEM, "out of memory");
	for (int64_t i = 0; i < m->count; i++)
		stx__ref_sum_add(&s[row_of(m, i)], m->v[i]);
	for (int64_t k = 0; k < m->nrows; k++) {
		m->mean[k] = stx__ref_sum_value(&s[k]) / size;
		s[k] = (struct stx__ref_sum){ 0, 0 };
	}
	for (int64_t i = 0; i < m->count; i++) {
		long double d = m->v[i] - m->mean[row_of(m, i)];

		stx__ref_sum_add(&s[row_of(m, i)], d * d);
	}
	for (int64_t k = 0; k < m->nrows; k++) {
		m->var[k] = stx__ref_sum_value(&s[k]) / size;
		m->rstd[k] = 1 / sqrtl(m->var[k] + eps);
	}
	return 0;
}

static stx_err put(struct norm *m, uint32_t result, const long double *v)
{
	struct stx_tensor *out = stx__ref_result_at(m->r, m->n, result);

	if (!out)
		return stx__ref_error(m->r);
	for (int64_t i = 0; i < stx__ref_numel(out); i++)
		stx__ref_store(out, i,
			       (union stx_scalar){
				       .f = stx__ref_round_wide(m->n->outs[result].dtype, v[i]) });
	return 0;
}

/* Values of argument i, one a channel; NULL when there is none. */
static const long double *channel(const struct norm *m, uint32_t i)
{
	return m->n->args[i].kind == STX_ARG_TENSOR ? values(m->r, stx__ref_arg(m->r, m->n, i))
						    : NULL;
}

/* Result 0; weight is argument i, bias the next. */
static stx_err normalise(struct norm *m, uint32_t at)
{
	const long double *w = channel(m, at), *b = channel(m, at + 1);

	for (int64_t i = 0; i < m->count; i++) {
		int64_t row = row_of(m, i), c = channel_of(m, i);
		long double y = (m->v[i] - m->mean[row]) * m->rstd[row];

		if (w)
			y *= w[c];
		m->v[i] = b ? y + b[c] : y;
	}
	return put(m, 0, m->v);
}

stx_err stx__ref_native_norm(struct stx__ref *r, const struct stx_node *n)
{
	int layer = n->op == STX_OP_NATIVE_LAYER_NORM;
	struct norm m;
	int64_t groups = 0;
	stx_err e = open_norm(&m, r, n, stx__ref_arg(r, n, 0));

	if (!e && !layer)
		e = stx__ref_int(r, n, n->args[6].u.ex, &groups);
	if (e)
		return e;
	if (layer)
		by_layer(&m, n->args[1].n);
	else
		by_channel(&m, groups);
	e = statistics(&m, n->args[layer ? 4 : 7].u.f);
	if (!e)
		e = put(&m, 1, m.mean);
	if (!e)
		e = put(&m, 2, m.rstd);
	return e ? e : normalise(&m, layer ? 2 : 1);
}

/* New running statistics: momentum * batch + (1 - momentum) * running; the variance unbiased. */
static stx_err put_running(struct norm *m, long double momentum, int training)
{
	long double *old[2], n = m->nrows ? (long double)m->count / (long double)m->nrows : 0;
	stx_err e = 0;

	for (uint32_t i = 0; i < 2 && !e; i++) {
		old[i] = values(m->r, stx__ref_arg(m->r, m->n, 3 + i));
		if (!old[i])
			return stx__ref_fail(m->r, m->n, STX_E_NOMEM, "out of memory");
		for (int64_t k = 0; training && k < m->nrows; k++)
			old[i][k] = (1 - momentum) * old[i][k] +
				    momentum * (i ? m->var[k] * (n / (n - 1)) : m->mean[k]);
		e = put(m, 3 + i, old[i]);
	}
	return e;
}

stx_err stx__ref_batch_norm(struct stx__ref *r, const struct stx_node *n)
{
	int functional = n->op == STX_OP_BATCH_NORM_FUNCTIONAL;
	int training = n->op == STX_OP_BATCH_NORM_NO_STATS || (functional && n->args[5].u.i);
	long double eps = n->args[n->nargs - 1].u.f;
	struct norm m;
	stx_err e = open_norm(&m, r, n, stx__ref_arg(r, n, 0));

	if (e)
		return e;
	by_channel(&m, 0);
	if ((e = statistics(&m, eps)))
		return e;
	if (functional)
		e = put_running(&m, n->args[n->nargs - 2].u.f, training);
	if (!training) {
		m.mean = values(r, stx__ref_arg(r, n, 3));
		m.rstd = values(r, stx__ref_arg(r, n, 4));
		if (!m.mean || !m.rstd)
			return stx__ref_fail(r, n, STX_E_NOMEM, "out of memory");
		for (int64_t k = 0; k < m.nrows; k++)
			m.rstd[k] = 1 / sqrtl(m.rstd[k] + eps);
	}
	if (!e)
		e = put(&m, 1, m.mean);
	if (!e)
		e = put(&m, 2, m.rstd);
	return e ? e : normalise(&m, 1);
}

stx_err stx__ref_norm_grad(struct stx__ref *r, const struct stx_node *n)
{
	int layer = n->op == STX_OP_LAYER_NORM_GRAD;
	uint32_t stats = layer ? 3 : 2;
	struct norm m;
	int64_t groups = 0;
	stx_err e = open_norm(&m, r, n, stx__ref_arg(r, n, 1));

	if (!e && !layer)
		e = stx__ref_int(r, n, n->args[8].u.ex, &groups);
	if (e)
		return e;
	if (layer)
		by_layer(&m, n->args[2].n);
	else
		by_channel(&m, groups);
	const long double *w = channel(&m, layer ? 5 : 4);
	long double *g = values(r, stx__ref_arg(r, n, 0)), *dw, *db;
	struct stx__ref_sum *s1, *s2, *sw, *sb;
	long double size = m.nrows ? (long double)m.count / (long double)m.nrows : 0;

	m.mean = values(r, stx__ref_arg(r, n, stats));
	m.rstd = values(r, stx__ref_arg(r, n, stats + 1));
	s1 = STX_NEW_ARRAY(r->arena, struct stx__ref_sum, (size_t)m.nrows + 1);
	s2 = STX_NEW_ARRAY(r->arena, struct stx__ref_sum, (size_t)m.nrows + 1);
	sw = STX_NEW_ARRAY(r->arena, struct stx__ref_sum, (size_t)m.nchannels + 1);
	sb = STX_NEW_ARRAY(r->arena, struct stx__ref_sum, (size_t)m.nchannels + 1);
	dw = STX_NEW_ARRAY(r->arena, long double, (size_t)m.nchannels + 1);
	db = STX_NEW_ARRAY(r->arena, long double, (size_t)m.nchannels + 1);
	if (!g || !m.mean || !m.rstd || !s1 || !s2 || !sw || !sb || !dw || !db)
		return stx__ref_fail(r, n, STX_E_NOMEM, "out of memory");
	for (int64_t i = 0; i < m.count; i++) {
		int64_t row = row_of(&m, i), c = channel_of(&m, i);
		long double by = w ? g[i] * w[c] : g[i];

		m.v[i] = (m.v[i] - m.mean[row]) * m.rstd[row];
		stx__ref_sum_add(&s1[row], by);
		stx__ref_sum_add(&s2[row], by * m.v[i]);
		stx__ref_sum_add(&sw[c], g[i] * m.v[i]);
		stx__ref_sum_add(&sb[c], g[i]);
	}
	for (int64_t c = 0; c < m.nchannels; c++) {
		dw[c] = stx__ref_sum_value(&sw[c]);
		db[c] = stx__ref_sum_value(&sb[c]);
	}
	for (int64_t i = 0; i < m.count; i++) {
		int64_t row = row_of(&m, i);
		long double by = w ? g[i] * w[channel_of(&m, i)] : g[i];

		m.v[i] = m.rstd[row] / size *
			 (size * by - stx__ref_sum_value(&s1[row]) -
			  m.v[i] * stx__ref_sum_value(&s2[row]));
	}
	if (!e)
		e = put(&m, 0, m.v);
	if (!e)
		e = put(&m, 1, dw);
	return e ? e : put(&m, 2, db);
}
