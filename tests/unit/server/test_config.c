/* test_config.c: where settings come from, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config.h"

static const char *env_cache, *env_workers, *env_runtime = "/run/user/5", *env_home = "/home/x",
					    *env_cachehome;

static const char *fake_env(const char *name)
{
	if (!strcmp(name, "STAX_CACHE_DIR"))
		return env_cache;
	if (!strcmp(name, "STAX_WORKERS"))
		return env_workers;
	if (!strcmp(name, "XDG_RUNTIME_DIR"))
		return env_runtime;
	if (!strcmp(name, "XDG_CACHE_HOME"))
		return env_cachehome;
	if (!strcmp(name, "HOME"))
		return env_home;
	return NULL;
}

static int setup(void **state)
{
	(void)state;
	env_cache = env_workers = env_cachehome = NULL;
	env_runtime = "/run/user/5";
	env_home = "/home/x";
	return 0;
}

#define READ(c, d, ...)                                                                            \
	stx_config_read(c, (int)(sizeof(char *[]){ "staxd", __VA_ARGS__ } / sizeof(char *)),       \
			(char *[]){ "staxd", __VA_ARGS__ }, fake_env, d)

static void test_config_without_anything_uses_xdg_directories(void **state)
{
	(void)state;
	struct stx_config c;
	struct stx_diag d = { 0 };
	assert_int_equal(READ(&c, &d, "--workers=3"), 0);
	assert_string_equal(c.listen[0].path, "/run/user/5/stax/stax.sock");
	assert_string_equal(c.cache_dir, "/home/x/.cache/stax");
	assert_int_equal(c.max_size, 10ull << 30);
	env_runtime = NULL;
	assert_int_equal(READ(&c, &d, "--workers=3"), 0);
	assert_string_equal(c.listen[0].path, "/home/x/.cache/stax/run/stax.sock");
	env_cachehome = "/var/c";
	assert_int_equal(READ(&c, &d, "--workers=3"), 0);
	assert_string_equal(c.listen[0].path, "/var/c/stax/run/stax.sock");
	assert_string_equal(c.cache_dir, "/var/c/stax");
}

static void test_config_without_home_asks_for_paths(void **state)
{
	(void)state;
	struct stx_config c;
	struct stx_diag d = { 0 };
	env_runtime = env_home = NULL;
	assert_int_equal(READ(&c, &d, "--workers=3"), STX_E_USAGE);
	assert_non_null(strstr(d.text, "--cache-dir"));
	stx_diag_clear(&d);
	assert_int_equal(READ(&c, &d, "--listen", "unix:/a/s", "--cache-dir", "/a/c"), 0);
}

static char *write_file(const char *text)
{
	static char path[] = "/tmp/stax-config-XXXXXX";
	strcpy(path, "/tmp/stax-config-XXXXXX");
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	return path;
}

static void test_config_flags_beat_environment_beats_file(void **state)
{
	(void)state;
	struct stx_config c;
	struct stx_diag d = { 0 };
	char *f = write_file("# comment\n[server]\ncache_dir = /from/file\nworkers = 1\nqueue = 7\n"
			     "listen = unix:/from/file.sock\nlisten = tcp:127.0.0.1:0\n");
	assert_int_equal(READ(&c, &d, "--config", f), 0);
	assert_string_equal(c.cache_dir, "/from/file");
	assert_int_equal(c.workers, 1);
	assert_int_equal(c.queue, 7);
	assert_int_equal(c.nlisten, 2);
	env_cache = "/from/env";
	env_workers = "2";
	assert_int_equal(READ(&c, &d, "--config", f), 0);
	assert_string_equal(c.cache_dir, "/from/env");
	assert_int_equal(c.workers, 2);
	assert_int_equal(c.queue, 7);
	assert_int_equal(READ(&c, &d, "--workers", "3", "--config", f, "--cache-dir=/from/flag",
			      "--listen", "unix:/from/flag.sock"),
			 0);
	assert_string_equal(c.cache_dir, "/from/flag");
	assert_int_equal(c.workers, 3);
	assert_int_equal(c.nlisten, 1);
	assert_string_equal(c.listen[0].path, "/from/flag.sock");
	unlink(f);
}

static void test_config_errors_name_their_place(void **state)
{
	(void)state;
	static const char *const flags[][2] = {
		{ "--listen=tls:0.0.0.0:1", "TLS is not offered yet" },
		{ "--listen=tcp:0.0.0.0:80", "beyond loopback" },
		{ "--listen=tcp:10.0.0.1:80", "beyond loopback" },
		{ "--listen=tcp:[::]:80", "beyond loopback" },
		{ "--listen=tcp:localhost", "tcp:HOST:PORT" },
		{ "--listen=tcp:127.0.0.1:70000", "tcp:HOST:PORT" },
		{ "--listen=/plain/path", "unix:PATH" },
		{ "--http=:80", "not offered yet" },
		{ "--max-size=ten", "max-size" },
		{ "--max-size=99999999999GiB", "max-size" },
		{ "--workers=-1", "workers" },
		{ "--workers=65", "64 workers" },
		{ "--no-such=1", "unknown flag '--no-such'" },
		{ "--no-such", "unknown flag '--no-such'" },
		{ "--repair", "--fsck" },
		{ "stray", "stray" },
		{ "--workers", "needs a value" },
	};
	for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
		struct stx_config c;
		struct stx_diag d = { 0 };
		assert_int_equal(READ(&c, &d, (char *)flags[i][0]), STX_E_USAGE);
		if (!strstr(d.text, flags[i][1]))
			fail_msg("%s gave: %s", flags[i][0], d.text);
	}
	struct stx_config c;
	struct stx_diag d = { 0 };
	char *f = write_file("workers = 1\n\nworker_sched = turbo\n");
	assert_int_equal(READ(&c, &d, "--config", f), STX_E_USAGE);
	assert_non_null(strstr(d.text, ":3: "));
	unlink(f);
	stx_diag_clear(&d);
	env_workers = "many";
	assert_int_equal(READ(&c, &d, "--queue=1"), STX_E_USAGE);
	assert_non_null(strstr(d.text, "STAX_WORKERS"));
}

/* A file that never ends, or is none. */
static void test_config_only_a_regular_file_of_lines_is_read(void **state)
{
	struct stx_config c;
	struct stx_diag d = { 0 };
	static const struct {
		char *path, *said;
	} refused[] = { { "/dev/zero", "not a regular file" },
			{ "/tmp", "is a directory" },
			{ "/no/such/file", "No such file" } };
	(void)state;
	for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++) {
		stx_diag_clear(&d);
		assert_int_equal(READ(&c, &d, "--config", refused[i].path), STX_E_USAGE);
		assert_non_null(strstr(d.text, refused[i].path));
		assert_non_null(strstr(d.text, refused[i].said));
	}
	char *big = calloc(1, (1 << 20) + 2);
	assert_non_null(big);
	memset(big, '\n', (1 << 20) + 1);
	char *f = write_file(big);
	stx_diag_clear(&d);
	assert_int_equal(READ(&c, &d, "--config", f), STX_E_USAGE);
	assert_non_null(strstr(d.text, "larger than 1 MiB"));
	unlink(f);
	memset(big, '#', 5000);
	strcpy(big + 5000, "\nqueue = 7\n");
	f = write_file(big);
	stx_diag_clear(&d);
	assert_int_equal(READ(&c, &d, "--config", f), STX_E_USAGE);
	assert_non_null(strstr(d.text, ":1: a line of more than"));
	unlink(f);
	free(big);
}

