/* rules_contract.c
 * matrix products as reductions: DOT over k; on a GPU a sum of products for integers.
 *
 * Both operands are read once for every row or column, so a computed operand is realised first
 * (STX_REALIZED_WANTED); views of memory that are affine stay loads (LO-27). */
#include "lower.h"

static int is_affine(const struct stx__lower *l, stx_ex e, uint32_t rank)
{
	stx_ex coeff, rest = STX_EX_BAD;
	uint32_t d;

	for (d = 0; d < rank; d++)
		if (!stx_ex_linear_in(l->ex, e, d, &coeff, &rest) ||
		    stx_ex_uses_kind(l->ex, coeff, STX_ATOM_VAR))
			return 0;
	return 1;
}

static int is_affine_load(const struct stx__lower *l, const struct stx__inner *fn)
{
	return fn->rule == STX_IN_LOAD && is_affine(l, fn->u.load.ex, fn->rank);
}

struct stx__inner *stx__widened(const struct stx__inner *fn)
{
	const struct stx__step *s = fn->rule == STX_IN_MAP ? fn->u.steps.at : NULL;
	struct stx__inner *x = fn->nops == 1 ? fn->operands[0] : NULL;

	if (!s || !x || fn->u.steps.n != 1 || s->op != STX_P_CAST)
		return NULL;
	if (fn->dtype == STX_F32 && (x->dtype == STX_F16 || x->dtype == STX_BF16))
		return x;
	return fn->dtype == STX_I32 && x->dtype == STX_I8 ? x : NULL;
}

static int is_integer(uint32_t t)
{
	enum stx_dtype_kind kind = stx_dtype_kind((enum stx_dtype)t);

	return kind == STX_KIND_INT || kind == STX_KIND_UINT;
}

#define SHIFTED_DEPTH 5 /* the difference, conversions, views, loads */

/* Memory of 8 or 16 bits, converted, less a zero point: as cheap to pack as memory is. */
static int is_shifted_load(const struct stx__lower *l, const struct stx__inner *fn, int depth)
{
	uint32_t i;

	if (!is_integer(fn->dtype))
		return 0;
	if (fn->rule == STX_IN_CONST)
		return 1;
	if (fn->rule == STX_IN_LOAD)
		return stx_dtype_bytes((enum stx_dtype)fn->dtype) <= 2 && is_affine_load(l, fn);
	if (fn->rule == STX_IN_VIEW && depth) {
		for (i = 0; i < fn->operands[0]->rank; i++)
			if (!is_affine(l, fn->u.map[i], fn->rank))
				return 0;
		return is_shifted_load(l, fn->operands[0], depth - 1);
	}
	if (fn->rule != STX_IN_MAP || !depth)
		return 0;
	for (i = 0; i < fn->u.steps.n; i++) {
		const struct stx__step *s = &fn->u.steps.at[i];

		if ((s->op != STX_P_CAST && s->op != STX_P_SUB && s->op != STX_B_CONST) ||
		    !is_integer(s->dtype))
			return 0;
	}
	for (i = 0; i < fn->nops; i++)
		if (!is_shifted_load(l, fn->operands[i], depth - 1))
			return 0;
	return 1;
}

#define RANGE_DEPTH 4  /* maps inside each other */
#define RANGE_STEPS 64 /* of one map */

static struct stx_interval range_of(const struct stx__inner *fn, uint32_t depth);

static struct stx_interval type_range(uint32_t t)
{
	struct stx_interval r = { INT64_MIN, INT64_MAX };

	stx__dtype_range((enum stx_dtype)t, &r);
	return r;
}

/* Integers of 32 bits at most: differences and conversions of those do not overflow here. */
static struct stx_interval map_range(const struct stx__inner *fn, uint32_t depth)
{
	struct stx_interval r[RANGE_STEPS * 2], all, v;
	uint32_t i, n = fn->nops;

