/* tune.c: timings and code of kernels from the server or, without one, from this process; the
 * choices of an answer; the public calls. */
#include <stdlib.h>
#include <string.h>

#include "gpu_target.h"
#include "tuner.h"

static stx_err ask(const struct stx__about *b, Stx__Envelope *m, Stx__Envelope__MsgCase want,
		   struct stx__received *out, struct stx_diag *d)
{
	struct stx__wait w = { 0 };
	stx_err e = b->c->at.kind == STX__NONE
			    ? stx__private_tuning(b->c, m, out, d)
			    : stx__roundtrip(b->c, m, (struct stx_span){ NULL, 0 }, &w, out, d);
	if (e || out->e->msg_case == want)
		return e;
	stx__received_free(out);
	return stx_fail(d, STX_E_PROTOCOL, "tune", "", "unexpected reply about kernels");
}

static stx_err server_records(const struct stx__about *b, Stx__TuneRecord **said, size_t n,
			      struct stx__received *out, struct stx_diag *d)
{
	Stx__Envelope m = STX__ENVELOPE__INIT;
	Stx__Tune t = STX__TUNE__INIT;
	Stx__Options o = STX__OPTIONS__INIT;
	o.fast = b->fast;
	t.ns = (char *)(uintptr_t)b->ns;
	t.target = (char *)(uintptr_t)b->target;
	t.options = &o;
	t.device = (Stx__Device *)(uintptr_t)b->device;
	t.job = (char *)(uintptr_t)b->job;
	t.records = said;
	t.n_records = n;
	t.loads = b->loads;
	m.msg_case = STX__ENVELOPE__MSG_TUNE;
	m.tune = &t;
	stx_err e = ask(b, &m, STX__ENVELOPE__MSG_TUNE_REPLY, out, d);
	if (e || out->e->tune_reply->n_records == n)
		return e;
	stx__received_free(out);
	return stx_fail(d, STX_E_PROTOCOL, "tune", "", "a reply with other records than asked for");
}

static stx_err ask_code(const struct stx__about *b, ProtobufCBinaryData kernel, const char *product,
			const char *config, struct stx__received *out, struct stx_diag *d)
{
	Stx__Envelope m = STX__ENVELOPE__INIT;
	Stx__KernelCode k = STX__KERNEL_CODE__INIT;
	Stx__Options o = STX__OPTIONS__INIT;
	o.fast = b->fast;
	k.ns = (char *)(uintptr_t)b->ns;
	k.target = (char *)(uintptr_t)b->target;
	k.options = &o;
	k.kernel = kernel;
	k.product = (char *)(uintptr_t)product;
	k.config = (char *)(uintptr_t)config;
	m.msg_case = STX__ENVELOPE__MSG_KERNEL_CODE;
	m.kernel_code = &k;
	stx_err e = ask(b, &m, STX__ENVELOPE__MSG_KERNEL_CODE_REPLY, out, d);
	if (e || out->e->kernel_code_reply->kernel)
		return e;
	stx__received_free(out);
	return stx_fail(d, STX_E_PROTOCOL, "tune", "", "a reply without its kernel");
}

static stx_err server_code(const struct stx__about *b, const uint8_t kernel[STX_DIGEST_BYTES],
			   const char *config, struct stx__received *out, struct stx_diag *d)
{
	return ask_code(b, (ProtobufCBinaryData){ STX_DIGEST_BYTES, (uint8_t *)(uintptr_t)kernel },
			"", config, out, d);
}

static stx_err server_space(const struct stx__about *b, const char *product,
			    struct stx__received *out, struct stx_diag *d)
{
	return ask_code(b, (ProtobufCBinaryData){ 0, NULL }, product, "", out, d);
}

static stx_err server_artifact(const struct stx__about *b, const struct stax_request *r,
			       struct stax_artifact **out, struct stx_diag *d)
{
	struct stax_answer *q;
	struct stax_error err;
	*out = NULL;
	stx_err e = stax_compile(b->c, r, &q, &err);
	if (!e)
		e = stax_load(b->c, q, out, &err);
	stax_answer_free(q);
	return e ? stx_fail(d, e, err.stage, err.node, "%s", err.text) : STX_E_OK;
}

const struct stx__source stx__server_source = { server_records, server_code, server_space,
						server_artifact };

/* ---- the choices of an answer ---- */

