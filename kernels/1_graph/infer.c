/* infer.c: result types of pointwise, creation and effect operators; promotion,
 * broadcasting. Promotion and shapes are PyTorch's (seed 000 6.2; LO-08, LO-20, LO-21, LO-30). */
#include "graph_internal.h"
#include "infer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "passes.h"

/* ---- shared by all shape rules ---- */

const struct stx_type *stx__infer_type(const struct stx_node *n, uint32_t i)
{
	return stx_val_type(n->args[i].u.tensor);
}

stx_err stx__infer_set(struct stx_graph *g, struct stx_node *n, enum stx_dtype t, uint32_t rank,
		       const stx_ex *sizes, struct stx_diag *d)
{
	if (rank > STX_MAX_DIMS)
		return stx_fail(d, STX_E_TOO_LARGE, "infer", n->name,
				"result of rank %u; at most %d dimensions are supported", rank,
				STX_MAX_DIMS);
	struct stx_type *o = STX_NEW(g->arena, struct stx_type);
	stx_ex *s = stx_arena_copy(g->arena, sizes, rank * sizeof *s);
	if (!o || !s)
		return stx_fail(d, STX_E_TOO_LARGE, "infer", n->name, "over the memory budget");
	*o = (struct stx_type){ .dtype = t, .rank = (uint8_t)rank, .sizes = s };
	n->outs = o;
	n->nouts = 1;
	return 0;
}

stx_err stx__infer_add(struct stx_graph *g, struct stx_node *n, enum stx_dtype t, uint32_t rank,
		       const stx_ex *sizes, struct stx_diag *d)
{
	const struct stx_type *before = n->outs;
	uint32_t count = n->nouts;
	stx_err e = stx__infer_set(g, n, t, rank, sizes, d);
	struct stx_type *outs = e ? NULL : STX_NEW_ARRAY(g->arena, struct stx_type, count + 1);
	if (!outs)
		return e ? e
			 : stx_fail(d, STX_E_TOO_LARGE, "infer", n->name, "over the memory budget");
	memcpy(outs, before, count * sizeof *outs);
	outs[count] = n->outs[0];
	n->outs = outs;
	n->nouts = count + 1;
	return 0;
}

stx_err stx__infer_dim(struct stx_graph *g, const struct stx_node *n, stx_ex e, uint32_t rank,
		       uint32_t *dim, struct stx_diag *d)
{
	int64_t v, r = rank ? rank : 1;
	if (!stx_ex_is_const(g->ex, e, &v))
		return STX__INFER_FAIL(d, n, "a dimension number must be a constant");
	if (v < -r || v >= r)
		return STX__INFER_FAIL(
			d, n, "dimension %lld is out of range: expected %lld to %lld for rank %u",
			(long long)v, (long long)-r, (long long)(r - 1), rank);
	*dim = (uint32_t)(v < 0 ? v + r : v);
	return 0;
}

stx_err stx__infer_dims(struct stx_graph *g, const struct stx_node *n, uint32_t i, uint32_t rank,
			int empty_is_all, uint32_t *set, struct stx_diag *d)
{
	const struct stx_arg *a = &n->args[i];
	*set = 0;
	if (a->kind == STX_ARG_NONE || (a->n == 0 && empty_is_all)) {
		*set = (1u << rank) - 1;
		return 0;
	}
	for (uint32_t k = 0; k < a->n; k++) {
		uint32_t dim = 0;
		stx_err e = stx__infer_dim(g, n, a->u.exs[k], rank, &dim, d);
		if (e)
			return e;
		if (*set & 1u << dim)
			return STX__INFER_FAIL(d, n, "dimension %u is given twice", dim);
		*set |= 1u << dim;
	}
	return 0;
}

/* ---- promotion ---- */

/* Mixes of one unsigned with one signed type of the same width take the next wider signed type;
 * there is none for u64, and none between different 8-bit floats (or one of them and another
 * float). */
