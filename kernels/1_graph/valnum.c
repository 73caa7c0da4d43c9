/* valnum.c: value numbering: nodes with the same operator, operands and attributes are one (OP-07).
 * Random and effect nodes are never entered (DF-06). */
#include <string.h>

#include "graph_internal.h"
#include "hash.h"

struct slot {
	uint64_t hash;
	struct stx_node *node;
};

struct stx__valnum {
	struct stx_arena *a;
	struct slot *at;
	uint32_t cap, n;
};

struct stx__valnum *stx__valnum_new(struct stx_arena *a)
{
	struct stx__valnum *t = STX_NEW(a, struct stx__valnum);
	if (!t)
		return NULL;
	t->a = a;
	t->cap = 64;
	t->at = STX_NEW_ARRAY(a, struct slot, t->cap);
	return t->at ? t : NULL;
}

static uint64_t mix_bytes(uint64_t h, const void *p, size_t n)
{
	const uint8_t *b = p;
	h = stx_mix64(h, n);
	for (; n >= 8; n -= 8, b += 8)
		h = stx_mix64(h, stx_load_u64(b));
	uint64_t tail = 0;
	memcpy(&tail, b, n);
	return stx_mix64(h, tail);
}

static uint64_t mix_val(uint64_t h, struct stx_val v)
{
	return stx_mix64(stx_mix64(h, (uint64_t)(uintptr_t)v.node), v.out);
}

static uint64_t mix_arg(uint64_t h, const struct stx_arg *a)
{
	h = stx_mix64(h, (uint64_t)a->kind << 8 | a->is_bool << 1 | a->is_float);
	switch (a->kind) {
	case STX_ARG_NONE:
	case STX_ARG_DEFAULT: return h;
	case STX_ARG_TENSOR: return mix_val(h, a->u.tensor);
	case STX_ARG_TENSORS:
		for (uint32_t i = 0; i < a->n; i++)
			h = mix_val(h, a->u.tensors[i]);
		return stx_mix64(h, a->n);
	case STX_ARG_INT: return stx_mix64(h, a->u.ex);
	case STX_ARG_INTS: return mix_bytes(h, a->u.exs, a->n * sizeof *a->u.exs);
	case STX_ARG_FLOATS: return mix_bytes(h, a->u.fs, a->n * sizeof *a->u.fs);
	case STX_ARG_BOOLS: return stx_mix64(stx_mix64(h, a->n), (uint64_t)a->u.i);
	case STX_ARG_STRING: return mix_bytes(h, a->u.str, strlen(a->u.str));
	case STX_ARG_DTYPE: return stx_mix64(h, a->u.dtype);
	case STX_ARG_FLOAT:
	case STX_ARG_BOOL:
	case STX_ARG_SCALAR: break;
	}
	return stx_mix64(h, (uint64_t)a->u.i); /* the bits of f too: same union */
}

static int same_arg(const struct stx_arg *a, const struct stx_arg *b)
{
	if (a->kind != b->kind || a->is_float != b->is_float || a->is_bool != b->is_bool ||
	    a->n != b->n)
		return 0;
	switch (a->kind) {
	case STX_ARG_NONE:
	case STX_ARG_DEFAULT: return 1;
	case STX_ARG_TENSOR:
		return a->u.tensor.node == b->u.tensor.node && a->u.tensor.out == b->u.tensor.out;
	case STX_ARG_TENSORS:
		for (uint32_t i = 0; i < a->n; i++)
			if (a->u.tensors[i].node != b->u.tensors[i].node ||
			    a->u.tensors[i].out != b->u.tensors[i].out)
				return 0;
		return 1;
	case STX_ARG_INT: return a->u.ex == b->u.ex;
	case STX_ARG_INTS: return !a->n || !memcmp(a->u.exs, b->u.exs, a->n * sizeof *a->u.exs);
	case STX_ARG_FLOATS: return !a->n || !memcmp(a->u.fs, b->u.fs, a->n * sizeof *a->u.fs);
	case STX_ARG_STRING: return !strcmp(a->u.str, b->u.str);
	case STX_ARG_DTYPE: return a->u.dtype == b->u.dtype;
	case STX_ARG_FLOAT:
	case STX_ARG_BOOL:
	case STX_ARG_BOOLS:
	case STX_ARG_SCALAR: break;
	}
	return a->u.i == b->u.i;
}

/* Seeded by the table's address: contents cannot be chosen to collide. */
static uint64_t hash_node(const struct stx__valnum *t, const struct stx_node *n)
{
	uint64_t h = stx_mix64((uintptr_t)t, n->op);
	uint32_t first = 0;
	if (stx__commutes(n)) {
		h = stx_mix64(h, mix_arg(h, &n->args[0]) + mix_arg(h, &n->args[1]));
		first = 2;
	}
	for (uint32_t i = first; i < n->nargs; i++)
		h = mix_arg(h, &n->args[i]);
	if (n->op == STX_OP_CONSTANT) {
		h = stx_mix64(h, n->outs[0].dtype);
		h = mix_bytes(h, n->outs[0].sizes, n->outs[0].rank * sizeof(stx_ex));
		h = mix_bytes(h, n->data.bytes, n->data.n);
	}
	return h;
}

/* Results follow from operator and arguments, except a constant's. */
static int same_node(const struct stx_node *a, const struct stx_node *b)
{
	uint32_t first = 0;
	if (a->op != b->op || a->nargs != b->nargs)
		return 0;
	if (stx__commutes(a) && stx__commutes(b) && same_arg(&a->args[0], &b->args[1]) &&
	    same_arg(&a->args[1], &b->args[0]))
		first = 2;
	for (uint32_t i = first; i < a->nargs; i++)
		if (!same_arg(&a->args[i], &b->args[i]))
			return 0;
	return a->op != STX_OP_CONSTANT ||
	       (stx_type_eq(&a->outs[0], &b->outs[0]) && a->data.n == b->data.n &&
		!memcmp(a->data.bytes, b->data.bytes, a->data.n));
}

static struct slot *probe(struct stx__valnum *t, uint64_t h, const struct stx_node *n)
{
	uint32_t k = (uint32_t)h & (t->cap - 1);
	while (t->at[k].node && !(t->at[k].hash == h && same_node(t->at[k].node, n)))
		k = (k + 1) & (t->cap - 1);
	return &t->at[k];
}

static int grow(struct stx__valnum *t)
{
	struct stx__valnum old = *t;
	struct slot *at = STX_NEW_ARRAY(t->a, struct slot, (size_t)t->cap * 2);
	if (!at)
		return -1;
	t->cap *= 2;
	t->at = at;
	for (uint32_t i = 0; i < old.cap; i++) {
		uint32_t k = (uint32_t)old.at[i].hash & (t->cap - 1);
		if (!old.at[i].node)
			continue;
		while (t->at[k].node)
			k = (k + 1) & (t->cap - 1);
		t->at[k] = old.at[i];
	}
	return 0;
}

struct stx_node *stx__valnum_enter(struct stx__valnum *t, struct stx_node *n)
{
	if (n->serial || n->op == STX_OP_PLACEHOLDER)
		return n;
	if ((t->n + 1) * 4 > t->cap * 3 && grow(t))
		return NULL;
	uint64_t h = hash_node(t, n);
	struct slot *s = probe(t, h, n);
	if (!s->node) {
		*s = (struct slot){ h, n };
		t->n++;
	}
	return s->node;
}
