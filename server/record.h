/* record.h
 * what the daemon keeps in the store beside contents: memo values, artifact metadata, kernel
 * values. The reply's fields are stored packed: wire format concatenates, so a hit unpacks nothing.
 */
#ifndef STX_RECORD_H
#define STX_RECORD_H

#include "frame.h"
#include "hash.h"
#include "jobs.h"
#include "key.h"

/* stx_option_bits for people. */
void stx__option_text(uint32_t bits, char *out, size_t cap);

/* Memo: what a request resolves to. answer: packed Answer with the names, or with need_values. */
struct stx__memo {
	int need_values;
	struct stx_digest key, graph;
	struct stx_span answer;
};
int stx__memo_encode(const struct stx__memo *m, struct stx_bytes *out); /* 0 or -1 */
int stx__memo_decode(struct stx_span v, struct stx__memo *out); /* borrows v; -1: not ours */

/* Metadata of an artifact: what its key was made of, and the packed Answer. */
struct stx__meta {
	uint32_t format_version, options;
	struct stx_digest graph, fingerprint;
	struct stx_span target, answer;
};
int stx__meta_encode(const struct stx__meta *m, struct stx_bytes *out);
int stx__meta_decode(struct stx_span v, struct stx__meta *out);

/* A compiled kernel: description and object. */
struct stx__kernel_value {
	struct stx_emitted emitted;
	struct stx_span object;
};
int stx__kernel_encode(const struct stx__kernel_value *k, struct stx_bytes *out);
int stx__kernel_decode(struct stx_span v, struct stx__kernel_value *out);

#endif
