/* product.h
 * matrix products and convolutions that a library may make: shared by product.c, convolution.c,
 * fuse.c and schedule.c only. */
#ifndef STX_PRODUCT_H
#define STX_PRODUCT_H

#include "schedule_impl.h"

#define STX__CALL_ATTRS 56 /* of a call, at most */
_Static_assert((int)STX_CONV_NATTRS <= STX__CALL_ATTRS && (int)STX_MATMUL_NATTRS <= STX__CALL_ATTRS,
	       "room for attributes");

struct stx__call_kind {
	const char *name;  /* STX_CALL_* */
	const char *alone; /* why nothing else is in its kernel, for people */
	uint32_t nattrs;
	/* attributes that are numbers of arguments */
	uint32_t operand[2], result, bias;
};

struct stx__call_form {      /* attributes but for the numbers of arguments (stax_abi.h) */
	uint32_t operand[2]; /* buffers */
	stx_ex attrs[STX__CALL_ATTRS];
};

struct stx__product {
	const struct stx__call_kind *kind;
	struct stx__call_form plain;
	uint32_t workspace; /* buffer */
	/* A buffer that the call can compute too, if it joins the kernel: the sum plus a row that
	 * is the same for all of them, rounded once. STX_NONE: none. */
	uint32_t epilogue, bias;
	struct stx__call_form with; /* of the call that does */
};

struct stx__products {
	struct stx__product **of; /* [n] by buffer that is one; NULL: it is none */
	uint32_t n;
};

static inline const struct stx__product *stx__product_of(const struct stx__products *p, uint32_t b)
{
	return p->of && b < p->n ? p->of[b] : NULL;
}

/* Adds their workspaces to l. */
stx_err stx__find_products(struct stx_loops *l, struct stx__products *out, struct stx_diag *d);
/* The call for p, whose kernel is number `kernel` of s; with: its epilogue is in the kernel. */
stx_err stx__product_call(struct stx_schedule *s, const struct stx__product *p, int with,
			  uint32_t kernel, struct stx_external *out);

/* ---- insert.c ---- */

struct stx__inserted {
	uint32_t before; /* buffer */
	struct stx_buffer *b;
};
struct stx__inserting {
	struct stx_loops *l;
	STX_VEC(struct stx__inserted) added;
};
/* A pointwise temporary without body and layout, before `next`; NULL: out of memory. */
struct stx_buffer *stx__new_before(struct stx__inserting *t, const struct stx_buffer *next,
				   const char *what, enum stx_dtype type, enum stx_realized rule);
/* b over n ranges in dense memory; 0: out of memory, or past 64 bits. */
int stx__dense_layout(struct stx__inserting *t, struct stx_buffer *b, const stx_ex *sizes,
		      uint32_t n);
/* Instructions behind b's last, for which it has room: their numbers. */
uint32_t stx__put(struct stx_body *b, int op, enum stx_dtype t, uint32_t x, uint32_t y, uint32_t z);
uint32_t stx__put_number(struct stx_body *b, enum stx_dtype t, union stx_scalar v);
uint32_t stx__put_load(struct stx_body *b, uint32_t buffer, enum stx_dtype t, stx_ex at,
		       uint32_t mask);
/* All that were added have their places and numbers. NOMEM. */
stx_err stx__insert(struct stx__inserting *t);

/* ---- channels.c ---- */

/* Convolutions of halves of a few channels read copies with as many as tensor cores want. Before
 * products are found. */
stx_err stx__pad_channels(struct stx_loops *l, struct stx_diag *d);

/* ---- widen.c ---- */

/* Products of f32 and halves read f32. Before products are found. */
stx_err stx__widen_operands(struct stx_loops *l, struct stx_diag *d);

/* ---- attention.c ---- */

#define STX__ATTENTION_MOST 16
struct stx__attention { /* that a library may make */
	/* What only it needs: those that it stands for, then copies of its operands, then its
	 * result. */
	uint32_t buffers[STX__ATTENTION_MOST], n, needed;
	struct stx_external call; /* but for the number of steps it stands for */
};
struct stx__attentions {
	struct stx__attention *at;
	uint32_t n, cap;
};
/* Of an attention's scores x, by instructions of x's body: `added` to the scaled scores, or (added
 * STX_NONE) they are where `seen` is true, or is_hidden false, and -infinity elsewhere. */
struct stx__mask {
	uint32_t x, y, scores, added, seen;
	int is_hidden, is_guarded;
	uint32_t causal; /* the select that hides later keys too, whose c hides, or b; STX_NONE */
	int causal_hides;
	enum stx_dtype type; /* of a bias in memory */
	int64_t heads;
	stx_ex point[STX__MAX_DIMS]; /* of the second product, that y reads at its own */
};
struct stx__masks {
	struct stx__mask *at;
	uint32_t n, cap;
};
/* attention_mask.c: what masks the scores of buffer x is not made from those, which buffer s
 * has. */
int stx__mask_is_free(const struct stx_loops *l, const struct stx__mask *m, uint32_t x, uint32_t s);
/* Adds to l the buffers that make them biases. NOMEM. */
stx_err stx__insert_masks(struct stx_loops *l, const struct stx__masks *masks);
/* Makes biases of the masks of attentions that a library may make. Before products are found. */
stx_err stx__find_masks(struct stx_loops *l, struct stx_diag *d);

/* requires: products found, masks too. Adds their workspaces to l. */
stx_err stx__find_attentions(struct stx_loops *l, struct stx__attentions *out, struct stx_diag *d);

/* ---- between product.c, convolution.c and attention.c ---- */

#define STX__MIN_WORK ((int64_t)1 << 18) /* multiplications below which one small kernel does */

struct stx__finding {
	struct stx_loops *l;
	struct stx_exprs *ex;
	struct stx_arena *arena;
	uint32_t *nreads, *reader; /* [nbuffers]: loads of each, the buffer of the last */
};

/* Fills the counts; 0: out of memory. */
int stx__count_reads(struct stx__finding *f);
/* A buffer of so many bytes after all others; NULL: out of memory. */
struct stx_buffer *stx__add_workspace(const struct stx__finding *f, stx_ex bytes);
/* e = sum of coeff[v] times variable v, plus rest, both over size symbols only; else 0. */
int stx__affine(const struct stx__finding *f, stx_ex e, uint32_t nvars, stx_ex *coeff,
		stx_ex *rest);
/* e = round(b + row), b an f32 sum: its loads of both; 0: it is something else. */
int stx__find_sum(const struct stx__finding *f, const struct stx_buffer *b,
		  const struct stx_buffer *e, struct stx_binst **sum, struct stx_binst **row);
/* The buffer that alone reads b, a temporary, and could be an epilogue: it reads a bias that is
 * there before; its two loads. NULL: none. */
struct stx_buffer *stx__find_addition(const struct stx__finding *f, const struct stx_buffer *b,
				      struct stx_binst **sum, struct stx_binst **row);

/* convolution.c: fills p but for its workspace, of which *workspace is the size; 0: b is no
 * convolution that the library could make. */
int stx__find_convolution(const struct stx__finding *f, const struct stx_buffer *b,
			  struct stx__product *p, int64_t *workspace);

#endif
