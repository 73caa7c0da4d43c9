/* test_models.c: functions, subgraphs, inputs that must be known, malformed models: each refusal
 * names what, where and how to fix it. */
#include "imported.h"

/* ---- model-local functions ---- */

#define SCALED                                                                                     \
	"function local:Scaled(a, b) -> (c)\n"                                                     \
	"opset 13\n"                                                                               \
	"s = Elu(a) alpha=@factor\n"                                                               \
	"c = Add(s, b)\n"                                                                          \
	"end\n"

static void test_models_function_takes_its_caller_s_attributes(void **state)
{
	(void)state;
	static const double in[] = { -1000, 1, 10, 20 };
	ASSERT_GIVES("opset 13\nopset 1 local\n"
		     "input x float [2]\ninput y float [2]\n" SCALED
		     "z = local:Scaled(x, y) factor=3.0\noutput z\n",
		     in, "2", 7, 21);
}

static void test_models_function_attribute_not_given_has_its_default(void **state)
{
	(void)state;
	static const double in[] = { -1000, 1, 10, 20 };
	ASSERT_GIVES("opset 13\nopset 1 local\n"
		     "input x float [2]\ninput y float [2]\n" SCALED
		     "z = local:Scaled(x, y)\noutput z\n",
		     in, "2", 9, 21);
}

/* Default values and overloads came with IR versions 9 and 10. */
static void test_models_function_s_own_defaults_hold_unless_its_caller_differs(void **state)
{
	(void)state;
	static const double in[] = { -4, 8 };
#define LEAKY                                                                                      \
	"function local:Leaky(a) -> (c) alpha=0.5\n"                                               \
	"opset 17\nc = LeakyRelu(a) alpha=@alpha\nend\n"
	ASSERT_GIVES("opset 17\n" LEAKY "input x float [2]\ny = local:Leaky(x)\noutput y\n", in,
		     "2", -2, 8);
	ASSERT_GIVES("opset 17\n" LEAKY
		     "input x float [2]\ny = local:Leaky(x) alpha=0.25\noutput y\n",
		     in, "2", -1, 8);
	ASSERT_GIVES("opset 17\n" LEAKY "function local:Outer(p) -> (r) alpha=0.125\n"
		     "opset 17\nr = local:Leaky(p) alpha=@alpha\nend\n"
		     "input x float [2]\ny = local:Outer(x)\noutput y\n",
		     in, "2", -0.5, 8);
}

static void test_models_functions_of_one_name_are_told_by_overload(void **state)
{
	(void)state;
	static const double in[] = { -4, 8 };
#define TWO                                                                                        \
	"function local:F(a) -> (c)\nc = Abs(a)\nend\n"                                            \
	"function local:F(a) -> (c) overload=minus\nc = Neg(a)\nend\n"                             \
	"input x float [2]\n"
	ASSERT_GIVES(TWO "y = local:F(x)\noutput y\n", in, "2", 4, 8);
	ASSERT_GIVES(TWO "y = local:F(x) overload=minus\noutput y\n", in, "2", 4, -8);
	assert_refused(TWO "y = local:F(x) overload=other\noutput y\n", STX_E_UNSUPPORTED,
		       "local.F", NULL);
}

static void test_models_function_input_left_out_is_absent_inside(void **state)
{
	(void)state;
	static const double in[] = { -4, 8 };
	ASSERT_GIVES("function local:C(a, lo, hi) -> (c)\nc = Clip(a, lo, hi)\nend\n"
		     "input x float [2]\ninit h float [] 2\ny = local:C(x, , h)\noutput y\n",
		     in, "2", -4, 2);
}

/* A writer of protocol buffers 3 leaves out what is 0. */
static void test_models_attribute_without_its_value_is_zero(void **state)
{
	(void)state;
	static const double in[] = { 1, 2, 3, 5 };
	ASSERT_GIVES("input x float [2,2]\ny = ArgMax(x) axis=?i keepdims=?i\noutput y\n", in, "2",
		     1, 1);
	ASSERT_GIVES("input x float [2,2]\ny = Concat(x, x) axis=?i\noutput y\n", in, "4,2", 1, 2,
		     3, 5, 1, 2, 3, 5);
}