static enum stx_dtype promote_ints(enum stx_dtype a, enum stx_dtype b)
{
	int wa = stx_dtype_bytes(a), wb = stx_dtype_bytes(b);
	if (stx_dtype_kind(a) == stx_dtype_kind(b))
		return wa >= wb ? a : b;
	enum stx_dtype s = stx_dtype_kind(a) == STX_KIND_INT ? a : b;
	int wu = s == a ? wb : wa, ws = s == a ? wa : wb;
	if (ws > wu)
		return s;
	return wu == 1 ? STX_I16 : wu == 2 ? STX_I32 : wu == 4 ? STX_I64 : STX_DTYPE_NONE;
}

enum stx_dtype stx_promote(enum stx_dtype a, enum stx_dtype b)
{
	if (a == STX_DTYPE_NONE || b == STX_DTYPE_NONE)
		return STX_DTYPE_NONE;
	if (a == b)
		return a;
	enum stx_dtype_kind ka = stx_dtype_kind(a), kb = stx_dtype_kind(b);
	if (ka == STX_KIND_FLOAT && kb == STX_KIND_FLOAT) {
		int wa = stx_dtype_bytes(a), wb = stx_dtype_bytes(b);
		if (wa == 1 || wb == 1)
			return STX_DTYPE_NONE;
		if (wa == wb)
			return STX_F32; /* f16 with bf16 */
		return wa > wb ? a : b;
	}
	if (ka == STX_KIND_FLOAT)
		return a;
	if (kb == STX_KIND_FLOAT)
		return b;
	if (ka == STX_KIND_BOOL)
		return b;
	if (kb == STX_KIND_BOOL)
		return a;
	return promote_ints(a, b);
}

/* The state of PyTorch's result_type: dimensioned tensors, 0-d tensors and plain numbers are three
 * priorities; a lower one only matters when it is of a higher category (bool < integer < float). */
struct promotion {
	enum stx_dtype dim, zero, number;
	int seen[3];
	int failed;
};

static void promotion_add(struct promotion *p, int which, enum stx_dtype t)
{
	enum stx_dtype *into = which == 0 ? &p->dim : which == 1 ? &p->zero : &p->number;
	*into = p->seen[which] ? stx_promote(*into, t) : t;
	p->seen[which] = 1;
	p->failed |= *into == STX_DTYPE_NONE;
}

static void promotion_tensor(struct promotion *p, struct stx_val v)
{
	const struct stx_type *t = stx_val_type(v);
	promotion_add(p, t->rank ? 0 : 1, t->dtype);
}

static int category(enum stx_dtype t)
{
	enum stx_dtype_kind k = stx_dtype_kind(t);
	return k == STX_KIND_BOOL ? 0 : k == STX_KIND_FLOAT ? 2 : 1;
}

static enum stx_dtype combine(enum stx_dtype high, int have_high, enum stx_dtype low, int have_low)
{
	if (!have_high || !have_low)
		return have_high ? high : low;
	return category(low) > category(high) ? stx_promote(high, low) : high;
}

enum stx_dtype stx__infer_common(const struct stx_node *n, uint32_t first)
{
	const struct stx_op_info *info = stx_op_info(n->op);
	struct promotion p = { .failed = 0 };
	for (uint32_t i = first; i < n->nargs; i++) {
		const struct stx_arg *a = &n->args[i];
		if (a->kind == STX_ARG_TENSOR)
			promotion_tensor(&p, a->u.tensor);
		else if (a->kind == STX_ARG_TENSORS)
			for (uint32_t k = 0; k < a->n; k++) {
				if (a->u.tensors[k].node)
					promotion_tensor(&p, a->u.tensors[k]);
			}
		else if (a->kind == STX_ARG_SCALAR && strcmp(info->params[i].name, "alpha") != 0)
			promotion_add(&p, 2,
				      a->is_float  ? STX_F32
				      : a->is_bool ? STX_BOOL
						   : STX_I64);
	}
	if (p.failed)
		return STX_DTYPE_NONE;
	enum stx_dtype low = combine(p.zero, p.seen[1], p.number, p.seen[2]);
	return combine(p.dim, p.seen[0], low, p.seen[1] || p.seen[2]);
}

