/* private.c: compiling without a server (STAX_SERVER=none): this process plays the daemon's part
 * for itself: key, plan, kernels, link, each a job of the private worker. Kernels and artifacts
 * made are kept in memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "artifact_check.h"
#include "client.h"
#include "gpu_target.h"
#include "jobs.h"
#include "key.h"
#include "private_store.h"
#include "tunes.h"

struct stx__private {
	struct stx__child *child;
	struct stx__private_store kernels;   /* objects; meta: a struct stx_emitted */
	struct stx__private_store artifacts; /* by key; meta: packed Answer */
	struct stx__private_store irs;   /* GPU kernels' IR, by their key without configuration */
	struct stx__private_store tunes; /* packed TuneRecords */
	uint64_t requests, hits, misses, compiled;
};

void stx__private_free(struct stx__private *p)
{
	if (!p)
		return;
	stx__child_free(p->child);
	stx__private_clear(&p->kernels);
	stx__private_clear(&p->artifacts);
	stx__private_clear(&p->irs);
	stx__private_clear(&p->tunes);
	free(p);
}

void stx__private_stats(const struct stax_client *c, uint64_t out[4])
{
	const struct stx__private *p = c->private_worker;
	out[0] = p ? p->requests : 0;
	out[1] = p ? p->hits : 0;
	out[2] = p ? p->misses : 0;
	out[3] = p ? p->compiled : 0;
}

stx_err stx__private_child(struct stax_client *c, int cuda, struct stx__child **out,
			   struct stx_diag *d)
{
	if (!c->private_worker && !(c->private_worker = calloc(1, sizeof *c->private_worker)))
		return stx_fail(d, STX_E_NOMEM, "worker", "", "out of memory");
	struct stx__private *p = c->private_worker;
	stx_err e = STX_E_OK;
	if (!p->child || !stx__child_alive(p->child) || (cuda && !stx__child_has_cuda(p->child))) {
		stx__child_free(p->child);
		p->child = NULL;
		e = stx__child_new(cuda, &p->child, d);
	}
	*out = p->child;
	return e;
}

/* ---- one compile ---- */

struct work {
	struct stx__private *p;
	const struct stax_request *r;
	const char *target;
	struct stx_arena *arena;
	Stx__Lookup *lookup;
	struct stx__wait wait;
	struct stx__job_reply key, plan, link;
	struct stx_span *plan_pieces; /* plan, then each kernel's IR */
	Stx__Answer answer;
	struct stx_stages stages;
	struct stx_kernel_ids kernels;
	struct stx_digest compiler; /* the child may be gone at the end */
	uint64_t start_ns;
};

static stx_err no_memory(struct stx_diag *d)
{
	stx_fail(d, STX_E_NOMEM, "compile", "", "out of memory");
	return STX_E_NOMEM;
}

static void progress(struct work *w, const char *stage, uint32_t done, uint32_t total)
{
	if (w->r->progress)
		w->r->progress(w->r->progress_ctx, stage, done, total, 0);
}

/* config: of a GPU kernel, else NULL. */
static stx_err run_job(struct work *w, Stx__JobKind kind, const char *config,
		       const struct stx_span *pieces, uint32_t npieces, struct stx__job_reply *out,
		       struct stx_diag *d)
{
	Stx__Job job;
	uint64_t *sizes = STX_NEW_ARRAY(w->arena, uint64_t, npieces);
	if (!sizes)
		return no_memory(d);
	stx_jobs_fill(&job, kind, w->lookup, pieces, npieces, sizes);
	if (config)
		job.config = (char *)(uintptr_t)config;
	stx_err e = stx__child_run(w->p->child, &job, pieces, npieces, &w->wait, out, d);
	if (!e)
		stx_stages_add_all(&w->stages, out->m->stages, out->m->n_stages);
	return e;
}

