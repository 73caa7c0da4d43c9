/* property_bound.h
 * how bounds are written as nodes of the oracle's graph: shared by property_bound*.c only. */
#ifndef STX_PROPERTY_BOUND_H
#define STX_PROPERTY_BOUND_H

#include <math.h>

#include "property_case.h"

/* As a tolerance (prop_tolerance() says what others below 0 mean). */
#define PROP_NOT_COMPARED (-INFINITY)

typedef struct stx_node *node;

/* property_bound_attention.c: tolerance of n, a scaled_dot_product_attention. */
node prop_bound_attention(struct stx_graph *g, const struct stx_node *n);
/* The call, or abort. */
node prop_call(struct stx_graph *g, enum stx_op op, uint32_t nargs, const struct stx_arg *args);
#define CALL(g, op, ...)                                                                           \
	prop_call(g, STX_OP_##op,                                                                  \
		  sizeof((struct stx_arg[]){ __VA_ARGS__ }) / sizeof(struct stx_arg),              \
		  (struct stx_arg[]){ __VA_ARGS__ })
#define T(n) stx_arg_node(n)
#define F(v) stx_arg_scalar_f(v)

#endif
