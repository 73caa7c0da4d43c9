/* schedule_eval.c: steps in order, kernels through the interpreter of kernel IR. */
#include "schedule_eval.h"

#include <stdlib.h>
#include <string.h>

#include "kernel_eval.h"

#define POISON 0xab

struct eval {
	const struct stx_schedule *s;
	int64_t *syms; /* [symbols] */
	uint32_t nsyms;
	void **data;    /* [buffers.n] */
	int64_t *elems; /* [buffers.n] */
	char *workspace;
	void **own; /* [buffers.n] copies of donated inputs that are updated */
	struct stx_diag *d;
};

static int64_t value_of(const struct stx_exprs *x, stx_ex e, const int64_t *syms, uint32_t n,
			int *ok)
{
	struct stx_ex_env env = { .syms = syms, .nsyms = n };
	return stx_ex_eval(x, e, &env, ok);
}

/* The symbols' values, hints where none are given. NULL: out of memory. */
static int64_t *copy_symbols(const struct stx_loops *l, const int64_t *syms, uint32_t *n)
{
	*n = l->g ? l->g->symbols.n : 0;
	int64_t *at = calloc(*n + 1u, sizeof *at);
	for (uint32_t i = 0; at && i < *n; i++)
		at[i] = syms ? syms[i] : l->g->symbols.at[i].hint;
	return at;
}

static int64_t elems_of(const struct stx_loops *l, const struct stx_buffer *b, const int64_t *syms,
			uint32_t nsyms)
{
	int ok = 1;
	int64_t n = value_of(l->ex, b->layout.offset, syms, nsyms, &ok) + 1;
	for (uint32_t i = 0; i < b->layout.rank; i++) {
		int64_t size = value_of(l->ex, b->layout.sizes[i], syms, nsyms, &ok);
		int64_t stride = value_of(l->ex, b->layout.strides[i], syms, nsyms, &ok), far;
		if (size == 0)
			return 0;
		if (__builtin_mul_overflow(size - 1, stride, &far) ||
		    __builtin_add_overflow(n, far, &n))
			return -1;
	}
	return ok ? n : -1;
}

int64_t stx_buffer_elems(const struct stx_loops *l, const struct stx_buffer *b, const int64_t *syms)
{
	uint32_t n;
	int64_t *at = copy_symbols(l, syms, &n), elems = at ? elems_of(l, b, at, n) : -1;
	free(at);
	return elems;
}

static stx_err out_of_memory(struct eval *e)
{
	return stx_fail(e->d, STX_E_NOMEM, "schedule", NULL, "out of memory");
}

/* Updates in place lie where their base does. The caller's inputs stay as they are: a donated one
 * is updated in the output's memory, or in a copy. */
static stx_err place_updates(struct eval *e)
{
	const struct stx_loops *l = e->s->loops;
	for (uint32_t i = l->buffers.n; i-- > 0;) {
		const struct stx_buffer *b = l->buffers.at[i];
		if (b->heir && b->kind != STX_BUF_INPUT)
			e->data[i] = e->data[b->heir->id];
	}
	for (uint32_t i = 0; i < l->buffers.n; i++) {
		const struct stx_buffer *b = l->buffers.at[i], *to = b->heir;
		size_t bytes = e->elems[i] > 0
				       ? (size_t)e->elems[i] * (size_t)stx_dtype_bytes(b->dtype)
				       : 0;
		if (!to || b->kind != STX_BUF_INPUT)
			continue;
		if (!e->data[to->id]) {
			e->own[i] = malloc(bytes + 1);
			for (; to && e->own[i]; to = to->heir)
				e->data[to->id] = e->own[i];
		}
		if (!e->data[b->heir->id])
			return out_of_memory(e);
		memcpy(e->data[b->heir->id], e->data[i], bytes);
	}
	return STX_E_OK;
}