/* The reply's body as exactly n pieces. */
static stx_err pieces_of(struct work *w, const struct stx__job_reply *r, size_t n,
			 struct stx_span **out, struct stx_diag *d)
{
	*out = STX_NEW_ARRAY(w->arena, struct stx_span, n);
	return *out ? stx_jobs_split(r->r.body, r->m->piece_bytes, r->m->n_piece_bytes, *out, n, d)
		    : no_memory(d);
}

static stx_err pack_message(const ProtobufCMessage *m, struct stx_bytes *out, struct stx_diag *d)
{
	size_t n = protobuf_c_message_get_packed_size(m);
	if (stx_bytes_reserve(out, n ? n : 1))
		return no_memory(d);
	out->n = protobuf_c_message_pack(m, out->at);
	return STX_E_OK;
}

/* The object of a distinct kernel, from memory or compiled now. */
static stx_err one_kernel(struct work *w, const struct stx_kernel_id *k,
			  const struct stx__private_entry **out, int *reused, struct stx_diag *d)
{
	struct stx__job_reply r = { 0 };
	struct stx_span *object;
	struct stx_bytes meta = { 0 };
	*out = stx__private_find(&w->p->kernels, &k->id);
	*reused = *out != NULL;
	if (*out)
		return STX_E_OK;
	stx_err e = run_job(w, STX__JOB_KIND__JOB_KERNEL, k->config, &w->plan_pieces[k->piece], 1,
			    &r, d);
	if (!e)
		e = pieces_of(w, &r, 1, &object, d);
	if (!e) {
		struct stx_emitted emitted = stx_jobs_emitted(r.m);
		if (stx_bytes_put(&meta, &emitted, sizeof emitted) ||
		    !(*out = stx__private_put(&w->p->kernels, &k->id, object[0], &meta)))
			e = no_memory(d);
	}
	stx_bytes_free(&meta);
	stx__received_free(&r.r);
	w->p->compiled += !e;
	return e;
}

/* So that a GPU kernel can be compiled in other configurations later. */
static stx_err keep_ir(struct work *w, const struct stx_kernel_id *k, struct stx_diag *d)
{
	struct stx_bytes none = { 0 };
	struct stx_digest ir;
	if (!k->config)
		return STX_E_OK;
	memcpy(ir.b, w->plan.m->kernels[k->piece - 1]->digest.data, sizeof ir.b);
	struct stx_digest id =
		stx_key_kernel(&ir, NULL, w->target, stx_option_bits(w->lookup->options),
			       stx__child_fingerprint(w->p->child));
	return stx__private_put(&w->p->irs, &id, w->plan_pieces[k->piece], &none) ? STX_E_OK
										  : no_memory(d);
}

/* Objects of all distinct kernels, objects[0] the plan; the rows of the plan get what emission
 * found. */
static stx_err all_kernels(struct work *w, struct stx_span *objects, struct stx_diag *d)
{
	uint32_t n = w->kernels.n;
	struct stx_emitted *emitted = STX_NEW_ARRAY(w->arena, struct stx_emitted, n);
	uint8_t *reused = STX_NEW_ARRAY(w->arena, uint8_t, n);
	if (!emitted || !reused)
		return no_memory(d);
	objects[0] = w->plan_pieces[0];
	for (uint32_t i = 0; i < n; i++) {
		const struct stx__private_entry *k;
		int old;
		progress(w, "kernels", i, n);
		stx_err e = keep_ir(w, &w->kernels.at[i], d);
		if (!e)
			e = one_kernel(w, &w->kernels.at[i], &k, &old, d);
		if (e)
			return e;
		/* Copied: the store may be emptied while later kernels are added. */
		uint8_t *copy = stx_arena_copy(w->arena, k->bytes.at, k->bytes.n);
		if (!copy)
			return no_memory(d);
		objects[i + 1] = (struct stx_span){ copy, k->bytes.n };
		memcpy(&emitted[i], k->meta.at, sizeof *emitted);
		reused[i] = (uint8_t)old;
	}
	for (size_t i = 0; i < w->plan.m->n_kernels; i++) {
		uint32_t k = w->kernels.of[i];
		stx_jobs_set_emitted(w->plan.m->kernels[i], &emitted[k], reused[k]);
	}
	return STX_E_OK;
}

