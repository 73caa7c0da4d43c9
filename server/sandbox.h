/* sandbox.h
 * closing a worker: limits and priority before it warms up, no rights and no dangerous calls after.
 *
 * Default action of the filter: the call fails with EPERM. An allow-list names memory, files
 * already open, time and signals to itself; whatever else LLVM tries (reading a config file, asking
 * for the terminal's size) fails softly instead of killing the worker. Source: design.md, Trust. */
#ifndef STX_SANDBOX_H
#define STX_SANDBOX_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

enum stx__sched { STX__SCHED_NORMAL, STX__SCHED_NICE, STX__SCHED_IDLE };

/* Before warming: no core dumps, an environment of CUDA_HOME only, killed with the parent, limits on
 * data and on the size of a file: an eighth of memory_bytes, so that the few descriptors a closed worker may
 * have hold less than its memory limit. parent: pid the process must still have (0: do not check).
 * memory_bytes 0: no limit. */
stx_err stx__sandbox_prepare(int64_t parent, uint64_t memory_bytes, struct stx_diag *d);
/* Lower priority; called after warming so that a start is not starved. Failure is harmless. */
void stx__sandbox_priority(enum stx__sched s);
/* After warming: drops rights (another user when root), Landlock where there is any, seccomp with
 * TSYNC. level gets "seccomp+landlock", "seccomp" or "none: why". */
void stx__sandbox_close(char *level, size_t cap);
/* Tries what must be refused, and what libraries must be told; fn gets a name and the errno (0: it
 * was allowed). Harmless either way. */
void stx__sandbox_probe(void (*fn)(void *ctx, const char *name, int err), void *ctx);

#endif
