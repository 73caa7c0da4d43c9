/* test_halves.c: f16 and bf16 in a kernel: strict rounds at every node, which is what an unfused
 * graph gives; fast computes in f32 from load to store and rounds there (LO-22, LO-23). */
#include "cases.h"

/* Eight additions of inputs y0 .. y7 to x. */
static const char *chain(const char *type)
{
	static char text[2048];
	size_t n = (size_t)snprintf(text, sizeof text, "%%s0 : %s[@] = placeholder()\n", type);
	for (int i = 0; i < 7; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "%%y%d : %s[@] = placeholder()\n",
				      i, type);
	for (int i = 0; i < 8; i++)
		n += (size_t)snprintf(text + n, sizeof text - n,
				      "%%s%d = add.Tensor(%%s%d, %%y%d)\n", i + 1, i, i % 7);
	snprintf(text + n, sizeof text - n, "return (%%s8,)\n");
	return text;
}

static double next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (double)(*seed >> 40) * 0x1p-24;
}

#define N 1003

/* LO-23: a chain of 8 additions. fast: computed in f32, rounded once; strict: rounded 8 times. The
 * two differ for many of these numbers. */
static void check_chain(enum stx_dtype t)
{
	struct stx_arena *a = stx_arena_new(0);
	char *text = case_text(chain(stx_dtype_name(t)), N);
	struct stx_graph *g = case_parse(a, text);
	static double v[8][N], once[N], each[N];
	struct stx_tensor in[8];
	uint64_t seed = 23;
	int differ = 0;
	for (int k = 0; k < 8; k++) {
		for (int i = 0; i < N; i++)
			v[k][i] = stx_scalar_round(
				t, i ? (k ? next(&seed) * 3 - 1 : 50 + next(&seed) * 900)
				     : (k               ? 1
					: t == STX_BF16 ? 256
							: 2048));
		compiled_shape(g, &g->inputs.at[k], &in[k]);
		case_fill(a, &in[k], (struct values){ v[k], N }, 0);
	}
	for (int i = 0; i < N; i++) {
		float wide = (float)v[0][i];
		double narrow = v[0][i];
		for (int k = 0; k < 8; k++) {
			wide += (float)v[1 + k % 7][i];
			narrow = stx_scalar_round(t, (float)narrow + (float)v[1 + k % 7][i]);
		}
		once[i] = stx_scalar_round(t, wide);
		each[i] = narrow;
		differ += once[i] != each[i];
	}
	assert_true(differ > N / 10);
	assert_true(each[0] == v[0][0] && once[0] == v[0][0] + 8); /* ties to even, every time */
	for (const char *const *target = compiled_targets(); *target; target++)
		for (int form = COMPILED_FUSED; form <= COMPILED_FAST; form++) {
			struct compiled c;
			struct stx_tensor out[1];
			struct stx_diag d = { 0 };
			const double *want = form == COMPILED_FAST ? once : each;
			if (compiled_build(text, *target, (enum compiled_form)form, &c, &d) ||
			    compiled_run(&c, COMPILED_PIECES, in, 8, out, &d))
				fail_msg("%s %s: %s", *target, d.stage, d.text);
			for (int i = 0; i < N; i++) {
				double got =
					stx_scalar_load(t, (const char *)out[0].data + 2 * i).f;
				if (got != want[i])
					fail_msg("%s, form %d: %g, not %g at %d", *target, form,
						 got, want[i], i);
			}
			compiled_free_outputs(out, 1);
			compiled_free(&c);
		}
	free(text);
	stx_arena_free(a);
}

static void test_halves_chain_of_additions_rounds_once_in_fast(void **state)
{
	(void)state;
	check_chain(STX_BF16);
	check_chain(STX_F16);
}

/* A value of two users, one that several buffers of the kernel share, a conversion, a reduction:
 * 257 is no bf16. What is stored is rounded, what goes on is not. */
static const char shared[] =
	"%x : bf16[4,64] = placeholder()\n%y : bf16[4,64] = placeholder()\n"
	"%a = add.Tensor(%x, %y)\n%e = tanh.default(%a)\n%b = mul.Scalar(%a, 3)\n"
	"%c = sub.Tensor(%b, %a)\n%d = sub.Scalar(%c, 512)\n%f = mul.Tensor(%e, %d)\n"
	"%g = sub.Tensor(%e, %e)\n%h = add.Tensor(%f, %g)\n%w = _to_copy.default(%a, dtype=f32)\n"
	"%s = sum.dim_IntList(%d, [1])\nreturn (%h, %w, %s, %a)\n";

