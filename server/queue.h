/* queue.h
 * jobs that wait for a worker: highest priority first, then in order of arrival. */
#ifndef STX_QUEUE_H
#define STX_QUEUE_H

#include <stdint.h>

/* Embedded in whatever waits. pos is 0 outside a queue. */
struct stx__queued {
	uint32_t priority;
	uint32_t pos; /* 1 + index in the heap */
	uint64_t seq;
};

/* A binary heap; zero-initialise, stx__jobq_free at the end. Entries are the owner's. */
struct stx__jobq {
	struct stx__queued **at;
	uint32_t n, cap;
	uint64_t seq;
};

/* 0, or -1 when out of memory. A job that was in the queue before keeps its place in the order of
 * arrival when keep_seq is set. */
int stx__jobq_push(struct stx__jobq *q, struct stx__queued *e, int keep_seq);
struct stx__queued *stx__jobq_top(const struct stx__jobq *q); /* NULL when empty */
void stx__jobq_remove(struct stx__jobq *q, struct stx__queued *e);
/* Up or down; e need not be in the queue. */
void stx__jobq_rank(struct stx__jobq *q, struct stx__queued *e, uint32_t priority);
void stx__jobq_free(struct stx__jobq *q);

#endif
