/* A graph and its decomposition mean the same: every operator outside the basis, and every
 * composite, evaluated whole and again after decompose_to_basis and decompose_to_primitives. */
#include "ref_run.h"

static uint64_t seed = 0xa4093822299f31d0u;

static double random_value(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (double)(int64_t)seed * 0x1p-61; /* [-4, 4] */
}

static struct stx_tensor random_tensor(enum stx_dtype t, const int64_t *sizes, int rank)
{
	double v[64];

	for (int i = 0; i < 64; i++)
		v[i] = random_value();
	return make(t, sizes, rank, v);
}

static struct stx_graph *parse(struct stx_arena *a, const char *text)
{
	struct stx_diag d = { 0 };
	struct stx_graph *g = NULL;

	if (stx_graph_parse(a, text, strlen(text), &g, &d))
		fail_msg("%s: %s %s", text, d.location, d.text);
	return g;
}

/* ulps: how far apart results may be, in units of the type's roundoff relative to the largest one.
 * 0: equal bits. */
static void check(const char *call, enum stx_dtype t, double ulps)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_tensor in[3], want, got;
	struct stx_diag d = { 0 };
	struct stx_compare c = { 0 };
	char text[512];
	const char *n = stx_dtype_name(t);
	struct stx_graph *g;
	double u = t == STX_F64 ? 0x1p-53 : t == STX_F32 ? 0x1p-24 : 0x1p-8;

	snprintf(text, sizeof text,
		 "%%x : %s[3,5] = placeholder()\n%%y : %s[3,5] = placeholder()\n%%w : %s[5] = "
		 "placeholder()\n"
		 "%%r = %s\nreturn (%%r,)\n",
		 n, n, n, call);
	in[0] = random_tensor(t, DIMS(3, 5));
	in[1] = random_tensor(t, DIMS(3, 5));
	in[2] = random_tensor(t, DIMS(5));
	assert_int_equal(stx_ref_evaluate(parse(a, text), in, 3, &want, 0, &d), 0);
	g = parse(a, text);
	if (stx_graph_decompose_to_basis(&g, &d) || stx_graph_verify_basis(g, &d) ||
	    stx_graph_decompose_to_primitives(&g, &d) || stx_ref_evaluate(g, in, 3, &got, 0, &d))
		fail_msg("%s: %s", call, d.text);
	c.rtol = c.atol = ulps * 2 * u;
	if (stx_ref_compare(&got, &want, &c, &d))
		fail_msg("%s on %s: %s", call, n, d.text);
	for (int i = 0; i < 3; i++)
		free(in[i].data);
	free(want.data);
	free(got.data);
	stx_arena_free(a);
}

static const enum stx_dtype floats[] = { STX_BF16, STX_F32, STX_F64 };

static void check_all(const char *const *calls, size_t n, double ulps)
{
	print_message("seed %llx\n", (unsigned long long)seed);
	for (size_t k = 0; k < 3; k++)
		for (size_t i = 0; i < n; i++)
			for (int again = 0; again < 20; again++)
				check(calls[i], floats[k], ulps);
}
#define CHECK_ALL(calls, ulps) check_all(calls, sizeof(calls) / sizeof *(calls), ulps)

static void test_decomposed_exact_operators_agree_bitwise(void **s)
{
	static const char *const calls[] = {
		"rsub.Tensor(%x, %y, alpha=3)",
		"rsub.Scalar(%x, 1.5)",
		"rsub.Scalar(%x, 0.1, 0.7)",
		"pow.Tensor_Scalar(%x, 2)",
		"pow.Tensor_Scalar(%x, 3)",
		"pow.Tensor_Scalar(%x, -1)",
		"pow.Tensor_Scalar(%x, 0.5)",
		"fmod.Scalar(%x, 0.7)",
		"remainder.Scalar(%x, -0.7)",
		"floor_divide.default(%x, %y)",
		"full_like.default(%x, 0.1)",
		"any.default(%x)",
		"all.default(%x)",
		"leaky_relu.default(%x, 0.1)",
		"elu.default(%x, 1.1, 0.9, 0.8)",
		"softplus.default(%x, 1.3, 2)",
		"hardtanh.default(%x, -0.3, 0.7)",
		"silu.default(%x)",
		"hardsigmoid.default(%x)",
		"hardswish.default(%x)",
		"mish.default(%x)",
		"gelu.default(%x)",
		"gelu.default(%x, approximate='tanh')",
		"gelu_backward.default(%y, %x)",
		"gelu_backward.default(%y, %x, approximate='tanh')",
		"t.default(%x)",
		"transpose.int(%x, 0, -1)",
		"reshape.default(%x, [5,3])",
		"flatten.using_ints(%x)",
		"stack.default([%x, %y], 1)",
		"repeat.default(%x, [2,1,3])",
		"tril.default(%x, -1)",
		"triu.default(%x, 1)",
		"reciprocal.default(%x)",
		"clamp.default(%x, -0.1, 0.1)",
		"sign.default(%x)",
	};

	(void)s;
	CHECK_ALL(calls, 0);
}

/* Sums in another order, or rounded at another place: a few units in the last place. */
static void test_decomposed_reductions_agree_closely(void **s)
{
	static const char *const calls[] = {
		"sum.default(%x)",
		"mean.default(%x)",
		"mean.dim(%x, [1], True)",
		"var.correction(%x, [0], correction=0.5)",
		"logsumexp.default(%x, [1])",
		"_softmax.default(%x, 1)",
		"_log_softmax.default(%x, 0)",
		"softmax.int(%x, 0)",
		"log_softmax.int(%x, -1)",
		"layer_norm.default(%x, [5], %w, %w)",
		"linear.default(%x, %y)",
		"matmul.default(%x, %w)",
	};

	(void)s;
	CHECK_ALL(calls, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decomposed_exact_operators_agree_bitwise),
		cmocka_unit_test(test_decomposed_reductions_agree_closely),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
