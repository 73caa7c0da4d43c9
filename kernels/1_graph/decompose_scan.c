/* decompose_scan.c: for targets whose loops carry no accumulator (graph.h, runs_scans) running sums,
 * products, extremes and log-sum-exps in blocks of about 16, level by level: each block by a masked
 * reduction, the blocks' totals by the same scan, what came before combined at the end. Work 16 n,
 * depth log16 n; nothing is subtracted and no total multiplied by 0, so infinities stay what they
 * are (B45). */
#include <math.h>

#include "decompose.h"
#include "infer.h"

#define BLOCK       16
#define LEAST_BLOCK 6
#define MOST_SERIAL 512 /* f64: summed one after the other */
#define MOST_WHOLE  8 /* blocks: the scheduler cuts their loop into so many (4_schedule/pieces.c) */

enum running { SUM, PRODUCT, MAX, MIN, LOGSUMEXP };

struct scan {
	struct stx__build *b;
	enum stx_dtype t; /* computed in */
	enum running kind;
};

/* Least and greatest integers by their bits: casts keep the low ones. */
static struct stx_arg extreme(enum stx_dtype t, int greatest)
{
	int bits = 8 * stx_dtype_bytes(t);
	if (stx_dtype_kind(t) == STX_KIND_UINT)
		return stx_arg_scalar_i(greatest ? -1 : 0);
	int64_t top = INT64_MAX >> (64 - bits);
	return stx_arg_scalar_i(greatest ? top : -top - 1);
}

static struct stx_arg identity(const struct scan *s)
{
	int is_float = stx_dtype_is_float(s->t);
	switch (s->kind) {
	case SUM:
	case PRODUCT:
		return is_float ? stx_arg_scalar_f(s->kind == PRODUCT)
				: stx_arg_scalar_i(s->kind == PRODUCT);
	case MIN: return is_float ? stx_arg_scalar_f(INFINITY) : extreme(s->t, 1);
	default: return is_float ? stx_arg_scalar_f(-INFINITY) : extreme(s->t, 0);
	}
}

/* Over the last dimension, number rank. */
static struct stx_val reduce(const struct scan *s, struct stx_val x, uint32_t rank)
{
	struct stx_graph *g = s->b->g;
	struct stx_arg dim = stx_arg_ints(g, (int64_t[]){ rank }, 1);
	struct stx_arg prod[] = { stx_arg_tensor(x), stx_arg_int(g, rank), stx_arg_bool(0),
				  stx_arg_dtype(s->t) };
	struct stx_arg other[] = { stx_arg_tensor(x), dim, stx_arg_bool(0) };
	switch (s->kind) {
	case SUM: return stx__b_sum(s->b, x, 1u << rank, 0, s->t);
	case PRODUCT: return stx__b_call(s->b, STX_OP_PROD_DIM, 4, prod);
	case MAX: return stx__b_call(s->b, STX_OP_AMAX, 3, other);
	case MIN: return stx__b_call(s->b, STX_OP_AMIN, 3, other);
	default: return stx__b_call(s->b, STX_OP_LOGSUMEXP, 3, other);
	}
}

/* before, [.., 1], with y, [.., n]; rank is that of both. */
static struct stx_val combine(const struct scan *s, struct stx_val before, struct stx_val y,
			      uint32_t rank)
{
	static const enum stx_op ops[] = { STX_OP_ADD, STX_OP_MUL, STX_OP_MAXIMUM, STX_OP_MINIMUM };
	if (s->kind != LOGSUMEXP)
		return stx__b_two(s->b, ops[s->kind], before, y);
	if (s->b->err)
		return y;
	before = stx__b_expand(s->b, before, rank, stx_val_type(y)->sizes);
	struct stx_val both[] = { before, y };
	struct stx_arg a[] = { stx_arg_tensors(s->b->g, both, 2), stx_arg_int(s->b->g, rank) };
	return reduce(s, stx__b_call(s->b, STX_OP_STACK, 2, a), rank);
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
	return reduce(s, x, rank);
}

/* Elements of a block. Of few blocks all are whole, where a number not far below 16 divides n; many are
 * better of 16, whose elements find the total before them in whole vectors. */
static int64_t block_of(int64_t n)
{
	for (int64_t b = BLOCK; b >= LEAST_BLOCK && n <= MOST_WHOLE * b; b--)
		if (n % b == 0)
			return b;
	return BLOCK;
}

/* Depth of recursion: log16 of the size. */
static struct stx_val scan_last(const struct scan *s, struct stx_val x)
{
	stx_ex sizes[STX_MAX_DIMS + 2];
	if (s->b->err)
		return x;
	uint32_t rank = stx_val_type(x)->rank;
	int64_t n = last_size(s, x, sizes), block = block_of(n), blocks = (n + block - 1) / block;
	if (n <= 2 * BLOCK)
		return scan_block(s, x);
	x = pad_last(s, x, 0, blocks * block - n);
	sizes[rank - 1] = stx_ex_const(s->b->g->ex, blocks);
	sizes[rank] = stx_ex_const(s->b->g->ex, block);
	struct stx_val y = scan_block(s, stx__b_view(s->b, x, rank + 1, sizes));
	struct stx_arg last[] = { stx_arg_tensor(y), stx_arg_int(s->b->g, rank),
				  stx_arg_int(s->b->g, block - 1) };
	struct stx_val before = scan_last(s, stx__b_call(s->b, STX_OP_SELECT, 3, last));
	before = pad_last(s, before, 1, -1);
	sizes[rank] = stx_ex_const(s->b->g->ex, 1);
	before = stx__b_view(s->b, before, rank + 1, sizes);
	y = combine(s, before, y, rank + 1);
	sizes[rank - 1] = stx_ex_const(s->b->g->ex, blocks * block);
	y = stx__b_view(s->b, y, rank, sizes);
	struct stx_arg cut[] = { stx_arg_tensor(y), stx_arg_int(s->b->g, rank - 1),
				 stx_arg_int(s->b->g, 0), stx_arg_int(s->b->g, n),
				 stx_arg_int(s->b->g, 1) };
	return blocks * block == n ? y : stx__b_call(s->b, STX_OP_SLICE, 5, cut);
}

