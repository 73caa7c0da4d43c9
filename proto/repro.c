/* repro.c: reproducer files. */
#include "repro.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dtype.h"
#include "stax_abi.h"
#include "timing.h"

static const char magic[] = "stax reproducer 1\n";
#define MAGIC_BYTES (sizeof magic - 1)
#define SUFFIX      ".repro"

int stx_repro_wanted(stx_err e)
{
	return e == STX_E_INTERNAL || e == STX_E_CRASHED || e == STX_E_COMPILE;
}

int stx_repro_is(struct stx_span file)
{
	return file.n >= MAGIC_BYTES && !memcmp(file.at, magic, MAGIC_BYTES);
}

/* ---- writing ---- */

/* One line; what would end it or be taken for a space is written as %XX. */
static void put_line(struct stx_bytes *b, const char *name, const char *text)
{
	stx_bytes_printf(b, "%s = ", name);
	for (const unsigned char *p = (const unsigned char *)text; *p; p++)
		if (*p < 0x20 || *p == '%')
			stx_bytes_printf(b, "%%%02X", *p);
		else
			stx_bytes_u8(b, *p);
	stx_bytes_puts(b, "\n");
}

stx_err stx_repro_format(const struct stx_repro *r, struct stx_bytes *out)
{
	char hex[STX_DIGEST_HEX];
	if (r->body.n > STX_REPRO_MAX_BYTES)
		return STX_E_TOO_LARGE;
	stx_digest_hex(&r->compiler, hex);
	stx_bytes_puts(out, magic);
	put_line(out, "error", stx_err_name(r->error.code));
	put_line(out, "stage", r->error.stage);
	put_line(out, "node", r->error.node);
	put_line(out, "text", r->error.text);
	put_line(out, "stax", STX_VERSION);
	put_line(out, "compiler", hex);
	put_line(out, "target", r->target);
	stx_bytes_printf(out, "options = %u\nformat = %u\n", r->options, r->format);
	for (size_t i = 0; i < r->nblockings; i++) {
		char line[STX_DIGEST_HEX + STX_CONFIG_BYTES];
		struct stx_digest product;
		memcpy(product.b, r->blockings[i]->product.data, sizeof product.b);
		stx_digest_hex(&product, hex);
		snprintf(line, sizeof line, "%s %s", hex, r->blockings[i]->config);
		put_line(out, "blocking", line);
	}
	for (size_t i = 0; i < r->nvalues; i++) {
		const Stx__GivenValue *v = r->values[i];
		stx_bytes_printf(out, "value = %u %zu", v->dtype, v->n_sizes);
		for (size_t k = 0; k < v->n_sizes; k++)
			stx_bytes_printf(out, " %lld", (long long)v->sizes[k]);
		stx_bytes_printf(out, " %zu\n", v->data.len);
		put_line(out, "of", v->input);
	}
	stx_bytes_printf(out, "body = %zu\n\n", r->body.n);
	for (size_t i = 0; i < r->nvalues; i++)
		stx_bytes_put(out, r->values[i]->data.data, r->values[i]->data.len);
	if (stx_bytes_put(out, r->body.at, r->body.n) || out->oom)
		return STX_E_NOMEM;
	return out->n > STX_REPRO_MAX_BYTES ? STX_E_TOO_LARGE : STX_E_OK;
}

/* ---- reading ---- */

struct reader {
	struct stx_span rest;
	unsigned line;
	struct stx_arena *arena;
	struct stx_diag *d;
	struct stx_repro *out;
	STX_VEC(Stx__GivenValue *) values;
	STX_VEC(Stx__Blocking *) blockings;
	int named; /* values whose name has come */
	size_t body_bytes;
	int has_body;
};

static stx_err bad(struct reader *r, const char *what)
{
	return stx_fail(r->d, STX_E_INVALID, "reproducer", "", "line %u: %s", r->line, what);
}

