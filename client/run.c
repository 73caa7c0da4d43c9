/* run.c: checking arguments and running the plan. The common path takes a spare context, compares
 * the arguments with it, writes the moving addresses and calls the kernels: no allocation, no lock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xmmintrin.h>

#include "client.h"
#include "cuda.h"
#include "dtype.h"

#define WORKSPACE_ALIGN 64
#define MXCSR_DEFAULT                                                                              \
	0x1f80u /* all exceptions masked, nearest, subnormals kept (design: numerics) */

/* ---- launches ---- */

struct launch {
	stx_kernel_fn *fn;
	const struct stx_kernel_frame *frame;
	size_t scratch_bytes;
	_Atomic int failed; /* no memory for a thread's scratch */
};

static void run_chunk(void *arg, int64_t begin, int64_t end)
{
	struct launch *l = arg;
	struct stx_kernel_frame frame = *l->frame;
	unsigned saved = _mm_getcsr();
	if (l->scratch_bytes && !(frame.scratch = stx__scratch(l->scratch_bytes))) {
		l->failed = 1;
		return;
	}
	if (saved != MXCSR_DEFAULT)
		_mm_setcsr(MXCSR_DEFAULT);
	l->fn(&frame, begin, end);
	if (_mm_getcsr() != saved)
		_mm_setcsr(saved);
}

stx_err stx__launch(const struct stx__step *s, const struct stx_env *env, struct stx_diag *d)
{
	struct launch l = { s->fn, &s->frame, s->scratch_bytes, 0 };
	if (s->n == 0)
		return STX_E_OK;
	if (s->n <= s->grain)
		run_chunk(&l, 0, s->n);
	else if (env && env->parallel_for)
		env->parallel_for(env->ctx, s->n, s->grain, run_chunk, &l);
	else
		stx__parallel_for(s->n, s->grain, run_chunk, &l);
	return l.failed ? stx_fail(d, STX_E_NOMEM, "run", "",
				   "no memory for the %zu bytes a thread of a kernel works in",
				   s->scratch_bytes)
			: STX_E_OK;
}

/* ---- memory: the host's, or the device's ---- */

static void *env_alloc(const struct stax_artifact *a, const struct stx_env *env, size_t bytes)
{
	if (a->gpu)
		return stx__gpu_alloc(env, bytes);
	if (env && env->allocate)
		return env->allocate(env->ctx, bytes, WORKSPACE_ALIGN);
	return bytes > SIZE_MAX / 2
		       ? NULL
		       : aligned_alloc(WORKSPACE_ALIGN,
				       (bytes + WORKSPACE_ALIGN) & ~(size_t)(WORKSPACE_ALIGN - 1));
}

static void env_free(const struct stax_artifact *a, const struct stx_env *env, void *p,
		     size_t bytes)
{
	if (a->gpu)
		stx__gpu_free(env, p, bytes);
	else if (env && env->allocate) {
		if (env->release)
			env->release(env->ctx, p, bytes);
	} else {
		free(p);
	}
}

static stx_err copy(const struct stax_artifact *a, const struct stx__context *x,
		    const struct stx_env *env, void *dst, const int64_t *dst_strides,
		    const void *src, const int64_t *src_strides, const int64_t *sizes, int rank,
		    int bytes, struct stx_diag *d)
{
	if (a->gpu)
		return stx__gpu_copy(x->gpu->code, dst, dst_strides, src, src_strides, sizes, rank,
				     bytes, env, d);
	stx__client_copy(dst, dst_strides, src, src_strides, sizes, rank, bytes);
	return STX_E_OK;
}

/* ---- steps ---- */

static stx_err bounds_error(const struct stax_artifact *a, const struct stx__context *x,
			    uint32_t kernel, struct stx_diag *d)
{
	const struct stx_plan_kernel *k = &a->plan.kernels[kernel];
	const char *name = stx_plan_string(&a->plan, k->name);
	if (x->bounds.axis == STX_AXIS_ASSERTION && k->assertion)
		return stx_fail(d, STX_E_MISMATCH, "run", name, "assertion failed: %s",
				stx_plan_string(&a->plan, k->assertion));
	return stx_fail(d, STX_E_BOUNDS, "run", name,
			"kernel %s, axis %d: index out of bounds: 0 <= %lld < %lld", name,
			x->bounds.axis, (long long)x->bounds.index, (long long)x->bounds.bound);
}

