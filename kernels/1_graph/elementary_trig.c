/* elementary_trig.c: sine, cosine, tangent and their inverses.
 *
 * The argument is multiplied by 1/pi or 2/pi, or multiples of pi/2 are subtracted, in exact pieces.
 * Every finite one is reduced correctly: rare large ones with more pieces (Payne and Hanek), of f32
 * with 29 bits each in f64, of f64 in elementary_reduce.c. */
#include "elementary_body.h"

#include <math.h>

/* sin(pi f)/f in f^2, |f| <= 0.5033 (quarters' *low is up to 0.0031): 0.091 ulp of f32, 2^-27.4 */
static const double sin_half_turn[] = { 0x1.921fb51fc035dp+1, -0x1.4abbc103e4152p+2,
					0x1.46689252b45bbp+1, -0x1.32490400742dfp-1,
					0x1.3d6928184e137p-4 };
/* sin(pi/2 f)/f and cos(pi/2 f) in f^2, |f| <= 1/2: 2^-37.1, 2^-34.1 */
static const double sin_lite[] = { 0x1.921fb5443b586p+0, -0x1.4abbce56ad6fep-1,
				   0x1.466bbac76d446p-4, -0x1.32ca9cc0058cfp-8,
				   0x1.4bc81f06cb522p-13 };
static const double cos_lite[] = { 0x1.ffffffff84785p-1, -0x1.3bd3cc6e69b0bp+0,
				   0x1.03c1daa61b5abp-2, -0x1.55c4e6a56d25ep-6,
				   0x1.d99e75a99b511p-11 };
/* (sin(r)/r - 1)/z and (cos(r) - 1 + z/2)/z^2 in z = r^2, |r| <= pi/4: 2^-58, 2^-64.2 */
static const double sin_f64[] = { -0x1.5555555555549p-3,  0x1.111111110f896p-7,
				  -0x1.a01a019c12eb5p-13, 0x1.71de3577a36c5p-19,
				  -0x1.ae5e657a6e2b4p-26, 0x1.5d92a192618ebp-33 };
static const double cos_f64[] = { 0x1.555555555554cp-5,  -0x1.6c16c16c15213p-10,
				  0x1.a01a019cbd5dcp-16, -0x1.27e4f810c7011p-22,
				  0x1.1ee9efbdd46e3p-29, -0x1.8fb041852b924p-37 };
/* (asin(s)/s - 1)/z on z = s^2 in [0, 1/4]: 2^-35.8, 2^-62.6 */
static const double asin_lite[] = { 0x1.555556091558dp-3, 0x1.3332a809d7d14p-4,
				    0x1.6ddb2662e9351p-5, 0x1.ed53972349479p-6,
				    0x1.9358a581704dfp-6, 0x1.e982705f256bcp-8,
				    0x1.1c33e84fab40bp-5 };
static const double asin_f64[] = {
	0x1.5555555555553p-3,  0x1.33333333339f3p-4, 0x1.6db6db6d49978p-5,  0x1.f1c71ca900e0cp-6,
	0x1.6e8b9ab7e1a8cp-6,  0x1.1c4f8c8768603p-6, 0x1.c97fdefd65436p-7,  0x1.7bb01f2a3af25p-7,
	0x1.3663e2ad73b8ep-7,  0x1.4a0f37ccf880fp-7, 0x1.da15d6ad53c6cp-12, 0x1.9fa84094f9e5ap-6,
	-0x1.b8b06e820db72p-6, 0x1.175907de3659fp-5
};
/* (atan(t)/t - 1)/z in z = t^2: |t| <= tan(pi/8), 2^-35.4; |t| <= 7/16, 2^-57.7 */
static const double atan_lite[] = { -0x1.555554c88e221p-2, 0x1.99991a40c546ep-3,
				    -0x1.247f059f4dc20p-3, 0x1.c467eafe89dc3p-4,
				    -0x1.5b44e085e6e0bp-4, 0x1.84f362e49394bp-5 };
