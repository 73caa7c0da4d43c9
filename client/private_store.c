/* private_store.c: bytes by digest. */
#include "private_store.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BYTES ((size_t)256 << 20)

void stx__private_clear(struct stx__private_store *s)
{
	for (size_t i = 0; i < s->cap; i++)
		if (s->at[i]) {
			stx_bytes_free(&s->at[i]->bytes);
			stx_bytes_free(&s->at[i]->meta);
			free(s->at[i]);
		}
	free(s->at);
	memset(s, 0, sizeof *s);
}

static struct stx__private_entry **slot_of(const struct stx__private_store *s,
					   const struct stx_digest *id)
{
	size_t i = (size_t)stx_digest_short(id) & (s->cap - 1);
	while (s->at[i] && !stx_digest_eq(&s->at[i]->id, id))
		i = (i + 1) & (s->cap - 1);
	return &s->at[i];
}

const struct stx__private_entry *stx__private_find(const struct stx__private_store *s,
						   const struct stx_digest *id)
{
	return s->cap ? *slot_of(s, id) : NULL;
}

static int grow(struct stx__private_store *s)
{
	struct stx__private_store bigger = { .cap = s->cap ? s->cap * 2 : 64,
					     .n = s->n,
					     .bytes = s->bytes };
	if ((s->n + 1) * 2 <= s->cap)
		return 0;
	bigger.at = calloc(bigger.cap, sizeof *bigger.at);
	if (!bigger.at)
		return -1;
	for (size_t i = 0; i < s->cap; i++)
		if (s->at[i])
			*slot_of(&bigger, &s->at[i]->id) = s->at[i];
	free(s->at);
	*s = bigger;
	return 0;
}

const struct stx__private_entry *stx__private_put(struct stx__private_store *s,
						  const struct stx_digest *id,
						  struct stx_span bytes, struct stx_bytes *meta)
{
	if (s->bytes + bytes.n > MOST_BYTES)
		stx__private_clear(s);
	struct stx__private_entry *e = grow(s) ? NULL : calloc(1, sizeof *e);
	if (!e || stx_bytes_put(&e->bytes, bytes.at, bytes.n)) {
		free(e);
		stx_bytes_free(meta);
		return NULL;
	}
	e->id = *id;
	e->content = stx_digest_of(e->bytes.at, e->bytes.n);
	e->meta = *meta;
	memset(meta, 0, sizeof *meta);
	struct stx__private_entry **slot = slot_of(s, id);
	if (*slot) { /* compiled again on request */
		s->bytes -= (*slot)->bytes.n;
		stx_bytes_free(&(*slot)->bytes);
		stx_bytes_free(&(*slot)->meta);
		free(*slot);
		s->n--;
	}
	*slot = e;
	s->n++;
	s->bytes += bytes.n;
	return e;
}
