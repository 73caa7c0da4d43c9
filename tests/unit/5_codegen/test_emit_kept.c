/* test_emit_kept.c: what one loop of a row computes and a later one needs again is kept on the
 * stack, and is the same; what may have changed in between is computed again. */
#include "jit.h"

#define EACH_TARGET(t)                                                                             \
	const char *const *t = jit_targets();                                                      \
	*t;                                                                                        \
	t++

#define LINKS 14 /* of the chain x -> x*x + x: dear enough to be kept */

static size_t put_chain(char *to, size_t n, const char *dtype, int first, const char *param,
			int len)
{
	int at = first;
	size_t used =
		(size_t)snprintf(to, n, "t%d = load %s %s[x1 + %d*x0]\n", at, dtype, param, len);
	for (int i = 0; i < LINKS; i++, at++)
		used += (size_t)snprintf(to + used, n - used, "t%d = %s %s t%d t%d\n", at + 1,
					 i % 2 ? "add" : "mul", dtype, at, i % 2 ? first : at);
	return used;
}

/* Loop 1 finds the largest value of the chain, loop 2 writes how far each is from it. */
static void row_text(char *to, size_t n, const char *dtype, int len, int overwrites)
{
	size_t at = (size_t)snprintf(
		to, n,
		"kernel \"k\" red bits 32 target cpu\nparam p0 %s %s elems %d \"a\"\n"
		"param p1 %s write elems %d \"b\"\naxis x0 grid 3\naxis x1 vector reduction %d\n"
		"grain 1\nbegin\nt900 = acc max lanes %s x1\nloop x1\n",
		dtype, overwrites ? "readwrite" : "read", 3 * len, dtype, 3 * len, len, dtype);
	at += put_chain(to + at, n - at, dtype, 100, "p0", len);
	at += (size_t)snprintf(to + at, n - at, "update t900 t%d\n", 100 + LINKS);
	if (overwrites)
		at += (size_t)snprintf(to + at, n - at, "store %s p0[x1 + %d*x0] t102\n", dtype,
				       len);
	at += (size_t)snprintf(to + at, n - at, "end\nt901 = result %s t900 0\nloop x1\n", dtype);
	at += put_chain(to + at, n - at, dtype, 200, "p0", len);
	snprintf(to + at, n - at,
		 "t902 = sub %s t%d t901\nstore %s p1[x1 + %d*x0] t902\nend\nend\n", dtype,
		 200 + LINKS, dtype, len);
}

#define CHAIN(type)                                                                                \
	static type chain_##type(type x)                                                           \
	{                                                                                          \
		volatile type v = x;                                                               \
		for (int i = 0; i < LINKS; i++)                                                    \
			v = i % 2 ? v + x : v * v;                                                 \
		return v;                                                                          \
	}                                                                                          \
	static void check_##type(const char *target, const char *dtype, int len, int overwrites)   \
	{                                                                                          \
		size_t bytes = (size_t)(3 * len) * sizeof(type);                                   \
		type *a = jit_guarded(bytes), *b = jit_guarded(bytes), *was = malloc(bytes);       \
		char text[3000];                                                                   \
		row_text(text, sizeof text, dtype, len, overwrites);                               \
		for (int i = 0; i < 3 * len; i++)                                                  \
			was[i] = a[i] = (type)((i * 37) % 101) / 64 - (type)0.75;                  \
		memset(b, 0x55, bytes);                                                            \
		jit_run(jit_kernel(target, text), (void *[]){ a, b }, NULL, 0, 3);                 \
		for (int r = 0; r < 3; r++) {                                                      \
			type top = chain_##type(was[r * len]);                                     \
			for (int i = 0; i < len; i++) {                                            \
				type v = chain_##type(was[r * len + i]);                           \
				top = v > top ? v : top;                                           \
			}                                                                          \
			for (int i = 0; i < len; i++) {                                            \
				type x = was[r * len + i], y = overwrites ? x * x + x : x;         \
				assert_true(b[r * len + i] == chain_##type(y) - top);              \
			}                                                                          \
		}                                                                                  \
		jit_guarded_free(a, bytes);                                                        \
		jit_guarded_free(b, bytes);                                                        \
		free(was);                                                                         \
	}

CHAIN(float)
CHAIN(double)

static int has_array(const char *target, const char *text, const char *array)
{
	struct stx_diag d = { 0 };
	struct stx_cpu_target t;
	struct stx_bytes out = { 0 };
	struct stx_arena *a = stx_arena_new(0);
	assert_int_equal(stx_cpu_target_parse(target, &t, &d), 0);
	assert_int_equal(stx_emit_llvm(jit.llvm, jit_parse(a, text), &t, 0, STX_EMIT_OPTIMIZED_IR,
				       &out, NULL, &d),
			 0);
	assert_int_equal(stx_bytes_put(&out, "", 1), 0);
	int found = strstr((const char *)out.at, array) != NULL;
	stx_bytes_free(&out);
	stx_arena_free(a);
	return found;
}

static void test_emit_kept_values_are_those_computed_again(void **state)
{
	static const int len[] = { 1, 7, 64, 100, 1030, 4097, 9000 };
	(void)state;
	for (EACH_TARGET(t))
		for (unsigned i = 0; i < sizeof len / sizeof len[0]; i++) {
			check_float(*t, "f32", len[i], 0);
			check_double(*t, "f64", len[i], 0);
		}
}

static void test_emit_kept_values_do_not_outlive_a_write(void **state)
{
	(void)state;
	for (EACH_TARGET(t)) {
		check_float(*t, "f32", 100, 1);
		check_double(*t, "f64", 77, 1);
	}
}

static void test_emit_kept_values_are_of_short_rows_and_unchanged_memory(void **state)
{
	char text[3000];
	(void)state;
	for (EACH_TARGET(t)) {
		row_text(text, sizeof text, "f32", 1000, 0);
		assert_true(has_array(*t, text, "[1024 x float]"));
		row_text(text, sizeof text, "f32", 1000, 1);
		assert_false(has_array(*t, text, "[1024 x float]"));
		row_text(text, sizeof text, "f32", 8192, 0);
		assert_true(has_array(*t, text, "[8192 x float]"));
		row_text(text, sizeof text, "f64", 8192, 0);
		assert_false(has_array(*t, text, "[8192 x double]"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_emit_kept_values_are_those_computed_again),
		cmocka_unit_test(test_emit_kept_values_do_not_outlive_a_write),
		cmocka_unit_test(test_emit_kept_values_are_of_short_rows_and_unchanged_memory),
	};
	return cmocka_run_group_tests(tests, jit_setup, jit_teardown);
}
