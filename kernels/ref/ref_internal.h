/* ref_internal.h
 * inside the oracle: values with shared storage, element walks, and the functions that evaluate
 * operators. */
#ifndef STX_REF_INTERNAL_H
#define STX_REF_INTERNAL_H

#include "elementary.h"
#include "ref.h"
#include "scalar.h"

/* Memory of one or more tensors (views share it). */
struct stx__ref_storage {
	void *data;
	size_t bytes;
	uint32_t refs;
	int borrowed; /* the caller's or the graph's memory */
};

struct stx__ref_value {
	struct stx_tensor t;
	struct stx__ref_storage *st; /* NULL: not computed yet, or released */
};

struct stx__ref {
	struct stx_graph *g;
	struct stx_arena *arena;        /* bookkeeping and recorded programs of this evaluation */
	struct stx__ref_value **values; /* [node id] -> [nouts] */
	uint32_t *uses;                 /* [node id]: readers still to come */
	int64_t *syms;                  /* values of size symbols */
	size_t budget, used;            /* bytes of live storage */
	const struct stx_elem_program
		*programs[STX_PRIM_COUNT][2]; /* f32, f64; made on first use */
	struct stx_diag *d;
	stx_err err; /* last error reported */
};

typedef stx_err stx__ref_fn(struct stx__ref *r, const struct stx_node *n);

/* Tensor argument i (absent optional ones: NULL). */
const struct stx_tensor *stx__ref_arg(const struct stx__ref *r, const struct stx_node *n,
				      uint32_t i);
/* The first result, allocated dense and row-major; NULL with the error reported when it does not
 * fit. */
struct stx_tensor *stx__ref_result(struct stx__ref *r, const struct stx_node *n);
/* The same for result i. */
struct stx_tensor *stx__ref_result_at(struct stx__ref *r, const struct stx_node *n, uint32_t i);
/* The first result as a view of argument i's storage; its type comes from the node. */
stx_err stx__ref_alias(struct stx__ref *r, const struct stx_node *n, uint32_t i,
		       const int64_t *strides, int64_t offset);
/* Value of a size or index expression. 0, or an error reported. */
stx_err stx__ref_int(struct stx__ref *r, const struct stx_node *n, stx_ex e, int64_t *out);
/* Dimension number (may be negative) of a tensor of this rank. */
stx_err stx__ref_dim(struct stx__ref *r, const struct stx_node *n, stx_ex e, uint32_t rank,
		     uint32_t *dim);
