/* parse.c
 * reads the text form of a loop program (text.c); for tools and tests, so input is validated
 * throughout.
 *
 * A body is read after its ranges, which follow it in the text: its lines are skipped first and
 * read once the axes are known. The result passes stx_loops_verify or parsing fails. Linear in the
 * text. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lower.h"
#include "scalar.h"

struct parse {
	const char *start, *p, *end;
	struct stx_loops *l;
	struct stx_exprs *ex;
	struct stx_arena *arena;
	struct stx_buffer *b; /* being read */
	STX_VEC(struct stx_binst) insts;
	struct stx_diag *d;
	stx_err err;
};

static int bad(struct parse *s, const char *what)
{
	const char *q;
	unsigned line = 1, column = 1;

	if (s->err)
		return 0;
	for (q = s->start; q < s->p; q++) {
		column = *q == '\n' ? 1 : column + 1;
		line += *q == '\n';
	}
	s->err = stx_fail(s->d, STX_E_INVALID, "parse", s->b && s->b->name ? s->b->name : "", "%s",
			  what);
	stx_diag_at(s->d, "%u:%u", line, column);
	return 0;
}

static int oom(struct parse *s)
{
	if (!s->err)
		s->err = stx_fail(s->d, STX_E_NOMEM, "parse", "", "out of memory budget");
	return 0;
}

/* Skips white space, then takes `word` when it is next. */
static int take(struct parse *s, const char *word)
{
	size_t n = strlen(word);

	while (s->p < s->end && isspace((unsigned char)*s->p))
		s->p++;
	if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
		return 0;
	s->p += n;
	return 1;
}

static int need(struct parse *s, const char *word)
{
	char text[64];

	if (s->err || take(s, word))
		return !s->err;
	snprintf(text, sizeof text, "expected '%.40s'", word);
	return bad(s, text);
}

/* Characters up to one of stop; NULL when there is none of them. */
static const char *until(struct parse *s, const char *stop, size_t *n)
{
	const char *from;

	while (s->p < s->end && *s->p == ' ')
		s->p++;
	from = s->p;
	while (s->p < s->end && !strchr(stop, *s->p))
		s->p++;
	*n = (size_t)(s->p - from);
	return s->p < s->end && *n ? from : NULL;
}

static const char *quoted(struct parse *s)
{
	const char *at;
	size_t n;

	if (!need(s, "'"))
		return NULL;
	at = until(s, "'\n", &n);
	if (!at || !need(s, "'"))
		return bad(s, "expected a name in quotes"), NULL;
	at = stx_arena_strndup(s->arena, at, n);
	return at ? at : (oom(s), NULL);
}

static int number(struct parse *s, uint32_t *out)
{
	uint64_t v = 0;
	const char *from;

	while (s->p < s->end && *s->p == ' ')
		s->p++;
	for (from = s->p; s->p < s->end && isdigit((unsigned char)*s->p) && v <= UINT32_MAX; s->p++)
		v = v * 10 + (uint64_t)(*s->p - '0');
	if (s->p == from || v >= UINT32_MAX)
		return bad(s, "expected a number");
	*out = (uint32_t)v;
	return 1;
}

static int dtype(struct parse *s, uint8_t *out)
{
	size_t n;
	const char *at = until(s, ",)\n ", &n);
	enum stx_dtype t = at ? stx_dtype_parse(at, (int)n) : STX_DTYPE_NONE;

	if (t == STX_DTYPE_NONE)
		return bad(s, "expected an element type");
	*out = (uint8_t)t;
	return 1;
}

/* ---- expressions ---- */

/* Number after prefix in name, or UINT32_MAX. */
static uint32_t suffix(const char *name, size_t n, const char *prefix)
{
	size_t k = strlen(prefix), i;
	uint64_t v = 0;

	if (n <= k || memcmp(name, prefix, k) != 0)
		return UINT32_MAX;
	for (i = k; i < n; i++) {
		if (!isdigit((unsigned char)name[i]) || v > 1000000)
			return UINT32_MAX;
		v = v * 10 + (uint64_t)(name[i] - '0');
	}
	return (uint32_t)v;
}

