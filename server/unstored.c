/* unstored.c: artifacts whose commit failed, in memory until newer ones push them out. */
#include <assert.h>
#include <stdio.h>

#include "request.h"

#define UNSTORED_MAX_BYTES (128ull << 20)

static void drop_oldest(struct stx__server *s)
{
	struct stx__unstored *u = s->unstored;
	assert(u && u->bytes);
	s->unstored = u->next;
	if (!s->unstored)
		s->unstored_last = NULL;
	s->unstored_bytes -= u->bytes->n;
	stx__blob_drop(u->bytes);
	free(u);
}

void stx__unstored_put(struct stx__server *s, const char *ns, const struct stx_digest *digest,
		       struct stx_span bytes)
{
	if (stx__unstored_find(s, ns, digest))
		return;
	struct stx__unstored *u = calloc(1, sizeof *u);
	if (!u || !(u->bytes = stx__blob_copy(bytes.at, bytes.n))) {
		free(u);
		return;
	}
	u->digest = *digest;
	snprintf(u->ns, sizeof u->ns, "%s", ns);
	while (s->unstored && s->unstored_bytes + bytes.n > UNSTORED_MAX_BYTES)
		drop_oldest(s);
	*(s->unstored_last ? &s->unstored_last->next : &s->unstored) = u;
	s->unstored_last = u;
	s->unstored_bytes += bytes.n;
}

struct stx__blob *stx__unstored_find(struct stx__server *s, const char *ns,
				     const struct stx_digest *digest)
{
	for (struct stx__unstored *u = s->unstored; u; u = u->next)
		if (stx_digest_eq(&u->digest, digest) && !strcmp(u->ns, ns))
			return u->bytes;
	return NULL;
}

void stx__unstored_clear(struct stx__server *s)
{
	while (s->unstored)
		drop_oldest(s);
}
