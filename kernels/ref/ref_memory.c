/* ref_memory.c: other strides, lists of parts, sizes, and writes through
 * views, each in its own loop. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ref_internal.h"

stx_err stx__ref_identity(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);

	return stx__ref_alias(r, n, 0, x->strides, x->offset);
}

/* Of an input as the graph states it; other values are dense. */
static stx_err stride_of(struct stx__ref *r, const struct stx_node *n, const struct stx_tensor *x,
			 uint32_t dim, int64_t *out)
{
	for (uint32_t i = 0; i < r->g->inputs.n; i++)
		if (r->g->inputs.at[i].node == n->args[0].u.tensor.node &&
		    r->g->inputs.at[i].strides)
			return stx__ref_int(r, n, r->g->inputs.at[i].strides[dim], out);
	*out = 1;
	for (uint32_t i = dim + 1; i < x->rank; i++)
		*out *= x->sizes[i] > 1 ? x->sizes[i] : 1;
	return 0;
}

/* One value everywhere: fill.Scalar, empty (zeros), scalar_tensor, and sizes as numbers. */
stx_err stx__ref_constant(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x =
		n->nargs && n->args[0].kind == STX_ARG_TENSOR ? stx__ref_arg(r, n, 0) : NULL;
	struct stx_tensor *out = stx__ref_result(r, n);
	union stx_scalar v = { .i = 0 };
	uint32_t d = 0;
	stx_err e = 0;

	if (!out)
		return stx__ref_error(r);
	if (n->op == STX_OP_FILL || n->op == STX_OP_SCALAR_TENSOR)
		v = stx__ref_scalar(&n->args[n->op == STX_OP_FILL], n->outs[0].dtype);
	if (n->op == STX_OP_SYM_NUMEL)
		v.i = stx__ref_numel(x);
	if (n->op == STX_OP_SYM_SIZE || n->op == STX_OP_SYM_STRIDE) {
		assert(x);
		e = stx__ref_dim(r, n, n->args[1].u.ex, x->rank, &d);
		if (!e && n->op == STX_OP_SYM_SIZE)
			v.i = x->sizes[d];
		else if (!e)
			e = stride_of(r, n, x, d, &v.i);
	}
	for (int64_t i = 0, count = e ? 0 : stx__ref_numel(out); i < count; i++)
		stx__ref_store(out, i, v);
	return e;
}

/* split, split_with_sizes, unbind: every part copied. */
stx_err stx__ref_split(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	int64_t from = 0, strides[STX_MAX_DIMS];
	uint32_t d;
	stx_err e = stx__ref_dim(r, n, n->args[n->nargs - 1].u.ex, x->rank, &d);

	for (uint32_t k = 0; !e && k < n->nouts; k++) {
		struct stx_tensor *out = stx__ref_result_at(r, n, k);
		struct stx__ref_walk w;

		if (!out)
			return stx__ref_error(r);
		for (uint32_t i = 0, j = 0; i < x->rank; i++)
			if (n->op != STX_OP_UNBIND || i != d)
				strides[j++] = x->strides[i];
		stx__ref_walk_start(&w, out->rank, out->sizes);
		stx__ref_walk_add(&w, strides, x->offset + from * x->strides[d]);
		for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w))
			stx__ref_store(out, i, stx__ref_load(x, w.off[0]));
		from += n->op == STX_OP_UNBIND ? 1 : out->sizes[d];
	}
	return e;
}

stx_err stx__ref_as_strided(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	int64_t strides[STX_MAX_DIMS], offset = 0;
	stx_err e =
		n->args[3].kind == STX_ARG_NONE ? 0 : stx__ref_int(r, n, n->args[3].u.ex, &offset);

	for (uint32_t i = 0; !e && i < n->args[2].n; i++)
		e = stx__ref_int(r, n, n->args[2].u.exs[i], &strides[i]);
	return e ? e : stx__ref_alias(r, n, 0, strides, x->offset + offset);
}

/* ---- writes through views ---- */

/* Strides and offset of the part of `out` that src replaces, over src's dimensions. */
static stx_err part_of(struct stx__ref *r, const struct stx_node *n, const struct stx_tensor *out,
		       int64_t *strides, int64_t *offset)
{
	uint32_t d, d2 = 0, k = 0;
	int64_t at = 0, step = 1;
	int diagonal = n->op == STX_OP_DIAGONAL_SCATTER;
	stx_err e = stx__ref_dim(r, n, n->args[diagonal ? 3 : 2].u.ex, out->rank, &d);

	if (!e && diagonal)
		e = stx__ref_dim(r, n, n->args[4].u.ex, out->rank, &d2);
	if (!e && n->args[diagonal ? 2 : 3].kind != STX_ARG_NONE)
		e = stx__ref_int(r, n, n->args[diagonal ? 2 : 3].u.ex, &at);
	if (!e && n->op == STX_OP_SLICE_SCATTER)
		e = stx__ref_int(r, n, n->args[5].u.ex, &step);
	if (e)
		return e;
	for (uint32_t i = 0; i < out->rank; i++)
		if (!(diagonal && (i == d || i == d2)) &&
		    !(n->op == STX_OP_SELECT_SCATTER && i == d))
			strides[k++] = out->strides[i] * (i == d ? step : 1);
	if (diagonal) {
		strides[k] = out->strides[d] + out->strides[d2];
		*offset = at < 0 ? -at * out->strides[d] : at * out->strides[d2];
		return 0;
	}
	at += at < 0 ? out->sizes[d] : 0;
	*offset = (at < 0 ? 0 : at) * out->strides[d];
	return 0;
}

