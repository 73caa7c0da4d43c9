/* infer.h
 * internal to 1_graph: declarations of every shape rule named in ops.def, and what they share. */
#ifndef STX_INFER_H
#define STX_INFER_H

#include "graph.h"

#define STX_OP(name, overload, cat, promote, shape, prim, tags, schema)                            \
	stx_shape_fn stx_shape_##shape;
#include "ops.def"
#undef STX_OP

#define STX__INFER_FAIL(d, n, ...) stx_fail((d), STX_E_INVALID, "infer", (n)->name, __VA_ARGS__)

/* Gives n one result; sizes is copied. */
stx_err stx__infer_set(struct stx_graph *g, struct stx_node *n, enum stx_dtype t, uint32_t rank,
		       const stx_ex *sizes, struct stx_diag *d);
/* Adds a result after those n has. */
stx_err stx__infer_add(struct stx_graph *g, struct stx_node *n, enum stx_dtype t, uint32_t rank,
		       const stx_ex *sizes, struct stx_diag *d);
/* For messages: "f32[2,4]", in the graph's arena; and a size, "4" or "a symbolic size (hint 4)". */
const char *stx__infer_shown(struct stx_graph *g, const struct stx_type *t);
void stx__infer_size_text(struct stx_graph *g, stx_ex e, char out[48]);
/* 1: a difference from these sizes is one, and not only unproved. */
int stx__infer_is_static(struct stx_graph *g, const stx_ex *sizes, uint32_t rank);
/* Type of tensor argument i. */
const struct stx_type *stx__infer_type(const struct stx_node *n, uint32_t i);
/* A dimension given as a constant that may be negative: 0 <= *dim < rank (0-d counts as rank 1). */
stx_err stx__infer_dim(struct stx_graph *g, const struct stx_node *n, stx_ex e, uint32_t rank,
		       uint32_t *dim, struct stx_diag *d);
/* The dimensions of list argument i as a bit set; repeated ones are an error. NONE or an empty list
 * with empty_is_all gives all. */
stx_err stx__infer_dims(struct stx_graph *g, const struct stx_node *n, uint32_t i, uint32_t rank,
			int empty_is_all, uint32_t *set, struct stx_diag *d);
/* The error that the operator has no form for operands of type t. */
stx_err stx__infer_not_for(const struct stx_node *n, enum stx_dtype t, struct stx_diag *d);
/* Common type of the tensor and scalar arguments, alpha and beta left out (NONE: there is none). */
enum stx_dtype stx__infer_common(const struct stx_node *n, uint32_t first);
/* t is the type of an index tensor: i64 or i32, bools named as what is not offered. */
stx_err stx__infer_index(const struct stx_node *n, const struct stx_type *t, struct stx_diag *d);
/* The dimensions of x that index tensors choose from, as a bit set; chosen: what is read from, or
 * written to, it. INVALID when one of them is empty and something is chosen, since no
 * index is right. */
stx_err stx__infer_indexed(struct stx_graph *g, const struct stx_node *n, const struct stx_type *x,
			   uint32_t dims, const struct stx_type *chosen, struct stx_diag *d);
/* What a convolution or pooling slides, over its k spatial dimensions (the last ones). Arguments
 * are constants; a list of one value stands for every dimension, an empty stride for the kernel
 * size. */
#define STX__MAX_SPATIAL 3
struct stx__window {
	uint32_t k;
	int64_t kernel[STX__MAX_SPATIAL]; /* pooling only: a convolution's are its weight's sizes */
	int64_t stride[STX__MAX_SPATIAL], padding[STX__MAX_SPATIAL], dilation[STX__MAX_SPATIAL];
	int64_t output_padding[STX__MAX_SPATIAL]; /* convolution */
	int64_t groups;
	int ceil_mode, include_pad; /* pooling */
	int64_t divisor;            /* avg_pool's divisor_override, 0: none */
};
stx_err stx__infer_window(struct stx_graph *g, const struct stx_node *n, struct stx__window *w,
			  struct stx_diag *d);
/* Strides of an input; NULL for row-major ones, and for any other node. */
const stx_ex *stx__input_strides(const struct stx_graph *g, const struct stx_node *n);
/* What an upsample operator does to its k last dimensions. */
struct stx__upsampling {
	uint32_t k;
	enum { STX__NEAREST, STX__NEAREST_EXACT, STX__LINEAR, STX__CUBIC } mode;
	int64_t in[STX__MAX_SPATIAL], out[STX__MAX_SPATIAL];
	double scale[STX__MAX_SPATIAL]; /* result / operand where it was given, else 0 */
	int align_corners;
};
stx_err stx__infer_upsampling(struct stx_graph *g, const struct stx_node *n,
			      struct stx__upsampling *u, struct stx_diag *d);
int stx__infer_is_pool(enum stx_op op);
/* The convolution, without bias, that convolution_backward n belongs to; args: its 9 arguments. */
void stx__infer_conv_forward(const struct stx_node *n, struct stx_arg *args,
			     struct stx_node *forward);
/* Adaptive pooling from in to out elements; a backward operator has those of its forward one. */
struct stx__adaptive {
	uint32_t k;
	int64_t in[STX__MAX_SPATIAL], out[STX__MAX_SPATIAL];
};
stx_err stx__infer_adaptive(struct stx_graph *g, const struct stx_node *n, struct stx__adaptive *a,
			    struct stx_diag *d);
/* Windows folded into, or taken from, k dimensions. */
struct stx__fold {
	uint32_t k;
	int64_t kernel[STX__MAX_SPATIAL], dilation[STX__MAX_SPATIAL], padding[STX__MAX_SPATIAL],
		stride[STX__MAX_SPATIAL];
	int64_t in[STX__MAX_SPATIAL], out[STX__MAX_SPATIAL];
};
stx_err stx__infer_fold(struct stx_graph *g, const struct stx_node *n, struct stx__fold *f,
			struct stx_diag *d);
/* Argument e as a constant of [least, 2^31). name: what the error calls it. */
stx_err stx__infer_const(struct stx_graph *g, const struct stx_node *n, stx_ex e, int64_t least,
			 const char *name, int64_t *out, struct stx_diag *d);
/* List argument i, one constant of [least, 2^31) for each of k dimensions, or one for all; an empty
 * list gives `otherwise`, or is an error without it. */
stx_err stx__infer_list(struct stx_graph *g, const struct stx_node *n, uint32_t i, uint32_t k,
			int64_t least, const int64_t *otherwise, int64_t *out, struct stx_diag *d);
/* infer_number.c: a number argument of an operator that computes in t. INVALID when t is an integer
 * type that cannot hold its value (fraction dropped) and the value matters. */
stx_err stx__infer_number(const struct stx_node *n, const struct stx_arg *a, enum stx_dtype t,
			  struct stx_diag *d);
/* A number that fills elements of t: unsigned types take the bit pattern of a negative one too, as
 * in PyTorch. */
stx_err stx__infer_fill(const struct stx_node *n, const struct stx_arg *a, enum stx_dtype t,
			struct stx_diag *d);
/* All numbers of a pointwise node. */
stx_err stx__infer_operand_numbers(const struct stx_node *n, enum stx_dtype t, struct stx_diag *d);
stx_err stx__infer_no_common(const struct stx_node *n, struct stx_diag *d);

#endif
