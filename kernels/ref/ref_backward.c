/* ref_backward.c: what is added up into an operand's shape: folding, gradients of pooling and
 * convolution. Each walks what it adds and sums where it lands, in an array of sums. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "ref_internal.h"

#define SPATIAL 3

struct adds { /* one sum an element of the result */
	struct stx_tensor *out;
	struct stx__ref_sum *f;
	uint64_t *u;
};

static stx_err adds_start(struct stx__ref *r, const struct stx_node *n, struct stx_tensor *out,
			  struct adds *a)
{
	size_t count = (size_t)stx__ref_numel(out) + 1;

	*a = (struct adds){ .out = out };
	a->f = calloc(count, sizeof *a->f);
	a->u = calloc(count, sizeof *a->u);
	if (a->f && a->u)
		return 0;
	free(a->f);
	free(a->u);
	return stx__ref_fail(r, n, STX_E_NOMEM, "out of memory");
}

static void add(struct adds *a, int64_t at, union stx_scalar v)
{
	if (stx_dtype_is_float((enum stx_dtype)a->out->dtype))
		stx__ref_sum_add(&a->f[at], v.f);
	else
		a->u[at] += v.u;
}

static void adds_end(struct adds *a)
{
	enum stx_dtype t = (enum stx_dtype)a->out->dtype;
	int64_t count = stx__ref_numel(a->out);

	for (int64_t i = 0; i < count; i++) {
		union stx_scalar v;

		if (stx_dtype_is_float(t))
			v.f = stx__ref_round_wide(t, stx__ref_sum_value(&a->f[i]));
		else
			v = stx_scalar_wrap(t, a->u[i]);
		stx__ref_store(a->out, i, v);
	}
	free(a->f);
	free(a->u);
}

/* Entry i of list argument a; one value stands for all, an empty list for `otherwise`. */
static stx_err entry(struct stx__ref *r, const struct stx_node *n, uint32_t a, uint32_t i,
		     int64_t otherwise, int64_t *out)
{
	const struct stx_arg *l = &n->args[a];

	*out = otherwise;
	return l->n ? stx__ref_int(r, n, l->u.exs[l->n == 1 ? 0 : i], out) : 0;
}

struct slide {
	uint32_t k;
	int64_t kernel[SPATIAL], stride[SPATIAL], pad[SPATIAL], dilation[SPATIAL];
};

/* Position of tap at window o, or -1 outside [0, size). */
static int64_t lands(const struct slide *s, uint32_t i, int64_t o, int64_t tap, int64_t size)
{
	int64_t at = o * s->stride[i] - s->pad[i] + tap * s->dilation[i];

	return at < 0 || at >= size ? -1 : at;
}

/* ---- folding ---- */

static stx_err read_fold(struct stx__ref *r, const struct stx_node *n, struct slide *s)
{
	uint32_t at = n->op == STX_OP_IM2COL ? 1 : 2;
	stx_err e = 0;

	*s = (struct slide){ .k = n->op == STX_OP_FOLD ? n->args[1].n : 2 };
	for (uint32_t i = 0; i < s->k && !e; i++) {
		e = entry(r, n, at, i, 1, &s->kernel[i]);
		e = e ? e : entry(r, n, at + 1, i, 1, &s->dilation[i]);
		e = e ? e : entry(r, n, at + 2, i, 0, &s->pad[i]);
		e = e ? e : entry(r, n, at + 3, i, 1, &s->stride[i]);
	}
	return e;
}

stx_err stx__ref_fold(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	struct stx_tensor *out = stx__ref_result(r, n);
	struct stx__ref_walk w;
	struct slide s;
	struct adds a;
	stx_err e = out ? read_fold(r, n, &s) : stx__ref_error(r);

	e = e ? e : adds_start(r, n, out, &a);
	if (e)
		return e;
	uint32_t lead = out->rank - s.k;

	stx__ref_walk_start(&w, x->rank, x->sizes);
	for (stx__ref_walk_add(&w, x->strides, x->offset); w.left > 0; stx__ref_walk_next(&w)) {
		int64_t to = 0, at = 0;

		for (uint32_t d = 0; d < lead; d++)
			to += w.at[d] * out->strides[d];
		for (uint32_t i = 0; i < s.k && at >= 0; i++) {
			at = lands(&s, i, w.at[lead + s.k + i], w.at[lead + i],
				   out->sizes[lead + i]);
			to += at * out->strides[lead + i];
		}
		if (at >= 0)
			add(&a, to, stx__ref_load(x, w.off[0]));
	}
	adds_end(&a);
	return 0;
}