stx_err stx__infer_no_common(const struct stx_node *n, struct stx_diag *d)
{
	return STX__INFER_FAIL(d, n,
			       "the operand types of %s have no common type; convert one of them",
			       stx_op_info(n->op)->overload);
}

enum stx_dtype stx_infer_operand_dtype(const struct stx_node *n)
{
	const struct stx_op_info *info = stx_op_info(n->op);
	uint32_t first = n->op == STX_OP_WHERE ? 1 : 0;
	if (info->category != STX_CAT_POINTWISE || n->nargs == 0 ||
	    (n->args[0].kind != STX_ARG_TENSOR && n->args[0].kind != STX_ARG_SCALAR))
		return STX_DTYPE_NONE;
	if (n->op == STX_OP_LOGICAL_AND || n->op == STX_OP_LOGICAL_OR ||
	    n->op == STX_OP_LOGICAL_XOR || n->op == STX_OP_LOGICAL_NOT)
		return STX_BOOL;
	if (info->promote == STX_PROMOTE_SAME)
		return stx__infer_type(n, 0)->dtype;
	enum stx_dtype t = stx__infer_common(n, first);
	int divides = (n->op == STX_OP_DIV_MODE || n->op == STX_OP_DIV_SCALAR_MODE) &&
		      n->args[2].kind == STX_ARG_NONE;
	if ((info->promote == STX_PROMOTE_FLOAT || divides) && t != STX_DTYPE_NONE &&
	    !stx_dtype_is_float(t))
		t = STX_F32;
	return t;
}

/* ---- broadcasting ---- */

/* Broadcast of one pair of sizes; 0 when they do not match. Equal symbolic sizes are equal ids. */
static int broadcast_size(struct stx_graph *g, stx_ex a, stx_ex b, stx_ex *out)
{
	if (a == b || stx_ex_equals(g->ex, b, 1))
		*out = a;
	else if (stx_ex_equals(g->ex, a, 1))
		*out = b;
	else
		return 0;
	return 1;
}

void stx__infer_size_text(struct stx_graph *g, stx_ex e, char out[48])
{
	int64_t v;
	if (stx_ex_is_const(g->ex, e, &v))
		snprintf(out, 48, "%lld", (long long)v);
	else
		snprintf(out, 48, "a symbolic size (hint %lld)", (long long)stx_ex_hint(g->ex, e));
}

const char *stx__infer_shown(struct stx_graph *g, const struct stx_type *t)
{
	struct stx_bytes b = { 0 };
	stx__print_type(g, t, &b);
	const char *s = b.oom ? NULL : stx_arena_printf(g->arena, "%.160s", stx_bytes_cstr(&b));
	stx_bytes_free(&b);
	return s ? s : "a tensor";
}

int stx__infer_is_static(struct stx_graph *g, const stx_ex *sizes, uint32_t rank)
{
	int64_t v;
	for (uint32_t i = 0; i < rank; i++)
		if (!stx_ex_is_const(g->ex, sizes[i], &v))
			return 0;
	return 1;
}

/* out->sizes must have room for STX_MAX_DIMS. */
static stx_err broadcast(struct stx_graph *g, const char *name, const struct stx_type *const *types,
			 uint32_t n, uint32_t *rank, stx_ex *sizes, struct stx_diag *d)
{
	*rank = 0;
	for (uint32_t i = 0; i < n; i++)
		*rank = types[i]->rank > *rank ? types[i]->rank : *rank;
	for (uint32_t k = 0; k < *rank; k++)
		sizes[k] = stx_ex_const(g->ex, 1);
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t k = 0; k < types[i]->rank; k++) {
			uint32_t at = *rank - types[i]->rank + k;
			if (broadcast_size(g, sizes[at], types[i]->sizes[k], &sizes[at]))
				continue;
			char a[48], b[48];
			stx__infer_size_text(g, sizes[at], a);
			stx__infer_size_text(g, types[i]->sizes[k], b);
			return stx_fail(d, STX_E_INVALID, "infer", name,
					"shapes do not broadcast: %s and %s at dimension %u of %u",
					a, b, at, *rank);
		}
	}
	return 0;
}

