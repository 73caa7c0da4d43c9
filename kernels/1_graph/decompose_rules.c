/* decompose_rules.c: the decomposition rules, one short function an operator, and their two tables.
 * Composites compute in f32 for the half types and round once; every other rule is exact. */
#include <math.h>
#include <string.h>

#include "decompose.h"
#include "infer.h"
#include "scalar.h"

#define ADD(x, y)    stx__b_two(b, STX_OP_ADD, x, y)
#define SUB(x, y)    stx__b_two(b, STX_OP_SUB, x, y)
#define MUL(x, y)    stx__b_two(b, STX_OP_MUL, x, y)
#define ADDS(x, s)   stx__b_scalar(b, STX_OP_ADD_SCALAR, x, s)
#define DIVS(x, s)   stx__b_scalar(b, STX_OP_DIV_SCALAR, x, s)
#define CALL1(op, x) stx__b_one(b, STX_OP_##op, x)

/* Operand i in the type composites compute in, and a result rounded to n's type. */
static struct stx_val widened(struct stx__build *b, const struct stx_node *n, uint32_t i)
{
	return stx__b_widened(b, n, i);
}

static struct stx_val rounded(struct stx__build *b, const struct stx_node *n, struct stx_val x)
{
	return stx__b_rounded(b, n, x);
}

static uint32_t all_dims(const struct stx_node *n)
{
	return (1u << stx__infer_type(n, 0)->rank) - 1;
}

/* ---- arithmetic ---- */

/* other - alpha*self, as (-alpha*self) + other: subtraction is addition of the negative, bit for
 * bit. */
static int rsub_scalar(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	int whole = !stx__arg(n, 2)->is_float && stx__arg(n, 2)->u.i == 1;
	enum stx_dtype t = n->outs[0].dtype;
	struct stx_val x = stx__b_cast(b, stx__operand(n, 0), whole ? t : stx__wide(t));
	if (!whole)
		x = stx__b_number(b, STX_OP_MUL_SCALAR, x, *stx__arg(n, 2));
	out[0] = rounded(b, n, stx__b_number(b, STX_OP_ADD_SCALAR, CALL1(NEG, x), *stx__arg(n, 1)));
	return 0;
}

static int rsub(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_arg a[] = { *stx__arg(n, 1), *stx__arg(n, 0), *stx__arg(n, 2) };
	out[0] = stx__b_call(b, STX_OP_SUB, 3, a);
	return 0;
}

/* An operator with a number for its second operand: the number becomes a 0-d tensor of the type
 * computed in, which is f32 for smaller floats (NUMERICS.md). */
static struct stx_val scalar_form(struct stx__build *b, const struct stx_node *n, enum stx_op op,
				  struct stx_arg number)
{
	enum stx_dtype t = stx__wide(n->outs[0].dtype);
	struct stx_val x = stx__b_cast(b, stx__operand(n, 0), t);
	struct stx_val s = stx__b_full(b, 0, NULL, number, t);
	return rounded(b, n, stx__b_two(b, op, x, s));
}

static int fmod_scalar(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	out[0] = scalar_form(b, n, STX_OP_FMOD, *stx__arg(n, 1));
	return 0;
}

static int remainder_scalar(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	out[0] = scalar_form(b, n, STX_OP_REMAINDER, *stx__arg(n, 1));
	return 0;
}

/* The number's low bits count, as many as the type has. */
static int bitwise_scalar(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_arg number = *stx__arg(n, 1);
	number.u.i = stx_scalar_wrap(n->outs[0].dtype, (uint64_t)number.u.i).i;
	out[0] = scalar_form(b, n,
			     n->op == STX_OP_BITWISE_AND_SCALAR  ? STX_OP_BITWISE_AND
			     : n->op == STX_OP_BITWISE_OR_SCALAR ? STX_OP_BITWISE_OR
								 : STX_OP_BITWISE_XOR,
			     number);
	return 0;
}

static int pow_base(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	enum stx_dtype t = stx__wide(n->outs[0].dtype);
	struct stx_val x = stx__b_cast(b, stx__operand(n, 1), t);
	struct stx_val base = stx__b_full(b, 0, NULL, *stx__arg(n, 0), t);
	out[0] = rounded(b, n, stx__b_two(b, STX_OP_POW, base, x));
	return 0;
}

