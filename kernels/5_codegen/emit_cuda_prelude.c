/* emit_cuda_prelude.c: device functions that generated kernels use, each part only where needed.
 *
 * No headers: NVRTC has none built in, and parsing them costs more than the kernel. Their meaning
 * is that of stx_prim_eval (NUMERICS.md); f16 and bf16 are their bits. Sources: PTX ISA for max.NaN
 * and the conversions; the fp8 and round-to-odd bodies are those of emit_llvm_cast.c. */
#include "emit_cuda.h"

static const char types[] = "typedef signed char i8; typedef unsigned char u8; typedef short i16; "
			    "typedef unsigned short u16;\n"
			    "typedef int i32; typedef unsigned int u32; typedef long long i64; "
			    "typedef unsigned long long u64;\n"
			    "typedef float f32; typedef double f64;\n"
			    "#define DEV static __device__ __forceinline__\n";

static const char minmax[] = "DEV f32 max_(f32 a, f32 b) { f32 r; asm(\"max.NaN.f32 %0, %1, %2;\" "
			     ": \"=f\"(r) : \"f\"(a), \"f\"(b)); return r; }\n"
			     "DEV f32 min_(f32 a, f32 b) { f32 r; asm(\"min.NaN.f32 %0, %1, %2;\" "
			     ": \"=f\"(r) : \"f\"(a), \"f\"(b)); return r; }\n"
			     "DEV f64 max_(f64 a, f64 b) {\n"
			     "  if (a == b) return __longlong_as_double(__double_as_longlong(a) & "
			     "__double_as_longlong(b));\n"
			     "  return a != a || a > b ? a : b;\n"
			     "}\n"
			     "DEV f64 min_(f64 a, f64 b) {\n"
			     "  if (a == b) return __longlong_as_double(__double_as_longlong(a) | "
			     "__double_as_longlong(b));\n"
			     "  return a != a || a < b ? a : b;\n"
			     "}\n"
			     "template <class T> DEV T max_(T a, T b) { return a > b ? a : b; }\n"
			     "template <class T> DEV T min_(T a, T b) { return a < b ? a : b; }\n";

/* The steps that a division takes where no exponent is at the edge (prims.def says where), without
 * its test and branch: correctly rounded there. What is left of a, a - b*q, has bits down to 2^-46 of
 * it, which must be numbers. */
static const char rcp[] =
	"DEV f32 rcp_near(f32 x) { f32 r; asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : "
	"\"f\"(x)); return r; }\n"
	"DEV f32 rcp_(f32 x) { const f32 r = rcp_near(x); return fmaf(r, -fmaf(x, r, -1.0f), r); "
	"}\n"
	"DEV f64 rcp_(f64 x) { return 1 / x; }\n"
	"DEV f32 ratio_(f32 a, f32 b) {\n"
	"  const f32 r = rcp_(b), q = a * r, p = fmaf(r, fmaf(-b, q, a), q);\n"
	"  return fmaf(r, fmaf(-b, p, a), p);\n"
	"}\n"
	"DEV f64 ratio_(f64 a, f64 b) { return a / b; }\n"
	"DEV f32 scale_(f32 a, f32 sum) {\n"
	"  const i32 n = __float_as_int(sum) + (254 - 0x4b400000), h = (u32)n >> 1;\n"
	"  return a * __int_as_float(h << 23) * __int_as_float((n - h) << 23);\n"
	"}\n"
	"DEV f64 scale_(f64 a, f64 sum) {\n"
	"  const i64 n = __double_as_longlong(sum) + (2046 - 0x4338000000000000LL),\n"
	"            h = (u64)n >> 1;\n"
	"  return a * __longlong_as_double(h << 52) * __longlong_as_double((n - h) << 52);\n"
	"}\n"
	"DEV f32 lift_(f32 a, f32 sum) {\n"
	"  return __int_as_float((i32)(((u32)__float_as_int(sum) << 23) + "
	"(u32)__float_as_int(a)));\n"
	"}\n"
	"DEV f64 lift_(f64 a, f64 sum) {\n"
	"  return __longlong_as_double((i64)(((u64)__double_as_longlong(sum) << 52) + "
	"(u64)__double_as_longlong(a)));\n"
	"}\n";

