/* npy.c: the .npy format (NumPy enhancement proposal 1), and whole files. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"

#define HEADER_MAX (64u << 10)
#define STREAM_MAX ((size_t)1 << 30) /* bytes read of what is not a regular file */

struct header {
	char kind; /* b, i, u, f, V */
	int bytes;
	int swap; /* big-endian */
	int fortran;
	int rank;
	int64_t sizes[STX_MAX_RANK];
};

/* A small reader of Python literals: what NumPy writes, and nothing else. */
struct cursor {
	const char *at, *end;
};

static void skip_space(struct cursor *c)
{
	while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t'))
		c->at++;
}

static int take(struct cursor *c, char ch)
{
	skip_space(c);
	if (c->at == c->end || *c->at != ch)
		return 0;
	c->at++;
	return 1;
}

static int take_word(struct cursor *c, const char *word)
{
	size_t n = strlen(word);
	skip_space(c);
	if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0)
		return 0;
	c->at += n;
	return 1;
}

static int take_string(struct cursor *c, char *out, size_t cap)
{
	size_t n = 0;
	skip_space(c);
	if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
		return 0;
	char quote = *c->at++;
	while (c->at < c->end && *c->at != quote) {
		if (n + 1 >= cap)
			return 0;
		out[n++] = *c->at++;
	}
	out[n] = 0;
	return take(c, quote);
}

static int take_sizes(struct cursor *c, struct header *h)
{
	if (!take(c, '('))
		return 0;
	while (!take(c, ')')) {
		int64_t v = 0;
		int digits = 0;
		skip_space(c);
		for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++, digits++)
			if (__builtin_mul_overflow(v, 10, &v) ||
			    __builtin_add_overflow(v, *c->at - '0', &v))
				return 0;
		if (!digits || h->rank == STX_MAX_RANK)
			return 0;
		h->sizes[h->rank++] = v;
		take_word(c, "L");
		if (!take(c, ',')) {
			if (!take(c, ')'))
				return 0;
			break;
		}
	}
	return 1;
}

static int parse_descr(const char *s, struct header *h)
{
	char order = *s;
	if (order != '<' && order != '>' && order != '|' && order != '=')
		return 0;
	h->swap = order == '>';
	h->kind = s[1];
	char *end;
	long n = s[1] ? strtol(s + 2, &end, 10) : 0;
	h->bytes = (int)n;
	return n >= 1 && n <= 16 && !*end;
}

static int parse_header(struct cursor *c, struct header *h)
{
	int have = 0;
	memset(h, 0, sizeof *h);
	if (!take(c, '{'))
		return 0;
	while (!take(c, '}')) {
		char key[32], descr[32];
		if (!take_string(c, key, sizeof key) || !take(c, ':'))
			return 0;
		if (!strcmp(key, "descr") && take_string(c, descr, sizeof descr) &&
		    parse_descr(descr, h))
			have |= 1;
		else if (!strcmp(key, "fortran_order") &&
			 ((h->fortran = take_word(c, "True")) || take_word(c, "False")))
			have |= 2;
		else if (!strcmp(key, "shape") && take_sizes(c, h))
			have |= 4;
		else
			return 0;
		if (!take(c, ',')) {
			if (!take(c, '}'))
				return 0;
			break;
		}
	}
	return have == 7;
}

static enum stx_dtype dtype_of(const struct header *h, enum stx_dtype as)
{
	static const struct {
		char kind;
		int bytes;
		enum stx_dtype t;
	} table[] = {
		{ 'b', 1, STX_BOOL }, { 'u', 1, STX_U8 },  { 'u', 2, STX_U16 }, { 'u', 4, STX_U32 },
		{ 'u', 8, STX_U64 },  { 'i', 1, STX_I8 },  { 'i', 2, STX_I16 }, { 'i', 4, STX_I32 },
		{ 'i', 8, STX_I64 },  { 'f', 2, STX_F16 }, { 'f', 4, STX_F32 }, { 'f', 8, STX_F64 },
	};
	if (h->kind == 'V' || (h->kind == 'u' && as != STX_DTYPE_NONE)) {
		/* Types NumPy does not have are stored as raw bytes. */
		if (as != STX_DTYPE_NONE && stx_dtype_bytes(as) == h->bytes &&
		    (as == STX_BF16 || as >= STX_F8E4M3FN))
			return as;
		if (h->kind == 'V')
			return h->bytes == 2 ? STX_BF16 : STX_DTYPE_NONE;
	}
	for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
		if (table[i].kind == h->kind && table[i].bytes == h->bytes)
			return table[i].t;
	return STX_DTYPE_NONE;
}

