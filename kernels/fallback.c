/* fallback.c: opt-in interpretation of a graph that has no code (LO-04, ST-02).
 *
 * Requires: a canonical graph whose lowering, schedule or plan failed for a reason of the graph's.
 * Ensures: a plan without kernels: one external call "interpret" with the canonical graph's text,
 * the inputs and the outputs; libstax has its private worker evaluate it with the oracle. The
 * report says which operator had no code, and why. The whole graph is the region that falls back:
 * what it costs is no concern of a run that was asked to work rather than to be fast. */
#include <string.h>

#include "compile_run.h"
#include "passes.h"
#include "plan.h"

static struct stx_buffer *add_buffer(struct run *r, struct stx_loops *l, enum stx_buffer_kind kind,
				     const char *name, const struct stx_type *t,
				     const stx_ex *strides)
{
	struct stx_buffer *b = STX_NEW(r->arena, struct stx_buffer);
	stx_ex *row_major = STX_NEW_ARRAY(r->arena, stx_ex, t->rank + 1u);
	if (!b || !row_major || stx_push(r->arena, &l->buffers, b))
		return NULL;
	stx_ex stride = stx_ex_const(l->ex, 1);
	for (uint32_t d = t->rank; d-- > 0;) {
		row_major[d] = stride;
		stride = stx_ex_mul(l->ex, stride, t->sizes[d]);
	}
	b->id = l->buffers.n - 1;
	b->kind = kind;
	b->name = name;
	b->dtype = t->dtype;
	b->layout = (struct stx_layout){ .rank = t->rank,
					 .sizes = t->sizes,
					 .strides = strides ? strides : row_major,
					 .offset = stx_ex_const(l->ex, 0) };
	return b;
}

/* Output b lies in the memory of input number `input`, whose buffer follows the text's. */
static void write_input(const struct stx_loops *l, struct stx_buffer *b, uint32_t input)
{
	b->base = l->buffers.at[1 + input];
	b->base->heir = b;
	b->layout = b->base->layout;
}

/* The call's values: the text, inputs, outputs; args gets them. */
static stx_err add_buffers(struct run *r, struct stx_loops *l, struct stx_use *args)
{
	struct stx_graph *g = l->g;
	stx_ex *size = STX_NEW(r->arena, stx_ex);
	uint8_t *text = stx_arena_copy(r->arena, r->text.at, r->text.n);
	if (!size || !text)
		return STX_E_NOMEM;
	*size = stx_ex_const(l->ex, (int64_t)r->text.n);
	struct stx_type bytes = { .dtype = STX_U8, .rank = 1, .sizes = size };
	struct stx_buffer *b = add_buffer(r, l, STX_BUF_CONST, "graph", &bytes, NULL);
	if (!b)
		return STX_E_NOMEM;
	b->data = (struct stx_const_data){ .bytes = text, .n = r->text.n };
	*args++ = (struct stx_use){ b->id, 1, 0 };
	for (uint32_t i = 0; i < g->inputs.n; i++) {
		const struct stx_input *in = &g->inputs.at[i];
		b = add_buffer(r, l, STX_BUF_INPUT, in->node->name, &in->node->outs[0],
			       in->strides);
		if (!b)
			return STX_E_NOMEM;
		b->index = i;
		*args++ = (struct stx_use){ b->id, 1, 0 };
	}
	for (uint32_t i = 0; i < g->outputs.n; i++) {
		struct stx_val v = g->outputs.at[i].val;
		b = add_buffer(r, l, STX_BUF_OUTPUT, v.node->name, &v.node->outs[v.out], NULL);
		if (!b || stx_push(r->arena, &l->outputs, b->id))
			return STX_E_NOMEM;
		b->index = i;
		if (g->outputs.at[i].writes)
			write_input(l, b, g->outputs.at[i].writes - 1);
		*args++ = (struct stx_use){ b->id, 0, 1 };
	}
	return STX_E_OK;
}

static stx_err make_schedule(struct run *r)
{
	struct stx_graph *g;
	struct stx_schedule *s = STX_NEW(r->arena, struct stx_schedule);
	struct stx_loops *l = STX_NEW(r->arena, struct stx_loops);
	stx_err e = stx_graph_parse(r->arena, (const char *)r->text.at, r->text.n, &g, r->d);
	if (e)
		return e;
	uint32_t n = 1 + g->inputs.n + g->outputs.n;
	struct stx_use *args = STX_NEW_ARRAY(r->arena, struct stx_use, n);
	if (!s || !l || !args)
		return STX_E_NOMEM;
	l->g = g;
	l->ex = g->ex;
	s->loops = l;
	if ((e = add_buffers(r, l, args)))
		return e;
	s->slots = STX_NEW_ARRAY(r->arena, struct stx_slot, l->buffers.n + 1);
	s->storage = STX_NEW_ARRAY(r->arena, uint32_t, l->buffers.n + 1);
	if (!s->slots || !s->storage)
		return STX_E_NOMEM;
	for (uint32_t i = 0; i < l->buffers.n; i++) {
		s->slots[i].offset = s->slots[i].size = STX_EX_BAD;
		s->storage[i] = l->buffers.at[i]->base ? l->buffers.at[i]->base->id : i;
	}
	s->workspace = stx_ex_const(l->ex, 0);
	struct stx_external call = { .name = "interpret",
				     .uses = args,
				     .nuses = n,
				     .workspace = STX_NONE,
				     .kernel = STX_NONE };
	struct stx_sched_step step = { STX_SCHED_EXTERNAL, 0 };
	if (stx_push(r->arena, &s->externals, call) || stx_push(r->arena, &s->steps, step))
		return STX_E_NOMEM;
	r->loops = l;
	r->schedule = s;
	return STX_E_OK;
}

int stx__can_fall_back(const struct run *r, stx_err e)
{
	int here = r->last && r->last->traits & FALLS_BACK;
	return r->options->allow_fallback && here && !stx_gpu_is_target(r->options->target) &&
	       !stx_arena_oom(r->arena) && (e == STX_E_UNSUPPORTED || e == STX_E_TOO_LARGE);
}

stx_err stx__fall_back(struct run *r, const struct stx_diag *why)
{
	struct stx_plan p;
	stx_bytes_free(&r->plan);
	stx_err e = make_schedule(r);
	const char *line =
		e ? NULL
		  : stx_arena_printf(r->arena, "fallback: %%%s: %s; the graph is interpreted",
				     why->node, why->text);
	if (!e && (!line || stx_push(r->arena, &r->schedule->report, line)))
		e = STX_E_NOMEM;
	if (!e)
		e = stx_plan_write(r->schedule, r->options->target, NULL, &r->plan, r->d);
	if (!e)
		e = stx_plan_open((struct stx_span){ r->plan.at, r->plan.n }, &p, r->d);
	return e ? stx_fail(r->d, e, "fallback", NULL, "%s", stx_err_text(e)) : STX_E_OK;
}
