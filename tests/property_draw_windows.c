/* property_draw_windows.c: calls of convolution, pooling, unfold and scans with arguments that fit
 * their operands; of operators without a function of their own, arguments by the schema. */
#include <string.h>

#include "property_draw.h"

#define MOST_PRODUCTS 200000 /* of one convolution or pooling */

/* ---- windows ---- */

/* Between 1 and k values in [low, low + n); one value stands for every dimension. */
static struct stx_arg some_of(struct draw *q, uint32_t k, int64_t low, uint32_t n)
{
	int64_t v[3];
	for (uint32_t i = 0; i < k; i++)
		v[i] = low + rnd(q, n);
	return stx_arg_ints(q->g, v, rnd(q, 4) ? k : 1);
}

static struct stx_node *convolution(struct draw *q)
{
	enum stx_dtype t = draw_wanted_dtype(q, draw_dtype(q));
	enum prop_layout l = q->want ? q->want->layout : PROP_DENSE;
	uint32_t k = 1 + rnd(q, 3), transposed = rnd(q, 3) == 0;
	int64_t groups = rnd(q, 2) ? 1 : 1 + rnd(q, 3), per = 1 + rnd(q, 3), out = 1 + rnd(q, 3),
		xs[5], ws[5], products;
	xs[0] = l == PROP_EMPTY ? 0 : l == PROP_ONE ? 1 : rnd(q, 8) ? 1 + rnd(q, 2) : 0;
	xs[1] = groups * per;
	ws[0] = transposed ? xs[1] : groups * out;
	ws[1] = transposed ? out : per;
	products = xs[0] * groups * per * out;
	for (uint32_t i = 0; i < k; i++) {
		xs[2 + i] = k == 1 && rnd(q, 2) ? draw_size(q) : 1 + rnd(q, 9);
		ws[2 + i] = 1 + rnd(q, 3);
		products *= 4 * (xs[2 + i] + 4) * ws[2 + i];
	}
	if (products > MOST_PRODUCTS * 20)
		return NULL;
	struct stx_node *x = draw_sized(q, t, xs, (int)k + 2);
	struct stx_node *w = draw_sized(q, t, ws, (int)k + 2);
	int64_t channels = groups * out;
	struct stx_node *b = rnd(q, 2) ? draw_sized(q, t, &channels, 1) : NULL;
	if (!x || !w)
		return NULL;
	return call(q, STX_OP_CONVOLUTION,
		    ARGS(T(x), T(w), b ? T(b) : stx_arg_none(), some_of(q, k, 1, 3),
			 some_of(q, k, 0, 3), some_of(q, k, 1, 2), stx_arg_bool((int)transposed),
			 transposed && rnd(q, 2) ? some_of(q, k, 0, 2)
						 : stx_arg_ints(q->g, (int64_t[]){ 0 }, 1),
			 I(groups)));
}

static struct stx_node *pooling(struct draw *q, enum stx_op op)
{
	const struct stx_op_info *info = stx_op_info(op);
	enum stx_dtype t = draw_wanted_dtype(q, !strncmp(info->base, "avg", 3) ? draw_float_dtype(q)
									       : draw_dtype(q));
	enum prop_layout l = q->want ? q->want->layout : PROP_DENSE;
	uint32_t k = (uint32_t)(info->base[8] - '0'), lead = 1 + rnd(q, 2);
	struct stx_arg args[8];
	int64_t sizes[5];
	for (uint32_t i = 0; i < lead; i++)
		sizes[i] = 1 + rnd(q, 3);
	if (l == PROP_EMPTY || l == PROP_ONE)
		sizes[0] = l == PROP_ONE;
	for (uint32_t i = 0; i < k; i++)
		sizes[lead + i] = k == 1 && rnd(q, 2) ? draw_size(q) : 1 + rnd(q, 9);
	struct stx_node *x = draw_sized(q, t, sizes, (int)(lead + k));
	if (!x)
		return NULL;
	args[0] = T(x);
	args[1] = some_of(q, k, 1, 3);
	for (uint32_t i = 2; i < info->nparams; i++) {
		const struct stx_param *p = &info->params[i];
		args[i] = rnd(q, 3) == 0                 ? stx_arg_default()
			  : p->kind == STX_PARAM_BOOL    ? stx_arg_bool((int)rnd(q, 2))
			  : p->kind == STX_PARAM_OPT_INT ? I(1 + rnd(q, 4))
			  : !strcmp(p->name, "padding")  ? some_of(q, k, 0, 2)
							 : some_of(q, k, 1, 3);
	}
	return call(q, op, info->nparams, args);
}

