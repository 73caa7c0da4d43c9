/* decompose_scatter.c: scatters, index_put and their relatives in terms of scatter.src,
 * scatter_reduce.two with reduce in {sum, prod, amax, amin} that includes self, and index_put. Half
 * types accumulate in f32 and round once; bools are or (sum, amax) and and (prod, amin). */
#include <math.h>
#include <string.h>

#include "decompose.h"
#include "infer.h"
#include "passes.h"

static struct stx_val scatter(struct stx__build *b, struct stx_val self, struct stx_arg dim,
			      struct stx_val index, struct stx_val src, const char *reduce)
{
	struct stx_arg a[] = { stx_arg_tensor(self),
			       dim,
			       stx_arg_tensor(index),
			       stx_arg_tensor(src),
			       reduce ? stx_arg_str(b->g, reduce) : stx_arg_none(),
			       stx_arg_bool(1) };
	return stx__b_call(b, reduce ? STX_OP_SCATTER_REDUCE : STX_OP_SCATTER, reduce ? 6 : 4, a);
}

static struct stx_val filled(struct stx__build *b, const struct stx_type *like, struct stx_arg v,
			     enum stx_dtype t)
{
	return stx__b_full(b, like->rank, like->sizes, v, t);
}

static int is_empty(struct stx__build *b, struct stx_val x)
{
	return stx_ex_equals(b->g->ex, stx_type_numel(b->g, stx_val_type(x)), 0);
}

/* Without self, or as a mean: an element that takes updates starts from the identity, and a mean is
 * divided by their number (integers round down). */
static struct stx_val reduce_apart(struct stx__build *b, const struct stx_node *n,
				   struct stx_val self, struct stx_val src)
{
	const char *reduce = n->args[4].u.str;
	int mean = !strcmp(reduce, "mean"), include = n->args[5].u.i != 0;
	struct stx_val index = stx__operand(n, 2);
	enum stx_dtype t = stx_val_type(self)->dtype;
	int64_t top = stx_dtype_kind(t) == STX_KIND_UINT
			      ? (int64_t)(UINT64_MAX >> (64 - 8 * stx_dtype_bytes(t)))
			      : INT64_MAX >> (64 - 8 * stx_dtype_bytes(t));
	int64_t low = stx_dtype_kind(t) == STX_KIND_UINT ? 0 : -top - 1;
	double edge = !strcmp(reduce, "amax")   ? -INFINITY
		      : !strcmp(reduce, "amin") ? INFINITY
						: !strcmp(reduce, "prod");
	struct stx_arg start = stx_dtype_is_float(t) ? stx_arg_scalar_f(edge)
			       : isinf(edge)         ? stx_arg_scalar_i(edge < 0 ? low : top)
						     : stx_arg_scalar_i((int64_t)edge);
	struct stx_val count = scatter(
		b, filled(b, stx_val_type(self), stx_arg_scalar_i(include), STX_I64), n->args[1],
		index, filled(b, stx_val_type(index), stx_arg_scalar_i(1), STX_I64), "sum");
	struct stx_val hit = stx__b_scalar(b, STX_OP_GT_SCALAR, count, include);
	if (!include)
		self = stx__b_where(b, hit, stx__b_full(b, 0, NULL, start, t), self);
	self = scatter(b, self, n->args[1], index, src, mean ? "sum" : reduce);
	if (!mean)
		return self;
	struct stx_val one = stx__b_full(b, 0, NULL, stx_arg_scalar_i(1), STX_I64);
	/* a narrow integer may not hold the number */
	enum stx_dtype wide = stx_dtype_is_float(t)                ? t
			      : stx_dtype_kind(t) == STX_KIND_UINT ? STX_U64
								   : STX_I64;
	count = stx__b_cast(b, stx__b_two(b, STX_OP_MAXIMUM, count, one), wide);
	self = stx__b_cast(b, self, wide);
	struct stx_arg div[] = { stx_arg_tensor(self), stx_arg_tensor(count),
				 stx_arg_str(b->g, "floor") };
	return stx__b_cast(b,
			   stx_dtype_is_float(t) ? stx__b_two(b, STX_OP_DIV, self, count)
						 : stx__b_call(b, STX_OP_DIV_MODE, 3, div),
			   t);
}

