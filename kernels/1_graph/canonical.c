/* canonical.c: canonical form and digest of a graph.
 * requires: a graph that passed verify. ensures: graphs equal up to node names, the order of
 * independent nodes, spelling of arguments, operand order of commutative operators, repeated and
 * unused nodes give the same canonical graph, byte for byte; others do not. Linear: every live node
 * is visited once, on an explicit stack. Sources: design (keys), OG-04, OG-11, OP-07, DF-06. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_internal.h"
#include "passes.h"

struct canon {
	struct stx_graph *g; /* old; its arena is the scratch one */
	struct stx_graph *out;
	struct stx_arena *scratch;
	struct stx_diag *d;
	uint8_t *live;          /* by old id */
	struct stx_arg **args;  /* by old id: normal spelling, operands still old */
	uint64_t *hash;         /* by old id: structure, independent of names and order */
	uint64_t *serial;       /* by old id: 1, 2, ... in program order */
	struct stx_node **made; /* by old id: the new node */
	uint32_t *symbol;       /* by old symbol number: 1 + new number */
	uint32_t nsymbols;
	stx_ex *ex_new; /* by old expression: translation, its hash */
	uint64_t *ex_hash;
	uint32_t ex_cap;
	struct stx__valnum *values;
	STX_VEC(struct stx_node *) ordered; /* live random and effect nodes, by serial */
};

static stx_err no_room(struct canon *c)
{
	return stx__over_budget("canonical", "", c->d);
}

/* ---- symbols: numbered by first appearance in the inputs, then as declared ---- */

/* The nesting of atoms is limited by expr.c, so this recursion is too. */
static void number_symbols(struct canon *c, stx_ex e)
{
	const struct stx_exprs *x = c->g->ex;
	for (uint32_t i = 0; i < stx_ex_nterms(x, e); i++) {
		struct stx_ex_term t = stx_ex_term_at(x, e, i);
		for (uint32_t k = 0; k < t.natoms; k++) {
			struct stx_ex_atom a = stx_ex_atom_at(x, t.atoms[k]);
			if (a.kind == STX_ATOM_SYM && a.number < c->g->symbols.n) {
				if (!c->symbol[a.number])
					c->symbol[a.number] = ++c->nsymbols;
			} else if (a.kind >= STX_ATOM_FLOORDIV) {
				number_symbols(c, a.a);
				number_symbols(c, a.b);
			}
		}
	}
}

static stx_err make_symbols(struct canon *c)
{
	struct stx_graph *g = c->g;
	if (!g->symbols.n)
		return 0;
	c->symbol = STX_NEW_ARRAY(c->scratch, uint32_t, g->symbols.n);
	uint32_t *old = STX_NEW_ARRAY(c->scratch, uint32_t, g->symbols.n);
	if (!c->symbol || !old)
		return no_room(c);
	for (uint32_t i = 0; i < g->inputs.n; i++) {
		const struct stx_type *t = &g->inputs.at[i].node->outs[0];
		for (uint32_t k = 0; k < t->rank; k++)
			if (!stx_ex_is_const(g->ex, t->sizes[k], NULL))
				number_symbols(c, t->sizes[k]);
	}
	for (uint32_t i = 0; i < g->symbols.n; i++) {
		if (!c->symbol[i])
			c->symbol[i] = ++c->nsymbols;
		old[c->symbol[i] - 1] = i;
	}
	for (uint32_t i = 0; i < g->symbols.n; i++) {
		struct stx_symbol y = g->symbols.at[old[i]];
		y.name = stx_arena_printf(c->out->arena, "s%u", i);
		if (!y.name || stx_push(c->out->arena, &c->out->symbols, y))
			return no_room(c);
	}
	return 0;
}

/* ---- expressions of the old context in the new one ---- */

static void new_symbol_name(void *ctx, enum stx_atom_kind kind, uint32_t number, char *out,
			    size_t cap)
{
	const struct canon *c = ctx;
	if (kind == STX_ATOM_SYM && number < c->g->symbols.n)
		snprintf(out, cap, "s%u", c->symbol[number] - 1);
	else
		snprintf(out, cap, "?");
}

