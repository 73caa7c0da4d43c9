/* test_emit_reduce.c: accumulators: the orders of kernel.h element by element, all monoids and
 * types, equal bits at every level and however the grid is split. */
#include "jit.h"

#include <math.h>

#include "elementary.h"
#include "scalar.h"

static uint64_t seed = 42;

struct state {
	union stx_scalar v[3];
};

/* ---- the orders, written down once more ---- */

static struct state identity(enum stx_monoid m, enum stx_dtype t)
{
	struct state s = { { { .u = 0 } } };
	s.v[0] = stx_monoid_identity(m, t);
	if (m == STX_MONOID_ARGMAX || m == STX_MONOID_ARGMIN)
		s.v[1].i = INT64_MAX;
	return s;
}

static union stx_scalar prim(enum stx_prim op, enum stx_dtype t, union stx_scalar a,
			     union stx_scalar b)
{
	return stx_prim_eval(op, t, t, a, b, a);
}

static int is_true(enum stx_prim op, enum stx_dtype t, union stx_scalar a, union stx_scalar b)
{
	return stx_prim_eval(op, STX_BOOL, t, a, b, a).i != 0;
}

static struct state arg_combine(enum stx_monoid m, enum stx_dtype t, struct state x, struct state y)
{
	int fl = stx_dtype_is_float(t), xn = fl && isnan(x.v[0].f), yn = fl && isnan(y.v[0].f);
	int beats = (yn && !xn) ||
		    (!xn && !yn &&
		     is_true(m == STX_MONOID_ARGMAX ? STX_P_GT : STX_P_LT, t, y.v[0], x.v[0]));
	int equal = (xn && yn) || (!xn && !yn && is_true(STX_P_EQ, t, y.v[0], x.v[0]));
	return beats || (equal && y.v[1].i < x.v[1].i) ? y : x;
}

static struct state welford(enum stx_dtype t, struct state x, struct state y)
{
	struct state r;
	union stx_scalar w = prim(STX_P_ADD, t, x.v[2], y.v[2]), f = { .f = 0 };
	if (w.f != 0)
		f = prim(STX_P_DIV, t, y.v[2], w);
	union stx_scalar d = prim(STX_P_SUB, t, y.v[0], x.v[0]);
	r.v[0] = prim(STX_P_ADD, t, x.v[0], prim(STX_P_MUL, t, d, f));
	union stx_scalar cross = prim(STX_P_MUL, t, x.v[2], f);
	cross = prim(STX_P_MUL, t, d, prim(STX_P_MUL, t, d, cross));
	r.v[1] = prim(STX_P_ADD, t, prim(STX_P_ADD, t, x.v[1], y.v[1]), cross);
	r.v[2] = w;
	return r;
}

/* exp of f32 and f64, of the whole group. */
static struct stx_arena *programs;
static const struct stx_elem_program *exp_programs[2];

static int setup(void **state)
{
	programs = stx_arena_new(0);
	exp_programs[0] = stx_elementary_record(programs, STX_P_EXP, STX_F32);
	exp_programs[1] = stx_elementary_record(programs, STX_P_EXP, STX_F64);
	return exp_programs[0] && exp_programs[1] ? jit_setup(state) : -1;
}

static int teardown(void **state)
{
	stx_arena_free(programs);
	return jit_teardown(state);
}

static union stx_scalar weight(enum stx_dtype t, union stx_scalar m, union stx_scalar top)
{
	union stx_scalar d = { .f = 0 };
	if (m.f != top.f)
		d = prim(STX_P_SUB, t, m, top);
	return stx_elementary_eval(exp_programs[t == STX_F64], d, d);
}

static struct state softmax(enum stx_dtype t, struct state x, struct state y)
{
	struct state r = { { prim(STX_P_MAX, t, x.v[0], y.v[0]) } };
	r.v[1] = prim(STX_P_ADD, t, prim(STX_P_MUL, t, x.v[1], weight(t, x.v[0], r.v[0])),
		      prim(STX_P_MUL, t, y.v[1], weight(t, y.v[0], r.v[0])));
	return r;
}

