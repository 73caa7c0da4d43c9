/* import.c: dispatch on the form, and the pre-scan that keeps protobuf's unpacking harmless.
 *
 * protobuf-c recurses once a nesting level and allocates for every field; a hostile 64 MiB message costs it
 * gigabytes and the stack. The scan below walks the wire format in constant memory. */
#include "import.h"

#include "onnx_import.h"
#include "passes.h"

#include <string.h>

/* ---- protobuf wire format ---- */

static int read_varint(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
	*v = 0;
	for (int shift = 0; shift < 64 && *p < end; shift += 7) {
		uint8_t b = *(*p)++;
		*v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return 1;
	}
	return 0;
}

#define SCAN_DEPTH 64

struct scan_level {
	const ProtobufCMessageDescriptor *type;
	const uint8_t *end;
};

static int is_varint(ProtobufCType t)
{
	return t != PROTOBUF_C_TYPE_FIXED32 && t != PROTOBUF_C_TYPE_SFIXED32 &&
	       t != PROTOBUF_C_TYPE_FIXED64 && t != PROTOBUF_C_TYPE_SFIXED64 &&
	       t != PROTOBUF_C_TYPE_FLOAT && t != PROTOBUF_C_TYPE_DOUBLE;
}

/* What unpacking a length-delimited field costs, in fields: packed varints grow up to eight times. */
static uint64_t field_cost(const ProtobufCFieldDescriptor *f, uint64_t len)
{
	int packed = f && f->label == PROTOBUF_C_LABEL_REPEATED && f->type != PROTOBUF_C_TYPE_MESSAGE &&
	             f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_BYTES;
	return packed && is_varint(f->type) ? 1 + len / 16 : 1;
}

stx_err stx_proto_prescan(struct stx_span body, const ProtobufCMessageDescriptor *type,
                          uint32_t max_depth, uint64_t max_fields, struct stx_diag *d)
{
	struct scan_level up[SCAN_DEPTH];
	struct scan_level now = { type, body.at + body.n };
	const uint8_t *p = body.at, *at;
	uint32_t depth = 0;
	uint64_t fields = 0, key, len = 0;
	if (max_depth > SCAN_DEPTH)
		max_depth = SCAN_DEPTH;
	for (;;) {
		while (p == now.end) {
			if (depth == 0)
				return STX_E_OK;
			now = up[--depth];
		}
		at = p;
		if (!read_varint(&p, now.end, &key) || key >> 3 == 0)
			goto bad;
		const ProtobufCFieldDescriptor *f =
			protobuf_c_message_descriptor_get_field(now.type, (unsigned)(key >> 3));
		switch (key & 7) {
		case 0:
			if (!read_varint(&p, now.end, &len))
				goto bad;
			len = 0;
			break;
		case 1: len = 8; break;
		case 5: len = 4; break;
		case 2:
			if (!read_varint(&p, now.end, &len))
				goto bad;
			break;
		default: goto bad;
		}
		if (len > (uint64_t)(now.end - p))
			goto bad;
		fields += (key & 7) == 2 ? field_cost(f, len) : 1;
		if (fields > max_fields)
			return stx_fail(d, STX_E_TOO_LARGE, "import", NULL,
			                "the message has more than %llu fields; the limit keeps memory bounded",
			                (unsigned long long)max_fields);
		if ((key & 7) == 2 && f && f->type == PROTOBUF_C_TYPE_MESSAGE) {
			if (depth == max_depth)
				return stx_fail(d, STX_E_TOO_LARGE, "import", NULL,
				                "messages are nested more than %u deep", max_depth);
			up[depth++] = now;
			now = (struct scan_level){ f->descriptor, p + len };
			continue;
		}
		p += len;
	}
bad:
	stx_diag_at(d, "byte %zu", (size_t)(at - body.at));
	return stx_fail(d, STX_E_INVALID, "import", NULL, "not a well-formed %s at byte %zu",
	                type->short_name, (size_t)(at - body.at));
}

static stx_err import_text(struct stx_arena *a, struct stx_span body, struct stx_import_result *out,
                           struct stx_diag *d)
{
	stx_err e = stx_graph_parse(a, (const char *)body.at, body.n, &out->graph, d);
	if (e)
		return e;
	struct stx_graph *g = out->graph;
	out->input_names = STX_NEW_ARRAY(a, const char *, g->inputs.n);
	out->output_names = STX_NEW_ARRAY(a, const char *, g->outputs.n);
	if (!out->input_names || !out->output_names)
		return stx_fail(d, STX_E_TOO_LARGE, "import", NULL, "the graph is over its memory budget");
	for (unsigned i = 0; i < g->inputs.n; i++)
		out->input_names[i] = g->inputs.at[i].node->name;
	for (unsigned i = 0; i < g->outputs.n; i++)
		out->output_names[i] = g->outputs.at[i].name ? g->outputs.at[i].name
		                                             : g->outputs.at[i].val.node->name;
	return STX_E_OK;
}

stx_err stx_import(struct stx_arena *a, enum stx_graph_format f, struct stx_span body,
                   const struct stx_import_options *o, struct stx_import_result *out,
                   struct stx_diag *d)
{
	static const struct stx_import_options none;
	memset(out, 0, sizeof *out);
	if (!o)
		o = &none;
	switch (f) {
	case STX_FORMAT_WIRE: return stx_import_wire(a, body, o, out, d);
	case STX_FORMAT_TEXT: return import_text(a, body, out, d);
	case STX_FORMAT_ONNX: return stx_import_onnx(a, body, o, out, d);
	}
	return stx_fail(d, STX_E_INVALID, "import", NULL, "graph format %d is unknown (1 wire, 2 text, 3 ONNX)",
	                (int)f);
}
