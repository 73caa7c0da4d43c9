/* The oracle against values computed by hand, operator family by operator family. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include "passes.h"
#include "ref.h"
#include "scalar.h"

#define DIMS(...) ((const int64_t[]){ __VA_ARGS__ }), (int)(sizeof((const int64_t[]){ __VA_ARGS__ }) / 8)
#define VALS(...) ((const double[]){ __VA_ARGS__ })

/* ---- helpers: tensors given as doubles ---- */

static int64_t count_of(const struct stx_tensor *t)
{
	int64_t n = 1;

	for (int i = 0; i < t->rank; i++)
		n *= t->sizes[i];
	return n;
}

static union stx_scalar from_double(enum stx_dtype t, double v)
{
	if (stx_dtype_is_float(t))
		return (union stx_scalar){ .f = stx_scalar_round(t, v) };
	return v < 0 ? stx_scalar_wrap(t, (uint64_t)(int64_t)v) : stx_scalar_wrap(t, (uint64_t)v);
}

static double to_double(enum stx_dtype t, union stx_scalar v)
{
	switch (stx_dtype_kind(t)) {
	case STX_KIND_FLOAT: return v.f;
	case STX_KIND_UINT: return (double)v.u;
	default: return (double)v.i;
	}
}

static struct stx_tensor make(enum stx_dtype t, const int64_t *sizes, int rank, const double *v)
{
	struct stx_tensor x = { .dtype = (uint8_t)t, .rank = (uint8_t)rank };
	int64_t n = 1;

	for (int i = rank; i-- > 0;) {
		x.sizes[i] = sizes[i];
		x.strides[i] = n;
		n *= sizes[i] ? sizes[i] : 1;
	}
	x.data = calloc((size_t)n + 1, 8);
	for (int64_t i = 0; i < count_of(&x); i++)
		stx_scalar_store(t, (char *)x.data + i * stx_dtype_bytes(t), from_double(t, v[i]));
	return x;
}

static stx_err evaluate(const char *text, struct stx_tensor *in, uint32_t nin, struct stx_tensor *out,
                        struct stx_diag *d)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = NULL;
	stx_err e = stx_graph_parse(a, text, strlen(text), &g, d);

	if (e)
		print_message("%s %s\n", d->location, d->text);
	assert_int_equal(e, 0);
	assert_int_equal(stx_graph_verify(g, d), 0);
	e = stx_ref_evaluate(g, in, nin, out, 0, d);
	stx_arena_free(a);
	return e;
}

/* Evaluates a graph of one output on inputs, which are freed. */
static struct stx_tensor run(const char *text, struct stx_tensor *in, uint32_t nin)
{
	struct stx_diag d = { 0 };
	struct stx_tensor out;
	stx_err e = evaluate(text, in, nin, &out, &d);

	if (e)
		print_message("%s\n", d.text);
	assert_int_equal(e, 0);
	for (uint32_t i = 0; i < nin; i++)
		free(in[i].data);
	return out;
}
#define RUN(text, ...) run(text, (struct stx_tensor[]){ __VA_ARGS__ }, sizeof((struct stx_tensor[]){ __VA_ARGS__ }) / sizeof(struct stx_tensor))

static stx_err run_error(const char *text, struct stx_tensor *in, uint32_t nin, struct stx_diag *d)
{
	struct stx_tensor out = { 0 };
	stx_err e = evaluate(text, in, nin, &out, d);

	assert_null(out.data);
	for (uint32_t i = 0; i < nin; i++)
		free(in[i].data);
	return e;
}

/* Exactly these values (after rounding to the type), NaN and signs of zero included, and this shape. */
static void expect_near(struct stx_tensor got, enum stx_dtype t, const int64_t *sizes, int rank, const double *v,
                        double rtol)
{
	assert_int_equal(got.dtype, t);
	assert_int_equal(got.rank, rank);
	for (int i = 0; i < rank; i++)
		assert_int_equal(got.sizes[i], sizes[i]);
	for (int64_t i = 0; i < count_of(&got); i++) {
		double g = to_double(t, stx_scalar_load(t, (char *)got.data + i * stx_dtype_bytes(t)));
		double w = to_double(t, from_double(t, v[i]));
		int ok = isnan(w) ? isnan(g) : rtol > 0 ? fabs(g - w) <= rtol * fabs(w) : g == w && !signbit(g) == !signbit(w);

		if (!ok)
			fail_msg("element %lld is %.17g, wanted %.17g", (long long)i, g, w);
	}
	free(got.data);
}

static void expect(struct stx_tensor got, enum stx_dtype t, const int64_t *sizes, int rank, const double *v)
{
	expect_near(got, t, sizes, rank, v, 0);
}

/* ---- pointwise ---- */

static void test_ref_broadcast_add_alpha(void **s)
{
	(void)s;
	expect(RUN("%a : f32[2,1] = placeholder()\n%b : f32[3] = placeholder()\n"
	           "%c = add.Tensor(%a, %b, alpha=2)\nreturn (%c,)\n",
	           make(STX_F32, DIMS(2, 1), VALS(1, 10)), make(STX_F32, DIMS(3), VALS(1, 2, 3))),
	       STX_F32, DIMS(2, 3), VALS(3, 5, 7, 12, 14, 16));
}

/* SE-06: x = 1 + 2^-12: x*x - (1 + 2^-11) is 0 when the product is rounded, 2^-24 when it is contracted. */
static void test_ref_multiply_subtract_rounds_between(void **s)
{
	double x = 1 + 0x1p-12;

	(void)s;
	expect(RUN("%x : f32[1] = placeholder()\n%p = mul.Tensor(%x, %x)\n%r = sub.Scalar(%p, 1.00048828125)\n"
	           "return (%r,)\n", make(STX_F32, DIMS(1), &x)), STX_F32, DIMS(1), VALS(0));
}

