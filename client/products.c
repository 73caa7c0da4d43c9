/* products.c: measuring how products on a CPU are cut. A candidate is the whole graph compiled with
 * its products so, and its code is that artifact's kernel, run on this run's arguments; what it
 * writes goes to scratch memory, whose contents are put back before each launch when the kernel
 * reads what it writes. Candidates of all products share artifacts: the i-th has the i-th candidate
 * of each. Operands are as warm as the run before has left them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tuner.h"

#define ALIGN           64u /* of memory that kernels work in */
#define SAMPLE_LAUNCHES 3   /* of one timing, or until so much time has passed */
#define SAMPLE_NS       30000000u

/* The graph with its products cut in one way. */
struct variant {
	struct stax_artifact *a;
	struct stx__context *x; /* NULL: not made yet */
};
struct stx__products {
	struct stax_request request;
	Stx__Device one, many; /* this host with one thread, and with all of the process's */
	void **packed;         /* [npacked + 1] of NULL: operands are packed by the launch */
	struct variant variants[STX_TIMINGS_MAX];
};

const Stx__Device *stx__product_device(const struct stx__tuner *t,
				       const struct stx__tuned_kernel *k)
{
	return k->threads == 1 ? &t->products->one : &t->products->many;
}

static void drop_variant(struct variant *v)
{
	if (v->x)
		stx__context_put(v->a, v->x);
	stax_artifact_free(v->a);
	*v = (struct variant){ NULL, NULL };
}

void stx__products_free(struct stx__products *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; i < STX_TIMINGS_MAX; i++)
		drop_variant(&p->variants[i]);
	free(p->packed);
	free(p);
}

/* ---- which products ---- */

static stx_err add_product(struct stx__tuner *t, const struct stax_kernel_info *k, uint32_t kernel)
{
	struct stx__tuned_kernel *p = t->kernels;
	while (p < t->kernels + t->n && strcmp(p->product, k->product) != 0)
		p++;
	if (p - t->kernels == STX_CHOICES_MAX) /* more than a request can name */
		return STX_E_OK;
	t->of[kernel] = (uint32_t)(p - t->kernels);
	if (p < t->kernels + t->n)
		return STX_E_OK;
	t->n++;
	p->kernel = kernel;
	p->n = k->candidates;
	p->threads = 1;
	p->product = stx_arena_strdup(t->arena, k->product);
	p->name = stx_plan_string(&t->a->plan, t->a->plan.kernels[kernel].name);
	p->timings = STX_NEW_ARRAY(t->arena, struct stx_timing, p->n);
	if (!p->product || !p->timings)
		return STX_E_NOMEM;
	p->digest = stx_digest_of(p->product, strlen(p->product));
	for (uint32_t i = 0; i < p->n; i++)
		snprintf(p->timings[i].config, sizeof p->timings[i].config, "%s", k->configs[i]);
	return STX_E_OK;
}

/* The same products, once more with all threads. */
static stx_err add_threads(struct stx__tuner *t)
{
	struct stx__products *p = t->products;
	t->nproducts = t->n;
	for (uint32_t i = 0; i < t->nproducts && p->many.multiprocessors > 1; i++) {
		struct stx__tuned_kernel *k = &t->kernels[t->n++];
		*k = t->kernels[i];
		k->threads = p->many.multiprocessors;
		k->timings = stx_arena_copy(t->arena, k->timings, k->n * sizeof *k->timings);
		if (!k->timings)
			return STX_E_NOMEM;
	}
	return STX_E_OK;
}

static int is_of(const struct stax_answer *q, const struct stax_artifact *a)
{
	int same = q->nkernels == a->plan.h->nkernels;
	for (uint32_t i = 0; same && i < q->nkernels; i++)
		same = !strcmp(q->kernels[i].name,
			       stx_plan_string(&a->plan, a->plan.kernels[i].name));
	return same;
}

