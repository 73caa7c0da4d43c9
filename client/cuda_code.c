/* cuda_code.c: an artifact's cubins and constants on the devices it runs on: modules are loaded
 * when a kernel is first launched on a device. Thread-safe: a lock around loading, atomics on the
 * way. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

static uint32_t ncodes(const struct stax_artifact *a)
{
	return a->plan.h->nkernels + a->plan.nconfigs; /* within the plan's 2^31 bytes */
}

static struct stx__gpu_code *find(struct stx__gpu_devices *all, void *context)
{
	for (int i = 0; i < all->n; i++)
		if (all->at[i]->context == context)
			return all->at[i];
	return NULL;
}

static void code_free(struct stx__gpu_code *g, uint32_t codes, uint32_t nsteps)
{
	const struct stx__driver *q = stx__driver(NULL);
	void *before = NULL;
	if (!g)
		return;
	if (q && !q->context_get(&before) && !q->context_set(g->context)) {
		for (uint32_t i = 0; g->modules && i < codes; i++)
			if (g->modules[i])
				q->module_unload(g->modules[i]);
		if (g->copy_module)
			q->module_unload(g->copy_module);
		if (g->constants)
			q->free(g->constants);
		stx__calls_drop(g, nsteps);
		q->context_set(before);
	}
	pthread_mutex_destroy(&g->lock);
	for (int i = 0; i < STX__NLIBRARIES; i++)
		free(g->library[i].kept);
	free(g->modules);
	free((void *)g->fns);
	free(g);
}

static stx_err code_new(struct stax_artifact *a, void *context, int device,
			struct stx__gpu_code **out, struct stx_diag *d)
{
	const struct stx__driver *q = stx__driver(d);
	const struct stx_plan_header *h = a->plan.h;
	struct stx__gpu_code *g = calloc(1, sizeof *g);
	int result = 0;
	if (g)
		pthread_mutex_init(&g->lock, NULL);
	if (!g || !(g->modules = calloc(ncodes(a) + 1u, sizeof *g->modules)) ||
	    !(g->fns = calloc(ncodes(a) + 1u, sizeof *g->fns))) {
		code_free(g, 0, 0);
		return stx_fail(d, STX_E_NOMEM, "cuda", "", "out of memory");
	}
	g->context = context;
	g->device = device;
	if (h->data_bytes && !(result = q->alloc(&g->constants, h->data_bytes)))
		result = q->copy(g->constants,
				 (stx__device_ptr)(uintptr_t)(a->plan_bytes + h->data_off),
				 h->data_bytes);
	if (result) {
		stx_err e = stx__driver_fail(result, "the constants", "", d);
		code_free(g, 0, 0);
		return e;
	}
	*out = g;
	return STX_E_OK;
}

stx_err stx__gpu_code(struct stax_artifact *a, struct stx__gpu_code **out, struct stx_diag *d)
{
	void *context;
	int device;
	stx_err e = stx__driver_context(&device, d);
	if (e)
		return e;
	stx__driver(d)->context_get(&context);
	pthread_mutex_lock(&a->gpu->lock);
	*out = find(a->gpu, context);
	if (!*out && a->gpu->n == STX__MAX_DEVICES)
		e = stx_fail(d, STX_E_TOO_LARGE, "cuda", "",
			     "an artifact runs on %d contexts at most", STX__MAX_DEVICES);
	if (!*out && !e && !(e = code_new(a, context, device, out, d)))
		a->gpu->at[a->gpu->n++] = *out;
	pthread_mutex_unlock(&a->gpu->lock);
	return e;
}

uint32_t stx__gpu_code_number(const struct stax_artifact *a, uint32_t k, uint32_t i)
{
	uint32_t n;
	const struct stx_plan_config *c = stx_plan_configs(&a->plan, k, &n);
	return i ? a->plan.h->nkernels + (uint32_t)(c - a->plan.configs) + i : k;
}

static const char *symbol_of(const struct stax_artifact *a, uint32_t code)
{
	const struct stx_plan *p = &a->plan;
	uint32_t n = p->h->nkernels;
	return stx_plan_string(p, code < n ? p->kernels[code].symbol : p->configs[code - n].symbol);
}

