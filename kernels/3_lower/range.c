/* range.c
 * interval transfer functions of primitives on integer values (seed 000 Definition 6.4;
 * VR-01..VR-04).
 *
 * Sound for the total semantics of prims.def: a result that could wrap in its dtype gives the
 * dtype's whole range. Floats, and u64, are not tracked and give (-inf, inf). */
#include "lower.h"

static const struct stx_interval anything = { STX_NEG_INF, STX_POS_INF };

static struct stx_interval whole(enum stx_dtype t)
{
	struct stx_interval r = anything;

	stx__dtype_range(t, &r);
	return r;
}

static struct stx_interval fit(enum stx_dtype t, __int128 lo, __int128 hi)
{
	struct stx_interval r;

	if (!stx__dtype_range(t, &r) || lo < r.lo || hi > r.hi)
		return whole(t);
	return (struct stx_interval){ (int64_t)lo, (int64_t)hi };
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

struct stx_interval stx__range_const(enum stx_dtype t, union stx_scalar k)
{
	struct stx_interval r;

	if (!stx__dtype_range(t, &r))
		return anything;
	return (struct stx_interval){ k.i, k.i };
}

static struct stx_interval range_mul(enum stx_dtype t, struct stx_interval a, struct stx_interval b)
{
	__int128 v[4] = { (__int128)a.lo * b.lo, (__int128)a.lo * b.hi, (__int128)a.hi * b.lo,
			  (__int128)a.hi * b.hi };
	__int128 lo = v[0], hi = v[0];
	int i;

	for (i = 1; i < 4; i++) {
		lo = v[i] < lo ? v[i] : lo;
		hi = v[i] > hi ? v[i] : hi;
	}
	return fit(t, lo, hi);
}

/* Division and remainders, only for what index code needs: a positive divisor. */
static struct stx_interval range_div(enum stx_prim op, enum stx_dtype t, struct stx_interval a,
				     struct stx_interval b)
{
	if (b.lo < 1)
		return whole(t);
	switch (op) {
	case STX_P_MOD:
		return (struct stx_interval){ 0, a.lo >= 0 ? least(a.hi, b.hi - 1) : b.hi - 1 };
	case STX_P_REM:
		return (struct stx_interval){ a.lo >= 0 ? 0 : most(a.lo, 1 - b.hi),
					      a.hi <= 0 ? 0 : least(a.hi, b.hi - 1) };
	default: /* both divisions */
		return a.lo >= 0 ? (struct stx_interval){ a.lo / b.hi, a.hi / b.lo } : whole(t);
	}
}

struct stx_interval stx__range_prim(enum stx_prim op, enum stx_dtype t, enum stx_dtype src,
				    struct stx_interval a, struct stx_interval b,
				    struct stx_interval c)
{
	struct stx_interval r;

	if (!stx__dtype_range(t, &r) || (!stx__dtype_range(src, &r) && op != STX_P_SELECT))
		return whole(t);
	switch (op) {
	case STX_P_ADD: return fit(t, (__int128)a.lo + b.lo, (__int128)a.hi + b.hi);
	case STX_P_SUB: return fit(t, (__int128)a.lo - b.hi, (__int128)a.hi - b.lo);
	case STX_P_MUL: return range_mul(t, a, b);
	case STX_P_NEG: return fit(t, -(__int128)a.hi, -(__int128)a.lo);
	case STX_P_ABS:
		return a.lo >= 0 ? a : fit(t, 0, a.hi > -(__int128)a.lo ? a.hi : -(__int128)a.lo);
	case STX_P_RELU: return (struct stx_interval){ most(a.lo, 0), most(a.hi, 0) };
	case STX_P_MOD:
	case STX_P_REM:
	case STX_P_DIV:
	case STX_P_FLOORDIV: return range_div(op, t, a, b);
	case STX_P_MIN: return (struct stx_interval){ least(a.lo, b.lo), least(a.hi, b.hi) };
	case STX_P_MAX: return (struct stx_interval){ most(a.lo, b.lo), most(a.hi, b.hi) };
	case STX_P_SELECT: return (struct stx_interval){ least(b.lo, c.lo), most(b.hi, c.hi) };
	case STX_P_CAST: return fit(t, a.lo, a.hi);
	default: return whole(t);
	}
}
