/* property_draw.c: random graphs over every row of ops.def, by category, with the data of their inputs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes.h"
#include "property_case.h"
#include "scalar.h"

#define MAX_ELEMS 20000
#define MAX_VALUES 160

struct draw {
	uint64_t rng;
	struct prop_case *c;
	struct stx_graph *g;
	struct stx_node *at[MAX_VALUES]; /* candidates for operands */
	uint8_t used[MAX_VALUES];
	uint32_t n;
	int64_t dims[4]; /* sizes that shapes are made of */
	int whole;       /* small whole numbers and operators that keep them: sums are exact in any order */
};

static uint32_t rnd(struct draw *q, uint32_t n)
{
	uint64_t z = q->rng += 0x9e3779b97f4a7c15u; /* splitmix64 */
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	z ^= z >> 31;
	return (uint32_t)((z >> 32) * n >> 32);
}
#define PICK(q, array) ((array)[rnd((q), sizeof(array) / sizeof *(array))])

static uint64_t rnd64(struct draw *q)
{
	uint64_t hi = rnd(q, UINT32_MAX);
	return hi << 32 | rnd(q, UINT32_MAX);
}

static const enum stx_dtype dtypes[] = { STX_F32, STX_F32, STX_F32, STX_F32, STX_F16, STX_BF16, STX_F64, STX_I32,
	STX_I32, STX_I64, STX_I64, STX_I8, STX_U8, STX_I16, STX_U16, STX_U32, STX_U64, STX_BOOL };
static const enum stx_dtype floats[] = { STX_F32, STX_F32, STX_F32, STX_F16, STX_BF16, STX_F64 };

static enum stx_dtype random_dtype(struct draw *q)
{
	static const enum stx_dtype whole[] = { STX_F32, STX_F32, STX_F16, STX_F64, STX_BF16, STX_I64 };
	return q->whole ? PICK(q, whole) : PICK(q, dtypes);
}

/* ---- sizes ---- */

static int64_t const_size(const struct draw *q, stx_ex e)
{
	int64_t v = 0;
	stx_ex_is_const(q->g->ex, e, &v);
	return v;
}

static int64_t size_of(const struct draw *q, const struct stx_node *n, uint32_t dim)
{
	return const_size(q, n->outs[0].sizes[dim]);
}

static uint32_t rank_of(const struct stx_node *n)
{
	return n->outs[0].rank;
}

static int64_t numel(const struct draw *q, const struct stx_node *n)
{
	int64_t v = 1;
	for (uint32_t i = 0; i < rank_of(n); i++)
		v *= size_of(q, n, i);
	return v;
}

static void draw_dims(struct draw *q)
{
	static const int64_t tails[] = { 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129 };
	static const int64_t lengths[] = { 255, 257, 1000, 1023, 1024, 1025, 2049, 4095, 4096, 4097, 6000, 8193 };
	uint32_t profile = rnd(q, 8);
	for (int i = 0; i < 4; i++)
		q->dims[i] = rnd(q, 14) ? 1 + rnd(q, 9) : rnd(q, 2);
	if (profile < 4)
		q->dims[rnd(q, 4)] = PICK(q, tails);
	if (profile < 1) {
		for (int i = 0; i < 4; i++)
			q->dims[i] = 1 + rnd(q, 3);
		q->dims[rnd(q, 4)] = PICK(q, lengths);
	}
}

/* ---- data ---- */

static double float_value(struct draw *q, enum stx_dtype t, uint32_t kind)
{
	static const double special[] = { NAN, INFINITY, -INFINITY, 0.0, -0.0, 0x1p-149, -0x1p-140, 0x1p-24,
		0x1p-1074, 65504, 65520, 3e38, -3e38, 1e-30, 127.5, -128.5, 255.5, 2147483648.0, -9.3e18, 0.5, 1.5, -2.5 };
	switch (kind) {
	case 0:
		return (double)rnd(q, 9) - 4;
	case 2:
		if (rnd(q, 3) == 0)
			return PICK(q, special);
		break;
	case 3: {
		int range = t == STX_F16 ? 14 : t == STX_F64 ? 300 : 120;
		return ldexp(rnd(q, 1 << 24) * 0x1p-23 - 1, (int)rnd(q, (uint32_t)(2 * range)) - range);
	}
	}
	return ((double)rnd(q, 1u << 26) - 0x1p25) * 0x1p-24;
}

static uint64_t int_value(struct draw *q, enum stx_dtype t, uint32_t kind)
{
	int bits = 8 * stx_dtype_bytes(t);
	uint64_t top = 1ull << (bits - 1);
	const uint64_t edges[] = { 0, 1, top, top - 1, top + 1, UINT64_MAX, UINT64_MAX - 1, 2, (uint64_t)bits };
	switch (kind) {
	case 0:
		return stx_dtype_kind(t) == STX_KIND_UINT ? rnd(q, 9) : (uint64_t)((int64_t)rnd(q, 9) - 4);
	case 2:
		return rnd(q, 2) ? PICK(q, edges) : rnd64(q);
	default:
		return rnd64(q) >> rnd(q, (uint32_t)bits);
	}
}

static union stx_scalar value(struct draw *q, enum stx_dtype t, uint32_t kind)
{
	union stx_scalar v = { .u = 0 };
	if (t == STX_BOOL)
		v.i = rnd(q, 2);
	else if (stx_dtype_is_float(t))
		v.f = stx_scalar_round(t, float_value(q, t, kind));
	else
		v = stx_scalar_wrap(t, int_value(q, t, kind));
	return v;
}

