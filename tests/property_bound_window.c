/* property_bound_window.c: how far results of resampling, sampling, adaptive pooling, folding and
 * gradients of windows may lie from the oracle's, as nodes of its graph: a multiple of the unit
 * roundoff times what the terms add up to in absolute value. */
#include "property_bound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes.h"

/* Absolute values of argument i in f64. */
static node size(struct stx_graph *g, const struct stx_node *n, uint32_t i)
{
	return CALL(g, ABS, T(CALL(g, TO_COPY, n->args[i], stx_arg_dtype(STX_F64))));
}

/* Copies of elements among them, which cost nothing to hold to a bound. */
int prop_window_inexact(const struct stx_node *n)
{
	switch (n->op) {
	case STX_OP_RESAMPLE:
	case STX_OP_GRID_SAMPLER2D:
	case STX_OP_GRID_SAMPLER3D:
	case STX_OP_SAMPLE:
	case STX_OP_LINEAR1D:
	case STX_OP_BILINEAR2D:
	case STX_OP_TRILINEAR3D:
	case STX_OP_BICUBIC2D:
	case STX_OP_FOLD:
	case STX_OP_COL2IM:
	case STX_OP_ADAPTIVE_AVG_POOL1D:
	case STX_OP_ADAPTIVE_AVG_POOL2D:
	case STX_OP_ADAPTIVE_AVG_POOL3D:
	case STX_OP_ADAPTIVE_AVG_POOL2D_BACKWARD:
	case STX_OP_ADAPTIVE_AVG_POOL3D_BACKWARD:
	case STX_OP_AVG_POOL2D_BACKWARD:
	case STX_OP_AVG_POOL3D_BACKWARD:
	case STX_OP_MAX_POOL2D_BACKWARD:
	case STX_OP_MAX_POOL3D_BACKWARD:
	case STX_OP_CONVOLUTION_BACKWARD: return 1;
	default: return 0;
	}
}

/* The greatest of the image of every output, broadcast to the output's sizes. */
static node most_of_image(struct stx_graph *g, const struct stx_node *n, node v)
{
	const struct stx_type *t = &n->outs[0], *x = stx_val_type(n->args[0].u.tensor);
	int64_t dims[STX_MAX_DIMS];
	stx_ex sizes[STX_MAX_DIMS];
	for (uint32_t i = 2; i < x->rank; i++)
		dims[i - 2] = i;
	v = CALL(g, AMAX, T(v), stx_arg_ints(g, dims, x->rank - 2u), stx_arg_bool(0));
	memcpy(sizes, t->sizes, 2 * sizeof *sizes);
	for (uint32_t i = 2; i < t->rank; i++)
		sizes[i] = stx_ex_const(g->ex, 1);
	v = CALL(g, VIEW, T(v), stx_arg_exs(g, sizes, t->rank));
	return CALL(g, EXPAND, T(v), stx_arg_exs(g, t->sizes, t->rank));
}

/* Interpolation: no term is larger than the largest finite element of its image times the largest
 * weight. In an image with others only finite results are compared: a weight that is 0 but for its
 * rounding, times infinity, is either infinity or NaN. */
static node of_image(struct stx_graph *g, const struct stx_node *n, double times)
{
	node v = size(g, n, 0), finite = CALL(g, LT_SCALAR, T(v), F(INFINITY));
	v = CALL(g, WHERE, T(finite), T(v), T(CALL(g, FULL_LIKE, T(v), F(0))));
	v = CALL(g, MUL_SCALAR, T(most_of_image(g, n, v)), F(times));
	node bad = CALL(g, TO_COPY, T(CALL(g, LOGICAL_NOT, T(finite))), stx_arg_dtype(STX_F64));
	bad = CALL(g, GT_SCALAR, T(most_of_image(g, n, bad)), F(0));
	return CALL(g, WHERE, T(bad), T(CALL(g, NEG, T(v))), T(v));
}

/* The node on the absolute values of its first `tensors` operands. */
static node of_sizes(struct stx_graph *g, const struct stx_node *n, uint32_t tensors, double times)
{
	struct stx_arg args[16];
	memcpy(args, n->args, n->nargs * sizeof *args);
	for (uint32_t i = 0; i < tensors; i++)
		args[i] = T(size(g, n, i));
	return CALL(g, MUL_SCALAR, T(prop_call(g, n->op, n->nargs, args)), F(times));
}

node prop_window_tolerance(struct stx_graph *g, const struct stx_node *n, double u)
{
	struct stx_arg args[4];
	int64_t taps = 1, v = 1;
	switch (n->op) {
	case STX_OP_RESAMPLE:
		memcpy(args, n->args, sizeof args);
		args[0] = T(size(g, n, 0));
		if (args[3].kind == STX_ARG_TENSOR)
			args[3] = T(size(g, n, 3));
		return CALL(g, MUL_SCALAR, T(prop_call(g, n->op, 4, args)), F(64 * u));
	case STX_OP_GRID_SAMPLER2D:
	case STX_OP_GRID_SAMPLER3D:
	case STX_OP_SAMPLE:
	case STX_OP_LINEAR1D:
	case STX_OP_BILINEAR2D:
	case STX_OP_TRILINEAR3D:
	case STX_OP_BICUBIC2D: return of_image(g, n, 128 * u);
	case STX_OP_FOLD:
	case STX_OP_COL2IM:
	case STX_OP_ADAPTIVE_AVG_POOL1D:
	case STX_OP_ADAPTIVE_AVG_POOL2D:
	case STX_OP_ADAPTIVE_AVG_POOL3D: return of_sizes(g, n, 1, 64 * u);
	case STX_OP_CONVOLUTION_BACKWARD: {
		const struct stx_type *w = stx_val_type(n->args[2].u.tensor);
		for (uint32_t i = 0; i < w->rank; i++) {
			stx_ex_is_const(g->ex, w->sizes[i], &v);
			taps *= v;
		}
		return of_sizes(g, n, 3, ((double)taps + 8) * u);
	}
	default: return of_sizes(g, n, 2, 64 * u);
	}
}
