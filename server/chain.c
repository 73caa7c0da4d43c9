/* chain.c: what key chains and compile chains share: the list, deadlines, priorities, job messages.
 */
#include "chain.h"

void stx__chain_link(struct stx__chain *c, struct stx__server *s)
{
	c->s = s;
	c->prev = NULL;
	c->next = s->chains;
	if (c->next)
		c->next->prev = c;
	s->chains = c;
}

void stx__chain_unlink(struct stx__chain *c)
{
	*(c->prev ? &c->prev->next : &c->s->chains) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	c->s->last_active_ms = stx__now_ms(c->s);
}

uint32_t stx__chain_rank(const struct stx__chain *c)
{
	return c->flight.nwaiters ? c->flight.joins + 1 : 0;
}

void stx__chain_changed(struct stx__chain *c)
{
	if (c->flight.nwaiters)
		c->abandoned = 0;
	c->job.deadline_ms = c->flight.deadline_ms;
	stx__pool_rank(c->s->pool, &c->job, stx__chain_rank(c));
	if (c->kind == STX__CHAIN_COMPILE) {
		struct stx__compile_chain *k = (struct stx__compile_chain *)c;
		for (uint32_t i = 0; i < k->next_slot; i++)
			if (k->slots[i].job)
				stx__kernel_job_changed(k->slots[i].job);
	}
}

/* ---- abandoned chains ----
 * A result that nobody waits for is still worth storing when little is left to do, but not worth a
 * worker that somebody else wants. With the last waiter gone a chain of which nothing runs ends at
 * once. Otherwise it goes on behind everybody else for cfg.abandoned ms at most, and ends, its
 * worker killed and replaced, as soon as a job that is waited for has no worker. */

/* A job of it, or a read from the store, is under way. */
static int under_way(const struct stx__chain *c)
{
	const struct stx__compile_chain *k = (const struct stx__compile_chain *)c;
	if (c->job.process)
		return 1;
	if (c->kind != STX__CHAIN_COMPILE)
		return 0;
	for (uint32_t i = 0; i < k->next_slot; i++)
		if (k->slots[i].job && stx__kernel_job_running(k->slots[i].job))
			return 1;
	return k->refs != 0;
}

static void stop(struct stx__chain *c)
{
	const struct stx__compile_chain *k = (const struct stx__compile_chain *)c;
	if (c->kind == STX__CHAIN_COMPILE && k->has_link)
		return; /* only the commit is left */
	c->s->stats.abandoned++;
	stx__chain_abort(c);
}

void stx__chain_waiter_left(struct stx__chain *c)
{
	struct stx__server *s = c->s;
	uint64_t until = stx__now_ms(s) + s->cfg.abandoned;
	if (c->flight.nwaiters || !c->flight.table)
		return;
	if (stx__pool_queued(s->pool) >= s->cfg.queue || !under_way(c)) {
		stop(c);
		return;
	}
	c->abandoned = 1;
	if (c->flight.deadline_ms > until)
		c->flight.deadline_ms = until;
	stx__chain_changed(c);
}

static void look_at_abandoned(struct stx__chain *c, uint64_t now_ms)
{
	if (!c->abandoned)
		stx__chain_waiter_left(c); /* at its deadline */
	else if (c->flight.deadline_ms <= now_ms || stx__pool_short(c->s->pool))
		stop(c);
}

void stx__chain_abort(struct stx__chain *c)
{
	if (c->kind == STX__CHAIN_KEY)
		stx__key_chain_abort((struct stx__key_chain *)c);
	else
		stx__compile_chain_abort((struct stx__compile_chain *)c);
}

void stx__chains_reap(struct stx__server *s, int all)
{
	for (struct stx__chain *c = s->chains, *next; c; c = next) {
		struct stx__compile_chain *k = (struct stx__compile_chain *)c;
		next = c->next;
		if (c->kind == STX__CHAIN_COMPILE && k->dead && (all || !k->refs))
			stx__compile_chain_free(k);
	}
}

void stx__chains_tick(struct stx__server *s, uint64_t now_ms)
{
	stx__chains_reap(s, 0);
	for (struct stx__chain *c = s->chains, *next; c; c = next) {
		next = c->next;
		if (c->flight.nwaiters)
			stx__flight_expire(&c->flight, now_ms);
		if (!c->flight.nwaiters && c->flight.table)
			look_at_abandoned(c, now_ms);
	}
}

/* ---- messages ---- */

stx_err stx__job_send(const struct stx__spec *spec, Stx__JobKind kind, const char *config, int sock,
		      uint64_t id, const struct stx_span *pieces, uint32_t n, int fd,
		      struct stx_diag *d)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__Job j;
	uint64_t one = 0, *sizes = n > 1 ? calloc(n, sizeof *sizes) : &one;
	if (!sizes)
		return stx_fail(d, STX_E_NOMEM, "channel", "", "out of memory");
	stx_jobs_fill(&j, kind, spec->what, pieces, n, sizes);
	if (config)
		j.config = (char *)(uintptr_t)config;
	e.request_id = id;
	e.msg_case = STX__ENVELOPE__MSG_JOB;
	e.job = &j;
	stx_err err = stx__channel_send(sock, &e, pieces, n, fd, d);
	if (sizes != &one)
		free(sizes);
	return err;
}
