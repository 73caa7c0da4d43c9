/* cuda_code.c: an artifact's cubins and constants on the devices it runs on: modules are loaded
 * when a kernel is first launched on a device. Thread-safe: a lock around loading, atomics on the
 * way. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

#define MAX_DEVICES 16

struct stx__gpu_devices {
	pthread_mutex_t lock;
	struct stx__gpu_code *at[MAX_DEVICES];
	int n;
};

static struct stx__gpu_code *find(struct stx__gpu_devices *all, void *context)
{
	for (int i = 0; i < all->n; i++)
		if (all->at[i]->context == context)
			return all->at[i];
	return NULL;
}

static void code_free(struct stx__gpu_code *g, uint32_t nkernels)
{
	const struct stx__driver *q = stx__driver(NULL);
	void *before = NULL;
	if (!g)
		return;
	if (q && !q->context_get(&before) && !q->context_set(g->context)) {
		for (uint32_t i = 0; g->modules && i < nkernels; i++)
			if (g->modules[i])
				q->module_unload(g->modules[i]);
		if (g->constants)
			q->free(g->constants);
		q->context_set(before);
	}
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
	if (!g || !(g->modules = calloc(h->nkernels + 1, sizeof *g->modules)) ||
	    !(g->fns = calloc(h->nkernels + 1, sizeof *g->fns))) {
		code_free(g, 0);
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
		code_free(g, 0);
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
	if (!*out && a->gpu->n == MAX_DEVICES)
		e = stx_fail(d, STX_E_TOO_LARGE, "cuda", "",
			     "an artifact runs on %d contexts at most", MAX_DEVICES);
	if (!*out && !e && !(e = code_new(a, context, device, out, d)))
		a->gpu->at[a->gpu->n++] = *out;
	pthread_mutex_unlock(&a->gpu->lock);
	return e;
}

stx_err stx__gpu_function(struct stax_artifact *a, struct stx__gpu_code *g, uint32_t k, void **out,
			  struct stx_diag *d)
{
	const struct stx__driver *q = stx__driver(d);
	const struct stx_plan_kernel *p = &a->plan.kernels[k];
	const char *name = stx_plan_string(&a->plan, p->name);
	void *fn = NULL;
	int result = 0;
	if ((*out = atomic_load_explicit(&g->fns[k], memory_order_acquire)))
		return STX_E_OK;
	pthread_mutex_lock(&a->gpu->lock);
	if (!g->modules[k])
		result = q->module_load(&g->modules[k], a->cubins[k].at);
	if (!result)
		result = q->module_function(&fn, g->modules[k],
					    stx_plan_string(&a->plan, p->symbol));
	if (!result)
		atomic_store_explicit(&g->fns[k], fn, memory_order_release);
	pthread_mutex_unlock(&a->gpu->lock);
	*out = fn;
	return result ? stx__driver_fail(result,
					 "loading a kernel's code (was it compiled for this "
					 "GPU's architecture?)",
					 name, d)
		      : STX_E_OK;
}

stx_err stx__gpu_new(struct stax_artifact *a, struct stx_span elf, struct stx_diag *d)
{
	const struct stx_plan *p = &a->plan;
	uint32_t n = p->h->nkernels;
	const char **symbols = STX_NEW_ARRAY(a->arena, const char *, n + 1), *which;
	a->gpu = calloc(1, sizeof *a->gpu);
	a->cubins = STX_NEW_ARRAY(a->arena, struct stx_span, n + 1);
	if (!a->gpu || !a->cubins || !symbols)
		return stx_fail(d, STX_E_NOMEM, "load", "", "out of memory");
	pthread_mutex_init(&a->gpu->lock, NULL);
	for (uint32_t i = 0; i < n; i++)
		symbols[i] = stx_plan_string(p, p->kernels[i].symbol);
	stx_err e = stx_artifact_symbols(elf, symbols, n, a->cubins, &which);
	if (e == STX_E_NOMEM)
		return stx_fail(d, e, "load", "", "out of memory");
	if (e)
		return stx_fail(d, STX_E_CORRUPT, "load", "", "the artifact has no code for '%s'",
				which);
	for (uint32_t i = 0; i < n; i++) {
		uint8_t *copy = stx_arena_alloc(a->arena, a->cubins[i].n + 1);
		if (!copy)
			return stx_fail(d, STX_E_NOMEM, "load", "", "out of memory");
		memcpy(copy, a->cubins[i].at, a->cubins[i].n);
		a->cubins[i].at = copy;
	}
	return STX_E_OK;
}

void stx__gpu_code_free(struct stax_artifact *a)
{
	if (!a->gpu)
		return;
	for (int i = 0; i < a->gpu->n; i++)
		code_free(a->gpu->at[i], a->plan.h->nkernels);
	pthread_mutex_destroy(&a->gpu->lock);
	free(a->gpu);
}
