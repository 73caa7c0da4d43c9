/* test_scatter.c: writes at run-time indices and updates in place: the stated cases on every path,
 * order of duplicates, bounds (B15, B17; LO-13 to LO-17). */
#include "cases.h"
#include "graph_gen.h"

/* B17, LO-16: the last write to an element stays; LO-17: accumulation counts every one. */
static void test_scatter_duplicates_as_stated(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%x : f32[1,3] = placeholder()\n%i : i64[3] = placeholder()\n"
			"%s : f32[3,3] = placeholder()\n%e = expand.default(%x, [4,3])\n"
			"%y = index_add.default(%e, 0, %i, %s)\nreturn (%y, %x)\n",
		.in = { V(1), V(0, 0, 2), V(1, 1, 1, 2, 2, 2, 4, 4, 4) },
		.out = { V(4, 4, 4, 1, 1, 1, 5, 5, 5, 1, 1, 1), V(1) },
		.skip = CASE_NO_FOLD });
	case_check(&(struct stated){
		.text = "%x : i64[4] = placeholder()\n%i : i64[4] = placeholder()\n"
			"%v : i64[4] = placeholder()\n%y = index_put.default(%x, [%i], %v, True)\n"
			"%z = index_put.default(%x, [%i], %v)\n"
			"%c = index_copy.default(%x, 0, %i, %v)\n"
			"%f = index_fill.int_Scalar(%x, 0, %i, 9)\nreturn (%y, %z, %c, %f)\n",
		.in = { V(0), V(1, 1, 1, 3), V(1, 2, 4, 8) },
		.out = { V(0, 7, 0, 8), V(0, 4, 0, 8), V(0, 4, 0, 8), V(0, 9, 0, 9) },
		.skip = CASE_NO_FOLD });
	/* LO-17: every index the same, at lengths that leave vector tails */
	static const int64_t lengths[] = { 1, 15, 64, 100, 1025 };
	for (int k = 0; k < 5; k++) {
		double n = (double)lengths[k];
		case_check_at(
			&(struct stated){
				.text = "%x : f32[3] = placeholder()\n%i : i64[@] = placeholder()\n"
					"%v : f32[@] = placeholder()\n"
					"%y = scatter_add.default(%x, 0, %i, %v)\nreturn (%y,)\n",
				.in = { V(5), V(1), V(1) },
				.out = { V(5, 5 + n, 5) },
				.skip = CASE_NO_FOLD },
			lengths[k]);
	}
}

/* Reductions of scatter_reduce, with and without self. */
static void test_scatter_reduce_kinds_as_stated(void **state)
{
	static const struct {
		const char *how, *self;
		double out[3];
	} kinds[] = {
		{ "sum", "True", { 7, 2, 8 } },       { "sum", "False", { 6, 2, 5 } },
		{ "prod", "True", { 5, 2, 15 } },     { "prod", "False", { 5, 2, 5 } },
		{ "amax", "True", { 5, 2, 5 } },      { "amax", "False", { 5, 2, 5 } },
		{ "amin", "True", { 1, 2, 3 } },      { "amin", "False", { 1, 2, 5 } },
		{ "mean", "True", { 7. / 3, 2, 4 } }, { "mean", "False", { 3, 2, 5 } },
	};
	(void)state;
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
		char text[400];
		snprintf(text, sizeof text,
			 "%%x : f64[3] = placeholder()\n%%i : i64[3] = placeholder()\n"
			 "%%v : f64[3] = placeholder()\n"
			 "%%y = scatter_reduce.two(%%x, 0, %%i, %%v, '%s', include_self=%s)\n"
			 "return (%%y,)\n",
			 kinds[k].how, kinds[k].self);
		case_check(&(struct stated){ .text = text,
					     .in = { V(1, 2, 3), V(0, 0, 2), V(1, 5, 5) },
					     .out = { { kinds[k].out, 3 } },
					     .skip = CASE_NO_FOLD });
	}
	/* NaN wins, -0 < +0; integers round down; bools are or and and */
	case_check(&(struct stated){
		.text = "%x : f32[3] = placeholder()\n%i : i64[4] = placeholder()\n"
			"%v : f32[4] = placeholder()\n"
			"%y = scatter_reduce.two(%x, 0, %i, %v, 'amax')\n"
			"%z = scatter_reduce.two(%x, 0, %i, %v, 'amin')\nreturn (%y, %z)\n",
		.in = { V(1, -0.0, 3), V(0, 1, 1, 2), V(NAN, -0.0, 0.0, 2) },
		.out = { V(NAN, 0.0, 3), V(NAN, -0.0, 2) },
		.skip = CASE_NO_FOLD });
	case_check(&(struct stated){
		.text = "%x : i32[2] = placeholder()\n%i : i64[2] = placeholder()\n"
			"%v : i32[2] = placeholder()\n%b : bool[2] = placeholder()\n"
			"%c : bool[2] = placeholder()\n"
			"%y = scatter_reduce.two(%x, 0, %i, %v, 'mean')\n"
			"%s = scatter_add.default(%b, 0, %i, %c)\n"
			"%p = scatter_reduce.two(%b, 0, %i, %c, 'prod')\nreturn (%y, %s, %p)\n",
		.in = { V(7, 7), V(0, 0), V(-10, -5), V(0, 1), V(1, 1) },
		.out = { V(-3, 7), V(1, 1), V(0, 1) },
		.skip = CASE_NO_FOLD });
	/* halves accumulate in f32 and round once: 2048 + 1 + 1 */
	case_check(&(struct stated){
		.text = "%x : f16[1] = placeholder()\n%i : i64[2] = placeholder()\n"
			"%v : f16[2] = placeholder()\n%y = scatter_add.default(%x, 0, %i, %v)\n"
			"%z = index_put.default(%x, [%i], %v, True)\nreturn (%y, %z)\n",
		.in = { V(2048), V(0, 0), V(1, 1) },
		.out = { V(2050), V(2050) },
		.skip = CASE_NO_FOLD });
}