/* Windows along dimension i over size elements. */
static int64_t fits(const struct slide *s, uint32_t i, int64_t size)
{
	int64_t n = 0;

	while (n * s->stride[i] + s->dilation[i] * (s->kernel[i] - 1) < size + 2 * s->pad[i])
		n++;
	return n;
}

/* Row and column of the matrix <-> channel, tap and window. */
stx_err stx__ref_columns(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0), *m, *image;
	struct stx_tensor *out = stx__ref_result(r, n);
	int back = n->op == STX_OP_COL2IM;
	struct stx__ref_walk w;
	struct slide s;
	struct adds a;
	stx_err e = out ? read_fold(r, n, &s) : stx__ref_error(r);

	if (!e && back)
		e = adds_start(r, n, out, &a);
	if (e)
		return e;
	for (int64_t i = 0, count = stx__ref_numel(out); i < count && !back; i++)
		stx__ref_store(out, i, (union stx_scalar){ .u = 0 });
	m = back ? x : out;
	image = back ? out : x;
	int64_t wide = fits(&s, 1, image->sizes[image->rank - 1]);
	uint32_t b = m->rank - 2u;

	stx__ref_walk_start(&w, m->rank, m->sizes);
	assert(!w.left || (wide && s.kernel[0] && s.kernel[1])); /* or it has no elements */
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		int64_t row = w.at[b], col = w.at[b + 1], area = s.kernel[0] * s.kernel[1];
		int64_t y = lands(&s, 0, col / wide, row % area / s.kernel[1],
				  image->sizes[image->rank - 2]);
		int64_t z =
			lands(&s, 1, col % wide, row % s.kernel[1], image->sizes[image->rank - 1]);
		int64_t from = x->offset, at = image->offset;

		if (y < 0 || z < 0)
			continue;
		if (b)
			at += w.at[0] * image->strides[0];
		at += row / area * image->strides[b] + y * image->strides[b + 1] +
		      z * image->strides[b + 2];
		for (uint32_t d = 0; d < x->rank && back; d++)
			from += w.at[d] * x->strides[d];
		if (back)
			add(&a, at, stx__ref_load(x, from));
		else /* a copy: -0 stays */
			stx__ref_store(out, i, stx__ref_load(x, at));
	}
	if (back)
		adds_end(&a);
	return 0;
}

/* ---- pooling ---- */

static stx_err read_pool(struct stx__ref *r, const struct stx_node *n, int max, struct slide *s)
{
	stx_err e = 0;

	*s = (struct slide){ .k = n->op == STX_OP_AVG_POOL2D_BACKWARD ||
						  n->op == STX_OP_MAX_POOL2D_BACKWARD
					  ? 2
					  : 3 };
	for (uint32_t i = 0; i < s->k && !e; i++) {
		e = entry(r, n, 2, i, 1, &s->kernel[i]);
		e = e ? e : entry(r, n, 3, i, s->kernel[i], &s->stride[i]);
		e = e ? e : entry(r, n, 4, i, 0, &s->pad[i]);
		s->dilation[i] = 1;
		if (max && !e)
			e = entry(r, n, 5, i, 1, &s->dilation[i]);
	}
	return e;
}