static stx_err take(const struct stx__about *b, struct stax_artifact *a, uint32_t kernel,
		    const char *config, struct stx_diag *d)
{
	struct stx__received r = { 0 };
	const char *symbol;
	struct stx_span cubin;
	uint32_t n, i = 0;
	const struct stx_plan_config *c = stx_plan_configs(&a->plan, kernel, &n);
	while (i < n && strcmp(stx_plan_string(&a->plan, c[i].text), config) != 0)
		i++;
	if (i == n || i == 0)
		return STX_E_OK;
	uint32_t code = stx__gpu_code_number(a, kernel, i);
	stx_err e = server_code(b, a->plan.kernels[kernel].digest, config, &r, d);
	if (e)
		return e;
	if (stx_object_symbol(r.body, &symbol, &cubin) ||
	    strcmp(symbol, stx_plan_string(&a->plan, c[i].symbol)) != 0)
		e = stx_fail(d, STX_E_CORRUPT, "load", "", "not the code of '%s'", config);
	if (!e)
		e = stx__gpu_add_code(a, code, cubin, d);
	if (!e)
		stx__gpu_choose(a, kernel, code);
	stx__received_free(&r);
	return e;
}

static void set_about(struct stx__about *b, struct stax_client *c, const char *target,
		      const char *ns, int fast)
{
	const char *job = getenv("STAX_JOB");
	memset(b, 0, sizeof *b);
	b->c = c;
	strncpy(b->target, target, sizeof b->target - 1);
	strncpy(b->ns, ns, sizeof b->ns - 1);
	b->fast = fast;
	b->job = job && strlen(job) < 256 ? job : "";
}

/* ---- what is known of the calls of a loaded artifact ---- */

/* Asks for the timings of n calls and has the artifact go by them. */
static stx_err take_records(const struct stx__about *b, struct stax_artifact *a,
			    const struct stx_digest *calls, uint32_t n, struct stx_diag *d)
{
	Stx__TuneRecord asked[STX__TUNE_BATCH], *list[STX__TUNE_BATCH];
	struct stx__received r = { 0 };
	for (uint32_t i = 0; i < n; i++) {
		stx__tune_record__init(&asked[i]);
		asked[i].kernel =
			(ProtobufCBinaryData){ STX_DIGEST_BYTES, (uint8_t *)(uintptr_t)calls[i].b };
		list[i] = &asked[i];
	}
	stx_err e = server_records(b, list, n, &r, d);
	for (uint32_t i = 0; i < n && !e; i++)
		if (r.e->tune_reply->records[i]->n_timings)
			e = stx__call_tell(a, &calls[i], r.e->tune_reply->records[i]);
	stx__received_free(&r);
	return e;
}

/* Of the sizes that the artifact was compiled for; others go by the library's order. Without a
 * device or a server nothing is known, which is no error. */
static void take_calls(struct stx__about *b, struct stax_artifact *a)
{
	struct stx_diag ignored;
	struct stx_digest calls[STX__TUNE_BATCH + 2];
	uint32_t n = 0;
	stx_err e = STX_E_OK;
	stx__diag_init(&ignored);
	struct stx__context *x = stx__context_take(a);
	int asks = x && x->bound && (b->c->at.kind != STX__NONE || b->c->private_worker);
	for (uint32_t i = 0, known = 0; asks && i < x->nsteps && !e; i++) {
		const struct stx__step *s = &x->steps[i];
		if (s->kind != STX__STEP_EXTERN || !s->external->digests)
			continue;
		if (!known++)
			e = stx__cuda_device(&b->device, &ignored);
		n += e ? 0 : s->external->digests(a, x, s, &calls[n]);
		if (n < STX__TUNE_BATCH)
			continue;
		e = take_records(b, a, calls, STX__TUNE_BATCH, &ignored);
		n -= STX__TUNE_BATCH;
		memmove(calls, calls + STX__TUNE_BATCH, n * sizeof *calls);
	}
	if (!e && n)
		take_records(b, a, calls, n, &ignored);
	if (x)
		stx__context_put(a, x);
}

