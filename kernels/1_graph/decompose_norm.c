/* decompose_norm.c: normalisations with their statistics, and their gradients, over one view of the
 * operand: rows of statistics, channels of weights. In f32 for the half types, rounded once. */

#include "decompose.h"

#define ADD(x, y)  stx__b_two(b, STX_OP_ADD, x, y)
#define SUB(x, y)  stx__b_two(b, STX_OP_SUB, x, y)
#define MUL(x, y)  stx__b_two(b, STX_OP_MUL, x, y)
#define ADDS(x, s) stx__b_scalar(b, STX_OP_ADD_SCALAR, x, s)
#define MULS(x, s) stx__b_scalar(b, STX_OP_MUL_SCALAR, x, s)
#define DIVS(x, s) stx__b_scalar(b, STX_OP_DIV_SCALAR, x, s)

/* How an operand is seen. A bit of set: the dimension is normalised over; of batch: the gradients
 * of weights are summed over it. */
struct norm {
	uint32_t rank, set, batch;
	stx_ex sizes[4], channel[4], stats[4];
};

static void see(struct stx__build *b, struct norm *v, uint32_t rank, uint32_t set, uint32_t batch)
{
	v->rank = rank;
	v->set = set;
	v->batch = batch;
	for (uint32_t i = 0; i < rank; i++) {
		stx_ex one = stx_ex_const(b->g->ex, 1);
		v->stats[i] = set >> i & 1 ? one : v->sizes[i];
		v->channel[i] = batch >> i & 1 ? one : v->sizes[i];
	}
}

static stx_ex product(struct stx__build *b, const stx_ex *sizes, uint32_t n)
{
	stx_ex p = stx_ex_const(b->g->ex, 1);
	for (uint32_t i = 0; i < n; i++)
		p = stx_ex_mul(b->g->ex, p, sizes[i]);
	return p;
}

/* [rows, elements] */
static struct norm layer_view(struct stx__build *b, const struct stx_type *x, uint32_t inner)
{
	struct norm v;
	uint32_t outer = x->rank - inner;
	v.sizes[0] = product(b, x->sizes, outer);
	v.sizes[1] = product(b, x->sizes + outer, inner);
	see(b, &v, 2, 2, 1);
	return v;
}

/* [N, groups, channels of a group, HxW] */
static struct norm group_view(struct stx__build *b, const struct stx_type *x, stx_ex groups)
{
	struct norm v;
	v.sizes[0] = x->sizes[0];
	v.sizes[1] = groups;
	v.sizes[2] = stx_ex_floordiv(b->g->ex, x->sizes[1], groups);
	v.sizes[3] = product(b, x->sizes + 2, x->rank - 2u);
	see(b, &v, 4, 4 | 8, 1 | 8);
	return v;
}

/* [N, C, HxW] */
static struct norm batch_view(struct stx__build *b, const struct stx_type *x)
{
	struct norm v;
	v.sizes[0] = x->sizes[0];
	v.sizes[1] = x->sizes[1];
	v.sizes[2] = product(b, x->sizes + 2, x->rank - 2u);
	see(b, &v, 3, 1 | 4, 1 | 4);
	return v;
}

/* Argument i in the wide type, viewed. */
static struct stx_val seen(struct stx__build *b, const struct stx_node *n, uint32_t i,
			   uint32_t rank, const stx_ex *sizes)
{
	struct stx_val x = stx__operand(n, i);
	x = stx__b_cast(b, x, stx__wide(stx_val_type(x)->dtype));
	return stx__b_view(b, x, rank, sizes);
}

/* Rounded, in the shape of result i. */
static void result(struct stx__build *b, const struct stx_node *n, uint32_t i, struct stx_val x,
		   struct stx_val *out)
{
	const struct stx_type *t = &n->outs[i];
	out[i] = stx__b_cast(b, stx__b_view(b, x, t->rank, t->sizes), t->dtype);
}

static int count(struct stx__build *b, const struct norm *v, double *n)
{
	struct stx_type t = { .rank = (uint8_t)v->rank, .sizes = v->sizes };
	return !b->err && stx__b_count(b, &t, v->set, n);
}

struct stats {
	struct stx_val far, mean, var, rstd; /* far: the operand minus its mean */
};

static struct stats batch_stats(struct stx__build *b, const struct norm *v, struct stx_val x,
				double eps)
{
	struct stats s = { x, x, x, x };
	double n;
	if (!count(b, v, &n))
		return s;
	enum stx_dtype t = stx_val_type(x)->dtype;
	s.mean = DIVS(stx__b_sum(b, x, v->set, 1, t), n);
	s.far = SUB(x, s.mean);
	s.var = DIVS(stx__b_sum(b, MUL(s.far, s.far), v->set, 1, t), n);
	s.rstd = stx__b_one(b, STX_OP_RSQRT, ADDS(s.var, eps));
	return s;
}

