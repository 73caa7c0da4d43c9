/* property_compare.c: results of a compiled run against the oracle's and against each other: bit
 * for bit, or within a node's own bound. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiled.h"
#include "property_case.h"
#include "ref.h"
#include "scalar.h"

struct prop_limits prop_limits(enum stx_dtype t)
{
	switch (t) {
	case STX_F64: return (struct prop_limits){ 0x1p-53, 0x1.fffffffffffffp1023, 0x1p-1074, 0 };
	case STX_F16: return (struct prop_limits){ 0x1p-11, 65504, 0x1p-24, 0 };
	case STX_BF16: return (struct prop_limits){ 0x1p-8, 0x1.fep127, 0x1p-133, 0 };
	case STX_F8E4M3FN: return (struct prop_limits){ 0x1p-4, 448, 0x1p-9, 1 };
	case STX_F8E5M2: return (struct prop_limits){ 0x1p-3, 57344, 0x1p-16, 0 };
	case STX_F8E4M3FNUZ: return (struct prop_limits){ 0x1p-4, 240, 0x1p-10, 1 };
	case STX_F8E5M2FNUZ: return (struct prop_limits){ 0x1p-3, 57344, 0x1p-17, 1 };
	default: return (struct prop_limits){ 0x1p-24, 0x1.fffffep127, 0x1p-149, 0 };
	}
}

static int equal(enum stx_dtype t, union stx_scalar x, union stx_scalar y)
{
	if (!stx_dtype_is_float(t))
		return x.u == y.u;
	if (isnan(x.f) || isnan(y.f))
		return isnan(x.f) && isnan(y.f);
	return x.f == y.f && signbit(x.f) == signbit(y.f);
}

/* Whether got is an acceptable value of an inexact node. tol -infinite: not compared; negative:
 * within -tol where both are finite, else not compared; infinite or NaN: an operand was, then the
 * result is exactly the wanted infinity or NaN (or NaN, where finite parts overflow against it). */
static int within(enum stx_dtype t, double got, double want, double tol, double relative)
{
	double u = t == STX_F64 ? 0x1p-53 : 0x1p-24, top = prop_limits(t).largest;
	if (signbit(tol) && !isnan(tol)) {
		if (isinf(tol) || !isfinite(want) || !isfinite(got))
			return 1;
		tol = -tol;
	}
	if ((tol == INFINITY && t == STX_F64) ||
	    (isfinite(tol) && tol > u * prop_limits(t == STX_F64 ? t : STX_F32).largest))
		return 1;
	if (prop_limits(t).no_infinity && isnan(want) != isnan(got)) { /* one rounded beyond it */
		double finite = isnan(want) ? got : want;
		return fabs(finite) * (1 + 2 * relative) + tol >=
		       top * (1 - 2 * prop_limits(t).roundoff);
	}
	if (isnan(want))
		return isnan(got);
	if (got == want)
		return 1;
	if (!isfinite(tol))
		return isnan(got);
	tol += relative * fabs(want) + 2 * prop_limits(t).roundoff * fabs(want) +
	       4 * prop_limits(t).smallest +
	       2000 * prop_limits(t == STX_F64 ? t : STX_F32).smallest;
	if (isinf(want) || isinf(got)) { /* one of them rounded beyond the largest number */
		double finite = isinf(want) ? got : want, other = isinf(want) ? want : got;
		return isfinite(finite) && copysign(1, finite) == copysign(1, other) &&
		       fabs(finite) * (1 + 2 * relative) + tol >=
			       top * (1 - 2 * prop_limits(t).roundoff) - 2 * tol;
	}
	return fabs(got - want) <= tol;
}

static void print_value(enum stx_dtype t, union stx_scalar v, char *out, size_t cap)
{
	if (stx_dtype_is_float(t))
		snprintf(out, cap, "%.17g (%a)", v.f, v.f);
	else if (stx_dtype_kind(t) == STX_KIND_UINT)
		snprintf(out, cap, "%llu", (unsigned long long)v.u);
	else
		snprintf(out, cap, "%lld", (long long)v.i);
}

