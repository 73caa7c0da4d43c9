/* elementary.c: which body an elementary function has; the recorder and the interpreter. */
#include "elementary_body.h"

#include <assert.h>
#include <math.h>

/* y = 1/sqrt(x), improved by what 1 - x*y^2 is not 0: in f64 for f32; f64 takes the head of y, whose
 * square is exact. Where that is not a number y is the result. */
static stx_ev rsqrt_f32(const struct el *e, stx_ev x)
{
	struct el w = el_make(e->b, STX_F64);
	stx_ev y = quo(e, fk(e, 1), root(e, x)), yy = widen(&w, y), more;

	more = narrow(e, ksub(&w, 1, mul(&w, mul(&w, yy, yy), widen(&w, x))));
	more = mul(e, y, mulk(e, more, 0.5));
	return sel(e, eq(e, more, more), add(e, y, more), y);
}

stx_ev stx__el_rsqrt(const struct el *e, stx_ev x)
{
	stx_ev tiny, v, y, h, more;
	struct dd p;

	if (!is_f64(e))
		return rsqrt_f32(e, x);
	tiny = lt(e, x, fk(e, 0x1p-800)); /* scaled, so that products keep their low halves */
	v = sel(e, tiny, mulk(e, x, 0x1p600), x);
	y = quo(e, fk(e, 1), root(e, v));
	h = head(e, y);
	p = two_prod(e, v, mul(e, h, h));
	more = sub(e, ksub(e, 1, p.h), p.l);
	more = mul(e, more, addk(e, mulk(e, more, 0.375), 0.5));
	v = add(e, h, mul(e, h, more));
	return mul(e, sel(e, eq(e, v, v), v, y), sel(e, tiny, fk(e, 0x1p300), fk(e, 1)));
}

static stx__el_fn *unary_body(enum stx_prim op)
{
	switch (op) {
	case STX_P_EXP: return stx__el_exp;
	case STX_P_EXP2: return stx__el_exp2;
	case STX_P_EXPM1: return stx__el_expm1;
	case STX_P_LOG: return stx__el_log;
	case STX_P_LOG2: return stx__el_log2;
	case STX_P_LOG10: return stx__el_log10;
	case STX_P_LOG1P: return stx__el_log1p;
	case STX_P_TANH: return stx__el_tanh;
	case STX_P_SIGMOID: return stx__el_sigmoid;
	case STX_P_SOFTPLUS: return stx__el_softplus;
	case STX_P_ERF: return stx__el_erf;
	case STX_P_ERFC: return stx__el_erfc;
	case STX_P_SIN: return stx__el_sin;
	case STX_P_COS: return stx__el_cos;
	case STX_P_TAN: return stx__el_tan;
	case STX_P_ASIN: return stx__el_asin;
	case STX_P_ACOS: return stx__el_acos;
	case STX_P_ATAN: return stx__el_atan;
	case STX_P_SINH: return stx__el_sinh;
	case STX_P_COSH: return stx__el_cosh;
	case STX_P_ASINH: return stx__el_asinh;
	case STX_P_ACOSH: return stx__el_acosh;
	case STX_P_ATANH: return stx__el_atanh;
	case STX_P_RSQRT: return stx__el_rsqrt;
	case STX_P_CBRT: return stx__el_cbrt;
	case STX_P_SHORT_EXP: return stx__el_short_exp;
	case STX_P_SHORT_SIGMOID: return stx__el_short_sigmoid;
	case STX_P_SHORT_TANH: return stx__el_short_tanh;
	case STX_P_SHORT_ERF: return stx__el_short_erf;
	case STX_P_SHORT_SOFTPLUS: return stx__el_short_softplus;
	case STX_P_SHORT_CDF: return stx__el_short_cdf;
	case STX_P_SHORT_SLOPE: return stx__el_short_slope;
	case STX_P_SHORT_EXP2: return stx__el_short_exp2;
	case STX_P_SHORT_LOG: return stx__el_short_log;
	case STX_P_SHORT_LOG2: return stx__el_short_log2;
	case STX_P_SHORT_LOG10: return stx__el_short_log10;
	case STX_P_SHORT_LOG1P: return stx__el_short_log1p;
	case STX_P_SHORT_RSQRT: return stx__el_short_rsqrt;
	case STX_P_SHORT_SIN: return stx__el_short_sin;
	case STX_P_SHORT_COS: return stx__el_short_cos;
	case STX_P_SHORT_TAN: return stx__el_short_tan;
	case STX_P_SHORT_ASIN: return stx__el_short_asin;
	case STX_P_SHORT_ACOS: return stx__el_short_acos;
	case STX_P_SHORT_ATAN: return stx__el_short_atan;
	case STX_P_SHORT_ATANH: return stx__el_short_atanh;
	case STX_P_NEAR_SIGMOID: return stx__el_near_sigmoid;
	case STX_P_NEAR_ERF: return stx__el_near_erf;
	default: return NULL;
	}
}

