/* normalize.c
 * loop normalisation: drops axes of size 1, orders by stride, merges neighbours (seed 000 6.8; LN-02..06).
 *
 * Requires: a verified program. Ensures: every address is unchanged at the corresponding point (Proposition
 * 6.3); layouts are not touched, only ranges, bodies and store addresses. Pointwise results stay bit for bit
 * the same; reduction axes of argmax, argmin and dot keep their order. An index expression used as a value
 * is an access like any other. Terminates: each merge removes an axis. */
#include <string.h>

#include "lower.h"

#define MAX_AXES (2 * STX_MAX_DIMS)

struct nest { /* the axes of one buffer, iteration axes first */
	struct stx_exprs *x;
	struct stx_buffer *b;
	STX_VEC(stx_ex *) at;   /* every expression over the axes: loads, index values, the store */
	stx_ex sizes[MAX_AXES + 1];
	uint32_t n, nranges;
};

static stx_err collect(struct nest *n, struct stx_arena *a)
{
	uint32_t i;

	n->nranges = n->b->nranges;
	n->n = n->b->nranges + n->b->nrranges;
	for (i = 0; i < n->n; i++)
		n->sizes[i] = i < n->nranges ? n->b->ranges[i] : n->b->rranges[i - n->nranges];
	for (i = 0; i < n->b->body.n; i++) {
		struct stx_binst *in = &n->b->body.at[i];

		if ((in->op == STX_B_LOAD || in->op == STX_B_INDEX) && stx_push(a, &n->at, &in->ex))
			return STX_E_NOMEM;
	}
	return stx_push(a, &n->at, &n->b->store) ? STX_E_NOMEM : 0;
}

/* Puts map[old variable] for every variable in every expression. */
static stx_err rewrite(struct nest *n, const stx_ex *map)
{
	uint32_t i;

	for (i = 0; i < n->at.n; i++) {
		*n->at.at[i] = stx_ex_subst(n->x, *n->at.at[i], map, n->n);
		if (*n->at.at[i] == STX_EX_BAD)
			return STX_E_TOO_LARGE;
	}
	return 0;
}

/* Axes in the order given by old numbers; those left out have size 1 or were merged away. */
static stx_err reorder(struct nest *n, const uint32_t *order, uint32_t count)
{
	stx_ex map[MAX_AXES], sizes[MAX_AXES];
	uint32_t i, iteration = 0;
	stx_err e;

	for (i = 0; i < n->n; i++)
		map[i] = stx_ex_const(n->x, 0);
	for (i = 0; i < count; i++) {
		sizes[i] = n->sizes[order[i]];
		map[order[i]] = stx__axis(n->x, i, sizes[i]);
		iteration += order[i] < n->nranges;
	}
	if ((e = rewrite(n, map)))
		return e;
	memcpy(n->sizes, sizes, count * sizeof *sizes);
	n->n = count;
	n->nranges = iteration;
	return 0;
}

static stx_err drop_unit_axes(struct nest *n)
{
	uint32_t order[MAX_AXES], i, count = 0;

	for (i = 0; i < n->n; i++)
		if (!stx_ex_equals(n->x, n->sizes[i], 1))
			order[count++] = i;
	return count == n->n ? 0 : reorder(n, order, count);
}

/* Sorts axes [from, to) by the votes of loads and store; index values have no address and no vote. */
static void sort_axes(struct nest *n, uint32_t from, uint32_t to, const stx_ex *accesses,
                      uint32_t naccesses, uint32_t *order)
{
	uint32_t vars[MAX_AXES], local[MAX_AXES], i, count = to - from;

	for (i = 0; i < MAX_AXES; i++) {
		vars[i] = from + i;
		local[i] = i;
	}
	stx__order_axes(n->x, accesses, naccesses, vars, count, local);
	for (i = 0; i < count; i++)
		order[from + i] = from + local[i];
}