static void test_config_loopback_and_sizes_accepted(void **state)
{
	(void)state;
	struct stx__address a;
	assert_int_equal(stx__address_parse("tcp:127.0.0.1:0", &a, NULL), 0);
	assert_int_equal(stx__address_parse("tcp:[::1]:65535", &a, NULL), 0);
	assert_int_equal(a.port, 65535);
	assert_string_equal(a.host, "::1");
	assert_int_equal(stx__address_parse("tcp:localhost:5", &a, NULL), 0);
	assert_string_equal(a.host, "127.0.0.1");
	uint64_t v;
	assert_int_equal(stx__size_parse("10GiB", &v), 0);
	assert_int_equal(v, 10ull << 30);
	assert_int_equal(stx__size_parse("512 MiB", &v), 0);
	assert_int_equal(v, 512ull << 20);
	assert_int_equal(stx__size_parse("17", &v), 0);
	assert_int_equal(v, 17);
	assert_int_equal(stx__size_parse("", &v), -1);
	assert_int_equal(stx__size_parse("1 PB", &v), -1);
}

static void collect_all(void *ctx, const char *text)
{
	strcat(ctx, text);
	strcat(ctx, "\n");
}

static void test_config_shown_with_unit_and_source(void **state)
{
	(void)state;
	struct stx_config c;
	struct stx_diag d = { 0 };
	char text[16384] = "";
	char *f = write_file("queue = 7\n");
	env_workers = "2";
	assert_int_equal(READ(&c, &d, "--config", f, "--deadline=5"), 0);
	stx_config_show(&c, collect_all, text);
	unlink(f);
	assert_non_null(strstr(text, "# count; from environment STAX_WORKERS; worker"));
	assert_non_null(strstr(text, "# count; from file; jobs waiting"));
	assert_non_null(strstr(text, "# milliseconds; from flag; a request"));
	assert_non_null(strstr(text, "# seconds; from default; without a connection"));
	assert_non_null(strstr(text, "# bytes; from default; the store"));
	assert_non_null(strstr(text, "# address; from default; "));
	assert_true(c.listen[0].own);
}

/* Without the comments, which tell sources. */
static void collect(void *ctx, const char *text)
{
	if (*text == '#')
		return;
	strcat(ctx, text);
	strcat(ctx, "\n");
}

static void test_config_what_is_shown_reads_back_equal(void **state)
{
	(void)state;
	struct stx_config c, back;
	struct stx_diag d = { 0 };
	char text[8192] = "", again[8192] = "";
	assert_int_equal(READ(&c, &d, "--workers=5", "--max-size=3MiB", "--require-sandbox",
			      "--worker-sched=idle", "--listen=unix:/x/y",
			      "--listen=tcp:127.0.0.1:9", "--cache-dir=/c"),
			 0);
	stx_config_show(&c, collect, text);
	char *f = write_file(text);
	assert_int_equal(READ(&back, &d, "--config", f), 0);
	stx_config_show(&back, collect, again);
	assert_string_equal(text, again);
	assert_non_null(strstr(text, "worker_sched = idle\n"));
	assert_non_null(strstr(text, "require_sandbox = 1\n"));
	unlink(f);
}

#define T(name) cmocka_unit_test_setup(name, setup)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_config_without_anything_uses_xdg_directories),
		T(test_config_without_home_asks_for_paths),
		T(test_config_flags_beat_environment_beats_file),
		T(test_config_errors_name_their_place),
		T(test_config_only_a_regular_file_of_lines_is_read),
		T(test_config_loopback_and_sizes_accepted),
		T(test_config_shown_with_unit_and_source),
		T(test_config_what_is_shown_reads_back_equal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