/* The error already reported by a function that returned NULL. */
static inline stx_err stx__ref_error(const struct stx__ref *r)
{
	return r->err ? r->err : STX_E_INTERNAL;
}
void stx__ref_report(struct stx__ref *r, const struct stx_node *n, stx_err e, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static inline stx_err stx__ref_reported(stx_err e)
{
	return e;
}
/* Reports e, and is e: a macro, so that compilers and analysers see that it is not 0. */
#define stx__ref_fail(r, n, e, ...)                                                                \
	(stx__ref_report((r), (n), (e), __VA_ARGS__), stx__ref_reported(e))
/* A scalar argument as a value of dtype t. */
union stx_scalar stx__ref_scalar(const struct stx_arg *a, enum stx_dtype t);
double stx__ref_scalar_f(const struct stx_arg *a);

/* What an operator on dtype t computes in: f32 for the smaller floats, else t. */
static inline enum stx_dtype stx__ref_work(enum stx_dtype t)
{
	return stx_dtype_is_float(t) && t != STX_F64 ? STX_F32 : t;
}
static inline union stx_scalar stx__ref_cast(enum stx_dtype to, enum stx_dtype from,
					     union stx_scalar v)
{
	return to == from ? v : stx_prim_eval(STX_P_CAST, to, from, v, v, v);
}
/* An elementary function on f32 or f64 values (t says which). NULL when over the memory budget. */
const struct stx_elem_program *stx__ref_program(struct stx__ref *r, enum stx_prim op,
						enum stx_dtype t);

/* ---- elements ---- */
int64_t stx__ref_numel(const struct stx_tensor *t);
static inline void *stx__ref_at(const struct stx_tensor *t, int64_t off)
{
	return (char *)t->data + off * stx_dtype_bytes((enum stx_dtype)t->dtype);
}
static inline union stx_scalar stx__ref_load(const struct stx_tensor *t, int64_t off)
{
	return stx_scalar_load((enum stx_dtype)t->dtype, stx__ref_at(t, off));
}
static inline void stx__ref_store(const struct stx_tensor *t, int64_t off, union stx_scalar v)
{
	stx_scalar_store((enum stx_dtype)t->dtype, stx__ref_at(t, off), v);
}

#define STX__REF_OPERANDS 4
/* Visits an index space in row-major order, keeping the element offset of several operands. */
struct stx__ref_walk {
	uint32_t rank, nops;
	int64_t left; /* points still to visit, this one included */
	int64_t sizes[STX_MAX_DIMS], at[STX_MAX_DIMS];
	int64_t strides[STX__REF_OPERANDS][STX_MAX_DIMS];
	int64_t off[STX__REF_OPERANDS];
};
/* Over the given sizes; no operands yet. Points exist while left > 0. */
void stx__ref_walk_start(struct stx__ref_walk *w, uint32_t rank, const int64_t *sizes);
/* Adds an operand with strides over the walk's dimensions; returns its number. */
uint32_t stx__ref_walk_add(struct stx__ref_walk *w, const int64_t *strides, int64_t offset);
/* Adds tensor t, right-aligned and broadcast to the walk's sizes. */
uint32_t stx__ref_walk_broadcast(struct stx__ref_walk *w, const struct stx_tensor *t);
void stx__ref_walk_next(struct stx__ref_walk *w);

/* ---- operators, by file ---- */
stx__ref_fn stx__ref_pointwise, stx__ref_assert; /* ref_pointwise.c */
stx__ref_fn stx__ref_full, stx__ref_arange, stx__ref_copy, stx__ref_copy_into,
	stx__ref_view_dtype; /* ref_create.c */
stx__ref_fn stx__ref_reduce, stx__ref_argreduce, stx__ref_extreme_pair, stx__ref_online_softmax,
	stx__ref_var, stx__ref_logsumexp; /* ref_reduce.c */
stx__ref_fn stx__ref_view, stx__ref_permute, stx__ref_transpose, stx__ref_expand, stx__ref_squeeze,
	stx__ref_unsqueeze, stx__ref_slice, stx__ref_select, stx__ref_flip, stx__ref_diagonal,
	stx__ref_unfold; /* ref_view.c */
stx__ref_fn stx__ref_gather, stx__ref_index_select, stx__ref_embedding, stx__ref_index,
	stx__ref_cat, stx__ref_pad, stx__ref_stack, stx__ref_repeat,
	stx__ref_triangle;                                              /* ref_index.c */
stx__ref_fn stx__ref_matmul, stx__ref_addmm, stx__ref_linear;           /* ref_contract.c */
stx__ref_fn stx__ref_convolution, stx__ref_max_pool, stx__ref_avg_pool; /* ref_window.c */
stx__ref_fn stx__ref_pad_own, stx__ref_resample, stx__ref_upsample;     /* ref_resample.c */
stx__ref_fn stx__ref_fold, stx__ref_columns, stx__ref_avg_pool_backward, stx__ref_max_pool_backward,
	stx__ref_conv_backward; /* ref_backward.c */
stx__ref_fn stx__ref_adaptive_pool, stx__ref_adaptive_backward,
	stx__ref_grid_sampler;                                             /* ref_sample.c */
stx__ref_fn stx__ref_sdpa, stx__ref_attend;                                /* ref_attention.c */
stx__ref_fn stx__ref_embedding_bag;                                        /* ref_bag.c */
stx__ref_fn stx__ref_running;                                              /* ref_scan.c */
stx__ref_fn stx__ref_search, stx__ref_cdist, stx__ref_pdist;               /* ref_search.c */
stx__ref_fn stx__ref_native_norm, stx__ref_norm_grad, stx__ref_batch_norm; /* ref_norm.c */
stx__ref_fn stx__ref_random, stx__ref_random_int, stx__ref_randperm,
	stx__ref_dropout; /* ref_random.c */
void stx__ref_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
stx__ref_fn stx__ref_sort;                                              /* ref_sort.c */
stx__ref_fn stx__ref_scan;                                              /* ref_scan.c */
stx__ref_fn stx__ref_scatter, stx__ref_index_write, stx__ref_index_put; /* ref_scatter.c */
stx__ref_fn stx__ref_identity, stx__ref_constant, stx__ref_split, stx__ref_as_strided,
	stx__ref_through, stx__ref_masked_scatter, stx__ref_embedding_back; /* ref_memory.c */
stx__ref_fn stx__ref_activation, stx__ref_softmax, stx__ref_layer_norm;     /* ref_composite.c */

/* ---- sums ---- */
/* A compensated sum (Neumaier) in extended precision: what f32 and f64 sums are rounded from.
 * Infinities and NaN come out as plain addition gives them. */
struct stx__ref_sum {
	long double s, c;
};
static inline void stx__ref_sum_add(struct stx__ref_sum *a, long double v)
{
	long double t = a->s + v;

	if (__builtin_isfinite(t)) {
		if (__builtin_fabsl(a->s) >= __builtin_fabsl(v))
			a->c += (a->s - t) + v;
		else
			a->c += (v - t) + a->s;
	}
	a->s = t;
}
static inline long double stx__ref_sum_value(const struct stx__ref_sum *a)
{
	return __builtin_isfinite(a->s) ? a->s + a->c : a->s;
}
/* v rounded once to float type t. */
double stx__ref_round_wide(enum stx_dtype t, long double v);

#endif
