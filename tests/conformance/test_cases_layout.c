/* test_cases_layout.c: views, indices, concatenation and storage that broke other compilers (shared
 * cases B11, B13, B15, B17, B21, B25, B67; VR-05, VR-06, LO-15). */
#include "cases.h"

#include <sys/mman.h>

#include "plan.h"

/* B17, the reading part: rows of an expanded tensor, picked more than once; the operand stays as it
 * was */
static void test_scatter_duplicates_repeated_rows_of_an_expanded_tensor(void **state)
{
	(void)state;
	case_check(&(struct stated){
		/* the run itself checks that its inputs were not written */
		.text = "%x : f32[4,3] = placeholder(strides=[0,1])\n%i : i64[3] = placeholder()\n"
			"%r = index_select.default(%x, 0, %i)\n%g = index.Tensor(%x, [%i])\nreturn "
			"(%r, %g)\n",
		.in = { V(1, 2, 3), V(0, 0, 2) },
		.out = { V(1, 2, 3), V(1, 2, 3) },
		.shape = { "3,3", "3,3" } });
	case_check(&(struct stated){ .text = "%x : f32[4] = placeholder()\n%i : i64[4] = "
					     "placeholder()\n%g = gather.default(%x, 0, %i)\n"
					     "return (%g,)\n",
				     .in = { V(10, 11, 12, 13), V(1, 1, 1, 3) },
				     .out = { V(11, 11, 11, 13) } });
}

/* Runs a graph of one f32[n] and one i64[1] index; the error code of the run. */
static int run_index(const char *text, int64_t n, int64_t index, float *result)
{
	struct compiled c;
	struct stx_diag d = { 0 };
	float x[128];
	struct stx_tensor in[2] = {
		{ .data = x, .dtype = STX_F32, .rank = 1, .sizes = { n }, .strides = { 1 } },
		{ .data = &index, .dtype = STX_I64, .rank = 1, .sizes = { 1 }, .strides = { 1 } }
	};
	struct stx_tensor out[2];
	for (int i = 0; i < n; i++)
		x[i] = (float)(i + 1);
	if (compiled_build(text, compiled_targets()[0], COMPILED_FUSED, &c, &d))
		fail_msg("%s", d.text);
	int e = compiled_run(&c, COMPILED_SERIAL, in, 2, out, &d);
	if (!e)
		*result = *(float *)out[0].data;
	char bounds[96];
	snprintf(bounds, sizeof bounds, "index out of bounds: 0 <= %lld < %lld", (long long)index,
		 (long long)n);
	if (e == STX_E_BOUNDS && !strstr(d.text, bounds))
		fail_msg("the message does not name the bound: %s", d.text);
	if (!e)
		compiled_free_outputs(out, 1);
	compiled_free(&c);
	return e;
}

/* B15, VR-05, LO-15: advanced indexing wraps once; other reads refuse negative indices; errors are
 * reported and name the bounds */
static void test_index_bounds_wrap_and_report_by_operator(void **state)
{
	static const char wraps[] = "%x : f32[4] = placeholder()\n%i : i64[1] = placeholder()\n"
				    "%y = index.Tensor(%x, [%i])\nreturn (%y,)\n";
	static const char refuses[] = "%x : f32[4] = placeholder()\n%i : i64[1] = placeholder()\n"
				      "%y = index_select.default(%x, 0, %i)\nreturn (%y,)\n";
	static const char g1[] =
		"%x : f32[128] = placeholder()\n%i : i64[1] = placeholder()\n"
		"%y = index.Tensor(%x, [%i])\n%z = mul.Scalar(%y, 2)\nreturn (%z,)\n";
	float y = 0;
	(void)state;
	assert_int_equal(run_index(wraps, 4, -1, &y), 0);
	assert_true(y == 4);
	assert_int_equal(run_index(wraps, 4, 4, &y), STX_E_BOUNDS);
	assert_int_equal(run_index(wraps, 4, -5, &y), STX_E_BOUNDS);
	assert_int_equal(run_index(refuses, 4, 3, &y), 0);
	assert_true(y == 4);
	assert_int_equal(run_index(refuses, 4, -1, &y), STX_E_BOUNDS);
	assert_int_equal(run_index(refuses, 4, 4, &y), STX_E_BOUNDS);
	assert_int_equal(run_index(g1, 128, -1, &y), 0);
	assert_true(y == 256);
	assert_int_equal(run_index(g1, 128, 128, &y), STX_E_BOUNDS);
	assert_int_equal(run_index(g1, 128, -129, &y), STX_E_BOUNDS);
	assert_int_equal(run_index(g1, 128, INT64_MIN, &y), STX_E_BOUNDS);
}

/* VR-05: vectors of indices, all lanes fixed and checked before any element is read: values that
 * wrap in every lane, and one bad index in each place of a vector and its tail. */
