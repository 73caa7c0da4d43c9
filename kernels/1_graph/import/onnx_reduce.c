/* onnx_reduce.c: ONNX reductions, softmax family, normalisations over dimensions. */
#include "onnx_import.h"

#include <math.h>
#include <string.h>

/* Dimensions to reduce: attribute or input 1; all when absent. *skip is set for
 * noop_with_empty_axes. */
static int reduce_dims(struct onnx *c, V x, int64_t *dims, int *skip)
{
	const int64_t *attr;
	int rank = onnx_rank(x), n = onnx_ints(c, "axes", &attr);
	memset(dims, 0, STX_MAX_DIMS * sizeof *dims);
	*skip = 0;
	if (n > STX_MAX_DIMS) {
		onnx_fail(c, STX_E_INVALID, "more than %d axes", STX_MAX_DIMS);
		return 0;
	}
	if (n >= 0)
		memcpy(dims, attr, (size_t)n * sizeof *dims);
	else if (onnx_has(c, 1))
		n = onnx_known_ints(c, onnx_in(c, 1), "the axes", dims, STX_MAX_DIMS);
	if (n <= 0) {
		*skip = onnx_int(c, "noop_with_empty_axes", 0) != 0;
		for (n = 0; n < rank; n++)
			dims[n] = n;
		return n;
	}
	for (int i = 0; i < n && !c->err; i++)
		dims[i] = onnx_axis(c, dims[i], rank);
	return n;
}

enum { R_SUM, R_MEAN, R_MAX, R_MIN, R_PROD, R_L1, R_L2, R_LOGSUM, R_LOGSUMEXP, R_SUMSQUARE };

static V prod_dims(struct onnx *c, V x, const int64_t *dims, int n, int keep)
{
	/* prod takes one dimension: the others follow, keepdim first so that numbers stay */
	int64_t left[STX_MAX_DIMS];
	int k = 0;
	for (int i = 0; i < n && !c->err; i++) {
		struct stx_arg args[3] = { stx_arg_tensor(x), stx_arg_int(c->g, dims[i]),
					   stx_arg_bool(1) };
		enum stx_dtype t = onnx_dtype(x);
		x = onnx_cast(c, onnx_call(c, STX_OP_PROD_DIM, args, 3), t);
	}
	if (keep || c->err)
		return x;
	for (int i = 0; i < onnx_rank(x); i++) {
		int gone = 0;
		for (int j = 0; j < n; j++)
			gone |= dims[j] == i;
		if (!gone)
			left[k++] = onnx_dim(c, x, i);
	}
	return onnx_view(c, x, left, k);
}

static V mean_dims(struct onnx *c, V x, const int64_t *dims, int n, int keep)
{
	int64_t count = 1;
	for (int i = 0; i < n && !c->err; i++)
		count = onnx_times(count, onnx_dim(c, x, (int)dims[i]));
	enum stx_dtype t = onnx_dtype(x);
	if (stx_dtype_is_float(t))
		return onnx_reduce(c, STX_OP_MEAN_DIM, x, dims, n, keep);
	/* a narrow integer may hold neither the sum nor the number */
	enum stx_dtype wide = stx_dtype_kind(t) == STX_KIND_UINT ? STX_U64 : STX_I64;
	V s = onnx_cast(c, onnx_reduce(c, STX_OP_SUM_DIM, x, dims, n, keep), wide);
	struct stx_arg args[3] = { stx_arg_tensor(s),
				   stx_arg_tensor(onnx_number(c, (double)count, wide)),
				   stx_arg_str(c->g, "trunc") };
	return onnx_cast(c, onnx_call(c, STX_OP_DIV_MODE, args, 3), t);
}

/* log(sum(exp(x - m))) + m with m the maximum, 0 where it is not finite: no overflow. */
static V log_sum_exp(struct onnx *c, V x, const int64_t *dims, int n, int keep)
{
	V zero = onnx_number(c, 0, onnx_dtype(x));
	V m = onnx_reduce(c, STX_OP_AMAX, x, dims, n, 1);
	m = onnx_where(c, onnx_1(c, STX_OP_ISINF, m), zero, m);
	V e = onnx_1(c, STX_OP_EXP, onnx_2(c, STX_OP_SUB, x, m));
	V s = onnx_1(c, STX_OP_LOG, onnx_reduce(c, STX_OP_SUM_DIM, e, dims, n, keep));
	V m2 = m;
	if (!keep && !c->err) {
		int64_t sizes[STX_MAX_DIMS];
		for (int i = 0; i < onnx_rank(s); i++)
			sizes[i] = onnx_dim(c, s, i);
		m2 = onnx_view(c, m, sizes, onnx_rank(s));
	}
	return onnx_2(c, STX_OP_ADD, s, m2);
}

