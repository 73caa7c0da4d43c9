/* graph.c: construction of graphs: inputs, constants, calls, outputs. */
#include "graph.h"

#include <stdio.h>
#include <string.h>

#include "graph_internal.h"
#include "infer.h"
#include "passes.h"

stx_err stx__over_budget(const char *stage, const char *name, struct stx_diag *d)
{
	return stx_fail(d, STX_E_TOO_LARGE, stage, name,
			"the memory budget of the request is used up");
}

struct stx_graph *stx_graph_new(struct stx_arena *a)
{
	struct stx_graph *g = STX_NEW(a, struct stx_graph);
	if (!g)
		return NULL;
	g->arena = a;
	g->ex = stx_exprs_new(a);
	g->next_serial = 1;
	return g->ex ? g : NULL;
}

/* ---- types ---- */

struct stx_type stx_type_make(struct stx_graph *g, enum stx_dtype t, int rank, const int64_t *sizes)
{
	stx_ex *s = STX_NEW_ARRAY(g->arena, stx_ex, (size_t)(rank > 0 ? rank : 1));
	for (int i = 0; s && i < rank; i++)
		s[i] = stx_ex_const(g->ex, sizes[i]);
	return (struct stx_type){ .dtype = s ? t : STX_DTYPE_NONE,
				  .rank = (uint8_t)rank,
				  .sizes = s };
}

stx_ex stx_type_numel(struct stx_graph *g, const struct stx_type *t)
{
	stx_ex p = stx_ex_const(g->ex, 1);
	for (uint32_t i = 0; i < t->rank; i++) /* a zero anywhere wins over an overflow elsewhere */
		if (stx_ex_equals(g->ex, t->sizes[i], 0))
			return t->sizes[i];
	for (uint32_t i = 0; i < t->rank; i++)
		p = stx_ex_mul(g->ex, p, t->sizes[i]);
	return p;
}

int stx_type_eq(const struct stx_type *a, const struct stx_type *b)
{
	return a->dtype == b->dtype && a->rank == b->rank &&
	       (a->rank == 0 || !memcmp(a->sizes, b->sizes, a->rank * sizeof *a->sizes));
}

stx_err stx__check_type(struct stx_graph *g, const char *name, const struct stx_type *t,
			struct stx_diag *d)
{
	__int128 n = 1;
	if (t->rank > STX_MAX_DIMS)
		return stx_fail(d, STX_E_TOO_LARGE, "verify", name,
				"rank %u; at most %d dimensions", t->rank, STX_MAX_DIMS);
	if ((unsigned)t->dtype >= STX_DTYPE_COUNT || (t->rank && !t->sizes))
		return stx_fail(d, STX_E_INVALID, "verify", name, "the type is not complete");
	for (uint32_t i = 0; i < t->rank; i++) {
		if (t->sizes[i] == STX_EX_BAD ||
		    stx_ex_weight(g->ex, t->sizes[i]) > STX__MAX_SIZE_WEIGHT)
			return stx_fail(
				d, STX_E_TOO_LARGE, "verify", name,
				"the size of dimension %u does not fit in 64 bits, or depends on "
				"symbols in too complicated a way",
				i);
		if (stx_ex_interval(g->ex, t->sizes[i]).lo < 0)
			return stx_fail(d, STX_E_INVALID, "verify", name,
					"the size of dimension %u is or may be negative", i);
		int64_t s = stx_ex_hint(g->ex, t->sizes[i]);
		n *= s > 1 ? s : 1; /* zero-size tensors have strides too */
		if (n >= STX__MAX_ELEMS)
			return stx_fail(
				d, STX_E_TOO_LARGE, "verify", name,
				"the tensor has %s%lld elements or more (dimension %u is %lld); "
				"the limit is 2^40",
				n > INT64_MAX ? "over " : "",
				n > INT64_MAX ? (long long)INT64_MAX : (long long)n, i,
				(long long)s);
	}
	return 0;
}

/* ---- nodes ---- */

