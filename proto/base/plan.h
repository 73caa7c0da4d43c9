/* plan.h
 * reading a data plan: validation, access, expression evaluation; and finding it in an artifact.
 * Shared by the client, the daemon's artifact checker and the tests. Nothing here allocates. */
#ifndef STX_PLAN_H
#define STX_PLAN_H

#include "bytes.h"
#include "stax_abi.h"
#include "status.h"

struct stx_plan { /* borrowed views into the plan's bytes */
	const struct stx_plan_header *h;
	const struct stx_plan_sym *syms;
	const struct stx_plan_value *values;
	const struct stx_plan_kernel *kernels;
	const struct stx_plan_step *steps;
	const struct stx_plan_expr *exprs;
	const struct stx_plan_config *configs; /* [nconfigs] */
	uint32_t nconfigs;
	const struct stx_plan_prepared *prepared; /* [nprepared] */
	uint32_t nprepared;
	const uint8_t *base;
};

/* Checks everything a later access relies on: magic, version, bounds of every table, string, array,
 * expression (well-formed bytecode within the stack limit), indices, step order (a value is not
 * used before ALLOC or after RELEASE). base must be 8-byte aligned. CORRUPT or VERSION on failure.
 */
stx_err stx_plan_open(struct stx_span bytes, struct stx_plan *out, struct stx_diag *d);

/* off: one of the string offsets of the plan's records. */
const char *stx_plan_string(const struct stx_plan *p, uint32_t off);
static inline const uint32_t *stx_plan_u32s(const struct stx_plan *p, uint32_t off)
{
	return (const uint32_t *)(const void *)(p->base + off);
}
/* What an EXTERN step says beyond its name and arguments. */
static inline const struct stx_plan_extern *stx_plan_extern_of(const struct stx_plan *p,
							       const struct stx_plan_step *s)
{
	return (const struct stx_plan_extern *)(const void *)(p->base + s->b);
}
/* The kernel that the step launches, or may launch; STX_PLAN_NONE: none. */
uint32_t stx_plan_step_kernel(const struct stx_plan *p, const struct stx_plan_step *s);
/* Its arguments: those of the step, without an external call's workspace. */
uint32_t stx_plan_step_nparams(const struct stx_plan *p, const struct stx_plan_step *s);
/* The configurations of kernel k, the heuristic choice first; *n 0: the plan names none. */
const struct stx_plan_config *stx_plan_configs(const struct stx_plan *p, uint32_t k, uint32_t *n);
/* Its operands that may be packed before runs; *n: how many. */
const struct stx_plan_prepared *stx_plan_prepared_of(const struct stx_plan *p, uint32_t k,
						     uint32_t *n);
/* Value of expression e with the given symbol values; *ok becomes 0 on overflow or division by 0.
 */
int64_t stx_plan_eval(const struct stx_plan *p, uint32_t e, const int64_t *syms, int *ok);

/* The plan as text, for `stax dump --stage plan`: a line a value, kernel and step. Opens it first.
 */
stx_err stx_plan_print(struct stx_span bytes, struct stx_bytes *out, struct stx_diag *d);

/* Guard i of p, below h->nguards, in postfix form: "s0 8 mod 0 eq". NOMEM. */
stx_err stx_plan_print_guard(const struct stx_plan *p, uint32_t i, struct stx_bytes *out);

/* The plan section of an ELF64 shared object in memory (bounds-checked parser; never dlopens). */
stx_err stx_artifact_plan(struct stx_span elf, struct stx_span *plan, struct stx_diag *d);
/* The bytes that n global object symbols name, within read-only sections: out[i] for names[i],
 * which may repeat. NOT_FOUND or CORRUPT (they lie outside of them) with the name in *which; NOMEM.
 * One pass over the symbol table. */
stx_err stx_artifact_symbols(struct stx_span elf, const char *const *names, uint32_t n,
			     struct stx_span *out, const char **which);
/* The one object symbol that a relocatable (a kernel's object from the compiler) defines in a
 * read-only section, and its bytes; *symbol lies in elf. NOT_FOUND, or CORRUPT. */
stx_err stx_object_symbol(struct stx_span elf, const char **symbol, struct stx_span *out);
/* 1 when the object has executable code (CPU kernels), else 0. Requires a valid ELF. */
int stx_artifact_has_code(struct stx_span elf);
/* An artifact ends in 8 bytes of magic and the SHA-256 of all before them: whoever has only the
 * file can tell that it is the one that was linked. Damage, not forgery: anybody can seal. */
stx_err stx_artifact_seal(struct stx_bytes *artifact); /* appends; STX_E_NOMEM */
stx_err stx_artifact_intact(struct stx_span artifact, struct stx_diag *d);

#endif
