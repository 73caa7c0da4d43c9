/* test_timing.c: algorithm 9.1 with synthetic timers: what is compiled, checked, timed and chosen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "timing.h"

#define MAX 12

/* A device of numbers. */
struct device {
	uint64_t ns[MAX]; /* of a launch */
	uint32_t spills[MAX];
	stx_err build_error[MAX], check_error[MAX], sample_error[MAX];
	uint64_t noise; /* every third launch takes so much longer */
	int builds[MAX], checks[MAX], samples[MAX], calls;
	char order[4096]; /* candidates in order of launches */
	char lines[2000];
};

static stx_err build(void *ctx, uint32_t c, struct stx_timing *t, struct stx_diag *d)
{
	struct device *v = ctx;
	v->calls++;
	v->builds[c]++;
	t->registers = 20 + c;
	t->spills = v->spills[c];
	return v->build_error[c] ? stx_fail(d, v->build_error[c], "fake", "", "cannot build %u", c)
				 : STX_E_OK;
}

static stx_err check(void *ctx, uint32_t c, struct stx_diag *d)
{
	struct device *v = ctx;
	v->calls++;
	v->checks[c]++;
	return v->check_error[c] ? stx_fail(d, v->check_error[c], "fake", "", "element 7: 1, not 2")
				 : STX_E_OK;
}

static stx_err sample(void *ctx, uint32_t c, uint64_t *ns, struct stx_diag *d)
{
	struct device *v = ctx;
	v->calls++;
	size_t n = strlen(v->order);
	if (n + 1 < sizeof v->order)
		v->order[n] = (char)('0' + c);
	*ns = v->ns[c] + (v->samples[c]++ % 3 == 1 ? v->noise : 0);
	return v->sample_error[c] ? stx_fail(d, v->sample_error[c], "fake", "", "cannot launch")
				  : STX_E_OK;
}

static void line(void *ctx, const char *text)
{
	struct device *v = ctx;
	size_t n = strlen(v->lines);
	snprintf(v->lines + n, sizeof v->lines - n, "%s\n", text);
}

static void names(struct stx_timing *t, uint32_t n)
{
	memset(t, 0, n * sizeof *t);
	for (uint32_t i = 0; i < n; i++)
		snprintf(t[i].config, sizeof t[i].config, "XBLOCK=%u", 32u << i);
}

static stx_err choose(struct device *v, struct stx_timing *t, uint32_t n,
		      const struct stx_measure_limits *l, struct stx_measure_result *r)
{
	struct stx_diag d = { 0 };
	const struct stx_measure m = { v, build, check, sample, line };
	return stx_measure_choose(t, n, &m, l, r, &d);
}

/* Candidates of which nothing is known: what measuring them gives. */
static struct stx_measure_result choose_fresh(struct device *v, struct stx_timing *t, uint32_t n)
{
	struct stx_measure_result r;
	names(t, n);
	assert_int_equal(choose(v, t, n, NULL, &r), 0);
	return r;
}

/* LC-04: one candidate is returned without a measurement. */
static void test_timing_one_candidate_is_not_measured(void **state)
{
	struct device v = { .ns = { 10 } };
	struct stx_timing t[1];
	(void)state;
	struct stx_measure_result r = choose_fresh(&v, t, 1);
	assert_int_equal(r.chosen, 0);
	assert_int_equal(v.calls, 0);
}

/* LC-06, LC-07: candidates are warmed up and launched repeatedly; the least median is chosen and
 * left in the result, whatever order they stand in. */
static void test_timing_least_median_is_chosen(void **state)
{
	struct device v = { .ns = { 3000, 2000, 2500, 4000 }, .noise = 5000 };
	struct stx_timing t[4];
	(void)state;
	struct stx_measure_result r = choose_fresh(&v, t, 4);
	assert_int_equal(r.chosen, 1);
	assert_int_equal(r.measured, 4);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(t[i].verdict, STX_VERDICT_MEASURED);
		assert_int_equal(t[i].median_ns,
				 v.ns[i]); /* a third of outliers does not move it */
		assert_int_equal(t[i].spread_ns, 5000);
		assert_int_equal(t[i].runs, 31);
		assert_int_equal(v.samples[i], 31 + 3);
		assert_int_equal(v.builds[i], 1);
		assert_int_equal(v.checks[i], i > 0); /* against candidate 0 */
		assert_int_equal(t[i].registers, 20 + i);
	}
	assert_memory_equal(v.order, "01230123", 8); /* in turns */
	assert_non_null(strstr(v.lines, "XBLOCK=64: 2.000 us, spread 5.000 us, 31 runs"));
}

