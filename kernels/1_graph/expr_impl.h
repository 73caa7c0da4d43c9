/* expr_impl.h
 * representation of index expressions, shared by expr.c, expr_div.c, expr_subst.c and expr_text.c
 * only. */
#ifndef STX_EXPR_IMPL_H
#define STX_EXPR_IMPL_H

#include "expr.h"
#include "hash.h"

#define STX_EX_MAX_TERMS  256        /* of one sum */
#define STX_EX_MAX_DEGREE 32         /* atoms in one product */
#define STX_EX_TOP_WEIGHT (1u << 30) /* where weights saturate */

struct ex_atom {
	uint8_t kind; /* enum stx_atom_kind */
	uint8_t depth;
	uint32_t number;
	uint32_t weight; /* of the written form, itself included */
	stx_ex a, b;
	struct stx_interval range;
	int64_t hint;
	uint64_t vars;  /* variable numbers mod 64 that occur inside */
	uint32_t kinds; /* atom kinds that occur inside, itself included */
};

struct ex_node {
	int64_t constant;
	uint32_t nterms;
	uint8_t depth;
	uint32_t kinds;
	uint32_t weight;
	uint64_t vars;
	const struct stx_ex_term *terms;
	struct stx_interval range;
	int64_t hint;
};

struct ex_table { /* open addressing, slot 0 = empty */
	uint32_t *slots;
	uint64_t *hashes;
	uint32_t n, cap;
};

struct stx_exprs {
	struct stx_arena *arena;
	STX_VEC(struct ex_node) nodes; /* [0] is STX_EX_BAD */
	STX_VEC(struct ex_atom) atoms;
	struct ex_table table, atom_table;
};

int64_t stx__sat(__int128 v);
int64_t stx__floor_div(int64_t a, int64_t b);
int64_t stx__floor_mod(int64_t a, int64_t b);
struct stx_interval stx__range_mul(struct stx_interval a, struct stx_interval b);
stx_ex stx__intern(struct stx_exprs *x, int64_t constant, const struct stx_ex_term *terms,
		   uint32_t nterms);
stx_ex stx__atom_expr(struct stx_exprs *x, const struct ex_atom *proto);
/* Rebuilds an atom of kind FLOORDIV .. MAX from new operands, through the simplifier. */
stx_ex stx__rebuild(struct stx_exprs *x, enum stx_atom_kind kind, stx_ex a, stx_ex b);

#endif
