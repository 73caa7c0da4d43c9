/* stax.h
 * libstax: the client of the Stax compile service. Connect, compile, load, run. The one header to
 * include; status.h, installed beside it, names the error codes.
 *
 * Threads: a stax_client is used by one thread at a time; a stax_artifact may be run from several
 * threads at once (each run has its own workspace). Ownership: every *_new / out-pointer object is
 * freed by its own *_free; strings inside a struct live as long as the struct. Errors: functions
 * return 0 or a negative stax error code (stax_error_name); details are in the struct stax_error
 * given, which may be NULL. Nothing here links LLVM, opens a graphics device or starts a thread
 * before the first run. */
#ifndef STAX_H
#define STAX_H

#include <stddef.h>
#include <stdint.h>

#include "dtype.h" /* enum stx_dtype */
#include "stax_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define STAX_API __attribute__((visibility("default")))

struct stax_client;
struct stax_artifact;

struct stax_error {
	int code; /* 0 or negative */
	char stage[24], node[96], location[160], text[512];
};
STAX_API const char *stax_error_name(int code);
STAX_API int stax_exit_code(int code); /* exit code a command-line tool should use */

/* ---- connection ---- */

/* server: "unix:PATH", "tcp:HOST:PORT", "none" (a private `staxd --worker` child), or NULL:
 * $STAX_SERVER, else $XDG_RUNTIME_DIR/stax/stax.sock (fallback: $XDG_CACHE_HOME or ~/.cache,
 * stax/run/stax.sock). */
STAX_API int stax_connect(const char *server, struct stax_client **out, struct stax_error *err);
STAX_API void stax_client_free(struct stax_client *c);
/* The address in use ("unix:/...", "none"); lives as long as the client. */
STAX_API const char *stax_client_server(const struct stax_client *c);
/* What stax_connect(NULL) would use; *from_env says that $STAX_SERVER named it. */
STAX_API int stax_default_server(char *out, size_t cap, int *from_env, struct stax_error *err);
/* The exact form of a target: NULL or "cpu" becomes this host's level and the extra features code
 * may use, "cpu:x86-64-v4+avx512bf16+avx512vnni", and its caches where they are not the level's usual
 * ones, "cpu:x86-64-v4:32K-2M-2M". "cuda" becomes the current device's
 * name. USAGE lists the CPU targets there are, UNSUPPORTED the CUDA ones. */
STAX_API int stax_target(const char *text, char *out, size_t cap, struct stax_error *err);
/* The staxd program this library would start: $STAX_STAXD, else beside the program, beside the
 * library, in PATH. CONNECT says where it looked. */
STAX_API int stax_find_daemon(char *out, size_t cap, struct stax_error *err);

/* ---- compile ---- */

enum stax_format { STAX_WIRE = 1, STAX_TEXT = 2, STAX_ONNX = 3 };

/* Value of an input whose contents fix shapes (dense row-major). */
struct stax_value {
	const char *input;
	int dtype; /* enum stx_dtype */
	int rank;
	const int64_t *sizes;
	const void *data;
	size_t bytes;
};

/* How a product is cut on a CPU: one of its configs. It changes speed, no result. product:
 * stax_kernel_info.product, or "sha256:" and the digest of that in hexadecimal. */
struct stax_blocking {
	const char *product, *config;
};

struct stax_request {
	enum stax_format format;
	const void *graph; /* its bytes; borrowed during the call */
	size_t graph_bytes;
	const char *target; /* NULL or "cpu": this host's level */
	int training, dynamic, fast, allow_fallback, recache;
	uint32_t deadline_ms; /* 0: the server's default */
	const char *ns;       /* NULL: $STAX_NAMESPACE or "default" */
	const struct stax_value *values;
	size_t nvalues;
	const struct stax_blocking
		*blockings; /* CPU: of products, one of each, in place of what was
						  measured on this host and what the compiler
						  chooses; borrowed during the call */
	size_t nblockings;  /* 512 at most */
	void (*progress)(void *ctx, const char *stage, uint32_t done, uint32_t total, uint64_t ms);
	void *progress_ctx;
};

