/* service.c: stats and ping. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define REPLY_MS 10000

static stx_err ask(struct stax_client *c, Stx__Envelope *m, Stx__Envelope__MsgCase want,
		   struct stx__received *r, struct stx_diag *d)
{
	struct stx__wait w = { .deadline_ns = stx_clock_ns() + REPLY_MS * 1000000ull };
	stx_err e = stx__roundtrip(c, m, (struct stx_span){ NULL, 0 }, &w, r, d);
	if (e || r->e->msg_case == want)
		return e;
	stx__received_free(r);
	return stx_fail(d, STX_E_PROTOCOL, "service", "", "unexpected reply");
}

void stax_stats_free(char **names, uint64_t *values, size_t n)
{
	for (size_t i = 0; names && i < n; i++)
		free(names[i]);
	free(names);
	free(values);
}

/* Copies n pairs to the heap. */
static stx_err give_stats(char *const *from, const uint64_t *counts, size_t n, char ***names,
			  uint64_t **values, size_t *out_n, struct stx_diag *d)
{
	*names = calloc(n + 1, sizeof **names);
	*values = calloc(n + 1, sizeof **values);
	*out_n = n;
	int ok = *names && *values;
	for (size_t i = 0; ok && i < n; i++) {
		(*values)[i] = counts[i];
		ok = ((*names)[i] = strdup(from[i])) != NULL;
	}
	if (ok)
		return STX_E_OK;
	stax_stats_free(*names, *values, n);
	*names = NULL;
	*values = NULL;
	*out_n = 0;
	return stx_fail(d, STX_E_NOMEM, "service", "", "out of memory");
}

static stx_err private_stats(struct stax_client *c, char ***names, uint64_t **values, size_t *n,
			     struct stx_diag *d)
{
	static const char *const list[] = { "requests", "hits", "misses", "compiles",
					    "kernels_compiled" }; /* as the daemon's stats.def */
	uint64_t had[4];
	stx__private_stats(c, had);
	uint64_t counts[] = { had[0], had[1], had[2], had[2], had[3] };
	return give_stats((char *const *)(uintptr_t)list, counts, 5, names, values, n, d);
}

int stax_stats(struct stax_client *c, int zero, char ***names, uint64_t **values, size_t *n,
	       struct stax_error *err)
{
	struct stx_diag d;
	struct stx__received r = { 0 };
	Stx__Envelope m = STX__ENVELOPE__INIT;
	Stx__Stats s = STX__STATS__INIT;
	stx__diag_init(&d);
	*names = NULL;
	*values = NULL;
	*n = 0;
	if (c->at.kind == STX__NONE)
		return stx__give_error(private_stats(c, names, values, n, &d), &d, err);
	s.zero = zero != 0;
	m.msg_case = STX__ENVELOPE__MSG_STATS;
	m.stats = &s;
	stx_err e = ask(c, &m, STX__ENVELOPE__MSG_STATS_REPLY, &r, &d);
	if (!e) {
		const Stx__StatsReply *p = r.e->stats_reply;
		size_t count = p->n_names < p->n_values ? p->n_names : p->n_values;
		e = give_stats(p->names, p->values, count, names, values, n, &d);
	}
	stx__received_free(&r);
	return stx__give_error(e, &d, err);
}

static void fill_pong(struct stax_pong *out, const Stx__Pong *p)
{
	struct stx_digest f;
	snprintf(out->version, sizeof out->version, "%s", p->version);
	snprintf(out->sandbox, sizeof out->sandbox, "%s", p->sandbox);
	if (p->fingerprint.len == sizeof f.b) {
		memcpy(f.b, p->fingerprint.data, sizeof f.b);
		stx_digest_hex(&f, out->fingerprint);
	}
	out->workers = p->workers;
	out->busy = p->workers_busy;
	out->uptime_ms = p->uptime_ms;
	size_t max = sizeof out->worker_pids / sizeof *out->worker_pids;
	out->nworker_pids = (uint32_t)(p->n_worker_pids < max ? p->n_worker_pids : max);
	for (uint32_t i = 0; i < out->nworker_pids; i++)
		out->worker_pids[i] = p->worker_pids[i];
}

int stax_ping(struct stax_client *c, struct stax_pong *out, struct stax_error *err)
{
	struct stx_diag d;
	struct stx__received r = { 0 };
	Stx__Envelope m = STX__ENVELOPE__INIT;
	Stx__Ping p = STX__PING__INIT;
	stx__diag_init(&d);
	memset(out, 0, sizeof *out);
	if (c->at.kind == STX__NONE)
		return stx__give_error(stx__private_ping(c, out, &d), &d, err);
	m.msg_case = STX__ENVELOPE__MSG_PING;
	m.ping = &p;
	uint64_t start = stx_clock_ns();
	stx_err e = ask(c, &m, STX__ENVELOPE__MSG_PONG, &r, &d);
	out->rtt_ns = stx_clock_ns() - start;
	if (!e)
		fill_pong(out, r.e->pong);
	stx__received_free(&r);
	return stx__give_error(e, &d, err);
}
