/* load.c: fills the index from the database when it is opened; damaged and orphaned rows go. */
#include "store.h"

#include "log.h"

struct ids {
	int64_t *at;
	size_t n, cap;
};

static int ids_add(struct ids *v, int64_t id)
{
	if (v->n == v->cap) {
		size_t cap = v->cap ? v->cap * 2 : 64;
		int64_t *p = realloc(v->at, cap * sizeof *p);
		if (!p)
			return -1;
		v->at = p;
		v->cap = cap;
	}
	v->at[v->n++] = id;
	return 0;
}

static stx_err load_blobs(struct stx_cache *c, sqlite3 *h, int64_t *max_id, struct ids *bad,
			  struct stx_diag *d)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(h, "SELECT " STX__BLOB_COLUMNS " FROM blob ORDER BY id", -1,
				    &st, NULL);
	stx_err e = STX_E_OK;
	while (rc == SQLITE_OK && !e && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct stx__blob_row r;
		int damaged = stx__blob_row(st, &r);
		rc = SQLITE_OK;
		if (r.id > *max_id)
			*max_id = r.id;
		struct stx__ns *ns = damaged ? NULL : stx__ns_get(c, r.ns);
		struct stx__blob *b = ns ? stx__blob_new(ns, &r.digest) : NULL;
		if (!damaged && (!b || stx__map_reserve(&c->blobs, 1)))
			e = STX_E_NOMEM;
		if (damaged || e || stx__blob_find(c, ns, &r.digest)) {
			stx__blob_free(c, b);
			c->damaged += damaged != 0;
			if (!e && ids_add(bad, r.id))
				e = STX_E_NOMEM;
		} else {
			b->id = r.id;
			b->raw_bytes = r.raw_bytes;
			b->stored_bytes = r.stored_bytes;
			stx__map_add(&c->blobs, b);
			c->bytes += b->stored_bytes;
			c->index_bytes += sizeof *b + 16;
		}
		stx__ns_put(c, ns);
	}
	sqlite3_finalize(st);
	if (!e && rc != SQLITE_DONE)
		e = stx__sql_err(h, rc, d);
	return e;
}

/* 1: taken into the index, 0: damaged or without contents, -1: out of memory. */
static int take_entry(struct stx_cache *c, const struct stx__entry_row *r, uint64_t used)
{
	struct stx__ns *ns = stx__ns_get(c, r->ns);
	if (!ns || stx__index_reserve(c)) {
		stx__ns_put(c, ns);
		return -1;
	}
	struct stx__blob *b = r->blob_id ? stx__blob_find(c, ns, &r->digest) : NULL;
	struct stx__entry *e = NULL;
	int ok = !(r->blob_id && (!b || b->id != r->blob_id || b->raw_bytes != r->size)) &&
		 !stx__entry_find(c, r->kind, ns, &r->key);
	if (ok) {
		e = stx__entry_new(ns, r->kind, &r->key, r->value);
		ok = e ? 1 : -1;
	}
	stx__ns_put(c, ns);
	if (!e)
		return ok;
	e->id = r->id;
	e->used = used;
	stx__index_add(c, e, NULL);
	if (b)
		stx__index_link(e, b);
	return 1;
}

static stx_err load_entries(struct stx_cache *c, sqlite3 *h, int64_t *max_id, struct ids *bad,
			    struct stx_diag *d)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(
		h,
		"SELECT entry.id, hash, kind, ns, key, blob, digest, size, sum, value,"
		" ifnull(used, 0) FROM entry LEFT JOIN recency ON recency.id=entry.id"
		" ORDER BY entry.id",
		-1, &st, NULL);
	stx_err e = STX_E_OK;
	while (rc == SQLITE_OK && !e && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct stx__entry_row r;
		int64_t used = sqlite3_column_int64(st, 10);
		int damaged = stx__entry_row(st, &r);
		if (r.id > *max_id)
			*max_id = r.id;
		if (used < 0 || used > INT64_MAX / 2)
			used = 0;
		int took = damaged ? 0 : take_entry(c, &r, (uint64_t)used);
		if (took < 0 || (!took && ids_add(bad, r.id)))
			e = STX_E_NOMEM;
		c->damaged += !took;
		if ((uint64_t)used > c->clock)
			c->clock = (uint64_t)used;
		rc = SQLITE_OK;
	}
	sqlite3_finalize(st);
	if (!e && rc != SQLITE_DONE)
		e = stx__sql_err(h, rc, d);
	return e;
}