/* Data for n elements; bound > 0: integers in [low, bound). */
static void fill(struct draw *q, enum stx_dtype t, void *at, int64_t n, int64_t low, int64_t bound)
{
	size_t width = (size_t)stx_dtype_bytes(t);
	uint32_t kind = q->whole ? 0 : rnd(q, 6);
	for (int64_t i = 0; i < n; i++) {
		union stx_scalar v = { .u = 0 };
		if (bound > 0)
			v.i = low + (int64_t)rnd(q, (uint32_t)(bound - low));
		else
			v = value(q, t, kind);
		stx_scalar_store(t, (char *)at + (size_t)i * width, v);
	}
}

/* ---- inputs ---- */

static struct stx_node *keep(struct draw *q, struct stx_node *n)
{
	if (!n || !n->nouts || rank_of(n) > 6 || numel(q, n) > MAX_ELEMS || q->n == MAX_VALUES)
		return NULL;
	q->used[q->n] = 0;
	return q->at[q->n++] = n;
}

/* Strides of a dense, transposed, gapped or overlapping tensor. */
static void draw_strides(struct draw *q, const int64_t *sizes, int rank, int64_t *strides)
{
	int order[8];
	uint32_t how = rnd(q, 14); /* 0-4 transposed, 4-6 gaps, 7 8 expanded, else dense */
	int64_t step = how == 5 || how == 6 ? 1 + rnd(q, 3) : 1;
	for (int i = 0; i < rank; i++)
		order[i] = rank - 1 - i;
	for (int i = 0; how <= 4 && i + 1 < rank; i++) {
		int j = i + (int)rnd(q, (uint32_t)(rank - i)), o = order[i];
		order[i] = order[j];
		order[j] = o;
	}
	for (int i = 0; i < rank; i++) {
		strides[order[i]] = step;
		step *= sizes[order[i]] ? sizes[order[i]] : 1;
		if (how == 4 || how == 6)
			step += rnd(q, 4);
		if ((how == 7 || how == 8) && rnd(q, 2)) {
			step = strides[order[i]];
			strides[order[i]] = 0;
		}
	}
}

static struct stx_node *input(struct draw *q, enum stx_dtype t, const int64_t *sizes, int rank, int64_t low,
                              int64_t bound)
{
	struct stx_tensor *x = &q->c->inputs[q->g->inputs.n];
	int64_t strides[8], span = 1;
	stx_ex se[8];
	if (q->g->inputs.n == PROP_MAX_INPUTS / 2)
		return NULL;
	draw_strides(q, sizes, rank, strides);
	memset(x, 0, sizeof *x);
	x->dtype = (uint8_t)t;
	x->rank = (uint8_t)rank;
	for (int i = 0; i < rank; i++) {
		x->sizes[i] = sizes[i];
		x->strides[i] = strides[i];
		se[i] = stx_ex_const(q->g->ex, strides[i]);
		span += (sizes[i] ? sizes[i] - 1 : 0) * strides[i];
	}
	if (span > 4 * MAX_ELEMS)
		return NULL;
	struct stx_node *n = stx_graph_input(q->g, NULL, stx_type_make(q->g, t, rank, sizes), se, rnd(q, 8) == 0,
	                                     NULL);
	x->data = stx_arena_alloc(q->c->arena, (size_t)span * (size_t)stx_dtype_bytes(t) + 1);
	if (!n || !x->data)
		abort();
	fill(q, t, x->data, span, low, bound);
	return keep(q, n);
}

static struct stx_node *random_input(struct draw *q, enum stx_dtype t)
{
	int64_t sizes[4], n = 1;
	int rank = (int)rnd(q, 4);
	for (int i = 0; i < rank; i++) {
		sizes[i] = rnd(q, 8) ? q->dims[(uint32_t)(4 - rank + i)] : 1;
		n *= sizes[i];
	}
	return n <= MAX_ELEMS ? input(q, t, sizes, rank, 0, 0) : NULL;
}

static struct stx_node *constant(struct draw *q)
{
	enum stx_dtype t = random_dtype(q);
	int64_t sizes[2] = { 1 + rnd(q, 3), 1 + rnd(q, 4) };
	uint8_t data[12 * 8];
	int rank = (int)rnd(q, 3);
	int64_t n = rank == 0 ? 1 : rank == 1 ? sizes[0] : sizes[0] * sizes[1];
	fill(q, t, data, n, 0, 0);
	return keep(q, stx_graph_constant(q->g, NULL, stx_type_make(q->g, t, rank, sizes), data,
	                                  (size_t)(n * stx_dtype_bytes(t)), NULL));
}

/* ---- operands ---- */

/* Any value: unused ones and late ones more often. */
static struct stx_node *any(struct draw *q)
{
	uint32_t i = rnd(q, q->n);
	for (int k = 0; k < 3 && q->used[i] && rnd(q, 3); k++)
		i = rnd(q, 2) ? rnd(q, q->n) : q->n - 1 - rnd(q, q->n < 4 ? q->n : 4);
	q->used[i] = 1;
	return q->at[i];
}