stx_err stx__graph_append(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	if (g->nodes.n >= STX__MAX_NODES)
		return stx_fail(d, STX_E_TOO_LARGE, "graph", n->name, "more than %u nodes",
				STX__MAX_NODES);
	n->id = g->nodes.n;
	if (!n->serial && (stx_op_info(n->op)->tags & (STX_TAG_RANDOM | STX_TAG_EFFECT)))
		n->serial = g->next_serial++;
	return stx_push(g->arena, &g->nodes, n) ? stx__over_budget("graph", n->name, d) : 0;
}

/* A random node without a stream, its last argument, gets one that no other has. */
static void number_stream(struct stx_graph *g, struct stx_node *n)
{
	if (!(stx_op_info(n->op)->tags & STX_TAG_RANDOM) || !n->nargs)
		return;
	struct stx_arg *a = &n->args[n->nargs - 1];
	if (a->kind == STX_ARG_NONE)
		*a = stx_arg_int(g, (int64_t)g->next_serial);
}

static const char *claim_name(struct stx_graph *g, const char *name, int exact, const char *base,
			      struct stx_node *n, struct stx_diag *d)
{
	const char *s = exact && name ? stx__name_claim(g, name, strlen(name), n)
				      : stx__name_unique(g, name ? name : base, n);
	if (!s && stx_arena_oom(g->arena))
		stx__over_budget("graph", base, d);
	else if (!s)
		stx_fail(d, STX_E_INVALID, "graph", name, "the name is used twice");
	return s;
}

/* bool < integers < floats: what may be converted without being asked. */
static int kind_of(enum stx_dtype t)
{
	return t == STX_BOOL ? 0 : stx_dtype_is_float(t) ? 2 : 1;
}

/* n's result, as inferred, goes into its first operand. */
static stx_err put_in_place(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *self = stx_val_type(n->args[0].u.tensor);
	struct stx_type *r = n->outs;
	int same = n->nouts == 1 && r->rank == self->rank;
	for (uint32_t i = 0; same && i < r->rank; i++)
		same = r->sizes[i] == self->sizes[i];
	if (!same)
		return stx_fail(d, STX_E_INVALID, "graph", n->name,
				"the result of %s, %s, does not have the sizes of %s that it is "
				"written into",
				stx_op_info(n->op)->overload, stx__infer_shown(g, r),
				stx__infer_shown(g, self));
	if (kind_of(r->dtype) > kind_of(self->dtype))
		return stx_fail(d, STX_E_INVALID, "graph", n->name,
				"the result of %s is %s, which is not written into %s: convert it "
				"with _to_copy and copy_",
				stx_op_info(n->op)->overload, stx_dtype_name(r->dtype),
				stx_dtype_name(self->dtype));
	r->dtype = self->dtype;
	n->is_in_place = 1;
	return 0;
}

struct stx_node *stx__graph_call_named(struct stx_graph *g, enum stx_op op, const char *name,
				       unsigned how, const struct stx_arg *args, uint32_t nargs,
				       struct stx_diag *d)
{
	if ((unsigned)op >= STX_OP_COUNT || stx_op_info(op)->category == STX_CAT_INPUT) {
		stx_fail(d, STX_E_INVALID, "graph", name, "not an operator that can be called");
		return NULL;
	}
	struct stx_node *n = STX_NEW(g->arena, struct stx_node);
	if (!n) {
		stx__over_budget("graph", name, d);
		return NULL;
	}
	n->op = op;
	n->name = name ? name : stx_op_info(op)->base; /* for messages, until it is made unique */
	if (stx__match_args(g, n, args, nargs, d))
		return NULL;
	number_stream(g, n);
	if (stx_infer_node(g, n, d))
		return NULL;
	for (uint32_t i = 0; i < n->nouts; i++)
		if (stx__check_type(g, n->name, &n->outs[i], d))
			return NULL;
	if (how & STX__IN_PLACE && put_in_place(g, n, d))
		return NULL;
	n->name = claim_name(g, name, how & STX__EXACT, stx_op_info(op)->base, n, d);
	return n->name && !stx__graph_append(g, n, d) ? n : NULL;
}