/* Along dimension dim of x, of some elements. */
static struct stx_val scan_dim(struct stx__build *b, struct stx_val x, uint32_t dim,
			       enum running kind)
{
	if (b->err)
		return x;
	const struct stx_type *t = stx_val_type(x);
	struct scan s = { b, t->dtype, kind };
	uint32_t last = t->rank - 1u;
	int64_t size;
	if (!stx_ex_is_const(b->g->ex, t->sizes[dim], &size)) {
		stx__b_fail(b, STX_E_UNSUPPORTED, "a scan over a symbolic size");
		return x;
	}
	if (t->rank + 3u > STX_MAX_DIMS) {
		stx__b_fail(b, STX_E_TOO_LARGE, "too many dimensions");
		return x;
	}
	x = dim == last ? x : stx__b_swap(b, x, dim, last);
	x = scan_last(&s, x);
	return dim == last ? x : stx__b_swap(b, x, dim, last);
}

/* A 0-d operand or one without elements is its own scan. */
static int is_trivial(struct stx__build *b, const struct stx_type *t)
{
	return t->rank == 0 || stx_ex_equals(b->g->ex, stx_type_numel(b->g, t), 0);
}

/* A target whose loops carry an accumulator (3_lower/rules_scan.c) keeps what it runs as such: but for
 * long rows of f64, which has nothing wider to accumulate in and errs less in blocks. */
static int stays(struct stx__build *b, const struct stx_node *n)
{
	const struct stx_type *t = &n->outs[0];
	uint32_t dim;
	int64_t size;
	if (!b->g->runs_scans || n->op == STX_OP_LOGCUMSUMEXP || t->dtype == STX_BOOL)
		return 0;
	if (t->dtype != STX_F64 || !t->rank ||
	    stx__infer_dim(b->g, n, n->args[1].u.ex, t->rank, &dim, b->d))
		return 1;
	return !stx_ex_is_const(b->g->ex, t->sizes[dim], &size) || size <= MOST_SERIAL;
}

int stx__rule_scan(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *t = &n->outs[0];
	enum running kind = n->op == STX_OP_CUMPROD        ? PRODUCT
			    : n->op == STX_OP_LOGCUMSUMEXP ? LOGSUMEXP
							   : SUM;
	struct stx_val x;
	uint32_t dim;
	if (stays(b, n))
		return 1;
	x = stx__b_cast(b, stx__operand(n, 0), t->dtype);
	x = stx__b_cast(b, x, stx__wide(t->dtype));
	if (stx__infer_dim(b->g, n, n->args[1].u.ex, t->rank, &dim, b->d))
		return stx__b_fail(b, STX_E_INVALID, "a dimension out of range");
	if (!is_trivial(b, t))
		x = scan_dim(b, x, dim, kind);
	out[0] = stx__b_cast(b, x, t->dtype);
	return 0;
}

/* cummax, cummin. Element j is a record when it equals the extreme up to it, or is NaN; the index
 * is the last record's, the value what stands there (a zero keeps its sign). */
int stx__rule_running_extreme(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *t = &n->outs[0];
	struct stx_val x = stx__operand(n, 0), key = x, record;
	enum running kind = n->op == STX_OP_CUMMAX ? MAX : MIN;
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t dim;
	int64_t size;
	if (b->g->runs_scans)
		return 1;
	if (stx__infer_dim(b->g, n, n->args[1].u.ex, t->rank, &dim, b->d))
		return stx__b_fail(b, STX_E_INVALID, "a dimension out of range");
	if (is_trivial(b, t)) {
		out[0] = x;
		out[1] = stx__b_full(b, t->rank, t->sizes, stx_arg_scalar_i(0), STX_I64);
		return 0;
	}
	if (!stx_ex_is_const(b->g->ex, t->sizes[dim], &size))
		return stx__b_fail(b, STX_E_UNSUPPORTED, "a scan over a symbolic size");
	if (t->dtype == STX_BOOL)
		key = stx__b_cast(b, x, STX_U8);
	else if (stx_dtype_is_float(t->dtype)) /* not every format has infinities */
		key = stx__b_cast(b, x, stx__wide(t->dtype));
	record = stx__b_two(b, STX_OP_EQ, key, scan_dim(b, key, dim, kind));
	if (stx_dtype_is_float(t->dtype))
		record = stx__b_two(b, STX_OP_LOGICAL_OR, record, stx__b_one(b, STX_OP_ISNAN, x));
	for (uint32_t i = 0; i < t->rank; i++)
		sizes[i] = i == dim ? t->sizes[dim] : stx_ex_const(b->g->ex, 1);
	struct stx_val at = stx__b_view(b, stx__b_arange(b, size), t->rank, sizes);
	struct stx_val none = stx__b_full(b, 0, NULL, stx_arg_scalar_i(0), STX_I64);
	out[1] = scan_dim(b, stx__b_where(b, record, at, none), dim, MAX);
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_int(b->g, dim), stx_arg_tensor(out[1]) };
	out[0] = stx__b_call(b, STX_OP_GATHER, 3, a);
	return 0;
}
