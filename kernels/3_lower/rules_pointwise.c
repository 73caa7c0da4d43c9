/* rules_pointwise.c
 * elementwise operators: one helper for all (seed 000 listing 6.1; LO-06..LO-10, LO-20..LO-24).
 *
 * The helper broadcasts every tensor operand by dropping index terms, turns scalars into constants,
 * casts operands to the dtype the operator computes in (f32 for half precision), applies the
 * operator's steps and converts the result to the node's dtype. An operator is a primitive of the
 * op table or a row of `composites` below. Integer results that are exact functions of loop
 * variables become index expressions (LO-31, VR-06). */
#include <math.h>
#include <string.h>

#include "elementary.h"
#include "lower.h"
#include "passes.h"

#define MAX_STEPS 64

/* A MAP being built. A value is a number: operands first, steps after them. */
struct prog {
	struct stx__lower *l;
	const struct stx_node *n;
	enum stx_dtype work; /* of the computation: the common dtype, or f32 for half precision */
	struct stx__inner *operands[8];
	uint32_t nops;
	struct stx__step steps[MAX_STEPS];
	stx_ex ex[8 + MAX_STEPS]; /* value as an index expression, or STX_EX_BAD */
	uint32_t nsteps;
};
typedef uint16_t pv;

static enum stx_dtype pv_dtype(const struct prog *p, pv v)
{
	return v < p->nops ? p->operands[v]->dtype : p->steps[v - p->nops].dtype;
}

/* ---- index expressions for integer results ---- */

static int fits(struct prog *p, stx_ex e, enum stx_dtype t)
{
	struct stx_interval r, i = stx_ex_interval(p->l->ex, e);

	return e != STX_EX_BAD && stx__dtype_range(t, &r) && i.lo >= r.lo && i.hi <= r.hi &&
	       i.lo != STX_NEG_INF && i.hi != STX_POS_INF;
}

static stx_ex fold(struct prog *p, enum stx_prim op, stx_ex a, stx_ex b)
{
	struct stx_exprs *x = p->l->ex;
	int positive = b != STX_EX_BAD && stx_ex_interval(x, b).lo >= 1;

	switch (op) {
	case STX_P_ADD: return stx_ex_add(x, a, b);
	case STX_P_SUB: return stx_ex_sub(x, a, b);
	case STX_P_MUL: return stx_ex_mul(x, a, b);
	case STX_P_NEG: return stx_ex_muli(x, a, -1);
	case STX_P_MIN: return stx_ex_min(x, a, b);
	case STX_P_MAX: return stx_ex_max(x, a, b);
	case STX_P_FLOORDIV: return positive ? stx_ex_floordiv(x, a, b) : STX_EX_BAD;
	case STX_P_MOD: return positive ? stx_ex_mod(x, a, b) : STX_EX_BAD;
	case STX_P_DIV: return positive ? stx_ex_truncdiv(x, a, b) : STX_EX_BAD;
	case STX_P_REM:
		return positive && stx_ex_interval(x, a).lo >= 0 ? stx_ex_mod(x, a, b) : STX_EX_BAD;
	case STX_P_ABS: return stx_ex_interval(x, a).lo >= 0 ? a : STX_EX_BAD;
	case STX_P_CAST: return a;
	default: return STX_EX_BAD;
	}
}

static stx_ex fold_step(struct prog *p, enum stx_prim op, enum stx_dtype t, pv a, pv b)
{
	int arity = stx_prim_info(op)->arity;
	stx_ex e;

	if (arity > 2 || p->ex[a] == STX_EX_BAD || (arity == 2 && p->ex[b] == STX_EX_BAD))
		return STX_EX_BAD;
	e = fold(p, op, p->ex[a], arity == 2 ? p->ex[b] : STX_EX_BAD);
	return t != STX_BOOL && fits(p, e, t) ? e : STX_EX_BAD;
}

/* ---- emitting steps ---- */

static pv push(struct prog *p, struct stx__step s, stx_ex e)
{
	if (p->nsteps == MAX_STEPS) {
		stx__lower_fail(p->l, STX_E_INTERNAL, p->n, "too many steps in one operator");
		return 0;
	}
	p->steps[p->nsteps] = s;
	p->ex[p->nops + p->nsteps] = e;
	return (pv)(p->nops + p->nsteps++);
}

