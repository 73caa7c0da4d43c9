/* test_emit_prim.c: every primitive and cast, in every element type and at every level, against
 * stx_prim_eval on special and random values, for every length from 0 to 67 (BE-09). */
#include "jit.h"

#include <math.h>

#include "elementary.h"
#include "scalar.h"

#define N 67

static uint64_t seed = 20261129;

static const enum stx_dtype dtypes[] = { STX_BOOL,      STX_U8,       STX_U16,    STX_U32,
					 STX_U64,       STX_I8,       STX_I16,    STX_I32,
					 STX_I64,       STX_F16,      STX_BF16,   STX_F32,
					 STX_F64,       STX_F8E4M3FN, STX_F8E5M2, STX_F8E4M3FNUZ,
					 STX_F8E5M2FNUZ };
#define N_DTYPES (sizeof dtypes / sizeof *dtypes)

static int is_narrow(enum stx_dtype t)
{
	return stx_dtype_is_float(t) && stx_dtype_bytes(t) < 4;
}

static union stx_scalar value(enum stx_dtype t, int i)
{
	static const double special[] = { 0.0,
					  -0.0,
					  1,
					  -1,
					  INFINITY,
					  -INFINITY,
					  NAN,
					  0.5,
					  -0.5,
					  1.5,
					  2.5,
					  -2.5,
					  3,
					  7,
					  -7,
					  300,
					  127.9,
					  -0.9,
					  255.5,
					  256,
					  -129,
					  65504,
					  65520,
					  1e-8,
					  -1e-8,
					  5e-324,
					  0x1p-149,
					  0x1p-126,
					  0x1.fffffep127,
					  1e300,
					  2147483647,
					  2147483648.0,
					  -2147483648.0,
					  -2147483649.0,
					  4294967295.0,
					  4294967296.0,
					  0x1p63,
					  -0x1p63,
					  0x1p64,
					  0x1.fffffffffffffp62,
					  448,
					  464,
					  480,
					  1 + 0x1p-11 + 0x1p-30,
					  0x1p-25 * (1 + 0x1p-30),
					  8388607.5,
					  -8388608.5 };
	static const uint64_t whole[] = { 0,
					  1,
					  2,
					  3,
					  7,
					  8,
					  15,
					  16,
					  31,
					  32,
					  63,
					  64,
					  100,
					  127,
					  128,
					  255,
					  256,
					  32767,
					  32768,
					  65535,
					  0x7fffffff,
					  0x80000000,
					  0xffffffff,
					  0x7fffffffffffffff,
					  0x8000000000000000,
					  (uint64_t)-1,
					  (uint64_t)-2,
					  (uint64_t)-7,
					  (uint64_t)-128,
					  0x20000000000001,
					  0x1010000000000001,
					  0xefefffffffffffff,
					  0x1010000000000000,
					  33685505,
					  16777217 };
	int nspecial = (int)(sizeof special / sizeof *special),
	    nwhole = (int)(sizeof whole / sizeof *whole);
	uint64_t r = jit_random(&seed);
	if (stx_dtype_is_float(t)) {
		if (i < nspecial)
			return (union stx_scalar){ .f = stx_scalar_round(
							   t, special[(i * 7) % nspecial]) };
		if (r & 1) /* any bits */
			return (union stx_scalar){ .f = stx_scalar_from_bits(t, r >> 7) };
		return (union stx_scalar){ .f = stx_scalar_round(t, (double)(int64_t)r * 0x1p-55) };
	}
	if (i < nwhole)
		return stx_scalar_wrap(t, whole[(i * 5) % nwhole]);
	return stx_scalar_wrap(t, (r & 1) ? r >> 5 : (uint64_t)((int64_t)r >> 57));
}

struct inputs {
	union stx_scalar v[3][N];
	uint8_t flag[N];
};

