/* test_strict_and_cache.c: OG-09, OG-10, ST-01, ST-02, ST-04, CA-01, CA-05, CA-06 on the real
 * compiler. The private worker is this program again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

/* compile.c is compiled into this program so that an operator can be taken away. */
static const char *without_rule;
#define STX_LOWER_WITHOUT without_rule
#include "compile.c"

#include "key.h"
#include "ops.h"
#include "stax.h"
#include "wire.h"
#include "worker.h"

static struct stax_client *client;
static struct stx_compiler *compiler;

static const char softmax[] = "%x : f32[8,16] = placeholder()\n"
			      "%m = amax.default(%x, [-1], True)\n"
			      "%s = sub.Tensor(%x, %m)\n"
			      "%e = exp.default(%s)\n"
			      "%t = sum.dim_IntList(%e, [-1], True)\n"
			      "%y = div.Tensor(%e, %t)\n"
			      "return (%y,)\n";

/* ---- the compiler itself, with an operator taken away ---- */

struct built {
	struct stx_plan_result plan;
	struct stx_bytes so;
};

static stx_err build(const char *text, const char *without, int fallback, struct built *b,
		     struct stx_diag *d)
{
	struct stx_source s = { .format = 2, .body = { (const uint8_t *)text, strlen(text) } };
	struct stx_compile_options o = { .target = "cpu:x86-64-v2",
					 .allow_fallback = fallback != 0 };
	struct stx_key_result key = { 0 };
	struct stx_emit_result object[16] = { { .block = { 0 } } };
	struct stx_span spans[16];
	memset(b, 0, sizeof *b);
	without_rule = without;
	stx_err e = stx_compile_key(compiler, &s, &o, &key, d);
	struct stx_span graph = { key.graph.at, key.graph.n };
	if (!e)
		e = stx_compile_plan(compiler, graph, &o, &b->plan, d);
	for (uint32_t i = 0; !e && i < b->plan.nkernels; i++) {
		const struct stx_bytes *ir = &b->plan.kernels[i].ir;
		e = stx_compile_emit(compiler, (struct stx_span){ ir->at, ir->n }, &o, &object[i],
				     d);
		spans[i] = (struct stx_span){ object[i].object.at, object[i].object.n };
	}
	if (!e)
		e = stx_compile_link(compiler, (struct stx_span){ b->plan.plan.at, b->plan.plan.n },
				     spans, b->plan.nkernels, &b->so, d);
	for (uint32_t i = 0; i < b->plan.nkernels; i++)
		stx_emit_result_free(&object[i]);
	stx_key_result_free(&key);
	return e;
}

static void free_built(struct built *b)
{
	stx_plan_result_free(&b->plan);
	stx_bytes_free(&b->so);
}

static struct stx_tensor matrix(float *data)
{
	return (struct stx_tensor){
		.data = data, .dtype = STX_F32, .rank = 2, .sizes = { 8, 16 }, .strides = { 16, 1 }
	};
}

static void fill(float x[128])
{
	for (int i = 0; i < 128; i++)
		x[i] = (float)((i * 37) % 101) / 25 - 2;
}

/* Loads the bytes as a file and runs them on in, y gets the result. */
static struct stax_artifact *load_bytes(const struct stx_bytes *so)
{
	char path[] = "/tmp/stax-conf-XXXXXX";
	int fd = mkstemp(path);
	struct stax_artifact *a;
	struct stax_error err;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, so->at, so->n), (ssize_t)so->n);
	close(fd);
	if (stax_load_file(path, &a, &err))
		fail_msg("%s", err.text);
	unlink(path);
	return a;
}