static void test_models_function_in_a_function_passes_attributes_on(void **state)
{
	(void)state;
	static const double in[] = { -1000, 1, 10, 20 };
	ASSERT_GIVES("opset 13\nopset 1 local\n"
		     "input x float [2]\ninput y float [2]\n" SCALED
		     "function local:Outer(p, q) -> (r)\n"
		     "r = local:Scaled(p, q) factor=@outer\n"
		     "end\n"
		     "z = local:Outer(x, y) outer=5.0\noutput z\n",
		     in, "2", 5, 21);
}

static void test_models_function_has_an_opset_of_its_own(void **state)
{
	(void)state;
	ASSERT_GIVES("opset 13\nopset 1 local\n"
		     "input x float [2,1]\n"
		     "function local:Flat(a) -> (b)\n"
		     "opset 11\n"
		     "b = Squeeze(a) axes=[1]\n"
		     "end\n"
		     "y = local:Flat(x)\noutput y\n",
		     counting, "2", 0, 1);
}

static void test_models_function_hides_the_operator_of_its_name(void **state)
{
	(void)state;
	ASSERT_GIVES("input x float [2]\n"
		     "function Relu(a) -> (b)\n"
		     "b = Neg(a)\n"
		     "end\n"
		     "y = Relu(x)\noutput y\n",
		     counting, "2", 0, -1);
}

static void test_models_function_that_calls_itself_refused(void **state)
{
	(void)state;
	assert_refused("opset 13\nopset 1 local\n"
		       "input x float [2]\n"
		       "function local:Loop(a) -> (b)\n"
		       "b = local:Loop(a)\n"
		       "end\n"
		       "y = local:Loop(x)\noutput y\n",
		       STX_E_INVALID, "Loop", "calls itself", "16", NULL);
}

/* Sixteen levels of two calls each would be 2^16 bodies of 64 nodes: the count is limited, not the
 * time it takes. */
static void test_models_functions_that_multiply_are_bounded(void **state)
{
	(void)state;
	struct stx_bytes b = { 0 };
	char line[64];
#define LINE(...) (snprintf(line, sizeof line, __VA_ARGS__), stx_bytes_put(&b, line, strlen(line)))
	LINE("opset 13\nopset 1 local\ninput x float [2]\n");
	for (int i = 0; i < 14; i++) {
		LINE("function local:F%d(a) -> (z)\n", i);
		LINE("n0 = Identity(a)\n");
		for (int k = 1; k < 12; k++)
			LINE("n%d = local:F%d(n%d)\n", k, i + 1, k - 1);
		LINE("z = Identity(n11)\nend\n");
	}
	LINE("function local:F14(a) -> (z)\nz = Identity(a)\nend\n");
	LINE("y = local:F0(x)\noutput y\n");
	stx_bytes_put(&b, "", 1);
	assert_refused((const char *)b.at, STX_E_TOO_LARGE, "nodes", NULL);
	stx_bytes_free(&b);
}

static void test_models_operator_of_an_unknown_domain_refused_by_name(void **state)
{
	(void)state;
	assert_refused("opset 13\nopset 1 com.example\n"
		       "input x float [2]\ny = com.example:Warp(x)\noutput y\n",
		       STX_E_UNSUPPORTED, "com.example.Warp", "not supported", NULL);
	assert_refused("opset 13\nopset 1 com.example\n"
		       "input x float [2]\ny = com.example:Relu(x)\noutput y\n",
		       STX_E_UNSUPPORTED, "com.example.Relu", NULL);
}

/* ---- subgraphs ---- */

static void test_models_if_takes_the_branch_and_sees_outer_names(void **state)
{
	(void)state;
	char text[512];
	for (int taken = 0; taken < 2; taken++) {
		snprintf(text, sizeof text,
			 "input x float [2]\ninit c bool [] %d\n"
			 "y = If(c) then_branch={\ninit k float [1] 100\nt = Add(x, k)\noutput t\n"
			 "} else_branch={\ne = Neg(x)\noutput e\n}\n"
			 "output y\n",
			 taken);
		ASSERT_GIVES(text, counting, "2", taken ? 100 : 0, taken ? 101 : -1);
	}
}

