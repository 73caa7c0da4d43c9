/* test_emit_memory.c: addresses, masks, run-time indices and their bounds, index values, loops in
 * loops, the floating-point environment. Buffers end at pages that cannot be touched. */
#include "jit.h"

#include <math.h>
#include <xmmintrin.h>

#include "../4_schedule/kernels.h"

#define EACH_TARGET(t)                                                                             \
	const char *const *t = jit_targets();                                                      \
	*t;                                                                                        \
	t++

static void fill(float *p, int64_t n, float step)
{
	for (int64_t i = 0; i < n; i++)
		p[i] = (float)((i * 37) % 1001) * step - 3;
}

static void test_emit_flat_chunks_and_tail_any_split_of_the_grid(void **state)
{
	size_t bytes = 10000 * sizeof(float);
	float *a = jit_guarded(bytes), *b = jit_guarded(bytes), *out = jit_guarded(bytes);
	(void)state;
	fill(a, 10000, 0.5f);
	fill(b, 10000, 0.25f);
	for (EACH_TARGET(t)) {
		void *buffers[3] = { a, b, out };
		stx_kernel_fn *fn = jit_kernel(*t, text_flat);
		memset(out, 0x55, bytes);
		jit_run(fn, buffers, NULL, 2, 3);
		assert_true(out[8191] != a[8191] + b[8191]);
		jit_run(fn, buffers, NULL, 0, 2);
		jit_run(fn, buffers, NULL, 1, 1);
		for (int i = 0; i < 10000; i++)
			assert_true(out[i] == a[i] + b[i]);
	}
}

static void test_emit_matmul_and_column_sum_equal_plain_loops(void **state)
{
	float *a = jit_guarded(30 * 4), *b = jit_guarded(350 * 4), *out = jit_guarded(420 * 4);
	uint16_t *h = jit_guarded(7000 * 2), *sums = jit_guarded(70 * 2);
	(void)state;
	fill(a, 30, 0.01f);
	fill(b, 350, 0.02f);
	for (int i = 0; i < 7000; i++)
		h[i] = (uint16_t)(0x3f80 + (i * 7) % 64); /* bf16 from 1 up */
	for (EACH_TARGET(t)) {
		jit_run(jit_kernel(*t, text_matmul), (void *[]){ a, b, out }, NULL, 0, 3);
		for (int i = 0; i < 6; i++)
			for (int j = 0; j < 70; j++) {
				float s = 0;
				for (int r = 0; r < 5; r++) {
					volatile float p = a[5 * i + r] * b[70 * r + j];
					s = (*t)[12] == '2' ? p + s
							    : fmaf(a[5 * i + r], b[70 * r + j], s);
				}
				assert_true(out[70 * i + j] == s);
			}
		jit_run(jit_kernel(*t, text_colsum), (void *[]){ h, sums }, NULL, 0, 2);
		for (int j = 0; j < 70; j++) {
			float s = 0, x;
			for (int r = 0; r < 100; r++) {
				uint32_t u = (uint32_t)h[70 * r + j] << 16;
				memcpy(&x, &u, 4);
				s += x;
			}
			uint32_t u;
			memcpy(&u, &s, 4);
			assert_int_equal(sums[j], (u + 0x7fff + (u >> 16 & 1)) >> 16);
		}
	}
}

static void test_emit_masked_and_constant_values_touch_no_memory_beyond(void **state)
{
	float *a = jit_guarded(10 * 4), *out = jit_guarded(16 * 4);
	int64_t *where = jit_guarded(8);
	(void)state;
	for (int i = 0; i < 10; i++)
		a[i] = (float)(i == 6 ? 50 : i);
	for (EACH_TARGET(t)) {
		*where = -1;
		jit_run(jit_kernel(*t, text_mixed), (void *[]){ a, out, where }, NULL, 0, 1);
		for (int i = 0; i < 16; i++)
			assert_true(i < 10 ? out[i] == a[i] : isnan(out[i]));
		assert_int_equal(*where, 6);
	}
}

