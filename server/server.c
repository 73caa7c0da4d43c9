/* server.c: the daemon's life: start, tick, end. */
#include "server.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "chain.h"
#include "connection.h"
#include "directory.h"
#include "log.h"
#include "request.h"

#define TICK_BUSY_MS 50u
#define TICK_IDLE_MS 1000u
#define UPKEEP_MS    1000u
#define QUIET_MS     3000u

#define HEAP_KEPT_BYTES ((size_t)1 << 20)

/* ---- the store's completions ---- */

static void wake(void *ctx)
{
	uv_async_send(ctx);
}

static void on_wake(uv_async_t *a)
{
	struct stx__server *s = a->data;
	if (s->cache)
		stx_cache_poll(s->cache);
}

/* ---- workers ---- */

static void on_workers_ready(void *ctx, const struct stx_digest *fingerprint)
{
	struct stx__server *s = ctx;
	if (s->ready)
		stx__request_restart(s);
	s->fingerprint = *fingerprint;
	s->ready = 1;
	stx__reply_cache_clear(&s->replies);
	stx__request_ready(s);
}

static void on_workers_broken(void *ctx, const struct stx_diag *d, int fatal)
{
	struct stx__server *s = ctx;
	stx__request_broken(s, d);
	if (!fatal || s->draining)
		return;
	stx_log(STX_LOG_ERROR, "%s", d->text);
	s->exit_status = stx_err_exit_code(d->code);
	stx_server_drain(s);
}

static const char *sched_name(uint64_t v)
{
	return v == 2 ? "idle" : v == 1 ? "nice" : "normal";
}

static struct stx__pool *start_pool(struct stx__server *s)
{
	struct stx__pool_config c = { .loop = s->loop,
				      .workers = (uint32_t)s->cfg.workers,
				      .memory_bytes = s->cfg.worker_memory,
				      .cpu_s = s->cfg.worker_cpu,
				      .jobs_max = s->cfg.worker_jobs,
				      .recycle_bytes = s->cfg.worker_recycle,
				      .sched = sched_name(s->cfg.worker_sched),
				      .require_sandbox = (int)s->cfg.require_sandbox,
				      .cuda = (int)s->cfg.cuda,
				      .stats = &s->stats,
				      .ready = on_workers_ready,
				      .broken = on_workers_broken,
				      .ctx = s };
	return stx__pool_new(&c);
}

/* ---- the tick ---- */

/* A burst leaves a heap many times what an idle daemon needs: free pages go back to the system once
 * things have been quiet. */
static void give_back_heap(struct stx__server *s, uint64_t now)
{
	if (!s->last_work_ms || now - s->last_work_ms < QUIET_MS)
		return;
	s->last_work_ms = 0;
	malloc_trim(HEAP_KEPT_BYTES);
}

static void on_tick(uv_timer_t *t)
{
	struct stx__server *s = t->data;
	uint64_t now = stx__now_ms(s);
	if (!s->pool)
		return;
	stx__request_expire_parked(s, now);
	stx__chains_tick(s, now);
	stx__pool_tick(s->pool, now);
	stx__conns_tick(s, now);
	if (now - s->last_upkeep_ms >= UPKEEP_MS && s->cache) {
		s->last_upkeep_ms = now;
		stx_cache_tick(s->cache, now);
		if (!s->draining)
			stx__listen_resume(s);
	}
	int busy = s->chains || s->parked || s->draining;
	if (busy || s->nconns)
		s->last_active_ms = now;
	else if (s->cfg.idle_exit && now - s->last_active_ms >= s->cfg.idle_exit * 1000) {
		stx_log(STX_LOG_INFO, "ending: idle for %llu s",
			(unsigned long long)s->cfg.idle_exit);
		stx_server_drain(s);
	}
	if (busy)
		s->last_work_ms = now;
	else
		give_back_heap(s, now);
	if (s->draining)
		stx__drain_step(s);
	else if (!busy && s->tick_ms != TICK_IDLE_MS)
		uv_timer_start(t, on_tick, s->tick_ms = TICK_IDLE_MS, TICK_IDLE_MS);
}

