/* worker_job.h
 * running one job inside a worker and replying to it. */
#ifndef STX_WORKER_JOB_H
#define STX_WORKER_JOB_H

#include "channel.h"
#include "compile.h"

struct stx__worker {
	struct stx_compiler *compiler;
	struct stx_digest fingerprint;
	uint64_t memory_bytes;
	char sandbox[96];
};

/* Runs the job in m and sends its reply. An error only when the reply cannot be sent. */
stx_err stx__worker_job(struct stx__worker *w, const struct stx__message *m);

#endif
