/* elementary_log.c: logarithms, and the inverse hyperbolic functions made of them.
 *
 * x = 2^k * (1+f); log(1+f) from s = f/(2+f): log(1+f) = f - (f^2/2 - s*(f^2/2 + R(s^2))) as in
 * FreeBSD's msun (e_log.c), which needs neither FMA nor tables. f32 functions other than log
 * compute in f64 with a shorter polynomial. */
#include "elementary_body.h"

#include <math.h>

/* (log((1+s)/(1-s))/s - 2)/z in z = s^2 on [0, 0.02945]: 2^-30.2, 2^-59.5 of the logarithm */
static const double log_f32[] = { 0x1.55557ap-1, 0x1.995ed2p-2, 0x1.31e136p-2 };
static const double log_f64[] = { 0x1.5555555555593p-1, 0x1.999999997f9fbp-2, 0x1.249249422a07fp-2,
				  0x1.c71c51d80e062p-3, 0x1.746649a02433bp-3, 0x1.39a0975a3be0ep-3,
				  0x1.2f116a88064c9p-3 };
/* log((1+s)/(1-s))/s: 2^-45.1 */
static const double log_lite[] = {
	0x1.fffffffffff0ep+0, 0x1.5555555674ea4p-1, 0x1.99999623ee05cp-2,
	0x1.24943b44b2b94p-2, 0x1.c61fef39019c4p-3, 0x1.91a1024d23bdep-3
};

/* For results that f16 or bf16 round. The same in z, 2^-23; half of it to z = 0.04, 2^-21.6 */
static const double log_short_f32[] = { 0x1.000002p+1, 0x1.554262p-1, 0x1.a6e17ap-2 };
static const double atanh_short_f32[] = { 0x1.000006p+0, 0x1.55318cp-2, 0x1.abe9a8p-3 };
/* log((1+s)/(1-s))/2s on [0, 0.04]: 2^-42.3 */
static const double atanh_lite[] = { 0x1.ffffffffff9bbp-1, 0x1.5555555acbb72p-2,
				     0x1.99998d4681ca5p-3, 0x1.24975c1d6cc60p-3,
				     0x1.c53b126c1fcecp-4, 0x1.9d05edd769802p-4 };

struct stx__el_log_parts stx__el_log_split(const struct el *e, stx_ev x, int subnormals)
{
	int w = is_f64(e);
	int64_t sqrt_half = w ? 0x3fe6a09e667f3bcd : 0x3f3504f3,
		one = w ? 0x3ff0000000000000 : 0x3f800000;
	int64_t mask = w ? 0xfffffffffffff : 0x7fffff,
		integer = w ? 0x4330000000000000 : 0x4b000000;
	stx_ev shift = 0, i, k, m;

	if (subnormals) {
		stx_ev tiny = lt(e, x, fk(e, w ? 0x1p-1022 : 0x1p-126));

		x = sel(e, tiny, mulk(e, x, 0x1p54), x);
		shift = sel(e, tiny, fk(e, -54), fk(e, 0));
	}
	i = iaddk(e, bits(e, x), one - sqrt_half);
	/* the biased exponent becomes a float by placing it in the low bits of 2^mant */
	k = subk(e, unbits(e, ior(e, ilshr(e, i, mant_bits(e)), integer)),
		 (w ? 0x1p52 : 0x1p23) + exp_bias(e));
	if (subnormals)
		k = add(e, k, shift);
	m = unbits(e, iaddk(e, iand(e, i, mask), sqrt_half));
	return (struct stx__el_log_parts){ k, subk(e, m, 1) };
}

/* What a logarithm gives outside (0, inf): r there, -inf at 0, NaN below, inf and NaN themselves.
 */
static stx_ev edges(const struct el *e, stx_ev r, stx_ev x)
{
	stx_ev out = sel(e, eq(e, x, fk(e, 0)), fk(e, -INFINITY), fk(e, NAN));

	r = sel(e, gt(e, x, fk(e, 0)), r, out);
	return sel(e, eq(e, x, fk(e, INFINITY)), fk(e, INFINITY), r);
}

