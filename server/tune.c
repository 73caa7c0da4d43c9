/* tune.c: tune records. A record is a packed TuneRecord under the key of kernel, target, compiler
 * and device; a job's pin is the record as the job first saw it, under a key of its own (design:
 * keys; seed 003 9.6). What is on its way to the store is found as if it were there. */
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "gpu_target.h"
#include "tuning.h"
#include "tunes.h"
#include "underway.h"

static void put(struct stx__server *s, const char *ns, const struct stx_digest *key,
		const Stx__TuneRecord *r, int replace)
{
	struct stx_digest id = stx_key_scoped(ns, key);
	struct stx__blob *b = stx__blob_new(stx__tune_record__get_packed_size(r));
	if (!b)
		return;
	stx__tune_record__pack(r, b->at);
	struct stx_span value = { b->at, b->n };
	struct stx__underway *w = stx__underway_new(s, &s->tunes, &id, value, "timings");
	s->tunes_epoch++;
	if (w)
		stx_cache_tune_put(s->cache, ns, key, value, replace, stx__underway_done, w);
	stx__blob_drop(b);
}

/* NULL: there is none, or one that is not ours. Freed by the caller. */
static Stx__TuneRecord *find(struct stx__server *s, const char *ns, const struct stx_digest *key)
{
	struct stx_digest id = stx_key_scoped(ns, key);
	struct stx_span v;
	if (!stx__underway_find(&s->tunes, &id, &v) && !stx_cache_tune_find(s->cache, ns, key, &v))
		return NULL;
	return stx__tune_record__unpack(NULL, v.n, v.at);
}

static void drop(Stx__TuneRecord *r)
{
	if (r)
		stx__tune_record__free_unpacked(r, NULL);
}

struct question {
	struct stx__server *s;
	const struct stx__spec *spec;
	const Stx__Device *device;
	const char *job; /* "": none */
};

static struct stx_digest key_of(const struct question *q, const ProtobufCBinaryData *kernel)
{
	struct stx_digest ir;
	memcpy(ir.b, kernel->data, sizeof ir.b);
	return stx_key_tune(&ir, q->spec->what->target, q->spec->options, &q->s->fingerprint,
			    q->device);
}

/* What the job has seen, which is what all of it goes by. Nothing seen before: the record, from now
 * on; a job that has seen an empty one keeps it (measures: 0) or takes what there is now. Takes
 * the record over and returns what it gave way to, perhaps NULL. */
static Stx__TuneRecord *pinned(const struct question *q, const struct stx_digest *key,
			       Stx__TuneRecord *r, int measures)
{
	if (!q->job[0])
		return r;
	struct stx_digest id = stx_key_pin(q->job, key);
	Stx__TuneRecord *pin = find(q->s, q->spec->ns, &id);
	if (pin && (pin->n_timings || !measures || !r || !r->n_timings)) {
		drop(r);
		return pin;
	}
	Stx__TuneRecord none = STX__TUNE_RECORD__INIT;
	put(q->s, q->spec->ns, &id, r ? r : &none, pin != NULL);
	drop(pin);
	return r;
}

/* ---- requests ---- */

/* Merges what the request says of a kernel into the record and returns that. */
static Stx__TuneRecord *merged(const struct question *q, const struct stx_digest *key,
			       const Stx__TuneRecord *said)
{
	Stx__TuneRecord *r = find(q->s, q->spec->ns, key), all = STX__TUNE_RECORD__INIT;
	void *block = NULL;
	if (!said->n_timings)
		return r;
	if (r)
		all = *r;
	if (!stx_tunes_merge(&all, said, &block)) {
		all.kernel = said->kernel;
		all.device = (Stx__Device *)(uintptr_t)q->device;
		put(q->s, q->spec->ns, key, &all, 1);
		q->s->stats.tunes_put++;
	}
	free(block);
	drop(r);
	return find(q->s, q->spec->ns, key);
}

static void reply(struct stx__pending *p, const Stx__Tune *t, Stx__TuneRecord **records)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__TuneReply r = STX__TUNE_REPLY__INIT;
	Stx__TuneRecord none = STX__TUNE_RECORD__INIT;
	e.request_id = p->request_id;
	e.msg_case = STX__ENVELOPE__MSG_TUNE_REPLY;
	e.tune_reply = &r;
	Stx__TuneRecord **list = calloc(t->n_records + 1, sizeof *list);
	for (size_t i = 0; list && i < t->n_records; i++)
		list[i] = records[i] ? records[i] : &none;
	r.records = list;
	r.n_records = list ? t->n_records : 0;
	stx__conn_send(p->conn, &e, NULL);
	free(list);
}

