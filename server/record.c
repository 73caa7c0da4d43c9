/* record.c: layouts of stored values. */
#include "record.h"

#include <stdio.h>

enum {
	MEMO_MAGIC = 0x314d5853,
	META_MAGIC = 0x31415853,
	KERNEL_MAGIC = 0x314b5853
}; /* SXM1 SXA1 SXK1 */
enum { MEMO_HEAD = 8 + 64, META_HEAD = 16 + 64, KERNEL_HEAD = 28 };

void stx__option_text(uint32_t bits, char *out, size_t cap)
{
	snprintf(out, cap, "%s%s%s%s", bits & STX_OPTION_TRAINING ? "training " : "",
		 bits & STX_OPTION_DYNAMIC ? "dynamic " : "",
		 bits & STX_OPTION_FAST ? "fast " : "strict ",
		 bits & STX_OPTION_FALLBACK ? "allow-fallback " : "");
	size_t n = strlen(out);
	if (n && out[n - 1] == ' ')
		out[n - 1] = 0;
}

/* ---- layouts ---- */

int stx__memo_encode(const struct stx__memo *m, struct stx_bytes *out)
{
	stx_bytes_u32(out, MEMO_MAGIC);
	stx_bytes_u32(out, (uint32_t)m->need_values);
	stx_bytes_put(out, m->key.b, sizeof m->key.b);
	stx_bytes_put(out, m->graph.b, sizeof m->graph.b);
	return stx_bytes_put(out, m->answer.at, m->answer.n);
}

int stx__memo_decode(struct stx_span v, struct stx__memo *out)
{
	if (v.n < MEMO_HEAD || stx_load_u32(v.at) != MEMO_MAGIC)
		return -1;
	out->need_values = stx_load_u32(v.at + 4) != 0;
	memcpy(out->key.b, v.at + 8, 32);
	memcpy(out->graph.b, v.at + 40, 32);
	out->answer = (struct stx_span){ v.at + MEMO_HEAD, v.n - MEMO_HEAD };
	return 0;
}

int stx__meta_encode(const struct stx__meta *m, struct stx_bytes *out)
{
	stx_bytes_u32(out, META_MAGIC);
	stx_bytes_u32(out, m->format_version);
	stx_bytes_u32(out, m->options);
	stx_bytes_u32(out, (uint32_t)m->target.n);
	stx_bytes_put(out, m->graph.b, sizeof m->graph.b);
	stx_bytes_put(out, m->fingerprint.b, sizeof m->fingerprint.b);
	stx_bytes_put(out, m->target.at, m->target.n);
	return stx_bytes_put(out, m->answer.at, m->answer.n);
}

int stx__meta_decode(struct stx_span v, struct stx__meta *out)
{
	if (v.n < META_HEAD || stx_load_u32(v.at) != META_MAGIC)
		return -1;
	out->format_version = stx_load_u32(v.at + 4);
	out->options = stx_load_u32(v.at + 8);
	uint32_t n = stx_load_u32(v.at + 12);
	memcpy(out->graph.b, v.at + 16, 32);
	memcpy(out->fingerprint.b, v.at + 48, 32);
	if (n > v.n - META_HEAD)
		return -1;
	out->target = (struct stx_span){ v.at + META_HEAD, n };
	out->answer = (struct stx_span){ v.at + META_HEAD + n, v.n - META_HEAD - n };
	return 0;
}

int stx__kernel_encode(const struct stx__kernel_value *k, struct stx_bytes *out)
{
	stx_bytes_u32(out, KERNEL_MAGIC);
	for (int i = 0; i < 3; i++)
		stx_bytes_u32(out, k->emitted.block[i]);
	stx_bytes_u32(out, k->emitted.registers);
	stx_bytes_u32(out, k->emitted.spills);
	stx_bytes_u32(out, k->emitted.shared_bytes);
	return stx_bytes_put(out, k->object.at, k->object.n);
}

int stx__kernel_decode(struct stx_span v, struct stx__kernel_value *out)
{
	if (v.n < KERNEL_HEAD || stx_load_u32(v.at) != KERNEL_MAGIC)
		return -1;
	for (int i = 0; i < 3; i++)
		out->emitted.block[i] = stx_load_u32(v.at + 4 + 4 * i);
	out->emitted.registers = stx_load_u32(v.at + 16);
	out->emitted.spills = stx_load_u32(v.at + 20);
	out->emitted.shared_bytes = stx_load_u32(v.at + 24);
	out->object = (struct stx_span){ v.at + KERNEL_HEAD, v.n - KERNEL_HEAD };
	return 0;
}
