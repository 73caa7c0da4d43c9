/* test_functions.c: the elementary functions as compiled, against the C library in a wider type:
 * largest errors at every level and in `fast`, equal bits at all levels in `strict`.
 *
 * `make check` takes a sample. STX_FUNCTIONS=all, or names separated by commas, visits all 2^32
 * arguments of the f32 functions of one operand and larger samples of the others, on STX_THREADS
 * threads (default: all cores): `make check-functions`. The reference is glibc's function in f64
 * for f32 (its errors, below 4 ulp, are 2^-27 of an ulp here; where eight at once are to be had the scalar
 * one only confirms what is worse than before) and in extended precision for f64 (below 2^-9). */
#include "jit.h"

#include <math.h>
#include <pthread.h>

#include "elementary.h"
#include "references.h"
#include "scalar.h"

#define BLOCK 65536
#define FAST  2.0 /* limit of every function in `fast` */

/* Limits in ulp, as NUMERICS.md states them: f32 and f64. */
static const struct function {
	const char *name;
	enum stx_prim op;
	double (*f64)(double);
	wide (*wide)(wide);
	double max32, max64;
} functions[] = {
	/* name     op             f64      wide     f32   f64 */
	{ "relu", STX_P_RELU, relu_f64, relu_wide, 0, 0 },
	{ "sqrt", STX_P_SQRT, sqrt, sqrtl, 0.5, 0.501 },
	{ "rsqrt", STX_P_RSQRT, rsqrt_f64, rsqrt_wide, 0.51, 0.51 },
	{ "cbrt", STX_P_CBRT, cbrt, cbrtl, 0.51, 0.7 },
	{ "exp", STX_P_EXP, exp, expl, 0.9, 0.9 },
	{ "exp2", STX_P_EXP2, exp2, exp2l, 0.9, 0.9 },
	{ "expm1", STX_P_EXPM1, expm1, expm1l, 1, 1 },
	{ "log", STX_P_LOG, log, logl, 0.85, 0.85 },
	{ "log2", STX_P_LOG2, log2, log2l, 0.51, 0.9 },
	{ "log10", STX_P_LOG10, log10, log10l, 0.51, 0.9 },
	{ "log1p", STX_P_LOG1P, log1p, log1pl, 0.51, 0.9 },
	{ "tanh", STX_P_TANH, tanh, tanhl, 1, 1 },
	{ "sigmoid", STX_P_SIGMOID, sigmoid_f64, sigmoid_wide, 1, 1 },
	{ "near_sigmoid", STX_P_NEAR_SIGMOID, sigmoid_f64, sigmoid_wide, 2.5, 2.5 },
	{ "softplus", STX_P_SOFTPLUS, softplus_f64, softplus_wide, 0.51, 1 },
	{ "erf", STX_P_ERF, erf, erfl, 1, 1 },
	{ "erfc", STX_P_ERFC, erfc, erfcl, 0.51, 1 },
	{ "sin", STX_P_SIN, sin, sinl, 0.6, 0.9 },
	{ "cos", STX_P_COS, cos, cosl, 0.6, 0.9 },
	{ "tan", STX_P_TAN, tan, tanl, 0.6, 1 },
	{ "asin", STX_P_ASIN, asin, asinl, 0.51, 0.75 },
	{ "acos", STX_P_ACOS, acos, acosl, 0.51, 1 },
	{ "atan", STX_P_ATAN, atan, atanl, 0.51, 0.9 },
	{ "sinh", STX_P_SINH, sinh, sinhl, 0.51, 1 },
	{ "cosh", STX_P_COSH, cosh, coshl, 0.51, 1 },
	{ "asinh", STX_P_ASINH, asinh, asinhl, 0.51, 1 },
	{ "acosh", STX_P_ACOSH, acosh, acoshl, 0.51, 1 },
	{ "atanh", STX_P_ATANH, atanh, atanhl, 0.51, 1 },
};
#define NFUNCTIONS (sizeof functions / sizeof *functions)

static const struct function2 {
	const char *name;
	enum stx_prim op;
	double (*f64)(double, double);
	wide (*wide)(wide, wide);
	double max32, max64;
} functions2[] = {
	{ "pow", STX_P_POW, pow, powl, 0.51, 0.8 },
	{ "atan2", STX_P_ATAN2, atan2, atan2l, 0.51, 1 },
};
#define NFUNCTIONS2 (sizeof functions2 / sizeof *functions2)

