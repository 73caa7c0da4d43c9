/* tune.h
 * which launch configurations a GPU kernel can have, and which of them are worth measuring.
 *
 * The space is a product of finite sets (seed 003, definition 9.2); what does not fit the kernel or
 * the device costs infinitely much and is left out. Heuristics name a few of its points (algorithm
 * 9.1); which of those is fastest only a measurement says, and it is made by whoever has the device
 * and arguments: proto/base/timing.h. */
#ifndef STX_TUNE_H
#define STX_TUNE_H

#include "gpu_config.h"
#include "schedule.h"

/* Candidates from form, size hints and direction of the reduction (LC-02), the heuristic choice
 * first: one at least, as a rule not more than six, all different. */
void stx_tune_candidates(const struct stx_kernel *k, const struct stx_gpu_device *dev,
			 struct stx_gpu_choices *out);
/* Of every kernel of a schedule; lives in its arena. NULL: out of memory. */
const struct stx_gpu_choices *stx_tune_schedule(const struct stx_schedule *s,
						const struct stx_gpu_device *dev);

#define STX_TUNE_MAX_SPACE 4096
/* Every configuration the kernel can have on the device, those of the candidates among them, in a
 * fixed order. Returns their number; at most cap are written. */
uint32_t stx_tune_space(const struct stx_kernel *k, const struct stx_gpu_device *dev,
			struct stx_gpu_config *out, uint32_t cap);

#endif
