/* host.c: dense host tensors. */
#include "host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t stx_host_elems(const int64_t *sizes, int rank)
{
	int64_t n = 1;
	for (int i = 0; i < rank; i++)
		if (sizes[i] < 0 || __builtin_mul_overflow(n, sizes[i], &n))
			return -1;
	return n;
}

stx_err stx_host_new(struct stx_host *h, enum stx_dtype t, int rank, const int64_t *sizes,
		     struct stx_diag *d)
{
	memset(h, 0, sizeof *h);
	if (rank < 0 || rank > STX_MAX_RANK || t >= STX_DTYPE_COUNT)
		return stx_fail(d, STX_E_UNSUPPORTED, "tensor", "",
				"rank %d is over the limit of %d", rank, STX_MAX_RANK);
	int64_t n = stx_host_elems(sizes, rank), bytes;
	if (n < 0 || __builtin_mul_overflow(n, (int64_t)stx_dtype_bytes(t), &bytes) ||
	    (size_t)bytes > STX_HOST_BYTES_MAX) {
		struct stx_tensor shape = { .rank = (uint8_t)rank };
		char text[256];
		memcpy(shape.sizes, sizes, (size_t)rank * sizeof *sizes);
		stx_host_shape(&shape, text, sizeof text);
		return stx_fail(d, STX_E_TOO_LARGE, "tensor", "",
				"a tensor %s%s takes more than the %zu GiB that this tool holds",
				stx_dtype_name(t), text, STX_HOST_BYTES_MAX >> 30);
	}
	h->t.dtype = (uint8_t)t;
	h->t.rank = (uint8_t)rank;
	int64_t stride = 1;
	for (int i = rank - 1; i >= 0; i--) {
		h->t.sizes[i] = sizes[i];
		h->t.strides[i] = stride;
		if (n) /* an empty tensor may have sizes whose product overflows */
			stride *= sizes[i];
	}
	h->bytes = (size_t)bytes;
	h->t.data = aligned_alloc(64, (h->bytes + 64) & ~(size_t)63);
	if (h->t.data)
		return STX_E_OK;
	return stx_fail(d, STX_E_NOMEM, "tensor", "", "no memory for a tensor of %zu bytes",
			h->bytes);
}

void stx_host_free(struct stx_host *h)
{
	free(h->t.data);
	memset(h, 0, sizeof *h);
}

stx_err stx_host_copy(struct stx_host *h, const struct stx_tensor *t, struct stx_diag *d)
{
	stx_err e = stx_host_new(h, t->dtype, t->rank, t->sizes, d);
	if (e || h->bytes == 0)
		return e;
	int bytes = stx_dtype_bytes(t->dtype);
	int64_t at[STX_MAX_RANK] = { 0 }, n = stx_host_elems(t->sizes, t->rank);
	const char *src = (const char *)t->data + t->offset * bytes;
	char *dst = h->t.data;
	for (int64_t k = 0; k < n; k++) {
		memcpy(dst + k * bytes, src, (size_t)bytes);
		for (int i = t->rank - 1; i >= 0; i--) {
			src += t->strides[i] * bytes;
			if (++at[i] < t->sizes[i])
				break;
			src -= t->strides[i] * bytes * t->sizes[i];
			at[i] = 0;
		}
	}
	return STX_E_OK;
}

/* ---- small floats, exactly, through their fields ---- */

struct small {
	int exp_bits, man_bits, bias;
	int has_inf;  /* IEEE: largest exponent is inf or NaN */
	int nan_code; /* without inf: the magnitude that is NaN; 0: only negative zero is */
};

static double decode(uint32_t bits, int width, struct small f)
{
	uint32_t sign = bits >> (width - 1) & 1, mag = bits & ((1u << (width - 1)) - 1);
	uint32_t e = mag >> f.man_bits, m = mag & ((1u << f.man_bits) - 1);
	double v;
	if (!f.has_inf && f.nan_code == 0 && sign && mag == 0)
		return NAN;
	if (!f.has_inf && f.nan_code && mag == (uint32_t)f.nan_code)
		return NAN;
	if (f.has_inf && e == (1u << f.exp_bits) - 1)
		v = m ? NAN : INFINITY;
	else if (e == 0)
		v = ldexp(m, 1 - f.bias - f.man_bits);
	else
		v = ldexp((double)(m | 1u << f.man_bits), (int)e - f.bias - f.man_bits);
	return sign ? -v : v;
}