static void test_models_if_on_an_unknown_condition_names_the_input(void **state)
{
	(void)state;
	assert_refused("input x float [2]\ninput c bool []\n"
		       "y = If(c) then_branch={\nt = Neg(x)\noutput t\n} else_branch={\n"
		       "e = Abs(x)\noutput e\n}\noutput y\n",
		       STX_E_NEED_VALUES, "the condition", "'c'", NULL);
}

#define COUNT_LOOP                                                                                 \
	"v, s = Loop(m, go, x) body={\n"                                                           \
	"input i int64 []\ninput c bool []\ninput a float [1]\n"                                   \
	"init one int64 [] 1\n"                                                                    \
	"f = Cast(i) to=1\nb = Add(a, f)\n"                                                        \
	"n = Add(i, one)\nd = Less(n, stop)\n"                                                     \
	"output d\noutput b\noutput b float [1]\n}\n"

static void test_models_loop_unrolls_until_its_count_or_condition_ends(void **state)
{
	(void)state;
	static const double in[] = { 10 };
	ASSERT_GIVES("input x float [1]\ninit m int64 [] 3\ninit go bool [] 1\n"
		     "init stop int64 [] 99\n" COUNT_LOOP "output s\n",
		     in, "3,1", 10, 11, 13);
	ASSERT_GIVES("input x float [1]\ninit m int64 [] 100\ninit go bool [] 1\n"
		     "init stop int64 [] 2\n" COUNT_LOOP "output v\n",
		     in, "1", 11);
}

static void test_models_loop_that_never_runs_stacks_nothing(void **state)
{
	(void)state;
	static const double in[] = { 10 };
	ASSERT_GIVES("input x float [1]\ninit m int64 [] 0\ninit go bool [] 1\n"
		     "init stop int64 [] 2\n" COUNT_LOOP "output v\n",
		     in, "1", 10);
	static struct values got;
	run_model("input x float [1]\ninit m int64 [] 5\ninit go bool [] 0\n"
		  "init stop int64 [] 2\n" COUNT_LOOP "output s\n",
		  in, &got, 1);
	assert_int_equal(got.rank, 2);
	assert_int_equal(got.sizes[0], 0);
	assert_int_equal(got.sizes[1], 1);
}

static void test_models_loop_without_end_is_refused(void **state)
{
	(void)state;
	assert_refused("input x float [1]\ninit go bool [] 1\n"
		       "v = Loop(, go, x) body={\n"
		       "input i int64 []\ninput c bool []\ninput a float [1]\n"
		       "d = Identity(c)\nb = Identity(a)\noutput d\noutput b\n}\n"
		       "output v\n",
		       STX_E_TOO_LARGE, "unrolled", "nodes", NULL);
}

static void test_models_scan_directions_and_axes(void **state)
{
	(void)state;
	static const double in[] = { 0, 1, 2, 3, 4, 5, 6 };
#define BODY                                                                                       \
	"body={\ninput a float [1]\ninput e float [3]\n"                                           \
	"init ax int64 [1] 0\nt = ReduceSum(e, ax)\nb = Add(a, t)\noutput b\noutput b\n}"
	ASSERT_GIVES("input x float [1]\ninput z float [2,3]\n"
		     "v, s = Scan(x, z) num_scan_inputs=1 " BODY "\noutput s\n",
		     in, "2,1", 6, 21);
	ASSERT_GIVES("input x float [1]\ninput z float [2,3]\n"
		     "v, s = Scan(x, z) num_scan_inputs=1 scan_input_directions=[1] "
		     "scan_output_directions=[1] " BODY "\noutput s\n",
		     in, "2,1", 21, 15);
	ASSERT_GIVES("input x float [1]\ninput z float [3,2]\n"
		     "v, s = Scan(x, z) num_scan_inputs=1 scan_input_axes=[1] "
		     "scan_output_axes=[1] " BODY "\noutput s\n",
		     in, "1,2", 9, 21);
}

static void test_models_subgraph_of_the_wrong_shape_refused(void **state)
{
	(void)state;
	assert_refused("input x float [1]\ninit m int64 [] 2\n"
		       "v = Loop(m, , x) body={\ninput i int64 []\noutput i\n}\noutput v\n",
		       STX_E_INVALID, "Loop", "outputs", NULL);
	assert_refused("input x float [2]\ny = Scan(x)\noutput y\n", STX_E_INVALID, "Scan", "body",
		       "a graph", NULL);
	assert_refused("input x float [2]\nv = Scan(x) num_scan_inputs=1 body={\n"
		       "input e float []\noutput nowhere\n}\noutput v\n",
		       STX_E_INVALID, "'nowhere'", "not computed", NULL);
}

