/* ref_sort.c: sorts along one dimension by merging, with comparisons of the values themselves: NaN
 * is greater than everything and equal to itself, -0 equals +0; equal elements keep their order. */
#include "ref_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct item {
	union stx_scalar v;
	int64_t at;
};

/* a comes before b whatever their positions. */
static int before(enum stx_dtype t, int descending, const struct item *a, const struct item *b)
{
	const struct item *p = descending ? b : a, *q = descending ? a : b;

	switch (stx_dtype_kind(t)) {
	case STX_KIND_FLOAT:
		if (isnan(p->v.f) || isnan(q->v.f))
			return !isnan(p->v.f) && isnan(q->v.f);
		return p->v.f < q->v.f;
	case STX_KIND_INT: return p->v.i < q->v.i;
	default: return p->v.u < q->v.u;
	}
}

/* Recursion halves n. */
static void sort(enum stx_dtype t, int descending, struct item *a, struct item *tmp, int64_t n)
{
	int64_t half = n / 2, i = 0, j = half, k = 0;

	if (n < 2)
		return;
	sort(t, descending, a, tmp, half);
	sort(t, descending, a + half, tmp, n - half);
	while (i < half || j < n)
		tmp[k++] = j == n || (i < half && !before(t, descending, &a[j], &a[i])) ? a[i++]
											: a[j++];
	memcpy(a, tmp, (size_t)n * sizeof *a);
}

struct row {
	const struct stx_node *n;
	struct stx_tensor *values, *places; /* NULL: the operator has no such result */
	enum stx_dtype t;
	int descending;
	int64_t from, count; /* of the order, what goes into the results */
};

/* The argument of that name; NULL: the operator has none. */
static const struct stx_arg *argument(const struct stx_node *n, const char *name)
{
	const struct stx_op_info *info = stx_op_info(n->op);

	for (uint32_t i = 0; i < info->nparams; i++)
		if (!strcmp(info->params[i].name, name))
			return &n->args[i];
	return NULL;
}

/* Which part of a row's order of n elements is wanted. */
static stx_err choose(struct stx__ref *r, struct row *w, int64_t n)
{
	const struct stx_arg *k = argument(w->n, "k"), *descending = argument(w->n, "descending"),
			     *largest = argument(w->n, "largest");
	int64_t v = 0;
	stx_err e = 0;

	w->count = n;
	w->descending = (descending && descending->u.i) || (largest && largest->u.i);
	if (k)
		e = stx__ref_int(r, w->n, k->u.ex, &v);
	if (w->n->op == STX_OP_TOPK)
		w->count = v;
	if (w->n->op == STX_OP_KTHVALUE) {
		w->from = v - 1;
		w->count = 1;
	}
	return e;
}

static void put(const struct row *w, const struct item *order, int64_t n, int64_t at,
		int64_t stride)
{
	int64_t from = w->from, count = w->count;

	if (w->n->op == STX_OP_MEDIAN_DIM) {
		int is_float = stx_dtype_is_float(w->t);

		count = 1;
		from = (n - 1) / 2;
		if (is_float && isnan(order[n - 1].v.f)) /* then the first NaN */
			for (from = 0; !isnan(order[from].v.f);)
				from++;
	}
	for (int64_t i = 0; i < count; i++) {
		if (w->values)
			stx__ref_store(w->values, at + i * stride, order[from + i].v);
		if (w->places)
			stx__ref_store(w->places, at + i * stride,
				       (union stx_scalar){ .i = order[from + i].at });
	}
}

/* 0: no memory. */
static int make_results(struct stx__ref *r, struct row *w)
{
	struct stx_tensor *first = stx__ref_result(r, w->n);

	w->values = w->n->nouts == 1 ? NULL : first;
	w->places = first && w->values ? stx__ref_result_at(r, w->n, 1) : first;
	return w->places != NULL;
}

/* Strides of the results over the operand's dimensions. */
static void result_strides(const struct row *w, const struct stx_tensor *x, uint32_t dim,
			   int64_t *out)
{
	uint32_t k = 0;

	for (uint32_t i = 0; i < x->rank; i++) {
		int gone = i == dim && w->places->rank < x->rank;

		out[i] = gone ? 0 : w->places->strides[k++];
	}
}

stx_err stx__ref_sort(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	struct row w = { .n = n, .t = (enum stx_dtype)x->dtype };
	const struct stx_arg *dim_arg = argument(n, "dim");
	struct stx__ref_walk at;
	int64_t sizes[STX_MAX_DIMS], strides[STX_MAX_DIMS], count, step, out_step;
	struct item *items;
	uint32_t dim;
	stx_err e;

	if (!dim_arg)
		return stx__ref_fail(r, n, STX_E_INTERNAL, "a sort along no dimension");
	e = stx__ref_dim(r, n, dim_arg->u.ex, x->rank, &dim);
	if (!e)
		e = choose(r, &w, x->rank ? x->sizes[dim] : 1);
	if (e)
		return e;
	if (!make_results(r, &w))
		return stx__ref_error(r);
	count = x->rank ? x->sizes[dim] : 1;
	step = x->rank ? x->strides[dim] : 0;
	memcpy(sizes, x->sizes, sizeof sizes);
	if (x->rank)
		sizes[dim] = count ? 1 : 0;
	result_strides(&w, x, dim, strides);
	out_step = x->rank ? strides[dim] : 0;
	items = calloc(2 * (size_t)count + 1, sizeof *items);
	if (!items)
		return stx__ref_fail(r, n, STX_E_NOMEM, "out of memory");
	stx__ref_walk_start(&at, x->rank, sizes);
	stx__ref_walk_add(&at, x->strides, x->offset);
	for (stx__ref_walk_add(&at, strides, 0); at.left > 0; stx__ref_walk_next(&at)) {
		for (int64_t i = 0; i < count; i++)
			items[i] = (struct item){ stx__ref_load(x, at.off[0] + i * step), i };
		sort(w.t, w.descending, items, items + count, count);
		put(&w, items, count, at.off[1], out_step);
	}
	free(items);
	return 0;
}
