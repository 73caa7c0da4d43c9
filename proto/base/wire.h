/* wire.h
 * protobuf wire format over borrowed memory: a reader and a writer of fields, and the scan that a
 * message from outside must pass before protobuf-c unpacks it. No recursion, nothing allocated but
 * by the writer. */
#ifndef STX_WIRE_H
#define STX_WIRE_H

#include "bytes.h"
#include "status.h"

struct stx_wire {
	const uint8_t *at, *end;
};
struct stx_field {
	uint32_t number, type; /* wire types 0 varint, 1 fixed64, 2 bytes, 5 fixed32 */
	uint64_t value;        /* types 0, 1, 5 */
	struct stx_span bytes; /* type 2 */
	struct stx_span whole; /* tag included, for copying */
};

static inline struct stx_wire stx_wire_of(struct stx_span s)
{
	return (struct stx_wire){ s.at, s.n ? s.at + s.n : s.at }; /* NULL + 0 is not defined */
}
/* 1 and *f, 0 at the end, -1 when malformed. */
int stx_wire_next(struct stx_wire *w, struct stx_field *f);
/* A varint at *w; 0, or -1 when malformed. */
int stx_wire_varint(struct stx_wire *w, uint64_t *out);

void stx_wire_put_varint(struct stx_bytes *b, uint64_t v);
void stx_wire_put_bytes(struct stx_bytes *b, uint32_t number, struct stx_span s);
void stx_wire_put_uint(struct stx_bytes *b, uint32_t number, uint64_t v);

/* What unpacking may cost. protobuf-c recurses once a level and allocates for every field: 64 MiB
 * of small fields cost it gigabytes, 10,000 levels its stack. */
struct stx_wire_limits {
	uint32_t depth;    /* messages inside each other, the outermost counted; 64 at most */
	uint64_t fields;   /* in all messages together; 16 bytes of a packed list count as one */
	int one_of_oneofs; /* 1: a message may carry one member of a oneof, once */
};
struct ProtobufCMessageDescriptor;
/* Walks a message of that type without unpacking it: well-formed lengths, no zero bytes in texts
 * (a name would be taken for its beginning), and the limits.
 * Length-delimited fields are entered only where the schema makes them messages. INVALID or
 * TOO_LARGE, with the byte. */
stx_err stx_wire_scan(struct stx_span message, const struct ProtobufCMessageDescriptor *type,
		      const struct stx_wire_limits *limits, const char *stage, struct stx_diag *d);

#endif