/* ---- sequences and optionals ---- */

static void test_models_sequence_is_a_list_known_when_compiling(void **state)
{
	(void)state;
	ASSERT_GIVES("input x float [5,1]\ninit two int64 [] 2\ninit last int64 [] -1\n"
		     "s = SplitToSequence(x, two)\na = SequenceAt(s, last)\n"
		     "t = SequenceInsert(s, a, last)\nu = SequenceErase(t)\n"
		     "y = ConcatFromSequence(u) axis=0\noutput y\n",
		     counting, "5,1", 0, 1, 2, 3, 4);
	ASSERT_GIVES("input x float [2,2]\ns = SplitToSequence(x) axis=1 keepdims=0\n"
		     "y = ConcatFromSequence(s) axis=0 new_axis=1\noutput y\n",
		     counting, "2,2", 0, 2, 1, 3);
	ASSERT_GIVES("input x float [2]\ns = SequenceConstruct(x, x)\nn = SequenceLength(s)\n"
		     "y = Cast(n) to=1\noutput y\n",
		     counting, "", 2);
}

static void test_models_sequence_goes_through_loops_and_maps(void **state)
{
	(void)state;
	ASSERT_GIVES("input x float [1]\ninit m int64 [] 3\nempty = SequenceEmpty()\n"
		     "s = Loop(m, , empty) body={\ninput i int64 []\ninput c bool []\ninput a\n"
		     "f = Cast(i) to=1\ne = Add(x, f)\nb = SequenceInsert(a, e)\n"
		     "d = Identity(c)\noutput d\noutput b\n}\n"
		     "t = SequenceMap(s, x) body={\ninput p\ninput q\nr = Sub(q, p)\noutput r\n}\n"
		     "y = ConcatFromSequence(t) axis=0\noutput y\n",
		     counting, "3", 0, -1, -2);
}

static void test_models_optional_says_whether_it_has_a_value(void **state)
{
	(void)state;
	ASSERT_GIVES("opset 18\ninput x float [1]\no = Optional(x)\nn = Optional()\n"
		     "a = OptionalHasElement(o)\nb = OptionalHasElement(n)\n"
		     "g = OptionalGetElement(o)\nf = Cast(a) to=1\nh = Cast(b) to=1\n"
		     "init one int64 [1] 1\nf1 = Reshape(f, one)\nh1 = Reshape(h, one)\n"
		     "y = Concat(f1, h1, g) axis=0\noutput y\n",
		     counting, "3", 1, 0, 0);
}

static void test_models_sequence_where_a_tensor_is_needed_refused(void **state)
{
	(void)state;
	assert_refused("input x float [2]\ns = SequenceConstruct(x)\ny = Neg(s)\noutput y\n",
		       STX_E_INVALID, "input 0", "Neg", "sequence", NULL);
	assert_refused("input x float [2]\ny = SequenceConstruct(x)\noutput y\n", STX_E_UNSUPPORTED,
		       "'y'", "not a tensor", NULL);
	assert_refused("input x float [2]\ny = SequenceLength(x)\noutput y\n", STX_E_INVALID,
		       "SequenceLength", "must be a sequence", NULL);
	assert_refused("input x float [2]\ninit p int64 [] 1\ns = SequenceConstruct(x)\n"
		       "y = SequenceAt(s, p)\noutput y\n",
		       STX_E_INVALID, "position 1", "1 elements", NULL);
	assert_refused("opset 18\ninput x float [2]\nn = Optional()\ny = "
		       "OptionalGetElement(n)\noutput y\n",
		       STX_E_INVALID, "optional is empty", NULL);
	assert_refused("input x float [1]\ninit m int64 [] 1\n"
		       "s = Loop(m, , x) body={\ninput i int64 []\ninput c bool []\ninput a\n"
		       "q = SequenceConstruct(a)\noutput q\noutput a\n}\noutput s\n",
		       STX_E_INVALID, "condition", "sequence", NULL);
}