struct stax_kernel_info {
	const char *name, *config, *chosen_by;
	uint32_t grid[3], block[3], shared_bytes, registers, spills;
	const char *product; /* CPU: the product it computes in tiles; "": none */
	/* configurations it may be launched with; 0: a CPU kernel without tiles */
	uint32_t candidates;
	const char *const *configs; /* [candidates] the heuristic's choice first */
	/* chosen_by "measured": of a launch, on this device. registers, spills and shared_bytes are
	 * 0 when the choice is not the heuristic's. */
	uint64_t median_ns, spread_ns;
	int reused;
};
struct stax_stage_info {
	const char *name;
	uint64_t us;
};
struct stax_needed {
	const char *input, *why;
};

/* What the server said. Freed by stax_answer_free. */
struct stax_answer {
	char key[65], digest[65], target[64]; /* target: as asked, "cpu" resolved */
	uint64_t size_bytes;
	const char *path, *reason;
	int hit, stored;
	const struct stax_stage_info *stages;
	size_t nstages;
	const struct stax_kernel_info *kernels;
	size_t nkernels;
	const char *const *input_names;
	size_t ninputs;
	const char *const *output_names;
	size_t noutputs;
	const char *const *report;
	size_t nreport;
	const struct stax_needed *needed;
	size_t nneeded; /* with code NEED_VALUES */
	uint64_t bytes_read, bytes_written, bytes_min;
	uint64_t compile_us; /* of the compile that made the artifact, with its waits for workers:
				wall time where it was made, until it was to be stored. The same in
				every answer. stages: work by name, added up over jobs side by side
				("kernels" contains those of its kernels), and this request's own */
};

/* Looks up, sends the graph on a miss, waits. On NEED_VALUES *out is set as well and says which.
 * Retries a lost connection up to three times. */
STAX_API int stax_compile(struct stax_client *c, const struct stax_request *r,
			  struct stax_answer **out, struct stax_error *err);
STAX_API void stax_answer_free(struct stax_answer *a);
/* The artifact's verified bytes, from the path or from the server. *bytes is freed with free(). */
STAX_API int stax_fetch(struct stax_client *c, const struct stax_answer *a, void **bytes, size_t *n,
			struct stax_error *err);

/* ---- load and run ---- */

/* Opens the answer's path without following links, copies it into a sealed memfd, verifies the
 * digest, loads that; fetches the bytes from the server when the path does not serve. */
STAX_API int stax_load(struct stax_client *c, const struct stax_answer *a,
		       struct stax_artifact **out, struct stax_error *err);
/* The same from a file on disk, without a server. Trusts the file as a program is trusted: its code
 * runs in this process as soon as it is run, and nothing says who made it. Give it only files that
 * you, or a server you trust, have written. CORRUPT: not an artifact, or one that is damaged: it
 * ends in a checksum of what was linked. */
STAX_API int stax_load_file(const char *path, struct stax_artifact **out, struct stax_error *err);
STAX_API void stax_artifact_free(struct stax_artifact *a);

/* Argument `i` of the call: dtype, sizes, strides as compiled (at the size hints), flags, name. */
STAX_API int stax_ninputs(const struct stax_artifact *a);
STAX_API int stax_noutputs(const struct stax_artifact *a);
STAX_API int stax_input(const struct stax_artifact *a, int i, struct stx_tensor *out,
			const char **name);
STAX_API int stax_output(const struct stax_artifact *a, int i, struct stx_tensor *out,
			 const char **name);

/* Output shapes and workspace for these inputs (only sizes are read). outputs: [stax_noutputs],
 * data NULL. */
STAX_API int stax_query(const struct stax_artifact *a, const struct stx_tensor *inputs, int ninputs,
			struct stx_tensor *outputs, size_t *workspace_bytes,
			struct stax_error *err);
/* Runs. Inputs are checked against the plan (dtype, sizes, strides: MISMATCH names the input);
 * outputs are the caller's memory, contiguous row-major unless their strides say otherwise, and
 * must not overlap inputs unless donated. An input flagged STX_TENSOR_MUTATED is written: it must not
 * share elements with another input or an output (MISMATCH names both; views that interleave are
 * fine), and holds what the program leaves in it. Such inputs are once more outputs,
 * after the program's own, and so is a result that the program says is such an input (x.add_(1);
 * return x): one given without data becomes a view of the input, else it is copied. env NULL: own
 * threads ($STAX_THREADS, which stax_load checks, or all cores) and malloc. BOUNDS names the kernel. */
