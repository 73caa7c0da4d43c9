/* wire.c: protobuf wire format, field by field. */
#include "wire.h"

int stx_wire_varint(struct stx_wire *w, uint64_t *out)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		if (w->at == w->end)
			return -1;
		uint8_t b = *w->at++;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80)) {
			*out = v;
			return 0;
		}
	}
	return -1;
}

int stx_wire_next(struct stx_wire *w, struct stx_field *f)
{
	uint64_t tag, n;
	const uint8_t *start = w->at;
	if (w->at == w->end)
		return 0;
	if (stx_wire_varint(w, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
		return -1;
	*f = (struct stx_field){ .number = (uint32_t)(tag >> 3), .type = tag & 7 };
	size_t left = (size_t)(w->end - w->at);
	switch (f->type) {
	case 0:
		if (stx_wire_varint(w, &f->value))
			return -1;
		break;
	case 1:
		if (left < 8)
			return -1;
		f->value = stx_load_u64(w->at);
		w->at += 8;
		break;
	case 5:
		if (left < 4)
			return -1;
		f->value = stx_load_u32(w->at);
		w->at += 4;
		break;
	case 2:
		if (stx_wire_varint(w, &n) || n > (size_t)(w->end - w->at))
			return -1;
		f->bytes = (struct stx_span){ w->at, (size_t)n };
		w->at += n;
		break;
	default: /* groups are not used by the schemas read here */ return -1;
	}
	f->whole = (struct stx_span){ start, (size_t)(w->at - start) };
	return 1;
}

void stx_wire_put_varint(struct stx_bytes *b, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		stx_bytes_u8(b, (uint8_t)(v | 0x80));
	stx_bytes_u8(b, (uint8_t)v);
}

void stx_wire_put_bytes(struct stx_bytes *b, uint32_t number, struct stx_span s)
{
	stx_wire_put_varint(b, (uint64_t)number << 3 | 2);
	stx_wire_put_varint(b, s.n);
	stx_bytes_put(b, s.at, s.n);
}

void stx_wire_put_uint(struct stx_bytes *b, uint32_t number, uint64_t v)
{
	stx_wire_put_varint(b, (uint64_t)number << 3);
	stx_wire_put_varint(b, v);
}