/* ---- inputs that must be known ---- */

static void test_models_needed_input_is_named_with_why(void **state)
{
	(void)state;
	struct imported i = import_with("input x float [6]\ninput s int64 [2]\n"
					"y = Reshape(x, s)\noutput y\n",
					NULL, 0);
	assert_int_equal(i.e, STX_E_NEED_VALUES);
	assert_int_equal(i.r.nneeded, 1);
	assert_string_equal(i.r.needed[0].input, "s");
	assert_string_equal(i.r.needed[0].why, "Reshape 'y': the shape");
	import_end(&i);
}

/* Found by fuzzing: a node without results has no name to be called by. */
static void test_models_needed_input_of_a_node_without_results_is_named(void **state)
{
	(void)state;
	struct imported i = import_with("input x float [6]\ninput s int64 [2]\n"
					" = Reshape(x, s)\ny = Relu(x)\noutput y\n",
					NULL, 0);
	assert_int_equal(i.e, STX_E_NEED_VALUES);
	assert_string_equal(i.r.needed[0].why, "Reshape '': the shape");
	import_end(&i);
}

static void test_models_given_value_fixes_the_shape(void **state)
{
	(void)state;
	static const int64_t two = 2, shape[2] = { 2, 3 };
	struct stx_given_value v = { "s", STX_I64, 1, &two, (const uint8_t *)shape, 16 };
	struct imported i = import_with("input x float [6]\ninput s int64 [2]\n"
					"y = Reshape(x, s)\noutput y\n",
					&v, 1);
	assert_int_equal(i.e, 0);
	assert_int_equal(i.r.graph->inputs.n, 1);
	assert_string_equal(i.r.input_names[0], "x");
	import_end(&i);
}

static void test_models_given_value_of_another_type_refused(void **state)
{
	(void)state;
	static const int64_t two = 2;
	static const int32_t shape[2] = { 2, 3 };
	struct stx_given_value v = { "s", STX_I32, 1, &two, (const uint8_t *)shape, 8 };
	struct imported i = import_with("input x float [6]\ninput s int64 [2]\n"
					"y = Reshape(x, s)\noutput y\n",
					&v, 1);
	assert_int_equal(i.e, STX_E_MISMATCH);
	assert_non_null(strstr(i.d.text, "'s'"));
	assert_non_null(strstr(i.d.text, "i32"));
	assert_non_null(strstr(i.d.text, "i64"));
	import_end(&i);
}

static void test_models_sizes_given_without_data_fix_the_shape_only(void **state)
{
	(void)state;
	static const int64_t sizes[2] = { 4, 3 };
	struct stx_given_value v = { "x", STX_F32, 2, sizes, NULL, 0 };
	static const char model[] = "input x float [N,3]\ny = Neg(x)\noutput y\n";
	struct imported i = import_with(model, &v, 1);
	assert_int_equal(i.e, 0);
	assert_int_equal(i.r.graph->inputs.n, 1);
	import_end(&i);
	assert_refused(model, STX_E_UNSUPPORTED, "'x'", "dimension 0", "N", NULL);
}

/* A model that says of an output what its nodes do not make contradicts itself. */
static void test_models_declared_output_that_nodes_do_not_make_is_refused(void **state)
{
	static const struct {
		const char *output, *said;
	} wrong[] = { { "y float [2,4]", "dimension 1 is declared 4, its nodes make 3" },
		      { "y float [2]", "declared with 1 dimensions, its nodes make 2" },
		      { "y float []", "declared with 0 dimensions, its nodes make 2" },
		      { "y int64 [2,3]", "declared int64, its nodes make f32" } };
	static const char *const right[] = { "y", "y float [2,3]" };
	static const char lines[] = "input x float [2,3]\ny = Relu(x)\noutput %s\n";
	char text[200];
	(void)state;
	for (unsigned k = 0; k < sizeof wrong / sizeof *wrong; k++) {
		snprintf(text, sizeof text, lines, wrong[k].output);
		struct imported i = import_with(text, NULL, 0);
		assert_int_equal(i.e, STX_E_MISMATCH);
		assert_non_null(strstr(i.d.text, "output 'y'"));
		assert_non_null(strstr(i.d.text, wrong[k].said));
		import_end(&i);
	}
	for (unsigned k = 0; k < sizeof right / sizeof *right; k++) {
		snprintf(text, sizeof text, lines, right[k]);
		struct imported i = import_with(text, NULL, 0);
		assert_int_equal(i.e, 0);
		import_end(&i);
	}
	/* Given another size, the model's own say nothing. */
	static const int64_t sizes[2] = { 5, 3 };
	struct stx_given_value v = { "x", STX_F32, 2, sizes, NULL, 0 };
	struct imported i =
		import_with("input x float [2,3]\ny = Relu(x)\noutput y float [2,3]\n", &v, 1);
	assert_int_equal(i.e, 0);
	import_end(&i);
}

