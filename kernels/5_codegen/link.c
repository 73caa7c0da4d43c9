/* link.c: objects to one shared object, with the options every artifact is linked with. */
#include "lld.h"

#include <stdio.h>
#include <stdlib.h>

#include "codegen.h"

static int append(void *ctx, const void *at, size_t n)
{
	return stx_bytes_put(ctx, at, n);
}

#define MAX_OBJECTS 100000u

/* requires: relocatables for x86-64 from stx_emit_llvm and stx_data_object. ensures: equal inputs
 * in equal order give equal bytes (no build id, no time, no paths). */
stx_err stx_link_shared(const struct stx_span *objects, uint32_t n, struct stx_bytes *out,
			struct stx_diag *d)
{
	static const char *const options[] = {
		"ld.lld",
		"-shared",
		"-m",
		"elf_x86_64",
		"--threads=1",
		"--build-id=none",
		"--hash-style=gnu",
		"-z",
		"norelro",
		"-z",
		"noexecstack",
		"-z",
		"text",
		"-Bsymbolic",
		"--strip-all",
		"--no-undefined-version",
		"-o",
		"-",
	};
	enum { NOPTIONS = sizeof options / sizeof *options, NAME = 24 };
	if (n == 0 || n > MAX_OBJECTS)
		return stx_fail(d, STX_E_TOO_LARGE, "link", NULL,
				"%u objects to link, 1 to %u allowed", n, MAX_OBJECTS);
	const char **argv = malloc((NOPTIONS + (size_t)n) * sizeof *argv);
	struct stx__lld_input *in = calloc(n, sizeof *in);
	char *names = malloc((size_t)n * NAME);
	size_t before = out->n;
	char text[400] = "";
	stx_err err = STX_E_NOMEM;
	if (!argv || !in || !names)
		goto done;
	memcpy(argv, options, sizeof options);
	for (uint32_t i = 0; i < n; i++) {
		char *name = names + (size_t)i * NAME;
		snprintf(name, NAME, "stax:%u.o", i);
		in[i] = (struct stx__lld_input){ name, objects[i].at, objects[i].n };
		argv[NOPTIONS + i] = name;
	}
	int rc = stx__lld_link(argv, (int)(NOPTIONS + n), in, n, append, out, text, sizeof text);
	if (out->oom)
		goto done;
	err = rc ? STX_E_COMPILE : STX_E_OK;
	if (!err && out->n == before)
		err = STX_E_INTERNAL;
done:
	free(argv);
	free(in);
	free(names);
	if (!err)
		return STX_E_OK;
	if (!out->oom)
		out->n = before;
	return stx_fail(d, err, "link", NULL, "%s", text[0] ? text : stx_err_text(err));
}
