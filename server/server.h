/* server.h
 * the daemon as one object: what its modules share. One loop thread owns everything here.
 *
 * Order of dependence: connection -> request -> chains (key, compile, kernel jobs) -> flights,
 * pool, store. */
#ifndef STX_SERVER_H
#define STX_SERVER_H

#include <uv.h>

#include "blob.h"
#include "cache.h"
#include "clock.h"
#include "config.h"
#include "flight.h"
#include "pool.h"
#include "quarantine.h"
#include "reply_cache.h"
#include "stats.h"
#include "table.h"

struct stx__conn;
struct stx__listener;
struct stx__pending;
struct stx__chain;
struct stx__unstored;

/* Room for one read: what a connection may bring in one turn of the loop. */
#define STX__SLICE_BYTES (256u << 10)

struct stx__server {
	uv_loop_t *loop;
	struct stx_config cfg;
	struct stx__stats stats;
	uint64_t started_ms;
	uint8_t *scratch; /* [STX__SLICE_BYTES], used within one callback */

	/* listen.c, connection.c */
	struct stx__listener *listeners;
	struct stx__conn *conns;
	uint32_t nconns;
	uint64_t received_bytes; /* charged bytes of unanswered requests */
	uint64_t unsent_bytes;   /* of replies queued or being fetched, of all connections */
	struct stx__fetch *fetch_first, *fetch_last; /* fetches that wait for room */
	int fetching;

	/* request.c */
	int ready; /* the fingerprint is known */
	struct stx_digest fingerprint;
	struct stx__pending *parked; /* requests that came before */
	struct stx__reply_cache replies;
	struct stx__unstored *unstored, *unstored_last;
	uint64_t unstored_bytes;
	struct stx__table materialising;
	struct stx__table memos; /* on their way to the store: struct stx__underway, by memo */
	struct stx__table tunes; /* and tune records */
	uint64_t tunes_epoch;    /* counts what answers with choices may depend on */

	/* chains */
	struct stx__table key_flights, compile_flights, kernel_jobs;
	struct stx__chain *chains;
	struct stx__quarantine quarantine;
	struct stx__pool *pool;

	struct stx_cache *cache;
	uv_async_t cache_wake;
	uv_timer_t tick;
	uint64_t tick_ms, last_upkeep_ms, last_active_ms;
	uint64_t last_work_ms; /* 0: the heap has been given back since */
	uv_signal_t signals[2];

	/* drain.c */
	int draining;
	uint64_t drain_until_ms, drain_since_us; /* by stx_clock_us */
	int exit_status;
};

/* Opens the store, starts the first worker and listens. The loop is the caller's. */
stx_err stx_server_new(uv_loop_t *loop, const struct stx_config *cfg, struct stx__server **out,
		       struct stx_diag *d);
/* Orderly end: no new connections, flights finish within a limit, then the loop runs out of
 * handles. */
void stx_server_drain(struct stx__server *s);
/* After the loop has ended: closes the store and frees everything. Returns the exit status. */
int stx_server_free(struct stx__server *s);

/* ---- shared by the modules ---- */

static inline uint64_t stx__now_ms(const struct stx__server *s)
{
	return uv_now(s->loop);
}
/* Work has begun: the tick becomes fast. */
void stx__server_busy(struct stx__server *s);
/* drain.c: called by the tick; moves an orderly end along. */
void stx__drain_step(struct stx__server *s);
/* Ends what is left and closes every handle. */
void stx__drain_end(struct stx__server *s);

/* listen.c */
stx_err stx__listen_all(struct stx__server *s, struct stx_diag *d);
void stx__listen_close(struct stx__server *s);
void stx__listen_resume(struct stx__server *s); /* after running out of descriptors */
void stx__listen_free(struct stx__server *s);

#endif
