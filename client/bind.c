/* bind.c: run contexts: a plan evaluated for one set of dynamic sizes, ready to launch.
 * requires: a plan that passed stx_plan_open. ensures: after a bind every buffer a kernel is given
 * lies within its storage, and every temporary within the workspace. Linear in the plan. */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "cuda.h"
#include "dtype.h"

#define MAX_GRID ((int64_t)1 << 62) /* leaves room for chunk arithmetic */

/* ---- storage ---- */

static int is_moving(const struct stx_plan_value *v)
{
	return v->kind == STX_VALUE_INPUT || v->kind == STX_VALUE_OUTPUT;
}

/* Where the arguments of a launch or call come from: the buffers follow their values. */
static void patch_arguments(const struct stx_plan *p, struct stx__context *x,
			    const struct stx_plan_step *s, void *const *buffers)
{
	const uint32_t *args = stx_plan_u32s(p, s->args);
	for (uint32_t j = 0; j < s->nargs; j++) {
		struct stx__patch patch = { (uint32_t)(buffers - x->buffers) + j, args[j] };
		if (is_moving(&p->values[args[j]]))
			x->moving[x->nmoving++] = patch;
		else
			x->fixed[x->nfixed++] = patch;
	}
}

static void lay_out_steps(const struct stax_artifact *a, struct stx__context *x)
{
	const struct stx_plan *p = &a->plan;
	void **buffers = x->buffers;
	int64_t *scalars = x->scalars;
	void **packed = x->packed;
	uint32_t n;
	for (uint32_t i = 0; i < p->h->nsteps; i++) {
		const struct stx_plan_step *s = &p->steps[i];
		struct stx__step t = { .kind = STX__STEP_LAUNCH };
		if (s->kind == STX_STEP_ALLOC || s->kind == STX_STEP_RELEASE)
			continue; /* of no consequence where the plan owns its workspace */
		if (s->kind == STX_STEP_COPY) {
			x->steps[x->nsteps++] = (struct stx__step){ .kind = STX__STEP_COPY,
								    .kernel = STX_PLAN_NONE,
								    .from = s->a,
								    .to = s->b };
			continue;
		}
		if (s->kind == STX_STEP_EXTERN) {
			t.kind = STX__STEP_EXTERN;
			t.external = stx__external_find(stx_plan_string(p, s->a), a->is_cuda);
			t.covers = s->covers;
		}
		t.plan = s;
		t.kernel = stx_plan_step_kernel(p, s);
		t.nparams = stx_plan_step_nparams(p, s);
		t.fn = a->fns && t.kernel != STX_PLAN_NONE ? a->fns[t.kernel] : NULL;
		t.frame = (struct stx_kernel_frame){ buffers, scalars, &x->bounds, NULL, packed };
		patch_arguments(p, x, s, buffers);
		buffers += s->nargs;
		scalars += t.kernel != STX_PLAN_NONE ? p->kernels[t.kernel].nscalars : 0;
		stx_plan_prepared_of(p, t.kernel, &n);
		packed += n;
		x->steps[x->nsteps++] = t;
	}
}

struct stx__context *stx__context_new(const struct stax_artifact *a)
{
	const struct stx_plan_header *h = a->plan.h;
	struct stx_arena *m = stx_arena_new(0);
	struct stx__context *x = m ? STX_NEW(m, struct stx__context) : NULL;
	if (!x)
		goto fail;
	x->arena = m;
	x->syms = STX_NEW_ARRAY(m, int64_t, h->nsyms);
	x->exprs = STX_NEW_ARRAY(m, int64_t, h->nexprs);
	x->expr_ok = STX_NEW_ARRAY(m, uint8_t, h->nexprs);
	x->dims = STX_NEW_ARRAY(m, int64_t, a->ndims * 2);
	x->values = STX_NEW_ARRAY(m, struct stx__value, h->nvalues);
	x->buffers = STX_NEW_ARRAY(m, void *, a->nlaunch_args);
	x->scalars = STX_NEW_ARRAY(m, int64_t, a->nscalars);
	x->packed = STX_NEW_ARRAY(m, void *, a->npacked);
	x->steps = STX_NEW_ARRAY(m, struct stx__step, h->nsteps + 1);
	x->fixed = STX_NEW_ARRAY(m, struct stx__patch, a->nlaunch_args);
	x->moving = STX_NEW_ARRAY(m, struct stx__patch, a->nlaunch_args);
	if (stx_arena_oom(m) || stx__overlaps_new(a, x))
		goto fail;
	int64_t *dims = x->dims;
	for (uint32_t i = 0; i < h->nvalues; i++) {
		x->values[i].sizes = dims;
		x->values[i].strides = dims + a->plan.values[i].rank;
		dims += 2 * a->plan.values[i].rank;
	}
	lay_out_steps(a, x);
	if (!stx__aside_new(a, x))
		goto fail;
	return x;
fail:
	stx_arena_free(m);
	return NULL;
}

void stx__context_free(const struct stax_artifact *a, struct stx__context *x)
{
	if (!x)
		return;
	stx__externals_release(a, x);
	stx__gpu_context_free(x);
	free(x->workspace);
	stx_arena_free(x->arena);
}

