/* convolution.c: the external call STX_CALL_CONV: a convolution, or the gradient of its input, by
 * cuDNN.
 *
 * What a call needs (a graph of descriptors, the heuristics' list of engines) is made at its first
 * run for a device and set of sizes and kept with the artifact's code on that device; an engine's
 * plan is made when it is first used. The graph promises an alignment of the operands: there are
 * two, of 16 bytes and of their elements. The list's first engine is taken unless timings are known
 * (calls.c); the step's kernel is a way too, and what is left where cuDNN is not there, knows no
 * such convolution, or needs more memory to work in than the plan has. Engines are named by the
 * library's version and their knobs, so a name found in another process's list is the same code.
 *
 * Numerics (kernels/NUMERICS.md): engines are chosen by their numerical notes; see is_barred in
 * cudnn_graph.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "cudnn.h"
#include "dtype.h"

#define ALIGNMENT   16 /* of operands, bytes that vector loads want */
#define MAX_WAYS    7  /* engines that are asked for: with the kernel, LC-04's eight */
#define MAX_ENTRIES 8  /* of a step and device: sets of sizes kept although no context uses them */
#define MAX_DIM     INT32_MAX

struct engine { /* never moved: ways point at it */
	struct engine *next;
	struct stx__cudnn_engine e;
};

struct engines {                  /* of one alignment */
	_Atomic uint32_t settled; /* epoch of what was known when the choice was made; 0: never */
	_Atomic uint32_t chosen;  /* n: the kernel, or there is no engine */
	struct stx__cudnn_graph graph;
	struct engine *all; /* every one that was listed */
	uint32_t n;
	int asked;
	struct engine *at[MAX_WAYS];
};

struct stx__conv { /* of a step and a device: one set of sizes */
	struct stx__conv *next;
	_Atomic uint32_t uses; /* by contexts */
	int64_t attrs[STX_CONV_NATTRS];
	uint8_t dtype;
	size_t workspace_bytes;
	struct engines of[2]; /* of operands on 16 bytes; on their elements only */
};

enum { X, W, Y };

static const int64_t *array(const int64_t *attrs, int i)
{
	static const int from[3] = { STX_CONV_X, STX_CONV_W, STX_CONV_Y };
	return attrs + from[i];
}

static int attributes(const struct stax_artifact *a, const struct stx__context *x,
		      const struct stx__step *s, int64_t out[STX_CONV_NATTRS])
{
	return stx__external_attrs(a, x, s, STX_CONV_NATTRS, out);
}

static int cudnn_type(uint8_t t)
{
	switch (t) {
	case STX_F32: return STX_CUDNN_DATA_FLOAT;
	case STX_F64: return STX_CUDNN_DATA_DOUBLE;
	case STX_F16: return STX_CUDNN_DATA_HALF;
	case STX_BF16: return STX_CUDNN_DATA_BFLOAT16;
	default: return -1;
	}
}

static const struct stx_plan_value *argument(const struct stax_artifact *a,
					     const struct stx__step *s, int64_t arg)
{
	return &a->plan.values[stx_plan_u32s(&a->plan, s->plan->args)[arg]];
}

static int64_t bytes_of(const struct stax_artifact *a, const struct stx__context *x,
			const struct stx__step *s, int64_t arg)
{
	return x->values[stx_plan_u32s(&a->plan, s->plan->args)[arg]].bytes;
}

/* ---- what the plan asks for ---- */

static int in_range(int64_t v, int64_t lo)
{
	return v >= lo && v <= MAX_DIM;
}

static int is_array(const struct stax_artifact *a, const struct stx__step *s, const int64_t *t)
{
	if (t[STX_ARRAY_ARG] < 0 || t[STX_ARRAY_ARG] >= s->nparams || t[STX_ARRAY_OFFSET] < 0 ||
	    cudnn_type(argument(a, s, t[STX_ARRAY_ARG])->dtype) < 0)
		return 0;
	for (int i = 0; i < 2 + STX_CONV_MAX_SPATIAL; i++)
		if (!in_range(t[STX_ARRAY_SIZE + i], 1) || !in_range(t[STX_ARRAY_STRIDE + i], 1))
			return 0;
	return 1;
}

