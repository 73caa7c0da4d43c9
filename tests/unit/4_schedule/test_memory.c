/* test_memory.c: the workspace planner: no live value is overwritten, places are reused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "schedule_impl.h"

/* Writes every item's pattern over its bytes at its first step, checks it at its last one. */
static void simulate(const struct stx__mem_item *items, uint32_t n, uint32_t nsteps, uint64_t total)
{
	uint32_t *owner = malloc((total / 64 + 1) * sizeof *owner);
	memset(owner, 0xff, (total / 64 + 1) * sizeof *owner);
	for (uint32_t step = 0; step < nsteps; step++) {
		for (uint32_t i = 0; i < n; i++) { /* results of this step */
			const struct stx__mem_item *m = &items[i];
			if (m->first != step || !m->bytes)
				continue;
			assert_int_equal(m->offset % 64, 0);
			assert_true(m->offset + m->bytes <= total);
			for (uint64_t b = m->offset / 64; b < (m->offset + m->bytes) / 64; b++) {
				uint32_t was = owner[b];
				if (was != UINT32_MAX && items[was].last >= step &&
				    !(m->took_place && m->in_place == was &&
				      items[was].last == step))
					fail_msg("item %u overwrites item %u at step %u", i, was,
						 step);
				owner[b] = i;
			}
		}
		for (uint32_t i = 0; i < n;
		     i++) { /* operands were still there when the step began */
			const struct stx__mem_item *m = &items[i];
			if (m->last != step || !m->bytes)
				continue;
			for (uint64_t b = m->offset / 64; b < (m->offset + m->bytes) / 64; b++)
				assert_true(owner[b] == i || (items[owner[b]].took_place &&
							      items[owner[b]].in_place == i));
		}
	}
	free(owner);
}

static uint64_t most_alive(const struct stx__mem_item *items, uint32_t n, uint32_t nsteps)
{
	uint64_t most = 0;
	for (uint32_t step = 0; step < nsteps; step++) {
		uint64_t sum = 0;
		for (uint32_t i = 0; i < n; i++)
			if (items[i].first <= step && step <= items[i].last)
				sum += items[i].bytes;
		most = sum > most ? sum : most;
	}
	return most;
}

static void test_memory_random_dags_never_overwrite_live_values(void **state)
{
	(void)state; /* GF-08 */
	unsigned seed = 4711;
	double waste = 0;
	int rounds = 300;
	print_message("seed %u\n", seed);
	for (int round = 0; round < rounds; round++) {
		struct stx_arena *a = stx_arena_new(0);
		uint32_t nsteps = 1 + (uint32_t)rand_r(&seed) % 60, n = 0;
		struct stx__mem_item items[200];
		uint64_t total = 0;
		int equal = round % 3 == 0;
		for (uint32_t step = 0; step < nsteps; step++)
			for (int j = rand_r(&seed) % 3; j >= 0 && n < 200; j--) {
				struct stx__mem_item m = { .first = step, .in_place = STX_NONE };
				uint32_t reach = rand_r(&seed) % 4 ? 4 : nsteps;
				m.last = step + (uint32_t)rand_r(&seed) % reach;
				m.last = m.last < nsteps ? m.last : nsteps - 1;
				m.bytes = equal ? 640
						: (uint64_t)rand_r(&seed) %
							  (1u << rand_r(&seed) % 16);
				for (uint32_t i = 0; i < n; i++)
					if (items[i].last == step && items[i].first < step &&
					    rand_r(&seed) % 2)
						m.in_place = i;
				items[n++] = m;
			}
		assert_int_equal(stx__memory_place(a, items, n, nsteps, &total), 0);
		simulate(items, n, nsteps, total);
		uint64_t least = most_alive(items, n, nsteps);
		waste += least ? (double)total / (double)least : 1;
		stx_arena_free(a);
	}
	print_message("workspace over most bytes alive: %.3f on average\n", waste / rounds);
	assert_true(waste / rounds < 1.25);
}

