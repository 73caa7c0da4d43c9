/* decompose_activation.c: activations as arithmetic. They compute in f32 for the half types and
 * round once. */
#include <string.h>

#include "decompose.h"
#include "elementary.h"
#include "infer.h"

#define ADD(x, y)    stx__b_two(b, STX_OP_ADD, x, y)
#define MUL(x, y)    stx__b_two(b, STX_OP_MUL, x, y)
#define ADDS(x, s)   stx__b_scalar(b, STX_OP_ADD_SCALAR, x, s)
#define MULS(x, s)   stx__b_scalar(b, STX_OP_MUL_SCALAR, x, s)
#define DIVS(x, s)   stx__b_scalar(b, STX_OP_DIV_SCALAR, x, s)
#define CALL1(op, x) stx__b_one(b, STX_OP_##op, x)

static struct stx_val positive(struct stx__build *b, struct stx_val x)
{
	return stx__b_scalar(b, STX_OP_GT_SCALAR, x, 0);
}

int stx__rule_leaky_relu(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_val x = stx__b_widened(b, n, 0);
	struct stx_val y = MULS(x, stx__number(stx__arg(n, 1)));
	out[0] = stx__b_rounded(b, n, stx__b_where(b, positive(b, x), x, y));
	return 0;
}

/* Where x <= 0: alpha*scale*expm1(x*input_scale), else scale*x; NaN takes the second branch and
 * stays. */
int stx__rule_elu(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	double alpha = stx__number(stx__arg(n, 1)), scale = stx__number(stx__arg(n, 2));
	struct stx_val x = stx__b_widened(b, n, 0);
	struct stx_val low = stx__b_scalar(b, STX_OP_LE_SCALAR, x, 0);
	struct stx_val y = CALL1(EXPM1, MULS(x, stx__number(stx__arg(n, 3))));
	out[0] = stx__b_rounded(b, n, stx__b_where(b, low, MULS(y, alpha * scale), MULS(x, scale)));
	return 0;
}

int stx__rule_softplus(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	double beta = stx__number(stx__arg(n, 1));
	struct stx_val x = stx__b_widened(b, n, 0), xb = MULS(x, beta);
	struct stx_val high = stx__b_scalar(b, STX_OP_GT_SCALAR, xb, stx__number(stx__arg(n, 2)));
	int is_short = stx_elementary_is_short(n->outs[0].dtype);
	struct stx_val y = is_short ? CALL1(SHORT_LOG1PEXP, xb) : CALL1(LOG1PEXP, xb);
	y = DIVS(y, beta);
	out[0] = stx__b_rounded(b, n, stx__b_where(b, high, x, y));
	return 0;
}

static struct stx_val clamp(struct stx__build *b, struct stx_val x, struct stx_arg lo,
			    struct stx_arg hi)
{
	struct stx_arg a[] = { stx_arg_tensor(x), lo, hi };
	return stx__b_call(b, STX_OP_CLAMP, 3, a);
}

int stx__rule_hardtanh(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_arg lo = *stx__arg(n, 1), hi = *stx__arg(n, 2);
	if (!stx_dtype_is_float(n->outs[0].dtype)) {
		lo = stx_arg_scalar_i(lo.is_float ? (int64_t)lo.u.f : lo.u.i);
		hi = stx_arg_scalar_i(hi.is_float ? (int64_t)hi.u.f : hi.u.i);
	}
	out[0] = clamp(b, stx__operand(n, 0), lo, hi);
	return 0;
}

static struct stx_val sigmoid(struct stx__build *b, const struct stx_node *n, struct stx_val x)
{
	int is_short = stx_elementary_is_short(n->outs[0].dtype);
	return stx__b_one(b, is_short ? STX_OP_SHORT_SIGMOID : STX_OP_NEAR_SIGMOID, x);
}

int stx__rule_silu(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_val x = stx__b_widened(b, n, 0);
	out[0] = stx__b_rounded(b, n, MUL(x, sigmoid(b, n, x)));
	return 0;
}