/* B27 */
static void test_ref_integer_division_modes(void **s)
{
	const double a[] = { -7, 7, -7, 7, 0, -1, 5 }, b[] = { 2, -2, -2, 2, -3, 3, -5 };
	const enum stx_dtype types[] = { STX_I32, STX_I64 };
	static const struct { const char *call; double want[7]; } ops[] = {
		{ "div.Tensor_mode(%a, %b, rounding_mode='floor')", { -4, -4, 3, 3, 0, -1, -1 } },
		{ "floor_divide.default(%a, %b)", { -4, -4, 3, 3, 0, -1, -1 } },
		{ "remainder.Tensor(%a, %b)", { 1, -1, -1, 1, 0, 2, 0 } },
		{ "fmod.Tensor(%a, %b)", { -1, 1, -1, 1, 0, -1, 0 } },
		{ "div.Tensor_mode(%a, %b, rounding_mode='trunc')", { -3, -3, 3, 3, 0, 0, -1 } },
	};

	(void)s;
	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
			char text[256];
			const char *n = stx_dtype_name(types[k]);

			snprintf(text, sizeof text, "%%a : %s[7] = placeholder()\n%%b : %s[7] = placeholder()\n%%c = %s\nreturn (%%c,)\n", n, n, ops[i].call);
			expect(RUN(text, make(types[k], DIMS(7), a), make(types[k], DIMS(7), b)), types[k], DIMS(7), ops[i].want);
		}
}

/* B29 */
static void test_ref_float_floor_division_uses_fmod(void **s)
{
	const double a[] = { 1, .5, 6, 1, -1 }, b[] = { .1, .1, .2, 1. / 3, .1 };

	(void)s;
	expect(RUN("%a : f32[5] = placeholder()\n%b : f32[5] = placeholder()\n"
	           "%c = div.Tensor_mode(%a, %b, rounding_mode='floor')\nreturn (%c,)\n",
	           make(STX_F32, DIMS(5), a), make(STX_F32, DIMS(5), b)), STX_F32, DIMS(5), VALS(9, 4, 29, 2, -10));
	expect(RUN("%a : f64[5] = placeholder()\n%b : f64[5] = placeholder()\n"
	           "%c = div.Tensor_mode(%a, %b, rounding_mode='floor')\nreturn (%c,)\n",
	           make(STX_F64, DIMS(5), a), make(STX_F64, DIMS(5), b)), STX_F64, DIMS(5), VALS(9, 4, 29, 3, -10));
}

/* B31 */
static void test_ref_small_integers_wrap(void **s)
{
	(void)s;
	expect(RUN("%x : u8[1] = placeholder()\n%y = add.Tensor(%x, %x)\n%z = _to_copy.default(%y, dtype=i16)\n"
	           "return (%z,)\n", make(STX_U8, DIMS(1), VALS(128))), STX_I16, DIMS(1), VALS(0));
	expect(RUN("%x : u8[1] = placeholder()\n%y = neg.default(%x)\nreturn (%y,)\n",
	           make(STX_U8, DIMS(1), VALS(6))), STX_U8, DIMS(1), VALS(250));
	expect(RUN("%x : u8[1] = placeholder()\n%y = neg.default(%x)\n%z = lt.Scalar(%y, 4)\nreturn (%z,)\n",
	           make(STX_U8, DIMS(1), VALS(6))), STX_BOOL, DIMS(1), VALS(0));
	expect(RUN("%x : i8[1] = placeholder()\n%n : i8[1] = placeholder()\n%y = bitwise_right_shift.Tensor(%x, %n)\n"
	           "return (%y,)\n", make(STX_I8, DIMS(1), VALS(-128)), make(STX_I8, DIMS(1), VALS(1))),
	       STX_I8, DIMS(1), VALS(-64));
	expect(RUN("%x : u8[1] = placeholder()\n%n : u8[1] = placeholder()\n%y = bitwise_left_shift.Tensor(%x, %n)\n"
	           "return (%y,)\n", make(STX_U8, DIMS(1), VALS(200)), make(STX_U8, DIMS(1), VALS(1))),
	       STX_U8, DIMS(1), VALS(144));
}

/* B35, wrap policy */
static void test_ref_float_to_small_integers_goes_through_i32(void **s)
{
	const double x[] = { 300, NAN, INFINITY, -INFINITY, 50, -50, -129, 127.9, -0.9, 255.5, 256 };

	(void)s;
	expect(RUN("%x : f32[11] = placeholder()\n%y = _to_copy.default(%x, dtype=i8)\nreturn (%y,)\n",
	           make(STX_F32, DIMS(11), x)), STX_I8, DIMS(11), VALS(44, 0, 0, 0, 50, -50, 127, 127, 0, -1, 0));
	expect(RUN("%x : f32[11] = placeholder()\n%y = _to_copy.default(%x, dtype=u8)\nreturn (%y,)\n",
	           make(STX_F32, DIMS(11), x)), STX_U8, DIMS(11), VALS(44, 0, 0, 0, 50, 206, 127, 127, 0, 255, 0));
}

/* B37 */
static void test_ref_written_narrowing_is_kept(void **s)
{
	double x[20];
	struct stx_tensor y;

	(void)s;
	for (int i = 0; i < 20; i++)
		x[i] = (float)i / 7.0f;
	y = RUN("%x : f32[20] = placeholder()\n%h = _to_copy.default(%x, dtype=f16)\n"
	        "%y = _to_copy.default(%h, dtype=f32)\nreturn (%y,)\n", make(STX_F32, DIMS(20), x));
	assert_true(((float *)y.data)[1] == 0.142822265625f && ((float *)y.data)[2] == 0.28564453125f);
	assert_true(((float *)y.data)[5] == 0.71435546875f && ((float *)y.data)[19] == 2.71484375f);
	free(y.data);
	expect(RUN("%x : f32[20] = placeholder()\n%h = _to_copy.default(%x, dtype=f16)\n"
	           "%y = _to_copy.default(%h, dtype=f32)\n%t = sum.default(%y)\nreturn (%t,)\n",
	           make(STX_F32, DIMS(20), x)), STX_F32, NULL, 0, VALS(27.14208984375));
	expect(RUN("%x : f32[1] = placeholder()\n%y = _to_copy.default(%x, dtype=bf16)\nreturn (%y,)\n",
	           make(STX_F32, DIMS(1), VALS(1. / 3))), STX_BF16, DIMS(1), VALS(0.333984375));
}

