/* decompose_bag.c: embedding_bag: each bag reduces the rows of its part of the indices, told apart
 * by comparing positions with offsets. Work bags * indices * width. */
#include <math.h>

#include "decompose.h"

struct bag {
	struct stx__build *b;
	struct stx_val index; /* [I], i64 */
	struct stx_val in;    /* [B, I]: index i counts in bag b */
	struct stx_val rows;  /* [1, I, D] */
	struct stx_val count; /* [B, 1], i64 */
	stx_ex bags, size, width;
	int64_t nindices;
};

static struct stx_val shaped(struct stx__build *b, struct stx_val x, stx_ex a, stx_ex c)
{
	return stx__b_view(b, x, 2, (stx_ex[]){ a, c });
}

static struct stx_val whole(struct stx__build *b, int64_t v)
{
	return stx__b_full(b, 0, NULL, stx_arg_scalar_i(v), STX_I64);
}

static struct stx_val slice(struct stx__build *b, struct stx_val x, int64_t from, int64_t to)
{
	return stx__b_slice(b, x, 0, from, to, 1);
}

/* Where each bag ends: where the next begins; the last at the number of indices. */
static struct stx_val ends(struct stx__build *b, const struct stx_node *n, struct stx_val offsets,
			   int64_t bags, int64_t size)
{
	if (stx__arg(n, 7)->u.i)
		return slice(b, offsets, 1, bags + 1);
	stx_ex one = stx_ex_const(b->g->ex, 1);
	struct stx_val parts[] = { slice(b, offsets, 1, bags),
				   stx__b_full(b, 1, &one, stx_arg_scalar_i(size), STX_I64) };
	struct stx_arg a[] = { stx_arg_tensors(b->g, parts, 2), stx_arg_int(b->g, 0) };
	return stx__b_call(b, STX_OP_CAT, 2, a);
}

/* [B, I, D]: the rows of each bag, 0 elsewhere. */
static struct stx_val chosen(const struct bag *g)
{
	struct stx__build *b = g->b;
	enum stx_dtype t = stx_val_type(g->rows)->dtype;
	struct stx_val in =
		stx__b_view(b, g->in, 3, (stx_ex[]){ g->bags, g->size, stx_ex_const(b->g->ex, 1) });
	return stx__b_where(b, in, g->rows, stx__b_full(b, 0, NULL, stx_arg_scalar_f(0), t));
}

static struct stx_val max_at(struct stx__build *b, struct stx_val x, int keepdim)
{
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_int(b->g, 1), stx_arg_bool(keepdim) };
	return stx__b_call(b, STX_OP_MAX_DIM, 3, a);
}

/* [B, I, D]: index i counts in bag b and may be its greatest: a NaN only as the first, since no
 * number compares as greater than what came before a NaN, and no NaN does. first: [B, 1]. */
static struct stx_val candidates(const struct bag *g, struct stx_val first)
{
	struct stx__build *b = g->b;
	stx_ex one = stx_ex_const(b->g->ex, 1);
	struct stx_val at = shaped(b, stx__b_arange(b, g->nindices), one, g->size);
	struct stx_val is_first = stx__b_two(b, STX_OP_EQ, first, at);
	struct stx_val number =
		stx__b_one(b, STX_OP_LOGICAL_NOT, stx__b_one(b, STX_OP_ISNAN, g->rows));
	stx_ex column[] = { g->bags, g->size, one };
	number = stx__b_two(b, STX_OP_LOGICAL_OR, stx__b_view(b, is_first, 3, column), number);
	return stx__b_two(b, STX_OP_LOGICAL_AND, stx__b_view(b, g->in, 3, column), number);
}

/* Maximum and the index that has it; 0 and 0 of a bag without indices. */
static void greatest(const struct bag *g, struct stx_val *value, struct stx_val *index)
{
	struct stx__build *b = g->b;
	struct stx_val first = stx_val(max_at(b, g->in, 1).node, 1);
	enum stx_dtype t = stx_val_type(g->rows)->dtype;
	if (b->err)
		return;
	struct stx_val least = stx__b_full(b, 0, NULL, stx_arg_scalar_f(-INFINITY), t);
	struct stx_val top = max_at(b, stx__b_where(b, candidates(g, first), g->rows, least), 0);
	if (b->err)
		return;
	/* where all are -inf, what fills the places outside the bag may have come first */
	struct stx_val nothing = stx__b_scalar(b, STX_OP_EQ_SCALAR, top, -INFINITY);
	struct stx_val at = stx__b_where(b, nothing, first, stx_val(top.node, 1));
	stx_ex flat = stx_ex_mul(b->g->ex, g->bags, g->width);
	at = stx__b_index_select(b, g->index, 0, stx__b_view(b, at, 1, &flat));
	struct stx_val none = stx__b_number(b, STX_OP_EQ_SCALAR, g->count, stx_arg_scalar_i(0));
	*value = stx__b_where(b, none, stx__b_full(b, 0, NULL, stx_arg_scalar_f(0), t), top);
	*index = stx__b_where(b, none, whole(b, 0), shaped(b, at, g->bags, g->width));
}

