/* bytes.c: growable byte string. */
#include "bytes.h"

#include <stdio.h>
#include <stdlib.h>

int stx_bytes_reserve(struct stx_bytes *b, size_t more)
{
	if (b->oom)
		return -1;
	if (b->cap - b->n >= more)
		return 0;
	if (more > SIZE_MAX / 2 - b->n) {
		b->oom = 1;
		return -1;
	}
	size_t cap = b->cap ? b->cap : 64;
	while (cap < b->n + more)
		cap *= 2;
	uint8_t *p = realloc(b->at, cap);
	if (!p) {
		b->oom = 1;
		return -1;
	}
	b->at = p;
	b->cap = cap;
	return 0;
}

int stx_bytes_put(struct stx_bytes *b, const void *src, size_t n)
{
	if (stx_bytes_reserve(b, n))
		return -1;
	if (n)
		memcpy(b->at + b->n, src, n);
	b->n += n;
	return 0;
}

int stx_bytes_puts(struct stx_bytes *b, const char *s)
{
	return stx_bytes_put(b, s, strlen(s));
}

int stx_bytes_printf(struct stx_bytes *b, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0 || stx_bytes_reserve(b, (size_t)n + 1))
		return -1;
	va_start(ap, fmt);
	vsnprintf((char *)b->at + b->n, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->n += (size_t)n;
	return 0;
}

int stx_bytes_u8(struct stx_bytes *b, uint8_t v)
{
	return stx_bytes_put(b, &v, 1);
}

int stx_bytes_u32(struct stx_bytes *b, uint32_t v)
{
	return stx_bytes_put(b, &v, 4);
}

int stx_bytes_u64(struct stx_bytes *b, uint64_t v)
{
	return stx_bytes_put(b, &v, 8);
}

int stx_bytes_align(struct stx_bytes *b, size_t align)
{
	while (b->n % align)
		if (stx_bytes_u8(b, 0))
			return -1;
	return 0;
}

const char *stx_bytes_cstr(struct stx_bytes *b)
{
	if (stx_bytes_reserve(b, 1))
		return "";
	b->at[b->n] = 0;
	return (const char *)b->at;
}

void stx_bytes_clear(struct stx_bytes *b)
{
	b->n = 0;
	b->oom = 0;
}

void stx_bytes_free(struct stx_bytes *b)
{
	free(b->at);
	memset(b, 0, sizeof *b);
}
