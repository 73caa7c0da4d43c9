/* elementary.h
 * elementary functions as bodies over primitives: one table for CPU code, GPU code and the oracle.
 *
 * A body is written once against a builder; the kernel IR's builder expands it in place, the
 * recorder below turns it into a flat program that the oracle interprets. Bodies use neither FMA
 * nor reassociation, so every target computes the same bits (NUMERICS.md). f32 and f64 bodies exist
 * for every row of prims.def from STX_P_FIRST_ELEMENTARY on; f16 and bf16 compute through f32 and
 * round once, inserted by the expander. Integer POW and RELU have integer bodies. */
#ifndef STX_ELEMENTARY_H
#define STX_ELEMENTARY_H

#include <stddef.h>

#include "arena.h"
#include "prims.h"

typedef uint32_t stx_ev; /* value in a body being built */

struct stx_elem_builder {
	void *ctx;
	/* Appends one primitive (never an elementary one) with result dtype t; unused operands are
	 * 0. */
	stx_ev (*emit)(void *ctx, enum stx_prim op, enum stx_dtype t, stx_ev a, stx_ev b, stx_ev c);
	stx_ev (*constant)(void *ctx, enum stx_dtype t, union stx_scalar v);
};

/* Expands op on operands x (and y) of dtype t. Returns 0 when there is no body for that dtype. */
int stx_elementary_expand(struct stx_elem_builder *b, enum stx_prim op, enum stx_dtype t, stx_ev x,
			  stx_ev y, stx_ev *out);

/* f16 and bf16: the functions whose values such results round are shorter in f32 (NUMERICS.md). */
static inline int stx_elementary_is_short(enum stx_dtype result)
{
	return result == STX_F16 || result == STX_BF16;
}
/* What op computes by for a result of that type: its shorter form where there is one, else op. */
enum stx_prim stx_elementary_for(enum stx_prim op, enum stx_dtype result);

/* The recorded form, and the scalar interpreter used by the oracle. */
struct stx_elem_inst {
	uint8_t op; /* enum stx_prim, or STX_ELEM_CONST / STX_ELEM_ARG */
	uint8_t dtype;
	uint16_t a, b, c;
	union stx_scalar k; /* STX_ELEM_CONST: value; STX_ELEM_ARG: k.u = which operand */
};
#define STX_ELEM_CONST 254
#define STX_ELEM_ARG   255
#define STX_ELEM_MAX   1024 /* instructions of the longest body: a bound for builders' tables */
struct stx_elem_program {
	const struct stx_elem_inst *at;
	uint32_t n;
	uint32_t result;
};
/* Program in the arena; NULL when there is no body or the arena is out of budget. */
const struct stx_elem_program *stx_elementary_record(struct stx_arena *a, enum stx_prim op,
						     enum stx_dtype t);
union stx_scalar stx_elementary_eval(const struct stx_elem_program *p, union stx_scalar x,
				     union stx_scalar y);
/* The values of all its instructions: v is [p->n]. */
void stx_elementary_values(const struct stx_elem_program *p, union stx_scalar x, union stx_scalar y,
			   union stx_scalar *v);
/* The result over n elements, faster; y may be x when the function takes one operand. */
void stx_elementary_eval_n(const struct stx_elem_program *p, const union stx_scalar *x,
			   const union stx_scalar *y, union stx_scalar *out, size_t n);

/* One primitive on scalars, exactly as NUMERICS.md defines it (rounding to t included): the
 * reference semantics every emitter is tested against. src is the operands' dtype (CAST, BITCAST,
 * comparisons). */
union stx_scalar stx_prim_eval(enum stx_prim op, enum stx_dtype t, enum stx_dtype src,
			       union stx_scalar a, union stx_scalar b, union stx_scalar c);

#endif
