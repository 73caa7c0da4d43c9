/* ref_sample.c: adaptive pooling by its definition; sampling at positions of a grid, one element
 * after the other. */
#include <math.h>

#include "ref_internal.h"

#define SPATIAL 3

/* ---- adaptive pooling ---- */

static int64_t first(int64_t o, int64_t in, int64_t out)
{
	return o * in / out;
}

static int64_t past(int64_t o, int64_t in, int64_t out)
{
	return ((o + 1) * in + out - 1) / out;
}

/* NaN wins, the first of them; of equal values the first; -0 < +0. */
static int beats(enum stx_dtype t, union stx_scalar v, union stx_scalar best, int *index_too)
{
	*index_too = 1;
	switch (stx_dtype_kind(t)) {
	case STX_KIND_FLOAT:
		if (isnan(v.f) || isnan(best.f))
			return isnan(v.f) && !isnan(best.f);
		*index_too = v.f > best.f;
		return v.f > best.f ||
		       (v.f == best.f && signbit(best.f) && !signbit(v.f)); /* the sign alone */
	case STX_KIND_UINT: return v.u > best.u;
	default: return v.i > best.i;
	}
}

/* Windows of the last k dimensions of x: their mean, or their maximum and its flat position. */
stx_err stx__ref_adaptive_pool(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	struct stx_tensor *out = stx__ref_result(r, n),
			  *where = out && n->nouts > 1 ? stx__ref_result_at(r, n, 1) : NULL;
	uint32_t k = n->op == STX_OP_ADAPTIVE_AVG_POOL1D || n->op == STX_OP_ADAPTIVE_MAX_POOL1D ? 1
		     : n->op == STX_OP_ADAPTIVE_AVG_POOL2D || n->op == STX_OP_ADAPTIVE_MAX_POOL2D
			     ? 2
			     : 3;
	struct stx__ref_walk w, taps;

	if (!out || (n->nouts > 1 && !where))
		return stx__ref_error(r);
	enum stx_dtype t = (enum stx_dtype)x->dtype;
	uint32_t lead = x->rank - k;

	stx__ref_walk_start(&w, out->rank, out->sizes);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		struct stx__ref_sum sum = { 0, 0 };
		union stx_scalar best = { .u = 0 };
		int64_t size[SPATIAL], count = 1, seen = -1;

		for (uint32_t d = 0; d < k; d++) {
			int64_t o = w.at[lead + d], in = x->sizes[lead + d];

			size[d] = past(o, in, out->sizes[lead + d]) -
				  first(o, in, out->sizes[lead + d]);
			count *= size[d];
		}
		stx__ref_walk_start(&taps, k, size);
		for (; taps.left > 0; stx__ref_walk_next(&taps)) {
			int64_t off = x->offset, flat = 0;
			int index_too;

			for (uint32_t d = 0; d < lead; d++)
				off += w.at[d] * x->strides[d];
			for (uint32_t d = 0; d < k; d++) {
				int64_t at = taps.at[d] + first(w.at[lead + d], x->sizes[lead + d],
								out->sizes[lead + d]);

				off += at * x->strides[lead + d];
				flat = flat * x->sizes[lead + d] + at;
			}
			union stx_scalar v = stx__ref_load(x, off);

			if (!where) {
				stx__ref_sum_add(&sum, v.f);
			} else if (seen < 0 || beats(t, v, best, &index_too)) {
				seen = seen < 0 || index_too ? flat : seen;
				best = v;
			}
		}
		if (!where)
			best.f = stx__ref_round_wide(t, stx__ref_sum_value(&sum) / count);
		stx__ref_store(out, i, best);
		if (where)
			stx__ref_store(where, i, (union stx_scalar){ .i = seen });
	}
	return 0;
}

/* An element takes its share of every window that contains it. */
stx_err stx__ref_adaptive_backward(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *go = stx__ref_arg(r, n, 0);
	struct stx_tensor *out = stx__ref_result(r, n);
	uint32_t k = n->op == STX_OP_ADAPTIVE_AVG_POOL2D_BACKWARD ? 2 : 3;
	struct stx__ref_walk w, o;

	if (!out)
		return stx__ref_error(r);
	enum stx_dtype t = (enum stx_dtype)go->dtype;
	uint32_t lead = out->rank - k;

	stx__ref_walk_start(&w, out->rank, out->sizes);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		struct stx__ref_sum sum = { 0, 0 };

		stx__ref_walk_start(&o, k, go->sizes + lead);
		for (; o.left > 0; stx__ref_walk_next(&o)) {
			int64_t off = go->offset, count = 1, in = 1;

			for (uint32_t d = 0; d < lead; d++)
				off += w.at[d] * go->strides[d];
			for (uint32_t d = 0; d < k; d++) {
				int64_t a = first(o.at[d], out->sizes[lead + d],
						  go->sizes[lead + d]),
					b = past(o.at[d], out->sizes[lead + d],
						 go->sizes[lead + d]);

				in &= w.at[lead + d] >= a && w.at[lead + d] < b;
				count *= b - a;
				off += o.at[d] * go->strides[lead + d];
			}
			if (in)
				stx__ref_sum_add(
					&sum,
					stx__ref_round_wide(stx__ref_work(t),
							    (long double)stx__ref_load(go, off).f /
								    count));
		}
		stx__ref_store(out, i,
			       (union stx_scalar){
				       .f = stx__ref_round_wide(t, stx__ref_sum_value(&sum)) });
	}
	return 0;
}

/* ---- sampling ---- */

enum { BILINEAR, NEAREST, BICUBIC };
enum { ZEROS, BORDER, REFLECTION };

struct grid {
	int64_t mode, padding;
	int align, f64;
};