static stx_ex find_name(void *ctx, const char *name, size_t n)
{
	struct parse *s = ctx;
	uint32_t i, k;

	for (k = 0; k < s->l->g->symbols.n; k++) {
		const struct stx_symbol *y = &s->l->g->symbols.at[k];

		if (strlen(y->name) == n && !memcmp(y->name, name, n))
			return stx_ex_sym(s->ex, k, y->range, y->hint);
	}
	if (!s->b)
		return STX_EX_BAD;
	if ((i = suffix(name, n, "i")) < s->b->nranges)
		return stx__axis(s->ex, i, s->b->ranges[i]);
	if ((i = suffix(name, n, "r0_")) < s->b->nrranges)
		return stx__axis(s->ex, s->b->nranges + i, s->b->rranges[i]);
	if ((i = suffix(name, n, "tmp")) < s->insts.n && s->insts.at[i].op == STX_B_INDIRECT) {
		int64_t hi = stx_ex_interval(s->ex, s->insts.at[i].ex).hi;

		return stx_ex_indirect(s->ex, i,
				       (struct stx_interval){ 0, hi == STX_POS_INF ? hi
								 : hi > 0          ? hi - 1
										   : 0 });
	}
	return STX_EX_BAD;
}

static int expression(struct parse *s, stx_ex *out)
{
	if (s->err)
		return 0;
	while (s->p < s->end && *s->p == ' ')
		s->p++;
	s->err = stx_ex_parse(s->ex, &s->p, s->end, find_name, s, out, s->d);
	if (!s->err && *out == STX_EX_BAD)
		return bad(s, "an expression that overflows");
	return !s->err;
}

/* [e, e, ...], at most 2*STX_MAX_DIMS of them. */
static int list(struct parse *s, const stx_ex **out, uint32_t *n)
{
	stx_ex at[2 * STX_MAX_DIMS];

	*n = 0;
	if (!need(s, "["))
		return 0;
	while (!take(s, "]")) {
		if (*n == 2 * STX_MAX_DIMS)
			return bad(s, "too many dimensions");
		if ((*n && !need(s, ",")) || !expression(s, &at[*n]))
			return 0;
		++*n;
	}
	*out = stx_arena_copy(s->arena, at, (*n + 1) * sizeof *at);
	return *out ? 1 : oom(s);
}

/* ---- instructions ---- */

static int value_ref(struct parse *s, uint32_t *out)
{
	if (!need(s, "tmp") || !number(s, out))
		return 0;
	return *out < s->insts.n ? 1 : bad(s, "a value that is not defined before");
}

static int constant(struct parse *s, struct stx_binst *in)
{
	size_t n;
	const char *at = until(s, ",)\n", &n);
	char text[64], *stop;

	if (!at || n >= sizeof text)
		return bad(s, "expected a constant");
	memcpy(text, at, n);
	text[n] = 0;
	if (!need(s, ",") || !dtype(s, &in->dtype))
		return 0;
	if (!strcmp(text, "True") || !strcmp(text, "False")) {
		in->k.u = text[0] == 'T';
		return 1;
	}
	if (stx_dtype_is_float(in->dtype))
		in->k.f = stx_scalar_round(in->dtype, strtod(text, &stop));
	else if (stx_dtype_kind(in->dtype) == STX_KIND_UINT)
		in->k.u = strtoull(text, &stop, 10);
	else
		in->k.i = strtoll(text, &stop, 10);
	return *stop ? bad(s, "expected a constant") : 1;
}

static int optional_mask(struct parse *s, struct stx_binst *in)
{
	return !take(s, ", mask=") || value_ref(s, &in->c);
}

/* The name of a buffer before this one. */
static int earlier(struct parse *s, uint32_t *out)
{
	const char *name = quoted(s);
	uint32_t i;

	for (i = 0; name && i + 1 < s->l->buffers.n; i++)
		if (!strcmp(s->l->buffers.at[i]->name, name))
			break;
	if (!name || i + 1 >= s->l->buffers.n)
		return bad(s, "an unknown buffer");
	*out = i;
	return 1;
}

static int load(struct parse *s, struct stx_binst *in)
{
	if (!earlier(s, &in->a))
		return 0;
	in->dtype = (uint8_t)s->l->buffers.at[in->a]->dtype;
	return need(s, ",") && expression(s, &in->ex) && optional_mask(s, in);
}