/* ST-01: a region that cannot be code-generated is an error with the reason and the operator. */
static void test_strict_operator_without_code_is_an_error_that_names_it(void **state)
{
	(void)state;
	struct built b;
	struct stx_diag d = { 0 };
	assert_int_equal(build(softmax, "exp.default", 0, &b, &d), STX_E_UNSUPPORTED);
	assert_non_null(strstr(d.text, "exp.default"));
	assert_non_null(strstr(d.text, "no lowering rule"));
	assert_true(d.node[0] != 0);
	assert_int_equal(b.plan.nkernels, 0);
	free_built(&b);
	/* With the operator the same graph compiles, and nothing is said of fallbacks. */
	memset(&d, 0, sizeof d);
	assert_int_equal(build(softmax, NULL, 0, &b, &d), 0);
	for (uint32_t i = 0; i < b.plan.report.n; i++)
		assert_null(strstr(b.plan.report.at[i], "fallback"));
	free_built(&b);
}

/* ST-02: not strict, it is interpreted, with the same results and guards; LO-04. */
static void test_fallback_gives_the_results_of_the_compiled_graph(void **state)
{
	(void)state;
	struct built strict, loose;
	struct stx_diag d = { 0 };
	float x[128], want[128], got[128];
	struct stx_tensor in = matrix(x), out = matrix(want);
	struct stax_error err;
	fill(x);
	assert_int_equal(build(softmax, NULL, 0, &strict, &d), 0);
	if (build(softmax, "exp.default", 1, &loose, &d))
		fail_msg("%s", d.text);
	assert_int_equal(loose.plan.nkernels, 0);
	struct stax_artifact *a = load_bytes(&strict.so), *b = load_bytes(&loose.so);
	assert_int_equal(stax_run(a, &in, 1, &out, 1, NULL, &err), 0);
	out = matrix(got);
	for (int i = 0; i < 2; i++) { /* the worker is kept */
		memset(got, 0xff, sizeof got);
		if (stax_run(b, &in, 1, &out, 1, NULL, &err))
			fail_msg("%s", err.text);
		for (int k = 0; k < 128; k++)
			assert_true(got[k] - want[k] < 1e-6f && want[k] - got[k] < 1e-6f);
	}
	/* Guards: what one refuses the other does. */
	struct stx_tensor wrong = in;
	wrong.sizes[0] = 7;
	assert_int_equal(stax_run(a, &wrong, 1, &out, 1, NULL, &err), STX_E_MISMATCH);
	assert_int_equal(stax_run(b, &wrong, 1, &out, 1, NULL, &err), STX_E_MISMATCH);
	/* An output of other strides is written through them. */
	float wide[256];
	memset(wide, 0, sizeof wide);
	out = matrix(wide);
	out.strides[0] = 32;
	out.strides[1] = 2;
	assert_int_equal(stax_run(b, &in, 1, &out, 1, NULL, &err), 0);
	for (int k = 0; k < 128; k++)
		assert_true(wide[2 * k] == got[k] && wide[2 * k + 1] == 0);
	stax_artifact_free(a);
	stax_artifact_free(b);
	free_built(&strict);
	free_built(&loose);
}

/* An input that is written holds the result, also when the graph is interpreted. */
static void test_fallback_writes_into_inputs(void **state)
{
	(void)state;
	static const char text[] = "%x : i32[3,4] = placeholder(strides=[1,3])\n"
				   "%t = transpose.int(%x, 0, 1)\n"
				   "%m = mul_.Tensor(%t, %t)\n"
				   "%s = sum.default(%x)\n"
				   "return (%s,)\n";
	for (int fallback = 0; fallback < 2; fallback++) {
		struct built b;
		struct stx_diag d = { 0 };
		struct stax_error err;
		int32_t x[12];
		int64_t sum = 0;
		struct stx_tensor in = { .data = x,
					 .dtype = STX_I32,
					 .rank = 2,
					 .sizes = { 3, 4 },
					 .strides = { 1, 3 } };
		struct stx_tensor out[2] = { 0 };
		if (build(text, fallback ? "mul.Tensor" : NULL, fallback, &b, &d))
			fail_msg("%s", d.text);
		assert_int_equal(b.plan.nkernels == 0, fallback);
		for (int i = 0; i < 12; i++)
			x[i] = i;
		struct stax_artifact *a = load_bytes(&b.so);
		assert_int_equal(stax_query(a, &in, 1, out, NULL, &err), 0);
		out[0].data = &sum;
		if (stax_run(a, &in, 1, out, 2, NULL, &err))
			fail_msg("%s", err.text);
		assert_ptr_equal(out[1].data, x);
		assert_int_equal(sum, 506);
		for (int i = 0; i < 12; i++)
			assert_int_equal(x[i], i * i);
		stax_artifact_free(a);
		free_built(&b);
	}
}

