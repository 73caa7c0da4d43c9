/* emit_cuda_index.c: index expressions as C: int where 32 bits hold every part, else long long.
 *
 * Division and remainder round towards minus infinity; where the interval of the dividend shows
 * that it is never negative, C's operators do. Nesting is bounded by the limit of expressions. */
#include "emit_cuda.h"

static void put(struct stx__cuda *e, stx_ex ex, struct stx_bytes *out);

static void put_literal(struct stx__cuda *e, int64_t v, struct stx_bytes *out)
{
	if (v == INT64_MIN)
		stx_bytes_puts(out, "(-9223372036854775807LL - 1)");
	else
		stx_bytes_printf(out, v < 0 ? "(%lld%s)" : "%lld%s", (long long)v,
				 e->wide ? "LL" : "");
}

static void put_call(struct stx__cuda *e, const char *name, const struct stx_ex_atom *a,
		     struct stx_bytes *out)
{
	e->needs |= STX__NEED_INDEX;
	stx_bytes_printf(out, "%s<%s>(", name, e->wide ? "i64" : "i32");
	put(e, a->a, out);
	stx_bytes_puts(out, ", ");
	put(e, a->b, out);
	stx_bytes_puts(out, ")");
}

static void put_division(struct stx__cuda *e, const char *op, const struct stx_ex_atom *a,
			 struct stx_bytes *out)
{
	stx_bytes_puts(out, "(");
	put(e, a->a, out);
	stx_bytes_printf(out, ") %s (", op);
	put(e, a->b, out);
	stx_bytes_puts(out, ")");
}

static void put_atom(struct stx__cuda *e, uint32_t id, struct stx_bytes *out)
{
	struct stx_ex_atom a = stx_ex_atom_at(e->k->ex, id);
	int plain = a.kind >= STX_ATOM_FLOORDIV && stx_ex_interval(e->k->ex, a.a).lo >= 0 &&
		    stx_ex_interval(e->k->ex, a.b).lo > 0;
	switch (a.kind) {
	case STX_ATOM_VAR: stx_bytes_puts(out, e->k->axes.at[a.number].name); break;
	case STX_ATOM_SYM:
		for (uint32_t i = 0; i < e->k->scalars.n; i++)
			if (e->k->scalars.at[i] == a.number)
				stx_bytes_printf(out, "s%u", i);
		break;
	case STX_ATOM_INDIRECT:
		if (!e->wide)
			stx_bytes_puts(out, "(i32)");
		stx__cuda_value(e, a.number, out);
		break;
	case STX_ATOM_FLOORDIV:
		if (plain)
			put_division(e, "/", &a, out);
		else
			put_call(e, "fdiv_", &a, out);
		break;
	case STX_ATOM_TRUNCDIV: put_division(e, "/", &a, out); break;
	case STX_ATOM_MOD:
		if (plain)
			put_division(e, "%", &a, out);
		else
			put_call(e, "fmod_", &a, out);
		break;
	case STX_ATOM_MIN: put_call(e, "imin_", &a, out); break;
	case STX_ATOM_MAX: put_call(e, "imax_", &a, out); break;
	}
}

static void put(struct stx__cuda *e, stx_ex ex, struct stx_bytes *out)
{
	uint32_t n = stx_ex_nterms(e->k->ex, ex);
	int64_t constant = stx_ex_constant(e->k->ex, ex);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(e->k->ex, ex, i);
		if (i)
			stx_bytes_puts(out, " + ");
		if (t.coeff != 1) {
			put_literal(e, t.coeff, out);
			stx_bytes_puts(out, "*");
		}
		for (uint32_t j = 0; j < t.natoms; j++) {
			struct stx_ex_atom a = stx_ex_atom_at(e->k->ex, t.atoms[j]);
			int group = a.kind == STX_ATOM_FLOORDIV || a.kind == STX_ATOM_TRUNCDIV ||
				    a.kind == STX_ATOM_MOD;
			stx_bytes_puts(out, j ? "*" : "");
			stx_bytes_puts(out, group ? "(" : "");
			put_atom(e, t.atoms[j], out);
			stx_bytes_puts(out, group ? ")" : "");
		}
	}
	if (!n || constant) {
		stx_bytes_puts(out, n ? " + " : "");
		put_literal(e, constant, out);
	}
}

void stx__cuda_index(struct stx__cuda *e, stx_ex ex, struct stx_bytes *out)
{
	put(e, ex, out);
}

static void put_ok(struct stx__cuda *e, stx_ex ex, struct stx_bytes *out)
{
	uint32_t n = stx_ex_nterms(e->k->ex, ex);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(e->k->ex, ex, i);
		for (uint32_t j = 0; j < t.natoms; j++) {
			struct stx_ex_atom a = stx_ex_atom_at(e->k->ex, t.atoms[j]);
			if (a.kind == STX_ATOM_INDIRECT) {
				stx_bytes_puts(out, " && o");
				stx__cuda_value(e, a.number, out);
			} else if (a.kind >= STX_ATOM_FLOORDIV) {
				put_ok(e, a.a, out);
				put_ok(e, a.b, out);
			}
		}
	}
}

void stx__cuda_index_ok(struct stx__cuda *e, stx_ex ex, struct stx_bytes *out)
{
	if (stx_ex_uses_kind(e->k->ex, ex, STX_ATOM_INDIRECT))
		put_ok(e, ex, out);
}
