/* open.c: opening and closing the store. */
#include "store.h"

#include <sys/file.h>
#include <unistd.h>

#include "log.h"

static void init_lists(struct stx_cache *c)
{
	stx__list_init(&c->lru);
	stx__list_init(&c->broken);
	stx__list_init(&c->dirty);
	stx__list_init(&c->file_lru);
	stx__list_init(&c->doomed);
	stx__queue_init(&c->deferred);
	stx__queue_init(&c->done.q);
	stx__queue_init(&c->writer.q);
	stx__queue_init(&c->readers.q);
	pthread_mutex_init(&c->done.mu, NULL);
	pthread_mutex_init(&c->writer.mu, NULL);
	pthread_cond_init(&c->writer.cv, NULL);
	pthread_cond_init(&c->writer.ckpt_cv, NULL);
	pthread_mutex_init(&c->readers.mu, NULL);
	pthread_cond_init(&c->readers.cv, NULL);
}

static void reset_index(struct stx_cache *c)
{
	stx__index_free(c);
	stx__list_init(&c->lru);
	stx__list_init(&c->broken);
	stx__list_init(&c->dirty);
	c->bytes = c->index_bytes = c->dying_bytes = c->clock = 0;
	memset(c->count, 0, sizeof c->count);
}

static stx_err open_db(struct stx_cache *c, const char *path, enum stx__sql_mode mode,
		       struct stx_diag *d)
{
	int64_t max_id = 0;
	stx_err e = stx__sql_open(&c->writer.db, path, mode, d);
	if (!e)
		e = stx__schema_migrate(c->writer.db.h, stx__schema_steps, stx__schema_n, d);
	if (!e)
		e = stx__index_load(c, &c->writer.db, &max_id, d);
	c->writer.next_id = max_id + 1;
	if (e) {
		stx__sql_close(&c->writer.db);
		reset_index(c);
	}
	return e;
}

static void log_line(void *ctx, const char *text)
{
	(void)ctx;
	stx_log(STX_LOG_WARN, "cache: %s", text);
}

static stx_err rebuild(struct stx_cache *c, const char *why, struct stx_diag *d)
{
	struct stx_fsck_report r = { 0 };
	struct stx__fsck f = { c->dir, log_line, NULL, &r };
	stx_log(STX_LOG_WARN, "cache: %s; rebuilding from the rows that verify", why);
	stx_err e = stx__repair(&f, d);
	c->damaged += r.damaged;
	return e;
}

/* A database that cannot be read through, or could not be written to when last open, is rebuilt
 * from what can be read: a cache must not keep the service from starting. */
static stx_err open_or_repair(struct stx_cache *c, const char *path, enum stx__sql_mode mode,
			      struct stx_diag *d)
{
	struct stx_diag first = { 0 };
	stx_err e = open_db(c, path, mode, &first);
	if (!e && stx__dir_is_damaged(c->dir)) {
		stx__sql_close(&c->writer.db);
		reset_index(c);
		e = stx_fail(&first, STX_E_CORRUPT, "cache", "", "the database was found damaged");
	}
	if (e == STX_E_CORRUPT) {
		e = rebuild(c, first.text, d);
		return e ? e : open_db(c, path, mode, d);
	}
	if (e && d && !d->code)
		*d = first;
	return e;
}

static stx_err start(struct stx_cache *c, const struct stx_cache_config *k, struct stx_diag *d)
{
	enum stx__sql_mode mode = k->synchronous_full ? STX__FULL : STX__NORMAL;
	stx_err e = stx__dir_prepare(c->dir, d);
	char *path = stx__path(c->dir, "db/stax.db");
	if (!e && !path)
		e = STX_E_NOMEM;
	if (!e)
		e = open_or_repair(c, path, mode, d);
	if (!e && stx__files_scan(c))
		e = STX_E_NOMEM;
	if (!e)
		e = stx__sql_open(&c->writer.ckpt_db, path, mode, d);
	c->done.wake = k->wake;
	c->done.wake_ctx = k->wake_ctx;
	c->writer.done = c->readers.done = &c->done;
	c->writer.dir = c->readers.dir = c->dir;
	c->readers.n = k->readers ? k->readers : 2;
	if (c->readers.n > STX__READERS_MAX)
		c->readers.n = STX__READERS_MAX;
	if (!e)
		e = stx__readers_start(&c->readers, path, d);
	if (!e)
		e = stx__checkpoint_start(&c->writer, d);
	if (!e)
		e = stx__writer_start(&c->writer, d);
	free(path);
	return e;
}

static void cancel_all(struct stx_cache *c, struct stx__queue *q)
{
	for (struct stx__job *j; (j = stx__queue_pop(q));) {
		j->e = STX_E_CANCELED;
		if (j->kind == STX__JOB_FILE && j->file) {
			/* The leader of its file: those that wait for it go with stx__file_cancel.
			 */
			j->file->state = STX__F_NONE;
		}
		stx__job_call(j, (struct stx_span){ 0 });
		stx__job_free(c, j);
	}
}

static void tear_down(struct stx_cache *c)
{
	stx__writer_stop(&c->writer);
	stx__readers_stop(&c->readers);
	while (stx_cache_poll(c))
		;
	cancel_all(c, &c->readers.q);
	cancel_all(c, &c->deferred);
	stx__file_cancel(c);
	stx__checkpoint_stop(&c->writer);
	stx__sql_close(&c->writer.ckpt_db);
	stx__sql_close(&c->writer.db);
	stx__index_free(c);
	pthread_mutex_destroy(&c->done.mu);
	pthread_mutex_destroy(&c->writer.mu);
	pthread_cond_destroy(&c->writer.cv);
	pthread_cond_destroy(&c->writer.ckpt_cv);
	pthread_mutex_destroy(&c->readers.mu);
	pthread_cond_destroy(&c->readers.cv);
	if (c->lock_fd >= 0)
		close(c->lock_fd);
	free(c->dir);
	free(c);
}

stx_err stx_cache_open(const struct stx_cache_config *k, struct stx_cache **out, struct stx_diag *d)
{
	*out = NULL;
	struct stx_cache *c = calloc(1, sizeof *c);
	if (!c)
		return stx_fail(d, STX_E_NOMEM, "cache", "", "%s", stx_err_text(STX_E_NOMEM));
	c->lock_fd = -1;
	c->max_bytes = k->max_bytes ? k->max_bytes : 10ull << 30;
	c->grace_ms = k->grace_ms ? k->grace_ms : 600000;
	init_lists(c);
	stx_err e = stx__dir_lock(k->dir, &c->dir, &c->lock_fd, d);
	if (!e && (e = start(c, k, d)))
		stx_diag_at(d, "%s", k->dir);
	if (e) {
		c->closing = 1;
		tear_down(c);
		return stx_fail(d, e, "cache", "", "opening the store: %s", stx_err_text(e));
	}
	stx__evict_slice(c);
	*out = c;
	return STX_E_OK;
}

void stx_cache_close(struct stx_cache *c)
{
	if (!c)
		return;
	while (!stx__list_empty(&c->dirty)) {
		size_t left = 4096;
		struct stx__link *before = c->dirty.next;
		stx__recency_flush(c, left);
		if (c->dirty.next == before) /* out of memory: recency is a hint, leave it */
			break;
	}
	c->closing = 1;
	tear_down(c);
}
