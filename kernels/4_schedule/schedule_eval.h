/* schedule_eval.h
 * reference evaluation of a whole schedule: its steps in order, temporaries in their slots. */
#ifndef STX_SCHEDULE_EVAL_H
#define STX_SCHEDULE_EVAL_H

#include "schedule.h"

/* data[id]: storage of every input and output buffer; others are not looked at. syms: values of the
 * size symbols by number; NULL: their hints. The workspace starts poisoned and grid points run
 * backwards, to show what is read before it is written and that points are independent. BOUNDS as
 * the generated code reports it; INTERNAL: a kernel leaves its buffers. */
stx_err stx_schedule_evaluate(const struct stx_schedule *s, void *const *data, const int64_t *syms,
			      struct stx_diag *d);
/* Elements from a buffer's pointer to its last one, for these symbols; 0 when it has none, -1 on
 * overflow. */
int64_t stx_buffer_elems(const struct stx_loops *l, const struct stx_buffer *b,
			 const int64_t *syms);

#endif
