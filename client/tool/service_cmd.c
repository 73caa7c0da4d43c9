/* service_cmd.c: stax stats, stax ping, stax fsck. None of them starts a server. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

/* ---- stats ---- */

static void stats_text(struct stx_bytes *b, char **names, const uint64_t *values, size_t n)
{
	struct stx_table t = { 0 };
	stx_table_column(&t, "counter", 0);
	stx_table_column(&t, "value", 1);
	for (size_t i = 0; i < n; i++) {
		stx_table_cell(&t, "%s", names[i]);
		stx_table_cell(&t, "%llu", (unsigned long long)values[i]);
	}
	stx_table_write(&t, b);
}

static int has_unit(const char *name)
{
	const char *last = strrchr(name, '_');
	return last && (!strcmp(last, "_bytes") || !strcmp(last, "_ms") || !strcmp(last, "_us"));
}

/* stax_<subsystem>_<noun>_<unit>. Names come from the server; only what a metric may be called
 * passes. */
static void stats_prometheus(struct stx_bytes *b, char **names, const uint64_t *values, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *prefix = strncmp(names[i], "stax_", 5) != 0 ? "stax_server_" : "";
		stx_bytes_puts(b, prefix);
		for (const char *p = names[i]; *p; p++)
			stx_bytes_u8(b, (uint8_t)((*p >= 'a' && *p <= 'z') ||
								  (*p >= '0' && *p <= '9') ||
								  (*p >= 'A' && *p <= 'Z')
							  ? *p
							  : '_'));
		stx_bytes_printf(b, "%s %llu\n", has_unit(names[i]) ? "" : "_count",
				 (unsigned long long)values[i]);
	}
}

static void stats_json(struct stx_bytes *b, char **names, const uint64_t *values, size_t n)
{
	struct stx_json j = { 0 };
	stx_json_open(&j, NULL, '{');
	for (size_t i = 0; i < n; i++)
		stx_json_uint(&j, names[i], values[i]);
	stx_json_close(&j, '}');
	stx_bytes_u8(&j.b, '\n');
	*b = j.b;
}

static stx_err stats(int zero, const char *format, struct stx_bytes *out, struct stx_diag *d)
{
	struct stax_client *c;
	struct stax_error err;
	char **names;
	uint64_t *values;
	size_t n;
	stx_err e = stx_tool_connect(0, &c, d);
	if (e)
		return e;
	e = stax_stats(c, zero, &names, &values, &n, &err);
	if (e)
		stx_tool_diag(d, &err);
	else if (!strcmp(format, "json"))
		stats_json(out, names, values, n);
	else if (!strcmp(format, "prometheus"))
		stats_prometheus(out, names, values, n);
	else
		stats_text(out, names, values, n);
	stax_stats_free(names, values, n);
	stax_client_free(c);
	return e;
}

int stx_tool_stats(int argc, char **argv)
{
	int zero = 0;
	const char *format = "text";
	struct stx_option_list files = { 0 };
	struct stx_diag d = { 0 };
	struct stx_bytes out = { 0 };
	const struct stx_option table[] = {
		{ "zero", STX_OPT_FLAG, &zero },
		{ "format", STX_OPT_TEXT, &format },
		{ NULL, STX_OPT_FLAG, NULL },
	};
	stx_err e = stx_options_parse(argc, argv, table, &files, &d);
	if (!e && files.n)
		e = stx_fail(&d, STX_E_USAGE, "usage", "", "stats takes no arguments");
	if (!e && strcmp(format, "text") != 0 && strcmp(format, "json") != 0 &&
	    strcmp(format, "prometheus") != 0)
		e = stx_fail(&d, STX_E_USAGE, "usage", "", "--format %s: text, json or prometheus",
			     format);
	if (!e)
		e = stats(zero, format, &out, &d);
	return e ? stx_tool_fail(&d, !strcmp(format, "json")) : stx_tool_emit(&out);
}

/* ---- ping ---- */

int stx_tool_ping(int argc, char **argv)
{
	struct stx_option_list files = { 0 };
	struct stx_diag d = { 0 };
	struct stx_bytes b = { 0 };
	struct stax_client *c = NULL;
	struct stax_error err;
	struct stax_pong p;
	const struct stx_option table[] = { { NULL, STX_OPT_FLAG, NULL } };
	stx_err e = stx_options_parse(argc, argv, table, &files, &d);
	if (!e && files.n)
		e = stx_fail(&d, STX_E_USAGE, "usage", "", "ping takes no arguments");
	if (!e)
		e = stx_tool_connect(0, &c, &d);
	if (!e && (e = stax_ping(c, &p, &err)))
		stx_tool_diag(&d, &err);
	if (!e) {
		stx_bytes_printf(&b,
				 "server      %s\nversion     %s\nsandbox     %s\nfingerprint %s\n",
				 stax_client_server(c), p.version, p.sandbox, p.fingerprint);
		stx_bytes_printf(
			&b, "workers     %u, %u busy\nuptime      %.1f s\nround trip  %.1f us\n",
			p.workers, p.busy, (double)p.uptime_ms * 1e-3, (double)p.rtt_ns * 1e-3);
		if (p.nworker_pids)
			stx_bytes_puts(&b, "worker pids");
		for (uint32_t i = 0; i < p.nworker_pids; i++)
			stx_bytes_printf(&b, " %u", p.worker_pids[i]);
		if (p.nworker_pids)
			stx_bytes_puts(&b, "\n");
	}
	stax_client_free(c);
	return e ? stx_tool_fail(&d, 0) : stx_tool_emit(&b);
}

/* ---- fsck ---- */

int stx_tool_fsck(int argc, char **argv)
{
	int repair = 0;
	const char *dir = NULL;
	struct stx_option_list files = { 0 };
	struct stx_diag d = { 0 };
	struct stax_error err;
	char program[PATH_MAX];
	const struct stx_option table[] = {
		{ "repair", STX_OPT_FLAG, &repair },
		{ "cache-dir", STX_OPT_TEXT, &dir },
		{ NULL, STX_OPT_FLAG, NULL },
	};
	stx_err e = stx_options_parse(argc, argv, table, &files, &d);
	if (!e && files.n)
		e = stx_fail(&d, STX_E_USAGE, "usage", "", "fsck takes no arguments");
	if (!e && (e = stax_find_daemon(program, sizeof program, &err)))
		stx_tool_diag(&d, &err);
	if (e)
		return stx_tool_fail(&d, 0);
	char *args[8] = { (char *)(uintptr_t) "staxd", (char *)(uintptr_t) "--fsck" };
	int n = 2;
	if (repair)
		args[n++] = (char *)(uintptr_t) "--repair";
	if (dir) {
		args[n++] = (char *)(uintptr_t) "--cache-dir";
		args[n++] = (char *)(uintptr_t)dir;
	}
	execv(program, args);
	stx_fail(&d, STX_E_IO, "fsck", "", "%s: %s", program, strerror(errno));
	return stx_tool_fail(&d, 0);
}
