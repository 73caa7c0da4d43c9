/* stats.h
 * counters, and the list `stax stats` shows: counters, then gauges of the daemon and the store. */
#ifndef STX_STATS_H
#define STX_STATS_H

#include <stdint.h>

struct stx__stats {
#define STX_STAT(name, text) uint64_t name;
#include "stats.def"
#undef STX_STAT
};

/* Reply to Stats: names in a fixed order and their values. Both arrays have STX__STATS_LIST
 * entries. */
#define STX__STATS_LIST_MAX 64
struct stx__stats_list {
	const char *names[STX__STATS_LIST_MAX];
	uint64_t values[STX__STATS_LIST_MAX];
	uint32_t n;
};
struct stx__server;
void stx__stats_collect(const struct stx__server *s, struct stx__stats_list *out);
void stx__stats_zero(struct stx__server *s);

#endif
