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

/* Mostly of [-1, 1); now and then an infinity, a zero of either sign, a subnormal, a NaN. */
static double draw(uint64_t *s, enum stx_dtype t)
{
	static const double special[] = {
		INFINITY, -INFINITY, 0.0, -0.0, 0x1p-140, -0x1p-130, NAN
	};
	if (next(s) % 4096 == 0)
		return stx_scalar_round(t, special[next(s) % 7]);
	return stx_scalar_round(t, (double)(int64_t)next(s) * 0x1p-63);
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
	stx_bytes_puts(text, "] = placeholder()\n");
	compiled_dense(x);
	int64_t n = compiled_numel(x);
	int bytes = stx_dtype_bytes(p->t);
	x->data = malloc((size_t)(n * bytes));
	assert_non_null(x->data);
	for (int64_t i = 0; i < n; i++)
		stx_scalar_store(p->t, (char *)x->data + i * bytes,
				 (union stx_scalar){ .f = draw(s, p->t) });
}

static double at(const struct product *p, int input, int64_t i)
{
	const struct stx_tensor *x = &p->in[input];
	return stx_scalar_load(p->t, (const char *)x->data + i * stx_dtype_bytes(p->t)).f;
}

static double step(enum stx_dtype work, double a, double b, double c, int fused)
{
	if (work == STX_F64)
		return fused ? fma(a, b, c) : a * b + c;
	if (fused)
		return (double)fmaf((float)a, (float)b, (float)c);
	float x = (float)a * (float)b;
	return (double)(x + (float)c);
}

static double follow(const struct product *p, double c, int64_t row, int64_t col, int64_t flat)
{
	int next_input = 2;
	(void)row;
	c = stx_scalar_round(p->t, c);
	if (p->bias)
		c = stx_scalar_round(
			p->t, p->t == STX_F64 ? c + at(p, next_input, col)
					      : (double)((float)c + (float)at(p, next_input, col)));
	next_input += p->bias;
	if (p->relu)
		c = c != c || c > 0 ? c : 0;
	if (p->residual)
		c = stx_scalar_round(p->t,
				     p->t == STX_F64
					     ? c + at(p, next_input, flat)
					     : (double)((float)c + (float)at(p, next_input, flat)));
	return c;
}

static void expect(struct product *p)
{
	enum stx_dtype work = p->t == STX_F64 ? STX_F64 : STX_F32;
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
					p->want[f][flat] = follow(p, c[f], i, j, flat);
			}
}

static void make(struct product *p, struct stx_bytes *text, uint64_t *s)
{
	static const enum stx_dtype types[] = { STX_F32, STX_F32, STX_F64, STX_BF16, STX_F16 };
	memset(p, 0, sizeof *p);
	p->t = types[next(s) % 5];
	p->batch = next(s) % 3 ? 0 : between(s, 1, 3);
	p->m = next(s) % 3 ? between(s, 4, 60) : between(s, 60, 150);
	p->n = next(s) % 3 ? between(s, 16, 90) : between(s, 90, 200);
	p->k = next(s) % 3 ? between(s, 16, 330) : between(s, 300, 700);
	if (p->batch)
		p->k = between(s, 16, 200);
	p->a_transposed = next(s) % 2;
	p->b_transposed = next(s) % 2;
	p->bias = next(s) % 2;
	p->relu = next(s) % 2;
	p->residual = next(s) % 2;
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
		double got = stx_scalar_load(p->t, (const char *)out->data + i * bytes).f;
		if ((got != got) != (want[i] != want[i]) || (got == got && got != want[i]) ||
		    (got == 0 && signbit(got) != signbit(want[i])))
			fail_msg("%s: element %lld is %a, not %a, of\n%s", target, (long long)i,
				 got, want[i], text);
	}
}

static void run_product(uint64_t seed)
{
	struct product p;
	struct stx_bytes text = { 0 };
	make(&p, &text, &seed);
	for (const char *const *t = compiled_targets(); *t; t++)
		for (int form = COMPILED_FUSED; form <= COMPILED_UNFUSED; form++) {
			struct compiled c;
			struct stx_diag d = { 0 };
			if (compiled_build(stx_bytes_cstr(&text), *t, (enum compiled_form)form, &c,
					   &d))
				fail_msg("%s: %s %s in\n%s", *t, d.stage, d.text,
					 stx_bytes_cstr(&text));
			for (int how = COMPILED_SERIAL; how <= COMPILED_POOL; how++) {
				struct stx_tensor out[1];
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
		run_product(0x9e3779b97f4a7c15u * (uint64_t)((only ? atoi(only) : i) + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_products_random_are_plain_loops_to_the_bit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
