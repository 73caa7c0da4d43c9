/* calls.c: timings of external calls that an artifact goes by: told when it is loaded and when a
 * run has measured, read by whoever makes a call, once after each change. */
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "tunes.h"

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

/* That the kernel alone is known, of a list of another library, says nothing. */
uint32_t stx__call_choose(struct stax_artifact *a, const struct stx__ways *w)
{
	const char *names[STX_TIMINGS_MAX];
	struct stx_timing t[STX_TIMINGS_MAX];
	int known = 0;
	for (uint32_t i = 0; i < w->n; i++)
		names[i] = w->at[i].name;
	pthread_mutex_lock(&a->gpu->lock);
	const struct stx__call_record *r = find(a, &w->call);
	stx_tunes_read(r ? r->said : NULL, names, w->n, t);
	pthread_mutex_unlock(&a->gpu->lock);
	for (uint32_t i = 0; i < w->n; i++)
		known |= !w->at[i].is_kernel && t[i].verdict == STX_VERDICT_MEASURED;
	return known ? stx_timing_best(t, w->n) : 0;
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