static stx_err build(struct work *w, const struct stx_digest *key, struct stx_diag *d)
{
	struct stx_span *graph, *artifact;
	stx_err e = pieces_of(w, &w->key, 1, &graph, d);
	if (e)
		return e;
	progress(w, "plan", 0, 1);
	if ((e = run_job(w, STX__JOB_KIND__JOB_PLAN, NULL, graph, 1, &w->plan, d)))
		return e;
	if ((e = pieces_of(w, &w->plan, w->plan.m->n_kernels + 1, &w->plan_pieces, d)) ||
	    (e = stx_jobs_kernels(w->plan.m, w->lookup, stx__child_fingerprint(w->p->child),
				  &w->kernels, d)))
		return e;
	struct stx_span *objects = STX_NEW_ARRAY(w->arena, struct stx_span, w->kernels.n + 1);
	if (!objects)
		return no_memory(d);
	if ((e = all_kernels(w, objects, d)))
		return e;
	progress(w, "link", 0, 1);
	if ((e = run_job(w, STX__JOB_KIND__JOB_LINK, NULL, objects, w->kernels.n + 1, &w->link,
			 d)) ||
	    (e = pieces_of(w, &w->link, 1, &artifact, d)))
		return e;
	uint64_t start = stx_clock_ns(); /* here: the graph may have taken the worker over */
	if ((e = stx_artifact_check(*artifact, d)))
		return e;
	stx_stages_add(&w->stages, "check", (stx_clock_ns() - start) / 1000);
	Stx__Answer *a = &w->answer;
	uint8_t *digest = stx_arena_alloc(w->arena, STX_DIGEST_BYTES);
	if (!digest)
		return no_memory(d);
	struct stx_digest content = stx_digest_of(artifact->at, artifact->n);
	memcpy(digest, content.b, sizeof content.b);
	a->digest = (ProtobufCBinaryData){ STX_DIGEST_BYTES, digest };
	a->size_bytes = artifact->n;
	a->compile_us = (stx_clock_ns() - w->start_ns) / 1000;
	stx_jobs_answer(a, w->plan.m);
	struct stx_bytes meta = { 0 };
	if ((e = pack_message(&a->base, &meta, d)))
		return e;
	return stx__private_put(&w->p->artifacts, key, *artifact, &meta) ? STX_E_OK : no_memory(d);
}

/* From the stored description (kept alive in *held) and this request's names. */
static stx_err hit(struct work *w, const struct stx__private_entry *found, Stx__Answer **held,
		   struct stx_diag *d)
{
	*held = stx__answer__unpack(NULL, found->meta.n, found->meta.at);
	if (!*held)
		return no_memory(d);
	w->answer = **held;
	w->answer.hit = 1;
	w->answer.reason = (char *)(uintptr_t) "made earlier by this process";
	return STX_E_OK;
}

static void forget_plan(struct work *w)
{
	stx__received_free(&w->plan.r);
	stx__received_free(&w->link.r);
	stx_kernel_ids_free(&w->kernels);
	memset(&w->plan, 0, sizeof w->plan);
	memset(&w->link, 0, sizeof w->link);
}

