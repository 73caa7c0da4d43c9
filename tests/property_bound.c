/* property_bound.c: which nodes may differ from the oracle, by how much, and whether the sums of a
 * run are exact all the same.
 *
 * A bound is coefficient * unit roundoff * sum of absolute values (RD-12), computed in f64 by nodes
 * added to the oracle's graph. */
#include "property_bound.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiled.h"
#include "passes.h"
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
	case STX_OP_SAFE_SOFTMAX:
	case STX_OP_SDPA:
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
		     op == STX_OP_SDPA || op == STX_OP_CONVOLUTION_BACKWARD))
			return 1;
	}
	return 0;
}

/* ---- tolerances, as nodes of the oracle's graph ---- */

node prop_call(struct stx_graph *g, enum stx_op op, uint32_t nargs, const struct stx_arg *args)
{
	struct stx_diag d = { 0 };
	node n = stx_graph_call(g, op, NULL, args, nargs, &d);
	if (!n) {
		fprintf(stderr, "tolerance: %s: %s\n", stx_op_info(op)->overload, d.text);
		abort();
	}
	return n;
}

struct bound {
	struct stx_graph *g;
	const struct stx_node *n; /* the inexact node, in g */
	enum stx_dtype t;         /* its dtype */
	double u;                 /* unit roundoff of its accumulator */
	double count;             /* elements in one sum */
	double coefficient;
};
static node times(struct bound *b, node x, double v)
{
	return CALL(b->g, MUL_SCALAR, T(x), F(v));
}

/* Operand i in f64, after the conversion to the result's dtype. */
static node operand(struct bound *b, uint32_t i)
{
	node x = CALL(b->g, TO_COPY, b->n->args[i], stx_arg_dtype(b->t));
	return CALL(b->g, TO_COPY, T(x), stx_arg_dtype(STX_F64));
}

static node size(struct bound *b, uint32_t i)
{
	return CALL(b->g, ABS, T(operand(b, i)));
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
	return CALL(b->g, SUM_DIM, T(x), dim, keep);
}

/* t; not compared where `sum`, what the terms add up to in absolute value, is over this share of
 * the range: partial results may leave it, and a division or a root comes back into it. */
static node unless_vast(struct bound *b, node sum, double share, node t)
{
	double most = prop_limits(b->t == STX_F64 ? STX_F64 : STX_F32).largest * share;
	node vast = CALL(b->g, LOGICAL_AND, T(CALL(b->g, GT_SCALAR, T(sum), F(most))),
			 T(CALL(b->g, LT_SCALAR, T(sum), F(INFINITY))));
	return CALL(b->g, WHERE, T(vast), T(CALL(b->g, FULL_LIKE, T(t), F(PROP_NOT_COMPARED))),
		    T(t));
}

/* t times what the terms add up to in absolute value. */
static node of_sum(struct bound *b, node sum, double t)
{
	return unless_vast(b, sum, 1 - 0x1p-10, times(b, sum, t));
}

/* t times what the terms of a mean add up to in absolute value, over count. */
static node of_mean(struct bound *b, node mean, double t)
{
	return of_sum(b, times(b, mean, b->count), t / b->count);
}

static node bound_of_var(struct bound *b)
{
	const struct stx_arg *c = &b->n->args[2];
	double given = c->kind == STX_ARG_NONE ? 1 : c->is_float ? c->u.f : (double)c->u.i;
	node x = operand(b, 0);
	double by = b->count - given > 0 ? b->count - given : 0;
	node squares = total(b, CALL(b->g, MUL, T(x), T(x)));
	node t = times(b, squares, b->u * (2 * b->coefficient + 10) / by);
	if (b->n->op != STX_OP_STD && b->n->op != STX_OP_STD_DIM)
		return unless_vast(b, squares, 0x1p-3, t);
	/* of the root: the root of t at most, t over the root where that is less; the variance may
	 * have been subnormal or less */
	t = CALL(b->g, ADD_SCALAR, T(t), F(b->t == STX_F64 ? 0x1p-1060 : 0x1p-135));
	node want = CALL(b->g, TO_COPY, T((node)(uintptr_t)b->n), stx_arg_dtype(STX_F64));
	node near = CALL(b->g, DIV, T(t), T(want)), far = CALL(b->g, SQRT, T(t));
	near = CALL(b->g, WHERE, T(CALL(b->g, LT, T(near), T(far))), T(near), T(far));
	return unless_vast(b, squares, 0x1p-3, near);
}

/* Relative while no product of some of the elements can leave the range; not compared
 * otherwise. */