/* LO-13, LO-14, LO-15: wrapped and checked rows of a table. */
static void test_emit_indirect_rows_wrap_and_the_first_violation_is_recorded(void **state)
{
	static float table[32000], out[32 * 40];
	int64_t idx[40];
	(void)state;
	fill(table, 32000, 0.125f);
	for (int i = 0; i < 40; i++)
		idx[i] = (i * 331) % 2000 - 1000;
	for (EACH_TARGET(t)) {
		stx_kernel_fn *fn = jit_kernel(*t, text_gather);
		int64_t n = 40;
		struct stx_bounds_record r = jit_run(fn, (void *[]){ idx, table, out }, &n, 0, 40);
		assert_int_equal(r.taken, 0);
		for (int i = 0; i < 40; i++) {
			int64_t row = idx[i] < 0 ? idx[i] + 1000 : idx[i];
			assert_memory_equal(out + 32 * i, table + 32 * row, 32 * sizeof(float));
		}
		int64_t kept = idx[7];
		idx[7] = 1000;
		idx[9] = -1001;
		r = jit_run(fn, (void *[]){ idx, table, out }, &n, 0, 40);
		assert_int_equal(r.taken, 1);
		assert_int_equal(r.index, 1000);
		assert_int_equal(r.bound, 1000);
		assert_int_equal(r.axis, 0);
		idx[7] = kept;
		r = jit_run(fn, (void *[]){ idx, table, out }, &n, 0, 40);
		assert_int_equal(r.index, -1001);
		idx[9] = 0;
	}
}

/* B15: a varying index out of range is reported and writes nothing; the others are written. */
static void test_emit_indirect_store_out_of_range_leaves_memory_alone(void **state)
{
	static const char text[] =
		"kernel \"k\" poi bits 32 target cpu\nscalar s0 range 0 1000 hint 8\n"
		"scalar s1 range 0 1000 hint 8\n"
		"param p0 i64 read elems s0 \"idx\"\nparam p1 f32 read elems s0 \"src\"\n"
		"param p2 f32 write elems s1 \"out\"\nparam p3 f32 read elems s1 \"table\"\n"
		"param p4 f32 write elems s0 \"got\"\n"
		"axis x0 grid 1\naxis x1 vector s0\ngrain 1\nbegin\nloop x1\n"
		"t0 = load i64 p0[x1]\nt1 = indirect t0 bound s1 axis 3 check\n"
		"t2 = load f32 p1[x1]\nstore f32 p2[t1] t2\nt3 = load f32 p3[t1]\nstore f32 p4[x1] "
		"t3\n"
		"end\nend\n";
	(void)state;
	for (EACH_TARGET(t))
		for (int64_t rows = 0; rows <= 4; rows += 4) {
			int64_t scalars[2] = { 37, rows };
			size_t table_bytes = (size_t)rows * 4;
			int64_t *idx = jit_guarded(37 * 8);
			float *src = jit_guarded(37 * 4), *out = jit_guarded(table_bytes);
			float *table = jit_guarded(table_bytes), *got = jit_guarded(37 * 4);
			fill(src, 37, 1);
			for (int i = 0; i < rows; i++)
				out[i] = -1, table[i] = (float)i + 100;
			for (int i = 0; i < 37; i++)
				idx[i] = i == 5 ? 1 : i == 6 ? 3 : i == 30 ? -1 : 4 + i;
			struct stx_bounds_record r =
				jit_run(jit_kernel(*t, text),
					(void *[]){ idx, src, out, table, got }, scalars, 0, 1);
			assert_int_equal(r.taken, 1);
			assert_int_equal(r.axis, 3);
			assert_int_equal(r.bound, rows);
			assert_int_equal(r.index, 4);
			if (rows) {
				assert_true(out[0] == -1 && out[2] == -1);
				assert_true(out[1] == src[5] && out[3] == src[6]);
				assert_true(got[5] == 101 && got[6] == 103);
			}
			jit_guarded_free(out, table_bytes);
			jit_guarded_free(table, table_bytes);
		}
}

