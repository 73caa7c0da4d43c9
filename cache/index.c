/* index.c: the in-memory index: namespaces, entries, blobs, recency. Owner's thread only. */
#include "store.h"

#include <assert.h>

/* ---- namespaces ---- */
static uint64_t text_hash(const char *s)
{
	return stx_mix_text(0, s, strlen(s));
}

struct stx__ns *stx__ns_find(struct stx_cache *c, const char *name)
{
	uint64_t h = text_hash(name);
	size_t at = SIZE_MAX;
	struct stx__ns *ns;
	while ((ns = stx__map_next(&c->spaces, h, &at)))
		if (!strcmp(ns->name, name))
			return ns;
	return NULL;
}

struct stx__ns *stx__ns_get(struct stx_cache *c, const char *name)
{
	struct stx__ns *ns = stx__ns_find(c, name);
	if (!ns) {
		size_t n = strlen(name);
		if (stx__map_reserve(&c->spaces, 1) || !(ns = calloc(1, sizeof *ns + n + 1)))
			return NULL;
		ns->h = text_hash(name);
		memcpy(ns->name, name, n + 1);
		stx__list_init(&ns->artifacts);
		stx__map_add(&c->spaces, ns);
	}
	ns->refs++;
	return ns;
}

void stx__ns_put(struct stx_cache *c, struct stx__ns *ns)
{
	if (ns && --ns->refs == 0) {
		stx__map_del(&c->spaces, ns);
		free(ns);
	}
}

/* ---- lookups ---- */
static uint64_t entry_key_hash(int kind, const struct stx__ns *ns, const struct stx_digest *key)
{
	uint64_t h = stx_digest_short(key) + (uint64_t)kind * 0x9e3779b97f4a7c15u;
	return kind == STX__MEMO ? h : h ^ ns->h;
}

struct stx__entry *stx__entry_find(struct stx_cache *c, int kind, const struct stx__ns *ns,
				   const struct stx_digest *key)
{
	if (!ns && kind != STX__MEMO)
		return NULL;
	uint64_t h = entry_key_hash(kind, ns, key);
	size_t at = SIZE_MAX;
	struct stx__entry *e;
	while ((e = stx__map_next(&c->entries, h, &at)))
		if (e->kind == kind && (kind == STX__MEMO || e->ns == ns) &&
		    stx_digest_eq(&e->key, key))
			return e;
	return NULL;
}

struct stx__blob *stx__blob_find(struct stx_cache *c, const struct stx__ns *ns,
				 const struct stx_digest *digest)
{
	if (!ns)
		return NULL;
	size_t at = SIZE_MAX;
	uint64_t h = stx_digest_short(digest) ^ ns->h;
	struct stx__blob *b;
	while ((b = stx__map_next(&c->blobs, h, &at)))
		if (b->ns == ns && stx_digest_eq(&b->digest, digest))
			return b;
	return NULL;
}

/* ---- elements ---- */
struct stx__entry *stx__entry_new(struct stx__ns *ns, int kind, const struct stx_digest *key,
				  struct stx_span value)
{
	struct stx__entry *e = malloc(sizeof *e + value.n);
	if (!e)
		return NULL;
	memset(e, 0, sizeof *e);
	e->kind = (uint8_t)kind;
	e->ns = ns;
	ns->refs++;
	e->key = *key;
	e->h = entry_key_hash(kind, ns, key);
	stx__list_init(&e->lru);
	stx__list_init(&e->dirty);
	stx__list_init(&e->in_ns);
	stx__list_init(&e->in_blob);
	e->value_bytes = value.n;
	if (value.n)
		memcpy(e->value, value.at, value.n);
	return e;
}

void stx__entry_free(struct stx_cache *c, struct stx__entry *e)
{
	if (!e)
		return;
	stx__ns_put(c, e->ns);
	free(e);
}

void stx__entry_unpin(struct stx_cache *c, struct stx__entry *e)
{
	assert(e->pins);
	if (--e->pins == 0 && e->gone)
		stx__entry_free(c, e);
}

struct stx__blob *stx__blob_new(struct stx__ns *ns, const struct stx_digest *digest)
{
	struct stx__blob *b = calloc(1, sizeof *b);
	if (!b)
		return NULL;
	b->ns = ns;
	ns->refs++;
	b->digest = *digest;
	b->h = stx_digest_short(digest) ^ ns->h;
	stx__list_init(&b->entries);
	return b;
}

void stx__blob_free(struct stx_cache *c, struct stx__blob *b)
{
	if (!b)
		return;
	stx__ns_put(c, b->ns);
	free(b);
}

