/* jobs.c: what the jobs of a compile pass on to each other. */
#include "jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_target.h"
#include "key.h"

/* ---- stages ---- */

void stx_stages_add(struct stx_stages *t, const char *name, uint64_t us)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (!strcmp(t->at[i].name, name)) {
			t->at[i].us += us;
			return;
		}
	if (t->n == STX_STAGES_MAX)
		return;
	snprintf(t->at[t->n].name, sizeof t->at[t->n].name, "%s", name);
	t->at[t->n++].us = us;
}

void stx_stages_add_all(struct stx_stages *t, Stx__Stage **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		stx_stages_add(t, list[i]->name, list[i]->us);
}

Stx__Stage **stx_stages_list(const struct stx_stages *a, const struct stx_stages *b, size_t *n)
{
	const struct stx_stages *t[2] = { a, b };
	size_t total = (size_t)a->n + (b ? b->n : 0), k = 0;
	/* The list first, the stages behind it: both are aligned to pointers. */
	void *block = calloc(total + 1, sizeof(Stx__Stage *) + sizeof(Stx__Stage));
	Stx__Stage **list = block;
	if (!list)
		return NULL;
	Stx__Stage *stages = (Stx__Stage *)(void *)(list + total + 1);
	for (int i = 0; i < 2 && t[i]; i++)
		for (uint32_t j = 0; j < t[i]->n; j++, k++) {
			stx__stage__init(&stages[k]);
			stages[k].name = (char *)(uintptr_t)t[i]->at[j].name;
			stages[k].us = t[i]->at[j].us;
			list[k] = &stages[k];
		}
	*n = total;
	return list;
}

/* ---- bodies ---- */

void stx_jobs_fill(Stx__Job *j, Stx__JobKind kind, const Stx__Lookup *what,
		   const struct stx_span *pieces, uint32_t n, uint64_t *sizes)
{
	stx__job__init(j);
	j->kind = kind;
	j->format = what->format;
	j->target = what->target;
	j->options = what->options;
	if (kind == STX__JOB_KIND__JOB_KEY) {
		j->values = what->values;
		j->n_values = what->n_values;
	}
	if (kind == STX__JOB_KIND__JOB_PLAN) {
		j->blockings = what->blockings;
		j->n_blockings = what->n_blockings;
	}
	for (uint32_t i = 0; i < n; i++)
		sizes[i] = pieces[i].n;
	j->piece_bytes = sizes;
	j->n_piece_bytes = n;
}

stx_err stx_jobs_split(struct stx_span body, const uint64_t *sizes, size_t nsizes,
		       struct stx_span *pieces, size_t n, struct stx_diag *d)
{
	size_t at = 0;
	if (nsizes != n)
		return stx_fail(d, STX_E_PROTOCOL, "worker", "",
				"a message with %zu pieces instead of %zu", nsizes, n);
	for (size_t i = 0; i < n; i++) {
		if (sizes[i] > body.n - at)
			return stx_fail(d, STX_E_PROTOCOL, "worker", "",
					"the pieces of a message are larger than its body");
		pieces[i] = (struct stx_span){ body.at + at, (size_t)sizes[i] };
		at += pieces[i].n;
	}
	return at == body.n ? STX_E_OK
			    : stx_fail(d, STX_E_PROTOCOL, "worker", "",
				       "the pieces of a message are smaller than its body");
}

/* ---- kernels ---- */

/* Position of id in an open-addressing table of numbers counted from 1. */
static uint32_t *find(uint32_t *table, size_t cap, const struct stx_kernel_ids *k,
		      const struct stx_digest *id)
{
	size_t i = (size_t)stx_digest_short(id) & (cap - 1);
	while (table[i] && !stx_digest_eq(&k->at[table[i] - 1].id, id))
		i = (i + 1) & (cap - 1);
	return &table[i];
}

stx_err stx_jobs_kernels(const Stx__JobReply *plan, const Stx__Lookup *what,
			 const struct stx_digest *fingerprint, struct stx_kernel_ids *out,
			 struct stx_diag *d)
{
	size_t n = plan->n_kernels, cap = 16;
	stx_err e = STX_E_OK;
	memset(out, 0, sizeof *out);
	if (n >= UINT32_MAX / 4)
		return stx_fail(d, STX_E_TOO_LARGE, "plan", "", "%zu kernels", n);
	while (cap < 2 * n)
		cap *= 2;
	uint32_t *table = calloc(cap, sizeof *table), options = stx_option_bits(what->options);
	out->at = calloc(n + 1, sizeof *out->at);
	out->of = calloc(n + 1, sizeof *out->of);
	if (!table || !out->at || !out->of)
		e = stx_fail(d, STX_E_NOMEM, "plan", "", "out of memory");
	for (size_t i = 0; !e && i < n; i++) {
		struct stx_digest ir, id;
		if (plan->kernels[i]->digest.len != sizeof ir.b) {
			e = stx_fail(d, STX_E_PROTOCOL, "plan", plan->kernels[i]->name,
				     "a kernel without a digest");
			break;
		}
		memcpy(ir.b, plan->kernels[i]->digest.data, sizeof ir.b);
		const char *config =
			stx_gpu_is_target(what->target) ? plan->kernels[i]->config : NULL;
		const char *target =
			*plan->kernels[i]->target ? plan->kernels[i]->target : what->target;
		id = stx_key_kernel(&ir, config, target, options, fingerprint);
		uint32_t *slot = find(table, cap, out, &id);
		if (!*slot) {
			out->at[out->n] = (struct stx_kernel_id){ id, (uint32_t)i + 1, config };
			*slot = ++out->n;
		}
		out->of[i] = *slot - 1;
	}
	free(table);
	return e;
}

void stx_kernel_ids_free(struct stx_kernel_ids *k)
{
	free(k->at);
	free(k->of);
	memset(k, 0, sizeof *k);
}

struct stx_emitted stx_jobs_emitted(const Stx__JobReply *kernel)
{
	struct stx_emitted e = { 0 };
	const Stx__Kernel *k = kernel->n_kernels ? kernel->kernels[0] : NULL;
	if (!k)
		return e;
	for (size_t i = 0; i < k->n_block && i < 3; i++)
		e.block[i] = k->block[i];
	e.registers = k->registers;
	e.spills = k->spills;
	e.shared_bytes = k->shared_bytes;
	return e;
}

void stx_jobs_set_emitted(Stx__Kernel *k, const struct stx_emitted *e, int reused)
{
	for (size_t i = 0; e->block[0] && i < k->n_block && i < 3; i++)
		k->block[i] = e->block[i]; /* as emitted, not as planned */
	k->registers = e->registers;
	k->spills = e->spills;
	k->shared_bytes = e->shared_bytes;
	k->reused = reused;
}

/* ---- answer ---- */

void stx_jobs_answer(Stx__Answer *a, const Stx__JobReply *plan)
{
	a->kernels = plan->kernels;
	a->n_kernels = plan->n_kernels;
	a->report = plan->report;
	a->n_report = plan->n_report;
	a->bytes_read = plan->bytes_read;
	a->bytes_written = plan->bytes_written;
	a->bytes_min = plan->bytes_min;
}
