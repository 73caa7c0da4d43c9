/* compile_chain.c: a miss: PLAN, KERNEL jobs side by side, LINK, check, commit, reply. */
#include <assert.h>
#include <unistd.h>

#include "artifact_check.h"
#include "chain.h"
#include "log.h"
#include "tuning.h"

#define CHECK_INLINE_BYTES STX__SLICE_BYTES /* more is checked on another thread */

static void start_plan(struct stx__compile_chain *c);
static void pump_kernels(struct stx__compile_chain *c);
static void start_link(struct stx__compile_chain *c);
static void commit(struct stx__compile_chain *c);

struct stx__compile_chain *stx__compile_chain_of(struct stx__job *j)
{
	struct stx__chain *c =
		(struct stx__chain *)(void *)((char *)j - offsetof(struct stx__chain, job));
	return (struct stx__compile_chain *)c;
}

/* Not freed before stx__compile_release. */
static void hold(struct stx__compile_chain *c)
{
	c->refs++;
}

/* ---- ends ---- */

/* Forgets the plan and everything made from it. */
static void drop_plan(struct stx__compile_chain *c)
{
	for (uint32_t i = 0; c->slots && i < c->kernels.n; i++) {
		stx__kernel_job_leave(c, i);
		stx__blob_drop(c->slots[i].value);
	}
	free(c->slots);
	free(c->pieces);
	stx_kernel_ids_free(&c->kernels);
	if (c->has_plan)
		stx__message_free(&c->plan);
	c->slots = NULL;
	c->pieces = NULL;
	c->has_plan = 0;
	c->next_slot = c->running = c->ready = 0;
	c->generation++;
}

void stx__compile_chain_free(struct stx__compile_chain *c)
{
	stx__chain_unlink(&c->c);
	drop_plan(c);
	if (c->has_link)
		stx__message_free(&c->link);
	if (c->graph_fd >= 0)
		close(c->graph_fd);
	stx__blob_drop(c->answer);
	stx__blob_drop(c->ir);
	stx__spec_drop(c->c.spec);
	free(c);
}

/* The flight has landed and its waiters know. The tick frees the chain, so that whoever is still on
 * the stack may look at it. */
static void end(struct stx__compile_chain *c)
{
	stx__flight_land(&c->c.flight);
	stx__pool_cancel(c->c.s->pool, &c->c.job);
	drop_plan(c);
	stx__spec_drop(c->c.spec);
	c->c.spec = NULL;
	c->dead = 1;
}

void stx__compile_end(struct stx__compile_chain *c)
{
	end(c);
}

void stx__compile_release(struct stx__compile_chain *c)
{
	assert(c->refs);
	c->refs--;
}

void stx__compile_end_with(struct stx__compile_chain *c, stx_err e, const char *stage,
			   const char *text)
{
	struct stx_diag d = { 0 };
	stx_fail(&d, e, stage, "", "%s", text);
	stx__flight_land(&c->c.flight);
	stx__flight_finish(&c->c.flight, &d);
	end(c);
}

void stx__compile_chain_abort(struct stx__compile_chain *c)
{
	if (!c->dead && !c->has_link) /* a linked artifact is committed in any case */
		end(c);
}

static void restart(struct stx__compile_chain *c)
{
	stx__pool_cancel(c->c.s->pool, &c->c.job);
	drop_plan(c);
	memset(&c->c.attempts, 0, sizeof c->c.attempts);
	memset(&c->stages, 0, sizeof c->stages);
	if (c->is_code)
		stx__code_restart(c);
	else
		start_plan(c);
}

static void follow(struct stx__compile_chain *c, enum stx__next next, const struct stx__outcome *o)
{
	struct stx__server *s = c->c.s;
	if (stx__failure_is_final(o))
		stx_cache_failure_put(s->cache, c->c.spec->ns, &c->key, &o->diag);
	if (next != STX__NEXT_END) {
		restart(c);
		return;
	}
	stx__flight_land(&c->c.flight);
	stx__flight_finish(&c->c.flight, &o->diag); /* nobody is left, as a rule */
	end(c);
}

