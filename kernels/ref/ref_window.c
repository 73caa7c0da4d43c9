/* ref_window.c: convolution and pooling by their definitions, one output element at a time.
 * A convolution is that of the zero-padded input: a zero at the padding is multiplied as well. A
 * transposed one sums exactly the products x[i] * w[k] with i*stride + k*dilation - padding = o. */
#include "ref_internal.h"

#include <math.h>

#define SPATIAL 3

/* Entry j of list argument i; one value stands for all, an empty list gives `otherwise`. */
static stx_err entry(struct stx__ref *r, const struct stx_node *n, uint32_t i, uint32_t j,
		     int64_t otherwise, int64_t *out)
{
	const struct stx_arg *a = &n->args[i];

	*out = otherwise;
	return a->n ? stx__ref_int(r, n, a->u.exs[a->n == 1 ? 0 : j], out) : 0;
}

struct conv {
	const struct stx_tensor *x, *w;
	uint32_t k;
	int64_t stride[SPATIAL], pad[SPATIAL], dilation[SPATIAL], groups;
	int transposed;
};

/* What tap meets at output o: an element of the input, at *off from its first one (negative where
 * strides are), a zero of the padding, or nothing. */
enum met { ELEMENT, PADDING, NOTHING };
static enum met meets(const struct conv *c, const int64_t *o, const int64_t *tap, int64_t *off)
{
	*off = 0;
	for (uint32_t i = 0; i < c->k; i++) {
		int64_t at = o[i] * c->stride[i] - c->pad[i] + tap[i] * c->dilation[i];

		if (c->transposed) {
			at = o[i] + c->pad[i] - tap[i] * c->dilation[i];
			if (at < 0 || at % c->stride[i] || at / c->stride[i] >= c->x->sizes[2 + i])
				return NOTHING;
			at /= c->stride[i];
		}
		if (at < 0 || at >= c->x->sizes[2 + i])
			return PADDING;
		*off += at * c->x->strides[2 + i];
	}
	return ELEMENT;
}

/* Adds the products of one pair of channels at output o; floats into s, integers into v. */
static void add_taps(const struct conv *c, const int64_t *o, int64_t xo, int64_t wo,
		     struct stx__ref_sum *s, uint64_t *v)
{
	int is_float = stx_dtype_is_float((enum stx_dtype)c->x->dtype);
	struct stx__ref_walk taps;

	stx__ref_walk_start(&taps, c->k, c->w->sizes + 2);
	for (stx__ref_walk_add(&taps, c->w->strides + 2, wo); taps.left > 0;
	     stx__ref_walk_next(&taps)) {
		int64_t at;
		enum met met = meets(c, o, taps.at, &at);
		union stx_scalar y = stx__ref_load(c->w, taps.off[0]), x = { .u = 0 };

		if (met == NOTHING)
			continue;
		if (met == ELEMENT)
			x = stx__ref_load(c->x, xo + at);
		if (!is_float) {
			*v += x.u * y.u;
			continue;
		}
		double p = x.f * y.f;

		stx__ref_sum_add(s, p);
		if (c->x->dtype == STX_F64 && isfinite(p))
			s->c += fma(x.f, y.f, -p);
	}
}

#define TAPS_MAX 512

/* The f32 case in its own loop, which whole networks need: at one output, `channels` channels of
 * the input and of the filter. Products are exact in f64, the sum carries its error (Knuth's
 * TwoSum). Returns 0 when the filter has more taps than the table. */
static int add_channels_f32(const struct conv *c, const int64_t *o, int64_t xo, int64_t wo,
			    int64_t channels, long double *out)
{
	enum met met[TAPS_MAX];
	int64_t xs[TAPS_MAX], ws[TAPS_MAX], wstep = c->w->strides[c->transposed ? 0 : 1];
	uint32_t n = 0;
	double sum = 0, error = 0;
	struct stx__ref_walk taps;

	stx__ref_walk_start(&taps, c->k, c->w->sizes + 2);
	if (taps.left > TAPS_MAX || c->x->dtype != STX_F32 || c->w->dtype != STX_F32)
		return 0;
	for (stx__ref_walk_add(&taps, c->w->strides + 2, 0); taps.left > 0;
	     stx__ref_walk_next(&taps)) {
		met[n] = meets(c, o, taps.at, &xs[n]);
		ws[n] = taps.off[0];
		n += met[n] != NOTHING;
	}
	const float *x = (const float *)c->x->data + xo, *w = (const float *)c->w->data + wo;
	for (; channels-- > 0; x += c->x->strides[1], w += wstep)
		for (uint32_t i = 0; i < n; i++) {
			double p = met[i] == PADDING ? 0.0 * (double)w[ws[i]]
						     : (double)x[xs[i]] * (double)w[ws[i]];
			double t = sum + p, z = t - sum;
			error += (sum - (t - z)) + (p - z);
			sum = t;
		}
	*out = isfinite(sum) ? (long double)sum + error : (long double)sum;
	return 1;
}

