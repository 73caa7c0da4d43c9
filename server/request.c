/* request.c: what frames ask for. Lookup first: an answer from memory costs no job and no disk. */
#include "request.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "chain.h"
#include "connection.h"
#include "cpu_target.h"
#include "log.h"
#include "tuning.h"
#include "tunes.h"
#include "gpu_target.h"
#include "underway.h"

#define VALUES_MAX_BYTES (60u << 10) /* a Job must fit a header too */

/* ---- pendings ---- */

static void unpark(struct stx__pending *p)
{
	struct stx__pending **at = &p->s->parked;
	while (p->parked && *at && *at != p)
		at = &(*at)->next_parked;
	if (p->parked && *at)
		*at = p->next_parked;
	p->parked = 0;
}

void stx__pending_free(struct stx__pending *p)
{
	struct stx__conn *c = p->conn;
	stx__flight_leave(&p->waiter);
	unpark(p);
	*(p->prev ? &p->prev->next : &c->pendings) = p->next;
	if (p->next)
		p->next->prev = p->prev;
	c->npending--;
	c->received -= p->spec->charged_bytes;
	stx__blob_drop(p->names);
	stx__spec_drop(p->spec);
	free(p->not_cut);
	free(p);
	if (!c->closing)
		stx__conn_resume(c);
}

static void reply_error(struct stx__pending *p, const struct stx_diag *d)
{
	stx__conn_error(p->conn, p->request_id, d);
	stx__pending_free(p);
}

static void fail(struct stx__pending *p, stx_err e, const char *stage, const char *text)
{
	struct stx_diag d = { 0 };
	stx_fail(&d, e, stage, "", "%s", text);
	reply_error(p, &d);
}

void stx__request_abandon(struct stx__pending *p)
{
	struct stx__flight *f = p->waiter.flight;
	p->s->stats.canceled += f != NULL;
	stx__pending_free(p);
	if (f && !f->nwaiters)
		stx__chain_waiter_left((struct stx__chain *)f);
}

/* ---- checking what came ---- */

static int valid_ns(const char *ns)
{
	size_t n = strlen(ns);
	if (n > STX__NS_MAX)
		return 0;
	for (size_t i = 0; i < n; i++) {
		char c = ns[i];
		int ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			 (c >= '0' && c <= '9') || c == '_' || c == '-' || (c == '.' && i);
		if (!ok)
			return 0;
	}
	return 1;
}

/* To the one spelling that keys are taken of, so that no alias compiles again; a name that is none
 * costs no job. */
static stx_err normalise_target(char **target, struct stx_diag *d)
{
	char text[STX_TARGET_BYTES], *copy;
	stx_err e = stx_target_normalise(*target, text, d);
	if (e || !strcmp(text, *target))
		return e;
	if (!(copy = strdup(text)))
		return stx_fail(d, STX_E_NOMEM, "request", "", "out of memory");
	free(*target); /* unpacked: malloc'd, and not the empty default, which names no target */
	*target = copy;
	return STX_E_OK;
}

static stx_err check_lookup(const Stx__Lookup *l, const struct stx_digest *body, int has_body,
			    struct stx_diag *d)
{
	if (!l)
		return stx_fail(d, STX_E_PROTOCOL, "request", "", "a compile that says nothing");
	if (!valid_ns(l->ns))
		return stx_fail(d, STX_E_DENIED, "request", "",
				"a namespace has at most %d of A-Z a-z 0-9 . _ -", STX__NS_MAX);
	if (l->format < 1 || l->format > 3)
		return stx_fail(d, STX_E_UNSUPPORTED, "request", "", "unknown graph format %u",
				l->format);
	if (stx__lookup__get_packed_size(l) > VALUES_MAX_BYTES)
		return stx_fail(d, STX_E_TOO_LARGE, "request", "",
				"the given values and blockings exceed the limit of %u bytes",
				VALUES_MAX_BYTES);
	if (has_body && l->body_digest.len &&
	    (l->body_digest.len != STX_DIGEST_BYTES ||
	     memcmp(l->body_digest.data, body->b, STX_DIGEST_BYTES) != 0))
		return stx_fail(d, STX_E_PROTOCOL, "request", "",
				"the graph's bytes do not have the digest the request says");
	if (!has_body && l->body_digest.len != STX_DIGEST_BYTES)
		return stx_fail(d, STX_E_PROTOCOL, "request", "",
				"a lookup needs the graph's digest");
	return STX_E_OK;
}

