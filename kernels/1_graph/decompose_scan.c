/* decompose_scan.c: running sums and products in blocks of 16, level by level: each block by a
 * masked reduction, the blocks' totals by the same scan, what came before added at the end. Work 16
 * n, depth log16 n; nothing is subtracted and no total multiplied by 0, so infinities stay what
 * they are (B45). */
#include "decompose.h"
#include "infer.h"

#define BLOCK 16

struct scan {
	struct stx__build *b;
	enum stx_dtype t; /* computed in */
	int product;
};

static struct stx_arg identity(const struct scan *s)
{
	return stx_dtype_is_float(s->t) ? stx_arg_scalar_f(s->product)
					: stx_arg_scalar_i(s->product);
}

/* The last dimension of x, with sizes[rank] to append more. */
static int64_t last_size(const struct scan *s, struct stx_val x, stx_ex *sizes)
{
	const struct stx_type *t = stx_val_type(x);
	int64_t n = 0;
	for (uint32_t i = 0; i < t->rank; i++)
		sizes[i] = t->sizes[i];
	stx_ex_is_const(s->b->g->ex, t->sizes[t->rank - 1], &n);
	return n;
}

static struct stx_val pad_last(const struct scan *s, struct stx_val x, int64_t before,
			       int64_t after)
{
	struct stx_arg a[] = { stx_arg_tensor(x),
			       stx_arg_ints(s->b->g, (int64_t[]){ before, after }, 2),
			       identity(s) };
	return before || after ? stx__b_call(s->b, STX_OP_PAD, 3, a) : x;
}

/* Scan of a short last dimension: element i reduces the elements j <= i. */
static struct stx_val scan_block(const struct scan *s, struct stx_val x)
{
	stx_ex sizes[STX_MAX_DIMS + 2] = { 0 }, column[2];
	uint32_t rank = stx_val_type(x)->rank;
	int64_t n = last_size(s, x, sizes);
	if (n == 1)
		return x;
	sizes[rank] = sizes[rank - 1];
	sizes[rank - 1] = column[1] = stx_ex_const(s->b->g->ex, 1);
	column[0] = sizes[rank];
	x = stx__b_view(s->b, x, rank + 1, sizes);
	struct stx_val j = stx__b_arange(s->b, n), i = stx__b_view(s->b, j, 2, column);
	struct stx_val past = stx__b_two(s->b, STX_OP_LE, j, i);
	x = stx__b_where(s->b, past, x, stx__b_full(s->b, 0, NULL, identity(s), s->t));
	if (!s->product)
		return stx__b_sum(s->b, x, 1u << rank, 0, s->t);
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_int(s->b->g, rank), stx_arg_bool(0),
			       stx_arg_dtype(s->t) };
	return stx__b_call(s->b, STX_OP_PROD_DIM, 4, a);
}

/* Depth of recursion: log16 of the size. */
static struct stx_val scan_last(const struct scan *s, struct stx_val x)
{
	stx_ex sizes[STX_MAX_DIMS + 2];
	if (s->b->err)
		return x;
	uint32_t rank = stx_val_type(x)->rank;
	int64_t n = last_size(s, x, sizes), blocks = (n + BLOCK - 1) / BLOCK;
	if (n <= 2 * BLOCK)
		return scan_block(s, x);
	x = pad_last(s, x, 0, blocks * BLOCK - n);
	sizes[rank - 1] = stx_ex_const(s->b->g->ex, blocks);
	sizes[rank] = stx_ex_const(s->b->g->ex, BLOCK);
	struct stx_val y = scan_block(s, stx__b_view(s->b, x, rank + 1, sizes));
	struct stx_arg last[] = { stx_arg_tensor(y), stx_arg_int(s->b->g, rank),
				  stx_arg_int(s->b->g, BLOCK - 1) };
	struct stx_val before = scan_last(s, stx__b_call(s->b, STX_OP_SELECT, 3, last));
	before = pad_last(s, before, 1, -1);
	sizes[rank] = stx_ex_const(s->b->g->ex, 1);
	before = stx__b_view(s->b, before, rank + 1, sizes);
	y = stx__b_two(s->b, s->product ? STX_OP_MUL : STX_OP_ADD, before, y);
	sizes[rank - 1] = stx_ex_const(s->b->g->ex, blocks * BLOCK);
	y = stx__b_view(s->b, y, rank, sizes);
	struct stx_arg cut[] = { stx_arg_tensor(y), stx_arg_int(s->b->g, rank - 1),
				 stx_arg_int(s->b->g, 0), stx_arg_int(s->b->g, n),
				 stx_arg_int(s->b->g, 1) };
	return blocks * BLOCK == n ? y : stx__b_call(s->b, STX_OP_SLICE, 5, cut);
}

int stx__rule_scan(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *t = &n->outs[0];
	struct scan s = { b, stx__wide(t->dtype), n->op == STX_OP_CUMPROD };
	struct stx_val x = stx__b_cast(b, stx__b_cast(b, stx__operand(n, 0), t->dtype), s.t);
	uint32_t dim;
	int64_t size;
	if (t->rank == 0 || stx_ex_equals(b->g->ex, stx_type_numel(b->g, t), 0)) {
		out[0] = stx__b_cast(b, x, t->dtype);
		return 0;
	}
	if (stx__infer_dim(b->g, n, n->args[1].u.ex, t->rank, &dim, b->d))
		return stx__b_fail(b, STX_E_INVALID, "a dimension out of range");
	if (!stx_ex_is_const(b->g->ex, t->sizes[dim], &size))
		return stx__b_fail(b, STX_E_UNSUPPORTED, "a scan over a symbolic size");
	if (t->rank + 2u > STX_MAX_DIMS)
		return stx__b_fail(b, STX_E_TOO_LARGE, "too many dimensions");
	x = dim + 1 == t->rank ? x : stx__b_swap(b, x, dim, t->rank - 1);
	x = scan_last(&s, x);
	x = dim + 1 == t->rank ? x : stx__b_swap(b, x, dim, t->rank - 1);
	out[0] = stx__b_cast(b, x, t->dtype);
	return 0;
}
