/* elementary_erf.c: the error function and its complement.
 *
 * erfc(x) = e^(-x^2) * P(t) / (1 + 2x) for x >= 0, t = (x-k)/(x+k), after Shepherd and Laframboise
 * (Math. Comp. 36, 1981): P stays within [1, 1.29], so that its first coefficient carries the
 * accuracy. Relative errors beside the tables. */
#include "elementary_body.h"

/* erf(x)/x - 1 in x^2, |x| <= 0.9219; 2^-30, 2^-56.2. f32 coefficients are rounded one after the
 * other, each fit knowing those before. */
static const double erf_f32[] = { 0x1.06eba8p-3, -0x1.81274p-2,   0x1.ce2d64p-4, -0x1.b80124p-6,
				  0x1.544b06p-8, -0x1.a617e2p-11, 0x1.4fa82p-14 };
static const double erf_f64[] = { 0x1.06eba8214db69p-3,  -0x1.812746b037a24p-2,
				  0x1.ce2f21a04571fp-4,  -0x1.b82ce31346765p-6,
				  0x1.565bcd28e864dp-8,  -0x1.c02db842cad7dp-11,
				  0x1.f9a391d50c598p-14, -0x1.f4d8cc1712d31p-17,
				  0x1.ba20858c71166p-20, -0x1.605a2f23ef9c3p-23,
				  0x1.f8cce7e051e7ep-27, -0x1.0e915e7e953fbp-30 };
/* log2(erfc(1+b)/erfc(1))/b on [-0.12, 3], of f64 [-0.3, 4.95], and erfc(1) * 2^r on |r| <= 1/2; errors
 * relative to erf: 2^-30, 2^-28; 2^-57, 2^-60 */
static const double erf_tail_f32[] = { -0x1.e75328p+1, -0x1.37627cp+0, -0x1.eb3e4ap-5,
				       0x1.db0c6cp-7,  -0x1.7b6298p-9, 0x1.a7a006p-12,
				       -0x1.b947c4p-16 };
static const double erf_exp2_f32[] = { 0x1.422616p-3,  0x1.be97dp-4,   0x1.358e22p-5, 0x1.1e16f8p-7,
				       0x1.8c7c14p-10, 0x1.b90306p-13, 0x1.a64dd4p-16 };
static const double erf_tail_f64[] = {
	-0x1.e75328fe78c5dp+1,  -0x1.37627e9b5c1a9p+0,  -0x1.eb31368a10384p-5,
	0x1.da5764d61b179p-7,   -0x1.7603efcf4bf0cp-9,  0x1.6704dc0259d67p-12,
	0x1.3dede0cdd878dp-15,  -0x1.487793aae9d56p-15, 0x1.cfa1f5fc9994ep-17,
	-0x1.86f4e45b4d9ccp-19, 0x1.4027d1786638cp-23,  0x1.87c085d6a934cp-23,
	-0x1.a4ddd493e4522p-24, 0x1.097711b61be0bp-25,  -0x1.ddaf80e8360f2p-28,
	0x1.371a9eb08fb29p-30,  -0x1.17ffebd439c24p-33, 0x1.374d998978f14p-37,
	-0x1.4108ace13e3f6p-42
};
#define ERFC_1_HI 0x1.422p-3 /* erfc(1) */
#define ERFC_1_LO 0x1.858bef7753930p-17
static const double erf_exp2_f64[] = {
	0x1.be97d0ec5498ep-4,  0x1.358e00de66005p-5,  0x1.1e16dbc219cdap-7,  0x1.8c9a9dd019c8dp-10,
	0x1.b7d90e8e5ea8ap-13, 0x1.9681795374986p-16, 0x1.42055c1ca01c7p-19, 0x1.be69fa34dba04p-23,
	0x1.130ca81b23503p-26, 0x1.31dfe392daa63p-30, 0x1.346052394f50ap-34
};
/* erfc(x) e^(x^2) (1+2x): k = 3, x <= 11, 2^-33.6; k = 4, x <= 28, 2^-56.2 with the rest of c[0] */
static const double erfc_lite[] = { 0x1.40c522d7c55ebp+0,   -0x1.15c084df32524p-3,
				    -0x1.85a15aa050f1cp-5,  0x1.09836df577f40p-3,
				    -0x1.e88b88d4e1ae5p-4,  0x1.17c94c831b944p-4,
				    -0x1.857658809f252p-6,  0x1.4c2e4da71fc20p-9,
				    0x1.f09abc6e982bcp-10,  -0x1.9ee7ad9df7a45p-11,
				    -0x1.0bf96907d4aabp-13, 0x1.0a0b4977c1489p-13,
				    0x1.17bf893786593p-15 };
static const double erfc_f64[] = {
	0x1.3ba5916e9fd7fp+0,   -0x1.1df1ad154a28ep-3,  0x1.f7f5df66fd7b5p-7,
	0x1.16ecefcfa539fp-4,   -0x1.9ddb23c3e90bdp-4,  0x1.7fee004e1239ep-4,
	-0x1.0fb06dfe492f7p-4,  0x1.3079edf686ea5p-5,   -0x1.096238852a9fcp-6,
	0x1.49c672849ea14p-8,   -0x1.8d4a99b4b2dd1p-11, -0x1.a1df23f69b79bp-13,
	0x1.3be036643de8fp-13,  -0x1.9959822aa4b4ep-16, -0x1.788279a7ccb3cp-17,
	0x1.7f2c5c8ec5d30p-18,  0x1.38b2e0eb4a04bp-22,  -0x1.bb60481a7ad5ap-21,
	0x1.50574e6c2e71fp-24,  0x1.dd8f8b4ee1255p-24,  -0x1.6ab00acf17e60p-26,
	-0x1.0a397f21020f7p-26, 0x1.caf09de37e3c0p-29,  0x1.1f46d2a2ddf67p-29,
	-0x1.2e143a04212abp-32, -0x1.86e228fbebf8ap-33
};
#define ERFC_F64_LO -0x1.aa3ba24930030p-55