/* Every element lies within its value. */
static int fits(const struct stax_artifact *a, const struct stx__context *x,
		const struct stx__step *s, const int64_t *t)
{
	int64_t last = t[STX_ARRAY_OFFSET], step;
	int64_t n = bytes_of(a, x, s, t[STX_ARRAY_ARG]) /
		    stx_dtype_bytes(argument(a, s, t[STX_ARRAY_ARG])->dtype);
	for (int i = 0; i < 2 + STX_CONV_MAX_SPATIAL; i++)
		if (__builtin_mul_overflow(t[STX_ARRAY_SIZE + i] - 1, t[STX_ARRAY_STRIDE + i],
					   &step) ||
		    __builtin_add_overflow(last, step, &last))
			return 0;
	return last < n;
}

/* The spatial sizes agree: `small` is what convolving `large` gives. */
static int windows_fit(const int64_t *t, const int64_t *large, const int64_t *small)
{
	for (int i = 0; i < STX_CONV_MAX_SPATIAL; i++) {
		int64_t step = t[STX_CONV_STRIDE + i], dilation = t[STX_CONV_DILATION + i];
		int64_t before = t[STX_CONV_BEFORE + i], after = t[STX_CONV_AFTER + i];
		if (!in_range(step, 1) || !in_range(dilation, 1) || !in_range(before, 0) ||
		    !in_range(after, 0))
			return 0;
		int64_t room = large[STX_ARRAY_SIZE + 2 + i] + before + after -
			       dilation * (array(t, W)[STX_ARRAY_SIZE + 2 + i] - 1) - 1;
		if (room < 0 || room / step + 1 != small[STX_ARRAY_SIZE + 2 + i])
			return 0;
		if (i >= t[STX_CONV_SPATIAL] && (step != 1 || dilation != 1 || before || after ||
						 large[STX_ARRAY_SIZE + 2 + i] != 1 ||
						 array(t, W)[STX_ARRAY_SIZE + 2 + i] != 1))
			return 0;
	}
	return 1;
}

static int channels_fit(const int64_t *t, const int64_t *large, const int64_t *small)
{
	const int64_t *w = array(t, W) + STX_ARRAY_SIZE;
	int64_t in = large[STX_ARRAY_SIZE + 1], groups = in / w[1];
	return in % w[1] == 0 && w[0] % groups == 0 && small[STX_ARRAY_SIZE + 1] == w[0] &&
	       small[STX_ARRAY_SIZE] == large[STX_ARRAY_SIZE];
}

static int bias_fits(const struct stax_artifact *a, const struct stx__context *x,
		     const struct stx__step *s, const int64_t *t)
{
	int64_t arg = t[STX_CONV_BIAS], end;
	uint8_t type = argument(a, s, array(t, Y)[STX_ARRAY_ARG])->dtype;
	if (!t[STX_CONV_EPILOGUE])
		return 1;
	return t[STX_CONV_EPILOGUE] == STX_EPILOGUE_BIAS && t[STX_CONV_KIND] == 0 && arg >= 0 &&
	       arg < s->nparams && type != STX_F64 && argument(a, s, arg)->dtype == type &&
	       t[STX_CONV_BIAS_OFFSET] >= 0 &&
	       !__builtin_add_overflow(t[STX_CONV_BIAS_OFFSET], array(t, Y)[STX_ARRAY_SIZE + 1],
				       &end) &&
	       end <= bytes_of(a, x, s, arg) / stx_dtype_bytes(type);
}

static int is_plausible(const struct stax_artifact *a, const struct stx__context *x,
			const struct stx__step *s, const int64_t *t)
{
	uint8_t type = 0;
	if (t[STX_CONV_KIND] < STX_CONVOLVE_FORWARD ||
	    t[STX_CONV_KIND] > STX_CONVOLVE_INPUT_GRADIENT || t[STX_CONV_SPATIAL] < 1 ||
	    t[STX_CONV_SPATIAL] > STX_CONV_MAX_SPATIAL ||
	    stx_plan_extern_of(&a->plan, s->plan)->workspace == STX_PLAN_NONE)
		return 0;
	for (int i = 0; i < 3; i++) {
		if (!is_array(a, s, array(t, i)) || !fits(a, x, s, array(t, i)))
			return 0;
		uint8_t mine = argument(a, s, array(t, i)[STX_ARRAY_ARG])->dtype;
		if (i && mine != type)
			return 0;
		type = mine;
	}
	int b = t[STX_CONV_KIND] == STX_CONVOLVE_INPUT_GRADIENT;
	const int64_t *large = array(t, b ? Y : X), *small = array(t, b ? X : Y);
	return windows_fit(t, large, small) && channels_fit(t, large, small) &&
	       bias_fits(a, x, s, t);
}

