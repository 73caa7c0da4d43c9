/* property_draw_ops.c: calls of random operators with random arguments, one function a category of
 * ops.def. */
#include <string.h>

#include "property_draw.h"

/* ---- pointwise ---- */

/* The sign of a NaN is not defined (NUMERICS): copysign never sees one. */
static struct stx_node *without_nan(struct draw *q, struct stx_node *n)
{
	struct stx_node *nan = call(q, STX_OP_ISNAN, ARGS(T(n)));
	struct stx_node *one = call(q, STX_OP_FULL_LIKE, ARGS(T(n), stx_arg_scalar_i(1)));
	return call(q, STX_OP_WHERE, ARGS(T(nan), T(one), T(n)));
}

static struct stx_node *condition(struct draw *q, struct stx_node *a)
{
	struct stx_node *b = draw_partner(q, a);
	if (!b)
		return NULL;
	if (b->outs[0].dtype == STX_BOOL)
		return b;
	return rnd(q, 2) ? call(q, STX_OP_LOGICAL_NOT, ARGS(T(b)))
			 : call(q, STX_OP_GT_SCALAR, ARGS(T(b), stx_arg_scalar_i(0)));
}

static struct stx_arg pointwise_arg(struct draw *q, enum stx_op op, const struct stx_param *p,
				    struct stx_node *a)
{
	switch (p->kind) {
	case STX_PARAM_OPT_TENSOR:
		if (rnd(q, 3) == 0)
			return stx_arg_none();
		/* fall through */
	case STX_PARAM_TENSOR: {
		struct stx_node *b = draw_partner(q, a);
		if (b && op == STX_OP_COPYSIGN && stx_dtype_is_float(b->outs[0].dtype))
			b = without_nan(q, b);
		return b ? T(b) : stx_arg_none();
	}
	case STX_PARAM_SCALAR:
		if (!strcmp(p->name, "alpha"))
			return rnd(q, 2) ? stx_arg_default()
			       : stx_dtype_is_float(a->outs[0].dtype) && !q->whole && rnd(q, 2)
				       ? stx_arg_scalar_f(rnd(q, 100) * 0.07 - 2)
				       : stx_arg_scalar_i((int64_t)rnd(q, 7) - 3);
		return draw_scalar(q, a->outs[0].dtype);
	case STX_PARAM_OPT_SCALAR:
		return rnd(q, 3) ? draw_scalar(q, a->outs[0].dtype) : stx_arg_none();
	case STX_PARAM_OPT_STRING:
		if (rnd(q, 4) == 0)
			return stx_arg_none();
		return stx_arg_str(q->g, rnd(q, 2) ? "floor" : "trunc");
	case STX_PARAM_OPT_DTYPE: return rnd(q, 8) ? stx_arg_dtype(draw_dtype(q)) : stx_arg_none();
	default: return stx_arg_default();
	}
}

/* From integers only: the bits of a NaN are not defined (NUMERICS). */
static struct stx_node *draw_view_dtype(struct draw *q)
{
	struct stx_node *a = draw_self(q);
	if (a && stx_dtype_is_float(a->outs[0].dtype)) /* NaN keeps no defined bits */
		a = without_nan(q, a);
	return a ? call(q, STX_OP_VIEW_DTYPE, ARGS(T(a), stx_arg_dtype(draw_dtype(q)))) : NULL;
}

static struct stx_node *draw_pointwise(struct draw *q, enum stx_op op)
{
	const struct stx_op_info *info = stx_op_info(op);
	static const enum stx_dtype fall_back[] = { STX_F32, STX_I32, STX_U8,
						    STX_F16, STX_I64, STX_BOOL };
	struct stx_arg args[8];
	if (op == STX_OP_VIEW_DTYPE)
		return draw_view_dtype(q);
	struct stx_node *a = draw_self(q), *c;
	if (a && op == STX_OP_POW_BASE) /* the number comes first */
		return call(q, op, ARGS(draw_scalar(q, a->outs[0].dtype), T(a)));
	for (int k = 0; a && k < 6; k++) {
		uint32_t first = 1;
		args[0] = T(a);
		if (op == STX_OP_WHERE) {
			if (!(c = condition(q, a)))
				return NULL;
			args[0] = T(c);
			args[1] = T(a);
			first = 2;
		}
		for (uint32_t i = first; i < info->nparams; i++) {
			args[i] = pointwise_arg(q, op, &info->params[i], a);
			if (args[i].kind == STX_ARG_NONE &&
			    info->params[i].kind == STX_PARAM_TENSOR)
				return NULL;
		}
		struct stx_node *n = call(q, op, info->nparams, args);
		if (n)
			return n;
		if (!q->want)
			a = draw_as(q, a, PICK(q, fall_back));
	}
	return NULL;
}