/* Integers bit for bit, an input laid out otherwise, two results. */
static void test_fallback_reads_strided_inputs_and_gives_every_result(void **state)
{
	(void)state;
	static const char text[] = "%x : i32[3,4] = placeholder(strides=[1,3])\n"
				   "%a = add.Tensor(%x, %x)\n"
				   "%m = mul.Tensor(%a, %a)\n"
				   "return (%m, %a,)\n";
	struct built b;
	struct stx_diag d = { 0 };
	struct stax_error err;
	if (build(text, "mul.Tensor", 1, &b, &d))
		fail_msg("%s", d.text);
	int32_t x[12], m[12], s[12];
	struct stx_tensor in = {
		.data = x, .dtype = STX_I32, .rank = 2, .sizes = { 3, 4 }, .strides = { 1, 3 }
	};
	struct stx_tensor out[2] = { in, in };
	out[0].strides[0] = out[1].strides[0] = 4;
	out[0].strides[1] = out[1].strides[1] = 1;
	out[0].data = m;
	out[1].data = s;
	for (int i = 0; i < 12; i++)
		x[i] = i * 1000003 - 5;
	struct stax_artifact *a = load_bytes(&b.so);
	if (stax_run(a, &in, 1, out, 2, NULL, &err))
		fail_msg("%s", err.text);
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 4; k++) {
			int32_t twice = 2 * x[i + 3 * k];
			assert_int_equal(s[4 * i + k], twice);
			assert_int_equal(m[4 * i + k],
					 (int32_t)((uint32_t)twice * (uint32_t)twice));
		}
	stax_artifact_free(a);
	free_built(&b);
}

/* ST-04: fallbacks are listed in the compile report. */
static void test_fallback_is_listed_in_the_report(void **state)
{
	(void)state;
	struct built b;
	struct stx_diag d = { 0 };
	int listed = 0;
	assert_int_equal(build(softmax, "exp.default", 1, &b, &d), 0);
	for (uint32_t i = 0; i < b.plan.report.n; i++)
		listed += !strncmp(b.plan.report.at[i], "fallback: %", 11) &&
			  strstr(b.plan.report.at[i], "exp.default has no lowering rule") &&
			  strstr(b.plan.report.at[i], "interpreted");
	assert_int_equal(listed, 1);
	free_built(&b);
	/* Allowed but not needed: said as well. */
	assert_int_equal(build(softmax, NULL, 1, &b, &d), 0);
	assert_int_equal(b.plan.nkernels, 1);
	assert_string_equal(b.plan.report.at[b.plan.report.n - 1],
			    "allow_fallback: nothing falls back");
	free_built(&b);
}

/* A graph that is wrong is wrong with fallbacks too. */
static void test_fallback_does_not_hide_an_invalid_graph(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"%x : f32[2] = placeholder()\n%y = nosuch.default(%x)\n"
		"return (%y,)\n",
		"%x : f32[2] = placeholder()\n%y = view.default(%x, [3])\n"
		"return (%y,)\n"
	};
	for (unsigned i = 0; i < 2; i++) {
		struct built b;
		struct stx_diag d = { 0 };
		assert_true(build(bad[i], NULL, 1, &b, &d) != 0);
		free_built(&b);
	}
}

