/* picture.h
 * boxes and edges to be drawn, as dot for Graphviz or as SVG by a layout of our own.
 *
 * Why our own: the worker that draws is sandboxed and may start no program, libgvc brings cairo,
 * pango and X11 into it, and `dot` needs minutes at some thousand nodes. Who has Graphviz pipes the
 * dot form through it. Everything lives in the picture's arena; the same picture gives the same
 * bytes. Boxes and edges are given in any order, edges form no cycle. */
#ifndef STX_PICTURE_H
#define STX_PICTURE_H

#include "arena.h"
#include "bytes.h"
#include "graph.h"

enum stx_box_look { /* picture.c: colours */
		    STX_LOOK_INPUT,
		    STX_LOOK_CONSTANT,
		    STX_LOOK_OUTPUT,
		    STX_LOOK_POINTWISE,
		    STX_LOOK_REDUCE,
		    STX_LOOK_CONTRACT,
		    STX_LOOK_VIEW,
		    STX_LOOK_OTHER,
		    STX_LOOK_COUNT
};
enum stx_line_style { STX_LINE_TITLE, STX_LINE_PLAIN, STX_LINE_DIM };

struct stx_picture_line {
	const char *text; /* any bytes: escaped and shortened when drawn */
	enum stx_line_style style;
};
/* A piece of a box: the whole box when it is the only one; else the box is a cluster of them. */
struct stx_picture_part {
	STX_VEC(struct stx_picture_line) lines;
	uint8_t is_dashed; /* exists in registers only */
};
struct stx_picture_box {
	const char *name;  /* unique in the picture */
	const char *title; /* of a cluster; NULL otherwise */
	enum stx_box_look look;
	STX_VEC(struct stx_picture_part) parts; /* top to bottom */
};
struct stx_picture_edge { /* from a part of a box to a part of a later one */
	uint32_t from, from_part, to, to_part;
	uint32_t label; /* labels.at[label], or STX_PICTURE_PLAIN. Edges of one label and one source
			   share it */
};
#define STX_PICTURE_PLAIN 0xffffffffu

struct stx_picture {
	struct stx_arena *arena;
	const char *title;
	STX_VEC(struct stx_picture_box) boxes;
	STX_VEC(struct stx_picture_edge) edges;
	STX_VEC(const char *) labels;
};

/* Building; 0, or -1 when the arena is exhausted. A part is the last one of its box, a line of the
 * last part. */
int stx_picture_box(struct stx_picture *p, const char *name, const char *title,
		    enum stx_box_look look);
int stx_picture_part(struct stx_picture *p, uint32_t box, int is_dashed);
int stx_picture_line(struct stx_picture *p, uint32_t box, enum stx_line_style style,
		     const char *fmt, ...) __attribute__((format(printf, 4, 5)));
int stx_picture_edge(struct stx_picture *p, uint32_t from, uint32_t from_part, uint32_t to,
		     uint32_t to_part, uint32_t label);

/* 1 when format is one that stx_picture_print knows: "dot" or "svg". */
int stx_picture_is_format(const char *format);
stx_err stx_picture_print(struct stx_picture *p, const char *format, struct stx_bytes *out,
			  struct stx_diag *d);
/* A graph: a box a node; constants, and parameters with one reader, are lines in their readers'
 * boxes. */
stx_err stx_picture_of_graph(struct stx_graph *g, struct stx_picture *p, struct stx_diag *d);

#endif