/* The artifact of that key, made earlier or now; anew: now. */
static stx_err obtain(struct work *w, const struct stx_digest *key, int anew, Stx__Answer **held,
		      struct stx_diag *d)
{
	const struct stx__private_entry *found =
		anew ? NULL : stx__private_find(&w->p->artifacts, key);
	uint8_t *copy = stx_arena_copy(w->arena, key->b, sizeof key->b);
	w->answer.reason = (char *)(uintptr_t) "not yet compiled by this process";
	stx_err e = !copy ? no_memory(d) : found ? hit(w, found, held, d) : build(w, key, d);
	if (e)
		return e;
	w->p->hits += found != NULL;
	w->p->misses += !found;
	w->answer.key = (ProtobufCBinaryData){ sizeof key->b, copy };
	return STX_E_OK;
}

static Stx__TuneRecord *find_product(void *ctx, const struct stx_digest *product)
{
	const struct work *w = ctx;
	struct stx_digest key =
		stx_key_tune(product, w->target, stx_option_bits(w->lookup->options), &w->compiler,
			     w->lookup->device);
	const struct stx__private_entry *x = stx__private_find(&w->p->tunes, &key);
	return x ? stx__tune_record__unpack(NULL, x->bytes.n, x->bytes.at) : NULL;
}

/* Writes down what failed: the canonical graph, once there is one. */
static void reproduce(const struct work *w, struct stx_diag *d)
{
	struct stx_span graph = { w->r->graph, w->r->graph_bytes };
	int is_canonical = w->key.r.body.n != 0;
	stx__reproduce(w->lookup, is_canonical ? STAX_TEXT : w->lookup->format,
		       is_canonical ? w->key.r.body : graph, &w->compiler, d);
}

/* The artifact whose products are cut as was measured, which is but a hint, failed: that of key
 * again, with a line of the report that says why. */
static stx_err not_cut(struct work *w, const struct stx_digest *key, Stx__Answer **held,
		       struct stx_diag *d)
{
	char text[sizeof d->text + 128];
	reproduce(w, d);
	snprintf(text, sizeof text, STX_TUNES_NOT_CUT, d->text);
	stx_diag_clear(d);
	w->lookup->blockings = NULL;
	w->lookup->n_blockings = 0;
	forget_plan(w);
	stx__answer__init(&w->answer);
	stx_err e = obtain(w, key, 0, held, d);
	size_t n = w->answer.n_report;
	char **report = e ? NULL : STX_NEW_ARRAY(w->arena, char *, n + 1);
	if (e)
		return e;
	if (!report || !(report[n] = stx_arena_strdup(w->arena, text)))
		return no_memory(d);
	if (n)
		memcpy(report, w->answer.report, n * sizeof *report);
	w->answer.report = report;
	w->answer.n_report = n + 1;
	return STX_E_OK;
}

/* The answer's products as this process has measured them: another artifact takes its place. */
static stx_err cut_otherwise(struct work *w, const struct stx_digest *key, Stx__Answer **held,
			     struct stx_diag *d)
{
	struct stx_blocking_list list = { NULL, 0 };
	if (!w->p->tunes.n || !w->lookup->device || w->lookup->n_blockings ||
	    stx_gpu_is_target(w->target))
		return STX_E_OK;
	if (stx_tunes_blockings(&w->answer, find_product, w, &list) ||
	    (list.at && stx_arena_on_free(w->arena, free, list.at)))
		return no_memory(d);
	if (!list.n)
		return STX_E_OK;
	w->lookup->blockings = list.at;
	w->lookup->n_blockings = list.n;
	struct stx_digest blocked = stx_key_blocked(key, list.at, list.n);
	if (*held)
		stx__answer__free_unpacked(*held, NULL);
	*held = NULL;
	forget_plan(w);
	stx__answer__init(&w->answer);
	stx_err e = obtain(w, &blocked, w->r->recache, held, d);
	return !e || e == STX_E_DEADLINE || e == STX_E_NOMEM ? e : not_cut(w, key, held, d);
}