static stx_ev float_body(const struct el *e, enum stx_prim op, stx_ev x, stx_ev y)
{
	switch (op) {
	case STX_P_RELU: return maxi(e, x, fk(e, 0));
	case STX_P_POW: return stx__el_pow(e, x, y);
	case STX_P_ATAN2: return stx__el_atan2(e, x, y);
	case STX_P_SHORT_DIV: return mul(e, x, quo(e, fk(e, 1), y));
	default: return unary_body(op)(e, x);
	}
}

static int expand_int(struct stx_elem_builder *b, enum stx_prim op, enum stx_dtype t, stx_ev x,
		      stx_ev y, stx_ev *out)
{
	if (t == STX_BOOL)
		return 0;
	if (op == STX_P_RELU)
		*out = b->emit(b->ctx, STX_P_MAX, t, x,
			       b->constant(b->ctx, t, (union stx_scalar){ .u = 0 }), 0);
	else if (op == STX_P_POW)
		*out = stx__el_pow_int(b, t, x, y);
	else
		return 0;
	return 1;
}

int stx_elementary_expand(struct stx_elem_builder *b, enum stx_prim op, enum stx_dtype t, stx_ev x,
			  stx_ev y, stx_ev *out)
{
	struct el e;

	if (op < STX_P_FIRST_ELEMENTARY || op >= STX_PRIM_COUNT || t >= STX_DTYPE_COUNT)
		return 0;
	if (!stx_dtype_is_float(t))
		return expand_int(b, op, t, x, y, out);
	if (t == STX_F32 || t == STX_F64) {
		e = el_make(b, t);
		*out = float_body(&e, op, x, y);
		return 1;
	}
	e = el_make(b, STX_F32);
	op = stx_elementary_for(op, t);
	x = b->emit(b->ctx, STX_P_CAST, STX_F32, x, 0, 0);
	if (stx_prim_info(op)->arity == 2)
		y = b->emit(b->ctx, STX_P_CAST, STX_F32, y, 0, 0);
	*out = b->emit(b->ctx, STX_P_CAST, t, float_body(&e, op, x, y), 0, 0);
	return 1;
}

/* ---- recorder ---- */

struct recorder {
	struct stx_arena *a;
	STX_VEC(struct stx_elem_inst) v;
	int failed;
};

static stx_ev record_push(struct recorder *r, struct stx_elem_inst i)
{
	if (r->failed || r->v.n >= STX_ELEM_MAX || stx_push(r->a, &r->v, i)) {
		r->failed = 1;
		return 0;
	}
	return r->v.n - 1;
}

static stx_ev record_emit(void *ctx, enum stx_prim op, enum stx_dtype t, stx_ev a, stx_ev b,
			  stx_ev c)
{
	return record_push(ctx, (struct stx_elem_inst){ .op = (uint8_t)op,
							.dtype = (uint8_t)t,
							.a = (uint16_t)a,
							.b = (uint16_t)b,
							.c = (uint16_t)c });
}

static stx_ev record_constant(void *ctx, enum stx_dtype t, union stx_scalar k)
{
	struct recorder *r = ctx;

	for (uint32_t i = 0; i < r->v.n; i++)
		if (r->v.at[i].op == STX_ELEM_CONST && r->v.at[i].dtype == t &&
		    r->v.at[i].k.u == k.u)
			return i;
	return record_push(
		r, (struct stx_elem_inst){ .op = STX_ELEM_CONST, .dtype = (uint8_t)t, .k = k });
}

const struct stx_elem_program *stx_elementary_record(struct stx_arena *a, enum stx_prim op,
						     enum stx_dtype t)
{
	struct recorder r = { .a = a };
	struct stx_elem_builder b = { &r, record_emit, record_constant };
	struct stx_elem_program *p;
	stx_ev x, y, out;

	x = record_push(
		&r, (struct stx_elem_inst){ .op = STX_ELEM_ARG, .dtype = (uint8_t)t, .k.u = 0 });
	y = record_push(
		&r, (struct stx_elem_inst){ .op = STX_ELEM_ARG, .dtype = (uint8_t)t, .k.u = 1 });
	if (!stx_elementary_expand(&b, op, t, x, y, &out) || r.failed)
		return NULL;
	p = STX_NEW(a, struct stx_elem_program);
	if (!p)
		return NULL;
	*p = (struct stx_elem_program){ r.v.at, r.v.n, out };
	return p;
}

void stx_elementary_values(const struct stx_elem_program *p, union stx_scalar x, union stx_scalar y,
			   union stx_scalar *v)
{
	for (uint32_t i = 0; i < p->n; i++) {
		const struct stx_elem_inst *q = &p->at[i];

		if (q->op == STX_ELEM_CONST)
			v[i] = q->k;
		else if (q->op == STX_ELEM_ARG)
			v[i] = q->k.u ? y : x;
		else
			v[i] = stx_prim_eval((enum stx_prim)q->op, (enum stx_dtype)q->dtype,
					     (enum stx_dtype)p->at[q->a].dtype, v[q->a], v[q->b],
					     v[q->c]);
	}
}

union stx_scalar stx_elementary_eval(const struct stx_elem_program *p, union stx_scalar x,
				     union stx_scalar y)
{
	union stx_scalar v[STX_ELEM_MAX];

	assert(p->n <= STX_ELEM_MAX);
	stx_elementary_values(p, x, y, v);
	return v[p->result];
}
