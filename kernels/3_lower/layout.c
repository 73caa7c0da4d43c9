/* layout.c
 * order of axes from access strides, and the strides of flexible buffers (seed 000 6.4; LV-02,
 * LV-11, LV-12, LV-13); the size of a layout.
 *
 * Every access votes on each pair of axes: the one with the smaller stride wants to be inner; an
 * axis the access does not move along, or moves along through a division, has no vote. The order is
 * an insertion sort by majority, so a tie keeps the order given and the result is deterministic.
 * Changing strides of a temporary never changes results, only addresses. */

#include "lower.h"

static uint64_t magnitude(int64_t v)
{
	return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

/* |stride| of every axis in one access at the size hints; 0 where it has no vote. */
static void strides_of(struct stx_exprs *x, stx_ex e, const uint32_t *vars, uint32_t n,
		       uint64_t *out)
{
	stx_ex coeff, rest;
	uint32_t i;

	for (i = 0; i < n; i++)
		out[i] = stx_ex_linear_in(x, e, vars[i], &coeff, &rest)
				 ? magnitude(stx_ex_hint(x, coeff))
				 : 0;
}

/* Order of axes, outermost first, that makes accesses most contiguous; ties keep the given order.
 */
static void order_axes(struct stx_exprs *x, const stx_ex *accesses, uint32_t naccesses,
		       const uint32_t *vars, uint32_t nvars, uint32_t *order)
{
	int32_t votes[STX_MAX_DIMS][STX_MAX_DIMS] = { { 0 } }; /* [i][j] > 0: i outside j */
	uint64_t s[STX_MAX_DIMS];
	uint32_t i, j, k;

	for (k = 0; k < naccesses; k++) {
		strides_of(x, accesses[k], vars, nvars, s);
		for (i = 0; i < nvars; i++)
			for (j = 0; j < nvars; j++)
				if (s[i] && s[j])
					votes[i][j] += (s[i] > s[j]) - (s[i] < s[j]);
	}
	for (i = 0; i < nvars; i++) {
		for (j = i; j > 0 && votes[i][order[j - 1]] > 0; j--)
			order[j] = order[j - 1];
		order[j] = i;
	}
}

/* Loads of the body; at most max of them. */
static uint32_t body_loads(const struct stx_body *b, stx_ex *out, uint32_t max)
{
	uint32_t i, n = 0;

	for (i = 0; i < b->n && n < max; i++)
		if (b->at[i].op == STX_B_LOAD)
			out[n++] = b->at[i].ex;
	return n;
}

void stx__layout_settle(struct stx_exprs *x, struct stx_arena *a, struct stx_buffer *b)
{
	uint32_t order[STX_MAX_DIMS], vars[STX_MAX_DIMS], i, n = 0;
	stx_ex loads[64], stride = stx_ex_const(x, 1);
	stx_ex *strides = STX_NEW_ARRAY(a, stx_ex, b->layout.rank + 1u);

	if (!strides)
		return;
	for (i = 0; i < b->layout.rank; i++)
		vars[i] = order[i] = i;
	if (b->layout.flexible) {
		n = body_loads(&b->body, loads, 64);
		order_axes(x, loads, n, vars, b->layout.rank, order);
	}
	for (i = b->layout.rank; i-- > 0;) {
		strides[order[i]] = stride;
		stride = stx_ex_mul(x, stride, b->layout.sizes[order[i]]);
	}
	b->layout.strides = strides;
	b->layout.flexible = 0;
	b->store = stx__address(x, (struct stx__shape){ b->layout.rank, b->layout.sizes }, strides,
				b->layout.offset);
}

stx_ex stx_layout_reach(struct stx_exprs *x, const struct stx_layout *l)
{
	stx_ex e = stx_ex_addi(x, l->offset, 1);
	for (uint32_t i = 0; i < l->rank; i++) {
		if (stx_ex_equals(x, l->sizes[i], 0))
			return stx_ex_const(x, 0);
		stx_ex span = stx_ex_mul(x, stx_ex_addi(x, l->sizes[i], -1), l->strides[i]);
		if (stx_ex_interval(x, l->strides[i]).lo >= 0)
			e = stx_ex_add(x, e, span);
		else
			e = stx_ex_add(x, e, stx_ex_max(x, span, stx_ex_const(x, 0)));
	}
	return e;
}
