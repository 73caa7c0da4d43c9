/* cpu_target.c: names of CPU targets and what this host can run (x86-64 psABI levels). The only
 * place that knows the features of a level: no host may get an instruction it lacks. */
#include "cpu_target.h"

#include <cpuid.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "gpu_target.h"
#include "stax_abi.h"

/* ---- names ---- */

static struct stx_cpu_target make(int level, int bf16)
{
	return (struct stx_cpu_target){ .level = level,
					.avx512bf16 = bf16 != 0,
					.vector_bytes = level == 4   ? 64
							: level == 3 ? 32
								     : 16 };
}

static stx_err unknown(const char *text, struct stx_diag *d)
{
	return stx_fail(d, STX_E_UNSUPPORTED, "target", NULL,
			"target '%.80s' is not one of cpu, cpu:x86-64-v2, cpu:x86-64-v3, "
			"cpu:x86-64-v4, cpu:x86-64-v4+avx512bf16, cuda, cuda:ARCH or "
			"cuda:ARCH:DEVICE (as cuda:sm_90a:h200)",
			text ? text : "");
}

stx_err stx_cpu_target_parse(const char *text, struct stx_cpu_target *out, struct stx_diag *d)
{
	static const char prefix[] = "cpu:x86-64-v";
	size_t n = sizeof prefix - 1;
	if (!text || strncmp(text, prefix, n) != 0 || text[n] < '2' || text[n] > '4')
		return unknown(text, d);
	int level = text[n] - '0', bf16 = !strcmp(text + n + 1, "+avx512bf16");
	if ((text[n + 1] && !bf16) || (bf16 && level < 4))
		return unknown(text, d);
	*out = make(level, bf16);
	return STX_E_OK;
}

void stx_cpu_target_print(const struct stx_cpu_target *t, char out[STX_TARGET_BYTES])
{
	snprintf(out, STX_TARGET_BYTES, "cpu:x86-64-v%d%s", t->level,
		 t->avx512bf16 ? "+avx512bf16" : "");
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

static struct stx_cpu_target detect(void)
{
	uint32_t a, b, c, d, c1, b7 = 0, a71 = 0, c81 = 0;
	if (!__get_cpuid(1, &a, &b, &c1, &d))
		return make(1, 0);
	if (__get_cpuid_count(7, 0, &a, &b7, &c, &d) && a >= 1)
		__get_cpuid_count(7, 1, &a71, &b, &c, &d);
	if (__get_cpuid(0x80000001u, &a, &b, &c, &d))
		c81 = c;
	if ((c1 & V2_ECX1) != V2_ECX1 || !(c81 & LAHF_ECX))
		return make(1, 0);
	if ((c1 & V3_ECX1) != V3_ECX1 || (b7 & V3_EBX7) != V3_EBX7 || !(c81 & LZCNT_ECX) ||
	    (xcr0() & XCR0_YMM) != XCR0_YMM)
		return make(2, 0);
	if ((b7 & V4_EBX7) != V4_EBX7 || (xcr0() & XCR0_ZMM) != XCR0_ZMM)
		return make(3, 0);
	return make(4, (a71 & BF16_EAX) != 0);
}

/* Written once, constant afterwards: cpuid leaves the guest in a virtual machine, microseconds. */
static struct stx_cpu_target host;
static void detect_once(void)
{
	host = detect();
}

struct stx_cpu_target stx_cpu_target_host(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, detect_once);
	return host;
}

int stx_cpu_target_covers(const struct stx_cpu_target *have, const struct stx_cpu_target *need)
{
	return need->level <= have->level && need->avx512bf16 <= have->avx512bf16;
}

/* ---- in plans ---- */

uint32_t stx_cpu_target_flags(const struct stx_cpu_target *t)
{
	return ((uint32_t)t->level & STX_PLAN_CPU_LEVEL) |
	       (t->avx512bf16 ? STX_PLAN_CPU_AVX512BF16 : 0);
}

struct stx_cpu_target stx_cpu_target_of_flags(uint32_t flags)
{
	return make((int)(flags & STX_PLAN_CPU_LEVEL), (flags & STX_PLAN_CPU_AVX512BF16) != 0);
}