static V square(struct onnx *c, V x)
{
	return onnx_2(c, STX_OP_MUL, x, x);
}

/* The identity of a maximum or minimum over nothing: ONNX gives -inf/inf, or the least/greatest
 * integer. */
static struct stx_arg empty_extreme(enum stx_dtype t, int is_max)
{
	int bits = 8 * stx_dtype_bytes(t);
	if (stx_dtype_is_float(t))
		return stx_arg_scalar_f(is_max ? -INFINITY : INFINITY);
	if (t == STX_BOOL)
		return stx_arg_scalar_i(!is_max);
	if (stx_dtype_kind(t) == STX_KIND_UINT) /* -1 wraps to all ones */
		return stx_arg_scalar_i(is_max ? 0 : -1);
	int64_t least = (int64_t)(UINT64_MAX << (bits - 1));
	return stx_arg_scalar_i(is_max ? least : ~least);
}

/* 1 when some reduced dimension is empty and the reduction has no identity of its own in the graph.
 */
static int empty_reduction(struct onnx *c, V x, const int64_t *dims, int n, int keep, int kind,
			   V *out)
{
	int64_t sizes[STX_MAX_DIMS];
	uint32_t reduced = 0;
	int empty = 0, k = 0;
	if (kind != R_MAX && kind != R_MIN && kind != R_LOGSUMEXP)
		return 0;
	for (int i = 0; i < n; i++) {
		reduced |= 1u << dims[i];
		empty |= onnx_dim(c, x, (int)dims[i]) == 0;
	}
	if (!empty || c->err)
		return 0;
	for (int i = 0; i < onnx_rank(x); i++)
		if (!(reduced >> i & 1))
			sizes[k++] = onnx_dim(c, x, i);
		else if (keep)
			sizes[k++] = 1;
	enum stx_dtype t = onnx_dtype(x);
	struct stx_arg args[3] = { stx_arg_ints(c->g, sizes, (uint32_t)k),
				   empty_extreme(t, kind != R_MIN), stx_arg_dtype(t) };
	*out = onnx_call(c, STX_OP_FULL, args, 3);
	return 1;
}

static stx_err map_reduce(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t dims[STX_MAX_DIMS];
	int skip, n = reduce_dims(c, x, dims, &skip), keep = onnx_int(c, "keepdims", 1) != 0;
	enum stx_dtype t = onnx_dtype(x);
	int kind = onnx_arg(c);
	if (c->err)
		return c->err;
	if (skip)
		n = 0;
	if (empty_reduction(c, x, dims, n, keep, kind, &out[0]))
		return c->err;
	/* halves hold neither squares nor sums of them, integers neither roots nor logarithms */
	int needs_float = kind == R_L2 || kind == R_LOGSUM || kind == R_LOGSUMEXP;
	if (stx_dtype_is_float(t) && stx_dtype_bytes(t) < 4 && kind > R_MIN)
		x = onnx_cast(c, x, STX_F32);
	else if (!stx_dtype_is_float(t) && needs_float)
		x = onnx_cast(c, x, STX_F64);
	V v = x;
	if (kind == R_L1)
		v = onnx_1(c, STX_OP_ABS, x);
	else if (kind == R_L2 || kind == R_SUMSQUARE)
		v = square(c, x);
	if (n == 0) /* each element alone, or rank 0 */
		;
	else if (kind == R_MEAN)
		v = mean_dims(c, v, dims, n, keep);
	else if (kind == R_MAX || kind == R_MIN)
		v = onnx_reduce(c, kind == R_MAX ? STX_OP_AMAX : STX_OP_AMIN, v, dims, n, keep);
	else if (kind == R_PROD)
		v = prod_dims(c, v, dims, n, keep);
	else if (kind == R_LOGSUMEXP)
		v = log_sum_exp(c, v, dims, n, keep);
	else
		v = onnx_cast(c, onnx_reduce(c, STX_OP_SUM_DIM, v, dims, n, keep), onnx_dtype(v));
	if (kind == R_L2)
		v = onnx_1(c, STX_OP_SQRT, v);
	else if (kind == R_LOGSUM)
		v = onnx_1(c, STX_OP_LOG, v);
	out[0] = onnx_cast(c, v, t);
	return c->err;
}

