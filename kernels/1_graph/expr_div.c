/* expr_div.c: floordiv, truncdiv, mod, min and max of index expressions, and their simplification.
 *
 * Identities used, all exact over the integers for b > 0:
 *   (b*q + r) // b = q + r // b;  (b*q + r) % b = r % b
 *   (g*t + s) // (g*c) = t // c and (g*t + s) % (g*c) = g*(t % c) + s when 0 <= s < g
 *   (e // c) // b = e // (c*b);  (e % (b*c)) % b = e % b */
#include "expr_impl.h"

static int64_t gcd(int64_t a, int64_t b)
{
	uint64_t p = a < 0 ? 0 - (uint64_t)a : (uint64_t)a,
		 q = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
	while (q) {
		uint64_t r = p % q;
		p = q;
		q = r;
	}
	return (int64_t)p;
}

static int within(struct stx_interval r, int64_t lo, int64_t hi)
{
	return r.lo >= lo && r.hi <= hi;
}

static int64_t ext_div(int64_t a, int64_t b) /* floor; infinities stay */
{
	if (a == STX_NEG_INF || a == STX_POS_INF)
		return a;
	return b == STX_POS_INF ? (a < 0 ? -1 : 0) : stx__floor_div(a, b);
}

static struct stx_interval hull4(int64_t a, int64_t b, int64_t c, int64_t d)
{
	struct stx_interval r = { a, a };
	int64_t v[3] = { b, c, d };
	for (int i = 0; i < 3; i++) {
		r.lo = v[i] < r.lo ? v[i] : r.lo;
		r.hi = v[i] > r.hi ? v[i] : r.hi;
	}
	return r;
}

static struct stx_interval atom_range(enum stx_atom_kind k, struct stx_interval a,
				      struct stx_interval b)
{
	struct stx_interval all = { STX_NEG_INF, STX_POS_INF };
	switch (k) {
	case STX_ATOM_FLOORDIV:
		if (b.lo < 1)
			return all;
		return hull4(ext_div(a.lo, b.lo), ext_div(a.lo, b.hi), ext_div(a.hi, b.lo),
			     ext_div(a.hi, b.hi));
	case STX_ATOM_TRUNCDIV: /* magnitude never grows */
		if (a.lo >= 0 && b.lo >= 1)
			return hull4(ext_div(a.lo, b.lo), ext_div(a.lo, b.hi), ext_div(a.hi, b.lo),
				     ext_div(a.hi, b.hi));
		if (a.lo == STX_NEG_INF || a.hi == STX_POS_INF)
			return all;
		{
			__int128 m = a.hi > -(__int128)a.lo ? (__int128)a.hi : -(__int128)a.lo;
			return (struct stx_interval){ stx__sat(-m), stx__sat(m) };
		}
	case STX_ATOM_MOD:
		if (b.lo < 1)
			return all;
		{
			int64_t hi = b.hi == STX_POS_INF ? STX_POS_INF : b.hi - 1;
			if (a.lo >= 0 && a.hi < hi)
				hi = a.hi;
			return (struct stx_interval){ 0, hi };
		}
	case STX_ATOM_MIN:
		return (struct stx_interval){ a.lo < b.lo ? a.lo : b.lo,
					      a.hi < b.hi ? a.hi : b.hi };
	case STX_ATOM_MAX:
		return (struct stx_interval){ a.lo > b.lo ? a.lo : b.lo,
					      a.hi > b.hi ? a.hi : b.hi };
	default: return all;
	}
}

static int64_t hint_of(enum stx_atom_kind k, int64_t a, int64_t b)
{
	switch (k) {
	case STX_ATOM_FLOORDIV: return b ? stx__floor_div(a, b) : 0;
	case STX_ATOM_TRUNCDIV: return b && !(a == INT64_MIN && b == -1) ? a / b : 0;
	case STX_ATOM_MOD: return b ? stx__floor_mod(a, b) : 0;
	case STX_ATOM_MIN: return a < b ? a : b;
	default: return a > b ? a : b;
	}
}

