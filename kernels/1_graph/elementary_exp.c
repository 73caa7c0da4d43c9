/* elementary_exp.c: exp and what is made of it: exp2, expm1, tanh, sigmoid, softplus, sinh, cosh.
 *
 * x = n*ln2 + r with |r| <= ln2/2 (Cody and Waite, two parts of ln2: n*hi is exact), e^r by a
 * minimax polynomial (Remez; relative errors beside the tables), 2^n through the exponent bits.
 * Values that must stay NaN pass through max/min, where NaN wins. */
#include "elementary_body.h"

#include <math.h>

/* (e^r - 1 - r)/r^2 on |r| <= 0.3483; error relative to e^r - 1: 2^-28.2, 2^-59.3 */
static const double exp_f32[] = { 0x1p-1,        0x1.55552cp-3,  0x1.555502p-5,
				  0x1.1155a8p-7, 0x1.6d2e4ap-10, 0x1.3b8972p-13 };
/* The same for e^r itself: error relative to it, 2^-28, 2^-57.9 */
static const double exp_itself_f32[] = { 0x1p-1, 0x1.5554a2p-3, 0x1.55568ap-5, 0x1.123094p-7,
					 0x1.6b6df2p-10 };
static const double exp_itself_f64[] = { 0x1.000000000000ap-1,  0x1.5555555555502p-3,
					 0x1.555555555067cp-5,  0x1.1111111125cd3p-7,
					 0x1.6c16c1848d00bp-10, 0x1.a01a013486312p-13,
					 0x1.a01999147ccdfp-16, 0x1.71df0eefbb65fp-19,
					 0x1.28ae4c2673054p-22, 0x1.ada2b1965f5cep-26 };
static const double exp_f64[] = { 0x1p-1,
				  0x1.5555555555555p-3,
				  0x1.5555555555559p-5,
				  0x1.1111111111104p-7,
				  0x1.6c16c16c14d0ap-10,
				  0x1.a01a01a020d74p-13,
				  0x1.a01a01adf4cf3p-16,
				  0x1.71de3a3cbc3bfp-19,
				  0x1.27e4cb8ef392ep-22,
				  0x1.ae649aac595c0p-26,
				  0x1.1f8c40cea3f80p-29,
				  0x1.61282eebda934p-33 };
/* (e^r - 1)/r, 2^-34.2 */
static const double exp_lite[] = { 0x1.ffffffffc372cp-1, 0x1.0000004600900p-1,
				   0x1.555555bb9fb87p-3, 0x1.55547a8fda942p-5,
				   0x1.11106288713efp-7, 0x1.6d9b5b40e147cp-10,
				   0x1.a1d109d84223cp-13 };
/* (2^r - 1)/r - 1/2 on |r| <= 1/2; 2^-28.7, 2^-61 */
static const double exp2_f32[] = { 0x1.8b90c2p-3, 0x1.ebfbdcp-3,  0x1.c6af0ep-5,
				   0x1.3b2d96p-7, 0x1.5f3116p-10, 0x1.41bc6p-13 };
static const double exp2_f64[] = {
	0x1.8b90bfbe8e7bdp-3,  0x1.ebfbdff82c58fp-3,  0x1.c6b08d704a0d1p-5,  0x1.3b2ab6fba4d50p-7,
	0x1.5d87fe78a23fdp-10, 0x1.430912f8bb960p-13, 0x1.ffcbfc74f9025p-17, 0x1.62c0211649c57p-20,
	0x1.b524de4158a65p-24, 0x1.e4d30eebcc006p-28, 0x1.e9fe789f2385ap-32, 0x1.bf92c5c75ad7bp-36
};
/* (tanh(x)/x - 1)/z in z = x^2, |x| <= 0.88; 2^-30, coefficients rounded one after the other */
static const double tanh_poly_f32[] = { -0x1.55555p-2,  0x1.110fap-3,   -0x1.b9d892p-5,
					0x1.63652ap-6,  -0x1.10ae8ep-7, 0x1.59fa7ap-9,
					-0x1.f4d288p-12 };
/* sinh(x)/x in x^2 on [0,1]; 2^-34.3 */
static const double sinh_lite[] = { 0x1.00000000328d1p+0, 0x1.55555504199f0p-3,
				    0x1.11113a6d23382p-7, 0x1.9ffcb5091e01bp-13,
				    0x1.7a4bbefda5a74p-19 };
/* 1/3!, 1/5!, ...: (sinh(x)/x - 1)/x^2 on [0,1]; 2^-65 */
static const double sinh_f64[] = { 0x1.5555555555555p-3,  0x1.1111111111111p-7,
				   0x1.a01a01a01a01ap-13, 0x1.71de3a556c734p-19,
				   0x1.ae64567f544e4p-26, 0x1.6124613a86d09p-33,
				   0x1.ae7f3e733b81fp-41, 0x1.952c77030ad4ap-49,
				   0x1.2f49b46814157p-57 };

