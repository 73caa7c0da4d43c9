/* test_infer_eager.c: result types and shapes against PyTorch's own, over operators, dtypes, 0-d,
 * empty and size-1 operands (LO-30). tests/golden/eager_types.txt holds what PyTorch gave; what a
 * result has on every layout of its operands is the property test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "graph_gen.h"
#include "passes.h"

#define GOLDEN "tests/golden/eager_types.txt"

/* `%a : T; %b : U | R = call` as a graph whose node %r is declared R: the parser compares. */
static const char *as_graph(struct stx_arena *a, char *line)
{
	struct stx_bytes b = { 0 };
	char *bar = strstr(line, "| "), *at = line, *end, *is = strstr(bar, " = ");
	for (*bar = 0; (end = strpbrk(at, ";")) || strlen(at) > 2; at = end + 2) {
		size_t n = end ? (size_t)(end - at) : strlen(at) - 1;
		stx_bytes_printf(&b, "%.*s = placeholder()\n", (int)n, at);
		if (!end)
			break;
	}
	stx_bytes_printf(&b, "%%r : %.*s%s\nreturn (%%r,)\n", (int)(is - bar - 2), bar + 2, is);
	const char *s = stx_arena_strndup(a, (const char *)b.at, b.n);
	stx_bytes_free(&b);
	return s;
}

static void test_infer_eager_types_are_pytorchs(void **state)
{
	char line[1024];
	uint8_t used[STX_OP_COUNT] = { 0 };
	unsigned calls = 0, overloads = 0, scalars = 0, empty = 0, ones = 0;
	FILE *in = fopen(GOLDEN, "r");
	(void)state;
	assert_non_null(in);
	while (fgets(line, sizeof line, in)) {
		struct stx_arena *a = stx_arena_new(0);
		if (line[0] == '#') {
			stx_arena_free(a);
			continue;
		}
		line[strcspn(line, "\n")] = 0;
		scalars += strstr(line, "[]") != NULL;
		empty += strstr(line, "[0") || strstr(line, ",0");
		ones += strstr(line, "[1") || strstr(line, ",1");
		const char *text = as_graph(a, line), *e = gen_error(a, text);
		if (e)
			fail_msg("%s: %s", e, text);
		struct stx_graph *g = gen_parse(a, text);
		used[g->nodes.at[g->nodes.n - 1]->op] = 1;
		calls++;
		stx_arena_free(a);
	}
	fclose(in);
	for (int op = 0; op < STX_OP_COUNT; op++)
		overloads += used[op];
	print_message(
		"%u calls of %u overloads; %u with 0-d, %u with empty, %u with size-1 tensors\n",
		calls, overloads, scalars, empty, ones);
	assert_true(calls > 1000 && overloads > 220);
	assert_true(scalars > 100 && empty > 100 && ones > 100);
}

/* A type that is not the result's is noticed. */
static void test_infer_eager_other_types_are_refused(void **state)
{
	static const char *const wrong[] = {
		"%a : f32[2]; %b : i32[] | f64[2] = add.Tensor(%a, %b)",
		"%a : f32[2]; %b : i32[] | f32[] = add.Tensor(%a, %b)",
		"%a : u8[2] | bool[] = any.default(%a)"
	};
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct stx_arena *a = stx_arena_new(0);
		char line[128];
		snprintf(line, sizeof line, "%s", wrong[i]);
		assert_non_null(gen_error(a, as_graph(a, line)));
		stx_arena_free(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_infer_eager_types_are_pytorchs),
		cmocka_unit_test(test_infer_eager_other_types_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
