/* test_products.c: matrix products of random shapes, layouts and types, with what follows them, at
 * every level and in any number of pieces: to the bit what a plain loop gives that adds the terms
 * in order (NUMERICS: PLAIN over k; FMA from v3 on). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bytes.h"
#include "compiled.h"
#include "scalar.h"

#define ROUNDS 24

struct product {
	enum stx_dtype t;
	int64_t batch, m, n, k; /* batch 0: mm */
	int a_transposed, b_transposed, bias, relu, residual;
	double scale; /* of all values */
	struct stx_tensor in[4];
	uint32_t nin;
	double *want[2]; /* without and with FMA */
};

static uint64_t next(uint64_t *s)
{
	*s ^= *s >> 12;
	*s ^= *s << 25;
	*s ^= *s >> 27;
	return *s * 0x2545f4914f6cdd1du;
}

static int64_t between(uint64_t *s, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(next(s) >> 33) % (hi - lo + 1);
}

/* Mostly of [-1, 1) times scale; now and then an infinity, a zero of either sign, a subnormal, a
 * NaN. */
static double draw(uint64_t *s, enum stx_dtype t, double scale)
{
	static const double special[] = {
		INFINITY, -INFINITY, 0.0, -0.0, 0x1p-140, -0x1p-130, NAN
	};
	if (next(s) % 4096 == 0)
		return stx_scalar_round(t, special[next(s) % 7]);
	return stx_scalar_round(t, (double)(int64_t)next(s) * 0x1p-63 * scale);
}

/* Which inputs are weights, which may be prepared: none, both operands, the second. */
static const char *holder(int64_t which, int operand)
{
	return which % 3 == 1 || (which % 3 == 2 && operand == 1) ? "placeholder(param=True)"
								  : "placeholder()";
}

static void add_input(struct product *p, struct stx_bytes *text, uint64_t *s, const char *name,
		      int rank, const int64_t *sizes)
{
	struct stx_tensor *x = &p->in[p->nin++];
	*x = (struct stx_tensor){ .dtype = (uint8_t)p->t, .rank = (uint8_t)rank };
	stx_bytes_printf(text, "%%%s : %s[", name, stx_dtype_name(p->t));
	for (int i = 0; i < rank; i++) {
		x->sizes[i] = sizes[i];
		stx_bytes_printf(text, "%s%lld", i ? "," : "", (long long)sizes[i]);
	}
	stx_bytes_printf(text, "] = %s\n", holder(p->m + p->n, *name - 'a'));
	compiled_dense(x);
	int64_t n = compiled_numel(x);
	int bytes = stx_dtype_bytes(p->t);
	x->data = malloc((size_t)(n * bytes));
	assert_non_null(x->data);
	for (int64_t i = 0; i < n; i++) {
		union stx_scalar v;
		if (p->t == STX_I32)
			v.i = (int32_t)next(s);
		else
			v.f = draw(s, p->t, p->scale);
		stx_scalar_store(p->t, (char *)x->data + i * bytes, v);
	}
}

static double value(enum stx_dtype t, const void *p)
{
	union stx_scalar v = stx_scalar_load(t, p);
	return t == STX_I32 ? (double)v.i : v.f;
}

static double at(const struct product *p, int input, int64_t i)
{
	const struct stx_tensor *x = &p->in[input];
	return value(p->t, (const char *)x->data + i * stx_dtype_bytes(p->t));
}

/* A value held in a double: of integers the wrapped one. */
static double rounded(const struct product *p, double v)
{
	return p->t == STX_I32 ? (double)(int32_t)(uint32_t)(int64_t)v : stx_scalar_round(p->t, v);
}

static double step(enum stx_dtype work, double a, double b, double c, int fused)
{
	if (work == STX_I32)
		return (double)(int32_t)((uint32_t)(int64_t)a * (uint32_t)(int64_t)b +
					 (uint32_t)(int64_t)c);
	if (work == STX_F64)
		return fused ? fma(a, b, c) : a * b + c;
	if (fused)
		return (double)fmaf((float)a, (float)b, (float)c);
	float x = (float)a * (float)b;
	return (double)(x + (float)c);
}

