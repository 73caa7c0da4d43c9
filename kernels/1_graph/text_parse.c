/* text_parse.c: the text form of graphs, read. Hostile input: one pass, no recursion, every error
 * carries line:column. Statements delimit themselves, so line ends are plain space. */
#include <inttypes.h>
#include <string.h>

#include "passes.h"
#include "text_tokens.h"

#define MAX_SYMBOLS 256u

struct definition {
	const char *at;
	char name[STX__MAX_NAME + 1];
	struct stx_type *types; /* stated results */
	int ntypes;             /* -1: not stated */
	int64_t users, serial;  /* -1: not stated */
};

static int parse_types(struct stx__parser *s, struct definition *f)
{
	STX_VEC(struct stx_type) v = { 0 };
	int many = stx__t_accept(s, '(');
	while (!many || stx__t_peek(s) != ')') {
		struct stx_type t;
		if (v.n >= STX_MAX_RESULTS)
			return stx__t_fail(s, s->p, "more than %d results", STX_MAX_RESULTS);
		if (stx__t_type(s, &t))
			return -1;
		if (stx_push(s->a, &v, t))
			return stx__t_over_budget(s, s->p);
		if (!many || !stx__t_accept(s, ','))
			break;
	}
	f->types = v.at;
	f->ntypes = (int)v.n;
	return many ? stx__t_expect(s, ')') : 0;
}

static int parse_attributes(struct stx__parser *s, struct definition *f)
{
	while (stx__t_accept(s, '[')) {
		const char *at = s->p;
		struct stx_span w = stx__t_word(s, "");
		int64_t *into = stx__t_is(w, "num_users") ? &f->users
				: stx__t_is(w, "serial")  ? &f->serial
							  : NULL;
		if (!into || *into != -1)
			return stx__t_fail(s, at, "expected num_users or serial, once");
		if (stx__t_expect(s, '=') || stx__t_i64(s, into) || stx__t_expect(s, ']'))
			return -1;
		if (*into < 0)
			return stx__t_fail(s, at, "a count may not be negative");
	}
	return 0;
}

static int parse_head(struct stx__parser *s, struct definition *f)
{
	*f = (struct definition){ .at = s->p, .ntypes = -1, .users = -1, .serial = -1 };
	s->p++; /* % */
	struct stx_span w = stx__t_word(s, "");
	const char *name = (const char *)w.at;
	if (!stx__name_is_valid(name, w.n))
		return stx__t_fail(
			s, f->at,
			"a name is letters, digits and _, does not begin with a digit, and "
			"has at most %d characters",
			STX__MAX_NAME);
	if (stx__name_is_reserved(name, w.n))
		return stx__t_fail(s, f->at,
				   "'%.*s' is a Python builtin or keyword; name it %.*s_0",
				   stx__t_shown(w), name, stx__t_shown(w), name);
	if (stx__name_find(s->g, name, w.n))
		return stx__t_fail(s, f->at, "%%%.*s is defined twice", stx__t_shown(w), name);
	memcpy(f->name, name, w.n);
	f->name[w.n] = 0;
	s->node = f->name;
	if (stx__t_accept(s, ':') && parse_types(s, f))
		return -1;
	return parse_attributes(s, f) || stx__t_expect(s, '=');
}

static struct stx_node *parse_placeholder(struct stx__parser *s, struct definition *f)
{
	const stx_ex *strides = NULL;
	int param = 0, donated = 0;
	if (f->ntypes != 1) {
		stx__t_fail(s, f->at, "a placeholder must state one type");
		return NULL;
	}
	while (stx__t_peek(s) != ')') {
		const char *at = s->p;
		struct stx_span w = stx__t_word(s, "");
		if (stx__t_is(w, "strides") && !strides) {
			if (stx__t_expect(s, '=') || stx__t_expect(s, '[') ||
			    stx__t_ex_list(s, ']', STX_MAX_DIMS))
				return NULL;
			if (s->exs.n != f->types[0].rank) {
				stx__t_fail(s, at, "%u strides for rank %u", s->exs.n,
					    f->types[0].rank);
				return NULL;
			}
			strides = stx_arena_copy(s->a, s->exs.at, s->exs.n * sizeof(stx_ex));
		} else if (stx__t_is(w, "param")) {
			if (stx__t_expect(s, '=') || stx__t_bool(s, &param))
				return NULL;
		} else if (stx__t_is(w, "donated")) {
			if (stx__t_expect(s, '=') || stx__t_bool(s, &donated))
				return NULL;
		} else {
			stx__t_fail(s, at, "expected strides=, param= or donated=");
			return NULL;
		}
		if (!stx__t_accept(s, ','))
			break;
	}
	if (stx__t_expect(s, ')'))
		return NULL;
	struct stx_node *n =
		stx__graph_input_named(s->g, f->name, 1, f->types[0], strides, param, s->d);
	if (n)
		n->is_donated = donated != 0;
	return n;
}

