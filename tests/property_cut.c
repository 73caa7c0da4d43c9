/* property_cut.c: a compiled run compared with the oracle node by node where results round
 * differently.
 *
 * requires: a verified graph with static sizes. The graph is cut at every inexact node: the oracle
 * evaluates that node from the compiled values of earlier ones, and everything behind it from its
 * compiled value. So all other nodes must have the oracle's bits, and each inexact one is held to
 * its own bound (RD-12): coefficient * unit roundoff * sum of absolute values, computed in f64 by
 * further nodes of the oracle's graph. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiled.h"
#include "passes.h"
#include "property_case.h"
#include "ref.h"
#include "scalar.h"

int prop_inexact(const struct stx_node *n)
{
	if (!n->nouts || !stx_dtype_is_float(n->outs[0].dtype))
		return 0;
	switch (n->op) {
	case STX_OP_SCATTER_REDUCE:
		return strcmp(n->args[4].u.str, "amax") && strcmp(n->args[4].u.str, "amin");
	case STX_OP_INDEX_PUT: return n->args[3].u.i != 0;
	case STX_OP_EMBEDDING_BACK:
	case STX_OP_SCATTER_ADD:
	case STX_OP_INDEX_ADD:
	case STX_OP_SUM:
	case STX_OP_SUM_DIM:
	case STX_OP_MEAN:
	case STX_OP_MEAN_DIM:
	case STX_OP_PROD_DIM:
	case STX_OP_PROD:
	case STX_OP_VAR:
	case STX_OP_VAR_DIM:
	case STX_OP_STD:
	case STX_OP_STD_DIM:
	case STX_OP_LOGSUMEXP:
	case STX_OP_MM:
	case STX_OP_BMM:
	case STX_OP_MATMUL:
	case STX_OP_ADDMM:
	case STX_OP_LINEAR:
	case STX_OP_SOFTMAX:
	case STX_OP_LOG_SOFTMAX:
	case STX_OP_SOFTMAX_INT:
	case STX_OP_LOG_SOFTMAX_INT:
	case STX_OP_LAYER_NORM:
	case STX_OP_CONVOLUTION:
	case STX_OP_AVG_POOL1D:
	case STX_OP_AVG_POOL2D:
	case STX_OP_AVG_POOL3D:
	case STX_OP_CUMSUM:
	case STX_OP_CUMPROD: return 1;
	default: return prop_window_inexact(n);
	}
}

int prop_has_product(const struct stx_graph *g)
{
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		enum stx_op op = g->nodes.at[i]->op;
		if (prop_inexact(g->nodes.at[i]) &&
		    (op == STX_OP_MM || op == STX_OP_BMM || op == STX_OP_MATMUL ||
		     op == STX_OP_ADDMM || op == STX_OP_LINEAR || op == STX_OP_CONVOLUTION ||
		     op == STX_OP_CONVOLUTION_BACKWARD))
			return 1;
	}
	return 0;
}

/* ---- copying graphs ---- */

struct stx_type prop_copy_type(struct stx_graph *to, const struct stx_graph *from,
			       const struct stx_type *t)
{
	int64_t sizes[STX_MAX_DIMS];
	for (int i = 0; i < t->rank; i++)
		if (!stx_ex_is_const(from->ex, t->sizes[i], &sizes[i]))
			sizes[i] = 0;
	return stx_type_make(to, t->dtype, t->rank, sizes);
}

static struct stx_arg copy_arg(struct stx_graph *to, const struct stx_graph *from,
			       const struct stx_arg *a, const struct stx_val *map)
{
	struct stx_arg r = *a;
	int64_t v = 0;
	if (a->kind == STX_ARG_TENSOR) {
		r.u.tensor = map[prop_at(a->u.tensor)];
	} else if (a->kind == STX_ARG_TENSORS) {
		r = stx_arg_tensors(to, a->u.tensors, a->n);
		for (uint32_t i = 0; i < a->n; i++)
			if (a->u.tensors[i].node)
				((struct stx_val *)(uintptr_t)r.u.tensors)[i] =
					map[prop_at(a->u.tensors[i])];
	} else if (a->kind == STX_ARG_INT) {
		stx_ex_is_const(from->ex, a->u.ex, &v);
		r.u.ex = stx_ex_const(to->ex, v);
	} else if (a->kind == STX_ARG_INTS) {
		stx_ex *e = STX_NEW_ARRAY(to->arena, stx_ex, a->n + 1);
		for (uint32_t i = 0; i < a->n; i++) {
			stx_ex_is_const(from->ex, a->u.exs[i], &v);
			e[i] = stx_ex_const(to->ex, v);
		}
		r.u.exs = e;
	}
	return r;
}

