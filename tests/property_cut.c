/* property_cut.c: a compiled run compared with the oracle node by node where results round
 * differently.
 *
 * requires: a verified graph with static sizes. The graph is cut at every inexact node: the oracle
 * evaluates that node from the compiled values of earlier ones, and everything behind it from its
 * compiled value. So all other nodes must have the oracle's bits, and each inexact one is held to
 * its own bound (property_bound.c). */
#include <stdlib.h>
#include <string.h>

#include "passes.h"
#include "property_case.h"

/* ---- copying graphs ---- */

struct stx_type prop_copy_type(struct stx_graph *to, const struct stx_graph *from,
			       const struct stx_type *t)
{
	int64_t sizes[STX_MAX_DIMS];
	for (int i = 0; i < t->rank; i++)
		if (!stx_ex_is_const(from->ex, t->sizes[i], &sizes[i]))
			sizes[i] = 0;
	return stx_type_make(to, t->dtype, t->rank, sizes);
}

static struct stx_arg copy_arg(struct stx_graph *to, const struct stx_graph *from,
			       const struct stx_arg *a, const struct stx_val *map)
{
	struct stx_arg r = *a;
	int64_t v = 0;
	if (a->kind == STX_ARG_TENSOR) {
		r.u.tensor = map[prop_at(a->u.tensor)];
	} else if (a->kind == STX_ARG_TENSORS) {
		r = stx_arg_tensors(to, a->u.tensors, a->n);
		for (uint32_t i = 0; i < a->n; i++)
			if (a->u.tensors[i].node)
				((struct stx_val *)(uintptr_t)r.u.tensors)[i] =
					map[prop_at(a->u.tensors[i])];
	} else if (a->kind == STX_ARG_INT) {
		stx_ex_is_const(from->ex, a->u.ex, &v);
		r.u.ex = stx_ex_const(to->ex, v);
	} else if (a->kind == STX_ARG_INTS) {
		stx_ex *e = STX_NEW_ARRAY(to->arena, stx_ex, a->n + 1);
		for (uint32_t i = 0; i < a->n; i++) {
			stx_ex_is_const(from->ex, a->u.exs[i], &v);
			e[i] = stx_ex_const(to->ex, v);
		}
		r.u.exs = e;
	}
	return r;
}

struct stx_val *prop_map_new(struct stx_arena *a, const struct stx_graph *g)
{
	return STX_NEW_ARRAY(a, struct stx_val, (size_t)PROP_MAX_OUTS * (g->nodes.n + 1));
}

void prop_map_node(struct stx_val *map, const struct stx_node *n, struct stx_node *m)
{
	for (uint32_t i = 0; i < n->nouts && i < PROP_MAX_OUTS; i++)
		map[n->id * PROP_MAX_OUTS + i] = stx_val(m, i);
}

struct stx_node *prop_copy_node(struct stx_graph *to, const struct stx_graph *from,
				const struct stx_node *n, const struct stx_val *map,
				struct stx_diag *d)
{
	struct stx_arg args[16];
	if (n->op == STX_OP_CONSTANT)
		return stx_graph_constant(to, n->name, prop_copy_type(to, from, &n->outs[0]),
					  n->data.bytes, n->data.n, d);
	for (uint32_t i = 0; i < n->nargs; i++)
		args[i] = copy_arg(to, from, &n->args[i], map);
	return stx_graph_call(to, n->op, n->name, args, n->nargs, d);
}

static struct stx_node *copy_input(struct stx_graph *to, const struct stx_graph *from,
				   const struct stx_input *in, struct stx_diag *d)
{
	stx_ex strides[STX_MAX_DIMS];
	for (int i = 0; in->strides && i < in->node->outs[0].rank; i++) {
		int64_t v = 0;
		stx_ex_is_const(from->ex, in->strides[i], &v);
		strides[i] = stx_ex_const(to->ex, v);
	}
	struct stx_node *n =
		stx_graph_input(to, in->node->name, prop_copy_type(to, from, &in->node->outs[0]),
				in->strides ? strides : NULL, in->node->is_param, d);
	if (n)
		n->is_donated = in->node->is_donated;
	return n;
}