stx_err stx__conv_bind(const struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
		       struct stx_diag *d)
{
	int64_t t[STX_CONV_NATTRS];
	return attributes(a, x, s, t) && is_plausible(a, x, s, t)
		       ? STX_E_OK
		       : stx_fail(d, STX_E_CORRUPT, "plan", STX_CALL_CONV,
				  "data plan: a convolution that cannot be");
}

/* ---- entries ---- */

static void entry_free(struct stx__conv *c)
{
	const struct stx__cudnn *q = stx__cudnn(NULL);
	for (int i = 0; i < 2; i++) {
		while (c->of[i].all) {
			struct engine *e = c->of[i].all;
			c->of[i].all = e->next;
			stx__cudnn_engine_free(q, &e->e);
			free(e);
		}
		stx__cudnn_graph_free(q, &c->of[i].graph);
	}
	free(c);
}

/* Frees what no context uses beyond MAX_ENTRIES, the oldest last in the list. */
static void trim(struct stx__conv **list)
{
	int n = 0;
	for (struct stx__conv **at = list; *at;) {
		struct stx__conv *c = *at;
		if (++n <= MAX_ENTRIES || c->uses) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		entry_free(c);
	}
}

/* The entry of the step for these attributes, made when there is none. NULL: no memory. requires:
 * g->lock. */
static struct stx__conv *entry(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
			       const int64_t *attrs)
{
	struct stx__conv **list = &x->gpu->code->convs[s - x->steps], *c = *list;
	while (c && memcmp(c->attrs, attrs, sizeof c->attrs) != 0)
		c = c->next;
	if (!c && (c = calloc(1, sizeof *c))) {
		memcpy(c->attrs, attrs, sizeof c->attrs);
		c->workspace_bytes = stx__external_workspace(a, x, s);
		c->dtype = argument(a, s, array(attrs, X)[STX_ARRAY_ARG])->dtype;
		c->next = *list;
		*list = c;
		trim(list);
	}
	if (c)
		c->uses++;
	return c;
}

static stx_err cannot(struct stx_diag *d, const char *why)
{
	return stx_fail(d, STX_E_UNSUPPORTED, "cuda", STX_CALL_CONV, "cuDNN: %s", why);
}

static stx_err acquire(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
		       struct stx_diag *d)
{
	struct stx__gpu_code *g = x->gpu->code;
	const struct stx__cudnn *q = stx__cudnn(d);
	int64_t attrs[STX_CONV_NATTRS];
	if (!q)
		return STX_E_UNSUPPORTED;
	if (!attributes(a, x, s, attrs))
		return cannot(d, "sizes that overflow");
	pthread_mutex_lock(&g->lock);
	if (!g->cudnn && !g->no_cudnn)
		g->no_cudnn = q->create(&g->cudnn) != 0;
	s->call = g->no_cudnn ? NULL : entry(a, x, s, attrs);
	pthread_mutex_unlock(&g->lock);
	return s->call ? STX_E_OK : cannot(d, "it cannot be used on this device");
}

void stx__conv_release(struct stax_artifact *a, struct stx__step *s)
{
	struct stx__conv *c = s->call;
	(void)a;
	s->call = NULL;
	atomic_fetch_sub(&c->uses, 1);
}

void stx__conv_free(struct stx__gpu_code *g, uint32_t nsteps)
{
	for (uint32_t i = 0; g->convs && i < nsteps; i++)
		while (g->convs[i]) {
			struct stx__conv *c = g->convs[i];
			g->convs[i] = c->next;
			entry_free(c);
		}
	if (g->cudnn)
		stx__cudnn(NULL)->destroy(g->cudnn);
}

/* ---- engines ---- */