/* ---- creation, reductions ---- */

static struct stx_node *draw_create(struct draw *q, enum stx_op op)
{
	enum stx_dtype t = draw_wanted_dtype(q, draw_dtype(q));
	int64_t sizes[3] = { q->dims[1], q->dims[2], q->dims[3] };
	uint32_t rank = rnd(q, 4);
	struct stx_node *x = draw_self(q);
	if (!x)
		return NULL;
	switch (op) {
	case STX_OP_EMPTY:
		return call(q, op,
			    ARGS(stx_arg_ints(q->g, sizes + 3 - rank, rank), stx_arg_dtype(t)));
	case STX_OP_EMPTY_STRIDED:
		return call(q, op,
			    ARGS(stx_arg_ints(q->g, sizes + 3 - rank, rank),
				 stx_arg_ints(q->g, sizes + 3 - rank, rank), stx_arg_dtype(t)));
	case STX_OP_SCALAR_TENSOR: return call(q, op, ARGS(draw_scalar(q, t), stx_arg_dtype(t)));
	case STX_OP_SYM_SIZE: return call(q, op, ARGS(T(x), I(0)));
	case STX_OP_SYM_NUMEL: return call(q, op, ARGS(T(x)));
	case STX_OP_SYM_STRIDE:
	case STX_OP_SYM_OFFSET:
		x = call(q, STX_OP_CLONE, ARGS(T(x)));
		return op == STX_OP_SYM_OFFSET ? call(q, op, ARGS(T(x)))
					       : call(q, op, ARGS(T(x), I(0)));
	default: break;
	}
	if (op == STX_OP_FULL)
		return call(q, op,
			    ARGS(stx_arg_ints(q->g, sizes + 3 - rank, rank), draw_scalar(q, t),
				 stx_arg_dtype(t)));
	if (op == STX_OP_FULL_LIKE) {
		struct stx_node *a = draw_self(q);
		t = a && rnd(q, 2) ? a->outs[0].dtype : draw_dtype(q);
		return a ? call(q, op, ARGS(T(a), draw_scalar(q, t), stx_arg_dtype(t))) : NULL;
	}
	int64_t start = (int64_t)rnd(q, 9) - 4,
		step = rnd(q, 3) ? 1 + rnd(q, 3) : -1 - (int64_t)rnd(q, 3);
	if (t == STX_BOOL && !q->want)
		t = STX_I64;
	if (stx_dtype_is_float(t) && rnd(q, 2))
		return call(q, op,
			    ARGS(stx_arg_scalar_f(start * 0.5),
				 stx_arg_scalar_f(start * 0.5 + 0.25 * q->dims[3]),
				 stx_arg_scalar_f(0.25), stx_arg_dtype(t)));
	return call(q, op,
		    ARGS(stx_arg_scalar_i(start), stx_arg_scalar_i(start + step * q->dims[3]),
			 stx_arg_scalar_i(step), stx_arg_dtype(t)));
}

struct stx_arg draw_some_dims(struct draw *q, uint32_t rank, int required)
{
	int64_t dims[8];
	uint32_t n = 0;
	if (!required && rnd(q, 6) == 0)
		return stx_arg_none();
	for (uint32_t i = 0; i < rank; i++)
		if (rnd(q, 2))
			dims[n++] = rnd(q, 2) ? i : (int64_t)i - rank;
	if (!n && rank && rnd(q, 3))
		dims[n++] = rnd(q, rank);
	return stx_arg_ints(q->g, dims, n);
}

struct stx_arg draw_dim(struct draw *q, uint32_t rank)
{
	uint32_t r = rank ? rank : 1;
	return I((int64_t)rnd(q, r) - (rnd(q, 3) ? 0 : r));
}