void stx__compile_submit(struct stx__compile_chain *c)
{
	c->c.job.deadline_ms = c->c.flight.deadline_ms;
	c->c.job.queued.priority = stx__chain_rank(&c->c);
	if (stx__pool_submit(c->c.s->pool, &c->c.job))
		stx__compile_end_with(c, STX_E_NOMEM, "queue", "out of memory");
}

/* PLAN or LINK went wrong. 1: the same job runs again. */
void stx__compile_job_failed(struct stx__compile_chain *c, struct stx__outcome *o)
{
	stx__chain_reproduce(&c->c, &c->c.attempts, o);
	enum stx__next next = stx__failure_route(c->c.s, &c->c.flight, &c->c.attempts, o);
	if (next == STX__NEXT_RETRY) {
		c->c.job.fresh = o->fate == STX__FATE_CRASHED;
		stx__compile_submit(c);
	} else {
		follow(c, next, o);
	}
}

/* ---- plan ---- */

static stx_err send_plan(struct stx__job *j, int sock, uint64_t id, struct stx_diag *d)
{
	struct stx__compile_chain *c = stx__compile_chain_of(j);
	stx__flight_progress(&c->c.flight, "plan", 0, 1);
	return stx__job_send(c->c.spec, j->kind, NULL, sock, id, NULL, 0, c->graph_fd, d);
}

/* The reply: plan, then one IR a kernel; one slot for each distinct one. */
static stx_err take_plan(struct stx__compile_chain *c, struct stx_diag *d)
{
	const Stx__JobReply *r = c->plan.e->job_reply;
	c->pieces = calloc(r->n_kernels + 1, sizeof *c->pieces);
	if (!c->pieces)
		return stx_fail(d, STX_E_NOMEM, "plan", "", "out of memory");
	stx_err e = stx_jobs_split(c->plan.body, r->piece_bytes, r->n_piece_bytes, c->pieces,
				   r->n_kernels + 1, d);
	if (!e)
		e = stx_jobs_kernels(r, c->c.spec->what, &c->fingerprint, &c->kernels, d);
	if (!e && !(c->slots = calloc((size_t)c->kernels.n + 1, sizeof *c->slots)))
		e = stx_fail(d, STX_E_NOMEM, "plan", "", "out of memory");
	return e;
}

/* A GPU kernel's IR stays in the store, so that its code in other configurations can be made. */
static void keep_irs(struct stx__compile_chain *c)
{
	const Stx__JobReply *r = c->plan.e->job_reply;
	for (uint32_t i = 0; i < c->kernels.n; i++) {
		const struct stx_kernel_id *k = &c->kernels.at[i];
		struct stx_digest ir;
		if (!k->config)
			continue;
		memcpy(ir.b, r->kernels[k->piece - 1]->digest.data, sizeof ir.b);
		struct stx_digest id = stx_key_kernel(&ir, NULL, c->c.spec->what->target,
						      c->c.spec->options, &c->fingerprint);
		stx_cache_kernel_put(c->c.s->cache, c->c.spec->ns, &id, c->pieces[k->piece], NULL,
				     NULL);
	}
}

static void plan_done(struct stx__job *j, struct stx__outcome *o)
{
	struct stx__compile_chain *c = stx__compile_chain_of(j);
	if (o->fate != STX__FATE_OK) {
		stx__compile_job_failed(c, o);
		return;
	}
	c->plan = stx__message_take(o->message);
	c->has_plan = 1;
	const Stx__JobReply *r = c->plan.e->job_reply;
	stx_stages_add_all(&c->stages, r->stages, r->n_stages);
	struct stx_diag d = { 0 };
	if (take_plan(c, &d)) {
		stx__compile_end_with(c, d.code == STX_E_PROTOCOL ? STX_E_INTERNAL : d.code, "plan",
				      d.text);
		return;
	}
	c->kernels_start_us = stx_clock_us();
	stx__flight_progress(&c->c.flight, "kernels", 0, c->kernels.n);
	keep_irs(c);
	stx__compile_pump(c);
}

