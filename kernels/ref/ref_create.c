/* ref_create.c: constants, ranges, conversions and copies. */
#include "ref_internal.h"

#include <string.h>

stx_err stx__ref_full(struct stx__ref *r, const struct stx_node *n)
{
	struct stx_tensor *out = stx__ref_result(r, n);
	union stx_scalar v = stx__ref_scalar(&n->args[1], n->outs[0].dtype);
	int64_t count;

	if (!out)
		return stx__ref_error(r);
	count = stx__ref_numel(out);
	for (int64_t i = 0; i < count; i++)
		stx__ref_store(out, i, v);
	return 0;
}

/* Integers wrap at the node's type; floats are start + step*i in f64, each operation rounded there.
 */
stx_err stx__ref_arange(struct stx__ref *r, const struct stx_node *n)
{
	struct stx_tensor *out = stx__ref_result(r, n);
	enum stx_dtype t = n->outs[0].dtype;
	int64_t count;

	if (!out)
		return stx__ref_error(r);
	count = out->sizes[0];
	for (int64_t i = 0; i < count; i++) {
		if (stx_dtype_is_float(t)) {
			double v = stx__ref_scalar_f(&n->args[0]) +
				   stx__ref_scalar_f(&n->args[2]) * (double)i;

			stx__ref_store(out, i,
				       stx__ref_cast(t, STX_F64, (union stx_scalar){ .f = v }));
		} else {
			uint64_t start = stx__ref_scalar(&n->args[0], STX_I64).u,
				 step = stx__ref_scalar(&n->args[2], STX_I64).u;

			stx__ref_store(out, i, stx_scalar_wrap(t, start + step * (uint64_t)i));
		}
	}
	return 0;
}

/* Argument i, converted and stretched over the result. */
static stx_err copy_of(struct stx__ref *r, const struct stx_node *n, uint32_t i)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, i);
	struct stx_tensor *out = stx__ref_result(r, n);
	struct stx__ref_walk w;

	if (!out)
		return stx__ref_error(r);
	stx__ref_walk_start(&w, out->rank, out->sizes);
	stx__ref_walk_broadcast(&w, x);
	for (int64_t at = 0; w.left > 0; at++, stx__ref_walk_next(&w))
		stx__ref_store(out, at,
			       stx__ref_cast(n->outs[0].dtype, (enum stx_dtype)x->dtype,
					     stx__ref_load(x, w.off[0])));
	return 0;
}

/* clone and _to_copy: one conversion. */
stx_err stx__ref_copy(struct stx__ref *r, const struct stx_node *n)
{
	return copy_of(r, n, 0);
}

/* copy, fill.Tensor: what is written over self. */
stx_err stx__ref_copy_into(struct stx__ref *r, const struct stx_node *n)
{
	return copy_of(r, n, 1);
}

/* The operand's bytes, row by row, as another type. */
stx_err stx__ref_view_dtype(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	struct stx_tensor *out = stx__ref_result(r, n);
	size_t width = (size_t)stx_dtype_bytes((enum stx_dtype)x->dtype);
	uint8_t *to;
	struct stx__ref_walk w;

	if (!out)
		return stx__ref_error(r);
	to = out->data;
	stx__ref_walk_start(&w, x->rank, x->sizes);
	stx__ref_walk_broadcast(&w, x);
	for (; w.left > 0; stx__ref_walk_next(&w), to += width)
		memcpy(to, stx__ref_at(x, w.off[0]), width);
	for (int64_t i = 0; out->dtype == STX_BOOL && i < stx__ref_numel(out); i++)
		((uint8_t *)out->data)[i] = ((uint8_t *)out->data)[i] != 0;
	return 0;
}
