/* ops.c: the operator table, built once from ops.def: schemas parsed, overloads hashed. */
#include "ops.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "hash.h"
#include "infer.h"

/* ---- rows as written ---- */
static const struct row {
	const char *overload;
	enum stx_op_category category;
	enum stx_promote promote;
	stx_shape_fn *shape;
	int prim;
	unsigned tags;
	const char *schema;
} rows[] = {
#define STX_OP(name, overload, cat, promote, shape, prim, tags, schema)                            \
	[STX_OP_##                                                                                 \
		name] = { overload, STX_CAT_##cat, STX_PROMOTE_##promote, stx_shape_##shape, prim, \
			  tags,     schema },
#include "ops.def"
#undef STX_OP
};

/* ---- the built table: immutable once build() has run ---- */
#define SLOTS 2048 /* power of two, at least four times STX_OP_COUNT */
_Static_assert(STX_OP_COUNT * 4 <= SLOTS, "enlarge SLOTS");

static struct stx_op_info infos[STX_OP_COUNT];
static struct stx_param params[STX_OP_COUNT * 6];
static char texts[64 * 1024]; /* names and defaults, each with its NUL */
static uint16_t slots[SLOTS]; /* op + 1, or 0 */
static uint32_t nparams, ntext;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *keep(const char *s, size_t n)
{
	assert(ntext + n + 1 <= sizeof texts);
	char *p = texts + ntext;
	memcpy(p, s, n);
	p[n] = 0;
	ntext += (uint32_t)n + 1;
	return p;
}

static const struct {
	const char *text;
	enum stx_param_kind kind;
} kinds[] = {
	{ "T", STX_PARAM_TENSOR },      { "T?", STX_PARAM_OPT_TENSOR },
	{ "T[]", STX_PARAM_TENSORS },   { "i", STX_PARAM_INT },
	{ "i?", STX_PARAM_OPT_INT },    { "i[]", STX_PARAM_INTS },
	{ "i[]?", STX_PARAM_OPT_INTS }, { "f", STX_PARAM_FLOAT },
	{ "f?", STX_PARAM_OPT_FLOAT },  { "b", STX_PARAM_BOOL },
	{ "s", STX_PARAM_SCALAR },      { "s?", STX_PARAM_OPT_SCALAR },
	{ "S", STX_PARAM_STRING },      { "D", STX_PARAM_DTYPE },
	{ "D?", STX_PARAM_OPT_DTYPE },  { "f[]?", STX_PARAM_OPT_FLOATS },
	{ "b[]", STX_PARAM_BOOLS },     { "S?", STX_PARAM_OPT_STRING },
};

static enum stx_param_kind kind_of(const char *s, size_t n)
{
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (strlen(kinds[i].text) == n && !memcmp(kinds[i].text, s, n))
			return kinds[i].kind;
	assert(!"unknown parameter kind in ops.def");
	return STX_PARAM_TENSOR;
}

/* One parameter, "kind name" or "kind name=default"; a comma inside [] or '' belongs to the
 * default. */
static const char *parse_param(const char *s, int is_kwarg)
{
	assert(nparams < sizeof params / sizeof params[0]);
	struct stx_param *p = &params[nparams++];
	size_t n = strcspn(s, " ");
	p->kind = kind_of(s, n);
	p->is_kwarg = (uint8_t)is_kwarg;
	s += n + 1;
	n = strcspn(s, "=,");
	p->name = keep(s, n);
	s += n;
	if (*s != '=')
		return s;
	const char *from = ++s;
	for (int depth = 0, quoted = 0; *s && (*s != ',' || depth || quoted); s++) {
		depth += (*s == '[') - (*s == ']');
		quoted ^= *s == '\'';
	}
	p->has_default = 1;
	p->default_text = keep(from, (size_t)(s - from));
	return s;
}

static void parse_schema(struct stx_op_info *info)
{
	int kwarg = 0;
	uint32_t first = nparams;
	for (const char *s = info->schema; *s;) {
		if (*s == ',' || *s == ' ') {
			s++;
		} else if (*s == '*') {
			kwarg = 1;
			s++;
		} else {
			s = parse_param(s, kwarg);
		}
	}
	info->params = params + first;
	info->nparams = nparams - first;
}

static void build(void)
{
	for (int i = 0; i < STX_OP_COUNT; i++) {
		const struct row *r = &rows[i];
		struct stx_op_info *o = &infos[i];
		o->overload = r->overload;
		o->base = keep(r->overload, strcspn(r->overload, "."));
		o->category = r->category;
		o->promote = r->promote;
		o->shape = r->shape;
		o->prim = r->prim;
		o->tags = r->tags;
		o->schema = r->schema;
		parse_schema(o);
		uint32_t k = stx_mix_text(0, r->overload, strlen(r->overload)) & (SLOTS - 1);
		while (slots[k])
			k = (k + 1) & (SLOTS - 1);
		slots[k] = (uint16_t)(i + 1);
	}
}

const struct stx_op_info *stx_op_info(enum stx_op op)
{
	pthread_once(&once, build);
	return &infos[op];
}

