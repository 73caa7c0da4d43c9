/* tunes.c: tune records as messages. */
#include "tunes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"

#define DEVICE_NAME_MAX 255u
#define JOB_NAME_MAX    255u

static int is_sound(const Stx__Timing *t)
{
	return t->config[0] && strlen(t->config) < STX_CONFIG_BYTES &&
	       t->verdict < STX_VERDICT_COUNT && t->verdict != STX_VERDICT_NONE &&
	       (t->verdict != STX_VERDICT_MEASURED || t->median_ns) &&
	       strlen(t->note) < sizeof((struct stx_timing *)0)->note;
}

stx_err stx_tunes_check(const Stx__Tune *t, struct stx_diag *d)
{
	const char *what = NULL;
	if (!t->device || !t->device->name[0] || strlen(t->device->name) > DEVICE_NAME_MAX)
		what = "timings need the device they are of";
	if (strlen(t->job) > JOB_NAME_MAX)
		what = "a job's name has at most 255 bytes";
	for (size_t i = 0; i < t->n_records && !what; i++) {
		const Stx__TuneRecord *r = t->records[i];
		if (r->kernel.len != STX_DIGEST_BYTES)
			what = "a tune record needs the digest of its kernel";
		if (r->n_timings > STX_TIMINGS_MAX)
			what = "too many timings of one kernel";
		for (size_t j = 0; j < r->n_timings && !what; j++)
			if (!is_sound(r->timings[j]))
				what = "a malformed timing";
	}
	return what ? stx_fail(d, STX_E_PROTOCOL, "tune", "", "%s", what) : STX_E_OK;
}

static const Stx__Timing *find_timing(const Stx__TuneRecord *r, const char *config)
{
	for (size_t i = 0; r && i < r->n_timings; i++)
		if (!strcmp(r->timings[i]->config, config))
			return r->timings[i];
	return NULL;
}

void stx_tunes_read(const Stx__TuneRecord *r, const char *const *configs, uint32_t n,
		    struct stx_timing *out)
{
	for (uint32_t i = 0; i < n; i++) {
		const Stx__Timing *t = find_timing(r, configs[i]);
		memset(&out[i], 0, sizeof out[i]);
		snprintf(out[i].config, sizeof out[i].config, "%s", configs[i]);
		if (!t || !is_sound(t))
			continue;
		out[i].verdict = (enum stx_verdict)t->verdict;
		out[i].median_ns = t->median_ns;
		out[i].spread_ns = t->spread_ns;
		out[i].runs = t->runs;
		out[i].registers = t->registers;
		out[i].spills = t->spills;
		snprintf(out[i].note, sizeof out[i].note, "%s", t->note);
	}
}

Stx__TuneRecord *stx_tunes_record(const struct stx_timing *t, uint32_t n)
{
	/* The record, the list, the timings: all are aligned to pointers. */
	Stx__TuneRecord *r =
		calloc(1, sizeof *r + (n + 1u) * (sizeof(Stx__Timing *) + sizeof(Stx__Timing)));
	if (!r)
		return NULL;
	Stx__Timing **list = (Stx__Timing **)(void *)(r + 1);
	Stx__Timing *at = (Stx__Timing *)(void *)(list + n + 1);
	stx__tune_record__init(r);
	r->timings = list;
	for (uint32_t i = 0; i < n; i++) {
		if (t[i].verdict == STX_VERDICT_NONE)
			continue;
		stx__timing__init(at);
		at->config = (char *)(uintptr_t)t[i].config;
		at->verdict = t[i].verdict;
		at->median_ns = t[i].median_ns;
		at->spread_ns = t[i].spread_ns;
		at->runs = t[i].runs;
		at->registers = t[i].registers;
		at->spills = t[i].spills;
		at->note = (char *)(uintptr_t)t[i].note;
		list[r->n_timings++] = at++;
	}
	return r;
}

stx_err stx_tunes_merge(Stx__TuneRecord *into, const Stx__TuneRecord *from, void **block)
{
	Stx__Timing **all = calloc(into->n_timings + from->n_timings + 1, sizeof *all);
	size_t n = 0;
	*block = all;
	if (!all)
		return STX_E_NOMEM;
	for (size_t i = 0; i < into->n_timings; i++)
		if (!find_timing(from, into->timings[i]->config))
			all[n++] = into->timings[i];
	for (size_t i = 0; i < from->n_timings; i++)
		all[n++] = from->timings[i];
	size_t drop = n > STX_TIMINGS_MAX ? n - STX_TIMINGS_MAX : 0;
	into->timings = all + drop;
	into->n_timings = n - drop;
	return STX_E_OK;
}

/* ---- products ---- */

