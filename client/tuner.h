/* tuner.h
 * timings and code of GPU kernels and of products on the CPU, and the run that measures them.
 * Inside libstax. */
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
	/* Every blocking that the product can have, as code tells configurations. */
	stx_err (*space)(const struct stx__about *b, const char *product, struct stx__received *out,
			 struct stx_diag *d);
	/* The request's artifact, loaded; its blockings are given. */
	stx_err (*artifact)(const struct stx__about *b, const struct stax_request *r,
			    struct stax_artifact **out, struct stx_diag *d);
};
extern const struct stx__source stx__server_source;

/* The choices of an answer, fetched and taken over. What cannot be fetched is launched as the
 * heuristic chose. */
void stx__tune_take(struct stax_client *c, struct stax_artifact *a, const struct stax_answer *q);

/* ---- the run that measures (measuring.c) ---- */

/* One kernel of the plan with several candidates, or one external call that can be made in several
 * ways; calls are found as the run comes to them. Or a product with a number of threads. */
struct stx__tuned_kernel {
	const char *name;                      /* of the kernel, or of the call */
	struct stx_digest digest;              /* what its timings are known by */
	uint32_t kernel, n;                    /* kernel: of a call its kernel, or STX_PLAN_NONE */
	const struct stx_plan_config *configs; /* [n]; NULL: a call, or a product */
	const char *product;                   /* its text; NULL: it is none */
	uint32_t threads;                      /* that a product is measured with; else 0 */
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
	struct stx__products *products; /* products.c; NULL: a GPU's kernels */
	uint32_t nproducts; /* the kernels are so many products with one thread, then with all */
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

/* products.c, of a CPU artifact: fills t's kernels from the answer to its request; frees what it
 * keeps. */
stx_err stx__products_find(struct stx__tuner *t, const struct stax_answer *q, struct stx_diag *d);
void stx__products_free(struct stx__products *p);
/* The host as k's timings are kept. */
const Stx__Device *stx__product_device(const struct stx__tuner *t,
				       const struct stx__tuned_kernel *k);
stx_err stx__product_trial(struct stx__tuner *t, struct stx__tuned_kernel *k,
			   struct stx__context *x, uint32_t step, struct stx_diag *d);

/* regions.c: memory that some argument of a step is written in; arguments that overlap share
 * one. */
struct stx__region {
	uint64_t lo, hi; /* addresses */
	int written, read;
	uint64_t base, scratch; /* scratch: in base, aligned as lo is */
	uint64_t want;          /* the heuristic's results */
};
uint32_t stx__arg_flags(const struct stax_artifact *a, const struct stx__step *s, uint32_t arg);
/* Of one argument; empty: hi is lo. */
void stx__region_of(const struct stax_artifact *a, const struct stx__context *x,
		    const struct stx__step *s, uint32_t arg, struct stx__region *r);
/* Those that are written, in r, which has room for one of each argument; their number. */
uint32_t stx__regions_find(const struct stax_artifact *a, const struct stx__context *x,
			   const struct stx__step *s, struct stx__region *r);
/* The step's arguments with what is written in the scratch memory: [nparams]. */
void stx__regions_place(const struct stax_artifact *a, const struct stx__context *x,
			const struct stx__step *s, const struct stx__region *r, uint32_t n,
			void **buffers);

/* sweep.c: options.sweep of a space of configurations, in batches; k's swept and compared times. */
#define STX__SWEEP_BATCH 8u
struct stx__space {
	struct stx_measure m; /* of places in the batch; place 0 is the heuristic's, as in k */
	uint32_t n;
	const char *(*name)(const void *ctx, uint32_t i);
	/* Places 1 to many - 1 are those numbers of the space from now on; batch NULL: no more, and
	 * what they hold is dropped, after an error too. */
	stx_err (*take)(void *ctx, const uint32_t *batch, uint32_t many, struct stx_diag *d);
};
stx_err stx__sweep(const struct stx__tuner *t, struct stx__tuned_kernel *k,
		   const struct stx__space *s, struct stx_diag *d);

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
