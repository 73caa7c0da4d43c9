/* aside.c: memory of the steps that a call stands for: temporaries that no other step is given. The
 * plan has them behind all others in its workspace (4_schedule/memory.c); what runs allocate ends
 * before them, and where such steps are run after all they get memory of their own. */
#include <string.h>

#include "client.h"
#include "cuda.h"

int stx__aside_new(const struct stax_artifact *a, struct stx__context *x)
{
	const struct stx_plan *p = &a->plan;
	uint32_t end = 0; /* of the steps that the last call stands for */
	for (uint32_t i = 0; i < x->nsteps && !x->is_aside; i++)
		if (x->steps[i].covers &&
		    !(x->is_aside = STX_NEW_ARRAY(x->arena, uint8_t, p->h->nvalues + 1)))
			return 0;
	for (uint32_t i = 0; i < x->nsteps && x->is_aside; i++)
		for (uint32_t j = 0; j < (x->steps[i].plan ? x->steps[i].plan->nargs : 0); j++)
			x->is_aside[stx_plan_u32s(p, x->steps[i].plan->args)[j]] = 1;
	for (uint32_t i = 0; i < x->nsteps && x->is_aside; i++) {
		const struct stx__step *s = &x->steps[i];
		if (s->covers && i >= end)
			end = i + 1 + s->covers;
		else if (i < end)
			continue;
		if (s->kind == STX__STEP_COPY)
			x->is_aside[s->from] = x->is_aside[s->to] = 0;
		for (uint32_t j = 0; j < (s->plan ? s->plan->nargs : 0); j++)
			x->is_aside[stx_plan_u32s(p, s->plan->args)[j]] = 0;
	}
	return 1;
}

void stx__aside_bind(const struct stax_artifact *a, struct stx__context *x)
{
	const struct stx_plan *p = &a->plan;
	size_t most = 0, least = x->workspace_bytes;
	x->aside_bytes = 0;
	for (uint32_t i = 0; i < p->h->nvalues && x->is_aside; i++) {
		size_t at = (size_t)x->values[i].offset, bytes = (size_t)x->values[i].bytes;
		if (p->values[i].kind != STX_VALUE_TEMP)
			continue;
		if (x->is_aside[i])
			least = at < least ? at : least;
		else
			most = at + bytes > most ? at + bytes : most;
	}
	if (!x->is_aside || least < most)
		return; /* of another layout: all at once */
	x->aside_bytes = x->workspace_bytes - least;
	x->workspace_bytes = least;
}

static int is_foreign(const struct stx_env *env)
{
	return env && env->allocate;
}

stx_err stx__aside_take(const struct stax_artifact *a, struct stx__context *x,
			const struct stx_env *env, struct stx_diag *d)
{
	if (!x->aside_bytes || x->is_aside_taken)
		return STX_E_OK;
	if (!is_foreign(env) && x->aside_own_bytes < x->aside_bytes)
		stx__aside_free(x);
	char *at = !is_foreign(env) && x->aside ? x->aside : stx__gpu_alloc(env, x->aside_bytes);
	if (!at)
		return stx_fail(d, STX_E_NOMEM, "run", "",
				"no memory for the %zu bytes of steps that a library did not make",
				x->aside_bytes);
	if (is_foreign(env)) {
		x->aside_foreign = at;
	} else if (!x->aside) {
		x->aside = at;
		x->aside_own_bytes = x->aside_bytes;
	}
	for (uint32_t i = 0; i < a->plan.h->nvalues; i++)
		if (x->is_aside[i] && a->plan.values[i].kind == STX_VALUE_TEMP)
			x->values[i].ptr = at + ((size_t)x->values[i].offset - x->workspace_bytes);
	for (uint32_t i = 0; i < x->nfixed; i++)
		if (x->is_aside[x->fixed[i].value])
			x->buffers[x->fixed[i].slot] = x->values[x->fixed[i].value].ptr;
	x->is_aside_taken = 1;
	return STX_E_OK;
}

void stx__aside_end(struct stx__context *x, const struct stx_env *env)
{
	if (x->aside_foreign)
		stx__gpu_free(env, x->aside_foreign, x->aside_bytes);
	x->aside_foreign = NULL;
	x->is_aside_taken = 0;
}

void stx__aside_free(struct stx__context *x)
{
	if (x->aside)
		stx__gpu_free(NULL, x->aside, x->aside_own_bytes);
	x->aside = NULL;
	x->aside_own_bytes = 0;
}
