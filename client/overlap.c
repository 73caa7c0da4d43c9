/* overlap.c: inputs that a run writes share memory with no other argument.
 *
 * A run that finds the addresses of the run before it looks no further than that; else the ranges
 * are sorted, and the elements of two arguments are compared only where their ranges meet. */
#include <stdlib.h>

#include "client.h"
#include "dtype.h"

#define BUDGET  4096 /* steps of one comparison of elements; beyond it they count as shared */
#define LONGEST ((uintptr_t)1 << 60) /* bytes; longer ranges are no memory, and count as shared */

struct range {
	uintptr_t lo, hi; /* bytes [lo, hi); equal: none */
	uint32_t arg;     /* inputs, then outputs */
	uint8_t is_written;
};

struct stx__overlaps {
	struct range *last, *sorted; /* [arguments] */
};

stx_err stx__overlaps_new(const struct stax_artifact *a, struct stx__context *x)
{
	size_t n = (size_t)a->plan.h->ninputs + a->plan.h->noutputs;
	if (!a->nmutated)
		return STX_E_OK;
	x->overlaps = STX_NEW(x->arena, struct stx__overlaps);
	if (!x->overlaps)
		return STX_E_NOMEM;
	x->overlaps->last = STX_NEW_ARRAY(x->arena, struct range, n);
	x->overlaps->sorted = STX_NEW_ARRAY(x->arena, struct range, n);
	return stx_arena_oom(x->arena) ? STX_E_NOMEM : STX_E_OK;
}

struct stx__bytes stx__bytes_of(const struct stx_tensor *t)
{
	int64_t bytes = stx_dtype_bytes(t->dtype);
	uintptr_t at = (uintptr_t)t->data + (uintptr_t)(t->offset * bytes);
	struct stx__bytes r = { at, at + (uintptr_t)bytes };
	for (int i = 0; i < t->rank; i++) {
		if (t->sizes[i] == 0)
			return (struct stx__bytes){ 0, 0 };
		uintptr_t far = (uintptr_t)((t->sizes[i] - 1) * t->strides[i] * bytes);
		if (t->strides[i] < 0)
			r.lo += far;
		else
			r.hi += far;
	}
	return r;
}

/* ---- two arguments whose ranges meet ---- */

struct axis {
	int64_t stride; /* bytes, > 0 */
	int64_t lo, hi; /* steps that the difference of two elements can be apart */
};
struct difference {
	struct axis axis[2 * STX_MAX_RANK]; /* by falling stride */
	int64_t rest_lo[2 * STX_MAX_RANK + 1],
		rest_hi[2 * STX_MAX_RANK + 1]; /* what axes i.. add up to */
	int64_t below, above;                  /* differences that share a byte */
	int n, budget;
};

static void add_axes(struct difference *q, const struct stx_tensor *t, int sign)
{
	int64_t bytes = stx_dtype_bytes(t->dtype);
	for (int i = 0; i < t->rank; i++) {
		int64_t s = t->strides[i] * bytes, far = t->sizes[i] - 1;
		if (!s || !far)
			continue;
		int up = (s > 0) == (sign > 0);
		struct axis x = { s < 0 ? -s : s, up ? 0 : -far, up ? far : 0 };
		int k = 0;
		while (k < q->n && q->axis[k].stride > x.stride)
			k++;
		if (k < q->n && q->axis[k].stride == x.stride) {
			q->axis[k].lo += x.lo;
			q->axis[k].hi += x.hi;
			continue;
		}
		for (int m = q->n++; m > k; m--)
			q->axis[m] = q->axis[m - 1];
		q->axis[k] = x;
	}
}

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/* Whether at and steps along axes i.. add up to a difference that shares a byte. Terminates: i grows,
 * it is at most 2 * STX_MAX_RANK deep. */
static int meets(struct difference *q, int i, int64_t at)
{
	if (i == q->n)
		return at >= q->below && at <= q->above;
	if (--q->budget < 0)
		return 1;
	const struct axis *x = &q->axis[i];
	int64_t first = -floor_div(at + q->rest_hi[i + 1] - q->below, x->stride);
	int64_t last = floor_div(q->above - at - q->rest_lo[i + 1], x->stride);
	first = first > x->lo ? first : x->lo;
	last = last < x->hi ? last : x->hi;
	for (int64_t k = first; k <= last; k++)
		if (meets(q, i + 1, at + k * x->stride))
			return 1;
	return 0;
}

static int64_t start_of(const struct stx_tensor *t)
{
	return (int64_t)(intptr_t)t->data + t->offset * stx_dtype_bytes(t->dtype);
}

/* Interleaved arguments, the even and the odd columns of a matrix, share nothing. Requires: their
 * ranges meet, and are no longer than LONGEST. */
static int share_elements(const struct stx_tensor *s, const struct stx_tensor *t)
{
	struct difference q = { .below = 1 - stx_dtype_bytes(s->dtype),
				.above = stx_dtype_bytes(t->dtype) - 1,
				.budget = BUDGET };
	add_axes(&q, s, 1);
	add_axes(&q, t, -1);
	for (int i = q.n - 1; i >= 0; i--) {
		q.rest_lo[i] = q.rest_lo[i + 1] + q.axis[i].lo * q.axis[i].stride;
		q.rest_hi[i] = q.rest_hi[i + 1] + q.axis[i].hi * q.axis[i].stride;
	}
	return meets(&q, 0, start_of(s) - start_of(t));
}

