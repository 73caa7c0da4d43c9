/* plan_write.h
 * state of one data plan that is being written, shared by plan_*.c only. */
#ifndef STX_PLAN_WRITE_H
#define STX_PLAN_WRITE_H

#include "codegen.h"
#include "gpu.h"

struct stx__plan_slot { /* expression -> number, open addressing */
	stx_ex e;       /* STX_EX_BAD: empty */
	uint32_t number;
};

struct stx__plan {
	const struct stx_schedule *s;
	const struct stx_loops *l;
	struct stx_exprs *x;
	struct stx_arena *arena;
	struct stx_diag *d;
	stx_err err;
	const struct stx_gpu_choices *choices; /* GPU: of each kernel */
	struct stx_bytes configs, prepared;
	uint32_t nconfigs, nprepared;
	struct stx_bytes syms, values, kernels, steps, exprs, guards, arrays, code, strings, data;
	uint32_t nsyms, nvalues, nkernels, nsteps, nexprs, nguards;
	uint32_t *sym_of;   /* graph symbol -> plan symbol, STX_NONE when no input has that size */
	uint32_t *value_of; /* buffer -> value, STX_NONE */
	uint32_t *last_use; /* buffer -> step of its last use + 1, 0: none */
	struct stx__plan_slot *slots;
	uint32_t nslots;
	uint32_t *chosen_by; /* kernel -> string */
	struct stx_cpu_target cpu;
	struct stx_gpu_target gpu;
	int is_gpu;
};

/* Keeps the first error. */
stx_err stx__plan_fail(struct stx__plan *w, stx_err code, const char *node, const char *text);
stx_err stx__plan_oom(struct stx__plan *w);
/* Offset of the text, copied, in the area of strings. */
uint32_t stx__plan_string(struct stx__plan *w, const char *s);

/* ---- plan_expr.c ---- */
/* Number of e in the plan; equal expressions are written once. */
uint32_t stx__plan_expr(struct stx__plan *w, stx_ex e);
uint32_t stx__plan_expr_const(struct stx__plan *w, int64_t v);
/* Offset of their numbers in the area of arrays. */
uint32_t stx__plan_expr_array(struct stx__plan *w, const stx_ex *e, uint32_t n);
/* Writes the graph's size symbols and the guards of their ranges; fills w->sym_of. */
void stx__plan_syms(struct stx__plan *w);

#endif