static int parse_hex(struct stx__parser *s, struct stx_bytes *out)
{
	const char *at = s->p;
	if (stx__t_expect(s, '=') || stx__t_expect(s, '\''))
		return -1;
	for (; s->end - s->p >= 2 && *s->p != '\''; s->p += 2) {
		int hi = stx__t_hex_digit(s->p[0]), lo = stx__t_hex_digit(s->p[1]);
		if (hi < 0 || lo < 0)
			return stx__t_fail(s, s->p, "expected two hexadecimal digits");
		if (out->n > STX__MAX_CONST_BYTES)
			return stx__t_fail(s, at, "a constant of more than %u bytes",
					   STX__MAX_CONST_BYTES);
		stx_bytes_u8(out, (uint8_t)(hi << 4 | lo));
	}
	return stx__t_expect(s, '\'');
}

static int put_element(struct stx__parser *s, const char *at, enum stx_dtype t, int is_float,
		       double f, int64_t i, struct stx_bytes *out)
{
	float f32 = is_float ? (float)f : (float)i;
	double f64 = is_float ? f : (double)i;
	int bytes = stx_dtype_bytes(t), bits = bytes * 8;
	if (t == STX_F32)
		return stx_bytes_put(out, &f32, 4);
	if (t == STX_F64)
		return stx_bytes_put(out, &f64, 8);
	if (stx_dtype_is_float(t))
		return stx__t_fail(s, at, "write %s constants as hex=", stx_dtype_name(t));
	if (is_float)
		return stx__t_fail(s, at, "expected an integer");
	int64_t hi = bits == 64 ? INT64_MAX
				: ((int64_t)1 << (bits - (stx_dtype_kind(t) == STX_KIND_INT))) - 1;
	int64_t lo = stx_dtype_kind(t) == STX_KIND_INT ? -hi - 1 : 0;
	if (t == STX_BOOL)
		hi = 1;
	if (i < lo || i > hi)
		return stx__t_fail(s, at, "the value does not fit in %s", stx_dtype_name(t));
	return stx_bytes_put(out, &i, (size_t)bytes);
}

/* Elements written as numbers, row-major, in one flat list. */
static int parse_elements(struct stx__parser *s, enum stx_dtype t, struct stx_bytes *out)
{
	while (stx__t_peek(s) != ']') {
		const char *at = s->p;
		int is_float = 0;
		double f = 0;
		int64_t i = 0;
		if (stx__t_accept_word(s, "True"))
			i = 1;
		else if (!stx__t_accept_word(s, "False") && stx__t_number(s, &is_float, &f, &i))
			return -1;
		if (out->n > STX__MAX_CONST_BYTES)
			return stx__t_fail(s, at, "a constant of more than %u bytes",
					   STX__MAX_CONST_BYTES);
		if (put_element(s, at, t, is_float, f, i, out))
			return -1;
		if (!stx__t_accept(s, ','))
			break;
	}
	return stx__t_expect(s, ']');
}

static struct stx_node *parse_constant(struct stx__parser *s, struct definition *f)
{
	struct stx_bytes data = { 0 };
	struct stx_node *n = NULL;
	if (f->ntypes != 1) {
		stx__t_fail(s, f->at, "a constant must state one type");
		return NULL;
	}
	stx__t_skip(s);
	int bad = stx__t_accept(s, '[') ? parse_elements(s, f->types[0].dtype, &data)
		  : stx__t_accept_word(s, "hex")
			  ? parse_hex(s, &data)
			  : stx__t_fail(s, s->p, "expected hex='...' or a list of numbers");
	if (!bad && data.oom)
		bad = stx__t_over_budget(s, f->at);
	if (!bad && !stx__t_expect(s, ')'))
		n = stx__graph_constant_named(s->g, f->name, 1, f->types[0],
					      data.at ? data.at : (uint8_t *)"", data.n, s->d);
	stx_bytes_free(&data);
	return n;
}