static void fill(struct inputs *in, enum stx_dtype t)
{
	for (int j = 0; j < 3; j++)
		for (int i = 0; i < N; i++)
			in->v[j][(i * (2 * j + 1)) % N] = value(t, i);
	for (int i = 0; i < N; i++) /* any non-zero byte is true */
		in->flag[i] = (uint8_t)(jit_random(&seed) % 3 * 85);
}

/* Equal bits, any NaN being the same. */
static int same(enum stx_dtype t, union stx_scalar a, union stx_scalar b)
{
	if (!stx_dtype_is_float(t))
		return a.u == b.u;
	return (isnan(a.f) && isnan(b.f)) || stx_scalar_bits(t, a.f) == stx_scalar_bits(t, b.f);
}

static double fma_at(const char *target, enum stx_dtype t, double a, double b, double c)
{
	if (target[12] != '2') /* x86-64-v2 multiplies and adds: NUMERICS */
		return t == STX_F32 ? (double)fmaf((float)a, (float)b, (float)c) : fma(a, b, c);
	if (t == STX_F32) {
		volatile float p = (float)a * (float)b;
		return (double)(p + (float)c);
	}
	volatile double p = a * b;
	return p + c;
}

struct job { /* one output of a kernel */
	enum stx_prim op;
	enum stx_dtype to;
};

static union stx_scalar expected(const char *target, const struct job *j, enum stx_dtype t,
				 const struct inputs *in, int i)
{
	union stx_scalar a = in->v[0][i], b = in->v[1][i], c = in->v[2][i];
	if (j->op == STX_P_FMA)
		return (union stx_scalar){ .f = fma_at(target, t, a.f, b.f, c.f) };
	if (j->op == STX_P_SELECT)
		return in->flag[i] ? a : b;
	return stx_prim_eval(j->op, j->to, t, a, b, c);
}

/* uniform: the second operand is one element for all lanes. */
static void put_kernel(struct stx_bytes *text, enum stx_dtype t, const struct job *jobs,
		       uint32_t njobs, int uniform)
{
	const char *name = stx_dtype_name(t);
	stx_bytes_puts(text,
		       "kernel \"k\" poi bits 32 target cpu\nscalar s0 range 0 1000 hint 64\n");
	for (int j = 0; j < 3; j++)
		stx_bytes_printf(text, "param p%d %s read elems 1000 \"in\"\n", j, name);
	stx_bytes_puts(text, "param p3 bool read elems 1000 \"flag\"\n");
	for (uint32_t j = 0; j < njobs; j++)
		stx_bytes_printf(text, "param p%u %s write elems 1000 \"out\"\n", j + 4,
				 stx_dtype_name(jobs[j].to));
	stx_bytes_puts(text, "axis x0 grid 1\naxis x1 vector s0\ngrain 1\nbegin\n");
	if (uniform)
		stx_bytes_printf(text, "  t1 = load %s p1[3]\n", name);
	stx_bytes_puts(text, "  loop x1\n");
	stx_bytes_printf(text, "t0 = load %s p0[x1]\n", name);
	if (!uniform)
		stx_bytes_printf(text, "t1 = load %s p1[x1]\n", name);
	stx_bytes_printf(text, "t2 = load %s p2[x1]\nt3 = load bool p3[x1]\n", name);
	for (uint32_t j = 0; j < njobs; j++) {
		const struct stx_prim_info *info = stx_prim_info(jobs[j].op);
		stx_bytes_printf(text, "t%u = %s %s", j + 4, info->text,
				 stx_dtype_name(jobs[j].to));
		if (jobs[j].op == STX_P_SELECT)
			stx_bytes_puts(text, " t3 t0 t1");
		else
			for (int o = 0; o < info->arity; o++)
				stx_bytes_printf(text, " t%d", o);
		stx_bytes_printf(text, "\nstore %s p%u[x1] t%u\n", stx_dtype_name(jobs[j].to),
				 j + 4, j + 4);
	}
	stx_bytes_puts(text, "  end\nend\n");
}