static int div_scalar_mode(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	enum stx_dtype t = stx__wide(n->outs[0].dtype);
	struct stx_arg a[] = { stx_arg_tensor(stx__b_cast(b, stx__operand(n, 0), t)),
			       stx_arg_tensor(stx__b_full(b, 0, NULL, *stx__arg(n, 1), t)),
			       *stx__arg(n, 2) };
	out[0] = b->err ? out[0] : rounded(b, n, stx__b_call(b, STX_OP_DIV_MODE, 3, a));
	return 0;
}

/* NaN of any operand wins, as in PyTorch. A value beyond the range of a small format is compared
 * before it is rounded, as by maximum and minimum themselves. */
static int clamp_tensor(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	static const enum stx_op ops[] = { STX_OP_MAXIMUM, STX_OP_MINIMUM };
	enum stx_dtype t = stx__wide(n->outs[0].dtype);
	struct stx_val x = stx__b_cast(b, stx__operand(n, 0), t);
	for (uint32_t i = 0; i < 2; i++)
		if (stx__arg(n, i + 1)->kind == STX_ARG_TENSOR)
			x = stx__b_two(b, ops[i], x, stx__b_cast(b, stx__operand(n, i + 1), t));
	out[0] = rounded(b, n, x);
	return 0;
}

/* What out would hold afterwards; its old value is not read. */
static int atan2_out(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	out[0] = rounded(b, n, stx__b_two(b, STX_OP_ATAN2, stx__operand(n, 0), stx__operand(n, 1)));
	return 0;
}

static int floor_divide(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_arg a[] = { *stx__arg(n, 0), *stx__arg(n, 1), stx_arg_str(b->g, "floor") };
	out[0] = stx__b_call(b, STX_OP_DIV_MODE, 3, a);
	return 0;
}

static struct stx_val seen_as(struct stx__build *b, struct stx_val x, enum stx_dtype t)
{
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_dtype(t) };
	return b->err || stx_val_type(x)->dtype == t ? x : stx__b_call(b, STX_OP_VIEW_DTYPE, 2, a);
}

static enum stx_dtype unsigned_of(enum stx_dtype t)
{
	int n = stx_dtype_bytes(t);
	return n == 1 ? STX_U8 : n == 2 ? STX_U16 : n == 4 ? STX_U32 : STX_U64;
}

/* Another width: unsigned integers, split by shifts or joined by a sum of disjoint bits, the low
 * part first (little endian). The same width is one primitive. */
static int view_dtype(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *x = stx__infer_type(n, 0), *y = &n->outs[0];
	int from = stx_dtype_bytes(x->dtype), to = stx_dtype_bytes(y->dtype);
	int parts = from > to ? from / to : to / from, width = from > to ? to : from;
	enum stx_dtype wide = unsigned_of(from > to ? x->dtype : y->dtype),
		       u = unsigned_of(y->dtype);
	stx_ex sizes[STX_MAX_DIMS + 1];
	if (from == to)
		return STX__KEEP;
	if (x->rank == STX_MAX_DIMS)
		return stx__b_fail(b, STX_E_TOO_LARGE, "the rank is at its limit");
	struct stx_val v = seen_as(b, stx__operand(n, 0), unsigned_of(x->dtype));
	struct stx_val shift = stx__b_number(b, STX_OP_MUL_SCALAR, stx__b_arange(b, parts),
					     stx_arg_scalar_i(8 * width));
	shift = stx__b_cast(b, shift, wide);
	memcpy(sizes, from > to ? x->sizes : y->sizes, x->rank * sizeof *sizes);
	sizes[x->rank] = stx_ex_const(b->g->ex, from > to ? 1 : parts);
	v = stx__b_cast(b, stx__b_view(b, v, x->rank + 1, sizes), wide);
	v = stx__b_two(b, from > to ? STX_OP_SHR : STX_OP_SHL, v, shift);
	v = from > to ? stx__b_view(b, stx__b_cast(b, v, u), y->rank, y->sizes)
		      : stx__b_sum(b, v, 1u << x->rank, 0, u);
	out[0] = seen_as(b, v, y->dtype);
	return 0;
}

