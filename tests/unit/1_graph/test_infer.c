/* test_infer.c: result shapes and types: broadcasting, promotion, every family of operators. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "graph_gen.h"
#include "passes.h"

/* Each line states the type of %r; the parser compares it with what inference gives. */
static void accept_all(const char *inputs, const char *const *lines, size_t n)
{
	struct stx_arena *a = stx_arena_new(0);
	for (size_t i = 0; i < n; i++) {
		const char *e = gen_error(
			a, stx_arena_printf(a, "%s%%r : %s\nreturn (%%r,)", inputs, lines[i]));
		if (e)
			fail_msg("%s: %s", lines[i], e);
	}
	stx_arena_free(a);
}

static void refuse_all(const char *inputs, const char *const *lines, size_t n)
{
	struct stx_arena *a = stx_arena_new(0);
	for (size_t i = 0; i < n; i++)
		if (!gen_error(a,
			       stx_arena_printf(a, "%s%%r = %s\nreturn (%%r,)", inputs, lines[i])))
			fail_msg("accepted: %s", lines[i]);
	stx_arena_free(a);
}

#define ACCEPT(inputs, lines) accept_all(inputs, lines, sizeof(lines) / sizeof(lines)[0])
#define REFUSE(inputs, lines) refuse_all(inputs, lines, sizeof(lines) / sizeof(lines)[0])

/* LO-08 */
static void test_infer_broadcast_shapes(void **state)
{
	(void)state;
	static const char *const in = "%a : f32[4,1,5] = placeholder()\n%b : f32[3,1] = "
				      "placeholder()\n%s : f32[] = placeholder()\n"
				      "%z : f32[0] = placeholder()\n%o : f32[1] = "
				      "placeholder()\n%z3 : f32[3,0] = placeholder()\n"
				      "%p : bool[4,3,1] = placeholder()\n";
	static const char *const good[] = {
		"f32[4,3,5] = add.Tensor(%a, %b)",     "f32[4,3,5] = add.Tensor(%b, %a)",
		"f32[4,1,5] = add.Tensor(%a, %s)",     "f32[0] = add.Tensor(%z, %s)",
		"f32[0] = add.Tensor(%z, %o)",         "f32[3,0] = mul.Tensor(%z3, %b)",
		"f32[3,0] = mul.Tensor(%z, %z3)",      "f32[] = add.Tensor(%s, %s)",
		"bool[4,3,5] = lt.Tensor(%a, %b)",     "f32[4,3,5] = where.self(%p, %a, %b)",
		"f32[4,3,1] = where.self(%p, %s, %s)", "f32[1] = add.Tensor(%o, %s)",
	};
	static const char *const bad[] = {
		"add.Tensor(%a, %z)",
		"add.Tensor(%z3, %a)",
		"where.self(%a, %a, %a)",
		"where.self(%p, %a, %z)",
	};
	ACCEPT(in, good);
	REFUSE(in, bad);
	struct stx_arena *a = stx_arena_new(0);
	const char *e =
		gen_error(a, "%a : f32[4,2] = placeholder()\n%b : f32[3,1] = placeholder()\n"
			     "%c = add.Tensor(%a, %b)\nreturn (%c,)");
	assert_string_equal(e, "3:1: shapes do not broadcast: 4 and 3 at dimension 0 of 2");
	stx_arena_free(a);
}

