/* test_reproducer.c: a private compile that fails by the compiler's fault leaves a file; read as a
 * graph file it fails in the same way. The private worker is this program with the fake compiler.
 */
#include "harness.h"

#include "stax.h"
#include "tool.h"

static char dir[64];

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof dir, "/tmp/stax-test-XXXXXX");
	assert_non_null(mkdtemp(dir));
	setenv("STAX_STAXD", "/proc/self/exe", 1);
	setenv("STAX_REPRODUCERS", dir, 1);
	return 0;
}

static int clean(void **state)
{
	char command[96];
	(void)state;
	snprintf(command, sizeof command, "rm -rf '%s'", dir);
	return system(command);
}

static void fail_to_compile(struct stax_request *q, stx_err code, struct stax_error *err)
{
	struct stax_client *c;
	struct stax_answer *a = NULL;
	assert_int_equal(stax_connect("none", &c, err), 0);
	assert_int_equal(stax_compile(c, q, &a, err), code);
	stax_client_free(c);
}

/* Reads what the error names. */
static void read_named(const struct stax_error *err, struct stx_tool_graph *g)
{
	struct stx_diag d = { 0 };
	const char *path = strstr(err->text, "stax compile ");
	assert_non_null(path);
	path += strlen("stax compile ");
	assert_int_equal(strncmp(path, dir, strlen(dir)), 0);
	if (stx_tool_graph_read(path, g, &d))
		fail_msg("%s: %s", path, d.text);
}

static void test_reproducer_of_a_private_compile_fails_the_same_way(void **state)
{
	(void)state;
	static const char graph[] = "name i o\ndo plan crash\n";
	struct stax_request q = { .format = STAX_TEXT,
				  .graph = graph,
				  .graph_bytes = sizeof graph - 1,
				  .target = "cpu:x86-64-v3",
				  .fast = 1 },
			    again = { 0 };
	struct stax_error err, second;
	struct stx_tool_graph g;
	struct stx_tool_values none = { 0 };
	struct stax_client *c;
	struct stax_answer *a;
	struct stx_diag d = { 0 };
	fail_to_compile(&q, STX_E_CRASHED, &err);
	read_named(&err, &g);
	assert_int_equal(g.format, STAX_TEXT);
	assert_string_equal(stx_bytes_cstr(&g.text), "do plan crash\n"); /* canonical */
	assert_int_equal(stax_connect("none", &c, &second), 0);
	assert_int_equal(stx_tool_compile_graph(c, &g, &none, &again, &a, &d), STX_E_CRASHED);
	assert_string_equal(again.target, "cpu:x86-64-v3");
	assert_true(again.fast);
	/* Failing again it names itself: the same file. */
	assert_string_equal(strstr(d.text, "stax compile"), strstr(err.text, "stax compile"));
	stax_client_free(c);
	stx_tool_graph_free(&g);
}

/* What fails only as its products are cut fails again: the file says how they were. */
static void test_reproducer_keeps_how_products_are_cut(void **state)
{
	(void)state;
	static const char graph[] = "name i o\nkernel tile internal\n";
	struct stax_blocking cut = { "tile internal", "large" };
	struct stax_request q = { .format = STAX_TEXT,
				  .graph = graph,
				  .graph_bytes = sizeof graph - 1,
				  .target = "cpu:x86-64-v3",
				  .blockings = &cut,
				  .nblockings = 1 },
			    again = { 0 };
	struct stax_error err, second;
	struct stx_tool_graph g;
	struct stx_tool_values none = { 0 };
	struct stax_client *c;
	struct stax_answer *a;
	struct stx_diag d = { 0 };
	fail_to_compile(&q, STX_E_INTERNAL, &err);
	read_named(&err, &g);
	assert_int_equal(g.replay.nblockings, 1);
	assert_string_equal(g.replay.blockings[0].config, "large");
	assert_int_equal(stax_connect("none", &c, &second), 0);
	assert_int_equal(stx_tool_compile_graph(c, &g, &none, &again, &a, &d), STX_E_INTERNAL);
	assert_string_equal(strstr(d.text, "stax compile"), strstr(err.text, "stax compile"));
	g.replay.nblockings = 0; /* cut by the model it compiles */
	again = (struct stax_request){ 0 };
	stx_diag_clear(&d);
	if (stx_tool_compile_graph(c, &g, &none, &again, &a, &d))
		fail_msg("%s", d.text);
	stax_answer_free(a);
	stax_client_free(c);
	stx_tool_graph_free(&g);
}

static void test_reproducer_keeps_the_values_of_inputs(void **state)
{
	(void)state;
	static const char graph[] = "name i o\ndo key internal\nneed shape\n";
	static const int64_t size = 2, data[2] = { 7, 9 };
	struct stax_value v = { "shape", STX_I64, 1, &size, data, sizeof data };
	struct stax_request q = { .format = STAX_WIRE,
				  .graph = graph,
				  .graph_bytes = sizeof graph - 1,
				  .values = &v,
				  .nvalues = 1 };
	struct stax_error err;
	struct stx_tool_graph g;
	fail_to_compile(&q, STX_E_INTERNAL, &err);
	read_named(&err, &g);
	assert_int_equal(g.format, STAX_WIRE);
	assert_int_equal(g.text.n, sizeof graph - 1);
	assert_memory_equal(g.text.at, graph, sizeof graph - 1); /* as it was sent */
	const struct stx_host *value = stx_tool_values_find(&g.replay.values, "shape");
	assert_non_null(value);
	assert_int_equal(value->t.sizes[0], 2);
	assert_memory_equal(value->t.data, data, sizeof data);
	stx_tool_graph_free(&g);
}

/* This process plays the daemon's part, so it checks what its worker has linked. */
static void test_reproducer_private_compile_refuses_an_artifact_its_worker_passed(void **state)
{
	(void)state;
	static const char graph[] = "name i o\nforge\n";
	struct stax_request q = { .format = STAX_TEXT,
				  .graph = graph,
				  .graph_bytes = sizeof graph - 1 };
	struct stax_error err;
	fail_to_compile(&q, STX_E_UNTRUSTED, &err);
	assert_non_null(strstr(err.text, "forged"));
}

static void test_reproducer_is_not_written_for_the_graphs_own_faults(void **state)
{
	(void)state;
	static const char graph[] = "name i o\ndo plan invalid 3\n";
	struct stax_request q = { .format = STAX_TEXT,
				  .graph = graph,
				  .graph_bytes = sizeof graph - 1 };
	struct stax_error err;
	fail_to_compile(&q, STX_E_INVALID, &err);
	assert_null(strstr(err.text, "stax compile"));
	assert_int_equal(rmdir(dir), 0); /* nothing in it */
}

#define R(name) cmocka_unit_test_setup_teardown(name, setup, clean)
int main(int argc, char **argv)
{
	harness_main(argc, argv);
	const struct CMUnitTest tests[] = {
		R(test_reproducer_of_a_private_compile_fails_the_same_way),
		R(test_reproducer_keeps_how_products_are_cut),
		R(test_reproducer_keeps_the_values_of_inputs),
		R(test_reproducer_private_compile_refuses_an_artifact_its_worker_passed),
		R(test_reproducer_is_not_written_for_the_graphs_own_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
