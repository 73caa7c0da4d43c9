/* decompose_search.c: binary search in sorted sequences, distances between rows. */
#include <math.h>

#include "decompose.h"
#include "infer.h"
#include "passes.h"

/* ---- searchsorted, bucketize ---- */

struct search {
	struct stx__build *b;
	struct stx_val sequence,
		values; /* of one type; a row of the sequence for each of the values */
	uint32_t dim;
	int64_t size; /* of a row of the sequence */
	int right;
};

static struct stx_val number(const struct search *s, int64_t v)
{
	return stx__b_full(s->b, 0, NULL, stx_arg_scalar_i(v), STX_I64);
}

/* Whether the element at `at` comes before the value: it is less, or equal and right; NaN comes
 * last. */
static struct stx_val comes_before(const struct search *s, struct stx_val at)
{
	struct stx_arg a[] = { stx_arg_tensor(s->sequence), stx_arg_int(s->b->g, s->dim),
			       stx_arg_tensor(at) };
	struct stx_val x = stx__b_call(s->b, STX_OP_GATHER, 3, a);
	x = stx__b_two(s->b, s->right ? STX_OP_GT : STX_OP_GE, x, s->values);
	return stx__b_one(s->b, STX_OP_LOGICAL_NOT, x);
}

/* The number of elements that come before: grown by powers of two, greatest first. */
static struct stx_val find(const struct search *s)
{
	struct stx__build *b = s->b;
	const struct stx_type *t = stx_val_type(s->values);
	struct stx_val at = stx__b_full(b, t->rank, t->sizes, stx_arg_scalar_i(0), STX_I64);
	int64_t step = 1;
	while (step <= s->size / 2)
		step *= 2;
	for (; step > 0 && s->size > 0 && !b->err; step /= 2) {
		struct stx_val next =
			stx__b_number(b, STX_OP_ADD_SCALAR, at, stx_arg_scalar_i(step));
		struct stx_val fits =
			stx__b_number(b, STX_OP_LE_SCALAR, next, stx_arg_scalar_i(s->size));
		struct stx_val look =
			stx__b_number(b, STX_OP_ADD_SCALAR, next, stx_arg_scalar_i(-1));
		look = stx__b_two(b, STX_OP_MINIMUM, look, number(s, s->size - 1));
		fits = stx__b_two(b, STX_OP_LOGICAL_AND, fits, comes_before(s, look));
		at = stx__b_where(b, fits, next, at);
	}
	return at;
}

int stx__rule_search(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	uint32_t is_bucketize = n->op == STX_OP_BUCKETIZE;
	struct search s = { .b = b,
			    .sequence = stx__operand(n, is_bucketize),
			    .values = stx__operand(n, !is_bucketize),
			    .right = (int)stx__arg(n, 3)->u.i };
	const struct stx_type *t = stx_val_type(s.sequence), *o = &n->outs[0];
	stx_ex count = stx_type_numel(b->g, o);
	if (!stx_ex_is_const(b->g->ex, t->sizes[t->rank - 1], &s.size))
		return stx__b_fail(b, STX_E_UNSUPPORTED, "a search in a symbolic size");
	enum stx_dtype common = stx_promote(t->dtype, stx_val_type(s.values)->dtype);
	s.sequence = stx__b_cast(b, s.sequence, common);
	s.values = stx__b_cast(b, s.values, common);
	s.dim = t->rank - 1u;
	if (t->rank == 1)
		s.values = stx__b_view(b, s.values, 1, &count);
	if (b->err)
		return 0;
	struct stx_val at = find(&s);
	if (t->rank == 1)
		at = stx__b_view(b, at, o->rank, o->sizes);
	out[0] = stx__b_cast(b, at, o->dtype);
	return 0;
}

/* ---- distances ---- */

