/* parse.c
 * reads the text form of a loop program (text.c); for tools and tests, so input is validated
 * throughout. parse_tokens.c has its words and expressions.
 *
 * A body is read after its ranges, which follow it in the text: its lines are skipped first and
 * read once the axes are known. The result passes stx_loops_verify or parsing fails. Linear in the
 * text. */
#include <stdlib.h>
#include <string.h>

#include "parse_tokens.h"
#include "scalar.h"

/* ---- instructions ---- */

static int value_ref(struct stx__parse *s, uint32_t *out)
{
	if (!stx__p_need(s, "tmp") || !stx__p_number(s, out))
		return 0;
	return *out < s->insts.n ? 1 : stx__p_bad(s, "a value that is not defined before");
}

static int constant(struct stx__parse *s, struct stx_binst *in)
{
	size_t n;
	const char *at = stx__p_until(s, ",)\n", &n);
	char text[64], *stop;

	if (!at || n >= sizeof text)
		return stx__p_bad(s, "expected a constant");
	memcpy(text, at, n);
	text[n] = 0;
	if (!stx__p_need(s, ",") || !stx__p_dtype(s, &in->dtype))
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
	return *stop ? stx__p_bad(s, "expected a constant") : 1;
}

static int optional_mask(struct stx__parse *s, struct stx_binst *in)
{
	return !stx__p_take(s, ", mask=") || value_ref(s, &in->c);
}

/* The name of a buffer before this one. */
static int earlier(struct stx__parse *s, uint32_t *out)
{
	const char *name = stx__p_quoted(s);
	uint32_t i;

	for (i = 0; name && i + 1 < s->l->buffers.n; i++)
		if (!strcmp(s->l->buffers.at[i]->name, name))
			break;
	if (!name || i + 1 >= s->l->buffers.n)
		return stx__p_bad(s, "an unknown buffer");
	*out = i;
	return 1;
}

static int load(struct stx__parse *s, struct stx_binst *in)
{
	if (!earlier(s, &in->a))
		return 0;
	in->dtype = (uint8_t)s->l->buffers.at[in->a]->dtype;
	return stx__p_need(s, ",") && stx__p_expression(s, &in->ex) && optional_mask(s, in);
}

static int indirect(struct stx__parse *s, struct stx_binst *in)
{
	in->dtype = STX_I64;
	if (!stx__p_need(s, "'") || !value_ref(s, &in->a) || !stx__p_need(s, "'") ||
	    !stx__p_need(s, ",") || !stx__p_expression(s, &in->ex))
		return 0;
	if (stx__p_take(s, ", wrap"))
		in->flags |= STX_BF_WRAP;
	if (stx__p_take(s, ", check"))
		in->flags |= STX_BF_CHECK;
	if (stx__p_take(s, ", axis=")) {
		uint32_t axis;

		if (!stx__p_number(s, &axis) || axis > 255)
			return stx__p_bad(s, "expected a dimension");
		in->axis = (uint8_t)axis;
	}
	return optional_mask(s, in);
}

static int primitive(struct stx__parse *s, struct stx_binst *in)
{
	const struct stx_prim_info *info = stx_prim_info(in->op);
	uint32_t *operand[3] = { &in->a, &in->b, &in->c };
	int k;

	for (k = 0; k < info->arity && k < 3; k++)
		if ((k && !stx__p_need(s, ",")) || !stx__p_need(s, "'") ||
		    !value_ref(s, operand[k]) || !stx__p_need(s, "'"))
			return 0;
	if (info->result == STX_RESULT_CAST)
		return stx__p_need(s, ",") && stx__p_dtype(s, &in->dtype);
	in->dtype = info->result == STX_RESULT_BOOL ? (uint8_t)STX_BOOL : s->insts.at[in->a].dtype;
	return 1;
}

