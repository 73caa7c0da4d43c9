/* decompose.h
 * internal to 1_graph: decomposition rules, the tables they stand in, and the builder they use. */
#ifndef STX_DECOMPOSE_H
#define STX_DECOMPOSE_H

#include "graph_internal.h"

/* What a rule builds with. After the first error every call returns a value without a node and does
 * nothing, so that a rule needs no checks; the engine reports b->err. */
struct stx__build {
	struct stx_graph *g;
	const struct stx_node
		*n; /* the node being replaced; its operands are values of the new graph */
	struct stx_diag *d;
	stx_err err;
};

/* Fills out[n->nouts] with values equal to n's results. STX__KEEP: this node stays as it is. */
#define STX__KEEP 1
typedef int stx__rule_fn(struct stx__build *b, const struct stx_node *n, struct stx_val *out);

/* decompose_window.c */
stx__rule_fn stx__rule_max_pool, stx__rule_avg_pool, stx__rule_avg_pool_backward,
	stx__rule_max_pool_backward, stx__rule_col2im, stx__rule_im2col;

/* decompose_conv.c */
stx__rule_fn stx__rule_convolution, stx__rule_conv_backward;

/* decompose_activation.c */
stx__rule_fn stx__rule_leaky_relu, stx__rule_elu, stx__rule_softplus, stx__rule_hardtanh,
	stx__rule_silu, stx__rule_hardsigmoid, stx__rule_mish, stx__rule_gelu,
	stx__rule_gelu_backward;

/* decompose_matmul.c */
stx__rule_fn stx__rule_matmul, stx__rule_addmm, stx__rule_linear;

/* decompose_attention.c */
stx__rule_fn stx__rule_safe_softmax, stx__rule_sdpa;

/* decompose_adaptive.c */
stx__rule_fn stx__rule_adaptive_avg, stx__rule_adaptive_avg_backward, stx__rule_adaptive_max;

/* decompose_sample.c */
stx__rule_fn stx__rule_grid_sampler, stx__rule_sample;

/* decompose_resample.c */
stx__rule_fn stx__rule_resample, stx__rule_upsample;

/* decompose_softmax.c */
stx__rule_fn stx__rule_softmax, stx__rule_softmax_int, stx__rule_logsumexp;

/* decompose_sort.c */
stx__rule_fn stx__rule_sort, stx__rule_topk, stx__rule_median, stx__rule_rows;

/* decompose_norm.c */
stx__rule_fn stx__rule_native_norm, stx__rule_norm_grad, stx__rule_batch_norm;

/* decompose_random.c */
stx__rule_fn stx__rule_random_like, stx__rule_random_scaled, stx__rule_bernoulli, stx__rule_dropout,
	stx__rule_randint, stx__rule_randperm;

/* decompose_scan.c */
stx__rule_fn stx__rule_scan, stx__rule_running_extreme;

/* decompose_bag.c */
stx__rule_fn stx__rule_embedding_bag;

/* decompose_search.c */
stx__rule_fn stx__rule_search, stx__rule_cdist, stx__rule_pdist;

/* decompose_scatter.c */
stx__rule_fn stx__rule_scatter_reduce, stx__rule_scatter_value, stx__rule_scatter_add,
	stx__rule_index_put, stx__rule_index_write;

stx__rule_fn stx__rule_select_scatter, stx__rule_diagonal_scatter, stx__rule_masked_scatter,
	stx__rule_embedding_back;

/* decompose_memory.c */
stx__rule_fn stx__rule_same, stx__rule_copy, stx__rule_fill, stx__rule_empty, stx__rule_split,
	stx__rule_as_strided, stx__rule_sym;

/* Tables indexed by operator; NULL: no rule. */
extern stx__rule_fn *const stx__basis_rules[STX_OP_COUNT];
extern stx__rule_fn *const stx__primitive_rules[STX_OP_COUNT];

/* Applies a table until no node has a rule left. A table that never ends is INTERNAL, naming an
 * operator of the cycle (DF-01). */
stx_err stx__decompose(struct stx_graph *g, stx__rule_fn *const *table, struct stx_diag *d);

/* ---- building ---- */
struct stx_val stx__b_call(struct stx__build *b, enum stx_op op, uint32_t nargs,
			   const struct stx_arg *args);
