/* tool.h
 * the stax command-line tool: commands and what they share. */
#ifndef STX_TOOL_H
#define STX_TOOL_H

#include <stdint.h>
#include <stdio.h>

#include "clock.h"
#include "host.h"
#include "model.h"
#include "options.h"
#include "print.h"
#include "stax.h"
#include "status.h"

/* Each: argv[0] is the command's name. Returns the exit status of the program. */
int stx_tool_compile(int argc, char **argv);
int stx_tool_run(int argc, char **argv);
int stx_tool_check_onnx(int argc, char **argv);
int stx_tool_compare(int argc, char **argv);
int stx_tool_dump(int argc, char **argv);
int stx_tool_tune(int argc, char **argv);
int stx_tool_stats(int argc, char **argv);
int stx_tool_ping(int argc, char **argv);
int stx_tool_fsck(int argc, char **argv);

/* ---- errors (report.c) ---- */

/* Prints the error for people on stderr, and on stdout as JSON when json is set; returns its exit
 * status. */
int stx_tool_fail(const struct stx_diag *d, int json);
/* Text that may hold anything, such as names from a model; control characters become '?'. */
void stx_tool_put_text(FILE *f, const char *text);
/* libstax's errors and the tool's have one layout. */
void stx_tool_diag(struct stx_diag *d, const struct stax_error *e);
/* Writes b to stdout and frees it. 0, or the exit status; a closed pipe is no error. */
int stx_tool_emit(struct stx_bytes *b);

/* ---- server (server.c) ---- */

/* Connects to $STAX_SERVER or the user's own server. start: none there and none named: one is
 * started. */
stx_err stx_tool_connect(int start, struct stax_client **out, struct stx_diag *d);

/* ---- graphs (graph.c) ---- */

/* Values by name, from the command line, test data or the file. Owned. */
struct stx_tool_values {
	struct stx_tool_value {
		char name[256];
		struct stx_host h;
	} * at;
	int n, cap;
};
/* What a reproducer adds to its graph; target "": none. */
struct stx_tool_replay {
	char target[64];
	uint32_t options;
	struct stx_tool_values values;
	struct stax_blocking *blockings; /* one block with their texts */
	size_t nblockings;
};
/* A graph file ready to be sent. Zero-initialise; stx_tool_graph_free. */
struct stx_tool_graph {
	const char *path;
	enum stax_format format;
	struct stx_model model; /* ONNX only */
	struct stx_bytes text;  /* other forms: the file */
	struct stx_tool_replay replay;
};
/* The form is told from the name (.onnx, .stax, .txt) or else the content; a reproducer is read
 * (replay.c). */
stx_err stx_tool_graph_read(const char *path, struct stx_tool_graph *g, struct stx_diag *d);
void stx_tool_graph_free(struct stx_tool_graph *g);
/* 1 when the file begins like an ELF object. */
int stx_tool_is_artifact(const char *path);

/* replay.c: fills g from a reproducer's bytes, which are taken over. */
stx_err stx_tool_replay_read(struct stx_tool_graph *g, struct stx_bytes *file, struct stx_diag *d);
/* Of a reproducer: its options, and its target and blockings where q names none. */
void stx_tool_replay_request(const struct stx_tool_graph *g, struct stax_request *q);

/* Takes h over (also on failure). */
stx_err stx_tool_values_add(struct stx_tool_values *v, const char *name, struct stx_host *h,
			    struct stx_diag *d);
/* Each --input NAME=FILE, one of a name. Before anything is compiled, so that a mistyped one costs
 * nothing. */
stx_err stx_tool_values_read(struct stx_tool_values *v, const struct stx_option_list *inputs,
			     struct stx_diag *d);
const struct stx_host *stx_tool_values_find(const struct stx_tool_values *v, const char *name);
void stx_tool_values_free(struct stx_tool_values *v);
/* test_data_set_N/input_K.pb beside the model, by graph input. A missing file is no error.
 * UNSUPPORTED when one is of a type that cannot be held. */
stx_err stx_tool_values_from_tests(const struct stx_tool_graph *g, const char *set,
				   struct stx_tool_values *v, struct stx_diag *d);
/* A .npy or .pb file. as: what untyped .npy bytes are. */
stx_err stx_tool_tensor_read(const char *path, enum stx_dtype as, struct stx_host *h,
			     struct stx_diag *d);

/* Compiles, giving the values the server asks for (from values, then the file's initialisers, then
 * test data beside the model) and asking again. q: options, target, progress; graph fields are
 * filled here. */
stx_err stx_tool_compile_graph(struct stax_client *c, const struct stx_tool_graph *g,
			       const struct stx_tool_values *values, struct stax_request *q,
			       struct stax_answer **out, struct stx_diag *d);

/* The same, connecting first (*c NULL) and starting a server when there is none, or when the one
 * there was has gone and does not come back. */
stx_err stx_tool_compile_started(struct stax_client **c, const struct stx_tool_graph *g,
				 const struct stx_tool_values *values, struct stax_request *q,
				 struct stax_answer **out, struct stx_diag *d);
