/* rules_view.c
 * views as index maps: pi(i) for every dimension of the viewed tensor (seed 000 6.4; LV-03..09).
 *
 * Nothing is copied. On a buffer the map is substituted into the address, so a chain of affine
 * views stays one (strides, offset); a reshape whose dimensions do not merge keeps div and mod in
 * the expression. When an expression outgrows the limits of expr.c, the operand is realised and
 * viewed afresh. */
#include "lower.h"

/* map[d], d over the operand's dimensions, from the result's axes. */
struct view {
	struct stx__lower *l;
	const struct stx_node *n;
	struct stx__inner *x;
	struct stx__shape s; /* of the result */
	stx_ex *map;
	stx_ex address; /* reshape of a buffer: the address itself, when it could be formed directly
			 */
};

static stx_ex axis(const struct view *v, uint32_t d)
{
	return stx__axis(v->l->ex, d, v->s.sizes[d]);
}

static int dim_arg(const struct view *v, uint32_t arg, uint32_t rank, uint32_t *out)
{
	int64_t dim;

	if (!stx__const_arg(v->l, v->n, v->n->args[arg].u.ex, &dim))
		return 0;
	*out = stx__dim(dim, rank);
	return 1;
}

static int view_permute(struct view *v)
{
	const struct stx_arg *dims = &v->n->args[1];
	int64_t dim;
	uint32_t i;

	for (i = 0; i < dims->n; i++) {
		if (!stx__const_arg(v->l, v->n, dims->u.exs[i], &dim))
			return 0;
		v->map[stx__dim(dim, v->x->rank)] = axis(v, i);
	}
	return 1;
}

static void swap_dims(struct view *v, uint32_t a, uint32_t b)
{
	uint32_t d;

	for (d = 0; d < v->x->rank; d++)
		v->map[d] = axis(v, d == a ? b : d == b ? a : d);
}

static int view_t(struct view *v)
{
	swap_dims(v, 0, v->x->rank == 2);
	return 1;
}

static int view_transpose(struct view *v)
{
	uint32_t a, b;

	if (!dim_arg(v, 1, v->x->rank, &a) || !dim_arg(v, 2, v->x->rank, &b))
		return 0;
	swap_dims(v, a, b);
	return 1;
}

static int view_expand(struct view *v)
{
	uint32_t d, lead = v->s.rank - v->x->rank;

	for (d = 0; d < v->x->rank; d++)
		v->map[d] = stx_ex_equals(v->l->ex, v->x->sizes[d], 1) ? stx_ex_const(v->l->ex, 0)
								       : axis(v, lead + d);
	return 1;
}

/* Removed dimensions have size 1, so their index is 0. */
static int view_squeeze(struct view *v)
{
	const struct stx_arg *dims = &v->n->args[1];
	uint32_t i, d, gone = 0, next = 0;
	int64_t dim;

	for (i = 0; i < dims->n; i++) {
		if (!stx__const_arg(v->l, v->n, dims->u.exs[i], &dim))
			return 0;
		d = v->x->rank ? stx__dim(dim, v->x->rank) : 0;
		if (v->x->rank && stx_ex_equals(v->l->ex, v->x->sizes[d], 1))
			gone |= 1u << d;
	}
	for (d = 0; d < v->x->rank; d++)
		v->map[d] = gone >> d & 1 ? stx_ex_const(v->l->ex, 0) : axis(v, next++);
	return 1;
}

static int view_unsqueeze(struct view *v)
{
	uint32_t d, at;

	if (!dim_arg(v, 1, v->x->rank + 1u, &at))
		return 0;
	for (d = 0; d < v->x->rank; d++)
		v->map[d] = axis(v, d < at ? d : d + 1);
	return 1;
}

static void identity(struct view *v)
{
	uint32_t d;

	for (d = 0; d < v->x->rank; d++)
		v->map[d] = axis(v, d);
}

/* A Python bound clamped into [0, size]. */
static stx_ex clamp_bound(struct view *v, stx_ex e, stx_ex size)
{
	struct stx_exprs *x = v->l->ex;
	struct stx_interval r = stx_ex_interval(x, e);

	if (r.hi < 0)
		e = stx_ex_max(x, stx_ex_add(x, e, size), stx_ex_const(x, 0));
	else if (r.lo < 0)
		stx__lower_fail(v->l, STX_E_UNSUPPORTED, v->n, "a bound whose sign is not known");
	return stx_ex_min(x, e, size);
}

