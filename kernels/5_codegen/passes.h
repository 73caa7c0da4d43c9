/* passes.h
 * LLVM's optimiser and back end for one target machine, kept from one kernel to the next.
 *
 * To build the back end's 120 passes and the optimiser's analyses takes longer than to run them on a
 * small kernel, and LLVM's C API does so for every module. The C++ one lets both be run on one module
 * after the other (llc's -compile-twice), of other contexts too: what they leave of a module is
 * dropped at its end. An object does not depend on what was emitted before it
 * (test_emit_stage.c). */
#ifndef STX_PASSES_H
#define STX_PASSES_H

#include <stddef.h>

#include <llvm-c/TargetMachine.h>

#ifdef __cplusplus
extern "C" {
#endif

struct stx__passes;
/* The machine outlives it. NULL: the pipeline is none, err says why (NUL-terminated, cut to cap). */
struct stx__passes *stx__passes_new(LLVMTargetMachineRef machine, const char *pipeline, char *err,
				    size_t cap);
void stx__passes_free(struct stx__passes *p); /* NULL is fine */

void stx__passes_optimise(struct stx__passes *p, LLVMModuleRef module);

/* Receives the code in one piece; 0, or what emit shall return. */
typedef int stx__passes_put(void *ctx, const void *at, size_t n);
/* The module is spent. -1: this LLVM has no back end as wanted. */
int stx__passes_emit(struct stx__passes *p, LLVMModuleRef module, int assembly,
		     stx__passes_put *put, void *ctx);

#ifdef __cplusplus
}
#endif

#endif
