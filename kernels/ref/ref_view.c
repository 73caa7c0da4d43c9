/* ref_view.c: views: new sizes, strides and offset over the same storage; a reshape copies when it
 * must. */
#include "ref_internal.h"

#include <string.h>

/* Strides of x under sizes `to`, when a view without copying exists: 1, else 0. Runs of dimensions
 * that are contiguous among themselves are matched against runs of the new sizes. */
static int restride(const struct stx_tensor *x, uint32_t rank, const int64_t *to, int64_t *strides)
{
	int64_t sizes[STX_MAX_DIMS], st[STX_MAX_DIMS];
	uint32_t n = 0, i = 0, k = 0;

	for (uint32_t d = 0; d < x->rank; d++) /* size-1 dimensions say nothing */
		if (x->sizes[d] != 1) {
			sizes[n] = x->sizes[d];
			st[n++] = x->strides[d];
		}
	for (uint32_t d = 0; d < rank; d++)
		strides[d] = 1;
	while (i < n) {
		int64_t have = sizes[i++], want = 1;
		uint32_t from = k, last = i - 1;

		while (k < rank && want < have)
			want *= to[k++];
		while (want != have) {
			if (want < have) {
				if (k == rank)
					return 0;
				want *= to[k++];
			} else {
				if (i == n)
					return 0;
				have *= sizes[i++];
			}
		}
		for (uint32_t d = last; d + 1 < i; d++)
			if (st[d] != st[d + 1] * sizes[d + 1])
				return 0;
		for (int64_t s = st[i - 1], d = (int64_t)k - 1; d >= (int64_t)from; d--) {
			strides[d] = s;
			s *= to[d];
		}
	}
	for (; k < rank; k++)
		if (to[k] != 1)
			return 0;
	return 1;
}

/* Sizes of the node's result. */
static stx_err result_sizes(struct stx__ref *r, const struct stx_node *n, int64_t *sizes)
{
	for (uint32_t i = 0; i < n->outs[0].rank; i++) {
		stx_err e = stx__ref_int(r, n, n->outs[0].sizes[i], &sizes[i]);

		if (e)
			return e;
	}
	return 0;
}

stx_err stx__ref_view(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	int64_t sizes[STX_MAX_DIMS], strides[STX_MAX_DIMS], have = stx__ref_numel(x), want = 1;
	stx_err e = result_sizes(r, n, sizes);
	struct stx_tensor *out;
	struct stx__ref_walk w;

	if (e)
		return e;
	for (uint32_t i = 0; i < n->outs[0].rank; i++)
		want *= sizes[i];
	if (have != want)
		return stx__ref_fail(r, n, STX_E_INVALID, "view of %lld elements as %lld",
				     (long long)have, (long long)want);
	if (have > 0 && restride(x, n->outs[0].rank, sizes, strides))
		return stx__ref_alias(r, n, 0, strides, x->offset);
	out = stx__ref_result(r, n);
	if (!out)
		return stx__ref_error(r);
	stx__ref_walk_start(&w, x->rank, x->sizes);
	stx__ref_walk_add(&w, x->strides, x->offset);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w))
		stx__ref_store(out, i, stx__ref_load(x, w.off[0]));
	return 0;
}

stx_err stx__ref_permute(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	int64_t strides[STX_MAX_DIMS];

	for (uint32_t i = 0; i < x->rank; i++) {
		uint32_t d;
		stx_err e = stx__ref_dim(r, n, n->args[1].u.exs[i], x->rank, &d);

		if (e)
			return e;
		strides[i] = x->strides[d];
	}
	return stx__ref_alias(r, n, 0, strides, x->offset);
}

/* transpose.int, and t: the two dimensions of a matrix */
stx_err stx__ref_transpose(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	int64_t strides[STX_MAX_DIMS];
	uint32_t a = 0, b = x->rank == 2;
	stx_err e = 0;

	memcpy(strides, x->strides, sizeof strides);
	if (n->op == STX_OP_TRANSPOSE) {
		e = stx__ref_dim(r, n, n->args[1].u.ex, x->rank, &a);
		if (!e)
			e = stx__ref_dim(r, n, n->args[2].u.ex, x->rank, &b);
	}
	if (e)
		return e;
	strides[a] = x->strides[b];
	strides[b] = x->strides[a];
	return stx__ref_alias(r, n, 0, strides, x->offset);
}

stx_err stx__ref_expand(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	int64_t strides[STX_MAX_DIMS] = { 0 };
	uint32_t lead = n->outs[0].rank - x->rank;

	for (uint32_t i = 0; i < x->rank; i++)
		strides[lead + i] = x->sizes[i] == 1 ? 0 : x->strides[i];
	return stx__ref_alias(r, n, 0, strides, x->offset);
}