static void check_bounds(const char *call, const double *index, int64_t n, int bad,
			 const double *out)
{
	struct stx_arena *a = stx_arena_new(0);
	const char *text =
		stx_arena_printf(a,
				 "%%x : f32[4] = placeholder()\n%%i : i64[6] = placeholder()\n"
				 "%%s : f32[6] = placeholder()\n%%y = %s\nreturn (%%y,)\n",
				 call);
	const double x[] = { 1, 2, 3, 4 }, src[] = { 1, 2, 3, 4, 5, 6 };
	struct stx_graph *g = case_parse(a, text);
	struct stx_tensor in[3], got[1];
	for (uint32_t i = 0; i < 3; i++)
		compiled_shape(g, &g->inputs.at[i], &in[i]);
	case_fill(a, &in[0], (struct values){ x, 4 }, 0);
	case_fill(a, &in[1], (struct values){ index, n }, 0);
	case_fill(a, &in[2], (struct values){ src, 6 }, 0);
	for (const char *const *t = compiled_targets(); *t; t++) {
		struct stx_diag d = { 0 };
		struct compiled c;
		assert_int_equal(compiled_build(text, *t, COMPILED_FUSED, &c, &d), 0);
		stx_err e = compiled_run(&c, COMPILED_POOL, in, 3, got, &d);
		if (!!e != bad || (e && e != STX_E_BOUNDS))
			fail_msg("%s on %s: %d %s", call, *t, e, d.text);
		if (e && (!strstr(d.text, "index out of bounds: 0 <= ") || !strstr(d.text, " < 4")))
			fail_msg("%s: the message is '%s'", call, d.text);
		for (int i = 0; !e && i < 4; i++)
			assert_true(((float *)got[0].data)[i] == out[i]);
		for (int i = 0; i < 4; i++) /* self is unchanged */
			assert_true(((const float *)in[0].data)[i] == (float)x[i]);
		if (!e)
			compiled_free_outputs(got, 1);
		compiled_free(&c);
	}
	struct stx_diag d = { 0 };
	stx_err f = stx_ref_evaluate(g, in, 3, got, 0, &d);
	assert_int_equal(f, bad ? STX_E_BOUNDS : 0);
	if (!f)
		compiled_free_outputs(got, 1);
	stx_arena_free(a);
}

