/* ref_bag.c: embedding_bag, index by index. */
#include "ref_internal.h"

struct bag {
	struct stx__ref *r;
	const struct stx_node *n;
	const struct stx_tensor *w, *index, *offsets, *scale;
	struct stx_tensor *out, *of, *size, *top;
	int64_t mode, padding, bags;
};

static int64_t whole(const struct stx_tensor *t, int64_t i)
{
	return stx__ref_load(t, t->offset + i * t->strides[0]).i;
}

static double row(const struct bag *g, int64_t i, int64_t k)
{
	const struct stx_tensor *w = g->w;

	return stx__ref_load(w, w->offset + whole(g->index, i) * w->strides[0] + k * w->strides[1])
		.f;
}

static stx_err check(const struct bag *g)
{
	for (int64_t i = 0; i < g->index->sizes[0]; i++) {
		int64_t v = whole(g->index, i);

		if (v < 0 || v >= g->w->sizes[0])
			return stx__ref_fail(g->r, g->n, STX_E_BOUNDS,
					     "index out of bounds: 0 <= %lld < %lld", (long long)v,
					     (long long)g->w->sizes[0]);
	}
	return 0;
}

/* Bag b over indices [from, to). */
static void one_bag(const struct bag *g, int64_t b, int64_t from, int64_t to)
{
	int64_t width = g->out->sizes[1], count = 0;
	enum stx_dtype t = (enum stx_dtype)g->out->dtype;

	for (int64_t i = from; i < to; i++)
		count += whole(g->index, i) != g->padding;
	for (int64_t k = 0; k < width; k++) {
		struct stx__ref_sum s = { 0, 0 };
		double best = 0, v;
		int64_t at = 0, any = 0;

		for (int64_t i = from; i < to; i++) {
			if (whole(g->index, i) == g->padding)
				continue;
			v = row(g, i, k);
			if (g->scale)
				v = stx_scalar_round(
					stx__ref_work(t),
					v * stx__ref_load(g->scale,
							  g->scale->offset +
								  i * g->scale->strides[0])
							.f);
			stx__ref_sum_add(&s, v);
			if (!any || v > best) { /* a NaN stays if it is the first */
				best = v;
				at = whole(g->index, i);
			}
			any = 1;
		}
		long double sum = stx__ref_sum_value(&s);
		if (g->mode == 1 && count)
			sum /= (long double)count;
		stx__ref_store(g->out, b * width + k,
			       (union stx_scalar){
				       .f = g->mode == 2 ? best : stx__ref_round_wide(t, sum) });
		if (g->mode == 2)
			stx__ref_store(g->top, b * width + k, (union stx_scalar){ .i = at });
	}
	if (g->mode)
		stx__ref_store(g->size, b, (union stx_scalar){ .i = count });
	else
		stx__ref_store(g->size, b, (union stx_scalar){ .i = 0 });
	if (g->mode < 2)
		stx__ref_store(g->top, b, (union stx_scalar){ .i = g->mode ? count : 0 });
}

static void put_bags(const struct bag *g)
{
	for (int64_t i = 0; i < g->of->sizes[0]; i++) {
		int64_t bag = -1;

		for (int64_t b = 0; b < g->bags; b++)
			bag += whole(g->offsets, b) <= i;
		stx__ref_store(g->of, i, (union stx_scalar){ .i = bag });
	}
}

stx_err stx__ref_embedding_bag(struct stx__ref *r, const struct stx_node *n)
{
	struct bag g = { .r = r,
			 .n = n,
			 .w = stx__ref_arg(r, n, 0),
			 .index = stx__ref_arg(r, n, 1),
			 .offsets = stx__ref_arg(r, n, 2),
			 .scale = stx__ref_arg(r, n, 6) };
	stx_err e = stx__ref_int(r, n, n->args[4].u.ex, &g.mode);

	if (!e)
		e = stx__ref_int(r, n, n->args[8].u.ex, &g.padding);
	if (!e)
		e = check(&g);
	if (e)
		return e;
	g.padding = g.padding < 0 ? -1 : g.padding;
	g.out = stx__ref_result(r, n);
	g.of = g.out ? stx__ref_result_at(r, n, 1) : NULL;
	g.size = g.of ? stx__ref_result_at(r, n, 2) : NULL;
	g.top = g.size ? stx__ref_result_at(r, n, 3) : NULL;
	if (!g.top)
		return stx__ref_error(r);
	g.bags = g.out->sizes[0];
	for (int64_t b = 0; b < g.bags; b++) {
		int64_t count = g.index->sizes[0], from = whole(g.offsets, b), to = count;

		if (n->args[7].u.i || b + 1 < g.bags)
			to = whole(g.offsets, b + 1);
		from = from < 0 ? 0 : from;
		one_bag(&g, b, from, to > count ? count : to);
	}
	put_bags(&g);
	return 0;
}