struct stx__context *stx__context_take(const struct stax_artifact *a)
{
	_Atomic(struct stx__context *) *spare = ((struct stax_artifact *)(uintptr_t)a)->spare;
	for (int i = 0; i < STX__SPARES; i++) {
		if (!atomic_load_explicit(&spare[i], memory_order_relaxed))
			continue;
		struct stx__context *x = atomic_exchange(&spare[i], NULL);
		if (x)
			return x;
	}
	return stx__context_new(a);
}

void stx__context_put(const struct stax_artifact *a, struct stx__context *x)
{
	_Atomic(struct stx__context *) *spare = ((struct stax_artifact *)(uintptr_t)a)->spare;
	for (int i = 0; i < STX__SPARES; i++) {
		struct stx__context *none = NULL;
		if (atomic_compare_exchange_strong(&spare[i], &none, x))
			return;
	}
	stx__context_free(a, x);
}

/* ---- evaluation ---- */

static stx_err contradiction(const struct stax_artifact *a, uint32_t value, const char *what,
			     struct stx_diag *d)
{
	return stx_fail(d, STX_E_CORRUPT, "plan",
			stx_plan_string(&a->plan, a->plan.values[value].name),
			"data plan: value %u %s", value, what);
}

/* Expression e; 0 when it overflowed. */
static int value_of(const struct stx__context *x, uint32_t e, int64_t *out)
{
	*out = x->exprs[e];
	return x->expr_ok[e];
}

/* First and last reachable element, relative to the first; 0 on overflow. *empty: no element. */
static int reach(const struct stx__value *v, int rank, int64_t *lo, int64_t *hi, int *empty)
{
	*lo = *hi = 0;
	*empty = 0;
	for (int i = 0; i < rank; i++)
		if (v->sizes[i] == 0) {
			*empty = 1;
			return 1;
		}
	for (int i = 0; i < rank; i++) {
		int64_t far;
		if (__builtin_mul_overflow(v->sizes[i] - 1, v->strides[i], &far) ||
		    __builtin_add_overflow(far > 0 ? *hi : *lo, far, far > 0 ? hi : lo))
			return 0;
	}
	return 1;
}

static stx_err bind_value(const struct stax_artifact *a, struct stx__context *x, uint32_t i,
			  struct stx_diag *d)
{
	const struct stx_plan_value *pv = &a->plan.values[i];
	struct stx__value *v = &x->values[i];
	const uint32_t *sizes = stx_plan_u32s(&a->plan, pv->sizes);
	const uint32_t *strides = stx_plan_u32s(&a->plan, pv->strides);
	int64_t elem = stx_dtype_bytes(pv->dtype), lo, hi, need;
	int ok = value_of(x, pv->bytes_expr, &v->bytes) && v->bytes >= 0, empty;
	for (int k = 0; k < pv->rank; k++)
		ok = ok && value_of(x, sizes[k], &v->sizes[k]) && v->sizes[k] >= 0 &&
		     value_of(x, strides[k], &v->strides[k]);
	v->offset = 0;
	if (pv->kind == STX_VALUE_TEMP || pv->kind == STX_VALUE_ALIAS)
		ok = ok && value_of(x, pv->offset_expr, &v->offset);
	if (!ok || !reach(v, pv->rank, &lo, &hi, &empty))
		return contradiction(a, i, "has sizes that are negative or overflow", d);
	if (pv->kind == STX_VALUE_ALIAS || pv->kind == STX_VALUE_INPUT)
		return STX_E_OK; /* the caller's memory */
	if (!empty && (lo < 0 || __builtin_mul_overflow(hi + 1, elem, &need) || need > v->bytes))
		return contradiction(a, i, "does not fit its storage", d);
	if (pv->kind == STX_VALUE_TEMP &&
	    (v->offset < 0 || v->offset % elem || v->bytes > (int64_t)x->workspace_bytes ||
	     v->offset > (int64_t)x->workspace_bytes - v->bytes))
		return contradiction(a, i, "lies outside the workspace", d);
	if (pv->kind == STX_VALUE_CONST) {
		if (v->bytes > (int64_t)a->plan.h->data_bytes ||
		    pv->const_off > a->plan.h->data_bytes - (uint32_t)v->bytes)
			return contradiction(a, i, "lies outside the constants", d);
		if (!a->gpu) /* else it lies on a device: stx__gpu_bind */
			v->ptr = a->plan_bytes + a->plan.h->data_off + pv->const_off;
	}
	return STX_E_OK;
}

/* Grid and block of the code the kernel is launched with now. 0: they overflow. */
static int bind_launch(const struct stax_artifact *a, const struct stx__context *x,
		       struct stx__step *s)
{
	const struct stx_plan *p = &a->plan;
	const uint32_t *grid = p->kernels[s->kernel].grid_expr;
	const uint32_t *block = p->kernels[s->kernel].block;
	s->code = atomic_load_explicit(&a->gpu->active[s->kernel], memory_order_acquire);
	if (s->code >= p->h->nkernels) {
		grid = p->configs[s->code - p->h->nkernels].grid_expr;
		block = p->configs[s->code - p->h->nkernels].block;
	}
	memcpy(s->block, block, sizeof s->block);
	for (int j = 0; j < 3; j++) {
		int64_t n;
		if (!value_of(x, grid[j], &n) || n < 0 || n > INT32_MAX)
			return 0;
		s->grid[j] = (uint32_t)n;
	}
	return 1;
}

