/* record.c: layouts of stored values, and the digests requests are known by. */
#include "record.h"

#include <stdio.h>
#include <sys/random.h>

enum {
	MEMO_MAGIC = 0x314d5853,
	META_MAGIC = 0x31415853,
	KERNEL_MAGIC = 0x314b5853
}; /* SXM1 SXA1 SXK1 */
enum { MEMO_HEAD = 8 + 64, META_HEAD = 16 + 64, KERNEL_HEAD = 28 };
enum { BIT_TRAINING = 1, BIT_DYNAMIC = 2, BIT_FAST = 4, BIT_FALLBACK = 8 };

uint32_t stx__option_bits(const Stx__Options *o)
{
	if (!o)
		return 0;
	return (o->training ? BIT_TRAINING : 0u) | (o->dynamic ? BIT_DYNAMIC : 0u) |
	       (o->fast ? BIT_FAST : 0u) | (o->allow_fallback ? BIT_FALLBACK : 0u);
}

void stx__option_text(uint32_t bits, char *out, size_t cap)
{
	snprintf(out, cap, "%s%s%s%s", bits & BIT_TRAINING ? "training " : "",
		 bits & BIT_DYNAMIC ? "dynamic " : "", bits & BIT_FAST ? "fast " : "strict ",
		 bits & BIT_FALLBACK ? "allow-fallback " : "");
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
		stx_bytes_u32(out, k->block[i]);
	stx_bytes_u32(out, k->registers);
	stx_bytes_u32(out, k->spills);
	stx_bytes_u32(out, k->shared_bytes);
	return stx_bytes_put(out, k->object.at, k->object.n);
}

int stx__kernel_decode(struct stx_span v, struct stx__kernel_value *out)
{
	if (v.n < KERNEL_HEAD || stx_load_u32(v.at) != KERNEL_MAGIC)
		return -1;
	for (int i = 0; i < 3; i++)
		out->block[i] = stx_load_u32(v.at + 4 + 4 * i);
	out->registers = stx_load_u32(v.at + 16);
	out->spills = stx_load_u32(v.at + 20);
	out->shared_bytes = stx_load_u32(v.at + 24);
	out->object = (struct stx_span){ v.at + KERNEL_HEAD, v.n - KERNEL_HEAD };
	return 0;
}

/* ---- digests ---- */

static void put_str(struct stx_bytes *b, const char *s)
{
	stx_bytes_u64(b, strlen(s));
	stx_bytes_puts(b, s);
}

static struct stx_digest digest_and_free(struct stx_bytes *b)
{
	struct stx_digest d = { { 0 } };
	if (!b->oom)
		d = stx_digest_of(b->at, b->n);
	else if (getrandom(d.b, sizeof d.b, 0) < 0) /* out of memory: a digest nobody shares */
		memcpy(d.b, &(uintptr_t){ (uintptr_t)b }, sizeof(uintptr_t));
	stx_bytes_free(b);
	return d;
}

struct stx_digest stx__memo_digest(const Stx__Lookup *l, const struct stx_digest *body,
				   const struct stx_digest *fingerprint)
{
	struct stx_bytes b = { 0 };
	put_str(&b, "stax-memo-v1");
	put_str(&b, l->ns[0] ? l->ns : "default");
	stx_bytes_u32(&b, STX__FORMAT_VERSION);
	stx_bytes_u32(&b, l->format);
	stx_bytes_put(&b, body->b, sizeof body->b);
	put_str(&b, l->target);
	stx_bytes_u32(&b, stx__option_bits(l->options));
	stx_bytes_put(&b, fingerprint->b, sizeof fingerprint->b);
	stx_bytes_u64(&b, l->n_values);
	for (size_t i = 0; i < l->n_values; i++) {
		const Stx__GivenValue *v = l->values[i];
		put_str(&b, v->input);
		stx_bytes_u32(&b, v->dtype);
		stx_bytes_u64(&b, v->n_sizes);
		stx_bytes_put(&b, v->sizes, v->n_sizes * sizeof *v->sizes);
		stx_bytes_u64(&b, v->data.len);
		stx_bytes_put(&b, v->data.data, v->data.len);
	}
	return digest_and_free(&b);
}

static struct stx_digest code_digest(const char *what, const struct stx_digest *of,
				     const char *target, uint32_t options,
				     const struct stx_digest *fingerprint)
{
	struct stx_bytes b = { 0 };
	put_str(&b, what);
	stx_bytes_u32(&b, STX__FORMAT_VERSION);
	stx_bytes_put(&b, of->b, sizeof of->b);
	put_str(&b, target);
	stx_bytes_u32(&b, options);
	stx_bytes_put(&b, fingerprint->b, sizeof fingerprint->b);
	return digest_and_free(&b);
}

struct stx_digest stx__key_digest(const struct stx_digest *graph, const char *target,
				  uint32_t options, const struct stx_digest *fingerprint)
{
	return code_digest("stax-key-v1", graph, target, options, fingerprint);
}

struct stx_digest stx__kernel_digest(const struct stx_digest *ir, const char *target,
				     uint32_t options, const struct stx_digest *fingerprint)
{
	return code_digest("stax-kernel-v1", ir, target, options & BIT_FAST, fingerprint);
}

struct stx_digest stx__scoped_digest(const char *ns, const struct stx_digest *d)
{
	struct stx_bytes b = { 0 };
	put_str(&b, "stax-scope-v1");
	put_str(&b, ns);
	stx_bytes_put(&b, d->b, sizeof d->b);
	return digest_and_free(&b);
}
