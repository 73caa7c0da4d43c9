/* evict.c: upkeep in slices: eviction to the cap, damaged rows, vacuum, recency. Each slice is one
 * job of at most about 5 ms on the writer, and at most one of each kind is queued. */
#include "store.h"

static int over_cap(const struct stx_cache *c)
{
	return c->bytes - c->dying_bytes > c->max_bytes || c->index_bytes > STX__INDEX_BYTES;
}

static void take(struct stx__job *j, struct stx__entry *e)
{
	struct stx__victim *v = &j->victims[j->n_victims++];
	v->entry = e;
	v->id = e->id;
	v->blob_id = e->blob ? e->blob->id : 0;
	e->pins++;
}

void stx__evict_slice(struct stx_cache *c)
{
	if (c->dropping || c->drop_failed || c->closing ||
	    (stx__list_empty(&c->broken) && !over_cap(c)))
		return;
	/* Far over the cap (a flood of puts): larger slices without a time limit, so that eviction
	 * keeps up with what makes it necessary. */
	int behind = c->bytes - c->dying_bytes > c->max_bytes + c->max_bytes / 32;
	size_t most = behind ? STX__SLICE_JOBS * 16 : STX__SLICE_JOBS;
	struct stx__job *j = stx__job_new(STX__JOB_DROP);
	if (!j || !(j->victims = calloc(most, sizeof *j->victims))) {
		stx__job_free(c, j);
		return;
	}
	j->more = behind;
	struct stx__link *l = c->broken.next;
	for (; l != &c->broken && j->n_victims < most; l = l->next)
		take(j, stx__of(l, struct stx__entry, lru));
	for (l = c->lru.next; l != &c->lru && j->n_victims < most && over_cap(c); l = l->next) {
		struct stx__entry *e = stx__of(l, struct stx__entry, lru);
		if (e->state != STX__LIVE)
			continue;
		stx__index_set_state(c, e, STX__DYING);
		take(j, e);
	}
	c->dropping = 1;
	stx__writer_push(&c->writer, j);
}

void stx__drop_finish(struct stx_cache *c, struct stx__job *j)
{
	c->dropping = 0;
	for (size_t i = 0; i < j->n_victims; i++) {
		struct stx__entry *e = j->victims[i].entry;
		if (e->gone)
			continue;
		if (!j->e && j->victims[i].done) {
			c->evictions += e->state == STX__DYING;
			c->vacuum_wanted = 1;
			stx__index_remove(c, e); /* pinned: freed with the job */
		} else if (e->state == STX__DYING) {
			stx__index_set_state(c, e, STX__LIVE);
		}
	}
	c->drop_failed = j->e != 0;
	stx__evict_slice(c);
}

void stx__recency_flush(struct stx_cache *c, size_t most)
{
	if (stx__list_empty(&c->dirty))
		return;
	struct stx__job *j = stx__job_new(STX__JOB_RECENCY);
	if (!j || !(j->victims = calloc(most, sizeof *j->victims))) {
		stx__job_free(c, j);
		return;
	}
	while (j->n_victims < most && !stx__list_empty(&c->dirty)) {
		struct stx__entry *e = stx__of(c->dirty.next, struct stx__entry, dirty);
		stx__list_del(&e->dirty);
		j->victims[j->n_victims].id = e->id;
		j->victims[j->n_victims++].used = e->used;
	}
	c->flushing = 1;
	stx__writer_push(&c->writer, j);
}

static void vacuum(struct stx_cache *c)
{
	struct stx__job *j = stx__job_new(STX__JOB_VACUUM);
	if (!j)
		return;
	c->vacuuming = 1;
	c->vacuum_wanted = 0;
	stx__writer_push(&c->writer, j);
}

void stx__upkeep_tick(struct stx_cache *c)
{
	c->drop_failed = 0;
	stx__evict_slice(c);
	if (c->vacuum_wanted && !c->vacuuming && !c->dropping)
		vacuum(c);
	if (c->now_ms - c->flushed_ms >= STX__RECENCY_MS && !c->flushing) {
		stx__recency_flush(c, STX__SLICE_JOBS * 4);
		if (stx__list_empty(&c->dirty))
			c->flushed_ms = c->now_ms;
	}
	stx__files_tick(c);
}
