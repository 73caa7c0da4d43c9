/* The oracle against values computed by hand: the driver and comparison. */
#include "ref_run.h"

/* ---- the driver ---- */

static void test_ref_assert_fails_with_its_message(void **s)
{
	const char *text = "%c : bool[1] = placeholder()\n%a : f32[1] = placeholder()\n"
			   "%e = _assert_async.msg(%c, 'sizes agree')\nreturn (%a,)\n";
	struct stx_diag d = { 0 };

	(void)s;
	expect(RUN(text, make(STX_BOOL, DIMS(1), VALS(1)), make(STX_F32, DIMS(1), VALS(5))),
	       STX_F32, DIMS(1), VALS(5));
	assert_int_equal(run_error(text,
				   (struct stx_tensor[]){ make(STX_BOOL, DIMS(1), VALS(0)),
							  make(STX_F32, DIMS(1), VALS(5)) },
				   2, &d),
			 STX_E_MISMATCH);
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
	const char *text =
		"%x : f32[2] = placeholder()\n%y = add.Scalar(%x, 1)\nreturn (%y, %y, %x)\n";
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
	struct stx_tensor a = make(STX_F32, DIMS(4), VALS(1, NAN, INFINITY, 0)),
			  b = make(STX_F32, DIMS(4), VALS(1.00001, NAN, INFINITY, -0.0));
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
		cmocka_unit_test(test_ref_assert_fails_with_its_message),
		cmocka_unit_test(test_ref_budget_is_an_error),
		cmocka_unit_test(test_ref_wrong_input_is_an_error),
		cmocka_unit_test(test_ref_outputs_do_not_share),
		cmocka_unit_test(test_ref_compare_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