static struct stx_node *draw_reduce(struct draw *q, enum stx_op op)
{
	const struct stx_op_info *info = stx_op_info(op);
	int wants_float = op == STX_OP_LOGSUMEXP || op == STX_OP_MEAN || op == STX_OP_MEAN_DIM ||
			  op == STX_OP_VAR || op == STX_OP_VAR_DIM || op == STX_OP_STD ||
			  op == STX_OP_STD_DIM;
	struct stx_node *a = wants_float ? draw_self_float(q) : draw_self(q);
	struct stx_arg args[8];
	if (!a)
		return NULL;
	args[0] = T(a);
	for (uint32_t i = 1; i < info->nparams; i++) {
		const struct stx_param *p = &info->params[i];
		switch (p->kind) {
		case STX_PARAM_INT: args[i] = draw_dim(q, rank_of(a)); break;
		case STX_PARAM_OPT_INT:
			args[i] = rnd(q, 4) ? draw_dim(q, rank_of(a)) : stx_arg_none();
			break;
		case STX_PARAM_INTS:
		case STX_PARAM_OPT_INTS:
			args[i] = draw_some_dims(q, rank_of(a), p->kind == STX_PARAM_INTS);
			break;
		case STX_PARAM_BOOL: args[i] = stx_arg_bool((int)rnd(q, 2)); break;
		case STX_PARAM_OPT_SCALAR: /* correction */
			args[i] = rnd(q, 3) == 0 ? stx_arg_none()
				  : rnd(q, 2)    ? stx_arg_scalar_i(rnd(q, 4))
						 : stx_arg_scalar_f(rnd(q, 8) * 0.5);
			break;
		default: /* dtype */
			args[i] = rnd(q, 4) ? stx_arg_none()
					    : stx_arg_dtype(wants_float ? draw_float_dtype(q)
									: draw_dtype(q));
		}
	}
	return call(q, op, info->nparams, args);
}

/* ---- indirect reads, piecewise ---- */

/* An index in [low, bound): given as an input, or a computed value brought into range. */
struct stx_node *draw_index_into(struct draw *q, int64_t bound, const int64_t *sizes, int rank,
				 int negative)
{
	enum stx_dtype t = rnd(q, 3) ? STX_I64 : STX_I32;
	struct stx_node *x;
	if (bound < 1)
		return NULL;
	if (q->wild && rnd(q, 2)) /* any number at all, or one near the bounds */
		return rnd(q, 2) ? draw_input(q, t, sizes, rank, 0, 0)
				 : draw_input(q, t, sizes, rank, -bound - 2, 2 * bound + 4);
	if (rnd(q, 3) == 0) { /* not one of the candidates: its data is made for this bound */
		x = draw_input(q, t, sizes, rank, negative ? -bound : 0, bound);
		if (x && rnd(q, 2))
			q->n--;
		return x;
	}
	if (rnd(q, 4) == 0 && rank == 1) {
		x = call(q, STX_OP_ARANGE,
			 ARGS(stx_arg_scalar_i(0), stx_arg_scalar_i(sizes[0]), stx_arg_scalar_i(1),
			      stx_arg_dtype(STX_I64)));
		x = call(q, STX_OP_MUL_SCALAR, ARGS(T(x), stx_arg_scalar_i(1 + rnd(q, 3))));
	} else {
		x = draw_input(q, t, sizes, rank, 0, 0);
	}
	if (!x)
		return NULL;
	return call(q, STX_OP_REMAINDER_SCALAR, ARGS(T(x), stx_arg_scalar_i(bound)));
}

static struct stx_node *draw_index(struct draw *q, struct stx_node *a)
{
	struct stx_val list[8] = { { NULL, 0 } };
	int64_t sizes[2] = { 1 + rnd(q, 6), rnd(q, 4) ? 1 + rnd(q, 20) : q->dims[3] };
	uint32_t n = 1 + rnd(q, rank_of(a)), have = 0;
	int rank = (int)rnd(q, 3);
	for (uint32_t i = 0; i < n; i++) {
		if ((rnd(q, 2) && (have || i + 1 < n)) || !size_of(q, a, i))
			continue;
		struct stx_node *x =
			draw_index_into(q, size_of(q, a, i), sizes + 2 - rank, rank, 1);
		if (!x)
			return NULL;
		list[i] = stx_val(x, 0);
		have++;
	}
	return have ? call(q, STX_OP_INDEX, ARGS(T(a), stx_arg_tensors(q->g, list, n))) : NULL;
}

