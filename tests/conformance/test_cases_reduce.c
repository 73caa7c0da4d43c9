/* test_cases_reduce.c: reductions and products that broke other compilers (shared cases B01, B03,
 * B05, B07, B41, B43, B61) and the associated items of the conformance list. */
#include "cases.h"

/* A row of n values: v at its start or at its end, the rest `pad`. */
static void row(double *x, int64_t n, const double *v, int64_t nv, double pad, int at_end)
{
	for (int64_t i = 0; i < n; i++)
		x[i] = pad;
	memcpy(x + (at_end ? n - nv : 0), v, (size_t)nv * sizeof *v);
}

static void check_arg(const char *op, const char *type, const double *v, int64_t nv, double pad,
		      int64_t want)
{
	static const int64_t lengths[] = { 0, 2, 17, 64, 65, 1025, 5000 };
	char text[256];
	double x[5000];
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		int64_t n = lengths[i] ? lengths[i] : nv;
		if (n < nv)
			continue;
		snprintf(text, sizeof text,
			 "%%x : %s[@] = placeholder()\n%%l = %s\n%%i = %s.default(%%l)\nreturn "
			 "(%%i,)\n",
			 type, strstr(op, "log1p") ? "log1p.default(%x)" : "clone.default(%x)",
			 strstr(op, "argmax") ? "argmax" : "argmin");
		for (int end = 0; end < 2; end++) {
			row(x, n, v, nv, pad, end);
			double at = (double)(want + (end ? n - nv : 0));
			case_check_at(&(struct stated){ .text = text,
							.in = { { x, n } },
							.out = { { &at, 1 } } },
				      n);
		}
	}
}

/* B01, RD-06: NaN beats everything, the first NaN wins */
static void test_argreduce_the_first_nan_wins(void **state)
{
	static const double nans[] = { 5, NAN, -1, NAN }, late[] = { 0, NAN }, early[] = { NAN, 0 },
			    logs[] = { -2, 100 };
	(void)state;
	check_arg("argmax log1p", "f32", logs, 2, 3, 0);
	check_arg("argmin", "f32", nans, 4, 0, 1);
	check_arg("argmax", "f32", nans, 4, 0, 1);
	check_arg("argmin", "f64", late, 2, 1, 1);
	check_arg("argmin", "f32", late, 2, -1, 1);
	check_arg("argmin", "f32", early, 2, -3, 0);
	check_arg("argmax", "f16", late, 2, 7, 1);
	check_arg("argmax", "bf16", early, 2, 7, 0);
}

/* RD-03: equal values: the smaller index, across lanes and chunks */
static void test_argreduce_ties_give_the_smaller_index(void **state)
{
	static const int64_t lengths[] = { 3, 17, 64, 65, 1025, 5000 };
	static const char *const types[] = { "f32", "i32", "u8", "f64", "bf16" };
	static const double pair[] = { 4, 4 };
	char text[160];
	(void)state;
	for (int t = 0; t < 5; t++) {
		snprintf(text, sizeof text,
			 "%%x : %s[@] = placeholder()\n%%a = argmax.default(%%x)\n"
			 "%%b = argmin.default(%%x)\nreturn (%%a, %%b)\n",
			 types[t]);
		for (int i = 0; i < 6; i++)
			case_check_at(&(struct stated){ .text = text,
							.in = { V(4) },
							.out = { V(0), V(0) } },
				      lengths[i]);
	}
	check_arg("argmax", "f32", pair, 2, 3, 0);
	check_arg("argmin", "i64", pair, 2, 5, 0);
}

