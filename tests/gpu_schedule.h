/* gpu_schedule.h
 * the kernels that a graph in text form has on a GPU: for tests of scheduling and code generation. */
#ifndef STX_TESTS_GPU_SCHEDULE_H
#define STX_TESTS_GPU_SCHEDULE_H

#include <string.h>

#include "lower.h"
#include "passes.h"
#include "schedule.h"

/* In the arena; device NULL: the default. NULL: there are none, for a reason that the compiler tells
 * (UNSUPPORTED). */
static inline struct stx_schedule *gpu_schedule_on(struct stx_arena *a, const char *text,
						   const struct stx_device *device)
{
	struct stx_diag d = { 0 };
	struct stx_graph *g = NULL;
	struct stx_loops *l = NULL;
	struct stx_schedule *s = NULL;
	struct stx_lower_options lower = { .target_gpu = 1 };
	struct stx_schedule_options o = { .target_gpu = 1, .device = device };
	stx_err e = stx_graph_parse(a, text, strlen(text), &g, &d);
	e = e ? e : stx_graph_decompose_to_basis(&g, &d);
	e = e ? e : stx_graph_simplify(&g, STX_SIMPLIFY_STRICT, &d);
	e = e ? e : stx_graph_decompose_to_primitives(&g, &d);
	e = e ? e : stx_lower(g, &lower, &l, &d);
	e = e ? e : stx_schedule(l, &o, &s, &d);
	if (e == STX_E_UNSUPPORTED)
		return NULL;
	if (e)
		fail_msg("%s %s: %s in\n%s", d.stage, d.node, d.text, text);
	return s;
}

static inline struct stx_schedule *gpu_schedule_if(struct stx_arena *a, const char *text)
{
	return gpu_schedule_on(a, text, NULL);
}

/* The test fails when there are none. */
static inline struct stx_schedule *gpu_schedule(struct stx_arena *a, const char *text)
{
	struct stx_schedule *s = gpu_schedule_if(a, text);
	if (!s)
		fail_msg("no kernels for a GPU of\n%s", text);
	return s;
}

#endif
