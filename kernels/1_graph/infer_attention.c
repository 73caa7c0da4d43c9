/* infer_attention.c: result types of attention. */
#include <string.h>

#include "infer.h"
#include "passes.h"

/* Ranks, types and the sizes that must agree. */
static stx_err check_operands(struct stx_graph *g, const struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *q = stx__infer_type(n, 0), *k = stx__infer_type(n, 1),
			      *v = stx__infer_type(n, 2);
	if (!stx_dtype_is_float(q->dtype) || k->dtype != q->dtype || v->dtype != q->dtype)
		return STX__INFER_FAIL(d, n,
				       "query, key and value are %s, %s and %s; they must be of "
				       "one floating-point type",
				       stx_dtype_name(q->dtype), stx_dtype_name(k->dtype),
				       stx_dtype_name(v->dtype));
	if (q->rank < 2 || k->rank < 2 || v->rank < 2)
		return STX__INFER_FAIL(d, n, "query, key and value need [.., length, size]");
	if (q->sizes[q->rank - 1] != k->sizes[k->rank - 1])
		return STX__INFER_FAIL(d, n, "query is %s and key %s: their last sizes differ",
				       stx__infer_shown(g, q), stx__infer_shown(g, k));
	if (k->sizes[k->rank - 2] != v->sizes[v->rank - 2])
		return STX__INFER_FAIL(d, n, "key is %s and value %s: their lengths differ",
				       stx__infer_shown(g, k), stx__infer_shown(g, v));
	if (n->args[4].u.f != 0)
		return STX__INFER_FAIL(d, n,
				       "dropout_p is %g: dropout of the weights is not offered; "
				       "write softmax, native_dropout and matmul",
				       n->args[4].u.f);
	if (n->args[5].u.i && n->args[3].kind == STX_ARG_TENSOR)
		return STX__INFER_FAIL(d, n, "is_causal and attn_mask exclude each other");
	return 0;
}

/* Batch sizes of operand i; with enable_gqa its heads as many as the query's. */
static stx_err batch_of(struct stx_graph *g, const struct stx_node *n, uint32_t i,
			struct stx_type *out, stx_ex *sizes, struct stx_diag *d)
{
	const struct stx_type *q = stx__infer_type(n, 0), *t = stx__infer_type(n, i);
	*out = (struct stx_type){ .rank = (uint8_t)(t->rank - 2u), .sizes = sizes };
	memcpy(sizes, t->sizes, t->rank * sizeof *sizes);
	if (!n->args[7].u.i || i == 0)
		return 0;
	int64_t heads, have;
	if (q->rank < 3 || t->rank < 3 || !stx_ex_is_const(g->ex, q->sizes[q->rank - 3], &heads) ||
	    !stx_ex_is_const(g->ex, t->sizes[t->rank - 3], &have) || have < 1 || heads % have)
		return STX__INFER_FAIL(d, n,
				       "enable_gqa: the heads of %s do not divide those of %s",
				       stx__infer_shown(g, t), stx__infer_shown(g, q));
	sizes[t->rank - 3] = q->sizes[q->rank - 3];
	return 0;
}

/* The mask is bool, or a float, and broadcasts to the scores. */
static stx_err check_mask(struct stx_graph *g, const struct stx_node *n,
			  const struct stx_type *batch, struct stx_diag *d)
{
	const struct stx_type *q = stx__infer_type(n, 0), *k = stx__infer_type(n, 1);
	stx_ex sizes[STX_MAX_DIMS];
	struct stx_type scores = { .rank = (uint8_t)(batch->rank + 2u), .sizes = sizes }, all;
	if (n->args[3].kind != STX_ARG_TENSOR)
		return 0;
	const struct stx_type *m = stx__infer_type(n, 3);
	if (m->dtype != STX_BOOL && !stx_dtype_is_float(m->dtype))
		return STX__INFER_FAIL(d, n, "attn_mask is %s; it must be bool or a float",
				       stx_dtype_name(m->dtype));
	if (m->dtype != STX_BOOL && m->dtype != q->dtype && m->dtype != STX_F32)
		return STX__INFER_FAIL(d, n,
				       "attn_mask is %s and query %s; a mask that is added "
				       "has query's type, or f32",
				       stx_dtype_name(m->dtype), stx_dtype_name(q->dtype));
	memcpy(sizes, batch->sizes, batch->rank * sizeof *sizes);
	sizes[batch->rank] = q->sizes[q->rank - 2];
	sizes[batch->rank + 1] = k->sizes[k->rank - 2];
	stx_err e = stx_infer_broadcast(g, (const struct stx_type *[]){ &scores, m }, 2, &all, d);
	if (!e && (all.rank != scores.rank || memcmp(all.sizes, sizes, all.rank * sizeof *sizes)))
		return STX__INFER_FAIL(d, n, "attn_mask %s does not broadcast to the scores",
				       stx__infer_shown(g, m));
	return e;
}

stx_err stx_shape_sdpa(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *q = stx__infer_type(n, 0), *v = stx__infer_type(n, 2);
	stx_ex room[3][STX_MAX_DIMS], sizes[STX_MAX_DIMS];
	struct stx_type of[3], batch = { 0 };
	stx_err e = check_operands(g, n, d);
	for (uint32_t i = 0; i < 3 && !e; i++)
		e = batch_of(g, n, i, &of[i], room[i], d);
	if (!e)
		e = stx_infer_broadcast(g, (const struct stx_type *[]){ &of[0], &of[1], &of[2] }, 3,
					&batch, d);
	if (!e)
		e = check_mask(g, n, &batch, d);
	if (e)
		return e;
	memcpy(sizes, batch.sizes, batch.rank * sizeof *sizes);
	sizes[batch.rank] = q->sizes[q->rank - 2];
	sizes[batch.rank + 1] = v->sizes[v->rank - 1];
	return stx__infer_set(g, n, q->dtype, batch.rank + 2u, sizes, d);
}

/* scores [m, k] or [b, m, k], value [k, n] or [b, k, n]. */
stx_err stx_shape_attend(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *s = stx__infer_type(n, 0), *v = stx__infer_type(n, 1);
	stx_ex sizes[3];
	if ((s->dtype != STX_F32 && s->dtype != STX_F64) || v->dtype != s->dtype)
		return STX__INFER_FAIL(d, n, "scores and value must both be f32, or f64");
	if ((s->rank != 2 && s->rank != 3) || v->rank != s->rank ||
	    s->sizes[s->rank - 1] != v->sizes[s->rank - 2] ||
	    (s->rank == 3 && s->sizes[0] != v->sizes[0]))
		return STX__INFER_FAIL(d, n, "scores %s and value %s do not fit",
				       stx__infer_shown(g, s), stx__infer_shown(g, v));
	enum stx_dtype t = n->args[3].kind == STX_ARG_DTYPE ? n->args[3].u.dtype : s->dtype;
	if (!stx_dtype_is_float(t))
		return STX__INFER_FAIL(d, n, "dtype is %s, not a float", stx_dtype_name(t));
	memcpy(sizes, s->sizes, s->rank * sizeof *sizes);
	sizes[s->rank - 1] = v->sizes[s->rank - 1];
	return stx__infer_set(g, n, t, s->rank, sizes, d);
}