stx_err stx_infer_broadcast(struct stx_graph *g, const struct stx_type *const *types, uint32_t n,
			    struct stx_type *out, struct stx_diag *d)
{
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t rank;
	stx_err e = broadcast(g, "", types, n, &rank, sizes, d);
	if (e)
		return e;
	out->rank = (uint8_t)rank;
	out->sizes = stx_arena_copy(g->arena, sizes, rank * sizeof *sizes);
	if (!out->sizes)
		return stx_fail(d, STX_E_TOO_LARGE, "infer", "", "over the memory budget");
	return 0;
}

/* Sets the result of a pointwise node: all tensor arguments broadcast, with dtype t. */
static stx_err set_broadcast(struct stx_graph *g, struct stx_node *n, enum stx_dtype t,
			     struct stx_diag *d)
{
	const struct stx_type *types[8];
	stx_ex sizes[STX_MAX_DIMS];
	uint32_t nt = 0, rank;
	for (uint32_t i = 0; i < n->nargs && nt < 8; i++)
		if (n->args[i].kind == STX_ARG_TENSOR)
			types[nt++] = stx__infer_type(n, i);
	stx_err e = broadcast(g, n->name, types, nt, &rank, sizes, d);
	return e ? e : stx__infer_set(g, n, t, rank, sizes, d);
}

/* ---- inputs ---- */

stx_err stx_shape_none(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	(void)g;
	(void)d;
	return n->nouts == 1 ? 0 : STX__INFER_FAIL(d, n, "an input must state its type");
}

/* ---- pointwise ---- */

stx_err stx__infer_not_for(const struct stx_node *n, enum stx_dtype t, struct stx_diag *d)
{
	return stx_fail(d, STX_E_INVALID, "infer", n->name, "%s does not accept %s operands",
			stx_op_info(n->op)->overload, stx_dtype_name(t));
}

/* Which operand types an operator refuses beyond what its primitive says. Booleans: addition and
 * multiplication stand for or, and; rounding and the predicates accept integers and change nothing.
 */
static int accepts(const struct stx_node *n, enum stx_dtype t)
{
	int prim = stx_op_info(n->op)->prim;
	enum stx_dtype_kind k = stx_dtype_kind(t);
	switch (n->op) {
	case STX_OP_ADD:
	case STX_OP_ADD_SCALAR:
	case STX_OP_MUL:
	case STX_OP_MUL_SCALAR:
	case STX_OP_WHERE:
	case STX_OP_CLONE:
	case STX_OP_SIGN: return 1;
	case STX_OP_FLOOR:
	case STX_OP_CEIL:
	case STX_OP_TRUNC:
	case STX_OP_ROUND:
	case STX_OP_SUB:
	case STX_OP_SUB_SCALAR:
	case STX_OP_RSUB_SCALAR:
	case STX_OP_REMAINDER:
	case STX_OP_CLAMP:
	case STX_OP_DIV_MODE:
	case STX_OP_DIV_SCALAR_MODE:
	case STX_OP_RSUB:
	case STX_OP_FMOD_SCALAR:
	case STX_OP_REMAINDER_SCALAR:
	case STX_OP_FLOOR_DIVIDE: return k != STX_KIND_BOOL;
	case STX_OP_RECIPROCAL: return k == STX_KIND_FLOAT;
	default: return prim < 0 || stx_prim_accepts((enum stx_prim)prim, t);
	}
}

