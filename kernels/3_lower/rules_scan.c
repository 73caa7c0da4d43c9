/* rules_scan.c
 * running sums, products and extremes along one dimension: a loop that carries its accumulator
 * (loops.h, STX_DEF_SCAN). On a CPU; a GPU's are reductions of blocks (1_graph/decompose_scan.c).
 *
 * Integers wrap in the result's type. Floats up to 32 bits accumulate in f64, so that a row's length
 * hardly adds to the one rounding of each result; f64 itself stays for short rows only. */
#include "lower.h"

int stx__scan_has_rule(enum stx_op op)
{
	return op == STX_OP_CUMSUM || op == STX_OP_CUMPROD || stx__scan_is_pair(op);
}

int stx__scan_is_pair(enum stx_op op)
{
	return op == STX_OP_CUMMAX || op == STX_OP_CUMMIN;
}

/* The dimensions of x but `dim`, then that one: r's ranges and operand; s->at: where of those each
 * dimension of the result lies. */
static int set_space(struct stx__lower *l, struct stx__inner *x, uint32_t dim, struct stx__scan *s)
{
	struct stx__reduction *r = &s->r;
	stx_ex *sizes = STX_NEW_ARRAY(l->arena, stx_ex, STX_MAX_DIMS);
	stx_ex *map = STX_NEW_ARRAY(l->arena, stx_ex, STX_MAX_DIMS);
	uint32_t d, k = 0;

	if (!sizes || !map)
		return 0;
	for (d = 0; d < x->rank; d++) {
		uint32_t at = d == dim ? x->rank - 1u : k++;

		sizes[at] = x->sizes[d];
		map[d] = s->at[d] = stx__axis(l->ex, at, x->sizes[d]);
	}
	r->ranges = (struct stx__shape){ (uint8_t)(x->rank - 1), sizes };
	r->rranges = (struct stx__shape){ 1, sizes + x->rank - 1 };
	r->fn[0] = stx__inner_view(l->g, x, (struct stx__shape){ x->rank, sizes }, map);
	return r->fn[0] != NULL;
}

static enum stx_dtype accumulator(enum stx_op op, enum stx_dtype t)
{
	if (stx__scan_is_pair(op))
		return t == STX_BOOL ? STX_U8 : stx__work_dtype(t);
	return stx_dtype_is_float(t) ? STX_F64 : t;
}

static enum stx_monoid monoid(enum stx_op op)
{
	return op == STX_OP_CUMSUM    ? STX_MONOID_SUM
	       : op == STX_OP_CUMPROD ? STX_MONOID_PROD
	       : op == STX_OP_CUMMAX  ? STX_MONOID_ARGMAX
				      : STX_MONOID_ARGMIN;
}

struct stx__inner *stx__rule_running(struct stx__lower *l, const struct stx_node *n)
{
	enum stx_dtype t = n->outs[0].dtype;
	struct stx__scan s = { .r = { .monoid = monoid(n->op), .acc = accumulator(n->op, t) } };
	struct stx__inner *x = stx__arg(l, n, 0), *out[2] = { NULL, NULL };
	int64_t dim;

	if (!x || !stx__const_arg(l, n, n->args[1].u.ex, &dim) ||
	    !(x = stx__inner_cast(l->g, x, t)))
		return NULL;
	if (!x->rank) {
		if (stx__scan_is_pair(n->op))
			l->vals[n->id].second = stx__inner_const(l->g, STX_I64, stx__node_shape(n),
								 (union stx_scalar){ .i = 0 });
		return x;
	}
	x = stx__inner_cast(l->g, x, s.r.acc);
	if (!x || !set_space(l, x, stx__dim(dim, x->rank), &s))
		return NULL;
	for (uint8_t i = 0; i < n->nouts; i++) {
		if (!(l->vals[n->id].used >> i & 1))
			continue;
		s.r.state = i;
		s.r.dtype = n->outs[i].dtype;
		if (!(out[i] = stx__realize_scan(l, n, &s)))
			return NULL;
	}
	l->vals[n->id].second = out[1];
	return out[0] ? out[0] : out[1];
}