static struct stx_node *call(struct draw *q, enum stx_op op, uint32_t nargs, const struct stx_arg *args)
{
	return stx_graph_call(q->g, op, NULL, args, nargs, NULL);
}
#define ARGS(...) (sizeof((struct stx_arg[]){ __VA_ARGS__ }) / sizeof(struct stx_arg)), (struct stx_arg[]){ __VA_ARGS__ }
#define T(n) stx_arg_node(n)
#define I(v) stx_arg_int(q->g, (v))

static struct stx_node *as(struct draw *q, struct stx_node *n, enum stx_dtype t)
{
	if (!n || n->outs[0].dtype == t)
		return n;
	return call(q, STX_OP_TO_COPY, ARGS(T(n), stx_arg_dtype(t)));
}

static struct stx_node *any_float(struct draw *q)
{
	struct stx_node *n = any(q);
	for (int k = 0; k < 4 && !stx_dtype_is_float(n->outs[0].dtype); k++)
		n = any(q);
	return stx_dtype_is_float(n->outs[0].dtype) ? n : as(q, n, PICK(q, floats));
}

static int broadcasts(const struct draw *q, const struct stx_node *a, const struct stx_node *b)
{
	uint32_t ra = rank_of(a), rb = rank_of(b), r = ra > rb ? ra : rb;
	int64_t n = 1;
	for (uint32_t i = 0; i < r; i++) {
		int64_t x = i < ra ? size_of(q, a, ra - 1 - i) : 1, y = i < rb ? size_of(q, b, rb - 1 - i) : 1;
		if (x != y && x != 1 && y != 1)
			return 0;
		n *= x == 1 ? y : x;
	}
	return n <= MAX_ELEMS;
}

/* A value that broadcasts with a; a new input when none is found. */
static struct stx_node *partner(struct draw *q, const struct stx_node *a)
{
	int64_t sizes[8];
	uint32_t drop = rank_of(a) ? rnd(q, 3) == 0 : 0;
	for (int k = 0; k < 12; k++) {
		struct stx_node *b = any(q);
		if (broadcasts(q, a, b))
			return b;
	}
	for (uint32_t i = drop; i < rank_of(a); i++)
		sizes[i - drop] = rnd(q, 4) ? size_of(q, a, i) : 1;
	return input(q, rnd(q, 2) ? a->outs[0].dtype : random_dtype(q), sizes, (int)(rank_of(a) - drop), 0, 0);
}

static struct stx_arg scalar(struct draw *q, enum stx_dtype t)
{
	static const double values[] = { 0.0, -0.0, 1, 2, 0.5, -1.5, 3, -4, 0.1, 1e-3, 1e30, INFINITY, -INFINITY, NAN };
	if (q->whole)
		return stx_arg_scalar_i((int64_t)rnd(q, 5) - 2);
	if (stx_dtype_is_float(t) ? rnd(q, 3) == 0 : rnd(q, 6))
		return stx_arg_scalar_i(rnd(q, 12) ? (int64_t)rnd(q, 9) - 3 : (int64_t)rnd64(q));
	return stx_arg_scalar_f(PICK(q, values));
}

/* ---- pointwise ---- */

/* The sign of a NaN is not defined (NUMERICS): copysign never sees one. */
static struct stx_node *without_nan(struct draw *q, struct stx_node *n)
{
	struct stx_node *nan = call(q, STX_OP_ISNAN, ARGS(T(n)));
	struct stx_node *one = call(q, STX_OP_FULL_LIKE, ARGS(T(n), stx_arg_scalar_i(1)));
	return call(q, STX_OP_WHERE, ARGS(T(nan), T(one), T(n)));
}

static struct stx_node *condition(struct draw *q, struct stx_node *a)
{
	struct stx_node *b = partner(q, a);
	if (!b)
		return NULL;
	if (b->outs[0].dtype == STX_BOOL)
		return b;
	return rnd(q, 2) ? call(q, STX_OP_LOGICAL_NOT, ARGS(T(b))) : call(q, STX_OP_GT_SCALAR, ARGS(T(b), stx_arg_scalar_i(0)));
}

static struct stx_arg pointwise_arg(struct draw *q, enum stx_op op, const struct stx_param *p, struct stx_node *a)
{
	switch (p->kind) {
	case STX_PARAM_TENSOR: {
		struct stx_node *b = partner(q, a);
		if (b && op == STX_OP_COPYSIGN && stx_dtype_is_float(b->outs[0].dtype))
			b = without_nan(q, b);
		return b ? T(b) : stx_arg_none();
	}
	case STX_PARAM_SCALAR:
		if (!strcmp(p->name, "alpha"))
			return rnd(q, 2) ? stx_arg_default() : stx_dtype_is_float(a->outs[0].dtype) && !q->whole && rnd(q, 2)
				? stx_arg_scalar_f(rnd(q, 100) * 0.07 - 2) : stx_arg_scalar_i((int64_t)rnd(q, 7) - 3);
		return scalar(q, a->outs[0].dtype);
	case STX_PARAM_OPT_SCALAR:
		return rnd(q, 3) ? scalar(q, a->outs[0].dtype) : stx_arg_none();
	case STX_PARAM_STRING:
		return stx_arg_str(q->g, rnd(q, 2) ? "floor" : "trunc");
	case STX_PARAM_OPT_DTYPE:
		return rnd(q, 8) ? stx_arg_dtype(random_dtype(q)) : stx_arg_none();
	default:
		return stx_arg_default();
	}
}

