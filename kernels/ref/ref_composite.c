/* ref_composite.c: composite operators as one: f32 inside (f64 for f64), one rounding at the end.
 * The formulas are PyTorch's; sums inside are compensated. */
#include "ref_internal.h"

#include <math.h>
#include <string.h>

struct inside { /* arithmetic in f32 or f64: every result rounded there */
	enum stx_dtype t;
	int is_short; /* the result is f16 or bf16: exp and sigmoid are the shorter ones */
	const struct stx_elem_program *exp, *expm1, *log, *log1pexp, *erf, *tanh;
	const struct stx_elem_program *sigmoid, *normal_erf;   /* short_sigmoid, or near_* */
	const struct stx_elem_program *cdf, *slope, *softplus; /* short_*: is_short only */
};

static double rd(const struct inside *c, double v)
{
	return c->t == STX_F64 ? v : (float)v;
}

static double fn(const struct stx_elem_program *p, double x)
{
	union stx_scalar v = { .f = x };

	return stx_elementary_eval(p, v, v).f;
}

static stx_err inside_make(struct stx__ref *r, const struct stx_node *n, struct inside *c)
{
	c->t = stx__ref_work(n->outs[0].dtype);
	c->is_short = stx_elementary_is_short(n->outs[0].dtype);
	c->exp = stx__ref_program(r, c->is_short ? STX_P_SHORT_EXP : STX_P_EXP, c->t);
	c->expm1 = stx__ref_program(r, STX_P_EXPM1, c->t);
	c->log = stx__ref_program(r, STX_P_LOG, c->t);
	c->log1pexp = stx__ref_program(r, STX_P_SOFTPLUS, c->t);
	c->erf = stx__ref_program(r, STX_P_ERF, c->t);
	c->tanh = stx__ref_program(r, STX_P_TANH, c->t);
	c->sigmoid =
		stx__ref_program(r, c->is_short ? STX_P_SHORT_SIGMOID : STX_P_NEAR_SIGMOID, c->t);
	c->normal_erf = stx__ref_program(r, STX_P_NEAR_ERF, c->t);
	c->softplus = stx__ref_program(r, STX_P_SHORT_SOFTPLUS, c->t);
	c->cdf = stx__ref_program(r, STX_P_SHORT_CDF, c->t);
	c->slope = stx__ref_program(r, STX_P_SHORT_SLOPE, c->t);
	if (!c->exp || !c->expm1 || !c->log || !c->log1pexp || !c->erf || !c->tanh || !c->sigmoid ||
	    !c->normal_erf || !c->softplus || !c->cdf || !c->slope)
		return stx__ref_fail(r, n, STX_E_NOMEM, "out of memory");
	return 0;
}

/* ---- activations ---- */

/* 1/(1 + e^-2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
static double gelu_sigmoid(const struct inside *c, double x)
{
	double k = rd(c, 2 * 0.7978845608028654), k3 = rd(c, 2 * 0.7978845608028654 * 0.044715);

	return fn(c->sigmoid, rd(c, x * rd(c, rd(c, rd(c, x * x) * k3) + k)));
}

static double gelu(const struct inside *c, const struct stx_node *n, double x)
{
	if (!strcmp(n->args[1].u.str, "tanh"))
		return rd(c, x * gelu_sigmoid(c, x));
	if (c->is_short)
		return rd(c, x * fn(c->cdf, x));
	return rd(c, rd(c, 0.5 * x) * rd(c, 1 + fn(c->normal_erf, x)));
}

/* s (1 + x (1 - s) 2u') */
static double gelu_tanh_slope(const struct inside *c, double x)
{
	double s = gelu_sigmoid(c, x), k = rd(c, 2 * 0.7978845608028654);
	double du = rd(c, rd(c, x * x) * rd(c, 6 * 0.7978845608028654 * 0.044715));

	return rd(c, s * rd(c, rd(c, rd(c, x * rd(c, 1 - s)) * rd(c, du + k)) + 1));
}

