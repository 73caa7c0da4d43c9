/* demo_model.c: writes an ONNX model with protobuf-c: transformer feed-forward layers and a softmax
 * head.
 * Usage: demo_model MODEL.onnx INPUT.npy [LAYERS D_MODEL D_FF TOKENS CLASSES]
 * Each layer: x + W2 * gelu(W1 * layernorm(x) + b1) + b2. Weights are pseudo-random and fixed. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx.pb-c.h"

#define MAX_NODES 256
#define MAX_INIT  256

static Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
static Onnx__NodeProto *nodes[MAX_NODES];
static Onnx__TensorProto *inits[MAX_INIT];
static uint64_t state = 0x9e3779b97f4a7c15u;

static void *xalloc(size_t n, size_t size)
{
	void *p = calloc(n, size);
	if (!p) {
		fputs("out of memory\n", stderr);
		exit(1);
	}
	return p;
}

static char *text(const char *fmt, int layer)
{
	char buf[64];
	snprintf(buf, sizeof buf, fmt, layer);
	char *s = strdup(buf);
	if (!s)
		exit(1);
	return s;
}

/* Sum of four uniforms: close enough to normal, variance 1. */
static float normal(void)
{
	float s = 0;
	for (int i = 0; i < 4; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		s += (float)(state >> 40) * (1.0f / 16777216.0f) - 0.5f;
	}
	return s * 1.7320508f;
}

static char *weight(char *name, int rows, int cols, float scale, float offset)
{
	size_t n = (size_t)(rows ? rows : 1) * (size_t)cols;
	Onnx__TensorProto *t = xalloc(1, sizeof *t);
	onnx__tensor_proto__init(t);
	float *v = xalloc(n, sizeof *v);
	for (size_t i = 0; i < n; i++)
		v[i] = offset + scale * normal();
	t->name = name;
	t->has_data_type = 1;
	t->data_type = 1;
	t->n_dims = rows ? 2 : 1;
	t->dims = xalloc(2, sizeof *t->dims);
	t->dims[0] = rows ? rows : cols;
	t->dims[1] = cols;
	t->has_raw_data = 1;
	t->raw_data.data = (uint8_t *)v;
	t->raw_data.len = n * sizeof *v;
	inits[graph.n_initializer++] = t;
	return name;
}

static Onnx__NodeProto *node(const char *op, char *out, char *a, char *b, char *c)
{
	Onnx__NodeProto *n = xalloc(1, sizeof *n);
	onnx__node_proto__init(n);
	n->op_type = strdup(op);
	n->name = out;
	n->input = xalloc(3, sizeof *n->input);
	n->input[n->n_input++] = a;
	if (b)
		n->input[n->n_input++] = b;
	if (c)
		n->input[n->n_input++] = c;
	n->output = xalloc(1, sizeof *n->output);
	n->output[0] = out;
	n->n_output = 1;
	nodes[graph.n_node++] = n;
	return n;
}

static void axis(Onnx__NodeProto *n, int64_t value)
{
	Onnx__AttributeProto *a = xalloc(1, sizeof *a);
	onnx__attribute_proto__init(a);
	a->name = strdup("axis");
	a->has_type = 1;
	a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
	a->has_i = 1;
	a->i = value;
	n->attribute = xalloc(1, sizeof *n->attribute);
	n->attribute[0] = a;
	n->n_attribute = 1;
}

static Onnx__ValueInfoProto *value(char *name, int rows, int cols)
{
	Onnx__ValueInfoProto *v = xalloc(1, sizeof *v);
	Onnx__TypeProto *t = xalloc(1, sizeof *t);
	Onnx__TypeProto__Tensor *tt = xalloc(1, sizeof *tt);
	Onnx__TensorShapeProto *s = xalloc(1, sizeof *s);
	onnx__value_info_proto__init(v);
	onnx__type_proto__init(t);
	onnx__type_proto__tensor__init(tt);
	onnx__tensor_shape_proto__init(s);
	s->dim = xalloc(2, sizeof *s->dim);
	for (int i = 0; i < 2; i++) {
		s->dim[i] = xalloc(1, sizeof **s->dim);
		onnx__tensor_shape_proto__dimension__init(s->dim[i]);
		s->dim[i]->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
		s->dim[i]->dim_value = i ? cols : rows;
	}
	s->n_dim = 2;
	tt->has_elem_type = 1;
	tt->elem_type = 1;
	tt->shape = s;
	t->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
	t->tensor_type = tt;
	v->name = name;
	v->type = t;
	return v;
}