/* B15: what wraps and what does not, reported from inside the parallel region. */
static void test_scatter_bounds_as_stated(void **state)
{
	static const double sum[] = { 5, 8, 8, 10 };
	static const char reduce[] = "scatter_reduce.two(%x, 0, %i, %s, 'sum')",
			  add[] = "index_add.default(%x, 0, %i, %s)",
			  put[] = "index_put.default(%x, [%i], %s, True)",
			  copy[] = "index_copy.default(%x, 0, %i, %s)";
	(void)state;
	check_bounds(reduce, (double[]){ 0, 1, 0, 1, 2, 3 }, 6, 0, sum);
	check_bounds(reduce, (double[]){ 0, 1, 0, 1, 2, -1 }, 6, 1, NULL);
	check_bounds(reduce, (double[]){ 0, 1, 0, 1, 2, 4 }, 6, 1, NULL);
	check_bounds(add, (double[]){ 0, 1, 0, 1, 2, -1 }, 6, 1, NULL);
	check_bounds(copy, (double[]){ 0, 1, 0, 1, 2, -1 }, 6, 1, NULL);
	check_bounds(put, (double[]){ 0, 1, 0, 1, 2, -1 }, 6, 0, sum);
	check_bounds(put, (double[]){ 0, 1, 0, 1, 2, -5 }, 6, 1, NULL);
	case_check(&(struct stated){ .text = "%x : f32[4] = placeholder()\n"
					     "%i : i64[1] = placeholder()\n"
					     "%y = index.Tensor(%x, [%i])\n"
					     "%f = index_fill.int_Scalar(%x, 0, %i, 7)\n"
					     "return (%y, %f)\n",
				     .in = { V(1, 2, 3, 4), V(-1) },
				     .out = { V(4), V(1, 2, 3, 7) },
				     .skip = CASE_NO_FOLD });
}

/* index_put: indices that broadcast, are apart, leave dimensions out; masks. */
static void test_scatter_index_put_shapes(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%x : i32[2,3,4] = placeholder()\n%i : i64[2,1] = placeholder()\n"
			"%j : i64[2] = placeholder()\n%v : i32[2,2,3] = placeholder()\n"
			"%y = index_put.default(%x, [%i, None, %j], %v)\nreturn (%y,)\n",
		.in = { V(0), V(0, -1), V(1, 3), V(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12) },
		.out = { V(0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6, 0, 7, 0, 10, 0, 8, 0, 11, 0, 9, 0,
			   12) },
		.skip = CASE_NO_FOLD });
	case_check(&(struct stated){
		.text = "%x : f32[2,3] = placeholder()\n%m : bool[2] = placeholder()\n"
			"%v : f32[] = placeholder()\n%y = index_put.default(%x, [%m], %v)\n"
			"%z = index_put.default(%x, [%m], %v, True)\nreturn (%y, %z)\n",
		.in = { V(1, 2, 3, 4, 5, 6), V(0, 1), V(10) },
		.out = { V(1, 2, 3, 10, 10, 10), V(1, 2, 3, 14, 15, 16) },
		.skip = CASE_NO_FOLD });
}

/* Writes through views: a slice, one position, a diagonal; also where self may be overwritten. */
static void test_scatter_through_views(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%x : f32[2,4] = placeholder()\n%v : f32[2,2] = placeholder()\n"
			"%w : f32[2] = placeholder()\n"
			"%a = slice_scatter.default(%x, %v, 1, 0, 4, 2)\n"
			"%b = select_scatter.default(%x, %w, 1, -1)\n"
			"%c = diagonal_scatter.default(%x, %w, 1)\n"
			"%d = slice_scatter.default(%x, %v, 1, -2)\nreturn (%a, %b, %c, %d, %x)\n",
		.in = { V(1, 2, 3, 4, 5, 6, 7, 8), V(10, 20, 30, 40), V(-1, -2) },
		.out = { V(10, 2, 20, 4, 30, 6, 40, 8), V(1, 2, 3, -1, 5, 6, 7, -2),
			 V(1, -1, 3, 4, 5, 6, -2, 8), V(1, 2, 10, 20, 5, 6, 30, 40),
			 V(1, 2, 3, 4, 5, 6, 7, 8) } });
	case_check(&(struct stated){
		.text = "%x : f32[2,2] = placeholder()\n%v : f32[1,2] = placeholder()\n"
			"%w : f32[2] = placeholder()\n%m = mm.default(%x, %x)\n"
			"%t = permute.default(%m, [1, 0])\n"
			"%a = slice_scatter.default(%t, %v, 0, 1)\n"
			"%b = select_scatter.default(%a, %w, 1, 0)\nreturn (%b,)\n",
		.in = { V(1, 2, 3, 4), V(100, 200), V(-1, -2) },
		.out = { V(-1, 15, -2, 200) } });
}

