/* test_flight.c: joins, deadlines, and who is told of which failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "chain.h"

/* The router needs only counters, the quarantine and a clock of the server. */
static struct stx__server server;
static uv_loop_t loop;

struct fake_waiter {
	struct stx__waiter w; /* first member */
	int told, progress;
	stx_err code;
};

static void told(struct stx__waiter *w, struct stx__flight *f, const struct stx_diag *failure)
{
	struct fake_waiter *x = (struct fake_waiter *)w;
	(void)f;
	assert_null(w->flight); /* it has left already */
	x->told++;
	x->code = failure ? failure->code : 0;
}

static void progressed(struct stx__waiter *w, const char *stage, uint32_t done, uint32_t total)
{
	(void)stage, (void)done, (void)total;
	((struct fake_waiter *)w)->progress++;
}

static int setup(void **state)
{
	(void)state;
	memset(&server, 0, sizeof server);
	uv_loop_init(&loop);
	server.loop = &loop;
	server.quarantine.period_ms = 100000;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	stx__quarantine_free(&server.quarantine);
	stx__table_free(&server.key_flights);
	return uv_loop_close(&loop);
}

static struct stx_digest id(int n)
{
	return stx_digest_of(&n, sizeof n);
}

/* A flight with n waiters whose deadlines are far. */
static void fly(struct stx__flight *f, struct fake_waiter *w, int n)
{
	struct stx_digest d = id(1);
	memset(f, 0, sizeof *f);
	memset(w, 0, sizeof *w * (size_t)n);
	assert_int_equal(stx__flight_start(&server.key_flights, f, &d), 0);
	for (int i = 0; i < n; i++) {
		w[i].w.done = told;
		w[i].w.progress = i ? progressed : NULL;
		w[i].w.deadline_ms = uv_now(&loop) + 1000000;
		stx__flight_join(f, &w[i].w);
	}
}

static struct stx__outcome outcome(enum stx__fate fate, stx_err code)
{
	struct stx__outcome o = { .fate = fate };
	stx_fail(&o.diag, code, "plan", "", "text");
	return o;
}

static void test_flight_joiners_raise_priority_and_deadline(void **state)
{
	(void)state;
	struct stx__flight f = { 0 };
	struct fake_waiter w[3] = { 0 };
	struct stx_digest d = id(1);
	assert_null(stx__flight_find(&server.key_flights, &d));
	stx__flight_start(&server.key_flights, &f, &d);
	assert_ptr_equal(stx__flight_find(&server.key_flights, &d), &f);
	static const uint64_t deadlines[] = { 500, 900, 700 };
	for (int i = 0; i < 3; i++) {
		w[i].w.done = told;
		w[i].w.deadline_ms = deadlines[i];
		stx__flight_join(&f, &w[i].w);
	}
	assert_int_equal(f.joins, 2);
	assert_int_equal(f.deadline_ms, 900);
	assert_ptr_equal(f.first, &w[0].w);
	/* The one with the latest deadline leaves: the deadline stays. */
	stx__flight_leave(&w[1].w);
	assert_int_equal(f.deadline_ms, 900);
	assert_int_equal(f.nwaiters, 2);
	stx__flight_land(&f);
	assert_null(stx__flight_find(&server.key_flights, &d));
	stx__flight_finish(&f, NULL);
	assert_int_equal(w[0].told + w[2].told, 2);
	assert_int_equal(w[1].told, 0);
}

static void test_flight_each_waiter_has_its_own_deadline(void **state)
{
	(void)state;
	struct stx__flight f;
	struct fake_waiter w[3];
	fly(&f, w, 3);
	w[0].w.deadline_ms = 10;
	w[2].w.deadline_ms = 20;
	assert_int_equal(stx__flight_expire(&f, 9), 0);
	assert_int_equal(stx__flight_expire(&f, 20), 2);
	assert_int_equal(w[0].code, STX_E_DEADLINE);
	assert_int_equal(w[2].code, STX_E_DEADLINE);
	assert_int_equal(w[1].told, 0);
	assert_ptr_equal(f.first, &w[1].w);
	assert_ptr_equal(f.last, &w[1].w);
	stx__flight_land(&f);
	stx__flight_finish(&f, NULL);
}

static void test_flight_progress_reaches_those_who_asked(void **state)
{
	(void)state;
	struct stx__flight f;
	struct fake_waiter w[3];
	fly(&f, w, 3);
	stx__flight_progress(&f, "plan", 0, 1);
	assert_int_equal(w[0].progress, 0);
	assert_int_equal(w[1].progress + w[2].progress, 2);
	assert_string_equal(f.stage, "plan");
	stx__flight_land(&f);
	stx__flight_finish(&f, NULL);
}

static void test_flight_deterministic_diagnostic_reaches_every_waiter(void **state)
{
	(void)state;
	static const stx_err codes[] = { STX_E_INVALID, STX_E_UNSUPPORTED, STX_E_TOO_LARGE,
					 STX_E_COMPILE, STX_E_INTERNAL };
	for (unsigned i = 0; i < sizeof codes / sizeof *codes; i++) {
		struct stx__flight f;
		struct fake_waiter w[3];
		struct stx__attempts a = { 0 };
		struct stx__outcome o = outcome(STX__FATE_DIAGNOSED, codes[i]);
		fly(&f, w, 3);
		assert_int_equal(stx__failure_route(&server, &f, &a, &o), STX__NEXT_END);
		for (int k = 0; k < 3; k++)
			assert_int_equal(w[k].code, codes[i]);
		assert_null(f.table);
		/* An internal fault is everybody's, but no verdict on the graph. */
		assert_int_equal(stx__failure_is_final(&o), codes[i] != STX_E_INTERNAL);
	}
}