static stx_ex find_new_symbol(void *ctx, const char *name, size_t n)
{
	struct canon *c = ctx;
	char t[16] = { 0 };
	if (n < 2 || n >= sizeof t || name[0] != 's')
		return STX_EX_BAD;
	memcpy(t, name, n);
	unsigned long k = strtoul(t + 1, NULL, 10);
	if (k >= c->out->symbols.n)
		return STX_EX_BAD;
	const struct stx_symbol *y = &c->out->symbols.at[k];
	return stx_ex_sym(c->out->ex, (uint32_t)k, y->range, y->hint);
}

static stx_err translate_slow(struct canon *c, stx_ex e, stx_ex *out, uint64_t *hash)
{
	struct stx_bytes text = { 0 };
	stx_ex_print(c->g->ex, e, new_symbol_name, c, &text);
	const char *p = stx_bytes_cstr(&text);
	*hash = 0;
	for (size_t i = 0; i < text.n; i++)
		*hash = stx_mix64(*hash, text.at[i]);
	stx_err err = stx_ex_parse(c->out->ex, &p, (const char *)text.at + text.n, find_new_symbol,
				   c, out, c->d);
	stx_bytes_free(&text);
	return err;
}

/* The cache is filled on first use; 0 in ex_new means not there yet. */
static stx_err translate(struct canon *c, stx_ex e, stx_ex *out, uint64_t *hash)
{
	int64_t v;
	if (e >= c->ex_cap) {
		uint32_t cap = c->ex_cap ? c->ex_cap : 256;
		while (cap <= e)
			cap *= 2;
		stx_ex *n = STX_NEW_ARRAY(c->scratch, stx_ex, cap);
		uint64_t *h = STX_NEW_ARRAY(c->scratch, uint64_t, cap);
		if (!n || !h)
			return no_room(c);
		if (c->ex_cap) {
			memcpy(n, c->ex_new, c->ex_cap * sizeof *n);
			memcpy(h, c->ex_hash, c->ex_cap * sizeof *h);
		}
		c->ex_new = n;
		c->ex_hash = h;
		c->ex_cap = cap;
	}
	if (!c->ex_new[e]) {
		if (stx_ex_is_const(c->g->ex, e, &v)) {
			c->ex_new[e] = stx_ex_const(c->out->ex, v);
			c->ex_hash[e] = stx_mix64(1, (uint64_t)v);
		} else {
			stx_err err = translate_slow(c, e, &c->ex_new[e], &c->ex_hash[e]);
			if (err)
				return err;
		}
	}
	if (!c->ex_new[e])
		return no_room(c);
	if (out)
		*out = c->ex_new[e];
	if (hash)
		*hash = stx_mix64(*hash, c->ex_hash[e]);
	return 0;
}

static stx_err translate_list(struct canon *c, const stx_ex *e, uint32_t n, const stx_ex **out)
{
	stx_ex *v = STX_NEW_ARRAY(c->out->arena, stx_ex, n ? n : 1);
	stx_err err = v ? 0 : no_room(c);
	for (uint32_t i = 0; !err && i < n; i++)
		err = translate(c, e[i], &v[i], NULL);
	*out = v;
	return err;
}

/* ---- what is live, in which order effects happen ---- */

static int by_serial(const void *a, const void *b)
{
	uint64_t x = (*(struct stx_node *const *)a)->serial,
		 y = (*(struct stx_node *const *)b)->serial;
	return (x > y) - (x < y);
}

static stx_err find_live(struct canon *c)
{
	struct stx_graph *g = c->g;
	for (uint32_t i = 0; i < g->outputs.n; i++)
		c->live[g->outputs.at[i].val.node->id] = 1;
	for (uint32_t i = g->nodes.n; i-- > 0;) {
		struct stx_node *n = g->nodes.at[i];
		struct stx__cursor cur = { 0 };
		if (n->op == STX_OP_PLACEHOLDER || (stx_op_info(n->op)->tags & STX_TAG_EFFECT))
			c->live[i] = 1;
		for (struct stx_val *v; c->live[i] && (v = stx__next_operand(n, &cur));)
			c->live[v->node->id] = 1;
		if (c->live[i] && n->serial && stx_push(c->scratch, &c->ordered, n))
			return no_room(c);
	}
	if (c->ordered.n)
		qsort(c->ordered.at, c->ordered.n, sizeof *c->ordered.at, by_serial);
	for (uint32_t i = 0; i < c->ordered.n; i++)
		c->serial[c->ordered.at[i]->id] = i + 1;
	return 0;
}

