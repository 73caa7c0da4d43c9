/* transposed.c: transposed convolutions, which a library makes as the gradient of a convolution's
 * input (issue 4, external calls).
 *
 * requires: as convolution.c. ensures: sizes, strides and padding of one whose result o takes, for
 * each tap k, element e / step of x where e = o - dilation*k + first is a multiple of the step and
 * the quotient lies in x (3_lower/rules_window.c). With o = step*q + dilation*k - first put into
 * x's address it is affine in q: what lies in memory. A dimension that needs no mask has a step of
 * 1, and its dilation is the address's; where only its remainders are masked, they must tell the
 * dilation. One pass over the masks and addresses. */
#include "convolution.h"

#define MAX_SPATIAL STX_CONV_MAX_SPATIAL
#define MAX_WHOLE   (4 * MAX_SPATIAL) /* conditions of both masks that quotients are whole */

struct reading {
	stx_ex whole[MAX_WHOLE]; /* remainders that must be 0 */
	uint32_t nwhole;
};

/* ---- masks ---- */

/* The factor that is the whole of term i of e; 0: it is something else. */
static int find_factor(const struct stx_exprs *x, stx_ex e, uint32_t i, enum stx_atom_kind kind,
		       struct stx_ex_atom *a)
{
	struct stx_ex_term t = stx_ex_term_at(x, e, i);
	if (t.natoms != 1 || t.coeff != 1)
		return 0;
	*a = stx_ex_atom_at(x, t.atoms[0]);
	return a->kind == kind;
}

/* q = floor(result / *step): of a sum that has one such quotient in it, else of q itself. */
static stx_ex dividend_of(struct stx_exprs *x, stx_ex q, int64_t *step)
{
	*step = 1;
	for (uint32_t i = 0; i < stx_ex_nterms(x, q); i++) {
		struct stx_ex_atom a;
		int64_t by;
		if (!find_factor(x, q, i, STX_ATOM_FLOORDIV, &a) || !stx_ex_is_const(x, a.b, &by) ||
		    by < 2 || !stx__conv_is_small(by))
			continue;
		stx_ex rest = stx_ex_sub(x, q, stx_ex_floordiv(x, a.a, a.b));
		*step = by;
		return stx_ex_add(x, a.a, stx_ex_muli(x, rest, by));
	}
	return q;
}

static int read_whole(struct reading *r, const struct stx__conv *c, stx_ex e)
{
	struct stx_ex_atom a;
	if (stx_ex_nterms(c->f->ex, e) != 1 || stx_ex_constant(c->f->ex, e) ||
	    !find_factor(c->f->ex, e, 0, STX_ATOM_MOD, &a) || r->nwhole == MAX_WHOLE)
		return 0;
	r->whole[r->nwhole++] = e;
	return 1;
}

/* One condition: 0 <= e / step, e / step < upper, or e % step < 1. */
static int read_condition(void *ctx, struct stx__conv *c, const struct stx_body *body,
			  const struct stx_binst *in)
{
	const struct stx_binst *l = &body->at[in->a], *r = &body->at[in->b];
	struct stx__conv_position p = { .is_known = 1 };
	uint32_t dim = 0;
	int64_t by;
	if (l->op != STX_B_INDEX || r->op != STX_B_CONST ||
	    (in->op != STX_P_GE && in->op != STX_P_LT))
		return 0;
	if (in->op == STX_P_LT && r->k.i == 1 && read_whole(ctx, c, l->ex))
		return 1;
	p.dividend = dividend_of(c->f->ex, l->ex, &by);
	if (p.dividend == STX_EX_BAD || !stx__conv_find_dimension(c, p.dividend, &dim, &p))
		return 0;
	struct stx__conv_position *at = &c->at[dim];
	if (p.step != 1 || p.dilation > 0 || p.first < 0 || (c->tap[dim] > 1 && !p.dilation) ||
	    (in->op == STX_P_GE && r->k.i != 0) ||
	    (at->is_known && (at->dividend != p.dividend || at->step != by)) ||
	    (in->op == STX_P_LT && at->has_upper && at->upper != r->k.i))
		return 0;
	p.step = by;
	p.dilation = p.dilation ? -p.dilation : 1;
	p.has_lower = at->has_lower | (in->op == STX_P_GE);
	p.has_upper = at->has_upper | (in->op == STX_P_LT);
	p.upper = in->op == STX_P_LT ? r->k.i : at->upper;
	*at = p;
	return 1;
}

