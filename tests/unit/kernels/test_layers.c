/* test_layers.c: the layered comparison names the pass that a fault was put into.
 *
 * compile.c is compiled into this program with a hook after every pass, so that faults exist here
 * only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run;
static void after_pass(struct run *r, const char *pass);
#define STX_AFTER_PASS(r, pass) after_pass(r, pass)
#include "compile.c"

#include "compiled.h"
#include "graph_gen.h"
#include "scalar.h"
#include "tool.h"

/* ---- faults: the constant 2 becomes `wrong` in the product of one pass ---- */

static const char *fault_at;
static double wrong;
static unsigned faults;

static void hurt_graph(struct stx_graph *g)
{
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		struct stx_node *n = g->nodes.at[i];
		for (uint32_t k = 0; k < n->nargs; k++) {
			struct stx_arg *a = &n->args[k];
			if (a->kind != STX_ARG_SCALAR || (a->is_float ? a->u.f != 2 : a->u.i != 2))
				continue;
			a->is_float = 1;
			a->u.f = wrong;
			faults++;
		}
	}
}

static void hurt_loops(struct stx_loops *l)
{
	for (uint32_t i = 0; i < l->buffers.n; i++)
		for (uint32_t k = 0; k < l->buffers.at[i]->body.n; k++) {
			struct stx_binst *in = &l->buffers.at[i]->body.at[k];
			if (in->op != STX_B_CONST || in->k.f != 2)
				continue;
			in->k.f = wrong;
			faults++;
		}
}

static void hurt_kernels(struct stx_schedule *s)
{
	for (uint32_t i = 0; i < s->kernels.n; i++)
		for (uint32_t k = 0; k < s->kernels.at[i]->insts.n; k++) {
			struct stx_kinst *in = &s->kernels.at[i]->insts.at[k];
			if (in->op != STX_K_CONST || in->k.f != 2)
				continue;
			in->k.f = wrong;
			faults++;
		}
}

/* ---- faults a verifier sees: a type, a missing body, a width, another magic number ---- */

static const char *broken_at;

static void break_product(struct run *r)
{
	struct stx_graph *g = r->graph;
	faults++;
	if (r->plan.n)
		r->plan.at[0] ^= 1;
	else if (r->schedule)
		r->schedule->kernels.at[0]->index_bits = 7;
	else if (r->loops)
		r->loops->buffers.at[r->loops->outputs.at[0]]->body.n = 0;
	else
		g->nodes.at[g->nodes.n - 1]->outs[0].dtype = STX_F64;
}

static void after_pass(struct run *r, const char *pass)
{
	if (broken_at && !strcmp(pass, broken_at))
		break_product(r);
	if (!fault_at || strcmp(pass, fault_at))
		return;
	if (r->schedule)
		hurt_kernels(r->schedule);
	else if (r->loops)
		hurt_loops(r->loops);
	else
		hurt_graph(r->graph);
}

/* ---- comparing ---- */

#define ELEMS 64

struct compared {
	struct stx_compare_result result;
	struct stx_tensor out[4];
	uint32_t nout;
};

static struct stx_source source_of(const char *text)
{
	return (struct stx_source){ .format = 2, .body = { (const uint8_t *)text, strlen(text) } };
}

static void fill(float *x)
{
	for (int i = 0; i < ELEMS; i++)
		x[i] = sinf((float)i * 1.7f + 0.3f);
}

/* Two f32[8,8] inputs. */
static stx_err compare(const char *text, uint64_t max_work, struct compared *c, struct stx_diag *d)
{
	float x[ELEMS], y[ELEMS];
	struct stx_compare_options o = {
		.compile.target = "cpu:x86-64-v3", .rtol = 1e-4, .atol = 1e-6, .max_work = max_work
	};
	struct stx_source s = source_of(text);
	struct stx_tensor in[2] = { { .data = x, .dtype = STX_F32, .rank = 2, .sizes = { 8, 8 } },
				    { .data = y, .dtype = STX_F32, .rank = 2, .sizes = { 8, 8 } } };
	fill(x);
	fill(y);
	compiled_dense(&in[0]);
	compiled_dense(&in[1]);
	memset(c, 0, sizeof *c);
	c->nout = 4;
	return stx_compile_compare(&s, &o, in, 2, c->out, &c->nout, &c->result, d);
}

