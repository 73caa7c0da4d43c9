/* ref_scatter.c: writes through indices in program order. Sums and products are kept in extended
 * precision for each element and rounded once. An index outside [0, size) is an error; only
 * index_put wraps (B15). */
#include "ref_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum how { OVERWRITE, SUM, PROD, AMAX, AMIN, MEAN };

struct writer {
	struct stx_tensor *out;
	enum how how;
	int include_self;
	struct stx__ref_sum *sum; /* of each element; PROD uses s only */
	uint64_t *whole;          /* integers */
	int64_t *count;
};

static void *per_element(const struct stx_tensor *t, size_t size)
{
	return calloc((size_t)stx__ref_numel(t) + 1, size);
}

static stx_err begin(struct stx__ref *r, const struct stx_node *n, struct writer *w, enum how how,
		     int include_self)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	struct stx__ref_walk walk;

	if (n->outs[0].dtype == STX_BOOL) /* or, and */
		how = how == SUM ? AMAX : how == PROD ? AMIN : how;
	*w = (struct writer){ .how = how, .include_self = include_self };
	w->out = stx__ref_result(r, n);
	if (!w->out)
		return stx__ref_error(r);
	w->sum = per_element(w->out, sizeof *w->sum);
	w->whole = per_element(w->out, sizeof *w->whole);
	w->count = per_element(w->out, sizeof *w->count);
	if (!w->sum || !w->whole || !w->count)
		return stx__ref_fail(r, n, STX_E_NOMEM, "out of memory");
	stx__ref_walk_start(&walk, x->rank, x->sizes);
	stx__ref_walk_add(&walk, x->strides, x->offset);
	for (int64_t i = 0; walk.left > 0; i++, stx__ref_walk_next(&walk)) {
		union stx_scalar v = stx__ref_load(x, walk.off[0]);

		stx__ref_store(w->out, i, v);
		w->sum[i].s = v.f;
		w->whole[i] = v.u;
	}
	return 0;
}

static enum stx_dtype type_of(const struct writer *w)
{
	return (enum stx_dtype)w->out->dtype;
}

static void write_at(struct writer *w, int64_t i, union stx_scalar v)
{
	int is_float = stx_dtype_is_float(type_of(w));
	int first = !w->count[i]++ && !w->include_self;

	if (w->how == OVERWRITE || first) {
		stx__ref_store(w->out, i, v);
		w->sum[i] = (struct stx__ref_sum){ v.f, 0 };
		w->whole[i] = v.u;
		if (w->how == OVERWRITE || !is_float)
			return;
	} else if (w->how == AMAX || w->how == AMIN) {
		union stx_scalar old = stx__ref_load(w->out, i);

		stx__ref_store(w->out, i,
			       stx_prim_eval(w->how == AMAX ? STX_P_MAX : STX_P_MIN, type_of(w),
					     type_of(w), old, v, v));
	} else if (w->how == PROD) {
		w->sum[i].s *= v.f;
		w->whole[i] *= v.u;
	} else {
		if (is_float)
			stx__ref_sum_add(&w->sum[i], v.f);
		w->whole[i] += v.u;
	}
}

/* What was accumulated, rounded once. */
static void finish(struct writer *w)
{
	enum stx_dtype t = type_of(w);
	int64_t n = w->out && w->sum && w->whole && w->count && w->how != OVERWRITE &&
				    w->how != AMAX && w->how != AMIN
			    ? stx__ref_numel(w->out)
			    : 0;

	for (int64_t i = 0; i < n; i++) {
		int64_t by = w->count[i] + (w->include_self != 0);

		if (!w->count[i])
			continue;
		if (stx_dtype_is_float(t)) {
			long double v =
				w->how == PROD ? w->sum[i].s : stx__ref_sum_value(&w->sum[i]);

			v = w->how == MEAN ? v / by : v;
			stx__ref_store(w->out, i,
				       (union stx_scalar){ .f = stx__ref_round_wide(t, v) });
			continue;
		}
		union stx_scalar v = stx_scalar_wrap(t, w->whole[i]);

		if (w->how == MEAN && stx_dtype_kind(t) == STX_KIND_INT)
			v.i = v.i / by - (v.i % by < 0);
		else if (w->how == MEAN)
			v.u /= (uint64_t)by;
		stx__ref_store(w->out, i, v);
	}
	free(w->sum);
	free(w->whole);
	free(w->count);
}

