/* lower.c
 * the lowering driver: interprets the graph in topological order (seed 000 6.1; LO-01..LO-05).
 *
 * Requires: a verified graph over basis operators and primitives. Ensures: every output is a buffer
 * of its own, and stx_loops_verify passes. One visit a node; a rule costs its operands and rank,
 * realising a value costs its body, whose size realise.c bounds: linear in the graph. */
#include <stdarg.h>

#include "elementary.h"
#include "lower.h"
#include "scalar.h"

/* One rule a category; an operator of a category without one is UNSUPPORTED by name (LO-04). */
static stx__rule_fn *const rules[] = {
	[STX_CAT_INPUT] = NULL, /* buffers: lower_input */
	[STX_CAT_POINTWISE] = stx__rule_pointwise,
	[STX_CAT_CREATE] = stx__rule_create,
	[STX_CAT_REDUCE] = stx__rule_reduce,
	[STX_CAT_VIEW] = stx__rule_view,
	[STX_CAT_INDIRECT] = stx__rule_indirect,
	[STX_CAT_SCATTER] = stx__rule_scatter,
	[STX_CAT_PIECEWISE] = stx__rule_piecewise,
	[STX_CAT_SCAN] = stx__rule_order, /* and stx__rule_running */
	[STX_CAT_CONTRACT] = stx__rule_contract,
	[STX_CAT_WINDOW] = stx__rule_window,
	[STX_CAT_RANDOM] = stx__rule_random,
	[STX_CAT_COMPOSITE] = NULL,
};

struct stx__inner *stx__lower_fail(struct stx__lower *l, stx_err e, const struct stx_node *n,
				   const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	stx_vfail(l->d, e, "lower", n ? n->name : "", fmt, ap);
	va_end(ap);
	if (!l->err)
		l->err = e;
	return NULL;
}

struct stx__inner *stx__arg(struct stx__lower *l, const struct stx_node *n, uint32_t i)
{
	const struct stx_arg *a = &n->args[i];

	if (a->kind != STX_ARG_TENSOR)
		return stx__lower_fail(l, STX_E_INTERNAL, n, "argument %u is not a tensor", i);
	return stx__value_of(l, a->u.tensor);
}

struct stx__inner *stx__value_of(const struct stx__lower *l, struct stx_val v)
{
	const struct stx__value *x = &l->vals[v.node->id];

	return v.out ? x->second : x->fn;
}

struct stx__shape stx__node_shape(const struct stx_node *n)
{
	return (struct stx__shape){ n->outs[0].rank, n->outs[0].sizes };
}

uint32_t stx__dim(int64_t dim, uint32_t rank)
{
	return (uint32_t)(dim < 0 ? dim + (int64_t)rank : dim);
}

int stx__const_arg(struct stx__lower *l, const struct stx_node *n, stx_ex e, int64_t *v)
{
	if (stx_ex_is_const(l->ex, e, v))
		return 1;
	stx__lower_fail(l, STX_E_UNSUPPORTED, n, "a dimension or step that is not a constant");
	return 0;
}

union stx_scalar stx__scalar(const struct stx_arg *a, enum stx_dtype t)
{
	union stx_scalar k = { .u = 0 };

	if (a->kind == STX_ARG_FLOAT || (a->kind == STX_ARG_SCALAR && a->is_float)) {
		k.f = a->u.f;
		return t == STX_F64 ? k : stx_prim_eval(STX_P_CAST, t, STX_F64, k, k, k);
	}
	k.i = a->u.i;
	return t == STX_I64 ? k : stx_prim_eval(STX_P_CAST, t, STX_I64, k, k, k);
}

/* Least and greatest element of an integer constant: indices taken from it need no check (VR-05).
 */
static struct stx_interval value_range(enum stx_dtype t, const struct stx_const_data *data)
{
	size_t width = (size_t)stx_dtype_bytes(t), i;
	struct stx_interval r = { STX_POS_INF, STX_NEG_INF };

	for (i = 0; i + width <= data->n; i += width) {
		int64_t v = stx_scalar_load(t, data->bytes + i).i;

		r.lo = v < r.lo ? v : r.lo;
		r.hi = v > r.hi ? v : r.hi;
	}
	return r;
}

/* A constant of one element is its value (LO-09); a larger one a buffer. */
static struct stx__inner *lower_constant(struct stx__lower *l, const struct stx_node *n)
{
	struct stx__shape s = stx__node_shape(n);
	enum stx_dtype t = n->outs[0].dtype;
	struct stx__inner *fn;
	struct stx_interval r;
	struct stx_buffer *b;
	stx_ex *strides;

