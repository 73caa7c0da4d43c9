/* compile_run.h
 * one call of the compiler and its passes, for the files of this folder only. */
#ifndef STX_COMPILE_RUN_H
#define STX_COMPILE_RUN_H

#include "codegen.h"
#include "compile.h"
#include "cpu_blocking.h"
#include "gpu.h"
#include "import.h"
#include "schedule.h"
#include "tune.h"

struct stx_compiler {
	struct stx_llvm *llvm;
	struct stx_nvrtc *nvrtc; /* NULL: no_nvrtc says why */
	struct stx_diag no_nvrtc;
	struct stx_digest fingerprint;
};

/* One call: what the passes read and write, in the order they fill it. */
struct run {
	struct stx_arena *arena;
	struct stx_diag *d;
	const struct stx_source *source;
	const struct stx_compile_options *options;
	struct stx_span text; /* canonical graph, input of PLAN */
	struct stx_import_result imported;
	struct stx_graph *graph;
	struct stx_digest digest;
	struct stx_loops *loops;
	struct stx_schedule *schedule;
	struct stx_bytes plan;   /* freed with the run */
	const struct pass *last; /* that ran */
	struct stx_stage_time stages[STX_MAX_STAGES];
	uint32_t nstages;
};

enum which_run { KEY, PLAN };
enum pass_class { NONE, BIT, TOL };
enum product { SOURCE, GRAPH, BASIS, LOOPS, KERNELS, DATA };
enum { PLAIN = 0, EXPANDS = 1, FALLS_BACK = 2 };

struct pass {
	enum which_run run;
	const char *name;
	enum pass_class class;
	enum product product;
	unsigned traits;
	const char *stage; /* shown by `stax dump` after this pass, or NULL */
	stx_err (*fn)(struct run *);
};
extern const struct pass stx__passes[]; /* pass.def, in order */
extern const unsigned stx__npasses;

/* Fills r and makes its arena; stx__run_close frees what the passes made. */
stx_err stx__run_open(struct run *r, const struct stx_compile_options *o, struct stx_diag *d);
void stx__run_close(struct run *r);
/* Runs it, then the verifier of its product. */
stx_err stx__run_pass(struct run *r, const struct pass *p);
/* Runs the passes of one run, up to and including `until` (NULL: all). */
stx_err stx__run_passes(struct run *r, enum which_run which, const struct pass *until);
/* The pass whose product `stax dump` calls so, or NULL. */
const struct pass *stx__pass_of_stage(const char *stage);
/* The pass after which the oracle can evaluate the graph as it came: no operator in place is left. */
const struct pass *stx__pass_functionalise(void);
/* What pass `verify` has checked, for who takes the graph as imported. */
stx_err stx__verify_source(struct run *r);
/* fallback.c: whether a PLAN run that ended with e may be interpreted instead; and that: r gets a
 * plan without kernels and its report. why: the error. */
int stx__can_fall_back(const struct run *r, stx_err e);
stx_err stx__fall_back(struct run *r, const struct stx_diag *why);
static inline uint32_t clamp_u32(int64_t v)
{
	return v < 0 ? 0 : v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}
/* Appends to the [STX_MAX_STAGES] times; beyond that they are dropped. */
void stx__compile_stage(struct stx_stage_time *stages, uint32_t *n, const char *name, uint64_t us);
/* compile_kernel.c: at most `most` blockings of the product of that text, the model's first one
 * first;
 * *out is malloc'd. */
stx_err stx__product_space(struct stx_span text, const struct stx_compile_options *o, uint32_t most,
			   struct stx_config_desc **out, uint32_t *n, struct stx_diag *d);
/* compile_kernel.c: kernel IR as text -> an object, or what is before it. */
stx_err stx__emit_text(struct stx_compiler *c, struct stx_span ir,
		       const struct stx_compile_options *o, enum stx_emit_stage stage,
		       struct stx_bytes *out, struct stx_emit_info *info, struct stx_diag *d);

#endif