stx_err stx_tunes_check_blockings(Stx__Blocking *const *at, size_t n, struct stx_diag *d)
{
	const char *what = n > STX_CHOICES_MAX ? "too many blockings" : NULL;
	for (size_t i = 0; i < n && !what; i++) {
		if (at[i]->product.len != STX_DIGEST_BYTES)
			what = "a blocking needs the digest of its product";
		else if (i && memcmp(at[i - 1]->product.data, at[i]->product.data,
				     STX_DIGEST_BYTES) >= 0)
			what = "blockings are not in ascending order of their products, or two are "
			       "of one";
		else if (!at[i]->config[0] || strlen(at[i]->config) >= STX_CONFIG_BYTES)
			what = "a malformed blocking";
	}
	return what ? stx_fail(d, STX_E_PROTOCOL, "request", "", "%s", what) : STX_E_OK;
}

stx_err stx_tunes_choices(Stx__Blocking *const *at, size_t n, struct stx_choice **out)
{
	*out = calloc(n + 1, sizeof **out);
	if (!*out)
		return STX_E_NOMEM;
	for (size_t i = 0; i < n; i++) {
		memcpy((*out)[i].of.b, at[i]->product.data, STX_DIGEST_BYTES);
		(*out)[i].config = at[i]->config;
	}
	return STX_E_OK;
}

int stx_tunes_best(const Stx__TuneRecord *r, const Stx__Kernel *k, struct stx_timing *best)
{
	const char *configs[STX_TIMINGS_MAX] = { "" };
	struct stx_timing t[STX_TIMINGS_MAX];
	uint32_t n = 0;
	for (; n < k->n_candidates && n < STX_TIMINGS_MAX; n++)
		configs[n] = k->candidates[n]->text;
	if (!n)
		return 0;
	stx_tunes_read(r, configs, n, t);
	*best = t[stx_timing_best(t, n)];
	return best->verdict != STX_VERDICT_NONE;
}

struct product {
	struct stx_digest digest;
	const Stx__Kernel *kernel;
};

static int by_digest(const void *p, const void *q)
{
	const struct product *a = p, *b = q;
	return memcmp(a->digest.b, b->digest.b, sizeof a->digest.b);
}

/* The list, the blockings, their digests and texts: one block. */
static stx_err new_list(size_t n, struct stx_blocking_list *out)
{
	out->n = 0;
	out->at = calloc(n + 1, STX_BLOCKING_BYTES);
	if (!out->at)
		return STX_E_NOMEM;
	Stx__Blocking *b = (Stx__Blocking *)(void *)(out->at + n + 1);
	uint8_t *digests = (uint8_t *)(b + n + 1);
	char *texts = (char *)(digests + n * STX_DIGEST_BYTES);
	for (size_t i = 0; i < n; i++) {
		stx__blocking__init(&b[i]);
		b[i].product.len = STX_DIGEST_BYTES;
		b[i].product.data = digests + i * STX_DIGEST_BYTES;
		b[i].config = texts + i * STX_CONFIG_BYTES;
		out->at[i] = &b[i];
	}
	return STX_E_OK;
}

stx_err stx_tunes_blockings(const Stx__Answer *a,
			    Stx__TuneRecord *(*find)(void *ctx, const struct stx_digest *product),
			    void *ctx, struct stx_blocking_list *out)
{
	struct product *all = calloc(a->n_kernels + 1, sizeof *all);
	size_t n = 0;
	memset(out, 0, sizeof *out);
	for (size_t i = 0; all && i < a->n_kernels; i++) {
		const Stx__Kernel *k = a->kernels[i];
		if (!k->product[0] || k->n_candidates < 2)
			continue;
		all[n].digest = stx_digest_of(k->product, strlen(k->product));
		all[n++].kernel = k;
	}
	if (!all || new_list(n < STX_CHOICES_MAX ? n : STX_CHOICES_MAX, out)) {
		free(all);
		return STX_E_NOMEM;
	}
	qsort(all, n, sizeof *all, by_digest);
	for (size_t i = 0; i < n && out->n < STX_CHOICES_MAX; i++) {
		struct stx_timing best;
		if (i && stx_digest_eq(&all[i].digest, &all[i - 1].digest))
			continue;
		Stx__TuneRecord *r = find(ctx, &all[i].digest);
		if (stx_tunes_best(r, all[i].kernel, &best) &&
		    strcmp(best.config, all[i].kernel->config) != 0) {
			Stx__Blocking *b = out->at[out->n++];
			memcpy(b->product.data, all[i].digest.b, STX_DIGEST_BYTES);
			memcpy(b->config, best.config, STX_CONFIG_BYTES);
		}
		if (r)
			stx__tune_record__free_unpacked(r, NULL);
	}
	free(all);
	return STX_E_OK;
}