/* B49 */
static void test_ref_identities_that_are_not(void **s)
{
	(void)s;
	expect(RUN("%x : f32[4] = placeholder()\n%y = mul.Scalar(%x, inf)\n%z = sub.Tensor(%y, %y)\nreturn (%z,)\n",
	           make(STX_F32, DIMS(4), VALS(1, 2, 3, 4))), STX_F32, DIMS(4), VALS(NAN, NAN, NAN, NAN));
	expect(RUN("%x : f32[2] = placeholder()\n%y = ceil.default(%x)\n%z = add.Scalar(%y, 0.0)\n"
	           "%r = reciprocal.default(%z)\nreturn (%r,)\n",
	           make(STX_F32, DIMS(2), VALS(-.5, -.1))), STX_F32, DIMS(2), VALS(INFINITY, INFINITY));
	expect(RUN("%x : f32[3] = placeholder()\n%y = mul.Scalar(%x, 0)\nreturn (%y,)\n",
	           make(STX_F32, DIMS(3), VALS(INFINITY, NAN, -1))), STX_F32, DIMS(3), VALS(NAN, NAN, -0.0));
}

/* B51 */
static void test_ref_nan_survives(void **s)
{
	const double x[] = { NAN, INFINITY, -INFINITY, 0.5 };

	(void)s;
	expect_near(RUN("%x : f32[4] = placeholder()\n%y = atan.default(%x)\n%z = sin.default(%y)\nreturn (%z,)\n",
	                make(STX_F32, DIMS(4), x)), STX_F32, DIMS(4), VALS(NAN, 1, -1, 0.4472136), 1e-6);
	expect(RUN("%x : f32[4] = placeholder()\n%y = isnan.default(%x)\nreturn (%y,)\n", make(STX_F32, DIMS(4), x)),
	       STX_BOOL, DIMS(4), VALS(1, 0, 0, 0));
	expect(RUN("%x : f32[4] = placeholder()\n%y = eq.Tensor(%x, %x)\nreturn (%y,)\n", make(STX_F32, DIMS(4), x)),
	       STX_BOOL, DIMS(4), VALS(0, 1, 1, 1));
	expect(RUN("%x : f32[4] = placeholder()\n%y = relu.default(%x)\nreturn (%y,)\n", make(STX_F32, DIMS(4), x)),
	       STX_F32, DIMS(4), VALS(NAN, INFINITY, 0, 0.5));
}

/* LO-20, LO-21 */
static void test_ref_promotion_kinds(void **s)
{
	(void)s;
	expect(RUN("%a : i32[2] = placeholder()\n%b : i32[2] = placeholder()\n%c = div.Tensor(%a, %b)\nreturn (%c,)\n",
	           make(STX_I32, DIMS(2), VALS(1, 7)), make(STX_I32, DIMS(2), VALS(4, 0))),
	       STX_F32, DIMS(2), VALS(0.25, INFINITY));
	expect(RUN("%a : i32[2] = placeholder()\n%c = sqrt.default(%a)\nreturn (%c,)\n",
	           make(STX_I32, DIMS(2), VALS(4, -1))), STX_F32, DIMS(2), VALS(2, NAN));
	expect(RUN("%a : i32[1] = placeholder()\n%b : f32[1] = placeholder()\n%c = lt.Tensor(%a, %b)\nreturn (%c,)\n",
	           make(STX_I32, DIMS(1), VALS(1)), make(STX_F32, DIMS(1), VALS(1.5))), STX_BOOL, DIMS(1), VALS(1));
	expect(RUN("%a : bool[2] = placeholder()\n%b : i8[2] = placeholder()\n%c = add.Tensor(%a, %b)\nreturn (%c,)\n",
	           make(STX_BOOL, DIMS(2), VALS(1, 0)), make(STX_I8, DIMS(2), VALS(1, 5))), STX_I8, DIMS(2), VALS(2, 5));
	expect(RUN("%a : bool[4] = placeholder()\n%b : bool[4] = placeholder()\n%c = add.Tensor(%a, %b)\nreturn (%c,)\n",
	           make(STX_BOOL, DIMS(4), VALS(0, 0, 1, 1)), make(STX_BOOL, DIMS(4), VALS(0, 1, 0, 1))),
	       STX_BOOL, DIMS(4), VALS(0, 1, 1, 1));
}

/* LO-23's data: eight bf16 additions, each node rounding */
static void test_ref_bf16_chain_rounds_every_node(void **s)
{
	(void)s;
	/* 256 + 1 is a tie that goes to 256 in bf16, every time */
	expect(RUN("%x : bf16[1] = placeholder()\n%a = add.Scalar(%x, 1)\n%b = add.Scalar(%a, 1)\n"
	           "%c = add.Scalar(%b, 1)\nreturn (%c,)\n", make(STX_BF16, DIMS(1), VALS(256))),
	       STX_BF16, DIMS(1), VALS(256));
}

/* Numbers and integers are converted to the type computed in, f32 for halves, not to the half type first. */
static void test_ref_numbers_are_not_rounded_to_half(void **s)
{
	(void)s;
	/* with 0.1 rounded to bf16 first it would be 0.90234375; 257 would become 256 */
	expect(RUN("%x : bf16[1] = placeholder()\n%y = mul.Scalar(%x, 0.1)\nreturn (%y,)\n", make(STX_BF16, DIMS(1), VALS(9))),
	       STX_BF16, DIMS(1), VALS(0.8984375));
	expect(RUN("%x : bf16[1] = placeholder()\n%i : i32[1] = placeholder()\n%y = sub.Tensor(%i, %x)\nreturn (%y,)\n",
	           make(STX_BF16, DIMS(1), VALS(256)), make(STX_I32, DIMS(1), VALS(257))), STX_BF16, DIMS(1), VALS(1));
}