static void copy_value(const struct stax_artifact *a, const struct stx__context *x,
		       const struct stx__step *s)
{
	const struct stx__value *from = &x->values[s->from], *to = &x->values[s->to];
	const struct stx_plan_value *v = &a->plan.values[s->to];
	stx__client_copy(to->ptr, to->strides, from->ptr, from->strides, to->sizes, v->rank,
			 stx_dtype_bytes(v->dtype));
}

static stx_err cpu_steps(const struct stax_artifact *a, struct stx__context *x,
			 struct stx__tuner *tuner, const struct stx_env *env, struct stx_diag *d)
{
	x->bounds.taken = 0;
	for (uint32_t i = 0; i < x->nsteps; i++) {
		struct stx__step *s = &x->steps[i];
		stx_err e = STX_E_OK;
		if (tuner)
			stx__tune_step(tuner, x, i);
		switch (s->kind) {
		case STX__STEP_COPY: copy_value(a, x, s); break;
		case STX__STEP_EXTERN:
			e = s->external->run((struct stax_artifact *)(uintptr_t)a, x, s, env, d);
			if (e != STX_E_UNSUPPORTED || s->kernel == STX_PLAN_NONE)
				break;
			stx__diag_init(d);
			e = stx__launch(s, env, d);
			break;
		case STX__STEP_LAUNCH: e = stx__launch(s, env, d); break;
		}
		if (e)
			return e;
		if (x->bounds.taken)
			return bounds_error(a, x, s->kernel, d);
	}
	return STX_E_OK;
}

static stx_err run_steps(const struct stax_artifact *a, struct stx__context *x,
			 const struct stx_env *env, struct stx_diag *d)
{
	struct stax_artifact *own = (struct stax_artifact *)(uintptr_t)a;
	if (a->gpu)
		return stx__gpu_steps(own, x, env, d);
	struct stx__tuner *tuner = stx__tune_claim(own);
	if (tuner)
		stx__tune_begin(tuner, own, x, env);
	stx_err e = cpu_steps(a, x, tuner, env, d);
	if (tuner)
		stx__tune_end(tuner);
	return e;
}

/* ---- arguments ---- */

static void shape_text(const int64_t *n, int rank, char *out, size_t cap)
{
	size_t used = 0;
	out[used++] = '[';
	for (int i = 0; i < rank && used + 24 < cap; i++)
		used += (size_t)snprintf(out + used, cap - used, i ? ",%lld" : "%lld",
					 (long long)n[i]);
	snprintf(out + used, cap - used, "]");
}

static int same_sizes(const struct stx_tensor *t, const struct stx__value *v, int rank)
{
	for (int i = 0; i < rank; i++)
		if (t->sizes[i] != v->sizes[i])
			return 0;
	return 1;
}

/* Strides matter only where a second element is reached. */
static int same_strides(const struct stx_tensor *t, const struct stx__value *v, int rank)
{
	int differ = 0, empty = 0;
	for (int i = 0; i < rank; i++) {
		differ |= t->strides[i] != v->strides[i] && v->sizes[i] > 1;
		empty |= v->sizes[i] == 0;
	}
	return !differ || empty;
}

static int is_empty(const struct stx_tensor *t)
{
	for (int i = 0; i < t->rank; i++)
		if (t->sizes[i] == 0)
			return 1;
	return 0;
}

static stx_err mismatch_shape(const char *what, const char *name, const char *field,
			      const int64_t *got, const int64_t *want, int rank, struct stx_diag *d)
{
	char a[160], b[160];
	shape_text(got, rank, a, sizeof a);
	shape_text(want, rank, b, sizeof b);
	return stx_fail(d, STX_E_MISMATCH, "run", name,
			"%s '%s': %s are %s, the artifact was compiled "
			"for %s",
			what, name, field, a, b);
}

/* dtype and rank, before anything is read by dimension. */
static stx_err check_kind(const struct stx_tensor *t, const struct stx_plan_value *v,
			  const char *what, const char *name, struct stx_diag *d)
{
	if (t->dtype != v->dtype)
		return stx_fail(d, STX_E_MISMATCH, "run", name, "%s '%s': type %s, expected %s",
				what, name, stx_dtype_name(t->dtype), stx_dtype_name(v->dtype));
	if (t->rank != v->rank)
		return stx_fail(d, STX_E_MISMATCH, "run", name, "%s '%s': rank %d, expected %d",
				what, name, t->rank, v->rank);
	return STX_E_OK;
}

