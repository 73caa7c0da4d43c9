/* queue.c: a binary heap with positions, so that entries can be raised and removed. */
#include "queue.h"

#include <assert.h>
#include <stdlib.h>

static int before(const struct stx__queued *a, const struct stx__queued *b)
{
	return a->priority != b->priority ? a->priority > b->priority : a->seq < b->seq;
}

static void put(struct stx__jobq *q, uint32_t i, struct stx__queued *e)
{
	q->at[i] = e;
	e->pos = i + 1;
}

static void sift_up(struct stx__jobq *q, uint32_t i, struct stx__queued *e)
{
	while (i && before(e, q->at[(i - 1) / 2])) {
		put(q, i, q->at[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	put(q, i, e);
}

static void sift_down(struct stx__jobq *q, uint32_t i, struct stx__queued *e)
{
	for (;;) {
		uint32_t child = 2 * i + 1;
		if (child + 1 < q->n && before(q->at[child + 1], q->at[child]))
			child++;
		if (child >= q->n || !before(q->at[child], e))
			break;
		put(q, i, q->at[child]);
		i = child;
	}
	put(q, i, e);
}

int stx__jobq_push(struct stx__jobq *q, struct stx__queued *e, int keep_seq)
{
	assert(!e->pos);
	if (q->n == q->cap) {
		uint32_t cap = q->cap ? q->cap * 2 : 64;
		struct stx__queued **at = realloc(q->at, cap * sizeof(void *));
		if (!at)
			return -1;
		q->at = at;
		q->cap = cap;
	}
	if (!keep_seq)
		e->seq = ++q->seq;
	q->n++;
	sift_up(q, q->n - 1, e);
	return 0;
}

struct stx__queued *stx__jobq_top(const struct stx__jobq *q)
{
	return q->n ? q->at[0] : NULL;
}

void stx__jobq_remove(struct stx__jobq *q, struct stx__queued *e)
{
	assert(e->pos && q->at[e->pos - 1] == e);
	uint32_t i = e->pos - 1;
	struct stx__queued *last = q->at[--q->n];
	e->pos = 0;
	if (last == e)
		return;
	if (i && before(last, q->at[(i - 1) / 2]))
		sift_up(q, i, last);
	else
		sift_down(q, i, last);
}

void stx__jobq_rank(struct stx__jobq *q, struct stx__queued *e, uint32_t priority)
{
	int up = priority > e->priority;
	e->priority = priority;
	if (!e->pos)
		return;
	if (up)
		sift_up(q, e->pos - 1, e);
	else
		sift_down(q, e->pos - 1, e);
}

void stx__jobq_free(struct stx__jobq *q)
{
	free(q->at);
	*q = (struct stx__jobq){ 0 };
}