static struct stx_node *draw_pointwise(struct draw *q, enum stx_op op)
{
	const struct stx_op_info *info = stx_op_info(op);
	static const enum stx_dtype fall_back[] = { STX_F32, STX_I32, STX_U8, STX_F16, STX_I64, STX_BOOL };
	struct stx_arg args[8];
	struct stx_node *a = any(q), *c;
	for (int k = 0; k < 6; k++) {
		uint32_t first = 1;
		args[0] = T(a);
		if (op == STX_OP_WHERE) {
			if (!(c = condition(q, a)))
				return NULL;
			args[0] = T(c);
			args[1] = T(a);
			first = 2;
		}
		for (uint32_t i = first; i < info->nparams; i++) {
			args[i] = pointwise_arg(q, op, &info->params[i], a);
			if (args[i].kind == STX_ARG_NONE && info->params[i].kind == STX_PARAM_TENSOR)
				return NULL;
		}
		struct stx_node *n = call(q, op, info->nparams, args);
		if (n)
			return n;
		a = as(q, a, PICK(q, fall_back));
	}
	return NULL;
}

/* ---- creation, reductions ---- */

static struct stx_node *draw_create(struct draw *q, enum stx_op op)
{
	enum stx_dtype t = random_dtype(q);
	int64_t sizes[3] = { q->dims[1], q->dims[2], q->dims[3] };
	uint32_t rank = rnd(q, 4);
	if (op == STX_OP_FULL)
		return call(q, op, ARGS(stx_arg_ints(q->g, sizes + 3 - rank, rank), scalar(q, t), stx_arg_dtype(t)));
	if (op == STX_OP_FULL_LIKE)
		return call(q, op, ARGS(T(any(q)), scalar(q, t), rnd(q, 2) ? stx_arg_dtype(t) : stx_arg_none()));
	int64_t start = (int64_t)rnd(q, 9) - 4, step = rnd(q, 3) ? 1 + rnd(q, 3) : -1 - (int64_t)rnd(q, 3);
	if (t == STX_BOOL)
		t = STX_I64;
	if (stx_dtype_is_float(t) && rnd(q, 2))
		return call(q, op, ARGS(stx_arg_scalar_f(start * 0.5), stx_arg_scalar_f(start * 0.5 + 0.25 * q->dims[3]),
		                        stx_arg_scalar_f(0.25), stx_arg_dtype(t)));
	return call(q, op, ARGS(stx_arg_scalar_i(start), stx_arg_scalar_i(start + step * q->dims[3]),
	                        stx_arg_scalar_i(step), stx_arg_dtype(t)));
}

static struct stx_arg some_dims(struct draw *q, uint32_t rank, int required)
{
	int64_t dims[8];
	uint32_t n = 0;
	if (!required && rnd(q, 6) == 0)
		return stx_arg_none();
	for (uint32_t i = 0; i < rank; i++)
		if (rnd(q, 2))
			dims[n++] = rnd(q, 2) ? i : (int64_t)i - rank;
	if (!n && rank && rnd(q, 3))
		dims[n++] = rnd(q, rank);
	return stx_arg_ints(q->g, dims, n);
}

static struct stx_arg one_dim(struct draw *q, uint32_t rank)
{
	uint32_t r = rank ? rank : 1;
	return I((int64_t)rnd(q, r) - (rnd(q, 3) ? 0 : r));
}

static struct stx_node *draw_reduce(struct draw *q, enum stx_op op)
{
	const struct stx_op_info *info = stx_op_info(op);
	int wants_float = op == STX_OP_VAR || op == STX_OP_LOGSUMEXP || op == STX_OP_MEAN || op == STX_OP_MEAN_DIM;
	struct stx_node *a = wants_float ? any_float(q) : any(q);
	struct stx_arg args[8];
	if (!a)
		return NULL;
	args[0] = T(a);
	for (uint32_t i = 1; i < info->nparams; i++) {
		const struct stx_param *p = &info->params[i];
		switch (p->kind) {
		case STX_PARAM_INT:
			args[i] = one_dim(q, rank_of(a));
			break;
		case STX_PARAM_OPT_INT:
			args[i] = rnd(q, 4) ? one_dim(q, rank_of(a)) : stx_arg_none();
			break;
		case STX_PARAM_INTS: case STX_PARAM_OPT_INTS:
			args[i] = some_dims(q, rank_of(a), p->kind == STX_PARAM_INTS);
			break;
		case STX_PARAM_BOOL:
			args[i] = stx_arg_bool((int)rnd(q, 2));
			break;
		case STX_PARAM_OPT_SCALAR: /* correction */
			args[i] = rnd(q, 3) == 0 ? stx_arg_none() : rnd(q, 2) ? stx_arg_scalar_i(rnd(q, 4))
			                                                     : stx_arg_scalar_f(rnd(q, 8) * 0.5);
			break;
		default: /* dtype */
			args[i] = rnd(q, 4) ? stx_arg_none() : stx_arg_dtype(wants_float ? PICK(q, floats) : random_dtype(q));
		}
	}
	return call(q, op, info->nparams, args);
}

/* ---- views ---- */