static void start_plan(struct stx__compile_chain *c)
{
	struct stx__job *j = &c->c.job;
	j->kind = STX__JOB_KIND__JOB_PLAN;
	j->send = send_plan;
	j->done = plan_done;
	stx__compile_submit(c);
}

/* ---- kernels ---- */

struct kernel_read {
	struct stx__compile_chain *c;
	uint32_t slot, generation;
};

static void slot_filled(struct stx__compile_chain *c, uint32_t slot, struct stx__blob *value,
			int reused)
{
	struct stx__kernel_slot *x = &c->slots[slot];
	struct stx__kernel_value v;
	if (!value || stx__kernel_decode((struct stx_span){ value->at, value->n }, &v)) {
		stx__compile_end_with(c, STX_E_INTERNAL, "kernel",
				      "a bad kernel value, or out of memory");
		return;
	}
	x->value = stx__blob_ref(value);
	x->reused = reused;
	c->c.s->stats.kernels_reused += (uint64_t)reused;
	c->running--;
	c->ready++;
	stx__flight_progress(&c->c.flight, "kernels", c->ready, c->kernels.n);
	pump_kernels(c);
}

void stx__compile_kernel_done(struct stx__compile_chain *c, uint32_t slot, struct stx__blob *value,
			      int reused, Stx__Stage **stages, size_t nstages)
{
	if (c->dead)
		return;
	stx_stages_add_all(&c->stages, stages, nstages);
	slot_filled(c, slot, value, reused);
}

static void compile_slot(struct stx__compile_chain *c, uint32_t slot)
{
	if (stx__kernel_job_join(c, slot))
		stx__compile_end_with(c, STX_E_NOMEM, "kernel", "out of memory");
}

void stx__compile_kernel_again(struct stx__compile_chain *c, uint32_t slot)
{
	if (!c->dead && slot < c->kernels.n && !c->slots[slot].job && !c->slots[slot].value)
		compile_slot(c, slot);
}

void stx__compile_kernel_failed(struct stx__compile_chain *c, enum stx__next next,
				const struct stx__outcome *o)
{
	if (!c->dead)
		follow(c, next, o);
}

static void kernel_read(void *ctx, stx_err e, struct stx_span contents)
{
	struct kernel_read *k = ctx;
	struct stx__compile_chain *c = k->c;
	if (!c->dead && k->generation == c->generation) {
		struct stx__kernel_value v;
		if (e || stx__kernel_decode(contents, &v)) { /* damaged, or gone meanwhile */
			compile_slot(c, k->slot);
		} else {
			struct stx__blob *b = stx__blob_copy(contents.at, contents.n);
			slot_filled(c, k->slot, b, 1);
			stx__blob_drop(b);
		}
	}
	stx__compile_release(c);
	free(k);
}

static void start_slot(struct stx__compile_chain *c, uint32_t slot)
{
	struct stx__server *s = c->c.s;
	const struct stx_digest *id = &c->kernels.at[slot].id;
	struct kernel_read *k;
	if (!stx_cache_kernel_has(s->cache, c->c.spec->ns, id) || !(k = malloc(sizeof *k))) {
		compile_slot(c, slot);
		return;
	}
	*k = (struct kernel_read){ c, slot, c->generation };
	hold(c);
	stx_cache_kernel_read(s->cache, c->c.spec->ns, id, kernel_read, k);
}

/* A few at a time, so that one graph with thousands of kernels does not fill the queue. The caller
 * holds a reference. */
