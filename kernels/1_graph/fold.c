/* fold.c: evaluation of a node over constants.
 *
 * Requires: n passed inference with static sizes. Ensures: bytes equal those of the compiled
 * operator. Views are index maps from an output position to an input position; pointwise operators
 * go through stx_prim_eval with the common type of their operands. */
#include "fold.h"

#include "decompose.h"
#include "elementary.h"
#include "passes.h"
#include "scalar.h"

#include <string.h>

struct fold {
	struct stx_graph *g;
	const struct stx_node *n;
	int rank;
	int64_t sizes[STX_MAX_DIMS]; /* of the result */
	int64_t count;
	uint8_t *out;
	enum stx_dtype dtype;
};

/* A constant operand: dense data with sizes and strides. */
struct operand {
	const uint8_t *bytes;
	enum stx_dtype dtype;
	int rank;
	int64_t sizes[STX_MAX_DIMS], strides[STX_MAX_DIMS], count;
};

static int static_sizes(const struct stx_graph *g, const struct stx_type *t, int64_t *sizes,
			int64_t *count)
{
	*count = 1;
	for (int i = 0; i < t->rank; i++) {
		if (!stx_ex_is_const(g->ex, t->sizes[i], &sizes[i]) || sizes[i] < 0)
			return 0;
		if (__builtin_mul_overflow(*count, sizes[i], count))
			return 0;
	}
	return *count <= STX_FOLD_MAX_ELEMS;
}

static int get_operand(const struct stx_graph *g, struct stx_val v, struct operand *o)
{
	if (!v.node || v.node->op != STX_OP_CONSTANT)
		return 0;
	const struct stx_type *t = stx_val_type(v);
	if (!static_sizes(g, t, o->sizes, &o->count))
		return 0;
	o->bytes = v.node->data.bytes;
	o->dtype = t->dtype;
	o->rank = t->rank;
	int64_t s = 1;
	for (int i = o->rank - 1; i >= 0; i--) {
		o->strides[i] = s;
		s *= o->sizes[i];
	}
	return 1;
}

static void unflatten(int64_t flat, int rank, const int64_t *sizes, int64_t *at)
{
	for (int i = rank - 1; i >= 0; i--) {
		at[i] = sizes[i] ? flat % sizes[i] : 0;
		flat = sizes[i] ? flat / sizes[i] : 0;
	}
}

static union stx_scalar convert(union stx_scalar v, enum stx_dtype from, enum stx_dtype to)
{
	union stx_scalar zero = { .u = 0 };
	return from == to ? v : stx_prim_eval(STX_P_CAST, to, from, v, zero, zero);
}

/* Element of o at position `at` of the result, broadcasting from the right. */
static union stx_scalar broadcast_load(const struct fold *f, const struct operand *o,
				       const int64_t *at)
{
	int64_t flat = 0;
	for (int i = 0; i < o->rank; i++)
		if (o->sizes[i] != 1)
			flat += o->strides[i] * at[f->rank - o->rank + i];
	return stx_scalar_load(o->dtype, o->bytes + flat * stx_dtype_bytes(o->dtype));
}

static int const_int(const struct stx_graph *g, const struct stx_arg *a, int64_t *v)
{
	if (a->kind == STX_ARG_INT)
		return stx_ex_is_const(g->ex, a->u.ex, v);
	if (a->kind == STX_ARG_SCALAR && !a->is_float) {
		*v = a->u.i;
		return 1;
	}
	return 0;
}

static int64_t wrap_dim(int64_t d, int rank)
{
	return d < 0 ? d + rank : d;
}

/* ---- pointwise ---- */

static union stx_scalar scalar_arg(const struct stx_arg *a, enum stx_dtype t)
{
	union stx_scalar v;
	enum stx_dtype from = a->is_float ? STX_F64 : STX_I64;
	if (a->is_float)
		v.f = a->u.f;
	else
		v.i = a->u.i;
	return convert(v, from, t);
}

/* The primitive an operator is on the operands at hand; 0 when it is more than one. */
static int folded_prim(const struct fold *f, enum stx_prim *prim)
{
	const struct stx_arg *a = f->n->args;
	int p = stx_op_info(f->n->op)->prim;
	switch (f->n->op) {
	case STX_OP_ADD:
	case STX_OP_ADD_SCALAR:
	case STX_OP_SUB:
	case STX_OP_SUB_SCALAR:
		if (a[2].is_float ? a[2].u.f != 1 : a[2].u.i != 1)
			return 0;
		*prim = f->n->op == STX_OP_ADD || f->n->op == STX_OP_ADD_SCALAR ? STX_P_ADD
										: STX_P_SUB;
		return 1;
	case STX_OP_DIV_MODE:
		if (stx_dtype_is_float(f->dtype) || a[2].kind != STX_ARG_STRING)
			return 0;
		*prim = !strcmp(a[2].u.str, "floor") ? STX_P_FLOORDIV : STX_P_DIV;
		return 1;
	case STX_OP_RELU: *prim = STX_P_MAX; return 1; /* with the zero of an absent operand */
	case STX_OP_REMAINDER: *prim = STX_P_MOD; return !stx_dtype_is_float(f->dtype);
	default: *prim = (enum stx_prim)p; return p >= 0 && p < (int)STX_P_FIRST_ELEMENTARY;
	}
}