static int indirect(struct parse *s, struct stx_binst *in)
{
	in->dtype = STX_I64;
	if (!need(s, "'") || !value_ref(s, &in->a) || !need(s, "'") || !need(s, ",") ||
	    !expression(s, &in->ex))
		return 0;
	if (take(s, ", wrap"))
		in->flags |= STX_BF_WRAP;
	if (take(s, ", check"))
		in->flags |= STX_BF_CHECK;
	if (take(s, ", axis=")) {
		uint32_t axis;

		if (!number(s, &axis) || axis > 255)
			return bad(s, "expected a dimension");
		in->axis = (uint8_t)axis;
	}
	return optional_mask(s, in);
}

static int primitive(struct parse *s, struct stx_binst *in)
{
	const struct stx_prim_info *info = stx_prim_info(in->op);
	uint32_t *operand[3] = { &in->a, &in->b, &in->c };
	int k;

	for (k = 0; k < info->arity && k < 3; k++)
		if ((k && !need(s, ",")) || !need(s, "'") || !value_ref(s, operand[k]) ||
		    !need(s, "'"))
			return 0;
	if (info->result == STX_RESULT_CAST)
		return need(s, ",") && dtype(s, &in->dtype);
	in->dtype = info->result == STX_RESULT_BOOL ? (uint8_t)STX_BOOL : s->insts.at[in->a].dtype;
	return 1;
}

/* `ops.NAME(...)` */
static int instruction(struct parse *s, struct stx_binst *in)
{
	static const struct {
		const char *name;
		uint8_t op;
		int (*read)(struct parse *s, struct stx_binst *in);
	} others[] = {
		{ "constant", STX_B_CONST, constant },
		{ "load", STX_B_LOAD, load },
		{ "indirect_indexing", STX_B_INDIRECT, indirect },
	};
	size_t n, k;
	const char *name;
	int prim;

	*in = (struct stx_binst){ .a = STX_NONE, .b = STX_NONE, .c = STX_NONE };
	if (!need(s, "ops.") || !(name = until(s, "(\n", &n)) || !need(s, "("))
		return bad(s, "expected an operation");
	for (k = 0; k < sizeof others / sizeof *others; k++)
		if (strlen(others[k].name) == n && !memcmp(others[k].name, name, n)) {
			in->op = others[k].op;
			return others[k].read(s, in) && need(s, ")");
		}
	if (n == 10 && !memcmp(name, "index_expr", n)) {
		in->op = STX_B_INDEX;
		return expression(s, &in->ex) && need(s, ",") && dtype(s, &in->dtype) &&
		       need(s, ")");
	}
	prim = stx_prim_parse(name, (int)n);
	if (prim < 0)
		return bad(s, "an unknown operation");
	in->op = (uint8_t)prim;
	return primitive(s, in) && need(s, ")");
}

static int body(struct parse *s)
{
	struct stx_body *b = &s->b->body;
	struct stx_binst in;
	uint32_t i = 0;

	s->insts.at = NULL;
	s->insts.n = s->insts.cap = 0;
	while (!take(s, "return")) {
		if (!need(s, "tmp") || !number(s, &i))
			return 0;
		if (i != s->insts.n)
			return bad(s, "values must be numbered in order");
		if (!need(s, "=") || !instruction(s, &in))
			return 0;
		if (stx_push(s->arena, &s->insts, in))
			return oom(s);
	}
	do {
		if (b->nresults == 3)
			return bad(s, "too many results");
		if (!value_ref(s, &b->result[b->nresults]))
			return 0;
		b->nresults++;
	} while (s->p < s->end && *s->p == ',' && s->p++);
	b->at = s->insts.at;
	b->n = s->insts.n;
	return 1;
}

/* ---- buffers ---- */