static void test_ref_select_clamp_sign(void **s)
{
	(void)s;
	expect(RUN("%c : bool[3] = placeholder()\n%a : f32[3] = placeholder()\n%b : f32[] = placeholder()\n"
	           "%r = where.self(%c, %a, %b)\nreturn (%r,)\n", make(STX_BOOL, DIMS(3), VALS(1, 0, 1)),
	           make(STX_F32, DIMS(3), VALS(1, 2, NAN)), make(STX_F32, NULL, 0, VALS(9))),
	       STX_F32, DIMS(3), VALS(1, 9, NAN));
	expect(RUN("%x : f32[5] = placeholder()\n%r = clamp.default(%x, min=-1, max=2)\nreturn (%r,)\n",
	           make(STX_F32, DIMS(5), VALS(-3, -0.5, 1, 5, NAN))), STX_F32, DIMS(5), VALS(-1, -0.5, 1, 2, NAN));
	expect(RUN("%x : f32[3] = placeholder()\n%r = clamp.default(%x, None, 2)\nreturn (%r,)\n",
	           make(STX_F32, DIMS(3), VALS(-3, 1, 5))), STX_F32, DIMS(3), VALS(-3, 1, 2));
	expect(RUN("%x : i8[3] = placeholder()\n%r = sign.default(%x)\nreturn (%r,)\n",
	           make(STX_I8, DIMS(3), VALS(-128, 0, 5))), STX_I8, DIMS(3), VALS(-1, 0, 1));
	expect(RUN("%a : f32[4] = placeholder()\n%b : i32[4] = placeholder()\n%r = logical_and.default(%a, %b)\n"
	           "return (%r,)\n", make(STX_F32, DIMS(4), VALS(NAN, 0, -0.0, 2)),
	           make(STX_I32, DIMS(4), VALS(1, 1, 1, 0))), STX_BOOL, DIMS(4), VALS(1, 0, 0, 0));
}

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
		snprintf(text, sizeof text, "%%x : f32[%lld] = placeholder()\n%%y = log1p.default(%%x)\n"
		         "%%z = argmax.default(%%y)\nreturn (%%z,)\n", (long long)n);
		expect(RUN(text, make(STX_F32, &n, 1, x)), STX_I64, NULL, 0, VALS(0));
		free(x);
	}
	expect(RUN("%x : f32[4] = placeholder()\n%z = argmin.default(%x)\nreturn (%z,)\n",
	           make(STX_F32, DIMS(4), VALS(5, NAN, -1, NAN))), STX_I64, NULL, 0, VALS(1));
	expect(RUN("%x : f32[2] = placeholder()\n%z = argmin.default(%x)\nreturn (%z,)\n",
	           make(STX_F32, DIMS(2), VALS(NAN, 0))), STX_I64, NULL, 0, VALS(0));
	expect(RUN("%x : f32[2,3] = placeholder()\n%z = argmax.default(%x, 1)\nreturn (%z,)\n",
	           make(STX_F32, DIMS(2, 3), VALS(1, 1, 1, 0, 2, 2))), STX_I64, DIMS(2), VALS(0, 1));
	expect(RUN("%x : f32[3,2] = placeholder()\n%z = amax.default(%x, [0], keepdim=True)\nreturn (%z,)\n",
	           make(STX_F32, DIMS(3, 2), VALS(1, -1, NAN, -5, 2, -3))), STX_F32, DIMS(1, 2), VALS(NAN, -1));
}