int stx__rule_scatter_reduce(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *t = &n->outs[0];
	enum stx_dtype wide = stx__wide(t->dtype);
	stx_ex one = stx_ex_const(b->g->ex, 1);
	struct stx_val self = stx__operand(n, 0), index = stx__operand(n, 2),
		       src = stx__operand(n, 3);
	int reduces = n->op == STX_OP_SCATTER_REDUCE;
	if (is_empty(b, index)) {
		out[0] = self;
		return 0;
	}
	if (reduces && t->dtype == STX_BOOL) {
		const char *r = n->args[4].u.str;
		int any = !strcmp(r, "sum") || !strcmp(r, "amax");
		struct stx_arg a[] = { stx_arg_tensor(stx__b_cast(b, self, STX_U8)),
				       n->args[1],
				       n->args[2],
				       stx_arg_tensor(stx__b_cast(b, src, STX_U8)),
				       stx_arg_str(b->g, any ? "amax" : "amin"),
				       n->args[5] };
		out[0] = stx__b_cast(b, stx__b_call(b, STX_OP_SCATTER_REDUCE, 6, a), STX_BOOL);
		return 0;
	}
	if (reduces && (!n->args[5].u.i || !strcmp(n->args[4].u.str, "mean"))) {
		self = stx__b_cast(b, self, wide);
		out[0] = stx__b_cast(b, reduce_apart(b, n, self, stx__b_cast(b, src, wide)),
				     t->dtype);
		return 0;
	}
	if (t->rank == 0) {
		self = scatter(b, stx__b_view(b, self, 1, &one), stx_arg_int(b->g, 0),
			       stx__b_view(b, index, 1, &one), stx__b_view(b, src, 1, &one),
			       reduces ? n->args[4].u.str : NULL);
		out[0] = stx__b_view(b, self, 0, NULL);
		return 0;
	}
	if (!reduces || wide == t->dtype)
		return STX__KEEP;
	self = scatter(b, stx__b_cast(b, self, wide), n->args[1], index, stx__b_cast(b, src, wide),
		       n->args[4].u.str);
	out[0] = stx__b_cast(b, self, t->dtype);
	return 0;
}

int stx__rule_scatter_value(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_val index = stx__operand(n, 2);
	struct stx_val src = filled(b, stx_val_type(index), n->args[3], n->outs[0].dtype);
	out[0] = scatter(b, stx__operand(n, 0), n->args[1], index, src, NULL);
	return 0;
}

int stx__rule_scatter_add(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	out[0] = scatter(b, stx__operand(n, 0), n->args[1], stx__operand(n, 2), stx__operand(n, 3),
			 "sum");
	return 0;
}

/* index_add, index_copy: a vector of positions along one dimension, none of them negative.
 * index_fill: the same, and negative ones wrap (B15). */
