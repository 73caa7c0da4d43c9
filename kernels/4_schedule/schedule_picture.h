/* schedule_picture.h
 * buffers, and the kernels that compute them, as boxes and edges. */
#ifndef STX_SCHEDULE_PICTURE_H
#define STX_SCHEDULE_PICTURE_H

#include "picture.h"
#include "schedule.h"

/* Each kernel is a cluster of what it computes; buffers in memory are edges with dtype, shape and
 * bytes. s NULL: before fusion, each buffer of l a box. */
stx_err stx_picture_of_schedule(const struct stx_loops *l, const struct stx_schedule *s,
				struct stx_picture *p, struct stx_diag *d);

#endif
