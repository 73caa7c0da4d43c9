/* infer_contract.c: result types of products, softmax and normalisation. */
#include <string.h>

#include "infer.h"
#include "passes.h"

static uint32_t copy_sizes(const struct stx_type *x, stx_ex *out)
{
	memcpy(out, x->sizes, x->rank * sizeof *out);
	return x->rank;
}

static int is_one(struct stx_graph *g, stx_ex e)
{
	return stx_ex_equals(g->ex, e, 1);
}

/* ---- contractions ---- */

static stx_err check_product(const struct stx_node *n, const struct stx_type *a,
			     const struct stx_type *b, struct stx_diag *d)
{
	if (a->dtype != b->dtype)
		return STX__INFER_FAIL(d, n, "operands are %s and %s; they must be the same type",
				       stx_dtype_name(a->dtype), stx_dtype_name(b->dtype));
	if (a->dtype == STX_BOOL)
		return STX__INFER_FAIL(d, n, "%s does not accept bool operands",
				       stx_op_info(n->op)->overload);
	return 0;
}

static stx_err sizes_differ(struct stx_graph *g, const struct stx_node *n, const char *what,
			    stx_ex a, stx_ex b, struct stx_diag *d)
{
	const stx_ex both[2] = { a, b };
	char x[48], y[48];
	stx__infer_size_text(g, a, x);
	stx__infer_size_text(g, b, y);
	return STX__INFER_FAIL(d, n, "the %s sizes %s and %s differ%s", what, x, y,
			       stx__infer_is_static(g, both, 2) ? ""
								: " or cannot be proved equal");
}

static stx_err no_match(struct stx_graph *g, const struct stx_node *n, stx_ex a, stx_ex b,
			struct stx_diag *d)
{
	return sizes_differ(g, n, "inner", a, b, d);
}

static stx_err mm_ranks(const struct stx_node *n, uint32_t i, uint32_t j, uint32_t rank,
			struct stx_diag *d)
{
	uint32_t a = stx__infer_type(n, i)->rank, b = stx__infer_type(n, j)->rank;
	if (a != rank || b != rank)
		return STX__INFER_FAIL(d, n, "operands have ranks %u and %u; both must be %u", a, b,
				       rank);
	return check_product(n, stx__infer_type(n, i), stx__infer_type(n, j), d);
}

stx_err stx_shape_mm(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	stx_err e = mm_ranks(n, 0, 1, 2, d);
	if (e)
		return e;
	const struct stx_type *a = stx__infer_type(n, 0), *b = stx__infer_type(n, 1);
	if (a->sizes[1] != b->sizes[0])
		return no_match(g, n, a->sizes[1], b->sizes[0], d);
	stx_ex sizes[2] = { a->sizes[0], b->sizes[1] };
	return stx__infer_set(g, n, a->dtype, 2, sizes, d);
}

stx_err stx_shape_bmm(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	stx_err e = mm_ranks(n, 0, 1, 3, d);
	if (e)
		return e;
	const struct stx_type *a = stx__infer_type(n, 0), *b = stx__infer_type(n, 1);
	if (a->sizes[0] != b->sizes[0])
		return sizes_differ(g, n, "batch", a->sizes[0], b->sizes[0], d);
	if (a->sizes[2] != b->sizes[1])
		return no_match(g, n, a->sizes[2], b->sizes[1], d);
	stx_ex sizes[3] = { a->sizes[0], a->sizes[1], b->sizes[2] };
	return stx__infer_set(g, n, a->dtype, 3, sizes, d);
}

stx_err stx_shape_matmul(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *a = stx__infer_type(n, 0), *b = stx__infer_type(n, 1);
	stx_ex sizes[STX_MAX_DIMS + 2];
	stx_err e = check_product(n, a, b, d);
	if (e)
		return e;
	if (a->rank == 0 || b->rank == 0)
		return STX__INFER_FAIL(d, n, "operands must have at least 1 dimension");
	stx_ex ka = a->sizes[a->rank - 1], kb = b->sizes[b->rank == 1 ? 0 : b->rank - 2];
	if (ka != kb)
		return no_match(g, n, ka, kb, d);
	struct stx_type ba = { .rank = a->rank > 2 ? a->rank - 2 : 0, .sizes = a->sizes };
	struct stx_type bb = { .rank = b->rank > 2 ? b->rank - 2 : 0, .sizes = b->sizes }, batch;
	e = stx_infer_broadcast(g, (const struct stx_type *[]){ &ba, &bb }, 2, &batch, d);
	if (e)
		return e;
	uint32_t rank = copy_sizes(&batch, sizes);
	if (a->rank > 1)
		sizes[rank++] = a->sizes[a->rank - 2];
	if (b->rank > 1)
		sizes[rank++] = b->sizes[b->rank - 1];
	return stx__infer_set(g, n, a->dtype, rank, sizes, d);
}