static double gelu_slope(const struct inside *c, const struct stx_node *n, double x)
{
	double cdf, p;

	if (!strcmp(n->args[2].u.str, "tanh"))
		return gelu_tanh_slope(c, x);
	if (c->is_short)
		return fn(c->slope, x);
	cdf = rd(c, 0.5 * rd(c, 1 + fn(c->erf, rd(c, x * rd(c, 0.7071067811865476)))));
	p = rd(c, fn(c->exp, rd(c, -0.5 * rd(c, x * x))) * rd(c, 0.3989422804014327));
	return rd(c, cdf + rd(c, x * p));
}

static double number(const struct inside *c, const struct stx_node *n, uint32_t i)
{
	return rd(c, stx__ref_scalar_f(&n->args[i]));
}

static double softplus(const struct inside *c, const struct stx_elem_program *log1pexp, double x,
		       double beta, double threshold)
{
	double z = rd(c, x * beta);

	return z > threshold ? x : rd(c, fn(log1pexp, z) / beta);
}

static double clamp(const struct inside *c, double x, double lo, double hi)
{
	union stx_scalar v = { .f = x }, a = { .f = lo }, b = { .f = hi };

	v = stx_prim_eval(STX_P_MAX, c->t, c->t, v, a, a);
	return stx_prim_eval(STX_P_MIN, c->t, c->t, v, b, b).f;
}

static double activation(const struct inside *c, const struct stx_node *n, double x)
{
	switch (n->op) {
	case STX_OP_GELU: return gelu(c, n, x);
	case STX_OP_GELU_BACKWARD: return gelu_slope(c, n, x);
	case STX_OP_LEAKY_RELU: return x > 0 ? x : rd(c, x * number(c, n, 1));
	case STX_OP_ELU: /* alpha, scale, input_scale */
		if (x > 0)
			return rd(c, x * number(c, n, 2));
		return rd(c, fn(c->expm1, rd(c, x * number(c, n, 3))) *
				     rd(c, stx__ref_scalar_f(&n->args[1]) *
						   stx__ref_scalar_f(&n->args[2])));
	case STX_OP_SOFTPLUS:
		return softplus(c, c->is_short ? c->softplus : c->log1pexp, x, number(c, n, 1),
				number(c, n, 2));
	case STX_OP_MISH: return rd(c, x * fn(c->tanh, softplus(c, c->log1pexp, x, 1, 20)));
	case STX_OP_HARDTANH: return clamp(c, x, number(c, n, 1), number(c, n, 2));
	case STX_OP_HARDSIGMOID: return rd(c, clamp(c, rd(c, x + 3), 0, 6) / 6);
	case STX_OP_HARDSWISH: return rd(c, rd(c, x * clamp(c, rd(c, x + 3), 0, 6)) / 6);
	default: /* silu */ return rd(c, x * fn(c->sigmoid, x));
	}
}

static double wide_at(const struct inside *c, const struct stx_tensor *x, int64_t off)
{
	return stx__ref_cast(c->t, (enum stx_dtype)x->dtype, stx__ref_load(x, off)).f;
}

/* Of the first operand; a gradient is the first one, times the slope at the second. */
/* hardtanh of integers. */
static stx_err clamp_integers(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	struct stx_tensor *out = stx__ref_result(r, n);
	enum stx_dtype t = n->outs[0].dtype;
	union stx_scalar lo = stx__ref_scalar(&n->args[1], t), hi = stx__ref_scalar(&n->args[2], t);
	int is_signed = stx_dtype_kind(t) == STX_KIND_INT;
	struct stx__ref_walk w;

	if (!out)
		return stx__ref_error(r);
	stx__ref_walk_start(&w, out->rank, out->sizes);
	stx__ref_walk_broadcast(&w, x);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		union stx_scalar v = stx__ref_load(x, w.off[0]);

		if (is_signed ? v.i < lo.i : v.u < lo.u)
			v = lo;
		stx__ref_store(out, i, (is_signed ? v.i > hi.i : v.u > hi.u) ? hi : v);
	}
	return 0;
}

