/* rules_window.c
 * convolution as a DOT over channels and kernel taps whose loads are masked at the padding; folding
 * as a SUM over the taps that reach an element.
 *
 * Convolution's index space: [n, group, channel, out..] ++ [in channel, tap..]; for groups = 1 and
 * for one channel a group the axes of size 1 vanish. An ordinary convolution is that of the input
 * padded with zeros: x is masked, the weight is not. A transposed one has only the products its
 * definition lists: x and weight are masked where o + p - k*d is no multiple of the stride or
 * leaves the input, so that an infinite weight meets no zero. */
#include "infer.h"
#include "lower.h"

enum { AXIS_N, AXIS_GROUP, AXIS_CHANNEL, AXIS_OUT };

struct conv {
	struct stx__lower *l;
	const struct stx_node *n;
	struct stx__window w;
	int transposed;
	struct stx__shape space;
	uint32_t in, tap;                             /* axes: input channel, first kernel tap */
	stx_ex at[STX__MAX_SPATIAL];                  /* position in the input */
	struct stx__cond conds[2 * STX__MAX_SPATIAL]; /* under which there is one */
	uint32_t nconds;
};

static stx_ex axis(const struct conv *c, uint32_t d)
{
	return stx__axis(c->l->ex, d, c->space.sizes[d]);
}

/* sizes of the index space; x, weight and result have 2 + k dimensions. */
static int set_space(struct conv *c, const struct stx__inner *wt)
{
	struct stx_exprs *x = c->l->ex;
	stx_ex *s = STX_NEW_ARRAY(c->l->arena, stx_ex, STX_MAX_DIMS);
	stx_ex groups = stx_ex_const(x, c->w.groups);
	uint32_t i, k = c->w.k;

	if (!s)
		return 0;
	s[AXIS_N] = c->n->outs[0].sizes[0];
	s[AXIS_GROUP] = groups;
	s[AXIS_CHANNEL] = c->transposed ? wt->sizes[1] : stx_ex_floordiv(x, wt->sizes[0], groups);
	c->in = AXIS_OUT + k;
	c->tap = c->in + 1;
	s[c->in] = c->transposed ? stx_ex_floordiv(x, wt->sizes[0], groups) : wt->sizes[1];
	for (i = 0; i < k; i++) {
		s[AXIS_OUT + i] = c->n->outs[0].sizes[2 + i];
		s[c->tap + i] = wt->sizes[2 + i];
	}
	c->space = (struct stx__shape){ (uint8_t)(c->tap + k), s };
	return 1;
}

/* Where output o and tap k meet the input: o*s - p + k*d, or (o + p - k*d) / s where that is whole.
 */
static void set_positions(struct conv *c, const struct stx__inner *in)
{
	struct stx_exprs *x = c->l->ex;
	uint32_t i;

	for (i = 0; i < c->w.k; i++) {
		stx_ex o = axis(c, AXIS_OUT + i),
		       k = stx_ex_muli(x, axis(c, c->tap + i), c->w.dilation[i]);
		stx_ex stride = stx_ex_const(x, c->w.stride[i]), e;

		if (!c->transposed) {
			e = stx_ex_add(x, stx_ex_muli(x, o, c->w.stride[i]), k);
			c->at[i] = stx_ex_addi(x, e, -c->w.padding[i]);
		} else {
			e = stx_ex_addi(x, stx_ex_sub(x, o, k), c->w.padding[i]);
			c->at[i] = stx_ex_floordiv(x, e, stride);
			if (c->w.stride[i] != 1)
				c->conds[c->nconds++] =
					(struct stx__cond){ stx_ex_mod(x, e, stride), STX_EX_BAD,
							    stx_ex_const(x, 1) };
		}
		c->conds[c->nconds++] =
			(struct stx__cond){ c->at[i], stx_ex_const(x, 0), in->sizes[2 + i] };
	}
}

/* x over the space at map, 0 where the conditions do not hold. */
static struct stx__inner *masked(struct conv *c, struct stx__inner *x, const stx_ex *map)
{
	struct stx__inner *fn[2] = { stx__inner_view(c->l->g, x, c->space, map),
				     stx__inner_const(c->l->g, x->dtype, c->space,
						      (union stx_scalar){ .u = 0 }) };
	const struct stx__cond *conds = stx_arena_copy(c->l->arena, c->conds, sizeof c->conds);
	struct stx__piece *pieces = STX_NEW_ARRAY(c->l->arena, struct stx__piece, 2);