	if (!depth || n > RANGE_STEPS || fn->u.steps.n > RANGE_STEPS || !fn->u.steps.n)
		return type_range(fn->dtype);
	for (i = 0; i < n; i++)
		r[i] = range_of(fn->operands[i], depth - 1);
	for (i = 0; i < fn->u.steps.n; i++) {
		const struct stx__step *s = &fn->u.steps.at[i];
		int narrow = is_integer(s->dtype) && stx_dtype_bytes((enum stx_dtype)s->dtype) <= 4;

		v = all = type_range(s->dtype);
		if (narrow && s->op == STX_B_CONST)
			v = (struct stx_interval){ s->k.i, s->k.i };
		else if (narrow && s->op == STX_P_CAST)
			v = r[s->a];
		else if (narrow && s->op == STX_P_SUB)
			v = (struct stx_interval){ r[s->a].lo - r[s->b].hi,
						   r[s->a].hi - r[s->b].lo };
		r[n + i] = v.lo >= all.lo && v.hi <= all.hi ? v : all;
	}
	return r[n + fn->u.steps.n - 1];
}

static struct stx_interval range_of(const struct stx__inner *fn, uint32_t depth)
{
	if (fn->rule == STX_IN_MAP)
		return map_range(fn, depth);
	if (fn->rule == STX_IN_CONST && is_integer(fn->dtype))
		return (struct stx_interval){ fn->u.k.i, fn->u.k.i };
	if (fn->rule == STX_IN_VIEW && depth)
		return range_of(fn->operands[0], depth - 1);
	return type_range(fn->dtype);
}

enum stx_dtype stx__narrowest(const struct stx__inner *fn)
{
	static const enum stx_dtype types[] = { STX_I8, STX_U8, STX_I16 };
	struct stx_interval r = range_of(fn, RANGE_DEPTH), t;
	uint32_t i;

	for (i = 0; fn->dtype == STX_I32 && i < 3; i++)
		if (stx__dtype_range(types[i], &t) && r.lo >= t.lo && r.hi <= t.hi)
			return types[i];
	return (enum stx_dtype)fn->dtype;
}

int stx__is_widened_load(const struct stx__lower *l, const struct stx__inner *fn)
{
	const struct stx__inner *x = stx__widened(fn);

	if (x && is_affine_load(l, x))
		return 1;
	return !l->opts->target_gpu && fn->dtype == STX_I32 && fn->rule != STX_IN_LOAD &&
	       is_shifted_load(l, fn, SHIFTED_DEPTH);
}

/* Integers on a GPU: a sum of products, which any thread may add to. */
enum stx_monoid stx__dot_monoid(const struct stx__lower *l, enum stx_dtype t)
{
	return stx_dtype_is_float(t) || !l->opts->target_gpu ? STX_MONOID_DOT : STX_MONOID_SUM;
}

static struct stx__inner *operand(struct stx__lower *l, const struct stx_node *n, uint32_t i)
{
	struct stx__inner *fn = stx__arg(l, n, i);

	if (!fn)
		return NULL;
	if (fn->reads && !is_affine_load(l, fn) && !stx__is_widened_load(l, fn) &&
	    stx__realize_node(l, n->args[i].u.tensor.node,
			      stx__wanted_reason(l, &l->vals[n->args[i].u.tensor.node->id])))
		return NULL;
	return stx__arg(l, n, i);
}

/* x [batch.., p, q] over the index space out ++ [k]: batch axes, then the axes given. */
static struct stx__inner *place(struct stx__lower *l, struct stx__inner *x, struct stx__shape space,
				uint32_t p, uint32_t q)
{
	stx_ex *map = STX_NEW_ARRAY(l->arena, stx_ex, STX_MAX_DIMS);
	uint32_t d;

	if (!x || !map)
		return NULL;
	for (d = 0; d + 2 < x->rank; d++)
		map[d] = stx__axis(l->ex, d, space.sizes[d]);
	map[x->rank - 2] = stx__axis(l->ex, p, space.sizes[p]);
	map[x->rank - 1] = stx__axis(l->ex, q, space.sizes[q]);
	return stx__inner_view(l->g, x, space, map);
}

/* scores [.., m, k], value [.., k, n]: over k, for every row and column. The scores stay what they
 * are: each is needed once a row, not once a column (4_schedule/attend.c). */
