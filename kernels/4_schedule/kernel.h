/* kernel.h
 * kernel IR: one kernel = parameters, axes with bindings, and a flat list of instructions in which loops,
 * accumulators and stores are structured markers around SSA code. CPU and GPU emitters both start here.
 *
 * Text form prints and parses; its bytes with normalised names are what the kernel digest is taken of and
 * what travels to an emit job. Built from loops.h buffers by kernel_build.c; value numbering merges equal
 * instructions (GK-16, LO-29); elementary functions are already expanded. One arena, one thread. */
#ifndef STX_KERNEL_H
#define STX_KERNEL_H

#include "bytes.h"
#include "expr.h"
#include "hash.h"
#include "loops.h"
#include "prims.h"
#include "stax_abi.h"

enum stx_binding {
	STX_AXIS_GRID,   /* the kernel's grid points: CPU threads take ranges of them, GPU blocks */
	STX_AXIS_LOOP,   /* serial */
	STX_AXIS_VECTOR, /* lanes: explicit vectors on the CPU, threads on the GPU; masked tail */
	STX_AXIS_UNROLL  /* constant size, fully unrolled */
};

/* Order in which an accumulator combines (NUMERICS.md): depends on shapes only, never on the target. */
enum stx_order {
	STX_ORDER_LANES,  /* 64 virtual lanes: element r goes to lane r mod 64; every 4096 elements (a chunk)
	                     the lanes are merged pairwise (l with l+32, +16, ... +1), chunk results merge
	                     pairwise in binary-counter order */
	STX_ORDER_SERIAL  /* in order of r, chunks of 1024 merged pairwise in binary-counter order;
	                     DOT: plain order, no chunks */
};

struct stx_axis {
	const char *name;  /* "x0", "r0_0" */
	stx_ex size;
	enum stx_binding binding;
	uint8_t is_reduction;
	uint32_t var;      /* variable number of index expressions = axis number */
};

enum stx_kop { /* a primitive below STX_PRIM_COUNT, or: */
	STX_K_CONST = STX_PRIM_COUNT, /* k */
	STX_K_INDEX,     /* index expression ex as dtype */
	STX_K_LOAD,      /* param a at element ex, mask c or STX_NONE */
	STX_K_STORE,     /* param a at element ex, value b, mask c or STX_NONE */
	STX_K_INDIRECT,  /* as STX_B_INDIRECT */
	STX_K_LOOP,      /* begins axis a; ends at the matching END. Code inside sees its variable. */
	STX_K_END,
	STX_K_ACC,       /* accumulator: monoid in flags, order in axis field, dtype; lives until RESULT;
	                    placed before the reduction LOOP(s) it accumulates over (a = first loop axis) */
	STX_K_UPDATE,    /* accumulator a with values b (and c) */
	STX_K_RESULT,    /* value of accumulator a after its loops; flags = which state value */
	STX_K_BARRIER,   /* GPU: all threads of a block; CPU: nothing */
	STX_KOP_COUNT
};

struct stx_kinst {
	uint8_t op, dtype, flags, axis;
	uint32_t a, b, c;
	stx_ex ex;
	union stx_scalar k;
};

struct stx_kparam {
	const char *name;
	enum stx_dtype dtype;
	uint8_t is_written, is_read;
	stx_ex elems;      /* elements reachable from the pointer */
	uint32_t buffer;   /* loops buffer id (not in the text form or digest) */
};

struct stx_kernel {
	struct stx_arena *arena;
	struct stx_exprs *ex;
	const char *name;            /* "per_fused_add_relu_sum_0"; not in the digest */
	enum stx_kernel_kind kind;
	STX_VEC(struct stx_kparam) params;
	STX_VEC(struct stx_axis) axes;
	STX_VEC(struct stx_kinst) insts;
	STX_VEC(uint32_t) scalars;   /* size symbols passed as scalar arguments, by number */
	uint8_t index_bits;          /* 32 or 64 (VR-08) */
	uint8_t target_gpu;
	stx_ex grid;                 /* grid points */
	stx_ex grain;                /* fewest grid points worth a thread */
};

stx_err stx_kernel_verify(const struct stx_kernel *k, struct stx_diag *d);
stx_err stx_kernel_print(const struct stx_kernel *k, struct stx_bytes *out);
stx_err stx_kernel_parse(struct stx_arena *a, const char *text, size_t n, struct stx_kernel **out,
                         struct stx_diag *d);
/* SHA-256 of the text with the kernel's and parameters' names normalised. */
stx_err stx_kernel_digest(const struct stx_kernel *k, struct stx_digest *out, struct stx_diag *d);
/* Symbol of the emitted function: "stx_k_" and 32 hex digits of the digest. */
void stx_kernel_symbol(const struct stx_digest *digest, char out[64]);

#endif