struct prop_case *prop_compact(struct stx_arena *a, const struct prop_case *c)
{
	struct prop_case *to = STX_NEW(a, struct prop_case);
	struct stx_val *map = prop_map_new(a, c->g);
	const uint8_t *live = prop_live(a, c->g);
	struct stx_diag d = { 0 };
	*to = *c;
	to->g = stx_graph_new(a);
	for (uint32_t i = 0; i < c->g->inputs.n; i++)
		prop_map_node(map, c->g->inputs.at[i].node,
			      copy_input(to->g, c->g, &c->g->inputs.at[i], &d));
	for (uint32_t i = 0; i < c->g->nodes.n; i++) {
		const struct stx_node *n = c->g->nodes.at[i];
		if (live[i] && n->op != STX_OP_PLACEHOLDER)
			prop_map_node(map, n, prop_copy_node(to->g, c->g, n, map, &d));
	}
	for (uint32_t i = 0; i < c->g->outputs.n; i++)
		if (stx_graph_output(to->g, map[prop_at(c->g->outputs.at[i].val)], NULL, &d))
			abort();
	return to;
}

/* ---- the cut ---- */

void prop_mark_operands(const struct stx_node *n, uint8_t *live)
{
	for (uint32_t k = 0; k < n->nargs; k++) {
		const struct stx_arg *a = &n->args[k];
		if (a->kind == STX_ARG_TENSOR)
			live[a->u.tensor.node->id] = 1;
		for (uint32_t j = 0; a->kind == STX_ARG_TENSORS && j < a->n; j++)
			if (a->u.tensors[j].node)
				live[a->u.tensors[j].node->id] = 1;
	}
}

uint8_t *prop_live(struct stx_arena *a, const struct stx_graph *g)
{
	uint8_t *live = STX_NEW_ARRAY(a, uint8_t, g->nodes.n + 1);
	for (uint32_t i = 0; i < g->outputs.n; i++)
		live[g->outputs.at[i].val.node->id] = 1;
	for (uint32_t i = g->nodes.n; i-- > 0;)
		if (live[i])
			prop_mark_operands(g->nodes.at[i], live);
	return live;
}

stx_err prop_cut(struct stx_arena *a, const struct stx_graph *g, struct prop_cut *out,
		 struct stx_diag *d)
{
	struct stx_val *run = prop_map_new(a, g), *oracle = prop_map_new(a, g);
	struct stx_node *inexact[PROP_MAX_OUTPUTS], *computed[PROP_MAX_OUTPUTS];
	uint8_t *live = prop_live(a, g);
	memset(out, 0, sizeof *out);
	out->arena = a;
	out->run = stx_graph_new(a);
	out->oracle = stx_graph_new(a);
	for (uint32_t i = 0; i < g->inputs.n; i++) {
		const struct stx_node *n = g->inputs.at[i].node;
		prop_map_node(run, n, copy_input(out->run, g, &g->inputs.at[i], d));
		prop_map_node(oracle, n, copy_input(out->oracle, g, &g->inputs.at[i], d));
	}
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		const struct stx_node *n = g->nodes.at[i];
		if (!live[i] || n->op == STX_OP_PLACEHOLDER)
			continue;
		struct stx_node *x = prop_copy_node(out->run, g, n, run, d);
		struct stx_node *y = prop_copy_node(out->oracle, g, n, oracle, d);
		if (!x || !y)
			return d->code ? d->code : STX_E_INTERNAL;
		prop_map_node(run, n, x);
		prop_map_node(oracle, n, y);
		if (!prop_inexact(n) || out->ninexact + g->outputs.n >= PROP_MAX_OUTPUTS / 2 ||
		    out->oracle->inputs.n == PROP_MAX_INPUTS)
			continue;
		inexact[out->ninexact] = x;
		computed[out->ninexact++] = y;
		oracle[n->id * PROP_MAX_OUTS] =
			stx_val(/* its other results are exact */
				stx_graph_input(out->oracle, n->name,
						prop_copy_type(out->oracle, g, &n->outs[0]), NULL,
						0, d),
				0);
	}
	for (uint32_t i = 0; i < g->outputs.n; i++) {
		uint32_t at = prop_at(g->outputs.at[i].val);
		stx_graph_output(out->run, run[at], NULL, d);
		stx_graph_output(out->oracle, oracle[at], NULL, d);
	}
	for (uint32_t i = 0; i < out->ninexact; i++) {
		stx_graph_output(out->run, stx_val(inexact[i], 0), NULL, d);
		stx_graph_output(out->oracle, stx_val(computed[i], 0), NULL, d);
	}
	out->nouts = out->run->outputs.n;
	for (uint32_t i = 0; i < out->ninexact; i++) {
		uint32_t at = g->outputs.n + i;
		struct stx_node *t = prop_tolerance(out->oracle, computed[i], &out->relative[at]);
		out->tolerance[at] = out->oracle->outputs.n;
		stx_graph_output(out->oracle, stx_val(t, 0), NULL, d);
	}
	stx_err e = stx_graph_verify(out->run, d);
	return e ? e : stx_graph_verify(out->oracle, d);
}
