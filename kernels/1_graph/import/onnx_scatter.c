/* onnx_scatter.c: ONNX operators that write at computed positions, and those whose result's shape
 * depends on values, which are computed from constants and specialised inputs only. */
#include <stdlib.h>
#include <string.h>

#include "onnx_import.h"
#include "scalar.h"

/* "none": NULL. */
static const char *reduction(struct onnx *c)
{
	static const char *const names[][2] = {
		{ "add", "sum" }, { "mul", "prod" }, { "max", "amax" }, { "min", "amin" }
	};
	const char *r = onnx_str(c, "reduction", "none");
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(r, names[i][0]))
			return names[i][1];
	if (strcmp(r, "none") != 0)
		onnx_unsupported_attr(c, "reduction", r);
	return NULL;
}

static V scatter(struct onnx *c, V x, int axis, V index, V updates, const char *reduce)
{
	struct stx_arg args[6] = { stx_arg_tensor(x),
				   stx_arg_int(c->g, axis),
				   stx_arg_tensor(index),
				   stx_arg_tensor(updates),
				   reduce ? stx_arg_str(c->g, reduce) : stx_arg_none(),
				   stx_arg_bool(1) };
	return onnx_call(c, reduce ? STX_OP_SCATTER_REDUCE : STX_OP_SCATTER, args, reduce ? 6 : 4);
}

static stx_err map_scatter_elements(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), index = onnx_in(c, 1), updates = onnx_in(c, 2);
	const char *reduce = reduction(c);
	int axis = onnx_axis(c, onnx_int(c, "axis", 0), onnx_rank(x));
	if (c->err)
		return c->err;
	index = onnx_wrap_index(c, index, onnx_dim(c, x, axis));
	out[0] = scatter(c, x, axis, index, updates, reduce);
	return c->err;
}

/* Index k of a tensor of tuples. */
static V tuple_part(struct onnx *c, V index, int k)
{
	int64_t sizes[STX_MAX_DIMS];
	int rank = onnx_sizes(c, index, sizes);
	return onnx_view(c, onnx_slice(c, index, rank - 1, k, k + 1, 1), sizes, rank - 1);
}

/* As scatters of whole rows of the data viewed as [indexed dims, rest]. */
static V combine_rows(struct onnx *c, V x, V index, V updates, const char *reduce, int k)
{
	int64_t have[STX_MAX_DIMS], isz[STX_MAX_DIMS];
	int rank = onnx_sizes(c, x, have), irank = onnx_sizes(c, index, isz);
	if (c->err)
		return NO_V;
	int64_t tuples = onnx_product(isz, 0, irank - 1), rest = onnx_product(have, k, rank);
	int64_t rows[2] = { onnx_product(have, 0, k), rest }, wide[2] = { tuples, rest },
		column[2] = { tuples, 1 };
	V row = onnx_number(c, 0, STX_I64);
	for (int d = 0; d < k && !c->err; d++) {
		V i = onnx_wrap_index(c, tuple_part(c, index, d), have[d]);
		V stride = onnx_number(c, (double)onnx_product(have, d + 1, k), STX_I64);
		row = onnx_2(c, STX_OP_ADD, row, onnx_2(c, STX_OP_MUL, i, stride));
	}
	row = onnx_expand(c, onnx_view(c, row, column, 2), wide, 2);
	V r = scatter(c, onnx_view(c, x, rows, 2), 0, row, onnx_view(c, updates, wide, 2), reduce);
	return onnx_view(c, r, have, rank);
}

static V put(struct onnx *c, V x, const V *list, int n, V values, int accumulate)
{
	struct stx_arg args[4] = { stx_arg_tensor(x), stx_arg_tensors(c->g, list, (uint32_t)n),
				   stx_arg_tensor(values), stx_arg_bool(accumulate) };
	return onnx_call(c, STX_OP_INDEX_PUT, args, 4);
}

static stx_err map_scatter_nd(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), index = onnx_in(c, 1), updates = onnx_in(c, 2), list[STX_MAX_DIMS];
	const char *reduce = reduction(c);
	int64_t isz[STX_MAX_DIMS];
	int irank = onnx_sizes(c, index, isz), rank = onnx_rank(x);
	if (c->err)
		return c->err;
	if (irank < 1 || isz[irank - 1] < 1 || isz[irank - 1] > rank)
		return onnx_fail(c, STX_E_INVALID,
				 "indices of length %lld do not fit a rank %d input",
				 irank ? (long long)isz[irank - 1] : 0, rank);
	int k = (int)isz[irank - 1];
	if (reduce && strcmp(reduce, "sum") != 0) {
		out[0] = combine_rows(c, x, index, updates, reduce, k);
		return c->err;
	}
	index = onnx_cast(c, index, STX_I64);
	for (int d = 0; d < k; d++)
		list[d] = tuple_part(c, index, d);
	out[0] = put(c, x, list, k, updates, reduce != NULL);
	return c->err;
}

