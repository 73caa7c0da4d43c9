/* onnx_import.h
 * private to the ONNX reader: its context, and short builders used by the operator mappings.
 *
 * Errors are sticky: once c->err is set every builder returns an empty value and does nothing, so a
 * mapping is written as plain expressions and returns c->err at its end. */
#ifndef STX_ONNX_IMPORT_H
#define STX_ONNX_IMPORT_H

#include "import.h"
#include "onnx.pb-c.h"
#include "onnx_types.h"

typedef struct stx_val V;
#define NO_V ((V){ NULL, 0 })

struct onnx_binding { /* name -> value, open addressing */
	const char *name;
	uint64_t hash;
	V v;
};
struct onnx_scope {
	struct onnx_binding *at;
	uint32_t n, cap;
	const struct onnx_scope *parent; /* attributes of a function call, NULL at the top */
	const Onnx__NodeProto *caller;
	const struct onnx_function *function; /* that was called */
	const struct onnx_scope *outer;       /* of a subgraph: the names around it */
};

/* A model-local function. The installed schema ends before default values and overloads (IR versions
 * 9 and 10): they are read from the fields that it does not know. */
struct onnx_function {
	const Onnx__FunctionProto *proto;
	struct stx_span overload;
	Onnx__AttributeProto **defaults; /* of attributes */
	size_t ndefaults;
};

#define ONNX_MAX_FIELDS 6000000u
#define ONNX_MAX_DEPTH  40u
#define ONNX_CALL_DEPTH 16

struct onnx {
	struct stx_arena *arena;
	struct stx_graph *g;
	const struct stx_import_options *options;
	const Onnx__ModelProto *model;
	struct onnx_function *functions; /* [model->n_functions] sorted */
	struct stx_diag *d;
	stx_err err;
	int64_t opset;   /* of the default domain, in the scope at hand */
	int depth;       /* of function calls and subgraphs */
	uint32_t mapped; /* nodes of functions and subgraphs so far, each time they run */
	int is_resized;  /* an input has other sizes than the model declares */
	struct onnx_scope *scope;
	const Onnx__NodeProto *n; /* node being mapped; NULL: none */
	STX_VEC(struct stx_needed_value) needed;
	STX_VEC(const char *) input_names;
};

/* One mapping: fills out[0..n_output-1]; outputs it cannot give stay NO_V and are an error when
 * named. */
typedef stx_err onnx_map_fn(struct onnx *c, V *out);
struct onnx_mapping {
	const char *op_type;
	onnx_map_fn *map;
	int arg; /* passed through onnx_arg() */
};
/* Operators of other domains stand in the tables as domain.name. */
const struct onnx_mapping *onnx_find_mapping(const char *domain, const char *op_type);
/* The tables, one a family: onnx_<family>_map in onnx_<family>.c. */
/* clang-format off */
#define ONNX_FAMILIES(X) \
	X(pointwise) X(shape) X(index) X(scatter) X(pad) X(reduce) X(nn) X(window) X(contract) \
	X(einsum) X(attention) X(recurrent) X(training) X(ngram) X(deform) X(boxes) X(sequence) \
	X(resample) X(sample) X(fold) X(control) X(quant) X(signal) X(sort) X(random)
/* clang-format on */
#define ONNX_DECLARE(family) extern const struct onnx_mapping onnx_##family##_map[];
ONNX_FAMILIES(ONNX_DECLARE)
#undef ONNX_DECLARE

/* ---- the model (onnx_model.c) and its functions (onnx_function.c) ---- */
stx_err onnx_import_nodes(struct onnx *c, Onnx__NodeProto *const *nodes, size_t n);
int64_t onnx_default_opset(struct onnx *c, Onnx__OperatorSetIdProto *const *sets, size_t n,
			   int64_t otherwise);
void onnx_read_functions(struct onnx *c);
const struct onnx_function *onnx_find_function(const struct onnx *c, const Onnx__NodeProto *n);
/* The body is mapped in a scope of its own with the caller's attributes. */
stx_err onnx_call_function(struct onnx *c, const struct onnx_function *f, V *out);