static stx_err bind_copy(const struct stax_artifact *a, struct stx__context *x,
			 const struct stx__step *s, struct stx_diag *d)
{
	const struct stx__value *from = &x->values[s->from], *to = &x->values[s->to];
	size_t n = a->plan.values[s->from].rank * sizeof *from->sizes;
	if (n && memcmp(from->sizes, to->sizes, n) != 0)
		return contradiction(a, s->to, "is copied from another shape", d);
	return STX_E_OK;
}

static stx_err bind_kernel(const struct stax_artifact *a, struct stx__context *x,
			   struct stx__step *s, struct stx_diag *d)
{
	const struct stx_plan_kernel *k = &a->plan.kernels[s->kernel];
	const uint32_t *e = stx_plan_u32s(&a->plan, k->scalars);
	int64_t *scalars = x->scalars + (s->frame.scalars - x->scalars);
	int ok = value_of(x, k->grid_expr[0], &s->n) && value_of(x, k->grain_expr, &s->grain) &&
		 s->n >= 0 && s->n <= MAX_GRID;
	for (uint32_t j = 0; ok && j < k->nscalars; j++)
		ok = value_of(x, e[j], &scalars[j]);
	ok = ok && (!a->gpu || bind_launch(a, x, s));
	if (!ok)
		return stx_fail(d, STX_E_CORRUPT, "plan", stx_plan_string(&a->plan, k->name),
				"data plan: the grid of kernel %u overflows", s->kernel);
	if (s->grain < 1)
		s->grain = 1;
	s->scratch_bytes = (size_t)k->scratch * STX_SCRATCH_UNIT;
	return STX_E_OK;
}

static stx_err bind_steps(const struct stax_artifact *a, struct stx__context *x, struct stx_diag *d)
{
	stx_err e = STX_E_OK;
	for (uint32_t i = 0; i < x->nsteps && !e; i++) {
		struct stx__step *s = &x->steps[i];
		if (s->kind == STX__STEP_COPY)
			e = bind_copy(a, x, s, d);
		if (!e && s->kernel != STX_PLAN_NONE)
			e = bind_kernel(a, x, s, d);
		if (!e && s->kind == STX__STEP_EXTERN && s->external->bind)
			e = s->external->bind(a, x, s, d);
	}
	return e;
}

static stx_err check_guards(const struct stax_artifact *a, const struct stx__context *x,
			    struct stx_diag *d)
{
	const struct stx_plan *p = &a->plan;
	for (uint32_t i = 0; i < p->h->nsyms; i++) {
		const struct stx_plan_sym *s = &p->syms[i];
		if (x->syms[i] < s->lo || x->syms[i] > s->hi)
			return stx_fail(
				d, STX_E_MISMATCH, "run", a->input_names[s->input],
				"input '%s': size %lld of dimension %u is outside [%lld, %lld], "
				"the range this artifact was compiled for",
				a->input_names[s->input], (long long)x->syms[i], s->dim,
				(long long)s->lo, (long long)s->hi);
	}
	const uint32_t *guards = stx_plan_u32s(p, p->h->guards_off);
	for (uint32_t i = 0; i < p->h->nguards; i++) {
		int64_t v;
		if (!value_of(x, guards[i], &v) || !v)
			return stx_fail(d, STX_E_MISMATCH, "run", "",
					"guard %u of the artifact does not hold for these sizes: "
					"compile for them",
					i);
	}
	return STX_E_OK;
}

stx_err stx__context_bind(const struct stax_artifact *a, struct stx__context *x, struct stx_diag *d)
{
	const struct stx_plan *p = &a->plan;
	int64_t bytes;
	stx__externals_release(a, x);
	x->bound = x->no_overlap = 0;
	x->patched_for = NULL;
	if (a->gpu)
		x->epoch = atomic_load_explicit(&a->gpu->epoch, memory_order_acquire);
	for (uint32_t i = 0; i < p->h->nexprs; i++) {
		int ok = 1;
		x->exprs[i] = stx_plan_eval(p, i, x->syms, &ok);
		x->expr_ok[i] = (uint8_t)ok;
	}
	stx_err e = check_guards(a, x, d);
	if (e)
		return e;
	if (!value_of(x, p->h->workspace_expr, &bytes) || bytes < 0 || bytes > INT64_MAX / 2)
		return stx_fail(d, STX_E_CORRUPT, "plan", "",
				"data plan: the workspace size overflows");
	x->workspace_bytes = (size_t)bytes;
	for (uint32_t i = 0; i < p->h->nvalues; i++)
		if ((e = bind_value(a, x, i, d)))
			return e;
	stx__aside_bind(a, x);
	if ((e = bind_steps(a, x, d)))
		return e;
	x->bound = 1;
	return STX_E_OK;
}
