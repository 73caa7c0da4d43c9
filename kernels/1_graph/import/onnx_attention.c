/* onnx_attention.c: attention in its forms, rotary embedding, the stateful layers of linear
 * attention. */
#include "onnx_import.h"

#include <math.h>
#include <string.h>

/* ---- attention (ONNX Attention 23 to 25) ---- */

struct attention {
	V q, k, v;                    /* [batch, heads, length, size] */
	int64_t nq, nkv, past, batch; /* sequence lengths */
	V bias;                       /* additive, NO_V when none; -inf where masked */
	V lengths;                    /* nonpad_kv_seqlen, [batch,1,1,1] i64, or NO_V */
	int may_hide_all;             /* a query may see no key: key 0 is not seen by all */
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
	a->may_hide_all = 1;
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
	a->may_hide_all |= left >= 0 || a->lengths.node;
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

/* Softmax over the last of four dimensions, each step rounded to the type, as the operator's
 * definition has it. */
static V softmax_steps(struct onnx *c, V s)
{
	int64_t dim = 3;
	V top = onnx_reduce(c, STX_OP_AMAX, s, &dim, 1, 1);
	V e = onnx_1(c, STX_OP_EXP, onnx_sub(c, s, top));
	V sum = onnx_reduce(c, STX_OP_SUM_DIM, e, &dim, 1, 1);
	return onnx_2(c, STX_OP_DIV, e, onnx_cast(c, sum, onnx_dtype(s)));
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
	V r = softmax_steps(c, s);
	if (a->bias.node && a->may_hide_all) {
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
	V scores =
		onnx_matmul(c, onnx_mul(c, a.q, root), onnx_mul(c, onnx_swap_last(c, a.k), root));
	out[3] = scores;
	if (softcap > 0) {
		V cap = onnx_number(c, softcap, t);
		scores = onnx_mul(c, onnx_1(c, STX_OP_TANH, onnx_2(c, STX_OP_DIV, scores, cap)),
				  cap);
	}
	if (mode == 1)
		out[3] = scores;
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

/* ---- FlexAttention (ai.onnx.preview 1) ---- */

/* x through the one-input subgraph in an attribute, when it is there. */
static V through(struct onnx *c, const char *attr, V x)
{
	struct onnx_body b;
	V y = NO_V;
	if (c->err || !onnx_attr(c, attr))
		return x;
	if (!onnx_body_begin(c, attr, &b))
		onnx_body_run(c, &b, &x, 1, &y, 1);
	onnx_body_end(c, &b);
	if (!c->err && (!y.node || !stx_type_eq(stx_val_type(x), stx_val_type(y))))
		onnx_fail(c, STX_E_INVALID, "%s changes the shape or the type of its input", attr);
	return y;
}

static stx_err map_flex_attention(struct onnx *c, V *out)
{
	V q = onnx_in(c, 0), k = onnx_in(c, 1), v = onnx_in(c, 2);
	int64_t qs[STX_MAX_DIMS], ks[STX_MAX_DIMS];
	int64_t precision = onnx_int(c, "softmax_precision", 0);
	enum stx_dtype t = onnx_dtype(q), p = stx_dtype_bytes(t) < 4 ? STX_F32 : t;
	if (precision)
		p = stx_onnx_dtype((int)precision);
	if (c->err)
		return c->err;
	if (p == STX_DTYPE_NONE || !stx_dtype_is_float(p) || !stx_dtype_is_float(t))
		return onnx_unsupported_attr(c, "softmax_precision",
					     stx_onnx_type_name((int)precision));
	if (onnx_sizes(c, q, qs) != 4 || onnx_sizes(c, k, ks) != 4 || onnx_rank(v) != 4)
		return onnx_fail(c, STX_E_INVALID, "query, key and value must have rank 4");
	if (ks[1] < 1 || qs[1] % ks[1])
		return onnx_fail(c, STX_E_INVALID, "%lld query heads over %lld key heads",
				 (long long)qs[1], (long long)ks[1]);
	k = repeat_heads(c, k, qs[1] / ks[1]);
	v = repeat_heads(c, v, qs[1] / ks[1]);
	V root = onnx_number(c, sqrtf((float)onnx_float(c, "scale", 1 / sqrt((double)qs[3]))), t);
	V scores = onnx_matmul(c, onnx_mul(c, q, root), onnx_mul(c, onnx_swap_last(c, k), root));
	scores = through(c, "score_mod", onnx_cast(c, scores, p));
	if (c->err)
		return c->err;
	struct stx_arg args[3] = { stx_arg_tensor(scores), stx_arg_int(c->g, 3), stx_arg_bool(0) };
	V probs = through(c, "prob_mod", onnx_call(c, STX_OP_SOFTMAX, args, 3));
	out[0] = onnx_cast(c, onnx_matmul(c, probs, onnx_cast(c, v, p)), t);
	return c->err;
}

/* ---- linear attention (ONNX LinearAttention 27) ---- */

struct recurrence { /* everything in f32, f64 when the inputs are */
	int64_t batch, length, heads, group, dk, dv;
	int gated, delta;
	V q, k, v, decay, beta, state; /* state [batch, heads, dk, dv] */
};

/* Step i of a packed [batch, length, n] value as [batch, heads, rows, columns]. */
static V step_of(struct onnx *c, V x, const struct recurrence *r, int64_t i, int64_t heads,
		 int64_t rows, int64_t columns)
{
	int64_t s[4] = { r->batch, heads, rows, columns };
	return onnx_view(c, onnx_slice(c, x, 1, i, i + 1, 1), s, 4);
}

/* S = exp(g) S + k (beta (v - S'k))' and o = q S, as the update rule says. */
static V linear_step(struct onnx *c, struct recurrence *r, int64_t i)
{
	V k = step_of(c, r->k, r, i, r->heads, r->dk, 1);
	V v = step_of(c, r->v, r, i, r->heads, 1, r->dv);
	if (r->gated) {
		int64_t wide = onnx_dim(c, r->decay, 2) == r->heads ? 1 : r->dk;
		r->state = onnx_mul(c, r->state, step_of(c, r->decay, r, i, r->heads, wide, 1));
	}
	if (r->delta) {
		V seen = onnx_matmul(c, onnx_swap_last(c, k), r->state);
		V rate = step_of(c, r->beta, r, i, onnx_dim(c, r->beta, 2), 1, 1);
		v = onnx_mul(c, rate, onnx_sub(c, v, seen));
	}
	r->state = onnx_add(c, r->state, onnx_mul(c, k, v));
	return onnx_matmul(c, step_of(c, r->q, r, i, r->heads, r->group, r->dk), r->state);
}

static int recurrence_inputs(struct onnx *c, struct recurrence *r)
{
	V q = onnx_in(c, 0), k = onnx_in(c, 1), v = onnx_in(c, 2), past = onnx_opt(c, 3);
	V decay = onnx_opt(c, 4), beta = onnx_opt(c, 5);
	const char *rule = onnx_str(c, "update_rule", "gated_delta");
	int64_t qs[STX_MAX_DIMS], ks[STX_MAX_DIMS], vs[STX_MAX_DIMS];
	int64_t heads = onnx_int(c, "q_num_heads", 0);
	enum stx_dtype t = onnx_dtype(q), w = stx_dtype_bytes(t) < 4 ? STX_F32 : t;
	r->heads = onnx_int(c, "kv_num_heads", 0);
	r->gated = !strcmp(rule, "gated") || !strcmp(rule, "gated_delta");
	r->delta = !strcmp(rule, "delta") || !strcmp(rule, "gated_delta");
	if (!r->gated && !r->delta && strcmp(rule, "linear"))
		return onnx_unsupported_attr(c, "update_rule", rule);
	if (onnx_sizes(c, q, qs) != 3 || onnx_sizes(c, k, ks) != 3 || onnx_sizes(c, v, vs) != 3)
		return onnx_fail(c, STX_E_INVALID, "query, key and value must have rank 3");
	if (heads < 1 || r->heads < 1 || heads % r->heads || qs[2] % heads || ks[2] % r->heads ||
	    vs[2] % r->heads || qs[2] / heads != ks[2] / r->heads)
		return onnx_fail(c, STX_E_INVALID,
				 "%lld query and %lld key heads do not divide the hidden sizes",
				 (long long)heads, (long long)r->heads);
	if (r->gated != (decay.node != NULL) || r->delta != (beta.node != NULL))
		return onnx_fail(c, STX_E_INVALID,
				 "update_rule %s takes %s decay and %s beta input", rule,
				 r->gated ? "a" : "no", r->delta ? "a" : "no");
	r->batch = qs[0];
	r->length = qs[1];
	r->group = heads / r->heads;
	r->dk = qs[2] / heads;
	r->dv = vs[2] / r->heads;
	int64_t s[4] = { r->batch, r->heads, r->dk, r->dv };
	r->q = onnx_cast(c, q, w);
	r->k = onnx_cast(c, k, w);
	r->v = onnx_cast(c, v, w);
	r->beta = r->delta ? onnx_cast(c, beta, w) : NO_V;
	r->decay = r->gated ? onnx_1(c, STX_OP_EXP, onnx_cast(c, decay, w)) : NO_V;
	r->state = past.node ? onnx_cast(c, past, w) : onnx_full(c, s, 4, 0, w);
	return c->err;
}

static stx_err map_linear_attention(struct onnx *c, V *out)
{
	struct recurrence r = { 0 };
	V past = onnx_opt(c, 3);
	if (recurrence_inputs(c, &r))
		return c->err;
	enum stx_dtype t = onnx_dtype(onnx_in(c, 0)), w = onnx_dtype(r.q);
	double scale = onnx_float(c, "scale", 0);
	int64_t row[3] = { r.batch, 1, r.heads * r.group * r.dv };
	int64_t none[3] = { r.batch, 0, row[2] };
	V *steps = STX_NEW_ARRAY(c->arena, V, (size_t)r.length + 1);
	if (!steps)
		return onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
	for (int64_t i = 0; i < r.length && !c->err; i++)
		steps[i] = onnx_view(c, linear_step(c, &r, i), row, 3);
	V y = r.length ? onnx_cat(c, steps, (uint32_t)r.length, 1) : onnx_full(c, none, 3, 0, w);
	y = onnx_mul(c, y, onnx_number(c, scale != 0 ? scale : 1 / sqrt((double)r.dk), w));
	out[0] = onnx_cast(c, y, t);
	out[1] = onnx_cast(c, r.state, past.node ? onnx_dtype(past) : t);
	return c->err;
}

/* ---- causal convolution with state (ONNX CausalConvWithState 27) ---- */

static stx_err map_causal_conv(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), w = onnx_in(c, 1), bias = onnx_opt(c, 2), past = onnx_opt(c, 3);
	int64_t s[STX_MAX_DIMS], ws[STX_MAX_DIMS], one = 1, zero = 0;
	const char *how = onnx_str(c, "activation", "none");
	int silu = !strcmp(how, "silu") || !strcmp(how, "swish");
	enum stx_dtype t = onnx_dtype(x);
	if (!silu && strcmp(how, "none"))
		return onnx_unsupported_attr(c, "activation", how);
	if (onnx_sizes(c, x, s) != 3 || onnx_sizes(c, w, ws) != 3 || ws[2] < 1)
		return onnx_fail(c, STX_E_INVALID, "input and weight must have rank 3");
	int64_t pads[2] = { ws[2] - 1, 0 }, channels = s[1];
	struct stx_arg pad[3] = { stx_arg_tensor(x), stx_arg_ints(c->g, pads, 2),
				  stx_arg_scalar_f(0) };
	int64_t held[STX_MAX_DIMS];
	if (past.node && (onnx_sizes(c, past, held) != 3 || held[0] != s[0] || held[1] != s[1] ||
			  held[2] != pads[0]))
		return onnx_fail(c, STX_E_INVALID, "past_state must be [%lld,%lld,%lld]",
				 (long long)s[0], (long long)s[1], (long long)pads[0]);
	V both[2] = { past, x };
	V wide = past.node ? onnx_cat(c, both, 2, 2) : onnx_call(c, STX_OP_PAD, pad, 3);
	if (c->err)
		return c->err;
	struct stx_arg a[9] = { stx_arg_tensor(wide),
				stx_arg_tensor(w),
				bias.node ? stx_arg_tensor(bias) : stx_arg_none(),
				stx_arg_ints(c->g, &one, 1),
				stx_arg_ints(c->g, &zero, 1),
				stx_arg_ints(c->g, &one, 1),
				stx_arg_bool(0),
				stx_arg_ints(c->g, &zero, 1),
				stx_arg_int(c->g, channels) };
	V y = onnx_call(c, STX_OP_CONVOLUTION, a, 9);
	if (silu) {
		V v = onnx_cast(c, y, stx_dtype_bytes(t) < 4 ? STX_F32 : t);
		y = onnx_cast(c, onnx_mul(c, v, onnx_1(c, STX_OP_SIGMOID, v)), t);
	}
	out[0] = y;
	out[1] = onnx_slice(c, wide, 2, s[2], s[2] + ws[2] - 1, 1);
	return c->err;
}

const struct onnx_mapping onnx_attention_map[] = {
	{ "Attention", map_attention, 0 },
	{ "ai.onnx.preview.FlexAttention", map_flex_attention, 0 },
	{ "LinearAttention", map_linear_attention, 0 },
	{ "CausalConvWithState", map_causal_conv, 0 },
	{ "RotaryEmbedding", map_rotary, 0 },
	{ NULL, NULL, 0 },
};
