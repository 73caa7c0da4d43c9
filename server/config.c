/* config.c: flags, environment, file, defaults. */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORKERS_MAX 64
#define LINE_BYTES  4600
#define FILE_BYTES  (1 << 20)

enum kind { COUNT, SECONDS, MILLIS, SIZE, FLAG, SCHED };
static const char *const unit_names[] = { "count", "seconds", "milliseconds",
					  "bytes", "0 or 1",  "normal, nice or idle" };

static const char *const wanted[] = { "a count",
				      "a whole number of seconds",
				      "a whole number of milliseconds",
				      "bytes, or a size such as 512MiB or 10GiB",
				      "0 or 1",
				      "normal, nice or idle" };

struct setting {
	const char *name;
	enum kind kind;
	uint64_t initial;
	const char *env, *text;
	size_t offset;
};

static const struct setting settings[] = {
#define STX_SETTING(name, kind, def, env, text)                                                    \
	{ #name, kind, def, env, text, offsetof(struct stx_config, name) },
#include "config.def"
#undef STX_SETTING
};

static const char *const sched_names[] = { "normal", "nice", "idle" };

struct reader {
	struct stx_config *c;
	stx__getenv_fn *env;
	const char *file;
	struct stx_diag *d;
};

static uint64_t *value_of(struct stx_config *c, const struct setting *s)
{
	return (uint64_t *)(void *)((char *)c + s->offset);
}

/* ---- values ---- */

int stx__size_parse(const char *text, uint64_t *out)
{
	static const struct {
		const char *suffix;
		unsigned shift;
	} units[] = { { "", 0 },     { "B", 0 },  { "K", 10 },   { "KiB", 10 }, { "M", 20 },
		      { "MiB", 20 }, { "G", 30 }, { "GiB", 30 }, { "T", 40 },   { "TiB", 40 } };
	char *end;
	if (*text < '0' || *text > '9')
		return -1;
	errno = 0;
	unsigned long long v = strtoull(text, &end, 10);
	if (errno)
		return -1;
	while (*end == ' ')
		end++;
	for (unsigned i = 0; i < sizeof units / sizeof *units; i++) {
		if (strcmp(end, units[i].suffix) != 0)
			continue;
		if (v > UINT64_MAX >> units[i].shift)
			return -1;
		*out = (uint64_t)v << units[i].shift;
		return 0;
	}
	return -1;
}

static int parse_value(enum kind kind, const char *text, uint64_t *out)
{
	switch (kind) {
	case SIZE: return stx__size_parse(text, out);
	case COUNT:
	case SECONDS:
	case MILLIS: {
		char *end;
		errno = 0;
		*out = strtoull(text, &end, 10);
		return *text >= '0' && *text <= '9' && !*end && !errno && *out < 1ull << 40 ? 0
											    : -1;
	}
	case FLAG:
		if (!strcmp(text, "1") || !strcmp(text, "yes") || !strcmp(text, "true"))
			*out = 1;
		else if (!strcmp(text, "0") || !strcmp(text, "no") || !strcmp(text, "false"))
			*out = 0;
		else
			return -1;
		return 0;
	case SCHED:
		for (unsigned i = 0; i < 3; i++)
			if (!strcmp(text, sched_names[i])) {
				*out = i;
				return 0;
			}
		return -1;
	}
	return -1;
}

/* ---- addresses ---- */

static int is_loopback(const char *host)
{
	struct in_addr a4;
	struct in6_addr a6;
	if (inet_pton(AF_INET, host, &a4) == 1)
		return ntohl(a4.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, host, &a6) == 1 && IN6_IS_ADDR_LOOPBACK(&a6);
}

static stx_err parse_tcp(const char *rest, const char *text, struct stx__address *out,
			 struct stx_diag *d)
{
	const char *colon = strrchr(rest, ':');
	char host[64], *end;
	size_t n = colon ? (size_t)(colon - rest) : 0;
	unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
	if (!n || n >= sizeof host || colon[1] < '0' || colon[1] > '9' || *end || port > 65535)
		return stx_fail(d, STX_E_USAGE, "config", "", "%s: want tcp:HOST:PORT", text);
	memcpy(host, rest, n);
	host[n] = 0;
	if (host[0] == '[' && host[n - 1] == ']') {
		memmove(host, host + 1, n - 2);
		host[n - 2] = 0;
	}
	snprintf(out->host, sizeof out->host, "%s",
		 strcmp(host, "localhost") != 0 ? host : "127.0.0.1");
	if (!is_loopback(out->host))
		return stx_fail(
			d, STX_E_USAGE, "config", "",
			"%s: TCP beyond loopback is refused without TLS, which is not offered yet; "
			"use tcp:127.0.0.1:PORT or a unix socket",
			text);
	out->tcp = 1;
	out->port = (uint16_t)port;
	return STX_E_OK;
}

stx_err stx__address_parse(const char *text, struct stx__address *out, struct stx_diag *d)
{
	memset(out, 0, sizeof *out);
	if (!strncmp(text, "tls:", 4))
		return stx_fail(d, STX_E_USAGE, "config", "",
				"%s: TLS is not offered yet; use a unix socket or loopback TCP",
				text);
	if (!strncmp(text, "tcp:", 4))
		return parse_tcp(text + 4, text, out, d);
	if (strncmp(text, "unix:", 5) != 0 || !text[5])
		return stx_fail(d, STX_E_USAGE, "config", "", "%s: want unix:PATH or tcp:HOST:PORT",
				text);
	if (strlen(text + 5) >= sizeof out->path - sizeof ".lock")
		return stx_fail(d, STX_E_USAGE, "config", "",
				"%s: the path of a unix socket has at most %zu bytes", text,
				sizeof out->path - sizeof ".lock" - 1);
	snprintf(out->path, sizeof out->path, "%s", text + 5);
	return STX_E_OK;
}

void stx__address_text(const struct stx__address *a, char *out, size_t cap)
{
	if (!a->tcp)
		snprintf(out, cap, "unix:%s", a->path);
	else if (strchr(a->host, ':'))
		snprintf(out, cap, "tcp:[%s]:%u", a->host, a->port);
	else
		snprintf(out, cap, "tcp:%s:%u", a->host, a->port);
}

/* ---- one setting from any source ---- */

static void to_key(const char *name, char *out, size_t cap)
{
	snprintf(out, cap, "%s", name);
	for (char *p = out; *p; p++)
		if (*p == '-')
			*p = '_';
}

static stx_err set_path(struct reader *r, enum stx__source from, const char *value,
			const char *where, char out[PATH_MAX], enum stx__source *was)
{
	if (from < *was)
		return STX_E_OK;
	*was = from;
	if (!*value || strlen(value) >= PATH_MAX)
		return stx_fail(r->d, STX_E_USAGE, "config", "", "%s: bad path", where);
	snprintf(out, PATH_MAX, "%s", value);
	return STX_E_OK;
}

/* key is as in a file: "max_size" or "max-size". where names the source in an error. */
static stx_err set(struct reader *r, enum stx__source from, const char *key, const char *value,
		   const char *where)
{
	struct stx_config *c = r->c;
	char name[64];
	to_key(key, name, sizeof name);
	if (!strcmp(name, "listen")) {
		if (from < r->c->from_listen)
			return STX_E_OK;
		if (from > r->c->from_listen)
			c->nlisten = 0;
		r->c->from_listen = from;
		if (c->nlisten == STX__LISTEN_MAX)
			return stx_fail(r->d, STX_E_USAGE, "config", "",
					"%s: more than %d addresses", where, STX__LISTEN_MAX);
		return stx__address_parse(value, &c->listen[c->nlisten++], r->d);
	}
	if (!strcmp(name, "cache_dir"))
		return set_path(r, from, value, where, c->cache_dir, &c->from_cache_dir);
	if (!strcmp(name, "reproducers"))
		return set_path(r, from, value, where, c->reproducers, &c->from_reproducers);
	if (!strcmp(name, "http"))
		return stx_fail(r->d, STX_E_USAGE, "config", "",
				"%s: the HTTP status page is not offered yet", where);
	for (size_t i = 0; i < STX__NSETTINGS; i++) {
		if (strcmp(name, settings[i].name) != 0)
			continue;
		if (from < r->c->from[i])
			return STX_E_OK;
		r->c->from[i] = from;
		if (parse_value(settings[i].kind, value, value_of(c, &settings[i])))
			return stx_fail(r->d, STX_E_USAGE, "config", "",
					"%s: bad value '%s' for %s (%s): want %s", where, value,
					key, settings[i].text, wanted[settings[i].kind]);
		return STX_E_OK;
	}
	return stx_fail(r->d, STX_E_USAGE, "config", "", "%s: unknown setting '%s'", where, key);
}

/* ---- sources ---- */

static char *trim(char *s)
{
	while (*s == ' ' || *s == '\t')
		s++;
	char *end = s + strlen(s);
	while (end > s && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\n' || end[-1] == '\r'))
		*--end = 0;
	return s;
}

/* A regular file of a size that settings can have: a device or a pipe might never end. */
static FILE *open_file(struct reader *r)
{
	struct stat st;
	int fd = open(r->file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	const char *why = fd < 0 || fstat(fd, &st)  ? strerror(errno)
			  : S_ISDIR(st.st_mode)     ? "is a directory"
			  : !S_ISREG(st.st_mode)    ? "is not a regular file"
			  : st.st_size > FILE_BYTES ? "is larger than 1 MiB"
						    : NULL;
	FILE *f = why ? NULL : fdopen(fd, "r");
	if (f)
		return f;
	stx_fail(r->d, STX_E_USAGE, "config", "", "%s: %s", r->file, why ? why : strerror(errno));
	if (fd >= 0)
		close(fd);
	return NULL;
}

static stx_err read_line(struct reader *r, char *line, size_t n, const char *where)
{
	if (strlen(line) != n)
		return stx_fail(r->d, STX_E_USAGE, "config", "", "%s: a NUL byte in the line",
				where);
	if (n == LINE_BYTES - 1 && line[n - 1] != '\n')
		return stx_fail(r->d, STX_E_USAGE, "config", "", "%s: a line of more than %d bytes",
				where, LINE_BYTES - 2);
	char *key = trim(line), *eq = strchr(key, '=');
	if (!*key || *key == '#' || *key == ';' || *key == '[')
		return STX_E_OK;
	if (!eq)
		return stx_fail(r->d, STX_E_USAGE, "config", "", "%s: want name = value", where);
	*eq = 0;
	return set(r, STX__SOURCE_FILE, trim(key), trim(eq + 1), where);
}

static stx_err read_file(struct reader *r)
{
	char line[LINE_BYTES], where[PATH_MAX + 24];
	FILE *f = open_file(r);
	stx_err e = f ? STX_E_OK : STX_E_USAGE;
	for (unsigned n = 1; !e; n++) {
		long at = ftell(f);
		if (!fgets(line, sizeof line, f))
			break;
		snprintf(where, sizeof where, "%s:%u", r->file, n);
		e = read_line(r, line, (size_t)(ftell(f) - at), where);
	}
	if (f)
		fclose(f);
	return e;
}

static stx_err read_env(struct reader *r)
{
	const char *v = r->env("STAX_CACHE_DIR");
	stx_err e = v && *v ? set(r, STX__SOURCE_ENV, "cache_dir", v, "STAX_CACHE_DIR") : STX_E_OK;
	v = r->env("STAX_REPRODUCERS");
	if (!e && v && *v)
		e = set(r, STX__SOURCE_ENV, "reproducers", v, "STAX_REPRODUCERS");
	for (size_t i = 0; !e && i < STX__NSETTINGS; i++)
		if (*settings[i].env && (v = r->env(settings[i].env)) && *v)
			e = set(r, STX__SOURCE_ENV, settings[i].name, v, settings[i].env);
	return e;
}

static int is_switch(const char *name)
{
	if (!strcmp(name, "require-sandbox") || !strcmp(name, "synchronous-full"))
		return 1;
	return 0;
}

static int is_setting(const char *name)
{
	static const char *const others[] = { "config", "listen", "cache-dir", "reproducers",
					      "http" };
	char key[64];
	for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
		if (!strcmp(name, others[i]))
			return 1;
	to_key(name, key, sizeof key);
	for (size_t i = 0; i < STX__NSETTINGS; i++)
		if (!strcmp(key, settings[i].name))
			return 1;
	return 0;
}

/* "--name value", "--name=value" and switches. */
static stx_err read_flags(struct reader *r, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *a = argv[i];
		static const struct {
			const char *flag;
			enum stx__mode mode;
		} modes[] = { { "--show-config", STX__MODE_SHOW },
			      { "--fsck", STX__MODE_FSCK },
			      { "--help", STX__MODE_HELP },
			      { "--version", STX__MODE_VERSION } };
		int known = 0;
		for (unsigned k = 0; k < sizeof modes / sizeof *modes; k++)
			if (!strcmp(a, modes[k].flag)) {
				r->c->mode = modes[k].mode;
				known = 1;
			}
		if (!strcmp(a, "--repair"))
			known = r->c->repair = 1;
		if (known)
			continue;
		if (strncmp(a, "--", 2) != 0)
			return stx_fail(r->d, STX_E_USAGE, "config", "", "unexpected argument '%s'",
					a);
		char name[64];
		const char *eq = strchr(a, '='), *value;
		snprintf(name, sizeof name, "%.*s", eq ? (int)(eq - a - 2) : 60, a + 2);
		if (!is_setting(name))
			return stx_fail(r->d, STX_E_USAGE, "config", "",
					"unknown flag '%.*s': see staxd --help",
					eq ? (int)(eq - a) : 60, a);
		if (eq)
			value = eq + 1;
		else if (is_switch(name))
			value = "1";
		else if (i + 1 < argc)
			value = argv[++i];
		else
			return stx_fail(r->d, STX_E_USAGE, "config", "", "%s needs a value", a);
		if (!strcmp(name, "config")) {
			r->file = value;
			continue;
		}
		stx_err e = set(r, STX__SOURCE_FLAG, name, value, a);
		if (e)
			return e;
	}
	if (r->c->repair && r->c->mode != STX__MODE_FSCK)
		return stx_fail(r->d, STX_E_USAGE, "config", "", "--repair goes with --fsck");
	return STX_E_OK;
}

/* ---- defaults ---- */

/* $variable/suffix, else ~/home_suffix. */
static stx_err xdg(struct reader *r, const char *variable, const char *suffix,
		   const char *home_suffix, char *out, size_t cap)
{
	const char *dir = r->env(variable), *home = r->env("HOME");
	int n;
	if (dir && *dir == '/')
		n = snprintf(out, cap, "%s/%s", dir, suffix);
	else if (home && *home == '/')
		n = snprintf(out, cap, "%s/%s", home, home_suffix);
	else
		return stx_fail(
			r->d, STX_E_USAGE, "config", "",
			"neither %s nor HOME is set: name paths with --listen and --cache-dir",
			variable);
	return n >= 0 && (size_t)n < cap ? STX_E_OK
					 : stx_fail(r->d, STX_E_USAGE, "config", "",
						    "the path below %s is too long", variable);
}

/* The user's own socket: the only one whose folders are made. */
static stx_err own_socket(struct reader *r, char *path, size_t cap)
{
	const char *run = r->env("XDG_RUNTIME_DIR");
	if (run && *run == '/')
		return xdg(r, "XDG_RUNTIME_DIR", "stax/stax.sock", "", path, cap);
	return xdg(r, "XDG_CACHE_HOME", "stax/run/stax.sock", ".cache/stax/run/stax.sock", path,
		   cap);
}

static stx_err fill_listen(struct reader *r)
{
	struct stx_config *c = r->c;
	char path[PATH_MAX], text[PATH_MAX + 8];
	struct stx_diag *d = r->d, ignored = { 0 };
	r->d = c->from_listen ? &ignored : d;
	stx_err e = own_socket(r, path, sizeof path);
	r->d = d;
	if (!c->from_listen) {
		snprintf(text, sizeof text, "unix:%s", e ? "" : path);
		if (!e)
			e = stx__address_parse(text, &c->listen[0], d);
		c->nlisten = 1;
	}
	if (e)
		return c->from_listen ? STX_E_OK : e;
	for (uint32_t i = 0; i < c->nlisten; i++)
		c->listen[i].own = !c->listen[i].tcp && !strcmp(c->listen[i].path, path);
	return STX_E_OK;
}

static stx_err fill_defaults(struct reader *r)
{
	struct stx_config *c = r->c;
	stx_err e = STX_E_OK;
	if (!r->c->from_cache_dir)
		e = xdg(r, "XDG_CACHE_HOME", "stax", ".cache/stax", c->cache_dir,
			sizeof c->cache_dir);
	if (!r->c->from_reproducers)
		snprintf(c->reproducers, sizeof c->reproducers, "%.*s/reproducers",
			 (int)sizeof c->reproducers - 16, c->cache_dir);
	else if (!strcmp(c->reproducers, "none"))
		c->reproducers[0] = 0;
	if (!e && c->mode != STX__MODE_FSCK)
		e = fill_listen(r);
	if (!c->workers) {
		long n = sysconf(_SC_NPROCESSORS_ONLN) - 1;
		c->workers = n < 1 ? 1 : n > 16 ? 16 : (uint64_t)n;
	}
	if (!e && c->workers > WORKERS_MAX)
		e = stx_fail(r->d, STX_E_USAGE, "config", "", "more than %d workers", WORKERS_MAX);
	return e;
}

stx_err stx_config_read(struct stx_config *c, int argc, char **argv, stx__getenv_fn *env,
			struct stx_diag *d)
{
	struct reader r = { .c = c, .env = env, .d = d };
	memset(c, 0, sizeof *c);
	for (size_t i = 0; i < STX__NSETTINGS; i++)
		*value_of(c, &settings[i]) = settings[i].initial;
	stx_err e = read_flags(&r, argc, argv);
	if (!e)
		e = read_env(&r);
	if (!e && r.file)
		e = read_file(&r);
	if (!e)
		e = fill_defaults(&r);
	return e;
}

static void show_comment(const char *unit, enum stx__source from, const char *env, const char *text,
			 void (*line)(void *ctx, const char *text), void *ctx)
{
	static const char *const sources[] = { "default", "file", "environment", "flag" };
	char out[400];
	int named = from == STX__SOURCE_ENV;
	snprintf(out, sizeof out, "# %s; from %s%s%s; %s", unit, sources[from], named ? " " : "",
		 named ? env : "", text);
	line(ctx, out);
}

void stx_config_show(const struct stx_config *c, void (*line)(void *ctx, const char *text),
		     void *ctx)
{
	char text[PATH_MAX + 64], address[160];
	show_comment("address", c->from_listen, "", "where clients connect", line, ctx);
	for (uint32_t i = 0; i < c->nlisten; i++) {
		stx__address_text(&c->listen[i], address, sizeof address);
		snprintf(text, sizeof text, "listen = %s", address);
		line(ctx, text);
	}
	show_comment("path", c->from_cache_dir, "STAX_CACHE_DIR", "the store", line, ctx);
	snprintf(text, sizeof text, "cache_dir = %s", c->cache_dir);
	line(ctx, text);
	show_comment("path", c->from_reproducers, "STAX_REPRODUCERS",
		     "files that replay faults of the compiler; none: not written", line, ctx);
	snprintf(text, sizeof text, "reproducers = %s", *c->reproducers ? c->reproducers : "none");
	line(ctx, text);
	for (size_t i = 0; i < STX__NSETTINGS; i++) {
		const struct setting *s = &settings[i];
		uint64_t v = *value_of((struct stx_config *)c, s);
		show_comment(unit_names[s->kind], c->from[i], s->env, s->text, line, ctx);
		if (s->kind == SCHED)
			snprintf(text, sizeof text, "%s = %s", s->name, sched_names[v]);
		else if (s->kind == SIZE && v >= 1 << 20 && v % (1 << 20) == 0)
			snprintf(text, sizeof text, "%s = %lluMiB", s->name,
				 (unsigned long long)(v >> 20));
		else
			snprintf(text, sizeof text, "%s = %llu", s->name, (unsigned long long)v);
		line(ctx, text);
	}
}
