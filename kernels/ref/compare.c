/* compare.c: a computed tensor against the oracle's.
 *
 * Integers, bools and NaN positions must agree exactly, infinities too; floats within atol +
 * rtol*|want|. For sums the tolerance is not a guess: stx_ref_sum_bound gives coefficient * u *
 * sum|a| (RD-12), with the coefficient of the order of summation (RD-07..RD-09). */
#include "ref_internal.h"

#include <math.h>

/* Unit roundoff of a float type. */
static double roundoff(enum stx_dtype t)
{
	switch (t) {
	case STX_F64: return 0x1p-53;
	case STX_F32: return 0x1p-24;
	case STX_F16: return 0x1p-11;
	case STX_BF16: return 0x1p-8;
	case STX_F8E4M3FN:
	case STX_F8E4M3FNUZ: return 0x1p-4;
	default: return 0x1p-3;
	}
}

double stx_ref_sum_bound(enum stx_dtype t, double coefficient, double sum_abs)
{
	return coefficient * roundoff(t) * sum_abs;
}

static int differs(struct stx_compare *c, double got, double want)
{
	double diff;

	if (isnan(got) || isnan(want))
		return !(isnan(got) && isnan(want));
	if (got == want)
		return 0;
	if (isinf(got) || isinf(want)) {
		c->max_abs = c->max_rel = INFINITY;
		return 1;
	}
	diff = fabs(got - want);
	if (diff > c->max_abs)
		c->max_abs = diff;
	if (want != 0 && diff / fabs(want) > c->max_rel)
		c->max_rel = diff / fabs(want);
	return !(diff <= c->atol + c->rtol * fabs(want));
}

/* How far beyond its tolerance an element is, to find the worst one. */
static double excess(const struct stx_compare *c, double got, double want)
{
	double diff = fabs(got - want);

	return isfinite(diff) ? diff - c->atol - c->rtol * fabs(want) : INFINITY;
}

stx_err stx_ref_compare(const struct stx_tensor *got, const struct stx_tensor *want,
			struct stx_compare *c, struct stx_diag *d)
{
	int is_float = stx_dtype_is_float((enum stx_dtype)want->dtype);
	struct stx__ref_walk w;
	double worst = -1;

	c->max_abs = c->max_rel = 0;
	c->worst = -1;
	c->mismatches = 0;
	if (got->dtype != want->dtype || got->rank != want->rank)
		return stx_fail(d, STX_E_MISMATCH, "compare", "",
				"%s of rank %u, wanted %s of rank %u",
				stx_dtype_name((enum stx_dtype)got->dtype), got->rank,
				stx_dtype_name((enum stx_dtype)want->dtype), want->rank);
	for (uint32_t i = 0; i < want->rank; i++)
		if (got->sizes[i] != want->sizes[i])
			return stx_fail(d, STX_E_MISMATCH, "compare", "",
					"size %u is %lld, wanted %lld", i, (long long)got->sizes[i],
					(long long)want->sizes[i]);
	stx__ref_walk_start(&w, want->rank, want->sizes);
	stx__ref_walk_add(&w, got->strides, got->offset);
	stx__ref_walk_add(&w, want->strides, want->offset);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		union stx_scalar a = stx__ref_load(got, w.off[0]),
				 b = stx__ref_load(want, w.off[1]);
		double by = INFINITY;

		if (is_float ? !differs(c, a.f, b.f) : a.u == b.u)
			continue;
		c->mismatches++;
		if (is_float)
			by = excess(c, a.f, b.f);
		if (by > worst) {
			worst = by;
			c->worst = i;
		}
	}
	if (c->mismatches == 0)
		return 0;
	return stx_fail(d, STX_E_MISMATCH, "compare", "",
			"%lld elements differ, the worst is element %lld (largest "
			"difference %g, relative %g)",
			(long long)c->mismatches, (long long)c->worst, c->max_abs, c->max_rel);
}