static void swap_bytes(char *p, size_t n, int bytes)
{
	for (size_t i = 0; i < n; i += (size_t)bytes)
		for (int a = 0, b = bytes - 1; a < b; a++, b--) {
			char t = p[i + (size_t)a];
			p[i + (size_t)a] = p[i + (size_t)b];
			p[i + (size_t)b] = t;
		}
}

/* Column-major bytes to a dense row-major tensor. */
static stx_err from_fortran(const struct header *h, enum stx_dtype t, const uint8_t *src,
			    struct stx_host *out, struct stx_diag *d)
{
	struct stx_tensor v = { .data = (void *)(uintptr_t)src,
				.dtype = (uint8_t)t,
				.rank = (uint8_t)h->rank };
	int64_t stride = 1, n = stx_host_elems(h->sizes, h->rank);
	for (int i = 0; i < h->rank; i++) {
		v.sizes[i] = h->sizes[i];
		v.strides[i] = stride;
		stride *= n ? h->sizes[i] : 1;
	}
	return stx_host_copy(out, &v, d);
}

stx_err stx_npy_parse(struct stx_span file, enum stx_dtype as, struct stx_host *out,
		      struct stx_diag *d)
{
	struct header h;
	memset(out, 0, sizeof *out);
	if (file.n < 10 || memcmp(file.at, "\x93NUMPY", 6) != 0 || file.at[6] < 1 || file.at[6] > 3)
		return stx_fail(d, STX_E_INVALID, "npy", "",
				"not an .npy file of version 1, 2 or 3");
	size_t start = file.at[6] == 1 ? 10 : 12;
	if (file.n < start)
		return stx_fail(d, STX_E_INVALID, "npy", "", "the .npy file is cut short");
	size_t n = file.at[6] == 1 ? (size_t)file.at[8] | (size_t)file.at[9] << 8
				   : stx_load_u32(file.at + 8);
	if (n > HEADER_MAX || n > file.n - start)
		return stx_fail(d, STX_E_INVALID, "npy", "",
				"the .npy header is cut short or too long");
	struct cursor c = { (const char *)file.at + start, (const char *)file.at + start + n };
	if (!parse_header(&c, &h))
		return stx_fail(d, STX_E_INVALID, "npy", "", "the .npy header is not understood");
	enum stx_dtype t = dtype_of(&h, as);
	if (t == STX_DTYPE_NONE)
		return stx_fail(d, STX_E_UNSUPPORTED, "npy", "", "dtype '%c%d' is not supported",
				h.kind, h.bytes);
	int64_t elems = stx_host_elems(h.sizes, h.rank), bytes;
	const uint8_t *data = file.at + start + n;
	if (elems < 0 || __builtin_mul_overflow(elems, (int64_t)stx_dtype_bytes(t), &bytes) ||
	    (uint64_t)bytes != file.n - start - n)
		return stx_fail(d, STX_E_INVALID, "npy", "",
				"the .npy data does not have the shape's size");
	stx_err e = h.fortran ? from_fortran(&h, t, data, out, d)
			      : stx_host_new(out, t, h.rank, h.sizes, d);
	if (e)
		return e;
	if (!h.fortran && out->bytes)
		memcpy(out->t.data, data, out->bytes);
	if (h.swap)
		swap_bytes(out->t.data, out->bytes, stx_dtype_bytes(t));
	return STX_E_OK;
}

stx_err stx_npy_read(const char *path, enum stx_dtype as, struct stx_host *out, struct stx_diag *d)
{
	struct stx_bytes b = { 0 };
	stx_err e = stx_file_read(path, STX_HOST_BYTES_MAX, &b, d);
	if (!e)
		e = stx_npy_parse((struct stx_span){ b.at, b.n }, as, out, d);
	if (e)
		stx_diag_at(d, "%s", path);
	stx_bytes_free(&b);
	return e;
}