/* A dimension whose quotients need no mask, by the remainder that is 0: so many steps on that none
 * is negative. */
static void guess_dividend(struct stx__conv *c, stx_ex whole)
{
	struct stx_exprs *x = c->f->ex;
	struct stx__conv_position p = { .is_known = 1 };
	struct stx_ex_atom a;
	uint32_t dim = 0;
	if (!find_factor(x, whole, 0, STX_ATOM_MOD, &a) ||
	    !stx__conv_find_dimension(c, a.a, &dim, &p) || c->at[dim].is_known || p.step != 1 ||
	    p.dilation > 0 || (c->tap[dim] > 1 && !p.dilation))
		return;
	if (!stx_ex_is_const(x, a.b, &p.step) || p.step < 2 || !stx__conv_is_small(p.step))
		return;
	p.dilation = p.dilation ? -p.dilation : 1;
	int64_t missing = p.dilation * (c->tap[dim] - 1) - p.first;
	int64_t more = (missing + p.step - 1) / p.step * p.step;
	p.first += more;
	p.dividend = stx_ex_addi(x, a.a, more);
	if (p.first >= 0 && p.dividend != STX_EX_BAD)
		c->at[dim] = p;
}

/* Quotients are whole where they are read, and every remainder is of one of them. */
static int are_whole(struct stx__conv *c, const struct reading *r)
{
	struct stx_exprs *x = c->f->ex;
	stx_ex want[MAX_SPATIAL];
	for (uint32_t j = 0; j < r->nwhole; j++)
		guess_dividend(c, r->whole[j]);
	for (uint32_t i = 0; i < c->k; i++) {
		const struct stx__conv_position *p = &c->at[i];
		want[i] = p->is_known ? stx_ex_mod(x, p->dividend, stx_ex_const(x, p->step))
				      : stx_ex_const(x, 0);
		int is_there = stx_ex_equals(x, want[i], 0);
		for (uint32_t j = 0; j < r->nwhole; j++)
			is_there |= r->whole[j] == want[i];
		if (!is_there)
			return 0;
	}
	for (uint32_t j = 0; j < r->nwhole; j++) {
		int is_there = 0;
		for (uint32_t i = 0; i < c->k; i++)
			is_there |= r->whole[j] == want[i];
		if (!is_there)
			return 0;
	}
	return 1;
}

/* ---- addresses ---- */

/* x's address by the quotients, which are the variables after all others. */
static int read_quotients(struct stx__conv *c, int64_t *at)
{
	struct stx_exprs *x = c->f->ex;
	stx_ex map[STX__CONV_OUT + MAX_SPATIAL] = { STX_EX_BAD };
	for (uint32_t i = 0; i < c->k; i++) {
		const struct stx__conv_position *p = &c->at[i];
		if (!p->is_known)
			continue;
		uint32_t tap = stx__conv_var_tap(c) + i, n = c->nvars + i;
		int64_t last = stx_ex_interval(x, p->dividend).hi / p->step;
		c->in[i] = p->has_upper ? p->upper : last + 1;
		if (c->in[i] < 1 || c->in[i] >= STX__CONV_MAX_SIZE)
			return 0;
		stx_ex q = stx_ex_var(x, n, stx_ex_const(x, c->in[i]));
		stx_ex k = stx_ex_var(x, tap, stx_ex_const(x, c->tap[i]));
		map[STX__CONV_OUT + i] =
			stx_ex_add(x, stx_ex_muli(x, q, p->step),
				   stx_ex_addi(x, stx_ex_muli(x, k, p->dilation), -p->first));
	}
	return c->nvars + c->k <= STX_MAX_DIMS &&
	       stx__conv_read_address(c, stx_ex_subst(x, c->x.load->ex, map, STX__CONV_OUT + c->k),
				      c->nvars + c->k, at, &c->x.rest);
}