/* ---- kernels: every level in `strict`, then every level in `fast` ---- */

#define MAX_KERNELS 6

struct kernels {
	stx_kernel_fn *fn[MAX_KERNELS];
	int fast[MAX_KERNELS], n;
};

/* The instructions of a program; argument k is t<at[k]>, value i > 1 is t<i>. */
static void put_program(struct stx_bytes *out, const struct stx_elem_program *p, const uint32_t *at)
{
	for (uint32_t i = 0; i < p->n; i++) {
		const struct stx_elem_inst *q = &p->at[i];
		const char *type = stx_dtype_name((enum stx_dtype)q->dtype);

		if (q->op == STX_ELEM_ARG)
			continue;
		if (q->op != STX_ELEM_CONST) {
			const struct stx_prim_info *info = stx_prim_info((enum stx_prim)q->op);
			const uint32_t from[3] = { q->a, q->b, q->c };

			stx_bytes_printf(out, "t%u = %s %s", i, info->text, type);
			for (int o = 0; o < info->arity; o++)
				stx_bytes_printf(out, " t%u", from[o] < 2 ? at[from[o]] : from[o]);
			stx_bytes_puts(out, "\n");
		} else if (stx_dtype_is_float((enum stx_dtype)q->dtype)) {
			stx_bytes_printf(out,
					 isnan(q->k.f) ? "t%u = const %s nan(0x7ff8000000000000)\n"
						       : "t%u = const %s %a\n",
					 i, type, q->k.f);
		} else {
			stx_bytes_printf(out, "t%u = const %s %lld\n", i, type, (long long)q->k.i);
		}
	}
}

/* out[i] = op(a[i], b[i]), BLOCK elements; a function of one operand does not read b. */
static void put_kernel(struct stx_bytes *out, enum stx_prim op, enum stx_dtype t, int arity)
{
	struct stx_arena *a = stx_arena_new(0);
	const struct stx_elem_program *p = stx_elementary_record(a, op, t);
	const char *name = stx_dtype_name(t);

	stx_bytes_printf(out,
			 "kernel \"k\" poi bits 32 target cpu\nparam p0 %s read elems %d \"a\"\n"
			 "param p1 %s read elems %d \"b\"\nparam p2 %s write elems %d \"c\"\n"
			 "axis x0 grid 1\naxis x1 vector %d\ngrain 1\nbegin\nloop x1\n"
			 "t0 = load %s p0[x1]\n",
			 name, BLOCK, name, BLOCK, name, BLOCK, BLOCK, name);
	if (arity == 2)
		stx_bytes_printf(out, "t1 = load %s p1[x1]\n", name);
	if (!p)
		stx_bytes_printf(out, "t2 = %s %s t0\n", stx_prim_info(op)->text, name);
	if (p)
		put_program(out, p, (const uint32_t[]){ 0, 1 });
	stx_bytes_printf(out, "store %s p2[x1] t%u\nend\nend\n", name, p ? p->result : 2);
	stx_arena_free(a);
}

static struct kernels compile(struct stx_bytes *text)
{
	struct kernels k = { 0 };

	for (jit.fast = 0; jit.fast < 2; jit.fast++)
		for (const char *const *target = jit_targets(); *target; target++) {
			k.fn[k.n] = jit_kernel(*target, stx_bytes_cstr(text));
			k.fast[k.n++] = jit.fast;
		}
	jit.fast = 0;
	stx_bytes_free(text);
	return k;
}

static struct kernels make_kernels(enum stx_prim op, enum stx_dtype t, int arity)
{
	struct stx_bytes text = { 0 };

	put_kernel(&text, op, t, arity);
	return compile(&text);
}

/* ---- errors ---- */

struct worst {
	double err, x, y;
};

static void meet(struct worst *w, double err, double x, double y)
{
	if (!(err <= w->err))
		*w = (struct worst){ err, x, y };
}

/* The error of a result that is not a number, infinite, or 0 where the exact one is: none when it
 * rounds so, else infinite. */