static double plus(const struct product *p, double x, double y)
{
	int narrow = p->t != STX_F64 && p->t != STX_I32;
	return rounded(p, narrow ? (double)((float)x + (float)y) : x + y);
}

static double follow(const struct product *p, double c, int64_t col, int64_t flat)
{
	c = rounded(p, c);
	if (p->bias)
		c = plus(p, c, at(p, 2, col));
	if (p->relu)
		c = c != c || c > 0 ? c : 0;
	return p->residual ? plus(p, c, at(p, 2 + p->bias, flat)) : c;
}

static void expect(struct product *p)
{
	enum stx_dtype work = p->t == STX_F64 || p->t == STX_I32 ? p->t : STX_F32;
	int64_t batch = p->batch ? p->batch : 1, flat = 0;
	for (int f = 0; f < 2; f++)
		p->want[f] = malloc((size_t)(batch * p->m * p->n) * sizeof(double));
	for (int64_t b = 0; b < batch; b++)
		for (int64_t i = 0; i < p->m; i++)
			for (int64_t j = 0; j < p->n; j++, flat++) {
				double c[2] = { 0, 0 };
				for (int64_t k = 0; k < p->k; k++) {
					int64_t ai = p->a_transposed ? k * p->m + i : i * p->k + k;
					int64_t bi = p->b_transposed ? j * p->k + k : k * p->n + j;
					double x = at(p, 0, b * p->m * p->k + ai);
					double y = at(p, 1, b * p->k * p->n + bi);
					for (int f = 0; f < 2; f++)
						c[f] = step(work, x, y, c[f], f);
				}
				for (int f = 0; f < 2; f++)
					p->want[f][flat] = follow(p, c[f], j, flat);
			}
}

/* only: a type that is drawn, or one that is asked for, whose sums are subnormal or just not. */
static void make(struct product *p, struct stx_bytes *text, uint64_t *s, enum stx_dtype only)
{
	static const enum stx_dtype types[] = { STX_F32,  STX_F32, STX_F64, STX_BF16,
						STX_BF16, STX_F16, STX_I32 };
	memset(p, 0, sizeof *p);
	p->t = types[next(s) % 7];
	p->scale = next(s) % 4 ? 1 : p->t == STX_F16 ? 0x1p-12 : 0x1p-64;
	if (only != STX_DTYPE_NONE) {
		p->t = only;
		p->scale = only == STX_F16 ? 0x1p-12 : 0x1p-64;
	}
	p->batch = next(s) % 3 ? 0 : between(s, 1, 3);
	p->m = next(s) % 3 ? between(s, 4, 60) : between(s, 60, 150);
	if (next(s) % 4 == 0)
		p->m = 1;
	p->n = p->m == 1     ? between(s, 128, 900)
	       : next(s) % 3 ? between(s, 16, 90)
			     : between(s, 90, 200);
	p->k = next(s) % 3 ? between(s, 16, 330) : between(s, 300, 700);
	if (p->batch)
		p->k = between(s, 16, 200);
	if (p->t == STX_BF16) /* pairs */
		p->k += p->k % 2 && next(s) % 8;
	if (p->t == STX_BF16 && next(s) % 4 == 0)
		p->k += 640;
	p->a_transposed = next(s) % 2;
	p->b_transposed = p->m > 1 && next(s) % 2; /* else along lanes */
	if (p->m == 1)
		p->k = 65537 / p->n + between(s, 1, 50);
	p->bias = next(s) % 2 && only == STX_DTYPE_NONE;
	p->relu = next(s) % 2;
	p->residual = next(s) % 2 && only == STX_DTYPE_NONE;
	int r = p->batch ? 3 : 2;
	const int64_t full[3] = { p->batch, p->m, p->n };
	const int64_t as[3] = { p->batch, p->a_transposed ? p->k : p->m,
				p->a_transposed ? p->m : p->k };
	const int64_t bs[3] = { p->batch, p->b_transposed ? p->n : p->k,
				p->b_transposed ? p->k : p->n };
	add_input(p, text, s, "a", r, as + 3 - r);
	add_input(p, text, s, "b", r, bs + 3 - r);
	if (p->bias)
		add_input(p, text, s, "bias", 1, &p->n);
	if (p->residual)
		add_input(p, text, s, "res", r, full + 3 - r);
	const char *a = "a", *b = "b";
	if (p->a_transposed) {
		stx_bytes_puts(text, "%at = transpose.int(%a, -2, -1)\n");
		a = "at";
	}
	if (p->b_transposed) {
		stx_bytes_puts(text, "%bt = transpose.int(%b, -2, -1)\n");
		b = "bt";
	}
	stx_bytes_printf(text, "%%c0 = %s.default(%%%s, %%%s)\n", r == 3 ? "bmm" : "mm", a, b);
	int v = 0;
	if (p->bias) {
		stx_bytes_printf(text, "%%c%d = add.Tensor(%%c%d, %%bias)\n", v + 1, v);
		v++;
	}
	if (p->relu) {
		stx_bytes_printf(text, "%%c%d = relu.default(%%c%d)\n", v + 1, v);
		v++;
	}
	if (p->residual) {
		stx_bytes_printf(text, "%%c%d = add.Tensor(%%c%d, %%res)\n", v + 1, v);
		v++;
	}
	stx_bytes_printf(text, "return (%%c%d,)\n", v);
	expect(p);
}

