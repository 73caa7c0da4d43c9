/* test_queue.c: the job queue against a sorted list, on random operations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "queue.h"

static void test_queue_equal_priorities_keep_their_order(void **state)
{
	(void)state;
	struct stx__jobq q = { 0 };
	struct stx__queued e[50] = { 0 };
	for (int i = 0; i < 50; i++)
		assert_int_equal(stx__jobq_push(&q, &e[i], 0), 0);
	for (int i = 0; i < 50; i++) {
		assert_ptr_equal(stx__jobq_top(&q), &e[i]);
		stx__jobq_remove(&q, &e[i]);
	}
	assert_null(stx__jobq_top(&q));
	stx__jobq_free(&q);
}

static void test_queue_ranked_job_moves_up_and_down(void **state)
{
	(void)state;
	struct stx__jobq q = { 0 };
	struct stx__queued e[3] = { 0 };
	for (int i = 0; i < 3; i++)
		stx__jobq_push(&q, &e[i], 0);
	stx__jobq_rank(&q, &e[2], 5);
	assert_ptr_equal(stx__jobq_top(&q), &e[2]);
	stx__jobq_rank(&q, &e[0], 1);
	stx__jobq_rank(&q, &e[2], 0);
	assert_ptr_equal(stx__jobq_top(&q), &e[0]);
	assert_int_equal(e[2].priority, 0);
	stx__jobq_free(&q);
}

static void test_queue_requeued_job_keeps_its_place(void **state)
{
	(void)state;
	struct stx__jobq q = { 0 };
	struct stx__queued e[3] = { 0 };
	for (int i = 0; i < 3; i++)
		stx__jobq_push(&q, &e[i], 0);
	stx__jobq_remove(&q, &e[0]);
	stx__jobq_push(&q, &e[0], 1);
	assert_ptr_equal(stx__jobq_top(&q), &e[0]);
	stx__jobq_free(&q);
}

static int in_queue(const struct stx__queued *e)
{
	return e->pos != 0;
}

static void test_queue_random_operations_match_a_scan(void **state)
{
	(void)state;
	enum { N = 200 };
	unsigned seed = (unsigned)time(NULL);
	print_message("seed %u\n", seed);
	srand(seed);
	struct stx__jobq q = { 0 };
	struct stx__queued e[N] = { 0 };
	for (int step = 0; step < 50000; step++) {
		struct stx__queued *x = &e[rand() % N];
		int op = rand() % 3;
		if (!in_queue(x)) {
			x->priority = (uint32_t)(rand() % 8);
			stx__jobq_push(&q, x, 0);
		} else if (op == 0) {
			stx__jobq_remove(&q, x);
		} else {
			stx__jobq_rank(&q, x, (uint32_t)(rand() % 12));
		}
		struct stx__queued *best = NULL;
		uint32_t n = 0;
		for (int i = 0; i < N; i++) {
			if (!in_queue(&e[i]))
				continue;
			n++;
			assert_ptr_equal(q.at[e[i].pos - 1], &e[i]);
			if (!best || e[i].priority > best->priority ||
			    (e[i].priority == best->priority && e[i].seq < best->seq))
				best = &e[i];
		}
		assert_int_equal(n, q.n);
		assert_ptr_equal(stx__jobq_top(&q), best);
	}
	stx__jobq_free(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_queue_equal_priorities_keep_their_order),
		cmocka_unit_test(test_queue_ranked_job_moves_up_and_down),
		cmocka_unit_test(test_queue_requeued_job_keeps_its_place),
		cmocka_unit_test(test_queue_random_operations_match_a_scan),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