static void test_index_bounds_of_whole_vectors(void **state)
{
	static const char g1[] =
		"%x : f32[128] = placeholder()\n%i : i64[67] = placeholder()\n"
		"%y = index.Tensor(%x, [%i])\n%z = mul.Scalar(%y, 2)\nreturn (%z,)\n";
	float x[128];
	int64_t idx[67];
	struct stx_tensor in[2] = {
		{ .data = x, .dtype = STX_F32, .rank = 1, .sizes = { 128 }, .strides = { 1 } },
		{ .data = idx, .dtype = STX_I64, .rank = 1, .sizes = { 67 }, .strides = { 1 } }
	};
	(void)state;
	for (int i = 0; i < 128; i++)
		x[i] = (float)i;
	for (const char *const *t = compiled_targets(); *t; t++) {
		struct compiled c;
		struct stx_diag d = { 0 };
		assert_int_equal(compiled_build(g1, *t, COMPILED_FUSED, &c, &d), 0);
		for (int bad = -1; bad < 67; bad++) {
			struct stx_tensor out[1];
			for (int i = 0; i < 67; i++)
				idx[i] = (i * 53) % 256 - 128; /* -128 .. 127 */
			if (bad >= 0)
				idx[bad] = bad % 2 ? 128 : -129;
			memset(&d, 0, sizeof d);
			int e = compiled_run(&c, COMPILED_SERIAL, in, 2, out, &d);
			assert_int_equal(e, bad < 0 ? 0 : STX_E_BOUNDS);
			assert_true(!e ||
				    strstr(d.text, bad % 2 ? "0 <= 128 < 128" : "0 <= -129 < 128"));
			for (int i = 0; !e && i < 67; i++)
				assert_true(((float *)out[0].data)[i] ==
					    2 * (float)((idx[i] + 128) % 128));
			if (!e)
				compiled_free_outputs(out, 1);
		}
		compiled_free(&c);
	}
}

/* VR-06: (3i) mod 128 is proved in range: a direct load, no check */
static void test_index_bounds_computed_indices_are_proved(void **state)
{
	static const char text[] =
		"%x : f32[128] = placeholder()\n"
		"%r = arange.start_step(0, 128, 1, dtype=i64)\n%t = mul.Scalar(%r, 3)\n"
		"%i = remainder.Scalar(%t, 128)\n%y = index.Tensor(%x, [%i])\nreturn (%y,)\n";
	struct stx_source s = { .format = STX_FORMAT_TEXT,
				.body = { (const uint8_t *)text, sizeof text - 1 } };
	struct stx_compile_options o = { .target = "cpu:x86-64-v3" };
	struct stx_bytes b = { 0 };
	struct stx_diag d = { 0 };
	double x[128], y[128];
	(void)state;
	assert_int_equal(stx_compile_dump(compiled_compiler(), &s, &o, "kernels", "text", &b, &d),
			 0);
	assert_null(strstr(stx_bytes_cstr(&b), "indirect"));
	stx_bytes_free(&b);
	for (int i = 0; i < 128; i++) {
		x[i] = i;
		y[i] = 3 * i % 128;
	}
	case_check(&(struct stated){ .text = text, .in = { { x, 128 } }, .out = { { y, 128 } } });
}

/* Number of outputs of the artifact that are views of inputs. */
static int aliases(const struct compiled *c)
{
	struct stx_span bytes;
	struct stx_plan p;
	struct stx_diag d = { 0 };
	int n = 0;
	assert_int_equal(stx_artifact_plan((struct stx_span){ c->elf.at, c->elf.n }, &bytes, &d),
			 0);
	void *copy = aligned_alloc(64, (bytes.n + 63) & ~(size_t)63);
	memcpy(copy, bytes.at, bytes.n);
	assert_int_equal(stx_plan_open((struct stx_span){ copy, bytes.n }, &p, &d), 0);
	for (uint32_t i = 0; i < p.h->nvalues; i++)
		n += p.values[i].kind == STX_VALUE_ALIAS;
	free(copy);
	return n;
}

/* B21, GF-08: equal outputs have storage of their own; the input itself and x*1 do not share it
 * either */