static struct stx_arg factors(struct draw *q, int64_t left)
{
	int64_t sizes[6];
	uint32_t k = 0;
	if (left == 0) {
		sizes[k++] = rnd(q, 3);
		sizes[k++] = 0;
		return stx_arg_ints(q->g, sizes, k);
	}
	while (left > 1 && k < 3) {
		int64_t f = 2 + rnd(q, 6);
		while (left % f)
			f = f < 200 ? f + 1 : left;
		sizes[k++] = f;
		left /= f;
		if (rnd(q, 5) == 0)
			sizes[k++] = 1;
	}
	if (left > 1 || rnd(q, 4) == 0)
		sizes[k++] = left;
	if (k && rnd(q, 3) == 0)
		sizes[rnd(q, k)] = -1;
	return stx_arg_ints(q->g, sizes, k);
}

static struct stx_arg permutation(struct draw *q, uint32_t rank)
{
	int64_t dims[8];
	for (uint32_t i = 0; i < rank; i++)
		dims[i] = i;
	for (uint32_t i = 0; i + 1 < rank; i++) {
		uint32_t j = i + rnd(q, rank - i);
		int64_t t = dims[i];
		dims[i] = dims[j];
		dims[j] = t;
	}
	return stx_arg_ints(q->g, dims, rank);
}

static struct stx_node *expand(struct draw *q, struct stx_node *a)
{
	int64_t sizes[10];
	uint32_t lead = rnd(q, 3), k = 0;
	for (uint32_t i = 0; i < lead; i++)
		sizes[k++] = 1 + rnd(q, 3);
	for (uint32_t i = 0; i < rank_of(a); i++) {
		int64_t s = size_of(q, a, i);
		sizes[k++] = s == 1 ? q->dims[rnd(q, 4)] : rnd(q, 4) ? s : -1;
	}
	return call(q, STX_OP_EXPAND, ARGS(T(a), stx_arg_ints(q->g, sizes, k)));
}

static struct stx_node *slice(struct draw *q, struct stx_node *a)
{
	uint32_t dim = rank_of(a) ? rnd(q, rank_of(a)) : 0;
	int64_t n = rank_of(a) ? size_of(q, a, dim) : 1;
	struct stx_arg from = rnd(q, 3) ? I((int64_t)rnd(q, (uint32_t)n + 2) - (rnd(q, 3) ? 0 : n)) : stx_arg_none();
	struct stx_arg to = rnd(q, 2) ? stx_arg_none() : I(n - (int64_t)rnd(q, 3) - (rnd(q, 4) ? 0 : n));
	return call(q, STX_OP_SLICE, ARGS(T(a), I(dim), from, to, I(1 + rnd(q, 3))));
}

static struct stx_node *draw_view(struct draw *q, enum stx_op op)
{
	struct stx_node *a = any(q);
	uint32_t rank = rank_of(a), d = rank ? rnd(q, rank) : 0, e = rank ? rnd(q, rank) : 0;
	switch (op) {
	case STX_OP_VIEW: case STX_OP_RESHAPE:
		return call(q, op, ARGS(T(a), factors(q, numel(q, a))));
	case STX_OP_PERMUTE:
		return call(q, op, ARGS(T(a), permutation(q, rank)));
	case STX_OP_TRANSPOSE:
		return call(q, op, ARGS(T(a), I(d), I((int64_t)e - (rnd(q, 2) && rank ? rank : 0))));
	case STX_OP_EXPAND:
		return expand(q, a);
	case STX_OP_SQUEEZE: case STX_OP_FLIP:
		return call(q, op, ARGS(T(a), some_dims(q, rank, 1)));
	case STX_OP_SQUEEZE_DIM:
		return call(q, op, ARGS(T(a), one_dim(q, rank)));
	case STX_OP_UNSQUEEZE:
		return call(q, op, ARGS(T(a), one_dim(q, rank + 1)));
	case STX_OP_SLICE:
		return slice(q, a);
	case STX_OP_SELECT:
		if (!rank || !size_of(q, a, d))
			return NULL;
		return call(q, op, ARGS(T(a), I(d), I((int64_t)rnd(q, (uint32_t)size_of(q, a, d)) -
		                                      (rnd(q, 2) ? 0 : size_of(q, a, d)))));
	case STX_OP_DIAGONAL:
		return call(q, op, ARGS(T(a), I((int64_t)rnd(q, 5) - 2), I(d), I(e)));
	case STX_OP_FLATTEN:
		return call(q, op, ARGS(T(a), I(d < e ? d : e), I(d < e ? e : d)));
	default: /* t, squeeze */
		return call(q, op, ARGS(T(a)));
	}
}

/* ---- indirect reads, piecewise ---- */

/* An index in [low, bound): given as an input, or a computed value brought into range. */
static struct stx_node *index_into(struct draw *q, int64_t bound, const int64_t *sizes, int rank, int negative)
{
	enum stx_dtype t = rnd(q, 3) ? STX_I64 : STX_I32;
	struct stx_node *x;
	if (bound < 1)
		return NULL;
	if (rnd(q, 3) == 0) { /* not one of the candidates: its data is made for this bound */
		x = input(q, t, sizes, rank, negative ? -bound : 0, bound);
		if (x && rnd(q, 2))
			q->n--;
		return x;
	}
	if (rnd(q, 4) == 0 && rank == 1) {
		x = call(q, STX_OP_ARANGE, ARGS(stx_arg_scalar_i(0), stx_arg_scalar_i(sizes[0]), stx_arg_scalar_i(1),
		                                stx_arg_dtype(STX_I64)));
		x = call(q, STX_OP_MUL_SCALAR, ARGS(T(x), stx_arg_scalar_i(1 + rnd(q, 3))));
	} else {
		x = input(q, t, sizes, rank, 0, 0);
	}
	if (!x)
		return NULL;
	return call(q, STX_OP_REMAINDER_SCALAR, ARGS(T(x), stx_arg_scalar_i(bound)));
}

