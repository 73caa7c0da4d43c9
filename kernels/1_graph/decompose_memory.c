/* decompose_memory.c: copies, other strides, lists of parts and sizes in terms of views and
 * indexing. All exact. */
#include <string.h>

#include "decompose.h"
#include "infer.h"

int stx__rule_same(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	(void)b;
	out[0] = stx__operand(n, 0);
	return 0;
}

/* copy, fill.Tensor: a value, converted and stretched; self gives the type. */
int stx__rule_copy(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *t = &n->outs[0];
	out[0] = stx__b_expand(b, stx__b_cast(b, stx__operand(n, 1), t->dtype), t->rank, t->sizes);
	return 0;
}

/* fill.Scalar, scalar_tensor */
int stx__rule_fill(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *t = &n->outs[0];
	out[0] = stx__b_full(b, t->rank, t->sizes, n->args[n->op == STX_OP_FILL ? 1 : 0], t->dtype);
	return 0;
}

/* Zeros: what an undefined value is must not depend on the run. */
int stx__rule_empty(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *t = &n->outs[0];
	out[0] = stx__b_full(b, t->rank, t->sizes, stx_arg_scalar_i(0), t->dtype);
	return 0;
}

int stx__rule_split(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	uint32_t dim = 0, rank = stx__infer_type(n, 0)->rank;
	int64_t at = 0, size;
	if (stx__infer_dim(b->g, n, n->args[n->nargs - 1].u.ex, rank, &dim, b->d))
		return stx__b_fail(b, STX_E_INVALID, "a dimension out of range");
	for (uint32_t i = 0; i < n->nouts; i++) {
		if (n->op == STX_OP_UNBIND) {
			struct stx_arg a[] = { n->args[0], stx_arg_int(b->g, dim),
					       stx_arg_int(b->g, i) };
			out[i] = stx__b_call(b, STX_OP_SELECT, 3, a);
			continue;
		}
		if (!stx_ex_is_const(b->g->ex, n->outs[i].sizes[dim], &size))
			return stx__b_fail(b, STX_E_UNSUPPORTED, "a part of symbolic size");
		struct stx_arg a[] = { n->args[0], stx_arg_int(b->g, dim), stx_arg_int(b->g, at),
				       stx_arg_int(b->g, at + size), stx_arg_int(b->g, 1) };
		out[i] = stx__b_call(b, STX_OP_SLICE, 5, a);
		at += size;
	}
	return 0;
}

/* ---- as_strided ---- */

/* x's memory as one dimension, or 0 when it has gaps or overlaps: an input's dimensions in the
 * order of their strides. */
static int memory_order(struct stx__build *b, struct stx_val x, struct stx_val *flat)
{
	const struct stx_type *t = stx_val_type(x);
	const stx_ex *strides = stx__input_strides(b->g, x.node);
	stx_ex all = stx_type_numel(b->g, t);
	int64_t order[STX_MAX_DIMS], k[STX_MAX_DIMS], s, next = 1;
	uint32_t n = 0;
	if (strides) {
		for (uint32_t i = 0; i < t->rank; i++) {
			uint32_t j = n++;
			if (!stx_ex_is_const(b->g->ex, strides[i], &k[i]) ||
			    !stx_ex_is_const(b->g->ex, t->sizes[i], &s))
				return 0;
			k[i] = s == 1 ? 0 : k[i]; /* anywhere */
			for (; j > 0 && k[order[j - 1]] < k[i]; j--)
				order[j] = order[j - 1];
			order[j] = i;
		}
		for (uint32_t i = n; i-- > 0;) {
			stx_ex_is_const(b->g->ex, t->sizes[order[i]], &s);
			if (s != 1 && k[order[i]] != next)
				return 0;
			next *= s;
		}
		struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_ints(b->g, order, t->rank) };
		x = stx__b_call(b, STX_OP_PERMUTE, 2, a);
	}
	*flat = stx__b_view(b, x, 1, &all);
	return 1;
}

/* Element sum of stride * position: positions are known, so the read is direct. */
int stx__rule_as_strided(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *t = &n->outs[0];
	struct stx_val flat, at;
	int64_t s, k, first = 0;
	if (stx_ex_equals(b->g->ex, stx_type_numel(b->g, t), 0)) {
		out[0] = stx__b_full(b, t->rank, t->sizes, stx_arg_scalar_i(0), t->dtype);
		return 0;
	}
	if (!memory_order(b, stx__operand(n, 0), &flat))
		return stx__b_fail(b, STX_E_UNSUPPORTED,
				   "as_strided of an input whose memory has gaps or overlaps");
	if (n->args[3].kind != STX_ARG_NONE)
		stx_ex_is_const(b->g->ex, n->args[3].u.ex, &first);
	at = stx__b_full(b, t->rank, t->sizes, stx_arg_scalar_i(first), STX_I64);
	for (uint32_t i = 0; i < t->rank; i++) {
		stx_ex line[STX_MAX_DIMS];
		if (!stx_ex_is_const(b->g->ex, t->sizes[i], &s) ||
		    !stx_ex_is_const(b->g->ex, n->args[2].u.exs[i], &k))
			return stx__b_fail(b, STX_E_INVALID, "sizes and strides must be constants");
		for (uint32_t j = 0; j < t->rank; j++)
			line[j] = j == i ? t->sizes[i] : stx_ex_const(b->g->ex, 1);
		struct stx_val p = stx__b_number(b, STX_OP_MUL_SCALAR, stx__b_arange(b, s),
						 stx_arg_scalar_i(k));
		at = stx__b_two(b, STX_OP_ADD, at, stx__b_view(b, p, t->rank, line));
	}
	struct stx_arg a[] = { stx_arg_tensor(flat), stx_arg_tensors(b->g, &at, 1) };
	out[0] = stx__b_call(b, STX_OP_INDEX, 2, a);
	return 0;
}

/* ---- sizes ---- */

int stx__rule_sym(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	const stx_ex *strides = stx__input_strides(b->g, stx__operand(n, 0).node);
	int64_t v = 1, s;
	uint32_t dim = 0;
	if (n->op == STX_OP_SYM_OFFSET) {
		v = 0; /* data points at a tensor's first element */
	} else if (n->op == STX_OP_SYM_NUMEL) {
		stx_ex_is_const(b->g->ex, stx_type_numel(b->g, x), &v);
	} else {
		if (stx__infer_dim(b->g, n, n->args[1].u.ex, x->rank, &dim, b->d))
			return stx__b_fail(b, STX_E_INVALID, "a dimension out of range");
		if (n->op == STX_OP_SYM_SIZE)
			stx_ex_is_const(b->g->ex, x->sizes[dim], &v);
		else if (strides)
			stx_ex_is_const(b->g->ex, strides[dim], &v);
		for (uint32_t i = dim + 1; n->op == STX_OP_SYM_STRIDE && !strides && i < x->rank;
		     i++) {
			stx_ex_is_const(b->g->ex, x->sizes[i], &s);
			v *= s > 1 ? s : 1;
		}
	}
	out[0] = stx__b_full(b, 0, NULL, stx_arg_scalar_i(v), STX_I64);
	return 0;
}