/* ---- looking in memory ---- */

enum found { FOUND_ANSWER, FOUND_NEEDED, FOUND_FAILURE, FOUND_QUARANTINED, FOUND_NOTHING };

/* A file of an artifact is being made, so that the next hit has a path. */
struct materialising {
	struct stx__server *s;
	struct stx_digest digest;
};

static void materialised(void *ctx, stx_err e, struct stx_span path)
{
	struct materialising *m = ctx;
	(void)e;
	(void)path;
	stx__table_del(&m->s->materialising, &m->digest);
	free(m);
}

static void materialise_for_later(struct stx__server *s, const char *ns,
				  const struct stx_digest *digest)
{
	struct materialising *m =
		stx__table_get(&s->materialising, digest) ? NULL : malloc(sizeof *m);
	if (!m)
		return;
	m->s = s;
	m->digest = *digest;
	if (stx__table_set(&s->materialising, digest, m))
		free(m);
	else
		stx_cache_materialise(s->cache, ns, digest, materialised, m);
}

/* The packed answer of the artifact of this memo, from the LRU or built now; borrowed. NULL: not
 * stored. */
static struct stx__blob *find_answer(struct stx__server *s, const char *ns,
				     const struct stx_digest *memo, const struct stx_digest *key,
				     struct stx_span names, struct stx__blob **built)
{
	struct stx_cache_artifact a;
	char path[PATH_MAX];
	struct stx__meta meta;
	if (!stx_cache_find(s->cache, ns, key, &a))
		return NULL;
	struct stx_digest digest = a.digest;
	struct stx__reply *r = stx__reply_find(&s->replies, memo);
	int has_path = stx_cache_path(s->cache, ns, &digest, path, sizeof path);
	if (r && stx_digest_eq(&r->artifact, &digest) && r->has_path == has_path)
		return r->answer;
	if (!stx_cache_find(s->cache, ns, key, &a) || stx__meta_decode(a.meta, &meta))
		return NULL;
	*built =
		stx__answer_build(meta.answer, names, 1, 1, "in the store", has_path ? path : NULL);
	if (!*built)
		return NULL;
	stx__reply_put(&s->replies, memo, key, &digest, has_path, *built);
	if (!has_path)
		materialise_for_later(s, ns, &digest);
	return *built;
}

static void quarantine_diag(struct stx__server *s, uint64_t until_ms, struct stx_diag *d)
{
	stx_fail(d, STX_E_QUARANTINED, "request", "",
		 "this graph has brought workers down %u times and is refused for another %llu s",
		 STX__QUARANTINE_KILLS,
		 (unsigned long long)((until_ms - stx__now_ms(s) + 999) / 1000));
}

/* By key: 1 with a diagnostic. */
static int key_quarantined(struct stx__server *s, const char *ns, const struct stx_digest *key,
			   struct stx_diag *d)
{
	uint64_t until;
	if (!s->quarantine.table.n)
		return 0;
	struct stx_digest id = stx_key_scoped(ns, key);
	if (!stx__quarantine_has(&s->quarantine, &id, stx__now_ms(s), &until))
		return 0;
	quarantine_diag(s, until, d);
	return 1;
}

/* By memo digest. *answer is borrowed, or owned through *built. */
static enum found find_memory(struct stx__server *s, struct stx__spec *p, struct stx__blob **answer,
			      struct stx__blob **built, struct stx_diag *d)
{
	struct stx_span value;
	struct stx__memo m;
	uint64_t until;
	if (stx__quarantine_has(&s->quarantine, &p->memo, stx__now_ms(s), &until)) {
		quarantine_diag(s, until, d);
		return FOUND_QUARANTINED;
	}
	if ((!stx__underway_find(&s->memos, &p->memo, &value) &&
	     !stx_cache_memo_find(s->cache, &p->memo, &value)) ||
	    stx__memo_decode(value, &m))
		return stx_cache_failure_find(s->cache, p->ns, &p->memo, d) ? FOUND_FAILURE
									    : FOUND_NOTHING;
	if (m.need_values) {
		*answer = *built = stx__blob_copy(m.answer.at, m.answer.n);
		return *answer ? FOUND_NEEDED : FOUND_NOTHING;
	}
	*answer = find_answer(s, p->ns, &p->memo, &m.key, m.answer, built);
	if (*answer)
		return FOUND_ANSWER;
	if (key_quarantined(s, p->ns, &m.key, d))
		return FOUND_QUARANTINED;
	return stx_cache_failure_find(s->cache, p->ns, &m.key, d) ? FOUND_FAILURE : FOUND_NOTHING;
}