/* B03, RD-02 */
static void test_empty_reduce_gives_the_identity(void **state)
{
	(void)state;
	case_check(
		&(struct stated){ .text = "%a : f32[4,0] = placeholder()\n%b : f32[0,4] = "
					  "placeholder()\n%c = mm.default(%a, %b)\nreturn (%c,)\n",
				  .out = { V(0) },
				  .shape = { "4,4" } });
	case_check(&(struct stated){ .text = "%x : f32[3,0] = placeholder()\n%s = "
					     "sum.dim_IntList(%x, [1])\n%p = prod.dim_int(%x, 1)\n"
					     "%y = any.dims(%x, [1])\n%l = all.dims(%x, [1])\n%m = "
					     "mean.dim(%x, [1])\n%e = logsumexp.default(%x, [1])\n"
					     "return (%s, %p, %y, %l, %m, %e)\n",
				     .out = { V(0), V(1), V(0), V(1), V(NAN), V(-INFINITY) },
				     .shape = { "3", "3", "3", "3", "3", "3" } });
}

/* B03: operands whose strides leave the reduced dimension out must not be read either */
static void test_empty_reduce_reads_nothing(void **state)
{
	const struct values none = V(0);
	(void)state;
	case_check(&(struct stated){
		.text = "%a : f64[1,0] = placeholder(strides=[1,0])\n%b : f64[0,1] = "
			"placeholder()\n"
			"%c = mm.default(%a, %b)\n%s = sum.dim_IntList(%a, [1])\nreturn (%c, %s)\n",
		.in = { none, none },
		.out = { V(0), V(0) },
		.shape = { "1,1", "1" } });
}

static const double P[18] = { 5, 1, 100, 3, 7, 8, 9, 13, 100, 120, 127, 2, 6, 4, 11, 12, 90, 80 };

static void check_extremes(const char *type, double sign, int64_t n)
{
	double x[65] = { 0 }, want[4] = { 0 };
	for (int64_t i = 0; i < n; i++) {
		x[i] = sign * P[i % 18];
		if (x[i] < x[(int)want[2]])
			want[2] = (double)i;
		if (x[i] > x[(int)want[3]])
			want[3] = (double)i;
	}
	want[0] = x[(int)want[2]];
	want[1] = x[(int)want[3]];
	if (n == 18) { /* the stated values */
		assert_true(want[0] == (sign > 0 ? 1 : -127) && want[2] == (sign > 0 ? 1 : 10));
		assert_true(want[1] == (sign > 0 ? 127 : -1) && want[3] == (sign > 0 ? 10 : 1));
	}
	char text[320];
	snprintf(text, sizeof text,
		 "%%x : %s[@] = placeholder()\n%%a = amin.default(%%x)\n%%b = amax.default(%%x)\n"
		 "%%c = argmin.default(%%x)\n%%d = argmax.default(%%x)\nreturn (%%a, %%b, %%c, "
		 "%%d)\n",
		 type);
	case_check_at(
		&(struct stated){
			.text = text,
			.in = { { x, n } },
			.out = { { want, 1 }, { want + 1, 1 }, { want + 2, 1 }, { want + 3, 1 } } },
		n);
}

/* B05 */
static void test_reduce_identity_of_the_type_fills_partial_vectors(void **state)
{
	static const int64_t lengths[] = { 18, 15, 16, 17, 31, 33, 63, 65 };
	(void)state;
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		check_extremes("u8", 1, lengths[i]);
		check_extremes("i8", 1, lengths[i]);
		check_extremes("i8", -1, lengths[i]);
		check_extremes("i64", -1, lengths[i]);
	}
}

/* SE-16: infinities are values like others; -0 < +0 (NUMERICS) */
static void test_reduce_identity_of_floats_is_infinite(void **state)
{
	(void)state;
	for (int64_t n = 1; n <= 65; n += 16) {
		case_check_at(&(struct stated){ .text = "%x : f32[@] = placeholder()\n%a = "
							"amax.default(%x)\nreturn (%a,)\n",
						.in = { V(-INFINITY) },
						.out = { V(-INFINITY) } },
			      n);
		case_check_at(&(struct stated){ .text = "%x : f16[@] = placeholder()\n%a = "
							"amin.default(%x)\nreturn (%a,)\n",
						.in = { V(INFINITY) },
						.out = { V(INFINITY) } },
			      n);
	}
	case_check_at(
		&(struct stated){ .text = "%x : f32[@] = placeholder()\n%a = amax.default(%x)\n%b "
					  "= amin.default(%x)\nreturn (%a, %b)\n",
				  .in = { V(-0.0, 0.0) },
				  .out = { V(0.0), V(-0.0) } },
		18);
}

