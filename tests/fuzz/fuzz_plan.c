/* fuzz_plan.c: data plans and the objects that carry them: what is accepted can be read without
 * tests. */
#include <stdlib.h>
#include <string.h>

#include "plan_use.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static volatile uint64_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct stx_span plan;
	struct stx_plan p;
	uint8_t *copy = malloc(n ? n : 1); /* aligned, and exact for the sanitizer */
	if (!copy)
		return 0;
	if (n)
		memcpy(copy, data, n);
	if (!stx_plan_open((struct stx_span){ copy, n }, &p, NULL))
		sink += plan_use(&p);
	if (!stx_artifact_plan((struct stx_span){ copy, n }, &plan, NULL) && plan.n)
		sink += plan.at[0] + plan.at[plan.n - 1];
	sink += (uint64_t)stx_artifact_has_code((struct stx_span){ copy, n });
	free(copy);
	return 0;
}
