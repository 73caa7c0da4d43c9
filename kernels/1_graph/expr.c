/* expr.c: hash-consed index expressions: storage, construction of sums, products and atoms,
 * intervals.
 *
 * Requires: nothing. Ensures: equal ids for equal canonical forms; intervals contain every value.
 * Terms and atoms are ordered structurally, never by creation order, so that printing a parsed
 * expression gives the same bytes. Nesting of atoms is limited to STX_EX_MAX_DEPTH and terms to
 * STX_EX_MAX_TERMS; beyond that the result is STX_EX_BAD and the caller materialises instead. */
#include "expr_impl.h"

#include <string.h>

struct stx_exprs *stx_exprs_new(struct stx_arena *a)
{
	struct stx_exprs *x = STX_NEW(a, struct stx_exprs);
	if (!x)
		return NULL;
	x->arena = a;
	struct ex_node bad = { .range = { STX_NEG_INF, STX_POS_INF } };
	if (stx_push(a, &x->nodes, bad))
		return NULL;
	return x;
}

/* ---- extended integers: INT64_MIN and INT64_MAX are the infinities ---- */

int64_t stx__sat(__int128 v)
{
	if (v >= (__int128)STX_POS_INF)
		return STX_POS_INF;
	if (v <= (__int128)STX_NEG_INF)
		return STX_NEG_INF;
	return (int64_t)v;
}

static int is_inf(int64_t v)
{
	return v == STX_POS_INF || v == STX_NEG_INF;
}

static int64_t ext_mul(int64_t a, int64_t b)
{
	if (a == 0 || b == 0)
		return 0;
	if (is_inf(a) || is_inf(b))
		return (a < 0) == (b < 0) ? STX_POS_INF : STX_NEG_INF;
	return stx__sat((__int128)a * b);
}

struct stx_interval stx__range_mul(struct stx_interval a, struct stx_interval b)
{
	int64_t c[4] = { ext_mul(a.lo, b.lo), ext_mul(a.lo, b.hi), ext_mul(a.hi, b.lo),
			 ext_mul(a.hi, b.hi) };
	struct stx_interval r = { c[0], c[0] };
	for (int i = 1; i < 4; i++) {
		if (c[i] < r.lo)
			r.lo = c[i];
		if (c[i] > r.hi)
			r.hi = c[i];
	}
	return r;
}

static struct stx_interval range_add(struct stx_interval a, struct stx_interval b)
{
	struct stx_interval r;
	r.lo = a.lo == STX_NEG_INF || b.lo == STX_NEG_INF ? STX_NEG_INF
							  : stx__sat((__int128)a.lo + b.lo);
	r.hi = a.hi == STX_POS_INF || b.hi == STX_POS_INF ? STX_POS_INF
							  : stx__sat((__int128)a.hi + b.hi);
	return r;
}