/* Where every buffer lies. */
static stx_err place_buffers(struct eval *e, void *const *data)
{
	const struct stx_loops *l = e->s->loops;
	int ok = 1;
	int64_t bytes = value_of(l->ex, e->s->workspace, e->syms, e->nsyms, &ok);
	e->data = calloc(l->buffers.n + 1, sizeof *e->data);
	e->elems = calloc(l->buffers.n + 1, sizeof *e->elems);
	if (!ok || bytes < 0)
		return stx_fail(e->d, STX_E_TOO_LARGE, "schedule", NULL, "the workspace overflows");
	e->own = calloc(l->buffers.n + 1, sizeof *e->own);
	e->workspace = malloc((size_t)bytes + 1);
	if (!e->data || !e->elems || !e->own || !e->workspace)
		return out_of_memory(e);
	memset(e->workspace, POISON, (size_t)bytes + 1);
	for (uint32_t i = 0; i < l->buffers.n; i++) {
		const struct stx_buffer *b = l->buffers.at[i];
		e->elems[i] = elems_of(l, b, e->syms, e->nsyms);
		e->data[i] = b->kind == STX_BUF_CONST && b->data.bytes
				     ? (void *)(uintptr_t)b->data.bytes
				     : data[i];
		if (b->kind == STX_BUF_TEMP)
			e->data[i] = e->s->slots[i].size == STX_EX_BAD
					     ? NULL
					     : e->workspace + value_of(l->ex, e->s->slots[i].offset,
								       e->syms, e->nsyms, &ok);
	}
	return ok ? place_updates(e)
		  : stx_fail(e->d, STX_E_INTERNAL, "schedule", NULL, "a slot cannot be computed");
}

static stx_err bounds_error(struct eval *e, const struct stx_kernel *k, const char *assertion,
			    const struct stx_bounds_record *r)
{
	if (r->axis == STX_AXIS_ASSERTION && assertion)
		return stx_fail(e->d, STX_E_MISMATCH, "schedule", k->name, "assertion failed: %s",
				assertion);
	return stx_fail(e->d, STX_E_BOUNDS, "schedule", k->name,
			"index out of bounds: 0 <= %lld < %lld", (long long)r->index,
			(long long)r->bound);
}

static stx_err run_kernel(struct eval *e, uint32_t number)
{
	const struct stx_kernel *k = e->s->kernels.at[number];
	const struct stx_buffer *first =
		e->s->loops->buffers.at[e->s->groups.at[number].buffers.at[0]];
	uint32_t n = k->params.n, ns = k->scalars.n;
	void **at = calloc(n + 1u, sizeof *at);
	int64_t *elems = calloc(n + 1u, sizeof *elems), *scalars = calloc(ns + 1u, sizeof *scalars);
	struct stx_bounds_record bounds = { 0 };
	stx_err err = at && elems && scalars ? STX_E_OK : out_of_memory(e);
	for (uint32_t i = 0; !err && i < ns; i++)
		scalars[i] = e->syms[k->scalars.at[i]];
	for (uint32_t i = 0; !err && i < n; i++) {
		at[i] = e->data[k->params.at[i].buffer];
		elems[i] = e->elems[k->params.at[i].buffer];
		if (!at[i] && elems[i])
			err = stx_fail(e->d, STX_E_INTERNAL, "schedule", k->name,
				       "parameter %u has no memory", i);
	}
	int64_t grid = err ? 0 : stx_kernel_grid_points(k, scalars);
	if (grid < 0)
		err = stx_fail(e->d, STX_E_INTERNAL, "schedule", k->name, "no grid");
	if (!err) /* backwards: no kernel may rely on the order of its grid points */
		err = stx_kernel_evaluate(k, at, elems, scalars, &bounds, grid, 0, e->d);
	if (!err && bounds.taken)
		err = bounds_error(e, k, first->message, &bounds);
	free(at);
	free(elems);
	free(scalars);
	return err;
}

stx_err stx_schedule_evaluate(const struct stx_schedule *s, void *const *data, const int64_t *syms,
			      struct stx_diag *d)
{
	struct eval e = { .s = s, .d = d };
	e.syms = copy_symbols(s->loops, syms, &e.nsyms);
	stx_err err = e.syms ? place_buffers(&e, data) : out_of_memory(&e);
	for (uint32_t i = 0; !err && i < s->steps.n; i++) {
		uint32_t k = stx_step_kernel(s, i);
		if (k != STX_NONE)
			err = run_kernel(&e, k);
		else if (s->steps.at[i].kind == STX_SCHED_EXTERNAL && !stx_step_covers(s, i))
			err = stx_fail(d, STX_E_UNSUPPORTED, "schedule",
				       s->externals.at[s->steps.at[i].index].name,
				       "an external call cannot be evaluated");
	}
	for (uint32_t i = 0; e.own && i < s->loops->buffers.n; i++)
		free(e.own[i]);
	free(e.own);
	free(e.syms);
	free(e.data);
	free(e.elems);
	free(e.workspace);
	return err;
}