static stx_err outside(struct stx__ref *r, const struct stx_node *n, int64_t at, int64_t size)
{
	return stx__ref_fail(r, n, STX_E_BOUNDS, "index out of bounds: 0 <= %lld < %lld",
			     (long long)at, (long long)size);
}

static enum how how_of(const struct stx_node *n)
{
	static const char *const names[] = { "", "sum", "prod", "amax", "amin", "mean" };
	int i = 5;

	if (n->op != STX_OP_SCATTER_REDUCE)
		return n->op == STX_OP_SCATTER_ADD ? SUM : OVERWRITE;
	while (strcmp(names[i], n->args[4].u.str) != 0)
		i--;
	return (enum how)i;
}

stx_err stx__ref_scatter(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *ix = stx__ref_arg(r, n, 2), *src = stx__ref_arg(r, n, 3);
	struct writer w = { 0 };
	struct stx__ref_walk walk;
	uint32_t d;
	stx_err e = stx__ref_dim(r, n, n->args[1].u.ex, ix->rank, &d);

	if (!e)
		e = begin(r, n, &w, how_of(n), n->op != STX_OP_SCATTER_REDUCE || n->args[5].u.i);
	stx__ref_walk_start(&walk, ix->rank, ix->sizes);
	stx__ref_walk_add(&walk, ix->strides, ix->offset);
	if (src)
		stx__ref_walk_add(&walk, src->strides, src->offset);
	for (; !e && walk.left > 0; stx__ref_walk_next(&walk)) {
		int64_t to = stx__ref_load(ix, walk.off[0]).i,
			size = ix->rank ? w.out->sizes[d] : 1, off = 0;

		if (to < 0 || to >= size) {
			e = outside(r, n, to, size);
			break;
		}
		for (uint32_t i = 0; i < ix->rank; i++)
			off += (i == d ? to : walk.at[i]) * w.out->strides[i];
		write_at(&w, off,
			 src ? stx__ref_load(src, walk.off[1])
			     : stx__ref_scalar(&n->args[3], type_of(&w)));
	}
	finish(&w);
	return e;
}

stx_err stx__ref_index_write(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *ix = stx__ref_arg(r, n, 2), *src = stx__ref_arg(r, n, 3);
	struct writer w = { 0 };
	struct stx__ref_walk walk;
	int64_t sizes[STX_MAX_DIMS] = { 0 };
	uint32_t d, rank;
	stx_err e = stx__ref_dim(r, n, n->args[1].u.ex, stx__ref_arg(r, n, 0)->rank, &d);

	if (!e)
		e = begin(r, n, &w, n->op == STX_OP_INDEX_ADD ? SUM : OVERWRITE, 1);
	if (e)
		goto done;
	rank = w.out->rank;
	memcpy(sizes, w.out->sizes, sizeof sizes);
	sizes[d] = stx__ref_numel(ix);
	stx__ref_walk_start(&walk, rank ? rank : 1, sizes);
	if (src)
		stx__ref_walk_add(&walk, src->strides, src->offset);
	for (; !e && walk.left > 0; stx__ref_walk_next(&walk)) {
		int64_t to =
			stx__ref_load(ix, ix->offset + (ix->rank ? walk.at[d] * ix->strides[0] : 0))
				.i;
		int64_t size = rank ? w.out->sizes[d] : 1, off = 0;
		union stx_scalar v;

		if (to < 0 && n->op == STX_OP_INDEX_FILL)
			to += size;
		if (to < 0 || to >= size) {
			e = outside(r, n, to, size);
			break;
		}
		for (uint32_t i = 0; i < rank; i++)
			off += (i == d ? to : walk.at[i]) * w.out->strides[i];
		v = src ? stx__ref_load(src, walk.off[0])
			: stx__ref_scalar(&n->args[3], type_of(&w));
		if (n->op == STX_OP_INDEX_ADD && stx_dtype_is_float(type_of(&w)))
			v.f = stx_scalar_round(type_of(&w), v.f * stx__ref_scalar_f(&n->args[4]));
		else if (n->op == STX_OP_INDEX_ADD && type_of(&w) == STX_BOOL)
			v.u &= stx__ref_scalar_f(&n->args[4]) != 0;
		else if (n->op == STX_OP_INDEX_ADD)
			v = stx_scalar_wrap(type_of(&w), v.u * (uint64_t)n->args[4].u.i);
		write_at(&w, off, v);
	}
done:
	finish(&w);
	return e;
}