/* P' of erfc_f64 on [-0.8, 0.75], to 2^-11 */
static const double erfc_slope[] = { -0.139706, 0.027466,  0.208674, -0.360911,
				     0.436439,  -0.539605, 0.330732 };

/* erfc(a) * 2^-n in two parts, for 1/2 <= a <= 28 */
static struct dd erfc_parts(const struct el *e, stx_ev a, stx_ev *n)
{
	struct dd z = two_prod(e, a, a), t, p, f, q;
	struct stx__el_exp_parts d = stx__el_exp_reduce(e, neg(e, z.h));
	stx_ev rest;

	t = dd_quo(e, two_sum(e, a, fk(e, -4)), two_sum(e, a, fk(e, 4)));
	rest = poly(e, t.h, erfc_f64 + 1, (int)(sizeof(erfc_f64) / sizeof *erfc_f64) - 1);
	p = fast_sum(e, fk(e, erfc_f64[0]), mul(e, t.h, rest));
	p.l = add(e, addk(e, p.l, ERFC_F64_LO), mul(e, t.l, POLY(e, t.h, erfc_slope)));
	f = stx__el_exp_two(e, d);
	f.l = sub(e, f.l, mul(e, f.h, z.l));
	q = dd_quo(e, dd_mul(e, f, p), two_sum(e, fk(e, 1), add(e, a, a)));
	*n = d.n;
	return q;
}

/* 1 - erfc(1) 2^(n + r), n from its bits: of erfc(1) 2^n the head is exact, and so is what 1 less that
 * loses. */
static stx_ev erf_tail(const struct el *e, stx_ev n_bits, stx_ev r)
{
	stx_ev p = iaddk(e, n_bits, exp_bias(e) - magic_bits(e)), big, u, lost;

	p = unbits(e, ishl(e, p, mant_bits(e)));
	r = mul(e, p, addk(e, mul(e, r, POLY(e, r, erf_exp2_f64)), ERFC_1_LO));
	big = mulk(e, p, ERFC_1_HI);
	u = ksub(e, 1, big);
	lost = sub(e, ksub(e, 1, u), big);
	return add(e, u, sub(e, lost, r));
}

/* x + x*P below 0.86 (f64: 0.7); above 1 - erfc(1) 2^t, whose power of two is added to the exponent's
 * bits. */
stx_ev stx__el_erf(const struct el *e, stx_ev x)
{
	int f64 = is_f64(e);
	stx_ev a = mini(e, mag(e, x), fk(e, f64 ? 5.95 : 4)), z = mul(e, a, a), b = subk(e, a, 1),
	       bb;
	stx_ev t, n, tail, small;

	bb = mul(e, b, b);
	t = mul(e, b, f64 ? POLY2(e, b, bb, erf_tail_f64) : POLY2(e, b, bb, erf_tail_f32));
	n = addk(e, t, magic(e));
	small = add(e, a, mul(e, a, f64 ? POLY(e, z, erf_f64) : POLY(e, z, erf_f32)));
	tail = sub(e, t, subk(e, n, magic(e)));
	if (f64) {
		tail = erf_tail(e, bits(e, n), tail);
	} else {
		tail = bits(e, POLY(e, tail, erf_exp2_f32));
		tail = ksub(e, 1, unbits(e, iadd(e, tail, ishl(e, bits(e, n), 23))));
	}
	return sign_of(e, sel(e, gt(e, a, fk(e, f64 ? 0x1.68p-1 : 0x1.b8p-1)), tail, small), x);
}

/* Below 1/2 as 1 - erf(x); 2 - erfc(-x) below 0. */
stx_ev stx__el_erfc(const struct el *e, stx_ev x)
{
	struct el w = el_make(e->b, STX_F64);
	int f64 = is_f64(e);
	stx_ev a = mini(&w, mag(&w, f64 ? x : widen(&w, x)), fk(&w, f64 ? 28 : 11)), r, left;

	if (f64) {
		stx_ev n;
		struct dd q = erfc_parts(e, a, &n), s, one = fast_sum(e, fk(e, 1), neg(e, x));
		stx_ev small = mul(e, x, POLY(e, mul(e, x, x), erf_f64));

		small = add(e, one.h, sub(e, one.l, small));
		r = scale(e, add(e, q.h, q.l), n);
		s = fast_sum(e, fk(e, 2), neg(e, scale(e, q.h, n)));
		left = add(e, s.h, sub(e, s.l, scale(e, q.l, n)));
		left = sel(e, lt(e, a, fk(e, 0.5)), small, left);
		r = sel(e, lt(e, a, fk(e, 0.5)), small, r);
	} else {
		stx_ev t = quo(&w, subk(&w, a, 3), addk(&w, a, 3));

		r = mul(&w, stx__el_exp_short(&w, neg(&w, mul(&w, a, a))), POLY(&w, t, erfc_lite));
		r = quo(&w, r, addk(&w, add(&w, a, a), 1));
		left = narrow(e, ksub(&w, 2, r));
		r = narrow(e, r);
	}
	return sel(e, lt(e, x, fk(e, 0)), left, r);
}