static const double atan_f64[] = {
	-0x1.555555555550cp-2, 0x1.999999998e9d5p-3, -0x1.2492491ffd724p-3, 0x1.c71c6fde6484fp-4,
	-0x1.745cdbf1ba57fp-4, 0x1.3b0f24b641004p-4, -0x1.10d62952c99f6p-4, 0x1.dddf7a740da69p-5,
	-0x1.97a6e7a224596p-5, 0x1.2b24449b5ad78p-5, -0x1.0a93aea9c85e3p-6
};
/* For results that f16 or bf16 round: sin(r)/r in r^2 to pi/2, 2^-20, and to pi/4, 2^-19.3; cos(r) to
 * pi/4, 2^-24.8; asin(s)/s to s = 1/2, 2^-23.5; atan(t)/t to t = 1, 2^-20.5 */
static const double sin_short[] = { 0x1.ffffep-1, -0x1.554f8p-3, 0x1.105d44p-7, -0x1.83b972p-13 };
static const double sin_shorter[] = { 0x1.ffffcep-1, -0x1.553edep-3, 0x1.0b0fa2p-7 };
static const double cos_short[] = { 0x1.fffffep-1, -0x1.ffff96p-2, 0x1.553ba6p-5, -0x1.63f9d6p-10 };
static const double asin_short[] = { 0x1.000002p+0, 0x1.554d48p-3, 0x1.3521a4p-4, 0x1.450a94p-5,
				     0x1.9e732ap-5 };
static const double atan_shortest[] = { 0x1.ffffeap-1,  -0x1.554376p-2, 0x1.972c3ap-3,
					-0x1.1437b6p-3, 0x1.578946p-4,  -0x1.2f35dp-5,
					0x1.01aaaep-7 };
/* 2/pi in 29-bit pieces with their weights */
static const double two_over_pi[] = { 0x145f306dp-29,  0x19391054p-58,  0x14fe13abp-87,
				      0x1d1f534dp-116, 0x1b81b6c5p-145, 0x5664f10p-174,
				      0x1c820ff2p-203 };

#define PI    0x1.921fb54442d18p+1
#define PI_LO 0x1.1a62633145c07p-53

/* sin and cos of the reduced argument, and the quadrant in the low two bits of n. */
struct angle {
	stx_ev s, c, n;
	stx_ev s_lo, c_lo; /* f64: what rounding s and c lost */
};

static stx_ev mod4(const struct el *w, stx_ev v)
{
	stx_ev q = emit(w, STX_P_RINT, w->t, mulk(w, v, 0.25), 0, 0);

	return sub(w, v, mulk(w, q, 4)); /* exact: the result's bits are some of v's */
}

/* x (an f32 value) times 2/pi, modulo 4, as the result and *low. Pieces whose product with x is a
 * multiple of 4 are skipped, three windows up to 2^128; each product of 24 by 29 bits is exact. */
static stx_ev quarters_of_large(const struct el *w, stx_ev x, stx_ev *low)
{
	stx_ev a = mag(w, x), over[3] = { ge(w, a, fk(w, 0x1p54)), ge(w, a, fk(w, 0x1p83)),
					  ge(w, a, fk(w, 0x1p112)) };
	stx_ev p[4], s, t;
	struct dd whole;

	for (int i = 0; i < 4; i++) {
		p[i] = fk(w, two_over_pi[i]);
		for (int k = 0; k < 3; k++)
			p[i] = sel(w, over[k], fk(w, two_over_pi[i + k + 1]), p[i]);
		p[i] = mul(w, x, p[i]);
	}
	p[0] = mod4(w, p[0]);
	p[1] = mod4(w, p[1]);
	s = add(w, p[0], p[1]);
	t = sub(w, s, p[0]);
	*low = add(w, sub(w, p[0], sub(w, s, t)), sub(w, p[1], t)); /* what the sum lost */
	/* p[2] may be 1/17: not small */
	whole = two_sum(w, s, add(w, *low, add(w, p[2], p[3])));
	*low = whole.l;
	return whole.h;
}

/* x (an f32 value) in quarters of a turn, times `scale` (1 or 1/2), up to whole turns: the result is
 * exact, *low is small. Below 2^22 one piece of 29 bits and the rest give it to 2^-60. Both have
 * the sign of x, so that a zero keeps it. */
