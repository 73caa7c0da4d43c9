/* table.c: open addressing with linear probing and backward-shift deletion. */
#include "table.h"

#include <stdlib.h>

static uint32_t home(const struct stx__table *t, const struct stx_digest *key)
{
	return (uint32_t)stx_digest_short(key) & (t->cap - 1);
}

/* The slot holding key, or the empty one where it belongs. cap > 0. */
static uint32_t find(const struct stx__table *t, const struct stx_digest *key)
{
	uint32_t i = home(t, key);
	while (t->at[i].value && !stx_digest_eq(&t->at[i].key, key))
		i = (i + 1) & (t->cap - 1);
	return i;
}

void *stx__table_get(const struct stx__table *t, const struct stx_digest *key)
{
	return t->n ? t->at[find(t, key)].value : NULL;
}

static int grow(struct stx__table *t)
{
	struct stx__table bigger = { .cap = t->cap ? t->cap * 2 : 64 };
	if (t->cap >= 1u << 30)
		return -1;
	bigger.at = calloc(bigger.cap, sizeof *bigger.at);
	if (!bigger.at)
		return -1;
	for (uint32_t i = 0; i < t->cap; i++)
		if (t->at[i].value)
			bigger.at[find(&bigger, &t->at[i].key)] = t->at[i];
	bigger.n = t->n;
	free(t->at);
	*t = bigger;
	return 0;
}

int stx__table_set(struct stx__table *t, const struct stx_digest *key, void *value)
{
	if (t->n >= t->cap / 4 * 3 && grow(t))
		return -1;
	struct stx__slot *s = &t->at[find(t, key)];
	t->n += !s->value;
	s->key = *key;
	s->value = value;
	return 0;
}

void *stx__table_del(struct stx__table *t, const struct stx_digest *key)
{
	if (!t->n)
		return NULL;
	uint32_t mask = t->cap - 1, hole = find(t, key);
	void *value = t->at[hole].value;
	if (!value)
		return NULL;
	/* Close the gap: move back every later entry of the run that may live at the hole. */
	for (uint32_t i = (hole + 1) & mask; t->at[i].value; i = (i + 1) & mask) {
		uint32_t h = home(t, &t->at[i].key);
		if (((i - h) & mask) >= ((i - hole) & mask)) {
			t->at[hole] = t->at[i];
			hole = i;
		}
	}
	t->at[hole].value = NULL;
	t->n--;
	return value;
}

void stx__table_free(struct stx__table *t)
{
	free(t->at);
	*t = (struct stx__table){ 0 };
}
