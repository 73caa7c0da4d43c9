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

/* The choice for kernel i, appended. A kernel of which nothing is known has none; a product's is
 * told where it is how the answer has it cut. */
static void add_choice(const struct question *q, const Stx__Kernel *k, uint32_t i,
		       struct stx_bytes *out)
{
	struct stx_timing best;
	struct stx_digest product = stx_digest_of(k->product, strlen(k->product));
	const ProtobufCBinaryData of = { sizeof product.b, product.b };
	if (k->n_candidates < 2 || k->digest.len != STX_DIGEST_BYTES)
		return;
	struct stx_digest key = key_of(q, k->product[0] ? &of : &k->digest);
	Stx__TuneRecord *r = pinned(q, &key, find(q->s, q->spec->ns, &key), 0);
	if (stx_tunes_best(r, k, &best) && (!k->product[0] || !strcmp(best.config, k->config))) {
		Stx__Choice c = STX__CHOICE__INIT, *list[1] = { &c };
		Stx__Answer a = STX__ANSWER__INIT;
		c.kernel = i;
		c.config = best.config;
		c.median_ns = best.median_ns;
		c.spread_ns = best.spread_ns;
		a.choices = list;
		a.n_choices = 1;
		size_t bytes = stx__answer__get_packed_size(&a);
		if (!stx_bytes_reserve(out, bytes))
			out->n += stx__answer__pack(&a, out->at + out->n);
	}
	drop(r);
}

static Stx__TuneRecord *find_product(void *ctx, const struct stx_digest *product)
{
	const struct question *q = ctx;
	const ProtobufCBinaryData of = { STX_DIGEST_BYTES, (uint8_t *)(uintptr_t)product->b };
	struct stx_digest key = key_of(q, &of);
	return pinned(q, &key, find(q->s, q->spec->ns, &key), 0);
}

/* What the records say of an answer: owned. */
struct said {
	struct stx__blob *chosen; /* the answer with choices; NULL: there are none */
	struct stx__cut *cut;     /* NULL: its products are cut as they should be */
};

static struct stx__cut *cut_of(struct question *q, const Stx__Answer *a)
{
	struct stx__cut *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->refs = 1;
	if (stx_tunes_blockings(a, find_product, q, &c->list) || !c->list.n) {
		stx__cut_drop(c);
		return NULL;
	}
	return c;
}

static struct said read_answer(struct question *q, const struct stx__blob *answer)
{
	Stx__Answer *a = stx__answer__unpack(NULL, answer->n, answer->at);
	struct stx_bytes choices = { 0 };
	struct said out = { NULL, NULL };
	for (size_t i = 0; a && i < a->n_kernels; i++)
		add_choice(q, a->kernels[i], (uint32_t)i, &choices);
	if (choices.n && !choices.oom && (out.chosen = stx__blob_new(answer->n + choices.n))) {
		memcpy(out.chosen->at, answer->at, answer->n);
		memcpy(out.chosen->at + answer->n, choices.at, choices.n);
	}
	if (a && !q->spec->what->n_blockings && !stx_gpu_is_target(q->spec->what->target))
		out.cut = cut_of(q, a);
	stx_bytes_free(&choices);
	if (a)
		stx__answer__free_unpacked(a, NULL);
	return out;
}

/* No record and no job to remember that: what most answers for a CPU meet. */
static int knows_nothing(const struct stx__server *s, const char *job)
{
	struct stx_cache_stats now;
	if (job[0] || s->tunes.n || !s->cache)
		return 0;
	stx_cache_stats(s->cache, &now);
	return !now.tunes;
}

/* Of an answer from memory it is read once an epoch of the records. */
static struct said said_of(const struct stx__pending *p, const struct stx__blob *answer)
{
	const Stx__Lookup *what = p->spec->what;
	const Stx__Envelope *e = p->spec->e;
	static const struct stx_digest none;
	struct said out = { NULL, NULL };
	if (!what->device)
		return out;
	const char *job = e->msg_case == STX__ENVELOPE__MSG_COMPILE ? e->compile->job : what->job;
	if (!stx_gpu_is_target(what->target) && knows_nothing(p->s, job))
		return out;
	struct question q = { p->s, p->spec, what->device, job };
	struct stx__reply *r = stx__reply_find(&p->s->replies, &p->spec->memo);
	if (!r || r->answer != answer)
		return read_answer(&q, answer);
	/* Of an answer, kernels, target and options are given: device and job tell askers apart. */
	struct stx_digest asker =
		stx_key_tune(&none, what->target, p->spec->options, &none, what->device);
	if (job[0])
		asker = stx_key_pin(job, &asker);
	if (r->epoch != p->s->tunes_epoch || !stx_digest_eq(&r->asker, &asker)) {
		struct said fresh = read_answer(&q, answer);
		stx__reply_choose(&p->s->replies, r, &asker, p->s->tunes_epoch, fresh.chosen,
				  fresh.cut);
		stx__blob_drop(fresh.chosen);
		stx__cut_drop(fresh.cut);
	}
	out.chosen = r->chosen ? stx__blob_ref(r->chosen) : NULL;
	out.cut = r->cut ? stx__cut_ref(r->cut) : NULL;
	return out;
}

struct stx__blob *stx__tune_answer(const struct stx__pending *p, const struct stx__blob *answer)
{
	struct said s = said_of(p, answer);
	stx__cut_drop(s.cut);
	return s.chosen;
}

struct stx__cut *stx__tune_cut(const struct stx__pending *p, const struct stx__blob *answer)
{
	struct said s = said_of(p, answer);
	stx__blob_drop(s.chosen);
	return s.cut;
}
