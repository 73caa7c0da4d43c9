/* text_parse.c: the text form of graphs, read. Hostile input: one pass, no recursion, every error carries
 * line:column. Statements delimit themselves, so line ends are plain space. */
#include <inttypes.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_internal.h"
#include "passes.h"

#define MAX_SYMBOLS 256u
#define MAX_LIST 65536u /* entries of one list argument */

struct users { /* num_users as stated, checked at the end */
	struct stx_node *node;
	uint64_t stated;
	const char *at;
};

struct parser {
	struct stx_arena *a;
	struct stx_graph *g;
	const char *text, *p, *end;
	struct stx_diag *d;
	stx_err err;
	const char *bad; /* where the error is */
	STX_VEC(struct users) users;
	STX_VEC(stx_ex) exs;           /* list being read */
	STX_VEC(struct stx_val) vals;  /* list being read */
};

/* ---- errors and tokens ---- */

__attribute__((format(printf, 3, 4)))
static int fail(struct parser *s, const char *at, const char *fmt, ...)
{
	if (!s->err) {
		va_list ap;
		va_start(ap, fmt);
		s->err = stx_vfail(s->d, STX_E_INVALID, "parse", "", fmt, ap);
		va_end(ap);
		s->bad = at;
	}
	return -1;
}

/* An error reported by another module: the place is added. */
static int failed(struct parser *s, const char *at, stx_err e)
{
	if (!s->err) {
		s->err = e ? e : STX_E_INTERNAL;
		s->bad = at;
	}
	return -1;
}

static int over_budget(struct parser *s, const char *at)
{
	return failed(s, at, stx__over_budget("parse", "", s->d));
}

static void skip(struct parser *s)
{
	for (; s->p < s->end; s->p++) {
		if (*s->p == '#')
			while (s->p < s->end && *s->p != '\n')
				s->p++;
		if (s->p == s->end)
			return;
		if (*s->p != ' ' && *s->p != '\t' && *s->p != '\r' && *s->p != '\n')
			return;
	}
}

static int peek(struct parser *s)
{
	skip(s);
	return s->p < s->end ? (unsigned char)*s->p : -1;
}

static int accept(struct parser *s, char c)
{
	if (peek(s) != (unsigned char)c)
		return 0;
	s->p++;
	return 1;
}

static int expect(struct parser *s, char c)
{
	if (accept(s, c))
		return 0;
	if (s->p == s->end)
		return fail(s, s->p, "the text ends where '%c' is expected", c);
	return fail(s, s->p, "expected '%c'", c);
}

static int is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* A word (letters, digits, _, and the characters of extra) at the cursor; empty when there is none. */
static struct stx_span word(struct parser *s, const char *extra)
{
	skip(s);
	const char *from = s->p;
	while (s->p < s->end && *s->p && (is_word(*s->p) || strchr(extra, *s->p)))
		s->p++;
	return (struct stx_span){ (const uint8_t *)from, (size_t)(s->p - from) };
}

static int is(struct stx_span w, const char *text)
{
	return w.n == strlen(text) && !memcmp(w.at, text, w.n);
}

static int accept_word(struct parser *s, const char *text)
{
	const char *from = s->p;
	if (is(word(s, ""), text))
		return 1;
	s->p = from;
	return 0;
}

static int expect_word(struct parser *s, const char *text)
{
	skip(s);
	return accept_word(s, text) ? 0 : fail(s, s->p, "expected '%s'", text);
}

static int shown(struct stx_span w)
{
	return w.n > 40 ? 40 : (int)w.n;
}

/* ---- numbers ---- */

/* The longest run of characters a number may have, as a C string. */
static int number_text(struct parser *s, char out[64], const char **at)
{
	skip(s);
	const char *p = *at = s->p;
	size_t n = 0;
	if (p < s->end && (*p == '-' || *p == '+'))
		out[n++] = *p++;
	while (p < s->end && n < 60 &&
	       ((*p >= '0' && *p <= '9') || *p == '.' ||
	        ((*p == 'e' || *p == 'E') && n && out[n - 1] != '-') ||
	        ((*p == '-' || *p == '+') && n && (out[n - 1] == 'e' || out[n - 1] == 'E'))))
		out[n++] = *p++;
	out[n] = 0;
	s->p = p;
	return n > 0;
}

