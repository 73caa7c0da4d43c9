/* print.c: JSON and tables. */
#include "print.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- JSON ---- */

/* Length of the UTF-8 sequence at s (n bytes left), 0 when malformed, overlong or a surrogate. */
static size_t sequence(const uint8_t *s, size_t n)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t len = s[0] < 0x80       ? 1
		     : s[0] >> 5 == 6  ? 2
		     : s[0] >> 4 == 14 ? 3
		     : s[0] >> 3 == 30 ? 4
				       : 0;
	if (len == 0 || len > n)
		return 0;
	uint32_t c = len == 1 ? s[0] : s[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	return c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : len;
}

static void quote(struct stx_bytes *b, const char *text)
{
	const uint8_t *s = (const uint8_t *)text;
	size_t n = strlen(text);
	stx_bytes_u8(b, '"');
	while (n) {
		size_t len = sequence(s, n);
		if (*s == '"' || *s == '\\')
			stx_bytes_printf(b, "\\%c", *s);
		else if (*s == '\n')
			stx_bytes_puts(b, "\\n");
		else if (*s < 0x20 || *s == 0x7f)
			stx_bytes_printf(b, "\\u%04x", *s);
		else if (len)
			stx_bytes_put(b, s, len);
		else
			stx_bytes_u8(b, '?');
		s += len ? len : 1;
		n -= len ? len : 1;
	}
	stx_bytes_u8(b, '"');
}

static void item(struct stx_json *j, const char *key)
{
	if (j->used[j->depth])
		stx_bytes_u8(&j->b, ',');
	j->used[j->depth] = 1;
	if (key) {
		quote(&j->b, key);
		stx_bytes_u8(&j->b, ':');
	}
}

void stx_json_open(struct stx_json *j, const char *key, char bracket)
{
	item(j, key);
	stx_bytes_u8(&j->b, (uint8_t)bracket);
	if (j->depth + 1 < (int)sizeof j->used)
		j->depth++;
	j->used[j->depth] = 0;
}

void stx_json_close(struct stx_json *j, char bracket)
{
	stx_bytes_u8(&j->b, (uint8_t)bracket);
	if (j->depth > 0)
		j->depth--;
}

void stx_json_str(struct stx_json *j, const char *key, const char *v)
{
	item(j, key);
	quote(&j->b, v ? v : "");
}

void stx_json_uint(struct stx_json *j, const char *key, uint64_t v)
{
	item(j, key);
	stx_bytes_printf(&j->b, "%llu", (unsigned long long)v);
}

void stx_json_real(struct stx_json *j, const char *key, double v)
{
	item(j, key);
	if (isfinite(v))
		stx_bytes_printf(&j->b, "%.17g", v);
	else
		stx_bytes_puts(&j->b, "null");
}

void stx_json_bool(struct stx_json *j, const char *key, int v)
{
	item(j, key);
	stx_bytes_puts(&j->b, v ? "true" : "false");
}

/* ---- tables ---- */

void stx_table_column(struct stx_table *t, const char *title, int right)
{
	if (t->ncols == STX_TABLE_COLUMNS)
		return;
	t->right[t->ncols++] = right;
	stx_bytes_put(&t->text, title, strlen(title) + 1);
	t->ncells++;
}

void stx_table_cell(struct stx_table *t, const char *fmt, ...)
{
	char cell[256];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(cell, sizeof cell, fmt, ap);
	va_end(ap);
	for (char *p = cell; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	stx_bytes_put(&t->text, cell, strlen(cell) + 1);
	t->ncells++;
}

void stx_table_write(struct stx_table *t, struct stx_bytes *out)
{
	int width[STX_TABLE_COLUMNS] = { 0 };
	const char *cell = (const char *)t->text.at;
	for (unsigned i = 0; t->ncols && i < t->ncells && !t->text.oom; i++) {
		int n = (int)strlen(cell), *w = &width[i % (unsigned)t->ncols];
		*w = n > *w ? n : *w;
		cell += n + 1;
	}
	cell = (const char *)t->text.at;
	for (unsigned i = 0; t->ncols && i < t->ncells && !t->text.oom; i++) {
		unsigned col = i % (unsigned)t->ncols;
		int last = col + 1 == (unsigned)t->ncols;
		int pad = t->right[col] ? width[col] : last ? 0 : -width[col];
		stx_bytes_printf(out, "%*s%s", pad, cell, last ? "\n" : "  ");
		cell += strlen(cell) + 1;
	}
	stx_bytes_free(&t->text);
	memset(t, 0, sizeof *t);
}