/* ---- structural hashes: they decide the order of commutative operands ---- */

static uint64_t hash_val(const struct canon *c, struct stx_val v)
{
	return v.node ? stx_mix64(c->hash[v.node->id], v.out) : 0;
}

static stx_err hash_arg(struct canon *c, const struct stx_arg *a, uint64_t *h)
{
	stx_err e = 0;
	*h = stx_mix64(*h, (uint64_t)a->kind << 8 | a->is_float);
	switch (a->kind) {
	case STX_ARG_NONE:
	case STX_ARG_DEFAULT: break;
	case STX_ARG_TENSOR: *h = stx_mix64(*h, hash_val(c, a->u.tensor)); break;
	case STX_ARG_TENSORS:
		for (uint32_t i = 0; i < a->n; i++)
			*h = stx_mix64(*h, hash_val(c, a->u.tensors[i]));
		break;
	case STX_ARG_INT: return translate(c, a->u.ex, NULL, h);
	case STX_ARG_INTS:
		for (uint32_t i = 0; !e && i < a->n; i++)
			e = translate(c, a->u.exs[i], NULL, h);
		break;
	case STX_ARG_FLOATS:
		for (uint32_t i = 0; i < a->n; i++)
			*h = stx_mix64(*h, stx_arg_float(a->u.fs[i]).u.i);
		break;
	case STX_ARG_BOOLS: *h = stx_mix64(stx_mix64(*h, a->n), (uint64_t)a->u.i); break;
	case STX_ARG_STRING:
		for (const char *s = a->u.str; *s; s++)
			*h = stx_mix64(*h, (uint8_t)*s);
		break;
	case STX_ARG_DTYPE: *h = stx_mix64(*h, a->u.dtype); break;
	case STX_ARG_FLOAT:
	case STX_ARG_BOOL:
	case STX_ARG_SCALAR: *h = stx_mix64(*h, (uint64_t)a->u.i); break;
	}
	return e;
}

static stx_err hash_type(struct canon *c, const struct stx_type *t, uint64_t *h)
{
	stx_err e = 0;
	*h = stx_mix64(*h, (uint64_t)t->dtype << 8 | t->rank);
	for (uint32_t i = 0; !e && i < t->rank; i++)
		e = translate(c, t->sizes[i], NULL, h);
	return e;
}

/* Two inputs in their order (OG-06), other values by hash. Equal hashes are equal values (or a
 * collision, which costs no more than a missed merge). */
static int in_order(const struct canon *c, struct stx_val a, struct stx_val b)
{
	if (a.node->op == STX_OP_PLACEHOLDER && b.node->op == STX_OP_PLACEHOLDER)
		return a.node->id <= b.node->id;
	return hash_val(c, a) <= hash_val(c, b);
}

static void order_operands(struct canon *c, const struct stx_node *n)
{
	struct stx_arg *a = c->args[n->id];
	if (!stx__commutes(n) || in_order(c, a[0].u.tensor, a[1].u.tensor))
		return;
	struct stx_arg t = a[0];
	a[0] = a[1];
	a[1] = t;
}

static stx_err hash_node(struct canon *c, const struct stx_node *n, uint32_t *ninputs)
{
	uint64_t h = stx_mix64(c->serial[n->id], n->op);
	stx_err e = 0;
	struct stx_arg *args = STX_NEW_ARRAY(c->scratch, struct stx_arg, n->nargs ? n->nargs : 1);
	if (!args)
		return no_room(c);
	c->args[n->id] = args;
	if (n->op == STX_OP_PLACEHOLDER) {
		h = stx_mix64(h, (*ninputs)++);
	} else if (n->op == STX_OP_CONSTANT) {
		e = hash_type(c, &n->outs[0], &h);
		for (size_t i = 0; i < n->data.n; i++)
			h = stx_mix64(h, n->data.bytes[i]);
	} else {
		e = stx__normal_args(c->g, n, args, c->d);
		if (e)
			return e;
		order_operands(c, n);
		for (uint32_t i = 0; !e && i < n->nargs; i++)
			e = hash_arg(c, &args[i], &h);
	}
	c->hash[n->id] = h;
	return e;
}