/* One that is far behind does not eat the others' budget, and is not chosen. */
static void test_timing_hopeless_candidate_has_the_least_runs(void **state)
{
	struct device v = { .ns = { 3000, 90000000, 2500, 20001 } };
	struct stx_timing t[4];
	struct stx_measure_result r;
	(void)state;
	names(t, 4);
	assert_int_equal(choose(&v, t, 4, NULL, &r), 0);
	assert_int_equal(r.chosen, 2);
	assert_int_equal(r.measured, 4);
	assert_int_equal(t[0].runs, 31);
	assert_int_equal(t[2].runs, 31);
	assert_int_equal(t[1].runs, 5);
	assert_int_equal(t[1].median_ns, 90000000);
	assert_int_equal(t[3].runs, 31); /* eight times the least */
	v.ns[3] = 22500;
	names(t, 4);
	assert_int_equal(choose(&v, t, 4, NULL, &r), 0);
	assert_int_equal(t[3].runs, 5);
	assert_int_equal(t[3].median_ns, 22500);
}

/* LC-03: a record of the candidate set decides without a call. */
static void test_timing_covered_set_is_not_measured(void **state)
{
	struct device v = { .ns = { 1, 2, 3 } };
	struct stx_timing t[3];
	struct stx_measure_result r;
	(void)state;
	names(t, 3);
	for (int i = 0; i < 3; i++) {
		t[i].verdict = STX_VERDICT_MEASURED;
		t[i].median_ns = (uint64_t)(30 - i);
	}
	assert_int_equal(choose(&v, t, 3, NULL, &r), 0);
	assert_int_equal(r.chosen, 2);
	assert_int_equal(v.calls, 0);
}

/* A new candidate is measured, the old timings stay. */
static void test_timing_new_candidate_keeps_old_timings(void **state)
{
	struct device v = { .ns = { 1, 1, 1, 90 } };
	struct stx_timing t[4];
	struct stx_measure_result r;
	(void)state;
	names(t, 4);
	for (int i = 0; i < 3; i++) {
		t[i].verdict = STX_VERDICT_MEASURED;
		t[i].median_ns = (uint64_t)(100 + i);
	}
	assert_int_equal(choose(&v, t, 4, NULL, &r), 0);
	assert_int_equal(r.chosen, 3);
	assert_int_equal(r.measured, 1);
	assert_int_equal(t[0].median_ns, 100);
	assert_int_equal(v.builds[0] + v.builds[1] + v.builds[2], 0);
	assert_int_equal(v.checks[3], 1);
}

/* LC-05: every candidate is compiled; one that spills costs infinitely much and is not launched,
 * however fast it would be. */
static void test_timing_spilling_candidate_is_never_chosen(void **state)
{
	struct device v = { .ns = { 500, 1, 400 }, .spills = { 0, 16, 0 } };
	struct stx_timing t[3];
	(void)state;
	struct stx_measure_result r = choose_fresh(&v, t, 3);
	assert_int_equal(r.chosen, 2);
	assert_int_equal(r.built, 3);
	assert_int_equal(v.samples[1], 0);
	assert_int_equal(t[1].verdict, STX_VERDICT_SPILLS);
	assert_non_null(strstr(v.lines, "XBLOCK=64: not measured, spills 16 bytes"));
	/* The heuristic's own choice as well. */
	v = (struct device){ .ns = { 1, 500 }, .spills = { 8 } };
	r = choose_fresh(&v, t, 2);
	assert_int_equal(r.chosen, 1);
}

/* LC-05: unless all spill: then the least evil, and of equal ones the heuristic's. */
static void test_timing_all_spilling_takes_the_least(void **state)
{
	struct device v = { .spills = { 64, 64, 32 } };
	struct stx_timing t[3];
	(void)state;
	struct stx_measure_result r = choose_fresh(&v, t, 3);
	assert_int_equal(r.chosen, 2);
	assert_int_equal(r.measured, 0);
	v = (struct device){ .spills = { 64, 64, 64 } };
	r = choose_fresh(&v, t, 3);
	assert_int_equal(r.chosen, 0);
}

