/* codegen.h
 * code generation: kernel IR to object code, the data plan, the link. */
#ifndef STX_CODEGEN_H
#define STX_CODEGEN_H

#include "bytes.h"
#include "kernel.h"
#include "schedule.h"

struct stx_cpu_target {
	int level; /* 2, 3, 4: x86-64-v2 .. v4 */
	unsigned avx512bf16 : 1;
	unsigned vector_bytes; /* 16, 32, 64 */
};
/* A resolved name: "cpu:x86-64-v3", "cpu:x86-64-v4+avx512bf16". */
stx_err stx_cpu_target_parse(const char *text, struct stx_cpu_target *out, struct stx_diag *d);
/* As in compile.h, which tells what they do. */
stx_err stx_target_resolve(const char *text, char out[64], struct stx_diag *d);
int stx_target_runs_here(const char *target);

/* ---- LLVM (emit_llvm.c) ---- */
struct stx_llvm; /* initialised target machines; one a process */
stx_err stx_llvm_new(struct stx_llvm **out, struct stx_diag *d);
void stx_llvm_free(struct stx_llvm *l);
const char *stx_llvm_version(void);

enum stx_emit_stage { STX_EMIT_OBJECT, STX_EMIT_SOURCE, STX_EMIT_OPTIMIZED_IR, STX_EMIT_ASM };
struct stx_emit_info {
	uint32_t vector_elems;            /* iterations of the widest vector loop taken at once */
	uint32_t threads;                 /* GPU: of a block */
	uint32_t spills;                  /* bytes; CPU: 0, LLVM's C interface does not tell */
	uint32_t registers, shared_bytes; /* GPU */
	uint64_t us_build, us_opt, us_emit;
};
/* One kernel to an ELF object (or text). The function's symbol is stx_kernel_symbol of its digest.
 * Any error diagnostic of LLVM is a failure. */
stx_err stx_emit_llvm(struct stx_llvm *l, const struct stx_kernel *k,
		      const struct stx_cpu_target *t, int fast, enum stx_emit_stage stage,
		      struct stx_bytes *out, struct stx_emit_info *info, struct stx_diag *d);

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
/* Runs one small link so that everything it needs is mapped before the sandbox closes. */
stx_err stx_link_warm(struct stx_diag *d);

#endif
