/* cpu_target.c: names of CPU targets and what this host can run (x86-64 psABI levels). The only
 * place that knows the features of a level: no host may get an instruction it lacks. */
#include "cpu_target.h"

#include <cpuid.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "gpu_target.h"
#include "stax_abi.h"

/* ---- names ---- */

/* Features beyond a level, in the order of their names. A host's vdpbf16ps counts only when it rounds
 * as products need it (rounds_twice). */
static const struct feature {
	const char *name;
	int level; /* the least */
	uint32_t flag;
} features[] = {
	{ "+avx512bf16", 4, STX_PLAN_CPU_AVX512BF16 },
	{ "+avx512vnni", 4, STX_PLAN_CPU_AVX512VNNI },
	{ "+avxvnni", 3, STX_PLAN_CPU_AVXVNNI },
};
#define NFEATURES (sizeof features / sizeof *features)

static struct stx_cpu_target make(int level, uint32_t flags)
{
	return (struct stx_cpu_target){ .level = level,
					.avx512bf16 = (flags & STX_PLAN_CPU_AVX512BF16) != 0,
					.avx512vnni = (flags & STX_PLAN_CPU_AVX512VNNI) != 0,
					.avxvnni = (flags & STX_PLAN_CPU_AVXVNNI) != 0,
					.vector_bytes = level == 4   ? 64
							: level == 3 ? 32
								     : 16,
					.caches = stx_cpu_caches_default(level) };
}

static stx_err unknown(const char *text, struct stx_diag *d)
{
	return stx_fail(d, STX_E_UNSUPPORTED, "target", NULL,
			"target '%.80s' is not one of cpu, cpu:x86-64-v2, cpu:x86-64-v3, "
			"cpu:x86-64-v3+avxvnni, cpu:x86-64-v4 with any of +avx512bf16, "
			"+avx512vnni, +avxvnni in this order, any of these with caches as "
			"cpu:x86-64-v3:32K-1M-4M, cuda, cuda:ARCH or "
			"cuda:ARCH:DEVICE (as cuda:sm_90a:h200)",
			text ? text : "");
}

/* A power of two of at most four digits, with K or M. 0: it is not one. */
static uint32_t take_size(const char **at)
{
	uint32_t n = 0, digits = 0;
	for (; **at >= '0' && **at <= '9' && digits < 4; ++*at, digits++)
		n = n * 10 + (uint32_t)(**at - '0');
	int shift = **at == 'K' ? 10 : **at == 'M' ? 20 : 0;
	if (!shift || !n || n & (n - 1) || n >= UINT32_MAX >> shift)
		return 0;
	++*at;
	return n << shift;
}

/* text: from the ':' on. */
static int take_caches(const char *text, struct stx_cpu_caches *out)
{
	uint32_t size[3];
	for (int i = 0; i < 3; i++) {
		if (*text != (i ? '-' : ':'))
			return 0;
		text++;
		if (!(size[i] = take_size(&text)))
			return 0;
	}
	*out = stx_cpu_caches_class(size[0], size[1], size[2]);
	return !*text && out->l1 == size[0] && out->l2 == size[1] && out->l3 == size[2];
}

static stx_err no_caches(const char *text, struct stx_diag *d)
{
	return stx_fail(d, STX_E_UNSUPPORTED, "target", NULL,
			"target '%.80s': its caches are not L1d-L2-L3 of a core as in "
			"cpu:x86-64-v3:32K-1M-4M: powers of two, 16K to 256K, 128K to 16M, 512K to "
			"64M; leave them out for the level's usual ones",
			text);
}

stx_err stx_cpu_target_parse(const char *text, struct stx_cpu_target *out, struct stx_diag *d)
{
	static const char prefix[] = "cpu:x86-64-v";
	size_t n = sizeof prefix - 1;
	uint32_t flags = 0;
	if (!text || strncmp(text, prefix, n) != 0 || text[n] < '2' || text[n] > '4')
		return unknown(text, d);
	int level = text[n] - '0';
	const char *rest = text + n + 1;
	for (size_t i = 0; i < NFEATURES; i++) {
		size_t len = strlen(features[i].name);
		if (level < features[i].level || strncmp(rest, features[i].name, len) != 0)
			continue;
		flags |= features[i].flag;
		rest += len;
	}
	if (*rest && *rest != ':')
		return unknown(text, d);
	*out = make(level, flags);
	return *rest && !take_caches(rest, &out->caches) ? no_caches(text, d) : STX_E_OK;
}