	if (!fn[0] || !fn[1] || !conds || !pieces)
		return NULL;
	pieces[0] = (struct stx__piece){ conds, c->nconds };
	return stx__inner_pieces(c->l->g, x->dtype, c->space, fn, pieces, 2);
}

static struct stx__inner *place_input(struct conv *c, struct stx__inner *x)
{
	struct stx_exprs *ex = c->l->ex;
	stx_ex *map = STX_NEW_ARRAY(c->l->arena, stx_ex, STX_MAX_DIMS);
	uint32_t i;

	if (!map)
		return NULL;
	map[0] = axis(c, AXIS_N);
	map[1] = stx_ex_add(ex, stx_ex_mul(ex, axis(c, AXIS_GROUP), c->space.sizes[c->in]),
			    axis(c, c->in));
	for (i = 0; i < c->w.k; i++)
		map[2 + i] = c->at[i];
	return masked(c, x, map);
}

static struct stx__inner *place_weight(struct conv *c, struct stx__inner *wt)
{
	struct stx_exprs *ex = c->l->ex;
	stx_ex *map = STX_NEW_ARRAY(c->l->arena, stx_ex, STX_MAX_DIMS), first, second;
	uint32_t i;

	if (!map)
		return NULL;
	first = axis(c, c->transposed ? c->in : AXIS_CHANNEL);
	second = axis(c, c->transposed ? AXIS_CHANNEL : c->in);
	map[0] = stx_ex_add(ex,
			    stx_ex_mul(ex, axis(c, AXIS_GROUP),
				       c->space.sizes[c->transposed ? c->in : AXIS_CHANNEL]),
			    first);
	map[1] = second;
	for (i = 0; i < c->w.k; i++)
		map[2 + i] = axis(c, c->tap + i);
	return c->transposed ? masked(c, wt, map) : stx__inner_view(c->l->g, wt, c->space, map);
}

/* Elements of x that follow each other along dimension d do so in memory: of what it is computed
 * from first. */
static int is_contiguous(const struct conv *c, const struct stx__inner *x, uint32_t d)
{
	stx_ex coeff, rest;
	while (x->rule == STX_IN_MAP && x->nops)
		x = x->operands[0];
	return x->rule == STX_IN_LOAD && x->rank == 2 + c->w.k &&
	       stx_ex_linear_in(c->l->ex, x->u.load.ex, d, &coeff, &rest) &&
	       stx_ex_equals(c->l->ex, coeff, 1);
}

static int is_depthwise(const struct conv *c)
{
	return c->w.groups > 1 && stx_ex_equals(c->l->ex, c->space.sizes[AXIS_CHANNEL], 1) &&
	       stx_ex_equals(c->l->ex, c->space.sizes[c->in], 1);
}

/* On a GPU the result of halves is in memory with its channels next to each other: what tensor
 * cores read and write (4_schedule/convolution.c). On the CPU that of a depthwise one, whose
 * channels are vectors then, is as its input is. 1: strides of [n, group, channel, out..] and,
 * without the group, of the node's own dimensions. */
static int channels_last(const struct conv *c, const struct stx__inner *x, stx_ex *strides,
			 stx_ex *joined)
{
	struct stx_exprs *ex = c->l->ex;
	const struct stx__inner *narrow = stx__widened(x);
	enum stx_dtype t = (enum stx_dtype)(narrow ? narrow->dtype : x->dtype);
	stx_ex stride;

	if (c->l->opts->target_gpu
		    ? c->l->vals[c->n->id].is_output || (t != STX_F16 && t != STX_BF16)
		    : !is_contiguous(c, x, 1) || !is_depthwise(c))
		return 0;
	strides[AXIS_CHANNEL] = joined[1] = stx_ex_const(ex, 1);
	strides[AXIS_GROUP] = c->space.sizes[AXIS_CHANNEL];
	stride = stx_ex_mul(ex, c->space.sizes[AXIS_GROUP], c->space.sizes[AXIS_CHANNEL]);
	for (uint32_t i = c->w.k; i-- > 0;) {
		strides[AXIS_OUT + i] = joined[2 + i] = stride;
		stride = stx_ex_mul(ex, stride, c->space.sizes[AXIS_OUT + i]);
	}
	strides[AXIS_N] = joined[0] = stride;
	return 1;
}