/* far * rstd * weight + bias; weight is argument i, bias the next. */
static struct stx_val apply(struct stx__build *b, const struct stx_node *n, const struct norm *v,
			    const struct stats *s, uint32_t i)
{
	struct stx_val y = MUL(s->far, s->rstd);
	if (stx__arg(n, i)->kind == STX_ARG_TENSOR)
		y = MUL(y, seen(b, n, i, v->rank, v->channel));
	if (stx__arg(n, i + 1)->kind == STX_ARG_TENSOR)
		y = ADD(y, seen(b, n, i + 1, v->rank, v->channel));
	return y;
}

int stx__rule_native_norm(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *x = stx_val_type(stx__operand(n, 0));
	int layer = n->op == STX_OP_NATIVE_LAYER_NORM;
	struct norm v = layer ? layer_view(b, x, stx__arg(n, 1)->n)
			      : group_view(b, x, stx__arg(n, 6)->u.ex);
	struct stats s =
		batch_stats(b, &v, seen(b, n, 0, v.rank, v.sizes), stx__arg(n, layer ? 4 : 7)->u.f);
	result(b, n, 0, apply(b, n, &v, &s, layer ? 2 : 1), out);
	result(b, n, 1, s.mean, out);
	result(b, n, 2, s.rstd, out);
	return 0;
}

/* With g' = grad * weight and x' = (x - mean) * rstd, over the M elements of a row:
 * dx = rstd / M * (M g' - sum g' - x' sum(g' x')); dweight = sum(grad x'), dbias = sum grad. */
int stx__rule_norm_grad(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *x = stx_val_type(stx__operand(n, 1));
	int layer = n->op == STX_OP_LAYER_NORM_GRAD;
	struct norm v = layer ? layer_view(b, x, stx__arg(n, 2)->n)
			      : group_view(b, x, stx__arg(n, 8)->u.ex);
	uint32_t stats = layer ? 3 : 2, weight = layer ? 5 : 4;
	double m;
	if (!count(b, &v, &m))
		return 0;
	struct stx_val grad = seen(b, n, 0, v.rank, v.sizes), g = grad;
	struct stx_val rstd = seen(b, n, stats + 1, v.rank, v.stats);
	struct stx_val xn = SUB(seen(b, n, 1, v.rank, v.sizes), seen(b, n, stats, v.rank, v.stats));
	if (b->err)
		return 0;
	enum stx_dtype t = stx_val_type(grad)->dtype;
	xn = MUL(xn, rstd);
	if (stx__arg(n, weight)->kind == STX_ARG_TENSOR)
		g = MUL(g, seen(b, n, weight, v.rank, v.channel));
	struct stx_val s1 = stx__b_sum(b, g, v.set, 1, t);
	struct stx_val s2 = stx__b_sum(b, MUL(g, xn), v.set, 1, t);
	struct stx_val dx = SUB(SUB(MULS(g, m), s1), MUL(xn, s2));
	result(b, n, 0, MUL(DIVS(rstd, m), dx), out);
	result(b, n, 1, stx__b_sum(b, MUL(grad, xn), v.batch, 0, t), out);
	result(b, n, 2, stx__b_sum(b, grad, v.batch, 0, t), out);
	return 0;
}

/* momentum * batch + (1 - momentum) * running, running being argument i. */
static struct stx_val moved(struct stx__build *b, const struct stx_node *n, const struct norm *v,
			    uint32_t i, double momentum, struct stx_val batch)
{
	struct stx_val old = seen(b, n, i, v->rank, v->stats);
	return ADD(MULS(batch, momentum), MULS(old, 1 - momentum));
}

int stx__rule_batch_norm(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct norm v = batch_view(b, stx_val_type(stx__operand(n, 0)));
	int has_stats = n->op != STX_OP_BATCH_NORM_NO_STATS;
	int training = !has_stats || (n->op == STX_OP_BATCH_NORM_FUNCTIONAL && stx__arg(n, 5)->u.i);
	double eps = stx__arg(n, n->nargs - 1)->u.f, m = stx__arg(n, n->nargs - 2)->u.f, k;
	struct stx_val x = seen(b, n, 0, v.rank, v.sizes);
	struct stats s = { .far = x };
	if (training) {
		s = batch_stats(b, &v, x, eps);
	} else {
		s.mean = seen(b, n, 3, v.rank, v.stats);
		s.var = seen(b, n, 4, v.rank, v.stats);
		s.far = SUB(x, s.mean);
		s.rstd = stx__b_one(b, STX_OP_RSQRT, ADDS(s.var, eps));
	}
	result(b, n, 0, apply(b, n, &v, &s, 1), out);
	for (uint32_t i = 1; i < 3; i++) {
		const struct stx_type *t = &n->outs[i];
		if (training)
			result(b, n, i, i == 1 ? s.mean : s.rstd, out);
		else
			out[i] = stx__b_full(b, t->rank, t->sizes, stx_arg_scalar_f(0), t->dtype);
	}
	if (n->op != STX_OP_BATCH_NORM_FUNCTIONAL)
		return 0;
	out[3] = stx__operand(n, 3);
	out[4] = stx__operand(n, 4);
	if (training && count(b, &v, &k)) {
		result(b, n, 3, moved(b, n, &v, 3, m, s.mean), out);
		result(b, n, 4, moved(b, n, &v, 4, m, MULS(s.var, k / (k - 1))), out);
	}
	return 0;
}
