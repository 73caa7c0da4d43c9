/* service.c: what is asked of the daemon itself: hello, ping, stats. */
#include "connection.h"

#define PIDS_MAX 128

static void hello(struct stx__conn *c, const Stx__Envelope *in)
{
	struct stx_diag d = { 0 };
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__HelloReply r = STX__HELLO_REPLY__INIT;
	if (in->hello->version_min > STX_PROTOCOL_VERSION ||
	    in->hello->version_max < STX_PROTOCOL_VERSION) {
		stx_fail(&d, STX_E_VERSION, "hello", "",
			 "this server speaks protocol version %u, the client %u to %u",
			 STX_PROTOCOL_VERSION, in->hello->version_min, in->hello->version_max);
		c->close_after = 1;
		stx__conn_error(c, in->request_id, &d);
		return;
	}
	e.request_id = in->request_id;
	e.msg_case = STX__ENVELOPE__MSG_HELLO_REPLY;
	e.hello_reply = &r;
	r.version = STX_PROTOCOL_VERSION;
	r.server = "staxd " STX_VERSION;
	if (c->s->ready)
		r.fingerprint = (ProtobufCBinaryData){ STX_DIGEST_BYTES, c->s->fingerprint.b };
	stx__conn_send(c, &e, NULL);
}

static void ping(struct stx__conn *c, const Stx__Envelope *in)
{
	struct stx__server *s = c->s;
	uint32_t pids[PIDS_MAX];
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__Pong r = STX__PONG__INIT;
	e.request_id = in->request_id;
	e.msg_case = STX__ENVELOPE__MSG_PONG;
	e.pong = &r;
	r.version = STX_VERSION;
	r.workers = (uint32_t)s->cfg.workers;
	r.workers_busy = stx__pool_busy(s->pool);
	r.sandbox = (char *)stx__pool_sandbox(s->pool);
	if (!r.sandbox[0])
		r.sandbox = "none: no worker has started yet";
	r.uptime_ms = stx__now_ms(s) - s->started_ms;
	if (s->ready)
		r.fingerprint = (ProtobufCBinaryData){ STX_DIGEST_BYTES, s->fingerprint.b };
	if (c->own_user) {
		r.worker_pids = pids;
		r.n_worker_pids = stx__pool_pids(s->pool, pids, PIDS_MAX);
	}
	stx__conn_send(c, &e, NULL);
}

static void stats(struct stx__conn *c, const Stx__Envelope *in)
{
	struct stx__stats_list list;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__StatsReply r = STX__STATS_REPLY__INIT;
	struct stx_diag d = { 0 };
	if (in->stats->zero && !c->own_user) {
		stx_fail(&d, STX_E_DENIED, "stats", "",
			 "only the daemon's own user may zero its counters");
		stx__conn_error(c, in->request_id, &d);
		return;
	}
	stx__stats_collect(c->s, &list);
	if (in->stats->zero)
		stx__stats_zero(c->s);
	e.request_id = in->request_id;
	e.msg_case = STX__ENVELOPE__MSG_STATS_REPLY;
	e.stats_reply = &r;
	r.names = (char **)list.names;
	r.n_names = list.n;
	r.values = list.values;
	r.n_values = list.n;
	stx__conn_send(c, &e, NULL);
}

static void refuse_message(struct stx__conn *c, const Stx__Envelope *in)
{
	struct stx_diag d = { 0 };
	stx_fail(&d, STX_E_PROTOCOL, "request", "", "a message a server does not take");
	c->s->stats.protocol_errors++;
	stx__conn_error(c, in->request_id, &d);
}

void stx__service_frame(struct stx__conn *c, const Stx__Envelope *e)
{
	switch (e->msg_case) {
	case STX__ENVELOPE__MSG_HELLO: hello(c, e); break;
	case STX__ENVELOPE__MSG_PING: ping(c, e); break;
	case STX__ENVELOPE__MSG_STATS: stats(c, e); break;
	default: refuse_message(c, e);
	}
}
