/* cuda_trial.c: timing one kernel's configurations, or the ways to make one external call, on the
 * arguments it is about to be launched with. What any of them writes is copied: results go to
 * scratch memory, whose contents are put back from the originals before each check, and before each
 * timed launch when the kernel reads what it writes (donated and mutated arguments, outputs that
 * take an operand's place). The second level cache is flushed between launches. A call's results
 * are checked against those of its kernel, the first way's too; its workspace is nobody's and stays
 * where it is. Where several steps do the same as a call, they run on the run's own memory, where
 * they have run before, and their results are copied from there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "tuner.h"

#define HOST_MAPPED   2  /* CU_MEMHOSTALLOC_DEVICEMAP */
#define L2_CACHE_SIZE 38 /* CU_DEVICE_ATTRIBUTE */
#define FLUSH_DEFAULT ((size_t)128 << 20)
#define CHUNK_BYTES   ((size_t)4 << 20)
#define ALIGN         256u /* of device memory: kernels may use wide accesses */

struct code {
	void *module, *fn;
	uint32_t grid[3], block[3];
};

struct trial {
	struct stx__tuner *t;
	const struct stx__driver *q;
	struct stx__context *x;
	struct stx__step *s;
	struct stx_arena *arena;
	struct stx__region *regions;
	uint32_t nregions;
	void **buffers; /* [nparams] addresses as the launches get them */
	void **params;
	struct stx_bounds_record
		*record; /* theirs: a bounds error is the real launch's to report */
	stx__device_ptr record_at, flush;
	size_t flush_bytes;
	void *from, *to; /* events */
	void *stream;
	struct code *codes; /* [n] */
	struct code swept[STX__SWEEP_BATCH + 1];
	const struct stx__ways *ways; /* of a call: those of k, or a sweep's */
	const Stx__Kernel *space;     /* of a kernel in a sweep: all configurations */
	const uint32_t *batch;        /* a sweep's candidates, by number; NULL: those of k */
	const struct stx__tuned_kernel *k;
	int have_want;
	uint8_t *host[2]; /* [CHUNK_BYTES] */
};

static stx_err failed(const struct trial *w, int result, const char *what, struct stx_diag *d)
{
	return stx__driver_fail(result, what, w->k->name, d);
}

/* ---- what is written ---- */

static stx_err make_scratch(struct trial *w, struct stx_diag *d)
{
	for (uint32_t i = 0; i < w->nregions; i++) {
		struct stx__region *r = &w->regions[i];
		int result;
		r->base = r->want = 0;
		if ((result = w->q->alloc(&r->base, r->hi - r->lo + ALIGN)) ||
		    (result = w->q->alloc(&r->want, r->hi - r->lo)))
			return failed(w, result, "copies of what the kernel writes", d);
		r->scratch = r->base + r->lo % ALIGN;
	}
	stx__regions_place(w->t->a, w->x, w->s, w->regions, w->nregions, w->buffers);
	return STX_E_OK;
}

/* The scratch memory as the originals are. all: also what no launch reads; where there are results
 * already, it is anything else. */
static int restore(const struct trial *w, int all)
{
	int result = 0;
	for (uint32_t i = 0; i < w->nregions && w->s->covers && all && !result; i++)
		result = w->q->memset_async(w->regions[i].scratch, 0xFF,
					    w->regions[i].hi - w->regions[i].lo, w->stream);
	if (w->s->covers)
		return result;
	for (uint32_t i = 0; i < w->nregions && !result; i++)
		if (all || w->regions[i].read)
			result = w->q->copy_async(w->regions[i].scratch, w->regions[i].lo,
						  w->regions[i].hi - w->regions[i].lo, w->stream);
	return result;
}

/* ---- set up ---- */

