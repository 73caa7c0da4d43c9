/* private_store.h
 * what a process without a server keeps: bytes by digest, in memory. Not thread-safe. */
#ifndef STX_CLIENT_PRIVATE_STORE_H
#define STX_CLIENT_PRIVATE_STORE_H

#include "bytes.h"
#include "hash.h"

struct stx__private_entry {
	struct stx_digest id;
	struct stx_digest content; /* of bytes */
	struct stx_bytes bytes, meta;
};
/* Open addressing; emptied as a whole when it holds more than 256 MiB. Zeroed: none. */
struct stx__private_store {
	struct stx__private_entry **at;
	size_t n, cap, bytes;
};

/* NULL: there is none. The entry stays until the next put. */
const struct stx__private_entry *stx__private_find(const struct stx__private_store *s,
						   const struct stx_digest *id);
/* In place of what has that digest. Copies bytes; takes meta over. Returns the entry, NULL when out
 * of memory. */
const struct stx__private_entry *stx__private_put(struct stx__private_store *s,
						  const struct stx_digest *id,
						  struct stx_span bytes, struct stx_bytes *meta);
void stx__private_clear(struct stx__private_store *s);

#endif
