/* ref_scan.c: running sums and products along one dimension, each partial result rounded once. */
#include "ref_internal.h"

#include <math.h>
#include <string.h>

struct lines { /* along dimension 1 of the arguments; operands of w: x, the result */
	struct stx__ref_walk w;
	int64_t count, xs, os; /* elements of a line, and their strides */
};

static stx_err start_lines(struct stx__ref *r, const struct stx_node *n, const struct stx_tensor *x,
			   const struct stx_tensor *out, struct lines *l)
{
	int64_t sizes[STX_MAX_DIMS];
	uint32_t d;
	stx_err e = stx__ref_dim(r, n, n->args[1].u.ex, x->rank, &d);

	if (e)
		return e;
	memcpy(sizes, x->sizes, sizeof sizes);
	l->count = x->rank ? x->sizes[d] : 1;
	l->xs = x->rank ? x->strides[d] : 0;
	l->os = x->rank ? out->strides[d] : 0;
	if (x->rank)
		sizes[d] = 1;
	stx__ref_walk_start(&l->w, x->rank, sizes);
	stx__ref_walk_add(&l->w, x->strides, x->offset);
	stx__ref_walk_add(&l->w, out->strides, 0);
	return 0;
}

stx_err stx__ref_scan(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	struct stx_tensor *out = stx__ref_result(r, n);
	struct lines l;
	stx_err e = out ? start_lines(r, n, x, out, &l) : stx__ref_error(r);

	if (e)
		return e;
	enum stx_dtype t = (enum stx_dtype)out->dtype;

	for (; l.w.left > 0; stx__ref_walk_next(&l.w)) {
		struct stx__ref_sum sum = { 0, 0 };
		long double product = 1;
		uint64_t whole = n->op == STX_OP_CUMPROD;

		for (int64_t i = 0; i < l.count; i++) {
			union stx_scalar v = stx__ref_cast(t, (enum stx_dtype)x->dtype,
							   stx__ref_load(x, l.w.off[0] + i * l.xs));

			if (!stx_dtype_is_float(t)) {
				whole = n->op == STX_OP_CUMPROD ? whole * v.u : whole + v.u;
				v = stx_scalar_wrap(t, whole);
			} else if (n->op == STX_OP_CUMPROD) {
				product *= v.f;
				v.f = stx__ref_round_wide(t, product);
			} else {
				stx__ref_sum_add(&sum, v.f);
				v.f = stx__ref_round_wide(t, stx__ref_sum_value(&sum));
			}
			stx__ref_store(out, l.w.off[1] + i * l.os, v);
		}
	}
	return 0;
}

struct running {
	long double top, sum; /* log-sum-exp: sum of exp(x - top) */
	union stx_scalar best;
	int64_t at;
};

/* One more element: x takes the place of the extreme when it is NaN, or not less (greater) and the
 * extreme is not NaN: of equal ones the last. */
static void take(struct running *s, const struct stx_node *n, enum stx_dtype t, union stx_scalar x,
		 int64_t i)
{
	int max = n->op == STX_OP_CUMMAX, is_float = stx_dtype_is_float(t), wins;

	if (n->op == STX_OP_LOGCUMSUMEXP) {
		long double v = x.f, top = v > s->top || isnan(x.f) ? v : s->top;

		if (isinf(top) && top < 0)
			return;
		if (isinf(top) && !isnan((double)s->sum)) {
			s->sum = 1;
		} else {
			s->sum = (s->sum != 0 ? s->sum * expl(s->top - top) : 0) +
				 (isinf(v) ? 0 : expl(v - top));
		}
		s->top = top;
		return;
	}
	if (is_float)
		wins = isnan(x.f) ||
		       (!isnan(s->best.f) && (max ? x.f >= s->best.f : x.f <= s->best.f));
	else if (stx_dtype_kind(t) == STX_KIND_INT)
		wins = max ? x.i >= s->best.i : x.i <= s->best.i;
	else
		wins = max ? x.u >= s->best.u : x.u <= s->best.u;
	if (i == 0 || wins) {
		s->best = x;
		s->at = i;
	}
}

stx_err stx__ref_running(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	enum stx_dtype t = (enum stx_dtype)x->dtype;
	struct stx_tensor *out = stx__ref_result(r, n), *places = NULL;
	struct lines l;

	if (out && n->nouts > 1)
		places = stx__ref_result_at(r, n, 1);
	if (!out || (n->nouts > 1 && !places))
		return stx__ref_error(r);
	stx_err e = start_lines(r, n, x, out, &l);

	if (e)
		return e;
	for (; l.w.left > 0; stx__ref_walk_next(&l.w)) {
		struct running s = { .top = -INFINITY };

		for (int64_t i = 0; i < l.count; i++) {
			union stx_scalar v;

			take(&s, n, t, stx__ref_load(x, l.w.off[0] + i * l.xs), i);
			v = s.best;
			if (!places)
				v.f = stx__ref_round_wide(t, s.top + logl(s.sum));
			stx__ref_store(out, l.w.off[1] + i * l.os, v);
			if (places)
				stx__ref_store(places, l.w.off[1] + i * l.os,
					       (union stx_scalar){ .i = s.at });
		}
	}
	return 0;
}