static const struct small half = { 5, 10, 15, 1, 0 }, brain = { 8, 7, 127, 1, 0 },
			  e4m3fn = { 4, 3, 7, 0, 0x7f }, e5m2 = { 5, 2, 15, 1, 0 },
			  e4m3fnuz = { 4, 3, 8, 0, 0 }, e5m2fnuz = { 5, 2, 16, 0, 0 };

double stx_host_at(const struct stx_host *h, int64_t i)
{
	const void *p = (const char *)h->t.data + i * stx_dtype_bytes(h->t.dtype);
	union {
		uint16_t u16;
		uint32_t u32;
		uint64_t u64;
		int16_t i16;
		int32_t i32;
		int64_t i64;
		float f;
		double d;
	} v;
	uint8_t b;
	memcpy(&v, p, (size_t)stx_dtype_bytes(h->t.dtype));
	memcpy(&b, p, 1);
	switch (h->t.dtype) {
	case STX_BOOL: return b != 0;
	case STX_U8: return b;
	case STX_I8: return (int8_t)b;
	case STX_U16: return v.u16;
	case STX_I16: return v.i16;
	case STX_U32: return v.u32;
	case STX_I32: return v.i32;
	case STX_U64: return (double)v.u64;
	case STX_I64: return (double)v.i64;
	case STX_F32: return v.f;
	case STX_F64: return v.d;
	case STX_F16: return decode(v.u16, 16, half);
	case STX_BF16: return decode(v.u16, 16, brain);
	case STX_F8E4M3FN: return decode(b, 8, e4m3fn);
	case STX_F8E5M2: return decode(b, 8, e5m2);
	case STX_F8E4M3FNUZ: return decode(b, 8, e4m3fnuz);
	case STX_F8E5M2FNUZ: return decode(b, 8, e5m2fnuz);
	default: return 0;
	}
}

/* ---- random contents ---- */

/* splitmix64: a counter-based sequence, the same everywhere. */
static uint64_t mix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Sum of twelve uniform numbers less six: normal enough, without functions whose last bit may
 * differ. */
static double normal(uint64_t *state)
{
	double sum = -6;
	for (int i = 0; i < 12; i++)
		sum += (double)(mix(state) >> 11) * 0x1p-53;
	return sum;
}

/* Round to nearest even; |x| is less than 7 here, so there is no overflow. */
static uint16_t to_half(float x)
{
	uint32_t u, sign;
	memcpy(&u, &x, 4);
	sign = u >> 16 & 0x8000;
	if (fabsf(x) < 0x1p-14f) /* subnormal: multiples of 2^-24 */
		return (uint16_t)(sign | (uint32_t)rintf(fabsf(x) * 0x1p24f));
	u &= 0x7fffffff;
	u += 0xfff + (u >> 13 & 1);
	return (uint16_t)(sign | (u - (112u << 23)) >> 13);
}

