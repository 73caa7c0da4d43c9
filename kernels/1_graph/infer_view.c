/* infer_view.c: result types of views, indexing, concatenation, padding. */
#include <string.h>

#include "graph_internal.h"
#include "infer.h"
#include "passes.h"

/* The sizes of x into out; returns the rank. */
static uint32_t copy_sizes(const struct stx_type *x, stx_ex *out)
{
	memcpy(out, x->sizes, x->rank * sizeof *out);
	return x->rank;
}

static int is_one(struct stx_graph *g, stx_ex e)
{
	return stx_ex_equals(g->ex, e, 1);
}

static stx_err too_many_dims(const struct stx_node *n, struct stx_diag *d)
{
	return stx_fail(d, STX_E_TOO_LARGE, "infer", n->name, "more than %d dimensions",
			STX_MAX_DIMS);
}

/* ---- reshape ---- */

/* Divides the elements of x by the product of the sizes given (all but the one at `skip`): equal
 * factors are cancelled first, so that symbolic sizes divide too. STX_EX_BAD when it does not come
 * out even. */
static stx_ex infer_size(struct stx_graph *g, const struct stx_type *x, const struct stx_arg *s,
			 uint32_t skip)
{
	uint32_t used = 0;
	stx_ex num = stx_ex_const(g->ex, 1), den = stx_ex_const(g->ex, 1);
	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t k = 0;
		if (i == skip)
			continue;
		while (k < x->rank && (used & 1u << k || x->sizes[k] != s->u.exs[i] ||
				       stx_ex_interval(g->ex, x->sizes[k]).lo < 1))
			k++;
		if (k < x->rank)
			used |= 1u << k;
		else
			den = stx_ex_mul(g->ex, den, s->u.exs[i]);
	}
	for (uint32_t k = 0; k < x->rank; k++)
		if (!(used & 1u << k))
			num = stx_ex_mul(g->ex, num, x->sizes[k]);
	if (stx_ex_equals(g->ex, den, 1))
		return num;
	if (stx_ex_interval(g->ex, den).lo < 1)
		return STX_EX_BAD;
	stx_ex q = stx_ex_floordiv(g->ex, num, den);
	return q && stx_ex_mul(g->ex, q, den) == num ? q : STX_EX_BAD;
}

static stx_err no_view(struct stx_graph *g, const struct stx_node *n, const struct stx_type *x,
		       const stx_ex *sizes, uint32_t rank, struct stx_diag *d)
{
	struct stx_type want = { .dtype = x->dtype, .rank = (uint8_t)rank, .sizes = sizes };
	stx_ex have = stx_type_numel(g, x);
	char elems[48] = "more than 2^63";
	if (have)
		stx__infer_size_text(g, have, elems);
	int sure =
		stx__infer_is_static(g, x->sizes, x->rank) && stx__infer_is_static(g, sizes, rank);
	return STX__INFER_FAIL(d, n, "%s is no view of %s: the number of elements, %s, %s",
			       stx__infer_shown(g, &want), stx__infer_shown(g, x), elems,
			       sure ? "differs" : "differs or cannot be proved equal");
}

stx_err stx_shape_view(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	const struct stx_arg *s = &n->args[1];
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t hole = UINT32_MAX;
	if (s->n > STX_MAX_DIMS)
		return too_many_dims(n, d);
	for (uint32_t i = 0; i < s->n; i++) {
		sizes[i] = s->u.exs[i];
		if (stx_ex_equals(g->ex, sizes[i], -1)) {
			if (hole != UINT32_MAX)
				return STX__INFER_FAIL(d, n, "only one size may be -1");
			hole = i;
		} else if (stx_ex_interval(g->ex, sizes[i]).lo < 0) {
			return STX__INFER_FAIL(d, n, "size %u is or may be negative", i);
		}
	}
	if (hole != UINT32_MAX) {
		stx_ex fill = infer_size(g, x, s, hole);
		if (!fill)
			return no_view(g, n, x, sizes, s->n, d);
		sizes[hole] = fill;
		return stx__infer_set(g, n, x->dtype, s->n, sizes, d);
	}
	struct stx_type t = { .dtype = x->dtype, .rank = (uint8_t)s->n, .sizes = sizes };
	stx_ex have = stx_type_numel(g, x), want = stx_type_numel(g, &t);
	if (!have || have != want)
		return no_view(g, n, x, sizes, s->n, d);
	return stx__infer_set(g, n, x->dtype, s->n, sizes, d);
}