static stx_err set_up(struct trial *w, struct stx_diag *d)
{
	uint32_t kernel = w->s->kernel;
	uint32_t nscalars = kernel == STX_PLAN_NONE ? 0 : w->t->a->plan.kernels[kernel].nscalars;
	struct stx__gpu_context *g = w->x->gpu;
	void *record = NULL;
	int result, l2 = 0;
	w->regions = STX_NEW_ARRAY(w->arena, struct stx__region, w->s->nparams + 1);
	w->buffers = STX_NEW_ARRAY(w->arena, void *, w->s->nparams + 1);
	w->params = STX_NEW_ARRAY(w->arena, void *, w->s->nparams + nscalars + 2);
	w->host[0] = stx_arena_alloc(w->arena, CHUNK_BYTES);
	w->host[1] = stx_arena_alloc(w->arena, CHUNK_BYTES);
	if (stx_arena_oom(w->arena))
		return stx_fail(d, STX_E_NOMEM, "tune", "", "out of memory");
	w->nregions = stx__regions_find(w->t->a, w->x, w->s, w->regions);
	stx_err e = make_scratch(w, d);
	if (e)
		return e;
	if ((result = w->q->host_alloc(&record, sizeof *w->record, HOST_MAPPED)))
		return failed(w, result, "a bounds record", d);
	w->record = record;
	memset(w->record, 0, sizeof *w->record);
	void **p = w->params;
	for (uint32_t j = 0; j < w->s->nparams; j++)
		*p++ = &w->buffers[j];
	for (uint32_t j = 0; j < nscalars; j++)
		*p++ = (void *)(uintptr_t)&w->s->frame.scalars[j];
	*p++ = &w->record_at;
	*p = kernel == STX_PLAN_NONE ? NULL : &g->kernel[kernel];
	if ((result = w->q->host_device_ptr(&w->record_at, record, 0)) ||
	    (result = w->q->event_create(&w->from, 0)) || (result = w->q->event_create(&w->to, 0)))
		return failed(w, result, "events", d);
	w->q->device_attribute(&l2, L2_CACHE_SIZE, g->code->device);
	w->flush_bytes = l2 > 0 ? (size_t)l2 * 2 : FLUSH_DEFAULT;
	if (w->q->alloc(&w->flush, w->flush_bytes))
		w->flush = 0; /* without it small kernels are timed in a warm cache */
	return STX_E_OK;
}

static void tear_down(struct trial *w)
{
	const struct stx__driver *q = w->q;
	q->stream_sync(w->stream);
	for (uint32_t i = 0; i < w->k->n; i++)
		if (w->codes[i].module)
			q->module_unload(w->codes[i].module);
	for (uint32_t i = 0; i < w->nregions; i++) {
		if (w->regions[i].base)
			q->free(w->regions[i].base);
		if (w->regions[i].want)
			q->free(w->regions[i].want);
	}
	if (w->flush)
		q->free(w->flush);
	if (w->record)
		q->host_free(w->record);
	if (w->from)
		q->event_destroy(w->from);
	if (w->to)
		q->event_destroy(w->to);
	stx_arena_free(w->arena);
}

/* ---- launches ---- */

static uint32_t number(const struct trial *w, uint32_t c)
{
	return w->batch ? w->batch[c] : c;
}

/* The step's kernel, or those of the steps that it stands for, as the run would launch them now. */
static stx_err launch_kernel(const struct trial *w, struct stx_diag *d)
{
	const struct stx__step *s = w->s;
	void *fn;
	if (s->covers)
		return stx__gpu_covered(w->t->a, w->x, (uint32_t)(s - w->x->steps), w->t->env, d);
	stx_err e = stx__gpu_function(w->t->a, w->x->gpu->code, s->kernel, s->code, &fn, d);
	if (e)
		return e;
	int result = w->q->launch(fn, s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1],
				  s->block[2], 0, w->stream, w->params, NULL);
	return result ? failed(w, result, "launching", d) : STX_E_OK;
}

static stx_err call(const struct trial *w, const struct stx__way *way, struct stx_diag *d)
{
	if (way->is_kernel)
		return launch_kernel(w, d);
	stx_err e = w->s->external->run_way(w->t->a, w->x, w->s, way, w->buffers, w->t->env, d);
	return e == STX_E_UNSUPPORTED ? STX_E_INTERNAL : e; /* this way's own fault */
}

static stx_err launch(const struct trial *w, uint32_t c, struct stx_diag *d)
{
	if (w->ways)
		return call(w, &w->ways->at[number(w, c)], d);
	const struct code *k = &w->codes[c];
	int result = w->q->launch(k->fn, k->grid[0], k->grid[1], k->grid[2], k->block[0],
				  k->block[1], k->block[2], 0, w->stream, w->params, NULL);
	return result ? failed(w, result, "launching", d) : STX_E_OK;
}

