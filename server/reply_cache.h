/* reply_cache.h
 * serialised replies of hot requests by memo digest, least recently used out first. */
#ifndef STX_REPLY_CACHE_H
#define STX_REPLY_CACHE_H

#include "blob.h"
#include "table.h"
#include "tunes.h"

/* How the records of a device have the products of an answer cut, if otherwise: what to answer with
 * in its place. Counted. */
struct stx__cut {
	uint32_t refs;
	struct stx_blocking_list list;
};
struct stx__cut *stx__cut_ref(struct stx__cut *c);
void stx__cut_drop(struct stx__cut *c); /* NULL is allowed */

struct stx__reply {
	struct stx__reply *newer, *older;
	struct stx_digest memo, key, artifact;
	int has_path;
	struct stx__blob *answer; /* packed Answer, without this request's stage */
	/* The same with the choices for one device and job, as the tune records of that epoch have
	 * them; NULL: none yet, or no choices. */
	struct stx__blob *chosen;
	struct stx__cut *cut;    /* of those records; NULL: the answer is for them */
	struct stx_digest asker; /* that device and job */
	uint64_t epoch;          /* 0: nothing is known */
};

struct stx__reply_cache {
	struct stx__table table;
	struct stx__reply *newest, *oldest;
	uint64_t bytes, max_bytes;
};

/* Moves it to the front. NULL: not there. */
struct stx__reply *stx__reply_find(struct stx__reply_cache *c, const struct stx_digest *memo);
/* Replaces one of the same memo; takes a reference of answer. NULL when it does not fit (no harm).
 */
struct stx__reply *stx__reply_put(struct stx__reply_cache *c, const struct stx_digest *memo,
				  const struct stx_digest *key, const struct stx_digest *artifact,
				  int has_path, struct stx__blob *answer);
/* Keeps the answer and the cut for asker (takes references; NULL: r->answer, none) in the place of
 * another's. */
void stx__reply_choose(struct stx__reply_cache *c, struct stx__reply *r,
		       const struct stx_digest *asker, uint64_t epoch, struct stx__blob *chosen,
		       struct stx__cut *cut);
void stx__reply_drop(struct stx__reply_cache *c, struct stx__reply *r);
void stx__reply_cache_clear(struct stx__reply_cache *c);

#endif
