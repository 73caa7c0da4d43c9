/* externals.c: the calls that a plan may ask for by name. A plan that asks for another is refused
 * when it is loaded. */
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "cublaslt.h"
#include "cudnn.h"

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
	{ .name = STX_CALL_CONV,
	  .on_cuda = 1,
	  .bind = stx__conv_bind,
	  .run = stx__conv_run,
	  .release = stx__conv_release,
	  .ways = stx__conv_ways,
	  .run_way = stx__conv_run_way,
	  .digests = stx__conv_digests },
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

int stx__external_attrs(const struct stax_artifact *a, const struct stx__context *x,
			const struct stx__step *s, uint32_t n, int64_t *out)
{
	const struct stx_plan_extern *c = stx_plan_extern_of(&a->plan, s->plan);
	const uint32_t *attrs = stx_plan_u32s(&a->plan, c->attrs);
	int ok = c->nattrs == n;
	for (uint32_t i = 0; ok && i < n; i++) {
		out[i] = x->exprs[attrs[i]];
		ok = x->expr_ok[attrs[i]];
	}
	return ok;
}

#define WORKSPACE_ALIGN 256u /* what libraries want; the plan's temporaries lie on 64 */

size_t stx__external_workspace(const struct stax_artifact *a, const struct stx__context *x,
			       const struct stx__step *s)
{
	size_t bytes = (size_t)x->values[stx_plan_extern_of(&a->plan, s->plan)->workspace].bytes;
	return bytes > WORKSPACE_ALIGN ? bytes - WORKSPACE_ALIGN : 0;
}

void *stx__external_workspace_at(const struct stx__step *s)
{
	uintptr_t at = (uintptr_t)s->frame.buffers[s->plan->nargs - 1];
	return (void *)((at + WORKSPACE_ALIGN - 1) & ~(uintptr_t)(WORKSPACE_ALIGN - 1));
}

void stx__way_of_kernel(const struct stax_artifact *a, const struct stx__step *s,
			struct stx__way *w)
{
	const struct stx_plan *p = &a->plan;
	const struct stx_plan_kernel *k = &p->kernels[s->kernel];
	struct stx_digest d;
	char hex[STX_DIGEST_HEX];
	*w = (struct stx__way){ .is_kernel = 1 };
	memcpy(d.b, k->digest, sizeof d.b);
	stx_digest_hex(&d, hex);
	snprintf(w->name, sizeof w->name, "kernel %.12s %s", hex,
		 stx_plan_string(p, s->code < p->h->nkernels
					    ? k->config
					    : p->configs[s->code - p->h->nkernels].text));
}