static struct stx_node *parse_call(struct stx__parser *s, struct definition *f, enum stx_op op,
				   unsigned how)
{
	struct stx_arg args[STX__T_MAX_PARAMS] = { 0 };
	const struct stx_op_info *info = stx_op_info(op);
	if (info->nparams > STX__T_MAX_PARAMS) {
		stx__t_failed(
			s, f->at,
			stx_fail(s->d, STX_E_INTERNAL, "parse", f->name, "too many parameters"));
		return NULL;
	}
	if (stx__t_args(s, info, args))
		return NULL;
	return stx__graph_call_named(s->g, op, f->name, STX__EXACT | how, args, info->nparams,
				     s->d);
}

static int check_types(struct stx__parser *s, struct definition *f, const struct stx_node *n)
{
	if (f->ntypes < 0)
		return 0;
	if ((uint32_t)f->ntypes != n->nouts)
		return stx__t_fail(s, f->at, "%%%s has %" PRIu32 " results, %d are stated", f->name,
				   n->nouts, f->ntypes);
	for (int i = 0; i < f->ntypes; i++) {
		if (stx_type_eq(&f->types[i], &n->outs[i]))
			continue;
		struct stx_bytes a = { 0 }, b = { 0 };
		stx__print_type(s->g, &f->types[i], &a);
		stx__print_type(s->g, &n->outs[i], &b);
		stx__t_fail(s, f->at, "%%%s is stated as %s, but is %s", f->name,
			    stx_bytes_cstr(&a), stx_bytes_cstr(&b));
		stx_bytes_free(&a);
		stx_bytes_free(&b);
		return -1;
	}
	return 0;
}

static int parse_definition(struct stx__parser *s)
{
	struct definition f;
	struct stx_node *n;
	if (parse_head(s, &f))
		return -1;
	stx__t_skip(s);
	const char *at = s->p;
	struct stx_span w = stx__t_word(s, ".");
	if (stx__t_expect(s, '('))
		return -1;
	unsigned how = 0;
	int op = stx_op_find((const char *)w.at, w.n);
	if (op < 0 && (op = stx_op_find_in_place((const char *)w.at, w.n)) >= 0)
		how = STX__IN_PLACE;
	if (op < 0) {
		const char *why = stx_op_refusal((const char *)w.at, w.n);
		if (why)
			return stx__t_fail(s, at, "'%.*s' is not supported: %s", stx__t_shown(w),
					   (const char *)w.at, why);
		const char *near = stx_op_nearest((const char *)w.at, w.n);
		return stx__t_fail(s, at, "'%.*s' is not an operator overload%s%s%s",
				   stx__t_shown(w), (const char *)w.at,
				   near ? ": did you mean '" : "", near ? near : "",
				   near ? "'?" : "");
	}
	if (op == STX_OP_PLACEHOLDER)
		n = parse_placeholder(s, &f);
	else if (op == STX_OP_CONSTANT)
		n = parse_constant(s, &f);
	else
		n = parse_call(s, &f, (enum stx_op)op, how);
	if (!n)
		return s->err ? -1 : stx__t_failed(s, f.at, s->d->code);
	if (f.serial >= 0) {
		if (!n->serial || f.serial == 0 || f.serial >= INT64_MAX / 2)
			return stx__t_fail(s, f.at, "%%%s cannot have that serial", f.name);
		n->serial = (uint64_t)f.serial;
		if (s->g->next_serial <= n->serial)
			s->g->next_serial = n->serial + 1;
	}
	struct stx__users u = { .node = n, .stated = (uint64_t)f.users, .at = f.at };
	if (f.users >= 0 && stx_push(s->a, &s->users, u))
		return stx__t_over_budget(s, f.at);
	return check_types(s, &f, n);
}

