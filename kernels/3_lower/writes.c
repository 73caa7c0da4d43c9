/* writes.c: outputs that inputs hold after the run (DF-03): updates in place of the inputs' memory. */
#include "lower.h"

static struct stx_buffer *written_buffer(const struct stx__lower *l, const struct stx_output *o)
{
	const struct stx_node *in = l->g->inputs.at[o->writes - 1].node;
	return l->loops->buffers.at[l->vals[in->id].fn->u.load.buffer];
}

/* fn is the memory of the input that o writes, updated in place for it (own_buffer of
 * rules_scatter.c), or NULL. */
static struct stx_buffer *updated_input(const struct stx__lower *l, const struct stx_output *o,
					const struct stx__inner *fn)
{
	struct stx_buffer *b, *root;
	if (fn->rule != STX_IN_LOAD)
		return NULL;
	root = b = l->loops->buffers.at[fn->u.load.buffer];
	while (root->base)
		root = root->base;
	return b != root && root == written_buffer(l, o) && !b->heir ? b : NULL;
}

static int reads_written(const struct stx__lower *l, const struct stx__inner *fn)
{
	if (fn->nbufs >= STX__MANY_BUFFERS)
		return 1;
	for (uint32_t i = 0; i < fn->nbufs; i++) {
		const struct stx_buffer *b = l->loops->buffers.at[fn->bufs[i]];
		if (b->kind == STX_BUF_INPUT &&
		    l->vals[l->g->inputs.at[b->index].node->id].written_with.node)
			return 1;
	}
	return 0;
}

stx_err stx__begin_writes(struct stx__lower *l)
{
	for (uint32_t i = 0; i < l->g->outputs.n && !l->err; i++) {
		const struct stx_output *o = &l->g->outputs.at[i];
		struct stx_buffer *b;
		if (!o->writes)
			continue;
		b = updated_input(l, o, stx__value_of(l, o->val));
		if (b) {
			b->kind = STX_BUF_OUTPUT;
			b->index = i;
		}
	}
	return l->err;
}

/* The input's memory becomes fn, at every element once. */
static struct stx_buffer *write_buffer(struct stx__lower *l, const struct stx_output *o,
				       struct stx__inner *fn)
{
	struct stx_buffer *to = written_buffer(l, o),
			  *b = stx__pointwise_buffer(l, fn, o->val.node, STX_BUF_OUTPUT,
						     STX_REALIZED_OUTPUT);
	struct stx__shape s = { fn->rank, fn->sizes };
	if (!b)
		return NULL;
	b->base = to;
	to->heir = b;
	b->layout = to->layout;
	b->store = stx__address(l->ex, s, to->layout.strides, to->layout.offset);
	return b;
}

/* What of the outputs that are written is still to be realised, and who reads which memory. */
struct writes {
	struct stx__lower *l;
	uint32_t first, n;
	struct stx__inner **fn; /* [n] */
	uint32_t *last;      /* [buffers] 1 + the last buffer that reads it, of the first `seen` */
	uint32_t *pending;   /* [buffers] functions of fn that read it */
	uint32_t many, seen; /* functions that read too many buffers to tell which */
};

static void count_reads(struct writes *w, const struct stx__inner *fn, int by)
{
	if (fn->nbufs >= STX__MANY_BUFFERS)
		w->many += (uint32_t)by;
	for (uint32_t i = 0; i < fn->nbufs && fn->nbufs < STX__MANY_BUFFERS; i++)
		w->pending[fn->bufs[i]] += (uint32_t)by;
}

static void see_buffers(struct writes *w)
{
	for (; w->seen < w->l->loops->buffers.n; w->seen++) {
		const struct stx_body *body = &w->l->loops->buffers.at[w->seen]->body;
		for (uint32_t j = 0; j < body->n; j++)
			if (body->at[j].op == STX_B_LOAD)
				w->last[body->at[j].a] = w->seen + 1;
	}
}

static int same_layout(const struct stx_layout *a, const struct stx_layout *b)
{
	return a->rank == b->rank && a->offset == b->offset &&
	       !memcmp(a->sizes, b->sizes, a->rank * sizeof *a->sizes) &&
	       !memcmp(a->strides, b->strides, a->rank * sizeof *a->strides);
}

/* x.add_(1): the temporary that fn[i] is in may be x's memory, of which it reads only the element
 * it stores (kernel.h allows that), where nothing after it reads what was in x. */
static void write_at_once(struct writes *w, uint32_t i)
{
	struct stx__lower *l = w->l;
	const struct stx__inner *fn = w->fn[i];
	struct stx__shape s = { fn->rank, fn->sizes };
	struct stx_buffer *b, *to = written_buffer(l, &l->g->outputs.at[w->first + i]);
	if (fn->rule != STX_IN_LOAD || w->many || w->pending[to->id] || to->heir)
		return;
	b = l->loops->buffers.at[fn->u.load.buffer];
	if (b->kind != STX_BUF_TEMP || b->def != STX_DEF_POINTWISE || b->base || b->heir ||
	    b->dtype != to->dtype || !same_layout(&b->layout, &to->layout) ||
	    w->last[to->id] > b->id + 1 || !stx__whole_storage(l, b, s, fn->u.load.ex))
		return;
	for (uint32_t k = 0; k < b->body.n; k++)
		if (b->body.at[k].op == STX_B_LOAD && b->body.at[k].a == to->id &&
		    b->body.at[k].ex != b->store)
			return;
	b->kind = STX_BUF_OUTPUT;
	b->layout.flexible = 0;
	b->base = to;
	to->heir = b;
}

static stx_err begin(struct writes *w, struct stx__lower *l, uint32_t first)
{
	uint32_t n = l->g->outputs.n - first, room = l->loops->buffers.n + n + 1u;
	*w = (struct writes){ .l = l, .first = first, .n = n };
	w->fn = STX_NEW_ARRAY(l->arena, struct stx__inner *, n + 1u);
	w->last = STX_NEW_ARRAY(l->arena, uint32_t, room);
	w->pending = STX_NEW_ARRAY(l->arena, uint32_t, room);
	if (!w->fn || !w->last || !w->pending)
		return l->err = stx_fail(l->d, STX_E_NOMEM, "lower", "", "out of memory budget");
	for (uint32_t i = 0; i < n; i++) {
		w->fn[i] = stx__value_of(l, l->g->outputs.at[first + i].val);
		count_reads(w, w->fn[i], 1);
	}
	return 0;
}

stx_err stx__realize_writes(struct stx__lower *l, uint32_t first)
{
	struct writes w;
	if (begin(&w, l, first))
		return l->err;
	for (uint32_t i = 0; i < w.n && !l->err; i++) {
		const struct stx_output *o = &l->g->outputs.at[first + i];
		count_reads(&w, w.fn[i], -1);
		if (updated_input(l, o, w.fn[i]))
			continue;
		if (reads_written(l, w.fn[i]))
			w.fn[i] = stx__realize_value(l, o->val.node, w.fn[i], STX_REALIZED_OUTPUT);
		see_buffers(&w);
		if (w.fn[i])
			write_at_once(&w, i);
	}
	for (uint32_t i = 0; i < w.n && !l->err; i++) {
		const struct stx_output *o = &l->g->outputs.at[first + i];
		struct stx_buffer *b = updated_input(l, o, w.fn[i]);
		if (!b && !(b = write_buffer(l, o, w.fn[i])))
			return l->err;
		b->index = first + i;
		if (stx_push(l->arena, &l->loops->outputs, b->id))
			l->err = stx_fail(l->d, STX_E_NOMEM, "lower", "", "out of memory budget");
	}
	return l->err;
}