static stx_ev quarters(const struct el *e, stx_ev x, double scale, stx_ev *low)
{
	struct el w = el_make(e->b, STX_F64);
	stx_ev rare = rarely(e, ge(e, mag(e, x), fk(e, 0x1p22))), rest, s, t;

	x = widen(&w, x);
	s = quarters_of_large(&w, x, &rest);
	t = mulk(&w, x, 0x1.45f306dp-1 * scale);
	*low = sel(&w, rare, mulk(&w, rest, scale), mulk(&w, x, 0x1.9391054a7f09dp-30 * scale));
	return sel(&w, rare, mulk(&w, s, scale), t);
}

static struct angle angle_f32(const struct el *e, stx_ev x)
{
	struct el f64 = el_make(e->b, STX_F64);
	const struct el *w = &f64;
	struct angle g;
	stx_ev low, t = quarters(e, x, 1, &low), r = addk(w, t, magic(w)), f, z;

	g.n = bits(w, r);
	f = add(w, sub(w, t, subk(w, r, magic(w))), low);
	z = mul(w, f, f);
	g.s = mul(w, f, POLY(w, z, sin_lite));
	g.c = POLY(w, z, cos_lite);
	return g;
}

/* sin(x + shift*pi/2): by half turns, of which odd ones change the sign. */
static stx_ev sine_f32(const struct el *e, stx_ev x, int shift)
{
	struct el f64 = el_make(e->b, STX_F64);
	const struct el *w = &f64;
	stx_ev low, t = quarters(e, x, 0.5, &low), m, n, f, z;

	m = addk(w, shift ? addk(w, t, 0.5) : t, magic(w));
	n = subk(w, m, magic(w));
	f = add(w, sub(w, t, shift ? subk(w, n, 0.5) : n), low);
	z = mul(w, f, f);
	f = mul(w, f, POLY2(w, z, mul(w, z, z), sin_half_turn));
	return narrow(e, unbits(w, ixor(w, bits(w, f), ishl(w, bits(w, m), 63))));
}

/* x = n*pi/2 + h + l, |x| < 2^10: pi/2 in pieces of 33 bits, products with the first two exact. No
 * such x is nearer to a multiple than 2^-57; what is left out is 2^-111. */
static struct dd reduce_small_f64(const struct el *e, stx_ev x, stx_ev *n_bits)
{
	stx_ev t = addk(e, mulk(e, x, 0x1.45f306dc9c883p-1), magic(e)), n = subk(e, t, magic(e));
	struct dd s =
		two_sum(e, sub(e, x, mulk(e, n, 0x1.921fb544p+0)), mulk(e, n, -0x1.0b4611a6p-34));

	*n_bits = bits(e, t);
	return fast_sum(e, s.h, sub(e, s.l, mulk(e, n, 0x1.3198a2e037073p-69)));
}

/* exact: what rounding r^2 lost counts, too. */
static struct angle angle_f64(const struct el *e, stx_ev x, int exact)
{
	struct angle g;
	stx_ev rare = rarely(e, ge(e, mag(e, x), fk(e, 0x1p10))), n, n_large;
	struct dd a = reduce_small_f64(e, x, &n), b = stx__el_reduce_f64(e, x, &n_large);
	stx_ev r = sel(e, rare, b.h, a.h), lo = sel(e, rare, b.l, a.l), z = mul(e, r, r),
	       h = mulk(e, z, 0.5), w = ksub(e, 1, h), c;

	g.n = emit(e, STX_P_SELECT, e->it, rare, n_large, n);
	/* sin: r + (lo + r*z*S - lo*z/2) */
	c = mul(e, mul(e, r, z), POLY(e, z, sin_f64));
	c = add(e, c, sub(e, lo, mul(e, h, lo)));
	g.s = add(e, r, c);
	g.s_lo = sub(e, c, sub(e, g.s, r));
	/* cos: 1 - z/2 + (z^2*C - r*lo), the rounding of 1 - z/2 put back */
	c = sub(e, mul(e, mul(e, z, z), POLY(e, z, cos_f64)), mul(e, r, lo));
	if (exact)
		c = sub(e, c, mulk(e, two_prod(e, r, r).l, 0.5));
	c = add(e, sub(e, ksub(e, 1, w), h), c);
	g.c = add(e, w, c);
	g.c_lo = sub(e, c, sub(e, g.c, w));
	return g;
}