static void check(const struct product *p, const char *text, const char *target,
		  const struct stx_tensor *out)
{
	int64_t n = compiled_numel(out);
	const double *want = p->want[!strstr(target, "v2")];
	int bytes = stx_dtype_bytes(p->t);
	for (int64_t i = 0; i < n; i++) {
		double got = value(p->t, (const char *)out->data + i * bytes);
		if ((got != got) != (want[i] != want[i]) || (got == got && got != want[i]) ||
		    (got == 0 && signbit(got) != signbit(want[i])))
			fail_msg("%s: element %lld is %a, not %a, of\n%s", target, (long long)i,
				 got, want[i], text);
	}
}

static void run_product(uint64_t seed, enum stx_dtype only)
{
	struct product p;
	struct stx_bytes text = { 0 };
	make(&p, &text, &seed, only);
	for (const char *const *t = compiled_feature_targets(); *t; t++)
		for (int form = 0; form < 3; form++) {
			static const enum compiled_form forms[] = { COMPILED_FUSED,
								    COMPILED_UNFUSED,
								    COMPILED_RECUT };
			struct compiled c;
			struct stx_diag d = { 0 };
			if (compiled_build(stx_bytes_cstr(&text), *t, forms[form], &c, &d))
				fail_msg("%s: %s %s in\n%s", *t, d.stage, d.text,
					 stx_bytes_cstr(&text));
			for (int how = COMPILED_SERIAL; how <= COMPILED_PREPARED; how++) {
				struct stx_tensor out[1];
				if (forms[form] == COMPILED_RECUT && how < COMPILED_POOL)
					continue;
				if (compiled_run(&c, (enum compiled_threads)how, p.in, p.nin, out,
						 &d))
					fail_msg("%s: %s %s in\n%s", *t, d.stage, d.text,
						 stx_bytes_cstr(&text));
				check(&p, stx_bytes_cstr(&text), *t, out);
				compiled_free_outputs(out, 1);
			}
			compiled_free(&c);
		}
	for (uint32_t i = 0; i < p.nin; i++)
		free(p.in[i].data);
	free(p.want[0]);
	free(p.want[1]);
	stx_bytes_free(&text);
}

static void test_products_random_are_plain_loops_to_the_bit(void **state)
{
	const char *more = getenv("STAX_PRODUCTS"), *only = getenv("STAX_PRODUCT");
	(void)state;
	for (int i = 0; i < (more ? atoi(more) : ROUNDS); i++)
		run_product(0x9e3779b97f4a7c15u * (uint64_t)((only ? atoi(only) : i) + 1),
			    STX_DTYPE_NONE);
}

