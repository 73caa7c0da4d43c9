/* plan_expr.c: the expressions of a data plan as bytecode, its size symbols and guards.
 *
 * requires: expressions over size symbols only. ensures: equal expressions have one number; each is
 * at most MAX_EXPR_BYTES long and needs at most STX_PLAN_MAX_STACK places. */
#include "plan_write.h"

#define MAX_EXPR_BYTES 65536u

/* ---- expressions ---- */

struct code { /* of one expression */
	struct stx__plan *w;
	size_t start;
	int depth, nest;
};

static void op(struct code *c, enum stx_plan_op o)
{
	stx_bytes_u8(&c->w->code, (uint8_t)o);
	c->depth--;
}

static void push_const(struct code *c, int64_t v)
{
	stx_bytes_u8(&c->w->code, STX_X_CONST);
	stx_bytes_u64(&c->w->code, (uint64_t)v);
	c->depth++;
}

static void put_ex(struct code *c, stx_ex e);

static void put_atom(struct code *c, uint32_t id)
{
	static const enum stx_plan_op ops[] = {
		[STX_ATOM_FLOORDIV] = STX_X_FLOORDIV, [STX_ATOM_TRUNCDIV] = STX_X_TRUNCDIV,
		[STX_ATOM_MOD] = STX_X_MOD,           [STX_ATOM_MIN] = STX_X_MIN,
		[STX_ATOM_MAX] = STX_X_MAX,
	};
	struct stx_ex_atom a = stx_ex_atom_at(c->w->x, id);
	if (a.kind == STX_ATOM_SYM) {
		uint32_t known =
			a.number < c->w->l->g->symbols.n ? c->w->sym_of[a.number] : STX_NONE;
		if (known == STX_NONE)
			stx__plan_fail(c->w, STX_E_INVALID, NULL,
				       "a dynamic size is the size of no input");
		stx_bytes_u8(&c->w->code, STX_X_SYM);
		stx_bytes_u32(&c->w->code, known);
		c->depth++;
	} else if (a.kind >= STX_ATOM_FLOORDIV) {
		put_ex(c, a.a);
		put_ex(c, a.b);
		op(c, ops[a.kind]);
	} else {
		stx__plan_fail(c->w, STX_E_INTERNAL, NULL,
			       "a loop variable in an expression of the plan");
	}
}

static void put_term(struct code *c, const struct stx_ex_term *t)
{
	if (t->coeff != 1)
		push_const(c, t->coeff);
	for (uint32_t j = 0; j < t->natoms; j++) {
		put_atom(c, t->atoms[j]);
		if (j || t->coeff != 1)
			op(c, STX_X_MUL);
	}
}

/* Depth is bounded by the nesting limit of expressions, length here. */
static void put_ex(struct code *c, stx_ex e)
{
	uint32_t n = stx_ex_nterms(c->w->x, e);
	int64_t constant = stx_ex_constant(c->w->x, e);
	for (uint32_t i = 0; i < n && !c->w->err; i++) {
		struct stx_ex_term t = stx_ex_term_at(c->w->x, e, i);
		put_term(c, &t);
		if (i)
			op(c, STX_X_ADD);
		if (c->w->code.n - c->start > MAX_EXPR_BYTES || c->depth >= STX_PLAN_MAX_STACK - 2)
			stx__plan_fail(c->w, STX_E_TOO_LARGE, NULL,
				       "a size expression is too large");
	}
	if (!n || constant)
		push_const(c, constant);
	if (n && constant)
		op(c, STX_X_ADD);
}

static void grow_slots(struct stx__plan *w)
{
	uint32_t n = w->nslots ? w->nslots * 2 : 256;
	struct stx__plan_slot *slots = STX_NEW_ARRAY(w->arena, struct stx__plan_slot, n);
	if (!slots) {
		stx__plan_oom(w);
		return;
	}
	for (uint32_t i = 0; i < w->nslots; i++) {
		if (w->slots[i].e == STX_EX_BAD)
			continue;
		uint32_t at = (uint32_t)stx_mix64(1, w->slots[i].e) & (n - 1);
		while (slots[at].e != STX_EX_BAD)
			at = (at + 1) & (n - 1);
		slots[at] = w->slots[i];
	}
	w->slots = slots;
	w->nslots = n;
}

