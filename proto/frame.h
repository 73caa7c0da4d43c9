/* frame.h
 * frames on a byte stream: lengths, a small Envelope, a raw body; the pre-scan that guards unpacking. */
#ifndef STX_FRAME_H
#define STX_FRAME_H

#include "bytes.h"
#include "stax.pb-c.h"
#include "status.h"

#define STX_FRAME_HEADER_MAX (64u << 10)
#define STX_FRAME_BODY_MAX (64u << 20)
#define STX_FRAME_PREFIX 8u            /* two u32 */
#define STX_FRAME_FIELDS_MAX 4096u     /* fields in one header, nested ones included */
#define STX_FRAME_DEPTH_MAX 4u
#define STX_PROTOCOL_VERSION 1u

/* Checks a prefix: sizes within limits. PROTOCOL with text naming the limit otherwise. */
stx_err stx_frame_prefix(const uint8_t prefix[STX_FRAME_PREFIX], uint32_t *header_bytes,
                         uint32_t *body_bytes, struct stx_diag *d);
/* Appends prefix and packed envelope (not the body) to out. */
stx_err stx_frame_pack(const Stx__Envelope *e, uint32_t body_bytes, struct stx_bytes *out);
/* Pre-scans and unpacks a header. The result is freed by stx__envelope__free_unpacked(e, NULL). */
stx_err stx_frame_unpack(struct stx_span header, Stx__Envelope **out, struct stx_diag *d);
/* Walks wire format without unpacking: well-formed lengths, field count and depth within limits.
 * Length-delimited fields are entered only where `schema` says so. */
stx_err stx_frame_prescan(struct stx_span header, struct stx_diag *d);

/* Error <-> diag. The strings point into d. */
void stx_error_from_diag(Stx__Error *e, const struct stx_diag *d);
void stx_error_to_diag(const Stx__Error *e, struct stx_diag *d);

#endif