/* ---- the check ---- */

struct arguments {
	const struct stax_artifact *a;
	const struct stx__context *x;
	const struct stx_tensor *inputs, *outputs;
	uint32_t ninputs, noutputs;
};

static const struct stx_tensor *tensor_of(const struct arguments *g, uint32_t arg)
{
	return arg < g->ninputs ? &g->inputs[arg] : &g->outputs[arg - g->ninputs];
}

/* An output that is the view of the written input which the plan says: it is not copied. */
static int is_in_place(const struct arguments *g, uint32_t input, uint32_t arg)
{
	if (arg < g->ninputs)
		return 0;
	uint32_t value = g->a->output_value[arg - g->ninputs];
	const struct stx_plan_value *v = &g->a->plan.values[value];
	const struct stx__value *at = &g->x->values[value];
	const struct stx_tensor *t = tensor_of(g, arg);
	if (v->kind != STX_VALUE_ALIAS || v->index2 != input)
		return 0;
	for (int i = 0; i < t->rank; i++)
		if (t->sizes[i] > 1 && t->strides[i] != at->strides[i])
			return 0;
	return start_of(t) == start_of(&g->inputs[input]) + at->offset * stx_dtype_bytes(t->dtype);
}

static stx_err shared(const struct arguments *g, uint32_t input, uint32_t arg, struct stx_diag *d)
{
	int is_input = arg < g->ninputs;
	const char *name = g->a->input_names[input];
	const char *other =
		is_input ? g->a->input_names[arg] : g->a->output_names[arg - g->ninputs];
	return stx_fail(d, STX_E_MISMATCH, "run", name,
			"input '%s' is written by the program and shares memory with %s '%s': give "
			"one of them memory of its own",
			name, is_input ? "input" : "output", other);
}

static int by_start(const void *a, const void *b)
{
	const struct range *x = a, *y = b;
	return x->lo != y->lo ? (x->lo < y->lo ? -1 : 1) : (x->arg > y->arg) - (x->arg < y->arg);
}

static stx_err pair(const struct arguments *g, const struct range *r, const struct range *s,
		    struct stx_diag *d)
{
	if (!r->is_written && !s->is_written)
		return STX_E_OK;
	const struct range *w = r->is_written ? r : s, *o = r->is_written ? s : r;
	int long_ones = r->hi - r->lo > LONGEST || s->hi - s->lo > LONGEST;
	if (is_in_place(g, w->arg, o->arg) ||
	    (!long_ones && !share_elements(tensor_of(g, w->arg), tensor_of(g, o->arg))))
		return STX_E_OK;
	return shared(g, w->arg, o->arg, d);
}

/* Compares where ranges meet. *lasting: what was found holds as long as ranges and the context's
 * binding do, for the strides of outputs are the caller's at each run. */
static stx_err sweep(const struct arguments *g, struct range *at, uint32_t n, int *lasting,
		     struct stx_diag *d)
{
	uintptr_t furthest = 0, written = 0; /* ends, of all and of the written ones before i */
	qsort(at, n, sizeof *at, by_start);
	*lasting = 1;
	for (uint32_t i = 0; i < n; i++) {
		const struct range *r = &at[i];
		uintptr_t over = r->is_written ? furthest : written;
		for (uint32_t k = i; over > r->lo && r->hi > r->lo && k-- > 0;) {
			if (at[k].hi <= r->lo)
				continue;
			*lasting = *lasting && r->arg < g->ninputs && at[k].arg < g->ninputs;
			stx_err e = pair(g, &at[k], r, d);
			if (e)
				return e;
		}
		furthest = r->hi > furthest ? r->hi : furthest;
		written = r->is_written && r->hi > written ? r->hi : written;
	}
	return STX_E_OK;
}

stx_err stx__overlaps_check(const struct stax_artifact *a, struct stx__context *x,
			    const struct stx_tensor *inputs, const struct stx_tensor *outputs,
			    struct stx_diag *d)
{
	struct arguments g = { a, x, inputs, outputs, a->plan.h->ninputs, a->plan.h->noutputs };
	struct stx__overlaps *o = x->overlaps;
	uint32_t n = g.ninputs + g.noutputs;
	int same = x->no_overlap;
	for (uint32_t i = 0; i < n; i++) {
		const struct stx_tensor *t = tensor_of(&g, i);
		struct stx__bytes b = t->data ? stx__bytes_of(t) : (struct stx__bytes){ 0, 0 };
		struct range r = { b.lo, b.hi, i, 0 };
		r.is_written = i < g.ninputs &&
			       (a->plan.values[a->input_value[i]].flags & STX_TENSOR_MUTATED) != 0;
		same = same && r.lo == o->last[i].lo && r.hi == o->last[i].hi;
		o->last[i] = o->sorted[i] = r;
	}
	if (same)
		return STX_E_OK;
	x->no_overlap = 0;
	stx_err e = sweep(&g, o->sorted, n, &same, d);
	x->no_overlap = !e && same;
	return e;
}
