/* text_tokens.h
 * internal to the text form's parser: its state, tokens, numbers and errors. Functions return 0, or
 * -1 with the error kept in the parser; the first one wins. */
#ifndef STX_TEXT_TOKENS_H
#define STX_TEXT_TOKENS_H

#include "graph_internal.h"

struct stx__users { /* num_users as stated, checked at the end */
	struct stx_node *node;
	uint64_t stated;
	const char *at;
};

struct stx__parser {
	struct stx_arena *a;
	struct stx_graph *g;
	const char *text, *p, *end;
	struct stx_diag *d;
	stx_err err;
	const char *bad;  /* where the error is */
	const char *node; /* whose definition is being read, or "" */
	STX_VEC(struct stx__users) users;
	STX_VEC(stx_ex) exs;          /* list being read */
	STX_VEC(struct stx_val) vals; /* list being read */
};

/* Error at a place in the text; and one that another module has reported already. */
int stx__t_fail(struct stx__parser *s, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int stx__t_failed(struct stx__parser *s, const char *at, stx_err e);
int stx__t_over_budget(struct stx__parser *s, const char *at);

void stx__t_skip(struct stx__parser *s); /* spaces, line ends, comments */
int stx__t_peek(struct stx__parser *s);  /* next character, or -1 */
int stx__t_accept(struct stx__parser *s, char c);
int stx__t_expect(struct stx__parser *s, char c);
/* Letters, digits, _ and the characters of extra; empty when there are none. */
struct stx_span stx__t_word(struct stx__parser *s, const char *extra);
int stx__t_is(struct stx_span w, const char *text);
int stx__t_shown(struct stx_span w); /* how much of w a message shows */
int stx__t_accept_word(struct stx__parser *s,
		       const char *text); /* the cursor stays where it does not match */
int stx__t_expect_word(struct stx__parser *s, const char *text);
int stx__t_i64(struct stx__parser *s, int64_t *v);
/* A number: *is_float tells which of *f and *i holds it. */
int stx__t_number(struct stx__parser *s, int *is_float, double *f, int64_t *i);
int stx__t_hex_digit(char c); /* -1 when it is none */

/* ---- text_args.c ---- */
#define STX__T_MAX_PARAMS 16
/* The size symbol of that name, or STX_EX_BAD; ctx: the graph. */
stx_ex stx__t_symbol(void *ctx, const char *name, size_t n);
/* `e, e, ...` up to close; the values are in s->exs. */
int stx__t_ex_list(struct stx__parser *s, char close, uint32_t max);
int stx__t_type(struct stx__parser *s, struct stx_type *t); /* f32[64,s0] */
int stx__t_ref(struct stx__parser *s, struct stx_val *v);   /* %name or %name:1 */
int stx__t_string(struct stx__parser *s, const char **out);
int stx__t_bool(struct stx__parser *s, int *v);
/* Up to the closing parenthesis; args: [info->nparams], STX__T_MAX_PARAMS at most. */
int stx__t_args(struct stx__parser *s, const struct stx_op_info *info, struct stx_arg *args);

#endif