static struct stx_node *draw_index(struct draw *q, struct stx_node *a)
{
	struct stx_val list[8] = { { NULL, 0 } };
	int64_t sizes[2] = { 1 + rnd(q, 6), rnd(q, 4) ? 1 + rnd(q, 20) : q->dims[3] };
	uint32_t n = 1 + rnd(q, rank_of(a)), have = 0;
	int rank = (int)rnd(q, 3);
	for (uint32_t i = 0; i < n; i++) {
		if (rnd(q, 2) && (have || i + 1 < n))
			continue;
		struct stx_node *x = index_into(q, size_of(q, a, i), sizes + 2 - rank, rank, 1);
		if (!x)
			return NULL;
		list[i] = stx_val(x, 0);
		have++;
	}
	return call(q, STX_OP_INDEX, ARGS(T(a), stx_arg_tensors(q->g, list, n)));
}

static struct stx_node *draw_indirect(struct draw *q, enum stx_op op)
{
	struct stx_node *a = any(q), *x;
	for (int k = 0; k < 8 && (op == STX_OP_EMBEDDING ? rank_of(a) != 2 : !rank_of(a)); k++)
		a = any(q);
	uint32_t rank = rank_of(a), d = rank ? rnd(q, rank) : 0;
	int64_t sizes[8], one = rnd(q, 4) ? 1 + rnd(q, 20) : q->dims[3];
	if (!rank)
		return NULL;
	switch (op) {
	case STX_OP_GATHER:
		for (uint32_t i = 0; i < rank; i++)
			sizes[i] = i == d ? 1 + rnd(q, 6) : size_of(q, a, i) - (size_of(q, a, i) > 1 && rnd(q, 3) == 0);
		x = index_into(q, size_of(q, a, d), sizes, (int)rank, 0);
		return x ? call(q, op, ARGS(T(a), I(d), T(x))) : NULL;
	case STX_OP_INDEX_SELECT:
		x = index_into(q, size_of(q, a, d), &one, rnd(q, 8) != 0, 0);
		return x ? call(q, op, ARGS(T(a), I(d), T(x))) : NULL;
	case STX_OP_EMBEDDING:
		sizes[0] = one;
		sizes[1] = 1 + rnd(q, 3);
		x = index_into(q, size_of(q, a, 0), sizes, (int)rnd(q, 3), 0);
		return x ? call(q, op, ARGS(T(a), T(x))) : NULL;
	default:
		return draw_index(q, a);
	}
}

/* A tensor like a whose size along dim is another one. */
static struct stx_node *sibling(struct draw *q, struct stx_node *a, uint32_t dim, int same)
{
	int64_t sizes[8];
	for (uint32_t i = 0; i < rank_of(a); i++)
		sizes[i] = i == dim && !same ? rnd(q, 5) : size_of(q, a, i);
	for (int k = 0; k < 10; k++) {
		struct stx_node *b = any(q);
		int ok = rank_of(b) == rank_of(a);
		for (uint32_t i = 0; ok && i < rank_of(a); i++)
			ok = size_of(q, b, i) == size_of(q, a, i) || (i == dim && !same);
		if (ok)
			return b;
	}
	return input(q, rnd(q, 2) ? a->outs[0].dtype : random_dtype(q), sizes, (int)rank_of(a), 0, 0);
}

static struct stx_node *draw_piecewise(struct draw *q, enum stx_op op)
{
	struct stx_node *a = any(q);
	uint32_t rank = rank_of(a), d = rank ? rnd(q, rank) : 0, n = 1 + rnd(q, 3);
	struct stx_val list[4] = { stx_val(a, 0) };
	int64_t ints[16];
	switch (op) {
	case STX_OP_CAT: case STX_OP_STACK:
		for (uint32_t i = 1; i < n; i++) {
			struct stx_node *b = sibling(q, a, d, op == STX_OP_STACK);
			if (!b)
				return NULL;
			list[i] = stx_val(b, 0);
		}
		return call(q, op, ARGS(stx_arg_tensors(q->g, list, n),
		                        op == STX_OP_CAT ? I((int64_t)d - (rnd(q, 3) ? 0 : rank)) : one_dim(q, rank + 1)));
	case STX_OP_PAD:
		n = 2 * rnd(q, rank + 1);
		for (uint32_t i = 0; i < n; i++)
			ints[i] = (int64_t)rnd(q, 5) - 1;
		return call(q, op, ARGS(T(a), stx_arg_ints(q->g, ints, n), scalar(q, a->outs[0].dtype)));
	case STX_OP_REPEAT:
		n = rank + rnd(q, 2);
		for (uint32_t i = 0; i < n; i++)
			ints[i] = rnd(q, 10) ? 1 + rnd(q, 2) : 0;
		return call(q, op, ARGS(T(a), stx_arg_ints(q->g, ints, n)));
	default: /* tril, triu */
		return call(q, op, ARGS(T(a), I((int64_t)rnd(q, 7) - 3)));
	}
}

