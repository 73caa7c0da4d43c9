/* cpu_identity.c: what this host's CPU is known by where timings are kept: its brand string (Intel
 * SDM, AMD APM: cpuid 0x80000002 to 4), its highest clock (cpuid 0x16, else sysfs cpufreq) and its
 * caches as they are. */
#include <cpuid.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cpu_target.h"

static void brand(char out[49])
{
	uint32_t r[12] = { 0 };
	for (unsigned i = 0; i < 3; i++)
		if (!__get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2],
				 &r[4 * i + 3]))
			r[0] = 0;
	memcpy(out, r, sizeof r);
	out[48] = 0;
}

/* 0: it is not told, as in most virtual machines. */
static uint32_t clock_khz(void)
{
	uint32_t a, b, c, d;
	unsigned long khz = 0;
	if (__get_cpuid(0x16, &a, &b, &c, &d) && (b & 0xffff))
		return (b & 0xffff) * 1000;
	FILE *f = fopen("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "re");
	if (f && fscanf(f, "%9lu", &khz) != 1)
		khz = 0;
	if (f)
		fclose(f);
	return (uint32_t)khz;
}

static struct stx_cpu_identity identity;
static void identify_once(void)
{
	char name[49];
	uint64_t bytes[3];
	brand(name);
	size_t n = strlen(name), from = strspn(name, " ");
	while (n > from && name[n - 1] == ' ')
		name[--n] = 0;
	stx_cpu_caches_read("/sys/devices/system/cpu/cpu0/cache", bytes);
	snprintf(identity.name, sizeof identity.name, "%s %lluK-%lluK-%lluK",
		 n > from ? name + from : "x86-64", (unsigned long long)bytes[0] >> 10,
		 (unsigned long long)bytes[1] >> 10, (unsigned long long)bytes[2] >> 10);
	identity.clock_khz = clock_khz();
}

const struct stx_cpu_identity *stx_cpu_identity(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, identify_once);
	return &identity;
}