/* alpha of add and sub: integers take no fractional factor. */
static stx_err check_alpha(const struct stx_node *n, enum stx_dtype t, struct stx_diag *d)
{
	const struct stx_op_info *info = stx_op_info(n->op);
	for (uint32_t i = 0; i < n->nargs; i++)
		if (!strcmp(info->params[i].name, "alpha") && n->args[i].is_float &&
		    !stx_dtype_is_float(t))
			return STX__INFER_FAIL(d, n, "alpha must be an integer for %s operands",
					       stx_dtype_name(t));
	return 0;
}

stx_err stx_shape_pointwise(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	enum stx_promote promote = stx_op_info(n->op)->promote;
	enum stx_dtype t = promote == STX_PROMOTE_SAME ? stx__infer_type(n, 0)->dtype
						       : stx__infer_common(n, 0);
	if (t == STX_DTYPE_NONE)
		return stx__infer_no_common(n, d);
	if (promote == STX_PROMOTE_FLOAT && !stx_dtype_is_float(t))
		t = STX_F32;
	if (!accepts(n, t))
		return stx__infer_not_for(n, t, d);
	stx_err e = check_alpha(n, t, d);
	if (e)
		return e;
	if (n->op == STX_OP_POW_SCALAR && !stx_dtype_is_float(t) && n->args[1].u.i < 0)
		return STX__INFER_FAIL(d, n, "an integer raised to a negative integer power");
	e = stx__infer_operand_numbers(n, t, d);
	return e ? e : set_broadcast(g, n, promote == STX_PROMOTE_BOOL ? STX_BOOL : t, d);
}

stx_err stx_shape_clamp_tensor(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	if (n->args[1].kind != STX_ARG_TENSOR && n->args[2].kind != STX_ARG_TENSOR)
		return STX__INFER_FAIL(d, n, "at least one of min and max must be given");
	return stx_shape_pointwise(g, n, d);
}

/* The written form: out is what the other two give. */
stx_err stx_shape_atan2_out(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	uint32_t nargs = n->nargs;
	n->nargs = 2;
	stx_err e = stx_shape_pointwise(g, n, d);
	n->nargs = nargs;
	if (!e && !stx_type_eq(&n->outs[0], stx__infer_type(n, 2)))
		e = STX__INFER_FAIL(d, n, "out must have the result's shape and type");
	return e;
}

stx_err stx_shape_div_mode(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const char *mode = n->args[2].kind == STX_ARG_NONE ? NULL : n->args[2].u.str;
	if (mode && strcmp(mode, "floor") != 0 && strcmp(mode, "trunc") != 0)
		return STX__INFER_FAIL(
			d, n, "rounding_mode is '%.32s'; it must be 'floor', 'trunc' or None",
			mode);
	enum stx_dtype t = stx_infer_operand_dtype(n);
	if (t == STX_DTYPE_NONE)
		return stx__infer_no_common(n, d);
	if (!accepts(n, t))
		return stx__infer_not_for(n, t, d);
	stx_err e = stx__infer_operand_numbers(n, t, d);
	return e ? e : set_broadcast(g, n, t, d);
}

/* Operands are compared with 0 first: any dtype. */
stx_err stx_shape_logical(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	return set_broadcast(g, n, STX_BOOL, d);
}

stx_err stx_shape_bitwise(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	enum stx_dtype t = stx__infer_common(n, 0);
	if (t == STX_DTYPE_NONE)
		return stx__infer_no_common(n, d);
	if (!accepts(n, t))
		return stx__infer_not_for(n, t, d);
	stx_err e = stx__infer_operand_numbers(n, t, d);
	return e ? e : set_broadcast(g, n, t, d);
}

stx_err stx_shape_predicate(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	return set_broadcast(g, n, STX_BOOL, d);
}

