/* flight.c: flights and their waiters. */
#include "flight.h"

#include <assert.h>

struct stx__flight *stx__flight_find(const struct stx__table *t, const struct stx_digest *id)
{
	return stx__table_get(t, id);
}

int stx__flight_start(struct stx__table *t, struct stx__flight *f, const struct stx_digest *id)
{
	assert(!stx__table_get(t, id));
	f->id = *id;
	f->stage = "queue";
	if (stx__table_set(t, id, f))
		return -1;
	f->table = t;
	return 0;
}

void stx__flight_land(struct stx__flight *f)
{
	if (f->table)
		stx__table_del(f->table, &f->id);
	f->table = NULL;
}

void stx__flight_join(struct stx__flight *f, struct stx__waiter *w)
{
	assert(!w->flight);
	w->flight = f;
	w->next = NULL;
	w->prev = f->last;
	*(f->last ? &f->last->next : &f->first) = w;
	f->last = w;
	if (f->nwaiters++)
		f->joins++;
	if (w->deadline_ms > f->deadline_ms)
		f->deadline_ms = w->deadline_ms;
}

void stx__flight_leave(struct stx__waiter *w)
{
	struct stx__flight *f = w->flight;
	if (!f)
		return;
	*(w->prev ? &w->prev->next : &f->first) = w->next;
	*(w->next ? &w->next->prev : &f->last) = w->prev;
	w->next = w->prev = NULL;
	w->flight = NULL;
	f->nwaiters--;
}

void stx__flight_progress(struct stx__flight *f, const char *stage, uint32_t done, uint32_t total)
{
	f->stage = stage;
	for (struct stx__waiter *w = f->first; w; w = w->next)
		if (w->progress)
			w->progress(w, stage, done, total);
}

uint32_t stx__flight_expire(struct stx__flight *f, uint64_t now_ms)
{
	uint32_t n = 0;
	for (struct stx__waiter *w = f->first, *next; w; w = next) {
		next = w->next;
		if (w->deadline_ms > now_ms)
			continue;
		struct stx_diag d = { 0 };
		stx_fail(&d, STX_E_DEADLINE, f->stage, "", "the deadline passed in stage %s",
			 f->stage);
		stx__flight_leave(w);
		w->done(w, f, &d);
		n++;
	}
	return n;
}

int stx__flight_deterministic(stx_err e)
{
	return e == STX_E_INVALID || e == STX_E_UNSUPPORTED || e == STX_E_MISMATCH ||
	       e == STX_E_TOO_LARGE || e == STX_E_COMPILE || e == STX_E_BOUNDS;
}

void stx__flight_finish(struct stx__flight *f, const struct stx_diag *failure)
{
	while (f->first) {
		struct stx__waiter *w = f->first;
		stx__flight_leave(w);
		w->done(w, f, failure);
	}
}

void stx__flight_fail_leader(struct stx__flight *f, const struct stx_diag *failure)
{
	struct stx__waiter *w = f->first;
	if (!w)
		return;
	stx__flight_leave(w);
	w->done(w, f, failure);
}