static void check_jobs(enum stx_dtype t, const struct job *jobs, uint32_t njobs, int uniform)
{
	struct stx_bytes text = { 0 };
	struct inputs in;
	void *buffers[4 + 64];
	uint8_t *data[3];
	size_t size = (size_t)stx_dtype_bytes(t);
	assert_true(njobs <= 64);
	put_kernel(&text, t, jobs, njobs, uniform);
	for (const char *const *target = jit_targets(); *target; target++) {
		stx_kernel_fn *fn = jit_kernel(*target, stx_bytes_cstr(&text));
		for (int64_t n = 0; n <= N; n++) {
			fill(&in, t);
			for (int j = 0; j < 3; j++) {
				size_t elems = uniform && j == 1 ? 4 : (size_t)n;
				data[j] = jit_guarded(elems * size);
				for (size_t i = 0; i < elems; i++)
					stx_scalar_store(t, data[j] + i * size, in.v[j][i]);
				buffers[j] = data[j];
			}
			uint8_t *flags = jit_guarded((size_t)n);
			memcpy(flags, in.flag, (size_t)n);
			buffers[3] = flags;
			for (uint32_t j = 0; j < njobs; j++)
				buffers[4 + j] = jit_guarded((size_t)n *
							     (size_t)stx_dtype_bytes(jobs[j].to));
			if (uniform)
				for (int i = 0; i < N; i++)
					if (i != 3)
						in.v[1][i] = in.v[1][3];
			jit_run(fn, buffers, &n, 0, 1);
			for (uint32_t j = 0; j < njobs; j++) {
				size_t out_size = (size_t)stx_dtype_bytes(jobs[j].to);
				for (int i = 0; i < n; i++) {
					union stx_scalar got = stx_scalar_load(
						jobs[j].to,
						(uint8_t *)buffers[4 + j] + (size_t)i * out_size);
					union stx_scalar want =
						expected(*target, &jobs[j], t, &in, i);
					if (same(jobs[j].to, got, want) ||
					    jobs[j].op == STX_P_SCALE ||
					    jobs[j].op == STX_P_LIFT) /* not of any operands */
						continue;
					fail_msg("%s: %s of %s to %s, lane %d of %d: %a %a %a "
						 "(%llx %llx): "
						 "got %a (%llx), want %a (%llx)",
						 *target, stx_prim_info(jobs[j].op)->text,
						 stx_dtype_name(t), stx_dtype_name(jobs[j].to), i,
						 (int)n, in.v[0][i].f, in.v[1][i].f, in.v[2][i].f,
						 (unsigned long long)in.v[0][i].u,
						 (unsigned long long)in.v[1][i].u, got.f,
						 (unsigned long long)got.u, want.f,
						 (unsigned long long)want.u);
				}
				jit_guarded_free(buffers[4 + j], (size_t)n * out_size);
			}
			for (int j = 0; j < 3; j++)
				jit_guarded_free(data[j],
						 (uniform && j == 1 ? 4 : (size_t)n) * size);
			jit_guarded_free(flags, (size_t)n);
		}
	}
	stx_bytes_free(&text);
}

static uint32_t prims_of(enum stx_dtype t, struct job *jobs)
{
	uint32_t n = 0;
	for (int p = 0; p < STX_P_FIRST_ELEMENTARY; p++) {
		enum stx_prim op = (enum stx_prim)p;
		if (op == STX_P_CAST || op == STX_P_BITCAST || !stx_prim_accepts(op, t) ||
		    (is_narrow(t) && op != STX_P_SELECT))
			continue;
		int to_bool = stx_prim_info(op)->result == STX_RESULT_BOOL;
		jobs[n++] = (struct job){ op, to_bool ? STX_BOOL : t };
	}
	return n;
}

static void test_emit_prim_all_types_and_levels_equal_reference(void **state)
{
	struct job jobs[64];
	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	for (size_t i = 0; i < N_DTYPES; i++)
		check_jobs(dtypes[i], jobs, prims_of(dtypes[i], jobs), 0);
}

