/* test_schedule_random.c: random loop programs give the same bits scheduled, fused and not, with
 * temporaries in a poisoned workspace and grid points run backwards, as evaluated directly (GF-08,
 * RZ-12, LN-07). */
#include "loops_make.h"

static unsigned seed;

static uint32_t rnd(uint32_t n)
{
	return (uint32_t)rand_r(&seed) % n;
}

static const int64_t some_sizes[] = { 1, 2, 3, 4, 5, 7, 8, 17, 31, 64, 70, 130 };

static int64_t some_size(void)
{
	return some_sizes[rnd(sizeof some_sizes / sizeof *some_sizes)];
}

/* Integers in [-8, 8]: every sum in these programs is exact, so order does not matter. */
static void fill(enum stx_dtype t, void *p, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		union stx_scalar v;
		int64_t x = (int64_t)rnd(17) - 8;
		if (stx_dtype_is_float(t))
			v.f = (double)x;
		else
			v.i = x;
		stx_scalar_store(t, (char *)p + i * stx_dtype_bytes(t), v);
	}
}

static struct stx_buffer *random_input(struct maker *m)
{
	static const enum stx_dtype types[] = { STX_F32, STX_F32, STX_BF16,
						STX_F64, STX_I32, STX_F16 };
	uint32_t rank = rnd(4);
	int64_t sizes[4];
	stx_ex strides[4], stride = mk_const(m, 1);
	uint32_t perm[4] = { 0, 1, 2, 3 };
	for (uint32_t i = 0; i < rank; i++)
		sizes[i] = some_size();
	struct stx_buffer *b = mk_input(m, types[rnd(6)], rank, sizes);
	for (uint32_t i = rank; i > 1 && rnd(2); i--) {
		uint32_t j = rnd(i), t = perm[j];
		perm[j] = perm[i - 1];
		perm[i - 1] = t;
	}
	for (uint32_t i = rank; i-- > 0;) {
		int expanded = !rnd(8);
		strides[perm[i]] = expanded ? mk_const(m, 0) : stride;
		stride = expanded ? stride : stx_ex_mul(m->x, stride, b->layout.sizes[perm[i]]);
	}
	stx_ex exs[4];
	memcpy(exs, b->layout.sizes, rank * sizeof *exs);
	b->layout = mk_layout(m, rank, exs, strides);
	b->layout.offset = mk_const(m, rnd(3));
	return b;
}

/* Some index of b that depends on the variables: at the own point when shapes agree, else folded
 * into it. */
static stx_ex random_index(struct maker *m, const struct stx_buffer *b)
{
	uint32_t nvars = m->nranges + m->nrranges;
	stx_ex e = b->layout.offset;
	int straight = rnd(4) != 0;
	for (uint32_t i = 0; i < b->layout.rank; i++) {
		stx_ex size = b->layout.sizes[i], at = mk_const(m, 0);
		uint32_t v = straight ? i : nvars ? rnd(nvars) : 0;
		stx_ex range = v >= nvars       ? mk_const(m, 1)
			       : v < m->nranges ? m->ranges[v]
						: m->rranges[v - m->nranges];
		if (v < nvars && (straight || rnd(6))) {
			at = mk_var(m, v);
			if (range != size || (!straight && !rnd(3)))
				at = rnd(2) ? stx_ex_mod(m->x, stx_ex_addi(m->x, at, rnd(3)), size)
					    : stx_ex_min(m->x, at, stx_ex_addi(m->x, size, -1));
		}
		e = stx_ex_add(m->x, e, stx_ex_mul(m->x, at, b->layout.strides[i]));
	}
	return e;
}

/* The first dimension of b is indexed by a value of buffer 0, an i64 input in [-8, 8]. */
static stx_ex indirect_index(struct maker *m, const struct stx_buffer *b, stx_ex e)
{
	stx_ex size = b->layout.sizes[0];
	struct stx_interval r = { 0, mk_eval(m, size) - 1 };
	const struct stx_buffer *from = m->l->buffers.at[0];
	uint32_t n = mk_indirect(m, mk_load(m, from, random_index(m, from)), size, STX_NONE);
	if (stx_ex_interval(m->x, size).hi > r.hi + 1) /* dynamic */
		r.hi = stx_ex_interval(m->x, size).hi - 1;
	return stx_ex_add(m->x, e,
			  stx_ex_mul(m->x, stx_ex_indirect(m->x, n, r), b->layout.strides[0]));
}

