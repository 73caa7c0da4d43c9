/* property_draw_scatter.c: calls of random operators that write at run-time indices or through
 * views.
 */
#include <string.h>

#include "property_draw.h"

/* x broadcast with a has the shape of a. */
static int spreads_over(const struct draw *q, const struct stx_node *x, const struct stx_node *a)
{
	uint32_t rx = rank_of(x), ra = rank_of(a);
	for (uint32_t i = 0; rx <= ra && i < rx; i++) {
		int64_t n = size_of(q, x, rx - 1 - i);
		if (n != 1 && n != size_of(q, a, ra - 1 - i))
			return 0;
	}
	return rx <= ra;
}

static struct stx_node *draw_index_put(struct draw *q, struct stx_node *a)
{
	struct stx_val list[8] = { { NULL, 0 } };
	int64_t sizes[2] = { 1 + rnd(q, 4), rnd(q, 4) ? 1 + rnd(q, 20) : q->dims[3] }, v[16];
	uint32_t n = 1 + rnd(q, rank_of(a)), have = 0, r = 0;
	int rank = (int)rnd(q, 3);
	for (uint32_t i = 0; i < n; i++) {
		if (rnd(q, 2) && (have || i + 1 < n))
			continue;
		struct stx_node *x =
			draw_index_into(q, size_of(q, a, i), sizes + 2 - rank, rank, 1);
		if (!x)
			return NULL;
		list[i] = stx_val(x, 0);
		have++;
	}
	struct stx_arg indices = stx_arg_tensors(q->g, list, n);
	struct stx_node *like = call(q, STX_OP_INDEX, ARGS(T(a), indices));
	if (!like || rank_of(like) > 6 || numel(q, like) > MAX_ELEMS)
		return NULL;
	for (uint32_t i = rnd(q, 3) ? 0 : rnd(q, rank_of(like) + 1); i < rank_of(like); i++)
		v[r++] = rnd(q, 5) ? size_of(q, like, i) : 1;
	struct stx_node *values = draw_sized(q, a->outs[0].dtype, v, (int)(r));
	return values ? call(q, STX_OP_INDEX_PUT,
			     ARGS(T(a), indices, T(values), stx_arg_bool((int)rnd(q, 2))))
		      : NULL;
}

/* Writes through a slice, one position, a diagonal. */
static struct stx_node *draw_through(struct draw *q, enum stx_op op, struct stx_node *a, uint32_t d)
{
	int64_t n = size_of(q, a, d), sizes[8];
	uint32_t rank = rank_of(a), k = 0;
	struct stx_node *like, *src;
	struct stx_arg args[6] = { T(a) };
	if (op == STX_OP_SLICE_SCATTER) {
		args[2] = I(d);
		args[3] = I((int64_t)rnd(q, (uint32_t)n + 2) - (rnd(q, 3) ? 0 : n));
		args[4] = rnd(q, 2) ? stx_arg_none() : I(n - (int64_t)rnd(q, 3));
		args[5] = I(1 + rnd(q, 3));
		like = call(q, STX_OP_SLICE, ARGS(T(a), args[2], args[3], args[4], args[5]));
	} else if (op == STX_OP_SELECT_SCATTER) {
		if (!n)
			return NULL;
		args[2] = I((int64_t)d - (rnd(q, 2) ? 0 : rank));
		args[3] = I((int64_t)rnd(q, (uint32_t)n) - (rnd(q, 2) ? 0 : n));
		like = call(q, STX_OP_SELECT, ARGS(T(a), args[2], args[3]));
	} else {
		args[2] = I((int64_t)rnd(q, 5) - 2);
		args[3] = I(d);
		args[4] = I(rnd(q, rank));
		like = call(q, STX_OP_DIAGONAL, ARGS(T(a), args[2], args[3], args[4]));
	}
	if (!like)
		return NULL;
	for (uint32_t i = 0; i < rank_of(like); i++)
		sizes[k++] = size_of(q, like, i);
	src = draw_sized(q, a->outs[0].dtype, sizes, (int)(k));
	args[1] = src ? T(src) : stx_arg_none();
	return src ? call(q, op, stx_op_info(op)->nparams, args) : NULL;
}