/* B07, the part without attention */
static void test_attention_mask_softmax_of_nothing_is_nan(void **state)
{
	(void)state;
	case_check(
		&(struct stated){ .text = "%x : f32[2] = placeholder()\n%s = _softmax.default(%x, "
					  "0)\n%l = logsumexp.default(%x, [0])\n"
					  "return (%s, %l)\n",
				  .in = { V(-INFINITY) },
				  .out = { V(NAN, NAN), V(-INFINITY) } });
}

/* DF-02: no overflow for inputs of 1e4 */
static void test_softmax_large_inputs_do_not_overflow(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%x : f32[2,4] = placeholder()\n%s = _softmax.default(%x, 1)\n%l = "
			"_log_softmax.default(%x, 1)\n"
			"return (%s, %l)\n",
		.in = { V(1e4, 1e4, 1e4, 1e4, 1e4, 0, -1e4, 0) },
		.out = { V(0.25, 0.25, 0.25, 0.25, 1, 0, 0, 0),
			 V(-1.3862944, -1.3862944, -1.3862944, -1.3862944, 0, -1e4, -2e4, -1e4) },
		.rtol = 1e-6 });
}

/* B41 (a): 300,000,000 ones (one element, expanded); (b) a million tenths; (c) 3e9 ones */
static void test_accumulation_does_not_stall(void **state)
{
	struct compiled c;
	struct stx_diag d = { 0 };
	struct stx_tensor in = { .dtype = STX_F32, .rank = 1, .sizes = { 1 }, .strides = { 1 } },
			  out[2];
	float one = 1;
	const char *const *targets = compiled_targets();
	(void)state;
	while (targets[1])
		targets++;
	in.data = &one;
	if (compiled_build("%x : f32[1] = placeholder()\n%e = expand.default(%x, [300000000])\n%s "
			   "= sum.default(%e)\n"
			   "%m = mean.default(%e)\nreturn (%s, %m)\n",
			   targets[0], COMPILED_FUSED, &c, &d) ||
	    compiled_run(&c, COMPILED_SERIAL, &in, 1, out, &d))
		fail_msg("%s: %s", d.stage, d.text);
	assert_true(*(float *)out[0].data == 300000000.0f);
	assert_true(*(float *)out[1].data == 1.0f);
	compiled_free_outputs(out, 2);
	compiled_free(&c);
	/* (c): more elements than 31 bits count; the whole pool, which must not change the result
	 */
	if (compiled_build("%x : f32[1] = placeholder()\n%e = expand.default(%x, [3000000000])\n"
			   "%m = mean.default(%e)\nreturn (%m,)\n",
			   targets[0], COMPILED_FUSED, &c, &d) ||
	    compiled_run(&c, COMPILED_POOL, &in, 1, out, &d))
		fail_msg("%s: %s", d.stage, d.text);
	assert_true(*(float *)out[0].data == 1.0f);
	compiled_free_outputs(out, 1);
	compiled_free(&c);
	case_check(&(struct stated){
		.text = "%x : f32[1000000] = placeholder()\n%s = sum.default(%x)\nreturn (%s,)\n",
		.in = { V(0.1) },
		.out = { V(100000.0015) },
		.atol = 0.02,
		.skip = CASE_NO_FOLD });
	case_check(&(struct stated){ /* along an axis that is not the innermost in memory */
				     .text = "%x : f32[1000000,3] = placeholder()\n%s = "
					     "sum.dim_IntList(%x, [0])\nreturn (%s,)\n",
				     .in = { V(0.1) },
				     .out = { V(100000.0015) },
				     .atol = 0.02,
				     .skip = CASE_NO_FOLD | CASE_NO_UNFUSED });
}

