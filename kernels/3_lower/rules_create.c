/* rules_create.c
 * creation operators: constants and iotas, which never become buffers by themselves (LO-09, LO-31).
 */
#include "elementary.h"
#include "lower.h"

/* start + step*i as an index expression when it is exact in t. */
static struct stx__inner *integer_range(struct stx__lower *l, const struct stx_node *n,
					int64_t start, int64_t step)
{
	struct stx__shape s = stx__node_shape(n);
	stx_ex i = stx__axis(l->ex, 0, s.sizes[0]);
	stx_ex e = stx_ex_addi(l->ex, stx_ex_muli(l->ex, i, step), start);
	struct stx_interval r, v = stx_ex_interval(l->ex, e);
	int64_t k;

	if (e == STX_EX_BAD || v.lo == STX_NEG_INF || v.hi == STX_POS_INF)
		return stx__lower_fail(l, STX_E_UNSUPPORTED, n, "arange leaves 64-bit integers");
	if (!stx__dtype_range(n->outs[0].dtype, &r) || v.lo < r.lo || v.hi > r.hi) /* wraps */
		return stx__inner_cast(l->g, stx__inner_index(l->g, STX_I64, s, e),
				       n->outs[0].dtype);
	if (stx_ex_is_const(l->ex, e, &k))
		return stx__inner_const(l->g, n->outs[0].dtype, s, (union stx_scalar){ .i = k });
	return stx__inner_index(l->g, n->outs[0].dtype, s, e);
}

/* Floats: start + step*i in f64, rounded once to the node's dtype. */
static struct stx__inner *float_range(struct stx__lower *l, const struct stx_node *n)
{
	struct stx__shape s = stx__node_shape(n);
	struct stx__inner *x = stx__inner_index(l->g, STX_I64, s, stx__axis(l->ex, 0, s.sizes[0]));
	struct stx__step st[] = {
		{ .op = STX_P_CAST, .dtype = STX_F64 },
		{ .op = STX_B_CONST, .dtype = STX_F64, .k = stx__scalar(&n->args[2], STX_F64) },
		{ .op = STX_P_MUL, .dtype = STX_F64, .a = 1, .b = 2 },
		{ .op = STX_B_CONST, .dtype = STX_F64, .k = stx__scalar(&n->args[0], STX_F64) },
		{ .op = STX_P_ADD, .dtype = STX_F64, .a = 3, .b = 4 },
		{ .op = STX_P_CAST, .dtype = (uint8_t)n->outs[0].dtype, .a = 5 },
	};

	return x ? stx__inner_map(l->g, s, &x, 1, st, n->outs[0].dtype == STX_F64 ? 5 : 6) : NULL;
}

struct stx__inner *stx__rule_create(struct stx__lower *l, const struct stx_node *n)
{
	enum stx_dtype t = n->outs[0].dtype;

	if (n->op == STX_OP_FULL)
		return stx__inner_const(l->g, t, stx__node_shape(n), stx__scalar(&n->args[1], t));
	if (n->op != STX_OP_ARANGE)
		return stx__lower_fail(l, STX_E_UNSUPPORTED, n, "%s has no lowering rule",
				       stx_op_info(n->op)->overload);
	if (stx_dtype_is_float(t))
		return float_range(l, n);
	return integer_range(l, n, stx__scalar(&n->args[0], STX_I64).i,
			     stx__scalar(&n->args[2], STX_I64).i);
}
