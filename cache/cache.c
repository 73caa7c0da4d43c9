/* cache.c: the public calls. They touch only memory: what needs the disk becomes a job. */
#include "store.h"

#include <errno.h>

/* ---- completions ---- */
int stx_cache_poll(struct stx_cache *c)
{
	struct stx__queue q;
	int ran = 0;
	if (c->in_poll)
		return 0;
	c->in_poll = 1;
	stx__queue_init(&q);
	pthread_mutex_lock(&c->done.mu);
	if (c->done.q.first) {
		q = c->done.q;
		stx__queue_init(&c->done.q);
	}
	pthread_mutex_unlock(&c->done.mu);
	if (!q.first)
		q.last = &q.first;
	for (struct stx__job *j; (j = stx__queue_pop(&q));)
		ran += stx__job_finish(c, j);
	stx__evict_slice(c);
	c->in_poll = 0;
	return ran;
}

/* ---- lookups ---- */
static int describe(struct stx__entry *e, struct stx_cache_artifact *out)
{
	out->key = e->key;
	out->digest = e->blob->digest;
	out->size_bytes = e->blob->raw_bytes;
	out->ns = e->ns->name;
	out->meta = (struct stx_span){ e->value, e->value_bytes };
	return 1;
}

static struct stx__entry *find_live(struct stx_cache *c, int kind, const struct stx__ns *ns,
				    const struct stx_digest *key)
{
	struct stx__entry *e = stx__entry_find(c, kind, ns, key);
	if (!e || e->state != STX__LIVE)
		return NULL;
	stx__index_touch(c, e);
	return e;
}

int stx_cache_find(struct stx_cache *c, const char *ns, const struct stx_digest *key,
		   struct stx_cache_artifact *out)
{
	struct stx__entry *e = find_live(c, STX__ARTIFACT, stx__ns_find(c, ns), key);
	return e ? describe(e, out) : 0;
}

static struct stx__blob *find_blob(struct stx_cache *c, const char *ns,
				   const struct stx_digest *digest, int kind,
				   struct stx__entry **entry)
{
	struct stx__blob *b = stx__blob_find(c, stx__ns_find(c, ns), digest);
	struct stx__link *l = b && b->live ? b->entries.next : NULL;
	for (; l && l != &b->entries; l = l->next) {
		struct stx__entry *e = stx__of(l, struct stx__entry, in_blob);
		if (e->state == STX__LIVE && e->kind == kind) {
			*entry = e;
			return b;
		}
	}
	return NULL;
}

int stx_cache_find_digest(struct stx_cache *c, const char *ns, const struct stx_digest *digest,
			  struct stx_cache_artifact *out)
{
	struct stx__entry *e;
	if (!find_blob(c, ns, digest, STX__ARTIFACT, &e))
		return 0;
	stx__index_touch(c, e);
	return describe(e, out);
}

void stx_cache_each(struct stx_cache *c, const char *ns,
		    int (*fn)(void *ctx, const struct stx_cache_artifact *a), void *ctx)
{
	struct stx__ns *n = stx__ns_find(c, ns);
	struct stx__link *l = n ? n->artifacts.prev : NULL;
	for (; l && l != &n->artifacts; l = l->prev) {
		struct stx__entry *e = stx__of(l, struct stx__entry, in_ns);
		struct stx_cache_artifact a;
		if (e->state == STX__LIVE && describe(e, &a) && fn(ctx, &a))
			return;
	}
}

/* ---- puts ---- */
struct put {
	int kind;
	const char *ns;
	struct stx_digest key, digest;
	struct stx_span value, contents;
	int has_contents, replace;
};

static const char *check_put(const struct put *p)
{
	if (!p->ns || strlen(p->ns) > STX__NS_MAX)
		return "the namespace is missing or longer than 255 bytes";
	if (p->value.n > STX__VALUE_MAX)
		return "the description is larger than 16 MiB";
	if (p->has_contents && p->contents.n > STX__CONTENT_MAX)
		return "the contents are larger than 64 MiB";
	return NULL;
}

static stx_err fill_put(struct stx_cache *c, struct stx__job *j, const struct put *p)
{
	j->kind = STX__JOB_PUT;
	j->ns = stx__ns_get(c, p->ns);
	if (!j->ns || stx__index_reserve(c))
		return STX_E_NOMEM;
	j->entry = stx__entry_new(j->ns, p->kind, &p->key, p->value);
	if (!j->entry)
		return STX_E_NOMEM;
	if (!p->has_contents)
		return STX_E_OK;
	j->blob = stx__blob_new(j->ns, &p->digest);
	return !j->blob || stx_bytes_put(&j->raw, p->contents.at, p->contents.n) ? STX_E_NOMEM
										 : STX_E_OK;
}