static struct state combine(enum stx_monoid m, enum stx_dtype t, struct state x, struct state y)
{
	struct state r = x;
	switch (m) {
	case STX_MONOID_SUM:
	case STX_MONOID_DOT: r.v[0] = prim(STX_P_ADD, t, x.v[0], y.v[0]); break;
	case STX_MONOID_PROD: r.v[0] = prim(STX_P_MUL, t, x.v[0], y.v[0]); break;
	case STX_MONOID_MAX: r.v[0] = prim(STX_P_MAX, t, x.v[0], y.v[0]); break;
	case STX_MONOID_MIN: r.v[0] = prim(STX_P_MIN, t, x.v[0], y.v[0]); break;
	case STX_MONOID_ANY: r.v[0].i = x.v[0].i | y.v[0].i; break;
	case STX_MONOID_ALL: r.v[0].i = x.v[0].i & y.v[0].i; break;
	case STX_MONOID_WELFORD: return welford(t, x, y);
	case STX_MONOID_SOFTMAX: return softmax(t, x, y);
	default: return arg_combine(m, t, x, y);
	}
	return r;
}

static int has_fma; /* of the level under test */

static struct state update(enum stx_monoid m, enum stx_dtype t, struct state s, union stx_scalar b,
			   union stx_scalar c)
{
	struct state y = { { b, c, { .u = 0 } } };
	if (m == STX_MONOID_SOFTMAX)
		y.v[1].f = 1;
	if (m == STX_MONOID_WELFORD) {
		union stx_scalar one = { .f = 1 };
		union stx_scalar w = prim(STX_P_ADD, t, s.v[2], one),
				 d = prim(STX_P_SUB, t, b, s.v[0]);
		union stx_scalar mean = prim(STX_P_ADD, t, s.v[0], prim(STX_P_DIV, t, d, w));
		union stx_scalar r = prim(STX_P_SUB, t, b, mean);
		return (struct state){ { mean, prim(STX_P_ADD, t, s.v[1], prim(STX_P_MUL, t, d, r)),
					 w } };
	}
	if (m == STX_MONOID_DOT) {
		if (stx_dtype_is_float(t) && has_fma)
			s.v[0] = stx_prim_eval(STX_P_FMA, t, t, b, c, s.v[0]);
		else
			s.v[0] = prim(STX_P_ADD, t, prim(STX_P_MUL, t, b, c), s.v[0]);
		return s;
	}
	return combine(m, t, s, y);
}

struct stack {
	struct state at[64];
	int rank[64];
	int n;
};

static void push(struct stack *s, enum stx_monoid m, enum stx_dtype t, struct state v)
{
	s->at[s->n] = v;
	s->rank[s->n++] = 0;
	while (s->n > 1 && s->rank[s->n - 1] == s->rank[s->n - 2]) {
		s->at[s->n - 2] = combine(m, t, s->at[s->n - 2], s->at[s->n - 1]);
		s->rank[s->n - 2]++;
		s->n--;
	}
}

static struct state fold(struct stack *s, enum stx_monoid m, enum stx_dtype t)
{
	if (!s->n)
		return identity(m, t);
	struct state v = s->at[s->n - 1];
	for (int i = s->n - 2; i >= 0; i--)
		v = combine(m, t, s->at[i], v);
	return v;
}