/* A cache that grows: sample b is written from write_indices[b] on. */
static stx_err map_tensor_scatter(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), updates = onnx_in(c, 1), start = onnx_opt(c, 2), list[STX_MAX_DIMS];
	const char *mode = onnx_str(c, "mode", "linear");
	int64_t have[STX_MAX_DIMS], upd[STX_MAX_DIMS], order[STX_MAX_DIMS];
	int rank = onnx_sizes(c, x, have), n = 2;
	int axis = onnx_axis(c, onnx_int(c, "axis", -2), rank);
	if (c->err)
		return c->err;
	if (strcmp(mode, "linear") && strcmp(mode, "circular"))
		return onnx_unsupported_attr(c, "mode", mode);
	if (axis < 1 || onnx_sizes(c, updates, upd) != rank)
		return onnx_fail(
			c, STX_E_INVALID,
			"the axis must come after the batch dimension, and update have the "
			"cache's rank");
	int64_t column[2] = { have[0], 1 }, line[2] = { 1, upd[axis] };
	V at = onnx_view(c, onnx_arange(c, 0, upd[axis], 1, STX_I64), line, 2);
	if (start.node)
		at = onnx_2(c, STX_OP_ADD, at,
			    onnx_view(c, onnx_cast(c, start, STX_I64), column, 2));
	if (!strcmp(mode, "circular"))
		at = onnx_2(c, STX_OP_REMAINDER, at, onnx_number(c, (double)have[axis], STX_I64));
	memset(list, 0, sizeof list);
	list[0] = onnx_view(c, onnx_arange(c, 0, have[0], 1, STX_I64), column, 2);
	list[axis] = at;
	order[0] = 0; /* the index dimensions come first in the values */
	order[1] = axis;
	for (int d = 1; d < rank; d++)
		if (d != axis)
			order[n++] = d;
	out[0] = put(c, x, list, axis + 1, onnx_permute(c, updates, order, rank), 0);
	return c->err;
}

/* ---- shapes that depend on values ---- */

struct known { /* a constant of any type */
	enum stx_dtype t;
	const uint8_t *bytes;
	int64_t sizes[STX_MAX_DIMS], n;
	int rank;
};

static int known(struct onnx *c, V v, const char *what, struct known *k)
{
	if (c->err)
		return 0;
	if (!onnx_is_const(v)) {
		onnx_need(c, v, what);
		return 0;
	}
	k->t = onnx_dtype(v);
	k->rank = onnx_sizes(c, v, k->sizes);
	k->bytes = v.node->data.bytes;
	k->n = onnx_product(k->sizes, 0, k->rank);
	return !c->err;
}

static union stx_scalar element(const struct known *k, int64_t i)
{
	return stx_scalar_load(k->t, k->bytes + (size_t)i * (size_t)stx_dtype_bytes(k->t));
}

static int is_nonzero(const struct known *k, int64_t i)
{
	union stx_scalar v = element(k, i);
	return stx_dtype_is_float(k->t) ? v.f != 0 : v.u != 0;
}

static int64_t *integers(struct onnx *c, int64_t n)
{
	int64_t *p = c->err ? NULL : STX_NEW_ARRAY(c->arena, int64_t, (size_t)n + 1);
	if (!p && !c->err)
		onnx_fail(c, STX_E_TOO_LARGE, "over the memory budget");
	return p;
}

static V i64s(struct onnx *c, const int64_t *v, const int64_t *sizes, int rank)
{
	return c->err ? NO_V
		      : onnx_constant(c, NULL, STX_I64, rank, sizes, v,
				      (size_t)onnx_product(sizes, 0, rank) * sizeof *v);
}

static stx_err map_compress(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	struct known k;
	if (!known(c, onnx_in(c, 1), "which elements are kept", &k))
		return c->err;
	int64_t *at = integers(c, k.n), n = 0, size;
	int axis = 0;
	if (onnx_attr(c, "axis")) {
		axis = onnx_axis(c, onnx_int(c, "axis", 0), onnx_rank(x));
	} else {
		int64_t sizes[STX_MAX_DIMS], all;
		all = onnx_product(sizes, 0, onnx_sizes(c, x, sizes));
		x = onnx_view(c, x, &all, 1);
	}
	size = onnx_dim(c, x, axis);
	for (int64_t i = 0; !c->err && i < k.n; i++) {
		if (i >= size && is_nonzero(&k, i))
			return onnx_fail(c, STX_E_INVALID,
					 "the condition takes element %lld of %lld", (long long)i,
					 (long long)size);
		if (is_nonzero(&k, i))
			at[n++] = i;
	}
	out[0] = onnx_index_select(c, x, axis, i64s(c, at, &n, 1));
	return c->err;
}