static double special_error(double got, wide want, wide top, wide half)
{
	if (isnan(want) || isnan(got))
		return isnan(want) && isnan(got) ? 0 : INFINITY;
	if (got == 0 && want == 0)
		return !signbit(got) == !signbit(want) ? 0 : INFINITY;
	if (isinf(got) && isinf(want))
		return (got > 0) == (want > 0) ? 0 : INFINITY;
	if (isinf(got)) /* as if the exponent went on */
		return (got > 0) == (want > 0) && fabsl(want) > top - half ? 0.5 : INFINITY;
	return INFINITY;
}

/* requires: |want| is finite and a double. In ulp of f32 around want. */
static double error_f32(float got, double want)
{
	union {
		double f;
		int64_t i;
	} u = { .f = want };
	int64_t e = u.i >> 52 & 0x7ff;

	if (!(fabs(want) <= 0x1.fffffep127 && fabsf(got) <= 0x1.fffffep127f) ||
	    (got == 0 && want == 0))
		return special_error((double)got, (wide)want, 0x1.fffffep127L, 0x1p104L);
	u.i = (1023 + 1023 + 23 - (e > 1023 - 126 ? e : 1023 - 126)) << 52;
	return fabs((double)got - want) * u.f;
}

static double error_f64(double got, wide want)
{
	int e;

	if (!(fabsl(want) <= 0x1.fffffffffffffp1023L && isfinite(got)) || (got == 0 && want == 0))
		return special_error(got, want, 0x1.fffffffffffffp1023L, 0x1p970L);
	frexpl(want, &e);
	e = want == 0 || e - 53 < -1074 ? -1074 : e - 53;
	return (double)(fabsl((wide)got - want) * ldexpl(1, -e));
}

/* ---- sweeps ---- */

struct sweep {
	const struct function *fn;
	const struct function2 *fn2;
	enum stx_dtype t;
	struct kernels k;
	uint64_t blocks, next; /* of BLOCK arguments each; next under lock */
	int every;             /* f32: block i holds the bit patterns from i * BLOCK */
	struct eight eight;    /* its functions when has_eight */
	int has_eight;
	pthread_mutex_t lock;
	struct worst strict, fast;
	uint64_t differ; /* results whose bits depend on the level */
};

/* What a thread of a sweep holds. */
struct buffers {
	union {
		float f32[BLOCK];
		double f64[BLOCK];
	} x, y, out[MAX_KERNELS];
};

/* Arguments of f64, and of f32 beyond bit patterns: a third each any bit pattern, uniform in a
 * moderate range, logarithmic around 1; every 512th a multiple of pi/2 rounded, or beside it. */
static double point(uint64_t *seed, uint64_t i)
{
	double u = (double)(jit_random(seed) >> 11) * 0x1p-53, sign = jit_random(seed) & 1 ? -1 : 1;
	uint64_t r = jit_random(seed);

	if (i % 512 == 0)
		return nextafter(ldexp(floor(ldexp(u, 1 + (int)(r % 53))) * 0x1.921fb54442d18p+0,
				       r & 1 << 20 ? (int)(r >> 32) % 900 : 0),
				 sign * INFINITY);
	switch (i % 3) {
	case 0: return stx_scalar_from_bits(STX_F64, r);
	case 1: return sign * u * ldexp(1, (int)(r % 11));
	default: return sign * ldexp(1 + u, (int)(r % 60) - 50);
	}
}

/* Operands of pow whose result is mostly finite, of atan2 of like size. */
static void points2(const struct sweep *s, uint64_t *seed, uint64_t i, double *x, double *y)
{
	double u = (double)(jit_random(seed) >> 11) * 0x1p-53 * 2 - 1,
	       v = (double)(jit_random(seed) >> 11) * 0x1p-53 * 2 - 1;
	double spread = i % 3 == 0 ? 80 : i % 3 == 1 ? 4 : 0.004;
	int is_pow = s->fn2->op == STX_P_POW, w = s->t == STX_F64;

	*x = exp(u * spread) * (!is_pow && jit_random(seed) % 2 ? -1 : 1);
	*y = is_pow ? v * (w ? 700 : 85) / spread : v * exp(u * 3);
	if (i % 64 == 0) { /* any two bit patterns */
		*x = stx_scalar_from_bits(s->t, jit_random(seed));
		*y = stx_scalar_from_bits(s->t, jit_random(seed));
	}
}