/* outer runs of n elements each; values at b[run*n + i]. */
static struct state reduce(enum stx_monoid m, enum stx_dtype t, enum stx_order order,
			   const union stx_scalar *b, const union stx_scalar *c, int64_t outer,
			   int64_t n)
{
	struct stack stack = { .n = 0 };
	struct state run = identity(m, t), lane[64];
	for (int64_t o = 0; o < outer; o++)
		for (int64_t i = 0; i < n; i++) {
			int64_t at = o * n + i, chunk = order == STX_ORDER_LANES ? STX_LANES_CHUNK
										 : STX_SERIAL_CHUNK;
			int last = i == n - 1 || (i + 1) % chunk == 0;
			if (order == STX_ORDER_PLAIN) {
				run = update(m, t, run, b[at], c[at]);
				continue;
			}
			if (i % chunk == 0)
				for (int l = 0; l < 64; l++)
					lane[l] = identity(m, t);
			int l = order == STX_ORDER_LANES ? (int)(i % 64) : 0;
			lane[l] = update(m, t, lane[l], b[at], c[at]);
			if (!last)
				continue;
			if (order == STX_ORDER_LANES)
				for (int h = 32; h; h /= 2)
					for (int j = 0; j < h; j++)
						lane[j] = combine(m, t, lane[j], lane[j + h]);
			push(&stack, m, t, lane[0]);
		}
	return order == STX_ORDER_PLAIN ? run : fold(&stack, m, t);
}

/* ---- kernels ---- */

static const char *const monoids[] = { "sum",    "prod",   "max", "min",     "any",    "all",
				       "argmax", "argmin", "dot", "welford", "softmax" };
static const char *const orders[] = { "lanes", "serial", "plain" };

struct shape {
	int64_t rows, outer,
		n;   /* rows grid points, each reduces outer runs of n; outer 0: no outer loop */
	int dynamic; /* n is a scalar argument */
};

static void put_kernel(struct stx_bytes *text, enum stx_monoid m, enum stx_dtype t,
		       enum stx_order order, const struct shape *s)
{
	const char *name = stx_dtype_name(t);
	int64_t runs = s->outer ? s->outer : 1, states = stx_monoid_info(m)->state;
	int arg = m == STX_MONOID_ARGMAX || m == STX_MONOID_ARGMIN;
	char size[32];
	stx_bytes_puts(text, "kernel \"k\" red bits 64 target cpu\n");
	snprintf(size, sizeof size, s->dynamic ? "s0" : "%lld", (long long)s->n);
	if (s->dynamic)
		stx_bytes_puts(text, "scalar s0 range 0 100000 hint 64\n");
	for (int p = 0; p < 2; p++)
		stx_bytes_printf(text, "param p%d %s read elems %lld \"in\"\n", p, name,
				 s->dynamic ? 1000000LL
					    : (long long)(s->rows * runs * (s->n ? s->n : 1)));
	for (int p = 0; p < states; p++)
		stx_bytes_printf(text, "param p%d %s write elems %lld \"out\"\n", p + 2,
				 arg && p ? "i64" : name, (long long)s->rows);
	stx_bytes_printf(text, "axis x0 grid %lld\n", (long long)s->rows);
	if (s->outer)
		stx_bytes_printf(text, "axis r0 loop reduction %lld\n", (long long)s->outer);
	stx_bytes_printf(text, "axis r1 %s reduction %s\ngrain 1\nbegin\n",
			 order == STX_ORDER_LANES ? "vector" : "loop", size);
	const char *first = s->outer ? "r0" : "r1", *outer_term = s->outer ? " + %s*r0" : "";
	char at[128] = "", mid[64];
	snprintf(mid, sizeof mid, outer_term, size);
	snprintf(at, sizeof at, "%lld*%s*x0%s + r1", (long long)runs, size, mid);
	stx_bytes_printf(text, "t0 = acc %s %s %s %s\n", monoids[m], orders[order], name, first);
	if (s->outer)
		stx_bytes_puts(text, "loop r0\n");
	stx_bytes_puts(text, "loop r1\n");
	stx_bytes_printf(text, "t1 = load %s p0[%s]\n", name, at);
	if (arg)
		stx_bytes_printf(text, "t2 = index i64 %s*%s + r1\n", s->outer ? "r0" : "0*r1",
				 size);
	else
		stx_bytes_printf(text, "t2 = load %s p1[%s]\n", name, at);
	stx_bytes_printf(text, arg || m == STX_MONOID_DOT ? "update t0 t1 t2\nend\n"
							  : "update t0 t1\nend\n");
	if (s->outer)
		stx_bytes_puts(text, "end\n");
	for (int p = 0; p < states; p++)
		stx_bytes_printf(text, "t%d = result %s t0 %d\nstore %s p%d[x0] t%d\n", p + 3,
				 arg && p ? "i64" : name, p, arg && p ? "i64" : name, p + 2, p + 3);
	stx_bytes_puts(text, "end\n");
}