static void send_answer(struct stx__pending *p, struct stx__blob *answer, const char *stage)
{
	uint8_t tail[48];
	struct stx__blob *chosen = stx__tune_answer(p, answer), *noted = NULL;
	size_t n = stx__answer_stage(tail, sizeof tail, stage, stx_clock_us() - p->start_us);
	if (chosen)
		answer = chosen;
	if (p->not_cut && (noted = stx__answer_noted(answer, p->not_cut)))
		answer = noted;
	stx__conn_answer(p->conn, p->request_id, answer, tail, n);
	stx__blob_drop(noted);
	stx__blob_drop(chosen);
}

static void ask_for_body(struct stx__pending *p)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__Answer a = STX__ANSWER__INIT;
	e.request_id = p->request_id;
	e.msg_case = STX__ENVELOPE__MSG_ANSWER;
	e.answer = &a;
	a.need_body = 1;
	a.reason = "not known here";
	stx__conn_send(p->conn, &e, NULL);
	stx__pending_free(p);
}

/* ---- compile ---- */

static void process(struct stx__pending *p);

static void send_progress(struct stx__waiter *w, const char *stage, uint32_t done, uint32_t total)
{
	struct stx__pending *p = (struct stx__pending *)w;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__Progress g = STX__PROGRESS__INIT;
	if (p->conn->closing)
		return;
	e.request_id = p->request_id;
	e.msg_case = STX__ENVELOPE__MSG_PROGRESS;
	e.progress = &g;
	g.stage = (char *)stage;
	g.done = done;
	g.total = total;
	g.elapsed_ms = (stx_clock_us() - p->start_us) / 1000;
	stx__conn_send(p->conn, &e, NULL);
}

static void compile_done(struct stx__waiter *w, struct stx__flight *f,
			 const struct stx_diag *failure)
{
	struct stx__pending *p = (struct stx__pending *)w;
	struct stx__compile_chain *c = (struct stx__compile_chain *)f;
	if (failure && stx__spec_fall_back(p, failure, &c->key)) {
		process(p);
		return;
	}
	if (failure) {
		reply_error(p, failure);
		return;
	}
	struct stx_span names = { p->names ? p->names->at : NULL, p->names ? p->names->n : 0 };
	struct stx_span stored = { c->answer->at, c->answer->n };
	char path[PATH_MAX], reason[sizeof c->reason + 64];
	int has_path = c->stored && p->s->cache &&
		       stx_cache_path(p->s->cache, p->spec->ns, &c->artifact, path, sizeof path);
	snprintf(reason, sizeof reason, "%s%s", p->joined ? "joined a compile under way; " : "",
		 c->reason);
	struct stx__blob *b =
		stx__answer_build(stored, names, 0, c->stored, reason, has_path ? path : NULL);
	if (b && stx__spec_cut(p, b)) {
		stx__blob_drop(b);
		process(p);
		return;
	}
	if (b)
		send_answer(p, b, "request");
	else
		stx__conn_close(p->conn);
	stx__blob_drop(b);
	stx__pending_free(p);
}

/* The graph is in quarantine, or its failure known. */
static void refuse_known(struct stx__pending *p, const struct stx_diag *d)
{
	if (stx__spec_fall_back(p, d, NULL)) {
		process(p);
		return;
	}
	if (d->code == STX_E_QUARANTINED)
		p->s->stats.quarantined++;
	else
		p->s->stats.failures_cached++;
	reply_error(p, d);
}

