/* schedule_picture.c: kernels as clusters, buffers as edges.
 *
 * Inputs and outputs are boxes; constants, and parameters that one kernel reads, are lines in the
 * boxes of their readers. What a kernel computes and keeps in registers is dashed. */
#include "schedule_picture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "schedule_impl.h"

struct place {              /* where a buffer is drawn */
	uint32_t box, part; /* box + 1; 0: nowhere */
	uint32_t label;
	uint32_t seen;    /* number of the last part that reads it */
	uint32_t readers; /* boxes */
};
struct draw {
	const struct stx_loops *l;
	struct stx_picture *p;
	struct stx_arena *a;
	struct place *at;   /* [buffers.n] */
	uint8_t *in_memory; /* [buffers.n] */
	uint32_t nparts;
	struct stx_bytes text;
};

static const char *take_text(struct draw *w)
{
	const char *s = stx_bytes_cstr(&w->text);
	stx_bytes_clear(&w->text);
	return s;
}

static void symbol(void *ctx, enum stx_atom_kind kind, uint32_t number, char *out, size_t cap)
{
	const struct stx_graph *g = ctx;
	if (kind == STX_ATOM_SYM && number < g->symbols.n)
		snprintf(out, cap, "%s", g->symbols.at[number].name);
	else
		snprintf(out, cap, "v%u", number);
}

static void put_sizes(struct draw *w, const stx_ex *at, uint32_t n)
{
	stx_bytes_u8(&w->text, '[');
	for (uint32_t i = 0; i < n; i++) {
		stx_bytes_puts(&w->text, i ? "," : "");
		stx_ex_print(w->l->ex, at[i], symbol, w->l->g, &w->text);
	}
	stx_bytes_u8(&w->text, ']');
}

/* dtype, shape and bytes; the bytes are those at the size hints. */
static void put_type(struct draw *w, const struct stx_buffer *b)
{
	int64_t n = stx_dtype_bytes(b->dtype);
	stx_bytes_puts(&w->text, stx_dtype_name(b->dtype));
	put_sizes(w, b->layout.sizes, b->layout.rank);
	for (uint32_t i = 0; i < b->layout.rank; i++)
		n = stx_sat_mul(n, stx_ex_hint(w->l->ex, b->layout.sizes[i]));
	if (n >= 10 << 20)
		stx_bytes_printf(&w->text, " %.1f MB", (double)n / 1e6);
	else if (n >= 10 << 10)
		stx_bytes_printf(&w->text, " %.1f kB", (double)n / 1e3);
	else
		stx_bytes_printf(&w->text, " %" PRId64 " B", n);
}

/* ---- one computed buffer ---- */

/* Nodes it computes, without those that it only reads. */
static void put_origins(struct draw *w, const struct stx_buffer *b)
{
	int any = 0;
	for (uint32_t i = 0; i < b->norigins && w->text.n < 200; i++) {
		int read = 0;
		for (uint32_t k = 0; k < b->body.n && !read; k++)
			read = b->body.at[k].op == STX_B_LOAD &&
			       !strcmp(w->l->buffers.at[b->body.at[k].a]->name, b->origins[i]);
		if (read)
			continue;
		stx_bytes_printf(&w->text, "%s%s", any++ ? ", " : "", b->origins[i]);
	}
	if (b->has_more_origins)
		stx_bytes_puts(&w->text, any ? ", ..." : "...");
}

static int put_lines(struct draw *w, uint32_t box, const struct stx_buffer *b)
{
	if (b->def == STX_DEF_REDUCTION) {
		stx_bytes_printf(&w->text, "%s over ", stx_monoid_info(b->monoid)->text);
		put_sizes(w, b->rranges, b->nrranges);
	} else {
		stx_bytes_puts(&w->text, "pointwise");
	}
	stx_bytes_puts(&w->text, " at ");
	put_sizes(w, b->ranges, b->nranges);
	if (stx_picture_line(w->p, box, STX_LINE_TITLE, "%s", take_text(w)))
		return -1;
	put_origins(w, b);
	if (w->text.n && stx_picture_line(w->p, box, STX_LINE_PLAIN, "%s", take_text(w)))
		return -1;
	stx_bytes_printf(&w->text, "%s ", b->name);
	put_type(w, b);
	if (!w->in_memory[b->id])
		stx_bytes_puts(&w->text, ", in registers");
	return stx_picture_line(w->p, box, STX_LINE_PLAIN, "%s", take_text(w));
}

