/* underway.h
 * values on their way to the store: found as if they were there, so that what was answered a moment
 * ago is known however late the disk is. */
#ifndef STX_UNDERWAY_H
#define STX_UNDERWAY_H

#include "server.h"

struct stx__underway {
	struct stx__server *s;
	struct stx__table *table; /* of the server: by id */
	struct stx_digest id;
	struct stx__blob *value;
	const char *what;
};

/* Copies the value and puts it in the place of an older one. Its put in the store ends with
 * stx__underway_done. NULL: out of memory. */
struct stx__underway *stx__underway_new(struct stx__server *s, struct stx__table *table,
					const struct stx_digest *id, struct stx_span value,
					const char *what);
/* A stx_cache_done_fn; ctx is the value under way, which is freed. */
void stx__underway_done(void *ctx, stx_err e, const struct stx_diag *d);
/* 1 and the value, borrowed for this turn of the loop. */
int stx__underway_find(const struct stx__table *table, const struct stx_digest *id,
		       struct stx_span *value);

#endif