/* PyTorch's promotion table. */
static void test_infer_promotion_matrix(void **state)
{
	(void)state;
	static const char *const names[] = { "bool", "u8",  "i8",   "i16", "i32",
					     "i64",  "f16", "bf16", "f32", "f64" };
	static const char *const want[10][10] = {
		{ "bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64" },
		{ "u8", "u8", "i16", "i16", "i32", "i64", "f16", "bf16", "f32", "f64" },
		{ "i8", "i16", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64" },
		{ "i16", "i16", "i16", "i16", "i32", "i64", "f16", "bf16", "f32", "f64" },
		{ "i32", "i32", "i32", "i32", "i32", "i64", "f16", "bf16", "f32", "f64" },
		{ "i64", "i64", "i64", "i64", "i64", "i64", "f16", "bf16", "f32", "f64" },
		{ "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f32", "f32", "f64" },
		{ "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "f32", "bf16", "f32", "f64" },
		{ "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f64" },
		{ "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64" },
	};
	for (int i = 0; i < 10; i++)
		for (int k = 0; k < 10; k++) {
			enum stx_dtype x = stx_dtype_parse(names[i], (int)strlen(names[i]));
			enum stx_dtype y = stx_dtype_parse(names[k], (int)strlen(names[k]));
			assert_string_equal(stx_dtype_name(stx_promote(x, y)), want[i][k]);
		}
	assert_int_equal(stx_promote(STX_U16, STX_I16), STX_I32);
	assert_int_equal(stx_promote(STX_U32, STX_I8), STX_I64);
	assert_int_equal(stx_promote(STX_U64, STX_I64), STX_DTYPE_NONE);
	assert_int_equal(stx_promote(STX_U64, STX_F16), STX_F16);
	assert_int_equal(stx_promote(STX_F8E5M2, STX_F32), STX_DTYPE_NONE);
}

/* LO-20, LO-21: a number or a 0-d tensor only counts when it is of a higher category. */
static void test_infer_promotion_kinds(void **state)
{
	(void)state;
	static const char *const in = "%i : i32[2] = placeholder()\n%j : i64[2] = "
				      "placeholder()\n%u : u8[2] = placeholder()\n"
				      "%p : bool[2] = placeholder()\n%h : f16[2] = "
				      "placeholder()\n%f : f32[2] = placeholder()\n"
				      "%d0 : f64[] = placeholder()\n%l0 : i64[] = "
				      "placeholder()\n%h0 : f16[] = placeholder()\n"
				      "%p0 : bool[] = placeholder()\n%v : i8[2] = placeholder()\n";
	static const char *const good[] = {
		/* default: the common type */
		"i64[2] = add.Tensor(%i, %j)",
		"f32[2] = add.Tensor(%i, %f)",
		"i32[2] = mul.Tensor(%p, %i)",
		"f16[2] = add.Tensor(%j, %h)",
		"f32[2] = add.Tensor(%h, %f)",
		"i16[2] = add.Tensor(%u, %v)",
		"bool[2] = add.Tensor(%p, %p)",
		"bool[2] = maximum.default(%p, %p)",
		/* numbers */
		"f32[2] = add.Scalar(%i, 1.5)",
		"i32[2] = add.Scalar(%i, 1)",
		"u8[2] = add.Scalar(%u, 300)",
		"i64[2] = add.Scalar(%p, 1)",
		"f16[2] = mul.Scalar(%h, 2.5)",
		"f16[2] = mul.Scalar(%h, 1000000)",
		"f32[2] = mul.Scalar(%p, 0.5)",
		"f32[2] = pow.Tensor_Scalar(%i, 0.5)",
		"f32[2] = clamp.default(%i, 0.5)",
		"i32[2] = clamp.default(%i, 0, 5)",
		"f32[] = mul.Scalar(%l0, 0.5)",
		"f16[] = mul.Scalar(%h0, 2.0)",
		/* 0-d tensors */
		"f32[2] = add.Tensor(%f, %d0)",
		"f64[2] = add.Tensor(%i, %d0)",
		"i32[2] = add.Tensor(%i, %l0)",
		"f16[2] = add.Tensor(%i, %h0)",
		"i64[2] = add.Tensor(%p, %l0)",
		"f64[] = add.Tensor(%h0, %d0)",
		"i64[] = add.Tensor(%l0, %p0)",
		"f32[2] = where.self(%p, %f, %d0)",
		/* integers become floating point first */
		"f32[2] = div.Tensor(%i, %i)",
		"f32[2] = div.Scalar(%i, 2)",
		"f32[2] = sqrt.default(%i)",
		"f16[2] = div.Tensor(%h, %i)",
		"f32[2] = exp.default(%p)",
		"f64[2] = div.Tensor(%i, %d0)",
		"f64[] = div.Tensor(%l0, %d0)",
		"f32[2] = atan2.default(%i, %j)",
		/* always bool */
		"bool[2] = lt.Tensor(%i, %f)",
		"bool[2] = eq.Scalar(%h, 2)",
		"bool[2] = logical_and.default(%i, %f)",
		"bool[2] = logical_not.default(%f)",
		"bool[2] = isnan.default(%i)",
		/* rounded division stays integer */
		"i32[2] = div.Tensor_mode(%i, %i, rounding_mode='floor')",
		"f32[2] = div.Tensor_mode(%i, %f, rounding_mode='trunc')",
		"i32[2] = floor.default(%i)",
		"i64[4] = cat.default([%i, %j])",
		/* conversions */
		"f64[2] = _to_copy.default(%i, dtype=f64)",
		"i32[2] = _to_copy.default(%i)",
	};
	static const char *const bad[] = {
		"sub.Tensor(%p, %p)",
		"neg.default(%p)",
		"abs.default(%p)",
		"bitwise_and.Tensor(%f, %f)",
		"bitwise_left_shift.Tensor(%p, %p)",
		"add.Tensor(%i, %i, alpha=0.5)",
		"pow.Tensor_Scalar(%i, -1)",
		"div.Tensor_mode(%i, %i, rounding_mode='up')",
		"gelu.default(%i)",
		"gelu_backward.default(%i, %i)",
		"gelu_backward.default(%f, %f, approximate='sigmoid')",
		"relu.default(%p)",
	};
	ACCEPT(in, good);
	REFUSE(in, bad);
}

static void test_infer_padding_and_resampling(void **state)
{
	(void)state;
	static const char *const in = "%f : f32[1,2,4] = placeholder()\n%i : i32[2,3] = "
				      "placeholder()\n%p : bool[1,1,2,3] = placeholder()\n%x : "
				      "f16[0,1,2,3] = placeholder()\n%t : i64[2,5] = "
				      "placeholder()\n%w : f32[2,5] = placeholder()\n";
	static const char *const good[] = {
		"f32[1,2,9] = reflection_pad1d.default(%f, [2, 3])",
		"i32[2,1] = reflection_pad1d.default(%i, [-1, -1])",
		"f32[1,2,14] = replication_pad1d.default(%f, [0, 10])",
		"bool[1,1,3,6] = replication_pad2d.default(%p, [1, 2, 3, -2])",
		"f16[0,1,4,6] = upsample_bilinear2d.vec(%x, [4, 6], True, None)",
		"f32[1,2,6] = upsample_linear1d.vec(%f, None, False, [1.7])",
		"bool[1,1,5,1] = upsample_nearest2d.vec(%p, None, [2.5, 0.5])",
		"f32[1,2,5] = _resample.default(%f, -1, %t, %w)",
		"i32[5,3] = _resample.default(%i, 0, %t)",
	};
	static const char *const bad[] = {
		"reflection_pad1d.default(%f, [4, 0])", /* a mirror needs another element */
		"reflection_pad1d.default(%f, [1])",
		"replication_pad1d.default(%f, [-2, -2])",
		"replication_pad2d.default(%i, [1, 1, 1, 1])",
		"upsample_bilinear2d.vec(%p, [4, 6], True, None)",
		"upsample_bilinear2d.vec(%x, [4, 6], True, [1.0, 2.0])",
		"upsample_bilinear2d.vec(%x, None, True, None)",
		"upsample_bilinear2d.vec(%x, [4], True, None)",
		"upsample_nearest1d.vec(%f, [0], None)",
		"upsample_nearest1d.vec(%f, None, [0.2])",
		"upsample_nearest1d.vec(%f, None, [nan])",
		"upsample_nearest1d.vec(%f, None, [-1.0])",
		"_resample.default(%i, 0, %t, %w)",
		"_resample.default(%f, 3, %t, %w)",
		"_resample.default(%f, 2, %w)",
	};
	ACCEPT(in, good);
	REFUSE(in, bad);
}

static void test_infer_windows_of_other_kinds(void **state)
{
	(void)state;
	static const char *const in =
		"%x : f32[2,4,5,6] = placeholder()\n%g : f32[2,4,2,3] = placeholder()\n%h : "
		"f32[2,3,3,2] = placeholder()\n%i : i64[2,4,2,3] = placeholder()\n%c : "
		"f32[2,8,20] = placeholder()\n%w : f32[6,2,4,4] = placeholder()\n%o : "
		"f32[2,6,2,3] = placeholder()\n%k : i32[2,3,4] = placeholder()\n%z : f32[0,4,1] = "
		"placeholder()\n%v : f32[4,4,1] = placeholder()\n%e : f32[1,4,0] = placeholder()\n"
		"%y : f32[1,4,1] = placeholder()\n";
	static const char *const good[] = {
		"f32[2,4,3,7] = _adaptive_avg_pool2d.default(%x, [3, 7])",
		"f32[2,4,0,3] = _adaptive_avg_pool2d.default(%x, [0, 3])",
		"f32[2,4,5,6] = _adaptive_avg_pool2d_backward.default(%g, %x)",
		"f32[2,4,5,6] = avg_pool2d_backward.default(%g, %x, [2], [2], [0], False, True, "
		"None)",
		"f32[2,2,5,6] = col2im.default(%c, [5, 6], [2, 2], [1, 1], [0, 0], [1, 1])",
		"f32[2,16,20] = im2col.default(%x, [2, 2], [1, 1], [0, 0], [1, 1])",
		"i32[2,9] = _fold.default(%k, [9], [3], [1], [0], [2])",
		"f32[2,4,3,3] = grid_sampler_2d.default(%x, %h, 2, 1, True)",
		"f32[0,4,1] = convolution.default(%z, %v, None, [1], [0], [1], True, [0], 1)",
		/* as PyTorch's derivative of a convolution without bias */
		"(f32[2,4,5,6], f32[6,2,4,4], f32[0]) = convolution_backward.default(%o, %x, %w, "
		"[0], [1], [0], [1], False, [0], 2, [True, True, False])",
	};
	static const char *const bad[] = {
		"_adaptive_avg_pool2d.default(%x, [3, -1])",
		"_adaptive_avg_pool2d.default(%i, [1, 1])",
		"_adaptive_avg_pool2d_backward.default(%o, %x)",
		"avg_pool2d_backward.default(%g, %x, [3], [3], [0], False, True, None)",
		"max_pool2d_with_indices_backward.default(%g, %x, [2], [2], [0], [1], False, %g)",
		"col2im.default(%c, [5, 7], [2, 2], [1, 1], [0, 0], [1, 1])",
		"col2im.default(%c, [5, 6], [3, 2], [1, 1], [0, 0], [1, 1])",
		"im2col.default(%x, [6, 2], [1, 1], [0, 0], [1, 1])",
		"_fold.default(%k, [9], [2], [1], [0], [2])",
		"grid_sampler_2d.default(%x, %g, 0, 0, True)",
		"grid_sampler_2d.default(%x, %h, 3, 0, True)",
		"grid_sampler_2d.default(%i, %h, 0, 0, True)",
		/* as PyTorch: only batch and channels may be empty, and a result has elements */
		"convolution.default(%e, %v, None, [1], [2], [1], False, [0], 1)",
		"convolution.default(%e, %v, None, [1], [2], [1], True, [0], 1)",
		"convolution.default(%y, %v, None, [1], [1], [1], True, [0], 1)",
		"convolution_backward.default(%o, %x, %w, None, [1], [0], [1], False, [0], 2, "
		"[True, True])",
		"convolution_backward.default(%g, %x, %w, None, [1], [0], [1], False, [0], 2, "
		"[True, True, True])",
		"convolution_backward.default(%o, %x, %w, [4], [1], [0], [1], False, [0], 2, "
		"[True, True, True])",
	};
	ACCEPT(in, good);
	REFUSE(in, bad);
}

static void test_infer_reductions(void **state)
{
	(void)state;
	static const char *const in =
		"%f : f32[2,3,4] = placeholder()\n%i : i32[2,3] = placeholder()\n"
		"%p : bool[2,3] = placeholder()\n%h : f16[2,0] = placeholder()\n"
		"%s : f32[] = placeholder()\n";
	static const char *const good[] = {
		"f32[] = sum.default(%f)",
		"i64[] = sum.default(%i)",
		"i64[2] = sum.dim_IntList(%p, [1])",
		"i32[2] = sum.dim_IntList(%i, [1], dtype=i32)",
		"f32[2,1,1] = sum.dim_IntList(%f, [-1, 1], True)",
		"f32[] = sum.dim_IntList(%f, [])",
		"f32[] = sum.dim_IntList(%f, None)",
		"f32[] = sum.dim_IntList(%s, [0])",
		"f64[3] = mean.dim(%i, [0], dtype=f64)",
		"f16[2] = sum.dim_IntList(%h, [1])",
		"f32[2,4] = mean.dim(%f, [1])",
		"f32[2,3] = amax.default(%f, [2])",
		"i32[] = amin.default(%i)",
		"bool[2] = any.dims(%f, [1, 2])",
		"bool[] = all.dims(%i)",
		"bool[2,3] = any.dims(%i, [])",
		"i64[2,4] = argmax.default(%f, 1)",
		"i64[] = argmin.default(%f)",
		"i64[1,1,1] = argmin.default(%f, None, True)",
		"i64[2] = prod.dim_int(%i, 1)",
		"f32[3] = var.correction(%f, [0, 2])",
		"f32[1,1,1] = var.correction(%f, keepdim=True)",
		"f32[2,3] = std.dim(%f, [-1])",
		"(f32[2,4], f32[2,4]) = var_mean.correction(%f, [1])",
		"(f32[2,1,4], i64[2,1,4]) = max.dim(%f, 1, True)",
		"(bool[2], i64[2]) = min.dim(%p, 1)",
		"i64[] = prod.default(%i)",
		"bool[3] = all.dim(%i, 0)",
		"f16[0] = amax.default(%h, [0])",
		"f32[2,3] = logsumexp.default(%f, [-1])",
	};
	static const char *const bad[] = {
		"mean.dim(%i, [0])",     "var.correction(%i)",
		"amax.default(%h, [1])", "argmax.default(%h)",
		"argmax.default(%p)",    "sum.dim_IntList(%f, [3])",
		"max.dim(%h, 1)",        "var.dim(%i, [0])",
		"std.correction(%i)",    "sum.dim_IntList(%f, [-4])",
		"prod.dim_int(%f, 3)",   "amax.default(%f, [0, -3])",
	};
	ACCEPT(in, good);
	REFUSE(in, bad);
}

static void test_infer_views(void **state)
{
	(void)state;
	static const char *const in =
		"%f : f32[2,3,4] = placeholder()\n%z : f32[0,3] = placeholder()\n"
		"%o : f32[1,3,1] = placeholder()\n%s : f32[] = placeholder()\n";
	static const char *const good[] = {
		"f32[24] = view.default(%f, [-1])",
		"f32[6,4] = view.default(%f, [-1, 4])",
		"f32[1] = view.default(%s, [1])",
		"f32[] = view.default(%s, [])",
		"f32[3,0] = view.default(%z, [3, 0])",
		"f32[0,3] = view.default(%z, [-1, 3])",
		"f32[4,2,3] = permute.default(%f, [2, 0, 1])",
		"f32[4,3,2] = transpose.int(%f, 0, -1)",
		"f32[3,0] = t.default(%z)",
		"f32[] = t.default(%s)",
		"f32[5,2,3,4] = expand.default(%f, [5, -1, 3, 4])",
		"f32[7,3,2] = expand.default(%o, [7, -1, 2])",
		"f32[0,3,1] = expand.default(%o, [0, 3, 1])",
		"f32[3] = squeeze.dims(%o, [0, 2])",
		"f32[3,1] = squeeze.dims(%o, [0, 1])",
		"f32[3] = squeeze.default(%o)",
		"f32[1,3] = squeeze.dim(%o, -1)",
		"f32[2,3,4,1] = unsqueeze.default(%f, -1)",
		"f32[1] = unsqueeze.default(%s, 0)",
		"f32[2,2,4] = slice.Tensor(%f, 1, 1)",
		"f32[2,3,2] = slice.Tensor(%f, 2, None, None, 2)",
		"f32[2,3,0] = slice.Tensor(%f, 2, 3, 1)",
		"f32[2,3,1] = slice.Tensor(%f, 2, -1, 9223372036854775806)",
		"f32[2,3,1] = slice.Tensor(%f, 2, -1, 9223372036854775807)",
		"f32[2,3,4] = slice.Tensor(%f, 2, -100, 100)",
		"f32[0,3] = slice.Tensor(%z, 0, 5)",
		"f32[2,4] = select.int(%f, 1, -1)",
		"f32[2,3,4] = flip.default(%f, [0, 2])",
		"f32[4,2] = diagonal.default(%f)",
		"f32[4,1] = diagonal.default(%f, 2)",
		"f32[4,0] = diagonal.default(%f, 9)",
		"f32[2,3] = diagonal.default(%f, 0, 1, 2)",
		"f32[6,4] = flatten.using_ints(%f, 0, 1)",
		"f32[1] = flatten.using_ints(%s)",
		"f32[2,3,8] = repeat.default(%f, [1, 1, 2])",
		"f32[2,2,0,4] = repeat.default(%f, [2, 1, 0, 1])",
	};
	static const char *const bad[] = {
		"view.default(%f, [5, -1])",
		"view.default(%f, [-1, -1])",
		"view.default(%f, [25])",
		"view.default(%z, [-1, 0])",
		"permute.default(%f, [0, 1])",
		"permute.default(%f, [0, 1, 1])",
		"t.default(%f)",
		"expand.default(%f, [4])",
		"expand.default(%f, [2, 3, 5])",
		"expand.default(%f, [-1, 2, 3, 4])",
		"select.int(%f, 1, 3)",
		"select.int(%z, 0, 0)",
		"slice.Tensor(%f, 1, 0, 2, 0)",
		"slice.Tensor(%f, 1, 0, 2, -1)",
		"slice.Tensor(%s)",
		"diagonal.default(%f, 0, 1, 1)",
		"flip.default(%f, [0, 0])",
		"unsqueeze.default(%f, 4)",
		"repeat.default(%f, [2])",
		"repeat.default(%f, [1, -1, 1])",
		"select.int(%s, 0, 0)",
	};
	ACCEPT(in, good);
	REFUSE(in, bad);
}

static void test_infer_indexing_and_joining(void **state)
{
	(void)state;
	static const char *const in = "%f : f32[5,6,7] = placeholder()\n%i : i64[2,3] = "
				      "placeholder()\n%j : i64[3] = placeholder()\n"
				      "%k : i32[2,1] = placeholder()\n%w : f32[10,4] = "
				      "placeholder()\n%p : bool[5] = placeholder()\n"
				      "%g3 : i64[5,2,7] = placeholder()\n%e : f32[0] = "
				      "placeholder()\n%y : f32[1,8,0,78] = placeholder()\n"
				      "%x : f32[2,3] = placeholder()\n%z : f32[2,0] = "
				      "placeholder()\n%s0 : i64[] = placeholder()\n";
	static const char *const good[] = {
		"f32[5,2,7] = gather.default(%f, 1, %g3)",
		"f32[5,3,7] = index_select.default(%f, 1, %j)",
		"f32[5,1,7] = index_select.default(%f, 1, %s0)",
		"i64[] = index_select.default(%s0, 0, %s0)",
		"f32[2,3,4] = embedding.default(%w, %i)",
		"f32[2,3,6,7] = index.Tensor(%f, [%i])",
		"f32[5,2,3,7] = index.Tensor(%f, [None, %i])",
		"f32[2,3,7] = index.Tensor(%f, [%i, %j])",
		"f32[2,3,6] = index.Tensor(%f, [%i, None, %k])",
		"f32[5,2,3] = index.Tensor(%f, [None, %k, %j])",
		"f32[6,7] = index.Tensor(%f, [%s0])",
		/* B25 */
		"f32[1,8,0,78] = cat.default([%e, %y], -2)",
		"f32[2,3] = cat.default([%e, %x], 1)",
		"f32[2,3] = cat.default([%z, %x, %z], 1)",
		"f32[0] = cat.default([%e, %e])",
		"f32[2,2,3] = stack.default([%x, %x], 1)",
		"f32[4,5] = constant_pad_nd.default(%x, [1, 1, 2, 0])",
		"f32[2,1] = constant_pad_nd.default(%x, [-1, -1])",
		"f32[2,3] = tril.default(%x, 5)",
		"f32[3,2] = full.default([3, 2], 1, dtype=f32)",
		"i64[4] = arange.start_step(0, 7, 2, dtype=i64)",
		"f32[3] = arange.start_step(0.0, 1.5, 0.5, dtype=f32)",
		"i64[0] = arange.start_step(3, 3, dtype=i64)",
		"i64[3] = arange.start_step(5, -1, -2, dtype=i64)",
		"i64[2] = arange.start_step(0.9, 2.9, dtype=i64)",
	};
	static const char *const bad[] = {
		"gather.default(%f, 1, %i)",
		"index_select.default(%s0, 0, %j)",
		"index.Tensor(%f, [%p])",
		"index.Tensor(%f, [None])",
		"index.Tensor(%j, [%i, %i])",
		"index.Tensor(%f, [%x])",
		"cat.default([])",
		"cat.default([%x, %w])",
		"cat.default([None])",
		"cat.default([%e, %x], 2)",
		"constant_pad_nd.default(%x, [1])",
		"constant_pad_nd.default(%x, [-2, -2])",
		"embedding.default(%x, %x)",
		"arange.start_step(0, 5, 0, dtype=i64)",
		"arange.start_step(0, 5, -1, dtype=i64)",
		"arange.start_step(0.0, inf, 1.0, dtype=f32)",
		"full.default([-1], 0, dtype=f32)",
		"tril.default(%j)",
	};
	ACCEPT(in, good);
	REFUSE(in, bad);
}

static void test_infer_products_and_norms(void **state)
{
	(void)state;
	static const char *const in = "%a : f32[3,4] = placeholder()\n%b : f32[4,5] = "
				      "placeholder()\n%v : f32[4] = placeholder()\n"
				      "%c : f32[2,1,3,4] = placeholder()\n%d : f32[7,4,5] = "
				      "placeholder()\n%h : f16[4,5] = placeholder()\n"
				      "%m : f32[2,3,4] = placeholder()\n%n : f32[2,4,6] = "
				      "placeholder()\n%w : f32[9,4] = placeholder()\n"
				      "%bias : f32[9] = placeholder()\n%x : f16[3,4] = "
				      "placeholder()\n%one : f32[1,5] = placeholder()\n";
	static const char *const good[] = {
		"f32[3,5] = mm.default(%a, %b)",
		"f32[2,3,6] = bmm.default(%m, %n)",
		"f32[3,5] = matmul.default(%a, %b)",
		"f32[] = matmul.default(%v, %v)",
		"f32[3] = matmul.default(%a, %v)",
		"f32[5] = matmul.default(%v, %b)",
		"f32[2,7,3,5] = matmul.default(%c, %d)",
		"f32[2,1,3] = matmul.default(%c, %v)",
		"f32[7,5] = matmul.default(%v, %d)",
		"f32[7,3,5] = matmul.default(%a, %d)",
		"f32[2,1,3,5] = matmul.default(%c, %b)",
		"f32[3,5] = addmm.default(%one, %a, %b)",
		"f32[2,1,3,9] = linear.default(%c, %w, %bias)",
		"f32[9] = linear.default(%v, %w)",
		"f16[3,4] = _softmax.default(%x, -1)",
		"f32[3,4] = _softmax.default(%x, 1, True)",
		"f32[3,4] = softmax.int(%x, 1, f32)",
		"f32[2,3,4] = layer_norm.default(%m, [3, 4])",
		"f32[2,1,3,4] = layer_norm.default(%c, [4], %v, %v)",
	};
	static const char *const bad[] = {
		"mm.default(%b, %a)",          "mm.default(%a, %h)",
		"mm.default(%m, %n)",          "bmm.default(%a, %b)",
		"matmul.default(%a, %a)",      "matmul.default(%m, %d)",
		"addmm.default(%v, %a, %b)",   "linear.default(%c, %w, %v)",
		"_softmax.default(%a, 2)",     "_softmax.default(%a, 1, True)",
		"layer_norm.default(%m, [3])", "layer_norm.default(%m, [4], %bias)",
	};
	ACCEPT(in, good);
	REFUSE(in, bad);
}

static void test_infer_symbolic_sizes(void **state)
{
	(void)state;
	static const char *const in =
		"sym n = [2,4096] hint 64\nsym m = [0,100] hint 5\n"
		"%a : f32[n,4] = placeholder()\n%b : f32[n,1] = placeholder()\n"
		"%c : f32[m,4] = placeholder()\n%d : f32[4,n] = placeholder()\n";
	static const char *const good[] = {
		"f32[n,4] = add.Tensor(%a, %b)",
		"f32[4*n] = view.default(%a, [-1])",
		"f32[n,2,2] = view.default(%a, [-1, 2, 2])",
		"f32[4,n] = permute.default(%a, [1, 0])",
		"f32[n] = sum.dim_IntList(%a, [1])",
		"f32[n + m,4] = cat.default([%a, %c])",
		"f32[n,n] = mm.default(%a, %d)",
		"f32[n - 1,4] = slice.Tensor(%a, 0, 1)",
		"f32[min(m, 3),4] = slice.Tensor(%c, 0, 0, 3)",
		"f32[4] = select.int(%a, 0, 1)",
		"f32[n + 3,4] = constant_pad_nd.default(%a, [0, 0, 1, 2])",
		"f32[n,7] = expand.default(%b, [-1, 7])",
		"f32[2*n,2] = view.default(%a, [2*n, -1])",
	};
	static const char *const bad[] = {
		"add.Tensor(%a, %c)",        "select.int(%a, 0, 2)",      "select.int(%c, 0, 0)",
		"view.default(%a, [64, 4])", "view.default(%b, [-1, 4])", "mm.default(%d, %c)",
		"view.default(%a, [q])",
	};
	ACCEPT(in, good);
	REFUSE(in, bad);
}

/* Sizes that refer to each other many times over are refused before their text explodes. */
static void test_infer_nested_symbolic_slices_refused(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(64 << 20);
	struct stx_bytes b = { 0 };
	struct stx_graph *g;
	struct stx_diag d = { 0 };
	stx_bytes_puts(&b, "sym n = [0,inf] hint 100\n%x0 : f32[n] = placeholder()\n");
	for (int i = 0; i < 60; i++)
		stx_bytes_printf(&b, "%%x%d = slice.Tensor(%%x%d, 0, 3, 100)\n", i + 1, i);
	stx_bytes_puts(&b, "return (%x60)\n");
	assert_int_equal(stx_graph_parse(a, (char *)b.at, b.n, &g, &d), STX_E_TOO_LARGE);
	assert_non_null(strstr(d.text, "too complicated"));
	stx_bytes_free(&b);
	stx_arena_free(a);
}

/* No index is right; what chooses nothing is. */
static void test_infer_indices_into_nothing_refused(void **state)
{
	(void)state;
	static const char *const in =
		"%e : f32[0,4] = placeholder()\n%n : f32[0,0] = placeholder()\n"
		"%v : f32[0] = placeholder()\n%s : f32[3] = placeholder()\n"
		"%r3 : f32[3,4] = placeholder()\n%none : i64[0] = placeholder()\n"
		"%i : i64[3] = placeholder()\n%one : i64[1] = placeholder()\n"
		"%ij : i64[2,4] = placeholder()\n";
	static const char *const good[] = {
		"f32[0,4] = index_select.default(%e, 0, %none)",
		"f32[3,0] = index_select.default(%n, 0, %i)",
		"f32[0] = gather.default(%v, 0, %none)",
		"f32[0,4] = index.Tensor(%e, [%none])",
		"f32[0,4] = embedding.default(%e, %none)",
	};
	static const char *const bad[] = {
		"index_select.default(%e, 0, %i)",
		"gather.default(%v, 0, %i)",
		"gather.default(%e, 0, %ij)",
		"index.Tensor(%e, [%i])",
		"index.Tensor(%v, [%one])",
		"embedding.default(%e, %i)",
		"_embedding_bag.default(%e, %i, %one)",
		"scatter.src(%v, 0, %i, %s)",
		"scatter_add.default(%v, 0, %i, %s)",
		"index_put.default(%v, [%i], %s)",
		"index_add.default(%v, 0, %i, %s)",
		"index_copy.default(%e, 0, %i, %r3)",
		"embedding_dense_backward.default(%r3, %i, 0, -1, False)",
	};
	ACCEPT(in, good);
	REFUSE(in, bad);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_infer_broadcast_shapes),
		cmocka_unit_test(test_infer_promotion_matrix),
		cmocka_unit_test(test_infer_promotion_kinds),
		cmocka_unit_test(test_infer_padding_and_resampling),
		cmocka_unit_test(test_infer_windows_of_other_kinds),
		cmocka_unit_test(test_infer_reductions),
		cmocka_unit_test(test_infer_views),
		cmocka_unit_test(test_infer_indexing_and_joining),
		cmocka_unit_test(test_infer_indices_into_nothing_refused),
		cmocka_unit_test(test_infer_products_and_norms),
		cmocka_unit_test(test_infer_symbolic_sizes),
		cmocka_unit_test(test_infer_nested_symbolic_slices_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
