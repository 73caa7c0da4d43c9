/* key_chain.c: from a request's bytes to its canonical key, in one job. */
#include <unistd.h>

#include "chain.h"
#include "underway.h"

static void free_chain(struct stx__key_chain *k)
{
	stx__chain_unlink(&k->c);
	if (k->graph_fd >= 0)
		close(k->graph_fd);
	stx__blob_drop(k->memo);
	stx__spec_drop(k->c.spec);
	free(k);
}

static stx_err send_key(struct stx__job *j, int sock, uint64_t id, struct stx_diag *d)
{
	struct stx__chain *c =
		(struct stx__chain *)(void *)((char *)j - offsetof(struct stx__chain, job));
	stx__flight_progress(&c->flight, "key", 0, 1);
	return stx__job_send(c->spec, j->kind, NULL, sock, id, NULL, 0, c->spec->body_fd, d);
}

static void submit(struct stx__key_chain *k)
{
	struct stx__chain *c = &k->c;
	c->job.deadline_ms = c->flight.deadline_ms;
	c->job.queued.priority = stx__chain_rank(c);
	if (!stx__pool_submit(c->s->pool, &c->job))
		return;
	struct stx_diag d = { 0 };
	stx_fail(&d, STX_E_NOMEM, "queue", "", "out of memory");
	stx__flight_land(&c->flight);
	stx__flight_finish(&c->flight, &d);
	free_chain(k);
}

/* ---- the job's end ---- */

static struct stx__blob *encode_memo(const struct stx__memo *m)
{
	struct stx_bytes b = { 0 };
	struct stx__blob *out = NULL;
	if (!stx__memo_encode(m, &b))
		out = stx__blob_copy(b.at, b.n);
	stx_bytes_free(&b);
	return out;
}

/* Names (or needed values) as the packed part of an Answer. */
static struct stx__blob *make_memo(struct stx__key_chain *k, const Stx__JobReply *r,
				   int need_values)
{
	Stx__Answer a = STX__ANSWER__INIT;
	struct stx__memo m = { .need_values = need_values };
	a.input_names = r->input_names;
	a.n_input_names = r->n_input_names;
	a.output_names = r->output_names;
	a.n_output_names = r->n_output_names;
	a.need_values = r->need_values;
	a.n_need_values = r->n_need_values;
	struct stx__blob *packed = stx__blob_new(stx__answer__get_packed_size(&a));
	if (!packed)
		return NULL;
	stx__answer__pack(&a, packed->at);
	m.answer = (struct stx_span){ packed->at, packed->n };
	if (!need_values) {
		memcpy(m.graph.b, r->graph_digest.data, STX_DIGEST_BYTES);
		m.key = stx_key_artifact(&m.graph, k->c.spec->what->target, k->c.spec->options,
					 &k->c.s->fingerprint);
		m.key = stx_key_blocked(&m.key, k->c.spec->what->blockings,
					k->c.spec->what->n_blockings);
	}
	struct stx__blob *out = encode_memo(&m);
	stx__blob_drop(packed);
	return out;
}

static int take_graph(struct stx__key_chain *k, struct stx__message *m)
{
	k->graph_fd = stx__message_take_fd(m);
	if (k->graph_fd >= 0)
		return 0;
	/* The envelope spilled into the body: the graph gets a descriptor of its own. */
	int fd = stx__memfd_new("stax-graph");
	if (fd < 0 || stx__memfd_write(fd, m->body.at, m->body.n) || stx__memfd_seal(fd)) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	k->graph_fd = fd;
	return 0;
}