/* B43 */
static void test_variance_divisor_is_not_negative(void **state)
{
	static const char *const corrections[] = { "0", "1", "2.5", "3", "5" };
	static const double want[] = { 1.5555556, 2.3333333, 9.3333333, INFINITY, INFINITY };
	(void)state;
	for (int i = 0; i < 5; i++) {
		char text[160];
		snprintf(text, sizeof text,
			 "%%x : f32[3] = placeholder()\n%%v = var.correction(%%x, [0], "
			 "correction=%s)\n"
			 "return (%%v,)\n",
			 corrections[i]);
		case_check(&(struct stated){ .text = text,
					     .in = { V(1, 2, 4) },
					     .out = { { &want[i], 1 } },
					     .rtol = 1e-6 });
	}
	case_check(&(struct stated){ .text = "%x : f32[] = placeholder()\n%v = var.correction(%x, "
					     "None, correction=4.9)\n"
					     "%w = var.correction(%x, None, correction=1)\n%m = "
					     "mean.default(%x)\nreturn (%v, %w, %m)\n",
				     .in = { V(7) },
				     .out = { V(NAN), V(NAN), V(7) } });
	case_check(&(struct stated){ .text = "%x : f32[] = placeholder()\n%v = "
					     "var_mean.correction(%x, None, correction=4.9)\n"
					     "%w = var_mean.correction(%x, None, correction=1)\n"
					     "return (%v, %v:1, %w, %w:1)\n",
				     .in = { V(7) },
				     .out = { V(NAN), V(7), V(NAN), V(7) } });
	case_check(&(struct stated){ .text = "%x : f32[2,0] = placeholder()\n%v = "
					     "var_mean.correction(%x, [1], correction=-2)\n"
					     "return (%v, %v:1)\n",
				     .out = { V(0), V(NAN) } });
}

/* RD-04 */
static void test_variance_is_one_pass_of_triples(void **state)
{
	(void)state;
	for (int64_t n = 1; n <= 2000; n = n * 7 + 1) /* repeated n times: the same mean */
		case_check_at(&(struct stated){ .text = "%x : f64[@,8] = placeholder()\n%v = "
							"var_mean.correction(%x, [0, 1], "
							"correction=0)\n%s = std.correction(%x, "
							"[0, 1], correction=0)\n%d = "
							"var.dim(%x, [0], False)\n"
							"return (%v, %v:1, %s, %d)\n",
						.in = { V(2, 4, 4, 4, 5, 5, 7, 9) },
						.out = { V(4), V(5), V(2), V(0) },
						.atol = 1e-28,
						.rtol = 1e-13 },
			      n);
}

/* MR-05, B07: long rows go by pairs of maximum and sum; nothing of what holds for short ones
 * changes. */
static void test_softmax_of_long_rows_is_online(void **state)
{
	static const double tops[] = { 0, -1e4, 1e4, -INFINITY, INFINITY, NAN };
	const int64_t n = 262145, rows = 16; /* row r has top r mod 6 */
	double *x = calloc((size_t)(n * rows), sizeof *x),
	       *y = calloc((size_t)(n * rows), sizeof *y);
	double all[16];
	(void)state;
	for (int64_t r = 0; r < rows; r++) {
		int64_t i = r % 6;
		for (int64_t k = r * n; k < r * n + n; k++) {
			x[k] = i == 3 ? -INFINITY : i ? -20000 : 0;
			y[k] = i == 0 ? 1. / (double)n : i < 3 ? 0 : NAN;
		}
		x[r * n + n / 2] = tops[i];
		if (i == 1 || i == 2)
			y[r * n + n / 2] = 1;
		all[r] = i == 0 ? log((double)n) : tops[i];
	}
	case_check_at(&(struct stated){ .text = "%x : f64[16,@] = placeholder()\n%a = "
						"_softmax.default(%x, 1, False)\n%l = "
						"logsumexp.default(%x, [1])\n%c = "
						"_log_softmax.default(%x, 1, False)\n"
						"%e = exp.default(%c)\nreturn (%a, %l, %e)\n",
					.in = { { x, n * rows } },
					.out = { { y, n * rows }, { all, rows }, { y, n * rows } },
					.rtol = 1e-11,
					.atol = 1e-300,
					.skip = CASE_NO_FOLD },
		      n);
	free(x);
	free(y);
}

