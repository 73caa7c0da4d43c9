/* frame.h
 * frames on a byte stream: lengths, a small Envelope, a raw body; the pre-scan that guards
 * unpacking. */
#ifndef STX_FRAME_H
#define STX_FRAME_H

#include "bytes.h"
#include "stax.pb-c.h"
#include "status.h"

#define STX_FRAME_HEADER_MAX       (64u << 10)
#define STX_FRAME_BODY_MAX         (64u << 20)
#define STX_FRAME_PREFIX           8u    /* two u32 */
#define STX_FRAME_FIELDS_MAX       4096u /* fields in a request's header, nested ones included */
#define STX_FRAME_DEPTH_MAX        4u    /* messages inside each other, the Envelope counted */
#define STX_FRAME_SPILL_MAX        (8u << 20) /* an envelope that travels in the body of a reply */
#define STX_FRAME_SPILL_FIELDS_MAX (1u << 18)
#define STX_PROTOCOL_VERSION       1u

/* Checks a prefix: sizes within limits. PROTOCOL with text naming the limit otherwise. */
stx_err stx_frame_prefix(const uint8_t prefix[STX_FRAME_PREFIX], uint32_t *header_bytes,
			 uint32_t *body_bytes, struct stx_diag *d);
/* Appends prefix and packed envelope (not the body) to out. TOO_LARGE when the envelope does not
 * fit a header: requests then are refused, replies use stx_frame_pack_reply. */
stx_err stx_frame_pack(const Stx__Envelope *e, uint32_t body_bytes, struct stx_bytes *out);
/* The same for replies: an envelope larger than a header spills, so that out ends with the
 * first bytes of the body. The caller appends body_bytes of body proper in either case. */
stx_err stx_frame_pack_reply(const Stx__Envelope *e, uint32_t body_bytes, struct stx_bytes *out);
/* Pre-scans and unpacks a header. The result is freed by stx__envelope__free_unpacked(e, NULL). */
stx_err stx_frame_unpack(struct stx_span header, Stx__Envelope **out, struct stx_diag *d);
/* For receivers of replies: the envelope is in the header, or in the first *body_off bytes of the
 * body (0 when it did not spill). */
stx_err stx_frame_unpack_reply(struct stx_span header, struct stx_span body, Stx__Envelope **out,
			       size_t *body_off, struct stx_diag *d);
/* stx_wire_scan with the limits of headers: one message at most in the Envelope. PROTOCOL when
 * refused. */
stx_err stx_frame_prescan(struct stx_span header, struct stx_diag *d);
/* The same with the limits of spilled envelopes. */
stx_err stx_frame_prescan_spilled(struct stx_span envelope, struct stx_diag *d);

/* Error <-> diag. The strings point into d. */
void stx_error_from_diag(Stx__Error *e, const struct stx_diag *d);
void stx_error_to_diag(const Stx__Error *e, struct stx_diag *d);

#endif