stx_err stx__ref_through(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0), *src = stx__ref_arg(r, n, 1);
	struct stx_tensor *out = stx__ref_result(r, n);
	int64_t strides[STX_MAX_DIMS] = { 0 }, offset = 0;
	struct stx__ref_walk w;
	stx_err e;

	if (!out)
		return stx__ref_error(r);
	stx__ref_walk_start(&w, x->rank, x->sizes);
	stx__ref_walk_add(&w, x->strides, x->offset);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w))
		stx__ref_store(out, i, stx__ref_load(x, w.off[0]));
	if ((e = part_of(r, n, out, strides, &offset)))
		return e;
	stx__ref_walk_start(&w, src->rank, src->sizes);
	stx__ref_walk_add(&w, strides, offset);
	stx__ref_walk_add(&w, src->strides, src->offset);
	for (; w.left > 0; stx__ref_walk_next(&w))
		stx__ref_store(out, w.off[0], stx__ref_load(src, w.off[1]));
	return 0;
}

stx_err stx__ref_masked_scatter(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *src = stx__ref_arg(r, n, 2);
	struct stx_tensor *out = stx__ref_result(r, n);
	struct stx__ref_walk w, s;

	if (!out)
		return stx__ref_error(r);
	stx__ref_walk_start(&w, out->rank, out->sizes);
	stx__ref_walk_broadcast(&w, stx__ref_arg(r, n, 0));
	stx__ref_walk_broadcast(&w, stx__ref_arg(r, n, 1));
	stx__ref_walk_start(&s, src->rank, src->sizes);
	stx__ref_walk_add(&s, src->strides, src->offset);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		if (!stx__ref_load(stx__ref_arg(r, n, 1), w.off[1]).u) {
			stx__ref_store(out, i, stx__ref_load(stx__ref_arg(r, n, 0), w.off[0]));
			continue;
		}
		if (s.left <= 0)
			return stx__ref_fail(r, n, STX_E_BOUNDS,
					     "the mask takes more elements than source has");
		stx__ref_store(out, i, stx__ref_load(src, s.off[0]));
		stx__ref_walk_next(&s);
	}
	return 0;
}

/* ---- sums into a table of zeros ---- */

static stx_err outside(struct stx__ref *r, const struct stx_node *n, int64_t at, int64_t size)
{
	return stx__ref_fail(r, n, STX_E_BOUNDS, "index out of bounds: 0 <= %lld < %lld",
			     (long long)at, (long long)size);
}

static stx_err store_sums(struct stx__ref *r, const struct stx_node *n, struct stx_tensor *out,
			  struct stx__ref_sum *sums, stx_err e)
{
	(void)r;
	for (int64_t i = 0, count = e ? 0 : stx__ref_numel(out); i < count; i++)
		stx__ref_store(out, i,
			       (union stx_scalar){
				       .f = stx__ref_round_wide(n->outs[0].dtype,
								stx__ref_sum_value(&sums[i])) });
	free(sums);
	return e;
}

stx_err stx__ref_embedding_back(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *dy = stx__ref_arg(r, n, 0), *ix = stx__ref_arg(r, n, 1);
	struct stx_tensor *out = stx__ref_result(r, n);
	struct stx__ref_sum *sums;
	struct stx__ref_walk w;
	int64_t padding = -1, *count;
	stx_err e = 0;

	if (!out)
		return stx__ref_error(r);
	sums = calloc((size_t)stx__ref_numel(out) + 1, sizeof *sums);
	count = calloc((size_t)out->sizes[0] + 1, sizeof *count);
	if (!sums || !count)
		e = stx__ref_fail(r, n, STX_E_NOMEM, "out of memory");
	if (!e)
		e = stx__ref_int(r, n, n->args[3].u.ex, &padding);
	for (int pass = 0; pass < 2 && !e; pass++) {
		stx__ref_walk_start(&w, ix->rank, ix->sizes);
		stx__ref_walk_add(&w, ix->strides, ix->offset);
		stx__ref_walk_add(&w, dy->strides, dy->offset);
		for (; !e && w.left > 0; stx__ref_walk_next(&w)) {
			int64_t to = stx__ref_load(ix, w.off[0]).i;

			if (to < 0 || to >= out->sizes[0])
				e = outside(r, n, to, out->sizes[0]);
			else if (!pass)
				count[to]++;
			for (int64_t k = 0; pass && !e && to != padding && k < out->sizes[1]; k++) {
				double v =
					stx__ref_load(dy, w.off[1] + k * dy->strides[dy->rank - 1])
						.f;

				if (n->args[4].u.i)
					v = n->outs[0].dtype == STX_F64
						    ? v / (double)count[to]
						    : (float)v / (float)count[to];
				stx__ref_sum_add(&sums[to * out->sizes[1] + k], v);
			}
		}
	}
	free(count);
	return store_sums(r, n, out, sums, e);
}
