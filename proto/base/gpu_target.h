/* gpu_target.h
 * CUDA targets: architectures and devices by name. Thread-safe, nothing allocates. */
#ifndef STX_GPU_TARGET_H
#define STX_GPU_TARGET_H

#include <stdint.h>

#include "status.h"

/* What the compiler must know of a device (design: keys). Documented default for an architecture:
 * the first row of gpu_devices.def with it. */
struct stx_gpu_device {
	const char *name; /* "h200" */
	const char *arch; /* "sm_90a" */
	uint32_t sms, threads_per_sm, max_threads_per_block;
	uint32_t shared_per_block, l2_bytes;
	uint32_t cluster; /* most blocks that can exchange results on the chip; 1: none */
};
struct stx_gpu_target {
	struct stx_gpu_device device;
};
/* "cuda:sm_90a:h200"; sm_90, sm_100 and sm_120 are aliases of the architecture-specific names, no
 * profile is the default one. "cuda" alone is resolved by the client. UNSUPPORTED names it. */
stx_err stx_gpu_target_parse(const char *text, struct stx_gpu_target *out, struct stx_diag *d);
/* Elements of a row that blocks of the device keep from one pass over it to the next, with room for
 * another row beside it, so that one is loaded while the other is computed. 0: no more than a block
 * alone does. */
int64_t stx_gpu_kept_row(const struct stx_gpu_device *d);
int stx_gpu_is_target(const char *text); /* begins with "cuda" */
void stx_gpu_target_print(const struct stx_gpu_target *t, char out[64]);

/* The target for a device that is there: its compute capability and the driver's name of it. 0: an
 * architecture that is not in the table. */
int stx_gpu_target_find(int major, int minor, const char *device, struct stx_gpu_target *out);

#endif
