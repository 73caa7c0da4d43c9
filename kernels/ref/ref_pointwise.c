/* ref_pointwise.c: elementwise operators, element by element.
 *
 * Operands, numbers (scalars) included, are converted once, to the type computed in: their common
 * type after promotion, f32 when that is a smaller float. The result is rounded once to the node's
 * type. */
#include "ref_internal.h"

#include <math.h>
#include <string.h>

#include "passes.h"

struct op {
	struct stx__ref *r;
	const struct stx_node *n;
	enum stx_dtype t; /* computed in */
	uint32_t nops;
	const struct stx_tensor *tensor[3]; /* NULL: a scalar */
	union stx_scalar scalar[3];
	enum stx_dtype from[3], to[3]; /* type of a tensor operand, and what it is converted to */
	union stx_scalar alpha;
	int has_alpha;
	const struct stx_elem_program *program;
};

static union stx_scalar prim(enum stx_prim p, enum stx_dtype t, union stx_scalar a,
			     union stx_scalar b)
{
	return stx_prim_eval(p, t, t, a, b, b);
}

static union stx_scalar real(double v)
{
	return (union stx_scalar){ .f = v };
}
static union stx_scalar truth(int v)
{
	return (union stx_scalar){ .i = v != 0 };
}

static double rounded(enum stx_dtype t, double v)
{
	return t == STX_F64 ? v : (float)v;
}

/* ---- operators that are not one primitive ---- */

static union stx_scalar sum(const struct op *o, union stx_scalar a, union stx_scalar b, int minus)
{
	if (o->t == STX_BOOL)
		return truth(a.i | (o->has_alpha ? b.i & o->alpha.i : b.i));
	if (o->has_alpha)
		b = prim(STX_P_MUL, o->t, b, o->alpha);
	return prim(minus ? STX_P_SUB : STX_P_ADD, o->t, a, b);
}

/* a mod b with the sign of b, PyTorch's rule for floats */
static double remainder_f(enum stx_dtype t, double a, double b)
{
	double m = fmod(a, b);

	return m != 0 && (b < 0) != (m < 0) ? rounded(t, m + b) : m;
}

/* B29: floor(a/b) of the exact quotient as near as floats allow, through fmod */
static double floor_div_f(enum stx_dtype t, double a, double b)
{
	double m, q, f;

	if (b == 0)
		return a / b;
	m = fmod(a, b);
	q = rounded(t, rounded(t, a - m) / b);
	if (m != 0 && (b < 0) != (m < 0))
		q = rounded(t, q - 1);
	if (q == 0)
		return copysign(0, rounded(t, a / b));
	f = floor(q);
	return rounded(t, q - f) > 0.5 ? rounded(t, f + 1) : f;
}

static union stx_scalar divide(const struct op *o, union stx_scalar a, union stx_scalar b,
			       int is_floor)
{
	if (!stx_dtype_is_float(o->t))
		return prim(is_floor ? STX_P_FLOORDIV : STX_P_DIV, o->t, a, b);
	if (is_floor)
		return real(floor_div_f(o->t, a.f, b.f));
	return real(trunc(prim(STX_P_DIV, o->t, a, b).f));
}

static union stx_scalar sign(enum stx_dtype t, union stx_scalar a)
{
	switch (stx_dtype_kind(t)) {
	case STX_KIND_FLOAT: return real((a.f > 0) - (a.f < 0)); /* NaN gives 0, as in PyTorch */
	case STX_KIND_INT: return (union stx_scalar){ .i = (a.i > 0) - (a.i < 0) };
	default: return (union stx_scalar){ .u = a.u != 0 };
	}
}

static union stx_scalar clamp(const struct op *o, union stx_scalar a, union stx_scalar b,
			      union stx_scalar c)
{
	int low = o->n->args[1].kind != STX_ARG_NONE, high = o->n->args[2].kind != STX_ARG_NONE;

	if (low)
		a = prim(STX_P_MAX, o->t, a, b);
	return high ? prim(STX_P_MIN, o->t, a, low ? c : b) : a;
}