	if (stx__shape_is_empty(l->ex, s))
		return stx__inner_const(l->g, t, s, (union stx_scalar){ .u = 0 });
	if (n->data.n == (size_t)stx_dtype_bytes(t))
		return stx__inner_const(l->g, t, s, stx_scalar_load(t, n->data.bytes));
	b = stx__new_buffer(l, STX_BUF_CONST, n->name, t, s);
	strides = STX_NEW_ARRAY(l->arena, stx_ex, s.rank + 1u);
	if (!b || !strides)
		return NULL;
	stx__row_major(l->ex, s, strides);
	b->layout.strides = strides;
	b->data = n->data;
	fn = stx__inner_load(l->g, b->id, t, s, stx__address(l->ex, s, strides, b->layout.offset));
	if (fn && stx__dtype_range(t, &r))
		fn->u.load.range = value_range(t, &n->data);
	return fn;
}

static struct stx__inner *lower_input(struct stx__lower *l, const struct stx_node *n,
				      uint32_t index, const stx_ex *given)
{
	struct stx__shape s = stx__node_shape(n);
	struct stx_buffer *b = stx__new_buffer(l, STX_BUF_INPUT, n->name, n->outs[0].dtype, s);
	stx_ex *strides = STX_NEW_ARRAY(l->arena, stx_ex, s.rank + 1u);
	uint32_t d;

	if (!b || !strides)
		return NULL;
	stx__row_major(l->ex, s, strides);
	for (d = 0; given && d < s.rank; d++)
		strides[d] = given[d];
	b->layout.strides = strides;
	b->index = index;
	return stx__inner_load(l->g, b->id, b->dtype, s,
			       stx__address(l->ex, s, strides, b->layout.offset));
}

/* Inputs come first, in call order, whether or not they are used. */
static void lower_inputs(struct stx__lower *l)
{
	uint32_t i;

	for (i = 0; i < l->g->inputs.n; i++) {
		const struct stx_input *in = &l->g->inputs.at[i];

		l->vals[in->node->id].fn = lower_input(l, in->node, i, in->strides);
		l->vals[in->node->id].is_realized = 1;
	}
}

static struct stx__inner *apply_rule(struct stx__lower *l, const struct stx_node *n)
{
	enum stx_op_category c = stx_op_info(n->op)->category;
	int is_pair = stx__reduce_is_pair(n->op) || stx__scan_is_pair(n->op);
	struct stx__shape s;

	if (n->op == STX_OP_CONSTANT)
		return lower_constant(l, n);
	if (!rules[c] || n->nouts != (is_pair ? 2 : 1) ||
	    (l->opts->without && !strcmp(l->opts->without, stx_op_info(n->op)->overload)))
		return stx__lower_fail(l, STX_E_UNSUPPORTED, n, "%s has no lowering rule",
				       stx_op_info(n->op)->overload);
	s = stx__node_shape(n);
	if (stx__shape_is_empty(l->ex, s)) { /* no element: nothing to compute or to check */
		l->vals[n->id].second = n->nouts < 2
						? NULL
						: stx__inner_const(l->g, n->outs[1].dtype, s,
								   (union stx_scalar){ .u = 0 });
		return stx__inner_const(l->g, n->outs[0].dtype, s, (union stx_scalar){ .u = 0 });
	}
	return stx__scan_has_rule(n->op) ? stx__rule_running(l, n) : rules[c](l, n);
}

int stx_lower_has_rule(enum stx_op op)
{
	static const struct {
		stx__rule_fn *rule;
		int (*has)(enum stx_op op);
	} coverage[] = {
		{ stx__rule_pointwise, stx__pointwise_has_rule },
		{ stx__rule_view, stx__view_has_rule },
		{ stx__rule_reduce, stx__reduce_has_rule },
		{ stx__rule_scatter, stx__scatter_has_rule },
	};
	enum stx_op_category c = stx_op_info(op)->category;
	uint32_t i;

	for (i = 0; i < sizeof coverage / sizeof *coverage; i++)
		if (rules[c] == coverage[i].rule)
			return coverage[i].has(op);
	if (stx__scan_has_rule(op))
		return 1;
	switch (op) {
	case STX_OP_PLACEHOLDER:
	case STX_OP_CONSTANT:
	case STX_OP_FULL:
	case STX_OP_ARANGE:
	case STX_OP_GATHER:
	case STX_OP_INDEX_SELECT:
	case STX_OP_EMBEDDING:
	case STX_OP_INDEX:
	case STX_OP_CAT:
	case STX_OP_PAD:
	case STX_OP_MM:
	case STX_OP_BMM:
	case STX_OP_ATTEND:
	case STX_OP_FOLD:
	case STX_OP_ARGSORT_STABLE:
	case STX_OP_RAND:
	case STX_OP_RANDN:
	case STX_OP_RANDOM_BITS:
	case STX_OP_CONVOLUTION: return 1;
	default: return 0;
	}
}