static void fill(const struct sweep *s, uint64_t block, struct buffers *b)
{
	uint64_t seed = 0x13198a2e03707344u + block * 0x9e3779b97f4a7c15u, stride, u;

	jit_random(&seed);
	stride = ((uint64_t)1 << 32) / (s->blocks * BLOCK);
	for (uint64_t i = 0; i < BLOCK; i++) {
		double x, y = 0;

		if (s->t == STX_F32 && s->fn) {
			u = block * BLOCK + i;
			u = s->every ? u : u * stride + jit_random(&seed) % stride;
			memcpy(&b->x.f32[i], &(uint32_t){ (uint32_t)u }, 4);
			continue;
		}
		if (s->fn2)
			points2(s, &seed, i, &x, &y);
		else
			x = point(&seed, i);
		if (s->t == STX_F32) {
			b->x.f32[i] = (float)x;
			b->y.f32[i] = (float)y;
		} else {
			b->x.f64[i] = x;
			b->y.f64[i] = y;
		}
	}
}

/* Eight arguments from i on: 0 when no error is larger than those met. */
static int judge_eight(const struct sweep *s, const struct buffers *b, const int *own, int n, int i,
		       const struct worst *w)
{
	const float *got[MAX_KERNELS];
	double worst[MAX_KERNELS];

	for (int j = 0; j < n; j++) {
		got[j] = &b->out[own[j]].f32[i];
		worst[j] = w[s->k.fast[own[j]]].err;
	}
	return eight_judge(&s->eight, &b->x.f32[i], got, worst, n);
}

static void judge_f32(const struct sweep *s, const struct buffers *b, const int *own, int n,
		      struct worst *w)
{
	for (int i = 0; i < BLOCK; i++) {
		double x = (double)b->x.f32[i], y = s->fn2 ? (double)b->y.f32[i] : 0, want;

		if (s->has_eight && i % 8 == 0 && !judge_eight(s, b, own, n, i, w)) {
			i += 7;
			continue;
		}
		want = s->fn ? s->fn->f64(x) : s->fn2->f64(x, y);
		for (int j = 0; j < n; j++)
			meet(&w[s->k.fast[own[j]]], error_f32(b->out[own[j]].f32[i], want), x, y);
	}
}

static void judge_f64(const struct sweep *s, const struct buffers *b, const int *own, int n,
		      struct worst *w)
{
	for (int i = 0; i < BLOCK; i++) {
		double x = b->x.f64[i], y = s->fn2 ? b->y.f64[i] : 0;
		wide want = s->fn ? s->fn->wide(x) : s->fn2->wide(x, y);

		for (int j = 0; j < n; j++)
			meet(&w[s->k.fast[own[j]]], error_f64(b->out[own[j]].f64[i], want), x, y);
	}
}

/* Results that differ from those of the first kernel: their number when the kernel is strict. NaN is
 * one value. Kernels with results of their own go to own, the first one among them. */
static uint64_t compare_kernels(const struct sweep *s, const struct buffers *b, int *own, int *n)
{
	size_t size = (size_t)stx_dtype_bytes(s->t);
	uint64_t differ = 0;

	own[0] = 0;
	*n = 1;
	for (int k = 1; k < s->k.n; k++) {
		if (!memcmp(&b->out[0], &b->out[k], BLOCK * size))
			continue;
		own[(*n)++] = k;
		for (int i = 0; !s->k.fast[k] && i < BLOCK; i++) {
			double p = s->t == STX_F32 ? (double)b->out[0].f32[i] : b->out[0].f64[i];
			double q = s->t == STX_F32 ? (double)b->out[k].f32[i] : b->out[k].f64[i];

			differ += !(isnan(p) && isnan(q)) && (p != q || signbit(p) != signbit(q));
		}
	}
	return differ;
}