/* ---- views ---- */

stx_err stx_shape_permute(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t set, dim;
	stx_err e = stx__infer_dims(g, n, 1, x->rank, 0, &set, d);
	if (e)
		return e;
	if (n->args[1].n != x->rank)
		return STX__INFER_FAIL(d, n, "%u dimensions given for rank %u", n->args[1].n,
				       x->rank);
	for (uint32_t i = 0; i < x->rank; i++) {
		stx__infer_dim(g, n, n->args[1].u.exs[i], x->rank, &dim, d);
		sizes[i] = x->sizes[dim];
	}
	return stx__infer_set(g, n, x->dtype, x->rank, sizes, d);
}

stx_err stx_shape_t(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_ex sizes[STX_MAX_DIMS];
	if (x->rank > 2)
		return STX__INFER_FAIL(d, n, "t takes at most 2 dimensions, not %u", x->rank);
	copy_sizes(x, sizes);
	if (x->rank == 2) {
		sizes[0] = x->sizes[1];
		sizes[1] = x->sizes[0];
	}
	return stx__infer_set(g, n, x->dtype, x->rank, sizes, d);
}

stx_err stx_shape_transpose(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t a, b;
	stx_err e = stx__infer_dim(g, n, n->args[1].u.ex, x->rank, &a, d);
	e = e ? e : stx__infer_dim(g, n, n->args[2].u.ex, x->rank, &b, d);
	if (e)
		return e;
	copy_sizes(x, sizes);
	if (x->rank) {
		sizes[a] = x->sizes[b];
		sizes[b] = x->sizes[a];
	}
	return stx__infer_set(g, n, x->dtype, x->rank, sizes, d);
}

stx_err stx_shape_expand(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	const struct stx_arg *s = &n->args[1];
	stx_ex sizes[STX_MAX_DIMS];
	if (s->n > STX_MAX_DIMS)
		return too_many_dims(n, d);
	if (s->n < x->rank)
		return STX__INFER_FAIL(d, n, "%u sizes given for rank %u", s->n, x->rank);
	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t lead = s->n - x->rank;
		stx_ex have = i < lead ? stx_ex_const(g->ex, 1) : x->sizes[i - lead];
		sizes[i] = s->u.exs[i];
		if (stx_ex_equals(g->ex, sizes[i], -1) && i >= lead)
			sizes[i] = have;
		if (stx_ex_interval(g->ex, sizes[i]).lo < 0)
			return STX__INFER_FAIL(d, n, "size %u is or may be negative", i);
		if (sizes[i] != have && !is_one(g, have))
			return STX__INFER_FAIL(d, n, "dimension %u cannot be expanded: it is not 1",
					       i);
	}
	return stx__infer_set(g, n, x->dtype, s->n, sizes, d);
}

stx_err stx_shape_squeeze(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t set = (1u << x->rank) - 1, rank = 0;
	stx_err e = 0;
	if (n->op == STX_OP_SQUEEZE)
		e = stx__infer_dims(g, n, 1, x->rank, 0, &set, d);
	else if (n->op == STX_OP_SQUEEZE_DIM &&
		 !(e = stx__infer_dim(g, n, n->args[1].u.ex, x->rank, &set, d)))
		set = 1u << set;
	if (e)
		return e;
	for (uint32_t i = 0; i < x->rank; i++) {
		struct stx_interval r = stx_ex_interval(g->ex, x->sizes[i]);
		if (!(set & 1u << i) || r.lo > 1 || r.hi < 1)
			sizes[rank++] = x->sizes[i];
		else if (!is_one(g, x->sizes[i]))
			return STX__INFER_FAIL(d, n, "dimension %u may or may not be 1", i);
	}
	return stx__infer_set(g, n, x->dtype, rank, sizes, d);
}

stx_err stx_shape_flatten(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_ex sizes[STX_MAX_DIMS], p = stx_ex_const(g->ex, 1);
	uint32_t from, to, rank = 0;
	stx_err e = stx__infer_dim(g, n, n->args[1].u.ex, x->rank, &from, d);
	e = e ? e : stx__infer_dim(g, n, n->args[2].u.ex, x->rank, &to, d);
	if (e)
		return e;
	if (from > to)
		return STX__INFER_FAIL(d, n, "start_dim comes after end_dim");
	for (uint32_t i = 0; i < x->rank; i++) {
		if (i < from || i > to) {
			sizes[rank++] = x->sizes[i];
			continue;
		}
		p = stx_ex_mul(g->ex, p, x->sizes[i]);
		if (i == to)
			sizes[rank++] = p;
	}
	if (x->rank == 0)
		sizes[rank++] = p;
	return stx__infer_set(g, n, x->dtype, rank, sizes, d);
}