static void test_emit_prim_uniform_operand_equals_reference(void **state)
{
	static const enum stx_dtype some[] = { STX_BOOL, STX_U8,  STX_I16, STX_I32,
					       STX_U32,  STX_I64, STX_F32, STX_F64 };
	struct job jobs[64];
	(void)state;
	for (size_t i = 0; i < sizeof some / sizeof *some; i++)
		check_jobs(some[i], jobs, prims_of(some[i], jobs), 1);
}

static void test_emit_cast_all_pairs_and_levels_equal_reference(void **state)
{
	struct job jobs[64];
	(void)state;
	for (size_t i = 0; i < N_DTYPES; i++) {
		uint32_t n = 0;
		for (size_t j = 0; j < N_DTYPES; j++) {
			enum stx_dtype t = dtypes[i], to = dtypes[j];
			jobs[n++] = (struct job){ STX_P_CAST, to };
			if (t != STX_BOOL && to != STX_BOOL &&
			    stx_dtype_bytes(t) == stx_dtype_bytes(to))
				jobs[n++] = (struct job){ STX_P_BITCAST, to };
		}
		check_jobs(dtypes[i], jobs, n, 0);
	}
}

/* All 65536 patterns of the 16-bit floats survive a copy; widening and narrowing are exact
 * inverses. */
static void test_emit_copy_of_16_bit_floats_keeps_every_bit(void **state)
{
	static const char *const names[] = { "f16", "bf16" };
	static uint16_t in[65536], out[65536], round[65536];
	char text[1024];
	(void)state;
	for (int i = 0; i < 65536; i++)
		in[i] = (uint16_t)i;
	for (int j = 0; j < 2; j++) {
		snprintf(
			text, sizeof text,
			"kernel \"k\" poi bits 32 target cpu\nparam p0 %s read elems 65536 \"a\"\n"
			"param p1 %s write elems 65536 \"b\"\nparam p2 %s write elems 65536 \"c\"\n"
			"axis x0 grid 1\naxis x1 vector 65536\ngrain 1\nbegin\nloop x1\n"
			"t0 = load %s p0[x1]\nstore %s p1[x1] t0\nt1 = cast f32 t0\nt2 = cast %s "
			"t1\n"
			"store %s p2[x1] t2\nend\nend\n",
			names[j], names[j], names[j], names[j], names[j], names[j], names[j]);
		for (const char *const *target = jit_targets(); *target; target++) {
			void *buffers[3] = { in, out, round };
			memset(out, 0x55, sizeof out);
			jit_run(jit_kernel(*target, text), buffers, NULL, 0, 1);
			assert_memory_equal(in, out, sizeof in);
			for (int i = 0; i < 65536; i++) {
				enum stx_dtype t = j ? STX_BF16 : STX_F16;
				if (!isnan(stx_scalar_from_bits(t, in[i])))
					assert_int_equal(in[i], round[i]);
				else
					assert_true(isnan(stx_scalar_from_bits(t, round[i])));
			}
		}
	}
}

/* Operands of scale as prims.def allows them: results from 0 through subnormal ones to infinity.
 * lift of those among them that are normal. */