/* A value that reads more buffers than a kernel takes is cut, not refused. */
static void test_strict_sum_of_thousands_of_inputs_has_code(void **state)
{
	(void)state;
	enum { N = 6000 };
	struct stx_bytes text = { 0 };
	struct stx_compile_options o = { .target = "cpu:x86-64-v2" };
	struct stx_key_result key;
	struct stx_plan_result plan;
	struct stx_diag d = { 0 };
	for (int i = 0; i < N; i++)
		stx_bytes_printf(&text, "%%x%d : f32[4] = placeholder()\n", i);
	stx_bytes_puts(&text, "%s1 = add.Tensor(%x0, %x1)\n");
	for (int i = 2; i < N; i++)
		stx_bytes_printf(&text, "%%s%d = add.Tensor(%%s%d, %%x%d)\n", i, i - 1, i);
	stx_bytes_printf(&text, "return (%%s%d,)\n", N - 1);
	struct stx_source s = { .format = 2, .body = { text.at, text.n } };
	assert_int_equal(stx_compile_key(compiler, &s, &o, &key, &d), 0);
	if (stx_compile_plan(compiler, (struct stx_span){ key.graph.at, key.graph.n }, &o, &plan,
			     &d))
		fail_msg("%s: %s", d.node, d.text);
	assert_true(plan.nkernels >= 2 && plan.nkernels < 40);
	stx_plan_result_free(&plan);
	stx_key_result_free(&key);
	stx_bytes_free(&text);
}

/* A graph that KEY has let pass and a later verifier refuses: the compiler's own fault, not the
 * graph's. */
static void test_strict_verifier_after_key_is_an_internal_error(void **state)
{
	(void)state;
	static const char text[] = "%x : f32[2] = placeholder()\n%y : f32[3] = relu.default(%x)\n"
				   "return (%y,)\n";
	struct stx_compile_options o = { .target = "cpu:x86-64-v2" };
	struct stx_plan_result plan;
	struct stx_diag d = { 0 };
	struct stx_span graph = { (const uint8_t *)text, sizeof text - 1 };
	assert_int_equal(stx_compile_plan(compiler, graph, &o, &plan, &d), STX_E_INTERNAL);
	assert_int_equal(d.code, STX_E_INTERNAL);
	stx_plan_result_free(&plan);
}

/* OG-10: every operator is looked up by its overload, and taking any one away gives an error by
 * name or, if allowed, a fallback; never a crash. */
static void test_lookup_by_overload_and_a_missing_rule_falls_back(void **state)
{
	(void)state;
	for (int op = 0; op < STX_OP_COUNT; op++) {
		const struct stx_op_info *info = stx_op_info((enum stx_op)op);
		int found = stx_op_find(info->overload, strlen(info->overload));
		assert_int_equal(found, op);
	}
	static const char *const graphs[][2] = {
		{ "exp.default", "exp.default(%x)" },
		{ "add.Tensor", "add.Tensor(%x, %x)" },
		{ "sum.dim_IntList", "sum.dim_IntList(%x, [1])" },
		{ "permute.default", "permute.default(%x, [1, 0])" },
		{ "cat.default", "cat.default([%x, %x], 1)" },
		{ "mm.default", "mm.default(%x, %x)" },
	};
	for (unsigned i = 0; i < sizeof graphs / sizeof *graphs; i++) {
		char text[256];
		struct built b;
		struct stx_diag d = { 0 };
		snprintf(text, sizeof text,
			 "%%x : f32[6,6] = placeholder()\n%%y = %s\nreturn (%%y,)\n", graphs[i][1]);
		assert_int_equal(build(text, graphs[i][0], 0, &b, &d), STX_E_UNSUPPORTED);
		assert_non_null(strstr(d.text, graphs[i][0]));
		free_built(&b);
		memset(&d, 0, sizeof d);
		assert_int_equal(build(text, graphs[i][0], 1, &b, &d), 0);
		assert_int_equal(b.plan.nkernels, 0);
		free_built(&b);
	}
}

/* ---- keys ---- */

