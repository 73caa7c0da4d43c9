/* picture_impl.h
 * shared by picture.c, picture_layout.c and picture_svg.c only. */
#ifndef STX_PICTURE_IMPL_H
#define STX_PICTURE_IMPL_H

#include "picture.h"

/* ---- text ---- */

#define STX__TEXT_MAX 72 /* characters of a line that are shown */
/* Appends text with XML's special characters escaped and what is no printable UTF-8 as '?', at most
 * `max` characters, the last then an ellipsis. Returns the number of characters. */
int stx__xml_text(struct stx_bytes *out, const char *text, int max);
int stx__text_width(const char *text, int max); /* characters that stx__xml_text shows */

const char *stx__look_fill(enum stx_box_look look);

/* ---- layout ---- */

/* What is placed: boxes first, then labels, then the points at which long edges cross layers. */
struct stx__placed {
	float x, y; /* centre, top */
	float w, h;
	uint32_t layer;
};
struct stx__route {        /* an edge, or the way from a box to its label or from there on */
	uint32_t first, n; /* points.at[first .. first+n): placed numbers from source to target */
	uint32_t edge;     /* an edge that it belongs to */
	uint8_t is_arrow;  /* ends at a box */
};
struct stx__layout {
	struct stx_arena *arena;
	uint32_t nboxes, nlabels; /* labels that are placed */
	const uint32_t *label;    /* [nlabels] number of the text in the picture */
	STX_VEC(struct stx__placed) placed;
	STX_VEC(struct stx__route) routes;
	STX_VEC(uint32_t) points;
	STX_VEC(uint32_t) far; /* edges too long to be drawn: lines in their targets' boxes */
	uint32_t nlayers;
	float *top, *height; /* [nlayers] */
	float width, height_all;
};

#define STX__FAR_LINES 12 /* far edges of one box that are named */

void stx__label_size(const char *text, float *w, float *h);
/* w and h of a box that has `extra` lines about far edges. */
typedef void stx__box_size_fn(const struct stx_picture *p, uint32_t box, uint32_t extra, float *w,
			      float *h);
/* ensures: boxes and labels do not overlap. Time near linear in boxes and edges. */
stx_err stx__picture_layout(struct stx_picture *p, stx__box_size_fn *size, struct stx__layout *y,
			    struct stx_diag *d);
stx_err stx__picture_svg(struct stx_picture *p, struct stx_bytes *out, struct stx_diag *d);

#endif