static int report(const struct stx_tensor *x, uint32_t output, int64_t i, union stx_scalar got,
		  union stx_scalar want, const char *rest, char *why, size_t cap)
{
	char a[80], b[80];
	print_value((enum stx_dtype)x->dtype, got, a, sizeof a);
	print_value((enum stx_dtype)x->dtype, want, b, sizeof b);
	snprintf(why, cap, "output %u (%s), element %lld of %lld: got %s, want %s%s", output,
		 stx_dtype_name((enum stx_dtype)x->dtype), (long long)i,
		 (long long)compiled_numel(x), a, b, rest);
	return -1;
}

static int same_shape(const struct stx_tensor *a, const struct stx_tensor *b, uint32_t output,
		      char *why, size_t cap)
{
	int same = a->dtype == b->dtype && a->rank == b->rank;
	for (int i = 0; same && i < a->rank; i++)
		same = a->sizes[i] == b->sizes[i];
	if (!same)
		snprintf(why, cap, "output %u: another dtype or shape", output);
	return same;
}

static const void *element(const struct stx_tensor *t, int64_t i)
{
	return (const char *)t->data + i * stx_dtype_bytes((enum stx_dtype)t->dtype);
}

int prop_same(const struct stx_tensor *a, const struct stx_tensor *b, uint32_t n, char *why,
	      size_t cap)
{
	for (uint32_t k = 0; k < n; k++) {
		enum stx_dtype t = (enum stx_dtype)a[k].dtype;
		int64_t count = compiled_numel(&a[k]);
		if (!same_shape(&a[k], &b[k], k, why, cap))
			return -1;
		if (!memcmp(a[k].data, b[k].data, (size_t)(count * stx_dtype_bytes(t))))
			continue;
		for (int64_t i = 0; i < count; i++) {
			union stx_scalar x = stx_scalar_load(t, element(&a[k], i)),
					 y = stx_scalar_load(t, element(&b[k], i));
			if (!equal(t, x, y))
				return report(&a[k], k, i, x, y, "", why, cap);
		}
	}
	return 0;
}

static int compare_one(const struct prop_cut *cut, const struct stx_tensor *got,
		       const struct stx_tensor *want, const struct stx_tensor *tol, uint32_t k,
		       char *why, size_t cap)
{
	enum stx_dtype t = (enum stx_dtype)want->dtype;
	int64_t n = compiled_numel(want), over = 0;
	char rest[120];
	if (!same_shape(got, want, k, why, cap))
		return -1;
	if (tol) { /* broadcasts from the right, as layer_norm's */
		over = compiled_numel(tol);
		if (n && n % over)
			abort();
	}
	for (int64_t i = 0; i < n; i++) {
		union stx_scalar x = stx_scalar_load(t, element(got, i)),
				 y = stx_scalar_load(t, element(want, i));
		if (!tol) {
			if (!equal(t, x, y))
				return report(want, k, i, x, y, "", why, cap);
			continue;
		}
		double by = ((const double *)tol->data)[i % over];
		if (within(t, x.f, y.f, by, cut->relative[k]))
			continue;
		snprintf(rest, sizeof rest, ", tolerance %g + %g*want; %s", by, cut->relative[k],
			 stx_op_info(cut->run->outputs.at[k].val.node->op)->overload);
		return report(want, k, i, x, y, rest, why, cap);
	}
	return 0;
}

int prop_compare(const struct prop_cut *cut, const struct stx_tensor *inputs,
		 const struct stx_tensor *got, char *why, size_t cap)
{
	struct stx_tensor in[PROP_MAX_INPUTS], want[2 * PROP_MAX_OUTPUTS];
	uint32_t nin = cut->run->inputs.n, first = cut->nouts - cut->ninexact;
	struct stx_diag d = { 0 };
	memcpy(in, inputs, nin * sizeof *in);
	for (uint32_t i = 0; i < cut->ninexact; i++)
		in[nin + i] = got[first + i];
	if (stx_ref_evaluate(cut->oracle, in, nin + cut->ninexact, want, 0, &d)) {
		snprintf(why, cap, "the oracle fails: %s: %s", d.node, d.text);
		return -1;
	}
	int bad = 0;
	for (uint32_t k = 0; !bad && k < cut->nouts; k++)
		bad = compare_one(cut, &got[k], &want[k],
				  cut->tolerance[k] ? &want[cut->tolerance[k]] : NULL, k, why, cap);
	compiled_free_outputs(want, cut->oracle->outputs.n);
	return bad;
}