static int view_slice(struct view *v)
{
	const struct stx_arg *start = &v->n->args[2];
	int64_t step;
	uint32_t d;
	stx_ex from;

	if (!dim_arg(v, 1, v->x->rank, &d) ||
	    !stx__const_arg(v->l, v->n, v->n->args[4].u.ex, &step))
		return 0;
	identity(v);
	from = start->kind == STX_ARG_INT ? clamp_bound(v, start->u.ex, v->x->sizes[d])
					  : stx_ex_const(v->l->ex, 0);
	v->map[d] = stx_ex_add(v->l->ex, stx_ex_muli(v->l->ex, axis(v, d), step), from);
	return !v->l->err;
}

/* Window o, element e of dimension d is its element o*step + e. */
static int view_unfold(struct view *v)
{
	struct stx_exprs *x = v->l->ex;
	int64_t step;
	uint32_t d;

	if (!dim_arg(v, 1, v->x->rank, &d) ||
	    !stx__const_arg(v->l, v->n, v->n->args[3].u.ex, &step))
		return 0;
	identity(v);
	if (v->x->rank)
		v->map[d] = stx_ex_add(x, stx_ex_muli(x, axis(v, d), step), axis(v, v->x->rank));
	return 1;
}

static int view_select(struct view *v)
{
	stx_ex at = v->n->args[2].u.ex;
	struct stx_interval r = stx_ex_interval(v->l->ex, at);
	uint32_t d, k;

	if (!dim_arg(v, 1, v->x->rank, &k))
		return 0;
	for (d = 0; d < v->x->rank; d++)
		v->map[d] = d == k ? at : axis(v, d < k ? d : d - 1);
	if (r.hi < 0)
		v->map[k] = stx_ex_add(v->l->ex, at, v->x->sizes[k]);
	else if (r.lo < 0)
		stx__lower_fail(v->l, STX_E_UNSUPPORTED, v->n, "an index whose sign is not known");
	return !v->l->err;
}

static int view_flip(struct view *v)
{
	const struct stx_arg *dims = &v->n->args[1];
	int64_t dim;
	uint32_t i;

	identity(v);
	for (i = 0; i < dims->n; i++) {
		uint32_t d;

		if (!stx__const_arg(v->l, v->n, dims->u.exs[i], &dim))
			return 0;
		if (!v->x->rank)
			continue;
		d = stx__dim(dim, v->x->rank);
		v->map[d] =
			stx_ex_sub(v->l->ex, stx_ex_addi(v->l->ex, v->x->sizes[d], -1), axis(v, d));
	}
	return 1;
}

/* The new axis runs along both dimensions and is the last of the result. */
static int view_diagonal(struct view *v)
{
	int64_t offset;
	uint32_t a, b, d, next = 0;
	stx_ex i = axis(v, v->s.rank - 1u);

	if (!stx__const_arg(v->l, v->n, v->n->args[1].u.ex, &offset) ||
	    !dim_arg(v, 2, v->x->rank, &a) || !dim_arg(v, 3, v->x->rank, &b))
		return 0;
	for (d = 0; d < v->x->rank; d++)
		v->map[d] = d == a   ? stx_ex_addi(v->l->ex, i, offset < 0 ? -offset : 0)
			    : d == b ? stx_ex_addi(v->l->ex, i, offset > 0 ? offset : 0)
				     : axis(v, next++);
	return 1;
}

/* Positions beyond the operand mirrored at its edges (which are not repeated), or moved to them.
 * The index is one expression of min and max: no table, no masks. */
static stx_ex own_position(struct stx_exprs *x, stx_ex i, int reflect, stx_ex before, stx_ex after,
			   stx_ex size)
{
	stx_ex last = stx_ex_addi(x, size, -1), zero = stx_ex_const(x, 0);

	i = stx_ex_sub(x, i, before);
	if (stx_ex_interval(x, before).hi > 0)
		i = stx_ex_max(x, i, reflect ? stx_ex_sub(x, zero, i) : zero);
	if (stx_ex_interval(x, after).hi > 0)
		i = stx_ex_min(x, i, reflect ? stx_ex_sub(x, stx_ex_muli(x, last, 2), i) : last);
	return i;
}

static int view_pad_own(struct view *v)
{
	const struct stx_arg *p = &v->n->args[1];
	int reflect = v->n->op <= STX_OP_REFLECTION_PAD3D;
	uint32_t i;

	identity(v);
	for (i = 0; i < p->n / 2; i++) {
		uint32_t d = v->x->rank - 1 - i;

		v->map[d] = own_position(v->l->ex, axis(v, d), reflect, p->u.exs[2 * i],
					 p->u.exs[2 * i + 1], v->x->sizes[d]);
	}
	return 1;
}

/* ---- reshape ---- */

/* Dimensions old[0..nold) and fresh[0..nfresh) that hold the same elements in the same order. */
struct group {
	uint32_t old[STX_MAX_DIMS], fresh[STX_MAX_DIMS];
	uint32_t nold, nfresh;
};