/* vdpbf16ps has no subnormal numbers: packed numbers that are too small for it go another way. */
static void test_products_subnormal_sums_are_kept(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		run_product(0xa0761d6478bd642fu * (uint64_t)(i + 1), STX_BF16);
		run_product(0xe7037ed1a0b428dbu * (uint64_t)(i + 1), i % 2 ? STX_F32 : STX_F16);
	}
}

/* ---- bytes ---- */

struct bytes_product {
	int64_t m, n, k;
	int is_signed[2], transposed[2];
	int is_input[2]; /* the zero point is */
	int add[2];      /* to the bytes, in their type */
	int32_t zero[2];
	uint8_t *x[2], zeros[2];
};

static int32_t byte_at(const struct bytes_product *p, int j, int64_t i)
{
	uint8_t v = (uint8_t)(p->x[j][i] + p->add[j]);
	return (p->is_signed[j] ? (int8_t)v : v) - p->zero[j];
}

static int64_t byte_place(const struct bytes_product *p, int j, int64_t i, int64_t k)
{
	int64_t outer = j ? p->n : p->m;
	return p->transposed[j] != j ? k * outer + i : i * p->k + k;
}

static void check_bytes(const struct bytes_product *p, const char *text, const char *target,
			const int32_t *got)
{
	for (int64_t i = 0; i < p->m; i++)
		for (int64_t j = 0; j < p->n; j++) {
			uint32_t sum = 0;
			for (int64_t k = 0; k < p->k; k++)
				sum += (uint32_t)(byte_at(p, 0, byte_place(p, 0, i, k)) *
						  byte_at(p, 1, byte_place(p, 1, j, k)));
			if (got[i * p->n + j] != (int32_t)sum)
				fail_msg("%s: element %lld, %lld is %d, not %d, of\n%s", target,
					 (long long)i, (long long)j, got[i * p->n + j],
					 (int32_t)sum, text);
		}
}