/* `ops.NAME(...)` */
static int instruction(struct stx__parse *s, struct stx_binst *in)
{
	static const struct {
		const char *name;
		uint8_t op;
		int (*read)(struct stx__parse *s, struct stx_binst *in);
	} others[] = {
		{ "constant", STX_B_CONST, constant },
		{ "load", STX_B_LOAD, load },
		{ "indirect_indexing", STX_B_INDIRECT, indirect },
	};
	size_t n, k;
	const char *name;
	int prim;

	*in = (struct stx_binst){ .a = STX_NONE, .b = STX_NONE, .c = STX_NONE };
	if (!stx__p_need(s, "ops.") || !(name = stx__p_until(s, "(\n", &n)) || !stx__p_need(s, "("))
		return stx__p_bad(s, "expected an operation");
	for (k = 0; k < sizeof others / sizeof *others; k++)
		if (strlen(others[k].name) == n && !memcmp(others[k].name, name, n)) {
			in->op = others[k].op;
			return others[k].read(s, in) && stx__p_need(s, ")");
		}
	if (n == 10 && !memcmp(name, "index_expr", n)) {
		in->op = STX_B_INDEX;
		return stx__p_expression(s, &in->ex) && stx__p_need(s, ",") &&
		       stx__p_dtype(s, &in->dtype) && stx__p_need(s, ")");
	}
	prim = stx_prim_parse(name, (int)n);
	if (prim < 0)
		return stx__p_bad(s, "an unknown operation");
	in->op = (uint8_t)prim;
	return primitive(s, in) && stx__p_need(s, ")");
}

static int body(struct stx__parse *s)
{
	struct stx_body *b = &s->b->body;
	struct stx_binst in;
	uint32_t i = 0;

	s->insts.at = NULL;
	s->insts.n = s->insts.cap = 0;
	while (!stx__p_take(s, "return")) {
		if (!stx__p_need(s, "tmp") || !stx__p_number(s, &i))
			return 0;
		if (i != s->insts.n)
			return stx__p_bad(s, "values must be numbered in order");
		if (!stx__p_need(s, "=") || !instruction(s, &in))
			return 0;
		if (stx_push(s->arena, &s->insts, in))
			return stx__p_oom(s);
	}
	do {
		if (b->nresults == 3)
			return stx__p_bad(s, "too many results");
		if (!value_ref(s, &b->result[b->nresults]))
			return 0;
		b->nresults++;
	} while (s->p < s->end && *s->p == ',' && s->p++);
	b->at = s->insts.at;
	b->n = s->insts.n;
	return 1;
}

/* ---- buffers ---- */

static int layout(struct stx__parse *s)
{
	struct stx_buffer *b = s->b;
	uint32_t rank = 0, nstrides = 0;
	uint8_t t = 0;

	if (!stx__p_need(s, "layout=FixedLayout(") || !stx__p_dtype(s, &t) ||
	    !stx__p_need(s, ", size=") || !stx__p_list(s, &b->layout.sizes, &rank) ||
	    !stx__p_need(s, ", stride=") || !stx__p_list(s, &b->layout.strides, &nstrides))
		return 0;
	if (rank != nstrides || rank > STX_MAX_DIMS)
		return stx__p_bad(s, "sizes and strides differ in number");
	b->dtype = (enum stx_dtype)t;
	b->layout.rank = (uint8_t)rank;
	b->layout.offset = stx_ex_const(s->ex, 0);
	return (!stx__p_take(s, ", offset=") || stx__p_expression(s, &b->layout.offset)) &&
	       stx__p_need(s, ")");
}