/* pieces of log(1+f): hfsq = f^2/2 and tail = s*(hfsq + R) */
struct tail {
	stx_ev hfsq, tail;
};

static struct tail log_tail(const struct el *e, stx_ev f)
{
	stx_ev hfsq = mul(e, mulk(e, f, 0.5), f), s = ratio(e, f, addk(e, f, 2)), z = mul(e, s, s);
	stx_ev r = mul(e, z, is_f64(e) ? POLY(e, z, log_f64) : POLY(e, z, log_f32));

	return (struct tail){ hfsq, mul(e, s, add(e, hfsq, r)) };
}

/* k*ln2 + log(1+f) + c */
static stx_ev log_sum(const struct el *e, struct stx__el_log_parts p, const stx_ev *c)
{
	int w = is_f64(e);
	struct tail t = log_tail(e, p.f);
	stx_ev lo = mulk(e, p.k, w ? 0x1.a39ef35793c76p-33 : 0x1.2fefa2p-17);

	if (c)
		lo = add(e, lo, *c);
	lo = add(e, t.tail, lo);
	return sub(e, mulk(e, p.k, w ? 0x1.62e42feep-1 : 0x1.62e3p-1),
		   sub(e, sub(e, t.hfsq, lo), p.f));
}

/* log(1+f), for results in f32 */
static stx_ev log_short(const struct el *w, stx_ev f)
{
	stx_ev s = quo(w, f, addk(w, f, 2));

	return mul(w, s, POLY(w, mul(w, s, s), log_lite));
}

stx_ev stx__el_log(const struct el *e, stx_ev x)
{
	return edges(e, log_sum(e, stx__el_log_split(e, x, 1), NULL), x);
}

/* scale*log(x) for f32 in f64, k*scaled_ln2 apart */
static stx_ev log_base_f32(const struct el *e, stx_ev x, double per_octave, double scale)
{
	struct el w = el_make(e->b, STX_F64);
	struct stx__el_log_parts p = stx__el_log_split(&w, widen(&w, x), 0);
	stx_ev k = per_octave == 1 ? p.k : mulk(&w, p.k, per_octave);

	return edges(e, narrow(e, add(&w, k, mulk(&w, log_short(&w, p.f), scale))), x);
}

/* log(1+f) as hi + lo with hi of few bits, so that products by a split constant are exact */
static void log_split_sum(const struct el *e, stx_ev f, stx_ev *hi, stx_ev *lo)
{
	struct tail t = log_tail(e, f);

	*hi = unbits(e, iand(e, bits(e, sub(e, f, t.hfsq)), (int64_t)0xffffffff00000000u));
	*lo = add(e, sub(e, sub(e, f, *hi), t.hfsq), t.tail);
}

/* y + vhi + vlo, y the larger */
static stx_ev sum3(const struct el *e, stx_ev y, stx_ev vhi, stx_ev vlo)
{
	stx_ev s = add(e, y, vhi);

	return add(e, add(e, vlo, add(e, sub(e, y, s), vhi)), s);
}

stx_ev stx__el_log2(const struct el *e, stx_ev x)
{
	const double c_hi = 0x1.7154765200000p+0, c_lo = 0x1.705fc2eefa200p-33;
	struct stx__el_log_parts p;
	stx_ev hi, lo, vlo;

	if (!is_f64(e))
		return log_base_f32(e, x, 1, 0x1.71547652b82fep+0);
	p = stx__el_log_split(e, x, 1);
	log_split_sum(e, p.f, &hi, &lo);
	vlo = add(e, mulk(e, add(e, lo, hi), c_lo), mulk(e, lo, c_hi));
	return edges(e, sum3(e, p.k, mulk(e, hi, c_hi), vlo), x);
}

