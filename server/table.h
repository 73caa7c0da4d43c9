/* table.h
 * a hash table from digests to pointers, in memory only. Digests are uniform, so their first bytes
 * index. */
#ifndef STX_TABLE_H
#define STX_TABLE_H

#include "hash.h"

struct stx__slot {
	struct stx_digest key;
	void *value; /* NULL: empty */
};
/* Zero-initialise; stx__table_free at the end. Values are the owner's. */
struct stx__table {
	struct stx__slot *at;
	uint32_t n, cap; /* cap is a power of two or 0; at most three quarters full */
};

void *stx__table_get(const struct stx__table *t, const struct stx_digest *key);
/* Sets or replaces; value is not NULL. 0, or -1 when out of memory. */
int stx__table_set(struct stx__table *t, const struct stx_digest *key, void *value);
/* Removes and returns the value, NULL when absent. */
void *stx__table_del(struct stx__table *t, const struct stx_digest *key);
void stx__table_free(struct stx__table *t);

#endif