stx_err stx__ref_convolution(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *bias = stx__ref_arg(r, n, 2);
	struct conv c = { .x = stx__ref_arg(r, n, 0),
			  .w = stx__ref_arg(r, n, 1),
			  .transposed = n->args[6].u.i != 0 };
	struct stx_tensor *out = stx__ref_result(r, n);
	struct stx__ref_walk w;
	int64_t in_per, out_per;
	stx_err e = stx__ref_int(r, n, n->args[8].u.ex, &c.groups);

	if (!out)
		return stx__ref_error(r);
	c.k = c.x->rank - 2u;
	for (uint32_t i = 0; i < c.k && !e; i++) {
		e = entry(r, n, 3, i, 1, &c.stride[i]);
		e = e ? e : entry(r, n, 4, i, 0, &c.pad[i]);
		e = e ? e : entry(r, n, 5, i, 1, &c.dilation[i]);
	}
	if (e)
		return e;
	in_per = c.x->sizes[1] / c.groups;
	out_per = out->sizes[1] / c.groups;
	stx__ref_walk_start(&w, out->rank, out->sizes);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		struct stx__ref_sum s = { 0, 0 };
		union stx_scalar v = { .u = 0 };
		int64_t group = w.at[1] / out_per, to = w.at[1] % out_per, left = in_per;
		int64_t x0 =
			c.x->offset + w.at[0] * c.x->strides[0] + group * in_per * c.x->strides[1];
		int64_t w0 = c.w->offset +
			     (c.transposed ? group * in_per * c.w->strides[0] + to * c.w->strides[1]
					   : w.at[1] * c.w->strides[0]);
		if (add_channels_f32(&c, w.at + 2, x0, w0, in_per, &s.s))
			left = 0;
		for (int64_t from = 0; from < left; from++) {
			int64_t wi = c.transposed ? group * in_per + from : w.at[1];
			int64_t wj = c.transposed ? to : from;

			add_taps(&c, w.at + 2,
				 c.x->offset + w.at[0] * c.x->strides[0] +
					 (group * in_per + from) * c.x->strides[1],
				 c.w->offset + wi * c.w->strides[0] + wj * c.w->strides[1], &s,
				 &v.u);
		}
		if (bias) {
			union stx_scalar b =
				stx__ref_load(bias, bias->offset + w.at[1] * bias->strides[0]);

			stx__ref_sum_add(&s,
					 stx_dtype_is_float((enum stx_dtype)bias->dtype) ? b.f : 0);
			v.u += b.u;
		}
		if (stx_dtype_is_float((enum stx_dtype)out->dtype))
			v.f = stx__ref_round_wide((enum stx_dtype)out->dtype,
						  stx__ref_sum_value(&s));
		else
			v = stx_scalar_wrap((enum stx_dtype)out->dtype, v.u);
		stx__ref_store(out, i, v);
	}
	return 0;
}

/* ---- pooling ---- */

struct pool {
	const struct stx_tensor *x;
	uint32_t k, lead;
	int64_t kernel[SPATIAL], stride[SPATIAL], pad[SPATIAL], dilation[SPATIAL];
};

static stx_err read_pool(struct stx__ref *r, const struct stx_node *n, int is_max, struct pool *p)
{
	stx_err e = 0;

	*p = (struct pool){ .x = stx__ref_arg(r, n, 0) };
	p->k = n->op == STX_OP_MAX_POOL1D || n->op == STX_OP_AVG_POOL1D   ? 1
	       : n->op == STX_OP_MAX_POOL2D || n->op == STX_OP_AVG_POOL2D ? 2
									  : 3;
	p->lead = p->x->rank - p->k;
	for (uint32_t i = 0; i < p->k && !e; i++) {
		e = entry(r, n, 1, i, 1, &p->kernel[i]);
		e = e ? e : entry(r, n, 2, i, p->kernel[i], &p->stride[i]);
		e = e ? e : entry(r, n, 3, i, 0, &p->pad[i]);
		p->dilation[i] = 1;
		if (is_max && !e)
			e = entry(r, n, 4, i, 1, &p->dilation[i]);
	}
	return e;
}

/* Offset of tap in the window at o and its flat position; 0 when it lies in the padding. */
static int tap_at(const struct pool *p, const int64_t *o, const int64_t *tap, int64_t *off,
		  int64_t *flat)
{
	*off = *flat = 0;
	for (uint32_t i = 0; i < p->k; i++) {
		int64_t at = o[i] * p->stride[i] - p->pad[i] + tap[i] * p->dilation[i];
		int64_t size = p->x->sizes[p->lead + i];

		if (at < 0 || at >= size)
			return 0;
		*off += at * p->x->strides[p->lead + i];
		*flat = *flat * size + at;
	}
	return 1;
}

/* NaN wins, the first of them; of equal values the first. */
static int beats(enum stx_dtype t, union stx_scalar v, union stx_scalar best)
{
	switch (stx_dtype_kind(t)) {
	case STX_KIND_FLOAT:
		if (isnan(v.f) || isnan(best.f))
			return isnan(v.f) && !isnan(best.f);
		return v.f > best.f ||
		       (v.f == 0 && best.f == 0 && signbit(best.f) && !signbit(v.f));
	case STX_KIND_UINT: return v.u > best.u;
	default: return v.i > best.i;
	}
}

