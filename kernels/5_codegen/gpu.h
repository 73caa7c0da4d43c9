/* gpu.h
 * GPU code generation: CUDA C of a kernel in a configuration, cubins. Used by compile.c. */
#ifndef STX_GPU_H
#define STX_GPU_H

#include "bytes.h"
#include "gpu_config.h"

/* CUDA C of one kernel in one configuration: text that NVRTC takes without headers. Parameters:
 * the kernel's buffers in order, its scalars (long long), the bounds record, the kernel's number
 * (int) for it. */
stx_err stx_emit_cuda(const struct stx_kernel *k, const struct stx_gpu_config *c,
		      struct stx_bytes *out, struct stx_diag *d);

/* What the assembler said of a kernel. spills: bytes stored and loaded again. */
struct stx_gpu_usage {
	uint32_t registers, spills, shared_bytes;
};
/* NVRTC, loaded at run time (nvrtc.c). */
struct stx_nvrtc;
/* dir: where libnvrtc lies, NULL: CUDA_HOME, then its usual place. UNSUPPORTED says where it was
 * looked for. Compiles one small kernel, so that later calls open no file. */
stx_err stx_nvrtc_new(const char *dir, struct stx_nvrtc **out, struct stx_diag *d);
void stx_nvrtc_free(struct stx_nvrtc *n);
enum stx_nvrtc_stage { STX_NVRTC_CUBIN, STX_NVRTC_PTX };
/* usage: of a cubin; may be NULL. */
stx_err stx_nvrtc_compile(struct stx_nvrtc *n, const char *source, const char *name,
			  const char *arch, int fast, enum stx_nvrtc_stage stage,
			  struct stx_bytes *out, struct stx_gpu_usage *usage, struct stx_diag *d);

#endif