static void scaled(enum stx_prim op)
{
	enum { N_SCALED = 4096 };
	static float x32[N_SCALED], n32[N_SCALED], got32[N_SCALED];
	static double x64[N_SCALED], n64[N_SCALED], got64[N_SCALED];
	char text[600];
	for (int i = 0; i < N_SCALED; i++) {
		uint64_t r = jit_random(&seed);
		double m = ldexp((double)(int64_t)r * 0x1p-63, (int)(r % 17) - 8);
		x64[i] = i % 50 ? m : (double)NAN;
		x32[i] = (float)x64[i];
		n64[i] = (int)(jit_random(&seed) % 4001) - 2000;
		n32[i] = (float)((int)(jit_random(&seed) % 501) - 250);
	}
	for (int wide = 0; wide < 2; wide++) {
		void *buffers[3] = { wide ? (void *)x64 : x32, wide ? (void *)n64 : n32,
				     wide ? (void *)got64 : got32 };
		const char *t = wide ? "f64" : "f32";
		snprintf(text, sizeof text,
			 "kernel \"k\" poi bits 32 target cpu\nparam p0 %s read elems 4096 \"a\"\n"
			 "param p1 %s read elems 4096 \"b\"\nparam p2 %s write elems 4096 \"c\"\n"
			 "axis x0 grid 1\naxis x1 vector 4096\ngrain 1\nbegin\nloop x1\n"
			 "t0 = load %s p0[x1]\nt1 = load %s p1[x1]\nt2 = %s %s t0 t1\n"
			 "store %s p2[x1] t2\nend\nend\n",
			 t, t, t, t, t, stx_prim_info(op)->text, t, t);
		for (const char *const *target = jit_targets(); *target; target++) {
			jit_run(jit_kernel(*target, text), buffers, NULL, 0, 1);
			for (int i = 0; i < N_SCALED; i++) {
				double want = wide ? ldexp(x64[i], (int)n64[i])
						   : (double)ldexpf(x32[i], (int)n32[i]);
				double got = wide ? got64[i] : (double)got32[i];
				union stx_scalar a = { .f = wide ? x64[i] : (double)x32[i] },
						 b = { .f = wide ? n64[i] : (double)n32[i] };
				enum stx_dtype d = wide ? STX_F64 : STX_F32;
				if (op == STX_P_LIFT &&
				    !(wide ? isnormal(want) : isnormal((float)want)))
					continue;
				assert_true(same(d, (union stx_scalar){ .f = got },
						 (union stx_scalar){ .f = want }));
				assert_true(same(d, stx_prim_eval(op, d, d, a, b, b),
						 (union stx_scalar){ .f = want }));
			}
		}
	}
}

static void test_emit_scale_rounds_once(void **state)
{
	(void)state;
	scaled(STX_P_SCALE);
	scaled(STX_P_LIFT);
}

/* Around every number of a 16-bit float, the middles to the next too, and NaN of small and of large
 * payload: as the reference rounds, to the bit. */
static void test_emit_narrowing_to_16_bits_rounds_at_every_edge(void **state)
{
	static const uint32_t bf16_step[8] = {
		0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0xfffe, 0x100
	};
	static const uint32_t f16_step[8] = { 0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x1ffe, 0x100 };
	static uint32_t in[8 << 16];
	static uint16_t got[8 << 16];
	static const char *const names[] = { "f16", "bf16" };
	char text[600];
	(void)state;
	for (int j = 0; j < 2; j++) {
		enum stx_dtype t = j ? STX_BF16 : STX_F16;
		snprintf(text, sizeof text,
			 "kernel \"k\" poi bits 32 target cpu\n"
			 "param p0 f32 read elems 524288 \"a\"\n"
			 "param p1 %s write elems 524288 \"b\"\n"
			 "axis x0 grid 512\naxis x1 vector 1024\ngrain 1\nbegin\nloop x1\n"
			 "t0 = load f32 p0[x1 + 1024*x0]\nt1 = cast %s t0\n"
			 "store %s p1[x1 + 1024*x0] t1\nend\nend\n",
			 names[j], names[j], names[j]);
		for (uint32_t i = 0; i < 8 << 16; i++) {
			float v = (float)stx_scalar_from_bits(t, i >> 3);
			memcpy(&in[i], &v, 4);
			if (j) /* NaN has the payload of its bits */
				in[i] = i >> 3 << 16;
			in[i] += (j ? bf16_step : f16_step)[i & 7];
		}
		for (const char *const *target = jit_targets(); *target; target++) {
			jit_run(jit_kernel(*target, text), (void *[]){ in, got }, NULL, 0, 512);
			for (uint32_t i = 0; i < 8 << 16; i++) {
				float v;
				memcpy(&v, &in[i], 4);
				if (isnan(v) ? isnan(stx_scalar_from_bits(t, got[i]))
					     : got[i] == stx_scalar_bits(t, (double)v))
					continue;
				fail_msg("%s: %08x becomes %s %04x", *target, in[i], names[j],
					 got[i]);
			}
		}
	}
}

