/* lowering.h
 * what the tests of 3_lower share: lowering a graph given as text, and looking at the result. */
#ifndef LOWERING_H
#define LOWERING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "loops.h"
#include "passes.h"

struct low {
	struct stx_arena *arena;
	struct stx_graph *g;
	struct stx_loops *l;
	struct stx_diag d;
	struct stx_bytes text; /* last text asked for */
};

static inline stx_err low_try(struct low *w, const char *text, struct stx_lower_options o)
{
	stx_err e;

	memset(w, 0, sizeof *w);
	w->arena = stx_arena_new(0);
	e = stx_graph_parse(w->arena, text, strlen(text), &w->g, &w->d);
	if (!e)
		e = stx_lower(w->g, &o, &w->l, &w->d);
	return e;
}

static inline void low_start(struct low *w, const char *text, struct stx_lower_options o)
{
	if (low_try(w, text, o))
		fail_msg("%s: %s: %s %s", w->d.stage, w->d.node, w->d.text, w->d.location);
}

static inline void low_cpu(struct low *w, const char *text)
{
	low_start(w, text, (struct stx_lower_options){ 0 });
}

static inline void low_gpu(struct low *w, const char *text)
{
	low_start(w, text, (struct stx_lower_options){ .target_gpu = 1 });
}

static inline void low_end(struct low *w)
{
	stx_bytes_free(&w->text);
	stx_arena_free(w->arena);
}

/* Number of buffers that are computed. */
static inline uint32_t low_computed(const struct low *w)
{
	uint32_t i, n = 0;

	for (i = 0; i < w->l->buffers.n; i++)
		n += w->l->buffers.at[i]->def != STX_DEF_NONE;
	return n;
}

static inline const struct stx_buffer *low_output(const struct low *w, uint32_t i)
{
	return w->l->buffers.at[w->l->outputs.at[i]];
}

/* The formatter's lines for buffer b. */
static inline const char *low_body(struct low *w, const struct stx_buffer *b)
{
	stx_bytes_clear(&w->text);
	assert_int_equal(stx_handler_text(w->l, b, &w->text), 0);
	return stx_bytes_cstr(&w->text);
}

static inline const char *low_print(struct low *w)
{
	stx_bytes_clear(&w->text);
	assert_int_equal(stx_loops_print(w->l, &w->text), 0);
	return stx_bytes_cstr(&w->text);
}

#define assert_has(text, part)                                                                     \
	do {                                                                                       \
		if (!strstr((text), (part)))                                                       \
			fail_msg("'%s' is not in:\n%s", (part), (text));                           \
	} while (0)
#define assert_has_not(text, part)                                                                 \
	do {                                                                                       \
		if (strstr((text), (part)))                                                        \
			fail_msg("'%s' is in:\n%s", (part), (text));                               \
	} while (0)

static inline void assert_list(const struct low *w, const stx_ex *at, uint32_t n,
			       const int64_t *want, uint32_t nwant)
{
	uint32_t i;
	int64_t v;

	assert_int_equal(n, nwant);
	for (i = 0; i < n; i++) {
		assert_true(stx_ex_is_const(w->l->ex, at[i], &v));
		assert_int_equal(v, want[i]);
	}
}
#define assert_consts(w, at, n, ...)                                                               \
	assert_list((w), (at), (n), (const int64_t[]){ __VA_ARGS__ },                              \
		    sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))

#endif