struct stx_node *stx_graph_call(struct stx_graph *g, enum stx_op op, const char *name,
				const struct stx_arg *args, uint32_t nargs, struct stx_diag *d)
{
	return stx__graph_call_named(g, op, name, 0, args, nargs, d);
}

struct stx_node *stx_graph_call_in_place(struct stx_graph *g, enum stx_op op, const char *name,
					 const struct stx_arg *args, uint32_t nargs,
					 struct stx_diag *d)
{
	return stx__graph_call_named(g, op, name, STX__IN_PLACE, args, nargs, d);
}

/* A node without arguments and with one result of the given type, which is copied. */
static struct stx_node *new_source(struct stx_graph *g, enum stx_op op, const char *name,
				   const struct stx_type *type, struct stx_diag *d)
{
	if (stx__check_type(g, name, type, d))
		return NULL;
	struct stx_node *n = STX_NEW(g->arena, struct stx_node);
	struct stx_type *t = STX_NEW(g->arena, struct stx_type);
	stx_ex *s = stx_arena_copy(g->arena, type->sizes, type->rank * sizeof *s);
	if (!n || !t || !s) {
		stx__over_budget("graph", name, d);
		return NULL;
	}
	*t = *type;
	t->sizes = s;
	n->op = op;
	n->outs = t;
	n->nouts = 1;
	return n;
}

/* Strides that are exactly the row-major ones are not kept: NULL says the same (OG-04). */
static stx_err copy_strides(struct stx_graph *g, const char *name, const struct stx_type *t,
			    const stx_ex *strides, const stx_ex **out, struct stx_diag *d)
{
	int same = 1;
	stx_ex want = stx_ex_const(g->ex, 1);
	*out = NULL;
	for (uint32_t i = t->rank; strides && i-- > 0;) {
		struct stx_interval r = stx_ex_interval(g->ex, strides[i]);
		if (!strides[i] || r.lo < 0)
			return stx_fail(d, STX_E_INVALID, "graph", name,
					"the stride of dimension %u is or may be negative", i);
		same &= strides[i] == want || stx_ex_equals(g->ex, t->sizes[i], 1);
		want = stx_ex_mul(g->ex, want, t->sizes[i]);
	}
	if (!strides || same)
		return 0;
	*out = stx_arena_copy(g->arena, strides, t->rank * sizeof *strides);
	return *out ? 0 : stx__over_budget("graph", name, d);
}

struct stx_node *stx__graph_input_named(struct stx_graph *g, const char *name, int exact,
					struct stx_type type, const stx_ex *strides, int is_param,
					struct stx_diag *d)
{
	char made[32];
	snprintf(made, sizeof made, "primals_%u", g->inputs.n + 1);
	struct stx_node *n = new_source(g, STX_OP_PLACEHOLDER, name ? name : made, &type, d);
	struct stx_input in = { .node = n };
	if (!n || copy_strides(g, name ? name : made, &type, strides, &in.strides, d))
		return NULL;
	n->is_param = is_param != 0;
	n->name = claim_name(g, name, exact, made, n, d);
	if (!n->name || stx__graph_append(g, n, d))
		return NULL;
	if (stx_push(g->arena, &g->inputs, in)) {
		stx__over_budget("graph", n->name, d);
		return NULL;
	}
	return n;
}

struct stx_node *stx_graph_input(struct stx_graph *g, const char *name, struct stx_type type,
				 const stx_ex *strides, int is_param, struct stx_diag *d)
{
	return stx__graph_input_named(g, name, 0, type, strides, is_param, d);
}