#define EDGES (4 << 16)

/* Casts of EDGES numbers to a 16-bit float: as the reference rounds, to the bit, at every level. */
static void check_rounding(enum stx_dtype from, enum stx_dtype to, const void *in)
{
	static uint16_t got[EDGES];
	const char *a = stx_dtype_name(from), *b = stx_dtype_name(to);
	size_t bytes = (size_t)stx_dtype_bytes(from);
	char text[600];
	snprintf(text, sizeof text,
		 "kernel \"k\" poi bits 32 target cpu\nparam p0 %s read elems 262144 \"a\"\n"
		 "param p1 %s write elems 262144 \"b\"\naxis x0 grid 256\naxis x1 vector 1024\n"
		 "grain 1\nbegin\nloop x1\nt0 = load %s p0[x1 + 1024*x0]\nt1 = cast %s t0\n"
		 "store %s p1[x1 + 1024*x0] t1\nend\nend\n",
		 a, b, a, b, b);
	for (const char *const *target = jit_targets(); *target; target++) {
		jit_run(jit_kernel(*target, text), (void *[]){ (void *)in, got }, NULL, 0, 256);
		for (size_t i = 0; i < EDGES; i++) {
			union stx_scalar v = stx_scalar_load(from, (const char *)in + i * bytes);
			v = stx_prim_eval(STX_P_CAST, to, from, v, v, v);
			if (isnan(v.f) ? isnan(stx_scalar_from_bits(to, got[i]))
				       : got[i] == stx_scalar_bits(to, v.f))
				continue;
			fail_msg("%s: %s %zu becomes %s %04x", *target, a, i, b, got[i]);
		}
	}
}

/* The middles between numbers of the smaller format, and what is next to them, round in one step; of f64 by
 * way of f32 they would not. */
static void test_emit_narrowing_from_f64_and_i32_rounds_once(void **state)
{
	static double wide[EDGES];
	static int32_t whole[EDGES];
	static const enum stx_dtype to[] = { STX_BF16, STX_F16 };
	(void)state;
	for (int j = 0; j < 2; j++) {
		for (uint32_t i = 0; i < EDGES; i++) {
			double v = stx_scalar_from_bits(to[j], i >> 2);
			double m = v / 2 + stx_scalar_from_bits(to[j], (i >> 2) + 1) / 2;
			int32_t n = (int32_t)((i & 0xfff) | 0x1000) << (i >> 12) % 19;
			wide[i] = i & 2 ? m : nextafter(m, i & 1 ? INFINITY : -INFINITY);
			if ((i & 3) == 3)
				wide[i] = nextafter(v, 0);
			n += (int32_t)(i >> 12) / 19 % 3 - 1;
			whole[i] = i >> 17 ? -n : n;
		}
		whole[0] = INT32_MIN;
		whole[1] = INT32_MAX;
		check_rounding(STX_F64, to[j], wide);
		check_rounding(STX_I32, to[j], whole);
	}
}