/* odd quadrants take the other function; bit 1 of n + shift is the sign. */
static stx_ev quadrant(const struct el *w, struct angle g, int shift)
{
	stx_ev n = shift ? iaddk(w, g.n, shift) : g.n;
	stx_ev odd = ne(w, iand(w, n, 1), ik(w, 0));
	stx_ev v = sel(w, odd, g.c, g.s);

	return unbits(w, ixor(w, bits(w, v), ishl(w, iand(w, n, 2), 62)));
}

/* Below this sin(x) and tan(x) round to x. */
#define SMALL(e) (is_f64(e) ? 0x1p-27 : 0x1p-13)

stx_ev stx__el_sin(const struct el *e, stx_ev x)
{
	if (!is_f64(e))
		return sine_f32(e, x, 0);
	return sel(e, lt(e, mag(e, x), fk(e, SMALL(e))), x, quadrant(e, angle_f64(e, x, 0), 0));
}

stx_ev stx__el_cos(const struct el *e, stx_ev x)
{
	return is_f64(e) ? quadrant(e, angle_f64(e, x, 0), 1) : sine_f32(e, x, 1);
}

/* s/c, or -c/s in odd quadrants. */
stx_ev stx__el_tan(const struct el *e, stx_ev x)
{
	struct el w = el_make(e->b, STX_F64);
	struct angle g = is_f64(e) ? angle_f64(e, x, 1) : angle_f32(e, x);
	stx_ev odd = ne(&w, iand(&w, g.n, 1), ik(&w, 0));
	stx_ev num = sel(&w, odd, neg(&w, g.c), g.s), den = sel(&w, odd, g.s, g.c), r;

	if (is_f64(e)) {
		struct dd n = { num, sel(e, odd, neg(e, g.c_lo), g.s_lo) };
		struct dd q = dd_quo(e, n, (struct dd){ den, sel(e, odd, g.s_lo, g.c_lo) });

		r = add(e, q.h, q.l);
	} else {
		r = narrow(e, quo(&w, num, den));
	}
	return sel(e, lt(e, mag(e, x), fk(e, SMALL(e))), x, r);
}

/* ---- inverses ---- */

/* asin(s) - s for s in [0, 1/2], z = s^2 */
static stx_ev asin_rest(const struct el *w, stx_ev s, stx_ev z, int f64)
{
	return mul(w, mul(w, s, z), f64 ? POLY(w, z, asin_f64) : POLY(w, z, asin_lite));
}

/* Above 1/2: asin(a) = pi/2 - 2 asin(sqrt((1-a)/2)), and acos without the subtraction. NaN above 1
 * comes from the square root. `root_lo` is what the root lost (f64 only). */
struct arc {
	stx_ev big, s, rest, root_lo;
};

static struct arc arc_parts(const struct el *w, stx_ev a, int f64)
{
	struct arc r;
	stx_ev z, half = mulk(w, ksub(w, 1, a), 0.5);

	r.big = gt(w, a, fk(w, 0.5));
	z = sel(w, r.big, half, mul(w, a, a));
	r.s = sel(w, r.big, root(w, half), a);
	r.rest = asin_rest(w, r.s, z, f64);
	r.root_lo = 0;
	if (f64) { /* half = s^2 + 2 s lo: with s cut to 26 bits the square is exact */
		stx_ev head = unbits(w, iand(w, bits(w, r.s), (int64_t)0xfffffffff8000000u));

		r.root_lo = quo(w, sub(w, half, mul(w, head, head)), add(w, r.s, head));
		r.root_lo = sub(w, r.root_lo, sub(w, r.s, head));
		r.root_lo = sel(w, r.big, sel(w, eq(w, half, fk(w, 0)), half, r.root_lo), fk(w, 0));
	}
	return r;
}

