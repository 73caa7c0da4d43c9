/* text_args.c: what the statements of the text form are made of: expressions, types, references,
 * and a call's arguments, read as the operator's schema says. */
#include <inttypes.h>
#include <string.h>

#include "text_tokens.h"

#define MAX_LIST 65536u /* entries of one list argument */

/* ---- expressions, types, references ---- */

stx_ex stx__t_symbol(void *ctx, const char *name, size_t n)
{
	struct stx_graph *g = ctx;
	for (uint32_t i = 0; i < g->symbols.n; i++) {
		const struct stx_symbol *y = &g->symbols.at[i];
		if (strlen(y->name) == n && !memcmp(y->name, name, n))
			return stx_ex_sym(g->ex, i, y->range, y->hint);
	}
	return STX_EX_BAD;
}

static int parse_ex(struct stx__parser *s, stx_ex *out)
{
	stx__t_skip(s);
	const char *at = s->p, *q = s->p;
	int64_t v = 0;
	int neg = q < s->end && *q == '-', digits = 0;
	/* The usual case, a plain integer, without the general parser. */
	for (q += neg; q < s->end && *q >= '0' && *q <= '9' && digits < 18; q++, digits++)
		v = v * 10 + (*q - '0');
	if (digits && digits < 18 && q < s->end && (*q == ',' || *q == ']' || *q == ')')) {
		s->p = q;
		*out = stx_ex_const(s->g->ex, neg ? -v : v);
		return *out ? 0 : stx__t_over_budget(s, at);
	}
	stx_err e = stx_ex_parse(s->g->ex, &s->p, s->end, stx__t_symbol, s->g, out, s->d);
	return e ? stx__t_failed(s, at, e) : 0;
}

/* `e, e, ...` up to close; the values are in s->exs. */
int stx__t_ex_list(struct stx__parser *s, char close, uint32_t max)
{
	s->exs.n = 0;
	if (stx__t_accept(s, close))
		return 0;
	do {
		stx_ex e;
		const char *at = s->p;
		if (stx__t_peek(s) == (unsigned char)close)
			break; /* a comma at the end */
		if (s->exs.n >= max)
			return stx__t_fail(s, at, "more than %" PRIu32 " entries", max);
		if (parse_ex(s, &e))
			return -1;
		if (stx_push(s->a, &s->exs, e))
			return stx__t_over_budget(s, at);
	} while (stx__t_accept(s, ','));
	return stx__t_expect(s, close);
}

static int parse_dtype(struct stx__parser *s, enum stx_dtype *t)
{
	struct stx_span w = stx__t_word(s, "");
	*t = stx_dtype_parse((const char *)w.at, (int)(w.n > 64 ? 64 : w.n));
	if (*t == STX_DTYPE_NONE)
		return stx__t_fail(s, (const char *)w.at, "'%.*s' is not a dtype", stx__t_shown(w),
				   (const char *)w.at);
	return 0;
}

int stx__t_type(struct stx__parser *s, struct stx_type *t)
{
	const char *at = s->p;
	if (parse_dtype(s, &t->dtype) || stx__t_expect(s, '[') ||
	    stx__t_ex_list(s, ']', STX_MAX_DIMS))
		return -1;
	t->rank = (uint8_t)s->exs.n;
	t->sizes = stx_arena_copy(s->a, s->exs.at, s->exs.n * sizeof(stx_ex));
	return t->sizes ? 0 : stx__t_over_budget(s, at);
}

int stx__t_ref(struct stx__parser *s, struct stx_val *v)
{
	stx__t_skip(s);
	const char *at = s->p;
	int64_t out = 0;
	if (stx__t_peek(s) != '%' && s->p < s->end)
		return stx__t_fail(s, s->p, "expected a tensor, %%name");
	if (stx__t_expect(s, '%'))
		return -1;
	struct stx_span w = stx__t_word(s, "");
	v->node = stx__name_find(s->g, (const char *)w.at, w.n);
	if (!v->node)
		return stx__t_fail(s, at, "%%%.*s is not defined above", stx__t_shown(w),
				   (const char *)w.at);
	if (s->p < s->end && *s->p == ':') {
		s->p++;
		if (stx__t_i64(s, &out))
			return -1;
	}
	if (out < 0 || out >= (int64_t)v->node->nouts)
		return stx__t_fail(s, at, "%%%s has %" PRIu32 " results", v->node->name,
				   v->node->nouts);
	v->out = (uint32_t)out;
	return 0;
}