/* What bf16 arithmetic only moves, or gives another sign, is not rounded; the rest is: as the reference. */
static void test_emit_signs_and_extremes_of_bf16_equal_reference(void **state)
{
	static const char text[] =
		"kernel \"k\" poi bits 32 target cpu\nparam p0 bf16 read elems 65536 \"a\"\n"
		"param p1 bf16 read elems 65536 \"b\"\n"
		"param p2 bf16 write elems 65536 \"c\"\nparam p3 bf16 write elems 65536 \"d\"\n"
		"param p4 bf16 write elems 65536 \"e\"\nparam p5 bf16 write elems 65536 \"f\"\n"
		"axis x0 grid 64\naxis x1 vector 1024\ngrain 1\nbegin\n"
		"t0 = const f32 0.5\nt1 = const f32 0.3\nloop x1\n"
		"t2 = load bf16 p0[x1 + 1024*x0]\nt3 = load bf16 p1[x1 + 1024*x0]\n"
		"t4 = cast f32 t2\nt5 = cast f32 t3\n"
		"t6 = neg f32 t4\nt7 = abs f32 t6\nt8 = copysign f32 t7 t5\nt9 = cast bf16 t8\n"
		"t10 = max f32 t4 t5\nt11 = min f32 t10 t0\nt12 = cast bf16 t11\n"
		"t13 = min f32 t4 t1\nt14 = cast bf16 t13\n"
		"t15 = abs f32 t1\nt16 = lt bool t4 t5\nt17 = select f32 t16 t4 t15\n"
		"t18 = cast bf16 t17\n"
		"store bf16 p2[x1 + 1024*x0] t9\nstore bf16 p3[x1 + 1024*x0] t12\n"
		"store bf16 p4[x1 + 1024*x0] t14\nstore bf16 p5[x1 + 1024*x0] t18\nend\nend\n";
	static uint16_t a[1 << 16], b[1 << 16], got[4][1 << 16];
	(void)state;
	for (uint32_t i = 0; i < 1 << 16; i++) {
		a[i] = (uint16_t)i;
		b[i] = (uint16_t)(i * 40503u >> 3);
	}
	for (const char *const *target = jit_targets(); *target; target++) {
		jit_run(jit_kernel(*target, text),
			(void *[]){ a, b, got[0], got[1], got[2], got[3] }, NULL, 0, 64);
		for (uint32_t i = 0; i < 1 << 16; i++) {
			double x = stx_scalar_from_bits(STX_BF16, a[i]),
			       y = stx_scalar_from_bits(STX_BF16, b[i]), third = (double)0.3f,
			       want[4] = { copysign(x, y), fmin(fmax(x, y), 0.5), fmin(x, third),
					   x < y ? x : third };
			if (isnan(x) || isnan(y)) /* wins of max and min; elsewhere x's alone */
				want[1] = NAN;
			if (isnan(x))
				want[2] = NAN;
			if (x == 0 && y == 0) /* -0 < +0 */
				want[1] = signbit(x) && signbit(y) ? -0.0 : 0.0;
			for (int k = isnan(y); k < 4; k++) { /* a NaN's sign is not defined */
				double g = stx_scalar_from_bits(STX_BF16, got[k][i]);
				if (isnan(want[k])
					    ? !isnan(g)
					    : got[k][i] != stx_scalar_bits(STX_BF16, want[k]))
					fail_msg("%s: output %d of %04x, %04x is %04x", *target, k,
						 a[i], b[i], got[k][i]);
			}
		}
	}
}

/* B35: the same values in a scalar, a vector body and a tail. */
static void test_emit_cast_out_of_range_to_8_bits_wraps_through_i32(void **state)
{
	static const float in[11] = { 300,  NAN,    INFINITY, -INFINITY, 50, -50,
				      -129, 127.9f, -0.9f,    255.5f,    256 };
	static const int8_t want_i[11] = { 44, 0, 0, 0, 50, -50, 127, 127, 0, -1, 0 };
	static const uint8_t want_u[11] = { 44, 0, 0, 0, 50, 206, 127, 127, 0, 255, 0 };
	static const char text[] =
		"kernel \"k\" poi bits 32 target cpu\nscalar s0 range 0 1000 hint 64\n"
		"param p0 f32 read elems 1000 \"a\"\nparam p1 i8 write elems 1000 \"b\"\n"
		"param p2 u8 write elems 1000 \"c\"\nparam p3 i8 write elems 1 \"d\"\n"
		"axis x0 grid 1\naxis x1 vector s0\ngrain 1\nbegin\n"
		"t9 = load f32 p0[0]\nt8 = cast i8 t9\nstore i8 p3[0] t8\n"
		"loop x1\nt0 = load f32 p0[x1]\nt1 = cast i8 t0\nt2 = cast u8 t0\n"
		"store i8 p1[x1] t1\nstore u8 p2[x1] t2\nend\nend\n";
	(void)state;
	for (const char *const *target = jit_targets(); *target; target++) {
		stx_kernel_fn *fn = jit_kernel(*target, text);
		for (int64_t n = 1; n <= 75; n += 74)
			for (int shift = 0; shift < 11; shift++) {
				float a[75];
				int8_t i8[75], one;
				uint8_t u8[75];
				for (int i = 0; i < n; i++)
					a[i] = in[(i + shift) % 11];
				void *buffers[4] = { a, i8, u8, &one };
				jit_run(fn, buffers, &n, 0, 1);
				for (int i = 0; i < n; i++) {
					assert_int_equal(i8[i], want_i[(i + shift) % 11]);
					assert_int_equal(u8[i], want_u[(i + shift) % 11]);
				}
				assert_int_equal(one, want_i[shift]);
			}
	}
}

