/* decompose_attention.c: attention and the softmax inside it, whose rows of nothing but -inf are 0.
 * In f32 for the half types, rounded once. On a CPU what this becomes is put together again as one
 * pass over the keys (attend.c). */
#include <math.h>

#include "decompose.h"
#include "infer.h"

static struct stx_val minus_infinity(struct stx__build *b, enum stx_dtype t)
{
	return stx__b_full(b, 0, NULL, stx_arg_scalar_f(-INFINITY), t);
}

/* 0 in rows of x that are -inf everywhere, else softmax. x is f32 or f64. */
static struct stx_val safe_softmax(struct stx__build *b, struct stx_val x, int64_t dim)
{
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_int(b->g, dim) };
	struct stx_val p = stx__b_call(b, STX_OP_SOFTMAX, 2, a);
	if (b->err)
		return p;
	enum stx_dtype t = stx_val_type(x)->dtype;
	struct stx_arg all[] = { stx_arg_tensor(stx__b_scalar(b, STX_OP_EQ_SCALAR, x, -INFINITY)),
				 stx_arg_ints(b->g, &dim, 1), stx_arg_bool(1) };
	struct stx_val none = stx__b_call(b, STX_OP_ALL_DIM, 3, all);
	return stx__b_where(b, none, stx__b_full(b, 0, NULL, stx_arg_scalar_f(0), t), p);
}

int stx__rule_safe_softmax(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_val x = stx__b_cast(b, stx__operand(n, 0), n->outs[0].dtype);
	uint32_t set = stx__b_dim(b, n, 1), dim = 0;
	if (b->err)
		return 0;
	x = stx__b_cast(b, x, stx__wide(n->outs[0].dtype));
	if (b->err)
		return 0;
	if (!stx_val_type(x)->rank) { /* one element: 1, 0 or NaN */
		stx_ex one = stx_ex_const(b->g->ex, 1);
		x = stx__b_view(b, x, 1, &one);
	}
	while (set && !(set >> dim & 1))
		dim++;
	x = safe_softmax(b, x, dim);
	if (!n->outs[0].rank)
		x = stx__b_view(b, x, 0, NULL);
	out[0] = stx__b_rounded(b, n, x);
	return 0;
}

/* x [.., heads, s, e] with each head `times` times after each other. */
static struct stx_val repeat_heads(struct stx__build *b, struct stx_val x, stx_ex times)
{
	stx_ex sizes[STX_MAX_DIMS + 1], one = stx_ex_const(b->g->ex, 1);
	if (b->err || stx_ex_equals(b->g->ex, times, 1))
		return x;
	const struct stx_type *t = stx_val_type(x);
	uint32_t rank = t->rank, h = rank - 3u;
	if (rank >= STX_MAX_DIMS) {
		stx__b_fail(b, STX_E_TOO_LARGE, "too many dimensions");
		return x;
	}
	for (uint32_t i = 0; i <= rank; i++)
		sizes[i] = i <= h ? t->sizes[i] : i == h + 1 ? one : t->sizes[i - 1];
	stx_ex heads = stx_ex_mul(b->g->ex, sizes[h], times);
	x = stx__b_view(b, x, rank + 1, sizes);
	sizes[h + 1] = times;
	x = stx__b_expand(b, x, rank + 1, sizes);
	sizes[h] = heads;
	for (uint32_t i = h + 1; i < rank; i++)
		sizes[i] = sizes[i + 1];
	return stx__b_view(b, x, rank, sizes);
}

/* The scores of which keys a query does not see are -inf. */
static struct stx_val masked(struct stx__build *b, const struct stx_node *n, struct stx_val s)
{
	if (b->err)
		return s;
	const struct stx_type *t = stx_val_type(s);
	struct stx_val never = minus_infinity(b, t->dtype);
	int64_t rows, keys;
	if (n->args[5].u.i) {
		if (!stx_ex_is_const(b->g->ex, t->sizes[t->rank - 2], &rows) ||
		    !stx_ex_is_const(b->g->ex, t->sizes[t->rank - 1], &keys)) {
			stx__b_fail(b, STX_E_UNSUPPORTED, "is_causal of symbolic lengths");
			return s;
		}
		struct stx_val key = stx__b_arange(b, keys),
			       row = stx__b_unsqueeze(b, stx__b_arange(b, rows), 1);
		return stx__b_where(b, stx__b_two(b, STX_OP_GT, key, row), never, s);
	}
	if (n->args[3].kind != STX_ARG_TENSOR)
		return s;
	struct stx_val mask = stx__operand(n, 3);
	if (stx_val_type(mask)->dtype == STX_BOOL)
		return stx__b_where(b, mask, s, never);
	return stx__b_two(b, STX_OP_ADD, s, stx__b_cast(b, mask, t->dtype));
}

int stx__rule_sdpa(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_val q = stx__b_widened(b, n, 0), k = stx__b_widened(b, n, 1),
		       v = stx__b_widened(b, n, 2);
	if (b->err)
		return 0;
	const struct stx_type *tq = stx_val_type(q), *tk = stx_val_type(k);
	int64_t size;
	double scale;
	if (n->args[6].kind == STX_ARG_FLOAT) {
		scale = n->args[6].u.f;
	} else if (stx_ex_is_const(b->g->ex, tq->sizes[tq->rank - 1], &size)) {
		scale = 1 / sqrt((double)size);
	} else {
		stx__b_fail(b, STX_E_UNSUPPORTED, "the size of a head is symbolic: give a scale");
		return 0;
	}
	if (n->args[7].u.i) {
		stx_ex of[2] = { tk->sizes[tk->rank - 3],
				 stx_val_type(v)->sizes[stx_val_type(v)->rank - 3] };
		k = repeat_heads(b, k, stx_ex_floordiv(b->g->ex, tq->sizes[tq->rank - 3], of[0]));
		v = repeat_heads(b, v, stx_ex_floordiv(b->g->ex, tq->sizes[tq->rank - 3], of[1]));
	}
	struct stx_val t = stx__b_swap(b, k, tk->rank - 2u, tk->rank - 1u);
	struct stx_val s = stx__b_two(b, STX_OP_MATMUL, q, t);
	s = masked(b, n, stx__b_scalar(b, STX_OP_MUL_SCALAR, s, scale));
	if (b->err)
		return 0;
	struct stx_val p = safe_softmax(b, s, stx_val_type(s)->rank - 1);
	out[0] = stx__b_rounded(b, n, stx__b_two(b, STX_OP_MATMUL, p, v));
	return 0;
}
