/* elementary_short.c: functions inside composites. short_*: results that f16 or bf16 round, in f32
 * arithmetic with errors below 2^-16. near_*: of f32, a few ulp, where a composite's own steps lose
 * as much.
 *
 * 2^t by a polynomial of degree 4; what may be subnormal gets a last factor by a multiplication,
 * which rounds. The normal distribution is cdf(-a) = e^(-a^2/2) * R(a) with R a rational function
 * (Mills ratio). For f64 they are the functions themselves. */
#include "elementary_body.h"

#include <math.h>

#define LOG2E 0x1.715476p+0

/* (2^r - 1)/r on |r| <= 1/2: errors relative to 2^r, 2^-18.4; relative to 2^r - 1, 2^-16 */
static const double exp2_near_0[] = { 0x1.62e12cp-1, 0x1.ec0378p-3, 0x1.c9fc46p-5, 0x1.3a02ccp-7 };
static const double exp2_less_1[] = { 0x1.62e2d6p-1, 0x1.ebff08p-3, 0x1.c96b48p-5, 0x1.3b2a9p-7 };
/* 2^r by the first, times 2^64: with a power of two from 2^-154 on it is normal, and so is what is
 * divided by 2^64 here; the product of the two rounds once. */
#define LIFTED 0x1p+64
static const double exp2_lifted[] = { 0x1.62e12cp+63, 0x1.ec0378p+61, 0x1.c9fc46p+59,
				      0x1.3a02ccp+57 };
/* cdf(-a) e^(a^2/2) = P(a)/Q(a), Q's last coefficient 1, half at 0: 2^-16 for a <= 5.9, where f16
 * ends, 2^-12 to 14 */
static const double mills_p[] = { 0x1.c25c8p-63, 0x1.dca618p-64, 0x1.9979cp-66 };
static const double mills_q[] = { 0x1.c25c8p+2, 0x1.2ae666p+3, 0x1.2e1496p+2 };
/* The same of the slope over (SLOPE_0 - a): 2^-15.2, 2^-11.2 */
#define SLOPE_0 0x1.80ead2p-1 /* the slope is 0 at -0.75179 */
static const double slope_p[] = { 0x1.35c1cep-63, 0x1.ace53ap-64, 0x1.9966eap-66 };
static const double slope_q[] = { 0x1.d1bed6p+1, 0x1.bdf41ap+1 };

/* c[0] + a*(c[1] + ... + a*(c[n-1] + a)) */
static stx_ev monic(const struct el *e, stx_ev a, const double *c, int n)
{
	stx_ev r = addk(e, a, c[n - 1]);

	for (int i = n - 2; i >= 0; i--)
		r = addk(e, mul(e, r, a), c[i]);
	return r;
}

/* t = n + r, n a whole number in the low bits of the result, |r| <= 1/2 */
static stx_ev whole_part(const struct el *e, stx_ev t, stx_ev *r)
{
	stx_ev m = addk(e, t, magic(e));

	*r = sub(e, t, subk(e, m, magic(e)));
	return ishl(e, bits(e, m), 23);
}

/* 2^(n + k), normal, from what whole_part gives. To multiply by it keeps NaN, whose bits may make any
 * n; to add n to the exponent's bits would not. */
static stx_ev two_to(const struct el *e, stx_ev n, int k)
{
	return unbits(e, iaddk(e, n, (int64_t)(exp_bias(e) + k) << mant_bits(e)));
}

/* 2^(t + k), normal */
static stx_ev power(const struct el *e, stx_ev t, int k)
{
	stx_ev r, n = whole_part(e, t, &r);

	return mul(e, addk(e, mul(e, r, POLY(e, r, exp2_near_0)), 1), two_to(e, n, k));
}

/* The square of e^(x/2), so that overflow and subnormal results round in the last product. */
stx_ev stx__el_short_exp(const struct el *e, stx_ev x)
{
	stx_ev h;

	if (is_f64(e))
		return stx__el_exp(e, x);
	x = mini(e, maxi(e, x, fk(e, -105)), fk(e, 90));
	h = power(e, mulk(e, x, LOG2E / 2), 0);
	return mul(e, h, h);
}

