/* test_compile.c: what the calls of compile.h refuse, and that each refuses it alike. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "compile.h"
#include "compiled.h"

static struct stx_source source_of(const char *text)
{
	return (struct stx_source){ .format = 2, .body = { (const uint8_t *)text, strlen(text) } };
}

/* DS-01: the default is concrete shapes; an artifact for the hint would be wrong for other sizes.
 */
static void test_compile_size_symbol_is_refused_by_name_wherever_code_is_made(void **state)
{
	static const char text[] = "sym batch = [1,100] hint 4\n%x : f32[batch,2] = placeholder()\n"
				   "%m = mul.Scalar(%x, 3)\nreturn (%m,)\n";
	struct stx_source s = source_of(text);
	struct stx_compare_options o = { .compile = { .target = "cpu:x86-64-v2" },
					 .max_work = 1000 };
	struct stx_key_result key;
	struct stx_compare_result layers;
	struct stx_bytes out = { 0 };
	struct stx_diag d = { 0 };
	float x[8] = { 0 };
	struct stx_tensor in = { .data = x, .dtype = STX_F32, .rank = 2, .sizes = { 4, 2 } };
	struct stx_tensor outs[1];
	uint32_t n = 1;
	(void)state;
	compiled_dense(&in);
	assert_int_equal(stx_compile_key(compiled_compiler(), &s, &o.compile, &key, &d),
			 STX_E_UNSUPPORTED);
	assert_non_null(strstr(d.text, "size symbol 'batch'"));
	stx_key_result_free(&key);
	stx_diag_clear(&d);
	assert_int_equal(
		stx_compile_dump(compiled_compiler(), &s, &o.compile, "kernels", "text", &out, &d),
		STX_E_UNSUPPORTED);
	stx_bytes_free(&out);
	stx_diag_clear(&d);
	assert_int_equal(stx_compile_compare(&s, &o, &in, 1, outs, &n, &layers, &d),
			 STX_E_UNSUPPORTED);
}

static void test_compile_options_without_a_compiler_are_refused_by_every_call(void **state)
{
	struct stx_source s = source_of("%x : f32[2] = placeholder()\nreturn (%x,)\n");
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct stx_compile_options o = { .target = "cpu:x86-64-v2",
						 .training = i == 0,
						 .dynamic = i == 1 };
		struct stx_key_result key;
		struct stx_bytes out = { 0 };
		struct stx_diag d = { 0 };
		assert_int_equal(stx_compile_key(compiled_compiler(), &s, &o, &key, &d),
				 STX_E_UNSUPPORTED);
		assert_non_null(strstr(d.text, i ? "--dynamic" : "--training"));
		stx_key_result_free(&key);
		stx_diag_clear(&d);
		assert_int_equal(
			stx_compile_dump(compiled_compiler(), &s, &o, "plan", "text", &out, &d),
			STX_E_UNSUPPORTED);
		stx_bytes_free(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compile_size_symbol_is_refused_by_name_wherever_code_is_made),
		cmocka_unit_test(test_compile_options_without_a_compiler_are_refused_by_every_call),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