stx_err stx_shape_unsqueeze(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t at;
	stx_err e = stx__infer_dim(g, n, n->args[1].u.ex, x->rank + 1u, &at, d);
	if (e)
		return e;
	if (x->rank == STX_MAX_DIMS)
		return too_many_dims(n, d);
	for (uint32_t i = 0; i <= x->rank; i++)
		sizes[i] = i < at    ? x->sizes[i]
			   : i == at ? stx_ex_const(g->ex, 1)
				     : x->sizes[i - 1];
	return stx__infer_set(g, n, x->dtype, x->rank + 1u, sizes, d);
}

/* Python's slice bound: negative ones count from the end, all are clamped to [0, size]. */
static stx_ex slice_bound(struct stx_graph *g, stx_ex e, stx_ex size)
{
	struct stx_interval r = stx_ex_interval(g->ex, e);
	if (r.lo >= 0)
		return stx_ex_min(g->ex, e, size);
	if (r.hi < 0 && r.lo > INT64_MIN / 2)
		return stx_ex_max(g->ex, stx_ex_add(g->ex, e, size), stx_ex_const(g->ex, 0));
	return r.hi < 0 ? stx_ex_const(g->ex, 0) : STX_EX_BAD;
}

stx_err stx__infer_slice(struct stx_graph *g, const struct stx_node *n, uint32_t *dim,
			 stx_ex *start, stx_ex *end, int64_t *step, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	const struct stx_arg *a = n->args;
	if (x->rank == 0)
		return STX__INFER_FAIL(d, n, "slice of a 0-d tensor");
	stx_err e = stx__infer_dim(g, n, a[1].u.ex, x->rank, dim, d);
	if (e)
		return e;
	stx_ex size = x->sizes[*dim];
	if (!stx_ex_is_const(g->ex, a[4].u.ex, step) || *step < 1)
		return STX__INFER_FAIL(d, n, "step must be a positive constant");
	*start = a[2].kind == STX_ARG_NONE ? stx_ex_const(g->ex, 0)
					   : slice_bound(g, a[2].u.ex, size);
	*end = a[3].kind == STX_ARG_NONE ? size : slice_bound(g, a[3].u.ex, size);
	if (!*start || !*end)
		return STX__INFER_FAIL(d, n, "the sign of a bound is not known");
	if (stx_ex_is_const(g->ex, *start, NULL) && stx_ex_is_const(g->ex, *end, NULL))
		*end = stx_ex_max(g->ex, *start, *end);
	return 0;
}

stx_err stx_shape_slice(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_ex sizes[STX_MAX_DIMS], start = STX_EX_BAD, end = STX_EX_BAD;
	uint32_t dim;
	int64_t step;
	stx_err e = stx__infer_slice(g, n, &dim, &start, &end, &step, d);
	if (e)
		return e;
	copy_sizes(x, sizes);
	stx_ex span = stx_ex_max(g->ex, stx_ex_sub(g->ex, end, start), stx_ex_const(g->ex, 0));
	sizes[dim] = stx_ex_ceildiv(g->ex, span, stx_ex_const(g->ex, step));
	return stx__infer_set(g, n, x->dtype, x->rank, sizes, d);
}

stx_err stx_shape_select(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t dim;
	int64_t at;
	if (x->rank == 0)
		return STX__INFER_FAIL(d, n, "select from a 0-d tensor");
	stx_err e = stx__infer_dim(g, n, n->args[1].u.ex, x->rank, &dim, d);
	if (e)
		return e;
	int64_t least = stx_ex_interval(g->ex, x->sizes[dim]).lo;
	if (!stx_ex_is_const(g->ex, n->args[2].u.ex, &at))
		return STX__INFER_FAIL(d, n, "index must be a constant");
	if (at >= least || at < -least)
		return STX__INFER_FAIL(d, n,
				       "index %lld is out of range for dimension %u of size %lld",
				       (long long)at, dim, (long long)least);
	copy_sizes(x, sizes);
	for (uint32_t i = dim; i + 1 < x->rank; i++)
		sizes[i] = sizes[i + 1];
	return stx__infer_set(g, n, x->dtype, x->rank - 1u, sizes, d);
}

