/* tune_case.h
 * what tests of measured calls share: a server's records in memory, and the run that measures. For
 * programs with cmocka.h included. */
#ifndef STX_TESTS_TUNE_CASE_H
#define STX_TESTS_TUNE_CASE_H

#include "call_case.h"
#include "tuner.h"

/* ---- a server's records ---- */

#define MAX_KEPT 16
static Stx__TuneRecord *kept[MAX_KEPT];
static int nkept, asked, told;
static char lines[8192];

static inline Stx__TuneRecord *find(const uint8_t *digest)
{
	for (int i = 0; i < nkept; i++)
		if (!memcmp(kept[i]->kernel.data, digest, STX_DIGEST_BYTES))
			return kept[i];
	return NULL;
}

static inline Stx__TuneRecord *copy(const Stx__TuneRecord *r)
{
	size_t n = stx__tune_record__get_packed_size(r);
	uint8_t *packed = malloc(n + 1);
	stx__tune_record__pack(r, packed);
	Stx__TuneRecord *out = stx__tune_record__unpack(NULL, n, packed);
	free(packed);
	return out;
}

/* Takes the timings of `said` over; a merged record borrows, what is kept owns. */
static inline Stx__TuneRecord *merge(Stx__TuneRecord *k, const Stx__TuneRecord *said)
{
	Stx__TuneRecord own = *k, *out;
	void *block = NULL;
	assert_int_equal(stx_tunes_merge(k, said, &block), 0);
	out = copy(k);
	*k = own;
	stx__tune_record__free_unpacked(k, NULL);
	free(block);
	return out;
}

static inline stx_err fake_records(const struct stx__about *b, Stx__TuneRecord **said, size_t n,
				   struct stx__received *out, struct stx_diag *d)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__TuneReply r = STX__TUNE_REPLY__INIT;
	Stx__TuneRecord none = STX__TUNE_RECORD__INIT, *list[16];
	(void)b;
	for (size_t i = 0; i < n; i++) {
		Stx__TuneRecord *k = find(said[i]->kernel.data);
		told += said[i]->n_timings > 0;
		asked += said[i]->n_timings == 0;
		assert_int_equal(
			stx_tunes_check(
				&(Stx__Tune){ PROTOBUF_C_MESSAGE_INIT(&stx__tune__descriptor),
					      .device = (Stx__Device *)(uintptr_t)b->device,
					      .job = (char *)(uintptr_t) "", .records = &said[i],
					      .n_records = 1 },
				d),
			0);
		if (said[i]->n_timings && k) {
			int at = 0;
			while (kept[at] != k)
				at++;
			k = kept[at] = merge(k, said[i]);
		} else if (said[i]->n_timings) {
			k = kept[nkept++] = copy(said[i]);
		}
		list[i] = k ? k : &none;
	}
	e.msg_case = STX__ENVELOPE__MSG_TUNE_REPLY;
	e.tune_reply = &r;
	r.records = list;
	r.n_records = n;
	uint8_t *packed = malloc(stx__envelope__get_packed_size(&e) + 1);
	size_t bytes = stx__envelope__pack(&e, packed);
	memset(out, 0, sizeof *out);
	out->e = stx__envelope__unpack(NULL, bytes, packed);
	free(packed);
	return STX_E_OK;
}

static inline stx_err no_code(const struct stx__about *b, const uint8_t kernel[STX_DIGEST_BYTES],
			      const char *config, struct stx__received *out, struct stx_diag *d)
{
	(void)b;
	(void)kernel;
	(void)config;
	(void)out;
	return stx_fail(d, STX_E_NOT_FOUND, "fake", "", "no code");
}

static const struct stx__source fake_source = { .records = fake_records, .code = no_code };

static inline void report(void *ctx, const char *kernel, const char *line)
{
	size_t n = strlen(lines);
	(void)ctx;
	snprintf(lines + n, sizeof lines - n, "%s %s\n", kernel, line);
}

static inline void forget(void)
{
	while (nkept)
		stx__tune_record__free_unpacked(kept[--nkept], NULL);
	asked = told = 0;
	lines[0] = 0;
}

static inline void measure(struct ready *v, uint32_t sweep)
{
	struct stax_tuning o = { .target = TARGET, .report = report, .sweep = sweep };
	struct stax_error err;
	if (stax_tune_next_run(v->c.artifact, NULL, &o, &err))
		fail_msg("%s", err.text);
	v->c.artifact->tuner->source = &fake_source;
	if (run(v, &err))
		fail_msg("%s", err.text);
}

#endif
