/* fuzz_frame.c: frame headers: prefix, pre-scan, unpack, and packing again what was unpacked. */
#include <stdlib.h>

#include "frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct stx_diag d = { 0 };
	uint32_t header, body;
	if (n >= STX_FRAME_PREFIX)
		(void)stx_frame_prefix(data, &header, &body, &d);
	Stx__Envelope *e = NULL;
	stx_diag_clear(&d);
	if (stx_frame_unpack((struct stx_span){ data, n }, &e, &d))
		return 0;
	struct stx_bytes out = { 0 };
	if (!stx_frame_pack(e, 0, &out)) {
		Stx__Envelope *again = NULL;
		struct stx_span header_bytes = { out.at + STX_FRAME_PREFIX,
						 out.n - STX_FRAME_PREFIX };
		if (stx_frame_unpack(header_bytes, &again, &d))
			abort(); /* what we pack must be readable */
		stx__envelope__free_unpacked(again, NULL);
	}
	stx_bytes_free(&out);
	stx__envelope__free_unpacked(e, NULL);
	return 0;
}
