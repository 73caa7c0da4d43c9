/* quarantine.c: counting kills by graph. */
#include "quarantine.h"

#include <stdlib.h>

struct entry {
	uint32_t kills;
	uint64_t until_ms; /* the count, or the refusal, expires then */
};

static void expire_all(struct stx__quarantine *q, uint64_t now_ms)
{
	struct stx__table kept = { 0 };
	for (uint32_t i = 0; i < q->table.cap; i++) {
		struct stx__slot *s = &q->table.at[i];
		struct entry *e = s->value;
		if (e && (e->until_ms <= now_ms || stx__table_set(&kept, &s->key, e)))
			free(e);
	}
	stx__table_free(&q->table);
	q->table = kept;
}

static struct entry *find(struct stx__quarantine *q, const struct stx_digest *id, uint64_t now_ms)
{
	struct entry *e = stx__table_get(&q->table, id);
	if (e && e->until_ms <= now_ms) {
		free(stx__table_del(&q->table, id));
		e = NULL;
	}
	return e;
}

int stx__quarantine_count(struct stx__quarantine *q, const struct stx_digest *id, uint64_t now_ms)
{
	struct entry *e = find(q, id, now_ms);
	if (!e) {
		/* Full: looked through now and then, not for every kill. */
		if (q->table.n >= STX__QUARANTINE_ENTRIES_MAX && now_ms >= q->next_scan_ms) {
			expire_all(q, now_ms);
			q->next_scan_ms = now_ms + q->period_ms / 8 + 1;
		}
		if (q->table.n >= STX__QUARANTINE_ENTRIES_MAX || !(e = calloc(1, sizeof *e)))
			return 0;
		if (stx__table_set(&q->table, id, e)) {
			free(e);
			return 0;
		}
	}
	e->until_ms = now_ms + q->period_ms;
	return ++e->kills >= STX__QUARANTINE_KILLS;
}

int stx__quarantine_is_next(struct stx__quarantine *q, const struct stx_digest *id, uint64_t now_ms)
{
	struct entry *e = q->table.n ? find(q, id, now_ms) : NULL;
	return e && e->kills + 1 >= STX__QUARANTINE_KILLS;
}

int stx__quarantine_has(struct stx__quarantine *q, const struct stx_digest *id, uint64_t now_ms,
			uint64_t *until_ms)
{
	struct entry *e = q->table.n ? find(q, id, now_ms) : NULL;
	if (!e || e->kills < STX__QUARANTINE_KILLS)
		return 0;
	*until_ms = e->until_ms;
	return 1;
}

void stx__quarantine_forget(struct stx__quarantine *q, const struct stx_digest *id)
{
	if (q->table.n)
		free(stx__table_del(&q->table, id));
}

void stx__quarantine_free(struct stx__quarantine *q)
{
	for (uint32_t i = 0; i < q->table.cap; i++)
		free(q->table.at[i].value);
	stx__table_free(&q->table);
}