static void test_models_shape_computed_from_shapes_is_known(void **state)
{
	(void)state;
	ASSERT_GIVES("input x float [2,3]\ns = Shape(x)\ninit i int64 [1] 1\ninit k int64 [1] 2\n"
		     "n = Gather(s, i)\nm = Mul(n, k)\ny = Reshape(x, m)\noutput y\n",
		     counting, "6", 0, 1, 2, 3, 4, 5);
}

/* ---- malformed models ---- */

static void test_models_malformed_are_refused_with_what_and_where(void **state)
{
	(void)state;
	assert_refused("input x float [2]\ny = Neg(z)\noutput y\n", STX_E_INVALID, "input 0", "'z'",
		       "out of order", "Neg", NULL);
	assert_refused("input x float [2]\ny = Neg(x)\noutput z\n", STX_E_INVALID, "output 'z'",
		       "not computed", NULL);
	assert_refused("input x float [2]\ny = Neg(x)\n", STX_E_INVALID, "no outputs", NULL);
	assert_refused("input x float [2]\ny = Neg()\noutput y\n", STX_E_INVALID, "Neg", "input 0",
		       "missing", NULL);
	assert_refused("input x float [-2]\ny = Neg(x)\noutput y\n", STX_E_INVALID, "'x'",
		       "negative dimension", NULL);
	assert_refused("input x string [2]\ny = Identity(x)\noutput y\n", STX_E_UNSUPPORTED, "'x'",
		       "string", NULL);
	assert_refused("input x float [2]\ny = Neg(x)\ny = Abs(x)\noutput y\n", STX_E_INVALID,
		       "'y'", "twice", "Abs", NULL);
	assert_refused("input x float [2]\na, b = Neg(x)\noutput b\n", STX_E_UNSUPPORTED,
		       "output 1", "'b'", "Neg", NULL);
	assert_refused("input x float [6]\ninit s int64 [2] 4 -1\ny = Reshape(x, s)\noutput y\n",
		       STX_E_INVALID, "6 elements", "fit", "Reshape", NULL);
	assert_refused("init w float [3] 1 2\ny = Neg(w)\noutput y\n", STX_E_INVALID, "'w'",
		       "8 bytes", "12", NULL);
	assert_refused("input x float [2,2]\ninit w int64 [1] 0\ny = Transpose(x) perm=[0,0]\n"
		       "output y\n",
		       STX_E_INVALID, "Transpose", NULL);
}

static void test_models_name_given_twice_is_refused(void **state)
{
	(void)state;
	assert_refused("input x float [2]\ninput x float [3]\ny = Neg(x)\noutput y\n",
		       STX_E_INVALID, "input 'x'", "twice", NULL);
	assert_refused("init w float [1] 1\ninit w float [1] 2\ny = Neg(w)\noutput y\n",
		       STX_E_INVALID, "initialiser 'w'", "twice", NULL);
}

/* The operators of a version nobody here knows may mean anything. */
static void test_models_opset_not_known_is_refused(void **state)
{
	(void)state;
	assert_refused("opset 0\ninput x float [2]\ny = Neg(x)\noutput y\n", STX_E_UNSUPPORTED,
		       "opset 0", "1 to", NULL);
	assert_refused("opset 1000\ninput x float [2]\ny = Neg(x)\noutput y\n", STX_E_UNSUPPORTED,
		       "opset 1000", "1 to", NULL);
	assert_refused("opset 13\nopset 9 ai.onnx\ninput x float [2]\ny = Neg(x)\noutput y\n",
		       STX_E_INVALID, "opset_import", "13", "9", NULL);
}

