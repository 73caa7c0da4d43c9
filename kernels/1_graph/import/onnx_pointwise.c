/* onnx_pointwise.c: elementwise ONNX operators, activations, casts. */
#include "onnx_import.h"

#include <math.h>
#include <string.h>

static stx_err map_unary(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	out[0] = onnx_1(c, (enum stx_op)onnx_arg(c), x);
	if (!c->err && !onnx_is_float(x) &&
	    onnx_is_float(out[0])) /* Erf of integers is an integer */
		out[0] = onnx_cast(c, out[0], onnx_dtype(x));
	return c->err;
}

/* The graph's sign of NaN is 0, as PyTorch's; ONNX's is NaN. */
static stx_err map_sign(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	out[0] = onnx_1(c, STX_OP_SIGN, x);
	if (!c->err && onnx_is_float(x))
		out[0] = onnx_where(c, onnx_1(c, STX_OP_ISNAN, x), x, out[0]);
	return c->err;
}

/* Before opset 7 broadcasting was by attribute: B aligned at `axis` of A. */
static V legacy_broadcast(struct onnx *c, V a, V b)
{
	int64_t axis, sizes[STX_MAX_DIMS];
	int n = 0;
	if (c->err || c->opset >= 7 || !onnx_int(c, "broadcast", 0) || !onnx_attr(c, "axis"))
		return b;
	axis = onnx_axis(c, onnx_int(c, "axis", 0), onnx_rank(a));
	for (int i = 0; i < onnx_rank(b); i++)
		sizes[n++] = onnx_dim(c, b, i);
	for (int64_t i = axis + onnx_rank(b); i < onnx_rank(a); i++)
		sizes[n++] = 1;
	return onnx_view(c, b, sizes, n);
}

static stx_err map_binary(struct onnx *c, V *out)
{
	V a = onnx_in(c, 0), b = legacy_broadcast(c, a, onnx_in(c, 1));
	out[0] = onnx_2(c, (enum stx_op)onnx_arg(c), a, b);
	return c->err;
}

static stx_err map_variadic(struct onnx *c, V *out)
{
	enum stx_op op = (enum stx_op)onnx_arg(c);
	V v = onnx_in(c, 0);
	for (unsigned i = 1; i < c->n->n_input; i++)
		v = onnx_2(c, op, v, onnx_in(c, i));
	out[0] = v;
	return c->err;
}

static stx_err map_mean(struct onnx *c, V *out)
{
	V v = onnx_in(c, 0);
	for (unsigned i = 1; i < c->n->n_input; i++)
		v = onnx_2(c, STX_OP_ADD, v, onnx_in(c, i));
	out[0] = onnx_2(c, STX_OP_DIV, v, onnx_number(c, (double)c->n->n_input, onnx_dtype(v)));
	return c->err;
}

static V div_mode(struct onnx *c, V a, V b, const char *mode)
{
	if (c->err)
		return NO_V;
	struct stx_arg args[3] = { stx_arg_tensor(a), stx_arg_tensor(b), stx_arg_str(c->g, mode) };
	return onnx_call(c, STX_OP_DIV_MODE, args, 3);
}

static stx_err map_div(struct onnx *c, V *out)
{
	V a = onnx_in(c, 0), b = legacy_broadcast(c, a, onnx_in(c, 1));
	out[0] = onnx_is_float(a) ? onnx_2(c, STX_OP_DIV, a, b) : div_mode(c, a, b, "trunc");
	return c->err;
}

static stx_err map_mod(struct onnx *c, V *out)
{
	int fmod_mode = onnx_int(c, "fmod", 0) != 0;
	V a = onnx_in(c, 0), b = onnx_in(c, 1);
	out[0] = onnx_2(c, fmod_mode ? STX_OP_FMOD : STX_OP_REMAINDER, a, b);
	return c->err;
}