struct stx_node *stx__graph_constant_named(struct stx_graph *g, const char *name, int exact,
					   struct stx_type type, const void *data, size_t nbytes,
					   struct stx_diag *d)
{
	int64_t count = 0;
	struct stx_node *n = new_source(g, STX_OP_CONSTANT, name ? name : "constant", &type, d);
	if (!n)
		return NULL;
	if (!stx_ex_is_const(g->ex, stx_type_numel(g, &type), &count) ||
	    (uint64_t)count * (uint64_t)stx_dtype_bytes(type.dtype) != nbytes) {
		stx_fail(d, STX_E_INVALID, "graph", name,
			 "a constant of %zu bytes does not fill its type: it has %lld elements of "
			 "%d bytes",
			 nbytes, (long long)count, stx_dtype_bytes(type.dtype));
		return NULL;
	}
	if (nbytes > STX__MAX_CONST_BYTES) {
		stx_fail(d, STX_E_TOO_LARGE, "graph", name,
			 "a constant of %zu bytes; over %u it must be a parameter", nbytes,
			 STX__MAX_CONST_BYTES);
		return NULL;
	}
	n->data.bytes = stx_arena_copy(g->arena, data, nbytes);
	n->data.n = nbytes;
	if (!n->data.bytes) {
		stx__over_budget("graph", name, d);
		return NULL;
	}
	for (size_t i = 0; type.dtype == STX_BOOL && i < nbytes; i++)
		if (n->data.bytes[i] > 1) {
			stx_fail(d, STX_E_INVALID, "graph", name,
				 "a bool element is neither 0 nor 1");
			return NULL;
		}
	n->name = claim_name(g, name, exact, "constant", n, d);
	return n->name && !stx__graph_append(g, n, d) ? n : NULL;
}

struct stx_node *stx_graph_constant(struct stx_graph *g, const char *name, struct stx_type type,
				    const void *data, size_t n, struct stx_diag *d)
{
	return stx__graph_constant_named(g, name, 0, type, data, n, d);
}

stx_err stx_graph_output(struct stx_graph *g, struct stx_val v, const char *name,
			 struct stx_diag *d)
{
	struct stx_output o = { .val = v };
	if (!stx__val_ok(g, v))
		return stx_fail(d, STX_E_INVALID, "graph", name,
				"an output is not a value of this graph");
	if (name && !(o.name = stx_arena_strdup(g->arena, name)))
		return stx__over_budget("graph", name, d);
	return stx_push(g->arena, &g->outputs, o) ? stx__over_budget("graph", name, d) : 0;
}

stx_err stx_graph_write(struct stx_graph *g, struct stx_val v, uint32_t input, struct stx_diag *d)
{
	stx_err e = stx_graph_output(g, v, NULL, d);
	if (!e)
		g->outputs.at[g->outputs.n - 1].writes = input + 1;
	return e;
}

uint32_t stx_graph_written(const struct stx_graph *g, uint32_t input)
{
	uint32_t lo = 0, hi = g->outputs.n; /* ascending: ordinary results, with 0, stand first */
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (g->outputs.at[mid].writes < input + 1)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < g->outputs.n && g->outputs.at[lo].writes == input + 1 ? lo : g->outputs.n;
}

uint32_t *stx_graph_users(const struct stx_graph *g, struct stx_arena *a)
{
	uint32_t *users = STX_NEW_ARRAY(a, uint32_t, g->nodes.n + 1u);
	/* last[id] = 1 + id of the last user counted, so that one that uses a value twice counts
	 * once */
	uint32_t *last = STX_NEW_ARRAY(a, uint32_t, g->nodes.n + 1u);
	if (!users || !last)
		return NULL;
	for (uint32_t i = 0; i <= g->nodes.n; i++) {
		struct stx__cursor c = { 0 };
		struct stx_val *v;
		uint32_t o = 0;
		for (;;) {
			struct stx_node *used;
			if (i < g->nodes.n)
				used = (v = stx__next_operand(g->nodes.at[i], &c)) ? v->node : NULL;
			else
				used = o < g->outputs.n ? g->outputs.at[o++].val.node : NULL;
			if (!used)
				break;
			if (last[used->id] == i + 1)
				continue;
			last[used->id] = i + 1;
			users[used->id]++;
		}
	}
	return users;
}
