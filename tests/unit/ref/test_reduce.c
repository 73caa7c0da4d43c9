/* The oracle against values computed by hand: reductions, products and composites. */
#include "ref_run.h"

/* ---- reductions ---- */

/* B01, RD-03, RD-06 */
static void test_ref_argreduce_nan_and_ties(void **s)
{
	const int64_t lengths[] = { 2, 17, 1025 };

	(void)s;
	for (int k = 0; k < 3; k++) {
		int64_t n = lengths[k];
		double *x = calloc((size_t)n, sizeof *x);
		char text[160];

		x[0] = -2;
		x[1] = 100;
		snprintf(text, sizeof text,
			 "%%x : f32[%lld] = placeholder()\n%%y = log1p.default(%%x)\n"
			 "%%z = argmax.default(%%y)\nreturn (%%z,)\n",
			 (long long)n);
		expect(RUN(text, make(STX_F32, &n, 1, x)), STX_I64, NULL, 0, VALS(0));
		free(x);
	}
	expect(RUN("%x : f32[4] = placeholder()\n%z = argmin.default(%x)\nreturn (%z,)\n",
		   make(STX_F32, DIMS(4), VALS(5, NAN, -1, NAN))),
	       STX_I64, NULL, 0, VALS(1));
	expect(RUN("%x : f32[2] = placeholder()\n%z = argmin.default(%x)\nreturn (%z,)\n",
		   make(STX_F32, DIMS(2), VALS(NAN, 0))),
	       STX_I64, NULL, 0, VALS(0));
	expect(RUN("%x : f32[2,3] = placeholder()\n%z = argmax.default(%x, 1)\nreturn (%z,)\n",
		   make(STX_F32, DIMS(2, 3), VALS(1, 1, 1, 0, 2, 2))),
	       STX_I64, DIMS(2), VALS(0, 1));
	expect(RUN("%x : f32[3,2] = placeholder()\n%z = amax.default(%x, [0], "
		   "keepdim=True)\nreturn (%z,)\n",
		   make(STX_F32, DIMS(3, 2), VALS(1, -1, NAN, -5, 2, -3))),
	       STX_F32, DIMS(1, 2), VALS(NAN, -1));
}

