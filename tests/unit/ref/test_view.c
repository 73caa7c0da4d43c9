/* The oracle against values computed by hand: views, indexing, joining and creation. */
#include "ref_run.h"

/* ---- views ---- */

static void test_ref_views_compose_without_copies(void **s)
{
	double x[24];

	(void)s;
	for (int i = 0; i < 24; i++)
		x[i] = i;
	expect(RUN("%x : f32[4,6] = placeholder()\n%t = t.default(%x)\n%s = slice.Tensor(%t, 0, 1, "
		   "6, 2)\n"
		   "%f = flip.default(%s, [1])\n%r = select.int(%f, 0, -1)\nreturn (%r,)\n",
		   make(STX_F32, DIMS(4, 6), x)),
	       STX_F32, DIMS(4), VALS(23, 17, 11, 5));
	expect(RUN("%x : f32[2,3] = placeholder()\n%t = transpose.int(%x, 0, 1)\n%v = "
		   "view.default(%t, [2,-1])\nreturn (%v,)\n",
		   make(STX_F32, DIMS(2, 3), x)),
	       STX_F32, DIMS(2, 3), VALS(0, 3, 1, 4, 2, 5));
	expect(RUN("%x : f32[2,2,3] = placeholder()\n%v = view.default(%x, [4,1,3])\n%p = "
		   "permute.default(%v, [2,1,0])\n"
		   "%q = squeeze.dims(%p, [1])\n%u = unsqueeze.default(%q, -1)\nreturn (%u,)\n",
		   make(STX_F32, DIMS(2, 2, 3), x)),
	       STX_F32, DIMS(3, 4, 1), VALS(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11));
	expect(RUN("%x : f32[3,4] = placeholder()\n%d = diagonal.default(%x, 1)\nreturn (%d,)\n",
		   make(STX_F32, DIMS(3, 4), x)),
	       STX_F32, DIMS(3), VALS(1, 6, 11));
	expect(RUN("%x : f32[3,4] = placeholder()\n%d = diagonal.default(%x, -1)\nreturn (%d,)\n",
		   make(STX_F32, DIMS(3, 4), x)),
	       STX_F32, DIMS(2), VALS(4, 9));
	expect(RUN("%x : f32[3,1] = placeholder()\n%e = expand.default(%x, [2,-1,2])\n%v = "
		   "reshape.default(%e, [4,3])\nreturn (%v,)\n",
		   make(STX_F32, DIMS(3, 1), x)),
	       STX_F32, DIMS(4, 3), VALS(0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2));
	expect(RUN("%x : f32[0,3] = placeholder()\n%v = view.default(%x, [3,0,2])\nreturn (%v,)\n",
		   make(STX_F32, DIMS(0, 3), NULL)),
	       STX_F32, DIMS(3, 0, 2), NULL);
	expect(RUN("%x : f32[2,3] = placeholder()\n%v = triu.default(%x, 1)\nreturn (%v,)\n",
		   make(STX_F32, DIMS(2, 3), x)),
	       STX_F32, DIMS(2, 3), VALS(0, 1, 2, 0, 0, 5));
	expect(RUN("%x : f32[2] = placeholder()\n%v = repeat.default(%x, [2,2])\nreturn (%v,)\n",
		   make(STX_F32, DIMS(2), x)),
	       STX_F32, DIMS(2, 4), VALS(0, 1, 0, 1, 0, 1, 0, 1));
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
	expect(RUN("%x : f32[2,3] = placeholder()\n%y = add.Scalar(%x, 1)\nreturn (%y,)\n", x),
	       STX_F32, DIMS(2, 3), VALS(6, 4, 2, 6, 4, 2));
}

/* ---- indexing ---- */

/* B15 */
static void test_ref_index_rules_differ_by_operator(void **s)
{
	const char *gather = "%x : f32[4] = placeholder()\n%i : i64[2] = placeholder()\n%y = "
			     "gather.default(%x, 0, %i)\nreturn (%y,)\n";
	struct stx_diag d = { 0 };

	(void)s;
	expect(RUN("%x : f32[4] = placeholder()\n%i : i64[1] = placeholder()\n%y = "
		   "index.Tensor(%x, [%i])\nreturn (%y,)\n",
		   make(STX_F32, DIMS(4), VALS(1, 2, 3, 4)), make(STX_I64, DIMS(1), VALS(-1))),
	       STX_F32, DIMS(1), VALS(4));
	expect(RUN(gather, make(STX_F32, DIMS(4), VALS(1, 2, 3, 4)),
		   make(STX_I64, DIMS(2), VALS(3, 0))),
	       STX_F32, DIMS(2), VALS(4, 1));
	assert_int_equal(run_error(gather,
				   (struct stx_tensor[]){ make(STX_F32, DIMS(4), VALS(1, 2, 3, 4)),
							  make(STX_I64, DIMS(2), VALS(0, -1)) },
				   2, &d),
			 STX_E_BOUNDS);
	assert_string_equal(d.node, "y");
	assert_non_null(strstr(d.text, "-1"));
	stx_diag_clear(&d);
	assert_int_equal(run_error(gather,
				   (struct stx_tensor[]){ make(STX_F32, DIMS(4), VALS(1, 2, 3, 4)),
							  make(STX_I64, DIMS(2), VALS(0, 4)) },
				   2, &d),
			 STX_E_BOUNDS);
	stx_diag_clear(&d);
	assert_int_equal(run_error("%x : f32[4] = placeholder()\n%i : i64[1] = placeholder()\n%y = "
				   "index.Tensor(%x, [%i])\nreturn (%y,)\n",
				   (struct stx_tensor[]){ make(STX_F32, DIMS(4), VALS(1, 2, 3, 4)),
							  make(STX_I64, DIMS(1), VALS(-5)) },
				   2, &d),
			 STX_E_BOUNDS);
}