/* x = n ln2 + r; r = hi - lo, n*ln2's head exact */
struct reduced {
	stx_ev n, hi, lo, r, rr;
};

static struct reduced reduce(const struct el *e, stx_ev x)
{
	int w = is_f64(e);
	stx_ev n = nearest(e, mulk(e, x, 0x1.71547652b82fep+0));
	stx_ev hi = sub(e, x, mulk(e, n, w ? 0x1.62e42feep-1 : 0x1.63p-1));
	stx_ev lo = mulk(e, n, w ? 0x1.a39ef35793c76p-33 : -0x1.bd0106p-13);
	stx_ev r = sub(e, hi, lo);

	return (struct reduced){ n, hi, lo, r, mul(e, r, r) };
}

static struct stx__el_exp_parts exp_parts(const struct el *e, struct reduced d, stx_ev p)
{
	return (struct stx__el_exp_parts){ d.n, d.hi, sub(e, mul(e, d.rr, p), d.lo) };
}

/* Without the first coefficient */
#define REST2(e, x, xx, c) poly2(e, x, xx, (c) + 1, (int)(sizeof(c) / sizeof *(c)) - 1)

struct stx__el_exp_parts stx__el_exp_reduce(const struct el *e, stx_ev x)
{
	struct reduced d = reduce(e, x);

	return exp_parts(e, d,
			 is_f64(e) ? POLY2(e, d.r, d.rr, exp_f64) : POLY2(e, d.r, d.rr, exp_f32));
}

/* e^x alone needs fewer terms. The first is added last: sums before it are small, and so are their
 * roundings. */
struct stx__el_exp_parts stx__el_exp_itself(const struct el *e, stx_ev x)
{
	struct reduced d = reduce(e, x);
	stx_ev p = is_f64(e) ? REST2(e, d.r, d.rr, exp_itself_f64)
			     : REST2(e, d.r, d.rr, exp_itself_f32);

	p = addk(e, mul(e, d.r, p), is_f64(e) ? exp_itself_f64[0] : exp_itself_f32[0]);
	return exp_parts(e, d, p);
}

struct dd stx__el_exp_two(const struct el *e, struct stx__el_exp_parts d)
{
	struct dd s = fast_sum(e, fk(e, 1), d.r);

	return fast_sum(e, s.h, add(e, s.l, d.q));
}

static stx_ev clamp(const struct el *e, stx_ev x, double lo, double hi)
{
	return mini(e, maxi(e, x, fk(e, lo)), fk(e, hi));
}

stx_ev stx__el_exp_fraction(const struct el *e, struct stx__el_exp_parts d)
{
	return addk(e, add(e, d.r, d.q), 1);
}

stx_ev stx__el_exp(const struct el *e, stx_ev x)
{
	struct stx__el_exp_parts d =
		stx__el_exp_itself(e, is_f64(e) ? clamp(e, x, -746, 710) : clamp(e, x, -104, 89));

	return scale(e, stx__el_exp_fraction(e, d), d.n);
}

/* Half of the first term is exact: what is rounded is small. */
stx_ev stx__el_exp2(const struct el *e, stx_ev x)
{
	stx_ev c = is_f64(e) ? clamp(e, x, -1076, 1025) : clamp(e, x, -151, 129);
	stx_ev n = nearest(e, c), r = sub(e, c, n);
	stx_ev p = mul(e, r, is_f64(e) ? POLY(e, r, exp2_f64) : POLY(e, r, exp2_f32));

	return scale(e, addk(e, add(e, mulk(e, r, 0.5), p), 1), n);
}

/* 2^-n for n up to the bias, 0 beyond */
static stx_ev pow2_minus(const struct el *e, struct stx__el_exp_parts d)
{
	stx_ev i = isub(e, ik(e, exp_bias(e) + magic_bits(e)), whole_bits(e, d.n));

	return unbits(e, ishl(e, emit(e, STX_P_MAX, e->it, i, ik(e, 0), 0), mant_bits(e)));
}

/* (e^x - 1) * 2^-n: the sum of 1 - 2^-n, in two parts when n is large, and the exact r is carried
 * in two parts, q is small. The sign of a zero is lost. */
static struct dd expm1_fraction(const struct el *e, struct stx__el_exp_parts d, stx_ev inv)
{
	stx_ev k = ksub(e, 1, inv), lost = sub(e, ksub(e, 1, k), inv);
	struct dd s = fast_sum(e, k, d.r);