static const char divide[] = "/* total: x/0 = 0, x rem 0 = 0, MIN/-1 = MIN */\n"
			     "template <class T> DEV T div_(T a, T b) {\n"
			     "  if (b == 0) return 0;\n"
			     "  if ((T)-1 < (T)0 && b == (T)-1) return (T)(0 - (u64)a);\n"
			     "  return (T)(a / b);\n"
			     "}\n"
			     "template <class T> DEV T rem_(T a, T b) { return b == 0 || ((T)-1 < "
			     "(T)0 && b == (T)-1) ? (T)0 : (T)(a % b); }\n"
			     "template <class T> DEV T mod_(T a, T b) {\n"
			     "  T r = rem_(a, b);\n"
			     "  return (T)(r != 0 && (r < 0) != (b < 0) ? r + b : r);\n"
			     "}\n"
			     "template <class T> DEV T floordiv_(T a, T b) {\n"
			     "  T q = div_(a, b), r = rem_(a, b);\n"
			     "  return (T)(r != 0 && (r < 0) != (b < 0) ? q - 1 : q);\n"
			     "}\n";

static const char shift[] =
	"/* a count of the width or more (so any negative one) shifts everything out */\n"
	"template <class T> DEV T shl_(T a, T n) { return (u64)n >= sizeof(T) * 8 ? (T)0 : "
	"(T)((u64)a << n); }\n"
	"template <class T> DEV T shr_(T a, T n) { return (u64)n >= sizeof(T) * 8 ? (T)(a < 0 ? -1 "
	": 0) : (T)(a >> n); }\n"
	"template <class T, class U> DEV T lshr_(T a, T n) { return (u64)n >= sizeof(T) * 8 ? (T)0 "
	": (T)((U)a >> n); }\n";

static const char f16[] =
	"DEV f32 f16_to_f32(u16 x) { f32 r; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : \"h\"(x)); "
	"return r; }\n"
	"DEV u16 f32_to_f16(f32 x) { u16 r; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(r) : "
	"\"f\"(x)); return r; }\n"
	"/* one instruction of a high half too, where a shift would have the half taken out first */\n"
	"DEV f32 bf16_to_f32(u16 x) { f32 r; asm(\"mov.b32 %0, {%1, %2};\" : \"=f\"(r) : "
	"\"h\"((u16)0), \"h\"(x)); return r; }\n"
	"/* the instruction for two is four times as fast as that for one */\n"
	"DEV u16 f32_to_bf16(f32 x) { u32 r; asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(r) : "
	"\"f\"(0.0f), \"f\"(x)); return (u16)r; }\n";

static const char f8[] =
	"template <int MANT, int BIAS, u32 MAX, u32 INF, u32 NAN_, int NUZ> DEV f32 f8_to_f32(u8 "
	"x) {\n"
	"  u32 mag = x & 0x7fu, sign = (x & 0x80u) << 24;\n"
	"  f32 scaled = __int_as_float((i32)(mag << (23 - MANT))) * __int_as_float((254 - BIAS) << "
	"23);\n"
	"  u32 v = (u32)__float_as_int(scaled);\n"
	"  if (!NUZ && mag > MAX) v = INF != NAN_ ? (v | 0x7f800000u) : 0x7fc00000u;\n"
	"  v |= sign;\n"
	"  if (NUZ && x == NAN_) v = 0x7fc00000u;\n"
	"  return __int_as_float((i32)v);\n"
	"}\n"
	"template <int MANT, int BIAS, u32 MAX, u32 INF, u32 NAN_, int NUZ> DEV u8 f32_to_f8(f32 "
	"x) {\n"
	"  u32 u = (u32)__float_as_int(x), mag = u & 0x7fffffffu, sign = u >> 24 & 0x80u, r;\n"
	"  const int shift = 23 - MANT;\n"
	"  r = ((mag + ((1u << (shift - 1)) - 1) + (mag >> shift & 1)) >> shift) - ((u32)(127 - "
	"BIAS) << MANT);\n"
	"  if (mag < (u32)(128 - BIAS) << 23) {\n"
	"    f32 magic = __int_as_float((1 - BIAS - MANT + 23 + 127) << 23);\n"
	"    r = (u32)__float_as_int(__int_as_float((i32)mag) + magic) - "
	"(u32)__float_as_int(magic);\n"
	"  }\n"
	"  if ((i32)r > (i32)MAX) r = INF;\n"
	"  if (mag > 0x7f800000u) r = NAN_;\n"
	"  return (u8)(NUZ && r == 0 ? 0 : r | sign);\n"
	"}\n";

