/* import.h
 * readers of foreign graph forms: the Stax wire graph (graph.proto) and ONNX. The only place in
 * kernels/ that knows protobuf. Input is hostile until proved otherwise: nesting depth and field
 * counts are checked before unpacking, external data is never opened here. */
#ifndef STX_IMPORT_H
#define STX_IMPORT_H

#include "bytes.h"
#include "graph.h"

enum stx_graph_format { STX_FORMAT_WIRE = 1, STX_FORMAT_TEXT = 2, STX_FORMAT_ONNX = 3 };

/* The value of a graph input, given so that it can be specialised (its values fix shapes). */
struct stx_given_value {
	const char *input; /* name in the source form */
	enum stx_dtype dtype;
	uint32_t rank;
	const int64_t *sizes;
	const uint8_t *bytes; /* dense row-major; none with sizes that are not empty: only the shape
				 is fixed */
	size_t n;
};

/* An input whose value the import needs but was not given. */
struct stx_needed_value {
	const char *input;
	const char *why; /* "Reshape 'r1': shape" */
};

struct stx_import_options {
	const struct stx_given_value *values;
	uint32_t nvalues;
};

struct stx_import_result {
	struct stx_graph *graph;
	/* On STX_E_NEED_VALUES: which; in the arena. */
	const struct stx_needed_value *needed;
	uint32_t nneeded;
	/* The producer's names: inputs (parameters included) and outputs, in graph order. */
	const char **input_names;  /* [graph->inputs.n] */
	const char **output_names; /* [graph->outputs.n] */
};

/* Bytes to graph; the arena owns all of it. Errors: INVALID, UNSUPPORTED (names op and node),
 * TOO_LARGE, NEED_VALUES. The text form goes through stx_graph_parse. */
stx_err stx_import(struct stx_arena *a, enum stx_graph_format f, struct stx_span body,
		   const struct stx_import_options *o, struct stx_import_result *out,
		   struct stx_diag *d);

#endif