struct stx_val *prop_map_new(struct stx_arena *a, const struct stx_graph *g)
{
	return STX_NEW_ARRAY(a, struct stx_val, (size_t)PROP_MAX_OUTS * (g->nodes.n + 1));
}

void prop_map_node(struct stx_val *map, const struct stx_node *n, struct stx_node *m)
{
	for (uint32_t i = 0; i < n->nouts && i < PROP_MAX_OUTS; i++)
		map[n->id * PROP_MAX_OUTS + i] = stx_val(m, i);
}

struct stx_node *prop_copy_node(struct stx_graph *to, const struct stx_graph *from,
				const struct stx_node *n, const struct stx_val *map,
				struct stx_diag *d)
{
	struct stx_arg args[16];
	if (n->op == STX_OP_CONSTANT)
		return stx_graph_constant(to, n->name, prop_copy_type(to, from, &n->outs[0]),
					  n->data.bytes, n->data.n, d);
	for (uint32_t i = 0; i < n->nargs; i++)
		args[i] = copy_arg(to, from, &n->args[i], map);
	return stx_graph_call(to, n->op, n->name, args, n->nargs, d);
}

static struct stx_node *copy_input(struct stx_graph *to, const struct stx_graph *from,
				   const struct stx_input *in, struct stx_diag *d)
{
	stx_ex strides[STX_MAX_DIMS];
	for (int i = 0; in->strides && i < in->node->outs[0].rank; i++) {
		int64_t v = 0;
		stx_ex_is_const(from->ex, in->strides[i], &v);
		strides[i] = stx_ex_const(to->ex, v);
	}
	struct stx_node *n =
		stx_graph_input(to, in->node->name, prop_copy_type(to, from, &in->node->outs[0]),
				in->strides ? strides : NULL, in->node->is_param, d);
	if (n)
		n->is_donated = in->node->is_donated;
	return n;
}

struct prop_case *prop_compact(struct stx_arena *a, const struct prop_case *c)
{
	struct prop_case *to = STX_NEW(a, struct prop_case);
	struct stx_val *map = prop_map_new(a, c->g);
	const uint8_t *live = prop_live(a, c->g);
	struct stx_diag d = { 0 };
	*to = *c;
	to->g = stx_graph_new(a);
	for (uint32_t i = 0; i < c->g->inputs.n; i++)
		prop_map_node(map, c->g->inputs.at[i].node,
			      copy_input(to->g, c->g, &c->g->inputs.at[i], &d));
	for (uint32_t i = 0; i < c->g->nodes.n; i++) {
		const struct stx_node *n = c->g->nodes.at[i];
		if (live[i] && n->op != STX_OP_PLACEHOLDER)
			prop_map_node(map, n, prop_copy_node(to->g, c->g, n, map, &d));
	}
	for (uint32_t i = 0; i < c->g->outputs.n; i++)
		if (stx_graph_output(to->g, map[prop_at(c->g->outputs.at[i].val)], NULL, &d))
			abort();
	return to;
}

/* ---- tolerances, as nodes of the oracle's graph ---- */

struct bound {
	struct stx_graph *g;
	const struct stx_node *n; /* the inexact node, in g */
	enum stx_dtype t;         /* its dtype */
	double u;                 /* unit roundoff of its accumulator */
	double count;             /* elements in one sum */
	double coefficient;
};
typedef struct stx_node *node;

static node call(struct bound *b, enum stx_op op, uint32_t nargs, const struct stx_arg *args)
{
	struct stx_diag d = { 0 };
	node n = stx_graph_call(b->g, op, NULL, args, nargs, &d);
	if (!n) {
		fprintf(stderr, "tolerance of %s: %s\n", stx_op_info(b->n->op)->overload, d.text);
		abort();
	}
	return n;
}
#define CALL(op, ...)                                                                              \
	call(b, STX_OP_##op, sizeof((struct stx_arg[]){ __VA_ARGS__ }) / sizeof(struct stx_arg),   \
	     (struct stx_arg[]){ __VA_ARGS__ })