stx_ev stx__el_short_exp2(const struct el *e, stx_ev x)
{
	stx_ev h;

	if (is_f64(e))
		return stx__el_exp2(e, x);
	x = mini(e, maxi(e, x, fk(e, -151)), fk(e, 129));
	h = power(e, mulk(e, x, 0.5), 0);
	return mul(e, h, h);
}

stx_ev stx__el_short_rsqrt(const struct el *e, stx_ev x)
{
	return is_f64(e) ? stx__el_rsqrt(e, x) : quo(e, fk(e, 1), root(e, x));
}

/* 1/(1 + e^-x), the sum times 2^-26: it stays normal, and the last product reaches 0. */
stx_ev stx__el_short_sigmoid(const struct el *e, stx_ev x)
{
	stx_ev d;

	if (is_f64(e))
		return stx__el_sigmoid(e, x);
	x = mini(e, maxi(e, x, fk(e, -104.6)), fk(e, 68));
	d = addk(e, power(e, mulk(e, x, -LOG2E), -26), 0x1p-26);
	return mulk(e, rcp(e, d), 0x1p-26);
}

/* As short_sigmoid, to 2.5 ulp; of f64 the sum is times 2^-60. */
stx_ev stx__el_near_sigmoid(const struct el *e, stx_ev x)
{
	double low = is_f64(e) ? -746 : -104.6, high = is_f64(e) ? 40 : 68;
	int k = is_f64(e) ? -60 : -26;
	stx_ev tiny = fk(e, is_f64(e) ? 0x1p-60 : 0x1p-26);
	struct stx__el_exp_parts d =
		stx__el_exp_itself(e, neg(e, mini(e, maxi(e, x, fk(e, low)), fk(e, high))));
	stx_ev p = mul(e, stx__el_exp_fraction(e, d),
		       two_to(e, ishl(e, whole_bits(e, d.n), mant_bits(e)), k));

	return mul(e, rcp(e, add(e, p, tiny)), tiny);
}

/* erf(x/sqrt 2) = x P(x^2)/Q(x^2), Q monic: 2^-26 for |x| <= 5.35, where it is over 1; with the
 * roundings 2^-21 */
static const double erf_p[] = { 0x1.3d96f4p+19, 0x1.a638a2p+15, 0x1.d8b436p+12,
				0x1.088d08p+8,  0x1.4c3e28p+3,  0x1.3cbf5p-5 };
static const double erf_q[] = { 0x1.8e0a26p+19, 0x1.8da726p+17, 0x1.67e55ep+14, 0x1.787e3ap+10,
				0x1.d494eap+5 };

stx_ev stx__el_near_erf(const struct el *e, stx_ev x)
{
	stx_ev z, y;

	if (is_f64(e))
		return stx__el_erf(e, mulk(e, x, 0x1.6a09e667f3bcdp-1));
	z = mini(e, mul(e, x, x), fk(e, 28.6225));
	y = mul(e, x, ratio(e, POLY(e, z, erf_p), monic(e, z, erf_q, 5)));
	return mini(e, maxi(e, y, fk(e, -1)), fk(e, 1));
}

stx_ev stx__el_short_erf(const struct el *e, stx_ev x)
{
	return is_f64(e) ? stx__el_erf(e, x) : stx__el_near_erf(e, mulk(e, x, 0x1.6a09e6p+0));
}

/* log(1 + t)/t, t in [0, 1]: 2^-19.4 */
static const double log1p_near[] = { 1,
				     -0x1.ffe7bep-2,
				     0x1.535ba2p-2,
				     -0x1.e38f66p-3,
				     0x1.354deap-3,
				     -0x1.15eaf6p-4,
				     0x1.de0722p-7 };

/* max(x, 0) + log(1 + t), t = e^-|x| */
stx_ev stx__el_short_softplus(const struct el *e, stx_ev x)
{
	stx_ev t;

	if (is_f64(e))
		return stx__el_softplus(e, x);
	t = stx__el_short_exp(e, neg(e, mag(e, x)));
	t = mul(e, t, POLY2(e, t, mul(e, t, t), log1p_near));
	return add(e, maxi(e, x, fk(e, 0)), t);
}