static union stx_scalar value(enum stx_dtype t, enum stx_monoid m)
{
	uint64_t r = jit_random(&seed);
	if (!stx_dtype_is_float(t))
		return stx_scalar_wrap(t, t == STX_BOOL ? (r >> 7) % 50 == 0 : r >> 8);
	if (m != STX_MONOID_SUM && m != STX_MONOID_DOT && m != STX_MONOID_WELFORD) {
		if (r % 97 == 0)
			return (union stx_scalar){ .f = r & 4096 ? 0.0 : -0.0 };
		if (r % 2003 == 0)
			return (union stx_scalar){ .f = NAN };
	}
	double v = (double)(int64_t)r * 0x1p-63;
	return (union stx_scalar){ .f = stx_scalar_round(t,
							 m == STX_MONOID_PROD ? 1 + v / 64 : v) };
}

static int same(enum stx_dtype t, union stx_scalar a, union stx_scalar b)
{
	if (!stx_dtype_is_float(t))
		return a.u == b.u;
	return (isnan(a.f) && isnan(b.f)) || stx_scalar_bits(t, a.f) == stx_scalar_bits(t, b.f);
}

static void check(enum stx_monoid m, enum stx_dtype t, enum stx_order order, struct shape s)
{
	struct stx_bytes text = { 0 };
	size_t size = (size_t)stx_dtype_bytes(t);
	int64_t runs = s.outer ? s.outer : 1, each = runs * s.n, all = each * s.rows;
	int states = stx_monoid_info(m)->state,
	    arg = m == STX_MONOID_ARGMAX || m == STX_MONOID_ARGMIN;
	union stx_scalar *b = calloc((size_t)all + 1, sizeof *b),
			 *c = calloc((size_t)all + 1, sizeof *c);
	uint8_t *in[2];
	put_kernel(&text, m, t, order, &s);
	for (int p = 0; p < 2; p++)
		in[p] = jit_guarded((size_t)all * size);
	for (int64_t i = 0; i < all; i++) {
		b[i] = value(t, m);
		c[i] = value(t, m);
		stx_scalar_store(t, in[0] + (size_t)i * size, b[i]);
		stx_scalar_store(t, in[1] + (size_t)i * size, c[i]);
		if (arg)
			c[i].i = i % each;
	}
	for (const char *const *target = jit_targets(); *target; target++) {
		stx_kernel_fn *fn = jit_kernel(*target, stx_bytes_cstr(&text));
		has_fma = (*target)[12] != '2';
		for (int64_t split = 1; split <= s.rows; split++) {
			uint64_t out[3][16] = { { 0 } };
			void *buffers[5] = { in[0], in[1], out[0], out[1], out[2] };
			memset(out, 0x55, sizeof out);
			for (int64_t from = 0; from < s.rows; from += split)
				jit_run(fn, buffers, &s.n, from,
					from + split < s.rows ? from + split : s.rows);
			for (int64_t row = 0; row < s.rows; row++) {
				struct state want = reduce(m, t, order, b + row * each,
							   c + row * each, runs, s.n);
				for (int p = 0; p < states; p++) {
					enum stx_dtype pt = arg && p ? STX_I64 : t;
					const uint8_t *at =
						(const uint8_t *)out[p] +
						(size_t)row * (size_t)stx_dtype_bytes(pt);
					union stx_scalar got = stx_scalar_load(pt, at);
					if (!same(pt, got, want.v[p]))
						fail_msg("%s: %s %s of %s, %lld rows of "
							 "%lldx%lld%s, row %lld "
							 "state %d: got %a (%lld), want %a (%lld)",
							 *target, monoids[m], orders[order],
							 stx_dtype_name(t), (long long)s.rows,
							 (long long)s.outer, (long long)s.n,
							 s.dynamic ? " dynamic" : "",
							 (long long)row, p, got.f, (long long)got.i,
							 want.v[p].f, (long long)want.v[p].i);
				}
			}
		}
	}
	for (int p = 0; p < 2; p++)
		jit_guarded_free(in[p], (size_t)all * size);
	stx_bytes_free(&text);
	free(b);
	free(c);
}

