/* monoids.c
 * the table of reduction monoids: names, state sizes, identities (seed 000 Definition 6.3; RD-01).
 */
#include <math.h>
#include <string.h>

#include "loops.h"

static const struct stx_monoid_info monoids[STX_MONOID_COUNT] = {
#define STX_MONOID(name, text, nvals, state, split) { text, nvals, state, split },
#include "monoids.def"
#undef STX_MONOID
};

const struct stx_monoid_info *stx_monoid_info(enum stx_monoid m)
{
	return &monoids[m];
}

int stx_monoid_parse(const char *text, int n)
{
	int m;

	for (m = 0; m < STX_MONOID_COUNT; m++)
		if ((int)strlen(monoids[m].text) == n && !memcmp(monoids[m].text, text, (size_t)n))
			return m;
	return -1;
}

/* Lowest (or highest) value of t: infinities for floats that have them. */
static union stx_scalar extreme(enum stx_dtype t, int highest)
{
	union stx_scalar v = { .u = 0 };
	int bits = 8 * stx_dtype_bytes(t);

	switch (stx_dtype_kind(t)) {
	case STX_KIND_BOOL: v.i = highest; break;
	case STX_KIND_UINT: v.u = highest ? UINT64_MAX >> (64 - bits) : 0; break;
	case STX_KIND_INT:
		v.i = highest ? INT64_MAX >> (64 - bits) : -(INT64_MAX >> (64 - bits)) - 1;
		break;
	case STX_KIND_FLOAT: v.f = highest ? INFINITY : -INFINITY; break;
	}
	return v;
}

enum stx_dtype stx_monoid_state_dtype(enum stx_monoid m, unsigned state, enum stx_dtype acc)
{
	return state == 1 && stx_monoid_is_arg(m) ? STX_I64 : acc;
}

union stx_scalar stx_monoid_identity(enum stx_monoid m, enum stx_dtype t)
{
	union stx_scalar v = { .u = 0 };

	switch (m) {
	case STX_MONOID_MAX:
	case STX_MONOID_SOFTMAX:
	case STX_MONOID_ATTEND:
	case STX_MONOID_ARGMAX: return extreme(t, 0);
	case STX_MONOID_MIN:
	case STX_MONOID_ARGMIN: return extreme(t, 1);
	case STX_MONOID_PROD:
	case STX_MONOID_ALL:
		if (stx_dtype_is_float(t))
			v.f = 1;
		else
			v.i = 1;
		return v;
	default: /* sum, any, dot, welford: zero */ return v;
	}
}