/* GELU with bias and residual in its 11 instructions (GF-01), each a tensor of 4096x14336 bf16. */
static uint32_t gelu_buffers(int in_place)
{
	/* operands of each instruction; -1: an input or constant */
	static const int ops[11][2] = {
		{ -1, -1 }, /* 0: h = x + b      */
		{ 0, -1 },  /* 1: m = 0.5*h      */
		{ 0, -1 },  /* 2: 0.044715*h     */
		{ 2, 0 },   /* 3: *h             */
		{ 3, 0 },   /* 4: *h             */
		{ 0, 4 },   /* 5: h +            */
		{ 5, -1 },  /* 6: 0.7978845608 * */
		{ 6, -1 },  /* 7: tanh           */
		{ 7, -1 },  /* 8: 1 +            */
		{ 1, 8 },   /* 9: m *            */
		{ 9, -1 },  /* 10: + r           */
	};
	struct stx_arena *a = stx_arena_new(0);
	struct stx__mem_item items[11];
	uint64_t total = 0, size = 117440512;
	for (uint32_t i = 0; i < 11; i++)
		items[i] = (struct stx__mem_item){
			.bytes = size, .first = i, .last = i, .in_place = STX_NONE
		};
	for (uint32_t i = 0; i < 11; i++)
		for (int j = 0; j < 2; j++)
			if (ops[i][j] >= 0)
				items[ops[i][j]].last = i;
	for (uint32_t i = 0; in_place && i < 11; i++)
		for (int j = 1; j >= 0; j--)
			if (ops[i][j] >= 0 && items[ops[i][j]].last == i)
				items[i].in_place = (uint32_t)ops[i][j];
	assert_int_equal(stx__memory_place(a, items, 11, 11, &total), 0);
	simulate(items, 11, 11, total);
	stx_arena_free(a);
	assert_int_equal(total % size, 0);
	return (uint32_t)(total / size);
}

static void test_memory_gelu_needs_three_buffers_with_in_place_four_without(void **state)
{
	(void)state; /* GF-06, GF-07 */
	uint32_t with = gelu_buffers(1), without = gelu_buffers(0);
	assert_int_equal(with, 3); /* 11 -> 3: 1.29 GB -> 352.32 MB */
	assert_int_equal(without, 4);
}

static void test_memory_neighbours_merge_when_free(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx__mem_item items[] = {
		{ .bytes = 64, .first = 0, .last = 0, .in_place = STX_NONE },
		{ .bytes = 100, .first = 0, .last = 1, .in_place = STX_NONE },
		{ .bytes = 1, .first = 0, .last = 0, .in_place = STX_NONE },
		{ .bytes = 256, .first = 2, .last = 2, .in_place = STX_NONE }, /* 64 + 128 + 64 */
		{ .bytes = 320, .first = 3, .last = 3, .in_place = STX_NONE }, /* grows the end */
		{ .bytes = 0, .first = 3, .last = 3, .in_place = STX_NONE },
	};
	uint64_t total = 0;
	assert_int_equal(stx__memory_place(a, items, 6, 4, &total), 0);
	assert_int_equal(items[3].offset, 0);
	assert_int_equal(items[4].offset, 0);
	assert_int_equal(total, 320);
	simulate(items, 6, 4, total);
	stx_arena_free(a);
}

static void test_memory_impossible_sizes_are_errors(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	struct stx__mem_item items[] = {
		{ .bytes = (uint64_t)1 << 62, .first = 0, .last = 2, .in_place = STX_NONE },
		{ .bytes = (uint64_t)1 << 62, .first = 1, .last = 2, .in_place = STX_NONE },
		{ .bytes = (uint64_t)1 << 62, .first = 2, .last = 2, .in_place = STX_NONE },
	};
	uint64_t total = 0;
	assert_int_equal(stx__memory_place(a, items, 3, 3, &total), STX_E_TOO_LARGE);
	items[0].bytes = UINT64_MAX - 3;
	assert_int_equal(stx__memory_place(a, items, 1, 3, &total), STX_E_TOO_LARGE);
	stx_arena_free(a);
}

/* 200,000 values with random lives: ends at once only when no request looks through all free
 * blocks. */
static void test_memory_many_values_take_linear_time(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	uint32_t n = 200000;
	unsigned seed = 99;
	struct stx__mem_item *items = calloc(n, sizeof *items);
	uint64_t total = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t life = (uint32_t)rand_r(&seed) % 5000;
		items[i] = (struct stx__mem_item){ .bytes = 64 + (uint64_t)rand_r(&seed) % 100000,
						   .first = i,
						   .last = i + life < n ? i + life : n - 1,
						   .in_place = STX_NONE };
	}
	assert_int_equal(stx__memory_place(a, items, n, n, &total), 0);
	free(items);
	stx_arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_random_dags_never_overwrite_live_values),
		cmocka_unit_test(test_memory_gelu_needs_three_buffers_with_in_place_four_without),
		cmocka_unit_test(test_memory_neighbours_merge_when_free),
		cmocka_unit_test(test_memory_impossible_sizes_are_errors),
		cmocka_unit_test(test_memory_many_values_take_linear_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