/* Whether every element's distance from `data` in bytes is a number; offset and strides are the
 * caller's and may be anything. Sizes are those of the plan. */
static int within_numbers(const struct stx_tensor *t, int bytes)
{
	int64_t lo, hi, reach, stride;
	if (__builtin_mul_overflow(t->offset, bytes, &lo))
		return 0;
	hi = lo;
	for (int i = 0; i < t->rank; i++) {
		if (t->sizes[i] <= 1)
			continue;
		int64_t *end = t->strides[i] < 0 ? &lo : &hi;
		if (__builtin_mul_overflow(t->strides[i], bytes, &stride) ||
		    __builtin_mul_overflow(stride, t->sizes[i], &reach) ||
		    __builtin_add_overflow(*end, reach, end))
			return 0;
	}
	/* Addresses of a program are below 2^63. */
	intptr_t at = (intptr_t)t->data, end;
	return !__builtin_add_overflow(at, hi, &end) && !__builtin_add_overflow(at, lo, &end) &&
	       end >= 0;
}

/* The address of element [0,...,0] of a tensor that address() has let pass. */
static char *origin(const struct stx_tensor *t)
{
	char *p = t->data;
	return is_empty(t) ? p : p + t->offset * stx_dtype_bytes(t->dtype);
}

/* The address of element [0,...,0], checked. */
static stx_err address(const struct stx_tensor *t, const char *what, const char *name, void **out,
		       struct stx_diag *d)
{
	int bytes = stx_dtype_bytes(t->dtype);
	int empty = is_empty(t); /* nothing is read or written: neither offset nor strides matter */
	if (!t->data && !empty)
		return stx_fail(d, STX_E_USAGE, "run", name, "%s '%s': no data", what, name);
	if (!empty && !within_numbers(t, bytes))
		return stx_fail(d, STX_E_USAGE, "run", name,
				"%s '%s': its offset and strides lead outside the address space",
				what, name);
	char *p = origin(t);
	if ((uintptr_t)p % (unsigned)bytes)
		return stx_fail(d, STX_E_MISMATCH, "run", name,
				"%s '%s': its address is not aligned to its %d-byte elements", what,
				name, bytes);
	*out = p;
	return STX_E_OK;
}

/* Rank and dtype of all inputs, then the dynamic sizes; binds the context when they changed. */
static stx_err bind_inputs(const struct stax_artifact *a, struct stx__context *x,
			   const struct stx_tensor *inputs, int ninputs, struct stx_diag *d)
{
	const struct stx_plan *p = &a->plan;
	if (ninputs < 0 || (uint32_t)ninputs != p->h->ninputs)
		return stx_fail(d, STX_E_MISMATCH, "run", "",
				"%d inputs given, the artifact takes %u", ninputs, p->h->ninputs);
	for (int i = 0; i < ninputs; i++) {
		stx_err e = check_kind(&inputs[i], &p->values[a->input_value[i]], "input",
				       a->input_names[i], d);
		if (e)
			return e;
	}
	int same = x->bound && (!a->gpu || x->epoch == atomic_load_explicit(&a->gpu->epoch,
									    memory_order_acquire));
	for (uint32_t i = 0; i < p->h->nsyms; i++) {
		int64_t v = inputs[p->syms[i].input].sizes[p->syms[i].dim];
		same = same && v == x->syms[i];
		x->syms[i] = v;
	}
	return same ? STX_E_OK : stx__context_bind(a, x, d);
}

static stx_err check_input(const struct stax_artifact *a, struct stx__context *x, uint32_t i,
			   const struct stx_tensor *t, struct stx_diag *d)
{
	struct stx__value *v = &x->values[a->input_value[i]];
	const char *name = a->input_names[i];
	if (!same_sizes(t, v, t->rank))
		return mismatch_shape("input", name, "sizes", t->sizes, v->sizes, t->rank, d);
	if (!same_strides(t, v, t->rank))
		return mismatch_shape("input", name, "strides", t->strides, v->strides, t->rank, d);
	return address(t, "input", name, &v->ptr, d);
}

static stx_err check_inputs(const struct stax_artifact *a, struct stx__context *x,
			    const struct stx_tensor *inputs, const struct stx_env *env,
			    struct stx_diag *d)
{
	stx_err e = STX_E_OK;
	for (uint32_t i = 0; i < a->plan.h->ninputs && !e; i++) {
		e = check_input(a, x, i, &inputs[i], d);
		if (!e && stx__is_astray(a, &inputs[i]))
			e = stx__realign(a, x, i, &inputs[i], env, d);
	}
	return e;
}