static void submit(struct stx_cache *c, const struct put *p, stx_cache_done_fn *done, void *ctx)
{
	struct stx_diag d = { 0 };
	struct stx__job *j = c->closing ? NULL : stx__job_new(STX__JOB_NOTE);
	if (!j) {
		stx_err e = stx_fail(&d, c->closing ? STX_E_CANCELED : STX_E_NOMEM, "cache", "",
				     c->closing ? "the store is closing" : "out of memory");
		if (done)
			done(ctx, e, &d);
		return;
	}
	j->done = done;
	j->ctx = ctx;
	const char *wrong = check_put(p);
	if (wrong) {
		stx__note(c, j, STX_E_TOO_LARGE, wrong);
		return;
	}
	struct stx__entry *old = stx__entry_find(c, p->kind, stx__ns_find(c, p->ns), &p->key);
	if (old && old->state == STX__LIVE && !p->replace) {
		stx__note(c, j, STX_E_OK, NULL);
		return;
	}
	size_t cost =
		p->value.n + (p->has_contents ? p->contents.n : 0) + sizeof *j + sizeof *j->entry;
	if (c->queued_bytes && c->queued_bytes + cost > STX__QUEUE_BYTES) {
		stx__note(c, j, STX_E_BUSY, "too much is waiting to be written: the disk is slow");
		return;
	}
	stx_err e = fill_put(c, j, p);
	if (e) {
		stx__note(c, j, e, NULL);
		return;
	}
	j->replace = p->replace || (old && old->state == STX__DAMAGED);
	j->used = ++c->clock;
	j->charged_bytes = cost;
	c->queued_bytes += cost;
	c->pending_puts++;
	stx__writer_push(&c->writer, j);
}

void stx_cache_put(struct stx_cache *c, const struct stx_cache_artifact *a,
		   struct stx_span contents, int replace, stx_cache_done_fn *done, void *ctx)
{
	struct put p = { STX__ARTIFACT, a->ns, a->key, a->digest, a->meta, contents, 1, replace };
	submit(c, &p, done, ctx);
}

void stx_cache_kernel_put(struct stx_cache *c, const char *ns, const struct stx_digest *kernel,
			  struct stx_span value, stx_cache_done_fn *done, void *ctx)
{
	struct put p = { STX__KERNEL, ns, *kernel, { { 0 } }, { 0 }, value, 1, 0 };
	struct stx__entry *old = stx__entry_find(c, STX__KERNEL, stx__ns_find(c, ns), kernel);
	/* Hashing is left out where nothing will be stored. */
	if (!(old && old->state == STX__LIVE) && value.n <= STX__CONTENT_MAX)
		p.digest = stx_digest_of(value.at, value.n);
	submit(c, &p, done, ctx);
}

/* ---- reads ---- */
static struct stx__job *read_job(struct stx_cache *c, stx_cache_read_fn *done, void *ctx)
{
	struct stx__job *j = c->closing ? NULL : stx__job_new(STX__JOB_NOTE);
	if (!j) {
		done(ctx, c->closing ? STX_E_CANCELED : STX_E_NOMEM, (struct stx_span){ 0 });
		return NULL;
	}
	j->read_done = done;
	j->ctx = ctx;
	return j;
}

static void fill_read(struct stx__job *j, enum stx__job_kind kind, struct stx__blob *b)
{
	j->kind = kind;
	j->ns = b->ns;
	b->ns->refs++;
	j->digest = b->digest;
	j->blob_id = b->id;
	j->raw_bytes = b->raw_bytes;
}

static void read_blob(struct stx_cache *c, struct stx__blob *b, stx_cache_read_fn *done, void *ctx)
{
	struct stx__job *j = read_job(c, done, ctx);
	if (!j)
		return;
	if (!b) {
		stx__note(c, j, STX_E_NOT_FOUND, NULL);
	} else if (c->n_deferred >= STX__DEFERRED_MAX) {
		stx__note(c, j, STX_E_BUSY, "too many reads are waiting");
	} else {
		fill_read(j, STX__JOB_READ, b);
		stx__read_start(c, j);
	}
}