static stx_err compile(struct work *w, struct stax_answer **out, struct stx_diag *d)
{
	struct stx_span body = { w->r->graph, w->r->graph_bytes };
	struct stx_digest graph, key;
	Stx__Answer *held = NULL;
	Stx__Stage **stages = NULL;
	progress(w, "key", 0, 1);
	stx_err e = run_job(w, STX__JOB_KIND__JOB_KEY, NULL, &body, 1, &w->key, d);
	const Stx__JobReply *m = w->key.m;
	if (e == STX_E_NEED_VALUES && m->n_need_values) {
		stx_diag_clear(d);
		w->answer.need_values = m->need_values;
		w->answer.n_need_values = m->n_need_values;
		e = STX_E_OK;
		goto answer;
	}
	if (e)
		return e;
	if (m->graph_digest.len != sizeof graph.b)
		return stx_fail(d, STX_E_PROTOCOL, "worker", "", "a key without its graph digest");
	memcpy(graph.b, m->graph_digest.data, sizeof graph.b);
	key = stx_key_artifact(&graph, w->target, stx_option_bits(w->lookup->options),
			       stx__child_fingerprint(w->p->child));
	key = stx_key_blocked(&key, w->lookup->blockings, w->lookup->n_blockings);
	e = obtain(w, &key, w->r->recache, &held, d);
	if (!e)
		e = cut_otherwise(w, &key, &held, d);
	if (e)
		goto end;
	w->answer.input_names = m->input_names;
	w->answer.n_input_names = m->n_input_names;
	w->answer.output_names = m->output_names;
	w->answer.n_output_names = m->n_output_names;
answer:
	w->answer.stages = stages = stx_stages_list(&w->stages, NULL, &w->answer.n_stages);
	if (!stages) {
		e = no_memory(d);
		goto end;
	}
	*out = stx__answer_new(&w->answer, w->lookup);
	if (!*out)
		e = no_memory(d);
end:
	free(stages);
	if (held)
		stx__answer__free_unpacked(held, NULL);
	return e;
}

static stx_err start(struct work *w, struct stax_client *c, const struct stax_request *r,
		     const char *target, struct stx_diag *d)
{
	memset(w, 0, sizeof *w);
	stx__answer__init(&w->answer);
	struct stx__child *child;
	stx_err e = stx__private_child(c, stx_gpu_is_target(target), &child, d);
	if (e)
		return e;
	w->start_ns = stx_clock_ns();
	w->p = c->private_worker;
	w->compiler = *stx__child_fingerprint(child);
	w->r = r;
	w->target = target;
	w->wait = (struct stx__wait){ 0, r->progress, r->progress_ctx };
	if (r->deadline_ms)
		w->wait.deadline_ns = stx_clock_ns() + r->deadline_ms * 1000000ull;
	w->arena = stx_arena_new(0);
	return w->arena ? stx__lookup_build(w->arena, r, target, &w->lookup, d) : no_memory(d);
}

static void finish(struct work *w)
{
	stx__received_free(&w->key.r);
	forget_plan(w);
	stx_arena_free(w->arena);
}

stx_err stx__private_compile(struct stax_client *c, const struct stax_request *r,
			     const char *target, struct stax_answer **out, struct stx_diag *d)
{
	struct work w;
	stx_err e = start(&w, c, r, target, d);
	if (!e) {
		w.p->requests++;
		e = compile(&w, out, d);
	}
	if (e && w.lookup)
		reproduce(&w, d);
	finish(&w);
	return e;
}

stx_err stx__private_fetch(struct stax_client *c, const struct stx_digest *digest,
			   struct stx_span *out, struct stx_diag *d)
{
	const struct stx__private_store *s =
		c->private_worker ? &c->private_worker->artifacts : NULL;
	for (size_t i = 0; s && i < s->cap; i++) {
		if (!s->at[i] || !stx_digest_eq(&s->at[i]->content, digest))
			continue;
		*out = (struct stx_span){ s->at[i]->bytes.at, s->at[i]->bytes.n };
		return STX_E_OK;
	}
	return stx_fail(d, STX_E_NOT_FOUND, "fetch", "", "this process has not made that artifact");
}