static void test_models_attribute_that_contradicts_a_tensor_is_refused(void **state)
{
	(void)state;
	assert_refused("input x float [1,1,4,4]\ninput w float [1,1,3,3]\n"
		       "y = Conv(x, w) kernel_shape=[9,9]\noutput y\n",
		       STX_E_INVALID, "Conv", "kernel_shape", "9", "3", NULL);
	assert_refused("input x float [1,1,4,4]\ninput w float [1,1,3,3]\n"
		       "y = ConvTranspose(x, w) kernel_shape=[3,2]\noutput y\n",
		       STX_E_INVALID, "ConvTranspose", "kernel_shape", NULL);
	assert_refused("opset 11\ninput x float [4]\ny, z = Split(x) split=[1,2]\noutput y\n",
		       STX_E_INVALID, "Split", "3 of 4", NULL);
	assert_refused("opset 11\ninput x float [4]\ny, z = Split(x) split=[-1,5]\noutput y\n",
		       STX_E_INVALID, "Split", "part 0", "-1", NULL);
	assert_refused("opset 11\ninput x float [4]\ny, z = Split(x) split=[1,4]\noutput y\n",
		       STX_E_INVALID, "Split", "part 1", "3 of 4", NULL);
	assert_refused("opset 11\ninput x float [4]\ny = Split(x) split=[2,2]\noutput y\n",
		       STX_E_INVALID, "Split", "2 parts for 1", NULL);
}

/* Operands that broadcast one way only, or not at all. */
static void test_models_operand_of_the_wrong_size_is_refused(void **state)
{
	(void)state;
#define QUANTIZED(zero)                                                                            \
	"input x uint8 [1,1,3,3]\ninput w uint8 [1,1,1,1]\ninit s float [] 0.5\n"                  \
	"init z uint8 [] 1\ninit s2 float [2] 1 2\ninit z2 uint8 [2] 1 2\n"                        \
	"y = QLinearConv(x, s, z, w, " zero ", s, z)\noutput y\n"
	static const struct {
		const char *model, *word;
	} bad[] = {
		{ "input a float [3,5]\ninput b float [5,1]\ninput c float [1,4]\n"
		  "y = Gemm(a, b, c)\noutput y\n",
		  "sizes of C" },
		{ "input x float [2,3,4]\ninput t int64 [2,5]\n"
		  "y = NegativeLogLikelihoodLoss(x, t)\noutput y\n",
		  "scores" },
		{ "input x float [2,3]\ninput t int64 [1]\n"
		  "y = SoftmaxCrossEntropyLoss(x, t)\noutput y\n",
		  "scores" },
		{ "input x float [2,3]\ninput t int64 [2]\ninput w float [2]\n"
		  "y = NegativeLogLikelihoodLoss(x, t, w)\noutput y\n",
		  "weights" },
		{ "input x float [2,3]\ninit c bool [3] 0 0 1\ny = Compress(x, c) axis=0\n"
		  "output y\n",
		  "element 2" },
		{ QUANTIZED("s2, z"), "scale" },
		{ QUANTIZED("s, z2"), "zero point" },
		{ "input x float [1,1,4]\ny = AveragePool(x) kernel_shape=[2] pads=[1,-1]\noutput "
		  "y\n",
		  "pads" },
		{ "input x float [1,1,4]\ninput w float [1,1,3]\ninput p float [1,1,3]\n"
		  "y = CausalConvWithState(x, w, , p)\noutput y\n",
		  "past_state" },
		{ "opset 28\ninput x float [2,4]\ninput z float [1,4]\ny = SwiGLU(x, z)\noutput "
		  "y\n",
		  "second input" },
		{ "opset 19\ninput x float [1,1,3,3]\ninput w float [1,1,2,2]\n"
		  "input o float [1,8,2,2]\ny = DeformConv(x, w, o) kernel_shape=[1,2]\noutput y\n",
		  "kernel_shape" },
	};
#undef QUANTIZED
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_refused(bad[i].model, STX_E_INVALID, bad[i].word, NULL);
}

