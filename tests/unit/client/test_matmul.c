/* test_matmul.c: matrix products through cuBLASLt, without a GPU: a driver and a library that
 * compute on the host (tests/fake). Descriptors, layouts and fallback are compared with the oracle
 * over random shapes, types and strides; values are small whole numbers, so every order of
 * summation gives the same bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "call_case.h"
#include "cublaslt.h"

/* ---- tests ---- */

static const char *const types[] = { "f32", "f64", "f16", "bf16" };

/* Sizes whose product is enough for a call to be worth it. */
static void draw_sizes(int64_t *m, int64_t *n, int64_t *k, int64_t batch)
{
	do {
		*m = 1 + below(150);
		*n = 1 + below(150);
		*k = 1 + below(150);
		if (!below(4))
			*(below(2) ? m : n) = 1;
	} while (batch * *m * *n * *k < 1 << 18 || batch * *m * *n * *k > 1 << 20);
}

/* A matrix [rows, cols], or a batch of them, that lies in memory in one of several ways; its last
 * line defines %NAME. */
static void put_operand(struct stx_bytes *b, const char *name, const char *type, int64_t batch,
			int64_t rows, int64_t cols)
{
	char lead[32] = "";
	int first = batch > 1;
	if (first)
		snprintf(lead, sizeof lead, "%lld,", (long long)batch);
	switch (below(5)) {
	case 0: /* dense */
		stx_bytes_printf(b, "%%%s : %s[%s%lld,%lld] = placeholder()\n", name, type, lead,
				 (long long)rows, (long long)cols);
		break;
	case 1: /* the transpose is dense */
		stx_bytes_printf(b, "%%%s0 : %s[%s%lld,%lld] = placeholder()\n", name, type, lead,
				 (long long)cols, (long long)rows);
		stx_bytes_printf(b, "%%%s = transpose.int(%%%s0, -1, -2)\n", name, name);
		break;
	case 2: /* rows longer than the matrix, from its third column on */
		stx_bytes_printf(b, "%%%s0 : %s[%s%lld,%lld] = placeholder()\n", name, type, lead,
				 (long long)rows, (long long)cols + 5);
		stx_bytes_printf(b, "%%%s = slice.Tensor(%%%s0, -1, 2, %lld, 1)\n", name, name,
				 (long long)cols + 2);
		break;
	case 3: /* columns apart */
		if (first)
			stx_bytes_printf(
				b, "%%%s : %s[%s%lld,%lld] = placeholder(strides=[%lld,1,%lld])\n",
				name, type, lead, (long long)rows, (long long)cols,
				(long long)(cols * (rows + 3) + 7), (long long)rows + 3);
		else
			stx_bytes_printf(
				b, "%%%s : %s[%lld,%lld] = placeholder(strides=[1,%lld])\n", name,
				type, (long long)rows, (long long)cols, (long long)rows + 3);
		break;
	default: /* one matrix for all of the batch */
		stx_bytes_printf(b, "%%%s%s : %s[%lld,%lld] = placeholder()\n", name,
				 first ? "0" : "", type, (long long)rows, (long long)cols);
		if (first)
			stx_bytes_printf(b,
					 "%%%s1 = unsqueeze.default(%%%s0, 0)\n%%%s = "
					 "expand.default(%%%s1, [%lld, %lld, %lld])\n",
					 name, name, name, name, (long long)batch, (long long)rows,
					 (long long)cols);
		break;
	}
}

static void test_matmul_random_products_are_calls_and_agree_with_the_oracle(void **state)
{
	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	for (int i = 0; i < 120; i++) {
		struct stx_bytes b = { 0 };
		int64_t m, n, k, batch = i % 2 ? 2 + below(4) : 1;
		const char *type = types[below(4)];
		draw_sizes(&m, &n, &k, batch);
		put_operand(&b, "a", type, batch, m, k);
		put_operand(&b, "b", type, batch, k, n);
		stx_bytes_printf(&b, "%%y = %s.default(%%a, %%b)\nreturn (%%y,)\n",
				 batch > 1 ? "bmm" : "mm");
		struct counts c = check(stx_bytes_cstr(&b));
		assert_int_equal(c.calls, 1);
		assert_int_equal(c.launches, 0);
		stx_bytes_free(&b);
	}
	assert_int_equal(blas->alive, 0);
}