static node bound_of_prod(struct bound *b)
{
	double top = b->t == STX_F64 ? 0x1p1000 : 0x1p127,
	       least = b->t == STX_F64 ? 0x1p-1000 : 0x1p-125;
	int all = b->n->op == STX_OP_PROD;
	node x = size(b, 0);
	if (all)
		x = CALL(b->g, VIEW, T(x), stx_arg_ints(b->g, (int64_t[]){ -1 }, 1));
	node one = CALL(b->g, FULL_LIKE, T(x), F(1));
	struct stx_arg dim = all ? stx_arg_int(b->g, 0) : b->n->args[1],
		       keep = all ? stx_arg_bool(0) : b->n->args[2];
	node above = CALL(b->g, MAXIMUM, T(x), T(one)), below = CALL(b->g, MINIMUM, T(x), T(one)),
	     big, small;
	if (b->n->op == STX_OP_CUMPROD) {
		big = CALL(b->g, CUMPROD, T(above), dim);
		small = CALL(b->g, CUMPROD, T(below), dim);
	} else {
		big = CALL(b->g, PROD_DIM, T(above), dim, keep);
		small = CALL(b->g, PROD_DIM, T(below), dim, keep);
	}
	node safe = CALL(b->g, LOGICAL_AND, T(CALL(b->g, LT_SCALAR, T(big), F(top))),
			 T(CALL(b->g, GT_SCALAR, T(small), F(least))));
	node t = times(b, CALL(b->g, MUL, T(big), T(small)), b->u * (b->count + 2));
	return CALL(b->g, WHERE, T(safe), T(t),
		    T(CALL(b->g, FULL_LIKE, T(t), F(PROP_NOT_COMPARED))));
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
	node mean = CALL(b->g, MEAN_DIM, T(x), over, keep), far = CALL(b->g, SUB, T(x), T(mean));
	node mean_size = CALL(b->g, MEAN_DIM, T(CALL(b->g, ABS, T(x))), over, keep);
	node square = CALL(b->g, MEAN_DIM, T(CALL(b->g, MUL, T(x), T(x))), over, keep);
	node var = CALL(b->g, ADD_SCALAR,
			T(CALL(b->g, MEAN_DIM, T(CALL(b->g, MUL, T(far), T(far))), over, keep)),
			F(b->n->args[4].u.f));
	node rstd = CALL(b->g, RSQRT, T(var));
	node of_rstd =
		CALL(b->g, ADD_SCALAR,
		     T(times(b, CALL(b->g, DIV, T(square), T(var)), b->u * (b->coefficient + 5))),
		     F(4 * b->u));
	node of_far = CALL(b->g, ADD, T(times(b, mean_size, b->u * (b->coefficient + 2))),
			   T(times(b, CALL(b->g, ABS, T(far)), b->u)));
	node t = CALL(b->g, MUL, T(of_far), T(rstd));
	t = CALL(b->g, ADD, T(t),
		 T(CALL(b->g, MUL, T(CALL(b->g, MUL, T(CALL(b->g, ABS, T(far))), T(rstd))),
			T(of_rstd))));
	if (b->n->args[2].kind == STX_ARG_TENSOR)
		t = CALL(b->g, MUL, T(t), T(size(b, 2)));
	if (b->n->args[3].kind == STX_ARG_TENSOR)
		t = CALL(b->g, ADD, T(t), T(times(b, size(b, 3), 4 * b->u)));
	node vague = CALL(b->g, LOGICAL_OR, T(CALL(b->g, GT_SCALAR, T(of_rstd), F(0.05))),
			  T(CALL(b->g, LOGICAL_NOT,
				 T(CALL(b->g, LT_SCALAR, T(square),
					F((b->t == STX_F64 ? 1e300 : 1e36) / b->count))))));
	/* NaN and infinite rows: want is NaN, compared as such */
	node bad = CALL(b->g, ISNAN, T(times(b, square, 0)));
	vague = CALL(b->g, LOGICAL_AND, T(vague), T(CALL(b->g, LOGICAL_NOT, T(bad))));
	return CALL(b->g, WHERE, T(vague), T(CALL(b->g, FULL_LIKE, T(t), F(PROP_NOT_COMPARED))),
		    T(t));
}