/* B03, RD-02 */
static void test_ref_empty_reductions_give_identities(void **s)
{
	static const struct { const char *call; enum stx_dtype t; double want; } ops[] = {
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

		snprintf(text, sizeof text, "%%x : f32[3,0] = placeholder()\n%%y = %s\nreturn (%%y,)\n", ops[i].call);
		expect(RUN(text, make(STX_F32, DIMS(3, 0), NULL)), ops[i].t, DIMS(3), VALS(ops[i].want, ops[i].want, ops[i].want));
	}
	expect(RUN("%a : f32[4,0] = placeholder()\n%b : f32[0,4] = placeholder()\n%c = mm.default(%a, %b)\nreturn (%c,)\n",
	           make(STX_F32, DIMS(4, 0), NULL), make(STX_F32, DIMS(0, 4), NULL)), STX_F32, DIMS(4, 4),
	       VALS(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

/* B05 */
static void test_ref_integer_extremes(void **s)
{
	double p[] = { 5, 1, 100, 3, 7, 8, 9, 13, 100, 120, 127, 2, 6, 4, 11, 12, 90, 80 };

	(void)s;
	expect(RUN("%x : u8[18] = placeholder()\n%y = amin.default(%x)\nreturn (%y,)\n", make(STX_U8, DIMS(18), p)), STX_U8, NULL, 0, VALS(1));
	expect(RUN("%x : i8[18] = placeholder()\n%y = argmax.default(%x)\nreturn (%y,)\n", make(STX_I8, DIMS(18), p)), STX_I64, NULL, 0, VALS(10));
	for (int i = 0; i < 18; i++)
		p[i] = -p[i];
	expect(RUN("%x : i8[18] = placeholder()\n%y = amin.default(%x)\nreturn (%y,)\n", make(STX_I8, DIMS(18), p)), STX_I8, NULL, 0, VALS(-127));
	expect(RUN("%x : i8[18] = placeholder()\n%y = argmax.default(%x)\nreturn (%y,)\n", make(STX_I8, DIMS(18), p)), STX_I64, NULL, 0, VALS(1));
	expect(RUN("%x : i8[18] = placeholder()\n%y = sum.default(%x)\nreturn (%y,)\n", make(STX_I8, DIMS(18), p)), STX_I64, NULL, 0, VALS(-698));
}

/* B41 (b), shortened, and a sum whose plain f32 order loses everything */
static void test_ref_sums_do_not_drift(void **s)
{
	struct stx_tensor y = RUN("%x : f32[1] = placeholder()\n%e = expand.default(%x, [1000000])\n"
	                          "%t = sum.default(%e)\nreturn (%t,)\n", make(STX_F32, DIMS(1), VALS(0.1)));

	(void)s;
	assert_true(fabs(*(float *)y.data - 100000.0015) <= 0.02);
	free(y.data);
	expect(RUN("%x : f64[4] = placeholder()\n%t = sum.default(%x)\nreturn (%t,)\n",
	           make(STX_F64, DIMS(4), VALS(1e100, 1, -1e100, 1))), STX_F64, NULL, 0, VALS(2));
	expect(RUN("%x : f32[3] = placeholder()\n%t = sum.default(%x)\nreturn (%t,)\n",
	           make(STX_F32, DIMS(3), VALS(INFINITY, 1, 1))), STX_F32, NULL, 0, VALS(INFINITY));
}

/* B43 */
static void test_ref_variance_divisor(void **s)
{
	static const struct { const char *correction; double want; } c[] = {
		{ "0", 1.5555556 }, { "1", 2.3333333 }, { "2.5", 9.3333333 }, { "3", INFINITY }, { "5", INFINITY },
	};

	(void)s;
	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		char text[160];
		struct stx_tensor y;
		float v;

		snprintf(text, sizeof text, "%%x : f32[3] = placeholder()\n%%y = var.correction(%%x, correction=%s)\nreturn (%%y,)\n", c[i].correction);
		y = RUN(text, make(STX_F32, DIMS(3), VALS(1, 2, 4)));
		v = *(float *)y.data;
		assert_true(isinf(c[i].want) ? isinf(v) : fabs(v - c[i].want) <= 1e-6 * c[i].want);
		free(y.data);
	}
	expect(RUN("%x : f32[] = placeholder()\n%y = var.correction(%x, correction=4.9)\nreturn (%y,)\n",
	           make(STX_F32, NULL, 0, VALS(7))), STX_F32, NULL, 0, VALS(NAN));
}

/* ---- views ---- */

static void test_ref_views_compose_without_copies(void **s)
{
	double x[24];

	(void)s;
	for (int i = 0; i < 24; i++)
		x[i] = i;
	expect(RUN("%x : f32[4,6] = placeholder()\n%t = t.default(%x)\n%s = slice.Tensor(%t, 0, 1, 6, 2)\n"
	           "%f = flip.default(%s, [1])\n%r = select.int(%f, 0, -1)\nreturn (%r,)\n",
	           make(STX_F32, DIMS(4, 6), x)), STX_F32, DIMS(4), VALS(23, 17, 11, 5));
	expect(RUN("%x : f32[2,3] = placeholder()\n%t = transpose.int(%x, 0, 1)\n%v = view.default(%t, [2,-1])\nreturn (%v,)\n",
	           make(STX_F32, DIMS(2, 3), x)), STX_F32, DIMS(2, 3), VALS(0, 3, 1, 4, 2, 5));
	expect(RUN("%x : f32[2,2,3] = placeholder()\n%v = view.default(%x, [4,1,3])\n%p = permute.default(%v, [2,1,0])\n"
	           "%q = squeeze.dims(%p, [1])\n%u = unsqueeze.default(%q, -1)\nreturn (%u,)\n",
	           make(STX_F32, DIMS(2, 2, 3), x)), STX_F32, DIMS(3, 4, 1), VALS(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11));
	expect(RUN("%x : f32[3,4] = placeholder()\n%d = diagonal.default(%x, 1)\nreturn (%d,)\n",
	           make(STX_F32, DIMS(3, 4), x)), STX_F32, DIMS(3), VALS(1, 6, 11));
	expect(RUN("%x : f32[3,4] = placeholder()\n%d = diagonal.default(%x, -1)\nreturn (%d,)\n",
	           make(STX_F32, DIMS(3, 4), x)), STX_F32, DIMS(2), VALS(4, 9));
	expect(RUN("%x : f32[3,1] = placeholder()\n%e = expand.default(%x, [2,-1,2])\n%v = reshape.default(%e, [4,3])\nreturn (%v,)\n",
	           make(STX_F32, DIMS(3, 1), x)), STX_F32, DIMS(4, 3), VALS(0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2));
	expect(RUN("%x : f32[0,3] = placeholder()\n%v = view.default(%x, [3,0,2])\nreturn (%v,)\n",
	           make(STX_F32, DIMS(0, 3), NULL)), STX_F32, DIMS(3, 0, 2), NULL);
	expect(RUN("%x : f32[2,3] = placeholder()\n%v = triu.default(%x, 1)\nreturn (%v,)\n",
	           make(STX_F32, DIMS(2, 3), x)), STX_F32, DIMS(2, 3), VALS(0, 1, 2, 0, 0, 5));
	expect(RUN("%x : f32[2] = placeholder()\n%v = repeat.default(%x, [2,2])\nreturn (%v,)\n",
	           make(STX_F32, DIMS(2), x)), STX_F32, DIMS(2, 4), VALS(0, 1, 0, 1, 0, 1, 0, 1));
}

static void test_ref_inputs_of_any_strides(void **s)
{
	struct stx_tensor x = make(STX_F32, DIMS(6), VALS(0, 1, 2, 3, 4, 5));

	(void)s;
	x.rank = 2; /* rows 5 3 1 and again: strides 0 and -2 from element 5 */
	x.sizes[0] = 2;
	x.sizes[1] = 3;
	x.strides[0] = 0;
	x.strides[1] = -2;
	x.offset = 5;
	expect(RUN("%x : f32[2,3] = placeholder()\n%y = add.Scalar(%x, 1)\nreturn (%y,)\n", x), STX_F32, DIMS(2, 3),
	       VALS(6, 4, 2, 6, 4, 2));
}

/* ---- indexing ---- */

/* B15 */
static void test_ref_index_rules_differ_by_operator(void **s)
{
	const char *gather = "%x : f32[4] = placeholder()\n%i : i64[2] = placeholder()\n%y = gather.default(%x, 0, %i)\nreturn (%y,)\n";
	struct stx_diag d = { 0 };

	(void)s;
	expect(RUN("%x : f32[4] = placeholder()\n%i : i64[1] = placeholder()\n%y = index.Tensor(%x, [%i])\nreturn (%y,)\n",
	           make(STX_F32, DIMS(4), VALS(1, 2, 3, 4)), make(STX_I64, DIMS(1), VALS(-1))), STX_F32, DIMS(1), VALS(4));
	expect(RUN(gather, make(STX_F32, DIMS(4), VALS(1, 2, 3, 4)), make(STX_I64, DIMS(2), VALS(3, 0))), STX_F32, DIMS(2), VALS(4, 1));
	assert_int_equal(run_error(gather, (struct stx_tensor[]){ make(STX_F32, DIMS(4), VALS(1, 2, 3, 4)), make(STX_I64, DIMS(2), VALS(0, -1)) }, 2, &d), STX_E_BOUNDS);
	assert_string_equal(d.node, "y");
	assert_non_null(strstr(d.text, "-1"));
	stx_diag_clear(&d);
	assert_int_equal(run_error(gather, (struct stx_tensor[]){ make(STX_F32, DIMS(4), VALS(1, 2, 3, 4)), make(STX_I64, DIMS(2), VALS(0, 4)) }, 2, &d), STX_E_BOUNDS);
	stx_diag_clear(&d);
	assert_int_equal(run_error("%x : f32[4] = placeholder()\n%i : i64[1] = placeholder()\n%y = index.Tensor(%x, [%i])\nreturn (%y,)\n",
	                           (struct stx_tensor[]){ make(STX_F32, DIMS(4), VALS(1, 2, 3, 4)), make(STX_I64, DIMS(1), VALS(-5)) }, 2, &d), STX_E_BOUNDS);
}

static void test_ref_indirect_reads(void **s)
{
	double x[24];

	(void)s;
	for (int i = 0; i < 24; i++)
		x[i] = i;
	expect(RUN("%w : f32[4,2] = placeholder()\n%i : i32[2,2] = placeholder()\n%y = embedding.default(%w, %i)\nreturn (%y,)\n",
	           make(STX_F32, DIMS(4, 2), x), make(STX_I32, DIMS(2, 2), VALS(3, 0, 1, 1))), STX_F32, DIMS(2, 2, 2),
	       VALS(6, 7, 0, 1, 2, 3, 2, 3));
	expect(RUN("%x : f32[2,3] = placeholder()\n%i : i64[2] = placeholder()\n%y = index_select.default(%x, 1, %i)\nreturn (%y,)\n",
	           make(STX_F32, DIMS(2, 3), x), make(STX_I64, DIMS(2), VALS(2, 0))), STX_F32, DIMS(2, 2), VALS(2, 0, 5, 3));
	/* separated indices: their dimension comes first */
	expect(RUN("%x : f32[2,3,4] = placeholder()\n%i : i64[2] = placeholder()\n%j : i64[2] = placeholder()\n"
	           "%y = index.Tensor(%x, [%i, None, %j])\nreturn (%y,)\n", make(STX_F32, DIMS(2, 3, 4), x),
	           make(STX_I64, DIMS(2), VALS(1, 0)), make(STX_I64, DIMS(2), VALS(3, 1))), STX_F32, DIMS(2, 3),
	       VALS(15, 19, 23, 1, 5, 9));
	/* neighbouring ones stay in place */
	expect(RUN("%x : f32[2,3,4] = placeholder()\n%i : i64[2,1] = placeholder()\n%j : i64[2] = placeholder()\n"
	           "%y = index.Tensor(%x, [None, %i, %j])\nreturn (%y,)\n", make(STX_F32, DIMS(2, 3, 4), x),
	           make(STX_I64, DIMS(2, 1), VALS(0, 2)), make(STX_I64, DIMS(2), VALS(3, -4))), STX_F32, DIMS(2, 2, 2),
	       VALS(3, 0, 11, 8, 15, 12, 23, 20));
}

/* B25 */
static void test_ref_cat_pad_stack(void **s)
{
	double ones[6] = { 1, 1, 1, 1, 1, 1 };

	(void)s;
	expect(RUN("%a : f32[0] = placeholder()\n%b : f32[2,3] = placeholder()\n%y = cat.default([%a, %b], 1)\nreturn (%y,)\n",
	           make(STX_F32, DIMS(0), NULL), make(STX_F32, DIMS(2, 3), ones)), STX_F32, DIMS(2, 3), ones);
	expect(RUN("%a : f32[0] = placeholder()\n%b : f32[1,8,0,78] = placeholder()\n%y = cat.default([%a, %b], -2)\nreturn (%y,)\n",
	           make(STX_F32, DIMS(0), NULL), make(STX_F32, DIMS(1, 8, 0, 78), NULL)), STX_F32, DIMS(1, 8, 0, 78), NULL);
	expect(RUN("%a : f32[2,0] = placeholder()\n%b : f32[2,2] = placeholder()\n%y = cat.default([%a, %b, %b], 1)\nreturn (%y,)\n",
	           make(STX_F32, DIMS(2, 0), NULL), make(STX_F32, DIMS(2, 2), VALS(1, 2, 3, 4))), STX_F32, DIMS(2, 4),
	       VALS(1, 2, 1, 2, 3, 4, 3, 4));
	expect(RUN("%a : f32[0] = placeholder()\n%y = cat.default([%a, %a], 0)\nreturn (%y,)\n", make(STX_F32, DIMS(0), NULL)),
	       STX_F32, DIMS(0), NULL);
	expect(RUN("%a : f32[2,2] = placeholder()\n%y = constant_pad_nd.default(%a, [1, -1, 0, 1], 9)\nreturn (%y,)\n",
	           make(STX_F32, DIMS(2, 2), VALS(1, 2, 3, 4))), STX_F32, DIMS(3, 2), VALS(9, 1, 9, 3, 9, 9));
	expect(RUN("%a : i32[2] = placeholder()\n%b : f32[2] = placeholder()\n%y = stack.default([%a, %b], 1)\nreturn (%y,)\n",
	           make(STX_I32, DIMS(2), VALS(1, 2)), make(STX_F32, DIMS(2), VALS(3.5, 4))), STX_F32, DIMS(2, 2), VALS(1, 3.5, 2, 4));
}

/* B09 */
static void test_ref_integer_ranges(void **s)
{
	double want[11];

	(void)s;
	for (int i = 0; i < 11; i++)
		want[i] = i * 1e9;
	expect(RUN("%f : i64[1] = placeholder()\n%a = arange.start_step(0, 11, dtype=i64)\n%y = mul.Tensor(%a, %f)\nreturn (%y,)\n",
	           make(STX_I64, DIMS(1), VALS(1e9))), STX_I64, DIMS(11), want);
	expect(run("%a = arange.start_step(1, 2, 0.25, dtype=f32)\nreturn (%a,)\n", NULL, 0), STX_F32, DIMS(4), VALS(1, 1.25, 1.5, 1.75));
	expect(run("%a = full.default([2], 300, dtype=u8)\nreturn (%a,)\n", NULL, 0), STX_U8, DIMS(2), VALS(44, 44));
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

		snprintf(text, sizeof text, "%%a : %s[17,65] = placeholder()\n%%b : %s[65,33] = placeholder()\n%%c = mm.default(%%a, %%b)\nreturn (%%c,)\n", n, n);
		c = RUN(text, make(types[t], DIMS(M, K), a), make(types[t], DIMS(K, N), b));
		for (int i = 0; i < M * N; i++)
			sum += to_double(types[t], stx_scalar_load(types[t], (char *)c.data + i * stx_dtype_bytes(types[t])));
		assert_true(sum == 18059);
		for (int i = 0; i < 4; i++)
			assert_true(to_double(types[t], stx_scalar_load(types[t], (char *)c.data + at[i] * stx_dtype_bytes(types[t]))) == corners[i]);
		free(c.data);
	}
}

static void test_ref_products_of_every_rank(void **s)
{
	(void)s;
	expect(RUN("%a : f32[3] = placeholder()\n%b : f32[3] = placeholder()\n%c = matmul.default(%a, %b)\nreturn (%c,)\n",
	           make(STX_F32, DIMS(3), VALS(1, 2, 3)), make(STX_F32, DIMS(3), VALS(4, 5, 6))), STX_F32, NULL, 0, VALS(32));
	expect(RUN("%a : f32[2,1,2] = placeholder()\n%b : f32[2] = placeholder()\n%c = matmul.default(%a, %b)\nreturn (%c,)\n",
	           make(STX_F32, DIMS(2, 1, 2), VALS(1, 2, 3, 4)), make(STX_F32, DIMS(2), VALS(1, 10))), STX_F32, DIMS(2, 1), VALS(21, 43));
	expect(RUN("%a : f32[2,1,1,2] = placeholder()\n%b : f32[2,2,1] = placeholder()\n%c = matmul.default(%a, %b)\nreturn (%c,)\n",
	           make(STX_F32, DIMS(2, 1, 1, 2), VALS(1, 2, 3, 4)), make(STX_F32, DIMS(2, 2, 1), VALS(1, 10, 100, 1000))),
	       STX_F32, DIMS(2, 2, 1, 1), VALS(21, 2100, 43, 4300));
	expect(RUN("%c : f32[2] = placeholder()\n%a : f32[1,2] = placeholder()\n%b : f32[2,2] = placeholder()\n"
	           "%y = addmm.default(%c, %a, %b, beta=0, alpha=2)\nreturn (%y,)\n", make(STX_F32, DIMS(2), VALS(NAN, INFINITY)),
	           make(STX_F32, DIMS(1, 2), VALS(1, 2)), make(STX_F32, DIMS(2, 2), VALS(1, 2, 3, 4))), STX_F32, DIMS(1, 2), VALS(14, 20));
	expect(RUN("%x : f32[2,2] = placeholder()\n%w : f32[1,2] = placeholder()\n%b : f32[1] = placeholder()\n"
	           "%y = linear.default(%x, %w, %b)\nreturn (%y,)\n", make(STX_F32, DIMS(2, 2), VALS(1, 2, 3, 4)),
	           make(STX_F32, DIMS(1, 2), VALS(10, 1)), make(STX_F32, DIMS(1), VALS(0.5))), STX_F32, DIMS(2, 1), VALS(12.5, 34.5));
	expect(RUN("%a : i8[1,2] = placeholder()\n%b : i8[2,1] = placeholder()\n%c = mm.default(%a, %b)\nreturn (%c,)\n",
	           make(STX_I8, DIMS(1, 2), VALS(100, 3)), make(STX_I8, DIMS(2, 1), VALS(2, 1))), STX_I8, DIMS(1, 1), VALS(-53));
}

/* ---- composites ---- */

/* B07's plain softmax and logsumexp */
static void test_ref_softmax_of_all_masked_is_nan(void **s)
{
	const double x[] = { -INFINITY, -INFINITY };

	(void)s;
	expect(RUN("%x : f32[2] = placeholder()\n%y = _softmax.default(%x, 0)\nreturn (%y,)\n", make(STX_F32, DIMS(2), x)), STX_F32, DIMS(2), VALS(NAN, NAN));
	expect(RUN("%x : f32[2] = placeholder()\n%y = logsumexp.default(%x, [0])\nreturn (%y,)\n", make(STX_F32, DIMS(2), x)), STX_F32, NULL, 0, VALS(-INFINITY));
}

static void test_ref_normalisations(void **s)
{
	double e = exp(-1), z = 1 + e;

	(void)s;
	expect_near(RUN("%x : f32[2,2] = placeholder()\n%y = _softmax.default(%x, 1)\nreturn (%y,)\n",
	                make(STX_F32, DIMS(2, 2), VALS(1, 0, 1000, 1000))), STX_F32, DIMS(2, 2), VALS(1 / z, e / z, .5, .5), 2e-7);
	expect_near(RUN("%x : f32[2,1] = placeholder()\n%y = _log_softmax.default(%x, 0)\nreturn (%y,)\n",
	                make(STX_F32, DIMS(2, 1), VALS(1, 0))), STX_F32, DIMS(2, 1), VALS(-log(z), -1 - log(z)), 2e-7);
	expect_near(RUN("%x : f32[1,2] = placeholder()\n%w : f32[2] = placeholder()\n%b : f32[2] = placeholder()\n"
	                "%y = layer_norm.default(%x, [2], %w, %b, eps=0.0)\nreturn (%y,)\n", make(STX_F32, DIMS(1, 2), VALS(1, 3)),
	                make(STX_F32, DIMS(2), VALS(2, 3)), make(STX_F32, DIMS(2), VALS(0, 1))), STX_F32, DIMS(1, 2), VALS(-2, 4), 1e-7);
}

static void test_ref_activations(void **s)
{
	static const struct { const char *call; double want[3]; } ops[] = { /* of -1, 0.5, 3 */
		{ "gelu.default(%x)", { -0.15865525393145707, 0.34573123063700656, 2.9959502943 } },
		{ "gelu.default(%x, approximate='tanh')", { -0.15880800939172324, 0.34571401228962, 2.9963627 } },
		{ "silu.default(%x)", { -0.2689414213699951, 0.31122966560092727, 2.8577223804673 } },
		{ "leaky_relu.default(%x, 0.1)", { -0.1, 0.5, 3 } },
		{ "elu.default(%x)", { -0.6321205588285577, 0.5, 3 } },
		{ "softplus.default(%x)", { 0.31326168751822286, 0.9740769841801067, 3.048587351573742 } },
		{ "hardtanh.default(%x)", { -1, 0.5, 1 } },
		{ "hardsigmoid.default(%x)", { 1. / 3, 3.5 / 6, 1 } },
		{ "hardswish.default(%x)", { -1. / 3, 1.75 / 6, 3 } },
		{ "mish.default(%x)", { -0.30340146137410895, 0.37524522, 2.98653501 } },
	};

	(void)s;
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
		char text[160];

		snprintf(text, sizeof text, "%%x : f32[3] = placeholder()\n%%y = %s\nreturn (%%y,)\n", ops[i].call);
		expect_near(RUN(text, make(STX_F32, DIMS(3), VALS(-1, 0.5, 3))), STX_F32, DIMS(3), ops[i].want, 1e-6);
	}
}