/* ---- the new graph ---- */

static struct stx_val new_val(const struct canon *c, struct stx_val v)
{
	return v.node ? stx_val(c->made[v.node->id], v.out) : v;
}

static stx_err new_arg(struct canon *c, const struct stx_arg *a, struct stx_arg *out)
{
	*out = *a;
	switch (a->kind) {
	case STX_ARG_TENSOR: out->u.tensor = new_val(c, a->u.tensor); return 0;
	case STX_ARG_TENSORS:
		*out = stx_arg_tensors(c->out, a->u.tensors, a->n);
		for (uint32_t i = 0; out->u.tensors && i < a->n; i++)
			((struct stx_val *)out->u.tensors)[i] = new_val(c, a->u.tensors[i]);
		return out->u.tensors ? 0 : no_room(c);
	case STX_ARG_INT: return translate(c, a->u.ex, &out->u.ex, NULL);
	case STX_ARG_INTS: return translate_list(c, a->u.exs, a->n, &out->u.exs);
	case STX_ARG_FLOATS:
		*out = stx_arg_floats(c->out, a->u.fs, a->n);
		return out->u.fs ? 0 : no_room(c);
	case STX_ARG_STRING:
		*out = stx_arg_str(c->out, a->u.str);
		return out->u.str ? 0 : no_room(c);
	default: return 0;
	}
}

static stx_err new_types(struct canon *c, const struct stx_node *old, struct stx_node *n)
{
	stx_err e = 0;
	n->nouts = old->nouts;
	n->outs = STX_NEW_ARRAY(c->out->arena, struct stx_type, old->nouts ? old->nouts : 1);
	if (!n->outs)
		return no_room(c);
	for (uint32_t i = 0; !e && i < old->nouts; i++) {
		n->outs[i] = old->outs[i];
		e = translate_list(c, old->outs[i].sizes, old->outs[i].rank, &n->outs[i].sizes);
	}
	return e;
}

static stx_err make_node(struct canon *c, const struct stx_node *old)
{
	struct stx_arena *a = c->out->arena;
	struct stx_node *n = STX_NEW(a, struct stx_node);
	if (!n)
		return no_room(c);
	n->op = old->op;
	n->serial = c->serial[old->id];
	n->nargs = old->nargs;
	n->args = STX_NEW_ARRAY(a, struct stx_arg, old->nargs ? old->nargs : 1);
	stx_err e = n->args ? new_types(c, old, n) : no_room(c);
	for (uint32_t i = 0; !e && i < old->nargs; i++)
		e = new_arg(c, &c->args[old->id][i], &n->args[i]);
	if (e)
		return e;
	if (old->op == STX_OP_CONSTANT) {
		n->data.n = old->data.n;
		n->data.bytes = stx_arena_copy(a, old->data.bytes, old->data.n);
		if (!n->data.bytes)
			return no_room(c);
	}
	struct stx_node *first = stx__valnum_enter(c->values, n);
	c->made[old->id] = first;
	if (!first)
		return no_room(c);
	if (first != n)
		return 0;
	n->name = stx__name_unique(c->out, stx_op_info(n->op)->base, n);
	return n->name ? stx__graph_append(c->out, n, c->d) : no_room(c);
}

static stx_err make_inputs(struct canon *c)
{
	for (uint32_t i = 0; i < c->g->inputs.n; i++) {
		const struct stx_input *in = &c->g->inputs.at[i];
		struct stx_type t = in->node->outs[0];
		const stx_ex *strides = NULL;
		stx_err e = translate_list(c, t.sizes, t.rank, &t.sizes);
		if (!e && in->strides)
			e = translate_list(c, in->strides, t.rank, &strides);
		if (e)
			return e;
		c->made[in->node->id] =
			stx_graph_input(c->out, NULL, t, strides, in->node->is_param, c->d);
		if (!c->made[in->node->id])
			return c->d->code;
		c->made[in->node->id]->is_donated = in->node->is_donated;
	}
	return 0;
}