static int fold_pointwise(struct fold *f)
{
	struct operand o[3];
	union stx_scalar scalars[3] = { { .u = 0 } };
	int kinds[3] = { 0 }; /* 1 tensor, 2 scalar */
	int n = 0;
	enum stx_prim prim;
	if (!folded_prim(f, &prim))
		return 0;
	int arity = stx_prim_info(prim)->arity;
	enum stx_dtype common = stx_infer_operand_dtype(f->n);
	for (int i = 0; i < arity && i < (int)f->n->nargs; i++, n++) {
		if (f->n->args[i].kind == STX_ARG_TENSOR) {
			if (!get_operand(f->g, f->n->args[i].u.tensor, &o[i]))
				return 0;
			kinds[i] = 1;
		} else if (f->n->args[i].kind == STX_ARG_SCALAR) {
			kinds[i] = 2;
		} else {
			return 0;
		}
	}
	if (common == STX_DTYPE_NONE || !stx_prim_accepts(prim, common))
		return 0;
	enum stx_dtype work =
		stx__wide(common); /* operands are converted once, to this (NUMERICS) */
	for (int i = 0; i < n; i++)
		if (kinds[i] == 2)
			scalars[i] = scalar_arg(&f->n->args[i], work);
	enum stx_dtype result = stx_prim_info(prim)->result == STX_RESULT_BOOL ? STX_BOOL : work;
	for (int64_t k = 0; k < f->count; k++) {
		int64_t at[STX_MAX_DIMS];
		unflatten(k, f->rank, f->sizes, at);
		for (int i = 0; i < n; i++)
			if (kinds[i] == 1)
				scalars[i] =
					convert(broadcast_load(f, &o[i], at), o[i].dtype, work);
		union stx_scalar r =
			stx_prim_eval(prim, result, work, scalars[0], scalars[1], scalars[2]);
		stx_scalar_store(f->dtype, f->out + k * stx_dtype_bytes(f->dtype),
				 convert(r, result, f->dtype));
	}
	return 1;
}

static int fold_where(struct fold *f)
{
	struct operand o[3];
	for (int i = 0; i < 3; i++)
		if (!get_operand(f->g, f->n->args[i].u.tensor, &o[i]))
			return 0;
	for (int64_t k = 0; k < f->count; k++) {
		int64_t at[STX_MAX_DIMS];
		unflatten(k, f->rank, f->sizes, at);
		int which = broadcast_load(f, &o[0], at).i ? 1 : 2;
		stx_scalar_store(
			f->dtype, f->out + k * stx_dtype_bytes(f->dtype),
			convert(broadcast_load(f, &o[which], at), o[which].dtype, f->dtype));
	}
	return 1;
}

static int fold_convert(struct fold *f)
{
	struct operand o;
	if (!get_operand(f->g, f->n->args[0].u.tensor, &o))
		return 0;
	for (int64_t k = 0; k < f->count; k++)
		stx_scalar_store(
			f->dtype, f->out + k * stx_dtype_bytes(f->dtype),
			convert(stx_scalar_load(o.dtype, o.bytes + k * stx_dtype_bytes(o.dtype)),
				o.dtype, f->dtype));
	return 1;
}

/* ---- views: output position -> input position ---- */

static int map_slice(const struct fold *f, const struct operand *o, const int64_t *at, int64_t *in)
{
	int64_t dim, start = 0, step;
	const struct stx_arg *a = f->n->args;
	if (!const_int(f->g, &a[1], &dim) || !const_int(f->g, &a[4], &step))
		return 0;
	if (a[2].kind != STX_ARG_NONE && !const_int(f->g, &a[2], &start))
		return 0;
	dim = wrap_dim(dim, o->rank);
	start = start < 0 ? start + o->sizes[dim] : start;
	start = start < 0 ? 0 : start > o->sizes[dim] ? o->sizes[dim] : start;
	memcpy(in, at, (size_t)o->rank * sizeof *in);
	in[dim] = start + step * at[dim];
	return 1;
}

