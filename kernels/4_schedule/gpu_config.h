/* gpu_config.h
 * a launch configuration of a GPU kernel: what the heuristics of 6_tune choose among and 5_codegen
 * writes code for. */
#ifndef STX_GPU_CONFIG_H
#define STX_GPU_CONFIG_H

#include "gpu_target.h"
#include "kernel.h"

/* How a kernel's points are dealt to blocks and threads. A block takes x*y*z points of the grid
 * axes, and r iterations of the reduction at a time (0: no reduction). All are powers of two. */
struct stx_gpu_config {
	uint32_t x, y, z, r;
	uint32_t threads;     /* of a block */
	uint32_t row_threads; /* of them, threads that share a row of the reduction; 1: none */
	uint8_t inner;        /* those are neighbouring lanes; else lanes run along x */
	uint8_t persistent;   /* r covers the whole range: the row stays in registers */
	uint8_t reserved[2];  /* 0: configurations are compared byte for byte */
};
#define STX_GPU_CONFIG_BYTES 96 /* of its text, the NUL included */

/* The configurations of a kernel that may be measured, the heuristic choice first. */
#define STX_GPU_MAX_CONFIGS 8
struct stx_gpu_choices {
	struct stx_gpu_config at[STX_GPU_MAX_CONFIGS];
	uint32_t n;
};

/* "XBLOCK=1024 threads=256": equal configurations have equal texts, and a text names one
 * configuration of the kernel. */
void stx_gpu_config_print(const struct stx_gpu_config *c, char out[STX_GPU_CONFIG_BYTES]);
/* From a text that may be anything. INVALID: no configuration that kernel k can have on the device.
 * Whatever parses gives right results (LC-20). */
stx_err stx_gpu_config_parse(const char *text, const struct stx_kernel *k,
			     const struct stx_gpu_device *dev, struct stx_gpu_config *out,
			     struct stx_diag *d);
/* 1: kernel k can be compiled in it for the device. */
int stx_gpu_config_fits(const struct stx_gpu_config *c, const struct stx_kernel *k,
			const struct stx_gpu_device *dev);
int stx_gpu_sorts(const struct stx_kernel *k); /* it has a SORT: a block has one row */
/* Blocks along the three dimensions of the launch, over the kernel's scalars. y and z share the
 * second dimension; what exceeds 65535 there goes to the third. */
void stx_gpu_grid(const struct stx_kernel *k, const struct stx_gpu_config *c, stx_ex out[3]);
/* Name of the code of the kernel of that digest in that configuration. The digest leaves out size
 * hints, on which the choice depends: two kernels of one artifact may share it and not the code. */
void stx_gpu_symbol(const struct stx_digest *kernel, const struct stx_gpu_config *c, char out[64]);

#endif
