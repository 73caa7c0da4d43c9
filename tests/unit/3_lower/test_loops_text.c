/* test_loops_text.c: the loop IR prints and parses; golden listings. */
#include <stdio.h>
#include <stdlib.h>

#include "lowering.h"

/* printed == print(parse(printed)) */
static void round_trip(struct low *w)
{
	struct stx_bytes first = { 0 }, second = { 0 };
	struct stx_arena *a = stx_arena_new(0);
	struct stx_loops *l;
	struct stx_diag d = { 0 };

	assert_int_equal(stx_loops_print(w->l, &first), 0);
	if (stx_loops_parse(a, stx_bytes_cstr(&first), first.n, &l, &d))
		fail_msg("%s %s in:\n%s", d.text, d.location, (char *)first.at);
	assert_int_equal(stx_loops_print(l, &second), 0);
	assert_string_equal(stx_bytes_cstr(&first), stx_bytes_cstr(&second));
	stx_bytes_free(&first);
	stx_bytes_free(&second);
	stx_arena_free(a);
}

static const char *const graphs[] = {
	"%x : f32[64,128] = placeholder()\n%y : f32[64,128] = placeholder()\n%a = add.Tensor(%x, "
	"%y)\n"
	"%s = sum.dim_IntList(%a, [-1])\nreturn (%s,)\n",
	"%x : f16[4,6] = placeholder(strides=[1,9])\n%i : i32[3] = placeholder()\n"
	"%c : f32[2] = constant([1.5, inf])\n"
	"%t = t.default(%x)\n%v = view.default(%t, [24])\n%g = index.Tensor(%v, [%i])\n"
	"%e = constant_pad_nd.default(%g, [1, 2], -inf)\n%m = isnan.default(%e)\n%u = "
	"mul.Tensor(%c, %c)\n"
	"return (%m, %e, %u)\n",
	"%x : u8[3,0] = placeholder()\n%s = sum.dim_IntList(%x, [1], True)\n%p = "
	"argmax.default(%s)\n"
	"%k = full.default([2], 1, dtype=bool)\nreturn (%s, %p, %k)\n",
	"%a : bf16[3,4] = placeholder()\n%b : bf16[4,5] = placeholder()\n%m = mm.default(%a, %b)\n"
	"%v = view.default(%m, [15])\nreturn (%v,)\n",
	"%x : f16[3,7] = placeholder()\n%s = argsort.stable(%x, stable=True, dim=1, "
	"descending=True)\n%m = max.dim(%x, 0)\nreturn (%s, %m, %m:1)\n",
	"%x : f16[3,7] = placeholder()\n%m = cummax.default(%x, 0)\n%s = cumsum.default(%x, 1)\n"
	"return (%m, %m:1, %s)\n",
	"%x : f32[6] = placeholder()\n%y = add.Scalar(%x, 1)\n%s = sum.default(%y)\n"
	"return (%y in %x, %s, %y in %x, %y to %x)\n",
};

static void test_loops_text_round_trips(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 0; i < sizeof graphs / sizeof *graphs; i++) {
		struct low w;

		low_cpu(&w, graphs[i]);
		round_trip(&w);
		low_end(&w);
	}
}

/* More origins than are kept: the text says so, and reads back. */
static void test_loops_text_cut_origins_round_trip(void **state)
{
	struct stx_bytes text = { 0 };
	struct low w;

	(void)state;
	stx_bytes_puts(&text, "%v0 : f32[8] = placeholder()\n");
	for (int i = 0; i < 70; i++)
		stx_bytes_printf(&text, "%%v%d = neg.default(%%v%d)\n", i + 1, i);
	stx_bytes_puts(&text, "return (%v70,)\n");
	low_cpu(&w, stx_bytes_cstr(&text));
	round_trip(&w);
	assert_int_equal(stx_loops_print(w.l, &w.text), 0);
	assert_non_null(strstr(stx_bytes_cstr(&w.text), "origins=[v7, v8,"));
	assert_non_null(strstr(stx_bytes_cstr(&w.text), ", v70, ...]\n"));
	stx_bytes_free(&text);
	low_end(&w);
}

/* Every prefix of a valid text, and every single damaged byte, gives an error or a valid program.
 */
static void damage(uint32_t which)
{
	struct low w;
	size_t i, n;
	char *copy;

	low_cpu(&w, graphs[which]);
	low_print(&w);
	n = w.text.n;
	copy = malloc(n);
	for (i = 0; i < 2 * n; i++) {
		struct stx_arena *a = stx_arena_new(64 << 20);
		struct stx_loops *l = NULL;
		struct stx_diag d = { 0 };

		memcpy(copy, w.text.at, n);
		if (i >= n)
			copy[i - n] = (char)(copy[i - n] ^ (1 + (int)(i % 64)));
		if (!stx_loops_parse(a, copy, i < n ? i : n, &l, &d))
			assert_int_equal(stx_loops_verify(l, &d), 0);
		else
			assert_int_not_equal(d.code, 0);
		stx_arena_free(a);
	}
	free(copy);
	low_end(&w);
}

static void test_loops_text_damaged_input_never_crashes(void **state)
{
	(void)state;
	damage(1);
	damage(sizeof graphs / sizeof *graphs - 1);
}

static char *read_file(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = calloc(1, 1 << 16);

	assert_non_null(f);
	assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
	fclose(f);
	return text;
}

/* tests/golden/loops/NAME.txt lowers to NAME.loops (run in the source folder). */
static void test_loops_text_golden_listings(void **state)
{
	static const char *const names[] = { "example_1_1",    "example_6_1", "example_6_3_g1",
					     "example_6_3_g2", "cat_pad",     "matmul_bf16" };
	uint32_t i;

	(void)state;
	for (i = 0; i < sizeof names / sizeof *names; i++) {
		char path[128], *in, *want;
		struct low w;

		snprintf(path, sizeof path, "tests/golden/loops/%s.txt", names[i]);
		in = read_file(path);
		snprintf(path, sizeof path, "tests/golden/loops/%s.loops", names[i]);
		want = read_file(path);
		low_cpu(&w, in);
		assert_string_equal(low_print(&w), want);
		round_trip(&w);
		low_end(&w);
		free(in);
		free(want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loops_text_round_trips),
		cmocka_unit_test(test_loops_text_cut_origins_round_trip),
		cmocka_unit_test(test_loops_text_damaged_input_never_crashes),
		cmocka_unit_test(test_loops_text_golden_listings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
