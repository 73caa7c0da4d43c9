/* compiled_recut.c: plans whose products are cut in other ways than the model's. */
#include <stdlib.h>
#include <string.h>

#include "compiled.h"
#include "timing.h"

static int by_digest(const void *p, const void *q)
{
	const struct stx_choice *a = p, *b = q;
	return memcmp(a->of.b, b->of.b, sizeof a->of.b);
}

stx_err compiled_recut(struct stx_span graph, const struct stx_compile_options *o,
		       struct stx_plan_result *plan, struct stx_diag *d)
{
	static uint32_t counter;
	struct stx_choice *at = calloc(plan->nkernels + 1, sizeof *at);
	struct stx_config_desc *spaces[4096] = { NULL };
	struct stx_choices c = { at, 0 };
	struct stx_compile_options mine = *o;
	struct stx_plan_result other;
	uint32_t nspaces = 0, unique = 0;
	stx_err e = at ? STX_E_OK : STX_E_NOMEM;
	for (uint32_t i = 0; !e && i < plan->nkernels && nspaces < 4096; i++) {
		const char *product = plan->kernels[i].product;
		uint32_t n;
		if (!product[0])
			continue;
		struct stx_span text = { (const uint8_t *)product, strlen(product) };
		e = stx_compile_space(text, o, &spaces[nspaces], &n, d);
		at[nspaces].of = stx_digest_of(product, strlen(product));
		at[nspaces].config = e ? NULL : spaces[nspaces][++counter * 7 % n].text;
		nspaces++;
	}
	if (!e && nspaces) {
		qsort(at, nspaces, sizeof *at, by_digest);
		for (uint32_t i = 0; i < nspaces; i++)
			if (!i || !stx_digest_eq(&at[i].of, &at[unique - 1].of))
				at[unique++] = at[i];
		c.n = unique;
		mine.blockings = &c;
		e = stx_compile_plan(compiled_compiler(), graph, &mine, &other, d);
		if (!e) {
			stx_plan_result_free(plan);
			*plan = other;
		}
	}
	for (uint32_t i = 0; i < nspaces; i++)
		free(spaces[i]);
	free(at);
	return e;
}