static void pump_kernels(struct stx__compile_chain *c)
{
	uint32_t window = 2 * (uint32_t)c->c.s->cfg.workers + 2;
	while (!c->dead && c->running < window && c->next_slot < c->kernels.n) {
		c->running++;
		start_slot(c, c->next_slot++);
	}
	if (c->dead || c->ready != c->kernels.n)
		return;
	if (c->is_code)
		stx__code_ready(c);
	else
		start_link(c);
}

void stx__compile_pump(struct stx__compile_chain *c)
{
	hold(c);
	pump_kernels(c);
	stx__compile_release(c);
}

/* ---- link ---- */

static stx_err send_link(struct stx__job *j, int sock, uint64_t id, struct stx_diag *d)
{
	struct stx__compile_chain *c = stx__compile_chain_of(j);
	struct stx_span *pieces = calloc((size_t)c->kernels.n + 1, sizeof *pieces);
	if (!pieces)
		return stx_fail(d, STX_E_NOMEM, "link", "", "out of memory");
	pieces[0] = c->pieces[0];
	for (uint32_t i = 0; i < c->kernels.n; i++) {
		struct stx__kernel_value v;
		struct stx__blob *b = c->slots[i].value;
		stx__kernel_decode((struct stx_span){ b->at, b->n }, &v);
		pieces[i + 1] = v.object;
	}
	stx__flight_progress(&c->c.flight, "link", 0, 1);
	stx_err e =
		stx__job_send(c->c.spec, j->kind, NULL, sock, id, pieces, c->kernels.n + 1, -1, d);
	free(pieces);
	return e;
}

/* ---- check ---- */

/* By the daemon and not by the worker that linked it: the graph may have taken that one over. */
static void check_artifact(uv_work_t *w)
{
	struct stx__compile_chain *c = w->data;
	struct stx_span body = { c->link.body.at, c->link.body.n };
	uint64_t start = stx_clock_us();
	c->check_error = stx_artifact_check(body, &c->check_diag);
	c->check_us = stx_clock_us() - start;
	if (!c->check_error)
		c->artifact = stx_digest_of(body.at, body.n);
}

static void checked(struct stx__compile_chain *c)
{
	if (c->dead)
		return;
	stx_stages_add(&c->stages, "check", c->check_us);
	if (!c->check_error) {
		commit(c);
		return;
	}
	struct stx__outcome o = { .fate = STX__FATE_DIAGNOSED, .diag = c->check_diag };
	stx_log(STX_LOG_ERROR, "a worker linked an artifact that is refused: %s", o.diag.text);
	stx__message_free(&c->link);
	c->has_link = 0;
	stx__compile_job_failed(c, &o);
}

static void checked_elsewhere(uv_work_t *w, int status)
{
	struct stx__compile_chain *c = w->data;
	if (status)
		check_artifact(w);
	checked(c);
	stx__compile_release(c);
}

static void link_done(struct stx__job *j, struct stx__outcome *o)
{
	struct stx__compile_chain *c = stx__compile_chain_of(j);
	if (o->fate != STX__FATE_OK) {
		stx__compile_job_failed(c, o);
		return;
	}
	const Stx__JobReply *r = o->message->e->job_reply;
	stx_stages_add_all(&c->stages, r->stages, r->n_stages);
	if (!o->message->body.n || o->message->body.n > STX_FRAME_BODY_MAX) {
		stx__compile_end_with(c, o->message->body.n ? STX_E_TOO_LARGE : STX_E_INTERNAL,
				      "link",
				      o->message->body.n ? "the artifact is larger than 64 MiB"
							 : "an empty artifact");
		return;
	}
	c->link = stx__message_take(o->message);
	c->has_link = 1;
	c->checking.data = c;
	stx_diag_clear(&c->check_diag);
	hold(c);
	if (c->link.body.n > CHECK_INLINE_BYTES &&
	    !uv_queue_work(c->c.s->loop, &c->checking, check_artifact, checked_elsewhere))
		return;
	check_artifact(&c->checking);
	checked(c);
	stx__compile_release(c);
}