static void run_bytes(uint64_t seed)
{
	struct bytes_product p = { .m = between(&seed, 4, 70),
				   .n = between(&seed, 12, 90),
				   .k = between(&seed, 16, 200) };
	struct stx_tensor in[4];
	struct stx_bytes text = { 0 };
	uint32_t nin = 2;
	p.k *= next(&seed) % 2 ? 4 : next(&seed) % 4 ? 2 : 1;
	if (next(&seed) % 4 == 0)
		p.k += 1280;
	for (int j = 0; j < 2; j++) {
		p.is_signed[j] = next(&seed) % 2;
		p.transposed[j] = next(&seed) % 2;
		p.zero[j] = next(&seed) % 2  ? 0
			    : p.is_signed[j] ? (int32_t)between(&seed, -128, 127)
					     : (int32_t)between(&seed, 0, 255);
		int64_t outer = j ? p.n : p.m, is_kx = p.transposed[j] != j;
		in[j] = (struct stx_tensor){ .dtype = p.is_signed[j] ? STX_I8 : STX_U8,
					     .rank = 2,
					     .sizes = { is_kx ? p.k : outer,
							is_kx ? outer : p.k } };
		compiled_dense(&in[j]);
		in[j].data = p.x[j] = malloc((size_t)(outer * p.k));
		for (int64_t i = 0; i < outer * p.k; i++) /* extremes, too */
			p.x[j][i] = (uint8_t)(next(&seed) % 8 ? next(&seed) >> 40
							      : 127 + next(&seed) % 2);
		stx_bytes_printf(&text, "%%x%d : %s[%lld,%lld] = %s\n", j,
				 p.is_signed[j] ? "i8" : "u8", (long long)in[j].sizes[0],
				 (long long)in[j].sizes[1], holder(p.m + p.n, j));
	}
	for (int j = 0; j < 2; j++) {
		p.is_input[j] = next(&seed) % 3 == 0;
		p.add[j] = next(&seed) % 3 == 0;
		if (!p.is_input[j])
			continue;
		p.zeros[j] = (uint8_t)p.zero[j];
		in[nin++] = (struct stx_tensor){ .data = &p.zeros[j],
						 .dtype = in[j].dtype,
						 .rank = 1,
						 .sizes = { 1 },
						 .strides = { 1 } };
		stx_bytes_printf(&text, "%%i%d : %s[1] = placeholder()\n", j,
				 p.is_signed[j] ? "i8" : "u8");
	}
	for (int j = 0; j < 2; j++) {
		const char *from = p.add[j] ? "a" : "x";
		if (p.add[j])
			stx_bytes_printf(&text, "%%a%d = add.Scalar(%%x%d, 1)\n", j, j);
		stx_bytes_printf(&text, "%%y%d = _to_copy.default(%%%s%d, dtype=i32)\n", j, from,
				 j);
		if (p.is_input[j]) {
			stx_bytes_printf(&text, "%%j%d = _to_copy.default(%%i%d, dtype=i32)\n", j,
					 j);
			stx_bytes_printf(&text, "%%z%d = sub.Tensor(%%y%d, %%j%d)\n", j, j, j);
		} else {
			stx_bytes_printf(&text, "%%z%d = sub.Scalar(%%y%d, %d)\n", j, j, p.zero[j]);
		}
		stx_bytes_printf(&text, "%%t%d = %s.default(%%z%d)\n", j,
				 p.transposed[j] ? "t" : "alias", j);
	}
	stx_bytes_puts(&text, "%c = mm.default(%t0, %t1)\nreturn (%c)\n");
	for (const char *const *t = compiled_feature_targets(); *t; t++) {
		struct compiled c;
		struct stx_tensor out[1];
		struct stx_diag d = { 0 };
		if (compiled_build(stx_bytes_cstr(&text), *t,
				   seed & 1 ? COMPILED_FUSED : COMPILED_RECUT, &c, &d))
			fail_msg("%s: %s %s in\n%s", *t, d.stage, d.text, stx_bytes_cstr(&text));
		for (int prepared = 0; prepared < 2; prepared++) {
			if (compiled_run(&c, prepared ? COMPILED_PREPARED : COMPILED_PIECES, in,
					 nin, out, &d))
				fail_msg("%s: %s %s in\n%s", *t, d.stage, d.text,
					 stx_bytes_cstr(&text));
			check_bytes(&p, stx_bytes_cstr(&text), *t, out[0].data);
			compiled_free_outputs(out, 1);
		}
		compiled_free(&c);
	}
	free(p.x[0]);
	free(p.x[1]);
	stx_bytes_free(&text);
}

/* Of either sign, with zero points: integer instructions of every target give the exact sums. */
static void test_products_of_bytes_are_exact(void **state)
{
	const char *more = getenv("STAX_PRODUCTS"), *only = getenv("STAX_PRODUCT");
	(void)state;
	for (int i = 0; i < (more ? atoi(more) : ROUNDS); i++)
		run_bytes(0xd1342543de82ef95u * (uint64_t)((only ? atoi(only) : i) + 1));
}

/* ---- convolutions ---- */

struct conv {
	int64_t n, c, h, w, o, k, stride, padding, groups;
};

enum { LAST_IN = 1, LAST_OUT = 2, RELU = 4 }; /* forms: channels last; what follows */

static float conv_at(const struct conv *v, const float *x, const float *wt, int64_t n, int64_t o,
		     int64_t i, int64_t j, int fused, int form)
{
	int64_t per = v->c / v->groups, g = o / (v->o / v->groups);
	float sum = 0;
	for (int64_t c = 0; c < per; c++)
		for (int64_t p = 0; p < v->k; p++)
			for (int64_t q = 0; q < v->k; q++) {
				int64_t y = i * v->stride - v->padding + p;
				int64_t z = j * v->stride - v->padding + q;
				int in = y >= 0 && y < v->h && z >= 0 && z < v->w;
				int64_t e = g * per + c;
				int64_t at = form & LAST_IN
						     ? ((n * v->h + y) * v->w + z) * v->c + e
						     : ((n * v->c + e) * v->h + y) * v->w + z;
				float a = in ? x[at] : 0;
				float b = wt[((o * per + c) * v->k + p) * v->k + q];
				float product = a * b;
				sum = fused ? fmaf(a, b, sum) : product + sum;
			}
	return form & RELU && sum < 0 ? 0 : sum;
}