/* ---- products, composites ---- */

static struct stx_node *matrix(struct draw *q, enum stx_dtype t, const int64_t *sizes, int rank)
{
	for (int k = 0; k < 12; k++) {
		struct stx_node *b = any(q);
		int ok = rank_of(b) == (uint32_t)rank;
		for (int i = 0; ok && i < rank; i++)
			ok = size_of(q, b, (uint32_t)i) == sizes[i];
		if (ok && b->outs[0].dtype != STX_BOOL)
			return as(q, b, t);
	}
	return input(q, t, sizes, rank, 0, 0);
}

static struct stx_node *draw_contract(struct draw *q, enum stx_op op)
{
	enum stx_dtype t = rnd(q, 4) ? PICK(q, floats) : rnd(q, 2) ? STX_I32 : STX_I64;
	int64_t m = q->dims[1], k = q->dims[2], n = q->dims[3], b = 1 + rnd(q, 3);
	if (m * k > MAX_ELEMS || k * n > MAX_ELEMS || m * n > MAX_ELEMS || m * n * k > 400000)
		return NULL;
	if (op == STX_OP_BMM) {
		struct stx_node *x = matrix(q, t, (int64_t[]){ b, m, k }, 3);
		struct stx_node *y = matrix(q, t, (int64_t[]){ b, k, n }, 3);
		return x && y ? call(q, op, ARGS(T(x), T(y))) : NULL;
	}
	if (op == STX_OP_MATMUL) {
		int ra = 1 + (int)rnd(q, 4), rb = 1 + (int)rnd(q, 4);
		const int64_t sa[4] = { rnd(q, 2) ? 2 : 1, rnd(q, 2) ? b : 1, m, k }, sb[4] = { 2, b, k, n };
		struct stx_node *x = matrix(q, t, sa + 4 - ra, ra);
		struct stx_node *y = matrix(q, t, rb == 1 ? &k : sb + 4 - rb, rb);
		return x && y ? call(q, op, ARGS(T(x), T(y))) : NULL;
	}
	struct stx_node *x = matrix(q, t, (int64_t[]){ m, k }, 2);
	struct stx_node *y = matrix(q, t, (int64_t[]){ k, n }, 2);
	if (!x || !y)
		return NULL;
	if (op == STX_OP_MM)
		return call(q, op, ARGS(T(x), T(y)));
	const int64_t sc[2] = { rnd(q, 2) ? m : 1, rnd(q, 3) ? n : 1 };
	int rc = (int)rnd(q, 3);
	struct stx_node *c = matrix(q, t, sc + 2 - rc, rc);
	int whole = q->whole || !stx_dtype_is_float(t) || rnd(q, 2);
	struct stx_arg beta = whole ? stx_arg_scalar_i(rnd(q, 4)) : stx_arg_scalar_f(rnd(q, 10) * 0.3 - 1);
	struct stx_arg alpha = whole ? stx_arg_scalar_i((int64_t)rnd(q, 4) - 1) : stx_arg_scalar_f(rnd(q, 10) * 0.3 - 1);
	return c ? call(q, op, ARGS(T(c), T(x), T(y), beta, alpha)) : NULL;
}

static struct stx_node *draw_linear(struct draw *q)
{
	enum stx_dtype t = PICK(q, floats);
	int64_t in = q->dims[2], out = q->dims[3], sx[3] = { 1 + rnd(q, 3), q->dims[1], in }, sw[2] = { out, in };
	int rank = 1 + (int)rnd(q, 3);
	if (sx[0] * sx[1] * in * out > 400000 || in * out > MAX_ELEMS || sx[0] * sx[1] * in > MAX_ELEMS)
		return NULL;
	struct stx_node *x = matrix(q, t, sx + 3 - rank, rank), *w = matrix(q, t, sw, 2);
	struct stx_node *b = rnd(q, 3) ? matrix(q, t, &out, 1) : NULL;
	return x && w ? call(q, STX_OP_LINEAR, ARGS(T(x), T(w), b ? T(b) : stx_arg_none())) : NULL;
}

static struct stx_node *draw_layer_norm(struct draw *q, struct stx_node *x)
{
	int64_t sizes[8];
	uint32_t rank = rank_of(x), k = rank ? 1 + rnd(q, rank) : 0;
	if (!k)
		return NULL;
	for (uint32_t i = 0; i < k; i++)
		sizes[i] = size_of(q, x, rank - k + i);
	struct stx_node *w = rnd(q, 3) ? matrix(q, x->outs[0].dtype, sizes, (int)k) : NULL;
	struct stx_node *b = rnd(q, 3) ? matrix(q, x->outs[0].dtype, sizes, (int)k) : NULL;
	return call(q, STX_OP_LAYER_NORM, ARGS(T(x), stx_arg_ints(q->g, sizes, k), w ? T(w) : stx_arg_none(),
	                                       b ? T(b) : stx_arg_none(), stx_arg_float(rnd(q, 2) ? 1e-5 : 0.1)));
}