static stx_ex make_atom(struct stx_exprs *x, enum stx_atom_kind k, stx_ex a, stx_ex b)
{
	if (a == STX_EX_BAD || b == STX_EX_BAD)
		return STX_EX_BAD;
	const struct ex_node *p = &x->nodes.at[a], *q = &x->nodes.at[b];
	struct ex_atom at = { .kind = (uint8_t)k, .a = a, .b = b };
	at.depth = (uint8_t)(1 + (p->depth > q->depth ? p->depth : q->depth));
	at.range = atom_range(k, p->range, q->range);
	at.hint = hint_of(k, p->hint, q->hint);
	at.vars = p->vars | q->vars;
	at.kinds = p->kinds | q->kinds | 1u << k;
	if (at.range.lo == at.range.hi)
		return stx_ex_const(x, at.range.lo);
	return stx__atom_expr(x, &at);
}

/* a = whole + rest, whole = the terms (and the part of the constant) divisible by g; rest's
 * constant is in [0, g). */
static void split_by(struct stx_exprs *x, stx_ex a, int64_t g, stx_ex *whole, stx_ex *rest)
{
	struct stx_ex_term w[STX_EX_MAX_TERMS], r[STX_EX_MAX_TERMS];
	uint32_t nw = 0, nr = 0;
	const struct ex_node *n = &x->nodes.at[a];
	int64_t c = stx__floor_mod(n->constant, g), k = n->constant - c;
	for (uint32_t i = 0; i < n->nterms; i++)
		if (n->terms[i].coeff % g == 0)
			w[nw++] = n->terms[i];
		else
			r[nr++] = n->terms[i];
	*whole = stx__intern(x, k, w, nw);
	*rest = stx__intern(x, c, r, nr);
}

static stx_ex divide_exact(struct stx_exprs *x, stx_ex a, int64_t g)
{
	struct stx_ex_term t[STX_EX_MAX_TERMS];
	const struct ex_node *n = &x->nodes.at[a];
	for (uint32_t i = 0; i < n->nterms; i++) {
		t[i] = n->terms[i];
		t[i].coeff /= g;
	}
	return stx__intern(x, n->constant / g, t, n->nterms);
}

/* Largest g > 1 dividing b such that a = g*t + s with 0 <= s < g, t not the whole story; 0 if none.
 */
static int64_t separable(struct stx_exprs *x, stx_ex a, int64_t b, stx_ex *t, stx_ex *s)
{
	int64_t best = 0;
	for (uint32_t i = 0; i < x->nodes.at[a].nterms; i++) {
		int64_t g = gcd(x->nodes.at[a].terms[i].coeff, b);
		if (g <= 1 || g <= best)
			continue;
		stx_ex whole, rest;
		split_by(x, a, g, &whole, &rest);
		if (whole == STX_EX_BAD || rest == STX_EX_BAD)
			return 0;
		if (!within(stx_ex_interval(x, rest), 0, g - 1))
			continue;
		best = g;
		*t = divide_exact(x, whole, g);
		*s = rest;
	}
	return best;
}

/* The single atom an expression consists of, if of kind k; else NULL. */
static const struct ex_atom *lone_atom(const struct stx_exprs *x, stx_ex e, enum stx_atom_kind k)
{
	const struct ex_node *n = &x->nodes.at[e];
	if (n->constant || n->nterms != 1 || n->terms[0].coeff != 1 || n->terms[0].natoms != 1)
		return NULL;
	const struct ex_atom *a = &x->atoms.at[n->terms[0].atoms[0]];
	return a->kind == (uint8_t)k ? a : NULL;
}

static stx_ex floordiv_const(struct stx_exprs *x, stx_ex a, int64_t b)
{
	stx_ex whole, rest, t, s;
	if (b == 1)
		return a;
	split_by(x, a, b, &whole, &rest);
	if (whole == STX_EX_BAD || rest == STX_EX_BAD)
		return STX_EX_BAD;
	stx_ex q = divide_exact(x, whole, b);
	struct stx_interval r = stx_ex_interval(x, rest);
	if (r.lo != STX_NEG_INF && r.hi != STX_POS_INF &&
	    stx__floor_div(r.lo, b) == stx__floor_div(r.hi, b))
		return stx_ex_addi(x, q, stx__floor_div(r.lo, b));
	int64_t g = separable(x, rest, b, &t, &s);
	if (g > 1)
		return stx_ex_add(x, q, stx_ex_floordiv(x, t, stx_ex_const(x, b / g)));
	const struct ex_atom *in = lone_atom(x, rest, STX_ATOM_FLOORDIV);
	int64_t c, cb;
	if (in && stx_ex_is_const(x, in->b, &c) && !__builtin_mul_overflow(c, b, &cb))
		return stx_ex_add(x, q, stx_ex_floordiv(x, in->a, stx_ex_const(x, cb)));
	return stx_ex_add(x, q, make_atom(x, STX_ATOM_FLOORDIV, rest, stx_ex_const(x, b)));
}