static pv op3(struct prog *p, enum stx_prim op, enum stx_dtype t, pv a, pv b, pv c)
{
	if (stx_prim_info(op)->result == STX_RESULT_BOOL)
		t = STX_BOOL;
	return push(p,
		    (struct stx__step){
			    .op = (uint8_t)op, .dtype = (uint8_t)t, .a = a, .b = b, .c = c },
		    fold_step(p, op, t, a, b));
}

static pv op2(struct prog *p, enum stx_prim op, pv a, pv b)
{
	return op3(p, op, pv_dtype(p, a), a, b, 0);
}

static pv op1(struct prog *p, enum stx_prim op, pv a)
{
	return op3(p, op, pv_dtype(p, a), a, 0, 0);
}

static pv cast(struct prog *p, pv a, enum stx_dtype t)
{
	return pv_dtype(p, a) == t ? a : op3(p, STX_P_CAST, t, a, 0, 0);
}

static pv pick(struct prog *p, pv cond, pv a, pv b)
{
	return op3(p, STX_P_SELECT, pv_dtype(p, a), cond, a, b);
}

static pv constant(struct prog *p, enum stx_dtype t, double v)
{
	union stx_scalar k = { .u = 0 };
	stx_ex e = STX_EX_BAD;

	if (stx_dtype_is_float(t))
		k.f = v;
	else
		k.i = (int64_t)v;
	if (!stx_dtype_is_float(t) && t != STX_BOOL)
		e = stx_ex_const(p->l->ex, k.i);
	return push(p, (struct stx__step){ .op = STX_B_CONST, .dtype = (uint8_t)t, .k = k }, e);
}

/* ---- operands ---- */

static pv operand(struct prog *p, struct stx__inner *fn)
{
	uint32_t i;

	if (!fn || p->nops == 8) {
		p->l->err = p->l->err ? p->l->err : STX_E_NOMEM;
		return 0;
	}
	/* The same non-trivial operand twice is played once; loads stay as written (LO-29). */
	for (i = 0; i < p->nops; i++)
		if (p->operands[i] == fn && fn->rule >= STX_IN_MAP)
			return (pv)i;
	p->operands[p->nops] = fn;
	p->ex[p->nops] = STX_EX_BAD;
	if (fn->rule == STX_IN_INDEX)
		p->ex[p->nops] = fn->u.ex;
	else if (fn->rule == STX_IN_CONST && stx_dtype_kind(fn->dtype) >= STX_KIND_UINT &&
		 !stx_dtype_is_float(fn->dtype) && fn->dtype != STX_U64)
		p->ex[p->nops] = stx_ex_const(p->l->ex, fn->u.k.i);
	return (pv)p->nops++;
}

static struct stx__inner *tensor(struct prog *p, uint32_t arg)
{
	return stx__inner_broadcast(p->l->g, stx__arg(p->l, p->n, arg), stx__node_shape(p->n));
}

/* A scalar as the constant the operator sees: converted once, to the dtype it computes in
 * (NUMERICS). */
static struct stx__inner *scalar(struct prog *p, uint32_t arg)
{
	return stx__inner_const(p->l->g, p->work, stx__node_shape(p->n),
				stx__scalar(&p->n->args[arg], p->work));
}

/* ---- composites of primitives ---- */

typedef pv composite_fn(struct prog *p, const pv *v);

static pv one(struct prog *p)
{
	return constant(p, p->work, 1);
}

static pv zero(struct prog *p)
{
	return constant(p, p->work, 0);
}

static pv c_add(struct prog *p, const pv *v)
{
	if (p->work == STX_BOOL)
		return op2(p, STX_P_OR, v[0], v[1]);
	return op2(p, STX_P_ADD, v[0], v[1]);
}

static pv c_sub(struct prog *p, const pv *v)
{
	return op2(p, STX_P_SUB, v[0], v[1]);
}

static pv c_rsub(struct prog *p, const pv *v)
{
	return op2(p, STX_P_SUB, v[1], v[0]);
}

static pv c_mul(struct prog *p, const pv *v)
{
	return op2(p, p->work == STX_BOOL ? STX_P_AND : STX_P_MUL, v[0], v[1]);
}

/* sign(m) differs from sign(b), and m is not 0. */
static pv wrong_sign(struct prog *p, pv m, pv b)
{
	pv z = zero(p);
	pv m_below = op2(p, STX_P_LT, m, z);
	pv b_below = op2(p, STX_P_LT, b, z);
	pv differs = op2(p, STX_P_NE, m_below, b_below);

	return op2(p, STX_P_AND, op2(p, STX_P_NE, m, z), differs);
}

