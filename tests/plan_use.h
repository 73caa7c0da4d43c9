/* plan_use.h
 * everything that a reader may do with an accepted data plan: for tests that give it damaged ones
 * under a sanitizer. */
#ifndef STX_TESTS_PLAN_USE_H
#define STX_TESTS_PLAN_USE_H

#include <stdlib.h>
#include <string.h>

#include "plan.h"

/* A sum of what was read, so that no read is optimised away. */
static inline uint64_t plan_use(const struct stx_plan *p)
{
	uint64_t sum = 0;
	int64_t *syms = calloc((size_t)p->h->nsyms + 1, sizeof *syms);
	for (uint32_t i = 0; syms && i < p->h->nsyms; i++)
		syms[i] = p->syms[i].hint;
	for (uint32_t i = 0; syms && i < p->h->nexprs; i++) {
		int ok = 1;
		sum += (uint64_t)stx_plan_eval(p, i, syms, &ok);
	}
	for (uint32_t i = 0; i < p->h->nvalues; i++) {
		const struct stx_plan_value *v = &p->values[i];
		sum += strlen(stx_plan_string(p, v->name));
		for (int k = 0; k < v->rank; k++)
			sum += p->exprs[stx_plan_u32s(p, v->sizes)[k]].off +
			       p->exprs[stx_plan_u32s(p, v->strides)[k]].off;
	}
	for (uint32_t i = 0; i < p->h->nkernels; i++) {
		uint32_t n;
		const struct stx_plan_prepared *q = stx_plan_prepared_of(p, i, &n);
		sum += strlen(stx_plan_string(p, p->kernels[i].symbol));
		for (uint32_t k = 0; k < n; k++)
			sum += strlen(stx_plan_string(p, q[k].symbol)) + q[k].points + q[k].bytes;
		const struct stx_plan_config *c = stx_plan_configs(p, i, &n);
		for (uint32_t k = 0; k < n; k++)
			sum += strlen(stx_plan_string(p, c[k].text)) + c[k].block[0];
	}
	for (uint32_t i = 0; i < p->h->nsteps; i++) {
		const struct stx_plan_step *t = &p->steps[i];
		if (t->kind != STX_STEP_LAUNCH && t->kind != STX_STEP_EXTERN)
			continue;
		for (uint32_t k = 0; k < t->nargs; k++)
			sum += p->values[stx_plan_u32s(p, t->args)[k]].kind;
		for (uint32_t k = 0;
		     t->kind == STX_STEP_EXTERN && k < stx_plan_extern_of(p, t)->nattrs; k++)
			sum += p->exprs[stx_plan_u32s(p, stx_plan_extern_of(p, t)->attrs)[k]].off;
		for (uint32_t k = 1; t->kind == STX_STEP_EXTERN && k <= t->covers; k++)
			sum += t[k].kind;
	}
	for (uint32_t i = 0; i < p->h->nguards; i++)
		sum += p->exprs[stx_plan_u32s(p, p->h->guards_off)[i]].off;
	free(syms);
	return sum;
}

#endif
