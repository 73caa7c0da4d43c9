/* decompose_softmax.c: softmax, log-softmax and log-sum-exp: the maximum out first, by two passes
 * over short rows, by one of pairs over long ones. In f32 for the half types, rounded once. */
#include "decompose.h"
#include "elementary.h"

#define ADD(x, y)    stx__b_two(b, STX_OP_ADD, x, y)
#define SUB(x, y)    stx__b_two(b, STX_OP_SUB, x, y)
#define CALL1(op, x) stx__b_one(b, STX_OP_##op, x)

/* Rows of more elements leave the first caches: maximum and sum come from one pass. Not where a
 * softmax needs the exponentials again and the target keeps the row: two passes compute each once. */
#define LONG_ROW 32768
/* Fewer rows leave processors idle, unless each of the two reductions is cut (split.h). */
#define MANY_ROWS 16
/* So many rows are not cut on a GPU, each of the two reductions by itself (split_rule.c). */
#define UNCUT_ROWS 512

/* 1: x has many long rows, of the dimensions in set; a symbolic row counts as short. */
static int has_long_rows(const struct stx__build *b, const struct stx_type *t, uint32_t set)
{
	double row = 1, rows = 1;
	for (uint32_t i = 0; i < t->rank; i++) {
		int64_t s;
		if (stx_ex_is_const(b->g->ex, t->sizes[i], &s))
			*(set >> i & 1 ? &row : &rows) *= (double)s;
		else if (set >> i & 1)
			return 0;
		else
			rows *= MANY_ROWS;
	}
	int64_t kept = b->n->op == STX_OP_SOFTMAX && rows >= UNCUT_ROWS ? b->g->kept_row : 0;
	int64_t least = b->g->cached_row > LONG_ROW ? b->g->cached_row : LONG_ROW;
	kept = kept > least ? kept : least;
	return row > (double)kept && rows >= MANY_ROWS;
}

/* 1: top and sum are those of x over the dimensions in set, kept as size 1; 0: short rows. */
static int online(struct stx__build *b, struct stx_val x, uint32_t set, struct stx_val *top,
		  struct stx_val *sum)
{
	int64_t dims[STX_MAX_DIMS];
	uint32_t n = 0;
	if (b->err || !has_long_rows(b, stx_val_type(x), set))
		return 0;
	for (uint32_t i = 0; i < STX_MAX_DIMS; i++)
		if (set >> i & 1)
			dims[n++] = i;
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_ints(b->g, dims, n), stx_arg_bool(1) };
	*top = stx__b_call(b, STX_OP_ONLINE_SOFTMAX, 3, a);
	*sum = stx_val(top->node, 1);
	return !b->err;
}

/* The maximum is taken out first; where it is infinite, 0 is, so that no inf - inf arises (B07). */
int stx__rule_logsumexp(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	uint32_t set = stx__b_dims(b, n, 1, 1);
	int keep = (int)stx__arg(n, 2)->u.i;
	enum stx_dtype t = stx__wide(n->outs[0].dtype);
	struct stx_val x = stx__b_cast(b, stx__operand(n, 0), t);
	if (b->err)
		return 0;
	double count = 1;
	if (!stx__b_count(b, stx_val_type(x), set, &count))
		return 0;
	if (count == 0) {
		out[0] = stx__b_rounded(b, n, CALL1(LOG, stx__b_sum(b, x, set, keep, t)));
		return 0;
	}
	struct stx_val top, sum;
	/* an infinite maximum counts its equals: their log is finite */
	if (online(b, x, set, &top, &sum)) {
		x = ADD(CALL1(LOG, sum), top);
		out[0] = stx__b_rounded(
			b, n, keep ? x : stx__b_view(b, x, n->outs[0].rank, n->outs[0].sizes));
		return 0;
	}
	struct stx_val m = stx__b_amax(b, x, set, 1),
		       zero = stx__b_full(b, 0, NULL, stx_arg_scalar_f(0), t);
	m = stx__b_where(b, CALL1(ISINF, m), zero, m);
	struct stx_val s = stx__b_sum(b, CALL1(EXP, SUB(x, m)), set, keep, t);
	struct stx_val shift = m;
	if (!keep && !b->err)
		shift = stx__b_view(b, m, n->outs[0].rank, n->outs[0].sizes);
	out[0] = stx__b_rounded(b, n, ADD(CALL1(LOG, s), shift));
	return 0;
}

static struct stx_val short_exp(struct stx__build *b, const struct stx_node *n, struct stx_val x)
{
	int is_short = stx_elementary_is_short(n->outs[0].dtype);
	return stx__b_one(b, is_short ? STX_OP_SHORT_EXP : STX_OP_EXP, x);
}

static struct stx_val short_div(struct stx__build *b, const struct stx_node *n, struct stx_val x,
				struct stx_val y)
{
	int is_short = stx_elementary_is_short(n->outs[0].dtype);
	return stx__b_two(b, is_short ? STX_OP_SHORT_DIV : STX_OP_DIV, x, y);
}

int stx__rule_softmax(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	uint32_t set = stx__b_dim(b, n, 1);
	struct stx_val x = stx__b_widened(b, n, 0);
	if (!b->err && stx_ex_equals(b->g->ex, stx_type_numel(b->g, stx_val_type(x)), 0)) {
		out[0] = stx__b_rounded(b, n, x);
		return 0;
	}
	if (b->err)
		return 0;
	enum stx_dtype t = stx_val_type(x)->dtype;
	struct stx_val top, s, d, e;
	if (online(b, x, set, &top, &s)) {
		s = ADD(s, SUB(top, top)); /* NaN where the maximum is infinite */
		d = SUB(x, top);
		e = short_exp(b, n, d);
	} else {
		d = SUB(x, stx__b_amax(b, x, set, 1));
		e = short_exp(b, n, d);
		s = stx__b_sum(b, e, set, 1, t);
	}
	if (n->op == STX_OP_SOFTMAX) /* f16 and bf16 divide once a row */
		out[0] = stx__b_rounded(b, n, short_div(b, n, e, s));
	else
		out[0] = stx__b_rounded(b, n, SUB(d, CALL1(LOG, s)));
	return 0;
}

int stx__rule_softmax_int(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_val x = stx__b_cast(b, stx__operand(n, 0), n->outs[0].dtype);
	out[0] = stx__b_number(b, n->op == STX_OP_SOFTMAX_INT ? STX_OP_SOFTMAX : STX_OP_LOG_SOFTMAX,
			       x, *stx__arg(n, 1));
	return 0;
}