static int applies(enum stx_monoid m, enum stx_dtype t)
{
	switch (m) {
	case STX_MONOID_ANY:
	case STX_MONOID_ALL: return t == STX_BOOL;
	case STX_MONOID_ATTEND: return 0; /* kernels of its own: test_emit_attend.c */
	case STX_MONOID_SOFTMAX:
	case STX_MONOID_WELFORD: return stx_dtype_is_float(t);
	case STX_MONOID_SUM:
	case STX_MONOID_PROD:
	case STX_MONOID_DOT: return t != STX_BOOL;
	default: return 1;
	}
}

static const enum stx_dtype dtypes[] = { STX_BOOL, STX_U8,  STX_U16, STX_U32, STX_U64, STX_I8,
					 STX_I16,  STX_I32, STX_I64, STX_F32, STX_F64 };

static void test_emit_reduce_all_monoids_types_and_orders_equal_definition(void **state)
{
	(void)state;
	for (int m = 0; m < STX_MONOID_COUNT; m++)
		for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
			for (int o = 0; o < 3; o++)
				if (applies((enum stx_monoid)m, dtypes[i]))
					check((enum stx_monoid)m, dtypes[i], (enum stx_order)o,
					      (struct shape){ 3, 0, 133, (m + o) % 2 });
}

static void test_emit_reduce_all_lengths_equal_definition(void **state)
{
	static const enum stx_monoid some[] = { STX_MONOID_SUM, STX_MONOID_MAX, STX_MONOID_ARGMIN };
	(void)state;
	for (int m = 0; m < 3; m++)
		for (int64_t n = 0; n <= 67; n++)
			check(some[m], STX_F32, STX_ORDER_LANES,
			      (struct shape){ 1, 0, n, n % 9 != 5 });
}

/* Chunks of 16 a lane, and of 16 in sequence; every run of the innermost loop starts one. */
static void test_emit_reduce_chunks_merge_in_counter_order(void **state)
{
	static const int64_t sizes[] = { 1024, 1025, 4096, 4097, 7 * 4096 + 5, 12289, 40000 };
	static const enum stx_monoid some[] = { STX_MONOID_SUM, STX_MONOID_DOT,
						STX_MONOID_WELFORD };
	(void)state;
	for (int m = 0; m < 3; m++)
		for (int o = 0; o < 3; o++) {
			for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
				check(some[m], i % 2 ? STX_F64 : STX_F32, (enum stx_order)o,
				      (struct shape){ 2, 0, sizes[i], (int)i / 2 % 2 });
			for (int64_t outer = 1; outer <= 7; outer += 2) {
				int dynamic = outer / 2 % 2;
				check(some[m], STX_F32, (enum stx_order)o,
				      (struct shape){ 2, outer, 37, dynamic });
				check(some[m], STX_F32, (enum stx_order)o,
				      (struct shape){ 1, outer, 5000, !dynamic });
			}
		}
}

