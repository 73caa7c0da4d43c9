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

static void code_free(struct stx__gpu_code *g, uint32_t ncubins, uint32_t nsteps)
{
	const struct stx__driver *q = stx__driver(NULL);
	void *before = NULL;
	if (!g)
		return;
	if (q && !q->context_get(&before) && !q->context_set(g->context)) {
		for (uint32_t i = 0; g->modules && i < ncubins; i++)
			if (g->modules[i])
				q->module_unload(g->modules[i]);
		if (g->constants)
			q->free(g->constants);
		stx__matmul_free(g, nsteps);
		q->context_set(before);
	}
	pthread_mutex_destroy(&g->lock);
	free(g->matmuls);
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
	if (!g || !(g->matmuls = calloc(h->nsteps + 1, sizeof *g->matmuls)) ||
	    !(g->modules = calloc(a->ncubins + 1, sizeof *g->modules)) ||
	    !(g->fns = calloc(a->ncubins + 1, sizeof *g->fns))) {
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
	uint32_t c = a->cubin_of[k];
	void *fn = NULL;
	int result = 0;
	if ((*out = atomic_load_explicit(&g->fns[c], memory_order_acquire)))
		return STX_E_OK;
	pthread_mutex_lock(&a->gpu->lock);
	if (!g->modules[c])
		result = q->module_load(&g->modules[c], a->cubins[c].at);
	if (!result)
		result = q->module_function(&fn, g->modules[c],
					    stx_plan_string(&a->plan, p->symbol));
	if (!result)
		atomic_store_explicit(&g->fns[c], fn, memory_order_release);
	pthread_mutex_unlock(&a->gpu->lock);
	*out = fn;
	return result ? stx__driver_fail(result,
					 "loading a kernel's code (was it compiled for this "
					 "GPU's architecture?)",
					 name, d)
		      : STX_E_OK;
}

static int by_symbol(const void *p, const void *q, void *ctx)
{
	const struct stx_plan *plan = ctx;
	return strcmp(stx_plan_string(plan, plan->kernels[*(const uint32_t *)p].symbol),
		      stx_plan_string(plan, plan->kernels[*(const uint32_t *)q].symbol));
}

/* Kernels of one symbol share their code, of which there is one module on a device. */
stx_err stx__gpu_new(struct stax_artifact *a, struct stx_diag *d)
{
	struct stx_plan *p = &a->plan;
	uint32_t n = p->h->nkernels, *order = STX_NEW_ARRAY(a->arena, uint32_t, n + 1);
	a->gpu = calloc(1, sizeof *a->gpu);
	if (a->gpu)
		pthread_mutex_init(&a->gpu->lock, NULL);
	a->cubins = STX_NEW_ARRAY(a->arena, struct stx_span, n + 1);
	a->cubin_of = STX_NEW_ARRAY(a->arena, uint32_t, n + 1);
	if (!a->gpu || !a->cubins || !a->cubin_of || !order)
		return stx_fail(d, STX_E_NOMEM, "load", "", "out of memory");
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof *order, by_symbol, p);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = order[i];
		const char *symbol = stx_plan_string(p, p->kernels[k].symbol);
		if ((!i || by_symbol(&order[i - 1], &k, p)) &&
		    stx_artifact_symbol(a->elf, symbol, &a->cubins[a->ncubins++]))
			return stx_fail(d, STX_E_CORRUPT, "load",
					stx_plan_string(p, p->kernels[k].name),
					"the artifact has no code for '%s'", symbol);
		a->cubin_of[k] = a->ncubins - 1;
	}
	return STX_E_OK;
}

void stx__gpu_code_free(struct stax_artifact *a)
{
	if (!a->gpu)
		return;
	for (int i = 0; i < a->gpu->n; i++)
		code_free(a->gpu->at[i], a->ncubins, a->plan.h->nsteps);
	pthread_mutex_destroy(&a->gpu->lock);
	free(a->gpu);
}
