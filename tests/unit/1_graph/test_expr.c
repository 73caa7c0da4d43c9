/* test_expr.c: index expressions against direct evaluation, on random expressions and points. */
#include "expr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint64_t seed = 0x5eed;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

static int64_t rnd_in(int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rnd() % (uint64_t)(hi - lo + 1));
}

static int64_t fdiv(int64_t a, int64_t b)
{
	int64_t q = a / b;
	return q - (a % b && (a < 0) != (b < 0));
}

#define NVARS   4
#define NPOINTS 24

/* A pool of expressions with their values at NPOINTS points, computed beside the expressions. */
struct pool {
	stx_ex e[64];
	int64_t v[64][NPOINTS];
	int n;
};

static void pool_leaves(struct stx_exprs *x, struct pool *p, int64_t vars[NPOINTS][NVARS])
{
	int64_t sizes[NVARS];
	p->n = 0;
	for (int i = 0; i < NVARS; i++)
		sizes[i] = rnd_in(1, 40);
	for (int k = 0; k < NPOINTS; k++)
		for (int i = 0; i < NVARS; i++)
			vars[k][i] = k == 0 ? 0 : k == 1 ? sizes[i] - 1 : rnd_in(0, sizes[i] - 1);
	for (int i = 0; i < NVARS; i++, p->n++) {
		p->e[p->n] = stx_ex_var(x, (uint32_t)i, stx_ex_const(x, sizes[i]));
		for (int k = 0; k < NPOINTS; k++)
			p->v[p->n][k] = vars[k][i];
	}
	for (int i = 0; i < 4; i++, p->n++) {
		int64_t c = rnd_in(-12, 12);
		p->e[p->n] = stx_ex_const(x, c);
		for (int k = 0; k < NPOINTS; k++)
			p->v[p->n][k] = c;
	}
}

static void pool_grow(struct stx_exprs *x, struct pool *p)
{
	int a = (int)(rnd() % (unsigned)p->n), b = (int)(rnd() % (unsigned)p->n),
	    op = (int)(rnd() % 8);
	int64_t c = rnd_in(1, 24);
	stx_ex k = stx_ex_const(x, c), r = STX_EX_BAD, ea = p->e[a], eb = p->e[b];
	int64_t *out = p->v[p->n];
	for (int i = 0; i < NPOINTS; i++) {
		int64_t va = p->v[a][i], vb = p->v[b][i];
		int64_t all[8] = { va + vb,
				   va - vb,
				   va * vb,
				   fdiv(va, c),
				   va - c * fdiv(va, c),
				   va < vb ? va : vb,
				   va > vb ? va : vb,
				   va / c };
		out[i] = all[op];
	}
	switch (op) {
	case 0: r = stx_ex_add(x, ea, eb); break;
	case 1: r = stx_ex_sub(x, ea, eb); break;
	case 2: r = stx_ex_mul(x, ea, eb); break;
	case 3: r = stx_ex_floordiv(x, ea, k); break;
	case 4: r = stx_ex_mod(x, ea, k); break;
	case 5: r = stx_ex_min(x, ea, eb); break;
	case 6: r = stx_ex_max(x, ea, eb); break;
	default: r = stx_ex_truncdiv(x, ea, k); break;
	}
	for (int i = 0; i < NPOINTS; i++)
		if (out[i] > 100000000 || out[i] < -100000000)
			return;
	if (r != STX_EX_BAD)
		p->e[p->n++] = r;
}

static stx_ex find_var(void *ctx, const char *name, size_t n)
{
	const struct pool *p = ctx;
	return n == 2 && name[0] == 'v' ? p->e[name[1] - '0'] : STX_EX_BAD;
}

