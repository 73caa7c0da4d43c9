/* walk.c: index spaces, and rounding from extended precision. */
#include "ref_internal.h"

#include <math.h>
#include <string.h>

int64_t stx__ref_numel(const struct stx_tensor *t)
{
	int64_t n = 1;

	for (uint32_t i = 0; i < t->rank; i++)
		n *= t->sizes[i];
	return n;
}

void stx__ref_walk_start(struct stx__ref_walk *w, uint32_t rank, const int64_t *sizes)
{
	memset(w, 0, sizeof *w);
	w->rank = rank;
	w->left = 1;
	for (uint32_t i = 0; i < rank; i++) {
		w->sizes[i] = sizes[i];
		w->left *= sizes[i];
	}
}

uint32_t stx__ref_walk_add(struct stx__ref_walk *w, const int64_t *strides, int64_t offset)
{
	memcpy(w->strides[w->nops], strides, w->rank * sizeof *strides);
	w->off[w->nops] = offset;
	return w->nops++;
}

uint32_t stx__ref_walk_broadcast(struct stx__ref_walk *w, const struct stx_tensor *t)
{
	int64_t strides[STX_MAX_DIMS] = { 0 };
	uint32_t lead = w->rank - t->rank;

	for (uint32_t i = 0; i < t->rank; i++)
		strides[lead + i] = t->sizes[i] == 1 ? 0 : t->strides[i];
	return stx__ref_walk_add(w, strides, t->offset);
}

void stx__ref_walk_next(struct stx__ref_walk *w)
{
	w->left--;
	for (uint32_t i = w->rank; i-- > 0;) {
		if (++w->at[i] < w->sizes[i]) {
			for (uint32_t k = 0; k < w->nops; k++)
				w->off[k] += w->strides[k][i];
			return;
		}
		for (uint32_t k = 0; k < w->nops; k++)
			w->off[k] -= w->strides[k][i] * (w->sizes[i] - 1);
		w->at[i] = 0;
	}
}

/* f64 directly; smaller types from a double rounded to odd, so that rounding happens once. */
double stx__ref_round_wide(enum stx_dtype t, long double v)
{
	double s = (double)v;

	if (t == STX_F64)
		return s;
	if (isfinite(s) && (long double)s != v && !(stx_scalar_bits(STX_F64, s) & 1))
		s = nextafter(s, (long double)s < v ? INFINITY : -INFINITY);
	return stx_scalar_round(t, s);
}
