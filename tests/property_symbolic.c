/* property_symbolic.c: a random graph with one of its sizes as a symbol.
 *
 * requires: a verified static case. Two graphs are built side by side: `fixed` keeps the size, the
 * other has a symbol in its place in every input, and in the sizes given to views and factories. A
 * node whose symbolic form is refused (a size that cannot be proved, a slice of the symbol) is an
 * input of both. */
#include <string.h>

#include "compiled.h"
#include "passes.h"
#include "property_case.h"

struct twins {
	struct stx_arena *arena;
	const struct prop_case *c;
	struct prop_case *fixed, *dynamic;
	struct stx_val *to_fixed, *to_dynamic; /* by prop_at() in c */
	const struct stx_tensor *values;
	int64_t size;
	stx_ex symbol;
};

static stx_ex dynamic_size(const struct twins *t, int64_t n)
{
	return n == t->size ? t->symbol : stx_ex_const(t->dynamic->g->ex, n);
}

/* An input of both graphs with the data of x; strides only where they are not row-major. */
static int add_input(struct twins *t, const struct stx_node *n, const struct stx_tensor *x)
{
	stx_ex sizes[STX_MAX_DIMS], strides[STX_MAX_DIMS], fixed[STX_MAX_DIMS];
	struct stx_tensor dense = *x;
	int row_major = 1;
	uint32_t i = t->fixed->g->inputs.n;
	if (!x->data || i == PROP_MAX_INPUTS || n->nouts > 1)
		return -1;
	compiled_dense(&dense);
	for (int d = 0; d < x->rank; d++) {
		row_major &= dense.strides[d] == x->strides[d];
		sizes[d] = dynamic_size(t, x->sizes[d]);
		strides[d] = stx_ex_const(t->dynamic->g->ex, x->strides[d]);
		fixed[d] = stx_ex_const(t->fixed->g->ex, x->strides[d]);
	}
	struct stx_type type = { .dtype = (enum stx_dtype)x->dtype,
				 .rank = x->rank,
				 .sizes = sizes };
	struct stx_type whole = stx_type_make(t->fixed->g, type.dtype, x->rank, x->sizes);
	struct stx_node *a =
		stx_graph_input(t->fixed->g, n->name, whole, row_major ? NULL : fixed, 0, NULL);
	struct stx_node *b =
		stx_graph_input(t->dynamic->g, n->name, type, row_major ? NULL : strides, 0, NULL);
	if (!a || !b)
		return -1;
	t->fixed->inputs[i] = t->dynamic->inputs[i] = *x;
	prop_map_node(t->to_fixed, n, a);
	prop_map_node(t->to_dynamic, n, b);
	return 0;
}

static int takes_sizes(enum stx_op op)
{
	return op == STX_OP_VIEW || op == STX_OP_RESHAPE || op == STX_OP_EXPAND ||
	       op == STX_OP_FULL || op == STX_OP_RAND || op == STX_OP_RANDN ||
	       op == STX_OP_LAYER_NORM;
}

static struct stx_node *dynamic_node(struct twins *t, const struct stx_node *n)
{
	struct stx_arg args[16];
	struct stx_graph *g = t->dynamic->g;
	if (!takes_sizes(n->op))
		return prop_copy_node(g, t->c->g, n, t->to_dynamic, NULL);
	for (uint32_t k = 0; k < n->nargs; k++) {
		args[k] = n->args[k];
		if (args[k].kind == STX_ARG_TENSOR)
			args[k].u.tensor = t->to_dynamic[prop_at(args[k].u.tensor)];
		if (args[k].kind == STX_ARG_INT) {
			int64_t v = 0;
			stx_ex_is_const(t->c->g->ex, n->args[k].u.ex, &v);
			args[k] = stx_arg_int(g, v);
		}
		if (args[k].kind != STX_ARG_INTS)
			continue;
		stx_ex e[STX_MAX_DIMS];
		for (uint32_t i = 0; i < n->args[k].n; i++) {
			int64_t v = 0;
			stx_ex_is_const(t->c->g->ex, n->args[k].u.exs[i], &v);
			e[i] = dynamic_size(t, v);
		}
		args[k] = stx_arg_exs(g, e, n->args[k].n);
	}
	return stx_graph_call(g, n->op, n->name, args, n->nargs, NULL);
}