#define T(n)        stx_arg_node(n)
#define F(v)        stx_arg_scalar_f(v)
#define TIMES(n, v) CALL(MUL_SCALAR, T(n), F(v))

/* Operand i in f64, after the conversion to the result's dtype. */
static node operand(struct bound *b, uint32_t i)
{
	node x = CALL(TO_COPY, b->n->args[i], stx_arg_dtype(b->t));
	return CALL(TO_COPY, T(x), stx_arg_dtype(STX_F64));
}

static node size(struct bound *b, uint32_t i)
{
	return CALL(ABS, T(operand(b, i)));
}

static int is_var(enum stx_op op)
{
	return op == STX_OP_VAR || op == STX_OP_VAR_DIM || op == STX_OP_STD || op == STX_OP_STD_DIM;
}

/* Sum of x over the dimensions of this reduction. */
static node total(struct bound *b, node x)
{
	struct stx_arg dim = stx_arg_none(), keep = stx_arg_bool(0);
	if (b->n->op != STX_OP_SUM && b->n->op != STX_OP_MEAN) {
		dim = b->n->args[1];
		keep = b->n->args[is_var(b->n->op) ? 3 : 2];
	}
	return CALL(SUM_DIM, T(x), dim, keep);
}

static node bound_of_var(struct bound *b)
{
	const struct stx_arg *c = &b->n->args[2];
	double given = c->kind == STX_ARG_NONE ? 1 : c->is_float ? c->u.f : (double)c->u.i;
	node x = operand(b, 0);
	double by = b->count - given > 0 ? b->count - given : 0;
	node t = TIMES(total(b, CALL(MUL, T(x), T(x))), b->u * (2 * b->coefficient + 10) / by);
	if (b->n->op != STX_OP_STD && b->n->op != STX_OP_STD_DIM)
		return t;
	/* of the root: the root of t at most, t over the root where that is less; the variance may
	 * have been subnormal or less */
	t = CALL(ADD_SCALAR, T(t), F(b->t == STX_F64 ? 0x1p-1060 : 0x1p-135));
	node want = CALL(TO_COPY, T((node)(uintptr_t)b->n), stx_arg_dtype(STX_F64));
	node near = CALL(DIV, T(t), T(want)), far = CALL(SQRT, T(t));
	near = CALL(WHERE, T(CALL(LT, T(near), T(far))), T(near), T(far));
	/* not compared where the variance may leave the range that the root comes back into */
	node vast = CALL(GT_SCALAR, T(t), F(b->u * (b->t == STX_F64 ? 0x1p1000 : 0x1p120)));
	return CALL(WHERE, T(vast), T(CALL(FULL_LIKE, T(near), F(-1))), T(near));
}

/* Relative while no product of some of the elements can leave the range; -1 (not compared)
 * otherwise. */
static node bound_of_prod(struct bound *b)
{
	double top = b->t == STX_F64 ? 0x1p1000 : 0x1p127,
	       least = b->t == STX_F64 ? 0x1p-1000 : 0x1p-125;
	int all = b->n->op == STX_OP_PROD;
	node x = size(b, 0);
	if (all)
		x = CALL(VIEW, T(x), stx_arg_ints(b->g, (int64_t[]){ -1 }, 1));
	node one = CALL(FULL_LIKE, T(x), F(1));
	struct stx_arg dim = all ? stx_arg_int(b->g, 0) : b->n->args[1],
		       keep = all ? stx_arg_bool(0) : b->n->args[2];
	node above = CALL(MAXIMUM, T(x), T(one)), below = CALL(MINIMUM, T(x), T(one)), big, small;
	if (b->n->op == STX_OP_CUMPROD) {
		big = CALL(CUMPROD, T(above), dim);
		small = CALL(CUMPROD, T(below), dim);
	} else {
		big = CALL(PROD_DIM, T(above), dim, keep);
		small = CALL(PROD_DIM, T(below), dim, keep);
	}
	node safe = CALL(LOGICAL_AND, T(CALL(LT_SCALAR, T(big), F(top))),
			 T(CALL(GT_SCALAR, T(small), F(least))));
	node t = TIMES(CALL(MUL, T(big), T(small)), b->u * (b->count + 2));
	return CALL(WHERE, T(safe), T(t), T(CALL(FULL_LIKE, T(t), F(-1))));
}