stx_err stx_shape_where(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	if (stx__infer_type(n, 0)->dtype != STX_BOOL)
		return STX__INFER_FAIL(d, n, "the condition must be bool, it is %s",
				       stx_dtype_name(stx__infer_type(n, 0)->dtype));
	enum stx_dtype t = stx__infer_common(n, 1);
	return t == STX_DTYPE_NONE ? stx__infer_no_common(n, d) : set_broadcast(g, n, t, d);
}

stx_err stx_shape_to_copy(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	enum stx_dtype t = n->args[1].kind == STX_ARG_NONE ? x->dtype : n->args[1].u.dtype;
	return stx__infer_set(g, n, t, x->rank, x->sizes, d);
}

/* The same bytes as another type: another width changes the last dimension (PyTorch view.dtype). */
stx_err stx_shape_view_dtype(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	enum stx_dtype t = n->args[1].u.dtype;
	int from = stx_dtype_bytes(x->dtype), to = stx_dtype_bytes(t);
	stx_ex sizes[STX_MAX_DIMS];
	int64_t last;
	if (from == to)
		return stx__infer_set(g, n, t, x->rank, x->sizes, d);
	if (!x->rank)
		return STX__INFER_FAIL(d, n,
				       "a 0-d %s cannot be seen as %s, which has another width",
				       stx_dtype_name(x->dtype), stx_dtype_name(t));
	if (!stx_ex_is_const(g->ex, x->sizes[x->rank - 1], &last))
		return STX__INFER_FAIL(d, n, "the last dimension must be a fixed size");
	if (from < to && last % (to / from))
		return STX__INFER_FAIL(d, n, "a last dimension of %lld %s does not divide into %s",
				       (long long)last, stx_dtype_name(x->dtype),
				       stx_dtype_name(t));
	memcpy(sizes, x->sizes, x->rank * sizeof *sizes);
	sizes[x->rank - 1] =
		stx_ex_const(g->ex, from > to ? last * (from / to) : last / (to / from));
	return stx__infer_set(g, n, t, x->rank, sizes, d);
}

static stx_err check_approximate(const struct stx_node *n, const char *form, struct stx_diag *d)
{
	if (!strcmp(form, "none") || !strcmp(form, "tanh"))
		return 0;
	return STX__INFER_FAIL(d, n, "approximate is '%.32s'; it must be 'none' or 'tanh'", form);
}

/* Composite activations: shape and dtype of a floating-point operand. */
stx_err stx_shape_same(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	if (!stx_dtype_is_float(x->dtype))
		return stx__infer_not_for(n, x->dtype, d);
	stx_err e = n->op == STX_OP_GELU ? check_approximate(n, n->args[1].u.str, d) : 0;
	return e ? e : stx__infer_set(g, n, x->dtype, x->rank, x->sizes, d);
}

/* Integers too, within limits that are of their type once fractions are dropped. */
stx_err stx_shape_hardtanh(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	if (x->dtype == STX_BOOL)
		return stx__infer_not_for(n, x->dtype, d);
	stx_err e = stx__infer_operand_numbers(n, x->dtype, d);
	return e ? e : stx__infer_set(g, n, x->dtype, x->rank, x->sizes, d);
}

/* Gradient and operand broadcast and promote, as PyTorch's. */
stx_err stx_shape_gelu_backward(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	enum stx_dtype t = stx__infer_common(n, 0);
	if (t == STX_DTYPE_NONE)
		return stx__infer_no_common(n, d);
	if (!stx_dtype_is_float(t))
		return stx__infer_not_for(n, t, d);
	stx_err e = check_approximate(n, n->args[2].u.str, d);
	return e ? e : set_broadcast(g, n, t, d);
}

/* ---- creation ---- */

/* Type of a result made of numbers [0, n): the one stated, else PyTorch's default. */
static enum stx_dtype created(const struct stx_arg *numbers, uint32_t n,
			      const struct stx_arg *dtype)
{
	int bools = 1;
	if (dtype->kind == STX_ARG_DTYPE)
		return dtype->u.dtype;
	for (uint32_t i = 0; i < n; i++) {
		if (numbers[i].is_float)
			return STX_F32;
		bools &= numbers[i].is_bool;
	}
	return bools ? STX_BOOL : STX_I64;
}

