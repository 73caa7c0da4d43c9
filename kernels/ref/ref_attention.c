/* ref_attention.c: attention row by row: scores, mask, softmax, the weighted sum of values. Inside in
 * f32 (f64 for f64), sums in extended precision rounded there, one rounding to the type at the end.
 * A row that sees no key is 0 (B07); a value whose weight is 0 still counts: 0 * inf is NaN. */
#include "ref_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct row {
	enum stx_dtype t;
	const struct stx_elem_program *exp;
	double *at; /* [keys] scores, then weights */
	int64_t keys;
	int safe;
};

static double rd(const struct row *w, double v)
{
	return w->t == STX_F64 ? v : (float)v;
}

static stx_err row_open(struct stx__ref *r, const struct stx_node *n, enum stx_dtype t,
			int64_t keys, struct row *w)
{
	*w = (struct row){ .t = t, .keys = keys, .exp = stx__ref_program(r, STX_P_EXP, t) };
	w->at = malloc((size_t)(keys + 1) * sizeof *w->at);
	return w->exp && w->at ? 0 : stx__ref_fail(r, n, STX_E_NOMEM, "out of memory");
}

static void softmax(struct row *w)
{
	double top = -INFINITY, total;
	struct stx__ref_sum s = { 0, 0 };
	for (int64_t k = 0; k < w->keys; k++)
		top = isnan(top) || isnan(w->at[k]) ? NAN : fmax(top, w->at[k]);
	if (w->safe && top == -INFINITY) {
		memset(w->at, 0, (size_t)w->keys * sizeof *w->at);
		return;
	}
	for (int64_t k = 0; k < w->keys; k++) {
		union stx_scalar d = { .f = rd(w, w->at[k] - top) };
		w->at[k] = stx_elementary_eval(w->exp, d, d).f;
		stx__ref_sum_add(&s, w->at[k]);
	}
	total = stx__ref_round_wide(w->t, stx__ref_sum_value(&s));
	for (int64_t k = 0; k < w->keys; k++)
		w->at[k] = rd(w, w->at[k] / total);
}

/* Sum of weights times v[at + k*stride]. */
static double weighted(const struct row *w, const struct stx_tensor *v, int64_t at, int64_t stride)
{
	struct stx__ref_sum s = { 0, 0 };
	for (int64_t k = 0; k < w->keys; k++)
		stx__ref_sum_add(&s, (long double)w->at[k] *
					     (long double)stx__ref_load(v, at + k * stride).f);
	return stx__ref_round_wide(w->t, stx__ref_sum_value(&s));
}

stx_err stx__ref_attend(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0), *v = stx__ref_arg(r, n, 1);
	struct stx_tensor *out = stx__ref_result(r, n);
	uint32_t b = x->rank - 2u;
	int64_t xs = x->strides[b + 1], vs = v->strides[b], cols = v->sizes[b + 1], i = 0;
	struct row w;
	if (!out)
		return stx__ref_error(r);
	stx_err e = row_open(r, n, (enum stx_dtype)x->dtype, x->sizes[b + 1], &w);
	w.safe = (int)n->args[2].u.i;
	for (int64_t m = 0; !e && m < (b ? x->sizes[0] : 1); m++)
		for (int64_t q = 0; q < x->sizes[b]; q++) {
			int64_t xo = x->offset + q * x->strides[b] + (b ? m * x->strides[0] : 0);
			int64_t vo = v->offset + (b ? m * v->strides[0] : 0);
			for (int64_t k = 0; k < w.keys; k++)
				w.at[k] = stx__ref_load(x, xo + k * xs).f;
			softmax(&w);
			for (int64_t c = 0; c < cols; c++)
				stx__ref_store(
					out, i++,
					(union stx_scalar){
						.f = stx_scalar_round(
							(enum stx_dtype)out->dtype,
							weighted(&w, v, vo + c * v->strides[b + 1],
								 vs)) });
		}
	free(w.at);
	return e;
}

/* ---- scaled_dot_product_attention ---- */

struct sdpa {
	const struct stx_tensor *q, *k, *v, *mask;
	double scale;
	int causal, gqa;
};

/* Element offset of t's matrix of the walk's batch point: dimensions align to the right, heads of
 * keys serve several heads of queries. */