static int full_like(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	out[0] = stx__b_full(b, n->outs[0].rank, n->outs[0].sizes, *stx__arg(n, 1),
			     n->outs[0].dtype);
	return 0;
}

/* ---- reductions ---- */

static int sum_default(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	out[0] = stx__b_sum(b, stx__operand(n, 0), all_dims(n), 0, n->outs[0].dtype);
	return 0;
}

static struct stx_val mean_over(struct stx__build *b, struct stx_val x, uint32_t set, int keepdim,
				enum stx_dtype t)
{
	double count = 0;
	if (b->err || !stx__b_count(b, stx_val_type(x), set, &count))
		return x;
	return DIVS(stx__b_sum(b, x, set, keepdim, t), count);
}

/* The operand takes the result's type first, as PyTorch says, then the wide one. */
static int mean_dim(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	enum stx_dtype t = n->outs[0].dtype;
	uint32_t set = n->op == STX_OP_MEAN ? all_dims(n) : stx__b_dims(b, n, 1, 1);
	int keepdim = n->op == STX_OP_MEAN ? 0 : (int)stx__arg(n, 2)->u.i;
	struct stx_val x = stx__b_cast(b, stx__operand(n, 0), t);
	out[0] = rounded(b, n, mean_over(b, x, set, keepdim, stx__wide(t)));
	return 0;
}

static int any_default(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	out[0] = stx__b_one(b, n->op == STX_OP_ANY ? STX_OP_ANY_DIM : STX_OP_ALL_DIM,
			    stx__operand(n, 0));
	return 0;
}

/* One dimension given as an integer: a list of it. */
static int any_one(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_arg a[] = { *stx__arg(n, 0), stx_arg_exs(b->g, &stx__arg(n, 1)->u.ex, 1),
			       *stx__arg(n, 2) };
	if (!stx__infer_type(n, 0)->rank)
		a[1] = stx_arg_ints(b->g, NULL, 0);
	out[0] = stx__b_call(b, n->op == STX_OP_ANY_ONE ? STX_OP_ANY_DIM : STX_OP_ALL_DIM, 3, a);
	return 0;
}

/* All elements in one dimension. */
static int prod_default(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	stx_ex count = stx_type_numel(b->g, stx__infer_type(n, 0));
	struct stx_val x = stx__b_view(b, stx__operand(n, 0), 1, &count);
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_int(b->g, 0), stx_arg_bool(0),
			       stx_arg_dtype(n->outs[0].dtype) };
	out[0] = stx__b_call(b, STX_OP_PROD_DIM, 4, a);
	return 0;
}

/* The first result of var_mean; its root, of the wide type, for std. var.dim has a bool for the
 * correction. */
static int var(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	int by_dim = n->op == STX_OP_VAR_DIM || n->op == STX_OP_STD_DIM;
	int root = n->op == STX_OP_STD || n->op == STX_OP_STD_DIM;
	struct stx_arg a[] = { stx_arg_tensor(root ? widened(b, n, 0) : stx__operand(n, 0)),
			       *stx__arg(n, 1), *stx__arg(n, 2), *stx__arg(n, 3) };
	if (b->err)
		return 0;
	if (by_dim)
		a[2] = stx_arg_scalar_i(stx__arg(n, 2)->u.i);
	struct stx_val v = stx__b_call(b, STX_OP_VAR_MEAN, 4, a);
	out[0] = root ? rounded(b, n, CALL1(SQRT, v)) : v;
	return 0;
}

/* ---- normalisation ---- */

static int layer_norm(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_val x = widened(b, n, 0);
	uint32_t rank = n->outs[0].rank, k = stx__arg(n, 1)->n;
	uint32_t set = ((1u << k) - 1) << (rank - k);
	if (b->err)
		return 0;
	enum stx_dtype t = stx_val_type(x)->dtype;
	struct stx_val far = SUB(x, mean_over(b, x, set, 1, t));
	struct stx_val var = mean_over(b, MUL(far, far), set, 1, t);
	struct stx_val y = MUL(far, CALL1(RSQRT, ADDS(var, stx__arg(n, 4)->u.f)));
	if (stx__arg(n, 2)->kind == STX_ARG_TENSOR)
		y = MUL(y, widened(b, n, 2));
	if (stx__arg(n, 3)->kind == STX_ARG_TENSOR)
		y = ADD(y, widened(b, n, 3));
	out[0] = rounded(b, n, y);
	return 0;
}

