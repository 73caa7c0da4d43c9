/* onnx_strip.c: rewrites ModelProto.graph.initializer on the wire format, without unpacking the model. */
#include "onnx_strip.h"

/* Field numbers of onnx.proto. */
enum { MODEL_GRAPH = 7, GRAPH_INITIALIZER = 5 };
enum { TENSOR_DIMS = 1, TENSOR_DATA_TYPE = 2, TENSOR_FLOAT_DATA = 4, TENSOR_INT32_DATA = 5,
       TENSOR_INT64_DATA = 7, TENSOR_RAW_DATA = 9, TENSOR_DOUBLE_DATA = 10, TENSOR_UINT64_DATA = 11,
       TENSOR_EXTERNAL_DATA = 13, TENSOR_DATA_LOCATION = 14 };

#define FLOAT_LIMIT_BYTES 64
#define OTHER_LIMIT_BYTES 4096

struct field {
	uint32_t number, wire;
	uint64_t value;             /* varints */
	const uint8_t *start, *end; /* the whole field, key included */
	struct stx_span body;       /* length-delimited contents */
};

static int get_varint(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
	*v = 0;
	for (unsigned shift = 0; shift < 64 && *p < end; shift += 7) {
		uint8_t b = *(*p)++;
		*v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return 1;
	}
	return 0;
}

static int next_field(const uint8_t **p, const uint8_t *end, struct field *f)
{
	uint64_t key, n = 0;
	f->start = *p;
	if (!get_varint(p, end, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX)
		return 0;
	f->number = (uint32_t)(key >> 3);
	f->wire = key & 7;
	switch (f->wire) {
	case 0:
		if (!get_varint(p, end, &f->value))
			return 0;
		break;
	case 1: n = 8; break;
	case 5: n = 4; break;
	case 2:
		if (!get_varint(p, end, &n))
			return 0;
		break;
	default: return 0;
	}
	if (n > (uint64_t)(end - *p))
		return 0;
	f->body = (struct stx_span){ *p, (size_t)n };
	*p += n;
	f->end = *p;
	return 1;
}

static void put_varint(struct stx_bytes *out, uint64_t v)
{
	while (v >= 0x80) {
		stx_bytes_u8(out, (uint8_t)(v | 0x80));
		v >>= 7;
	}
	stx_bytes_u8(out, (uint8_t)v);
}

static void put_message(struct stx_bytes *out, uint32_t number, const struct stx_bytes *body)
{
	put_varint(out, (uint64_t)number << 3 | 2);
	put_varint(out, body->n);
	stx_bytes_put(out, body->at, body->n);
}

static int is_payload(uint32_t number)
{
	switch (number) {
	case TENSOR_FLOAT_DATA:
	case TENSOR_INT32_DATA:
	case TENSOR_INT64_DATA:
	case TENSOR_RAW_DATA:
	case TENSOR_DOUBLE_DATA:
	case TENSOR_UINT64_DATA:
	case TENSOR_EXTERNAL_DATA:
	case TENSOR_DATA_LOCATION: return 1;
	default: return 0;
	}
}

/* Bytes of one element by ONNX data type; *is_float for the float types. Sub-byte types count 1. */
static uint64_t element_bytes(uint64_t type, int *is_float)
{
	static const uint8_t bytes[] = { 0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 8, 16, 2, 1, 1, 1, 1 };
	*is_float = type == 1 || type == 10 || type == 11 || (type >= 16 && type <= 20);
	return type < sizeof bytes ? bytes[type] : 1;
}

struct tensor_info {
	uint64_t elements, type;
	int external;
};

static int multiply_dim(struct tensor_info *t, uint64_t dim)
{
	if (__builtin_mul_overflow(t->elements, dim, &t->elements))
		t->elements = UINT64_MAX;
	return 1;
}

static int scan_tensor(struct stx_span tensor, struct tensor_info *t)
{
	const uint8_t *p = tensor.at, *end = p + tensor.n;
	struct field f;
	*t = (struct tensor_info){ .elements = 1 };
	while (p < end) {
		if (!next_field(&p, end, &f))
			return 0;
		if (f.number == TENSOR_DATA_TYPE && f.wire == 0)
			t->type = f.value;
		if (f.number == TENSOR_EXTERNAL_DATA)
			t->external = 1;
		if (f.number == TENSOR_DIMS && f.wire == 0)
			multiply_dim(t, f.value);
		if (f.number == TENSOR_DIMS && f.wire == 2) {
			const uint8_t *q = f.body.at;
			uint64_t dim;
			while (q < f.end)
				if (!get_varint(&q, f.end, &dim) || !multiply_dim(t, dim))
					return 0;
		}
	}
	return 1;
}

static int becomes_parameter(const struct tensor_info *t)
{
	int is_float;
	uint64_t size = element_bytes(t->type, &is_float);
	uint64_t limit = is_float ? FLOAT_LIMIT_BYTES : OTHER_LIMIT_BYTES;
	return size && (t->external || t->elements > limit / size);
}

static int strip_tensor(struct stx_span tensor, struct stx_bytes *out)
{
	struct tensor_info t;
	const uint8_t *p = tensor.at, *end = p + tensor.n;
	struct field f;
	if (!scan_tensor(tensor, &t))
		return 0;
	if (!becomes_parameter(&t)) {
		stx_bytes_put(out, tensor.at, tensor.n);
		return 1;
	}
	while (p < end) {
		if (!next_field(&p, end, &f))
			return 0;
		if (!is_payload(f.number))
			stx_bytes_put(out, f.start, (size_t)(f.end - f.start));
	}
	return 1;
}

/* Copies a message, rewriting its length-delimited fields of one number. */
static int rewrite(struct stx_span message, uint32_t number, int (*fn)(struct stx_span, struct stx_bytes *),
                   struct stx_bytes *out)
{
	const uint8_t *p = message.at, *end = p + message.n;
	struct field f;
	while (p < end) {
		if (!next_field(&p, end, &f))
			return 0;
		if (f.number != number || f.wire != 2) {
			stx_bytes_put(out, f.start, (size_t)(f.end - f.start));
			continue;
		}
		struct stx_bytes body = { 0 };
		int ok = fn(f.body, &body);
		if (ok)
			put_message(out, number, &body);
		out->oom |= body.oom;
		stx_bytes_free(&body);
		if (!ok)
			return 0;
	}
	return 1;
}

static int strip_graph(struct stx_span graph, struct stx_bytes *out)
{
	return rewrite(graph, GRAPH_INITIALIZER, strip_tensor, out);
}

stx_err stx_onnx_strip(struct stx_span model, struct stx_bytes *out, struct stx_diag *d)
{
	if (!rewrite(model, MODEL_GRAPH, strip_graph, out))
		return stx_fail(d, STX_E_INVALID, "client", NULL, "not a well-formed ONNX model (protobuf)");
	return out->oom ? stx_fail(d, STX_E_NOMEM, "client", NULL, "out of memory") : STX_E_OK;
}