/* Before any element: the lowest value (a number where the format has no infinity), at the
 * window's first position that is not before the input. */
static union stx_scalar lowest(enum stx_dtype t)
{
	const struct stx_float_format *f = stx_float_format(t);
	int bits = 8 * stx_dtype_bytes(t);

	if (f && f->inf == f->nan)
		return (union stx_scalar){ .f = stx_scalar_from_bits(t, f->max | f->sign) };
	switch (stx_dtype_kind(t)) {
	case STX_KIND_FLOAT: return (union stx_scalar){ .f = -INFINITY };
	case STX_KIND_INT: return (union stx_scalar){ .i = INT64_MIN >> (64 - bits) };
	default: return (union stx_scalar){ .u = 0 };
	}
}

static int64_t first_position(const struct pool *p, const int64_t *o)
{
	int64_t flat = 0;

	for (uint32_t i = 0; i < p->k; i++) {
		int64_t at = o[i] * p->stride[i] - p->pad[i];

		while (at < 0)
			at += p->dilation[i];
		flat = flat * p->x->sizes[p->lead + i] + at;
	}
	return flat;
}

stx_err stx__ref_max_pool(struct stx__ref *r, const struct stx_node *n)
{
	struct pool p;
	stx_err e = read_pool(r, n, 1, &p);
	struct stx_tensor *out = e ? NULL : stx__ref_result(r, n);
	struct stx_tensor *where = out ? stx__ref_result_at(r, n, 1) : NULL;
	struct stx__ref_walk w, taps;

	if (!where)
		return stx__ref_error(r);
	stx__ref_walk_start(&w, out->rank, out->sizes);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		union stx_scalar best = lowest((enum stx_dtype)p.x->dtype);
		int64_t base = p.x->offset, off, flat, seen = first_position(&p, w.at + p.lead);

		for (uint32_t d = 0; d < p.lead; d++)
			base += w.at[d] * p.x->strides[d];
		stx__ref_walk_start(&taps, p.k, p.kernel);
		for (; taps.left > 0; stx__ref_walk_next(&taps)) {
			union stx_scalar v;

			if (!tap_at(&p, w.at + p.lead, taps.at, &off, &flat))
				continue;
			v = stx__ref_load(p.x, base + off);
			if (beats((enum stx_dtype)p.x->dtype, v, best)) {
				/* the index ignores the sign of zero, as argmax does */
				if (!stx_dtype_is_float((enum stx_dtype)p.x->dtype) ||
				    v.f != best.f)
					seen = flat;
				best = v;
			}
		}
		stx__ref_store(out, i, best);
		stx__ref_store(where, i, (union stx_scalar){ .i = seen });
	}
	return 0;
}

/* What the sum of the window at o is divided by. */
static int64_t divisor(const struct pool *p, const int64_t *o, int include_pad)
{
	int64_t count = 1;

	for (uint32_t i = 0; i < p->k; i++) {
		int64_t size = p->x->sizes[p->lead + i], lo = o[i] * p->stride[i] - p->pad[i],
			here = 0;

		for (int64_t t = lo; t < lo + p->kernel[i]; t++)
			here += include_pad ? t < size + p->pad[i] : t >= 0 && t < size;
		count *= here;
	}
	return count;
}

stx_err stx__ref_avg_pool(struct stx__ref *r, const struct stx_node *n)
{
	struct pool p;
	stx_err e = read_pool(r, n, 0, &p);
	int64_t fixed = 0, off, flat;
	struct stx_tensor *out;
	struct stx__ref_walk w, taps;

	if (!e && n->nargs > 6 && n->args[6].kind == STX_ARG_INT)
		e = stx__ref_int(r, n, n->args[6].u.ex, &fixed);
	out = e ? NULL : stx__ref_result(r, n);
	if (!out)
		return stx__ref_error(r);
	stx__ref_walk_start(&w, out->rank, out->sizes);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		struct stx__ref_sum s = { 0, 0 };
		int64_t base = p.x->offset;

		for (uint32_t d = 0; d < p.lead; d++)
			base += w.at[d] * p.x->strides[d];
		stx__ref_walk_start(&taps, p.k, p.kernel);
		for (; taps.left > 0; stx__ref_walk_next(&taps))
			if (tap_at(&p, w.at + p.lead, taps.at, &off, &flat))
				stx__ref_sum_add(&s, stx__ref_load(p.x, base + off).f);
		if (!fixed)
			off = divisor(&p, w.at + p.lead, n->args[5].u.i != 0);
		stx__ref_store(out, i,
			       (union stx_scalar){
				       .f = stx__ref_round_wide((enum stx_dtype)out->dtype,
								stx__ref_sum_value(&s) /
									(fixed ? fixed : off)) });
	}
	return 0;
}