static void open_bag(struct bag *g, const struct stx_node *n, int64_t bags, int64_t size)
{
	struct stx__build *b = g->b;
	stx_ex one = stx_ex_const(b->g->ex, 1);
	int64_t padding = -1;
	struct stx_val offsets = stx__b_cast(b, stx__operand(n, 2), STX_I64);
	struct stx_val at = shaped(b, stx__b_arange(b, size), one, g->size);
	struct stx_val from = shaped(b, slice(b, offsets, 0, bags), g->bags, one);
	struct stx_val to = shaped(b, ends(b, n, offsets, bags, size), g->bags, one);
	g->index = stx__b_cast(b, stx__operand(n, 1), STX_I64);
	g->in = stx__b_two(b, STX_OP_LOGICAL_AND, stx__b_two(b, STX_OP_GE, at, from),
			   stx__b_two(b, STX_OP_LT, at, to));
	stx_ex_is_const(b->g->ex, stx__arg(n, 8)->u.ex, &padding);
	if (padding >= 0)
		g->in = stx__b_two(b, STX_OP_LOGICAL_AND, g->in,
				   shaped(b,
					  stx__b_number(b, STX_OP_NE_SCALAR, g->index,
							stx_arg_scalar_i(padding)),
					  one, g->size));
	g->count = stx__b_sum(b, g->in, 2, 1, STX_I64);
}

static void read_rows(struct bag *g, const struct stx_node *n)
{
	struct stx__build *b = g->b;
	stx_ex one = stx_ex_const(b->g->ex, 1);
	struct stx_val w = stx__operand(n, 0);
	w = stx__b_cast(b, w, stx__wide(stx_val_type(w)->dtype));
	g->rows = stx__b_two(b, STX_OP_EMBEDDING, w, g->index);
	if (stx__arg(n, 6)->kind == STX_ARG_TENSOR)
		g->rows = stx__b_two(
			b, STX_OP_MUL, g->rows,
			shaped(b, stx__b_cast(b, stx__operand(n, 6), stx__wide(n->outs[0].dtype)),
			       g->size, one));
	g->rows = stx__b_view(b, g->rows, 3, (stx_ex[]){ one, g->size, g->width });
}

/* The bag of each index: how many begin at it or before, less one. */
static struct stx_val bag_of(const struct bag *g, const struct stx_node *n, int64_t bags,
			     int64_t size)
{
	struct stx__build *b = g->b;
	stx_ex one = stx_ex_const(b->g->ex, 1);
	struct stx_val from = slice(b, stx__b_cast(b, stx__operand(n, 2), STX_I64), 0, bags);
	struct stx_val begun = stx__b_two(b, STX_OP_LE, shaped(b, from, g->bags, one),
					  shaped(b, stx__b_arange(b, size), one, g->size));
	return stx__b_number(b, STX_OP_ADD_SCALAR, stx__b_sum(b, begun, 1, 0, STX_I64),
			     stx_arg_scalar_i(-1));
}

static struct stx_val zeros(struct stx__build *b, const struct stx_type *t)
{
	return stx__b_full(b, t->rank, t->sizes, stx_arg_scalar_i(0), t->dtype);
}

/* Sum, mean or maximum of each bag, unrounded; of maxima also their indices. */
static struct stx_val reduced(struct bag *g, const struct stx_node *n, int64_t mode,
			      struct stx_val *index)
{
	struct stx__build *b = g->b;
	struct stx_val x = { 0 };
	read_rows(g, n);
	if (b->err)
		return x;
	if (mode == 2) {
		greatest(g, &x, index);
		return x;
	}
	x = stx__b_sum(b, chosen(g), 2, 0, stx_val_type(g->rows)->dtype);
	if (mode == 0)
		return x;
	struct stx_val count = stx__b_two(b, STX_OP_MAXIMUM, g->count, whole(b, 1));
	return stx__b_two(b, STX_OP_DIV, x, stx__b_cast(b, count, stx__wide(n->outs[0].dtype)));
}

int stx__rule_embedding_bag(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *o = n->outs;
	struct bag g = { .b = b,
			 .bags = o[0].sizes[0],
			 .width = o[0].sizes[1],
			 .size = stx_val_type(stx__operand(n, 1))->sizes[0] };
	int64_t bags, mode = 0;
	if (!stx_ex_is_const(b->g->ex, g.bags, &bags) ||
	    !stx_ex_is_const(b->g->ex, g.size, &g.nindices))
		return stx__b_fail(b, STX_E_UNSUPPORTED, "symbolic sizes");
	stx_ex_is_const(b->g->ex, stx__arg(n, 4)->u.ex, &mode);
	for (uint32_t i = 0; i < 4; i++)
		out[i] = zeros(b, &o[i]);
	if (g.nindices == 0)
		return 0;
	if (!stx_ex_equals(b->g->ex, o[1].sizes[0], 0))
		out[1] = stx__b_cast(b, bag_of(&g, n, bags, g.nindices), o[1].dtype);
	if (bags == 0)
		return 0;
	open_bag(&g, n, bags, g.nindices);
	if (!stx_ex_equals(b->g->ex, g.width, 0)) {
		struct stx_val x = reduced(&g, n, mode, &out[3]);
		if (b->err)
			return 0;
		out[0] = stx__b_cast(b, x, o[0].dtype);
		out[3] = stx__b_cast(b, out[3], o[3].dtype);
	}
	if (mode == 0 || b->err)
		return 0;
	out[2] = stx__b_cast(b, stx__b_view(b, g.count, 1, &g.bags), o[2].dtype);
	if (mode == 1)
		out[3] = out[2];
	return 0;
}