static void release(struct compared *c)
{
	for (uint32_t i = 0; i < c->nout; i++)
		free(c->out[i].data);
}

static void must_compare(const char *text, struct compared *c)
{
	struct stx_diag d = { 0 };
	if (compare(text, 1u << 30, c, &d))
		fail_msg("%s %s: %s", d.stage, d.node, d.text);
}

static const char *const layer_names[] = { "graph",    "basis",      "canonical", "read",
					   "simplify", "primitives", "lower",     "schedule" };
#define NLAYERS (sizeof layer_names / sizeof *layer_names)

/* Without and with a sum: without, every layer is compared to the bit. */
static const char pointwise[] = "%x : f32[8,8] = placeholder()\n%y : f32[8,8] = placeholder()\n"
				"%a = add.Tensor(%x, %y)\n%r = sigmoid.default(%a)\n"
				"%m = mul.Scalar(%r, 2.0)\n%g = gelu.default(%m)\n"
				"return (%m as 'first', %g as 'second')\n";
static const char with_sum[] = "%x : f32[8,8] = placeholder()\n%y : f32[8,8] = placeholder()\n"
			       "%a = add.Tensor(%x, %y)\n%m = mul.Scalar(%a, 2.0)\n"
			       "%s = sum.dim_IntList(%m, [1])\n%p = _softmax.default(%m, 1)\n"
			       "return (%s, %p)\n";

/* ST-06 */
static void test_layers_of_a_sound_compiler_agree(void **state)
{
	(void)state;
	struct compared c;
	fault_at = NULL;
	must_compare(pointwise, &c);
	assert_int_equal(c.result.nlayers, NLAYERS);
	assert_int_equal(c.result.first, -1);
	assert_int_equal(c.result.is_exact, 1);
	for (uint32_t i = 0; i < NLAYERS; i++) {
		assert_string_equal(c.result.layers[i].name, layer_names[i]);
		assert_int_equal(c.result.layers[i].is_equal, 1); /* no sums: to the bit, at all */
		assert_int_equal(c.result.layers[i].verdict, 0);
	}
	release(&c);
	must_compare(with_sum, &c);
	assert_int_equal(c.result.first, -1);
	for (uint32_t i = 1; i < 5; i++) /* graph layers: to the bit even with sums */
		assert_int_equal(c.result.layers[i].is_equal, 1);
	release(&c);
}

/* ST-07: each pass in turn. */
static void test_layers_fault_in_each_pass_is_named(void **state)
{
	static const char *const texts[] = { pointwise, with_sum };
	(void)state;
	for (size_t t = 0; t < 2; t++)
		for (size_t i = 1; i < NLAYERS; i++) {
			struct compared c;
			fault_at = layer_names[i];
			wrong = 3;
			faults = 0;
			must_compare(texts[t], &c);
			fault_at = NULL;
			assert_true(faults > 0);
			assert_true(c.result.first > 0);
			const struct stx_layer *y = &c.result.layers[c.result.first];
			assert_string_equal(y->name, layer_names[i]);
			assert_int_equal(y->verdict, STX_E_MISMATCH);
			assert_non_null(strstr(y->text, "output '"));
			for (uint32_t k = (uint32_t)i + 1; k < NLAYERS;
			     k++) /* the fault is inherited */
				assert_int_equal(c.result.layers[k].verdict, 0);
			release(&c);
		}
}

/* SE-14: the class of the pass picks the comparison: one unit in the last place is too much
 * for a BIT pass, and within the tolerance of a TOL pass. */