static struct stx_node *draw_indirect(struct draw *q, enum stx_op op)
{
	struct stx_node *a = NULL, *x;
	int table = op == STX_OP_EMBEDDING; /* of two dimensions; the others of one at least */
	int64_t shape[2] = { q->dims[1], q->dims[2] };
	for (int i = 0; i < 2; i++)
		if (shape[i] < 2 && q->want && q->want->layout <= PROP_OVERLAP)
			shape[i] = 2;
	if (q->want)
		a = table ? draw_self_sized(q, shape, 2) : draw_self(q);
	for (int k = 0; !q->want && k < 8 && (!a || (table ? rank_of(a) != 2 : !rank_of(a))); k++)
		a = draw_any(q);
	if (!a || (table ? rank_of(a) != 2 : !rank_of(a)))
		return NULL;
	uint32_t rank = rank_of(a), d = rank ? rnd(q, rank) : 0;
	for (uint32_t k = 1; k < rank && !size_of(q, a, d); k++)
		d = (d + 1) % rank;
	int64_t sizes[8], one = rnd(q, 4) ? 1 + rnd(q, 20) : q->dims[3];
	if (!rank)
		return NULL;
	switch (op) {
	case STX_OP_GATHER:
		for (uint32_t i = 0; i < rank; i++)
			sizes[i] = i == d ? 1 + rnd(q, 6)
					  : size_of(q, a, i) -
						    (size_of(q, a, i) > 1 && rnd(q, 3) == 0);
		x = draw_index_into(q, size_of(q, a, d), sizes, (int)rank, 0);
		return x ? call(q, op, ARGS(T(a), I(d), T(x))) : NULL;
	case STX_OP_INDEX_SELECT:
		x = draw_index_into(q, size_of(q, a, d), &one, rnd(q, 8) != 0, 0);
		return x ? call(q, op, ARGS(T(a), I(d), T(x))) : NULL;
	case STX_OP_EMBEDDING:
		sizes[0] = one;
		sizes[1] = 1 + rnd(q, 3);
		x = draw_index_into(q, size_of(q, a, 0), sizes, (int)rnd(q, 3), 0);
		return x ? call(q, op, ARGS(T(a), T(x))) : NULL;
	default: return draw_index(q, a);
	}
}

/* A tensor like a whose size along dim is another one. */
static struct stx_node *sibling(struct draw *q, struct stx_node *a, uint32_t dim, int same)
{
	int64_t sizes[8];
	for (uint32_t i = 0; i < rank_of(a); i++)
		sizes[i] = i == dim && !same ? rnd(q, 5) : size_of(q, a, i);
	for (int k = 0; k < 10; k++) {
		struct stx_node *b = draw_any(q);
		int ok = rank_of(b) == rank_of(a);
		for (uint32_t i = 0; ok && i < rank_of(a); i++)
			ok = size_of(q, b, i) == size_of(q, a, i) || (i == dim && !same);
		if (ok)
			return b;
	}
	return draw_input(q, rnd(q, 2) ? a->outs[0].dtype : draw_dtype(q), sizes, (int)rank_of(a),
			  0, 0);
}

