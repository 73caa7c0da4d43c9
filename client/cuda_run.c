/* cuda_run.c: the steps of a plan on the caller's device and stream. A launch is one call of the
 * driver: arguments are addresses that were written when the context was bound. Nothing waits. */
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "dtype.h"

#define HOST_MAPPED    2 /* CU_MEMHOSTALLOC_DEVICEMAP */
#define DISABLE_TIMING 2 /* CU_EVENT_DISABLE_TIMING */

static void *stream_of(const struct stx_env *env)
{
	return env ? env->stream : NULL;
}

/* ---- memory ---- */

void *stx__gpu_alloc(const struct stx_env *env, size_t bytes)
{
	const struct stx__driver *q = stx__driver(NULL);
	stx__device_ptr p = 0;
	if (env && env->allocate)
		return env->allocate(env->ctx, bytes ? bytes : 1, 256);
	return q && !q->alloc(&p, bytes ? bytes : 1) ? (void *)(uintptr_t)p : NULL;
}

void stx__gpu_free(const struct stx_env *env, void *p, size_t bytes)
{
	const struct stx__driver *q = stx__driver(NULL);
	if (env && env->allocate) {
		if (env->release)
			env->release(env->ctx, p, bytes);
	} else if (q && p) {
		q->free((stx__device_ptr)(uintptr_t)p);
	}
}

/* ---- binding ---- */

/* Each launch's list of the addresses of its arguments; 0: out of memory. */
static int list_arguments(const struct stax_artifact *a, struct stx__context *x,
			  struct stx__gpu_context *g)
{
	for (uint32_t i = 0; i < x->nsteps; i++) {
		struct stx__step *s = &x->steps[i];
		if (s->kernel == STX_PLAN_NONE)
			continue;
		const struct stx_plan_kernel *k = &a->plan.kernels[s->kernel];
		void **p = STX_NEW_ARRAY(x->arena, void *, s->nparams + k->nscalars + 2);
		if (!p)
			return 0;
		g->params[i] = p;
		for (uint32_t j = 0; j < s->nparams; j++)
			*p++ = (void *)(uintptr_t)&s->frame.buffers[j];
		for (uint32_t j = 0; j < k->nscalars; j++)
			*p++ = (void *)(uintptr_t)&s->frame.scalars[j];
		*p++ = &g->record_at;
		*p = &g->kernel[s->kernel];
	}
	return 1;
}

/* Complete, or NULL and *e. */
static struct stx__gpu_context *new_context(const struct stax_artifact *a, struct stx__context *x,
					    stx_err *e, struct stx_diag *d)
{
	const struct stx__driver *q = stx__driver(d);
	struct stx__gpu_context *g = STX_NEW(x->arena, struct stx__gpu_context);
	void *record = NULL;
	int result;
	if (!g || !(g->params = STX_NEW_ARRAY(x->arena, void **, x->nsteps + 1)) ||
	    !(g->kernel = STX_NEW_ARRAY(x->arena, int32_t, a->plan.h->nkernels + 1)) ||
	    !list_arguments(a, x, g)) {
		*e = stx_fail(d, STX_E_NOMEM, "cuda", "", "out of memory");
		return NULL;
	}
	for (uint32_t i = 0; i < a->plan.h->nkernels; i++)
		g->kernel[i] = (int32_t)i;
	if ((result = q->host_alloc(&record, sizeof *g->record, HOST_MAPPED)) ||
	    (result = q->host_device_ptr(&g->record_at, record, 0)) ||
	    (result = q->event_create(&g->done, DISABLE_TIMING))) {
		if (record)
			q->host_free(record);
		*e = stx__driver_fail(result, "the run's record", "", d);
		return NULL;
	}
	g->record = record;
	memset(g->record, 0, sizeof *g->record);
	return g;
}

/* A context's workspace serves one run at a time: a run on another stream waits for the last. */
static stx_err wait_for_last(struct stx__context *x, void *stream, struct stx_diag *d)
{
	struct stx__gpu_context *g = x->gpu;
	int result = 0;
	if (g->ran && g->stream != stream)
		result = stx__driver(d)->stream_wait(stream, g->done, 0);
	g->stream = stream;
	return result ? stx__driver_fail(result, "waiting for an earlier run", "", d) : STX_E_OK;
}

stx_err stx__gpu_bind(struct stax_artifact *a, struct stx__context *x, const struct stx_env *env,
		      struct stx_diag *d)
{
	struct stx__gpu_code *code;
	stx_err e = stx__gpu_code(a, &code, d);
	if (e)
		return e;
	if (!x->gpu && !(x->gpu = new_context(a, x, &e, d)))
		return e;
	if (x->gpu->code != code) {
		stx__externals_release(a, x);
		x->patched_for = NULL;
		for (uint32_t i = 0; i < a->plan.h->nvalues; i++)
			if (a->plan.values[i].kind == STX_VALUE_CONST)
				x->values[i].ptr = (void *)(uintptr_t)(code->constants +
								       a->plan.values[i].const_off);
		if (x->workspace && x->gpu->code)
			stx__gpu_free(NULL, x->workspace, x->own_bytes);
		stx__aside_free(x);
		x->workspace = NULL;
		x->own_bytes = 0;
		x->gpu->code = code;
	}
	return wait_for_last(x, stream_of(env), d);
}

