/* test_tool.c: what the tool is made of: JSON, tables, flags, targets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client.h"
#include "options.h"
#include "print.h"

static void test_json_nesting_and_commas(void **state)
{
	(void)state;
	struct stx_json j = { 0 };
	stx_json_open(&j, NULL, '{');
	stx_json_str(&j, "a", "x");
	stx_json_open(&j, "b", '[');
	stx_json_uint(&j, NULL, 1);
	stx_json_open(&j, NULL, '{');
	stx_json_close(&j, '}');
	stx_json_bool(&j, NULL, 1);
	stx_json_close(&j, ']');
	stx_json_real(&j, "c", 0.5);
	stx_json_real(&j, "d", NAN);
	stx_json_uint(&j, "e", UINT64_MAX);
	stx_json_close(&j, '}');
	assert_string_equal(
		stx_bytes_cstr(&j.b),
		"{\"a\":\"x\",\"b\":[1,{},true],\"c\":0.5,\"d\":null,\"e\":18446744073709551615}");
	stx_bytes_free(&j.b);
}

static void test_json_strings_escaped(void **state)
{
	(void)state;
	static const struct {
		const char *in, *out;
	} t[] = {
		{ "q\"b\\n\n", "\"q\\\"b\\\\n\\n\"" },
		{ "\x01\x7f", "\"\\u0001\\u007f\"" },
		{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
		  "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
		{ "\xff\xc3", "\"??\"" },
		{ "\xc0\xaf", "\"??\"" } /* overlong */,
		{ "\xed\xa0\x80", "\"???\"" },
		{ "", "\"\"" },
	};
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		struct stx_json j = { 0 };
		stx_json_str(&j, NULL, t[i].in);
		assert_string_equal(stx_bytes_cstr(&j.b), t[i].out);
		stx_bytes_free(&j.b);
	}
}

static void test_table_columns_aligned(void **state)
{
	(void)state;
	struct stx_table t = { 0 };
	struct stx_bytes b = { 0 };
	stx_table_column(&t, "name", 0);
	stx_table_column(&t, "n", 1);
	stx_table_column(&t, "why", 0);
	stx_table_cell(&t, "red_0");
	stx_table_cell(&t, "%d", 1024);
	stx_table_cell(&t, "a\nb");
	stx_table_cell(&t, "p");
	stx_table_cell(&t, "7");
	stx_table_cell(&t, "longer");
	stx_table_write(&t, &b);
	assert_string_equal(stx_bytes_cstr(&b),
			    "name      n  why\nred_0  1024  a?b\np         7  longer\n");
	stx_bytes_free(&b);
}

static void test_options_forms_read(void **state)
{
	(void)state;
	int flag = 0;
	const char *name = NULL;
	int64_t n = 0;
	double x = 0;
	struct stx_option_list list = { 0 }, files = { 0 };
	const struct stx_option table[] = {
		{ "flag", STX_OPT_FLAG, &flag }, { "name", STX_OPT_TEXT, &name },
		{ "n", STX_OPT_COUNT, &n },      { "x", STX_OPT_REAL, &x },
		{ "item", STX_OPT_LIST, &list }, { NULL, STX_OPT_FLAG, NULL },
	};
	char *argv[] = { "cmd",  "file",   "--flag", "--name=a=b", "--n", "12", "--x",
			 "1e-3", "--item", "p",      "--item=q",   "-",   "--", "--flag" };
	assert_int_equal(stx_options_parse(14, argv, table, &files, NULL), 0);
	assert_int_equal(flag, 1);
	assert_string_equal(name, "a=b");
	assert_int_equal(n, 12);
	assert_true(x == 1e-3);
	assert_int_equal(list.n, 2);
	assert_string_equal(list.at[1], "q");
	assert_int_equal(files.n, 3);
	assert_string_equal(files.at[2], "--flag");
}

static void test_options_faults_are_usage(void **state)
{
	(void)state;
	int flag;
	int64_t n;
	double x;
	const struct stx_option table[] = { { "flag", STX_OPT_FLAG, &flag },
					    { "n", STX_OPT_COUNT, &n },
					    { "x", STX_OPT_REAL, &x },
					    { NULL, STX_OPT_FLAG, NULL } };
	static const char *const bad[][2] = {
		{ "--nope", "" },
		{ "-f", "" },
		{ "--flag=1", "" },
		{ "--n", NULL },
		{ "--n", "1x" },
		{ "--n", "-1" },
		{ "--n", "99999999999999999999" },
		{ "--n=", "" },
		{ "--x", "nan" },
		{ "--x", "inf" },
		{ "--x", "-1" },
		{ "--fla", "" },
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		char *argv[] = { "cmd", (char *)(uintptr_t)bad[i][0],
				 (char *)(uintptr_t)bad[i][1] };
		struct stx_option_list files = { 0 };
		struct stx_diag d = { 0 };
		assert_int_equal(stx_options_parse(bad[i][1] ? 3 : 2, argv, table, &files, &d),
				 STX_E_USAGE);
		assert_true(d.text[0]);
	}
}

static void test_option_pair_split(void **state)
{
	(void)state;
	char name[8];
	const char *value;
	assert_int_equal(stx_option_pair("x=a=b", name, sizeof name, &value), 0);
	assert_string_equal(name, "x");
	assert_string_equal(value, "a=b");
	assert_int_not_equal(stx_option_pair("x", name, sizeof name, &value), 0);
	assert_int_not_equal(stx_option_pair("=x", name, sizeof name, &value), 0);
	assert_int_not_equal(stx_option_pair("x=", name, sizeof name, &value), 0);
	assert_int_not_equal(stx_option_pair("longname=x", name, sizeof name, &value), 0);
}

