/* wire_scan.c: what unpacking a message would cost, from its wire format and its schema. */
#include "wire.h"

#include <protobuf-c/protobuf-c.h>
#include <string.h>

#define DEPTH_MAX 64

struct level {
	struct stx_wire rest;
	const ProtobufCMessageDescriptor *type;
	int members; /* of oneofs, seen in this message */
};

static int is_fixed(ProtobufCType t)
{
	return t == PROTOBUF_C_TYPE_FIXED32 || t == PROTOBUF_C_TYPE_SFIXED32 ||
	       t == PROTOBUF_C_TYPE_FLOAT || t == PROTOBUF_C_TYPE_FIXED64 ||
	       t == PROTOBUF_C_TYPE_SFIXED64 || t == PROTOBUF_C_TYPE_DOUBLE;
}

/* In fields: packed varints grow up to eight times when unpacked. */
static uint64_t cost(const ProtobufCFieldDescriptor *known, const struct stx_field *f)
{
	int packed = f->type == 2 && known && known->label == PROTOBUF_C_LABEL_REPEATED &&
		     known->type != PROTOBUF_C_TYPE_MESSAGE &&
		     known->type != PROTOBUF_C_TYPE_STRING &&
		     known->type != PROTOBUF_C_TYPE_BYTES && !is_fixed(known->type);
	return packed ? 1 + f->bytes.n / 16 : 1;
}

static stx_err malformed(struct stx_span message, const uint8_t *at, const char *name,
			 const char *what, const char *stage, struct stx_diag *d)
{
	size_t byte = (size_t)(at - message.at);
	stx_fail(d, STX_E_INVALID, stage, "", "not a well-formed %s: %s at byte %zu", name, what,
		 byte);
	stx_diag_at(d, "byte %zu", byte);
	return STX_E_INVALID;
}

/* Requires: nothing of the bytes. Ensures: what protobuf-c will allocate is bounded by the field
 * count and the length. Terminates: every turn consumes a field or leaves a message. */
stx_err stx_wire_scan(struct stx_span message, const ProtobufCMessageDescriptor *type,
		      const struct stx_wire_limits *limits, const char *stage, struct stx_diag *d)
{
	struct level up[DEPTH_MAX];
	uint32_t depth = 0, deepest = limits->depth < DEPTH_MAX ? limits->depth : DEPTH_MAX;
	uint64_t fields = 0;
	up[0] = (struct level){ stx_wire_of(message), type, 0 };
	for (;;) {
		struct level *now = &up[depth];
		struct stx_field f;
		const uint8_t *at = now->rest.at;
		int r = stx_wire_next(&now->rest, &f);
		if (r < 0)
			return malformed(message, at, type->short_name,
					 "a bad tag or a length beyond the end", stage, d);
		if (r == 0 && depth == 0)
			return STX_E_OK;
		if (r == 0) {
			depth--;
			continue;
		}
		const ProtobufCFieldDescriptor *known =
			protobuf_c_message_descriptor_get_field(now->type, f.number);
		fields += cost(known, &f);
		if (fields > limits->fields)
			return stx_fail(d, STX_E_TOO_LARGE, stage, "",
					"the message has more than %llu fields; the "
					"limit keeps memory bounded",
					(unsigned long long)limits->fields);
		if (limits->one_of_oneofs && known &&
		    (known->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) && ++now->members > 1)
			return malformed(message, at, type->short_name,
					 "a second member of a oneof", stage, d);
		if (f.type == 2 && known && known->type == PROTOBUF_C_TYPE_STRING && f.bytes.n &&
		    memchr(f.bytes.at, 0, f.bytes.n))
			return malformed(message, at, type->short_name,
					 "a text with a zero byte, of which a reader would see the "
					 "beginning only,",
					 stage, d);
		if (f.type != 2 || !known || known->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		if (depth + 1 >= deepest)
			return stx_fail(d, STX_E_TOO_LARGE, stage, "",
					"messages are nested more than %u deep", deepest);
		up[++depth] = (struct level){ stx_wire_of(f.bytes), known->descriptor, 0 };
	}
}