/* A composite rounds once: gelu in bf16 is the rounding of gelu in f32. */
static void test_ref_composite_rounds_once(void **s)
{
	(void)s;
	for (int i = 0; i < 500; i++) {
		double x = stx_scalar_round(STX_BF16, (i - 250) * 0.0173);
		struct stx_tensor a = RUN("%x : bf16[1] = placeholder()\n%y = gelu.default(%x)\nreturn (%y,)\n", make(STX_BF16, DIMS(1), &x));
		struct stx_tensor b = RUN("%x : f32[1] = placeholder()\n%y = gelu.default(%x)\nreturn (%y,)\n", make(STX_F32, DIMS(1), &x));

		assert_true(stx_scalar_load(STX_BF16, a.data).f == stx_scalar_round(STX_BF16, *(float *)b.data));
		free(a.data);
		free(b.data);
	}
}

/* ---- the driver ---- */

static void test_ref_assert_fails_with_its_message(void **s)
{
	const char *text = "%c : bool[1] = placeholder()\n%a : f32[1] = placeholder()\n"
	                   "%e = _assert_async.msg(%c, 'sizes agree')\nreturn (%a,)\n";
	struct stx_diag d = { 0 };

	(void)s;
	expect(RUN(text, make(STX_BOOL, DIMS(1), VALS(1)), make(STX_F32, DIMS(1), VALS(5))), STX_F32, DIMS(1), VALS(5));
	assert_int_equal(run_error(text, (struct stx_tensor[]){ make(STX_BOOL, DIMS(1), VALS(0)), make(STX_F32, DIMS(1), VALS(5)) }, 2, &d), STX_E_MISMATCH);
	assert_non_null(strstr(d.text, "sizes agree"));
}

