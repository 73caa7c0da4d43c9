/* blob.h
 * a counted immutable byte string: replies and objects that several requests share without copies.
 */
#ifndef STX_BLOB_H
#define STX_BLOB_H

#include <stdint.h>
#include <stdlib.h>

#include "bytes.h"

struct stx__blob {
	uint32_t refs; /* loop thread only */
	size_t n;
	uint8_t at[];
};

/* With one reference; n bytes to be filled by the caller. NULL when out of memory. */
static inline struct stx__blob *stx__blob_new(size_t n)
{
	struct stx__blob *b = n < SIZE_MAX - sizeof *b ? malloc(sizeof *b + n) : NULL;
	if (b) {
		b->refs = 1;
		b->n = n;
	}
	return b;
}

static inline struct stx__blob *stx__blob_copy(const void *p, size_t n)
{
	struct stx__blob *b = stx__blob_new(n);
	if (b && n)
		memcpy(b->at, p, n);
	return b;
}

static inline struct stx__blob *stx__blob_ref(struct stx__blob *b)
{
	b->refs++;
	return b;
}

static inline void stx__blob_drop(struct stx__blob *b)
{
	if (b && --b->refs == 0)
		free(b);
}

#endif