/* RD-03, RD-06, B01 */
static void test_extreme_pairs_are_of_one_element(void **state)
{
	static const int64_t lengths[] = { 3, 17, 64, 65, 1025, 4097 };
	(void)state;
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		int64_t n = lengths[i];
		const char *text = "%x : f32[@] = placeholder()\n%a = max.dim(%x, 0)\n%b = "
				   "min.dim(%x, -1, True)\nreturn (%a, %a:1, %b, %b:1)\n";
		double *x = calloc((size_t)n, sizeof *x), last = (double)n - 1;
		struct stated s = { .text = text,
				    .in = { { x, n } },
				    .out = { V(0), V(0), V(0), V(0) } };
		case_check_at(&s, n); /* all equal: the first */
		x[n - 1] = 7;
		x[1] = -0.0; /* equal to 0 */
		s.out[0] = (struct values){ &x[n - 1], 1 };
		s.out[1] = (struct values){ &last, 1 };
		case_check_at(&s, n);
		x[1] = x[2] = NAN;
		s.out[0] = s.out[2] = (struct values){ &x[1], 1 };
		s.out[1] = s.out[3] = (struct values)V(1);
		case_check_at(&s, n);
		free(x);
	}
	case_check(&(struct stated){ .text = "%x : bool[2,3] = placeholder()\n%a = max.dim(%x, "
					     "1)\n%b = min.dim(%x, 0)\nreturn (%a, %a:1, %b, "
					     "%b:1)\n",
				     .in = { V(0, 1, 1, 0, 0, 0) },
				     .out = { V(1, 0), V(1, 0), V(0, 0, 0), V(0, 1, 1) } });
	case_check(&(struct stated){ .text = "%x : i8[] = placeholder()\n%a = max.dim(%x, 0)\n"
					     "return (%a, %a:1)\n",
				     .in = { V(-5) },
				     .out = { V(-5), V(0) } });
}

static void test_reduce_all_elements_and_one_dimension(void **state)
{
	(void)state;
	case_check(&(struct stated){ .text = "%x : i8[2,3] = placeholder()\n%a = prod.default(%x)"
					     "\n%b = any.dim(%x, 1)\n%c = all.dim(%x, 0, True)\n"
					     "%d = prod.default(%x, dtype=bool)\n"
					     "return (%a, %b, %c, %d)\n",
				     .in = { V(-2, 3, 5, 0, 1, 0) },
				     .shape = { "", "2", "1,3", "" },
				     .out = { V(0), V(1, 1), V(0, 1, 0), V(0) } });
	case_check(&(struct stated){ .text = "%x : f32[0,3] = placeholder()\n%a = "
					     "prod.default(%x)\n%b = any.dim(%x, 0)\n%c = "
					     "all.dim(%x, -2)\nreturn (%a, %b, %c)\n",
				     .out = { V(1), V(0), V(1) } });
	case_check(&(struct stated){ .text = "%x : bool[] = placeholder()\n%a = any.dim(%x, 0)\n"
					     "return (%a,)\n",
				     .in = { V(1) },
				     .out = { V(1) } });
}

static int next_order(double *v, int n)
{
	int i = n - 2, j = n - 1;
	while (i >= 0 && v[i] >= v[i + 1])
		i--;
	if (i < 0)
		return 0;
	while (v[j] <= v[i])
		j--;
	double t = v[i];
	v[i] = v[j];
	v[j] = t;
	for (i++, j = n - 1; i < j; i++, j--) {
		t = v[i];
		v[i] = v[j];
		v[j] = t;
	}
	return 1;
}