static void test_flight_memory_kill_is_the_leaders_alone(void **state)
{
	(void)state;
	static const enum stx__fate fates[] = { STX__FATE_MEMORY, STX__FATE_CPU };
	for (int i = 0; i < 2; i++) {
		struct stx__flight f;
		struct fake_waiter w[3];
		struct stx__attempts a = { 0 };
		struct stx__outcome o = outcome(fates[i], STX_E_TOO_LARGE);
		fly(&f, w, 3);
		assert_int_equal(stx__failure_is_final(&o), 0);
		assert_int_equal(stx__failure_route(&server, &f, &a, &o), STX__NEXT_RESTART);
		assert_int_equal(w[0].code, STX_E_TOO_LARGE);
		assert_int_equal(w[1].told + w[2].told, 0);
		assert_ptr_equal(f.first, &w[1].w); /* the new leader */
		/* The second kill is the graph's fault. */
		assert_int_equal(stx__failure_route(&server, &f, &a, &o), STX__NEXT_END);
		assert_int_equal(w[1].code, STX_E_TOO_LARGE);
		assert_int_equal(w[2].code, STX_E_QUARANTINED);
		struct stx_digest d = id(1);
		stx__quarantine_forget(&server.quarantine, &d);
	}
}

static void test_flight_crash_is_retried_once_then_quarantined(void **state)
{
	(void)state;
	struct stx__flight f;
	struct fake_waiter w[2];
	struct stx__attempts a = { 0 };
	struct stx__outcome o = outcome(STX__FATE_CRASHED, STX_E_CRASHED);
	uint64_t until;
	fly(&f, w, 2);
	assert_int_equal(stx__failure_route(&server, &f, &a, &o), STX__NEXT_RETRY);
	assert_int_equal(w[0].told + w[1].told, 0);
	assert_int_equal(stx__failure_route(&server, &f, &a, &o), STX__NEXT_END);
	assert_int_equal(w[0].code, STX_E_CRASHED);
	assert_int_equal(w[1].code, STX_E_QUARANTINED);
	struct stx_digest d = id(1);
	assert_int_equal(stx__quarantine_has(&server.quarantine, &d, uv_now(&loop), &until), 1);
}

static void test_flight_kill_from_outside_never_quarantines(void **state)
{
	(void)state;
	struct stx__flight f;
	struct fake_waiter w[2];
	struct stx__attempts a = { 0 };
	struct stx__outcome o = outcome(STX__FATE_KILLED, STX_E_CRASHED);
	fly(&f, w, 2);
	assert_int_equal(stx__failure_route(&server, &f, &a, &o), STX__NEXT_RETRY);
	assert_int_equal(stx__failure_route(&server, &f, &a, &o), STX__NEXT_RETRY);
	assert_int_equal(stx__failure_route(&server, &f, &a, &o), STX__NEXT_RESTART);
	assert_int_equal(w[0].code, STX_E_CRASHED);
	assert_int_equal(w[1].told, 0);
	assert_int_equal(server.quarantine.table.n, 0);
	stx__flight_land(&f);
	stx__flight_finish(&f, NULL);
}

static void test_flight_deadline_kill_spares_a_waiter_with_more_time(void **state)
{
	(void)state;
	struct stx__flight f;
	struct fake_waiter w[2];
	struct stx__attempts a = { 0 };
	struct stx__outcome o = outcome(STX__FATE_DEADLINE, STX_E_DEADLINE);
	fly(&f, w, 2);
	w[0].w.deadline_ms = 0;
	assert_int_equal(stx__failure_route(&server, &f, &a, &o), STX__NEXT_RETRY);
	assert_int_equal(w[0].code, STX_E_DEADLINE);
	assert_int_equal(w[1].told, 0);
	w[1].w.deadline_ms = 0;
	assert_int_equal(stx__failure_route(&server, &f, &a, &o), STX__NEXT_END);
	assert_int_equal(w[1].code, STX_E_DEADLINE);
}

static void test_flight_worker_out_of_memory_names_the_limit(void **state)
{
	(void)state;
	struct stx__flight f;
	struct fake_waiter w[1];
	struct stx__attempts a = { 0 };
	struct stx__outcome o = outcome(STX__FATE_DIAGNOSED, STX_E_NOMEM);
	fly(&f, w, 1);
	server.cfg.worker_memory = 512 << 20;
	assert_int_equal(stx__failure_route(&server, &f, &a, &o), STX__NEXT_END);
	assert_int_equal(w[0].code, STX_E_TOO_LARGE);
	assert_int_equal(stx__failure_is_final(&o), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_flight_joiners_raise_priority_and_deadline),
		T(test_flight_each_waiter_has_its_own_deadline),
		T(test_flight_progress_reaches_those_who_asked),
		T(test_flight_deterministic_diagnostic_reaches_every_waiter),
		T(test_flight_memory_kill_is_the_leaders_alone),
		T(test_flight_crash_is_retried_once_then_quarantined),
		T(test_flight_kill_from_outside_never_quarantines),
		T(test_flight_deadline_kill_spares_a_waiter_with_more_time),
		T(test_flight_worker_out_of_memory_names_the_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