/* VR-03, IR-13: value, interval and text of random expressions. */
static void test_expr_random_matches_evaluation(void **state)
{
	(void)state;
	for (int round = 0; round < 1500; round++) {
		uint64_t at = seed;
		struct stx_arena *a = stx_arena_new(0);
		struct stx_exprs *x = stx_exprs_new(a);
		int64_t vars[NPOINTS][NVARS];
		struct pool p;
		pool_leaves(x, &p, vars);
		for (int i = 0; i < 60 && p.n < 60; i++)
			pool_grow(x, &p);
		for (int i = 0; i < p.n; i++) {
			struct stx_interval r = stx_ex_interval(x, p.e[i]);
			struct stx_bytes text = { 0 };
			stx_ex_print(x, p.e[i], NULL, NULL, &text);
			for (int k = 0; k < NPOINTS; k++) {
				int ok = 1;
				struct stx_ex_env env = { .vars = vars[k], .nvars = NVARS };
				int64_t v = stx_ex_eval(x, p.e[i], &env, &ok);
				if (!ok || v != p.v[i][k] || v < r.lo || v > r.hi)
					fail_msg("seed %llx: %s = %lld, want %lld, in [%lld,%lld]",
						 (unsigned long long)at, stx_bytes_cstr(&text),
						 (long long)v, (long long)p.v[i][k],
						 (long long)r.lo, (long long)r.hi);
			}
			const char *s = stx_bytes_cstr(&text);
			stx_ex back = STX_EX_BAD;
			struct stx_diag d = { 0 };
			stx_err e = stx_ex_parse(x, &s, s + text.n, find_var, &p, &back, &d);
			if (e || back != p.e[i] || *s)
				fail_msg("seed %llx: '%s' does not parse back: %s",
					 (unsigned long long)at, stx_bytes_cstr(&text), d.text);
			stx_bytes_free(&text);
		}
		stx_arena_free(a);
	}
}

/* Substituting variables commutes with evaluation. */
static void test_expr_subst_matches_evaluation(void **state)
{
	(void)state;
	for (int round = 0; round < 400; round++) {
		struct stx_arena *a = stx_arena_new(0);
		struct stx_exprs *x = stx_exprs_new(a);
		int64_t vars[NPOINTS][NVARS];
		struct pool p;
		pool_leaves(x, &p, vars);
		for (int i = 0; i < 50 && p.n < 60; i++)
			pool_grow(x, &p);
		stx_ex map[NVARS];
		for (int i = 0; i < NVARS;
		     i++) { /* replacements within the variable's declared range */
			map[i] = p.e[i];
		}
		map[1] = stx_ex_min(x, p.e[0], stx_ex_const(x, stx_ex_interval(x, p.e[1]).hi));
		for (int i = 0; i < p.n; i++) {
			stx_ex s = stx_ex_subst(x, p.e[i], map, NVARS);
			if (s == STX_EX_BAD)
				continue;
			for (int k = 0; k < NPOINTS; k++) {
				int ok = 1;
				int64_t hi = stx_ex_interval(x, p.e[1]).hi;
				int64_t moved[NVARS] = { vars[k][0],
							 vars[k][0] < hi ? vars[k][0] : hi,
							 vars[k][2], vars[k][3] };
				struct stx_ex_env from = { .vars = vars[k], .nvars = NVARS };
				struct stx_ex_env to = { .vars = moved, .nvars = NVARS };
				assert_int_equal(stx_ex_eval(x, s, &from, &ok),
						 stx_ex_eval(x, p.e[i], &to, &ok));
				assert_int_equal(ok, 1);
			}
		}
		stx_arena_free(a);
	}
}

static void expect_text(struct stx_exprs *x, stx_ex e, const char *want)
{
	struct stx_bytes b = { 0 };
	stx_ex_print(x, e, NULL, NULL, &b);
	assert_string_equal(stx_bytes_cstr(&b), want);
	stx_bytes_free(&b);
}