/* RD-04: 2,4,4,4,5,5,7,9 is (8, 5.0, 32.0) in every order of its elements, along a row, and along
 * a row of two parts, and repeated so that lanes and chunks merge. */
static void test_variance_triple_in_every_order(void **state)
{
	enum { ORDERS = 3360 };
	static double x[ORDERS * 8];
	double v[8] = { 2, 4, 4, 4, 5, 5, 7, 9 };
	int n = 0;
	(void)state;
	do
		memcpy(x + 8 * n, v, sizeof v);
	while (++n < ORDERS && next_order(v, 8));
	assert_int_equal(n, ORDERS);
	assert_false(next_order(v, 8));
	case_check(&(struct stated){
		.text = "%x : f64[3360,8] = placeholder()\n%r = permute.default(%x, [1, 0])\n"
			"%p = view.default(%x, [3360, 2, 4])\n"
			"%a = var_mean.correction(%x, [1], correction=0)\n"
			"%b = var_mean.correction(%p, [1, 2], correction=0)\n"
			"%c = var_mean.correction(%r, [0], correction=0)\n"
			"%d = var_mean.correction(%x, [0, 1], correction=0)\n"
			"%m = mul.Scalar(%a, 8)\n%n = mul.Scalar(%b, 8)\n%o = mul.Scalar(%c, 8)\n"
			"%q = mul.Scalar(%d, 8)\n"
			"return (%m, %a:1, %n, %b:1, %o, %c:1, %q, %d:1)\n",
		.in = { { x, ORDERS * 8 } },
		.out = { V(32), V(5), V(32), V(5), V(32), V(5), V(32), V(5) },
		.rtol = 1e-14 });
}

/* RD-04: population variance of 2,4,4,4,5,5,7,9 is 4 */
static void test_variance_of_the_textbook_row(void **state)
{
	(void)state;
	case_check(&(struct stated){ .text = "%x : f32[8] = placeholder()\n%v = var.correction(%x, "
					     "None, correction=0)\n%m = mean.default(%x)\n"
					     "return (%v, %m)\n",
				     .in = { V(2, 4, 4, 4, 5, 5, 7, 9) },
				     .out = { V(4), V(5) } });
}

/* B61: exact in f32, f16, bf16 and integers; sums and corners stated. Memory around is guarded by
 * every run. */
static void check_tile(const char *type, int m, int n, int k, double total, const double *corners)
{
	double *a = malloc((size_t)(m * k + k * n + m * n) * sizeof *a), *b = a + m * k,
	       *c = b + k * n, sum = 0;
	char text[256];
	for (int i = 0; i < m; i++)
		for (int j = 0; j < k; j++)
			a[i * k + j] = (3 * i + 5 * j) % 7 - 3 + j % 2;
	for (int i = 0; i < k; i++)
		for (int j = 0; j < n; j++)
			b[i * n + j] = (2 * i + 11 * j) % 5 - 1;
	for (int i = 0; i < m; i++)
		for (int j = 0; j < n; j++) {
			double s = 0;
			for (int l = 0; l < k; l++)
				s += a[i * k + l] * b[l * n + j];
			c[i * n + j] = s;
			sum += s;
		}
	assert_true(sum == total && c[0] == corners[0] && c[m * n - 1] == corners[1] &&
		    c[(m - 1) * n] == corners[2] && c[n - 1] == corners[3]);
	snprintf(text, sizeof text,
		 "%%a : %s[%d,%d] = placeholder()\n%%b : %s[%d,%d] = placeholder()\n"
		 "%%c = mm.default(%%a, %%b)\n%%d = _to_copy.default(%%c, dtype=f64)\nreturn "
		 "(%%d,)\n",
		 type, m, k, type, k, n);
	case_check(
		&(struct stated){ .text = text,
				  .in = { { a, m * k }, { b, k * n } },
				  .out = { { c, m * n } },
				  .skip = CASE_NO_FOLD | (m * n > 10000 ? CASE_NO_UNFUSED : 0) });
	free(a);
}

