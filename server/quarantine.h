/* quarantine.h
 * graphs that killed workers: counted by digest, refused for a while after the second time. In
 * memory. */
#ifndef STX_QUARANTINE_H
#define STX_QUARANTINE_H

#include "table.h"

#define STX__QUARANTINE_KILLS       2u
#define STX__QUARANTINE_ENTRIES_MAX 4096u

struct stx__quarantine {
	struct stx__table table;
	uint64_t period_ms, next_scan_ms;
};

/* Counts one kill. Returns 1 when the graph is quarantined from now on. */
int stx__quarantine_count(struct stx__quarantine *q, const struct stx_digest *id, uint64_t now_ms);
/* 1 when one kill more will quarantine the graph. */
int stx__quarantine_is_next(struct stx__quarantine *q, const struct stx_digest *id,
			    uint64_t now_ms);
/* 1 when refused, with *until_ms. */
int stx__quarantine_has(struct stx__quarantine *q, const struct stx_digest *id, uint64_t now_ms,
			uint64_t *until_ms);
/* It compiled after all: its kills are forgotten. */
void stx__quarantine_forget(struct stx__quarantine *q, const struct stx_digest *id);
void stx__quarantine_free(struct stx__quarantine *q);

#endif