int stx__t_string(struct stx__parser *s, const char **out)
{
	const char *at = s->p;
	if (stx__t_peek(s) != '\'' && s->p < s->end) {
		struct stx_span w = stx__t_word(s, "");
		return stx__t_fail(s, at, "expected a string in single quotes: '%.*s'",
				   w.n ? stx__t_shown(w) : 3, w.n ? (const char *)w.at : "...");
	}
	if (stx__t_expect(s, '\''))
		return -1;
	const char *q = s->p;
	while (q < s->end && *q != '\'' && *q != '\n' && *q)
		q += *q == '\\' && q + 1 < s->end ? 2 : 1;
	if (q >= s->end || *q != '\'')
		return stx__t_fail(s, at, "the string is not closed");
	char *t = stx_arena_alloc(s->a, (size_t)(q - s->p) + 1);
	if (!t)
		return stx__t_over_budget(s, at);
	*out = t;
	while (s->p < q) {
		char c = *s->p++;
		if (c == '\\' && *s->p == 'x' && q - s->p >= 3 && stx__t_hex_digit(s->p[1]) >= 0 &&
		    stx__t_hex_digit(s->p[2]) >= 0) {
			c = (char)(stx__t_hex_digit(s->p[1]) << 4 | stx__t_hex_digit(s->p[2]));
			s->p += 3;
			if (!c)
				return stx__t_fail(s, at, "a string may not hold a NUL");
		} else if (c == '\\') {
			c = *s->p++;
		}
		*t++ = c;
	}
	*t = 0;
	s->p++;
	return 0;
}

/* ---- arguments, read as the schema says ---- */

static int parse_tensors(struct stx__parser *s, struct stx_arg *a)
{
	const char *at = s->p;
	s->vals.n = 0;
	if (stx__t_expect(s, '['))
		return -1;
	while (stx__t_peek(s) != ']') {
		struct stx_val v = { 0 };
		if (s->vals.n >= MAX_LIST)
			return stx__t_fail(s, s->p, "more than %u entries", MAX_LIST);
		if (!stx__t_accept_word(s, "None") && stx__t_ref(s, &v))
			return -1;
		if (stx_push(s->a, &s->vals, v))
			return stx__t_over_budget(s, at);
		if (!stx__t_accept(s, ','))
			break;
	}
	*a = stx_arg_tensors(s->g, s->vals.at, s->vals.n);
	return stx__t_expect(s, ']');
}

static int parse_ints(struct stx__parser *s, struct stx_arg *a)
{
	stx_ex e;
	if (stx__t_accept(s, '[')) {
		if (stx__t_ex_list(s, ']', MAX_LIST))
			return -1;
		*a = stx_arg_exs(s->g, s->exs.at, s->exs.n);
		return 0;
	}
	if (parse_ex(s, &e))
		return -1;
	*a = stx_arg_exs(s->g, &e, 1);
	return 0;
}

int stx__t_bool(struct stx__parser *s, int *v)
{
	stx__t_skip(s);
	const char *at = s->p;
	*v = stx__t_accept_word(s, "True");
	if (!*v && !stx__t_accept_word(s, "False"))
		return stx__t_fail(s, at, "expected True or False");
	return 0;
}

/* [1.5, 2] */
static int parse_floats(struct stx__parser *s, struct stx_arg *a)
{
	const char *at = s->p;
	STX_VEC(double) list = { 0 };
	if (stx__t_expect(s, '['))
		return -1;
	while (stx__t_peek(s) != ']') {
		int is_float;
		double f = 0;
		int64_t i = 0;
		if (list.n >= MAX_LIST)
			return stx__t_fail(s, s->p, "more than %u entries", MAX_LIST);
		if (stx__t_number(s, &is_float, &f, &i))
			return -1;
		if (stx_push(s->a, &list, is_float ? f : (double)i))
			return stx__t_over_budget(s, at);
		if (!stx__t_accept(s, ','))
			break;
	}
	*a = stx_arg_floats(s->g, list.at, list.n);
	return stx__t_expect(s, ']');
}

/* [True, False] */
static int parse_bools(struct stx__parser *s, struct stx_arg *a)
{
	uint64_t bits = 0;
	uint32_t n = 0;
	if (stx__t_expect(s, '['))
		return -1;
	while (stx__t_peek(s) != ']') {
		int b;
		if (n >= STX_MAX_BOOLS)
			return stx__t_fail(s, s->p, "more than %u entries", STX_MAX_BOOLS);
		if (stx__t_bool(s, &b))
			return -1;
		bits |= (uint64_t)b << n++;
		if (!stx__t_accept(s, ','))
			break;
	}
	*a = stx_arg_bools(bits, n);
	return stx__t_expect(s, ']');
}

/* PyTorch writes the end of a slice without one as sys.maxsize, which index expressions keep for
 * infinity; bounds are clamped to the size, so the number before it means the same. */