static stx_err map_argreduce(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int axis = onnx_axis(c, onnx_int(c, "axis", 0), onnx_rank(x));
	int last = onnx_int(c, "select_last_index", 0) != 0, keep = onnx_int(c, "keepdims", 1) != 0;
	if (last)
		x = onnx_reverse(c, x, axis);
	if (c->err)
		return c->err;
	struct stx_arg args[3] = { stx_arg_tensor(x), stx_arg_int(c->g, axis), stx_arg_bool(keep) };
	V i = onnx_call(c, (enum stx_op)onnx_arg(c), args, 3);
	if (last && !c->err)
		i = onnx_2(c, STX_OP_SUB,
			   onnx_number(c, (double)(onnx_dim(c, x, axis) - 1), STX_I64), i);
	out[0] = i;
	return c->err;
}

/* Before opset 13 the input is seen as a matrix split at `axis`. */
static V as_matrix(struct onnx *c, V x, int axis)
{
	int64_t s[2] = { 1, 1 };
	for (int i = 0; i < onnx_rank(x) && !c->err; i++)
		s[i >= axis] = onnx_times(s[i >= axis], onnx_dim(c, x, i));
	return onnx_view(c, x, s, 2);
}

static V like(struct onnx *c, V v, V shape)
{
	int64_t s[STX_MAX_DIMS];
	for (int i = 0; i < onnx_rank(shape) && !c->err; i++)
		s[i] = onnx_dim(c, shape, i);
	return onnx_view(c, v, s, onnx_rank(shape));
}

static V softmax_op(struct onnx *c, enum stx_op op, V x, int axis)
{
	if (c->err)
		return NO_V;
	struct stx_arg args[3] = { stx_arg_tensor(x), stx_arg_int(c->g, axis), stx_arg_bool(0) };
	return onnx_call(c, op, args, 3);
}

static V one_hot_max(struct onnx *c, V x, int axis)
{
	int64_t sizes[STX_MAX_DIMS];
	if (c->err)
		return NO_V;
	struct stx_arg args[3] = { stx_arg_tensor(x), stx_arg_int(c->g, axis), stx_arg_bool(1) };
	V best = onnx_call(c, STX_OP_ARGMAX, args, 3);
	for (int i = 0; i < onnx_rank(x); i++)
		sizes[i] = i == axis ? onnx_dim(c, x, i) : 1;
	V k = onnx_view(c, onnx_arange(c, 0, onnx_dim(c, x, axis), 1, STX_I64), sizes,
			onnx_rank(x));
	return onnx_cast(c, onnx_2(c, STX_OP_EQ, k, best), onnx_dtype(x));
}

static stx_err map_softmax(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), v = x;
	int axis = onnx_axis(c, onnx_int(c, "axis", c->opset < 13 ? 1 : -1), onnx_rank(x));
	int kind = onnx_arg(c);
	if (c->opset < 13) {
		v = as_matrix(c, x, axis);
		axis = 1;
	}
	int64_t sizes[STX_MAX_DIMS];
	int empty = !c->err && onnx_product(sizes, 0, onnx_sizes(c, v, sizes)) == 0;
	v = empty       ? v
	    : kind == 2 ? one_hot_max(c, v, axis)
			: softmax_op(c, kind ? STX_OP_LOG_SOFTMAX : STX_OP_SOFTMAX, v, axis);
	out[0] = like(c, v, x);
	return c->err;
}

static V widened(struct onnx *c, V x)
{
	enum stx_dtype t = onnx_dtype(x);
	return onnx_cast(c, x, stx_dtype_bytes(t) < 4 ? STX_F32 : t);
}

static stx_err map_lp_norm(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), v = widened(c, x);
	int64_t axis = onnx_axis(c, onnx_int(c, "axis", -1), onnx_rank(x)), p = onnx_int(c, "p", 2);
	V n = onnx_reduce(c, STX_OP_SUM_DIM, p == 1 ? onnx_1(c, STX_OP_ABS, v) : square(c, v),
			  &axis, 1, 1);
	if (p != 1 && p != 2)
		return onnx_unsupported_attr(c, "p", "other than 1 and 2");
	if (p == 2)
		n = onnx_1(c, STX_OP_SQRT, n);
	V zero = onnx_number(c, 0, onnx_dtype(v)); /* a zero norm gives zeros */
	V r = onnx_2(c, STX_OP_DIV, v, n);
	r = onnx_where(c, onnx_2(c, STX_OP_EQ, n, zero), zero, r);
	out[0] = onnx_cast(c, r, onnx_dtype(x));
	return c->err;
}

