/* onnx_signal.c: Fourier transforms, windows, the mel filter bank.
 *
 * A transform is one matrix product with twiddle factors read from a table of one turn: position
 * (k n) mod N of N entries, exact at the octants. Table entries and window values are computed with
 * the project's own elementary functions in f64, so that they are the same on every host. Half
 * types compute in f32. Source: ONNX DFT 17 and 20, STFT 17, HannWindow, HammingWindow,
 * BlackmanWindow, MelWeightMatrix 17. */
#include "onnx_import.h"

#include <math.h>

#include "elementary.h"
#include "fold.h"

#define TABLE_MAX STX_FOLD_MAX_ELEMS
static const double pi = 3.14159265358979323846;

/* ---- one turn ---- */

struct trig { /* sin and cos on small arguments */
	const struct stx_elem_program *sine, *cosine;
};

static double evaluate(const struct stx_elem_program *p, double x)
{
	union stx_scalar v = { .f = x };
	return stx_elementary_eval(p, v, v).f;
}

/* cos and sin of 2 pi i / n, 0 <= i < n, from an argument of at most pi / 4. */
static void turn(const struct trig *t, int64_t i, int64_t n, double *cosine, double *sine)
{
	int64_t nearest = (8 * i / n + 1) / 2, quarter = nearest % 4; /* quarter turns */
	int64_t past = 4 * i - n * nearest;                           /* in steps of a quarter */
	double rest = 2 * pi * ((double)past / (double)(4 * n));
	double a = evaluate(t->cosine, rest), b = evaluate(t->sine, rest);
	*cosine = quarter == 0 ? a : quarter == 1 ? -b : quarter == 2 ? -a : b;
	*sine = quarter == 0 ? b : quarter == 1 ? a : quarter == 2 ? -b : -a;
}

static stx_err bad_length(struct onnx *c, int64_t n)
{
	return onnx_fail(c, STX_E_UNSUPPORTED, "operator %s: a length of %lld; 1 to %d are taken",
			 c->n->op_type, (long long)n, TABLE_MAX);
}

static int trig_start(struct onnx *c, struct trig *t, int64_t n)
{
	*t = (struct trig){ NULL, NULL };
	if (c->err)
		return c->err;
	if (n < 1 || n > TABLE_MAX)
		return bad_length(c, n);
	t->sine = stx_elementary_record(c->arena, STX_P_SIN, STX_F64);
	t->cosine = stx_elementary_record(c->arena, STX_P_COS, STX_F64);
	if (!t->sine || !t->cosine)
		return onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
	return STX_E_OK;
}

static V doubles(struct onnx *c, const double *v, int64_t n, enum stx_dtype t)
{
	return onnx_cast(c, onnx_constant(c, NULL, STX_F64, 1, &n, v, (size_t)n * 8), t);
}

/* Tables of cos and sin over one turn in n steps. */
static void turn_tables(struct onnx *c, int64_t n, enum stx_dtype t, V *cosine, V *sine)
{
	struct trig trig;
	*cosine = *sine = NO_V;
	if (trig_start(c, &trig, n))
		return;
	double *a = STX_NEW_ARRAY(c->arena, double, (size_t)n),
	       *b = STX_NEW_ARRAY(c->arena, double, (size_t)n);
	if (!a || !b) {
		onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
		return;
	}
	for (int64_t i = 0; i < n; i++)
		turn(&trig, i, n, &a[i], &b[i]);
	*cosine = doubles(c, a, n, t);
	*sine = doubles(c, b, n, t);
}

/* ---- the transform ----
 * Mixed radix, decimation in frequency: N = r m; the r parts of the signal are combined (a
 * transform of length r), turned, and each of the r results is a signal of length m. Factors 2, 3,
 * 4 and 5 are written out, others are matrix products. */

#define PRIME_MAX 4096 /* a larger prime factor would need its own table of more than 256 MB */

struct complex {
	V re, im; /* [rows, n]; im is NO_V for a real signal */
};

static struct complex times(struct onnx *c, struct complex x, V cosine, V sine)
{
	struct complex y = { onnx_mul(c, x.re, cosine), onnx_mul(c, x.re, sine) };
	if (x.im.node) {
		y.re = onnx_sub(c, y.re, onnx_mul(c, x.im, sine));
		y.im = onnx_add(c, y.im, onnx_mul(c, x.im, cosine));
	}
	return y;
}

