/* parse_tokens.h
 * state and tokens of the reader of loop programs (parse.c). Functions give 1, or 0 and the error.
 */
#ifndef STX_PARSE_TOKENS_H
#define STX_PARSE_TOKENS_H

#include "lower.h"

struct stx__output_alias {
	uint32_t output, of;
};

struct stx__parse {
	const char *start, *p, *end;
	struct stx_loops *l;
	struct stx_exprs *ex;
	struct stx_arena *arena;
	struct stx_buffer *b; /* being read */
	STX_VEC(struct stx_binst) insts;
	STX_VEC(struct stx__output_alias) aliases;
	struct stx_diag *d;
	stx_err err;
};

/* Reports what is wrong at the cursor; the first error stays. */
void stx__p_report(struct stx__parse *s, stx_err e, const char *what);
static inline int stx__p_bad(struct stx__parse *s, const char *what)
{
	stx__p_report(s, STX_E_INVALID, what);
	return 0;
}
static inline int stx__p_oom(struct stx__parse *s)
{
	stx__p_report(s, STX_E_NOMEM, "out of memory budget");
	return 0;
}
/* Skips white space, then takes `word` when it is next; need: or it is an error. */
int stx__p_take(struct stx__parse *s, const char *word);
int stx__p_need(struct stx__parse *s, const char *word);
/* Characters up to one of stop; NULL when there is none of them. */
const char *stx__p_until(struct stx__parse *s, const char *stop, size_t *n);
const char *stx__p_quoted(struct stx__parse *s); /* a copy; NULL and the error */
int stx__p_number(struct stx__parse *s, uint32_t *out);
int stx__p_dtype(struct stx__parse *s, uint8_t *out);
int stx__p_expression(struct stx__parse *s, stx_ex *out);
/* [e, e, ...], at most 2*STX_MAX_DIMS of them. */
int stx__p_list(struct stx__parse *s, const stx_ex **out, uint32_t *n);

#endif
