/* realign.c: arguments of GPU plans that begin at no multiple of STX_GPU_ALIGN bytes, which views
 * may. Kernels take none of them: an input is moved to memory of its own for the run and, where the
 * run writes it, copied back; an output is computed beside like one of other strides (run.c). It
 * costs a copy in a case that is rare, and all others no second form of each access. */
#include "client.h"
#include "cuda.h"
#include "dtype.h"

int stx__is_astray(const struct stax_artifact *a, const struct stx_tensor *t)
{
	size_t elem = (size_t)stx_dtype_bytes(t->dtype);
	if (!a->is_aligned ||
	    ((uintptr_t)t->data + (uintptr_t)t->offset * elem) % STX_GPU_ALIGN == 0)
		return 0;
	struct stx__bytes r = stx__bytes_of(t);
	return r.hi - r.lo > elem; /* nothing is read together with a single element */
}

stx_err stx__realign(const struct stax_artifact *a, struct stx__context *x, uint32_t i,
		     const struct stx_tensor *t, const struct stx_env *env, struct stx_diag *d)
{
	static const int64_t one = 1;
	struct stx__value *v = &x->values[a->input_value[i]];
	struct stx__bytes r = stx__bytes_of(t);
	size_t before = (uintptr_t)v->ptr - r.lo, pad = -before % STX_GPU_ALIGN;
	int64_t bytes = (int64_t)(r.hi - r.lo);
	if (!x->moved &&
	    !(x->moved = STX_NEW_ARRAY(x->arena, struct stx__moved, a->plan.h->ninputs)))
		return stx_fail(d, STX_E_NOMEM, "run", a->input_names[i], "out of memory");
	struct stx__moved m = { i, NULL, pad + (size_t)bytes };
	if (!(m.at = stx__gpu_alloc(env, m.bytes)))
		return stx_fail(d, STX_E_NOMEM, "run", a->input_names[i],
				"no memory for input '%s', which is moved: it does not begin at a "
				"multiple of %d bytes",
				a->input_names[i], STX_GPU_ALIGN);
	x->moved[x->nmoved++] = m;
	v->ptr = (char *)m.at + pad + before;
	return stx__gpu_copy(x->gpu->code, (char *)m.at + pad, &one, (void *)r.lo, &one, &bytes, 1,
			     1, env, d);
}

stx_err stx__realign_end(const struct stax_artifact *a, struct stx__context *x,
			 const struct stx_tensor *inputs, const struct stx_env *env, stx_err e,
			 struct stx_diag *d)
{
	for (uint32_t i = 0; i < x->nmoved; i++) {
		const struct stx__moved *m = &x->moved[i];
		const struct stx_tensor *t = &inputs[m->input];
		const struct stx_plan_value *pv = &a->plan.values[a->input_value[m->input]];
		const struct stx__value *v = &x->values[a->input_value[m->input]];
		int elem = stx_dtype_bytes(t->dtype);
		if (!e && (pv->flags & STX_TENSOR_MUTATED))
			e = stx__gpu_copy(x->gpu->code, (char *)t->data + t->offset * elem,
					  t->strides, v->ptr, t->strides, t->sizes, t->rank, elem,
					  env, d);
		stx__gpu_free(env, m->at, m->bytes);
	}
	x->nmoved = 0;
	return e;
}