int stx__rule_index_write(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *t = &n->outs[0];
	struct stx_val self = stx__operand(n, 0), index = stx__operand(n, 2), src;
	stx_ex sizes[STX_MAX_DIMS + 1], line[STX_MAX_DIMS + 1], one = stx_ex_const(b->g->ex, 1);
	uint32_t rank = t->rank ? t->rank : 1, dim = 0;
	if (stx__infer_dim(b->g, n, n->args[1].u.ex, t->rank, &dim, b->d))
		return stx__b_fail(b, STX_E_INVALID, "a dimension out of range");
	for (uint32_t i = 0; i < rank; i++) {
		sizes[i] = t->rank ? t->sizes[i] : one;
		line[i] = one;
	}
	sizes[dim] = line[dim] = stx_type_numel(b->g, stx_val_type(index));
	self = stx__b_view(b, self, rank, t->rank ? t->sizes : &one);
	if (n->op == STX_OP_INDEX_FILL) {
		struct stx_val list[STX_MAX_DIMS] = { { NULL, 0 } };
		list[dim] = stx__b_view(b, index, 1, &sizes[dim]);
		struct stx_arg a[] = { stx_arg_tensor(self), stx_arg_tensors(b->g, list, dim + 1),
				       stx_arg_tensor(
					       stx__b_full(b, 0, NULL, n->args[3], t->dtype)),
				       stx_arg_bool(0) };
		out[0] = stx__b_view(b, stx__b_call(b, STX_OP_INDEX_PUT, 4, a), t->rank, t->sizes);
		return 0;
	}
	index = stx__b_expand(b, stx__b_view(b, index, rank, line), rank, sizes);
	src = stx__b_view(b, stx__operand(n, 3), rank, sizes);
	if (n->op == STX_OP_INDEX_ADD && stx__number(&n->args[4]) != 1)
		src = stx__b_number(b, STX_OP_MUL_SCALAR, src,
				    t->dtype == STX_BOOL
					    ? stx_arg_scalar_b(stx__number(&n->args[4]) != 0)
					    : n->args[4]);
	self = scatter(b, self, stx_arg_int(b->g, dim), index, src,
		       n->op == STX_OP_INDEX_ADD ? "sum" : NULL);
	out[0] = stx__b_view(b, self, t->rank, t->sizes);
	return 0;
}

/* A bool index chooses where one value goes: no run-time shape. */
static struct stx_val masked_put(struct stx__build *b, const struct stx_node *n, uint32_t at)
{
	const struct stx_type *t = &n->outs[0];
	struct stx_val self = stx__operand(n, 0), v = stx__operand(n, 2);
	struct stx_val mask = n->args[1].u.tensors[at];
	const struct stx_type *m = stx_val_type(mask);
	stx_ex sizes[STX_MAX_DIMS];
	for (uint32_t i = 0; i < t->rank; i++)
		sizes[i] =
			i >= at && i < at + m->rank ? m->sizes[i - at] : stx_ex_const(b->g->ex, 1);
	v = stx__b_view(b, v, 0, NULL);
	if (n->args[3].u.i)
		v = stx__b_two(b, STX_OP_ADD, self, v);
	return stx__b_where(b, stx__b_view(b, mask, t->rank, sizes), v, self);
}

int stx__rule_index_put(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_arg *list = &n->args[1];
	enum stx_dtype t = n->outs[0].dtype, wide = t == STX_BOOL ? STX_I64 : stx__wide(t);
	for (uint32_t i = 0; i < list->n; i++) {
		if (!list->u.tensors[i].node)
			continue;
		if (stx_val_type(list->u.tensors[i])->dtype == STX_BOOL) {
			out[0] = masked_put(b, n, i);
			return 0;
		}
		if (is_empty(b, list->u.tensors[i])) { /* nothing is put */
			out[0] = stx__operand(n, 0);
			return 0;
		}
	}
	if (!n->args[3].u.i || wide == t)
		return STX__KEEP;
	struct stx_arg a[] = { stx_arg_tensor(stx__b_cast(b, stx__operand(n, 0), wide)), *list,
			       stx_arg_tensor(stx__b_cast(b, stx__operand(n, 2), wide)),
			       n->args[3] };
	out[0] = stx__b_cast(b, stx__b_call(b, STX_OP_INDEX_PUT, 4, a), t);
	return 0;
}

/* ---- writes through other views ---- */