static void test_matmul_random_biases_agree_with_the_oracle(void **state)
{
	(void)state;
	int with = 0;
	for (int i = 0; i < 60; i++) {
		struct stx_bytes b = { 0 };
		int64_t m, n, k, batch = i % 3 ? 1 : 2 + below(4);
		const char *type = types[batch > 1 ? 0 : below(4)];
		draw_sizes(&m, &n, &k, batch);
		put_operand(&b, "a", type, batch, m, k);
		put_operand(&b, "b", type, batch, k, n);
		stx_bytes_printf(&b, "%%c : %s[%lld] = placeholder()\n", type, (long long)n);
		if (batch > 1)
			stx_bytes_puts(&b, "%p = bmm.default(%a, %b)\n"
					   "%y = add.Tensor(%p, %c)\nreturn (%y,)\n");
		else
			stx_bytes_puts(&b, "%y = addmm.default(%c, %a, %b)\nreturn (%y,)\n");
		struct counts c = check(stx_bytes_cstr(&b));
		assert_int_equal(c.calls, 1);
		assert_int_equal(c.launches, last_call()->bias == NULL);
		with += last_call()->bias != NULL;
		stx_bytes_free(&b);
	}
	assert_in_range(with, 25, 59);
	assert_int_equal(blas->alive, 0);
}

/* linear and addmm read halves as they are and sum in f32; what follows is a kernel. */
static void test_matmul_compositions_stay_narrow_in_memory(void **state)
{
	(void)state;
	struct counts c = check("%x : bf16[4,32,64] = placeholder()\n"
				"%w : bf16[96,64] = placeholder()\n"
				"%b : bf16[96] = placeholder()\n"
				"%v : bf16[64,96] = placeholder()\n"
				"%y = linear.default(%x, %w, %b)\n"
				"%r = relu.default(%y)\n"
				"%z = linear.default(%r, %v)\n"
				"return (%z,)\n");
	assert_int_equal(c.calls, 2);
	assert_int_equal(c.launches, 1);
	assert_int_equal(last_call()->a.type, 14); /* CUDA_R_16BF: the relu's result */
	assert_int_equal(last_call()->b.type, 14);
	c = check("%c : f16[40] = placeholder()\n%a : f16[70,100] = placeholder()\n"
		  "%b : f16[100,40] = placeholder()\n%y = addmm.default(%c, %a, %b)\n"
		  "return (%y,)\n");
	assert_int_equal(c.calls, 1);
	assert_int_equal(last_call()->a.type, 2); /* CUDA_R_16F */
	assert_int_equal(c.launches, 0);
	assert_int_equal(last_call()->d.type, 2); /* rounded once, after the sum with c */
	assert_non_null(last_call()->bias);
	c = check("%c : f64[3,40,50] = placeholder()\n%a : f64[3,40,60] = placeholder()\n"
		  "%b : f64[3,60,50] = placeholder()\n%p = bmm.default(%a, %b)\n"
		  "%y = add.Tensor(%c, %p)\nreturn (%y,)\n");
	assert_int_equal(c.calls, 1);
	assert_int_equal(last_call()->compute, 70); /* CUBLAS_COMPUTE_64F */
}

/* A bias that is added to the f32 sum before the one rounding is the call's; one that is added to
 * what was rounded, or is no row, is a kernel's. */
