/* target.c: targets as a client sees them: this host's for "cpu" and "cuda" alone, what an artifact
 * needs. */
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "gpu_target.h"

uint32_t stx__host_cpu(void)
{
	struct stx_cpu_target host = stx_cpu_target_host();
	return stx_cpu_target_flags(&host);
}

static stx_err resolve_host(char out[STX_TARGET_BYTES], uint32_t *need, struct stx_diag *d)
{
	struct stx_cpu_target host = stx_cpu_target_host();
	if (host.level < 2)
		return stx_fail(d, STX_E_UNSUPPORTED, "target", "",
				"this CPU is older than x86-64-v2, the lowest level");
	*need = stx_cpu_target_flags(&host);
	stx_cpu_target_print(&host, out);
	return STX_E_OK;
}

stx_err stx__cpu_resolve(const char *text, char out[STX_TARGET_BYTES], uint32_t *need,
			 struct stx_diag *d)
{
	struct stx_cpu_target t;
	*need = 0;
	if (!text || !*text || !strcmp(text, "cpu"))
		return resolve_host(out, need, d);
	if (!strcmp(text, "cuda"))
		return stx__cuda_resolve(out, d);
	stx_err e = stx_target_normalise(text, out, d);
	if (!e && !stx_cpu_target_parse(out, &t, NULL))
		*need = stx_cpu_target_flags(&t);
	if (e && !stx_gpu_is_target(text)) {
		if (d)
			d->code = STX_E_USAGE;
		return STX_E_USAGE;
	}
	return e;
}

stx_err stx__cpu_device(const char *target, int threads, Stx__Device *out, struct stx_diag *d)
{
	struct stx_cpu_target t, host = stx_cpu_target_host();
	const struct stx_cpu_identity *id = stx_cpu_identity();
	char mine[STX_TARGET_BYTES];
	stx__device__init(out);
	out->name = (char *)(uintptr_t)id->name;
	out->clock_khz = id->clock_khz;
	out->multiprocessors = (uint32_t)threads;
	stx_err e = stx_cpu_target_parse(target, &t, d);
	if (e ||
	    (stx_cpu_target_covers(&host, &t) && !memcmp(&t.caches, &host.caches, sizeof t.caches)))
		return e;
	stx_cpu_target_print(&host, mine);
	return stx_fail(d, STX_E_USAGE, "tune", "",
			"products are measured for targets that run here and have this host's "
			"caches: '%s' is not like %s",
			target, mine);
}

stx_err stx__cpu_check(uint32_t flags, struct stx_diag *d)
{
	struct stx_cpu_target have = stx_cpu_target_host(), need = stx_cpu_target_of_flags(flags);
	char a[STX_TARGET_BYTES], b[STX_TARGET_BYTES];
	if (stx_cpu_target_covers(&have, &need))
		return STX_E_OK;
	stx_cpu_target_print(&need, a);
	stx_cpu_target_print(&have, b);
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
