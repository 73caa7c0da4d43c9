/* frame.c: frame prefixes, packing, the pre-scan and unpacking of envelopes, error <-> diag. */
#include "frame.h"

#include <stdio.h>
#include <stdlib.h>

stx_err stx_frame_prefix(const uint8_t prefix[STX_FRAME_PREFIX], uint32_t *header_bytes,
			 uint32_t *body_bytes, struct stx_diag *d)
{
	uint32_t header = stx_load_u32(prefix), body = stx_load_u32(prefix + 4);
	if (header > STX_FRAME_HEADER_MAX)
		return stx_fail(d, STX_E_PROTOCOL, "frame", "",
				"a header of %u bytes is larger than the limit of %u bytes", header,
				STX_FRAME_HEADER_MAX);
	if (header == 0)
		return stx_fail(d, STX_E_PROTOCOL, "frame", "", "an empty header");
	if (body > STX_FRAME_BODY_MAX)
		return stx_fail(d, STX_E_PROTOCOL, "frame", "",
				"a body of %u bytes is larger than the limit of %u bytes", body,
				STX_FRAME_BODY_MAX);
	*header_bytes = header;
	*body_bytes = body;
	return STX_E_OK;
}

/* ---- packing ---- */

stx_err stx_frame_pack(const Stx__Envelope *e, uint32_t body_bytes, struct stx_bytes *out)
{
	size_t n = stx__envelope__get_packed_size(e);
	if (n > STX_FRAME_HEADER_MAX || body_bytes > STX_FRAME_BODY_MAX)
		return STX_E_TOO_LARGE;
	if (stx_bytes_reserve(out, STX_FRAME_PREFIX + n))
		return STX_E_NOMEM;
	stx_bytes_u32(out, (uint32_t)n);
	stx_bytes_u32(out, body_bytes);
	stx__envelope__pack(e, out->at + out->n);
	out->n += n;
	return STX_E_OK;
}

stx_err stx_frame_pack_reply(const Stx__Envelope *e, uint32_t body_bytes, struct stx_bytes *out)
{
	size_t n = stx__envelope__get_packed_size(e);
	if (n <= STX_FRAME_HEADER_MAX)
		return stx_frame_pack(e, body_bytes, out);
	if (n > STX_FRAME_SPILL_MAX || body_bytes > STX_FRAME_BODY_MAX - n)
		return STX_E_TOO_LARGE;
	Stx__Spill spill = STX__SPILL__INIT;
	spill.envelope_bytes = (uint32_t)n;
	Stx__Envelope head = STX__ENVELOPE__INIT;
	head.request_id = e->request_id;
	head.msg_case = STX__ENVELOPE__MSG_SPILL;
	head.spill = &spill;
	stx_err err = stx_frame_pack(&head, body_bytes + (uint32_t)n, out);
	if (err)
		return err;
	if (stx_bytes_reserve(out, n))
		return STX_E_NOMEM;
	stx__envelope__pack(e, out->at + out->n);
	out->n += n;
	return STX_E_OK;
}

/* ---- pre-scan ---- */

struct scan {
	const uint8_t *at, *end; /* of the innermost message being read */
	uint64_t value;          /* last varint */
};

/* 0, or -1 when the varint is cut off or longer than ten bytes. */
static int read_varint(struct scan *s)
{
	s->value = 0;
	for (unsigned shift = 0; shift < 70; shift += 7) {
		if (s->at == s->end)
			return -1;
		uint8_t b = *s->at++;
		if (shift < 64)
			s->value |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return 0;
	}
	return -1;
}

static stx_err malformed(struct stx_diag *d, const char *what, const uint8_t *at,
			 struct stx_span header)
{
	stx_fail(d, STX_E_PROTOCOL, "frame", "", "malformed header: %s", what);
	stx_diag_at(d, "byte %zu", (size_t)(at - header.at));
	return STX_E_PROTOCOL;
}

static int is_oneof(const ProtobufCFieldDescriptor *f)
{
	return f && (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF);
}

/* Requires: nothing of the bytes. Ensures: what protobuf-c will allocate is bounded by the field
 * count and by the length. Terminates: every turn consumes a byte or leaves a message. */
