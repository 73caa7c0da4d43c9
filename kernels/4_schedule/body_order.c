/* body_order.c: bodies in an order that does not depend on names, so that repeated layers share
 * kernels.
 *
 * The graph orders the operands of commutative operators by hashes of all that is behind them,
 * which differ from layer to layer. Here the operands of +, *, and, or, xor are ordered by what the
 * body itself shows: depth, then what a load's index looks like, then a hash of the tree; equal
 * ones stay. requires: a body that passes stx_loops_verify. ensures: the same values; instructions
 * in depth-first order from the results. Bodies with run-time indices stay as they are. Two passes,
 * linear. */
#include <string.h>

#include "schedule_impl.h"

struct ordering {
	const struct stx_exprs *x;
	const struct stx_body *from;
	uint64_t *key;
	uint32_t *at; /* old number -> new, + 1 */
	uint32_t *stack;
	struct stx_binst *to;
	uint32_t n;
};

static int commutes(int op)
{
	return op == STX_P_ADD || op == STX_P_MUL || op == STX_P_AND || op == STX_P_OR ||
	       op == STX_P_XOR;
}

static uint64_t ex_shape(const struct stx_exprs *x, stx_ex e)
{
	uint64_t h = 0;
	uint32_t n = stx_ex_nterms(x, e);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(x, e, i);
		uint64_t term = (uint64_t)t.coeff;
		for (uint32_t j = 0; j < t.natoms; j++) {
			struct stx_ex_atom a = stx_ex_atom_at(x, t.atoms[j]);
			term = stx_mix64(term, (uint64_t)a.kind << 32 | a.number);
		}
		h += stx_mix64(term, 1); /* terms in any order */
	}
	return h;
}

/* By name: numbers change with every primitive that is added. */
static uint64_t op_key(int op)
{
	const char *name = op < STX_PRIM_COUNT    ? stx_prim_info(op)->text
			   : op == STX_B_LOAD     ? "load"
			   : op == STX_B_INDEX    ? "index_expr"
			   : op == STX_B_INDIRECT ? "indirect"
						  : "constant";
	return stx_mix_text(0, name, strlen(name));
}

/* Greater keys come first: depth in the highest byte, terms of a load's index in the next. */
static uint64_t key_of(struct ordering *o, uint32_t i)
{
	const struct stx_binst *in = &o->from->at[i];
	uint64_t h = stx_mix64(
		op_key(in->op) ^ ((uint64_t)in->dtype << 8 | (uint64_t)in->flags << 16), in->k.u);
	uint64_t depth = 0, terms = 0;
	const uint32_t operand[3] = { in->op == STX_B_LOAD ? STX_NONE : in->a, in->b, in->c };
	for (int j = 0; j < 3; j++) {
		if (operand[j] == STX_NONE)
			continue;
		uint64_t k = o->key[operand[j]];
		depth = (k >> 56) + 1 > depth ? (k >> 56) + 1 : depth;
		h = commutes(in->op) ? h + stx_mix64(k, 7) : stx_mix64(h, k);
	}
	if (in->op == STX_B_LOAD || in->op == STX_B_INDEX) {
		terms = stx_ex_nterms(o->x, in->ex);
		h = stx_mix64(h, ex_shape(o->x, in->ex));
	}
	return (depth < 255 ? depth : 255) << 56 | (terms < 255 ? terms : 255) << 48 | h >> 16;
}

static void visit(struct ordering *o, uint32_t root)
{
	uint32_t n = 0;
	o->stack[n++] = root;
	while (n) {
		uint32_t i = o->stack[n - 1], pushed = 0;
		struct stx_binst in = o->from->at[i];
		if (o->at[i]) {
			n--;
			continue;
		}
		if (commutes(in.op) && o->key[in.a] < o->key[in.b]) {
			uint32_t t = in.a;
			in.a = in.b;
			in.b = t;
		}
		uint32_t *operand[3] = { in.op == STX_B_LOAD ? NULL : &in.a, &in.b, &in.c };
		for (int j = 0; j < 3 && !pushed; j++)
			if (operand[j] && *operand[j] != STX_NONE && !o->at[*operand[j]]) {
				o->stack[n++] = *operand[j];
				pushed = 1;
			}
		if (pushed)
			continue;
		for (int j = 0; j < 3; j++)
			if (operand[j] && *operand[j] != STX_NONE)
				*operand[j] = o->at[*operand[j]] - 1;
		o->to[o->n++] = in;
		o->at[i] = o->n;
		n--;
	}
}

stx_err stx__order_body(struct stx_loops *l, struct stx_body *b)
{
	struct stx_arena *a = l->g->arena;
	struct ordering o = { .x = l->ex, .from = b };
	for (uint32_t i = 0; i < b->n; i++)
		if (b->at[i].op == STX_B_INDIRECT)
			return STX_E_OK;
	o.key = STX_NEW_ARRAY(a, uint64_t, b->n + 1);
	o.at = STX_NEW_ARRAY(a, uint32_t, b->n + 1);
	o.stack = STX_NEW_ARRAY(a, uint32_t, b->n + 1);
	o.to = STX_NEW_ARRAY(a, struct stx_binst, b->n + 1);
	if (!o.key || !o.at || !o.stack || !o.to)
		return STX_E_NOMEM;
	for (uint32_t i = 0; i < b->n; i++)
		o.key[i] = key_of(&o, i);
	for (uint32_t i = 0; i < b->nresults; i++)
		visit(&o, b->result[i]);
	for (uint32_t i = 0; i < b->nresults; i++)
		b->result[i] = o.at[b->result[i]] - 1;
	b->at = o.to;
	b->n = o.n;
	return STX_E_OK;
}