stx_err stx_npy_format(const struct stx_host *h, struct stx_bytes *out, struct stx_diag *d)
{
	enum stx_dtype t = h->t.dtype;
	static const char kinds[] = { [STX_KIND_BOOL] = 'b',
				      [STX_KIND_UINT] = 'u',
				      [STX_KIND_INT] = 'i',
				      [STX_KIND_FLOAT] = 'f' };
	int bytes = stx_dtype_bytes(t);
	char kind = t == STX_BF16 || t >= STX_F8E4M3FN ? 'V' : kinds[stx_dtype_kind(t)];
	struct stx_bytes head = { 0 };
	stx_bytes_printf(&head, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (",
			 bytes == 1 ? '|' : '<', kind, bytes);
	for (int i = 0; i < h->t.rank; i++)
		stx_bytes_printf(&head, i ? ", %lld" : "%lld", (long long)h->t.sizes[i]);
	stx_bytes_puts(&head, h->t.rank == 1 ? ",), }" : "), }");
	while ((10 + head.n + 1) % 64 && !head.oom)
		stx_bytes_u8(&head, ' ');
	stx_bytes_u8(&head, '\n');
	stx_bytes_put(out, "\x93NUMPY\x01\x00", 8);
	stx_bytes_u8(out, (uint8_t)head.n);
	stx_bytes_u8(out, (uint8_t)(head.n >> 8));
	stx_bytes_put(out, head.at, head.n);
	stx_bytes_put(out, h->t.data, h->bytes);
	int oom = head.oom || out->oom;
	stx_bytes_free(&head);
	return oom ? stx_fail(d, STX_E_NOMEM, "npy", "", "out of memory") : STX_E_OK;
}

/* ---- files ---- */

stx_err stx_file_read(const char *path, size_t max, struct stx_bytes *out, struct stx_diag *d)
{
	struct stat st;
	stx_err e = STX_E_IO;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st)) {
		e = stx_fail(d, errno == ENOENT || errno == ENOTDIR ? STX_E_NOT_FOUND : STX_E_IO,
			     "file", "", "%s: %s", path, strerror(errno));
		goto end;
	}
	if (S_ISDIR(st.st_mode)) {
		e = stx_fail(d, STX_E_USAGE, "file", "", "%s is a folder, a file is expected",
			     path);
		goto end;
	}
	/* A pipe or a device need not end. */
	if (!S_ISREG(st.st_mode) && max > STREAM_MAX)
		max = STREAM_MAX;
	if (st.st_size > 0 && (uint64_t)st.st_size > max) {
		e = stx_fail(d, STX_E_TOO_LARGE, "file", "", "%s: over the limit of %zu bytes",
			     path, max);
		goto end;
	}
	for (;;) {
		size_t want = st.st_size > (off_t)out->n ? (size_t)st.st_size - out->n + 1 : 65536;
		if (stx_bytes_reserve(out, want)) {
			e = stx_fail(d, STX_E_NOMEM, "file", "", "%s: out of memory", path);
			goto end;
		}
		ssize_t r = read(fd, out->at + out->n, want);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0) {
			stx_fail(d, STX_E_IO, "file", "", "%s: %s", path, strerror(errno));
			goto end;
		}
		if (r == 0)
			break;
		out->n += (size_t)r;
		if (out->n > max) { /* a pipe, or a file that grows */
			e = stx_fail(d, STX_E_TOO_LARGE, "file", "",
				     "%s: over the limit of %zu bytes", path, max);
			goto end;
		}
	}
	e = STX_E_OK;
end:
	if (e)
		stx_diag_at(d, "%s", path);
	if (fd >= 0)
		close(fd);
	return e;
}

stx_err stx_file_write(const char *path, struct stx_span bytes, struct stx_diag *d)
{
	char temp[4096];
	if ((size_t)snprintf(temp, sizeof temp, "%s.XXXXXX", path) >= sizeof temp)
		return stx_fail(d, STX_E_USAGE, "file", "", "the path is too long");
	int fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return stx_fail(d, STX_E_USAGE, "file", "", "%s: %s", path, strerror(errno));
	size_t done = 0;
	while (done < bytes.n) {
		ssize_t w = write(fd, bytes.at + done, bytes.n - done);
		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			break;
		done += (size_t)w;
	}
	mode_t mask = umask(0);
	umask(mask);
	int failed = done < bytes.n || fchmod(fd, 0666 & ~mask);
	if (close(fd) || failed || rename(temp, path)) {
		stx_fail(d, STX_E_USAGE, "file", "", "%s: %s", path, strerror(errno));
		unlink(temp);
		return STX_E_USAGE;
	}
	return STX_E_OK;
}