static void test_matmul_bias_of_the_sum_is_the_calls(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int bias, launches;
	} cases[] = {
		{ "%x : bf16[4,32,64] = placeholder()\n%w : bf16[96,64] = placeholder()\n"
		  "%b : bf16[96] = placeholder()\n%y = linear.default(%x, %w, %b)\n"
		  "return (%y,)\n",
		  1, 0 },
		{ "%x : f32[2,3,32,64] = placeholder()\n%w : f32[96,64] = placeholder()\n"
		  "%b : f32[96] = placeholder()\n%y = linear.default(%x, %w, %b)\n"
		  "return (%y,)\n",
		  1, 0 },
		{ "%x : f16[90,64] = placeholder()\n%w : f16[96,64] = placeholder()\n"
		  "%b0 : f16[100] = placeholder()\n%b = slice.Tensor(%b0, 0, 3, 99, 1)\n"
		  "%y = linear.default(%x, %w, %b)\nreturn (%y,)\n",
		  1, 0 },
		{ "%c : f32[96] = placeholder()\n%a : f32[3,40,60] = placeholder()\n"
		  "%b : f32[3,60,96] = placeholder()\n%p = bmm.default(%a, %b)\n"
		  "%y = add.Tensor(%p, %c)\nreturn (%y,)\n",
		  1, 0 },
		{ "%c : bf16[96] = placeholder()\n%a : bf16[70,60] = placeholder()\n"
		  "%b : bf16[60,96] = placeholder()\n%p = mm.default(%a, %b)\n"
		  "%y = add.Tensor(%p, %c)\nreturn (%y,)\n",
		  0, 1 },
		{ "%c : f32[70,1] = placeholder()\n%a : f32[70,60] = placeholder()\n"
		  "%b : f32[60,96] = placeholder()\n%p = mm.default(%a, %b)\n"
		  "%y = add.Tensor(%p, %c)\nreturn (%y,)\n",
		  0, 1 },
		{ "%c : f32[70,96] = placeholder()\n%a : f32[70,60] = placeholder()\n"
		  "%b : f32[60,96] = placeholder()\n%p = mm.default(%a, %b)\n"
		  "%y = add.Tensor(%p, %c)\nreturn (%y,)\n",
		  0, 1 },
		{ "%c : f32[96] = placeholder()\n%a : f32[70,60] = placeholder()\n"
		  "%b : f32[60,96] = placeholder()\n%p = mm.default(%a, %b)\n"
		  "%y = add.Tensor(%p, %c)\nreturn (%y, %p)\n",
		  0, 1 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct counts c = check(cases[i].text);
		if ((int)c.calls != 1 || (int)c.launches != cases[i].launches ||
		    (last_call()->bias != NULL) != cases[i].bias)
			fail_msg("case %zu: %d calls, %d launches, bias %p", i, (int)c.calls,
				 (int)c.launches, last_call()->bias);
	}
	/* Where the library has none for it, the kernel adds the bias too. */
	blas->no_epilogue = 1;
	struct counts c = check(cases[0].text);
	blas->no_epilogue = 0;
	assert_int_equal(c.calls, 0);
	assert_int_equal(c.launches, 1);
}

static void test_matmul_of_bytes_sums_in_i32(void **state)
{
	(void)state;
	struct counts c =
		check("%a : i8[64,80] = placeholder()\n%b : i8[80,64] = placeholder()\n"
		      "%p = _to_copy.default(%a, dtype=i32)\n%q = _to_copy.default(%b, dtype=i32)\n"
		      "%y = mm.default(%p, %q)\nreturn (%y,)\n");
	assert_int_equal(c.calls, 1);
	assert_int_equal(last_call()->compute, 72); /* CUBLAS_COMPUTE_32I */
	assert_int_equal(last_call()->a.type, 3);   /* CUDA_R_8I */
}

/* What is no matrix in memory, or too small, is a kernel. */
static void test_matmul_that_the_library_cannot_make_is_a_kernel(void **state)
{
	(void)state;
	static const char *const graphs[] = {
		/* small */
		"%a : f32[8,8] = placeholder()\n%b : f32[8,8] = placeholder()\n"
		"%y = mm.default(%a, %b)\nreturn (%y,)\n",
		/* no unit stride */
		"%a : f32[64,80] = placeholder(strides=[320,2])\n%b : f32[80,64] = placeholder()\n"
		"%y = mm.default(%a, %b)\nreturn (%y,)\n",
		/* rows that overlap */
		"%a : f32[64,80] = placeholder(strides=[3,1])\n%b : f32[80,64] = placeholder()\n"
		"%y = mm.default(%a, %b)\nreturn (%y,)\n",
		/* a product of halves whose sum is in halves is none of f32 */
		"%a : i32[64,80] = placeholder()\n%b : i32[80,64] = placeholder()\n"
		"%y = mm.default(%a, %b)\nreturn (%y,)\n",
	};
	for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
		struct counts c = check(graphs[i]);
		assert_int_equal(c.calls, 0);
		assert_int_equal(c.launches, 1);
	}
}

