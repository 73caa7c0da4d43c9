/* infer_memory.c: result types of copies, of memory seen with other strides, of lists of parts, of
 * sizes; and operators whose result depends on data, which are refused. */
#include <string.h>

#include "graph_internal.h"
#include "infer.h"

stx_err stx_shape_identity(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	stx_err e = n->nargs > 1 ? stx__infer_fill(n, &n->args[1], x->dtype, d) : 0;
	return e ? e : stx__infer_set(g, n, x->dtype, x->rank, x->sizes, d);
}

/* self with the elements of another tensor, which broadcasts to it. */
stx_err stx_shape_copy(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0), *v = stx__infer_type(n, 1);
	int ok = v->rank <= x->rank && (n->op == STX_OP_COPY || v->rank == 0);
	for (uint32_t i = 0; ok && i < v->rank; i++)
		ok = v->sizes[i] == x->sizes[x->rank - v->rank + i] ||
		     stx_ex_equals(g->ex, v->sizes[i], 1);
	if (!ok)
		return STX__INFER_FAIL(d, n, "the value does not broadcast to self's shape");
	return stx_shape_identity(g, n, d);
}

stx_err stx_shape_empty(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_arg *s = &n->args[0], *t = &n->args[n->nargs - 1];
	for (uint32_t i = 0; i < s->n; i++)
		if (stx_ex_interval(g->ex, s->u.exs[i]).lo < 0)
			return STX__INFER_FAIL(d, n, "size %u is or may be negative", i);
	if (n->op == STX_OP_EMPTY_STRIDED && n->args[1].n != s->n)
		return STX__INFER_FAIL(d, n, "%u strides for %u sizes", n->args[1].n, s->n);
	return stx__infer_set(g, n, t->kind == STX_ARG_DTYPE ? t->u.dtype : STX_F32, s->n, s->u.exs,
			      d);
}

stx_err stx_shape_scalar_tensor(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_arg *t = &n->args[1];
	enum stx_dtype own = t->kind == STX_ARG_DTYPE ? t->u.dtype : STX_F32;
	stx_err e = stx__infer_fill(n, &n->args[0], own, d);
	return e ? e : stx__infer_set(g, n, own, 0, NULL, d);
}

/* ---- parts ---- */

static stx_err set_parts(struct stx_graph *g, struct stx_node *n, uint32_t count,
			 struct stx_diag *d)
{
	struct stx_type first = n->outs[0];
	struct stx_type *outs = STX_NEW_ARRAY(g->arena, struct stx_type, count);
	if (!outs)
		return stx_fail(d, STX_E_TOO_LARGE, "infer", n->name, "over the memory budget");
	for (uint32_t i = 0; i < count; i++)
		outs[i] = first;
	n->outs = outs;
	n->nouts = count;
	return 0;
}

stx_err stx_shape_split(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	const struct stx_arg *a = &n->args[1];
	uint32_t dim, count;
	int64_t size, part, sum = 0;
	stx_ex sizes[STX_MAX_DIMS];
	if (x->rank == 0)
		return STX__INFER_FAIL(d, n, "a 0-d tensor has no parts");
	stx_err e = stx__infer_dim(g, n, n->args[n->nargs - 1].u.ex, x->rank, &dim, d);
	if (e)
		return e;
	if (!stx_ex_is_const(g->ex, x->sizes[dim], &size))
		return stx_fail(d, STX_E_UNSUPPORTED, "infer", n->name,
				"parts of a dimension of symbolic size");
	part = 1;
	if (n->op == STX_OP_SPLIT &&
	    (!stx_ex_is_const(g->ex, a->u.ex, &part) || part < 0 || (part == 0 && size)))
		return STX__INFER_FAIL(d, n, "split_size must be positive");
	int64_t parts = n->op == STX_OP_SPLIT_SIZES ? a->n
			: n->op == STX_OP_UNBIND    ? size
			: size                      ? (size - 1) / part + 1
						    : 1;
	if (parts > STX_MAX_RESULTS || parts < 1)
		return stx_fail(d, STX_E_UNSUPPORTED, "infer", n->name,
				"%lld parts; 1 to %d are offered", (long long)parts,
				STX_MAX_RESULTS);
	count = (uint32_t)parts;
	memcpy(sizes, x->sizes, x->rank * sizeof *sizes);
	if (n->op == STX_OP_UNBIND) {
		for (uint32_t i = dim; i + 1 < x->rank; i++)
			sizes[i] = sizes[i + 1];
		e = stx__infer_set(g, n, x->dtype, x->rank - 1u, sizes, d);
		return e ? e : set_parts(g, n, count, d);
	}
	e = stx__infer_set(g, n, x->dtype, x->rank, sizes, d);
	e = e ? e : set_parts(g, n, count, d);
	for (uint32_t i = 0; !e && i < count; i++) {
		if (n->op == STX_OP_SPLIT_SIZES &&
		    (!stx_ex_is_const(g->ex, a->u.exs[i], &part) || part < 0 || part > size))
			return STX__INFER_FAIL(d, n, "part %u has a size outside [0, %lld]", i,
					       (long long)size);
		int64_t left = size - sum;
		int64_t own = n->op == STX_OP_SPLIT && left < part ? left : part;
		sum += own;
		sizes[dim] = stx_ex_const(g->ex, own);
		n->outs[i].sizes = stx_arena_copy(g->arena, sizes, x->rank * sizeof *sizes);
		if (!n->outs[i].sizes)
			return stx_fail(d, STX_E_TOO_LARGE, "infer", n->name,
					"over the memory budget");
	}
	if (!e && sum != size)
		return STX__INFER_FAIL(d, n, "the parts have %lld elements, dimension %u has %lld",
				       (long long)sum, dim, (long long)size);
	return e;
}