static char *layer(char *x, int i, int d, int ff)
{
	char *g = weight(text("l%d.norm.weight", i), 0, d, 0.1f, 1);
	char *b = weight(text("l%d.norm.bias", i), 0, d, 0.1f, 0);
	char *w1 = weight(text("l%d.up.weight", i), d, ff, 1 / sqrtf((float)d), 0);
	char *b1 = weight(text("l%d.up.bias", i), 0, ff, 0.1f, 0);
	char *w2 = weight(text("l%d.down.weight", i), ff, d, 1 / sqrtf((float)ff), 0);
	char *b2 = weight(text("l%d.down.bias", i), 0, d, 0.1f, 0);
	char *n = text("l%d.norm", i), *h = text("l%d.up", i), *hb = text("l%d.up.biased", i);
	char *a = text("l%d.gelu", i), *y = text("l%d.down", i), *yb = text("l%d.down.biased", i);
	char *r = text("l%d.residual", i);
	axis(node("LayerNormalization", n, x, g, b), -1);
	node("MatMul", h, n, w1, NULL);
	node("Add", hb, h, b1, NULL);
	node("Gelu", a, hb, NULL, NULL);
	node("MatMul", y, a, w2, NULL);
	node("Add", yb, y, b2, NULL);
	node("Add", r, yb, x, NULL);
	return r;
}

static void write_file(const char *path, const void *p, size_t n, const void *q, size_t m)
{
	FILE *f = fopen(path, "wb");
	if (!f || fwrite(p, 1, n, f) != n || (m && fwrite(q, 1, m, f) != m) || fclose(f)) {
		perror(path);
		exit(1);
	}
}

static void write_input(const char *path, int rows, int cols)
{
	char header[128];
	size_t n = (size_t)rows * (size_t)cols;
	float *v = xalloc(n, sizeof *v);
	for (size_t i = 0; i < n; i++)
		v[i] = normal();
	memset(header, ' ', sizeof header);
	memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
	int k = snprintf(header + 10, sizeof header - 10,
			 "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", rows,
			 cols);
	header[10 + k] = ' ';
	header[127] = '\n';
	write_file(path, header, sizeof header, v, n * sizeof *v);
	free(v);
}

int main(int argc, char **argv)
{
	int layers = 4, d = 768, ff = 3072, tokens = 128, classes = 1000;
	if (argc != 3 && argc != 8) {
		fputs("usage: demo_model MODEL.onnx INPUT.npy [LAYERS D_MODEL D_FF TOKENS "
		      "CLASSES]\n",
		      stderr);
		return 2;
	}
	if (argc == 8) {
		layers = atoi(argv[3]);
		d = atoi(argv[4]);
		ff = atoi(argv[5]);
		tokens = atoi(argv[6]);
		classes = atoi(argv[7]);
	}
	if (layers < 0 || layers > 30 || d < 1 || ff < 1 || tokens < 1 || classes < 1) {
		fputs("demo_model: sizes are out of range\n", stderr);
		return 2;
	}
	graph.name = "feed-forward";
	graph.node = nodes;
	graph.initializer = inits;
	char *x = "x";
	Onnx__ValueInfoProto *in = value("x", tokens, d),
			     *out = value("probabilities", tokens, classes);
	for (int i = 0; i < layers; i++)
		x = layer(x, i, d, ff);
	char *head = weight("head.weight", d, classes, 1 / sqrtf((float)d), 0);
	node("MatMul", "logits", x, head, NULL);
	axis(node("Softmax", "probabilities", "logits", NULL, NULL), -1);
	graph.input = &in;
	graph.n_input = 1;
	graph.output = &out;
	graph.n_output = 1;
	Onnx__OperatorSetIdProto set = ONNX__OPERATOR_SET_ID_PROTO__INIT, *sets[1] = { &set };
	set.domain = "";
	set.has_version = 1;
	set.version = 20;
	Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
	model.has_ir_version = 1;
	model.ir_version = 9;
	model.producer_name = "stax-demo";
	model.n_opset_import = 1;
	model.opset_import = sets;
	model.graph = &graph;
	size_t n = onnx__model_proto__get_packed_size(&model);
	uint8_t *bytes = xalloc(n, 1);
	onnx__model_proto__pack(&model, bytes);
	write_file(argv[1], bytes, n, NULL, 0);
	write_input(argv[2], tokens, d);
	printf("%s: %d layers, d_model %d, d_ff %d, %d tokens, %d classes, %zu nodes, %.1f MB\n",
	       argv[1], layers, d, ff, tokens, classes, graph.n_node, (double)n / 1e6);
	return 0;
}
