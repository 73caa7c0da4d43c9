/* rules_reduce.c
 * reductions: their inner function calls the operand's, so a pointwise chain before one fuses here
 * (seed 000 6.3, 6.5; LO-25, RD-*, B03). The result is always a buffer.
 *
 * Integers accumulate in the node's dtype (i64 by inference), half precision in f32. An empty
 * reduction range gives the monoid's identity; amax, amin and argmax of one are errors of shape
 * inference. */
#include <math.h>
#include <string.h>

#include "lower.h"

static const struct reduce_op {
	uint8_t known, monoid, truth, arg; /* known: number of results */
} reduce_ops[STX_OP_COUNT] = {
	/* op                     monoid                  of x != 0  index */
	[STX_OP_SUM] = { 1, STX_MONOID_SUM, 0, 0 },
	[STX_OP_SUM_DIM] = { 1, STX_MONOID_SUM, 0, 0 },
	[STX_OP_PROD_DIM] = { 1, STX_MONOID_PROD, 0, 0 },
	[STX_OP_AMAX] = { 1, STX_MONOID_MAX, 0, 0 },
	[STX_OP_AMIN] = { 1, STX_MONOID_MIN, 0, 0 },
	[STX_OP_ANY_DIM] = { 1, STX_MONOID_ANY, 1, 0 },
	[STX_OP_ALL_DIM] = { 1, STX_MONOID_ALL, 1, 0 },
	[STX_OP_ARGMAX] = { 1, STX_MONOID_ARGMAX, 0, 1 },
	[STX_OP_ARGMIN] = { 1, STX_MONOID_ARGMIN, 0, 1 },
	[STX_OP_MAX_DIM] = { 2, STX_MONOID_ARGMAX, 0, 1 },
	[STX_OP_MIN_DIM] = { 2, STX_MONOID_ARGMIN, 0, 1 },
	[STX_OP_VAR_MEAN] = { 2, STX_MONOID_WELFORD, 0, 0 },
	[STX_OP_ONLINE_SOFTMAX] = { 2, STX_MONOID_SOFTMAX, 0, 0 },
};

int stx__reduce_has_rule(enum stx_op op)
{
	return reduce_ops[op].known;
}

int stx__reduce_is_pair(enum stx_op op)
{
	return reduce_ops[op].known == 2;
}

/* Bit d of *reduced: dimension d is reduced. No dims, or an empty list, means all; an empty list of
 * any and all means none, as in PyTorch. */
static int reduced_dims(struct stx__lower *l, const struct stx_node *n, uint32_t rank,
			uint32_t *reduced)
{
	const struct stx_arg *a = n->nargs > 1 ? &n->args[1] : NULL;
	const stx_ex *dims = a && a->kind == STX_ARG_INTS ? a->u.exs : a ? &a->u.ex : NULL;
	uint32_t i, count = !a ? 0 : a->kind == STX_ARG_INTS ? a->n : a->kind == STX_ARG_INT;
	int64_t dim;

	*reduced = 0;
	for (i = 0; i < count; i++) {
		if (!stx__const_arg(l, n, dims[i], &dim))
			return 0;
		if (rank)
			*reduced |= 1u << stx__dim(dim, rank);
	}
	if (!count && !(a && a->kind == STX_ARG_INTS && reduce_ops[n->op].truth))
		*reduced = (1u << rank) - 1;
	return 1;
}

/* The operand as the accumulator sees it: dtype of the accumulator, or x != 0. */
static struct stx__inner *prepare(struct stx__lower *l, const struct stx_node *n,
				  struct stx__inner *x, enum stx_dtype acc)
{
	const struct reduce_op *o = &reduce_ops[n->op];
	struct stx__shape s = { x->rank, x->sizes };
	struct stx__step st[2] = {
		{ .op = STX_B_CONST, .dtype = x->dtype },
		{ .op = STX_P_NE, .dtype = STX_BOOL, .a = 0, .b = 1 },
	};

	if (o->truth) {
		x = stx__inner_cast(l->g, x, stx__work_dtype(x->dtype));
		if (!x || x->dtype == STX_BOOL)
			return x;
		st[0].dtype = x->dtype;
		return stx__inner_map(l->g, s, &x, 1, st, 2);
	}
	if (!o->arg) /* dtype= of a sum converts each element first */
		x = stx__inner_cast(l->g, x, n->outs[0].dtype);
	return stx__inner_cast(l->g, x, acc);
}