/* hardsigmoid(x) = clamp(x + 3, 0, 6) / 6; hardswish(x) = x * clamp(x + 3, 0, 6) / 6 */
int stx__rule_hardsigmoid(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_val x = stx__b_widened(b, n, 0);
	struct stx_val y = clamp(b, ADDS(x, 3), stx_arg_scalar_f(0), stx_arg_scalar_f(6));
	out[0] = stx__b_rounded(b, n, DIVS(n->op == STX_OP_HARDSWISH ? MUL(x, y) : y, 6));
	return 0;
}

int stx__rule_mish(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_val x = stx__b_widened(b, n, 0);
	out[0] = stx__b_rounded(b, n, MUL(x, CALL1(TANH, CALL1(SOFTPLUS, x))));
	return 0;
}

#define SQRT_HALF 0.70710678118654752440
#define DENSITY   0.39894228040143267794 /* 1/sqrt(2 pi) */
#define ROOT_2_PI 0.79788456080286535588 /* sqrt(2/pi) */
#define CUBIC     0.044715

/* (1 + tanh(u))/2 = 1/(1 + e^-2u), u = sqrt(2/pi) (x + 0.044715 x^3): no cancellation in its tail */
static struct stx_val gelu_sigmoid(struct stx__build *b, const struct stx_node *n, struct stx_val x)
{
	struct stx_val u = ADDS(MULS(MUL(x, x), 2 * ROOT_2_PI * CUBIC), 2 * ROOT_2_PI);
	return sigmoid(b, n, MUL(x, u));
}

int stx__rule_gelu(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_val x = stx__b_widened(b, n, 0), y;
	if (strcmp(stx__arg(n, 1)->u.str, "none") != 0)
		y = MUL(x, gelu_sigmoid(b, n, x));
	else if (stx_elementary_is_short(n->outs[0].dtype))
		y = MUL(x, CALL1(SHORT_CDF, x));
	else
		y = MUL(MULS(x, 0.5), ADDS(CALL1(NEAR_ERF, x), 1));
	out[0] = stx__b_rounded(b, n, y);
	return 0;
}

/* s (1 + x (1 - s) 2u'), s = 1/(1 + e^-2u) */
static struct stx_val gelu_tanh_slope(struct stx__build *b, const struct stx_node *n,
				      struct stx_val x)
{
	struct stx_val s = gelu_sigmoid(b, n, x), du, rest = ADDS(MULS(s, -1), 1);
	du = ADDS(MULS(MUL(x, x), 6 * ROOT_2_PI * CUBIC), 2 * ROOT_2_PI);
	return MUL(s, ADDS(MUL(MUL(x, rest), du), 1));
}

/* cdf(x) + x * pdf(x), in the order of RM-27 */
static struct stx_val gelu_slope(struct stx__build *b, struct stx_val x)
{
	struct stx_val cdf = MULS(ADDS(CALL1(ERF, MULS(x, SQRT_HALF)), 1), 0.5);
	struct stx_val pdf = MULS(CALL1(EXP, MULS(MUL(x, x), -0.5)), DENSITY);
	return ADD(cdf, MUL(x, pdf));
}

int stx__rule_gelu_backward(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	enum stx_dtype t = stx__wide(n->outs[0].dtype);
	struct stx_val g = stx__b_cast(b, stx__operand(n, 0), t);
	struct stx_val x = stx__b_cast(b, stx__operand(n, 1), t), d;
	if (strcmp(stx__arg(n, 2)->u.str, "none") != 0)
		d = gelu_tanh_slope(b, n, x);
	else if (stx_elementary_is_short(n->outs[0].dtype))
		d = CALL1(SHORT_SLOPE, x);
	else
		d = gelu_slope(b, x);
	out[0] = stx__b_rounded(b, n, MUL(g, d));
	return 0;
}