/* a / b when b is one monomial that divides every term of a exactly; STX_EX_BAD otherwise. */
static stx_ex divide_by_monomial(struct stx_exprs *x, stx_ex a, stx_ex b)
{
	const struct ex_node *n = &x->nodes.at[a], *m = &x->nodes.at[b];
	if (m->constant || m->nterms != 1 || n->constant)
		return STX_EX_BAD;
	struct stx_ex_term d = m->terms[0];
	uint32_t nterms = n->nterms;
	stx_ex sum = stx_ex_const(x, 0);
	for (uint32_t i = 0; i < nterms && sum != STX_EX_BAD; i++) {
		struct stx_ex_term t = x->nodes.at[a].terms[i];
		uint32_t ids[STX_EX_MAX_DEGREE], k = 0, j = 0;
		if (t.coeff % d.coeff)
			return STX_EX_BAD;
		for (uint32_t s = 0; s < t.natoms; s++)
			if (j < d.natoms && t.atoms[s] == d.atoms[j])
				j++;
			else
				ids[k++] = t.atoms[s];
		if (j != d.natoms)
			return STX_EX_BAD;
		struct stx_ex_term q = { .coeff = t.coeff / d.coeff, .natoms = k, .atoms = ids };
		sum = stx_ex_add(x, sum, k ? stx__intern(x, 0, &q, 1) : stx_ex_const(x, q.coeff));
	}
	return sum;
}

stx_ex stx_ex_floordiv(struct stx_exprs *x, stx_ex a, stx_ex b)
{
	int64_t c;
	if (a == STX_EX_BAD || b == STX_EX_BAD)
		return STX_EX_BAD;
	if (stx_ex_is_const(x, b, &c)) {
		if (c == 0)
			return STX_EX_BAD;
		if (c < 0) /* a // -c = (-a) // c */
			return floordiv_const(x, stx_ex_muli(x, a, -1), -c);
		return floordiv_const(x, a, c);
	}
	struct stx_interval ra = stx_ex_interval(x, a), rb = stx_ex_interval(x, b);
	if (rb.lo < 1)
		return STX_EX_BAD;
	if (within(ra, 0, rb.lo - 1))
		return stx_ex_const(x, 0);
	stx_ex q = divide_by_monomial(x, a, b);
	return q != STX_EX_BAD ? q : make_atom(x, STX_ATOM_FLOORDIV, a, b);
}

stx_ex stx_ex_truncdiv(struct stx_exprs *x, stx_ex a, stx_ex b)
{
	int64_t p, q;
	if (a == STX_EX_BAD || b == STX_EX_BAD)
		return STX_EX_BAD;
	struct stx_interval ra = stx_ex_interval(x, a), rb = stx_ex_interval(x, b);
	if (rb.lo <= 0 && rb.hi >= 0)
		return STX_EX_BAD;
	if (stx_ex_is_const(x, a, &p) && stx_ex_is_const(x, b, &q))
		return stx_ex_const(x, p / q); /* p is never INT64_MIN */
	if (ra.lo >= 0 && rb.lo >= 1)
		return stx_ex_floordiv(x, a, b);
	if (ra.hi <= 0 && rb.lo >= 1)
		return stx_ex_muli(x, stx_ex_floordiv(x, stx_ex_muli(x, a, -1), b), -1);
	return make_atom(x, STX_ATOM_TRUNCDIV, a, b);
}

stx_ex stx_ex_ceildiv(struct stx_exprs *x, stx_ex a, stx_ex b)
{
	return stx_ex_muli(x, stx_ex_floordiv(x, stx_ex_muli(x, a, -1), b), -1);
}

/* Coefficients reduced modulo b, keeping their sign; constant in [0, b). */
static stx_ex reduce_mod(struct stx_exprs *x, stx_ex a, int64_t b)
{
	struct stx_ex_term t[STX_EX_MAX_TERMS];
	uint32_t k = 0;
	const struct ex_node *n = &x->nodes.at[a];
	for (uint32_t i = 0; i < n->nterms; i++) {
		t[k] = n->terms[i];
		t[k].coeff %= b;
		k += t[k].coeff != 0;
	}
	return stx__intern(x, stx__floor_mod(n->constant, b), t, k);
}