stx_err stx__products_find(struct stx__tuner *t, const struct stax_answer *q, struct stx_diag *d)
{
	struct stx__products *p = t->products = calloc(1, sizeof *p);
	size_t n = q->nkernels;
	if (!p || !(p->packed = calloc(t->a->npacked + (size_t)1, sizeof *p->packed)))
		return stx_fail(d, STX_E_NOMEM, "tune", "", "out of memory");
	p->request = *t->options.request;
	p->request.recache = 0;
	stx_err e = stx__cpu_device(t->about.target, 1, &p->one, d);
	if (!e)
		e = stx__cpu_device(t->about.target, stx__thread_count(), &p->many, d);
	if (e)
		return e;
	if (!is_of(q, t->a))
		return stx_fail(d, STX_E_USAGE, "tune", "",
				"the request is not of the graph that the artifact was made from");
	t->kernels = STX_NEW_ARRAY(t->arena, struct stx__tuned_kernel, 2 * n + 1);
	t->of = STX_NEW_ARRAY(t->arena, uint32_t, n + 1);
	e = t->kernels && t->of ? STX_E_OK : STX_E_NOMEM;
	for (uint32_t i = 0; i < n && !e; i++) {
		const struct stax_kernel_info *k = &q->kernels[i];
		t->of[i] = STX__NOT_TUNED;
		if (k->product[0] && k->candidates >= 2 && k->candidates <= STX_TIMINGS_MAX)
			e = add_product(t, k, i);
	}
	if (!e)
		e = add_threads(t);
	return e ? stx_fail(d, e, "tune", "", "out of memory") : STX_E_OK;
}

/* ---- candidates ---- */

/* The artifact with those blockings, and a context that has its launches. */
static stx_err make_variant(struct stx__tuner *t, const struct stax_blocking *b, size_t n,
			    struct variant *v, struct stx_diag *d)
{
	struct stax_request q = t->products->request;
	q.blockings = b;
	q.nblockings = n;
	stx_err e = t->source->artifact(&t->about, &q, &v->a, d);
	if (!e && (v->a->gpu || v->a->plan.h->nsteps != t->a->plan.h->nsteps ||
		   v->a->npacked != t->a->npacked))
		e = stx_fail(d, STX_E_INTERNAL, "tune", "", "another plan");
	if (!e && !(v->x = stx__context_take(v->a)))
		e = stx_fail(d, STX_E_NOMEM, "tune", "", "out of memory");
	if (e)
		drop_variant(v);
	return e;
}

/* All products cut by their candidate number c. */
static stx_err find_variant(struct stx__tuner *t, uint32_t c, struct variant **out,
			    struct stx_diag *d)
{
	struct stx__products *p = t->products;
	struct stax_blocking *b = calloc(t->nproducts + 1u, sizeof *b);
	size_t n = 0;
	stx_err e = b ? STX_E_OK : stx_fail(d, STX_E_NOMEM, "tune", "", "out of memory");
	*out = &p->variants[c];
	for (uint32_t i = 0; b && i < t->nproducts; i++)
		if (c < t->kernels[i].n)
			b[n++] = (struct stax_blocking){ t->kernels[i].product,
							 t->kernels[i].timings[c].config };
	if (b && !p->variants[c].x)
		e = make_variant(t, b, n, *out, d);
	free(b);
	return e;
}

/* ---- one product ---- */

struct trial {
	struct stx__tuner *t;
	struct stx__tuned_kernel *k;
	struct stx__context *x;
	uint32_t step;
	struct stx_arena *arena;
	struct stx__region *regions;
	uint32_t nregions;
	void **buffers;                  /* [nparams] as the launches get them */
	struct stx_bounds_record bounds; /* theirs: an error is the real launch's to report */
	const struct stx_env *env;
	const Stx__Kernel *space; /* a sweep's */
	const uint32_t *batch;    /* NULL: candidates are those of k */
	struct variant swept[STX__SWEEP_BATCH + 1];
	int have_want;
};

