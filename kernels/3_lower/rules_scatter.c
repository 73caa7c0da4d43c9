/* rules_scatter.c
 * writes at run-time indices (seed 000 6.2; LO-16, LO-17, B15, B17): one buffer that updates the
 * memory of another one in place.
 *
 * The updates are numbered along one axis, in the order of the index tensor, and made in that
 * order: the last write to an element stays, sums do not depend on threads. The dimensions that no
 * index chooses are independent. index_put wraps negative indices; scatter reports them (B15).
 *
 * The memory updated is self's own when nothing else reads it: then no element but the updated ones
 * is touched. Otherwise self is computed into memory of its own first, an ordinary pointwise
 * buffer.
 */
#include <string.h>

#include "lower.h"

int stx__scatter_has_rule(enum stx_op op)
{
	return op == STX_OP_SCATTER || op == STX_OP_SCATTER_REDUCE || op == STX_OP_INDEX_PUT ||
	       op == STX_OP_SLICE_SCATTER;
}

/* ---- the memory that is updated ---- */

/* Views that reach every element of a tensor of as many elements exactly once. */
static int is_bijective(enum stx_op op)
{
	return op == STX_OP_VIEW || op == STX_OP_PERMUTE || op == STX_OP_SQUEEZE ||
	       op == STX_OP_UNSQUEEZE || op == STX_OP_FLIP;
}

/* A temporary, or an input that the caller gives away; one with strides may reach an element twice.
 * Or the input that is to hold n's value, where n's elements lie as the input's: through a flip or
 * a permutation its memory would hold them in another order. fn: n's argument 0. */
static int may_be_overwritten(const struct stx__lower *l, const struct stx_node *n,
			      const struct stx__inner *fn, const struct stx_node *m,
			      const struct stx_buffer *b)
{
	const struct stx__value *v = &l->vals[m->id];
	if (b->kind != STX_BUF_INPUT)
		return b->kind == STX_BUF_TEMP;
	if (l->g->inputs.at[b->index].strides)
		return 0;
	return v->written_with.node ? v->written_with.node == n && fn->u.load.ex == v->fn->u.load.ex
				    : m->is_donated;
}

/* The buffer that self, argument 0 of n, reads whole and that nothing else will read, or NULL. */
static struct stx_buffer *own_buffer(struct stx__lower *l, const struct stx_node *n)
{
	const struct stx__inner *fn = stx__arg(l, n, 0);
	const struct stx_node *m = n->args[0].u.tensor.node;
	struct stx_buffer *b;

	if (fn->rule != STX_IN_LOAD)
		return NULL;
	while (is_bijective(m->op) && l->vals[m->id].uses == 1 && !l->vals[m->id].is_output &&
	       !l->vals[m->id].is_realized)
		m = m->args[0].u.tensor.node;
	if (m->nouts != 1 || l->vals[m->id].uses != 1 || l->vals[m->id].is_output ||
	    !l->vals[m->id].is_realized || l->vals[m->id].fn->rule != STX_IN_LOAD)
		return NULL;
	b = l->loops->buffers.at[fn->u.load.buffer];
	return may_be_overwritten(l, n, fn, m, b) && b->dtype == fn->dtype && !b->heir &&
			       l->vals[m->id].fn->u.load.buffer == b->id &&
			       stx__whole_storage(l, b, stx__node_shape(m),
						  l->vals[m->id].fn->u.load.ex)
		       ? b
		       : NULL;
}

/* ---- updates ---- */

struct scatter {
	struct stx__lower *l;
	const struct stx_node *n;
	stx_ex sizes[STX_MAX_DIMS + 1]; /* independent dimensions, then the updates */
	uint32_t rank;
	struct stx__update u;
};

/* Axis number d of the updates' space. */
static stx_ex axis(const struct scatter *s, uint32_t d)
{
	return stx__axis(s->l->ex, d, s->sizes[d]);
}

