/* decompose_sort.c: sorts as a stable order of positions and the gathers that apply it; the order
 * of any dimension as that of rows, which is what lowering takes. */
#include "decompose.h"
#include "infer.h"

struct sort {
	struct stx__build *b;
	struct stx_val x; /* one dimension at least */
	uint32_t dim;
	int descending;
};

static int is_scalar(const struct stx_node *n)
{
	return !stx__infer_type(n, 0)->rank;
}

/* The operand, a 0-d one as [1], and its dimension (argument i). */
static struct sort start(struct stx__build *b, const struct stx_node *n, uint32_t i)
{
	struct sort s = { .b = b, .x = stx__operand(n, 0) };
	stx_ex one = stx_ex_const(b->g->ex, 1);
	stx_err e = stx__infer_dim(b->g, n, stx__arg(n, i)->u.ex, stx__infer_type(n, 0)->rank,
				   &s.dim, b->d);
	if (e && !b->err)
		b->err = e;
	if (is_scalar(n))
		s.x = stx__b_view(b, s.x, 1, &one);
	return s;
}

static struct stx_val order(const struct sort *s)
{
	struct stx_arg a[] = { stx_arg_tensor(s->x), stx_arg_bool(1), stx_arg_int(s->b->g, s->dim),
			       stx_arg_bool(s->descending) };
	return stx__b_call(s->b, STX_OP_ARGSORT_STABLE, 4, a);
}

static struct stx_val gather(const struct sort *s, struct stx_val x, struct stx_val index)
{
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_int(s->b->g, s->dim),
			       stx_arg_tensor(index) };
	return stx__b_call(s->b, STX_OP_GATHER, 3, a);
}

static struct stx_val slice(const struct sort *s, struct stx_val x, int64_t from, int64_t to)
{
	struct stx_graph *g = s->b->g;
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_int(g, s->dim), stx_arg_int(g, from),
			       stx_arg_int(g, to), stx_arg_int(g, 1) };
	return stx__b_call(s->b, STX_OP_SLICE, 5, a);
}

/* The two results in n's shape. */
static int results(const struct sort *s, const struct stx_node *n, struct stx_val index,
		   struct stx_val *out)
{
	struct stx_val v[2] = { gather(s, s->x, index), index };
	for (int i = 0; i < 2 && !s->b->err; i++) {
		const struct stx_type *t = stx_val_type(v[i]);
		out[i] = t->rank == n->outs[0].rank
				 ? v[i]
				 : stx__b_view(s->b, v[i], n->outs[0].rank, n->outs[0].sizes);
	}
	return 0;
}

int stx__rule_sort(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	uint32_t at = n->op == STX_OP_SORT_STABLE ? 2 : 1;
	struct sort s = start(b, n, at);
	s.descending = (int)stx__arg(n, at + 1)->u.i;
	struct stx_val index = order(&s);
	if (n->op != STX_OP_ARGSORT)
		return results(&s, n, index, out);
	out[0] = is_scalar(n) ? stx__b_view(b, index, 0, NULL) : index;
	return 0;
}

/* topk: the first k of the order. kthvalue: its k-th. */
int stx__rule_topk(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct sort s = start(b, n, 2);
	int64_t k = 0;
	stx_ex_is_const(b->g->ex, stx__arg(n, 1)->u.ex, &k);
	s.descending = n->op == STX_OP_TOPK && stx__arg(n, 3)->u.i;
	return results(&s, n, slice(&s, order(&s), n->op == STX_OP_TOPK ? 0 : k - 1, k), out);
}

/* The element in the middle, the lower one of two; with NaN in a row the first of them, whose place
 * in the order is the number of other elements. */
int stx__rule_median(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct sort s = start(b, n, 1);
	int64_t size = 1;
	if (b->err)
		return 0;
	const struct stx_type *t = stx_val_type(s.x);
	if (!stx_ex_is_const(b->g->ex, t->sizes[s.dim], &size))
		return stx__b_fail(b, STX_E_UNSUPPORTED, "the median of a symbolic size");
	struct stx_val index = order(&s);
	if (!stx_dtype_is_float(t->dtype))
		return results(&s, n, slice(&s, index, (size - 1) / 2, (size - 1) / 2 + 1), out);
	struct stx_val nans = stx__b_one(b, STX_OP_ISNAN, s.x);
	struct stx_val count = stx__b_sum(b, nans, 1u << s.dim, 1, STX_I64);
	struct stx_val none = stx__b_number(b, STX_OP_EQ_SCALAR, count, stx_arg_scalar_i(0));
	struct stx_arg minus[] = { stx_arg_tensor(count), stx_arg_scalar_i(size) };
	struct stx_val first =
		stx__b_one(b, STX_OP_NEG, stx__b_call(b, STX_OP_SUB_SCALAR, 2, minus));
	struct stx_val middle = stx__b_full(b, 0, NULL, stx_arg_scalar_i((size - 1) / 2), STX_I64);
	struct stx_val place = stx__b_where(b, none, middle, first);
	return results(&s, n, gather(&s, index, place), out);
}

/* The order of rows [rows, size]: the dimension goes last, the others together. */
int stx__rule_rows(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct sort s = start(b, n, 2);
	stx_ex rows = stx_ex_const(b->g->ex, 1), flat[2], sizes[STX_MAX_DIMS];
	if (b->err)
		return 0;
	if (stx_val_type(s.x)->rank == 2 && s.dim == 1)
		return STX__KEEP;
	uint32_t last = stx_val_type(s.x)->rank - 1u;
	if (s.dim != last)
		s.x = stx__b_swap(b, s.x, s.dim, last);
	if (b->err)
		return 0;
	const struct stx_type *t = stx_val_type(s.x);
	for (uint32_t i = 0; i <= last; i++) {
		sizes[i] = t->sizes[i];
		if (i < last)
			rows = stx_ex_mul(b->g->ex, rows, sizes[i]);
	}
	flat[0] = rows;
	flat[1] = sizes[last];
	struct sort r = { .b = b,
			  .x = stx__b_view(b, s.x, 2, flat),
			  .dim = 1,
			  .descending = (int)stx__arg(n, 3)->u.i };
	struct stx_val index = stx__b_view(b, order(&r), last + 1, sizes);
	if (s.dim != last)
		index = stx__b_swap(b, index, s.dim, last);
	out[0] = is_scalar(n) ? stx__b_view(b, index, 0, NULL) : index;
	return 0;
}
