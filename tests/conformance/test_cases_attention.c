/* test_cases_attention.c: shared case B07 with attention: a row that the mask leaves nothing is 0
 * in the attention operator, and NaN where the graph spells out a softmax. */
#include "cases.h"

#include "onnx_text.h"

/* A model of one Attention node as a graph in text form, for the paths of cases.h. */
static char *text_of_model(void)
{
	struct stx_bytes model = onnx_model("opset 23\n"
					    "input q float [1,1,3,2]\n"
					    "input k float [1,1,3,2]\n"
					    "input v float [1,1,3,2]\n"
					    "input m bool [3,3]\n"
					    "y = Attention(q, k, v, m)\n"
					    "output y\n");
	struct stx_arena *a = stx_arena_new(0);
	struct stx_import_options o = { 0 };
	struct stx_import_result r;
	struct stx_bytes b = { 0 };
	struct stx_diag d = { 0 };
	if (stx_import(a, STX_FORMAT_ONNX, (struct stx_span){ model.at, model.n }, &o, &r, &d) ||
	    stx_graph_verify(r.graph, &d))
		fail_msg("%s: %s", d.node, d.text);
	assert_int_equal(stx_graph_print(r.graph, &b), 0);
	char *text = strdup(stx_bytes_cstr(&b));
	stx_bytes_free(&b);
	stx_bytes_free(&model);
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

/* B07: the operator that PyTorch has. */
static void test_attention_operator_row_without_keys_is_zero(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%q : f32[3,2] = placeholder()\n%k : f32[3,2] = placeholder()\n"
			"%v : f32[3,2] = placeholder()\n%m : bool[3,3] = placeholder()\n"
			"%y = scaled_dot_product_attention.default(%q, %k, %v, %m)\nreturn (%y,)\n",
		.in = { V(1, 0, 0, 1, 1, 1), V(1, 0, 0, 1, 1, 1), V(1, 2, 3, 4, 5, 6),
			V(1, 0, 0, 0, 0, 0, 1, 1, 0) },
		.out = { V(1, 2, 0, 0, 2, 3) },
		.rtol = 1e-6 });
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

/* The scores of one attention are what another gives, rounded: that rounding stays. */
static void test_attention_of_a_rounded_attention_is_found_too(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%q : f64[12,4] = placeholder()\n%k : f64[4,12] = placeholder()\n"
			"%v : f64[12,12] = placeholder()\n%w : f32[12,4] = placeholder()\n"
			"%s = mm.default(%q, %k)\n%p = softmax.int(%s, -1)\n"
			"%y = mm.default(%p, %v)\n%x = _to_copy.default(%y, dtype=f32)\n"
			"%r = softmax.int(%x, -1)\n%z = mm.default(%r, %w)\nreturn (%z,)\n",
		.in = { V(1, 0, -1), V(1, 0.5), V(4), V(3) },
		.out = { V(3) },
		.rtol = 1e-6 });
}

/* A distance of positions that leaves 64 bits says nothing about what a mask hides. */
static void test_attention_mask_at_the_ends_of_integers_hides_nothing(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%q : f32[8,4] = placeholder()\n%k : f32[4,20] = placeholder()\n"
			"%v : f32[20,4] = placeholder()\n%s = mm.default(%q, %k)\n"
			"%j = arange.start_step(0, 20, 1, dtype=i64)\n"
			"%g = gt.Scalar(%j, -9223372036854775800)\n"
			"%n = full.default([], -inf, dtype=f32)\n%w = where.self(%g, %s, %n)\n"
			"%p = softmax.int(%w, -1)\n%y = mm.default(%p, %v)\nreturn (%y,)\n",
		.in = { V(1, 0, -1), V(1, 0.5), V(2) },
		.out = { V(2) },
		.rtol = 1e-6 });
}

/* A product over no keys is 0, with either softmax. */
static void test_attention_without_keys_is_zero(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%s : f32[2,0] = placeholder()\n%v : f32[0,3] = placeholder()\n"
			"%a = _attend.default(%s, %v)\n%b = _attend.default(%s, %v, True)\n"
			"return (%a, %b)\n",
		.in = { V(1), V(1) },
		.out = { V(0), V(0) },
		.shape = { "2,3", "2,3" },
		.skip = CASE_NO_GPU });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attention_mask_row_without_keys_is_zero),
		cmocka_unit_test(test_attention_operator_row_without_keys_is_zero),
		cmocka_unit_test(test_attention_mask_spelt_out_softmax_keeps_its_nan),
		cmocka_unit_test(test_attention_of_a_rounded_attention_is_found_too),
		cmocka_unit_test(test_attention_mask_at_the_ends_of_integers_hides_nothing),
		cmocka_unit_test(test_attention_without_keys_is_zero),
	};
	return cmocka_run_group_tests(tests, case_setup, NULL);
}