static void check_conv(const struct conv *v, const struct stx_tensor *in, const struct compiled *c,
		       enum compiled_threads how, const char *target, const char *text, int form)
{
	struct stx_tensor out[1];
	struct stx_diag d = { 0 };
	if (compiled_run(c, how, in, 2, out, &d))
		fail_msg("%s: %s %s in\n%s", target, d.stage, d.text, text);
	const float *got = out[0].data;
	for (int64_t f = 0; f < compiled_numel(out); f++) {
		int64_t at[4];
		for (int64_t k = 4, rest = f; k-- > 0; rest /= out[0].sizes[k])
			at[k] = rest % out[0].sizes[k];
		int last = form & LAST_OUT ? 1 : 0;
		float want =
			conv_at(v, in[0].data, in[1].data, at[0], at[last ? 3 : 1],
				at[last ? 1 : 2], at[last ? 2 : 3], !strstr(target, "v2"), form);
		if (got[f] != want)
			fail_msg("%s: element %lld is %a, not %a, of\n%s", target, (long long)f,
				 (double)got[f], (double)want, text);
	}
	compiled_free_outputs(out, 1);
}

/* The graph of form `form` for a convolution of x or, with its channels last, of p. */
static void put_conv(struct stx_bytes *text, const struct conv *v, const int64_t *x,
		     const char *weight, int form)
{
	stx_bytes_printf(text,
			 "%%x : f32[%lld,%lld,%lld,%lld] = placeholder()\n"
			 "%%w : f32[%lld,%lld,%lld,%lld] = placeholder(%s)\n"
			 "%%p = permute.default(%%x, [0,3,1,2])\n"
			 "%%c = convolution.default(%s, %%w, None, [%lld,%lld], [%lld,%lld], "
			 "[1,1], False, [0,0], %lld)\n",
			 (long long)x[0], (long long)x[1], (long long)x[2], (long long)x[3],
			 (long long)v->o, (long long)(v->c / v->groups), (long long)v->k,
			 (long long)v->k, weight, form & LAST_IN ? "%p" : "%x",
			 (long long)v->stride, (long long)v->stride, (long long)v->padding,
			 (long long)v->padding, (long long)v->groups);
	stx_bytes_printf(text,
			 "%%r = relu.default(%%c)\n%%q = permute.default(%s, [0,2,3,1])\n"
			 "%%o = clone.default(%%q)\nreturn (%s,)\n",
			 form & RELU ? "%r" : "%c",
			 form & LAST_OUT ? "%o"
			 : form & RELU   ? "%r"
					 : "%c");
}

static void run_conv(const struct conv *v, uint64_t seed, int form)
{
	const char *weight = seed % 3 ? "param=True" : "";
	int64_t last[4] = { v->n, v->h, v->w, v->c }, first[4] = { v->n, v->c, v->h, v->w };
	const int64_t *size = form & LAST_IN ? last : first;
	struct stx_tensor in[2] = {
		{ .dtype = STX_F32, .rank = 4, .sizes = { size[0], size[1], size[2], size[3] } },
		{ .dtype = STX_F32, .rank = 4, .sizes = { v->o, v->c / v->groups, v->k, v->k } }
	};
	struct stx_bytes text = { 0 };
	for (int i = 0; i < 2; i++) {
		compiled_dense(&in[i]);
		float *x = malloc((size_t)compiled_numel(&in[i]) * sizeof *x);
		for (int64_t j = 0; j < compiled_numel(&in[i]); j++)
			x[j] = (float)(int32_t)next(&seed) * 0x1p-31f;
		in[i].data = x;
	}
	put_conv(&text, v, size, weight, form);
	for (const char *const *t = compiled_targets(); *t; t++)
		for (int cut = 0; cut < 3; cut++) {
			struct compiled c;
			struct stx_diag d = { 0 };
			if (compiled_build(stx_bytes_cstr(&text), *t,
					   cut ? COMPILED_RECUT : COMPILED_FUSED, &c, &d))
				fail_msg("%s: %s %s in\n%s", *t, d.stage, d.text,
					 stx_bytes_cstr(&text));
			check_conv(v, in, &c, COMPILED_PIECES, *t, stx_bytes_cstr(&text), form);
			check_conv(v, in, &c, COMPILED_PREPARED, *t, stx_bytes_cstr(&text), form);
			compiled_free(&c);
		}
	free(in[0].data);
	free(in[1].data);
	stx_bytes_free(&text);
}

