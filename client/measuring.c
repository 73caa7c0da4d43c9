/* measuring.c: the run that measures: which kernels have several candidates, what is known of
 * them, and the choice. Each kernel is measured where the plan first launches it, so that its
 * arguments are this run's. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tuner.h"

void stx__tuner_free(struct stx__tuner *t)
{
	if (!t)
		return;
	stx__products_free(t->products);
	stx_arena_free(t->arena);
	free(t);
}

void stx__tuner_say(const struct stx__tuner *t, const char *name, const char *fmt, ...)
{
	char line[512];
	va_list ap;
	if (!t->options.report)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	t->options.report(t->options.ctx, name, line);
}

struct stx__tuner *stx__tune_claim(struct stax_artifact *a)
{
	if (!atomic_load_explicit(&a->tuner, memory_order_relaxed))
		return NULL;
	return atomic_exchange(&a->tuner, NULL);
}

/* ---- which kernels ---- */

/* Equal digests and equal first choices: one kernel, launched at several places. */
static int is_same(const struct stx_plan *p, uint32_t a, uint32_t b)
{
	const struct stx_plan_kernel *x = &p->kernels[a], *y = &p->kernels[b];
	return !memcmp(x->digest, y->digest, sizeof x->digest) &&
	       !strcmp(stx_plan_string(p, x->symbol), stx_plan_string(p, y->symbol));
}

static struct stx__tuned_kernel *find_same(struct stx__tuner *t, uint32_t kernel)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (is_same(&t->a->plan, t->kernels[i].kernel, kernel))
			return &t->kernels[i];
	return NULL;
}

static stx_err add_kernel(struct stx__tuner *t, uint32_t kernel)
{
	const struct stx_plan *p = &t->a->plan;
	struct stx__tuned_kernel *k = find_same(t, kernel);
	uint32_t n;
	const struct stx_plan_config *c = stx_plan_configs(p, kernel, &n);
	if (k) {
		t->of[kernel] = (uint32_t)(k - t->kernels);
		return STX_E_OK;
	}
	if (n < 2 || n > STX_TIMINGS_MAX) /* LC-04 */
		return STX_E_OK;
	k = &t->kernels[t->n];
	*k = (struct stx__tuned_kernel){ .kernel = kernel, .n = n, .configs = c };
	k->name = stx_plan_string(p, p->kernels[kernel].name);
	memcpy(k->digest.b, p->kernels[kernel].digest, sizeof k->digest.b);
	k->timings = STX_NEW_ARRAY(t->arena, struct stx_timing, n);
	if (!k->timings)
		return STX_E_NOMEM;
	for (uint32_t i = 0; i < n; i++)
		snprintf(k->timings[i].config, sizeof k->timings[i].config, "%s",
			 stx_plan_string(p, c[i].text));
	t->of[kernel] = t->n++;
	return STX_E_OK;
}

/* Those that are launched; kernels of calls are tried with the call. */
static stx_err find_kernels(struct stx__tuner *t)
{
	uint32_t n = t->a->plan.h->nkernels;
	t->kernels = STX_NEW_ARRAY(t->arena, struct stx__tuned_kernel,
				   n + t->a->plan.h->nsteps + 1); /* calls join */
	t->of = STX_NEW_ARRAY(t->arena, uint32_t, n + 1);
	if (!t->kernels || !t->of)
		return STX_E_NOMEM;
	for (uint32_t i = 0; i < n; i++)
		t->of[i] = STX__NOT_TUNED;
	for (uint32_t i = 0; i < t->a->plan.h->nsteps; i++) {
		const struct stx_plan_step *s = &t->a->plan.steps[i];
		if (s->kind == STX_STEP_LAUNCH && add_kernel(t, s->a))
			return STX_E_NOMEM;
	}
	return STX_E_OK;
}

/* ---- choosing ---- */

static stx_err have_code(struct stx__tuner *t, const struct stx__tuned_kernel *k, uint32_t kernel,
			 struct stx_diag *d)
{
	const struct stx_plan *p = &t->a->plan;
	uint32_t code = stx__gpu_code_number(t->a, kernel, k->chosen);
	struct stx__received r = { 0 };
	const char *symbol;
	struct stx_span cubin;
	if (t->a->gpu->cubins[code].n)
		return STX_E_OK;
	stx_err e = t->source->code(&t->about, p->kernels[kernel].digest,
				    k->timings[k->chosen].config, &r, d);
	if (e)
		return e;
	if (stx_object_symbol(r.body, &symbol, &cubin) ||
	    strcmp(symbol, stx_plan_string(p, k->configs[k->chosen].symbol)) != 0)
		e = stx_fail(d, STX_E_CORRUPT, "tune", "", "not the code that was asked for");
	if (!e)
		e = stx__gpu_add_code(t->a, code, cubin, d);
	stx__received_free(&r);
	return e;
}

/* From now on, wherever the plan makes it. */
static stx_err decide_call(struct stx__tuner *t, const struct stx__tuned_kernel *k)
{
	Stx__TuneRecord *said = stx_tunes_record(k->timings, k->n);
	stx_err e = said ? stx__call_tell(t->a, &k->digest, said) : STX_E_NOMEM;
	free(said);
	return e;
}

