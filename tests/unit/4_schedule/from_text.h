/* from_text.h
 * loop programs lowered from graphs in text form: shared by the tests of scheduling. */
#ifndef TEST_FROM_TEXT_H
#define TEST_FROM_TEXT_H

#include "graph.h"
#include "loops_make.h"
#include "lower.h"
#include "passes.h"
#include "text_check.h"

/* budget: bytes of the arena; 0: the default. */
static inline void lower_text_within(struct maker *m, const char *text, struct stx_lower_options o,
				     size_t budget)
{
	struct stx_diag d = { 0 };
	struct stx_graph *g = NULL;
	memset(m, 0, sizeof *m);
	m->a = stx_arena_new(budget);
	stx_err e = stx_graph_parse(m->a, text, strlen(text), &g, &d);
	e = e ? e : stx_graph_verify(g, &d);
	e = e ? e : stx_graph_decompose_to_basis(&g, &d);
	e = e ? e : stx_graph_simplify(&g, STX_SIMPLIFY_STRICT, &d);
	if (!e)
		g->runs_scans = !o.target_gpu;
	e = e ? e : stx_graph_decompose_to_primitives(&g, &d);
	e = e ? e : stx_lower(g, &o, &m->l, &d);
	if (e)
		fail_msg("%s %s: %s", d.stage, d.node, d.text);
	m->x = m->l->ex;
}

static inline void lower_text_with(struct maker *m, const char *text, struct stx_lower_options o)
{
	lower_text_within(m, text, o, 0);
}

static inline void lower_text(struct maker *m, const char *text)
{
	lower_text_with(m, text, (struct stx_lower_options){ 0 });
}

#endif