/* Row-major index within the group, from the result's axes. */
static stx_ex flat_index(const struct view *v, const struct group *g)
{
	stx_ex e = stx_ex_const(v->l->ex, 0);
	uint32_t i;

	for (i = 0; i < g->nfresh; i++)
		e = stx_ex_add(v->l->ex, stx_ex_mul(v->l->ex, e, v->s.sizes[g->fresh[i]]),
			       axis(v, g->fresh[i]));
	return e;
}

/* What an index is divided by: a size, or 1 for a size of 0, whose tensor has no element to find.
 */
static stx_ex divisor(struct stx_exprs *x, stx_ex size)
{
	return stx_ex_interval(x, size).lo > 0 ? size : stx_ex_max(x, size, stx_ex_const(x, 1));
}

static void map_group(struct view *v, const struct group *g)
{
	struct stx_exprs *x = v->l->ex;
	stx_ex flat = flat_index(v, g);
	uint32_t i;

	for (i = g->nold; i-- > 0;) {
		stx_ex size = divisor(x, v->x->sizes[g->old[i]]);

		v->map[g->old[i]] = i ? stx_ex_mod(x, flat, size) : flat;
		if (i)
			flat = stx_ex_floordiv(x, flat, size);
	}
}

/* Strides of a buffer load, if its address is affine in every dimension of more than one element.
 */
static int affine_strides(const struct view *v, stx_ex *strides)
{
	struct stx_exprs *x = v->l->ex;
	stx_ex rest = v->x->u.load.ex, e = rest;
	uint32_t d;

	for (d = 0; d < v->x->rank; d++, e = rest)
		if (!stx_ex_linear_in(x, e, d, &strides[d], &rest) ||
		    stx_ex_uses_kind(x, strides[d], STX_ATOM_VAR))
			return 0;
	return 1;
}

/* Adds the group's part of the address: neighbours with t_j = s_(j+1)*t_(j+1) act as one dimension
 * (LV-07), only the others need div and mod. */
static void address_group(struct view *v, const struct group *g, const stx_ex *strides)
{
	struct stx_exprs *x = v->l->ex;
	stx_ex flat = flat_index(v, g);
	uint32_t i = g->nold;

	while (i > 0) {
		uint32_t last = g->old[--i];
		stx_ex size = v->x->sizes[last], stride = strides[last];

		while (i > 0 && strides[g->old[i - 1]] == stx_ex_mul(x, stride, size))
			size = stx_ex_mul(x, size, v->x->sizes[g->old[--i]]);
		size = divisor(x, size);
		v->address = stx_ex_add(
			x, v->address, stx_ex_mul(x, i ? stx_ex_mod(x, flat, size) : flat, stride));
		if (i)
			flat = stx_ex_floordiv(x, flat, size);
	}
}

/* Dimensions other than the constant 1, in order. */
static uint32_t real_dims(struct stx_exprs *x, struct stx__shape s, uint32_t *out)
{
	uint32_t d, n = 0;

	for (d = 0; d < s.rank; d++)
		if (!stx_ex_equals(x, s.sizes[d], 1))
			out[n++] = d;
	return n;
}

/* Takes the next group off both lists: the shortest runs with equal products. */
static struct group next_group(const struct view *v, const uint32_t *old, uint32_t nold,
			       uint32_t *i, const uint32_t *fresh, uint32_t nfresh, uint32_t *j)
{
	struct stx_exprs *x = v->l->ex;
	struct group g = { .nold = 0 };
	stx_ex p = stx_ex_const(x, 1), q = p;

	do {
		if (*i < nold && (*j == nfresh || stx_ex_hint(x, p) <= stx_ex_hint(x, q))) {
			p = stx_ex_mul(x, p, v->x->sizes[old[*i]]);
			g.old[g.nold++] = old[(*i)++];
		} else if (*j < nfresh) {
			q = stx_ex_mul(x, q, v->s.sizes[fresh[*j]]);
			g.fresh[g.nfresh++] = fresh[(*j)++];
		}
	} while (p != q && (*i < nold || *j < nfresh));
	return g;
}

static int view_reshape(struct view *v)
{
	uint32_t old[STX_MAX_DIMS], fresh[STX_MAX_DIMS], i = 0, j = 0, d;
	uint32_t nold = real_dims(v->l->ex, (struct stx__shape){ v->x->rank, v->x->sizes }, old);
	uint32_t nfresh = real_dims(v->l->ex, v->s, fresh);
	stx_ex strides[STX_MAX_DIMS], zeros[STX_MAX_DIMS];
	int direct = v->x->rule == STX_IN_LOAD && affine_strides(v, strides);

	for (d = 0; d < v->x->rank; d++)
		v->map[d] = zeros[d] = stx_ex_const(v->l->ex, 0);
	if (direct) /* the offset: every axis at 0 */
		v->address = stx_ex_subst(v->l->ex, v->x->u.load.ex, zeros, v->x->rank);
	while (i < nold || j < nfresh) {
		struct group g = next_group(v, old, nold, &i, fresh, nfresh, &j);

		if (direct)
			address_group(v, &g, strides);
		else
			map_group(v, &g);
	}
	return 1;
}

