/* elementary_exp.c: exp and what is made of it: exp2, expm1, tanh, sigmoid, sinh, cosh, erf.
 *
 * x = n*ln2 + r with |r| <= ln2/2 (Cody and Waite, two parts of ln2: n*hi is exact), e^r by a
 * minimax polynomial (Remez; relative errors beside the tables), 2^n through the exponent bits.
 * Values that must stay NaN pass through max/min, where NaN wins. */
#include "elementary_body.h"

/* (e^r - 1 - r)/r^2 on |r| <= 0.3483; error relative to e^r - 1: 2^-28.2, 2^-59.3 */
static const double exp_f32[] = { 0x1p-1,        0x1.55552cp-3,  0x1.555502p-5,
				  0x1.1155a8p-7, 0x1.6d2e4ap-10, 0x1.3b8972p-13 };
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
/* (2^r - 1)/r - ln2 (rounded) on |r| <= 1/2; 2^-27.6, 2^-61.6 */
#define LN2_F32 0x1.62e43p-1
#define LN2_F64 0x1.62e42fefa39efp-1
static const double exp2_f32[] = { 0x1.98a3dap-26, 0x1.ebfbe0p-3,  0x1.c6aeep-5,
				   0x1.3b29eap-7,  0x1.5f3c52p-10, 0x1.44541ap-13 };
static const double exp2_f64[] = {
	0x1.986eccbe41b53p-56, 0x1.ebfbdff82c58fp-3,  0x1.c6b08d704a0d1p-5,  0x1.3b2ab6fba4d50p-7,
	0x1.5d87fe78a23fdp-10, 0x1.430912f8bb960p-13, 0x1.ffcbfc74f9025p-17, 0x1.62c0211649c57p-20,
	0x1.b524de4158a65p-24, 0x1.e4d30eebcc006p-28, 0x1.e9fe789f2385ap-32, 0x1.bf92c5c75ad7bp-36
};
/* (tanh(x)/x - 1)/z in z = x^2, |x| <= 0.63; 2^-27.7 */
static const double tanh_poly_f32[] = { -0x1.555532p-2, 0x1.1106e4p-3, -0x1.b8318ap-5,
					0x1.51d4e0p-6, -0x1.744a38p-8 };
/* sinh(x)/x in x^2 on [0,1]; 2^-34.3 */
static const double sinh_lite[] = { 0x1.00000000328d1p+0, 0x1.55555504199f0p-3,
				    0x1.11113a6d23382p-7, 0x1.9ffcb5091e01bp-13,
				    0x1.7a4bbefda5a74p-19 };
/* erf(x)/x - 1 in x^2, |x| <= 0.9219; 2^-29.9, 2^-56.2 */
static const double erf_f32[] = { 0x1.06eba8p-3, -0x1.81274p-2,   0x1.ce2d6p-4,  -0x1.b80082p-6,
				  0x1.5442a0p-8, -0x1.a5bd9ap-11, 0x1.4e543ep-14 };
static const double erf_f64[] = { 0x1.06eba8214db69p-3,  -0x1.812746b037a24p-2,
				  0x1.ce2f21a04571fp-4,  -0x1.b82ce31346765p-6,
				  0x1.565bcd28e864dp-8,  -0x1.c02db842cad7dp-11,
				  0x1.f9a391d50c598p-14, -0x1.f4d8cc1712d31p-17,
				  0x1.ba20858c71166p-20, -0x1.605a2f23ef9c3p-23,
				  0x1.f8cce7e051e7ep-27, -0x1.0e915e7e953fbp-30 };
/* log(erfc(x)) on [0.921, 4]; error relative to erf: 2^-33.6 */
static const double erf_tail_f32[] = { 0x1.6ed640p-13, -0x1.2127f8p+0, -0x1.4445b6p-1,
				       -0x1.bb870cp-4, 0x1.9b973ep-6,  -0x1.11691ep-8,
				       0x1.c7c44cp-12, -0x1.6237c0p-16 };
