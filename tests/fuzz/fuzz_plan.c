/* fuzz_plan.c: data plans and the objects that carry them: what is accepted can be read without
 * tests. */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static volatile uint64_t sink;

static void use(const struct stx_plan *p)
{
	int64_t *syms = calloc((size_t)p->h->nsyms + 1, sizeof *syms);
	for (uint32_t i = 0; syms && i < p->h->nsyms; i++)
		syms[i] = p->syms[i].hint;
	for (uint32_t i = 0; syms && i < p->h->nexprs; i++) {
		int ok = 1;
		sink += (uint64_t)stx_plan_eval(p, i, syms, &ok);
	}
	for (uint32_t i = 0; i < p->h->nvalues; i++) {
		const struct stx_plan_value *v = &p->values[i];
		sink += strlen(stx_plan_string(p, v->name));
		for (int k = 0; k < v->rank; k++)
			sink += p->exprs[stx_plan_u32s(p, v->sizes)[k]].off +
				p->exprs[stx_plan_u32s(p, v->strides)[k]].off;
	}
	for (uint32_t i = 0; i < p->h->nsteps; i++) {
		const struct stx_plan_step *t = &p->steps[i];
		if (t->kind != STX_STEP_LAUNCH && t->kind != STX_STEP_EXTERN)
			continue;
		for (uint32_t k = 0; k < t->nargs; k++)
			sink += p->values[stx_plan_u32s(p, t->args)[k]].kind;
		for (uint32_t k = 0;
		     t->kind == STX_STEP_EXTERN && k < stx_plan_extern_of(p, t)->nattrs; k++)
			sink += p->exprs[stx_plan_u32s(p, stx_plan_extern_of(p, t)->attrs)[k]].off;
	}
	free(syms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct stx_span plan;
	struct stx_plan p;
	uint8_t *copy = malloc(n ? n : 1); /* aligned, and exact for the sanitizer */
	if (!copy)
		return 0;
	if (n)
		memcpy(copy, data, n);
	if (!stx_plan_open((struct stx_span){ copy, n }, &p, NULL))
		use(&p);
	if (!stx_artifact_plan((struct stx_span){ copy, n }, &plan, NULL) && plan.n)
		sink += plan.at[0] + plan.at[plan.n - 1];
	sink += (uint64_t)stx_artifact_has_code((struct stx_span){ copy, n });
	free(copy);
	return 0;
}
