/* onnx_tensor.c: TensorProto payloads. A tensor's memory is taken only after its file has proved to
 * hold as many elements as the shape says. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model.h"
#include "onnx_types.h"
#include "onnx_wire.h"

/* A tensor of a file, with its name for messages. */
struct proto {
	struct stx_onnx_tensor t;
	char name[96];
};

/* ---- external data ---- */

/* Opens a relative path below dir, following no link and never leaving dir. */
static int open_below(const char *dir, char *path, struct stx_diag *d)
{
	int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
	char *save = NULL;
	if (path[0] == '/')
		goto refused;
	for (char *part = strtok_r(path, "/", &save); part && at >= 0;) {
		char *next = strtok_r(NULL, "/", &save);
		if (!strcmp(part, "..") || !strcmp(part, "."))
			goto refused;
		fd = openat(at, part,
			    (next ? O_PATH | O_DIRECTORY : O_RDONLY | O_NONBLOCK) | O_NOFOLLOW |
				    O_CLOEXEC);
		close(at);
		at = next ? fd : -1;
		part = next;
	}
	if (fd < 0)
		stx_fail(d, STX_E_NOT_FOUND, "onnx", "", "external data '%s': %s%s", path,
			 strerror(errno),
			 errno == ELOOP || errno == ENOTDIR ? " (links are not followed)" : "");
	return fd;
refused:
	if (at >= 0)
		close(at);
	stx_fail(d, STX_E_INVALID, "onnx", "",
		 "external data must lie in the model's folder: its path may not be absolute or "
		 "contain "
		 "'.' or '..'");
	return -1;
}

/* Reads exactly n bytes of external data. */
static stx_err read_external(const struct proto *p, const char *dir, uint8_t *out, size_t n,
			     struct stx_diag *d)
{
	char path[1024];
	struct stat st;
	if (!dir || p->t.location.n == 0 || p->t.location.n >= sizeof path ||
	    memchr(p->t.location.at, 0, p->t.location.n))
		return stx_fail(d, STX_E_INVALID, "onnx", p->name,
				"tensor '%s': its external data is not "
				"named, or not allowed here",
				p->name);
	memcpy(path, p->t.location.at, p->t.location.n);
	path[p->t.location.n] = 0;
	if (p->t.length_set && p->t.length != n)
		return stx_fail(d, STX_E_INVALID, "onnx", p->name,
				"tensor '%s': external length %llu, the "
				"shape needs %zu",
				p->name, (unsigned long long)p->t.length, n);
	int fd = open_below(dir, path, d);
	if (fd < 0)
		return d ? d->code : STX_E_IO;
	stx_err e = STX_E_OK;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || p->t.offset > (uint64_t)st.st_size ||
	    n > (uint64_t)st.st_size - p->t.offset)
		e = stx_fail(d, STX_E_INVALID, "onnx", p->name,
			     "tensor '%s': external file '%s' is not a regular file, or %zu "
			     "bytes at offset %llu reach beyond its end",
			     p->name, path, n, (unsigned long long)p->t.offset);
	for (size_t done = 0; !e && out && done < n;) {
		ssize_t r = pread(fd, out + done, n - done, (off_t)(p->t.offset + done));
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			e = stx_fail(d, STX_E_IO, "onnx", p->name,
				     "tensor '%s': reading external data: %s", p->name,
				     strerror(errno));
		done += r > 0 ? (size_t)r : 0;
	}
	close(fd);
	return e;
}

/* ---- the whole ---- */

static stx_err malformed(const struct proto *p, const char *what, struct stx_diag *d)
{
	return stx_fail(d, STX_E_INVALID, "onnx", p->name, "tensor '%s': %s", p->name, what);
}

/* Whether the file holds the payload, before memory is taken for it. */
static stx_err check_payload(const struct proto *p, const char *dir, size_t elems, size_t bytes,
			     struct stx_diag *d)
{
	if (p->t.external)
		return read_external(p, dir, NULL, bytes, d);
	if (p->t.raw_set)
		return p->t.raw.n == bytes
			       ? STX_E_OK
			       : malformed(p, "its raw data does not have the shape's size", d);
	/* Every element of a list takes at least one byte. */
	return elems <= p->t.whole.n ? STX_E_OK
				     : malformed(p, "it has fewer elements than its shape", d);
}

stx_err stx_onnx_tensor(struct stx_span s, const char *dir, struct stx_host *out,
			struct stx_diag *d)
{
	struct proto p = { .name = "" };
	const struct stx_onnx_tensor *t = &p.t;
	memset(out, 0, sizeof *out);
	int bad = stx_onnx_tensor_scan(s, &p.t);
	size_t name = t->name.n < sizeof p.name ? t->name.n : sizeof p.name - 1;
	if (name)
		memcpy(p.name, t->name.at, name);
	if (bad || t->rank > STX_MAX_RANK)
		return malformed(&p, "malformed, or its rank is too large", d);
	if (t->dtype == STX_DTYPE_NONE)
		return stx_fail(d, STX_E_UNSUPPORTED, "import", p.name, "tensor '%s': dtype %s",
				p.name, stx_onnx_type_name(t->type));
	int64_t bytes;
	if (t->elements == UINT64_MAX ||
	    __builtin_mul_overflow((int64_t)t->elements, (int64_t)stx_dtype_bytes(t->dtype),
				   &bytes))
		return malformed(&p, "its shape is negative or overflows", d);
	stx_err e = check_payload(&p, dir, (size_t)t->elements, (size_t)bytes, d);
	if (e || (e = stx_host_new(out, t->dtype, (int)t->rank, t->sizes, d)))
		return e;
	if (t->external) {
		e = read_external(&p, dir, out->t.data, out->bytes, d);
	} else if (t->raw_set) {
		if (out->bytes)
			memcpy(out->t.data, t->raw.at, out->bytes);
	} else if (stx_onnx_tensor_list(t, out->t.data)) {
		e = malformed(&p, "its data does not have the shape's size", d);
	}
	if (!e && t->dtype == STX_BOOL)
		for (size_t i = 0; i < out->bytes; i++)
			((uint8_t *)out->t.data)[i] = ((uint8_t *)out->t.data)[i] != 0;
	if (e)
		stx_host_free(out);
	return e;
}

stx_err stx_onnx_tensor_read(const char *path, struct stx_host *out, struct stx_diag *d)
{
	struct stx_bytes b = { 0 };
	memset(out, 0, sizeof *out);
	stx_err e = stx_file_read(path, STX_HOST_BYTES_MAX, &b, d);
	if (!e)
		e = stx_onnx_tensor((struct stx_span){ b.at, b.n }, NULL, out, d);
	if (e)
		stx_diag_at(d, "%s", path);
	stx_bytes_free(&b);
	return e;
}
