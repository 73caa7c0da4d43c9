/* test_jobs.c: which kernels of a plan are one in a store. */
#include "jobs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct stx_digest id_of(const char *kernel, const char *asked)
{
	Stx__Kernel k = STX__KERNEL__INIT, *list = &k;
	Stx__JobReply plan = STX__JOB_REPLY__INIT;
	Stx__Lookup what = STX__LOOKUP__INIT;
	struct stx_digest ir = { { 7 } }, compiler = { { 9 } }, id;
	struct stx_kernel_ids ids;
	struct stx_diag d = { 0 };
	k.digest = (ProtobufCBinaryData){ sizeof ir.b, ir.b };
	k.target = (char *)(uintptr_t)kernel;
	plan.kernels = &list;
	plan.n_kernels = 1;
	what.target = (char *)(uintptr_t)asked;
	assert_int_equal(stx_jobs_kernels(&plan, &what, &compiler, &ids, &d), 0);
	assert_int_equal(ids.n, 1);
	id = ids.at[0].id;
	stx_kernel_ids_free(&ids);
	return id;
}

/* Machines share what does not use what they differ in. */
static void test_jobs_kernel_is_known_by_the_target_its_code_depends_on(void **state)
{
	(void)state;
	struct stx_digest level = id_of("", "cpu:x86-64-v4"),
			  less = id_of("cpu:x86-64-v4", "cpu:x86-64-v4+avx512bf16"),
			  more = id_of("", "cpu:x86-64-v4+avx512bf16");
	assert_true(stx_digest_eq(&level, &less));
	assert_false(stx_digest_eq(&level, &more));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jobs_kernel_is_known_by_the_target_its_code_depends_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