int stx__rule_select_scatter(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *t = &n->outs[0];
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t dim = 0;
	int64_t at;
	if (stx__infer_dim(b->g, n, n->args[2].u.ex, t->rank, &dim, b->d) ||
	    !stx_ex_is_const(b->g->ex, n->args[3].u.ex, &at))
		return stx__b_fail(b, STX_E_INVALID, "a dimension or index out of range");
	memcpy(sizes, t->sizes, t->rank * sizeof *sizes);
	sizes[dim] = stx_ex_const(b->g->ex, 1);
	struct stx_arg a[] = { n->args[0],
			       stx_arg_tensor(stx__b_view(b, stx__operand(n, 1), t->rank, sizes)),
			       stx_arg_int(b->g, dim),
			       stx_arg_int(b->g, at),
			       at == -1 ? stx_arg_none() : stx_arg_int(b->g, at + 1),
			       stx_arg_int(b->g, 1) };
	out[0] = stx__b_call(b, STX_OP_SLICE_SCATTER, 6, a);
	return 0;
}

/* Positions k + first for k in [0, size). */
static struct stx_val positions(struct stx__build *b, int64_t first, int64_t size)
{
	struct stx_arg a[] = { stx_arg_scalar_i(first), stx_arg_scalar_i(first + size),
			       stx_arg_scalar_i(1), stx_arg_dtype(STX_I64) };
	return stx__b_call(b, STX_OP_ARANGE, 4, a);
}

/* The two dimensions in front, indexed by known positions; the diagonal's is src's last one. */
int stx__rule_diagonal_scatter(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *t = &n->outs[0], *s = stx__infer_type(n, 1);
	uint32_t d1 = 0, d2 = 0, k = 2;
	int64_t order[STX_MAX_DIMS], back[STX_MAX_DIMS], turn[STX_MAX_DIMS], off, len;
	if (stx__infer_dim(b->g, n, n->args[3].u.ex, t->rank, &d1, b->d) ||
	    stx__infer_dim(b->g, n, n->args[4].u.ex, t->rank, &d2, b->d) ||
	    !stx_ex_is_const(b->g->ex, n->args[2].u.ex, &off))
		return stx__b_fail(b, STX_E_INVALID, "a dimension out of range");
	if (!stx_ex_is_const(b->g->ex, s->sizes[s->rank - 1], &len))
		return stx__b_fail(b, STX_E_UNSUPPORTED, "a diagonal of symbolic length");
	if (is_empty(b, stx__operand(n, 1))) {
		out[0] = stx__operand(n, 0);
		return 0;
	}
	order[0] = d1;
	order[1] = d2;
	for (uint32_t i = 0; i < t->rank; i++)
		if (i != d1 && i != d2)
			order[k++] = i;
	for (uint32_t i = 0; i < t->rank; i++)
		back[order[i]] = i;
	for (uint32_t i = 0; i < s->rank; i++)
		turn[i] = (int64_t)(i ? i : s->rank) - 1;
	struct stx_val list[2] = { positions(b, off < 0 ? -off : 0, len),
				   positions(b, off > 0 ? off : 0, len) };
	struct stx_arg ps[] = { n->args[0], stx_arg_ints(b->g, order, t->rank) };
	struct stx_arg pv[] = { n->args[1], stx_arg_ints(b->g, turn, s->rank) };
	struct stx_arg put[] = { stx_arg_tensor(stx__b_call(b, STX_OP_PERMUTE, 2, ps)),
				 stx_arg_tensors(b->g, list, 2),
				 stx_arg_tensor(stx__b_call(b, STX_OP_PERMUTE, 2, pv)),
				 stx_arg_bool(0) };
	struct stx_arg pb[] = { stx_arg_tensor(stx__b_call(b, STX_OP_INDEX_PUT, 4, put)),
				stx_arg_ints(b->g, back, t->rank) };
	out[0] = stx__b_call(b, STX_OP_PERMUTE, 2, pb);
	return 0;
}

/* ---- others ---- */

