/* onnx_build.c: the short builders and questions that operator mappings are written with. */
#include "onnx_import.h"

#include <math.h>
#include <string.h>

#include "fold.h"
#include "scalar.h"

enum stx_dtype onnx_dtype(V v)
{
	return v.node ? stx_val_type(v)->dtype : STX_F32;
}

int onnx_rank(V v)
{
	return v.node ? stx_val_type(v)->rank : 0;
}

int onnx_is_float(V v)
{
	return stx_dtype_is_float(onnx_dtype(v));
}

int onnx_is_const(V v)
{
	return v.node && v.node->op == STX_OP_CONSTANT;
}

int64_t onnx_dim(struct onnx *c, V v, int i)
{
	int64_t n = 0;
	if (c->err)
		return 0;
	if (i < 0 || i >= onnx_rank(v)) {
		onnx_fail(c, STX_E_INVALID, "'%s' has rank %d, at least %d is needed", v.node->name,
			  onnx_rank(v), i + 1);
		return 0;
	}
	if (!stx_ex_is_const(c->g->ex, stx_val_type(v)->sizes[i], &n))
		onnx_fail(c, STX_E_UNSUPPORTED, "a dimension of '%s' is not fixed", v.node->name);
	return n;
}

int onnx_sizes(struct onnx *c, V v, int64_t *sizes)
{
	memset(sizes, 0, STX_MAX_DIMS * sizeof *sizes);
	for (int i = 0; i < onnx_rank(v) && !c->err; i++)
		sizes[i] = onnx_dim(c, v, i);
	return c->err ? 0 : onnx_rank(v);
}

stx_err onnx_keeps_sizes(struct onnx *c, V result, V with, const char *operand)
{
	int64_t a[STX_MAX_DIMS], b[STX_MAX_DIMS];
	int rank = onnx_sizes(c, result, a);
	if (c->err)
		return c->err;
	int same = onnx_sizes(c, with, b) == rank;
	for (int i = 0; same && i < rank; i++)
		same = a[i] == b[i];
	return same || c->err
		       ? c->err
		       : onnx_fail(c, STX_E_INVALID,
				   "the sizes of %s do not fit those of the other inputs", operand);
}

int64_t onnx_times(int64_t a, int64_t b)
{
	int64_t n;
	return __builtin_mul_overflow(a, b, &n) ? INT64_MAX : n;
}

int64_t onnx_product(const int64_t *v, int from, int to)
{
	int64_t n = 1;
	for (int i = from; i < to; i++)
		n = onnx_times(n, v[i]);
	return n;
}

int onnx_axis(struct onnx *c, int64_t axis, int rank)
{
	int64_t a = axis < 0 ? axis + rank : axis;
	if (!c->err && (a < 0 || a >= (rank ? rank : 1)))
		onnx_fail(c, STX_E_INVALID, "axis %lld is outside rank %d", (long long)axis, rank);
	return c->err ? 0 : (int)a;
}

/* ---- known values ---- */

static int64_t count_of(struct onnx *c, V v)
{
	int64_t sizes[STX_MAX_DIMS];
	int rank = onnx_sizes(c, v, sizes);
	return onnx_product(sizes, 0, rank);
}

/* Elements of a known value, at most cap; else 0 and the error, or what is needed. */
static int64_t known_count(struct onnx *c, V v, const char *what, int cap)
{
	if (c->err)
		return 0;
	if (!onnx_is_const(v)) {
		onnx_need(c, v, what);
		return 0;
	}
	int64_t n = count_of(c, v);
	if (n > cap)
		onnx_fail(c, STX_E_TOO_LARGE, "%s has %lld elements; the limit is %d", what,
			  (long long)n, cap);
	return n > cap ? 0 : n;
}

int onnx_known_ints(struct onnx *c, V v, const char *what, int64_t *out, int cap)
{
	if (!c->err && onnx_is_float(v))
		onnx_fail(c, STX_E_INVALID, "%s must be integers, not %s", what,
			  stx_dtype_name(onnx_dtype(v)));
	int64_t n = known_count(c, v, what, cap);
	for (int64_t i = 0; i < n; i++)
		out[i] = stx_scalar_load(onnx_dtype(v),
					 v.node->data.bytes + i * stx_dtype_bytes(onnx_dtype(v)))
				 .i;
	return (int)n;
}

