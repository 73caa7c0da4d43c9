/* property_shrink.c: failing cases made smaller while they fail: outputs, nodes, sizes and strides
 * go.
 *
 * A node can be replaced by an input that holds the value the oracle computed for it, so that what
 * is left still sees the same numbers. Ends because every accepted edit removes an output, a node,
 * part of a size or a stride, and after `tries` calls in any case. */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "compiled.h"
#include "passes.h"
#include "property_case.h"
#include "ref.h"
#include "scalar.h"

enum edit_kind { ONLY_OUTPUT, DROP_OUTPUT, OUTPUT_TO_OPERAND, BYPASS, CUT, SIZE, DENSE };

struct edit {
	enum edit_kind kind;
	uint32_t at;      /* output, node or input number */
	uint32_t operand; /* OUTPUT_TO_OPERAND, BYPASS */
	int64_t from, to; /* SIZE */
};

/* Operand i of n, counting through lists; a value without a node past the end. */
static struct stx_val operand(const struct stx_node *n, uint32_t i)
{
	for (uint32_t k = 0; k < n->nargs; k++) {
		const struct stx_arg *a = &n->args[k];
		if (a->kind == STX_ARG_TENSOR && i-- == 0)
			return a->u.tensor;
		for (uint32_t j = 0; a->kind == STX_ARG_TENSORS && j < a->n; j++)
			if (a->u.tensors[j].node && i-- == 0)
				return a->u.tensors[j];
	}
	return stx_val(NULL, 0);
}

/* ---- the oracle's values ---- */

struct values {
	struct stx_arena *arena;
	struct stx_tensor *at; /* [nodes], dense; data NULL: not known */
};

static void visit(void *ctx, const struct stx_node *n, const struct stx_tensor *results)
{
	struct values *v = ctx;
	struct stx_tensor *t = &v->at[n->id];
	if (!n->nouts || n->op == STX_OP_PLACEHOLDER)
		return;
	size_t width = (size_t)stx_dtype_bytes((enum stx_dtype)results->dtype);
	int64_t count = compiled_numel(results), at[STX_MAX_DIMS] = { 0 };
	*t = *results;
	t->offset = 0;
	compiled_dense(t);
	t->data = stx_arena_alloc(v->arena, (size_t)count * width + 1);
	for (int64_t i = 0; i < count; i++) {
		int64_t off = results->offset;
		for (int d = 0; d < t->rank; d++)
			off += at[d] * results->strides[d];
		memcpy((char *)t->data + (size_t)i * width,
		       (char *)results->data + off * (int64_t)width, width);
		for (int d = t->rank; d-- > 0 && ++at[d] == t->sizes[d];)
			at[d] = 0;
	}
}

struct stx_tensor *prop_values(struct stx_arena *a, const struct prop_case *c)
{
	struct values v = { a, STX_NEW_ARRAY(a, struct stx_tensor, c->g->nodes.n + 1) };
	struct stx_tensor out[PROP_MAX_OUTPUTS];
	struct stx_diag d = { 0 };
	if (!stx_ref_evaluate_visit(c->g, c->inputs, c->g->inputs.n, out, 0, visit, &v, &d))
		compiled_free_outputs(out, c->g->outputs.n);
	return v.at;
}

/* ---- one edit ---- */

static int64_t resized(const struct edit *e, int64_t size)
{
	return e->kind == SIZE && size == e->from ? e->to : size;
}

static void mark(const struct stx_graph *g, const struct edit *e, uint8_t *live)
{
	for (uint32_t i = 0; i < g->outputs.n; i++) {
		struct stx_node *n = g->outputs.at[i].val.node;
		if ((e->kind == DROP_OUTPUT && i == e->at) ||
		    (e->kind == ONLY_OUTPUT && i != e->at))
			continue;
		if (e->kind == OUTPUT_TO_OPERAND && i == e->at)
			n = operand(n, e->operand).node;
		live[n->id] = 1;
	}
	for (uint32_t i = g->nodes.n; i-- > 0;) {
		const struct stx_node *n = g->nodes.at[i];
		if (!live[i] || (e->kind == CUT && i == e->at))
			continue;
		if (e->kind == BYPASS && i == e->at) {
			live[operand(n, e->operand).node->id] = 1;
			continue;
		}
		for (uint32_t k = 0; operand(n, k).node; k++)
			live[operand(n, k).node->id] = 1;
	}
}