static int hex_of(uint8_t c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The next line's text after `name = `, unescaped, in the arena; *end: the empty line. */
static stx_err next_line(struct reader *r, char name[16], char **value, int *end)
{
	const uint8_t *p = r->rest.at, *nl = memchr(p, '\n', r->rest.n);
	r->line++;
	if (!nl)
		return bad(r, "the file is cut short");
	size_t n = (size_t)(nl - p), k = 0;
	r->rest = (struct stx_span){ nl + 1, r->rest.n - n - 1 };
	*end = n == 0;
	if (*end)
		return STX_E_OK;
	while (k < n && k < 15 && p[k] != ' ')
		k++;
	if (k == 15 || n - k < 3 || memcmp(p + k, " = ", 3) != 0 || n > STX_REPRO_MAX_BYTES)
		return bad(r, "name = value expected");
	memcpy(name, p, k);
	name[k] = 0;
	char *v = *value = stx_arena_alloc(r->arena, n);
	if (!v)
		return stx_fail(r->d, STX_E_NOMEM, "reproducer", "", "out of memory");
	for (size_t i = k + 3; i < n; i++) {
		int high = p[i] == '%' && i + 2 < n ? hex_of(p[i + 1]) : -1;
		int low = high >= 0 ? hex_of(p[i + 2]) : -1;
		if (p[i] == '%' && (low < 0 || (high == 0 && low == 0)))
			return bad(r, "a bad % sequence");
		*v++ = (char)(p[i] == '%' ? high << 4 | low : p[i]);
		i += p[i] == '%' ? 2 : 0;
	}
	*v = 0;
	return STX_E_OK;
}

static int number(const char **p, int64_t *out)
{
	char *end;
	errno = 0;
	*out = strtoll(*p, &end, 10);
	if (end == *p || errno || (*end && *end != ' '))
		return -1;
	*p = *end ? end + 1 : end;
	return 0;
}

/* value = DTYPE RANK SIZES... BYTES */
static stx_err read_value(struct reader *r, const char *text)
{
	int64_t dtype, rank, bytes;
	Stx__GivenValue *v = STX_NEW(r->arena, Stx__GivenValue);
	if (!v || stx_push(r->arena, &r->values, v))
		return stx_fail(r->d, STX_E_NOMEM, "reproducer", "", "out of memory");
	stx__given_value__init(v);
	if (number(&text, &dtype) || dtype < 0 || dtype >= STX_DTYPE_COUNT ||
	    number(&text, &rank) || rank < 0 || rank > STX_MAX_RANK)
		return bad(r, "a bad value");
	v->dtype = (uint32_t)dtype;
	v->n_sizes = (size_t)rank;
	v->sizes = STX_NEW_ARRAY(r->arena, int64_t, v->n_sizes);
	for (size_t i = 0; v->sizes && i < v->n_sizes; i++)
		if (number(&text, &v->sizes[i]))
			return bad(r, "a bad value");
	if (number(&text, &bytes) || bytes < 0 || bytes > STX_REPRO_MAX_BYTES || *text)
		return bad(r, "a bad value");
	v->data.len = (size_t)bytes;
	return STX_E_OK;
}

/* blocking = DIGEST CONFIG */
static stx_err read_blocking(struct reader *r, char *text)
{
	struct stx_digest *product = STX_NEW(r->arena, struct stx_digest);
	Stx__Blocking *b = STX_NEW(r->arena, Stx__Blocking);
	if (!product || !b || stx_push(r->arena, &r->blockings, b))
		return stx_fail(r->d, STX_E_NOMEM, "reproducer", "", "out of memory");
	char *config = strchr(text, ' ');
	if (!config || config - text != STX_DIGEST_HEX - 1)
		return bad(r, "a bad blocking");
	*config++ = 0;
	if (stx_digest_parse(text, product) || !*config || strlen(config) >= STX_CONFIG_BYTES)
		return bad(r, "a bad blocking");
	stx__blocking__init(b);
	b->product = (ProtobufCBinaryData){ sizeof product->b, product->b };
	b->config = config;
	return STX_E_OK;
}

static stx_err read_field(struct reader *r, const char *name, char *value)
{
	const char *text = value;
	int64_t n = 0;
	if (!strcmp(name, "value"))
		return read_value(r, value);
	if (!strcmp(name, "blocking"))
		return read_blocking(r, value);
	if (!strcmp(name, "of")) {
		if (r->values.n == 0 || (unsigned)r->named == r->values.n)
			return bad(r, "a name without its value");
		r->named = (int)r->values.n;
		r->values.at[r->values.n - 1]->input = value;
		return STX_E_OK;
	}
	if (!strcmp(name, "target")) {
		r->out->target = value;
		return STX_E_OK;
	}
	int options = !strcmp(name, "options"), format = !strcmp(name, "format"),
	    body = !strcmp(name, "body");
	if (!options && !format && !body)
		return STX_E_OK; /* for people, or of a later version */
	if (number(&text, &n) || *text || n < 0 || n > STX_REPRO_MAX_BYTES ||
	    (format && (n < 1 || n > 3)))
		return bad(r, "a bad number");
	if (options)
		r->out->options = (uint32_t)n;
	if (format)
		r->out->format = (uint32_t)n;
	if (body) {
		r->body_bytes = (size_t)n;
		r->has_body = 1;
	}
	return STX_E_OK;
}

stx_err stx_repro_parse(struct stx_span file, struct stx_arena *a, struct stx_repro *out,
			struct stx_diag *d)
{
	struct reader r = { .arena = a, .d = d, .out = out, .line = 1 };
	memset(out, 0, sizeof *out);
	if (!stx_repro_is(file))
		return stx_fail(d, STX_E_INVALID, "reproducer", "",
				"not a reproducer of this version");
	r.rest = (struct stx_span){ file.at + MAGIC_BYTES, file.n - MAGIC_BYTES };
	for (int end = 0; !end;) {
		char name[16], *value = NULL;
		stx_err e = next_line(&r, name, &value, &end);
		if (!e && !end)
			e = read_field(&r, name, value);
		if (e)
			return e;
	}
	if (!out->target || !out->format || !r.has_body || (unsigned)r.named != r.values.n)
		return bad(&r, "target, format, body or the name of a value is missing");
	for (unsigned i = 0; i < r.values.n; i++) {
		ProtobufCBinaryData *v = &r.values.at[i]->data;
		if (v->len > r.rest.n)
			return bad(&r, "the file is cut short");
		v->data = (uint8_t *)(uintptr_t)r.rest.at;
		r.rest = (struct stx_span){ r.rest.at + v->len, r.rest.n - v->len };
	}
	if (r.rest.n != r.body_bytes)
		return bad(&r, "the graph has another length than the file says");
	out->values = r.values.at;
	out->nvalues = r.values.n;
	out->blockings = r.blockings.at;
	out->nblockings = r.blockings.n;
	out->body = r.rest;
	return STX_E_OK;
}

/* ---- files ---- */

int stx_repro_path(const char *dir, const struct stx_digest *id, char *out, size_t cap)
{
	char hex[STX_DIGEST_HEX];
	stx_digest_hex(id, hex);
	int n = snprintf(out, cap, "%s/%.16s" SUFFIX, dir, hex);
	return n > 0 && (size_t)n < cap ? 0 : -1;
}

void stx_repro_mention(struct stx_diag *d, const char *path)
{
	char tail[sizeof d->text];
	int n = snprintf(tail, sizeof tail, "; to replay it: stax compile %s", path);
	if (n <= 0 || (size_t)n >= sizeof tail - 64)
		return; /* a path that leaves no room for the error itself */
	size_t used = strlen(d->text), most = sizeof d->text - 1 - (size_t)n;
	memcpy(d->text + (used < most ? used : most), tail, (size_t)n + 1);
}

static int make_folders(const char *path)
{
	char part[PATH_MAX];
	size_t n = strlen(path);
	if (n >= sizeof part)
		return -1;
	memcpy(part, path, n + 1);
	for (char *p = part + 1; *p; p++)
		if (*p == '/') {
			*p = 0;
			if (mkdir(part, 0700) && errno != EEXIST)
				return -1;
			*p = '/';
		}
	return 0;
}

static int is_reproducer(const char *name)
{
	size_t n = strlen(name), k = sizeof SUFFIX - 1;
	return n > k && !strcmp(name + n - k, SUFFIX);
}

/* Leaves room for one more. */
static void drop_oldest(int dir)
{
	for (;;) {
		char oldest[NAME_MAX + 1] = "";
		struct timespec when = { 0, 0 };
		struct stat st;
		unsigned n = 0;
		int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *l = fd < 0 ? NULL : fdopendir(fd);
		if (!l) {
			if (fd >= 0)
				close(fd);
			return;
		}
		for (struct dirent *e; (e = readdir(l));) {
			if (!is_reproducer(e->d_name) ||
			    fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
				continue;
			n++;
			if (!*oldest || st.st_mtim.tv_sec < when.tv_sec ||
			    (st.st_mtim.tv_sec == when.tv_sec &&
			     st.st_mtim.tv_nsec < when.tv_nsec)) {
				snprintf(oldest, sizeof oldest, "%s", e->d_name);
				when = st.st_mtim;
			}
		}
		closedir(l);
		if (n < STX_REPRO_MAX_FILES || unlinkat(dir, oldest, 0))
			return;
	}
}

static int write_all(int fd, struct stx_span s)
{
	while (s.n) {
		ssize_t w = write(fd, s.at, s.n);
		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return -1;
		s = (struct stx_span){ s.at + w, s.n - (size_t)w };
	}
	return 0;
}

stx_err stx_repro_write(const char *path, struct stx_span file, struct stx_diag *d)
{
	char folder[PATH_MAX], temporary[64];
	const char *name = strrchr(path, '/');
	int dir = -1, fd = -1, err = ENAMETOOLONG;
	if (!name || (size_t)(name - path) >= sizeof folder || make_folders(path))
		goto fail;
	memcpy(folder, path, (size_t)(name - path));
	folder[name++ - path] = 0;
	snprintf(temporary, sizeof temporary, ".%ld-%p", (long)getpid(), (void *)&file);
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		goto fail;
	if (faccessat(dir, name, F_OK, 0))
		drop_oldest(dir);
	unlinkat(dir, temporary, 0); /* of a process that is gone */
	fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		goto fail;
	if (write_all(fd, file) || renameat(dir, temporary, dir, name)) {
		err = errno;
		unlinkat(dir, temporary, 0);
		errno = err;
		goto fail;
	}
	close(fd);
	close(dir);
	return STX_E_OK;
fail:
	err = errno ? errno : err;
	if (fd >= 0)
		close(fd);
	if (dir >= 0)
		close(dir);
	return stx_fail(d, STX_E_IO, "reproducer", "", "%.300s: %s", path, strerror(err));
}