static pv c_remainder(struct prog *p, const pv *v)
{
	pv m, wrong;

	if (!stx_dtype_is_float(p->work))
		return op2(p, STX_P_MOD, v[0], v[1]);
	m = op2(p, STX_P_REM, v[0], v[1]);
	wrong = wrong_sign(p, m, v[1]);
	return pick(p, wrong, op2(p, STX_P_ADD, m, v[1]), m);
}

/* Floor division through fmod (B29): exact where floor(a/b) rounds up wrongly. */
static pv float_floor_div(struct prog *p, const pv *v)
{
	pv m = op2(p, STX_P_REM, v[0], v[1]);
	pv q = op2(p, STX_P_DIV, v[0], v[1]);
	pv d = op2(p, STX_P_DIV, op2(p, STX_P_SUB, v[0], m), v[1]);
	pv wrong = wrong_sign(p, m, v[1]);
	pv unit = one(p), none = zero(p), half = constant(p, p->work, 0.5);
	pv f, low, r;

	d = pick(p, wrong, op2(p, STX_P_SUB, d, unit), d);
	f = op1(p, STX_P_FLOOR, d);
	low = op2(p, STX_P_GT, op2(p, STX_P_SUB, d, f), half);
	f = pick(p, low, op2(p, STX_P_ADD, f, unit), f);
	r = op2(p, STX_P_COPYSIGN, none, q);
	r = pick(p, op2(p, STX_P_NE, d, none), f, r);
	return pick(p, op2(p, STX_P_EQ, v[1], none), q, r);
}

static pv c_div_mode(struct prog *p, const pv *v)
{
	int is_floor;

	if (p->n->args[2].kind == STX_ARG_NONE)
		return op2(p, STX_P_DIV, v[0], v[1]);
	is_floor = !strcmp(p->n->args[2].u.str, "floor");
	if (!stx_dtype_is_float(p->work))
		return op2(p, is_floor ? STX_P_FLOORDIV : STX_P_DIV, v[0], v[1]);
	return is_floor ? float_floor_div(p, v)
			: op1(p, STX_P_TRUNC, op2(p, STX_P_DIV, v[0], v[1]));
}

static pv c_sign(struct prog *p, const pv *v)
{
	pv unit, none, r;

	if (p->work == STX_BOOL)
		return v[0];
	unit = one(p);
	r = none = zero(p);
	if (stx_dtype_kind(p->work) != STX_KIND_UINT) {
		pv below = op2(p, STX_P_LT, v[0], none);

		r = pick(p, below, constant(p, p->work, -1), none);
	}
	return pick(p, op2(p, STX_P_GT, v[0], none), unit, r);
}

static pv c_reciprocal(struct prog *p, const pv *v)
{
	return op2(p, STX_P_DIV, one(p), v[0]);
}

/* Common powers of floats are products, roots and quotients, as PyTorch's (NUMERICS). */
static pv c_pow_scalar(struct prog *p, const pv *v)
{
	const struct stx_arg *a = &p->n->args[1];
	double e = a->is_float ? a->u.f : (double)a->u.i;
	enum stx_dtype t = p->n->outs[0].dtype;
	pv x = v[0];

	if (stx_dtype_is_float(p->work) && e == 0.5)
		return op1(p, STX_P_SQRT, x);
	if (stx_dtype_is_float(p->work) && e == -0.5)
		return op1(p, stx_elementary_for(STX_P_RSQRT, t), x);
	if (!stx_dtype_is_float(p->work) || !(e == 1 || e == 2 || e == 3 || e == -1 || e == -2))
		return op2(p, stx_elementary_for(STX_P_POW, t), x, v[1]);
	if (fabs(e) > 1)
		x = op2(p, STX_P_MUL, v[0], v[0]);
	if (e == 3)
		x = op2(p, STX_P_MUL, x, v[0]);
	return e < 0 ? c_reciprocal(p, &x) : x;
}

static pv c_round_like(struct prog *p, const pv *v)
{
	return stx_dtype_is_float(p->work)
		       ? op1(p, (enum stx_prim)stx_op_info(p->n->op)->prim, v[0])
		       : v[0];
}

static pv c_isnan(struct prog *p, const pv *v)
{
	return stx_dtype_is_float(p->work) ? op1(p, STX_P_ISNAN, v[0]) : constant(p, STX_BOOL, 0);
}