/* Moves past the lines of a body; *from is its first instruction line. */
static int skip_body(struct stx__parse *s, const char **from)
{
	const char *stop = memmem(s->p, (size_t)(s->end - s->p), "\n  ,\n", 5);
	const char *q;

	if (!stop || !stx__p_need(s, "inner_fn(index") ||
	    !(stx__p_take(s, ", rindex):") || stx__p_take(s, "):")))
		return stx__p_bad(s, "expected a body");
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

static int rule(struct stx__parse *s, enum stx_realized *out)
{
	const char *text = stx__p_quoted(s);

	for (int i = 0; text && i < STX_REALIZED_COUNT; i++)
		if (!strcmp(stx_realized_text((enum stx_realized)i), text)) {
			*out = (enum stx_realized)i;
			return 1;
		}
	return text ? stx__p_bad(s, "no rule realises so") : 0;
}

static int origins(struct stx__parse *s)
{
	STX_VEC(const char *) names = { 0 };
	const char *at;
	size_t n;

	if (!stx__p_need(s, "["))
		return 0;
	while (!stx__p_take(s, "]")) {
		if (names.n && !stx__p_need(s, ","))
			return 0;
		at = stx__p_until(s, ",]\n", &n);
		if (!at)
			return stx__p_bad(s, "expected a name");
		if (n == 3 && !memcmp(at, "...", 3)) {
			s->b->has_more_origins = 1;
			if (!stx__p_need(s, "]"))
				return 0;
			break;
		}
		at = stx_arena_strndup(s->arena, at, n);
		if (!at || stx_push(s->arena, &names, at))
			return stx__p_oom(s);
	}
	s->b->origins = names.at;
	s->b->norigins = names.n;
	return 1;
}

static int reduction_fields(struct stx__parse *s)
{
	size_t n;
	const char *name;
	uint8_t t = 0;
	uint32_t state = 0;
	int m;

	if (!stx__p_need(s, "reduction_ranges=") ||
	    !stx__p_list(s, &s->b->rranges, &s->b->nrranges) || !stx__p_need(s, ",") ||
	    !stx__p_need(s, "reduction_type=") || !(name = stx__p_until(s, ",\n", &n)))
		return stx__p_bad(s, "expected the fields of a reduction");
	m = stx_monoid_parse(name, (int)n);
	if (m < 0)
		return stx__p_bad(s, "an unknown reduction");
	s->b->monoid = (enum stx_monoid)m;
	if (stx_monoid_info(s->b->monoid)->state > 1) {
		if (!stx__p_need(s, ",") || !stx__p_need(s, "state=") || !stx__p_number(s, &state))
			return 0;
		s->b->state = (uint8_t)(state < 3 ? state : 3);
	}
	if (!stx__p_need(s, ",") || !stx__p_need(s, "acc=") || !stx__p_dtype(s, &t) ||
	    !stx__p_need(s, ","))
		return 0;
	s->b->acc = (enum stx_dtype)t;
	if (stx__p_take(s, "reduction_limit=") &&
	    (!stx__p_expression(s, &s->b->rlimit) || !stx__p_need(s, ",")))
		return 0;
	s->b->is_merge = (uint8_t)stx__p_take(s, "order=merge,");
	s->b->is_by_rows = stx__p_take(s, "order=whole rows,") ? 2
			   : stx__p_take(s, "order=rows,")     ? 1
							       : 0;
	return 1;
}

static int scatter_fields(struct stx__parse *s)
{
	size_t n;
	const char *name;
	int m;

	if (!stx__p_need(s, "reduction_ranges=") ||
	    !stx__p_list(s, &s->b->rranges, &s->b->nrranges) || !stx__p_need(s, ",") ||
	    !stx__p_need(s, "combine=") || !(name = stx__p_until(s, ",\n", &n)))
		return stx__p_bad(s, "expected the fields of a scatter");
	s->b->overwrite = n == 5 && !memcmp(name, "store", 5);
	m = s->b->overwrite ? 0 : stx_monoid_parse(name, (int)n);
	if (m < 0)
		return stx__p_bad(s, "an unknown combination");
	s->b->monoid = (enum stx_monoid)m;
	return stx__p_need(s, ",");
}

static int base_field(struct stx__parse *s)
{
	uint32_t base;

	if (!earlier(s, &base) || !stx__p_need(s, ","))
		return 0;
	s->b->base = s->l->buffers.at[base];
	if (s->b->base->heir)
		return stx__p_bad(s, "memory that another buffer updates already");
	s->b->base->heir = s->b;
	return 1;
}

/* The line `store=...` of a scatter or scan is read after the body, whose values it may name. */
static int skip_store(struct stx__parse *s, const char **at)
{
	if (!stx__p_need(s, "store="))
		return 0;
	*at = s->p;
	s->p = memchr(s->p, '\n', (size_t)(s->end - s->p));
	if (!s->p)
		s->p = s->end;
	return 1;
}

static int sort_fields(struct stx__parse *s)
{
	struct stx_buffer *b = s->b;

	if (!stx__p_need(s, "sort_range=") || !stx__p_list(s, &b->rranges, &b->nrranges) ||
	    !stx__p_need(s, ",") || !stx__p_need(s, "scratch=[") || !earlier(s, &b->scratch[0]) ||
	    !stx__p_need(s, ",") || !earlier(s, &b->scratch[1]) || !stx__p_need(s, "],"))
		return 0;
	b->acc = s->l->buffers.at[b->scratch[0]]->dtype;
	return 1;
}

static int definition(struct stx__parse *s)
{
	struct stx_buffer *b = s->b;
	const char *from, *after, *store = NULL;

	b->def = stx__p_take(s, "Reduction(") ? STX_DEF_REDUCTION
		 : stx__p_take(s, "Scatter(") ? STX_DEF_SCATTER
		 : stx__p_take(s, "Scan(")    ? STX_DEF_SCAN
		 : stx__p_take(s, "Sort(")    ? STX_DEF_SORT
					      : STX_DEF_POINTWISE;
	if ((b->def == STX_DEF_POINTWISE && !stx__p_need(s, "Pointwise(")) ||
	    !stx__p_need(s, "def") || !skip_body(s, &from) || !stx__p_need(s, "ranges=") ||
	    !stx__p_list(s, &b->ranges, &b->nranges) || !stx__p_need(s, ","))
		return 0;
	b->acc = b->dtype;
	int reduces = b->def == STX_DEF_REDUCTION || b->def == STX_DEF_SCAN;
	int moves = b->def == STX_DEF_SCATTER || b->def == STX_DEF_SCAN; /* its store */
	if ((reduces && !reduction_fields(s)) ||
	    (b->def == STX_DEF_SCATTER && !scatter_fields(s)) ||
	    (stx__p_take(s, "base=") && !base_field(s)) || (moves && !skip_store(s, &store)))
		return 0;
	if (b->def == STX_DEF_SORT && !sort_fields(s))
		return 0;
	if (b->nranges + b->nrranges > 2 * STX_MAX_DIMS)
		return stx__p_bad(s, "too many axes");
	b->store = stx__address(s->ex, (struct stx__shape){ b->layout.rank, b->layout.sizes },
				b->layout.strides, b->layout.offset);
	if (!store && stx__p_take(s, "store=") &&
	    (!stx__p_expression(s, &b->store) || !stx__p_need(s, ",")))
		return 0;
	if (stx__p_take(s, "message=") &&
	    (!(b->message = stx__p_quoted(s)) || !stx__p_need(s, ",")))
		return 0;
	if (!stx__p_need(s, "realized_by=") || !rule(s, &b->rule) || !stx__p_need(s, ",") ||
	    !stx__p_need(s, "origins=") || !origins(s) || !stx__p_need(s, ")"))
		return 0;
	after = s->p;
	s->p = from;
	if (!body(s))
		return 0;
	s->p = store;
	if (store && (!stx__p_expression(s, &b->store) || !stx__p_need(s, ",")))
		return 0;
	s->p = after;
	return 1;
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int data(struct stx__parse *s)
{
	size_t n, i;
	const char *at;
	uint8_t *bytes;

	if (!stx__p_need(s, "0x"))
		return 0;
	if (!(at = stx__p_until(s, ")\n", &n)) || n % 2)
		return stx__p_bad(s, "expected bytes in hexadecimal");
	bytes = stx_arena_alloc(s->arena, n / 2 + 1);
	if (!bytes)
		return stx__p_oom(s);
	for (i = 0; i < n / 2; i++) {
		int hi = hex(at[2 * i]), lo = hex(at[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return stx__p_bad(s, "expected bytes in hexadecimal");
		bytes[i] = (uint8_t)(hi << 4 | lo);
	}
	s->b->data = (struct stx_const_data){ bytes, n / 2 };
	return 1;
}

static int alias(struct stx__parse *s)
{
	struct stx__output_alias x;

	s->b = NULL;
	return stx__p_need(s, "output=") && stx__p_number(s, &x.output) &&
	       stx__p_need(s, ", of=") && stx__p_number(s, &x.of) && stx__p_need(s, ")") &&
	       (!stx_push(s->arena, &s->aliases, x) || stx__p_oom(s));
}

/* Puts the buffers of kind OUTPUT into their places, then aliases; each of 0..n-1 once. */
static int place_outputs(struct stx__parse *s)
{
	uint32_t i, n = s->aliases.n;

	for (i = 0; i < s->l->buffers.n; i++)
		n += s->l->buffers.at[i]->kind == STX_BUF_OUTPUT;
	for (i = 0; i < n; i++)
		if (stx_push(s->arena, &s->l->outputs, STX_NONE))
			return stx__p_oom(s);
	for (i = 0; i < s->l->buffers.n; i++) {
		const struct stx_buffer *b = s->l->buffers.at[i];

		if (b->kind != STX_BUF_OUTPUT)
			continue;
		if (b->index >= n || s->l->outputs.at[b->index] != STX_NONE)
			return stx__p_bad(s, "outputs must be numbered from 0, each once");
		s->l->outputs.at[b->index] = b->id;
	}
	for (i = 0; i < s->aliases.n; i++) {
		const struct stx__output_alias *x = &s->aliases.at[i];

		if (x->output >= n || s->l->outputs.at[x->output] != STX_NONE || x->of >= n ||
		    s->l->outputs.at[x->of] == STX_NONE ||
		    s->l->buffers.at[s->l->outputs.at[x->of]]->index != x->of)
			return stx__p_bad(s, "an alias is of an output that has a buffer");
		s->l->outputs.at[x->output] = s->l->outputs.at[x->of];
	}
	return 1;
}

static int buffer(struct stx__parse *s, enum stx_buffer_kind kind, int is_scratch)
{
	struct stx_buffer *b = s->b = STX_NEW(s->arena, struct stx_buffer);

	if (!b)
		return stx__p_oom(s);
	b->kind = kind;
	b->id = s->l->buffers.n;
	if (stx_push(s->arena, &s->l->buffers, b))
		return stx__p_oom(s);
	if (!stx__p_need(s, "name=") || !(b->name = stx__p_quoted(s)) || !stx__p_need(s, ",") ||
	    !layout(s))
		return 0;
	if (is_scratch) {
		b->def = STX_DEF_SCRATCH;
		return stx__p_need(s, ")");
	}
	if (kind == STX_BUF_INPUT)
		return stx__p_need(s, ", input=") && stx__p_number(s, &b->index) &&
		       stx__p_need(s, ")");
	if (kind == STX_BUF_CONST)
		return stx__p_need(s, ", data=") && data(s) && stx__p_need(s, ")");
	if (stx__p_take(s, ", output=")) {
		b->kind = STX_BUF_OUTPUT;
		if (!stx__p_number(s, &b->index))
			return 0;
	}
	return stx__p_need(s, ", data=") && definition(s) && stx__p_need(s, ")");
}

/* A decimal in all of 64 bits: the ends stand for infinities. */
static int integer(struct stx__parse *s, int64_t *out)
{
	char text[32], *stop;
	size_t n;
	const char *at = stx__p_until(s, ",])\n", &n);

	if (!at || n >= sizeof text)
		return stx__p_bad(s, "expected a number");
	memcpy(text, at, n);
	text[n] = 0;
	*out = strtoll(text, &stop, 10);
	return *stop ? stx__p_bad(s, "expected a number") : 1;
}

static int symbol(struct stx__parse *s)
{
	struct stx_symbol y = { 0 };

	s->b = NULL;
	if (!stx__p_need(s, "name=") || !(y.name = stx__p_quoted(s)) ||
	    !stx__p_need(s, ", range=[") || !integer(s, &y.range.lo) || !stx__p_need(s, ",") ||
	    !integer(s, &y.range.hi) || !stx__p_need(s, "], hint=") || !integer(s, &y.hint))
		return 0;
	return stx_push(s->arena, &s->l->g->symbols, y) ? stx__p_oom(s) : stx__p_need(s, ")");
}

stx_err stx_loops_parse(struct stx_arena *a, const char *text, size_t n, struct stx_loops **out,
			struct stx_diag *d)
{
	struct stx__parse s = { .start = text, .p = text, .end = text + n, .arena = a, .d = d };

	s.l = STX_NEW(a, struct stx_loops);
	if (s.l)
		s.l->g = stx_graph_new(a);
	if (!s.l || !s.l->g)
		return stx_fail(d, STX_E_NOMEM, "parse", "", "out of memory budget");
	s.ex = s.l->ex = s.l->g->ex;
	while (!s.err) {
		if (stx__p_take(&s, "InputBuffer("))
			buffer(&s, STX_BUF_INPUT, 0);
		else if (stx__p_take(&s, "ConstantBuffer("))
			buffer(&s, STX_BUF_CONST, 0);
		else if (stx__p_take(&s, "ComputedBuffer("))
			buffer(&s, STX_BUF_TEMP, 0);
		else if (stx__p_take(&s, "ScratchBuffer("))
			buffer(&s, STX_BUF_TEMP, 1);
		else if (stx__p_take(&s, "Symbol("))
			symbol(&s);
		else if (stx__p_take(&s, "Alias("))
			alias(&s);
		else
			break;
	}
	if (!s.err && s.p != s.end)
		stx__p_bad(&s, "expected a buffer");
	if (!s.err)
		place_outputs(&s);
	if (!s.err)
		s.err = stx_loops_verify(s.l, d);
	if (!s.err)
		*out = s.l;
	return s.err;
}
