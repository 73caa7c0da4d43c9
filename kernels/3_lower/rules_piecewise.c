/* rules_piecewise.c
 * cat and padding as one piecewise function: masked reads merged by selects, nothing is copied
 * (seed 000 6.2; LO-18, LO-19, B25). */
#include "lower.h"

struct cat {
	struct stx__inner **fn;
	struct stx__piece *pieces;
	struct stx__cond *conds;
	uint32_t n;
};

/* Piece k shows x at i - from along dim, for from <= i < to; the first has no lower bound to test.
 */
static int add_piece(struct stx__lower *l, const struct stx_node *n, struct cat *c,
		     struct stx__inner *x, uint32_t dim, stx_ex from, stx_ex to)
{
	struct stx__shape s = stx__node_shape(n);
	stx_ex *map = STX_NEW_ARRAY(l->arena, stx_ex, s.rank);
	stx_ex i = stx__axis(l->ex, dim, s.sizes[dim]);
	uint32_t d;

	if (!map)
		return -1;
	for (d = 0; d < s.rank; d++)
		map[d] = stx__axis(l->ex, d, s.sizes[d]);
	map[dim] = stx_ex_sub(l->ex, i, from);
	c->fn[c->n] = stx__inner_cast(l->g, x, n->outs[0].dtype);
	if (c->fn[c->n])
		c->fn[c->n] = stx__inner_view(l->g, c->fn[c->n], s, map);
	c->conds[c->n] = (struct stx__cond){ i, c->n ? from : STX_EX_BAD, to };
	c->pieces[c->n] = (struct stx__piece){ &c->conds[c->n], 1 };
	return c->fn[c->n++] ? 0 : -1;
}

static struct stx__inner *lower_cat(struct stx__lower *l, const struct stx_node *n)
{
	const struct stx_arg *list = &n->args[0];
	struct stx__shape s = stx__node_shape(n);
	struct cat c = { 0 };
	stx_ex from = stx_ex_const(l->ex, 0);
	int64_t dim;
	uint32_t i, k;

	if (!stx__const_arg(l, n, n->args[1].u.ex, &dim))
		return NULL;
	k = stx__dim(dim, s.rank);
	c.fn = STX_NEW_ARRAY(l->arena, struct stx__inner *, list->n);
	c.pieces = STX_NEW_ARRAY(l->arena, struct stx__piece, list->n);
	c.conds = STX_NEW_ARRAY(l->arena, struct stx__cond, list->n);
	if (!c.fn || !c.pieces || !c.conds)
		return NULL;
	for (i = 0; i < list->n; i++) {
		struct stx__inner *x = stx__value_of(l, list->u.tensors[i]);
		stx_ex to;

		if (stx__shape_is_empty(l->ex, (struct stx__shape){ x->rank, x->sizes }))
			continue; /* also PyTorch's 1-D empty tensors of any other rank */
		to = stx_ex_add(l->ex, from, x->sizes[k]);
		if (add_piece(l, n, &c, x, k, from, to))
			return NULL;
		from = to;
	}
	if (c.n == 1)
		return c.fn[0];
	c.conds[c.n - 1].hi = STX_EX_BAD; /* the end of the output bounds the last piece */
	return stx__inner_pieces(l->g, n->outs[0].dtype, s, c.fn, c.pieces, c.n);
}

/* Bounds of one dimension: needed only on the sides that really pad; a negative pad crops. */
static struct stx__cond pad_cond(struct stx__lower *l, stx_ex i, stx_ex before, stx_ex after,
				 stx_ex size)
{
	struct stx__cond c = { .e = i };

	if (stx_ex_interval(l->ex, before).hi > 0)
		c.lo = before;
	if (stx_ex_interval(l->ex, after).hi > 0)
		c.hi = stx_ex_add(l->ex, before, size);
	return c;
}

static struct stx__inner *lower_pad(struct stx__lower *l, const struct stx_node *n)
{
	struct stx__shape s = stx__node_shape(n);
	struct stx__inner *x = stx__arg(l, n, 0), *fn[2];
	stx_ex *map = STX_NEW_ARRAY(l->arena, stx_ex, s.rank + 1u);
	struct stx__cond *conds = STX_NEW_ARRAY(l->arena, struct stx__cond, s.rank + 1u);
	struct stx__piece *pieces = STX_NEW_ARRAY(l->arena, struct stx__piece, 2);
	uint32_t d, nconds = 0;

	if (!x || !map || !conds || !pieces)
		return NULL;
	for (d = 0; d < s.rank; d++) {
		uint32_t at = 2 * (s.rank - 1 - d); /* pads are given from the last dimension on */
		stx_ex i = stx__axis(l->ex, d, s.sizes[d]), before, after;

		map[d] = i;
		if (at + 1 >= n->args[1].n)
			continue;
		before = n->args[1].u.exs[at];
		after = n->args[1].u.exs[at + 1];
		map[d] = stx_ex_sub(l->ex, i, before);
		conds[nconds] = pad_cond(l, i, before, after, x->sizes[d]);
		if (conds[nconds].lo != STX_EX_BAD || conds[nconds].hi != STX_EX_BAD)
			nconds++;
	}
	fn[0] = stx__inner_view(l->g, x, s, map);
	if (!nconds || !fn[0])
		return fn[0];
	fn[1] = stx__inner_const(l->g, x->dtype, s, stx__scalar(&n->args[2], x->dtype));
	pieces[0] = (struct stx__piece){ conds, nconds };
	return stx__inner_pieces(l->g, x->dtype, s, fn, pieces, 2);
}

struct stx__inner *stx__rule_piecewise(struct stx__lower *l, const struct stx_node *n)
{
	if (n->op == STX_OP_CAT)
		return lower_cat(l, n);
	if (n->op == STX_OP_PAD)
		return lower_pad(l, n);
	return stx__lower_fail(l, STX_E_UNSUPPORTED, n, "%s has no lowering rule",
			       stx_op_info(n->op)->overload);
}