static void test_halves_values_of_several_users_stay_wide_in_fast(void **state)
{
	static const double want[2][4] = { { 0, 256, 0, 256 }, { 2, 257, 128, 256 } };
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = case_parse(a, shared);
	struct stx_tensor in[2];
	for (int k = 0; k < 2; k++) {
		compiled_shape(g, &g->inputs.at[k], &in[k]);
		case_fill(a, &in[k], (struct values){ (const double[]){ k ? 1 : 256 }, 1 }, 0);
	}
	for (const char *const *target = compiled_targets(); *target; target++)
		for (int fast = 0; fast < 2; fast++) {
			struct compiled c;
			struct stx_tensor out[4];
			struct stx_diag d = { 0 };
			if (compiled_build(shared, *target, fast ? COMPILED_FAST : COMPILED_FUSED,
					   &c, &d) ||
			    compiled_run(&c, COMPILED_POOL, in, 2, out, &d))
				fail_msg("%s %s: %s", *target, d.stage, d.text);
			assert_int_equal(c.nkernels, 1);
			for (int k = 0; k < 4; k++) {
				enum stx_dtype t = (enum stx_dtype)out[k].dtype;
				assert_true(stx_scalar_load(t, out[k].data).f == want[fast][k]);
			}
			compiled_free_outputs(out, 4);
			compiled_free(&c);
		}
	stx_arena_free(a);
}

/* LO-22 in GPU code, whose text needs no GPU: one widening a load, one narrowing a store, and
 * nothing rounds in between; on the CPU likewise. strict narrows at each of the 8 nodes. */
static void test_halves_gpu_code_widens_at_loads_and_narrows_at_stores(void **state)
{
	static const struct {
		enum stx_dtype t;
		const char *narrow, *wide;
	} types[] = { { STX_BF16, "f32_to_bf16(", "bf16_to_f32(" },
		      { STX_F16, "f32_to_f16(", "f16_to_f32(" } };
	struct stx_bytes b = { 0 };
	(void)state;
	for (int i = 0; i < 2; i++) {
		char cast[32], *text = case_text(chain(stx_dtype_name(types[i].t)), N);
		snprintf(cast, sizeof cast, "= cast %s ", stx_dtype_name(types[i].t));
		for (int gpu = 0; gpu < 2; gpu++)
			for (int fast = 0; fast < 2; fast++) {
				stx_bytes_clear(&b);
				const char *s =
					case_dump(text, gpu ? "cuda:sm_90a:h200" : "cpu:x86-64-v3",
						  fast, "kernels", &b);
				assert_int_equal(count(s, cast), fast ? 1 : 8);
				assert_int_equal(count(s, "= load "), 8);
				assert_int_equal(count(s, "store "), 1);
			}
		stx_bytes_clear(&b);
		const char *s = case_dump(text, "cuda:sm_90a:h200", 1, "source", &b);
		s = strstr(s, "__global__");
		assert_non_null(s);
		assert_int_equal(count(s, types[i].narrow), 1);
		assert_int_equal(count(s, types[i].wide), 8);
		assert_true(strstr(s, types[i].narrow) > strstr(s, types[i].wide));
		free(text);
	}
	stx_bytes_free(&b);
}

/* f32 to bf16 at every level and with every feature of this host, avx512bf16 among them, whose
 * instruction flushes subnormals: every upper half with lower halves around each rounding, signed
 * zeros, subnormals, infinities and NaNs among them. SE-11 */
#define LOWER 8
static void test_halves_every_bf16_is_rounded_to_nearest_even(void **state)
{
	static const uint16_t lower[LOWER] = {
		0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x4000, 0xc000
	};
	int64_t n = 65536 * LOWER;
	uint32_t *x = malloc((size_t)n * sizeof *x);
	(void)state;
	assert_non_null(x);
	for (int64_t i = 0; i < n; i++)
		x[i] = (uint32_t)(i / LOWER) << 16 | lower[i % LOWER];
	for (const char *const *t = compiled_feature_targets(); *t; t++) {
		struct stx_tensor in = { .data = x, .dtype = STX_F32, .rank = 1 }, out[1];
		struct compiled c;
		struct stx_diag d = { 0 };
		in.sizes[0] = n;
		in.strides[0] = 1;
		if (compiled_build("%x : f32[524288] = placeholder()\n"
				   "%y = _to_copy.default(%x, dtype=bf16)\nreturn (%y,)\n",
				   *t, COMPILED_FUSED, &c, &d))
			fail_msg("%s: %s", *t, d.text);
		assert_int_equal(compiled_run(&c, COMPILED_SERIAL, &in, 1, out, &d), 0);
		for (int64_t i = 0; i < n; i++) {
			uint16_t got = ((const uint16_t *)out[0].data)[i];
			uint32_t u = x[i];
			int is_nan = (u & 0x7fffffff) > 0x7f800000;
			uint32_t want = is_nan ? 0x7fc0 : (u + 0x7fff + (u >> 16 & 1)) >> 16;
			if (got != want)
				fail_msg("%s: %08x gives %04x, not %04x", *t, u, got, want);
		}
		compiled_free_outputs(out, 1);
		compiled_free(&c);
	}
	free(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_halves_chain_of_additions_rounds_once_in_fast),
		cmocka_unit_test(test_halves_values_of_several_users_stay_wide_in_fast),
		cmocka_unit_test(test_halves_every_bf16_is_rounded_to_nearest_even),
		cmocka_unit_test(test_halves_gpu_code_widens_at_loads_and_narrows_at_stores),
	};
	return cmocka_run_group_tests(tests, case_setup, NULL);
}
