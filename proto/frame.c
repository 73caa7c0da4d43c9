/* frame.c: frame prefixes, packing, the pre-scan and unpacking of envelopes, error <-> diag. */
#include "frame.h"

#include <stdio.h>
#include <stdlib.h>

#include "wire.h"

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

/* Whatever is wrong with an envelope is a breach of the protocol. */
static stx_err prescan(struct stx_span envelope, uint32_t fields_max, struct stx_diag *d)
{
	const struct stx_wire_limits limits = { .depth = STX_FRAME_DEPTH_MAX,
						.fields = fields_max,
						.one_of_oneofs = 1 };
	struct stx_diag why = { 0 };
	if (!stx_wire_scan(envelope, &stx__envelope__descriptor, &limits, "frame", &why))
		return STX_E_OK;
	stx_fail(d, STX_E_PROTOCOL, "frame", "", "%s", why.text);
	if (why.location[0])
		stx_diag_at(d, "%s", why.location);
	return STX_E_PROTOCOL;
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
	*out = NULL;
	/* Thousands of short names fit a header: its length is what bounds a reply's fields. */
	stx_err e = prescan(header, STX_FRAME_SPILL_FIELDS_MAX, d);
	if (!e)
		e = unpack(header, out, d);
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