/* A mask turns the check off; lanes past the end are not checked. */
static void test_emit_indirect_masked_lanes_are_not_checked(void **state)
{
	static const char text[] =
		"kernel \"k\" poi bits 32 target cpu\nparam p0 i64 read elems 21 \"idx\"\n"
		"param p1 f32 read elems 5 \"table\"\nparam p2 f32 write elems 21 \"out\"\n"
		"axis x0 grid 1\naxis x1 vector 21\ngrain 1\nbegin\nt9 = const i64 0\nloop x1\n"
		"t0 = load i64 p0[x1]\nt1 = ge bool t0 t9\nt2 = indirect t0 bound 5 axis 0 check "
		"mask t1\n"
		"t3 = load f32 p1[t2] mask t1\nstore f32 p2[x1] t3\nend\nend\n";
	int64_t *idx = jit_guarded(21 * 8);
	float *table = jit_guarded(5 * 4), *out = jit_guarded(21 * 4);
	(void)state;
	fill(table, 5, 1);
	for (int i = 0; i < 21; i++)
		idx[i] = i % 3 ? i % 5 : -77;
	for (EACH_TARGET(t)) {
		struct stx_bounds_record r =
			jit_run(jit_kernel(*t, text), (void *[]){ idx, table, out }, NULL, 0, 1);
		assert_int_equal(r.taken, 0);
		for (int i = 0; i < 21; i++)
			assert_true(out[i] == (idx[i] < 0 ? 0 : table[idx[i]]));
	}
}

/* Concatenation (LO-18, LO-19): masked loads on both sides, read before and after the ends
 * otherwise. */
static void test_emit_concat_reads_each_part_only_where_it_is(void **state)
{
	static const char *const types[] = { "bool", "i16", "f32", "f64", "bf16" };
	static const int bytes[] = { 1, 2, 4, 8, 2 };
	char text[1024];
	(void)state;
	for (int k = 0; k < 5; k++) {
		const char *n = types[k];
		size_t b = (size_t)bytes[k];
		snprintf(text, sizeof text,
			 "kernel \"k\" poi bits 32 target cpu\nparam p0 %s read elems 29 \"a\"\n"
			 "param p1 %s read elems 44 \"b\"\nparam p2 %s write elems 73 \"out\"\n"
			 "axis x0 grid 1\naxis x1 vector 73\ngrain 1\nbegin\nt9 = const i64 "
			 "29\nloop x1\n"
			 "t0 = index i64 x1\nt1 = lt bool t0 t9\nt2 = load %s p0[x1] mask t1\n"
			 "t3 = ge bool t0 t9\nt4 = load %s p1[x1 - 29] mask t3\nt5 = select %s t1 "
			 "t2 t4\n"
			 "store %s p2[x1] t5\nend\nend\n",
			 n, n, n, n, n, n, n);
		uint8_t *p0 = jit_guarded(29 * b), *p1 = jit_guarded(44 * b),
			*out = jit_guarded(73 * b);
		for (size_t i = 0; i < 44 * b; i++) {
			p1[i] = k ? (uint8_t)(i * 5 + 1) & 0x3f : i % 3 == 0;
			if (i < 29 * b)
				p0[i] = k ? (uint8_t)(i * 11 + 2) & 0x3f : i % 2 == 0;
		}
		for (EACH_TARGET(t)) {
			memset(out, 0x77, 73 * b);
			jit_run(jit_kernel(*t, text), (void *[]){ p0, p1, out }, NULL, 0, 1);
			assert_memory_equal(out, p0, 29 * b);
			assert_memory_equal(out + 29 * b, p1, 44 * b);
		}
	}
}

