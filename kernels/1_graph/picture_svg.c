/* picture_svg.c: a picture as SVG.
 *
 * Boxes are <g class="box"> with their name in <title>; a cluster's parts are stacked in it. Text
 * is monospaced, so that widths are known without a font. */
#include "picture_impl.h"

#include <stdio.h>
#include <stdlib.h>

#define CHAR_W    7.1f /* of 11 px monospace, with a little room */
#define LINE_H    14.0f
#define PAD       6.0f
#define PART_GAP  5.0f
#define MARGIN    20.0f
#define TITLE_H   26.0f
#define TITLE_MAX 120

struct end {         /* of a route at a placed thing: ends of one side are spread over its width */
	float other; /* x at the other end */
	uint32_t route, order;
};
struct drawing {
	struct stx_picture *p;
	struct stx__layout y;
	struct stx_bytes *out;
	uint32_t *far_at, *far; /* far edges by target */
	float *from_x, *to_x;   /* [routes.n] */
};

/* ---- sizes ---- */

static void widen(float *w, const char *text, float more)
{
	float x = (float)stx__text_width(text, STX__TEXT_MAX) * CHAR_W + 2 * PAD + more;
	if (x > *w)
		*w = x;
}

void stx__label_size(const char *text, float *w, float *h)
{
	*w = 0;
	widen(w, text, 0);
	*h = LINE_H + 2;
}

static float part_height(const struct stx_picture_part *q)
{
	return (float)q->lines.n * LINE_H + 2 * PAD - 2;
}

static uint32_t far_lines(uint32_t n)
{
	return n > STX__FAR_LINES ? STX__FAR_LINES + 1 : n;
}

static void box_size(const struct stx_picture *p, uint32_t box, uint32_t far, float *w, float *h)
{
	const struct stx_picture_box *b = &p->boxes.at[box];
	float inner = b->title ? 2 * PAD : 0;
	*w = 40;
	*h = 0;
	for (uint32_t i = 0; i < b->parts.n; i++) {
		const struct stx_picture_part *q = &b->parts.at[i];
		for (uint32_t k = 0; k < q->lines.n; k++)
			widen(w, q->lines.at[k].text, inner);
		*h += part_height(q) + (i ? PART_GAP : 0);
	}
	if (b->title) {
		widen(w, b->title, 0);
		*h += LINE_H + 2 * PAD + 2;
	}
	if (far) {
		*h += (float)far_lines(far) * LINE_H;
		if (*w < 34 * CHAR_W)
			*w = 34 * CHAR_W;
	}
}

/* ---- boxes ---- */

static const char *const styles[] = {
	[STX_LINE_TITLE] = "t", [STX_LINE_PLAIN] = "p", [STX_LINE_DIM] = "d"
};

