/* timing.h
 * timings of a kernel's launch configurations, and the choice among them: algorithm 9.1 of seed
 * 003. Whoever has the device and the arguments compiles and measures, through callbacks; whoever
 * keeps timings asks for the choice alone. Nothing here allocates. */
#ifndef STX_TIMING_H
#define STX_TIMING_H

#include <stdint.h>

#include "hash.h"
#include "status.h"

#define STX_CONFIG_BYTES 96 /* name of a configuration, the NUL included */
#define STX_TIMINGS_MAX  64 /* of one kernel */

enum stx_verdict {
	STX_VERDICT_NONE,     /* nothing is known */
	STX_VERDICT_MEASURED, /* the only ones with a time */
	STX_VERDICT_SPILLS,   /* costs infinitely much, as the next two; chosen when all spill */
	STX_VERDICT_REJECTED, /* its results differ from the heuristic's */
	STX_VERDICT_FAILED,   /* it does not compile or launch */
	STX_VERDICT_COUNT
};
const char *stx_verdict_name(enum stx_verdict v);

struct stx_timing {
	char config[STX_CONFIG_BYTES];
	enum stx_verdict verdict;
	uint64_t median_ns, spread_ns; /* of a launch; spread: between the quartiles */
	uint32_t runs;                 /* launches that were timed */
	uint32_t registers, spills;    /* spills: bytes */
	char note[160];                /* why rejected or failed */
};

/* The fastest of those measured; of equal ones the first, which is nearer to the heuristic choice.
 * None measured: the one that spills least, and if none spills the heuristic choice, 0. */
uint32_t stx_timing_best(const struct stx_timing *t, uint32_t n);
/* 1: of every candidate something is known: the record covers the set. */
int stx_timing_is_complete(const struct stx_timing *t, uint32_t n);

/* Configurations that somebody has chosen, by what their timings are known by. */
struct stx_choice {
	struct stx_digest of;
	const char *config;
};
struct stx_choices {
	const struct stx_choice *at; /* ascending in `of`, all different */
	uint32_t n;
};
#define STX_CHOICES_MAX 512
/* NULL: none for that. */
const char *stx_choice_find(const struct stx_choices *c, const struct stx_digest *of);

struct stx_measure {
	void *ctx;
	/* Compiles candidate c and makes it ready to be launched; fills t's registers and spills.
	 * An error that stx_timing_is_verdict names is c's own, any other ends the measurement. */
	stx_err (*build)(void *ctx, uint32_t c, struct stx_timing *t, struct stx_diag *d);
	/* Launches it once and compares: MISMATCH when its results differ from candidate 0's beyond
	 * the tolerance. Not called for candidate 0. */
	stx_err (*check)(void *ctx, uint32_t c, struct stx_diag *d);
	/* One timed launch. */
	stx_err (*sample)(void *ctx, uint32_t c, uint64_t *ns, struct stx_diag *d);
	/* For people, a line without its end; may be NULL. */
	void (*report)(void *ctx, const char *line);
};
struct stx_measure_limits {
	uint32_t candidates; /* measured at most; 0: 8 */
	uint32_t runs;       /* timed launches of each at most; 0: 31, never more than 127 */
	uint64_t budget_ns;  /* of launches; 0: 300 ms; each has 5 runs in any case */
};
struct stx_measure_result {
	uint32_t chosen;   /* candidate */
	uint32_t measured; /* candidates that were timed now */
	uint32_t built;    /* candidates that were compiled now */
};

/* Algorithm 9.1. t: [n] the candidates, the heuristic choice first, with what is known of each; on
 * return with what was found out. A covered set and a set of one are decided without a call.
 * Candidates take turns, so that a clock that drifts drifts for all; one that takes more than eight
 * times the least has five runs only. */
stx_err stx_measure_choose(struct stx_timing *t, uint32_t n, const struct stx_measure *m,
			   const struct stx_measure_limits *limits, struct stx_measure_result *out,
			   struct stx_diag *d);
/* 1: error e of building or launching a candidate says that the candidate is no good. */
int stx_timing_is_verdict(stx_err e);

#endif
