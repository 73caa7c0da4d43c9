/* gpu_target.c: names of CUDA targets (design: keys). */
#include <stdio.h>
#include <string.h>

#include "gpu_target.h"

static const struct known {
	struct stx_gpu_device device;
	const char *driver; /* part of what the driver calls it */
} devices[] = {
#define STX_DEVICE(name, arch, sms, threads, shared, l2, cluster, driver)                          \
	{ { name, arch, sms, threads, 1024, shared, l2, cluster }, driver },
#include "gpu_devices.def"
#undef STX_DEVICE
};
#define NDEVICES (sizeof devices / sizeof *devices)

int64_t stx_gpu_kept_row(const struct stx_gpu_device *d)
{
	return d->cluster > 1 ? (int64_t)16384 * d->cluster : 0;
}

int stx_gpu_is_target(const char *text)
{
	return text && !strncmp(text, "cuda", 4) && (!text[4] || text[4] == ':');
}

static int same_arch(const char *arch, const char *text, size_t n)
{
	size_t full = strlen(arch), bare = arch[full - 1] == 'a' ? full - 1 : full;
	return (n == full || n == bare) && !memcmp(arch, text, n);
}

/* "sm_80 (a100), sm_89 (l40s, rtx4090)": devices of an architecture stand together in the table. */
static void list_known(char *out, size_t size)
{
	size_t at = 0;
	for (unsigned i = 0; i < NDEVICES && at < size; i++) {
		const struct stx_gpu_device *v = &devices[i].device;
		int more = i && !strcmp(v->arch, devices[i - 1].device.arch);
		int n = more ? snprintf(out + at, size - at, ", %s", v->name)
			     : snprintf(out + at, size - at, "%s%s (%s", i ? "), " : "", v->arch,
					v->name);
		at += n > 0 ? (size_t)n : 0;
	}
	if (at < size)
		snprintf(out + at, size - at, ")");
}

stx_err stx_gpu_target_parse(const char *text, struct stx_gpu_target *out, struct stx_diag *d)
{
	const char *arch = stx_gpu_is_target(text) && text[4] ? text + 5 : "";
	size_t n = strcspn(arch, ":");
	const char *name = arch[n] ? arch + n + 1 : NULL;
	char known[256];
	for (unsigned i = 0; i < NDEVICES; i++)
		if (same_arch(devices[i].device.arch, arch, n) &&
		    (!name || !strcmp(name, devices[i].device.name))) {
			out->device = devices[i].device;
			return STX_E_OK;
		}
	list_known(known, sizeof known);
	return stx_fail(d, STX_E_UNSUPPORTED, "target", NULL,
			"target '%s' is not cuda:ARCH or cuda:ARCH:DEVICE with one of %s",
			text ? text : "", known);
}

void stx_gpu_target_print(const struct stx_gpu_target *t, char out[64])
{
	snprintf(out, 64, "cuda:%s:%s", t->device.arch, t->device.name);
}

int stx_gpu_target_find(int major, int minor, const char *device, struct stx_gpu_target *out)
{
	char arch[16];
	int found = 0;
	snprintf(arch, sizeof arch, "sm_%d%d", major, minor);
	for (unsigned i = 0; i < NDEVICES; i++) {
		if (!same_arch(devices[i].device.arch, arch, strlen(arch)))
			continue;
		if (!found || strstr(device, devices[i].driver))
			out->device = devices[i].device;
		found = 1;
	}
	return found;
}
