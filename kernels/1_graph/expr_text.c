/* expr_text.c: printing and parsing of index expressions. Parentheses nest at most STX_EX_MAX_DEPTH
 * deep. */
#include "expr_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- printing ---- */

static void put_name(const struct ex_atom *a, stx_ex_name_fn *name, void *ctx,
		     struct stx_bytes *out)
{
	char text[128];
	static const char letters[] = "vst";
	if (name)
		name(ctx, (enum stx_atom_kind)a->kind, a->number, text, sizeof text);
	else
		snprintf(text, sizeof text, "%c%u", letters[a->kind], a->number);
	stx_bytes_puts(out, text);
}

static int is_simple(const struct stx_exprs *x, stx_ex e) /* needs no parentheses as an operand */
{
	const struct ex_node *n = &x->nodes.at[e];
	if (!n->nterms)
		return n->constant >= 0;
	return !n->constant && n->nterms == 1 && n->terms[0].coeff == 1 &&
	       n->terms[0].natoms == 1 &&
	       x->atoms.at[n->terms[0].atoms[0]].kind < STX_ATOM_FLOORDIV;
}

static void put_operand(const struct stx_exprs *x, stx_ex e, stx_ex_name_fn *name, void *ctx,
			struct stx_bytes *out)
{
	int simple = is_simple(x, e);
	if (!simple)
		stx_bytes_u8(out, '(');
	stx_ex_print(x, e, name, ctx, out);
	if (!simple)
		stx_bytes_u8(out, ')');
}

static void put_atom(const struct stx_exprs *x, uint32_t id, int alone, stx_ex_name_fn *name,
		     void *ctx, struct stx_bytes *out)
{
	const struct ex_atom *a = &x->atoms.at[id];
	if (a->kind < STX_ATOM_FLOORDIV) {
		put_name(a, name, ctx, out);
		return;
	}
	if (a->kind == STX_ATOM_FLOORDIV || a->kind == STX_ATOM_MOD) {
		if (!alone)
			stx_bytes_u8(out, '(');
		put_operand(x, a->a, name, ctx, out);
		stx_bytes_puts(out, a->kind == STX_ATOM_MOD ? " % " : " // ");
		put_operand(x, a->b, name, ctx, out);
		if (!alone)
			stx_bytes_u8(out, ')');
		return;
	}
	stx_bytes_puts(out, a->kind == STX_ATOM_MIN   ? "min("
			    : a->kind == STX_ATOM_MAX ? "max("
						      : "tdiv(");
	stx_ex_print(x, a->a, name, ctx, out);
	stx_bytes_puts(out, ", ");
	stx_ex_print(x, a->b, name, ctx, out);
	stx_bytes_u8(out, ')');
}

void stx_ex_print(const struct stx_exprs *x, stx_ex e, stx_ex_name_fn *name, void *ctx,
		  struct stx_bytes *out)
{
	if (e == STX_EX_BAD) {
		stx_bytes_puts(out, "BAD");
		return;
	}
	const struct ex_node *n = &x->nodes.at[e];
	for (uint32_t i = 0; i < n->nterms; i++) {
		const struct stx_ex_term *t = &n->terms[i];
		uint64_t mag = t->coeff < 0 ? 0 - (uint64_t)t->coeff : (uint64_t)t->coeff;
		if (i)
			stx_bytes_puts(out, t->coeff < 0 ? " - " : " + ");
		else if (t->coeff < 0)
			stx_bytes_u8(out, '-');
		if (mag != 1)
			stx_bytes_printf(out, "%llu*", (unsigned long long)mag);
		int alone = n->nterms == 1 && !n->constant && t->coeff == 1 && t->natoms == 1;
		for (uint32_t j = 0; j < t->natoms; j++) {
			if (j)
				stx_bytes_u8(out, '*');
			put_atom(x, t->atoms[j], alone, name, ctx, out);
		}
	}
	if (!n->nterms)
		stx_bytes_printf(out, "%lld", (long long)n->constant);
	else if (n->constant)
		stx_bytes_printf(out, n->constant < 0 ? " - %llu" : " + %llu",
				 n->constant < 0 ? 0 - (unsigned long long)n->constant
						 : (unsigned long long)n->constant);
}

/* ---- parsing: sum = product (('+'|'-') product)*; product = unary (('*'|'//'|'%') unary)* ---- */

struct parser {
	struct stx_exprs *x;
	const char *p, *end;
	stx_ex_find_fn *find;
	void *ctx;
	int depth;
	const char *error;
};