stx_ev stx__el_log10(const struct el *e, stx_ev x)
{
	const double c_hi = 0x1.bcb7b15200000p-2, c_lo = 0x1.b9438ca9aadd5p-36;
	const double k_hi = 0x1.34413509f6000p-2, k_lo = 0x1.9fef311f12b36p-42;
	struct stx__el_log_parts p;
	stx_ev hi, lo, vlo;

	if (!is_f64(e))
		return log_base_f32(e, x, 0x1.34413509f79ffp-2, 0x1.bcb7b1526e50ep-2);
	p = stx__el_log_split(e, x, 1);
	log_split_sum(e, p.f, &hi, &lo);
	vlo = add(e, add(e, mulk(e, p.k, k_lo), mulk(e, add(e, lo, hi), c_lo)), mulk(e, lo, c_hi));
	return edges(e, sum3(e, mulk(e, p.k, k_hi), mulk(e, hi, c_hi), vlo), x);
}

/* x > -1 finite (else what it gives is replaced by the caller) */
stx_ev stx__el_log1p_short(const struct el *w, stx_ev x)
{
	struct stx__el_log_parts p = stx__el_log_split(w, addk(w, x, 1), 0);
	stx_ev f = sel(w, eq(w, p.k, fk(w, 0)), x,
		       p.f); /* 1+x need not be exact: near 1, f is x itself */

	return add(w, mulk(w, p.k, 0x1.62e42fefa39efp-1), log_short(w, f));
}

/* log(1 + x + lo), u = 1+x rounded; corrected by what that lost. `huge` (optional): there u is used
 * as it is and the result is log(2u). */
static stx_ev log1p_sum(const struct el *e, stx_ev x, const stx_ev *lo, stx_ev u,
			const stx_ev *huge)
{
	struct stx__el_log_parts p = stx__el_log_split(e, u, 0);
	stx_ev near = eq(e, p.k, fk(e, 0)), zero = fk(e, 0);
	stx_ev lost = sel(e, gt(e, x, fk(e, 1)), ksub(e, 1, sub(e, u, x)),
			  sub(e, x, subk(e, u, 1))),
	       c;

	if (lo)
		lost = add(e, lost, *lo);
	c = sel(e, near, lo ? *lo : zero, quo(e, lost, u));
	p.f = sel(e, near, x, p.f);
	if (huge) {
		c = sel(e, *huge, zero, c);
		p.k = add(e, p.k, sel(e, *huge, fk(e, 1), zero));
	}
	return log_sum(e, p, &c);
}

/* r for x > -1; x itself for infinity and zeros */
static stx_ev log1p_edges(const struct el *e, stx_ev r, stx_ev x)
{
	r = sel(e, gt(e, x, fk(e, -1)), r,
		sel(e, eq(e, x, fk(e, -1)), fk(e, -INFINITY), fk(e, NAN)));
	r = sel(e, eq(e, x, fk(e, INFINITY)), x, r);
	return sel(e, eq(e, x, fk(e, 0)), x, r);
}

stx_ev stx__el_log1p(const struct el *e, stx_ev x)
{
	stx_ev r, u = addk(e, x, 1);

	if (is_f64(e)) {
		r = log1p_sum(e, x, NULL, u, NULL);
	} else {
		struct el w = el_make(e->b, STX_F64);

		r = narrow(e, stx__el_log1p_short(&w, widen(&w, x)));
	}
	return log1p_edges(e, r, x);
}

stx_ev stx__el_log1p_sum(const struct el *e, stx_ev x, const stx_ev *lo)
{
	return log1p_sum(e, x, lo, addk(e, x, 1), NULL);
}

/* log(1 + y), y in two parts; for huge x log(2x) */
static stx_ev log1p_two(const struct el *e, struct dd y, stx_ev x, stx_ev huge)
{
	y = fast_sum(e, y.h, y.l);
	y.h = sel(e, huge, x, y.h);
	return log1p_sum(e, y.h, &y.l, sel(e, huge, x, addk(e, y.h, 1)), &huge);
}

