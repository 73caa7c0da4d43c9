/* test_semantics.c: which transformations keep every bit and which only the real number: SE-04,
 * SE-07, SE-08, SE-10, SE-13, SE-14, DF-05, DF-09. Compiled code is compared with itself, exactly,
 * or with the oracle within RD-12. */
#include "cases.h"
#include "compile_run.h"
#include "graph_gen.h"

/* ---- running ---- */

/* f32 data with both zeros, infinities, NaN and subnormals among ordinary numbers. */
static void fill_inputs(struct stx_arena *a, const struct stx_graph *g, struct stx_tensor *in,
			uint64_t seed, int special)
{
	static const double odd[] = {
		0.0, -0.0, INFINITY, -INFINITY, NAN, 0x1p-149, -0x1p-130, 3e38
	};
	double v[512];
	for (uint32_t k = 0; k < g->inputs.n; k++) {
		for (int i = 0; i < 512; i++) {
			uint64_t r = gen_next(&seed) >> 20;
			v[i] = special && r % 5 == 0 ? odd[r / 8 % 8]
						     : (double)(int64_t)(r % 65536) / 4096 - 8;
		}
		case_shape(g, &g->inputs.at[k], &in[k]);
		case_fill(a, &in[k], (struct values){ v, 512 }, 0);
	}
}

static void run(struct stx_arena *a, const char *text, enum compiled_form form, uint64_t seed,
		struct stx_tensor *out, uint32_t *n)
{
	struct stx_graph *g = case_parse(a, text);
	struct stx_tensor in[CASE_MAX];
	struct compiled c;
	struct stx_diag d = { 0 };
	fill_inputs(a, g, in, seed, 1);
	if (compiled_build(text, compiled_targets()[0], form, &c, &d) ||
	    compiled_run(&c, COMPILED_POOL, in, g->inputs.n, out, &d))
		fail_msg("%s: %s in\n%s", d.stage, d.text, text);
	*n = g->outputs.n;
	compiled_free(&c);
}

/* Both texts give the same bits (NaN equal to NaN). */
static void expect_same(const char *one, enum compiled_form of_one, const char *other)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_tensor x[CASE_MAX], y[CASE_MAX];
	uint32_t n, m;
	run(a, one, of_one, 77, x, &n);
	run(a, other, COMPILED_FUSED, 77, y, &m);
	assert_int_equal(n, m);
	for (uint32_t k = 0; k < n; k++) {
		struct stx_compare c = { 0 };
		struct stx_diag d = { 0 };
		if (stx_ref_compare(&x[k], &y[k], &c, &d))
			fail_msg("output %u: %s\n%s---\n%s", k, d.text, one, other);
	}
	compiled_free_outputs(x, n);
	compiled_free_outputs(y, n);
	stx_arena_free(a);
}

/* ---- SE-04 ---- */

/* Every name stored, against everything inlined. */
static void test_semantics_inlining_and_realising_keep_every_bit(void **state)
{
	(void)state;
	static const char chain[] =
		"%x : f32[7,33] = placeholder()\n%y : f32[33] = placeholder()\n"
		"%a = mul.Tensor(%x, %y)\n%b = sub.Tensor(%a, %y)\n%c = exp.default(%b)\n"
		"%d = add.Scalar(%c, 1)\n%e = div.Tensor(%a, %d)\n%f = maximum.default(%e, %x)\n"
		"%g = _to_copy.default(%f, dtype=bf16)\n%h = mul.Tensor(%g, %x)\n"
		"%m = amax.default(%h, [1], True)\n%o = sub.Tensor(%h, %m)\nreturn (%o, %e)\n";
	expect_same(chain, COMPILED_UNFUSED, chain);
}

/* ---- SE-07 ---- */