static void test_matmul_without_an_algorithm_launches_the_kernel(void **state)
{
	(void)state;
	blas->offered = 0;
	struct counts c = check(square);
	assert_int_equal(c.heuristics, 1);
	assert_int_equal(c.calls, 0);
	assert_int_equal(c.launches, 1);
	blas->offered = 3;
	blas->refuse = 15; /* NOT_SUPPORTED: nothing has been written */
	c = check(square);
	assert_int_equal(c.launches, 1);
	blas->refuse = 0;
	blas->refuse_handle = 1; /* a library that does not know the device */
	c = check(square);
	assert_int_equal(c.calls, 0);
	assert_int_equal(c.launches, 1);
	blas->refuse_handle = 0;
}

static void test_matmul_failure_names_the_call(void **state)
{
	(void)state;
	struct ready *v = square_new();
	struct stax_error err;
	blas->refuse = 13; /* EXECUTION_FAILED: it had begun */
	assert_int_equal(run(v, &err), STX_E_INTERNAL);
	blas->refuse = 0;
	assert_string_equal(err.node, "cublaslt.matmul");
	assert_non_null(strstr(err.text, "EXECUTION_FAILED"));
	assert_int_equal(run(v, &err), 0);
	ready_free(v);
}

/* The heuristic is asked once for a device and alignment, not at each run; it is told what the
 * pointers promise, and never allows TF32, f16 sums or partial sums in the result's type. */
static void test_matmul_heuristic_is_asked_once_a_device_and_alignment(void **state)
{
	(void)state;
	struct ready *v = square_new();
	struct stax_error err;
	uint32_t asked = blas->heuristics, handles = blas->handles;
	for (int i = 0; i < 5; i++)
		assert_int_equal(run(v, &err), 0);
	assert_int_equal(blas->heuristics, asked + 1);
	assert_int_equal(blas->handles, handles + 1);
	assert_int_equal(blas->preference.alignment[0] % 16, 0);
	assert_int_equal(blas->preference.reduction_mask, 2);
	assert_int_equal(blas->preference.impl_mask >> 18 & 1, 0); /* INPUT_TF32 */
	assert_int_equal(blas->preference.impl_mask >> 8 & 1, 0);  /* ACCUMULATOR_16F */
	assert_true(blas->preference.workspace_bytes <= (32u << 20));
	v->c.artifact->is_aligned = 0; /* a plan without STX_PLAN_ALIGNED */
	v->in[0].offset = 1;
	for (int i = 0; i < 3; i++)
		assert_int_equal(run(v, &err), 0);
	assert_int_equal(blas->heuristics, asked + 2);
	assert_int_equal(blas->preference.alignment[0], 4);
	v->in[0].offset = 0;
	void *first;
	assert_int_equal(stx__driver(NULL)->context_get(&first), 0);
	assert_int_equal(stx__driver(NULL)->context_set((void *)2), 0); /* the other device */
	assert_int_equal(run(v, &err), 0);
	assert_int_equal(run(v, &err), 0);
	assert_int_equal(stx__driver(NULL)->context_set(first), 0);
	assert_int_equal(run(v, &err), 0);
	assert_int_equal(blas->heuristics, asked + 3);
	assert_int_equal(blas->handles, handles + 2);
	ready_free(v);
	assert_int_equal(blas->alive, 0);
}