static stx_err prescan(struct stx_span header, uint32_t fields_max, struct stx_diag *d)
{
	struct {
		const uint8_t *end;
		const ProtobufCMessageDescriptor *type;
		int members; /* of oneofs, seen in this message */
	} stack[STX_FRAME_DEPTH_MAX];
	struct scan s = { .at = header.at, .end = header.at + header.n };
	uint32_t fields = 0;
	unsigned depth = 0;
	stack[0].end = s.end;
	stack[0].type = &stx__envelope__descriptor;
	stack[0].members = 0;
	for (;;) {
		if (s.at == s.end) {
			if (depth == 0)
				return STX_E_OK;
			s.end = stack[--depth].end;
			continue;
		}
		const uint8_t *start = s.at;
		if (++fields > fields_max)
			return stx_fail(d, STX_E_PROTOCOL, "frame", "",
					"a header with more than %u fields", fields_max);
		if (read_varint(&s) || s.value > UINT32_MAX || s.value >> 3 == 0)
			return malformed(d, "bad field tag", start, header);
		unsigned wire = s.value & 7;
		const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(
			stack[depth].type, (unsigned)(s.value >> 3));
		if (is_oneof(f) && ++stack[depth].members > 1)
			return malformed(d, "more than one message in the envelope", start, header);
		if (wire == 0) {
			if (read_varint(&s))
				return malformed(d, "bad number", start, header);
		} else if (wire == 1 || wire == 5) {
			size_t n = wire == 1 ? 8 : 4;
			if ((size_t)(s.end - s.at) < n)
				return malformed(d, "cut off", start, header);
			s.at += n;
		} else if (wire == 2) {
			if (read_varint(&s) || s.value > (uint64_t)(s.end - s.at))
				return malformed(d, "a length beyond the end", start, header);
			if (!f || f->type != PROTOBUF_C_TYPE_MESSAGE) {
				s.at += s.value;
				continue;
			}
			if (depth + 1 >= STX_FRAME_DEPTH_MAX)
				return stx_fail(d, STX_E_PROTOCOL, "frame", "",
						"messages nested deeper than %u",
						STX_FRAME_DEPTH_MAX);
			s.end = s.at + s.value;
			depth++;
			stack[depth].end = s.end;
			stack[depth].type = f->descriptor;
			stack[depth].members = 0;
		} else {
			return malformed(d, "a group or an unknown wire type", start, header);
		}
	}
}

stx_err stx_frame_prescan(struct stx_span header, struct stx_diag *d)
{
	return prescan(header, STX_FRAME_FIELDS_MAX, d);
}

stx_err stx_frame_prescan_spilled(struct stx_span envelope, struct stx_diag *d)
{
	if (envelope.n > STX_FRAME_SPILL_MAX)
		return stx_fail(
			d, STX_E_PROTOCOL, "frame", "",
			"a spilled envelope of %zu bytes is larger than the limit of %u bytes",
			envelope.n, STX_FRAME_SPILL_MAX);
	return prescan(envelope, STX_FRAME_SPILL_FIELDS_MAX, d);
}

/* ---- unpacking ---- */

/* header has passed the pre-scan. */
static stx_err unpack(struct stx_span header, Stx__Envelope **out, struct stx_diag *d)
{
	*out = stx__envelope__unpack(NULL, header.n, header.at);
	if (!*out)
		return stx_fail(d, STX_E_PROTOCOL, "frame", "",
				"the header is not a valid Envelope");
	return STX_E_OK;
}

stx_err stx_frame_unpack(struct stx_span header, Stx__Envelope **out, struct stx_diag *d)
{
	*out = NULL;
	stx_err e = stx_frame_prescan(header, d);
	return e ? e : unpack(header, out, d);
}

stx_err stx_frame_unpack_reply(struct stx_span header, struct stx_span body, Stx__Envelope **out,
			       size_t *body_off, struct stx_diag *d)
{
	*body_off = 0;
	stx_err e = stx_frame_unpack(header, out, d);
	if (e || !*out || (*out)->msg_case != STX__ENVELOPE__MSG_SPILL)
		return e;
	uint64_t id = (*out)->request_id;
	size_t n = (*out)->spill->envelope_bytes;
	stx__envelope__free_unpacked(*out, NULL);
	*out = NULL;
	if (n > body.n)
		return stx_fail(d, STX_E_PROTOCOL, "frame", "",
				"a spilled envelope beyond the body");
	struct stx_span envelope = { body.at, n };
	e = stx_frame_prescan_spilled(envelope, d);
	if (!e)
		e = unpack(envelope, out, d);
	if (e || !*out)
		return e;
	if ((*out)->msg_case == STX__ENVELOPE__MSG_SPILL || (*out)->request_id != id) {
		stx__envelope__free_unpacked(*out, NULL);
		*out = NULL;
		return stx_fail(d, STX_E_PROTOCOL, "frame", "",
				"a spilled envelope that contradicts its header");
	}
	*body_off = n;
	return STX_E_OK;
}

/* ---- errors ---- */

void stx_error_from_diag(Stx__Error *e, const struct stx_diag *d)
{
	stx__error__init(e);
	e->code = d->code;
	e->stage = (char *)d->stage;
	e->node = (char *)d->node;
	e->location = (char *)d->location;
	e->text = (char *)d->text;
}

/* A code this build does not know, or 0, becomes INTERNAL: an Error is never a success. */
void stx_error_to_diag(const Stx__Error *e, struct stx_diag *d)
{
	stx_diag_clear(d);
	d->code = e->code < 0 && stx_err_is_known(e->code) ? e->code : STX_E_INTERNAL;
	snprintf(d->stage, sizeof d->stage, "%s", e->stage);
	snprintf(d->node, sizeof d->node, "%s", e->node);
	snprintf(d->location, sizeof d->location, "%s", e->location);
	snprintf(d->text, sizeof d->text, "%s", e->text);
}