static stx_err map_pow(struct onnx *c, V *out)
{
	V a = onnx_in(c, 0), b = legacy_broadcast(c, a, onnx_in(c, 1));
	enum stx_dtype base = onnx_dtype(a);
	struct stx_arg number[2] = { stx_arg_tensor(a) };
	if (!c->err && onnx_is_float(a) && onnx_is_const(b) && onnx_dtype(b) == base &&
	    onnx_rank(b) <= onnx_rank(a) && b.node->data.n == (size_t)stx_dtype_bytes(base) &&
	    onnx_known_scalar(c, b, "the exponent", &number[1]))
		out[0] = onnx_call(c, STX_OP_POW_SCALAR, number, 2); /* x^2 is x * x */
	else if (onnx_is_float(a) || !onnx_is_float(b))
		out[0] = onnx_2(c, STX_OP_POW, a, onnx_cast(c, b, base));
	else
		out[0] = onnx_cast(c, onnx_2(c, STX_OP_POW, onnx_cast(c, a, onnx_dtype(b)), b),
				   base);
	return c->err;
}

static stx_err map_shift(struct onnx *c, V *out)
{
	const char *dir = onnx_str(c, "direction", "");
	enum stx_op op = !strcmp(dir, "LEFT") ? STX_OP_SHL : STX_OP_SHR;
	if (strcmp(dir, "LEFT") && strcmp(dir, "RIGHT"))
		return onnx_unsupported_attr(c, "direction", dir);
	out[0] = onnx_2(c, op, onnx_in(c, 0), onnx_in(c, 1));
	return c->err;
}

static stx_err map_isinf(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), r = onnx_1(c, STX_OP_ISINF, x);
	int neg = onnx_int(c, "detect_negative", 1) != 0,
	    pos = onnx_int(c, "detect_positive", 1) != 0;
	V zero = onnx_number(c, 0, onnx_dtype(x));
	if (!neg && !pos)
		r = onnx_2(c, STX_OP_LOGICAL_AND, r, onnx_number(c, 0, STX_BOOL));
	else if (!neg)
		r = onnx_2(c, STX_OP_LOGICAL_AND, r, onnx_2(c, STX_OP_GT, x, zero));
	else if (!pos)
		r = onnx_2(c, STX_OP_LOGICAL_AND, r, onnx_2(c, STX_OP_LT, x, zero));
	out[0] = r;
	return c->err;
}

static stx_err map_cast(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	const char *name;
	enum stx_dtype t;
	if (c->opset < 6) {
		name = onnx_str(c, "to", "");
		t = stx_onnx_dtype_named(name);
	} else {
		int to = (int)onnx_int(c, "to", 0);
		name = stx_onnx_type_name(to);
		t = stx_onnx_dtype(to);
	}
	if (t == STX_DTYPE_NONE)
		return onnx_unsupported_attr(c, "to", name);
	out[0] = onnx_saturating_cast(c, x, t);
	return c->err;
}

/* The same bits; the width must be the same. */
static stx_err map_bitcast(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t to = onnx_int(c, "to", 0);
	enum stx_dtype t = stx_onnx_dtype((int)to);
	if (t == STX_DTYPE_NONE)
		return onnx_unsupported_attr(c, "to", stx_onnx_type_name((int)to));
	if (!c->err && stx_dtype_bytes(t) != stx_dtype_bytes(onnx_dtype(x)))
		return onnx_fail(c, STX_E_INVALID, "attribute to=%s has another width than %s",
				 stx_onnx_type_name((int)to), stx_dtype_name(onnx_dtype(x)));
	if (c->err)
		return c->err;
	struct stx_arg args[2] = { stx_arg_tensor(x), stx_arg_dtype(t) };
	out[0] = onnx_call(c, STX_OP_VIEW_DTYPE, args, 2);
	return c->err;
}

static stx_err map_cast_like(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), like = onnx_in(c, 1);
	out[0] = onnx_saturating_cast(c, x, onnx_dtype(like));
	return c->err;
}

static stx_err map_where(struct onnx *c, V *out)
{
	out[0] = onnx_where(c, onnx_in(c, 0), onnx_in(c, 1), onnx_in(c, 2));
	return c->err;
}

static stx_err map_identity(struct onnx *c, V *out)
{
	out[0] = onnx_has(c, 0) ? onnx_any(c, 0) : onnx_in(c, 0);
	return c->err;
}