static int layout(struct parse *s)
{
	struct stx_buffer *b = s->b;
	uint32_t rank = 0, nstrides = 0;
	uint8_t t = 0;

	if (!need(s, "layout=FixedLayout(") || !dtype(s, &t) || !need(s, ", size=") ||
	    !list(s, &b->layout.sizes, &rank) || !need(s, ", stride=") ||
	    !list(s, &b->layout.strides, &nstrides))
		return 0;
	if (rank != nstrides || rank > STX_MAX_DIMS)
		return bad(s, "sizes and strides differ in number");
	b->dtype = (enum stx_dtype)t;
	b->layout.rank = (uint8_t)rank;
	b->layout.offset = stx_ex_const(s->ex, 0);
	return (!take(s, ", offset=") || expression(s, &b->layout.offset)) && need(s, ")");
}

/* Moves past the lines of a body; *from is its first instruction line. */
static int skip_body(struct parse *s, const char **from)
{
	const char *stop = memmem(s->p, (size_t)(s->end - s->p), "\n  ,\n", 5);
	const char *q;

	if (!stop || !need(s, "inner_fn(index") || !(take(s, ", rindex):") || take(s, "):")))
		return bad(s, "expected a body");
	while ((q = memchr(s->p, '\n', (size_t)(stop - s->p))) && q < stop) { /* axis lines */
		const char *eol = memchr(q + 1, '\n', (size_t)(s->end - q - 1));

		if (!eol || !memmem(q, (size_t)(eol - q), "index", 5) ||
		    memmem(q, (size_t)(eol - q), "ops.", 4))
			break;
		s->p = eol;
	}
	*from = s->p;
	s->p = stop + 4;
	return 1;
}

static int rule(struct parse *s, enum stx_realized *out)
{
	const char *text = quoted(s);

	for (int i = 0; text && i < STX_REALIZED_COUNT; i++)
		if (!strcmp(stx_realized_text((enum stx_realized)i), text)) {
			*out = (enum stx_realized)i;
			return 1;
		}
	return text ? bad(s, "no rule realises so") : 0;
}

static int origins(struct parse *s)
{
	STX_VEC(const char *) names = { 0 };
	const char *at;
	size_t n;

	if (!need(s, "["))
		return 0;
	while (!take(s, "]")) {
		if (names.n && !need(s, ","))
			return 0;
		at = until(s, ",]\n", &n);
		if (!at)
			return bad(s, "expected a name");
		if (n == 3 && !memcmp(at, "...", 3)) {
			s->b->has_more_origins = 1;
			if (!need(s, "]"))
				return 0;
			break;
		}
		at = stx_arena_strndup(s->arena, at, n);
		if (!at || stx_push(s->arena, &names, at))
			return oom(s);
	}
	s->b->origins = names.at;
	s->b->norigins = names.n;
	return 1;
}

static int reduction_fields(struct parse *s)
{
	size_t n;
	const char *name;
	uint8_t t = 0;
	uint32_t state = 0;
	int m;

	if (!need(s, "reduction_ranges=") || !list(s, &s->b->rranges, &s->b->nrranges) ||
	    !need(s, ",") || !need(s, "reduction_type=") || !(name = until(s, ",\n", &n)))
		return bad(s, "expected the fields of a reduction");
	m = stx_monoid_parse(name, (int)n);
	if (m < 0)
		return bad(s, "an unknown reduction");
	s->b->monoid = (enum stx_monoid)m;
	if (stx_monoid_info(s->b->monoid)->state > 1) {
		if (!need(s, ",") || !need(s, "state=") || !number(s, &state))
			return 0;
		s->b->state = (uint8_t)(state < 3 ? state : 3);
	}
	if (!need(s, ",") || !need(s, "acc=") || !dtype(s, &t) || !need(s, ","))
		return 0;
	s->b->acc = (enum stx_dtype)t;
	if (take(s, "reduction_limit=") && (!expression(s, &s->b->rlimit) || !need(s, ",")))
		return 0;
	s->b->is_merge = (uint8_t)take(s, "order=merge,");
	return 1;
}

static int scatter_fields(struct parse *s)
{
	size_t n;
	const char *name;
	int m;

	if (!need(s, "reduction_ranges=") || !list(s, &s->b->rranges, &s->b->nrranges) ||
	    !need(s, ",") || !need(s, "combine=") || !(name = until(s, ",\n", &n)))
		return bad(s, "expected the fields of a scatter");
	s->b->overwrite = n == 5 && !memcmp(name, "store", 5);
	m = s->b->overwrite ? 0 : stx_monoid_parse(name, (int)n);
	if (m < 0)
		return bad(s, "an unknown combination");
	s->b->monoid = (enum stx_monoid)m;
	return need(s, ",");
}