static stx_err sort_by_stride(struct nest *n)
{
	stx_ex accesses[64];
	uint32_t order[MAX_AXES], i, count = 0, moved = 0;
	int fixed = n->b->def == STX_DEF_REDUCTION &&
	            (n->b->monoid == STX_MONOID_ARGMAX || n->b->monoid == STX_MONOID_ARGMIN ||
	             n->b->monoid == STX_MONOID_DOT);

	accesses[count++] = n->b->store;
	for (i = 0; i < n->b->body.n && count < 64; i++)
		if (n->b->body.at[i].op == STX_B_LOAD)
			accesses[count++] = n->b->body.at[i].ex;
	for (i = 0; i < n->n; i++)
		order[i] = i;
	sort_axes(n, 0, n->nranges, accesses, count, order);
	if (!fixed)
		sort_axes(n, n->nranges, n->n, accesses, count, order);
	for (i = 0; i < n->n; i++)
		moved |= order[i] != i;
	return moved ? reorder(n, order, n->n) : 0;
}

/* Proposition 6.3 for axes j, j+1: a_j = s_(j+1)*a_(j+1) in every access, decided symbolically (LN-08). */
static int mergeable(struct nest *n, uint32_t j)
{
	stx_ex outer, inner, rest;
	uint32_t i;

	for (i = 0; i < n->at.n; i++) {
		stx_ex e = *n->at.at[i];

		if (!stx_ex_linear_in(n->x, e, j, &outer, &rest) ||
		    !stx_ex_linear_in(n->x, rest, j + 1, &inner, &rest) ||
		    stx_ex_uses_var(n->x, outer, j + 1) ||
		    outer != stx_ex_mul(n->x, inner, n->sizes[j + 1]))
			return 0;
	}
	return 1;
}

/* Axis j+1 becomes m = s_(j+1)*i_j + i_(j+1); axis j disappears. */
static stx_err merge(struct nest *n, uint32_t j)
{
	stx_ex map[MAX_AXES], size = stx_ex_mul(n->x, n->sizes[j], n->sizes[j + 1]);
	uint32_t i;
	stx_err e;

	if (size == STX_EX_BAD)
		return STX_E_TOO_LARGE;
	for (i = 0; i < n->n; i++)
		map[i] = i < j ? stx__axis(n->x, i, n->sizes[i])
			: i == j ? stx_ex_const(n->x, 0)
			: stx__axis(n->x, i - 1, i == j + 1 ? size : n->sizes[i]);
	if ((e = rewrite(n, map)))
		return e;
	n->sizes[j + 1] = size;
	memmove(n->sizes + j, n->sizes + j + 1, (n->n - j - 1) * sizeof *n->sizes);
	n->nranges -= j < n->nranges;
	n->n--;
	return 0;
}

static stx_err merge_axes(struct nest *n)
{
	uint32_t j;
	stx_err e;

	for (j = 0; j + 1 < n->n;) {
		int same_kind = (j + 1 < n->nranges) == (j < n->nranges);

		if (!same_kind || !mergeable(n, j)) {
			j++;
			continue;
		}
		if ((e = merge(n, j)))
			return e;
		j -= j > 0;
	}
	return 0;
}

static stx_err normalize(struct stx_exprs *x, struct stx_arena *a, struct stx_buffer *b)
{
	struct nest n = { .x = x, .b = b };
	stx_ex *sizes;
	stx_err e = collect(&n, a);

	if (!e)
		e = drop_unit_axes(&n);
	if (!e)
		e = sort_by_stride(&n);
	if (!e)
		e = merge_axes(&n);
	if (e)
		return e;
	sizes = stx_arena_copy(a, n.sizes, (n.n + 1) * sizeof *sizes);
	if (!sizes)
		return STX_E_NOMEM;
	b->ranges = sizes;
	b->nranges = n.nranges;
	b->rranges = sizes + n.nranges;
	b->nrranges = n.n - n.nranges;
	return 0;
}

stx_err stx_loops_normalize(struct stx_loops *l, struct stx_diag *d)
{
	uint32_t i;
	stx_err e;

	for (i = 0; i < l->buffers.n; i++) {
		struct stx_buffer *b = l->buffers.at[i];

		if (b->def != STX_DEF_NONE && (e = normalize(l->ex, l->g->arena, b)))
			return stx_fail(d, e, "lower", b->name, "%s: loops cannot be normalised", b->name);
	}
	return 0;
}
