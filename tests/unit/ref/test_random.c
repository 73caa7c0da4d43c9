/* test_random.c: Philox4x32-10 against its published known answers, and what random operators make
 * of it. */
#include "ref_internal.h"
#include "ref_run.h"

/* Random123's kat_vectors, philox4x32 with 10 rounds: counter, key, words. */
static void test_random_philox_known_answers(void **state)
{
	static const uint32_t known[3][10] = {
		{ 0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 },
		{ 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff,
		  0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd },
		{ 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0,
		  0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 },
	};
	(void)state;
	for (int i = 0; i < 3; i++) {
		uint32_t out[4];
		stx__ref_philox(known[i], known[i] + 4, out);
		assert_memory_equal(out, known[i] + 6, sizeof out);
	}
}

struct moments {
	double mean, var, least, greatest;
};

static struct moments moments(const char *text)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g;
	struct stx_tensor out;
	struct stx_diag d = { 0 };
	if (stx_graph_parse(a, text, strlen(text), &g, &d) ||
	    stx_ref_evaluate(g, NULL, 0, &out, 0, &d))
		fail_msg("%s", d.text);
	int64_t n = count_of(&out);
	struct moments m = { 0, 0, INFINITY, -INFINITY };
	enum stx_dtype t = (enum stx_dtype)out.dtype;
	for (int i = 0; i < 2; i++)
		for (int64_t k = 0; k < n; k++) {
			double v = to_double(
				t, stx_scalar_load(t, (char *)out.data + k * stx_dtype_bytes(t)));
			if (i) {
				m.var += (v - m.mean) * (v - m.mean) / (double)n;
				continue;
			}
			m.mean += v / (double)n;
			m.least = v < m.least ? v : m.least;
			m.greatest = v > m.greatest ? v : m.greatest;
		}
	free(out.data);
	stx_arena_free(a);
	return m;
}

static void near(double got, double want, double by)
{
	if (!(fabs(got - want) <= by))
		fail_msg("%g is not within %g of %g", got, by, want);
}

/* 40,000 elements: means within five standard errors. */
static void test_random_distributions_have_their_moments(void **state)
{
	static const char *const types[] = { "f32", "f64", "f16", "bf16" };
	char text[160];
	(void)state;
	for (int i = 0; i < 4; i++) {
		snprintf(text, sizeof text,
			 "%%x = rand.default([200, 200], dtype=%s)\nreturn (%%x,)", types[i]);
		struct moments m = moments(text);
		near(m.mean, i == 3 ? 0.5 - 0x1p-9 : 0.5, 0.0075);
		near(m.var, 1. / 12, 0.004);
		assert_true(m.least >= 0 && m.least < 0.004 && m.greatest < 1 && m.greatest > 0.99);
		snprintf(text, sizeof text,
			 "%%x = normal.float_float(1.5, 2.0, [200, 200], dtype=%s)\nreturn (%%x,)",
			 types[i]);
		m = moments(text);
		near(m.mean, 1.5, 0.05);
		near(m.var, 4, 0.15);
		assert_true(m.least < -4 && m.greatest > 7);
	}
	struct moments m = moments("%x = randint.low(-3, 4, [40000])\nreturn (%x,)");
	near(m.mean, 0, 0.05);
	near(m.var, 4, 0.1);
	assert_true(m.least == -3 && m.greatest == 3);
	m = moments(
		"%p = full.default([40000], 0.25, dtype=f32)\n%x = bernoulli.p(%p, 0.25)\nreturn "
		"(%x,)");
	near(m.mean, 0.25, 0.011);
	m = moments(
		"%p = full.default([40000], 0.75, dtype=f32)\n%x = bernoulli.default(%p)\nreturn "
		"(%x,)");
	near(m.mean, 0.75, 0.011);
	m = moments("%x = randperm.default(1000)\nreturn (%x,)");
	near(m.mean, 499.5, 1e-9);
	near(m.var, 83333.25, 1e-6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_philox_known_answers),
		cmocka_unit_test(test_random_distributions_have_their_moments),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