static void test_semantics_maps_pass_through_views(void **state)
{
	(void)state;
	static const struct {
		const char *view;
	} views[] = {
		{ "permute.default(%v, [2, 0, 1])" },    { "slice.Tensor(%v, 2, 1, 9, 3)" },
		{ "flip.default(%v, [0, 2])" },          { "view.default(%v, [6, 20])" },
		{ "view.default(%v, [5, 24])" },         { "select.int(%v, 1, 2)" },
		{ "diagonal.default(%v, 1, 0, 2)" },     { "unfold.default(%v, 2, 4, 2)" },
		{ "expand.default(%v, [2, 4, 3, 10])" }, { "unsqueeze.default(%v, 1)" },
	};
	for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
		char before[600], after[600];
		/* map_g(view(map_f(x))) and map_{g.f}(view(x)) */
		snprintf(before, sizeof before,
			 "%%x : f32[4,3,10] = placeholder()\n%%v = tanh.default(%%x)\n%%w = %s\n"
			 "%%r = mul.Scalar(%%w, 0.3)\nreturn (%%r,)\n",
			 views[i].view);
		snprintf(after, sizeof after,
			 "%%v : f32[4,3,10] = placeholder()\n%%w = %s\n%%t = tanh.default(%%w)\n"
			 "%%r = mul.Scalar(%%t, 0.3)\nreturn (%%r,)\n",
			 views[i].view);
		expect_same(before, COMPILED_FUSED, after);
		expect_same(before, COMPILED_UNFUSED, after);
	}
}

/* ---- SE-08 ---- */

static void test_semantics_equal_and_dead_nodes_go_without_a_bit(void **state)
{
	(void)state;
	static const char repeated[] =
		"%x : f32[40] = placeholder()\n%y : f32[40] = placeholder()\n"
		"%a = add.Tensor(%x, %y)\n%e = exp.default(%a)\n%s = sum.dim_IntList(%e, [0])\n"
		"%b = add.Tensor(%y, %x)\n%f = exp.default(%b)\n%t = sum.dim_IntList(%f, [0])\n"
		"%dead = log.default(%b)\n%more = div.Tensor(%dead, %dead)\n"
		"%r = div.Tensor(%e, %t)\n%q = div.Tensor(%f, %s)\nreturn (%r, %q)\n";
	static const char once[] = "%x : f32[40] = placeholder()\n%y : f32[40] = placeholder()\n"
				   "%a = add.Tensor(%x, %y)\n%e = exp.default(%a)\n"
				   "%s = sum.dim_IntList(%e, [0])\n%r = div.Tensor(%e, %s)\n"
				   "return (%r, %r)\n";
	expect_same(repeated, COMPILED_FUSED, once);
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = case_parse(a, repeated);
	struct stx_diag d = { 0 };
	assert_int_equal(stx_graph_simplify(&g, STX_SIMPLIFY_STRICT, &d), 0);
	assert_int_equal(g->nodes.n, 2 + 4);
	stx_arena_free(a);
}

/* ---- DF-09 ---- */

/* A node whose evaluation would raise and whose result nobody uses may go: the graph then has a
 * result, which is that of the graph without the node. Used, it raises. */
static void test_semantics_unused_nodes_that_would_raise_are_deleted(void **state)
{
	(void)state;
	static const char *const uses[] = {
		"%x : f32[4] = placeholder()\n%i : i64[1] = placeholder()\n"
		"%a = neg.default(%x)\nreturn (%a,)\n",
		"%x : f32[4] = placeholder()\n%i : i64[1] = placeholder()\n"
		"%d = index_select.default(%x, 0, %i)\n%e = exp.default(%d)\n"
		"%a = neg.default(%x)\nreturn (%a,)\n",
		"%x : f32[4] = placeholder()\n%i : i64[1] = placeholder()\n"
		"%d = index_select.default(%x, 0, %i)\n%y = neg.default(%x)\n"
		"%a = add.Tensor(%y, %d)\nreturn (%a,)\n",
	};
	float x[4] = { 1, 2, 3, 4 };
	int64_t i[1] = { 99 };
	struct stx_tensor in[2] = {
		{ .data = x, .dtype = STX_F32, .rank = 1, .sizes = { 4 }, .strides = { 1 } },
		{ .data = i, .dtype = STX_I64, .rank = 1, .sizes = { 1 }, .strides = { 1 } }
	};
	for (int k = 0; k < 3; k++)
		for (int form = COMPILED_FUSED; form <= COMPILED_UNFUSED; form++) {
			struct compiled c;
			struct stx_tensor out[1];
			struct stx_diag d = { 0 };
			assert_int_equal(compiled_build(uses[k], compiled_targets()[0],
							(enum compiled_form)form, &c, &d),
					 0);
			int e = compiled_run(&c, COMPILED_SERIAL, in, 2, out, &d);
			assert_int_equal(e, k < 2 ? 0 : STX_E_BOUNDS);
			for (int j = 0; !e && j < 4; j++)
				assert_true(((float *)out[0].data)[j] == -x[j]);
			if (!e)
				compiled_free_outputs(out, 1);
			compiled_free(&c);
		}
}