/* ---- views ---- */

static int transpose(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	uint32_t i = 0, j = 1, rank = stx__infer_type(n, 0)->rank;
	if (n->op == STX_OP_TRANSPOSE) {
		stx__infer_dim(b->g, n, stx__arg(n, 1)->u.ex, rank, &i, b->d);
		stx__infer_dim(b->g, n, stx__arg(n, 2)->u.ex, rank, &j, b->d);
	}
	out[0] = rank < 2 ? stx__operand(n, 0) : stx__b_swap(b, stx__operand(n, 0), i, j);
	return 0;
}

/* Views that only regroup elements in order: reshape, flatten, squeeze. */
static int regroup(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	out[0] = stx__b_view(b, stx__operand(n, 0), n->outs[0].rank, n->outs[0].sizes);
	return 0;
}

static int stack(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_arg *list = stx__arg(n, 0);
	struct stx_val *v = STX_NEW_ARRAY(b->g->arena, struct stx_val, list->n);
	if (!v)
		return stx__b_fail(b, STX_E_TOO_LARGE, "over the memory budget");
	for (uint32_t i = 0; i < list->n; i++)
		v[i] = stx__b_number(b, STX_OP_UNSQUEEZE, list->u.tensors[i], *stx__arg(n, 1));
	uint32_t dim = 0;
	stx__infer_dim(b->g, n, stx__arg(n, 1)->u.ex, n->outs[0].rank, &dim, b->d);
	struct stx_arg a[] = { stx_arg_tensors(b->g, v, list->n), stx_arg_int(b->g, dim) };
	out[0] = stx__b_call(b, STX_OP_CAT, 2, a);
	return 0;
}

/* Each size s repeated r times: [1, s] expanded to [r, s], read as r*s. */
static int repeat(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *t = stx__infer_type(n, 0);
	const struct stx_arg *r = stx__arg(n, 1);
	stx_ex narrow[STX_MAX_DIMS], wide[STX_MAX_DIMS], one = stx_ex_const(b->g->ex, 1);
	uint32_t k = 0;
	for (uint32_t i = 0; i < r->n; i++) {
		uint32_t lead = r->n - t->rank;
		stx_ex s = i < lead ? one : t->sizes[i - lead];
		int once = stx_ex_equals(b->g->ex, r->u.exs[i], 1);
		int single = stx_ex_equals(b->g->ex, s, 1);
		if (k + 2 > STX_MAX_DIMS)
			return stx__b_fail(b, STX_E_TOO_LARGE, "too many repeated dimensions");
		if (!once && !single) {
			narrow[k] = one;
			wide[k++] = r->u.exs[i];
		}
		narrow[k] = s;
		wide[k++] = single && !once ? r->u.exs[i] : s;
	}
	struct stx_val x = stx__b_view(b, stx__operand(n, 0), k, narrow);
	x = stx__b_expand(b, x, k, wide);
	out[0] = stx__b_view(b, x, n->outs[0].rank, n->outs[0].sizes);
	return 0;
}

/* Element (i, j) stays where j - i <= diagonal (tril), j - i >= diagonal (triu); others become 0.
 */
static int triangle(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *t = &n->outs[0];
	int64_t rows, cols, k;
	if (!stx_ex_is_const(b->g->ex, t->sizes[t->rank - 2], &rows) ||
	    !stx_ex_is_const(b->g->ex, t->sizes[t->rank - 1], &cols) ||
	    !stx_ex_is_const(b->g->ex, stx__arg(n, 1)->u.ex, &k))
		return stx__b_fail(b, STX_E_UNSUPPORTED, "sizes are symbolic");
	stx_ex column[2] = { stx_ex_const(b->g->ex, rows), stx_ex_const(b->g->ex, 1) };
	struct stx_val i = stx__b_view(b, stx__b_arange(b, rows), 2, column),
		       j = stx__b_arange(b, cols);
	i = stx__b_number(b, STX_OP_ADD_SCALAR, i, stx_arg_scalar_i(k));
	struct stx_val in = stx__b_two(b, n->op == STX_OP_TRIL ? STX_OP_LE : STX_OP_GE, j, i);
	struct stx_val zero = stx__b_full(b, 0, NULL, stx_arg_scalar_i(0), t->dtype);
	out[0] = stx__b_where(b, in, stx__operand(n, 0), zero);
	return 0;
}

