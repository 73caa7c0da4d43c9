/* rules_index.c
 * indirect reads: the index is a run-time value (seed 000 6.2; LO-13..LO-15, VR-05, VR-06, B15).
 *
 * index.Tensor wraps negative indices as Python does; gather, index_select and embedding do not,
 * for them every index outside [0, extent) is an error. Checks and wraps that the index value's
 * interval makes needless are dropped when the function is played (body.c). */
#include "lower.h"

struct indirect {
	struct stx__inner *fn[STX_MAX_DIMS + 1]; /* indexed operand, then index operands */
	struct stx__index at[STX_MAX_DIMS];
	stx_ex map[STX_MAX_DIMS];
	uint32_t nindices;
};

/* Dimension d of the operand is indexed by `index` (over the result's index space). */
static void add_index(struct stx__lower *l, struct indirect *x, uint32_t d,
		      struct stx__inner *index, uint8_t flags)
{
	uint32_t k = x->nindices++;
	stx_ex bound = x->fn[0]->sizes[d];
	struct stx_interval b = stx_ex_interval(l->ex, bound);
	int64_t hi = b.hi == STX_POS_INF ? STX_POS_INF : b.hi > 0 ? b.hi - 1 : 0;

	x->fn[k + 1] = index;
	x->at[k] = (struct stx__index){ bound, flags };
	x->map[d] = stx_ex_indirect(l->ex, k, (struct stx_interval){ 0, hi });
}

static struct stx__inner *finish(struct stx__lower *l, const struct stx_node *n, struct indirect *x)
{
	const stx_ex *map = stx_arena_copy(l->arena, x->map, sizeof x->map);
	const struct stx__index *at = stx_arena_copy(l->arena, x->at, sizeof x->at);

	if (!map || !at)
		return NULL;
	return stx__inner_indirect(l->g, stx__node_shape(n), x->fn, x->nindices + 1, map, at);
}

/* index tensor seen from the result's index space: its dimension e is result dimension first + e,
 * dropped where it is broadcast. */
static struct stx__inner *spread(struct stx__lower *l, const struct stx_node *n,
				 struct stx__inner *index, uint32_t first)
{
	struct stx__shape s = stx__node_shape(n);
	stx_ex *map = STX_NEW_ARRAY(l->arena, stx_ex, STX_MAX_DIMS);
	uint32_t e;

	if (!index || !map)
		return NULL;
	for (e = 0; e < index->rank; e++)
		map[e] = stx_ex_equals(l->ex, index->sizes[e], 1) || first + e >= s.rank
				 ? stx_ex_const(l->ex, 0)
				 : stx__axis(l->ex, first + e, s.sizes[first + e]);
	return stx__inner_view(l->g, index, s, map);
}

/* The indexed operand; a 0-d one is indexed as a tensor of size 1. */
static struct stx__inner *indexed(struct stx__lower *l, const struct stx_node *n)
{
	struct stx__inner *x = stx__arg(l, n, 0);
	stx_ex *one;

	if (!x || x->rank)
		return x;
	one = STX_NEW_ARRAY(l->arena, stx_ex, 1);
	if (!one)
		return NULL;
	*one = stx_ex_const(l->ex, 1);
	return stx__inner_view(l->g, x, (struct stx__shape){ 1, one }, one);
}

static struct stx__inner *lower_gather(struct stx__lower *l, const struct stx_node *n)
{
	struct stx__shape s = stx__node_shape(n);
	struct indirect x = { .fn = { indexed(l, n) } };
	struct stx__inner *index = stx__arg(l, n, 2);
	int64_t dim;
	uint32_t d, k;

	if (!x.fn[0] || !index || !stx__const_arg(l, n, n->args[1].u.ex, &dim))
		return NULL;
	k = stx__dim(dim, x.fn[0]->rank);
	for (d = 0; d < s.rank; d++)
		x.map[d] = stx__axis(l->ex, d, s.sizes[d]);
	add_index(l, &x, k, index, STX_BF_CHECK);
	return finish(l, n, &x);
}

