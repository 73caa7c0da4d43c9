/* timing.c: algorithm 9.1: each candidate is compiled; one that spills costs infinitely much; the
 * others are checked, warmed up, launched repeatedly and summarised by the median; the least is
 * chosen (seed 003 9.6, conformance LC-03 to LC-07). */
#include "timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CANDIDATES 8u
#define MOST_RUNS       127u
#define WARM_UPS        3u
#define LEAST_RUNS      5u
#define HOPELESS        8u /* times the least: what takes so long has the least runs */

const char *stx_verdict_name(enum stx_verdict v)
{
	static const char *const names[] = { "unknown", "measured", "spills", "rejected",
					     "failed" };
	return v < STX_VERDICT_COUNT ? names[v] : "?";
}

uint32_t stx_timing_best(const struct stx_timing *t, uint32_t n)
{
	uint32_t best = n, spilling = n;
	for (uint32_t i = 0; i < n; i++) {
		if (t[i].verdict == STX_VERDICT_MEASURED &&
		    (best == n || t[i].median_ns < t[best].median_ns))
			best = i;
		if (t[i].verdict == STX_VERDICT_SPILLS &&
		    (spilling == n || t[i].spills < t[spilling].spills))
			spilling = i;
	}
	return best < n ? best : spilling < n ? spilling : 0;
}

int stx_timing_is_complete(const struct stx_timing *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (t[i].verdict == STX_VERDICT_NONE)
			return 0;
	return 1;
}

int stx_timing_is_verdict(stx_err e)
{
	return e == STX_E_INVALID || e == STX_E_COMPILE || e == STX_E_INTERNAL ||
	       e == STX_E_TOO_LARGE || e == STX_E_MISMATCH || e == STX_E_CORRUPT ||
	       e == STX_E_QUARANTINED || e == STX_E_CRASHED;
}