static void skip(struct parser *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t'))
		s->p++;
}

static int eat(struct parser *s, const char *token)
{
	size_t n = strlen(token);
	skip(s);
	if ((size_t)(s->end - s->p) < n || memcmp(s->p, token, n))
		return 0;
	s->p += n;
	return 1;
}

static stx_ex fail(struct parser *s, const char *why)
{
	if (!s->error)
		s->error = why;
	return STX_EX_BAD;
}

static stx_ex parse_sum(struct parser *s);

static stx_ex parse_number(struct parser *s)
{
	int64_t v = 0;
	while (s->p < s->end && isdigit((unsigned char)*s->p)) {
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *s->p - '0', &v))
			return fail(s, "the number does not fit 64 bits");
		s->p++;
	}
	stx_ex e = stx_ex_const(s->x, v);
	return e == STX_EX_BAD ? fail(s, "the number does not fit") : e;
}

static stx_ex parse_call(struct parser *s, stx_ex (*fn)(struct stx_exprs *, stx_ex, stx_ex))
{
	stx_ex a = parse_sum(s);
	if (!eat(s, ","))
		return fail(s, "',' expected");
	stx_ex b = parse_sum(s);
	if (!eat(s, ")"))
		return fail(s, "')' expected");
	return fn(s->x, a, b);
}

static stx_ex parse_name(struct parser *s)
{
	const char *start = s->p;
	while (s->p < s->end && (isalnum((unsigned char)*s->p) || *s->p == '_' || *s->p == '.'))
		s->p++;
	size_t n = (size_t)(s->p - start);
	static const struct {
		const char *name;
		stx_ex (*fn)(struct stx_exprs *, stx_ex, stx_ex);
	} calls[] = { { "min", stx_ex_min }, { "max", stx_ex_max }, { "tdiv", stx_ex_truncdiv } };
	for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++)
		if (strlen(calls[i].name) == n && !memcmp(calls[i].name, start, n) && eat(s, "("))
			return parse_call(s, calls[i].fn);
	stx_ex e = s->find ? s->find(s->ctx, start, n) : STX_EX_BAD;
	return e == STX_EX_BAD ? fail(s, "unknown name in an index expression") : e;
}

static stx_ex parse_unary(struct parser *s)
{
	int negative = 0;
	while (eat(s, "-"))
		negative = !negative;
	skip(s);
	stx_ex e;
	if (s->p == s->end)
		return fail(s, "an index expression ends too early");
	if (isdigit((unsigned char)*s->p))
		e = parse_number(s);
	else if (*s->p == '(') {
		s->p++;
		e = parse_sum(s);
		if (!eat(s, ")"))
			return fail(s, "')' expected");
	} else if (isalpha((unsigned char)*s->p) || *s->p == '_')
		e = parse_name(s);
	else
		return fail(s, "an index expression is expected");
	return negative ? stx_ex_muli(s->x, e, -1) : e;
}

static stx_ex parse_product(struct parser *s)
{
	stx_ex e = parse_unary(s);
	while (!s->error) {
		if (eat(s, "//"))
			e = stx_ex_floordiv(s->x, e, parse_unary(s));
		else if (eat(s, "*"))
			e = stx_ex_mul(s->x, e, parse_unary(s));
		else if (eat(s, "%"))
			e = stx_ex_mod(s->x, e, parse_unary(s));
		else
			break;
	}
	return e;
}

static stx_ex parse_sum(struct parser *s)
{
	if (++s->depth > STX_EX_MAX_DEPTH)
		return fail(s, "an index expression is nested too deeply");
	stx_ex e = parse_product(s);
	while (!s->error) {
		if (eat(s, "+"))
			e = stx_ex_add(s->x, e, parse_product(s));
		else if (eat(s, "-"))
			e = stx_ex_sub(s->x, e, parse_product(s));
		else
			break;
	}
	s->depth--;
	return e;
}

stx_err stx_ex_parse(struct stx_exprs *x, const char **p, const char *end, stx_ex_find_fn *find,
		     void *ctx, stx_ex *out, struct stx_diag *d)
{
	struct parser s = { .x = x, .p = *p, .end = end, .find = find, .ctx = ctx };
	*out = parse_sum(&s);
	*p = s.p;
	if (s.error)
		return stx_fail(d, STX_E_INVALID, "parse", NULL, "%s", s.error);
	if (*out == STX_EX_BAD)
		return stx_fail(d, STX_E_TOO_LARGE, "parse", NULL,
				"an index expression overflows 64 bits or divides by zero");
	return STX_E_OK;
}