static node product(struct bound *b)
{
	struct stx_arg two[] = { T(size(b, 0)), T(size(b, 1)) };
	struct stx_arg args[5];
	if (b->n->op == STX_OP_LINEAR) {
		args[0] = two[0];
		args[1] = two[1];
		args[2] = b->n->args[2].kind == STX_ARG_TENSOR ? T(size(b, 2)) : stx_arg_none();
		return prop_call(b->g, STX_OP_LINEAR, 3, args);
	}
	if (b->n->op != STX_OP_ADDMM)
		return prop_call(b->g, b->n->op, 2, two);
	for (uint32_t i = 0; i < 3; i++)
		args[i] = T(size(b, i));
	for (uint32_t i = 3; i < 5; i++)
		args[i] = F(fabs(b->n->args[i].is_float ? b->n->args[i].u.f
							: (double)b->n->args[i].u.i));
	return prop_call(b->g, STX_OP_ADDMM, 5, args);
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
		return of_sum(b, prop_call(b->g, b->n->op, b->n->nargs, sized),
			      b->u * (b->count + 6));
	}
	memcpy(args, b->n->args, b->n->nargs * sizeof *args);
	if (b->n->op == STX_OP_SCATTER_REDUCE && !strcmp(args[4].u.str, "prod"))
		return CALL(b->g, FULL_LIKE, T((node)(uintptr_t)b->n), F(PROP_NOT_COMPARED),
			    stx_arg_dtype(STX_F64));
	args[0] = T(size(b, 0));
	args[at] = T(size(b, (uint32_t)at));
	if (b->n->op == STX_OP_INDEX_ADD)
		args[4] = F(fabs(args[4].is_float ? args[4].u.f : (double)args[4].u.i));
	node sizes = prop_call(b->g, b->n->op, b->n->nargs, args);
	if (b->n->op == STX_OP_SCATTER_REDUCE && !strcmp(args[4].u.str, "mean"))
		return of_mean(b, sizes, b->u * (b->count + 4));
	return of_sum(b, sizes, b->u * (b->count + 4));
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
	return prop_call(b->g, b->n->op, b->n->nargs, args);
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
	case STX_OP_SUM_DIM: return of_sum(b, total(b, size(b, 0)), c * b->u);
	case STX_OP_MEAN:
	case STX_OP_MEAN_DIM: return of_sum(b, total(b, size(b, 0)), (c + 2) * b->u / b->count);
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
		return CALL(b->g, FULL_LIKE, T((node)(uintptr_t)b->n),
			    F((c + 20 + log(b->count + 1)) * b->u), stx_arg_dtype(STX_F64));
	case STX_OP_SDPA: return prop_bound_attention(b->g, b->n);
	case STX_OP_SOFTMAX:
	case STX_OP_SAFE_SOFTMAX:
	case STX_OP_SOFTMAX_INT:
		*relative = (c + 20 + reach) * b->u;
		return CALL(b->g, FULL_LIKE, T((node)(uintptr_t)b->n), F(0),
			    stx_arg_dtype(STX_F64));
	case STX_OP_ADDMM: /* a basis composite: the product is rounded before its epilogue */
		return of_sum(b, product(b),
			      (b->count + 8) * b->u + 3 * prop_limits(b->t).roundoff);
	case STX_OP_LINEAR:
		return of_sum(b, product(b),
			      (b->count + 8) * b->u + (b->n->args[2].kind == STX_ARG_TENSOR
							       ? 2 * prop_limits(b->t).roundoff
							       : 0));
	case STX_OP_CONVOLUTION: return of_sum(b, of_sizes(b, 3), (b->count + 5) * b->u);
	case STX_OP_AVG_POOL1D:
	case STX_OP_AVG_POOL2D:
	case STX_OP_AVG_POOL3D: return of_mean(b, of_sizes(b, 1), (c + 4) * b->u);
	case STX_OP_CUMSUM: { /* blocks of 16, level by level */
		double levels = 1 + ceil(log2(b->count + 1) / 4), most = levels * (16 + 6 + 4 + 4);
		return of_sum(b, of_sizes(b, 1), (b->count < most ? b->count : most) * b->u);
	}
	case STX_OP_CUMPROD: return bound_of_prod(b);
	default: return of_sum(b, product(b), (b->count + 3) * b->u);
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
	case STX_OP_SAFE_SOFTMAX:
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
	/* kernel.h: 16 values in sequence and 64 lanes merged in 6 steps at most, then pairwise;
	 * loops within loops may leave one step more a loop */
	double merged = 16 + 6 + 4 + ceil(log2(b.count + 1));
	b.coefficient = b.count < merged ? b.count : merged;
	return b;
}

struct stx_node *prop_tolerance(struct stx_graph *g, const struct stx_node *n, double *relative)
{
	struct bound b = bound_make(g, n);
	return tolerance(&b, relative);
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