static void test_scatter_gradients_as_stated(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%g : f32[3,2] = placeholder()\n%i : i64[3] = placeholder()\n"
			"%a = embedding_dense_backward.default(%g, %i, 3, -1, False)\n"
			"%b = embedding_dense_backward.default(%g, %i, 3, 2, False)\n"
			"%c = embedding_dense_backward.default(%g, %i, 3, -1, True)\n"
			"return (%a, %b, %c)\n",
		.in = { V(1, 2, 3, 4, 5, 6), V(0, 2, 0) },
		.out = { V(6, 8, 0, 0, 3, 4), V(6, 8, 0, 0, 0, 0), V(3, 4, 0, 0, 3, 4) },
		.skip = CASE_NO_FOLD });
	case_check(&(struct stated){
		.text = "%x : f32[2,3] = placeholder()\n%m : bool[3] = placeholder()\n"
			"%s : f32[5] = placeholder()\n%a = masked_scatter.default(%x, %m, %s)\n"
			"return (%a,)\n",
		.in = { V(1, 2, 3, 4, 5, 6), V(1, 0, 1), V(10, 20, 30, 40, 50) },
		.out = { V(10, 2, 20, 30, 5, 40) } });
}

/* B19: the same bytes as another type, little-endian, with a write in between. */
static void test_scatter_other_types_of_the_same_bytes(void **state)
{
	double x[24], y[24];
	(void)state;
	for (int i = 0; i < 24; i++) {
		int64_t v = i - 12;
		int32_t lo = (int32_t)((uint32_t)v * 2 + 4),
			hi = (int32_t)((uint32_t)(v >> 32) * 2 + 4);
		x[i] = (double)v;
		y[i] = (double)(int64_t)((uint64_t)(uint32_t)hi << 32 | (uint32_t)lo);
	}
	assert_true(y[12] == 17179869188 && y[23] == 17179869210);
	case_check(&(struct stated){
		.text = "%x : i64[4,6] = placeholder()\n%v = view.dtype(%x, i32)\n"
			"%a = mul.Scalar(%v, 2)\n%b = add.Scalar(%a, 4)\n"
			"%f = full.default([4,3], 2, dtype=i64)\n"
			"%w = slice_scatter.default(%x, %f, 1, 2, 5)\n"
			"%y = view.dtype(%b, i64)\nreturn (%y, %w)\n",
		.in = { { x, 24 } },
		.out = { { y, 24 },
			 V(-12, -11, 2, 2, 2, -7, -6, -5, 2, 2, 2, -1, 0, 1, 2, 2, 2, 5, 6, 7, 2, 2,
			   2, 11) } });
	case_check(
		&(struct stated){ .text = "%x : f32[2] = placeholder()\n%a = view.dtype(%x, i32)\n"
					  "%b = view.dtype(%x, u8)\n%c = view.dtype(%b, f32)\n"
					  "return (%a, %b, %c)\n",
				  .in = { V(1, -2) },
				  .out = { V(0x3f800000, -0x40000000),
					   V(0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0), V(1, -2) } });
}

/* Memory seen with other strides; lists of parts; sizes as values. */
static void test_scatter_memory_operators(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%x : f32[2,3] = placeholder()\n%t : f32[3,2] = placeholder(strides=[1, "
			"3])\n"
			"%a = as_strided.default(%x, [2, 2], [1, 2], 1)\n"
			"%b = as_strided.default(%t, [2, 3], [3, 1])\n"
			"%e = exp.default(%x)\n%c = as_strided.default(%e, [3], [0], 5)\n"
			"%n = sym_numel.default(%x)\n%s = sym_stride.int(%t, 1)\n"
			"return (%a, %b, %c, %n, %s)\n",
		.in = { V(0, 1, 2, 3, 4, 0), V(5, 6, 7, 8, 9, 10) },
		.out = { V(1, 3, 2, 4), V(5, 6, 7, 8, 9, 10), V(1), V(6), V(3) },
		.skip = CASE_NO_FOLD });
	case_check(&(struct stated){
		.text = "%x : i32[5] = placeholder()\n"
			"%a : (i32[2], i32[0], i32[3]) = split_with_sizes.default(%x, [2, 0, 3])\n"
			"%b : (i32[2], i32[2], i32[1]) = split.Tensor(%x, 2)\n"
			"%z = empty.memory_format([2])\n%f = fill.Scalar(%x, 7)\n"
			"%c = copy.default(%z, %b)\n%u = alias.default(%x)\n"
			"return (%a:2, %b:2, %z, %f, %c, %u)\n",
		.in = { V(1, 2, 3, 4, 5) },
		.out = { V(3, 4, 5), V(5), V(0), V(7), V(1, 2), V(1, 2, 3, 4, 5) },
		.skip = CASE_NO_FOLD });
}