const char *stx_choice_find(const struct stx_choices *c, const struct stx_digest *of)
{
	uint32_t lo = 0, hi = c->n;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		int sign = memcmp(c->at[mid].of.b, of->b, sizeof of->b);
		if (!sign)
			return c->at[mid].config;
		if (sign < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

struct measuring {
	const struct stx_measure *m;
	struct stx_timing *t;
	struct stx_diag *d;
	uint32_t at[MOST_CANDIDATES], n; /* candidates being timed */
	uint64_t ns[MOST_CANDIDATES][MOST_RUNS];
};

static void report(const struct measuring *w, uint32_t c)
{
	const struct stx_timing *t = &w->t[c];
	char line[400];
	if (!w->m->report)
		return;
	if (t->verdict == STX_VERDICT_MEASURED)
		snprintf(line, sizeof line,
			 t->registers ? "%s: %.3f us, spread %.3f us, %u runs, %u registers"
				      : "%s: %.3f us, spread %.3f us, %u runs",
			 t->config, (double)t->median_ns * 1e-3, (double)t->spread_ns * 1e-3,
			 t->runs, t->registers);
	else if (t->verdict == STX_VERDICT_SPILLS)
		snprintf(line, sizeof line, "%s: not measured, spills %u bytes", t->config,
			 t->spills);
	else
		snprintf(line, sizeof line, "%s: %s: %s", t->config, stx_verdict_name(t->verdict),
			 t->note);
	w->m->report(w->m->ctx, line);
}

/* e is the candidate's own fault: its verdict. Else e. */
static stx_err judge(struct measuring *w, uint32_t c, stx_err e, const struct stx_diag *why)
{
	struct stx_timing *t = &w->t[c];
	if (!stx_timing_is_verdict(e)) {
		if (w->d)
			*w->d = *why;
		return e;
	}
	t->verdict = e == STX_E_MISMATCH ? STX_VERDICT_REJECTED : STX_VERDICT_FAILED;
	snprintf(t->note, sizeof t->note, "%.*s", (int)sizeof t->note - 1,
		 why->text[0] ? why->text : stx_err_text(e));
	report(w, c);
	return STX_E_OK;
}

/* Compiles and checks candidate c; it joins those to be timed unless it costs infinitely much. */
static stx_err prepare(struct measuring *w, uint32_t c)
{
	struct stx_diag why = { 0 };
	stx_err e = w->m->build(w->m->ctx, c, &w->t[c], &why);
	if (e)
		return judge(w, c, e, &why);
	if (w->t[c].spills) {
		w->t[c].verdict = STX_VERDICT_SPILLS;
		report(w, c);
		return STX_E_OK;
	}
	if (c && (e = w->m->check(w->m->ctx, c, &why)))
		return judge(w, c, e, &why);
	w->at[w->n++] = c;
	return STX_E_OK;
}

/* One launch of each in turn, its time at ns[..][run]. Who fails is out. */
static stx_err round_of(struct measuring *w, uint32_t run, uint64_t *total_ns)
{
	*total_ns = 0;
	for (uint32_t i = 0; i < w->n; i++) {
		struct stx_diag why = { 0 };
		stx_err e = w->m->sample(w->m->ctx, w->at[i], &w->ns[i][run], &why);
		if (e && (e = judge(w, w->at[i], e, &why)))
			return e;
		if (w->t[w->at[i]].verdict != STX_VERDICT_NONE) {
			w->n--;
			for (uint32_t j = i; j < w->n; j++) {
				w->at[j] = w->at[j + 1];
				memcpy(w->ns[j], w->ns[j + 1], sizeof w->ns[j]);
			}
			i--;
			continue;
		}
		*total_ns += w->ns[i][run];
	}
	return STX_E_OK;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static void summarise(struct measuring *w, uint32_t runs)
{
	for (uint32_t i = 0; i < w->n; i++) {
		struct stx_timing *t = &w->t[w->at[i]];
		uint64_t *ns = w->ns[i];
		qsort(ns, runs, sizeof *ns, by_value);
		t->verdict = STX_VERDICT_MEASURED;
		t->median_ns = ns[runs / 2];
		t->spread_ns = ns[runs * 3 / 4] - ns[runs / 4];
		t->runs = runs;
		report(w, w->at[i]);
	}
}

/* Moves those of `from` whose last launch took much longer than the least to `slow`, so that the
 * others have the budget. */
static void set_apart(struct measuring *from, struct measuring *slow)
{
	uint64_t least = UINT64_MAX;
	uint32_t kept = 0;
	slow->n = 0;
	for (uint32_t i = 0; i < from->n; i++)
		least = from->ns[i][0] < least ? from->ns[i][0] : least;
	for (uint32_t i = 0; i < from->n; i++)
		if (from->ns[i][0] / HOPELESS > least) {
			slow->at[slow->n++] = from->at[i];
		} else {
			from->ns[kept][0] = from->ns[i][0];
			from->at[kept++] = from->at[i];
		}
	from->n = kept;
}

static stx_err time_group(struct measuring *w, uint32_t runs)
{
	uint64_t round;
	stx_err e = STX_E_OK;
	for (uint32_t i = 0; i < runs && !e; i++)
		e = round_of(w, i, &round);
	if (!e)
		summarise(w, runs);
	return e;
}

static stx_err time_all(struct measuring *w, const struct stx_measure_limits *limits)
{
	struct measuring slow = { .m = w->m, .t = w->t, .d = w->d };
	uint64_t budget = limits && limits->budget_ns ? limits->budget_ns : 300000000u, round = 0;
	uint32_t runs = limits && limits->runs ? limits->runs : 31;
	stx_err e = STX_E_OK;
	for (uint32_t i = 0; i < WARM_UPS && !e && w->n; i++)
		e = round_of(w, 0, &round);
	if (e || !w->n)
		return e;
	round = 0;
	set_apart(w, &slow);
	for (uint32_t i = 0; i < w->n; i++)
		round += w->ns[i][0];
	runs = runs > MOST_RUNS ? MOST_RUNS : runs;
	if (round && budget / round < runs)
		runs = (uint32_t)(budget / round);
	runs = runs < LEAST_RUNS ? LEAST_RUNS : runs;
	e = time_group(w, runs);
	return e ? e : time_group(&slow, LEAST_RUNS);
}

stx_err stx_measure_choose(struct stx_timing *t, uint32_t n, const struct stx_measure *m,
			   const struct stx_measure_limits *limits, struct stx_measure_result *out,
			   struct stx_diag *d)
{
	struct measuring w = { .m = m, .t = t, .d = d };
	uint32_t most = limits && limits->candidates ? limits->candidates : MOST_CANDIDATES;
	stx_err e = STX_E_OK;
	memset(out, 0, sizeof *out);
	if (n > 1 && !stx_timing_is_complete(t, n)) {
		most = most > MOST_CANDIDATES ? MOST_CANDIDATES : most;
		for (uint32_t c = 0; c < n && !e && w.n < most; c++)
			if (t[c].verdict == STX_VERDICT_NONE) {
				out->built++;
				e = prepare(&w, c);
			}
		out->measured = w.n;
		if (!e)
			e = time_all(&w, limits);
	}
	out->chosen = n ? stx_timing_best(t, n) : 0;
	return e;
}