/* Strided, reversed, divided and clipped addresses, loads and stores. */
static void test_emit_addresses_of_every_form_equal_their_expression(void **state)
{
	static const struct {
		const char *load, *store;
		int64_t load_elems, store_elems;
	} forms[] = {
		{ "3*x1 + 1", "x1", 200, 67 },
		{ "66 - x1", "x1", 67, 67 },
		{ "x1", "66 - x1", 67, 67 },
		{ "x1", "2*x1 + 1", 67, 134 },
		{ "x1 // 3", "x1", 23, 67 },
		{ "x1 % 5", "x1", 5, 67 },
		{ "(x1 + 3*x0) % 7 + 10*(x1 // 7)", "x1", 100, 67 },
		{ "min(x1, 9)", "x1", 10, 67 },
		{ "50 // (67 - x1)", "x1", 51, 67 }, /* 0 beyond the end: must not trap */
		{ "50 % (67 - x1)", "x1", 67, 67 },
		{ "max(x1, 60) - 60", "x1", 7, 67 },
		{ "5", "x1", 6, 67 },
		{ "s0*x1 + 1", "x1", 200, 67 },
		{ "x1", "s0*x1", 67, 200 },
	};
	static const char *const types[] = { "i8", "f16", "i32", "f64" };
	static const int bytes[] = { 1, 2, 4, 8 };
	(void)state;
	for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
		for (int k = 0; k < 4; k++)
			for (int bits = 32; bits <= 64; bits += 32) {
				char text[1024];
				size_t b = (size_t)bytes[k],
				       in_bytes = (size_t)forms[f].load_elems * b;
				size_t out_bytes = (size_t)forms[f].store_elems * b;
				snprintf(text, sizeof text,
					 "kernel \"k\" poi bits %d target cpu\nscalar s0 range 0 "
					 "100 hint 3\n"
					 "param p0 %s read elems %lld \"a\"\nparam p1 %s write "
					 "elems %lld \"b\"\n"
					 "axis x0 grid 1\naxis x1 vector 67\ngrain 1\nbegin\nloop "
					 "x1\n"
					 "t0 = load %s p0[%s]\nstore %s p1[%s] t0\nend\nend\n",
					 bits, types[k], (long long)forms[f].load_elems, types[k],
					 (long long)forms[f].store_elems, types[k], forms[f].load,
					 types[k], forms[f].store);
				struct stx_arena *a = stx_arena_new(0);
				struct stx_kernel *kernel = jit_parse(a, text);
				uint8_t *in = jit_guarded(in_bytes), *out = jit_guarded(out_bytes);
				uint8_t *want = malloc(out_bytes);
				int64_t s0 = 2, vars[2] = { 0, 0 };
				stx_ex ld = kernel->insts.at[1].ex, st = kernel->insts.at[2].ex;
				for (size_t i = 0; i < in_bytes; i++)
					in[i] = (uint8_t)((i * 13 + i / 7) & 0x3f);
				memset(want, 0x11, out_bytes);
				struct stx_ex_env env = { vars, &s0, NULL, 2, 1, 0 };
				for (vars[1] = 0; vars[1] < 67; vars[1]++) {
					int ok = 1;
					int64_t from = stx_ex_eval(kernel->ex, ld, &env, &ok);
					int64_t to = stx_ex_eval(kernel->ex, st, &env, &ok);
					assert_true(ok);
					memcpy(want + (size_t)to * b, in + (size_t)from * b, b);
				}
				for (EACH_TARGET(t)) {
					memset(out, 0x11, out_bytes);
					jit_run(jit_kernel(*t, text), (void *[]){ in, out }, &s0, 0,
						1);
					if (memcmp(out, want, out_bytes))
						fail_msg("%s: %s = %s of %s, %d bits", *t,
							 forms[f].store, forms[f].load, types[k],
							 bits);
				}
				free(want);
				jit_guarded_free(in, in_bytes);
				jit_guarded_free(out, out_bytes);
				stx_arena_free(a);
			}
}