int onnx_known_floats(struct onnx *c, V v, const char *what, double *out, int cap)
{
	int64_t n = known_count(c, v, what, cap);
	enum stx_dtype t = onnx_dtype(v);
	for (int64_t i = 0; i < n; i++) {
		union stx_scalar s =
			stx_scalar_load(t, v.node->data.bytes + i * stx_dtype_bytes(t));
		out[i] = stx_dtype_is_float(t) ? s.f : (double)s.i;
	}
	return (int)n;
}

int onnx_known_scalar(struct onnx *c, V v, const char *what, struct stx_arg *out)
{
	if (c->err)
		return 0;
	if (!onnx_is_const(v)) {
		onnx_need(c, v, what);
		return 0;
	}
	if (count_of(c, v) != 1) {
		onnx_fail(c, STX_E_INVALID, "%s must be one number", what);
		return 0;
	}
	union stx_scalar s = stx_scalar_load(onnx_dtype(v), v.node->data.bytes);
	*out = onnx_is_float(v) ? stx_arg_scalar_f(s.f) : stx_arg_scalar_i(s.i);
	return 1;
}

/* ---- calls ---- */

V onnx_call(struct onnx *c, enum stx_op op, const struct stx_arg *args, uint32_t n)
{
	struct stx_const_data data;
	if (c->err)
		return NO_V;
	struct stx_node *node = stx_graph_call(c->g, op, NULL, args, n, c->d);
	if (!node) {
		c->err = c->d && c->d->code ? c->d->code : STX_E_INVALID;
		if (c->d && c->n && !c->d->location[0])
			stx_diag_at(c->d, "ONNX node %s '%s'", c->n->op_type, onnx_node_label(c));
		return NO_V;
	}
	if (c->n && c->n->name && *c->n->name)
		node->origin = c->n->name; /* the model outlives the graph: both are the arena's */
	if (node->nouts == 1 && stx_fold_node(c->g, node, &data)) {
		struct stx_node *k =
			stx_graph_constant(c->g, NULL, node->outs[0], data.bytes, data.n, c->d);
		if (k)
			return stx_val(k, 0);
	}
	return stx_val(node, 0);
}

V onnx_1(struct onnx *c, enum stx_op op, V a)
{
	if (c->err)
		return NO_V;
	struct stx_arg args[1] = { stx_arg_tensor(a) };
	return onnx_call(c, op, args, 1);
}

V onnx_2(struct onnx *c, enum stx_op op, V a, V b)
{
	if (c->err)
		return NO_V;
	struct stx_arg args[2] = { stx_arg_tensor(a), stx_arg_tensor(b) };
	return onnx_call(c, op, args, 2);
}

V onnx_add(struct onnx *c, V a, V b)
{
	return onnx_2(c, STX_OP_ADD, a, b);
}

V onnx_sub(struct onnx *c, V a, V b)
{
	return onnx_2(c, STX_OP_SUB, a, b);
}

V onnx_mul(struct onnx *c, V a, V b)
{
	return onnx_2(c, STX_OP_MUL, a, b);
}

V onnx_cast(struct onnx *c, V a, enum stx_dtype t)
{
	if (c->err || onnx_dtype(a) == t)
		return a;
	struct stx_arg args[2] = { stx_arg_tensor(a), stx_arg_dtype(t) };
	return onnx_call(c, STX_OP_TO_COPY, args, 2);
}

/* The largest finite value of an 8-bit float; 0 for other types. */
static double largest(enum stx_dtype t)
{
	const struct stx_float_format *f = stx_dtype_bytes(t) == 1 ? stx_float_format(t) : NULL;
	return f ? stx_scalar_from_bits(t, f->max) : 0;
}

V onnx_saturating_cast(struct onnx *c, V a, enum stx_dtype t)
{
	double most = largest(t);
	if (c->err || onnx_dtype(a) == t)
		return a;
	if (most != 0 && onnx_int(c, "saturate", 1)) {
		enum stx_dtype from = onnx_dtype(a);
		/* integers beyond f32's exact range are beyond every 8-bit float's too */
		if (!stx_dtype_is_float(from) || stx_dtype_bytes(from) == 1)
			a = onnx_cast(c, a, from = STX_F32);
		a = onnx_2(c, STX_OP_MINIMUM, a, onnx_number(c, most, from));
		a = onnx_2(c, STX_OP_MAXIMUM, a, onnx_number(c, -most, from));
	}
	return onnx_cast(c, a, t);
}