/* stax_dump with the same care for values. *text is freed with free(). */
stx_err stx_tool_dump_graph(struct stax_client *c, const struct stx_tool_graph *g,
			    const struct stx_tool_values *values, struct stax_request *q,
			    const char *stage, const char *format, char **text, size_t *n,
			    struct stx_diag *d);

/* ---- running (arguments.c) ---- */

/* Inputs and outputs of one artifact. Owned. */
struct stx_tool_arguments {
	struct stx_host *in, *out;
	struct stx_tensor *in_t, *out_t;
	struct stx_tensor *in_d,
		*out_d; /* CUDA: their copies on the device, made by the first run */
	int nin, nout;
	struct stax_prepared *prepared; /* what runs take; NULL: weights as they are */
};
/* Binds inputs by name: values, then the model's initialisers (g may be NULL), then random numbers
 * when random is set (said on stderr), else NOT_FOUND. Allocates outputs. */
stx_err stx_tool_bind(const struct stax_artifact *a, const struct stx_tool_graph *g,
		      const struct stx_tool_values *values, int random, uint64_t seed,
		      struct stx_tool_arguments *args, struct stx_diag *d);
/* Layers to out, then the outputs of the compiled code (got) as the last layer against those of the
 * layer before it. MISMATCH names the first layer that departs. */
stx_err stx_tool_judge_layers(const struct stax_compare *layers, const char *const *names,
			      const struct stx_host *got, const struct stx_tensor *before, int n,
			      FILE *out, struct stx_diag *d);
/* Packs the weights for the runs to come; says on out how much, when it is anything. */
stx_err stx_tool_prepare(struct stax_artifact *a, struct stx_tool_arguments *args, FILE *out,
			 struct stx_diag *d);
/* One run, waited for; of a CUDA artifact on copies in device memory, whose results stay there. */
stx_err stx_tool_launch(struct stax_artifact *a, struct stx_tool_arguments *args,
			struct stx_diag *d);
/* The same, and the results are in args->out. */
stx_err stx_tool_execute(struct stax_artifact *a, struct stx_tool_arguments *args,
			 struct stx_diag *d);
void stx_tool_arguments_free(struct stx_tool_arguments *args);
/* A run of the graph's artifact that measures, with the same care for values. */
stx_err stx_tool_tune_graph(struct stax_client *c, const struct stx_tool_graph *g,
			    const struct stx_tool_values *values, struct stax_request *q,
			    const struct stax_tuning *tuning, struct stax_artifact *a,
			    struct stx_tool_arguments *args, struct stx_diag *d);
/* stax_compare, or with layers NULL stax_reference, on the same arguments, with the same care for
 * values. */
stx_err stx_tool_reference_graph(struct stax_client *c, const struct stx_tool_graph *g,
				 const struct stx_tool_values *values, struct stax_request *q,
				 const struct stx_tool_arguments *args, struct stax_compare *layers,
				 struct stx_tensor **outputs, int *noutputs, struct stx_diag *d);

/* ---- running a graph or an artifact (session.c) ---- */

/* Zero-initialise; stx_tool_session_close, after a failure too. The calls come in this order. */
struct stx_tool_session {
	struct stax_client *client;
	struct stx_tool_graph graph;
	int has_graph; /* 0: an artifact was loaded */
	struct stx_tool_values values;
	struct stax_answer *answer;
	struct stax_artifact *artifact;
	struct stx_tool_arguments args;
};
stx_err stx_tool_session_graph(struct stx_tool_session *s, const char *path, struct stx_diag *d);
/* Compiles with progress, starting a server when there is none, and loads. q: target and options.
 */
stx_err stx_tool_session_compile(struct stx_tool_session *s, struct stax_request *q,
				 struct stx_diag *d);
/* Binds inputs; what has no value gets random numbers. stx_tool_execute then runs. */
stx_err stx_tool_session_bind(struct stx_tool_session *s, uint64_t seed, struct stx_diag *d);
void stx_tool_session_close(struct stx_tool_session *s);

/* ---- progress on stderr (progress.c) ---- */

struct stx_tool_progress {
	int terminal;
	uint64_t start_ns, last_ns;
	int shown;
};
void stx_tool_progress_start(struct stx_tool_progress *p, struct stax_request *q);
void stx_tool_progress_end(struct stx_tool_progress *p);
/* ---- tests of a folder (check_onnx.c, check_test.c) ---- */

enum stx_tool_verdict { STX_TEST_PASS, STX_TEST_FAIL, STX_TEST_SKIP };
struct stx_tool_result {
	enum stx_tool_verdict verdict;
	int is_spent; /* the process may have lost its GPU: it is to run no more tests */
	char why[640];
};
/* Runs one test folder: the artifact's code in a child process of its own; a GPU's in this one,
 * because a driver does not survive a fork and takes tenths of a second to start. */
void stx_tool_check_test(struct stax_client *c, const char *dir, const char *target,
			 uint32_t timeout_ms, struct stx_tool_result *r);

#endif