static void *sweep_thread(void *arg)
{
	struct sweep *s = arg;
	struct buffers *b = malloc(sizeof *b);
	struct worst w[2] = { { 0 } };
	uint64_t differ = 0;
	int own[MAX_KERNELS], nown;

	while (b) {
		pthread_mutex_lock(&s->lock);
		uint64_t block = s->next < s->blocks ? s->next++ : s->blocks;
		if (s->every && block && block < s->blocks && block % (s->blocks / 8) == 0)
			print_message("%s: %d%%\n", s->fn->name, (int)(100 * block / s->blocks));
		pthread_mutex_unlock(&s->lock);
		if (block == s->blocks)
			break;
		fill(s, block, b);
		for (int k = 0; k < s->k.n; k++) {
			void *buffers[3] = { &b->x, &b->y, &b->out[k] };

			jit_run(s->k.fn[k], buffers, NULL, 0, 1);
		}
		differ += compare_kernels(s, b, own, &nown);
		(s->t == STX_F32 ? judge_f32 : judge_f64)(s, b, own, nown, w);
	}
	pthread_mutex_lock(&s->lock);
	s->next = b ? s->next : 0; /* no memory: the blocks are not all visited */
	s->differ += differ;
	meet(&s->strict, w[0].err, w[0].x, w[0].y);
	meet(&s->fast, w[0].err, w[0].x, w[0].y); /* without FMA `fast` gives the same bits */
	meet(&s->fast, w[1].err, w[1].x, w[1].y);
	pthread_mutex_unlock(&s->lock);
	free(b);
	return NULL;
}

static int threads(void)
{
	const char *text = getenv("STX_THREADS");
	int n = text ? atoi(text) : (int)sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : n > 64 ? 64 : n;
}

/* Selected by STX_FUNCTIONS: 0 no, 1 yes; without the variable all, as a sample. */
static int selected(const char *name)
{
	const char *list = getenv("STX_FUNCTIONS");
	size_t n = strlen(name);

	if (!list || !strcmp(list, "all"))
		return 1;
	for (const char *at = list; (at = strstr(at, name)); at += n)
		if ((at == list || at[-1] == ',') && (at[n] == ',' || !at[n]))
			return 1;
	return 0;
}

/* 1 when an error is over its limit or a result depends on the level. */
static int run_sweep(struct sweep *s)
{
	const char *name = s->fn ? s->fn->name : s->fn2->name;
	double max = s->t == STX_F32 ? (s->fn ? s->fn->max32 : s->fn2->max32)
				     : (s->fn ? s->fn->max64 : s->fn2->max64);
	pthread_t at[64];
	int n = threads(), started = 0;

	pthread_mutex_init(&s->lock, NULL);
	while (started < n && !pthread_create(&at[started], NULL, sweep_thread, s))
		started++;
	for (int i = 0; i < started; i++)
		pthread_join(at[i], NULL);
	pthread_mutex_destroy(&s->lock);
	assert_int_equal(s->next, s->blocks);
	print_message("%s %-8s %10llu arguments%s: strict %.4f ulp at %a", stx_dtype_name(s->t),
		      name, (unsigned long long)(s->blocks * BLOCK), s->every ? " (all)" : "",
		      s->strict.err, s->strict.x);
	if (s->fn2)
		print_message(", %a", s->strict.y);
	print_message(" (limit %.2f), fast %.4f ulp at %a", max, s->fast.err, s->fast.x);
	if (s->fn2)
		print_message(", %a", s->fast.y);
	print_message(" (limit %.1f)%s\n", fmax(FAST, max), s->differ ? ", LEVELS DIFFER" : "");
	fflush(stdout);
	return !(s->strict.err <= max) || !(s->fast.err <= fmax(FAST, max)) || s->differ != 0;
}

static void sweep_all(enum stx_dtype t, int two)
{
	uint64_t sample = getenv("STX_FUNCTIONS") ? 1024 : 2;
	int failed = 0, every = t == STX_F32 && !two && sample > 2;

	for (size_t i = 0; i < (two ? NFUNCTIONS2 : NFUNCTIONS); i++) {
		const char *name = two ? functions2[i].name : functions[i].name;
		enum stx_prim op = two ? functions2[i].op : functions[i].op;
		struct sweep s = { .fn = two ? NULL : &functions[i],
				   .fn2 = two ? &functions2[i] : NULL,
				   .t = t,
				   .blocks = every ? ((uint64_t)1 << 32) / BLOCK : sample,
				   .every = every };

		if (!selected(name))
			continue;
		s.k = make_kernels(op, t, 1 + two);
		s.has_eight = t == STX_F32 && !two && eight_find(&s.eight, name);
		failed += run_sweep(&s);
	}
	assert_int_equal(failed, 0);
}

