/* simplify.c: rewrites that keep every bit: identities, compositions of views, constants, equal
 * nodes. requires: a verified graph. ensures: same results on all inputs, NaN, -0 and infinities
 * included (class BIT; x+0, x*0 and x-x are left alone unless asked for: OP-05, OP-06, DF-07,
 * OP-15). Random and effect nodes are untouched (DF-06). One walk in topological order, constant
 * work a node: operands are in simplest form when their user is reached, so a second walk finds
 * nothing. Sources: OP-03, OP-04, OP-07, OP-09. */
#include <math.h>
#include <string.h>

#include "fold.h"
#include "graph_internal.h"
#include "infer.h"
#include "passes.h"
#include "scalar.h"

#define FOLD_MAX_BYTES                                                                             \
	4096u /* a larger result stays computed: keys and artifacts carry constants */

struct simplify {
	struct stx_graph *g;
	unsigned what; /* enum stx_simplify */
	struct stx_diag *d;
	stx_err err;
};

static struct stx_val operand(const struct stx_node *n, uint32_t i)
{
	return n->args[i].u.tensor;
}

static struct stx_val nothing(void)
{
	return stx_val(NULL, 0);
}

/* v when it has exactly n's type, else nothing. */
static struct stx_val if_same(const struct stx_node *n, struct stx_val v)
{
	return stx_type_eq(stx_val_type(v), &n->outs[0]) ? v : nothing();
}

/* ---- numbers ---- */

static int scalar_is(const struct stx_arg *a, double v)
{
	return a->kind == STX_ARG_SCALAR &&
	       (a->is_float ? a->u.f == v && !signbit(a->u.f) : a->u.i == (int64_t)v);
}

/* 1 when every element of v is the number x (0 means +0). */
static int all_are(struct stx_val v, double x)
{
	const struct stx_node *n = v.node;
	enum stx_dtype t = n->outs[0].dtype;
	size_t size = (size_t)stx_dtype_bytes(t);
	if (n->op == STX_OP_FULL)
		return scalar_is(&n->args[1], x);
	if (n->op != STX_OP_CONSTANT || n->data.n == 0 || n->data.n > FOLD_MAX_BYTES)
		return 0;
	union stx_scalar s = stx_scalar_load(t, n->data.bytes);
	if (stx_dtype_is_float(t) ? s.f != x || signbit(s.f) : s.u != (uint64_t)x)
		return 0;
	for (size_t i = size; i < n->data.n; i += size)
		if (memcmp(n->data.bytes + i, n->data.bytes, size) != 0)
			return 0;
	return 1;
}

static int alpha_is_one(const struct stx_node *n)
{
	return n->nargs < 3 || scalar_is(&n->args[2], 1);
}

/* ---- identities of arithmetic ---- */

static struct stx_val arithmetic(const struct stx_node *n)
{
	int ints = !stx_dtype_is_float(n->outs[0].dtype);
	switch (n->op) {
	case STX_OP_MUL_SCALAR:
	case STX_OP_DIV_SCALAR:
		return scalar_is(&n->args[1], 1) ? if_same(n, operand(n, 0)) : nothing();
	case STX_OP_SUB_SCALAR:
		return scalar_is(&n->args[1], 0) && alpha_is_one(n) ? if_same(n, operand(n, 0))
								    : nothing();
	case STX_OP_ADD_SCALAR: /* -0 + 0 is +0: integers only */
		return ints && scalar_is(&n->args[1], 0) ? if_same(n, operand(n, 0)) : nothing();
	case STX_OP_MUL:
		if (all_are(operand(n, 1), 1))
			return if_same(n, operand(n, 0));
		return all_are(operand(n, 0), 1) ? if_same(n, operand(n, 1)) : nothing();
	case STX_OP_DIV: return all_are(operand(n, 1), 1) ? if_same(n, operand(n, 0)) : nothing();
	case STX_OP_SUB:
		return all_are(operand(n, 1), 0) && alpha_is_one(n) ? if_same(n, operand(n, 0))
								    : nothing();
	case STX_OP_ADD:
		if (ints && alpha_is_one(n) && all_are(operand(n, 0), 0))
			return if_same(n, operand(n, 1));
		return ints && all_are(operand(n, 1), 0) ? if_same(n, operand(n, 0)) : nothing();
	default: return nothing();
	}
}

/* ---- identities of the reals ---- */