static struct stx_node *unfold(struct draw *q)
{
	struct stx_node *a = draw_self(q);
	if (!a)
		return NULL;
	uint32_t d = rank_of(a) ? rnd(q, rank_of(a)) : 0;
	int64_t n = rank_of(a) ? size_of(q, a, d) : 1;
	int64_t size = rnd(q, (uint32_t)(n < 9 ? n + 1 : 9));
	return call(q, STX_OP_UNFOLD,
		    ARGS(T(a), I((int64_t)d - (rnd(q, 2) && rank_of(a) ? rank_of(a) : 0)), I(size),
			 I(1 + rnd(q, 3))));
}

struct stx_node *draw_window(struct draw *q, enum stx_op op)
{
	if (op == STX_OP_CONVOLUTION)
		return convolution(q);
	if (op == STX_OP_UNFOLD)
		return unfold(q);
	int known = !strncmp(stx_op_info(op)->base, "max_pool", 8) ||
		    !strncmp(stx_op_info(op)->base, "avg_pool", 8);
	return known ? pooling(q, op) : draw_by_schema(q, op);
}

/* ---- scans ---- */

struct stx_node *draw_scan(struct draw *q, enum stx_op op)
{
	if (op != STX_OP_CUMSUM && op != STX_OP_CUMPROD)
		return draw_by_schema(q, op);
	struct stx_node *a = draw_self(q);
	if (!a)
		return NULL;
	return call(q, op,
		    ARGS(T(a), draw_dim(q, rank_of(a)),
			 rnd(q, 3) ? stx_arg_none() : stx_arg_dtype(draw_dtype(q))));
}

/* ---- by the schema ---- */

static struct stx_arg any_list(struct draw *q, uint32_t rank)
{
	int64_t v[8];
	uint32_t n = rnd(q, rank + 2);
	for (uint32_t i = 0; i < n && i < 8; i++)
		v[i] = (int64_t)rnd(q, 6) - 1;
	return stx_arg_ints(q->g, v, n < 8 ? n : 8);
}

static struct stx_arg any_arg(struct draw *q, const struct stx_param *p, struct stx_node *a)
{
	if (p->has_default && rnd(q, 3) == 0)
		return stx_arg_default();
	switch (p->kind) {
	case STX_PARAM_OPT_TENSOR:
	case STX_PARAM_TENSOR: {
		struct stx_node *b = draw_partner(q, a);
		return b ? T(b) : stx_arg_none();
	}
	case STX_PARAM_TENSORS: {
		struct stx_val v[2] = { stx_val(draw_partner(q, a), 0), stx_val(a, 0) };
		return stx_arg_tensors(q->g, v, 1 + rnd(q, 2));
	}
	case STX_PARAM_OPT_INT: return rnd(q, 2) ? stx_arg_none() : draw_dim(q, rank_of(a));
	case STX_PARAM_INT: return draw_dim(q, rank_of(a));
	case STX_PARAM_OPT_INTS:
	case STX_PARAM_INTS: return any_list(q, rank_of(a));
	case STX_PARAM_FLOAT:
	case STX_PARAM_OPT_FLOAT: return stx_arg_float(rnd(q, 2) ? 1e-5 : 0.5);
	case STX_PARAM_BOOL: return stx_arg_bool((int)rnd(q, 2));
	case STX_PARAM_SCALAR:
	case STX_PARAM_OPT_SCALAR: return draw_scalar(q, a->outs[0].dtype);
	case STX_PARAM_OPT_DTYPE:
	case STX_PARAM_DTYPE: return stx_arg_dtype(draw_dtype(q));
	default: return stx_arg_default();
	}
}

struct stx_node *draw_by_schema(struct draw *q, enum stx_op op)
{
	const struct stx_op_info *info = stx_op_info(op);
	struct stx_node *a = draw_self(q);
	struct stx_arg args[16];
	for (int tries = 0; a && tries < 8; tries++) {
		for (uint32_t i = 0; i < info->nparams; i++)
			args[i] = i == 0 && info->params[0].kind == STX_PARAM_TENSOR
					  ? T(a)
					  : any_arg(q, &info->params[i], a);
		struct stx_node *n = call(q, op, info->nparams, args);
		if (n)
			return n;
	}
	return NULL;
}
