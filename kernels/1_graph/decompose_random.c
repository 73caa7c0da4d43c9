/* decompose_random.c: random operators from rand, randn and 64 random bits. Each keeps the state
 * and stream of the node it replaces, so that a graph draws the same numbers before and after. */
#include <string.h>

#include "decompose.h"
#include "infer.h"

static const struct stx_arg *named(const struct stx_node *n, const char *name)
{
	const struct stx_op_info *info = stx_op_info(n->op);
	for (uint32_t i = 0; i < info->nparams; i++)
		if (!strcmp(info->params[i].name, name))
			return &n->args[i];
	return NULL;
}

/* rand or randn of n's first result's shape. */
static struct stx_val draw(struct stx__build *b, const struct stx_node *n, enum stx_op op,
			   enum stx_dtype t)
{
	const struct stx_type *o = &n->outs[0];
	struct stx_arg a[] = { stx_arg_exs(b->g, o->sizes, o->rank), stx_arg_dtype(t),
			       *named(n, "state"), *named(n, "stream") };
	return stx__b_call(b, op, 4, a);
}

static struct stx_val bits(struct stx__build *b, const struct stx_node *n)
{
	const struct stx_type *o = &n->outs[0];
	struct stx_arg a[] = { stx_arg_exs(b->g, o->sizes, o->rank), *named(n, "state"),
			       *named(n, "stream") };
	return stx__b_call(b, STX_OP_RANDOM_BITS, 3, a);
}

int stx__rule_random_like(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	out[0] = draw(b, n, n->op == STX_OP_RAND_LIKE ? STX_OP_RAND : STX_OP_RANDN,
		      n->outs[0].dtype);
	return 0;
}

/* x * (to - from) + from; x * std + mean: in the wide type, rounded once. */
int stx__rule_random_scaled(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	int is_uniform = n->op == STX_OP_UNIFORM;
	double from = stx__number(named(n, is_uniform ? "from" : "mean"));
	double by = stx__number(named(n, is_uniform ? "to" : "std")) - (is_uniform ? from : 0);
	enum stx_dtype t = n->outs[0].dtype;
	struct stx_val x = draw(b, n, is_uniform ? STX_OP_RAND : STX_OP_RANDN, t);
	x = stx__b_scalar(b, STX_OP_MUL_SCALAR, stx__b_cast(b, x, stx__wide(t)), by);
	out[0] = stx__b_cast(b, stx__b_scalar(b, STX_OP_ADD_SCALAR, x, from), t);
	return 0;
}

/* 1 where a uniform number is less than p, or than the operand's element. */
int stx__rule_bernoulli(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	enum stx_dtype wide = stx__wide(n->outs[0].dtype);
	struct stx_val u = draw(b, n, STX_OP_RAND, wide), hit;
	if (n->op == STX_OP_BERNOULLI_P)
		hit = stx__b_scalar(b, STX_OP_LT_SCALAR, u, stx__arg(n, 1)->u.f);
	else
		hit = stx__b_two(b, STX_OP_LT, u, stx__b_cast(b, stx__operand(n, 0), wide));
	out[0] = stx__b_cast(b, hit, n->outs[0].dtype);
	return 0;
}

/* x * mask / (1 - p), as PyTorch: an infinity that is dropped becomes NaN. Not training, or p of 0:
 * the operand and a mask of ones. */
int stx__rule_dropout(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *o = &n->outs[0];
	double keep = 1 - stx__arg(n, 1)->u.f;
	enum stx_dtype wide = stx__wide(o->dtype);
	if (!stx__arg(n, 2)->u.i || keep == 1) {
		out[0] = stx__operand(n, 0);
		out[1] = stx__b_full(b, o->rank, o->sizes, stx_arg_scalar_i(1), STX_BOOL);
		return 0;
	}
	struct stx_val u = draw(b, n, STX_OP_RAND, STX_F32);
	out[1] = stx__b_scalar(b, STX_OP_LT_SCALAR, u, keep);
	struct stx_val x = stx__b_cast(b, stx__operand(n, 0), wide);
	x = stx__b_two(b, STX_OP_MUL, x, stx__b_cast(b, out[1], wide));
	x = stx__b_scalar(b, STX_OP_MUL_SCALAR, x, keep > 0 ? 1 / keep : 0);
	out[0] = stx__b_cast(b, x, o->dtype);
	return 0;
}

/* low + the remainder of 63 random bits by high - low. */
int stx__rule_randint(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_arg *l = named(n, "low");
	int64_t low = 0, high = 1;
	if (l)
		stx_ex_is_const(b->g->ex, l->u.ex, &low);
	stx_ex_is_const(b->g->ex, named(n, "high")->u.ex, &high);
	struct stx_val mask = stx__b_full(b, 0, NULL, stx_arg_scalar_i(INT64_MAX), STX_I64);
	struct stx_val x = stx__b_two(b, STX_OP_BITWISE_AND, bits(b, n), mask);
	x = stx__b_number(b, STX_OP_REMAINDER_SCALAR, x, stx_arg_scalar_i(high - low));
	x = stx__b_number(b, STX_OP_ADD_SCALAR, x, stx_arg_scalar_i(low));
	out[0] = stx__b_cast(b, x, n->outs[0].dtype);
	return 0;
}

/* The stable order of n random numbers. */
int stx__rule_randperm(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_arg a[] = { stx_arg_tensor(bits(b, n)), stx_arg_bool(1), stx_arg_int(b->g, 0),
			       stx_arg_bool(0) };
	out[0] = stx__b_cast(b, stx__b_call(b, STX_OP_ARGSORT_STABLE, 4, a), n->outs[0].dtype);
	return 0;
}