/* sign(x) * log1p(a + a^2/(1 + sqrt(1 + a^2))); for huge a log(2a). */
stx_ev stx__el_asinh(const struct el *e, stx_ev x)
{
	struct el w = el_make(e->b, STX_F64);
	stx_ev a = mag(&w, is_f64(e) ? x : widen(&w, x)), r;

	if (is_f64(e)) {
		struct dd one = dd_of(e, fk(e, 1)), z = two_prod(e, a, a);
		struct dd s = dd_root(e, dd_add(e, one, z)), y;

		y = dd_quo(e, z, dd_add(e, s, one));
		y = dd_add(e, dd_of(e, a), y);
		r = sel(e, lt(e, a, fk(e, 0x1p-28)), a,
			log1p_two(e, y, a, gt(e, a, fk(e, 0x1p28))));
	} else {
		stx_ev z = mul(&w, a, a), q = addk(&w, root(&w, addk(&w, z, 1)), 1);

		r = narrow(e, stx__el_log1p_short(&w, add(&w, a, quo(&w, z, q))));
	}
	a = mag(e, x);
	return sign_of(e, sel(e, lt(e, a, fk(e, INFINITY)), r, a), x);
}

/* log1p(t + sqrt(2t + t^2)), t = x - 1 exactly; for huge x log(2x). NaN below 1. */
stx_ev stx__el_acosh(const struct el *e, stx_ev x)
{
	struct el w = el_make(e->b, STX_F64);
	stx_ev t = subk(&w, is_f64(e) ? x : widen(&w, x), 1), t2 = add(&w, t, t), r;

	if (is_f64(e)) {
		struct dd z = two_prod(e, t, t), v = two_sum(e, t2, z.h), s;

		v.l = add(e, v.l, z.l);
		s = dd_root(e, v);
		s.l = sel(e, gt(e, v.h, fk(e, 0)), s.l, fk(e, 0));
		r = log1p_two(e, dd_add(e, s, dd_of(e, t)), x, gt(e, x, fk(e, 0x1p28)));
	} else {
		stx_ev q = root(&w, add(&w, t2, mul(&w, t, t)));

		r = narrow(e, stx__el_log1p_short(&w, add(&w, q, t)));
	}
	r = sel(e, ge(e, x, fk(e, 1)), r, fk(e, NAN));
	return sel(e, eq(e, x, fk(e, INFINITY)), x, r);
}

/* log((1+a)/(1-a))/2 of 0 <= a < 1 in f64, for results in f32: with 2^k near the quotient that is
 * k*ln2/2 + log((1+s)/(1-s))/2, s = (1+a - 2^k (1-a))/(1+a + 2^k (1-a)). The difference of the bits is
 * the logarithm to 1/12. */
static stx_ev atanh_short(const struct el *w, stx_ev a)
{
	stx_ev num = addk(w, a, 1), den = ksub(w, 1, a), k, s;

	k = iaddk(w, isub(w, bits(w, num), bits(w, den)), 0x0008000000000000);
	k = iand(w, k, -0x0010000000000000);
	den = unbits(w, iadd(w, bits(w, den), k));
	s = sel(w, lt(w, a, fk(w, 0x1p-3)), add(w, a, a), sub(w, num, den));
	s = quo(w, s, add(w, num, den));
	k = subk(w, unbits(w, ior(w, ilshr(w, k, 52), 0x4330000000000000)), 0x1p52);
	return add(w, mulk(w, k, 0x1.62e42fefa39efp-2),
		   mul(w, s, POLY(w, mul(w, s, s), atanh_lite)));
}

