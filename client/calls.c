/* calls.c: external calls that a library makes: timings that an artifact goes by, told when it is
 * loaded and when a run has measured, read once after each change; what is kept of a call; the
 * choice.
 *
 * What a call needs is made at its first run for a device and set of sizes and kept with the
 * artifact's code on that device, so a run is one call of the library. Which ways there are depends
 * on whether the operands lie on 16 bytes: there are two lists. A list's first way is taken unless
 * timings are known, else the next that works; the step's kernel is a way too. */
#include "calls.h"

#include <stdlib.h>
#include <string.h>

#include "tunes.h"

#define MAX_ENTRIES 8 /* of a step and device: sets of sizes kept although no context uses them */
#define ALONE       (1u << 31) /* of a choice: by what is known, so that no other is as good */

/* One of each: handles are all calls'. */
static const struct stx__library *const libraries[STX__NLIBRARIES] = {
	[STX__CUBLASLT] = &stx__matmul_library,
	[STX__CUDNN] = &stx__conv_library,
};

/* ---- timings ---- */

struct stx__call_record {
	struct stx__call_record *next;
	struct stx_digest call;
	Stx__TuneRecord *said;
};

/* requires: the lock. */
static struct stx__call_record *find(const struct stax_artifact *a, const struct stx_digest *call)
{
	struct stx__call_record *r = a->gpu->calls;
	while (r && !stx_digest_eq(&r->call, call))
		r = r->next;
	return r;
}

static Stx__TuneRecord *copy(const Stx__TuneRecord *r)
{
	size_t n = stx__tune_record__get_packed_size(r);
	uint8_t *packed = malloc(n + 1);
	Stx__TuneRecord *out = NULL;
	if (packed) {
		stx__tune_record__pack(r, packed);
		out = stx__tune_record__unpack(NULL, n, packed);
	}
	free(packed);
	return out;
}

stx_err stx__call_tell(struct stax_artifact *a, const struct stx_digest *call,
		       const Stx__TuneRecord *said)
{
	struct stx__call_record *fresh = calloc(1, sizeof *fresh), *r;
	Stx__TuneRecord *mine = copy(said), *old = NULL;
	if (!fresh || !mine) {
		free(fresh);
		if (mine)
			stx__tune_record__free_unpacked(mine, NULL);
		return STX_E_NOMEM;
	}
	pthread_mutex_lock(&a->gpu->lock);
	if ((r = find(a, call))) {
		old = r->said;
		free(fresh);
	} else {
		r = fresh;
		r->call = *call;
		r->next = a->gpu->calls;
		a->gpu->calls = r;
	}
	r->said = mine;
	atomic_fetch_add_explicit(&a->gpu->calls_epoch, 1, memory_order_release);
	pthread_mutex_unlock(&a->gpu->lock);
	if (old)
		stx__tune_record__free_unpacked(old, NULL);
	return STX_E_OK;
}

/* The way that is fastest by what is known, else the first; none (n) that is known to be wrong. That
 * the kernel alone is known, of a list of another library, says nothing. */
static uint32_t choose(struct stax_artifact *a, const struct stx__ways *w)
{
	const char *names[STX_TIMINGS_MAX];
	struct stx_timing t[STX_TIMINGS_MAX];
	uint32_t best = 0;
	int known = 0;
	for (uint32_t i = 0; i < w->n; i++)
		names[i] = w->at[i].name;
	pthread_mutex_lock(&a->gpu->lock);
	const struct stx__call_record *r = find(a, &w->call);
	stx_tunes_read(r ? r->said : NULL, names, w->n, t);
	pthread_mutex_unlock(&a->gpu->lock);
	for (uint32_t i = 0; i < w->n; i++)
		known |= !w->at[i].is_kernel && t[i].verdict != STX_VERDICT_NONE;
	if (!known)
		return 0;
	best = stx_timing_best(t, w->n);
	if (t[best].verdict != STX_VERDICT_MEASURED)
		for (best = 0; best < w->n && t[best].verdict != STX_VERDICT_NONE; best++)
			;
	return best | ALONE;
}

void stx__calls_free(struct stax_artifact *a)
{
	while (a->gpu->calls) {
		struct stx__call_record *r = a->gpu->calls;
		a->gpu->calls = r->next;
		stx__tune_record__free_unpacked(r->said, NULL);
		free(r);
	}
}

/* ---- what is kept of a call ---- */

static void entry_free(struct stx__call *c)
{
	c->library->drop(c);
	free(c);
}