/* A depthwise weight as a copy with its channels next to each other, as the vectors are that it is
 * multiplied by: each of its elements is read for every few pixels. */
static struct stx__inner *channels_inside(const struct conv *c, struct stx__inner *wt)
{
	struct stx_exprs *x = c->l->ex;
	uint32_t last = wt->rank - 1u;
	stx_ex *sizes = STX_NEW_ARRAY(c->l->arena, stx_ex, wt->rank);
	stx_ex *to = STX_NEW_ARRAY(c->l->arena, stx_ex, wt->rank);
	stx_ex *back = STX_NEW_ARRAY(c->l->arena, stx_ex, wt->rank);

	if (!sizes || !to || !back)
		return NULL;
	for (uint32_t i = 0; i <= last; i++) {
		sizes[i] = wt->sizes[i < last ? i + 1 : 0];
		back[i] = stx__axis(x, i < last ? i + 1 : 0, sizes[i]);
	}
	for (uint32_t i = 0; i <= last; i++)
		to[i] = stx__axis(x, i ? i - 1 : last, wt->sizes[i]);
	struct stx__shape s = { wt->rank, sizes }, own = { wt->rank, wt->sizes };
	struct stx__inner *copy = stx__inner_view(c->l->g, wt, s, to);
	copy = copy ? stx__realize_value(c->l, c->n, copy, STX_REALIZED_WANTED) : NULL;
	return copy ? stx__inner_view(c->l->g, copy, own, back) : NULL;
}

/* The buffer [n, group, channel, out..] read as the node's [n, channels, out..], whose strides are
 * given; NULL: row-major. */
static struct stx__inner *join_channels(struct conv *c, const struct stx__inner *fn,
					const stx_ex *joined)
{
	struct stx__shape s = stx__node_shape(c->n);
	stx_ex *strides = STX_NEW_ARRAY(c->l->arena, stx_ex, STX_MAX_DIMS);

	if (!fn || !strides)
		return NULL;
	stx__row_major(c->l->ex, s, strides);
	return stx__inner_load(
		c->l->g, fn->u.load.buffer, (enum stx_dtype)fn->dtype, s,
		stx__address(c->l->ex, s, joined ? joined : strides, stx_ex_const(c->l->ex, 0)));
}

struct stx__inner *stx__lower_convolution(struct stx__lower *l, const struct stx_node *n,
					  struct stx__inner *x, struct stx__inner *wt)
{
	enum stx_dtype t = n->outs[0].dtype, work = stx__work_dtype(t);
	struct stx__step mul = { .op = STX_P_MUL, .dtype = (uint8_t)work, .a = 0, .b = 1 };
	struct stx__reduction r = { .acc = work, .dtype = t };
	struct conv c = { .l = l, .n = n, .transposed = n->args[6].u.i != 0 };
	stx_err e = stx__infer_window(l->g, n, &c.w, l->d);
	stx_ex *strides;

	if (e) {
		l->err = e;
		return NULL;
	}
	if (n->args[2].kind == STX_ARG_TENSOR)
		return stx__lower_fail(l, STX_E_INTERNAL, n, "a bias that was not decomposed");
	if (!set_space(&c, wt))
		return NULL;
	set_positions(&c, x);
	r.ranges = (struct stx__shape){ (uint8_t)c.in, c.space.sizes };
	r.rranges = (struct stx__shape){ (uint8_t)(c.space.rank - c.in), c.space.sizes + c.in };
	strides = STX_NEW_ARRAY(l->arena, stx_ex, 2 * STX_MAX_DIMS);
	if (!strides)
		return NULL;
	if (channels_last(&c, x, strides, strides + STX_MAX_DIMS))
		r.strides = strides;
	if (r.strides && !l->opts->target_gpu && !is_contiguous(&c, wt, 0))
		wt = channels_inside(&c, wt);
	if (!wt)
		return NULL;
	x = place_input(&c, x);
	wt = place_weight(&c, wt);
	if (!x || !wt)
		return NULL;
	r.monoid = stx__dot_monoid(l, t);
	r.fn[0] = stx__inner_cast(l->g, x, work);
	r.fn[1] = stx__inner_cast(l->g, wt, work);
	if (r.monoid == STX_MONOID_SUM && r.fn[0] && r.fn[1]) {
		r.fn[0] = stx__inner_map(l->g, c.space, (struct stx__inner *[]){ r.fn[0], r.fn[1] },
					 2, &mul, 1);
		r.fn[1] = NULL;
	}
	if (!r.fn[0])
		return NULL;
	return join_channels(&c, stx__realize_reduction(l, n, &r, STX_REALIZED_CONTRACTION),
			     r.strides ? strides + STX_MAX_DIMS : NULL);
}