/* ---- timings and configurations, without a server ---- */

static stx_err reply_with(const Stx__Envelope *e, struct stx_span body, struct stx__received *out,
			  struct stx_diag *d)
{
	struct stx_bytes packed = { 0 };
	memset(out, 0, sizeof *out);
	stx_err err = pack_message(&e->base, &packed, d);
	if (!err && !(out->e = stx__envelope__unpack(NULL, packed.n, packed.at)))
		err = no_memory(d);
	if (!err && body.n) {
		out->raw = malloc(body.n);
		if (out->raw)
			memcpy(out->raw, body.at, body.n);
		out->body = (struct stx_span){ out->raw, body.n };
		err = out->raw ? STX_E_OK : no_memory(d);
	}
	if (err)
		stx__received_free(out);
	stx_bytes_free(&packed);
	return err;
}

/* The record after merging what is said; NULL and d on failure. */
static const struct stx__private_entry *merge_record(struct stx__private *p,
						     const struct stx_digest *key,
						     const Stx__TuneRecord *said,
						     const Stx__Device *device, struct stx_diag *d)
{
	const struct stx__private_entry *old = stx__private_find(&p->tunes, key);
	Stx__TuneRecord all = STX__TUNE_RECORD__INIT, *before = NULL;
	struct stx_bytes packed = { 0 }, none = { 0 };
	void *block = NULL;
	if (old && !said->n_timings)
		return old;
	if (old && (before = stx__tune_record__unpack(NULL, old->bytes.n, old->bytes.at)))
		all = *before;
	all.kernel = said->kernel;
	all.device = (Stx__Device *)(uintptr_t)device;
	if (stx_tunes_merge(&all, said, &block) || pack_message(&all.base, &packed, d))
		no_memory(d);
	else
		old = stx__private_put(&p->tunes, key, (struct stx_span){ packed.at, packed.n },
				       &none);
	free(block);
	stx_bytes_free(&packed);
	if (before)
		stx__tune_record__free_unpacked(before, NULL);
	return old;
}

static stx_err private_records(struct stx__private *p, const Stx__Tune *t,
			       struct stx__received *out, struct stx_diag *d)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__TuneReply r = STX__TUNE_REPLY__INIT;
	Stx__TuneRecord **list = calloc(t->n_records + 1, sizeof *list);
	stx_err err = list ? STX_E_OK : no_memory(d);
	for (size_t i = 0; !err && i < t->n_records; i++) {
		struct stx_digest ir;
		memcpy(ir.b, t->records[i]->kernel.data, sizeof ir.b);
		struct stx_digest key = stx_key_tune(&ir, t->target, stx_option_bits(t->options),
						     stx__child_fingerprint(p->child), t->device);
		const struct stx__private_entry *x =
			merge_record(p, &key, t->records[i], t->device, d);
		list[i] = x ? stx__tune_record__unpack(NULL, x->bytes.n, x->bytes.at) : NULL;
		r.n_records = i + 1;
		err = list[i] ? STX_E_OK : no_memory(d);
	}
	e.msg_case = STX__ENVELOPE__MSG_TUNE_REPLY;
	e.tune_reply = &r;
	r.records = list;
	if (!err)
		err = reply_with(&e, (struct stx_span){ NULL, 0 }, out, d);
	for (size_t i = 0; list && i < r.n_records; i++)
		if (list[i])
			stx__tune_record__free_unpacked(list[i], NULL);
	free(list);
	return err;
}

