/* ref_index.c: indirect reads, concatenation, padding. index.Tensor wraps negative indices; gather,
 * index_select and embedding do not: there every index outside [0, size) is an error (B15). */
#include "ref_internal.h"

#include <string.h>

/* The index at element off of t, checked. */
static stx_err index_at(struct stx__ref *r, const struct stx_node *n, const struct stx_tensor *t,
			int64_t off, uint32_t dim, int64_t size, int wrap, int64_t *out)
{
	int64_t v = stx__ref_load(t, off).i;

	*out = wrap && v < 0 && v >= -size ? v + size : v;
	if (*out >= 0 && *out < size)
		return 0;
	return stx__ref_fail(r, n, STX_E_BOUNDS,
			     "dimension %u: index out of bounds: 0 <= %lld < %lld", dim,
			     (long long)v, (long long)size);
}

stx_err stx__ref_gather(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0), *ix = stx__ref_arg(r, n, 2);
	struct stx_tensor *out;
	struct stx__ref_walk w;
	int64_t strides[STX_MAX_DIMS] = { 0 }, size, stride, at;
	uint32_t d;
	stx_err e = stx__ref_dim(r, n, n->args[1].u.ex, x->rank, &d);

	if (e)
		return e;
	out = stx__ref_result(r, n);
	if (!out)
		return stx__ref_error(r);
	size = x->rank ? x->sizes[d] : 1;
	stride = x->rank ? x->strides[d] : 0;
	memcpy(strides, x->strides, x->rank * sizeof *strides);
	if (x->rank)
		strides[d] = 0;
	stx__ref_walk_start(&w, out->rank, out->sizes);
	stx__ref_walk_add(&w, strides, x->offset);
	stx__ref_walk_add(&w, ix->strides, ix->offset);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		e = index_at(r, n, ix, w.off[1], d, size, 0, &at);
		if (e)
			return e;
		stx__ref_store(out, i, stx__ref_load(x, w.off[0] + at * stride));
	}
	return 0;
}

/* Reads x with `count` of its dimensions indexed. Walk operand 0 is x with those strides 0; operand
 * 1+k is index k over the result's dimensions. */
struct indexed {
	const struct stx_tensor *x, *ix[STX_MAX_DIMS];
	uint32_t dim[STX_MAX_DIMS], count;
	int64_t base[STX_MAX_DIMS];               /* strides of x over the result */
	int64_t over[STX_MAX_DIMS][STX_MAX_DIMS]; /* strides of index k over the result */
	int wrap;
};

static stx_err read_indexed(struct stx__ref *r, const struct stx_node *n, const struct indexed *q)
{
	struct stx_tensor *out = stx__ref_result(r, n);
	struct stx__ref_walk w;

	if (!out)
		return stx__ref_error(r);
	stx__ref_walk_start(&w, out->rank, out->sizes);
	stx__ref_walk_add(&w, q->base, q->x->offset);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		int64_t off = w.off[0];

		for (uint32_t k = 0; k < q->count; k++) {
			int64_t o = q->ix[k]->offset, at;
			stx_err e;

			for (uint32_t d = 0; d < w.rank; d++)
				o += w.at[d] * q->over[k][d];
			e = index_at(r, n, q->ix[k], o, q->dim[k], q->x->sizes[q->dim[k]], q->wrap,
				     &at);
			if (e)
				return e;
			off += at * q->x->strides[q->dim[k]];
		}
		stx__ref_store(out, i, stx__ref_load(q->x, off));
	}
	return 0;
}

/* Index k lies over result dimensions first.. (its own, right-aligned in `rank` of them). */
static void place(struct indexed *q, uint32_t k, uint32_t first, uint32_t rank)
{
	const struct stx_tensor *t = q->ix[k];

	for (uint32_t d = 0; d < t->rank; d++)
		q->over[k][first + rank - t->rank + d] = t->sizes[d] == 1 ? 0 : t->strides[d];
}