/* From the next run on, wherever the plan launches it. */
static stx_err decide(struct stx__tuner *t, struct stx__tuned_kernel *k, struct stx_diag *d)
{
	uint32_t number = (uint32_t)(k - t->kernels);
	k->chosen = stx_timing_best(k->timings, k->n);
	k->decided = 1;
	if (!k->configs) {
		stx__tuner_say(t, k->name, "chosen: %s", k->timings[k->chosen].config);
		return k->product ? STX_E_OK : decide_call(t, k); /* compiled so from now on */
	}
	for (uint32_t i = 0; i < t->a->plan.h->nkernels; i++) {
		stx_err e = t->of[i] == number ? have_code(t, k, i, d) : STX_E_OK;
		if (e)
			return e;
		if (t->of[i] == number)
			stx__gpu_choose(t->a, i, stx__gpu_code_number(t->a, i, k->chosen));
	}
	stx__tuner_say(t, k->name, "chosen: %s", k->timings[k->chosen].config);
	return STX_E_OK;
}

/* A record that has something on every candidate decides without a measurement (LC-03); so does
 * whatever a job has seen. */
static int is_known(const struct stx__tuner *t, const struct stx__tuned_kernel *k)
{
	if (!t->about.job[0])
		return stx_timing_is_complete(k->timings, k->n);
	for (uint32_t i = 0; i < k->n; i++)
		if (k->timings[i].verdict != STX_VERDICT_NONE)
			return 1;
	return 0;
}

static void read_record(struct stx__tuned_kernel *k, const Stx__TuneRecord *r)
{
	const char *configs[STX_TIMINGS_MAX];
	struct stx_timing now[STX_TIMINGS_MAX];
	for (uint32_t i = 0; i < k->n; i++)
		configs[i] = k->timings[i].config;
	stx_tunes_read(r, configs, k->n, now);
	memcpy(k->timings, now, k->n * sizeof *now);
}

static void name_device(struct stx__tuner *t, const struct stx__tuned_kernel *k)
{
	if (k->product)
		t->about.device = stx__product_device(t, k);
}

/* How many from `from` on one message can ask for: of one device. */
static uint32_t batch_of(const struct stx__tuner *t, uint32_t from)
{
	uint32_t n = 1;
	while (n < STX__TUNE_BATCH && from + n < t->n &&
	       t->kernels[from + n].threads == t->kernels[from].threads)
		n++;
	return n;
}

/* What is known of those at [from, from + n). */
static stx_err look_up(struct stx__tuner *t, uint32_t from, uint32_t n, struct stx_diag *d)
{
	Stx__TuneRecord asked[STX__TUNE_BATCH], *list[STX__TUNE_BATCH];
	struct stx__received r = { 0 };
	name_device(t, &t->kernels[from]);
	for (uint32_t i = 0; i < n; i++) {
		stx__tune_record__init(&asked[i]);
		asked[i].kernel =
			(ProtobufCBinaryData){ STX_DIGEST_BYTES, t->kernels[from + i].digest.b };
		list[i] = &asked[i];
	}
	stx_err e = t->source->records(&t->about, list, n, &r, d);
	for (uint32_t i = 0; !e && i < n; i++) {
		struct stx__tuned_kernel *k = &t->kernels[from + i];
		read_record(k, r.e->tune_reply->records[i]);
		if (is_known(t, k) && (e = decide(t, k, d)))
			break;
	}
	stx__received_free(&r);
	return e;
}

static void give_up(struct stx__tuner *t, const char *name, const struct stx_diag *d)
{
	t->broken = 1;
	stx__tuner_say(t, name, "measuring ends: %s", d->text[0] ? d->text : "out of memory");
}

void stx__tune_begin(struct stx__tuner *t, struct stax_artifact *a, struct stx__context *x,
		     const struct stx_env *env)
{
	struct stx_diag d;
	(void)x;
	stx__diag_init(&d);
	t->a = a;
	t->env = env;
	stx_err e = t->products ? STX_E_OK : find_kernels(t);
	for (uint32_t i = 0, n; !e && i < t->n; i += n) {
		n = batch_of(t, i);
		e = look_up(t, i, n, &d);
	}
	if (e)
		give_up(t, t->n ? t->kernels[0].name : "", &d);
}

/* ---- measuring ---- */

/* Stores what was found; the reply is what all ranks of a job go by. */
static stx_err publish(struct stx__tuner *t, struct stx__tuned_kernel *k, struct stx_diag *d)
{
	struct stx__received r = { 0 };
	Stx__TuneRecord *said = stx_tunes_record(k->timings, k->n);
	if (!said)
		return stx_fail(d, STX_E_NOMEM, "tune", "", "out of memory");
	name_device(t, k);
	said->kernel = (ProtobufCBinaryData){ STX_DIGEST_BYTES, k->digest.b };
	stx_err e = said->n_timings ? t->source->records(&t->about, &said, 1, &r, d) : STX_E_OK;
	if (!e && said->n_timings)
		read_record(k, r.e->tune_reply->records[0]);
	stx__received_free(&r);
	free(said);
	return e;
}