static struct stx__inner *seen(struct scatter *s, struct stx__inner *x, const stx_ex *map)
{
	const stx_ex *kept = stx_arena_copy(s->l->arena, map, (STX_MAX_DIMS + 1) * sizeof *map);

	return x && kept ? stx__inner_view(s->l->g, x, s->u.space, kept) : NULL;
}

static int set_space(struct scatter *s)
{
	s->u.space.rank = (uint8_t)s->rank;
	s->u.space.sizes = stx_arena_copy(s->l->arena, s->sizes, sizeof s->sizes);
	return s->u.space.sizes != NULL;
}

/* Dimension d of the result is chosen by `index`, given over the space. */
static int add_index(struct scatter *s, uint32_t d, struct stx__inner *index, uint8_t flags)
{
	uint32_t k = s->u.nindices++;

	s->u.index[k] = index ? stx__inner_cast(s->l->g, index, STX_I64) : NULL;
	s->u.how[k] = (struct stx__index){ s->n->outs[0].sizes[d], flags, (uint8_t)d };
	return s->u.index[k] != NULL;
}

static int set_monoid(struct scatter *s, const char *reduce)
{
	static const struct {
		const char *name;
		enum stx_monoid monoid;
	} kinds[] = { { "sum", STX_MONOID_SUM },
		      { "prod", STX_MONOID_PROD },
		      { "amax", STX_MONOID_MAX },
		      { "amin", STX_MONOID_MIN } };
	uint32_t i;

	for (i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(reduce, kinds[i].name)) {
			s->u.monoid = kinds[i].monoid;
			return 1;
		}
	stx__lower_fail(s->l, STX_E_UNSUPPORTED, s->n, "reduce='%.16s'", reduce);
	return 0;
}

static struct stx__inner *finish(struct scatter *s)
{
	if (s->l->err || !s->u.value)
		return NULL;
	s->u.base = own_buffer(s->l, s->n);
	return stx__realize_update(s->l, s->n, &s->u);
}

/* ---- scatter: an index tensor of self's rank ---- */

static struct stx__inner *lower_scatter(struct scatter *s)
{
	const struct stx_node *n = s->n;
	struct stx__inner *index = stx__arg(s->l, n, 2);
	stx_ex map[STX_MAX_DIMS + 1] = { 0 };
	uint32_t d, k = 0, rank = n->outs[0].rank, dim;
	int64_t v;

	if (!index || !stx__const_arg(s->l, n, n->args[1].u.ex, &v))
		return NULL;
	dim = stx__dim(v, rank);
	s->u.overwrite = n->op == STX_OP_SCATTER;
	if (!s->u.overwrite && !set_monoid(s, n->args[4].u.str))
		return NULL;
	s->rank = rank;
	for (d = 0; d < rank; d++)
		if (d != dim)
			s->sizes[k++] = index->sizes[d];
	s->sizes[k] = index->sizes[dim];
	if (!set_space(s))
		return NULL;
	for (d = k = 0; d < rank; d++)
		map[d] = s->u.at[d] = d == dim ? axis(s, rank - 1) : axis(s, k++);
	if (!add_index(s, dim, seen(s, index, map), STX_BF_CHECK))
		return NULL;
	s->u.value = seen(s, stx__arg(s->l, n, 3), map);
	return finish(s);
}

/* ---- index_put: index tensors broadcast together ---- */

struct common { /* the shape of the indices together: dimensions of the one update axis */
	uint32_t rank;
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t first; /* where they stand among the dimensions of the values */
};

static struct stx__inner *index_at(struct scatter *s, uint32_t i)
{
	const struct stx_arg *list = &s->n->args[1];
	const struct stx_node *t = i < list->n ? list->u.tensors[i].node : NULL;

	return t ? stx__value_of(s->l, list->u.tensors[i]) : NULL;
}