/* Frees what no context uses beyond MAX_ENTRIES, the oldest last in the list. */
static void trim(struct stx__call **list)
{
	int n = 0;
	for (struct stx__call **at = list; *at;) {
		struct stx__call *c = *at;
		if (++n <= MAX_ENTRIES || c->uses) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		entry_free(c);
	}
}

/* The entry of the step for these attributes, made when there is none. NULL: no memory, or the
 * library makes nothing for them. requires: the code's lock. */
static struct stx__call *entry(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
			       const int64_t *attrs)
{
	const struct stx__library *l = s->external->library;
	struct stx__gpu_library *g = &x->gpu->code->library[l->number];
	if (!g->kept && !(g->kept = calloc(a->plan.h->nsteps, sizeof *g->kept)))
		return NULL;
	struct stx__call **list = &g->kept[s - x->steps], *c = *list;
	while (c && memcmp(c->attrs, attrs, l->nattrs * sizeof *attrs) != 0)
		c = c->next;
	if (!c && (c = calloc(1, l->kept_bytes))) {
		c->library = l;
		memcpy(c->attrs, attrs, l->nattrs * sizeof *attrs);
		c->workspace_bytes = stx__external_workspace(a, x, s);
		if (l->make && l->make(a, s, c)) {
			entry_free(c);
			return NULL;
		}
		c->next = *list;
		*list = c;
		trim(list);
	}
	if (c)
		c->uses++;
	return c;
}

stx_err stx__call_cannot(const struct stx__step *s, const char *why, struct stx_diag *d)
{
	return stx_fail(d, STX_E_UNSUPPORTED, "cuda", s->external->name, "%s: %s",
			s->external->library->name, why);
}

/* The attributes of a call that the library is to make. */
static int attributes(const struct stax_artifact *a, const struct stx__context *x,
		      const struct stx__step *s, int64_t out[STX__CALL_ATTRS])
{
	const struct stx__library *l = s->external->library;
	return stx__external_attrs(a, x, s, l->nattrs, out) && (!l->is_empty || !l->is_empty(out));
}

static stx_err acquire(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
		       struct stx_diag *d)
{
	const struct stx__library *l = s->external->library;
	struct stx__gpu_library *g = &x->gpu->code->library[l->number];
	int64_t attrs[STX__CALL_ATTRS];
	if (!l->is_there(d))
		return STX_E_UNSUPPORTED;
	if (!attributes(a, x, s, attrs))
		return stx__call_cannot(s, "there is nothing to compute", d);
	pthread_mutex_lock(&x->gpu->code->lock);
	if (!g->handle && !g->is_refused)
		g->is_refused = l->create(&g->handle) != 0;
	s->call = g->is_refused ? NULL : entry(a, x, s, attrs);
	pthread_mutex_unlock(&x->gpu->code->lock);
	return s->call ? STX_E_OK : stx__call_cannot(s, "it cannot be used on this device", d);
}

void stx__call_release(struct stax_artifact *a, struct stx__step *s)
{
	struct stx__call *c = s->call;
	(void)a;
	s->call = NULL;
	atomic_fetch_sub(&c->uses, 1);
}

void stx__calls_drop(struct stx__gpu_code *g, uint32_t nsteps)
{
	for (int n = 0; n < STX__NLIBRARIES; n++) {
		struct stx__call **kept = g->library[n].kept;
		for (uint32_t i = 0; kept && i < nsteps; i++)
			while (kept[i]) {
				struct stx__call *c = kept[i];
				kept[i] = c->next;
				entry_free(c);
			}
		if (g->library[n].handle && !g->library[n].is_refused)
			libraries[n]->destroy(g->library[n].handle);
	}
}

/* ---- the choice ---- */

struct operands { /* of a run */
	char *at[STX__CALL_OPERANDS];
	struct stx__call_list *list;
	uint32_t chosen;
};

/* n ways of the library in out, the kernel behind them, as others see them. */
static void describe(const struct stax_artifact *a, const struct stx__step *s, int is_aligned,
		     struct stx__ways *out)
{
	const struct stx__library *l = s->external->library;
	const struct stx__call *c = s->call;
	out->call = l->digest(a, s, c->attrs, c->workspace_bytes, is_aligned);
	l->name_call(a, s, c->attrs, out->what, sizeof out->what);
	if ((s->kernel != STX_PLAN_NONE || s->covers) && out->n && out->n < STX_TIMINGS_MAX)
		stx__way_of_kernel(a, s, &out->at[out->n++]);
}

