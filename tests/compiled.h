/* compiled.h
 * for tests: a graph's text compiled in this process, loaded through libstax, and run on guarded
 * memory.
 *
 * Every tensor of a run lies flush against a page without access, alternately behind its end and
 * before its start, its surroundings filled with a pattern that is checked afterwards; outputs and
 * workspace start as 0xAA bytes, so that a missed store shows. One thread. */
#ifndef STX_TESTS_COMPILED_H
#define STX_TESTS_COMPILED_H

#include "bytes.h"
#include "compile.h"
#include "stax.h"

/* The compiler of this process, made on first use; aborts with a message when that fails. */
struct stx_compiler *compiled_compiler(void);

/* The CPU levels this host can run, ascending, ending with NULL; or $STAX_TEST_TARGET alone, which
 * may be a CUDA target. */
const char *const *compiled_targets(void);
/* The same, then those of these levels with one feature that this host has; last, if it has any,
 * the host's own level with all of its features. */
const char *const *compiled_feature_targets(void);

struct compiled {
	struct stax_artifact *artifact;
	struct stx_bytes elf;
	uint32_t nkernels;
	uint64_t bytes_read, bytes_written, bytes_min;
};
enum compiled_form {
	COMPILED_FUSED,   /* as the service compiles */
	COMPILED_UNFUSED, /* every node realised, every buffer a kernel */
	COMPILED_FAST,    /* as the service compiles what asks for `fast` */
	COMPILED_RECUT,   /* FUSED, with products cut in another way than the model's, each time in
			     another: the same bits */
	COMPILED_LONG = 8 /* added to one of these: loops of little work are emitted as long ones
			     are: the same bits */
};
/* Another plan of the graph in its place, with its products cut by some candidate each
 * (compiled_recut.c). */
stx_err compiled_recut(struct stx_span graph, const struct stx_compile_options *o,
		       struct stx_plan_result *plan, struct stx_diag *d);
/* Graph as text -> loaded artifact. Grains become 1, so that small graphs split between threads
 * too. */
stx_err compiled_build(const char *text, const char *target, enum compiled_form form,
		       struct compiled *out, struct stx_diag *d);
void compiled_free(struct compiled *c);

enum compiled_threads {
	COMPILED_SERIAL,  /* every launch in one piece */
	COMPILED_PIECES,  /* in pieces of one to seven points, the last first */
	COMPILED_POOL,    /* libstax' own threads ($STAX_THREADS) */
	COMPILED_PREPARED /* as PIECES, with its parameters prepared */
};
/* Runs on copies of the inputs (any strides). outputs: [stax_noutputs]; their data is malloc'd,
 * dense row-major, owned by the caller (data NULL on failure). INTERNAL: the run wrote outside its
 * outputs. */
stx_err compiled_run(const struct compiled *c, enum compiled_threads how,
		     const struct stx_tensor *inputs, uint32_t ninputs, struct stx_tensor *outputs,
		     struct stx_diag *d);
/* stax_run on the caller's own memory; a CUDA artifact runs on copies in device memory, and what it
 * may write is copied back. An output without data becomes a view of an input's memory, as there.
 */
int compiled_call(const struct compiled *c, const struct stx_tensor *in, int nin,
		  struct stx_tensor *out, int nout, struct stax_error *err);
void compiled_free_outputs(struct stx_tensor *t, uint32_t n);

/* Elements from the tensor's lowest to its highest one, inclusive; *first: distance of element
 * [0,..] from the lowest. 0 for an empty tensor. */
int64_t compiled_span(const struct stx_tensor *t, int64_t *first);
int64_t compiled_numel(const struct stx_tensor *t);
/* Row-major strides from the sizes. */
void compiled_dense(struct stx_tensor *t);
/* Type, sizes and strides of a graph's input at constant sizes; no data. */
struct stx_graph;
struct stx_input;
void compiled_shape(const struct stx_graph *g, const struct stx_input *in, struct stx_tensor *t);

#endif