static int parse_i64(struct parser *s, int64_t *v)
{
	char t[64], *end;
	const char *at;
	number_text(s, t, &at);
	errno = 0;
	*v = strtoll(t, &end, 10);
	if (end == t || *end)
		return fail(s, at, "expected an integer");
	return errno ? fail(s, at, "the integer does not fit in 64 bits") : 0;
}

static int parse_nan_bits(struct parser *s, int negative, double *v)
{
	char t[24];
	const char *at = s->p;
	struct stx_span w = word(s, "");
	uint64_t bits = 0;
	int ok = w.n == 18 && w.at[0] == '0' && w.at[1] == 'x';
	if (ok) {
		char *end;
		memcpy(t, w.at, w.n);
		t[w.n] = 0;
		bits = strtoull(t, &end, 16);
		ok = !*end && (bits & 0x7ff0000000000000u) == 0x7ff0000000000000u &&
		     (bits & 0x000fffffffffffffu) && !negative;
	}
	if (!ok)
		return fail(s, at, "expected the 16 hexadecimal digits of a NaN: nan(0x7ff8000000000001)");
	memcpy(v, &bits, 8);
	return expect(s, ')');
}

/* A number: *is_float tells which of *f and *i holds it. */
static int parse_number(struct parser *s, int *is_float, double *f, int64_t *i)
{
	skip(s);
	const char *at = s->p;
	int negative = s->p < s->end && *s->p == '-';
	const char *q = s->p + negative;
	char t[64], *end;
	*is_float = 1;
	if (q < s->end && (*q == 'i' || *q == 'n')) {
		s->p = q;
		struct stx_span w = word(s, "");
		uint64_t quiet = 0x7ff8000000000000u;
		if (is(w, "inf")) {
			*f = negative ? -__builtin_inf() : __builtin_inf();
			return 0;
		}
		if (!is(w, "nan"))
			return fail(s, at, "expected a number");
		if (s->p < s->end && *s->p == '(') {
			s->p++;
			return parse_nan_bits(s, negative, f);
		}
		quiet |= (uint64_t)negative << 63;
		memcpy(f, &quiet, 8);
		return 0;
	}
	if (!number_text(s, t, &at))
		return fail(s, at, "expected a number");
	if (!strpbrk(t, ".eE")) {
		*is_float = 0;
		s->p = at;
		return parse_i64(s, i);
	}
	*f = strtod(t, &end);
	return end == t || *end ? fail(s, at, "expected a number") : 0;
}

/* ---- expressions, types, references ---- */

static stx_ex find_symbol(void *ctx, const char *name, size_t n)
{
	struct stx_graph *g = ctx;
	for (uint32_t i = 0; i < g->symbols.n; i++) {
		const struct stx_symbol *y = &g->symbols.at[i];
		if (strlen(y->name) == n && !memcmp(y->name, name, n))
			return stx_ex_sym(g->ex, i, y->range, y->hint);
	}
	return STX_EX_BAD;
}

static int parse_ex(struct parser *s, stx_ex *out)
{
	skip(s);
	const char *at = s->p, *q = s->p;
	int64_t v = 0;
	int neg = q < s->end && *q == '-', digits = 0;
	/* The usual case, a plain integer, without the general parser. */
	for (q += neg; q < s->end && *q >= '0' && *q <= '9' && digits < 18; q++, digits++)
		v = v * 10 + (*q - '0');
	if (digits && digits < 18 && q < s->end && (*q == ',' || *q == ']' || *q == ')')) {
		s->p = q;
		*out = stx_ex_const(s->g->ex, neg ? -v : v);
		return *out ? 0 : over_budget(s, at);
	}
	stx_err e = stx_ex_parse(s->g->ex, &s->p, s->end, find_symbol, s->g, out, s->d);
	return e ? failed(s, at, e) : 0;
}

/* `e, e, ...` up to close; the values are in s->exs. */
static int parse_ex_list(struct parser *s, char close, uint32_t max)
{
	s->exs.n = 0;
	if (accept(s, close))
		return 0;
	do {
		stx_ex e;
		const char *at = s->p;
		if (peek(s) == (unsigned char)close)
			break; /* a comma at the end */
		if (s->exs.n >= max)
			return fail(s, at, "more than %" PRIu32 " entries", max);
		if (parse_ex(s, &e))
			return -1;
		if (stx_push(s->a, &s->exs, e))
			return over_budget(s, at);
	} while (accept(s, ','));
	return expect(s, close);
}