/* erfc(x)*e^(x^2) in t = (x-2)/(x+2), x in [0.921, 6]; relative to erf: 2^-58.4 */
static const double erf_tail_f64[] = { 0x1.058671b52c778p-2,   -0x1.b57034efd3f43p-2,
				       0x1.eeea7dc8a6a19p-3,   -0x1.437f0b68e6b31p-4,
				       0x1.e947159cca321p-9,   0x1.ca95ee5e914d4p-8,
				       -0x1.bc257d73b8b9ap-11, -0x1.016bb57c0eba6p-10,
				       0x1.6cee7dfc28cb4p-15,  0x1.6d7f0d0b76fdcp-13,
				       0x1.d573ec1dfe662p-16,  -0x1.ae2b4af985b28p-16,
				       -0x1.8d27d61cce6c4p-17 };

stx_ev stx__el_scale(const struct el *e, stx_ev v, stx_ev u)
{
	stx_ev a = ilshr(e, u, 1), b = isub(e, u, a); /* biased exponents of two factors */

	v = mul(e, v, unbits(e, ishl(e, a, mant_bits(e))));
	return mul(e, v, unbits(e, ishl(e, b, mant_bits(e))));
}

/* e^x = 2^n * (1 + (r + q)), n as the bits of a rounding sum. */
struct reduced {
	stx_ev n_bits; /* bits of n + magic */
	stx_ev r, q;
};

/* requires: |x| below the overflow threshold, or NaN. r is exact. */
static struct reduced exp_reduce(const struct el *e, stx_ev x)
{
	int w = is_f64(e);
	stx_ev t = addk(e, mulk(e, x, 0x1.71547652b82fep+0), magic(e));
	stx_ev n = subk(e, t, magic(e));
	stx_ev hi = sub(e, x, mulk(e, n, w ? 0x1.62e42feep-1 : 0x1.63p-1));
	stx_ev lo = mulk(e, n, w ? 0x1.a39ef35793c76p-33 : -0x1.bd0106p-13);
	stx_ev r = sub(e, hi, lo);
	stx_ev p = w ? POLY(e, r, exp_f64) : POLY(e, r, exp_f32);

	return (struct reduced){ bits(e, t), hi, sub(e, mul(e, mul(e, r, r), p), lo) };
}

/* n + k*bias + add, from the rounding sum's bits */
static stx_ev biased(const struct el *e, struct reduced d, int k, int plus)
{
	return iaddk(e, d.n_bits, (int64_t)k * exp_bias(e) + plus - magic_bits(e));
}

static stx_ev clamp(const struct el *e, stx_ev x, double lo, double hi)
{
	return mini(e, maxi(e, x, fk(e, lo)), fk(e, hi));
}

static stx_ev exp_fraction(const struct el *e, struct reduced d)
{
	return addk(e, add(e, d.r, d.q), 1);
}

/* 2^n in one factor: n must be in the range of normal exponents */
static stx_ev pow2(const struct el *e, struct reduced d)
{
	return unbits(e, ishl(e, biased(e, d, 1, 0), mant_bits(e)));
}

stx_ev stx__el_exp(const struct el *e, stx_ev x)
{
	struct reduced d =
		exp_reduce(e, is_f64(e) ? clamp(e, x, -746, 710) : clamp(e, x, -104, 89));

	return stx__el_scale(e, exp_fraction(e, d), biased(e, d, 2, 0));
}

stx_ev stx__el_exp2(const struct el *e, stx_ev x)
{
	stx_ev c = is_f64(e) ? clamp(e, x, -1076, 1025) : clamp(e, x, -151, 129);
	stx_ev t = addk(e, c, magic(e)), r = sub(e, c, subk(e, t, magic(e)));
	stx_ev p = mul(e, r, is_f64(e) ? POLY(e, r, exp2_f64) : POLY(e, r, exp2_f32));
	stx_ev a = mulk(e, r, is_f64(e) ? LN2_F64 : LN2_F32),
	       s = addk(e, a, 1); /* 1 + a, exactly s + rest */
	struct reduced d = { bits(e, t), r, 0 };

	p = add(e, p, sub(e, a, subk(e, s, 1)));
	return stx__el_scale(e, add(e, s, p), biased(e, d, 2, 0));
}

/* (e^x - 1) * 2^-n = hi + lo with hi rounded: 1 - 2^-n is exact (but for n just above the
 * mantissa's bits, half an ulp at most), its sum with the exact r is carried in two parts, q is
 * small. The sign of a zero is lost. */