static int map_select(const struct fold *f, const struct operand *o, const int64_t *at, int64_t *in)
{
	int64_t dim, index;
	if (!const_int(f->g, &f->n->args[1], &dim) || !const_int(f->g, &f->n->args[2], &index))
		return 0;
	dim = wrap_dim(dim, o->rank);
	for (int i = 0, j = 0; i < o->rank; i++)
		in[i] = i == dim ? (index < 0 ? index + o->sizes[i] : index) : at[j++];
	return 1;
}

static int map_permute(const struct fold *f, const struct operand *o, const int64_t *at,
		       int64_t *in)
{
	for (int i = 0; i < o->rank; i++) {
		int64_t d;
		if (!stx_ex_is_const(f->g->ex, f->n->args[1].u.exs[i], &d))
			return 0;
		in[wrap_dim(d, o->rank)] = at[i];
	}
	return 1;
}

static int map_flip(const struct fold *f, const struct operand *o, const int64_t *at, int64_t *in)
{
	memcpy(in, at, (size_t)o->rank * sizeof *in);
	for (uint32_t i = 0; i < f->n->args[1].n; i++) {
		int64_t d;
		if (!stx_ex_is_const(f->g->ex, f->n->args[1].u.exs[i], &d))
			return 0;
		d = wrap_dim(d, o->rank);
		in[d] = o->sizes[d] - 1 - at[d];
	}
	return 1;
}

static int map_expand(const struct fold *f, const struct operand *o, const int64_t *at, int64_t *in)
{
	for (int i = 0; i < o->rank; i++)
		in[i] = o->sizes[i] == 1 ? 0 : at[f->rank - o->rank + i];
	return 1;
}

static int fold_view(struct fold *f)
{
	struct operand o;
	int (*map)(const struct fold *, const struct operand *, const int64_t *, int64_t *) = NULL;
	if (!get_operand(f->g, f->n->args[0].u.tensor, &o))
		return 0;
	size_t width = (size_t)stx_dtype_bytes(f->dtype);
	switch (f->n->op) {
	case STX_OP_SLICE: map = map_slice; break;
	case STX_OP_SELECT: map = map_select; break;
	case STX_OP_PERMUTE: map = map_permute; break;
	case STX_OP_FLIP: map = map_flip; break;
	case STX_OP_EXPAND: map = map_expand; break;
	case STX_OP_VIEW:
	case STX_OP_SQUEEZE:
	case STX_OP_UNSQUEEZE:
	case STX_OP_CLONE: memcpy(f->out, o.bytes, (size_t)f->count * width); return 1;
	default: return 0;
	}
	for (int64_t k = 0; k < f->count; k++) {
		int64_t at[STX_MAX_DIMS], in[STX_MAX_DIMS], flat = 0;
		unflatten(k, f->rank, f->sizes, at);
		if (!map(f, &o, at, in))
			return 0;
		for (int i = 0; i < o.rank; i++) {
			if (in[i] < 0 || in[i] >= o.sizes[i])
				return 0;
			flat += in[i] * o.strides[i];
		}
		memcpy(f->out + (size_t)k * width, o.bytes + (size_t)flat * width, width);
	}
	return 1;
}

/* ---- the rest ---- */

static int fold_cat(struct fold *f)
{
	int64_t dim, offset = 0, inner = 1, outer = 1;
	const struct stx_arg *list = &f->n->args[0];
	size_t width = (size_t)stx_dtype_bytes(f->dtype);
	if (!const_int(f->g, &f->n->args[1], &dim))
		return 0;
	dim = wrap_dim(dim, f->rank);
	for (int i = 0; i < f->rank; i++)
		*(i < dim ? &outer : &inner) *= i == dim ? 1 : f->sizes[i];
	for (uint32_t t = 0; t < list->n; t++) {
		struct operand o;
		if (!get_operand(f->g, list->u.tensors[t], &o))
			return 0;
		if (o.count == 0)
			continue;
		if (o.rank != f->rank || o.dtype != f->dtype)
			return 0;
		size_t piece = (size_t)(o.sizes[dim] * inner) * width;
		for (int64_t i = 0; i < outer; i++)
			memcpy(f->out + (size_t)((i * f->sizes[dim] + offset) * inner) * width,
			       o.bytes + (size_t)i * piece, piece);
		offset += o.sizes[dim];
	}
	return 1;
}

static int fold_full(struct fold *f)
{
	if (f->n->args[1].kind != STX_ARG_SCALAR)
		return 0;
	union stx_scalar v = scalar_arg(&f->n->args[1], f->dtype);
	for (int64_t k = 0; k < f->count; k++)
		stx_scalar_store(f->dtype, f->out + k * stx_dtype_bytes(f->dtype), v);
	return 1;
}

static int fold_arange(struct fold *f)
{
	int64_t start, step;
	if (!const_int(f->g, &f->n->args[0], &start) || !const_int(f->g, &f->n->args[2], &step))
		return 0;
	for (int64_t k = 0; k < f->count; k++) {
		union stx_scalar v = { .i = start + k * step };
		stx_scalar_store(f->dtype, f->out + k * stx_dtype_bytes(f->dtype),
				 convert(v, STX_I64, f->dtype));
	}
	return 1;
}