static void test_expr_known_forms_simplify(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_exprs *x = stx_exprs_new(a);
	stx_ex i = stx_ex_var(x, 0, stx_ex_const(x, 64)),
	       j = stx_ex_var(x, 1, stx_ex_const(x, 128));
	stx_ex flat = stx_ex_add(x, stx_ex_muli(x, i, 128), j), c128 = stx_ex_const(x, 128);
	expect_text(x, flat, "128*v0 + v1");
	assert_int_equal(stx_ex_floordiv(x, flat, c128), i);
	assert_int_equal(stx_ex_mod(x, flat, c128), j);
	stx_ex m = stx_ex_var(x, 2, stx_ex_const(x, 24)), c6 = stx_ex_const(x, 6);
	stx_ex q = stx_ex_floordiv(x, m, c6), r = stx_ex_mod(x, m, c6);
	assert_int_equal(stx_ex_add(x, stx_ex_muli(x, q, 6), r), m);
	/* VR-06: (3*i) mod 128 has interval [0,127] */
	stx_ex k = stx_ex_mod(x, stx_ex_muli(x, j, 3), c128);
	expect_text(x, k, "(3*v1) % 128");
	assert_int_equal(stx_ex_interval(x, k).lo, 0);
	assert_int_equal(stx_ex_interval(x, k).hi, 127);
	/* VR-11: (i-5) % 8 is not i-5 */
	stx_ex n = stx_ex_mod(x, stx_ex_addi(x, stx_ex_var(x, 3, stx_ex_const(x, 8)), -5),
			      stx_ex_const(x, 8));
	assert_int_equal(stx_ex_interval(x, n).lo, 0);
	assert_int_equal(stx_ex_interval(x, n).hi, 7);
	/* Overflow is BAD and stays BAD, never wrapped. */
	stx_ex big = stx_ex_muli(x, j, INT64_MAX / 2);
	assert_int_equal(stx_ex_add(x, stx_ex_muli(x, big, 4), i), STX_EX_BAD);
	assert_int_equal(stx_ex_floordiv(x, i, stx_ex_const(x, 0)), STX_EX_BAD);
	stx_arena_free(a);
}

/* DS-03: flattening (s,128) has length 128*s; B33: ceildiv values. */
static void test_expr_symbols_stay_symbolic(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_exprs *x = stx_exprs_new(a);
	stx_ex s = stx_ex_sym(x, 0, (struct stx_interval){ 2, 4096 }, 64);
	stx_ex flat = stx_ex_muli(x, s, 128);
	expect_text(x, flat, "128*s0");
	assert_int_equal(stx_ex_hint(x, flat), 8192);
	assert_int_equal(stx_ex_interval(x, flat).hi, 524288);
	assert_int_equal(stx_ex_floordiv(x, flat, s), stx_ex_const(x, 128));
	stx_ex n = stx_ex_sym(x, 1, (struct stx_interval){ INT32_MIN, INT32_MAX }, 24);
	stx_ex up = stx_ex_ceildiv(x, n, stx_ex_const(x, 10));
	static const int64_t cases[][2] = { { 24, 3 },  { 0, 0 },  { 1, 1 },
					    { 10, 1 },  { 11, 2 }, { 2147483647, 214748365 },
					    { -24, -2 } };
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		int ok = 1;
		int64_t syms[2] = { 64, cases[i][0] };
		struct stx_ex_env env = { .syms = syms, .nsyms = 2 };
		assert_int_equal(stx_ex_eval(x, up, &env, &ok), cases[i][1]);
	}
	stx_arena_free(a);
}

static void test_expr_deep_nesting_is_bad_not_a_crash(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_exprs *x = stx_exprs_new(a);
	stx_ex e = stx_ex_var(x, 0, stx_ex_const(x, 1000003));
	for (int i = 0; i < 100000 && e != STX_EX_BAD; i++)
		e = stx_ex_addi(
			x, stx_ex_mod(x, stx_ex_muli(x, e, 7), stx_ex_const(x, 1000003 - i)), 5);
	assert_int_equal(e, STX_EX_BAD);
	char text[4096];
	memset(text, '(', sizeof text);
	const char *p = text;
	stx_ex out;
	struct stx_diag d = { 0 };
	assert_int_equal(stx_ex_parse(x, &p, text + sizeof text, NULL, NULL, &out, &d),
			 STX_E_INVALID);
	stx_arena_free(a);
}

int main(void)
{
	const char *s = getenv("STAX_TEST_SEED");
	if (s)
		seed = strtoull(s, NULL, 0);
	printf("seed 0x%llx\n", (unsigned long long)seed);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_expr_random_matches_evaluation),
		cmocka_unit_test(test_expr_subst_matches_evaluation),
		cmocka_unit_test(test_expr_known_forms_simplify),
		cmocka_unit_test(test_expr_symbols_stay_symbolic),
		cmocka_unit_test(test_expr_deep_nesting_is_bad_not_a_crash),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