static void inline_for(void *ctx, int64_t n, int64_t grain,
		       void (*body)(void *arg, int64_t begin, int64_t end), void *arg)
{
	(void)ctx;
	(void)grain;
	body(arg, 0, n);
}
static const struct stx_env alone = { .parallel_for = inline_for };

/* Nothing of the run's own is freed with these. */
static void *new_memory(struct trial *w, uint64_t bytes)
{
	void *p = bytes < SIZE_MAX / 2
			  ? aligned_alloc(ALIGN, ((size_t)bytes + ALIGN) & ~(size_t)(ALIGN - 1))
			  : NULL;
	if (p && stx_arena_on_free(w->arena, free, p))
		p = NULL; /* freed by the arena all the same */
	return p;
}

static stx_err set_up(struct trial *w, struct stx_diag *d)
{
	const struct stx__step *s = &w->x->steps[w->step];
	w->regions = STX_NEW_ARRAY(w->arena, struct stx__region, s->nparams + 1);
	w->buffers = STX_NEW_ARRAY(w->arena, void *, s->nparams + 1);
	if (!w->regions || !w->buffers)
		return stx_fail(d, STX_E_NOMEM, "tune", "", "out of memory");
	w->nregions = stx__regions_find(w->t->a, w->x, s, w->regions);
	for (uint32_t i = 0; i < w->nregions; i++) {
		struct stx__region *r = &w->regions[i];
		char *base = new_memory(w, r->hi - r->lo + ALIGN);
		void *want = new_memory(w, r->hi - r->lo);
		if (!base || !want)
			return stx_fail(d, STX_E_NOMEM, "tune", "",
					"no memory for copies of what the kernel writes");
		r->base = (uint64_t)(uintptr_t)base;
		r->want = (uint64_t)(uintptr_t)want;
		r->scratch = r->base + r->lo % ALIGN;
	}
	stx__regions_place(w->t->a, w->x, s, w->regions, w->nregions, w->buffers);
	return STX_E_OK;
}