/* y = (x - mean) * rstd * w + b: errors of the mean, of rstd, of the last operations. Not compared
 * where the variance is mostly rounding. */
static node bound_of_layer_norm(struct bound *b)
{
	uint32_t rank = b->n->outs[0].rank, k = b->n->args[1].n;
	int64_t dims[STX_MAX_DIMS];
	for (uint32_t i = 0; i < k; i++)
		dims[i] = rank - k + i;
	struct stx_arg over = stx_arg_ints(b->g, dims, k), keep = stx_arg_bool(1);
	node x = operand(b, 0);
	node mean = CALL(MEAN_DIM, T(x), over, keep), far = CALL(SUB, T(x), T(mean));
	node mean_size = CALL(MEAN_DIM, T(CALL(ABS, T(x))), over, keep);
	node square = CALL(MEAN_DIM, T(CALL(MUL, T(x), T(x))), over, keep);
	node var = CALL(ADD_SCALAR, T(CALL(MEAN_DIM, T(CALL(MUL, T(far), T(far))), over, keep)),
			F(b->n->args[4].u.f));
	node rstd = CALL(RSQRT, T(var));
	node of_rstd = CALL(ADD_SCALAR,
			    T(TIMES(CALL(DIV, T(square), T(var)), b->u * (b->coefficient + 5))),
			    F(4 * b->u));
	node of_far = CALL(ADD, T(TIMES(mean_size, b->u * (b->coefficient + 2))),
			   T(TIMES(CALL(ABS, T(far)), b->u)));
	node t = CALL(MUL, T(of_far), T(rstd));
	t = CALL(ADD, T(t), T(CALL(MUL, T(CALL(MUL, T(CALL(ABS, T(far))), T(rstd))), T(of_rstd))));
	if (b->n->args[2].kind == STX_ARG_TENSOR)
		t = CALL(MUL, T(t), T(size(b, 2)));
	if (b->n->args[3].kind == STX_ARG_TENSOR)
		t = CALL(ADD, T(t), T(TIMES(size(b, 3), 4 * b->u)));
	node vague =
		CALL(LOGICAL_OR, T(CALL(GT_SCALAR, T(of_rstd), F(0.05))),
		     T(CALL(LOGICAL_NOT,
			    T(CALL(LT_SCALAR, T(square), F(b->t == STX_F64 ? 1e300 : 1e36))))));
	/* NaN and infinite rows: want is NaN, compared as such */
	node bad = CALL(ISNAN, T(TIMES(square, 0)));
	vague = CALL(LOGICAL_AND, T(vague), T(CALL(LOGICAL_NOT, T(bad))));
	return CALL(WHERE, T(vague), T(CALL(FULL_LIKE, T(t), F(-1))), T(t));
}

static node product(struct bound *b)
{
	struct stx_arg two[] = { T(size(b, 0)), T(size(b, 1)) };
	struct stx_arg args[5];
	if (b->n->op == STX_OP_LINEAR) {
		args[0] = two[0];
		args[1] = two[1];
		args[2] = b->n->args[2].kind == STX_ARG_TENSOR ? T(size(b, 2)) : stx_arg_none();
		return call(b, STX_OP_LINEAR, 3, args);
	}
	if (b->n->op != STX_OP_ADDMM)
		return call(b, b->n->op, 2, two);
	for (uint32_t i = 0; i < 3; i++)
		args[i] = T(size(b, i));
	for (uint32_t i = 3; i < 5; i++)
		args[i] = F(fabs(b->n->args[i].is_float ? b->n->args[i].u.f
							: (double)b->n->args[i].u.i));
	return call(b, STX_OP_ADDMM, 5, args);
}

/* Updates in sequence: every one may add to one element. Products are not compared. */
static node bound_of_scatter(struct bound *b)
{
	struct stx_arg args[6];
	int put = b->n->op == STX_OP_INDEX_PUT, at = put ? 2 : 3;
	if (b->n->op == STX_OP_EMBEDDING_BACK) {
		struct stx_arg sized[8];
		memcpy(sized, b->n->args, b->n->nargs * sizeof *sized);
		sized[0] = T(size(b, 0));
		return TIMES(call(b, b->n->op, b->n->nargs, sized), b->u * (b->count + 6));
	}
	memcpy(args, b->n->args, b->n->nargs * sizeof *args);
	if (b->n->op == STX_OP_SCATTER_REDUCE && !strcmp(args[4].u.str, "prod"))
		return CALL(FULL_LIKE, T((node)(uintptr_t)b->n), F(-1), stx_arg_dtype(STX_F64));
	args[0] = T(size(b, 0));
	args[at] = T(size(b, (uint32_t)at));
	if (b->n->op == STX_OP_INDEX_ADD)
		args[4] = F(fabs(args[4].is_float ? args[4].u.f : (double)args[4].u.i));
	return TIMES(call(b, b->n->op, b->n->nargs, args), b->u * (b->count + 4));
}