static struct stx__cudnn_conv describe(const struct stx__conv *c, int64_t alignment)
{
	const int64_t *t = c->attrs;
	struct stx__cudnn_conv o = { .is_gradient = t[STX_CONV_KIND] == STX_CONVOLVE_INPUT_GRADIENT,
				     .type = cudnn_type(c->dtype),
				     .accumulate = c->dtype == STX_F64 ? STX_CUDNN_DATA_DOUBLE
								       : STX_CUDNN_DATA_FLOAT,
				     .k = (uint32_t)t[STX_CONV_SPATIAL],
				     .has_bias = t[STX_CONV_EPILOGUE] == STX_EPILOGUE_BIAS,
				     .alignment = alignment };
	struct stx__cudnn_tensor *tensors[3] = { &o.x, &o.w, &o.y };
	for (int i = 0; i < STX_CONV_MAX_SPATIAL; i++) {
		o.stride[i] = t[STX_CONV_STRIDE + i];
		o.dilation[i] = t[STX_CONV_DILATION + i];
		o.before[i] = t[STX_CONV_BEFORE + i];
		o.after[i] = t[STX_CONV_AFTER + i];
	}
	for (int i = 0; i < 3; i++) {
		memcpy(tensors[i]->size, array(t, i) + STX_ARRAY_SIZE, sizeof o.x.size);
		memcpy(tensors[i]->stride, array(t, i) + STX_ARRAY_STRIDE, sizeof o.x.stride);
	}
	return o;
}

static struct engine *find_engine(const struct engines *l, const char *name)
{
	struct engine *e = l->all;
	while (e && strcmp(e->e.name, name) != 0)
		e = e->next;
	return e;
}

/* The heuristics' list: its length, most at most. An error is an empty list: the kernel does it.
 * requires: the code's lock. */
static uint32_t ask(const struct stx__gpu_code *g, const struct stx__conv *c, struct engines *l,
		    uint32_t most, struct engine **out)
{
	const struct stx__cudnn *q = stx__cudnn(NULL);
	struct stx__cudnn_engine *found = calloc(most, sizeof *found);
	uint32_t n = 0, count = 0;
	int64_t alignment = l == &c->of[0] ? ALIGNMENT : stx_dtype_bytes(c->dtype);
	struct stx__cudnn_conv what = describe(c, alignment);
	if (found && !l->graph.n && stx__cudnn_conv_graph(q, g->cudnn, &what, &l->graph))
		stx__cudnn_graph_free(q, &l->graph);
	if (found && l->graph.n)
		n = stx__cudnn_engines(q, &l->graph, what.type, NULL, most, found);
	for (uint32_t i = 0; i < n; i++) {
		struct engine *e = find_engine(l, found[i].name);
		if (!e && (e = calloc(1, sizeof *e))) {
			e->e = found[i];
			memset(&found[i], 0, sizeof found[i]);
			e->next = l->all;
			l->all = e;
		}
		if (e)
			out[count++] = e;
		stx__cudnn_engine_free(q, &found[i]);
	}
	free(found);
	return count;
}

/* What timings of the call are known by: all that decides which engines there are and how fast they
 * are, but for device and library. */
static struct stx_digest digest_of(const struct stax_artifact *a, const struct stx__step *s,
				   const int64_t *t, size_t workspace_bytes, int is_aligned)
{
	/* 1: of this form */
	int64_t all[4 + STX_CONV_NATTRS] = { 1, is_aligned, (int64_t)workspace_bytes };
	all[3] = argument(a, s, array(t, X)[STX_ARRAY_ARG])->dtype;
	memcpy(all + 4, t, STX_CONV_NATTRS * sizeof *t);
	for (int i = 0; i < 3; i++) {
		int64_t *m = all + 4 + (array(t, i) - t);
		m[STX_ARRAY_ARG] = m[STX_ARRAY_OFFSET] = 0;
	}
	all[4 + STX_CONV_BIAS] = all[4 + STX_CONV_BIAS_OFFSET] = 0;
	return stx_digest_of(all, sizeof all);
}

/* conv_f16_8x64x56x56_128x3x3_s2 */
static void name_call(const struct stx__conv *c, char *out, size_t cap)
{
	const int64_t *t = c->attrs, *x = array(t, X) + STX_ARRAY_SIZE;
	const int64_t *w = array(t, W) + STX_ARRAY_SIZE;
	int k = (int)t[STX_CONV_SPATIAL], strides = 0;
	size_t n = (size_t)snprintf(out, cap, "%s_%s_%lldx%lld",
				    t[STX_CONV_KIND] ? "conv_transposed" : "conv",
				    stx_dtype_name(c->dtype), (long long)x[0], (long long)x[1]);
	for (int i = 0; i < k && n < cap; i++)
		n += (size_t)snprintf(out + n, cap - n, "x%lld", (long long)x[2 + i]);
	if (n < cap)
		n += (size_t)snprintf(out + n, cap - n, "_%lld", (long long)w[t[STX_CONV_KIND]]);
	for (int i = 0; i < k && n < cap; i++) {
		n += (size_t)snprintf(out + n, cap - n, "x%lld", (long long)w[2 + i]);
		strides |= t[STX_CONV_STRIDE + i] > 1;
	}
	if (strides && n < cap)
		n += (size_t)snprintf(out + n, cap - n, "_s%lld", (long long)t[STX_CONV_STRIDE]);
	if (t[STX_CONV_EPILOGUE] && n < cap)
		snprintf(out + n, cap - n, "_bias");
}