	return fast_sum(e, s.h, add(e, s.l, add(e, lost, d.q)));
}

/* As exp_reduce, r^2/2 apart: the rest is rounded where it is smaller. */
static struct stx__el_exp_parts exp_reduce_finely(const struct el *e, stx_ev x)
{
	struct reduced d = reduce(e, x);
	stx_ev p = is_f64(e)
			   ? poly(e, d.r, exp_f64 + 1, (int)(sizeof exp_f64 / sizeof *exp_f64) - 1)
			   : poly(e, d.r, exp_f32 + 1, (int)(sizeof exp_f32 / sizeof *exp_f32) - 1);
	stx_ev q = add(e, mulk(e, d.rr, 0.5), sub(e, mul(e, d.rr, mul(e, d.r, p)), d.lo));

	return (struct stx__el_exp_parts){ d.n, d.hi, q };
}

stx_ev stx__el_expm1(const struct el *e, stx_ev x)
{
	struct stx__el_exp_parts d =
		exp_reduce_finely(e, is_f64(e) ? clamp(e, x, -40, 710) : clamp(e, x, -20, 89));

	return sign_of(e, scale(e, expm1_fraction(e, d, pow2_minus(e, d)).h, d.n), x);
}

/* a polynomial below 13/16; above 1 - 2/(e^2a + 1), both divided by 2^n, the sum rounded once */
static stx_ev tanh_f32(const struct el *e, stx_ev x)
{
	stx_ev a = mini(e, mag(e, x), fk(e, 9.5)), z = mul(e, a, a), inv, big;
	struct stx__el_exp_parts d = stx__el_exp_reduce(e, add(e, a, a));
	stx_ev small = add(e, a, mul(e, a, mul(e, z, POLY(e, z, tanh_poly_f32))));
	struct dd s;

	inv = pow2_minus(e, d);
	s = fast_sum(e, addk(e, inv, 1), d.r);
	big = ksub(e, 1, ratio(e, add(e, inv, inv), add(e, s.h, add(e, s.l, d.q))));
	return sign_of(e, sel(e, gt(e, a, fk(e, 0.8125)), big, small), x);
}

/* E/(E + 2) with E = e^2a - 1, both divided by 2^n */
stx_ev stx__el_tanh(const struct el *e, stx_ev x)
{
	if (!is_f64(e))
		return tanh_f32(e, x);
	stx_ev a = mini(e, mag(e, x), fk(e, 20));
	struct stx__el_exp_parts d = stx__el_exp_reduce(e, add(e, a, a));
	stx_ev inv = pow2_minus(e, d);
	struct dd num = expm1_fraction(e, d, inv), den = dd_add(e, num, dd_of(e, add(e, inv, inv)));
	struct dd q = dd_quo(e, num, den);

	/* an argument so small is its own; products of subnormals have no low half */
	return sign_of(e, sel(e, lt(e, a, fk(e, 0x1p-28)), a, add(e, q.h, q.l)), x);
}

stx_ev stx__el_exp_short(const struct el *w, stx_ev x)
{
	stx_ev t = addk(w, mulk(w, x, 0x1.71547652b82fep+0), magic(w));
	stx_ev r = sub(w, x, mulk(w, subk(w, t, magic(w)), 0x1.62e42fefa39efp-1));
	stx_ev n = iaddk(w, bits(w, t), exp_bias(w) - magic_bits(w));

	return mul(w, addk(w, mul(w, r, POLY(w, r, exp_lite)), 1), unbits(w, ishl(w, n, 52)));
}

/* e^x of f64 in two parts, scaled */
static struct dd exp_dd(const struct el *e, struct stx__el_exp_parts d, int plus)
{
	struct dd f = stx__el_exp_two(e, d);
	stx_ev n = plus ? addk(e, d.n, plus) : d.n;

	return (struct dd){ scale(e, f.h, n), scale(e, f.l, n) };
}

/* c[0] - x*(c[1] - x*(...)) by fours */
static stx_ev of_minus(const struct el *e, stx_ev x, stx_ev xx, const double *c, int n)
{
	stx_ev x4 = mul(e, xx, xx), r = 0, four;

	for (int i = (n - 1) & ~3; i >= 0; i -= 4) {
		four = fk(e, c[i]);
		if (i + 1 < n)
			four = sub(e, four, mulk(e, x, c[i + 1]));
		if (i + 3 < n)
			four = add(e, four,
				   mul(e, sub(e, fk(e, c[i + 2]), mulk(e, x, c[i + 3])), xx));
		r = i + 4 < n ? add(e, four, mul(e, r, x4)) : four;
	}
	return r;
}
#define OF_MINUS(e, x, xx, c) of_minus(e, x, xx, c, (int)(sizeof(c) / sizeof *(c)))