/* ---- folding ---- */

/* Element o of dimension i takes tap k of window (o + p - k*d) / s, where there is one. */
static void set_windows(const struct stx__fold *f, struct stx_exprs *x, struct stx__shape space,
			uint32_t lead, const struct stx__inner *in, stx_ex *map,
			struct stx__cond *conds, uint32_t *nconds)
{
	uint32_t i;

	for (i = 0; i < f->k; i++) {
		stx_ex o = stx__axis(x, lead + i, space.sizes[lead + i]);
		stx_ex k = stx__axis(x, lead + f->k + i, space.sizes[lead + f->k + i]);
		stx_ex stride = stx_ex_const(x, f->stride[i]), e;

		e = stx_ex_sub(x, stx_ex_addi(x, o, f->padding[i]),
			       stx_ex_muli(x, k, f->dilation[i]));
		map[lead + i] = k;
		map[lead + f->k + i] = stx_ex_floordiv(x, e, stride);
		if (f->stride[i] != 1)
			conds[(*nconds)++] = (struct stx__cond){ stx_ex_mod(x, e, stride),
								 STX_EX_BAD, stx_ex_const(x, 1) };
		conds[(*nconds)++] = (struct stx__cond){ map[lead + f->k + i], stx_ex_const(x, 0),
							 in->sizes[lead + f->k + i] };
	}
}

static struct stx__inner *lower_fold(struct stx__lower *l, const struct stx_node *n)
{
	struct stx__inner *x = stx__arg(l, n, 0), *fn[2];
	enum stx_dtype t = n->outs[0].dtype, work = stx__work_dtype(t);
	struct stx__shape out = stx__node_shape(n), space;
	stx_ex *sizes = STX_NEW_ARRAY(l->arena, stx_ex, STX_MAX_DIMS);
	stx_ex *map = STX_NEW_ARRAY(l->arena, stx_ex, STX_MAX_DIMS);
	struct stx__cond *conds = STX_NEW_ARRAY(l->arena, struct stx__cond, 2 * STX__MAX_SPATIAL);
	struct stx__piece *pieces = STX_NEW_ARRAY(l->arena, struct stx__piece, 2);
	struct stx__reduction r = { .monoid = STX_MONOID_SUM, .acc = work, .dtype = t };
	uint32_t d, nconds = 0, lead;
	struct stx__fold f;
	stx_err e = stx__infer_fold(l->g, n, &f, l->d);

	if (e)
		l->err = e;
	if (e || !x || !sizes || !map || !conds || !pieces)
		return NULL;
	lead = out.rank - f.k;
	for (d = 0; d < out.rank; d++)
		sizes[d] = out.sizes[d];
	for (d = 0; d < f.k; d++)
		sizes[out.rank + d] = stx_ex_const(l->ex, f.kernel[d]);
	space = (struct stx__shape){ (uint8_t)(out.rank + f.k), sizes };
	for (d = 0; d < lead; d++)
		map[d] = stx__axis(l->ex, d, sizes[d]);
	set_windows(&f, l->ex, space, lead, x, map, conds, &nconds);
	fn[0] = stx__inner_cast(l->g, stx__inner_view(l->g, x, space, map), work);
	fn[1] = stx__inner_const(l->g, work, space, (union stx_scalar){ .u = 0 });
	pieces[0] = (struct stx__piece){ conds, nconds };
	if (!fn[0] || !fn[1])
		return NULL;
	r.ranges = out;
	r.rranges = (struct stx__shape){ (uint8_t)f.k, sizes + out.rank };
	r.fn[0] = stx__inner_pieces(l->g, work, space, fn, pieces, 2);
	return r.fn[0] ? stx__realize_reduction(l, n, &r, STX_REALIZED_REDUCTION) : NULL;
}

struct stx__inner *stx__rule_window(struct stx__lower *l, const struct stx_node *n)
{
	if (n->op == STX_OP_FOLD)
		return lower_fold(l, n);
	return stx__lower_fail(l, STX_E_UNSUPPORTED, n, "%s has no lowering rule",
			       stx_op_info(n->op)->overload);
}