/* Results whose shape depends on data are refused by name. */
static void test_scatter_data_dependent_shapes_are_refused(void **state)
{
	static const char *const calls[] = { "nonzero.default(%x)",
					     "_local_scalar_dense.default(%x)",
					     "index.Tensor(%y, [%x])",
					     "masked_select.default(%y, %x)" };
	(void)state;
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		struct stx_arena *a = stx_arena_new(0);
		const char *text = stx_arena_printf(a,
						    "%%x : bool[4] = placeholder()\n"
						    "%%y : f32[4] = placeholder()\n%%r = %s\n"
						    "return (%%r,)\n",
						    calls[i]);
		struct stx_graph *g;
		struct stx_diag d = { 0 };
		assert_int_equal(stx_graph_parse(a, text, strlen(text), &g, &d), STX_E_UNSUPPORTED);
		if (i != 2)
			assert_non_null(strstr(d.text, calls[i][0] == 95 ? "0-d tensor"
									 : "depends on data"));
		stx_arena_free(a);
	}
}

/* A false assertion is a run error with its message, from every level; a true one is not seen. */
static void test_scatter_failed_assertion_names_its_message(void **state)
{
	static const char text[] =
		"%x : f32[4] = placeholder()\n%a = gt.Scalar(%x, 0)\n%c = all.default(%a)\n"
		"%e : () = _assert_async.msg(%c, 'x must be positive')\n"
		"%b = lt.Scalar(%x, 9)\n%d = all.default(%b)\n"
		"%f : () = _assert_async.msg(%d, 'x is too large')\n"
		"%y = neg.default(%x)\nreturn (%y,)\n";
	static const double data[3][4] = { { 1, 2, 3, 4 }, { 1, -2, 3, 4 }, { 1, 2, 10, 4 } };
	static const char *const says[3] = { NULL, "assertion failed: x must be positive",
					     "assertion failed: x is too large" };
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = case_parse(a, text);
	struct stx_tensor in[1], got[1];
	(void)state;
	compiled_shape(g, &g->inputs.at[0], &in[0]);
	for (int k = 0; k < 3; k++) {
		struct stx_diag d = { 0 };
		case_fill(a, &in[0], (struct values){ data[k], 4 }, 0);
		for (const char *const *t = compiled_targets(); *t; t++) {
			struct compiled c;
			stx_diag_clear(&d);
			assert_int_equal(compiled_build(text, *t, COMPILED_FUSED, &c, &d), 0);
			stx_err e = compiled_run(&c, COMPILED_POOL, in, 1, got, &d);
			assert_int_equal(e, says[k] ? STX_E_MISMATCH : 0);
			if (says[k] && strcmp(d.text, says[k]))
				fail_msg("'%s', not '%s'", d.text, says[k]);
			if (!e)
				compiled_free_outputs(got, 1);
			compiled_free(&c);
		}
		stx_diag_clear(&d);
		stx_err e = stx_ref_evaluate(g, in, 1, got, 0, &d);
		assert_int_equal(e, says[k] ? STX_E_MISMATCH : 0);
		if (!e)
			compiled_free_outputs(got, 1);
	}
	stx_arena_free(a);
}

/* A key-value cache: the memory of a donated input is the result, nothing copies it; what reads the
 * input elsewhere, or is no whole row-major tensor, is not overwritten. */