static pv c_isinf(struct prog *p, const pv *v)
{
	if (!stx_dtype_is_float(p->work))
		return constant(p, STX_BOOL, 0);
	return op2(p, STX_P_EQ, op1(p, STX_P_ABS, v[0]), constant(p, p->work, INFINITY));
}

static pv truth(struct prog *p, pv v)
{
	enum stx_dtype t = pv_dtype(p, v);

	return t == STX_BOOL ? v : op2(p, STX_P_NE, v, constant(p, t, 0));
}

static pv c_logical(struct prog *p, const pv *v)
{
	enum stx_prim op = (enum stx_prim)stx_op_info(p->n->op)->prim;
	pv a = truth(p, v[0]);

	return stx_prim_info(op)->arity == 1 ? op1(p, op, a) : op2(p, op, a, truth(p, v[1]));
}

static pv c_where(struct prog *p, const pv *v)
{
	return pick(p, truth(p, v[0]), v[1], v[2]);
}

static pv c_clamp(struct prog *p, const pv *v)
{
	pv r = v[0];
	uint32_t k = 1;

	if (p->n->args[1].kind != STX_ARG_NONE)
		r = op2(p, STX_P_MAX, r, v[k++]);
	if (p->n->args[2].kind != STX_ARG_NONE)
		r = op2(p, STX_P_MIN, r, v[k]);
	return r;
}

static pv c_same(struct prog *p, const pv *v)
{
	(void)p;
	return v[0];
}

static composite_fn *const composites[STX_OP_COUNT] = {
	/* op                   steps          */
	[STX_OP_ADD] = c_add,
	[STX_OP_ADD_SCALAR] = c_add,
	[STX_OP_SUB] = c_sub,
	[STX_OP_SUB_SCALAR] = c_sub,
	[STX_OP_RSUB_SCALAR] = c_rsub,
	[STX_OP_MUL] = c_mul,
	[STX_OP_MUL_SCALAR] = c_mul,
	[STX_OP_DIV_MODE] = c_div_mode,
	[STX_OP_POW_SCALAR] = c_pow_scalar,
	[STX_OP_REMAINDER] = c_remainder,
	[STX_OP_SIGN] = c_sign,
	[STX_OP_RECIPROCAL] = c_reciprocal,
	[STX_OP_FLOOR] = c_round_like,
	[STX_OP_CEIL] = c_round_like,
	[STX_OP_TRUNC] = c_round_like,
	[STX_OP_ROUND] = c_round_like,
	[STX_OP_ISNAN] = c_isnan,
	[STX_OP_ISINF] = c_isinf,
	[STX_OP_LOGICAL_AND] = c_logical,
	[STX_OP_LOGICAL_OR] = c_logical,
	[STX_OP_LOGICAL_XOR] = c_logical,
	[STX_OP_LOGICAL_NOT] = c_logical,
	[STX_OP_WHERE] = c_where,
	[STX_OP_CLAMP] = c_clamp,
	[STX_OP_TO_COPY] = c_same,
	[STX_OP_CLONE] = c_same,
	[STX_OP_VIEW_DTYPE] = c_same,
};

int stx__pointwise_has_rule(enum stx_op op)
{
	/* an assertion is lowered by the driver: it has no value */
	return composites[op] || stx_op_info(op)->prim >= 0 || op == STX_OP_ASSERT;
}

/* ---- the helper ---- */

static int is_scalar_arg(const struct stx_arg *a)
{
	return a->kind == STX_ARG_SCALAR || a->kind == STX_ARG_INT || a->kind == STX_ARG_FLOAT ||
	       a->kind == STX_ARG_BOOL;
}

/* alpha of add and sub: 1 as an integer or a float. */
static int alpha_is_one(const struct stx_arg *a)
{
	return a->is_float ? a->u.f == 1 : a->u.i == 1;
}

static int has_alpha(enum stx_op op)
{
	return op == STX_OP_ADD || op == STX_OP_ADD_SCALAR || op == STX_OP_SUB ||
	       op == STX_OP_SUB_SCALAR || op == STX_OP_RSUB_SCALAR;
}

/* Operands of logical operators are compared with 0 in their own dtype. */
static int keeps_dtype(const struct prog *p, uint32_t i)
{
	return p->n->op == STX_OP_WHERE ? i == 0 : composites[p->n->op] == c_logical;
}

