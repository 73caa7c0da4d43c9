/* onnx_nn.c: normalisation layers, dropout, losses. */
#include "onnx_import.h"

#include <math.h>
#include <string.h>

/* ---- normalisation ---- */

/* A per-channel vector [C] shaped to broadcast along dimension 1 of a rank-r tensor. */
static V per_channel(struct onnx *c, V v, int rank)
{
	int64_t s[STX_MAX_DIMS];
	int n = 0;
	if (c->err)
		return NO_V;
	s[n++] = onnx_dim(c, v, 0);
	while (n < rank - 1)
		s[n++] = 1;
	return onnx_view(c, v, s, n);
}

static stx_err map_batch_norm(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), scale = onnx_in(c, 1), bias = onnx_in(c, 2), mean = onnx_in(c, 3),
	  var = onnx_in(c, 4);
	int rank = onnx_rank(x), training = onnx_int(c, "training_mode", 0) != 0;
	if (c->opset < 9 && !onnx_int(c, "spatial", 1))
		return onnx_unsupported_attr(c, "spatial", "0");
	double eps = onnx_float(c, "epsilon", 1e-5f), momentum = onnx_float(c, "momentum", 0.9f);
	enum stx_dtype t = onnx_dtype(x), st = onnx_dtype(var), wide = STX_F32;
	if (c->err)
		return c->err;
	/* a deviation's square may be beyond a half; statistics may have a type of their own */
	V *const all[] = { &x, &scale, &bias, &mean, &var };
	for (int i = 0; i < 5; i++)
		wide = onnx_dtype(*all[i]) == STX_F64 ? STX_F64 : wide;
	for (int i = 0; i < 5; i++)
		*all[i] = onnx_cast(c, *all[i], wide);
	if (training) {
		int64_t dims[STX_MAX_DIMS];
		int n = 0;
		for (int i = 0; i < rank; i++)
			if (i != 1)
				dims[n++] = i;
		V m = onnx_reduce(c, STX_OP_MEAN_DIM, x, dims, n, 0);
		V d = onnx_sub(c, x, per_channel(c, m, rank));
		V v = onnx_reduce(c, STX_OP_MEAN_DIM, onnx_mul(c, d, d), dims, n, 0);
		V keep = onnx_number(c, momentum, wide), take = onnx_number(c, 1 - momentum, wide);
		mean = onnx_add(c, onnx_mul(c, mean, keep), onnx_mul(c, m, take));
		var = onnx_add(c, onnx_mul(c, var, keep), onnx_mul(c, v, take));
		out[1] = onnx_cast(c, mean, st);
		out[2] = onnx_cast(c, var, st);
		mean = m;
		var = v;
	}
	V dev = onnx_1(c, STX_OP_SQRT, onnx_shift(c, var, eps));
	V y = onnx_2(c, STX_OP_DIV, onnx_sub(c, x, per_channel(c, mean, rank)),
		     per_channel(c, dev, rank));
	y = onnx_add(c, onnx_mul(c, y, per_channel(c, scale, rank)), per_channel(c, bias, rank));
	out[0] = onnx_cast(c, y, t);
	return c->err;
}

/* (x - mean) / sqrt(var + eps) over the given dimensions. */
static V normalise(struct onnx *c, V x, const int64_t *dims, int n, double eps, V *mean, V *inverse)
{
	V m = onnx_reduce(c, STX_OP_MEAN_DIM, x, dims, n, 1);
	V d = onnx_sub(c, x, m);
	V v = onnx_reduce(c, STX_OP_MEAN_DIM, onnx_mul(c, d, d), dims, n, 1);
	V inv = onnx_1(c, STX_OP_RECIPROCAL, onnx_1(c, STX_OP_SQRT, onnx_shift(c, v, eps)));
	if (mean)
		*mean = m;
	if (inverse)
		*inverse = inv;
	return onnx_mul(c, d, inv);
}

static stx_err map_instance_norm(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), scale = onnx_in(c, 1), bias = onnx_in(c, 2);
	int64_t dims[STX_MAX_DIMS];
	int n = 0, rank = onnx_rank(x);
	for (int i = 2; i < rank; i++)
		dims[n++] = i;
	enum stx_dtype t = onnx_dtype(x);
	V v = onnx_cast(c, x, stx_dtype_bytes(t) < 4 ? STX_F32 : t);
	V y = normalise(c, v, dims, n, onnx_float(c, "epsilon", 1e-5f), NULL, NULL);
	out[0] = onnx_add(c, onnx_mul(c, onnx_cast(c, y, t), per_channel(c, scale, rank)),
			  per_channel(c, bias, rank));
	return c->err;
}

