/* random_weights.c: an ONNX model with random weights: random_weights IN OUT SEED.
 *
 * The public whole-network tests make their weights with ConstantOfShape, so that every weight of a
 * layer is the same number and many wrong kernels give right answers. Each such node whose shape is
 * an initialiser becomes an initialiser of random floats: matrices and filters of variance 2 / fan
 * in (1 / fan in beside BatchNormalization, whose networks add up residuals), scales and variances
 * of BatchNormalization around 1, other vectors around 0. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "host.h"
#include "onnx_wire.h"
#include "wire.h"

enum { MODEL_GRAPH = 7, GRAPH_NODE = 1, GRAPH_INITIALISER = 5 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_OP = 4 };
#define TENSORS_MAX 8192
#define INPUTS_MAX  8

struct named {
	struct stx_span name, tensor;
};
struct network {
	struct named tensors[TENSORS_MAX]; /* initialisers */
	struct stx_span near_one[TENSORS_MAX];
	unsigned ntensors, none;
	uint64_t seed;
};
struct node {
	struct stx_span op, output, input[INPUTS_MAX];
	unsigned ninput;
};

static int same(struct stx_span a, struct stx_span b)
{
	return a.n == b.n && !memcmp(a.at, b.at, a.n);
}

static int is(struct stx_span a, const char *s)
{
	return a.n == strlen(s) && !memcmp(a.at, s, a.n);
}

static struct node read_node(struct stx_span s)
{
	struct stx_wire w = stx_wire_of(s);
	struct stx_field f;
	struct node n = { 0 };
	while (stx_wire_next(&w, &f) > 0) {
		if (f.number == NODE_OP)
			n.op = f.bytes;
		if (f.number == NODE_OUTPUT && !n.output.n)
			n.output = f.bytes;
		if (f.number == NODE_INPUT && n.ninput < INPUTS_MAX)
			n.input[n.ninput++] = f.bytes;
	}
	return n;
}

static void index_graph(struct network *net, struct stx_span graph)
{
	struct stx_wire w = stx_wire_of(graph);
	struct stx_field f;
	struct stx_onnx_tensor t;
	while (stx_wire_next(&w, &f) > 0) {
		if (f.number == GRAPH_INITIALISER && net->ntensors < TENSORS_MAX &&
		    !stx_onnx_tensor_scan(f.bytes, &t))
			net->tensors[net->ntensors++] = (struct named){ t.name, f.bytes };
		if (f.number != GRAPH_NODE)
			continue;
		struct node n = read_node(f.bytes);
		if (is(n.op, "BatchNormalization") && n.ninput == 5 &&
		    net->none + 2 <= TENSORS_MAX) {
			net->near_one[net->none++] = n.input[1];
			net->near_one[net->none++] = n.input[4];
		}
	}
}

/* Sizes that an initialiser of i64 holds; the count, or -1. */
static int shape_of(const struct network *net, struct stx_span name, int64_t *sizes)
{
	struct stx_onnx_tensor t;
	for (unsigned i = 0; i < net->ntensors; i++) {
		if (!same(net->tensors[i].name, name))
			continue;
		if (stx_onnx_tensor_scan(net->tensors[i].tensor, &t) || t.dtype != STX_I64 ||
		    t.rank != 1 || t.elements > STX_MAX_RANK)
			return -1;
		if (t.raw_set && t.raw.n == t.elements * 8)
			memcpy(sizes, t.raw.at, t.raw.n);
		else if (stx_onnx_tensor_list(&t, (uint8_t *)sizes))
			return -1;
		return (int)t.elements;
	}
	return -1;
}

static float uniform(struct network *net)
{
	net->seed = net->seed * 6364136223846793005u + 1442695040888963407u;
	return (float)((double)(net->seed >> 40) / 8388608.0 - 1);
}

static void put_weights(struct network *net, struct stx_span name, const int64_t *sizes, int rank,
			struct stx_bytes *graph)
{
	struct stx_bytes tensor = { 0 }, raw = { 0 };
	int64_t count = 1;
	float centre = 0, spread = 0.5f;
	for (int i = 0; i < rank; i++) {
		stx_wire_put_uint(&tensor, STX_ONNX_DIMS, (uint64_t)sizes[i]);
		count *= sizes[i];
	}
	if (rank > 1)
		spread = sqrtf((net->none ? 3.0f : 6.0f) * (float)sizes[0] /
			       (float)(count ? count : 1));
	for (unsigned i = 0; i < net->none; i++)
		if (same(net->near_one[i], name))
			centre = 1;
	for (int64_t i = 0; i < count; i++) {
		float v = centre + spread * uniform(net);
		stx_bytes_put(&raw, &v, 4);
	}
	stx_wire_put_uint(&tensor, STX_ONNX_DATA_TYPE, 1);
	stx_wire_put_bytes(&tensor, STX_ONNX_NAME, name);
	stx_wire_put_bytes(&tensor, STX_ONNX_RAW_DATA, (struct stx_span){ raw.at, raw.n });
	stx_wire_put_bytes(graph, GRAPH_INITIALISER, (struct stx_span){ tensor.at, tensor.n });
	graph->oom |= tensor.oom | raw.oom;
	stx_bytes_free(&tensor);
	stx_bytes_free(&raw);
}

static unsigned rewrite_graph(struct network *net, struct stx_span graph, struct stx_bytes *out)
{
	struct stx_wire w = stx_wire_of(graph);
	struct stx_field f;
	unsigned made = 0;
	index_graph(net, graph);
	while (stx_wire_next(&w, &f) > 0) {
		struct node n = { 0 };
		int64_t sizes[STX_MAX_RANK];
		int rank = -1;
		if (f.number == GRAPH_NODE)
			n = read_node(f.bytes);
		if (is(n.op, "ConstantOfShape") && n.ninput == 1)
			rank = shape_of(net, n.input[0], sizes);
		if (rank > 0) {
			put_weights(net, n.output, sizes, rank, out);
			made++;
		} else {
			stx_bytes_put(out, f.whole.at, f.whole.n);
		}
	}
	return made;
}

int main(int argc, char **argv)
{
	struct stx_bytes file = { 0 }, model = { 0 }, graph = { 0 };
	struct stx_diag d = { 0 };
	struct network *net = calloc(1, sizeof *net);
	unsigned made = 0;
	if (argc != 4 || !net) {
		fprintf(stderr, "usage: random_weights IN OUT SEED\n");
		return 2;
	}
	net->seed = strtoull(argv[3], NULL, 10);
	if (stx_file_read(argv[1], (size_t)1 << 30, &file, &d)) {
		fprintf(stderr, "%s\n", d.text);
		return 1;
	}
	struct stx_wire w = stx_wire_of((struct stx_span){ file.at, file.n });
	struct stx_field f;
	while (stx_wire_next(&w, &f) > 0) {
		if (f.number != MODEL_GRAPH) {
			stx_bytes_put(&model, f.whole.at, f.whole.n);
			continue;
		}
		made = rewrite_graph(net, f.bytes, &graph);
		stx_wire_put_bytes(&model, MODEL_GRAPH, (struct stx_span){ graph.at, graph.n });
	}
	FILE *out = model.oom || graph.oom ? NULL : fopen(argv[2], "wb");
	int ok = out && fwrite(model.at, 1, model.n, out) == model.n;
	ok = out && !fclose(out) && ok;
	printf("%u weights\n", made);
	stx_bytes_free(&file);
	stx_bytes_free(&model);
	stx_bytes_free(&graph);
	free(net);
	return ok && made ? 0 : 1;
}