stx_err stx_shape_full(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_arg *s = &n->args[0];
	for (uint32_t i = 0; i < s->n; i++)
		if (stx_ex_interval(g->ex, s->u.exs[i]).lo < 0)
			return STX__INFER_FAIL(d, n, "size %u is or may be negative", i);
	enum stx_dtype t = created(&n->args[1], 1, &n->args[2]);
	stx_err e = stx__infer_fill(n, &n->args[1], t, d);
	return e ? e : stx__infer_set(g, n, t, s->n, s->u.exs, d);
}

stx_err stx_shape_full_like(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	enum stx_dtype t = n->args[2].kind == STX_ARG_DTYPE ? n->args[2].u.dtype : x->dtype;
	stx_err e = stx__infer_fill(n, &n->args[1], t, d);
	return e ? e : stx__infer_set(g, n, t, x->rank, x->sizes, d);
}

static double scalar_f(const struct stx_arg *a)
{
	return a->is_float ? a->u.f : (double)a->u.i;
}

/* Truncates a scalar to an integer; 0 when it has none. */
static int scalar_i(const struct stx_arg *a, int64_t *out)
{
	if (!a->is_float) {
		*out = a->u.i;
		return 1;
	}
	if (!(a->u.f > -9.2e18 && a->u.f < 9.2e18))
		return 0;
	*out = (int64_t)a->u.f;
	return 1;
}

/* Number of elements of arange: exact for integers and of i64, whose bounds are truncated first;
 * ceil((end - start)/step) in f64 otherwise, for narrower integers too, as PyTorch. */
static stx_err arange_count(const struct stx_node *n, enum stx_dtype t, int64_t *count,
			    struct stx_diag *d)
{
	const struct stx_arg *a = n->args;
	int ints = !(a[0].is_float || a[1].is_float || a[2].is_float);
	if (t == STX_I64 || ints) {
		int64_t start, end, step;
		if (!scalar_i(&a[0], &start) || !scalar_i(&a[1], &end) || !scalar_i(&a[2], &step))
			return STX__INFER_FAIL(d, n, "a bound is outside 64-bit integers");
		if (step == 0)
			return STX__INFER_FAIL(d, n, "step must not be 0");
		__int128 span = (__int128)end - start, by = step;
		if (by < 0) {
			span = -span;
			by = -by;
		}
		if (span < 0)
			return STX__INFER_FAIL(d, n,
					       "the bounds do not agree with the sign of step");
		__int128 c = (span + by - 1) / by;
		*count = c > INT64_MAX ? INT64_MAX : (int64_t)c;
		return 0;
	}
	double c = ceil((scalar_f(&a[1]) - scalar_f(&a[0])) / scalar_f(&a[2]));
	if (!(c >= 0))
		return STX__INFER_FAIL(d, n,
				       "start, end and step give no finite number of elements");
	*count = c >= 9e18 ? INT64_MAX : (int64_t)c;
	return 0;
}

stx_err stx_shape_arange(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	enum stx_dtype t = created(n->args, 3, &n->args[3]);
	int64_t count = 0;
	stx_err e = arange_count(n, t, &count, d);
	if (e)
		return e;
	stx_ex size = stx_ex_const(g->ex, count);
	return stx__infer_set(g, n, t, 1, &size, d);
}

/* ---- effects ---- */

stx_err stx_shape_assert_(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	int64_t one;
	stx_ex numel = stx_type_numel(g, stx__infer_type(n, 0));
	if (!stx_ex_is_const(g->ex, numel, &one) || one != 1)
		return STX__INFER_FAIL(d, n, "the condition must have exactly one element");
	n->outs = NULL;
	n->nouts = 0;
	return 0;
}

stx_err stx_infer_node(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	return stx_op_info(n->op)->shape(g, n, d);
}