/* A dimension that is masked nowhere: its padding is what the taps reach over. */
static int place_unmasked(struct stx__conv *c, uint32_t i, int64_t along, int64_t back)
{
	struct stx__conv_position *p = &c->at[i];
	p->step = p->dilation = 1;
	c->tx.stride[2 + i] = c->out[i] > 1 ? along : 1;
	if (c->tap[i] > 1) {
		if (along < 1 || back >= 0 || -back % along)
			return 0;
		p->dilation = -back / along;
	}
	p->first = p->dilation * (c->tap[i] - 1);
	c->tx.offset += c->tap[i] > 1 ? back * (c->tap[i] - 1) : 0;
	c->in[i] = c->out[i] + p->first;
	return c->in[i] < STX__CONV_MAX_SIZE;
}

/* As many zeros after as before where the library's size is that of x, else as few as make it
 * so. */
static int find_padding(struct stx__conv *c, uint32_t i)
{
	const struct stx__conv_position *p = &c->at[i];
	int64_t span = p->dilation * (c->tap[i] - 1) + 1;
	int64_t least = (c->in[i] - 1) * p->step + span - c->out[i] - p->first;
	int64_t most = least + p->step - 1, after = p->first;
	if (after < least || after > most)
		after = least > 0 ? least : 0;
	c->step[i] = p->step;
	c->dilation[i] = p->dilation;
	c->before[i] = p->first;
	c->after[i] = after;
	return after <= most && after < STX__CONV_MAX_SIZE;
}

static int lay_out_x(struct stx__conv *c)
{
	struct stx__conv_tensor *t = &c->tx;
	int64_t at[STX_MAX_DIMS + 1] = { 0 };
	if (!read_quotients(c, at))
		return 0;
	t->size[0] = c->n;
	t->size[1] = c->groups * c->c;
	t->stride[0] = c->n > 1 ? at[STX__CONV_N] : 1;
	t->stride[1] = stx__conv_joined(c, at[STX__CONV_GROUP], at[stx__conv_var_in(c)], c->c);
	t->offset = c->x.rest;
	for (uint32_t i = 0; i < c->k; i++) {
		int64_t along = at[STX__CONV_OUT + i], back = at[stx__conv_var_tap(c) + i];
		if (!c->at[i].is_known) {
			if (!place_unmasked(c, i, along, back))
				return 0;
		} else {
			if (along || back)
				return 0;
			t->stride[2 + i] = c->in[i] > 1 ? at[c->nvars + i] : 1;
		}
		t->size[2 + i] = c->in[i];
		if (!find_padding(c, i))
			return 0;
	}
	return at[STX__CONV_CHANNEL] == 0;
}

static int lay_out_w(struct stx__conv *c)
{
	struct stx__conv_tensor *t = &c->tw;
	const int64_t *at = c->w.at;
	if (!stx__conv_read_address(c, c->w.load->ex, c->nvars, c->w.at, &c->w.rest))
		return 0;
	t->size[0] = c->groups * c->c;
	t->size[1] = c->m;
	t->stride[0] = stx__conv_joined(c, at[STX__CONV_GROUP], at[stx__conv_var_in(c)], c->c);
	t->stride[1] = c->m > 1 ? at[STX__CONV_CHANNEL] : 1;
	t->offset = c->w.rest;
	for (uint32_t i = 0; i < c->k; i++) {
		t->size[2 + i] = c->tap[i];
		t->stride[2 + i] = c->tap[i] > 1 ? at[stx__conv_var_tap(c) + i] : 1;
		if (at[STX__CONV_OUT + i])
			return 0;
	}
	return at[STX__CONV_N] == 0;
}

int stx__conv_place_transposed(struct stx__conv *c)
{
	struct reading r = { .nwhole = 0 };
	c->is_transposed = 1;
	return stx__conv_read_mask(c, c->x.mask, read_condition, &r) &&
	       stx__conv_read_mask(c, c->w.mask, read_condition, &r) && are_whole(c, &r) &&
	       lay_out_x(c) && lay_out_w(c);
}