/* An edge from a buffer that is drawn; a line about one that is not. */
static int put_read(struct draw *w, uint32_t box, uint32_t part, const struct stx_buffer *b)
{
	struct place *q = &w->at[b->id];
	if (q->seen == w->nparts)
		return 0;
	q->seen = w->nparts;
	if (q->box)
		return stx_picture_edge(w->p, q->box - 1, q->part, box, part,
					q->box == box + 1 ? STX_PICTURE_PLAIN : q->label);
	stx_bytes_printf(&w->text, "reads %s ", b->name);
	put_type(w, b);
	return stx_picture_line(w->p, box, STX_LINE_DIM, "%s", take_text(w));
}

static int put_part(struct draw *w, uint32_t box, uint32_t part, const struct stx_buffer *b)
{
	struct place *q = &w->at[b->id];
	w->nparts++;
	if (stx_picture_part(w->p, box, !w->in_memory[b->id]) || put_lines(w, box, b))
		return -1;
	for (uint32_t i = 0; i < b->body.n; i++)
		if (b->body.at[i].op == STX_B_LOAD &&
		    put_read(w, box, part, w->l->buffers.at[b->body.at[i].a]))
			return -1;
	q->box = box + 1;
	q->part = part;
	q->label = w->p->labels.n;
	stx_bytes_printf(&w->text, "%s ", b->name);
	put_type(w, b);
	const char *label = stx_arena_strdup(w->a, take_text(w));
	return label ? stx_push(w->a, &w->p->labels, label) : -1;
}

/* ---- inputs and outputs ---- */

static int put_input(struct draw *w, const struct stx_buffer *b)
{
	uint32_t box = w->p->boxes.n;
	if (b->kind == STX_BUF_CONST)
		return 0;
	int param = w->l->g->inputs.at[b->index].node->is_param;
	if (param && w->at[b->id].readers == 1)
		return 0;
	w->at[b->id].box = box + 1;
	if (stx_picture_box(w->p, b->name, NULL, param ? STX_LOOK_CONSTANT : STX_LOOK_INPUT) ||
	    stx_picture_part(w->p, box, 0) ||
	    stx_picture_line(w->p, box, STX_LINE_TITLE, "%s %u", param ? "parameter" : "input",
			     b->index) ||
	    stx_picture_line(w->p, box, STX_LINE_PLAIN, "%%%s", b->name))
		return -1;
	const char *origin = w->l->g->inputs.at[b->index].node->origin;
	put_type(w, b);
	if (stx_picture_line(w->p, box, STX_LINE_PLAIN, "%s", take_text(w)))
		return -1;
	return origin ? stx_picture_line(w->p, box, STX_LINE_DIM, "%s", origin) : 0;
}

static int put_output(struct draw *w, uint32_t i)
{
	const struct stx_buffer *b = w->l->buffers.at[w->l->outputs.at[i]];
	const struct stx_output *o = &w->l->g->outputs.at[i];
	uint32_t box = w->p->boxes.n;
	if (stx_picture_box(w->p, stx_arena_printf(w->a, "output %u", i), NULL, STX_LOOK_OUTPUT) ||
	    stx_picture_part(w->p, box, 0) ||
	    stx_picture_line(w->p, box, STX_LINE_TITLE, "output %u%s%s", i, o->name ? " " : "",
			     o->name ? o->name : ""))
		return -1;
	stx_bytes_printf(&w->text, "%s ", b->name);
	put_type(w, b);
	if (stx_picture_line(w->p, box, STX_LINE_PLAIN, "%s", take_text(w)))
		return -1;
	const struct place *q = &w->at[b->id];
	return q->box ? stx_picture_edge(w->p, q->box - 1, q->part, box, 0, STX_PICTURE_PLAIN) : 0;
}

/* ---- the whole ---- */

static enum stx_box_look look_of(const struct stx_buffer *b)
{
	if (b->def != STX_DEF_REDUCTION)
		return STX_LOOK_POINTWISE;
	return b->monoid == STX_MONOID_DOT || b->monoid == STX_MONOID_ATTEND ? STX_LOOK_CONTRACT
									     : STX_LOOK_REDUCE;
}

static int compare_ids(const void *a, const void *b)
{
	uint32_t p = *(const uint32_t *)a, q = *(const uint32_t *)b;
	return p < q ? -1 : p > q;
}