void stx__server_busy(struct stx__server *s)
{
	if (s->tick_ms == TICK_BUSY_MS || uv_is_closing((uv_handle_t *)&s->tick))
		return;
	s->tick_ms = TICK_BUSY_MS;
	s->last_work_ms = stx__now_ms(s);
	uv_timer_start(&s->tick, on_tick, TICK_BUSY_MS, TICK_BUSY_MS);
}

static void on_signal(uv_signal_t *h, int signo)
{
	struct stx__server *s = h->data;
	stx_log(STX_LOG_INFO, "ending: signal %d", signo);
	if (s->draining)
		s->drain_until_ms = 0; /* asked twice: at once */
	stx_server_drain(s);
}

/* ---- life ---- */

static stx_err open_store(struct stx__server *s, struct stx_diag *d)
{
	struct stx_cache_config c = { .dir = s->cfg.cache_dir,
				      .max_bytes = s->cfg.max_size,
				      .synchronous_full = (int)s->cfg.synchronous_full,
				      .wake = wake,
				      .wake_ctx = &s->cache_wake };
	stx_err e = stx__directory_make(s->cfg.cache_dir, d);
	return e ? e : stx_cache_open(&c, &s->cache, d);
}

static int start_handles(struct stx__server *s)
{
	static const int signals[2] = { SIGTERM, SIGINT };
	if (uv_async_init(s->loop, &s->cache_wake, on_wake) || uv_timer_init(s->loop, &s->tick))
		return -1;
	s->cache_wake.data = s->tick.data = s;
	for (int i = 0; i < 2; i++) {
		if (uv_signal_init(s->loop, &s->signals[i]))
			return -1;
		s->signals[i].data = s;
		uv_signal_start(&s->signals[i], on_signal, signals[i]);
	}
	return 0;
}

stx_err stx_server_new(uv_loop_t *loop, const struct stx_config *cfg, struct stx__server **out,
		       struct stx_diag *d)
{
	struct stx__server *s = calloc(1, sizeof *s);
	*out = NULL;
	if (!s || !(s->scratch = malloc(STX__SLICE_BYTES))) {
		free(s);
		return stx_fail(d, STX_E_NOMEM, "start", "", "out of memory");
	}
	s->loop = loop;
	s->cfg = *cfg;
	uv_update_time(loop);
	s->started_ms = s->last_active_ms = stx__now_ms(s);
	s->replies.max_bytes = cfg->reply_cache;
	s->quarantine.period_ms = cfg->quarantine;
	s->tunes_epoch = 1;
	*out = s;
	if (start_handles(s))
		return stx_fail(d, STX_E_INTERNAL, "start", "", "out of descriptors or memory");
	stx_err e = open_store(s, d);
	if (!e)
		e = stx__listen_all(s, d);
	if (!e && !(s->pool = start_pool(s)))
		e = stx_fail(d, STX_E_NOMEM, "start", "", "out of memory");
	if (e) {
		stx__drain_end(s);
		return e;
	}
	s->tick_ms = TICK_IDLE_MS;
	stx__server_busy(s);
	return STX_E_OK;
}

int stx_server_free(struct stx__server *s)
{
	int status = s->exit_status;
	stx__chains_reap(s, 1);
	stx__listen_free(s);
	stx__pool_free(s->pool);
	stx__reply_cache_clear(&s->replies);
	stx__unstored_clear(s);
	stx__fetch_end(s);
	stx__quarantine_free(&s->quarantine);
	stx__table_free(&s->key_flights);
	stx__table_free(&s->compile_flights);
	stx__table_free(&s->kernel_jobs);
	stx__table_free(&s->materialising);
	stx__table_free(&s->memos);
	stx__table_free(&s->tunes);
	free(s->scratch);
	free(s);
	return status;
}