stx_err stx_shape_flip(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	uint32_t set;
	stx_err e = stx__infer_dims(g, n, 1, x->rank, 0, &set, d);
	return e ? e : stx__infer_set(g, n, x->dtype, x->rank, x->sizes, d);
}

stx_err stx_shape_diagonal(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t a, b, rank = 0;
	int64_t off;
	if (x->rank < 2)
		return STX__INFER_FAIL(d, n, "diagonal needs 2 dimensions, not %u", x->rank);
	stx_err e = stx__infer_dim(g, n, n->args[2].u.ex, x->rank, &a, d);
	e = e ? e : stx__infer_dim(g, n, n->args[3].u.ex, x->rank, &b, d);
	if (e)
		return e;
	if (a == b || !stx_ex_is_const(g->ex, n->args[1].u.ex, &off) || off == INT64_MIN)
		return STX__INFER_FAIL(d, n, "dim1 and dim2 must differ, offset be a constant");
	for (uint32_t i = 0; i < x->rank; i++)
		if (i != a && i != b)
			sizes[rank++] = x->sizes[i];
	stx_ex sa = x->sizes[a], sb = x->sizes[b];
	sa = off < 0 ? stx_ex_addi(g->ex, sa, off) : sa;
	sb = off > 0 ? stx_ex_addi(g->ex, sb, -off) : sb;
	sizes[rank++] = stx_ex_max(g->ex, stx_ex_min(g->ex, sa, sb), stx_ex_const(g->ex, 0));
	return stx__infer_set(g, n, x->dtype, rank, sizes, d);
}

/* ---- indirect reads ---- */

stx_err stx__infer_index(const struct stx_node *n, const struct stx_type *t, struct stx_diag *d)
{
	if (t->dtype == STX_I64 || t->dtype == STX_I32)
		return 0;
	return stx_fail(d, t->dtype == STX_BOOL ? STX_E_UNSUPPORTED : STX_E_INVALID, "infer",
			n->name, "an index tensor must be i64 or i32, not %s",
			stx_dtype_name(t->dtype));
}

stx_err stx__infer_indexed(struct stx_graph *g, const struct stx_node *n, const struct stx_type *x,
			   uint32_t dims, const struct stx_type *chosen, struct stx_diag *d)
{
	int64_t count = 0;
	if (!stx_ex_is_const(g->ex, stx_type_numel(g, chosen), &count) || count == 0)
		return 0;
	for (uint32_t i = 0; i < x->rank; i++)
		if ((dims >> i & 1) && stx_ex_equals(g->ex, x->sizes[i], 0))
			return STX__INFER_FAIL(
				d, n, "an index into dimension %u, which has no elements", i);
	return 0;
}

stx_err stx_shape_gather(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0), *t = stx__infer_type(n, 2);
	uint32_t dim;
	stx_err e = stx__infer_dim(g, n, n->args[1].u.ex, x->rank, &dim, d);
	e = e ? e : stx__infer_index(n, t, d);
	if (e)
		return e;
	if (x->rank != t->rank && (x->rank > 1 || t->rank > 1)) /* 0-d is as of one element */
		return STX__INFER_FAIL(d, n, "index has rank %u, self has %u", t->rank, x->rank);
	for (uint32_t i = 0; i < x->rank; i++)
		if (i != dim && t->sizes[i] != x->sizes[i] &&
		    stx_ex_interval(g->ex, stx_ex_sub(g->ex, t->sizes[i], x->sizes[i])).hi > 0)
			return STX__INFER_FAIL(
				d, n, "index is or may be larger than self in dimension %u", i);
	e = stx__infer_set(g, n, x->dtype, t->rank, t->sizes, d);
	return e ? e : stx__infer_indexed(g, n, x, 1u << dim, &n->outs[0], d);
}