static void test_scatter_cache_update_does_not_copy(void **state)
{
	static const struct {
		const char *text;
		int in_place;
	} cases[] = {
		{ "%c : f32[2,64,8] = placeholder(donated=True)\n%n : f32[2,1,8] = placeholder()\n"
		  "%p : i64[1] = placeholder()\n%r = index_copy.default(%c, 1, %p, %n)\n"
		  "%t = sum.dim_IntList(%r, [1], False)\nreturn (%r, %t)\n",
		  1 },
		{ "%c : f32[2,64,8] = placeholder(donated=True)\n%n : f32[2,1,8] = placeholder()\n"
		  "%p : i64[1] = placeholder()\n%r = slice_scatter.default(%c, %n, 1, 3, 4)\n"
		  "%t = sum.dim_IntList(%r, [1], False)\nreturn (%r, %t)\n",
		  1 },
		{ "%c : f32[2,64,8] = placeholder()\n%n : f32[2,1,8] = placeholder()\n"
		  "%p : i64[1] = placeholder()\n%r = index_copy.default(%c, 1, %p, %n)\n"
		  "%t = sum.dim_IntList(%r, [1], False)\nreturn (%r, %t)\n",
		  0 },
		{ "%c : f32[2,64,8] = placeholder(donated=True)\n%n : f32[2,1,8] = placeholder()\n"
		  "%p : i64[1] = placeholder()\n%r = index_copy.default(%c, 1, %p, %n)\n"
		  "%t = sum.dim_IntList(%c, [1], False)\nreturn (%r, %t)\n",
		  0 },
	};
	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct compiled c;
		struct stx_diag d = { 0 };
		struct stax_error err;
		float cache[2 * 64 * 8] = { 0 }, fresh[16], total[16], room[2 * 64 * 8];
		int64_t at = 3;
		for (int i = 0; i < 16; i++)
			fresh[i] = (float)(i + 1);
		if (compiled_build(cases[k].text, compiled_targets()[0], COMPILED_FUSED, &c, &d))
			fail_msg("%s", d.text);
		struct stx_tensor in[3] = {
			{ .data = cache, .dtype = STX_F32, .rank = 3, .sizes = { 2, 64, 8 } },
			{ .data = fresh, .dtype = STX_F32, .rank = 3, .sizes = { 2, 1, 8 } },
			{ .data = &at, .dtype = STX_I64, .rank = 1, .sizes = { 1 } },
		}, out[2], flags;
		const char *name;
		for (int i = 0; i < 3; i++)
			compiled_dense(&in[i]);
		assert_int_equal(stax_query(c.artifact, in, 3, out, NULL, &err), 0);
		for (int i = 0; i < 2; i++)
			compiled_dense(&out[i]);
		out[0].data = cases[k].in_place ? NULL : (void *)room;
		out[1].data = total;
		if (compiled_call(&c, in, 3, out, 2, &err))
			fail_msg("%s", err.text);
		assert_int_equal(stax_input(c.artifact, 0, &flags, &name), 0);
		assert_int_equal(!!(flags.flags & STX_TENSOR_MUTATED), cases[k].in_place);
		assert_int_equal(out[0].data == (void *)cache, cases[k].in_place);
		const float *r = out[0].data;
		for (int i = 0; i < 2 * 64 * 8; i++) {
			int row = i / 8 % 64;
			assert_true(r[i] == (row == 3 ? fresh[i / 512 * 8 + i % 8] : 0));
		}
		for (int i = 0; i < 16; i++)
			assert_true(total[i] == (k == 3 ? 0 : fresh[i]));
		if (cases[k].in_place) /* the new rows in, the new rows out, sums over the cache */
			assert_true(c.bytes_written == 16 * 4 + 16 * 4);
		else
			assert_true(c.bytes_written > sizeof cache);
		compiled_free(&c);
	}
}

/* Memory that is read before the update only is not copied; what is read after it is. */
static void test_scatter_earlier_readers_need_no_copy(void **state)
{
	(void)state;
	for (int later = 0; later < 2; later++) {
		struct stx_arena *a = stx_arena_new(0);
		const char *text = stx_arena_printf(
			a,
			"%%x : f32[64,64] = placeholder()\n%%i : i64[2] = placeholder()\n"
			"%%v : f32[2,64] = placeholder()\n%%m = mm.default(%%x, %%x)\n"
			"%%e = exp.default(%%m)\n%%s = sum.dim_IntList(%%e, [1])\n"
			"%%r = index_put.default(%%m, [%%i], %%v)\n%%t = relu.default(%%r)\n"
			"%%u = add.Tensor(%%t, %%%s)\nreturn (%%s, %%u)\n",
			later ? "m" : "t");
		double want[64 * 64], sums[64];
		for (int k = 0; k < 64; k++)
			sums[k] = 64 * exp(64);
		for (int k = 0; k < 64 * 64; k++) {
			double r = k / 64 == 5 ? 7 : 64;
			want[k] = r + (later ? 64 : r);
		}
		case_check(&(struct stated){ .text = text,
					     .in = { V(1), V(5), V(7) },
					     .out = { { sums, 64 }, { want, 64 * 64 } },
					     .rtol = 1e-5,
					     .skip = CASE_NO_FOLD });
		struct compiled c;
		struct stx_diag d = { 0 };
		assert_int_equal(
			compiled_build(text, compiled_targets()[0], COMPILED_FUSED, &c, &d), 0);
		/* the product, the rows put, the sums, the last sum; and the copy */
		assert_true(later ? c.bytes_written > 3 * 64 * 64 * 4
				  : c.bytes_written < 3 * 64 * 64 * 4);
		compiled_free(&c);
		stx_arena_free(a);
	}
}