static void test_target_texts_resolved(void **state)
{
	(void)state;
	char out[STX_TARGET_BYTES], host[STX_TARGET_BYTES];
	uint32_t need;
	assert_int_equal(stx__cpu_resolve("cpu:x86-64-v3", out, &need, NULL), 0);
	assert_string_equal(out, "cpu:x86-64-v3");
	assert_int_equal(need, 3);
	assert_int_equal(stx__cpu_resolve("cpu:x86-64-v4+avx512bf16", out, &need, NULL), 0);
	assert_int_equal(need, 4 | STX_PLAN_CPU_AVX512BF16);
	int e = stx__cpu_resolve("cuda", out, &need, NULL); /* this host's GPU */
	assert_true(e == STX_E_UNSUPPORTED || (!e && !strncmp(out, "cuda:sm_", 8)));
	assert_int_equal(stx__cpu_resolve("cuda:sm_90:h200", out, &need, NULL), 0);
	assert_string_equal(out, "cuda:sm_90a:h200");
	assert_int_equal(stx__cpu_resolve("cuda:sm_12", out, &need, NULL), STX_E_UNSUPPORTED);
	assert_int_equal(stx__cpu_resolve("cudacpu", out, &need, NULL), STX_E_USAGE);
	assert_int_equal(stx__cpu_resolve("tpu", out, &need, NULL), STX_E_USAGE);
	assert_int_equal(need, 0);
	assert_int_equal(stx__cpu_resolve(NULL, host, &need, NULL), 0);
	assert_int_equal(need, stx__host_cpu());
	assert_int_equal(stx__cpu_resolve("cpu", out, &need, NULL), 0);
	assert_string_equal(out, host);
	assert_int_equal(stax_target(NULL, out, sizeof out, NULL), 0);
	assert_string_equal(out, host);
	static const char *const bad[] = {
		"cpu:",           "cpu:x86-64-v1", "cpu:x86-64-v5", "cpu:x86-64-v3+sse9",
		"cpu:x86-64-v3 ", "cpu:native",    "cpux"
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(stx__cpu_resolve(bad[i], out, &need, NULL), STX_E_USAGE);
}

/* B63: a better host runs code for a lesser one, never the other way round. */
static void test_target_order_checked(void **state)
{
	(void)state;
	uint32_t host = stx__host_cpu();
	for (uint32_t level = 0; level <= 15; level++)
		assert_int_equal(stx__cpu_check(level, NULL),
				 level <= (host & STX_PLAN_CPU_LEVEL) ? 0 : STX_E_UNSUPPORTED);
	assert_int_equal(stx__cpu_check(2 | STX_PLAN_CPU_AVX512BF16, NULL),
			 host & STX_PLAN_CPU_AVX512BF16 ? 0 : STX_E_UNSUPPORTED);
}

static void test_server_addresses_read(void **state)
{
	(void)state;
	struct stx__server s;
	char text[256], longer[400];
	int named;
	assert_int_equal(stx__server_parse("tcp:[::1]:7777", &s, NULL), 0);
	assert_string_equal(s.host, "::1");
	assert_string_equal(s.port, "7777");
	assert_int_equal(stx__server_parse("unix:/a/b", &s, NULL), 0);
	assert_string_equal(s.path, "/a/b");
	assert_int_equal(stx__server_parse("none", &s, NULL), 0);
	assert_int_equal(s.kind, STX__NONE);
	static const char *const bad[] = { "tcp:h:",      "tcp:h:0",  "tcp:h:65536",
					   "tcp:h:99999", "tcp:h:-1", "tcp:h:+1",
					   "tcp:h:8x",    "tcp:h: 8", "tcp:h:18446744073709551617",
					   "tcp:h:http" };
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(stx__server_parse(bad[i], &s, NULL), STX_E_USAGE);
	memset(longer, 'x', sizeof longer - 1);
	longer[sizeof longer - 1] = 0;
	memcpy(longer, "unix:/", 6);
	assert_int_equal(stx__server_parse(longer, &s, NULL), STX_E_USAGE);
	longer[120] = 0; /* fits the text, not a socket address */
	assert_int_equal(stx__server_parse(longer, &s, NULL), STX_E_USAGE);
	setenv("STAX_SERVER", "none", 1);
	assert_int_equal(stax_default_server(text, sizeof text, &named, NULL), 0);
	assert_int_equal(named, 1);
	unsetenv("STAX_SERVER");
	setenv("XDG_RUNTIME_DIR", "/run/user/1", 1);
	assert_int_equal(stax_default_server(text, sizeof text, &named, NULL), 0);
	assert_string_equal(text, "unix:/run/user/1/stax/stax.sock");
	assert_int_equal(named, 0);
	unsetenv("XDG_RUNTIME_DIR");
	setenv("XDG_CACHE_HOME", "/c", 1);
	assert_int_equal(stax_default_server(text, sizeof text, &named, NULL), 0);
	assert_string_equal(text, "unix:/c/stax/run/stax.sock");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json_nesting_and_commas),
		cmocka_unit_test(test_json_strings_escaped),
		cmocka_unit_test(test_table_columns_aligned),
		cmocka_unit_test(test_options_forms_read),
		cmocka_unit_test(test_options_faults_are_usage),
		cmocka_unit_test(test_option_pair_split),
		cmocka_unit_test(test_target_texts_resolved),
		cmocka_unit_test(test_target_order_checked),
		cmocka_unit_test(test_server_addresses_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