/* ---- SE-10 ---- */

/* Other orders and segments of a sum: within the bound of the exact sum, not equal to each other.
 */
static void test_semantics_orders_of_a_sum_keep_the_real_number_only(void **state)
{
	(void)state;
	static const char orders[] =
		"%x : f32[4096] = placeholder()\n%s = sum.dim_IntList(%x, [0])\n"
		"%v = view.default(%x, [64, 64])\n%p = permute.default(%v, [1, 0])\n"
		"%w = view.default(%p, [4096])\n%t = sum.dim_IntList(%w, [0])\n"
		"%seg = sum.dim_IntList(%v, [1])\n%u = sum.dim_IntList(%seg, [0])\n"
		"%z = abs.default(%x)\n%size = sum.dim_IntList(%z, [0])\n"
		"return (%s, %t, %u, %size)\n";
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = case_parse(a, orders);
	struct compiled c;
	struct stx_diag d = { 0 };
	int differ = 0;
	if (compiled_build(orders, compiled_targets()[0], COMPILED_FUSED, &c, &d))
		fail_msg("%s", d.text);
	for (uint64_t seed = 1; seed <= 20; seed++) {
		double v[4096];
		uint64_t s = seed * 0x9e3779b97f4a7c15u;
		struct stx_tensor in, got[4], want[4];
		for (int i = 0; i < 4096; i++)
			v[i] = ldexp((double)(gen_next(&s) >> 40) - 0x1p23,
				     (int)(gen_next(&s) >> 60) - 30);
		case_shape(g, &g->inputs.at[0], &in);
		case_fill(a, &in, (struct values){ v, 4096 }, 0);
		assert_int_equal(compiled_run(&c, COMPILED_SERIAL, &in, 1, got, &d), 0);
		assert_int_equal(stx_ref_evaluate(g, &in, 1, want, 0, &d), 0);
		/* 64 lanes of 64 in sequence, then pairwise: n/k - 1 + log2 k */
		double size = *(float *)want[3].data,
		       bound = stx_ref_sum_bound(STX_F32, 63 + 6, size);
		for (int k = 0; k < 3; k++) {
			float x = *(float *)got[k].data, y = *(float *)want[0].data;
			assert_true(fabs((double)x - (double)y) <= bound);
			differ += x != *(float *)got[0].data;
		}
		compiled_free_outputs(got, 4);
		compiled_free_outputs(want, 4);
	}
	assert_true(differ > 0);
	compiled_free(&c);
	stx_arena_free(a);
}

/* ---- SE-13, SE-14 ---- */

static enum pass_class class_of(const char *name)
{
	for (size_t i = 0; i < stx__npasses; i++)
		if (!strcmp(stx__passes[i].name, name))
			return stx__passes[i].class;
	fail_msg("no pass %s", name);
	return NONE;
}

static stx_err canonical(struct stx_graph **g, struct stx_diag *d)
{
	return stx_graph_canonical(*g, (*g)->arena, g, d);
}

static stx_err simplify(struct stx_graph **g, struct stx_diag *d)
{
	return stx_graph_simplify(g, STX_SIMPLIFY_STRICT, d);
}

/* The harness's choice: exact for class BIT, RD-12's tolerance for TOL. */
static struct stx_compare tolerance(enum pass_class class)
{
	return class == TOL ? (struct stx_compare){ .rtol = 1e-5, .atol = 1e-5 }
			    : (struct stx_compare){ 0 };
}

