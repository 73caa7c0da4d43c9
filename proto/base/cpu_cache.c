/* cpu_cache.c: data caches of a CPU: sizes a target may name, those of each level by default, and
 * what this host's first processor has.
 *
 * Detection reads sysfs (Documentation/ABI/testing/sysfs-devices-system-cpu: level, type, size,
 * shared_cpu_list), else the deterministic cache parameters of cpuid: leaf 4 (Intel SDM), leaf
 * 0x8000001d (AMD APM), which have one layout. L3 is divided by the processors that share it: each
 * may run a thread of ours. L1d and L2 are not: the threads of a core seldom both run ours. */
#include <cpuid.h>
#include <stdio.h>
#include <string.h>

#include "cpu_target.h"

#define KIB(n)      ((uint32_t)(n) << 10)
#define MIB(n)      ((uint32_t)(n) << 20)
#define MOST_CACHES 16 /* of a processor */

/* What processors of each level have at least had when it was new, L3 as one of many cores shares
 * it. */
struct stx_cpu_caches stx_cpu_caches_default(int level)
{
	return level >= 4   ? (struct stx_cpu_caches){ KIB(32), MIB(1), MIB(4) }
	       : level == 3 ? (struct stx_cpu_caches){ KIB(32), KIB(512), MIB(2) }
			    : (struct stx_cpu_caches){ KIB(32), KIB(256), MIB(2) };
}

static uint32_t class_of(uint64_t bytes, uint32_t least, uint32_t most)
{
	uint32_t n = most;
	while (n > least && n > bytes)
		n /= 2;
	return n;
}

struct stx_cpu_caches stx_cpu_caches_class(uint64_t l1, uint64_t l2, uint64_t l3)
{
	return (struct stx_cpu_caches){ class_of(l1, KIB(16), KIB(256)),
					class_of(l2, KIB(128), MIB(16)),
					class_of(l3, KIB(512), MIB(64)) };
}

/* ---- sysfs ---- */

static int read_line(const char *root, unsigned index, const char *name, char out[256])
{
	char path[256];
	if ((size_t)snprintf(path, sizeof path, "%s/index%u/%s", root, index, name) >= sizeof path)
		return 0;
	FILE *f = fopen(path, "re");
	int ok = f && fgets(out, 256, f);
	if (f)
		fclose(f);
	return ok;
}

/* Processors of a list like "0-3,8": 1 at least. */
static uint64_t count_list(const char *s)
{
	uint64_t n = 0;
	unsigned from, to;
	int used;
	for (;; s++) {
		if (sscanf(s, "%6u-%6u%n", &from, &to, &used) == 2 && to >= from)
			n += to - from + 1;
		else if (sscanf(s, "%6u%n", &from, &used) == 1)
			n++;
		else
			break;
		s += used;
		if (*s != ',')
			break;
	}
	return n ? n : 1;
}

static void from_system(const char *root, uint64_t bytes[3])
{
	char line[256], unit;
	unsigned level, size;
	for (unsigned i = 0; i < MOST_CACHES && read_line(root, i, "level", line); i++) {
		if (sscanf(line, "%1u", &level) != 1 || level < 1 || level > 3 ||
		    !read_line(root, i, "type", line) || !strncmp(line, "Instruction", 11) ||
		    !read_line(root, i, "size", line) || sscanf(line, "%9u%c", &size, &unit) != 2)
			continue;
		uint64_t n = (uint64_t)size << (unit == 'M' ? 20 : unit == 'K' ? 10 : 0);
		if (level == 3 && read_line(root, i, "shared_cpu_list", line))
			n /= count_list(line);
		bytes[level - 1] = n;
	}
}

/* ---- cpuid ---- */

static void from_processor(unsigned leaf, uint64_t bytes[3])
{
	uint32_t a, b, c, d;
	for (unsigned i = 0; i < MOST_CACHES && __get_cpuid_count(leaf, i, &a, &b, &c, &d); i++) {
		unsigned type = a & 31, level = a >> 5 & 7;
		if (!type)
			return;
		if (type == 2 || level < 1 || level > 3) /* instructions */
			continue;
		uint64_t n = ((uint64_t)(b >> 22) + 1) * ((b >> 12 & 1023) + 1) * ((b & 4095) + 1) *
			     ((uint64_t)c + 1);
		bytes[level - 1] = level == 3 ? n / ((a >> 14 & 4095) + 1) : n;
	}
}

void stx_cpu_caches_read(const char *root, uint64_t bytes[3])
{
	memset(bytes, 0, 3 * sizeof *bytes);
	from_system(root, bytes);
	if (!bytes[0] || !bytes[1])
		from_processor(4, bytes);
	if (!bytes[0] || !bytes[1])
		from_processor(0x8000001du, bytes);
	if (!bytes[2]) /* none of the third level: the second is the last */
		bytes[2] = bytes[1];
}
