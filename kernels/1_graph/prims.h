/* prims.h
 * the primitive scalar operations and their properties (table: prims.def). */
#ifndef STX_PRIMS_H
#define STX_PRIMS_H

#include <stdint.h>

#include "dtype.h"

enum stx_prim {
#define STX_PRIM(name, text, arity, result, on, cost) STX_P_##name,
#include "prims.def"
#undef STX_PRIM
	STX_PRIM_COUNT
};
#define STX_P_FIRST_ELEMENTARY STX_P_RELU /* rows from here on are expanded by elementary.h */

enum stx_prim_result { STX_RESULT_SAME, STX_RESULT_BOOL, STX_RESULT_CAST };

struct stx_prim_info {
	const char *text;
	int arity;
	enum stx_prim_result result;
	const char *on; /* subset of "FIB" */
	int cost;
};

const struct stx_prim_info *stx_prim_info(enum stx_prim p);
int stx_prim_parse(const char *text, int n); /* -1 when unknown */
int stx_prim_accepts(enum stx_prim p, enum stx_dtype t);

/* A constant or scalar value: the member is chosen by the dtype (floats in f, signed and bool in i,
 * unsigned in u). Floats are held in double: every f32/f16/bf16 value is exact there. */
union stx_scalar {
	double f;
	int64_t i;
	uint64_t u;
};

#endif
