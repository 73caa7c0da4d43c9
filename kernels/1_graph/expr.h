/* expr.h
 * symbolic integer index expressions: hash-consed, simplified when built, with cached intervals.
 *
 * An expression is an id into its context; equal expressions have equal ids (within one context).
 * Canonical form: constant + sorted sum of 64-bit coefficient times monomial; a monomial is a
 * sorted product of atoms; an atom is a loop variable, a size symbol, floordiv, truncdiv, mod, min,
 * max or an indirect (run-time) value. Static sizes are the constant case. Arithmetic is over the
 * integers: a coefficient that leaves 64 bits makes the result STX_EX_BAD, which is sticky, never
 * wrapped. A context belongs to one request (its memory is the arena's) and one thread. Sources:
 * seed 000 6.4, 6.8 (Definition 6.4, Proposition 6.4); conformance IR-13, VR-*, LV-*. */
#ifndef STX_EXPR_H
#define STX_EXPR_H

#include <stdint.h>

#include "arena.h"
#include "bytes.h"
#include "status.h"

typedef uint32_t stx_ex; /* 0 is STX_EX_BAD: overflow or out of memory */
#define STX_EX_BAD 0u
/* Nesting of divisions, mods, min, max: what recursion over an expression may rely on. */
#define STX_EX_MAX_DEPTH 96

struct stx_exprs;

enum stx_atom_kind {
	STX_ATOM_VAR,      /* loop variable: payload = variable number, range [0, size-1] */
	STX_ATOM_SYM,      /* size symbol: payload = symbol number, declared range and hint */
	STX_ATOM_INDIRECT, /* run-time value: payload = value number in the body that reads it */
	STX_ATOM_FLOORDIV, /* a floor-divided by b; b is a positive constant or provably positive */
	STX_ATOM_TRUNCDIV, /* a divided by b towards zero */
	STX_ATOM_MOD,      /* a - b*floordiv(a,b): in [0,b-1] for b > 0 */
	STX_ATOM_MIN,
	STX_ATOM_MAX
};

/* Closed interval; INT64_MIN / INT64_MAX stand for -inf / +inf. */
struct stx_interval {
	int64_t lo, hi;
};
#define STX_NEG_INF INT64_MIN
#define STX_POS_INF INT64_MAX

struct stx_exprs *stx_exprs_new(struct stx_arena *a); /* NULL when over budget */

stx_ex stx_ex_const(struct stx_exprs *x, int64_t c);
/* A fresh or known loop variable `number` with values [0, size-1]. The same number must always come
 * with the same size expression. Variables 0.. are iteration axes; callers number them. */
stx_ex stx_ex_var(struct stx_exprs *x, uint32_t number, stx_ex size);
stx_ex stx_ex_sym(struct stx_exprs *x, uint32_t number, struct stx_interval range, int64_t hint);
stx_ex stx_ex_indirect(struct stx_exprs *x, uint32_t value, struct stx_interval range);

stx_ex stx_ex_add(struct stx_exprs *x, stx_ex a, stx_ex b);
stx_ex stx_ex_sub(struct stx_exprs *x, stx_ex a, stx_ex b);
stx_ex stx_ex_mul(struct stx_exprs *x, stx_ex a, stx_ex b);
stx_ex stx_ex_muli(struct stx_exprs *x, stx_ex a, int64_t c);
stx_ex stx_ex_addi(struct stx_exprs *x, stx_ex a, int64_t c);
stx_ex stx_ex_floordiv(struct stx_exprs *x, stx_ex a, stx_ex b); /* BAD when b may be 0 */
stx_ex stx_ex_truncdiv(struct stx_exprs *x, stx_ex a, stx_ex b);
stx_ex stx_ex_ceildiv(struct stx_exprs *x, stx_ex a, stx_ex b); /* -floordiv(-a, b) */
stx_ex stx_ex_mod(struct stx_exprs *x, stx_ex a, stx_ex b);
stx_ex stx_ex_min(struct stx_exprs *x, stx_ex a, stx_ex b);
stx_ex stx_ex_max(struct stx_exprs *x, stx_ex a, stx_ex b);