/* The node with its first `tensors` operands replaced by their sizes. */
static node of_sizes(struct bound *b, uint32_t tensors)
{
	struct stx_arg args[16];
	memcpy(args, b->n->args, b->n->nargs * sizeof *args);
	for (uint32_t i = 0; i < tensors; i++)
		if (args[i].kind == STX_ARG_TENSOR)
			args[i] = T(size(b, i));
	if (b->n->op == STX_OP_CUMSUM)
		args[2] = stx_arg_dtype(STX_F64);
	return call(b, b->n->op, b->n->nargs, args);
}

/* Absolute tolerance of b->n as a node of the graph, and *relative to the wanted value. */
static node tolerance(struct bound *b, double *relative)
{
	double c = b->coefficient,
	       reach = b->t == STX_F64 ? 760 : 110; /* largest |x - max| that is not 0 */
	*relative = 0;
	if (prop_window_inexact(b->n))
		return prop_window_tolerance(b->g, b->n, b->u);
	switch (b->n->op) {
	case STX_OP_EMBEDDING_BACK:
	case STX_OP_SCATTER_REDUCE:
	case STX_OP_SCATTER_ADD:
	case STX_OP_INDEX_ADD:
	case STX_OP_INDEX_PUT: return bound_of_scatter(b);
	case STX_OP_SUM:
	case STX_OP_SUM_DIM: return TIMES(total(b, size(b, 0)), c * b->u);
	case STX_OP_MEAN:
	case STX_OP_MEAN_DIM: return TIMES(total(b, size(b, 0)), (c + 2) * b->u / b->count);
	case STX_OP_PROD:
	case STX_OP_PROD_DIM: return bound_of_prod(b);
	case STX_OP_VAR:
	case STX_OP_VAR_DIM:
	case STX_OP_STD:
	case STX_OP_STD_DIM: return bound_of_var(b);
	case STX_OP_LAYER_NORM: return bound_of_layer_norm(b);
	case STX_OP_LOGSUMEXP:
	case STX_OP_LOG_SOFTMAX:
	case STX_OP_LOG_SOFTMAX_INT:
		*relative = 4 * b->u;
		return CALL(FULL_LIKE, T((node)(uintptr_t)b->n),
			    F((c + 20 + log(b->count + 1)) * b->u), stx_arg_dtype(STX_F64));
	case STX_OP_SOFTMAX:
	case STX_OP_SOFTMAX_INT:
		*relative = (c + 20 + reach) * b->u;
		return CALL(FULL_LIKE, T((node)(uintptr_t)b->n), F(0), stx_arg_dtype(STX_F64));
	case STX_OP_ADDMM: /* a basis composite: the product is rounded before its epilogue */
		return TIMES(product(b), (b->count + 8) * b->u + 3 * prop_limits(b->t).roundoff);
	case STX_OP_LINEAR:
		return TIMES(product(b),
			     (b->count + 8) * b->u + (b->n->args[2].kind == STX_ARG_TENSOR
							      ? 2 * prop_limits(b->t).roundoff
							      : 0));
	case STX_OP_CONVOLUTION: return TIMES(of_sizes(b, 3), (b->count + 5) * b->u);
	case STX_OP_AVG_POOL1D:
	case STX_OP_AVG_POOL2D:
	case STX_OP_AVG_POOL3D: return TIMES(of_sizes(b, 1), (c + 4) * b->u);
	case STX_OP_CUMSUM: { /* blocks of 16, level by level */
		double levels = 1 + ceil(log2(b->count + 1) / 4), most = levels * (16 + 6 + 4 + 4);
		return TIMES(of_sizes(b, 1), (b->count < most ? b->count : most) * b->u);
	}
	case STX_OP_CUMPROD: return bound_of_prod(b);
	default: return TIMES(product(b), (b->count + 3) * b->u);
	}
}

