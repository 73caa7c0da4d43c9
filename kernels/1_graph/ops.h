/* ops.h
 * the operator table: one row an overload (ops.def), its schema, shape rule and category. */
#ifndef STX_OPS_H
#define STX_OPS_H

#include <stdint.h>

#include "dtype.h"
#include "prims.h"
#include "status.h"

enum stx_op {
#define STX_OP(name, overload, cat, promote, shape, prim, tags, schema) STX_OP_##name,
#include "ops.def"
#undef STX_OP
	STX_OP_COUNT
};

/* What a row lowers to; the lowering table of 3_lower has one rule for most categories. */
enum stx_op_category {
	STX_CAT_INPUT,     /* placeholder, constant */
	STX_CAT_POINTWISE, /* one primitive, broadcast */
	STX_CAT_CREATE,    /* full, arange, eye */
	STX_CAT_REDUCE,
	STX_CAT_VIEW,     /* index map only */
	STX_CAT_INDIRECT, /* gather, index, embedding */
	STX_CAT_SCATTER,
	STX_CAT_PIECEWISE, /* cat, pad, where-like piecewise maps */
	STX_CAT_SCAN,      /* scans and sorts */
	STX_CAT_CONTRACT,  /* matmul, convolution: reductions with a template later */
	STX_CAT_WINDOW,    /* pooling and resampling */
	STX_CAT_RANDOM,
	STX_CAT_COMPOSITE, /* must be decomposed before lowering */
	STX_CAT_COUNT
};
const char *stx_op_category_name(enum stx_op_category c);

/* Type promotion (seed 6.2; conformance LO-20, LO-21). */
enum stx_promote {
	STX_PROMOTE_NONE,    /* the shape rule sets the dtype itself */
	STX_PROMOTE_DEFAULT, /* common type of the inputs */
	STX_PROMOTE_FLOAT,   /* integers become f32 first */
	STX_PROMOTE_BOOL,    /* inputs get a common type, the result is bool */
	STX_PROMOTE_SAME     /* type of the first tensor */
};

enum stx_op_tags {
	STX_TAG_BASIS = 1,    /* in the back end's basis; others have a decomposition */
	STX_TAG_CORE = 2,     /* one of PyTorch's Core ATen operators */
	STX_TAG_COMMUTES = 4, /* operands 0 and 1 may be swapped for value numbering */
	STX_TAG_RANDOM = 8,
	STX_TAG_EFFECT = 16,   /* assert: kept and ordered */
	STX_TAG_REFUSED = 32,  /* never part of a graph: its shape rule says why */
	STX_TAG_IN_PLACE = 64, /* has a form that writes the result into self: "add_.Tensor" */
	STX_TAG_ALIASES = 128  /* results share self's memory (PyTorch's views) */
};

enum stx_param_kind { /* kinds a schema can name */
		      STX_PARAM_TENSOR,
		      STX_PARAM_OPT_TENSOR,
		      STX_PARAM_TENSORS,
		      STX_PARAM_INT,
		      STX_PARAM_OPT_INT,
		      STX_PARAM_INTS,
		      STX_PARAM_OPT_INTS,
		      STX_PARAM_FLOAT,
		      STX_PARAM_OPT_FLOAT,
		      STX_PARAM_OPT_FLOATS,
		      STX_PARAM_BOOL,
		      STX_PARAM_BOOLS,
		      STX_PARAM_SCALAR,
		      STX_PARAM_OPT_SCALAR,
		      STX_PARAM_STRING,
		      STX_PARAM_OPT_STRING,
		      STX_PARAM_DTYPE,
		      STX_PARAM_OPT_DTYPE
};

struct stx_param {
	const char *name;
	enum stx_param_kind kind;
	uint8_t is_kwarg; /* after '*' in the schema: printed as name=value */
	uint8_t has_default;
	const char *default_text; /* as written in the schema, or NULL */
};

struct stx_graph;
struct stx_node;

/* Fills node->outs (and nouts) from node->args. */
typedef stx_err stx_shape_fn(struct stx_graph *g, struct stx_node *n, struct stx_diag *d);

struct stx_op_info {
	const char *overload; /* "add.Tensor" */
	const char *base;     /* "add" */
	enum stx_op_category category;
	enum stx_promote promote;
	stx_shape_fn *shape;
	int prim; /* enum stx_prim for POINTWISE rows with one primitive, else -1 */
	unsigned tags;
	uint32_t nparams;
	const struct stx_param *params;
	const char *schema;
};

/* The table is built once (pthread_once) from ops.def and immutable afterwards; thread-safe. */
const struct stx_op_info *stx_op_info(enum stx_op op);
int stx_op_find(const char *overload, size_t n); /* enum stx_op or -1 */
/* The operator whose form in place has that overload ("add_.Tensor"), or -1; and that overload of an
 * operator tagged IN_PLACE. */
int stx_op_find_in_place(const char *overload, size_t n);
#define STX_OVERLOAD_BYTES 64
const char *stx_op_in_place(enum stx_op op, char out[STX_OVERLOAD_BYTES]);
/* For error texts: why an operator of PyTorch's is left out for good, or NULL. */
const char *stx_op_refusal(const char *overload, size_t n);
/* For error texts: the overload within two edits of a misspelt one, or NULL. */
const char *stx_op_nearest(const char *overload, size_t n);

#endif