/* Bounds by attribute before opset 11. A lower bound above the upper one gives the upper one. */
static stx_err map_clip(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), lo = NO_V, hi = NO_V;
	enum stx_dtype t = onnx_dtype(x);
	if (c->opset < 11) {
		if (onnx_attr(c, "min"))
			lo = onnx_number(c, onnx_float(c, "min", 0), t);
		if (onnx_attr(c, "max"))
			hi = onnx_number(c, onnx_float(c, "max", 0), t);
	} else {
		lo = onnx_opt(c, 1);
		hi = onnx_opt(c, 2);
	}
	if (lo.node)
		x = onnx_2(c, STX_OP_MAXIMUM, x, lo);
	if (hi.node)
		x = onnx_2(c, STX_OP_MINIMUM, x, hi);
	out[0] = x;
	return c->err;
}

/* ---- activations ---- */

static V constant_like(struct onnx *c, V x, double k)
{
	return onnx_number(c, k, onnx_dtype(x));
}

/* An activation is one operator: half precision computes in f32 inside and rounds once
 * (NUMERICS.md). */
static V wide_in(struct onnx *c)
{
	V x = onnx_in(c, 0);
	return onnx_is_float(x) && stx_dtype_bytes(onnx_dtype(x)) < 4 ? onnx_cast(c, x, STX_F32)
								      : x;
}

static stx_err narrow_out(struct onnx *c, V *out, V y)
{
	out[0] = onnx_cast(c, y, onnx_dtype(onnx_in(c, 0)));
	return c->err;
}

static V positive(struct onnx *c, V x)
{
	return onnx_2(c, STX_OP_GT, x, constant_like(c, x, 0));
}

static stx_err map_leaky_relu(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	V neg = onnx_2(c, STX_OP_LT, x, constant_like(c, x, 0));
	out[0] = onnx_where(c, neg,
			    onnx_mul(c, x, constant_like(c, x, onnx_float(c, "alpha", 0.01f))), x);
	return c->err;
}

static stx_err map_prelu(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), slope = onnx_in(c, 1);
	if (!c->err && c->opset < 7 && onnx_rank(slope) == 1 && onnx_rank(x) > 2) {
		int64_t sizes[STX_MAX_DIMS] = { onnx_dim(c, slope, 0) };
		int n = 1;
		while (n < onnx_rank(x) - 1)
			sizes[n++] = 1;
		slope = onnx_view(c, slope, sizes, n);
	}
	V neg = onnx_2(c, STX_OP_LT, x, constant_like(c, x, 0));
	out[0] = onnx_where(c, neg, onnx_mul(c, x, slope), x);
	return c->err;
}

static V exp_minus_1(struct onnx *c, V x)
{
	return onnx_2(c, STX_OP_SUB, onnx_1(c, STX_OP_EXP, x), constant_like(c, x, 1));
}

static stx_err map_elu(struct onnx *c, V *out)
{
	V x = wide_in(c);
	V neg = onnx_mul(c, exp_minus_1(c, x), constant_like(c, x, onnx_float(c, "alpha", 1)));
	return narrow_out(c, out,
			  onnx_where(c, onnx_2(c, STX_OP_LT, x, constant_like(c, x, 0)), neg, x));
}

static stx_err map_selu(struct onnx *c, V *out)
{
	V x = wide_in(c);
	double alpha = onnx_float(c, "alpha", 1.67326319217681884765625);
	double gamma = onnx_float(c, "gamma", 1.05070102214813232421875);
	V neg = onnx_mul(c, exp_minus_1(c, x), constant_like(c, x, alpha));
	V y = onnx_where(c, positive(c, x), x, neg);
	return narrow_out(c, out, onnx_mul(c, y, constant_like(c, x, gamma)));
}

static stx_err map_celu(struct onnx *c, V *out)
{
	V x = wide_in(c), zero = constant_like(c, x, 0);
	double alpha = onnx_float(c, "alpha", 1);
	V e = exp_minus_1(c, onnx_2(c, STX_OP_DIV, x, constant_like(c, x, alpha)));
	V neg = onnx_2(c, STX_OP_MINIMUM, zero, onnx_mul(c, e, constant_like(c, x, alpha)));
	return narrow_out(c, out, onnx_add(c, onnx_2(c, STX_OP_MAXIMUM, zero, x), neg));
}

static stx_err map_thresholded_relu(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	V above = onnx_2(c, STX_OP_GT, x, constant_like(c, x, onnx_float(c, "alpha", 1)));
	out[0] = onnx_where(c, above, x, constant_like(c, x, 0));
	return c->err;
}

