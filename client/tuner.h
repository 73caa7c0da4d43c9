/* tuner.h
 * timings and code of GPU kernels, and the run that measures them. Inside libstax. */
#ifndef STX_CLIENT_TUNER_H
#define STX_CLIENT_TUNER_H

#include "cuda.h"
#include "timing.h"
#include "tunes.h"

/* ---- what a server knows (tune.c) ---- */

/* Whose timings: of kernels compiled so, on that device. */
struct stx__about {
	struct stax_client *c;
	char target[STX_TARGET_BYTES], ns[65];
	int fast;
	int loads;       /* measures nothing */
	const char *job; /* "": none */
	const Stx__Device *device;
};

/* Where a tuner gets code and timings; tests put another one in. */
struct stx__source {
	/* Records by kernel digest, with timings to be merged in or none to ask. *out has as many,
	 * in order: out->e->tune_reply. Freed by the caller, on success. */
	stx_err (*records)(const struct stx__about *b, Stx__TuneRecord **said, size_t n,
			   struct stx__received *out, struct stx_diag *d);
	/* A kernel in a configuration: out->e->kernel_code_reply, and its object in out->body;
	 * config "": no code, but every configuration it can have. */
	stx_err (*code)(const struct stx__about *b, const uint8_t kernel[STX_DIGEST_BYTES],
			const char *config, struct stx__received *out, struct stx_diag *d);
};
extern const struct stx__source stx__server_source;

/* The choices of an answer, fetched and taken over. What cannot be fetched is launched as the
 * heuristic chose. */
void stx__tune_take(struct stax_client *c, struct stax_artifact *a, const struct stax_answer *q);

/* ---- the run that measures (cuda_tune.c) ---- */

/* One kernel of the plan with several candidates, or one external call that can be made in several
 * ways; calls are found as the run comes to them. */
struct stx__tuned_kernel {
	const char *name;                      /* of the kernel, or of the call */
	struct stx_digest digest;              /* what its timings are known by */
	uint32_t kernel, n;                    /* kernel: of a call its kernel, or STX_PLAN_NONE */
	const struct stx_plan_config *configs; /* [n]; NULL: a call */
	const struct stx__ways *ways;          /* of a call, in the run that found it */
	struct stx_timing *timings;            /* [n] */
	uint32_t chosen, measured;
	int decided;
	uint64_t swept_ns, heuristic_ns, chosen_ns; /* of a sweep: timed together */
	char swept[STX_CONFIG_BYTES];
};
struct stx__tuner {
	struct stax_artifact *a;
	struct stx__about about;
	const struct stx__source *source;
	struct stax_tuning options;
	struct stx_arena *arena;
	struct stx__tuned_kernel *kernels; /* [n], those that share a digest but once */
	uint32_t n;
	uint32_t *of; /* [nkernels of the plan] -> number in kernels, STX__NOT_TUNED */
	const struct stx_env *env;
	int broken; /* measuring has ended early */
};
#define STX__NOT_TUNED  UINT32_MAX
#define STX__TUNE_BATCH 16u /* records a message */
void stx__tuner_say(const struct stx__tuner *t, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* cuda_trial.c: measures k of the tuner at step `step`, a launch or a call, on scratch copies of
 * what it writes: fills its timings. */
stx_err stx__trial(struct stx__tuner *t, struct stx__tuned_kernel *k, struct stx__context *x,
		   uint32_t step, struct stx_diag *d);
/* The bytes a value reaches from its first element; they may begin before it. */
void stx__value_extent(const struct stx__value *v, int rank, int elem_bytes, int64_t *lo,
		       int64_t *hi);
/* How results came apart: our sums in another order; an external call's; those of one that rounds
 * what it sums. */
enum stx__apart { STX__APART_ORDER, STX__APART_CALL, STX__APART_ROUNDED };
/* First element of dtype t, of n bytes at each, that differs beyond the tolerance for that; -1: none.
 */
int64_t stx__trial_differs(enum stx_dtype t, enum stx__apart by, const void *want, const void *got,
			   size_t n);

#endif