/* ---- operators whose primitive does not take every dtype the operator does ---- */

static int on_bool(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	if (n->outs[0].dtype != STX_BOOL)
		return STX__KEEP;
	struct stx_val other = stx__operand(n, 1);
	if (n->op == STX_OP_ADD && stx__arg(n, 2)->u.i == 0)
		other = stx__b_two(b, STX_OP_LOGICAL_AND, other,
				   stx__b_full(b, 0, NULL, stx_arg_scalar_i(0), STX_BOOL));
	out[0] = stx__b_two(b, n->op == STX_OP_ADD ? STX_OP_LOGICAL_OR : STX_OP_LOGICAL_AND,
			    stx__operand(n, 0), other);
	return 0;
}

/* dtype=bool: a sum is any, a product all, of the elements as bools. */
static int reduce_to_bool(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	int sum = n->op == STX_OP_SUM_DIM;
	struct stx_arg dim = *stx__arg(n, 1);
	if (n->outs[0].dtype != STX_BOOL)
		return STX__KEEP;
	if (!sum)
		dim = stx_arg_exs(b->g, &stx__arg(n, 1)->u.ex, 1);
	else if (dim.kind == STX_ARG_INTS && dim.n == 0)
		dim = stx_arg_none(); /* all dimensions; any.dims would take none */
	struct stx_arg a[] = { stx_arg_tensor(stx__b_cast(b, stx__operand(n, 0), STX_BOOL)), dim,
			       *stx__arg(n, 2) };
	out[0] = stx__b_call(b, sum ? STX_OP_ANY_DIM : STX_OP_ALL_DIM, 3, a);
	return 0;
}

/* Rounding an integer, the sign of a bool: the operand itself. */
static int unchanged(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	enum stx_dtype_kind k = stx_dtype_kind(n->outs[0].dtype);
	(void)b;
	if (k == STX_KIND_FLOAT || (n->op == STX_OP_SIGN && k != STX_KIND_BOOL))
		return STX__KEEP;
	out[0] = stx__operand(n, 0);
	return 0;
}

/* No integer is NaN or infinite. */
static int never(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	if (stx_dtype_is_float(stx__infer_type(n, 0)->dtype))
		return STX__KEEP;
	out[0] = stx__b_full(b, n->outs[0].rank, n->outs[0].sizes, stx_arg_scalar_i(0), STX_BOOL);
	return 0;
}