STAX_API int stax_run(struct stax_artifact *a, const struct stx_tensor *inputs, int ninputs,
		      struct stx_tensor *outputs, int noutputs, const struct stx_env *env,
		      struct stax_error *err);

/* Parameters (inputs flagged STX_TENSOR_PARAM: weights) in the layout that kernels read them in: packed
 * once, instead of in every run that multiplies by them. inputs: as for stax_run; of those that are
 * no parameters only type and shape are read. env: as for stax_run; its ctx must live until the
 * packed form is freed. The memory comes on top of the parameters' own: stax_prepared_bytes, 0
 * where nothing is gained (always for CUDA artifacts). It is not written again: any number of threads may
 * run with it, and an artifact may have several. Parameters must stay where they are (MISMATCH names
 * the one that has moved) and as they are, and the artifact loaded: once it is freed, only
 * stax_prepared_free is left. Results are those of stax_run to the bit. */
struct stax_prepared;
STAX_API int stax_prepare(struct stax_artifact *a, const struct stx_tensor *inputs, int ninputs,
			  const struct stx_env *env, struct stax_prepared **out,
			  struct stax_error *err);
STAX_API size_t stax_prepared_bytes(const struct stax_prepared *p);
STAX_API void stax_prepared_free(struct stax_prepared *p);
/* p NULL: as stax_run. */
STAX_API int stax_run_prepared(struct stax_artifact *a, const struct stax_prepared *p,
			       const struct stx_tensor *inputs, int ninputs,
			       struct stx_tensor *outputs, int noutputs, const struct stx_env *env,
			       struct stax_error *err);

/* ---- NVIDIA GPUs: artifacts of CUDA targets. The driver is loaded on first use; without it
 * UNSUPPORTED says so. Tensors are device memory of the thread's current context (none: that of
 * device 0 is made current); stax_run launches on env->stream and does not wait. Those that begin at
 * no multiple of 16 bytes are copied for the run, inputs from their first element to their last with
 * what lies between: it costs that traffic once more, and memory of env->allocate. ---- */

STAX_API int stax_is_cuda(const struct stax_artifact *a);
/* Waits for the stream's work. BOUNDS names the kernel and the index of an earlier run. */
STAX_API int stax_sync(struct stax_artifact *a, void *stream, struct stax_error *err);

/* On a CPU: how large the tiles of each product and convolution are, by one thread and by as many
 * as the process has ($STAX_THREADS, or all), in code compiled for the purpose. A choice is another
 * artifact: later compiles on an equal host with as many threads have it in their answer.
 *
 * Launch configurations chosen by measurement (seed 003, algorithm 9.1), and ways to make external
 * calls: a library's algorithms, or the kernel that stands in for the call. A kernel has a few
 * candidates; what was measured on a device is kept by the server, for every process with an equal
 * device, and comes back with the answer to a compile: stax_load then launches the choice. */
struct stax_tuning {
	const struct stax_request
		*request; /* of a CPU artifact: what it was compiled from, which must
					       live until that run has returned */
	const char *target,
		*ns;           /* NULL: as the artifact was compiled; one from a file needs a target
				*/
	int fast;              /* of an artifact from a file: compiled with `fast` */
	uint32_t measurements; /* candidates of a kernel measured at most; 0: 8 */
	uint32_t runs;         /* timed launches of each at most; 0: 31 */
	uint32_t sweep; /* other configurations measured as well, spread over all that the kernel
			   can have or the library lists; UINT32_MAX: all. For comparison: they are
			   not stored */
	void (*report)(void *ctx, const char *kernel, const char *line); /* may be NULL */
	void *ctx;
};
/* The artifact's next run measures, on its arguments and stream, every kernel whose candidates the
 * server does not know timings of, stores them, and from the run after it the choices are launched.
 * It runs as any other besides, and waits. Nothing of the caller's is changed: what a kernel writes
 * is copied first. A candidate whose results differ from the heuristic's is rejected, on a CPU by
 * one bit. All ranks of a job ($STAX_JOB) choose alike. c must live until that run has returned.
 * USAGE: the artifact's target is not known, or a CPU artifact's request is not given or is of
 * another graph, or its target has not this host's caches. */