static void test_layers_class_picks_exact_or_tolerant_comparison(void **state)
{
	(void)state;
	for (size_t i = 1; i < NLAYERS; i++) {
		struct compared c;
		const struct pass *p = NULL;
		for (unsigned k = 0; k < stx__npasses; k++)
			if (!strcmp(stx__passes[k].name, layer_names[i]))
				p = &stx__passes[k];
		assert_non_null(p);
		fault_at = layer_names[i];
		wrong = 2 + 0x1p-22;
		must_compare(pointwise, &c);
		fault_at = NULL;
		assert_int_equal(c.result.layers[i].is_equal, 0);
		assert_int_equal(c.result.layers[i].verdict, p->class == TOL ? 0 : STX_E_MISMATCH);
		assert_string_equal(c.result.layers[i].class_name, p->class == TOL ? "TOL" : "BIT");
		release(&c);
	}
}

/* SE-14: every pass declares its class, and what works on graphs is never TOL (SE-13). */
static void test_layers_every_pass_declares_its_class(void **state)
{
	(void)state;
	int lowered = 0;
	for (unsigned i = 0; i < stx__npasses; i++) {
		const struct pass *p = &stx__passes[i];
		assert_true(p->class == NONE || p->class == BIT || p->class == TOL);
		lowered = lowered || !strcmp(p->name, "lower");
		assert_true(lowered || p->class != TOL);
	}
	assert_true(lowered);
}

static void test_layers_fault_that_fails_a_layer_is_named(void **state)
{
	/* an index that the fault moves out of range */
	static const char text[] =
		"%x : f32[8,8] = placeholder()\n%y : f32[8,8] = placeholder()\n"
		"%f = full.default([4], 2.0, dtype=f32)\n%i = _to_copy.default(%f, dtype=i64)\n"
		"%z = index_select.default(%x, 0, %i)\n%m = mul.Tensor(%y, %y)\nreturn (%z, %m)\n";
	struct compared c;
	(void)state;
	fault_at = "basis";
	wrong = 9;
	faults = 0;
	must_compare(text, &c);
	fault_at = NULL;
	assert_true(faults > 0);
	assert_int_equal(c.result.first, 1);
	assert_int_equal(c.result.layers[1].verdict, STX_E_BOUNDS);
	release(&c);
}

static void test_layers_too_long_for_an_interpreter_are_said(void **state)
{
	struct compared c;
	struct stx_diag d = { 0 };
	(void)state;
	assert_int_equal(compare(with_sum, 100, &c, &d), 0);
	assert_int_equal(c.result.first, -1);
	assert_int_equal(c.result.layers[6].verdict, STX_E_TOO_LARGE);
	assert_int_equal(c.result.layers[7].verdict, STX_E_TOO_LARGE);
	assert_non_null(strstr(c.result.layers[6].text, "not evaluated"));
	assert_int_equal(c.result.is_exact, 0);
	release(&c);
}

/* An input with strides of its own, and one whose elements share memory. */
static void test_layers_strided_inputs_agree(void **state)
{
	static const char text[] = "%x : f32[8,8] = placeholder(strides=[1, 8])\n"
				   "%y : f32[8,8] = placeholder(strides=[0, 1])\n"
				   "%a = mul.Tensor(%x, %y)\nreturn (%a,)\n";
	struct compared c;
	(void)state;
	must_compare(text, &c);
	assert_int_equal(c.result.first, -1);
	const float *out = c.out[0].data;
	float x[ELEMS];
	fill(x);
	for (int i = 0; i < 8; i++)
		for (int j = 0; j < 8; j++) /* the last row written stays */
			assert_true(out[i * 8 + j] == x[i * 8 + j] * x[56 + j]);
	release(&c);
}

static void test_layers_error_of_the_graph_itself_is_returned(void **state)
{
	static const char text[] =
		"%x : f32[8,8] = placeholder()\n%y : f32[8,8] = placeholder()\n"
		"%f = full.default([4], 9.0, dtype=f32)\n%i = _to_copy.default(%f, dtype=i64)\n"
		"%z = index_select.default(%x, 0, %i)\n%m = mul.Tensor(%y, %y)\nreturn (%z, %m)\n";
	struct compared c;
	struct stx_diag d = { 0 };
	(void)state;
	assert_int_equal(compare(text, 1u << 30, &c, &d), STX_E_BOUNDS);
	struct stx_compare_options o = { .compile.target = "cpu:x86-64-v3" };
	struct stx_source s = source_of(pointwise);
	stx_diag_clear(&d);
	c.nout = 4;
	assert_int_equal(stx_compile_compare(&s, &o, NULL, 0, c.out, &c.nout, &c.result, &d),
			 STX_E_INVALID);
}

