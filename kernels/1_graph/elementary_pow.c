/* elementary_pow.c: powers: floats through log2 and exp2, integers by squaring. */
#include "elementary_body.h"

#include <math.h>

/* log((1+s)/(1-s))/s in s^2: 2^-45.1 */
static const double log_lite[] = {
	0x1.fffffffffff0ep+0, 0x1.5555555674ea4p-1, 0x1.99999623ee05cp-2,
	0x1.24943b44b2b94p-2, 0x1.c61fef39019c4p-3, 0x1.91a1024d23bdep-3
};
/* (2^r - 1)/r on |r| <= 1/2: 2^-34.3 */
static const double exp2_lite[] = { 0x1.62e42fef7b4d4p-1,  0x1.ebfbe07ab84aep-3,
				    0x1.c6b08df482802p-5,  0x1.3b29f0fdf8a95p-7,
				    0x1.5d872380b64fap-10, 0x1.445e6aa47a4e1p-13,
				    0x1.00f14bf1fc0d1p-16 };
/* log2(1+f) beyond its first term: (log((1+s)/(1-s))/s - 2)/z: 2^-66.6 of the logarithm */
static const double log_long[] = { 0x1.5555555555555p-1, 0x1.9999999999d12p-2, 0x1.2492492439609p-2,
				   0x1.c71c724b938cbp-3, 0x1.745ce1b9064f9p-3, 0x1.3b20276c9b1b2p-3,
				   0x1.0f66fe39fdf88p-3, 0x1.0f106dc0a39b0p-3 };
/* (2^r - 1)/r, 2^-56 */
static const double exp2_f64[] = {
	0x1.62e42fefa39efp-1,  0x1.ebfbdff82c58fp-3,  0x1.c6b08d704a0d1p-5,  0x1.3b2ab6fba4e82p-7,
	0x1.5d87fe78a22cep-10, 0x1.430912f868d4ap-13, 0x1.ffcbfc75e4306p-17, 0x1.62c0224da5d8dp-20,
	0x1.b524db538b597p-24, 0x1.e4cee83fdfaf2p-28, 0x1.ea041f9b759eep-32, 0x1.c4da972569546p-36
};

/* log2 of x > 0 with about 64 bits */
static struct dd log2_long(const struct el *e, stx_ev x)
{
	const struct dd log2e = { fk(e, 0x1.71547652b82fep+0), fk(e, 0x1.777d0ffda0d24p-56) };
	const struct dd third = { fk(e, log_long[0]), fk(e, 0) }; /* 2/3, as the table was fitted */
	struct stx__el_log_parts p = stx__el_log_split(e, x, 1);
	struct dd s = dd_quo(e, dd_of(e, p.f), two_sum(e, fk(e, 2), p.f)), z = dd_mul(e, s, s), q;
	stx_ev r;

	/* log = s*(2 + z*(2/3 + z*rest)) */
	r = mul(e, z.h, poly(e, z.h, log_long + 1, (int)(sizeof(log_long) / sizeof *log_long) - 1));
	q = dd_mul(e, z, dd_add(e, third, (struct dd){ r, fk(e, 0) }));
	q = dd_add(e, (struct dd){ fk(e, 2), fk(e, 0) }, q);
	q = dd_mul(e, dd_mul(e, s, q), log2e);
	return dd_add(e, (struct dd){ p.k, fk(e, 0) }, q);
}

/* 2^(t.h + t.l) */
static stx_ev exp2_long(const struct el *e, struct dd t)
{
	stx_ev n = subk(e, addk(e, t.h, magic(e)), magic(e)), r = sub(e, t.h, n);
	struct dd f = fast_sum(e, r, t.l);
	/* 1 + (f*ln2 + f^2*P): the first product in two parts */
	struct dd a = two_prod(e, f.h, fk(e, exp2_f64[0]));
	stx_ev p = poly(e, f.h, exp2_f64 + 1, (int)(sizeof(exp2_f64) / sizeof *exp2_f64) - 1);
	stx_ev small =
		add(e, mul(e, mul(e, f.h, f.h), p),
		    add(e, a.l,
			add(e, mulk(e, f.l, exp2_f64[0]), mulk(e, f.h, 0x1.abc9e3b39803fp-56))));
	struct dd s = fast_sum(e, fk(e, 1), a.h);

	return scale(e, add(e, s.h, add(e, s.l, small)), n);
}

/* |x|^y for x, y held in f64, without special cases beyond what the arithmetic gives: log2(0) =
 * -inf */
static stx_ev power_f64(const struct el *e, stx_ev a, stx_ev y)
{
	struct dd l = log2_long(e, a), t;
	stx_ev yc = maxi(e, mini(e, y, fk(e, 0x1p70)), fk(e, -0x1p70)), lim, ok;

	t = two_prod(e, l.h, yc);
	t.l = add(e, t.l, mul(e, l.l, yc));
	t = fast_sum(e, t.h, t.l);
	lim = maxi(e, mini(e, t.h, fk(e, 1100)), fk(e, -1100));
	ok = eq(e, lim, t.h);
	t = (struct dd){ lim, sel(e, ok, t.l, fk(e, 0)) };
	return exp2_long(e, t);
}

