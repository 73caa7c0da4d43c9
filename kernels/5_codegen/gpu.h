/* gpu.h
 * GPU code generation: devices, configurations of a kernel, CUDA C, cubins. Used by compile.c. */
#ifndef STX_GPU_H
#define STX_GPU_H

#include "bytes.h"
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
};
#define STX_GPU_MAX_CONFIGS 8
/* Candidates from form, size hints and direction of the reduction (seed 003 9.6, LC-02), the
 * heuristic choice first. Returns their number, 1 at least. Any of them gives right results
 * (LC-20). */
uint32_t stx_gpu_candidates(const struct stx_kernel *k, const struct stx_gpu_device *dev,
			    struct stx_gpu_config out[STX_GPU_MAX_CONFIGS]);
/* "XBLOCK=1024 threads=256" */
void stx_gpu_config_print(const struct stx_gpu_config *c, char out[96]);
/* Blocks along the three dimensions of the launch, over the kernel's scalars. y and z share the
 * second dimension; what exceeds 65535 there goes to the third. */
void stx_gpu_grid(const struct stx_kernel *k, const struct stx_gpu_config *c, stx_ex out[3]);

/* CUDA C of one kernel in one configuration: text that NVRTC takes without headers. Parameters:
 * the kernel's buffers in order, its scalars (long long), the bounds record, the kernel's number
 * (int) for it. */
stx_err stx_emit_cuda(const struct stx_kernel *k, const struct stx_gpu_config *c,
		      struct stx_bytes *out, struct stx_diag *d);

/* NVRTC, loaded at run time (nvrtc.c). */
struct stx_nvrtc;
/* dir: where libnvrtc lies, NULL: CUDA_HOME, then its usual place. UNSUPPORTED says where it was
 * looked for. Compiles one small kernel, so that later calls open no file. */
stx_err stx_nvrtc_new(const char *dir, struct stx_nvrtc **out, struct stx_diag *d);
void stx_nvrtc_free(struct stx_nvrtc *n);
const char *stx_nvrtc_version(const struct stx_nvrtc *n);
enum stx_nvrtc_stage { STX_NVRTC_CUBIN, STX_NVRTC_PTX };
stx_err stx_nvrtc_compile(struct stx_nvrtc *n, const char *source, const char *name,
			  const char *arch, int fast, enum stx_nvrtc_stage stage,
			  struct stx_bytes *out, struct stx_diag *d);

#endif