/* Every window's gradient, divided, lands on all its elements. */
stx_err stx__ref_avg_pool_backward(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *go = stx__ref_arg(r, n, 0);
	struct stx_tensor *out = stx__ref_result(r, n);
	int64_t fixed = 0;
	struct stx__ref_walk w, taps;
	struct slide s;
	struct adds a;
	stx_err e = out ? read_pool(r, n, 0, &s) : stx__ref_error(r);

	if (!e && n->args[7].kind == STX_ARG_INT)
		e = stx__ref_int(r, n, n->args[7].u.ex, &fixed);
	e = e ? e : adds_start(r, n, out, &a);
	if (e)
		return e;
	uint32_t lead = out->rank - s.k;

	stx__ref_walk_start(&w, go->rank, go->sizes);
	for (stx__ref_walk_add(&w, go->strides, go->offset); w.left > 0; stx__ref_walk_next(&w)) {
		int64_t count = 1;

		for (uint32_t i = 0; i < s.k; i++) {
			int64_t size = out->sizes[lead + i], here = 0,
				first = w.at[lead + i] * s.stride[i] - s.pad[i];

			for (int64_t t = first; t < first + s.kernel[i]; t++)
				here += n->args[6].u.i ? t < size + s.pad[i] : t >= 0 && t < size;
			count *= here;
		}
		/* the share of f32, or f64, that the sum is made of */
		double share = stx__ref_round_wide(stx__ref_work((enum stx_dtype)go->dtype),
						   (long double)stx__ref_load(go, w.off[0]).f /
							   (fixed ? fixed : count));
		stx__ref_walk_start(&taps, s.k, s.kernel);
		for (; taps.left > 0; stx__ref_walk_next(&taps)) {
			int64_t to = 0, at = 0;

			for (uint32_t d = 0; d < lead; d++)
				to += w.at[d] * out->strides[d];
			for (uint32_t i = 0; i < s.k && at >= 0; i++) {
				at = lands(&s, i, w.at[lead + i], taps.at[i], out->sizes[lead + i]);
				to += at * out->strides[lead + i];
			}
			if (at >= 0)
				add(&a, to, (union stx_scalar){ .f = share });
		}
	}
	adds_end(&a);
	return 0;
}

/* Every window's gradient lands on the tap its index names; an index of no tap names none. */
stx_err stx__ref_max_pool_backward(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *go = stx__ref_arg(r, n, 0), *indices = stx__ref_arg(r, n, 7);
	struct stx_tensor *out = stx__ref_result(r, n);
	struct stx__ref_walk w;
	struct slide s;
	struct adds a;
	stx_err e = out ? read_pool(r, n, 1, &s) : stx__ref_error(r);

	e = e ? e : adds_start(r, n, out, &a);
	if (e)
		return e;
	uint32_t lead = out->rank - s.k;

	stx__ref_walk_start(&w, go->rank, go->sizes);
	stx__ref_walk_add(&w, go->strides, go->offset);
	for (stx__ref_walk_add(&w, indices->strides, indices->offset); w.left > 0;
	     stx__ref_walk_next(&w)) {
		int64_t left = stx__ref_load(indices, w.off[1]).i, to = 0, ok = left >= 0;

		for (uint32_t d = 0; d < lead; d++)
			to += w.at[d] * out->strides[d];
		for (uint32_t i = s.k; i-- > 0;) {
			int64_t size = out->sizes[lead + i], at = i ? left % size : left,
				tap = at - w.at[lead + i] * s.stride[i] + s.pad[i];

			left /= size;
			ok &= at >= 0 && at < size && tap >= 0 && tap % s.dilation[i] == 0 &&
			      tap / s.dilation[i] < s.kernel[i];
			to += at * out->strides[lead + i];
		}
		if (ok)
			add(&a, to, stx__ref_load(go, w.off[0]));
	}
	adds_end(&a);
	return 0;
}

/* ---- convolution ---- */

struct conv {
	const struct stx_tensor *go, *x, *w;
	struct slide s;
	int transposed;
	int64_t in_per, out_per; /* channels a group */
	struct adds grad_x, grad_w;
	int64_t mask;
};

static void add_product(struct adds *a, int64_t at, double p, double q)
{
	double v = p * q;

	stx__ref_sum_add(&a->f[at], v);
	if (a->out->dtype == STX_F64 && isfinite(v))
		a->f[at].c += fma(p, q, -v);
}

