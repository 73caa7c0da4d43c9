/* prims.c: the table of primitives and its look-ups. */
#include "prims.h"

#include <string.h>

static const struct stx_prim_info prims[] = {
#define STX_PRIM(name, text, arity, result, on, cost)                                              \
	{ text, arity, STX_RESULT_##result, on, cost },
#include "prims.def"
#undef STX_PRIM
};

const struct stx_prim_info *stx_prim_info(enum stx_prim p)
{
	return &prims[p];
}

int stx_prim_parse(const char *text, int n)
{
	for (int p = 0; p < STX_PRIM_COUNT; p++)
		if ((int)strlen(prims[p].text) == n && !memcmp(prims[p].text, text, (size_t)n))
			return p;
	return -1;
}

int stx_prim_accepts(enum stx_prim p, enum stx_dtype t)
{
	if ((unsigned)t >= STX_DTYPE_COUNT)
		return 0;
	switch (stx_dtype_kind(t)) {
	case STX_KIND_FLOAT: return strchr(prims[p].on, 'F') != NULL;
	case STX_KIND_BOOL: return strchr(prims[p].on, 'B') != NULL;
	default: return strchr(prims[p].on, 'I') != NULL;
	}
}
