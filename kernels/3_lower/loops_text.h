/* loops_text.h
 * pieces of the loop IR's text form shared by the formatter handler and the printer. */
#ifndef STX_LOOPS_TEXT_H
#define STX_LOOPS_TEXT_H

#include "loops.h"

struct stx__names { /* names of variables in b: i0.., r0_0.. */
	const struct stx_loops *l;
	const struct stx_buffer *b;
};

/* A stx_ex_name_fn; ctx is a struct stx__names. */
void stx__loops_axis(void *ctx, enum stx_atom_kind kind, uint32_t number, char *out, size_t cap);
void stx__loops_ex(const struct stx__names *n, stx_ex e, struct stx_bytes *out);
/* `ops.load('primals_1', 128*i0 + r0_0)` */
void stx__loops_inst(const struct stx__names *n, const struct stx_binst *in, struct stx_bytes *out);

#endif