void stx__tune_take(struct stax_client *c, struct stax_artifact *a, const struct stax_answer *q)
{
	struct stx__about b;
	struct stx_diag ignored;
	if (!a->gpu)
		return;
	set_about(&b, c, q->target, stx__answer_namespace(q), stx__answer_is_fast(q));
	memcpy(a->gpu->target, b.target, sizeof a->gpu->target);
	memcpy(a->gpu->ns, b.ns, sizeof a->gpu->ns);
	a->gpu->fast = b.fast;
	if (!c || q->nkernels != a->plan.h->nkernels)
		return;
	b.loads = 1;
	take_calls(&b, a);
	for (uint32_t i = 0; i < q->nkernels; i++) {
		stx__diag_init(&ignored);
		if (!strcmp(q->kernels[i].chosen_by, "measured") &&
		    take(&b, a, i, q->kernels[i].config, &ignored) == STX_E_CONNECT)
			return;
	}
}

/* ---- public ---- */

static struct stx__tuner *new_tuner(struct stax_artifact *a, const struct stax_tuning *o)
{
	struct stx__tuner *t = calloc(1, sizeof *t);
	if (!t || !(t->arena = stx_arena_new(0))) {
		free(t);
		return NULL;
	}
	t->a = a;
	t->options = *o;
	t->options.target = t->options.ns = NULL; /* the caller's texts */
	t->source = &stx__server_source;
	return t;
}

static stx_err gpu_tuner(struct stx__tuner *t, struct stax_client *c, const struct stax_tuning *o,
			 struct stx_diag *d)
{
	const struct stax_artifact *a = t->a;
	char target[STX_TARGET_BYTES];
	uint32_t need;
	const char *text = o->target ? o->target : a->gpu->target;
	if (!text[0])
		return stx_fail(d, STX_E_USAGE, "tune", "",
				"the artifact is from a file: its target must be given");
	stx_err e = stx__cpu_resolve(text, target, &need, d);
	if (e)
		return e;
	set_about(&t->about, c, target,
		  o->ns           ? o->ns
		  : a->gpu->ns[0] ? a->gpu->ns
				  : stx__request_namespace(NULL),
		  a->gpu->target[0] ? a->gpu->fast : o->fast);
	return stx__cuda_device(&t->about.device, d);
}

static stx_err cpu_tuner(struct stx__tuner *t, struct stax_client *c, struct stx_diag *d)
{
	struct stax_answer *q = NULL;
	struct stax_error err;
	if (!t->options.request)
		return stx_fail(d, STX_E_USAGE, "tune", "",
				"products on a CPU are measured in code of their graph: the "
				"artifact's request must be given");
	if (stax_compile(c, t->options.request, &q, &err)) {
		stax_answer_free(q);
		return stx_fail(d, err.code, err.stage, err.node, "%s", err.text);
	}
	set_about(&t->about, c, q->target, stx__answer_namespace(q), stx__answer_is_fast(q));
	stx_err e = stx__products_find(t, q, d);
	stax_answer_free(q);
	return e;
}

int stax_tune_next_run(struct stax_artifact *a, struct stax_client *c, const struct stax_tuning *o,
		       struct stax_error *err)
{
	static const struct stax_tuning none;
	struct stx_diag d;
	stx__diag_init(&d);
	struct stx__tuner *t = new_tuner(a, o ? o : &none);
	stx_err e = !t       ? stx_fail(&d, STX_E_NOMEM, "tune", "", "out of memory")
		    : a->gpu ? gpu_tuner(t, c, o ? o : &none, &d)
			     : cpu_tuner(t, c, &d);
	if (e)
		stx__tuner_free(t);
	else
		stx__tuner_free(atomic_exchange(&a->tuner, t));
	return stx__give_error(e, &d, err);
}

int stax_tuned(const struct stax_artifact *a, struct stax_tuned *out, int cap)
{
	const struct stx__tuner *t = a->tuned;
	for (uint32_t i = 0; t && i < t->n && i < (uint32_t)cap; i++) {
		const struct stx__tuned_kernel *k = &t->kernels[i];
		const struct stx_timing *first = &k->timings[0], *best = &k->timings[k->chosen];
		out[i] = (struct stax_tuned){
			.kernel = k->name,
			.threads = k->threads,
			.heuristic = first->config,
			.chosen = best->config,
			.heuristic_us =
				(double)(k->heuristic_ns ? k->heuristic_ns : first->median_ns) *
				1e-3,
			.chosen_us = (double)(k->chosen_ns ? k->chosen_ns : best->median_ns) * 1e-3,
			.swept_us = (double)k->swept_ns * 1e-3,
			.swept = k->swept,
			.candidates = k->n,
			.measured = k->measured,
		};
	}
	return t ? (int)t->n : 0;
}