static void succeed(struct stx__key_chain *k, struct stx__message *m, int need_values)
{
	struct stx__chain *c = &k->c;
	const Stx__JobReply *r = m->e->job_reply;
	struct stx_diag d = { 0 };
	stx__flight_land(&c->flight);
	stx__quarantine_forget(&c->s->quarantine, &c->flight.id);
	stx_stages_add_all(&k->stages, r->stages, r->n_stages);
	if (!need_values && (r->graph_digest.len != STX_DIGEST_BYTES || take_graph(k, m)))
		stx_fail(&d, STX_E_INTERNAL, "key", "", "a bad reply of a key job");
	else if (!(k->memo = make_memo(k, r, need_values)))
		stx_fail(&d, STX_E_NOMEM, "key", "", "out of memory");
	if (d.code) {
		stx__flight_finish(&c->flight, &d);
		free_chain(k);
		return;
	}
	struct stx_span value = { k->memo->at, k->memo->n };
	int nobody = !c->flight.nwaiters;
	struct stx__underway *w =
		stx__underway_new(c->s, &c->s->memos, &c->flight.id, value, "a memo");
	if (w)
		stx_cache_memo_put(c->s->cache, c->spec->ns, &c->flight.id, value,
				   stx__underway_done, w);
	stx__flight_finish(&c->flight, NULL);
	if (nobody && !need_values) {
		struct stx__memo memo;
		stx__memo_decode(value, &memo);
		stx__compile_chain_join(c->s, NULL, k, &memo);
	}
	free_chain(k);
}

static void done(struct stx__job *j, struct stx__outcome *o)
{
	struct stx__chain *c =
		(struct stx__chain *)(void *)((char *)j - offsetof(struct stx__chain, job));
	struct stx__key_chain *k = (struct stx__key_chain *)c;
	struct stx__server *s = c->s;
	if (o->fate == STX__FATE_OK) {
		succeed(k, o->message, 0);
		return;
	}
	if (o->fate == STX__FATE_DIAGNOSED && o->diag.code == STX_E_NEED_VALUES &&
	    o->message->e->job_reply->n_need_values) {
		succeed(k, o->message, 1);
		return;
	}
	stx__chain_reproduce(c, &c->attempts, o);
	if (stx__failure_is_final(o))
		stx_cache_failure_put(s->cache, c->spec->ns, &c->flight.id, &o->diag);
	if (stx__failure_route(s, &c->flight, &c->attempts, o) == STX__NEXT_END) {
		free_chain(k);
		return;
	}
	c->job.fresh = o->fate == STX__FATE_CRASHED;
	submit(k);
}

void stx__key_chain_join(struct stx__pending *p)
{
	struct stx__server *s = p->s;
	struct stx__flight *f = stx__flight_find(&s->key_flights, &p->spec->memo);
	struct stx__key_chain *k = (struct stx__key_chain *)f;
	if (f) {
		p->joined = 1;
		s->stats.joins++;
		k->recache |= p->recache;
		stx__flight_join(f, &p->waiter);
		stx__chain_changed(&k->c);
		return;
	}
	k = calloc(1, sizeof *k);
	if (!k || stx__flight_start(&s->key_flights, &k->c.flight, &p->spec->memo)) {
		struct stx_diag d = { 0 };
		free(k);
		stx_fail(&d, STX_E_NOMEM, "request", "", "out of memory");
		p->waiter.done(&p->waiter, NULL, &d);
		return;
	}
	stx__chain_link(&k->c, s);
	k->c.kind = STX__CHAIN_KEY;
	k->c.spec = stx__spec_ref(p->spec);
	k->c.start_us = stx_clock_us();
	k->graph_fd = -1;
	k->recache = p->recache;
	k->c.job.kind = STX__JOB_KIND__JOB_KEY;
	k->c.job.ns = k->c.spec->ns;
	k->c.job.send = send_key;
	k->c.job.done = done;
	stx__flight_join(&k->c.flight, &p->waiter);
	submit(k);
}

void stx__key_chain_abort(struct stx__key_chain *k)
{
	stx__flight_land(&k->c.flight);
	stx__pool_cancel(k->c.s->pool, &k->c.job);
	free_chain(k);
}