int stx_op_find(const char *overload, size_t n)
{
	pthread_once(&once, build);
	for (uint32_t k = stx_mix_text(0, overload, n) & (SLOTS - 1); slots[k];
	     k = (k + 1) & (SLOTS - 1)) {
		const char *s = infos[slots[k] - 1].overload;
		if (strlen(s) == n && !memcmp(s, overload, n))
			return slots[k] - 1;
	}
	return -1;
}

/* Forms in place that are not the functional overload with an underscore behind its base. */
static const struct {
	const char *overload;
	enum stx_op op;
} in_place[] = {
	{ "pow_.Tensor", STX_OP_POW },
	{ "pow_.Scalar", STX_OP_POW_SCALAR },
	{ "floor_divide_.Tensor", STX_OP_FLOOR_DIVIDE },
};
#define NIN_PLACE (sizeof in_place / sizeof *in_place)

int stx_op_find_in_place(const char *overload, size_t n)
{
	char functional[STX_OVERLOAD_BYTES];
	const char *dot = memchr(overload, '.', n);
	size_t base = dot ? (size_t)(dot - overload) : 0;
	int op;
	for (size_t i = 0; i < NIN_PLACE; i++)
		if (strlen(in_place[i].overload) == n && !memcmp(in_place[i].overload, overload, n))
			return in_place[i].op;
	if (base < 2 || overload[base - 1] != '_' || n > sizeof functional)
		return -1;
	memcpy(functional, overload, base - 1);
	memcpy(functional + base - 1, dot, n - base);
	op = stx_op_find(functional, n - 1);
	for (size_t i = 0; i < NIN_PLACE; i++)
		if (op == (int)in_place[i].op)
			return -1;
	return op >= 0 && stx_op_info((enum stx_op)op)->tags & STX_TAG_IN_PLACE ? op : -1;
}

const char *stx_op_in_place(enum stx_op op, char out[STX_OVERLOAD_BYTES])
{
	const struct stx_op_info *info = stx_op_info(op);
	for (size_t i = 0; i < NIN_PLACE; i++)
		if (op == in_place[i].op)
			return in_place[i].overload;
	snprintf(out, STX_OVERLOAD_BYTES, "%s_%s", info->base, info->overload + strlen(info->base));
	return out;
}

/* Insertions, deletions and replacements that make b of a; NEAR_MAX for names too long to compare.
 */
#define NEAR_BYTES 64
#define NEAR_MAX   3
static unsigned edits(const char *a, size_t na, const char *b, size_t nb)
{
	unsigned row[NEAR_BYTES + 1];
	if (na > NEAR_BYTES || nb > NEAR_BYTES)
		return NEAR_MAX;
	for (size_t j = 0; j <= nb; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		unsigned diagonal = row[0];
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= nb; j++) {
			unsigned best = diagonal + (a[i - 1] != b[j - 1]);
			diagonal = row[j];
			best = row[j] + 1 < best ? row[j] + 1 : best;
			row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
		}
	}
	return row[nb];
}

const char *stx_op_refusal(const char *overload, size_t n)
{
	static const char *const complex[] = { "_fft_",        "fft_",     "view_as_complex",
					       "view_as_real", "complex.", "polar." };
	for (size_t i = 0; i < sizeof complex / sizeof *complex; i++)
		if (n >= strlen(complex[i]) && !memcmp(overload, complex[i], strlen(complex[i])))
			return "complex numbers are not among the element types";
	return NULL;
}

const char *stx_op_nearest(const char *overload, size_t n)
{
	const char *best = NULL;
	unsigned least = NEAR_MAX;
	pthread_once(&once, build);
	/* The name alone: the first overload there is. */
	for (int i = 0; i < STX_OP_COUNT && !memchr(overload, '.', n); i++)
		if (strlen(infos[i].overload) > n && infos[i].overload[n] == '.' &&
		    !memcmp(infos[i].overload, overload, n))
			return infos[i].overload;
	for (int i = 0; i < STX_OP_COUNT; i++) {
		unsigned k = edits(overload, n, infos[i].overload, strlen(infos[i].overload));
		if (k < least) {
			least = k;
			best = infos[i].overload;
		}
	}
	return best;
}

const char *stx_op_category_name(enum stx_op_category c)
{
	static const char *const names[STX_CAT_COUNT] = {
		[STX_CAT_INPUT] = "input",        [STX_CAT_POINTWISE] = "pointwise",
		[STX_CAT_CREATE] = "creation",    [STX_CAT_REDUCE] = "reduction",
		[STX_CAT_VIEW] = "view",          [STX_CAT_INDIRECT] = "indirect read",
		[STX_CAT_SCATTER] = "scatter",    [STX_CAT_PIECEWISE] = "piecewise",
		[STX_CAT_SCAN] = "scan, sort",    [STX_CAT_CONTRACT] = "contraction",
		[STX_CAT_WINDOW] = "window",      [STX_CAT_RANDOM] = "random",
		[STX_CAT_COMPOSITE] = "composite"
	};
	return c < STX_CAT_COUNT ? names[c] : "unknown";
}