struct two {
	stx_ev hi, lo;
};

static struct two expm1_fraction(const struct el *e, struct reduced d)
{
	stx_ev i = emit(e, STX_P_MAX, e->it, isub(e, ik(e, exp_bias(e) + magic_bits(e)), d.n_bits),
			ik(e, 0), 0);
	stx_ev inv = unbits(e, ishl(e, i, mant_bits(e)));
	stx_ev k = ksub(e, 1, inv), h = add(e, k, d.r), l = sub(e, d.r, sub(e, h, k));
	struct two r;

	l = add(e, l, d.q);
	r.hi = add(e, h, l);
	r.lo = sub(e, l, sub(e, r.hi, h));
	return r;
}

stx_ev stx__el_expm1(const struct el *e, stx_ev x)
{
	struct reduced d = exp_reduce(e, is_f64(e) ? clamp(e, x, -40, 710) : clamp(e, x, -20, 89));

	return sign_of(e, stx__el_scale(e, expm1_fraction(e, d).hi, biased(e, d, 2, 0)), x);
}

/* a polynomial below 5/8, 1 - 2/(e^2a + 1) above */
static stx_ev tanh_f32(const struct el *e, stx_ev x)
{
	stx_ev a = mini(e, mag(e, x), fk(e, 9.5)), z = mul(e, a, a), big;
	struct reduced d = exp_reduce(e, add(e, a, a));
	stx_ev small = add(e, a, mul(e, mul(e, a, z), POLY(e, z, tanh_poly_f32)));

	big = addk(e, mul(e, exp_fraction(e, d), pow2(e, d)), 1);
	big = ksub(e, 1, quo(e, fk(e, 2), big));
	return sign_of(e, sel(e, gt(e, a, fk(e, 0.625)), big, small), x);
}

/* E/(E+2) with E = e^2a - 1, what rounding E and E+2 lost put back (2/(E+2) is 1 - tanh); as 1 -
 * 2/(E+2) above 3/4, where that loses less. */
stx_ev stx__el_tanh(const struct el *e, stx_ev x)
{
	if (!is_f64(e))
		return tanh_f32(e, x);
	stx_ev a = mini(e, mag(e, x), fk(e, 20)), big = gt(e, a, fk(e, 0.75));
	struct reduced d = exp_reduce(e, add(e, a, a));
	struct two f = expm1_fraction(e, d);
	stx_ev s = pow2(e, d), m = mul(e, f.hi, s), m_lo = mul(e, f.lo, s);
	stx_ev den = addk(e, m, 2), den_lo = add(e, sub(e, m, subk(e, den, 2)), m_lo);
	stx_ev q = quo(e, sel(e, big, fk(e, -2), m), den);
	stx_ev fix = mul(e, sub(e, m_lo, mul(e, q, den_lo)), ksub(e, 0.5, mulk(e, q, 0.5)));

	return sign_of(e, add(e, q, sel(e, big, fk(e, 1), fix)), x);
}

/* e^x in f64 to f32 accuracy, |x| below a few hundred */
static stx_ev exp_short(const struct el *w, stx_ev x)
{
	stx_ev t = addk(w, mulk(w, x, 0x1.71547652b82fep+0), magic(w));
	stx_ev r = sub(w, x, mulk(w, subk(w, t, magic(w)), 0x1.62e42fefa39efp-1));
	stx_ev n = iaddk(w, bits(w, t), exp_bias(w) - magic_bits(w));

	return mul(w, addk(w, mul(w, r, POLY(w, r, exp_lite)), 1), unbits(w, ishl(w, n, 52)));
}

static stx_ev sigmoid_f32(const struct el *e, stx_ev x)
{
	struct el w = el_make(e->b, STX_F64);
	stx_ev t = exp_short(&w, widen(&w, neg(e, mini(e, mag(e, x), fk(e, 104)))));
	stx_ev num = sel(&w, lt(e, x, fk(e, 0)), t, fk(&w, 1));

	return narrow(e, quo(&w, num, addk(&w, t, 1)));
}