static uint32_t random_load(struct maker *m, enum stx_dtype t)
{
	const struct stx_buffer *b = m->l->buffers.at[rnd(m->l->buffers.n)];
	uint32_t mask = STX_NONE;
	if (b->layout.rank == 1 && !rnd(3) && mk_eval(m, b->layout.sizes[0]) > 8) {
		stx_ex e = indirect_index(m, b, b->layout.offset);
		uint32_t v = mk_load(m, b, e);
		return b->dtype == t ? v : mk_op(m, STX_P_CAST, t, v, 0);
	}
	if (m->nranges && !rnd(5)) {
		uint32_t i = mk_index(m, STX_I64, mk_var(m, 0));
		mask = mk_op(m, STX_P_LT, STX_BOOL, i, mk_constant(m, STX_I64, 3));
	}
	uint32_t v = mk_load_masked(m, b, random_index(m, b), mask);
	return b->dtype == t ? v : mk_op(m, STX_P_CAST, t, v, 0);
}

static uint32_t random_value(struct maker *m, enum stx_dtype t)
{
	static const enum stx_prim ops[] = { STX_P_ADD, STX_P_SUB, STX_P_MAX, STX_P_MIN,
					     STX_P_ADD };
	uint32_t v = random_load(m, t), n = rnd(4);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t w = rnd(4) ? random_load(m, t) : rnd(2) ? mk_constant(m, t, 2) : v;
		v = mk_op(m, ops[rnd(5)], t, v, w);
	}
	if (stx_dtype_is_float(t) && !rnd(4)) {
		static const enum stx_prim functions[] = { STX_P_TANH, STX_P_SIGMOID, STX_P_ERF,
							   STX_P_SIN, STX_P_ATAN };
		v = mk_op(m, functions[rnd(5)], t, v, 0);
		v = mk_op(m, STX_P_RINT, t, mk_op(m, STX_P_MUL, t, v, mk_constant(m, t, 5)), 0);
	}
	if (m->nranges && !rnd(6))
		v = mk_op(m, STX_P_ADD, t, v,
			  mk_op(m, STX_P_CAST, t, mk_index(m, STX_I32, mk_var(m, m->nranges - 1)),
				0));
	v = mk_op(m, STX_P_MIN, t, v, mk_constant(m, t, 8));
	return mk_op(m, STX_P_MAX, t, v, mk_constant(m, t, -8));
}

static void random_definition(struct maker *m, enum stx_buffer_kind kind)
{
	static const enum stx_dtype types[] = { STX_F32, STX_F32, STX_BF16, STX_F64, STX_I64 };
	static const enum stx_monoid monoids[] = { STX_MONOID_SUM,    STX_MONOID_MAX,
						   STX_MONOID_MIN,    STX_MONOID_DOT,
						   STX_MONOID_ARGMAX, STX_MONOID_ARGMIN };
	enum stx_dtype t = types[rnd(5)], acc = t == STX_BF16 ? STX_F32 : t;
	int64_t ranges[3], rranges[2];
	uint32_t n = rnd(4), nr = 0, from = rnd(m->l->buffers.n);
	const struct stx_buffer *like = m->l->buffers.at[from];
	if (rnd(3) && like->layout.rank <= 3) { /* the space of something there is */
		n = like->layout.rank;
		for (uint32_t i = 0; i < n; i++)
			ranges[i] = mk_eval(m, like->layout.sizes[i]);
	} else {
		for (uint32_t i = 0; i < n; i++)
			ranges[i] = some_size();
	}
	int reduce = !rnd(3);
	for (nr = 0; reduce && nr < 1 + rnd(2); nr++)
		rranges[nr] = some_size();
	int64_t all = 1;
	for (uint32_t i = 0; i < n; i++)
		all *= ranges[i];
	for (uint32_t i = 0; i < nr; i++)
		all *= rranges[i];
	if (all > 60000) {
		n = n > 1 ? 1 : n;
		nr = nr > 1 ? 1 : nr;
	}
	mk_begin_ints(m, n, ranges, nr, rranges);
	uint32_t v = random_value(m, t);
	if (!reduce) {
		mk_pointwise(m, kind, t, v);
		return;
	}
	enum stx_monoid monoid = monoids[rnd(6)];
	int arg = monoid >= STX_MONOID_ARGMAX && monoid <= STX_MONOID_ARGMIN;
	uint32_t w = monoid == STX_MONOID_DOT ? random_value(m, t) : 0;
	mk_end(m, kind, arg ? STX_I64 : t, STX_DEF_REDUCTION, monoid, acc, v, w);
}

/* Outputs are clamped so that later sums stay exact: reductions are followed by a clamping
 * pointwise. */