stx__rule_fn *const stx__basis_rules[STX_OP_COUNT] = {
	[STX_OP_RSUB_SCALAR] = rsub_scalar,
	[STX_OP_RSUB] = rsub,
	[STX_OP_FMOD_SCALAR] = fmod_scalar,
	[STX_OP_REMAINDER_SCALAR] = remainder_scalar,
	[STX_OP_FLOOR_DIVIDE] = floor_divide,
	[STX_OP_FULL_LIKE] = full_like,
	[STX_OP_SUM] = sum_default,
	[STX_OP_MEAN] = mean_dim,
	[STX_OP_MEAN_DIM] = mean_dim,
	[STX_OP_ANY] = any_default,
	[STX_OP_ALL] = any_default,
	[STX_OP_VAR] = var,
	[STX_OP_VAR_DIM] = var,
	[STX_OP_STD] = var,
	[STX_OP_STD_DIM] = var,
	[STX_OP_PROD] = prod_default,
	[STX_OP_ANY_ONE] = any_one,
	[STX_OP_ALL_ONE] = any_one,
	[STX_OP_LOGSUMEXP] = stx__rule_logsumexp,
	[STX_OP_SOFTMAX] = stx__rule_softmax,
	[STX_OP_LOG_SOFTMAX] = stx__rule_softmax,
	[STX_OP_SOFTMAX_INT] = stx__rule_softmax_int,
	[STX_OP_LOG_SOFTMAX_INT] = stx__rule_softmax_int,
	[STX_OP_SAFE_SOFTMAX] = stx__rule_safe_softmax,
	[STX_OP_SDPA] = stx__rule_sdpa,
	[STX_OP_LAYER_NORM] = layer_norm,
	[STX_OP_LEAKY_RELU] = stx__rule_leaky_relu,
	[STX_OP_ELU] = stx__rule_elu,
	[STX_OP_SOFTPLUS] = stx__rule_softplus,
	[STX_OP_HARDTANH] = stx__rule_hardtanh,
	[STX_OP_SILU] = stx__rule_silu,
	[STX_OP_HARDSIGMOID] = stx__rule_hardsigmoid,
	[STX_OP_HARDSWISH] = stx__rule_hardsigmoid,
	[STX_OP_MISH] = stx__rule_mish,
	[STX_OP_MATMUL] = stx__rule_matmul,
	[STX_OP_ADDMM] = stx__rule_addmm,
	[STX_OP_LINEAR] = stx__rule_linear,
	[STX_OP_T] = transpose,
	[STX_OP_TRANSPOSE] = transpose,
	[STX_OP_RESHAPE] = regroup,
	[STX_OP_FLATTEN] = regroup,
	[STX_OP_SQUEEZE_DIM] = regroup,
	[STX_OP_SQUEEZE_ALL] = regroup,
	[STX_OP_STACK] = stack,
	[STX_OP_REPEAT] = repeat,
	[STX_OP_TRIL] = triangle,
	[STX_OP_TRIU] = triangle,
	[STX_OP_SCATTER_VALUE] = stx__rule_scatter_value,
	[STX_OP_SCATTER_ADD] = stx__rule_scatter_add,
	[STX_OP_INDEX_ADD] = stx__rule_index_write,
	[STX_OP_INDEX_COPY] = stx__rule_index_write,
	[STX_OP_INDEX_FILL] = stx__rule_index_write,
	[STX_OP_SELECT_SCATTER] = stx__rule_select_scatter,
	[STX_OP_DIAGONAL_SCATTER] = stx__rule_diagonal_scatter,
	[STX_OP_MASKED_SCATTER] = stx__rule_masked_scatter,
	[STX_OP_EMBEDDING_BACK] = stx__rule_embedding_back,
	[STX_OP_AS_STRIDED] = stx__rule_as_strided,
	[STX_OP_ALIAS] = stx__rule_same,
	[STX_OP_DETACH] = stx__rule_same,
	[STX_OP_SPLIT_SIZES] = stx__rule_split,
	[STX_OP_SPLIT] = stx__rule_split,
	[STX_OP_UNBIND] = stx__rule_split,
	[STX_OP_COPY] = stx__rule_copy,
	[STX_OP_FILL] = stx__rule_fill,
	[STX_OP_FILL_TENSOR] = stx__rule_copy,
	[STX_OP_EMPTY] = stx__rule_empty,
	[STX_OP_EMPTY_STRIDED] = stx__rule_empty,
	[STX_OP_SCALAR_TENSOR] = stx__rule_fill,
	[STX_OP_SYM_SIZE] = stx__rule_sym,
	[STX_OP_SYM_NUMEL] = stx__rule_sym,
	[STX_OP_SYM_STRIDE] = stx__rule_sym,
	[STX_OP_SYM_OFFSET] = stx__rule_sym,
	[STX_OP_MAX_POOL1D] = stx__rule_max_pool,
	[STX_OP_MAX_POOL2D] = stx__rule_max_pool,
	[STX_OP_MAX_POOL3D] = stx__rule_max_pool,
	[STX_OP_AVG_POOL1D] = stx__rule_avg_pool,
	[STX_OP_AVG_POOL2D] = stx__rule_avg_pool,
	[STX_OP_AVG_POOL3D] = stx__rule_avg_pool,
	[STX_OP_AVG_POOL2D_BACKWARD] = stx__rule_avg_pool_backward,
	[STX_OP_AVG_POOL3D_BACKWARD] = stx__rule_avg_pool_backward,
	[STX_OP_MAX_POOL2D_BACKWARD] = stx__rule_max_pool_backward,
	[STX_OP_MAX_POOL3D_BACKWARD] = stx__rule_max_pool_backward,
	[STX_OP_COL2IM] = stx__rule_col2im,
	[STX_OP_IM2COL] = stx__rule_im2col,
	[STX_OP_ADAPTIVE_AVG_POOL1D] = stx__rule_adaptive_avg,
	[STX_OP_ADAPTIVE_AVG_POOL2D] = stx__rule_adaptive_avg,
	[STX_OP_ADAPTIVE_AVG_POOL3D] = stx__rule_adaptive_avg,
	[STX_OP_ADAPTIVE_AVG_POOL2D_BACKWARD] = stx__rule_adaptive_avg_backward,
	[STX_OP_ADAPTIVE_AVG_POOL3D_BACKWARD] = stx__rule_adaptive_avg_backward,
	[STX_OP_ADAPTIVE_MAX_POOL1D] = stx__rule_adaptive_max,
	[STX_OP_ADAPTIVE_MAX_POOL2D] = stx__rule_adaptive_max,
	[STX_OP_ADAPTIVE_MAX_POOL3D] = stx__rule_adaptive_max,
	[STX_OP_CONVOLUTION_BACKWARD] = stx__rule_conv_backward,
	[STX_OP_LOGCUMSUMEXP] = stx__rule_scan,
	[STX_OP_SEARCHSORTED] = stx__rule_search,
	[STX_OP_BUCKETIZE] = stx__rule_search,
	[STX_OP_EMBEDDING_BAG] = stx__rule_embedding_bag,
	[STX_OP_CDIST] = stx__rule_cdist,
	[STX_OP_PDIST] = stx__rule_pdist,
	[STX_OP_NATIVE_LAYER_NORM] = stx__rule_native_norm,
	[STX_OP_NATIVE_GROUP_NORM] = stx__rule_native_norm,
	[STX_OP_LAYER_NORM_GRAD] = stx__rule_norm_grad,
	[STX_OP_GROUP_NORM_GRAD] = stx__rule_norm_grad,
	[STX_OP_BATCH_NORM_LEGIT] = stx__rule_batch_norm,
	[STX_OP_BATCH_NORM_NO_STATS] = stx__rule_batch_norm,
	[STX_OP_BATCH_NORM_NO_TRAINING] = stx__rule_batch_norm,
	[STX_OP_BATCH_NORM_FUNCTIONAL] = stx__rule_batch_norm,
	[STX_OP_BITWISE_AND_SCALAR] = bitwise_scalar,
	[STX_OP_BITWISE_OR_SCALAR] = bitwise_scalar,
	[STX_OP_BITWISE_XOR_SCALAR] = bitwise_scalar,
	[STX_OP_POW_BASE] = pow_base,
	[STX_OP_DIV_SCALAR_MODE] = div_scalar_mode,
	[STX_OP_CLAMP_TENSOR] = clamp_tensor,
	[STX_OP_ATAN2_OUT] = atan2_out,
	[STX_OP_RAND_LIKE] = stx__rule_random_like,
	[STX_OP_RANDN_LIKE] = stx__rule_random_like,
	[STX_OP_UNIFORM] = stx__rule_random_scaled,
	[STX_OP_NORMAL] = stx__rule_random_scaled,
	[STX_OP_BERNOULLI_P] = stx__rule_bernoulli,
	[STX_OP_BERNOULLI] = stx__rule_bernoulli,
	[STX_OP_NATIVE_DROPOUT] = stx__rule_dropout,
	[STX_OP_RANDINT] = stx__rule_randint,
	[STX_OP_RANDINT_LOW] = stx__rule_randint,
	[STX_OP_RANDPERM] = stx__rule_randperm,
	[STX_OP_ARGSORT] = stx__rule_sort,
	[STX_OP_SORT] = stx__rule_sort,
	[STX_OP_SORT_STABLE] = stx__rule_sort,
	[STX_OP_TOPK] = stx__rule_topk,
	[STX_OP_KTHVALUE] = stx__rule_topk,
	[STX_OP_MEDIAN_DIM] = stx__rule_median,
};