static double numel(const struct stx_graph *g, const struct stx_type *t)
{
	double n = 1;
	for (int i = 0; i < t->rank; i++) {
		int64_t v = 0;
		stx_ex_is_const(g->ex, t->sizes[i], &v);
		n *= (double)v;
	}
	return n;
}

/* Elements that one result is summed from. */
static double count_of(const struct stx_graph *g, const struct stx_node *n)
{
	const struct stx_type *x = stx_val_type(n->args[n->op == STX_OP_ADDMM ? 1 : 0].u.tensor);
	int64_t v = 1, dim = 0;
	switch (n->op) {
	case STX_OP_SCATTER_REDUCE:
	case STX_OP_SCATTER_ADD:
	case STX_OP_INDEX_ADD: return numel(g, stx_val_type(n->args[3].u.tensor));
	case STX_OP_EMBEDDING_BACK: return numel(g, stx_val_type(n->args[0].u.tensor));
	case STX_OP_INDEX_PUT: {
		double most = 1; /* broadcast together */
		for (uint32_t i = 0; i < n->args[1].n; i++)
			if (n->args[1].u.tensors[i].node)
				most *= numel(g, stx_val_type(n->args[1].u.tensors[i]));
		return most;
	}
	case STX_OP_MM:
	case STX_OP_BMM:
	case STX_OP_MATMUL:
	case STX_OP_ADDMM:
	case STX_OP_LINEAR: stx_ex_is_const(g->ex, x->sizes[x->rank - 1], &v); return (double)v;
	case STX_OP_SOFTMAX:
	case STX_OP_LOG_SOFTMAX:
	case STX_OP_SOFTMAX_INT:
	case STX_OP_LOG_SOFTMAX_INT:
		stx_ex_is_const(g->ex, n->args[1].u.ex, &dim);
		if (x->rank)
			stx_ex_is_const(g->ex, x->sizes[dim < 0 ? dim + x->rank : dim], &v);
		return (double)v;
	case STX_OP_LAYER_NORM:
		for (uint32_t i = 0; i < n->args[1].n; i++) {
			stx_ex_is_const(g->ex, n->args[1].u.exs[i], &dim);
			v *= dim;
		}
		return (double)v;
	case STX_OP_CUMSUM:
	case STX_OP_CUMPROD:
		stx_ex_is_const(g->ex, n->args[1].u.ex, &dim);
		if (x->rank)
			stx_ex_is_const(g->ex, x->sizes[dim < 0 ? dim + x->rank : dim], &v);
		return (double)v;
	case STX_OP_CONVOLUTION: {
		const struct stx_type *w = stx_val_type(n->args[1].u.tensor);
		int64_t groups = 1, channels = 1;
		stx_ex_is_const(g->ex, n->args[8].u.ex, &groups);
		stx_ex_is_const(g->ex, x->sizes[1], &channels);
		for (int i = 2; i < w->rank; i++) {
			stx_ex_is_const(g->ex, w->sizes[i], &dim);
			v *= dim;
		}
		return (double)(v * channels / groups);
	}
	case STX_OP_AVG_POOL1D:
	case STX_OP_AVG_POOL2D:
	case STX_OP_AVG_POOL3D: { /* one value may stand for every dimension */
		double most = 1;
		for (uint32_t i = 0; i < 3; i++) {
			stx_ex_is_const(g->ex, n->args[1].u.exs[i < n->args[1].n ? i : 0], &dim);
			most *= (double)dim;
		}
		return most;
	}
	default: {
		double out = numel(g, &n->outs[0]);
		return out > 0 ? numel(g, x) / out : 0;
	}
	}
}

static struct bound bound_make(struct stx_graph *g, const struct stx_node *n)
{
	struct bound b = { .g = g, .n = n, .t = n->outs[0].dtype };
	b.u = b.t == STX_F64 ? 0x1p-53 : 0x1p-24;
	b.count = count_of(g, n);
	/* kernel.h: 16 values in sequence and 64 lanes merged in 6 steps at most, then pairwise
	 * (RD-07, RD-09); loops within loops may leave one step more a loop */
	double merged = 16 + 6 + 4 + ceil(log2(b.count + 1));
	b.coefficient = b.count < merged ? b.count : merged;
	return b;
}

