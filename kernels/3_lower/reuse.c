/* reuse.c
 * copies made for an update in place that nobody needs: the memory copied has no later reader.
 *
 * requires: all buffers made, outputs chosen. ensures: an update whose base was a plain copy of a
 * temporary (or of a donated input) that is read by earlier buffers only updates that memory
 * itself; the copy is gone and buffers are renumbered. Groups are launched in the order of their
 * buffers, so earlier readers have read by then. Two passes over the bodies. */

#include "lower.h"

struct reuse {
	struct stx__lower *l;
	uint32_t *last;   /* [buffers] 1 + the last buffer that reads it */
	uint32_t *number; /* new number of each buffer; STX_NONE: gone */
};

static void find_readers(struct reuse *r)
{
	const struct stx_loops *p = r->l->loops;
	uint32_t i, j;

	for (i = 0; i < p->buffers.n; i++)
		for (j = 0; j < p->buffers.at[i]->body.n; j++)
			if (p->buffers.at[i]->body.at[j].op == STX_B_LOAD)
				r->last[p->buffers.at[i]->body.at[j].a] = i + 1;
}

static int is_spare(const struct reuse *r, const struct stx_buffer *b)
{
	const struct stx_input *in;

	if (b->heir)
		return 0;
	if (b->kind != STX_BUF_INPUT)
		return b->kind == STX_BUF_TEMP;
	in = &r->l->g->inputs.at[b->index];
	return in->node->is_donated && !in->strides && !r->l->vals[in->node->id].written_with.node;
}

/* What `copy` copies whole, if that is free after it; NULL otherwise. */
static struct stx_buffer *original(const struct reuse *r, const struct stx_buffer *copy)
{
	const struct stx_binst *in = copy->body.at;
	struct stx__shape s = { (uint8_t)copy->nranges, copy->ranges };
	struct stx_buffer *b;

	if (!copy->heir || copy->base || copy->def != STX_DEF_POINTWISE || copy->body.n != 1 ||
	    in->op != STX_B_LOAD || in->c != STX_NONE || in->ex != copy->store ||
	    copy->kind != STX_BUF_TEMP)
		return NULL;
	b = r->l->loops->buffers.at[in->a];
	return is_spare(r, b) && b->dtype == copy->dtype && r->last[b->id] == copy->id + 1 &&
			       stx__whole_storage(r->l, b, s, in->ex)
		       ? b
		       : NULL;
}

static void renumber(struct reuse *r)
{
	struct stx_loops *p = r->l->loops;
	uint32_t i, n = 0;

	for (i = 0; i < p->buffers.n; i++)
		if (r->number[i] != STX_NONE) {
			r->number[i] = n;
			p->buffers.at[n++] = p->buffers.at[i];
		}
	p->buffers.n = n;
	for (i = 0; i < n; i++) {
		struct stx_buffer *b = p->buffers.at[i];

		b->id = i;
		stx_buffer_renumber(b, r->number);
	}
	for (i = 0; i < p->outputs.n; i++)
		p->outputs.at[i] = r->number[p->outputs.at[i]];
}

stx_err stx__drop_copies(struct stx__lower *l)
{
	struct reuse r = { .l = l };
	uint32_t i, gone = 0, n = l->loops->buffers.n;

	for (i = 0; i < n; i++)
		gone += l->loops->buffers.at[i]->base != NULL;
	if (!gone)
		return 0;
	r.last = STX_NEW_ARRAY(l->arena, uint32_t, n + 1u);
	r.number = STX_NEW_ARRAY(l->arena, uint32_t, n + 1u);
	if (!r.last || !r.number)
		return stx_fail(l->d, STX_E_NOMEM, "lower", "", "out of memory budget");
	find_readers(&r);
	for (i = 0; i < n; i++) {
		struct stx_buffer *copy = l->loops->buffers.at[i], *from = original(&r, copy);

		if (!from)
			continue;
		copy->heir->base = from;
		from->heir = copy->heir;
		r.number[i] = STX_NONE;
	}
	renumber(&r);
	return 0;
}