static void test_functions_f32_errors_stay_below_limit(void **state)
{
	(void)state;
	sweep_all(STX_F32, 0);
}

static void test_functions_f64_errors_stay_below_limit(void **state)
{
	(void)state;
	sweep_all(STX_F64, 0);
}

static void test_functions_of_two_operands_errors_stay_below_limit(void **state)
{
	(void)state;
	sweep_all(STX_F32, 1);
	sweep_all(STX_F64, 1);
}

/* Doubles that are nearest to multiples of pi/2 (Ng 1992; Muller, Elementary Functions), the largest
 * ones, and powers of two. */
static void test_functions_f64_hard_arguments_are_reduced_exactly(void **state)
{
	static const double hard[] = { 0x1.6ac5b262ca1ffp+849,
				       6381956970095103.0 * 0x1p797,
				       0x1.fffffffffffffp+1023,
				       0x1p1023,
				       0x1p120,
				       0x1p30,
				       0x1p54,
				       0x1.921fb54442d18p+0,
				       0x1.921fb54442d18p+1,
				       0x1.f6a7a2955385ep+1,
				       1e22 };
	static const struct {
		enum stx_prim op;
		wide (*f)(wide);
	} at[] = { { STX_P_SIN, sinl }, { STX_P_COS, cosl }, { STX_P_TAN, tanl } };

	(void)state;
	for (size_t i = 0; i < sizeof hard / sizeof *hard; i++)
		for (size_t k = 0; k < 6; k++) {
			union stx_scalar x = { .f = k & 1 ? -hard[i] : hard[i] };
			double got = stx_prim_eval(at[k / 2].op, STX_F64, STX_F64, x, x, x).f;
			double err = error_f64(got, at[k / 2].f((wide)x.f));

			if (!(err <= 1))
				fail_msg("%d of %a: %a, %g ulp off", (int)at[k / 2].op, x.f, got,
					 err);
		}
}

/* ---- halves: every argument of f16 and bf16 ---- */

/* What computes in f32 by a function of elementary_short.c and is rounded once: the function, or x
 * times it. */
static const struct half {
	const char *name;
	enum stx_prim op;
	int times_x;
	double (*f64)(double);
} halves[] = {
	{ "exp", STX_P_SHORT_EXP, 0, exp },
	{ "sigmoid", STX_P_SHORT_SIGMOID, 0, sigmoid_f64 },
	{ "tanh", STX_P_SHORT_TANH, 0, tanh },
	{ "erf", STX_P_SHORT_ERF, 0, erf },
	{ "softplus", STX_P_SHORT_SOFTPLUS, 0, softplus_f64 },
	{ "exp2", STX_P_SHORT_EXP2, 0, exp2 },
	{ "log", STX_P_SHORT_LOG, 0, log },
	{ "log2", STX_P_SHORT_LOG2, 0, log2 },
	{ "log10", STX_P_SHORT_LOG10, 0, log10 },
	{ "log1p", STX_P_SHORT_LOG1P, 0, log1p },
	{ "rsqrt", STX_P_SHORT_RSQRT, 0, rsqrt_f64 },
	{ "sin", STX_P_SHORT_SIN, 0, sin },
	{ "cos", STX_P_SHORT_COS, 0, cos },
	{ "tan", STX_P_SHORT_TAN, 0, tan },
	{ "asin", STX_P_SHORT_ASIN, 0, asin },
	{ "acos", STX_P_SHORT_ACOS, 0, acos },
	{ "atan", STX_P_SHORT_ATAN, 0, atan },
	{ "atanh", STX_P_SHORT_ATANH, 0, atanh },
	{ "silu", STX_P_SHORT_SIGMOID, 1, silu },
	{ "cdf", STX_P_SHORT_CDF, 0, cdf },
	{ "gelu", STX_P_SHORT_CDF, 1, gelu },
	{ "slope", STX_P_SHORT_SLOPE, 0, slope },
};
#define HALF_LIMIT 0.55 /* ulp of f16 and bf16 */