void stx_cpu_target_print(const struct stx_cpu_target *t, char out[STX_TARGET_BYTES])
{
	uint32_t flags = stx_cpu_target_flags(t);
	int n = snprintf(out, STX_TARGET_BYTES, "cpu:x86-64-v%d", t->level);
	for (size_t i = 0; i < NFEATURES; i++)
		if (flags & features[i].flag)
			n += snprintf(out + n, STX_TARGET_BYTES - (size_t)n, "%s",
				      features[i].name);
	struct stx_cpu_caches usual = stx_cpu_caches_default(t->level), c = t->caches;
	if (c.l1 == usual.l1 && c.l2 == usual.l2 && c.l3 == usual.l3)
		return;
	const uint32_t size[3] = { c.l1, c.l2, c.l3 };
	for (int i = 0; i < 3; i++) {
		int m = size[i] >= 1u << 20;
		n += snprintf(out + n, STX_TARGET_BYTES - (size_t)n, "%c%u%c", i ? '-' : ':',
			      size[i] >> (m ? 20 : 10), m ? 'M' : 'K');
	}
}

size_t stx_target_kernel_length(const char *target)
{
	const char *caches = strncmp(target, "cpu:", 4) ? NULL : strchr(target + 4, ':');
	return caches ? (size_t)(caches - target) : strlen(target);
}

stx_err stx_target_normalise(const char *text, char out[STX_TARGET_BYTES], struct stx_diag *d)
{
	struct stx_cpu_target cpu;
	struct stx_gpu_target gpu;
	int is_gpu = text && stx_gpu_is_target(text);
	stx_err e =
		is_gpu ? stx_gpu_target_parse(text, &gpu, d) : stx_cpu_target_parse(text, &cpu, d);
	if (!e && is_gpu)
		stx_gpu_target_print(&gpu, out);
	else if (!e)
		stx_cpu_target_print(&cpu, out);
	return e;
}

/* ---- features ---- */

#define V2_ECX1   (1u << 0 | 1u << 9 | 1u << 13 | 1u << 19 | 1u << 20 | 1u << 23)
#define V3_ECX1   (1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29)
#define V3_EBX7   (1u << 3 | 1u << 5 | 1u << 8)
#define V4_EBX7   (1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31)
#define LAHF_ECX  1u
#define LZCNT_ECX (1u << 5)
#define BF16_EAX  (1u << 5)
#define AVXV_EAX  (1u << 4)
#define VNNI_ECX  (1u << 11)
#define XCR0_YMM  0x6u  /* register state the operating system saves: xmm, ymm */
#define XCR0_ZMM  0xe6u /* and opmask, zmm */
/* V2_ECX1: sse3 ssse3 cx16 sse4.1 sse4.2 popcnt. V3_ECX1: fma movbe osxsave avx f16c. V3_EBX7: bmi1
 * avx2 bmi2. V4_EBX7: avx512 f dq cd bw vl. */

/* requires: osxsave. */
static uint64_t xcr0(void)
{
	uint32_t lo, hi;
	__asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	return (uint64_t)hi << 32 | lo;
}

/* vdpbf16ps adds the product of the second pair, then that of the first, and rounds both times: what
 * code that uses it in place of two FMA relies on. The manuals say so; this makes sure. */