static V hard_sigmoid(struct onnx *c, V x, double alpha, double beta)
{
	V y = onnx_add(c, onnx_mul(c, x, constant_like(c, x, alpha)), constant_like(c, x, beta));
	y = onnx_2(c, STX_OP_MAXIMUM, y, constant_like(c, x, 0));
	return onnx_2(c, STX_OP_MINIMUM, y, constant_like(c, x, 1));
}

static stx_err map_hard_sigmoid(struct onnx *c, V *out)
{
	return narrow_out(c, out,
			  hard_sigmoid(c, wide_in(c), onnx_float(c, "alpha", 0.2f),
				       onnx_float(c, "beta", 0.5)));
}

static stx_err map_hard_swish(struct onnx *c, V *out)
{
	V x = wide_in(c);
	return narrow_out(c, out, onnx_mul(c, x, hard_sigmoid(c, x, 1.0 / 6, 0.5)));
}

/* log(1 + e^x) = max(x, 0) + log1p(e^-|x|): no overflow at either end. */
V onnx_softplus(struct onnx *c, V x)
{
	return onnx_1(c, STX_OP_LOG1PEXP, x);
}

static stx_err map_softplus(struct onnx *c, V *out)
{
	return narrow_out(c, out, onnx_softplus(c, wide_in(c)));
}

static stx_err map_mish(struct onnx *c, V *out)
{
	V x = wide_in(c);
	return narrow_out(c, out, onnx_mul(c, x, onnx_1(c, STX_OP_TANH, onnx_softplus(c, x))));
}

static stx_err map_swish(struct onnx *c, V *out)
{
	V x = wide_in(c);
	double alpha = onnx_float(c, "alpha", 1);
	V s = onnx_1(c, STX_OP_SIGMOID,
		     alpha == 1 ? x : onnx_mul(c, x, constant_like(c, x, alpha)));
	return narrow_out(c, out, onnx_mul(c, x, s));
}

/* Swish of the first input times the second. */
static stx_err map_swiglu(struct onnx *c, V *out)
{
	V a = wide_in(c), b = onnx_cast(c, onnx_in(c, 1), onnx_dtype(a));
	double alpha = onnx_float(c, "alpha", 1);
	if (onnx_keeps_sizes(c, a, b, "the second input"))
		return c->err;
	V s = onnx_1(c, STX_OP_SIGMOID, onnx_mul(c, a, constant_like(c, a, alpha)));
	return narrow_out(c, out, onnx_mul(c, onnx_mul(c, a, s), b));
}

static stx_err map_softsign(struct onnx *c, V *out)
{
	V x = wide_in(c);
	V d = onnx_add(c, onnx_1(c, STX_OP_ABS, x), constant_like(c, x, 1));
	return narrow_out(c, out, onnx_2(c, STX_OP_DIV, x, d));
}

static stx_err map_binarizer(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	V over = onnx_2(c, STX_OP_GT, x, constant_like(c, x, onnx_float(c, "threshold", 0)));
	out[0] = onnx_cast(c, over, onnx_dtype(x));
	return c->err;
}

static stx_err map_shrink(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	double lambda = onnx_float(c, "lambd", 0.5), bias = onnx_float(c, "bias", 0);
	V b = constant_like(c, x, bias), l = constant_like(c, x, lambda),
	  zero = constant_like(c, x, 0);
	V low = onnx_2(c, STX_OP_LT, x, constant_like(c, x, -lambda));
	V high = onnx_2(c, STX_OP_GT, x, l);
	V y = onnx_where(c, high, onnx_2(c, STX_OP_SUB, x, b), zero);
	out[0] = onnx_where(c, low, onnx_add(c, x, b), y);
	return c->err;
}

static stx_err map_gelu(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	const char *how = onnx_str(c, "approximate", "none");
	if (strcmp(how, "none") && strcmp(how, "tanh"))
		return onnx_unsupported_attr(c, "approximate", how);
	if (c->err)
		return c->err;
	struct stx_arg args[2] = { stx_arg_tensor(x), stx_arg_str(c->g, how) };
	out[0] = onnx_call(c, STX_OP_GELU, args, 2);
	return c->err;
}