/* ---- the cut ---- */

void prop_mark_operands(const struct stx_node *n, uint8_t *live)
{
	for (uint32_t k = 0; k < n->nargs; k++) {
		const struct stx_arg *a = &n->args[k];
		if (a->kind == STX_ARG_TENSOR)
			live[a->u.tensor.node->id] = 1;
		for (uint32_t j = 0; a->kind == STX_ARG_TENSORS && j < a->n; j++)
			if (a->u.tensors[j].node)
				live[a->u.tensors[j].node->id] = 1;
	}
}

uint8_t *prop_live(struct stx_arena *a, const struct stx_graph *g)
{
	uint8_t *live = STX_NEW_ARRAY(a, uint8_t, g->nodes.n + 1);
	for (uint32_t i = 0; i < g->outputs.n; i++)
		live[g->outputs.at[i].val.node->id] = 1;
	for (uint32_t i = g->nodes.n; i-- > 0;)
		if (live[i])
			prop_mark_operands(g->nodes.at[i], live);
	return live;
}

stx_err prop_cut(struct stx_arena *a, const struct stx_graph *g, struct prop_cut *out,
		 struct stx_diag *d)
{
	struct stx_val *run = prop_map_new(a, g), *oracle = prop_map_new(a, g);
	struct stx_node *inexact[PROP_MAX_OUTPUTS], *computed[PROP_MAX_OUTPUTS];
	uint8_t *live = prop_live(a, g);
	memset(out, 0, sizeof *out);
	out->arena = a;
	out->run = stx_graph_new(a);
	out->oracle = stx_graph_new(a);
	for (uint32_t i = 0; i < g->inputs.n; i++) {
		const struct stx_node *n = g->inputs.at[i].node;
		prop_map_node(run, n, copy_input(out->run, g, &g->inputs.at[i], d));
		prop_map_node(oracle, n, copy_input(out->oracle, g, &g->inputs.at[i], d));
	}
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		const struct stx_node *n = g->nodes.at[i];
		if (!live[i] || n->op == STX_OP_PLACEHOLDER)
			continue;
		struct stx_node *x = prop_copy_node(out->run, g, n, run, d);
		struct stx_node *y = prop_copy_node(out->oracle, g, n, oracle, d);
		if (!x || !y)
			return d->code ? d->code : STX_E_INTERNAL;
		prop_map_node(run, n, x);
		prop_map_node(oracle, n, y);
		if (!prop_inexact(n) || out->ninexact + g->outputs.n >= PROP_MAX_OUTPUTS / 2 ||
		    out->oracle->inputs.n == PROP_MAX_INPUTS)
			continue;
		inexact[out->ninexact] = x;
		computed[out->ninexact++] = y;
		oracle[n->id * PROP_MAX_OUTS] =
			stx_val(/* its other results are exact */
				stx_graph_input(out->oracle, n->name,
						prop_copy_type(out->oracle, g, &n->outs[0]), NULL,
						0, d),
				0);
	}
	for (uint32_t i = 0; i < g->outputs.n; i++) {
		uint32_t at = prop_at(g->outputs.at[i].val);
		stx_graph_output(out->run, run[at], NULL, d);
		stx_graph_output(out->oracle, oracle[at], NULL, d);
	}
	for (uint32_t i = 0; i < out->ninexact; i++) {
		stx_graph_output(out->run, stx_val(inexact[i], 0), NULL, d);
		stx_graph_output(out->oracle, stx_val(computed[i], 0), NULL, d);
	}
	out->nouts = out->run->outputs.n;
	for (uint32_t i = 0; i < out->ninexact; i++) {
		uint32_t at = g->outputs.n + i;
		struct bound b = bound_make(out->oracle, computed[i]);
		node t = tolerance(&b, &out->relative[at]);
		out->tolerance[at] = out->oracle->outputs.n;
		stx_graph_output(out->oracle, stx_val(t, 0), NULL, d);
	}
	stx_err e = stx_graph_verify(out->run, d);
	return e ? e : stx_graph_verify(out->oracle, d);
}

/* ---- exact sums ---- */

struct sizes { /* of each node's values: largest absolute value, infinite unless all are whole
		  numbers */
	double *at;
	int whole; /* every inexact node so far was exact */
	const struct stx_graph *g;
};