static struct stx_val filled(struct simplify *s, const struct stx_node *n, double v)
{
	struct stx_arg a[] = { stx_arg_exs(s->g, n->outs[0].sizes, n->outs[0].rank),
			       stx_arg_scalar_f(v), stx_arg_dtype(n->outs[0].dtype) };
	struct stx_node *f = stx_graph_call(s->g, STX_OP_FULL, NULL, a, 3, s->d);
	if (!f) {
		s->err = s->d->code;
		return nothing();
	}
	f->origin = n->origin;
	return stx_val(f, 0);
}

static int same_operands(const struct stx_node *n)
{
	return operand(n, 0).node == operand(n, 1).node && operand(n, 0).out == operand(n, 1).out;
}

/* Wrong for NaN, infinities, -0 or x = 0. */
static struct stx_val real_arithmetic(struct simplify *s, const struct stx_node *n)
{
	switch (n->op) {
	case STX_OP_ADD_SCALAR:
		return scalar_is(&n->args[1], 0) ? if_same(n, operand(n, 0)) : nothing();
	case STX_OP_ADD:
		if (alpha_is_one(n) && all_are(operand(n, 0), 0))
			return if_same(n, operand(n, 1));
		return all_are(operand(n, 1), 0) ? if_same(n, operand(n, 0)) : nothing();
	case STX_OP_MUL_SCALAR: return scalar_is(&n->args[1], 0) ? filled(s, n, 0) : nothing();
	case STX_OP_MUL:
		return all_are(operand(n, 0), 0) || all_are(operand(n, 1), 0) ? filled(s, n, 0)
									      : nothing();
	case STX_OP_SUB: return same_operands(n) && alpha_is_one(n) ? filled(s, n, 0) : nothing();
	case STX_OP_DIV: return same_operands(n) ? filled(s, n, 1) : nothing();
	default: return nothing();
	}
}

/* ---- conversions ---- */

/* Every value of type a is one of type b, and converting a to b to c is converting a to c for all
 * c. */
static int widens(enum stx_dtype a, enum stx_dtype b)
{
	enum stx_dtype_kind ka = stx_dtype_kind(a), kb = stx_dtype_kind(b);
	if (ka == STX_KIND_BOOL)
		return 1;
	if (ka == STX_KIND_FLOAT && kb == STX_KIND_FLOAT)
		return b == STX_F64 || (b == STX_F32 && stx_dtype_bytes(a) < 4);
	return ka == kb && stx_dtype_bytes(b) >= stx_dtype_bytes(a);
}

static struct stx_val conversion(struct stx_node *n)
{
	struct stx_node *from = operand(n, 0).node;
	if (from->op == STX_OP_TO_COPY &&
	    widens(stx_val_type(operand(from, 0))->dtype, from->outs[0].dtype))
		n->args[0].u.tensor = operand(from, 0);
	return if_same(n, operand(n, 0));
}

/* ---- views ---- */

static int is_regroup(const struct stx_node *n)
{
	return n->op == STX_OP_VIEW || n->op == STX_OP_SQUEEZE || n->op == STX_OP_UNSQUEEZE;
}

/* view, squeeze and unsqueeze keep the order of elements: any two of them are one view. */
static struct stx_val regroup(struct simplify *s, struct stx_node *n)
{
	struct stx_node *from = operand(n, 0).node;
	if (!is_regroup(from))
		return if_same(n, operand(n, 0));
	struct stx_val x = operand(from, 0), same = if_same(n, x);
	if (same.node)
		return same;
	if (n->op == STX_OP_VIEW) {
		n->args[0].u.tensor = x;
		return nothing();
	}
	struct stx_arg a[] = { stx_arg_tensor(x),
			       stx_arg_exs(s->g, n->outs[0].sizes, n->outs[0].rank) };
	struct stx_node *v = stx_graph_call(s->g, STX_OP_VIEW, NULL, a, 2, s->d);
	if (!v) {
		s->err = s->d->code;
		return nothing();
	}
	v->origin = n->origin;
	return stx_val(v, 0);
}

static uint32_t dim_at(struct simplify *s, const struct stx_node *n, uint32_t i)
{
	uint32_t dim = 0;
	stx__infer_dim(s->g, n, n->args[1].u.exs[i], n->outs[0].rank, &dim, NULL);
	return dim;
}

