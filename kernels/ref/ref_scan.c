/* ref_scan.c: running sums and products along one dimension, each partial result rounded once. */
#include "ref_internal.h"

#include <string.h>

stx_err stx__ref_scan(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	struct stx_tensor *out;
	struct stx__ref_walk w;
	int64_t sizes[STX_MAX_DIMS], count, xs, os;
	uint32_t d;
	stx_err e = stx__ref_dim(r, n, n->args[1].u.ex, x->rank, &d);

	if (e)
		return e;
	out = stx__ref_result(r, n);
	if (!out)
		return stx__ref_error(r);
	enum stx_dtype t = (enum stx_dtype)out->dtype;

	memcpy(sizes, x->sizes, sizeof sizes);
	count = x->rank ? x->sizes[d] : 1;
	xs = x->rank ? x->strides[d] : 0;
	os = x->rank ? out->strides[d] : 0;
	if (x->rank)
		sizes[d] = 1;
	stx__ref_walk_start(&w, x->rank, sizes);
	stx__ref_walk_add(&w, x->strides, x->offset);
	for (stx__ref_walk_add(&w, out->strides, 0); w.left > 0; stx__ref_walk_next(&w)) {
		struct stx__ref_sum sum = { 0, 0 };
		long double product = 1;
		uint64_t whole = n->op == STX_OP_CUMPROD;

		for (int64_t i = 0; i < count; i++) {
			union stx_scalar v = stx__ref_cast(t, (enum stx_dtype)x->dtype,
							   stx__ref_load(x, w.off[0] + i * xs));

			if (!stx_dtype_is_float(t)) {
				whole = n->op == STX_OP_CUMPROD ? whole * v.u : whole + v.u;
				v = stx_scalar_wrap(t, whole);
			} else if (n->op == STX_OP_CUMPROD) {
				product *= v.f;
				v.f = stx__ref_round_wide(t, product);
			} else {
				stx__ref_sum_add(&sum, v.f);
				v.f = stx__ref_round_wide(t, stx__ref_sum_value(&sum));
			}
			stx__ref_store(out, w.off[1] + i * os, v);
		}
	}
	return 0;
}