/* As index.Tensor has it: neighbours stay in place, others go to the front. */
static int find_common(struct scatter *s, struct common *c)
{
	uint32_t i, e, first = 0, last = 0, count = 0;

	memset(c, 0, sizeof *c);
	for (i = 0; i < STX_MAX_DIMS; i++)
		c->sizes[i] = stx_ex_const(s->l->ex, 1);
	for (i = 0; i < s->n->outs[0].rank; i++) {
		const struct stx__inner *x = index_at(s, i);

		if (!x)
			continue;
		first = count++ ? first : i;
		last = i;
		c->rank = x->rank > c->rank ? x->rank : c->rank;
	}
	for (i = 0; i < s->n->outs[0].rank; i++) {
		const struct stx__inner *x = index_at(s, i);

		for (e = 0; x && e < x->rank; e++)
			if (!stx_ex_equals(s->l->ex, x->sizes[e], 1))
				c->sizes[c->rank - x->rank + e] = x->sizes[e];
	}
	c->first = count && last - first + 1 == count ? first : 0;
	return count != 0;
}

/* Position along each common dimension of the update whose number is the last axis. */
static void unravel(struct scatter *s, const struct common *c, stx_ex *at)
{
	struct stx_exprs *x = s->l->ex;
	stx_ex t = axis(s, s->rank - 1), one = stx_ex_const(x, 1);
	uint32_t e, outer = 0;

	while (outer < c->rank && c->sizes[outer] == one)
		outer++;
	for (e = c->rank; e-- > 0;) {
		stx_ex size = c->sizes[e];

		if (stx_ex_interval(x, size).lo < 1)
			size = stx_ex_max(x, size, one);
		at[e] = size == one ? stx_ex_const(x, 0) : e > outer ? stx_ex_mod(x, t, size) : t;
		if (size != one && e > outer)
			t = stx_ex_floordiv(x, t, size);
	}
}

/* x, right-aligned with `rank` dimensions that lie at at[], as seen from the space. */
static struct stx__inner *spread(struct scatter *s, struct stx__inner *x, const stx_ex *at,
				 uint32_t rank)
{
	stx_ex map[STX_MAX_DIMS + 1] = { 0 };
	uint32_t e;

	for (e = 0; x && e < x->rank; e++)
		map[e] = stx_ex_equals(s->l->ex, x->sizes[e], 1) ? stx_ex_const(s->l->ex, 0)
								 : at[rank - x->rank + e];
	return seen(s, x, map);
}

static struct stx__inner *lower_index_put(struct scatter *s)
{
	const struct stx_type *t = &s->n->outs[0];
	struct common c;
	stx_ex updates = stx_ex_const(s->l->ex, 1), at[STX_MAX_DIMS], all[2 * STX_MAX_DIMS];
	uint32_t d, e, k = 0, w = 0;

	if (!find_common(s, &c))
		return stx__lower_fail(s->l, STX_E_INTERNAL, s->n, "no index is given");
	s->u.overwrite = !s->n->args[3].u.i;
	s->u.monoid = STX_MONOID_SUM;
	for (d = 0; d < t->rank; d++)
		if (!index_at(s, d))
			s->sizes[k++] = t->sizes[d];
	for (e = 0; e < c.rank; e++)
		updates = stx_ex_mul(s->l->ex, updates, c.sizes[e]);
	s->sizes[k] = updates;
	s->rank = k + 1;
	if (!set_space(s))
		return NULL;
	unravel(s, &c, at);
	for (d = k = 0; d <= t->rank; d++) {
		for (e = 0; w == c.first && d >= c.first && e < c.rank; e++)
			all[w + e] = at[e];
		w += w == c.first && d >= c.first ? c.rank : 0;
		if (d == t->rank)
			break;
		if (!index_at(s, d)) {
			s->u.at[d] = all[w++] = axis(s, k++);
			continue;
		}
		if (!add_index(s, d, spread(s, index_at(s, d), at, c.rank),
			       STX_BF_CHECK | STX_BF_WRAP))
			return NULL;
	}
	s->u.value = spread(s, stx__arg(s->l, s->n, 2), all, w);
	return finish(s);
}

/* ---- slice_scatter: known positions ---- */

