/* onnx_training.c: one step of an optimiser over several tensors (ai.onnx.preview.training 1). */
#include "onnx_import.h"

#include <string.h>

struct step {          /* what every optimiser gets */
	V rate, count; /* R; T as R's type */
	unsigned n;    /* tensors */
	int states;    /* a tensor */
};

static V number(struct onnx *c, V like, double v)
{
	return onnx_number(c, v, onnx_dtype(like));
}

static V times(struct onnx *c, V a, double k)
{
	return onnx_mul(c, a, number(c, a, k));
}

static stx_err start(struct onnx *c, int states, struct step *s)
{
	size_t n = c->n->n_input;
	s->rate = onnx_in(c, 0);
	s->count = onnx_cast(c, onnx_in(c, 1), onnx_dtype(s->rate));
	s->states = states;
	if (!c->err && (n < 2 || (n - 2) % (size_t)(2 + states) != 0))
		return onnx_fail(c, STX_E_INVALID,
				 "%zu inputs are not a rate, a count and %d values a tensor", n,
				 2 + states);
	s->n = (unsigned)((n - 2) / (size_t)(2 + states));
	if (s->n * (unsigned)(1 + states) > c->n->n_output)
		return onnx_fail(c, STX_E_INVALID, "%zu outputs for %u tensors", c->n->n_output,
				 s->n);
	return c->err;
}

/* Value k (0: the tensor, 1: its gradient, then its states) of tensor i. */
static V value(struct onnx *c, const struct step *s, unsigned k, unsigned i)
{
	return onnx_in(c, 2 + k * s->n + i);
}

static V regularised(struct onnx *c, const struct step *s, unsigned i)
{
	V x = value(c, s, 0, i), g = value(c, s, 1, i);
	return onnx_add(c, times(c, x, onnx_float(c, "norm_coefficient", 0)), g);
}

static stx_err map_momentum(struct onnx *c, V *out)
{
	struct step s;
	const char *mode = onnx_str(c, "mode", "");
	double alpha = onnx_float(c, "alpha", 0), beta = onnx_float(c, "beta", 0);
	int nesterov = !strcmp(mode, "nesterov");
	if (!nesterov && strcmp(mode, "standard"))
		return onnx_unsupported_attr(c, "mode", mode);
	if (start(c, 1, &s))
		return c->err;
	V first = onnx_2(c, STX_OP_GT, s.count, number(c, s.count, 0));
	V weight = onnx_where(c, first, number(c, s.rate, beta), number(c, s.rate, 1));
	for (unsigned i = 0; i < s.n; i++) {
		V g = regularised(c, &s, i), v = times(c, value(c, &s, 2, i), alpha);
		v = onnx_add(c, v, onnx_mul(c, weight, g));
		V way = nesterov ? onnx_add(c, g, times(c, v, alpha)) : v;
		out[i] = onnx_sub(c, value(c, &s, 0, i), onnx_mul(c, s.rate, way));
		out[s.n + i] = v;
	}
	return c->err;
}

static stx_err map_adagrad(struct onnx *c, V *out)
{
	struct step s;
	if (start(c, 1, &s))
		return c->err;
	V slow = times(c, s.count, onnx_float(c, "decay_factor", 0));
	V rate = onnx_2(c, STX_OP_DIV, s.rate, onnx_add(c, slow, number(c, slow, 1)));
	for (unsigned i = 0; i < s.n; i++) {
		V g = regularised(c, &s, i);
		V h = onnx_add(c, value(c, &s, 2, i), onnx_mul(c, g, g));
		V root = onnx_1(c, STX_OP_SQRT, h);
		root = onnx_add(c, root, number(c, root, onnx_float(c, "epsilon", 1e-6f)));
		V move = onnx_2(c, STX_OP_DIV, onnx_mul(c, rate, g), root);
		out[i] = onnx_sub(c, value(c, &s, 0, i), move);
		out[s.n + i] = h;
	}
	return c->err;
}

/* sqrt(1 - beta^T) / (1 - alpha^T) times the rate, the rate alone in step 0. */
static V adam_rate(struct onnx *c, const struct step *s, double alpha, double beta)
{
	V one = number(c, s->count, 1);
	V a = onnx_sub(c, one, onnx_2(c, STX_OP_POW, number(c, s->count, alpha), s->count));
	V b = onnx_sub(c, one, onnx_2(c, STX_OP_POW, number(c, s->count, beta), s->count));
	V later = onnx_2(c, STX_OP_DIV, onnx_mul(c, s->rate, onnx_1(c, STX_OP_SQRT, b)), a);
	V first = onnx_2(c, STX_OP_GT, s->count, number(c, s->count, 0));
	return onnx_where(c, first, later, s->rate);
}

static stx_err map_adam(struct onnx *c, V *out)
{
	struct step s;
	double alpha = onnx_float(c, "alpha", 0.9f), beta = onnx_float(c, "beta", 0.999f);
	double after = onnx_float(c, "norm_coefficient_post", 0);
	if (start(c, 2, &s))
		return c->err;
	V rate = adam_rate(c, &s, alpha, beta);
	for (unsigned i = 0; i < s.n; i++) {
		V g = regularised(c, &s, i);
		V v = onnx_add(c, times(c, value(c, &s, 2, i), alpha), times(c, g, 1 - alpha));
		V h = onnx_add(c, times(c, value(c, &s, 3, i), beta),
			       onnx_mul(c, times(c, g, 1 - beta), g));
		V root = onnx_1(c, STX_OP_SQRT, h);
		root = onnx_add(c, root, number(c, root, onnx_float(c, "epsilon", 1e-6f)));
		V move = onnx_2(c, STX_OP_DIV, onnx_mul(c, rate, v), root);
		V x = onnx_sub(c, value(c, &s, 0, i), move);
		out[i] = after != 0 ? times(c, x, 1 - after) : x;
		out[s.n + i] = v;
		out[2 * s.n + i] = h;
	}
	return c->err;
}

const struct onnx_mapping onnx_training_map[] = {
	{ "ai.onnx.preview.training.Momentum", map_momentum, 0 },
	{ "ai.onnx.preview.training.Adagrad", map_adagrad, 0 },
	{ "ai.onnx.preview.training.Adam", map_adam, 0 },
	{ NULL, NULL, 0 },
};
