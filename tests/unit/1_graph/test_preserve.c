/* test_preserve.c: passes keep what a graph computes, by the oracle: bit for bit, or within
 * rounding where a composite is expanded. Random graphs over the whole op table (OP-13); other ones
 * with STAX_TEST_SEED. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "decompose.h"
#include "graph_gen.h"
#include "passes.h"
#include "ref.h"
#include "scalar.h"

/* cmocka's messages are cut short; graphs are long. */
#define fail_long(...)                                                                             \
	do {                                                                                       \
		fprintf(stderr, __VA_ARGS__);                                                      \
		fputc('\n', stderr);                                                               \
		fail();                                                                            \
	} while (0)

enum { NON_FINITE = 5, EXTREME = 8 };

static uint64_t start; /* STAX_TEST_SEED */

/* special: how many of the special values may occur. Where two roundings are compared the extreme
 * ones are left out: an intermediate result may overflow in one and not in the other. */
static double random_double(uint64_t *seed, int special)
{
	static const double values[EXTREME] = { 0.0, -0.0,  INFINITY, -INFINITY,
						NAN, 1e-40, -1e30,    65504 };
	if (gen_next(seed) % 6 == 0)
		return values[gen_next(seed) % (uint64_t)special];
	return ((double)(gen_next(seed) % 4001) - 2000) / 500;
}

/* Fills t with elements that every index operator may use too: integers are small. */
static void fill(struct stx_tensor *t, int64_t span, uint64_t *seed, int special)
{
	size_t size = (size_t)stx_dtype_bytes((enum stx_dtype)t->dtype);
	t->data = malloc((size_t)span * size + 1);
	for (int64_t i = 0; i < span; i++) {
		union stx_scalar v;
		if (stx_dtype_is_float((enum stx_dtype)t->dtype))
			v.f = stx_scalar_round((enum stx_dtype)t->dtype,
					       random_double(seed, special));
		else if (t->dtype == STX_BOOL)
			v.i = (int64_t)(gen_next(seed) & 1);
		else
			v = stx_scalar_wrap((enum stx_dtype)t->dtype, gen_next(seed) % 2);
		stx_scalar_store((enum stx_dtype)t->dtype, (char *)t->data + (size_t)i * size, v);
	}
}

static struct stx_tensor make_input(const struct stx_graph *g, const struct stx_input *in,
				    uint64_t *seed, int special)
{
	const struct stx_type *type = &in->node->outs[0];
	struct stx_tensor t = { .dtype = (uint8_t)type->dtype, .rank = type->rank };
	int64_t stride = 1, span = 1;
	for (int i = type->rank - 1; i >= 0; i--) {
		stx_ex_is_const(g->ex, type->sizes[i], &t.sizes[i]);
		t.strides[i] = stride;
		if (in->strides)
			stx_ex_is_const(g->ex, in->strides[i], &t.strides[i]);
		stride *= t.sizes[i];
		span += t.strides[i] * (t.sizes[i] ? t.sizes[i] - 1 : 0);
	}
	fill(&t, span, seed, special);
	return t;
}

struct outcome {
	struct stx_tensor out[16];
	uint32_t n;
	stx_err err;
	struct stx_diag d;
};

static void evaluate(struct stx_graph *g, const struct stx_tensor *in, struct outcome *o)
{
	memset(o, 0, sizeof *o);
	o->n = g->outputs.n;
	o->err = stx_ref_evaluate(g, in, g->inputs.n, o->out, 0, &o->d);
}

static void release(struct outcome *o)
{
	for (uint32_t i = 0; !o->err && i < o->n; i++)
		free(o->out[i].data);
}

/* Equal bits, or both NaN. */
static int same_bits(const struct stx_tensor *x, const struct stx_tensor *y)
{
	int64_t n = 1;
	if (x->dtype != y->dtype || x->rank != y->rank)
		return 0;
	for (int i = 0; i < x->rank; i++) {
		if (x->sizes[i] != y->sizes[i])
			return 0;
		n *= x->sizes[i];
	}
	enum stx_dtype t = (enum stx_dtype)x->dtype;
	size_t size = (size_t)stx_dtype_bytes(t);
	for (int64_t i = 0; i < n; i++) {
		const char *a = (const char *)x->data + (size_t)i * size,
			   *b = (const char *)y->data + (size_t)i * size;
		if (memcmp(a, b, size) &&
		    !(stx_dtype_is_float(t) && isnan(stx_scalar_load(t, a).f) &&
		      isnan(stx_scalar_load(t, b).f)))
			return 0;
	}
	return 1;
}

#define MAX_INPUTS 16

static void make_inputs(const struct stx_graph *g, struct stx_tensor *in, uint64_t *seed,
			int special)
{
	assert_true(g->inputs.n <= MAX_INPUTS);
	for (uint32_t i = 0; i < g->inputs.n; i++)
		in[i] = make_input(g, &g->inputs.at[i], seed, special);
}

static void expect_same(struct stx_arena *a, const char *pass, uint64_t first, struct stx_graph *x,
			struct stx_graph *y, const struct stx_tensor *in)
{
	struct outcome ox, oy;
	evaluate(x, in, &ox);
	if (ox.err) /* out-of-range index: anything is allowed */
		return;
	evaluate(y, in, &oy);
	if (oy.err)
		fail_long("%s, seed %llu: %s [%s] %s\n%s\n%s", pass, (unsigned long long)first,
			  oy.d.stage, oy.d.node, oy.d.text, gen_print(a, x), gen_print(a, y));
	assert_int_equal(ox.n, oy.n);
	for (uint32_t i = 0; i < ox.n; i++)
		if (!same_bits(&ox.out[i], &oy.out[i]))
			fail_long("%s changes output %u, seed %llu\n%s\n%s", pass, i,
				  (unsigned long long)first, gen_print(a, x), gen_print(a, y));
	release(&ox);
	release(&oy);
}