/* sum + k * x, without the product where k is 0 or 1. */
static V plus(struct onnx *c, V sum, V x, double k)
{
	if (k == 0 || !x.node)
		return sum;
	if (k != 1 && k != -1)
		x = onnx_mul(c, x, onnx_number(c, k < 0 ? -k : k, onnx_dtype(x)));
	if (!sum.node)
		return k < 0 ? onnx_1(c, STX_OP_NEG, x) : x;
	return k < 0 ? onnx_sub(c, sum, x) : onnx_add(c, sum, x);
}

/* Transform of length r over dimension 1 of [rows, r, m], term by term. */
static struct complex small_radix(struct onnx *c, const struct trig *t, struct complex x, int64_t r,
				  int sign)
{
	V re[5], im[5], xr[5], xi[5];
	for (int64_t q = 0; q < r; q++) {
		xr[q] = onnx_slice(c, x.re, 1, q, q + 1, 1);
		xi[q] = x.im.node ? onnx_slice(c, x.im, 1, q, q + 1, 1) : NO_V;
	}
	for (int64_t p = 0; p < r; p++) {
		re[p] = im[p] = NO_V;
		for (int64_t q = 0; q < r; q++) {
			double cosine, sine;
			turn(t, p * q % r, r, &cosine, &sine);
			sine *= sign;
			re[p] = plus(c, plus(c, re[p], xr[q], cosine), xi[q], -sine);
			im[p] = plus(c, plus(c, im[p], xr[q], sine), xi[q], cosine);
		}
		if (!im[p].node) /* of real values, where every sine is 0 */
			im[p] = onnx_sub(c, re[p], re[p]);
	}
	return (struct complex){ onnx_cat(c, re, (uint32_t)r, 1), onnx_cat(c, im, (uint32_t)r, 1) };
}

/* The same as a matrix product with [r * parts, 2 r] factors. */
static struct complex large_radix(struct onnx *c, struct complex x, int64_t r, int sign)
{
	enum stx_dtype t = onnx_dtype(x.re);
	int64_t column[2] = { r, 1 }, swap[3] = { 0, 2, 1 };
	V cosine, sine, both[2] = { x.re, x.im };
	turn_tables(c, r, t, &cosine, &sine);
	V at = onnx_mul(c, onnx_view(c, onnx_arange(c, 0, r, 1, STX_I64), column, 2),
			onnx_arange(c, 0, r, 1, STX_I64));
	at = onnx_2(c, STX_OP_REMAINDER, at, onnx_number(c, (double)r, STX_I64));
	V cs = onnx_index_select(c, cosine, 0, at), sn = onnx_index_select(c, sine, 0, at);
	sn = sign < 0 ? onnx_1(c, STX_OP_NEG, sn) : sn;
	V from_re[2] = { cs, sn }, from_im[2] = { onnx_1(c, STX_OP_NEG, sn), cs };
	V rows[2] = { onnx_cat(c, from_re, 2, 1), onnx_cat(c, from_im, 2, 1) };
	uint32_t parts = x.im.node ? 2 : 1;
	V y = onnx_matmul(c, onnx_permute(c, onnx_cat(c, both, parts, 1), swap, 3),
			  onnx_cat(c, rows, parts, 0));
	y = onnx_permute(c, y, swap, 3);
	return (struct complex){ onnx_slice(c, y, 1, 0, r, 1), onnx_slice(c, y, 1, r, 2 * r, 1) };
}

/* The factor to take out of n: an odd power of two gives its 2 first, then fours, then primes. */
static int64_t next_factor(int64_t n)
{
	int64_t twos = n & -n;
	if (twos > 1)
		return __builtin_ctzll((unsigned long long)twos) % 2 ? 2 : 4;
	for (int64_t p = 3; p * p <= n; p += 2)
		if (n % p == 0)
			return p;
	return n;
}