stx_err stx__ref_activation(struct stx__ref *r, const struct stx_node *n)
{
	int back = n->op == STX_OP_GELU_BACKWARD;
	const struct stx_tensor *x = stx__ref_arg(r, n, back), *dy = stx__ref_arg(r, n, 0);
	struct stx_tensor *out;
	struct stx__ref_walk w;
	struct inside c;
	stx_err e;

	if (!stx_dtype_is_float(n->outs[0].dtype))
		return clamp_integers(r, n);
	e = inside_make(r, n, &c);
	if (e)
		return e;
	out = stx__ref_result(r, n);
	if (!out)
		return stx__ref_error(r);
	stx__ref_walk_start(&w, out->rank, out->sizes);
	stx__ref_walk_broadcast(&w, x);
	stx__ref_walk_broadcast(&w, dy);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		double v = activation(&c, n, wide_at(&c, x, w.off[0]));

		if (back)
			v = rd(&c, wide_at(&c, dy, w.off[1]) * v);
		stx__ref_store(out, i,
			       (union stx_scalar){ .f = stx_scalar_round(n->outs[0].dtype, v) });
	}
	return 0;
}

/* ---- softmax ---- */

/* Element as softmax sees it: dtype= converts first. */
static double softmax_in(const struct stx_node *n, const struct stx_tensor *x, int64_t off)
{
	return stx__ref_cast(n->outs[0].dtype, (enum stx_dtype)x->dtype, stx__ref_load(x, off)).f;
}

static union stx_scalar max_of(enum stx_dtype t, union stx_scalar a, union stx_scalar b)
{
	return stx_prim_eval(STX_P_MAX, t, t, a, b, b);
}

/* One row: count elements of x from xo with stride xs. -inf everywhere gives NaN, as plain softmax
 * does (B07). */
static void softmax_row(const struct inside *c, const struct stx_node *n,
			const struct stx_tensor *x, int64_t xo, int64_t xs, struct stx_tensor *out,
			int64_t oo, int64_t os, int64_t count)
{
	union stx_scalar top = { .f = -INFINITY };
	struct stx__ref_sum s = { 0, 0 };
	int log = n->op == STX_OP_LOG_SOFTMAX || n->op == STX_OP_LOG_SOFTMAX_INT;
	double total;

	for (int64_t i = 0; i < count; i++)
		top = max_of(c->t, top, (union stx_scalar){ .f = softmax_in(n, x, xo + i * xs) });
	if (n->op == STX_OP_SAFE_SOFTMAX && count && top.f == -INFINITY) {
		for (int64_t i = 0; i < count; i++)
			stx__ref_store(out, oo + i * os, (union stx_scalar){ .f = 0 });
		return;
	}
	for (int64_t i = 0; i < count; i++)
		stx__ref_sum_add(&s, fn(c->exp, rd(c, softmax_in(n, x, xo + i * xs) - top.f)));
	total = stx__ref_round_wide(c->t, stx__ref_sum_value(&s));
	for (int64_t i = 0; i < count; i++) {
		double d = rd(c, softmax_in(n, x, xo + i * xs) - top.f);
		double v = log           ? rd(c, d - fn(c->log, total))
			   : c->is_short ? rd(c, fn(c->exp, d) * rd(c, 1 / total))
					 : rd(c, fn(c->exp, d) / total);

		stx__ref_store(out, oo + i * os,
			       (union stx_scalar){ .f = stx_scalar_round(n->outs[0].dtype, v) });
	}
}