static int by_used(const void *a, const void *b)
{
	const struct stx__entry *x = *(struct stx__entry *const *)a,
				*y = *(struct stx__entry *const *)b;
	if (x->used != y->used)
		return x->used < y->used ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static stx_err sort_lru(struct stx_cache *c)
{
	if (!c->entries.n)
		return STX_E_OK;
	struct stx__entry **all = malloc(c->entries.n * sizeof(void *));
	if (!all)
		return STX_E_NOMEM;
	size_t n = 0;
	for (struct stx__link *l = c->lru.next; l != &c->lru; l = l->next)
		all[n++] = stx__of(l, struct stx__entry, lru);
	qsort(all, n, sizeof(void *), by_used);
	stx__list_init(&c->lru);
	for (size_t i = 0; i < n; i++)
		stx__list_push(&c->lru, &all[i]->lru);
	free(all);
	return STX_E_OK;
}

static int del_row(struct stx__db *db, enum stx__statement s, int64_t a, int64_t b)
{
	sqlite3_stmt *st = stx__sql(db, s);
	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, a);
	if (b)
		sqlite3_bind_int64(st, 2, b);
	int rc = sqlite3_step(st);
	sqlite3_reset(st);
	return rc == SQLITE_DONE ? 0 : -1;
}

/* Best effort: a row that stays is out of the index, so it is never served, and is met again at the
 * next open. A put of its key replaces it (jobs.c, finish_put). */
static void drop_bad(struct stx__db *db, const struct ids *entries, const struct ids *blobs)
{
	if (!entries->n && !blobs->n)
		return;
	int bad = stx__sql_run(db, STX__S_BEGIN) != SQLITE_OK;
	for (size_t i = 0; i < entries->n && !bad; i++)
		bad = del_row(db, STX__S_ENTRY_DEL, entries->at[i], 0) ||
		      del_row(db, STX__S_RECENCY_DEL, entries->at[i], 0);
	for (size_t i = 0; i < blobs->n && !bad; i++) {
		int64_t id = blobs->at[i];
		bad = del_row(db, STX__S_BLOB_DEL, id, 0);
		if (!bad && id > 0 && id < INT64_MAX / STX__CHUNKS_MAX - 1)
			bad = del_row(db, STX__S_CHUNK_DEL, id * STX__CHUNKS_MAX,
				      id * STX__CHUNKS_MAX + STX__CHUNKS_MAX - 1);
	}
	if (bad || stx__sql_run(db, STX__S_COMMIT) != SQLITE_OK) {
		stx__sql_run(db, STX__S_ROLLBACK);
		stx_log(STX_LOG_WARN,
			"cache: damaged rows could not be removed; fsck --repair does");
	}
}

static stx_err find_orphans(struct stx_cache *c, struct ids *bad)
{
	for (size_t i = 0; i < c->blobs.cap; i++) {
		struct stx__blob *b = c->blobs.slot[i];
		if (b && !b->refs && ids_add(bad, b->id))
			return STX_E_NOMEM;
	}
	return STX_E_OK;
}

static void forget_orphans(struct stx_cache *c)
{
	size_t i = 0;
	while (i < c->blobs.cap) {
		struct stx__blob *b = c->blobs.slot[i];
		if (!b || b->refs) {
			i++;
			continue;
		}
		/* Deleting shifts others back, perhaps into this slot: look at it again. */
		stx__map_del(&c->blobs, b);
		c->bytes -= b->stored_bytes;
		c->index_bytes -= sizeof *b + 16;
		stx__blob_free(c, b);
	}
}

stx_err stx__index_load(struct stx_cache *c, struct stx__db *db, int64_t *max_id,
			struct stx_diag *d)
{
	struct ids entries = { 0 }, blobs = { 0 };
	*max_id = 0;
	stx_err e = load_blobs(c, db->h, max_id, &blobs, d);
	if (!e)
		e = load_entries(c, db->h, max_id, &entries, d);
	if (!e)
		e = sort_lru(c);
	if (!e)
		e = find_orphans(c, &blobs);
	if (!e) {
		forget_orphans(c);
		drop_bad(db, &entries, &blobs);
	}
	free(entries.at);
	free(blobs.at);
	if (e && d && !d->code)
		stx_fail(d, e, "cache", "", "loading the index: %s", stx_err_text(e));
	return e;
}