/* One operation in f32, or in f64: what positions are computed in. */
static double rounded(const struct grid *g, double v)
{
	return g->f64 ? v : (double)(float)v;
}

static double padded(const struct grid *g, double x, int64_t size)
{
	double low = g->align ? 0 : -0.5, span = (double)(g->align ? size - 1 : size);

	if (g->padding == ZEROS)
		return x;
	if (g->padding == REFLECTION && span == 0)
		x = 0;
	if (g->padding == REFLECTION && span > 0) {
		double far = fabs(rounded(g, x - low)), extra = fmod(far, span);
		double flips = floor(rounded(g, far / span));

		x = fmod(flips, 2) == 0 ? rounded(g, extra + low)
					: rounded(g, rounded(g, span - extra) + low);
	}
	return !(x > 0) ? 0 : !(x < (double)(size - 1)) ? (double)(size - 1) : x;
}

static double keys(const struct grid *g, double d)
{
	(void)g;
	d = fabs(d);
	return d <= 1 ? 1.25 * d * d * d - 2.25 * d * d + 1
		      : -0.75 * d * d * d + 3.75 * d * d - 6 * d + 3;
}

/* Element and weight of the taps at x along one dimension; an element of -1 lies outside. */
static int taps_at(const struct grid *g, double x, int64_t size, int64_t *at, double *weight)
{
	int n = g->mode == NEAREST ? 1 : g->mode == BILINEAR ? 2 : 4;
	double whole, part;

	if (g->mode != BICUBIC)
		x = padded(g, x, size);
	whole = g->mode == NEAREST ? nearbyint(x) : floor(x);
	part = rounded(g, x - whole);
	for (int i = 0; i < n; i++) {
		double p = g->mode == BICUBIC ? padded(g, whole + (i - 1), size) : whole + i;

		at[i] = p >= 0 && p <= (double)(size - 1) ? (int64_t)p : -1;
		weight[i] = g->mode == NEAREST   ? 1
			    : g->mode == BICUBIC ? keys(g, part - (i - 1))
			    : i                  ? part
						 : rounded(g, rounded(g, whole + 1) - x);
	}
	return n;
}

/* -1 and 1 are the centres of the outer elements, or their outer edges. */
static double unnormalized(const struct grid *g, double c, int64_t size)
{
	double x = rounded(g, c + 1);

	if (g->align)
		return rounded(g, rounded(g, x * 0.5) * (double)(size - 1));
	return rounded(g, rounded(g, rounded(g, x * (double)size) - 1) * 0.5);
}

/* Position along dimension d of x for the result element at w. */
static double position(const struct stx__ref *r, const struct stx_node *n, const struct grid *g,
		       const struct stx__ref_walk *w, uint32_t k, uint32_t d)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0), *at = stx__ref_arg(r, n, 1);
	int64_t off;

	if (n->op == STX_OP_SAMPLE) {
		struct stx_val v = n->args[1].u.tensors[d];

		at = &r->values[v.node->id][v.out].t;
	}
	off = at->offset;
	for (uint32_t i = 0; i < w->rank - 1; i++) /* batch and what follows the channels */
		off += at->sizes[i] == 1 ? 0 : w->at[i ? i + 1 : 0] * at->strides[i];
	if (n->op == STX_OP_SAMPLE)
		return stx__ref_load(at, off).f;
	off += (k - 1 - d) * at->strides[k + 1]; /* the last dimension's coordinate comes first */
	return unnormalized(g, stx__ref_load(at, off).f, x->sizes[2 + d]);
}

static enum stx_dtype position_dtype(const struct stx_node *n)
{
	return n->op == STX_OP_SAMPLE ? stx_val_type(n->args[1].u.tensors[0])->dtype
				      : stx_val_type(n->args[1].u.tensor)->dtype;
}

stx_err stx__ref_grid_sampler(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	struct stx_tensor *out = stx__ref_result(r, n);
	uint32_t k = x->rank - 2u;
	struct grid g = { .align = n->op == STX_OP_SAMPLE || n->args[4].u.i };
	struct stx__ref_walk w;
	stx_err e = stx__ref_int(r, n, n->args[2].u.ex, &g.mode);

	e = e ? e : stx__ref_int(r, n, n->args[3].u.ex, &g.padding);
	if (e || !out)
		return e ? e : stx__ref_error(r);
	g.f64 = x->dtype == STX_F64 || position_dtype(n) == STX_F64;
	stx__ref_walk_start(&w, out->rank, out->sizes);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		int64_t at[SPATIAL][4], count[SPATIAL];
		double weight[SPATIAL][4];
		struct stx__ref_sum sum = { 0, 0 };
		struct stx__ref_walk t;
		union stx_scalar v = { .u = 0 };

		for (uint32_t d = 0; d < k; d++)
			count[d] = taps_at(&g, position(r, n, &g, &w, k, d), x->sizes[2 + d], at[d],
					   weight[d]);
		stx__ref_walk_start(&t, k, count);
		for (; t.left > 0; stx__ref_walk_next(&t)) {
			int64_t off = x->offset + w.at[0] * x->strides[0] + w.at[1] * x->strides[1];
			long double by = 1;
			int in = 1;

			for (uint32_t d = 0; d < k; d++) {
				in &= at[d][t.at[d]] >= 0;
				off += at[d][t.at[d]] * x->strides[2 + d];
				by *= weight[d][t.at[d]];
			}
			v = in ? stx__ref_load(x, off) : (union stx_scalar){ .u = 0 };
			if (g.mode != NEAREST)
				stx__ref_sum_add(&sum, by * v.f);
		}
		if (g.mode != NEAREST)
			v.f = stx__ref_round_wide((enum stx_dtype)x->dtype,
						  stx__ref_sum_value(&sum));
		stx__ref_store(out, i, v);
	}
	return 0;
}
