/* jobs.c: the owner's side of jobs: made, charged against the budgets, finished, freed. */
#include "store.h"

#include "log.h"

struct stx__job *stx__job_new(enum stx__job_kind kind)
{
	struct stx__job *j = calloc(1, sizeof *j);
	if (j)
		j->kind = kind;
	return j;
}

void stx__job_free(struct stx_cache *c, struct stx__job *j)
{
	if (!j)
		return;
	for (size_t i = 0; j->victims && i < j->n_victims; i++)
		if (j->victims[i].entry)
			stx__entry_unpin(c, j->victims[i].entry);
	free(j->victims);
	stx__entry_free(c, j->entry);
	stx__blob_free(c, j->blob);
	stx__ns_put(c, j->ns);
	stx_bytes_free(&j->raw);
	stx_bytes_free(&j->stored);
	free(j);
}

void stx__note(struct stx_cache *c, struct stx__job *j, stx_err e, const char *text)
{
	j->kind = STX__JOB_NOTE;
	j->e = e;
	if (e)
		stx_fail(&j->diag, e, "cache", "", "%s", text ? text : stx_err_text(e));
	stx__done_push(&c->done, j);
}

int stx__job_call(struct stx__job *j, struct stx_span contents)
{
	int any = j->done || j->read_done;
	if (j->e && !j->diag.code)
		stx_fail(&j->diag, j->e, "cache", "", "%s", stx_err_text(j->e));
	if (j->done)
		j->done(j->ctx, j->e, j->e ? &j->diag : NULL);
	if (j->read_done)
		j->read_done(j->ctx, j->e, j->e ? (struct stx_span){ 0 } : contents);
	j->done = NULL;
	j->read_done = NULL;
	return any;
}

/* ---- puts ---- */
static void resubmit(struct stx_cache *c, struct stx__job *j)
{
	j->replace = 1;
	c->pending_puts++;
	c->queued_bytes += j->charged_bytes;
	stx__writer_push(&c->writer, j);
}

/* 1 when the job went back to the writer. */
static int finish_put(struct stx_cache *c, struct stx__job *j)
{
	struct stx__entry *n = j->entry;
	c->pending_puts--;
	if (j->e)
		return 0;
	struct stx__entry *old = stx__entry_find(c, n->kind, n->ns, &n->key);
	if (j->existed) {
		/* The row that won is not one we serve: damaged since, or left by a failed removal.
		 */
		if (old && old->state == STX__LIVE)
			return 0;
		if (c->closing) {
			j->e = STX_E_CANCELED;
			return 0;
		}
		resubmit(c, j);
		return 1;
	}
	if (old)
		stx__index_remove(c, old);
	if (j->blob)
		j->blob->id = j->blob_id;
	n->used = j->used;
	stx__index_add(c, n, j->blob);
	j->entry = NULL;
	j->blob = NULL;
	return 0;
}

/* ---- reads ---- */
void stx__read_start(struct stx_cache *c, struct stx__job *j)
{
	size_t cost = j->charged_bytes = (size_t)j->raw_bytes + sizeof *j;
	if (c->reading_bytes && c->reading_bytes + cost > STX__READING_BYTES) {
		stx__queue_push(&c->deferred, j);
		c->n_deferred++;
		return;
	}
	c->reading_bytes += cost;
	stx__readers_push(&c->readers, j);
}

static void start_deferred(struct stx_cache *c)
{
	while (!c->closing && c->n_deferred &&
	       (!c->reading_bytes ||
		c->reading_bytes + c->deferred.first->charged_bytes <= STX__READING_BYTES)) {
		struct stx__job *j = stx__queue_pop(&c->deferred);
		c->n_deferred--;
		c->reading_bytes += j->charged_bytes;
		stx__readers_push(&c->readers, j);
	}
}

void stx__read_damage(struct stx_cache *c, struct stx__job *j)
{
	if (!j->damaged && !j->absent)
		return;
	struct stx__blob *b = stx__blob_find(c, j->ns, &j->digest);
	j->e = STX_E_NOT_FOUND;
	if (!b || b->id != j->blob_id || !b->live) /* replaced, evicted, or known already */
		return;
	char hex[STX_DIGEST_HEX];
	stx_digest_hex(&j->digest, hex);
	stx_log(STX_LOG_WARN, "cache: contents %s are %s; dropped", hex,
		j->damaged ? "damaged" : "gone");
	c->damaged += (uint64_t)(j->damaged != 0);
	for (struct stx__link *l = b->entries.next; l != &b->entries; l = l->next)
		stx__index_set_state(c, stx__of(l, struct stx__entry, in_blob), STX__DAMAGED);
	stx__evict_slice(c);
}

/* ---- all ---- */
static void finish_erase(struct stx_cache *c, struct stx__job *j)
{
	struct stx__entry *k = j->entry, *e = stx__entry_find(c, k->kind, k->ns, &k->key);
	if (e && !j->e)
		stx__index_remove(c, e);
	else if (e && e->state == STX__DYING)
		stx__index_set_state(c, e, STX__LIVE);
}

int stx__job_finish(struct stx_cache *c, struct stx__job *j)
{
	int ran = 0;
	switch (j->kind) {
	case STX__JOB_NOTE: break;
	case STX__JOB_PUT:
		c->queued_bytes -= j->charged_bytes;
		if (finish_put(c, j))
			return 0;
		break;
	case STX__JOB_ERASE:
		c->queued_bytes -= j->charged_bytes;
		finish_erase(c, j);
		break;
	case STX__JOB_DROP: stx__drop_finish(c, j); break;
	case STX__JOB_RECENCY: c->flushing = 0; break;
	case STX__JOB_VACUUM:
		c->vacuuming = 0;
		c->vacuum_wanted |= j->more;
		break;
	case STX__JOB_UNLINK: stx__unlink_finish(c, j); break;
	case STX__JOB_READ:
		c->reading_bytes -= j->charged_bytes;
		stx__read_damage(c, j);
		start_deferred(c);
		break;
	case STX__JOB_FILE:
		c->reading_bytes -= j->charged_bytes;
		start_deferred(c);
		ran = stx__file_finish(c, j);
		break;
	}
	ran += stx__job_call(j, (struct stx_span){ j->raw.at, j->raw.n });
	stx__job_free(c, j);
	return ran;
}