/* A kernel has so many buffers at most: a concatenation of many is one of concatenations. */
#define MAX_CAT 1000

static int long_cat(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_arg *all = stx__arg(n, 0);
	uint32_t parts = (all->n + MAX_CAT - 1) / MAX_CAT;
	if (all->n <= MAX_CAT)
		return STX__KEEP;
	struct stx_val *part = STX_NEW_ARRAY(b->g->arena, struct stx_val, parts);
	if (!part)
		return stx__b_fail(b, STX_E_TOO_LARGE, "over the memory budget");
	for (uint32_t i = 0; i < parts; i++) {
		uint32_t first = i * MAX_CAT,
			 k = all->n - first < MAX_CAT ? all->n - first : MAX_CAT;
		struct stx_arg a[] = { stx_arg_tensors(b->g, all->u.tensors + first, k),
				       *stx__arg(n, 1) };
		part[i] = stx__b_call(b, STX_OP_CAT, 2, a);
	}
	struct stx_arg a[] = { stx_arg_tensors(b->g, part, parts), *stx__arg(n, 1) };
	out[0] = stx__b_call(b, STX_OP_CAT, 2, a);
	return 0;
}

/* A 0-d operand or index among others is as one of one element. */
static int gather(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_val x = stx__operand(n, 0), at = stx__operand(n, 2);
	if (stx_val_type(x)->rank == stx_val_type(at)->rank)
		return STX__KEEP;
	stx_ex from = stx_type_numel(b->g, stx_val_type(x)),
	       count = stx_type_numel(b->g, stx_val_type(at));
	struct stx_arg a[] = { stx_arg_tensor(stx__b_view(b, x, 1, &from)), stx_arg_int(b->g, 0),
			       stx_arg_tensor(stx__b_view(b, at, 1, &count)) };
	out[0] = stx__b_call(b, STX_OP_GATHER, 3, a);
	out[0] = stx__b_view(b, out[0], n->outs[0].rank, n->outs[0].sizes);
	return 0;
}

