/* emit_llvm_hidden.c: whether the scores of a block of rows and keys all are -inf, as far as
 * comparisons of positions tell: a causal mask, a window.
 *
 * A comparison of two expressions that are linear in the row and in the key holds in the whole block
 * when it holds at the corner where their difference is least (or greatest): a few scalar
 * instructions. Conditions and selections are looked into to a limited depth. */
#include <math.h>

#include "emit_llvm_blocks.h"

struct corner { /* the rows and keys of a block, both ends */
	LLVMValueRef row[2], key[2];
};

/* The expression at the corner where it is least (or most); NULL: it is not linear in both axes. */
static LLVMValueRef end_of(struct stx__emit *e, stx_ex ex, const struct corner *c, int is_most)
{
	struct stx__attend *t = e->attend;
	const uint32_t loops[2] = { t->rows, t->keys };
	for (int j = 0; j < 2; j++) {
		stx_ex coeff, rest;
		int64_t by;
		uint32_t axis = e->k->insts.at[loops[j]].a;
		if (!stx_ex_linear_in(e->k->ex, ex, axis, &coeff, &rest) ||
		    !stx_ex_is_const(e->k->ex, coeff, &by))
			return NULL;
		set_axis(e, loops[j], (j ? c->key : c->row)[(by > 0) == is_most], 3);
	}
	return stx__ex_scalar(e, ex);
}

/* a - b of two values that are positions or numbers; BAD: they are not, or it may wrap. */
static stx_ex difference(struct stx__emit *e, uint32_t a, uint32_t b)
{
	stx_ex x[2];
	const uint32_t of[2] = { a, b };
	for (int j = 0; j < 2; j++) {
		const struct stx_kinst *i = &e->k->insts.at[of[j]];
		if (i->dtype != STX_I64 || (i->op != STX_K_INDEX && i->op != STX_K_CONST))
			return STX_EX_BAD;
		x[j] = i->op == STX_K_INDEX ? i->ex : stx_ex_const(e->k->ex, i->k.i);
		if (stx_ex_uses_kind(e->k->ex, x[j], STX_ATOM_INDIRECT))
			return STX_EX_BAD;
	}
	stx_ex d = stx_ex_sub(e->k->ex, x[0], x[1]);
	if (d == STX_EX_BAD)
		return d;
	struct stx_interval v = stx_ex_interval(e->k->ex, d); /* saturates */
	return v.lo == INT64_MIN || v.hi == INT64_MAX ? STX_EX_BAD : d;
}

#define MOST_NESTED 8 /* of conditions and selections that are looked into */

static LLVMValueRef either(struct stx__emit *e, LLVMValueRef a, LLVMValueRef b)
{
	return !a ? b : !b ? a : LLVMBuildOr(e->b, a, b, "");
}

static LLVMValueRef both(struct stx__emit *e, LLVMValueRef a, LLVMValueRef b)
{
	return !a || !b ? NULL : LLVMBuildAnd(e->b, a, b, "");
}

/* i1: condition n is `truth` in all of the block; NULL: that cannot be told. */
static LLVMValueRef always(struct stx__emit *e, uint32_t n, const struct corner *c, int truth,
			   int depth)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	if (depth == MOST_NESTED)
		return NULL;
	if (i->op == STX_P_AND || i->op == STX_P_OR) {
		LLVMValueRef a = always(e, i->a, c, truth, depth + 1),
			     b = always(e, i->b, c, truth, depth + 1);
		return (i->op == STX_P_AND) == truth ? both(e, a, b) : either(e, a, b);
	}
	if (i->op != STX_P_GT && i->op != STX_P_GE && i->op != STX_P_LT && i->op != STX_P_LE)
		return NULL;
	stx_ex d = difference(e, i->a, i->b);
	int above = (i->op == STX_P_GT || i->op == STX_P_GE) == truth; /* d > 0 or d >= 0 */
	int equal = (i->op == STX_P_GE || i->op == STX_P_LE) == truth;
	LLVMValueRef end = d == STX_EX_BAD ? NULL : end_of(e, d, c, !above);
	LLVMIntPredicate p =
		above ? (equal ? LLVMIntSGE : LLVMIntSGT) : (equal ? LLVMIntSLE : LLVMIntSLT);
	return end ? stx__icmp(e, p, end, stx__i64(e, 0)) : NULL;
}

/* i1: value n is -inf in all of the block; NULL: that cannot be told. */
static LLVMValueRef is_hidden(struct stx__emit *e, uint32_t n, const struct corner *c, int depth)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	if (i->op == STX_K_CONST)
		return i->k.f == -INFINITY ? LLVMConstInt(e->i1, 1, 0) : NULL;
	if (i->op != STX_P_SELECT || depth == MOST_NESTED)
		return NULL;
	LLVMValueRef a = is_hidden(e, i->b, c, depth + 1), b = is_hidden(e, i->c, c, depth + 1);
	LLVMValueRef yes = a ? both(e, a, always(e, i->a, c, 1, 0)) : NULL;
	LLVMValueRef no = b ? both(e, b, always(e, i->a, c, 0, 0)) : NULL;
	return either(e, either(e, yes, no), both(e, a, b));
}

LLVMValueRef stx__attend_hidden(struct stx__emit *e, const LLVMValueRef *rows,
				const LLVMValueRef *keys)
{
	struct corner c = { { rows[0], rows[1] }, { keys[0], keys[1] } };
	return is_hidden(e, e->attend->value[STX__SCORE], &c, 0);
}
