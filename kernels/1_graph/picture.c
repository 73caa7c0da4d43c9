/* picture.c: building a picture; its dot form; text that is safe in XML and dot. */
#include "picture_impl.h"

#include <stdio.h>

/* ---- building ---- */

int stx_picture_box(struct stx_picture *p, const char *name, const char *title,
		    enum stx_box_look look)
{
	struct stx_picture_box b = { .name = name, .title = title, .look = look };
	return stx_push(p->arena, &p->boxes, b);
}

int stx_picture_part(struct stx_picture *p, uint32_t box, int is_dashed)
{
	struct stx_picture_part q = { .is_dashed = is_dashed != 0 };
	return stx_push(p->arena, &p->boxes.at[box].parts, q);
}

int stx_picture_line(struct stx_picture *p, uint32_t box, enum stx_line_style style,
		     const char *fmt, ...)
{
	struct stx_picture_box *b = &p->boxes.at[box];
	char short_text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(short_text, sizeof short_text, fmt, ap);
	va_end(ap);
	struct stx_picture_line l = { stx_arena_strdup(p->arena, short_text), style };
	if (!l.text)
		return -1;
	return stx_push(p->arena, &b->parts.at[b->parts.n - 1].lines, l);
}

int stx_picture_edge(struct stx_picture *p, uint32_t from, uint32_t from_part, uint32_t to,
		     uint32_t to_part, uint32_t label)
{
	struct stx_picture_edge e = { from, from_part, to, to_part, label };
	return stx_push(p->arena, &p->edges, e);
}

/* ---- text ---- */

/* The character at *s as UTF-8 that XML allows, its bytes in *n; 0: one byte that is none. */
static uint32_t next_char(const unsigned char *s, int *n)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	int bytes = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
	uint32_t c = bytes == 1 ? *s : bytes ? *s & (0x7fu >> bytes) : 0;
	*n = 1;
	for (int i = 1; i < bytes; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		c = c << 6 | (s[i] & 63);
	}
	if (!bytes || c < least[bytes] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ||
	    (c & 0xfffe) == 0xfffe || c < 32 || (c >= 127 && c < 160))
		return 0;
	*n = bytes;
	return c;
}

static int count_chars(const char *text, int max)
{
	int chars = 0, n;
	for (const unsigned char *s = (const unsigned char *)text; *s && chars <= max; s += n) {
		next_char(s, &n);
		chars++;
	}
	return chars;
}

int stx__text_width(const char *text, int max)
{
	int n = count_chars(text, max);
	return n > max ? max : n;
}

static void put_char(struct stx_bytes *out, const unsigned char *s, int n, uint32_t c)
{
	switch (c) {
	case 0: stx_bytes_u8(out, '?'); break;
	case '&': stx_bytes_puts(out, "&amp;"); break;
	case '<': stx_bytes_puts(out, "&lt;"); break;
	case '>': stx_bytes_puts(out, "&gt;"); break;
	case '"': stx_bytes_puts(out, "&quot;"); break;
	case '\'': stx_bytes_puts(out, "&#39;"); break;
	default: stx_bytes_put(out, s, (size_t)n);
	}
}

int stx__xml_text(struct stx_bytes *out, const char *text, int max)
{
	int all = count_chars(text, max), shown = all > max ? max - 1 : all, n;
	const unsigned char *s = (const unsigned char *)text;
	for (int i = 0; i < shown; i++, s += n) {
		uint32_t c = next_char(s, &n);
		put_char(out, s, n, c);
	}
	if (all > max)
		stx_bytes_puts(out, "\xe2\x80\xa6");
	return all > max ? max : all;
}

/* ---- dot ---- */

/* In a quoted string of dot: quotes and backslashes escaped, what is not printable a '?'. */
static void put_quoted(struct stx_bytes *out, const char *text)
{
	int n;
	for (const unsigned char *s = (const unsigned char *)text; *s; s += n) {
		uint32_t c = next_char(s, &n);
		if (!c)
			stx_bytes_u8(out, '?');
		else if (c == '"' || c == '\\')
			stx_bytes_printf(out, "\\%c", (int)c);
		else
			stx_bytes_put(out, s, (size_t)n);
	}
}

