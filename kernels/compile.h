/* compile.h
 * the compiler as the daemon's workers see it: warm, key, plan, emit one kernel, link; and for
 * tools dump and reference. The only header of kernels/ that server/ includes.
 *
 * One stx_compiler a process, one call at a time (LLVM and lld are not run from two threads). Every
 * call owns one arena, freed before it returns; results are malloc'd byte strings the caller frees.
 * A call may abort the process on an internal fault of LLVM: that is why it runs in a worker. */
#ifndef STX_COMPILE_H
#define STX_COMPILE_H

#include "bytes.h"
#include "cpu_target.h"
#include "dtype.h"
#include "hash.h"
#include "stax_abi.h"
#include "status.h"
#include "timing.h"

struct stx_compiler;

struct stx_compile_options {
	const char *target; /* "cpu:x86-64-v3", "cpu:x86-64-v4+avx512bf16"; resolved, never "cpu" */
	unsigned training : 1, dynamic : 1, fast : 1, allow_fallback : 1;
	unsigned all_long : 1; /* emit, CPU, for tests only: STX_EMIT_LONG of 5_codegen */
	size_t memory_bytes;   /* budget of the call's arena; 0: 1 GiB */
	const char *config;    /* emit, GPU: launch configuration as the plan names it; NULL: the
				heuristic choice for the kernel's size hints */
	const struct stx_choices *blockings; /* plan, CPU: chosen by measurement, by the digests of
						products' texts; NULL: none. They are part of what
						is compiled: of the keys */
};

/* A graph as it arrived: format is enum stx_graph_format (1 wire, 2 text, 3 ONNX). */
struct stx_source {
	int format;
	struct stx_span body;
	const struct stx_source_value *values; /* inputs specialised by value */
	uint32_t nvalues;
};
struct stx_source_value {
	const char *input;
	enum stx_dtype dtype;
	uint32_t rank;
	const int64_t *sizes;
	struct stx_span bytes;
};

struct stx_stage_time {
	char name[24];
	uint64_t us;
};
#define STX_MAX_STAGES 24

/* Names that belong to the reply and not to the key. Owned strings, freed by stx_name_list_free. */
struct stx_name_list {
	char **at;
	uint32_t n;
};

struct stx_key_result {
	struct stx_bytes graph; /* canonical graph, text form */
	struct stx_digest graph_digest;
	struct stx_name_list inputs, outputs;
	struct stx_name_list needed, needed_why; /* on STX_E_NEED_VALUES */
	struct stx_stage_time stages[STX_MAX_STAGES];
	uint32_t nstages;
};

struct stx_kernel_desc {
	struct stx_bytes ir; /* kernel IR, text form: the input of emit */
	struct stx_digest
		digest; /* of the normalised kernel IR: kernels with equal digests are one */
	char name[96];  /* readable: "per_fused_add_relu_sum_0" */
	uint32_t grid[3], block[3];    /* at the size hints */
	char target[STX_TARGET_BYTES]; /* CPU: what of the target its code depends on; "": all */
	char product[192];             /* CPU: text of the product it computes in tiles; "": none */
	/* [nconfigs] GPU: as in the plan's launch table; CPU: blockings of the product, the first
	 * by the model first. */
	struct stx_config_desc *configs;
	uint32_t nconfigs;
};
/* A configuration that a kernel may be launched with. */
struct stx_config_desc {
	char text[96];
	uint32_t grid[3], block[3]; /* at the size hints */
};

struct stx_plan_result {
	struct stx_bytes plan; /* data plan (stax_abi.h) */
	struct stx_kernel_desc *kernels;
	uint32_t nkernels;
	struct stx_name_list report; /* lines of the compile report */
	uint64_t bytes_read, bytes_written, bytes_min;
	struct stx_stage_time stages[STX_MAX_STAGES];
	uint32_t nstages;
};

struct stx_emit_result {
	struct stx_bytes object; /* ELF relocatable with one function, or GPU: one cubin */
	uint32_t block[3], registers, spills, shared_bytes; /* spills: bytes */
	struct stx_stage_time stages[STX_MAX_STAGES];
	uint32_t nstages;
};

/* Loads and initialises LLVM and the linker, and compiles and links one small kernel so that later
 * calls open no file. Call once, before the sandbox closes. cuda: loads NVRTC as well; where there
 * is none, CUDA targets are refused with the reason and the rest works. */