/* Uniform accesses under a varying mask, and equal values stored to one element. */
static void test_emit_uniform_access_under_a_mask_happens_once_or_never(void **state)
{
	static const char text[] =
		"kernel \"k\" poi bits 32 target cpu\nscalar s0 range -1000 1000 hint 3\n"
		"param p0 i32 read elems 1 \"a\"\nparam p1 i32 write elems 1 \"b\"\n"
		"param p2 i32 write elems 19 \"c\"\naxis x0 grid 1\naxis x1 vector 19\ngrain "
		"1\nbegin\n"
		"t7 = index i64 s0\nloop x1\nt0 = index i64 x1\nt1 = eq bool t0 t7\n"
		"t2 = load i32 p0[0] mask t1\nstore i32 p2[x1] t2\nstore i32 p1[0] t2 mask "
		"t1\nend\nend\n";
	(void)state;
	for (EACH_TARGET(t))
		for (int64_t hot = -1; hot < 20; hot++) {
			int none =
				hot < 0 || hot > 18; /* then both addresses are ones that fault */
			int32_t in = 77, out = 5, lanes[19];
			void *trap = jit_guarded(0);
			void *buffers[3] = { none ? trap : &in, none ? trap : &out, lanes };
			jit_run(jit_kernel(*t, text), buffers, &hot, 0, 1);
			assert_int_equal(out, none ? 5 : 77);
			for (int i = 0; i < 19; i++)
				assert_int_equal(lanes[i], i == hot ? 77 : 0);
		}
}

static void test_emit_index_values_in_every_type(void **state)
{
	static const char text[] =
		"kernel \"k\" poi bits 64 target cpu\nparam p0 f32 write elems 120 \"a\"\n"
		"param p1 i64 write elems 120 \"b\"\nparam p2 u8 write elems 120 \"c\"\n"
		"param p3 f64 write elems 120 \"d\"\nparam p4 bool write elems 120 \"e\"\n"
		"axis x0 grid 3\naxis x1 vector 40\ngrain 1\nbegin\nloop x1\n"
		"t0 = index f32 1000003*x1 - x0\nstore f32 p0[40*x0 + x1] t0\n"
		"t1 = index i64 4000000007*x1 + x0\nstore i64 p1[40*x0 + x1] t1\n"
		"t2 = index u8 x0 + 9*x1\nstore u8 p2[40*x0 + x1] t2\n"
		"t3 = index f64 4000000007*x1 - x0\nstore f64 p3[40*x0 + x1] t3\n"
		"t4 = index bool x0*x1\nstore bool p4[40*x0 + x1] t4\nend\nend\n";
	(void)state;
	for (EACH_TARGET(t)) {
		float a[120];
		int64_t b[120];
		uint8_t c[120], e[120];
		double d[120];
		jit_run(jit_kernel(*t, text), (void *[]){ a, b, c, d, e }, NULL, 0, 3);
		for (int64_t x0 = 0; x0 < 3; x0++)
			for (int64_t x1 = 0; x1 < 40; x1++) {
				int64_t i = 40 * x0 + x1;
				assert_true(a[i] == (float)(1000003 * x1 - x0));
				assert_true(b[i] == 4000000007 * x1 + x0);
				assert_int_equal(c[i], (uint8_t)(x0 + 9 * x1));
				assert_true(d[i] == (double)(4000000007 * x1 - x0));
				assert_int_equal(e[i], x0 * x1 != 0);
			}
	}
}