/* An input like t, keeping its data; made dense when asked to, else with t's strides. */
static struct stx_node *add_input(struct prop_case *to, const struct stx_tensor *t,
				  const char *name, const struct edit *e, int dense)
{
	struct stx_tensor *x = &to->inputs[to->g->inputs.n];
	stx_ex strides[STX_MAX_DIMS];
	if (to->g->inputs.n == PROP_MAX_INPUTS || !t->data)
		return NULL;
	*x = *t;
	for (int i = 0; i < t->rank; i++)
		x->sizes[i] = resized(e, t->sizes[i]);
	if (dense) {
		struct values v = { to->arena, x };
		struct stx_node fake = { .nouts = 1, .op = STX_OP_CLONE };
		visit(&v, &fake, t);
	}
	for (int i = 0; i < x->rank; i++)
		strides[i] = stx_ex_const(to->g->ex, x->strides[i]);
	return stx_graph_input(to->g, name,
			       stx_type_make(to->g, (enum stx_dtype)x->dtype, x->rank, x->sizes),
			       strides, 0, NULL);
}

static void resize_args(struct stx_graph *g, struct stx_node *n, const struct edit *e)
{
	int64_t v;
	for (uint32_t k = 0; k < n->nargs; k++) {
		struct stx_arg *a = &n->args[k];
		if (a->kind == STX_ARG_INT && stx_ex_is_const(g->ex, a->u.ex, &v))
			a->u.ex = stx_ex_const(g->ex, resized(e, v));
		for (uint32_t i = 0; a->kind == STX_ARG_INTS && i < a->n; i++)
			if (stx_ex_is_const(g->ex, a->u.exs[i], &v))
				((stx_ex *)(uintptr_t)a->u.exs)[i] =
					stx_ex_const(g->ex, resized(e, v));
	}
}

static struct stx_node *edited_node(struct prop_case *to, const struct prop_case *c,
				    const struct stx_node *n, const struct edit *e,
				    const struct stx_val *map, const struct values *values)
{
	struct stx_arg args[16];
	if (n->op == STX_OP_PLACEHOLDER) {
		uint32_t i = 0;
		while (c->g->inputs.at[i].node != n)
			i++;
		return add_input(to, &c->inputs[i], n->name, e, e->kind == DENSE && e->at == i);
	}
	if (e->kind == CUT && e->at == n->id)
		return add_input(to, &values->at[n->id], n->name, e, 0);
	if (e->kind != SIZE || n->op == STX_OP_CONSTANT)
		return prop_copy_node(to->g, c->g, n, map, NULL);
	/* sizes among the arguments: a changed copy of the node, then its copy */
	struct stx_node changed = *n;
	for (uint32_t i = 0; i < n->nargs; i++) {
		args[i] = n->args[i];
		if (args[i].kind == STX_ARG_INTS)
			args[i].u.exs = stx_arena_copy(to->arena, args[i].u.exs,
						       args[i].n * sizeof(stx_ex));
	}
	changed.args = args;
	resize_args(c->g, &changed, e);
	return prop_copy_node(to->g, c->g, &changed, map, NULL);
}

static struct prop_case *apply(struct stx_arena *a, const struct prop_case *c, const struct edit *e,
			       const struct values *values)
{
	struct prop_case *to = STX_NEW(a, struct prop_case);
	struct stx_val *map = prop_map_new(a, c->g);
	uint8_t *live = STX_NEW_ARRAY(a, uint8_t, c->g->nodes.n + 1);
	struct stx_diag d = { 0 };
	to->arena = a;
	to->g = stx_graph_new(a);
	mark(c->g, e, live);
	for (uint32_t i = 0; i < c->g->nodes.n; i++) {
		const struct stx_node *n = c->g->nodes.at[i];
		if (!live[i])
			continue;
		if (e->kind == BYPASS && e->at == i)
			map[i * PROP_MAX_OUTS] = map[prop_at(operand(n, e->operand))];
		else
			prop_map_node(map, n, edited_node(to, c, n, e, map, values));
		if (n->nouts && !map[i * PROP_MAX_OUTS].node)
			return NULL;
	}
	for (uint32_t i = 0; i < c->g->outputs.n; i++) {
		struct stx_val v = c->g->outputs.at[i].val;
		if ((e->kind == DROP_OUTPUT && i == e->at) ||
		    (e->kind == ONLY_OUTPUT && i != e->at))
			continue;
		if (e->kind == OUTPUT_TO_OPERAND && i == e->at)
			v = operand(v.node, e->operand);
		stx_graph_output(to->g, map[prop_at(v)], NULL, NULL);
	}
	return to->g->outputs.n && !stx_graph_verify(to->g, &d) ? to : NULL;
}

/* ---- the search ---- */

struct search {
	struct stx_arena *arena;
	const struct prop_case *c;
	struct values values;
	prop_fails_fn *fails;
	void *ctx;
	int tries;
};

/* Takes the edit when the result still fails. */
static int attempt(struct search *s, const struct edit *e)
{
	if (s->tries <= 0)
		return 0;
	struct prop_case *to = apply(s->arena, s->c, e, &s->values);
	if (!to)
		return 0;
	s->tries--;
	if (!s->fails(s->ctx, to))
		return 0;
	s->c = to;
	s->values.at = prop_values(s->arena, to);
	return 1;
}