static struct stx_val permutation(struct simplify *s, struct stx_node *n)
{
	const struct stx_node *from = operand(n, 0).node;
	int64_t dims[STX_MAX_DIMS];
	int identity = 1;
	for (uint32_t i = 0; i < n->outs[0].rank; i++) {
		uint32_t k = dim_at(s, n, i);
		dims[i] = from->op == STX_OP_PERMUTE ? dim_at(s, from, k) : k;
		identity &= dims[i] == i;
	}
	if (from->op == STX_OP_PERMUTE) {
		n->args[1] = stx_arg_ints(s->g, dims, n->outs[0].rank);
		n->args[0].u.tensor = operand(from, 0);
		if (!n->args[1].u.exs)
			s->err = stx__over_budget("simplify", n->name, s->d);
	}
	return identity ? if_same(n, operand(n, 0)) : nothing();
}

static struct stx_val expansion(struct simplify *s, struct stx_node *n)
{
	struct stx_node *from = operand(n, 0).node;
	if (from->op ==
	    STX_OP_EXPAND) { /* the sizes asked for may say -1: those of the result are known */
		n->args[0].u.tensor = operand(from, 0);
		n->args[1] = stx_arg_exs(s->g, n->outs[0].sizes, n->outs[0].rank);
		if (!n->args[1].u.exs)
			s->err = stx__over_budget("simplify", n->name, s->d);
	}
	return if_same(n, operand(n, 0));
}

/* Constant start, step and length of a slice. */
static int slice_parts(struct simplify *s, const struct stx_node *n, uint32_t *dim, int64_t *start,
		       int64_t *step, int64_t *count)
{
	stx_ex from, to;
	return !stx__infer_slice(s->g, n, dim, &from, &to, step, NULL) &&
	       stx_ex_is_const(s->g->ex, from, start) &&
	       stx_ex_is_const(s->g->ex, n->outs[0].sizes[*dim], count);
}

/* Slices of one dimension compose: starts add up, steps multiply. */
static struct stx_val slicing(struct simplify *s, struct stx_node *n)
{
	struct stx_node *from = operand(n, 0).node;
	uint32_t dim, inner_dim;
	int64_t start, step, count, inner_start, inner_step, inner_count, all, end;
	struct stx_val same = if_same(n, operand(n, 0));
	if (same.node || !slice_parts(s, n, &dim, &start, &step, &count))
		return same; /* as many elements as before: all of them, in order */
	if (from->op != STX_OP_SLICE ||
	    !slice_parts(s, from, &inner_dim, &inner_start, &inner_step, &inner_count) ||
	    dim != inner_dim)
		return nothing();
	if (__builtin_mul_overflow(start, inner_step, &start) ||
	    __builtin_add_overflow(start, inner_start, &start) ||
	    __builtin_mul_overflow(step, inner_step, &step) ||
	    __builtin_mul_overflow(count > 0 ? count - 1 : 0, step, &all) ||
	    __builtin_add_overflow(start + (count > 0), all, &end))
		return nothing();
	n->args[0].u.tensor = operand(from, 0);
	n->args[2] = stx_arg_int(s->g, start);
	n->args[3] = stx_arg_int(s->g, end);
	n->args[4] = stx_arg_int(s->g, step);
	return nothing();
}

static struct stx_val flipping(struct simplify *s, struct stx_node *n)
{
	for (uint32_t i = 0; n->outs[0].rank && i < n->args[1].n; i++)
		if (!stx_ex_equals(s->g->ex, n->outs[0].sizes[dim_at(s, n, i)], 1))
			return nothing();
	return operand(n, 0);
}

/* Concatenation of one tensor, the skipped ones left out. */
static struct stx_val single(struct simplify *s, const struct stx_node *n)
{
	struct stx_val only = nothing();
	for (uint32_t i = 0; i < n->args[0].n; i++) {
		struct stx_val v = n->args[0].u.tensors[i];
		if (stx__infer_cat_skips(s->g, stx_val_type(v)))
			continue;
		if (only.node)
			return nothing();
		only = v;
	}
	return only.node ? if_same(n, only) : only;
}

static struct stx_val unpadded(struct simplify *s, const struct stx_node *n)
{
	for (uint32_t i = 0; i < n->args[1].n; i++)
		if (!stx_ex_equals(s->g->ex, n->args[1].u.exs[i], 0))
			return nothing();
	return operand(n, 0);
}

/* A value equal to n's only result, or nothing; n's own arguments may have become simpler. */
static struct stx_val identity(struct simplify *s, struct stx_node *n)
{
	switch (n->op) {
	case STX_OP_CLONE: return operand(n, 0);
	case STX_OP_TO_COPY: return conversion(n);
	case STX_OP_VIEW:
	case STX_OP_SQUEEZE:
	case STX_OP_UNSQUEEZE: return regroup(s, n);
	case STX_OP_PERMUTE: return permutation(s, n);
	case STX_OP_EXPAND: return expansion(s, n);
	case STX_OP_SLICE: return slicing(s, n);
	case STX_OP_FLIP: return flipping(s, n);
	case STX_OP_CAT: return single(s, n);
	case STX_OP_PAD: return unpadded(s, n);
	default: {
		struct stx_val v = arithmetic(n);
		return v.node || !(s->what & STX_SIMPLIFY_REALS) ? v : real_arithmetic(s, n);
	}
	}
}

