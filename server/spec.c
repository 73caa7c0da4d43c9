/* spec.c: requests as they came, and as they are asked once it is known how their products are
 * cut. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "request.h"
#include "tunes.h"
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
	struct stx__cut *cut = p->not_cut ? NULL : stx__tune_cut(p, answer);
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

static int blames_the_cut(const struct stx__pending *p, stx_err e)
{
	if (!p->spec->base)
		return 0;
	if (e == STX_E_DEADLINE) /* of a job: its processor time */
		return p->waiter.deadline_ms > stx__now_ms(p->s);
	return e != STX_E_CANCELED && e != STX_E_BUSY && e != STX_E_NOMEM;
}

int stx__spec_fall_back(struct stx__pending *p, const struct stx_diag *failure,
			const struct stx_digest *key)
{
	char text[sizeof failure->text + 128];
	if (!blames_the_cut(p, failure->code))
		return 0;
	snprintf(text, sizeof text, STX_TUNES_NOT_CUT, failure->text);
	if (!(p->not_cut = strdup(text)))
		return 0;
	if (key)
		stx_log(STX_LOG_WARN, "%s", text);
	p->s->stats.cuts_failed++;
	/* An internal error is no verdict on a graph; a hint is not tried again all the same. */
	if (key && failure->code == STX_E_INTERNAL && p->s->cache)
		stx_cache_failure_put(p->s->cache, p->spec->ns, key, failure);
	stx__spec_uncut(p);
	stx__blob_drop(p->names);
	p->names = NULL;
	p->joined = p->recache = 0;
	return 1;
}