/* B03, RD-02 */
static void test_ref_empty_reductions_give_identities(void **s)
{
	static const struct {
		const char *call;
		enum stx_dtype t;
		double want;
	} ops[] = {
		{ "sum.dim_IntList(%x, [1])", STX_F32, 0 },
		{ "prod.dim_int(%x, 1)", STX_F32, 1 },
		{ "any.dims(%x, [1])", STX_BOOL, 0 },
		{ "all.dims(%x, [1])", STX_BOOL, 1 },
		{ "mean.dim(%x, [1])", STX_F32, NAN },
		{ "logsumexp.default(%x, [1])", STX_F32, -INFINITY },
	};

	(void)s;
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
		char text[160];

		snprintf(text, sizeof text,
			 "%%x : f32[3,0] = placeholder()\n%%y = %s\nreturn (%%y,)\n", ops[i].call);
		expect(RUN(text, make(STX_F32, DIMS(3, 0), NULL)), ops[i].t, DIMS(3),
		       VALS(ops[i].want, ops[i].want, ops[i].want));
	}
	expect(RUN("%a : f32[4,0] = placeholder()\n%b : f32[0,4] = placeholder()\n%c = "
		   "mm.default(%a, %b)\nreturn (%c,)\n",
		   make(STX_F32, DIMS(4, 0), NULL), make(STX_F32, DIMS(0, 4), NULL)),
	       STX_F32, DIMS(4, 4), VALS(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

/* B05 */
static void test_ref_integer_extremes(void **s)
{
	double p[] = { 5, 1, 100, 3, 7, 8, 9, 13, 100, 120, 127, 2, 6, 4, 11, 12, 90, 80 };

	(void)s;
	expect(RUN("%x : u8[18] = placeholder()\n%y = amin.default(%x)\nreturn (%y,)\n",
		   make(STX_U8, DIMS(18), p)),
	       STX_U8, NULL, 0, VALS(1));
	expect(RUN("%x : i8[18] = placeholder()\n%y = argmax.default(%x)\nreturn (%y,)\n",
		   make(STX_I8, DIMS(18), p)),
	       STX_I64, NULL, 0, VALS(10));
	for (int i = 0; i < 18; i++)
		p[i] = -p[i];
	expect(RUN("%x : i8[18] = placeholder()\n%y = amin.default(%x)\nreturn (%y,)\n",
		   make(STX_I8, DIMS(18), p)),
	       STX_I8, NULL, 0, VALS(-127));
	expect(RUN("%x : i8[18] = placeholder()\n%y = argmax.default(%x)\nreturn (%y,)\n",
		   make(STX_I8, DIMS(18), p)),
	       STX_I64, NULL, 0, VALS(1));
	expect(RUN("%x : i8[18] = placeholder()\n%y = sum.default(%x)\nreturn (%y,)\n",
		   make(STX_I8, DIMS(18), p)),
	       STX_I64, NULL, 0, VALS(-698));
}

/* B41 (b), shortened, and a sum whose plain f32 order loses everything */
static void test_ref_sums_do_not_drift(void **s)
{
	struct stx_tensor y =
		RUN("%x : f32[1] = placeholder()\n%e = expand.default(%x, [1000000])\n"
		    "%t = sum.default(%e)\nreturn (%t,)\n",
		    make(STX_F32, DIMS(1), VALS(0.1)));

	(void)s;
	assert_true(fabs(*(float *)y.data - 100000.0015) <= 0.02);
	free(y.data);
	expect(RUN("%x : f64[4] = placeholder()\n%t = sum.default(%x)\nreturn (%t,)\n",
		   make(STX_F64, DIMS(4), VALS(1e100, 1, -1e100, 1))),
	       STX_F64, NULL, 0, VALS(2));
	expect(RUN("%x : f32[3] = placeholder()\n%t = sum.default(%x)\nreturn (%t,)\n",
		   make(STX_F32, DIMS(3), VALS(INFINITY, 1, 1))),
	       STX_F32, NULL, 0, VALS(INFINITY));
}

/* B43 */
static void test_ref_variance_divisor(void **s)
{
	static const struct {
		const char *correction;
		double want;
	} c[] = {
		{ "0", 1.5555556 }, { "1", 2.3333333 }, { "2.5", 9.3333333 },
		{ "3", INFINITY },  { "5", INFINITY },
	};

	(void)s;
	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		char text[160];
		struct stx_tensor y;
		float v;

		snprintf(text, sizeof text,
			 "%%x : f32[3] = placeholder()\n%%y = var.correction(%%x, "
			 "correction=%s)\nreturn (%%y,)\n",
			 c[i].correction);
		y = RUN(text, make(STX_F32, DIMS(3), VALS(1, 2, 4)));
		v = *(float *)y.data;
		assert_true(isinf(c[i].want) ? isinf(v) : fabs(v - c[i].want) <= 1e-6 * c[i].want);
		free(y.data);
	}
	expect(RUN("%x : f32[] = placeholder()\n%y = var.correction(%x, correction=4.9)\nreturn "
		   "(%y,)\n",
		   make(STX_F32, NULL, 0, VALS(7))),
	       STX_F32, NULL, 0, VALS(NAN));
}

/* ---- products ---- */

/* B61 for (17,33,65) and (1,1,1), in every type where the values are exact */
static void test_ref_matmul_exact_sums(void **s)
{
	const enum stx_dtype types[] = { STX_F16, STX_BF16, STX_F32, STX_F64, STX_I32, STX_I64 };
	enum { M = 17, N = 33, K = 65 };
	static double a[M * K], b[K * N];

	(void)s;
	for (int i = 0; i < M; i++)
		for (int k = 0; k < K; k++)
			a[i * K + k] = (3 * i + 5 * k) % 7 - 3 + k % 2;
	for (int k = 0; k < K; k++)
		for (int j = 0; j < N; j++)
			b[k * N + j] = (2 * k + 11 * j) % 5 - 1;
	for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
		char text[200];
		const char *n = stx_dtype_name(types[t]);
		struct stx_tensor c;
		double sum = 0;
		const double corners[] = { 26, 43, 31, 38 };
		const int at[] = { 0, (M - 1) * N + N - 1, (M - 1) * N, N - 1 };

		snprintf(text, sizeof text,
			 "%%a : %s[17,65] = placeholder()\n%%b : %s[65,33] = placeholder()\n%%c = "
			 "mm.default(%%a, %%b)\nreturn (%%c,)\n",
			 n, n);
		c = RUN(text, make(types[t], DIMS(M, K), a), make(types[t], DIMS(K, N), b));
		for (int i = 0; i < M * N; i++)
			sum += to_double(
				types[t],
				stx_scalar_load(types[t],
						(char *)c.data + i * stx_dtype_bytes(types[t])));
		assert_true(sum == 18059);
		for (int i = 0; i < 4; i++)
			assert_true(to_double(types[t],
					      stx_scalar_load(
						      types[t],
						      (char *)c.data +
							      at[i] * stx_dtype_bytes(types[t]))) ==
				    corners[i]);
		free(c.data);
	}
}