static void test_models_window_of_one_sample_is_its_formula(void **state)
{
	(void)state;
	ASSERT_GIVES("opset 17\ninit n int64 [] 1\ny = HannWindow(n)\noutput y\n", counting, "1",
		     0);
	ASSERT_GIVES("opset 17\ninit n int64 [] 1\ny = HammingWindow(n)\noutput y\n", counting, "1",
		     4.0 / 46);
	ASSERT_GIVES("opset 17\ninit n int64 [] 1\ny = BlackmanWindow(n)\noutput y\n", counting,
		     "1", 0);
}

static void test_models_that_are_no_models_refused(void **state)
{
	(void)state;
	static const uint8_t noise[] = { 0x3a, 0x7f, 1, 2, 3 };
	struct stx_arena *a = stx_arena_new((size_t)1 << 20);
	struct stx_import_options o = { 0 };
	struct stx_import_result r;
	struct stx_diag d = { 0 };
	assert_int_equal(stx_import(a, STX_FORMAT_ONNX, (struct stx_span){ noise, sizeof noise },
				    &o, &r, &d),
			 STX_E_INVALID);
	stx_diag_clear(&d);
	assert_int_equal(stx_import(a, STX_FORMAT_ONNX, (struct stx_span){ noise, 0 }, &o, &r, &d),
			 STX_E_INVALID);
	assert_non_null(strstr(d.text, "no graph"));
	stx_arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_models_function_takes_its_caller_s_attributes),
		cmocka_unit_test(test_models_function_attribute_not_given_has_its_default),
		cmocka_unit_test(
			test_models_function_s_own_defaults_hold_unless_its_caller_differs),
		cmocka_unit_test(test_models_functions_of_one_name_are_told_by_overload),
		cmocka_unit_test(test_models_function_input_left_out_is_absent_inside),
		cmocka_unit_test(test_models_attribute_without_its_value_is_zero),
		cmocka_unit_test(test_models_function_in_a_function_passes_attributes_on),
		cmocka_unit_test(test_models_function_has_an_opset_of_its_own),
		cmocka_unit_test(test_models_function_hides_the_operator_of_its_name),
		cmocka_unit_test(test_models_function_that_calls_itself_refused),
		cmocka_unit_test(test_models_functions_that_multiply_are_bounded),
		cmocka_unit_test(test_models_operator_of_an_unknown_domain_refused_by_name),
		cmocka_unit_test(test_models_if_takes_the_branch_and_sees_outer_names),
		cmocka_unit_test(test_models_if_on_an_unknown_condition_names_the_input),
		cmocka_unit_test(test_models_loop_unrolls_until_its_count_or_condition_ends),
		cmocka_unit_test(test_models_loop_that_never_runs_stacks_nothing),
		cmocka_unit_test(test_models_loop_without_end_is_refused),
		cmocka_unit_test(test_models_scan_directions_and_axes),
		cmocka_unit_test(test_models_subgraph_of_the_wrong_shape_refused),
		cmocka_unit_test(test_models_sequence_is_a_list_known_when_compiling),
		cmocka_unit_test(test_models_sequence_goes_through_loops_and_maps),
		cmocka_unit_test(test_models_optional_says_whether_it_has_a_value),
		cmocka_unit_test(test_models_sequence_where_a_tensor_is_needed_refused),
		cmocka_unit_test(test_models_needed_input_is_named_with_why),
		cmocka_unit_test(test_models_needed_input_of_a_node_without_results_is_named),
		cmocka_unit_test(test_models_given_value_fixes_the_shape),
		cmocka_unit_test(test_models_given_value_of_another_type_refused),
		cmocka_unit_test(test_models_sizes_given_without_data_fix_the_shape_only),
		cmocka_unit_test(test_models_declared_output_that_nodes_do_not_make_is_refused),
		cmocka_unit_test(test_models_shape_computed_from_shapes_is_known),
		cmocka_unit_test(test_models_malformed_are_refused_with_what_and_where),
		cmocka_unit_test(test_models_name_given_twice_is_refused),
		cmocka_unit_test(test_models_opset_not_known_is_refused),
		cmocka_unit_test(test_models_attribute_that_contradicts_a_tensor_is_refused),
		cmocka_unit_test(test_models_operand_of_the_wrong_size_is_refused),
		cmocka_unit_test(test_models_window_of_one_sample_is_its_formula),
		cmocka_unit_test(test_models_that_are_no_models_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