/* The launch's grid, as the plan or the sweep has it. 0: it overflows. */
static int geometry(const struct trial *w, uint32_t c, struct code *out)
{
	if (w->space) {
		const Stx__Configuration *k = w->space->candidates[w->batch[c]];
		for (size_t j = 0; j < 3; j++) {
			out->grid[j] = j < k->n_grid ? k->grid[j] : 1;
			out->block[j] = j < k->n_block ? k->block[j] : 1;
		}
		return out->grid[0] && out->grid[1] && out->grid[2];
	}
	const struct stx_plan_config *k = &w->k->configs[c];
	memcpy(out->block, k->block, sizeof out->block);
	for (int j = 0; j < 3; j++) {
		int64_t n = w->x->exprs[k->grid_expr[j]];
		if (!w->x->expr_ok[k->grid_expr[j]] || n <= 0 || n > INT32_MAX)
			return 0;
		out->grid[j] = (uint32_t)n;
	}
	return 1;
}

static stx_err check(void *ctx, uint32_t c, struct stx_diag *d);

static stx_err build(void *ctx, uint32_t c, struct stx_timing *timing, struct stx_diag *d)
{
	struct trial *w = ctx;
	if (w->ways) /* nothing to build; a first way that is wrong is out as any other */
		return c ? STX_E_OK : check(w, c, d);
	const struct stx_plan *p = &w->t->a->plan;
	struct code *k = &w->codes[c];
	struct stx__received r = { 0 };
	const char *symbol;
	struct stx_span cubin;
	if (k->fn)
		return STX_E_OK;
	stx_err e = w->t->source->code(&w->t->about, p->kernels[w->s->kernel].digest,
				       timing->config, &r, d);
	if (e)
		return e;
	const Stx__Kernel *said = r.e->kernel_code_reply->kernel;
	timing->registers = said->registers;
	timing->spills = said->spills;
	if (!geometry(w, c, k)) {
		e = stx_fail(d, STX_E_TOO_LARGE, "tune", "", "its grid overflows");
	} else if (stx_object_symbol(r.body, &symbol, &cubin)) {
		e = stx_fail(d, STX_E_CORRUPT, "tune", "", "not the code of a kernel");
	} else {
		int result = w->q->module_load(&k->module, cubin.at);
		if (!result)
			result = w->q->module_function(&k->fn, k->module, symbol);
		if (result)
			e = failed(w, result, "loading it", d);
	}
	stx__received_free(&r);
	return e;
}

static stx_err sample(void *ctx, uint32_t c, uint64_t *ns, struct stx_diag *d)
{
	struct trial *w = ctx;
	float ms = 0;
	int result = restore(w, 0);
	if (!result && w->flush)
		result = w->q->memset_async(w->flush, 0, w->flush_bytes, w->stream);
	if (!result)
		result = w->q->event_record(w->from, w->stream);
	stx_err e = result ? STX_E_OK : launch(w, c, d);
	if (e)
		return e;
	if (!result)
		result = w->q->event_record(w->to, w->stream);
	if (!result)
		result = w->q->event_sync(w->to);
	if (!result)
		result = w->q->event_elapsed(&ms, w->from, w->to);
	*ns = ms > 0 ? (uint64_t)((double)ms * 1e6 + 0.5) : 1;
	*ns = *ns ? *ns : 1;
	return result ? failed(w, result, "launching", d) : STX_E_OK;
}

/* ---- comparing ---- */

static float half_value(uint16_t h)
{
	int exponent = h >> 10 & 31, mantissa = h & 1023;
	float v = exponent == 31 ? (mantissa ? NAN : INFINITY)
		  : exponent     ? ldexpf((float)(mantissa | 1024), exponent - 25)
				 : ldexpf((float)mantissa, -24);
	return h & 0x8000 ? -v : v;
}

/* Element i as a number; tolerance 0: its bits are compared. */
static double value(enum stx_dtype t, const uint8_t *at, size_t i, double *rtol)
{
	uint16_t h;
	uint32_t u;
	float f;
	double v;
	switch (t) {
	case STX_F64:
		*rtol = 1e-8;
		memcpy(&v, at + i * 8, 8);
		return v;
	case STX_F32:
		*rtol = 1e-4;
		memcpy(&f, at + i * 4, 4);
		return (double)f;
	case STX_F16:
		*rtol = 1e-2;
		memcpy(&h, at + i * 2, 2);
		return (double)half_value(h);
	case STX_BF16:
		*rtol = 3e-2;
		memcpy(&h, at + i * 2, 2);
		u = (uint32_t)h << 16;
		memcpy(&f, &u, 4);
		return (double)f;
	default: *rtol = 0; return 0;
	}
}