V onnx_view(struct onnx *c, V a, const int64_t *sizes, int n)
{
	if (c->err)
		return NO_V;
	int same = n == onnx_rank(a);
	for (int i = 0; same && i < n; i++)
		same = sizes[i] == onnx_dim(c, a, i);
	if (same)
		return a;
	struct stx_arg args[2] = { stx_arg_tensor(a), stx_arg_ints(c->g, sizes, (uint32_t)n) };
	return onnx_call(c, STX_OP_VIEW, args, 2);
}

V onnx_expand(struct onnx *c, V a, const int64_t *sizes, int n)
{
	if (c->err)
		return NO_V;
	struct stx_arg args[2] = { stx_arg_tensor(a), stx_arg_ints(c->g, sizes, (uint32_t)n) };
	return onnx_call(c, STX_OP_EXPAND, args, 2);
}

V onnx_permute(struct onnx *c, V a, const int64_t *dims, int n)
{
	if (c->err)
		return NO_V;
	struct stx_arg args[2] = { stx_arg_tensor(a), stx_arg_ints(c->g, dims, (uint32_t)n) };
	return onnx_call(c, STX_OP_PERMUTE, args, 2);
}

V onnx_unsqueeze(struct onnx *c, V a, int dim)
{
	if (c->err)
		return NO_V;
	struct stx_arg args[2] = { stx_arg_tensor(a), stx_arg_int(c->g, dim) };
	return onnx_call(c, STX_OP_UNSQUEEZE, args, 2);
}

V onnx_slice(struct onnx *c, V a, int dim, int64_t start, int64_t end, int64_t step)
{
	if (c->err)
		return NO_V;
	struct stx_arg args[5] = { stx_arg_tensor(a), stx_arg_int(c->g, dim),
				   stx_arg_int(c->g, start), stx_arg_int(c->g, end),
				   stx_arg_int(c->g, step) };
	return onnx_call(c, STX_OP_SLICE, args, 5);
}

V onnx_reverse(struct onnx *c, V a, int dim)
{
	int64_t d = dim;
	if (c->err)
		return NO_V;
	struct stx_arg args[2] = { stx_arg_tensor(a), stx_arg_ints(c->g, &d, 1) };
	return onnx_call(c, STX_OP_FLIP, args, 2);
}

V onnx_cat(struct onnx *c, const V *v, uint32_t n, int dim)
{
	if (c->err)
		return NO_V;
	if (n == 1)
		return v[0];
	struct stx_arg args[2] = { stx_arg_tensors(c->g, v, n), stx_arg_int(c->g, dim) };
	return onnx_call(c, STX_OP_CAT, args, 2);
}

