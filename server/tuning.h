/* tuning.h
 * timings of GPU kernels and of products on CPUs: merged into the store, told to who asks, pinned
 * for a job, and as choices in answers; and the code of a kernel in one configuration, for who
 * measures. */
#ifndef STX_SERVER_TUNING_H
#define STX_SERVER_TUNING_H

#include "request.h"

/* tune.c: a Tune request, once the fingerprint is known. Answers and frees p. */
void stx__tune_request(struct stx__pending *p);
/* The answer with the choices for p's device, for the caller to drop; NULL: there are none (or no
 * memory for them). Of one from memory it is made once an epoch of the records. */
struct stx__blob *stx__tune_answer(const struct stx__pending *p, const struct stx__blob *answer);

/* How the products of the answer are cut as was measured on p's device, for the caller to drop;
 * NULL: as the answer has it. */
struct stx__cut *stx__tune_cut(const struct stx__pending *p, const struct stx__blob *answer);

/* code_chain.c: a KernelCode request. */
void stx__code_request(struct stx__pending *p);
struct stx__compile_chain;
/* All that a code chain waited for is there, or must be begun anew. */
void stx__code_ready(struct stx__compile_chain *c);
void stx__code_restart(struct stx__compile_chain *c);

#endif
