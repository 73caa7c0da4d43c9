/* drain.c: the orderly end: no new work, flights finish within a limit, the store closes. */
#include "chain.h"
#include "connection.h"
#include "log.h"

void stx_server_drain(struct stx__server *s)
{
	if (s->draining)
		return;
	s->draining = 1;
	s->drain_since_us = stx_clock_us();
	s->drain_until_ms = stx__now_ms(s) + s->cfg.drain;
	stx__listen_close(s);
	stx__server_busy(s);
}

static void close_handle(uv_handle_t *h)
{
	if (h->type != UV_UNKNOWN_HANDLE && !uv_is_closing(h))
		uv_close(h, NULL);
}

void stx__drain_end(struct stx__server *s)
{
	for (struct stx__chain *c = s->chains, *next; c; c = next) {
		next = c->next;
		stx__chain_abort(c);
	}
	if (s->cache) {
		/* Writes that are queued are done first. The callbacks of the rest run in here, and
		 * may look at the store no more. */
		struct stx_cache *cache = s->cache;
		stx_cache_close(cache);
		s->cache = NULL;
	}
	for (struct stx__conn *c = s->conns; c; c = c->next)
		stx__conn_close(c);
	if (s->pool)
		stx__pool_close(s->pool);
	stx__listen_close(s);
	close_handle((uv_handle_t *)&s->cache_wake);
	close_handle((uv_handle_t *)&s->tick);
	for (int i = 0; i < 2; i++)
		close_handle((uv_handle_t *)&s->signals[i]);
}

static int replies_unsent(const struct stx__server *s)
{
	for (const struct stx__conn *c = s->conns; c; c = c->next)
		if (c->first || c->fetches)
			return 1;
	return 0;
}

void stx__drain_step(struct stx__server *s)
{
	if (uv_is_closing((uv_handle_t *)&s->tick))
		return;
	if ((s->chains || s->parked || replies_unsent(s)) && stx__now_ms(s) < s->drain_until_ms)
		return;
	stx__drain_end(s);
}