static int shrink_outputs(struct search *s)
{
	int done = 0;
	uint32_t n = s->c->g->outputs.n;
	for (uint32_t i = 0; n > 1 && i < n; i++)
		if (attempt(s, &(struct edit){ .kind = ONLY_OUTPUT, .at = i }))
			return 1;
	for (uint32_t i = n; n > 1 && i-- > 0;)
		done |= attempt(s, &(struct edit){ .kind = DROP_OUTPUT, .at = i });
	for (uint32_t i = 0; i < s->c->g->outputs.n; i++)
		for (uint32_t k = 0; operand(s->c->g->outputs.at[i].val.node, k).node; k++)
			if (attempt(s, &(struct edit){ .kind = OUTPUT_TO_OPERAND,
						       .at = i,
						       .operand = k })) {
				done = 1;
				break;
			}
	return done;
}

static int shrink_nodes(struct search *s)
{
	int done = 0;
	for (uint32_t i = s->c->g->nodes.n; i-- > 0;) {
		if (i >= s->c->g->nodes.n)
			continue;
		const struct stx_node *n = s->c->g->nodes.at[i];
		int taken = 0;
		if (n->op == STX_OP_PLACEHOLDER || n->nouts != 1)
			continue;
		for (uint32_t k = 0; !taken && operand(n, k).node; k++) {
			const struct stx_type *t = stx_val_type(operand(n, k));
			if (stx_type_eq(t, &n->outs[0]))
				taken = attempt(
					s, &(struct edit){ .kind = BYPASS, .at = i, .operand = k });
		}
		if (!taken)
			taken = attempt(s, &(struct edit){ .kind = CUT, .at = i });
		done |= taken;
	}
	return done;
}

static int shrink_sizes(struct search *s)
{
	int done = 0;
	for (uint32_t i = 0; i < s->c->g->inputs.n; i++) {
		for (int d = 0; i < s->c->g->inputs.n && d < s->c->inputs[i].rank; d++) {
			int64_t n = s->c->inputs[i].sizes[d], to[] = { 1, 2, n / 2, n - 1 };
			for (int k = 0; k < 4; k++)
				if (to[k] > 0 && to[k] < n &&
				    attempt(s, &(struct edit){
						       .kind = SIZE, .from = n, .to = to[k] })) {
					done = 1;
					break;
				}
		}
	}
	for (uint32_t i = 0; i < s->c->g->inputs.n; i++)
		if (s->c->g->inputs.at[i].strides)
			done |= attempt(s, &(struct edit){ .kind = DENSE, .at = i });
	return done;
}

const struct prop_case *prop_shrink(struct stx_arena *a, const struct prop_case *c,
				    prop_fails_fn *fails, void *ctx, int tries)
{
	struct search s = { .arena = a, .c = c, .fails = fails, .ctx = ctx, .tries = tries };
	int more = 1;
	s.values = (struct values){ a, prop_values(a, c) };
	while (more && s.tries > 0) {
		more = shrink_outputs(&s);
		more |= shrink_nodes(&s);
		more |= shrink_sizes(&s);
	}
	return s.c;
}

/* ---- text ---- */

static void print_tensor(const struct stx_tensor *t, struct stx_bytes *out)
{
	int64_t n = compiled_numel(t), at[STX_MAX_DIMS] = { 0 };
	stx_bytes_puts(out, "strides [");
	for (int d = 0; d < t->rank; d++)
		stx_bytes_printf(out, d ? ",%lld" : "%lld", (long long)t->strides[d]);
	stx_bytes_puts(out, "] data");
	for (int64_t i = 0; i < n && i < 24; i++) {
		enum stx_dtype type = (enum stx_dtype)t->dtype;
		int64_t off = t->offset;
		for (int d = 0; d < t->rank; d++)
			off += at[d] * t->strides[d];
		union stx_scalar v =
			stx_scalar_load(type, (char *)t->data + off * stx_dtype_bytes(type));
		if (stx_dtype_is_float(type))
			stx_bytes_printf(out, " %.9g", v.f);
		else
			stx_bytes_printf(out, " %lld", (long long)v.i);
		for (int d = t->rank; d-- > 0 && ++at[d] == t->sizes[d];)
			at[d] = 0;
	}
	stx_bytes_puts(out, n > 24 ? " ...\n" : "\n");
}

void prop_print(const struct prop_case *c, struct stx_bytes *out)
{
	stx_graph_print(c->g, out);
	for (uint32_t i = 0; i < c->g->inputs.n; i++) {
		stx_bytes_printf(out, "# %s: ", c->g->inputs.at[i].node->name);
		print_tensor(&c->inputs[i], out);
	}
}