/* ---- memory seen with other strides ---- */

const stx_ex *stx__input_strides(const struct stx_graph *g, const struct stx_node *n)
{
	uint32_t lo = 0, hi = g->inputs.n;
	while (lo < hi) { /* inputs stand in the order of their nodes */
		uint32_t mid = lo + (hi - lo) / 2;
		const struct stx_input *in = &g->inputs.at[mid];
		if (in->node == n)
			return in->strides;
		if (in->node->id < n->id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

/* Elements of x's memory, counted from its first one: of an input with strides up to the last that
 * it reaches. -1 when it is not a constant, -2 when x is a view of other memory. */
static int64_t memory_of(struct stx_graph *g, struct stx_val x)
{
	const struct stx_type *t = stx_val_type(x);
	int64_t n, total = 1, stride;
	if (stx_op_info(x.node->op)->category == STX_CAT_VIEW || x.node->op == STX_OP_VIEW_DTYPE)
		return -2;
	const stx_ex *strides = stx__input_strides(g, x.node);
	for (uint32_t i = 0; i < t->rank; i++) {
		if (!stx_ex_is_const(g->ex, t->sizes[i], &n))
			return -1;
		if (n == 0)
			return 0;
		if (!strides) {
			total *= n;
			continue;
		}
		if (!stx_ex_is_const(g->ex, strides[i], &stride) || stride < 0)
			return -1;
		total += (n - 1) * stride;
	}
	return total;
}

stx_err stx_shape_as_strided(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_arg *size = &n->args[1], *stride = &n->args[2];
	int64_t have = memory_of(g, n->args[0].u.tensor), last = 0, s, k, empty = 0;
	if (size->n != stride->n || size->n > STX_MAX_DIMS)
		return STX__INFER_FAIL(d, n, "%u sizes and %u strides", size->n, stride->n);
	if (have == -2)
		return stx_fail(d, STX_E_UNSUPPORTED, "infer", n->name,
				"as_strided of a view: take it of the tensor viewed, or clone the "
				"view first");
	if (n->args[3].kind != STX_ARG_NONE && !stx_ex_is_const(g->ex, n->args[3].u.ex, &last))
		last = -1;
	if (have < 0 || last < 0)
		return stx_fail(d, STX_E_UNSUPPORTED, "infer", n->name,
				"as_strided of symbolic sizes or strides");
	for (uint32_t i = 0; i < size->n; i++) {
		if (!stx_ex_is_const(g->ex, size->u.exs[i], &s) ||
		    !stx_ex_is_const(g->ex, stride->u.exs[i], &k) || s < 0 || k < 0)
			return STX__INFER_FAIL(d, n, "size or stride %u is negative or no constant",
					       i);
		empty |= s == 0;
		if (s && (__builtin_mul_overflow(s - 1, k, &k) ||
			  __builtin_add_overflow(last, k, &last)))
			return STX__INFER_FAIL(d, n, "the last element overflows 64 bits");
	}
	if (!empty && last >= have)
		return STX__INFER_FAIL(d, n, "element %lld is outside the %lld elements of memory",
				       (long long)last, (long long)have);
	return stx__infer_set(g, n, stx__infer_type(n, 0)->dtype, size->n, size->u.exs, d);
}

/* ---- sizes as 0-d tensors ---- */

stx_err stx_shape_sym_size(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	uint32_t dim = 0;
	stx_err e = n->op == STX_OP_SYM_NUMEL
			    ? 0
			    : stx__infer_dim(g, n, n->args[1].u.ex, x->rank, &dim, d);
	if (e)
		return e;
	if (n->op == STX_OP_SYM_SIZE && !x->rank)
		return STX__INFER_FAIL(d, n, "a 0-d tensor has no sizes");
	stx_ex v = n->op == STX_OP_SYM_NUMEL ? stx_type_numel(g, x) : x->sizes[dim];
	if (!stx_ex_is_const(g->ex, v, NULL))
		return stx_fail(d, STX_E_UNSUPPORTED, "infer", n->name,
				"a symbolic size as a value");
	return stx__infer_set(g, n, STX_I64, 0, NULL, d);
}

/* Known of an input, and of what is computed into memory of its own: dense and row-major. */
stx_err stx_shape_sym_stride(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	uint32_t dim = 0;
	if (memory_of(g, n->args[0].u.tensor) < 0)
		return stx_fail(d, STX_E_UNSUPPORTED, "infer", n->name,
				"the strides of a view or of symbolic sizes");
	if (n->op == STX_OP_SYM_STRIDE && !x->rank)
		return STX__INFER_FAIL(d, n, "a 0-d tensor has no strides");
	stx_err e = n->op == STX_OP_SYM_OFFSET
			    ? 0
			    : stx__infer_dim(g, n, n->args[1].u.ex, x->rank, &dim, d);
	return e ? e : stx__infer_set(g, n, STX_I64, 0, NULL, d);
}

/* ---- refused ---- */

stx_err stx_shape_refused(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	(void)g;
	const char *name = stx_op_info(n->op)->overload;
	if (n->op == STX_OP_LOCAL_SCALAR)
		return stx_fail(d, STX_E_UNSUPPORTED, "infer", n->name,
				"%s: a value of a tensor cannot become a number of the graph; keep "
				"it as a 0-d tensor",
				name);
	return stx_fail(d, STX_E_UNSUPPORTED, "infer", n->name,
			"%s: the shape of its result depends on data; use where or masked_scatter, "
			"or compute it outside the graph",
			name);
}