static const char odd[] =
	"/* rounded to odd: a second rounding, to fewer bits, then gives what one would */\n"
	"DEV f32 f64_to_odd(f64 x) {\n"
	"  f32 f = (f32)x;\n"
	"  f64 back = f;\n"
	"  i32 u = __float_as_int(f);\n"
	"  if (back == x || x != x || (u & 1)) return f;\n"
	"  return __int_as_float(fabs(back) > fabs(x) ? u - 1 : u + 1);\n"
	"}\n";

static const char to_int[] =
	"/* truncate; through i32 to the small types: outside of it 0; saturate to the others; NaN "
	"0 */\n"
	"template <class T, class F> DEV T to_small(F x) {\n"
	"  f64 t = trunc((f64)x);\n"
	"  return t >= -0x1p31 && t < 0x1p31 ? (T)(i32)t : (T)0;\n"
	"}\n"
	"DEV i32 to_i32(f64 x) { return x != x ? 0 : x >= 0x1p31 ? 0x7fffffff : x <= -0x1p31 ? "
	"(i32)0x80000000 : (i32)x; }\n"
	"DEV u32 to_u32(f64 x) { return !(x > 0) ? 0 : x >= 0x1p32 ? 0xffffffffu : (u32)x; }\n"
	"DEV i64 to_i64(f64 x) { return x != x ? 0 : x >= 0x1p63 ? 0x7fffffffffffffffLL : x <= "
	"-0x1p63 ? (i64)0x8000000000000000ULL : (i64)x; }\n"
	"DEV u64 to_u64(f64 x) { return !(x > 0) ? 0 : x >= 0x1p64 ? 0xffffffffffffffffULL : "
	"(u64)x; }\n";

static const char sticky[] =
	"/* a value a double holds exactly and that rounds to 11 bits or fewer as the integer "
	"would */\n"
	"DEV f64 sticky_f64(i64 v) { return (f64)((u64)(v + (1LL << 53)) > 1ULL << 54 ? (i64)((v & "
	"~0x7ffLL) | ((v & 0x7ff) ? 0x800 : 0)) : v); }\n"
	"DEV f64 sticky_f64(u64 v) { return (f64)(v > 1ULL << 53 ? ((v & ~0x7ffULL) | ((v & 0x7ff) "
	"? 0x800 : 0)) : v); }\n";

static const char index_part[] =
	"template <class T> DEV T fdiv_(T a, T b) { T q = a / b; return q - (a % b != 0 && (a < 0) "
	"!= (b < 0)); }\n"
	"template <class T> DEV T fmod_(T a, T b) { T r = a % b; return r != 0 && (r < 0) != (b < "
	"0) ? r + b : r; }\n"
	"template <class T> DEV T imin_(T a, T b) { return a < b ? a : b; }\n"
	"template <class T> DEV T imax_(T a, T b) { return a > b ? a : b; }\n";

static const char bounds[] =
	"struct bounds_record { i32 taken, kernel, axis, reserved; i64 index, bound; };\n"
	"static __device__ __noinline__ void out_of_bounds(bounds_record *r, i32 kernel, i32 axis, "
	"i64 index, i64 bound) {\n"
	"  if (atomicCAS(&r->taken, 0, 1) == 0) { r->kernel = kernel; r->axis = axis; r->index = "
	"index; r->bound = bound; }\n"
	"}\n";