/* ---- random graphs over the whole op table ---- */

/* Small whole numbers: sums are exact, so that no tolerance is needed, and indices are often valid.
 */
static void fill_any(struct stx_tensor *t, uint64_t *seed)
{
	enum stx_dtype y = (enum stx_dtype)t->dtype;
	int64_t first, n = compiled_span(t, &first);
	t->data = malloc((size_t)n * (size_t)stx_dtype_bytes(y) + 1);
	t->offset = first;
	for (int64_t i = 0; i < n; i++) {
		int64_t v = (int64_t)(gen_next(seed) >> 60) % 4;
		union stx_scalar k = { .f = (double)v };
		if (!stx_dtype_is_float(y))
			k = stx_scalar_wrap(y, (uint64_t)v);
		stx_scalar_store(y, (char *)t->data + i * stx_dtype_bytes(y), k);
	}
}

/* 1 when a float sum, or a composite that holds one, is in the graph: rounded otherwise by another
 * evaluator, and floor or sign make a whole of the difference. */
static int has_sums(const struct stx_graph *g)
{
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		const struct stx_node *n = g->nodes.at[i];
		enum stx_op_category c = stx_op_info(n->op)->category;
		int sums = c == STX_CAT_REDUCE || c == STX_CAT_SCAN || c == STX_CAT_CONTRACT ||
			   c == STX_CAT_WINDOW || c == STX_CAT_SCATTER || c == STX_CAT_COMPOSITE;
		for (uint32_t k = 0; sums && k < n->nouts; k++)
			if (stx_dtype_is_float(n->outs[k].dtype))
				return 1;
	}
	return 0;
}

static int is_exact_layer(const char *name)
{
	return !strcmp(name, "canonical") || !strcmp(name, "read") || !strcmp(name, "simplify");
}

/* Inputs that are written lie as the graph says, empty ones too; what they hold is compared
 * dense. */
static void test_layers_written_inputs_of_any_strides_agree(void **state)
{
	static const struct {
		int64_t rows, cols;
		const char *strides;
	} cases[] = {
		{ 3, 4, "" },
		{ 3, 4, "strides=[9,2]" },
		{ 3, 4, "strides=[1,3]" },
		{ 1, 5, "strides=[11,2]" },
		{ 0, 3, "strides=[7,2]" },
		{ 4, 0, "strides=[1,4]" },
	};
	(void)state;
	fault_at = NULL;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[300];
		float x[12];
		uint32_t nout = 2;
		struct stx_tensor in = { .data = x,
					 .dtype = STX_F32,
					 .rank = 2,
					 .sizes = { cases[i].rows, cases[i].cols } },
				  out[2];
		struct stx_compare_options o = { .compile.target = "cpu:x86-64-v3",
						 .rtol = 1e-4,
						 .atol = 1e-6,
						 .max_work = 1 << 20 };
		struct stx_compare_result r;
		struct stx_diag d = { 0 };
		snprintf(text, sizeof text,
			 "%%x : f32[%d,%d] = placeholder(%s)\n%%y = add_.Scalar(%%x, 1)\n"
			 "%%s = sum.default(%%x)\nreturn (%%s,)\n",
			 (int)cases[i].rows, (int)cases[i].cols, cases[i].strides);
		struct stx_source s = source_of(text);
		for (int k = 0; k < 12; k++)
			x[k] = (float)k;
		compiled_dense(&in);
		if (stx_compile_compare(&s, &o, &in, 1, out, &nout, &r, &d))
			fail_msg("%zu: %s", i, d.text);
		if (r.first >= 0)
			fail_msg("%zu: %s: %s", i, r.layers[r.first].name, r.layers[r.first].text);
		assert_int_equal(nout, 2);
		for (int64_t k = 0; k < cases[i].rows * cases[i].cols; k++)
			assert_true(((const float *)out[1].data)[k] == (float)k + 1);
		free(out[0].data);
		free(out[1].data);
	}
}