static void test_ref_budget_is_an_error(void **s)
{
	const char *text = "%x : f32[1] = placeholder()\n%e = expand.default(%x, [1000000000000])\n"
	                   "%y = add.Scalar(%e, 1)\n%t = sum.default(%y)\nreturn (%t,)\n";
	struct stx_diag d = { 0 };
	struct stx_tensor in = make(STX_F32, DIMS(1), VALS(1));

	(void)s;
	assert_int_equal(run_error(text, &in, 1, &d), STX_E_TOO_LARGE);
}

static void test_ref_wrong_input_is_an_error(void **s)
{
	const char *text = "%x : f32[2] = placeholder()\nreturn (%x,)\n";
	struct stx_diag d = { 0 };
	struct stx_tensor in = make(STX_F32, DIMS(3), VALS(1, 2, 3));

	(void)s;
	assert_int_equal(run_error(text, &in, 1, &d), STX_E_MISMATCH);
}

/* B21: outputs own their memory, also when one is an input or appears twice */
static void test_ref_outputs_do_not_share(void **s)
{
	const char *text = "%x : f32[2] = placeholder()\n%y = add.Scalar(%x, 1)\nreturn (%y, %y, %x)\n";
	struct stx_tensor in = make(STX_F32, DIMS(2), VALS(1, 1)), out[3];
	struct stx_diag d = { 0 };

	(void)s;
	assert_int_equal(evaluate(text, &in, 1, out, &d), 0);
	((float *)out[0].data)[0] = 99;
	assert_true(((float *)out[1].data)[0] == 2 && out[2].data != in.data);
	for (int i = 0; i < 3; i++)
		free(out[i].data);
	free(in.data);
}

