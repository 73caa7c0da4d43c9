/* codegen.h
 * code generation: kernel IR to object code, the data plan, the link. */
#ifndef STX_CODEGEN_H
#define STX_CODEGEN_H

#include "bytes.h"
#include "cpu_target.h"
#include "kernel.h"
#include "schedule.h"

/* ---- LLVM (emit_llvm.c) ---- */
struct stx_llvm; /* initialised target machines; one a process */
stx_err stx_llvm_new(struct stx_llvm **out, struct stx_diag *d);
void stx_llvm_free(struct stx_llvm *l);
void stx_llvm_version(char out[32]); /* "19.1.7", of the library that is mapped */

enum stx_emit_stage { STX_EMIT_OBJECT, STX_EMIT_SOURCE, STX_EMIT_OPTIMIZED_IR, STX_EMIT_ASM };
struct stx_emit_info {
	uint32_t vector_elems;            /* iterations of the widest vector loop taken at once */
	uint32_t threads;                 /* GPU: of a block */
	uint32_t spills;                  /* bytes; CPU: 0, LLVM's C interface does not tell */
	uint32_t registers, shared_bytes; /* GPU */
	uint64_t us_build, us_opt, us_emit;
};
enum stx_emit_how {
	STX_EMIT_FAST = 1, /* numerics */
	STX_EMIT_LONG = 2  /* for tests: also a loop of little work is emitted as a long one is */
};
/* One kernel to an ELF object (or text). The function's symbol is stx_kernel_symbol of its digest.
 * how: of enum stx_emit_how. Any error diagnostic of LLVM is a failure. */
stx_err stx_emit_llvm(struct stx_llvm *l, const struct stx_kernel *k,
		      const struct stx_cpu_target *t, unsigned how, enum stx_emit_stage stage,
		      struct stx_bytes *out, struct stx_emit_info *info, struct stx_diag *d);

/* Takes from t the features beyond its level that k has no use for. stx_emit_llvm emits for what is
 * left, so machines that differ in the others share k's code. */
void stx_emit_target(const struct stx_kernel *k, struct stx_cpu_target *t);

struct stx_emit_needs {
	size_t scratch; /* bytes a call of the kernel works in (stx_kernel_frame.scratch) */
	/* Operands that may be packed before the run (emit_llvm_tile_prepare.c). The function that
	 * does, over so many points, is stx_kernel_prepare_symbol of the number. */
	uint32_t nprepared;
	struct {
		uint32_t points;
		uint64_t bytes;
	} prepared[2];
};
stx_err stx_emit_needs(const struct stx_kernel *k, const struct stx_cpu_target *target,
		       struct stx_emit_needs *out);

/* ---- plan (plan_write.c) ---- */
struct stx_gpu_choices;
/* The data plan of a schedule for a target. choices: configurations of each kernel of a GPU
 * target (6_tune), else NULL. Kernel symbols from digests and configurations. */
stx_err stx_plan_write(const struct stx_schedule *s, const char *target,
		       const struct stx_gpu_choices *choices, struct stx_bytes *out,
		       struct stx_diag *d);
/* An ELF64 relocatable: data in a read-only section, named by a global symbol (data_object.c). */
stx_err stx_data_object(const char *section, const char *symbol, struct stx_span data,
			struct stx_bytes *out, struct stx_diag *d);

/* ---- link (link.cc behind lld.h: lld in process, over memory) ---- */
stx_err stx_link_shared(const struct stx_span *objects, uint32_t n, struct stx_bytes *out,
			struct stx_diag *d);

#endif
