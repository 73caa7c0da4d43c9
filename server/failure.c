/* failure.c: who is told what when a job ends badly, and whether it is tried again. */
#include "chain.h"

#define OUTSIDE_KILLS     3u
#define OUTSIDE_KILLS_MAX 8u

/* Deterministic diagnostics, and internal faults (which are not cached), are everybody's. */
int stx__failure_is_final(const struct stx__outcome *o)
{
	return o->fate == STX__FATE_DIAGNOSED && stx__flight_deterministic(o->diag.code);
}

static enum stx__next end_for_all(struct stx__flight *f, const struct stx_diag *d)
{
	stx__flight_land(f);
	stx__flight_finish(f, d);
	return STX__NEXT_END;
}

/* The leader is told; the others go on without it. */
static enum stx__next end_for_leader(struct stx__flight *f, const struct stx_diag *d)
{
	stx__flight_fail_leader(f, d);
	if (f->nwaiters)
		return STX__NEXT_RESTART;
	stx__flight_land(f);
	return STX__NEXT_END;
}

static enum stx__next quarantined(struct stx__flight *f, const struct stx_diag *d)
{
	struct stx_diag refused = { 0 };
	stx_fail(&refused, STX_E_QUARANTINED, d->stage, "",
		 "this graph has brought workers down %u times: %s", STX__QUARANTINE_KILLS,
		 d->text);
	stx__flight_land(f);
	stx__flight_fail_leader(f, d);
	stx__flight_finish(f, &refused);
	return STX__NEXT_END;
}

static enum stx__next died(struct stx__server *s, struct stx__flight *f, struct stx__attempts *a,
			   const struct stx__outcome *o)
{
	int bad = stx__quarantine_count(&s->quarantine, &f->id, stx__now_ms(s));
	if (bad)
		return quarantined(f, &o->diag);
	if (o->fate != STX__FATE_CRASHED)
		return end_for_leader(f, &o->diag); /* it would need as much again */
	if (a->crashes++)
		return end_for_leader(f, &o->diag);
	s->stats.retries++;
	return STX__NEXT_RETRY;
}

static enum stx__next diagnosed(struct stx__server *s, struct stx__flight *f,
				const struct stx__outcome *o)
{
	if (stx__flight_deterministic(o->diag.code) || o->diag.code == STX_E_INTERNAL)
		return end_for_all(f, &o->diag);
	if (o->diag.code == STX_E_NOMEM) {
		struct stx_diag d = { 0 };
		stx_fail(&d, STX_E_TOO_LARGE, o->diag.stage, o->diag.node,
			 "out of memory within the limit worker_memory = %lluMiB: %s",
			 (unsigned long long)(s->cfg.worker_memory >> 20), o->diag.text);
		return end_for_leader(f, &d);
	}
	return end_for_leader(f, &o->diag);
}

static uint64_t outside_kills(const struct stx__server *s)
{
	uint64_t n = s->cfg.workers + OUTSIDE_KILLS;
	return n < OUTSIDE_KILLS_MAX ? n : OUTSIDE_KILLS_MAX;
}

enum stx__next stx__failure_route(struct stx__server *s, struct stx__flight *f,
				  struct stx__attempts *a, const struct stx__outcome *o)
{
	switch (o->fate) {
	case STX__FATE_DIAGNOSED: return diagnosed(s, f, o);
	case STX__FATE_CRASHED:
	case STX__FATE_MEMORY:
	case STX__FATE_CPU: return died(s, f, a, o);
	case STX__FATE_DEADLINE:
		stx__flight_expire(f, stx__now_ms(s));
		if (f->nwaiters)
			return STX__NEXT_RETRY; /* a later waiter has moved the deadline */
		stx__flight_land(f);
		return STX__NEXT_END;
	case STX__FATE_KILLED:
		/* One sweep through all workers may hit each attempt once. */
		if (++a->outside < outside_kills(s)) {
			s->stats.retries++;
			return STX__NEXT_RETRY;
		}
		a->outside = 0;
		return end_for_leader(f, &o->diag);
	default: return end_for_all(f, &o->diag);
	}
}
