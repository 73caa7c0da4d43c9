/* reply_cache.c: LRU of serialised replies. */
#include "reply_cache.h"

static void unlink_reply(struct stx__reply_cache *c, struct stx__reply *r)
{
	*(r->newer ? &r->newer->older : &c->newest) = r->older;
	*(r->older ? &r->older->newer : &c->oldest) = r->newer;
}

static void link_front(struct stx__reply_cache *c, struct stx__reply *r)
{
	r->newer = NULL;
	r->older = c->newest;
	*(c->newest ? &c->newest->newer : &c->oldest) = r;
	c->newest = r;
}

struct stx__cut *stx__cut_ref(struct stx__cut *c)
{
	c->refs++;
	return c;
}

void stx__cut_drop(struct stx__cut *c)
{
	if (!c || --c->refs)
		return;
	free(c->list.at);
	free(c);
}

static uint64_t cost(const struct stx__blob *b)
{
	return b->n + sizeof(struct stx__reply) + sizeof *b + 64;
}

static uint64_t extra_cost(const struct stx__reply *r)
{
	return (r->chosen ? cost(r->chosen) : 0) +
	       (r->cut ? sizeof *r->cut + r->cut->list.n * STX_BLOCKING_BYTES : 0);
}

struct stx__reply *stx__reply_find(struct stx__reply_cache *c, const struct stx_digest *memo)
{
	struct stx__reply *r = stx__table_get(&c->table, memo);
	if (r && r != c->newest) {
		unlink_reply(c, r);
		link_front(c, r);
	}
	return r;
}

struct stx__reply *stx__reply_put(struct stx__reply_cache *c, const struct stx_digest *memo,
				  const struct stx_digest *key, const struct stx_digest *artifact,
				  int has_path, struct stx__blob *answer)
{
	struct stx__reply *r = stx__table_get(&c->table, memo);
	if (r)
		stx__reply_drop(c, r);
	if (cost(answer) > c->max_bytes / 4)
		return NULL;
	while (c->oldest && c->bytes + cost(answer) > c->max_bytes)
		stx__reply_drop(c, c->oldest);
	r = calloc(1, sizeof *r);
	if (!r || stx__table_set(&c->table, memo, r)) {
		free(r);
		return NULL;
	}
	r->memo = *memo;
	r->key = *key;
	r->artifact = *artifact;
	r->has_path = has_path;
	r->answer = stx__blob_ref(answer);
	c->bytes += cost(answer);
	link_front(c, r);
	return r;
}

void stx__reply_choose(struct stx__reply_cache *c, struct stx__reply *r,
		       const struct stx_digest *asker, uint64_t epoch, struct stx__blob *chosen,
		       struct stx__cut *cut)
{
	c->bytes -= extra_cost(r);
	stx__blob_drop(r->chosen);
	stx__cut_drop(r->cut);
	r->chosen = chosen ? stx__blob_ref(chosen) : NULL;
	r->cut = cut ? stx__cut_ref(cut) : NULL;
	r->asker = *asker;
	r->epoch = epoch;
	c->bytes += extra_cost(r);
	while (c->oldest != r && c->bytes > c->max_bytes)
		stx__reply_drop(c, c->oldest);
}

void stx__reply_drop(struct stx__reply_cache *c, struct stx__reply *r)
{
	stx__table_del(&c->table, &r->memo);
	unlink_reply(c, r);
	c->bytes -= cost(r->answer) + extra_cost(r);
	stx__blob_drop(r->answer);
	stx__blob_drop(r->chosen);
	stx__cut_drop(r->cut);
	free(r);
}

void stx__reply_cache_clear(struct stx__reply_cache *c)
{
	while (c->oldest)
		stx__reply_drop(c, c->oldest);
	stx__table_free(&c->table);
}
