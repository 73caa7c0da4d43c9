/* tune_ask.h
 * what tests of timings in the daemon share: devices, Tune requests. Included by one file a
 * program. */
#ifndef STX_TESTS_TUNE_ASK_H
#define STX_TESTS_TUNE_ASK_H

#include "harness.h"
#include "timing.h"

#define TARGET "cuda:sm_90a:h200"

struct setting {
	const char *ns, *job, *device, *target;
	int loads;
	uint32_t driver;
};

static void fill_device(Stx__Device *v, const struct setting *s)
{
	stx__device__init(v);
	v->name = (char *)(s && s->device ? s->device : "NVIDIA H200");
	v->multiprocessors = 132;
	v->clock_khz = 1980000;
	v->memory_clock_khz = 3201000;
	v->driver = s && s->driver ? s->driver : 13000;
}

static void fill_job(Stx__Lookup *l, Stx__Device *v, const struct setting *s)
{
	if (s && s->job)
		l->job = (char *)s->job;
	fill_device(v, s);
	l->device = v;
}

/* The answer to a lookup or compile of the graph for the device, with blockings. */
MAYBE_UNUSED static struct reply ask_tuned(int fd, int is_lookup, const char *graph,
					   const char *target, const struct setting *s,
					   Stx__Blocking **given, size_t ngiven)
{
	Stx__Lookup l;
	Stx__Options o;
	Stx__Device v;
	Stx__Compile c = STX__COMPILE__INIT;
	struct stx_digest digest;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	struct ask a = { .graph = graph, .target = target, .ns = s ? s->ns : NULL };
	fill_lookup(&l, &o, &a, &digest);
	fill_job(&l, &v, s);
	l.blockings = given;
	l.n_blockings = ngiven;
	e.request_id = 9;
	e.msg_case = is_lookup ? STX__ENVELOPE__MSG_LOOKUP : STX__ENVELOPE__MSG_COMPILE;
	c.what = &l;
	c.job = l.job;
	if (is_lookup)
		e.lookup = &l;
	else
		e.compile = &c;
	client_send(fd, &e, is_lookup ? NULL : graph, is_lookup ? 0 : strlen(graph));
	return receive_answer(fd);
}

/* "small:30 large:20" as timings of one kernel (its IR); ns 0 means it spills. "": asks. */
static struct reply tune(int fd, const char *ir, const char *timings, const struct setting *s)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__Tune t = STX__TUNE__INIT;
	Stx__Device v;
	Stx__TuneRecord r = STX__TUNE_RECORD__INIT, *list[1] = { &r };
	Stx__Timing at[8], *p[8];
	char names[8][24];
	struct stx_digest digest = stx_digest_of(ir, strlen(ir));
	unsigned ns;
	int n = 0;
	for (const char *c = timings; c && sscanf(c, "%23[^:]:%u", names[n], &ns) == 2; n++) {
		c = (c = strchr(c, ' ')) ? c + 1 : NULL;
		stx__timing__init(&at[n]);
		at[n].config = names[n];
		at[n].verdict = ns ? STX_VERDICT_MEASURED : STX_VERDICT_SPILLS;
		at[n].median_ns = ns;
		at[n].spread_ns = 3;
		at[n].runs = 31;
		at[n].registers = 40;
		p[n] = &at[n];
	}
	fill_device(&v, s);
	r.kernel = (ProtobufCBinaryData){ 32, digest.b };
	r.timings = p;
	r.n_timings = (size_t)n;
	t.ns = (char *)(s && s->ns ? s->ns : "");
	t.job = (char *)(s && s->job ? s->job : "");
	t.loads = s && s->loads;
	t.target = (char *)(s && s->target ? s->target : TARGET);
	t.device = &v;
	t.records = list;
	t.n_records = 1;
	e.request_id = 11;
	e.msg_case = STX__ENVELOPE__MSG_TUNE;
	e.tune = &t;
	client_send(fd, &e, NULL, 0);
	return receive_final(fd);
}

/* The record's timings as "small:30 large:20 ". */
static void expect_tune(int fd, const char *ir, const char *timings, const struct setting *s,
			const char *want)
{
	struct reply r = tune(fd, ir, timings, s);
	char text[256] = "";
	assert_non_null(r.e);
	if (r.e->msg_case != STX__ENVELOPE__MSG_TUNE_REPLY)
		fail_msg("error: %s", r.e->error->text);
	assert_int_equal(r.e->request_id, 11);
	assert_int_equal(r.e->tune_reply->n_records, 1);
	const Stx__TuneRecord *t = r.e->tune_reply->records[0];
	for (size_t i = 0; i < t->n_timings; i++) {
		size_t n = strlen(text);
		snprintf(text + n, sizeof text - n, "%s:%u ", t->timings[i]->config,
			 (unsigned)t->timings[i]->median_ns);
		assert_int_equal(t->timings[i]->runs, 31);
		assert_int_equal(t->timings[i]->spread_ns, 3);
	}
	if (t->n_timings) { /* stored with the device they are of */
		assert_non_null(t->device);
		assert_int_equal(t->device->clock_khz, 1980000);
		assert_true(t->device->driver >= 13000);
	}
	assert_string_equal(text, want);
	reply_free(&r);
}

#endif