struct stx_val stx__b_one(struct stx__build *b, enum stx_op op, struct stx_val x);
struct stx_val stx__b_two(struct stx__build *b, enum stx_op op, struct stx_val x, struct stx_val y);
struct stx_val stx__b_scalar(struct stx__build *b, enum stx_op op, struct stx_val x, double s);
struct stx_val stx__b_number(struct stx__build *b, enum stx_op op, struct stx_val x,
			     struct stx_arg s);
struct stx_val stx__b_where(struct stx__build *b, struct stx_val c, struct stx_val x,
			    struct stx_val y);
struct stx_val stx__b_cast(struct stx__build *b, struct stx_val x,
			   enum stx_dtype t); /* x if it is t */
struct stx_val stx__b_view(struct stx__build *b, struct stx_val x, uint32_t rank,
			   const stx_ex *sizes);
struct stx_val stx__b_expand(struct stx__build *b, struct stx_val x, uint32_t rank,
			     const stx_ex *sizes);
struct stx_val stx__b_swap(struct stx__build *b, struct stx_val x, uint32_t i, uint32_t j);
/* sum.dim_IntList (accumulated and returned in t), amax.default: over the dimensions in set. */
struct stx_val stx__b_sum(struct stx__build *b, struct stx_val x, uint32_t set, int keepdim,
			  enum stx_dtype t);
struct stx_val stx__b_amax(struct stx__build *b, struct stx_val x, uint32_t set, int keepdim);
/* 0-d or shaped constant. */
struct stx_val stx__b_full(struct stx__build *b, uint32_t rank, const stx_ex *sizes,
			   struct stx_arg value, enum stx_dtype t);
struct stx_val stx__b_arange(struct stx__build *b, int64_t n);
/* A constant of element type t; n bytes are copied. */
struct stx_val stx__b_constant(struct stx__build *b, enum stx_dtype t, uint32_t rank,
			       const int64_t *sizes, const void *bytes, size_t n);
/* index_select.default; slice.Tensor; unsqueeze.default. */
struct stx_val stx__b_index_select(struct stx__build *b, struct stx_val x, uint32_t dim,
				   struct stx_val index);
struct stx_val stx__b_slice(struct stx__build *b, struct stx_val x, uint32_t dim, int64_t start,
			    int64_t end, int64_t step);
struct stx_val stx__b_unsqueeze(struct stx__build *b, struct stx_val x, uint32_t dim);
stx_err stx__b_fail(struct stx__build *b, stx_err e, const char *text);

/* f32 for the half and 8-bit types, else t: what composites compute in (NUMERICS: round once). */
enum stx_dtype stx__wide(enum stx_dtype t);
/* Number of elements over the dimensions in set; 0 and an error in b when it is not a constant. */
int stx__b_count(struct stx__build *b, const struct stx_type *t, uint32_t set, double *count);
/* Dimensions of argument i of n as a set, and one dimension as a set (empty for a 0-d operand). */
uint32_t stx__b_dims(struct stx__build *b, const struct stx_node *n, uint32_t i, int empty_is_all);
uint32_t stx__b_dim(struct stx__build *b, const struct stx_node *n, uint32_t i);

static inline const struct stx_arg *stx__arg(const struct stx_node *n, uint32_t i)
{
	return &n->args[i];
}
static inline struct stx_val stx__operand(const struct stx_node *n, uint32_t i)
{
	return n->args[i].u.tensor;
}
static inline double stx__number(const struct stx_arg *a)
{
	return a->kind == STX_ARG_FLOAT || a->is_float ? a->u.f : (double)a->u.i;
}

/* Operand i in the type composites compute in, and a result rounded to n's type. */
static inline struct stx_val stx__b_widened(struct stx__build *b, const struct stx_node *n,
					    uint32_t i)
{
	struct stx_val x = stx__operand(n, i);
	return stx__b_cast(b, x, stx__wide(stx_val_type(x)->dtype));
}
static inline struct stx_val stx__b_rounded(struct stx__build *b, const struct stx_node *n,
					    struct stx_val x)
{
	return stx__b_cast(b, x, n->outs[0].dtype);
}

#endif