/* ---- names ---- */
V onnx_lookup(const struct onnx_scope *s, const char *name); /* NO_V when there is none */
int onnx_is_bound_here(const struct onnx *c, const char *name);
void onnx_bind(struct onnx *c, const char *name, V v); /* in the scope at hand */

/* ---- errors ---- */
/* What the current node is called: its name, else its first output's, else nothing. */
const char *onnx_node_label(const struct onnx *c);
stx_err onnx_fail(struct onnx *c, stx_err code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
stx_err onnx_unsupported_attr(struct onnx *c, const char *attr, const char *value);

/* ---- inputs and attributes of the node at hand ---- */
int onnx_has(const struct onnx *c, unsigned i); /* input i is there */
V onnx_in(struct onnx *c, unsigned i);          /* required */
V onnx_opt(struct onnx *c, unsigned i);         /* NO_V when absent */
/* Through ref_attr_name: the caller's, else the function's default. */
const Onnx__AttributeProto *onnx_attr(const struct onnx *c, const char *name);
/* Of another type than asked for: an error. */
int64_t onnx_int(struct onnx *c, const char *name, int64_t otherwise);
double onnx_float(struct onnx *c, const char *name, double otherwise);
const char *onnx_str(struct onnx *c, const char *name, const char *otherwise);
/* Integers of an attribute; returns how many, -1 when absent. *v borrowed. */
int onnx_ints(struct onnx *c, const char *name, const int64_t **v);
/* An attribute of n integers of at least `least`, `otherwise` where it is absent (less: then it is
 * needed). out: n integers in that range, with an error too. */
void onnx_int_list(struct onnx *c, const char *name, int n, int64_t least, int64_t otherwise,
		   int64_t *out);
/* kernel_shape, where it is given, says the k spatial sizes of the weight. */
void onnx_check_kernel_shape(struct onnx *c, int k, const int64_t *weight);
int onnx_arg(const struct onnx *c);

/* Input i, be it a tensor or a sequence; NO_V when absent. onnx_in and onnx_opt refuse sequences.
 */
V onnx_any(struct onnx *c, unsigned i);
struct onnx_sequence {        /* onnx_sequence.c */
	struct stx_node node; /* its op is STX_OP_COUNT: in no graph */
	V *at;
	int64_t n;
	int absent; /* an optional without a value */
};
const struct onnx_sequence *onnx_as_sequence(V v); /* NULL: a tensor */

/* A subgraph in an attribute of the node at hand: begin, run any number of times, end. */
struct onnx_body {
	const Onnx__GraphProto *graph;
	const Onnx__NodeProto *node;
	struct onnx_scope *outer, names; /* its initialisers */
	int sequences;                   /* 1: its results may be sequences */
};
stx_err onnx_body_begin(struct onnx *c, const char *attr, struct onnx_body *b);
/* out[0..n_output-1], at most cap. The node at hand is its owner again afterwards. */
stx_err onnx_body_run(struct onnx *c, struct onnx_body *b, const V *in, size_t nin, V *out,
		      size_t cap);
void onnx_body_end(struct onnx *c, struct onnx_body *b);

/* ---- questions about values ---- */
enum stx_dtype onnx_dtype(V v);
int onnx_rank(V v);
int64_t onnx_dim(struct onnx *c, V v,
		 int i); /* static; sets err when symbolic or beyond the rank */
/* All dimensions into sizes[STX_MAX_DIMS], zeros behind them; the rank, 0 after an error. */
int onnx_sizes(struct onnx *c, V v, int64_t *sizes);
/* INVALID unless both have the same sizes. For an operand that broadcasts one way only: `result` is
 * what combining it with `with` gave. */
stx_err onnx_keeps_sizes(struct onnx *c, V result, V with, const char *operand);
/* Products of sizes; INT64_MAX, which no tensor has, when they overflow (a 0 may stand elsewhere).
 */
int64_t onnx_times(int64_t a, int64_t b);
int64_t onnx_product(const int64_t *v, int from, int to); /* of v[from..to-1] */
int onnx_is_float(V v);
int onnx_is_const(V v);
/* Elements of a value that must be known now, as i64 (floats are refused). At most cap; sets
 * NEED_VALUES with the graph inputs it depends on, or an error. Returns the count. */
int onnx_known_ints(struct onnx *c, V v, const char *what, int64_t *out, int cap);
int onnx_known_scalar(struct onnx *c, V v, const char *what, struct stx_arg *out);
int onnx_known_floats(struct onnx *c, V v, const char *what, double *out, int cap);
/* v must be a constant and is not: NEED_VALUES with the graph inputs it depends on, or UNSUPPORTED.
 */
stx_err onnx_need(struct onnx *c, V v, const char *what);
int onnx_axis(struct onnx *c, int64_t axis, int rank); /* normalised; sets err */

/* ---- builders ---- */
V onnx_call(struct onnx *c, enum stx_op op, const struct stx_arg *args, uint32_t n);
V onnx_1(struct onnx *c, enum stx_op op, V a);
V onnx_2(struct onnx *c, enum stx_op op, V a, V b);
V onnx_add(struct onnx *c, V a, V b);
V onnx_sub(struct onnx *c, V a, V b);
V onnx_mul(struct onnx *c, V a, V b);
V onnx_cast(struct onnx *c, V a, enum stx_dtype t);
/* ONNX Cast: with attribute saturate (the default) what is beyond an 8-bit float becomes its
 * largest value. */
V onnx_saturating_cast(struct onnx *c, V a, enum stx_dtype t);
V onnx_view(struct onnx *c, V a, const int64_t *sizes, int n);
V onnx_expand(struct onnx *c, V a, const int64_t *sizes, int n); /* exact result shape */
V onnx_permute(struct onnx *c, V a, const int64_t *dims, int n);
V onnx_unsqueeze(struct onnx *c, V a, int dim);
V onnx_slice(struct onnx *c, V a, int dim, int64_t start, int64_t end, int64_t step);
V onnx_cat(struct onnx *c, const V *v, uint32_t n, int dim);
V onnx_full(struct onnx *c, const int64_t *sizes, int n, double value, enum stx_dtype t);
V onnx_number(struct onnx *c, double value, enum stx_dtype t); /* 0-d constant */
V onnx_ints_const(struct onnx *c, const int64_t *v, int n);    /* 1-d i64 */
V onnx_arange(struct onnx *c, int64_t start, int64_t end, int64_t step, enum stx_dtype t);
V onnx_reduce(struct onnx *c, enum stx_op op, V a, const int64_t *dims, int n, int keepdim);
V onnx_where(struct onnx *c, V cond, V a, V b);
V onnx_wrap_index(struct onnx *c, V index, int64_t n); /* as i64, negative ones counted from n */
V onnx_index_select(struct onnx *c, V a, int dim, V index);
V onnx_scale(struct onnx *c, V a, double k); /* a * k in a's type */
V onnx_shift(struct onnx *c, V a, double k); /* a + k */
V onnx_matmul(struct onnx *c, V a, V b);
V onnx_softplus(struct onnx *c, V x);
V onnx_swap_last(struct onnx *c, V a); /* the last two dimensions */
V onnx_reverse(struct onnx *c, V a, int dim);

/* ---- tensors (onnx_tensor.c) ---- */
/* Dense bytes of an initialiser in the arena; out of range sizes, short or external data are
 * errors. */
stx_err onnx_tensor_bytes(struct onnx *c, const Onnx__TensorProto *t, enum stx_dtype *dtype,
			  int *rank, int64_t *sizes, const uint8_t **bytes, size_t *n);
int onnx_tensor_has_data(const Onnx__TensorProto *t);
V onnx_constant(struct onnx *c, const char *name, enum stx_dtype t, int rank, const int64_t *sizes,
		const void *bytes, size_t n);

stx_err stx_import_onnx(struct stx_arena *a, struct stx_span body,
			const struct stx_import_options *o, struct stx_import_result *out,
			struct stx_diag *d);
stx_err stx_import_wire(struct stx_arena *a, struct stx_span body,
			const struct stx_import_options *o, struct stx_import_result *out,
			struct stx_diag *d);

#endif