struct frame {
	struct stx_node *node;
	struct stx__cursor cursor;
};

/* Post-order from one root; operands in their normal order. */
static stx_err walk(struct canon *c, struct stx_node *root)
{
	STX_VEC(struct frame) stack = { 0 };
	struct frame f = { .node = root };
	if (c->made[root->id])
		return 0;
	if (stx_push(c->scratch, &stack, f))
		return no_room(c);
	while (stack.n) {
		struct frame *top = &stack.at[stack.n - 1];
		struct stx_node view = *top->node;
		view.args = c->args[view.id];
		struct stx_val *v = stx__next_operand(&view, &top->cursor);
		if (v && c->made[v->node->id])
			continue;
		if (v) {
			f = (struct frame){ .node = v->node };
			if (stx_push(c->scratch, &stack, f))
				return no_room(c);
			continue;
		}
		stx_err e = make_node(c, top->node);
		if (e)
			return e;
		stack.n--;
	}
	return 0;
}

static stx_err prepare(struct canon *c)
{
	uint32_t n = c->g->nodes.n + 1, ninputs = 0;
	c->live = STX_NEW_ARRAY(c->scratch, uint8_t, n);
	c->args = STX_NEW_ARRAY(c->scratch, struct stx_arg *, n);
	c->hash = STX_NEW_ARRAY(c->scratch, uint64_t, n);
	c->serial = STX_NEW_ARRAY(c->scratch, uint64_t, n);
	c->made = STX_NEW_ARRAY(c->scratch, struct stx_node *, n);
	c->values = stx__valnum_new(c->scratch);
	if (!c->live || !c->args || !c->hash || !c->serial || !c->made || !c->values)
		return no_room(c);
	stx_err e = make_symbols(c);
	e = e ? e : find_live(c);
	for (uint32_t i = 0; !e && i < c->g->nodes.n; i++)
		if (c->live[i])
			e = hash_node(c, c->g->nodes.at[i], &ninputs);
	return e;
}

static stx_err build(struct canon *c)
{
	stx_err e = prepare(c);
	e = e ? e : make_inputs(c);
	for (uint32_t i = 0; !e && i < c->ordered.n; i++)
		if (stx_op_info(c->ordered.at[i]->op)->tags & STX_TAG_EFFECT)
			e = walk(c, c->ordered.at[i]);
	for (uint32_t i = 0; !e && i < c->g->outputs.n; i++)
		e = walk(c, c->g->outputs.at[i].val.node);
	for (uint32_t i = 0; !e && i < c->g->outputs.n; i++)
		if (!(e = stx_graph_output(c->out, new_val(c, c->g->outputs.at[i].val), NULL,
					   c->d))) {
			c->out->outputs.at[i].writes = c->g->outputs.at[i].writes;
			c->out->outputs.at[i].within = c->g->outputs.at[i].within;
		}
	if (e)
		return e;
	c->out->next_serial = c->ordered.n + 1;
	return 0;
}

stx_err stx_graph_canonical(const struct stx_graph *g, struct stx_arena *a, struct stx_graph **out,
			    struct stx_diag *d)
{
	struct stx_diag own = { 0 };
	struct stx_graph head = *g; /* same nodes; new lists go to the scratch arena */
	struct canon c = { .g = &head, .d = d ? d : &own };
	stx_err e;
	*out = NULL;
	c.scratch = stx__scratch_arena(g);
	c.out = stx_graph_new(a);
	head.arena = c.scratch;
	if (!c.scratch)
		e = stx_fail(c.d, STX_E_NOMEM, "canonical", "", "out of memory");
	else
		e = c.out ? build(&c) : no_room(&c);
	stx_arena_free(c.scratch);
	if (!e)
		*out = c.out;
	return e;
}

stx_err stx_graph_digest(const struct stx_graph *canonical, struct stx_digest *out,
			 struct stx_diag *d)
{
	struct stx_bytes text = { 0 };
	stx_err e = stx_graph_print(canonical, &text);
	if (e)
		stx_fail(d, e, "canonical", "",
			 e == STX_E_TOO_LARGE ? "the text of the graph is too long"
					      : "out of memory");
	else
		*out = stx_digest_of(text.at, text.n);
	stx_bytes_free(&text);
	return e;
}
