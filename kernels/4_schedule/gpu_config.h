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
	uint32_t x, y, z,
		r; /* x of a kernel that sums down columns: rows of its one segment at once */
	uint32_t threads;     /* of a block */
	uint32_t row_threads; /* of them, threads that share a row of the reduction; 1: none */
	uint8_t inner;        /* those are neighbouring lanes; else lanes run along x */
	uint8_t persistent;   /* r covers the range of a block: the row stays in registers */
	/* Consecutive elements that a thread has, which it loads and stores at once where it can
	 * (gpu_runs.c): along r where lanes run along r, else along x; along y. 1: it takes turns
	 * with its neighbours. */
	uint8_t vec, vec_y;
	/* Neighbouring blocks that share a row, which exchange their results on the chip: block b of
	 * them takes every cluster-th run of r iterations from b*r on. 1: a block has its rows. */
	uint32_t cluster;
	uint32_t
		ahead; /* 1, of a loop over rows: the next row is asked for while one is worked on */
};
#define STX_GPU_CONFIG_BYTES 96 /* of its text, the NUL included */

#define STX_GPU_MAX_VEC 16

/* Columns whose sums the blocks of a multiprocessor keep in registers while they work along rows: 1024
 * threads of 64 registers, 8 columns each; of one of its blocks, but for rows that are longer. */
#define STX_GPU_COLUMNS       8192
#define STX_GPU_BLOCK_COLUMNS 4096

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
/* Threads of a block along the grid axes; c fits some kernel. */
struct stx_gpu_lanes {
	uint32_t x, y, z;
};
struct stx_gpu_lanes stx_gpu_lanes(const struct stx_gpu_config *c);
/* How the element of a LOAD or STORE moves over the runs of an axis: `width` values of its variable,
 * the first a multiple of width. NONE: somehow, or it has a mask. UNIFORM: it stays. UNIT: one
 * after the other, the first a multiple of width too. */
enum stx_gpu_run { STX_RUN_NONE, STX_RUN_UNIFORM, STX_RUN_UNIT };
/* The number of accesses that are UNIT. run: one for each instruction, or NULL. */
uint32_t stx_gpu_runs(const struct stx_kernel *k, uint32_t axis, uint32_t width, uint8_t *run);
/* 1: the axis' size is known to be a multiple of width. */
int stx_gpu_is_whole_runs(const struct stx_kernel *k, uint32_t axis, uint32_t width);
/* The loop over rows whose columns are summed (kernel.h: a row of states); STX_NONE: there is none. */
uint32_t stx_gpu_rows_axis(const struct stx_kernel *k);
int stx_gpu_sorts(const struct stx_kernel *k); /* it has a SORT: a block has one row */
/* 1: along one axis, and what is computed of an element takes longer than its bytes. */
int stx_gpu_computes(const struct stx_kernel *k);
/* Blocks along the three dimensions of the launch, over the kernel's scalars. y and z share the
 * second dimension; what exceeds 65535 there goes to the third. The blocks of a cluster are
 * neighbours along the first. */
void stx_gpu_grid(const struct stx_kernel *k, const struct stx_gpu_config *c, stx_ex out[3]);
/* Name of the code of the kernel of that digest in that configuration. The digest leaves out size
 * hints, on which the choice depends: two kernels of one artifact may share it and not the code. */
void stx_gpu_symbol(const struct stx_digest *kernel, const struct stx_gpu_config *c, char out[64]);

#endif
