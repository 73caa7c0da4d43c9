/* externals.c: the calls that a plan may ask for by name. A plan that asks for another is refused
 * when it is loaded. */
#include <string.h>

#include "client.h"
#include "cublaslt.h"

static const struct stx__external table[] = {
	{ .name = "interpret", .run = stx__interpret },
	{ .name = STX_CALL_MATMUL,
	  .on_cuda = 1,
	  .bind = stx__matmul_bind,
	  .run = stx__matmul_run,
	  .release = stx__matmul_release,
	  .ways = stx__matmul_ways,
	  .run_way = stx__matmul_run_way,
	  .digests = stx__matmul_digests },
};

const struct stx__external *stx__external_find(const char *name, int on_cuda)
{
	for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
		if (table[i].on_cuda == on_cuda && !strcmp(table[i].name, name))
			return &table[i];
	return NULL;
}

void stx__externals_release(const struct stax_artifact *a, struct stx__context *x)
{
	for (uint32_t i = 0; i < x->nsteps; i++) {
		struct stx__step *s = &x->steps[i];
		if (s->call && s->external->release)
			s->external->release((struct stax_artifact *)(uintptr_t)a, s);
	}
}

int stx__external_attr(const struct stax_artifact *a, const struct stx__context *x,
		       const struct stx__step *s, uint32_t i, int64_t *out)
{
	const struct stx_plan_extern *c = stx_plan_extern_of(&a->plan, s->plan);
	uint32_t e = stx_plan_u32s(&a->plan, c->attrs)[i];
	*out = x->exprs[e];
	return x->expr_ok[e];
}