static void measure(struct stx__tuner *t, struct stx__tuned_kernel *k, struct stx__context *x,
		    uint32_t step)
{
	struct stx_diag d;
	if (k->decided && (!t->options.sweep || k->swept_ns))
		return;
	stx__diag_init(&d);
	stx_err e =
		k->product ? stx__product_trial(t, k, x, step, &d) : stx__trial(t, k, x, step, &d);
	if (!e && !k->decided) {
		e = publish(t, k, &d);
		if (!e)
			e = decide(t, k, &d);
	}
	if (e == STX_E_NOMEM) { /* others may be smaller */
		k->decided = 1;
		stx__tuner_say(t, k->name, "not measured: %s", d.text);
	} else if (e) {
		give_up(t, k->name, &d);
	}
}

/* The call's place among what is measured; it joins, with what is known of it, when it is new.
 * NULL: it is not to be measured, or e. */
static struct stx__tuned_kernel *find_call(struct stx__tuner *t, const struct stx__step *s,
					   const struct stx__ways *w, stx_err *e,
					   struct stx_diag *d)
{
	struct stx__tuned_kernel *k = t->kernels;
	while (k < t->kernels + t->n && (k->configs || !stx_digest_eq(&k->digest, &w->call)))
		k++;
	if (k < t->kernels + t->n || w->n < 2) /* LC-04 */
		return k < t->kernels + t->n ? k : NULL;
	*k = (struct stx__tuned_kernel){ .kernel = s->kernel, .n = w->n, .digest = w->call };
	k->name = stx_arena_strdup(t->arena, w->what);
	k->timings = STX_NEW_ARRAY(t->arena, struct stx_timing, w->n);
	*e = k->name && k->timings ? STX_E_OK : STX_E_NOMEM;
	if (*e)
		return NULL;
	for (uint32_t i = 0; i < w->n; i++)
		memcpy(k->timings[i].config, w->at[i].name, sizeof k->timings[i].config);
	t->n++;
	*e = look_up(t, t->n - 1, 1, d);
	return *e ? NULL : k;
}

/* With each number of threads. */
static void measure_product(struct stx__tuner *t, struct stx__context *x, uint32_t step)
{
	const struct stx__step *s = &x->steps[step];
	if (s->kind != STX__STEP_LAUNCH || t->of[s->kernel] == STX__NOT_TUNED)
		return;
	for (uint32_t i = t->of[s->kernel]; i < t->n && !t->broken; i += t->nproducts)
		measure(t, &t->kernels[i], x, step);
}

static void measure_launch(struct stx__tuner *t, struct stx__context *x, uint32_t step)
{
	const struct stx__step *s = &x->steps[step];
	if (t->of[s->kernel] == STX__NOT_TUNED || !s->grid[0] || !s->grid[1] || !s->grid[2])
		return; /* a launch of nothing says nothing */
	measure(t, &t->kernels[t->of[s->kernel]], x, step);
}

/* The call cannot be made here: its kernel is launched, then. */
static void measure_in_its_place(struct stx__tuner *t, struct stx__context *x, uint32_t step,
				 struct stx_diag *d)
{
	const struct stx__step *s = &x->steps[step];
	uint32_t n = t->n;
	stx__tuner_say(t, s->external->name, "its kernel instead: %s", d->text);
	if (s->kernel == STX_PLAN_NONE)
		return;
	stx__diag_init(d);
	stx_err e = t->of[s->kernel] == STX__NOT_TUNED ? add_kernel(t, s->kernel) : STX_E_OK;
	if (!e && t->n > n)
		e = look_up(t, n, 1, d);
	if (e)
		give_up(t, s->external->name, d);
	else
		measure_launch(t, x, step);
}

static void measure_call(struct stx__tuner *t, struct stx__context *x, uint32_t step)
{
	struct stx__step *s = &x->steps[step];
	struct stx__ways *w = calloc(1, sizeof *w);
	struct stx__tuned_kernel *k = NULL;
	struct stx_diag d;
	stx__diag_init(&d);
	stx_err e = w ? s->external->ways(t->a, x, s, 0, w, &d) : STX_E_NOMEM;
	if (!e)
		k = find_call(t, s, w, &e, &d);
	if (k) {
		k->ways = w;
		measure(t, k, x, step);
		k->ways = NULL;
	}
	if (e && e != STX_E_UNSUPPORTED)
		give_up(t, s->external->name, &d);
	else if (e)
		measure_in_its_place(t, x, step, &d);
	free(w);
}

void stx__tune_step(struct stx__tuner *t, struct stx__context *x, uint32_t step)
{
	const struct stx__step *s = &x->steps[step];
	if (t->broken)
		return;
	if (t->products)
		measure_product(t, x, step);
	else if (s->kind != STX__STEP_EXTERN)
		measure_launch(t, x, step);
	else if (s->external->ways)
		measure_call(t, x, step);
}

void stx__tune_end(struct stx__tuner *t)
{
	t->env = NULL;
	stx__tuner_free(atomic_exchange(&t->a->tuned, t));
}
