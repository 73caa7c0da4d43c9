/* fuzz_graph.h
 * shared by the graph fuzzers: whatever a reader accepts must verify, print, parse back to the same
 * text and have a stable canonical form. Aborts otherwise. */
#ifndef STX_FUZZ_GRAPH_H
#define STX_FUZZ_GRAPH_H

#include <stdlib.h>
#include <string.h>

#include "import.h"
#include "passes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static inline void fuzz_check_graph(struct stx_arena *a, struct stx_graph *g)
{
	struct stx_diag d = { 0 };
	struct stx_bytes one = { 0 }, two = { 0 };
	struct stx_graph *again = NULL;
	if (stx_graph_verify(g, &d))
		return;
	for (unsigned i = 0; i < g->nodes.n; i++)
		g->nodes.at[i]->origin = NULL; /* printed as a comment, for people */
	if (stx_graph_print(g, &one))
		goto done;
	if (stx_graph_parse(a, (const char *)one.at, one.n, &again, &d)) {
		if (d.code != STX_E_TOO_LARGE && !stx_arena_oom(a))
			abort();
		goto done;
	}
	if (!stx_graph_print(again, &two) && (one.n != two.n || memcmp(one.at, two.at, one.n)))
		abort();
	struct stx_graph *c1 = NULL, *c2 = NULL;
	struct stx_digest d1, d2;
	if (!stx_graph_canonical(g, a, &c1, &d) && !stx_graph_canonical(again, a, &c2, &d) &&
	    !stx_graph_digest(c1, &d1, &d) && !stx_graph_digest(c2, &d2, &d) &&
	    !stx_digest_eq(&d1, &d2))
		abort();
done:
	stx_bytes_free(&one);
	stx_bytes_free(&two);
}

static inline int fuzz_import(enum stx_graph_format f, const uint8_t *data, size_t n)
{
	struct stx_arena *a = stx_arena_new((size_t)64 << 20);
	struct stx_import_result r;
	struct stx_diag d = { 0 };
	if (a && !stx_import(a, f, (struct stx_span){ data, n }, NULL, &r, &d))
		fuzz_check_graph(a, r.graph);
	stx_arena_free(a);
	return 0;
}

#endif