static stx_err map_group_norm(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), scale = onnx_in(c, 1), bias = onnx_in(c, 2);
	int64_t s[STX_MAX_DIMS], groups = onnx_int(c, "num_groups", 0), dims[1] = { 2 };
	int rank = onnx_sizes(c, x, s);
	enum stx_dtype t = onnx_dtype(x);
	if (!c->err && (rank < 2 || groups < 1 || s[1] % groups))
		return onnx_fail(c, STX_E_INVALID, "num_groups %lld does not divide the channels",
				 (long long)groups);
	if (c->err)
		return c->err;
	int64_t rest = s[1] / groups;
	for (int i = 2; i < rank; i++)
		rest = onnx_times(rest, s[i]);
	int64_t flat[3] = { s[0], groups, rest };
	V v = onnx_cast(c, onnx_view(c, x, flat, 3), stx_dtype_bytes(t) < 4 ? STX_F32 : t);
	V y = normalise(c, v, dims, 1, onnx_float(c, "epsilon", 1e-5f), NULL, NULL);
	y = onnx_cast(c, y, t);
	if (c->opset < 21) { /* one scale a group */
		int64_t g[3] = { 1, groups, 1 };
		y = onnx_add(c, onnx_mul(c, y, onnx_view(c, scale, g, 3)),
			     onnx_view(c, bias, g, 3));
		out[0] = onnx_view(c, y, s, rank);
	} else {
		y = onnx_view(c, y, s, rank);
		out[0] = onnx_add(c, onnx_mul(c, y, per_channel(c, scale, rank)),
				  per_channel(c, bias, rank));
	}
	return c->err;
}

/* Dimensions axis..rank-1. */
static int trailing_dims(struct onnx *c, V x, int64_t *dims)
{
	int rank = onnx_rank(x), n = 0;
	for (int i = onnx_axis(c, onnx_int(c, "axis", -1), rank); i < rank; i++)
		dims[n++] = i;
	return n;
}

/* What the first stage computes in: f32 or wider, whatever the attribute asks for less. */
static enum stx_dtype stash_type(struct onnx *c, enum stx_dtype t)
{
	int number = (int)onnx_int(c, "stash_type", 1);
	enum stx_dtype asked = stx_onnx_dtype(number);
	if (asked == STX_DTYPE_NONE || !stx_dtype_is_float(asked))
		onnx_unsupported_attr(c, "stash_type", stx_onnx_type_name(number));
	else if (asked == STX_F64)
		return STX_F64;
	return stx_dtype_bytes(t) < 4 ? STX_F32 : t;
}

static stx_err map_layer_norm(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), scale = onnx_in(c, 1), bias = onnx_opt(c, 2), mean, inverse;
	int64_t dims[STX_MAX_DIMS];
	int n = trailing_dims(c, x, dims);
	enum stx_dtype t = onnx_dtype(x), stash = stash_type(c, t);
	V y = normalise(c, onnx_cast(c, x, stash), dims, n, onnx_float(c, "epsilon", 1e-5f), &mean,
			&inverse);
	y = onnx_mul(c, onnx_cast(c, y, t), scale);
	out[0] = bias.node ? onnx_add(c, y, bias) : y;
	out[1] = mean;
	out[2] = inverse;
	return c->err;
}

static stx_err map_rms_norm(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), scale = onnx_in(c, 1);
	int64_t dims[STX_MAX_DIMS];
	int n = trailing_dims(c, x, dims);
	enum stx_dtype t = onnx_dtype(x), stash = stash_type(c, t);
	V v = onnx_cast(c, x, stash);
	V ms = onnx_reduce(c, STX_OP_MEAN_DIM, onnx_mul(c, v, v), dims, n, 1);
	V root = onnx_1(c, STX_OP_SQRT, onnx_shift(c, ms, onnx_float(c, "epsilon", 1e-5f)));
	V y = onnx_2(c, STX_OP_DIV, v, root);
	out[0] = onnx_cast(c, onnx_mul(c, onnx_cast(c, y, t), scale), onnx_dtype(scale));
	return c->err;
}

/* ---- losses ---- */