/* Each lane of a vector loop runs an inner loop of its own length. */
static void test_emit_inner_loop_of_varying_length_runs_lane_by_lane(void **state)
{
	static const char text[] =
		"kernel \"k\" red bits 32 target cpu\nparam p0 f32 read elems 50 \"a\"\n"
		"param p1 f32 write elems 50 \"b\"\naxis x0 grid 1\naxis x1 vector 50\n"
		"axis r0 loop reduction x1 + 1\ngrain 1\nbegin\nloop x1\nt0 = acc sum plain f32 "
		"r0\n"
		"loop r0\nt1 = load f32 p0[r0]\nupdate t0 t1\nend\nt2 = result f32 t0 0\n"
		"store f32 p1[x1] t2\nend\nend\n";
	float *a = jit_guarded(50 * 4), *b = jit_guarded(50 * 4);
	(void)state;
	fill(a, 50, 0.1f);
	for (EACH_TARGET(t)) {
		float s = 0;
		jit_run(jit_kernel(*t, text), (void *[]){ a, b }, NULL, 0, 1);
		for (int i = 0; i < 50; i++) {
			s += a[i];
			assert_true(b[i] == s);
		}
	}
}

/* A reduction over several loops in each lane: a 3x3 window. */
static void test_emit_window_sum_over_two_serial_axes(void **state)
{
	static const char text[] =
		"kernel \"k\" red bits 32 target cpu\nparam p0 f32 read elems 400 \"a\"\n"
		"param p1 f32 write elems 324 \"b\"\naxis x0 grid 18\naxis x1 vector 18\n"
		"axis r0 loop reduction 3\naxis r1 loop reduction 3\ngrain 1\nbegin\nloop x1\n"
		"t0 = acc sum plain f32 r0\nloop r0\nloop r1\nt1 = load f32 p0[20*x0 + 20*r0 + r1 "
		"+ x1]\n"
		"update t0 t1\nend\nend\nt2 = result f32 t0 0\nstore f32 p1[18*x0 + x1] "
		"t2\nend\nend\n";
	float *a = jit_guarded(400 * 4), *b = jit_guarded(324 * 4);
	(void)state;
	fill(a, 400, 0.3f);
	for (EACH_TARGET(t)) {
		jit_run(jit_kernel(*t, text), (void *[]){ a, b }, NULL, 0, 18);
		for (int y = 0; y < 18; y++)
			for (int x = 0; x < 18; x++) {
				float s = 0;
				for (int r = 0; r < 9; r++)
					s += a[20 * (y + r / 3) + x + r % 3];
				assert_true(b[18 * y + x] == s);
			}
	}
}

/* An expression as deep as the language has them: 90 remainders of one another. */
static void test_emit_index_nested_to_the_limit_of_the_language(void **state)
{
	enum { N = 4096, DEPTH = 90 };
	struct stx_bytes text = { 0 };
	float *a = jit_guarded(N * 4), *b = jit_guarded(N * 4);
	(void)state;
	stx_bytes_puts(&text, "kernel \"k\" poi bits 32 target cpu\nparam p0 f32 read elems 4096 "
			      "\"a\"\nparam p1 f32 write elems 4096 \"b\"\naxis x0 grid 1\n"
			      "axis x1 vector 4096\ngrain 1\nbegin\nloop x1\nt0 = load f32 p0[");
	for (int i = 0; i < DEPTH; i++)
		stx_bytes_puts(&text, "(");
	stx_bytes_puts(&text, "x1");
	for (int i = 0; i < DEPTH; i++)
		stx_bytes_printf(&text, " + 7) %% %d", N - 9 - 10 * i);
	stx_bytes_puts(&text, "]\nstore f32 p1[x1] t0\nend\nend\n");
	for (int i = 0; i < N; i++)
		a[i] = (float)i;
	for (EACH_TARGET(t)) {
		jit_run(jit_kernel(*t, stx_bytes_cstr(&text)), (void *[]){ a, b }, NULL, 0, 1);
		for (int x = 0; x < N; x++) {
			int at = x;
			for (int i = 0; i < DEPTH; i++)
				at = (at + 7) % (N - 9 - 10 * i);
			assert_true(b[x] == (float)at);
		}
	}
	stx_bytes_free(&text);
}