static struct stax_answer *ask(const char *text, const char *target, int fast, int recache)
{
	struct stax_request q = { .format = STAX_TEXT,
				  .graph = text,
				  .graph_bytes = strlen(text),
				  .target = target,
				  .fast = fast,
				  .recache = recache };
	struct stax_answer *a;
	struct stax_error err;
	if (stax_compile(client, &q, &a, &err))
		fail_msg("%s: %s", text, err.text);
	return a;
}

/* 1: both have one key, and then the second is a hit. */
static int same_key(const char *x, const char *y)
{
	struct stax_answer *a = ask(x, "cpu:x86-64-v2", 0, 0), *b = ask(y, "cpu:x86-64-v2", 0, 0);
	int same = !strcmp(a->key, b->key);
	if (same)
		assert_true(b->hit);
	stax_answer_free(a);
	stax_answer_free(b);
	return same;
}

/* CA-01: the key covers everything that affects the artifact; CA-05: dtype, target, strides stay in
 * it. */
static void test_cache_key_covers_what_affects_the_artifact(void **state)
{
	(void)state;
	static const char base[] = "%x : f32[4,8] = placeholder()\n%y = mul.Scalar(%x, 2)\n"
				   "%z = add.Tensor(%y, %x)\nreturn (%z,)\n";
	static const char *const same[] = {
		"%first : f32[4,8] = placeholder()\n%two = mul.Scalar(%first, 2)\n"
		"%last = add.Tensor(%two, %first)\nreturn (%last,)\n", /* other names */
		"%x : f32[4,8] = placeholder()\n%y = mul.Scalar(%x, 2.0)\n"
		"%z = add.Tensor(%y, %x, alpha=1)\nreturn (%z,)\n", /* defaults written */
	};
	static const char *const other[] = {
		/* metadata: size, dtype, strides */
		"%x : f32[4,9] = placeholder()\n%y = mul.Scalar(%x, 2)\n"
		"%z = add.Tensor(%y, %x)\nreturn (%z,)\n",
		"%x : f64[4,8] = placeholder()\n%y = mul.Scalar(%x, 2)\n"
		"%z = add.Tensor(%y, %x)\nreturn (%z,)\n",
		"%x : f32[4,8] = placeholder(strides=[1,4])\n%y = mul.Scalar(%x, 2)\n"
		"%z = add.Tensor(%y, %x)\nreturn (%z,)\n",
		/* graph: operator, constant, what is returned */
		"%x : f32[4,8] = placeholder()\n%y = mul.Scalar(%x, 2)\n"
		"%z = sub.Tensor(%y, %x)\nreturn (%z,)\n",
		"%x : f32[4,8] = placeholder()\n%y = mul.Scalar(%x, 3)\n"
		"%z = add.Tensor(%y, %x)\nreturn (%z,)\n",
		"%x : f32[4,8] = placeholder()\n%y = mul.Scalar(%x, 2)\n"
		"%z = add.Tensor(%y, %x)\nreturn (%z, %y,)\n",
	};
	for (unsigned i = 0; i < sizeof same / sizeof *same; i++)
		assert_true(same_key(base, same[i]));
	for (unsigned i = 0; i < sizeof other / sizeof *other; i++)
		if (same_key(base, other[i]))
			fail_msg("one key for\n%s%s", base, other[i]);
	/* Options and target. */
	struct stax_answer *a = ask(base, "cpu:x86-64-v2", 0, 0),
			   *b = ask(base, "cpu:x86-64-v3", 0, 0),
			   *c = ask(base, "cpu:x86-64-v2", 1, 0);
	assert_true(a->hit && !b->hit && !c->hit);
	assert_string_not_equal(a->key, b->key);
	assert_string_not_equal(a->key, c->key);
	stax_answer_free(a);
	stax_answer_free(b);
	stax_answer_free(c);
	/* Compiler version. */
	struct stx_digest graph = stx_digest_of("g", 1), one = stx_digest_of("1", 1),
			  two = stx_digest_of("2", 1);
	struct stx_digest k1 = stx_key_artifact(&graph, "t", 0, &one),
			  k2 = stx_key_artifact(&graph, "t", 0, &two),
			  k3 = stx_key_artifact(&graph, "t", 0, &one);
	assert_false(stx_digest_eq(&k1, &k2));
	assert_true(stx_digest_eq(&k1, &k3));
}