/* n engines, the kernel behind them, as others see them. */
static void list_ways(const struct stax_artifact *a, const struct stx__step *s,
		      const struct stx__conv *c, int is_aligned, struct engine *const *at,
		      uint32_t n, struct stx__ways *out)
{
	out->call = digest_of(a, s, c->attrs, c->workspace_bytes, is_aligned);
	name_call(c, out->what, sizeof out->what);
	for (out->n = 0; out->n < n; out->n++) {
		struct stx__way *w = &out->at[out->n];
		*w = (struct stx__way){ .algorithm = { (uintptr_t)at[out->n] } };
		memcpy(w->name, at[out->n]->e.name, sizeof w->name);
	}
	if (s->kernel != STX_PLAN_NONE && out->n && out->n < STX_TIMINGS_MAX)
		stx__way_of_kernel(a, s, &out->at[out->n++]);
}

/* Asks for the list when there is none, and chooses by what is known. requires: the code's lock. */
static void settle(struct stax_artifact *a, const struct stx__gpu_code *g,
		   const struct stx__step *s, const struct stx__conv *c, struct engines *l)
{
	struct stx__ways *w = calloc(1, sizeof *w);
	if (!l->asked)
		l->n = ask(g, c, l, MAX_WAYS, l->at);
	l->asked = 1;
	if (w) {
		list_ways(a, s, c, l == &c->of[0], l->at, l->n, w);
		atomic_store_explicit(&l->chosen, stx__call_choose(a, w), memory_order_relaxed);
	}
	free(w);
}

static void place(const struct stx__conv *c, void *const *buffers, char *at[4])
{
	const int64_t *t = c->attrs;
	int64_t elem = stx_dtype_bytes(c->dtype);
	for (int i = 0; i < 3; i++)
		at[i] = (char *)buffers[array(t, i)[STX_ARRAY_ARG]] +
			array(t, i)[STX_ARRAY_OFFSET] * elem;
	at[3] = t[STX_CONV_EPILOGUE]
			? (char *)buffers[t[STX_CONV_BIAS]] + t[STX_CONV_BIAS_OFFSET] * elem
			: at[Y];
}

struct operands {
	char *at[4]; /* X, W, Y, the bias or Y */
	struct engines *engines;
	uint32_t chosen;
};

/* Where the operands of s lie now, and the engines for that. */
static stx_err prepare(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
		       struct operands *o, struct stx_diag *d)
{
	struct stx__conv *c = s->call;
	uintptr_t all = 0;
	stx_err e = c ? STX_E_OK : acquire(a, x, s, d);
	if (e)
		return e;
	c = s->call;
	place(c, s->frame.buffers, o->at);
	for (int i = 0; i < 4; i++)
		all |= (uintptr_t)o->at[i];
	struct engines *l = o->engines = &c->of[all % ALIGNMENT != 0];
	uint32_t epoch = atomic_load_explicit(&a->gpu->calls_epoch, memory_order_acquire);
	if (atomic_load_explicit(&l->settled, memory_order_acquire) != epoch) {
		pthread_mutex_lock(&x->gpu->code->lock);
		if (atomic_load_explicit(&l->settled, memory_order_relaxed) != epoch)
			settle(a, x->gpu->code, s, c, l);
		atomic_store_explicit(&l->settled, epoch, memory_order_release);
		pthread_mutex_unlock(&x->gpu->code->lock);
	}
	o->chosen = atomic_load_explicit(&l->chosen, memory_order_relaxed);
	return STX_E_OK;
}