/* The stream, the workspace's memory and nothing else come from the caller. */
static void *count_allocate(void *ctx, size_t bytes, size_t align)
{
	*(size_t *)ctx += bytes;
	return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void count_release(void *ctx, void *p, size_t bytes)
{
	*(size_t *)ctx -= bytes;
	free(p);
}

static void test_matmul_workspace_and_stream_are_the_callers(void **state)
{
	(void)state;
	struct ready *v = square_new();
	struct stax_error err;
	size_t held = 0;
	struct stx_env env = { .ctx = &held,
			       .allocate = count_allocate,
			       .release = count_release,
			       .stream = (void *)0x1230 };
	assert_int_equal(stax_run(v->c.artifact, v->in, 2, &v->out, 1, &env, &err), 0);
	assert_int_equal(held, 0);
	assert_ptr_equal(last_call()->stream, env.stream);
	assert_true(last_call()->workspace_bytes >= (1u << 20) - 256);
	ready_free(v);
}

/* Twelve equal layers: their kernels are one symbol, so one module on the device. */
static void test_matmul_equal_kernels_share_a_module(void **state)
{
	(void)state;
	struct stx_bytes b = { 0 };
	stx_bytes_printf(&b,
			 "%%x0 : f32[64,64] = placeholder()\n%%w : f32[64,64] = placeholder()\n");
	for (int i = 0; i < 12; i++)
		stx_bytes_printf(&b,
				 "%%m%d = mm.default(%%x%d, %%w)\n%%x%d = sign.default(%%m%d)\n", i,
				 i, i + 1, i);
	stx_bytes_printf(&b, "return (%%x12,)\n");
	uint64_t modules = cuda->modules;
	blas->offered = 0;
	struct counts c = check(stx_bytes_cstr(&b));
	blas->offered = 3;
	assert_int_equal(c.launches, 24);
	assert_true(cuda->modules - modules <= 4); /* first, middle and last differ at most */
	stx_bytes_free(&b);
}

/* ---- numbers ---- */

/* Each number of the call's, replaced by each of several that cannot be; an offset whose end is past
 * 2^63 (+ rows, * element size) too. */
static void test_matmul_hostile_plans_are_refused(void **state)
{
	(void)state;
	struct ready *v = square_new();
	struct tampered t;
	tamper_begin(&t, &v->c);
	assert_int_equal(t.n, STX_MATMUL_NATTRS);
	assert_true(count_refused(&t) > STX_MATMUL_NATTRS * 3);
	for (uint32_t i = STX_MATMUL_A; i <= STX_MATMUL_D; i += 5)
		for (int64_t rest = 0; rest < 6000; rest++) {
			uint32_t offset = i + STX_MATRIX_OFFSET;
			assert_true(is_refused(&t, offset, INT64_MAX - rest));
			assert_true(is_refused(&t, offset, INT64_MAX / 4 - rest));
			assert_true(is_refused(&t, offset, 1 + rest));
		}
	tamper_end(&t);
	ready_free(v);
}

static void test_cublaslt_numbers_are_those_of_the_headers(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		unsigned long long value;
	} all[] = {
#define STX_CUBLASLT(name, value) { #name, value },
#include "cublaslt.def"
#undef STX_CUBLASLT
	};
	static const char *const files[] = { "cublasLt.h", "cublas_api.h", "library_types.h" };
	char *text[3];
	for (int i = 0; i < 3; i++)
		text[i] = read_header(files[i]);
	if (!text[0] || !text[1] || !text[2]) {
		print_message(
			"skipped: no CUDA toolkit: $CUDA_HOME/include/cublasLt.h is not there\n");
		skip();
	}
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		unsigned long long v = 0;
		int found = 0;
		for (int k = 0; k < 3 && !found; k++)
			found = find_number(text[k], all[i].name, &v);
		if (!found || v != all[i].value)
			fail_msg("%s is %llu, the headers say %llu", all[i].name, all[i].value, v);
	}
	for (int i = 0; i < 3; i++)
		free(text[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matmul_random_products_are_calls_and_agree_with_the_oracle),
		cmocka_unit_test(test_matmul_random_biases_agree_with_the_oracle),
		cmocka_unit_test(test_matmul_compositions_stay_narrow_in_memory),
		cmocka_unit_test(test_matmul_bias_of_the_sum_is_the_calls),
		cmocka_unit_test(test_matmul_of_bytes_sums_in_i32),
		cmocka_unit_test(test_matmul_that_the_library_cannot_make_is_a_kernel),
		cmocka_unit_test(test_matmul_without_an_algorithm_launches_the_kernel),
		cmocka_unit_test(test_matmul_failure_names_the_call),
		cmocka_unit_test(test_matmul_heuristic_is_asked_once_a_device_and_alignment),
		cmocka_unit_test(test_matmul_workspace_and_stream_are_the_callers),
		cmocka_unit_test(test_matmul_equal_kernels_share_a_module),
		cmocka_unit_test(test_matmul_hostile_plans_are_refused),
		cmocka_unit_test(test_cublaslt_numbers_are_those_of_the_headers),
	};
	return cmocka_run_group_tests(tests, calls_setup, NULL);
}