/* No axis to reduce, as on a 0-d operand: every reduction has one element. */
static struct stx__inner *reduce_nothing(struct stx__lower *l, const struct stx_node *n,
					 struct stx__inner *x)
{
	if (reduce_ops[n->op].arg)
		return stx__inner_const(l->g, STX_I64, stx__node_shape(n),
					(union stx_scalar){ .i = 0 });
	return stx__inner_cast(l->g, x, n->outs[0].dtype);
}

/* Kept and reduced dimensions: fills r's ranges and operand from x, of all its dimensions. None
 * reduced: one axis of size 1. */
static int split_dims(struct stx__lower *l, struct stx__inner *x, uint32_t reduced,
		      struct stx__reduction *r)
{
	stx_ex *sizes = STX_NEW_ARRAY(l->arena, stx_ex, 2 * STX_MAX_DIMS);
	stx_ex *map = STX_NEW_ARRAY(l->arena, stx_ex, STX_MAX_DIMS);
	int keepdim = r->ranges.rank == x->rank;
	uint32_t d, nr = 0, kept = 0;

	if (!sizes || !map)
		return 0;
	for (d = 0; d < r->ranges.rank; d++)
		sizes[d] = r->ranges.sizes[d];
	for (d = 0; d < x->rank; d++) {
		int is_reduced = reduced >> d & 1;
		uint32_t at = is_reduced ? r->ranges.rank + nr++ : keepdim ? d : kept++;

		sizes[at] = x->sizes[d];
		map[d] = stx__axis(l->ex, at, x->sizes[d]);
	}
	if (!nr)
		sizes[r->ranges.rank + nr++] = stx_ex_const(l->ex, 1);
	r->rranges = (struct stx__shape){ (uint8_t)nr, sizes + r->ranges.rank };
	r->fn[0] = stx__inner_view(
		l->g, x, (struct stx__shape){ (uint8_t)(r->ranges.rank + nr), sizes }, map);
	return r->fn[0] != NULL;
}

/* Result i of n, value `state` of r's accumulator; NULL when nothing uses it. */
static struct stx__inner *realize_state(struct stx__lower *l, const struct stx_node *n,
					struct stx__reduction *r, unsigned i, unsigned state,
					enum stx_dtype t)
{
	if (!(l->vals[n->id].used >> i & 1))
		return NULL;
	r->state = (uint8_t)state;
	r->dtype = t;
	return stx__realize_reduction(l, n, r, STX_REALIZED_REDUCTION);
}

/* max.dim, min.dim: (value, index), both of the element that wins. A bool is compared as u8. */
static struct stx__inner *extreme_pair(struct stx__lower *l, const struct stx_node *n,
				       struct stx__inner *x, struct stx__reduction *r)
{
	enum stx_dtype t = n->outs[0].dtype;
	struct stx__inner *value;
	uint32_t reduced;

	r->acc = t == STX_BOOL ? STX_U8 : stx__work_dtype(t);
	if (!(x = stx__inner_cast(l->g, x, r->acc)))
		return NULL;
	if (!x->rank) {
		l->vals[n->id].second = stx__inner_const(l->g, STX_I64, stx__node_shape(n),
							 (union stx_scalar){ .i = 0 });
		return stx__inner_cast(l->g, x, t);
	}
	if (!reduced_dims(l, n, x->rank, &reduced) || !split_dims(l, x, reduced, r))
		return NULL;
	value = realize_state(l, n, r, 0, 0, t);
	l->vals[n->id].second = realize_state(l, n, r, 1, 1, STX_I64);
	return value ? value : l->vals[n->id].second;
}

/* max(0, n - correction) in f64, then as t (B43); n elements are combined. */
static struct stx__inner *divisor(struct stx__lower *l, const struct stx_node *n, stx_ex count,
				  enum stx_dtype t)
{
	const struct stx_arg *c = &n->args[2];
	struct stx__shape s = stx__node_shape(n);
	union stx_scalar given = { .f = 1 };
	struct stx__inner *x = stx__inner_index(l->g, STX_I64, s, count);
	const struct stx__step steps[] = {
		{ .op = STX_P_CAST, .dtype = STX_F64, .a = 0 },
		{ .op = STX_B_CONST, .dtype = STX_F64, .k = given },
		{ .op = STX_P_SUB, .dtype = STX_F64, .a = 1, .b = 2 },
		{ .op = STX_B_CONST, .dtype = STX_F64 },
		{ .op = STX_P_MAX, .dtype = STX_F64, .a = 3, .b = 4 },
	};
	struct stx__step st[sizeof steps / sizeof *steps];
	int64_t k;