static struct stx__inner *lower_index_select(struct stx__lower *l, const struct stx_node *n)
{
	struct stx__shape s = stx__node_shape(n);
	struct indirect x = { .fn = { indexed(l, n) } };
	int64_t dim;
	uint32_t d, k;

	if (!x.fn[0] || !stx__const_arg(l, n, n->args[1].u.ex, &dim))
		return NULL;
	k = stx__dim(dim, x.fn[0]->rank);
	for (d = 0; d < s.rank; d++)
		x.map[d] = stx__axis(l->ex, d, s.sizes[d]);
	add_index(l, &x, k, spread(l, n, stx__arg(l, n, 2), k), STX_BF_CHECK);
	return finish(l, n, &x);
}

static struct stx__inner *lower_embedding(struct stx__lower *l, const struct stx_node *n)
{
	struct stx__shape s = stx__node_shape(n);
	struct indirect x = { .fn = { stx__arg(l, n, 0) } };
	uint32_t d;

	if (!x.fn[0])
		return NULL;
	for (d = 1; d < x.fn[0]->rank; d++) {
		uint32_t at = s.rank - x.fn[0]->rank + d;

		x.map[d] = stx__axis(l->ex, at, s.sizes[at]);
	}
	add_index(l, &x, 0, spread(l, n, stx__arg(l, n, 1), 0), STX_BF_CHECK);
	return finish(l, n, &x);
}

/* Where the broadcast index dimensions stand in the result: at the first indexed dimension when the
 * indexed ones are neighbours, else in front. */
static uint32_t index_position(const struct stx_arg *list, uint32_t *rank)
{
	uint32_t i, first = 0, last = 0, count = 0;

	*rank = 0;
	for (i = 0; i < list->n; i++) {
		struct stx_val t = list->u.tensors[i];

		if (!t.node)
			continue;
		if (!count++)
			first = i;
		last = i;
		if (stx_val_type(t)->rank > *rank)
			*rank = stx_val_type(t)->rank;
	}
	return count && last - first + 1 == count ? first : 0;
}

static struct stx__inner *lower_index(struct stx__lower *l, const struct stx_node *n)
{
	const struct stx_arg *list = &n->args[1];
	struct stx__shape s = stx__node_shape(n);
	struct indirect x = { .fn = { stx__arg(l, n, 0) } };
	uint32_t d, rank, at = index_position(list, &rank), next = 0;

	if (!x.fn[0])
		return NULL;
	for (d = 0; d < x.fn[0]->rank; d++) {
		const struct stx_node *t = d < list->n ? list->u.tensors[d].node : NULL;
		struct stx__inner *index = t ? stx__value_of(l, list->u.tensors[d]) : NULL;

		if (next == at)
			next += rank; /* the index dimensions lie before this one */
		if (!t) {
			x.map[d] = stx__axis(l->ex, next, s.sizes[next]);
			next++;
			continue;
		}
		if (index->dtype == STX_BOOL)
			return stx__lower_fail(l, STX_E_UNSUPPORTED, n, "index by a boolean mask");
		add_index(l, &x, d, spread(l, n, index, at + rank - index->rank),
			  STX_BF_WRAP | STX_BF_CHECK);
	}
	return x.nindices ? finish(l, n, &x) : x.fn[0];
}

struct stx__inner *stx__rule_indirect(struct stx__lower *l, const struct stx_node *n)
{
	switch (n->op) {
	case STX_OP_GATHER: return lower_gather(l, n);
	case STX_OP_INDEX_SELECT: return lower_index_select(l, n);
	case STX_OP_EMBEDDING: return lower_embedding(l, n);
	case STX_OP_INDEX: return lower_index(l, n);
	default:
		return stx__lower_fail(l, STX_E_UNSUPPORTED, n, "%s has no lowering rule",
				       stx_op_info(n->op)->overload);
	}
}