static int parse_symbol(struct stx__parser *s)
{
	const char *at = s->p;
	struct stx_symbol y = { 0 };
	struct stx_span w = stx__t_word(s, "");
	stx_ex known = STX_EX_BAD;
	if (!stx_symbol_name_is_valid((const char *)w.at, w.n))
		return stx__t_fail(s, at, "not a name for a symbol");
	known = stx__t_symbol(s->g, (const char *)w.at, w.n);
	if (known || s->g->symbols.n >= MAX_SYMBOLS)
		return stx__t_fail(s, at,
				   known ? "the symbol is declared twice" : "more than %u symbols",
				   MAX_SYMBOLS);
	if (stx__t_expect(s, '=') || stx__t_expect(s, '[') || stx__t_i64(s, &y.range.lo) ||
	    stx__t_expect(s, ','))
		return -1;
	stx__t_skip(s);
	if (stx__t_accept_word(s, "inf"))
		y.range.hi = STX_POS_INF;
	else if (stx__t_i64(s, &y.range.hi))
		return -1;
	if (stx__t_expect(s, ']') || stx__t_expect_word(s, "hint") || stx__t_i64(s, &y.hint))
		return -1;
	if (y.range.lo < 0 || y.hint < y.range.lo || y.hint > y.range.hi)
		return stx__t_fail(s, at, "a symbol needs 0 <= low <= hint <= high");
	y.name = stx_arena_strndup(s->a, (const char *)w.at, w.n);
	if (!y.name || stx_push(s->a, &s->g->symbols, y))
		return stx__t_over_budget(s, at);
	return 0;
}

/* An input that stands at position first or behind it; *out: 1 + its position. */
static int parse_input(struct stx__parser *s, uint32_t first, const char *expected, uint32_t *out)
{
	const char *at = s->p;
	struct stx_val x = { 0 };
	uint32_t i = first;
	stx__t_skip(s);
	if (stx__t_ref(s, &x))
		return -1;
	while (i < s->g->inputs.n && s->g->inputs.at[i].node != x.node)
		i++;
	*out = i + 1;
	return i < s->g->inputs.n ? 0 : stx__t_fail(s, at, "%s", expected);
}

/* to %x: the output is what input x holds after the run; in %x: it is that input. */
static int parse_place(struct stx__parser *s)
{
	struct stx_output *o = &s->g->outputs.at[s->g->outputs.n - 1];
	stx__t_skip(s);
	if (!o->name && stx__t_accept_word(s, "to"))
		return parse_input(s, s->g->outputs.n > 1 ? o[-1].writes : 0,
				   "expected an input behind those already written", &o->writes);
	return stx__t_accept_word(s, "in")
		       ? parse_input(s, 0, "expected an input that is written", &o->within)
		       : 0;
}

static int parse_return(struct stx__parser *s)
{
	if (stx__t_expect(s, '('))
		return -1;
	while (stx__t_peek(s) != ')') {
		struct stx_val v = { 0 };
		const char *at = s->p, *name = NULL;
		if (stx__t_ref(s, &v))
			return -1;
		stx__t_skip(s);
		if (stx__t_accept_word(s, "as")) {
			stx__t_skip(s);
			if (stx__t_string(s, &name))
				return -1;
		}
		stx_err e = stx_graph_output(s->g, v, name, s->d);
		if (e)
			return stx__t_failed(s, at, e);
		if (parse_place(s))
			return -1;
		if (!stx__t_accept(s, ','))
			break;
	}
	if (stx__t_expect(s, ')'))
		return -1;
	return stx__t_peek(s) < 0 ? 0 : stx__t_fail(s, s->p, "text after the return");
}

static int parse_graph(struct stx__parser *s)
{
	for (;;) {
		int c = stx__t_peek(s);
		const char *at = s->p;
		if (c == '%') {
			if (parse_definition(s))
				return -1;
			s->node = ""; /* was in what is gone now */
		} else if (c >= 0 && stx__t_accept_word(s, "sym")) {
			stx__t_skip(s);
			if (parse_symbol(s))
				return -1;
		} else if (c >= 0 && stx__t_accept_word(s, "return")) {
			return parse_return(s);
		} else {
			return stx__t_fail(s, at,
					   c < 0 ? "the text ends without a return"
						 : "expected %%name, sym or return");
		}
	}
}

static int check_users(struct stx__parser *s)
{
	const uint32_t *users = s->users.n ? stx_graph_users(s->g, s->a) : NULL;
	if (s->users.n && !users)
		return stx__t_over_budget(s, s->p);
	for (uint32_t i = 0; i < s->users.n; i++) {
		const struct stx__users *u = &s->users.at[i];
		if (users[u->node->id] != u->stated)
			return stx__t_fail(s, u->at, "%%%s has %" PRIu32 " users, not %" PRIu64,
					   u->node->name, users[u->node->id], u->stated);
	}
	return 0;
}

static void set_location(const struct stx__parser *s)
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
	struct stx__parser s = {
		.a = a, .text = text, .p = text, .end = text + n, .d = d ? d : &own, .node = ""
	};
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
