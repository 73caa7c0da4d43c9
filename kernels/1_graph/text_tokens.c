/* text_tokens.c: tokens and numbers of the text form. */
#include "text_tokens.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int stx__t_fail(struct stx__parser *s, const char *at, const char *fmt, ...)
{
	if (!s->err) {
		va_list ap;
		va_start(ap, fmt);
		s->err = stx_vfail(s->d, STX_E_INVALID, "parse", s->node, fmt, ap);
		va_end(ap);
		s->bad = at;
	}
	return -1;
}

/* An error reported by another module: the place is added. */
int stx__t_failed(struct stx__parser *s, const char *at, stx_err e)
{
	if (!s->err) {
		s->err = e ? e : STX_E_INTERNAL;
		s->bad = at;
	}
	return -1;
}

int stx__t_over_budget(struct stx__parser *s, const char *at)
{
	return stx__t_failed(s, at, stx__over_budget("parse", "", s->d));
}

void stx__t_skip(struct stx__parser *s)
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

int stx__t_peek(struct stx__parser *s)
{
	stx__t_skip(s);
	return s->p < s->end ? (unsigned char)*s->p : -1;
}

int stx__t_accept(struct stx__parser *s, char c)
{
	if (stx__t_peek(s) != (unsigned char)c)
		return 0;
	s->p++;
	return 1;
}

int stx__t_expect(struct stx__parser *s, char c)
{
	if (stx__t_accept(s, c))
		return 0;
	if (s->p == s->end)
		return stx__t_fail(s, s->p, "the text ends where '%c' is expected", c);
	return stx__t_fail(s, s->p, "expected '%c'", c);
}

static int is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

/* A word (letters, digits, _, and the characters of extra) at the cursor; empty when there is none.
 */
struct stx_span stx__t_word(struct stx__parser *s, const char *extra)
{
	stx__t_skip(s);
	const char *from = s->p;
	while (s->p < s->end && *s->p && (is_word(*s->p) || strchr(extra, *s->p)))
		s->p++;
	return (struct stx_span){ (const uint8_t *)from, (size_t)(s->p - from) };
}

int stx__t_is(struct stx_span w, const char *text)
{
	return w.n == strlen(text) && !memcmp(w.at, text, w.n);
}

int stx__t_accept_word(struct stx__parser *s, const char *text)
{
	const char *from = s->p;
	if (stx__t_is(stx__t_word(s, ""), text))
		return 1;
	s->p = from;
	return 0;
}

int stx__t_expect_word(struct stx__parser *s, const char *text)
{
	stx__t_skip(s);
	return stx__t_accept_word(s, text) ? 0 : stx__t_fail(s, s->p, "expected '%s'", text);
}

int stx__t_shown(struct stx_span w)
{
	return w.n > 40 ? 40 : (int)w.n;
}

/* ---- numbers ---- */

/* The longest run of characters a number may have, as a C string. */
static int number_text(struct stx__parser *s, char out[64], const char **at)
{
	stx__t_skip(s);
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

int stx__t_i64(struct stx__parser *s, int64_t *v)
{
	char t[64], *end;
	const char *at;
	number_text(s, t, &at);
	errno = 0;
	*v = strtoll(t, &end, 10);
	if (end == t || *end)
		return stx__t_fail(s, at, "expected an integer");
	return errno ? stx__t_fail(s, at, "the integer does not fit in 64 bits") : 0;
}

static int parse_nan_bits(struct stx__parser *s, int negative, double *v)
{
	char t[24];
	const char *at = s->p;
	struct stx_span w = stx__t_word(s, "");
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
		return stx__t_fail(
			s, at,
			"expected the 16 hexadecimal digits of a NaN: nan(0x7ff8000000000001)");
	memcpy(v, &bits, 8);
	return stx__t_expect(s, ')');
}

/* A number: *is_float tells which of *f and *i holds it. */
int stx__t_number(struct stx__parser *s, int *is_float, double *f, int64_t *i)
{
	stx__t_skip(s);
	const char *at = s->p;
	int negative = s->p < s->end && *s->p == '-';
	const char *q = s->p + negative;
	char t[64], *end;
	*is_float = 1;
	if (q < s->end && (*q == 'i' || *q == 'n')) {
		s->p = q;
		struct stx_span w = stx__t_word(s, "");
		uint64_t quiet = 0x7ff8000000000000u;
		if (stx__t_is(w, "inf")) {
			*f = negative ? -__builtin_inf() : __builtin_inf();
			return 0;
		}
		if (!stx__t_is(w, "nan"))
			return stx__t_fail(s, at, "expected a number");
		if (s->p < s->end && *s->p == '(') {
			s->p++;
			return parse_nan_bits(s, negative, f);
		}
		quiet |= (uint64_t)negative << 63;
		memcpy(f, &quiet, 8);
		return 0;
	}
	if (!number_text(s, t, &at))
		return stx__t_fail(s, at, "expected a number");
	if (!strpbrk(t, ".eE")) {
		*is_float = 0;
		s->p = at;
		return stx__t_i64(s, i);
	}
	*f = strtod(t, &end);
	return end == t || *end ? stx__t_fail(s, at, "expected a number") : 0;
}

int stx__t_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}