/* cos and sin of 2 pi p j / n as [r, m]. */
static void turns(struct onnx *c, const struct trig *t, int64_t r, int64_t m, int sign,
		  enum stx_dtype dtype, V *cosine, V *sine)
{
	int64_t n = r * m, shape[2] = { r, m };
	double *a = STX_NEW_ARRAY(c->arena, double, (size_t)n),
	       *b = STX_NEW_ARRAY(c->arena, double, (size_t)n);
	if (!a || !b) {
		onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
		return;
	}
	for (int64_t p = 0; p < r; p++)
		for (int64_t j = 0; j < m; j++) {
			turn(t, p * j % n, n, &a[p * m + j], &b[p * m + j]);
			b[p * m + j] *= sign;
		}
	*cosine = onnx_view(c, doubles(c, a, n, dtype), shape, 2);
	*sine = onnx_view(c, doubles(c, b, n, dtype), shape, 2);
}

static V regroup(struct onnx *c, V x, int64_t rows, int64_t r, int64_t m)
{
	int64_t wide[3] = { rows, r, m }, flat[2] = { rows, r * m }, swap[3] = { 0, 2, 1 };
	return onnx_view(c, onnx_permute(c, onnx_view(c, x, wide, 3), swap, 3), flat, 2);
}

/* Transform of length n of every row; depth of recursion: the number of factors. */
static struct complex fft(struct onnx *c, const struct trig *t, struct complex x, int64_t rows,
			  int64_t n, int sign)
{
	int64_t r = next_factor(n), m = n / r;
	int64_t wide[3] = { rows, r, m }, split[2] = { rows * r, m };
	V cosine = NO_V, sine = NO_V;
	if (r > PRIME_MAX)
		onnx_fail(c, STX_E_UNSUPPORTED, "operator %s: a length with the prime factor %lld",
			  c->n->op_type, (long long)r);
	if (c->err)
		return x;
	x.re = onnx_view(c, x.re, wide, 3);
	x.im = x.im.node ? onnx_view(c, x.im, wide, 3) : NO_V;
	x = r <= 5 ? small_radix(c, t, x, r, sign) : large_radix(c, x, r, sign);
	if (m > 1) {
		turns(c, t, r, m, sign, onnx_dtype(x.re), &cosine, &sine);
		x = times(c, x, cosine, sine);
	}
	x.re = onnx_view(c, x.re, split, 2);
	x.im = onnx_view(c, x.im, split, 2);
	if (m > 1)
		x = fft(c, t, x, rows * r, m, sign);
	return (struct complex){ regroup(c, x.re, rows, r, m), regroup(c, x.im, rows, r, m) };
}

/* x cropped or padded with zeros to n along dim. */
static V fit(struct onnx *c, V x, int dim, int64_t n)
{
	int64_t pads[2 * STX_MAX_DIMS] = { 0 };
	int rank = onnx_rank(x);
	int64_t have = onnx_dim(c, x, dim);
	if (c->err || have == n)
		return x;
	pads[2 * (rank - 1 - dim) + 1] = n - have;
	struct stx_arg a[3] = { stx_arg_tensor(x), stx_arg_ints(c->g, pads, 2 * (uint32_t)rank),
				stx_arg_scalar_f(0) };
	return onnx_call(c, STX_OP_PAD, a, 3);
}

/* Bins 0..n/2 of a real signal's spectrum to all n: the rest are conjugates. Bin 0, and bin n/2 of
 * an even length, are real: what stands in their imaginary parts does not count. */
static struct complex whole_spectrum(struct onnx *c, struct complex x, int64_t rows, int64_t n)
{
	int64_t half = n / 2 + 1, rest = n - half, edge[2] = { rows, 1 };
	V zero = onnx_full(c, edge, 2, 0, onnx_dtype(x.re));
	x.re = onnx_slice(c, x.re, 1, 0, half, 1);
	V tail_re = onnx_reverse(c, onnx_slice(c, x.re, 1, 1, 1 + rest, 1), 1);
	V middle = onnx_slice(c, x.im, 1, 1, 1 + rest, 1);
	V tail_im = onnx_1(c, STX_OP_NEG, onnx_reverse(c, middle, 1));
	V re[2] = { x.re, tail_re };
	V im[4] = { zero, middle, zero, tail_im }, odd[3] = { zero, middle, tail_im };
	x.re = onnx_cat(c, re, 2, 1);
	x.im = n == 1 ? zero : n % 2 ? onnx_cat(c, odd, 3, 1) : onnx_cat(c, im, 4, 1);
	return x;
}