stx_err stx_compiler_new(int cuda, struct stx_compiler **out, struct stx_diag *d);
void stx_compiler_free(struct stx_compiler *c);
/* Stax build, LLVM, code generation tables: as really loaded (design: keys). */
struct stx_digest stx_compiler_fingerprint(const struct stx_compiler *c);

stx_err stx_compile_key(struct stx_compiler *c, const struct stx_source *s,
			const struct stx_compile_options *o, struct stx_key_result *out,
			struct stx_diag *d);
/* graph: canonical text as returned by key. */
stx_err stx_compile_plan(struct stx_compiler *c, struct stx_span graph,
			 const struct stx_compile_options *o, struct stx_plan_result *out,
			 struct stx_diag *d);
stx_err stx_compile_emit(struct stx_compiler *c, struct stx_span ir,
			 const struct stx_compile_options *o, struct stx_emit_result *out,
			 struct stx_diag *d);
/* Every configuration the kernel can have, for exhaustive sweeps: *out is malloc'd. CPU: every
 * blocking of a product, whose text stands in for the IR. */
stx_err stx_compile_space(struct stx_span ir, const struct stx_compile_options *o,
			  struct stx_config_desc **out, uint32_t *n, struct stx_diag *d);
/* plan, and one object for each distinct kernel digest. out: the shared object, which whoever
 * receives it checks (proto/base/artifact_check.h). */
stx_err stx_compile_link(struct stx_compiler *c, struct stx_span plan,
			 const struct stx_span *objects, uint32_t nobjects, struct stx_bytes *out,
			 struct stx_diag *d);

/* Appends a line a category of operators: how many there are, how many a lowering rule of their own
 * takes; the others are decomposed first. A line of totals ends it (LO-11). */
void stx_compile_coverage(struct stx_bytes *out);

/* Tools. stage: graph|basis|primitives|loops|kernels|plan|source|llvm|asm; format: text,
 * and of those up to kernels dot and svg. */
stx_err stx_compile_dump(struct stx_compiler *c, const struct stx_source *s,
			 const struct stx_compile_options *o, const char *stage, const char *format,
			 struct stx_bytes *out, struct stx_diag *d);
/* Evaluates the graph with the oracle. inputs in graph order (parameters included); outputs are
 * allocated with malloc (data dense row-major), freed by the caller. */
stx_err stx_compile_reference(const struct stx_source *s, const struct stx_tensor *inputs,
			      uint32_t ninputs, struct stx_tensor *outputs, uint32_t *noutputs,
			      struct stx_diag *d);

/* Layered comparison: the graph as captured is evaluated by the oracle, then the product of every
 * pass, each against the one before it: to the bit, or within rtol and atol where a pass of class
 * TOL ran or floats are summed in another order (layers.c). */
struct stx_compare_options {
	struct stx_compile_options compile;
	double rtol, atol;
	uint64_t max_work; /* instructions that an interpreter may evaluate; more: not evaluated */
};
struct stx_layer {
	char name[24];      /* of the pass, "graph" for the first */
	char class_name[8]; /* how it was compared: "BIT", "TOL"; "-" for the first */
	stx_err verdict; /* OK; MISMATCH or another error: it departs; TOO_LARGE: not evaluated */
	int is_equal;    /* to the bit */
	double worst;    /* largest difference of a float */
	char text[320];  /* which output and element, or the error */
};
#define STX_MAX_LAYERS 16
struct stx_compare_result {
	struct stx_layer layers[STX_MAX_LAYERS];
	uint32_t nlayers;
	int first;    /* the first layer that departs, -1: none */
	int is_exact; /* outputs are those of the kernels, which generated code repeats to the bit
		       */
};
/* inputs as for reference; outputs: those of the last layer evaluated, malloc'd, dense. An error
 * that the captured graph itself gives (BOUNDS, ...) is returned. */
stx_err stx_compile_compare(const struct stx_source *s, const struct stx_compare_options *o,
			    const struct stx_tensor *inputs, uint32_t ninputs,
			    struct stx_tensor *outputs, uint32_t *noutputs,
			    struct stx_compare_result *out, struct stx_diag *d);

void stx_name_list_free(struct stx_name_list *l);
void stx_key_result_free(struct stx_key_result *r);
void stx_plan_result_free(struct stx_plan_result *r);
void stx_emit_result_free(struct stx_emit_result *r);

#endif