/* With y = -|x| = n*ln2 + r: e^y/(1 + e^y) = 2^n/D, D = 2^n + e^-r = 2^n + 1 - r + q; one less that for
 * positive x. h + l = D, of which h and s, heads of D and 1/D, have an exact product: 1/D = s +
 * (1 - s*D)/D, rounded once. 2^n is applied last, so that tiny results are as good. */
stx_ev stx__el_sigmoid(const struct el *e, stx_ev x)
{
	struct reduced d = reduce(e, maxi(e, neg(e, mag(e, x)), fk(e, is_f64(e) ? -746 : -104)));
	stx_ev q, u, whole, near, h, s, l, rest, left;

	q = is_f64(e) ? OF_MINUS(e, d.r, d.rr, exp_itself_f64)
		      : OF_MINUS(e, d.r, d.rr, exp_itself_f32);
	q = add(e, mul(e, d.rr, q), d.lo);
	u = sub(e, scale(e, fk(e, 1), d.n), d.hi);
	whole = addk(e, add(e, u, q), 1);
	near = rcp(e, whole);
	h = head(e, whole);
	s = head(e, near);
	l = add(e, sub(e, u, subk(e, h, 1)), q);
	rest = sub(e, ksub(e, 1, mul(e, s, h)), mul(e, s, l));
	left = scale(e, add(e, s, mul(e, near, rest)), d.n);
	return sel(e, lt(e, x, fk(e, 0)), left, ksub(e, 1, left));
}

/* log(1 + e^x); above 40 that is x */
stx_ev stx__el_softplus(const struct el *e, stx_ev x)
{
	struct el w = el_make(e->b, STX_F64);
	stx_ev r;

	if (is_f64(e)) {
		struct dd t = exp_dd(e, stx__el_exp_reduce(e, clamp(e, x, -746, 40)), 0);

		r = stx__el_log1p_sum(e, t.h, &t.l);
	} else {
		r = stx__el_exp_short(&w, widen(&w, clamp(e, x, -110, 40)));
		r = narrow(e, stx__el_log1p_short(&w, r));
	}
	return sel(e, lt(e, x, fk(e, 40)), r, x); /* NaN is its own, too */
}

static stx_ev sinh_f32(const struct el *e, stx_ev x)
{
	struct el w = el_make(e->b, STX_F64);
	stx_ev a = mini(&w, mag(&w, widen(&w, x)), fk(&w, 100)), t = stx__el_exp_short(&w, a);
	stx_ev big = mulk(&w, sub(&w, t, quo(&w, fk(&w, 1), t)), 0.5);
	stx_ev small = mul(&w, a, POLY(&w, mul(&w, a, a), sinh_lite));

	return sign_of(e, narrow(e, sel(&w, lt(&w, a, fk(&w, 1)), small, big)), x);
}

/* A polynomial below 1; h - 1/(4h) with h = e^a/2 in two parts above. */
stx_ev stx__el_sinh(const struct el *e, stx_ev x)
{
	if (!is_f64(e))
		return sinh_f32(e, x);
	stx_ev a = mini(e, mag(e, x), fk(e, 712)), z = mul(e, a, a), small, big;
	struct dd h = exp_dd(e, stx__el_exp_reduce(e, a), -1);

	small = add(e, a, mul(e, mul(e, a, z), POLY(e, z, sinh_f64)));
	big = add(e, h.h, sub(e, h.l, quo(e, fk(e, 0.25), h.h)));
	return sign_of(e, sel(e, lt(e, a, fk(e, 1)), small, big), x);
}

static stx_ev cosh_f32(const struct el *e, stx_ev x)
{
	struct el w = el_make(e->b, STX_F64);
	stx_ev a = mini(&w, mag(&w, widen(&w, x)), fk(&w, 100)), t = stx__el_exp_short(&w, a);

	return narrow(e, mulk(&w, add(&w, t, quo(&w, fk(&w, 1), t)), 0.5));
}

/* h + g with h = e^a/2 in two parts and g = 1/(4h), of which h.l changes the sum by 1 - 4g^2. */
stx_ev stx__el_cosh(const struct el *e, stx_ev x)
{
	if (!is_f64(e))
		return cosh_f32(e, x);
	struct dd h = exp_dd(e, stx__el_exp_reduce(e, mini(e, mag(e, x), fk(e, 712))), -1);
	stx_ev g = quo(e, fk(e, 0.25), h.h), l = mul(e, h.l, ksub(e, 1, mulk(e, mul(e, g, g), 4)));

	return add(e, h.h, add(e, g, l));
}
