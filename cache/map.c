/* map.c: open-addressing table of pointers, linear probing, deletion by shifting back. */
#include "store.h"

static uint64_t hash_of(const void *e)
{
	uint64_t h;
	memcpy(&h, e, sizeof h);
	return h;
}

int stx__map_reserve(struct stx__map *m, size_t more)
{
	if (more > SIZE_MAX / 32 - m->n)
		return -1;
	if ((m->n + more) * 4 <= m->cap * 3)
		return 0;
	size_t cap = m->cap ? m->cap : 64;
	while ((m->n + more) * 4 > cap * 3)
		cap *= 2;
	void **slot = calloc(cap, sizeof *slot);
	if (!slot)
		return -1;
	struct stx__map next = { slot, cap, 0 };
	for (size_t i = 0; i < m->cap; i++)
		if (m->slot[i])
			stx__map_add(&next, m->slot[i]);
	free(m->slot);
	*m = next;
	return 0;
}

void stx__map_add(struct stx__map *m, void *e)
{
	size_t i = hash_of(e) & (m->cap - 1);
	while (m->slot[i])
		i = (i + 1) & (m->cap - 1);
	m->slot[i] = e;
	m->n++;
}

void stx__map_del(struct stx__map *m, void *e)
{
	size_t mask = m->cap - 1, i = hash_of(e) & mask;
	while (m->slot[i] != e)
		i = (i + 1) & mask;
	m->n--;
	for (size_t j = (i + 1) & mask; m->slot[j]; j = (j + 1) & mask) {
		size_t home = hash_of(m->slot[j]) & mask;
		/* j may move to the hole at i only when its home is not between them. */
		if (((j - home) & mask) >= ((j - i) & mask)) {
			m->slot[i] = m->slot[j];
			i = j;
		}
	}
	m->slot[i] = NULL;
}

void *stx__map_next(const struct stx__map *m, uint64_t h, size_t *at)
{
	if (!m->cap)
		return NULL;
	size_t mask = m->cap - 1, i = *at == SIZE_MAX ? (h & mask) : (*at + 1) & mask;
	for (; m->slot[i]; i = (i + 1) & mask)
		if (hash_of(m->slot[i]) == h) {
			*at = i;
			return m->slot[i];
		}
	return NULL;
}

void stx__map_free(struct stx__map *m)
{
	free(m->slot);
	memset(m, 0, sizeof *m);
}