/* B05: identities of the padding lanes; a positive and a negative vector in 8 bits. */
static void test_emit_reduce_padding_lanes_hold_the_identity(void **state)
{
	static const int p[18] = {
		5, 1, 100, 3, 7, 8, 9, 13, 100, 120, 127, 2, 6, 4, 11, 12, 90, 80
	};
	static const int lengths[] = { 15, 16, 17, 18, 31, 33, 63, 65 };
	static const enum stx_monoid ops[] = { STX_MONOID_MIN, STX_MONOID_MAX, STX_MONOID_ARGMIN,
					       STX_MONOID_ARGMAX };
	(void)state;
	for (int v = 0; v < 3; v++) /* p as u8, p as i8, -p as i8 */
		for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
			for (int o = 0; o < 4; o++) {
				enum stx_dtype t = v == 0 ? STX_U8 : STX_I8;
				struct stx_bytes text = { 0 };
				struct shape s = { 1, 0, lengths[l], 0 };
				int8_t in[65], out = 0;
				int64_t where = 0, best = 0;
				put_kernel(&text, ops[o], t, STX_ORDER_LANES, &s);
				for (int i = 0; i < lengths[l]; i++) {
					in[i] = (int8_t)(v == 2 ? -p[i % 18] : p[i % 18]);
					int want_max = ops[o] == STX_MONOID_MAX ||
						       ops[o] == STX_MONOID_ARGMAX;
					if (want_max ? in[i] > in[best] : in[i] < in[best])
						best = i;
				}
				void *buffers[4] = { in, in, &out, &where };
				for (const char *const *target = jit_targets(); *target; target++) {
					jit_run(jit_kernel(*target, stx_bytes_cstr(&text)), buffers,
						NULL, 0, 1);
					assert_int_equal(out, in[best]);
					if (o >= 2)
						assert_int_equal(where, best);
				}
				stx_bytes_free(&text);
			}
}

/* B01: NaN beats all for both, the first NaN wins; short and long vectors. */
static void test_emit_reduce_arg_prefers_the_first_nan(void **state)
{
	static const int lengths[] = { 4, 17, 1025 };
	(void)state;
	for (int l = 0; l < 3; l++)
		for (int o = 0; o < 2; o++)
			for (int at = 0; at < 3; at++) {
				struct stx_bytes text = { 0 };
				struct shape s = { 1, 0, lengths[l], 0 };
				float in[1025], out;
				int64_t where;
				put_kernel(&text, o ? STX_MONOID_ARGMAX : STX_MONOID_ARGMIN,
					   STX_F32, STX_ORDER_LANES, &s);
				for (int i = 0; i < lengths[l]; i++)
					in[i] = (float)i - 7;
				in[at] = in[3] = NAN;
				void *buffers[4] = { in, in, &out, &where };
				for (const char *const *target = jit_targets(); *target; target++) {
					jit_run(jit_kernel(*target, stx_bytes_cstr(&text)), buffers,
						NULL, 0, 1);
					assert_true(isnan(out));
					assert_int_equal(where, at);
				}
				stx_bytes_free(&text);
			}
}

/* Two sums and a product in one loop do not fit the registers of the lower levels. */
static void test_emit_reduce_many_accumulators_equal_bits_at_every_level(void **state)
{
	static const char text[] =
		"kernel \"k\" red bits 32 target cpu\nparam p0 f64 read elems 5000 \"a\"\n"
		"param p1 f64 write elems 3 \"b\"\naxis x0 grid 1\naxis r0 vector reduction 5000\n"
		"grain 1\nbegin\nt0 = acc sum lanes f64 r0\nt1 = acc sum lanes f64 r0\n"
		"t2 = acc prod lanes f64 r0\nloop r0\nt3 = load f64 p0[r0]\nt4 = mul f64 t3 t3\n"
		"t5 = add f64 t4 t3\nupdate t0 t3\nupdate t1 t4\nupdate t2 t5\nend\n"
		"t6 = result f64 t0 0\nt7 = result f64 t1 0\nt8 = result f64 t2 0\n"
		"store f64 p1[0] t6\nstore f64 p1[1] t7\nstore f64 p1[2] t8\nend\n";
	static double in[5000];
	double out[3], first[3] = { 0 };
	(void)state;
	for (int i = 0; i < 5000; i++)
		in[i] = 0.5 + (double)(jit_random(&seed) >> 12) * 0x1p-54;
	for (const char *const *target = jit_targets(); *target; target++) {
		void *buffers[2] = { in, out };
		jit_run(jit_kernel(*target, text), buffers, NULL, 0, 1);
		if (first[0] == 0)
			memcpy(first, out, sizeof out);
		assert_memory_equal(first, out, sizeof out);
	}
}

