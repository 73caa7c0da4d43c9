/* graph.h
 * the operator-level graph: nodes that name one overload each, tensors with symbolic shapes.
 *
 * Everything lives in the graph's arena. Nodes are in topological order (verify checks it). A graph
 * belongs to one request and one thread. Sources: seed 000 5.1; conformance OG-*. */
#ifndef STX_GRAPH_H
#define STX_GRAPH_H

#include <stdint.h>

#include "arena.h"
#include "dtype.h"
#include "expr.h"
#include "ops.h"
#include "prims.h"
#include "status.h"

#define STX_MAX_DIMS    16   /* equals STX_MAX_RANK of the ABI */
#define STX_MAX_RESULTS 4096 /* of one node: the parts of a split */
#define STX_MAX_BOOLS   64

struct stx_graph;
struct stx_node;

struct stx_type { /* of one tensor value */
	enum stx_dtype dtype;
	uint8_t rank;
	const stx_ex *sizes; /* [rank] */
};

/* A tensor value: result `out` of `node`. */
struct stx_val {
	struct stx_node *node;
	uint32_t out;
};

enum stx_arg_kind {
	STX_ARG_NONE,
	STX_ARG_TENSOR,
	STX_ARG_TENSORS, /* list; an entry may be absent (node == NULL), as in index.Tensor */
	STX_ARG_INT,     /* an index expression: a constant, or a size symbol */
	STX_ARG_INTS,
	STX_ARG_FLOAT,
	STX_ARG_FLOATS,
	STX_ARG_BOOL,
	STX_ARG_BOOLS,  /* at most STX_MAX_BOOLS: bit i of u.i is entry i */
	STX_ARG_SCALAR, /* number: `is_float` tells which of f and i holds it */
	STX_ARG_STRING,
	STX_ARG_DTYPE,
	STX_ARG_DEFAULT /* in calls only: take the parameter's default */
};

struct stx_arg {
	enum stx_arg_kind kind;
	uint8_t is_float; /* SCALAR */
	uint8_t is_bool;  /* SCALAR: True or False, a number of type bool (u.i is 1 or 0) */
	uint32_t n;       /* TENSORS, INTS, FLOATS, BOOLS */
	union {
		struct stx_val tensor;
		const struct stx_val *tensors;
		stx_ex ex;
		const stx_ex *exs;
		const double *fs;
		double f;
		int64_t i; /* BOOL, SCALAR integer or bool */
		const char *str;
		enum stx_dtype dtype;
	} u;
};

/* Constant payload of a `constant` node: dense row-major elements, dtype and sizes from its type.
 */
struct stx_const_data {
	const uint8_t *bytes;
	size_t n;
};

struct stx_node {
	uint32_t id; /* position in the graph */
	enum stx_op op;
	const char *name; /* unique in the graph */
	uint32_t nargs;   /* always the full schema, defaults made explicit (OG-04) */
	struct stx_arg *args;
	uint32_t nouts;
	struct stx_type *outs;
	uint64_t serial; /* program order of random, assert, mutating nodes (from 1); else 0 */
	struct stx_const_data data; /* STX_OP_CONSTANT */
	uint8_t is_param;           /* placeholder: a weight that stays with the client */
	uint8_t is_donated;  /* placeholder: its memory may be overwritten once nothing reads it */
	uint8_t is_in_place; /* writes its one result into its first operand, in the operand's
				dtype, and so into all that shares its memory; only before
				stx_graph_functionalise */
	const char *origin;  /* where it came from: "model.onnx: node 'x'", or NULL; not in keys */
};

/* A placeholder's layout as the caller passes it: strides in elements (NULL: row-major contiguous).
 */
struct stx_input {
	struct stx_node *node;
	const stx_ex *strides; /* [rank] or NULL */
};

struct stx_output {
	struct stx_val val;
	const char *name; /* what the client calls it, or NULL */
	uint32_t writes;  /* 1 + position of the input that holds val after the run; 0: an ordinary
			     result. Such outputs stand last, in the order of their inputs. */
	uint32_t within;  /* 1 + position of the written input that the result is, not a copy of it
			     (x.add_(1); return x); 0: it has memory of its own */
};

/* A size symbol of a dynamic graph. */
struct stx_symbol {
	const char *name;
	struct stx_interval range;
	int64_t hint;
};

struct stx_graph {
	struct stx_arena *arena;
	struct stx_exprs *ex;
	STX_VEC(struct stx_node *) nodes; /* topological order, placeholders included */
	STX_VEC(struct stx_input) inputs;
	STX_VEC(struct stx_output) outputs;
	STX_VEC(struct stx_symbol) symbols;
	struct stx_names *name_table; /* hash set of used names */
	uint64_t next_serial;
	int64_t kept_row; /* elements of a row that the target keeps on the chip from one pass over
			     it to the next; 0: not known. Not in the text or digest */
	int64_t cached_row; /* the same, of a CPU's caches, whatever passes over it */
	uint8_t runs_scans; /* the target's loops carry running sums and extremes: they stay */
};

