/* ref_contract.c: matrix products. Floats: exact products, compensated sums in extended precision,
 * one rounding to the node's type; integers wrap. */
#include "ref_internal.h"

#include <math.h>
#include <string.h>

/* The f32 case in its own loop: products are exact in f64, the sum carries its error (Knuth's
 * TwoSum). */
static long double dot_f32(const float *a, int64_t sa, const float *b, int64_t sb, int64_t k)
{
	double sum = 0, error = 0;
	for (int64_t i = 0; i < k; i++) {
		double p = (double)a[i * sa] * (double)b[i * sb], t = sum + p, z = t - sum;
		error += (sum - (t - z)) + (p - z);
		sum = t;
	}
	return isfinite(sum) ? (long double)sum + error : (long double)sum;
}

/* Sum of a[i*sa] * b[i*sb] over k elements. */
static union stx_scalar dot(const struct stx_tensor *a, int64_t ao, int64_t sa,
			    const struct stx_tensor *b, int64_t bo, int64_t sb, int64_t k,
			    long double *wide)
{
	int is_float = stx_dtype_is_float((enum stx_dtype)a->dtype);
	struct stx__ref_sum s = { 0, 0 };
	union stx_scalar v = { .u = 0 };

	if (a->dtype == STX_F32 && b->dtype == STX_F32) {
		*wide = dot_f32((const float *)a->data + ao, sa, (const float *)b->data + bo, sb,
				k);
		return v;
	}
	for (int64_t i = 0; i < k; i++, ao += sa, bo += sb) {
		union stx_scalar x = stx__ref_load(a, ao), y = stx__ref_load(b, bo);

		if (!is_float) {
			v.u += x.u * y.u;
			continue;
		}
		double p = x.f * y.f;

		stx__ref_sum_add(
			&s, p); /* exact for f32 and smaller; f64 needs what the product lost */
		if (a->dtype == STX_F64 && isfinite(p))
			s.c += fma(x.f, y.f, -p);
	}
	*wide = stx__ref_sum_value(&s);
	return v;
}

static void store_wide(struct stx_tensor *out, int64_t at, long double v)
{
	stx__ref_store(
		out, at,
		(union stx_scalar){ .f = stx__ref_round_wide((enum stx_dtype)out->dtype, v) });
}

/* mm, bmm, matmul: the last two dimensions are matrices (a vector stands for a row or a column),
 * the ones before broadcast. */
stx_err stx__ref_matmul(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *a = stx__ref_arg(r, n, 0), *b = stx__ref_arg(r, n, 1);
	int64_t sizes[STX_MAX_DIMS + 2] = { 0 }, as[STX_MAX_DIMS] = { 0 }, bs[STX_MAX_DIMS] = { 0 },
				     k = a->sizes[a->rank - 1];
	uint32_t batch, row = a->rank > 1, col = b->rank > 1;
	int64_t ka = a->strides[a->rank - 1], kb = b->strides[col ? b->rank - 2 : 0];
	struct stx_tensor *out = stx__ref_result(r, n);
	int is_float = stx_dtype_is_float((enum stx_dtype)a->dtype);
	struct stx__ref_walk w;

	if (!out)
		return stx__ref_error(r);
	batch = out->rank - row - col;
	memcpy(sizes, out->sizes, out->rank * sizeof *sizes);
	for (uint32_t d = 0; d < batch; d++) {
		int64_t da = (int64_t)d - batch + a->rank - 2,
			db = (int64_t)d - batch + b->rank - 2;

		as[d] = da >= 0 && a->sizes[da] != 1 ? a->strides[da] : 0;
		bs[d] = db >= 0 && b->sizes[db] != 1 ? b->strides[db] : 0;
	}
	if (row)
		as[batch] = a->strides[a->rank - 2];
	if (col)
		bs[batch + row] = b->strides[b->rank - 1];
	stx__ref_walk_start(&w, out->rank, sizes);
	stx__ref_walk_add(&w, as, a->offset);
	stx__ref_walk_add(&w, bs, b->offset);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		long double wide;
		union stx_scalar v = dot(a, w.off[0], ka, b, w.off[1], kb, k, &wide);

		if (is_float)
			store_wide(out, i, wide);
		else
			stx__ref_store(out, i, stx_scalar_wrap((enum stx_dtype)out->dtype, v.u));
	}
	return 0;
}

/* beta*self + alpha*(mat1 @ mat2), rounded once; beta 0: self is not read; alpha 0: nor is the
 * product. */
stx_err stx__ref_addmm(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *c = stx__ref_arg(r, n, 0), *a = stx__ref_arg(r, n, 1),
				*b = stx__ref_arg(r, n, 2);
	long double beta = stx__ref_scalar_f(&n->args[3]), alpha = stx__ref_scalar_f(&n->args[4]);
	int is_float = stx_dtype_is_float((enum stx_dtype)a->dtype);
	struct stx_tensor *out = stx__ref_result(r, n);
	struct stx__ref_walk w;
	uint32_t ic;

	if (!out)
		return stx__ref_error(r);
	stx__ref_walk_start(&w, 2, out->sizes);
	stx__ref_walk_add(&w, (int64_t[]){ a->strides[0], 0 }, a->offset);
	stx__ref_walk_add(&w, (int64_t[]){ 0, b->strides[1] }, b->offset);
	ic = stx__ref_walk_broadcast(&w, c);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		long double wide;
		union stx_scalar v = dot(a, w.off[0], a->strides[1], b, w.off[1], b->strides[0],
					 a->sizes[1], &wide);
		union stx_scalar x = stx__ref_load(c, w.off[ic]);

		if (is_float) {
			store_wide(out, i,
				   (alpha != 0 ? alpha * wide : 0) + (beta != 0 ? beta * x.f : 0));
			continue;
		}
		v.u = v.u * (uint64_t)n->args[4].u.i + x.u * (uint64_t)n->args[3].u.i;
		stx__ref_store(out, i, stx_scalar_wrap((enum stx_dtype)out->dtype, v.u));
	}
	return 0;
}

/* input @ weight^T + bias, rounded once */
stx_err stx__ref_linear(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0), *wt = stx__ref_arg(r, n, 1),
				*bias = stx__ref_arg(r, n, 2);
	int is_float = stx_dtype_is_float((enum stx_dtype)x->dtype);
	struct stx_tensor *out = stx__ref_result(r, n);
	int64_t xs[STX_MAX_DIMS] = { 0 }, ws[STX_MAX_DIMS] = { 0 };
	uint32_t last = x->rank - 1u;
	struct stx__ref_walk w;

	if (!out)
		return stx__ref_error(r);
	memcpy(xs, x->strides, last * sizeof *xs);
	ws[last] = wt->strides[0];
	stx__ref_walk_start(&w, out->rank, out->sizes);
	stx__ref_walk_add(&w, xs, x->offset);
	stx__ref_walk_add(&w, ws, wt->offset);
	if (bias)
		stx__ref_walk_broadcast(&w, bias);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w)) {
		long double wide;
		union stx_scalar v = dot(x, w.off[0], x->strides[last], wt, w.off[1],
					 wt->strides[1], x->sizes[last], &wide);
		union stx_scalar c = { .u = 0 };

		if (bias)
			c = stx__ref_load(bias, w.off[2]);
		if (is_float)
			store_wide(out, i, wide + (bias ? (long double)c.f : 0));
		else
			stx__ref_store(out, i,
				       stx_scalar_wrap((enum stx_dtype)out->dtype, v.u + c.u));
	}
	return 0;
}