static struct stx_node *draw_piecewise(struct draw *q, enum stx_op op)
{
	struct stx_node *a = draw_self(q);
	if (!a)
		return NULL;
	uint32_t rank = rank_of(a), d = rank ? rnd(q, rank) : 0, n = 1 + rnd(q, 3);
	struct stx_val list[4] = { stx_val(a, 0) };
	int64_t ints[16];
	switch (op) {
	case STX_OP_CAT:
	case STX_OP_STACK:
		for (uint32_t i = 1; i < n; i++) {
			struct stx_node *b = sibling(q, a, d, op == STX_OP_STACK);
			if (!b)
				return NULL;
			list[i] = stx_val(b, 0);
		}
		return call(q, op,
			    ARGS(stx_arg_tensors(q->g, list, n),
				 op == STX_OP_CAT ? I((int64_t)d - (rnd(q, 3) ? 0 : rank))
						  : draw_dim(q, rank + 1)));
	case STX_OP_PAD:
		n = 2 * rnd(q, rank + 1);
		for (uint32_t i = 0; i < n; i++)
			ints[i] = (int64_t)rnd(q, 5) - 1;
		return call(
			q, op,
			ARGS(T(a), stx_arg_ints(q->g, ints, n), draw_scalar(q, a->outs[0].dtype)));
	case STX_OP_COPY:
	case STX_OP_FILL_TENSOR: {
		struct stx_node *b = op == STX_OP_COPY
					     ? draw_partner(q, a)
					     : draw_input(q, draw_dtype(q), NULL, 0, 0, 0);
		return b ? call(q, op, ARGS(T(a), T(b))) : NULL;
	}
	case STX_OP_FILL: return call(q, op, ARGS(T(a), draw_scalar(q, a->outs[0].dtype)));
	case STX_OP_REPEAT:
		n = rank + rnd(q, 2);
		for (uint32_t i = 0; i < n; i++)
			ints[i] = rnd(q, 10) ? 1 + rnd(q, 2) : 0;
		return call(q, op, ARGS(T(a), stx_arg_ints(q->g, ints, n)));
	default: /* tril, triu */ return call(q, op, ARGS(T(a), I((int64_t)rnd(q, 7) - 3)));
	}
}

/* ---- products, composites ---- */

struct stx_node *draw_sized(struct draw *q, enum stx_dtype t, const int64_t *sizes, int rank)
{
	struct stx_node *self = draw_self_sized(q, sizes, rank);
	if (self)
		return self;
	for (int k = 0; k < 12; k++) {
		struct stx_node *b = draw_any(q);
		int ok = rank_of(b) == (uint32_t)rank;
		for (int i = 0; ok && i < rank; i++)
			ok = size_of(q, b, (uint32_t)i) == sizes[i];
		if (ok && b->outs[0].dtype != STX_BOOL)
			return draw_as(q, b, t);
	}
	return draw_input(q, t, sizes, rank, 0, 0);
}

static struct stx_node *draw_contract(struct draw *q, enum stx_op op)
{
	enum stx_dtype t = draw_wanted_dtype(q, rnd(q, 4)   ? draw_float_dtype(q)
						: rnd(q, 2) ? STX_I32
							    : STX_I64);
	int64_t m = q->dims[1], k = q->dims[2], n = q->dims[3], b = 1 + rnd(q, 3);
	if (m * k > q->most_elems || k * n > q->most_elems || m * n > q->most_elems ||
	    m * n * k > 400000)
		return NULL;
	if (op == STX_OP_BMM) {
		struct stx_node *x = draw_sized(q, t, (int64_t[]){ b, m, k }, 3);
		struct stx_node *y = draw_sized(q, t, (int64_t[]){ b, k, n }, 3);
		return x && y ? call(q, op, ARGS(T(x), T(y))) : NULL;
	}
	if (op == STX_OP_MATMUL) {
		int ra = 1 + (int)rnd(q, 4), rb = 1 + (int)rnd(q, 4);
		const int64_t sa[4] = { rnd(q, 2) ? 2 : 1, rnd(q, 2) ? b : 1, m, k },
			      sb[4] = { 2, b, k, n };
		struct stx_node *x = draw_sized(q, t, sa + 4 - ra, ra);
		struct stx_node *y = draw_sized(q, t, rb == 1 ? &k : sb + 4 - rb, rb);
		return x && y ? call(q, op, ARGS(T(x), T(y))) : NULL;
	}
	const int64_t sc[2] = { rnd(q, 2) ? m : 1, rnd(q, 3) ? n : 1 };
	int rc = (int)rnd(q, 3);
	struct stx_node *c = op == STX_OP_ADDMM ? draw_sized(q, t, sc + 2 - rc, rc) : NULL;
	struct stx_node *x = draw_sized(q, t, (int64_t[]){ m, k }, 2);
	struct stx_node *y = draw_sized(q, t, (int64_t[]){ k, n }, 2);
	if (!x || !y)
		return NULL;
	if (op == STX_OP_MM)
		return call(q, op, ARGS(T(x), T(y)));
	int whole = q->whole || !stx_dtype_is_float(t) || rnd(q, 2);
	struct stx_arg beta =
		whole ? stx_arg_scalar_i(rnd(q, 4)) : stx_arg_scalar_f(rnd(q, 10) * 0.3 - 1);
	struct stx_arg alpha = whole ? stx_arg_scalar_i((int64_t)rnd(q, 4) - 1)
				     : stx_arg_scalar_f(rnd(q, 10) * 0.3 - 1);
	return c ? call(q, op, ARGS(T(c), T(x), T(y), beta, alpha)) : NULL;
}