stx_err stx_shape_index_select(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0), *t = stx__infer_type(n, 2);
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t dim;
	stx_err e = stx__infer_dim(g, n, n->args[1].u.ex, x->rank, &dim, d);
	e = e ? e : stx__infer_index(n, t, d);
	if (e)
		return e;
	if (t->rank > 1)
		return STX__INFER_FAIL(d, n, "index must have one dimension, not %u", t->rank);
	if (!x->rank && t->rank && !stx_ex_equals(g->ex, t->sizes[0], 1))
		return STX__INFER_FAIL(d, n, "a 0-d tensor takes an index of exactly one element");
	copy_sizes(x, sizes);
	if (x->rank)
		sizes[dim] = t->rank ? t->sizes[0] : stx_ex_const(g->ex, 1);
	e = stx__infer_set(g, n, x->dtype, x->rank, sizes, d);
	return e ? e : stx__infer_indexed(g, n, x, 1u << dim, &n->outs[0], d);
}

stx_err stx_shape_embedding(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *w = stx__infer_type(n, 0), *t = stx__infer_type(n, 1);
	stx_ex sizes[STX_MAX_DIMS + 1];
	stx_err e = stx__infer_index(n, t, d);
	if (e)
		return e;
	if (w->rank != 2)
		return STX__INFER_FAIL(d, n, "weight must have 2 dimensions, not %u", w->rank);
	copy_sizes(t, sizes);
	sizes[t->rank] = w->sizes[1];
	e = stx__infer_set(g, n, w->dtype, t->rank + 1u, sizes, d);
	return e ? e : stx__infer_indexed(g, n, w, 1, &n->outs[0], d);
}

/* Advanced indexing: the index tensors broadcast together; their common shape replaces the indexed
 * dimensions where the first stands if they are adjacent, and leads otherwise. */
stx_err stx_shape_index(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0), *types[STX_MAX_DIMS];
	const struct stx_arg *list = &n->args[1];
	uint32_t nt = 0, first = UINT32_MAX, last = 0, rank = 0, indexed = 0;
	stx_ex sizes[2 * STX_MAX_DIMS];
	if (list->n > x->rank)
		return STX__INFER_FAIL(d, n, "%u indices for rank %u", list->n, x->rank);
	for (uint32_t i = 0; i < list->n; i++) {
		if (!list->u.tensors[i].node)
			continue;
		types[nt++] = stx_val_type(list->u.tensors[i]);
		stx_err e = stx__infer_index(n, types[nt - 1], d);
		if (e)
			return e;
		first = first == UINT32_MAX ? i : first;
		last = i;
		indexed |= 1u << i;
	}
	if (nt == 0)
		return STX__INFER_FAIL(d, n, "at least one index is needed");
	struct stx_type b;
	stx_err e = stx_infer_broadcast(g, types, nt, &b, d);
	if (e)
		return e;
	uint32_t at = last - first + 1 == nt ? first : 0;
	for (uint32_t i = 0; i <= x->rank; i++) {
		if (rank == at && i >= at) {
			rank += copy_sizes(&b, sizes + rank);
			at = UINT32_MAX;
		}
		if (i < x->rank && !(i < list->n && list->u.tensors[i].node))
			sizes[rank++] = x->sizes[i];
	}
	e = stx__infer_set(g, n, x->dtype, rank, sizes, d);
	return e ? e : stx__infer_indexed(g, n, x, indexed, &n->outs[0], d);
}

/* ---- piecewise ---- */

int stx__infer_cat_skips(struct stx_graph *g, const struct stx_type *t)
{
	return t->rank == 1 && stx_ex_equals(g->ex, t->sizes[0], 0);
}

/* One-dimensional tensors of size 0 are left out whatever the other shapes are, as in PyTorch
 * (B25). */
stx_err stx_shape_cat(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_arg *list = &n->args[0];
	const struct stx_type *first = NULL;
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t dim = 0;
	if (list->n == 0)
		return STX__INFER_FAIL(d, n, "no tensors to concatenate");
	for (uint32_t i = 0; i < list->n; i++) {
		if (!list->u.tensors[i].node)
			return STX__INFER_FAIL(d, n, "tensor %u is missing", i);
		const struct stx_type *t = stx_val_type(list->u.tensors[i]);
		if (t->rank == 0)
			return STX__INFER_FAIL(d, n, "tensor %u is 0-d and cannot be concatenated",
					       i);
		if (stx__infer_cat_skips(g, t))
			continue;
		if (!first) {
			stx_err e = stx__infer_dim(g, n, n->args[1].u.ex, t->rank, &dim, d);
			if (e)
				return e;
			first = t;
			copy_sizes(t, sizes);
			continue;
		}
		int same = t->rank == first->rank;
		for (uint32_t k = 0; same && k < t->rank; k++)
			same = k == dim || t->sizes[k] == first->sizes[k];
		if (!same)
			return STX__INFER_FAIL(
				d, n, "tensor %u differs in shape outside dimension %u", i, dim);
		sizes[dim] = stx_ex_add(g->ex, sizes[dim], t->sizes[dim]);
	}
	enum stx_dtype t = stx__infer_common(n, 0);
	if (t == STX_DTYPE_NONE)
		return stx__infer_no_common(n, d);
	if (!first) {
		first = stx_val_type(list->u.tensors[0]);
		sizes[0] = stx_ex_const(g->ex, 0);
	}
	return stx__infer_set(g, n, t, first->rank, sizes, d);
}