int64_t stx__trial_differs(enum stx_dtype t, enum stx__apart by, const void *want, const void *got,
			   size_t n)
{
	size_t bytes = (size_t)stx_dtype_bytes(t), m = n / bytes;
	double rtol = 0, squares = 0;
	size_t counted = 0;
	if (!memcmp(want, got, n))
		return -1;
	for (size_t i = 0; i < m; i++) {
		double v = value(t, want, i, &rtol);
		if (rtol == 0)
			break;
		if (isfinite(v)) {
			squares += v * v;
			counted++;
		}
	}
	/* Sums that cancel are as wrong as their terms are large. A library's in f32, of thousands of
	 * terms in its own order, by up to 1e-5 of what results are on the whole; a term left out of
	 * as many weighs more. Half results are less exact than their sums, but for sums of what has
	 * been rounded to halves. */
	double scale = counted ? sqrt(squares / (double)counted) : 0;
	scale *= by == STX__APART_ROUNDED || (by == STX__APART_CALL && t == STX_F32) ? 1 : 1e-2;
	for (size_t i = 0; i < m; i++) {
		if (!memcmp((const uint8_t *)want + i * bytes, (const uint8_t *)got + i * bytes,
			    bytes))
			continue;
		double a = value(t, want, i, &rtol), b = value(t, got, i, &rtol);
		if (rtol > 0 &&
		    ((isnan(a) && isnan(b)) ||
		     (isfinite(a) && isfinite(b) && fabs(a - b) <= rtol * (fabs(a) + scale))))
			continue;
		return (int64_t)i;
	}
	return -1;
}

/* A call that stands for several steps rounds between them what they do not (kernels/NUMERICS.md). */
static enum stx__apart apart(const struct stx__step *s)
{
	return s->covers                     ? STX__APART_ROUNDED
	       : s->kind == STX__STEP_EXTERN ? STX__APART_CALL
					     : STX__APART_ORDER;
}

/* One written argument, the scratch memory against the heuristic's results. */
static stx_err compare_argument(struct trial *w, uint32_t arg, struct stx_diag *d)
{
	const struct stx_plan *p = &w->t->a->plan;
	enum stx_dtype t = p->values[stx_plan_u32s(p, w->s->plan->args)[arg]].dtype;
	struct stx__region mine;
	const struct stx__region *r = w->regions;
	stx__region_of(w->t->a, w->x, w->s, arg, &mine);
	while (r < w->regions + w->nregions && !(mine.lo >= r->lo && mine.hi <= r->hi))
		r++;
	if (mine.lo == mine.hi || r == w->regions + w->nregions)
		return STX_E_OK;
	for (uint64_t at = mine.lo; at < mine.hi; at += CHUNK_BYTES) {
		size_t n = mine.hi - at < CHUNK_BYTES ? (size_t)(mine.hi - at) : CHUNK_BYTES;
		int result =
			w->q->copy((stx__device_ptr)(uintptr_t)w->host[0], r->want + at - r->lo, n);
		if (!result)
			result = w->q->copy((stx__device_ptr)(uintptr_t)w->host[1],
					    r->scratch + at - r->lo, n);
		if (result)
			return failed(w, result, "reading results", d);
		int64_t i = stx__trial_differs(t, apart(w->s), w->host[0], w->host[1], n);
		if (i >= 0)
			return stx_fail(d, STX_E_MISMATCH, "tune", "",
					"argument %u differs at element %lld", arg,
					(long long)((int64_t)((at - mine.lo) /
							      (uint64_t)stx_dtype_bytes(t)) +
						    i));
	}
	return STX_E_OK;
}

/* as_is: the heuristic's, as the artifact has it; of a call its kernel. */
static stx_err run_once(struct trial *w, int as_is, uint32_t c, struct stx_diag *d)
{
	int result = restore(w, 1);
	if (result)
		return failed(w, result, "copying what it writes", d);
	stx_err e = as_is ? launch_kernel(w, d) : launch(w, c, d);
	int elsewhere = w->s->covers && (as_is || w->ways->at[number(w, c)].is_kernel);
	for (uint32_t i = 0; i < w->nregions && elsewhere && !e && !result; i++)
		result = w->q->copy_async(w->regions[i].scratch, w->regions[i].lo,
					  w->regions[i].hi - w->regions[i].lo, w->stream);
	if (!e && result)
		return failed(w, result, "copying results", d);
	if (!e && (result = w->q->stream_sync(w->stream)))
		e = failed(w, result, "launching", d);
	return e;
}