/* In-place reuse: the same memory as input and output, with copies of one iteration in order. */
static void test_emit_in_place_reads_each_element_before_writing_it(void **state)
{
	float a[999], want[999];
	(void)state;
	for (EACH_TARGET(t)) {
		static const char text[] =
			"kernel \"k\" poi bits 32 target cpu\nparam p0 f32 read elems 999 \"a\"\n"
			"param p1 f32 write elems 999 \"b\"\naxis x0 grid 1\naxis x1 vector "
			"999\ngrain 1\n"
			"begin\nloop x1\nt0 = load f32 p0[x1]\nt1 = mul f32 t0 t0\nstore f32 "
			"p1[x1] t1\n"
			"end\nend\n";
		fill(a, 999, 0.01f);
		for (int i = 0; i < 999; i++)
			want[i] = a[i] * a[i];
		jit_run(jit_kernel(*t, text), (void *[]){ a, a }, NULL, 0, 1);
		assert_memory_equal(a, want, sizeof a);
	}
}

/* The caller's mode (flush to zero, round up) neither changes results nor is changed. */
static void test_emit_kernel_sets_and_restores_the_control_word(void **state)
{
	static const char text[] =
		"kernel \"k\" poi bits 32 target cpu\nparam p0 f32 read elems 33 \"a\"\n"
		"param p1 f32 write elems 33 \"b\"\naxis x0 grid 1\naxis x1 vector 33\ngrain "
		"1\nbegin\n"
		"t9 = const f32 0x1p-1\nloop x1\nt0 = load f32 p0[x1]\nt1 = mul f32 t0 t9\n"
		"store f32 p1[x1] t1\nend\nend\n";
	float a[33], b[33];
	(void)state;
	for (int i = 0; i < 33; i++)
		a[i] = (float)(2 * i + 1) * 0x1p-149f;
	for (EACH_TARGET(t)) {
		stx_kernel_fn *fn = jit_kernel(*t, text);
		unsigned before = _mm_getcsr(), odd = 0x1f80 | 0x8040 | 0x4000; /* FTZ, DAZ, up */
		_mm_setcsr(odd);
		jit_run(fn, (void *[]){ a, b }, NULL, 0, 1);
		unsigned after = _mm_getcsr();
		_mm_setcsr(before);
		assert_int_equal(after & ~0x3fu, odd & ~0x3fu);
		for (int i = 0; i < 33; i++)
			assert_true(b[i] == a[i] * 0.5f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_emit_flat_chunks_and_tail_any_split_of_the_grid),
		cmocka_unit_test(test_emit_matmul_and_column_sum_equal_plain_loops),
		cmocka_unit_test(test_emit_masked_and_constant_values_touch_no_memory_beyond),
		cmocka_unit_test(test_emit_indirect_rows_wrap_and_the_first_violation_is_recorded),
		cmocka_unit_test(test_emit_indirect_store_out_of_range_leaves_memory_alone),
		cmocka_unit_test(test_emit_indirect_masked_lanes_are_not_checked),
		cmocka_unit_test(test_emit_concat_reads_each_part_only_where_it_is),
		cmocka_unit_test(test_emit_addresses_of_every_form_equal_their_expression),
		cmocka_unit_test(test_emit_uniform_access_under_a_mask_happens_once_or_never),
		cmocka_unit_test(test_emit_index_values_in_every_type),
		cmocka_unit_test(test_emit_inner_loop_of_varying_length_runs_lane_by_lane),
		cmocka_unit_test(test_emit_window_sum_over_two_serial_axes),
		cmocka_unit_test(test_emit_index_nested_to_the_limit_of_the_language),
		cmocka_unit_test(test_emit_in_place_reads_each_element_before_writing_it),
		cmocka_unit_test(test_emit_kernel_sets_and_restores_the_control_word),
	};
	return cmocka_run_group_tests(tests, jit_setup, jit_teardown);
}