/* LC-20: tuning affects time only: a candidate whose results differ is rejected with a line,
 * however fast. LC-01: one that does not compile or launch costs infinitely much. */
static void test_timing_differing_or_failing_candidates_are_out(void **state)
{
	struct device v = { .ns = { 500, 1, 1, 1, 450 },
			    .check_error = { 0, STX_E_MISMATCH },
			    .build_error = { 0, 0, STX_E_INTERNAL },
			    .sample_error = { 0, 0, 0, STX_E_INTERNAL } };
	struct stx_timing t[5];
	(void)state;
	struct stx_measure_result r = choose_fresh(&v, t, 5);
	assert_int_equal(r.chosen, 4);
	assert_int_equal(t[1].verdict, STX_VERDICT_REJECTED);
	assert_string_equal(t[1].note, "element 7: 1, not 2");
	assert_int_equal(v.samples[1], 0);
	assert_int_equal(t[2].verdict, STX_VERDICT_FAILED);
	assert_int_equal(t[3].verdict, STX_VERDICT_FAILED);
	assert_int_equal(t[4].median_ns, 450);
	assert_int_equal(t[0].median_ns, 500);
	assert_non_null(strstr(v.lines, "XBLOCK=64: rejected: element 7: 1, not 2"));
	assert_non_null(strstr(v.lines, "XBLOCK=128: failed: cannot build 2"));
}

/* A lost server or exhausted memory says nothing of a candidate. */
static void test_timing_foreign_errors_end_the_measurement(void **state)
{
	static const stx_err errors[] = { STX_E_CONNECT, STX_E_NOMEM, STX_E_DEADLINE,
					  STX_E_UNSUPPORTED, STX_E_NOT_FOUND };
	(void)state;
	for (unsigned i = 0; i < sizeof errors / sizeof *errors; i++) {
		struct device v = { .ns = { 5, 5, 5 }, .build_error = { 0, errors[i] } };
		struct stx_timing t[3];
		struct stx_measure_result r;
		names(t, 3);
		assert_int_equal(choose(&v, t, 3, NULL, &r), errors[i]);
		assert_int_equal(t[1].verdict, STX_VERDICT_NONE);
		assert_int_equal(t[2].verdict, STX_VERDICT_NONE);
		assert_int_equal(r.chosen, 0);
	}
}

/* At most 8 measurements a kernel, and a long kernel is launched five times after its warm-up. */
static void test_timing_limits_bound_candidates_and_time(void **state)
{
	struct device v = { 0 };
	struct stx_timing t[MAX];
	const struct stx_measure_limits two = { .candidates = 2, .runs = 9 };
	(void)state;
	for (int i = 0; i < MAX; i++)
		v.ns[i] = 1000000000u - (uint64_t)i;
	struct stx_measure_result r = choose_fresh(&v, t, MAX);
	assert_int_equal(r.measured, 8);
	assert_int_equal(r.chosen, 7);
	assert_int_equal(v.samples[0], 5 + 3);
	assert_int_equal(v.builds[8], 0);
	memset(&v, 0, sizeof v);
	v.ns[0] = v.ns[1] = v.ns[2] = 10;
	names(t, 3);
	assert_int_equal(choose(&v, t, 3, &two, &r), 0);
	assert_int_equal(r.measured, 2);
	assert_int_equal(t[0].runs, 9);
	assert_int_equal(t[2].verdict, STX_VERDICT_NONE);
	assert_int_equal(r.chosen, 0); /* equal times: the heuristic's */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_timing_one_candidate_is_not_measured),
		cmocka_unit_test(test_timing_least_median_is_chosen),
		cmocka_unit_test(test_timing_hopeless_candidate_has_the_least_runs),
		cmocka_unit_test(test_timing_covered_set_is_not_measured),
		cmocka_unit_test(test_timing_new_candidate_keeps_old_timings),
		cmocka_unit_test(test_timing_spilling_candidate_is_never_chosen),
		cmocka_unit_test(test_timing_all_spilling_takes_the_least),
		cmocka_unit_test(test_timing_differing_or_failing_candidates_are_out),
		cmocka_unit_test(test_timing_foreign_errors_end_the_measurement),
		cmocka_unit_test(test_timing_limits_bound_candidates_and_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
