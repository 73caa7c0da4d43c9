/* elementary_reduce.c: f64 arguments of sine, cosine and tangent modulo pi/2 (Payne and Hanek).
 *
 * 2/pi = sum of c[j] * 2^(-24 j), |c[j]| <= 2^23. x = y * 2^(24 k), where k leaves out the digits
 * whose products with x are multiples of 4; nine digits from k on give the fraction to 2^-120, and
 * no double is nearer to a multiple of pi/2 than 2^-61. y is cut in halves of 26 bits, so products
 * by digits are exact, and so are sums of two neighbouring ones. Digits are chosen by shifting the
 * whole row by the bits of k: no look-ups. */
#include "elementary_body.h"

#define DIGITS 9
/* c[j]; k is 41 at most */
static const double two_over_pi[41 + DIGITS] = {
	1,        -6096509, 7228996,  1387004,  2578386,  -707362,  -4138141, -6973124, 4427842,
	-110236,  -5513540, -3841609, 2387514,  4345299,  -2095543, 3074570,  -3042787, -123413,
	1880362,  -5816599, -8243723, 3062597,  -8066660, 7349940,  6258241,  3772886,  3769171,
	3798173,  -8102004, -4327128, 3874809,  -6815778, 366608,   -1102062, -7644662, 7151469,
	3571407,  2607882,  -4763834, 4155038,  6285869,  7677883,  -3675162, -951491,  473592,
	-7712109, -1414149, 6271264,  -7512824, 5636912
};

/* k = floor((exponent of x - 30) / 24), 0 at least: as a float. */
static stx_ev skipped_digits(const struct el *e, stx_ev x)
{
	stx_ev biased = iand(e, ilshr(e, bits(e, x), 52), 0x7ff), k;

	k = subk(e, unbits(e, ior(e, biased, 0x4330000000000000)), 0x1p52); /* to float */
	/* a half away from multiples of 1/24, so that rounding does not matter */
	k = mulk(e, subk(e, k, 1023 + 30 - 0.5), 1.0 / 24);
	return emit(e, STX_P_FLOOR, e->t, maxi(e, k, fk(e, 0)), 0, 0);
}

/* p[i] = c[i + k] for i < DIGITS; k as an integer. What a shift by 32 leaves for the others is
 * never used: k is 41 at most. */
static void choose_digits(const struct el *e, stx_ev k, stx_ev p[DIGITS])
{
	stx_ev v[32 + DIGITS];

	for (int i = 0; i < 32 + DIGITS - 1; i++)
		v[i] = fk(e, two_over_pi[i]);
	for (int shift = 32; shift; shift /= 2) {
		stx_ev on = ne(e, iand(e, k, shift), ik(e, 0));

		for (int i = 0; i < shift - 1 + DIGITS; i++) {
			if (shift < 32)
				v[i] = sel(e, on, v[i + shift], v[i]);
			else if (i < 41 - 32 + DIGITS)
				v[i] = sel(e, on, fk(e, two_over_pi[i + 32]), v[i]);
		}
	}
	for (int i = 0; i < DIGITS; i++)
		p[i] = v[i];
}

static stx_ev mod4(const struct el *e, stx_ev v)
{
	stx_ev q = emit(e, STX_P_RINT, e->t, mulk(e, v, 0.25), 0, 0);

	return sub(e, v, mulk(e, q, 4)); /* exact: the result's bits are some of v's */
}

/* s[0] + s[1] + ... = x * 2/pi modulo 4; s[0] + s[1] is exact, each but the first four is below
 * 2^(78 - 24 i). */
static void terms(const struct el *e, stx_ev x, stx_ev s[DIGITS])
{
	stx_ev kf = skipped_digits(e, x), k = bits(e, addk(e, kf, 0x1p52)), p[DIGITS], y, hi, lo;
	stx_ev k24;

	/* 2^(-24 k), from the exponent's bits */
	k24 = iadd(e, ishl(e, k, 4), ishl(e, k, 3));
	k24 = isub(e, ik(e, 1023), iand(e, k24, 0x3ff));
	y = mul(e, x, unbits(e, ishl(e, k24, 52)));
	choose_digits(e, k, p);
	hi = head(e, addk(e, y, 0));
	lo = sub(e, y, hi);
	s[0] = mul(e, hi, p[0]);
	hi = mulk(e, hi, 0x1p-24);
	for (int i = 1; i < DIGITS; i++) {
		double scale = 1;

		for (int j = 1; j < i; j++)
			scale *= 0x1p-24;
		s[i] = add(e, mul(e, lo, p[i - 1]), mul(e, hi, p[i]));
		s[i] = i > 1 ? mulk(e, s[i], scale) : s[i];
	}
	for (int i = 0; i < 4; i++)
		s[i] = mod4(e, s[i]);
}

struct dd stx__el_reduce_f64(const struct el *e, stx_ev x, stx_ev *n_bits)
{
	stx_ev s[DIGITS], n, t, low;
	struct dd a, b, c, d, lost;

	terms(e, x, s);
	a = two_sum(e, add(e, s[0], s[1]), s[2]);
	b = two_sum(e, a.h, s[3]);
	t = addk(e, b.h, magic(e));
	n = subk(e, t, magic(e));
	/* The fraction: what is left of the largest terms may cancel down to 2^-61. */
	lost = two_sum(e, a.l, b.l);
	a = two_sum(e, sub(e, b.h, n), s[4]);
	b = two_sum(e, a.h, s[5]);
	c = two_sum(e, b.h, lost.h);
	low = add(e, add(e, a.l, b.l), add(e, c.l, lost.l));
	low = add(e, low, add(e, s[6], add(e, s[7], s[8])));
	d = two_sum(e, c.h, low);
	*n_bits = bits(e, t);
	/* times pi/2 */
	a = two_prod(e, d.h, fk(e, 0x1.921fb54442d18p+0));
	a.l = add(e, a.l,
		  add(e, mulk(e, d.h, 0x1.1a62633145c07p-54), mulk(e, d.l, 0x1.921fb54442d18p+0)));
	return fast_sum(e, a.h, a.l);
}
