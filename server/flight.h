/* flight.h
 * flights: requests for the same thing share one computation. Knows nothing of workers, sockets or
 * time sources; the owner embeds struct stx__flight and runs the jobs.
 *
 * Rules (design: a request, 5): a joiner raises the priority; the deadline of a flight is the
 * latest one of any waiter it ever had; only a deterministic compiler diagnostic reaches every
 * waiter, anything else the leader alone, and the flight then goes on for the others under a new
 * leader. */
#ifndef STX_FLIGHT_H
#define STX_FLIGHT_H

#include "status.h"
#include "table.h"

struct stx__flight;

/* One request that waits. Embedded in the request; on no flight when `flight` is NULL. */
struct stx__waiter {
	struct stx__waiter *next, *prev;
	struct stx__flight *flight;
	uint64_t deadline_ms;
	/* Called once, after the waiter has left the flight: failure NULL means success. */
	void (*done)(struct stx__waiter *w, struct stx__flight *f, const struct stx_diag *failure);
	/* May be NULL. */
	void (*progress)(struct stx__waiter *w, const char *stage, uint32_t done, uint32_t total);
};

struct stx__flight {
	struct stx_digest id;
	struct stx__table *table;         /* NULL once it landed */
	struct stx__waiter *first, *last; /* first is the leader */
	uint32_t nwaiters;
	uint32_t joins; /* waiters beyond the first: the priority */
	uint64_t deadline_ms;
	const char *stage; /* what it is doing, for messages */
};

/* The flight of id in the table, or NULL. */
struct stx__flight *stx__flight_find(const struct stx__table *t, const struct stx_digest *id);
/* Enters a zeroed flight. 0, or -1 when out of memory. */
int stx__flight_start(struct stx__table *t, struct stx__flight *f, const struct stx_digest *id);
/* Takes it out of the table, so that no one joins any more. Waiters stay. Harmless when done
 * already. */
void stx__flight_land(struct stx__flight *f);

void stx__flight_join(struct stx__flight *f, struct stx__waiter *w);
void stx__flight_leave(struct stx__waiter *w);
void stx__flight_progress(struct stx__flight *f, const char *stage, uint32_t done, uint32_t total);
/* Waiters whose deadline has passed get DEADLINE and leave. Returns how many. */
uint32_t stx__flight_expire(struct stx__flight *f, uint64_t now_ms);

/* A compiler's verdict on the graph that any later run would repeat. */
int stx__flight_deterministic(stx_err e);
/* Every waiter gets the result (NULL: success) and leaves. */
void stx__flight_finish(struct stx__flight *f, const struct stx_diag *failure);
/* The leader alone gets it. */
void stx__flight_fail_leader(struct stx__flight *f, const struct stx_diag *failure);

#endif
