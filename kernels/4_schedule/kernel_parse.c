/* kernel_parse.c: text to kernel IR (grammar: kernel.h).
 *
 * Text may come from outside: everything is bounded (KERNEL_MAX_*), nothing recurses but
 * expressions (limit in expr_text.c), and the result is verified. One pass over the bytes, one
 * instruction a line. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "kernel_impl.h"

struct slot { /* names: axes and values */
	const char *name;
	uint32_t len, is_axis, id;
};

struct parse {
	struct stx_kernel *k;
	const char *p, *end;
	uint32_t line;
	struct slot *slots;
	uint32_t nslots, used;
	uint32_t loops[STX_KERNEL_MAX_LOOPS];
	uint32_t depth;
	stx_ex *indirects; /* by instruction; allocated at the first one */
	struct stx_diag *d;
	stx_err err;
};

static stx_err bad(struct parse *s, const char *why)
{
	if (!s->err) {
		s->err = stx_fail(s->d, STX_E_INVALID, "kernel", s->k->name, "%s", why);
		stx_diag_at(s->d, "kernel text:%u", s->line);
	}
	return s->err;
}

static stx_err oom(struct parse *s)
{
	if (!s->err)
		s->err = stx_fail(s->d, STX_E_NOMEM, "kernel", s->k->name,
				  "the memory budget is exceeded");
	return s->err;
}

/* ---- tokens ---- */

static void skip(struct parse *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\r'))
		s->p++;
}

static void blank_lines(struct parse *s)
{
	while (s->p < s->end && (*s->p == '\n' || *s->p == ' ' || *s->p == '\t' || *s->p == '\r')) {
		s->line += *s->p == '\n';
		s->p++;
	}
}

static void newline(struct parse *s)
{
	skip(s);
	if (s->p < s->end && *s->p != '\n')
		bad(s, "unexpected text at the end of the line");
	blank_lines(s);
}

static int is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

static struct stx_span word(struct parse *s)
{
	skip(s);
	const char *start = s->p;
	while (s->p < s->end && is_word(*s->p))
		s->p++;
	return (struct stx_span){ (const uint8_t *)start, (size_t)(s->p - start) };
}

static int is(struct stx_span w, const char *text)
{
	return w.n == strlen(text) && !memcmp(w.at, text, w.n);
}

/* Takes the word when it comes next. */
static int eat(struct parse *s, const char *text)
{
	const char *back = s->p;
	if (is(word(s), text))
		return 1;
	s->p = back;
	return 0;
}

static void expect(struct parse *s, const char *text)
{
	if (!eat(s, text) && !s->err) {
		stx_fail(s->d, STX_E_INVALID, "kernel", s->k->name, "'%s' expected", text);
		stx_diag_at(s->d, "kernel text:%u", s->line);
		s->err = STX_E_INVALID;
	}
}

static int eat_char(struct parse *s, char c)
{
	skip(s);
	if (s->p == s->end || *s->p != c)
		return 0;
	s->p++;
	return 1;
}

static void expect_char(struct parse *s, char c)
{
	if (!eat_char(s, c) && !s->err) {
		stx_fail(s->d, STX_E_INVALID, "kernel", s->k->name, "'%c' expected", c);
		stx_diag_at(s->d, "kernel text:%u", s->line);
		s->err = STX_E_INVALID;
	}
}

/* The characters of a number, NUL-terminated for strto*. */
static const char *number_text(struct parse *s, char buf[64])
{
	skip(s);
	size_t n = 0;
	while (s->p < s->end && n < 63 &&
	       (is_word(*s->p) || *s->p == '-' || *s->p == '+' || *s->p == '.'))
		buf[n++] = *s->p++;
	buf[n] = 0;
	return buf;
}