static int fold_index_select(struct fold *f)
{
	struct operand o, index;
	int64_t dim;
	if (!get_operand(f->g, f->n->args[0].u.tensor, &o) ||
	    !const_int(f->g, &f->n->args[1], &dim) ||
	    !get_operand(f->g, f->n->args[2].u.tensor, &index))
		return 0;
	if (!o.rank)
		return 0;
	dim = wrap_dim(dim, o.rank);
	size_t width = (size_t)stx_dtype_bytes(f->dtype);
	for (int64_t k = 0; k < f->count; k++) {
		int64_t at[STX_MAX_DIMS], flat = 0;
		unflatten(k, f->rank, f->sizes, at);
		int64_t i = stx_scalar_load(index.dtype,
					    index.bytes + at[dim] * stx_dtype_bytes(index.dtype))
				    .i;
		at[dim] = i < 0 ? i + o.sizes[dim] : i;
		if (at[dim] < 0 || at[dim] >= o.sizes[dim])
			return 0; /* reported when it runs */
		for (int d = 0; d < o.rank; d++)
			flat += at[d] * o.strides[d];
		memcpy(f->out + (size_t)k * width, o.bytes + (size_t)flat * width, width);
	}
	return 1;
}

/* Whole or per-dimension integer reductions: shape arithmetic. */
static int fold_reduce(struct fold *f)
{
	struct operand o;
	enum stx_prim prim;
	union stx_scalar init = { .i = 0 };
	if (!get_operand(f->g, f->n->args[0].u.tensor, &o) || stx_dtype_is_float(o.dtype) ||
	    stx_dtype_is_float(f->dtype) || f->count != 1 || o.count == 0)
		return 0; /* to one element, over integers: exact in any order */
	switch (f->n->op) {
	case STX_OP_SUM_DIM: prim = STX_P_ADD; break;
	case STX_OP_PROD_DIM:
		prim = STX_P_MUL;
		init.i = 1;
		break;
	case STX_OP_AMAX:
		prim = STX_P_MAX;
		init = stx_scalar_load(o.dtype, o.bytes);
		break;
	case STX_OP_AMIN:
		prim = STX_P_MIN;
		init = stx_scalar_load(o.dtype, o.bytes);
		break;
	default: return 0;
	}
	union stx_scalar zero = { .u = 0 }, acc = init;
	for (int64_t k = 0; k < o.count; k++) {
		union stx_scalar v =
			stx_scalar_load(o.dtype, o.bytes + k * stx_dtype_bytes(o.dtype));
		acc = stx_prim_eval(prim, f->dtype, f->dtype, acc, convert(v, o.dtype, f->dtype),
				    zero);
	}
	stx_scalar_store(f->dtype, f->out, acc);
	return 1;
}

static int fold_bytes(struct fold *f)
{
	struct operand o;
	if (!get_operand(f->g, f->n->args[0].u.tensor, &o))
		return 0;
	memcpy(f->out, o.bytes, (size_t)f->count * (size_t)stx_dtype_bytes(f->dtype));
	return 1;
}

int stx_fold_node(struct stx_graph *g, const struct stx_node *n, struct stx_const_data *data)
{
	struct fold f = { .g = g, .n = n };
	if (n->nouts != 1 || n->serial || !static_sizes(g, &n->outs[0], f.sizes, &f.count))
		return 0;
	f.rank = n->outs[0].rank;
	f.dtype = n->outs[0].dtype;
	data->n = (size_t)f.count * (size_t)stx_dtype_bytes(f.dtype);
	f.out = stx_arena_zalloc(g->arena, data->n ? data->n : 1, 1);
	data->bytes = f.out;
	if (!f.out)
		return 0;
	switch (n->op) {
	case STX_OP_WHERE: return fold_where(&f);
	case STX_OP_TO_COPY: return fold_convert(&f);
	case STX_OP_VIEW_DTYPE: return f.dtype != STX_BOOL && fold_bytes(&f);
	case STX_OP_CAT: return fold_cat(&f);
	case STX_OP_FULL: return fold_full(&f);
	case STX_OP_ARANGE: return fold_arange(&f);
	case STX_OP_INDEX_SELECT: return fold_index_select(&f);
	default: break;
	}
	switch (stx_op_info(n->op)->category) {
	case STX_CAT_POINTWISE: return n->op == STX_OP_CLONE ? fold_view(&f) : fold_pointwise(&f);
	case STX_CAT_VIEW: return fold_view(&f);
	case STX_CAT_REDUCE: return fold_reduce(&f);
	default: return 0;
	}
}
