/* wire.h
 * protobuf wire format, field by field, over a borrowed piece of memory. */
#ifndef STX_WIRE_H
#define STX_WIRE_H

#include "bytes.h"

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

#endif
