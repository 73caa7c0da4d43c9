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

stx_err stx__realize_writes(struct stx__lower *l, uint32_t first)
{
	uint32_t n = l->g->outputs.n - first;
	struct stx__inner **fn = STX_NEW_ARRAY(l->arena, struct stx__inner *, n + 1u);
	if (!fn)
		return l->err = stx_fail(l->d, STX_E_NOMEM, "lower", "", "out of memory budget");
	for (uint32_t i = 0; i < n && !l->err; i++) {
		const struct stx_output *o = &l->g->outputs.at[first + i];
		fn[i] = stx__value_of(l, o->val);
		if (!updated_input(l, o, fn[i]) && reads_written(l, fn[i]))
			fn[i] = stx__realize_value(l, o->val.node, fn[i], STX_REALIZED_OUTPUT);
	}
	for (uint32_t i = 0; i < n && !l->err; i++) {
		const struct stx_output *o = &l->g->outputs.at[first + i];
		struct stx_buffer *b = updated_input(l, o, fn[i]);
		if (!b && !(b = write_buffer(l, o, fn[i])))
			return l->err;
		b->index = first + i;
		if (stx_push(l->arena, &l->loops->outputs, b->id))
			l->err = stx_fail(l->d, STX_E_NOMEM, "lower", "", "out of memory budget");
	}
	return l->err;
}
