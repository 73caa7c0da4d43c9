/* spec.c: requests as they came, and as they are asked once it is known how their products are
 * cut. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "request.h"
#include "tuning.h"

struct stx__spec *stx__spec_new(struct stx__server *s, Stx__Envelope *e, const Stx__Lookup *what,
				int body_fd, uint32_t charged_bytes, const struct stx_digest *body)
{
	struct stx__spec *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->refs = 1;
	p->s = s;
	p->e = e;
	p->what = what;
	snprintf(p->ns, sizeof p->ns, "%s", what->ns[0] ? what->ns : "default");
	p->options = stx_option_bits(what->options);
	p->body_fd = body_fd;
	p->charged_bytes = charged_bytes;
	if (body_fd >= 0 || what->body_digest.len != STX_DIGEST_BYTES)
		p->body = *body;
	else
		memcpy(p->body.b, what->body_digest.data, STX_DIGEST_BYTES);
	return p;
}

struct stx__spec *stx__spec_ref(struct stx__spec *p)
{
	p->refs++;
	return p;
}

void stx__spec_drop(struct stx__spec *p)
{
	if (!p || --p->refs)
		return;
	if (p->base) {
		stx__spec_drop(p->base);
		stx__cut_drop(p->cut);
		free(p);
		return;
	}
	if (p->body_fd >= 0)
		close(p->body_fd);
	p->s->received_bytes -= p->charged_bytes;
	stx__envelope__free_unpacked(p->e, NULL);
	free(p);
}

int stx__spec_cut(struct stx__pending *p, const struct stx__blob *answer)
{
	struct stx__cut *cut = stx__tune_cut(p, answer);
	struct stx__spec *spec = cut ? calloc(1, sizeof *spec) : NULL;
	if (!spec) {
		stx__cut_drop(cut);
		return 0;
	}
	*spec = *p->spec;
	spec->refs = 1;
	spec->base = p->spec; /* its reference */
	spec->cut = cut;
	spec->made = *p->spec->what;
	spec->made.blockings = cut->list.at;
	spec->made.n_blockings = cut->list.n;
	spec->what = &spec->made;
	p->spec = spec;
	stx__blob_drop(p->names);
	p->names = NULL;
	p->joined = 0;
	return 1;
}

void stx__spec_uncut(struct stx__pending *p)
{
	struct stx__spec *spec = p->spec;
	if (!spec->base)
		return;
	p->spec = stx__spec_ref(spec->base);
	stx__spec_drop(spec);
}