static void *at(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

/* The scratch memory as the originals are. all: what no launch reads is anything. */
static void restore(const struct trial *w, int all)
{
	for (uint32_t i = 0; i < w->nregions; i++) {
		const struct stx__region *r = &w->regions[i];
		if (r->read)
			memcpy(at(r->scratch), at(r->lo), r->hi - r->lo);
		else if (all)
			memset(at(r->scratch), 0xFF, r->hi - r->lo);
	}
}

static struct variant *variant_of(struct trial *w, uint32_t c)
{
	return w->batch && c ? &w->swept[c] : &w->t->products->variants[c];
}

static stx_err launch(struct trial *w, uint32_t c, struct stx_diag *d)
{
	struct stx__step s = variant_of(w, c)->x->steps[w->step];
	s.frame.buffers = w->buffers;
	s.frame.bounds = &w->bounds;
	s.frame.packed = w->t->products->packed;
	return stx__launch(&s, w->env, d);
}

static stx_err check(void *ctx, uint32_t c, struct stx_diag *d)
{
	struct trial *w = ctx;
	struct variant *model; /* of whom timings may be known already */
	stx_err e = find_variant(w->t, 0, &model, d);
	for (int first = !w->have_want; first >= 0 && !e; first--) {
		restore(w, 1);
		e = launch(w, first ? 0 : c, d);
		for (uint32_t i = 0; i < w->nregions && !e; i++) {
			const struct stx__region *r = &w->regions[i];
			if (first)
				memcpy(at(r->want), at(r->scratch), r->hi - r->lo);
			else if (memcmp(at(r->want), at(r->scratch), r->hi - r->lo) != 0)
				e = stx_fail(d, STX_E_MISMATCH, "tune", "",
					     "its results are not those of %s to the bit",
					     w->k->timings[0].config);
		}
		w->have_want |= !e;
	}
	return e;
}

static stx_err build(void *ctx, uint32_t c, struct stx_timing *timing, struct stx_diag *d)
{
	struct trial *w = ctx;
	const struct stx__step *mine = &w->x->steps[w->step], *its;
	struct variant *v = variant_of(w, c);
	stx_err e = STX_E_OK;
	if (w->batch && c) {
		const struct stax_blocking b = { w->k->product, timing->config };
		e = make_variant(w->t, &b, 1, v, d);
	} else {
		e = find_variant(w->t, c, &v, d);
	}
	if (e)
		return e;
	its = &v->x->steps[w->step];
	return its->kind == mine->kind && its->kernel == mine->kernel &&
			       its->nparams == mine->nparams
		       ? STX_E_OK
		       : stx_fail(d, STX_E_INTERNAL, "tune", "", "another plan");
}

/* Of one thread its processor time, which others that want the processor do not lengthen. */
static uint64_t clock_of(const struct trial *w)
{
	struct timespec t;
	if (w->k->threads > 1 || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t))
		return stx_clock_ns();
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The least of a few launches: what interrupts one only ever lengthens it. */
static stx_err sample(void *ctx, uint32_t c, uint64_t *ns, struct stx_diag *d)
{
	struct trial *w = ctx;
	uint64_t begin = stx_clock_ns();
	stx_err e = STX_E_OK;
	*ns = UINT64_MAX;
	for (int i = 0; i < SAMPLE_LAUNCHES && !e; i++) {
		restore(w, 0);
		uint64_t start = clock_of(w);
		e = launch(w, c, d);
		uint64_t took = clock_of(w) - start;
		*ns = took < *ns ? took : *ns;
		if (stx_clock_ns() - begin > SAMPLE_NS)
			break;
	}
	*ns = *ns ? *ns : 1;
	return e;
}

static void report(void *ctx, const char *line)
{
	struct trial *w = ctx;
	stx__tuner_say(w->t, w->k->name, "%u thread%s, %s", w->k->threads,
		       w->k->threads == 1 ? "" : "s", line);
}

/* ---- a sweep ---- */

static const char *space_name(const void *ctx, uint32_t i)
{
	return ((const struct trial *)ctx)->space->candidates[i]->text;
}

static stx_err take_batch(void *ctx, const uint32_t *batch, uint32_t many, struct stx_diag *d)
{
	struct trial *w = ctx;
	struct variant *first;
	for (uint32_t i = 1; i < many; i++)
		drop_variant(&w->swept[i]);
	w->batch = batch;
	return batch ? find_variant(w->t, 0, &first, d) : STX_E_OK;
}

static stx_err sweep(struct trial *w, struct stx_diag *d)
{
	struct stx__received r = { 0 };
	struct stx__space s = { { w, build, check, sample, report }, 0, space_name, take_batch };
	stx_err e = w->t->source->space(&w->t->about, w->k->product, &r, d);
	if (!e) {
		w->space = r.e->kernel_code_reply->kernel;
		s.n = (uint32_t)w->space->n_candidates;
		e = stx__sweep(w->t, w->k, &s, d);
	}
	stx__received_free(&r);
	return e;
}

stx_err stx__product_trial(struct stx__tuner *t, struct stx__tuned_kernel *k,
			   struct stx__context *x, uint32_t step, struct stx_diag *d)
{
	struct trial w = { .t = t, .k = k, .x = x, .step = step, .arena = stx_arena_new(0) };
	const struct stx_measure m = { &w, build, check, sample, report };
	const struct stx_measure_limits l = { t->options.measurements, t->options.runs, 0 };
	struct stx_measure_result r;
	if (!w.arena)
		return stx_fail(d, STX_E_NOMEM, "tune", "", "out of memory");
	w.env = k->threads == 1 ? &alone : t->env;
	stx_err e = set_up(&w, d);
	if (!e && !k->decided) {
		e = stx_measure_choose(k->timings, k->n, &m, &l, &r, d);
		k->measured = r.measured;
	}
	if (!e && t->options.sweep)
		e = sweep(&w, d);
	stx_arena_free(w.arena);
	return e;
}
