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
#include "wire.h"

/* What a TensorProto says, payloads as found. */
struct proto {
	int type, external, rank, raw_set;
	int64_t sizes[STX_MAX_RANK];
	struct stx_span whole, raw;
	struct stx_span location; /* external data */
	uint64_t offset, length;
	int length_set;
	char name[96];
};

static void copy_name(char out[96], struct stx_span s)
{
	size_t n = s.n < 95 ? s.n : 95;
	if (n)
		memcpy(out, s.at, n);
	out[n] = 0;
}

static int add_dim(struct proto *p, uint64_t v)
{
	if (p->rank == STX_MAX_RANK)
		return -1;
	p->sizes[p->rank++] = (int64_t)v;
	return 0;
}

static int read_number(struct stx_span s, uint64_t *out)
{
	*out = 0;
	for (size_t i = 0; i < s.n; i++)
		if (s.at[i] < '0' || s.at[i] > '9' || __builtin_mul_overflow(*out, 10u, out) ||
		    __builtin_add_overflow(*out, (uint64_t)(s.at[i] - '0'), out))
			return -1;
	return s.n ? 0 : -1;
}

/* One key and value of external_data. */
static int read_entry(struct proto *p, struct stx_span s)
{
	struct stx_wire w = stx_wire_of(s);
	struct stx_field f;
	struct stx_span key = { NULL, 0 }, value = { NULL, 0 };
	int r;
	while ((r = stx_wire_next(&w, &f)) > 0) {
		if (f.number == 1 && f.type == 2)
			key = f.bytes;
		if (f.number == 2 && f.type == 2)
			value = f.bytes;
	}
	if (r)
		return -1;
	if (key.n == 8 && !memcmp(key.at, "location", 8))
		p->location = value;
	else if (key.n == 6 && !memcmp(key.at, "offset", 6))
		return read_number(value, &p->offset);
	else if (key.n == 6 && !memcmp(key.at, "length", 6)) {
		p->length_set = 1;
		return read_number(value, &p->length);
	}
	return 0;
}

static int read_proto(struct stx_span s, struct proto *p)
{
	struct stx_wire w = stx_wire_of(s);
	struct stx_field f;
	int r, bad = 0;
	memset(p, 0, sizeof *p);
	p->whole = s;
	while (!bad && (r = stx_wire_next(&w, &f)) > 0) {
		struct stx_wire packed = stx_wire_of(f.bytes);
		uint64_t v;
		switch (f.number) {
		case 1:
			if (f.type == 0)
				bad = add_dim(p, f.value);
			while (f.type == 2 && !bad && packed.at < packed.end)
				bad = stx_wire_varint(&packed, &v) || add_dim(p, v);
			break;
		case 2: p->type = f.type == 0 && f.value < INT32_MAX ? (int)f.value : -1; break;
		case 8: copy_name(p->name, f.bytes); break;
		case 9:
			p->raw = f.bytes;
			p->raw_set = f.type == 2;
			break;
		case 13: bad = f.type != 2 || read_entry(p, f.bytes); break;
		case 14: p->external = f.type == 0 && f.value == 1; break;
		default: break;
		}
	}
	return bad || r < 0 ? -1 : 0;
}

/* ---- typed payloads ---- */

struct sink {
	uint8_t *at;
	size_t bytes, elems, have; /* have may pass elems: then it is an error */
};

static void put_value(struct sink *s, uint64_t v)
{
	if (s->have < s->elems)
		memcpy(s->at + s->have * s->bytes, &v, s->bytes); /* little-endian: low bytes */
	s->have++;
}

/* Field number and wire width (0: varint) of the list that holds a type. */
static uint32_t field_of(enum stx_dtype t, int *width)
{
	*width = t == STX_F32 ? 4 : t == STX_F64 ? 8 : 0;
	switch (t) {
	case STX_F32: return 4;
	case STX_F64: return 10;
	case STX_I64: return 7;
	case STX_U32:
	case STX_U64: return 11;
	default: return 5;
	}
}