/* 1: agreed; 0: the graph itself is in error (an index, an assertion), cannot be compiled, or makes
 * more of a rounding than the tolerance. */
static int compare_random(uint64_t *seed)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = gen_random(a, seed, 8);
	const char *text = gen_print(a, g);
	struct stx_source s = source_of(text);
	struct stx_compare_options o = {
		.compile.target = "cpu:x86-64-v3", .rtol = 1e-3, .atol = 1e-3, .max_work = 1 << 22
	};
	uint32_t n = g->inputs.n, nout = g->outputs.n;
	struct stx_tensor *in = calloc(n + 1, sizeof *in), *out = calloc(nout + 1, sizeof *out);
	struct stx_compare_result r;
	struct stx_diag d = { 0 };
	for (uint32_t i = 0; i < n; i++) {
		const struct stx_type *y = &g->inputs.at[i].node->outs[0];
		in[i].dtype = (uint8_t)y->dtype;
		in[i].rank = y->rank;
		for (int k = 0; k < y->rank; k++)
			stx_ex_is_const(g->ex, y->sizes[k], &in[i].sizes[k]);
		compiled_dense(&in[i]);
		fill_any(&in[i], seed);
	}
	stx_err e = stx_compile_compare(&s, &o, in, n, out, &nout, &r, &d);
	if (e && r.nlayers > 1 && e != STX_E_UNSUPPORTED)
		fail_msg("%s %s: %s in\n%s", d.stage, d.node, d.text, text);
	int tolerated = !e && r.first >= 0 && has_sums(g) &&
			!is_exact_layer(r.layers[r.first].name) &&
			r.layers[r.first].verdict == STX_E_MISMATCH;
	if (!e && r.first >= 0 && !tolerated)
		fail_msg("%s: %s in\n%s", r.layers[r.first].name, r.layers[r.first].text, text);
	for (uint32_t i = 0; !e && i < nout; i++)
		free(out[i].data);
	for (uint32_t i = 0; i < n; i++)
		free(in[i].data);
	free(in);
	free(out);
	stx_arena_free(a);
	return !e && !tolerated;
}

/* SE-15 */
static void test_layers_of_random_graphs_agree(void **state)
{
	uint64_t seed = 20261129;
	int compared = 0;
	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	for (int i = 0; i < 1000; i++)
		compared += compare_random(&seed);
	print_message("%d agreed\n", compared);
	assert_true(compared > 700);
}

/* ---- the code, which the client compares ---- */

/* ST-07: the kernels that were compiled are not those of the graph. */
static void test_layers_fault_in_the_code_is_named(void **state)
{
	struct compared c;
	struct compiled code;
	struct stx_diag d = { 0 };
	struct stx_tensor out[2];
	float x[ELEMS];
	struct stx_tensor in[2] = { { .data = x, .dtype = STX_F32, .rank = 2, .sizes = { 8, 8 } } };
	(void)state;
	fill(x);
	compiled_dense(&in[0]);
	in[1] = in[0];
	must_compare(with_sum, &c);
	for (int hurt = 0; hurt < 2; hurt++) {
		fault_at = hurt ? "schedule" : NULL;
		wrong = 2 + 0x1p-22; /* the last bit: code repeats the kernels' bits */
		assert_int_equal(
			compiled_build(with_sum, "cpu:x86-64-v2", COMPILED_FUSED, &code, &d), 0);
		fault_at = NULL;
		assert_int_equal(compiled_run(&code, COMPILED_SERIAL, in, 2, out, &d), 0);
		struct stax_compare layers = { .rtol = 1e-4, .atol = 1e-6, .is_exact = 1 };
		struct stx_host got[2] = { { .t = out[0] }, { .t = out[1] } };
		static const char *const names[] = { "a", "b" };
		FILE *to = tmpfile();
		stx_diag_clear(&d);
		stx_err e = stx_tool_judge_layers(&layers, names, got, c.out, 2, to, &d);
		fclose(to);
		assert_int_equal(e, hurt ? STX_E_MISMATCH : 0);
		assert_true(!hurt || strstr(d.text, "'code' is the first layer that departs"));
		compiled_free_outputs(out, 2);
		compiled_free(&code);
	}
	release(&c);
}

