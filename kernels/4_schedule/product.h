/* product.h
 * matrix products that a library may make: shared by product.c, fuse.c and schedule.c only. */
#ifndef STX_PRODUCT_H
#define STX_PRODUCT_H

#include "schedule_impl.h"

struct stx__product {
	uint32_t operand[2]; /* buffers with the rows and with the columns of the result */
	uint8_t is_swapped;  /* the library's A is operand 1 */
	stx_ex attrs[STX_MATMUL_NATTRS]; /* stax_abi.h; arguments are not filled yet */
	uint32_t workspace;              /* buffer */
	/* A buffer that the call can compute too, if it joins the kernel: the sum plus a row that
	 * is the same for all of them, rounded once. STX_NONE: none. */
	uint32_t epilogue, bias;
	uint8_t with_is_swapped;
	stx_ex with[STX_MATMUL_NATTRS]; /* attrs of the call that does */
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

#endif