static const char arg[] = "/* NaN beats everything; of equals the lower position */\n"
			  "template <class T> DEV bool beats_max(T a, i64 i, T b, i64 j) {\n"
			  "  bool na = a != a, nb = b != b;\n"
			  "  return na != nb ? na : na || a == b ? i < j : a > b;\n"
			  "}\n"
			  "template <class T> DEV bool beats_min(T a, i64 i, T b, i64 j) {\n"
			  "  bool na = a != a, nb = b != b;\n"
			  "  return na != nb ? na : na || a == b ? i < j : a < b;\n"
			  "}\n";

static const char welford[] =
	"/* Chan, Golub, LeVeque 1979: (mean, m2, weight) of two parts */\n"
	"template <class T> DEV void welford_merge(T &m, T &s, T &w, T bm, T bs, T bw) {\n"
	"  T n = w + bw, delta = bm - m, f = n == 0 ? (T)0 : bw / n;\n"
	"  m = m + delta * f; s = s + bs + delta * (delta * (w * f)); w = n;\n"
	"}\n";

static const char mul_wide[] =
	"/* one instruction, which the compiler does not find */\n"
	"DEV u64 mul_wide(u32 a, u32 b) { u64 r; asm(\"mul.wide.u32 %0, %1, %2;\" : \"=l\"(r) : "
	"\"r\"(a), \"r\"(b)); return r; }\n";

static const char cluster[] =
	"/* blocks of a cluster: they have begun; where they have what stands at a in this one; "
	"all "
	"before\n   arrive() is seen after wait() */\n"
	"DEV void cluster_begin() { asm volatile(\"barrier.cluster.arrive.relaxed.aligned;\"); }\n"
	"DEV void cluster_arrive() { asm volatile(\"barrier.cluster.arrive.release.aligned;\" ::: "
	"\"memory\"); }\n"
	"DEV void cluster_wait() { asm volatile(\"barrier.cluster.wait.acquire.aligned;\" ::: "
	"\"memory\"); }\n"
	"DEV u64 cluster_at(u64 a, u32 b) { u64 r; asm(\"mapa.u64 %0, %1, %2;\" : \"=l\"(r) : "
	"\"l\"(a), \"r\"(b)); return r; }\n";

static const char ahead[] =
	"/* not to be put off behind loads that others wait for */\n"
	"DEV void ahead_(const void *x) { asm volatile(\"prefetch.global.L2 [%0];\" :: \"l\"(x) : "
	"\"memory\"); }\n";

static const char runs[] =
	"/* a run of N elements, STEP apart in an array, as accesses of up to 16 bytes */\n"
	"template <class T, int N> struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) run_ { "
	"T "
	"at[N]; };\n"
	"template <int N, int STEP, class T, class U> DEV void load_(T *to, const U *from, bool "
	"ok) "
	"{\n"
	"  run_<U, N> v = {};\n"
	"  if (ok) v = *(const run_<U, N> *)from;\n"
	"  #pragma unroll\n"
	"  for (int i = 0; i < N; i++) to[i * STEP] = (T)v.at[i];\n"
	"}\n"
	"template <int N, int STEP, class T, class U> DEV void load_one(T *to, const U *from, bool "
	"ok) {\n"
	"  const T v = ok ? (T)*from : (T)0;\n"
	"  #pragma unroll\n"
	"  for (int i = 0; i < N; i++) to[i * STEP] = v;\n"
	"}\n"
	"template <int N, int STEP, class T, class U> DEV void store_(U *to, const T *from) {\n"
	"  run_<U, N> v;\n"
	"  #pragma unroll\n"
	"  for (int i = 0; i < N; i++) v.at[i] = (U)from[i * STEP];\n"
	"  *(run_<U, N> *)to = v;\n"
	"}\n";