/* E/(E + 2), E = e^2a - 1 = 2^n * (2^r - 1) + (2^n - 1) */
stx_ev stx__el_short_tanh(const struct el *e, stx_ev x)
{
	stx_ev r, n, m, s;

	if (is_f64(e))
		return stx__el_tanh(e, x);
	n = whole_part(e, mulk(e, mini(e, mag(e, x), fk(e, 10)), 2 * LOG2E), &r);
	s = two_to(e, n, 0);
	m = mul(e, mul(e, r, POLY(e, r, exp2_less_1)), s);
	m = add(e, m, subk(e, s, 1));
	return sign_of(e, mul(e, m, rcp(e, addk(e, m, 2))), x);
}

/* a = |x|, within what e^(-a^2/2) is not 0 for */
static stx_ev magnitude(const struct el *e, stx_ev x)
{
	return mini(e, mag(e, x), fk(e, 14.6));
}

/* e^(-a^2/2) * 2^64 * r, one less that for positive x. Where x is NaN r is too: lift need not be. */
static stx_ev both_tails(const struct el *e, stx_ev x, stx_ev a, stx_ev r)
{
	stx_ev t = mulk(e, mul(e, a, a), -LOG2E / 2), n = nearest(e, t), f = sub(e, t, n), tail;

	tail = addk(e, mul(e, f, POLY(e, f, exp2_lifted)), LIFTED);
	tail = mul(e, lift(e, tail, n), r);
	return sel(e, lt(e, x, fk(e, 0)), tail, ksub(e, 1, tail));
}

static stx_ev cdf_f64(const struct el *e, stx_ev x)
{
	return mulk(e, stx__el_erfc(e, mulk(e, x, -0x1.6a09e667f3bcdp-1)), 0.5);
}

stx_ev stx__el_short_cdf(const struct el *e, stx_ev x)
{
	stx_ev a, r;

	if (is_f64(e))
		return cdf_f64(e, x);
	a = magnitude(e, x);
	r = mul(e, POLY(e, a, mills_p), rcp(e, monic(e, a, mills_q, 3)));
	return both_tails(e, x, a, r);
}

stx_ev stx__el_short_slope(const struct el *e, stx_ev x)
{
	stx_ev a, r;

	if (is_f64(e)) {
		const double density = 0x1.9884533d43651p-2; /* 1/sqrt(2 pi) */

		r = mulk(e, stx__el_exp(e, mulk(e, mul(e, x, x), -0.5)), density);
		return add(e, cdf_f64(e, x), mul(e, x, r));
	}
	a = magnitude(e, x);
	r = mul(e, POLY(e, a, slope_p), rcp(e, monic(e, a, slope_q, 2)));
	return both_tails(e, x, a, mul(e, ksub(e, SLOPE_0, a), r));
}

enum stx_prim stx_elementary_for(enum stx_prim op, enum stx_dtype result)
{
	if (!stx_elementary_is_short(result))
		return op;
	switch (op) {
	case STX_P_EXP: return STX_P_SHORT_EXP;
	case STX_P_SIGMOID: return STX_P_SHORT_SIGMOID;
	case STX_P_TANH: return STX_P_SHORT_TANH;
	case STX_P_ERF: return STX_P_SHORT_ERF;
	case STX_P_SOFTPLUS: return STX_P_SHORT_SOFTPLUS;
	case STX_P_EXP2: return STX_P_SHORT_EXP2;
	case STX_P_LOG: return STX_P_SHORT_LOG;
	case STX_P_LOG2: return STX_P_SHORT_LOG2;
	case STX_P_LOG10: return STX_P_SHORT_LOG10;
	case STX_P_LOG1P: return STX_P_SHORT_LOG1P;
	case STX_P_RSQRT: return STX_P_SHORT_RSQRT;
	case STX_P_SIN: return STX_P_SHORT_SIN;
	case STX_P_COS: return STX_P_SHORT_COS;
	case STX_P_TAN: return STX_P_SHORT_TAN;
	case STX_P_ASIN: return STX_P_SHORT_ASIN;
	case STX_P_ACOS: return STX_P_SHORT_ACOS;
	case STX_P_ATAN: return STX_P_SHORT_ATAN;
	case STX_P_ATANH: return STX_P_SHORT_ATANH;
	default: return op;
	}
}