/* Rows of a picture as columns; short rows joined; strides; patches; groups; a batch. */
static void test_products_convolutions_are_plain_loops_to_the_bit(void **state)
{
	static const struct conv all[] = {
		{ 1, 40, 9, 56, 13, 3, 1, 1, 1 },
		{ 2, 160, 7, 7, 24, 3, 1, 1, 1 },
		{ 1, 131, 14, 14, 8, 3, 1, 1, 1 },
		{ 1, 64, 30, 61, 12, 3, 2, 1, 1 },
		{ 3, 96, 6, 40, 20, 1, 1, 0, 1 },
		{ 1, 128, 5, 33, 8, 5, 1, 2, 2 },
		{ 2, 512, 7, 7, 16, 1, 1, 0, 1 },
		{ 1, 160, 15, 15, 6, 3, 2, 1, 1 },
		{ 2, 24, 28, 28, 16, 3, 1, 1, 1 },
		{ 1, 12, 20, 17, 9, 5, 1, 2, 1 },
		{ 1, 16, 23, 19, 20, 3, 1, 1, 2 },
		{ 2, 30, 13, 21, 30, 3, 1, 1, 30 },
		{ 1, 18, 30, 40, 18, 5, 2, 2, 18 },
		{ 1, 40, 7, 7, 80, 3, 1, 1, 40 },
		/* lines beyond panels; patches; conditions of lanes about one element; taps */
		{ 2, 40, 29, 29, 12, 3, 2, 1, 1 },
		{ 1, 3, 208, 208, 13, 16, 16, 0, 1 },
		{ 1, 8, 32, 1, 13, 3, 1, 1, 1 },
		{ 1, 12, 17, 23, 12, 7, 1, 3, 12 },
		{ 1, 32, 11, 75, 9, 3, 1, 1, 1 },
		{ 1, 3, 60, 57, 24, 7, 2, 3, 1 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		run_conv(&all[i], 77 + i, i % 2 ? RELU : 0);
}

/* Pictures with their channels last: depthwise, 1x1, others; results so or not. */
static void test_products_convolutions_of_channels_last_are_plain_loops_to_the_bit(void **state)
{
	static const struct conv all[] = {
		{ 2, 30, 13, 21, 30, 3, 1, 1, 30 }, { 1, 18, 30, 40, 18, 5, 2, 2, 18 },
		{ 1, 67, 9, 8, 67, 3, 2, 1, 67 },   { 1, 40, 7, 7, 80, 3, 1, 1, 40 },
		{ 1, 96, 14, 15, 40, 1, 1, 0, 1 },  { 2, 33, 9, 9, 70, 1, 2, 0, 1 },
		{ 1, 24, 12, 11, 20, 3, 1, 1, 1 },  { 1, 160, 7, 7, 24, 3, 2, 1, 1 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		for (int form = LAST_IN; form < 8; form += 2)
			run_conv(&all[i], 99 + i, form);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_products_random_are_plain_loops_to_the_bit),
		cmocka_unit_test(test_products_subnormal_sums_are_kept),
		cmocka_unit_test(test_products_of_bytes_are_exact),
		cmocka_unit_test(test_products_convolutions_are_plain_loops_to_the_bit),
		cmocka_unit_test(
			test_products_convolutions_of_channels_last_are_plain_loops_to_the_bit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