static V part(struct onnx *c, V x, int64_t i)
{
	struct stx_arg a[3] = { stx_arg_tensor(x), stx_arg_int(c->g, onnx_rank(x) - 1),
				stx_arg_int(c->g, i) };
	return c->err ? NO_V : onnx_call(c, STX_OP_SELECT, a, 3);
}

struct transform {
	int64_t n, from, to; /* length; inputs read; outputs written */
	int inverse, real;   /* real: of the result (onesided inverse) */
};

/* x [rows, from, parts] to [rows, to, 2], or [rows, to, 1] where the result is real. */
static V transform(struct onnx *c, V x, const struct transform *f, int64_t rows, int64_t parts)
{
	struct trig t;
	int sign = f->inverse ? 1 : -1;
	if (trig_start(c, &t, f->n))
		return NO_V;
	struct complex s = { part(c, x, 0), parts == 2 ? part(c, x, 1) : NO_V };
	if (f->real && !s.im.node)
		s.im = onnx_sub(c, s.re, s.re);
	if (f->real)
		s = whole_spectrum(c, s, rows, f->n);
	s = fft(c, &t, s, rows, f->n, sign);
	if (parts == 1 && !f->real)
		s = whole_spectrum(c, s, rows, f->n);
	V both[2] = { onnx_slice(c, s.re, 1, 0, f->to, 1), onnx_slice(c, s.im, 1, 0, f->to, 1) };
	for (int i = 0; i < 2; i++) {
		both[i] = onnx_unsqueeze(c, both[i], 2);
		if (f->inverse)
			both[i] = onnx_2(c, STX_OP_DIV, both[i],
					 onnx_number(c, (double)f->n, onnx_dtype(both[i])));
	}
	return onnx_cat(c, both, f->real ? 1 : 2, 2);
}

/* The transform of x [.., 1 or 2] along dimension axis. n: 0 for the usual length. */
static V dft(struct onnx *c, V x, int axis, int64_t n, int inverse, int onesided)
{
	int64_t s[STX_MAX_DIMS], perm[STX_MAX_DIMS] = { 0 }, back[STX_MAX_DIMS] = { 0 };
	int rank = onnx_sizes(c, x, s), k = 0;
	enum stx_dtype t = onnx_dtype(x), w = stx_dtype_bytes(t) < 4 ? STX_F32 : t;
	if (c->err)
		return NO_V;
	if (rank < 2 || !onnx_is_float(x) || (s[rank - 1] != 1 && s[rank - 1] != 2)) {
		onnx_fail(c, STX_E_INVALID,
			  "a signal ends in a dimension of 1 (real) or 2 (complex) floats");
		return NO_V;
	}
	struct transform f = { .inverse = inverse, .real = inverse && onesided };
	f.n = n ? n : f.real ? 2 * (s[axis] - 1) : s[axis];
	if (f.n < 1 || f.n > TABLE_MAX) {
		bad_length(c, f.n);
		return NO_V;
	}
	f.from = f.real ? f.n / 2 + 1 : f.n;
	f.to = onesided && !inverse ? f.n / 2 + 1 : f.n;
	x = onnx_cast(c, fit(c, x, axis, f.from), w);
	for (int i = 0; i < rank - 1; i++) /* the axis next to the last dimension */
		if (i != axis)
			perm[k++] = i;
	perm[k++] = axis;
	perm[k] = rank - 1;
	int64_t last[STX_MAX_DIMS] = { 0 }, flat[3] = { 1, f.from, s[rank - 1] };
	for (int i = 0; i < rank - 2; i++)
		flat[0] = onnx_times(flat[0], last[i] = s[perm[i]]);
	V y = transform(c, onnx_view(c, onnx_permute(c, x, perm, rank), flat, 3), &f, flat[0],
			flat[2]);
	last[rank - 2] = f.to;
	last[rank - 1] = f.real ? 1 : 2;
	for (int i = 0; i < rank; i++)
		back[perm[i]] = i;
	return onnx_cast(c, onnx_permute(c, onnx_view(c, y, last, rank), back, rank), t);
}