static int base_field(struct parse *s)
{
	uint32_t base;

	if (!earlier(s, &base) || !need(s, ","))
		return 0;
	s->b->base = s->l->buffers.at[base];
	if (s->b->base->heir)
		return bad(s, "memory that another buffer updates already");
	s->b->base->heir = s->b;
	return 1;
}

/* The line `store=...` of a scatter is read after the body, whose values it may name. */
static int skip_store(struct parse *s, const char **at)
{
	if (!need(s, "store="))
		return 0;
	*at = s->p;
	s->p = memchr(s->p, '\n', (size_t)(s->end - s->p));
	if (!s->p)
		s->p = s->end;
	return 1;
}

static int sort_fields(struct parse *s)
{
	struct stx_buffer *b = s->b;

	if (!need(s, "sort_range=") || !list(s, &b->rranges, &b->nrranges) || !need(s, ",") ||
	    !need(s, "scratch=[") || !earlier(s, &b->scratch[0]) || !need(s, ",") ||
	    !earlier(s, &b->scratch[1]) || !need(s, "],"))
		return 0;
	b->acc = s->l->buffers.at[b->scratch[0]]->dtype;
	return 1;
}

static int definition(struct parse *s)
{
	struct stx_buffer *b = s->b;
	const char *from, *after, *store = NULL;

	b->def = take(s, "Reduction(") ? STX_DEF_REDUCTION
		 : take(s, "Scatter(") ? STX_DEF_SCATTER
		 : take(s, "Sort(")    ? STX_DEF_SORT
				       : STX_DEF_POINTWISE;
	if ((b->def == STX_DEF_POINTWISE && !need(s, "Pointwise(")) || !need(s, "def") ||
	    !skip_body(s, &from) || !need(s, "ranges=") || !list(s, &b->ranges, &b->nranges) ||
	    !need(s, ","))
		return 0;
	b->acc = b->dtype;
	if ((b->def == STX_DEF_REDUCTION && !reduction_fields(s)) ||
	    (b->def == STX_DEF_SCATTER && !scatter_fields(s)) ||
	    (take(s, "base=") && !base_field(s)) ||
	    (b->def == STX_DEF_SCATTER && !skip_store(s, &store)))
		return 0;
	if (b->def == STX_DEF_SORT && !sort_fields(s))
		return 0;
	if (b->nranges + b->nrranges > 2 * STX_MAX_DIMS)
		return bad(s, "too many axes");
	b->store = stx__address(s->ex, (struct stx__shape){ b->layout.rank, b->layout.sizes },
				b->layout.strides, b->layout.offset);
	if (!store && take(s, "store=") && (!expression(s, &b->store) || !need(s, ",")))
		return 0;
	if (take(s, "message=") && (!(b->message = quoted(s)) || !need(s, ",")))
		return 0;
	if (!need(s, "realized_by=") || !rule(s, &b->rule) || !need(s, ",") ||
	    !need(s, "origins=") || !origins(s) || !need(s, ")"))
		return 0;
	after = s->p;
	s->p = from;
	if (!body(s))
		return 0;
	s->p = store;
	if (store && (!expression(s, &b->store) || !need(s, ",")))
		return 0;
	s->p = after;
	return 1;
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int data(struct parse *s)
{
	size_t n, i;
	const char *at;
	uint8_t *bytes;

	if (!need(s, "0x"))
		return 0;
	if (!(at = until(s, ")\n", &n)) || n % 2)
		return bad(s, "expected bytes in hexadecimal");
	bytes = stx_arena_alloc(s->arena, n / 2 + 1);
	if (!bytes)
		return oom(s);
	for (i = 0; i < n / 2; i++) {
		int hi = hex(at[2 * i]), lo = hex(at[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return bad(s, "expected bytes in hexadecimal");
		bytes[i] = (uint8_t)(hi << 4 | lo);
	}
	s->b->data = (struct stx_const_data){ bytes, n / 2 };
	return 1;
}

/* Puts the buffers of kind OUTPUT into their places; each of 0..n-1 once. */
static int place_outputs(struct parse *s)
{
	uint32_t i, n = 0;

	for (i = 0; i < s->l->buffers.n; i++)
		n += s->l->buffers.at[i]->kind == STX_BUF_OUTPUT;
	for (i = 0; i < n; i++)
		if (stx_push(s->arena, &s->l->outputs, STX_NONE))
			return oom(s);
	for (i = 0; i < s->l->buffers.n; i++) {
		const struct stx_buffer *b = s->l->buffers.at[i];

		if (b->kind != STX_BUF_OUTPUT)
			continue;
		if (b->index >= n || s->l->outputs.at[b->index] != STX_NONE)
			return bad(s, "outputs must be numbered from 0, each once");
		s->l->outputs.at[b->index] = b->id;
	}
	return 1;
}

static int buffer(struct parse *s, enum stx_buffer_kind kind, int is_scratch)
{
	struct stx_buffer *b = s->b = STX_NEW(s->arena, struct stx_buffer);

	if (!b)
		return oom(s);
	b->kind = kind;
	b->id = s->l->buffers.n;
	if (stx_push(s->arena, &s->l->buffers, b))
		return oom(s);
	if (!need(s, "name=") || !(b->name = quoted(s)) || !need(s, ",") || !layout(s))
		return 0;
	if (is_scratch) {
		b->def = STX_DEF_SCRATCH;
		return need(s, ")");
	}
	if (kind == STX_BUF_INPUT)
		return need(s, ", input=") && number(s, &b->index) && need(s, ")");
	if (kind == STX_BUF_CONST)
		return need(s, ", data=") && data(s) && need(s, ")");
	if (take(s, ", output=")) {
		b->kind = STX_BUF_OUTPUT;
		if (!number(s, &b->index))
			return 0;
	}
	return need(s, ", data=") && definition(s) && need(s, ")");
}

/* A decimal in all of 64 bits: the ends stand for infinities. */
static int integer(struct parse *s, int64_t *out)
{
	char text[32], *stop;
	size_t n;
	const char *at = until(s, ",])\n", &n);

	if (!at || n >= sizeof text)
		return bad(s, "expected a number");
	memcpy(text, at, n);
	text[n] = 0;
	*out = strtoll(text, &stop, 10);
	return *stop ? bad(s, "expected a number") : 1;
}

static int symbol(struct parse *s)
{
	struct stx_symbol y = { 0 };

	s->b = NULL;
	if (!need(s, "name=") || !(y.name = quoted(s)) || !need(s, ", range=[") ||
	    !integer(s, &y.range.lo) || !need(s, ",") || !integer(s, &y.range.hi) ||
	    !need(s, "], hint=") || !integer(s, &y.hint))
		return 0;
	return stx_push(s->arena, &s->l->g->symbols, y) ? oom(s) : need(s, ")");
}

stx_err stx_loops_parse(struct stx_arena *a, const char *text, size_t n, struct stx_loops **out,
			struct stx_diag *d)
{
	struct parse s = { .start = text, .p = text, .end = text + n, .arena = a, .d = d };

	s.l = STX_NEW(a, struct stx_loops);
	if (s.l)
		s.l->g = stx_graph_new(a);
	if (!s.l || !s.l->g)
		return stx_fail(d, STX_E_NOMEM, "parse", "", "out of memory budget");
	s.ex = s.l->ex = s.l->g->ex;
	while (!s.err) {
		if (take(&s, "InputBuffer("))
			buffer(&s, STX_BUF_INPUT, 0);
		else if (take(&s, "ConstantBuffer("))
			buffer(&s, STX_BUF_CONST, 0);
		else if (take(&s, "ComputedBuffer("))
			buffer(&s, STX_BUF_TEMP, 0);
		else if (take(&s, "ScratchBuffer("))
			buffer(&s, STX_BUF_TEMP, 1);
		else if (take(&s, "Symbol("))
			symbol(&s);
		else
			break;
	}
	if (!s.err && s.p != s.end)
		bad(&s, "expected a buffer");
	if (!s.err)
		place_outputs(&s);
	if (!s.err)
		s.err = stx_loops_verify(s.l, d);
	if (!s.err)
		*out = s.l;
	return s.err;
}