/* Loads of one body: a kernel has so many buffers at most, whatever the rules of realize.c say. */
#define MAX_LOADS 2000

/* Writes the operands of n that load more than one buffer. */
static void realize_operands(struct stx__lower *l, const struct stx_node *n)
{
	for (uint32_t j = 0; j < n->nargs; j++) {
		const struct stx_arg *a = &n->args[j];
		uint32_t many = a->kind == STX_ARG_TENSORS ? a->n : a->kind == STX_ARG_TENSOR;
		for (uint32_t k = 0; k < many && !l->err; k++) {
			const struct stx_val *v =
				a->kind == STX_ARG_TENSORS ? &a->u.tensors[k] : &a->u.tensor;
			if (v->node && l->vals[v->node->id].fn->reads > 1 &&
			    stx__realize_node(l, v->node, STX_REALIZED_LOADS_MAX) && !l->err)
				l->err = l->d ? l->d->code : STX_E_NOMEM;
		}
	}
}

static void lower_node(struct stx__lower *l, const struct stx_node *n)
{
	struct stx__value *v = &l->vals[n->id];
	enum stx_realized reason;

	if (n->op == STX_OP_PLACEHOLDER || !v->is_live)
		return;
	if (n->op == STX_OP_ASSERT) {
		stx__realize_assertion(l, n);
		return;
	}
	v->fn = apply_rule(l, n);
	if (v->fn && !l->err && v->fn->reads > MAX_LOADS) {
		realize_operands(l, n);
		v->fn = l->err ? NULL : apply_rule(l, n);
	}
	if (!v->fn || l->err) {
		if (!l->err)
			stx__lower_fail(l, STX_E_NOMEM, n, "out of memory budget");
		return;
	}
	reason = stx__realize_reason(l, n);
	if (reason && stx__realize_node(l, n, reason) && !l->err)
		l->err = l->d ? l->d->code : STX_E_NOMEM;
}

static stx_err start(struct stx__lower *l, struct stx_graph *g, const struct stx_lower_options *o,
		     struct stx_diag *d)
{
	uint32_t i;

	*l = (struct stx__lower){ .g = g, .ex = g->ex, .arena = g->arena, .opts = o, .d = d };
	l->loops = STX_NEW(g->arena, struct stx_loops);
	l->vals = STX_NEW_ARRAY(g->arena, struct stx__value, g->nodes.n + 1u);
	if (!l->loops || !l->vals)
		return stx_fail(d, STX_E_NOMEM, "lower", "", "out of memory budget");
	l->loops->g = g;
	l->loops->ex = g->ex;
	for (i = 0; i < g->nodes.n; i++)
		g->nodes.at[i]->id = i;
	return 0;
}

/* Results that are written inputs: the buffers of those that are written. */
static void place_within(struct stx__lower *l)
{
	for (uint32_t i = 0; i < l->g->outputs.n && !l->err; i++) {
		uint32_t in = l->g->outputs.at[i].within;
		if (in)
			l->loops->outputs.at[i] =
				l->loops->outputs.at[stx_graph_written(l->g, in - 1)];
	}
}

static void realize_output(struct stx__lower *l, uint32_t i)
{
	if (!l->g->outputs.at[i].within)
		l->err = stx__realize_output(l, &l->g->outputs.at[i], i);
	else if (stx_push(l->arena, &l->loops->outputs, STX_NONE))
		l->err = stx_fail(l->d, STX_E_NOMEM, "lower", "", "out of memory budget");
}

stx_err stx_lower(struct stx_graph *g, const struct stx_lower_options *o, struct stx_loops **out,
		  struct stx_diag *d)
{
	static const struct stx_lower_options defaults;
	struct stx__lower l;
	struct stx_diag local;
	stx_err e;
	uint32_t i;

	if (!d) {
		stx_diag_clear(&local);
		d = &local;
	}
	if ((e = start(&l, g, o ? o : &defaults, d)))
		return e;
	stx__count_uses(&l);
	lower_inputs(&l);
	for (i = 0; i < g->nodes.n && !l.err; i++)
		lower_node(&l, g->nodes.at[i]);
	if (!l.err)
		l.err = stx__begin_writes(&l);
	for (i = 0; i < g->outputs.n && !g->outputs.at[i].writes && !l.err; i++)
		realize_output(&l, i);
	if (i < g->outputs.n && !l.err)
		l.err = stx__realize_writes(&l, i);
	place_within(&l);
	if (!l.err)
		l.err = stx__drop_copies(&l);
	if (!l.err && stx_arena_oom(g->arena))
		l.err = stx_fail(d, STX_E_NOMEM, "lower", "", "out of memory budget");
	if (!l.err)
		l.err = stx_loops_verify(l.loops, d);
	if (!l.err)
		*out = l.loops;
	return l.err;
}
