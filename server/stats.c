/* stats.c: the list of counters and gauges. */
#include "stats.h"

#include <string.h>

#include "server.h"

static void add(struct stx__stats_list *l, const char *name, uint64_t value)
{
	if (l->n == STX__STATS_LIST_MAX)
		return;
	l->names[l->n] = name;
	l->values[l->n++] = value;
}

void stx__stats_collect(const struct stx__server *s, struct stx__stats_list *l)
{
	struct stx_cache_stats st = { 0 };
	l->n = 0;
#define STX_STAT(name, text) add(l, #name, s->stats.name);
#include "stats.def"
#undef STX_STAT
	if (s->cache)
		stx_cache_stats(s->cache, &st);
	add(l, "connections", s->nconns);
	add(l, "workers", s->cfg.workers);
	add(l, "workers_busy", stx__pool_busy(s->pool));
	add(l, "queued", stx__pool_queued(s->pool));
	add(l, "flights", s->key_flights.n + s->compile_flights.n);
	add(l, "received_bytes", s->received_bytes);
	add(l, "unsent_bytes", s->unsent_bytes);
	add(l, "replies_bytes", s->replies.bytes);
	add(l, "unstored_bytes", s->unstored_bytes);
	add(l, "uptime_ms", stx__now_ms(s) - s->started_ms);
	add(l, "store_artifacts", st.artifacts);
	add(l, "store_kernels", st.kernels);
	add(l, "store_memos", st.memos);
	add(l, "store_tunes", st.tunes);
	add(l, "store_failures", st.failures);
	add(l, "store_bytes", st.bytes);
	add(l, "store_max_bytes", st.max_bytes);
	add(l, "store_files", st.files);
	add(l, "store_file_bytes", st.file_bytes);
	add(l, "store_evictions", st.evictions);
	add(l, "store_damaged", st.damaged);
	add(l, "store_writes", st.writes);
	add(l, "store_commits", st.commits);
	add(l, "store_write_errors", st.write_errors);
	add(l, "store_wal_bytes", st.wal_bytes);
}

void stx__stats_zero(struct stx__server *s)
{
	memset(&s->stats, 0, sizeof s->stats);
}