static stx_err map_dft(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t n = 0, axis = c->opset < 20 ? onnx_int(c, "axis", 1) : -2;
	int rank = onnx_rank(x), given = onnx_has(c, 1);
	if (given && onnx_known_ints(c, onnx_in(c, 1), "the length", &n, 1) != 1)
		return onnx_fail(c, STX_E_INVALID, "the length must be one number");
	if (c->opset >= 20 && onnx_has(c, 2))
		onnx_known_ints(c, onnx_in(c, 2), "the axis", &axis, 1);
	int at = onnx_axis(c, axis, rank);
	if (c->err)
		return c->err;
	if (at == rank - 1)
		return onnx_fail(c, STX_E_INVALID, "axis %lld holds the complex parts",
				 (long long)axis);
	if (given && n < 1)
		return onnx_fail(c, STX_E_INVALID, "the length is %lld", (long long)n);
	out[0] = dft(c, x, at, n, onnx_int(c, "inverse", 0) != 0, onnx_int(c, "onesided", 0) != 0);
	return c->err;
}

static stx_err map_stft(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), window = onnx_opt(c, 2);
	int64_t s[STX_MAX_DIMS], step = 0, length = 0, perm[4] = { 0, 1, 3, 2 };
	if (onnx_known_ints(c, onnx_in(c, 1), "the frame step", &step, 1) != 1)
		return onnx_fail(c, STX_E_INVALID, "the frame step must be one number");
	if (onnx_sizes(c, x, s) != 3)
		return onnx_fail(c, STX_E_INVALID, "the signal must have rank 3");
	length = window.node ? onnx_dim(c, window, 0) : s[1];
	if (onnx_has(c, 3) &&
	    onnx_known_ints(c, onnx_in(c, 3), "the frame length", &length, 1) != 1)
		return onnx_fail(c, STX_E_INVALID, "the frame length must be one number");
	if (c->err)
		return c->err;
	if (step < 1 || length < 1 || length > s[1] ||
	    (window.node && onnx_dim(c, window, 0) != length))
		return onnx_fail(c, STX_E_INVALID,
				 "frames of %lld, %lld apart, of a signal of %lld (a window must "
				 "have a frame's length)",
				 (long long)length, (long long)step, (long long)s[1]);
	struct stx_arg u[4] = { stx_arg_tensor(x), stx_arg_int(c->g, 1), stx_arg_int(c->g, length),
				stx_arg_int(c->g, step) };
	V frames = onnx_permute(c, onnx_call(c, STX_OP_UNFOLD, u, 4), perm, 4);
	if (window.node)
		frames = onnx_mul(c, frames,
				  onnx_unsqueeze(c, onnx_cast(c, window, onnx_dtype(x)), 1));
	out[0] = dft(c, frames, 2, 0, 0, onnx_int(c, "onesided", 1) != 0);
	return c->err;
}

/* ---- windows ---- */

enum { HANN, HAMMING, BLACKMAN };

static stx_err map_window(struct onnx *c, V *out)
{
	static const double terms[][3] = { { 0.5, -0.5, 0 },
					   { 25.0 / 46, -21.0 / 46, 0 },
					   { 0.42, -0.5, 0.08 } };
	const double *a = terms[onnx_arg(c)];
	int64_t n = 0, to = onnx_int(c, "output_datatype", 1);
	enum stx_dtype t = stx_onnx_dtype((int)to);
	struct trig trig;
	if (t == STX_DTYPE_NONE)
		return onnx_unsupported_attr(c, "output_datatype", stx_onnx_type_name((int)to));
	if (onnx_known_ints(c, onnx_in(c, 0), "the size", &n, 1) != 1)
		return onnx_fail(c, STX_E_INVALID, "the size must be one number");
	int periodic = onnx_int(c, "periodic", 1) != 0;
	int64_t turn_of = periodic || n == 1 ? n : n - 1;
	if (trig_start(c, &trig, n))
		return c->err;
	double *v = STX_NEW_ARRAY(c->arena, double, (size_t)n);
	if (!v)
		return onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
	for (int64_t i = 0; i < n; i++) {
		double once, twice, unused;
		turn(&trig, i % turn_of, turn_of, &once, &unused);
		turn(&trig, 2 * i % turn_of, turn_of, &twice, &unused);
		v[i] = n == 1 && !periodic ? 1 : a[0] + a[1] * once + a[2] * twice;
	}
	out[0] = doubles(c, v, n, t);
	return c->err;
}

/* ---- the mel filter bank ---- */

struct mel {
	int64_t bins, length, rate;
	double low, high;
};