static int64_t matrix(const struct sdpa *a, const struct stx_tensor *t, const int64_t *at,
		      uint32_t batch, int grouped)
{
	int64_t off = t->offset, own = (int64_t)t->rank - 2;
	for (int64_t d = 0; d < own; d++) {
		int64_t i = at[batch - (uint32_t)own + (uint32_t)d];
		if (grouped && a->gqa && d == own - 1)
			i /= a->q->sizes[a->q->rank - 3] / t->sizes[d];
		off += t->sizes[d] == 1 ? 0 : i * t->strides[d];
	}
	return off;
}

static int64_t mask_at(const struct stx_tensor *m, const int64_t *at, uint32_t batch, int64_t row,
		       int64_t key)
{
	int64_t off = m->offset;
	for (uint32_t d = 0; d < m->rank; d++) {
		uint32_t from = batch + 2 - m->rank + d;
		int64_t i = from == batch + 1 ? key : from == batch ? row : at[from];
		off += m->sizes[d] == 1 ? 0 : i * m->strides[d];
	}
	return off;
}

static double score(const struct sdpa *a, const struct row *w, int64_t qo, int64_t ko)
{
	struct stx__ref_sum s = { 0, 0 };
	uint32_t last = a->q->rank - 1u, klast = a->k->rank - 1u;
	for (int64_t e = 0; e < a->q->sizes[last]; e++)
		stx__ref_sum_add(
			&s,
			(long double)stx__ref_load(a->q, qo + e * a->q->strides[last]).f *
				(long double)stx__ref_load(a->k, ko + e * a->k->strides[klast]).f);
	return rd(w, stx__ref_round_wide(w->t, stx__ref_sum_value(&s)) * rd(w, a->scale));
}

static void scores(const struct sdpa *a, struct row *w, const int64_t *at, uint32_t batch,
		   int64_t row)
{
	int64_t qo = matrix(a, a->q, at, batch, 0) + row * a->q->strides[a->q->rank - 2];
	int64_t ko = matrix(a, a->k, at, batch, 1);
	for (int64_t k = 0; k < w->keys; k++) {
		double s = score(a, w, qo, ko + k * a->k->strides[a->k->rank - 2]);
		if (a->causal && k > row)
			s = -INFINITY;
		if (a->mask) {
			union stx_scalar m =
				stx__ref_load(a->mask, mask_at(a->mask, at, batch, row, k));
			if (a->mask->dtype == STX_BOOL)
				s = m.i & 1 ? s : -INFINITY;
			else
				s = rd(w, s + rd(w, m.f));
		}
		w->at[k] = s;
	}
}

stx_err stx__ref_sdpa(struct stx__ref *r, const struct stx_node *n)
{
	struct sdpa a = { .q = stx__ref_arg(r, n, 0),
			  .k = stx__ref_arg(r, n, 1),
			  .v = stx__ref_arg(r, n, 2),
			  .mask = stx__ref_arg(r, n, 3),
			  .causal = (int)n->args[5].u.i,
			  .gqa = (int)n->args[7].u.i };
	struct stx_tensor *out = stx__ref_result(r, n);
	struct stx__ref_walk batch;
	struct row w;
	int64_t i = 0;
	if (!out)
		return stx__ref_error(r);
	a.scale = n->args[6].kind == STX_ARG_FLOAT ? n->args[6].u.f
						   : 1 / sqrt((double)a.q->sizes[a.q->rank - 1]);
	stx_err e = row_open(r, n, stx__ref_work((enum stx_dtype)out->dtype),
			     a.k->sizes[a.k->rank - 2], &w);
	w.safe = 1;
	uint32_t nb = out->rank - 2u;
	stx__ref_walk_start(&batch, nb, out->sizes);
	for (; !e && batch.left > 0; stx__ref_walk_next(&batch))
		for (int64_t row = 0; row < out->sizes[nb]; row++) {
			int64_t vo = matrix(&a, a.v, batch.at, nb, 1);
			scores(&a, &w, batch.at, nb, row);
			softmax(&w);
			for (int64_t c = 0; c < out->sizes[nb + 1]; c++, i++) {
				double v = weighted(&w, a.v, vo + c * a.v->strides[a.v->rank - 1],
						    a.v->strides[a.v->rank - 2]);
				stx__ref_store(out, i,
					       (union stx_scalar){
						       .f = stx_scalar_round(
							       (enum stx_dtype)out->dtype, v) });
			}
		}
	free(w.at);
	return e;
}
