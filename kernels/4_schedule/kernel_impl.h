/* kernel_impl.h
 * what this folder must know of kernel IR beside kernel.h: names and small queries. */
#ifndef STX_KERNEL_IMPL_H
#define STX_KERNEL_IMPL_H

#include "cpu_blocking.h"
#include "kernel.h"

const char *stx__order_name(enum stx_order o);
int stx__binding_parse(const char *text, size_t n); /* -1 when unknown */
int stx__order_parse(const char *text, size_t n);
int stx__kind_parse(const char *text, size_t n);

/* 1 when the instruction defines a value that others may name. ACC counts: UPDATE and RESULT name
 * it. */
int stx__kinst_defines(const struct stx_kinst *i);
/* Floating types arithmetic is not done in. */
int stx__dtype_is_narrow_float(enum stx_dtype t);
/* Position of size symbol `number` among the scalars, or -1. */
int stx__kernel_scalar(const struct stx_kernel *k, uint32_t number);

/* Text as printed; normalised: without what the digest leaves out. */
stx_err stx__kernel_text(const struct stx_kernel *k, int normalised, struct stx_bytes *out);

/* What an index expression mentions: variables (axis numbers below 64), symbols, indirect values.
 * Calls seen once for each mention; stops at the first non-zero result, which it returns; TOO_LARGE
 * when the expression unfolds to more than a million atoms. */
typedef stx_err stx__ex_seen_fn(void *ctx, const struct stx_ex_atom *atom);
stx_err stx__ex_walk(const struct stx_exprs *x, stx_ex e, stx__ex_seen_fn *seen, void *ctx);

#endif
