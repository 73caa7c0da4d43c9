/* externals.c: the calls that a plan may ask for by name. A plan that asks for another is refused
 * when it is loaded. */
#include <stdio.h>
#include <string.h>

#include "calls.h"
#include "cublaslt.h"
#include "cudnn.h"
#include "dtype.h"

static const struct stx__external table[] = {
	{ .name = "interpret", .run = stx__interpret },
	{ .name = STX_CALL_MATMUL,
	  .on_cuda = 1,
	  .bind = stx__matmul_bind,
	  .library = &stx__matmul_library,
	  .run = stx__call_run,
	  .release = stx__call_release,
	  .ways = stx__call_ways,
	  .run_way = stx__call_run_way,
	  .digests = stx__call_digests },
	{ .name = STX_CALL_ATTENTION,
	  .on_cuda = 1,
	  .bind = stx__attention_bind,
	  .library = &stx__attention_library,
	  .run = stx__call_run,
	  .release = stx__call_release,
	  .ways = stx__call_ways,
	  .run_way = stx__call_run_way,
	  .digests = stx__call_digests },
	{ .name = STX_CALL_CONV,
	  .on_cuda = 1,
	  .bind = stx__conv_bind,
	  .library = &stx__conv_library,
	  .run = stx__call_run,
	  .release = stx__call_release,
	  .ways = stx__call_ways,
	  .run_way = stx__call_run_way,
	  .digests = stx__call_digests },
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

uint32_t stx__external_value(const struct stax_artifact *a, const struct stx__step *s, int64_t arg)
{
	return stx_plan_u32s(&a->plan, s->plan->args)[arg];
}

uint8_t stx__external_type(const struct stax_artifact *a, const struct stx__step *s, int64_t arg)
{
	return a->plan.values[stx__external_value(a, s, arg)].dtype;
}

int stx__external_fits(const struct stax_artifact *a, const struct stx__context *x,
		       const struct stx__step *s, int64_t arg, int64_t offset, int rank,
		       const int64_t *sizes, const int64_t *strides)
{
	int64_t last = offset, step;
	int64_t n = x->values[stx__external_value(a, s, arg)].bytes /
		    stx_dtype_bytes(stx__external_type(a, s, arg));
	if (offset < 0)
		return 0;
	for (int i = 0; i < rank; i++)
		if (sizes[i] < 1 || strides[i] < 0 ||
		    __builtin_mul_overflow(sizes[i] - 1, strides[i], &step) ||
		    __builtin_add_overflow(last, step, &last))
			return 0;
	return last < n;
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

/* Of the kernels that the call stands for. */
static void digest_of_steps(const struct stax_artifact *a, const struct stx__step *s,
			    struct stx_digest *out)
{
	memset(out, 0, sizeof *out);
	for (uint32_t i = 1; i <= s->covers; i++) {
		struct stx_digest both[2] = { *out };
		if (s[i].kernel == STX_PLAN_NONE)
			continue;
		memcpy(both[1].b, a->plan.kernels[s[i].kernel].digest, sizeof both[1].b);
		*out = stx_digest_of(both, sizeof both);
	}
}

void stx__way_of_kernel(const struct stax_artifact *a, const struct stx__step *s,
			struct stx__way *w)
{
	const struct stx_plan *p = &a->plan;
	const struct stx_plan_kernel *k;
	struct stx_digest d;
	char hex[STX_DIGEST_HEX];
	*w = (struct stx__way){ .is_kernel = 1 };
	if (s->covers) {
		digest_of_steps(a, s, &d);
		stx_digest_hex(&d, hex);
		snprintf(w->name, sizeof w->name, "%u kernels %.12s", s->covers, hex);
		return;
	}
	k = &p->kernels[s->kernel];
	memcpy(d.b, k->digest, sizeof d.b);
	stx_digest_hex(&d, hex);
	snprintf(w->name, sizeof w->name, "kernel %.12s %s", hex,
		 stx_plan_string(p, s->code < p->h->nkernels
					    ? k->config
					    : p->configs[s->code - p->h->nkernels].text));
}