static void test_alias_layout_outputs_do_not_share_storage(void **state)
{
	static const char text[] =
		"%x : f32[10] = placeholder()\n%a = add.Scalar(%x, 1)\n%b = add.Scalar(%x, 1)\n"
		"%m = mul.Scalar(%x, 1)\nreturn (%a, %b, %x, %m)\n";
	struct compiled c;
	struct stx_diag d = { 0 };
	float x[10], a[10], b[10], same[10], m[10];
	struct stx_tensor in = {
		.data = x, .dtype = STX_F32, .rank = 1, .sizes = { 10 }, .strides = { 1 }
	};
	struct stx_tensor out[4] = { in, in, in, in };
	struct stax_error err;
	(void)state;
	case_check(&(struct stated){
		.text = text, .in = { V(1) }, .out = { V(2), V(2), V(1), V(1) } });
	assert_int_equal(compiled_build(text, compiled_targets()[0], COMPILED_FUSED, &c, &d), 0);
	assert_int_equal(aliases(&c), 0);
	out[0].data = a;
	out[1].data = b;
	out[2].data = same;
	out[3].data = m;
	for (int i = 0; i < 10; i++)
		x[i] = 1;
	assert_int_equal(compiled_call(&c, &in, 1, out, 4, &err), 0);
	for (int i = 0; i < 10; i++)
		a[i] += 10;
	for (int i = 0; i < 10; i++)
		assert_true(a[i] == 12 && b[i] == 2 && same[i] == 1 && m[i] == 1 && x[i] == 1);
	compiled_free(&c);
}

/* B21: two equal factories */
static void test_alias_layout_two_factories_are_two_tensors(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%x : f32[3] = placeholder()\n%a = full.default([3], 0, dtype=f32)\n"
			"%b = full.default([3], 0, dtype=f32)\n%m = add.Tensor(%a, %x)\nreturn "
			"(%m, %b, %a)\n",
		.in = { V(5) },
		.out = { V(5), V(0), V(0) },
		.shape = { "3", "3", "3" } });
}

/* B25 */
static void test_zero_size_concatenation_skips_empty_vectors(void **state)
{
	(void)state;
	const struct values none = V(0);
	case_check(&(struct stated){
		.text = "%e : f32[0] = placeholder()\n%x : f32[1,8,0,78] = placeholder()\n"
			"%y = cat.default([%e, %x], -2)\nreturn (%y,)\n",
		.in = { none, none },
		.shape = { "1,8,0,78" } });
	case_check(&(struct stated){
		.text = "%e : f32[0] = placeholder()\n%x : f32[2,3] = placeholder()\n"
			"%y = cat.default([%e, %x], 1)\nreturn (%y,)\n",
		.in = { none, V(1) },
		.out = { V(1) },
		.shape = { "2,3" } });
	case_check(&(struct stated){ .text = "%a : f32[0,4] = placeholder()\n%b : f32[2,4] = "
					     "placeholder()\n%c : f32[0,4] = placeholder()\n"
					     "%y = cat.default([%a, %b, %c], 0)\nreturn (%y,)\n",
				     .in = { none, V(1, 2, 3, 4, 5, 6, 7, 8), none },
				     .out = { V(1, 2, 3, 4, 5, 6, 7, 8) },
				     .shape = { "2,4" } });
	case_check(&(struct stated){ .text = "%a : f32[0] = placeholder()\n%b : f32[0] = "
					     "placeholder()\n%y = cat.default([%a, %b], 0)\n"
					     "return (%y,)\n",
				     .in = { none, none },
				     .shape = { "0" } });
}

/* LO-18, LO-19: a concatenation read by a pointwise operator is one kernel */
static void test_concatenation_fuses_with_its_reader(void **state)
{
	static const char text[] =
		"%a : f32[3,5] = placeholder()\n%b : f32[2,5] = placeholder()\n"
		"%c = cat.default([%a, %b], 0)\n%y = mul.Scalar(%c, 2)\nreturn (%y,)\n";
	double y[25];
	struct compiled c;
	struct stx_diag d = { 0 };
	(void)state;
	for (int i = 0; i < 25; i++)
		y[i] = i < 15 ? 2 : 6;
	case_check(&(struct stated){
		.text = text, .in = { V(1), V(3) }, .out = { { y, 25 } }, .shape = { "5,5" } });
	assert_int_equal(compiled_build(text, compiled_targets()[0], COMPILED_FUSED, &c, &d), 0);
	assert_int_equal(c.nkernels, 1);
	compiled_free(&c);
}

/* B67 without the gradient: 0-d, [1], [3] and [0] */
static void test_cache_replay_small_shapes(void **state)
{
	(void)state;
	static const char *const shapes[] = { "", "1", "3", "0" };
	for (int i = 0; i < 4; i++) {
		char text[128];
		snprintf(text, sizeof text,
			 "%%x : f32[%s] = placeholder()\n%%y = mul.Tensor(%%x, %%x)\nreturn "
			 "(%%y,)\n",
			 shapes[i]);
		case_check(&(struct stated){
			.text = text, .in = { V(0) }, .out = { V(0) }, .shape = { shapes[i] } });
	}
}

/* ---- B11: offsets beyond 2^31 from small sizes ---- */