/* CA-06: a hit returns an artifact whose results equal a fresh compile, bit for bit. */
static void test_cache_hit_equals_a_fresh_compile_bit_for_bit(void **state)
{
	(void)state;
	float x[128], first[128], y[128];
	struct stx_tensor in = matrix(x);
	fill(x);
	x[3] = -0.0f;
	x[77] = __builtin_inff();
	for (int i = 0; i < 3; i++) { /* miss, hit, compiled again */
		struct stax_answer *a = ask(softmax, "cpu:x86-64-v2", 0, i == 2);
		struct stax_artifact *so;
		struct stax_error err;
		struct stx_tensor out = matrix(i ? y : first);
		assert_int_equal(a->hit, i == 1);
		if (stax_load(client, a, &so, &err))
			fail_msg("%s", err.text);
		assert_int_equal(stax_run(so, &in, 1, &out, 1, NULL, &err), 0);
		if (i)
			assert_memory_equal(y, first, sizeof y);
		stax_artifact_free(so);
		stax_answer_free(a);
	}
}

/* ---- metadata only ---- */

static void put_tag(struct stx_bytes *b, uint32_t number, struct stx_span s)
{
	stx_wire_put_bytes(b, number, s);
}

static struct stx_span text_of(const char *s)
{
	return (struct stx_span){ (const uint8_t *)s, strlen(s) };
}

/* A TypeProto of f32[rows, cols] in a ValueInfoProto. */
static void put_value_info(struct stx_bytes *graph, uint32_t number, const char *name,
			   uint64_t rows, uint64_t cols)
{
	struct stx_bytes shape = { 0 }, tensor = { 0 }, type = { 0 }, info = { 0 };
	const uint64_t sizes[2] = { rows, cols };
	for (int i = 0; i < 2; i++) {
		struct stx_bytes dim = { 0 };
		stx_wire_put_uint(&dim, 1, sizes[i]);
		put_tag(&shape, 1, (struct stx_span){ dim.at, dim.n });
		stx_bytes_free(&dim);
	}
	stx_wire_put_uint(&tensor, 1, 1);
	put_tag(&tensor, 2, (struct stx_span){ shape.at, shape.n });
	put_tag(&type, 1, (struct stx_span){ tensor.at, tensor.n });
	put_tag(&info, 1, text_of(name));
	put_tag(&info, 2, (struct stx_span){ type.at, type.n });
	put_tag(graph, number, (struct stx_span){ info.at, info.n });
	stx_bytes_free(&shape);
	stx_bytes_free(&tensor);
	stx_bytes_free(&type);
	stx_bytes_free(&info);
}

/* y = MatMul(x, w), w an initialiser of 256 KiB. */
static struct stx_bytes model_with_weights(size_t *weights_at, size_t *weights_n)
{
	struct stx_bytes w = { 0 }, raw = { 0 }, node = { 0 }, graph = { 0 }, opset = { 0 },
			 m = { 0 };
	enum { N = 256 };
	*weights_n = N * N * 4;
	for (size_t i = 0; i < *weights_n; i++)
		stx_bytes_u8(&raw, 0xa5);
	stx_wire_put_uint(&w, 1, N);
	stx_wire_put_uint(&w, 1, N);
	stx_wire_put_uint(&w, 2, 1);
	put_tag(&w, 8, text_of("w"));
	put_tag(&w, 9, (struct stx_span){ raw.at, raw.n });
	put_tag(&node, 1, text_of("x"));
	put_tag(&node, 1, text_of("w"));
	put_tag(&node, 2, text_of("y"));
	put_tag(&node, 4, text_of("MatMul"));
	put_tag(&graph, 1, (struct stx_span){ node.at, node.n });
	put_tag(&graph, 2, text_of("g"));
	put_tag(&graph, 5, (struct stx_span){ w.at, w.n });
	put_value_info(&graph, 11, "x", 4, N);
	put_value_info(&graph, 12, "y", 4, N);
	stx_wire_put_uint(&opset, 2, 13);
	stx_wire_put_uint(&m, 1, 8);
	put_tag(&m, 7, (struct stx_span){ graph.at, graph.n });
	put_tag(&m, 8, (struct stx_span){ opset.at, opset.n });
	*weights_at = (size_t)((uint8_t *)memmem(m.at, m.n, raw.at, raw.n) - m.at);
	stx_bytes_free(&w);
	stx_bytes_free(&raw);
	stx_bytes_free(&node);
	stx_bytes_free(&graph);
	stx_bytes_free(&opset);
	return m;
}