/* Rows less their maximum, over the sum of squares of that, and both: 11 rows of n. */
#define SHORT_ROWS 11
static void put_short_rows(struct stx_bytes *out, const char *t, int n)
{
	stx_bytes_printf(out,
			 "kernel \"k\" per bits 32 target cpu\nparam p0 %s read elems %d \"a\"\n"
			 "param p1 %s write elems %d \"b\"\nparam p2 %s write elems %d \"c\"\n"
			 "axis x0 grid %d\naxis r0 vector reduction %d\ngrain 1\nbegin\n",
			 t, n * SHORT_ROWS, t, n * SHORT_ROWS, t, SHORT_ROWS, SHORT_ROWS, n);
	stx_bytes_printf(
		out,
		"t0 = acc max lanes %s r0\nloop r0\nt1 = load %s p0[%d*x0 + r0]\n"
		"update t0 t1\nend\nt2 = result %s t0 0\nt3 = acc sum lanes %s r0\nloop r0\n"
		"t4 = load %s p0[%d*x0 + r0]\nt5 = sub %s t4 t2\nt6 = mul %s t5 t5\n"
		"update t3 t6\nend\nt7 = result %s t3 0\n",
		t, t, n, t, t, t, n, t, t, t);
	stx_bytes_printf(out,
			 "loop r0\nt8 = load %s p0[%d*x0 + r0]\nt9 = sub %s t8 t2\n"
			 "t10 = div %s t9 t7\nstore %s p1[%d*x0 + r0] t10\nend\n"
			 "store %s p2[x0] t7\nend\n",
			 t, n, t, t, t, n, t);
}

/* Several at a time or one after the other, at every level. */
static void test_emit_reduce_short_rows_equal_rows_alone(void **state)
{
	static const int lengths[] = { 1, 5, 16, 48, 64, 100, 257 };
	static double in[SHORT_ROWS * 257], got[SHORT_ROWS * 257], alone[SHORT_ROWS * 257];
	double sums[SHORT_ROWS], sum_alone[SHORT_ROWS];
	void *buffers[3] = { in, got, sums }, *one[3] = { in, alone, sum_alone };
	(void)state;
	for (int l = 0; l < 7; l++)
		for (int wide = 0; wide < 2; wide++) {
			struct stx_bytes text = { 0 };
			int n = lengths[l] * SHORT_ROWS;
			size_t size = wide ? sizeof(double) : sizeof(float);
			put_short_rows(&text, wide ? "f64" : "f32", lengths[l]);
			for (int i = 0; i < n; i++)
				stx_scalar_store(wide ? STX_F64 : STX_F32,
						 (uint8_t *)in + (size_t)i * size,
						 (union stx_scalar){
							 .f = (double)(jit_random(&seed) >> 40) });
			for (int row = 0; row < SHORT_ROWS; row++)
				jit_run(jit_kernel(jit_targets()[0], stx_bytes_cstr(&text)), one,
					NULL, row, row + 1);
			for (const char *const *target = jit_targets(); *target; target++) {
				memset(got, 0xff, sizeof got);
				jit_run(jit_kernel(*target, stx_bytes_cstr(&text)), buffers, NULL,
					0, SHORT_ROWS);
				assert_memory_equal(got, alone, (size_t)n * size);
				assert_memory_equal(sums, sum_alone, SHORT_ROWS * size);
			}
			stx_bytes_free(&text);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_emit_reduce_short_rows_equal_rows_alone),
		cmocka_unit_test(test_emit_reduce_all_lengths_equal_definition),
		cmocka_unit_test(test_emit_reduce_all_monoids_types_and_orders_equal_definition),
		cmocka_unit_test(test_emit_reduce_chunks_merge_in_counter_order),
		cmocka_unit_test(test_emit_reduce_padding_lanes_hold_the_identity),
		cmocka_unit_test(test_emit_reduce_arg_prefers_the_first_nan),
		cmocka_unit_test(test_emit_reduce_many_accumulators_equal_bits_at_every_level),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
