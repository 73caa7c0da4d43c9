/* ref_search.c: searches by counting, distances in extended precision, each rounded once. */
#include "passes.h"
#include "ref_internal.h"

#include <math.h>

/* x comes before v: NaN last. */
static int comes_before(enum stx_dtype t, union stx_scalar x, union stx_scalar v, int right)
{
	switch (stx_dtype_kind(t)) {
	case STX_KIND_FLOAT: return right ? !(x.f > v.f) : !(x.f >= v.f);
	case STX_KIND_INT: return right ? x.i <= v.i : x.i < v.i;
	default: return right ? x.u <= v.u : x.u < v.u;
	}
}

static enum stx_dtype common_type(const struct stx_tensor *a, const struct stx_tensor *b)
{
	return stx_promote((enum stx_dtype)a->dtype, (enum stx_dtype)b->dtype);
}

/* As a binary search finds it in a sequence that may not be sorted where NaN is compared: the
 * elements up to the first that does not come before. */
stx_err stx__ref_search(struct stx__ref *r, const struct stx_node *n)
{
	int bucketize = n->op == STX_OP_BUCKETIZE, right = (int)n->args[3].u.i;
	const struct stx_tensor *s = stx__ref_arg(r, n, (uint32_t)bucketize);
	const struct stx_tensor *v = stx__ref_arg(r, n, (uint32_t)!bucketize);
	enum stx_dtype t = common_type(s, v), ts = (enum stx_dtype)s->dtype;
	int64_t rows[STX_MAX_DIMS] = { 0 }, size = s->sizes[s->rank - 1];
	struct stx__ref_walk w;
	struct stx_tensor *out = stx__ref_result(r, n);

	if (!out)
		return stx__ref_error(r);
	for (uint32_t i = 0; s->rank > 1 && i + 1 < v->rank; i++)
		rows[i] = s->strides[i];
	stx__ref_walk_start(&w, v->rank, v->sizes);
	stx__ref_walk_add(&w, v->strides, v->offset);
	stx__ref_walk_add(&w, rows, s->offset);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		union stx_scalar x =
			stx__ref_cast(t, (enum stx_dtype)v->dtype, stx__ref_load(v, w.off[0]));
		int64_t lo = 0, hi = size;

		while (lo < hi) {
			int64_t mid = lo + (hi - lo) / 2;
			union stx_scalar y = stx__ref_cast(
				t, ts, stx__ref_load(s, w.off[1] + mid * s->strides[s->rank - 1]));

			if (comes_before(t, y, x, right))
				lo = mid + 1;
			else
				hi = mid;
		}
		stx__ref_store(out, i, (union stx_scalar){ .i = lo });
	}
	return 0;
}

/* ---- distances ---- */

struct rows { /* count rows of size elements, some strides apart */
	const struct stx_tensor *t;
	int64_t size, step;
};

static long double distance(struct rows a, int64_t i, struct rows b, int64_t j, double p)
{
	struct stx__ref_sum s = { 0, 0 };
	long double top = 0;

	for (int64_t k = 0; k < a.size; k++) {
		long double d = fabsl((long double)stx__ref_load(a.t, i + k * a.step).f -
				      stx__ref_load(b.t, j + k * b.step).f);

		top = isnan((double)d) || d > top ? d : top;
		if (p == 0)
			d = isnan((double)d) ? d : d != 0;
		else if (!isinf(p))
			d = powl(d, p);
		stx__ref_sum_add(&s, d);
	}
	if (isinf(p))
		return isnan((double)stx__ref_sum_value(&s)) ? (long double)NAN : top;
	return p == 0 ? stx__ref_sum_value(&s) : powl(stx__ref_sum_value(&s), 1 / (long double)p);
}

static void put(struct stx_tensor *out, int64_t i, long double v)
{
	stx__ref_store(
		out, i,
		(union stx_scalar){ .f = stx__ref_round_wide((enum stx_dtype)out->dtype, v) });
}

stx_err stx__ref_cdist(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0), *y = stx__ref_arg(r, n, 1);
	uint32_t last = x->rank - 1u;
	struct rows a = { x, x->sizes[last], x->strides[last] };
	struct rows b = { y, y->sizes[last], y->strides[last] };
	int64_t sx[STX_MAX_DIMS], sy[STX_MAX_DIMS];
	struct stx__ref_walk w;
	struct stx_tensor *out = stx__ref_result(r, n);

	if (!out)
		return stx__ref_error(r);
	for (uint32_t i = 0; i < x->rank; i++) {
		sx[i] = i < last ? x->strides[i] : 0;
		sy[i] = i + 1 < last ? y->strides[i] : i == last ? y->strides[last - 1] : 0;
	}
	stx__ref_walk_start(&w, out->rank, out->sizes);
	stx__ref_walk_add(&w, sx, x->offset);
	stx__ref_walk_add(&w, sy, y->offset);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w))
		put(out, i, distance(a, w.off[0], b, w.off[1], n->args[2].u.f));
	return 0;
}

stx_err stx__ref_pdist(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	struct rows a = { x, x->sizes[1], x->strides[1] };
	struct stx_tensor *out = stx__ref_result(r, n);
	int64_t k = 0;

	if (!out)
		return stx__ref_error(r);
	for (int64_t i = 0; i < x->sizes[0]; i++)
		for (int64_t j = i + 1; j < x->sizes[0]; j++)
			put(out, k++,
			    distance(a, x->offset + i * x->strides[0], a,
				     x->offset + j * x->strides[0], n->args[1].u.f));
	return 0;
}