static void test_ref_indirect_reads(void **s)
{
	double x[24];

	(void)s;
	for (int i = 0; i < 24; i++)
		x[i] = i;
	expect(RUN("%w : f32[4,2] = placeholder()\n%i : i32[2,2] = placeholder()\n%y = "
		   "embedding.default(%w, %i)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(4, 2), x), make(STX_I32, DIMS(2, 2), VALS(3, 0, 1, 1))),
	       STX_F32, DIMS(2, 2, 2), VALS(6, 7, 0, 1, 2, 3, 2, 3));
	expect(RUN("%x : f32[2,3] = placeholder()\n%i : i64[2] = placeholder()\n%y = "
		   "index_select.default(%x, 1, %i)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(2, 3), x), make(STX_I64, DIMS(2), VALS(2, 0))),
	       STX_F32, DIMS(2, 2), VALS(2, 0, 5, 3));
	/* separated indices: their dimension comes first */
	expect(RUN("%x : f32[2,3,4] = placeholder()\n%i : i64[2] = placeholder()\n%j : i64[2] = "
		   "placeholder()\n"
		   "%y = index.Tensor(%x, [%i, None, %j])\nreturn (%y,)\n",
		   make(STX_F32, DIMS(2, 3, 4), x), make(STX_I64, DIMS(2), VALS(1, 0)),
		   make(STX_I64, DIMS(2), VALS(3, 1))),
	       STX_F32, DIMS(2, 3), VALS(15, 19, 23, 1, 5, 9));
	/* neighbouring ones stay in place */
	expect(RUN("%x : f32[2,3,4] = placeholder()\n%i : i64[2,1] = placeholder()\n%j : i64[2] = "
		   "placeholder()\n"
		   "%y = index.Tensor(%x, [None, %i, %j])\nreturn (%y,)\n",
		   make(STX_F32, DIMS(2, 3, 4), x), make(STX_I64, DIMS(2, 1), VALS(0, 2)),
		   make(STX_I64, DIMS(2), VALS(3, -4))),
	       STX_F32, DIMS(2, 2, 2), VALS(3, 0, 11, 8, 15, 12, 23, 20));
}

/* B25 */
static void test_ref_cat_pad_stack(void **s)
{
	double ones[6] = { 1, 1, 1, 1, 1, 1 };

	(void)s;
	expect(RUN("%a : f32[0] = placeholder()\n%b : f32[2,3] = placeholder()\n%y = "
		   "cat.default([%a, %b], 1)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(0), NULL), make(STX_F32, DIMS(2, 3), ones)),
	       STX_F32, DIMS(2, 3), ones);
	expect(RUN("%a : f32[0] = placeholder()\n%b : f32[1,8,0,78] = placeholder()\n%y = "
		   "cat.default([%a, %b], -2)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(0), NULL), make(STX_F32, DIMS(1, 8, 0, 78), NULL)),
	       STX_F32, DIMS(1, 8, 0, 78), NULL);
	expect(RUN("%a : f32[2,0] = placeholder()\n%b : f32[2,2] = placeholder()\n%y = "
		   "cat.default([%a, %b, %b], 1)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(2, 0), NULL), make(STX_F32, DIMS(2, 2), VALS(1, 2, 3, 4))),
	       STX_F32, DIMS(2, 4), VALS(1, 2, 1, 2, 3, 4, 3, 4));
	expect(RUN("%a : f32[0] = placeholder()\n%y = cat.default([%a, %a], 0)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(0), NULL)),
	       STX_F32, DIMS(0), NULL);
	expect(RUN("%a : f32[2,2] = placeholder()\n%y = constant_pad_nd.default(%a, [1, -1, 0, 1], "
		   "9)\nreturn (%y,)\n",
		   make(STX_F32, DIMS(2, 2), VALS(1, 2, 3, 4))),
	       STX_F32, DIMS(3, 2), VALS(9, 1, 9, 3, 9, 9));
	expect(RUN("%a : i32[2] = placeholder()\n%b : f32[2] = placeholder()\n%y = "
		   "stack.default([%a, %b], 1)\nreturn (%y,)\n",
		   make(STX_I32, DIMS(2), VALS(1, 2)), make(STX_F32, DIMS(2), VALS(3.5, 4))),
	       STX_F32, DIMS(2, 2), VALS(1, 3.5, 2, 4));
}

/* B09 */
static void test_ref_integer_ranges(void **s)
{
	double want[11];

	(void)s;
	for (int i = 0; i < 11; i++)
		want[i] = i * 1e9;
	expect(RUN("%f : i64[1] = placeholder()\n%a = arange.start_step(0, 11, dtype=i64)\n%y = "
		   "mul.Tensor(%a, %f)\nreturn (%y,)\n",
		   make(STX_I64, DIMS(1), VALS(1e9))),
	       STX_I64, DIMS(11), want);
	expect(run("%a = arange.start_step(1, 2, 0.25, dtype=f32)\nreturn (%a,)\n", NULL, 0),
	       STX_F32, DIMS(4), VALS(1, 1.25, 1.5, 1.75));
	expect(run("%a = full.default([2], -212, dtype=u8)\nreturn (%a,)\n", NULL, 0), STX_U8,
	       DIMS(2), VALS(44, 44));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ref_views_compose_without_copies),
		cmocka_unit_test(test_ref_inputs_of_any_strides),
		cmocka_unit_test(test_ref_index_rules_differ_by_operator),
		cmocka_unit_test(test_ref_indirect_reads),
		cmocka_unit_test(test_ref_cat_pad_stack),
		cmocka_unit_test(test_ref_integer_ranges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