stx_err stx_shape_stack(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_arg *list = &n->args[0];
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t at;
	if (list->n == 0 || !list->u.tensors[0].node)
		return STX__INFER_FAIL(d, n, "no tensors to stack");
	const struct stx_type *x = stx_val_type(list->u.tensors[0]);
	stx_err e = stx__infer_dim(g, n, n->args[1].u.ex, x->rank + 1u, &at, d);
	if (e)
		return e;
	if (x->rank == STX_MAX_DIMS)
		return too_many_dims(n, d);
	for (uint32_t i = 1; i < list->n; i++) {
		struct stx_val v = list->u.tensors[i];
		struct stx_type same = *x;
		if (v.node)
			same.dtype = stx_val_type(v)->dtype;
		if (!v.node || !stx_type_eq(&same, stx_val_type(v)))
			return STX__INFER_FAIL(d, n, "tensor %u is missing or differs in shape", i);
	}
	enum stx_dtype t = stx__infer_common(n, 0);
	if (t == STX_DTYPE_NONE)
		return stx__infer_no_common(n, d);
	for (uint32_t i = 0; i <= x->rank; i++)
		sizes[i] = i < at    ? x->sizes[i]
			   : i == at ? stx_ex_const(g->ex, list->n)
				     : x->sizes[i - 1];
	return stx__infer_set(g, n, t, x->rank + 1u, sizes, d);
}

stx_err stx_shape_repeat(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	const struct stx_arg *r = &n->args[1];
	stx_ex sizes[STX_MAX_DIMS];
	if (r->n > STX_MAX_DIMS)
		return too_many_dims(n, d);
	if (r->n < x->rank)
		return STX__INFER_FAIL(d, n, "%u repeats for rank %u", r->n, x->rank);
	for (uint32_t i = 0; i < r->n; i++) {
		uint32_t lead = r->n - x->rank;
		if (stx_ex_interval(g->ex, r->u.exs[i]).lo < 0)
			return STX__INFER_FAIL(d, n, "a repeat is or may be negative");
		sizes[i] =
			i < lead ? r->u.exs[i] : stx_ex_mul(g->ex, r->u.exs[i], x->sizes[i - lead]);
	}
	return stx__infer_set(g, n, x->dtype, r->n, sizes, d);
}

stx_err stx_shape_triangle(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	if (x->rank < 2)
		return STX__INFER_FAIL(d, n, "%s needs 2 dimensions, not %u",
				       stx_op_info(n->op)->overload, x->rank);
	return stx__infer_set(g, n, x->dtype, x->rank, x->sizes, d);
}

stx_err stx_shape_pad(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	const struct stx_arg *p = &n->args[1];
	stx_ex sizes[STX_MAX_DIMS];
	if (p->n % 2 || p->n / 2 > x->rank)
		return STX__INFER_FAIL(d, n,
				       "%u pad values for rank %u: pairs, from the last dimension",
				       p->n, x->rank);
	copy_sizes(x, sizes);
	for (uint32_t i = 0; i < p->n / 2; i++) {
		stx_ex *s = &sizes[x->rank - 1 - i];
		*s = stx_ex_add(g->ex, *s, stx_ex_add(g->ex, p->u.exs[2 * i], p->u.exs[2 * i + 1]));
		if (!*s || stx_ex_interval(g->ex, *s).lo < 0)
			return STX__INFER_FAIL(d, n, "the size of dimension %u becomes negative",
					       x->rank - 1 - i);
	}
	stx_err e = stx__infer_fill(n, &n->args[2], x->dtype, d);
	return e ? e : stx__infer_set(g, n, x->dtype, x->rank, sizes, d);
}