/* The element of source that each masked place takes is the number of masked places before it. */
int stx__rule_masked_scatter(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *t = &n->outs[0];
	struct stx_val source = stx__operand(n, 2);
	stx_ex all = stx_type_numel(b->g, t), have = stx_type_numel(b->g, stx_val_type(source));
	if (stx_ex_equals(b->g->ex, all, 0)) {
		out[0] = stx__b_expand(b, stx__operand(n, 0), t->rank, t->sizes);
		return 0;
	}
	struct stx_val mask = stx__b_expand(b, stx__operand(n, 1), t->rank, t->sizes);
	struct stx_val self = stx__b_expand(b, stx__operand(n, 0), t->rank, t->sizes);
	struct stx_val flat = stx__b_view(b, mask, 1, &all);
	struct stx_arg scan[] = { stx_arg_tensor(flat), stx_arg_int(b->g, 0),
				  stx_arg_dtype(STX_I64) };
	struct stx_val at = stx__b_number(
		b, STX_OP_SUB_SCALAR, stx__b_call(b, STX_OP_CUMSUM, 3, scan), stx_arg_scalar_i(1));
	struct stx_val zero = stx__b_full(b, 0, NULL, stx_arg_scalar_i(0), STX_I64);
	at = stx__b_where(b, flat, at, zero);
	struct stx_arg pick[] = { stx_arg_tensor(stx__b_view(b, source, 1, &have)),
				  stx_arg_int(b->g, 0), stx_arg_tensor(at) };
	struct stx_val v = stx__b_call(b, STX_OP_INDEX_SELECT, 3, pick);
	out[0] = stx__b_where(b, mask, stx__b_view(b, v, t->rank, t->sizes), self);
	return 0;
}

/* Rows of the gradient are added where their index says; those of padding_idx are not. */
int stx__rule_embedding_back(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *t = &n->outs[0];
	struct stx_val index = stx__operand(n, 1), dy = stx__operand(n, 0);
	stx_ex rows[2] = { stx_type_numel(b->g, stx_val_type(index)), t->sizes[1] };
	stx_ex column[2] = { rows[0], stx_ex_const(b->g->ex, 1) };
	enum stx_dtype wide = stx__wide(t->dtype);
	int64_t padding;
	struct stx_val zero = stx__b_full(b, 2, t->sizes, stx_arg_scalar_i(0), wide);
	if (is_empty(b, index)) {
		out[0] = stx__b_cast(b, zero, t->dtype);
		return 0;
	}
	dy = stx__b_cast(b, stx__b_view(b, dy, 2, rows), wide);
	struct stx_val line = stx__b_view(b, index, 1, rows),
		       col = stx__b_view(b, index, 2, column);
	if (n->args[4].u.i) {
		struct stx_val ones = stx__b_full(b, 1, rows, stx_arg_scalar_i(1), STX_I64);
		struct stx_val none = stx__b_full(b, 1, t->sizes, stx_arg_scalar_i(0), STX_I64);
		struct stx_val count = scatter(b, none, stx_arg_int(b->g, 0), line, ones, "sum");
		struct stx_arg pick[] = { stx_arg_tensor(count), stx_arg_int(b->g, 0),
					  stx_arg_tensor(line) };
		count = stx__b_call(b, STX_OP_INDEX_SELECT, 3, pick);
		dy = stx__b_two(b, STX_OP_DIV, dy,
				stx__b_cast(b, stx__b_view(b, count, 2, column), wide));
	}
	if (stx_ex_is_const(b->g->ex, n->args[3].u.ex, &padding) && padding >= 0) {
		struct stx_val pad =
			stx__b_number(b, STX_OP_EQ_SCALAR, col, stx_arg_scalar_i(padding));
		dy = stx__b_where(b, pad, stx__b_full(b, 0, NULL, stx_arg_scalar_i(0), wide), dy);
	}
	col = stx__b_expand(b, col, 2, rows);
	out[0] = stx__b_cast(b, scatter(b, zero, stx_arg_int(b->g, 0), col, dy, "sum"), t->dtype);
	return 0;
}