static void test_semantics_graph_passes_are_of_class_bit_and_keep_every_bit(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		stx_err (*fn)(struct stx_graph **, struct stx_diag *);
	} rewrites[] = { { "basis", stx_graph_decompose_to_basis },
			 { "canonical", canonical },
			 { "simplify", simplify },
			 { "primitives", stx_graph_decompose_to_primitives } };
	static const char text[] =
		"%x : f32[6,10] = placeholder()\n%y : bf16[10] = placeholder()\n"
		"%a = add.Tensor(%x, %y)\n%b = hardswish.default(%a)\n%c = gelu.default(%b)\n"
		"%d = rsub.Scalar(%c, 1)\n%e = mul.Scalar(%d, 1)\n%f = t.default(%e)\n"
		"%g = amax.default(%f, [0])\n%h = fmod.Scalar(%b, 0.7)\n%i = silu.default(%y)\n"
		"return (%e, %g, %h, %i)\n";
	/* what only holds over the reals appears in lowering and code generation alone */
	size_t lower = 0;
	while (strcmp(stx__passes[lower].name, "lower") != 0)
		assert_true(++lower < stx__npasses);
	for (size_t i = 0; i < lower; i++)
		assert_int_not_equal(stx__passes[i].class, TOL);
	assert_int_equal(class_of("schedule"), TOL);

	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = case_parse(a, text);
	struct stx_tensor in[CASE_MAX], before[CASE_MAX], after[CASE_MAX];
	struct stx_diag d = { 0 };
	fill_inputs(a, g, in, 5, 1);
	for (size_t i = 0; i < sizeof rewrites / sizeof *rewrites; i++) {
		assert_int_equal(stx_ref_evaluate(g, in, 2, before, 0, &d), 0);
		if (rewrites[i].fn(&g, &d) || stx_graph_verify(g, &d))
			fail_msg("%s: %s", rewrites[i].name, d.text);
		assert_int_equal(stx_ref_evaluate(g, in, 2, after, 0, &d), 0);
		for (uint32_t k = 0; k < g->outputs.n; k++) {
			struct stx_compare c = tolerance(class_of(rewrites[i].name));
			if (stx_ref_compare(&after[k], &before[k], &c, &d))
				fail_msg("%s, output %u: %s", rewrites[i].name, k, d.text);
		}
		compiled_free_outputs(before, g->outputs.n);
		compiled_free_outputs(after, g->outputs.n);
	}
	stx_arena_free(a);
}

/* ---- DF-05 ---- */

static void test_semantics_no_operator_mutates_and_names_are_bound_once(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	for (int op = 0; op < STX_OP_COUNT; op++) { /* add_.Tensor and the like: no row */
		const char *base = stx_op_info((enum stx_op)op)->base;
		assert_int_not_equal(base[strlen(base) - 1], '_');
		assert_null(strstr(stx_op_info((enum stx_op)op)->schema, "out="));
	}
	const char *e =
		gen_error(a, "%x : f32[2] = placeholder()\n%x = neg.default(%x)\nreturn (%x,)\n");
	assert_non_null(e);
	assert_non_null(strstr(e, "x"));
	static const char in_place[] = "%x : f32[2] = placeholder()\n"
				       "%y = add_.Tensor(%x, %x)\nreturn (%y,)\n";
	struct stx_graph *mutates;
	struct stx_diag said = { 0 };
	assert_int_equal(stx_graph_parse(a, in_place, strlen(in_place), &mutates, &said), 0);
	assert_int_equal(stx_graph_verify(mutates, &said), STX_E_INVALID);
	assert_non_null(strstr(said.text, "in place"));
	assert_int_equal(stx_graph_functionalise(mutates, &said), 0);
	assert_int_equal(stx_graph_verify(mutates, &said), 0);
	assert_string_equal(stx_op_info(mutates->nodes.at[1]->op)->overload, "add.Tensor");
	assert_int_equal(mutates->nodes.at[1]->is_in_place, 0);
	uint64_t seed = 55;
	for (int i = 0; i < 30; i++) {
		struct stx_graph *g = gen_random(a, &seed, 20);
		struct stx_diag d = { 0 };
		assert_int_equal(stx_graph_decompose_to_basis(&g, &d), 0);
		assert_int_equal(stx_graph_verify_basis(g, &d), 0); /* names are unique */
	}
	stx_arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_semantics_inlining_and_realising_keep_every_bit),
		cmocka_unit_test(test_semantics_maps_pass_through_views),
		cmocka_unit_test(test_semantics_equal_and_dead_nodes_go_without_a_bit),
		cmocka_unit_test(test_semantics_unused_nodes_that_would_raise_are_deleted),
		cmocka_unit_test(test_semantics_orders_of_a_sum_keep_the_real_number_only),
		cmocka_unit_test(test_semantics_graph_passes_are_of_class_bit_and_keep_every_bit),
		cmocka_unit_test(test_semantics_no_operator_mutates_and_names_are_bound_once),
	};
	return cmocka_run_group_tests(tests, case_setup, NULL);
}