static stx_err make_want(struct trial *w, struct stx_diag *d)
{
	stx_err e = run_once(w, w->s->kernel != STX_PLAN_NONE || w->s->covers, 0, d);
	for (uint32_t i = 0; i < w->nregions && !e; i++) {
		int result = w->q->copy(w->regions[i].want, w->regions[i].scratch,
					w->regions[i].hi - w->regions[i].lo);
		if (result)
			e = failed(w, result, "keeping results", d);
	}
	w->have_want = !e;
	return e;
}

static stx_err check(void *ctx, uint32_t c, struct stx_diag *d)
{
	struct trial *w = ctx;
	stx_err e = w->have_want ? STX_E_OK : make_want(w, d);
	if (!e)
		e = run_once(w, 0, c, d);
	for (uint32_t i = 0; i < w->s->nparams && !e; i++)
		if (stx__arg_flags(w->t->a, w->s, i) & STX_ARG_WRITTEN)
			e = compare_argument(w, i, d);
	return e;
}

static void report(void *ctx, const char *line)
{
	struct trial *w = ctx;
	stx__tuner_say(w->t, w->k->name, "%s", line);
}

/* ---- a sweep ---- */

static const char *space_name(const void *ctx, uint32_t i)
{
	const struct trial *w = ctx;
	return w->ways ? w->ways->at[i].name : w->space->candidates[i]->text;
}

/* What build, check and launch mean by their numbers from now on; batch NULL: nothing. */
static stx_err take_batch(void *ctx, const uint32_t *batch, uint32_t many, struct stx_diag *d)
{
	struct trial *w = ctx;
	(void)d;
	if (!batch)
		w->q->stream_sync(w->stream);
	for (uint32_t i = 1; i < many && !batch; i++)
		if (w->swept[i].module)
			w->q->module_unload(w->swept[i].module);
	memset(w->swept, 0, sizeof w->swept);
	w->codes = batch ? w->swept : NULL;
	w->batch = batch;
	return STX_E_OK;
}

/* Of all configurations the kernel can have, or all ways that the library lists. */
static stx_err sweep(struct trial *w, struct stx__tuned_kernel *k, struct stx_diag *d)
{
	const struct stx__ways *mine = w->ways;
	struct code *codes = w->codes;
	struct stx__received r = { 0 };
	stx_err e = STX_E_OK;
	if (mine) {
		struct stx__ways *all = STX_NEW(w->arena, struct stx__ways);
		e = all ? w->s->external->ways(w->t->a, w->x, w->s, w->t->options.sweep, all, d)
			: STX_E_NOMEM;
		w->ways = all;
	} else {
		e = w->t->source->code(&w->t->about, k->digest.b, "", &r, d);
		w->space = e ? NULL : r.e->kernel_code_reply->kernel;
	}
	const struct stx__space space = { { w, build, check, sample, NULL },
					  w->ways    ? w->ways->n
					  : w->space ? (uint32_t)w->space->n_candidates
						     : 0,
					  space_name,
					  take_batch };
	if (!e)
		e = stx__sweep(w->t, k, &space, d);
	stx__received_free(&r);
	w->space = NULL;
	w->ways = mine;
	w->codes = codes;
	return e;
}

stx_err stx__trial(struct stx__tuner *t, struct stx__tuned_kernel *k, struct stx__context *x,
		   uint32_t step, struct stx_diag *d)
{
	struct trial w = { .t = t,
			   .q = stx__driver(d),
			   .x = x,
			   .s = &x->steps[step],
			   .k = k,
			   .ways = k->ways,
			   .stream = t->env ? t->env->stream : NULL };
	const struct stx_measure m = { &w, build, check, sample, report };
	const struct stx_measure_limits l = { t->options.measurements, t->options.runs, 0 };
	struct stx_measure_result r;
	w.arena = stx_arena_new(0);
	w.codes = w.arena ? STX_NEW_ARRAY(w.arena, struct code, k->n + 1) : NULL;
	if (!w.codes) {
		stx_arena_free(w.arena);
		return stx_fail(d, STX_E_NOMEM, "tune", "", "out of memory");
	}
	stx_err e = set_up(&w, d);
	if (!e && !k->decided) {
		e = stx_measure_choose(k->timings, k->n, &m, &l, &r, d);
		k->measured = r.measured;
	}
	if (!e && t->options.sweep)
		e = sweep(&w, k, d);
	tear_down(&w);
	return e;
}