/* ---- the rule ---- */

typedef int view_fn(struct view *v);

static view_fn *const views[STX_OP_COUNT] = {
	[STX_OP_VIEW] = view_reshape,
	[STX_OP_PERMUTE] = view_permute,
	[STX_OP_T] = view_t,
	[STX_OP_TRANSPOSE] = view_transpose,
	[STX_OP_EXPAND] = view_expand,
	[STX_OP_SQUEEZE] = view_squeeze,
	[STX_OP_UNSQUEEZE] = view_unsqueeze,
	[STX_OP_SLICE] = view_slice,
	[STX_OP_SELECT] = view_select,
	[STX_OP_FLIP] = view_flip,
	[STX_OP_DIAGONAL] = view_diagonal,
	[STX_OP_UNFOLD] = view_unfold,
	[STX_OP_REFLECTION_PAD1D] = view_pad_own,
	[STX_OP_REFLECTION_PAD2D] = view_pad_own,
	[STX_OP_REFLECTION_PAD3D] = view_pad_own,
	[STX_OP_REPLICATION_PAD1D] = view_pad_own,
	[STX_OP_REPLICATION_PAD2D] = view_pad_own,
	[STX_OP_REPLICATION_PAD3D] = view_pad_own,
};

int stx__view_has_rule(enum stx_op op)
{
	return views[op] != NULL;
}

static int has_bad(const struct stx__inner *fn)
{
	uint32_t d;

	if (fn->rule == STX_IN_LOAD)
		return fn->u.load.ex == STX_EX_BAD;
	if (fn->rule == STX_IN_INDEX)
		return fn->u.ex == STX_EX_BAD;
	for (d = 0; fn->rule == STX_IN_VIEW && d < fn->operands[0]->rank; d++)
		if (fn->u.map[d] == STX_EX_BAD)
			return 1;
	return 0;
}

/* Reshapes compose by their ends: (4,6) to (3,8) to (4,6) is the identity, which no rewriting of
 * div and mod would find. The node whose value the argument only reshapes, unless it is in memory
 * itself. */
static struct stx_val reshape_base(struct stx__lower *l, const struct stx_node *n)
{
	struct stx_val a = n->args[0].u.tensor;
	const struct stx__value *v = &l->vals[a.node->id];

	return v->is_realized || !v->base.node ? a : v->base;
}

static int keeps_order(enum stx_op op)
{
	return op == STX_OP_VIEW || op == STX_OP_SQUEEZE || op == STX_OP_UNSQUEEZE;
}

static struct stx__inner *build(struct view *v)
{
	struct stx__lower *l = v->l;

	v->x = stx__arg(l, v->n, 0);
	if (keeps_order(v->n->op))
		l->vals[v->n->id].base = reshape_base(l, v->n);
	if (v->n->op == STX_OP_VIEW)
		v->x = stx__value_of(l, l->vals[v->n->id].base);
	v->map = STX_NEW_ARRAY(l->arena, stx_ex, STX_MAX_DIMS);
	v->address = STX_EX_BAD;
	if (!v->x || !v->map || !views[v->n->op](v))
		return NULL;
	if (v->n->op == STX_OP_VIEW && v->address != STX_EX_BAD) {
		struct stx__inner *r =
			stx__inner_load(l->g, v->x->u.load.buffer, v->x->dtype, v->s, v->address);

		if (r)
			r->u.load.range = v->x->u.load.range;
		return r;
	}
	return stx__inner_view(l->g, v->x, v->s, v->map);
}

struct stx__inner *stx__rule_view(struct stx__lower *l, const struct stx_node *n)
{
	struct view v = { .l = l, .n = n, .s = stx__node_shape(n) };
	struct stx__inner *r;

	if (!views[n->op])
		return stx__lower_fail(l, STX_E_UNSUPPORTED, n, "%s has no lowering rule",
				       stx_op_info(n->op)->overload);
	r = build(&v);
	if (r && has_bad(r)) {
		if (stx__realize_node(l, n->args[0].u.tensor.node, STX_REALIZED_INDEX_SIZE))
			return NULL;
		r = build(&v);
		if (r && has_bad(r))
			return stx__lower_fail(l, STX_E_TOO_LARGE, n,
					       "the index expression is too large");
	}
	return r;
}