/* OG-09: compiling never reads element data: the weights' pages cannot be read at all. */
static void test_compile_never_reads_the_data_of_parameters(void **state)
{
	(void)state;
	size_t at, n, page = (size_t)sysconf(_SC_PAGESIZE);
	struct stx_bytes m = model_with_weights(&at, &n);
	size_t bytes = (m.n + page - 1) / page * page;
	uint8_t *copy =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(copy != MAP_FAILED);
	memcpy(copy, m.at, m.n);
	size_t from = (at + page - 1) / page * page, to = (at + n) / page * page;
	assert_true(to - from > 50 * page);
	assert_int_equal(mprotect(copy + from, to - from, PROT_NONE), 0);
	struct stax_request q = {
		.format = STAX_ONNX, .graph = copy, .graph_bytes = m.n, .target = "cpu:x86-64-v2"
	};
	struct stax_answer *a;
	struct stax_artifact *so;
	struct stax_error err;
	if (stax_compile(client, &q, &a, &err))
		fail_msg("%s", err.text);
	assert_int_equal(a->ninputs, 2); /* the weights are a parameter */
	if (stax_load(client, a, &so, &err))
		fail_msg("%s", err.text);
	/* Shapes are asked for with inputs that cannot be read either. */
	struct stx_tensor in[2], out;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(stax_input(so, i, &in[i], NULL), 0);
		in[i].data = copy + from;
	}
	size_t workspace;
	assert_int_equal(stax_query(so, in, 2, &out, &workspace, &err), 0);
	assert_int_equal(out.sizes[0], 4);
	assert_int_equal(out.sizes[1], 256);
	stax_artifact_free(so);
	stax_answer_free(a);
	munmap(copy, bytes);
	stx_bytes_free(&m);
}

static int setup(void **state)
{
	struct stax_error err;
	struct stx_diag d = { 0 };
	(void)state;
	setenv("STAX_STAXD", "/proc/self/exe", 1);
	if (stax_connect("none", &client, &err) || stx_compiler_new(0, &compiler, &d)) {
		print_message("%s %s\n", err.text, d.text);
		return -1;
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	stax_client_free(client);
	stx_compiler_free(compiler);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--worker"))
		return stx_worker_main(argc - 2, argv + 2);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strict_operator_without_code_is_an_error_that_names_it),
		cmocka_unit_test(test_fallback_gives_the_results_of_the_compiled_graph),
		cmocka_unit_test(test_fallback_writes_into_inputs),
		cmocka_unit_test(test_fallback_reads_strided_inputs_and_gives_every_result),
		cmocka_unit_test(test_fallback_is_listed_in_the_report),
		cmocka_unit_test(test_fallback_does_not_hide_an_invalid_graph),
		cmocka_unit_test(test_strict_sum_of_thousands_of_inputs_has_code),
		cmocka_unit_test(test_strict_verifier_after_key_is_an_internal_error),
		cmocka_unit_test(test_lookup_by_overload_and_a_missing_rule_falls_back),
		cmocka_unit_test(test_cache_key_covers_what_affects_the_artifact),
		cmocka_unit_test(test_cache_hit_equals_a_fresh_compile_bit_for_bit),
		cmocka_unit_test(test_compile_never_reads_the_data_of_parameters),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
