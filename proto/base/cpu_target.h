/* cpu_target.h
 * CPU targets: levels of x86-64 by name, what this host offers; and the one spelling of any target,
 * which keys are taken of. Thread-safe, nothing allocates. */
#ifndef STX_CPU_TARGET_H
#define STX_CPU_TARGET_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#define STX_TARGET_BYTES 64

/* Bytes of the data caches as one core sees them: L1d, L2, and its share of L3. Powers of two: what
 * is there, rounded down, so that machines of one class have one name. They change which blocks
 * code works in and never a result. */
struct stx_cpu_caches {
	uint32_t l1, l2, l3;
};

/* Instruction set code may use. A partial order: stx_cpu_target_covers. */
struct stx_cpu_target {
	int level;               /* 2, 3, 4: x86-64-v2 .. v4; of a host also 1, older than those */
	unsigned avx512bf16 : 1; /* features beyond the level */
	unsigned avx512vnni : 1;
	unsigned avxvnni : 1;
	unsigned vector_bytes; /* 16, 32, 64 */
	struct stx_cpu_caches caches;
};

/* "cpu:x86-64-v3", "cpu:x86-64-v4+avx512bf16+avx512vnni", "cpu:x86-64-v3:32K-1M-4M": a level, then
 * features in the order above, avx512* from v4 on, avxvnni from v3, then caches; the level's where
 * none are named, and printed only when they are others, so that a name means the same everywhere.
 * UNSUPPORTED names it, "cpu" too: which level that is only who asks can say. */
stx_err stx_cpu_target_parse(const char *text, struct stx_cpu_target *out, struct stx_diag *d);
void stx_cpu_target_print(const struct stx_cpu_target *t, char out[STX_TARGET_BYTES]);

/* What code for the level assumes where nobody says. */
struct stx_cpu_caches stx_cpu_caches_default(int level);
/* Brings each size to the nearest class below it that a target can name. */
struct stx_cpu_caches stx_cpu_caches_class(uint64_t l1, uint64_t l2, uint64_t l3);
/* Of processor 0, from the operating system's tables below `root`
 * ("/sys/devices/system/cpu/cpu0/cache"), or the processor's own; 0 of what neither tells. */
void stx_cpu_caches_read(const char *root, uint64_t bytes[3]);

/* What this processor has and its operating system lets programs use. */
struct stx_cpu_target stx_cpu_target_host(void);
/* What timings made on this host are known by, for the process's life. */
struct stx_cpu_identity {
	char name[128];     /* "AMD EPYC 9B45 48K-1024K-16384K": model, then caches as they are */
	uint32_t clock_khz; /* the highest; 0: not told */
};
const struct stx_cpu_identity *stx_cpu_identity(void);
/* 1: code for need runs where have is offered, whatever the caches. */
int stx_cpu_target_covers(const struct stx_cpu_target *have, const struct stx_cpu_target *need);

/* As flags of a plan's header (STX_PLAN_CPU_*), and back. */
uint32_t stx_cpu_target_flags(const struct stx_cpu_target *t);
struct stx_cpu_target stx_cpu_target_of_flags(uint32_t flags);

/* The one spelling of an explicit target, CPU or CUDA: aliases and defaults written out.
 * UNSUPPORTED names what there is; "cpu" and "cuda" are refused, the client resolves them. */
stx_err stx_target_normalise(const char *text, char out[STX_TARGET_BYTES], struct stx_diag *d);
/* Length of the part of a target that one kernel's code depends on: all but a CPU's caches. What is
 * chosen by those stands in the kernel's IR, so machines share all kernels that came out alike. */
size_t stx_target_kernel_length(const char *target);

#endif