/* Construction. All return NULL / an error with d filled: over budget, wrong argument, bad shape.
 * A name is a candidate: characters outside [A-Za-z0-9_] become _, and repeated names and Python's
 * builtins and keywords get a numeric suffix (sum_0, matmul_0). NULL: primals_k for inputs,
 * "constant", the base name of a call. Strides equal to the row-major ones are stored as NULL. */
struct stx_graph *stx_graph_new(struct stx_arena *a);
struct stx_node *stx_graph_input(struct stx_graph *g, const char *name, struct stx_type type,
				 const stx_ex *strides, int is_param, struct stx_diag *d);
/* data is copied. */
struct stx_node *stx_graph_constant(struct stx_graph *g, const char *name, struct stx_type type,
				    const void *data, size_t n, struct stx_diag *d);
/* Adds a call: args are matched to the op's schema by position (missing trailing ones take their
 * defaults, and so do entries of kind STX_ARG_DEFAULT; kinds are checked and converted: int to
 * scalar, one int to a list, ...), then shape and dtype inference fills outs. args may be freed
 * afterwards. */
struct stx_node *stx_graph_call(struct stx_graph *g, enum stx_op op, const char *name,
				const struct stx_arg *args, uint32_t nargs, struct stx_diag *d);
/* The same for an operator's form in place: the result has self's sizes, and self's dtype, which that
 * of the operation must convert to without a loss of kind (float to int, int to bool). */
struct stx_node *stx_graph_call_in_place(struct stx_graph *g, enum stx_op op, const char *name,
					 const struct stx_arg *args, uint32_t nargs,
					 struct stx_diag *d);
stx_err stx_graph_output(struct stx_graph *g, struct stx_val v, const char *name,
			 struct stx_diag *d);
/* Input number `input` holds v after the run (struct stx_output's writes). */
stx_err stx_graph_write(struct stx_graph *g, struct stx_val v, uint32_t input, struct stx_diag *d);
/* The output that is written into the input; the number of outputs: none. */
uint32_t stx_graph_written(const struct stx_graph *g, uint32_t input);
/* 1 when s[0,n) may name a size symbol: a valid name that no index expression or argument means
 * already. */
int stx_symbol_name_is_valid(const char *s, size_t n);
/* [nodes.n], by id: distinct nodes that use it, the graph's return counted as one. NULL: out of
 * a's budget. */
uint32_t *stx_graph_users(const struct stx_graph *g, struct stx_arena *a);
/* The overload of base ("add", "sum") that fits positional arguments of these kinds (OG-03): the
 * first row of the op table, or -1. For front ends; a graph always names the overload. */
int stx_op_choose(const char *base, const struct stx_arg *args, uint32_t nargs);

/* Short forms for building arguments. */
static inline struct stx_val stx_val(struct stx_node *n, uint32_t out)
{
	return (struct stx_val){ n, out };
}
struct stx_arg stx_arg_tensor(struct stx_val v);
struct stx_arg stx_arg_node(struct stx_node *n); /* its first result */
struct stx_arg stx_arg_tensors(struct stx_graph *g, const struct stx_val *v, uint32_t n);
struct stx_arg stx_arg_int(struct stx_graph *g, int64_t v);
struct stx_arg stx_arg_ex(stx_ex e);
struct stx_arg stx_arg_ints(struct stx_graph *g, const int64_t *v, uint32_t n);
struct stx_arg stx_arg_exs(struct stx_graph *g, const stx_ex *v, uint32_t n);
struct stx_arg stx_arg_float(double v);
struct stx_arg stx_arg_floats(struct stx_graph *g, const double *v, uint32_t n);
struct stx_arg stx_arg_scalar_i(int64_t v);
struct stx_arg stx_arg_scalar_f(double v);
struct stx_arg stx_arg_scalar_b(int v);
struct stx_arg stx_arg_bool(int v);
struct stx_arg stx_arg_bools(uint64_t bits, uint32_t n);
struct stx_arg stx_arg_str(struct stx_graph *g, const char *s);
struct stx_arg stx_arg_dtype(enum stx_dtype t);
struct stx_arg stx_arg_none(void);
struct stx_arg stx_arg_default(void);

static inline const struct stx_type *stx_val_type(struct stx_val v)
{
	return &v.node->outs[v.out];
}
struct stx_type stx_type_make(struct stx_graph *g, enum stx_dtype t, int rank,
			      const int64_t *sizes);
stx_ex stx_type_numel(struct stx_graph *g, const struct stx_type *t); /* product of sizes */
int stx_type_eq(const struct stx_type *a, const struct stx_type *b);

#endif