static stx_err map_mean_variance(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), v = widened(c, x);
	const int64_t *attr;
	static const int64_t usual[3] = { 0, 2, 3 };
	int n = onnx_ints(c, "axes", &attr);
	if (n < 0) {
		attr = usual;
		n = 3;
	}
	V mean = onnx_reduce(c, STX_OP_MEAN_DIM, v, attr, n, 1);
	V centred = onnx_2(c, STX_OP_SUB, v, mean);
	V var = onnx_reduce(c, STX_OP_MEAN_DIM, square(c, centred), attr, n, 1);
	V dev = onnx_2(c, STX_OP_ADD, onnx_1(c, STX_OP_SQRT, var),
		       onnx_number(c, 1e-9, onnx_dtype(v)));
	out[0] = onnx_cast(c, onnx_2(c, STX_OP_DIV, centred, dev), onnx_dtype(x));
	return c->err;
}

static stx_err map_global_pool(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t dims[STX_MAX_DIMS];
	int n = 0;
	for (int i = 2; i < onnx_rank(x); i++)
		dims[n++] = i;
	if (!c->err && n == 0)
		return onnx_fail(c, STX_E_INVALID, "the input must have rank 3 or more");
	out[0] = onnx_reduce(c, (enum stx_op)onnx_arg(c), x, dims, n, 1);
	return c->err;
}

/* ---- scans ---- */

/* exclusive: shifted by one, the identity first. */
static stx_err map_scan(struct onnx *c, V *out)
{
	static const enum stx_op ops[] = { STX_OP_CUMSUM, STX_OP_CUMPROD };
	V x = onnx_in(c, 0);
	int64_t axis = 0, pads[2 * STX_MAX_DIMS] = { 0 };
	int product = onnx_arg(c), reverse = onnx_int(c, "reverse", 0) != 0, rank = onnx_rank(x);
	onnx_known_ints(c, onnx_in(c, 1), "the axis", &axis, 1);
	int dim = onnx_axis(c, axis, rank);
	if (reverse && rank)
		x = onnx_reverse(c, x, dim);
	if (c->err)
		return c->err;
	struct stx_arg a[3] = { stx_arg_tensor(x), stx_arg_int(c->g, dim),
				stx_arg_dtype(onnx_dtype(x)) };
	V y = onnx_call(c, ops[product], a, 3);
	if (onnx_int(c, "exclusive", 0) && rank && !c->err) {
		struct stx_arg one =
			onnx_is_float(x) ? stx_arg_scalar_f(product) : stx_arg_scalar_i(product);
		pads[2 * (rank - 1 - dim)] = 1;
		pads[2 * (rank - 1 - dim) + 1] = -1;
		struct stx_arg p[3] = { stx_arg_tensor(y),
					stx_arg_ints(c->g, pads, 2 * (uint32_t)rank), one };
		y = onnx_call(c, STX_OP_PAD, p, 3);
	}
	out[0] = reverse && rank ? onnx_reverse(c, y, dim) : y;
	return c->err;
}

const struct onnx_mapping onnx_reduce_map[] = {
	{ "ReduceSum", map_reduce, R_SUM },
	{ "ReduceMean", map_reduce, R_MEAN },
	{ "ReduceMax", map_reduce, R_MAX },
	{ "ReduceMin", map_reduce, R_MIN },
	{ "ReduceProd", map_reduce, R_PROD },
	{ "ReduceL1", map_reduce, R_L1 },
	{ "ReduceL2", map_reduce, R_L2 },
	{ "ReduceLogSum", map_reduce, R_LOGSUM },
	{ "ReduceLogSumExp", map_reduce, R_LOGSUMEXP },
	{ "ReduceSumSquare", map_reduce, R_SUMSQUARE },
	{ "ArgMax", map_argreduce, STX_OP_ARGMAX },
	{ "ArgMin", map_argreduce, STX_OP_ARGMIN },
	{ "Softmax", map_softmax, 0 },
	{ "LogSoftmax", map_softmax, 1 },
	{ "Hardmax", map_softmax, 2 },
	{ "LpNormalization", map_lp_norm, 0 },
	{ "MeanVarianceNormalization", map_mean_variance, 0 },
	{ "GlobalAveragePool", map_global_pool, STX_OP_MEAN_DIM },
	{ "GlobalMaxPool", map_global_pool, STX_OP_AMAX },
	{ "CumSum", map_scan, 0 },
	{ "CumProd", map_scan, 1 },
	{ NULL, NULL, 0 },
};
