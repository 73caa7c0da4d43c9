/* test_cases_attention.c: shared case B07 with attention: a row that the mask leaves nothing is 0
 * in the attention operator, and NaN where the graph spells out a softmax. */
#include "cases.h"

#include "onnx.pb-c.h"

/* ---- a model of one Attention node (opset 23): q, k, v [1,1,3,2], a mask [3,3] of bools ---- */

static size_t model(uint8_t *out)
{
	static char names[5][4] = { "q", "k", "v", "m", "y" };
	static char op[] = "Attention", graph_name[] = "g", domain[] = "";
	static const int64_t sizes[2][4] = { { 1, 1, 3, 2 }, { 3, 3, 0, 0 } };
	Onnx__TensorShapeProto__Dimension d[2][4];
	Onnx__TensorShapeProto__Dimension *dims[2][4];
	Onnx__TensorShapeProto shape[2] = { ONNX__TENSOR_SHAPE_PROTO__INIT,
					    ONNX__TENSOR_SHAPE_PROTO__INIT };
	Onnx__TypeProto__Tensor tensor[2] = { ONNX__TYPE_PROTO__TENSOR__INIT,
					      ONNX__TYPE_PROTO__TENSOR__INIT };
	Onnx__TypeProto type[2] = { ONNX__TYPE_PROTO__INIT, ONNX__TYPE_PROTO__INIT };
	Onnx__ValueInfoProto v[5], *ins[4], *outs[1];
	Onnx__NodeProto n = ONNX__NODE_PROTO__INIT, *nodes[] = { &n };
	Onnx__GraphProto g = ONNX__GRAPH_PROTO__INIT;
	Onnx__OperatorSetIdProto set = ONNX__OPERATOR_SET_ID_PROTO__INIT, *sets[] = { &set };
	Onnx__ModelProto m = ONNX__MODEL_PROTO__INIT;
	char *in_names[4], *out_names[] = { names[4] };
	for (int t = 0; t < 2; t++) {
		shape[t].n_dim = t ? 2 : 4;
		shape[t].dim = dims[t];
		for (int i = 0; i < 4; i++) {
			onnx__tensor_shape_proto__dimension__init(&d[t][i]);
			d[t][i].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
			d[t][i].dim_value = sizes[t][i];
			dims[t][i] = &d[t][i];
		}
		tensor[t].has_elem_type = 1;
		tensor[t].elem_type = t ? 9 : 1; /* BOOL, FLOAT */
		tensor[t].shape = &shape[t];
		type[t].value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
		type[t].tensor_type = &tensor[t];
	}
	for (int i = 0; i < 5; i++) {
		onnx__value_info_proto__init(&v[i]);
		v[i].name = names[i];
		v[i].type = &type[i == 3];
		if (i == 4) {
			outs[0] = &v[i];
			continue;
		}
		ins[i] = &v[i];
		in_names[i] = names[i];
	}
	n.op_type = op;
	n.n_input = 4;
	n.input = in_names;
	n.n_output = 1;
	n.output = out_names;
	g.name = graph_name;
	g.n_node = 1;
	g.node = nodes;
	g.n_input = 4;
	g.input = ins;
	g.n_output = 1;
	g.output = outs;
	set.domain = domain;
	set.has_version = 1;
	set.version = 23;
	m.has_ir_version = 1;
	m.ir_version = 10;
	m.n_opset_import = 1;
	m.opset_import = sets;
	m.graph = &g;
	return onnx__model_proto__pack(&m, out);
}

/* The model's graph as text, for the paths of cases.h. */
static char *text_of_model(void)
{
	uint8_t bytes[1024];
	size_t n = model(bytes);
	struct stx_arena *a = stx_arena_new(0);
	struct stx_import_options o = { 0 };
	struct stx_import_result r;
	struct stx_bytes b = { 0 };
	struct stx_diag d = { 0 };
	assert_true(n < sizeof bytes);
	if (stx_import(a, STX_FORMAT_ONNX, (struct stx_span){ bytes, n }, &o, &r, &d) ||
	    stx_graph_verify(r.graph, &d))
		fail_msg("%s: %s", d.node, d.text);
	assert_int_equal(stx_graph_print(r.graph, &b), 0);
	char *text = strdup(stx_bytes_cstr(&b));
	stx_bytes_free(&b);
	stx_arena_free(a);
	return text;
}

/* B07 */
static void test_attention_mask_row_without_keys_is_zero(void **state)
{
	char *text = text_of_model();
	(void)state;
	case_check(&(struct stated){ .text = text,
				     .in = { V(1, 0, 0, 1, 1, 1), V(1, 0, 0, 1, 1, 1),
					     V(1, 2, 3, 4, 5, 6), V(1, 0, 0, 0, 0, 0, 1, 1, 0) },
				     .out = { V(1, 2, 0, 0, 2, 3) },
				     .shape = { "1,1,3,2" },
				     .skip = CASE_NO_FOLD,
				     .rtol = 1e-6 });
	free(text);
}

/* B07: the same spelt out keeps its NaN. */
static void test_attention_mask_spelt_out_softmax_keeps_its_nan(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%q : f32[3,2] = placeholder()\n%k : f32[3,2] = placeholder()\n"
			"%v : f32[3,2] = placeholder()\n%m : bool[3,3] = placeholder()\n"
			"%t = permute.default(%k, [1, 0])\n%s = mm.default(%q, %t)\n"
			"%c = mul.Scalar(%s, 0.70710678118654752)\n"
			"%i = full.default([], -inf, dtype=f32)\n%w = where.self(%m, %c, %i)\n"
			"%p = _softmax.default(%w, 1)\n%y = mm.default(%p, %v)\nreturn (%y,)\n",
		.in = { V(1, 0, 0, 1, 1, 1), V(1, 0, 0, 1, 1, 1), V(1, 2, 3, 4, 5, 6),
			V(1, 0, 0, 0, 0, 0, 1, 1, 0) },
		.out = { V(1, 2, NAN, NAN, 2, 3) },
		.rtol = 1e-6 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attention_mask_row_without_keys_is_zero),
		cmocka_unit_test(test_attention_mask_spelt_out_softmax_keeps_its_nan),
	};
	return cmocka_run_group_tests(tests, case_setup, NULL);
}