static int parse_bound(struct stx__parser *s, stx_ex *out)
{
	static const char most[] = "9223372036854775807";
	size_t n = sizeof most - 1;
	if ((size_t)(s->end - s->p) <= n || memcmp(s->p, most, n) || !strchr(",)", s->p[n]))
		return parse_ex(s, out);
	const char *at = s->p;
	s->p += n;
	*out = stx_ex_const(s->g->ex, INT64_MAX - 1);
	return *out ? 0 : stx__t_over_budget(s, at);
}

static int parse_arg(struct stx__parser *s, enum stx_param_kind k, struct stx_arg *a)
{
	int is_float, b;
	double f = 0;
	int64_t i = 0;
	stx__t_skip(s);
	if (stx__t_accept_word(s, "None")) { /* where it is not allowed, the call says so */
		*a = stx_arg_none();
		return 0;
	}
	switch (k) {
	case STX_PARAM_TENSOR:
	case STX_PARAM_OPT_TENSOR: a->kind = STX_ARG_TENSOR; return stx__t_ref(s, &a->u.tensor);
	case STX_PARAM_TENSORS: return parse_tensors(s, a);
	case STX_PARAM_INT: a->kind = STX_ARG_INT; return parse_ex(s, &a->u.ex);
	case STX_PARAM_OPT_INT: a->kind = STX_ARG_INT; return parse_bound(s, &a->u.ex);
	case STX_PARAM_INTS:
	case STX_PARAM_OPT_INTS: return parse_ints(s, a);
	case STX_PARAM_SCALAR:
	case STX_PARAM_OPT_SCALAR:
		if (stx__t_peek(s) == 'T' || stx__t_peek(s) == 'F') {
			*a = stx_arg_scalar_b(0);
			return stx__t_bool(s, &b) ? -1 : (a->u.i = b, 0);
		}
		/* fall through */
	case STX_PARAM_FLOAT:
	case STX_PARAM_OPT_FLOAT:
		if (stx__t_number(s, &is_float, &f, &i))
			return -1;
		*a = is_float ? stx_arg_scalar_f(f) : stx_arg_scalar_i(i);
		return 0;
	case STX_PARAM_OPT_FLOATS: return parse_floats(s, a);
	case STX_PARAM_BOOLS: return parse_bools(s, a);
	case STX_PARAM_BOOL:
		if (stx__t_bool(s, &b))
			return -1;
		*a = stx_arg_bool(b);
		return 0;
	case STX_PARAM_STRING:
	case STX_PARAM_OPT_STRING: a->kind = STX_ARG_STRING; return stx__t_string(s, &a->u.str);
	case STX_PARAM_DTYPE:
	case STX_PARAM_OPT_DTYPE: a->kind = STX_ARG_DTYPE; return parse_dtype(s, &a->u.dtype);
	}
	return -1;
}

/* `name=` at the cursor: the parameter's number, or -1 with the cursor unmoved. */
static int keyword(struct stx__parser *s, const struct stx_op_info *info)
{
	stx__t_skip(s);
	const char *from = s->p;
	struct stx_span w = stx__t_word(s, "");
	if (w.n == 0 || stx__t_peek(s) != '=') {
		s->p = from;
		return -1;
	}
	for (uint32_t i = 0; i < info->nparams; i++)
		if (stx__t_is(w, info->params[i].name)) {
			s->p++;
			return (int)i;
		}
	stx__t_fail(s, from, "%s has no argument '%.*s'", info->overload, stx__t_shown(w),
		    (const char *)w.at);
	return -1;
}

int stx__t_args(struct stx__parser *s, const struct stx_op_info *info, struct stx_arg *args)
{
	uint32_t next = 0;
	int named = 0;
	for (uint32_t i = 0; i < info->nparams; i++)
		args[i] = stx_arg_default();
	while (stx__t_peek(s) != ')') {
		const char *at = s->p;
		int k = keyword(s, info);
		if (s->err)
			return -1;
		named |= k >= 0;
		if (k < 0) {
			if (named)
				return stx__t_fail(s, at,
						   "a positional argument after a named one");
			if (next >= info->nparams || info->params[next].is_kwarg)
				return stx__t_fail(s, at,
						   "%s takes %" PRIu32 " positional arguments",
						   info->overload, next);
			k = (int)next++;
		}
		if (args[k].kind != STX_ARG_DEFAULT)
			return stx__t_fail(s, at, "argument '%s' is given twice",
					   info->params[k].name);
		if (parse_arg(s, info->params[k].kind, &args[k]))
			return -1;
		if (!stx__t_accept(s, ','))
			break;
	}
	return stx__t_expect(s, ')');
}
