/* rewrite.c: walking a graph's nodes while replacing some of them; removal of dead nodes. */
#include <string.h>

#include "graph_internal.h"

struct stx_arena *stx__scratch_arena(const struct stx_graph *g)
{
	return stx_arena_new(4 * stx_arena_used(g->arena) + ((size_t)1 << 20));
}

stx_err stx__rewrite_begin(struct stx__rewrite *w, struct stx_graph *g, struct stx_diag *d)
{
	*w = (struct stx__rewrite){ .g = g, .old = g->nodes.at, .n = g->nodes.n };
	w->repl = STX_NEW_ARRAY(g->arena, struct stx_val *, w->n + 1);
	if (!w->repl)
		return stx__over_budget("rewrite", "", d);
	memset(&g->nodes, 0, sizeof g->nodes);
	return 0;
}

/* A node that stays carries its new position as id and stands there; a replaced one keeps its old
 * id and is found in repl. */
static struct stx_val remap(const struct stx__rewrite *w, struct stx_val v)
{
	uint32_t id = v.node->id;
	if (id < w->g->nodes.n && w->g->nodes.at[id] == v.node)
		return v;
	return w->repl[id] ? w->repl[id][v.out] : v;
}

void stx__rewrite_operands(const struct stx__rewrite *w, struct stx_node *n)
{
	struct stx__cursor c = { 0 };
	for (struct stx_val *v; (v = stx__next_operand(n, &c));)
		*v = remap(w, *v);
}

stx_err stx__rewrite_keep(struct stx__rewrite *w, struct stx_node *n, struct stx_diag *d)
{
	return stx__graph_append(w->g, n, d);
}

void stx__rewrite_replace(struct stx__rewrite *w, uint32_t i, struct stx_val *results)
{
	w->repl[i] = results;
}

void stx__rewrite_end(struct stx__rewrite *w)
{
	for (uint32_t i = 0; i < w->g->outputs.n; i++)
		w->g->outputs.at[i].val = remap(w, w->g->outputs.at[i].val);
}

stx_err stx__graph_sweep(struct stx_graph *g, struct stx_diag *d)
{
	uint8_t *live = stx_arena_zalloc(g->arena, g->nodes.n + 1, 1);
	if (!live)
		return stx__over_budget("graph", "", d);
	for (uint32_t i = 0; i < g->nodes.n; i++)
		g->nodes.at[i]->id = i;
	for (uint32_t i = 0; i < g->outputs.n; i++)
		live[g->outputs.at[i].val.node->id] = 1;
	for (uint32_t i = g->nodes.n; i-- > 0;) { /* users stand after what they use */
		struct stx_node *n = g->nodes.at[i];
		struct stx__cursor c = { 0 };
		if (n->op == STX_OP_PLACEHOLDER || (stx_op_info(n->op)->tags & STX_TAG_EFFECT))
			live[i] = 1;
		for (struct stx_val *v; live[i] && (v = stx__next_operand(n, &c));)
			live[v->node->id] = 1;
	}
	uint32_t kept = 0;
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		if (!live[i])
			continue;
		g->nodes.at[kept] = g->nodes.at[i];
		g->nodes.at[kept]->id = kept;
		kept++;
	}
	g->nodes.n = kept;
	return 0;
}
