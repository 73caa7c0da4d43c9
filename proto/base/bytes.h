/* bytes.h
 * a growable byte string on the heap, and little-endian loads and stores. */
#ifndef STX_BYTES_H
#define STX_BYTES_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Owned by whoever declares it; zero-initialise, stx_bytes_free at the end. After a failed
 * allocation `oom` is set and appends do nothing, so one check at the end is enough. */
struct stx_bytes {
	uint8_t *at;
	size_t n, cap;
	int oom;
};

/* A borrowed piece of memory. */
struct stx_span {
	const uint8_t *at;
	size_t n;
};

int stx_bytes_reserve(struct stx_bytes *b, size_t more); /* 0, or -1 when out of memory */
int stx_bytes_put(struct stx_bytes *b, const void *src, size_t n);
int stx_bytes_puts(struct stx_bytes *b, const char *s);
int stx_bytes_printf(struct stx_bytes *b, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
int stx_bytes_u8(struct stx_bytes *b, uint8_t v);
int stx_bytes_u32(struct stx_bytes *b, uint32_t v); /* little-endian */
int stx_bytes_u64(struct stx_bytes *b, uint64_t v);
int stx_bytes_align(struct stx_bytes *b, size_t align); /* pads with zero bytes */
const char *stx_bytes_cstr(struct stx_bytes *b); /* adds a NUL after the end, not counted in n */
void stx_bytes_clear(struct stx_bytes *b);       /* keeps the storage */
void stx_bytes_free(struct stx_bytes *b);

static inline uint32_t stx_load_u32(const void *p)
{
	uint32_t v;
	memcpy(&v, p, 4);
	return v;
}
static inline uint64_t stx_load_u64(const void *p)
{
	uint64_t v;
	memcpy(&v, p, 8);
	return v;
}
static inline void stx_store_u32(void *p, uint32_t v)
{
	memcpy(p, &v, 4);
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "stax stores numbers little-endian");

#endif