stx_ev stx__el_asin(const struct el *e, stx_ev x)
{
	struct el w = el_make(e->b, STX_F64);
	int f64 = is_f64(e);
	stx_ev a = mag(&w, f64 ? x : widen(&w, x)), big, small, r;
	struct arc p = arc_parts(&w, a, f64);

	small = add(&w, p.s, p.rest);
	if (f64) { /* pi/2 - 2s - 2(rest + lo) */
		stx_ev t = add(&w, p.rest, p.root_lo);

		big = ksub(&w, PI / 4, p.s);
		t = sub(&w, sub(&w, sub(&w, ksub(&w, PI / 4, big), p.s), t), fk(&w, -PI_LO / 4));
		big = mulk(&w, add(&w, big, t), 2);
	} else {
		big = ksub(&w, PI / 2, add(&w, small, small));
	}
	r = sel(&w, p.big, big, small);
	return sign_of(e, f64 ? r : narrow(e, r), x);
}

stx_ev stx__el_acos(const struct el *e, stx_ev x)
{
	struct el w = el_make(e->b, STX_F64);
	int f64 = is_f64(e);
	stx_ev v = f64 ? x : widen(&w, x), r, mid, high, low, two;
	struct arc p = arc_parts(&w, mag(&w, v), f64);

	two = f64 ? add(&w, p.rest, p.root_lo) : p.rest;
	high = add(&w, p.s, two); /* x > 1/2: twice the sum */
	high = add(&w, high, high);
	low = ksub(&w, PI / 2, p.s); /* x < -1/2: pi less that, what rounding lost put back */
	two = sub(&w, sub(&w, sub(&w, ksub(&w, PI / 2, low), p.s), two), fk(&w, -PI_LO / 2));
	low = mulk(&w, add(&w, low, two), 2);
	/* pi/2 - (x + rest(x)) */
	mid = sub(&w, fk(&w, PI / 2),
		  sub(&w, v, sub(&w, fk(&w, PI_LO / 2), sign_of(&w, p.rest, v))));
	r = sel(&w, p.big, sel(&w, lt(&w, v, fk(&w, 0)), low, high), mid);
	return f64 ? r : narrow(e, r);
}

/* atan(num/den), 0 <= num <= den, in f64 to f32 accuracy */
static stx_ev atan_short(const struct el *w, stx_ev num, stx_ev den)
{
	stx_ev far = gt(w, num, mulk(w, den, 0.41421356237309503)), t, z, p;

	t = quo(w, sel(w, far, sub(w, num, den), num), sel(w, far, add(w, num, den), den));
	z = mul(w, t, t);
	p = add(w, t, mul(w, mul(w, t, z), POLY(w, z, atan_lite)));
	return add(w, p, sel(w, far, fk(w, PI / 4), fk(w, 0)));
}

/* atan(a) for a >= 0 in f64, in two parts: five intervals around 0, 1/2, 1, 3/2, inf (msun's s_atan.c) as
 * selections */
static struct dd atan_wide(const struct el *e, stx_ev a)
{
	static const struct {
		double from, hi, lo;
	} at[] = {
		{ 0.4375, 0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56 },
		{ 0.6875, PI / 4, PI_LO / 4 },
		{ 1.1875, 0x1.f730bd281f69bp-1, 0x1.007887af0cbbdp-56 },
		{ 2.4375, PI / 2, PI_LO / 2 },
	};
	stx_ev num[4] = { subk(e, add(e, a, a), 1), subk(e, a, 1), subk(e, a, 1.5), fk(e, -1) };
	stx_ev den[4] = { addk(e, a, 2), addk(e, a, 1), addk(e, mulk(e, a, 1.5), 1), a };
	stx_ev n = a, d = fk(e, 1), hi = fk(e, 0), lo = fk(e, 0), t, z, p;
	struct dd s;