/* Questions. */
int stx_ex_is_const(const struct stx_exprs *x, stx_ex e,
		    int64_t *value); /* 1 and *value (may be NULL) */
int stx_ex_equals(const struct stx_exprs *x, stx_ex e, int64_t value);
struct stx_interval stx_ex_interval(const struct stx_exprs *x, stx_ex e); /* sound, cached */
int64_t stx_ex_hint(const struct stx_exprs *x,
		    stx_ex e); /* value at the symbols' hints, variables at 0 */
/* Atoms in the written form, where shared operands count each time: what printing costs. Saturates
 * at 2^30. */
uint32_t stx_ex_weight(const struct stx_exprs *x, stx_ex e);
int stx_ex_uses_var(const struct stx_exprs *x, stx_ex e, uint32_t var);
int stx_ex_uses_kind(const struct stx_exprs *x, stx_ex e, enum stx_atom_kind k);
/* e = coeff*var + rest with rest free of var: 1, else 0 (var inside a division, product, ...). */
int stx_ex_linear_in(struct stx_exprs *x, stx_ex e, uint32_t var, stx_ex *coeff, stx_ex *rest);

/* Replaces atoms: var number i becomes map[i] for i < nmap where map[i] != STX_EX_BAD; rebuilt
 * through the simplifier. Iterative in the depth of the expression's nesting up to a documented
 * limit. */
stx_ex stx_ex_subst(struct stx_exprs *x, stx_ex e, const stx_ex *map, uint32_t nmap);
/* The same for indirect values and for symbols. */
stx_ex stx_ex_subst_kind(struct stx_exprs *x, stx_ex e, enum stx_atom_kind kind, const stx_ex *map,
			 uint32_t nmap);

/* Walking, for printers and emitters: a term is coeff * product(atoms). */
struct stx_ex_term {
	int64_t coeff;
	uint32_t natoms;
	const uint32_t *atoms; /* atom ids, sorted, repeated for powers */
};
struct stx_ex_atom {
	enum stx_atom_kind kind;
	uint32_t number; /* VAR, SYM, INDIRECT */
	stx_ex a, b;     /* operands of FLOORDIV .. MAX; for VAR a is the size */
	struct stx_interval range;
	int64_t hint;
};
uint32_t stx_ex_nterms(const struct stx_exprs *x, stx_ex e);
struct stx_ex_term stx_ex_term_at(const struct stx_exprs *x, stx_ex e, uint32_t i);
int64_t stx_ex_constant(const struct stx_exprs *x, stx_ex e); /* the constant part */
struct stx_ex_atom stx_ex_atom_at(const struct stx_exprs *x, uint32_t atom);

/* Evaluation with concrete values; *ok becomes 0 on overflow or division by 0. Arrays may be NULL
 * when no atom of that kind occurs. */
struct stx_ex_env {
	const int64_t *vars, *syms, *indirects;
	uint32_t nvars, nsyms, nindirects;
};
int64_t stx_ex_eval(const struct stx_exprs *x, stx_ex e, const struct stx_ex_env *env, int *ok);

/* Text: `128*i0 + r0_0`, `(3*i0) % 128`, `i0 // 4`, `min(i0, 3)`. Names of variables and symbols
 * come from `name` (kind, number) or, when NULL, are v0, s0, t0. Parsing is the inverse: `find`
 * resolves a name to an expression or STX_EX_BAD. */
typedef void stx_ex_name_fn(void *ctx, enum stx_atom_kind kind, uint32_t number, char *out,
			    size_t cap);
typedef stx_ex stx_ex_find_fn(void *ctx, const char *name, size_t n);
void stx_ex_print(const struct stx_exprs *x, stx_ex e, stx_ex_name_fn *name, void *ctx,
		  struct stx_bytes *out);
/* Parses from *p up to the first character that cannot continue the expression; advances *p. */
stx_err stx_ex_parse(struct stx_exprs *x, const char **p, const char *end, stx_ex_find_fn *find,
		     void *ctx, stx_ex *out, struct stx_diag *d);

#endif
