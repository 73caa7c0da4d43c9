/* property_draw_views.c: one call of a view on a random operand. */
#include "property_draw.h"

static struct stx_arg factors(struct draw *q, int64_t left)
{
	int64_t sizes[6];
	uint32_t k = 0;
	if (left == 0) {
		sizes[k++] = rnd(q, 3);
		sizes[k++] = 0;
		return stx_arg_ints(q->g, sizes, k);
	}
	while (left > 1 && k < 3) {
		int64_t f = 2 + rnd(q, 6);
		while (left % f)
			f = f < 200 ? f + 1 : left;
		sizes[k++] = f;
		left /= f;
		if (rnd(q, 5) == 0)
			sizes[k++] = 1;
	}
	if (left > 1 || rnd(q, 4) == 0)
		sizes[k++] = left;
	if (k && rnd(q, 3) == 0)
		sizes[rnd(q, k)] = -1;
	return stx_arg_ints(q->g, sizes, k);
}

static struct stx_arg permutation(struct draw *q, uint32_t rank)
{
	int64_t dims[8];
	for (uint32_t i = 0; i < rank; i++)
		dims[i] = i;
	for (uint32_t i = 0; i + 1 < rank; i++) {
		uint32_t j = i + rnd(q, rank - i);
		int64_t t = dims[i];
		dims[i] = dims[j];
		dims[j] = t;
	}
	return stx_arg_ints(q->g, dims, rank);
}

static struct stx_node *expand(struct draw *q, struct stx_node *a)
{
	int64_t sizes[10];
	uint32_t lead = rnd(q, 3), k = 0;
	for (uint32_t i = 0; i < lead; i++)
		sizes[k++] = 1 + rnd(q, 3);
	for (uint32_t i = 0; i < rank_of(a); i++) {
		int64_t s = size_of(q, a, i);
		sizes[k++] = s == 1 ? q->dims[rnd(q, 4)] : rnd(q, 4) ? s : -1;
	}
	return call(q, STX_OP_EXPAND, ARGS(T(a), stx_arg_ints(q->g, sizes, k)));
}

static struct stx_node *slice(struct draw *q, struct stx_node *a)
{
	uint32_t dim = rank_of(a) ? rnd(q, rank_of(a)) : 0;
	int64_t n = rank_of(a) ? size_of(q, a, dim) : 1;
	struct stx_arg from = rnd(q, 3) ? I((int64_t)rnd(q, (uint32_t)n + 2) - (rnd(q, 3) ? 0 : n))
					: stx_arg_none();
	struct stx_arg to =
		rnd(q, 2) ? stx_arg_none() : I(n - (int64_t)rnd(q, 3) - (rnd(q, 4) ? 0 : n));
	return call(q, STX_OP_SLICE, ARGS(T(a), I(dim), from, to, I(1 + rnd(q, 3))));
}

struct stx_node *draw_view(struct draw *q, enum stx_op op)
{
	struct stx_node *a = draw_self(q);
	if (!a)
		return NULL;
	uint32_t rank = rank_of(a), d = rank ? rnd(q, rank) : 0, e = rank ? rnd(q, rank) : 0;
	int64_t v[8], w[8], left;
	switch (op) {
	case STX_OP_ALIAS:
	case STX_OP_DETACH: return call(q, op, ARGS(T(a)));
	case STX_OP_AS_STRIDED: /* of memory of its own */
		a = call(q, STX_OP_CLONE, ARGS(T(a)));
		for (rank = 0, left = numel(q, a); rank < 3 && left > 0; rank++) {
			v[rank] = 1 + rnd(q, 4);
			w[rank] = rnd(q, 4) ? rnd(q, 7) : 0;
			while (v[rank] > 1 && (v[rank] - 1) * w[rank] >= left)
				v[rank]--;
			left -= (v[rank] - 1) * w[rank];
		}
		return call(
			q, op,
			ARGS(T(a), stx_arg_ints(q->g, v, rank), stx_arg_ints(q->g, w, rank),
			     left > 0 && rnd(q, 2) ? I(rnd(q, (uint32_t)left)) : stx_arg_none()));
	case STX_OP_UNBIND: return call(q, op, ARGS(T(a), I(d)));
	case STX_OP_SPLIT: return call(q, op, ARGS(T(a), I(1 + rnd(q, 5)), I(d)));
	case STX_OP_SPLIT_SIZES:
		if (!rank)
			return NULL;
		v[0] = rnd(q, (uint32_t)size_of(q, a, d) + 1);
		v[1] = size_of(q, a, d) - v[0];
		return call(q, op, ARGS(T(a), stx_arg_ints(q->g, v, 2), I(d)));
	case STX_OP_VIEW:
	case STX_OP_RESHAPE: return call(q, op, ARGS(T(a), factors(q, numel(q, a))));
	case STX_OP_PERMUTE: return call(q, op, ARGS(T(a), permutation(q, rank)));
	case STX_OP_TRANSPOSE:
		return call(q, op,
			    ARGS(T(a), I(d), I((int64_t)e - (rnd(q, 2) && rank ? rank : 0))));
	case STX_OP_EXPAND: return expand(q, a);
	case STX_OP_SQUEEZE:
	case STX_OP_FLIP: return call(q, op, ARGS(T(a), draw_some_dims(q, rank, 1)));
	case STX_OP_SQUEEZE_DIM: return call(q, op, ARGS(T(a), draw_dim(q, rank)));
	case STX_OP_UNSQUEEZE: return call(q, op, ARGS(T(a), draw_dim(q, rank + 1)));
	case STX_OP_SLICE: return slice(q, a);
	case STX_OP_SELECT:
		if (!rank || !size_of(q, a, d))
			return NULL;
		return call(q, op,
			    ARGS(T(a), I(d),
				 I((int64_t)rnd(q, (uint32_t)size_of(q, a, d)) -
				   (rnd(q, 2) ? 0 : size_of(q, a, d)))));
	case STX_OP_DIAGONAL: return call(q, op, ARGS(T(a), I((int64_t)rnd(q, 5) - 2), I(d), I(e)));
	case STX_OP_FLATTEN: return call(q, op, ARGS(T(a), I(d < e ? d : e), I(d < e ? e : d)));
	default: /* t, squeeze */ return call(q, op, ARGS(T(a)));
	}
}