/* Stages of comparisons at growing distance; a tile of the row at a time where they stay inside. */
static const char sort[] =
	"/* Bitonic sort (Batcher 1968) whose comparisons all point upwards, so that what would "
	"lie\n"
	"   beyond the n pairs never moves. Pairs are in order of (key, place): no two are equal. "
	"*/\n"
	"#define SORT_TILE 2048u\n"
	"template <class K> DEV void in_order(K &a, i32 &i, K &b, i32 &j) {\n"
	"  if (b < a || (b == a && j < i)) { K k = a; a = b; b = k; i32 t = i; i = j; j = t; }\n"
	"}\n"
	"/* Compares elements half apart in groups of 2*half, or mirrored in them. */\n"
	"template <class K> DEV void sort_step(K *key, i32 *place, u32 n, u32 half, bool mirror) "
	"{\n"
	"  for (u32 t = threadIdx.x; ; t += blockDim.x) {\n"
	"    u32 j = t & (half - 1), i = 2 * t - j;\n"
	"    if (i >= n) break;\n"
	"    u32 l = mirror ? i - j + 2 * half - 1 - j : i + half;\n"
	"    if (l < n) in_order(key[i], place[i], key[l], place[l]);\n"
	"  }\n"
	"  __syncthreads();\n"
	"}\n"
	"/* The part of the row in shared memory: sorted, or merged from half on. */\n"
	"template <class K> DEV void sort_tiles(K *key, i32 *place, u32 n, u32 merge) {\n"
	"  __shared__ K sk[SORT_TILE]; __shared__ i32 sp[SORT_TILE];\n"
	"  for (u32 at = 0; at < n; at += SORT_TILE) {\n"
	"    u32 m = n - at < SORT_TILE ? n - at : SORT_TILE;\n"
	"    for (u32 i = threadIdx.x; i < m; i += blockDim.x) { sk[i] = key[at + i]; sp[i] = "
	"place[at + i]; }\n"
	"    __syncthreads();\n"
	"    for (u32 half = merge ? merge : 1; merge ? half > 0 : half < m; half = merge ? half / "
	"2 : "
	"2 * half) {\n"
	"      sort_step(sk, sp, m, half, !merge);\n"
	"      for (u32 h = half / 2; !merge && h > 0; h /= 2) sort_step(sk, sp, m, h, false);\n"
	"    }\n"
	"    for (u32 i = threadIdx.x; i < m; i += blockDim.x) { key[at + i] = sk[i]; place[at + "
	"i] = "
	"sp[i]; }\n"
	"    __syncthreads();\n"
	"  }\n"
	"}\n"
	"template <class K> DEV void sort_pairs(K *key, i32 *place, u32 n) {\n"
	"  __syncthreads();\n"
	"  sort_tiles(key, place, n, 0);\n"
	"  for (u32 half = SORT_TILE; half < n; half *= 2) {\n"
	"    sort_step(key, place, n, half, true);\n"
	"    for (u32 h = half / 2; h >= SORT_TILE; h /= 2) sort_step(key, place, n, h, false);\n"
	"    sort_tiles(key, place, n, SORT_TILE / 2);\n"
	"  }\n"
	"}\n";

void stx__cuda_prelude(uint32_t needs, struct stx_bytes *out)
{
	static const struct {
		uint32_t need;
		const char *text;
	} parts[] = {
		{ STX__NEED_MINMAX, minmax },   { STX__NEED_RCP, rcp },
		{ STX__NEED_DIVIDE, divide },   { STX__NEED_SHIFT, shift },
		{ STX__NEED_F16, f16 },         { STX__NEED_F8, f8 },
		{ STX__NEED_ODD, odd },         { STX__NEED_TO_INT, to_int },
		{ STX__NEED_STICKY, sticky },   { STX__NEED_INDEX, index_part },
		{ STX__NEED_BOUNDS, bounds },   { STX__NEED_ARG, arg },
		{ STX__NEED_WELFORD, welford }, { STX__NEED_SORT, sort },
		{ STX__NEED_RUNS, runs },       { STX__NEED_MUL_WIDE, mul_wide },
		{ STX__NEED_CLUSTER, cluster }, { STX__NEED_AHEAD, ahead },
	};
	stx_bytes_puts(out, types);
	if (!(needs & STX__NEED_BOUNDS))
		stx_bytes_puts(out, "struct bounds_record;\n");
	for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++)
		if (needs & parts[i].need)
			stx_bytes_puts(out, parts[i].text);
	stx_bytes_puts(out, "\n");
}