/* x: log probabilities [N,C,d...], target: [N,d...]. */
static V nll_loss(struct onnx *c, V x, V target, V weight)
{
	const char *reduction = onnx_str(c, "reduction", "mean");
	const Onnx__AttributeProto *ignore = onnx_attr(c, "ignore_index");
	int64_t s[STX_MAX_DIMS], dims[STX_MAX_DIMS];
	enum stx_dtype t = onnx_dtype(x);
	int rank = onnx_sizes(c, target, s), fits = onnx_sizes(c, x, dims) == rank + 1;
	if (c->err)
		return NO_V;
	for (int i = 0; fits && i < rank; i++)
		fits = s[i] == dims[i ? i + 1 : 0];
	if (!fits || !rank) {
		onnx_fail(c, STX_E_INVALID,
			  "scores must be [N,C,d...] and labels [N,d...], of the same N and d");
		return NO_V;
	}
	if (weight.node && (onnx_rank(weight) != 1 || onnx_dim(c, weight, 0) != dims[1])) {
		onnx_fail(c, STX_E_INVALID, "the weights must be one for each of %lld classes",
			  (long long)dims[1]);
		return NO_V;
	}
	V zero = onnx_number(c, 0, t), id = onnx_cast(c, target, STX_I64), ignored = NO_V, w = NO_V;
	if (ignore) {
		ignored = onnx_2(c, STX_OP_EQ, id, onnx_number(c, (double)ignore->i, STX_I64));
		id = onnx_where(c, ignored, onnx_number(c, 0, STX_I64), id);
	}
	if (c->err)
		return NO_V;
	struct stx_arg args[3] = { stx_arg_tensor(x), stx_arg_int(c->g, 1),
				   stx_arg_tensor(onnx_unsqueeze(c, id, 1)) };
	V loss = onnx_1(c, STX_OP_NEG, onnx_view(c, onnx_call(c, STX_OP_GATHER, args, 3), s, rank));
	if (weight.node)
		w = onnx_index_select(c, weight, 0, id);
	else if (ignore)
		w = onnx_full(c, s, rank, 1, t);
	if (ignore)
		w = onnx_where(c, ignored, zero, w);
	if (w.node)
		loss = onnx_mul(c, loss, w);
	if (ignore) /* an ignored position counts 0 even where the score is infinite */
		loss = onnx_where(c, ignored, zero, loss);
	for (int i = 0; i < rank; i++)
		dims[i] = i;
	if (!strcmp(reduction, "none"))
		return loss;
	if (!strcmp(reduction, "sum"))
		return onnx_reduce(c, STX_OP_SUM_DIM, loss, dims, rank, 0);
	if (strcmp(reduction, "mean")) {
		onnx_unsupported_attr(c, "reduction", reduction);
		return NO_V;
	}
	if (!w.node)
		return onnx_reduce(c, STX_OP_MEAN_DIM, loss, dims, rank, 0);
	return onnx_2(c, STX_OP_DIV, onnx_reduce(c, STX_OP_SUM_DIM, loss, dims, rank, 0),
		      onnx_reduce(c, STX_OP_SUM_DIM, w, dims, rank, 0));
}

static stx_err map_nll_loss(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), target = onnx_in(c, 1), weight = onnx_opt(c, 2);
	out[0] = nll_loss(c, x, target, weight);
	return c->err;
}

static stx_err map_softmax_loss(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), target = onnx_in(c, 1), weight = onnx_opt(c, 2);
	if (c->err)
		return c->err;
	struct stx_arg args[3] = { stx_arg_tensor(x), stx_arg_int(c->g, 1), stx_arg_bool(0) };
	V logp = onnx_call(c, STX_OP_LOG_SOFTMAX, args, 3);
	out[0] = nll_loss(c, logp, target, weight);
	out[1] = logp;
	return c->err;
}

const struct onnx_mapping onnx_nn_map[] = {
	{ "BatchNormalization", map_batch_norm, 0 },
	{ "InstanceNormalization", map_instance_norm, 0 },
	{ "GroupNormalization", map_group_norm, 0 },
	{ "LayerNormalization", map_layer_norm, 0 },
	{ "RMSNormalization", map_rms_norm, 0 },
	{ "NegativeLogLikelihoodLoss", map_nll_loss, 0 },
	{ "SoftmaxCrossEntropyLoss", map_softmax_loss, 0 },
	{ NULL, NULL, 0 },
};