__attribute__((target("avx512f,avx512bf16"))) static int rounds_twice(void)
{
	/* 2^24 + 1 + 1 stays 2^24 when each sum is rounded (to even), and is 2^24 + 2 at once. After
	 * 2^24 - 2^24 adding 2^-30 is exact, before it is lost. A product is not rounded: 2^128. */
	static const struct {
		float sum;
		uint16_t a[2], b[2];
		float want;
	} cases[] = {
		{ 16777216.0f, { 0x3f80, 0x3f80 }, { 0x3f80, 0x3f80 }, 16777216.0f },
		{ -0x1p24f, { 0x3080, 0x3f80 }, { 0x3f80, 0x4b80 }, 0x1p-30f },
		{ -0x1p127f, { 0x3f80, 0x5f80 }, { 0x0000, 0x5f80 }, 0x1p127f },
	};
	int same = 1;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint32_t a, b;
		memcpy(&a, cases[i].a, 4);
		memcpy(&b, cases[i].b, 4);
		__m512 sum = _mm512_dpbf16_ps(_mm512_set1_ps(cases[i].sum),
					      (__m512bh)_mm512_set1_epi32((int)a),
					      (__m512bh)_mm512_set1_epi32((int)b));
		same &= _mm512_cvtss_f32(sum) == cases[i].want;
	}
	return same;
}

static struct stx_cpu_target detect(void)
{
	uint32_t a, b, c, d, c1, b7 = 0, c7 = 0, a71 = 0, c81 = 0, flags = 0;
	if (!__get_cpuid(1, &a, &b, &c1, &d))
		return make(1, 0);
	if (__get_cpuid_count(7, 0, &a, &b7, &c7, &d) && a >= 1)
		__get_cpuid_count(7, 1, &a71, &b, &c, &d);
	if (__get_cpuid(0x80000001u, &a, &b, &c, &d))
		c81 = c;
	if ((c1 & V2_ECX1) != V2_ECX1 || !(c81 & LAHF_ECX))
		return make(1, 0);
	if ((c1 & V3_ECX1) != V3_ECX1 || (b7 & V3_EBX7) != V3_EBX7 || !(c81 & LZCNT_ECX) ||
	    (xcr0() & XCR0_YMM) != XCR0_YMM)
		return make(2, 0);
	if (a71 & AVXV_EAX)
		flags |= STX_PLAN_CPU_AVXVNNI;
	if ((b7 & V4_EBX7) != V4_EBX7 || (xcr0() & XCR0_ZMM) != XCR0_ZMM)
		return make(3, flags);
	if (c7 & VNNI_ECX)
		flags |= STX_PLAN_CPU_AVX512VNNI;
	if ((a71 & BF16_EAX) && rounds_twice())
		flags |= STX_PLAN_CPU_AVX512BF16;
	return make(4, flags);
}

/* Written once, constant afterwards: cpuid leaves the guest in a virtual machine, microseconds. */
static struct stx_cpu_target host;
static void detect_once(void)
{
	uint64_t bytes[3];
	host = detect();
	stx_cpu_caches_read("/sys/devices/system/cpu/cpu0/cache", bytes);
	for (int i = 0; i < 3; i++)
		if (!bytes[i])
			return;
	host.caches = stx_cpu_caches_class(bytes[0], bytes[1], bytes[2]);
}

struct stx_cpu_target stx_cpu_target_host(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, detect_once);
	return host;
}

int stx_cpu_target_covers(const struct stx_cpu_target *have, const struct stx_cpu_target *need)
{
	return need->level <= have->level &&
	       !(stx_cpu_target_flags(need) & ~stx_cpu_target_flags(have) & ~STX_PLAN_CPU_LEVEL);
}

/* ---- in plans ---- */

uint32_t stx_cpu_target_flags(const struct stx_cpu_target *t)
{
	return ((uint32_t)t->level & STX_PLAN_CPU_LEVEL) |
	       (t->avx512bf16 ? STX_PLAN_CPU_AVX512BF16 : 0) |
	       (t->avx512vnni ? STX_PLAN_CPU_AVX512VNNI : 0) |
	       (t->avxvnni ? STX_PLAN_CPU_AVXVNNI : 0);
}

struct stx_cpu_target stx_cpu_target_of_flags(uint32_t flags)
{
	return make((int)(flags & STX_PLAN_CPU_LEVEL), flags);
}