void stx__tune_request(struct stx__pending *p)
{
	const Stx__Tune *t = p->spec->e->tune;
	struct question q = { p->s, p->spec, t->device, t->job };
	Stx__TuneRecord **records = calloc(t->n_records + 1, sizeof *records);
	p->s->stats.requests++;
	for (size_t i = 0; records && i < t->n_records; i++) {
		struct stx_digest key = key_of(&q, &t->records[i]->kernel);
		records[i] = pinned(&q, &key, merged(&q, &key, t->records[i]), !t->loads);
	}
	if (records)
		reply(p, t, records);
	else
		stx__conn_close(p->conn);
	for (size_t i = 0; records && i < t->n_records; i++)
		drop(records[i]);
	free(records);
	stx__pending_free(p);
}

/* ---- choices in answers ---- */

/* The choice for kernel i, appended. A kernel of which nothing is known has none. */
static void add_choice(const struct question *q, const Stx__Kernel *k, uint32_t i,
		       struct stx_bytes *out)
{
	const char *configs[STX_TIMINGS_MAX];
	struct stx_timing t[STX_TIMINGS_MAX];
	uint32_t n = 0;
	if (k->n_candidates < 2 || k->digest.len != STX_DIGEST_BYTES)
		return;
	struct stx_digest key = key_of(q, &k->digest);
	Stx__TuneRecord *r = pinned(q, &key, find(q->s, q->spec->ns, &key), 0);
	for (; n < k->n_candidates && n < STX_TIMINGS_MAX; n++)
		configs[n] = k->candidates[n]->text;
	stx_tunes_read(r, configs, n, t);
	uint32_t best = stx_timing_best(t, n);
	if (t[best].verdict != STX_VERDICT_NONE) {
		Stx__Choice c = STX__CHOICE__INIT, *list[1] = { &c };
		Stx__Answer a = STX__ANSWER__INIT;
		c.kernel = i;
		c.config = t[best].config;
		c.median_ns = t[best].median_ns;
		c.spread_ns = t[best].spread_ns;
		a.choices = list;
		a.n_choices = 1;
		size_t bytes = stx__answer__get_packed_size(&a);
		if (!stx_bytes_reserve(out, bytes))
			out->n += stx__answer__pack(&a, out->at + out->n);
	}
	drop(r);
}

static struct stx__blob *add_choices(const struct question *q, const struct stx__blob *answer)
{
	Stx__Answer *a = stx__answer__unpack(NULL, answer->n, answer->at);
	struct stx_bytes choices = { 0 };
	struct stx__blob *b = NULL;
	for (size_t i = 0; a && i < a->n_kernels; i++)
		add_choice(q, a->kernels[i], (uint32_t)i, &choices);
	if (choices.n && !choices.oom && (b = stx__blob_new(answer->n + choices.n))) {
		memcpy(b->at, answer->at, answer->n);
		memcpy(b->at + answer->n, choices.at, choices.n);
	}
	stx_bytes_free(&choices);
	if (a)
		stx__answer__free_unpacked(a, NULL);
	return b;
}

struct stx__blob *stx__tune_answer(const struct stx__pending *p, const struct stx__blob *answer)
{
	const Stx__Lookup *what = p->spec->what;
	const Stx__Envelope *e = p->spec->e;
	static const struct stx_digest none;
	if (!what->device || !stx_gpu_is_target(what->target))
		return NULL;
	const char *job = e->msg_case == STX__ENVELOPE__MSG_COMPILE ? e->compile->job : what->job;
	struct question q = { p->s, p->spec, what->device, job };
	struct stx__reply *r = stx__reply_find(&p->s->replies, &p->spec->memo);
	if (!r || r->answer != answer)
		return add_choices(&q, answer);
	/* Of an answer, kernels, target and options are given: device and job tell askers apart. */
	struct stx_digest asker =
		stx_key_tune(&none, what->target, p->spec->options, &none, what->device);
	if (job[0])
		asker = stx_key_pin(job, &asker);
	if (r->epoch != p->s->tunes_epoch || !stx_digest_eq(&r->asker, &asker)) {
		struct stx__blob *b = add_choices(&q, answer);
		stx__reply_choose(&p->s->replies, r, &asker, p->s->tunes_epoch, b);
		stx__blob_drop(b);
	}
	return r->chosen ? stx__blob_ref(r->chosen) : NULL;
}