static const char *const fills[STX_LOOK_COUNT] = {
	[STX_LOOK_INPUT] = "#e8f1fb",  [STX_LOOK_CONSTANT] = "#f3f3f3",
	[STX_LOOK_OUTPUT] = "#e6f6e6", [STX_LOOK_POINTWISE] = "#fff8e1",
	[STX_LOOK_REDUCE] = "#fde8dc", [STX_LOOK_CONTRACT] = "#ecdff5",
	[STX_LOOK_VIEW] = "#f3f3f3",   [STX_LOOK_OTHER] = "#fdeef2",
};

const char *stx__look_fill(enum stx_box_look look)
{
	return fills[look];
}

static int is_round(enum stx_box_look look)
{
	return look == STX_LOOK_INPUT || look == STX_LOOK_OUTPUT || look == STX_LOOK_CONSTANT;
}

/* Nodes are b<box>_<part>: names may hold anything. */
static void dot_part(struct stx_bytes *out, const struct stx_picture_box *b, uint32_t box,
		     uint32_t part)
{
	const struct stx_picture_part *q = &b->parts.at[part];
	stx_bytes_printf(out, "b%u_%u [label=\"", box, part);
	for (uint32_t i = 0; i < q->lines.n; i++) {
		put_quoted(out, q->lines.at[i].text);
		stx_bytes_puts(out, "\\l");
	}
	stx_bytes_printf(out, "\", fillcolor=\"%s\", style=\"filled%s%s\"];\n", fills[b->look],
			 is_round(b->look) ? ",rounded" : "", q->is_dashed ? ",dashed" : "");
}

static void dot_box(struct stx_bytes *out, const struct stx_picture_box *b, uint32_t box)
{
	if (b->title) {
		stx_bytes_printf(out, "  subgraph cluster_%u {\n    label=\"", box);
		put_quoted(out, b->title);
		stx_bytes_puts(out, "\";\n");
	}
	for (uint32_t i = 0; i < b->parts.n; i++) {
		stx_bytes_puts(out, b->title ? "    " : "  ");
		dot_part(out, b, box, i);
	}
	if (b->title)
		stx_bytes_puts(out, "  }\n");
}

static void print_dot(const struct stx_picture *p, struct stx_bytes *out)
{
	stx_bytes_puts(out, "digraph stax {\n  label=\"");
	put_quoted(out, p->title);
	stx_bytes_puts(out, "\";\n  labelloc=t;\n  fontname=\"monospace\";\n"
			    "  node [shape=box, fontname=\"monospace\", fontsize=11];\n"
			    "  edge [fontname=\"monospace\", fontsize=10];\n");
	for (uint32_t i = 0; i < p->boxes.n; i++)
		dot_box(out, &p->boxes.at[i], i);
	for (uint32_t i = 0; i < p->edges.n; i++) {
		const struct stx_picture_edge *e = &p->edges.at[i];
		stx_bytes_printf(out, "  b%u_%u -> b%u_%u", e->from, e->from_part, e->to,
				 e->to_part);
		if (e->label != STX_PICTURE_PLAIN) {
			stx_bytes_puts(out, " [label=\"");
			put_quoted(out, p->labels.at[e->label]);
			stx_bytes_puts(out, "\"]");
		}
		stx_bytes_puts(out, ";\n");
	}
	stx_bytes_puts(out, "}\n");
}

int stx_picture_is_format(const char *format)
{
	return !strcmp(format, "dot") || !strcmp(format, "svg");
}

stx_err stx_picture_print(struct stx_picture *p, const char *format, struct stx_bytes *out,
			  struct stx_diag *d)
{
	stx_err e = STX_E_OK;
	if (!strcmp(format, "svg"))
		e = stx__picture_svg(p, out, d);
	else
		print_dot(p, out);
	if (!e && out->oom)
		e = stx_fail(d, STX_E_NOMEM, "picture", NULL, "out of memory");
	return e;
}