/* Results of a node with several: as places, as the memory written, as both; a sort after a copy
 * that is not made. */
static void test_scatter_among_sorts(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%x : f32[4] = placeholder()\n%v : f32[4] = placeholder()\n"
			"%i : i64[1] = placeholder()\n%s = sort.default(%x)\n"
			"%a = index_put.default(%v, [%s:1], %v)\n"
			"%b = index_fill.int_Scalar(%s:1, 0, %i, 9)\n"
			"%c = index_put.default(%s, [%s:1], %v)\nreturn (%a, %b, %c)\n",
		.in = { V(3, 1, 2, 0), V(10, 20, 30, 40), V(2) },
		.out = { V(40, 20, 30, 10), V(3, 1, 9, 0), V(40, 20, 30, 10) },
		.skip = CASE_NO_FOLD });
	case_check(&(struct stated){
		.text = "%x : f32[4,4] = placeholder()\n%i : i64[1] = placeholder()\n"
			"%m = mm.default(%x, %x)\n%e = sum.dim_IntList(%m, [1])\n"
			"%r = index_fill.int_Scalar(%m, 1, %i, 1)\n%s = sort.default(%r)\n"
			"return (%e, %s, %s:1)\n",
		.in = { V(1), V(2) },
		.out = { V(16), V(1, 4, 4, 4), V(2, 0, 1, 3) },
		.skip = CASE_NO_FOLD });
}

/* A reduction of what an update reads does not join its kernel: seed 1083 of the random graphs. */
static void test_scatter_beside_a_reduction_of_its_source(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%i : i64[1] = placeholder()\n%x : f16[1,1] = placeholder()\n"
			"%d : f32[1,1] = placeholder()\n%m = mean.default(%d)\n"
			"%h = _to_copy.default(%d, dtype=f16)\n"
			"%c = index_copy.default(%x, 1, %i, %h)\nreturn (%c, %m)\n",
		.in = { V(0), V(5312), V(2.5) },
		.out = { V(2.5), V(2.5) },
		.skip = CASE_NO_FOLD });
}

/* The number of updates of a mean need not fit the type: seed 976 of the random graphs. */
static void test_scatter_mean_of_more_than_the_type_counts(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%x : i8[1] = placeholder()\n%i : i64[127] = placeholder()\n"
			"%v : i8[127] = placeholder()\n%u : u8[1] = placeholder()\n"
			"%j : i64[255] = placeholder()\n%w : u8[255] = placeholder()\n"
			"%a = scatter_reduce.two(%x, 0, %i, %v, 'mean')\n"
			"%b = scatter_reduce.two(%u, 0, %j, %w, 'mean')\nreturn (%a, %b)\n",
		.in = { V(1), V(0), V(1), V(0), V(0), V(1) },
		.out = { V(-1), V(0) } });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scatter_duplicates_as_stated),
		cmocka_unit_test(test_scatter_reduce_kinds_as_stated),
		cmocka_unit_test(test_scatter_mean_of_more_than_the_type_counts),
		cmocka_unit_test(test_scatter_bounds_as_stated),
		cmocka_unit_test(test_scatter_index_put_shapes),
		cmocka_unit_test(test_scatter_through_views),
		cmocka_unit_test(test_scatter_gradients_as_stated),
		cmocka_unit_test(test_scatter_other_types_of_the_same_bytes),
		cmocka_unit_test(test_scatter_memory_operators),
		cmocka_unit_test(test_scatter_data_dependent_shapes_are_refused),
		cmocka_unit_test(test_scatter_failed_assertion_names_its_message),
		cmocka_unit_test(test_scatter_cache_update_does_not_copy),
		cmocka_unit_test(test_scatter_earlier_readers_need_no_copy),
		cmocka_unit_test(test_scatter_among_sorts),
		cmocka_unit_test(test_scatter_beside_a_reduction_of_its_source),
	};
	return cmocka_run_group_tests(tests, case_setup, NULL);
}