/* src where the slice reaches, self elsewhere: one masked piecewise function. */
static struct stx__inner *piecewise(struct scatter *s, uint32_t dim, stx_ex start, int64_t step)
{
	struct stx_exprs *x = s->l->ex;
	struct stx__shape out = stx__node_shape(s->n);
	struct stx__inner *src = stx__arg(s->l, s->n, 1),
			  *fn[2] = { NULL, stx__arg(s->l, s->n, 0) };
	struct stx__cond *conds = STX_NEW_ARRAY(s->l->arena, struct stx__cond, 2);
	struct stx__piece *pieces = STX_NEW_ARRAY(s->l->arena, struct stx__piece, 2);
	stx_ex *map = STX_NEW_ARRAY(s->l->arena, stx_ex, out.rank + 1u);
	stx_ex from, by = stx_ex_const(x, step), end;
	uint32_t d;

	if (!src || !fn[1] || !conds || !pieces || !map)
		return NULL;
	for (d = 0; d < out.rank; d++)
		map[d] = stx__axis(x, d, out.sizes[d]);
	from = stx_ex_sub(x, map[dim], start);
	end = stx_ex_add(x, start, stx_ex_mul(x, src->sizes[dim], by));
	conds[0] = (struct stx__cond){ map[dim], start, end };
	conds[1] = (struct stx__cond){ stx_ex_mod(x, from, by), STX_EX_BAD, stx_ex_const(x, 1) };
	pieces[0] = (struct stx__piece){ conds, step > 1 ? 2 : 1 };
	map[dim] = stx_ex_floordiv(x, from, by);
	fn[0] = stx__inner_view(s->l->g, src, out, map);
	return fn[0] ? stx__inner_pieces(s->l->g, src->dtype, out, fn, pieces, 2) : NULL;
}

/* In place when self's memory is its own, else an ordinary function of both. */
static struct stx__inner *lower_slice_scatter(struct scatter *s)
{
	const struct stx_node *n = s->n;
	struct stx__inner *src = stx__arg(s->l, n, 1);
	stx_ex start = n->args[3].kind == STX_ARG_INT ? n->args[3].u.ex : stx_ex_const(s->l->ex, 0);
	int64_t dim, step;
	uint32_t d, k;

	if (!src || !stx__const_arg(s->l, n, n->args[2].u.ex, &dim) ||
	    !stx__const_arg(s->l, n, n->args[5].u.ex, &step))
		return NULL;
	k = stx__dim(dim, n->outs[0].rank);
	if (stx__shape_is_empty(s->l->ex, (struct stx__shape){ src->rank, src->sizes }))
		return stx__arg(s->l, n, 0);
	if (stx_ex_interval(s->l->ex, start).lo < 0)
		return stx__lower_fail(s->l, STX_E_UNSUPPORTED, n, "a symbolic start of a slice");
	s->u.base = own_buffer(s->l, n);
	if (!s->u.base)
		return piecewise(s, k, start, step);
	s->u.overwrite = 1;
	s->u.is_unordered = 1;
	s->u.space = (struct stx__shape){ src->rank, src->sizes };
	s->u.value = src;
	for (d = 0; d < src->rank; d++)
		s->u.at[d] = stx__axis(s->l->ex, d, src->sizes[d]);
	s->u.at[k] = stx_ex_add(s->l->ex, start, stx_ex_muli(s->l->ex, s->u.at[k], step));
	return stx__realize_update(s->l, n, &s->u);
}

struct stx__inner *stx__rule_scatter(struct stx__lower *l, const struct stx_node *n)
{
	struct scatter s = { .l = l, .n = n };

	if (!stx__scatter_has_rule(n->op))
		return stx__lower_fail(l, STX_E_UNSUPPORTED, n, "%s has no lowering rule",
				       stx_op_info(n->op)->overload);
	s.u.dtype = n->outs[0].dtype;
	if (n->op == STX_OP_SLICE_SCATTER)
		return lower_slice_scatter(&s);
	return n->op == STX_OP_INDEX_PUT ? lower_index_put(&s) : lower_scatter(&s);
}