/* What the library says before it has begun: then the kernel can still do it. */
static int is_refusal(int status)
{
	return (status >= STX_CUDNN_STATUS_BAD_PARAM && status < STX_CUDNN_STATUS_INTERNAL_ERROR) ||
	       status == STX_CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
	       status == STX_CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

/* requires: the code's lock, which the handle's stream needs. A status. */
static int execute(const struct stx__gpu_code *g, const struct stx__step *s, void *plan,
		   int has_bias, char *const at[4], void *stream)
{
	static const int64_t ids[4] = { STX__CUDNN_X, STX__CUDNN_W, STX__CUDNN_Y, STX__CUDNN_BIAS };
	const struct stx__cudnn *q = stx__cudnn(NULL);
	void *pack = NULL, *workspace = stx__external_workspace_at(s);
	int n = has_bias ? 4 : 3;
	int e = q->desc_create(STX_CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
	if (e)
		return e;
	e = q->set_stream(g->cudnn, stream);
	if (!e)
		e = q->desc_set(pack, STX_CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, STX_CUDNN_TYPE_INT64,
				n, ids);
	if (!e)
		e = q->desc_set(pack, STX_CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
				STX_CUDNN_TYPE_VOID_PTR, n, at);
	if (!e)
		e = q->desc_set(pack, STX_CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
				STX_CUDNN_TYPE_VOID_PTR, 1, &workspace);
	if (!e)
		e = q->desc_finalize(pack);
	if (!e)
		e = q->execute(g->cudnn, plan, pack);
	q->desc_destroy(pack);
	return e;
}

static stx_err call(const struct stx__context *x, const struct stx__step *s, char *const at[4],
		    struct engine *engine, const struct stx_env *env, struct stx_diag *d)
{
	const struct stx__cudnn *q = stx__cudnn(NULL);
	const struct stx__conv *c = s->call;
	struct stx__gpu_code *g = x->gpu->code;
	int status = 0;
	pthread_mutex_lock(&g->lock);
	int is_there = stx__cudnn_plan(q, g->cudnn, NULL, &engine->e, (int64_t)c->workspace_bytes);
	if (is_there)
		status = execute(g, s, engine->e.plan, c->attrs[STX_CONV_EPILOGUE] != 0, at,
				 env ? env->stream : NULL);
	pthread_mutex_unlock(&g->lock);
	if (!is_there)
		return cannot(d, "an engine of its list has no plan here");
	if (!status)
		return STX_E_OK;
	if (is_refusal(status))
		return cannot(d, q->error_string(status));
	return stx_fail(d, STX_E_INTERNAL, "cuda", STX_CALL_CONV, "cuDNN: %s",
			q->error_string(status));
}

/* By the chosen engine, else by the next one that works. */
stx_err stx__conv_run(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
		      const struct stx_env *env, struct stx_diag *d)
{
	struct operands o;
	stx_err e = prepare(a, x, s, &o, d);
	if (e)
		return e;
	if (o.chosen >= o.engines->n)
		return cannot(d, o.engines->n ? "the kernel is faster"
					      : "no engine for these sizes and types");
	for (uint32_t i = o.chosen; i < o.engines->n; i++) {
		e = call(x, s, o.at, o.engines->at[i], env, d);
		if (e != STX_E_UNSUPPORTED)
			return e;
	}
	return e;
}

/* ---- for whoever measures ---- */

stx_err stx__conv_ways(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
		       uint32_t most, struct stx__ways *out, struct stx_diag *d)
{
	struct operands o;
	struct engine *more[STX_TIMINGS_MAX];
	stx_err e = prepare(a, x, s, &o, d);
	if (e)
		return e;
	const struct stx__conv *c = s->call;
	struct engine *const *at = o.engines->at;
	uint32_t n = o.engines->n;
	most = most < STX_TIMINGS_MAX ? most : STX_TIMINGS_MAX - 1;
	if (most) {
		pthread_mutex_lock(&x->gpu->code->lock);
		n = ask(x->gpu->code, c, o.engines, most, more);
		pthread_mutex_unlock(&x->gpu->code->lock);
		at = more;
	}
	list_ways(a, s, c, o.engines == &c->of[0], at, n, out);
	return out->n ? STX_E_OK : cannot(d, "no engine for these sizes and types");
}

stx_err stx__conv_run_way(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
			  const struct stx__way *way, void *const *buffers,
			  const struct stx_env *env, struct stx_diag *d)
{
	char *at[4];
	(void)a;
	place(s->call, buffers, at);
	return call(x, s, at, (struct engine *)(uintptr_t)way->algorithm[0], env, d);
}

uint32_t stx__conv_digests(const struct stax_artifact *a, const struct stx__context *x,
			   const struct stx__step *s, struct stx_digest out[2])
{
	int64_t t[STX_CONV_NATTRS];
	if (!attributes(a, x, s, t))
		return 0;
	for (int i = 0; i < 2; i++)
		out[i] = digest_of(a, s, t, stx__external_workspace(a, x, s), !i);
	return 2;
}