static void start_link(struct stx__compile_chain *c)
{
	struct stx__job *j = &c->c.job;
	stx_stages_add(&c->stages, "kernels", stx_clock_us() - c->kernels_start_us);
	j->kind = STX__JOB_KIND__JOB_LINK;
	j->fresh = 0;
	j->send = send_link;
	j->done = link_done;
	stx__compile_submit(c);
}

/* ---- commit ---- */

/* The part of the answer every request for this artifact gets, packed. NULL: out of memory. */
static struct stx__blob *pack_answer(struct stx__compile_chain *c)
{
	const Stx__JobReply *r = c->plan.e->job_reply;
	struct stx__blob *b = NULL;
	Stx__Answer a = STX__ANSWER__INIT;
	for (size_t i = 0; i < r->n_kernels; i++) {
		const struct stx__kernel_slot *x = &c->slots[c->kernels.of[i]];
		struct stx__kernel_value v;
		stx__kernel_decode((struct stx_span){ x->value->at, x->value->n }, &v);
		stx_jobs_set_emitted(r->kernels[i], &v.emitted, x->reused);
	}
	a.key = (ProtobufCBinaryData){ STX_DIGEST_BYTES, c->key.b };
	a.digest = (ProtobufCBinaryData){ STX_DIGEST_BYTES, c->artifact.b };
	a.size_bytes = c->link.body.n;
	a.compile_us = stx_clock_us() - c->c.start_us;
	stx_jobs_answer(&a, r);
	a.stages = stx_stages_list(&c->key_stages, &c->stages, &a.n_stages);
	if (a.stages && (b = stx__blob_new(stx__answer__get_packed_size(&a))))
		stx__answer__pack(&a, b->at);
	free(a.stages);
	return b;
}

static void finish(struct stx__compile_chain *c)
{
	struct stx__server *s = c->c.s;
	s->stats.compiles++;
	stx__quarantine_forget(&s->quarantine, &c->c.flight.id);
	if (c->recache)
		stx_cache_failure_drop(s->cache, c->c.spec->ns, &c->key);
	stx__flight_land(&c->c.flight);
	stx__flight_finish(&c->c.flight, NULL);
	end(c);
}

static void have_file(void *ctx, stx_err e, struct stx_span path)
{
	struct stx__compile_chain *c = ctx;
	(void)path;
	if (e)
		stx_log(STX_LOG_WARN, "materialising an artifact: %s", stx_err_text(e));
	finish(c);
	stx__compile_release(c);
}

static void committed(void *ctx, stx_err e, const struct stx_diag *d)
{
	struct stx__compile_chain *c = ctx;
	struct stx__server *s = c->c.s;
	if (e) {
		stx_log(STX_LOG_ERROR, "storing an artifact: %s",
			d && d->text[0] ? d->text : stx_err_text(e));
		s->stats.not_stored++;
		stx__unstored_put(s, c->c.spec->ns, &c->artifact, c->link.body);
		finish(c);
		stx__compile_release(c);
		return;
	}
	c->stored = 1;
	stx_cache_materialise(s->cache, c->c.spec->ns, &c->artifact, have_file, c);
}