	if (c->kind != STX_ARG_NONE)
		given = stx__scalar(c, STX_F64);
	if (stx_ex_is_const(l->ex, count, &k)) {
		given.f = (double)k - given.f > 0 ? (double)k - given.f : 0;
		x = stx__inner_const(l->g, STX_F64, s, given);
		return x ? stx__inner_cast(l->g, x, t) : NULL;
	}
	memcpy(st, steps, sizeof st);
	st[1].k = given;
	x = x ? stx__inner_map(l->g, s, &x, 1, st, sizeof st / sizeof *st) : NULL;
	return x ? stx__inner_cast(l->g, x, t) : NULL;
}

/* var_mean.correction by Welford's recurrence (RD-04): m2 over the divisor, and the mean, which is
 * NaN where there is no element. */
static struct stx__inner *moments(struct stx__lower *l, const struct stx_node *n,
				  struct stx__inner *x, struct stx__reduction *r)
{
	enum stx_dtype t = n->outs[0].dtype;
	struct stx__shape s = stx__node_shape(n);
	struct stx__step div = { .op = STX_P_DIV, .dtype = (uint8_t)stx__work_dtype(t), .b = 1 };
	struct stx__inner *ops[2] = { NULL, NULL }, *mean;
	stx_ex count = stx_ex_const(l->ex, 1);
	uint32_t d, reduced;

	r->acc = stx__work_dtype(t);
	x = stx__inner_cast(l->g, x, r->acc);
	if (!x || !reduced_dims(l, n, x->rank, &reduced) || !split_dims(l, x, reduced, r))
		return NULL;
	for (d = 0; d < r->rranges.rank; d++)
		count = stx_ex_mul(l->ex, count, r->rranges.sizes[d]);
	mean = realize_state(l, n, r, 1, 0, t);
	if (mean && stx_ex_equals(l->ex, count, 0))
		mean = stx__inner_const(l->g, t, s, (union stx_scalar){ .f = NAN });
	l->vals[n->id].second = mean;
	ops[0] = realize_state(l, n, r, 0, 1, r->acc);
	if (!ops[0])
		return mean;
	if (!(ops[1] = divisor(l, n, count, r->acc)) ||
	    !(ops[0] = stx__inner_map(l->g, s, ops, 2, &div, 1)))
		return NULL;
	return stx__inner_cast(l->g, ops[0], t);
}

/* (maximum, sum of exponentials). */
static struct stx__inner *online_softmax(struct stx__lower *l, const struct stx_node *n,
					 struct stx__inner *x, struct stx__reduction *r)
{
	struct stx__inner *top;
	uint32_t reduced;

	r->acc = r->dtype;
	if (!reduced_dims(l, n, x->rank, &reduced) || !split_dims(l, x, reduced, r))
		return NULL;
	top = realize_state(l, n, r, 0, 0, r->acc);
	l->vals[n->id].second = realize_state(l, n, r, 1, 1, r->acc);
	return top ? top : l->vals[n->id].second;
}

struct stx__inner *stx__rule_reduce(struct stx__lower *l, const struct stx_node *n)
{
	const struct reduce_op *o = &reduce_ops[n->op];
	struct stx__reduction r = { .monoid = (enum stx_monoid)o->monoid,
				    .state = o->arg,
				    .dtype = n->outs[0].dtype,
				    .ranges = stx__node_shape(n) };
	struct stx__inner *x = o->known ? stx__arg(l, n, 0) : NULL;
	uint32_t reduced;

	if (!o->known)
		return stx__lower_fail(l, STX_E_UNSUPPORTED, n, "%s has no lowering rule",
				       stx_op_info(n->op)->overload);
	if (!x)
		return NULL;
	if (n->op == STX_OP_ONLINE_SOFTMAX)
		return online_softmax(l, n, x, &r);
	if (o->known == 2)
		return o->arg ? extreme_pair(l, n, x, &r) : moments(l, n, x, &r);
	if (!reduced_dims(l, n, x->rank, &reduced))
		return NULL;
	if (r.dtype == STX_BOOL &&
	    r.monoid == STX_MONOID_SUM) /* bool + bool is or, bool * bool and */
		r.monoid = STX_MONOID_ANY;
	if (r.dtype == STX_BOOL && r.monoid == STX_MONOID_PROD)
		r.monoid = STX_MONOID_ALL;
	r.acc = o->truth ? STX_BOOL : stx__work_dtype(o->arg ? (enum stx_dtype)x->dtype : r.dtype);
	x = prepare(l, n, x, r.acc);
	if (!x || !reduced)
		return x ? reduce_nothing(l, n, x) : NULL;
	if (!split_dims(l, x, reduced, &r))
		return NULL;
	return stx__realize_reduction(l, n, &r, STX_REALIZED_REDUCTION);
}
