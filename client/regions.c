/* regions.c: the memory that a step writes, so that a trial writes elsewhere. */
#include <stdlib.h>

#include "dtype.h"
#include "tuner.h"

void stx__value_extent(const struct stx__value *v, int rank, int elem_bytes, int64_t *lo,
		       int64_t *hi)
{
	*lo = 0;
	*hi = elem_bytes;
	for (int i = 0; i < rank; i++) {
		int64_t far = (v->sizes[i] - 1) * v->strides[i] * elem_bytes; /* bound before */
		if (v->sizes[i] == 0)
			*hi = 0;
		*lo += far < 0 ? far : 0;
		*hi += far > 0 ? far : 0;
	}
	if (*hi <= 0)
		*lo = *hi = 0;
	if (*hi < v->bytes && *lo == 0)
		*hi = v->bytes;
}

uint32_t stx__arg_flags(const struct stax_artifact *a, const struct stx__step *s, uint32_t arg)
{
	const struct stx_plan *p = &a->plan;
	uint32_t uses =
		s->kind == STX__STEP_EXTERN ? stx_plan_extern_of(p, s->plan)->uses : s->plan->b;
	return uses ? stx_plan_u32s(p, uses)[arg] : STX_ARG_READ | STX_ARG_WRITTEN;
}

void stx__region_of(const struct stax_artifact *a, const struct stx__context *x,
		    const struct stx__step *s, uint32_t arg, struct stx__region *r)
{
	uint32_t value = stx_plan_u32s(&a->plan, s->plan->args)[arg];
	uint32_t flags = stx__arg_flags(a, s, arg);
	const struct stx_plan_value *v = &a->plan.values[value];
	int64_t lo, hi;
	stx__value_extent(&x->values[value], v->rank, stx_dtype_bytes(v->dtype), &lo, &hi);
	uint64_t at = (uint64_t)(uintptr_t)s->frame.buffers[arg];
	*r = (struct stx__region){ .lo = at + (uint64_t)lo,
				   .hi = at + (uint64_t)hi,
				   .written = (flags & STX_ARG_WRITTEN) != 0,
				   .read = (flags & STX_ARG_READ) != 0 };
}

static int by_address(const void *a, const void *b)
{
	const struct stx__region *x = a, *y = b;
	return (x->lo > y->lo) - (x->lo < y->lo);
}

uint32_t stx__regions_find(const struct stax_artifact *a, const struct stx__context *x,
			   const struct stx__step *s, struct stx__region *r)
{
	uint32_t n = 0, kept = 0;
	for (uint32_t i = 0; i < s->nparams; i++)
		stx__region_of(a, x, s, i, &r[i]);
	qsort(r, s->nparams, sizeof *r, by_address);
	for (uint32_t i = 0; i < s->nparams; i++) {
		if (r[i].hi == r[i].lo)
			continue;
		if (n && r[i].lo < r[n - 1].hi) {
			r[n - 1].hi = r[i].hi > r[n - 1].hi ? r[i].hi : r[n - 1].hi;
			r[n - 1].written |= r[i].written;
			r[n - 1].read |= r[i].read;
		} else {
			r[n++] = r[i];
		}
	}
	for (uint32_t i = 0; i < n; i++)
		if (r[i].written)
			r[kept++] = r[i];
	return kept;
}

void stx__regions_place(const struct stax_artifact *a, const struct stx__context *x,
			const struct stx__step *s, const struct stx__region *r, uint32_t n,
			void **buffers)
{
	for (uint32_t i = 0; i < s->nparams; i++) {
		uint64_t at = (uint64_t)(uintptr_t)s->frame.buffers[i];
		struct stx__region mine;
		stx__region_of(a, x, s, i, &mine);
		buffers[i] = s->frame.buffers[i];
		for (uint32_t j = 0; j < n; j++)
			if (mine.lo >= r[j].lo && mine.hi <= r[j].hi && mine.hi > mine.lo)
				buffers[i] = (void *)(uintptr_t)(r[j].scratch + at - r[j].lo);
	}
}