static union stx_scalar logical(const struct op *o, union stx_scalar a, union stx_scalar b)
{
	switch (o->n->op) {
	case STX_OP_LOGICAL_AND: return truth(a.i && b.i);
	case STX_OP_LOGICAL_OR: return truth(a.i || b.i);
	case STX_OP_LOGICAL_XOR: return truth(!a.i != !b.i);
	default: return truth(!a.i);
	}
}

/* A float to a power that has a function of its own (NUMERICS.md). */
static int is_plain_power(const struct op *o)
{
	double p = o->scalar[1].f;

	return o->n->op == STX_OP_POW_SCALAR && stx_dtype_is_float(o->t) &&
	       (p == 2 || p == -1 || p == 0.5 || (p == 3 && o->t == STX_F32));
}

static union stx_scalar plain_power(enum stx_dtype t, double a, double p)
{
	return real(rounded(t, p == 2 ? a * a : p == 3 ? a * a * a : p == -1 ? 1 / a : sqrt(a)));
}

static union stx_scalar apply(const struct op *o, union stx_scalar a, union stx_scalar b,
			      union stx_scalar c)
{
	int is_float = stx_dtype_is_float(o->t);
	enum stx_prim p = (enum stx_prim)stx_op_info(o->n->op)->prim;

	switch (o->n->op) {
	case STX_OP_ADD:
	case STX_OP_ADD_SCALAR: return sum(o, a, b, 0);
	case STX_OP_SUB:
	case STX_OP_SUB_SCALAR: return sum(o, a, b, 1);
	case STX_OP_RSUB:
	case STX_OP_RSUB_SCALAR: return sum(o, b, a, 1);
	case STX_OP_DIV_SCALAR_MODE:
	case STX_OP_DIV_MODE: return divide(o, a, b, !strcmp(o->n->args[2].u.str, "floor"));
	case STX_OP_FLOOR_DIVIDE: return divide(o, a, b, 1);
	case STX_OP_FMOD_SCALAR: return prim(STX_P_REM, o->t, a, b);
	case STX_OP_REMAINDER:
	case STX_OP_REMAINDER_SCALAR:
		return is_float ? real(remainder_f(o->t, a.f, b.f)) : prim(STX_P_MOD, o->t, a, b);
	case STX_OP_SIGN: return sign(o->t, a);
	case STX_OP_RECIPROCAL: return prim(STX_P_DIV, o->t, real(1), a);
	case STX_OP_LOGICAL_AND:
	case STX_OP_LOGICAL_OR:
	case STX_OP_LOGICAL_XOR:
	case STX_OP_LOGICAL_NOT: return logical(o, a, b);
	case STX_OP_ISNAN: return truth(is_float && isnan(a.f));
	case STX_OP_ISINF: return truth(is_float && isinf(a.f));
	case STX_OP_WHERE: return a.i ? b : c;
	case STX_OP_CLAMP_TENSOR:
	case STX_OP_CLAMP: return clamp(o, a, b, c);
	case STX_OP_MUL:
	case STX_OP_MUL_SCALAR:
		return o->t == STX_BOOL ? truth(a.i & b.i) : prim(STX_P_MUL, o->t, a, b);
	case STX_OP_FLOOR:
	case STX_OP_CEIL:
	case STX_OP_TRUNC:
	case STX_OP_ROUND: return is_float ? prim(p, o->t, a, b) : a;
	case STX_OP_POW_SCALAR:
		return is_plain_power(o) ? plain_power(o->t, a.f, b.f) : prim(p, o->t, a, b);
	default: return o->program ? stx_elementary_eval(o->program, a, b) : prim(p, o->t, a, b);
	}
}

/* ---- operands ---- */

static int is_scaled(enum stx_op op)
{
	return op == STX_OP_ADD || op == STX_OP_ADD_SCALAR || op == STX_OP_SUB ||
	       op == STX_OP_SUB_SCALAR || op == STX_OP_RSUB_SCALAR || op == STX_OP_RSUB;
}

