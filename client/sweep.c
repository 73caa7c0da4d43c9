/* sweep.c: what the candidates are compared with: configurations spread over all that there are. */
#include <stdio.h>
#include <string.h>

#include "tuner.h"

/* Times the candidates batch[1] to batch[many - 1] of the space; t's place 0 is the heuristic's,
 * whose results every other is checked against. */
static stx_err time_batch(const struct stx__space *s, const uint32_t *batch, uint32_t many,
			  uint32_t runs, struct stx_timing *t, struct stx_diag *d)
{
	const struct stx_measure_limits l = { STX__SWEEP_BATCH, runs, 0 };
	struct stx_measure_result out;
	memset(t, 0, many * sizeof *t);
	t[0].verdict = STX_VERDICT_FAILED;
	for (uint32_t i = 1; i < many; i++)
		snprintf(t[i].config, sizeof t[i].config, "%s", s->name(s->m.ctx, batch[i]));
	stx_err e = s->take(s->m.ctx, batch, many, d);
	if (!e)
		e = stx_measure_choose(t, many, &s->m, &l, &out, d);
	s->take(s->m.ctx, NULL, many, d);
	return e;
}

/* The heuristic's, the chosen and the sweep's best again, in turns: the least of many medians is
 * luck in part. */
static stx_err compare_best(const struct stx__space *s, struct stx__tuned_kernel *k,
			    struct stx_diag *d)
{
	const char *const texts[] = { k->timings[0].config,
				      k->timings[stx_timing_best(k->timings, k->n)].config,
				      k->swept };
	uint32_t batch[4] = { 0 };
	struct stx_timing t[4];
	for (int i = 0; i < 3; i++) {
		uint32_t *at = &batch[i + 1];
		while (*at < s->n && strcmp(s->name(s->m.ctx, *at), texts[i]) != 0)
			++*at;
		if (*at == s->n)
			return STX_E_OK;
	}
	stx_err e = time_batch(s, batch, 4, 101, t, d);
	k->heuristic_ns = t[1].median_ns;
	k->chosen_ns = t[2].median_ns;
	k->swept_ns = t[3].median_ns;
	return e;
}

stx_err stx__sweep(const struct stx__tuner *t, struct stx__tuned_kernel *k,
		   const struct stx__space *s, struct stx_diag *d)
{
	uint32_t want = s->n < t->options.sweep ? s->n : t->options.sweep;
	stx_err e = STX_E_OK;
	for (uint32_t from = 0; from < want && !e; from += STX__SWEEP_BATCH) {
		uint32_t batch[STX__SWEEP_BATCH + 1] = { 0 }, many = 1;
		struct stx_timing at[STX__SWEEP_BATCH + 1];
		for (uint32_t i = from; i < want && many <= STX__SWEEP_BATCH; i++)
			batch[many++] = (uint32_t)((uint64_t)i * s->n / want);
		e = time_batch(s, batch, many, t->options.runs, at, d);
		for (uint32_t i = 1; i < many; i++) {
			if (at[i].verdict != STX_VERDICT_MEASURED ||
			    (k->swept_ns && at[i].median_ns >= k->swept_ns))
				continue;
			k->swept_ns = at[i].median_ns;
			snprintf(k->swept, sizeof k->swept, "%s", at[i].config);
		}
	}
	if (!e && k->swept_ns)
		e = compare_best(s, k, d);
	stx__tuner_say(t, k->name, "sweep of %u of %u configurations: best %.3f us, %s", want, s->n,
		       (double)k->swept_ns * 1e-3, k->swept);
	return e;
}