void stx_cache_read(struct stx_cache *c, const char *ns, const struct stx_digest *digest,
		    stx_cache_read_fn *done, void *ctx)
{
	struct stx__entry *e;
	read_blob(c, find_blob(c, ns, digest, STX__ARTIFACT, &e), done, ctx);
}

int stx_cache_kernel_has(struct stx_cache *c, const char *ns, const struct stx_digest *kernel)
{
	return find_live(c, STX__KERNEL, stx__ns_find(c, ns), kernel) != NULL;
}

void stx_cache_kernel_read(struct stx_cache *c, const char *ns, const struct stx_digest *kernel,
			   stx_cache_read_fn *done, void *ctx)
{
	struct stx__entry *e = find_live(c, STX__KERNEL, stx__ns_find(c, ns), kernel);
	read_blob(c, e ? e->blob : NULL, done, ctx);
}

void stx_cache_materialise(struct stx_cache *c, const char *ns, const struct stx_digest *digest,
			   stx_cache_read_fn *done, void *ctx)
{
	struct stx__entry *e;
	struct stx__job *j = read_job(c, done, ctx);
	struct stx__blob *b = find_blob(c, ns, digest, STX__ARTIFACT, &e);
	if (!j)
		return;
	struct stx__file *f = b ? stx__file_get(c, digest) : NULL;
	if (!b || !f) {
		stx__note(c, j, b ? STX_E_NOMEM : STX_E_NOT_FOUND, NULL);
		return;
	}
	if (f->state == STX__F_READY) {
		stx__file_path(c->dir, digest, &j->raw);
		stx__file_touch(c, f);
		stx__note(c, j, j->raw.oom ? STX_E_NOMEM : STX_E_OK, NULL);
		return;
	}
	fill_read(j, STX__JOB_FILE, b);
	j->file = f;
	if (f->state == STX__F_BUSY || f->state == STX__F_REMOVING) {
		j->next = f->waiters;
		f->waiters = j;
		return;
	}
	j->stale = f->state == STX__F_STALE;
	f->state = STX__F_BUSY;
	stx__read_start(c, j);
}

int stx_cache_path(struct stx_cache *c, const char *ns, const struct stx_digest *digest, char *path,
		   size_t cap)
{
	struct stx__entry *e;
	struct stx__file *f =
		find_blob(c, ns, digest, STX__ARTIFACT, &e) ? stx__file_find(c, digest) : NULL;
	if (!f || f->state != STX__F_READY)
		return 0;
	char hex[STX_DIGEST_HEX];
	stx_digest_hex(digest, hex);
	int n = snprintf(path, cap, "%s/files/%.2s/%s.so", c->dir, hex, hex);
	if (n < 0 || (size_t)n >= cap)
		return 0;
	stx__file_touch(c, f);
	return 1;
}

/* ---- memo ---- */
int stx_cache_memo_find(struct stx_cache *c, const struct stx_digest *memo, struct stx_span *value)
{
	struct stx__entry *e = find_live(c, STX__MEMO, NULL, memo);
	if (e)
		*value = (struct stx_span){ e->value, e->value_bytes };
	return e != NULL;
}

void stx_cache_memo_put(struct stx_cache *c, const char *ns, const struct stx_digest *memo,
			struct stx_span value, stx_cache_done_fn *done, void *ctx)
{
	struct put p = { STX__MEMO, ns, *memo, { { 0 } }, value, { 0 }, 0, 1 };
	struct stx__entry *e = stx__entry_find(c, STX__MEMO, NULL, memo);
	if (e && e->state == STX__LIVE && e->value_bytes == value.n &&
	    (!value.n || !memcmp(e->value, value.at, value.n))) {
		if (done)
			done(ctx, STX_E_OK, NULL);
		return;
	}
	submit(c, &p, done, ctx);
}

/* ---- tune records ---- */
int stx_cache_tune_find(struct stx_cache *c, const char *ns, const struct stx_digest *key,
			struct stx_span *value)
{
	struct stx__entry *e = find_live(c, STX__TUNE, stx__ns_find(c, ns), key);
	if (e)
		*value = (struct stx_span){ e->value, e->value_bytes };
	return e != NULL;
}

void stx_cache_tune_put(struct stx_cache *c, const char *ns, const struct stx_digest *key,
			struct stx_span value, int replace, stx_cache_done_fn *done, void *ctx)
{
	struct put p = { STX__TUNE, ns, *key, { { 0 } }, value, { 0 }, 0, replace };
	submit(c, &p, done, ctx);
}

