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
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_int(b->g, 0), stx_arg_int(b->g, from),
			       stx_arg_int(b->g, to), stx_arg_int(b->g, 1) };
	return stx__b_call(b, STX_OP_SLICE, 5, a);
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

/* [B, I, D] over the middle dimension. */
static struct stx_val chosen(const struct bag *g, struct stx_val rows, double otherwise)
{
	struct stx__build *b = g->b;
	enum stx_dtype t = stx_val_type(rows)->dtype;
	struct stx_val in =
		stx__b_view(b, g->in, 3, (stx_ex[]){ g->bags, g->size, stx_ex_const(b->g->ex, 1) });
	return stx__b_where(b, in, rows, stx__b_full(b, 0, NULL, stx_arg_scalar_f(otherwise), t));
}

/* Maximum and the index that has it; 0 and 0 of a bag without indices. */
static void greatest(const struct bag *g, struct stx_val *value, struct stx_val *index)
{
	struct stx__build *b = g->b;
	struct stx_val x = chosen(g, g->rows, -INFINITY);
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_int(b->g, 1), stx_arg_bool(0) };
	struct stx_val top = stx__b_call(b, STX_OP_MAX_DIM, 3, a);
	if (b->err)
		return;
	struct stx_val at = stx_val(top.node, 1);
	stx_ex flat = stx_ex_mul(b->g->ex, g->bags, g->width);
	struct stx_arg pick[] = { stx_arg_tensor(g->index), stx_arg_int(b->g, 0),
				  stx_arg_tensor(stx__b_view(b, at, 1, &flat)) };
	at = shaped(b, stx__b_call(b, STX_OP_INDEX_SELECT, 3, pick), g->bags, g->width);
	struct stx_val none = stx__b_number(b, STX_OP_EQ_SCALAR, g->count, stx_arg_scalar_i(0));
	*value = stx__b_where(
		b, none, stx__b_full(b, 0, NULL, stx_arg_scalar_f(0), stx_val_type(top)->dtype),
		top);
	*index = stx__b_where(b, none, whole(b, 0), at);
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

int stx__rule_embedding_bag(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *o = n->outs;
	struct bag g = { .b = b,
			 .bags = o[0].sizes[0],
			 .width = o[0].sizes[1],
			 .size = stx_val_type(stx__operand(n, 1))->sizes[0] };
	int64_t bags, size, mode = 0;
	if (!stx_ex_is_const(b->g->ex, g.bags, &bags) || !stx_ex_is_const(b->g->ex, g.size, &size))
		return stx__b_fail(b, STX_E_UNSUPPORTED, "symbolic sizes");
	stx_ex_is_const(b->g->ex, stx__arg(n, 4)->u.ex, &mode);
	for (uint32_t i = 0; i < 4; i++)
		out[i] = zeros(b, &o[i]);
	if (bags == 0 || size == 0 || stx_ex_equals(b->g->ex, g.width, 0))
		return 0;
	open_bag(&g, n, bags, size);
	if (b->err)
		return 0;
	struct stx_val x = out[0];
	if (mode == 2) {
		greatest(&g, &x, &out[3]);
	} else {
		x = stx__b_sum(b, chosen(&g, g.rows, 0), 2, 0, stx_val_type(g.rows)->dtype);
		if (mode == 1)
			x = stx__b_two(
				b, STX_OP_DIV, x,
				stx__b_cast(b, stx__b_two(b, STX_OP_MAXIMUM, g.count, whole(b, 1)),
					    stx__wide(o[0].dtype)));
	}
	out[0] = stx__b_cast(b, x, o[0].dtype);
	if (mode == 0)
		return 0;
	out[1] = bag_of(&g, n, bags, size);
	out[2] = stx__b_view(b, g.count, 1, &g.bags);
	if (mode == 1)
		out[3] = out[2];
	return 0;
}