/* One value where a mask over dimensions from `at` on holds. */
static void put_masked(struct writer *w, const struct stx_tensor *mask, uint32_t at,
		       const struct stx_tensor *v)
{
	struct stx__ref_walk walk;
	int64_t strides[STX_MAX_DIMS] = { 0 };

	for (uint32_t i = 0; i < mask->rank; i++)
		strides[at + i] = mask->strides[i];
	stx__ref_walk_start(&walk, w->out->rank, w->out->sizes);
	stx__ref_walk_add(&walk, strides, mask->offset);
	for (int64_t i = 0; walk.left > 0; i++, stx__ref_walk_next(&walk))
		if (stx__ref_load(mask, walk.off[0]).u)
			write_at(w, i, stx__ref_load(v, v->offset));
}

/* The points of index.Tensor's result, written instead of read. */
stx_err stx__ref_index_put(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_arg *list = &n->args[1];
	const struct stx_tensor *v = stx__ref_arg(r, n, 2), *ix[STX_MAX_DIMS] = { NULL };
	struct stx__ref_walk walk;
	struct writer w = { 0 };
	int64_t sizes[2 * STX_MAX_DIMS], common[STX_MAX_DIMS];
	uint32_t rank = 0, nidx = 0, first = 0, last = 0, at, total = 0,
		 where[STX_MAX_DIMS] = { 0 };
	stx_err e = begin(r, n, &w, n->args[3].u.i ? SUM : OVERWRITE, 1);

	if (e)
		goto done;
	for (uint32_t i = 0; i < STX_MAX_DIMS; i++)
		common[i] = 1;
	for (uint32_t i = 0; i < list->n; i++) {
		if (!list->u.tensors[i].node)
			continue;
		ix[i] = &r->values[list->u.tensors[i].node->id][list->u.tensors[i].out].t;
		if (ix[i]->dtype == STX_BOOL) {
			put_masked(&w, ix[i], i, v);
			goto done;
		}
		first = nidx++ ? first : i;
		last = i;
		rank = ix[i]->rank > rank ? ix[i]->rank : rank;
	}
	for (uint32_t i = 0; i < list->n; i++) /* from the right */
		for (uint32_t k = 0; ix[i] && k < ix[i]->rank; k++)
			if (ix[i]->sizes[ix[i]->rank - 1 - k] != 1)
				common[k] = ix[i]->sizes[ix[i]->rank - 1 - k];
	at = last - first + 1 == nidx ? first : 0;
	for (uint32_t d = 0; d <= w.out->rank; d++) {
		if (total == at && d >= at)
			for (uint32_t k = rank; k-- > 0;)
				sizes[total++] = common[k];
		if (d < w.out->rank && !ix[d]) {
			where[d] = total;
			sizes[total++] = w.out->sizes[d];
		}
		if (d == w.out->rank)
			break;
	}
	stx__ref_walk_start(&walk, total, sizes);
	stx__ref_walk_broadcast(&walk, v);
	for (; !e && walk.left > 0; stx__ref_walk_next(&walk)) {
		int64_t off = 0;

		for (uint32_t d = 0; d < w.out->rank; d++) {
			int64_t to = 0, o = ix[d] ? ix[d]->offset : 0;

			for (uint32_t k = 0; ix[d] && k < ix[d]->rank; k++)
				o += ix[d]->sizes[k] == 1 ? 0
							  : walk.at[at + rank - ix[d]->rank + k] *
								    ix[d]->strides[k];
			to = ix[d] ? stx__ref_load(ix[d], o).i : walk.at[where[d]];
			if (to < 0)
				to += w.out->sizes[d];
			if (to < 0 || to >= w.out->sizes[d]) {
				e = outside(r, n, to, w.out->sizes[d]);
				break;
			}
			off += to * w.out->strides[d];
		}
		if (!e)
			write_at(&w, off, stx__ref_load(v, walk.off[0]));
	}
done:
	finish(&w);
	return e;
}