static int read_list(const struct proto *p, struct sink *out)
{
	int width, r;
	uint32_t number = field_of(stx_onnx_dtype(p->type), &width);
	struct stx_wire w = stx_wire_of(p->whole);
	struct stx_field f;
	while ((r = stx_wire_next(&w, &f)) > 0) {
		if (f.number != number)
			continue;
		if (f.type != 2) {
			put_value(out, f.value);
			continue;
		}
		struct stx_wire v = stx_wire_of(f.bytes);
		uint64_t x;
		if (width && f.bytes.n % (size_t)width)
			return -1;
		while (v.at < v.end) {
			if (width) {
				x = width == 4 ? stx_load_u32(v.at) : stx_load_u64(v.at);
				v.at += width;
			} else if (stx_wire_varint(&v, &x)) {
				return -1;
			}
			put_value(out, x);
		}
	}
	return r;
}

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
		stx_fail(d, STX_E_NOT_FOUND, "onnx", "", "external data '%s': %s", path,
			 strerror(errno));
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
	if (!dir || p->location.n == 0 || p->location.n >= sizeof path ||
	    memchr(p->location.at, 0, p->location.n))
		return stx_fail(d, STX_E_INVALID, "onnx", p->name,
				"tensor '%s': its external data is not "
				"named, or not allowed here",
				p->name);
	memcpy(path, p->location.at, p->location.n);
	path[p->location.n] = 0;
	if (p->length_set && p->length != n)
		return stx_fail(d, STX_E_INVALID, "onnx", p->name,
				"tensor '%s': external length %llu, the "
				"shape needs %zu",
				p->name, (unsigned long long)p->length, n);
	int fd = open_below(dir, path, d);
	if (fd < 0)
		return d ? d->code : STX_E_IO;
	stx_err e = STX_E_OK;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || p->offset > (uint64_t)st.st_size ||
	    n > (uint64_t)st.st_size - p->offset)
		e = stx_fail(d, STX_E_INVALID, "onnx", p->name,
			     "tensor '%s': the external file is too short "
			     "or not a regular file",
			     p->name);
	for (size_t done = 0; !e && out && done < n;) {
		ssize_t r = pread(fd, out + done, n - done, (off_t)(p->offset + done));
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
	if (p->external)
		return read_external(p, dir, NULL, bytes, d);
	if (p->raw_set)
		return p->raw.n == bytes
			       ? STX_E_OK
			       : malformed(p, "its raw data does not have the shape's size", d);
	/* Every element of a list takes at least one byte. */
	return elems <= p->whole.n ? STX_E_OK
				   : malformed(p, "it has fewer elements than its shape", d);
}

stx_err stx_onnx_tensor(struct stx_span s, const char *dir, struct stx_host *out,
			struct stx_diag *d)
{
	struct proto p;
	memset(out, 0, sizeof *out);
	if (read_proto(s, &p))
		return malformed(&p, "malformed, or its rank is too large", d);
	enum stx_dtype t = stx_onnx_dtype(p.type);
	if (t == STX_DTYPE_NONE)
		return stx_fail(d, STX_E_UNSUPPORTED, "import", p.name, "tensor '%s': dtype %s",
				p.name, stx_onnx_type_name(p.type));
	int64_t elems = stx_host_elems(p.sizes, p.rank), bytes;
	if (elems < 0 || __builtin_mul_overflow(elems, (int64_t)stx_dtype_bytes(t), &bytes))
		return malformed(&p, "its shape is negative or overflows", d);
	stx_err e = check_payload(&p, dir, (size_t)elems, (size_t)bytes, d);
	if (e || (e = stx_host_new(out, t, p.rank, p.sizes, d)))
		return e;
	if (p.external) {
		e = read_external(&p, dir, out->t.data, out->bytes, d);
	} else if (p.raw_set) {
		if (out->bytes)
			memcpy(out->t.data, p.raw.at, out->bytes);
	} else {
		struct sink sink = { out->t.data, (size_t)stx_dtype_bytes(t), (size_t)elems, 0 };
		if (read_list(&p, &sink) || sink.have != sink.elems)
			e = malformed(&p, "its data does not have the shape's size", d);
	}
	if (!e && t == STX_BOOL)
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