stx_err stx__ref_squeeze(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	int64_t strides[STX_MAX_DIMS];
	uint32_t set = 0, rank = 0, d;

	for (uint32_t i = 0; i < n->args[1].n; i++) {
		stx_err e = stx__ref_dim(r, n, n->args[1].u.exs[i], x->rank, &d);

		if (e)
			return e;
		set |= 1u << d;
	}
	for (d = 0; d < x->rank; d++)
		if (!(set & 1u << d) || x->sizes[d] != 1)
			strides[rank++] = x->strides[d];
	if (rank != n->outs[0].rank)
		return stx__ref_fail(r, n, STX_E_INVALID,
				     "squeeze of a dimension whose size is 1 only at run time");
	return stx__ref_alias(r, n, 0, strides, x->offset);
}

stx_err stx__ref_unsqueeze(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	int64_t strides[STX_MAX_DIMS];
	uint32_t at;
	stx_err e = stx__ref_dim(r, n, n->args[1].u.ex, x->rank + 1u, &at);

	if (e)
		return e;
	for (uint32_t d = 0; d <= x->rank; d++)
		strides[d] = d == at ? 0 : x->strides[d - (d > at)];
	return stx__ref_alias(r, n, 0, strides, x->offset);
}

/* start as Python takes it: negative counts from the end, then clamped to [0, size] */
stx_err stx__ref_slice(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	int64_t strides[STX_MAX_DIMS], start = 0, step;
	uint32_t d;
	stx_err e = stx__ref_dim(r, n, n->args[1].u.ex, x->rank, &d);

	if (!e && n->args[2].kind == STX_ARG_INT)
		e = stx__ref_int(r, n, n->args[2].u.ex, &start);
	if (!e)
		e = stx__ref_int(r, n, n->args[4].u.ex, &step);
	if (e)
		return e;
	if (start < 0)
		start += x->sizes[d];
	start = start < 0 ? 0 : start > x->sizes[d] ? x->sizes[d] : start;
	memcpy(strides, x->strides, sizeof strides);
	if (x->sizes[d] > 1 && step < x->sizes[d]) /* else at most one element is left */
		strides[d] *= step;
	return stx__ref_alias(r, n, 0, strides, x->offset + start * x->strides[d]);
}

stx_err stx__ref_unfold(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	int64_t strides[STX_MAX_DIMS + 1], step;
	uint32_t d;
	stx_err e = stx__ref_dim(r, n, n->args[1].u.ex, x->rank, &d);

	if (!e)
		e = stx__ref_int(r, n, n->args[3].u.ex, &step);
	if (e)
		return e;
	memcpy(strides, x->strides, x->rank * sizeof *strides);
	strides[x->rank] = x->rank ? x->strides[d] : 1;
	if (x->rank && x->sizes[d] > 1 && step < x->sizes[d]) /* else there is one window */
		strides[d] *= step;
	return stx__ref_alias(r, n, 0, strides, x->offset);
}

stx_err stx__ref_select(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	int64_t strides[STX_MAX_DIMS], at;
	uint32_t d;
	stx_err e = stx__ref_dim(r, n, n->args[1].u.ex, x->rank, &d);

	if (!e)
		e = stx__ref_int(r, n, n->args[2].u.ex, &at);
	if (e)
		return e;
	if (at < -x->sizes[d] || at >= x->sizes[d])
		return stx__ref_fail(r, n, STX_E_BOUNDS, "index %lld of a dimension of size %lld",
				     (long long)at, (long long)x->sizes[d]);
	at += at < 0 ? x->sizes[d] : 0;
	for (uint32_t i = 0, k = 0; i < x->rank; i++)
		if (i != d)
			strides[k++] = x->strides[i];
	return stx__ref_alias(r, n, 0, strides, x->offset + at * x->strides[d]);
}

stx_err stx__ref_flip(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	int64_t strides[STX_MAX_DIMS], offset = x->offset;

	memcpy(strides, x->strides, sizeof strides);
	for (uint32_t i = 0; i < n->args[1].n; i++) {
		uint32_t d;
		stx_err e = stx__ref_dim(r, n, n->args[1].u.exs[i], x->rank, &d);

		if (e)
			return e;
		if (x->rank == 0 || x->sizes[d] == 0)
			continue;
		offset += (x->sizes[d] - 1) * x->strides[d];
		strides[d] = -x->strides[d];
	}
	return stx__ref_alias(r, n, 0, strides, offset);
}

stx_err stx__ref_diagonal(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	int64_t strides[STX_MAX_DIMS], shift, offset;
	uint32_t a, b, rank = 0;
	stx_err e = stx__ref_int(r, n, n->args[1].u.ex, &shift);

	if (!e)
		e = stx__ref_dim(r, n, n->args[2].u.ex, x->rank, &a);
	if (!e)
		e = stx__ref_dim(r, n, n->args[3].u.ex, x->rank, &b);
	if (e)
		return e;
	for (uint32_t d = 0; d < x->rank; d++)
		if (d != a && d != b)
			strides[rank++] = x->strides[d];
	strides[rank] = x->strides[a] + x->strides[b];
	offset = x->offset;
	if (shift > -x->sizes[a] && shift < x->sizes[b]) /* else it is empty */
		offset += shift < 0 ? -shift * x->strides[a] : shift * x->strides[b];
	return stx__ref_alias(r, n, 0, strides, offset);
}
