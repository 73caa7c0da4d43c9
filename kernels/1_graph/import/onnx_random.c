/* onnx_random.c: operators that draw random numbers. With a seed attribute a node draws what that
 * seed gives, wherever it stands; without one it has a stream of the graph's (infer_random.c). */
#include "onnx_import.h"

#include <string.h>

/* State and stream, as the last arguments of random operators. The seed's bits are the seed. */
static void seed_args(struct onnx *c, struct stx_arg out[2])
{
	const Onnx__AttributeProto *a = onnx_attr(c, "seed");
	int64_t state[2] = { 0, 0 };
	out[0] = out[1] = stx_arg_none();
	if (!a)
		return;
	if (a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT) {
		state[0] = a->i;
	} else {
		float f = (float)onnx_float(c, "seed", 0);
		uint32_t bits;
		memcpy(&bits, &f, sizeof bits);
		state[0] = bits;
	}
	V s = onnx_ints_const(c, state, 2);
	if (c->err)
		return;
	out[0] = stx_arg_tensor(s);
	out[1] = stx_arg_int(c->g, 0);
}

static enum stx_dtype dtype_attr(struct onnx *c, enum stx_dtype otherwise)
{
	int64_t v = onnx_int(c, "dtype", 0);
	if (!v)
		return otherwise;
	enum stx_dtype t = v > 0 && v < 1000 ? stx_onnx_dtype((int)v) : STX_DTYPE_NONE;
	if (t == STX_DTYPE_NONE)
		onnx_unsupported_attr(c, "dtype", stx_onnx_type_name((int)v));
	return t;
}

enum { UNIFORM, NORMAL };

static V scaled(struct onnx *c, int kind, const int64_t *sizes, int n, enum stx_dtype t)
{
	struct stx_arg seed[2];
	seed_args(c, seed);
	if (c->err)
		return NO_V;
	if (kind == NORMAL) {
		struct stx_arg a[] = { stx_arg_float(onnx_float(c, "mean", 0)),
				       stx_arg_float(onnx_float(c, "scale", 1)),
				       stx_arg_ints(c->g, sizes, (uint32_t)n),
				       stx_arg_dtype(t),
				       seed[0],
				       seed[1] };
		return onnx_call(c, STX_OP_NORMAL, a, 6);
	}
	struct stx_arg a[] = { stx_arg_tensor(onnx_full(c, sizes, n, 0, t)),
			       stx_arg_float(onnx_float(c, "low", 0)),
			       stx_arg_float(onnx_float(c, "high", 1)), seed[0], seed[1] };
	return onnx_call(c, STX_OP_UNIFORM, a, 5);
}

static stx_err map_random(struct onnx *c, V *out)
{
	const int64_t *shape;
	int n = onnx_ints(c, "shape", &shape);
	if (n < 0 || n > STX_MAX_DIMS)
		return onnx_fail(c, STX_E_INVALID, "the attribute shape is missing or too long");
	out[0] = scaled(c, onnx_arg(c), shape, n, dtype_attr(c, STX_F32));
	return c->err;
}

static stx_err map_random_like(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t sizes[STX_MAX_DIMS];
	int n = onnx_sizes(c, x, sizes);
	if (c->err)
		return c->err;
	out[0] = scaled(c, onnx_arg(c), sizes, n, dtype_attr(c, onnx_dtype(x)));
	return c->err;
}

static stx_err map_bernoulli(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	struct stx_arg seed[2];
	seed_args(c, seed);
	struct stx_arg a[] = { stx_arg_tensor(x), seed[0], seed[1] };
	if (c->err)
		return c->err;
	V y = onnx_call(c, STX_OP_BERNOULLI, a, 3);
	out[0] = onnx_cast(c, y, dtype_attr(c, onnx_dtype(x)));
	return c->err;
}

/* The index of the greatest of log probability + Gumbel noise, for each sample: [batch, samples].
 */
static stx_err map_multinomial(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t samples = onnx_int(c, "sample_size", 1);
	enum stx_dtype t = dtype_attr(c, STX_I32);
	struct stx_arg seed[2];
	if (!c->err && (onnx_rank(x) != 2 || samples < 1))
		return onnx_fail(c, STX_E_INVALID,
				 "the input must be [batch, classes] and sample_size 1 or more");
	int64_t sizes[3] = { onnx_dim(c, x, 0), samples, onnx_dim(c, x, 1) };
	seed_args(c, seed);
	if (c->err)
		return c->err;
	struct stx_arg a[] = { stx_arg_ints(c->g, sizes, 3), stx_arg_dtype(STX_F32), seed[0],
			       seed[1] };
	V u = onnx_call(c, STX_OP_RAND, a, 4);
	for (int i = 0; i < 2; i++)
		u = onnx_1(c, STX_OP_NEG, onnx_1(c, STX_OP_LOG, u));
	V score = onnx_add(c, onnx_unsqueeze(c, onnx_cast(c, x, STX_F32), 1), u);
	struct stx_arg best[] = { stx_arg_tensor(score), stx_arg_int(c->g, 2), stx_arg_bool(0) };
	if (!c->err)
		out[0] = onnx_cast(c, onnx_call(c, STX_OP_ARGMAX, best, 3), t);
	return c->err;
}

/* Training: x * mask / (1 - ratio). Else, and up to opset 6 with is_test, the input; the mask is
 * all ones. */
static stx_err map_dropout(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t training = 0, s[STX_MAX_DIMS];
	double ratio = 0.5;
	struct stx_arg seed[2];
	if (c->opset >= 12 && onnx_has(c, 2))
		onnx_known_ints(c, onnx_in(c, 2), "training_mode", &training, 1);
	if (training && onnx_has(c, 1))
		onnx_known_floats(c, onnx_in(c, 1), "the ratio", &ratio, 1);
	int rank = onnx_sizes(c, x, s);
	out[0] = x;
	if (!training || c->err) {
		if (c->n->n_output > 1)
			out[1] = onnx_full(c, s, rank, 1, c->opset < 10 ? onnx_dtype(x) : STX_BOOL);
		return c->err;
	}
	seed_args(c, seed);
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_float(ratio), stx_arg_bool(1), seed[0],
			       seed[1] };
	if (c->err)
		return c->err;
	out[0] = onnx_call(c, STX_OP_NATIVE_DROPOUT, a, 5);
	if (!c->err)
		out[1] = stx_val(out[0].node, 1);
	return c->err;
}

const struct onnx_mapping onnx_random_map[] = {
	{ "RandomUniform", map_random, UNIFORM },
	{ "RandomNormal", map_random, NORMAL },
	{ "RandomUniformLike", map_random_like, UNIFORM },
	{ "RandomNormalLike", map_random_like, NORMAL },
	{ "Bernoulli", map_bernoulli, 0 },
	{ "Multinomial", map_multinomial, 0 },
	{ "Dropout", map_dropout, 0 },
	{ NULL, NULL, 0 },
};