static stx_err map_nonzero(struct onnx *c, V *out)
{
	struct known k;
	if (!known(c, onnx_in(c, 0), "which elements are not zero", &k))
		return c->err;
	int64_t count = 0, n = 0, *at;
	for (int64_t i = 0; i < k.n; i++)
		count += is_nonzero(&k, i);
	if (!(at = integers(c, count * k.rank)))
		return c->err;
	for (int64_t i = 0; i < k.n; i++) {
		int64_t left = i;
		if (!is_nonzero(&k, i))
			continue;
		for (int d = k.rank; d-- > 0; left /= k.sizes[d])
			at[d * count + n] = left % k.sizes[d];
		n++;
	}
	out[0] = i64s(c, at, (int64_t[]){ k.rank, count }, 2); /* a number has no coordinates */
	return c->err;
}

/* ---- Unique ---- */

struct slices { /* of a constant along an axis; axis -1: its elements */
	struct known k;
	int64_t n, outer, inner;
	int64_t *order, *first; /* slices sorted; of each slice the first equal one */
};

static int compare_elements(const struct known *k, int64_t a, int64_t b)
{
	union stx_scalar x = element(k, a), y = element(k, b);
	if (stx_dtype_is_float(k->t))
		return x.f != x.f || y.f != y.f ? (x.f != x.f) - (y.f != y.f)
						: (x.f > y.f) - (x.f < y.f);
	if (stx_dtype_kind(k->t) == STX_KIND_INT)
		return (x.i > y.i) - (x.i < y.i);
	return (x.u > y.u) - (x.u < y.u);
}

static int compare_slices(const void *pa, const void *pb, void *ctx)
{
	const struct slices *s = ctx;
	int64_t a = *(const int64_t *)pa, b = *(const int64_t *)pb;
	for (int64_t o = 0; o < s->outer; o++)
		for (int64_t i = 0; i < s->inner; i++) {
			int64_t row = o * s->n * s->inner + i;
			int r = compare_elements(&s->k, row + a * s->inner, row + b * s->inner);
			if (r)
				return r;
		}
	return 0;
}

static int by_slice(const void *pa, const void *pb, void *ctx)
{
	int r = compare_slices(pa, pb, ctx);
	int64_t a = *(const int64_t *)pa, b = *(const int64_t *)pb;
	return r ? r : (a > b) - (a < b);
}

static int sort_slices(struct onnx *c, struct slices *s)
{
	s->order = integers(c, s->n);
	s->first = integers(c, s->n);
	if (!s->order || !s->first)
		return 0;
	for (int64_t i = 0; i < s->n; i++)
		s->order[i] = i;
	qsort_r(s->order, (size_t)s->n, sizeof *s->order, by_slice, s);
	for (int64_t i = 0; i < s->n; i++) {
		int same = i && !compare_slices(&s->order[i - 1], &s->order[i], s);
		s->first[s->order[i]] = same ? s->first[s->order[i - 1]] : s->order[i];
	}
	return 1;
}

/* Y and the indices of first occurrences, the place of each slice in Y, and how often it occurs. */
static stx_err map_unique(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	struct slices s = { .outer = 1, .inner = 1 };
	int axis = 0, sorted = onnx_int(c, "sorted", 1) != 0;
	if (!known(c, x, "which elements differ", &s.k))
		return c->err;
	s.n = s.k.n;
	if (onnx_attr(c, "axis")) {
		axis = onnx_axis(c, onnx_int(c, "axis", 0), s.k.rank);
		if (c->err)
			return c->err;
		s.n = s.k.sizes[axis];
		s.outer = onnx_product(s.k.sizes, 0, axis);
		s.inner = onnx_product(s.k.sizes, axis + 1, s.k.rank);
	} else {
		x = onnx_view(c, x, &s.n, 1);
	}
	int64_t *at = integers(c, s.n), *place = integers(c, s.n), *inverse = integers(c, s.n),
		*count = integers(c, s.n), n = 0;
	if (c->err || !sort_slices(c, &s))
		return c->err;
	for (int64_t i = 0; i < s.n; i++) {
		int64_t v = sorted ? s.order[i] : i;
		if (s.first[v] == v) {
			place[v] = n;
			at[n++] = v;
		}
	}
	for (int64_t i = 0; i < s.n; i++) {
		inverse[i] = place[s.first[i]];
		count[inverse[i]]++;
	}
	V indices = i64s(c, at, &n, 1);
	out[0] = onnx_index_select(c, x, axis, indices);
	if (c->n->n_output > 1)
		out[1] = indices;
	if (c->n->n_output > 2)
		out[2] = i64s(c, inverse, &s.n, 1);
	if (c->n->n_output > 3)
		out[3] = i64s(c, count, &n, 1);
	return c->err;
}

const struct onnx_mapping onnx_scatter_map[] = {
	{ "Compress", map_compress, 0 },
	{ "NonZero", map_nonzero, 0 },
	{ "Scatter", map_scatter_elements, 0 },
	{ "ScatterElements", map_scatter_elements, 0 },
	{ "ScatterND", map_scatter_nd, 0 },
	{ "TensorScatter", map_tensor_scatter, 0 },
	{ "Unique", map_unique, 0 },
	{ NULL, NULL, 0 },
};