static stx_err private_code(struct work *w, const Stx__KernelCode *q, struct stx__received *out,
			    struct stx_diag *d)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__KernelCodeReply r = STX__KERNEL_CODE_REPLY__INIT;
	Stx__Kernel k = STX__KERNEL__INIT;
	struct stx__job_reply space = { 0 };
	struct stx_span ir[2] = { { 0 } }, body = { 0 };
	struct stx_emitted emitted;
	struct stx_digest digest = { { 0 } };
	uint32_t options = stx_option_bits(q->options);
	if (!q->product[0])
		memcpy(digest.b, q->kernel.data, sizeof digest.b);
	struct stx_digest id = stx_key_kernel(&digest, NULL, q->target, options, &w->compiler);
	struct stx_kernel_id kernel = {
		stx_key_kernel(&digest, q->config, q->target, options, &w->compiler), 1, q->config
	};
	const struct stx__private_entry *stored = stx__private_find(&w->p->irs, &id), *code;
	int reused, of_space = !q->config[0];
	if (!stored && !q->product[0])
		return stx_fail(d, STX_E_NOT_FOUND, "kernel", "",
				"this process has not compiled that kernel");
	ir[1] = q->product[0] ? (struct stx_span){ (const uint8_t *)q->product, strlen(q->product) }
			      : (struct stx_span){ stored->bytes.at, stored->bytes.n };
	w->plan_pieces = ir;
	e.msg_case = STX__ENVELOPE__MSG_KERNEL_CODE_REPLY;
	e.kernel_code_reply = &r;
	r.kernel = &k;
	stx_err err = of_space ? run_job(w, STX__JOB_KIND__JOB_SPACE, NULL, &ir[1], 1, &space, d)
			       : one_kernel(w, &kernel, &code, &reused, d);
	w->plan_pieces = NULL;
	if (!err && !of_space) {
		memcpy(&emitted, code->meta.at, sizeof emitted);
		k.block = emitted.block;
		k.n_block = 3;
		k.registers = emitted.registers;
		k.spills = emitted.spills;
		k.shared_bytes = emitted.shared_bytes;
		body = (struct stx_span){ code->bytes.at, code->bytes.n };
	} else if (!err && space.m->n_kernels) {
		r.kernel = space.m->kernels[0];
	}
	if (!err)
		err = reply_with(&e, body, out, d);
	stx__received_free(&space.r);
	return err;
}

stx_err stx__private_tuning(struct stax_client *c, const Stx__Envelope *in,
			    struct stx__received *out, struct stx_diag *d)
{
	struct work w = { 0 };
	struct stx__child *child;
	Stx__Lookup lookup = STX__LOOKUP__INIT;
	stx_err e = stx__private_child(c,
				       stx_gpu_is_target(in->msg_case == STX__ENVELOPE__MSG_TUNE
								 ? in->tune->target
								 : in->kernel_code->target),
				       &child, d);
	if (e)
		return e;
	w.p = c->private_worker;
	w.compiler = *stx__child_fingerprint(child);
	if (in->msg_case == STX__ENVELOPE__MSG_TUNE)
		return private_records(w.p, in->tune, out, d);
	lookup.target = in->kernel_code->target;
	lookup.options = in->kernel_code->options;
	w.lookup = &lookup;
	w.target = lookup.target;
	if (!(w.arena = stx_arena_new(0)))
		return no_memory(d);
	e = private_code(&w, in->kernel_code, out, d);
	stx_arena_free(w.arena);
	return e;
}

stx_err stx__private_ping(struct stax_client *c, struct stax_pong *out, struct stx_diag *d)
{
	uint64_t before = stx_clock_ns();
	struct stx__child *w;
	stx_err e = stx__private_child(c, 0, &w, d);
	if (e)
		return e;
	out->rtt_ns = stx_clock_ns() - before;
	out->workers = 1;
	snprintf(out->version, sizeof out->version, "%s (private worker)", STX_VERSION);
	snprintf(out->sandbox, sizeof out->sandbox, "%s", stx__child_sandbox(w));
	stx_digest_hex(stx__child_fingerprint(w), out->fingerprint);
	out->worker_pids[out->nworker_pids++] = (uint32_t)stx__child_pid(w);
	return STX_E_OK;
}