const struct onnx_mapping onnx_pointwise_map[] = {
	{ "Add", map_binary, STX_OP_ADD },
	{ "Sub", map_binary, STX_OP_SUB },
	{ "Mul", map_binary, STX_OP_MUL },
	{ "Div", map_div, 0 },
	{ "Mod", map_mod, 0 },
	{ "Pow", map_pow, 0 },
	{ "Max", map_variadic, STX_OP_MAXIMUM },
	{ "Min", map_variadic, STX_OP_MINIMUM },
	{ "Sum", map_variadic, STX_OP_ADD },
	{ "Mean", map_mean, 0 },
	{ "And", map_binary, STX_OP_LOGICAL_AND },
	{ "Or", map_binary, STX_OP_LOGICAL_OR },
	{ "Xor", map_binary, STX_OP_LOGICAL_XOR },
	{ "BitwiseAnd", map_binary, STX_OP_BITWISE_AND },
	{ "BitwiseOr", map_binary, STX_OP_BITWISE_OR },
	{ "BitwiseXor", map_binary, STX_OP_BITWISE_XOR },
	{ "BitShift", map_shift, 0 },
	{ "Equal", map_binary, STX_OP_EQ },
	{ "Less", map_binary, STX_OP_LT },
	{ "LessOrEqual", map_binary, STX_OP_LE },
	{ "Greater", map_binary, STX_OP_GT },
	{ "GreaterOrEqual", map_binary, STX_OP_GE },
	{ "Abs", map_unary, STX_OP_ABS },
	{ "Neg", map_unary, STX_OP_NEG },
	{ "Sign", map_sign, 0 },
	{ "Floor", map_unary, STX_OP_FLOOR },
	{ "Ceil", map_unary, STX_OP_CEIL },
	{ "Round", map_unary, STX_OP_ROUND },
	{ "Sqrt", map_unary, STX_OP_SQRT },
	{ "Reciprocal", map_unary, STX_OP_RECIPROCAL },
	{ "Exp", map_unary, STX_OP_EXP },
	{ "Log", map_unary, STX_OP_LOG },
	{ "Sin", map_unary, STX_OP_SIN },
	{ "Cos", map_unary, STX_OP_COS },
	{ "Tan", map_unary, STX_OP_TAN },
	{ "Asin", map_unary, STX_OP_ASIN },
	{ "Acos", map_unary, STX_OP_ACOS },
	{ "Atan", map_unary, STX_OP_ATAN },
	{ "Sinh", map_unary, STX_OP_SINH },
	{ "Cosh", map_unary, STX_OP_COSH },
	{ "Asinh", map_unary, STX_OP_ASINH },
	{ "Acosh", map_unary, STX_OP_ACOSH },
	{ "Atanh", map_unary, STX_OP_ATANH },
	{ "Erf", map_unary, STX_OP_ERF },
	{ "Tanh", map_unary, STX_OP_TANH },
	{ "Sigmoid", map_unary, STX_OP_SIGMOID },
	{ "Relu", map_unary, STX_OP_RELU },
	{ "Not", map_unary, STX_OP_LOGICAL_NOT },
	{ "BitwiseNot", map_unary, STX_OP_BITWISE_NOT },
	{ "IsNaN", map_unary, STX_OP_ISNAN },
	{ "IsInf", map_isinf, 0 },
	{ "Cast", map_cast, 0 },
	{ "BitCast", map_bitcast, 0 },
	{ "CastLike", map_cast_like, 0 },
	{ "Where", map_where, 0 },
	{ "Identity", map_identity, 0 },
	{ "Clip", map_clip, 0 },
	{ "LeakyRelu", map_leaky_relu, 0 },
	{ "PRelu", map_prelu, 0 },
	{ "Elu", map_elu, 0 },
	{ "Selu", map_selu, 0 },
	{ "Celu", map_celu, 0 },
	{ "ThresholdedRelu", map_thresholded_relu, 0 },
	{ "HardSigmoid", map_hard_sigmoid, 0 },
	{ "HardSwish", map_hard_swish, 0 },
	{ "Softplus", map_softplus, 0 },
	{ "Softsign", map_softsign, 0 },
	{ "Mish", map_mish, 0 },
	{ "Swish", map_swish, 0 },
	{ "SwiGLU", map_swiglu, 0 },
	{ "Shrink", map_shrink, 0 },
	{ "ai.onnx.ml.Binarizer", map_binarizer, 0 },
	{ "Gelu", map_gelu, 0 },
	{ NULL, NULL, 0 },
};