stx_err stx__gpu_function(struct stax_artifact *a, struct stx__gpu_code *g, uint32_t k,
			  uint32_t code, void **out, struct stx_diag *d)
{
	const struct stx__driver *q = stx__driver(d);
	void *fn = NULL;
	int result = 0;
	if (code < a->plan.h->nkernels)
		code = a->gpu->same[code];
	if ((*out = atomic_load_explicit(&g->fns[code], memory_order_acquire)))
		return STX_E_OK;
	pthread_mutex_lock(&a->gpu->lock);
	if (!g->modules[code])
		result = q->module_load(&g->modules[code], a->gpu->cubins[code].at);
	if (!result)
		result = q->module_function(&fn, g->modules[code], symbol_of(a, code));
	if (!result)
		atomic_store_explicit(&g->fns[code], fn, memory_order_release);
	pthread_mutex_unlock(&a->gpu->lock);
	*out = fn;
	return result ? stx__driver_fail(result,
					 "loading a kernel's code (was it compiled for this "
					 "GPU's architecture?)",
					 stx_plan_string(&a->plan, a->plan.kernels[k].name), d)
		      : STX_E_OK;
}

static int by_symbol(const void *p, const void *q, void *ctx)
{
	const struct stx_plan *plan = ctx;
	return strcmp(stx_plan_string(plan, plan->kernels[*(const uint32_t *)p].symbol),
		      stx_plan_string(plan, plan->kernels[*(const uint32_t *)q].symbol));
}

stx_err stx__gpu_add_code(struct stax_artifact *a, uint32_t code, struct stx_span cubin,
			  struct stx_diag *d)
{
	stx_err e = STX_E_OK;
	pthread_mutex_lock(&a->gpu->lock);
	if (!a->gpu->cubins[code].n) {
		uint8_t *copy = stx_arena_copy(a->arena, cubin.at, cubin.n);
		if (copy)
			a->gpu->cubins[code] = (struct stx_span){ copy, cubin.n };
		else
			e = stx_fail(d, STX_E_NOMEM, "cuda", "", "out of memory");
	}
	pthread_mutex_unlock(&a->gpu->lock);
	return e;
}

void stx__gpu_choose(struct stax_artifact *a, uint32_t k, uint32_t code)
{
	if (atomic_exchange(&a->gpu->active[k], code) != code)
		atomic_fetch_add(&a->gpu->epoch, 1);
}

/* Kernels of one symbol share their code, of which there is one module on a device. */
static stx_err share_code(struct stax_artifact *a, struct stx_diag *d)
{
	uint32_t n = a->plan.h->nkernels, *order = STX_NEW_ARRAY(a->arena, uint32_t, n + 1);
	a->gpu->same = STX_NEW_ARRAY(a->arena, uint32_t, n + 1);
	if (!order || !a->gpu->same)
		return stx_fail(d, STX_E_NOMEM, "load", "", "out of memory");
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof *order, by_symbol, &a->plan);
	for (uint32_t i = 0; i < n; i++)
		a->gpu->same[order[i]] = i && !by_symbol(&order[i - 1], &order[i], &a->plan)
						 ? a->gpu->same[order[i - 1]]
						 : order[i];
	return STX_E_OK;
}

stx_err stx__gpu_new(struct stax_artifact *a, struct stx_diag *d)
{
	const struct stx_plan *p = &a->plan;
	uint32_t n = p->h->nkernels;
	const char **symbols = STX_NEW_ARRAY(a->arena, const char *, n + 1), *which;
	a->gpu = calloc(1, sizeof *a->gpu);
	if (!a->gpu || !symbols)
		return stx_fail(d, STX_E_NOMEM, "load", "", "out of memory");
	pthread_mutex_init(&a->gpu->lock, NULL);
	a->gpu->calls_epoch = 1;
	a->gpu->cubins = STX_NEW_ARRAY(a->arena, struct stx_span, ncodes(a) + 1u);
	a->gpu->active = calloc(n + 1, sizeof *a->gpu->active);
	if (!a->gpu->cubins || !a->gpu->active)
		return stx_fail(d, STX_E_NOMEM, "load", "", "out of memory");
	for (uint32_t i = 0; i < n; i++)
		symbols[i] = stx_plan_string(p, p->kernels[i].symbol);
	stx_err e = stx_artifact_symbols(a->elf, symbols, n, a->gpu->cubins, &which);
	if (e == STX_E_NOMEM)
		return stx_fail(d, e, "load", "", "out of memory");
	if (e)
		return stx_fail(d, STX_E_CORRUPT, "load", "", "the artifact has no code for '%s'",
				which);
	for (uint32_t i = 0; i < n; i++)
		a->gpu->active[i] = i;
	return share_code(a, d);
}

void stx__gpu_code_free(struct stax_artifact *a)
{
	if (!a->gpu)
		return;
	for (int i = 0; i < a->gpu->n; i++)
		code_free(a->gpu->at[i], ncodes(a), a->plan.h->nsteps);
	stx__calls_free(a);
	free((void *)a->gpu->active);
	pthread_mutex_destroy(&a->gpu->lock);
	free(a->gpu);
}