/* (1000,999,1001) on the host's own level only: 1e9 products. */
static void check_large_tile(void)
{
	enum { M = 1000, N = 999, K = 1001 };
	float *a = malloc(M * K * sizeof *a), *b = malloc(K * N * sizeof *b);
	struct stx_tensor in[2] = { { .data = a, .dtype = STX_F32, .rank = 2, .sizes = { M, K } },
				    { .data = b, .dtype = STX_F32, .rank = 2, .sizes = { K, N } } };
	struct stx_tensor out[1];
	struct compiled c;
	struct stx_diag d = { 0 };
	const char *const *targets = compiled_targets();
	double sum = 0;
	while (targets[1])
		targets++;
	for (int i = 0; i < M * K; i++)
		a[i] = (float)((3 * (i / K) + 5 * (i % K)) % 7 - 3 + i % K % 2);
	for (int i = 0; i < K * N; i++)
		b[i] = (float)((2 * (i / N) + 11 * (i % N)) % 5 - 1);
	compiled_dense(&in[0]);
	compiled_dense(&in[1]);
	if (compiled_build("%a : f32[1000,1001] = placeholder()\n%b : f32[1001,999] = "
			   "placeholder()\n%c = mm.default(%a, %b)\nreturn (%c,)\n",
			   targets[0], COMPILED_FUSED, &c, &d) ||
	    compiled_run(&c, COMPILED_POOL, in, 2, out, &d))
		fail_msg("%s: %s", d.stage, d.text);
	const float *y = out[0].data;
	for (int i = 0; i < M * N; i++)
		sum += y[i];
	assert_true(sum == 499499997);
	assert_true(y[0] == 497 && y[M * N - 1] == 500 && y[(M - 1) * N] == 495 && y[N - 1] == 492);
	compiled_free_outputs(out, 1);
	compiled_free(&c);
	free(a);
	free(b);
}

static void test_tile_products_of_odd_sizes_are_exact(void **state)
{
	(void)state;
	check_tile("f32", 17, 33, 65, 18059, (const double[]){ 26, 43, 31, 38 });
	check_tile("f16", 17, 33, 65, 18059, (const double[]){ 26, 43, 31, 38 });
	check_tile("bf16", 17, 33, 65, 18059, (const double[]){ 26, 43, 31, 38 });
	check_tile("i32", 17, 33, 65, 18059, (const double[]){ 26, 43, 31, 38 });
	check_tile("f64", 1, 1, 1, 3, (const double[]){ 3, 3, 3, 3 });
	check_tile("f32", 511, 1024, 96, 25117183, (const double[]){ 38, 55, 29, 52 });
	check_large_tile();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_argreduce_the_first_nan_wins),
		cmocka_unit_test(test_argreduce_ties_give_the_smaller_index),
		cmocka_unit_test(test_empty_reduce_gives_the_identity),
		cmocka_unit_test(test_empty_reduce_reads_nothing),
		cmocka_unit_test(test_reduce_identity_of_the_type_fills_partial_vectors),
		cmocka_unit_test(test_reduce_identity_of_floats_is_infinite),
		cmocka_unit_test(test_attention_mask_softmax_of_nothing_is_nan),
		cmocka_unit_test(test_softmax_large_inputs_do_not_overflow),
		cmocka_unit_test(test_accumulation_does_not_stall),
		cmocka_unit_test(test_variance_divisor_is_not_negative),
		cmocka_unit_test(test_variance_is_one_pass_of_triples),
		cmocka_unit_test(test_softmax_of_long_rows_is_online),
		cmocka_unit_test(test_extreme_pairs_are_of_one_element),
		cmocka_unit_test(test_reduce_all_elements_and_one_dimension),
		cmocka_unit_test(test_variance_of_the_textbook_row),
		cmocka_unit_test(test_variance_triple_in_every_order),
		cmocka_unit_test(test_tile_products_of_odd_sizes_are_exact),
	};
	return cmocka_run_group_tests(tests, case_setup, NULL);
}