static void add_operand(struct op *o, uint32_t i)
{
	const struct stx_arg *a = &o->n->args[i];
	uint32_t k = o->nops;

	if (k == 3)
		return;
	if (a->kind == STX_ARG_TENSOR) {
		o->tensor[k] = stx__ref_arg(o->r, o->n, i);
		o->from[k] = (enum stx_dtype)o->tensor[k]->dtype;
		o->to[k] = o->n->op == STX_OP_WHERE && i == 0 ? STX_BOOL : o->t;
		o->nops++;
	} else if (a->kind == STX_ARG_SCALAR) {
		o->scalar[k] = stx__ref_scalar(a, o->t);
		o->nops++;
	}
}

static stx_err prepare(struct op *o, struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_op_info *info = stx_op_info(n->op);
	uint32_t last = is_scaled(n->op) ? 2 : n->nargs;
	enum stx_dtype t = stx_infer_operand_dtype(n);

	*o = (struct op){ .r = r, .n = n, .t = stx__ref_work(t) };
	for (uint32_t i = 0; i < last; i++)
		add_operand(o, i);
	if (is_scaled(n->op)) {
		o->alpha = stx__ref_scalar(&n->args[2], o->t);
		o->has_alpha = stx__ref_scalar_f(&n->args[2]) != 1;
	}
	if (info->prim >= STX_P_FIRST_ELEMENTARY && stx_dtype_is_float(o->t) &&
	    !is_plain_power(o)) {
		o->program = stx__ref_program(
			r, stx_elementary_for((enum stx_prim)info->prim, n->outs[0].dtype), o->t);
		if (!o->program)
			return stx__ref_fail(r, n, STX_E_NOMEM, "out of memory");
	}
	return 0;
}

static union stx_scalar fetch(const struct op *o, uint32_t k, int64_t off)
{
	return stx__ref_cast(o->to[k], o->from[k], stx__ref_load(o->tensor[k], off));
}

#define BLOCK 64 /* elements computed together: elementary functions are faster so */

static void apply_block(const struct op *o, union stx_scalar v[3][BLOCK], union stx_scalar *r,
			int n)
{
	if (o->program) {
		stx_elementary_eval_n(o->program, v[0], v[1], r, (size_t)n);
		return;
	}
	for (int i = 0; i < n; i++)
		r[i] = apply(o, v[0][i], v[1][i], v[2][i]);
}

stx_err stx__ref_pointwise(struct stx__ref *r, const struct stx_node *n)
{
	enum stx_dtype out_t = n->outs[0].dtype, has;
	union stx_scalar v[3][BLOCK] = { 0 }, got[BLOCK];
	struct stx__ref_walk w;
	struct stx_tensor *out;
	uint32_t at[3];
	struct op o;
	stx_err e = prepare(&o, r, n);

	if (e)
		return e;
	out = stx__ref_result(r, n);
	if (!out)
		return stx__ref_error(r);
	/* comparisons and predicates give bool; all others what they compute in */
	has = out_t == STX_BOOL ? STX_BOOL : o.t;
	stx__ref_walk_start(&w, out->rank, out->sizes);
	for (uint32_t k = 0; k < o.nops; k++)
		at[k] = o.tensor[k] ? stx__ref_walk_broadcast(&w, o.tensor[k]) : 0;
	for (int64_t done = 0; w.left > 0;) {
		int m = 0;

		for (; m < BLOCK && w.left > 0; m++, stx__ref_walk_next(&w))
			for (uint32_t k = 0; k < o.nops; k++)
				v[k][m] = o.tensor[k] ? fetch(&o, k, w.off[at[k]]) : o.scalar[k];
		apply_block(&o, v, got, m);
		for (int i = 0; i < m; i++)
			stx__ref_store(out, done++, stx__ref_cast(out_t, has, got[i]));
	}
	return 0;
}

stx_err stx__ref_assert(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *t = stx__ref_arg(r, n, 0);
	union stx_scalar v =
		stx__ref_cast(STX_BOOL, (enum stx_dtype)t->dtype, stx__ref_load(t, t->offset));

	return v.i ? 0
		   : stx__ref_fail(r, n, STX_E_MISMATCH, "assertion failed: %s", n->args[1].u.str);
}
