/* infer_number.c: numbers among the arguments of operators on integer tensors. A number is
 * converted to the type the operator computes in. Where the operator then wraps anyway (add, sub,
 * mul and their alpha), or works on bits (and, or, xor), low bits of the number give the result of
 * the number itself. Elsewhere (comparisons, clamp, remainders, powers, fills) they would stand for
 * another number, so one outside the type is refused. */
#include "infer.h"

#include <math.h>
#include <stdio.h>

struct range {
	__int128 lo, hi;
};

static struct range range_of(enum stx_dtype t)
{
	int bits = 8 * stx_dtype_bytes(t);
	if (stx_dtype_kind(t) == STX_KIND_UINT)
		return (struct range){ 0, ((__int128)1 << bits) - 1 };
	return (struct range){ -((__int128)1 << (bits - 1)), ((__int128)1 << (bits - 1)) - 1 };
}

static stx_err refuse(const struct stx_node *n, const struct stx_arg *a, enum stx_dtype t,
		      struct stx_diag *d)
{
	struct range r = range_of(t);
	char v[40];
	if (a->is_float)
		snprintf(v, sizeof v, "%.17g", a->u.f);
	else
		snprintf(v, sizeof v, "%lld", (long long)a->u.i);
	return STX__INFER_FAIL(d, n,
			       "%s: the number %s does not fit %s (%lld to %llu); convert the "
			       "tensor to a wider type first",
			       stx_op_info(n->op)->overload, v, stx_dtype_name(t), (long long)r.lo,
			       (unsigned long long)r.hi);
}

static int is_checked(enum stx_dtype t, const struct stx_arg *a)
{
	return a->kind == STX_ARG_SCALAR && t != STX_BOOL && !stx_dtype_is_float(t);
}

/* 0: a has no integer value near any type's range. */
static int whole(const struct stx_arg *a, __int128 *v)
{
	if (a->is_float && !(fabs(a->u.f) < 0x1p66))
		return 0;
	*v = a->is_float ? (__int128)a->u.f : a->u.i;
	return 1;
}

stx_err stx__infer_number(const struct stx_node *n, const struct stx_arg *a, enum stx_dtype t,
			  struct stx_diag *d)
{
	struct range r;
	__int128 v;
	if (!is_checked(t, a))
		return 0;
	r = range_of(t);
	return whole(a, &v) && v >= r.lo && v <= r.hi ? 0 : refuse(n, a, t, d);
}

stx_err stx__infer_fill(const struct stx_node *n, const struct stx_arg *a, enum stx_dtype t,
			struct stx_diag *d)
{
	struct range r;
	__int128 v;
	if (!is_checked(t, a))
		return 0;
	r = range_of(t);
	if (stx_dtype_kind(t) == STX_KIND_UINT)
		r.lo = -r.hi;
	return whole(a, &v) && v >= r.lo && v <= r.hi ? 0 : refuse(n, a, t, d);
}

stx_err stx__infer_operand_numbers(const struct stx_node *n, enum stx_dtype t, struct stx_diag *d)
{
	stx_err e = 0;
	switch (n->op) {
	case STX_OP_ADD:
	case STX_OP_ADD_SCALAR:
	case STX_OP_SUB:
	case STX_OP_SUB_SCALAR:
	case STX_OP_RSUB:
	case STX_OP_RSUB_SCALAR:
	case STX_OP_MUL_SCALAR:
	case STX_OP_BITWISE_AND_SCALAR:
	case STX_OP_BITWISE_OR_SCALAR:
	case STX_OP_BITWISE_XOR_SCALAR: return 0;
	default: break;
	}
	for (uint32_t i = 0; !e && i < n->nargs; i++)
		e = stx__infer_number(n, &n->args[i], t, d);
	return e;
}