static struct stx__inner *attend(struct stx__lower *l, const struct stx_node *n)
{
	struct stx__shape out = stx__node_shape(n), space;
	struct stx__reduction r = { .monoid = STX_MONOID_ATTEND,
				    .acc = stx_val_type(n->args[0].u.tensor)->dtype,
				    .dtype = n->outs[0].dtype,
				    .ranges = out };
	struct stx__inner *value = operand(l, n, 1), *scores = value ? stx__arg(l, n, 0) : NULL;
	stx_ex *sizes = STX_NEW_ARRAY(l->arena, stx_ex, out.rank + 1u);
	uint32_t d;

	if (!scores || !sizes)
		return NULL;
	for (d = 0; d < out.rank; d++)
		sizes[d] = out.sizes[d];
	sizes[out.rank] = scores->sizes[scores->rank - 1];
	/* without keys a product is 0, whatever the softmax */
	r.state = n->args[2].u.i || stx_ex_equals(l->ex, sizes[out.rank], 0);
	space = (struct stx__shape){ (uint8_t)(out.rank + 1), sizes };
	r.rranges = (struct stx__shape){ 1, sizes + out.rank };
	r.fn[0] = place(l, scores, space, out.rank - 2u, out.rank);
	r.fn[1] = place(l, value, space, out.rank, out.rank - 1u);
	if (!r.fn[0] || !r.fn[1])
		return NULL;
	return stx__realize_reduction(l, n, &r, STX_REALIZED_CONTRACTION);
}

struct stx__inner *stx__rule_contract(struct stx__lower *l, const struct stx_node *n)
{
	struct stx__shape out = stx__node_shape(n), space = { 0 };
	enum stx_dtype t = n->outs[0].dtype, work = stx__work_dtype(t);
	struct stx__step mul = { .op = STX_P_MUL, .dtype = (uint8_t)work, .a = 0, .b = 1 };
	struct stx__reduction r = { .acc = work, .dtype = t, .ranges = out };
	struct stx__inner *a, *b;
	stx_ex *sizes;
	uint32_t d;

	if (n->op == STX_OP_ATTEND && l->opts->target_gpu)
		return stx__lower_fail(l, STX_E_UNSUPPORTED, n,
				       "%s is for CPUs: softmax.int or _safe_softmax.default, and "
				       "bmm.default, are for GPUs too",
				       stx_op_info(n->op)->overload);
	if (n->op == STX_OP_ATTEND)
		return attend(l, n);
	if (n->op != STX_OP_MM && n->op != STX_OP_BMM && n->op != STX_OP_CONVOLUTION)
		return stx__lower_fail(l, STX_E_UNSUPPORTED, n, "%s has no lowering rule",
				       stx_op_info(n->op)->overload);
	a = operand(l, n, 0);
	b = a ? operand(l, n, 1) : NULL;
	sizes = STX_NEW_ARRAY(l->arena, stx_ex, out.rank + 1u);
	if (!b || !sizes)
		return NULL;
	a = stx__arg(l, n, 0); /* realising b may have replaced it */
	if (n->op == STX_OP_CONVOLUTION)
		return stx__lower_convolution(l, n, a, b);
	for (d = 0; d < out.rank; d++)
		sizes[d] = out.sizes[d];
	sizes[out.rank] = a->sizes[a->rank - 1];
	space = (struct stx__shape){ (uint8_t)(out.rank + 1), sizes };
	r.rranges = (struct stx__shape){ 1, sizes + out.rank };
	a = stx__inner_cast(l->g, place(l, a, space, out.rank - 2u, out.rank), work);
	b = stx__inner_cast(l->g, place(l, b, space, out.rank, out.rank - 1u), work);
	if (!a || !b)
		return NULL;
	r.monoid = stx__dot_monoid(l, t);
	r.fn[0] = a;
	r.fn[1] = b;
	if (r.monoid == STX_MONOID_SUM) {
		struct stx__inner *ops[2] = { a, b };

		r.fn[0] = stx__inner_map(l->g, space, ops, 2, &mul, 1);
		r.fn[1] = NULL;
	}
	return stx__realize_reduction(l, n, &r, STX_REALIZED_CONTRACTION);
}
