/* onnx_strip.c: rewrites ModelProto.graph.initializer on the wire format, without unpacking the
 * model. */
#include "onnx_strip.h"

#include "onnx_types.h"
#include "onnx_wire.h"
#include "wire.h"

/* Field numbers of onnx.proto. */
enum { MODEL_GRAPH = 7, GRAPH_INITIALIZER = 5 };

static int becomes_parameter(const struct stx_onnx_tensor *t)
{
	return t->dtype != STX_DTYPE_NONE &&
	       (t->external || stx_onnx_is_parameter(t->dtype, t->elements));
}

static int strip_tensor(struct stx_span tensor, struct stx_bytes *out)
{
	struct stx_wire w = stx_wire_of(tensor);
	struct stx_onnx_tensor t;
	struct stx_field f;
	int r;
	if (stx_onnx_tensor_scan(tensor, &t))
		return 0;
	if (!becomes_parameter(&t)) {
		stx_bytes_put(out, tensor.at, tensor.n);
		return 1;
	}
	while ((r = stx_wire_next(&w, &f)) > 0)
		if (!stx_onnx_is_payload(f.number))
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