static void test_ref_products_of_every_rank(void **s)
{
	(void)s;
	expect(RUN("%a : f32[3] = placeholder()\n%b : f32[3] = placeholder()\n%c = "
		   "matmul.default(%a, %b)\nreturn (%c,)\n",
		   make(STX_F32, DIMS(3), VALS(1, 2, 3)), make(STX_F32, DIMS(3), VALS(4, 5, 6))),
	       STX_F32, NULL, 0, VALS(32));
	expect(RUN("%a : f32[2,1,2] = placeholder()\n%b : f32[2] = placeholder()\n%c = "
		   "matmul.default(%a, %b)\nreturn (%c,)\n",
		   make(STX_F32, DIMS(2, 1, 2), VALS(1, 2, 3, 4)),
		   make(STX_F32, DIMS(2), VALS(1, 10))),
	       STX_F32, DIMS(2, 1), VALS(21, 43));
	expect(RUN("%a : f32[2,1,1,2] = placeholder()\n%b : f32[2,2,1] = placeholder()\n%c = "
		   "matmul.default(%a, %b)\nreturn (%c,)\n",
		   make(STX_F32, DIMS(2, 1, 1, 2), VALS(1, 2, 3, 4)),
		   make(STX_F32, DIMS(2, 2, 1), VALS(1, 10, 100, 1000))),
	       STX_F32, DIMS(2, 2, 1, 1), VALS(21, 2100, 43, 4300));
	expect(RUN("%c : f32[2] = placeholder()\n%a : f32[1,2] = placeholder()\n%b : f32[2,2] = "
		   "placeholder()\n"
		   "%y = addmm.default(%c, %a, %b, beta=0, alpha=2)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(2), VALS(NAN, INFINITY)),
		   make(STX_F32, DIMS(1, 2), VALS(1, 2)),
		   make(STX_F32, DIMS(2, 2), VALS(1, 2, 3, 4))),
	       STX_F32, DIMS(1, 2), VALS(14, 20));
	expect(RUN("%x : f32[2,2] = placeholder()\n%w : f32[1,2] = placeholder()\n%b : f32[1] = "
		   "placeholder()\n"
		   "%y = linear.default(%x, %w, %b)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(2, 2), VALS(1, 2, 3, 4)),
		   make(STX_F32, DIMS(1, 2), VALS(10, 1)), make(STX_F32, DIMS(1), VALS(0.5))),
	       STX_F32, DIMS(2, 1), VALS(12.5, 34.5));
	expect(RUN("%a : i8[1,2] = placeholder()\n%b : i8[2,1] = placeholder()\n%c = "
		   "mm.default(%a, %b)\nreturn (%c,)\n",
		   make(STX_I8, DIMS(1, 2), VALS(100, 3)), make(STX_I8, DIMS(2, 1), VALS(2, 1))),
	       STX_I8, DIMS(1, 1), VALS(-53));
}