/* A number in an integer type: NaN is 0, out of range saturates, as a cast does. */
static int64_t as_integer(double v)
{
	if (!(v == v))
		return 0;
	return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

V onnx_full(struct onnx *c, const int64_t *sizes, int n, double value, enum stx_dtype t)
{
	if (c->err)
		return NO_V;
	struct stx_arg v = stx_dtype_is_float(t) ? stx_arg_scalar_f(value)
						 : stx_arg_scalar_i(as_integer(value));
	struct stx_arg args[3] = { stx_arg_ints(c->g, sizes, (uint32_t)n), v, stx_arg_dtype(t) };
	return onnx_call(c, STX_OP_FULL, args, 3);
}

V onnx_number(struct onnx *c, double value, enum stx_dtype t)
{
	uint8_t bytes[8];
	union stx_scalar v;
	if (stx_dtype_is_float(t))
		v.f = stx_scalar_round(t, value);
	else
		v.i = as_integer(value);
	stx_scalar_store(t, bytes, v);
	return onnx_constant(c, NULL, t, 0, NULL, bytes, (size_t)stx_dtype_bytes(t));
}

V onnx_ints_const(struct onnx *c, const int64_t *v, int n)
{
	int64_t size = n;
	return onnx_constant(c, NULL, STX_I64, 1, &size, v, (size_t)n * 8);
}

V onnx_arange(struct onnx *c, int64_t start, int64_t end, int64_t step, enum stx_dtype t)
{
	if (c->err)
		return NO_V;
	struct stx_arg args[4] = { stx_arg_scalar_i(start), stx_arg_scalar_i(end),
				   stx_arg_scalar_i(step), stx_arg_dtype(t) };
	return onnx_call(c, STX_OP_ARANGE, args, 4);
}

V onnx_reduce(struct onnx *c, enum stx_op op, V a, const int64_t *dims, int n, int keepdim)
{
	if (c->err)
		return NO_V;
	struct stx_arg args[3] = { stx_arg_tensor(a), stx_arg_ints(c->g, dims, (uint32_t)n),
				   stx_arg_bool(keepdim) };
	return onnx_call(c, op, args, 3);
}

V onnx_where(struct onnx *c, V cond, V a, V b)
{
	if (c->err)
		return NO_V;
	struct stx_arg args[3] = { stx_arg_tensor(cond), stx_arg_tensor(a), stx_arg_tensor(b) };
	return onnx_call(c, STX_OP_WHERE, args, 3);
}

V onnx_wrap_index(struct onnx *c, V index, int64_t n)
{
	V i = onnx_cast(c, index, STX_I64);
	V low = onnx_2(c, STX_OP_LT, i, onnx_number(c, 0, STX_I64));
	return onnx_where(c, low, onnx_2(c, STX_OP_ADD, i, onnx_number(c, (double)n, STX_I64)), i);
}

/* ONNX index tensors have any rank: the result has them in place of `dim`. Negative ones count from
 * the end. */
V onnx_index_select(struct onnx *c, V a, int dim, V index)
{
	int64_t sizes[STX_MAX_DIMS], n = 1;
	int rank = 0, irank = onnx_rank(index), arank = onnx_rank(a);
	if (c->err)
		return NO_V;
	if (arank + irank - 1 > STX_MAX_DIMS) {
		onnx_fail(c, STX_E_TOO_LARGE, "the result's rank is above %d", STX_MAX_DIMS);
		return NO_V;
	}
	for (int i = 0; i < dim; i++)
		sizes[rank++] = onnx_dim(c, a, i);
	for (int i = 0; i < irank; i++) {
		sizes[rank++] = onnx_dim(c, index, i);
		n = onnx_times(n, sizes[rank - 1]);
	}
	for (int i = dim + 1; i < arank; i++)
		sizes[rank++] = onnx_dim(c, a, i);
	V flat = onnx_wrap_index(c, onnx_view(c, index, &n, 1), c->err ? 0 : onnx_dim(c, a, dim));
	if (c->err)
		return NO_V;
	struct stx_arg args[3] = { stx_arg_tensor(a), stx_arg_int(c->g, dim),
				   stx_arg_tensor(flat) };
	return onnx_view(c, onnx_call(c, STX_OP_INDEX_SELECT, args, 3), sizes, rank);
}

V onnx_scale(struct onnx *c, V a, double k)
{
	if (c->err)
		return NO_V;
	struct stx_arg args[2] = { stx_arg_tensor(a), stx_arg_scalar_f(k) };
	return onnx_call(c, STX_OP_MUL_SCALAR, args, 2);
}

V onnx_shift(struct onnx *c, V a, double k)
{
	if (c->err)
		return NO_V;
	struct stx_arg args[2] = { stx_arg_tensor(a), stx_arg_scalar_f(k) };
	return onnx_call(c, STX_OP_ADD_SCALAR, args, 2);
}

V onnx_matmul(struct onnx *c, V a, V b)
{
	return onnx_2(c, STX_OP_MATMUL, a, b);
}

V onnx_swap_last(struct onnx *c, V x)
{
	int64_t p[STX_MAX_DIMS];
	int rank = onnx_rank(x);
	for (int i = 0; i < rank; i++)
		p[i] = i;
	if (rank >= 2) {
		p[rank - 2] = rank - 1;
		p[rank - 1] = rank - 2;
	}
	return onnx_permute(c, x, p, rank);
}