stx_err stx__bind_params(const struct stax_artifact *a, struct stx__context *x,
			 const struct stx_tensor *inputs, int ninputs, struct stx_diag *d)
{
	stx_err e = bind_inputs(a, x, inputs, ninputs, d);
	for (uint32_t i = 0; i < a->plan.h->ninputs && !e; i++) {
		x->values[a->input_value[i]].ptr = NULL;
		if (a->plan.values[a->input_value[i]].flags & STX_TENSOR_PARAM)
			e = check_input(a, x, i, &inputs[i], d);
	}
	return e;
}

/* The run takes the packed operands; p NULL: there are none. */
static stx_err take_prepared(const struct stax_artifact *a, struct stx__context *x,
			     const struct stax_prepared *p, struct stx_diag *d)
{
	if (!p || !p->memory) {
		if (a->npacked)
			memset(x->packed, 0, a->npacked * sizeof *x->packed);
		return STX_E_OK;
	}
	for (uint32_t i = 0; i < a->plan.h->ninputs; i++)
		if (p->origin[i] && p->origin[i] != x->values[a->input_value[i]].ptr)
			return stx_fail(d, STX_E_MISMATCH, "run", a->input_names[i],
					"parameter '%s' is not where it was when it was prepared: "
					"prepare again, or run without",
					a->input_names[i]);
	memcpy(x->packed, p->packed, a->npacked * sizeof *x->packed);
	return STX_E_OK;
}

/* ---- outputs ---- */

/* An output whose strides are not the plan's, or that kernels cannot take, is computed beside and
 * copied. */
static int needs_copy(const struct stax_artifact *a, const struct stx__context *x, uint32_t i,
		      const struct stx_tensor *t)
{
	return a->plan.values[a->output_value[i]].kind == STX_VALUE_OUTPUT &&
	       (!same_strides(t, &x->values[a->output_value[i]], t->rank) || stx__is_astray(a, t));
}

static stx_err check_outputs(const struct stax_artifact *a, struct stx__context *x,
			     const struct stx_tensor *outputs, const struct stx_env *env,
			     int *copies, struct stx_diag *d)
{
	*copies = 0;
	for (uint32_t i = 0; i < a->plan.h->noutputs; i++) {
		const struct stx_tensor *t = &outputs[i];
		const struct stx_plan_value *pv = &a->plan.values[a->output_value[i]];
		struct stx__value *v = &x->values[a->output_value[i]];
		const char *name = a->output_names[i];
		stx_err e = check_kind(t, pv, "output", name, d);
		if (e)
			return e;
		if (!same_sizes(t, v, t->rank))
			return mismatch_shape("output", name, "sizes", t->sizes, v->sizes, t->rank,
					      d);
		void *at;
		if (pv->kind == STX_VALUE_ALIAS && !t->data)
			continue; /* to be described */
		if ((e = address(t, "output", name, &at, d)))
			return e;
		if (pv->kind == STX_VALUE_ALIAS)
			continue;
		v->ptr = at;
		if (needs_copy(a, x, i, t)) {
			++*copies;
			if (!(v->ptr = env_alloc(a, env, (size_t)v->bytes)))
				return stx_fail(d, STX_E_NOMEM, "run", name,
						"no memory for output '%s'", name);
		}
	}
	return STX_E_OK;
}

/* Copies outputs computed beside to where they belong (when there was no error) and frees them. */
static stx_err finish_copies(const struct stax_artifact *a, struct stx__context *x,
			     struct stx_tensor *outputs, const struct stx_env *env, stx_err e,
			     struct stx_diag *d)
{
	for (uint32_t i = 0; i < a->plan.h->noutputs; i++) {
		struct stx_tensor *t = &outputs[i];
		struct stx__value *v = &x->values[a->output_value[i]];
		if (!v->ptr || !needs_copy(a, x, i, t))
			continue;
		int bytes = stx_dtype_bytes(t->dtype);
		if (!e)
			e = copy(a, x, env, origin(t), t->strides, v->ptr, v->strides, v->sizes,
				 t->rank, bytes, d);
		env_free(a, env, v->ptr, (size_t)v->bytes);
	}
	return e;
}

