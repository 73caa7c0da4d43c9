/* prepare.c: parameters packed once, before runs (stax_abi.h: struct stx_plan_prepared).
 *
 * The packed operands of all steps lie in one piece of memory. Two steps with the same kernel and the
 * same parameters have one each. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client.h"

#define ALIGN     ((size_t)64)
#define HUGE_PAGE ((size_t)1 << 21)

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) & ~(to - 1);
}

/* Bytes of all packed operands; 0 and *ok 0 when they are no number. */
static size_t count_bytes(const struct stax_artifact *a, const struct stx__context *x, int *ok)
{
	size_t bytes = 0;
	for (uint32_t i = 0; i < x->nsteps; i++) {
		uint32_t n;
		const struct stx_plan_prepared *q =
			stx_plan_prepared_of(&a->plan, x->steps[i].kernel, &n);
		for (uint32_t j = 0; j < n; j++)
			if (__builtin_add_overflow(bytes, round_up((size_t)q[j].bytes, ALIGN),
						   &bytes) ||
			    bytes > SIZE_MAX / 2) {
				*ok = 0;
				return 0;
			}
	}
	return bytes;
}

/* The environment's, else the library's own, of huge pages where there are any. */
static void *allocate(struct stax_prepared *p, const struct stx_env *env, size_t bytes)
{
	p->bytes = bytes;
	if (env && env->allocate) {
		p->env = *env;
		return env->allocate(env->ctx, bytes, ALIGN);
	}
	size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : ALIGN;
	void *at = aligned_alloc(align, round_up(bytes, align));
	if (at && align == HUGE_PAGE)
		madvise(at, bytes, MADV_HUGEPAGE); /* best effort */
	return at;
}

static stx_err get_memory(const struct stax_artifact *a, const struct stx__context *x,
			  struct stax_prepared *p, const struct stx_env *env, struct stx_diag *d)
{
	int ok = 1;
	size_t bytes = count_bytes(a, x, &ok);
	if (ok && !bytes)
		return STX_E_OK;
	p->memory = ok ? allocate(p, env, bytes) : NULL;
	if (!p->memory)
		return stx_fail(d, STX_E_NOMEM, "prepare", "",
				"no memory for the %zu bytes of packed parameters", bytes);
	char *at = p->memory;
	uint32_t number = 0, n;
	for (uint32_t i = 0; i < x->nsteps; i++) {
		const struct stx_plan_prepared *q =
			stx_plan_prepared_of(&a->plan, x->steps[i].kernel, &n);
		for (uint32_t j = 0; j < n; j++) {
			p->packed[number++] = at;
			at += round_up((size_t)q[j].bytes, ALIGN);
		}
	}
	return STX_E_OK;
}

static stx_err pack(const struct stax_artifact *a, struct stx__context *x, struct stax_prepared *p,
		    const struct stx_env *env, struct stx_diag *d)
{
	stx_err e = STX_E_OK;
	uint32_t number = 0, n;
	for (uint32_t i = 0; i < x->nmoving; i++)
		x->buffers[x->moving[i].slot] = x->values[x->moving[i].value].ptr;
	for (uint32_t i = 0; i < x->nsteps; i++) {
		struct stx__step s = x->steps[i];
		const struct stx_plan_prepared *q = stx_plan_prepared_of(&a->plan, s.kernel, &n);
		s.frame.packed = p->packed + number;
		s.grain = 1;
		s.scratch_bytes = 0;
		for (uint32_t j = 0; j < n && !e; j++) {
			s.fn = a->prepare_fns[q - a->plan.prepared + j];
			s.n = q[j].points;
			e = stx__launch(&s, env, d);
		}
		number += n;
	}
	return e;
}

int stax_prepare(struct stax_artifact *a, const struct stx_tensor *inputs, int ninputs,
		 const struct stx_env *env, struct stax_prepared **out, struct stax_error *err)
{
	struct stx_diag d;
	const uint32_t nin = a->plan.h->ninputs;
	struct stx__context *x = NULL;
	stx__diag_init(&d);
	*out = NULL;
	struct stax_prepared *p = calloc(1, sizeof *p);
	if (p) {
		p->artifact = a;
		p->packed = calloc(a->npacked + (size_t)1, sizeof *p->packed);
		p->origin = calloc(nin + (size_t)1, sizeof *p->origin);
	}
	stx_err e = STX_E_OK;
	if (!p || !p->packed || !p->origin || !(x = stx__context_take(a)))
		e = stx_fail(&d, STX_E_NOMEM, "prepare", "", "out of memory");
	if (!e && a->npacked && !(e = stx__bind_params(a, x, inputs, ninputs, &d)) &&
	    !(e = get_memory(a, x, p, env, &d))) {
		for (uint32_t i = 0; i < nin; i++)
			p->origin[i] = x->values[a->input_value[i]].ptr; /* NULL: no parameter */
		e = pack(a, x, p, env, &d);
	}
	if (x)
		stx__context_put(a, x);
	if (!e)
		*out = p;
	else
		stax_prepared_free(p);
	return stx__give_error(e, &d, err);
}

size_t stax_prepared_bytes(const struct stax_prepared *p)
{
	return p->bytes;
}

void stax_prepared_free(struct stax_prepared *p)
{
	if (!p)
		return;
	if (p->memory && !p->env.allocate)
		free(p->memory);
	else if (p->memory && p->env.release)
		p->env.release(p->env.ctx, p->memory, p->bytes);
	free(p->origin);
	free(p->packed);
	free(p);
}
