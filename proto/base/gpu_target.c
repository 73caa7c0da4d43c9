/* gpu_target.c: names of CUDA targets (design: keys). */
#include <stdio.h>
#include <string.h>

#include "gpu_target.h"

static const struct stx_gpu_device devices[] = {
#define STX_DEVICE(name, arch, sms, threads, shared, l2)                                           \
	{ name, arch, sms, threads, 1024, shared, l2 },
#include "gpu_devices.def"
#undef STX_DEVICE
};
#define NDEVICES (sizeof devices / sizeof *devices)

int stx_gpu_is_target(const char *text)
{
	return text && !strncmp(text, "cuda", 4) && (!text[4] || text[4] == ':');
}

static int same_arch(const char *arch, const char *text, size_t n)
{
	size_t full = strlen(arch), bare = arch[full - 1] == 'a' ? full - 1 : full;
	return (n == full || n == bare) && !memcmp(arch, text, n);
}

stx_err stx_gpu_target_parse(const char *text, struct stx_gpu_target *out, struct stx_diag *d)
{
	const char *arch = stx_gpu_is_target(text) && text[4] ? text + 5 : "";
	size_t n = strcspn(arch, ":");
	const char *name = arch[n] ? arch + n + 1 : NULL;
	for (unsigned i = 0; i < NDEVICES; i++)
		if (same_arch(devices[i].arch, arch, n) &&
		    (!name || !strcmp(name, devices[i].name))) {
			out->device = devices[i];
			return STX_E_OK;
		}
	return stx_fail(
		d, STX_E_UNSUPPORTED, "target", NULL,
		"target '%s' is not cuda:ARCH or cuda:ARCH:DEVICE with one of sm_80 (a100), "
		"sm_86 (rtx3090), sm_90a (h100-sxm, h200), sm_100a (b200), sm_120a (rtx5090)",
		text ? text : "");
}

void stx_gpu_target_print(const struct stx_gpu_target *t, char out[64])
{
	snprintf(out, 64, "cuda:%s:%s", t->device.arch, t->device.name);
}

int stx_gpu_target_find(int major, int minor, const char *device, struct stx_gpu_target *out)
{
	static const struct {
		const char *in, *name; /* part of what the driver calls it */
	} names[] = { { "A100", "a100" },     { "3090", "rtx3090" }, { "H200", "h200" },
		      { "H100", "h100-sxm" }, { "B200", "b200" },    { "5090", "rtx5090" } };
	char arch[16];
	int found = 0;
	snprintf(arch, sizeof arch, "sm_%d%d", major, minor);
	for (unsigned i = 0; i < NDEVICES; i++) {
		int exact = 0;
		if (!same_arch(devices[i].arch, arch, strlen(arch)))
			continue;
		for (unsigned j = 0; j < sizeof names / sizeof *names; j++)
			exact |= !strcmp(names[j].name, devices[i].name) &&
				 strstr(device, names[j].in);
		if (!found || exact)
			out->device = devices[i];
		found = 1;
	}
	return found;
}