/* Gathers operands in argument order, cast to the working dtype. */
static void gather(struct prog *p, pv *v)
{
	uint32_t i, n = 0, ntensors = 0;
	uint32_t last = has_alpha(p->n->op) ? 2 : p->n->nargs;

	for (i = 0; i < last && n < 4 && !p->l->err; i++) {
		const struct stx_arg *a = &p->n->args[i];

		if (a->kind == STX_ARG_TENSOR) { /* in every schema before the scalars */
			v[n++] = operand(p, tensor(p, i));
			ntensors = n;
		} else if (is_scalar_arg(a)) {
			v[n++] = operand(p, scalar(p, i));
		}
	}
	if (has_alpha(p->n->op) && !alpha_is_one(&p->n->args[2]))
		v[n++] = operand(p, scalar(p, 2));
	for (i = 0; i < ntensors && !p->l->err; i++)
		v[i] = keeps_dtype(p, i) ? cast(p, v[i], stx__work_dtype(pv_dtype(p, v[i])))
					 : cast(p, v[i], p->work);
	if (has_alpha(p->n->op) && !alpha_is_one(&p->n->args[2]) && !p->l->err) {
		uint32_t scaled = p->n->op == STX_OP_RSUB_SCALAR ? 0 : 1;

		v[scaled] = c_mul(p, (pv[]){ v[scaled], v[n - 1] });
	}
}

static struct stx__inner *build(struct prog *p, pv result)
{
	struct stx__shape s = stx__node_shape(p->n);
	stx_ex e = p->ex[result];
	int64_t k;

	if (e != STX_EX_BAD && stx_ex_is_const(p->l->ex, e, &k))
		return stx__inner_const(p->l->g, pv_dtype(p, result), s,
					(union stx_scalar){ .i = k });
	if (e != STX_EX_BAD)
		return stx__inner_index(p->l->g, pv_dtype(p, result), s, e);
	if (result < p->nops)
		return p->operands[result];
	return stx__inner_map(p->l->g, s, p->operands, p->nops, p->steps, result - p->nops + 1u);
}

static pv apply(struct prog *p, const pv *v)
{
	const struct stx_op_info *info = stx_op_info(p->n->op);
	enum stx_prim op = stx_elementary_for((enum stx_prim)info->prim, p->n->outs[0].dtype);

	if (composites[p->n->op])
		return composites[p->n->op](p, v);
	if (!stx_prim_accepts(op, p->work)) {
		stx__lower_fail(p->l, STX_E_UNSUPPORTED, p->n, "%s does not take %s",
				info->overload, stx_dtype_name(p->work));
		return 0;
	}
	return stx_prim_info(op)->arity == 1 ? op1(p, op, v[0]) : op2(p, op, v[0], v[1]);
}

/* The bits of v as t, of the same width. A bool is its byte: 0 or 1, and true when not 0. */
static pv bitcast(struct prog *p, pv v, enum stx_dtype t)
{
	if (pv_dtype(p, v) == STX_BOOL)
		v = cast(p, v, STX_U8);
	if (t == STX_BOOL)
		return cast(p, bitcast(p, v, STX_U8), t);
	return pv_dtype(p, v) == t ? v : op3(p, STX_P_BITCAST, t, v, 0, 0);
}

struct stx__inner *stx__rule_pointwise(struct stx__lower *l, const struct stx_node *n)
{
	const struct stx_op_info *info = stx_op_info(n->op);
	struct prog p = { .l = l, .n = n };
	pv v[8] = { 0 }, r;

	if (!stx__pointwise_has_rule(n->op))
		return stx__lower_fail(l, STX_E_UNSUPPORTED, n, "%s has no lowering rule",
				       info->overload);
	p.work = stx__work_dtype(stx_infer_operand_dtype(n));
	if (n->op == STX_OP_TO_COPY || n->op == STX_OP_CLONE ||
	    n->op == STX_OP_VIEW_DTYPE) { /* one conversion, never through f32 */
		struct stx__inner *x = stx__arg(l, n, 0);

		if (!x || x->dtype == n->outs[0].dtype)
			return x;
		v[0] = operand(&p, x);
		r = n->op == STX_OP_VIEW_DTYPE ? bitcast(&p, v[0], n->outs[0].dtype)
					       : cast(&p, v[0], n->outs[0].dtype);
		return l->err ? NULL : build(&p, r);
	}
	gather(&p, v);
	if (l->err)
		return NULL;
	r = apply(&p, v);
	if (l->err)
		return NULL;
	r = cast(&p, r, n->outs[0].dtype);
	return l->err ? NULL : build(&p, r);
}