stx__rule_fn *const stx__primitive_rules[STX_OP_COUNT] = {
	[STX_OP_GATHER] = gather,
	[STX_OP_GELU] = stx__rule_gelu,
	[STX_OP_GELU_BACKWARD] = stx__rule_gelu_backward,
	[STX_OP_CAT] = long_cat,
	[STX_OP_VIEW_DTYPE] = view_dtype,
	[STX_OP_ADD] = on_bool,
	[STX_OP_MUL] = on_bool,
	[STX_OP_FLOOR] = unchanged,
	[STX_OP_CEIL] = unchanged,
	[STX_OP_TRUNC] = unchanged,
	[STX_OP_ROUND] = unchanged,
	[STX_OP_SIGN] = unchanged,
	[STX_OP_ISNAN] = never,
	[STX_OP_ISINF] = never,
	[STX_OP_SUM_DIM] = reduce_to_bool,
	[STX_OP_PROD_DIM] = reduce_to_bool,
	[STX_OP_CONVOLUTION] = stx__rule_convolution,
	[STX_OP_RESAMPLE] = stx__rule_resample,
	[STX_OP_GRID_SAMPLER2D] = stx__rule_grid_sampler,
	[STX_OP_GRID_SAMPLER3D] = stx__rule_grid_sampler,
	[STX_OP_SAMPLE] = stx__rule_sample,
	[STX_OP_NEAREST1D] = stx__rule_upsample,
	[STX_OP_NEAREST2D] = stx__rule_upsample,
	[STX_OP_NEAREST3D] = stx__rule_upsample,
	[STX_OP_NEAREST_EXACT1D] = stx__rule_upsample,
	[STX_OP_NEAREST_EXACT2D] = stx__rule_upsample,
	[STX_OP_NEAREST_EXACT3D] = stx__rule_upsample,
	[STX_OP_LINEAR1D] = stx__rule_upsample,
	[STX_OP_BILINEAR2D] = stx__rule_upsample,
	[STX_OP_TRILINEAR3D] = stx__rule_upsample,
	[STX_OP_BICUBIC2D] = stx__rule_upsample,
	[STX_OP_ARGSORT_STABLE] = stx__rule_rows,
	[STX_OP_CUMSUM] = stx__rule_scan,
	[STX_OP_CUMPROD] = stx__rule_scan,
	[STX_OP_CUMMAX] = stx__rule_running_extreme,
	[STX_OP_CUMMIN] = stx__rule_running_extreme,
	[STX_OP_SCATTER] = stx__rule_scatter_reduce,
	[STX_OP_SCATTER_REDUCE] = stx__rule_scatter_reduce,
	[STX_OP_INDEX_PUT] = stx__rule_index_put,
};