/* 2.5 GB of address space of which only the pages of the view are touched. */
static void test_address_overflow_strides_that_reach_beyond_31_bits(void **state)
{
	enum { B = 320, STRIDE = 7864320 };
	const size_t bytes = 2508718081u;
	static const char *const texts[] = {
		"%x : i8[320] = placeholder(strides=[7864320])\n%c = clone.default(%x)\n"
		"%s = sum.default(%x)\nreturn (%c, %s)\n",
		/* as the batch of a product */
		"%x : i8[320,1,1] = placeholder(strides=[7864320,1,1])\n"
		"%o = full.default([320,1,1], 1, dtype=i8)\n%c = bmm.default(%x, %o)\n"
		"%s = sum.default(%c)\nreturn (%c, %s)\n",
	};
	int8_t *x = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	(void)state;
	if (x == MAP_FAILED)
		skip();
	for (size_t b = 0; b < B; b++)
		x[b * STRIDE] = (int8_t)(b % 101);
	for (int k = 0; k < 2; k++)
		for (const char *const *target = compiled_targets(); *target; target++) {
			struct compiled c;
			struct stx_diag d = { 0 };
			struct stax_error err;
			int8_t y[B] = { 0 };
			int64_t sum = 0;
			struct stx_tensor in = { .data = x,
						 .dtype = STX_I8,
						 .rank = k ? 3 : 1,
						 .sizes = { B, 1, 1 },
						 .strides = { STRIDE, 1, 1 } };
			struct stx_tensor out[2] = { { .data = y,
						       .dtype = STX_I8,
						       .rank = k ? 3 : 1,
						       .sizes = { B, 1, 1 },
						       .strides = { 1, 1, 1 } },
						     { .data = &sum, .dtype = STX_I64 } };
			if (compiled_build(texts[k], *target, COMPILED_FUSED, &c, &d))
				fail_msg("%s: %s", d.node, d.text);
			if (compiled_call(&c, &in, 1, out, 2, &err))
				fail_msg("%s", err.text);
			for (int b = 0; b < B; b++)
				assert_int_equal(y[b], b % 101);
			assert_true(y[273] == 71 && y[274] == 72 && y[319] == 16);
			assert_int_equal(sum, 15286);
			compiled_free(&c);
		}
	munmap(x, bytes);
}

/* ---- B13: tall transpositions and large batches ---- */

static void test_launch_limits_tall_transposition(void **state)
{
	enum { N = 65537 * 32 + 3 };
	char text[160];
	double *x = malloc(2 * (size_t)N * sizeof *x), *y = malloc(2 * (size_t)N * sizeof *y);
	(void)state;
	for (int64_t i = 0; i < 2; i++)
		for (int64_t j = 0; j < N; j++)
			x[i * N + j] = y[j * 2 + i] = (double)((7 * i + 13 * j) % 101);
	snprintf(text, sizeof text,
		 "%%x : i8[2,%d] = placeholder()\n%%t = permute.default(%%x, [1, 0])\n"
		 "%%c = clone.default(%%t)\nreturn (%%c,)\n",
		 N);
	case_check(&(struct stated){ .text = text,
				     .in = { { x, 2 * N } },
				     .out = { { y, 2 * N } },
				     .skip = CASE_NO_FOLD | CASE_NO_UNFUSED });
	free(x);
	free(y);
}

static void test_launch_limits_batches_beyond_16_bits(void **state)
{
	static const int batches[] = { 65536, 70000 };
	(void)state;
	for (int i = 0; i < 2; i++) {
		char text[192];
		snprintf(text, sizeof text,
			 "%%a : f32[%d,2,2] = placeholder()\n%%b : f32[%d,2,2] = placeholder()\n"
			 "%%c = bmm.default(%%a, %%b)\nreturn (%%c,)\n",
			 batches[i], batches[i]);
		case_check(&(struct stated){ .text = text,
					     .in = { V(1, 2, 3, 4), V(5, 6, 7, 8) },
					     .out = { V(19, 22, 43, 50) },
					     .skip = CASE_NO_FOLD });
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scatter_duplicates_repeated_rows_of_an_expanded_tensor),
		cmocka_unit_test(test_index_bounds_wrap_and_report_by_operator),
		cmocka_unit_test(test_index_bounds_of_whole_vectors),
		cmocka_unit_test(test_index_bounds_computed_indices_are_proved),
		cmocka_unit_test(test_alias_layout_outputs_do_not_share_storage),
		cmocka_unit_test(test_alias_layout_two_factories_are_two_tensors),
		cmocka_unit_test(test_zero_size_concatenation_skips_empty_vectors),
		cmocka_unit_test(test_concatenation_fuses_with_its_reader),
		cmocka_unit_test(test_cache_replay_small_shapes),
		cmocka_unit_test(test_address_overflow_strides_that_reach_beyond_31_bits),
		cmocka_unit_test(test_launch_limits_tall_transposition),
		cmocka_unit_test(test_launch_limits_batches_beyond_16_bits),
	};
	return cmocka_run_group_tests(tests, case_setup, NULL);
}
