/* infer_random.c: result types of random operators, and their last two arguments.
 *
 * state: i64[2], {seed, offset}, or None: both 0. stream: which of the sequences of a state a node
 * draws; the graph numbers its random nodes when none is given, so that each has its own. */
#include "infer.h"

#include <string.h>

static const struct stx_arg *named(const struct stx_node *n, const char *name)
{
	const struct stx_op_info *info = stx_op_info(n->op);
	for (uint32_t i = 0; i < info->nparams; i++)
		if (!strcmp(info->params[i].name, name))
			return &n->args[i];
	return NULL;
}

static stx_err check_state(struct stx_graph *g, const struct stx_node *n, struct stx_diag *d)
{
	const struct stx_arg *state = named(n, "state"), *stream = named(n, "stream");
	int64_t v;
	if (state->kind == STX_ARG_TENSOR) {
		const struct stx_type *t = stx_val_type(state->u.tensor);
		if (t->dtype != STX_I64 || t->rank != 1 || !stx_ex_equals(g->ex, t->sizes[0], 2))
			return STX__INFER_FAIL(d, n, "state must be i64[2]: seed and offset");
	}
	if (!stx_ex_is_const(g->ex, stream->u.ex, &v) || v < 0)
		return STX__INFER_FAIL(d, n, "stream must be a constant, 0 or more");
	return 0;
}

static stx_err check_float(const struct stx_node *n, enum stx_dtype t, struct stx_diag *d)
{
	if (stx_dtype_is_float(t) && stx_dtype_bytes(t) > 1)
		return 0;
	return STX__INFER_FAIL(d, n, "%s gives f16, bf16, f32 or f64, not %s",
			       stx_op_info(n->op)->overload, stx_dtype_name(t));
}

static stx_err check_sizes(struct stx_graph *g, const struct stx_node *n, const struct stx_arg *s,
			   struct stx_diag *d)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (stx_ex_interval(g->ex, s->u.exs[i]).lo < 0)
			return STX__INFER_FAIL(d, n, "size %u is or may be negative", i);
	return 0;
}

static enum stx_dtype dtype_or(const struct stx_node *n, enum stx_dtype t)
{
	const struct stx_arg *a = named(n, "dtype");
	return a && a->kind == STX_ARG_DTYPE ? a->u.dtype : t;
}

/* rand, randn, normal: floats of the sizes given. */
stx_err stx_shape_random(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_arg *s = named(n, "size");
	enum stx_dtype t = dtype_or(n, STX_F32);
	stx_err e = check_state(g, n, d);
	if (!e)
		e = check_sizes(g, n, s, d);
	if (!e)
		e = check_float(n, t, d);
	return e ? e : stx__infer_set(g, n, t, s->n, s->u.exs, d);
}

/* The shape of the first operand, and its dtype unless another is given. */
stx_err stx_shape_random_like(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	enum stx_dtype t = dtype_or(n, x->dtype);
	const struct stx_arg *p = named(n, "p");
	stx_err e = check_state(g, n, d);
	if (!e)
		e = check_float(n, t, d);
	if (!e && p && !(p->u.f >= 0 && p->u.f <= 1))
		return STX__INFER_FAIL(d, n, "p is %g; it must be from 0 to 1", p->u.f);
	if (!e)
		e = stx__infer_set(g, n, t, x->rank, x->sizes, d);
	if (e || n->op != STX_OP_NATIVE_DROPOUT)
		return e;
	return stx__infer_add(g, n, STX_BOOL, x->rank, x->sizes, d);
}

/* Integers in [low, high): the type must hold them. */
stx_err stx_shape_randint(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_arg *s = named(n, "size"), *l = named(n, "low");
	enum stx_dtype t = dtype_or(n, STX_I64);
	int64_t low = 0, high, range;
	stx_err e = check_state(g, n, d);
	if (!e)
		e = check_sizes(g, n, s, d);
	if (e)
		return e;
	if ((l && !stx_ex_is_const(g->ex, l->u.ex, &low)) ||
	    !stx_ex_is_const(g->ex, named(n, "high")->u.ex, &high))
		return STX__INFER_FAIL(d, n, "low and high must be constants");
	if (low >= high || __builtin_sub_overflow(high, low, &range))
		return STX__INFER_FAIL(d, n, "low must be less than high, by less than 2^63");
	if (stx_dtype_is_float(t) && stx_dtype_bytes(t) == 1)
		return check_float(n, t, d);
	return stx__infer_set(g, n, t, s->n, s->u.exs, d);
}

stx_err stx_shape_randperm(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	stx_ex size = n->args[0].u.ex;
	stx_err e = check_state(g, n, d);
	if (e)
		return e;
	if (stx_ex_interval(g->ex, size).lo < 0)
		return STX__INFER_FAIL(d, n, "n is or may be negative");
	return stx__infer_set(g, n, dtype_or(n, STX_I64), 1, &size, d);
}

stx_err stx_shape_random_bits(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_arg *s = named(n, "size");
	stx_err e = check_state(g, n, d);
	if (!e)
		e = check_sizes(g, n, s, d);
	return e ? e : stx__infer_set(g, n, STX_I64, s->n, s->u.exs, d);
}