stx_err stx_shape_addmm(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	stx_err e = mm_ranks(n, 1, 2, 2, d);
	if (e)
		return e;
	const struct stx_type *c = stx__infer_type(n, 0), *a = stx__infer_type(n, 1),
			      *b = stx__infer_type(n, 2);
	if (a->sizes[1] != b->sizes[0])
		return no_match(g, n, a->sizes[1], b->sizes[0], d);
	stx_ex sizes[2] = { a->sizes[0], b->sizes[1] };
	if (c->dtype != a->dtype)
		return STX__INFER_FAIL(d, n, "self is %s, the product %s", stx_dtype_name(c->dtype),
				       stx_dtype_name(a->dtype));
	if (!stx_dtype_is_float(a->dtype) && (n->args[3].is_float || n->args[4].is_float))
		return STX__INFER_FAIL(d, n, "alpha and beta must be integers for %s operands",
				       stx_dtype_name(a->dtype));
	for (uint32_t i = 0; i < c->rank; i++)
		if (c->rank > 2 ||
		    (c->sizes[i] != sizes[2 - c->rank + i] && !is_one(g, c->sizes[i])))
			return STX__INFER_FAIL(d, n, "self does not broadcast to the product");
	return stx__infer_set(g, n, a->dtype, 2, sizes, d);
}

stx_err stx_shape_linear(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0), *w = stx__infer_type(n, 1);
	stx_ex sizes[STX_MAX_DIMS];
	stx_err e = check_product(n, x, w, d);
	if (e)
		return e;
	if (x->rank < 1 || w->rank != 2)
		return STX__INFER_FAIL(d, n, "weight must be [out, in] and input [..., in]");
	uint32_t rank = copy_sizes(x, sizes);
	if (sizes[rank - 1] != w->sizes[1])
		return no_match(g, n, sizes[rank - 1], w->sizes[1], d);
	sizes[rank - 1] = w->sizes[0];
	if (n->args[2].kind == STX_ARG_TENSOR) {
		const struct stx_type *b = stx__infer_type(n, 2);
		if (b->dtype != x->dtype || b->rank != 1 || b->sizes[0] != w->sizes[0])
			return STX__INFER_FAIL(d, n, "bias must be [out] of the input's type");
	}
	return stx__infer_set(g, n, x->dtype, rank, sizes, d);
}

/* ---- normalisations ---- */

stx_err stx_shape_softmax(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	uint32_t dim;
	stx_err e = stx__infer_dim(g, n, n->args[1].u.ex, x->rank, &dim, d);
	if (e)
		return e;
	if (!stx_dtype_is_float(x->dtype))
		return STX__INFER_FAIL(d, n, "%s needs floating-point operands, not %s",
				       stx_op_info(n->op)->overload, stx_dtype_name(x->dtype));
	if (n->args[2].u.i && x->dtype != STX_F16)
		return STX__INFER_FAIL(d, n, "half_to_float is for f16 operands, not %s",
				       stx_dtype_name(x->dtype));
	return stx__infer_set(g, n, n->args[2].u.i ? STX_F32 : x->dtype, x->rank, x->sizes, d);
}

stx_err stx_shape_softmax_int(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	enum stx_dtype t = n->args[2].kind == STX_ARG_DTYPE ? n->args[2].u.dtype : x->dtype;
	uint32_t dim;
	stx_err e = stx__infer_dim(g, n, n->args[1].u.ex, x->rank, &dim, d);
	if (e)
		return e;
	if (!stx_dtype_is_float(t))
		return STX__INFER_FAIL(d, n, "%s needs a floating-point operand or dtype=, not %s",
				       stx_op_info(n->op)->overload, stx_dtype_name(t));
	return stx__infer_set(g, n, t, x->rank, x->sizes, d);
}

stx_err stx_shape_layer_norm(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	const struct stx_arg *s = &n->args[1];
	if (!stx_dtype_is_float(x->dtype))
		return STX__INFER_FAIL(d, n, "layer_norm needs floating-point operands, not %s",
				       stx_dtype_name(x->dtype));
	int ok = s->n >= 1 && s->n <= x->rank;
	for (uint32_t i = 0; ok && i < s->n; i++)
		ok = s->u.exs[i] == x->sizes[x->rank - s->n + i];
	if (!ok)
		return STX__INFER_FAIL(d, n,
				       "normalized_shape is not the end of the input's shape");
	for (uint32_t k = 2; k < 4; k++) {
		if (n->args[k].kind != STX_ARG_TENSOR)
			continue;
		const struct stx_type *w = stx__infer_type(n, k);
		ok = w->rank == s->n && w->dtype == x->dtype;
		for (uint32_t i = 0; ok && i < s->n; i++)
			ok = w->sizes[i] == s->u.exs[i];
		if (!ok)
			return STX__INFER_FAIL(d, n,
					       "%s must have normalized_shape and the input's type",
					       k == 2 ? "weight" : "bias");
	}
	return stx__infer_set(g, n, x->dtype, x->rank, x->sizes, d);
}