static double elementary(struct onnx *c, enum stx_prim op, double x)
{
	const struct stx_elem_program *p = stx_elementary_record(c->arena, op, STX_F64);
	if (!p)
		onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
	return p ? evaluate(p, x) : 0;
}

/* The spectrogram bin of each edge: bins + 2 numbers, equally spaced in mels. */
static stx_err mel_edges(struct onnx *c, const struct mel *m, int64_t *edge)
{
	static const double ln10 = 2.30258509299404568402;
	double low = 2595 * elementary(c, STX_P_LOG1P, m->low / 700) / ln10;
	double high = 2595 * elementary(c, STX_P_LOG1P, m->high / 700) / ln10;
	double step = (high - low) / (double)(m->bins + 2);
	int64_t last = m->length / 2;
	for (int64_t i = 0; i < m->bins + 2 && !c->err; i++) {
		double mels = (double)i * step + low;
		double hertz = 700 * elementary(c, STX_P_EXPM1, mels / 2595 * ln10);
		double at = floor((double)(m->length + 1) * hertz / (double)m->rate);
		if (!(at >= 0 && at <= (double)last))
			return onnx_fail(c, STX_E_INVALID,
					 "the edges %g to %g Hz are outside the spectrum", m->low,
					 m->high);
		edge[i] = (int64_t)at;
	}
	return c->err;
}

static stx_err map_mel(struct onnx *c, V *out)
{
	struct mel m = { 0 };
	int64_t to = onnx_int(c, "output_datatype", 1);
	enum stx_dtype t = stx_onnx_dtype((int)to);
	if (t == STX_DTYPE_NONE)
		return onnx_unsupported_attr(c, "output_datatype", stx_onnx_type_name((int)to));
	if (onnx_known_ints(c, onnx_in(c, 0), "the number of bins", &m.bins, 1) != 1 ||
	    onnx_known_ints(c, onnx_in(c, 1), "the length", &m.length, 1) != 1 ||
	    onnx_known_ints(c, onnx_in(c, 2), "the sample rate", &m.rate, 1) != 1 ||
	    onnx_known_floats(c, onnx_in(c, 3), "the lower edge", &m.low, 1) != 1 ||
	    onnx_known_floats(c, onnx_in(c, 4), "the upper edge", &m.high, 1) != 1)
		return onnx_fail(c, STX_E_INVALID, "the five inputs must be one number each");
	int64_t size[2] = { m.length / 2 + 1, m.bins };
	if (m.bins < 1 || m.length < 1 || m.rate < 1 || m.bins > TABLE_MAX ||
	    m.length > TABLE_MAX || size[0] * size[1] > 16 * (int64_t)TABLE_MAX)
		return onnx_fail(c, STX_E_INVALID, "%lld bins of a spectrum of %lld at %lld Hz",
				 (long long)m.bins, (long long)m.length, (long long)m.rate);
	int64_t *e = STX_NEW_ARRAY(c->arena, int64_t, (size_t)m.bins + 2);
	double *v = STX_NEW_ARRAY(c->arena, double, (size_t)(size[0] * size[1]));
	if (!e || !v)
		return onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
	if (mel_edges(c, &m, e))
		return c->err;
	for (int64_t i = 0; i < m.bins; i++) {
		double rise = (double)(e[i + 1] - e[i]), fall = (double)(e[i + 2] - e[i + 1]);
		if (e[i] == e[i + 1])
			v[e[i + 1] * m.bins + i] = 1;
		else
			for (int64_t j = e[i]; j <= e[i + 1]; j++)
				v[j * m.bins + i] = (double)(j - e[i]) / rise;
		for (int64_t j = e[i + 1]; j < e[i + 2]; j++)
			v[j * m.bins + i] = (double)(e[i + 2] - j) / fall;
	}
	out[0] = onnx_cast(
		c, onnx_constant(c, NULL, STX_F64, 2, size, v, (size_t)(size[0] * size[1]) * 8), t);
	return c->err;
}

const struct onnx_mapping onnx_signal_map[] = {
	{ "DFT", map_dft, 0 },
	{ "STFT", map_stft, 0 },
	{ "HannWindow", map_window, HANN },
	{ "HammingWindow", map_window, HAMMING },
	{ "BlackmanWindow", map_window, BLACKMAN },
	{ "MelWeightMatrix", map_mel, 0 },
	{ NULL, NULL, 0 },
};
