/* Names of CUDA targets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "gpu_target.h"

static void test_gpu_target_every_device_prints_and_parses(void **state)
{
	static const char *const names[] = {
#define STX_DEVICE(name, arch, sms, threads, shared, l2, cluster, driver) "cuda:" arch ":" name,
#include "gpu_devices.def"
#undef STX_DEVICE
	};
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct stx_gpu_target t;
		char text[64];
		assert_int_equal(stx_gpu_target_parse(names[i], &t, NULL), STX_E_OK);
		stx_gpu_target_print(&t, text);
		assert_string_equal(text, names[i]);
	}
}

static void test_gpu_target_names_without_device_take_the_first(void **state)
{
	static const struct {
		const char *text, *full;
	} names[] = { { "cuda:sm_90", "cuda:sm_90a:h100-sxm" },
		      { "cuda:sm_90a", "cuda:sm_90a:h100-sxm" },
		      { "cuda:sm_89", "cuda:sm_89:l40s" },
		      { "cuda:sm_120", "cuda:sm_120a:rtx5090" } };
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct stx_gpu_target t;
		char text[64];
		assert_int_equal(stx_gpu_target_parse(names[i].text, &t, NULL), STX_E_OK);
		stx_gpu_target_print(&t, text);
		assert_string_equal(text, names[i].full);
	}
}

static void test_gpu_target_unknown_name_is_refused_with_the_known(void **state)
{
	static const char *const bad[] = { "cuda",      "cuda:",       "cuda:sm_75",
					   "cuda:sm_9", "cuda:sm_90:", "cuda:sm_90a:a100",
					   "cpu",       NULL };
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct stx_gpu_target t;
		struct stx_diag d = { 0 };
		assert_int_equal(stx_gpu_target_parse(bad[i], &t, &d), STX_E_UNSUPPORTED);
		assert_non_null(strstr(d.text, "sm_89 (l40s, rtx4090), sm_90a (h100-sxm, h200), "));
		assert_non_null(strstr(d.text, "sm_120a (rtx5090)"));
	}
}

static void test_gpu_target_of_a_present_device_is_found_by_its_name(void **state)
{
	static const struct {
		int major, minor;
		const char *driver, *full;
	} found[] = { { 9, 0, "NVIDIA H200", "cuda:sm_90a:h200" },
		      { 9, 0, "NVIDIA H100 80GB HBM3", "cuda:sm_90a:h100-sxm" },
		      { 9, 0, "something new", "cuda:sm_90a:h100-sxm" },
		      { 8, 9, "NVIDIA GeForce RTX 4090", "cuda:sm_89:rtx4090" },
		      { 8, 0, "NVIDIA A100-SXM4-40GB", "cuda:sm_80:a100" } };
	struct stx_gpu_target t;
	(void)state;
	for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
		char text[64];
		assert_true(
			stx_gpu_target_find(found[i].major, found[i].minor, found[i].driver, &t));
		stx_gpu_target_print(&t, text);
		assert_string_equal(text, found[i].full);
	}
	assert_false(stx_gpu_target_find(7, 5, "Tesla T4", &t));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gpu_target_every_device_prints_and_parses),
		cmocka_unit_test(test_gpu_target_names_without_device_take_the_first),
		cmocka_unit_test(test_gpu_target_unknown_name_is_refused_with_the_known),
		cmocka_unit_test(test_gpu_target_of_a_present_device_is_found_by_its_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