static uint16_t to_brain(float x)
{
	uint32_t u;
	memcpy(&u, &x, 4);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* fp8 values: any pattern of moderate size, positive or negative, is a number in all four forms. */
static uint8_t small_float(uint64_t *state)
{
	uint64_t r = mix(state);
	return (uint8_t)(0x20 + r % 0x28 + (r >> 32 & 1) * 0x80);
}

void stx_host_random(struct stx_host *h, uint64_t seed)
{
	int64_t n = stx_host_elems(h->t.sizes, h->t.rank);
	int bytes = stx_dtype_bytes(h->t.dtype);
	char *p = h->t.data;
	memset(p, 0, h->bytes);
	for (int64_t i = 0; i < n; i++, p += bytes) {
		float f;
		double g;
		uint16_t u;
		switch (h->t.dtype) {
		case STX_F32:
			f = (float)normal(&seed);
			memcpy(p, &f, 4);
			break;
		case STX_F64:
			g = normal(&seed);
			memcpy(p, &g, 8);
			break;
		case STX_F16:
		case STX_BF16:
			f = (float)normal(&seed);
			u = h->t.dtype == STX_F16 ? to_half(f) : to_brain(f);
			memcpy(p, &u, 2);
			break;
		case STX_F8E4M3FN:
		case STX_F8E5M2:
		case STX_F8E4M3FNUZ:
		case STX_F8E5M2FNUZ: *p = (char)small_float(&seed); break;
		default: *p = (char)(mix(&seed) >> 63); /* little-endian 0 or 1 of any width */
		}
	}
}

/* ---- showing ---- */

void stx_host_shape(const struct stx_tensor *t, char *out, size_t cap)
{
	size_t n = 0;
	if (cap < 3)
		return;
	out[n++] = '[';
	for (int i = 0; i < t->rank && n + 24 < cap; i++)
		n += (size_t)snprintf(out + n, cap - n, i ? ",%lld" : "%lld",
				      (long long)t->sizes[i]);
	snprintf(out + n, cap - n, "]");
}

/* Integers in full: a double holds 53 bits of them. */
static void print_integer(FILE *f, const struct stx_host *h, int64_t i)
{
	uint64_t v;
	memcpy(&v, (const char *)h->t.data + i * 8, 8);
	if (h->t.dtype == STX_U64)
		fprintf(f, " %llu", (unsigned long long)v);
	else
		fprintf(f, " %lld", (long long)v);
}

void stx_host_print(FILE *f, const struct stx_host *h)
{
	char shape[256];
	int64_t n = stx_host_elems(h->t.sizes, h->t.rank);
	stx_host_shape(&h->t, shape, sizeof shape);
	fprintf(f, ": %s%s", stx_dtype_name(h->t.dtype), shape);
	for (int64_t i = 0; i < n && i < 8; i++) {
		if (stx_dtype_is_float(h->t.dtype))
			fprintf(f, " %.7g", stx_host_at(h, i));
		else if (stx_dtype_bytes(h->t.dtype) == 8)
			print_integer(f, h, i);
		else
			fprintf(f, " %.0f", stx_host_at(h, i));
	}
	fprintf(f, n > 8 ? " ...\n" : "\n");
}

/* ---- comparison ---- */

static int close_enough(double got, double want, double rtol, double atol, double *error)
{
	*error = 0;
	if (isnan(got) || isnan(want))
		return isnan(got) && isnan(want);
	if (got == want)
		return 1;
	*error = fabs(got - want);
	return !isinf(got) && !isinf(want) && *error <= atol + rtol * fabs(want);
}

stx_err stx_host_compare(const char *name, const struct stx_host *got, const struct stx_host *want,
			 double rtol, double atol, double *worst, struct stx_diag *d)
{
	char a[256], b[256];
	*worst = 0;
	stx_host_shape(&got->t, a, sizeof a);
	stx_host_shape(&want->t, b, sizeof b);
	if (got->t.dtype != want->t.dtype || got->t.rank != want->t.rank || strcmp(a, b) != 0)
		return stx_fail(d, STX_E_MISMATCH, "compare", name,
				"output '%s' is %s%s, expected %s%s", name,
				stx_dtype_name(got->t.dtype), a, stx_dtype_name(want->t.dtype), b);
	int64_t n = stx_host_elems(got->t.sizes, got->t.rank), wrong = 0, first = 0;
	int bytes = stx_dtype_bytes(got->t.dtype);
	int exact = !stx_dtype_is_float(got->t.dtype);
	for (int64_t i = 0; i < n; i++) {
		double error = 0;
		int ok = !memcmp((char *)got->t.data + i * bytes, (char *)want->t.data + i * bytes,
				 (size_t)bytes);
		if (!ok && exact)
			error = fabs(stx_host_at(got, i) - stx_host_at(want, i));
		else if (!ok)
			ok = close_enough(stx_host_at(got, i), stx_host_at(want, i), rtol, atol,
					  &error);
		if (error > *worst)
			*worst = error;
		if (!ok && wrong++ == 0)
			first = i;
	}
	if (!wrong)
		return STX_E_OK;
	return stx_fail(
		d, STX_E_MISMATCH, "compare", name,
		"output '%s': %lld of %lld elements differ; element %lld is %.9g, expected %.9g "
		"(largest difference %.3g)",
		name, (long long)wrong, (long long)n, (long long)first, stx_host_at(got, first),
		stx_host_at(want, first), *worst);
}