/* SE-11: no product goes on unverified, the canonical graph, which keys are taken of, among them;
 * what a verifier refuses is not the client's fault, but for the graph as it came. */
static void test_layers_product_of_every_pass_is_verified(void **state)
{
	static const char text[] = "%x : f32[8,8] = placeholder()\n%m = mul.Scalar(%x, 3)\n"
				   "%s = sum.dim_IntList(%m, [1])\nreturn (%s,)\n";
	struct stx_source s = source_of(text);
	struct stx_compile_options o = { .target = "cpu:x86-64-v2" };
	struct stx_compiler *c = compiled_compiler(); /* which warms up: before anything breaks */
	(void)state;
	for (unsigned i = 1; i < stx__npasses; i++) {
		struct stx_bytes out = { 0 };
		struct stx_diag d = { 0 };
		faults = 0;
		broken_at = stx__passes[i].name;
		stx_err e = stx_compile_dump(c, &s, &o, "plan", "text", &out, &d);
		broken_at = NULL;
		stx_err want = stx__passes[i].product == GRAPH ? STX_E_INVALID : STX_E_INTERNAL;
		if (e != want || faults != 1)
			fail_msg("%s: %s: %s", stx__passes[i].name, stx_err_name(e), d.text);
		stx_bytes_free(&out);
	}
}

/* ---- operators one by one ---- */

/* ST-05: the debug back end, itself shape-polymorphic: one graph, two sizes. */
static void test_layers_oracle_runs_operators_for_any_size(void **state)
{
	static const char text[] = "sym n = [1,100] hint 4\n%x : f32[n,2] = placeholder()\n"
				   "%m = mul.Scalar(%x, 3)\n%s = sum.dim_IntList(%m, [1])\n"
				   "return (%m, %s)\n";
	struct stx_source s = source_of(text);
	(void)state;
	for (int64_t n = 1; n <= 7; n += 3) {
		float x[14];
		struct stx_tensor in = {
			.data = x, .dtype = STX_F32, .rank = 2, .sizes = { n, 2 }
		};
		struct stx_tensor out[2];
		struct stx_diag d = { 0 };
		uint32_t nout = 2;
		compiled_dense(&in);
		for (int i = 0; i < 14; i++)
			x[i] = (float)i;
		if (stx_compile_reference(&s, &in, 1, out, &nout, &d))
			fail_msg("%s: %s", d.node, d.text);
		assert_int_equal(out[0].sizes[0], n);
		assert_int_equal(out[1].sizes[0], n);
		for (int64_t i = 0; i < n; i++) {
			assert_true(((float *)out[0].data)[2 * i] == 6 * (float)i);
			assert_true(((float *)out[1].data)[i] == 12 * (float)i + 3);
		}
		free(out[0].data);
		free(out[1].data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layers_product_of_every_pass_is_verified),
		cmocka_unit_test(test_layers_of_a_sound_compiler_agree),
		cmocka_unit_test(test_layers_fault_in_each_pass_is_named),
		cmocka_unit_test(test_layers_class_picks_exact_or_tolerant_comparison),
		cmocka_unit_test(test_layers_every_pass_declares_its_class),
		cmocka_unit_test(test_layers_fault_that_fails_a_layer_is_named),
		cmocka_unit_test(test_layers_too_long_for_an_interpreter_are_said),
		cmocka_unit_test(test_layers_strided_inputs_agree),
		cmocka_unit_test(test_layers_error_of_the_graph_itself_is_returned),
		cmocka_unit_test(test_layers_written_inputs_of_any_strides_agree),
		cmocka_unit_test(test_layers_of_random_graphs_agree),
		cmocka_unit_test(test_layers_fault_in_the_code_is_named),
		cmocka_unit_test(test_layers_oracle_runs_operators_for_any_size),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