/* ---- steps ---- */

static stx_err launch(struct stax_artifact *a, struct stx__context *x, uint32_t i, void *stream,
		      struct stx_diag *d)
{
	struct stx__step *s = &x->steps[i];
	const struct stx_plan_kernel *k = &a->plan.kernels[s->kernel];
	void *fn;
	if (!s->grid[0] || !s->grid[1] || !s->grid[2])
		return STX_E_OK;
	stx_err e = stx__gpu_function(a, x->gpu->code, s->kernel, s->code, &fn, d);
	if (e)
		return e;
	int result = stx__driver(d)->launch(fn, s->grid[0], s->grid[1], s->grid[2], s->block[0],
					    s->block[1], s->block[2], 0, stream, x->gpu->params[i],
					    NULL);
	return result ? stx__driver_fail(result, "launching", stx_plan_string(&a->plan, k->name), d)
		      : STX_E_OK;
}

static stx_err copy_value(const struct stax_artifact *a, const struct stx__context *x,
			  const struct stx__step *s, const struct stx_env *env, struct stx_diag *d)
{
	const struct stx__value *from = &x->values[s->from], *to = &x->values[s->to];
	const struct stx_plan_value *v = &a->plan.values[s->to];
	return stx__gpu_copy(x->gpu->code, to->ptr, to->strides, from->ptr, from->strides,
			     to->sizes, v->rank, stx_dtype_bytes(v->dtype), env, d);
}

/* Step i; *made: the call has been made that stands for those after it. */
static stx_err run_step(struct stax_artifact *a, struct stx__context *x, uint32_t i,
			struct stx__tuner *tuner, const struct stx_env *env, int *made,
			struct stx_diag *d)
{
	struct stx__step *s = &x->steps[i];
	*made = 0;
	if (s->kind == STX__STEP_COPY)
		return copy_value(a, x, s, env, d);
	if (tuner)
		stx__tune_step(tuner, x, i);
	if (s->kind == STX__STEP_LAUNCH)
		return launch(a, x, i, stream_of(env), d);
	stx_err e = s->external->run(a, x, s, env, d);
	*made = !e;
	if (e != STX_E_UNSUPPORTED || (s->kernel == STX_PLAN_NONE && !s->covers))
		return e;
	stx__diag_init(d);
	return s->covers ? stx__aside_take(a, x, env, d) : launch(a, x, i, stream_of(env), d);
}

/* The steps from i on, before `end`. Before a call is measured the steps that it stands for are made:
 * their results are what its own are checked against. They are measured themselves where it has not
 * been made. */
static stx_err run_steps(struct stax_artifact *a, struct stx__context *x, uint32_t i, uint32_t end,
			 struct stx__tuner *tuner, const struct stx_env *env, struct stx_diag *d)
{
	stx_err e = STX_E_OK;
	for (; i < end && !e; i++) {
		int made = 0;
		if (tuner && x->steps[i].covers)
			e = stx__gpu_covered(a, x, i, env, d);
		if (!e)
			e = run_step(a, x, i, tuner, env, &made, d);
		i += made ? x->steps[i].covers : 0;
	}
	return e;
}

stx_err stx__gpu_covered(struct stax_artifact *a, struct stx__context *x, uint32_t step,
			 const struct stx_env *env, struct stx_diag *d)
{
	stx_err e = stx__aside_take(a, x, env, d);
	return e ? e : run_steps(a, x, step + 1, step + 1 + x->steps[step].covers, NULL, env, d);
}

stx_err stx__gpu_steps(struct stax_artifact *a, struct stx__context *x, const struct stx_env *env,
		       struct stx_diag *d)
{
	struct stx__tuner *tuner = stx__tune_claim(a);
	if (tuner)
		stx__tune_begin(tuner, a, x, env);
	stx_err e = run_steps(a, x, 0, x->nsteps, tuner, env, d);
	if (tuner)
		stx__tune_end(tuner);
	if (!e && (x->workspace_bytes || x->aside) &&
	    !stx__driver(d)->event_record(x->gpu->done, stream_of(env)))
		x->gpu->ran = 1;
	return e;
}

void stx__gpu_context_free(struct stx__context *x)
{
	const struct stx__driver *q =
		x->gpu ? stx__driver(NULL) : NULL; /* else not touched at all */
	if (!q)
		return;
	if (x->workspace)
		q->free((stx__device_ptr)(uintptr_t)x->workspace);
	stx__aside_free(x);
	if (x->gpu->record)
		q->host_free(x->gpu->record);
	if (x->gpu->done)
		q->event_destroy(x->gpu->done);
	x->workspace = NULL;
}