/* All taps of one pair of channels: input position i, result position o, where they meet. */
static void visit_taps(struct conv *c, const struct stx__ref_walk *w, int64_t in_channel,
		       int64_t wi, int64_t wj)
{
	/* small: the side that strides over the other */
	const struct stx_tensor *small = c->transposed ? c->x : c->go,
				*large = c->transposed ? c->go : c->x;
	int64_t small_channel = c->transposed ? in_channel : w->at[1],
		large_channel = c->transposed ? w->at[1] : in_channel;
	struct stx__ref_walk taps, at;

	stx__ref_walk_start(&taps, c->s.k, c->w->sizes + 2);
	for (; taps.left > 0; stx__ref_walk_next(&taps)) {
		stx__ref_walk_start(&at, c->s.k, small->sizes + 2);
		for (; at.left > 0; stx__ref_walk_next(&at)) {
			int64_t so = small->offset + w->at[0] * small->strides[0] +
				     small_channel * small->strides[1],
				lo = large->offset + w->at[0] * large->strides[0] +
				     large_channel * large->strides[1],
				wo = c->w->offset + wi * c->w->strides[0] + wj * c->w->strides[1],
				xd = w->at[0] * c->x->sizes[1] + in_channel,
				wd = wi * c->w->sizes[1] + wj, p = 0;

			for (uint32_t i = 0; i < c->s.k; i++) {
				int64_t here =
					lands(&c->s, i, at.at[i], taps.at[i], large->sizes[2 + i]);

				p = here < 0 ? -1 : p;
				so += at.at[i] * small->strides[2 + i];
				lo += here * large->strides[2 + i];
				wo += taps.at[i] * c->w->strides[2 + i];
				wd = wd * c->w->sizes[2 + i] + taps.at[i];
				xd = xd * c->x->sizes[2 + i] + (c->transposed ? at.at[i] : here);
			}
			/* what lies in the padding is 0, which an infinite gradient meets too */
			double sv = stx__ref_load(small, so).f,
			       lv = p < 0 ? 0 : stx__ref_load(large, lo).f;

			if (c->mask & 2)
				add_product(&c->grad_w, wd, sv, lv);
			if (c->mask & 1 && (p >= 0 || c->transposed))
				add_product(&c->grad_x, xd, c->transposed ? lv : sv,
					    stx__ref_load(c->w, wo).f);
		}
	}
}

static stx_err grad_bias(struct stx__ref *r, const struct stx_node *n, const struct stx_tensor *go)
{
	struct stx_tensor *out = stx__ref_result_at(r, n, 2);
	struct stx__ref_walk w;
	struct adds a;
	stx_err e = out ? adds_start(r, n, out, &a) : stx__ref_error(r);

	if (e)
		return e;
	stx__ref_walk_start(&w, go->rank, go->sizes);
	for (stx__ref_walk_add(&w, go->strides, go->offset); w.left > 0 && n->args[10].u.i & 4;
	     stx__ref_walk_next(&w))
		add(&a, w.at[1], stx__ref_load(go, w.off[0]));
	adds_end(&a);
	return 0;
}

stx_err stx__ref_conv_backward(struct stx__ref *r, const struct stx_node *n)
{
	struct conv c = { .go = stx__ref_arg(r, n, 0),
			  .x = stx__ref_arg(r, n, 1),
			  .w = stx__ref_arg(r, n, 2),
			  .transposed = n->args[7].u.i != 0,
			  .mask = n->args[10].u.i };
	struct stx_tensor *gx = stx__ref_result_at(r, n, 0), *gw;
	struct stx__ref_walk w;
	int64_t groups;
	stx_err e = stx__ref_int(r, n, n->args[9].u.ex, &groups);

	gw = gx ? stx__ref_result_at(r, n, 1) : NULL;
	if (!gw)
		return stx__ref_error(r);
	c.s.k = c.x->rank - 2u;
	for (uint32_t i = 0; i < c.s.k && !e; i++) {
		e = entry(r, n, 4, i, 1, &c.s.stride[i]);
		e = e ? e : entry(r, n, 5, i, 0, &c.s.pad[i]);
		e = e ? e : entry(r, n, 6, i, 1, &c.s.dilation[i]);
	}
	e = e ? e : grad_bias(r, n, c.go);
	e = e ? e : adds_start(r, n, gx, &c.grad_x);
	if (e)
		return e;
	e = adds_start(r, n, gw, &c.grad_w);
	if (e) {
		adds_end(&c.grad_x);
		return e;
	}
	c.in_per = c.x->sizes[1] / groups;
	c.out_per = c.go->sizes[1] / groups;
	stx__ref_walk_start(&w, 2, c.go->sizes); /* batch, channel of the result */
	for (; w.left > 0; stx__ref_walk_next(&w)) {
		assert(c.out_per); /* or there is no channel */
		int64_t group = w.at[1] / c.out_per;

		for (int64_t i = 0; i < c.in_per; i++) {
			int64_t in = group * c.in_per + i;

			if (c.transposed)
				visit_taps(&c, &w, in, in, w.at[1] % c.out_per);
			else
				visit_taps(&c, &w, in, w.at[1], i);
		}
	}
	adds_end(&c.grad_x);
	adds_end(&c.grad_w);
	return 0;
}