static struct kernels make_half(const struct half *h, enum stx_dtype t)
{
	struct stx_arena *a = stx_arena_new(0);
	const struct stx_elem_program *p = stx_elementary_record(a, h->op, STX_F32);
	const char *name = stx_dtype_name(t);
	struct stx_bytes text = { 0 };
	uint32_t r = p->result, n = p->n;

	stx_bytes_printf(&text,
			 "kernel \"k\" poi bits 32 target cpu\nparam p0 %s read elems %d \"a\"\n"
			 "param p1 %s write elems %d \"c\"\n"
			 "axis x0 grid 1\naxis x1 vector %d\ngrain 1\nbegin\nloop x1\n"
			 "t0 = load %s p0[x1]\nt1 = cast f32 t0\n",
			 name, BLOCK, name, BLOCK, BLOCK, name);
	put_program(&text, p, (const uint32_t[]){ 1, 1 });
	if (h->times_x) {
		stx_bytes_printf(&text, "t%u = mul f32 t1 t%u\n", n, r);
		r = n++;
	}
	stx_bytes_printf(&text, "t%u = cast %s t%u\nstore %s p1[x1] t%u\nend\nend\n", n, name, r,
			 name, n);
	stx_arena_free(a);
	return compile(&text);
}

/* |got - want| in ulp of t around want; what rounds to infinity may be that. */
static double error_half(enum stx_dtype t, double got, double want)
{
	int e, digits = t == STX_F16 ? 11 : 8, least = t == STX_F16 ? -24 : -133;

	if (isnan(want) || isinf(want))
		return isnan(want) ? (isnan(got) ? 0 : INFINITY) : (got == want ? 0 : INFINITY);
	if (isinf(stx_scalar_round(t, want)) || isinf(got))
		return isinf(got) && fabs(want) > (t == STX_F16 ? 65504 : 0x1.fep127) ? 0
										      : INFINITY;
	frexp(want, &e);
	e = want == 0 || e - digits < least ? least : e - digits;
	return fabs(got - want) * ldexp(1, -e);
}

static double half_worst(const struct half *h, enum stx_dtype t, double *at)
{
	static uint16_t x[BLOCK], out[BLOCK], first[BLOCK];
	struct kernels k = make_half(h, t);
	double worst = 0;

	for (int i = 0; i < BLOCK; i++)
		x[i] = (uint16_t)i;
	for (int j = 0; j < k.n; j++) {
		void *buffers[2] = { x, out };

		jit_run(k.fn[j], buffers, NULL, 0, 1);
		if (j == 0)
			memcpy(first, out, sizeof out);
		for (int i = 0; i < BLOCK; i++) {
			double v = stx_scalar_from_bits(t, x[i]),
			       got = stx_scalar_from_bits(t, out[i]), err;

			if (!k.fast[j] && !isnan(got))
				assert_int_equal(out[i], first[i]); /* at every level */
			err = error_half(t, got, h->f64(v));
			if (!(err <= worst)) {
				worst = err;
				*at = v;
			}
		}
	}
	return worst;
}

static void test_functions_halves_errors_stay_below_limit(void **state)
{
	static const enum stx_dtype types[] = { STX_F16, STX_BF16 };

	(void)state;
	for (size_t i = 0; i < sizeof halves / sizeof *halves; i++)
		for (int k = 0; k < 2; k++) {
			double at = 0, worst = half_worst(&halves[i], types[k], &at);

			print_message("%s %s, every argument: %.4f ulp at %a (limit %.2f)\n",
				      stx_dtype_name(types[k]), halves[i].name, worst, at,
				      HALF_LIMIT);
			if (!(worst <= HALF_LIMIT))
				fail_msg("%s", halves[i].name);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions_f32_errors_stay_below_limit),
		cmocka_unit_test(test_functions_f64_errors_stay_below_limit),
		cmocka_unit_test(test_functions_of_two_operands_errors_stay_below_limit),
		cmocka_unit_test(test_functions_f64_hard_arguments_are_reduced_exactly),
		cmocka_unit_test(test_functions_halves_errors_stay_below_limit),
	};

	return cmocka_run_group_tests(tests, jit_setup, jit_teardown);
}