/* Asks for the list when there is none, and chooses by what is known. requires: the code's lock. */
static void settle(struct stax_artifact *a, const struct stx__gpu_code *g,
		   const struct stx__step *s, const struct operands *o)
{
	struct stx__call *c = s->call;
	struct stx__call_list *l = o->list;
	int is_aligned = l == &c->of[0];
	struct stx__ways *w = calloc(1, sizeof *w);
	if (!l->asked)
		l->n = s->external->library->list(g, c, is_aligned, o->at, STX__CALL_WAYS, l->at);
	l->asked = 1;
	if (w) {
		w->n = l->n;
		memcpy(w->at, l->at, sizeof l->at);
		describe(a, s, is_aligned, w);
		atomic_store_explicit(&l->chosen, choose(a, w), memory_order_relaxed);
	}
	free(w);
}

/* Where the operands of s lie now, and the ways for that. */
static stx_err prepare(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
		       struct operands *o, struct stx_diag *d)
{
	uintptr_t all = 0;
	stx_err e = s->call ? STX_E_OK : acquire(a, x, s, d);
	if (e)
		return e;
	struct stx__call *c = s->call;
	memset(o->at, 0, sizeof o->at);
	s->external->library->place(a, s, c, s->frame.buffers, o->at);
	for (int i = 0; i < STX__CALL_OPERANDS; i++)
		all |= (uintptr_t)o->at[i];
	struct stx__call_list *l = o->list = &c->of[all % STX__CALL_ALIGNMENT != 0];
	uint32_t epoch = atomic_load_explicit(&a->gpu->calls_epoch, memory_order_acquire);
	if (atomic_load_explicit(&l->settled, memory_order_acquire) != epoch) {
		pthread_mutex_lock(&x->gpu->code->lock);
		if (atomic_load_explicit(&l->settled, memory_order_relaxed) != epoch)
			settle(a, x->gpu->code, s, o);
		atomic_store_explicit(&l->settled, epoch, memory_order_release);
		pthread_mutex_unlock(&x->gpu->code->lock);
	}
	o->chosen = atomic_load_explicit(&l->chosen, memory_order_relaxed);
	return STX_E_OK;
}

static const char *no_way(const struct stx__call *c)
{
	return c->why_not[0] ? c->why_not : "no way for these sizes and types";
}

stx_err stx__call_run(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
		      const struct stx_env *env, struct stx_diag *d)
{
	struct operands o;
	stx_err e = prepare(a, x, s, &o, d);
	if (e)
		return e;
	uint32_t i = o.chosen & ~ALONE, end = o.chosen & ALONE ? i + 1 : o.list->n;
	if (i >= o.list->n)
		return stx__call_cannot(s, o.list->n ? "the kernel is faster" : no_way(s->call), d);
	do
		e = s->external->library->call(a, x, s, o.at, &o.list->at[i], env, d);
	while (e == STX_E_UNSUPPORTED && ++i < end);
	return e;
}

/* ---- for whoever measures ---- */

stx_err stx__call_ways(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
		       uint32_t most, struct stx__ways *out, struct stx_diag *d)
{
	struct operands o;
	stx_err e = prepare(a, x, s, &o, d);
	if (e)
		return e;
	struct stx__call *c = s->call;
	int is_aligned = o.list == &c->of[0];
	most = most < STX_TIMINGS_MAX ? most : STX_TIMINGS_MAX - 1;
	if (most) {
		pthread_mutex_lock(&x->gpu->code->lock);
		out->n = s->external->library->list(x->gpu->code, c, is_aligned, o.at, most,
						    out->at);
		pthread_mutex_unlock(&x->gpu->code->lock);
	} else {
		out->n = o.list->n;
		memcpy(out->at, o.list->at, sizeof o.list->at);
	}
	describe(a, s, is_aligned, out);
	return out->n ? STX_E_OK : stx__call_cannot(s, no_way(c), d);
}

stx_err stx__call_run_way(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
			  const struct stx__way *way, void *const *buffers,
			  const struct stx_env *env, struct stx_diag *d)
{
	const struct stx__library *l = s->external->library;
	char *at[STX__CALL_OPERANDS] = { NULL };
	l->place(a, s, s->call, buffers, at);
	return l->call(a, x, s, at, way, env, d);
}

uint32_t stx__call_digests(const struct stax_artifact *a, const struct stx__context *x,
			   const struct stx__step *s, struct stx_digest out[2])
{
	int64_t t[STX__CALL_ATTRS];
	if (!attributes(a, x, s, t))
		return 0;
	for (int i = 0; i < 2; i++)
		out[i] =
			s->external->library->digest(a, s, t, stx__external_workspace(a, x, s), !i);
	return 2;
}
