/* property_layout.c: the operand a planned call is about, in the dtype and layout wanted. */
#include "property_draw.h"

/* Sizes for a wanted operand: a layout needs dimensions to show itself. */
static int wanted_shape(struct draw *q, int64_t *sizes)
{
	enum prop_layout l = q->want->layout;
	int least = l == PROP_TRANSPOSED || l == PROP_OVERLAP ? 2
		    : l == PROP_SLICED || l == PROP_EXPANDED || l == PROP_EMPTY || l == PROP_ONE
			    ? 1
			    : 0,
	    rank = least + (int)rnd(q, (uint32_t)(4 - least));
	int64_t n = 1;
	for (int i = 0; i < rank; i++) {
		sizes[i] = q->dims[4 - rank + i];
		if (sizes[i] < 2 && l != PROP_EMPTY && l != PROP_ONE && rnd(q, 8))
			sizes[i] = 2;
		n *= sizes[i];
	}
	if (rank && (l == PROP_EMPTY || l == PROP_ONE)) {
		uint32_t i = rnd(q, (uint32_t)rank);
		n = sizes[i] ? n / sizes[i] : 0;
		sizes[i] = l == PROP_ONE;
	}
	return n <= MAX_ELEMS ? rank : -1;
}

static struct stx_node *input_with(struct draw *q, enum prop_layout l, enum stx_dtype t,
				   const int64_t *sizes, int rank)
{
	struct prop_cell plain = { .op = q->want->op, .dtype = t, .layout = l };
	const struct prop_cell *want = q->want;
	q->want = &plain;
	struct stx_node *n = draw_input(q, t, sizes, rank, 0, 0);
	q->want = want;
	return n;
}

/* A view operator whose result has these sizes. */
static struct stx_node *view_with(struct draw *q, enum stx_dtype t, const int64_t *sizes, int rank)
{
	int64_t from[8], dims[8], n = 1;
	int d = rank ? (int)rnd(q, (uint32_t)rank) : 0;
	struct stx_node *x;
	for (int i = 0; i < rank; i++) {
		from[i] = sizes[i];
		dims[i] = i;
		n *= sizes[i];
	}
	switch (rank ? rnd(q, 6) : 5) {
	case 0: /* dimensions in another order */
		for (int i = 0; i < rank; i++) {
			dims[i] = (i + 1 + d) % rank;
			from[dims[i]] = sizes[i];
		}
		x = input_with(q, PROP_DENSE, t, from, rank);
		return x ? call(q, STX_OP_PERMUTE,
				ARGS(T(x), stx_arg_ints(q->g, dims, (uint32_t)rank)))
			 : NULL;
	case 1: { /* every step-th element */
		int64_t step = 1 + rnd(q, 3), start = rnd(q, 3);
		from[d] = sizes[d] ? start + (sizes[d] - 1) * step + 1 + rnd(q, 2) : start;
		int64_t end = sizes[d] ? start + (sizes[d] - 1) * step + 1 : start;
		x = input_with(q, PROP_DENSE, t, from, rank);
		return x ? call(q, STX_OP_SLICE, ARGS(T(x), I(d), I(start), I(end), I(step)))
			 : NULL;
	}
	case 2:
		from[d] = 1;
		x = input_with(q, PROP_DENSE, t, from, rank);
		return x ? call(q, STX_OP_EXPAND,
				ARGS(T(x), stx_arg_ints(q->g, sizes, (uint32_t)rank)))
			 : NULL;
	case 3:
		x = input_with(q, PROP_DENSE, t, from, rank);
		return x ? call(q, STX_OP_FLIP, ARGS(T(x), stx_arg_ints(q->g, (int64_t[]){ d }, 1)))
			 : NULL;
	case 4: /* one of several */
		for (int i = rank; i > 0; i--)
			from[i] = sizes[i - 1];
		from[0] = 1 + rnd(q, 3);
		x = n * from[0] <= MAX_ELEMS ? input_with(q, PROP_DENSE, t, from, rank + 1) : NULL;
		return x ? call(q, STX_OP_SELECT, ARGS(T(x), I(0), I(rnd(q, (uint32_t)from[0]))))
			 : NULL;
	default: /* other dimensions */
		x = input_with(q, PROP_DENSE, t, &n, 1);
		return x ? call(q, STX_OP_VIEW,
				ARGS(T(x), stx_arg_ints(q->g, sizes, (uint32_t)rank)))
			 : NULL;
	}
}

/* A value that a kernel computes: of the graph so far when one fits. */
static struct stx_node *computed_with(struct draw *q, enum stx_dtype t, const int64_t *sizes,
				      int rank)
{
	for (int k = 0; k < 8; k++) {
		struct stx_node *b = draw_any(q);
		int ok = b->op != STX_OP_PLACEHOLDER && b->op != STX_OP_CONSTANT &&
			 stx_op_info(b->op)->category != STX_CAT_VIEW && b->outs[0].dtype == t &&
			 (!sizes || rank_of(b) == (uint32_t)rank);
		for (int i = 0; ok && sizes && i < rank; i++)
			ok = size_of(q, b, (uint32_t)i) == sizes[i];
		if (ok)
			return b;
	}
	struct stx_node *x = input_with(q, PROP_DENSE, t, sizes, rank), *y = NULL;
	if (!x)
		return NULL;
	if (t == STX_BOOL)
		return call(q, STX_OP_LOGICAL_NOT, ARGS(T(x)));
	if (rnd(q, 2))
		y = call(q, STX_OP_MAXIMUM, ARGS(T(x), T(x)));
	else
		y = call(q, STX_OP_ADD, ARGS(T(x), T(x), stx_arg_scalar_i(1)));
	return y ? y : draw_as(q, draw_as(q, x, STX_F32), t);
}

struct stx_node *draw_self_sized(struct draw *q, const int64_t *sizes, int rank)
{
	if (!q->want || q->given || q->want->dtype == STX_DTYPE_NONE)
		return NULL;
	enum stx_dtype t = q->want->dtype;
	q->given = 1;
	int64_t n = 1;
	for (int i = 0; i < rank; i++)
		n *= sizes[i];
	if (rank > 7 || n > MAX_ELEMS)
		return NULL;
	switch (q->want->layout) {
	case PROP_VIEW: return view_with(q, t, sizes, rank);
	case PROP_COMPUTED: return computed_with(q, t, sizes, rank);
	case PROP_EMPTY:
	case PROP_ONE:
		return input_with(q, rnd(q, 3) ? PROP_DENSE : PROP_TRANSPOSED, t, sizes, rank);
	default: return input_with(q, q->want->layout, t, sizes, rank);
	}
}

struct stx_node *draw_self(struct draw *q)
{
	int64_t sizes[8];
	if (!q->want)
		return draw_any(q);
	if (q->given)
		return draw_any(q);
	int rank = wanted_shape(q, sizes);
	return rank < 0 ? NULL : draw_self_sized(q, sizes, rank);
}

struct stx_node *draw_self_float(struct draw *q)
{
	return q->want ? draw_self(q) : draw_float(q);
}