/* The symbolic result has the sizes of the fixed one when the symbol has its value. */
static int same_sizes(const struct twins *t, const struct stx_node *a, const struct stx_node *b)
{
	struct stx_ex_env env = { .syms = &t->size, .nsyms = 1 };
	if (a->nouts != b->nouts || a->outs[0].rank != b->outs[0].rank)
		return 0;
	for (int d = 0; d < a->outs[0].rank; d++) {
		int ok = 1;
		int64_t v = 0;
		stx_ex_is_const(t->fixed->g->ex, a->outs[0].sizes[d], &v);
		if (stx_ex_eval(t->dynamic->g->ex, b->outs[0].sizes[d], &env, &ok) != v || !ok)
			return 0;
	}
	return 1;
}

static int add_node(struct twins *t, const struct stx_node *n)
{
	if (n->op == STX_OP_PLACEHOLDER) {
		for (uint32_t i = 0; i < t->c->g->inputs.n; i++)
			if (t->c->g->inputs.at[i].node == n)
				return add_input(t, n, &t->c->inputs[i]);
		return -1;
	}
	struct stx_node *b = dynamic_node(t, n);
	struct stx_node *a = b ? prop_copy_node(t->fixed->g, t->c->g, n, t->to_fixed, NULL) : NULL;
	if ((!a || !same_sizes(t, a, b)) && n->nouts > 1)
		return -1;
	if (!a || !same_sizes(t, a, b))
		return add_input(t, n, &t->values[n->id]);
	prop_map_node(t->to_fixed, n, a);
	prop_map_node(t->to_dynamic, n, b);
	return 0;
}

/* A size above 1 of some input, or -1. */
static int64_t pick_size(const struct prop_case *c, uint64_t seed)
{
	for (uint64_t k = 0; c->g->inputs.n && k < 8; k++) {
		const struct stx_tensor *x = &c->inputs[(seed + k) % c->g->inputs.n];
		if (x->rank && x->sizes[(seed / 7 + k) % x->rank] > 1)
			return x->sizes[(seed / 7 + k) % x->rank];
	}
	return -1;
}

struct prop_case *prop_symbolic(struct stx_arena *a, const struct prop_case *c, uint64_t seed,
				struct prop_case **fixed)
{
	struct twins t = { .arena = a, .c = c, .size = pick_size(c, seed) };
	struct stx_diag d = { 0 };
	if (t.size < 0)
		return NULL;
	t.values = prop_values(a, c);
	t.fixed = *fixed = STX_NEW(a, struct prop_case);
	t.dynamic = STX_NEW(a, struct prop_case);
	t.fixed->arena = t.dynamic->arena = a;
	t.fixed->g = stx_graph_new(a);
	t.dynamic->g = stx_graph_new(a);
	t.to_fixed = prop_map_new(a, c->g);
	t.to_dynamic = prop_map_new(a, c->g);
	struct stx_symbol s = { .name = "s0",
				.range = { seed % 3 ? 2 : 0, t.size > 100000 ? t.size : 100000 },
				.hint = seed % 2 ? t.size : 64 };
	if (stx_push(a, &t.dynamic->g->symbols, s))
		return NULL;
	t.symbol = stx_ex_sym(t.dynamic->g->ex, 0, s.range, s.hint);
	for (uint32_t i = 0; i < c->g->nodes.n; i++)
		if (add_node(&t, c->g->nodes.at[i]))
			return NULL;
	for (uint32_t i = 0; i < c->g->outputs.n; i++) {
		uint32_t at = prop_at(c->g->outputs.at[i].val);
		stx_graph_output(t.fixed->g, t.to_fixed[at], NULL, NULL);
		stx_graph_output(t.dynamic->g, t.to_dynamic[at], NULL, NULL);
	}
	return stx_graph_verify(t.fixed->g, &d) || stx_graph_verify(t.dynamic->g, &d) ? NULL
										      : t.dynamic;
}