static struct stx_node *draw_composite(struct draw *q, enum stx_op op)
{
	const struct stx_op_info *info = stx_op_info(op);
	struct stx_node *x = op == STX_OP_LINEAR ? any(q) : any_float(q);
	struct stx_arg args[8];
	if (!x)
		return NULL;
	if (op == STX_OP_LINEAR)
		return draw_linear(q);
	if (op == STX_OP_LAYER_NORM)
		return draw_layer_norm(q, x);
	args[0] = T(x);
	for (uint32_t i = 1; i < info->nparams; i++) {
		switch (info->params[i].kind) {
		case STX_PARAM_INT:
			args[i] = one_dim(q, rank_of(x));
			break;
		case STX_PARAM_BOOL: /* half_to_float */
			args[i] = stx_arg_bool(x->outs[0].dtype == STX_F16 && rnd(q, 2));
			break;
		case STX_PARAM_STRING:
			args[i] = stx_arg_str(q->g, rnd(q, 2) ? "none" : "tanh");
			break;
		case STX_PARAM_SCALAR:
			args[i] = rnd(q, 2) ? stx_arg_default() : stx_arg_scalar_f((1 + rnd(q, 8)) * 0.3);
			break;
		default:
			args[i] = rnd(q, 3) ? stx_arg_none() : stx_arg_dtype(PICK(q, floats));
		}
	}
	return call(q, op, info->nparams, args);
}

/* ---- the graph ---- */

static struct stx_node *draw_call(struct draw *q, enum stx_op op)
{
	switch (stx_op_info(op)->category) {
	case STX_CAT_POINTWISE: return draw_pointwise(q, op);
	case STX_CAT_CREATE: return draw_create(q, op);
	case STX_CAT_REDUCE: return draw_reduce(q, op);
	case STX_CAT_VIEW: return draw_view(q, op);
	case STX_CAT_INDIRECT: return draw_indirect(q, op);
	case STX_CAT_PIECEWISE: return draw_piecewise(q, op);
	case STX_CAT_CONTRACT: return draw_contract(q, op);
	case STX_CAT_COMPOSITE: return draw_composite(q, op);
	default: return NULL; /* inputs; categories without rows */
	}
}

static int keeps_whole(enum stx_op op)
{
	static const enum stx_op not[] = { STX_OP_VAR, STX_OP_LOGSUMEXP, STX_OP_PROD_DIM };
	static const enum stx_op pointwise[] = { STX_OP_ADD, STX_OP_ADD_SCALAR, STX_OP_SUB, STX_OP_NEG, STX_OP_ABS, STX_OP_SIGN,
		STX_OP_RELU, STX_OP_MAXIMUM, STX_OP_MINIMUM, STX_OP_EQ, STX_OP_LT_SCALAR, STX_OP_WHERE, STX_OP_CLAMP,
		STX_OP_TO_COPY, STX_OP_ROUND };
	enum stx_op_category c = stx_op_info(op)->category;
	for (size_t i = 0; i < sizeof not / sizeof *not; i++)
		if (op == not[i])
			return 0;
	for (size_t i = 0; i < sizeof pointwise / sizeof *pointwise; i++)
		if (op == pointwise[i])
			return 1;
	return op == STX_OP_LINEAR || (c != STX_CAT_POINTWISE && c != STX_CAT_COMPOSITE);
}

/* Operators with effects are left out: what follows a failing assert is not defined. */
static enum stx_op random_op(struct draw *q)
{
	for (;;) {
		enum stx_op op = (enum stx_op)rnd(q, STX_OP_COUNT);
		const struct stx_op_info *info = stx_op_info(op);
		if (info->category == STX_CAT_INPUT || info->tags & STX_TAG_EFFECT)
			continue;
		if (q->whole && !keeps_whole(op))
			continue;
		if (q->whole || info->category != STX_CAT_POINTWISE || rnd(q, 5) < 3)
			return op;
	}
}

static void draw_outputs(struct draw *q)
{
	uint32_t made = 0;
	stx_graph_count_users(q->g);
	for (uint32_t i = q->g->nodes.n; i-- > 0 && made < 12;) {
		struct stx_node *n = q->g->nodes.at[i];
		int sink = !n->num_users && n->op != STX_OP_PLACEHOLDER && n->op != STX_OP_CONSTANT;
		if (!n->nouts || numel(q, n) > MAX_ELEMS || !(sink || rnd(q, 30) == 0))
			continue;
		made += !stx_graph_output(q->g, stx_val(n, 0), NULL, NULL);
	}
	if (!made)
		stx_graph_output(q->g, stx_val(q->g->nodes.at[q->g->nodes.n - 1], 0), NULL, NULL);
	stx_graph_count_users(q->g);
}

struct prop_case *prop_draw(struct stx_arena *a, uint64_t seed)
{
	struct draw q = { .rng = seed * 0x9e3779b97f4a7c15u + 0x1234567 };
	struct prop_case *c = STX_NEW(a, struct prop_case);
	c->arena = a;
	q.c = c;
	q.g = c->g = stx_graph_new(a);
	uint32_t calls = 1 + rnd(&q, rnd(&q, 2) ? 25 : 6), first = 1 + rnd(&q, 3);
	q.whole = rnd(&q, 5) == 0;
	draw_dims(&q);
	while (q.n < first)
		random_input(&q, random_dtype(&q));
	if (rnd(&q, 6) == 0)
		constant(&q);
	for (uint32_t tries = 0, made = 0; made < calls && tries < 20 * calls; tries++)
		made += keep(&q, draw_call(&q, random_op(&q))) != NULL;
	draw_outputs(&q);
	return c;
}