/* The canonical key is known: perhaps it is there already, under other names. */
static void key_done(struct stx__waiter *w, struct stx__flight *f, const struct stx_diag *failure)
{
	struct stx__pending *p = (struct stx__pending *)w;
	struct stx__key_chain *k = (struct stx__key_chain *)f;
	struct stx__server *s = p->s;
	struct stx__memo m;
	struct stx__blob *built = NULL, *answer = NULL;
	struct stx_diag d = { 0 };
	if (failure && stx__spec_fall_back(p, failure, NULL)) {
		process(p);
		return;
	}
	if (failure) {
		reply_error(p, failure);
		return;
	}
	if (!k->memo || stx__memo_decode((struct stx_span){ k->memo->at, k->memo->n }, &m)) {
		fail(p, STX_E_INTERNAL, "key", "a bad memo value");
		return;
	}
	if (m.need_values) {
		built = stx__blob_copy(m.answer.at, m.answer.n);
		if (built)
			send_answer(p, built, "key");
		stx__blob_drop(built);
		stx__pending_free(p);
		return;
	}
	p->names = stx__blob_copy(m.answer.at, m.answer.n);
	if (!p->recache)
		answer = find_answer(s, p->spec->ns, &p->spec->memo, &m.key, m.answer, &built);
	if (answer && stx__spec_cut(p, answer)) {
		process(p);
	} else if (answer) {
		s->stats.hits++;
		send_answer(p, answer, "key");
		stx__pending_free(p);
	} else if (key_quarantined(s, p->spec->ns, &m.key, &d) ||
		   (!p->recache && stx_cache_failure_find(s->cache, p->spec->ns, &m.key, &d))) {
		refuse_known(p, &d);
	} else {
		w->done = compile_done;
		stx__compile_chain_join(s, p, k, &m);
	}
	stx__blob_drop(built);
}

static void start_compile(struct stx__pending *p)
{
	struct stx__server *s = p->s;
	if (s->draining && p->start_us >= s->drain_since_us) {
		fail(p, STX_E_BUSY, "request", "the server is shutting down");
		return;
	}
	if (stx__pool_queued(s->pool) >= s->cfg.queue) {
		s->stats.refused++;
		fail(p, STX_E_BUSY, "queue", "too many compiles are waiting");
		return;
	}
	p->waiter.done = key_done;
	stx__server_busy(s);
	stx__key_chain_join(p);
}

/* The fingerprint is known: answer from memory, or go on to a job. */
static void process(struct stx__pending *p)
{
	struct stx__server *s = p->s;
	struct stx__blob *answer = NULL, *built = NULL;
	struct stx_diag d = { 0 };
	enum found found = FOUND_NOTHING;
	if (p->run) {
		p->run(p);
		return;
	}
	int is_first = !p->spec->base && !p->not_cut;
	p->spec->memo = stx_key_memo(p->spec->what, &p->spec->body, &s->fingerprint);
	found = find_memory(s, p->spec, &answer, &built, &d);
	if (found == FOUND_ANSWER && stx__spec_cut(p, answer)) {
		stx__blob_drop(built);
		built = NULL;
		p->spec->memo = stx_key_memo(p->spec->what, &p->spec->body, &s->fingerprint);
		found = find_memory(s, p->spec, &answer, &built, &d);
	}
	if (p->recache && (found == FOUND_ANSWER || found == FOUND_FAILURE)) {
		if (found == FOUND_FAILURE)
			stx_cache_failure_drop(s->cache, p->spec->ns, &p->spec->memo);
		stx__blob_drop(built);
		built = NULL;
		found = FOUND_NOTHING;
	}
	s->stats.requests += is_first && !(p->is_lookup && found == FOUND_NOTHING);
	switch (found) {
	case FOUND_ANSWER:
	case FOUND_NEEDED:
		s->stats.hits += found == FOUND_ANSWER;
		send_answer(p, answer, "lookup");
		stx__pending_free(p);
		break;
	case FOUND_QUARANTINED:
	case FOUND_FAILURE: refuse_known(p, &d); break;
	case FOUND_NOTHING:
		if (p->is_lookup)
			ask_for_body(p);
		else
			start_compile(p);
	}
	stx__blob_drop(built);
}

void stx__request_ready(struct stx__server *s)
{
	while (s->parked) {
		struct stx__pending *p = s->parked;
		s->parked = p->next_parked;
		p->parked = 0;
		process(p);
	}
}

static void park(struct stx__pending *p)
{
	p->parked = 1;
	p->next_parked = p->s->parked;
	p->s->parked = p;
}