static int parse_dtype(struct parser *s, enum stx_dtype *t)
{
	struct stx_span w = word(s, "");
	*t = stx_dtype_parse((const char *)w.at, (int)(w.n > 64 ? 64 : w.n));
	if (*t == STX_DTYPE_NONE)
		return fail(s, (const char *)w.at, "'%.*s' is not a dtype", shown(w),
		            (const char *)w.at);
	return 0;
}

static int parse_type(struct parser *s, struct stx_type *t)
{
	const char *at = s->p;
	if (parse_dtype(s, &t->dtype) || expect(s, '[') || parse_ex_list(s, ']', STX_MAX_DIMS))
		return -1;
	t->rank = (uint8_t)s->exs.n;
	t->sizes = stx_arena_copy(s->a, s->exs.at, s->exs.n * sizeof(stx_ex));
	return t->sizes ? 0 : over_budget(s, at);
}

static int parse_ref(struct parser *s, struct stx_val *v)
{
	skip(s);
	const char *at = s->p;
	int64_t out = 0;
	if (expect(s, '%'))
		return -1;
	struct stx_span w = word(s, "");
	v->node = stx__name_find(s->g, (const char *)w.at, w.n);
	if (!v->node)
		return fail(s, at, "%%%.*s is not defined above", shown(w), (const char *)w.at);
	if (s->p < s->end && *s->p == ':') {
		s->p++;
		if (parse_i64(s, &out))
			return -1;
	}
	if (out < 0 || out >= (int64_t)v->node->nouts)
		return fail(s, at, "%%%s has %" PRIu32 " results", v->node->name, v->node->nouts);
	v->out = (uint32_t)out;
	return 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int parse_string(struct parser *s, const char **out)
{
	const char *at = s->p;
	if (expect(s, '\''))
		return -1;
	const char *q = s->p;
	while (q < s->end && *q != '\'' && *q != '\n' && *q)
		q += *q == '\\' && q + 1 < s->end ? 2 : 1;
	if (q >= s->end || *q != '\'')
		return fail(s, at, "the string is not closed");
	char *t = stx_arena_alloc(s->a, (size_t)(q - s->p) + 1);
	if (!t)
		return over_budget(s, at);
	*out = t;
	while (s->p < q) {
		char c = *s->p++;
		if (c == '\\' && *s->p == 'x' && q - s->p >= 3 && hex_digit(s->p[1]) >= 0 &&
		    hex_digit(s->p[2]) >= 0) {
			c = (char)(hex_digit(s->p[1]) << 4 | hex_digit(s->p[2]));
			s->p += 3;
			if (!c)
				return fail(s, at, "a string may not hold a NUL");
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

static int parse_tensors(struct parser *s, struct stx_arg *a)
{
	const char *at = s->p;
	s->vals.n = 0;
	if (expect(s, '['))
		return -1;
	while (peek(s) != ']') {
		struct stx_val v = { 0 };
		if (s->vals.n >= MAX_LIST)
			return fail(s, s->p, "more than %u entries", MAX_LIST);
		if (!accept_word(s, "None") && parse_ref(s, &v))
			return -1;
		if (stx_push(s->a, &s->vals, v))
			return over_budget(s, at);
		if (!accept(s, ','))
			break;
	}
	*a = stx_arg_tensors(s->g, s->vals.at, s->vals.n);
	return expect(s, ']');
}

static int parse_ints(struct parser *s, struct stx_arg *a)
{
	stx_ex e;
	if (accept(s, '[')) {
		if (parse_ex_list(s, ']', MAX_LIST))
			return -1;
		*a = stx_arg_exs(s->g, s->exs.at, s->exs.n);
		return 0;
	}
	if (parse_ex(s, &e))
		return -1;
	*a = stx_arg_exs(s->g, &e, 1);
	return 0;
}

static int parse_bool(struct parser *s, int *v)
{
	skip(s);
	const char *at = s->p;
	*v = accept_word(s, "True");
	if (!*v && !accept_word(s, "False"))
		return fail(s, at, "expected True or False");
	return 0;
}

static int parse_arg(struct parser *s, enum stx_param_kind k, struct stx_arg *a)
{
	int is_float, b;
	double f = 0;
	int64_t i = 0;
	skip(s);
	if (accept_word(s, "None")) { /* where it is not allowed, the call says so */
		*a = stx_arg_none();
		return 0;
	}
	switch (k) {
	case STX_PARAM_TENSOR: case STX_PARAM_OPT_TENSOR:
		a->kind = STX_ARG_TENSOR;
		return parse_ref(s, &a->u.tensor);
	case STX_PARAM_TENSORS:
		return parse_tensors(s, a);
	case STX_PARAM_INT: case STX_PARAM_OPT_INT:
		a->kind = STX_ARG_INT;
		return parse_ex(s, &a->u.ex);
	case STX_PARAM_INTS: case STX_PARAM_OPT_INTS:
		return parse_ints(s, a);
	case STX_PARAM_FLOAT: case STX_PARAM_OPT_FLOAT: case STX_PARAM_SCALAR: case STX_PARAM_OPT_SCALAR:
		if (parse_number(s, &is_float, &f, &i))
			return -1;
		*a = is_float ? stx_arg_scalar_f(f) : stx_arg_scalar_i(i);
		return 0;
	case STX_PARAM_BOOL:
		if (parse_bool(s, &b))
			return -1;
		*a = stx_arg_bool(b);
		return 0;
	case STX_PARAM_STRING:
		a->kind = STX_ARG_STRING;
		return parse_string(s, &a->u.str);
	case STX_PARAM_DTYPE: case STX_PARAM_OPT_DTYPE:
		a->kind = STX_ARG_DTYPE;
		return parse_dtype(s, &a->u.dtype);
	}
	return -1;
}

/* `name=` at the cursor: the parameter's number, or -1 with the cursor unmoved. */
static int keyword(struct parser *s, const struct stx_op_info *info)
{
	skip(s);
	const char *from = s->p;
	struct stx_span w = word(s, "");
	if (w.n == 0 || peek(s) != '=') {
		s->p = from;
		return -1;
	}
	for (uint32_t i = 0; i < info->nparams; i++)
		if (is(w, info->params[i].name)) {
			s->p++;
			return (int)i;
		}
	fail(s, from, "%s has no argument '%.*s'", info->overload, shown(w), (const char *)w.at);
	return -1;
}

#define MAX_PARAMS 16

static int parse_call_args(struct parser *s, const struct stx_op_info *info, struct stx_arg *args)
{
	uint32_t next = 0;
	int named = 0;
	for (uint32_t i = 0; i < info->nparams; i++)
		args[i] = stx_arg_default();
	while (peek(s) != ')') {
		const char *at = s->p;
		int k = keyword(s, info);
		if (s->err)
			return -1;
		named |= k >= 0;
		if (k < 0) {
			if (named)
				return fail(s, at, "a positional argument after a named one");
			if (next >= info->nparams || info->params[next].is_kwarg)
				return fail(s, at, "%s takes %" PRIu32 " positional arguments",
				            info->overload, next);
			k = (int)next++;
		}
		if (args[k].kind != STX_ARG_DEFAULT)
			return fail(s, at, "argument '%s' is given twice", info->params[k].name);
		if (parse_arg(s, info->params[k].kind, &args[k]))
			return -1;
		if (!accept(s, ','))
			break;
	}
	return expect(s, ')');
}

/* ---- statements ---- */

struct definition {
	const char *at;
	char name[STX__MAX_NAME + 1];
	struct stx_type *types; /* stated results */
	int ntypes;             /* -1: not stated */
	int64_t users, serial;  /* -1: not stated */
};

static int parse_types(struct parser *s, struct definition *f)
{
	STX_VEC(struct stx_type) v = { 0 };
	int many = accept(s, '(');
	while (!many || peek(s) != ')') {
		struct stx_type t;
		if (v.n >= 16)
			return fail(s, s->p, "more than 16 results");
		if (parse_type(s, &t))
			return -1;
		if (stx_push(s->a, &v, t))
			return over_budget(s, s->p);
		if (!many || !accept(s, ','))
			break;
	}
	f->types = v.at;
	f->ntypes = (int)v.n;
	return many ? expect(s, ')') : 0;
}

static int parse_attributes(struct parser *s, struct definition *f)
{
	while (accept(s, '[')) {
		const char *at = s->p;
		struct stx_span w = word(s, "");
		int64_t *into = is(w, "num_users") ? &f->users : is(w, "serial") ? &f->serial : NULL;
		if (!into || *into != -1)
			return fail(s, at, "expected num_users or serial, once");
		if (expect(s, '=') || parse_i64(s, into) || expect(s, ']'))
			return -1;
		if (*into < 0)
			return fail(s, at, "a count may not be negative");
	}
	return 0;
}

static int parse_head(struct parser *s, struct definition *f)
{
	*f = (struct definition){ .at = s->p, .ntypes = -1, .users = -1, .serial = -1 };
	s->p++; /* % */
	struct stx_span w = word(s, "");
	const char *name = (const char *)w.at;
	if (!stx__name_is_valid(name, w.n))
		return fail(s, f->at, "a name is letters, digits and _, does not begin with a digit, and "
		            "has at most %d characters", STX__MAX_NAME);
	if (stx__name_is_reserved(name, w.n))
		return fail(s, f->at, "'%.*s' is a Python builtin or keyword; name it %.*s_0", shown(w),
		            name, shown(w), name);
	if (stx__name_find(s->g, name, w.n))
		return fail(s, f->at, "%%%.*s is defined twice", shown(w), name);
	memcpy(f->name, name, w.n);
	f->name[w.n] = 0;
	if (accept(s, ':') && parse_types(s, f))
		return -1;
	return parse_attributes(s, f) || expect(s, '=');
}

static struct stx_node *parse_placeholder(struct parser *s, struct definition *f)
{
	const stx_ex *strides = NULL;
	int param = 0;
	if (f->ntypes != 1) {
		fail(s, f->at, "a placeholder must state one type");
		return NULL;
	}
	while (peek(s) != ')') {
		const char *at = s->p;
		struct stx_span w = word(s, "");
		if (is(w, "strides") && !strides) {
			if (expect(s, '=') || expect(s, '[') || parse_ex_list(s, ']', STX_MAX_DIMS))
				return NULL;
			if (s->exs.n != f->types[0].rank) {
				fail(s, at, "%u strides for rank %u", s->exs.n, f->types[0].rank);
				return NULL;
			}
			strides = stx_arena_copy(s->a, s->exs.at, s->exs.n * sizeof(stx_ex));
		} else if (is(w, "param")) {
			if (expect(s, '=') || parse_bool(s, &param))
				return NULL;
		} else {
			fail(s, at, "expected strides= or param=");
			return NULL;
		}
		if (!accept(s, ','))
			break;
	}
	if (expect(s, ')'))
		return NULL;
	return stx__graph_input_named(s->g, f->name, 1, f->types[0], strides, param, s->d);
}

static int parse_hex(struct parser *s, struct stx_bytes *out)
{
	const char *at = s->p;
	if (expect(s, '=') || expect(s, '\''))
		return -1;
	for (; s->end - s->p >= 2 && *s->p != '\''; s->p += 2) {
		int hi = hex_digit(s->p[0]), lo = hex_digit(s->p[1]);
		if (hi < 0 || lo < 0)
			return fail(s, s->p, "expected two hexadecimal digits");
		if (out->n > STX__MAX_CONST_BYTES)
			return fail(s, at, "a constant of more than %u bytes", STX__MAX_CONST_BYTES);
		stx_bytes_u8(out, (uint8_t)(hi << 4 | lo));
	}
	return expect(s, '\'');
}

static int put_element(struct parser *s, const char *at, enum stx_dtype t, int is_float, double f,
                       int64_t i, struct stx_bytes *out)
{
	float f32 = is_float ? (float)f : (float)i;
	double f64 = is_float ? f : (double)i;
	int bytes = stx_dtype_bytes(t), bits = bytes * 8;
	if (t == STX_F32)
		return stx_bytes_put(out, &f32, 4);
	if (t == STX_F64)
		return stx_bytes_put(out, &f64, 8);
	if (stx_dtype_is_float(t))
		return fail(s, at, "write %s constants as hex=", stx_dtype_name(t));
	if (is_float)
		return fail(s, at, "expected an integer");
	int64_t lo = stx_dtype_kind(t) == STX_KIND_INT ? -((int64_t)1 << (bits - 1)) : 0;
	int64_t hi = stx_dtype_kind(t) == STX_KIND_INT ? ~lo : bits == 64 ? INT64_MAX
	                                                                  : ((int64_t)1 << bits) - 1;
	if (t == STX_BOOL)
		hi = 1;
	if (i < lo || i > hi)
		return fail(s, at, "the value does not fit in %s", stx_dtype_name(t));
	return stx_bytes_put(out, &i, (size_t)bytes);
}

/* Elements written as numbers, row-major, in one flat list. */
static int parse_elements(struct parser *s, enum stx_dtype t, struct stx_bytes *out)
{
	while (peek(s) != ']') {
		const char *at = s->p;
		int is_float = 0;
		double f = 0;
		int64_t i = 0;
		if (accept_word(s, "True"))
			i = 1;
		else if (!accept_word(s, "False") && parse_number(s, &is_float, &f, &i))
			return -1;
		if (out->n > STX__MAX_CONST_BYTES)
			return fail(s, at, "a constant of more than %u bytes", STX__MAX_CONST_BYTES);
		if (put_element(s, at, t, is_float, f, i, out))
			return -1;
		if (!accept(s, ','))
			break;
	}
	return expect(s, ']');
}

static struct stx_node *parse_constant(struct parser *s, struct definition *f)
{
	struct stx_bytes data = { 0 };
	struct stx_node *n = NULL;
	if (f->ntypes != 1) {
		fail(s, f->at, "a constant must state one type");
		return NULL;
	}
	skip(s);
	int bad = accept(s, '[') ? parse_elements(s, f->types[0].dtype, &data)
	          : accept_word(s, "hex") ? parse_hex(s, &data)
	                                  : fail(s, s->p, "expected hex='...' or a list of numbers");
	if (!bad && data.oom)
		bad = over_budget(s, f->at);
	if (!bad && !expect(s, ')'))
		n = stx__graph_constant_named(s->g, f->name, 1, f->types[0], data.at ? data.at : (uint8_t *)"",
		                              data.n, s->d);
	stx_bytes_free(&data);
	return n;
}

static struct stx_node *parse_call(struct parser *s, struct definition *f, enum stx_op op)
{
	struct stx_arg args[MAX_PARAMS];
	const struct stx_op_info *info = stx_op_info(op);
	if (info->nparams > MAX_PARAMS) {
		failed(s, f->at, stx_fail(s->d, STX_E_INTERNAL, "parse", f->name, "too many parameters"));
		return NULL;
	}
	if (parse_call_args(s, info, args))
		return NULL;
	return stx__graph_call_named(s->g, op, f->name, 1, args, info->nparams, s->d);
}

static int check_types(struct parser *s, struct definition *f, const struct stx_node *n)
{
	if (f->ntypes < 0)
		return 0;
	if ((uint32_t)f->ntypes != n->nouts)
		return fail(s, f->at, "%%%s has %" PRIu32 " results, %d are stated", f->name, n->nouts,
		            f->ntypes);
	for (int i = 0; i < f->ntypes; i++) {
		if (stx_type_eq(&f->types[i], &n->outs[i]))
			continue;
		struct stx_bytes a = { 0 }, b = { 0 };
		stx__print_type(s->g, &f->types[i], &a);
		stx__print_type(s->g, &n->outs[i], &b);
		fail(s, f->at, "%%%s is stated as %s, but is %s", f->name, stx_bytes_cstr(&a),
		     stx_bytes_cstr(&b));
		stx_bytes_free(&a);
		stx_bytes_free(&b);
		return -1;
	}
	return 0;
}

static int parse_definition(struct parser *s)
{
	struct definition f;
	struct stx_node *n;
	if (parse_head(s, &f))
		return -1;
	skip(s);
	const char *at = s->p;
	struct stx_span w = word(s, ".");
	if (expect(s, '('))
		return -1;
	int op = stx_op_find((const char *)w.at, w.n);
	if (op < 0)
		return fail(s, at, "'%.*s' is not an operator overload", shown(w), (const char *)w.at);
	if (op == STX_OP_PLACEHOLDER)
		n = parse_placeholder(s, &f);
	else if (op == STX_OP_CONSTANT)
		n = parse_constant(s, &f);
	else
		n = parse_call(s, &f, (enum stx_op)op);
	if (!n)
		return s->err ? -1 : failed(s, f.at, s->d->code);
	if (f.serial >= 0) {
		if (!n->serial || f.serial == 0 || f.serial >= INT64_MAX / 2)
			return fail(s, f.at, "%%%s cannot have that serial", f.name);
		n->serial = (uint64_t)f.serial;
		if (s->g->next_serial <= n->serial)
			s->g->next_serial = n->serial + 1;
	}
	struct users u = { .node = n, .stated = (uint64_t)f.users, .at = f.at };
	if (f.users >= 0 && stx_push(s->a, &s->users, u))
		return over_budget(s, f.at);
	return check_types(s, &f, n);
}

static int parse_symbol(struct parser *s)
{
	const char *at = s->p;
	struct stx_symbol y = { 0 };
	struct stx_span w = word(s, "");
	stx_ex known = STX_EX_BAD;
	if (!stx__name_is_valid((const char *)w.at, w.n) || is(w, "None") || is(w, "min") || is(w, "max"))
		return fail(s, at, "not a name for a symbol");
	known = find_symbol(s->g, (const char *)w.at, w.n);
	if (known || s->g->symbols.n >= MAX_SYMBOLS)
		return fail(s, at, known ? "the symbol is declared twice" : "more than %u symbols",
		            MAX_SYMBOLS);
	if (expect(s, '=') || expect(s, '[') || parse_i64(s, &y.range.lo) || expect(s, ','))
		return -1;
	skip(s);
	if (accept_word(s, "inf"))
		y.range.hi = STX_POS_INF;
	else if (parse_i64(s, &y.range.hi))
		return -1;
	if (expect(s, ']') || expect_word(s, "hint") || parse_i64(s, &y.hint))
		return -1;
	if (y.range.lo < 0 || y.hint < y.range.lo || y.hint > y.range.hi)
		return fail(s, at, "a symbol needs 0 <= low <= hint <= high");
	y.name = stx_arena_strndup(s->a, (const char *)w.at, w.n);
	if (!y.name || stx_push(s->a, &s->g->symbols, y))
		return over_budget(s, at);
	return 0;
}

static int parse_return(struct parser *s)
{
	if (expect(s, '('))
		return -1;
	while (peek(s) != ')') {
		struct stx_val v = { 0 };
		const char *at = s->p, *name = NULL;
		if (parse_ref(s, &v))
			return -1;
		skip(s);
		if (accept_word(s, "as")) {
			skip(s);
			if (parse_string(s, &name))
				return -1;
		}
		stx_err e = stx_graph_output(s->g, v, name, s->d);
		if (e)
			return failed(s, at, e);
		if (!accept(s, ','))
			break;
	}
	if (expect(s, ')'))
		return -1;
	return peek(s) < 0 ? 0 : fail(s, s->p, "text after the return");
}

static int parse_graph(struct parser *s)
{
	for (;;) {
		int c = peek(s);
		const char *at = s->p;
		if (c == '%') {
			if (parse_definition(s))
				return -1;
		} else if (c >= 0 && accept_word(s, "sym")) {
			skip(s);
			if (parse_symbol(s))
				return -1;
		} else if (c >= 0 && accept_word(s, "return")) {
			return parse_return(s);
		} else {
			return fail(s, at, c < 0 ? "the text ends without a return"
			                         : "expected %%name, sym or return");
		}
	}
}

static int check_users(struct parser *s)
{
	stx_graph_count_users(s->g);
	for (uint32_t i = 0; i < s->users.n; i++) {
		const struct users *u = &s->users.at[i];
		if (u->node->num_users != u->stated)
			return fail(s, u->at, "%%%s has %" PRIu32 " users, not %" PRIu64, u->node->name,
			            u->node->num_users, u->stated);
	}
	return 0;
}

static void set_location(const struct parser *s)
{
	unsigned line = 1, column = 1;
	for (const char *p = s->text; p < s->bad && p < s->end; p++) {
		column++;
		if (*p == '\n') {
			line++;
			column = 1;
		}
	}
	stx_diag_at(s->d, "%u:%u", line, column);
}

stx_err stx_graph_parse(struct stx_arena *a, const char *text, size_t n, struct stx_graph **out,
                        struct stx_diag *d)
{
	struct stx_diag own = { 0 };
	struct parser s = { .a = a, .text = text, .p = text, .end = text + n, .d = d ? d : &own };
	*out = NULL;
	s.g = stx_graph_new(a);
	if (!s.g)
		return stx__over_budget("parse", "", d);
	if (parse_graph(&s) || check_users(&s)) {
		set_location(&s);
		return s.err ? s.err : STX_E_INVALID;
	}
	*out = s.g;
	return 0;
}
