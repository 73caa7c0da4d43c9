/* hash.h
 * SHA-256 digests (FIPS 180-4), through OpenSSL; hexadecimal form; a fast hash for tables. */
#ifndef STX_HASH_H
#define STX_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "status.h"

#define STX_DIGEST_BYTES 32
#define STX_DIGEST_HEX   65 /* with the final NUL */

struct stx_digest {
	uint8_t b[STX_DIGEST_BYTES];
};

/* Incremental hashing. The state is opaque and freed by final or drop; not shared between threads.
 */
struct stx_hasher;
struct stx_hasher *stx_hasher_new(void); /* NULL when out of memory */
void stx_hasher_update(struct stx_hasher *h, const void *p, size_t n);
/* Length-prefixed pieces, so that ("ab","c") and ("a","bc") differ. */
void stx_hasher_str(struct stx_hasher *h, const char *s);
void stx_hasher_u64(struct stx_hasher *h, uint64_t v);
struct stx_digest stx_hasher_final(struct stx_hasher *h); /* frees h */
void stx_hasher_drop(struct stx_hasher *h);               /* frees h; NULL is allowed */

struct stx_digest stx_digest_of(const void *p, size_t n);
void stx_digest_hex(const struct stx_digest *d, char out[STX_DIGEST_HEX]);
stx_err stx_digest_parse(const char *hex, struct stx_digest *out); /* exactly 64 hex digits */
static inline int stx_digest_eq(const struct stx_digest *a, const struct stx_digest *b)
{
	return memcmp(a->b, b->b, STX_DIGEST_BYTES) == 0;
}
/* First 8 bytes: a digest is uniform already, so tables index by this. */
static inline uint64_t stx_digest_short(const struct stx_digest *d)
{
	uint64_t v;
	memcpy(&v, d->b, 8);
	return v;
}
/* 64-bit mixing for tables (not for keys): every input bit reaches every output bit, so callers may
 * mask. */
static inline uint64_t stx_mix64(uint64_t h, uint64_t v)
{
	h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
	h = (h ^ h >> 32) * 0xff51afd7ed558ccdu;
	h = (h ^ h >> 29) * 0xc4ceb9fe1a85ec53u;
	return h ^ h >> 32;
}
/* The same over a text. A table of names that strangers choose takes its own address as the seed,
 * so that nobody can choose names that collide. */
static inline uint64_t stx_mix_text(uint64_t seed, const char *s, size_t n)
{
	uint64_t h = stx_mix64(seed, n), v;
	for (; n >= 8; n -= 8, s += 8) {
		memcpy(&v, s, 8);
		h = stx_mix64(h, v);
	}
	v = 0;
	memcpy(&v, s, n);
	return stx_mix64(h, v);
}

#endif
