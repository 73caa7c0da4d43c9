/* reproduce.c: a private compile that failed by the compiler's own fault is written down (repro.h).
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "key.h"
#include "repro.h"

/* As staxd chooses: $STAX_REPRODUCERS, else beside the store. 0, or -1: nowhere. */
static int folder(char out[PATH_MAX])
{
	const char *dir = getenv("STAX_REPRODUCERS");
	int n = -1;
	if (dir && *dir)
		n = strcmp(dir, "none") != 0 ? snprintf(out, PATH_MAX, "%s", dir) : -1;
	else if ((dir = getenv("STAX_CACHE_DIR")) && *dir)
		n = snprintf(out, PATH_MAX, "%s/reproducers", dir);
	else if ((dir = getenv("XDG_CACHE_HOME")) && *dir == '/')
		n = snprintf(out, PATH_MAX, "%s/stax/reproducers", dir);
	else if ((dir = getenv("HOME")) && *dir == '/')
		n = snprintf(out, PATH_MAX, "%s/.cache/stax/reproducers", dir);
	return n > 0 && n < PATH_MAX ? 0 : -1;
}

void stx__reproduce(const Stx__Lookup *what, uint32_t format, struct stx_span body,
		    const struct stx_digest *compiler, struct stx_diag *d)
{
	char dir[PATH_MAX], path[PATH_MAX];
	struct stx_bytes file = { 0 };
	struct stx_digest plain = stx_digest_of(body.at, body.n);
	struct stx_digest id = stx_key_blocked(&plain, what->blockings, what->n_blockings);
	struct stx_repro r = { .format = format,
			       .body = body,
			       .target = what->target,
			       .options = stx_option_bits(what->options),
			       .values = what->values,
			       .nvalues = format == what->format ? what->n_values : 0,
			       .blockings = what->blockings,
			       .nblockings = what->n_blockings,
			       .compiler = *compiler,
			       .error = *d };
	if (!stx_repro_wanted(d->code) || folder(dir) ||
	    stx_repro_path(dir, &id, path, sizeof path))
		return;
	if (!stx_repro_format(&r, &file) &&
	    !stx_repro_write(path, (struct stx_span){ file.at, file.n }, NULL))
		stx_repro_mention(d, path);
	stx_bytes_free(&file);
}