/* 1/(1+e^-x), as e^x/(1+e^x) for negative x, so that tiny results keep their bits. What rounding t
 * = e^-|x| and 1+t lost is put back; 1/(1+t) is the quotient itself or one minus it. */
stx_ev stx__el_sigmoid(const struct el *e, stx_ev x)
{
	if (!is_f64(e))
		return sigmoid_f32(e, x);
	struct reduced d = exp_reduce(e, neg(e, mini(e, mag(e, x), fk(e, 746))));
	stx_ev v = add(e, d.r, d.q), f = addk(e, v, 1), f_lo = sub(e, v, subk(e, f, 1)),
	       u = biased(e, d, 2, 0);
	stx_ev t = stx__el_scale(e, f, u), t_lo = stx__el_scale(e, f_lo, u);
	stx_ev den = addk(e, t, 1), den_lo = add(e, sub(e, t, subk(e, den, 1)), t_lo);
	stx_ev left = lt(e, x, fk(e, 0)), q = quo(e, sel(e, left, t, fk(e, 1)), den);
	stx_ev fix = sub(e, sel(e, left, t_lo, fk(e, 0)), mul(e, q, den_lo));

	return add(e, q, mul(e, fix, sel(e, left, ksub(e, 1, q), q)));
}

static stx_ev sinh_f32(const struct el *e, stx_ev x)
{
	struct el w = el_make(e->b, STX_F64);
	stx_ev a = mini(&w, mag(&w, widen(&w, x)), fk(&w, 100)), t = exp_short(&w, a);
	stx_ev big = mulk(&w, sub(&w, t, quo(&w, fk(&w, 1), t)), 0.5);
	stx_ev small = mul(&w, a, POLY(&w, mul(&w, a, a), sinh_lite));

	return sign_of(e, narrow(e, sel(&w, lt(&w, a, fk(&w, 1)), small, big)), x);
}

/* h = (e^a - 1)/2; sinh = h + h/(2h + 1), and h alone where e^-a no longer counts. What h lost
 * counts between once and twice. */
stx_ev stx__el_sinh(const struct el *e, stx_ev x)
{
	if (!is_f64(e))
		return sinh_f32(e, x);
	stx_ev a = mini(e, mag(e, x), fk(e, 712));
	struct reduced d = exp_reduce(e, a);
	struct two f = expm1_fraction(e, d);
	stx_ev u = biased(e, d, 2, -1), h = stx__el_scale(e, f.hi, u),
	       lo = stx__el_scale(e, f.lo, u);
	stx_ev s = add(e, h, add(e, quo(e, h, addk(e, add(e, h, h), 1)), mulk(e, lo, 1.5)));

	return sign_of(e, sel(e, gt(e, a, fk(e, 40)), h, s), x);
}

/* h = e^a/2; cosh = h + 1/(4h) */
stx_ev stx__el_cosh(const struct el *e, stx_ev x)
{
	stx_ev a = mini(e, mag(e, x), fk(e, is_f64(e) ? 712 : 91));
	struct reduced d = exp_reduce(e, a);
	stx_ev h = stx__el_scale(e, exp_fraction(e, d), biased(e, d, 2, -1));

	return add(e, h, quo(e, fk(e, 0.25), h));
}

stx_ev stx__el_erf(const struct el *e, stx_ev x)
{
	int w = is_f64(e);
	stx_ev a = mini(e, mag(e, x), fk(e, w ? 6 : 4)), z = mul(e, a, a), tail, small;
	struct reduced d;

	small = w ? POLY(e, z, erf_f64) : POLY(e, z, erf_f32);
	small = add(e, a, mul(e, a, small));
	if (w) {
		stx_ev t = quo(e, subk(e, a, 2), addk(e, a, 2));

		d = exp_reduce(e, neg(e, z));
		tail = mul(e, mul(e, exp_fraction(e, d), pow2(e, d)), POLY(e, t, erf_tail_f64));
	} else {
		d = exp_reduce(e, POLY(e, a, erf_tail_f32));
		tail = mul(e, exp_fraction(e, d), pow2(e, d));
	}
	return sign_of(e, sel(e, gt(e, a, fk(e, 0.921875)), ksub(e, 1, tail), small), x);
}
