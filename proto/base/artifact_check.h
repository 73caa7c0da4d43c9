/* artifact_check.h
 * whether a shared object that a worker has linked may be loaded by a client. */
#ifndef STX_ARTIFACT_CHECK_H
#define STX_ARTIFACT_CHECK_H

#include "bytes.h"
#include "status.h"

/* Refuses (UNTRUSTED): DT_NEEDED outside a short list, RPATH, INIT/FINI, IFUNC, text relocations,
 * writable code, executable stack, undefined symbols except memcpy, memmove, memset. Reads only
 * within elf, allocates nothing, linear in its size; any thread. */
stx_err stx_artifact_check(struct stx_span elf, struct stx_diag *d);

#endif