void stx__request_restart(struct stx__server *s)
{
	for (struct stx__chain *c = s->chains, *next; c; c = next) {
		next = c->next;
		if (c->kind == STX__CHAIN_COMPILE && ((struct stx__compile_chain *)c)->has_link)
			continue; /* made by the older build from end to end: stored under its key
				   */
		while (c->flight.first) {
			struct stx__pending *p = (struct stx__pending *)c->flight.first;
			stx__flight_leave(&p->waiter);
			stx__blob_drop(p->names);
			p->names = NULL;
			p->joined = 0;
			stx__spec_uncut(p);
			free(p->not_cut);
			p->not_cut = NULL;
			park(p);
		}
		stx__chain_abort(c);
	}
}

void stx__request_broken(struct stx__server *s, const struct stx_diag *d)
{
	while (s->parked) {
		struct stx__pending *p = s->parked;
		s->parked = p->next_parked;
		p->parked = 0;
		reply_error(p, d);
	}
}

void stx__request_expire_parked(struct stx__server *s, uint64_t now_ms)
{
	for (struct stx__pending *p = s->parked, *next; p; p = next) {
		next = p->next_parked;
		if (p->waiter.deadline_ms <= now_ms)
			fail(p, STX_E_DEADLINE, "start",
			     "the deadline passed before a worker was ready");
	}
}

static uint64_t deadline_of(struct stx__server *s, uint32_t wanted_ms)
{
	uint64_t ms = wanted_ms ? wanted_ms : s->cfg.deadline;
	return stx__now_ms(s) + (ms < s->cfg.deadline_max ? ms : s->cfg.deadline_max);
}

static void refuse(struct stx__conn *c, Stx__Envelope *e, int body_fd, uint32_t charged_bytes,
		   const struct stx_diag *d)
{
	c->s->stats.requests++;
	stx__conn_error(c, e->request_id, d);
	stx__envelope__free_unpacked(e, NULL);
	if (body_fd >= 0) {
		close(body_fd);
		c->s->received_bytes -= charged_bytes;
	}
}

/* The request waits from now on; e is its own. NULL: out of memory, and the client knows. */
static struct stx__pending *new_pending(struct stx__conn *c, Stx__Envelope *e,
					const Stx__Lookup *what, int body_fd,
					uint32_t charged_bytes, const struct stx_digest *body)
{
	struct stx__server *s = c->s;
	struct stx_diag d = { 0 };
	struct stx__pending *p = calloc(1, sizeof *p);
	struct stx__spec *spec = p ? stx__spec_new(s, e, what, body_fd, charged_bytes, body) : NULL;
	if (!spec) {
		free(p);
		stx_fail(&d, STX_E_NOMEM, "request", "", "out of memory");
		refuse(c, e, body_fd, charged_bytes, &d);
		return NULL;
	}
	p->s = s;
	p->conn = c;
	p->spec = spec;
	p->request_id = e->request_id;
	p->start_us = stx_clock_us();
	p->next = c->pendings;
	if (c->pendings)
		c->pendings->prev = p;
	c->pendings = p;
	c->npending++;
	c->received += charged_bytes;
	return p;
}

static void begin(struct stx__pending *p)
{
	if (p->s->ready) {
		process(p);
		return;
	}
	park(p);
	stx__server_busy(p->s);
}

static void lookup_or_compile(struct stx__conn *c, Stx__Envelope *e, int body_fd,
			      uint32_t charged_bytes, const struct stx_digest *body)
{
	int is_lookup = e->msg_case == STX__ENVELOPE__MSG_LOOKUP;
	Stx__Lookup *what = is_lookup ? e->lookup : e->compile->what;
	struct stx_diag d = { 0 };
	stx_err err = check_lookup(what, body, body_fd >= 0, &d);
	if (!err)
		err = normalise_target(&what->target, &d);
	if (!err && what->n_blockings && stx_gpu_is_target(what->target))
		err = stx_fail(&d, STX_E_PROTOCOL, "request", "",
			       "blockings are of products on a CPU");
	if (!err)
		err = stx_tunes_check_blockings(what->blockings, what->n_blockings, &d);
	if (!err && !is_lookup && body_fd < 0)
		err = stx_fail(&d, STX_E_PROTOCOL, "request", "",
			       "a compile needs the graph as its body");
	if (err) {
		refuse(c, e, body_fd, charged_bytes, &d);
		return;
	}
	struct stx__pending *p = new_pending(c, e, what, body_fd, charged_bytes, body);
	if (!p)
		return;
	p->is_lookup = is_lookup;
	p->recache = !is_lookup && e->compile->recache;
	p->waiter.deadline_ms = deadline_of(c->s, is_lookup ? 0 : e->compile->deadline_ms);
	if (!is_lookup && e->compile->want_progress)
		p->waiter.progress = send_progress;
	begin(p);
}