/* ---- comparison ---- */

static void test_ref_compare_rules(void **s)
{
	struct stx_tensor a = make(STX_F32, DIMS(4), VALS(1, NAN, INFINITY, 0)), b = make(STX_F32, DIMS(4), VALS(1.00001, NAN, INFINITY, -0.0));
	struct stx_compare c = { .rtol = 1e-4 };

	(void)s;
	assert_int_equal(stx_ref_compare(&a, &b, &c, NULL), 0);
	c.rtol = 1e-6;
	assert_int_equal(stx_ref_compare(&a, &b, &c, NULL), STX_E_MISMATCH);
	assert_int_equal(c.mismatches, 1);
	assert_int_equal(c.worst, 0);
	((float *)a.data)[1] = 0;
	assert_int_equal(stx_ref_compare(&a, &b, &c, NULL), STX_E_MISMATCH);
	assert_int_equal(c.worst, 1);
	free(a.data);
	free(b.data);
	/* RD-12 */
	assert_true(stx_ref_sum_bound(STX_F32, 1023, 2) == 1023 * 0x1p-23);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ref_broadcast_add_alpha),
		cmocka_unit_test(test_ref_multiply_subtract_rounds_between),
		cmocka_unit_test(test_ref_integer_division_modes),
		cmocka_unit_test(test_ref_float_floor_division_uses_fmod),
		cmocka_unit_test(test_ref_small_integers_wrap),
		cmocka_unit_test(test_ref_float_to_small_integers_goes_through_i32),
		cmocka_unit_test(test_ref_written_narrowing_is_kept),
		cmocka_unit_test(test_ref_identities_that_are_not),
		cmocka_unit_test(test_ref_nan_survives),
		cmocka_unit_test(test_ref_promotion_kinds),
		cmocka_unit_test(test_ref_bf16_chain_rounds_every_node),
		cmocka_unit_test(test_ref_numbers_are_not_rounded_to_half),
		cmocka_unit_test(test_ref_select_clamp_sign),
		cmocka_unit_test(test_ref_argreduce_nan_and_ties),
		cmocka_unit_test(test_ref_empty_reductions_give_identities),
		cmocka_unit_test(test_ref_integer_extremes),
		cmocka_unit_test(test_ref_sums_do_not_drift),
		cmocka_unit_test(test_ref_variance_divisor),
		cmocka_unit_test(test_ref_views_compose_without_copies),
		cmocka_unit_test(test_ref_inputs_of_any_strides),
		cmocka_unit_test(test_ref_index_rules_differ_by_operator),
		cmocka_unit_test(test_ref_indirect_reads),
		cmocka_unit_test(test_ref_cat_pad_stack),
		cmocka_unit_test(test_ref_integer_ranges),
		cmocka_unit_test(test_ref_matmul_exact_sums),
		cmocka_unit_test(test_ref_products_of_every_rank),
		cmocka_unit_test(test_ref_softmax_of_all_masked_is_nan),
		cmocka_unit_test(test_ref_normalisations),
		cmocka_unit_test(test_ref_activations),
		cmocka_unit_test(test_ref_composite_rounds_once),
		cmocka_unit_test(test_ref_assert_fails_with_its_message),
		cmocka_unit_test(test_ref_budget_is_an_error),
		cmocka_unit_test(test_ref_wrong_input_is_an_error),
		cmocka_unit_test(test_ref_outputs_do_not_share),
		cmocka_unit_test(test_ref_compare_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
