/* onnx_nn.c: contractions, normalisation layers, losses, attention, rotary embedding, quantisation.
 */
#include "onnx_import.h"

#include <math.h>
#include <string.h>

static V swap_last(struct onnx *c, V x)
{
	int64_t p[STX_MAX_DIMS];
	int rank = onnx_rank(x);
	for (int i = 0; i < rank; i++)
		p[i] = i;
	if (rank >= 2) {
		p[rank - 2] = rank - 1;
		p[rank - 1] = rank - 2;
	}
	return onnx_permute(c, x, p, rank);
}

/* ---- contractions ---- */

static stx_err map_matmul(struct onnx *c, V *out)
{
	out[0] = onnx_matmul(c, onnx_in(c, 0), onnx_in(c, 1));
	return c->err;
}

static stx_err map_gemm(struct onnx *c, V *out)
{
	V a = onnx_in(c, 0), b = onnx_in(c, 1), bias = onnx_opt(c, 2);
	double alpha = onnx_float(c, "alpha", 1), beta = onnx_float(c, "beta", 1);
	if (onnx_int(c, "transA", 0))
		a = swap_last(c, a);
	if (onnx_int(c, "transB", 0))
		b = swap_last(c, b);
	V y = onnx_2(c, STX_OP_MM, a, b);
	if (alpha != 1)
		y = onnx_mul(c, y, onnx_number(c, alpha, onnx_dtype(y)));
	if (bias.node) {
		if (beta != 1)
			bias = onnx_mul(c, bias, onnx_number(c, beta, onnx_dtype(bias)));
		y = onnx_add(c, y, bias);
	}
	out[0] = y;
	return c->err;
}

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
	double eps = onnx_float(c, "epsilon", 1e-5f), momentum = onnx_float(c, "momentum", 0.9f);
	enum stx_dtype t = onnx_dtype(x), st = onnx_dtype(var);
	if (c->err)
		return c->err;
	if (training) {
		int64_t dims[STX_MAX_DIMS];
		int n = 0;
		for (int i = 0; i < rank; i++)
			if (i != 1)
				dims[n++] = i;
		V m = onnx_reduce(c, STX_OP_MEAN_DIM, x, dims, n, 0);
		V d = onnx_sub(c, x, per_channel(c, m, rank));
		V v = onnx_reduce(c, STX_OP_MEAN_DIM, onnx_mul(c, d, d), dims, n, 0);
		V keep = onnx_number(c, momentum, st), take = onnx_number(c, 1 - momentum, st);
		out[1] = onnx_add(c, onnx_mul(c, mean, keep),
				  onnx_mul(c, onnx_cast(c, m, st), take));
		out[2] =
			onnx_add(c, onnx_mul(c, var, keep), onnx_mul(c, onnx_cast(c, v, st), take));
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
	V y = normalise(c, x, dims, n, onnx_float(c, "epsilon", 1e-5f), NULL, NULL);
	out[0] = onnx_add(c, onnx_mul(c, y, per_channel(c, scale, rank)),
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
		rest *= s[i];
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

static stx_err map_layer_norm(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), scale = onnx_in(c, 1), bias = onnx_opt(c, 2), mean, inverse;
	int64_t dims[STX_MAX_DIMS];
	int n = trailing_dims(c, x, dims);
	enum stx_dtype t = onnx_dtype(x), stash = stx_dtype_bytes(t) < 4 ? STX_F32 : t;
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
	enum stx_dtype t = onnx_dtype(x), stash = stx_dtype_bytes(t) < 4 ? STX_F32 : t;
	V v = onnx_cast(c, x, stash);
	V ms = onnx_reduce(c, STX_OP_MEAN_DIM, onnx_mul(c, v, v), dims, n, 1);
	V root = onnx_1(c, STX_OP_SQRT, onnx_shift(c, ms, onnx_float(c, "epsilon", 1e-5f)));
	V y = onnx_2(c, STX_OP_DIV, v, root);
	out[0] = onnx_mul(c, onnx_cast(c, y, t), scale);
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
	int rank = onnx_sizes(c, target, s);
	if (c->err)
		return NO_V;
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

/* ---- attention (ONNX Attention 23 to 25) ---- */

struct attention {
	V q, k, v;                    /* [batch, heads, length, size] */
	int64_t nq, nkv, past, batch; /* sequence lengths */
	V bias;                       /* additive, NO_V when none; -inf where masked */
	V lengths;                    /* nonpad_kv_seqlen, [batch,1,1,1] i64, or NO_V */
};

static V split_heads(struct onnx *c, V x, int64_t heads)
{
	int64_t s[STX_MAX_DIMS], p[4] = { 0, 2, 1, 3 };
	if (onnx_sizes(c, x, s) != 3 || c->err)
		return x;
	if (heads < 1 || s[2] % heads) {
		onnx_fail(c, STX_E_INVALID, "%lld heads do not divide a hidden size of %lld",
			  (long long)heads, (long long)s[2]);
		return NO_V;
	}
	int64_t wide[4] = { s[0], s[1], heads, s[2] / heads };
	return onnx_permute(c, onnx_view(c, x, wide, 4), p, 4);
}

static V repeat_heads(struct onnx *c, V x, int64_t times)
{
	int64_t s[STX_MAX_DIMS];
	if (times == 1 || onnx_sizes(c, x, s) != 4)
		return x;
	int64_t one[5] = { s[0], s[1], 1, s[2], s[3] }, wide[5] = { s[0], s[1], times, s[2], s[3] };
	int64_t flat[4] = { s[0], s[1] * times, s[2], s[3] };
	return onnx_view(c, onnx_expand(c, onnx_view(c, x, one, 5), wide, 5), flat, 4);
}

static V minus_infinity(struct onnx *c, V like)
{
	return onnx_number(c, -INFINITY, onnx_dtype(like));
}

/* Adds -inf where `allowed` is false. */
static void restrict_to(struct onnx *c, struct attention *a, V allowed)
{
	V zero = onnx_number(c, 0, onnx_dtype(a->q));
	V b = onnx_where(c, allowed, zero, minus_infinity(c, a->q));
	a->bias = a->bias.node ? onnx_add(c, a->bias, b) : b;
}

static void apply_mask(struct onnx *c, struct attention *a, V mask)
{
	int64_t have = mask.node && onnx_rank(mask) ? onnx_dim(c, mask, onnx_rank(mask) - 1) : 0;
	if (!mask.node || c->err)
		return;
	int is_bool = onnx_dtype(mask) == STX_BOOL;
	if (have < a->nkv && have != 1) { /* a shorter mask hides the keys beyond it */
		int64_t pads[2] = { 0, a->nkv - have };
		struct stx_arg value = is_bool ? stx_arg_scalar_i(0) : stx_arg_scalar_f(-INFINITY);
		struct stx_arg args[3] = { stx_arg_tensor(mask), stx_arg_ints(c->g, pads, 2),
					   value };
		mask = onnx_call(c, STX_OP_PAD, args, 3);
	}
	if (is_bool)
		restrict_to(c, a, mask);
	else
		a->bias = a->bias.node ? onnx_add(c, a->bias, mask) : mask;
}

/* Query i stands at position i + offset; keys 0..nkv-1. distance = position - key. */
static V distance(struct onnx *c, struct attention *a)
{
	V i = onnx_unsqueeze(c, onnx_arange(c, 0, a->nq, 1, STX_I64), 1);
	V j = onnx_arange(c, 0, a->nkv, 1, STX_I64);
	V d = onnx_sub(c, i, j);
	if (a->lengths.node)
		return onnx_add(c, d,
				onnx_sub(c, a->lengths, onnx_number(c, (double)a->nq, STX_I64)));
	return onnx_add(c, d, onnx_number(c, (double)a->past, STX_I64));
}

static void apply_positions(struct onnx *c, struct attention *a)
{
	int64_t left = onnx_int(c, "left_window_size", -1),
		right = onnx_int(c, "right_window_size", -1);
	V d = NO_V;
	if (onnx_int(c, "is_causal", 0) || left >= 0 || right >= 0)
		d = distance(c, a);
	if (onnx_int(c, "is_causal", 0))
		restrict_to(c, a, onnx_2(c, STX_OP_GE, d, onnx_number(c, 0, STX_I64)));
	if (left >= 0)
		restrict_to(c, a, onnx_2(c, STX_OP_LE, d, onnx_number(c, (double)left, STX_I64)));
	if (right >= 0)
		restrict_to(c, a, onnx_2(c, STX_OP_GE, d, onnx_number(c, -(double)right, STX_I64)));
	if (a->lengths.node)
		restrict_to(
			c, a,
			onnx_2(c, STX_OP_LT, onnx_arange(c, 0, a->nkv, 1, STX_I64), a->lengths));
}

/* Softmax over keys in the wanted precision; a row whose bias masks every key is 0, not NaN. */
static V masked_softmax(struct onnx *c, struct attention *a, V scores)
{
	int64_t precision = onnx_int(c, "softmax_precision", 0);
	enum stx_dtype t = onnx_dtype(a->q), p = precision ? stx_onnx_dtype((int)precision) : t;
	if (p == STX_DTYPE_NONE || !stx_dtype_is_float(p)) {
		onnx_unsupported_attr(c, "softmax_precision", stx_onnx_type_name((int)precision));
		return NO_V;
	}
	V s = onnx_cast(c, scores, p);
	if (c->err)
		return NO_V;
	struct stx_arg args[3] = { stx_arg_tensor(s), stx_arg_int(c->g, 3), stx_arg_bool(0) };
	V r = onnx_call(c, STX_OP_SOFTMAX, args, 3);
	if (a->bias.node) {
		int64_t dim = onnx_rank(a->bias) - 1;
		V top = onnx_reduce(c, STX_OP_AMAX, a->bias, &dim, 1, 1);
		V empty = onnx_2(c, STX_OP_EQ, top, minus_infinity(c, a->bias));
		r = onnx_where(c, empty, onnx_number(c, 0, p), r);
	}
	return onnx_cast(c, r, t);
}

static int attention_inputs(struct onnx *c, struct attention *a, V *out)
{
	V past_k = onnx_opt(c, 4), past_v = onnx_opt(c, 5), lengths = onnx_opt(c, 6);
	int64_t s[STX_MAX_DIMS], heads;
	int flat = onnx_rank(onnx_in(c, 0)) == 3;
	a->q = split_heads(c, onnx_in(c, 0), onnx_int(c, "q_num_heads", 0));
	a->k = split_heads(c, onnx_in(c, 1), onnx_int(c, "kv_num_heads", 0));
	a->v = split_heads(c, onnx_in(c, 2), onnx_int(c, "kv_num_heads", 0));
	if (past_k.node) {
		V both[2] = { past_k, a->k };
		a->past = onnx_dim(c, past_k, 2);
		a->k = onnx_cat(c, both, 2, 2);
	}
	if (past_v.node) {
		V both[2] = { past_v, a->v };
		a->v = onnx_cat(c, both, 2, 2);
	}
	out[1] = a->k;
	out[2] = a->v;
	if (onnx_sizes(c, a->q, s) != 4 || onnx_rank(a->k) != 4 || onnx_rank(a->v) != 4 || c->err) {
		onnx_fail(c, STX_E_INVALID, "query, key and value must have rank 3 or 4");
		return 0;
	}
	a->batch = s[0];
	heads = s[1];
	a->nq = s[2];
	a->nkv = onnx_dim(c, a->k, 2);
	int64_t kv = onnx_dim(c, a->k, 1);
	if (c->err || kv < 1 || heads % kv) {
		onnx_fail(c, STX_E_INVALID, "%lld query heads over %lld key heads",
			  (long long)heads, (long long)kv);
		return 0;
	}
	a->k = repeat_heads(c, a->k, heads / kv);
	a->v = repeat_heads(c, a->v, heads / kv);
	if (lengths.node) {
		int64_t col[4] = { a->batch, 1, 1, 1 };
		a->lengths = onnx_view(c, onnx_cast(c, lengths, STX_I64), col, 4);
	}
	return flat;
}

static stx_err map_attention(struct onnx *c, V *out)
{
	struct attention a = { 0 };
	int flat = attention_inputs(c, &a, out);
	if (c->err)
		return c->err;
	enum stx_dtype t = onnx_dtype(a.q);
	if (!stx_dtype_is_float(t))
		return onnx_fail(c, STX_E_INVALID, "queries must be floating point, not %s",
				 stx_dtype_name(t));
	double scale = onnx_float(c, "scale", 1 / sqrt((double)onnx_dim(c, a.q, 3)));
	double softcap = onnx_float(c, "softcap", 0);
	int64_t mode = onnx_int(c, "qk_matmul_output_mode", 0);
	V root = onnx_number(c, sqrt(scale), t);
	V scores = onnx_matmul(c, onnx_mul(c, a.q, root), onnx_mul(c, swap_last(c, a.k), root));
	out[3] = scores;
	if (softcap > 0) {
		V cap = onnx_number(c, softcap, t);
		scores = onnx_mul(c, onnx_1(c, STX_OP_TANH, onnx_2(c, STX_OP_DIV, scores, cap)),
				  cap);
		out[3] = scores;
	}
	apply_mask(c, &a, onnx_opt(c, 3));
	apply_positions(c, &a);
	if (a.bias.node)
		scores = onnx_add(c, scores, a.bias);
	if (mode == 2)
		out[3] = scores;
	V p = masked_softmax(c, &a, scores);
	if (mode == 3)
		out[3] = p;
	V y = onnx_matmul(c, p, a.v);
	if (flat && !c->err) {
		int64_t perm[4] = { 0, 2, 1, 3 };
		int64_t s[3] = { a.batch, a.nq, onnx_dim(c, y, 1) * onnx_dim(c, y, 3) };
		y = onnx_view(c, onnx_permute(c, y, perm, 4), s, 3);
	}
	out[0] = y;
	return c->err;
}

/* ---- rotary embedding (ONNX RotaryEmbedding 23) ---- */

static stx_err map_rotary(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), cosine = onnx_in(c, 1), sine = onnx_in(c, 2), ids = onnx_opt(c, 3);
	int64_t s[STX_MAX_DIMS], perm[4] = { 0, 2, 1, 3 }, whole[STX_MAX_DIMS];
	int rank = onnx_sizes(c, x, s);
	memcpy(whole, s, sizeof whole);
	V v;
	if (c->err)
		return c->err;
	if (rank == 4) {
		v = onnx_permute(c, x, perm, 4); /* [batch, length, heads, size] */
	} else if (rank == 3) {
		int64_t heads = onnx_int(c, "num_heads", 0);
		if (heads < 1 || s[2] % heads)
			return onnx_fail(c, STX_E_INVALID, "num_heads %lld does not divide %lld",
					 (long long)heads, (long long)s[2]);
		int64_t wide[4] = { s[0], s[1], heads, s[2] / heads };
		v = onnx_view(c, x, wide, 4);
	} else {
		return onnx_fail(c, STX_E_INVALID, "the input must have rank 3 or 4");
	}
	int64_t size = onnx_dim(c, v, 3), dim = onnx_int(c, "rotary_embedding_dim", 0);
	dim = dim ? dim : size;
	if (dim > size || dim % 2)
		return onnx_fail(c, STX_E_INVALID, "rotary_embedding_dim %lld of %lld",
				 (long long)dim, (long long)size);
	if (ids.node) {
		cosine = onnx_index_select(c, cosine, 0, ids);
		sine = onnx_index_select(c, sine, 0, ids);
	}
	cosine = onnx_unsqueeze(c, cosine, 2);
	sine = onnx_unsqueeze(c, sine, 2);
	V r = onnx_slice(c, v, 3, 0, dim, 1), rest = onnx_slice(c, v, 3, dim, size, 1), a, b;
	int inter = onnx_int(c, "interleaved", 0) != 0;
	a = inter ? onnx_slice(c, r, 3, 0, dim, 2) : onnx_slice(c, r, 3, 0, dim / 2, 1);
	b = inter ? onnx_slice(c, r, 3, 1, dim, 2) : onnx_slice(c, r, 3, dim / 2, dim, 1);
	V pair[2] = { onnx_sub(c, onnx_mul(c, cosine, a), onnx_mul(c, sine, b)),
		      onnx_add(c, onnx_mul(c, sine, a), onnx_mul(c, cosine, b)) };
	if (inter) {
		int64_t rs[STX_MAX_DIMS];
		int n = onnx_sizes(c, r, rs);
		pair[0] = onnx_unsqueeze(c, pair[0], 4);
		pair[1] = onnx_unsqueeze(c, pair[1], 4);
		r = onnx_view(c, onnx_cat(c, pair, 2, 4), rs, n);
	} else {
		r = onnx_cat(c, pair, 2, 3);
	}
	V parts[2] = { r, rest };
	V y = dim == size ? r : onnx_cat(c, parts, 2, 3);
	out[0] = rank == 4 ? onnx_permute(c, y, perm, 4) : onnx_view(c, y, whole, 3);
	return c->err;
}

/* ---- quantisation to 8 and 16 bit integers ---- */

/* A scale or zero point [C] along `axis`, or a single number, shaped to broadcast against x. */
static V along_axis(struct onnx *c, V v, V x)
{
	int64_t s[STX_MAX_DIMS];
	int rank = onnx_rank(x);
	if (c->err || onnx_rank(v) == 0)
		return v;
	if (onnx_rank(v) != 1) {
		onnx_unsupported_attr(c, "block_size", "a blocked scale");
		return NO_V;
	}
	if (onnx_dim(c, v, 0) == 1)
		return onnx_view(c, v, NULL, 0);
	int axis = onnx_axis(c, onnx_int(c, "axis", 1), rank);
	for (int i = 0; i < rank; i++)
		s[i] = i == axis ? onnx_dim(c, v, 0) : 1;
	return onnx_view(c, v, s, rank);
}

static int quant_range(enum stx_dtype t, double *lo, double *hi)
{
	switch (t) {
	case STX_U8:
		*lo = 0;
		*hi = 255;
		return 1;
	case STX_I8:
		*lo = -128;
		*hi = 127;
		return 1;
	case STX_U16:
		*lo = 0;
		*hi = 65535;
		return 1;
	case STX_I16:
		*lo = -32768;
		*hi = 32767;
		return 1;
	default: return 0;
	}
}

static stx_err map_quantize(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), scale = onnx_in(c, 1), zero = onnx_opt(c, 2);
	int64_t to = onnx_int(c, "output_dtype", 0);
	enum stx_dtype t = zero.node ? onnx_dtype(zero) : to ? stx_onnx_dtype((int)to) : STX_U8;
	double lo, hi;
	if (c->err)
		return c->err;
	if (!quant_range(t, &lo, &hi))
		return onnx_fail(c, STX_E_UNSUPPORTED, "operator QuantizeLinear: element type %s",
				 t == STX_DTYPE_NONE ? stx_onnx_type_name((int)to)
						     : stx_dtype_name(t));
	V v = onnx_cast(c, x, STX_F32);
	V q = onnx_2(c, STX_OP_DIV, v, onnx_cast(c, along_axis(c, scale, x), STX_F32));
	q = onnx_1(c, STX_OP_ROUND, q);
	if (zero.node)
		q = onnx_add(c, q, onnx_cast(c, along_axis(c, zero, x), STX_F32));
	q = onnx_2(c, STX_OP_MAXIMUM, q, onnx_number(c, lo, STX_F32));
	q = onnx_2(c, STX_OP_MINIMUM, q, onnx_number(c, hi, STX_F32));
	out[0] = onnx_cast(c, q, t);
	return c->err;
}