/* An output that is a view of an input: described when the caller gave no memory, else copied. */
static stx_err finish_aliases(const struct stax_artifact *a, const struct stx__context *x,
			      const struct stx_tensor *inputs, struct stx_tensor *outputs,
			      const struct stx_env *env, struct stx_diag *d)
{
	stx_err e = STX_E_OK;
	for (uint32_t i = 0; i < a->plan.h->noutputs; i++) {
		const struct stx_plan_value *pv = &a->plan.values[a->output_value[i]];
		const struct stx__value *v = &x->values[a->output_value[i]];
		struct stx_tensor *t = &outputs[i];
		if (pv->kind != STX_VALUE_ALIAS)
			continue;
		const struct stx_tensor *in = &inputs[pv->index2];
		int bytes = stx_dtype_bytes(pv->dtype);
		char *at = origin(in) + v->offset * bytes;
		if (t->data) {
			if (!e)
				e = copy(a, x, env, origin(t), t->strides, at, v->strides, v->sizes,
					 pv->rank, bytes, d);
			continue;
		}
		t->data = at;
		t->offset = 0;
		memcpy(t->strides, v->strides, pv->rank * sizeof *t->strides);
	}
	return e;
}

/* ---- workspace and the run ---- */

static stx_err own_workspace(const struct stax_artifact *a, struct stx__context *x,
			     struct stx_diag *d)
{
	if (x->own_bytes >= x->workspace_bytes)
		return STX_E_OK;
	if (x->own_bytes)
		env_free(a, NULL, x->workspace, x->own_bytes);
	x->own_bytes = 0;
	x->patched_for = NULL;
	x->workspace = env_alloc(a, NULL, x->workspace_bytes);
	if (!x->workspace)
		return stx_fail(d, STX_E_NOMEM, "run", "", "no memory for a workspace of %zu bytes",
				x->workspace_bytes);
	x->own_bytes = x->workspace_bytes;
	return STX_E_OK;
}

static void patch_fixed(const struct stax_artifact *a, struct stx__context *x, char *workspace)
{
	/* A plan without a workspace still has constants: any non-NULL mark will do. */
	void *mark = workspace ? workspace : (char *)x;
	if (x->patched_for == mark)
		return;
	for (uint32_t i = 0; i < a->plan.h->nvalues; i++)
		if (a->plan.values[i].kind == STX_VALUE_TEMP)
			x->values[i].ptr = workspace ? workspace + x->values[i].offset : (char *)x;
	for (uint32_t i = 0; i < x->nfixed; i++)
		x->buffers[x->fixed[i].slot] = x->values[x->fixed[i].value].ptr;
	x->patched_for = mark;
}

static stx_err run(const struct stax_artifact *a, struct stx__context *x,
		   const struct stx_tensor *inputs, struct stx_tensor *outputs,
		   const struct stx_env *env, struct stx_diag *d)
{
	stx_err e;
	int foreign = env && env->allocate && x->workspace_bytes;
	void *workspace = NULL;
	if (foreign) {
		workspace = env_alloc(a, env, x->workspace_bytes);
		if (!workspace)
			return stx_fail(d, STX_E_NOMEM, "run", "",
					"no memory for a workspace of %zu bytes",
					x->workspace_bytes);
	} else if ((e = own_workspace(a, x, d))) {
		return e;
	} else {
		workspace = x->workspace;
	}
	patch_fixed(a, x, workspace);
	for (uint32_t i = 0; i < x->nmoving; i++)
		x->buffers[x->moving[i].slot] = x->values[x->moving[i].value].ptr;
	e = run_steps(a, x, env, d);
	stx__aside_end(x, env);
	e = stx__realign_end(a, x, inputs, env, e, d);
	if (!e)
		e = finish_aliases(a, x, inputs, outputs, env, d);
	if (foreign)
		env_free(a, env, workspace, x->workspace_bytes);
	return e;
}

static void forget_outputs(const struct stax_artifact *a, struct stx__context *x)
{
	for (uint32_t i = 0; i < a->plan.h->noutputs; i++)
		x->values[a->output_value[i]].ptr = NULL;
}

int stax_run(struct stax_artifact *a, const struct stx_tensor *inputs, int ninputs,
	     struct stx_tensor *outputs, int noutputs, const struct stx_env *env,
	     struct stax_error *err)
{
	return stax_run_prepared(a, NULL, inputs, ninputs, outputs, noutputs, env, err);
}