	for (int i = 0; i < 4; i++) {
		stx_ev c = ge(e, a, fk(e, at[i].from));

		n = sel(e, c, num[i], n);
		d = sel(e, c, den[i], d);
		hi = sel(e, c, fk(e, at[i].hi), hi);
		lo = sel(e, c, fk(e, at[i].lo), lo);
	}
	t = quo(e, n, d);
	z = mul(e, t, t);
	p = mul(e, mul(e, t, z), POLY(e, z, atan_f64));
	s = fast_sum(e, hi, t);
	return fast_sum(e, s.h, add(e, s.l, add(e, p, lo)));
}

stx_ev stx__el_atan(const struct el *e, stx_ev x)
{
	struct el w = el_make(e->b, STX_F64);
	stx_ev a, big, r;

	if (is_f64(e))
		return sign_of(e, atan_wide(e, mag(e, x)).h, x);
	a = mag(&w, widen(&w, x));
	big = gt(&w, a, fk(&w, 1));
	r = atan_short(&w, sel(&w, big, fk(&w, 1), a), sel(&w, big, a, fk(&w, 1)));
	r = sel(&w, big, ksub(&w, PI / 2, r), r);
	return sign_of(e, narrow(e, r), x);
}

/* atan(ay/ax), reflected when left; what the quotient q lost counts 1/(1 + q^2) of its size. Where
 * products have no low half, and beyond 2^60, it does not count. */
static stx_ev atan2_f64(const struct el *e, stx_ev ay, stx_ev ax, stx_ev left)
{
	stx_ev scale = sel(e, lt(e, ax, fk(e, 0x1p-800)), fk(e, 0x1p600), fk(e, 1)), q, ok, s;
	struct dd f, r;

	ax = mul(e, ax, scale);
	ay = mul(e, ay, scale);
	f = dd_quo(e, dd_of(e, ay), dd_of(e, ax));
	q = sel(e, eq(e, ay, ax), fk(e, 1), f.h); /* inf/inf */
	q = sel(e, eq(e, ay, fk(e, 0)), ay, q);
	r = atan_wide(e, q);
	ok = both(e, gt(e, q, fk(e, 0x1p-100)), lt(e, q, fk(e, 0x1p60)));
	f.l = quo(e, f.l, addk(e, mul(e, q, q), 1));
	ok = both(e, ok, lt(e, ay, fk(e, INFINITY)));
	r.l = add(e, r.l, sel(e, ok, f.l, fk(e, 0)));
	s = ksub(e, PI, r.h);
	s = add(e, s, add(e, sub(e, ksub(e, PI, s), r.h), ksub(e, PI_LO, r.l)));
	return sel(e, left, s, add(e, r.h, r.l));
}

/* The angle of (x, y): atan(|y|/|x|), reflected for negative x (a negative zero too), signed by y.
 */
stx_ev stx__el_atan2(const struct el *e, stx_ev y, stx_ev x)
{
	struct el w = el_make(e->b, STX_F64);
	int f64 = is_f64(e);
	stx_ev vx = f64 ? x : widen(&w, x), ay = mag(&w, f64 ? y : widen(&w, y)), ax = mag(&w, vx),
	       r;
	stx_ev left = lt(&w, sign_of(&w, fk(&w, 1), vx), fk(&w, 0));

	if (f64) {
		r = atan2_f64(e, ay, ax, left);
	} else {
		stx_ev steep = gt(&w, ay, ax), same = eq(&w, ay, ax);
		stx_ev num = sel(&w, steep, ax, ay), den = sel(&w, steep, ay, ax);

		den = sel(&w, same, fk(&w, 1), den);
		num = sel(&w, both(&w, same, gt(&w, ay, fk(&w, 0))), fk(&w, 1), num);
		r = atan_short(&w, num, den);
		r = sel(&w, steep, ksub(&w, PI / 2, r), r);
		r = sel(&w, left, ksub(&w, PI, r), r);
	}
	r = sel(&w, eq(&w, vx, vx), r, vx);
	return sign_of(e, f64 ? r : narrow(e, r), y);
}

/* ---- for results that f16 or bf16 round ---- */