/* ---- composites ---- */

/* B07's plain softmax and logsumexp */
static void test_ref_softmax_of_all_masked_is_nan(void **s)
{
	const double x[] = { -INFINITY, -INFINITY };

	(void)s;
	expect(RUN("%x : f32[2] = placeholder()\n%y = _softmax.default(%x, 0)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(2), x)),
	       STX_F32, DIMS(2), VALS(NAN, NAN));
	expect(RUN("%x : f32[2] = placeholder()\n%y = logsumexp.default(%x, [0])\nreturn (%y,)\n",
		   make(STX_F32, DIMS(2), x)),
	       STX_F32, NULL, 0, VALS(-INFINITY));
}

static void test_ref_normalisations(void **s)
{
	double e = exp(-1), z = 1 + e;

	(void)s;
	expect_near(
		RUN("%x : f32[2,2] = placeholder()\n%y = _softmax.default(%x, 1)\nreturn (%y,)\n",
		    make(STX_F32, DIMS(2, 2), VALS(1, 0, 1000, 1000))),
		STX_F32, DIMS(2, 2), VALS(1 / z, e / z, .5, .5), 2e-7);
	expect_near(RUN("%x : f32[2,1] = placeholder()\n%y = _log_softmax.default(%x, 0)\nreturn "
			"(%y,)\n",
			make(STX_F32, DIMS(2, 1), VALS(1, 0))),
		    STX_F32, DIMS(2, 1), VALS(-log(z), -1 - log(z)), 2e-7);
	expect_near(RUN("%x : f32[1,2] = placeholder()\n%w : f32[2] = placeholder()\n%b : f32[2] = "
			"placeholder()\n"
			"%y = layer_norm.default(%x, [2], %w, %b, eps=0.0)\nreturn (%y,)\n",
			make(STX_F32, DIMS(1, 2), VALS(1, 3)), make(STX_F32, DIMS(2), VALS(2, 3)),
			make(STX_F32, DIMS(2), VALS(0, 1))),
		    STX_F32, DIMS(1, 2), VALS(-2, 4), 1e-7);
}

static void test_ref_activations(void **s)
{
	static const struct {
		const char *call;
		double want[3];
	} ops[] = {
		/* of -1, 0.5, 3 */
		{ "gelu.default(%x)", { -0.15865525393145707, 0.34573123063700656, 2.9959502943 } },
		{ "gelu.default(%x, approximate='tanh')",
		  { -0.15880800939172324, 0.34571401228962, 2.9963627 } },
		{ "silu.default(%x)",
		  { -0.2689414213699951, 0.31122966560092727, 2.8577223804673 } },
		{ "leaky_relu.default(%x, 0.1)", { -0.1, 0.5, 3 } },
		{ "elu.default(%x)", { -0.6321205588285577, 0.5, 3 } },
		{ "softplus.default(%x)",
		  { 0.31326168751822286, 0.9740769841801067, 3.048587351573742 } },
		{ "hardtanh.default(%x)", { -1, 0.5, 1 } },
		{ "hardsigmoid.default(%x)", { 1. / 3, 3.5 / 6, 1 } },
		{ "hardswish.default(%x)", { -1. / 3, 1.75 / 6, 3 } },
		{ "mish.default(%x)", { -0.30340146137410895, 0.37524522, 2.98653501 } },
	};

	(void)s;
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
		char text[160];

		snprintf(text, sizeof text,
			 "%%x : f32[3] = placeholder()\n%%y = %s\nreturn (%%y,)\n", ops[i].call);
		expect_near(RUN(text, make(STX_F32, DIMS(3), VALS(-1, 0.5, 3))), STX_F32, DIMS(3),
			    ops[i].want, 1e-6);
	}
}