int stax_run_prepared(struct stax_artifact *a, const struct stax_prepared *p,
		      const struct stx_tensor *inputs, int ninputs, struct stx_tensor *outputs,
		      int noutputs, const struct stx_env *env, struct stax_error *err)
{
	struct stx_diag d;
	stx__diag_init(&d);
	if (p && p->artifact != a)
		return stx__give_error(
			stx_fail(&d, STX_E_USAGE, "run", "",
				 "these parameters were prepared for another artifact"),
			&d, err);
	if (noutputs < 0 || (uint32_t)noutputs != a->plan.h->noutputs)
		return stx__give_error(stx_fail(&d, STX_E_MISMATCH, "run", "",
						"%d outputs given, the artifact makes %u", noutputs,
						a->plan.h->noutputs),
				       &d, err);
	struct stx__context *x = stx__context_take(a);
	if (!x)
		return stx__give_error(stx_fail(&d, STX_E_NOMEM, "run", "", "out of memory"), &d,
				       err);
	int copies = 0;
	stx_err e = bind_inputs(a, x, inputs, ninputs, &d);
	if (!e && a->gpu)
		e = stx__gpu_bind(a, x, env, &d);
	if (!e && !(e = check_inputs(a, x, inputs, env, &d)) && !(e = take_prepared(a, x, p, &d))) {
		e = check_outputs(a, x, outputs, env, &copies, &d);
		if (!e && a->nmutated)
			e = stx__overlaps_check(a, x, inputs, outputs, &d);
		if (!e)
			e = run(a, x, inputs, outputs, env, &d);
		if (copies)
			e = finish_copies(a, x, outputs, env, e, &d);
	}
	e = stx__realign_end(a, x, inputs, env, e, &d);
	forget_outputs(a, x);
	stx__context_put(a, x);
	return stx__give_error(e, &d, err);
}

int stax_query(const struct stax_artifact *a, const struct stx_tensor *inputs, int ninputs,
	       struct stx_tensor *outputs, size_t *workspace_bytes, struct stax_error *err)
{
	struct stx_diag d;
	stx__diag_init(&d);
	struct stx__context *x = stx__context_take(a);
	if (!x)
		return stx__give_error(stx_fail(&d, STX_E_NOMEM, "run", "", "out of memory"), &d,
				       err);
	stx_err e = bind_inputs(a, x, inputs, ninputs, &d);
	for (uint32_t i = 0; !e && i < a->plan.h->ninputs; i++) {
		const struct stx__value *v = &x->values[a->input_value[i]];
		if (!same_sizes(&inputs[i], v, inputs[i].rank))
			e = mismatch_shape("input", a->input_names[i], "sizes", inputs[i].sizes,
					   v->sizes, inputs[i].rank, &d);
	}
	for (uint32_t i = 0; !e && i < a->plan.h->noutputs; i++) {
		const struct stx_plan_value *pv = &a->plan.values[a->output_value[i]];
		const struct stx__value *v = &x->values[a->output_value[i]];
		outputs[i] = (struct stx_tensor){ .dtype = pv->dtype, .rank = pv->rank };
		memcpy(outputs[i].sizes, v->sizes, pv->rank * sizeof *v->sizes);
		memcpy(outputs[i].strides, v->strides, pv->rank * sizeof *v->strides);
	}
	if (!e && workspace_bytes)
		*workspace_bytes = x->workspace_bytes;
	stx__context_put(a, x);
	return stx__give_error(e, &d, err);
}

int stax_is_cuda(const struct stax_artifact *a)
{
	return a->gpu != NULL;
}

/* The record of a context that another thread is using now is left to that thread's own call. */
int stax_sync(struct stax_artifact *a, void *stream, struct stax_error *err)
{
	struct stx_diag d;
	stx_err e = STX_E_OK;
	stx__diag_init(&d);
	if (!a->gpu)
		return stx__give_error(STX_E_OK, &d, err);
	const struct stx__driver *q = stx__driver(&d);
	int result = q ? q->stream_sync(stream) : 0;
	if (!q || result)
		e = q ? stx__driver_fail(result, "waiting for the stream", "", &d)
		      : STX_E_UNSUPPORTED;
	for (int i = 0; i < STX__SPARES && !e; i++) {
		struct stx__context *x = atomic_exchange(&a->spare[i], NULL);
		if (!x)
			continue;
		if (x->gpu && x->gpu->record->taken &&
		    (uint32_t)x->gpu->record->kernel < a->plan.h->nkernels) {
			x->bounds = *x->gpu->record;
			x->gpu->record->taken = 0;
			e = bounds_error(a, x, (uint32_t)x->bounds.kernel, &d);
		}
		stx__context_put(a, x);
	}
	return stx__give_error(e, &d, err);
}