static void clamp_last(struct maker *m)
{
	const struct stx_buffer *b = m->l->buffers.at[m->l->buffers.n - 1];
	enum stx_dtype t = b->dtype;
	stx_ex ranges[4];
	memcpy(ranges, b->layout.sizes, b->layout.rank * sizeof *ranges);
	if (b->def != STX_DEF_REDUCTION)
		return;
	mk_begin(m, b->layout.rank, ranges, 0, NULL);
	uint32_t v = mk_load(m, b, mk_here(m, b));
	v = mk_op(m, STX_P_MIN, t, v, mk_constant(m, t, 8));
	v = mk_op(m, STX_P_MAX, t, v, mk_constant(m, t, -8));
	mk_pointwise(m, rnd(2) ? STX_BUF_OUTPUT : STX_BUF_TEMP, t, v);
}

static void compare(struct maker *m, void **expected, void **got, int no_fuse, unsigned start)
{
	for (uint32_t i = 0; i < m->l->outputs.n; i++) {
		const struct stx_buffer *b = m->l->buffers.at[m->l->outputs.at[i]];
		size_t bytes = (size_t)(mk_elems(m, b) * stx_dtype_bytes(b->dtype));
		if (!memcmp(expected[b->id], got[b->id], bytes))
			continue;
		for (int64_t j = 0; j < mk_elems(m, b); j++) {
			union stx_scalar p = stx_scalar_load(
				b->dtype, (char *)expected[b->id] + j * stx_dtype_bytes(b->dtype));
			union stx_scalar q = stx_scalar_load(
				b->dtype, (char *)got[b->id] + j * stx_dtype_bytes(b->dtype));
			if (p.u != q.u)
				fail_msg("seed %u, no_fuse %d, %s[%lld]: %llx, expected %llx",
					 start, no_fuse, b->name, (long long)j,
					 (unsigned long long)q.u, (unsigned long long)p.u);
		}
	}
}

static void run_one(unsigned start, int64_t symbolic)
{
	struct maker m;
	void *expected[64], *got[64];
	seed = start;
	maker_init(&m);
	if (symbolic)
		mk_symbolic(&m, symbolic);
	uint32_t ninputs = 1 + rnd(3), ndefs = 1 + rnd(10);
	mk_input(&m, STX_I64, 1, &some_sizes[rnd(12)]);
	for (uint32_t i = 0; i < ninputs; i++)
		random_input(&m);
	for (uint32_t i = 0; i < ndefs; i++) {
		random_definition(&m, rnd(4) ? STX_BUF_TEMP : STX_BUF_OUTPUT);
		clamp_last(&m);
	}
	random_definition(&m, STX_BUF_OUTPUT);
	for (uint32_t i = 0; i < m.l->buffers.n; i++) {
		const struct stx_buffer *b = m.l->buffers.at[i];
		size_t bytes = (size_t)(mk_elems(&m, b) * stx_dtype_bytes(b->dtype)) + 1;
		expected[i] = malloc(bytes);
		got[i] = malloc(bytes);
		if (b->def == STX_DEF_NONE)
			fill(b->dtype, expected[i], mk_elems(&m, b));
		else
			ref_buffer(&m, b, expected);
	}
	for (int no_fuse = 0; no_fuse < 2; no_fuse++) {
		for (uint32_t i = 0; i < m.l->buffers.n; i++)
			memset(got[i], 0xcd, (size_t)mk_elems(&m, m.l->buffers.at[i]));
		run_schedule(&m, must_schedule(&m, no_fuse), expected, got);
		compare(&m, expected, got, no_fuse, start);
	}
	for (uint32_t i = 0; i < m.l->buffers.n; i++) {
		free(expected[i]);
		free(got[i]);
	}
	stx_arena_free(m.a);
}

static void test_schedule_random_programs_give_the_bits_of_direct_evaluation(void **state)
{
	(void)state;
	unsigned rounds =
		getenv("STAX_TEST_ROUNDS") ? (unsigned)atoi(getenv("STAX_TEST_ROUNDS")) : 150;
	unsigned start = getenv("STAX_TEST_SEED")
				 ? (unsigned)strtoul(getenv("STAX_TEST_SEED"), NULL, 0)
				 : 71000;
	print_message("seeds %u .. %u\n", start, start + rounds - 1);
	for (unsigned i = 0; i < rounds; i++)
		run_one(start + i, 0);
}

/* The same with one size dynamic: every extent of that size is a symbol, known only when kernels
 * run. */
static void test_schedule_random_programs_with_a_dynamic_size_give_the_same_bits(void **state)
{
	(void)state;
	unsigned rounds =
		getenv("STAX_TEST_ROUNDS") ? (unsigned)atoi(getenv("STAX_TEST_ROUNDS")) : 150;
	print_message("seeds 1 .. %u\n", rounds);
	for (unsigned i = 1; i <= rounds; i++)
		run_one(i, some_sizes[i % (sizeof some_sizes / sizeof *some_sizes)]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_schedule_random_programs_give_the_bits_of_direct_evaluation),
		cmocka_unit_test(
			test_schedule_random_programs_with_a_dynamic_size_give_the_same_bits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