stx_err stx__ref_softmax(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	struct stx_tensor *out;
	struct stx__ref_walk w;
	int64_t sizes[STX_MAX_DIMS];
	struct inside c;
	uint32_t d;
	stx_err e = stx__ref_dim(r, n, n->args[1].u.ex, x->rank, &d);

	if (!e)
		e = inside_make(r, n, &c);
	if (e)
		return e;
	out = stx__ref_result(r, n);
	if (!out)
		return stx__ref_error(r);
	memcpy(sizes, x->sizes, sizeof sizes);
	if (x->rank)
		sizes[d] = x->sizes[d] ? 1 : 0;
	stx__ref_walk_start(&w, x->rank, sizes);
	stx__ref_walk_add(&w, x->strides, x->offset);
	for (stx__ref_walk_add(&w, out->strides, 0); w.left > 0; stx__ref_walk_next(&w))
		softmax_row(&c, n, x, w.off[0], x->rank ? x->strides[d] : 0, out, w.off[1],
			    x->rank ? out->strides[d] : 0, x->rank ? x->sizes[d] : 1);
	return 0;
}

/* ---- layer norm ---- */

struct moments {
	double mean, rstd;
};

/* Mean and 1/sqrt(var + eps) of the elements a walk visits. */
static struct moments moments_of(const struct inside *c, const struct stx_tensor *x,
				 struct stx__ref_walk w, double eps)
{
	struct stx__ref_walk again = w;
	struct stx__ref_sum s = { 0, 0 }, q = { 0, 0 };
	long double count = (long double)w.left, mean;

	for (; w.left > 0; stx__ref_walk_next(&w))
		stx__ref_sum_add(&s, stx__ref_load(x, w.off[0]).f);
	mean = stx__ref_sum_value(&s) / count;
	for (w = again; w.left > 0; stx__ref_walk_next(&w)) {
		long double d = stx__ref_load(x, w.off[0]).f - mean;

		stx__ref_sum_add(&q, d * d);
	}
	return (struct moments){ stx__ref_round_wide(c->t, mean),
				 stx__ref_round_wide(
					 c->t, 1 / sqrtl(stx__ref_sum_value(&q) / count + eps)) };
}

stx_err stx__ref_layer_norm(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0), *wt = stx__ref_arg(r, n, 2),
				*bias = stx__ref_arg(r, n, 3);
	struct stx_tensor *out = stx__ref_result(r, n);
	struct inside c = { .t = stx__ref_work((enum stx_dtype)x->dtype) };
	uint32_t inner = n->args[1].n, outer = x->rank - inner;
	struct stx__ref_walk rows, w;

	if (!out)
		return stx__ref_error(r);
	stx__ref_walk_start(&rows, outer, x->sizes);
	stx__ref_walk_add(&rows, x->strides, x->offset);
	stx__ref_walk_add(&rows, out->strides, 0);
	for (; rows.left > 0; stx__ref_walk_next(&rows)) {
		struct moments m;
		uint32_t iw = 0, ib = 0;

		stx__ref_walk_start(&w, inner, x->sizes + outer);
		stx__ref_walk_add(&w, x->strides + outer, rows.off[0]);
		m = moments_of(&c, x, w, n->args[4].u.f);
		stx__ref_walk_add(&w, out->strides + outer, rows.off[1]);
		if (wt)
			iw = stx__ref_walk_broadcast(&w, wt);
		if (bias)
			ib = stx__ref_walk_broadcast(&w, bias);
		for (; w.left > 0; stx__ref_walk_next(&w)) {
			double v = rd(&c, rd(&c, stx__ref_load(x, w.off[0]).f - m.mean) * m.rstd);

			if (wt)
				v = rd(&c, v * stx__ref_load(wt, w.off[iw]).f);
			if (bias)
				v = rd(&c, v + stx__ref_load(bias, w.off[ib]).f);
			stx__ref_store(
				out, w.off[1],
				(union stx_scalar){ .f = stx_scalar_round(n->outs[0].dtype, v) });
		}
	}
	return 0;
}
