/* parse_tokens.c: words, numbers, names and index expressions of the text form of a loop program.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "parse_tokens.h"

void stx__p_report(struct stx__parse *s, stx_err e, const char *what)
{
	unsigned line = 1, column = 1;

	if (s->err)
		return;
	for (const char *q = s->start; q < s->p; q++) {
		column = *q == '\n' ? 1 : column + 1;
		line += *q == '\n';
	}
	s->err = stx_fail(s->d, e, "parse", s->b && s->b->name ? s->b->name : "", "%s", what);
	stx_diag_at(s->d, "%u:%u", line, column);
}

/* Skips white space, then takes `word` when it is next. */
int stx__p_take(struct stx__parse *s, const char *word)
{
	size_t n = strlen(word);

	while (s->p < s->end && isspace((unsigned char)*s->p))
		s->p++;
	if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
		return 0;
	s->p += n;
	return 1;
}

int stx__p_need(struct stx__parse *s, const char *word)
{
	char text[64];

	if (s->err || stx__p_take(s, word))
		return !s->err;
	snprintf(text, sizeof text, "expected '%.40s'", word);
	return stx__p_bad(s, text);
}

/* Characters up to one of stop; NULL when there is none of them. */
const char *stx__p_until(struct stx__parse *s, const char *stop, size_t *n)
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

const char *stx__p_quoted(struct stx__parse *s)
{
	const char *at;
	size_t n;

	if (!stx__p_need(s, "'"))
		return NULL;
	at = stx__p_until(s, "'\n", &n);
	if (!at || !stx__p_need(s, "'"))
		return stx__p_bad(s, "expected a name in quotes"), NULL;
	at = stx_arena_strndup(s->arena, at, n);
	return at ? at : (stx__p_oom(s), NULL);
}

int stx__p_number(struct stx__parse *s, uint32_t *out)
{
	uint64_t v = 0;
	const char *from;

	while (s->p < s->end && *s->p == ' ')
		s->p++;
	for (from = s->p; s->p < s->end && isdigit((unsigned char)*s->p) && v <= UINT32_MAX; s->p++)
		v = v * 10 + (uint64_t)(*s->p - '0');
	if (s->p == from || v >= UINT32_MAX)
		return stx__p_bad(s, "expected a number");
	*out = (uint32_t)v;
	return 1;
}

int stx__p_dtype(struct stx__parse *s, uint8_t *out)
{
	size_t n;
	const char *at = stx__p_until(s, ",)\n ", &n);
	enum stx_dtype t = at ? stx_dtype_parse(at, (int)n) : STX_DTYPE_NONE;

	if (t == STX_DTYPE_NONE)
		return stx__p_bad(s, "expected an element type");
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
	struct stx__parse *s = ctx;
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

int stx__p_expression(struct stx__parse *s, stx_ex *out)
{
	if (s->err)
		return 0;
	while (s->p < s->end && *s->p == ' ')
		s->p++;
	s->err = stx_ex_parse(s->ex, &s->p, s->end, find_name, s, out, s->d);
	if (!s->err && *out == STX_EX_BAD)
		return stx__p_bad(s, "an expression that overflows");
	return !s->err;
}

/* [e, e, ...], at most 2*STX_MAX_DIMS of them. */
int stx__p_list(struct stx__parse *s, const stx_ex **out, uint32_t *n)
{
	stx_ex at[2 * STX_MAX_DIMS];

	*n = 0;
	if (!stx__p_need(s, "["))
		return 0;
	while (!stx__p_take(s, "]")) {
		if (*n == 2 * STX_MAX_DIMS)
			return stx__p_bad(s, "too many dimensions");
		if ((*n && !stx__p_need(s, ",")) || !stx__p_expression(s, &at[*n]))
			return 0;
		++*n;
	}
	*out = stx_arena_copy(s->arena, at, (*n + 1) * sizeof *at);
	return *out ? 1 : stx__p_oom(s);
}