/* What PyTorch 2.13 gives in f64. 1 + erf and 1 + tanh cancel at -2. */
static void test_ref_gelu_backward_as_pytorch(void **s)
{
	static const double g[] = { 1, 2, -1, 3, 0.5, 1, -2 }, x[] = { -2, -1, -0.5, 0, 0.3, 2, 5 };
	static const double want[2][7] = {
		{ -0.08523180107819692, -0.1666309411753727, -0.13250487534383712, 1.5,
		  0.36616388341355494, 1.085231801078197, -2.000014293892004 },
		{ -0.0860992566236183, -0.16592816769156504, -0.13263009646535764, 1.5,
		  0.3661477258194009, 1.0860992566236183, -2.000003092723976 },
	};
	static const struct {
		enum stx_dtype t;
		double near;
	} types[] = {
		{ STX_F64, 1e-12 }, { STX_F32, 2e-5 }, { STX_F16, 1e-3 }, { STX_BF16, 8e-3 }
	};

	(void)s;
	for (int tanh = 0; tanh < 2; tanh++)
		for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
			const char *t = stx_dtype_name(types[i].t);
			double at[7];
			char text[200];

			snprintf(text, sizeof text,
				 "%%g : %s[7] = placeholder()\n%%x : %s[7] = placeholder()\n"
				 "%%y = gelu_backward.default(%%g, %%x, approximate='%s')\n"
				 "return (%%y,)\n",
				 t, t, tanh ? "tanh" : "none");
			for (int k = 0; k < 7; k++)
				at[k] = stx_scalar_round(types[i].t, x[k]);
			expect_near(RUN(text, make(types[i].t, DIMS(7), g),
					make(types[i].t, DIMS(7), at)),
				    types[i].t, DIMS(7), want[tanh], types[i].near);
		}
}

/* A composite rounds once: gelu in bf16 is the rounding of gelu in f32. */
static void test_ref_composite_rounds_once(void **s)
{
	(void)s;
	for (int i = 0; i < 500; i++) {
		double x = stx_scalar_round(STX_BF16, (i - 250) * 0.0173);
		struct stx_tensor a =
			RUN("%x : bf16[1] = placeholder()\n%y = gelu.default(%x)\nreturn (%y,)\n",
			    make(STX_BF16, DIMS(1), &x));
		struct stx_tensor b =
			RUN("%x : f32[1] = placeholder()\n%y = gelu.default(%x)\nreturn (%y,)\n",
			    make(STX_F32, DIMS(1), &x));

		assert_true(stx_scalar_load(STX_BF16, a.data).f ==
			    stx_scalar_round(STX_BF16, *(float *)b.data));
		free(a.data);
		free(b.data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ref_argreduce_nan_and_ties),
		cmocka_unit_test(test_ref_empty_reductions_give_identities),
		cmocka_unit_test(test_ref_integer_extremes),
		cmocka_unit_test(test_ref_sums_do_not_drift),
		cmocka_unit_test(test_ref_variance_divisor),
		cmocka_unit_test(test_ref_matmul_exact_sums),
		cmocka_unit_test(test_ref_products_of_every_rank),
		cmocka_unit_test(test_ref_softmax_of_all_masked_is_nan),
		cmocka_unit_test(test_ref_normalisations),
		cmocka_unit_test(test_ref_activations),
		cmocka_unit_test(test_ref_gelu_backward_as_pytorch),
		cmocka_unit_test(test_ref_composite_rounds_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