/* Requires: linked, checked and hashed. The reply comes after the commit. */
static void commit(struct stx__compile_chain *c)
{
	if (c->dead)
		return;
	struct stx__server *s = c->c.s;
	const char *target = c->c.spec->what->target;
	struct stx_bytes meta = { 0 };
	if (!s->cache) {
		stx__compile_end_with(c, STX_E_CANCELED, "commit", "the server is shutting down");
		return;
	}
	c->answer = pack_answer(c);
	if (!c->answer) {
		stx__compile_end_with(c, STX_E_NOMEM, "commit", "out of memory");
		return;
	}
	struct stx__meta m = { .format_version = STX_KEY_FORMAT,
			       .options = c->c.spec->options,
			       .graph = c->graph,
			       .fingerprint = c->fingerprint,
			       .target = { (const uint8_t *)target, strlen(target) },
			       .answer = { c->answer->at, c->answer->n } };
	if (stx__meta_encode(&m, &meta)) {
		stx_bytes_free(&meta);
		stx__compile_end_with(c, STX_E_NOMEM, "commit", "out of memory");
		return;
	}
	stx__flight_progress(&c->c.flight, "commit", 0, 1);
	struct stx_cache_artifact a = { .key = c->key,
					.digest = c->artifact,
					.size_bytes = c->link.body.n,
					.ns = c->c.spec->ns,
					.meta = { meta.at, meta.n } };
	hold(c);
	stx_cache_put(s->cache, &a, c->link.body, c->recache, committed, c);
	stx_bytes_free(&meta);
}

/* ---- joining ---- */

struct stx__compile_chain *stx__compile_chain_new(struct stx__server *s, struct stx__spec *spec,
						  const struct stx_digest *key,
						  const struct stx_digest *id)
{
	struct stx__compile_chain *c = calloc(1, sizeof *c);
	if (!c || stx__flight_start(&s->compile_flights, &c->c.flight, id)) {
		free(c);
		return NULL;
	}
	stx__chain_link(&c->c, s);
	c->graph_fd = -1;
	c->c.kind = STX__CHAIN_COMPILE;
	c->c.spec = stx__spec_ref(spec);
	c->c.start_us = stx_clock_us();
	c->c.job.ns = c->c.spec->ns;
	c->key = *key;
	c->fingerprint = s->fingerprint;
	return c;
}

static struct stx__compile_chain *new_chain(struct stx__server *s, const struct stx_digest *id,
					    struct stx__key_chain *from,
					    const struct stx__memo *memo)
{
	int fd = dup(from->graph_fd);
	struct stx__compile_chain *c =
		fd < 0 ? NULL : stx__compile_chain_new(s, from->c.spec, &memo->key, id);
	if (!c) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	c->graph_fd = fd;
	c->graph = memo->graph;
	c->recache = from->recache;
	c->key_stages = from->stages;
	c->c.start_us = from->c.start_us;
	stx__explain_miss(s, c->c.spec, &memo->graph, &memo->key, c->reason, sizeof c->reason);
	return c;
}

void stx__compile_chain_join(struct stx__server *s, struct stx__pending *p,
			     struct stx__key_chain *from, const struct stx__memo *memo)
{
	struct stx_digest id = stx_key_scoped(from->c.spec->ns, &memo->key);
	struct stx__flight *f = stx__flight_find(&s->compile_flights, &id);
	struct stx__compile_chain *c = (struct stx__compile_chain *)f;
	struct stx_cache_artifact a;
	if (p)
		s->stats.misses++;
	if (f) {
		c->recache |= from->recache;
		if (p) {
			s->stats.joins += !p->joined;
			p->joined = 1;
			stx__flight_join(f, &p->waiter);
			stx__chain_changed(&c->c);
		}
		return;
	}
	if (!p && (stx_cache_find(s->cache, from->c.spec->ns, &memo->key, &a) ||
		   stx__pool_queued(s->pool) >= s->cfg.queue))
		return;
	c = new_chain(s, &id, from, memo);
	if (!c) {
		struct stx_diag d = { 0 };
		stx_fail(&d, STX_E_NOMEM, "request", "", "out of memory");
		if (p)
			p->waiter.done(&p->waiter, NULL, &d);
		return;
	}
	c->c.flight.deadline_ms = from->c.flight.deadline_ms;
	c->c.abandoned = !p;
	if (p)
		stx__flight_join(&c->c.flight, &p->waiter);
	start_plan(c);
}