static struct stx_node *draw_masked(struct draw *q, struct stx_node *a)
{
	int64_t all = numel(q, a);
	struct stx_node *m = draw_input(q, STX_BOOL, NULL, 0, 0, 0), *x = draw_partner(q, a);
	if (x && spreads_over(q, x, a))
		m = call(q, STX_OP_GT_SCALAR, ARGS(T(x), stx_arg_scalar_i(0)));
	x = m && all ? draw_sized(q, a->outs[0].dtype, &all, 1) : NULL;
	return x ? call(q, STX_OP_MASKED_SCATTER, ARGS(T(a), T(m), T(x))) : NULL;
}

static struct stx_node *draw_embedding(struct draw *q)
{
	int64_t s[4] = { 1 + rnd(q, 3), 1 + rnd(q, 4), 1 + rnd(q, 4), q->dims[3] };
	int64_t rows = 1 + rnd(q, 9);
	uint32_t rank = 3 + rnd(q, 2);
	enum stx_dtype t = draw_wanted_dtype(q, draw_float_dtype(q));
	struct stx_node *x = draw_sized(q, t, s + 4 - rank, (int)rank), *ix;
	ix = draw_index_into(q, rows, s + 4 - rank, (int)rank - 1, 0);
	return x && ix ? call(q, STX_OP_EMBEDDING_BACK,
			      ARGS(T(x), T(ix), I(rows), I((int64_t)rnd(q, 3) - 1),
				   stx_arg_bool((int)rnd(q, 2))))
		       : NULL;
}

#define MOST_WRITES ((int64_t)1 << 22) /* of index_fill; the others' are elements of a tensor */

/* index_add and the like: a vector of positions; scatter: a tensor of them, src no smaller. */
struct stx_node *draw_scatter(struct draw *q, enum stx_op op)
{
	static const char *const reduces[] = { "sum", "prod", "amax", "amin", "mean" };
	const struct stx_op_info *info = stx_op_info(op);
	struct stx_node *a, *x, *src = NULL;
	if (op == STX_OP_EMBEDDING_BACK)
		return draw_embedding(q);
	a = draw_self(q);
	for (int k = 0; k < 8 && a && !q->want && !rank_of(a); k++)
		a = draw_any(q);
	if (!a)
		return NULL;
	uint32_t rank = rank_of(a), d = rank ? rnd(q, rank) : 0;
	int line = op == STX_OP_INDEX_ADD || op == STX_OP_INDEX_COPY || op == STX_OP_INDEX_FILL;
	enum stx_dtype t = a->outs[0].dtype;
	int64_t is[8], vs[8], n = rnd(q, 4) ? 1 + rnd(q, 20) : q->dims[3], writes = 1;
	struct stx_arg args[8];
	if (!rank)
		return NULL;
	if (op == STX_OP_INDEX_PUT)
		return draw_index_put(q, a);
	if (op >= STX_OP_SLICE_SCATTER && op <= STX_OP_DIAGONAL_SCATTER)
		return draw_through(q, op, a, d);
	if (op == STX_OP_MASKED_SCATTER)
		return draw_masked(q, a);
	for (uint32_t i = 0; i < rank; i++) {
		int64_t s = size_of(q, a, i);
		is[i] = i == d ? n : line ? s : s - (s > 1 && rnd(q, 3) == 0);
		vs[i] = line ? is[i] : is[i] + (rnd(q, 5) == 0);
		writes *= is[i];
	}
	x = line ? draw_index_into(q, size_of(q, a, d), &n, 1, op == STX_OP_INDEX_FILL)
		 : draw_index_into(q, size_of(q, a, d), is, (int)rank, 0);
	if (x && info->params[3].kind == STX_PARAM_TENSOR)
		src = draw_sized(q, t, vs, (int)(rank));
	if (!x || writes > MOST_WRITES || (!src && info->params[3].kind == STX_PARAM_TENSOR))
		return NULL;
	args[0] = T(a);
	args[1] = I((int64_t)d - (rnd(q, 3) ? 0 : rank));
	args[2] = T(x);
	args[3] = src ? T(src) : draw_scalar(q, t);
	if (op == STX_OP_SCATTER_REDUCE) {
		args[4] = stx_arg_str(q->g, PICK(q, reduces));
		args[5] = stx_arg_bool((int)rnd(q, 2));
	} else if (op == STX_OP_INDEX_ADD) {
		args[4] = rnd(q, 2) ? stx_arg_default() : stx_arg_scalar_i((int64_t)rnd(q, 5) - 2);
	}
	return call(q, op, info->nparams, args);
}