static stx_ex mod_const(struct stx_exprs *x, stx_ex a, int64_t b)
{
	stx_ex t, s;
	int64_t c;
	struct stx_interval r = stx_ex_interval(x, a);
	if (within(r, 0, b - 1))
		return a;
	stx_ex e = reduce_mod(x, a, b);
	if (e == STX_EX_BAD)
		return e;
	r = stx_ex_interval(x, e);
	if (r.lo != STX_NEG_INF && r.hi != STX_POS_INF &&
	    stx__floor_div(r.lo, b) == stx__floor_div(r.hi, b))
		return stx_ex_sub(x, e,
				  stx_ex_muli(x, stx_ex_const(x, stx__floor_div(r.lo, b)), b));
	int64_t g = separable(x, e, b, &t, &s);
	if (g > 1)
		return stx_ex_add(x, stx_ex_muli(x, stx_ex_mod(x, t, stx_ex_const(x, b / g)), g),
				  s);
	const struct ex_atom *in = lone_atom(x, e, STX_ATOM_MOD);
	if (in && stx_ex_is_const(x, in->b, &c) && c % b == 0)
		return stx_ex_mod(x, in->a, stx_ex_const(x, b));
	return make_atom(x, STX_ATOM_MOD, e, stx_ex_const(x, b));
}

stx_ex stx_ex_mod(struct stx_exprs *x, stx_ex a, stx_ex b)
{
	int64_t c;
	if (a == STX_EX_BAD || b == STX_EX_BAD)
		return STX_EX_BAD;
	if (stx_ex_is_const(x, b, &c)) {
		if (c <= 0)
			return STX_EX_BAD;
		return c == 1 ? stx_ex_const(x, 0) : mod_const(x, a, c);
	}
	struct stx_interval ra = stx_ex_interval(x, a), rb = stx_ex_interval(x, b);
	if (rb.lo < 1)
		return STX_EX_BAD;
	if (within(ra, 0, rb.lo - 1))
		return a;
	if (divide_by_monomial(x, a, b) != STX_EX_BAD)
		return stx_ex_const(x, 0);
	return make_atom(x, STX_ATOM_MOD, a, b);
}

static stx_ex choose(struct stx_exprs *x, enum stx_atom_kind k, stx_ex a, stx_ex b)
{
	if (a == STX_EX_BAD || b == STX_EX_BAD)
		return STX_EX_BAD;
	stx_ex diff = stx_ex_sub(x, a, b);
	if (diff != STX_EX_BAD) {
		struct stx_interval r = stx_ex_interval(x, diff);
		if (r.hi <= 0 && r.hi != STX_POS_INF)
			return k == STX_ATOM_MIN ? a : b;
		if (r.lo >= 0 && r.lo != STX_NEG_INF)
			return k == STX_ATOM_MIN ? b : a;
	}
	/* min(a, b) = min(b, a): the operand that prints first by structure goes first */
	if (diff != STX_EX_BAD && x->nodes.at[diff].nterms &&
	    x->nodes.at[diff].terms[0].coeff < 0) {
		stx_ex t = a;
		a = b;
		b = t;
	}
	return make_atom(x, k, a, b);
}

stx_ex stx_ex_min(struct stx_exprs *x, stx_ex a, stx_ex b)
{
	return choose(x, STX_ATOM_MIN, a, b);
}

stx_ex stx_ex_max(struct stx_exprs *x, stx_ex a, stx_ex b)
{
	return choose(x, STX_ATOM_MAX, a, b);
}

stx_ex stx__rebuild(struct stx_exprs *x, enum stx_atom_kind kind, stx_ex a, stx_ex b)
{
	switch (kind) {
	case STX_ATOM_FLOORDIV: return stx_ex_floordiv(x, a, b);
	case STX_ATOM_TRUNCDIV: return stx_ex_truncdiv(x, a, b);
	case STX_ATOM_MOD: return stx_ex_mod(x, a, b);
	case STX_ATOM_MIN: return stx_ex_min(x, a, b);
	case STX_ATOM_MAX: return stx_ex_max(x, a, b);
	default: return STX_EX_BAD;
	}
}