stx_err stx__ref_index_select(struct stx__ref *r, const struct stx_node *n)
{
	struct indexed q = { .x = stx__ref_arg(r, n, 0), .count = 1 };
	uint32_t d;
	stx_err e = stx__ref_dim(r, n, n->args[1].u.ex, q.x->rank, &d);

	if (e)
		return e;
	q.ix[0] = stx__ref_arg(r, n, 2);
	if (q.x->rank == 0) { /* as a tensor of size 1 */
		struct stx_tensor *out;
		int64_t at;

		for (int64_t i = 0; i < stx__ref_numel(q.ix[0]); i++) {
			e = index_at(r, n, q.ix[0],
				     q.ix[0]->offset +
					     (q.ix[0]->rank ? i * q.ix[0]->strides[0] : 0),
				     0, 1, 0, &at);
			if (e)
				return e;
		}
		out = stx__ref_result(r, n);
		if (out)
			stx__ref_store(out, 0, stx__ref_load(q.x, q.x->offset));
		return out ? 0 : stx__ref_error(r);
	}
	q.dim[0] = d;
	memcpy(q.base, q.x->strides, q.x->rank * sizeof *q.base);
	q.base[d] = 0;
	place(&q, 0, d, q.ix[0]->rank);
	return read_indexed(r, n, &q);
}

stx_err stx__ref_embedding(struct stx__ref *r, const struct stx_node *n)
{
	struct indexed q = { .x = stx__ref_arg(r, n, 0), .count = 1 };

	q.ix[0] = stx__ref_arg(r, n, 1);
	q.base[q.ix[0]->rank] = q.x->strides[1];
	place(&q, 0, 0, q.ix[0]->rank);
	return read_indexed(r, n, &q);
}

stx_err stx__ref_index(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_arg *list = &n->args[1];
	struct indexed q = { .x = stx__ref_arg(r, n, 0), .wrap = 1 };
	uint32_t rank = 0, first = 0, last = 0, at, next = 0;

	for (uint32_t i = 0; i < list->n; i++) {
		const struct stx_node *t = list->u.tensors[i].node;

		if (!t)
			continue;
		first = q.count ? first : i;
		last = i;
		q.dim[q.count] = i;
		q.ix[q.count++] = &r->values[t->id][list->u.tensors[i].out].t;
		rank = q.ix[q.count - 1]->rank > rank ? q.ix[q.count - 1]->rank : rank;
	}
	/* neighbouring indices stay in place, others go to the front */
	at = last - first + 1 == q.count ? first : 0;
	for (uint32_t d = 0; d < q.x->rank; d++) {
		if (d < list->n && list->u.tensors[d].node)
			continue;
		if (next == at)
			next += rank;
		q.base[next++] = q.x->strides[d];
	}
	for (uint32_t k = 0; k < q.count; k++)
		place(&q, k, at, rank);
	return read_indexed(r, n, &q);
}

/* Copies x into the part of out that starts at element `offset` of it. */
static void copy_into(struct stx_tensor *out, int64_t offset, const struct stx_tensor *x,
		      const int64_t *sizes)
{
	struct stx__ref_walk w;

	stx__ref_walk_start(&w, x->rank, sizes);
	stx__ref_walk_add(&w, x->strides, x->offset);
	for (stx__ref_walk_add(&w, out->strides, offset); w.left > 0; stx__ref_walk_next(&w))
		stx__ref_store(out, w.off[1],
			       stx__ref_cast((enum stx_dtype)out->dtype, (enum stx_dtype)x->dtype,
					     stx__ref_load(x, w.off[0])));
}

stx_err stx__ref_cat(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_arg *list = &n->args[0];
	struct stx_tensor *out;
	int64_t at = 0;
	uint32_t d;
	stx_err e = stx__ref_dim(r, n, n->args[1].u.ex, n->outs[0].rank, &d);

	if (e)
		return e;
	out = stx__ref_result(r, n);
	if (!out)
		return stx__ref_error(r);
	for (uint32_t i = 0; i < list->n; i++) {
		const struct stx_tensor *x =
			&r->values[list->u.tensors[i].node->id][list->u.tensors[i].out].t;

		if (x->rank == 1 && x->sizes[0] == 0) /* left out whatever the others' rank (B25) */
			continue;
		copy_into(out, at * out->strides[d], x, x->sizes);
		at += x->sizes[d];
	}
	return 0;
}