/* ---- membership ---- */
/* Rows have a price even when empty: keys, digests, b-tree cells in three trees. */
uint64_t stx__entry_bytes(const struct stx__entry *e)
{
	return e->value_bytes + 256;
}

static uint64_t entry_memory(const struct stx__entry *e)
{
	return e->value_bytes + sizeof *e + 64;
}

int stx__index_reserve(struct stx_cache *c)
{
	size_t more = c->pending_puts + 1;
	return stx__map_reserve(&c->entries, more) || stx__map_reserve(&c->blobs, more) ? -1 : 0;
}

void stx__index_link(struct stx__entry *e, struct stx__blob *b)
{
	b->refs++;
	b->live++;
	stx__list_push(&b->entries, &e->in_blob);
	e->blob = b;
}

void stx__index_add(struct stx_cache *c, struct stx__entry *e, struct stx__blob *b)
{
	if (b) {
		struct stx__blob *old = stx__blob_find(c, b->ns, &b->digest);
		if (old) {
			stx__blob_free(c, b);
			b = old;
		} else {
			stx__map_add(&c->blobs, b);
			c->bytes += b->stored_bytes;
			c->index_bytes += sizeof *b + 16;
		}
		stx__index_link(e, b);
	}
	stx__map_add(&c->entries, e);
	stx__list_push(&c->lru, &e->lru);
	if (e->kind == STX__ARTIFACT)
		stx__list_push(&e->ns->artifacts, &e->in_ns);
	c->count[e->kind]++;
	c->bytes += stx__entry_bytes(e);
	c->index_bytes += entry_memory(e);
}

/* dying_bytes paces eviction: what will leave with the queued drop, the blob with its last live
 * entry. */
void stx__index_set_state(struct stx_cache *c, struct stx__entry *e, enum stx__state s)
{
	if (e->state == STX__LIVE && s != STX__LIVE) {
		e->leaving_bytes = stx__entry_bytes(e);
		if (e->blob && --e->blob->live == 0)
			e->leaving_bytes += e->blob->stored_bytes;
		c->dying_bytes += e->leaving_bytes;
	} else if (e->state != STX__LIVE && s == STX__LIVE) {
		c->dying_bytes -= e->leaving_bytes;
		e->leaving_bytes = 0;
		if (e->blob)
			e->blob->live++;
	}
	if (s == STX__DAMAGED && e->state != STX__DAMAGED) {
		stx__list_del(&e->lru);
		stx__list_push(&c->broken, &e->lru);
	}
	e->state = (uint8_t)s;
}

void stx__index_remove(struct stx_cache *c, struct stx__entry *e)
{
	struct stx__blob *b = e->blob;
	stx__map_del(&c->entries, e);
	stx__list_del(&e->lru);
	stx__list_del(&e->dirty);
	stx__list_del(&e->in_ns);
	stx__list_del(&e->in_blob);
	c->count[e->kind]--;
	c->bytes -= stx__entry_bytes(e);
	c->index_bytes -= entry_memory(e);
	c->dying_bytes -= e->leaving_bytes;
	e->blob = NULL;
	e->gone = 1;
	if (b && e->state == STX__LIVE)
		b->live--;
	if (b && --b->refs == 0) {
		stx__map_del(&c->blobs, b);
		c->bytes -= b->stored_bytes;
		c->index_bytes -= sizeof *b + 16;
		stx__file_doom(c, &b->digest);
		stx__blob_free(c, b);
	}
	if (!e->pins)
		stx__entry_free(c, e);
}

void stx__index_touch(struct stx_cache *c, struct stx__entry *e)
{
	e->used = ++c->clock;
	stx__list_del(&e->lru);
	stx__list_push(&c->lru, &e->lru);
	if (stx__list_empty(&e->dirty))
		stx__list_push(&c->dirty, &e->dirty);
}

void stx__index_free(struct stx_cache *c)
{
	for (size_t i = 0; i < c->entries.cap; i++)
		if (c->entries.slot[i])
			stx__entry_free(c, c->entries.slot[i]);
	for (size_t i = 0; i < c->blobs.cap; i++)
		if (c->blobs.slot[i])
			stx__blob_free(c, c->blobs.slot[i]);
	for (size_t i = 0; i < c->files.cap; i++)
		free(c->files.slot[i]);
	for (size_t i = 0; i < c->spaces.cap; i++)
		free(c->spaces.slot[i]);
	stx__map_free(&c->entries);
	stx__map_free(&c->blobs);
	stx__map_free(&c->files);
	stx__map_free(&c->spaces);
}