/* ---- failures: a diag in a record of length-prefixed strings ---- */
static void pack_text(struct stx_bytes *b, const char *s, size_t cap)
{
	size_t n = strnlen(s, cap);
	stx_bytes_u32(b, (uint32_t)n);
	stx_bytes_put(b, s, n);
}

static int unpack_text(struct stx_span *s, char *out, size_t cap)
{
	if (s->n < 4)
		return -1;
	uint32_t n = stx_load_u32(s->at);
	if (n > s->n - 4 || n >= cap)
		return -1;
	memcpy(out, s->at + 4, n);
	out[n] = 0;
	s->at += 4 + n;
	s->n -= 4 + n;
	return 0;
}

void stx_cache_failure_put(struct stx_cache *c, const char *ns, const struct stx_digest *key,
			   const struct stx_diag *d)
{
	struct stx_bytes b = { 0 };
	stx_bytes_u32(&b, (uint32_t)d->code);
	pack_text(&b, d->stage, sizeof d->stage);
	pack_text(&b, d->node, sizeof d->node);
	pack_text(&b, d->location, sizeof d->location);
	pack_text(&b, d->text, sizeof d->text);
	struct put p = { STX__FAILURE, ns, *key, { { 0 } }, { b.at, b.n }, { 0 }, 0, 1 };
	if (!b.oom)
		submit(c, &p, NULL, NULL);
	stx_bytes_free(&b);
}

int stx_cache_failure_find(struct stx_cache *c, const char *ns, const struct stx_digest *key,
			   struct stx_diag *out)
{
	struct stx__entry *e = find_live(c, STX__FAILURE, stx__ns_find(c, ns), key);
	struct stx_diag d = { 0 };
	if (!e || e->value_bytes < 4)
		return 0;
	struct stx_span s = { e->value + 4, e->value_bytes - 4 };
	d.code = (stx_err)stx_load_u32(e->value);
	if (!stx_err_is_known(d.code) || !d.code || unpack_text(&s, d.stage, sizeof d.stage) ||
	    unpack_text(&s, d.node, sizeof d.node) ||
	    unpack_text(&s, d.location, sizeof d.location) ||
	    unpack_text(&s, d.text, sizeof d.text))
		return 0;
	*out = d;
	return 1;
}

void stx_cache_failure_drop(struct stx_cache *c, const char *ns, const struct stx_digest *key)
{
	struct stx__entry *e = stx__entry_find(c, STX__FAILURE, stx__ns_find(c, ns), key);
	/* A put of it may still be queued, so that an empty index proves nothing. */
	if (c->closing || (!e && !c->pending_puts))
		return;
	struct stx__job *j = stx__job_new(STX__JOB_ERASE);
	struct stx__ns *n = stx__ns_get(c, ns);
	if (j && n)
		j->entry = stx__entry_new(n, STX__FAILURE, key, (struct stx_span){ 0 });
	stx__ns_put(c, n);
	if (!j || !j->entry) {
		stx__job_free(c, j);
		return;
	}
	if (e && e->state == STX__LIVE)
		stx__index_set_state(c, e, STX__DYING);
	j->charged_bytes = sizeof *j + sizeof *j->entry;
	c->queued_bytes += j->charged_bytes;
	stx__writer_push(&c->writer, j);
}

/* ---- upkeep ---- */
void stx_cache_stats(const struct stx_cache *c, struct stx_cache_stats *out)
{
	*out = (struct stx_cache_stats){
		.artifacts = c->count[STX__ARTIFACT],
		.kernels = c->count[STX__KERNEL],
		.memos = c->count[STX__MEMO],
		.failures = c->count[STX__FAILURE],
		.tunes = c->count[STX__TUNE],
		.bytes = c->bytes,
		.max_bytes = c->max_bytes,
		.files = c->n_files,
		.file_bytes = c->file_bytes,
		.evictions = c->evictions,
		.damaged = c->damaged,
		.writes = atomic_load(&c->writer.writes),
		.commits = atomic_load(&c->writer.commits),
		.write_errors = atomic_load(&c->writer.write_errors),
		.wal_bytes = atomic_load(&c->writer.wal_bytes),
	};
}

void stx_cache_tick(struct stx_cache *c, uint64_t now_ms)
{
	c->now_ms = now_ms;
	if (!c->ticked) {
		c->ticked = 1;
		c->flushed_ms = now_ms;
	}
	if (now_ms < c->flushed_ms)
		c->flushed_ms = now_ms;
	stx__upkeep_tick(c);
}