int64_t stx__floor_div(int64_t a, int64_t b)
{
	int64_t q = a / b;
	return q - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t stx__floor_mod(int64_t a, int64_t b)
{
	int64_t r = a % b;
	return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* ---- structural order ---- */

static int cmp_expr(const struct stx_exprs *x, stx_ex a, stx_ex b);

static int cmp_atom(const struct stx_exprs *x, uint32_t a, uint32_t b)
{
	if (a == b)
		return 0;
	const struct ex_atom *p = &x->atoms.at[a], *q = &x->atoms.at[b];
	if (p->kind != q->kind)
		return p->kind < q->kind ? -1 : 1;
	if (p->number != q->number)
		return p->number < q->number ? -1 : 1;
	int c = cmp_expr(x, p->a, q->a);
	if (!c)
		c = cmp_expr(x, p->b, q->b);
	if (!c && p->range.lo != q->range.lo)
		c = p->range.lo < q->range.lo ? -1 : 1;
	if (!c && p->range.hi != q->range.hi)
		c = p->range.hi < q->range.hi ? -1 : 1;
	return c ? c : (p->hint < q->hint ? -1 : 1);
}

/* Higher degree first, then atom by atom: i0*i1 before i0, i0 before i1. */
static int cmp_mono(const struct stx_exprs *x, const struct stx_ex_term *s,
		    const struct stx_ex_term *t)
{
	if (s->natoms != t->natoms)
		return s->natoms > t->natoms ? -1 : 1;
	for (uint32_t i = 0; i < s->natoms; i++) {
		int c = cmp_atom(x, s->atoms[i], t->atoms[i]);
		if (c)
			return c;
	}
	return 0;
}

static int cmp_expr(const struct stx_exprs *x, stx_ex a, stx_ex b)
{
	if (a == b)
		return 0;
	const struct ex_node *p = &x->nodes.at[a], *q = &x->nodes.at[b];
	uint32_t n = p->nterms < q->nterms ? p->nterms : q->nterms;
	for (uint32_t i = 0; i < n; i++) {
		int c = cmp_mono(x, &p->terms[i], &q->terms[i]);
		if (c)
			return c;
		if (p->terms[i].coeff != q->terms[i].coeff)
			return p->terms[i].coeff < q->terms[i].coeff ? -1 : 1;
	}
	if (p->nterms != q->nterms)
		return p->nterms < q->nterms ? -1 : 1;
	return p->constant < q->constant ? -1 : p->constant > q->constant;
}

/* ---- interning ---- */

static int grow_table(struct stx_exprs *x, struct ex_table *t)
{
	uint32_t cap = t->cap ? t->cap * 2 : 64;
	uint32_t *slots = STX_NEW_ARRAY(x->arena, uint32_t, cap);
	uint64_t *hashes = STX_NEW_ARRAY(x->arena, uint64_t, cap);
	if (!slots || !hashes)
		return -1;
	for (uint32_t i = 0; i < t->cap; i++) {
		if (!t->slots[i])
			continue;
		uint32_t j = (uint32_t)t->hashes[i] & (cap - 1);
		while (slots[j])
			j = (j + 1) & (cap - 1);
		slots[j] = t->slots[i];
		hashes[j] = t->hashes[i];
	}
	t->slots = slots;
	t->hashes = hashes;
	t->cap = cap;
	return 0;
}

static void table_put(struct ex_table *t, uint64_t hash, uint32_t value)
{
	uint32_t j = (uint32_t)hash & (t->cap - 1);
	while (t->slots[j])
		j = (j + 1) & (t->cap - 1);
	t->slots[j] = value;
	t->hashes[j] = hash;
	t->n++;
}

static int same_node(const struct ex_node *n, int64_t constant, const struct stx_ex_term *terms,
		     uint32_t nterms)
{
	if (n->constant != constant || n->nterms != nterms)
		return 0;
	for (uint32_t i = 0; i < nterms; i++) {
		const struct stx_ex_term *s = &n->terms[i], *t = &terms[i];
		if (s->coeff != t->coeff || s->natoms != t->natoms ||
		    memcmp(s->atoms, t->atoms, s->natoms * sizeof *s->atoms))
			return 0;
	}
	return 1;
}

static uint64_t hash_terms(int64_t constant, const struct stx_ex_term *terms, uint32_t nterms)
{
	uint64_t h = stx_mix64(nterms, (uint64_t)constant);
	for (uint32_t i = 0; i < nterms; i++) {
		h = stx_mix64(h, (uint64_t)terms[i].coeff);
		for (uint32_t j = 0; j < terms[i].natoms; j++)
			h = stx_mix64(h, terms[i].atoms[j] + 1);
		h = stx_mix64(h, 0x5bd1e995u);
	}
	return h;
}

static uint32_t add_weight(uint32_t a, uint32_t b)
{
	return a + b < STX_EX_TOP_WEIGHT ? a + b : STX_EX_TOP_WEIGHT;
}

static void summarise(const struct stx_exprs *x, struct ex_node *n)
{
	n->range = (struct stx_interval){ n->constant, n->constant };
	__int128 hint = n->constant;
	for (uint32_t i = 0; i < n->nterms; i++) {
		const struct stx_ex_term *t = &n->terms[i];
		struct stx_interval r = { t->coeff, t->coeff };
		int64_t h = t->coeff;
		for (uint32_t j = 0; j < t->natoms; j++) {
			const struct ex_atom *a = &x->atoms.at[t->atoms[j]];
			r = stx__range_mul(r, a->range);
			h = stx__sat((__int128)h * a->hint);
			n->depth = a->depth > n->depth ? a->depth : n->depth;
			n->vars |= a->vars;
			n->kinds |= a->kinds;
			n->weight = add_weight(n->weight, a->weight);
		}
		n->range = range_add(n->range, r);
		hint += h;
	}
	n->hint = stx__sat(hint);
}

/* terms: sorted, merged, non-zero; copied. */
stx_ex stx__intern(struct stx_exprs *x, int64_t constant, const struct stx_ex_term *terms,
		   uint32_t nterms)
{
	if (x->table.n * 2 >= x->table.cap && grow_table(x, &x->table))
		return STX_EX_BAD;
	uint64_t h = hash_terms(constant, terms, nterms);
	for (uint32_t j = (uint32_t)h & (x->table.cap - 1); x->table.slots[j];
	     j = (j + 1) & (x->table.cap - 1)) {
		if (x->table.hashes[j] == h &&
		    same_node(&x->nodes.at[x->table.slots[j]], constant, terms, nterms))
			return x->table.slots[j];
	}
	struct ex_node n = { .constant = constant, .nterms = nterms };
	uint32_t natoms = 0;
	for (uint32_t i = 0; i < nterms; i++)
		natoms += terms[i].natoms;
	struct stx_ex_term *copy = STX_NEW_ARRAY(x->arena, struct stx_ex_term, nterms);
	uint32_t *ids = STX_NEW_ARRAY(x->arena, uint32_t, natoms);
	if (!copy || !ids)
		return STX_EX_BAD;
	for (uint32_t i = 0; i < nterms; i++) {
		copy[i] = terms[i];
		memcpy(ids, terms[i].atoms, terms[i].natoms * sizeof *ids);
		copy[i].atoms = ids;
		ids += terms[i].natoms;
	}
	n.terms = copy;
	summarise(x, &n);
	uint32_t id = x->nodes.n;
	if (stx_push(x->arena, &x->nodes, n))
		return STX_EX_BAD;
	table_put(&x->table, h, id);
	return id;
}

stx_ex stx__atom_expr(struct stx_exprs *x, const struct ex_atom *proto)
{
	if (proto->depth > STX_EX_MAX_DEPTH)
		return STX_EX_BAD;
	if (x->atom_table.n * 2 >= x->atom_table.cap && grow_table(x, &x->atom_table))
		return STX_EX_BAD;
	uint64_t h =
		stx_mix64(stx_mix64(proto->kind, proto->number), stx_mix64(proto->a, proto->b));
	h = stx_mix64(h, stx_mix64((uint64_t)proto->range.lo, (uint64_t)proto->range.hi));
	uint32_t id = UINT32_MAX;
	for (uint32_t j = (uint32_t)h & (x->atom_table.cap - 1); x->atom_table.slots[j];
	     j = (j + 1) & (x->atom_table.cap - 1)) {
		const struct ex_atom *a = &x->atoms.at[x->atom_table.slots[j] - 1];
		if (x->atom_table.hashes[j] == h && a->kind == proto->kind &&
		    a->number == proto->number && a->a == proto->a && a->b == proto->b &&
		    a->range.lo == proto->range.lo && a->range.hi == proto->range.hi &&
		    a->hint == proto->hint) {
			id = x->atom_table.slots[j] - 1;
			break;
		}
	}
	if (id == UINT32_MAX) {
		struct ex_atom a = *proto;
		a.weight = 1;
		if (a.kind >= STX_ATOM_FLOORDIV)
			a.weight = add_weight(
				1, add_weight(x->nodes.at[a.a].weight, x->nodes.at[a.b].weight));
		id = x->atoms.n;
		if (stx_push(x->arena, &x->atoms, a))
			return STX_EX_BAD;
		table_put(&x->atom_table, h, id + 1);
	}
	struct stx_ex_term t = { .coeff = 1, .natoms = 1, .atoms = &id };
	return stx__intern(x, 0, &t, 1);
}

/* ---- leaves ---- */

stx_ex stx_ex_const(struct stx_exprs *x, int64_t c)
{
	if (c == STX_NEG_INF || c == STX_POS_INF)
		return STX_EX_BAD; /* the infinities of intervals */
	return stx__intern(x, c, NULL, 0);
}

static uint64_t var_bit(uint32_t number)
{
	return UINT64_C(1) << (number & 63);
}

stx_ex stx_ex_var(struct stx_exprs *x, uint32_t number, stx_ex size)
{
	if (size == STX_EX_BAD)
		return STX_EX_BAD;
	if (stx_ex_equals(x, size, 1))
		return stx_ex_const(x, 0);
	struct stx_interval s = stx_ex_interval(x, size);
	struct ex_atom a = { .kind = STX_ATOM_VAR,
			     .number = number,
			     .a = size,
			     .depth = 1,
			     .vars = var_bit(number),
			     .kinds = 1u << STX_ATOM_VAR };
	a.range.lo = 0;
	a.range.hi = s.hi == STX_POS_INF ? STX_POS_INF : s.hi < 1 ? 0 : s.hi - 1;
	return stx__atom_expr(x, &a);
}

stx_ex stx_ex_sym(struct stx_exprs *x, uint32_t number, struct stx_interval range, int64_t hint)
{
	if (range.lo == range.hi)
		return stx_ex_const(x, range.lo);
	struct ex_atom a = { .kind = STX_ATOM_SYM,
			     .number = number,
			     .depth = 1,
			     .range = range,
			     .hint = hint,
			     .kinds = 1u << STX_ATOM_SYM };
	return stx__atom_expr(x, &a);
}

stx_ex stx_ex_indirect(struct stx_exprs *x, uint32_t value, struct stx_interval range)
{
	if (range.lo == range.hi)
		return stx_ex_const(x, range.lo);
	struct ex_atom a = { .kind = STX_ATOM_INDIRECT,
			     .number = value,
			     .depth = 1,
			     .range = range,
			     .kinds = 1u << STX_ATOM_INDIRECT };
	return stx__atom_expr(x, &a);
}

/* ---- sums and products ---- */

/* b*floordiv(e,b) + mod(e,b) = e, for any common factor: replaces such a pair, one a call. */
static stx_ex recombine(struct stx_exprs *x, stx_ex e)
{
	if (e == STX_EX_BAD)
		return e;
	uint32_t both = 1u << STX_ATOM_MOD | 1u << STX_ATOM_FLOORDIV;
	const struct ex_node *n = &x->nodes.at[e];
	if ((n->kinds & both) != both || n->nterms < 2)
		return e;
	for (uint32_t i = 0; i < n->nterms; i++) {
		const struct stx_ex_term *m = &n->terms[i];
		if (m->natoms != 1 || x->atoms.at[m->atoms[0]].kind != STX_ATOM_MOD)
			continue;
		const struct ex_atom *ma = &x->atoms.at[m->atoms[0]];
		int64_t b, want;
		if (!stx_ex_is_const(x, ma->b, &b) || __builtin_mul_overflow(m->coeff, b, &want))
			continue;
		for (uint32_t j = 0; j < n->nterms; j++) {
			const struct stx_ex_term *f = &n->terms[j];
			if (f->natoms != 1 || f->coeff != want)
				continue;
			const struct ex_atom *fa = &x->atoms.at[f->atoms[0]];
			if (fa->kind != STX_ATOM_FLOORDIV || fa->a != ma->a || fa->b != ma->b)
				continue;
			struct stx_ex_term rest[STX_EX_MAX_TERMS];
			uint32_t nrest = 0;
			for (uint32_t t = 0; t < n->nterms; t++)
				if (t != i && t != j)
					rest[nrest++] = n->terms[t];
			int64_t coeff = m->coeff;
			stx_ex whole = ma->a;
			stx_ex r = stx__intern(x, n->constant, rest, nrest);
			return stx_ex_add(x, r, stx_ex_muli(x, whole, coeff));
		}
	}
	return e;
}

/* pa*a + pb*b over sorted term lists. */
static stx_ex combine(struct stx_exprs *x, stx_ex a, int64_t pa, stx_ex b, int64_t pb)
{
	if (a == STX_EX_BAD || b == STX_EX_BAD)
		return STX_EX_BAD;
	const struct ex_node *p = &x->nodes.at[a], *q = &x->nodes.at[b];
	struct stx_ex_term out[STX_EX_MAX_TERMS];
	uint32_t n = 0, i = 0, j = 0;
	__int128 c = (__int128)p->constant * pa + (__int128)q->constant * pb;
	if (c <= STX_NEG_INF || c >= STX_POS_INF)
		return STX_EX_BAD;
	while (i < p->nterms || j < q->nterms) {
		int o = i == p->nterms   ? 1
			: j == q->nterms ? -1
					 : cmp_mono(x, &p->terms[i], &q->terms[j]);
		struct stx_ex_term t = o <= 0 ? p->terms[i] : q->terms[j];
		__int128 k = 0;
		if (o <= 0)
			k += (__int128)p->terms[i++].coeff * pa;
		if (o >= 0)
			k += (__int128)q->terms[j++].coeff * pb;
		if (k <= STX_NEG_INF || k >= STX_POS_INF)
			return STX_EX_BAD;
		t.coeff = (int64_t)k;
		if (!t.coeff)
			continue;
		if (n == STX_EX_MAX_TERMS)
			return STX_EX_BAD;
		out[n++] = t;
	}
	return recombine(x, stx__intern(x, (int64_t)c, out, n));
}

stx_ex stx_ex_add(struct stx_exprs *x, stx_ex a, stx_ex b)
{
	return combine(x, a, 1, b, 1);
}

stx_ex stx_ex_sub(struct stx_exprs *x, stx_ex a, stx_ex b)
{
	return combine(x, a, 1, b, -1);
}

stx_ex stx_ex_addi(struct stx_exprs *x, stx_ex a, int64_t c)
{
	return stx_ex_add(x, a, stx_ex_const(x, c));
}

stx_ex stx_ex_muli(struct stx_exprs *x, stx_ex a, int64_t c)
{
	return combine(x, a, c, stx_ex_const(x, 0), 0);
}

static stx_ex mul_term(struct stx_exprs *x, const struct stx_ex_term *s,
		       const struct stx_ex_term *t)
{
	uint32_t ids[STX_EX_MAX_DEGREE], i = 0, j = 0, n = 0;
	int64_t coeff;
	if (s->natoms + t->natoms > STX_EX_MAX_DEGREE ||
	    __builtin_mul_overflow(s->coeff, t->coeff, &coeff))
		return STX_EX_BAD;
	while (i < s->natoms || j < t->natoms) {
		int o = i == s->natoms   ? 1
			: j == t->natoms ? -1
					 : cmp_atom(x, s->atoms[i], t->atoms[j]);
		ids[n++] = o <= 0 ? s->atoms[i++] : t->atoms[j++];
	}
	struct stx_ex_term r = { .coeff = coeff, .natoms = n, .atoms = ids };
	return stx__intern(x, 0, &r, 1);
}

stx_ex stx_ex_mul(struct stx_exprs *x, stx_ex a, stx_ex b)
{
	int64_t c;
	if (a == STX_EX_BAD || b == STX_EX_BAD)
		return STX_EX_BAD;
	if (stx_ex_is_const(x, a, &c))
		return stx_ex_muli(x, b, c);
	if (stx_ex_is_const(x, b, &c))
		return stx_ex_muli(x, a, c);
	stx_ex sum = stx_ex_muli(x, b, x->nodes.at[a].constant);
	sum = stx_ex_add(x, sum,
			 stx_ex_muli(x, stx_ex_addi(x, a, -x->nodes.at[a].constant),
				     x->nodes.at[b].constant));
	for (uint32_t i = 0; i < x->nodes.at[a].nterms; i++)
		for (uint32_t j = 0; j < x->nodes.at[b].nterms && sum != STX_EX_BAD; j++) {
			struct stx_ex_term s = x->nodes.at[a].terms[i], t = x->nodes.at[b].terms[j];
			sum = stx_ex_add(x, sum, mul_term(x, &s, &t));
		}
	return sum;
}

/* ---- questions ---- */

uint32_t stx_ex_weight(const struct stx_exprs *x, stx_ex e)
{
	return x->nodes.at[e].weight;
}

int stx_ex_is_const(const struct stx_exprs *x, stx_ex e, int64_t *value)
{
	if (e == STX_EX_BAD || x->nodes.at[e].nterms)
		return 0;
	if (value)
		*value = x->nodes.at[e].constant;
	return 1;
}

int stx_ex_equals(const struct stx_exprs *x, stx_ex e, int64_t value)
{
	int64_t c;
	return stx_ex_is_const(x, e, &c) && c == value;
}

struct stx_interval stx_ex_interval(const struct stx_exprs *x, stx_ex e)
{
	return x->nodes.at[e].range;
}

int64_t stx_ex_hint(const struct stx_exprs *x, stx_ex e)
{
	return x->nodes.at[e].hint;
}

uint32_t stx_ex_nterms(const struct stx_exprs *x, stx_ex e)
{
	return x->nodes.at[e].nterms;
}

struct stx_ex_term stx_ex_term_at(const struct stx_exprs *x, stx_ex e, uint32_t i)
{
	return x->nodes.at[e].terms[i];
}

int64_t stx_ex_constant(const struct stx_exprs *x, stx_ex e)
{
	return x->nodes.at[e].constant;
}

struct stx_ex_atom stx_ex_atom_at(const struct stx_exprs *x, uint32_t atom)
{
	const struct ex_atom *a = &x->atoms.at[atom];
	return (struct stx_ex_atom){ .kind = (enum stx_atom_kind)a->kind,
				     .number = a->number,
				     .a = a->a,
				     .b = a->b,
				     .range = a->range,
				     .hint = a->hint };
}

int stx_ex_uses_kind(const struct stx_exprs *x, stx_ex e, enum stx_atom_kind k)
{
	return (x->nodes.at[e].kinds >> k) & 1;
}

static int atom_uses_var(const struct stx_exprs *x, uint32_t atom, uint32_t var)
{
	const struct ex_atom *a = &x->atoms.at[atom];
	if (!(a->vars & var_bit(var)))
		return 0;
	if (a->kind == STX_ATOM_VAR)
		return a->number == var;
	return (a->a && stx_ex_uses_var(x, a->a, var)) || (a->b && stx_ex_uses_var(x, a->b, var));
}

int stx_ex_uses_var(const struct stx_exprs *x, stx_ex e, uint32_t var)
{
	const struct ex_node *n = &x->nodes.at[e];
	if (!(n->vars & var_bit(var)))
		return 0;
	for (uint32_t i = 0; i < n->nterms; i++)
		for (uint32_t j = 0; j < n->terms[i].natoms; j++)
			if (atom_uses_var(x, n->terms[i].atoms[j], var))
				return 1;
	return 0;
}

int stx_ex_linear_in(struct stx_exprs *x, stx_ex e, uint32_t var, stx_ex *coeff, stx_ex *rest)
{
	if (e == STX_EX_BAD)
		return 0;
	stx_ex c = stx_ex_const(x, 0), r = stx_ex_const(x, x->nodes.at[e].constant);
	for (uint32_t i = 0; i < x->nodes.at[e].nterms; i++) {
		struct stx_ex_term t = x->nodes.at[e].terms[i];
		uint32_t where = UINT32_MAX, uses = 0;
		for (uint32_t j = 0; j < t.natoms; j++)
			if (atom_uses_var(x, t.atoms[j], var)) {
				uses++;
				where = j;
			}
		if (!uses) {
			r = stx_ex_add(x, r, stx__intern(x, 0, &t, 1));
			continue;
		}
		if (uses > 1 || x->atoms.at[t.atoms[where]].kind != STX_ATOM_VAR)
			return 0;
		uint32_t ids[STX_EX_MAX_DEGREE], n = 0;
		for (uint32_t j = 0; j < t.natoms; j++)
			if (j != where)
				ids[n++] = t.atoms[j];
		struct stx_ex_term k = { .coeff = t.coeff, .natoms = n, .atoms = ids };
		c = stx_ex_add(x, c, n ? stx__intern(x, 0, &k, 1) : stx_ex_const(x, t.coeff));
	}
	*coeff = c;
	*rest = r;
	return c != STX_EX_BAD && r != STX_EX_BAD;
}