/* ---- constants ---- */

/* 1 when n has tensor operands, all constants, and its result is small. A constant is not spread
 * out. */
static int may_fold(struct stx_graph *g, const struct stx_node *n)
{
	struct stx__cursor c = { 0 };
	int64_t count;
	uint32_t operands = 0;
	for (struct stx_val *v; (v = stx__next_operand(n, &c)); operands++)
		if (v->node->op != STX_OP_CONSTANT)
			return 0;
	if (!operands || n->nouts != 1 || n->op == STX_OP_EXPAND)
		return 0;
	return stx_ex_is_const(g->ex, stx_type_numel(g, &n->outs[0]), &count) &&
	       count * stx_dtype_bytes(n->outs[0].dtype) <= FOLD_MAX_BYTES;
}

static struct stx_val folded(struct simplify *s, const struct stx_node *n)
{
	struct stx_const_data data;
	if (!may_fold(s->g, n) || !stx_fold_node(s->g, n, &data))
		return nothing();
	struct stx_node *c = stx_graph_constant(s->g, NULL, n->outs[0], data.bytes, data.n, s->d);
	if (!c) {
		s->err = s->d->code;
		return nothing();
	}
	c->origin = n->origin;
	return stx_val(c, 0);
}

/* ---- the walk ---- */

/* What stands for n from now on: n itself, or a value computed earlier. */
static stx_err replacement(struct simplify *s, struct stx__valnum *values, struct stx_node *n,
			   struct stx_val *out)
{
	*out = stx_val(n, 0);
	if (n->op == STX_OP_PLACEHOLDER || n->serial)
		return 0;
	struct stx_val v = nothing();
	if (n->nouts == 1 && s->what & STX_SIMPLIFY_IDENTITIES)
		v = identity(s, n);
	if (!v.node && !s->err && s->what & STX_SIMPLIFY_FOLD)
		v = folded(s, n);
	if (s->err)
		return s->err;
	if (v.node &&
	    ((v.node->op != STX_OP_CONSTANT && v.node->op != STX_OP_FULL && !is_regroup(v.node)) ||
	     !(s->what & STX_SIMPLIFY_EQUAL)))
		*out = v;
	if (out->node != n || !(s->what & STX_SIMPLIFY_EQUAL))
		return 0;
	/* New nodes are numbered too: folding and regrouping may make the same one twice. */
	struct stx_node *first = stx__valnum_enter(values, v.node ? v.node : n);
	if (!first)
		return stx__over_budget("simplify", n->name, s->d);
	*out = stx_val(first, v.node ? v.out : 0);
	return 0;
}

static stx_err walk(struct simplify *s, struct stx__valnum *values)
{
	struct stx__rewrite w;
	stx_err e = stx__rewrite_begin(&w, s->g, s->d);
	for (uint32_t i = 0; !e && i < w.n; i++) {
		struct stx_node *n = w.old[i];
		struct stx_val v;
		stx__rewrite_operands(&w, n);
		e = replacement(s, values, n, &v);
		if (e)
			return e;
		if (v.node == n) {
			e = stx__rewrite_keep(&w, n, s->d);
			continue;
		}
		struct stx_val *results =
			STX_NEW_ARRAY(s->g->arena, struct stx_val, n->nouts ? n->nouts : 1);
		if (!results)
			return stx__over_budget("simplify", n->name, s->d);
		for (uint32_t k = 0; k < n->nouts; k++)
			results[k] = stx_val(v.node, v.out + k);
		stx__rewrite_replace(&w, i, results);
	}
	if (!e)
		stx__rewrite_end(&w);
	return e;
}

stx_err stx_graph_simplify(struct stx_graph **g, unsigned what, struct stx_diag *d)
{
	struct stx_diag own = { 0 };
	struct simplify s = { .g = *g, .what = what, .d = d ? d : &own };
	struct stx__valnum *values = stx__valnum_new(s.g->arena);
	if (!values)
		return stx__over_budget("simplify", "", s.d);
	stx_err e = walk(&s, values);
	if (!e && what & STX_SIMPLIFY_DEAD)
		e = stx__graph_sweep(s.g, s.d);
	return e;
}