static int64_t integer(struct parse *s, int64_t lo, int64_t hi)
{
	char buf[64], *stop;
	number_text(s, buf);
	errno = 0;
	long long v = strtoll(buf, &stop, 10);
	if (errno || stop == buf || *stop || v < lo || v > hi) {
		bad(s, "an integer is expected or out of range");
		return lo;
	}
	return v;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static const char *string(struct parse *s)
{
	expect_char(s, '"');
	const char *start = s->p;
	while (s->p < s->end && *s->p != '"' && *s->p != '\n')
		s->p++;
	if (s->err || s->p == s->end || *s->p != '"') {
		bad(s, "a string is not closed");
		return "";
	}
	size_t n = 0, len = (size_t)(s->p - start);
	char *out = stx_arena_alloc(s->k->arena, len + 1);
	if (!out) {
		oom(s);
		return "";
	}
	for (size_t i = 0; i < len; i++) {
		if (start[i] != '\\') {
			out[n++] = start[i];
			continue;
		}
		int hi = i + 3 < len && start[i + 1] == 'x' ? hex_digit(start[i + 2]) : -1;
		int lo = hi >= 0 ? hex_digit(start[i + 3]) : -1;
		if (hi < 0 || lo < 0 || hi + lo == 0) {
			bad(s, "unknown escape in a string");
			break;
		}
		out[n++] = (char)(hi * 16 + lo);
		i += 3;
	}
	out[n] = 0;
	s->p++;
	return out;
}

static enum stx_dtype dtype(struct parse *s)
{
	struct stx_span w = word(s);
	enum stx_dtype t =
		w.n < 32 ? stx_dtype_parse((const char *)w.at, (int)w.n) : STX_DTYPE_NONE;
	if (t == STX_DTYPE_NONE) {
		bad(s, "an element type is expected");
		return STX_F32;
	}
	return t;
}

/* ---- names ---- */

static uint32_t slot_of(const struct parse *s, const char *name, size_t n)
{
	uint64_t h = n;
	for (size_t i = 0; i < n; i++)
		h = stx_mix64(h, (uint8_t)name[i]);
	uint32_t mask = s->nslots - 1, at = (uint32_t)h & mask;
	while (s->slots[at].name &&
	       (s->slots[at].len != n || memcmp(s->slots[at].name, name, n) != 0))
		at = (at + 1) & mask;
	return at;
}

static const struct slot *lookup(const struct parse *s, const char *name, size_t n)
{
	const struct slot *t = &s->slots[slot_of(s, name, n)];
	return t->name ? t : NULL;
}

static void grow_names(struct parse *s)
{
	uint32_t old_n = s->nslots;
	struct slot *old = s->slots;
	s->nslots = old_n ? old_n * 2 : 256;
	s->slots = STX_NEW_ARRAY(s->k->arena, struct slot, s->nslots);
	if (!s->slots) {
		s->slots = old;
		s->nslots = old_n;
		oom(s);
		return;
	}
	for (uint32_t i = 0; i < old_n; i++)
		if (old[i].name)
			s->slots[slot_of(s, old[i].name, old[i].len)] = old[i];
}

/* name points into the text, which outlives the parse. */
static void define(struct parse *s, struct stx_span name, uint32_t is_axis, uint32_t id)
{
	if (s->used * 2 >= s->nslots)
		grow_names(s);
	if (s->err)
		return;
	uint32_t at = slot_of(s, (const char *)name.at, name.n);
	if (s->slots[at].name) {
		bad(s, "a name is defined twice");
		return;
	}
	s->slots[at] = (struct slot){ (const char *)name.at, (uint32_t)name.n, is_axis, id };
	s->used++;
}

static stx_ex find(void *ctx, const char *name, size_t n)
{
	struct parse *s = ctx;
	if (n > 1 && n < 8 && name[0] == 's') {
		char buf[8], *stop;
		memcpy(buf, name + 1, n - 1);
		buf[n - 1] = 0;
		unsigned long v = strtoul(buf, &stop, 10);
		return *stop || v >= s->k->scalar_ex.n ? STX_EX_BAD : s->k->scalar_ex.at[v];
	}
	const struct slot *t = lookup(s, name, n);
	if (!t)
		return STX_EX_BAD;
	if (t->is_axis)
		return stx_ex_var(s->k->ex, t->id, s->k->axes.at[t->id].size);
	return s->indirects ? s->indirects[t->id] : STX_EX_BAD;
}

static stx_ex expression(struct parse *s)
{
	stx_ex e = STX_EX_BAD;
	if (s->err)
		return e;
	s->err = stx_ex_parse(s->k->ex, &s->p, s->end, find, s, &e, s->d);
	if (s->err)
		stx_diag_at(s->d, "kernel text:%u", s->line);
	return e;
}

static uint32_t value(struct parse *s)
{
	struct stx_span w = word(s);
	const struct slot *t = w.n ? lookup(s, (const char *)w.at, w.n) : NULL;
	if (!t || t->is_axis) {
		bad(s, "the name of a value defined above is expected");
		return 0;
	}
	return t->id;
}

static uint32_t axis(struct parse *s)
{
	struct stx_span w = word(s);
	const struct slot *t = w.n ? lookup(s, (const char *)w.at, w.n) : NULL;
	if (!t || !t->is_axis) {
		bad(s, "the name of an axis is expected");
		return 0;
	}
	return t->id;
}

static uint32_t mask(struct parse *s)
{
	return eat(s, "mask") ? value(s) : STX_NONE;
}

/* ---- header lines ---- */

static void parse_head(struct parse *s)
{
	expect(s, "kernel");
	if (s->err)
		return;
	s->k->name = string(s);
	struct stx_span w = word(s);
	int kind = stx__kind_parse((const char *)w.at, w.n);
	if (kind < 0)
		bad(s, "a kernel's kind is poi, red, per or tem");
	s->k->kind = (enum stx_kernel_kind)(kind < 0 ? 0 : kind);
	expect(s, "bits");
	s->k->index_bits = (uint8_t)integer(s, 0, 64);
	expect(s, "target");
	s->k->target_gpu = (uint8_t)eat(s, "gpu");
	if (!s->k->target_gpu)
		expect(s, "cpu");
	if (eat(s, "block"))
		s->k->block_words = (uint16_t)integer(s, STX_BLOCK_LEAST, STX_BLOCK_MOST);
	newline(s);
}

/* `s3` or `p3`: the number must be the next one. */
static void numbered(struct parse *s, char letter, uint32_t next)
{
	skip(s);
	if (s->p < s->end && *s->p == letter) {
		s->p++;
		if (integer(s, 0, UINT16_MAX) != (int64_t)next)
			bad(s, "scalars and parameters are numbered from 0 in order");
	} else {
		bad(s, "a numbered scalar or parameter is expected");
	}
}

static void parse_scalar(struct parse *s)
{
	struct stx_kernel *k = s->k;
	uint32_t n = k->scalars.n;
	if (n >= STX_KERNEL_MAX_PARAMS) {
		bad(s, "too many scalars");
		return;
	}
	numbered(s, 's', n);
	expect(s, "range");
	int64_t lo = integer(s, INT64_MIN, INT64_MAX), hi = integer(s, INT64_MIN, INT64_MAX);
	int64_t hint = eat(s, "hint") ? integer(s, INT64_MIN, INT64_MAX) : lo;
	if (lo >= hi)
		bad(s, "the range of a scalar is empty or a single value");
	if (s->err)
		return;
	stx_ex e = stx_ex_sym(k->ex, n, (struct stx_interval){ lo, hi }, hint);
	if (e == STX_EX_BAD || stx_push(k->arena, &k->scalars, n) ||
	    stx_push(k->arena, &k->scalar_ex, e))
		oom(s);
	newline(s);
}

static void parse_param(struct parse *s)
{
	struct stx_kernel *k = s->k;
	if (k->params.n >= STX_KERNEL_MAX_PARAMS)
		bad(s, "too many parameters");
	numbered(s, 'p', k->params.n);
	struct stx_kparam q = { .buffer = STX_NONE };
	q.dtype = dtype(s);
	q.is_read = (uint8_t)(eat(s, "readwrite") ? 3 : eat(s, "read") ? 1 : 0);
	q.is_written = q.is_read == 3;
	q.is_read &= 1;
	if (!q.is_read) {
		expect(s, "write");
		q.is_written = 1;
	}
	q.is_constant = (uint8_t)eat(s, "constant");
	expect(s, "elems");
	q.elems = expression(s);
	skip(s);
	q.name = s->p < s->end && *s->p == '"' ? string(s) : "";
	if (!s->err && stx_push(k->arena, &k->params, q))
		oom(s);
	newline(s);
}

static void parse_axis(struct parse *s)
{
	struct stx_kernel *k = s->k;
	struct stx_span w = word(s), b = word(s);
	int binding = stx__binding_parse((const char *)b.at, b.n);
	if (!w.n || w.n > 30 || !strchr("xyzr", (char)w.at[0]))
		bad(s, "an axis' name begins with x, y, z or r and has 30 characters at most");
	if (binding < 0)
		bad(s, "an axis is bound to grid, loop or vector");
	if (k->axes.n >= STX_KERNEL_MAX_AXES)
		bad(s, "too many axes");
	if (s->err)
		return;
	struct stx_axis a = { .binding = (enum stx_binding)binding, .var = k->axes.n };
	a.is_reduction = (uint8_t)eat(s, "reduction");
	a.size = expression(s);
	a.name = stx_arena_strndup(k->arena, (const char *)w.at, w.n);
	define(s, w, 1, a.var);
	if (!s->err && (!a.name || stx_push(k->arena, &k->axes, a)))
		oom(s);
	newline(s);
}

/* ---- instructions ---- */

static void parse_const(struct parse *s, struct stx_kinst *i)
{
	char buf[64], *stop;
	enum stx_dtype t = dtype(s);
	i->dtype = (uint8_t)t;
	number_text(s, buf);
	errno = 0;
	if (!stx_dtype_is_float(t)) {
		if (stx_dtype_kind(t) == STX_KIND_UINT)
			i->k.u = strtoull(buf, &stop, 10);
		else
			i->k.i = strtoll(buf, &stop, 10);
		if (errno || stop == buf || *stop)
			bad(s, "an integer constant is expected");
	} else if (!strcmp(buf, "nan")) {
		expect_char(s, '(');
		number_text(s, buf);
		i->k.u = strtoull(buf, &stop, 16);
		expect_char(s, ')');
		if (!isnan(i->k.f))
			bad(s, "the bits of a NaN constant are not a NaN's");
	} else {
		i->k.f = strtod(buf, &stop);
		if (stop == buf || *stop || isnan(i->k.f))
			bad(s, "a number is expected");
	}
}

static uint32_t param(struct parse *s)
{
	skip(s);
	if (s->p == s->end || *s->p != 'p') {
		bad(s, "a parameter is expected");
		return 0;
	}
	s->p++;
	return (uint32_t)integer(s, 0, UINT16_MAX);
}

static stx_ex element(struct parse *s)
{
	expect_char(s, '[');
	stx_ex e = expression(s);
	expect_char(s, ']');
	return e;
}

static void parse_access(struct parse *s, struct stx_kinst *i)
{
	i->dtype = (uint8_t)dtype(s);
	i->a = param(s);
	i->ex = element(s);
}

static void parse_sort(struct parse *s, struct stx_kinst *i)
{
	i->op = STX_K_SORT;
	i->dtype = (uint8_t)dtype(s);
	i->a = param(s);
	i->b = param(s);
	i->ex = element(s);
	i->c = axis(s);
	i->k.i = eat(s, "first") ? integer(s, 1, INT32_MAX) : 0;
}

static void parse_indirect(struct parse *s, struct stx_kinst *i)
{
	struct stx_kernel *k = s->k;
	i->dtype = STX_I64;
	i->a = value(s);
	expect(s, "bound");
	i->ex = expression(s);
	expect(s, "axis");
	i->axis = (uint8_t)integer(s, 0, 255);
	i->flags = (uint8_t)(eat(s, "wrap") ? STX_BF_WRAP : 0);
	i->flags |= (uint8_t)(eat(s, "check") ? STX_BF_CHECK : 0);
	i->c = mask(s);
	if (s->err)
		return;
	if (!s->indirects) {
		s->indirects = STX_NEW_ARRAY(k->arena, stx_ex, STX_KERNEL_MAX_INSTS);
		if (!s->indirects) {
			oom(s);
			return;
		}
	}
	struct stx_interval r = stx_ex_interval(k->ex, i->ex);
	r.lo = 0;
	r.hi = r.hi == STX_POS_INF ? r.hi : r.hi < 1 ? 0 : r.hi - 1;
	s->indirects[k->insts.n] = stx_ex_indirect(k->ex, k->insts.n, r);
}

static void parse_acc(struct parse *s, struct stx_kinst *i)
{
	struct stx_span m = word(s), o = word(s);
	int monoid = m.n < 32 ? stx_monoid_parse((const char *)m.at, (int)m.n) : -1;
	int order = stx__order_parse((const char *)o.at, o.n);
	if (monoid < 0)
		bad(s, "the name of a monoid is expected");
	if (order < 0)
		bad(s, "an order is lanes, serial, plain, blocks or tree");
	i->flags = (uint8_t)monoid;
	i->axis = (uint8_t)order;
	i->dtype = (uint8_t)dtype(s);
	i->a = axis(s);
	if (eat(s, "each"))
		i->c = axis(s);
}

static void parse_prim(struct parse *s, struct stx_span name, struct stx_kinst *i)
{
	int prim = name.n < 32 ? stx_prim_parse((const char *)name.at, (int)name.n) : -1;
	if (prim < 0) {
		bad(s, "unknown instruction");
		return;
	}
	i->op = (uint8_t)prim;
	i->dtype = (uint8_t)dtype(s);
	uint32_t *operand[3] = { &i->a, &i->b, &i->c };
	int arity = stx_prim_info((enum stx_prim)prim)->arity;
	for (int j = 0; j < arity && j < 3; j++)
		*operand[j] = value(s);
}

/* The right side of `tN = ...`. */
static void parse_value(struct parse *s, struct stx_kinst *i)
{
	struct stx_span w = word(s);
	if (is(w, "const")) {
		i->op = STX_K_CONST;
		parse_const(s, i);
	} else if (is(w, "index")) {
		i->op = STX_K_INDEX;
		i->dtype = (uint8_t)dtype(s);
		i->ex = expression(s);
	} else if (is(w, "load")) {
		i->op = STX_K_LOAD;
		parse_access(s, i);
		i->c = mask(s);
	} else if (is(w, "indirect")) {
		i->op = STX_K_INDIRECT;
		parse_indirect(s, i);
	} else if (is(w, "acc")) {
		i->op = STX_K_ACC;
		parse_acc(s, i);
	} else if (is(w, "result")) {
		i->op = STX_K_RESULT;
		i->dtype = (uint8_t)dtype(s);
		i->a = value(s);
		i->flags = (uint8_t)integer(s, 0, 2);
	} else {
		parse_prim(s, w, i);
	}
}

static void parse_loop(struct parse *s, struct stx_kinst *i)
{
	i->op = STX_K_LOOP;
	i->a = axis(s);
	if (s->depth >= STX_KERNEL_MAX_LOOPS)
		bad(s, "loops are nested too deeply");
	else
		s->loops[s->depth++] = s->k->insts.n;
}

/* One instruction line. Returns 0 at the kernel's final `end`. */
static int parse_inst(struct parse *s)
{
	struct stx_kernel *k = s->k;
	struct stx_kinst i = {
		.dtype = STX_DTYPE_NONE, .a = STX_NONE, .b = STX_NONE, .c = STX_NONE
	};
	struct stx_span w = word(s);
	struct stx_span name = { 0 };
	if (is(w, "end")) {
		newline(s);
		if (!s->depth)
			return 0;
		i.op = STX_K_END;
		i.a = s->loops[--s->depth];
		if (stx_push(k->arena, &k->insts, i))
			oom(s);
		return 1;
	}
	if (is(w, "loop")) {
		parse_loop(s, &i);
	} else if (is(w, "sort")) {
		parse_sort(s, &i);
	} else if (is(w, "store")) {
		i.op = STX_K_STORE;
		parse_access(s, &i);
		i.b = value(s);
		i.c = mask(s);
	} else if (is(w, "update")) {
		i.op = STX_K_UPDATE;
		i.a = value(s);
		i.b = value(s);
		skip(s);
		i.c = s->p < s->end && *s->p != '\n' ? value(s) : STX_NONE;
		if (!s->err)
			i.dtype = k->insts.at[i.a].dtype;
	} else if (w.n && w.at[0] == 't' && eat_char(s, '=')) {
		name = w;
		parse_value(s, &i);
	} else {
		bad(s, "an instruction is expected");
	}
	if (name.n)
		define(s, name, 0, k->insts.n);
	newline(s);
	if (!s->err && stx_push(k->arena, &k->insts, i))
		oom(s);
	return 1;
}

static void parse_all(struct parse *s)
{
	struct stx_kernel *k = s->k;
	blank_lines(s);
	parse_head(s);
	while (!s->err && eat(s, "scalar"))
		parse_scalar(s);
	while (!s->err && eat(s, "param"))
		parse_param(s);
	while (!s->err && eat(s, "axis"))
		parse_axis(s);
	if (!s->err && !k->axes.n)
		bad(s, "a kernel has at least its grid axis");
	k->grain = stx_ex_const(k->ex, 1);
	if (eat(s, "grain")) {
		k->grain = expression(s);
		newline(s);
	}
	expect(s, "begin");
	newline(s);
	while (!s->err && s->p < s->end) {
		if (k->insts.n >= STX_KERNEL_MAX_INSTS)
			bad(s, "too many instructions");
		else if (!parse_inst(s))
			break;
	}
	if (!s->err && (s->depth || s->p != s->end))
		bad(s, "the text ends too early or goes on after the kernel's end");
}

stx_err stx_kernel_parse(struct stx_arena *a, const char *text, size_t n, struct stx_kernel **out,
			 struct stx_diag *d)
{
	struct stx_kernel *k = STX_NEW(a, struct stx_kernel);
	struct parse s = { .k = k, .p = text, .end = text + n, .line = 1, .d = d };
	*out = NULL;
	if (!k || !(k->ex = stx_exprs_new(a)))
		return stx_fail(d, STX_E_NOMEM, "kernel", NULL, "the memory budget is exceeded");
	k->arena = a;
	k->name = "";
	grow_names(&s);
	if (!s.err)
		parse_all(&s);
	if (s.err)
		return s.err;
	k->grid = stx_ex_const(k->ex, 1);
	for (uint32_t i = 0; i < k->axes.n && k->axes.at[i].binding == STX_AXIS_GRID; i++)
		k->grid = stx_ex_mul(k->ex, k->grid, k->axes.at[i].size);
	stx_err err = stx_kernel_verify(k, d);
	if (!err)
		*out = k;
	return err;
}