STAX_API int stax_tune_next_run(struct stax_artifact *a, struct stax_client *c,
				const struct stax_tuning *t, struct stax_error *err);
struct stax_tuned {
	const char *kernel, *heuristic,
		*chosen;                /* live as long as the artifact. kernel: or the call,
						    "matmul_bf16_4096x4096x4096_tn" */
	uint32_t threads;               /* CPU: that it was measured with; else 0 */
	double heuristic_us, chosen_us; /* median launch; 0: not measured */
	double swept_us;                /* of the best of the sweep */
	const char *swept;
	uint32_t candidates, measured; /* measured: now; 0: known, or one candidate */
};
/* What the last such run found, for each kernel with several candidates. Returns their number; at
 * most cap are written. */
STAX_API int stax_tuned(const struct stax_artifact *a, struct stax_tuned *out, int cap);

/* For callers without the driver's headers. Copies take host and device memory on either side and
 * wait. */
STAX_API int stax_cuda_alloc(size_t bytes, void **out, struct stax_error *err);
STAX_API void stax_cuda_free(void *p);
STAX_API int stax_cuda_copy(void *to, const void *from, size_t bytes, struct stax_error *err);

/* ---- tools: these always use a private worker, started on the first call ---- */

/* One stage of the compiler. stage: graph|basis|primitives|loops|kernels|plan|source|llvm|asm;
 * format: text, and of those up to kernels also dot and svg. Of the request: format,
 * graph, target, options, values, deadline. *text is NUL-terminated, freed with free(). On
 * NEED_VALUES err->node is the first input whose value is needed. */
STAX_API int stax_dump(struct stax_client *c, const struct stax_request *r, const char *stage,
		       const char *format, char **text, size_t *n, struct stax_error *err);
/* Evaluates the graph with the oracle. inputs: any strides, in graph order, parameters included. On
 * success outputs[0, *noutputs) is malloc'd, and so is the data of each, dense row-major. */
STAX_API int stax_reference(struct stax_client *c, const struct stax_request *r,
			    const struct stx_tensor *inputs, int ninputs,
			    struct stx_tensor **outputs, int *noutputs, struct stax_error *err);

/* Layered comparison: the graph evaluated as captured and after each pass of the compiler, each
 * layer against the one before it. To the bit, or within rtol and atol (at least 1e-6 of the
 * output's largest element) where the pass reorders sums or floats are accumulated in another order.
 * Inputs and outputs as for stax_reference; the outputs are those of the last layer that was
 * evaluated. */
struct stax_layer {
	char name[24];      /* of the pass; "graph" for the graph as captured */
	char class_name[8]; /* how it was compared: "BIT" or "TOL"; "-" for the first */
	int verdict;        /* 0: agrees; STX_E_TOO_LARGE: not evaluated; else it departs */
	int is_equal;       /* to the bit */
	double worst;       /* largest difference */
	char text[320];     /* which output and element, or why */
};
struct stax_compare {
	double rtol, atol;
	uint64_t max_work;            /* instructions an interpreter may evaluate for one layer */
	struct stax_layer layers[24]; /* results */
	int nlayers;
	int is_exact; /* the code of the graph, run, gives these outputs to the bit */
};
STAX_API int stax_compare(struct stax_client *c, const struct stax_request *r,
			  const struct stx_tensor *inputs, int ninputs, struct stax_compare *what,
			  struct stx_tensor **outputs, int *noutputs, struct stax_error *err);

/* ---- service ---- */
STAX_API int stax_stats(struct stax_client *c, int zero, char ***names, uint64_t **values,
			size_t *n, struct stax_error *err); /* free with stax_stats_free */
STAX_API void stax_stats_free(char **names, uint64_t *values, size_t n);
struct stax_pong {
	char version[64], sandbox[128], fingerprint[65];
	uint32_t workers, busy;
	uint64_t uptime_ms, rtt_ns;
	uint32_t worker_pids[64], nworker_pids;
};
STAX_API int stax_ping(struct stax_client *c, struct stax_pong *out, struct stax_error *err);

#ifdef __cplusplus
}
#endif
#endif