static void test_preserve_canonical_and_simplify_bits(void **state)
{
	(void)state;
	uint32_t evaluated = 0;
	for (uint64_t first = 1; first <= 400; first++) {
		uint64_t seed = (first + start) * 0x9e3779b97f4a7c15u;
		struct stx_arena *a = stx_arena_new(0);
		struct stx_graph *g = gen_random(a, &seed, 25), *c, *s;
		struct stx_tensor in[MAX_INPUTS];
		struct stx_diag d = { 0 };
		struct outcome o;
		make_inputs(g, in, &seed, EXTREME);
		assert_int_equal(stx_graph_canonical(g, a, &c, &d), 0);
		expect_same(a, "canonical", first, g, c, in);
		assert_int_equal(stx_graph_canonical(g, a, &s, &d), 0);
		if (stx_graph_simplify(&s, STX_SIMPLIFY_STRICT, &d) || stx_graph_verify(s, &d))
			fail_long("seed %llu: %s", (unsigned long long)first, d.text);
		expect_same(a, "simplify", first, c, s, in);
		evaluate(g, in, &o);
		evaluated += !o.err;
		release(&o);
		for (uint32_t i = 0; i < g->inputs.n; i++)
			free(in[i].data);
		stx_arena_free(a);
	}
	assert_true(evaluated > 200);
}

/* Tolerance of a composite against its expansion: a few roundings of the result type. A row of
 * equal elements (at most 4) under layer_norm divides what the mean was rounded by by sqrt(1e-5).
 */
static void tolerance(enum stx_op op, enum stx_dtype t, struct stx_compare *c)
{
	double eps = t == STX_F64 ? 1e-13 : t == STX_F16 ? 2e-3 : t == STX_BF16 ? 2e-2 : 2e-6;
	*c = (struct stx_compare){ .rtol = 8 * eps, .atol = 8 * eps };
	if (op == STX_OP_LAYER_NORM && t != STX_F64)
		c->atol += 0x1p-24 * 4 / sqrt(1e-5);
}

static void check_rule(enum stx_op op, stx_err (*pass)(struct stx_graph **, struct stx_diag *),
		       int rounds)
{
	uint64_t seed = ((uint64_t)op + 1 + start) * 0x9e3779b97f4a7c15u;
	int done = 0;
	for (int round = 0; round < rounds; round++) {
		uint64_t before = seed;
		struct stx_arena *a = stx_arena_new(0);
		struct stx_graph *g = gen_call(a, &seed, op), *h;
		struct stx_tensor in[MAX_INPUTS];
		struct outcome og, oh;
		struct stx_diag d = { 0 };
		if (!g)
			fail_long("no valid call of %s", stx_op_info(op)->overload);
		make_inputs(g, in, &seed, NON_FINITE);
		const char *text = gen_print(a, g);
		h = gen_parse(a, text);
		stx_err e = pass(&h, &d);
		if (e && e != STX_E_UNSUPPORTED)
			fail_long("%s: %s\n%s", stx_op_info(op)->overload, d.text, text);
		evaluate(g, in, &og);
		if (!e && !og.err) {
			struct stx_compare c;
			evaluate(h, in, &oh);
			if (oh.err)
				fail_long("%s: %s\n%s", stx_op_info(op)->overload, oh.d.text,
					  gen_print(a, h));
			for (uint32_t k = 0; k < og.n; k++) {
				tolerance(op, (enum stx_dtype)og.out[k].dtype, &c);
				if (stx_ref_compare(&oh.out[k], &og.out[k], &c, &d))
					fail_long("%s, seed %llx: output %u: %s\n%s%s",
						  stx_op_info(op)->overload,
						  (unsigned long long)before, k, d.text, text,
						  gen_print(a, h));
			}
			release(&oh);
			done++;
		}
		release(&og);
		for (uint32_t i = 0; i < g->inputs.n; i++)
			free(in[i].data);
		stx_arena_free(a);
	}
	if (done < rounds / 4)
		fail_long("%s: only %d of %d calls were evaluated", stx_op_info(op)->overload, done,
			  rounds);
}

static void test_preserve_basis_rules(void **state)
{
	(void)state;
	for (int op = 0; op < STX_OP_COUNT; op++)
		if (stx__basis_rules[op])
			check_rule((enum stx_op)op, stx_graph_decompose_to_basis, 60);
}

static void test_preserve_primitive_rules(void **state)
{
	(void)state;
	for (int op = 0; op < STX_OP_COUNT; op++)
		if (stx__primitive_rules[op])
			check_rule((enum stx_op)op, stx_graph_decompose_to_primitives, 60);
}

int main(void)
{
	const char *env = getenv("STAX_TEST_SEED");
	start = env ? strtoull(env, NULL, 0) : 0;
	printf("seed %llu\n", (unsigned long long)start);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_preserve_canonical_and_simplify_bits),
		cmocka_unit_test(test_preserve_basis_rules),
		cmocka_unit_test(test_preserve_primitive_rules),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