/* Pairs (before, after) from the last dimension on; negative ones cut. */
stx_err stx__ref_pad(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	union stx_scalar fill = stx__ref_scalar(&n->args[2], (enum stx_dtype)x->dtype);
	struct stx_tensor *out = stx__ref_result(r, n), from = *x;
	int64_t before[STX_MAX_DIMS] = { 0 }, count, offset = 0;

	if (!out)
		return stx__ref_error(r);
	for (uint32_t i = 0; i < n->args[1].n / 2; i++) {
		stx_err e = stx__ref_int(r, n, n->args[1].u.exs[2 * i], &before[x->rank - 1 - i]);

		if (e)
			return e;
	}
	count = stx__ref_numel(out);
	for (int64_t i = 0; i < count; i++)
		stx__ref_store(out, i, fill);
	for (uint32_t d = 0; d < x->rank; d++) {
		int64_t lo = before[d] < 0 ? -before[d] : 0, hi = out->sizes[d] - before[d];

		hi = hi < x->sizes[d] ? hi : x->sizes[d];
		if (hi <= lo)
			return 0; /* nothing of x is left */
		from.sizes[d] = hi - lo;
		from.offset += lo * x->strides[d];
		offset += (before[d] > 0 ? before[d] : 0) * out->strides[d];
	}
	copy_into(out, offset, &from, from.sizes);
	return 0;
}

stx_err stx__ref_stack(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_arg *list = &n->args[0];
	struct stx_tensor *out, part;
	uint32_t at;
	stx_err e = stx__ref_dim(r, n, n->args[1].u.ex, n->outs[0].rank, &at);

	if (e)
		return e;
	out = stx__ref_result(r, n);
	if (!out)
		return stx__ref_error(r);
	part = *out; /* out without the stacked dimension */
	memmove(part.strides + at, part.strides + at + 1,
		(out->rank - at - 1) * sizeof *part.strides);
	for (uint32_t i = 0; i < list->n; i++) {
		const struct stx_tensor *x =
			&r->values[list->u.tensors[i].node->id][list->u.tensors[i].out].t;

		copy_into(&part, i * out->strides[at], x, x->sizes);
	}
	return 0;
}

stx_err stx__ref_repeat(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	struct stx_tensor *out = stx__ref_result(r, n);
	struct stx__ref_walk w;

	if (!out)
		return stx__ref_error(r);
	stx__ref_walk_start(&w, out->rank, out->sizes);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		int64_t off = x->offset;

		for (uint32_t d = 0; d < x->rank; d++)
			off += w.at[out->rank - x->rank + d] % x->sizes[d] * x->strides[d];
		stx__ref_store(out, i, stx__ref_load(x, off));
	}
	return 0;
}

/* Keeps j - i <= diagonal (tril) or >= diagonal (triu) of the last two dimensions, zero elsewhere.
 */
stx_err stx__ref_triangle(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	union stx_scalar zero = { .u = 0 };
	struct stx_tensor *out;
	struct stx__ref_walk w;
	int64_t k;
	stx_err e = stx__ref_int(r, n, n->args[1].u.ex, &k);

	if (e)
		return e;
	out = stx__ref_result(r, n);
	if (!out)
		return stx__ref_error(r);
	stx__ref_walk_start(&w, out->rank, out->sizes);
	stx__ref_walk_add(&w, x->strides, x->offset);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		int64_t by = w.at[w.rank - 1] - w.at[w.rank - 2];
		int keep = n->op == STX_OP_TRIL ? by <= k : by >= k;

		stx__ref_store(out, i, keep ? stx__ref_load(x, w.off[0]) : zero);
	}
	return 0;
}