static const char square_minus[] =
	"kernel \"k\" poi bits 32 target cpu\nparam p0 f32 read elems 37 \"a\"\n"
	"param p1 f32 write elems 37 \"b\"\naxis x0 grid 1\naxis x1 vector 37\ngrain 1\nbegin\n"
	"t9 = const f32 0x1.002p+0\nloop x1\nt0 = load f32 p0[x1]\nt1 = mul f32 t0 t0\n"
	"t2 = sub f32 t1 t9\nstore f32 p1[x1] t2\nend\nend\n";

/* SE-06: x*x - (1 + 2^-11) with x = 1 + 2^-12 is 0 without contraction, 2^-24 with. */
static void test_emit_multiply_and_subtract_is_not_contracted(void **state)
{
	float a[37], b[37];
	(void)state;
	for (int i = 0; i < 37; i++)
		a[i] = 1 + 0x1p-12f;
	for (const char *const *target = jit_targets(); *target; target++) {
		void *buffers[2] = { a, b };
		jit_run(jit_kernel(*target, square_minus), buffers, NULL, 0, 1);
		for (int i = 0; i < 37; i++)
			assert_true(b[i] == 0 && !signbit(b[i]));
	}
}

/* `fast` contracts where the level can. */
static void test_emit_multiply_and_subtract_is_contracted_in_fast(void **state)
{
	float a[37], b[37];
	(void)state;
	for (int i = 0; i < 37; i++)
		a[i] = 1 + 0x1p-12f;
	jit.fast = 1;
	for (const char *const *target = jit_targets(); *target; target++) {
		void *buffers[2] = { a, b };
		jit_run(jit_kernel(*target, square_minus), buffers, NULL, 0, 1);
		for (int i = 0; i < 37; i++)
			assert_true(b[i] == ((*target)[12] == '2' ? 0 : 0x1p-24f));
	}
	jit.fast = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_emit_prim_all_types_and_levels_equal_reference),
		cmocka_unit_test(test_emit_prim_uniform_operand_equals_reference),
		cmocka_unit_test(test_emit_cast_all_pairs_and_levels_equal_reference),
		cmocka_unit_test(test_emit_copy_of_16_bit_floats_keeps_every_bit),
		cmocka_unit_test(test_emit_scale_rounds_once),
		cmocka_unit_test(test_emit_narrowing_to_16_bits_rounds_at_every_edge),
		cmocka_unit_test(test_emit_narrowing_from_f64_and_i32_rounds_once),
		cmocka_unit_test(test_emit_signs_and_extremes_of_bf16_equal_reference),
		cmocka_unit_test(test_emit_cast_out_of_range_to_8_bits_wraps_through_i32),
		cmocka_unit_test(test_emit_multiply_and_subtract_is_not_contracted),
		cmocka_unit_test(test_emit_multiply_and_subtract_is_contracted_in_fast),
	};
	return cmocka_run_group_tests(tests, jit_setup, jit_teardown);
}
