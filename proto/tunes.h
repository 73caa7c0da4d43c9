/* tunes.h
 * tune records as messages: read, merged, written; and what a message of timings may hold. Shared
 * by the daemon and libstax. */
#ifndef STX_TUNES_H
#define STX_TUNES_H

#include "stax.pb-c.h"
#include "status.h"
#include "timing.h"

/* PROTOCOL: a message that no client of ours sends. */
stx_err stx_tunes_check(const Stx__Tune *t, struct stx_diag *d);

/* What the record (NULL: none) knows of each of n configurations: out[i] has configs[i]'s name, and
 * verdict NONE where the record has no timing of it, or a malformed one. */
void stx_tunes_read(const Stx__TuneRecord *r, const char *const *configs, uint32_t n,
		    struct stx_timing *out);

/* A message of timings: those of verdict other than NONE. Borrows t's texts. One block, freed with
 * free(). NULL: out of memory. */
Stx__TuneRecord *stx_tunes_record(const struct stx_timing *t, uint32_t n);

/* into := from's timings, and into's of configurations that from does not have; the STX_TIMINGS_MAX
 * latest stay. Borrows from both. *block is freed with free() after the last use of into. */
stx_err stx_tunes_merge(Stx__TuneRecord *into, const Stx__TuneRecord *from, void **block);

/* ---- products (CPU): a measured blocking is another artifact ---- */

/* PROTOCOL: blockings that no client of ours sends. */
stx_err stx_tunes_check_blockings(Stx__Blocking *const *at, size_t n, struct stx_diag *d);
/* As they are given to the compiler; borrows. *out is freed with free(). */
stx_err stx_tunes_choices(Stx__Blocking *const *at, size_t n, struct stx_choice **out);

#define STX_BLOCKING_BYTES                                                                         \
	(sizeof(Stx__Blocking *) + sizeof(Stx__Blocking) + STX_DIGEST_BYTES + STX_CONFIG_BYTES)
struct stx_blocking_list {  /* STX_BLOCKING_BYTES each */
	Stx__Blocking **at; /* one block, freed with free() */
	size_t n;
};
/* A line of the report, and why, of an answer whose records' blockings failed: they are a hint. */
#define STX_TUNES_NOT_CUT                                                                          \
	"products cut as was measured on this device do not compile, so the model's blockings "    \
	"are taken: %s"
/* How records have the answer's products cut, where that is not how the answer has them. find: what
 * is known of a product, to be freed as unpacked; or NULL. STX_CHOICES_MAX at most. NOMEM. */
stx_err stx_tunes_blockings(const Stx__Answer *a,
			    Stx__TuneRecord *(*find)(void *ctx, const struct stx_digest *product),
			    void *ctx, struct stx_blocking_list *out);
/* The kernel's best measured configuration, in *best, of which r tells. 0: none. */
int stx_tunes_best(const Stx__TuneRecord *r, const Stx__Kernel *k, struct stx_timing *best);

#endif
