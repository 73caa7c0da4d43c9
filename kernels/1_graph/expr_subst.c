/* expr_subst.c: substitution and evaluation. Recursion is bounded by STX_EX_MAX_DEPTH. */
#include "expr_impl.h"

struct subst {
	struct stx_exprs *x;
	enum stx_atom_kind kind;
	const stx_ex *map;
	uint32_t nmap;
	struct {
		uint32_t atom;
		stx_ex value;
	} memo[32]; /* direct-mapped; atom+1, 0 = empty */
};

static stx_ex subst_expr(struct subst *s, stx_ex e);

static stx_ex atom_as_expr(struct stx_exprs *x, uint32_t atom)
{
	struct stx_ex_term t = { .coeff = 1, .natoms = 1, .atoms = &atom };
	return stx__intern(x, 0, &t, 1);
}

static stx_ex subst_atom(struct subst *s, uint32_t atom)
{
	struct ex_atom a = s->x->atoms.at[atom];
	if (a.kind == (uint8_t)s->kind)
		return a.number < s->nmap && s->map[a.number] != STX_EX_BAD
			       ? s->map[a.number]
			       : atom_as_expr(s->x, atom);
	if (a.kind < STX_ATOM_FLOORDIV || !((a.kinds >> s->kind) & 1))
		return atom_as_expr(s->x, atom);
	uint32_t slot = atom & 31;
	if (s->memo[slot].atom == atom + 1)
		return s->memo[slot].value;
	stx_ex p = subst_expr(s, a.a), q = subst_expr(s, a.b);
	stx_ex r = p == a.a && q == a.b ? atom_as_expr(s->x, atom)
					: stx__rebuild(s->x, (enum stx_atom_kind)a.kind, p, q);
	s->memo[slot].atom = atom + 1;
	s->memo[slot].value = r;
	return r;
}

static stx_ex subst_expr(struct subst *s, stx_ex e)
{
	struct stx_exprs *x = s->x;
	if (e == STX_EX_BAD || !((x->nodes.at[e].kinds >> s->kind) & 1))
		return e;
	stx_ex sum = stx_ex_const(x, x->nodes.at[e].constant);
	for (uint32_t i = 0; i < x->nodes.at[e].nterms && sum != STX_EX_BAD; i++) {
		struct stx_ex_term t = x->nodes.at[e].terms[i];
		stx_ex prod = stx_ex_const(x, t.coeff);
		for (uint32_t j = 0; j < t.natoms && prod != STX_EX_BAD; j++)
			prod = stx_ex_mul(x, prod, subst_atom(s, t.atoms[j]));
		sum = stx_ex_add(x, sum, prod);
	}
	return sum;
}

stx_ex stx_ex_subst_kind(struct stx_exprs *x, stx_ex e, enum stx_atom_kind kind, const stx_ex *map,
			 uint32_t nmap)
{
	struct subst s = { .x = x, .kind = kind, .map = map, .nmap = nmap };
	return subst_expr(&s, e);
}

stx_ex stx_ex_subst(struct stx_exprs *x, stx_ex e, const stx_ex *map, uint32_t nmap)
{
	return stx_ex_subst_kind(x, e, STX_ATOM_VAR, map, nmap);
}

static int64_t eval_atom(const struct stx_exprs *x, const struct ex_atom *a,
			 const struct stx_ex_env *env, int *ok)
{
	const int64_t *from = a->kind == STX_ATOM_VAR   ? env->vars
			      : a->kind == STX_ATOM_SYM ? env->syms
							: env->indirects;
	uint32_t n = a->kind == STX_ATOM_VAR   ? env->nvars
		     : a->kind == STX_ATOM_SYM ? env->nsyms
					       : env->nindirects;
	if (a->kind < STX_ATOM_FLOORDIV) {
		if (!from || a->number >= n) {
			*ok = 0;
			return 0;
		}
		return from[a->number];
	}
	int64_t p = stx_ex_eval(x, a->a, env, ok), q = stx_ex_eval(x, a->b, env, ok);
	if (a->kind == STX_ATOM_MIN)
		return p < q ? p : q;
	if (a->kind == STX_ATOM_MAX)
		return p > q ? p : q;
	if (q == 0 || (p == INT64_MIN && q == -1)) {
		*ok = 0;
		return 0;
	}
	return a->kind == STX_ATOM_FLOORDIV   ? stx__floor_div(p, q)
	       : a->kind == STX_ATOM_TRUNCDIV ? p / q
					      : stx__floor_mod(p, q);
}

int64_t stx_ex_eval(const struct stx_exprs *x, stx_ex e, const struct stx_ex_env *env, int *ok)
{
	if (e == STX_EX_BAD) {
		*ok = 0;
		return 0;
	}
	const struct ex_node *n = &x->nodes.at[e];
	int64_t sum = n->constant;
	for (uint32_t i = 0; i < n->nterms; i++) {
		int64_t prod = n->terms[i].coeff;
		for (uint32_t j = 0; j < n->terms[i].natoms; j++) {
			int64_t v = eval_atom(x, &x->atoms.at[n->terms[i].atoms[j]], env, ok);
			if (__builtin_mul_overflow(prod, v, &prod))
				*ok = 0;
		}
		if (__builtin_add_overflow(sum, prod, &sum))
			*ok = 0;
	}
	return sum;
}
