/* references.h
 * what elementary functions are compared with: those that the C library lacks; and f64 values of eight f32
 * arguments at once, by glibc's libmvec (errors below 4 ulp) where there is AVX-512. */
#ifndef TEST_REFERENCES_H
#define TEST_REFERENCES_H

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef long double wide;

static double sigmoid_f64(double x)
{
	return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}
static wide sigmoid_wide(wide x)
{
	return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}
static double softplus_f64(double x)
{
	return x > 40 ? x + exp(-x) : log1p(exp(x));
}
static wide softplus_wide(wide x)
{
	return x > 50 ? x + expl(-x) : log1pl(expl(x));
}
static double rsqrt_f64(double x)
{
	return 1 / sqrt(x);
}
static wide rsqrt_wide(wide x)
{
	return 1 / sqrtl(x);
}
static double relu_f64(double x)
{
	return x != x || x > 0 ? x : 0;
}
static wide relu_wide(wide x)
{
	return x != x || x > 0 ? x : 0;
}

static double cdf(double x)
{
	return erfc(-x * 0.70710678118654752440) / 2;
}
static double slope(double x)
{
	return isinf(x) ? cdf(x) : cdf(x) + x * exp(-x * x / 2) * 0.39894228040143267794;
}
static double gelu(double x)
{
	return x * cdf(x);
}
static double silu(double x)
{
	return x * sigmoid_f64(x);
}

/* ---- eight at once ---- */

#define EIGHT __attribute__((target("avx512f,avx512dq")))

typedef float eight_f32 __attribute__((vector_size(32), aligned(4)));
typedef int32_t eight_i32 __attribute__((vector_size(32)));
typedef double eight_f64 __attribute__((vector_size(64)));
typedef int64_t eight_i64 __attribute__((vector_size(64)));

struct eight {
	const char *name;
	void *self, *exp, *log1p; /* libmvec's */
};

static inline void *eight_symbol(const char *name)
{
	void *lib = dlopen("libmvec.so.1", RTLD_NOW);
	char symbol[64];

	snprintf(symbol, sizeof symbol, "_ZGVeN8v_%s", name);
	return lib ? dlsym(lib, symbol) : NULL;
}

/* 0 when there are none for it here. */
static inline int eight_find(struct eight *e, const char *name)
{
	*e = (struct eight){ name, eight_symbol(name), eight_symbol("exp"), eight_symbol("log1p") };
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && e->exp &&
	       e->log1p &&
	       (e->self || strstr(name, "sqrt") || strstr(name, "sigmoid") ||
		!strcmp(name, "softplus"));
}

static inline EIGHT eight_f64 eight_blend(eight_i64 c, eight_f64 a, eight_f64 b)
{
	return (eight_f64)((c & (eight_i64)a) | (~c & (eight_i64)b));
}

static inline EIGHT eight_f64 eight_call(void *fn, eight_f64 x)
{
	eight_f64 (*f)(eight_f64);

	memcpy(&f, &fn, sizeof f);
	return f(x);
}

/* What libmvec lacks is made of what it has. */
static inline EIGHT eight_f64 eight_value(const struct eight *e, eight_f64 x)
{
	const eight_f64 one = { 1, 1, 1, 1, 1, 1, 1, 1 };

	if (e->self)
		return eight_call(e->self, x);
	if (strstr(e->name, "sqrt")) {
		eight_f64 r;

		for (int i = 0; i < 8; i++)
			r[i] = __builtin_sqrt(x[i]);
		return e->name[0] == 'r' ? one / r : r;
	}
	if (!strcmp(e->name, "softplus"))
		return eight_blend(x > 40, x, eight_call(e->log1p, eight_call(e->exp, x)));
	eight_f64 t = eight_call(e->exp, (eight_f64)((eight_i64)x | INT64_MIN)); /* e^-|x| */

	return eight_blend(x < 0, t, one) / (one + t);
}

/* Whether any of the errors is over `worst` ulp, or a result is special where it should not be. */
static inline EIGHT int eight_over(eight_f32 got, eight_f64 want, double worst)
{
	const eight_i64 least = { 897, 897, 897, 897, 897, 897, 897, 897 }; /* 1023 - 126 */
	eight_f32 rounded = __builtin_convertvector(want, eight_f32);
	eight_i32 same =
		((eight_i32)got == (eight_i32)rounded) | ((got != got) & (rounded != rounded));
	eight_f64 g = __builtin_convertvector(got, eight_f64), err = g - want;
	eight_f64 size = (eight_f64)((eight_i64)want & INT64_MAX),
		  most = (eight_f64)((eight_i64)g & INT64_MAX);
	eight_i64 finite = (size <= 0x1.fffffep127) & (most <= 0x1.fffffep127), exponent, over;
	int any = 0;

	finite &= (size != 0) | (most != 0);
	exponent = (eight_i64)size >> 52;
	exponent -= (exponent - least) & (exponent < least);
	err = (eight_f64)((eight_i64)err & INT64_MAX) *
	      (eight_f64)((1023 + 1023 + 23 - exponent) << 52);
	over = (finite & (err > worst)) | (~finite & ~__builtin_convertvector(same, eight_i64));
	for (int i = 0; i < 8; i++)
		any |= over[i] != 0;
	return any;
}

/* The same of the function at x, in results of n kernels; worst: by kernel. */
static inline EIGHT int eight_judge(const struct eight *e, const float *x, const float *const *got,
				    const double *worst, int n)
{
	eight_f32 v = *(const eight_f32 *)x;
	eight_f64 want = eight_value(e, __builtin_convertvector(v, eight_f64));
	int over = 0;

	for (int k = 0; k < n; k++)
		over |= eight_over(*(const eight_f32 *)got[k], want, worst[k]);
	return over;
}

#endif