static void put_line(struct drawing *g, float x, float y, const char *style, const char *text,
		     int max)
{
	stx_bytes_printf(g->out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", style, x, y);
	stx__xml_text(g->out, text, max);
	stx_bytes_puts(g->out, "</text>\n");
}

static void put_rect(struct drawing *g, const char *class, float x, float y, float w, float h,
		     float round, const char *fill)
{
	stx_bytes_printf(g->out,
			 "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
			 "height=\"%.1f\" rx=\"%.0f\" fill=\"%s\"/>\n",
			 class, x, y, w, h, round, fill);
}

/* Lines about the sources that are too far away for an edge. */
static void put_far(struct drawing *g, uint32_t box, float x, float y)
{
	uint32_t n = g->far_at[box + 1] - g->far_at[box];
	for (uint32_t i = 0; i < far_lines(n); i++, y += LINE_H) {
		const struct stx_picture_edge *e = &g->p->edges.at[g->far[g->far_at[box] + i]];
		char text[96];
		if (i == STX__FAR_LINES)
			snprintf(text, sizeof text, "and %u more far above", n - i);
		else
			snprintf(text, sizeof text, "\xe2\x86\x91 %.60s",
				 e->label == STX_PICTURE_PLAIN ? g->p->boxes.at[e->from].name
							       : g->p->labels.at[e->label]);
		put_line(g, x, y, "d", text, 32);
	}
}

static void put_box(struct drawing *g, uint32_t box)
{
	const struct stx_picture_box *b = &g->p->boxes.at[box];
	const struct stx__placed *t = &g->y.placed.at[box];
	float x = t->x - t->w / 2, y = t->y, w = t->w;
	int round = b->look == STX_LOOK_INPUT || b->look == STX_LOOK_OUTPUT ||
		    b->look == STX_LOOK_CONSTANT;
	stx_bytes_puts(g->out, "<g class=\"box\"><title>");
	stx__xml_text(g->out, b->name, 4096);
	stx_bytes_puts(g->out, "</title>\n");
	put_rect(g,
		 b->title                                 ? "c"
		 : b->parts.n && b->parts.at[0].is_dashed ? "r"
							  : "b",
		 x, y, w, t->h, round ? 10 : 3, b->title ? "#fbfbfb" : stx__look_fill(b->look));
	if (b->title) {
		put_line(g, x + PAD, y + LINE_H, "t", b->title, STX__TEXT_MAX);
		x += PAD;
		w -= 2 * PAD;
		y += LINE_H + PAD;
	}
	for (uint32_t i = 0; i < b->parts.n; i++) {
		const struct stx_picture_part *q = &b->parts.at[i];
		if (b->title)
			put_rect(g, q->is_dashed ? "r" : "b", x, y, w, part_height(q), 3,
				 stx__look_fill(b->look));
		for (uint32_t k = 0; k < q->lines.n; k++)
			put_line(g, x + PAD, y + PAD + 9 + (float)k * LINE_H,
				 styles[q->lines.at[k].style], q->lines.at[k].text, STX__TEXT_MAX);
		y += part_height(q) + PART_GAP;
	}
	put_far(g, box, x + PAD, y + 5);
	stx_bytes_puts(g->out, "</g>\n");
}

static void put_label(struct drawing *g, uint32_t label)
{
	const struct stx__placed *t = &g->y.placed.at[g->y.nboxes + label];
	stx_bytes_printf(g->out, "<text class=\"l\" x=\"%.1f\" y=\"%.1f\">", t->x, t->y + 11);
	stx__xml_text(g->out, g->p->labels.at[g->y.label[label]], STX__TEXT_MAX);
	stx_bytes_puts(g->out, "</text>\n");
}

/* ---- edges ---- */

static int compare_ends(const void *a, const void *b)
{
	const struct end *p = a, *q = b;
	if (p->other != q->other)
		return p->other < q->other ? -1 : 1;
	return p->order < q->order ? -1 : p->order > q->order;
}

/* Where routes leave (or reach) things: in order of where they come from, evenly over the width. */
static int spread_ends(struct drawing *g, int out, float *x)
{
	uint32_t n = g->y.placed.n, nr = g->y.routes.n;
	uint32_t *at = STX_NEW_ARRAY(g->p->arena, uint32_t, n + 2);
	struct end *ends = STX_NEW_ARRAY(g->p->arena, struct end, nr + 1);
	if (!at || !ends)
		return -1;
	for (uint32_t i = 0; i < nr; i++) {
		const struct stx__route *r = &g->y.routes.at[i];
		at[g->y.points.at[out ? r->first : r->first + r->n - 1] + 2]++;
	}
	for (uint32_t i = 2; i <= n + 1; i++)
		at[i] += at[i - 1];
	for (uint32_t i = 0; i < nr; i++) {
		const struct stx__route *r = &g->y.routes.at[i];
		const uint32_t *points = g->y.points.at + r->first;
		uint32_t here = points[out ? 0 : r->n - 1], next = points[out ? 1 : r->n - 2];
		ends[at[here + 1]++] = (struct end){ g->y.placed.at[next].x, i, i };
	}
	for (uint32_t v = 0; v < n; v++) {
		const struct stx__placed *t = &g->y.placed.at[v];
		uint32_t k = at[v + 1] - at[v];
		int is_label = v >= g->y.nboxes;
		qsort(ends + at[v], k, sizeof *ends, compare_ends);
		for (uint32_t j = 0; j < k; j++)
			x[ends[at[v] + j].route] =
				is_label ? t->x
					 : t->x + t->w * 0.8f *
							   (((float)j + 1) / ((float)k + 1) - 0.5f);
	}
	return 0;
}

/* A route leaves downwards, crosses layers straight and arrives from above. */
static void put_route(struct drawing *g, uint32_t i)
{
	const struct stx__route *r = &g->y.routes.at[i];
	const uint32_t *points = g->y.points.at + r->first;
	const struct stx__placed *t = &g->y.placed.at[points[0]];
	float x = g->from_x[i], y = t->y + t->h;
	stx_bytes_printf(g->out, "<path%s d=\"M%.1f %.1f", r->is_arrow ? " class=\"e\"" : "", x, y);
	for (uint32_t k = 1; k < r->n; k++) {
		uint32_t layer = g->y.placed.at[points[k - 1]].layer;
		float bottom = g->y.top[layer] + g->y.height[layer];
		int last = k + 1 == r->n;
		t = &g->y.placed.at[points[k]];
		float to = last ? g->to_x[i] : t->x;
		float top = last && !r->is_arrow ? t->y : g->y.top[layer + 1];
		float middle = (bottom + top) / 2;
		if (bottom > y)
			stx_bytes_printf(g->out, "V%.1f", bottom);
		stx_bytes_printf(g->out, "C%.1f %.1f %.1f %.1f %.1f %.1f", x, middle, to, middle,
				 to, top - (last && r->is_arrow ? 5 : 0));
		x = to;
		y = top;
	}
	stx_bytes_puts(g->out, "\"/>\n");
}

/* ---- the whole ---- */

static const char style[] =
	"<style>text{font:11px monospace;fill:#222}.t{font-weight:bold}.d{fill:#777}"
	".l{fill:#225588;text-anchor:middle}.b,.c,.r{stroke:#555}.c{stroke:#999}"
	".r{stroke-dasharray:4 3}path{fill:none;stroke:#889}.e{marker-end:url(#a)}"
	"#head{font-size:13px;font-weight:bold}</style>\n"
	"<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"1\" refY=\"4\" markerWidth=\"6\" "
	"markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" "
	"style=\"fill:#889;stroke:none\"/></marker></defs>\n";

static int sort_far(struct drawing *g)
{
	uint32_t n = g->y.nboxes;
	g->far_at = STX_NEW_ARRAY(g->p->arena, uint32_t, n + 2);
	g->far = STX_NEW_ARRAY(g->p->arena, uint32_t, g->y.far.n + 1);
	if (!g->far_at || !g->far)
		return -1;
	for (uint32_t i = 0; i < g->y.far.n; i++)
		g->far_at[g->p->edges.at[g->y.far.at[i]].to + 2]++;
	for (uint32_t i = 2; i <= n + 1; i++)
		g->far_at[i] += g->far_at[i - 1];
	for (uint32_t i = 0; i < g->y.far.n; i++) {
		uint32_t e = g->y.far.at[i];
		g->far[g->far_at[g->p->edges.at[e].to + 1]++] = e;
	}
	return 0;
}

stx_err stx__picture_svg(struct stx_picture *p, struct stx_bytes *out, struct stx_diag *d)
{
	struct drawing g = { .p = p, .out = out, .y = { .arena = p->arena } };
	stx_err e = stx__picture_layout(p, box_size, &g.y, d);
	if (e)
		return e;
	g.from_x = STX_NEW_ARRAY(p->arena, float, g.y.routes.n + 1);
	g.to_x = STX_NEW_ARRAY(p->arena, float, g.y.routes.n + 1);
	if (!g.from_x || !g.to_x || spread_ends(&g, 1, g.from_x) || spread_ends(&g, 0, g.to_x) ||
	    sort_far(&g))
		return stx_fail(d, STX_E_TOO_LARGE, "picture", NULL,
				"the picture needs too much memory: use --format dot");
	float w = g.y.width, head = (float)stx__text_width(p->title, TITLE_MAX) * CHAR_W * 1.25f;
	w = (w > head ? w : head) + 2 * MARGIN;
	float h = g.y.height_all + 2 * MARGIN + TITLE_H;
	stx_bytes_printf(out,
			 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
			 "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n%s"
			 "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
			 "<text id=\"head\" x=\"%.0f\" y=\"%.0f\">",
			 w, h, w, h, style, MARGIN, MARGIN + 8);
	stx__xml_text(out, p->title, TITLE_MAX);
	stx_bytes_printf(out, "</text>\n<g transform=\"translate(%.0f %.0f)\">\n", MARGIN,
			 MARGIN + TITLE_H);
	for (uint32_t i = 0; i < g.y.routes.n; i++)
		put_route(&g, i);
	for (uint32_t i = 0; i < g.y.nlabels; i++)
		put_label(&g, i);
	for (uint32_t i = 0; i < g.y.nboxes; i++)
		put_box(&g, i);
	stx_bytes_puts(out, "</g>\n</svg>\n");
	return STX_E_OK;
}