static struct stx_node *draw_linear(struct draw *q)
{
	enum stx_dtype t = draw_wanted_dtype(q, draw_float_dtype(q));
	int64_t in = q->dims[2], out = q->dims[3], sx[3] = { 1 + rnd(q, 3), q->dims[1], in },
		sw[2] = { out, in };
	int rank = 1 + (int)rnd(q, 3);
	if (sx[0] * sx[1] * in * out > 400000 || in * out > q->most_elems ||
	    sx[0] * sx[1] * in > q->most_elems)
		return NULL;
	struct stx_node *x = draw_sized(q, t, sx + 3 - rank, rank), *w = draw_sized(q, t, sw, 2);
	struct stx_node *b = rnd(q, 3) ? draw_sized(q, t, &out, 1) : NULL;
	return x && w ? call(q, STX_OP_LINEAR, ARGS(T(x), T(w), b ? T(b) : stx_arg_none())) : NULL;
}

static struct stx_node *draw_layer_norm(struct draw *q, struct stx_node *x)
{
	int64_t sizes[8];
	uint32_t rank = rank_of(x), k = rank ? 1 + rnd(q, rank) : 0;
	if (!k)
		return NULL;
	for (uint32_t i = 0; i < k; i++)
		sizes[i] = size_of(q, x, rank - k + i);
	struct stx_node *w = rnd(q, 3) ? draw_sized(q, x->outs[0].dtype, sizes, (int)k) : NULL;
	struct stx_node *b = rnd(q, 3) ? draw_sized(q, x->outs[0].dtype, sizes, (int)k) : NULL;
	return call(q, STX_OP_LAYER_NORM,
		    ARGS(T(x), stx_arg_ints(q->g, sizes, k), w ? T(w) : stx_arg_none(),
			 b ? T(b) : stx_arg_none(), stx_arg_float(rnd(q, 2) ? 1e-5 : 0.1)));
}

static struct stx_node *draw_composite(struct draw *q, enum stx_op op)
{
	const struct stx_op_info *info = stx_op_info(op);
	struct stx_arg args[8];
	if (op == STX_OP_LINEAR)
		return draw_linear(q);
	if (op == STX_OP_SDPA)
		return draw_attention(q);
	struct stx_node *x = op == STX_OP_HARDTANH ? draw_self(q) : draw_self_float(q);
	if (!x)
		return NULL;
	if (op == STX_OP_LAYER_NORM)
		return draw_layer_norm(q, x);
	args[0] = T(x);
	for (uint32_t i = 1; i < info->nparams; i++) {
		switch (info->params[i].kind) {
		case STX_PARAM_INT: args[i] = draw_dim(q, rank_of(x)); break;
		case STX_PARAM_BOOL: /* half_to_float */
			args[i] = stx_arg_bool(x->outs[0].dtype == STX_F16 && rnd(q, 2));
			break;
		case STX_PARAM_STRING:
			args[i] = stx_arg_str(q->g, rnd(q, 2) ? "none" : "tanh");
			break;
		case STX_PARAM_TENSOR: { /* what a gradient is of */
			struct stx_node *y = rnd(q, 2) ? draw_self_float(q) : x;
			args[i] = T(y ? y : x);
			break;
		}
		case STX_PARAM_SCALAR:
			args[i] = rnd(q, 2) ? stx_arg_default()
					    : stx_arg_scalar_f((1 + rnd(q, 8)) * 0.3);
			break;
		default: args[i] = rnd(q, 3) ? stx_arg_none() : stx_arg_dtype(draw_float_dtype(q));
		}
	}
	return call(q, op, info->nparams, args);
}

static int is_sort(enum stx_op op)
{
	return op >= STX_OP_ARGSORT_STABLE && op <= STX_OP_MEDIAN_DIM;
}