/* Parts in definition order: operands above what reads them. */
static int put_kernel(struct draw *w, const struct stx_group *g, const struct stx_kernel *k)
{
	uint32_t box = w->p->boxes.n, n = g->buffers.n;
	uint32_t *ids = STX_NEW_ARRAY(w->a, uint32_t, n + 1);
	int64_t grid = stx_ex_hint(k->ex, k->grid);
	const char *title = stx_arena_printf(w->a, "%s, grid %" PRId64, k->name, grid);
	int bad =
		!title || !ids ||
		stx_picture_box(w->p, k->name, title, look_of(w->l->buffers.at[g->buffers.at[0]]));
	if (!bad) {
		memcpy(ids, g->buffers.at, n * sizeof *ids);
		if (g->scores != STX_NONE)
			ids[n++] = g->scores;
		qsort(ids, n, sizeof *ids, compare_ids);
	}
	for (uint32_t i = 0; !bad && i < n; i++)
		bad = put_part(w, box, i, w->l->buffers.at[ids[i]]);
	return bad;
}

static int put_buffer(struct draw *w, const struct stx_buffer *b)
{
	return stx_picture_box(w->p, b->name, NULL, look_of(b)) ||
	       put_part(w, w->p->boxes.n - 1, 0, b);
}

/* Which buffers a kernel writes to memory, and how many kernels read each. */
static void count_readers(struct draw *w, const struct stx_schedule *s)
{
	for (uint32_t i = 0; s && i < s->kernels.n; i++) {
		const struct stx_kernel *k = s->kernels.at[i];
		for (uint32_t j = 0; j < k->params.n; j++) {
			w->in_memory[k->params.at[j].buffer] |= k->params.at[j].is_written;
			w->at[k->params.at[j].buffer].readers += k->params.at[j].is_read;
		}
	}
	for (uint32_t i = 0; !s && i < w->l->buffers.n; i++) {
		const struct stx_buffer *b = w->l->buffers.at[i];
		w->in_memory[i] = 1;
		for (uint32_t k = 0; b->def != STX_DEF_NONE && k < b->body.n; k++) {
			struct place *q = &w->at[b->body.at[k].a];
			if (b->body.at[k].op != STX_B_LOAD || q->seen == i + 1)
				continue;
			q->seen = i + 1;
			q->readers++;
		}
	}
	for (uint32_t i = 0; i < w->l->buffers.n; i++)
		w->at[i].seen = 0, w->at[i].label = STX_PICTURE_PLAIN;
}

static const char *title_of(struct draw *w, const struct stx_schedule *s)
{
	if (!s)
		return stx_arena_printf(w->a, "%u buffers before fusion", w->l->buffers.n);
	return stx_arena_printf(w->a,
				"%u kernel%s, %" PRIu64 " bytes read, %" PRIu64
				" written, at least %" PRIu64 "; workspace %" PRIu64,
				s->kernels.n, s->kernels.n == 1 ? "" : "s", s->fused.bytes_read,
				s->fused.bytes_written, s->bytes_min, s->workspace_bytes);
}

stx_err stx_picture_of_schedule(const struct stx_loops *l, const struct stx_schedule *s,
				struct stx_picture *p, struct stx_diag *d)
{
	struct draw w = { .l = l, .p = p, .a = p->arena };
	w.at = STX_NEW_ARRAY(w.a, struct place, l->buffers.n + 1);
	w.in_memory = STX_NEW_ARRAY(w.a, uint8_t, l->buffers.n + 1);
	p->title = title_of(&w, s);
	int bad = !w.at || !w.in_memory || !p->title;
	if (!bad)
		count_readers(&w, s);
	for (uint32_t i = 0; !bad && i < l->buffers.n; i++)
		if (l->buffers.at[i]->def == STX_DEF_NONE)
			bad = put_input(&w, l->buffers.at[i]);
		else if (!s)
			bad = put_buffer(&w, l->buffers.at[i]);
	for (uint32_t i = 0; !bad && s && i < s->groups.n; i++)
		bad = put_kernel(&w, &s->groups.at[i], s->kernels.at[i]);
	for (uint32_t i = 0; !bad && i < l->outputs.n; i++)
		bad = put_output(&w, i);
	bad = bad || w.text.oom;
	stx_bytes_free(&w.text);
	return bad ? stx_fail(d, STX_E_TOO_LARGE, "picture", NULL,
			      "the schedule is too large for a picture")
		   : STX_E_OK;
}
