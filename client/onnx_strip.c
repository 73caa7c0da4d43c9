/* onnx_strip.c: rewrites ModelProto.graph.initializer on the wire format, without unpacking the
 * model. */
#include "onnx_strip.h"

#include "onnx_types.h"
#include "wire.h"

/* Field numbers of onnx.proto. */
enum { MODEL_GRAPH = 7, GRAPH_INITIALIZER = 5 };
enum {
	TENSOR_DIMS = 1,
	TENSOR_DATA_TYPE = 2,
	TENSOR_FLOAT_DATA = 4,
	TENSOR_INT32_DATA = 5,
	TENSOR_INT64_DATA = 7,
	TENSOR_RAW_DATA = 9,
	TENSOR_DOUBLE_DATA = 10,
	TENSOR_UINT64_DATA = 11,
	TENSOR_EXTERNAL_DATA = 13,
	TENSOR_DATA_LOCATION = 14
};

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

struct tensor_info {
	uint64_t elements;
	enum stx_dtype dtype;
	int external;
};

static void multiply_dim(struct tensor_info *t, uint64_t dim)
{
	if (__builtin_mul_overflow(t->elements, dim, &t->elements))
		t->elements = UINT64_MAX;
}

static int scan_tensor(struct stx_span tensor, struct tensor_info *t)
{
	struct stx_wire w = stx_wire_of(tensor);
	struct stx_field f;
	int r;
	*t = (struct tensor_info){ .elements = 1, .dtype = STX_DTYPE_NONE };
	while ((r = stx_wire_next(&w, &f)) > 0) {
		struct stx_wire packed = stx_wire_of(f.bytes);
		if (f.number == TENSOR_DATA_TYPE && f.type == 0)
			t->dtype = stx_onnx_dtype(f.value < INT32_MAX ? (int)f.value : -1);
		if (f.number == TENSOR_EXTERNAL_DATA)
			t->external = 1;
		if (f.number == TENSOR_DIMS && f.type == 0)
			multiply_dim(t, f.value);
		while (f.number == TENSOR_DIMS && packed.at < packed.end) {
			uint64_t dim;
			if (stx_wire_varint(&packed, &dim))
				return 0;
			multiply_dim(t, dim);
		}
	}
	return r == 0;
}

static int becomes_parameter(const struct tensor_info *t)
{
	return t->dtype != STX_DTYPE_NONE &&
	       (t->external || stx_onnx_is_parameter(t->dtype, t->elements));
}

static int strip_tensor(struct stx_span tensor, struct stx_bytes *out)
{
	struct stx_wire w = stx_wire_of(tensor);
	struct tensor_info t;
	struct stx_field f;
	int r;
	if (!scan_tensor(tensor, &t))
		return 0;
	if (!becomes_parameter(&t)) {
		stx_bytes_put(out, tensor.at, tensor.n);
		return 1;
	}
	while ((r = stx_wire_next(&w, &f)) > 0)
		if (!is_payload(f.number))
			stx_bytes_put(out, f.whole.at, f.whole.n);
	return r == 0;
}

/* Copies a message, rewriting its length-delimited fields of one number. */
static int rewrite(struct stx_span message, uint32_t number,
		   int (*fn)(struct stx_span, struct stx_bytes *), struct stx_bytes *out)
{
	struct stx_wire w = stx_wire_of(message);
	struct stx_field f;
	int r;
	while ((r = stx_wire_next(&w, &f)) > 0) {
		if (f.number != number || f.type != 2) {
			stx_bytes_put(out, f.whole.at, f.whole.n);
			continue;
		}
		struct stx_bytes body = { 0 };
		int ok = fn(f.bytes, &body);
		if (ok)
			stx_wire_put_bytes(out, number, (struct stx_span){ body.at, body.n });
		out->oom |= body.oom;
		stx_bytes_free(&body);
		if (!ok)
			return 0;
	}
	return r == 0;
}

static int strip_graph(struct stx_span graph, struct stx_bytes *out)
{
	return rewrite(graph, GRAPH_INITIALIZER, strip_tensor, out);
}

stx_err stx_onnx_strip(struct stx_span model, struct stx_bytes *out, struct stx_diag *d)
{
	if (!rewrite(model, MODEL_GRAPH, strip_graph, out))
		return stx_fail(d, STX_E_INVALID, "client", NULL,
				"not a readable ONNX model: malformed protobuf");
	return out->oom ? stx_fail(d, STX_E_NOMEM, "client", NULL, "out of memory") : STX_E_OK;
}
