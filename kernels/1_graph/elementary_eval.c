/* elementary_eval.c: the interpreter over many elements: instruction by instruction over short
 * blocks.
 *
 * The frequent instructions have loops of their own; they compute what stx_prim_eval computes
 * (tested), which the others call. */
#include "elementary.h"

#include <assert.h>
#include <string.h>

#define BLOCK 16

typedef union stx_scalar block[BLOCK];

#define LOOP(expr)                                                                                 \
	do {                                                                                       \
		for (int i = 0; i < BLOCK; i++)                                                    \
			expr;                                                                      \
		return 1;                                                                          \
	} while (0)

static int run_f64(enum stx_prim op, const union stx_scalar *a, const union stx_scalar *b,
		   union stx_scalar *r)
{
	switch (op) {
	case STX_P_ADD: LOOP(r[i].f = a[i].f + b[i].f);
	case STX_P_SUB: LOOP(r[i].f = a[i].f - b[i].f);
	case STX_P_MUL: LOOP(r[i].f = a[i].f * b[i].f);
	case STX_P_DIV: LOOP(r[i].f = a[i].f / b[i].f);
	case STX_P_RCP: LOOP(r[i].f = 1 / a[i].f);
	case STX_P_ABS: LOOP(r[i].f = __builtin_fabs(a[i].f));
	case STX_P_COPYSIGN: LOOP(r[i].f = __builtin_copysign(a[i].f, b[i].f));
	default: return 0;
	}
}

static int run_f32(enum stx_prim op, const union stx_scalar *a, const union stx_scalar *b,
		   union stx_scalar *r)
{
	switch (op) {
	case STX_P_ADD: LOOP(r[i].f = (float)a[i].f + (float)b[i].f);
	case STX_P_SUB: LOOP(r[i].f = (float)a[i].f - (float)b[i].f);
	case STX_P_MUL: LOOP(r[i].f = (float)a[i].f * (float)b[i].f);
	case STX_P_DIV: LOOP(r[i].f = (float)a[i].f / (float)b[i].f);
	case STX_P_RCP: LOOP(r[i].f = 1 / (float)a[i].f);
	case STX_P_ABS: LOOP(r[i].f = __builtin_fabs(a[i].f));
	case STX_P_COPYSIGN: LOOP(r[i].f = __builtin_copysign(a[i].f, b[i].f));
	default: return 0;
	}
}

static int run_i64(enum stx_prim op, const union stx_scalar *a, const union stx_scalar *b,
		   union stx_scalar *r)
{
	switch (op) {
	case STX_P_ADD: LOOP(r[i].u = a[i].u + b[i].u);
	case STX_P_SUB: LOOP(r[i].u = a[i].u - b[i].u);
	case STX_P_AND: LOOP(r[i].u = a[i].u & b[i].u);
	case STX_P_OR: LOOP(r[i].u = a[i].u | b[i].u);
	case STX_P_XOR: LOOP(r[i].u = a[i].u ^ b[i].u);
	default: return 0;
	}
}

static int compare_f(enum stx_prim op, const union stx_scalar *a, const union stx_scalar *b,
		     union stx_scalar *r)
{
	switch (op) {
	case STX_P_EQ: LOOP(r[i].i = a[i].f == b[i].f);
	case STX_P_NE: LOOP(r[i].i = a[i].f != b[i].f);
	case STX_P_LT: LOOP(r[i].i = a[i].f < b[i].f);
	case STX_P_GT: LOOP(r[i].i = a[i].f > b[i].f);
	case STX_P_GE: LOOP(r[i].i = a[i].f >= b[i].f);
	default: return 0;
	}
}

/* Bits of an f64 are the union's own; those of an f32 go through float. */
static int move(enum stx_prim op, enum stx_dtype t, enum stx_dtype from, const union stx_scalar *a,
		const union stx_scalar *b, const union stx_scalar *c, union stx_scalar *r)
{
	if (op == STX_P_SELECT)
		LOOP(r[i] = a[i].i ? b[i] : c[i]);
	if (op == STX_P_CAST && t == STX_F64 && from == STX_F32)
		LOOP(r[i] = a[i]);
	if (op == STX_P_CAST && t == STX_F32 && from == STX_F64)
		LOOP(r[i].f = (float)a[i].f);
	if (op == STX_P_BITCAST && (t == STX_F64 || t == STX_I64))
		LOOP(r[i] = a[i]);
	return 0;
}

static void run(const struct stx_elem_program *p, const struct stx_elem_inst *q, block *v,
		union stx_scalar *r)
{
	enum stx_prim op = (enum stx_prim)q->op;
	enum stx_dtype t = (enum stx_dtype)q->dtype, from = (enum stx_dtype)p->at[q->a].dtype;
	const union stx_scalar *a = v[q->a], *b = v[q->b], *c = v[q->c];

	if (move(op, t, from, a, b, c, r))
		return;
	if (t == STX_F64 && run_f64(op, a, b, r))
		return;
	if (t == STX_F32 && run_f32(op, a, b, r))
		return;
	if (t == STX_I64 && run_i64(op, a, b, r))
		return;
	if (t == STX_BOOL && stx_dtype_is_float(from) && compare_f(op, a, b, r))
		return;
	for (int i = 0; i < BLOCK; i++)
		r[i] = stx_prim_eval(op, t, from, a[i], b[i], c[i]);
}

void stx_elementary_eval_n(const struct stx_elem_program *p, const union stx_scalar *x,
			   const union stx_scalar *y, union stx_scalar *out, size_t n)
{
	block v[STX_ELEM_MAX];

	assert(p->n <= STX_ELEM_MAX);
	for (size_t at = 0; at < n; at += BLOCK) {
		size_t m = n - at < BLOCK ? n - at : BLOCK;

		for (uint32_t k = 0; k < p->n; k++) {
			const struct stx_elem_inst *q = &p->at[k];

			if (q->op == STX_ELEM_CONST) {
				for (int i = 0; i < BLOCK; i++)
					v[k][i] = q->k;
			} else if (q->op == STX_ELEM_ARG) {
				for (size_t i = 0; i < BLOCK;
				     i++) /* a short block repeats its last element */
					v[k][i] = (q->k.u ? y : x)[at + (i < m ? i : m - 1)];
			} else {
				run(p, q, v, v[k]);
			}
		}
		memcpy(out + at, v[p->result], m * sizeof *out);
	}
}
