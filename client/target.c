/* target.c: CPU targets: this host's level, the text form, what an artifact needs. */
#include <cpuid.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "gpu_target.h"

/* Feature bits of the levels, after the x86-64 psABI. */
#define V2_ECX1                                                                                    \
	(1u << 0 | 1u << 9 | 1u << 13 | 1u << 19 | 1u << 20 | 1u << 23) /* sse3 .. popcnt          \
									 */
#define V3_ECX1                                                                                    \
	(1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29) /* fma movbe osxsave avx f16c */
#define V3_EBX7  (1u << 3 | 1u << 5 | 1u << 8)                 /* bmi1 avx2 bmi2 */
#define V4_EBX7  (1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31) /* avx512 f dq cd bw vl */
#define XCR0_YMM 0x6u
#define XCR0_ZMM 0xe6u

/* requires: osxsave. */
static uint64_t xcr0(void)
{
	uint32_t lo, hi;
	__asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	return (uint64_t)hi << 32 | lo;
}

static uint32_t detect(void)
{
	uint32_t a, b, c, d, b7 = 0, c7, d7, a71 = 0, c81 = 0;
	if (!__get_cpuid(1, &a, &b, &c, &d))
		return 1;
	uint32_t c1 = c;
	if (__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) && a >= 1) {
		uint32_t x, y, z;
		__get_cpuid_count(7, 1, &a71, &x, &y, &z);
	}
	if (__get_cpuid(0x80000001, &a, &b, &c, &d))
		c81 = c;
	if ((c1 & V2_ECX1) != V2_ECX1 || !(c81 & 1)) /* lahf in 64-bit mode */
		return 1;
	if ((c1 & V3_ECX1) != V3_ECX1 || (b7 & V3_EBX7) != V3_EBX7 || !(c81 >> 5 & 1) ||
	    (xcr0() & XCR0_YMM) != XCR0_YMM)
		return 2;
	if ((b7 & V4_EBX7) != V4_EBX7 || (xcr0() & XCR0_ZMM) != XCR0_ZMM)
		return 3;
	return 4 | (a71 >> 5 & 1 ? STX_PLAN_CPU_AVX512BF16 : 0);
}

/* Built once, constant afterwards. */
static uint32_t host;
static void detect_once(void)
{
	host = detect();
}

uint32_t stx__host_cpu(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, detect_once);
	return host;
}

static void target_text(uint32_t need, char out[STX_TARGET_BYTES])
{
	snprintf(out, STX_TARGET_BYTES, "cpu:x86-64-v%u%s", need & STX_PLAN_CPU_LEVEL,
		 need & STX_PLAN_CPU_AVX512BF16 ? "+avx512bf16" : "");
}

stx_err stx__cpu_resolve(const char *text, char out[STX_TARGET_BYTES], uint32_t *need,
			 struct stx_diag *d)
{
	static const char prefix[] = "cpu:x86-64-v";
	*need = 0;
	if (!text || !*text || !strcmp(text, "cpu")) {
		*need = stx__host_cpu();
		if ((*need & STX_PLAN_CPU_LEVEL) < 2)
			return stx_fail(d, STX_E_UNSUPPORTED, "target", "",
					"this CPU is older than x86-64-v2, the lowest level");
		target_text(*need, out);
		return STX_E_OK;
	}
	if (strlen(text) >= STX_TARGET_BYTES)
		return stx_fail(d, STX_E_USAGE, "target", "", "target name is too long");
	if (!strcmp(text, "cuda"))
		return stx__cuda_resolve(out, d);
	if (stx_gpu_is_target(text)) {
		struct stx_gpu_target t;
		stx_err e = stx_gpu_target_parse(text, &t, d);
		if (!e)
			stx_gpu_target_print(&t, out);
		return e;
	}
	char level = strncmp(text, prefix, sizeof prefix - 1) != 0 ? 0 : text[sizeof prefix - 1];
	const char *rest = level ? text + sizeof prefix : "";
	if (level >= '2' && level <= '4' && (!*rest || !strcmp(rest, "+avx512bf16"))) {
		*need = (uint32_t)(level - '0') | (*rest ? STX_PLAN_CPU_AVX512BF16 : 0);
		target_text(*need, out);
		return STX_E_OK;
	}
	return stx_fail(d, STX_E_USAGE, "target", "",
			"unknown target '%s': cpu, cpu:x86-64-v2, cpu:x86-64-v3, cpu:x86-64-v4, "
			"cpu:x86-64-v4+avx512bf16, cuda, cuda:ARCH or cuda:ARCH:DEVICE (as "
			"cuda:sm_90a:h200)",
			text);
}

stx_err stx__cpu_check(uint32_t need, struct stx_diag *d)
{
	uint32_t have = stx__host_cpu();
	uint32_t level = need & STX_PLAN_CPU_LEVEL;
	if (level <= (have & STX_PLAN_CPU_LEVEL) && !(need & ~STX_PLAN_CPU_LEVEL & ~have))
		return STX_E_OK;
	char a[STX_TARGET_BYTES], b[STX_TARGET_BYTES];
	target_text(need, a);
	target_text(have, b);
	return stx_fail(d, STX_E_UNSUPPORTED, "load", "",
			"the artifact needs %s, this host offers %s: compile for this host", a, b);
}

int stax_target(const char *text, char *out, size_t cap, struct stax_error *err)
{
	struct stx_diag d;
	char exact[STX_TARGET_BYTES];
	uint32_t need;
	stx__diag_init(&d);
	stx_err e = stx__cpu_resolve(text, exact, &need, &d);
	if (!e && (size_t)snprintf(out, cap, "%s", exact) >= cap)
		e = stx_fail(&d, STX_E_USAGE, "target", "", "the buffer is too short");
	return stx__give_error(e, &d, err);
}