/* x - n * period, |x| < 2^12: pi, or pi/2, in pieces of 11 bits, all positive so that -0 stays */
static stx_ev less_turns(const struct el *e, stx_ev x, stx_ev n, double scale)
{
	x = sub(e, x, mulk(e, n, 0x1.92p+1 * scale));
	x = sub(e, x, mulk(e, n, 0x1.fb4p-11 * scale));
	return sub(e, x, mulk(e, n, 0x1.4442d2p-23 * scale));
}

static stx_ev is_large(const struct el *e, stx_ev x)
{
	return rarely(e, ge(e, mag(e, x), fk(e, 0x1p12)));
}

static stx_ev sine_near(const struct el *e, stx_ev x, int shift)
{
	stx_ev m = mulk(e, x, 0x1.45f306p-2), n, r;

	m = addk(e, shift ? addk(e, m, 0.5) : m, magic(e));
	n = subk(e, m, magic(e));
	r = less_turns(e, x, shift ? subk(e, n, 0.5) : n, 1);
	r = mul(e, r, POLY(e, mul(e, r, r), sin_short));
	r = unbits(e, ixor(e, bits(e, r), ishl(e, bits(e, m), 31)));
	return sel(e, is_large(e, x), sine_f32(e, x, shift), r);
}

stx_ev stx__el_short_sin(const struct el *e, stx_ev x)
{
	return is_f64(e) ? stx__el_sin(e, x) : sine_near(e, x, 0);
}

stx_ev stx__el_short_cos(const struct el *e, stx_ev x)
{
	return is_f64(e) ? stx__el_cos(e, x) : sine_near(e, x, 1);
}

stx_ev stx__el_short_tan(const struct el *e, stx_ev x)
{
	stx_ev m, r, z, odd, s, c;

	if (is_f64(e))
		return stx__el_tan(e, x);
	m = addk(e, mulk(e, x, 0x1.45f306p-1), magic(e));
	r = less_turns(e, x, subk(e, m, magic(e)), 0.5);
	z = mul(e, r, r);
	s = mul(e, r, POLY(e, z, sin_shorter));
	c = POLY(e, z, cos_short);
	odd = ne(e, iand(e, bits(e, m), 1), ik(e, 0));
	r = quo(e, sel(e, odd, neg(e, c), s), sel(e, odd, s, c));
	return sel(e, is_large(e, x), stx__el_tan(e, x), r);
}

/* asin of the smaller of a and sqrt((1-a)/2); *big: it is the second. */
static stx_ev arc_near(const struct el *e, stx_ev a, stx_ev *big)
{
	stx_ev half = mulk(e, ksub(e, 1, a), 0.5), z, s;

	*big = gt(e, a, fk(e, 0.5));
	z = sel(e, *big, half, mul(e, a, a));
	s = sel(e, *big, root(e, half), a);
	return mul(e, s, POLY(e, z, asin_short));
}

stx_ev stx__el_short_asin(const struct el *e, stx_ev x)
{
	stx_ev big, t;

	if (is_f64(e))
		return stx__el_asin(e, x);
	t = arc_near(e, mag(e, x), &big);
	return sign_of(e, sel(e, big, ksub(e, 0x1.921fb6p+0, add(e, t, t)), t), x);
}

stx_ev stx__el_short_acos(const struct el *e, stx_ev x)
{
	stx_ev big, t, left = lt(e, x, fk(e, 0)), far;

	if (is_f64(e))
		return stx__el_acos(e, x);
	t = arc_near(e, mag(e, x), &big);
	far = add(e, t, t);
	far = sel(e, left, ksub(e, 0x1.921fb6p+1, far), far);
	return sel(e, big, far, ksub(e, 0x1.921fb6p+0, sign_of(e, t, x)));
}

stx_ev stx__el_short_atan(const struct el *e, stx_ev x)
{
	stx_ev a = mag(e, x), one = fk(e, 1), big = gt(e, a, one), t;

	if (is_f64(e))
		return stx__el_atan(e, x);
	t = quo(e, sel(e, big, one, a), sel(e, big, a, one));
	t = mul(e, t, POLY(e, mul(e, t, t), atan_shortest));
	return sign_of(e, sel(e, big, ksub(e, 0x1.921fb6p+0, t), t), x);
}