static stx_ev power_f32(const struct el *w, stx_ev a, stx_ev y)
{
	struct stx__el_log_parts p = stx__el_log_split(w, a, 0);
	stx_ev s = quo(w, p.f, addk(w, p.f, 2)), l, t, m, r;

	l = mul(w, s, POLY(w, mul(w, s, s), log_lite));
	l = add(w, p.k, mulk(w, l, 0x1.71547652b82fep+0));
	t = mul(w, l, y);
	t = maxi(w, mini(w, t, fk(w, 200)), fk(w, -200));
	m = addk(w, t, magic(w));
	r = sub(w, t, subk(w, m, magic(w)));
	m = unbits(w, ishl(w, iaddk(w, bits(w, m), exp_bias(w) - magic_bits(w)), 52));
	return mul(w, addk(w, mul(w, r, POLY(w, r, exp2_lite)), 1), m);
}

static stx_ev whole(const struct el *e, stx_ev y)
{
	return eq(e, emit(e, STX_P_TRUNC, e->t, y, 0, 0), y);
}

/* C99 Annex F. The core sees |x| in (0, inf); what 0 and inf give is chosen by the sign of y, as is
 * what an infinite y gives by |x| against 1. */
stx_ev stx__el_pow(const struct el *e, stx_ev x, stx_ev y)
{
	struct el w = el_make(e->b, STX_F64);
	stx_ev a = mag(e, x), zero = fk(e, 0), one = fk(e, 1), inf = fk(e, INFINITY), r;
	stx_ev is_int = whole(e, y), half_int = whole(e, mulk(e, y, 0.5));
	stx_ev negative = lt(e, sign_of(e, one, x), zero), rising, extreme;

	r = is_f64(e) ? power_f64(e, a, y) : narrow(e, power_f32(&w, widen(&w, a), widen(&w, y)));
	/* 0, inf, or an infinite exponent: inf when growing, else 0 */
	extreme = either(e, eq(e, a, zero), either(e, eq(e, a, inf), eq(e, mag(e, y), inf)));
	rising = eq(e, sel(e, gt(e, a, one), one, zero), sel(e, gt(e, y, zero), one, zero));
	r = sel(e, extreme, sel(e, rising, inf, zero), r);
	r = sel(e, eq(e, a, one), one, r);
	/* a negative base: odd exponents keep the sign, fractions give NaN */
	r = sel(e, both(e, negative, both(e, is_int, not(e, half_int))), neg(e, r), r);
	r = sel(e, both(e, both(e, lt(e, x, zero), lt(e, a, inf)), not(e, is_int)), fk(e, NAN), r);
	/* NaN operands, except x^0 and 1^y */
	r = sel(e, either(e, ne(e, x, x), ne(e, y, y)), add(e, x, y), r);
	return sel(e, either(e, eq(e, y, zero), eq(e, x, one)), one, r);
}

/* sign(x) * 2^(log2|x| / 3) */
stx_ev stx__el_cbrt(const struct el *e, stx_ev x)
{
	struct el w = el_make(e->b, STX_F64);
	stx_ev a = mag(&w, is_f64(e) ? x : widen(&w, x)), r;

	if (is_f64(e)) {
		const struct dd third = { fk(e, 0x1.5555555555555p-2),
					  fk(e, 0x1.5555555555555p-56) };

		r = exp2_long(e, dd_mul(e, log2_long(e, a), third));
	} else {
		r = narrow(e, power_f32(&w, a, fk(&w, 0x1.5555555555555p-2)));
	}
	/* 0, infinities and NaN are their own */
	a = mag(e, x);
	r = sel(e, both(e, gt(e, a, fk(e, 0)), lt(e, a, fk(e, INFINITY))), r, a);
	return sign_of(e, r, x);
}

/* Squaring over all value bits of the exponent, wrapping; a negative exponent gives the truncated
 * reciprocal: 1 and -1 keep theirs, everything else (0 too) is 0. */
stx_ev stx__el_pow_int(struct stx_elem_builder *b, enum stx_dtype t, stx_ev x, stx_ev y)
{
#define OP(op, type, p, q, r) b->emit(b->ctx, STX_P_##op, type, p, q, r)
	int is_signed = stx_dtype_kind(t) == STX_KIND_INT, n = stx_dtype_bytes(t) * 8 - is_signed;
	stx_ev zero = b->constant(b->ctx, t, (union stx_scalar){ .i = 0 });
	stx_ev one = b->constant(b->ctx, t, (union stx_scalar){ .i = 1 });
	stx_ev r = one, p = x, rest, odd;

	for (int i = 0; i < n; i++) {
		stx_ev bit = OP(AND, t, y,
				b->constant(b->ctx, t,
					    (union stx_scalar){ .i = (int64_t)((uint64_t)1 << i) }),
				0);

		r = OP(SELECT, t, OP(NE, STX_BOOL, bit, zero, 0), OP(MUL, t, r, p, 0), r);
		if (i + 1 < n)
			p = OP(MUL, t, p, p, 0);
	}
	if (!is_signed)
		return r;
	stx_ev minus = b->constant(b->ctx, t, (union stx_scalar){ .i = -1 });

	odd = OP(NE, STX_BOOL, OP(AND, t, y, one, 0), zero, 0);
	rest = OP(SELECT, t, OP(EQ, STX_BOOL, x, minus, 0), OP(SELECT, t, odd, minus, one), zero);
	rest = OP(SELECT, t, OP(EQ, STX_BOOL, x, one, 0), one, rest);
	return OP(SELECT, t, OP(LT, STX_BOOL, y, zero, 0), rest, r);
#undef OP
}
