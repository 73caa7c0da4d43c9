/* bad_onnx.c: writes ONNX models that must be refused. Usage: bad_onnx KIND OUT.onnx
 * KIND: cycle | unknown-op | rank | dtype | huge | climb | nodes */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx.pb-c.h"

static Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
static Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
static Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets[1] = { &opset };
static Onnx__ValueInfoProto *inputs[2], *outputs[1];

static void *zalloc(size_t n, size_t size)
{
	void *p = calloc(n, size);
	if (!p)
		exit(1);
	return p;
}

static Onnx__ValueInfoProto *value(const char *name, int type, int rank, int64_t size)
{
	Onnx__ValueInfoProto *v = zalloc(1, sizeof *v);
	Onnx__TypeProto *t = zalloc(1, sizeof *t);
	Onnx__TypeProto__Tensor *tt = zalloc(1, sizeof *tt);
	Onnx__TensorShapeProto *s = zalloc(1, sizeof *s);
	onnx__value_info_proto__init(v);
	onnx__type_proto__init(t);
	onnx__type_proto__tensor__init(tt);
	onnx__tensor_shape_proto__init(s);
	s->n_dim = (size_t)rank;
	s->dim = zalloc((size_t)rank + 1, sizeof *s->dim);
	for (int i = 0; i < rank; i++) {
		s->dim[i] = zalloc(1, sizeof **s->dim);
		onnx__tensor_shape_proto__dimension__init(s->dim[i]);
		s->dim[i]->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
		s->dim[i]->dim_value = size;
	}
	tt->has_elem_type = 1;
	tt->elem_type = type;
	tt->shape = s;
	t->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
	t->tensor_type = tt;
	v->name = strdup(name);
	v->type = t;
	return v;
}

static Onnx__NodeProto *node(const char *op, const char *out, const char *a, const char *b)
{
	Onnx__NodeProto *n = zalloc(1, sizeof *n);
	onnx__node_proto__init(n);
	n->op_type = strdup(op);
	n->name = strdup(out);
	n->input = zalloc(2, sizeof *n->input);
	n->input[n->n_input++] = strdup(a);
	if (b)
		n->input[n->n_input++] = strdup(b);
	n->output = zalloc(1, sizeof *n->output);
	n->output[n->n_output++] = strdup(out);
	return n;
}

static void add(Onnx__NodeProto *n)
{
	static size_t cap;
	if (graph.n_node == cap) {
		cap = cap ? cap * 2 : 16;
		graph.node = realloc(graph.node, cap * sizeof *graph.node);
		if (!graph.node)
			exit(1);
	}
	graph.node[graph.n_node++] = n;
}

static void external_weight(const char *location)
{
	Onnx__TensorProto *t = zalloc(1, sizeof *t);
	Onnx__StringStringEntryProto *e = zalloc(1, sizeof *e);
	onnx__tensor_proto__init(t);
	onnx__string_string_entry_proto__init(e);
	t->name = "w";
	t->has_data_type = 1;
	t->data_type = 1;
	t->n_dims = 1;
	t->dims = zalloc(1, sizeof *t->dims);
	t->dims[0] = 4;
	t->has_data_location = 1;
	t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
	e->key = "location";
	e->value = strdup(location);
	t->external_data = zalloc(1, sizeof *t->external_data);
	t->external_data[0] = e;
	t->n_external_data = 1;
	graph.initializer = zalloc(1, sizeof *graph.initializer);
	graph.initializer[0] = t;
	graph.n_initializer = 1;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	const char *kind = argv[1];
	int huge = !strcmp(kind, "huge"), rank = huge ? 4 : 1, size = huge ? 1024 : 4;
	inputs[0] = value("x", 1, rank, size);
	inputs[1] = value("k", 7, 2, 3);
	outputs[0] = value("y", 1, rank, size);
	if (!strcmp(kind, "cycle")) {
		add(node("Add", "a", "x", "b"));
		add(node("Add", "b", "x", "a"));
		add(node("Relu", "y", "b", NULL));
	} else if (!strcmp(kind, "unknown-op")) {
		add(node("Relu", "r", "x", NULL));
		add(node("FrobnicateTensor", "y", "r", NULL));
	} else if (!strcmp(kind, "rank")) {
		add(node("MatMul", "m", "x", "k"));
		add(node("Relu", "y", "m", NULL));
	} else if (!strcmp(kind, "dtype")) {
		add(node("Sin", "s", "x", NULL));
		add(node("And", "y", "s", "k"));
	} else if (huge) {
		add(node("Relu", "y", "x", NULL));
	} else if (!strcmp(kind, "climb")) {
		external_weight("../../../../../../etc/passwd");
		add(node("Add", "y", "x", "w"));
	} else if (!strcmp(kind, "nodes")) {
		char from[32] = "x", to[32];
		for (int i = 0; i < 3000000; i++) {
			snprintf(to, sizeof to, i == 2999999 ? "y" : "n%d", i);
			add(node("Relu", to, from, NULL));
			memcpy(from, to, sizeof from);
		}
	} else {
		return 2;
	}
	opset.domain = "";
	opset.has_version = 1;
	opset.version = 17;
	graph.name = "bad";
	graph.input = inputs;
	graph.n_input = 2;
	graph.output = outputs;
	graph.n_output = 1;
	model.has_ir_version = 1;
	model.ir_version = 8;
	model.opset_import = opsets;
	model.n_opset_import = 1;
	model.graph = &graph;
	size_t n = onnx__model_proto__get_packed_size(&model);
	uint8_t *bytes = zalloc(n, 1);
	onnx__model_proto__pack(&model, bytes);
	FILE *f = fopen(argv[2], "wb");
	int bad = !f || fwrite(bytes, 1, n, f) != n || fclose(f);
	free(bytes);
	return bad;
}
