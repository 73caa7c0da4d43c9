/* target.c: names of CPU targets and what this host can run (x86-64 psABI levels). */
#include <cpuid.h>
#include <stdio.h>
#include <string.h>

#include "codegen.h"
#include "gpu.h"

#define V2_ECX1                                                                                    \
	(1u << 0 | 1u << 9 | 1u << 13 | 1u << 19 | 1u << 20 | 1u << 23) /* sse3 .. popcnt          \
									 */
#define V3_ECX1                                                                                    \
	(1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29) /* fma movbe osxsave avx f16c */
#define V3_EBX7   (1u << 3 | 1u << 5 | 1u << 8)                /* bmi1 avx2 bmi2 */
#define V4_EBX7   (1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31) /* avx512 f dq cd bw vl */
#define LAHF_ECX  1u
#define LZCNT_ECX (1u << 5)
#define BF16_EAX  (1u << 5)
#define XCR0_YMM  0x6u  /* register state the operating system saves: xmm, ymm */
#define XCR0_ZMM  0xe6u /* and opmask, zmm */

static stx_err unknown(const char *text, struct stx_diag *d)
{
	return stx_fail(
		d, STX_E_UNSUPPORTED, "target", NULL,
		"target '%s' is not one of cpu, cpu:x86-64-v2, cpu:x86-64-v3, cpu:x86-64-v4, "
		"cpu:x86-64-v4+avx512bf16",
		text ? text : "");
}

static struct stx_cpu_target make(int level, int bf16)
{
	return (struct stx_cpu_target){ .level = level,
					.avx512bf16 = bf16 != 0,
					.vector_bytes = level == 4   ? 64
							: level == 3 ? 32
								     : 16 };
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

/* requires: osxsave. */
static uint64_t xcr0(void)
{
	uint32_t lo, hi;
	__asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	return (uint64_t)hi << 32 | lo;
}

/* Level 1 when the host is older than x86-64-v2. */
static struct stx_cpu_target host(void)
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

stx_err stx_target_resolve(const char *text, char out[64], struct stx_diag *d)
{
	if (stx_gpu_is_target(text)) {
		struct stx_gpu_target g;
		stx_err err = stx_gpu_target_parse(text, &g, d);
		if (!err)
			stx_gpu_target_print(&g, out);
		return err;
	}
	struct stx_cpu_target t = make(0, 0);
	if (text && !strcmp(text, "cpu")) {
		t = host();
		if (t.level < 2)
			return stx_fail(
				d, STX_E_UNSUPPORTED, "target", NULL,
				"this host is older than x86-64-v2, the lowest level supported");
	} else {
		stx_err err = stx_cpu_target_parse(text, &t, d);
		if (err)
			return err;
	}
	snprintf(out, 64, "cpu:x86-64-v%d%s", t.level, t.avx512bf16 ? "+avx512bf16" : "");
	return STX_E_OK;
}

int stx_target_runs_here(const char *target)
{
	struct stx_cpu_target t = make(0, 0), h = host();
	if (stx_cpu_target_parse(target, &t, NULL))
		return 0;
	return t.level <= h.level && t.avx512bf16 <= h.avx512bf16;
}
