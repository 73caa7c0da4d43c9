/* decompose_activation.c: activations as arithmetic. They compute in f32 for the half types and
 * round once. */
#include <string.h>

#include "decompose.h"
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
	struct stx_val y = DIVS(CALL1(LOG1PEXP, xb), beta);
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
	out[0] = clamp(b, stx__operand(n, 0), *stx__arg(n, 1), *stx__arg(n, 2));
	return 0;
}

int stx__rule_silu(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_val x = stx__b_widened(b, n, 0);
	out[0] = stx__b_rounded(b, n, MUL(x, CALL1(SIGMOID, x)));
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

int stx__rule_gelu(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_val x = stx__b_widened(b, n, 0), y;
	if (!strcmp(stx__arg(n, 1)->u.str, "none")) {
		y = CALL1(ERF, MULS(x, 0.70710678118654752440)); /* 1/sqrt(2) */
	} else {
		struct stx_val cube = MUL(MUL(x, x), x);
		y = ADD(x, MULS(cube, 0.044715));
		y = CALL1(TANH, MULS(y, 0.79788456080286535588)); /* sqrt(2/pi) */
	}
	out[0] = stx__b_rounded(b, n, MUL(MULS(x, 0.5), ADDS(y, 1)));
	return 0;
}