/* Number of e in the plan; equal expressions are written once. */
uint32_t stx__plan_expr(struct stx__plan *w, stx_ex e)
{
	if (e == STX_EX_BAD)
		stx__plan_fail(w, STX_E_TOO_LARGE, NULL, "a size overflows 64 bits");
	if (!w->err && (w->nexprs + 1) * 2 > w->nslots)
		grow_slots(w);
	if (w->err)
		return 0;
	uint32_t at = (uint32_t)stx_mix64(1, e) & (w->nslots - 1);
	while (w->slots[at].e != STX_EX_BAD && w->slots[at].e != e)
		at = (at + 1) & (w->nslots - 1);
	if (w->slots[at].e == e)
		return w->slots[at].number;
	struct code c = { .w = w, .start = w->code.n };
	put_ex(&c, e);
	w->slots[at] = (struct stx__plan_slot){ e, w->nexprs };
	struct stx_plan_expr r = { (uint32_t)c.start, (uint32_t)(w->code.n - c.start) };
	stx_bytes_put(&w->exprs, &r, sizeof r);
	return w->nexprs++;
}

uint32_t stx__plan_expr_const(struct stx__plan *w, int64_t v)
{
	return stx__plan_expr(w, stx_ex_const(w->x, v));
}

uint32_t stx__plan_expr_array(struct stx__plan *w, const stx_ex *e, uint32_t n)
{
	uint32_t at = (uint32_t)w->arrays.n;
	for (uint32_t i = 0; i < n; i++)
		stx_bytes_u32(&w->arrays, stx__plan_expr(w, e[i]));
	return at;
}

/* ---- size symbols and guards ---- */

static void guard(struct stx__plan *w, uint32_t sym, int64_t bound, int is_low)
{
	struct stx_plan_expr r = { .off = (uint32_t)w->code.n };
	for (int i = 0; i < 2; i++) {
		if (i == is_low) {
			stx_bytes_u8(&w->code, STX_X_SYM);
			stx_bytes_u32(&w->code, sym);
		} else {
			stx_bytes_u8(&w->code, STX_X_CONST);
			stx_bytes_u64(&w->code, (uint64_t)bound);
		}
	}
	stx_bytes_u8(&w->code, STX_X_LE);
	r.bytes = (uint32_t)w->code.n - r.off;
	stx_bytes_put(&w->exprs, &r, sizeof r);
	stx_bytes_u32(&w->guards, w->nexprs++);
	w->nguards++;
}

static int find_source(struct stx__plan *w, uint32_t symbol, struct stx_plan_sym *out)
{
	const struct stx_graph *g = w->l->g;
	const struct stx_symbol *s = &g->symbols.at[symbol];
	stx_ex e = stx_ex_sym(w->x, symbol, s->range, s->hint);
	for (uint32_t i = 0; i < g->inputs.n; i++) {
		const struct stx_type *t = &g->inputs.at[i].node->outs[0];
		for (uint32_t k = 0; k < t->rank; k++)
			if (t->sizes[k] == e) {
				out->input = i;
				out->dim = k;
				return 1;
			}
	}
	return 0;
}

void stx__plan_syms(struct stx__plan *w)
{
	const struct stx_graph *g = w->l->g;
	w->sym_of = STX_NEW_ARRAY(w->arena, uint32_t, g->symbols.n + 1);
	if (!w->sym_of)
		stx__plan_oom(w);
	for (uint32_t i = 0; i < g->symbols.n && !w->err; i++) {
		const struct stx_symbol *s = &g->symbols.at[i];
		struct stx_plan_sym r = { .lo = s->range.lo, .hi = s->range.hi, .hint = s->hint };
		w->sym_of[i] = STX_NONE;
		if (s->range.lo == s->range.hi || !find_source(w, i, &r))
			continue;
		r.name = stx__plan_string(w, s->name);
		w->sym_of[i] = w->nsyms++;
		stx_bytes_put(&w->syms, &r, sizeof r);
		if (r.lo != STX_NEG_INF)
			guard(w, w->sym_of[i], r.lo, 1);
		if (r.hi != STX_POS_INF)
			guard(w, w->sym_of[i], r.hi, 0);
	}
}