/* What |x| at and above 1 gives; r below. */
static stx_ev atanh_edges(const struct el *e, stx_ev r, stx_ev x)
{
	stx_ev a = mag(e, x), one = fk(e, 1);

	r = sel(e, lt(e, a, one), r, sel(e, eq(e, a, one), fk(e, INFINITY), fk(e, NAN)));
	return sign_of(e, r, x);
}

/* log1p(2a/(1-a))/2 */
stx_ev stx__el_atanh(const struct el *e, stx_ev x)
{
	struct el w = el_make(e->b, STX_F64);
	stx_ev a = mag(&w, is_f64(e) ? x : widen(&w, x)), r;

	if (is_f64(e)) {
		struct dd q = dd_quo(e, dd_of(e, add(e, a, a)), two_sum(e, fk(e, 1), neg(e, a)));

		q = fast_sum(e, q.h, q.l);
		r = mulk(e, log1p_sum(e, q.h, &q.l, addk(e, q.h, 1), NULL), 0.5);
		r = sel(e, lt(e, a, fk(e, 0x1p-28)), a, r);
	} else {
		r = narrow(e, atanh_short(&w, a));
	}
	return atanh_edges(e, r, x);
}

/* ---- for results that f16 or bf16 round ---- */

/* scale*log(x) */
static stx_ev log_near(const struct el *e, stx_ev x, double per_octave, double scale)
{
	struct stx__el_log_parts p = stx__el_log_split(e, x, 1);
	stx_ev s = ratio(e, p.f, addk(e, p.f, 2)), r;

	r = mul(e, mulk(e, s, scale), POLY(e, mul(e, s, s), log_short_f32));
	return edges(e, add(e, mulk(e, p.k, per_octave), r), x);
}

stx_ev stx__el_short_log(const struct el *e, stx_ev x)
{
	return is_f64(e) ? stx__el_log(e, x) : log_near(e, x, 0x1.62e43p-1, 1);
}

stx_ev stx__el_short_log2(const struct el *e, stx_ev x)
{
	return is_f64(e) ? stx__el_log2(e, x) : log_near(e, x, 1, 0x1.715476p+0);
}

stx_ev stx__el_short_log10(const struct el *e, stx_ev x)
{
	return is_f64(e) ? stx__el_log10(e, x) : log_near(e, x, 0x1.344136p-2, 0x1.bcb7b2p-2);
}

/* Where 1 + x is near 1 it is the fraction that counts, not the rounded sum. */
stx_ev stx__el_short_log1p(const struct el *e, stx_ev x)
{
	struct stx__el_log_parts p;
	stx_ev s, f;

	if (is_f64(e))
		return stx__el_log1p(e, x);
	p = stx__el_log_split(e, addk(e, x, 1), 0);
	f = sel(e, eq(e, p.k, fk(e, 0)), x, p.f);
	s = quo(e, f, addk(e, f, 2));
	s = mul(e, s, POLY(e, mul(e, s, s), log_short_f32));
	return log1p_edges(e, add(e, mulk(e, p.k, 0x1.62e43p-1), s), x);
}

/* As atanh_short, in f32. */
stx_ev stx__el_short_atanh(const struct el *e, stx_ev x)
{
	stx_ev a = mag(e, x), num = addk(e, a, 1), den = ksub(e, 1, a), k, s;

	if (is_f64(e))
		return stx__el_atanh(e, x);
	k = iaddk(e, isub(e, bits(e, num), bits(e, den)), 0x400000);
	k = iand(e, k, -0x800000);
	den = unbits(e, iadd(e, bits(e, den), k));
	s = sel(e, lt(e, a, fk(e, 0x1p-3)), add(e, a, a), sub(e, num, den));
	s = quo(e, s, add(e, num, den));
	k = subk(e, unbits(e, ior(e, ilshr(e, k, 23), 0x4b000000)), 0x1p23);
	s = mul(e, s, POLY(e, mul(e, s, s), atanh_short_f32));
	return atanh_edges(e, add(e, mulk(e, k, 0x1.62e43p-2), s), x);
}