static stx_err map_dequantize(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), scale = onnx_in(c, 1), zero = onnx_opt(c, 2);
	if (c->err)
		return c->err;
	if (onnx_is_float(x))
		return onnx_fail(c, STX_E_UNSUPPORTED, "operator DequantizeLinear: element type %s",
				 stx_dtype_name(onnx_dtype(x)));
	V v = onnx_cast(c, x, STX_I32);
	if (zero.node)
		v = onnx_sub(c, v, onnx_cast(c, along_axis(c, zero, x), STX_I32));
	V s = along_axis(c, scale, x);
	out[0] = onnx_cast(c, onnx_mul(c, onnx_cast(c, v, STX_F32), onnx_cast(c, s, STX_F32)),
			   onnx_dtype(scale));
	return c->err;
}

const struct onnx_mapping onnx_nn_map[] = {
	{ "MatMul", map_matmul, 0 },
	{ "Gemm", map_gemm, 0 },
	{ "BatchNormalization", map_batch_norm, 0 },
	{ "InstanceNormalization", map_instance_norm, 0 },
	{ "GroupNormalization", map_group_norm, 0 },
	{ "LayerNormalization", map_layer_norm, 0 },
	{ "RMSNormalization", map_rms_norm, 0 },
	{ "NegativeLogLikelihoodLoss", map_nll_loss, 0 },
	{ "SoftmaxCrossEntropyLoss", map_softmax_loss, 0 },
	{ "Attention", map_attention, 0 },
	{ "RotaryEmbedding", map_rotary, 0 },
	{ "QuantizeLinear", map_quantize, 0 },
	{ "DequantizeLinear", map_dequantize, 0 },
	{ NULL, NULL, 0 },
};