static double number(const struct stx_arg *a)
{
	return a->is_float ? a->u.f : (double)a->u.i;
}

static double operand_size(const struct sizes *s, const struct stx_arg *a)
{
	return a->kind == STX_ARG_TENSOR ? s->at[a->u.tensor.node->id] : 0;
}

static double sum_size(const struct sizes *s, const struct stx_node *n)
{
	double count = count_of(s->g, n), a = operand_size(s, &n->args[0]),
	       b = operand_size(s, &n->args[1]);
	switch (n->op) {
	case STX_OP_SCATTER_ADD:
	case STX_OP_INDEX_ADD:
		if (n->nargs > 4 && number(&n->args[4]) != rint(number(&n->args[4])))
			return INFINITY;
		return a + count * operand_size(s, &n->args[3]) *
				   (n->nargs > 4 ? fabs(number(&n->args[4])) : 1);
	case STX_OP_EMBEDDING_BACK: return n->args[4].u.i ? INFINITY : count * a;
	case STX_OP_INDEX_PUT: return a + count * operand_size(s, &n->args[2]);
	case STX_OP_SCATTER_REDUCE:
		return strcmp(n->args[4].u.str, "prod") ? a + count * operand_size(s, &n->args[3])
							: INFINITY;
	case STX_OP_SUM:
	case STX_OP_SUM_DIM:
	case STX_OP_MEAN:
	case STX_OP_MEAN_DIM:
	case STX_OP_CUMSUM:
	case STX_OP_AVG_POOL1D:
	case STX_OP_AVG_POOL2D:
	case STX_OP_AVG_POOL3D: return count * a;
	case STX_OP_CONVOLUTION: return count * a * b + operand_size(s, &n->args[2]);
	case STX_OP_MM:
	case STX_OP_BMM:
	case STX_OP_MATMUL: return count * a * b;
	case STX_OP_LINEAR: return count * a * b + operand_size(s, &n->args[2]);
	case STX_OP_ADDMM:
		if (number(&n->args[3]) != rint(number(&n->args[3])) ||
		    number(&n->args[4]) != rint(number(&n->args[4])))
			return INFINITY;
		return fabs(number(&n->args[3])) * a +
		       fabs(number(&n->args[4])) * count * b * operand_size(s, &n->args[2]);
	default: return INFINITY;
	}
}

static void note_result(struct sizes *s, const struct stx_node *n, const struct stx_tensor *t)
{
	int64_t count = compiled_numel(t), at[STX_MAX_DIMS] = { 0 };
	for (int64_t i = 0; i < count; i++) {
		int64_t off = t->offset;
		for (int d = 0; d < t->rank; d++)
			off += at[d] * t->strides[d];
		union stx_scalar v = stx_scalar_load(
			(enum stx_dtype)t->dtype,
			(char *)t->data + off * stx_dtype_bytes((enum stx_dtype)t->dtype));
		double x = stx_dtype_is_float((enum stx_dtype)t->dtype) ? v.f : (double)v.i;
		if (x != rint(x))
			x = INFINITY;
		if (!(fabs(x) <= s->at[n->id]))
			s->at[n->id] = isnan(x) ? INFINITY : fabs(x);
		for (int d = t->rank; d-- > 0 && ++at[d] == t->sizes[d];)
			at[d] = 0;
	}
}

static void note_sizes(void *ctx, const struct stx_node *n, const struct stx_tensor *results)
{
	struct sizes *s = ctx;
	if (prop_inexact(n) && !(sum_size(s, n) < 0x1p22))
		s->whole = 0;
	for (uint32_t i = 0; i < n->nouts && i < PROP_MAX_OUTS; i++)
		if (results[i].data)
			note_result(s, n, &results[i]);
}

int prop_order_free(const struct stx_graph *g, const struct stx_tensor *inputs)
{
	struct stx_tensor out[PROP_MAX_OUTPUTS];
	struct sizes s = { .at = calloc(g->nodes.n + 1, sizeof *s.at), .whole = 1, .g = g };
	struct stx_diag d = { 0 };
	if (s.at && !stx_ref_evaluate_visit((struct stx_graph *)(uintptr_t)g, inputs, g->inputs.n,
					    out, 0, note_sizes, &s, &d))
		compiled_free_outputs(out, g->outputs.n);
	else
		s.whole = 0;
	free(s.at);
	return s.whole;
}