/* Sorts and what is picked from them. */
static struct stx_node *draw_sort(struct draw *q, enum stx_op op)
{
	const struct stx_op_info *info = stx_op_info(op);
	struct stx_node *a = draw_self(q);
	if (!a)
		return NULL;
	uint32_t rank = rank_of(a), dim = rank ? rnd(q, rank) : 0;
	int64_t size = rank ? size_of(q, a, dim) : 1;
	struct stx_arg args[8];
	args[0] = T(a);
	for (uint32_t i = 1; i < info->nparams; i++) {
		const char *name = info->params[i].name;
		if (!strcmp(name, "k"))
			args[i] = I(rnd(q, (uint32_t)(size < 40 ? size + 1 : 40)));
		else if (info->params[i].kind == STX_PARAM_INT)
			args[i] = I((int64_t)dim - (rank && rnd(q, 3) == 0 ? rank : 0));
		else
			args[i] = stx_arg_bool((int)rnd(q, 2));
	}
	return call(q, op, info->nparams, args);
}

/* Draws of random numbers: sizes, state and stream; the rest by kind. */
static struct stx_node *draw_random(struct draw *q, enum stx_op op)
{
	const struct stx_op_info *info = stx_op_info(op);
	const int64_t sizes[3] = { q->dims[1], q->dims[2], q->dims[3] }, two = 2;
	uint32_t rank = rnd(q, 4);
	struct stx_arg args[8];
	for (uint32_t i = 0; i < info->nparams; i++) {
		const char *name = info->params[i].name;
		struct stx_node *x;
		switch (info->params[i].kind) {
		case STX_PARAM_TENSOR:
			if (!(x = draw_self_float(q)))
				return NULL;
			args[i] = T(x);
			break;
		case STX_PARAM_OPT_TENSOR: /* state */
			x = rnd(q, 3) == 0 ? draw_input(q, STX_I64, &two, 1, 0, 0) : NULL;
			args[i] = x ? T(x) : stx_arg_none();
			break;
		case STX_PARAM_INTS: args[i] = stx_arg_ints(q->g, sizes + 3 - rank, rank); break;
		case STX_PARAM_INT:
			args[i] = I(!strcmp(name, "low") ? -(int64_t)rnd(q, 9)
				    : !strcmp(name, "n") ? q->dims[3]
							 : 1 + (int64_t)rnd(q, 100));
			break;
		case STX_PARAM_OPT_INT:
			args[i] = rnd(q, 2) ? stx_arg_none() : I(rnd(q, 1000));
			break;
		case STX_PARAM_FLOAT: args[i] = stx_arg_float(rnd(q, 5) * 0.25); break;
		case STX_PARAM_BOOL: args[i] = stx_arg_bool((int)rnd(q, 2)); break;
		default:
			args[i] = stx_arg_dtype(q->want && info->params[0].kind != STX_PARAM_TENSOR
							? q->want->dtype
							: draw_float_dtype(q));
		}
	}
	return call(q, op, info->nparams, args);
}

struct stx_node *draw_call(struct draw *q, enum stx_op op)
{
	if (prop_is_apart(op))
		return NULL;
	if (op == STX_OP_CONVOLUTION || op == STX_OP_UNFOLD)
		return draw_window(q, op);
	if (draw_is_resampling(op))
		return draw_resampling(q, op);
	switch (stx_op_info(op)->category) {
	case STX_CAT_POINTWISE: return draw_pointwise(q, op);
	case STX_CAT_CREATE: return draw_create(q, op);
	case STX_CAT_REDUCE: return draw_reduce(q, op);
	case STX_CAT_VIEW: return draw_view(q, op);
	case STX_CAT_INDIRECT: return draw_indirect(q, op);
	case STX_CAT_SCATTER: return draw_scatter(q, op);
	case STX_CAT_PIECEWISE: return draw_piecewise(q, op);
	case STX_CAT_CONTRACT: return draw_contract(q, op);
	case STX_CAT_COMPOSITE: return draw_composite(q, op);
	case STX_CAT_WINDOW: return draw_window(q, op);
	case STX_CAT_RANDOM: return q->whole ? NULL : draw_random(q, op);
	case STX_CAT_SCAN: return is_sort(op) ? draw_sort(q, op) : draw_scan(q, op);
	case STX_CAT_INPUT: return NULL;
	default: return draw_by_schema(q, op);
	}
}