/* A product is a text of the client's: never taken for a GPU kernel's IR, which only compiles
 * store. */
static void check_code(const Stx__KernelCode *k, struct stx_diag *d)
{
	if (!stx_gpu_is_target(k->target)) {
		if (!k->product[0] || k->config[0])
			stx_fail(d, STX_E_PROTOCOL, "tune", "",
				 "of a CPU's kernels a request names a product and no "
				 "configuration");
	} else if (k->product[0] || k->kernel.len != STX_DIGEST_BYTES ||
		   strlen(k->config) >= STX_CONFIG_BYTES) {
		stx_fail(d, STX_E_PROTOCOL, "tune", "",
			 "of a GPU's kernels a request names a digest, a configuration of at most "
			 "%u bytes and no product",
			 STX_CONFIG_BYTES - 1);
	}
}

/* Requests about kernels: as a lookup they have a namespace, a target and options. */
static void about_kernels(struct stx__conn *c, Stx__Envelope *e)
{
	int is_tune = e->msg_case == STX__ENVELOPE__MSG_TUNE;
	const Stx__KernelCode *k = is_tune ? NULL : e->kernel_code;
	Stx__Lookup made = STX__LOOKUP__INIT;
	struct stx_diag d = { 0 };
	char **target = is_tune ? &e->tune->target : &e->kernel_code->target;
	made.ns = is_tune ? e->tune->ns : k->ns;
	made.options = is_tune ? e->tune->options : k->options;
	if (!valid_ns(made.ns))
		stx_fail(&d, STX_E_PROTOCOL, "tune", "", "timings are of a target in a namespace");
	else if (!normalise_target(target, &d) && is_tune)
		stx_tunes_check(e->tune, &d);
	else if (!d.code && k)
		check_code(k, &d);
	made.target = *target;
	struct stx__pending *p = NULL;
	struct stx_digest none = { { 0 } };
	if (d.code)
		refuse(c, e, -1, 0, &d);
	else
		p = new_pending(c, e, &made, -1, 0, &none);
	if (!p)
		return;
	p->spec->made = made;
	p->spec->what = &p->spec->made;
	p->run = is_tune ? stx__tune_request : stx__code_request;
	p->waiter.deadline_ms = deadline_of(c->s, 0);
	begin(p);
}

/* ---- the other requests ---- */

static void cancel(struct stx__conn *c, const Stx__Envelope *in)
{
	struct stx__pending *p = c->pendings;
	while (p && p->request_id != in->cancel->request_id)
		p = p->next;
	if (!p)
		return; /* answered already */
	struct stx_diag d = { 0 };
	stx_fail(&d, STX_E_CANCELED, "request", "", "canceled by the client");
	stx__conn_error(c, p->request_id, &d);
	stx__request_abandon(p);
}

void stx__request_frame(struct stx__conn *c, Stx__Envelope *e, int body_fd, uint32_t charged_bytes,
			const struct stx_digest *body)
{
	switch (e->msg_case) {
	case STX__ENVELOPE__MSG_LOOKUP:
	case STX__ENVELOPE__MSG_COMPILE:
		lookup_or_compile(c, e, body_fd, charged_bytes, body);
		return; /* it owns e now */
	case STX__ENVELOPE__MSG_TUNE:
	case STX__ENVELOPE__MSG_KERNEL_CODE: about_kernels(c, e); return;
	case STX__ENVELOPE__MSG_CANCEL: cancel(c, e); break;
	case STX__ENVELOPE__MSG_FETCH: stx__fetch(c, e); break;
	default: stx__service_frame(c, e);
	}
	stx__envelope__free_unpacked(e, NULL);
}