/* Of differences d over the last dimension, the norm of order p; 0 over nothing. */
static struct stx_val norm(struct stx__build *b, struct stx_val d, double p)
{
	if (b->err)
		return d;
	uint32_t last = stx_val_type(d)->rank - 1u;
	enum stx_dtype t = stx_val_type(d)->dtype;
	d = stx__b_one(b, STX_OP_ABS, d);
	if (isinf(p) && !stx_ex_equals(b->g->ex, stx_val_type(d)->sizes[last], 0))
		return stx__b_amax(b, d, 1u << last, 0);
	if (p == 0) { /* 1 where they differ; NaN stays */
		struct stx_val one = stx__b_full(b, 0, NULL, stx_arg_scalar_f(1), t);
		d = stx__b_two(b, STX_OP_MINIMUM, stx__b_one(b, STX_OP_CEIL, d), one);
	} else if (p == 2) {
		d = stx__b_two(b, STX_OP_MUL, d, d);
	} else if (p != 1 && !isinf(p)) {
		d = stx__b_scalar(b, STX_OP_POW_SCALAR, d, p);
	}
	d = stx__b_sum(b, d, 1u << last, 0, t);
	if (p == 2)
		return stx__b_one(b, STX_OP_SQRT, d);
	return p == 0 || p == 1 || isinf(p) ? d : stx__b_scalar(b, STX_OP_POW_SCALAR, d, 1 / p);
}

static struct stx_val wide(struct stx__build *b, struct stx_val x)
{
	return stx__b_cast(b, x, stx__wide(stx_val_type(x)->dtype));
}

int stx__rule_cdist(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_val x = wide(b, stx__operand(n, 0)), y = wide(b, stx__operand(n, 1));
	uint32_t rank = n->outs[0].rank;
	x = stx__b_number(b, STX_OP_UNSQUEEZE, x, stx_arg_int(b->g, rank - 1));
	y = stx__b_number(b, STX_OP_UNSQUEEZE, y, stx_arg_int(b->g, rank - 2));
	struct stx_val d = norm(b, stx__b_two(b, STX_OP_SUB, x, y), stx__arg(n, 2)->u.f);
	out[0] = stx__b_cast(b, d, n->outs[0].dtype);
	return 0;
}

static struct stx_val rows(struct stx__build *b, struct stx_val x, struct stx_val index)
{
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_int(b->g, 0), stx_arg_tensor(index) };
	return stx__b_call(b, STX_OP_INDEX_SELECT, 3, a);
}

/* Pair k is (i, j): i is the number of rows whose pairs all come before, found as in searchsorted;
 * then j = i + 1 + k - the pairs before row i. */
int stx__rule_pdist(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_val x = wide(b, stx__operand(n, 0));
	int64_t size = 0, pairs;
	stx_ex_is_const(b->g->ex, stx__infer_type(n, 0)->sizes[0], &size);
	pairs = size * (size - 1) / 2;
	if (pairs == 0) {
		out[0] = stx__b_full(b, 1, n->outs[0].sizes, stx_arg_scalar_f(0), n->outs[0].dtype);
		return 0;
	}
	/* pairs before row i: i (2 size - i - 1) / 2 */
	struct stx_val i = stx__b_arange(b, size), k = stx__b_arange(b, pairs);
	struct stx_val back = stx__b_number(b, STX_OP_MUL_SCALAR, i, stx_arg_scalar_i(-1));
	back = stx__b_number(b, STX_OP_ADD_SCALAR, back, stx_arg_scalar_i(2 * size - 1));
	struct stx_val before = stx__b_two(b, STX_OP_MUL, i, back);
	before = stx__b_number(
		b, STX_OP_SHR, before,
		stx_arg_tensor(stx__b_full(b, 0, NULL, stx_arg_scalar_i(1), STX_I64)));
	struct stx_arg find[] = { stx_arg_tensor(before), stx_arg_tensor(k), stx_arg_bool(0),
				  stx_arg_bool(1) };
	struct stx_val row = stx__b_call(b, STX_OP_SEARCHSORTED, 4, find);
	row = stx__b_number(b, STX_OP_ADD_SCALAR, row, stx_arg_scalar_i(-1));
	struct stx_val column = stx__b_two(b, STX_OP_SUB, k, rows(b, before, row));
	column = stx__b_two(b, STX_OP_ADD, column, row);
	column = stx__b_number(b, STX_OP_ADD_SCALAR, column, stx_arg_scalar_i(1));
	struct stx_val d = stx__b_two(b, STX_OP_SUB, rows(b, x, row), rows(b, x, column));
	out[0] = stx__b_cast(b, norm(b, d, stx__arg(n, 1)->u.f), n->outs[0].dtype);
	return 0;
}
